"""Element-wise operations: Bessel and elliptic functions, orthogonal polynomials."""

from __future__ import annotations

from math import factorial

from .elementwise import POSITIVE
from .special_functions import ours, polynomial, refused, scipys

# --- Element-wise operations: Bessel functions and their kin, named as in SciPy -------------------


_BETWEEN = ((1.5, 3.5), (0.5, 2.0))


def _order(name: str) -> str:
    return refused(name, "v", "its order")


# by their neighbours: differences of orders cancel nowhere that the function itself does not
scipys("j0", "x", "", "-np.j1(x)", doc="Bessel function of the first kind of order 0")
scipys(
    "j1",
    "x",
    "",
    "0.5 * (np.j0(x) - np.jv(2.0, x))",
    doc="Bessel function of the first kind of order 1",
)
scipys(
    "y0",
    "x",
    "",
    "-np.y1(x)",
    doc="Bessel function of the second kind of order 0",
    domain=POSITIVE,
)
scipys(
    "y1",
    "x",
    "",
    "0.5 * (np.y0(x) - np.yv(2.0, x))",
    doc="Bessel function of the second kind of order 1",
    domain=POSITIVE,
)
_DIFFERENCE = "0.5 * (np.{0}(v - 1.0, x) - np.{0}(v + 1.0, x))"
_SUM = "0.5 * (np.{0}(v - 1.0, x) + np.{0}(v + 1.0, x))"
# by the order: of `codegen/order_derivatives.py`, those of K of `codegen/bessel_derivatives.py`
for _name, _form in (
    ("jv", _DIFFERENCE),
    ("yv", _DIFFERENCE),
    ("iv", _SUM),
    ("ive", _SUM + " - np.{0}(v, x)"),
    ("kv", "-" + _SUM),
    ("kve", "-" + _SUM + " + np.{0}(v, x)"),
):
    for _by, _next in (
        ("dv", f"np.{_name}_dvv(v, x)"),
        ("dvv", refused(_name, "v", "its order, a third time")),
    ):
        ours(
            f"{_name}_{_by}",
            "v x",
            _next,
            _form.format(f"{_name}_{_by}"),
            doc=f"derivative of {_name} by its order",
            domain=_BETWEEN,
        )
for _name, _form, _doc in (
    ("jv", _DIFFERENCE, "Bessel function of the first kind"),
    ("yv", _DIFFERENCE, "Bessel function of the second kind"),
    ("iv", _SUM, "modified Bessel function of the first kind"),
    ("kv", "-" + _SUM, "modified Bessel function of the second kind"),
):
    scipys(
        _name,
        "v x",
        "",
        f"np.{_name}_dv(v, x)",
        _form.format(_name),
        doc=_doc,
        domain=_BETWEEN,
        also="scipy.special.jn" if _name == "jv" else "",
    )
    if _name in ("jv", "yv"):  # of real numbers they are not scaled
        scipys(
            f"{_name}e",
            "v x",
            "",
            f"np.{_name}_dv(v, x)",
            _form.format(f"{_name}e"),
            doc=f"{_doc}, scaled",
            domain=_BETWEEN,
        )
for _name, _of_all in (("kn", "-0.5 * (np.kv({0} - 1.0, x) + np.kv({0} + 1.0, x))"),) + (
    ("yn", "0.5 * (np.yv({0} - 1.0, x) - np.yv({0} + 1.0, x))"),
):
    scipys(
        _name,
        "n x",
        "",
        refused(_name, "n", "its order, a whole number"),
        _of_all.format("np.trunc(n)"),
        doc=f"{_name[0]}v of a whole order",
        domain=((2.0, 2.0), POSITIVE),
    )

# those scaled by exp(−|x|) or exp(x)
_AWKWARD = "for large x the derivative is a series, since differences cancel"


def _scaled(sign: int, constant: float, square: str, near: str) -> dict:
    """The derivative of a scaled function, and what it reads; `square` is that of 4 v.

    For large x the function is √(c/x) (1 + a/x + …), of which each term has its derivative
    (DLMF 10.40.1, 10.40.2).
    """
    steps = [
        ("square", square),
        ("far", "x > 100.0 * (1.0 + square)"),
        ("u", "1.0 / select(far, x, 1.0)"),
        ("c0", "-1.0"),
    ]
    total = ""
    for k in range(1, 8):
        steps.append(
            (f"c{k}", f"c{k - 1} * (square - {(2 * k - 1) ** 2}.0) / {sign * 8 * k}.0 * u")
        )
        total += f" + {k + 0.5} * c{k}"
    series = f"{constant!r} * u * np.sqrt(u) * (-0.5{total})"
    return {
        "partial": f"select(far, {series}, {near})",
        "steps": tuple(steps),
        "awkward": _AWKWARD,
    }


_SQUARE, _OF_I, _OF_K = "4.0 * v * v", (-1, 0.3989422804014327), (1, 1.2533141373155003)
for _name, _inputs, _kind, _square, _near, _doc in (
    (
        "ive",
        "v x",
        _OF_I,
        _SQUARE,
        "0.5 * (np.ive(v - 1.0, x) + np.ive(v + 1.0, x)) - np.sign(x) * out",
        "iv, scaled by exp(−|x|)",
    ),
    (
        "kve",
        "v x",
        _OF_K,
        _SQUARE,
        "out - 0.5 * (np.kve(v - 1.0, x) + np.kve(v + 1.0, x))",
        "kv, scaled by exp(x)",
    ),
    ("k0e", "x", _OF_K, "0.0 * x", "out - np.k1e(x)", "k0, scaled by exp(x)"),
    ("k1e", "x", _OF_K, "4.0 + 0.0 * x", "out - np.k0e(x) - out / x", "k1, scaled by exp(x)"),
):
    _fields = _scaled(*_kind, _square, _near)
    _partial = _fields.pop("partial")
    _first = [f"np.{_name}_dv(v, x)"] if _inputs == "v x" else []
    scipys(
        _name,
        _inputs,
        "",
        *_first,
        _partial,
        doc=_doc,
        domain=_BETWEEN if _first else POSITIVE,
        **_fields,
    )


def _far(order: int) -> list[float]:
    """The coefficients of 1/xᵏ in √(2πx) exp(−x) I(x), for large x (DLMF 10.40.1)."""
    found = [1.0]
    for k in range(1, 13):
        found.append(-found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return found


def _slope_far(order: int) -> list[float]:
    """The same of the derivative of exp(−x) I(x), but for one factor 1/x."""
    return [-(k + 0.5) * c for k, c in enumerate(_far(order))]


_INVERSE = ("size", "select(np.absolute(x) > 40.0, np.absolute(x), 40.0)"), ("u", "1.0 / size")
for _name, _near in (
    ("i0e", "np.i1e(x) - np.sign(x) * out"),
    ("i1e", "0.5 * (np.i0e(x) + np.ive(2.0, x)) - np.sign(x) * out"),
):
    _sign = "np.sign(x) * " if _name == "i0e" else ""
    _scale = f"{_sign}0.3989422804014327 * u * np.sqrt(u)"
    scipys(
        _name,
        "x",
        "",
        f"select(np.absolute(x) > 40.0, {_scale} * {polynomial('u', _slope_far(int(_name[1])))}, "
        f"{_near})",
        doc=f"{_name[:2]}, scaled by exp(−|x|)",
        domain=POSITIVE,
        awkward="beyond 40 the derivative is a series, since i0e and i1e cancel; at 0 the mean of "
        "both sides",
        steps=_INVERSE,
    )

# Struve functions (DLMF 11.4.27, 11.4.28)
_POWER = "np.power(0.5 * x, v) * np.rgamma(v + 1.5) * 0.5641895835477563"
for _name, _sign, _doc in (("struve", "-", "Struve function"), ("modstruve", "+", "modified one")):
    scipys(
        _name,
        "v x",
        "",
        _order(_name),
        f"0.5 * (np.{_name}(v - 1.0, x) {_sign} np.{_name}(v + 1.0, x) + {_POWER})",
        doc="Struve function" if _name == "struve" else "modified Struve function",
        domain=_BETWEEN,
    )


def _kelvin(name: str) -> str:
    """The derivative of ber or bei over x, near 0, as a polynomial of (x/2)⁴."""
    shift = 0 if name == "ber" else 1
    found = []
    for k in range(1 - shift, 8):
        power = 4 * k + 2 * shift
        found.append((-1) ** k * power / factorial(2 * k + shift) ** 2)
    return polynomial("fourth", found)


# x² w″ + x w′ = i x² w, for w = ber + i bei
_SMALL = (
    ("near", "select(np.absolute(x) < 1.0, x, 0.0)"),
    ("far", "select(np.absolute(x) < 1.0, 1.0, x)"),
    ("fourth", "0.0625 * near * near * near * near"),
)
for _name, _other, _sign, _start in (
    ("ber", "bei", "-", "0.0625 * near * near"),
    ("bei", "ber", "", "0.25"),
):
    scipys(_name, "x", "", f"np.{_name}p(x)", doc=f"Kelvin function {_name}")
    scipys(
        f"{_name}p",
        "x",
        "",
        f"{_sign}np.{_other}(x) - select(np.absolute(x) < 1.0, {_start} * {_kelvin(_name)}, "
        "out / far)",
        doc=f"derivative of {_name}",
        steps=_SMALL,
    )
for _name, _other, _sign in (("ker", "kei", "-"), ("kei", "ker", "")):
    scipys(_name, "x", "", f"np.{_name}p(x)", doc=f"Kelvin function {_name}", domain=POSITIVE)
    scipys(
        f"{_name}p",
        "x",
        "",
        f"{_sign}np.{_other}(x) - out / x",
        doc=f"derivative of {_name}",
        domain=POSITIVE,
    )

# Airy functions: each call has several results
for _name, _extra, _more in (
    ("airy", ("", ""), ""),
    ("airye", (" + root * np.{0}(x)", " - root * np.{0}(x)"), ", scaled"),
):
    for _k, (_one, _slope) in enumerate((("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"))):
        _text = f"np.{_name}_{_slope}(x)" if _one in "ac" else f"x * np.{_name}_{_slope}(x)"
        scipys(
            f"{_name}_{_one}",
            "x",
            "",
            _text + _extra[_k // 2].format(f"{_name}_{_one}"),
            theirs=_name,
            outputs=4,
            which=_k,
            doc=("Ai", "Ai′", "Bi", "Bi′")[_k] + _more,
            domain=POSITIVE,
            steps=(("root", "np.sqrt(np.maximum(x, 0.0))"),) if _more else (),
        )


# --- Element-wise operations: elliptic integrals and Jacobi's functions, named as in SciPy --------


# near m = 0, where E and K cancel, by hypergeometric functions
_K_NEAR, _E_NEAR = [
    f"{sign}0.39269908169872414 * np.hyp2f1({a}, 1.5, 2.0, near)"
    for sign, a in (("", 1.5), ("-", 0.5))
]
_NEAR = (
    ("near", "select(np.absolute(m) < 0.5, m, 0.0)"),
    ("far", "select(np.absolute(m) < 0.5, -1.0, m)"),
)
scipys(
    "ellipk",
    "m",
    "",
    f"select(np.absolute(m) < 0.5, {_K_NEAR}, 0.5 * (np.ellipe(far) / (1.0 - far) - out) / far)",
    doc="complete elliptic integral of the first kind",
    domain=(-0.9, 0.9),
    steps=_NEAR,
)
scipys(
    "ellipe",
    "m",
    "",
    f"select(np.absolute(m) < 0.5, {_E_NEAR}, 0.5 * (out - np.ellipk(far)) / far)",
    doc="complete elliptic integral of the second kind",
    domain=(-0.9, 0.9),
    steps=_NEAR,
)
scipys(
    "ellipkm1",
    "p",
    "",
    f"select(np.absolute(1.0 - p) < 0.5, -{_K_NEAR}, "
    "0.5 * (out - np.ellipe(1.0 - far) / far) / (1.0 - far))",
    doc="complete elliptic integral of the first kind of 1 − p",
    domain=POSITIVE,
    steps=(
        ("near", "select(np.absolute(1.0 - p) < 0.5, 1.0 - p, 0.0)"),
        ("far", "select(np.absolute(1.0 - p) < 0.5, 2.0, p)"),
    ),
)
# Carlson's forms (DLMF 19.18.1)
scipys(
    "elliprf",
    "x y z",
    "",
    "np.elliprd(y, z, x) / -6.0",
    "np.elliprd(x, z, y) / -6.0",
    "np.elliprd(x, y, z) / -6.0",
    doc="Carlson's symmetric elliptic integral of the first kind",
    domain=(POSITIVE, POSITIVE, POSITIVE),
)
scipys(
    "elliprc",
    "x y",
    "",
    "np.elliprd(y, y, x) / -6.0",
    "np.elliprd(x, y, y) / -3.0",
    doc="Carlson's degenerate elliptic integral",
    domain=POSITIVE,
)
scipys(
    "elliprd",
    "x y z",
    "",
    *[refused("elliprd", one, "an argument") for one in "xyz"],
    doc="Carlson's elliptic integral of the second kind",
    domain=POSITIVE,
)
# of an angle, which is a multiple of π and the rest: of the rest by Carlson's forms
_ANGLE = (
    ("turns", "np.rint(phi / 3.141592653589793)"),
    ("s", "np.sin(phi - 3.141592653589793 * turns)"),
    ("c", "np.cos(phi)"),
    ("rest", "1.0 - m * s * s"),
    ("cube", "s * s * s / 6.0"),
)
scipys(
    "ellipkinc",
    "phi m",
    "",
    "1.0 / np.sqrt(1.0 - m * np.sin(phi) * np.sin(phi))",
    "cube * np.elliprd(c * c, 1.0, rest) + turns * np.elliprd(0.0, 1.0, 1.0 - m) / 3.0",
    doc="elliptic integral of the first kind",
    domain=((-2.0, 2.0), (-0.9, 0.9)),
    steps=_ANGLE,
)
scipys(
    "ellipeinc",
    "phi m",
    "",
    "np.sqrt(1.0 - m * np.sin(phi) * np.sin(phi))",
    "-cube * np.elliprd(c * c, rest, 1.0) - turns * np.elliprd(0.0, 1.0 - m, 1.0) / 3.0",
    doc="elliptic integral of the second kind",
    domain=((-2.0, 2.0), (-0.9, 0.9)),
    steps=_ANGLE,
)
# sn, cn, dn and the amplitude, whose derivative by m is that of the integral which it inverts
_AMPLITUDE = (
    ("sn", "np.ellipj_a(u, m)"),
    ("cn", "np.ellipj_b(u, m)"),
    ("dn", "np.ellipj_c(u, m)"),
    ("phi", "np.ellipj_d(u, m)"),
    *_ANGLE,
    (
        "of_m",
        "-dn * (cube * np.elliprd(c * c, 1.0, rest) + turns * np.elliprd(0.0, 1.0, 1.0 - m) / 3.0)",
    ),
)
for _k, (_of_u, _of_m, _doc) in enumerate(
    (
        ("cn * dn", "cn * of_m", "sn"),
        ("-sn * dn", "-sn * of_m", "cn"),
        ("-m * sn * cn", "(-0.5 * sn * sn - m * sn * cn * of_m) / dn", "dn"),
        ("dn", "of_m", "amplitude"),
    )
):
    scipys(
        f"ellipj_{'abcd'[_k]}",
        "u m",
        "",
        _of_u,
        _of_m,
        theirs="ellipj",
        outputs=4,
        which=_k,
        doc=f"Jacobi's elliptic function {_doc}",
        domain=((-2.0, 2.0), (0.1, 0.9)),
        steps=_AMPLITUDE,
    )


# --- Element-wise operations: orthogonal polynomials of given degrees, named as in SciPy ----------


_JACOBI = "0.5 * ({n} + {sum} + 1.0) * np.eval_jacobi({n} - 1.0, {a} + 1.0, {b} + 1.0, {x})"
_SECOND = "np.eval_gegenbauer(n - 1.0, 2.0, {0})"
#: By name: parameters, and the derivative for a degree that is not 0.
_FAMILIES = {
    "jacobi": ("alpha beta", _JACOBI.format(n="n", sum="alpha + beta", a="alpha", b="beta", x="x")),
    "sh_jacobi": (
        "p q",
        "(n + p) * np.eval_jacobi(n - 1.0, p - q + 1.0, q, 2.0 * x - 1.0) "
        "/ np.binom(2.0 * n + p - 1.0, n)",
    ),
    "gegenbauer": ("alpha", "2.0 * alpha * np.eval_gegenbauer(n - 1.0, alpha + 1.0, x)"),
    "chebyt": ("", "n * np.eval_chebyu(n - 1.0, x)"),
    "chebyu": ("", f"2.0 * {_SECOND.format('x')}"),
    "chebyc": ("", "n * np.eval_chebyu(n - 1.0, 0.5 * x)"),
    "chebys": ("", _SECOND.format("0.5 * x")),
    "sh_chebyt": ("", "2.0 * n * np.eval_chebyu(n - 1.0, 2.0 * x - 1.0)"),
    "sh_chebyu": ("", f"4.0 * {_SECOND.format('2.0 * x - 1.0')}"),
    "legendre": ("", _JACOBI.format(n="n", sum="0.0", a="0.0", b="0.0", x="x")),
    "sh_legendre": (
        "",
        "(n + 1.0) * np.eval_jacobi(n - 1.0, 1.0, 1.0, 2.0 * x - 1.0)",
    ),
    "genlaguerre": ("alpha", "-np.eval_genlaguerre(n - 1.0, alpha + 1.0, x)"),
    "laguerre": ("", "-np.eval_genlaguerre(n - 1.0, 1.0, x)"),
    "hermite": ("", "2.0 * n * np.eval_hermite(n - 1.0, x)"),
    "hermitenorm": ("", "n * np.eval_hermitenorm(n - 1.0, x)"),
}
for _name, (_parameters, _slope) in _FAMILIES.items():
    _full = f"eval_{_name}"
    scipys(
        _full,
        f"n {_parameters} x",
        "",
        refused(_full, "n", "the degree"),
        *[refused(_full, one, "a parameter") for one in _parameters.split()],
        # of a negative degree those that SciPy calls may be 0
        f"select(n == 0.0, 0.0, select(n < 0.0, 0.0 / (n - n), {_slope}))",
        whole=True,
        doc=f"polynomial of degree n: {_name}",
        domain=((3.0, 3.0), *[(1.2, 1.2)] * len(_parameters.split()), (0.1, 0.9)),
    )

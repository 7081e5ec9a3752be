"""Element-wise operations: elementary functions, error functions, integrals, named as in SciPy."""

from __future__ import annotations

from math import factorial

from .elementwise import POSITIVE
from .scipy_lines import ours, polynomial, refused, scipys
from .special_functions import alternating

_DEGREE = 0.017453292519943295
_ROOT = 2.5066282746310002  # √(2π)

scipys("exp10", "x", "", "2.302585092994046 * out", doc="10ˣ")
scipys("cosm1", "x", "", "-np.sin(x)", doc="cos(x) − 1")
scipys("sindg", "x", "", f"{_DEGREE} * np.cosdg(x)", doc="sine of degrees")
scipys("cosdg", "x", "", f"-{_DEGREE} * np.sindg(x)", doc="cosine of degrees")
scipys("tandg", "x", "", f"{_DEGREE} * (1.0 + out * out)", doc="tangent of degrees")
scipys(
    "cotdg",
    "x",
    "",
    f"-{_DEGREE} * (1.0 + out * out)",
    doc="cotangent of degrees",
    domain=(20.0, 70.0),
)
scipys(
    "radian",
    "d m s",
    "",
    f"{_DEGREE!r}",
    f"{_DEGREE / 60!r}",
    f"{_DEGREE / 3600!r}",
    doc="degrees, minutes and seconds in radians",
)


def _moment(k: int, x: str) -> str:
    """∫ tᵏ exp(x t) dt from 0 to 1: the derivative k of exprel."""
    return f"(np.hyp1f1({k + 1.0}, {k + 2.0}, {x}) / {k + 1.0})"


scipys("exprel", "x", "", _moment(1, "x"), doc="(eˣ − 1) / x")
scipys(
    "powm1",
    "x y",
    "",
    "y * np.power(x, y - 1.0)",
    "(out + 1.0) * np.log(x)",
    doc="xʸ − 1",
    domain=POSITIVE,
)

# Box and Cox: with l = log x it is l exprel(λ l)
for _name, _log, _inner in (("boxcox", "np.log(x)", "x"), ("boxcox1p", "np.log1p(x)", "(1.0 + x)")):
    scipys(
        _name,
        "x lmbda",
        "",
        f"np.power({_inner}, lmbda - 1.0)",
        f"logarithm * logarithm * {_moment(1, 'lmbda * logarithm')}",
        doc=f"({_inner}^lmbda − 1) / lmbda, {_log[3:]} where lmbda is 0",
        domain=POSITIVE,
        steps=(("logarithm", _log),),
    )
# the inverse is exp(y r(λ y)) with r(u) = log(1 + u) / u
for _name, _value in (("inv_boxcox", "out"), ("inv_boxcox1p", "(out + 1.0)")):
    scipys(
        _name,
        "y lmbda",
        "",
        f"{_value} / (1.0 + lmbda * y)",
        f"-{_value} * select(is_far, ratio * ratio * (np.log1p(far) - far / (1.0 + far)),"
        " 0.5 * y * y * np.hyp2f1(2.0, 2.0, 3.0, -near))",
        doc=f"inverse of {_name[4:]}",
        domain=POSITIVE,
        steps=(  # far from 0 SciPy's function is infinite, and r'(u) has no cancellation
            ("is_far", "lmbda * y > 10.0"),
            ("far", "select(is_far, lmbda * y, 1.0)"),
            ("near", "select(is_far, 0.0, lmbda * y)"),
            ("ratio", "y / far"),
        ),
    )
scipys(
    "huber",
    "delta r",
    "",
    "select((np.absolute(r) <= delta) | (delta < 0.0), 0.0, np.absolute(r) - delta)",
    "select(delta < 0.0, 0.0, select(np.absolute(r) <= delta, r, delta * np.sign(r)))",
    doc="Huber's loss",
    domain=POSITIVE,
)
scipys(
    "pseudo_huber",
    "delta r",
    "",
    "select(size == 0.0, 0.0, ratio * ratio / safe)",
    "r * delta / safe",
    doc="Huber's loss without kinks",
    domain=POSITIVE,
    steps=(
        ("size", "np.hypot(delta, r)"),
        ("safe", "select(size == 0.0, 1.0, size)"),
        ("ratio", "r * r / (delta + safe)"),
    ),
)
scipys("wrightomega", "x", "", "out / (1.0 + out)", doc="solution w of w + log w = x")
for _name, _slope in (
    ("wright_bessel", "np.wright_bessel(a, a + b, x)"),
    ("log_wright_bessel", "np.exp(np.log_wright_bessel(a, a + b, x) - out)"),
):
    scipys(
        _name,
        "a b x",
        "",
        refused(_name, "a", "a parameter"),
        refused(_name, "b", "a parameter"),
        _slope,
        doc="Wright's generalised Bessel function" if _name[0] == "w" else "its logarithm",
        domain=POSITIVE,
    )

# --- error functions -------------------------------------------------------------------------

scipys("erfi", "x", "", "1.1283791670955126 * np.exp(x * x)", doc="erf(i x) / i")
scipys(
    "dawsn",
    "x",
    "",
    "select(np.absolute(x) > 15.0, halved * series, 1.0 - 2.0 * x * out)",
    doc="Dawson's integral",
    awkward="beyond 15 the derivative is a series, since 1 and 2x out cancel",
    steps=(
        ("large", "select(np.absolute(x) > 15.0, x, 15.0)"),
        ("halved", "-0.5 / (large * large)"),
        ("series", alternating("halved", 3, 25)),
    ),
)
scipys(
    "ndtri_exp",
    "y",
    "",
    "1.2533141373155003 * np.erfcx(-0.7071067811865476 * out)",
    doc="inverse of log_ndtr",
    domain=(-3.0, -0.1),
)
scipys(
    "owens_t",
    "x a",
    "",
    "-0.19947114020071635 * np.exp(-0.5 * x * x) * np.erf(0.7071067811865476 * a * x)",
    "0.15915494309189535 * np.exp(-0.5 * x * x * (1.0 + a * a)) / (1.0 + a * a)",
    doc="Owen's T function",
)
scipys(
    "nrdtrimn",
    "p std x",
    "",
    f"-{_ROOT} * std * np.exp(0.5 * z * z)",
    "-z",
    "1.0",
    doc="mean of the normal distribution for which x has the probability p",
    domain=((0.2, 0.8), POSITIVE, POSITIVE),
    steps=(("z", "np.ndtri(p)"),),
)
scipys(
    "nrdtrisd",
    "mn p x",
    "",
    "-1.0 / z",
    f"-out * {_ROOT} * np.exp(0.5 * z * z) / z",
    "1.0 / z",
    doc="standard deviation of the normal distribution for which x has the probability p",
    domain=(POSITIVE, (0.6, 0.9), (3.5, 4.5)),
    steps=(("z", "np.ndtri(p)"),),
)

# --- integrals -------------------------------------------------------------------------------

_HALF_PI = "1.5707963267948966 * x * x"
_PARTS = (
    ("near", "select(np.absolute(x) < 1.0, x * x, 0.0)"),
    ("safe", "select(np.absolute(x) < 1.0, 1.0, x)"),
)


def _over_x(function: str, sign: int) -> str:
    """A sine over x, with a series near 0."""
    series = polynomial("near", [sign**k / factorial(2 * k + 1) for k in range(10)])
    return f"select(np.absolute(x) < 1.0, {series}, np.{function}(x) / safe)"


for _name, _one, _slope, _doc in (
    ("fresnel", 0, f"np.sin({_HALF_PI})", "Fresnel integral of the sine"),
    ("fresnel", 1, f"np.cos({_HALF_PI})", "Fresnel integral of the cosine"),
    ("sici", 0, _over_x("sin", -1), "integral of sin(x) / x"),
    ("sici", 1, "np.cos(x) / x", "integral of cos(x) / x"),
    ("shichi", 0, _over_x("sinh", 1), "integral of sinh(x) / x"),
    ("shichi", 1, "np.cosh(x) / x", "integral of cosh(x) / x"),
):
    scipys(
        f"{_name}_{'ab'[_one]}",
        "x",
        "",
        _slope,
        theirs=_name,
        outputs=2,
        which=_one,
        doc=_doc,
        domain=POSITIVE,
        steps=_PARTS if "safe" in _slope else (),
    )
scipys("expi", "x", "", "np.exp(x) / x", doc="exponential integral Ei", domain=POSITIVE)
scipys("exp1", "x", "", "-np.exp(-x) / x", doc="exponential integral E₁", domain=POSITIVE)
scipys(
    "expn",
    "n x",
    "",
    refused("expn", "n", "its order, a whole number"),
    "select(whole == 0.0, -out - out / x, -np.expn(np.maximum(whole - 1.0, 0.0), x))",
    doc="exponential integral of order n",
    steps=(("whole", "np.trunc(n)"),),
    domain=((2.0, 2.0), POSITIVE),
)

# --- hypergeometric functions ----------------------------------------------------------------

# F′ = (a b / c) F(a + 1, b + 1, c + 1, x); a and b are alike
_ABOVE = "(a + 1.0, b + 1.0, x)", "(a + 1.0, b + 1.0, c + 1.0, x)"
for _name, _parameters, _above, _firsts, _seconds in (
    (
        "hyp1f1",
        "a b",
        _ABOVE[0],
        {
            "a": ("aa(a, b, x)", "ab(a, b, x)", "(np.hyp1f1{0} + a * np.hyp1f1_da{0}) / b"),
            "b": ("ab(a, b, x)", "bb(a, b, x)", "a / b * (np.hyp1f1_db{0} - np.hyp1f1{0} / b)"),
        },
        ("aa", "ab", "bb"),
    ),
    (
        "hyp2f1",
        "a b c",
        _ABOVE[1],
        {
            "a": (
                "aa(a, b, c, x)",
                "ab(a, b, c, x)",
                "ac(a, b, c, x)",
                "b / c * (np.hyp2f1{0} + a * np.hyp2f1_da{0})",
            ),
            "c": (
                "ac(a, b, c, x)",
                "ac(b, a, c, x)",
                "cc(a, b, c, x)",
                "a * b / c * (np.hyp2f1_dc{0} - np.hyp2f1{0} / c)",
            ),
        },
        ("aa", "ab", "ac", "cc"),
    ),
):
    _inputs, _domain = f"{_parameters} x", (*[POSITIVE] * len(_parameters.split()), (0.1, 0.6))
    for _by, (*_next, _of_x) in _firsts.items():
        ours(
            f"{_name}_d{_by}",
            _inputs,
            *[f"np.{_name}_d{one}" for one in _next],
            _of_x.format(_above),
            doc=f"derivative of {_name} by {_by}",
            domain=_domain,
        )
    for _by in _seconds:
        ours(
            f"{_name}_d{_by}",
            _inputs,
            *[refused(_name, one, "a third time") for one in _inputs.split()],
            doc=f"second derivative of {_name} by {' and '.join(_by)}",
            domain=_domain,
        )
for _name, _inputs, _partials in (
    ("hyp0f1", "v", [refused("hyp0f1", "v", "a parameter"), "np.hyp0f1(v + 1.0, x) / v"]),
    (
        "hyp1f1",
        "a b",
        [
            "np.hyp1f1_da(a, b, x)",
            "np.hyp1f1_db(a, b, x)",
            "a / b * np.hyp1f1(a + 1.0, b + 1.0, x)",
        ],
    ),
    (
        "hyp2f1",
        "a b c",
        [
            "np.hyp2f1_da(a, b, c, x)",
            "np.hyp2f1_da(b, a, c, x)",
            "np.hyp2f1_dc(a, b, c, x)",
            "a * b / c * np.hyp2f1(a + 1.0, b + 1.0, c + 1.0, x)",
        ],
    ),
    (
        "hyperu",
        "a b",
        [
            *[refused("hyperu", one, "a parameter") for one in "ab"],
            "-a * np.hyperu(a + 1.0, b + 1.0, x)",
        ],
    ),
):
    scipys(
        _name,
        f"{_inputs} x",
        "",
        *_partials,
        doc=f"hypergeometric function {_name}",
        domain=(*[POSITIVE] * len(_inputs.split()), (0.1, 0.6)),
    )

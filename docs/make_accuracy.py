"""Writes docs/accuracy.md: errors of values and partial derivatives against 50 digits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from mpmath import mp

import tapegrad as tg
from tapegrad._core.codegen.vector_math import OF_SCIPY
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad.scipy import special

PAGE = Path(__file__).resolve().parent / "accuracy.md"
_ORDINARY = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.3, 2.0, 3.7, 5.0, 9.0, 15.0, 20.0, 26.0, 45.0, 99.5]
_TINY = [1e-300, 1e-200, 1e-155, 1e-100, 1e-20, 1e-10, 1e-5, 1e-3]
_HUGE = [300.0, 700.0, 1e5, 1e10, 1e20, 1e100, 1e155, 1e200, 1e300]
#: Distances from the ends of domains, and from where a function has another piece.
_NEAR = [2.0**-52, 1e-15, 1e-12, 1e-8, 1e-4]
_ONE = sorted({*_ORDINARY, *_TINY, *_HUGE, *[1 - d for d in _NEAR], *[1 + d for d in _NEAR]})
GRID = np.array([*[-x for x in _ONE[::-1]], *_ONE])
#: For functions of two numbers, in pairs.
_TWO = [1e-300, 1e-100, 1e-8, 0.3, 1.0, 1.0 + 1e-8, 3.7, 20.0, 700.0, 1e10, 1e100, 1e300]
PAIRS = np.array([*itertools.product([-x for x in _TWO[::-1]] + _TWO, repeat=2)]).T
LEAST, MOST = np.finfo(float).tiny, np.finfo(float).max
#: The largest error that is allowed, and by name a larger one of the value, of partials, and why.
ALLOWED = 1e-12
EXCEPTIONS = {
    "sinc": (np.inf, ALLOWED, "π·x is rounded before the sine, as in NumPy: 0 at integers is not"),
    "gamma": (ALLOWED, 1.0, "SciPy's digamma 2⁻⁵² from a pole"),
    "gammaln": (np.inf, 1.0, "SciPy's value near its zeros 1 and 2; its digamma 2⁻⁵² from a pole"),
    "digamma": (1.0, ALLOWED, "SciPy's value 2⁻⁵² from a pole"),
    "logaddexp2": (1e-6, ALLOWED, "the value where it is nearly 0, as in NumPy"),
    "kl_div": (np.inf, np.inf, "x log(x/y) − x + y cancels for equal x and y, as in SciPy"),
}
#: Element-wise operations without arithmetic, which are exact.
EXACT = "clip where sign floor ceil rint trunc heaviside floor_divide".split()


def _sech2(x):
    e = mp.exp(-2 * abs(x))
    return 4 * e / (1 + e) ** 2


def _expit(x):
    return 1 / (1 + mp.exp(-x))


def _tail(x):
    """Φ(x)."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _log_tail(x):
    if x > 0:
        return mp.log1p(-_tail(-x))
    return mp.log(_tail(x)) if x > -5000 else -x * x / 2 - mp.log(-x * mp.sqrt(2 * mp.pi))


def _density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _logaddexp(x, y):
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def _half_root(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2)


def _erfcx(x):
    if abs(x) < 1e4:
        return mp.exp(x * x) * mp.erfc(x)
    return mp.nsum(lambda k: (-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k, [0, 5]) / (
        x * mp.sqrt(mp.pi)
    )


#: By name: the value and its partial derivatives, and where they are compared.
UNARY = {
    "negative": (lambda x: -x, lambda x: -1),
    "square": (lambda x: x * x, lambda x: 2 * x),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2),
    "absolute": (abs, mp.sign),
    "degrees": (mp.degrees, lambda x: 180 / mp.pi),
    "radians": (mp.radians, lambda x: mp.pi / 180),
    "sqrt": (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: x > 0),
    "cbrt": (
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),
    ),
    "exp": (mp.exp, mp.exp),
    "exp2": (lambda x: mp.mpf(2) ** x, lambda x: mp.log(2) * mp.mpf(2) ** x),
    "expm1": (mp.expm1, mp.exp),
    "log": (mp.log, lambda x: 1 / x, lambda x: x > 0),
    "log2": (lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2)), lambda x: x > 0),
    "log10": (mp.log10, lambda x: 1 / (x * mp.log(10)), lambda x: x > 0),
    "log1p": (mp.log1p, lambda x: 1 / (1 + x), lambda x: x > -1),
    "sin": (mp.sin, mp.cos),
    "cos": (mp.cos, lambda x: -mp.sin(x)),
    "tan": (mp.tan, lambda x: 1 / mp.cos(x) ** 2),
    "sinc": (
        lambda x: mp.sinc(mp.pi * x),
        lambda x: (
            (mp.cospi(x) - mp.sinc(mp.pi * x)) / x
            if abs(x) > 1e-8
            else -(mp.pi**2) * x / 3 + mp.pi**4 * x**3 / 30
        ),
        lambda x: abs(x) < 50,
    ),
    "arcsin": (mp.asin, lambda x: 1 / mp.sqrt((1 - x) * (1 + x)), lambda x: abs(x) < 1),
    "arccos": (mp.acos, lambda x: -1 / mp.sqrt((1 - x) * (1 + x)), lambda x: abs(x) < 1),
    "arctan": (mp.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (mp.sinh, mp.cosh),
    "cosh": (mp.cosh, mp.sinh),
    "tanh": (mp.tanh, _sech2),
    "arcsinh": (
        lambda x: mp.sign(x) * mp.asinh(abs(x)),
        lambda x: 1 / mp.sqrt(1 + x * x),
    ),
    "arccosh": (mp.acosh, lambda x: 1 / mp.sqrt((x - 1) * (x + 1)), lambda x: x > 1),
    "arctanh": (mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)), lambda x: abs(x) < 1),
    "sigmoid": (_expit, lambda x: _expit(x) * _expit(-x)),
    "erf": (mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: abs(x) < 200),
    "erfc": (mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: abs(x) < 200),
    "gamma": (
        mp.gamma,
        lambda x: mp.gamma(x) * mp.digamma(x),
        lambda x: x < 200 and not (x <= 0 and x == int(x)) and x > -30,
    ),
    "gammaln": (
        lambda x: mp.log(abs(mp.gamma(x))) if abs(x) < 1000 else mp.loggamma(x).real,
        mp.digamma,
        lambda x: x > -30 and not (x <= 0 and x == int(x)),
    ),
    "digamma": (
        mp.digamma,
        lambda x: mp.polygamma(1, x),
        lambda x: x > -30 and not (x <= 0 and x == int(x)),
    ),
    "i0": (
        lambda x: mp.besseli(0, x),
        lambda x: mp.besseli(1, x),
        lambda x: abs(x) < 701,
    ),
    "i1": (
        lambda x: mp.besseli(1, x),
        lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2,
        lambda x: abs(x) < 701,
    ),
    "logit": (
        lambda x: mp.log(x / (1 - x)),
        lambda x: 1 / (x * (1 - x)),
        lambda x: 0 < x < 1,
    ),
    "log_expit": (lambda x: -_logaddexp(0, -x), lambda x: _expit(-x)),
    "ndtr": (_tail, _density, lambda x: abs(x) < 200),
    "log_ndtr": (
        _log_tail,
        lambda x: _density(x) / _tail(x) if x > -5000 else -x,
        lambda x: abs(x) < 1e101 and (abs(x) < 1000 or x < -1e9),
    ),
    "erfinv": (mp.erfinv, _half_root, lambda x: abs(x) < 1),
    "erfcx": (
        _erfcx,
        lambda x: (
            2 * x * _erfcx(x) - 2 / mp.sqrt(mp.pi)
            if abs(x) < 1e4
            else -mp.nsum(
                lambda k: (-1) ** k * (2 * k + 1) * mp.fac2(2 * k - 1) / (2 * x * x) ** k, [0, 4]
            )
            / (x * x * mp.sqrt(mp.pi))
        ),
        lambda x: x > -26,
    ),
    "k0": (lambda x: mp.besselk(0, x), lambda x: -mp.besselk(1, x), lambda x: 0 < x < 701),
    "k1": (
        lambda x: mp.besselk(1, x),
        lambda x: -(mp.besselk(0, x) + mp.besselk(2, x)) / 2,
        lambda x: 0 < x < 701,
    ),
    "entr": (lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1, lambda x: x > 0),
    "erfcinv": (
        lambda x: mp.erfinv(1 - x) if x > 1e-20 else _far_root(x),
        lambda x: (
            -mp.sqrt(mp.pi) / 2 * mp.exp((mp.erfinv(1 - x)) ** 2)
            if x > 1e-20
            else -mp.sqrt(mp.pi) / 2 * mp.exp(_far_root(x) ** 2)
        ),
        lambda x: 0 < x < 2,
    ),
    "ndtri": (
        lambda x: (
            -mp.sqrt(2) * _far_root(2 * x) if x < 1e-20 else -mp.sqrt(2) * mp.erfinv(1 - 2 * x)
        ),
        lambda x: (
            1 / _density(mp.sqrt(2) * (_far_root(2 * x) if x < 1e-20 else mp.erfinv(1 - 2 * x)))
        ),
        lambda x: 0 < x < 1,
    ),
}


def _far_root(x):
    """Inverse of erfc for tiny x."""
    start = mp.sqrt(-mp.log(x * mp.sqrt(mp.pi) * mp.sqrt(-mp.log(x))))
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(x), start)


def _whole(x):
    return mp.sign(x) * mp.floor(abs(x))


BINARY = {
    "add": (lambda x, y: x + y, lambda x, y: 1, lambda x, y: 1),
    "subtract": (lambda x, y: x - y, lambda x, y: 1, lambda x, y: -1),
    "multiply": (lambda x, y: x * y, lambda x, y: y, lambda x, y: x),
    "divide": (lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / y**2),
    "power": (
        mp.power,
        lambda x, y: y * mp.power(x, y - 1),
        lambda x, y: mp.power(x, y) * mp.log(x),
        lambda x, y: x > 0,
    ),
    "logaddexp": (_logaddexp, lambda x, y: _expit(x - y), lambda x, y: _expit(y - x)),
    "logaddexp2": (
        lambda x, y: max(x, y) + mp.log1p(mp.mpf(2) ** -abs(x - y)) / mp.log(2),
        lambda x, y: 1 / (1 + mp.mpf(2) ** (y - x)),
        lambda x, y: 1 / (1 + mp.mpf(2) ** (x - y)),
    ),
    "arctan2": (
        lambda x, y: mp.atan2(x, y),
        lambda x, y: y / (x * x + y * y),
        lambda x, y: -x / (x * x + y * y),
    ),
    "hypot": (
        lambda x, y: mp.sqrt(x * x + y * y),
        lambda x, y: x / mp.sqrt(x * x + y * y),
        lambda x, y: y / mp.sqrt(x * x + y * y),
    ),
    "remainder": (
        lambda x, y: x - y * mp.floor(x / y),
        lambda x, y: 1,
        lambda x, y: -mp.floor(x / y),
    ),
    "fmod": (
        lambda x, y: x - y * _whole(x / y),
        lambda x, y: 1,
        lambda x, y: -_whole(x / y),
    ),
    "polygamma": (
        lambda x, y: mp.polygamma(int(x), y),
        lambda x, y: 0,
        lambda x, y: mp.polygamma(int(x) + 1, y),
        lambda x, y: x in (1.0, 20.0) and 1e-20 < y < 1e11,
    ),
    "copysign": (
        lambda x, y: abs(x) * mp.sign(y),
        lambda x, y: mp.sign(x) * mp.sign(y),
        lambda x, y: 0,
    ),
    "xlogy": (
        lambda x, y: x * mp.log(y),
        lambda x, y: mp.log(y),
        lambda x, y: x / y,
        lambda x, y: y > 0,
    ),
    "xlog1py": (
        lambda x, y: x * mp.log1p(y),
        lambda x, y: mp.log1p(y),
        lambda x, y: x / (1 + y),
        lambda x, y: y > -1,
    ),
    "rel_entr": (
        lambda x, y: x * mp.log(x / y),
        lambda x, y: mp.log(x / y) + 1,
        lambda x, y: -x / y,
        lambda x, y: x > 0 and y > 0,
    ),
    "kl_div": (
        lambda x, y: x * mp.log(x / y) - x + y,
        lambda x, y: mp.log(x / y),
        lambda x, y: 1 - x / y,
        lambda x, y: x > 0 and y > 0,
    ),
}
_CHOICES = "maximum minimum fmax fmin".split()
BINARY |= {
    name: (
        max if "max" in name else min,
        *[
            lambda *x, k=k, sign=1 if "max" in name else -1: mp.mpf(
                (mp.sign(sign * (x[k] - x[1 - k])) + 1) / 2
            )
            for k in (0, 1)
        ],
    )
    for name in _CHOICES
}
#: References that take long with more digits, and do not need them.
_SLOW = frozenset(
    "gamma gammaln digamma polygamma i0 i1 k0 k1 erf erfc erfcx erfinv erfcinv ndtr ndtri "
    "log_ndtr".split()
)


def function_of(name: str):
    return getattr(tg, name, None) or getattr(special, name)


def arguments_of(name: str) -> list[np.ndarray]:
    """The arguments at which a function is compared."""
    if name in UNARY:
        fits = UNARY[name][2] if len(UNARY[name]) > 2 else None
        return [GRID if fits is None else np.array([x for x in GRID if fits(x)])]
    fits = BINARY[name][3] if len(BINARY[name]) > 3 else lambda x, y: True
    kept = [k for k, pair in enumerate(PAIRS.T) if fits(*map(float, pair))]
    return list(PAIRS[:, kept])


def exact(name: str, arguments) -> list[np.ndarray]:
    """Value and partial derivatives with all digits, as objects."""
    functions = UNARY[name][:2] if name in UNARY else BINARY[name][:3]
    with mp.workdps(60 if name in _SLOW else 700):
        points = [[mp.mpf(float(x)) for x in point] for point in zip(*arguments, strict=True)]
        return [[mp.mpf(f(*point)) for point in points] for f in functions]


def computed(name: str, arguments) -> list[np.ndarray]:
    """Value and partial derivatives by tapegrad's kernels for arrays."""
    value, back = tg.vjp(function_of(name), *arguments)
    return [np.asarray(value), *map(np.asarray, back(np.ones(len(arguments[0]))))]


def error(found: float, wanted) -> float:
    """The relative error of a number; an overflow has to be infinite, an underflow small."""
    with mp.workdps(40):
        if abs(wanted) > MOST:
            return 0.0 if found == mp.sign(wanted) * np.inf else float("inf")
        if not np.isfinite(found):
            return float("inf")
        if abs(wanted) < LEAST:
            return 0.0 if abs(found) <= LEAST else float("inf")
        return float(abs(mp.mpf(float(found)) - wanted) / abs(wanted))


def errors(name: str) -> list[tuple[float, tuple[float, ...]]]:
    """The largest error of the value and of each partial derivative, and where it is."""
    arguments = arguments_of(name)
    points = [tuple(map(float, point)) for point in zip(*arguments, strict=True)]
    found = []
    with np.errstate(all="ignore"):
        pairs = zip(computed(name, arguments), exact(name, arguments), strict=True)
        for ours, wanted in pairs:
            each = [error(one, other) for one, other in zip(ours, wanted, strict=True)]
            worst = int(np.argmax(each))
            found.append((each[worst], points[worst]))
    return found


HEAD = """# Accuracy

`python docs/make_accuracy.py` generates this page. It computes element-wise operations, and
functions of `tapegrad.scipy.special` that are composed of them, on a grid of arguments: ordinary
ones, tiny ones down to 1e-300, huge ones up to 1e300, of both signs, and some at distances from
2⁻⁵² to 1e-4 from ±1. Functions of two numbers are computed for all pairs of 24 numbers from −1e300
to 1e300.

The table has the largest relative error of the value and of each partial derivative, against
mpmath with at least 50 digits. Errors of the rounding of a double are 1.1e-16. What is larger than
the largest double has to be infinite, and what is smaller than the smallest normal one has to be
so, too; they do not count otherwise. `tests/operations/test_accuracy.py` checks that no error
exceeds 1e-12 but those with a reason in the last column.

The figures are those of one machine and of float64 arrays of a few hundred elements. Functions of
the C library, NumPy and SciPy differ by some units in the last place among versions and machines;
for long arrays of float64 the vector functions of the C library compute values, with errors of up
to 4 units in the last place. Errors of float32 were not measured. An error of 1e-12 of a partial
derivative is that of this operation alone: in a composition, errors of values are amplified by the
conditioning of what follows.

Functions of `scipy.special` whose values are SciPy's are not in the table.
`tests/scipy/test_special_functions.py` compares their derivatives.
"""
TAIL = """
These operations choose or round, and are exact: {names}.
"""


def names() -> list[str]:
    """The functions of the page: those declared first."""
    declared = [name for name in TABLE if name in UNARY or name in BINARY]
    return declared + sorted({*UNARY, *BINARY} - {*declared})


def _of_scipy() -> set[str]:
    """Functions with values of SciPy's, for `tests/scipy/test_special_functions.py` to compare."""
    return {*OF_SCIPY, "bdtr", "bdtrc", "bdtri"} - {*UNARY, *BINARY}


def uncovered() -> set[str]:
    """Declared element-wise operations that are neither compared nor exact."""
    declared = {
        op.name for op in TABLE.values() if isinstance(op, Pointwise) and op.name not in _of_scipy()
    }
    real = {name for name in declared if not name.startswith("complex_")}
    return real - {*UNARY, *BINARY, *EXACT}


def text() -> str:
    lines = ["| function | value | partial derivatives | reason |", "| --- | --- | --- | --- |"]
    for name in names():
        value, *partials = [f"{found:.0e}" for found, _ in errors(name)]
        reason = EXCEPTIONS[name][2] if name in EXCEPTIONS else ""
        lines.append(f"| `{name}` | {value} | {', '.join(partials)} | {reason} |")
    exact_ones = ", ".join(f"`{name}`" for name in EXACT)
    return HEAD + "\n" + "\n".join(lines) + "\n" + TAIL.format(names=exact_ones)


if __name__ == "__main__":
    PAGE.write_text(text())

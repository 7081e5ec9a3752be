"""Python's `math`, with derivatives: `import tapegrad.math as math`.

Floats and ints are passed to Python's own functions. A recorded number keeps its derivative.
Arguments that `math` refuses (`math.log(0.0)`, `math.exp(1e3)`) raise the same error, in compiled
functions too: they check it at every call. Functions of integers, and those whose result is a
choice (`floor`, `isclose`), return Python's ints and truths, which compiled functions check as
well.

>>> import tapegrad as tg
>>> import tapegrad.math as math
>>> math.hypot(3.0, 4.0)
5.0
>>> tg.grad(lambda x: math.exp(2.0 * x) if math.floor(x) == 0 else x)(0.0)
2.0
"""

from math import e, inf, nan, pi, tau

from . import _number_functions
from ._number_functions import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    comb,
    copysign,
    cos,
    cosh,
    degrees,
    dist,
    erf,
    erfc,
    exp,
    expm1,
    fabs,
    factorial,
    floor,
    fmod,
    frexp,
    fsum,
    gamma,
    gcd,
    hypot,
    isclose,
    isfinite,
    isinf,
    isnan,
    isqrt,
    lcm,
    ldexp,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    modf,
    nextafter,
    perm,
    pow,
    prod,
    radians,
    remainder,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    ulp,
)

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "comb",
    "copysign",
    "cos",
    "cosh",
    "degrees",
    "dist",
    "e",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "factorial",
    "floor",
    "fmod",
    "frexp",
    "fsum",
    "gamma",
    "gcd",
    "hypot",
    "inf",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isqrt",
    "lcm",
    "ldexp",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "modf",
    "nan",
    "nextafter",
    "perm",
    "pi",
    "pow",
    "prod",
    "radians",
    "remainder",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tau",
    "trunc",
    "ulp",
]
#: Functions that some Pythons do not have: `cbrt` and `exp2` (from 3.11 on), `sumprod`, `fma`.
_newer = {**_number_functions.NEWER_ELEMENTARY, **_number_functions.NEWER_SUMS}
_newer |= _number_functions.others({*__all__, *_newer})
globals().update(_newer)
__all__ += sorted({*_newer} - {*__all__})

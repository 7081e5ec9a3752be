"""Functions of a complex number by its parts: real operations of x and y, z = x + iy.

With f' = a + ib of a holomorphic f = u + iv: u has the partial derivatives a and −b, v has b and a.
Eager values are NumPy's; the expressions are what programs compute.
"""

from __future__ import annotations

from .elementwise import ANY  # operations on real numbers have the first codes
from .table import pointwise

_VALUES = "tapegrad._core.tensor.complex_values"
_FAR = ((0.3, 2.0), ANY)


def _parts(name, u, v, re, im, domain=ANY, awkward=""):
    """Declare the parts of f: their expressions, and those of the parts of its derivative."""
    partials = {"real": (re, f"-({im})"), "imag": (im, re)}
    for part, value in (("real", u), ("imag", v)):
        pointwise(
            f"complex_{name}_{part}",
            "x y",
            value,
            *partials[part],
            doc=f"{'real' if part == 'real' else 'imaginary'} part of {name}(x + iy)",
            domain=domain,
            awkward=awkward,
            numpy=f"{_VALUES}.{name}_{part}",
        )


_EXP = (
    "select(y == 0.0, np.exp(x), np.exp(x) * np.cos(y))",
    "select(y == 0.0, y, np.exp(x) * np.sin(y))",
)
_SINH = "np.sinh(x) * np.cos(y)", "np.cosh(x) * np.sin(y)"
_COSH = "np.cosh(x) * np.cos(y)", "np.sinh(x) * np.sin(y)"
_parts("exp", *_EXP, "np.exp(x) * np.cos(y)", "np.exp(x) * np.sin(y)")
_parts("sinh", *_SINH, *_COSH)
_parts("cosh", *_COSH, *_SINH)

# Beyond 20 the real part is ±1, and the imaginary part follows from an exponential.
_NEAR = "select(np.absolute(x) > 20.0, 20.0, x)"
_BELOW = f"(np.sinh({_NEAR}) * np.sinh({_NEAR}) + np.cos(y) * np.cos(y))"
_TANH = (
    f"select(np.absolute(x) > 20.0, np.sign(x), np.sinh({_NEAR}) * np.cosh({_NEAR}) / {_BELOW})",
    "np.sin(y) * np.cos(y) * select(np.absolute(x) > 20.0, 4.0 * np.exp(-2.0 * np.absolute(x)), "
    f"1.0 / {_BELOW})",
)
_parts(
    "tanh",
    *_TANH,
    f"1.0 - ({_TANH[0]}) * ({_TANH[0]}) + ({_TANH[1]}) * ({_TANH[1]})",
    f"-2.0 * ({_TANH[0]}) * ({_TANH[1]})",
)

# Sizes are selected: np.absolute has the derivative 0 at 0, which is wrong on the axes.
_ABOVE = "(np.copysign(1.0, y) > 0.0)"
_ROOT = "np.sqrt(0.5 * select(x >= 0.0, x, -x) + 0.5 * np.hypot(x, y))"
_OTHER = f"(0.5 * y / select({_ROOT} == 0.0, 1.0, {_ROOT}))"
_SQRT = (
    f"select(x >= 0.0, {_ROOT}, select({_ABOVE}, {_OTHER}, -{_OTHER}))",
    f"select(x >= 0.0, {_OTHER}, select({_ABOVE}, {_ROOT}, -{_ROOT}))",
)
_parts(
    "sqrt",
    *_SQRT,
    f"0.5 * ({_SQRT[0]}) / np.hypot(x, y)",
    f"-0.5 * ({_SQRT[1]}) / np.hypot(x, y)",
    _FAR,
    "NaN at 0; on the negative axis the side that the sign of y tells",
)

_LARGER = "np.maximum(np.absolute(x), np.absolute(y))"
_SMALLER = "np.minimum(np.absolute(x), np.absolute(y))"
_CLOSE = f"((np.hypot(x, y) > 0.5) & ({_LARGER} < 2.0))"
_parts(
    "log",
    f"select({_CLOSE}, 0.5 * np.log1p(select({_CLOSE}, ({_LARGER} - 1.0) * ({_LARGER} + 1.0) + "
    f"{_SMALLER} * {_SMALLER}, 0.0)), np.log(np.hypot(x, y)))",
    "np.arctan2(y, x)",
    "x / np.hypot(x, y) / np.hypot(x, y)",
    "-y / np.hypot(x, y) / np.hypot(x, y)",
    _FAR,
    "NaN at 0; on the negative axis the side that the sign of y tells",
)

# Smith's division: by the larger part.
_SWAP = "(np.absolute(x) < np.absolute(y))"
_BIG, _SMALL = f"select({_SWAP}, y, x)", f"select({_SWAP}, x, y)"
_RATIO = f"({_SMALL} / {_BIG})"
_SCALE = f"(1.0 / ({_BIG} + {_SMALL} * {_RATIO}))"
_INVERSE = (
    f"select({_SWAP}, {_RATIO}, 1.0) * {_SCALE}",
    f"-select({_SWAP}, 1.0, {_RATIO}) * {_SCALE}",
)
_INVERSE_PARTIALS = (
    f"({_INVERSE[1]}) * ({_INVERSE[1]}) - ({_INVERSE[0]}) * ({_INVERSE[0]})",
    f"-2.0 * ({_INVERSE[0]}) * ({_INVERSE[1]})",
)
_parts("inverse", *_INVERSE, *_INVERSE_PARTIALS, _FAR, "NaN at 0")
# The factor of numerators: NumPy's quotients by 0 are those of their parts by 0.
_IS_ZERO = "((x == 0.0) & (y == 0.0))"
_DIVISOR = (
    f"select({_IS_ZERO}, 1.0 / np.absolute(x), {_INVERSE[0]})",
    f"select({_IS_ZERO}, 0.0, {_INVERSE[1]})",
)
_parts("divisor", *_DIVISOR, *_INVERSE_PARTIALS, _FAR, "infinite at 0, its derivative NaN")

_RADIUS = "select(np.hypot(x, y) == 0.0, 1.0, np.hypot(x, y))"
pointwise(
    "complex_phase",
    "x y",
    "np.arctan2(y, x)",
    f"-(y / {_RADIUS}) / {_RADIUS}",
    f"(x / {_RADIUS}) / {_RADIUS}",
    doc="angle of x + iy",
    domain=_FAR,
    awkward="0 at 0",
    numpy=f"{_VALUES}.phase",
)

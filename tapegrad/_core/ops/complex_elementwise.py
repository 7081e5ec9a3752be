"""Functions of a complex number by its parts: real operations of x and y, z = x + iy.

With f' = a + ib of a holomorphic f = u + iv: u has the partial derivatives a and −b, v has b and a.
Eager values are NumPy's; the expressions are what programs compute.
"""

from __future__ import annotations

from . import bessel_functions, gamma_functions, holomorphic_functions, special_functions
from .elementwise import ANY
from .table import pointwise

assert special_functions and bessel_functions and gamma_functions and holomorphic_functions
assert special_functions and bessel_functions and gamma_functions and bessel_functions

_VALUES = "tapegrad._core.tensor.values"
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
_FIRST, _SECOND = f"select({_SWAP}, {_RATIO}, 1.0)", f"select({_SWAP}, 1.0, {_RATIO})"
_INVERSE = f"{_FIRST} * {_SCALE}", f"-{_SECOND} * {_SCALE}"
_INVERSE_PARTIALS = (
    f"({_INVERSE[1]}) * ({_INVERSE[1]}) - ({_INVERSE[0]}) * ({_INVERSE[0]})",
    f"-2.0 * ({_INVERSE[0]}) * ({_INVERSE[1]})",
)
_parts("inverse", *_INVERSE, *_INVERSE_PARTIALS, _FAR, "NaN at 0")

# The quotient of a + ib is ((a first + b second) scale, (b first - a second) scale), in the order
# of NumPy. Its quotients by 0 are those of their parts by 0.
_IS_ZERO = "((x == 0.0) & (y == 0.0))"
_TURN, _STRETCH = f"-2.0 * {_RATIO}", f"({_RATIO} * {_RATIO} - 1.0)"
_DIVISOR = {
    "first": (
        f"select({_SWAP}, x / y, 1.0)",
        f"select({_SWAP}, 1.0 / y, 0.0)",
        f"select({_SWAP}, -x / y / y, 0.0)",
    ),
    "second": (
        f"select({_SWAP}, 1.0, select({_IS_ZERO}, 0.0, y / x))",
        f"select({_SWAP}, 0.0, -y / x / x)",
        f"select({_SWAP}, 0.0, 1.0 / x)",
    ),
    "scale": (
        f"select({_IS_ZERO}, 1.0 / np.absolute(x), {_SCALE})",
        f"select({_SWAP}, {_TURN}, {_STRETCH}) * out * out",
        f"select({_SWAP}, {_STRETCH}, {_TURN}) * out * out",
    ),
}
for _name, _texts in _DIVISOR.items():
    pointwise(
        f"complex_divisor_{_name}",
        "x y",
        *_texts,
        doc=f"{_name} factor of a quotient by x + iy",
        domain=_FAR,
        awkward="infinite at 0, its derivative NaN",
        numpy=f"{_VALUES}.divisor_{_name}",
    )

# A real operand has the imaginary part +0 in NumPy, which tells the signs of other zeros.
_OF_Y_Z = str.maketrans("xy", "yz")
_U, _V, _S = [text.translate(_OF_Y_Z) for text in (_FIRST, _SECOND, _SCALE)]
_RE, _IM = [f"({text.translate(_OF_Y_Z)})" for text in _INVERSE]
_A, _B = [f"({text.translate(_OF_Y_Z)})" for text in _INVERSE_PARTIALS]
for _part, _value, _own, _partials in (
    ("real", f"x * {_U} + 0.0 * {_V}", "x", (_RE, f"x * {_A}", f"-x * {_B}")),
    ("imag", f"0.0 * {_U} - x * {_V}", "0.0", (_IM, f"x * {_B}", f"x * {_A}")),
):
    pointwise(
        f"complex_ratio_{_part}",
        "x y z",
        f"select((y == 0.0) & (z == 0.0), {_own} / np.absolute(y), ({_value}) * {_S})",
        *_partials,
        doc=f"{_part} part of x / (y + iz)",
        domain=(ANY, *_FAR),
        awkward="infinite or NaN where y and z are 0",
        numpy=f"{_VALUES}.ratio_{_part}",
    )
for _part, _value, _partials in (
    ("real", "x * y - 0.0 * z", ("y", "x", "0.0")),
    ("imag", "x * z + 0.0 * y", ("z", "0.0", "x")),
):
    pointwise(
        f"complex_multiple_{_part}",
        "x y z",
        _value,
        *_partials,
        doc=f"{_part} part of x (y + iz)",
        numpy=f"{_VALUES}.multiple_{_part}",
    )
for _part, _value, _own, _partials in (
    ("real", "x + y * (0.0 / z)", "x", ("1.0 / z", "0.0", "-out / z")),
    ("imag", "y - x * (0.0 / z)", "y", ("0.0", "1.0 / z", "-out / z")),
):
    pointwise(
        f"complex_fraction_{_part}",
        "x y z",
        f"select(z == 0.0, {_own} / np.absolute(z), ({_value}) * (1.0 / z))",
        *_partials,
        doc=f"{_part} part of (x + iy) / z",
        domain=(ANY, ANY, (0.3, 2.0)),
        awkward="infinite or NaN where z is 0",
        numpy=f"{_VALUES}.fraction_{_part}",
    )

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

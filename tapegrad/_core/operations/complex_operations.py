"""Complex operands of public functions: arithmetic by parts, products of parts, or separately."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from ..tensor.apply import ELEMENTWISE_OF_COMPLEX, apply
from ..tensor.copies import unlisted
from ..tensor.registry import (
    PUBLIC,
    by_parts,
    by_products,
    complex_function,
    conjugate,
    conjugate_of,
    into,
    own_memory,
    refused,
    writing_parts,
    written_to,
)
from ..tensor.trace import lost_derivative, named, steered
from ..tensor.values import (
    combined,
    dtype_of,
    imag_part,
    is_complex,
    is_recorded,
    is_single,
    real_part,
    scalar_of,
    steered_complex,
    tensor_of,
    value_of,
)
from .reductions import reduced_axes, root

# --- Arithmetic and elementary functions of complex tensors, by their real and imaginary parts ----
# For z = x + iy each is a few real rows of x and y. Values and branch cuts are NumPy's; a real
# operand has the imaginary part +0, as in NumPy.


#: A decorator: the element-wise operations of these names on complex operands.
elementwise = into(ELEMENTWISE_OF_COMPLEX)


def parts(z):
    """The real and the imaginary part, recorded numbers as such."""
    return scalar_of(real_part(z)), scalar_of(imag_part(z))


def _of(name: str, *operands):
    """The parts of a function that is declared in `ops.complex_elementwise`."""
    return apply(f"complex_{name}_real", *operands), apply(f"complex_{name}_imag", *operands)


# --- arithmetic -----------------------------------------------------------------------------------


def _plus(x, y):
    return x + y if is_single(x) and is_single(y) else apply("add", x, y)


def _minus(x, y):
    return x - y if is_single(x) and is_single(y) else apply("subtract", x, y)


def _times(x, y):
    return x * y if is_single(x) and is_single(y) else apply("multiply", x, y)


@elementwise("add")
def add(z, w):
    (a, b), (c, d) = parts(z), parts(w)
    return combined(_plus(a, c), _plus(b, d))


@elementwise("subtract")
def subtract(z, w):
    (a, b), (c, d) = parts(z), parts(w)
    return combined(_minus(a, c), _minus(b, d))


@elementwise("multiply")
def multiply(z, w):
    """A real operand has the imaginary part +0, as in NumPy: that tells the signs of zeros."""
    (a, b), (c, d) = parts(z), parts(w)
    if not is_complex(z):
        return combined(_multiple_real(a, c, d), _multiple_imag(a, c, d))
    if not is_complex(w):
        return combined(_multiple_real(c, a, b), _multiple_imag(c, a, b))
    re = _minus(_times(a, c), _times(b, d))
    return combined(re, _plus(_times(a, d), _times(b, c)))


def _are_single(*operands) -> bool:
    return all(map(is_single, operands))


def _multiple_real(a, x, y):
    """The real part of a (x + iy), for a real a."""
    return a * x - 0.0 * y if _are_single(a, x, y) else apply("complex_multiple_real", a, x, y)


def _multiple_imag(a, x, y):
    return a * y + 0.0 * x if _are_single(a, x, y) else apply("complex_multiple_imag", a, x, y)


@elementwise("divide")
def divide(z, w):
    """Smith's quotient in NumPy's order; where w is 0 the parts of z divided by 0."""
    a, b = parts(z)
    if not is_complex(w):
        return combined(*_fraction(a, b, scalar_of(w)))
    if not is_complex(z):
        return combined(*_of("ratio", a, *parts(w)))
    first, second, scale = _divisor(*parts(w))
    re = _plus(_times(a, first), _times(b, second))
    im = _minus(_times(b, first), _times(a, second))
    return combined(_times(re, scale), _times(im, scale))


def _divisor(x, y) -> list:
    """The factors of numerators in a quotient by x + iy; Python floats for a Python number."""
    made = [apply(f"complex_divisor_{name}", x, y) for name in ("first", "second", "scale")]
    return [*map(float, made)] if type(x) is type(y) is float else made


def _fraction(x, y, a):
    """The parts of (x + iy) / a, for a real a."""
    if type(a) is float and a and _are_single(x, y):
        zero, scale = 0.0 / a, 1.0 / a
        return (x + y * zero) * scale, (y - x * zero) * scale
    return _of("fraction", x, y, a)


@elementwise("reciprocal")
def reciprocal(z):
    return combined(*_of("inverse", *parts(z)))


@elementwise("negative")
def negative(z):
    return combined(*[-x if is_single(x) else apply("negative", x) for x in parts(z)])


@elementwise("square")
def square(z):
    x, y = parts(z)
    product = _times(x, y)
    return combined(_minus(_times(x, x), _times(y, y)), _plus(product, product))


@elementwise("absolute")
def absolute(z):
    """A real tensor; its derivative at 0 is 0."""
    return apply("hypot", *parts(z))


def angle_of(z):
    """A real tensor; its derivative at 0 is 0."""
    return apply("complex_phase", *parts(z))


@elementwise("sign")
def sign(z):
    """z / |z|, with derivative 0 at 0, where it is 0."""
    size = absolute(z)
    is_zero = steered(operator.eq, size, 0.0)
    size = apply("where", is_zero, 1.0, size)
    return combined(*[apply("where", is_zero, 0.0, apply("divide", x, size)) for x in parts(z)])


# --- exponentials and logarithms ------------------------------------------------------------------


@elementwise("exp")
def exp(z):
    return combined(*_of("exp", *parts(z)))


@elementwise("exp2")
def exp2(z):
    return exp(_stretched(z, math.log(2.0)))


def _stretched(z, factor: float):
    """Both parts times a number."""
    return combined(*[_times(x, factor) for x in parts(z)])


@elementwise("expm1")
def expm1(z):
    """Without cancellation near 0, as NumPy's."""
    x, y = parts(z)
    half = apply("sin", apply("multiply", y, 0.5))
    near = apply("multiply", apply("square", half), 2.0)
    re = apply("subtract", apply("multiply", apply("expm1", x), apply("cos", y)), near)
    return combined(re, apply("complex_exp_imag", x, y))


@elementwise("log")
def log(z):
    return combined(*_of("log", *parts(z)))


@elementwise("log2")
def log2(z):
    return _stretched(log(z), 1.0 / math.log(2.0))


@elementwise("log10")
def log10(z):
    return _stretched(log(z), 1.0 / math.log(10.0))


@elementwise("log1p")
def log1p(z):
    x, y = parts(z)
    return combined(*_of("log", apply("add", x, 1.0), y))


@elementwise("sqrt")
def sqrt(z):
    return combined(*_of("sqrt", *parts(z)))


@elementwise("power")
def power_of(z, w):
    """z to the power w: by products where w is one whole number below 100, else exp(w log z).

    0 to a power with a positive real part is 0; its derivative there is 0 too.
    """
    whole = _whole_exponent(w)
    if whole is not None:
        return _whole_power(z if is_complex(z) else combined(z, 0.0), whole)
    is_zero = steered(_zeros, *parts(z))
    base = where_parts(is_zero, 1.0, z)
    made = exp(multiply(w, log(base if is_complex(base) else combined(base, 0.0 * base))))
    at_zero = steered(_power_at_zero, *parts(w))
    return where_parts(is_zero, combined(at_zero, 0.0 * at_zero), made)


def where_parts(condition, x, y):
    """Elements of x where the condition holds, else of y, for parts of each."""
    pairs = zip(parts(x), parts(y), strict=True)
    return combined(*[apply("where", condition, *pair) for pair in pairs])


@named("complex_operations.zeros")
def _zeros(x, y):
    return (np.asarray(x) == 0.0) & (np.asarray(y) == 0.0)


@named("complex_operations.power_at_zero")
def _power_at_zero(x, y):
    """0 to a power: 1 for 0, 0 for positive numbers, else NaN."""
    return np.where(_zeros(x, y), 1.0, np.where(np.asarray(x) > 0.0, 0.0, np.nan))


def _whole_exponent(w):
    """The whole number that an exponent is, a constant, or None."""
    if is_recorded(w) or is_complex(w) and not isinstance(w, (complex, np.complexfloating)):
        return None
    value = np.asarray(value_of(w))
    if value.ndim or value.imag != 0 or not abs(value.real) < 100 or value.real % 1:
        return None
    return int(value.real)


def _whole_power(z, n: int):
    """The power by repeated squaring, in NumPy's order."""
    made, base, k = None, z, abs(n)
    while k:
        if k & 1:
            made = base if made is None else multiply(made, base)
        k >>= 1
        base = square(base) if k else base
    if made is None:
        one = np.ones(np.shape(z), dtype_of(real_part(z)))
        return combined(add_zero(one), 0.0 * one)
    if n < 0:
        return reciprocal(made)
    return own_memory(z) if made is z else made


def add_zero(x):
    """A constant as a tensor."""
    return unlisted([x])[0] if not isinstance(x, np.ndarray) else x


# --- trigonometric and hyperbolic -----------------------------------------------------------------


@elementwise("sinh")
def sinh(z):
    return combined(*_of("sinh", *parts(z)))


@elementwise("cosh")
def cosh(z):
    return combined(*_of("cosh", *parts(z)))


@elementwise("tanh")
def tanh(z):
    return combined(*_of("tanh", *parts(z)))


def _turned(name: str, z):
    """The parts of a function of iz."""
    x, y = parts(z)
    return _of(name, apply("negative", y), x)


@elementwise("sin")
def sin(z):
    """−i sinh(iz)."""
    re, im = _turned("sinh", z)
    return combined(im, apply("negative", re))


@elementwise("cos")
def cos(z):
    return combined(*_turned("cosh", z))


@elementwise("tan")
def tan(z):
    """−i tanh(iz)."""
    re, im = _turned("tanh", z)
    return combined(im, apply("negative", re))


def _roots(z):
    """The square roots of 1 − z and 1 + z; −0 stays a side of the cut."""
    x, y = parts(z)
    below = _of("sqrt", apply("subtract", 1.0, x), apply("negative", y))
    return below, _of("sqrt", apply("add", 1.0, x), y)


def _cross(a, b):
    """The imaginary part of conj(a) b."""
    first, second = apply("multiply", a[0], b[1]), apply("multiply", a[1], b[0])
    return apply("subtract", first, second)


def _dot(a, b):
    """The real part of conj(a) b."""
    return apply("add", apply("multiply", a[0], b[0]), apply("multiply", a[1], b[1]))


def _arcsin(x, y):
    """Kahan, Branch cuts for complex elementary functions (1987)."""
    below, above = _roots(combined(x, y))
    along = apply("subtract", apply("multiply", below[0], above[0]), _both(below[1], above[1]))
    return apply("arctan2", x, along), apply("arcsinh", _cross(below, above))


def _both(x, y):
    return apply("multiply", x, y)


@elementwise("arcsin")
def arcsin(z):
    return combined(*_arcsin(*parts(z)))


@elementwise("arcsinh")
def arcsinh(z):
    """−i arcsin(iz)."""
    x, y = parts(z)
    re, im = _arcsin(apply("negative", y), x)
    return combined(im, apply("negative", re))


@elementwise("arccos")
def arccos(z):
    below, above = _roots(z)
    re = apply("multiply", apply("arctan2", below[0], above[0]), 2.0)
    return combined(re, apply("arcsinh", _cross(above, below)))


@elementwise("arccosh")
def arccosh(z):
    x, y = parts(z)
    below, above = _of("sqrt", apply("subtract", x, 1.0), y), _of("sqrt", apply("add", x, 1.0), y)
    im = apply("multiply", apply("arctan2", below[1], above[0]), 2.0)
    return combined(apply("arcsinh", _dot(below, above)), im)


def _arctanh(x, y):
    """Kahan's formula where 2x is large compared with 1 + |z|²; elsewhere the real function."""
    squares = apply("add", apply("square", x), apply("square", y))
    ratio = apply("divide", apply("multiply", x, 2.0), apply("add", squares, 1.0))
    near = steered(_is_large, ratio)
    far = apply("arctanh", apply("where", near, 0.0, ratio))
    size = apply("absolute", apply("where", near, x, 0.5))
    below = apply("add", apply("square", apply("subtract", 1.0, size)), apply("square", y))
    close = apply("log1p", apply("divide", apply("multiply", size, 4.0), below))
    close = apply("copysign", apply("multiply", close, 0.5), x)
    across = apply("multiply", apply("subtract", 1.0, x), apply("add", 1.0, x))
    im = apply("arctan2", apply("multiply", y, 2.0), apply("subtract", across, apply("square", y)))
    re = apply("where", near, close, far)
    return apply("multiply", re, 0.5), apply("multiply", im, 0.5)


@named("complex_operations.is_large")
def _is_large(ratio):
    return np.abs(ratio) > 0.5


@elementwise("arctanh")
def arctanh(z):
    return combined(*_arctanh(*parts(z)))


@elementwise("arctan")
def arctan(z):
    """−i arctanh(iz)."""
    x, y = parts(z)
    re, im = _arctanh(apply("negative", y), x)
    return combined(im, apply("negative", re))


# --- Complex operands of public functions: by parts, by products of parts, or separately ----------


#: Functions that move elements, or are linear in their first argument.
_LINEAR = (
    "reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze "
    "expand_dims broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d flip fliplr flipud "
    "rot90 roll repeat tile resize take take_along_axis delete copy diag diagflat "
    "diagonal trace tril triu split array_split hsplit vsplit dsplit unstack mean cumsum "
    "cumulative_sum concatenate concat stack hstack vstack dstack column_stack block meshgrid "
    "sliding_window_view gradient ediff1d"
)
for _name in _LINEAR.split():
    complex_function(_name)(by_parts())
for _names, _data in {
    "sum": ("x", "initial"),
    "select": ("choicelist", "default"),
    "choose": ("choices",),
    "compress": ("a",),
    "extract": ("arr",),
    "append": ("arr", "x", "values"),
    "insert": ("arr", "x", "values"),
    "diff": ("a", "x", "prepend", "append"),
    "round": ("x",),
    "trapezoid": ("y",),
}.items():
    complex_function(*_names.split())(by_parts(*_data))
for _names, _data in {
    "copyto": ("dst", "src"),
    "put": ("a", "x", "v", "values"),
    "place": ("arr", "x", "vals"),
    "putmask": ("a", "x", "values"),
    "put_along_axis": ("arr", "x", "values"),
    "fill_diagonal": ("a", "x", "val"),
}.items():
    complex_function(*_names.split())(writing_parts(*_data))
complex_function("matmul", "tensordot", "convolve", "matvec", "cross")(by_products())
complex_function("vdot", "vecdot", "vecmat")(by_products(conjugated=True))
complex_function("einsum")(by_products(-1, first=1))
_sum_of_products = by_products()


@complex_function("dot", "inner")
def dot(ours, a, b, out=None):
    """A sum of products; the product itself where an operand is a number."""
    if np.ndim(a) and np.ndim(b):
        return _sum_of_products(ours, a, b, out=out)
    return written_to(out, multiply(unlisted(a), unlisted(b)))


@complex_function("outer")
def outer(ours, a, b, out=None):
    """The product of every element with every other, not summed: zeros keep their signs."""
    a, b = (PUBLIC["ravel"](unlisted(x)) for x in (a, b))
    return written_to(out, multiply(a[:, None], b))


@complex_function("kron")
def kron(ours, a, b):
    """Blocks of products, one beside the other."""
    a, b = unlisted(a), unlisted(b)
    ndim = max(np.ndim(a), np.ndim(b))
    m, n = ((1,) * (ndim - np.ndim(x)) + np.shape(x) for x in (a, b))
    wide = [length for pair in zip(m, (1,) * ndim, strict=True) for length in pair]
    deep = [length for pair in zip((1,) * ndim, n, strict=True) for length in pair]
    blocks = multiply(PUBLIC["reshape"](a, wide), PUBLIC["reshape"](b, deep))
    return PUBLIC["reshape"](blocks, [p * q for p, q in zip(m, n, strict=True)])


_pad = by_parts("array", "x", "constant_values", "end_values")


@complex_function("pad")
def pad(ours, x, pad_width, mode="constant", **kwargs):
    if mode in ("maximum", "minimum", "median") or callable(mode):
        raise refused(f"pad with mode={mode!r}", x)
    return _pad(ours, x, pad_width, mode, **kwargs)


@complex_function("zeros_like", "ones_like", "empty_like", "full_like")
def filled_like(ours, x, *args, **kwargs):
    """A new tensor of the shape of x, real if a dtype says so."""
    like = np.broadcast_to(np.zeros((), getattr(x, "dtype", np.complex128)), np.shape(x))
    if ours.__name__ != "full_like":
        return ours(like, *args, **kwargs)
    made = ours(like, 0.0, *args[1:], **{k: v for k, v in kwargs.items() if k != "fill_value"})
    made[...] = args[0] if args else kwargs["fill_value"]
    return made


@complex_function("average")
def average(ours, x, axis=None, weights=None, returned=False, *, keepdims=False):
    """The mean of products with the weights."""
    if weights is None or returned:
        raise refused("average without weights, or with returned=True,", x)
    z, weights = unlisted(x), unlisted(weights)
    if np.shape(weights) != np.shape(z):
        raise refused("average with weights along an axis", x)
    total = PUBLIC["sum"](multiply(z, weights), axis=axis, keepdims=keepdims)
    return total / PUBLIC["sum"](weights, axis=axis, keepdims=keepdims)


@complex_function("where")
def where(ours, condition, x=None, y=None):
    """A complex condition holds where it is not 0."""
    if is_complex(condition):
        condition = compared("not_equal", condition, 0.0)
    if x is None or y is None or not (is_complex(x) or is_complex(y)):
        return ours(condition, x, y)
    pairs = zip(parts(unlisted(x)), parts(unlisted(y)), strict=True)
    return combined(*[ours(condition, *pair) for pair in pairs])


@complex_function("correlate")
def correlate(ours, a, v, mode="valid"):
    """The second operand is conjugated."""
    return by_products()(ours, a, conjugate_of(v), mode)


# --- parts ----------------------------------------------------------------------------------------


@complex_function("real")
def real(ours, z):
    return real_part(unlisted(z))


@complex_function("imag")
def imag(ours, z):
    return imag_part(unlisted(z))


@complex_function("conj", "conjugate")
def conjugated(ours, z):
    return conjugate(unlisted(z))


@complex_function("angle")
def angle(ours, z, deg=False):
    made = angle_of(unlisted(z))
    return apply("degrees", made) if deg else made


@complex_function("real_if_close")
def real_if_close(ours, a, tol=100):
    """Whether the imaginary parts are close to 0 is a choice by values."""
    z = unlisted(a)
    return real_part(z) if np.isrealobj(steered_complex(np.real_if_close, z, tol=tol)) else z


@complex_function("power", "pow")
def power(ours, x, y):
    z, w = unlisted(x), unlisted(y)
    if isinstance(w, float) and w == 0.5:
        return ELEMENTWISE_OF_COMPLEX["sqrt"](z)
    return power_of(z, w)


@complex_function("float_power")
def float_power(ours, x1, x2):
    return power(ours, x1, x2)


@complex_function("sinc")
def sinc(ours, x):
    raise refused("sinc", x)


# --- reductions -----------------------------------------------------------------------------------


@complex_function("prod")
def prod(ours, x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """A product by pairs: there is no division by elements, so zeros are not a special case."""
    if dtype is not None or out is not None or initial is not None or where is not True:
        raise lost_derivative(
            "tapegrad.prod: for complex numbers only axis= and keepdims= are supported", x
        )
    ndim = np.ndim(x)
    axes = reduced_axes("prod", axis, ndim)
    z = PUBLIC["moveaxis"](x, axes, range(len(axes)))
    rest = z.shape[len(axes) :]
    z = PUBLIC["reshape"](z, (int(np.prod(z.shape[: len(axes)], dtype=np.int64)), *rest))
    if len(z) == 1:
        z = own_memory(z)
    while len(z) > 1:
        half = len(z) // 2
        product = multiply(z[:half], z[half : 2 * half])
        z = PUBLIC["concatenate"]([product, z[2 * half :]]) if len(z) % 2 else product
    made = z[0] if len(z) else np.ones(rest, np.complex128)
    shape = tuple(1 if k in axes else n for k, n in enumerate(np.shape(x)))
    return PUBLIC["reshape"](made, shape) if keepdims else made


@complex_function("var", "std")
def spread(ours, x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **options):
    """The mean of squared distances from the mean: a real tensor."""
    center = PUBLIC["mean"](x, axis=axis, keepdims=True)
    away = PUBLIC["subtract"](x, center)
    squares = [apply("square", part) for part in parts(away)]
    total = apply("add", *squares)
    if dtype is not None or out is not None or options:
        raise lost_derivative(
            f"tapegrad.{ours.__name__}: for complex numbers only axis=, ddof= and keepdims= are "
            "supported",
            x,
        )
    count = total.size // max(center.size, 1)
    sums = PUBLIC["sum"](total, axis=axis, keepdims=keepdims)
    made = apply("divide", sums, float(max(count - ddof, 0)))
    return root(made) if ours.__name__ == "std" else made


@complex_function("norm", "vector_norm", "matrix_norm")
def norm(ours, x, *args, **kwargs):
    """Norms of the absolute values; those by singular values need more."""
    order = args[0] if args and ours.__name__ == "norm" else kwargs.get("ord")
    is_matrix = ours.__name__ == "matrix_norm" or len(np.shape(x)) == 2
    if order == "nuc" or is_matrix and order in (2, -2) and ours.__name__ != "vector_norm":
        raise refused(f"{ours.__name__} of order {order}", x)
    return ours(absolute(unlisted(x)), *args, **kwargs)


@complex_function("einsum_path")
def einsum_path(ours, *args, **kwargs):
    return ours(*map(real_part, args), **kwargs)


# --- tests of values ------------------------------------------------------------------------------


def _by_flags(name: str, both: str):
    """A test of numbers that holds if it does for both parts, or for either."""
    test, joined = getattr(np, name), getattr(np, both)

    def how(ours, z):
        found = [steered(test, part) for part in parts(unlisted(z))]
        return tensor_of(steered(joined, *found))

    complex_function(name)(how)
    return how


FLAGS = {
    name: _by_flags(name, f"logical_{both}")
    for name, both in dict(isnan="or", isinf="or", isfinite="and", logical_not="and").items()
}


@complex_function("any", "all")
def holds(ours, x, *args, **kwargs):
    re, im = [steered(np.not_equal, part, 0.0) for part in parts(unlisted(x))]
    return ours(tensor_of(steered(np.logical_or, re, im)), *args, **kwargs)


def compared(name: str, z, w):
    """A comparison: of complex numbers by their real parts, then by their imaginary parts."""
    (a, b), (c, d) = parts(unlisted(z)), parts(unlisted(w))
    same = steered(np.equal, a, c)
    if name in ("equal", "not_equal"):
        both = steered(np.logical_and, same, steered(np.equal, b, d))
        return tensor_of(both if name == "equal" else steered(np.logical_not, both))
    strict = getattr(np, name.removesuffix("_equal"))
    tied = steered(np.logical_and, same, steered(getattr(np, name), b, d))
    return tensor_of(steered(np.logical_or, steered(strict, a, c), tied))


for _name in "less less_equal greater greater_equal equal not_equal".split():
    ELEMENTWISE_OF_COMPLEX[_name] = functools.partial(compared, _name)

"""Complex operands of public functions: by parts, by products of parts, or separately."""

from __future__ import annotations

import functools

import numpy as np

from ..tensor.apply import ELEMENTWISE_OF_COMPLEX, apply
from ..tensor.complex_tensors import (
    combined,
    imag_part,
    is_complex,
    real_part,
    steered_complex,
)
from ..tensor.copies import unlisted
from ..tensor.registry import (
    PUBLIC,
    by_parts,
    by_products,
    complex_function,
    conjugate,
    conjugate_of,
    own_memory,
    refused,
    writing_parts,
    written_to,
)
from ..tensor.trace import lost_derivative, steered
from ..tensor.values import tensor_of
from .complex_arithmetic import absolute, angle_of, multiply, parts, power_of
from .reductions import reduced_axes, root

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

"""Sums, products, and functions of these; the common parts of all reductions."""

from __future__ import annotations

import operator

import numpy as np

from ..codegen.intrinsics import f64s, free, malloc
from ..codegen.layout import ARRAY, REFERENCE_BYTES
from ..ops import copy_add as kernels
from ..ops.axis_groups import (
    REDUCTION_HELPERS,
    add_partials,
    count_of_groups,
    group_in,
    groups_of,
    of_reduction,
    read_group,
)
from ..ops.table import structural
from ..tape.sweeps import dense, memory_axes
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import LINK, row_on, unlisted
from ..tensor.operators import begun, mask_of, written_to
from ..tensor.registry import function
from ..tensor.trace import fixed, lost_derivative, named, steered, steering_tensor, tensor_like
from ..tensor.values import (
    FLOATS,
    current,
    differentiates,
    dtype_of,
    is_tensor,
    scalar_of,
    shape_of,
)
from .shapes import numpy_call

# --- Sums and functions of sums; and the common parts of all reductions ---------------------------


def axes_of(name: str, axis, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple without negative ones; None means all."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    fixed = []
    for one in map(operator.index, axes):
        if not -ndim <= one < ndim:
            raise np.exceptions.AxisError(
                f"tapegrad.{name}: axis {one} does not exist; the tensor has {ndim} axes"
            )
        fixed.append(one % ndim)
    if len(set(fixed)) != len(fixed):
        raise ValueError(f"tapegrad.{name}: axis {tuple(axes)} names an axis twice")
    return tuple(sorted(fixed))


def reduced_axes(name: str, axis, ndim: int) -> tuple[int, ...]:
    """Axes as `axes_of`; ufuncs reduce what has no axes along axis 0 or -1, too."""
    is_one = axis is not None and not isinstance(axis, (tuple, list))
    if not ndim and is_one and operator.index(axis) in (0, -1):
        return ()
    return axes_of(name, axis, ndim)


def kept_shape(shape, axes) -> tuple[int, ...]:
    """The shape with the reduced axes kept as 1."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def plain(function_of_numpy, x, *args, where=True, **kwargs):
    """A NumPy function on operands that are not recorded, with a mask if it takes one."""
    if where is True:  # np.sum and others of older NumPy take no True
        if is_tensor(x):
            return steering_tensor(function_of_numpy, x, *args, **kwargs)
        return function_of_numpy(x, *args, **kwargs)
    name = function_of_numpy.__name__
    made = steered(_reduced, x, mask_of(name, where), *args, name=name, **kwargs)
    return tensor_like(made, x, where)


_REDUCTIONS = {
    name: getattr(np, name) for name in "sum prod mean var std max min amax amin any all".split()
}


@named("reductions.reduced")
def _reduced(x, where, *args, name, **kwargs):
    return _REDUCTIONS[name](x, *args, where=where, **kwargs)


def operand(name: str, x, dtype=None, out=None):
    """The operand of a reduction, in the requested dtype; `out` is there for NumPy's signature."""
    if out is not None:
        raise TypeError(
            f"tapegrad.{name}: the argument out is not supported on tensors; assign the result to "
            "a tensor with target[...] = result"
        )
    x = unlisted(x)
    if dtype is None or not differentiates(x):
        return x
    return x.astype(dtype)


def wide_enough(x, dtype, out):
    """The dtype in which NumPy reduces x into `out`, which may have more digits than x."""
    if dtype is not None:
        return dtype
    dtype = np.result_type(dtype_of(unlisted(x)), dtype_of(out))
    return dtype if dtype in FLOATS and dtype_of(unlisted(x)) != dtype else None


def masked(where, x, otherwise):
    """x where the mask holds, else the neutral element."""
    if where is True:
        return x
    mask = steered(_mask, mask_of("where", where), shape=shape_of(x))
    return apply("where", mask, x, otherwise)


@named("reductions.mask")
def _mask(where, shape):
    return np.broadcast_to(np.asarray(where, bool), shape)


def grouped(x, axes):
    """A view of a recorded tensor with `axes` last, and how many lines along the last are a group.

    Without axes every element is a group.
    """
    array = x._array
    if not axes:
        return rt.view_of(x, array[..., None]), 1
    kept = [k for k in range(array.ndim) if k not in axes]
    moved = array.transpose([*kept, *axes])
    return rt.view_of(x, moved), int(np.prod(moved.shape[len(kept) : -1], dtype=np.int64))


def reduced(op: int, value: np.ndarray, x, axes, keepdims: bool):
    """Record a reduction whose value, with the reduced axes kept as 1, is known."""
    if len(axes) == x._array.ndim and not keepdims and value.dtype == np.float64:
        moved, lines = grouped(x, axes)
        return rt.row(op, float(value.reshape(())), moved, lines)
    out, rest = dense(np.asarray(value)), list(range(x._array.ndim))
    if not keepdims:
        out = out.squeeze(axes)
        out = out if out.ndim else out.copy()  # a number: no view, to which `+=` would write
        rest = [axis for axis in rest if axis not in axes]
    order = memory_axes(out)
    if order is None:
        return rt.row(op, out, *grouped(x, axes))
    ordered = [rest[k] for k in order] + ([] if keepdims else list(axes))
    x = rt.view_of(x, x._array.transpose(ordered))
    axes = tuple(sorted(ordered.index(axis) for axis in axes))
    return rt.view_of(rt.row(op, out.transpose(order), *grouped(x, axes)), out)


def reduced_by(op, x, axis, keepdims):
    """A NumPy reduction, recorded as one row."""
    if type(x) is rt.Scalar:
        reduced_axes(op.name, axis, 0)
        return x
    x = current(x)
    axes = reduced_axes(op.name, axis, x._array.ndim)
    value = numpy_call(op.name, op.value, x._array, axes=axes)
    return reduced(ARRAY + op.code, np.asarray(value), x, axes, keepdims)


def sum_vjp(np, g, _out, _x):
    shape = (*g.shape, *_x.shape)
    g = np.reshape(g, (*g.shape, *[1] * _x.ndim)) if g.ndim else g
    return (np.broadcast_to(g, shape),)


def sum_jvp(np, t, _out, _x):
    return np.sum(t[0], axis=tuple(range(-_x.ndim, 0)))


_SUM = structural(
    "sum",
    kernels.sum_adjoint,
    tangent=kernels.sum_tangent,
    value=lambda x: np.sum(x),
    vjp=sum_vjp,
    jvp=sum_jvp,
    batched=sum_jvp,  # it is linear
    layout="operands",
    example="np.sum(x)",
    examples=("np.sum(x * x)",),
    doc="sum of all elements, a scalar",
)


@function("sum", method="sum")
def sum(x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Sum elements.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.sum(tg.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    tensor([4., 6.])
    """
    if out is not None:
        dtype = wide_enough(x, dtype, out)
        return written_to("sum", sum(x, axis, dtype, None, keepdims, initial, where), out)
    x = operand("sum", x, dtype)
    if initial is not None and differentiates(x, initial):
        return begun("add", sum(x, axis, dtype, None, keepdims, where=where), initial)
    if not differentiates(x):
        options = {} if initial is None else {"initial": fixed(initial, "initial=")}
        options |= dict(axis=axis, dtype=dtype, keepdims=keepdims)
        return plain(np.sum, x, where=where, **options)
    if where is not True:
        x = masked(where, x, 0.0)
    if type(x) is rt.Scalar:
        reduced_axes("sum", axis, 0)
        return x
    array = x._array
    axes = reduced_axes("sum", axis, array.ndim)
    if len(axes) == array.ndim and not keepdims and array.dtype == np.float64:
        if array.flags.c_contiguous:
            return rt.row(ARRAY + _SUM.code, float(array.sum()), x)
    is_whole = len(axes) == array.ndim and not keepdims
    out = np.asarray(np.sum(array, axis=axes, keepdims=not is_whole))
    shown = np.broadcast_to(out, array.shape)
    if not keepdims and not is_whole:
        out = out.reshape([n for k, n in enumerate(array.shape) if k not in axes])
    return scalar_of(row_on(LINK, out, x, shown))


def count_along(x, axes, where=True):
    """The number of elements reduced into one: a number, or an array if there is a mask."""
    shape = shape_of(x)
    if where is not True:
        return steered(_count, unlisted(where), shape=shape, axes=axes)
    return int(np.prod([shape[k] for k in axes], dtype=np.int64))


@named("reductions.count")
def _count(where, shape, axes):
    return np.sum(_mask(where, shape), axis=axes, keepdims=True)


def _per_count(x, total, axes, keepdims, where, ddof=0):
    """`total`, which has the reduced axes kept as 1 if `keepdims`, divided by the count."""
    n = count_along(x, axes, where)
    if where is True:
        return apply("divide", total, float(max(n - ddof, 0)))
    dtype = dtype_of(total) if dtype_of(total) in FLOATS else np.dtype(np.float64)
    n = steered(_divisor, n, ddof=ddof, axes=() if keepdims else axes, dtype=dtype)
    return apply("divide", total, n)


@named("reductions.divisor")
def _divisor(n, ddof, axes, dtype):
    return np.squeeze(np.maximum(n - ddof, 0).astype(dtype), axes)


@function("mean", method="mean")
def mean(x, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """Compute the arithmetic mean of elements.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.mean(tg.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    tensor([1.5, 3.5])
    """
    if out is not None:
        dtype = wide_enough(x, dtype, out)
        return written_to("mean", mean(x, axis, dtype, None, keepdims, where=where), out)
    x = operand("mean", x, dtype)
    if not differentiates(x):
        return plain(np.mean, x, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    axes = axes_of("mean", axis, len(shape_of(x)))
    total = sum(x, axes, keepdims=keepdims, where=where)
    return _per_count(x, total, axes, keepdims, where)


def fixed_ddof(name, ddof, correction):
    """The number subtracted from the count of elements, by either of its names."""
    for key, given in (("ddof", ddof), ("correction", correction)):
        if differentiates(given):
            raise lost_derivative(
                f"tapegrad.{name}: {key} is recorded, so its derivative would be lost; use "
                "detach()",
                given,
            )
    if correction is None:
        return fixed(ddof, f"ddof of {name}()")
    if ddof != 0:
        raise ValueError(
            f"tapegrad.{name}: ddof and correction are both given; give only one of them"
        )
    return fixed(correction, f"correction of {name}()")


def _spread(name, x, dtype, *, axis, ddof, keepdims, where, mean_given):
    """The variance, or the standard deviation."""
    if dtype is not None and np.dtype(dtype) not in FLOATS and differentiates(x):
        raise TypeError(f"tapegrad.{name}: dtype is {dtype}; give float64 or float32")
    x, mean_given = operand(name, x, dtype), unlisted(mean_given)
    if not differentiates(x, mean_given):
        settings = dict(axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
        if mean_given is not None:
            settings["mean"] = fixed(mean_given, "mean=")
        return plain(getattr(np, name), x, where=where, **settings)
    axes = axes_of(name, axis, len(shape_of(x)))
    center = mean(x, axes, keepdims=True, where=where) if mean_given is None else mean_given
    deviation = x - center
    if shape_of(deviation) != shape_of(x):
        raise ValueError(
            f"tapegrad.{name}: mean has shape {shape_of(center)}, but the tensor {shape_of(x)}; "
            "compute the mean with keepdims=True"
        )
    total = sum(apply("square", deviation), axes, keepdims=keepdims, where=where)
    made = _per_count(x, total, axes, keepdims, where, ddof)
    return made if name == "var" else root(made)


def root(total, power=0.5):
    """total ** power for a positive power, with derivative 0 where the total is 0."""
    raised = lambda x: apply("sqrt", x) if power == 0.5 else apply("power", x, power)
    if not differentiates(total):
        return raised(total)
    zero = steered(operator.eq, total, 0)
    return apply("where", zero, 0.0, raised(apply("where", zero, 1.0, total)))


_SPREAD = """

Parameters
----------
mean : array_like, optional
    The mean, with reduced axes of length 1, if it is known. It may be recorded.
correction : int, optional
    Another name of `ddof`.
"""


def _spread_function(name: str, doc: str):
    def spread(
        x,
        axis=None,
        dtype=None,
        out=None,
        ddof=0,
        keepdims=False,
        *,
        where=True,
        mean=None,
        correction=None,
    ):
        options = dict(axis=axis, keepdims=keepdims, where=where, mean_given=mean)
        options["ddof"] = fixed_ddof(name, ddof, correction)
        if out is None:
            return _spread(name, x, dtype, **options)
        return written_to(name, _spread(name, x, wide_enough(x, dtype, out), **options), out)

    spread.__name__ = name
    spread.__doc__ = doc + _SPREAD
    return function(name, method=name)(spread)


var = _spread_function("var", "Compute the variance: the mean squared deviation from the mean.")
std = _spread_function(
    "std",
    "Compute the standard deviation, the square root of `var`.\n\n"
    "Where it is 0 its derivative does not exist: it is 0, as PyTorch's.",
)


@function("average")
def average(x, axis=None, weights=None, returned=False, *, keepdims=False):
    """Compute a weighted mean.

    Parameters
    ----------
    weights : array_like, optional
        Weights in the shape of `x`, or of the length of its one `axis`. They may be recorded.
    returned : bool, optional
        Whether the sum of the weights is returned too.

    Returns
    -------
    Tensor, ndarray or number
        The mean, or a tuple of the mean and the sum of the weights.

    Raises
    ------
    ZeroDivisionError
        If the weights sum to zero.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda w: tg.average([1.0, 3.0], weights=w))([1.0, 1.0])
    [-0.5, 0.5]
    """
    x, weights = unlisted(x), unlisted(weights)
    if not is_tensor(x) and not is_tensor(weights):
        return np.average(x, axis, weights, returned, keepdims=keepdims)
    if weights is None:
        made = mean(x, axis, keepdims=keepdims)
        total = count_along(x, axes_of("average", axis, len(shape_of(x))))
        return (made, np.full(shape_of(made), float(total))) if returned else made
    shape, given = shape_of(x), shape_of(weights)
    axes = axes_of("average", axis, len(shape))
    if given != shape:
        if given != tuple(shape[k] for k in axes):
            raise ValueError(
                f"tapegrad.average: weights have shape {given}, but the tensor has {shape}; give "
                "one for each element, or pass axis="
            )
        weights = weights[tuple(slice(None) if k in axes else None for k in range(len(shape)))]
    weights = apply("where", np.ones(shape, bool), weights, 0.0)
    total = sum(weights, axes, keepdims=keepdims)
    if fixed(steered(_has_zero, total), "average()"):
        raise ZeroDivisionError("tapegrad.average: the weights sum to zero")
    made = apply("divide", sum(apply("multiply", x, weights), axes, keepdims=keepdims), total)
    return (made, total) if returned else made


@named("reductions.has_zero")
def _has_zero(total):
    return np.any(total == 0.0)


def _flags(name: str):
    numpy_function = getattr(np, name)

    def test(x, axis=None, out=None, keepdims=False, *, where=True):
        if out is not None:
            made = test(x, axis, None, keepdims, where=where)
            return written_to(name, made, out, casting="unsafe")
        return plain(numpy_function, unlisted(x), axis=axis, keepdims=keepdims, where=where)

    test.__name__ = name
    test.__doc__ = f"Test whether {name} elements are true. The result has no derivative."
    return function(name, method=name)(test)


any, all = _flags("any"), _flags("all")


# --- Products along axes: `prod`, and what others need of it --------------------------------------


def product_of_others(np, x, axes):
    """For each element the product of the others along axes, which are the last."""
    if x.size == 0:
        return x
    flat = np.reshape(x, (*x.shape[: x.ndim - len(axes)], -1))
    before, after = product_before(np, flat), product_before(np, flat[..., ::-1])[..., ::-1]
    return np.reshape(before * after, x.shape)


def product_before(np, x):
    """Products of the elements before each, along the last axis."""
    first = np.ones((*x.shape[:-1], 1), x.dtype)
    if x.shape[-1] < 2:
        return first
    return np.concatenate([first, np.cumprod(x[..., :-1], -1)], -1)


def prod_vjp(np, g, out, x, axes):
    if np.may_hold_zeros(x):
        return (np.times(g, product_of_others(np, x, axes)),)
    return (g * out / x,)


def prod_jvp(np, t, _out, x, axes):
    return np.sum(np.times(t[0], product_of_others(np, x, axes)), axis=axes, keepdims=True)


def prod_adjoint(frame, id, refs, task):
    """References: operand, lines of a group, output. A partial is the product of the others."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    block = malloc(n * 16)
    x, partial = f64s(block), f64s(block + n * 8)
    for group in range(count_of_groups(groups)):
        read_group(groups, group, block)
        before = 1.0
        for i in range(n):
            partial[i] = before
            before *= x[i]
        after = 1.0
        for i in range(n - 1, -1, -1):
            partial[i] *= after
            after *= x[i]
        add_partials(frame, id, refs + 2 * REFERENCE_BYTES, groups, group, found, block + n * 8)
    free(block)


def prod_forward(frame, id, refs, task):
    groups, n, count, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(count):
        x = f64s(group_in(groups, group, block))
        product = 1.0
        for i in range(n):
            product *= x[i]
        out[group] = product
    free(block)


_PROD = structural(
    "prod",
    prod_adjoint,
    value=lambda x, axes: np.prod(x, axis=axes, keepdims=True),
    vjp=prod_vjp,
    jvp=prod_jvp,
    value_kernel=prod_forward,
    layout="reduction",
    helpers=REDUCTION_HELPERS,
    example="np.prod(x)",
    examples=("np.prod(x, 0)", "np.prod(x.T, 0, keepdims=True)"),
    doc="product along axes, right with zeros",
)


@function("prod", method="prod")
def prod(x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Multiply elements.

    The partial derivative with respect to an element is the product of the others. It is right
    where elements are zero too.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.prod(x))([0.0, 2.0, 3.0])
    [6.0, 0.0, 0.0]
    """
    if out is not None:
        dtype = wide_enough(x, dtype, out)
        return written_to("prod", prod(x, axis, dtype, None, keepdims, initial, where), out)
    x = operand("prod", x, dtype)
    if initial is not None and differentiates(x, initial):
        return begun("multiply", prod(x, axis, dtype, None, keepdims, where=where), initial)
    if not differentiates(x):
        options = {} if initial is None else {"initial": fixed(initial, "initial=")}
        options |= dict(axis=axis, dtype=dtype, keepdims=keepdims)
        return plain(np.prod, x, where=where, **options)
    if where is not True:
        x = masked(where, x, 1.0)
    return reduced_by(_PROD, x, axis, keepdims)

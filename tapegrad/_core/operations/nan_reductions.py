"""Reductions that ignore NaN: sums, means, extremes, medians; and `nan_to_num`.

NaN is replaced before it is computed with, so that its derivatives of all orders are 0.
"""

from __future__ import annotations

import operator
import warnings

import numpy as np

from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.indexing import set_item
from ..tensor.operators import begun, written_to
from ..tensor.registry import function
from ..tensor.trace import named, of_each, steered
from ..tensor.values import differentiates, dtype_of, is_tensor, shape_of, value_of
from .cumulative import cumprod, cumsum
from .reductions import axes_of, fixed_ddof, kept_shape, prod, reduced_axes, root
from .reductions import sum as sum_of
from .shapes import reshape, transpose
from .sorting import max as max_of
from .sorting import min as min_of
from .sorting import take_along_axis
from .without_derivative import unrecorded

# --- what all of them share -------------------------------------------------------------------


def _replaced(x, otherwise):
    """x with something else for NaN."""
    return apply("where", steered(np.isnan, x), otherwise, x)


@named("nan_reductions.left_out")
def _left_out(x, where):
    """The elements that are NaN or masked."""
    return np.isnan(x) | ~np.broadcast_to(np.asarray(where, bool), np.shape(x))


def _holes(x, where):
    """The elements that are left out, a mask for programs to compute again."""
    return steered(np.isnan, x) if where is True else steered(_left_out, x, unlisted(where))


@named("nan_reductions.count")
def _count(holes, axes, keepdims):
    """The number of elements that are not left out, as a float."""
    kept = np.logical_not(np.asarray(holes, bool))
    return np.sum(kept, axis=axes, keepdims=keepdims, dtype=np.float64)


@named("nan_reductions.divisor")
def _divisor(count, ddof, dtype):
    """The count less ddof, 1 where that is not positive."""
    n = np.asarray(count) - ddof
    return np.where(n > 0, n, 1.0).astype(dtype)


@named("nan_reductions.too_few")
def _too_few(count, ddof):
    return np.asarray(count) <= ddof


def _divided(total, count, ddof, warning):
    """`total` divided by the count less ddof, NaN with a warning where that is not positive."""
    few = steered(_too_few, count, ddof=ddof)
    is_any = np.any(value_of(few))
    if is_any:
        warnings.warn(warning, RuntimeWarning, stacklevel=4)
    made = apply("divide", total, steered(_divisor, count, ddof=ddof, dtype=dtype_of(total)))
    # Outside programs, which may find some at other calls, there is nothing to replace.
    return apply("where", few, np.nan, made) if is_any or rt.trace() is not None else made


def _plain(name, x, where, out, **options):
    """NumPy's result for operands without derivative."""
    options = {key: value for key, value in options.items() if value is not None}
    if where is not True:
        options["where"] = where
    return written_to(name, unrecorded(getattr(np, name), x, **options), out)


def _check_dtype(name, dtype):
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise TypeError(
            f"tapegrad.{name}: dtype is {np.dtype(dtype)}; for floats it must be a floating dtype"
        )


# --- sums and products ------------------------------------------------------------------------


@function("nansum")
def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Sum elements; NaN counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.nansum(x * x))(np.array([1.0, np.nan, 3.0]))
    array([2., 0., 6.])
    """
    x, initial = unlisted(a), unlisted(initial)
    if not differentiates(x, initial):
        return _plain(
            "nansum", x, where, out, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial
        )
    made = sum_of(_replaced(x, 0.0), axis, dtype, None, keepdims, where=where)
    made = made if initial is None else apply("add", made, initial)
    return written_to("nansum", made, out)


@function("nanprod")
def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Multiply elements; NaN counts as 1."""
    x, initial = unlisted(a), unlisted(initial)
    if not differentiates(x, initial):
        return _plain(
            "nanprod", x, where, out, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial
        )
    made = prod(_replaced(x, 1.0), axis, dtype, None, keepdims, where=where)
    made = made if initial is None else apply("multiply", made, initial)
    return written_to("nanprod", made, out)


@function("nancumsum")
def nancumsum(a, axis=None, dtype=None, out=None):
    """Compute cumulative sums; NaN counts as 0."""
    x = unlisted(a)
    if not differentiates(x):
        return _plain("nancumsum", x, True, out, axis=axis, dtype=dtype)
    return written_to("nancumsum", cumsum(_replaced(x, 0.0), axis, dtype), out)


@function("nancumprod")
def nancumprod(a, axis=None, dtype=None, out=None):
    """Compute cumulative products; NaN counts as 1."""
    x = unlisted(a)
    if not differentiates(x):
        return _plain("nancumprod", x, True, out, axis=axis, dtype=dtype)
    return written_to("nancumprod", cumprod(_replaced(x, 1.0), axis, dtype), out)


# --- means and variances ----------------------------------------------------------------------


@function("nanmean")
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """Compute the mean of the elements that are not NaN.

    If there are no such elements, the result is NaN, with NumPy's RuntimeWarning.
    """
    x = unlisted(a)
    if not differentiates(x):
        return _plain("nanmean", x, where, out, axis=axis, dtype=dtype, keepdims=keepdims)
    _check_dtype("nanmean", dtype)
    axes = reduced_axes("nanmean", axis, len(shape_of(x)))
    holes = _holes(x, where)
    total = sum_of(apply("where", holes, 0.0, x), axes, dtype, keepdims=keepdims)
    count = steered(_count, holes, axes=axes, keepdims=keepdims)
    return written_to("nanmean", _divided(total, count, 0, "Mean of empty slice"), out)


@function("nanvar")
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, **options):
    """Compute the variance of the elements that are not NaN.

    If the divisor is not positive, the result is NaN, with NumPy's RuntimeWarning.

    Parameters
    ----------
    ddof : int, optional
        The divisor is the number of these elements minus `ddof`.
    **options
        `mean`, which is used as the mean, with reduced axes of length 1; `correction`, another name
        of `ddof`.
    """
    options |= dict(axis=axis, ddof=ddof, keepdims=keepdims, where=where)
    return written_to("nanvar", _variance("nanvar", a, dtype, **options), out)


@function("nanstd")
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, **options):
    """Compute the square root of `nanvar`.

    Parameters
    ----------
    ddof : int, optional
        The divisor is the number of elements that are not NaN minus `ddof`.
    **options
        `mean` and `correction`, as in `nanvar`.
    """
    options |= dict(axis=axis, ddof=ddof, keepdims=keepdims, where=where)
    return written_to("nanstd", root(_variance("nanstd", a, dtype, **options)), out)


def _variance(
    name, a, dtype, /, *, axis, ddof, keepdims, where, mean=None, correction=None, **unknown
):
    for key in sorted(unknown):
        raise TypeError(f"tapegrad.{name}: the argument {key} is not supported on tensors")
    x, mean, ddof = unlisted(a), unlisted(mean), fixed_ddof(name, ddof, correction)
    if not differentiates(x, mean):
        given = dict(axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, mean=mean)
        return _plain("nanvar", x, where, None, **given)
    _check_dtype(name, dtype)
    x = x if dtype is None else x.astype(dtype)
    axes = reduced_axes(name, axis, len(shape_of(x)))
    holes = _holes(x, where)
    count = steered(_count, holes, axes=axes, keepdims=True)
    if mean is None:
        total = sum_of(apply("where", holes, 0.0, x), axes, keepdims=True)
        mean = apply("divide", total, steered(_divisor, count, ddof=0, dtype=dtype_of(total)))
    deviation = apply("where", holes, 0.0, apply("subtract", x, mean))
    total = sum_of(apply("square", deviation), axes, keepdims=keepdims)
    if not keepdims:
        count = steered(_without_axes, count, axes=axes)
    return _divided(total, count, ddof, "Degrees of freedom <= 0 for slice.")


@named("nan_reductions.without_axes")
def _without_axes(count, axes):
    return np.squeeze(count, axes)


# --- extremes ---------------------------------------------------------------------------------


@named("nan_reductions.all_left_out")
def _all_left_out(holes, axes, keepdims):
    return np.all(holes, axis=axes, keepdims=keepdims)


def _nan_extreme(name, a, axis, out, keepdims, initial, where):
    x, initial = unlisted(a), unlisted(initial)
    if not differentiates(x, initial):
        return _plain(name, x, where, out, axis=axis, keepdims=keepdims, initial=initial)
    if where is not True and initial is None:
        raise ValueError(f"tapegrad.{name}: where= needs initial=, as in NumPy")
    axes = reduced_axes(name, axis, len(shape_of(x)))
    made, empty = extreme_number(name == "nanmax", x, axes, keepdims, where, initial)
    if initial is None and np.any(value_of(empty)):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)
    return written_to(name, made, out)


def extreme_number(largest: bool, x, axes, keepdims, where, initial):
    """The largest or smallest that is not NaN, `initial` among them; and where there is none."""
    if initial is not None and 0 in [shape_of(x)[k] for k in axes]:
        return begun("add", sum_of(x, axes, keepdims=keepdims), initial), False
    holes = _holes(x, where)
    of, worst = (max_of, -np.inf) if largest else (min_of, np.inf)
    made = of(apply("where", holes, worst, x), axes, keepdims=keepdims)
    made = _with_infinite(made, x, holes, worst, axes, keepdims)
    empty = steered(_all_left_out, holes, axes=axes, keepdims=keepdims)
    made = apply("where", empty, np.nan, made)
    if initial is not None:
        made = begun("fmax" if largest else "fmin", made, initial)
    return made, empty


def _with_infinite(made, x, holes, worst, axes, keepdims):
    """Shares where the extreme is the infinity put for NaN: infinite elements share, not NaN."""
    if rt.trace() is None and not np.any(value_of(made) == worst):
        return made
    tied = steered(_infinite, x, holes, worst=worst)
    # A number for the others: the mean of infinities is that infinity, and they share evenly.
    total = sum_of(apply("where", tied, x, 0.0), axes, keepdims=keepdims)
    count = steered(_share, tied, axes=axes, keepdims=keepdims, dtype=dtype_of(made))
    return apply("where", steered(operator.eq, made, worst), apply("divide", total, count), made)


@named("nan_reductions.infinite")
def _infinite(x, holes, worst):
    return (x == worst) & ~np.asarray(holes, bool)


@named("nan_reductions.share")
def _share(tied, axes, keepdims, dtype):
    return np.maximum(np.sum(tied, axis=axes, keepdims=keepdims), 1).astype(dtype)


@function("nanmax")
def nanmax(a, axis=None, out=None, keepdims=False, initial=None, where=True):
    """Find the largest element that is not NaN.

    Elements that tie for it share the derivative evenly. If there are no such elements, the result
    is NaN, with NumPy's RuntimeWarning.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.nanmax)(np.array([1.0, np.nan, 3.0]))
    array([0., 0., 1.])
    """
    return _nan_extreme("nanmax", a, axis, out, keepdims, initial, where)


@function("nanmin")
def nanmin(a, axis=None, out=None, keepdims=False, initial=None, where=True):
    """Find the smallest element that is not NaN.

    Elements that tie for it share the derivative evenly.
    """
    return _nan_extreme("nanmin", a, axis, out, keepdims, initial, where)


# --- medians ----------------------------------------------------------------------------------


def lines_first(x, axes):
    """x with `axes` together as a first axis, and the shape of the others."""
    shape = shape_of(x)
    kept = [k for k in range(len(shape)) if k not in axes]
    rest = tuple(shape[k] for k in kept)
    moved = x if len(shape) < 2 or axes == (0,) else transpose(x, (*axes, *kept))
    return (moved if len(axes) == 1 else reshape(moved, (-1, *rest))), rest


@function("nanmedian")
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """Compute the median of the elements that are not NaN.

    If there are no such elements, the result is NaN, with NumPy's RuntimeWarning.
    """
    x = unlisted(a)
    if not differentiates(x) or 0 in shape_of(x):
        return _plain("nanmedian", x, True, out, axis=axis, keepdims=keepdims)
    axes = axes_of("nanmedian", axis, len(shape_of(x)))
    if not axes:
        return written_to("nanmedian", apply("multiply", x, 1.0), out)
    flat, rest = lines_first(x, axes)
    picked = take_along_axis(flat, steered(_middle_numbers, flat), 0)
    made = sum_of(apply("multiply", picked, 0.5), 0)
    empty = steered(_all_left_out, steered(np.isnan, flat), axes=0, keepdims=False)
    if np.any(value_of(empty)):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    made = apply("where", empty, np.nan, made)
    made = reshape(made, kept_shape(shape_of(x), axes)) if keepdims else made
    return written_to("nanmedian", made, out)


@named("nan_reductions.middle_numbers")
def _middle_numbers(values):
    """Along the first axis, where the middle two of the numbers are, or twice the middle one."""
    return _middle_along(values, 0)


def _middle_along(values, axis):
    order = np.argsort(values, axis, kind="stable")
    count = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    ends = [np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[axis] - 1)]
    return np.take_along_axis(order, np.concatenate(ends, axis), axis)


@of_each(_middle_numbers, "nan_reductions.middle_numbers_each")
def _middle_numbers_each(values, mapped):
    return _middle_along(values, 1)


# --- NaN and infinities as numbers ------------------------------------------------------------


@function("nan_to_num")
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """Replace NaN and infinities by numbers.

    Elements that are replaced have derivative 0.

    Parameters
    ----------
    copy : bool, optional
        If false, the tensor is modified in place.
    nan, posinf, neginf : number, optional
        The numbers, which may be recorded; by default 0 and the largest and smallest of the dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.sum(np.nan_to_num(x) ** 2))(np.array([3.0, np.nan]))
    array([6., 0.])
    """
    x = unlisted(x)
    given = [unlisted(part) for part in (nan, posinf, neginf)]
    if not differentiates(x, *given):
        keys = dict(zip(("nan", "posinf", "neginf"), given, strict=True))
        made = unrecorded(np.nan_to_num, x, **keys)
    else:
        limits = np.finfo(dtype_of(x) if dtype_of(x).kind == "f" else np.float64)
        ends = [(np.inf, limits.max), (-np.inf, limits.min)]
        made = apply("where", steered(np.isnan, x), given[0], x)
        for number, (infinity, limit) in zip(given[1:], ends, strict=True):
            number = float(limit) if number is None else number
            made = apply("where", steered(operator.eq, x, infinity), number, made)
    if copy:
        return made
    if not is_tensor(x):
        return written_to("nan_to_num", made, x)
    set_item(x, ..., made)
    return x

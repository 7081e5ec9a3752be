"""Calls on whole masks and integers as steps: counts, sums, order, positions of elements."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..._core.tensor.trace import NAMED
from ..ir.kernel_step import Kernel
from ..ir.moving_step import Gather
from ..ir.steps import DOUBLE
from ..ir.uses import slots_of
from . import builder, interpolation_calls, position_calls
from .builder import Writer, broadcast
from .call_lowering import Lowering, axes_of, size_along
from .numpy_calls import Given, Result, compares_alike, detached, of_constant
from .position_calls import key_positions

# --- counts and sums --------------------------------------------------------------------------


def _sum(lower: Lowering, x: Given, axis=None, dtype=None, keepdims=False) -> Result | None:
    view, given = detached(lower.writer, x), lower.out.dtype
    axes = axes_of(axis, len(view.shape))
    if x.interval is None:
        is_float = x.dtype == given == lower.writer.dtype
        return Result(lower.total(view, axes, keepdims)) if is_float else None
    interval = builder.of_sum(x.interval, size_along(view.shape, axes))
    is_float = given == lower.writer.dtype
    allowed = lower.writer.interval_of(np.dtype(np.int64) if is_float else given)
    if not builder.is_within(interval, allowed):
        return None
    return Result(lower.total(view, axes, keepdims), interval)


def _mean(lower: Lowering, x: Given, axis=None, dtype=None, keepdims=False) -> Result | None:
    if lower.out.dtype != lower.writer.dtype:
        return None
    total = _sum(lower, x, axis, dtype, keepdims)
    if total is None or total.slots is None:
        return None
    count = size_along(x.shape, axes_of(axis, len(x.shape)))
    return Result(lower.apply("divide", lower.writer.together(total.slots), float(count)))


def _count_nonzero(lower: Lowering, x: Given, axis=None, keepdims=False) -> Result:
    mask = lower.mask(x)
    axes = axes_of(axis, len(mask.shape))
    return Result(lower.total(mask, axes, keepdims), (0, size_along(mask.shape, axes)))


def _any(lower: Lowering, x: Given, axis=None, keepdims=False) -> Result:
    mask = lower.mask(x)
    count = lower.total(mask, axes_of(axis, len(mask.shape)), keepdims)
    return Result(lower.apply("not_equal", count, 0.0), (0, 1))


def _all(lower: Lowering, x: Given, axis=None, keepdims=False) -> Result:
    wrong = lower.apply("equal", x.slots(lower.writer), 0.0)
    count = lower.total(wrong, axes_of(axis, len(wrong.shape)), keepdims)
    return Result(lower.apply("equal", count, 0.0), (0, 1))


def _cumsum(lower: Lowering, x: Given, axis=None, dtype=None) -> Result | None:
    view = x.slots(lower.writer)
    if x.interval is None or lower.out.dtype.kind not in "iu" or not view.shape:
        return None
    if axis is None:
        view, axis = lower.picked(view, np.arange(view.size)), 0
    interval = builder.of_sum(x.interval, view.shape[axis])
    if not builder.is_within(interval, lower.writer.interval_of(lower.out.dtype)):
        return None
    return Result(lower.along("cumsum", view, axis % len(view.shape)), interval)


def _where_mask(lower: Lowering, where: Given, shape) -> Result:
    """A mask of reductions, broadcast."""
    return Result(broadcast(lower.mask(where), shape), (0, 1))


def _count_where(lower: Lowering, where: Given, shape, axes) -> Result:
    """How many elements a mask of reductions leaves along axes."""
    mask = broadcast(lower.mask(where), shape)
    return Result(lower.total(mask, axes, True), (0, size_along(mask.shape, axes)))


def _divisor(lower: Lowering, count: Given, ddof, axes, dtype) -> Result | None:
    """What a mean or a variance is divided by."""
    if dtype != lower.writer.dtype:
        return None
    left = lower.apply("subtract", count.slots(lower.writer), float(ddof))
    return Result(slots_of(lower.apply("maximum", left, 0.0)).reshape(lower.out.shape))


def _shift(lower: Lowering, x: Given, b, axis) -> Result | None:
    """The largest with b ≠ 0 along axes, 0 where it is not finite: the shift of exponentials."""
    weights = b.slots(lower.writer) if isinstance(b, Given) else lower.constant(b)
    is_left_out = lower.apply("equal", weights, 0.0)
    view = lower.apply("where", is_left_out, -np.inf, detached(lower.writer, x))
    axes = axes_of(axis, len(view.shape))
    if not view.size or not axes:
        return None
    top = lower.reduction("max", view, axes, True)
    return Result(lower.apply("where", lower.apply("isfinite", top), top, 0.0))


def _largest(lower: Lowering, x: Given, axes, largest) -> Result:
    """Which elements a norm takes: the largest or smallest along axes, all where there is a NaN."""
    view = x.slots(lower.writer)
    axes = axes_of(axes, len(view.shape))
    best = lower.reduction("max" if largest else "min", view, axes, True)
    tied, nan = lower.apply("equal", view, best), lower.apply("isnan", best)
    return Result(lower.apply("logical_or", tied, nan), (0, 1))


def _count_of_largest(lower: Lowering, chosen: Given, axes, keepdims, dtype) -> Result | None:
    if dtype != lower.writer.dtype:
        return None
    view = lower.mask(chosen)
    return Result(lower.total(view, axes_of(axes, len(view.shape)), keepdims))


# --- order ------------------------------------------------------------------------------------


def _argsort(
    lower: Lowering, x: Given, axis=-1, kind=None, order=None, stable=None
) -> Result | None:
    """Steps where equal elements keep their order; how NumPy's default orders them is its own."""
    view = x.slots(lower.writer)
    if not view.shape:
        return None
    if axis is None:
        view, axis = lower.picked(view, np.arange(view.size)), 0
    inside = (0, max(view.shape[axis] - 1, 0))
    is_stable = kind in ("stable", "mergesort") or bool(stable)
    if not is_stable and (x.seen is None or _has_ties(x.seen.reshape(view.shape), axis)):
        return Result(None, inside)
    name = "stable_argsort" if is_stable else "argsort"
    return Result(lower.along(name, view, axis % len(view.shape)), inside)


def _has_ties(x: np.ndarray, axis: int) -> bool:
    """Whether elements along an axis are equal, NaN to NaN."""
    ordered = np.sort(np.moveaxis(x, axis, -1), axis=-1)
    before, after = ordered[..., :-1], ordered[..., 1:]
    return bool(np.any((before == after) | (before != before)))


def _searchsorted(lower: Lowering, a, v, side="left", sorter=None) -> Result:
    writer = lower.writer
    array, values, order = [_as_given(writer, one) for one in (a, v, sorter)]
    inside = (0, math.prod(array.shape))
    if len(array.shape) != 1 or not compares_alike(writer, array, values):
        return Result(None, inside)
    view = array.slots(writer)
    if sorter is not None:
        view, given = writer.buffers.allocate(array.shape), view
        writer.steps.append(Gather(view, given, order.slots(writer)))
    return Result(lower.searched(view, values.slots(writer), side), inside)


def _as_given(writer: Writer, x) -> Given:
    return x if isinstance(x, Given) else of_constant(writer, x)


def _digitize(lower: Lowering, x: Given, bins, right=False) -> Result | None:
    """Steps for bins in ascending order that are constant."""
    if isinstance(bins, Given) or not np.all(np.diff(bins) >= 0):
        return None
    return _searchsorted(lower, bins, x, "left" if right else "right")


def _true_places(lower: Lowering, x: Given) -> Result:
    """The positions in C order of all elements that are not 0."""
    return Result(lower.true_places(x, lower.out.size), (0, max(math.prod(x.shape) - 1, 0)))


def _part(lower: Lowering, x: Given, function, number, keywords) -> Result | None:
    """Indices along one axis: of all elements that are not 0, or of those at positions."""
    if function is np.nonzero and x.shape:
        shape, view = x.shape, lower.true_places(x, lower.out.size)
    elif function is np.unravel_index and keywords.keys() == {"shape"}:
        shape, view = keywords["shape"], x.slots(lower.writer)
        if x.interval is None or not builder.is_within(x.interval, (0, math.prod(shape) - 1)):
            return None
    else:
        return None
    rest, inner = math.prod(shape[number:]), math.prod(shape[number + 1 :])
    if number:
        view = lower.apply("remainder", view, float(rest))
    if inner > 1:
        view = lower.apply("floor_divide", view, float(inner))
    return Result(view, (0, max(shape[number] - 1, 0)))


def _shapes(lower: Lowering, x: Given, function, keywords) -> Result | None:
    """The shapes of all results, one after the other, of what finds elements that are not 0."""
    if function not in (np.nonzero, np.flatnonzero) or not x.shape:
        return None
    count = lower.total(lower.mask(x), tuple(range(len(x.shape))), False)
    return Result(broadcast(count, lower.out.shape), (0, math.prod(x.shape)))


def _arg_extreme(name: str) -> Callable:
    def lowered(lower: Lowering, x: Given, axis=None, out=None, keepdims=False) -> Result | None:
        view = x.slots(lower.writer)
        axes = axes_of(axis, len(view.shape))
        if not axes:
            return None
        made = lower.reduction(name, view, axes, keepdims)
        return Result(made, (0, size_along(view.shape, axes) - 1))

    return lowered


def _middle(lower: Lowering, x: Given) -> Result:
    """Along the last axis, where the middle element is or the middle two; where a NaN is."""
    view = x.slots(lower.writer)
    n, last = view.shape[-1], len(view.shape) - 1
    order = slots_of(lower.along("stable_argsort", view, last))
    bad = lower.apply("not_equal", lower.total(lower.apply("isnan", view), (last,), True), 0.0)
    end = lower.writer.together(order[..., -1:])
    middle = lower.writer.together(order[..., (n - 1) // 2 : n // 2 + 1])
    return Result(lower.apply("where", bad, end, middle), (0, n - 1))


def _bins(lower: Lowering, x: Given, minlength) -> Result | None:
    """One more than the largest integer, but at least a length; none is negative."""
    if isinstance(minlength, Given) or x.interval is None or not math.prod(x.shape):
        return None
    whole = lower.writer.interval_of(np.dtype(np.int64))
    assert whole is not None
    most = whole[1] - 1
    view = lower.within(x.slots(lower.writer), 0, most)
    top = lower.reduction("max", view, axes_of(None, len(view.shape)), False)
    made = lower.apply("maximum", lower.apply("add", top, 1.0), float(minlength))
    return Result(made, (int(minlength), most + 1))


def _whole(lower: Lowering, x: Given) -> Result | None:
    return Result(x.slots(lower.writer), x.interval) if x.interval is not None else None


def _rank(lower: Lowering, s: Given, rcond) -> Result | None:
    """How many of singular values are above a part of the largest."""
    view = s.slots(lower.writer)
    axes = axes_of(None, len(view.shape))
    if not view.size or s.dtype != lower.writer.dtype:
        return None
    top = lower.reduction("max", view, axes, False)
    above = lower.apply("greater", view, lower.apply("multiply", top, float(rcond)))
    return Result(lower.total(above, axes, False), (0, view.size))


def _squeezed(lower: Lowering, x: Given, axis=None) -> Result:
    return Result(slots_of(detached(lower.writer, x)).reshape(lower.out.shape), x.interval)


_HANDLERS: dict[Any, Callable[..., Result | None]] = {
    np.sum: _sum,
    np.mean: _mean,
    np.count_nonzero: _count_nonzero,
    np.any: _any,
    np.all: _all,
    np.cumsum: _cumsum,
    np.argsort: _argsort,
    np.searchsorted: _searchsorted,
    np.digitize: _digitize,
    np.flatnonzero: _true_places,
    np.argmax: _arg_extreme("argmax"),
    np.argmin: _arg_extreme("argmin"),
    np.squeeze: _squeezed,
}
#: By the names that functions of ours have in files.
_NAMED_HANDLERS: dict[str, Callable[..., Result | None]] = {
    **position_calls.HANDLERS,
    **interpolation_calls.HANDLERS,
    "reductions.mask": _where_mask,
    "reductions.count": _count_where,
    "reductions.divisor": _divisor,
    "scans.top": _shift,
    "norms.chosen": _largest,
    "norms.count": _count_of_largest,
    "sorting.middle": _middle,
    "histograms.count_of_bins": _bins,
    "lstsq.rank": _rank,
    "histograms.whole": _whole,
    "steering.shapes": _shapes,
    "steering.part": _part,
}
#: Those whose first operand may be a constant.
_OF_ANY = (key_positions, _searchsorted, interpolation_calls.HANDLERS["interpolation.interval"])


def handler_of(function) -> Callable[..., Result | None] | None:
    """What writes calls of a function as steps."""
    for name, handler in _NAMED_HANDLERS.items():
        if NAMED.get(name) is function:
            return handler
    return _HANDLERS.get(function)


def lowered(writer: Writer, function, keywords: dict, operands: list, out) -> Result | None:
    """A call as steps, None if it stays a call; operands are `Given`, or constants."""
    handler, lower = handler_of(function), Lowering(writer, out)
    if handler is None:
        return _by_kernel(lower, function, keywords, operands)
    if not isinstance(operands[0], Given) and handler not in _OF_ANY:
        return None
    try:
        inspect.signature(handler).bind(lower, *operands, **keywords)
    except TypeError:  # an argument that is not among those
        return None
    return handler(lower, *operands, **keywords)


def _by_kernel(lower: Lowering, function, keywords: dict, operands: list) -> Result | None:
    """The value of an operation that is called where nothing has a derivative."""
    op = next((op for op in TABLE.values() if getattr(op, "value", None) is function), None)
    given = [_as_given(lower.writer, x) for x in operands]
    if op is None or not op.is_by_rule or any([x.dtype != DOUBLE for x in given]):
        return None
    made = lower.writer.buffers.allocate(lower.out.shape)
    views = [x.slots(lower.writer) for x in given]
    step = Kernel(op.code, [tuple(keywords.items()), *views], made)
    if lower.writer.dtype != DOUBLE or step.static_words is None:
        return None
    lower.writer.steps.append(step)
    return Result(lower.apply("detached", made))

"""Calls without derivative as steps: comparisons, masks, counts, order, positions, `interp`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.operations.creation import converted
from ..._core.ops.ordering import STEERING, searching
from ..._core.ops.table import TABLE, meant_by
from ..._core.tensor.trace import NAMED
from ..ir.kernel_step import Kernel
from ..ir.moving_step import Gather, Link
from ..ir.steps import DOUBLE, View, contiguous
from ..ir.uses import slots_of
from ..replay.operation_parts import LARGEST, holds
from . import builder
from .builder import Interval, Writer, broadcast

# --- numpy calls ----------------------------------------------------------------------------------
# Calls without derivative that are operations of programs: comparisons, logic, conversions,
# arithmetic of masks and integers, element by element.

_BOOL = np.dtype(bool)
_LOGICAL = {
    operator.and_: "logical_and",
    operator.or_: "logical_or",
    operator.xor: "logical_xor",
    operator.invert: "logical_not",
    np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or",
    np.bitwise_xor: "logical_xor",
    np.invert: "logical_not",
}
#: NumPy's arithmetic of masks.
_OF_MASKS = {
    "add": "logical_or",
    "maximum": "logical_or",
    "multiply": "logical_and",
    "minimum": "logical_and",
}
#: Give the same numbers in another dtype, if that holds them.
_SAME = (np.asarray, np.array, converted)


@dataclasses.dataclass
class Given:
    """An operand of a call: a view of slots, or None and the constant that it is.

    `interval` says where integers lie; `is_number` that a float may have a derivative. `seen` are
    the values that were recorded, None where they have been written to since.
    """

    view: View | None
    value: Any
    dtype: np.dtype
    interval: Interval | None
    is_number: bool = False
    seen: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value) if self.view is None else self.view.shape

    def slots(self, writer: Writer) -> View:
        if self.view is not None:
            return self.view
        return writer.constant_array(np.asarray(self.value, writer.dtype))


def of_constant(writer: Writer, value) -> Given:
    """An operand of a call that never changes; Python's floats are of any dtype."""
    array = np.asarray(value)
    dtype = writer.dtype if type(value) is float else array.dtype
    return Given(None, value, dtype, builder.of_values(array), seen=array)


@dataclasses.dataclass
class Result:
    """The result of a call: its slots, as a view or one by one, and the interval of its integers.

    Without slots it stays a call.
    """

    slots: View | np.ndarray | None
    interval: Interval | None = None


def element_wise(
    writer: Writer, function, keywords: dict, operands: list[Given], out: np.ndarray
) -> Result | None:
    """A call as an operation of the table, None if it is none; `out` is its recorded result."""
    if function in _SAME and len(operands) == 1:
        return _converted(writer, operands[0], np.dtype(keywords.get("dtype", out.dtype)), out)
    if keywords or not all(_is_held(writer, x) for x in operands):
        return None
    if function is np.where and len(operands) == 3:
        return _where(writer, operands, out)
    if function is np.clip and len(operands) == 3 and out.dtype.kind in "iu":
        return _clipped(writer, operands, out)
    name = _name_of(writer, function, operands, out.dtype)
    if name is None:
        return None
    if out.dtype.kind in "iu":
        return _of_integers(writer, name, operands, out)
    return Result(_applied(writer, name, operands, out.shape))


def _is_held(writer: Writer, x: Given) -> bool:
    """Whether a program computes with an operand as NumPy does: its slots hold the same numbers."""
    is_wider = x.dtype.kind == "f" and x.dtype.itemsize > writer.dtype.itemsize
    return not is_wider and (x.view is not None or holds(writer.dtype, np.asarray(x.value)))


def compares_alike(writer: Writer, *operands: Given) -> bool:
    """Whether comparisons in a program are NumPy's: of the same numbers, which slots hold."""
    return all([_is_held(writer, x) and _is_exact(writer, _dtype_of(x)) for x in operands])


def _dtype_of(x: Given) -> np.dtype:
    """The dtype in which NumPy compares an operand, Python's numbers too."""
    return x.dtype if x.view is not None else np.asarray(x.value).dtype


def _name_of(writer: Writer, function, operands: list[Given], dtype: np.dtype) -> str | None:
    """The name of the operation that a call is."""
    are_masks = all(x.dtype == _BOOL for x in operands)
    if function in _LOGICAL:
        return _LOGICAL[function] if are_masks else None
    op = meant_by(function)
    if op is not None and op.name in STEERING:
        return op.name
    if not isinstance(function, np.ufunc):
        return None
    name = function.__name__
    if dtype == _BOOL:
        return _OF_MASKS.get(name) if are_masks else None
    if dtype.kind in "iu":
        return name
    computes_alike = dtype == writer.dtype and all(_is_exact(writer, x.dtype) for x in operands)
    return op.name if computes_alike and op is not None else None


def _is_exact(writer: Writer, dtype: np.dtype) -> bool:
    """Whether NumPy computes with numbers of a dtype as the program does."""
    return dtype.kind in "biu" or dtype == writer.dtype


def _applied(writer: Writer, name: str, operands: list[Given], shape) -> View | np.ndarray:
    op = STEERING.get(name) or TABLE[name]
    views = [detached(writer, x) if op.sloping else x.slots(writer) for x in operands]
    return writer.apply(op.code, views, shape)


def detached(writer: Writer, given: Given) -> View:
    """The slots of an operand without its derivative, which calls do not have."""
    view = given.slots(writer)
    if not given.is_number:
        return view
    return writer.together(writer.apply(STEERING["detached"].code, [view], view.shape))


def _of_integers(writer: Writer, name: str, operands: list[Given], out) -> Result | None:
    """Arithmetic of integers whose results fit into their dtype and into slots.

    Where that does not follow from the intervals of the operands, it is checked.
    """
    found = [x.interval for x in operands]
    interval = builder.of_result(name, *found)
    if interval is None:
        return None
    is_safe = builder.is_within(interval, writer.interval_of(out.dtype))
    if not is_safe and not _is_exact_in(writer, name, operands, out.dtype):
        return None
    made = _applied(writer, name, operands, out.shape)
    if not is_safe:
        return whole(writer, writer.together(made), out)
    if builder.may_be_minus_zero(name, *[one for one in found if one is not None]):
        zero = writer.constant_array(np.zeros(()))
        made = writer.apply(TABLE["add"].code, [writer.together(made), zero], out.shape)
    return Result(made, interval)


def _clipped(writer: Writer, operands: list[Given], out: np.ndarray) -> Result | None:
    """Integers between bounds, of which the upper one counts if it is below the lower one."""
    x, low, high = operands
    above = _of_integers(writer, "maximum", [x, low], out)
    if above is None or above.slots is None:
        return None
    held = Given(writer.together(above.slots), None, out.dtype, above.interval)
    return _of_integers(writer, "minimum", [held, high], out)


def _is_exact_in(writer: Writer, name: str, operands: list[Given], dtype: np.dtype) -> bool:
    """Whether recorded integers have not wrapped around, as far as their bounds say."""
    seen = [None if x.seen is None else builder.of_values(x.seen) for x in operands]
    interval = builder.of_result(name, *seen)
    return interval is not None and builder.is_within(interval, writer.interval_of(dtype))


def whole(writer: Writer, view: View, out: np.ndarray) -> Result | None:
    """Numbers without their fractions, as the integers of `out` that were recorded.

    The program stops where one is outside the interval that they have then.
    """
    within, seen = writer.interval_of(out.dtype), builder.of_values(out)
    if within is None or seen is None:
        return None
    usual = builder.usual(within, LARGEST[writer.dtype.itemsize])
    interval = next((one for one in usual if builder.is_within(seen, one)), None)
    if interval is None:
        return None
    made = writer.buffers.allocate(view.shape)
    writer.steps.append(Kernel(STEERING["whole"].code, [view, *interval], made))
    return Result(made, interval)


def _where(writer: Writer, operands: list[Given], out: np.ndarray) -> Result | None:
    condition, x, y = operands
    if not all(_is_exact(writer, dtype) for dtype in (out.dtype, x.dtype, y.dtype)):
        return None
    made = writer.apply(
        TABLE["where"].code,
        [condition.slots(writer), detached(writer, x), detached(writer, y)],
        out.shape,
    )
    return Result(made, builder.union(x.interval, y.interval))


def _converted(writer: Writer, x: Given, after: np.dtype, out: np.ndarray) -> Result | None:
    if x.view is None:
        return None
    if x.dtype == after == writer.dtype:
        return Result(writer.apply(STEERING["detached"].code, [x.view], x.view.shape))
    within = writer.interval_of(after)
    fits = x.interval is not None and builder.is_within(x.interval, within)
    if after == x.dtype or after == writer.dtype or fits:
        return Result(x.view, x.interval)
    if after == _BOOL:
        zero = writer.constant_array(np.zeros(()))
        return Result(writer.apply(STEERING["not_equal"].code, [x.view, zero], x.view.shape))
    if within is None or not _is_exact(writer, x.dtype) or not _is_cut_off(x, out):
        return None
    return whole(writer, x.view, out)


def _is_cut_off(x: Given, out: np.ndarray) -> bool:
    """Whether recorded integers are numbers without fractions, as all that fit into a dtype are.

    Of numbers that are not known any more this is so where none is as if it had not fitted.
    """
    if x.seen is not None:
        return np.array_equal(np.trunc(x.seen), out)
    return (
        out.dtype.kind == "i" and out.dtype.itemsize >= 4 and (out != np.iinfo(out.dtype).min).all()
    )


# --- call lowering --------------------------------------------------------------------------------
# Calls without derivative written as steps: what all of them are written with.


class Lowering:
    """A call, written as steps; `out` is its recorded result."""

    def __init__(self, writer: Writer, out: np.ndarray):
        self.writer, self.out = writer, out

    def kernel(self, name: str, operands: list, made: View) -> View:
        """The result of a kernel."""
        op = STEERING.get(name) or TABLE[name]
        self.writer.steps.append(Kernel(op.code, operands, made))
        return made

    def apply(self, name: str, *operands: View | float) -> View:
        """An element-wise operation of views and numbers."""
        op = STEERING.get(name) or TABLE[name]
        views = [x if isinstance(x, View) else self.constant(x) for x in operands]
        shape = np.broadcast_shapes(*[view.shape for view in views])
        return self.writer.together(self.writer.apply(op.code, views, shape))

    def constant(self, values) -> View:
        return self.writer.constant_array(np.asarray(values, self.writer.dtype))

    def mask(self, x: Given) -> View:
        """1 where x is true, else 0."""
        view = x.slots(self.writer)
        return view if x.dtype == _BOOL else self.apply("not_equal", view, 0.0)

    def total(self, view: View, axes: tuple[int, ...], keepdims: bool) -> View:
        """Sums along axes."""
        kept = tuple(1 if k in axes else n for k, n in enumerate(view.shape))
        made = self.writer.buffers.allocate(kept)
        self.writer.steps.append(Link(made, [(broadcast(made, view.shape), view)]))
        shape = tuple(n for k, n in enumerate(view.shape) if k not in axes)
        return made if keepdims else contiguous(made.offset, shape)

    def reduction(self, name: str, view: View, axes: tuple[int, ...], keepdims: bool) -> View:
        """The result of a kernel along axes."""
        kept = [k for k in range(len(view.shape)) if k not in axes]
        moved = _transposed(view, [*kept, *axes])
        shape = [n if k in kept else 1 for k, n in enumerate(view.shape) if keepdims or k in kept]
        lines = math.prod(moved.shape[len(kept) : -1])
        return self.kernel(name, [moved, lines], self.writer.buffers.allocate(tuple(shape)))

    def along(self, name: str, view: View, axis: int) -> View:
        """The result of a kernel for each line along an axis, in the shape of the view."""
        order = [*[k for k in range(len(view.shape)) if k != axis], axis]
        made = self.writer.buffers.allocate(view.shape)
        return self.kernel(name, [_transposed(view, order), 1, _transposed(made, order)], made)

    def within(self, view: View, least: int, greatest: int) -> View:
        """Numbers without their fractions; the program stops where one is outside."""
        made = self.writer.buffers.allocate(view.shape)
        return self.kernel("whole", [view, least, greatest], made)

    def true_places(self, x: Given, count: int) -> View:
        """The positions in C order at which elements are not 0, which are so many."""
        made = self.writer.buffers.allocate((count,))
        return self.kernel("mask_positions", [x.slots(self.writer)], made)

    def searched(self, array: View, values: View, side: str) -> View:
        """Where values belong in a sorted array."""
        made = self.writer.buffers.allocate(values.shape)
        return self.kernel("searchsorted", [array, values, searching(side)], made)

    def picked(self, view: View, places: np.ndarray) -> View:
        """Elements of a view, by their numbers in C order."""
        return self.writer.together(slots_of(view).ravel()[places])


def _transposed(view: View, order: list[int]) -> View:
    shape = tuple(view.shape[k] for k in order)
    return View(view.offset, shape, tuple(view.strides[k] for k in order), view.base)


def axes_of(axis, ndim: int) -> tuple[int, ...]:
    if axis is None or not ndim:  # what has no axes is reduced along axis 0, too
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(int(one) % ndim for one in axes))


def size_along(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(shape[k] for k in axes)


# --- interpolation calls --------------------------------------------------------------------------
# Calls of `interp` on positions and lines as steps.


def _increases(lower: Lowering, xp: Given) -> Result | None:
    """Whether no place is below the one before."""
    n = xp.shape[0]
    if n == 1:
        return Result(lower.constant(1.0), (1, 1))
    view = xp.slots(lower.writer)
    later, before = lower.picked(view, np.arange(1, n)), lower.picked(view, np.arange(n - 1))
    wrong = lower.apply("logical_not", lower.apply("greater_equal", later, before))
    count = lower.total(wrong, (0,), False)
    return Result(lower.apply("equal", count, 0.0), (0, 1))


def _place(lower: Lowering, x: Given, xp: Given) -> View:
    """The line of each position, by number."""
    view, places = x.slots(lower.writer), xp.slots(lower.writer)
    found = lower.searched(places, view, "right")
    last = lower.picked(places, np.array([xp.shape[0] - 1]))
    behind = lower.apply("greater", view, View(last.offset, (), (), last.base))
    return lower.apply("where", behind, xp.shape[0] + 1.0, found)


def _interval(lower: Lowering, x, xp) -> Result | None:
    given = [one if isinstance(one, Given) else of_constant(lower.writer, one) for one in (x, xp)]
    if not compares_alike(lower.writer, *given):
        return None
    return Result(_place(lower, *given), (0, given[1].shape[0] + 1))


def _lies_inside(lower: Lowering, where: Given, n) -> Result:
    return Result(_inside(lower, where.slots(lower.writer), n), (0, 1))


def _inside(lower: Lowering, where: View, n: int) -> View:
    """1 on lines, which one position alone has not."""
    bounds = (0.0, float(n)) if n > 1 else (0.0, 0.0)
    parts = [lower.apply("greater", where, bounds[0]), lower.apply("less_equal", where, bounds[1])]
    return lower.apply("logical_and", *parts)


def _lines_at(lower: Lowering, x: Given, xp, fp, left, right) -> Result | None:
    """Elements of lines that are constant, where no product of 0 and infinity occurs."""
    if not compares_alike(lower.writer, x, of_constant(lower.writer, xp)):
        return None
    with np.errstate(all="ignore"):
        slopes = np.concatenate([[0.0], np.diff(fp) / np.diff(xp), [0.0, 0.0]])
    lines = [np.append(xp[:1], np.append(xp, xp[-1:])), slopes, np.hstack([left, fp, right])]
    if not all([np.isfinite(one).all() for one in lines]):
        return None
    where, found = _place(lower, x, of_constant(lower.writer, xp)), []
    for one in lines:
        found.append(lower.writer.buffers.allocate(where.shape))
        lower.writer.steps.append(Gather(found[-1], lower.constant(one), where))
    found.append(_inside(lower, where, len(xp)))
    return Result(np.stack([slots_of(view) for view in found]))


#: Functions by their names in files.
INTERPOLATION_HANDLERS: dict[str, Callable[..., Result | None]] = {
    "interpolation.increases": _increases,
    "interpolation.interval": _interval,
    "interpolation.is_inside": _lies_inside,
    "interpolation.lines_at": _lines_at,
}


# --- position calls -------------------------------------------------------------------------------
# Positions of elements as steps: what keys pick whose integers and masks a program computes.


def _is_inside(index: Given, n: int) -> bool:
    """Whether indices are known to be along an axis of n elements."""
    return index.interval is not None and builder.is_within(index.interval, (-n, n - 1))


def _counted(lower: Lowering, index: Given, n: int) -> View:
    """Indices along an axis of n elements, counted from its start.

    Those outside become places that no array has: what reads or writes there stops the program,
    and checks of integers do. Such results have no interval.
    """
    view = index.slots(lower.writer)
    if index.interval is not None and builder.is_within(index.interval, (0, n - 1)):
        return view
    return lower.apply("index", view, float(n))


def _positions(lower: Lowering, shape: tuple[int, ...], key: tuple) -> Result | None:
    """Positions in C order for a key whose integers a program computes.

    The targets of the parts of a key, found by indexing arrays that vary along one axis only.
    """
    found = _without_masks(lower, shape, key)
    if found is None or not 0 < math.prod(shape) <= LARGEST[lower.writer.dtype.itemsize]:
        return None
    shape, key, axes = found
    fixed = tuple(_zeros_of(part) if isinstance(part, Given) else part for part in key)
    steps = contiguous(0, shape).strides
    places = slots_of(contiguous(0, shape))
    parts = [lower.constant(places[fixed])] if places[fixed].any() else []
    for k, (part, axis) in enumerate(zip(key, axes, strict=True)):
        if not isinstance(part, Given):
            continue
        index = _counted(lower, part, shape[axis])
        count = max(index.size, 1)
        numbers = np.arange(count).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        along = (*shape[:axis], count, *shape[axis + 1 :])
        chosen = (*fixed[:k], np.arange(index.size).reshape(index.shape), *fixed[k + 1 :])
        spread = lower.picked(index, np.broadcast_to(numbers, along)[chosen])
        far = steps[axis] != 1
        parts.append(lower.apply("multiply", spread, float(steps[axis])) if far else spread)
    total = functools.reduce(lambda x, y: lower.apply("add", x, y), parts)
    given = [(x, shape[axis]) for x, axis in zip(key, axes, strict=True) if isinstance(x, Given)]
    is_inside = all([_is_inside(x, n) for x, n in given])
    return Result(total, (0, math.prod(shape) - 1) if is_inside else None)


def _zeros_of(part: Given) -> np.ndarray:
    return np.zeros(part.shape, np.int64)


def _without_masks(lower: Lowering, shape: tuple[int, ...], key: tuple):
    """A shape, a key, and the axis that each of its parts picks from.

    The axes that a mask picks from are one in this shape, and the mask the indices along that. None
    for parts that are neither slices nor arrays.
    """
    parts = [np.asarray(part) if isinstance(part, list) else part for part in key]
    if not all(map(_is_known, parts)):
        return None
    picks = [_axes_picked(part) for part in parts]
    new, axes, axis = list(shape), [], 0
    for k, part in enumerate(parts):
        axes.append(axis)
        if _is_mask(part):
            sizes = tuple(new[axis : axis + picks[k]])
            if not sizes or sizes != part.shape:
                return None
            new[axis : axis + picks[k]] = [math.prod(sizes)]
            parts[k] = _picked(lower, part)
            axis += 1
        else:
            axis += len(shape) - sum(picks) if part is ... else picks[k]
    return tuple(new), tuple(parts), axes


def _is_known(part) -> bool:
    """Whether a part of a key is a slice, an integer, or an array of integers or masks."""
    if isinstance(part, (Given, np.ndarray)):
        return part.dtype.kind in "biu"
    kinds = (slice, int, np.integer, type(None), type(...))
    return isinstance(part, kinds) and not isinstance(part, bool)


def _axes_picked(part) -> int:
    """How many axes a part of a key picks from; 0 for an ellipsis."""
    if part is None or part is ...:
        return 0
    return len(part.shape) if _is_mask(part) else 1


def _is_mask(part) -> bool:
    return isinstance(part, (Given, np.ndarray)) and part.dtype == _BOOL


def _picked(lower: Lowering, mask: Given | np.ndarray) -> Given | np.ndarray:
    """Where a mask holds, as many positions as when it was recorded: that is checked before."""
    if isinstance(mask, np.ndarray):
        return np.flatnonzero(mask)
    assert mask.seen is not None  # masks are never written to
    view = lower.true_places(mask, int(np.count_nonzero(mask.seen)))
    return Given(view, None, np.dtype(np.int64), (0, max(mask.seen.size - 1, 0)))


def key_positions(lower: Lowering, *parts, shape, is_tuple) -> Result | None:
    return _positions(lower, shape, parts)


def _taken(lower: Lowering, indices: Given, shape, axis, mode) -> Result | None:
    """Positions of the rows that `take` picks."""
    n, shape = shape[axis], shape[: axis + 1]
    if indices.dtype == _BOOL:
        return None
    if mode == "clip" and n:
        view = lower.apply("maximum", indices.slots(lower.writer), 0.0)
        view = lower.apply("minimum", view, n - 1.0)
        indices = Given(view, None, indices.dtype, (0, n - 1))
    elif mode == "wrap" and n:
        inside = lower.apply("remainder", indices.slots(lower.writer), float(n))
        indices = Given(lower.apply("add", inside, 0.0), None, indices.dtype, (0, n - 1))
    return _positions(lower, shape, (*[slice(None)] * axis, indices))


def _taken_along(lower: Lowering, indices: Given, shape, axis) -> Result | None:
    if indices.dtype == _BOOL:
        return None
    ndim, axis = len(shape), axis % len(shape)
    key: list[Any] = [
        np.arange(n).reshape((-1,) + (1,) * (ndim - k - 1)) for k, n in enumerate(shape)
    ]
    key[axis] = indices
    return _positions(lower, shape, tuple(key))


def _placed(lower: Lowering, positions: Given, places) -> Result | None:
    """Elements of a constant array at positions, flat."""
    view = positions.slots(lower.writer)
    made = lower.writer.buffers.allocate((view.size,))
    lower.writer.steps.append(Gather(made, lower.constant(places), view))
    return Result(made, builder.of_values(places))


def _repeated(lower: Lowering, positions: Given, directions, size) -> Result | None:
    """Positions in contiguous arrays, in each of them."""
    view = positions.slots(lower.writer)
    flat = lower.picked(view, np.arange(view.size))
    starts = size * np.arange(directions, dtype=np.float64)[:, None]
    made = lower.apply("add", flat, lower.constant(starts))
    inside = positions.interval
    if inside is not None:
        inside = inside[0], inside[1] + size * (directions - 1)
    return Result(made, inside)


def _put(lower: Lowering, indices: Given, size, mode) -> Result | None:
    """Positions in C order that `put` writes."""
    if mode != "raise" or indices.dtype.kind not in "iu" or not size:
        return None
    view = lower.within(indices.slots(lower.writer), -size, size - 1)
    flat = lower.picked(lower.apply("index", view, float(size)), np.arange(view.size))
    return Result(flat, (0, size - 1))


def _elements_of_rows(lower: Lowering, picked: Given, shape) -> Result | None:
    """Positions of all elements of rows at positions."""
    view, size = picked.slots(lower.writer), math.prod(shape)
    if not view.size or not size:
        return None
    width, inside = size // view.size, picked.interval
    flat = lower.picked(view, np.arange(view.size))
    first = View(flat.offset, (view.size, 1), (*flat.strides, 0), flat.base)
    each = lower.constant(np.arange(width))
    made = lower.apply("add", lower.apply("multiply", first, float(width)), each)
    if inside is not None:
        inside = inside[0] * width, inside[1] * width + width - 1
    return Result(slots_of(made).reshape(shape), inside)


#: Functions by their names in files.
POSITION_HANDLERS: dict[str, Callable[..., Result | None]] = {
    "sorting.rows_taken": _taken,
    "inplace_functions.positions": _put,
    "sorting.taken_along": _taken_along,
    "indexing.positions_of": key_positions,
    "indexing.positions_of_elements": _elements_of_rows,
    "unwritten.places": _placed,
    "tangent_rules.repeated": _repeated,
}


# --- mask calls -----------------------------------------------------------------------------------
# Calls on whole masks and integers as steps: counts, sums, order, positions of elements.


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
    **POSITION_HANDLERS,
    **INTERPOLATION_HANDLERS,
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
_OF_ANY = (key_positions, _searchsorted, INTERPOLATION_HANDLERS["interpolation.interval"])


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

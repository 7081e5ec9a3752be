"""Rows of arrays written as steps, by operation.

Rows that only move values to known places (joins, picks, writes) make no step: they change maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.call_rows import COMPUTED
from ..._core.ops.table import Pointwise, Structural
from ..._core.tape.row_reader import object_at
from ..._core.tensor.trace import Call
from ..ir.computed_step import Computed
from ..ir.custom_step import Custom
from ..ir.gather_step import Gather
from ..ir.kernel_step import Kernel
from ..ir.link_step import Link
from ..ir.scalar_expansion import summed
from ..ir.scatter_step import Scatter
from ..ir.slots import slots_of
from ..ir.steps import DOUBLE, View
from . import small_arrays
from .boxes import Box, left_by, part_of, placed
from .buffers import LARGE, PIECES, is_output
from .builder import Writer
from .mask_calls import lowered
from .numpy_calls import Given, element_wise, of_constant
from .outputs import Target, broadcast
from .tape_rows import Unsupported

#: Elements from which on a gather is a step, and no map of slots.
ROWS = 64


class Row:
    """A row of arrays: where it is in the order of time, its number, operation and references.

    `out` is the reference of the result, `array` the result, or its buffer.
    """

    def __init__(self, place: int, number: int, op: Any, references: Any):
        self.place, self.number, self.op, self.references = place, number, op, references
        self.out = references[-1]
        self.array: Any = self.out.array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape if is_output(self.out, self.number) else ()


def write_row(writer: Writer, row: Row) -> None:
    """Write the steps of a row of arrays."""
    if row.number in writer.custom:
        _custom(writer, row)
    elif isinstance(row.op, Pointwise):
        writer.result(row, writer.apply(row.op.code, row.references[:-1], row.array.shape))
    else:
        _HANDLERS.get(row.op.name, _kernel)(writer, row)


# --- values moved -----------------------------------------------------------------------------


def _link(writer: Writer, row: Row) -> None:
    target, sources = Target(row.array), row.references[:-1:2]
    shown = [target.view(reference.array) for reference in row.references[1::2]]
    boxes = _joined(writer, row, sources, shown)
    if boxes is not None:
        writer.result(row, boxes)
        return
    pairs, left = list(zip(sources, shown, strict=True)), target.left_out(shown)
    if left is not None:
        slots = np.zeros(row.array.size, np.int64)
        if left.size:
            slots[left] = _constants(writer, row, left)
        for source, view in pairs:
            view.of(slots)[...] = writer.slots_of(source)
        writer.result(row, slots.reshape(row.array.shape))
        return
    totals = small_arrays.sums(writer, row.array, pairs)
    if totals is not None:
        writer.result(row, totals)
        return
    made = writer.buffers.allocate(row.array.shape)
    views = [(view.moved(made.offset), writer.view_of(source)) for source, view in pairs]
    views = [(view, broadcast(source, view.shape)) for view, source in views]
    writer.steps.append(Link(made, views))
    writer.result(row, made)


def _joined(writer: Writer, row: Row, sources: list, shown: list[View]) -> list[Box] | None:
    """A large array put together of others as boxes; None where it is none, or of too many."""
    array = row.array
    if array.size < LARGE or not array.flags.c_contiguous:
        return None
    parts, boxes = [], []
    for source, view in zip(sources, shown, strict=True):
        part = part_of(array.shape, view.offset, view.shape, view.strides)
        found = writer.boxes_of(source, part.shape) if part is not None and part.is_box() else None
        if part is None or found is None:
            return None
        parts.append(part)
        boxes += placed(found, part)
    left = left_by(array.shape, tuple(parts))
    reached = sum([box.source.size for box in (*boxes, *left)])
    if reached > array.size or len(boxes) + len(left) > PIECES:
        return None  # several are added to some element
    return boxes + _constant_boxes(writer, row, left) if left else boxes


def _constant_boxes(writer: Writer, row: Row, left: tuple[Box, ...]) -> list[Box]:
    """The boxes of the output of a link that nothing reaches: see `_constants`."""
    out, found = writer.past.at(row.number).value(row.number, row.number, row.array), []
    for low, high, _ in left:
        values = out[tuple(map(slice, low, high))].astype(writer.dtype)
        if values.any() or np.signbit(values).any():
            view = writer.constant_array(values)
        else:
            view = View(writer.rows.constant(0.0), values.shape, (0,) * values.ndim)
        found.append(Box(low, high, view))
    return found


def _constants(writer: Writer, row: Row, left: np.ndarray) -> int | np.ndarray:
    """Slots for elements of the output of a link that nothing reaches: they are constants.

    They are the elements that the row wrote; newer rows may have written to them.
    """
    out = writer.past.at(row.number).value(row.number, row.number, row.array)
    values = out.reshape(-1)[left].astype(writer.dtype)
    if not values.any() and not np.signbit(values).any():
        return writer.rows.constant(0.0)
    return slots_of(writer.constant_array(values))


def _sum(writer: Writer, row: Row) -> None:
    source = writer.view_of(row.references[0])
    if 0 < source.size <= small_arrays.TERMS:
        slots = slots_of(source).ravel()
        writer.result(row, summed(writer.numbers.each, np.zeros_like(slots), slots)[1])
        return
    made = writer.buffers.allocate(())
    writer.steps.append(Link(made, [(broadcast(made, source.shape), source)]))
    writer.result(row, made)


def _pack(writer: Writer, row: Row) -> None:
    writer.result(row, np.array([int(writer.slots_of(r)) for r in row.references[:-1]], np.int64))


def _gather(writer: Writer, row: Row) -> None:
    source, picked, _ = row.references
    shape = row.array.shape
    if picked.id >= 0:
        at: View | np.ndarray = writer.view_of(picked)
    else:
        at = np.array(picked.array, np.int64)
        if row.array.size < ROWS or _are_even(at.ravel()):
            rows = _as_rows(writer.slots_of(source), row.array.size, at)
            writer.result(row, rows[at].reshape(shape))
            return
    view = writer.view_of(source)
    made = writer.buffers.allocate(shape)
    writer.steps.append(Gather(made, view, at))
    writer.result(row, made)


def _are_even(positions: np.ndarray) -> bool:
    """Whether rows at positions are equally far apart: then they are a view."""
    return bool((np.diff(positions, 2) == 0).all())


def _as_rows(slots: np.ndarray, size: int, positions: np.ndarray) -> np.ndarray:
    """The slots of rows, one after the other; those at all positions are of a total size."""
    width = size // (positions.size or 1) or 1
    return slots.reshape(slots.size // width, width)


def _write(writer: Writer, row: Row) -> None:
    view, _, source = row.references
    if writer.buffers.found[view.id].boxes:
        boxes = writer.boxes_of(source, view.array.shape)
        if boxes is not None and writer.buffers.write_boxes(view.id, view.array, boxes):
            return
    slots = writer.slots_of(source)
    writer.buffers.slots(view.id, view.array)[...] = slots


def _scatter(writer: Writer, row: Row) -> None:
    target, kept, source, picked = row.references
    array = target.array
    if picked.id >= 0:
        _scatter_computed(writer, row)
        return
    positions, shape = np.asarray(picked.array, np.int64), kept.array.shape
    slots = np.broadcast_to(writer.slots_of(source), shape)
    if not slots.size:
        return
    rows = array.shape[: array.ndim - (len(shape) - positions.ndim)]
    writer.buffers.slots(target.id, array)[np.unravel_index(positions, rows)] = slots


def _scatter_computed(writer: Writer, row: Row) -> None:
    """A write at positions that the program computes makes a new array."""
    target, kept, source, picked = row.references
    number, array = target.id, target.array
    written = broadcast(writer.view_of(source), kept.array.shape)
    before, positions = writer.buffers.view(number, array), writer.view_of(picked)
    made = writer.buffers.allocate(array.shape)
    writer.steps.append(Scatter(made, before, written, positions))
    writer.buffers.slots(number, array)[...] = slots_of(made)


# --- functions without derivative --------------------------------------------------------------


def _computed(writer: Writer, row: Row) -> None:
    """A call of NumPy: as operations and steps if it is known, else as a step that calls it."""
    call = object_at(row.references[0].what)
    operands = [
        _given(writer, row.references[1 + what]) if recorded else what
        for recorded, what in call.arguments
    ]
    every = [one if isinstance(one, Given) else of_constant(writer, one) for one in operands]
    result = element_wise(writer, call.function, call.keywords, every, row.array)
    if result is None:
        result = lowered(writer, call.function, call.keywords, operands, row.array)
    if result is None or result.slots is None:
        slots = _called(writer, call, operands, row.array.shape)
    else:
        slots = result.slots
    if result is not None and result.interval is not None:
        writer.intervals[row.place] = result.interval
    writer.result(row, _in_order(slots, row.array.shape))


def _called(writer: Writer, call: Call, operands: list, shape) -> View | np.ndarray:
    """A call as a step that calls it."""
    made = writer.buffers.allocate(shape)
    pairs: list[tuple[Any, np.dtype | None]] = [
        (x.view, x.dtype) if isinstance(x, Given) else (x, None) for x in operands
    ]
    writer.steps.append(Computed(call.bound(), pairs, made))
    return made


def _in_order(slots: View | np.ndarray, shape) -> View | np.ndarray:
    """Slots of a result: a view in C order, or one by one."""
    if isinstance(slots, View) and slots.shape == shape and slots.is_contiguous:
        return slots
    each = slots_of(slots) if isinstance(slots, View) else slots
    return np.broadcast_to(each, shape)


def _given(writer: Writer, reference) -> Given:
    """An operand of a call that the program computes."""
    number, dtype = reference.id, dtype_of(reference)
    op = int(writer.rows.reader.row(number)["op"])
    known = writer.intervals.get(writer.rows.place(number))
    is_number = dtype.kind == "f" and op != layout.ARRAY + COMPUTED.code
    interval = writer.interval_of(dtype) if known is None else known
    seen = (
        None if writer.rows.is_written(writer.rows.place(number)) else _recorded(writer, reference)
    )
    return Given(writer.view_of(reference), None, dtype, interval, is_number, seen)


def _recorded(writer: Writer, reference) -> np.ndarray:
    """The value of an operand when it was recorded, which has not been written to."""
    if reference.is_array:
        return reference.array
    return np.asarray(writer.rows.reader.row(reference.id)["value"])


def dtype_of(reference) -> np.dtype:
    """The dtype of the operand that a reference of a row names."""
    is_array = reference.is_array
    return reference.array.dtype if is_array else DOUBLE


# --- operations of the user's ------------------------------------------------------------------


def _custom(writer: Writer, row: Row) -> None:
    """A call of an operation that has an adjoint of the user's: a step that repeats it."""
    given = [one for one in row.references[:-1] if one.id >= 0]
    operands = [(writer.view_of(one), dtype_of(one)) for one in given]
    made = writer.buffers.allocate(row.array.shape)
    call, is_reached = writer.custom[row.number], row.number in writer.reached
    writer.steps.append(Custom(row.op.code, call, operands, made, is_reached))
    writer.result(row, made)


def _function(writer: Writer, row: Row) -> None:
    raise Unsupported(
        "it calls an autograd.Function and writes in place where it is differentiated"
    )


# --- others -----------------------------------------------------------------------------------


def _convert(writer: Writer, row: Row) -> None:
    raise Unsupported(
        f"it converts to {row.array.dtype}, while its program computes in {writer.dtype}"
    )


def _scatter_add(writer: Writer, row: Row) -> None:
    """Elements added to zeros; if no position is repeated they are assigned."""
    source, picked = row.references[:2]
    if picked.id < 0:
        positions = picked.array.ravel()
        if len(np.unique(positions)) == len(positions):
            slots = np.full(row.array.size, writer.rows.constant(0.0))
            given = writer.slots_of(source)
            _as_rows(slots, given.size, positions)[positions] = _as_rows(
                given.ravel(), given.size, positions
            )
            writer.result(row, slots)
            return
    _kernel(writer, row)


def _expanded(writer: Writer, row: Row) -> bool:
    """Write an operation of few products as operations on numbers; whether that is done."""
    op, references = row.op, row.references[:-1]
    if op.expanded is None:
        return False
    found = [_value_of(reference) for reference in references]
    count = op.products(row.shape, *[x.shape if isinstance(x, np.ndarray) else x for x in found])
    if not 0 < count <= small_arrays.PRODUCTS:
        return False
    number = op.references.shown
    operands = [
        writer.slots_of(reference) if isinstance(x, np.ndarray) and k != number else x
        for k, (reference, x) in enumerate(zip(references, found, strict=True))
    ]
    made = op.expanded(writer.numbers.each, *operands)
    if number is not None and is_output(row.out, row.number):
        slots = np.zeros(row.array.size, np.int64)
        shown = Target(row.array).view(found[number]).of(slots)
        shown[...] = made.reshape(shown.shape)
        made = slots.reshape(row.array.shape)
    writer.result(row, made)
    return True


def _value_of(reference):
    """The array or the number that a reference of a row names."""
    is_array = reference.is_array
    return reference.array if is_array else reference.what


def _kernel(writer: Writer, row: Row) -> None:
    op: Structural = row.op
    if op.is_by_rule:
        _by_rule(writer, row)
        return
    if op.value_kernel is None or op.adjoint is None:
        raise Unsupported(f"it calls {op.name}, which has no kernels for programs")
    if _expanded(writer, row):
        return
    made = writer.buffers.allocate(row.shape)
    operands = [_kernel_operand(writer, reference, row, made) for reference in row.references[:-1]]
    number = op.references.shown
    if number is not None:
        operands[number] = _computed_as(row.references[number].array, row, made)
    writer.steps.append(Kernel(op.code, operands, made))
    writer.result(row, made)


def _by_rule(writer: Writer, row: Row) -> None:
    """A row of the plain layout whose operation its rule differentiates."""
    keywords, *operands, _ = row.references
    made = writer.buffers.allocate(row.shape)
    views = [writer.view_of(reference) for reference in operands]
    static = tuple(object_at(keywords.what).items())
    writer.steps.append(Kernel(row.op.code, [static, *views], made))
    writer.result(row, made)


def _computed_as(whole: np.ndarray, row: Row, made: View) -> View:
    if not is_output(row.out, row.number):
        return View(made.offset, whole.shape, (0,) * whole.ndim)
    return Target(row.array).view(whole, made.offset)


def _kernel_operand(writer: Writer, reference, row: Row, made: View):
    tag = reference.tag
    if tag == layout.TAG_INT:
        return reference.what
    if tag == layout.TAG_OBJECT:
        return object_at(reference.what)
    if tag == layout.TAG_ARRAY and reference.id < 0 and is_output(row.out, row.number):
        array = reference.array
        if np.may_share_memory(array, row.array):
            return Target(row.array).view(array, made.offset)
    if tag == layout.TAG_ARRAY and reference.id < 0:
        array = reference.array
        if array.dtype.kind in "iu":  # positions
            return array.astype(np.int64)
    return writer.view_of(reference)


_HANDLERS: dict[str, Callable[[Writer, Row], None]] = {
    "link": _link,
    "sum": _sum,
    "pack": _pack,
    "gather": _gather,
    "write": _write,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    COMPUTED.name: _computed,
    "convert": _convert,
    "function": _function,
}

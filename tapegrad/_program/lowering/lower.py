"""A recording converted to a program: rows in their order become steps in single assignment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.call_rows import COMPUTED
from ..._core.ops.table import BY_CODE, Pointwise, Structural
from ..._core.tape.tape import CELLS, needed, object_at
from ..._core.tensor import runtime as rt
from ..._core.tensor.trace import Guard, NumpyCall, Trace
from ..._core.tensor.values import value_of
from ..ir.kernel_step import Computed, Custom, Kernel
from ..ir.moving_step import Gather, Link, Scatter
from ..ir.scalars_step import renumbered
from ..ir.steps import DOUBLE, GUARD, Code, Input, Output, Step, View, distinct
from ..ir.uses import CONSTANTS, slots_of, summed
from . import tape_scan
from .buffers import LARGE, PIECES, IndexBox, base_array, is_output, left_by, part_of, placed
from .builder import (
    FEW,
    MIXED,
    NONE,
    OperandsInPlace,
    Originals,
    OutsideArrays,
    Target,
    Writer,
    broadcast,
)
from .numpy_calls import Given, element_wise, lowered, of_constant
from .tape_rows import WRITES_DATA, Reference, RowRange, Unsupported

# --- Products and sums of few elements, written as operations on numbers: a step costs more -------


#: The most products of numbers in an operation that is written out as such.
PRODUCTS = 16
#: The most elements that are added to others, and the most to one: NumPy adds so few in turn.
ADDED, TERMS = 16, 7


def sums(writer: Writer, out: np.ndarray, pairs: list) -> np.ndarray | None:
    """The slots of sums, from pairs of a source and the view of `out` that it is added to.

    None where they are not few; `pairs` name the source as a reference of a row.
    """
    if sum(shown.size for _, shown in pairs) > ADDED:
        return None
    places = np.arange(out.size)
    targets = [shown.of(places).ravel() for _, shown in pairs]
    counts = np.bincount(np.concatenate([*targets, places[:0]]), minlength=len(places))
    if counts.max(initial=0) > TERMS:
        return None
    sources = [np.broadcast_to(writer.slots_of(x), shown.shape).ravel() for x, shown in pairs]
    flat = [np.concatenate([*slots, places[:0]]) for slots in (targets, sources)]
    found, totals = summed(writer.numbers.each, *flat)
    made = np.full(len(places), -1, np.int64)
    made[found] = totals
    if (made < 0).any():
        made[made < 0] = writer.rows.constant(0.0)
    return made.reshape(out.shape)


# --- Rows of arrays written as steps, by operation ------------------------------------------------
# Rows that only move values to known places (joins, picks, writes) make no step: they change maps.


#: Elements from which on a gather is a step, and no map of slots.
ROWS = 64


class ArrayRow:
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


def write_row(writer: Writer, row: ArrayRow) -> None:
    """Write the steps of a row of arrays."""
    if row.number in writer.custom:
        _custom(writer, row)
    elif isinstance(row.op, Pointwise):
        writer.result(row, writer.apply(row.op.code, row.references[:-1], row.array.shape))
    else:
        _HANDLERS.get(row.op.name, _kernel)(writer, row)


# --- values moved -----------------------------------------------------------------------------


def _link(writer: Writer, row: ArrayRow) -> None:
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
    totals = sums(writer, row.array, pairs)
    if totals is not None:
        writer.result(row, totals)
        return
    made = writer.buffers.allocate(row.array.shape)
    views = [(view.moved(made.offset), writer.view_of(source)) for source, view in pairs]
    views = [(view, broadcast(source, view.shape)) for view, source in views]
    writer.steps.append(Link(made, views))
    writer.result(row, made)


def _joined(
    writer: Writer, row: ArrayRow, sources: list, shown: list[View]
) -> list[IndexBox] | None:
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


def _constant_boxes(writer: Writer, row: ArrayRow, left: tuple[IndexBox, ...]) -> list[IndexBox]:
    """The boxes of the output of a link that nothing reaches: see `_constants`."""
    out, found = writer.past.at(row.number).value(row.number, row.number, row.array), []
    for low, high, _ in left:
        values = out[tuple(map(slice, low, high))].astype(writer.dtype)
        if values.any() or np.signbit(values).any():
            view = writer.constant_array(values)
        else:
            view = View(writer.rows.constant(0.0), values.shape, (0,) * values.ndim)
        found.append(IndexBox(low, high, view))
    return found


def _constants(writer: Writer, row: ArrayRow, left: np.ndarray) -> int | np.ndarray:
    """Slots for elements of the output of a link that nothing reaches: they are constants.

    They are the elements that the row wrote; newer rows may have written to them.
    """
    out = writer.past.at(row.number).value(row.number, row.number, row.array)
    values = out.reshape(-1)[left].astype(writer.dtype)
    if not values.any() and not np.signbit(values).any():
        return writer.rows.constant(0.0)
    return slots_of(writer.constant_array(values))


def _sum(writer: Writer, row: ArrayRow) -> None:
    source = writer.view_of(row.references[0])
    if 0 < source.size <= TERMS:
        slots = slots_of(source).ravel()
        writer.result(row, summed(writer.numbers.each, np.zeros_like(slots), slots)[1])
        return
    made = writer.buffers.allocate(())
    writer.steps.append(Link(made, [(broadcast(made, source.shape), source)]))
    writer.result(row, made)


def _pack(writer: Writer, row: ArrayRow) -> None:
    writer.result(row, np.array([int(writer.slots_of(r)) for r in row.references[:-1]], np.int64))


def _gather(writer: Writer, row: ArrayRow) -> None:
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


def _write(writer: Writer, row: ArrayRow) -> None:
    view, _, source = row.references
    if writer.buffers.found[view.id].boxes:
        boxes = writer.boxes_of(source, view.array.shape)
        if boxes is not None and writer.buffers.write_boxes(view.id, view.array, boxes):
            return
    slots = writer.slots_of(source)
    writer.buffers.slots(view.id, view.array)[...] = slots


def _scatter(writer: Writer, row: ArrayRow) -> None:
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


def _scatter_computed(writer: Writer, row: ArrayRow) -> None:
    """A write at positions that the program computes makes a new array."""
    target, kept, source, picked = row.references
    number, array = target.id, target.array
    written = broadcast(writer.view_of(source), kept.array.shape)
    before, positions = writer.buffers.view(number, array), writer.view_of(picked)
    made = writer.buffers.allocate(array.shape)
    writer.steps.append(Scatter(made, before, written, positions))
    writer.buffers.slots(number, array)[...] = slots_of(made)


# --- functions without derivative --------------------------------------------------------------


def _computed(writer: Writer, row: ArrayRow) -> None:
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


def _called(writer: Writer, call: NumpyCall, operands: list, shape) -> View | np.ndarray:
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


def _custom(writer: Writer, row: ArrayRow) -> None:
    """A call of an operation that has an adjoint of the user's: a step that repeats it."""
    given = [one for one in row.references[:-1] if one.id >= 0]
    operands = [(writer.view_of(one), dtype_of(one)) for one in given]
    made = writer.buffers.allocate(row.array.shape)
    call, is_reached = writer.custom[row.number], row.number in writer.reached
    writer.steps.append(Custom(row.op.code, call, operands, made, is_reached))
    writer.result(row, made)


def _function(writer: Writer, row: ArrayRow) -> None:
    raise Unsupported(
        "it calls an autograd.Function and writes in place where it is differentiated"
    )


# --- others -----------------------------------------------------------------------------------


def _convert(writer: Writer, row: ArrayRow) -> None:
    raise Unsupported(
        f"it converts to {row.array.dtype}, while its program computes in {writer.dtype}"
    )


def _scatter_add(writer: Writer, row: ArrayRow) -> None:
    """Elements added to zeros; if no position is repeated they are assigned."""
    source, picked = row.references[:2]
    if picked.id < 0:
        positions = picked.array.ravel()
        if len(distinct(positions)) == len(positions):
            slots = np.full(row.array.size, writer.rows.constant(0.0))
            given = writer.slots_of(source)
            _as_rows(slots, given.size, positions)[positions] = _as_rows(
                given.ravel(), given.size, positions
            )
            writer.result(row, slots)
            return
    _kernel(writer, row)


def _expanded(writer: Writer, row: ArrayRow) -> bool:
    """Write an operation of few products as operations on numbers; whether that is done."""
    op, references = row.op, row.references[:-1]
    if op.expanded is None:
        return False
    found = [_value_of(reference) for reference in references]
    count = op.products(row.shape, *[x.shape if isinstance(x, np.ndarray) else x for x in found])
    if not 0 < count <= PRODUCTS:
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


def _kernel(writer: Writer, row: ArrayRow) -> None:
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


def _by_rule(writer: Writer, row: ArrayRow) -> None:
    """A row of the plain layout whose operation its rule differentiates."""
    keywords, *operands, _ = row.references
    made = writer.buffers.allocate(row.shape)
    views = [writer.view_of(reference) for reference in operands]
    static = tuple(object_at(keywords.what).items())
    writer.steps.append(Kernel(row.op.code, [static, *views], made))
    writer.result(row, made)


def _computed_as(whole: np.ndarray, row: ArrayRow, made: View) -> View:
    if not is_output(row.out, row.number):
        return View(made.offset, whole.shape, (0,) * whole.ndim)
    return Target(row.array).view(whole, made.offset)


def _kernel_operand(writer: Writer, reference, row: ArrayRow, made: View):
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


_HANDLERS: dict[str, Callable[[Writer, ArrayRow], None]] = {
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


# --- A recording converted to a program: rows in their order become steps in single assignment ----


#: The number of the first constant while a program is read; −1 stands for no slot.
_FIRST = -2


class Converter:
    """Reads the rows of a trace up to before `end`; `inputs` are (tensor, if differentiated).

    Floats are of one dtype. What is `outside` are further inputs of the program.
    """

    def __init__(
        self,
        inputs: list[tuple[Any, bool]],
        end: int,
        outputs: list,
        trace: Trace,
        dtype: np.dtype,
        *,
        outside: OutsideArrays = NONE,
    ):
        roots, self.in_place = outside.roots, OperandsInPlace(outside, trace.copies)
        self.trace, self.dtype = trace, dtype
        guards = trace.guards
        needed = [o._id for o in outputs] + [g.tensor._id for g in guards]
        needed += [tensor._id for tensor, _ in inputs]  # so that writes to them are seen
        needed += [tensor._id for tensor in trace.required]
        self.rows = RowRange(inputs[0][0]._id, end, [number for number in needed if number >= 0])
        self.rows.make_room(len(guards) + 4 * FEW * self.rows[tape_scan.ARRAYS])
        if dtype != DOUBLE and self.rows[tape_scan.SCALARS]:
            raise Unsupported(MIXED)  # numbers of Python are recorded in float64
        originals = Originals(list(trace.originals.values()))
        reached = self._reached(outputs)
        self.writer = Writer(self.rows, originals, dtype, trace.custom, reached, self.in_place)
        self.inputs = [self._input(*one) for one in inputs]
        self.in_place.views += [self.writer.buffers.allocate(root.shape) for root in roots]
        self.inputs += [Input(view, dtype, False) for view in self.in_place.views]

    def _reached(self, outputs: list) -> set[int]:
        """The rows that adjoints of the results reach, if any calls a user's operation."""
        if not self.trace.custom:
            return set()
        recorded = [output._id for output in outputs if output._id >= 0]
        return {*needed(self.rows.reader, recorded, self.trace.steering)}

    def counts(self) -> tuple[int, int]:
        """The number of rows that the computation has recorded, and the number needed."""
        recorded, needed = self.rows.how_many()
        return recorded - (self.trace.moments - 1), needed  # without moments after the first

    def convert(self, outputs: list) -> Code:
        """The program; `outputs` are the recorded results."""
        for guard in self.trace.guards:
            self._read_to(self.rows.place(guard.at))
            self._guard(guard)
        self._read_to(self.rows.end)
        results = [self._output(output) for output in outputs]
        self.writer.numbers.flush()
        code = Code(
            self.rows.next_slot, self.writer.constants, self.inputs, self.writer.steps, results
        )
        with np.errstate(over="ignore"):  # a number of Python's, which is infinite in float32
            constants = self.rows.constant_values().astype(self.dtype)
        return _settled(dataclasses.replace(code, dtype=self.dtype), constants)

    def _read_to(self, stop: int) -> None:
        self.rows.go_on_to(stop)
        while (place := self.rows.next_array()) >= 0:
            self._array_row(place)

    def _array_row(self, place: int) -> None:
        number = self.rows.number(place)
        op, references = self.rows.read(place)
        if op in CELLS:
            self.writer.buffers.use_cell(place)
        elif op == layout.CONSTANT:
            self._constant(place, number, references[-1].array)
        elif op == layout.LEAF:
            if number not in self.writer.buffers.found:  # else an input that has boxes
                self._leaf(place, number, references)
        else:
            write_row(self.writer, ArrayRow(place, number, BY_CODE[op - layout.ARRAY], references))
            if self.in_place.roots:
                self.in_place.count(references[:-1])

    def _constant(self, place: int, number: int, array: np.ndarray) -> None:
        _, content = self.trace.originals.get(number, (array, array))
        if content.dtype.kind == "f" and content.dtype != self.dtype:
            raise Unsupported(MIXED)
        self.writer.buffers.add(place, number, array, self.writer.constant_slots(content))

    def _leaf(self, place: int, number: int, references: list[Reference]) -> None:
        """An input of a function inside, which never changes."""
        if self.rows.is_written(place):
            raise Unsupported("it writes to an argument of a transform in it; copy() it first")
        if references:
            self._constant(place, number, references[-1].array)
        else:
            value = float(self.rows.reader.row(number)["value"])
            self.rows.slots[place] = self.rows.constant(value)

    def _guard(self, guard: Guard) -> None:
        tensor = guard.tensor
        if type(tensor) is rt.Scalar:
            slot = self.writer.slot(tensor._id)
        else:
            slots = self.writer.buffers.slots(tensor._id, tensor._array)
            slot = int(np.ravel(slots)[guard.position])
        self.writer.numbers.one(GUARD, slot, self.rows.constant(guard.value))

    def _input(self, tensor, differentiated: bool) -> Input:
        place = self.rows.place(tensor._id)
        if self.rows.is_written(place) and not differentiated:
            raise Unsupported(WRITES_DATA)
        value = np.asarray(value_of(tensor))
        view = self.writer.buffers.allocate(value.shape)
        if type(tensor) is rt.Scalar:
            self.rows.slots[place] = view.offset
        else:
            array = base_array(self.rows, tensor._id)
            self.writer.buffers.add(place, tensor._id, array, view)
        return Input(view, value.dtype, differentiated)

    def _output(self, output) -> Output:
        if output._id < 0:
            array = np.asarray(value_of(output))
            if array.dtype.kind == "f" and array.dtype != self.dtype:
                raise Unsupported(MIXED)
            return Output(self.writer.constant_array(array), array.dtype)
        if type(output) is rt.Scalar:
            return Output(View(self.writer.slot(output._id), (), ()), DOUBLE)
        return Output(self.writer.buffers.view(output._id, output._array), output._array.dtype)


def _settled(code: Code, constants: np.ndarray) -> Code:
    """The program with its constants behind all other slots.

    So far those of numbers are numbered from −2 down, and those of arrays from CONSTANTS on.
    """
    if not len(constants) and not code.constants:
        return code
    total, last = code.slots, code.slots + _FIRST  # the constant numbered n is at last − n
    back = CONSTANTS - total - len(constants)  # so far the slots of arrays go back
    arrays = [(slot - back, values) for slot, values in code.constants]

    known: dict[View, View] = {}

    def move(view: View) -> View:
        if _FIRST < view.offset < CONSTANTS:
            return view
        found = known.get(view)
        if found is None:
            slot = view.offset
            found = known[view] = view.at(last - slot if slot <= _FIRST else slot - back)
        return found

    def renumber(slots: np.ndarray) -> np.ndarray:
        found = np.where(slots <= _FIRST, last - slots, slots)
        return np.where(slots >= CONSTANTS, slots - back, found)

    def moved(step: Step) -> Step:
        settled = all([_FIRST < view.offset < CONSTANTS for view in step.views_read])
        return step if settled and not step.slots_read else step.mapped(move, renumber)

    numbers = iter(renumbered(code.numbers, renumber))

    return dataclasses.replace(
        code,
        slots=total + len(constants) + sum(len(values) for _, values in arrays),
        constants=[*([(total, constants)] if len(constants) else []), *arrays],
        steps=[moved(step) if step.is_whole else next(numbers) for step in code.steps],
        outputs=[dataclasses.replace(one, view=move(one.view)) for one in code.outputs],
    )

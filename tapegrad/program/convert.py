"""A recording converted to a program: rows in their order become steps in single assignment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.computed import COMPUTED
from ..ops.table import BY_CODE, USERS, Pointwise, Structural
from ..replay import reading
from ..replay.steps import (
    GUARD,
    Code,
    Computed,
    Elementwise,
    Gather,
    Input,
    Kernel,
    Link,
    Output,
    Scalars,
    Step,
    View,
)
from ..tape.tape import array_at, object_at
from ..tensor import runtime as rt
from ..tensor.steering import Trace
from ..tensor.values import value_of
from .buffers import Buffers, base_array, is_output
from .known_calls import operation_of
from .rewrite import settle
from .rows import Rows, Unsupported

#: Element-wise operations on so few elements become operations on numbers.
FEW = 8
_FLOAT64 = np.dtype(np.float64)


class Converter:
    """Reads rows from `first` on; `inputs` are (tensor, whether it is differentiated)."""

    def __init__(self, first: int, inputs: list[tuple[Any, bool]], outputs: list, trace: Trace):
        self.trace = trace
        guards = trace.guards
        needed = [o._id for o in outputs] + [g.tensor._id for g in guards]
        self.rows = Rows(first, [number for number in needed if number >= 0])
        self.rows.make_room(len(guards) + FEW * len(self._array_places()))
        self.steps: list[Step] = []
        self.constants: list[tuple[int, np.ndarray]] = []
        self.third: dict[int, int] = {}  # third operands, by number of the operation
        self.begun = (0, 0)  # operation and slot with which the step of scalars begins
        self.buffers = Buffers(self.rows, self.steps, self.flush)
        self.inputs = [self._input(*one) for one in inputs]

    def _array_places(self) -> np.ndarray:
        return np.flatnonzero(self.rows.marks & reading.NEEDED)

    def convert(self, outputs: list) -> Code:
        """The program; `outputs` are the recorded results."""
        for guard in self.trace.guards:
            self._read_to(self.rows.end_place(guard.at))
            self._guard(guard)
        self._read_to(self.rows[reading.END])
        results = [self._output(output) for output in outputs]
        self.flush()
        return settle(
            Code(self.rows.next_slot, self.constants, self.inputs, self.steps, results),
            self.rows.constant_values(),
        )

    def _read_to(self, stop: int) -> None:
        self.begin_scalars()
        while (place := self.rows.next_array(stop)) >= 0:
            self._array_row(place)
            self.begin_scalars()

    # --- values -------------------------------------------------------------------------------

    def _input(self, tensor, differentiated: bool) -> Input:
        place = self.rows.place(tensor._id)
        value = np.asarray(value_of(tensor))
        view = self.buffers.allocate(value.shape)
        if type(tensor) is rt.Scalar:
            self.rows.slots[place] = view.offset
        else:
            self.buffers.add(place, base_array(self.rows, tensor._id), view)
        return Input(view, value.dtype, differentiated)

    def _output(self, output) -> Output:
        if output._id < 0:
            array = np.asarray(value_of(output))
            return Output(self.constant_array(array), array.dtype)
        if type(output) is rt.Scalar:
            return Output(View(self.slot(output._id), (), ()), _FLOAT64)
        return Output(self.buffers.view(output._id, output._array), output._array.dtype)

    def slot(self, number: int) -> int:
        """The slot of a row that is a number."""
        return int(self.rows.slots[self.rows.place(number)])

    def constant_array(self, array: np.ndarray) -> View:
        if array.size == 1:
            slot = self.rows.constant(float(array.reshape(())[()]))
            return View(slot, array.shape, (0,) * array.ndim)
        if array.size and array.dtype == np.float64 and not any(array.strides):
            slot = self.rows.constant(float(array.ravel()[0]))  # one value broadcast
            return View(slot, array.shape, (0,) * array.ndim)
        view = self.buffers.allocate(array.shape)
        self.constants.append((view.offset, np.array(array, np.float64).ravel()))
        return view

    def view_of(self, reference) -> View:
        """What a reference of a row names, as a view."""
        number, tag = int(reference["id"]), int(reference["tag"])
        if tag == layout.TAG_SCALAR:
            return View(self.slot(number), (), ())
        if tag == layout.TAG_CONSTANT:
            value = float(np.int64(reference["what"]).view(np.float64))
            return View(self.rows.constant(value), (), ())
        array = array_at(reference["what"])
        return self.constant_array(array) if number < 0 else self.buffers.view(number, array)

    def slots_of(self, reference) -> np.ndarray:
        """The slots of what a reference of a row names."""
        if int(reference["tag"]) == layout.TAG_ARRAY and int(reference["id"]) >= 0:
            return self.buffers.slots(int(reference["id"]), array_at(reference["what"]))
        view = self.view_of(reference)
        return np.add(view.offset, slots_in(view))

    # --- rows ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """End the step of operations on scalars."""
        begun, first = self.begun
        count = self.rows[reading.COUNT]
        if count > begun:
            op, a, b = (column[begun:count] for column in (self.rows.op, self.rows.a, self.rows.b))
            c = np.empty(0, np.int32)
            if any(begun <= k < count for k in self.third):
                c = np.full(count - begun, -1, np.int32)
                for k, slot in self.third.items():
                    if begun <= k < count:
                        c[k - begun] = slot
            self.steps.append(Scalars(first, op, a, b, c))
        self.begun = (count, self.rows.next_slot)

    def begin_scalars(self) -> None:
        """Before an operation is written: a step begins where slots have been taken since."""
        begun, first = self.begun
        if self.rows[reading.COUNT] == begun:
            self.begun = (begun, self.rows.next_slot)

    def emit(self, op: int, *slots: int) -> int:
        self.begin_scalars()
        operands = [*slots, -1, -1][:2]
        if len(slots) > 2:
            self.third[self.rows[reading.COUNT]] = slots[2]
        return self.rows.emit(op, *operands)

    def _guard(self, guard) -> None:
        tensor = guard.tensor
        if type(tensor) is rt.Scalar:
            slot = self.slot(tensor._id)
        else:
            slots = self.buffers.slots(tensor._id, tensor._array)
            slot = int(np.ravel(slots)[guard.position])
        self.emit(GUARD, slot, self.rows.constant(guard.value))

    def _array_row(self, place: int) -> None:
        number = self.rows.number(place)
        row = self.rows.reader.row(number)
        op = abs(int(row["op"]))
        references = self.rows.reader.references(number)
        if op == layout.CONSTANT:
            self._constant(place, number, array_at(references["what"][-1]))
            return
        declared = BY_CODE[op - layout.ARRAY]
        if isinstance(declared, Pointwise):
            self._elementwise(place, number, declared, references)
            return
        handler = _HANDLERS.get(declared.name, Converter._kernel)
        handler(self, place, number, declared, references)

    def _constant(self, place: int, number: int, array: np.ndarray) -> None:
        content = self.trace.originals.get(number, array)
        view = self.buffers.allocate(content.shape)
        self.constants.append((view.offset, np.array(content, np.float64).ravel()))
        self.buffers.add(place, array, view)

    def result(self, place: int, number: int, reference, slots: View | np.ndarray) -> None:
        """Say where the value of a row is."""
        if is_output(reference, number):
            array = array_at(reference["what"])
            if array.dtype == np.float32:
                raise Unsupported("float32")
            self.buffers.add(place, array, slots)
        else:
            self.rows.slots[place] = (
                slots.offset if isinstance(slots, View) else int(slots.ravel()[0])
            )

    def _elementwise(self, place, number, op, references) -> None:
        out = references[-1]
        array = array_at(out["what"])
        self.result(place, number, out, self.apply(op.code, references[:-1], array.shape))

    def apply(self, code: int, references, shape) -> View | np.ndarray:
        """An element-wise operation; on few elements as operations on numbers, but for users'."""
        if np.prod(shape, dtype=np.int64) <= FEW and BY_CODE[code].name not in USERS:
            columns = [np.broadcast_to(self.slots_of(r), shape).ravel() for r in references]
            slots = [
                self.emit(code, *map(int, operands)) for operands in zip(*columns, strict=True)
            ]
            return np.array(slots, np.int64).reshape(shape)
        views = tuple(broadcast(self.view_of(reference), shape) for reference in references)
        made = self.buffers.allocate(shape)
        self.steps.append(Elementwise(tuple(shape), [(code, views)], [(0, made)], []))
        return made

    def _link(self, place, number, op, references) -> None:
        out = array_at(references[-1]["what"])
        target = Target(out)
        pairs = [
            (references[k], array_at(references[k + 1]["what"]))
            for k in range(0, len(references) - 1, 2)
        ]
        for _, shown in pairs:
            target.count(shown)
        if target.is_covered_at_most_once():
            slots = target.constants(self)
            for source, shown in pairs:
                target.part(slots, shown)[...] = self.slots_of(source)
            self.result(place, number, references[-1], slots)
            return
        made = self.buffers.allocate(out.shape)
        views = [(target.view(made, shown), self.view_of(source)) for source, shown in pairs]
        views = [(shown, broadcast(source, shown.shape)) for shown, source in views]
        self.steps.append(Link(made, views))
        self.result(place, number, references[-1], made)

    def _sum(self, place, number, op, references) -> None:
        source = self.view_of(references[0])
        made = self.buffers.allocate(())
        self.steps.append(Link(made, [(broadcast(made, source.shape), source)]))
        self.result(place, number, references[-1], made)

    def _pack(self, place, number, op, references) -> None:
        slots = np.array([int(self.slots_of(r)) for r in references[:-1]], np.int64)
        self.result(place, number, references[-1], slots)

    def _gather(self, place, number, op, references) -> None:
        source, picked, out = references
        shape = array_at(out["what"]).shape
        if int(picked["id"]) < 0:
            positions = np.asarray(array_at(picked["what"]), np.int64)
            self.result(
                place, number, out, self.slots_of(source).reshape(-1)[positions].reshape(shape)
            )
            return
        view, at = self.view_of(source), self.view_of(picked)
        made = self.buffers.allocate(shape)
        self.steps.append(Gather(made, view, at))
        self.result(place, number, out, made)

    def _write(self, place, number, op, references) -> None:
        view, _, source = references
        array = array_at(view["what"])
        slots = self.slots_of(source)
        self.buffers.slots(int(view["id"]), array)[...] = slots

    def _scatter(self, place, number, op, references) -> None:
        target, kept, source, picked = references
        if int(picked["id"]) >= 0:
            raise Unsupported("a write at positions that depend on values")
        array = array_at(target["what"])
        positions = np.asarray(array_at(picked["what"]), np.int64).ravel()
        shape = array_at(kept["what"]).shape
        slots = np.broadcast_to(self.slots_of(source), shape).ravel()
        index = np.unravel_index(positions, array.shape)
        self.buffers.slots(int(target["id"]), array)[index] = slots

    def _computed(self, place, number, op, references) -> None:
        call, out = object_at(references[0]["what"]), array_at(references[-1]["what"])
        operation = operation_of(
            call,
            [
                array_at(r["what"]).dtype if int(r["tag"]) == layout.TAG_ARRAY else _FLOAT64
                for r in references[1:-1]
            ],
        )
        if operation == "same":
            slots = self.slots_of(references[1])
            self.result(place, number, references[-1], np.broadcast_to(slots, out.shape))
            return
        operands = self._operands(call, references)
        if isinstance(operation, int):
            self._apply_computed(place, number, operation, operands, references[-1])
            return
        made = self.buffers.allocate(out.shape)
        self.steps.append(Computed(call.bound(), operands, made))
        self.result(place, number, references[-1], made)

    def _operands(self, call, references) -> list:
        """The operands of a call: views with dtypes, or what they were."""
        found: list = []
        for recorded, what in call.arguments:
            if not recorded:
                found.append((what, None))
                continue
            reference = references[1 + what]
            found.append((self.view_of(reference), dtype_of(reference)))
        return found

    def _apply_computed(self, place, number, code, operands, out) -> None:
        shape = array_at(out["what"]).shape
        missing = len(BY_CODE[code].inputs) - len(operands)  # conversion to bool compares with 0
        views = [
            one if isinstance(one, View) else self.constant_array(np.asarray(one, np.float64))
            for one, _ in [*operands, *[(0.0, None)] * missing]
        ]
        made: View | np.ndarray
        if np.prod(shape, dtype=np.int64) <= FEW:
            columns = [np.broadcast_to(slots_in(v) + v.offset, shape).ravel() for v in views]
            made = np.array([self.emit(code, *map(int, c)) for c in zip(*columns, strict=True)])
            made = made.astype(np.int64).reshape(shape)
        else:
            made = self.buffers.allocate(shape)
            inputs = tuple(broadcast(view, shape) for view in views)
            self.steps.append(Elementwise(tuple(shape), [(code, inputs)], [(0, made)], []))
        self.result(place, number, out, made)

    def _refused(self, place, number, op, references) -> None:
        raise Unsupported(f"the operation {op.name}")

    def _kernel(self, place, number, op: Structural, references) -> None:
        out = references[-1]
        shape = array_at(out["what"]).shape if is_output(out, number) else ()
        made = self.buffers.allocate(shape)
        operands = [self._kernel_operand(r, out, number, made) for r in references[:-1]]
        if op.name == "contract":  # the output with the axes that it is computed in
            operands[2] = self._computed_as(array_at(references[2]["what"]), out, number, made)
        self.steps.append(Kernel(op.code, operands, made))
        self.result(place, number, out, made)

    def _computed_as(self, whole: np.ndarray, out, number: int, made: View) -> View:
        if not is_output(out, number):
            return View(made.offset, whole.shape, (0,) * whole.ndim)
        return Target(array_at(out["what"])).view(made, whole)

    def _kernel_operand(self, reference, out, number, made: View):
        tag = int(reference["tag"])
        if tag == layout.TAG_INT:
            return int(reference["what"])
        if tag == layout.TAG_OBJECT:
            return object_at(reference["what"])
        if tag == layout.TAG_ARRAY and int(reference["id"]) < 0 and is_output(out, number):
            array, base = array_at(reference["what"]), array_at(out["what"])
            if np.may_share_memory(array, base):
                return Target(base).view(made, array)
        return self.view_of(reference)


class Target:
    """The output of a link: how often each element is reached."""

    def __init__(self, out: np.ndarray):
        self.out = out
        self.counts = np.zeros(out.size, np.int64)
        self.broadcast = False

    def part(self, flat: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """The part of an array like the output that a view of the output sees."""
        steps = tuple(stride // self.out.itemsize * flat.itemsize for stride in shown.strides)
        start = flat.reshape(-1)[self._offset(shown) :]
        return np.lib.stride_tricks.as_strided(start, shown.shape, steps)

    def _offset(self, shown: np.ndarray) -> int:
        return (shown.ctypes.data - self.out.ctypes.data) // self.out.itemsize

    def view(self, made: View, shown: np.ndarray) -> View:
        steps = tuple(stride // self.out.itemsize for stride in shown.strides)
        return View(made.offset + self._offset(shown), shown.shape, steps)

    def count(self, shown: np.ndarray) -> None:
        if any(s == 0 and n > 1 for s, n in zip(shown.strides, shown.shape, strict=True)):
            self.broadcast = True
        elif shown.size:
            self.part(self.counts, shown)[...] += 1

    def is_covered_at_most_once(self) -> bool:
        return not self.broadcast and bool((self.counts <= 1).all())

    def constants(self, converter: Converter) -> np.ndarray:
        """Slots for the output's elements; those that nothing reaches are constants."""
        slots = np.zeros(self.out.shape, np.int64)
        left = np.flatnonzero(self.counts == 0)
        if left.size:
            values = self.out.reshape(-1)[left].astype(np.float64)
            if not values.any() and not np.signbit(values).any():
                slots.reshape(-1)[left] = converter.rows.constant(0.0)
            else:
                view = converter.constant_array(values)
                slots.reshape(-1)[left] = view.offset + slots_in(view)
        return slots


def dtype_of(reference) -> np.dtype:
    """The dtype of what a reference of a row names."""
    is_array = int(reference["tag"]) == layout.TAG_ARRAY
    return array_at(reference["what"]).dtype if is_array else _FLOAT64


def slots_in(view: View) -> np.ndarray:
    """Distances of the elements of a view from its first."""
    found: np.ndarray = np.asarray(0)
    for n, step in zip(view.shape, view.strides, strict=True):
        found = np.add.outer(found, np.arange(n) * step)
    return found


def broadcast(view: View, shape) -> View:
    """A view as seen from a shape that it broadcasts to."""
    extra = len(shape) - len(view.shape)
    strides = [0] * extra + [
        0 if n == 1 else step for n, step in zip(view.shape, view.strides, strict=True)
    ]
    return View(view.offset, tuple(shape), tuple(strides), view.base)


_HANDLERS = {
    "link": Converter._link,
    "sum": Converter._sum,
    "pack": Converter._pack,
    "gather": Converter._gather,
    "write": Converter._write,
    "scatter": Converter._scatter,
    COMPUTED.name: Converter._computed,
    "convert": Converter._refused,
    "deposit": Converter._refused,
    "function": Converter._refused,
}

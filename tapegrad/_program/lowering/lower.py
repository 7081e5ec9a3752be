"""A recording converted to a program: rows in their order become steps in single assignment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.table import BY_CODE
from ..._core.tape.row_reader import CELLS, needed
from ..._core.tensor import runtime as rt
from ..._core.tensor.trace import Guard, Trace
from ..._core.tensor.values import value_of
from ..ir.scalars_step import renumbered
from ..ir.slots import CONSTANTS
from ..ir.steps import DOUBLE, GUARD, Code, Input, Output, Step, View
from . import tape_scan
from .array_rows import Row, write_row
from .buffers import base_array
from .builder import FEW, MIXED, Writer
from .operands_in_place import NONE, OperandsInPlace, Outside
from .outputs import Originals
from .tape_rows import WRITES_DATA, Reference, Rows, Unsupported

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
        outside: Outside = NONE,
    ):
        roots, self.in_place = outside.roots, OperandsInPlace(outside, trace.copies)
        self.trace, self.dtype = trace, dtype
        guards = trace.guards
        needed = [o._id for o in outputs] + [g.tensor._id for g in guards]
        needed += [tensor._id for tensor, _ in inputs]  # so that writes to them are seen
        needed += [tensor._id for tensor in trace.required]
        self.rows = Rows(inputs[0][0]._id, end, [number for number in needed if number >= 0])
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
            write_row(self.writer, Row(place, number, BY_CODE[op - layout.ARRAY], references))
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

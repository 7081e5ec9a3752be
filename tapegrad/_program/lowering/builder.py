"""The steps of a program as they are written: slots of rows, constants, operations on numbers."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.table import BY_CODE, TABLE
from ..._core.remembered import remembered
from ..._core.tape.memory_order import memory_of
from ..._core.tensor.trace import CustomCall
from ..._derivatives.past_values import Before
from ..ir.elementwise_step import Elementwise
from ..ir.slots import CONSTANTS, slots_of
from ..ir.steps import Step, View, contiguous
from ..replay.opaque_calls import LARGEST, holds
from . import intervals
from .boxes import Box, all_of
from .buffers import Buffers, is_output, pattern
from .intervals import Interval
from .numbers_written import Numbers
from .operands_in_place import OperandsInPlace
from .outputs import Originals, broadcast
from .tape_rows import Reference, Rows, Unsupported

#: Why there is no program of both dtypes.
MIXED = "it computes in float64 and in float32, and a program in one of them"
#: Element-wise operations on so few elements become operations on numbers.
FEW = 8
#: Arrays of so few numbers that never change are single constants to such operations.
FEW_NUMBERS = 16


#: References that name numbers.
_NUMBERS = (layout.TAG_SCALAR, layout.TAG_CONSTANT)


def spread(slots: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Slots broadcast to a shape."""
    return slots if slots.shape == shape else np.broadcast_to(slots, shape)


class Writer:
    """The steps written so far; rows of numbers are written by compiled code (`Rows`).

    All floats are of one dtype. `custom` are calls of users' operations, by row, and derivatives
    pass the rows that are `reached`.
    """

    def __init__(
        self,
        rows: Rows,
        originals: Originals,
        dtype: np.dtype,
        custom: dict[int, CustomCall],
        reached: Collection[int],
        in_place: OperandsInPlace,
    ):
        self.rows, self.dtype = rows, dtype
        self.custom, self.reached = custom, reached
        self.originals, self.in_place = originals, in_place
        self.steps: list[Step] = []
        self.constants: list[tuple[int, np.ndarray]] = []
        self.held = 0  # elements of arrays among them
        self.known: dict[tuple, View] = {}  # their slots, by memory
        self.alive: list[np.ndarray] = []
        self.stretched: dict[tuple, View] = {}  # numbers, by slot and shape
        self.intervals: dict[int, Interval] = {}  # of integers, by place of their row
        self.numbers = Numbers(rows, self.steps)
        self.buffers = Buffers(self.numbers)

    @remembered
    def past(self) -> Before:
        """Arrays as they were before newer rows wrote to them."""
        return Before(())

    def interval_of(self, dtype: np.dtype) -> Interval | None:
        """The integers of a dtype that slots hold; None if they are none."""
        return intervals.of_dtype(dtype, LARGEST[self.dtype.itemsize])

    # --- where values are ---------------------------------------------------------------------

    def slot(self, number: int) -> int:
        """The slot of a row that is a number."""
        return self.rows.slots.item(self.rows.place(number))

    def constant_array(self, array: np.ndarray) -> View:
        """The slots of an array that never changes, or of one that lies outside."""
        if self.in_place.roots and (found := self._in_place(array)) is not None:
            return found
        if not holds(self.dtype, array):
            raise Unsupported(f"an array of {array.dtype}, which {self.dtype} does not hold")
        if array.size == 1:
            slot = self.rows.constant(float(array.reshape(())[()]))
            return View(slot, array.shape, (0,) * array.ndim)
        if array.size and array.dtype == self.dtype and not any(array.strides):
            slot = self.rows.constant(float(array.ravel()[0]))  # one value broadcast
            return View(slot, array.shape, (0,) * array.ndim)
        return self.constant_slots(array)

    def _in_place(self, array: np.ndarray) -> View | None:
        """An array that lies outside, or is computed of such a one."""
        if (found := self.in_place.view_of(array)) is not None:
            return found
        if (derived := self.in_place.derived_of(array)) is None:
            return None
        name, operands = derived
        numbers = [x if isinstance(x, View) else self.rows.constant(x) for x in operands]
        views = [x if isinstance(x, View) else View(x, (), ()) for x in numbers]
        made = self.apply(TABLE[name].code, views, array.shape)
        return self.together(made)

    def constant_slots(self, array: np.ndarray) -> View:
        """Slots for the elements of an array that never changes: a step of numbers continues."""
        key = memory_of(array), array.shape, array.strides, array.dtype
        view = self.known.get(key)
        if view is None:
            view = self.known[key] = contiguous(CONSTANTS + self.held, array.shape)
            self.constants.append((view.offset, np.array(array, self.dtype).ravel()))
            self.alive.append(array)
            self.held += array.size
        return view

    def slot_of(self, reference: Reference) -> int:
        """The slot of the number that a reference of a row names."""
        if reference.tag == layout.TAG_CONSTANT:
            return self.rows.constant_of(reference.what)
        return self.slot(reference.id)

    def view_of(self, reference: Reference) -> View:
        """The operand of a reference of a row, as a view."""
        _, number, tag, array = reference
        if tag in _NUMBERS:
            return View(self.slot_of(reference), (), ())
        if number >= 0:
            return self.buffers.view(number, array)
        return self.constant_array(self.originals.of(array))

    def slots_of(self, reference: Reference) -> np.ndarray:
        """The slots of the operand that a reference of a row names."""
        if reference.tag in _NUMBERS:
            return np.array(self.slot_of(reference))
        if reference.id >= 0:
            return self.buffers.slots(reference.id, reference.array)
        array = self.originals.of(reference.array)
        if self.in_place.roots and (found := self._in_place(array)) is not None:
            return slots_of(found)
        if array.size > FEW_NUMBERS or not holds(self.dtype, array):
            return slots_of(self.constant_array(array))
        numbers = [self.rows.constant(float(x)) for x in array.ravel().tolist()]
        return np.array(numbers, np.int64).reshape(array.shape)  # the step of scalars continues

    def boxes_of(self, reference: Reference, shape: tuple[int, ...]) -> list[Box] | None:
        """What the operand that a reference names shows, seen from a shape, as boxes.

        None where there are no boxes, or only of its own shape.
        """
        array = reference.array
        if reference.tag in _NUMBERS:
            return [all_of(View(self.slot_of(reference), shape, (0,) * len(shape)))]
        if reference.id >= 0:
            found = self.buffers.boxes(reference.id, array)
        elif 1 < array.size <= FEW_NUMBERS:
            return None  # they are numbers of their own
        else:
            found = [all_of(self.constant_array(self.originals.of(array)))]
        if found is None or array.shape == shape:
            return found
        return [all_of(broadcast(found[0].source, shape))] if len(found) == 1 else None

    def result(self, row, slots: View | np.ndarray | list[Box]) -> None:
        """Set the place of the value of a row of arrays."""
        if is_output(row.out, row.number):
            array = row.array
            dtype = array.dtype
            if dtype is not self.dtype and dtype.kind == "f" and dtype != self.dtype:
                raise Unsupported(MIXED)
            if isinstance(slots, list):
                self.buffers.add_boxes(row.number, array, slots)
            else:
                self.buffers.add(row.place, row.number, array, slots)
        else:
            assert not isinstance(slots, list)
            self.rows.slots[row.place] = (
                slots.offset if isinstance(slots, View) else int(slots.ravel()[0])
            )

    def together(self, slots: View | np.ndarray) -> View:
        """Slots as a view: copied if they form none."""
        if isinstance(slots, View):
            return slots
        found = pattern(slots)
        return self.buffers.together(slots) if found is None else found

    # --- element-wise operations --------------------------------------------------------------

    def apply(self, code: int, operands: list, shape: tuple[int, ...]) -> View | np.ndarray:
        """An element-wise operation; on few elements as operations on numbers.

        An operand is a view or a reference of a row. The result's slots, as a view or one by one.
        """
        if (count := math.prod(shape)) <= FEW and not BY_CODE[code].is_apart:
            found = [slots_of(x) if isinstance(x, View) else self.slots_of(x) for x in operands]
            columns = [(x if x.size in (1, count) else spread(x, shape)).ravel() for x in found]
            return contiguous(self.numbers.column(code, count, columns), shape)
        inputs = tuple([self._operand(x, shape) for x in operands])
        out = self.buffers.allocate(shape)
        self.steps.append(Elementwise(out.shape, [(code, inputs)], [(0, out)], []))
        return out

    def _operand(self, operand: View | Reference, shape: tuple[int, ...]) -> View:
        """An operand as seen from a shape; numbers are the same views for all that read them."""
        if isinstance(operand, View):
            return broadcast(operand, shape)
        if operand.tag not in _NUMBERS:
            return broadcast(self.view_of(operand), shape)
        key = self.slot_of(operand), shape
        found = self.stretched.get(key)
        if found is None:
            found = self.stretched[key] = View(key[0], shape, (0,) * len(shape))
        return found

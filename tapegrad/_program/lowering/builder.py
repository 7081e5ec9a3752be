"""The steps of a program as they are written: slots of rows, constants, operands in place."""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.table import BY_CODE, TABLE
from ..._core.remembered import remembered
from ..._core.tape.sweeps import memory_of
from ..._core.tensor.trace import CustomCall
from ..._derivatives.tape_traversal import Before
from ..ir.elementwise_step import Elementwise
from ..ir.steps import Step, View, contiguous
from ..ir.uses import CONSTANTS, is_injective, slots_of
from ..replay.operation_parts import LARGEST, holds
from .buffers import Buffers, IndexBox, Numbers, all_of, is_output, pattern
from .tape_rows import Reference, RowRange, Unsupported

# --- Views of arrays as views of slots: outputs assembled from parts, broadcasting ----------------


class Target:
    """The output of a link, and views of it."""

    def __init__(self, out: np.ndarray):
        self.out, self.start, self.item = out, memory_of(out), out.itemsize

    def view(self, shown: np.ndarray, first: int = 0) -> View:
        """The slots that a view of the output sees, where that begins at the slot `first`."""
        item = self.item
        steps = tuple([stride // item for stride in shown.strides])
        return View(first + (memory_of(shown) - self.start) // item, shown.shape, steps)

    def left_out(self, views: list[View]) -> np.ndarray | None:
        """The elements that no view of the output reaches; None if several reach some."""
        counts = np.zeros(self.out.size, np.int64)
        for view in views:
            if not is_injective(view):
                return None  # one value repeated, or windows that overlap
            view.of(counts)[...] += 1
        return None if (counts > 1).any() else np.flatnonzero(counts == 0)


class Originals:
    """The contents of buffers before recorded writes: pairs of a buffer and its old content."""

    def __init__(self, pairs: list[tuple[np.ndarray, np.ndarray]]):
        self.pairs = sorted(pairs, key=lambda pair: memory_of(pair[0]))
        self.starts = [memory_of(owner) for owner, _ in self.pairs]

    def of(self, array: np.ndarray) -> np.ndarray:
        """An array as it was when it was read, also if it is part of such a buffer."""
        k = bisect.bisect_right(self.starts, memory_of(array)) - 1
        if k < 0:
            return array
        owner, content = self.pairs[k]
        offset = memory_of(array) - self.starts[k]
        if offset >= owner.nbytes:
            return array
        start = content.reshape(-1)[offset // owner.itemsize :]
        return np.lib.stride_tricks.as_strided(start, array.shape, array.strides)


def broadcast(view: View, shape) -> View:
    """A view as seen from a shape that it broadcasts to."""
    if view.shape == shape and 1 not in shape:
        return view
    shape = tuple(shape)
    return View(view.offset, shape, _strides_in(shape, view.shape, view.strides), view.base)


@functools.lru_cache(4096)
def _strides_in(shape: tuple, of: tuple, strides: tuple) -> tuple[int, ...]:
    """The strides of an array as seen from a shape that it broadcasts to."""
    own = [0 if n == 1 else step for n, step in zip(of, strides, strict=True)]
    return (0,) * (len(shape) - len(of)) + tuple(own)


# --- Intervals of integers of a program: within them arithmetic in doubles is exact ---------------
# A program keeps integers in floats, which hold them up to 2^53, or 2^24 in float32, and do not
# wrap around as integers do. An interval is (least, greatest).


Interval = tuple[int, int]


def of_dtype(dtype: np.dtype, most: int = LARGEST[8]) -> Interval | None:
    """The numbers of a dtype, up to `most`; None if they are no integers."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return max(int(info.min), -most), min(int(info.max), most)


def usual(within: Interval, most: int) -> list[Interval]:
    """Intervals for integers of which only that of their dtype is known, the narrowest first.

    Sums and products of integers in the first need no checks. In the last each result that is
    inside is exact, where slots hold integers up to `most`: others are rounded to `most` or beyond.
    """
    bounds = (int(most ** (3 / 4)), most - 1)
    return [(max(within[0], -bound), min(within[1], bound)) for bound in bounds]


def of_values(values: np.ndarray) -> Interval | None:
    if values.dtype.kind not in "biu":
        return None
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def is_within(interval: Interval, other: Interval | None) -> bool:
    return other is not None and other[0] <= interval[0] and interval[1] <= other[1]


def _corners(function, x: Interval, y: Interval) -> Interval:
    found = [function(a, b) for a, b in itertools.product(x, y)]
    return min(found), max(found)


def _remainder(x: Interval, y: Interval) -> Interval | None:
    if y[0] > 0:
        return 0, y[1] - 1
    return (y[0] + 1, 0) if y[1] < 0 else None


def _floor_divide(x: Interval, y: Interval) -> Interval | None:
    return _corners(lambda a, b: a // b, x, y) if y[0] > 0 or y[1] < 0 else None


#: The interval of the results of an operation, by name; None if it may divide by 0.
_RESULTS: dict[str, Callable[..., Interval | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": lambda x, y: _corners(lambda a, b: a * b, x, y),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "negative": lambda x: (-x[1], -x[0]),
    "absolute": lambda x: (max(x[0], -x[1], 0), max(x[1], -x[0])),
    "remainder": _remainder,
    "floor_divide": _floor_divide,
}
#: Operations whose result in doubles is −0 for some negative numbers, where integers have one 0.
_SIGNED_ZERO = ("multiply", "negative", "remainder", "floor_divide")


def of_result(name: str, *operands: Interval | None) -> Interval | None:
    """The interval of the results of an operation on integers; None if that is not known."""
    if name not in _RESULTS or None in operands:
        return None
    return _RESULTS[name](*operands)


def may_be_minus_zero(name: str, *operands: Interval) -> bool:
    return name in _SIGNED_ZERO and (name == "negative" or min(low for low, _ in operands) < 0)


def union(*intervals: Interval | None) -> Interval | None:
    known = [one for one in intervals if one is not None]
    if len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def of_sum(interval: Interval, count: int) -> Interval:
    """The interval of sums of a number of integers, and of sums of the first of them."""
    return min(0, count * interval[0]), max(0, count * interval[1])


# --------------------------------------------------------------------------------------------------
# Arrays from outside that a program reads where they lie, as operands of recorded operations.


#: Why an array is not read where it lies.
_READ_OTHERWISE = "an array from outside is read by something else than the steps of a program"


class OutsideArrays(Protocol):
    """The arrays in C order, `roots`, in whose memory operands may lie.

    Operands may also be what is `derived` from such memory: `function` of `operands`, which have
    `value`. None of these lies in the memory of `others`, which may hold equal numbers.
    """

    roots: Sequence[np.ndarray]
    derived: Sequence[Any]
    others: Sequence[np.ndarray]


class _None:
    roots: Sequence[np.ndarray] = ()
    derived: Sequence[Any] = ()
    others: Sequence[np.ndarray] = ()


#: Nothing is read outside.
NONE = _None()


class OperandsInPlace:
    """What rows read `outside`, and where it begins.

    `copies` are constants of rows that are copies, and what they are copies of, by id. `rows` are
    the numbers of operations by root, and by what is derived from −1 down: each takes its operand
    here.
    """

    def __init__(self, outside: OutsideArrays = NONE, copies: Mapping[int, tuple] | None = None):
        self.roots, self._outside, self._copies = outside.roots, outside, copies or {}
        self.views: list[View] = []  # of the roots
        self.rows: collections.Counter[int] = collections.Counter()
        self._taken: set[int] = set()
        self._derived: dict[int, tuple[np.ndarray, int | None]] = {}  # by id

    def _original(self, array: np.ndarray) -> np.ndarray:
        """The array of which an operand of a row is a copy, or itself."""
        return self._copies.get(id(array), (None, array))[1]

    def _root(self, array: np.ndarray) -> int | None:
        """The root in whose memory an operand of a row lies."""
        original = self._original(array)
        for k, root in enumerate(self.roots):
            if np.may_share_memory(root, original):
                return k
        return None

    def view_of(self, array: np.ndarray) -> View | None:
        """The view that an operand of a row is; None for others."""
        k = self._root(array)
        if k is None:
            return None
        self._taken.add(id(array))
        return self._view_in(k, self._original(array))

    def _view_in(self, k: int, array: np.ndarray) -> View:
        """An array in the memory of a root."""
        root, whole, item = self.roots[k], self.views[k], array.itemsize
        far = memory_of(array) - memory_of(root)
        if array.dtype != root.dtype or any([step % item for step in (far, *array.strides)]):
            raise Unsupported(_READ_OTHERWISE)
        strides = tuple([step // item for step in array.strides])
        view = View(whole.offset + far // item, array.shape, strides)
        low, high = whole.extent
        if not low <= view.extent[0] <= view.extent[1] <= high:
            raise Unsupported(_READ_OTHERWISE)
        return view

    def derived_of(self, array: np.ndarray) -> tuple[str, list[View | float]] | None:
        """The operation that gives an operand of a row, and its operands; None for others."""
        k = self._number(array)
        if k is None:
            return None
        self._taken.add(id(array))
        form, operands = self._outside.derived[k], list[View | float]()
        for one in form.operands:
            is_array = isinstance(one.value, np.ndarray)
            root = self._root(one.value) if is_array else None
            if is_array and root is None:
                raise Unsupported(_READ_OTHERWISE)
            operands.append(float(one.value) if root is None else self._view_in(root, one.value))
        return form.function.__name__, operands

    def _number(self, array: np.ndarray) -> int | None:
        """The number of what is derived that an operand of a row is."""
        if id(array) not in self._derived:
            self._derived[id(array)] = array, self._equal(array)
        return self._derived[id(array)][1]

    def _equal(self, array: np.ndarray) -> int | None:
        """The number of what is derived and equal to an array that nothing else holds."""
        original = self._original(array)
        if any([np.may_share_memory(original, one) for one in self._outside.others]):
            return None
        for k, form in enumerate(self._outside.derived):
            if form.array.shape != array.shape or form.array.dtype != array.dtype:
                continue
            made = form.function(*[one.value for one in form.operands])
            is_like = (made.shape, made.dtype) == (array.shape, array.dtype)
            if is_like and made.tobytes() == array.tobytes():
                return k
        return None

    def count(self, references: Sequence[Reference]) -> None:
        """Note the operands of a row that has been written: each must have been taken."""
        read: set[int] = set()
        for one in references:
            if one.id >= 0 or not one.is_array or one.array is None:
                continue
            number = self._root(one.array)
            if number is None and (k := self._number(one.array)) is not None:
                number = -1 - k
            if number is None:
                continue
            if id(one.array) not in self._taken:
                raise Unsupported(_READ_OTHERWISE)
            read.add(number)
        self.rows.update(read)


# --------------------------------------------------------------------------------------------------
# The steps of a program as they are written: slots of rows, constants, operations on numbers.


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
    """The steps written so far; rows of numbers are written by compiled code (`RowRange`).

    All floats are of one dtype. `custom` are calls of users' operations, by row, and derivatives
    pass the rows that are `reached`.
    """

    def __init__(
        self,
        rows: RowRange,
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
        return of_dtype(dtype, LARGEST[self.dtype.itemsize])

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

    def boxes_of(self, reference: Reference, shape: tuple[int, ...]) -> list[IndexBox] | None:
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

    def result(self, row, slots: View | np.ndarray | list[IndexBox]) -> None:
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

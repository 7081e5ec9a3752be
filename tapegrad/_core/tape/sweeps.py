"""Sweeps as Python calls them: reverse, forward, of second order, and recorded adjoints."""

from __future__ import annotations

import copy
import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.factory import compile_source, functions, once
from ..codegen.sweep_frame import ADJOINT_HEADER
from ..ops.symbolic import partials_of
from ..ops.table import BY_CODE, MOST_CODES
from ..sweep import (
    forward,
    scalar_adjoint_recording,
    second_order_rows,
    second_order_run,
    timed_reverse,
)
from ..sweep.kernels import compile_structural, compile_text, inputs_of
from ..sweep.second_order_kernels import second_order_source, tangent_source, used_word
from . import store
from .store import Marks
from .workspace import (
    PARTS,
    FreedError,
    UnknownError,
    _Compiled,
    address_of,
    begin_reading,
    compiled,
    end_reading,
    give_back,
    moment,
    refuse_writes_since,
    undoing,
    work_for,
)

# --- memory order ---------------------------------------------------------------------------------
# The order of an array's axes in memory, and arrays with the layout of others.


def memory_of(array: np.ndarray) -> int:
    """The address of the first element of an array; `array.ctypes` takes ten times as long."""
    return ctypes.c_int64.from_address(id(array) + layout.ARRAY_DATA).value


def memory_axes(array: np.ndarray) -> tuple[int, ...] | None:
    """The axes of an array, those of the largest strides first; None if it is in C order.

    An array without gaps is in C order if its axes are transposed so.

    >>> memory_axes(np.zeros((2, 3), order="F"))
    (1, 0)
    """
    if array.flags.c_contiguous:
        return None
    strides = array.strides
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(strides[axis])))


def copy_axes(array: np.ndarray) -> tuple[int, ...] | None:
    """As `memory_axes`, for the copy np.array(array, order="K")."""
    if array.flags.c_contiguous:
        return None
    return memory_axes(np.empty_like(array, order="K", subok=False))


def inverse(axes) -> tuple[int, ...]:
    """The axes that bring an array transposed by `axes` back to its own order."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def dense(array: np.ndarray) -> np.ndarray:
    """The array, or if its elements are not contiguous a copy of it in its order."""
    axes = memory_axes(array)
    if axes is None or array.transpose(axes).flags.c_contiguous:
        return array
    return np.array(array, order="K")


def copied(array: np.ndarray, axes, dtype=None) -> np.ndarray:
    """A copy of an array, in another dtype perhaps, whose `memory_axes` are those given."""
    if axes is None:
        return np.array(array, dtype, order="C")
    return np.array(array.transpose(axes), dtype, order="C").transpose(inverse(axes))


def laid_like(memory: np.ndarray, array: np.ndarray, count: int) -> Any:
    """Memory as `count` consecutive arrays with the layout of a dense `array`.

    The result has them one after the other along a first axis.
    """
    axes = memory_axes(array)
    if axes is None:
        return memory.reshape(count, *array.shape)
    shape = [array.shape[axis] for axis in axes]
    return memory.reshape(count, *shape).transpose(0, *[1 + axis for axis in inverse(axes)])


def covering(array: np.ndarray) -> np.ndarray:
    """The array if it is in C order, else its memory as a line of elements."""
    if array.flags.c_contiguous:
        return array
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    before = sum(step for step in reach if step < 0)
    first = array[tuple(-1 if step < 0 else 0 for step in reach) + (...,)]
    count = (sum(reach) - 2 * before) // array.itemsize + 1
    return np.lib.stride_tricks.as_strided(first, (count,), (array.itemsize,))


def has_order(array: np.ndarray, order: str) -> bool:
    """Whether an array is in a memory order of NumPy: "C", "F", "A" or "K"."""
    flags = array.flags
    return {"C": flags.c_contiguous, "F": flags.f_contiguous, "A": flags.forc}.get(order, True)


# --- overlaps -------------------------------------------------------------------------------------
# Sums into views with overlapping elements, as those of sliding windows.


def add_to_windows(target: np.ndarray, values) -> None:
    """target += values, where elements of `target` may overlap, as in windows."""
    if target.flags.c_contiguous:
        target[...] += values
        return
    values = np.broadcast_to(values, target.shape)
    apart: list[int] = []
    for axis in sorted(range(target.ndim), key=lambda k: -target.shape[k]):
        if lie_apart(target, [*apart, axis]):
            apart.append(axis)
    others = [axis for axis in range(target.ndim) if axis not in apart]
    target, values = target.transpose(*others, *apart), values.transpose(*others, *apart)
    for index in np.ndindex(target.shape[: len(others)]):
        target[(*index, ...)] += values[index]


def add_to_view(target: np.ndarray, values: np.ndarray) -> None:
    """The same where axes of `target` may be broadcast: all their elements are one."""
    if target.flags.c_contiguous:
        np.add(target, values, out=target, casting="same_kind")
        return
    for axis, stride in enumerate(target.strides):
        if stride == 0 and target.shape[axis] > 1:
            target = target[(slice(None),) * axis + (slice(0, 1),)]
            values = values.sum(axis=axis, keepdims=True)
    add_to_windows(target, values)


def lie_apart(array: np.ndarray, axes) -> bool:
    """Whether steps along these axes never lead to an element twice; False if that is unclear."""
    reach = 0
    for axis in sorted(axes, key=lambda k: abs(array.strides[k])):
        if array.shape[axis] > 1 and abs(array.strides[axis]) <= reach:
            return False
        reach += (array.shape[axis] - 1) * abs(array.strides[axis])
    return True


# --- reverse sweep --------------------------------------------------------------------------------
# One reverse sweep from Python: seeds in, adjoints of inputs out.


class ChangedError(RuntimeError):
    """An input that the sweep reaches was written after it had been read."""


FEW_INPUTS, FEW_ELEMENTS = 32, 1024
_NOWHERE = np.array([-1], np.int64)  # the stops of a sweep without any
_word = ctypes.c_int64.from_address
_half = ctypes.c_int32.from_address
#: The function that passes back the adjoint of a row by its rule, set by the wing that computes
#: rules.
by_rule: list[Callable[[Sweep, int, Any], None]] = []


class Sweep:
    """One reverse sweep with `seeds` right-hand sides at once; a context that gives back memory."""

    def __init__(self, seeds: int = 1, retain: bool = False):
        self.seeds = seeds
        self.roots: list[int] = []
        self.begun = moment()
        self.code = compiled()
        self.work, writes = work_for(self, seeds, retain)
        self.address = self.work.address
        self.writes = writes > 0
        self.before: Any = None  # a traversal that finds past values

    def __enter__(self):
        return self

    def __exit__(self, *_):
        give_back(self, self.work)

    def _key(self, number: int) -> int:
        """The position of a row in the order of time."""
        place = int(self.work.places[number >> layout.ROWS_BITS])
        return (place << layout.ROWS_BITS) + (number & (layout.ROWS - 1))

    def plant(self, tensor, seeds) -> None:
        """Add `seeds`, one per right-hand side, to the adjoint of a recorded tensor."""
        self.roots.append(tensor._id)
        if hasattr(tensor, "_array"):
            self.add(tensor._id, tensor._array, np.asarray(seeds))
            return
        for k in range(self.seeds):
            self.code.plant_scalar(self.address, tensor, k, float(seeds[k]))

    def add(self, number: int, array: np.ndarray | None, parts: np.ndarray, seeds=slice(None)):
        """Add to the adjoint of an array in a row's buffer, or of a scalar row, for some seeds."""
        if array is None:
            cell = self.cell(number)
            cell[seeds] += parts  # that of a row which nothing has touched is −0.0
            return
        adjoint_buffer = self.adjoint_buffer(number, array)
        add_to_view(adjoint_buffer if self.seeds == 1 else adjoint_buffer[seeds], parts)

    def adopt(self, tensor) -> np.ndarray:
        """Prepare the adjoint of an input, shape (seeds, …), before the sweep."""
        array = tensor._array
        size = ADJOINT_HEADER + self.seeds * array.nbytes
        memory = np.zeros(size + layout.CACHE_LINE, np.uint8)
        address = memory_of(memory) + ADJOINT_HEADER
        first = ADJOINT_HEADER + -address % layout.CACHE_LINE
        is_plain = array.flags.c_contiguous
        shape = (self.seeds, *array.shape) if is_plain else (self.seeds * array.size,)
        adjoint = np.ndarray(shape, array.dtype, memory, first)
        self.code.adopt(self.address, tensor, adjoint)
        return adjoint if is_plain else laid_like(adjoint, array, self.seeds)

    def scalar(self, tensor, seed: int = 0) -> float:
        """The adjoint of a scalar tensor."""
        return self.code.read_scalar(self.address, tensor, seed)

    def adjoint_buffer(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of `array`, which lies in the buffer of row `number`: shape (seeds, …)."""
        return self.work.adjoint_buffer(number, array, self.seeds)

    def add_plain(self, number: int, array, part) -> bool:
        """Add the same of one seed where both are plain arrays alike; whether that is done."""
        if type(array) is not np.ndarray or type(part) is not np.ndarray:
            return False
        if part.size <= FEW_ELEMENTS:  # such as the transpose of a small matrix
            part = np.ascontiguousarray(part)
        return self.code.add_array(self.address, number, array, part) != 0

    def references(self, number: int) -> tuple | None:
        """The references of a row, as (row, array or object) each; None if there are others."""
        return self.code.references(self.address, number) or None

    def cell(self, number: int) -> np.ndarray:
        """The adjoint of a scalar row, shape (seeds,); what is written there is passed on."""
        return self.work.cell(number, self.seeds)

    def is_touched(self, number: int) -> bool:
        """Whether the sweep has reached a row."""
        return self.work.is_touched(number, self.seeds)

    def take(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of an input as an array of its own; releases the adjoint buffer."""
        size = self.seeds * array.size
        result = laid_like(np.empty(size, array.dtype), np.empty_like(array), self.seeds)
        if not self.code.take(self.address, number, array, result):
            result[...] = self.adjoint_buffer(number, array)
            self.forget(number, True)
        return result

    def cells(self, number: int) -> np.ndarray | None:
        """The contents of a row's cell, per right-hand side; None if it has not been touched."""
        address = int(self.work.adjoints[number >> layout.ROWS_BITS])
        if address:
            address += (number & (layout.ROWS - 1)) * 8 * self.seeds
            if _word(address).value != layout.UNTOUCHED:
                memory: Any = (ctypes.c_double * self.seeds).from_address(address)
                return np.frombuffer(memory)
        return None

    def touched_inputs(self) -> list[int]:
        """Numbers of the tensors made with `requires_grad=True` that the sweep has reached.

        Their chunks are those of when the sweep began: other threads, and hooks, may make more.
        """
        found: list[int] = []
        for slot in self.work.input_slots:
            address = int(self.work.adjoints[slot])
            if address:
                rows = _word(int(self.work.table[slot]) + layout.USED_ROWS).value
                cells: Any = (ctypes.c_int64 * (rows * self.seeds)).from_address(address)
                base = slot << layout.ROWS_BITS
                if rows <= FEW_INPUTS:  # NumPy's calls would take longer
                    firsts = cells[:: self.seeds]
                    hits = [k for k, cell in enumerate(firsts) if cell != layout.UNTOUCHED]
                else:
                    firsts = np.frombuffer(cells, np.int64)[:: self.seeds]
                    hits = (firsts != layout.UNTOUCHED).nonzero()[0].tolist()
                found.extend(base + k for k in hits)
        return found

    def forget(self, number: int, is_array: bool) -> None:
        """Make a row one that the sweep has not reached."""
        cell = _word(self.code.cell_of(self.address, number))
        if is_array and cell.value != layout.UNTOUCHED:
            self.code.free_memory(cell.value)
        cell.value = layout.UNTOUCHED

    def _call_python(self, frame: np.ndarray) -> None:
        """Let the rule of a row's operation, or the object it refers to first, pass it back."""
        number = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[int(frame[layout.FRAME_WANTED_MASK // 8])]
        if op.vjp is not None:
            by_rule[0](self, number, op)
        else:
            self._first_object(number)(self, number)
        frame[layout.FRAME_ANSWERED // 8] = 1

    def _first_object(self, number: int) -> Any:
        """The first reference of a row."""
        start = int(self.work.table[number >> layout.ROWS_BITS]) + layout.HEADER_BYTES
        row = start + (number & (layout.ROWS - 1)) * layout.ROW_BYTES
        at = start + layout.ROWS * layout.ROW_BYTES
        first = at + _half(row + 4).value * layout.REFERENCE_BYTES
        return ctypes.cast(_word(first).value, ctypes.py_object).value

    def _find_writes(self) -> None:
        """Find which writes the sweep has to undo, if any."""
        self.marks = Marks(len(self.work.table))
        found = undoing()
        self.work.set(FRAME_MARKS=self.marks.address, FRAME_EXCHANGE=address_of(found["exchange"]))
        self.writes = found["find_writes"](self.address) != 0

    def _reverse(self) -> int:
        """Sweep until it is over or has to stop; returns why."""
        if self.writes:  # while writes are undone no other thread may read what they wrote
            return self.code.reverse_alone(self.address)
        return self.code.reverse(self.address)

    def run(self, stops: dict[int, Any] | None = None) -> None:
        """Sweep from the newest row to the oldest one that is reached.

        `stops` names rows at which the sweep pauses, if it reaches them, with the function called
        there: every contribution to the row's adjoint is in, and none has been passed on. What was
        read must not have been written meanwhile (WrittenError).
        """
        reader = begin_reading(inner_may_free=True)
        try:
            self._run(stops)
        finally:
            end_reading(reader)
        refuse_writes_since(self.begun, self.roots)

    def _run(self, stops: dict[int, Any] | None) -> None:
        code, frame = self.code, self.work.frame
        if self.writes:
            self._find_writes()
        named = {self._key(number): stop for number, stop in stops.items()} if stops else {}
        keys = np.array([*sorted(named, reverse=True), -1], np.int64) if stops else _NOWHERE
        frame[layout.FRAME_STOPS // 8] = keys.ctypes.data
        while (status := self._reverse()) != layout.DONE:
            if status == layout.MET_FREED:
                raise FreedError
            if status == layout.MET_CHANGED:
                raise ChangedError
            if status == layout.MET_UNKNOWN:
                raise UnknownError
            if status == layout.STOPPED:
                named[_word(int(frame[layout.FRAME_STOPS // 8])).value]()
                frame[layout.FRAME_STOPS // 8] += 8
            elif status == layout.CALL_PYTHON:
                self._call_python(frame)
            else:
                code.want(status, frame)


# --- forward sweep --------------------------------------------------------------------------------
# Tangents of rows in forward mode: the Python interface of the compiled traversal.


class _ForwardCode:
    """The functions of the traversal, and the tables of kernels that it fills on demand."""

    def __init__(self):
        self.functions = functions(forward.source(), forward.EXPORTS, keep_lock=True)
        count = MOST_CODES * layout.MASKS  # memory that is never touched is never allocated
        self.kernels = {8: np.zeros(count, np.int64), 4: np.zeros(count, np.int64)}
        self.structural = np.zeros(MOST_CODES, np.int64)

    def want(self, status: int, frame: np.ndarray) -> None:
        """Compile what a traversal has requested."""
        if status == layout.WANT_CARRY:
            found = compile_source(forward.CARRY_SOURCE, {"carry_row": "int64(int64, int64)"})
            frame[layout.FRAME_CARRY // 8] = found["carry_row"]
            return
        if status == layout.WANT_STRIDED:
            compiled().want(status, frame)
            return
        code = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[code]
        if status == layout.WANT_STRUCTURAL:
            self.structural[code] = compile_structural(op, op.tangent) if op.tangent else 1
        else:
            masks = int(frame[layout.FRAME_WANTED_MASK // 8])
            width = int(frame[layout.FRAME_WANTED_DTYPE // 8])
            op.check(inputs_of(op, masks))
            kernel = compile_text(op, tangent_source(op, masks, width))
            self.kernels[width][code * layout.MASKS + masks] = kernel


@once
def _forward_code() -> _ForwardCode:
    return _ForwardCode()


_ASKING = (layout.WANT_CARRY, layout.WANT_STRIDED, layout.WANT_KERNEL, layout.WANT_STRUCTURAL)


class Carrying:
    """One forward traversal from rows to `outputs`, in several directions at once; a context.

    A tangent has the shape of its array, with an axis of directions first.
    """

    def __init__(self, directions: int):
        self.compiled = _forward_code()
        self.code: Any = self.compiled.functions
        self.directions = directions
        self.work, writes = work_for(self, directions, True)
        self.writes = writes > 0
        kernels = self.compiled.kernels
        self.work.set(
            FRAME_TANGENT_KERNELS64=kernels[8].ctypes.data,
            FRAME_TANGENT_KERNELS32=kernels[4].ctypes.data,
            FRAME_TANGENT_STRUCTURAL=self.compiled.structural.ctypes.data,
        )
        self.reader = begin_reading()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_reading(self.reader)
        give_back(self, self.work)

    def has(self, number: int) -> bool:
        """Whether a row has a tangent."""
        return self.work.is_touched(number, self.directions)

    def scalar(self, number: int) -> np.ndarray:
        """The tangent of a scalar row, to be read or written."""
        return self.work.cell(number, self.directions)

    def part(self, number: int, array: np.ndarray) -> np.ndarray:
        """The tangent of `array`, which lies in the buffer of a row, to be read or written."""
        return self.work.adjoint_buffer(number, array, self.directions)

    def _needed(self, outputs) -> int:
        """Mark what `outputs` need; returns the oldest chunk of it."""
        self.marks = Marks(len(self.work.table))
        self.marks.mark(list(outputs))
        self.work.set(FRAME_MARKS=self.marks.address, FRAME_MET_USED=0)
        return self.code["mark_needed"](self.work.address)

    def meets_writes(self, outputs) -> bool:
        """Whether in-place writes are among what `outputs` need."""
        if not self.writes:
            return False
        self._needed(outputs)
        return self.code["has_writes"](self.work.address) != 0

    def run(self, stops, outputs, rule: Callable[[int], None]) -> None:
        """Traverse the tape; `rule(row)` sets the tangent of a row that compiled code leaves."""
        oldest = self._needed(outputs)
        frame = self.work.frame
        self.marks.rows[list(stops)] = layout.STOP  # their operands do not matter
        self.work.set(FRAME_AT_ORDER=oldest, FRAME_AT_POSITION=0)
        while (status := self.code["carry"](self.work.address)) != layout.DONE:
            if status in _ASKING:
                self.compiled.want(status, frame)
                continue
            if status == layout.MET_UNKNOWN:
                raise UnknownError
            if status != layout.WANT_RULE:
                raise FreedError
            slot = int(self.work.sequence[frame[layout.FRAME_AT_ORDER // 8]])
            rule((slot << layout.ROWS_BITS) + int(frame[layout.FRAME_AT_POSITION // 8]))
            frame[layout.FRAME_AT_POSITION // 8] += 1

    @property
    def met_used(self) -> bool:
        """Whether the traversal has passed a used-up row."""
        return bool(self.work.frame[layout.FRAME_MET_USED // 8])

    def give_again(self) -> None:
        """Make the rows that `outputs` need such that are not used up."""
        self.code["give_again"](self.work.address)


# --- second order sweep ---------------------------------------------------------------------------
# A reverse sweep of second order: adjoints as seed 0, their tangents as seed 1.
#
# Each part or kernel of the sweep that reads values has a second-order version, which also reads
# the tangents of values from a forward traversal. Parts that are linear in adjoints serve both
# seeds unchanged.

_VALUES = (1 << layout.FLAT_SHIFT) - 1  # the bits of the values that kernels of a row read


class UnderivableError(RuntimeError):
    """An operation has no second partial derivatives."""


class _SecondOrder(_Compiled):
    """The compiled sweep, with parts and kernels of its own for rows that read values."""

    used: np.ndarray

    def __init__(self):
        self.__dict__.update(compiled().__dict__)
        texts = second_order_rows.source, lambda: second_order_run.SOURCE
        self.texts = dict(zip(PARTS, texts, strict=True))
        self.parts = dict.fromkeys(PARTS, 0)
        self.kernels = {width: np.zeros_like(table) for width, table in self.kernels.items()}
        self.structural = np.zeros_like(self.structural)
        self.used = store.used_table().copy()

    def follow(self) -> None:
        """Take over the operations that have been declared since."""
        new = self.used == 0
        self.used[new] = store.used_table()[new]

    def compile_structural(self, op) -> int:
        return compile_structural(op, op.second_order or op.adjoint)

    def compile_kernel(self, op, masks: int, width: int) -> int:
        """The address of a kernel; 0 if the sweep must request it again."""
        if partials_of(op) is None:
            raise UnderivableError(op.name)
        word = self.used[op.code] & ~_VALUES | used_word(op)
        if self.used[op.code] != word:
            self.used[op.code] = word
            return 0
        return compile_text(op, second_order_source(op, masks, width))

    def timed(self) -> _Compiled:
        return _timed()


@once
def _second_order_code() -> _SecondOrder:
    return _SecondOrder()


@once
def _timed() -> _Compiled:
    """The same with a sweep that notes what each row costs."""
    code = copy.copy(_second_order_code())
    code.compile_sweep(
        timed_reverse.source(),
        timed_reverse.EXPORTS,
        lambda: timed_reverse.scalars_source(second_order_rows),
        lambda: timed_reverse.pointwise_source("second_order_run"),
    )
    return code


#: Words of a frame that differ in a sweep of second order.
_WORDS = (
    *("FRAME_SCALARS", "FRAME_POINTWISE", "FRAME_KERNELS64", "FRAME_KERNELS32"),
    *("FRAME_STRUCTURAL", "FRAME_USED"),
)


class SecondOrderSweep(Sweep):
    """One sweep of a result's adjoint and of the tangent of that, given tangents of the rows.

    It uses up its rows, unless some that the result needs were used up before.
    """

    def __init__(self, tangents: Carrying):
        super().__init__(2, tangents.met_used)
        self.tangents = tangents
        self.code = _second_order_code()
        self.code.follow()
        kernels, used = self.code.kernels, self.code.used
        self._plain = self.work.words(*_WORDS)
        self.work.set(
            FRAME_SCALARS=0,
            FRAME_POINTWISE=0,
            FRAME_KERNELS64=kernels[8].ctypes.data,
            FRAME_KERNELS32=kernels[4].ctypes.data,
            FRAME_STRUCTURAL=self.code.structural.ctypes.data,
            FRAME_USED=used.ctypes.data,
            FRAME_TANGENTS=tangents.work.address,
        )

    def give_again(self) -> None:
        """Let the rows be as they were before the sweep, which has not ended."""
        if not self.tangents.met_used:
            self.tangents.give_again()
            self.work.set(FRAME_RETAIN=1)

    def __exit__(self, *_):
        self.work.set(**self._plain)
        super().__exit__(*_)


# --- adjoint recorder -----------------------------------------------------------------------------
# Adjoints of scalar rows written as rows: the Python interface of the compiled traversal.

#: A read of a cell, as the traversal records it.
LOADED = np.dtype([("buffer", "i8"), ("place", "i8"), ("row", "i8"), ("value", "f8")])


class _Cell(ctypes.Structure):
    _fields_ = (("row", ctypes.c_int64), ("value", ctypes.c_double))


@functools.cache
def _recording_code() -> dict:
    return functions(
        scalar_adjoint_recording.source(), scalar_adjoint_recording.EXPORTS, keep_lock=True
    )


class Writing:
    """One backward traversal from rows to `stops`; a context that releases its memory.

    `oldest` is the oldest chunk to visit, if that is known; `choices` says whether the choices of
    partial derivatives are recorded (`layout.BY_VALUE` and the like). An adjoint of a scalar row is
    a pair: the row that holds it (−1 for a constant) and its value.
    """

    def __init__(self, stops, oldest: int | None = None, choices: int = layout.BY_VALUE):
        self.code: Any = _recording_code()
        self.begun = moment()
        self.work, _ = work_for(self, 2, True)  # a cell of a row is a pair
        self.reader = begin_reading()
        self.marks = np.zeros(len(self.work.table) << layout.ROWS_BITS, np.uint8)
        self.marks[list(stops)] = layout.STOP
        self.loads = np.zeros(layout.LOADS, LOADED)
        self.work.set(
            FRAME_MARKS=self.marks.ctypes.data,
            FRAME_LOADS=self.loads.ctypes.data,
            FRAME_LOADS_COUNT=0,
            FRAME_CHOICES=choices,
        )
        self.meets_writes = self._mark(stops, oldest)
        self.noted: dict[int, list[np.ndarray]] = {}  # reads of cells, by buffer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_reading(self.reader)
        give_back(self, self.work)

    def _mark(self, stops, oldest: int | None) -> bool:
        """Mark the rows that depend on `stops`; whether some of them meet an in-place write."""
        first = min((int(self.work.places[s >> layout.ROWS_BITS]) for s in stops), default=0)
        first = max(first, int(self.work.frame[layout.FRAME_INPUTS // 8]))
        if oldest is not None:
            first = max(first, int(self.work.places[oldest]))
        self.code["mark_written"](self.work.address, first)
        return self.code["mark_active"](self.work.address, first) > 0

    def adjoint(self, number: int) -> tuple[int, float] | None:
        """The adjoint of a scalar row so far, None if nothing has reached it."""
        if int(self.work.adjoints[number >> layout.ROWS_BITS]) == 0:
            return None
        cell = self._cell(number)
        return None if cell.row == layout.UNTOUCHED else (cell.row, cell.value)

    def set(self, number: int, row: int, value: float = 0.0) -> None:
        """Set the adjoint of a scalar row; for an array row, that it has one."""
        cell = self._cell(number)
        cell.row, cell.value = row, value

    def _cell(self, number: int) -> _Cell:
        return _Cell.from_address(compiled().cell_of(self.work.address, number))

    def run(self, rule: Callable[[int], None]) -> None:
        """Traverse the tape; `rule(row)` writes the adjoint of a row that compiled code leaves."""
        frame = self.work.frame
        while (status := self.code["write_adjoints"](self.work.address)) != layout.DONE:
            if status == layout.MET_FREED:
                raise FreedError
            if status == layout.LOADS_FULL:
                self.note_loads()
                continue
            self.note_loads()
            slot = int(self.work.sequence[frame[layout.FRAME_AT_ORDER // 8]])
            rule((slot << layout.ROWS_BITS) + int(frame[layout.FRAME_AT_POSITION // 8]))
            frame[layout.FRAME_AT_POSITION // 8] -= 1
        self.note_loads()

    def reads(self, buffer: int) -> np.ndarray | None:
        """The adjoints that reads of a buffer's cells have brought so far, one for each cell.

        They are given once. None if there are none.
        """
        noted = self.noted.pop(buffer, None)
        if noted is None:
            return None
        loads = np.concatenate(noted)
        loads = loads[np.argsort(loads["place"], kind="stable")]
        return loads[: self.code["add_up_loads"](loads.ctypes.data, len(loads))]

    def note_loads(self) -> None:
        """Sort the reads of cells since the last time by their buffers."""
        count = int(self.work.frame[layout.FRAME_LOADS_COUNT // 8])
        self.work.set(FRAME_LOADS_COUNT=0)
        loads = self.loads[:count]
        for buffer in np.unique(loads["buffer"]).tolist():
            self.noted.setdefault(buffer, []).append(loads[loads["buffer"] == buffer])

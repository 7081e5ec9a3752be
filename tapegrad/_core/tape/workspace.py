"""What every sweep needs: compiled functions, memory of its own, dependences, later writes."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from ..codegen import layout, process
from ..codegen.factory import compile_source, functions, once
from ..codegen.shared_kernels import compile_group
from ..codegen.sweep_frame import ADJOINT_HEADER
from ..ops.table import BY_CODE, MOST_CODES
from ..sweep import (
    dependence_entry,
    kernels,
    reverse,
    scalar_rows,
    sweep_entry,
    timed_reverse,
    undo_log,
)
from ..sweep.elementwise_run_layout import SCRATCH_BYTES
from . import native_types, store
from .store import Marks
from .tape import Reader

# --- compiled sweep -------------------------------------------------------------------------------
# The compiled sweep: its parts and kernels, compiled on demand; one table of them per process.

#: Parts of the sweep, by the status that requests them: name, number of arguments, frame's word.
PARTS = {
    layout.WANT_SCALARS: ("scalars", 4, layout.FRAME_SCALARS),
    layout.WANT_POINTWISE: ("pointwise", 2, layout.FRAME_POINTWISE),
}


class _Compiled:
    """The sweep's functions, by name, and the tables of kernels that it fills on demand."""

    begin: Any
    reverse: Any
    reverse_alone: Any
    idle: Any
    end: Any
    release: Any
    cell_of: Any
    adjoint_buffer_of: Any
    adjoint_at: Any
    add_array: Any
    references: Any
    take: Any
    free_memory: Any
    plant_scalar: Any
    read_scalar: Any
    adopt: Any

    def __init__(self):
        call = compile_source(sweep_entry.SOURCE, {"call": "int64(int64, int64, int64)"})["call"]
        self.__dict__.update(native_types.builtins(sweep_entry.BUILTINS, call))
        self.compile_sweep(
            reverse.SOURCE, reverse.EXPORTS, scalar_rows.source, lambda: reverse.POINTWISE_SOURCE
        )
        count = MOST_CODES * layout.MASKS  # memory that is never touched is never allocated
        self.kernels = {8: np.zeros(count, np.int64), 4: np.zeros(count, np.int64)}
        self.structural = np.zeros(MOST_CODES, np.int64)

    def compile_sweep(
        self, source: str, exports: dict[str, int], *texts: Callable[[], str]
    ) -> None:
        """Compile the sweep itself, and take over the texts of its parts, in the order of PARTS."""
        self.__dict__.update(functions(source, exports, keep_lock=False))
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        self.reverse_alone = prototype(address_of(self.reverse))
        self.texts = dict(zip(PARTS, texts, strict=True))
        self.parts = dict.fromkeys(PARTS, 0)

    def part(self, status: int) -> int:
        """The address of a part of the sweep, compiled on first use."""
        if not self.parts[status]:
            name, arguments, _ = PARTS[status]
            signature = f"int64({', '.join(['int64'] * arguments)})"
            self.parts[status] = compile_source(self.texts[status](), {name: signature})[name]
        return self.parts[status]

    def want(self, status: int, frame: np.ndarray) -> None:
        """Compile what a sweep has requested; raise the error of an adjoint that has refused."""
        if status in PARTS:
            frame[PARTS[status][2] // 8] = self.part(status)
            return
        if status == layout.WANT_STRIDED:
            strided = compile_group("strided_memory")
            frame[layout.FRAME_BLOCK_OF // 8] = strided["block_of"]
            frame[layout.FRAME_ADD_BLOCK // 8] = strided["add_block"]
            return
        code = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[code]
        if status == layout.REFUSED:
            raise op.refusal(int(frame[layout.FRAME_WANTED_MASK // 8]))
        if status == layout.WANT_STRUCTURAL:
            self.structural[code] = self.compile_structural(op)
            return
        masks = int(frame[layout.FRAME_WANTED_MASK // 8])
        width = int(frame[layout.FRAME_WANTED_DTYPE // 8])
        kernel = self.compile_kernel(op, masks, width)
        self.kernels[width][code * layout.MASKS + masks] = kernel

    def compile_structural(self, op) -> int:
        """The address of the kernel of an operation on whole arrays."""
        return kernels.compile_structural(op, op.adjoint)

    def compile_kernel(self, op, masks: int, width: int) -> int:
        """The address of the kernel of an element-wise operation."""
        op.check(kernels.inputs_of(op, masks))
        return kernels.compile_adjoint(op, masks, width)

    def timed(self) -> _Compiled:
        """The same functions and kernels, with a sweep that notes what each row costs."""
        return compiled_timed()


@once
def undoing() -> dict:
    """The functions that find, undo and redo writes: compiled when a sweep meets one."""
    return functions(undo_log.SOURCE, undo_log.EXPORTS, keep_lock=True)


def address_of(function) -> int:
    """The address of a compiled function that Python can call."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@once
def compiled() -> _Compiled:
    return _Compiled()


@once
def compiled_timed() -> _Compiled:
    """The same functions and kernels, with a sweep that notes what each row costs."""
    code = copy.copy(compiled())
    code.compile_sweep(
        timed_reverse.source(),
        timed_reverse.EXPORTS,
        timed_reverse.scalars_source,
        timed_reverse.pointwise_source,
    )
    return code


# --- workspace ------------------------------------------------------------------------------------
# The memory of a sweep, kept from one to the next; and deferred releases while a sweep reads.


class FreedError(RuntimeError):
    """A row that the sweep needs was used up by an earlier backward pass."""


class UnknownError(RuntimeError):
    """A buffer that is reached was written outside of the tape before it was read."""

    def __init__(self):
        super().__init__(
            "tapegrad: a tensor whose derivative is asked for was written through detach(), and "
            "read afterwards; write to a copy, detach().copy(), or to the tensor itself"
        )


_word = ctypes.c_int64.from_address
#: All that may lie behind an address.
_memory: Any = (ctypes.c_char * (1 << 60)).from_address


class Work:
    """Memory of a sweep that is kept from one to the next."""

    def __init__(self):
        code = compiled()
        self.frame = np.zeros(layout.FRAME_BYTES // 8, np.int64)
        self.address = self.frame.ctypes.data
        self.scratch = np.empty(SCRATCH_BYTES + layout.CACHE_LINE, np.uint8)
        self.pool = np.zeros(layout.POOL_BYTES // 8, np.int64)
        self.version = -1
        self.set(
            FRAME_KERNELS64=code.kernels[8].ctypes.data,
            FRAME_KERNELS32=code.kernels[4].ctypes.data,
            FRAME_STRUCTURAL=code.structural.ctypes.data,
            FRAME_USED=store.used_table().ctypes.data,
            FRAME_SCRATCH=-(-self.scratch.ctypes.data // layout.CACHE_LINE) * layout.CACHE_LINE,
            FRAME_POOL=self.pool.ctypes.data,
            FRAME_FLOAT32=id(np.dtype(np.float32)),
            FRAME_FLOAT64=id(np.dtype(np.float64)),
        )

    def set(self, **words: int) -> None:
        for name, value in words.items():
            self.frame[getattr(layout, name) // 8] = value

    def words(self, *names: str) -> dict[str, int]:
        """Words of the frame by their names, as `set` takes them."""
        return {name: int(self.frame[getattr(layout, name) // 8]) for name in names}

    def follow(self) -> None:
        """Take over the store's chunks as they are now."""
        slots = len(store.table)
        self.input_slots = list(store.input_slots)
        self.sequence = np.array(self.input_slots + store.order, np.int64)
        self.places = np.zeros(slots, np.int64)
        self.places[self.sequence] = np.arange(len(self.sequence))
        self.adjoints = np.zeros(slots, np.int64)
        self.lowest = np.zeros(slots, np.int64)
        self.table = store.table.copy()
        self.length = len(self.sequence)
        self.set(FRAME_INPUTS=len(self.input_slots), FRAME_EARLIER_WRITES=-1)
        self.set(
            FRAME_CHUNKS=self.table.ctypes.data,
            FRAME_ADJOINTS=self.adjoints.ctypes.data,
            FRAME_LOWEST=self.lowest.ctypes.data,
            FRAME_ORDER=self.places.ctypes.data,
            FRAME_SEQUENCE=self.sequence.ctypes.data,
        )
        self.version = store.version

    def adjoint_buffer(self, number: int, array: np.ndarray, seeds: int) -> np.ndarray:
        """The adjoint buffer of `array`, which lies in the buffer of a row, allocated on first use.

        Its shape is that of the array with an axis of `seeds` first.
        """
        if seeds == 1 and array.flags.c_contiguous:  # half the time
            at = compiled().adjoint_at(self.address, number, array)
            if at == 0:
                raise FreedError
            return np.ndarray((1, *array.shape), array.dtype, _memory(at))
        found = compiled().adjoint_buffer_of(self.address, number)
        if found == 0:
            raise FreedError
        span, low = _word(found).value, _word(found + 8).value
        memory: Any = (ctypes.c_char * (span * seeds)).from_address(found + ADJOINT_HEADER)
        offset = _word(id(array) + layout.ARRAY_DATA).value - low
        strides = (span, *array.strides)
        return np.ndarray((seeds, *array.shape), array.dtype, memory, offset, strides)

    def cell(self, number: int, seeds: int) -> np.ndarray:
        """The cell of a scalar row, shape (seeds,); from then on the row is touched."""
        address = compiled().cell_of(self.address, number)
        cells: Any = (ctypes.c_double * seeds).from_address(address)
        return np.frombuffer(cells)

    def is_touched(self, number: int, seeds: int) -> bool:
        """Whether a row's cell holds anything."""
        slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
        address = int(self.adjoints[slot])
        return bool(address) and _word(address + position * 8 * seeds).value != layout.UNTOUCHED

    def reached(self) -> list[tuple[int, int]]:
        """The chunks that the sweep has reached, each with the lowest position there."""
        slots = self.adjoints.nonzero()[0].tolist()
        return [(slot, int(self.lowest[slot])) for slot in slots]


_works: list[Work] = []


class _Reader:
    """A reader of rows; passes that its own thread runs inside of it may free arrays, or not.

    A sweep allows it: it sees which rows an inner pass has used up, and Python holds the objects of
    the row whose rule runs that pass.
    """

    __slots__ = ("inner_may_free",)

    def __init__(self, inner_may_free: bool):
        self.inner_may_free = inner_may_free


#: Readers of rows, perhaps without the interpreter lock, by identity; with the thread.
_readers: dict[int, tuple[_Reader, int]] = {}
#: Used-up rows whose arrays a reader may be using: the readers at a time when these were used up,
#: and their positions by slot. A later reader sees that these rows are used up.
_waiting: list[tuple[set[int], dict[int, np.ndarray]]] = []


def begin_reading(inner_may_free: bool = False) -> _Reader:
    """Until `end_reading` of what is returned, no array of a row is freed.

    With `inner_may_free`, passes of this thread until then still free what they use up.
    """
    reader = _Reader(inner_may_free)
    _readers[id(reader)] = reader, get_ident()
    return reader


def end_reading(reader: _Reader) -> None:
    """Free what has waited for one reader alone."""
    _readers.pop(id(reader), None)
    if _waiting:
        _let_go()


def _let_go() -> None:
    with store.lock:
        for readers, _ in _waiting:
            readers.intersection_update(_readers)
        ready = [rows for readers, rows in _waiting if not readers]
        _waiting[:] = [entry for entry in _waiting if entry[0]]
        for rows in ready:
            for slot, positions in rows.items():
                compiled().release(int(store.table[slot]), positions)


def work_for(sweep: object, seeds: int, retain: bool) -> tuple[Work, int]:
    """Memory for a sweep that begins at the newest row, and the number of writes.

    No chunk is freed before `give_back` is called for the same sweep.
    """
    code = compiled()
    with store.lock:  # any collection that has begun is over then
        store.sweeping[id(sweep)] = sweep, get_ident()
        work = _works.pop() if _works else Work()
        if work.version != store.version:
            work.follow()
        return work, code.begin(work.address, work.length, seeds, retain)


def give_back(sweep: object, work: Work) -> None:
    """End a sweep: free its cells and adjoint buffers, and what used-up rows have kept alive."""
    with store.lock:
        end, outer = compiled().end, _outer_readers() if _readers else {}
        # Python switches threads only after calls: nobody begins to read between these two lines.
        if _readers == outer:
            end(work.address, True)
        else:
            reached = work.reached()
            end(work.address, False)
            rows = {slot: _used_up(slot, lowest) for slot, lowest in reached}
            _waiting.append(({*_readers} - {*outer}, rows))
            _let_go()  # some may have ended meanwhile
        store.sweeping.pop(id(sweep), None)
        _works.append(work)


def _used_up(slot: int, lowest: int) -> np.ndarray:
    """Positions of the used-up rows of a chunk that may keep something alive, from `lowest` on."""
    start = layout.HEADER_BYTES + lowest * layout.ROW_BYTES
    stop = layout.HEADER_BYTES + store.word(slot, layout.USED_ROWS) * layout.ROW_BYTES
    codes = store.chunks[slot][start:stop].view(np.int32)[:: layout.ROW_BYTES // 4]
    found = (codes < -layout.ARRAY) | (codes == -layout.LEAF) | (codes == -layout.CONSTANT)
    return lowest + found.nonzero()[0]


def _settle() -> None:
    """Without an active sweep there is no reader: free what has waited while its chunk exists."""
    _readers.clear()
    _let_go()


store.before_look.append(_settle)


def _outer_readers() -> dict[int, tuple[_Reader, int]]:
    """The readers around a pass of this thread that allow it to free what it has used up.

    Readers that an interrupt has kept from their end are dropped.
    """
    store.is_sweeping()  # drops traversals that could not end, which hold their readers
    for key in store.abandoned(_readers):
        _readers.pop(key, None)
    _let_go()
    mine = get_ident()
    entries = list(_readers.items())
    return {key: entry for key, entry in entries if entry[0].inner_may_free and entry[1] == mine}


@process.in_child
def _alone() -> None:
    """The readers of other threads never end."""
    for key, (_, thread) in list(_readers.items()):
        if thread != get_ident():
            del _readers[key]
    _let_go()


# --- dependence -----------------------------------------------------------------------------------
# Dependences between rows, found in compiled code.


@once
def _compiled() -> dict[str, Any]:
    return functions(dependence_entry.SOURCE, dependence_entry.EXPORTS, keep_lock=True)


def dependence_of(numbers: list[int]) -> tuple[Marks, int | None]:
    """Marks of some rows and of what they depend on; the oldest chunk, None if all are inputs."""
    traversal = object()
    work, _ = work_for(traversal, 1, True)
    try:
        marks = Marks(len(work.table))
        marks.mark(numbers)
        work.set(FRAME_MARKS=marks.address)
        oldest = _compiled()["mark_dependence"](work.address)
        return marks, int(work.sequence[oldest]) if oldest < work.length else None
    finally:
        give_back(traversal, work)


# --- later writes ---------------------------------------------------------------------------------
# Writes of what a backward pass reads, by hooks or other threads while the pass is under way.
#
# A pass undoes the writes that were recorded before it began. It does not know later ones, and may
# have read their values: then it is refused at its end. Neither writes nor passes wait for it.


class WrittenError(RuntimeError):
    """What a backward pass reads was written while the pass was under way."""

    def __init__(self):
        super().__init__(
            "tapegrad.backward: a tensor that the backward pass reads was written in place while "
            "the pass was under way, by a hook, a rule or another thread; write to a copy(), or "
            "after backward() has returned"
        )


def moment() -> tuple[int, int]:
    """The present: what is recorded, and the number of writes of inputs outside of the tape."""
    return store.now(), store.changes


def refuse_writes_since(begun: tuple[int, int], roots: list[int]) -> None:
    """Raise WrittenError if what the rows `roots` depend on was written since a moment."""
    now, changes = begun
    if now != store.now() or changes != store.changes:
        written = _written_buffers(now) + _changed_inputs(changes)
        if written and dependence_of(roots)[0].rows[written].any():
            raise WrittenError


def _written_buffers(then: int) -> list[int]:
    """Buffers that there were at a moment, and that rows write that have been appended since."""
    order = list(store.order)  # it has only grown: no chunk goes while a pass is under way
    known = [slot for slot in order if store.begun[slot] <= then >> 32]
    newer = order[max(0, len(known) - 1) :]
    if not any(store.word(slot, layout.WRITES) for slot in newer):
        return []
    reader = Reader()
    time = reader.place[newer[0]] << layout.ROWS_BITS
    first = (then & 0xFFFFFFFF) - (newer[0] << layout.ROWS_BITS)
    if 0 <= first <= layout.ROWS:  # else the chunk was about to be begun
        time += first
    return [buffer for buffer in reader.written_since(time) if reader.time(buffer) < time]


def _changed_inputs(count: int) -> list[int]:
    """Inputs that were written outside of the tape after so many others."""
    found: list[int] = []
    if store.changes != count:
        reader = Reader()
        for slot in store.input_slots:
            rows = reader.filled(slot)
            newer = rows["value"].view(np.int64) <= store.change_number(count)
            places = ((rows["op"] == layout.CHANGED) & newer).nonzero()[0]
            found.extend((places + (slot << layout.ROWS_BITS)).tolist())
    return found

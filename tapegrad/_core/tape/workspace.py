"""The memory of a sweep, kept from one to the next; and deferred releases while a sweep reads."""

import ctypes
from threading import get_ident
from typing import Any

import numpy as np

from ..codegen import layout, process
from ..codegen.sweep_frame import ADJOINT_HEADER
from ..sweep.elementwise_run_layout import SCRATCH_BYTES
from . import store
from .compiled_sweep import compiled


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

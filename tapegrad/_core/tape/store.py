"""Chunks of rows and references, one store for all threads; marks, a byte for each row."""

from __future__ import annotations

import collections
import ctypes
import functools
import sys
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..codegen import layout, process
from ..codegen.factory import functions, once
from ..ops.table import BY_CODE, MOST_CODES, Pointwise
from ..sweep import liveness
from .native_types import STATE, get_word, immortal, mortal, set_word

# --- row marks ------------------------------------------------------------------------------------
# A mark for each row of the store, and one for each chunk (see `sweep.marking`).


class Marks:
    """A byte in `rows` for each row of a number of chunks, at its id; 0 at first.

    The marks of the chunks lie before them, backwards.
    """

    def __init__(self, slots: int):
        before = -(-slots // layout.CACHE_LINE) * layout.CACHE_LINE
        memory = np.zeros(before + (slots << layout.ROWS_BITS), np.uint8)
        self.rows = memory[before:]
        self._chunks = memory[before - 1 :: -1]
        self.address = self.rows.ctypes.data

    def mark(self, numbers: list[int]) -> None:
        """Mark some rows."""
        ids = np.array(numbers, np.int64)
        self.rows[ids] = self._chunks[ids >> layout.ROWS_BITS] = 1

    def has(self, slot: int) -> bool:
        """Whether a row of a chunk is marked."""
        return bool(self._chunks[slot])


# --- store ----------------------------------------------------------------------------------------
# The store of rows: chunks in order of time, inputs apart, and the release of memory.
#
# There is one store per process. Rows are appended under the interpreter lock, each in one step;
# therefore threads may record at once and their tensors may be combined; every result comes after
# its operands. Row numbers never change. When rows or bytes have doubled since the last collection,
# whatever no live tensor depends on is freed, chunk by chunk.

#: A look is not worth its time below these.
FEWEST_CHUNKS, FEWEST_BYTES = 48, 128 << 20
_ROWS_AT = layout.HEADER_BYTES
_REFERENCES_AT = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES

chunks: dict[int, np.ndarray] = {}  # slot → memory
table = np.zeros(64, np.int64)  # slot → address
order: list[int] = []  # slots of chunks of rows, oldest first
input_slots: list[int] = []  # slots of chunks of inputs
_free_slots: list[int] = []
_spare: list[np.ndarray] = []  # memory to use again
_limits = {"chunks": FEWEST_CHUNKS}
#: The address of the current chunk in the recorder; the last word says that there is room.
_CHUNK_WORDS = np.array(
    [
        layout.STATE_ROW,
        layout.STATE_ROW_END,
        layout.STATE_ID,
        layout.STATE_CHUNK,
        layout.STATE_REFERENCE,
        layout.STATE_REFERENCE_END,
    ]
)
_CHUNK_WORDS //= 8
#: The number of the row that the recorder appends next.
_next_row = ctypes.c_int64.from_address(STATE.ctypes.data + layout.STATE_ID)
#: Active sweeps, by identity, with their threads: they run without the interpreter lock, and
#: nothing may be freed meanwhile. A sweep is entered with `lock` held, so that no collection is
#: active then.
sweeping: dict[int, tuple[object, int]] = {}
lock = process.lock()  # of the list of chunks
#: Objects attached to single rows, such as hooks: slot → row → object. They are freed with the row.
attached: dict[int, dict[int, Any]] = {}
#: The same of rows that a backward pass may reach: those that are not used up.
watched: dict[int, dict[int, Any]] = {}
looks = 0  # the number of collections so far
version = 0  # counts changes of the list of chunks
changes = 0  # counts inputs that were written outside of the tape
begun: dict[int, int] = {}  # slot → the version at which its chunk was begun


def word(slot: int, offset: int) -> int:
    """A header word of a chunk."""
    return int(chunks[slot][offset : offset + 8].view(np.int64)[0])


def set_header(slot: int, offset: int, value: int) -> None:
    chunks[slot][offset : offset + 8].view(np.int64)[0] = value


def _count_change() -> None:
    global version
    version += 1
    set_word(layout.STATE_VERSION, version)


def now() -> int:
    """A number that is another one as soon as a row has been appended."""
    return version << 32 | _next_row.value


def _new_slot() -> int:
    """A slot with a zeroed header."""
    global table
    _count_change()
    slot = _free_slots.pop() if _free_slots else len(chunks)
    if slot == len(table):
        table = np.concatenate((table, np.zeros_like(table)))
    if slot >= 1 << (31 - layout.ROWS_BITS):
        raise MemoryError("tapegrad: more than 2^31 rows are alive at once")
    if _spare:
        memory = _spare.pop()
    else:
        memory = np.empty(layout.CHUNK_BYTES, np.uint8)
        immortal(memory)
    memory[:_ROWS_AT] = 0  # and no more: pages use no memory until rows are written
    chunks[slot] = memory
    table[slot] = memory.ctypes.data
    begun[slot] = version
    return slot


def seal() -> None:
    """Write into the current chunk's header how full it is."""
    with lock:  # the recorder's words and the list of chunks are of one chunk
        if not order:
            return
        slot, start = order[-1], int(table[order[-1]])
        rows = (get_word(layout.STATE_ROW) - start - _ROWS_AT) // layout.ROW_BYTES
        used = (get_word(layout.STATE_REFERENCE) - start - _REFERENCES_AT) // layout.REFERENCE_BYTES
        set_header(slot, layout.USED_ROWS, rows)
        set_header(slot, layout.USED_REFERENCES, used)


def new_chunk(references: int = 0) -> None:
    """Close the current chunk and open another; called by the recorder when there is no room.

    `references` are those of the row that is to be written.
    """
    if references > layout.REFERENCES:
        raise ValueError(
            f"tapegrad: an operation has {references} operands and results; one takes at most "
            f"{layout.REFERENCES}. Join the operands before, with np.stack or np.concatenate"
        )
    with lock:
        _new_chunk()


def _new_chunk() -> None:
    _close()
    grown = get_word(layout.STATE_BYTES) > get_word(layout.STATE_BYTES_LIMIT)
    if (grown or len(order) >= _limits["chunks"]) and not is_sweeping():
        look()
    _open(_new_slot())


def _close() -> None:
    """Leave no room in the current chunk, and write into its header how full it is."""
    set_word(layout.STATE_REFERENCE_END, 0)  # one word: from here on no thread finds room
    seal()


def _open(slot: int) -> None:
    """Let rows be written to a chunk from here on."""
    start = int(table[slot])
    references = start + _REFERENCES_AT
    rows = start + _ROWS_AT, references, slot << layout.ROWS_BITS
    words = np.array([*rows, start, references, start + layout.CHUNK_BYTES])
    _close()  # code that ran meanwhile, a finaliser say, may have opened another chunk
    # The list and the words are of one chunk at any moment. Python handles signals and switches
    # threads only at calls: there are none from here on.
    order[sys.maxsize :], STATE[_CHUNK_WORDS] = [slot], words


@once
def used_table() -> np.ndarray:
    """Per code: which values the partials read, which partials are zero, the kind of the row."""
    words = np.zeros(MOST_CODES, np.int64)
    for code, op in list(BY_CODE.items()):  # to which imports add
        words[code] = _used_word(op)
    return words


def _used_word(op) -> int:
    if not isinstance(op, Pointwise):
        return op.writes * layout.WRITE_BIT
    flat = sum(1 << j for j in range(len(op.inputs)) if j not in op.sloping)
    unit = sum(1 << j for j, sign in enumerate(op.signs) if sign == 1)
    partials = flat << layout.FLAT_SHIFT | unit << layout.UNIT_SHIFT
    return op.used | partials | layout.POINTWISE_BIT


def enter(op) -> None:
    """Register an operation that was declared after compiled code had started."""
    used_table()[op.code] = _used_word(op)


@functools.cache
def _reach() -> dict:
    return functions(liveness.SOURCE, liveness.EXPORTS, keep_lock=True)


def is_sweeping() -> bool:
    """Whether a sweep is active."""
    for key in abandoned(sweeping):
        sweeping.pop(key, None)
    return bool(sweeping)


def abandoned(entries: Mapping[int, tuple[object, int]]) -> list[int]:
    """Keys of entries that only their table refers to: an interrupt prevented their end."""
    return [key for key, count in _references(entries).items() if count <= _ALONE]


def _references(entries: Mapping[int, tuple[object, int]]) -> dict[int, int]:
    return {key: sys.getrefcount(entry[0]) for key, entry in list(entries.items())}


_ALONE = _references({0: (object(), 0)})[0]


@process.in_child
def _alone() -> None:
    """The sweeps of other threads never end."""
    for key, (_, thread) in list(sweeping.items()):
        if thread != threading.get_ident():
            del sweeping[key]


class NothingFreed:
    """A context in which nothing is freed, whatever other threads do."""

    def __enter__(self):
        with lock:
            sweeping[id(self)] = self, threading.get_ident()

    def __exit__(self, *_):
        sweeping.pop(id(self), None)


#: Called before chunks are freed, when no sweep is active.
before_look: list = []


def look() -> None:
    """Free what no live tensor depends on, except for the chunk that is being written."""
    global looks
    looks += 1
    with NothingFreed():  # a finaliser may record, and must not collect itself
        for prepare in before_look:
            prepare()
        _let_go()


def collect(rows: int = 0) -> None:
    """Free what no live tensor depends on, in the chunk that is being written too.

    It is for recordings whose results are programs or arrays: their rows, with the calls of NumPy
    that they hold, are of no more use, and few of them would wait very long for a look. Nothing is
    done in a large store, where a look takes time, or if the chunk has fewer than so many rows.
    """
    with lock:
        few = _next_row.value & (layout.ROWS - 1) < rows
        if few or not 0 < len(order) < FEWEST_CHUNKS or is_sweeping():
            return
        _close()
        look()
        _open(_new_slot())


def _let_go() -> None:
    current = order[-1] if order else -1
    compiled = _reach()
    retired = list(_retired)  # an input that another thread retires from here on may be read by now
    known = list(order)
    sequence = np.array(input_slots + known, np.int64)
    marks = Marks(max(chunks, default=0) + 1)
    compiled["reach"](
        table.ctypes.data,
        sequence.ctypes.data,
        len(sequence),
        marks.address,
        used_table().ctypes.data,
        current,
    )
    given = 0
    for slot in known:
        if slot == current:
            continue
        base = slot << layout.ROWS_BITS
        given += compiled["release_rows"](int(table[slot]), marks.address, base)
        if not marks.has(slot):
            order.remove(slot)
            _give_back(slot)
    given += _recycle_inputs(marks.rows, retired)
    held = max(0, get_word(layout.STATE_BYTES) - given)
    set_word(layout.STATE_BYTES, held)
    set_word(layout.STATE_BYTES_LIMIT, max(FEWEST_BYTES, 2 * held))
    _limits["chunks"] = max(FEWEST_CHUNKS, 2 * len(order))


def _give_back(slot: int) -> None:
    _count_change()
    attached.pop(slot, None)
    watched.pop(slot, None)
    memory = chunks[slot]
    table[slot] = 0
    chunks[slot] = memory[:0]
    _free_slots.append(slot)
    if len(_spare) < max(FEWEST_CHUNKS, len(order)):
        _spare.append(memory)
    else:
        mortal(memory)


# --- inputs -----------------------------------------------------------------------------------
# The tensors that a user makes with `requires_grad=True` live in chunks of their own, so that a
# parameter that stays for the whole program keeps no rows alive. Input k has reference k.

_free_inputs: list[int] = []
_retired: set[int] = set()  # inputs whose tensor is gone
_arrays: dict[int, np.ndarray] = {}
leaves: dict[int, weakref.ref] = {}  # id → the tensor


def new_input(array: np.ndarray) -> tuple[int, int]:
    """A row for an input; returns its id and the address of its chunk.

    `array` must be the owner that views of it name as their base.
    """
    with lock:
        if not _free_inputs:
            _make_inputs()
        number = _free_inputs.pop()
        slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
        memory, at = chunks[slot], _ROWS_AT + position * layout.ROW_BYTES
        memory[at : at + 16].view(np.int32)[:] = layout.LEAF, position, 1, 0
        memory[at + 16 : at + 24].view(np.int64)[0] = now()
        set_header(slot, layout.USED_ROWS, max(position + 1, word(slot, layout.USED_ROWS)))
        at = _REFERENCES_AT + position * layout.REFERENCE_BYTES
        memory[at : at + 8].view(np.int64)[0] = id(array)
        memory[at + 8 : at + 16].view(np.int32)[:] = number, layout.TAG_ARRAY
        _arrays[number] = array
        set_word(layout.STATE_BYTES, get_word(layout.STATE_BYTES) + array.nbytes)
        return number, int(table[slot])


def _make_inputs() -> None:
    if _retired and not is_sweeping():
        seal()
        look()
        if _free_inputs:
            return
    slot = _new_slot()
    input_slots.append(slot)
    chunks[slot][:_REFERENCES_AT] = 0
    base = slot << layout.ROWS_BITS
    _free_inputs.extend(range(base + layout.ROWS - 1, base - 1, -1))


def renew_input(tensor) -> tuple[int, int]:
    """Another row for an input about to be written: rows that have read the old one are stale.

    It stays if nothing can have read it, since no row has been appended after it was made.
    """
    number = tensor._id
    slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
    memory, at = chunks[slot], _ROWS_AT + position * layout.ROW_BYTES
    if memory[at + 16 : at + 24].view(np.int64)[0] == now():
        return number, int(table[slot])
    change_input(number)
    retire_input(number)
    return new_input(tensor._array)


def never_unread(number: int) -> None:
    """Have all writes of an input reported; compiled code writes unread inputs by itself."""
    slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
    at = _ROWS_AT + position * layout.ROW_BYTES + 16
    chunks[slot][at : at + 8].view(np.int64)[0] = -1


def change_input(number: int) -> None:
    """Note that an input is written: a sweep that reaches its row is refused."""
    global changes
    slot, position = number >> layout.ROWS_BITS, number & (layout.ROWS - 1)
    at = _ROWS_AT + position * layout.ROW_BYTES
    chunks[slot][at : at + 4].view(np.int32)[0] = layout.CHANGED
    chunks[slot][at + 16 : at + 24].view(np.int64)[0] = change_number(changes)
    changes += 1


def change_number(count: int) -> int:
    """The value of the row of an input that was written as number `count`; later ones are less."""
    return -2 - count  # `now()` is no negative number, and −1 has a meaning of its own


def retire_input(number: int) -> None:
    """Let an input go some time; rows that read it stay."""
    leaves.pop(number, None)
    _retired.add(number)


def watch(tensor, number: int) -> None:
    """Let the input go some time after its tensor dies."""

    # The call holds all that it needs: at the end of the process the module may be empty.
    gone = functools.partial(_gone, number, leaves, _retired)
    leaves[number] = weakref.ref(tensor, gone)


def _gone(number: int, known: dict, retired: set, _) -> None:
    known.pop(number, None)
    retired.add(number)


#: Of how many looks one finds inputs whose end an interrupt has kept secret.
_LOOKS_FOR_LOST = 16


def _references_to(arrays: Mapping[int, np.ndarray], number: int) -> int:
    """References to an array, those by local variables and arguments of calls too."""
    array = arrays[number]
    return sys.getrefcount(array)


#: References to an array that only one dictionary has.
_OWN = _references_to({0: np.empty(0)}, 0)


def _recycle_inputs(marks: np.ndarray, retired: list[int]) -> int:
    """Free the inputs that no row and no view needs; returns the number of bytes freed."""
    given = 0
    if not looks % _LOOKS_FOR_LOST:
        # Each in one step: threads and the collector change it, and `items` allocates pairs, which
        # may start the collector.
        for number in list(leaves):
            tensor = leaves.get(number)
            if tensor is not None and tensor() is None:  # an interrupt has prevented the notice
                retire_input(number)
    entries = owners = None  # how often arrays are those of inputs and of tensors: seldom needed
    for number in retired:
        if number not in _arrays:  # its end was told of twice
            _retired.discard(number)
            continue
        if marks[number]:
            continue
        others = _references_to(_arrays, number) - _OWN
        if others > 0:
            key = id(_arrays[number])
            if entries is None or owners is None:
                entries = collections.Counter(map(id, _arrays.values()))
                alive = list(leaves.values())
                owners = collections.Counter(id(t._array) for r in alive if (t := r()) is not None)
            if others > entries[key] - 1 + owners[key]:
                continue  # a view needs it
            entries[key] -= 1
        _retired.remove(number)  # first: an interrupt here only keeps the array
        given += _arrays.pop(number).nbytes
        _free_inputs.append(number)
        for rows in attached, watched:
            rows.get(number >> layout.ROWS_BITS, {}).pop(number, None)
    return given


def statistics() -> dict[str, int]:
    """Rows and bytes that the store holds now."""
    seal()
    return {
        "chunks": len(order),
        "rows": sum(word(slot, layout.USED_ROWS) for slot in order),
        "bytes": sum(len(memory) for memory in chunks.values()),
        "array_bytes": get_word(layout.STATE_BYTES),
        "inputs": len(leaves),
        "looks": looks,
    }

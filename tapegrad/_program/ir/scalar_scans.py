"""Traversals of operations on numbers for passes, compiled: a program may have millions.

A program has a word by slot, `stands`: 0 if the slot is unchanged, the slot that replaces it, or
UNREAD.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..._core.codegen.factory import functions
from ..._core.tape.sweeps import memory_of
from .scalars_step import Scalars

#: In `stands`: the slot is never read.
UNREAD = -1
#: The number of earlier operations remembered, a power of two: they must fit into the cache.
WINDOW = 1 << 12
#: The number of hashes of operations: enough that collisions are rare.
HASHES = 8 * WINDOW
#: Words of an operation that is remembered: operation, operands, slot of the result, the one before
#: with the same hash.
ENTRY = 6
#: Operands closer than this number of slots distinguish places in a loop.
NEAR = 64
#: The number of hashes by which surroundings are counted.
SURROUNDINGS = 1 << 16
#: Words of a traversal, byte offsets: a number unless said otherwise.
(
    COUNT,
    FIRST,
    OPS,  # the columns, int32; no third one where C is 0
    A,
    B,
    C,
    BY_SLOT,  # int32 or bytes, by slot
    SHIFTS,  # int32 by slot: how far it moves
    WISHED,  # bytes by operation
    HEADS,  # int32 by hash: the last one remembered
    RING,  # int32: those remembered
    REMEMBERED,  # the number so far
    COMMUTATIVE,  # bytes by operation
    TOTALS,  # int32 by hash of surroundings
    WISHES,  # the same
    SEEN,  # the same, three each: the replacement of the first, its distance, whether others differ
    OUT,  # columns that are written, int32, as many as are read
) = range(0, 8 * 17, 8)
_WORDS = 17 + 3

_NAMES = [f"{name} = {value}\n" for name, value in list(globals().items()) if name.isupper()]
#: The beginning of the text of all traversals.
HEAD = (
    "".join(_NAMES)
    + '''
from tapegrad._core.codegen.intrinsics import helper, i32s, load_i64, store_i64, u8s


@helper
def third(w, k):
    """The third operand of operation k."""
    return i32s(load_i64(w, C))[k] if load_i64(w, C) != 0 else -1


'''
)
_SOURCE = (
    HEAD
    + '''@helper
def is_known(known, slot):
    return slot < 0 or known[slot] != 0


def know(w):
    """Mark results of operations whose operands are known, and wish for them."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    known, wished, first = u8s(load_i64(w, BY_SLOT)), u8s(load_i64(w, WISHED)), load_i64(w, FIRST)
    found = 0
    for k in range(load_i64(w, COUNT)):
        if op[k] != 0 and is_known(known, a[k]) and is_known(known, b[k]):
            if is_known(known, third(w, k)):
                known[first + k] = wished[k] = 1
                found += 1
    return found


def read(w):
    """Mark what operations read whose results are read, last one first; wish for the others."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    marks, wished, first = u8s(load_i64(w, BY_SLOT)), u8s(load_i64(w, WISHED)), load_i64(w, FIRST)
    found = 0
    for j in range(load_i64(w, COUNT)):
        k = load_i64(w, COUNT) - 1 - j
        if op[k] != 0 and marks[first + k] == 0:
            wished[k] = 1
            found += 1
            continue
        c = third(w, k)
        marks[a[k]] = 1
        if b[k] >= 0:
            marks[b[k]] = 1
        if c >= 0:
            marks[c] = 1
    return found


@helper
def stand_in(stands, slot):
    return stands[slot] if slot >= 0 and stands[slot] > 0 else slot


@helper
def remembered(heads, ring, count, h, op, a, b, c):
    """Where an operation is remembered; −1 if it is not."""
    i = heads[h]
    while i >= 0 and i >= count - WINDOW:
        at = (i & (WINDOW - 1)) * ENTRY
        if ring[at] == op and ring[at + 1] == a and ring[at + 2] == b and ring[at + 3] == c:
            return i
        i = ring[at + 5]
    return -1


def number(w):
    """Let operations that are remembered stand for later ones, and wish for that."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    c, has_c = i32s(load_i64(w, C)), load_i64(w, C) != 0
    stands, wished, first = i32s(load_i64(w, BY_SLOT)), u8s(load_i64(w, WISHED)), load_i64(w, FIRST)
    heads, ring, count = i32s(load_i64(w, HEADS)), i32s(load_i64(w, RING)), load_i64(w, REMEMBERED)
    commutative, found = u8s(load_i64(w, COMMUTATIVE)), 0
    for k in range(load_i64(w, COUNT)):
        code = op[k]
        if code == 0:
            continue
        x, y, z = stand_in(stands, a[k]), stand_in(stands, b[k]), -1
        if has_c:
            z = stand_in(stands, c[k])
        if commutative[code] != 0:
            x, y = min(x, y), max(x, y)
        h = (x * 0x9E3779B97F4A7C1 + y * 0x2545F4914F6CDD1D + z * 0x632BE59BD9B4E019 + code * 0x51)
        h = ((h ^ (h >> 29)) * 0x9E3779B97F4A7C1 >> 40) & (HASHES - 1)
        i, slot = remembered(heads, ring, count, h, code, x, y, z), first + k
        if i >= 0:
            slot = ring[(i & (WINDOW - 1)) * ENTRY + 4]
            stands[first + k] = slot
            wished[k] = 1
            found += 1
        if i < 0 or count - i > WINDOW // 2:
            at = (count & (WINDOW - 1)) * ENTRY
            ring[at], ring[at + 1], ring[at + 2], ring[at + 3] = code, x, y, z
            ring[at + 4], ring[at + 5] = slot, heads[h]
            heads[h] = count
            count += 1
    store_i64(w, REMEMBERED, count)
    return found


@helper
def near(first, k, operand):
    """How far back an operand is among the results of the step, 0 if it is far."""
    back = first + k - operand
    return back if operand >= first and 0 < back < NEAR else 0


@helper
def gone_on(surroundings, first, k, op, a, b):
    """The last eight operations and their operands, where they are near, one operation on."""
    return (surroundings << 8) ^ op ^ (near(first, k, a) << 12) ^ (near(first, k, b) << 18)


@helper
def place_of(surroundings):
    return (surroundings * 0x9E3779B97F4A7C1 >> 40) & (SURROUNDINGS - 1)


def survey(w):
    """Count operations by their surroundings, and those that are wished for."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    wished, first = u8s(load_i64(w, WISHED)), load_i64(w, FIRST)
    stands, totals = i32s(load_i64(w, BY_SLOT)), i32s(load_i64(w, TOTALS))
    wishes, seen = i32s(load_i64(w, WISHES)), i32s(load_i64(w, SEEN))
    surroundings = 0
    for k in range(load_i64(w, COUNT)):
        surroundings = gone_on(surroundings, first, k, op[k], a[k], b[k])
        h = place_of(surroundings)
        totals[h] += 1
        if wished[k] != 0:
            other = stands[first + k] if load_i64(w, BY_SLOT) != 0 else 0
            away = first + k - other
            if wishes[h] == 0:
                seen[3 * h], seen[3 * h + 1] = other, away
            elif seen[3 * h] != other and seen[3 * h + 1] != away:
                seen[3 * h + 2] = 1
            wishes[h] += 1
    return 0


def select(w, few):
    """Wish only where all in the same surroundings but one are wished for, or few there are."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    wished, first = u8s(load_i64(w, WISHED)), load_i64(w, FIRST)
    totals, wishes = i32s(load_i64(w, TOTALS)), i32s(load_i64(w, WISHES))
    seen, surroundings, found = i32s(load_i64(w, SEEN)), 0, 0
    for k in range(load_i64(w, COUNT)):
        surroundings = gone_on(surroundings, first, k, op[k], a[k], b[k])
        if wished[k] != 0:
            h = place_of(surroundings)
            alike = seen[3 * h + 2] == 0 and wishes[h] >= totals[h] - 1
            wished[k] = alike or totals[h] <= few
            found += wished[k]
    return found


def place(stand, to, count):
    """Write where slots go: those that stay, and those for which one stands that stays."""
    stands, places, left = i32s(stand), i32s(to), -1
    for slot in range(count):
        left += stands[slot] == 0
        places[slot] = left
    for slot in range(count):
        if stands[slot] > 0:
            places[slot] = places[stands[slot]]
    return 0


def keep(w):
    """Write the columns without the operations whose slots do not stay, with slots by place."""
    stands, first, count = i32s(load_i64(w, BY_SLOT)), load_i64(w, FIRST), load_i64(w, COUNT)
    shifts, left = i32s(load_i64(w, SHIFTS)), 0
    for column in range(4):
        given = load_i64(w, OPS + 8 * column)
        if given == 0:
            continue
        source, target, left = i32s(given), i32s(load_i64(w, OUT + 8 * column)), 0
        for k in range(count):
            if stands[first + k] == 0:
                x = source[k]
                target[left] = x if column == 0 or x < 0 else x + shifts[x]
                left += 1
    return left
'''
)
#: Functions that are compiled together, since they are needed together, and their numbers of
#: arguments.
_GROUPS = {"read": 1, "number": 1}, {"know": 1}, {"survey": 1, "select": 2}, {"place": 3, "keep": 1}


#: Up to this number operations in the same surroundings are judged one by one.
FEW = 8


@functools.cache
def _compiled(name: str) -> Callable[..., int]:
    """A compiled traversal, callable."""
    group = next(group for group in _GROUPS if name in group)
    return functions(_SOURCE, group, keep_lock=False)[name]


class Scan:
    """Traversals of the steps of a program that share what `arrays`, by word, hold."""

    def __init__(self, arrays: dict[int, np.ndarray], compiled=_compiled):
        self._compiled = compiled
        words = np.zeros(_WORDS, np.int64)
        self._words, self._address = words.data, memory_of(words)
        self._keep = arrays
        for word, array in arrays.items():
            self._words[word // 8] = memory_of(array)

    def __call__(self, name: str, step: Scalars, arrays: dict[int, np.ndarray], *numbers) -> int:
        """The result of the traversal `name` of a step."""
        words = self._words
        words[COUNT // 8], words[FIRST // 8] = len(step.op), step.first
        words[OPS // 8], words[A // 8], words[B // 8], words[C // 8] = step.addresses
        for word, array in arrays.items():
            words[word // 8] = memory_of(array)
        return self._compiled(name)(self._address, *numbers)


def places_after(stands: np.ndarray) -> np.ndarray:
    """The new places of slots after others are removed."""
    places = np.empty(len(stands), np.int32)
    _compiled("place")(stands.ctypes.data, places.ctypes.data, len(stands))
    return places


def settle_wishes(
    steps: list[Scalars], wishes: list[np.ndarray], stands: np.ndarray | None = None
) -> bool:
    """Keep marks in `WISHED` only if loops stay regular; returns whether any are left.

    `WISHED` marks operations to be removed. Native code finds loops by iterations that are alike.
    If an operation were removed in some of them only (because a constant happens to be 1 there, or
    two are equal), the loop would not be found. So it is removed only if all after the same
    operations are, with one exception: a value that is constant in a loop is computed in the first
    iteration. And if other results replace them, it must be the same for all, or one at the same
    distance.
    """
    if not any(wished.any() for wished in wishes):
        return False
    totals, counted = (np.zeros(SURROUNDINGS, np.int32) for _ in range(2))
    arrays = {TOTALS: totals, WISHES: counted, SEEN: np.zeros(3 * SURROUNDINGS, np.int32)}
    scan = Scan(arrays if stands is None else arrays | {BY_SLOT: stands})
    for step, wished in zip(steps, wishes, strict=True):
        scan("survey", step, {WISHED: wished})
    left = [
        scan("select", step, {WISHED: wished}, FEW)
        for step, wished in zip(steps, wishes, strict=True)
    ]
    return any(left)

"""Compiled traversals that find long sums among operations on numbers, and regular places."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..._core.codegen.factory import functions
from ..._core.ops.table import TABLE
from ..ir import scalar_scans

#: In these traversals: how many additions end with an operation, int32; marks of operations, bytes.
LENGTHS, GOES_ON = scalar_scans.HEADS, scalar_scans.WISHED
#: Results, int32: terms, which of them are subtracted, sums. Bytes by slot: 1 where it is read,
#: more for constants.
TERMS, MINUS, SUMS, USED = (
    scalar_scans.OUT,
    scalar_scans.SEEN,
    scalar_scans.SHIFTS,
    scalar_scans.RING,
)
#: Operations that add their second operand to their first, and subtract it.
_ADD, _SUBTRACT = TABLE["add"].code, TABLE["subtract"].code

_NAMES = ("LENGTHS", "GOES_ON", "TERMS", "MINUS", "SUMS", "USED", "_ADD", "_SUBTRACT")
_SOURCE = (
    scalar_scans.HEAD
    + "".join(f"{name} = {globals()[name]}\n" for name in _NAMES)
    + '''

@helper
def count_read(reads, slot):
    if slot >= 0:
        reads[slot] += reads[slot] < 2


def count(w):
    """Count how often operations read slots: once or more often."""
    a, b, reads = i32s(load_i64(w, A)), i32s(load_i64(w, B)), u8s(load_i64(w, BY_SLOT))
    c, n, has_c = i32s(load_i64(w, C)), load_i64(w, COUNT), load_i64(w, C) != 0
    for k in range(n):
        count_read(reads, a[k])
        count_read(reads, b[k])
        if has_c:
            count_read(reads, c[k])
    return 0


@helper
def length_at(lengths, reads, first, n, slot):
    """How many additions one after the other end in a slot that only the next one reads."""
    k = slot - first
    return lengths[k] if 0 <= k and k < n and reads[slot] == 1 else 0


@helper
def goes_on_with(lengths, reads, first, n, op, x, y):
    """Which operand is the sum that an addition or subtraction goes on with, and its length."""
    at_x, at_y = length_at(lengths, reads, first, n, x), length_at(lengths, reads, first, n, y)
    return (y, at_y) if op == _ADD and at_y > at_x else (x, at_x)


def chain(w, least, most):
    """Write where so many additions one after the other end at least; returns how many such there
    are, no further counted than one too many."""
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    lengths, reads = i32s(load_i64(w, LENGTHS)), u8s(load_i64(w, BY_SLOT))
    goes_on, ends = u8s(load_i64(w, GOES_ON)), i32s(load_i64(w, OUT))
    first, n, longest, found = load_i64(w, FIRST), load_i64(w, COUNT), 0, 0
    for k in range(n):
        lengths[k] = 0
        if op[k] == _ADD or op[k] == _SUBTRACT:
            x, before = goes_on_with(lengths, reads, first, n, op[k], a[k], b[k])
            lengths[k] = before + 1
            longest = max(longest, before + 1)
            if before > 0:
                goes_on[x - first] = 1
    if longest < least:
        return 0
    for k in range(n):
        if lengths[k] >= least and goes_on[k] == 0:
            if found == most:
                return most + 1
            ends[found] = k
            found += 1
    return found


@helper
def use(used, slot):
    if slot >= 0:
        used[slot] |= 1


def unchain(w, end):
    """Write terms and results of the additions that end at one; returns which operation reads it.

    −1: before that one, something else reads a term after it is added. The adjoint of the term is
    a sum, which would be taken in another order.
    """
    op, a, b = i32s(load_i64(w, OPS)), i32s(load_i64(w, A)), i32s(load_i64(w, B))
    lengths, reads = i32s(load_i64(w, LENGTHS)), u8s(load_i64(w, BY_SLOT))
    terms, sums, used = i32s(load_i64(w, TERMS)), i32s(load_i64(w, SUMS)), u8s(load_i64(w, USED))
    minus = i32s(load_i64(w, MINUS))
    first, n, reader, left = load_i64(w, FIRST), load_i64(w, COUNT), end + 1, lengths[end]
    last = first + end
    while reader < n and a[reader] != last and b[reader] != last and third(w, reader) != last:
        reader += 1
    k, has_c = reader, load_i64(w, C) != 0
    while left > 0:
        k -= 1
        if k == end:
            x, _ = goes_on_with(lengths, reads, first, n, op[k], a[k], b[k])
            y = a[k] + b[k] - x
            terms[left], terms[left - 1], sums[left - 1] = y, x, first + k
            minus[left], minus[left - 1] = op[k] == _SUBTRACT, 0
            if used[y] == 1 or (left == 1 and used[x] == 1):
                return -1
            left, end = left - 1, x - first
        elif op[k] != 0:
            use(used, a[k])
            use(used, b[k])
            if has_c:
                use(used, third(w, k))
    return reader


@helper
def goes_along(rows, count, distant, equal, at, k):
    """Whether number k of each row is as far from the last as the one after `at`, or equal."""
    for row in range(distant):
        x = row * count
        if rows[x + k] - rows[x + k - 1] != rows[x + at + 1] - rows[x + at]:
            return False
    for row in range(distant, distant + equal):
        if rows[row * count + k] != rows[row * count + at]:
            return False
    return True


def runs(table, to, count, distant, equal):
    """Write where runs begin; returns how many there are."""
    rows, starts, at, found = i32s(table), i32s(to), 0, 0
    while at < count:
        stop = at + 1
        while stop < count and goes_along(rows, count, distant, equal, at, stop):
            stop += 1
        if at == 0 and stop == 2:
            stop = 1
        starts[found] = at
        found += 1
        at = stop
    return found
'''
)
_EXPORTS = {"count": 1, "chain": 3, "unchain": 2, "runs": 5}


@functools.cache
def compiled(name: str) -> Callable[..., int]:
    """A compiled traversal, callable; the search for something to do is compiled separately."""
    group = [one for one in ("count", "chain") if name in ("count", "chain")]
    return functions(_SOURCE, {one: _EXPORTS[one] for one in group or [name]}, False)[name]


def runs(distant: list[np.ndarray], equal: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Where neighbours have one distance in all of the first and are equal in all of the others.

    Gives the first of each run and the number in it. The first of a pair is alone if it is the
    first of all: the initial value of a sum is no term.
    """
    table = np.stack([*distant, *equal]).astype(np.int32, copy=False)
    starts = np.empty(table.shape[1], np.int32)
    sizes = len(starts), len(distant), len(equal)
    starts = starts[: compiled("runs")(table.ctypes.data, starts.ctypes.data, *sizes)]
    return starts, np.diff(starts, append=np.int32(table.shape[1]))

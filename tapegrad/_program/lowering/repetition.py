"""Loops of recordings: rows that repeat, of which few iterations need be converted.

A loop over arrays records the same rows in every iteration: the same operations on arrays of the
same shapes, which read rows at the same distances, or the same rows, or constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..._core.codegen import layout
from ..._core.codegen.layout import ARRAY
from ..._core.ops.opaque_call import COMPUTED
from ..._core.ops.table import TABLE
from . import tape_scan
from .equal_operands import Constants, EqualOperands, Values
from .row_columns import RowColumns
from .tape_rows import Rows

#: A loop has at least so many iterations, and is half of a recording of so many rows of arrays.
LEAST, MANY = 24, 150
#: Lengths of iterations that are tried.
TRIES = 64
#: Iterations that are converted at the beginning and at the end, besides those that others read.
BEGIN, END = 5, 3
_REFUSED = [COMPUTED.code, *[TABLE[name].code for name in ("function", "convert")]]


class Loop:
    """Rows that repeat: iteration k has `length` of the needed rows, from start + k·length on.

    Of `count` iterations the first `before` and the last `after` are converted; rows are read by
    those up to `lag` iterations later. `constants` are what differs between iterations.
    """

    def __init__(self, places: np.ndarray, start: int, length: int, count: int):
        self.places, self.start, self.length, self.count = places, start, length, count
        self.lag = self.before = self.after = 0
        self.constants = Constants()

    @property
    def stop(self) -> int:
        return self.start + self.count * self.length

    @property
    def left_out(self) -> int:
        return self.count - self.before - self.after

    def converted(self) -> list[int]:
        """The iterations that are converted."""
        return [*range(self.before), *range(self.count - self.after, self.count)]


def periods_of(tokens: np.ndarray, middle: int, least: int) -> Iterator[tuple[int, int, int]]:
    """Start, length and number of what repeats around a place of a sequence, short ones first."""
    size = len(tokens)
    lengths = np.flatnonzero(tokens[middle + 1 :] == tokens[middle]) + 1
    for length in lengths[:TRIES].tolist():
        if least * length > size:
            break
        breaks = np.flatnonzero(tokens[:-length] != tokens[length:])
        k = int(np.searchsorted(breaks, middle))
        start = int(breaks[k - 1]) + 1 if k else 0
        stop = int(breaks[k]) if k < len(breaks) else size - length
        count = (stop - start) // length + 1
        if count >= least:
            yield start, length, count


def find(
    rows: Rows,
    guards: Iterable[int],
    results: list[int],
    values: Values,
    dtype: np.dtype,
) -> Loop | None:
    """The loop of a recording, if one is most of it and worth it.

    `guards` are places before which values were read, `results` the rows that are read afterwards.
    Floats are of one dtype.
    """
    if rows[tape_scan.ARRAYS] < MANY:
        return None
    columns = RowColumns(rows)
    tokens = columns.tokens()
    for found in periods_of(tokens, len(tokens) // 2, LEAST):
        loop = Loop(columns.places, *found)
        if 2 * loop.count * loop.length >= len(tokens):
            finder = _Finder(columns, loop)
            is_one = finder.is_loop(guards, results)
            return loop if is_one and finder.operands.are_equal(values, dtype) else None
    return None


class _Finder:
    """Looks whether rows of equal operations are iterations of a loop."""

    def __init__(self, columns: RowColumns, loop: Loop):
        self.columns, self.loop = columns, loop

    def is_loop(self, guards: Iterable[int], results: list[int]) -> bool:
        """Whether iterations read each other at fixed distances, and nothing else reads most."""
        columns, loop = self.columns, self.loop
        op = columns.op[loop.start : loop.start + loop.length]
        if (op == layout.LEAF).any() or np.isin(op - ARRAY, _REFUSED).any():
            return False
        self.operands = EqualOperands(columns, loop)
        if not self._read_evenly():
            return False
        begin = columns.places[loop.start]
        last = loop.stop < len(columns.places)
        end = columns.places[loop.stop] if last else len(columns.ordinals)
        if any(begin < at < end for at in guards):
            return False
        loop.before = loop.lag + BEGIN
        loop.after = max(loop.lag + END, self._read_later(results))
        return loop.left_out >= loop.before + loop.after

    def _read_evenly(self) -> bool:
        """Whether iterations read rows at the same distances; first ones that do not are left."""
        columns, loop = self.columns, self.loop
        given = self.operands.ids()
        targets = columns.targets(given)
        if ((given >= 0) & (targets < 0)).any():
            return False
        moves = np.diff(targets, axis=0)
        if not np.isin(moves[-1], (0, loop.length)).all():
            return False
        other = np.flatnonzero((moves != moves[-1]).any(1))
        left = int(other[-1]) + 1 if len(other) else 0
        numbers = (
            targets[-1] - loop.start
        ) // loop.length  # the iterations that the last one reads
        is_fixed = moves[-1] == 0
        left = max(left, int(numbers[is_fixed].max(initial=-1)) + 1)
        loop.lag = loop.count - 1 - int(numbers[~is_fixed].min(initial=loop.count - 1))
        left += loop.lag  # so that what they read is in the loop, too
        if loop.count - left < LEAST:
            return False
        self.operands.leave(left)
        loop.start += left * loop.length
        loop.count -= left
        return True

    def _read_later(self, results: list[int]) -> int:
        """How many of the last iterations are read after the loop."""
        columns, loop = self.columns, self.loop
        ids = [column[loop.stop :] for column in columns.operands()]
        ids += [np.array(results, np.int64)]
        ids += [columns.references(loop.stop, len(columns.places)).table["id"].astype(np.int64)]
        targets = columns.targets(np.concatenate(ids))
        inside = targets[(targets >= loop.start) & (targets < loop.stop)]
        first = int(inside.min(initial=loop.stop - 1))
        return loop.count - (first - loop.start) // loop.length

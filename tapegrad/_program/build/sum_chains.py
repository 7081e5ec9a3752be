"""Long sums that a program adds up number by number are one step, in the same order.

The partial sums are not stored then, and in reverse all terms get their adjoint at once. Values and
adjoints are the same to the bit. This is for interpreted programs: native code carries a sum in a
register, along with what it adds up.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..._core.ops import ordering as _declaration  # noqa: F401
from ..._core.ops.table import PASSED, TABLE
from ..ir.kernel_step import Kernel
from ..ir.rewriting import merged
from ..ir.scalar_scans import BY_SLOT, UNREAD, Scan, places_after
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Code, Step, View, contiguous
from ..ir.uses import Wanted
from . import sum_chain_scans as scans

#: Fewer additions do not justify a step of their own.
LEAST = 256
#: More sums are left alone: they are in a loop, and native code would find many pieces of it.
MOST = 4
#: More views of the terms are not worth it.
PIECES = 16
_ADDING = [TABLE[name].code for name in ("add", "subtract")]
_SUM = PASSED["sum_in_order"].code
#: The number of reads of a slot, where that is not counted: often; by views, which may see others
#: too.
_OFTEN, _SEEN = 2, 3


class Chain(NamedTuple):
    """Consecutive additions of a step: what they add or subtract, and the reader of the last."""

    step: int
    terms: np.ndarray
    minus: np.ndarray
    sums: np.ndarray
    reader: int


def sum_chains(code: Code) -> Code:
    """The program with a step for each long sum; one whose arrays share slots stays as it is."""
    found = [] if code.clears else _chains(code)
    while found:
        stands = np.zeros(code.slots + len(found), np.int32)
        for k, chain in enumerate(found):
            stands[chain.sums] = UNREAD
            stands[chain.sums[-1]] = code.slots + k
        places = places_after(stands)
        pieces = [_pieces(chain, places) for chain in found]
        if all(pieces):
            return merged(_with_sums(code, found, pieces), stands, together=True)
        found = [chain for chain, views in zip(found, pieces, strict=True) if views]
    return code


def _chains(code: Code) -> list[Chain]:
    """The long sums that can be taken out, if they are few."""
    numbers = code.of(Scalars)
    if all(sum(np.count_nonzero(s.op == op) for op in _ADDING) < LEAST for s in numbers.values()):
        return []
    reads = _read_elsewhere(code)
    scan = Scan({BY_SLOT: reads}, scans.compiled)
    for step in numbers.values():
        scan("count", step, {})
    found: list[Chain] = []
    constant = 2 * Wanted(code).constant.astype(np.uint8)
    for k, step in numbers.items():
        lengths, ends = np.zeros(len(step.op), np.int32), np.zeros(MOST, np.int32)
        goes_on = np.zeros(len(step.op), np.uint8)
        arrays: dict[int, np.ndarray] = {
            scans.LENGTHS: lengths,
            scans.GOES_ON: goes_on,
            scans.TERMS: ends,
        }
        count = scan("chain", step, arrays, LEAST, MOST)
        if count + len(found) > MOST:
            return []
        for end in ends[:count].tolist():
            if reads[step.first + end] != _SEEN:
                found += _chain(k, step, end, lengths, constant, scan)
    return found


def _chain(k: int, step: Scalars, end: int, lengths, constant, scan) -> list[Chain]:
    """The sum that ends with an operation, if it can be extracted."""
    terms, minus, sums = (np.zeros(lengths[end] + more, np.int32) for more in (1, 1, 0))
    arrays = {scans.TERMS: terms, scans.MINUS: minus, scans.SUMS: sums}
    marks = {scans.LENGTHS: lengths, scans.USED: constant.copy()}
    reader = scan("unchain", step, arrays | marks, end)
    return [Chain(k, terms, minus, sums, reader)] if reader >= 0 else []


def _read_elsewhere(code: Code) -> np.ndarray:
    """The kinds of reads of slots by steps that are no operations on numbers."""
    reads = np.zeros(code.slots, np.uint8)
    others = code.whole_steps
    views = [view for step in others for view in step.views_read]
    for view in (*views, *[output.view for output in code.outputs]):
        if view.base == ARENA and view.size:
            seen = reads[slice(*view.extent)]
            np.maximum(seen, _SEEN if view.size > 1 else _OFTEN, out=seen)
    for slots in [slots for step in others for slots in step.slots_read]:
        reads[slots] = np.maximum(reads[slots], _OFTEN)
    return reads


def _pieces(chain: Chain, places: np.ndarray) -> list:
    """The terms in order as views that remain views without the sums; none if too many.

    A number comes before them, whose bits say which are subtracted.
    """
    terms = chain.terms
    starts, counts = scans.runs([terms, places[terms]], [chain.minus])
    first = terms[starts]
    strides = np.where(counts > 1, terms[starts + (counts > 1)] - first, 0)
    rows, many = scans.runs([first, places[first]], [counts, strides, chain.minus[starts]])
    if len(rows) > PIECES:
        return []
    away = np.where(many > 1, first[rows + (many > 1)] - first[rows], 0)
    table = np.stack((first[rows], many, counts[rows], away, strides[rows]), 1).tolist()
    views = [
        View(offset, (m, n), (far, near)) if m > 1 else View(offset, (n,), (near,))
        for offset, m, n, far, near in table
    ]
    return [int(np.dot(chain.minus[starts[rows]], 1 << np.arange(len(rows)))), *views]


def _with_sums(code: Code, found: list[Chain], pieces: list[list]) -> Code:
    """The program with a step that adds up the terms before what reads each sum."""
    split: dict[int, list[Step]] = {}
    for k, step in code.of(Scalars).items():
        split[k], at = [], 0
        mine = [number for number, chain in enumerate(found) if chain.step == k]
        for number in sorted(mine, key=lambda number: found[number].reader):
            stop, out = found[number].reader, contiguous(code.slots + number, (1,))
            split[k] += [*_part(step, at, stop), Kernel(_SUM, pieces[number], out)]
            at = stop
        split[k] += _part(step, at, len(step.op))
    steps = [made for k, step in enumerate(code.steps) for made in split.get(k, [step])]
    return dataclasses.replace(code, slots=code.slots + len(found), steps=steps)


def _part(step: Scalars, start: int, stop: int) -> list[Step]:
    """Operations of a step, if there are any."""
    return [step.cut(start, stop)] if start < stop else []

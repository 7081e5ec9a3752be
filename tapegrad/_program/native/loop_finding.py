"""Periodic regions of a `Scalars` step as a tree of loops.

Short periods are found first (see `period_search`). A loop found becomes one element of a shorter
sequence, in which outer loops are found in the same manner, until nothing repeats.
"""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from ..._core.codegen.factory import functions, once
from ..ir.scalars_step import Scalars
from .period_search import LONGEST, SOURCE, UNROLLED

#: Tokens that are hashed where candidates for periods are looked for: of operations, of loops.
_WIDTHS = 6, 2


@dataclasses.dataclass(eq=False)
class Loop:
    """Operations start to start + count · length; `loops` are those inside of iteration 0."""

    start: int
    length: int
    count: int
    loops: list[Loop]

    @property
    def stop(self) -> int:
        return self.start + self.length * self.count

    @property
    def body(self) -> int:
        """The number of operations in its text."""
        return self.length - sum(x.count * x.length - x.body for x in self.loops)

    def __str__(self) -> str:
        inner = "".join(f", inside: {x}" for x in self.loops)
        return f"loop of {self.count} x {self.length} operations{inner}"


@dataclasses.dataclass
class _Elements:
    """A sequence as `period_search` reads it; `loops` are those among its elements, by element."""

    starts: np.ndarray
    tokens: np.ndarray
    loops: dict[int, Loop]


def find_loops(step: Scalars, known: np.ndarray) -> list[Loop]:
    """The outermost loops of a step, in order. `known` says which slots are constants."""
    n = len(step.op)
    elements = _Elements(np.arange(n + 1, dtype=np.int64), step.op.astype(np.int64), {})
    finder = _Finder(step, known)
    while any([finder.roll(elements, irregular) for irregular in (False, True)]):
        pass
    return [elements.loops[e] for e in sorted(elements.loops)]


class _Finder:
    """Finds loops in sequences of elements of one step."""

    def __init__(self, step: Scalars, known: np.ndarray):
        n = len(step.op)
        self.step, self.known = step, np.ascontiguousarray(known, np.uint8)
        operands = [step.a, step.b, step.c if len(step.c) else np.full(n, -1, np.int32)]
        self.operands = [np.ascontiguousarray(x, np.int32) for x in operands]
        self.slots = np.array([x.ctypes.data for x in self.operands])
        self.names: dict[tuple, int] = {}

    def roll(self, elements: _Elements, irregular: bool) -> bool:
        """Make elements that repeat loops, until nothing more is found; returns whether any was."""
        any_found = False
        while len(found := self._find(elements, irregular)):
            _replace(elements, found, self._name)
            any_found = True
        return any_found

    def _find(self, elements: _Elements, irregular: bool) -> np.ndarray:
        n, m = len(self.step.op), len(elements.tokens)
        size = 1 << max(4, (4 * m).bit_length())
        heads, following, bad = _words(size), _words(m), np.full(LONGEST + 1, -1)
        reach, live, out = _words(n + 2), _words(n + 2), _words(3 * m + 3)
        width = _WIDTHS[bool(elements.loops)]
        words = [m, width, self.step.first, n, irregular, size]
        arrays = [elements.starts, elements.tokens, self.known, self.slots]
        arrays += [heads, following, bad, reach, live, out]
        arguments = np.array([*words, *[x.ctypes.data for x in arrays]], np.int64)
        count = _compiled()(arguments.ctypes.data)
        return out[: 3 * count].reshape(-1, 3)

    def _name(self, tokens: np.ndarray, count: int) -> int:
        """The token of a loop: equal for equal bodies and counts."""
        key = tokens.tobytes(), count
        return self.names.setdefault(key, 1 << 20 | len(self.names))


def _words(count: int) -> np.ndarray:
    return np.empty(count, np.int64)


@once
def _compiled():
    """`periods.find_loops`, callable."""
    return functions(SOURCE, {"find": 1}, keep_lock=False)["find"]


def _replace(elements: _Elements, found: np.ndarray, name) -> None:
    """Put each loop found in the place of its elements."""
    keep = np.ones(len(elements.tokens), bool)
    places, loops = sorted(elements.loops), dict(elements.loops)
    for e, p, count in found.tolist():
        stop = e + p * count
        inside = places[bisect.bisect_left(places, e) : bisect.bisect_left(places, stop)]
        inner = [loops.pop(j) for j in inside if j < e + p]
        for j in inside[len(inner) :]:
            del loops[j]
        start, length = int(elements.starts[e]), int(elements.starts[e + p] - elements.starts[e])
        inner = [x for x in inner if x.count * x.length > UNROLLED]
        loops[e] = Loop(start, length, count, inner)
        keep[e + 1 : stop] = False
        elements.tokens[e] = name(elements.tokens[e : e + p], count)
    place = np.cumsum(keep) - 1
    elements.loops = {int(place[e]): loop for e, loop in loops.items()}
    elements.tokens = elements.tokens[keep]
    elements.starts = elements.starts[np.append(keep, True)]

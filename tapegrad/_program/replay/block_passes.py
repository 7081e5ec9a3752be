"""A pass over an element-wise step: words and calls, then the data of a part.

The kind of a word can be given before its address is known: a place in an arena, a block buffer,
the axes of a view. `part` gives buffers that are never alive together the same memory, and writes
everything down as `block_calls` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.layout import BLOCK, CACHE_LINE
from ..ir.blocks import LINE, ONE, SCATTERED, Cut, covering
from ..ir.steps import View
from . import block_calls, run_layout
from .parts import Part

VALUES, ADJOINTS = run_layout.RUN_VALUE_BASES, run_layout.RUN_ADJOINT_BASES
#: The limit of bytes of block buffers in use at once: beyond it blocks are shorter, so that the
#: data of a block stay in the processor's second cache.
NEAR = 1 << 17
#: The least that blocks are shortened to for that.
SHORT = 128
#: Elements of a block that needs no buffers.
LONG = 1 << 14


class Place:
    """The address of a view in this block, on one side (VALUES, ADJOINTS); it moves if `moves`."""

    def __init__(self, view: View, side: int, moves: bool):
        self.view, self.side, self.moves = view, side, moves


class Axes:
    """The address of a shape and strides, counted in elements."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]):
        self.shape, self.strides = shape, strides


class Buffer:
    """Memory for a block. Of a `lasting` one the contents stay from block to block."""

    def __init__(self, lasting: bool = False):
        self.lasting = lasting


class Number:
    """Memory for one number that a block gives."""


class Mark(NamedTuple):
    """A word that is neither: FRAME, what `strided` takes for a frame; START, of the block."""

    origin: int
    step: int


FRAME, START = Mark(block_calls.SCRATCH, 0), Mark(block_calls.NOTHING, 1)
Word = Place | Axes | Buffer | Number | Mark
Call = tuple[int, Sequence[Word]]


class Pass:
    """The calls of one pass over a step, in order; elements have `item` bytes.

    Words are told apart by identity: there is one for a place, and one for the axes of a view.
    """

    def __init__(self, cut: Cut, item: int):
        self.cut, self.item = cut, item
        self.first: list[Call] = []
        self.once: list[Call] = []
        self.each: list[Call] = []
        self.functions = block_calls.compiled(item)
        self._read: dict[tuple[View, int, bool], Word] = {}
        self._places: dict[tuple[View, int], Place] = {}
        self._axes: dict[tuple, Axes] = {}

    def call(self, function: str | int, *words: Word) -> None:
        address = self.functions[function] if isinstance(function, str) else function
        self.each.append((address, words))

    def place(self, view: View, side: int) -> Place:
        key = (view, side)
        if key not in self._places:
            self._places[key] = Place(view, side, self.cut.way(view) == LINE)
        return self._places[key]

    def read(self, view: View, side: int, whole: bool) -> Word:
        """The elements of a view as a contiguous block; one of them for all only if not `whole`."""
        key = (view, side, whole)
        if key not in self._read:
            self._read[key] = self._fetch(view, side, whole)
        return self._read[key]

    def _fetch(self, view: View, side: int, whole: bool) -> Word:
        way, place = self.cut.way(view), self.place(view, side)
        if way == LINE or way == ONE and not whole:
            return place
        block = Buffer(lasting=way == ONE)
        if way == ONE:
            self.once.append((self.functions["fill"], (place, block)))
        else:
            self.call("take", FRAME, self._inner(view), START, place, block)
        return block

    def deliver(self, source: Word, view: View, side: int, summed: bool = False) -> None:
        """Add a block to a view; where that is one element, the block may be `summed` already."""
        way, place = self.cut.way(view), self.place(view, side)
        if way == SCATTERED:
            self.call("give", FRAME, self._inner(view), START, source, place)
        else:
            name = "add" if way == LINE else "add_one" if summed else "add_total"
            self.call(name, source, place)

    def clear(self, view: View, side: int) -> None:
        """Set all slots of a view to 0 before everything else."""
        place = Place(view, side, False)
        axes = self._axes_of(*covering(view))
        self.first.append((self.functions["clear"], (FRAME, axes, place)))

    def _inner(self, view: View) -> Axes:
        return self._axes_of(self.cut.inner, self.cut.inner_strides(view))

    def _axes_of(self, *sizes: tuple[int, ...]) -> Axes:
        if sizes not in self._axes:
            self._axes[sizes] = Axes(*sizes)
        return self._axes[sizes]


def _assigned(each: list[Call], once: list[Call]) -> tuple[dict[Buffer, int], int]:
    """The memory of each buffer, by number, and the number of memories."""
    last = {w: k for k, (_, words) in enumerate(each) for w in words if type(w) is Buffer}
    lasting = dict.fromkeys([w for _, words in once for w in words if type(w) is Buffer])
    given = {buffer: k for k, buffer in enumerate(lasting)}
    free: list[int] = []
    count = len(given)
    for k, (_, words) in enumerate(each):
        used = dict.fromkeys([w for w in words if w in last])
        for buffer in used:
            if buffer not in given:
                given[buffer] = free.pop() if free else count
                count = max(count, given[buffer] + 1)
        free += [given[buffer] for buffer in used if last[buffer] == k and not buffer.lasting]
    return given, count


def _length(code: Pass, buffers: int, room: int) -> int:
    """Elements of a block: pieces of equal length, whose buffers stay near and fit the scratch."""
    most, item, cut = LONG, code.item, code.cut
    if buffers:
        fits = room // (item * buffers) - 2 * CACHE_LINE // item
        if fits < 1:
            raise ValueError(f"an element-wise step with {buffers} blocks at once is too large")
        most = min(BLOCK, fits, max(SHORT, NEAR // (item * buffers)))
    pieces = math.ceil(cut.size / most) or 1
    return min(most, _rounded(math.ceil(cut.size / pieces), CACHE_LINE // item))


def _rounded(count: int, unit: int) -> int:
    """The least multiple of a unit that is not below a number."""
    return (count + unit - 1) // unit * unit


class _Writer:
    """The data of one pass, as words, from its place in the data of the part on."""

    def __init__(self, code: Pass, at: int):
        self.code, self.at, self.item = code, at, code.item
        self.calls = [*code.first, *code.once, *code.each]
        self.words = [word for _, words in self.calls for word in words]
        self.of: dict[type, list] = {kind: [] for kind in (Place, Axes, Buffer, Number, Mark)}
        for word in dict.fromkeys(self.words):
            self.of[type(word)].append(word)
        origins = dict.fromkeys([(word.side, 8 * word.view.base) for word in self.of[Place]])
        self.origins = {key: block_calls.FIXED + k for k, key in enumerate(origins)}
        tables = block_calls.FIXED + len(self.origins) + 2 * len(self.words)
        begin = block_calls.AT_TABLES + 8 * tables
        self.numbers = _rounded(begin, CACHE_LINE)
        self.buffers = self.numbers + CACHE_LINE * len(self.of[Number])
        self.given, count = _assigned(code.each, code.once)
        self.length = _length(code, count, run_layout.SCRATCH_BYTES - self.buffers)
        self.head = [0] * (block_calls.HEAD_BYTES // 8)

    def write(self) -> list[int]:
        head, cut, first = self.head, self.code.cut, 0
        head[block_calls.ORIGINS // 8] = len(self.origins)
        self._append(block_calls.AT_ORIGINS, [word for key in self.origins for word in key])
        known = self._placed()
        placed = [known[word] for word in self.words]
        head[block_calls.WORDS // 8] = len(placed)
        for field, at in enumerate(
            (block_calls.AT_KINDS, block_calls.AT_OFFSETS, block_calls.AT_STEPS)
        ):
            self._append(at, [word[field] for word in placed])
        self._append(block_calls.AT_MOVES, self._moves())
        head[block_calls.AXES // 8] = len(cut.outer)
        self._append(block_calls.AT_SHAPE, cut.outer)
        head[block_calls.GROUPS // 8] = cut.groups if cut.size and self.code.each else 0
        head[block_calls.SIZE // 8], head[block_calls.LENGTH // 8] = cut.size, self.length
        calls = []
        for address, words in self.calls:
            calls += [address, 8 * first]
            first += len(words)
        self._append(block_calls.AT_CALLS, calls)
        for at, made in (
            (block_calls.FIRST, self.code.first),
            (block_calls.ONCE, self.code.once),
            (block_calls.EACH, self.code.each),
        ):
            head[at // 8] = len(made)
        return head

    def _append(self, field: int, numbers: Sequence[int]) -> None:
        self.head[field // 8] = 8 * len(self.head)
        self.head += numbers

    def _placed(self) -> dict[Word, tuple[int, int, int]]:
        """Origin, offset and step of each word; the axes are written."""
        item, length, head = self.item, self.length, self.head
        placed: dict[Word, tuple[int, int, int]] = {}
        for word in self.of[Place]:
            origin = self.origins[word.side, 8 * word.view.base]
            placed[word] = origin, item * word.view.offset, item * length if word.moves else 0
        for word in self.of[Axes]:
            placed[word] = block_calls.DATA, 8 * (self.at + len(head)), 0
            head += [len(word.shape), *word.shape, *[item * n for n in word.strides]]
        # one cache line apart: lines at one place of all buffers would share a few sets
        apart = _rounded(item * length, CACHE_LINE) + CACHE_LINE
        for word in self.of[Buffer]:
            placed[word] = block_calls.SCRATCH, self.buffers + self.given[word] * apart, 0
        for k, word in enumerate(self.of[Number]):
            placed[word] = block_calls.SCRATCH, self.numbers + CACHE_LINE * k, 0
        for word in self.of[Mark]:
            placed[word] = word.origin, 0, word.step * length
        return placed

    def _moves(self) -> list[int]:
        """Distances by which words move when an outer axis advances, those after it back to 0."""
        cut, moves = self.code.cut, []
        for axis in range(len(cut.outer)):
            for word in self.words:
                strides = cut.outer_strides(word.view) if isinstance(word, Place) else cut.outer
                after = zip(cut.outer[axis + 1 :], strides[axis + 1 :], strict=True)
                back = sum((n - 1) * stride for n, stride in after)
                step = self.item * (strides[axis] - back)
                moves.append(step if isinstance(word, Place) else 0)
        return moves


def part(passes: dict[str, Pass], tier: str) -> Part:
    """The part of a step: its passes, their data one after the other; 0 for an empty one."""
    numbers = [0] * len(block_calls.PASSES)
    addresses: dict[str, Any] = {"forward": 0, "reverse": 0}
    for name, code in passes.items():
        if code.first or code.each:
            numbers[block_calls.PASSES.index(name)] = 8 * len(numbers)
            numbers += _Writer(code, len(numbers)).write()
            addresses[name] = block_calls.compiled(code.item)[name]
    return Part(data=np.array(numbers, np.int64), tier=tier, **addresses)

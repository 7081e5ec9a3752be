"""Element-wise steps without code of their own: kernels of their operations, block by block."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.elements import ITEM
from ..._core.codegen.layout import BLOCK, CACHE_LINE, FEW_OPERANDS
from ..._core.ops.table import BY_CODE, TABLE
from ..._core.sweep.kernels import compile_adjoint, compile_value
from ..._core.tape.sweeps import memory_of
from ..ir.elementwise_step import Edge, Elementwise, Node, StepFlow
from ..ir.steps import View
from ..ir.uses import LINE, ONE, SCATTERED, covering
from . import block_calls, run_layout
from .block_calls import PASSES
from .parts import NO_BASES, Bases, Part, Wanted, part_of

# --- block passes ---------------------------------------------------------------------------------
# A pass over an element-wise step: words and calls, then the data of a part.
#
# The kind of a word can be given before its address is known: a place in an arena, a block buffer,
# the axes of a view. `part` gives buffers that are never alive together the same memory, and writes
# everything down as `block_calls` reads it.

VALUES, ADJOINTS = run_layout.RUN_VALUE_BASES, run_layout.RUN_ADJOINT_BASES
#: The limit of bytes of block buffers in use at once: beyond it blocks are shorter, so that the
#: data of a block stay in the processor's second cache.
NEAR = 1 << 16
#: The least that blocks are shortened to for that.
SHORT = 128
#: Elements of a block that needs no buffers.
LONG = 1 << 14


#: What a word is, and what it is told by: PLACE, the address of a view in this block, by the view,
#: its side (VALUES, ADJOINTS) and whether it moves; AXES, that of a shape and strides, by these;
#: BUFFER, memory for a block; NUMBER, memory for one number that a block gives; MARK, an origin, a
#: step in blocks, and a distance from the origin; ELEMENT, the number of the first element of a
#: block in a view of all in C order.
PLACE, AXES, BUFFER, NUMBER, MARK, ELEMENT = range(6)
Word = int
#: What `strided` takes for a frame; the start of the block.
FRAME, START = range(2)
Call = tuple[int, Sequence[Word]]


class StepPass:
    """The calls of one pass over a step, in order; elements have `item` bytes.

    A word is a number, whose kind is in `kinds`; what it is told by is in `words`. There is one for
    a place, and one for the axes of a view.
    """

    def __init__(self, flow: StepFlow, item: int):
        self.cut, self.picks, self.item = flow.cut, flow.picks, item
        self.kept: list[np.ndarray] = []  # memory whose addresses are words
        self.first: list[Call] = []
        self.once: list[Call] = []
        self.each: list[Call] = []
        self.functions = block_calls.compiled(item)
        self.kinds: list[int] = [MARK, MARK]
        self.words: list[tuple] = [(block_calls.SCRATCH, 0, 0), (block_calls.NOTHING, 1, 0)]
        self._read: dict[tuple[View, int, bool], Word] = {}
        self._known: dict[tuple, Any] = {}  # places, axes, rows

    def _word(self, kind: int, *told_by) -> Word:
        self.kinds.append(kind)
        self.words.append(told_by)
        return len(self.kinds) - 1

    def buffer(self) -> Word:
        return self._word(BUFFER)

    def number(self) -> Word:
        return self._word(NUMBER)

    def is_number(self, word: Word) -> bool:
        return self.kinds[word] == NUMBER

    def call(self, function: str | int, *words: Word) -> None:
        address = self.functions[function] if isinstance(function, str) else function
        self.each.append((address, words))

    def place(self, view: View, side: int) -> Word:
        found = self._known.get((view, side))
        if found is None:
            found = self._word(PLACE, view, side, self.cut.way(view) == LINE)
            self._known[view, side] = found
        return found

    def read(self, view: View, side: int, whole: bool) -> Word:
        """The elements of a view as a contiguous block; one of them for all only if not `whole`."""
        key = (view, side, whole)
        if key not in self._read:
            self._read[key] = self._fetch(view, side, whole)
        return self._read[key]

    def _fetch(self, view: View, side: int, whole: bool) -> Word:
        if view.base < 0:
            block = self.buffer()
            self.call("take_rows", *self._rows(view, side), block)
            return block
        way, place = self.cut.way(view), self.place(view, side)
        if way == LINE or way == ONE and not whole:
            return place
        block = self.buffer()
        if way == ONE:
            self.once.append((self.functions["fill"], (place, block)))
        else:
            self.call("take", FRAME, self._inner(view), START, place, block)
        return block

    def deliver(self, source: Word, view: View, side: int, summed: bool = False) -> None:
        """Add a block to a view; where that is one element, the block may be `summed` already."""
        if view.base < 0:
            self.call("give_rows", *self._rows(view, side), source)
            return
        way, place = self.cut.way(view), self.place(view, side)
        if way == SCATTERED:
            self.call("give", FRAME, self._inner(view), START, source, place)
        else:
            name = "add" if way == LINE else "add_one" if summed else "add_total"
            self.call(name, source, place)

    def clear(self, view: View, side: int) -> None:
        """Set all slots of a view to 0 before everything else."""
        view = self.picks[view.base].view if view.base < 0 else view
        axes, place = self._axes_of(*covering(view)), self._word(PLACE, view, side, False)
        self.first.append((self.functions["clear"], (FRAME, axes, place)))

    def _rows(self, view: View, side: int) -> tuple[Word, ...]:
        """What finds the rows of a block: its start, their places and length, the first row."""
        key = view, side, "rows"
        if key not in self._known:
            whole, positions = self.picks[view.base]
            width = view.size // positions.size
            self.kept.append(self.item * width * positions.ravel())
            stand_in = View(whole.offset, view.shape, (0,) * len(view.shape), whole.base)
            self._known[key] = (
                self._word(ELEMENT, view),
                self._word(MARK, block_calls.NOTHING, 0, memory_of(self.kept[-1])),
                self._word(MARK, block_calls.NOTHING, 0, width),
                self._word(PLACE, stand_in, side, False),
            )
        return self._known[key]

    def _inner(self, view: View) -> Word:
        return self._axes_of(self.cut.inner, self.cut.inner_strides(view))

    def _axes_of(self, *sizes: tuple[int, ...]) -> Word:
        if sizes not in self._known:
            self._known[sizes] = self._word(AXES, *sizes)
        return self._known[sizes]


def _assigned(code: StepPass) -> tuple[dict[Word, int], int]:
    """The memory of each buffer, by number, and the number of memories.

    Buffers that are filled once for all blocks keep theirs.
    """
    kinds = code.kinds
    lasting = dict.fromkeys([w for _, words in code.once for w in words if kinds[w] == BUFFER])
    given = {word: k for k, word in enumerate(lasting)}
    calls = [[w for w in words if kinds[w] == BUFFER] for _, words in code.each]
    last = {word: k for k, words in enumerate(calls) for word in words}
    free: list[int] = []
    count = len(given)
    for k, words in enumerate(calls):
        for word in words:
            if word not in given:
                given[word] = free.pop() if free else count
                count = max(count, given[word] + 1)
        for word in words:
            if last[word] == k and word not in lasting:
                free.append(given[word])
                last[word] = -1  # once, where a call has it twice
    return given, count


def _length(code: StepPass, buffers: int, room: int) -> int:
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


class _PassWriter:
    """The data of one pass, as words, from its place in the data of the part on."""

    def __init__(self, code: StepPass, at: int):
        self.code, self.at, self.item = code, at, code.item
        self.calls = [*code.first, *code.once, *code.each]
        self.words = [word for _, words in self.calls for word in words]
        self.of: list[list[Word]] = [[] for _ in range(ELEMENT + 1)]
        for word in dict.fromkeys(self.words):
            self.of[code.kinds[word]].append(word)
        places = [code.words[word] for word in self.of[PLACE]]
        origins = dict.fromkeys([(side, 8 * view.base) for view, side, _ in places])
        self.origins = {key: block_calls.FIXED + k for k, key in enumerate(origins)}
        tables = block_calls.FIXED + len(self.origins) + 2 * len(self.words)
        begin = block_calls.AT_TABLES + 8 * tables
        self.numbers = _rounded(begin, CACHE_LINE)
        self.buffers = self.numbers + CACHE_LINE * len(self.of[NUMBER])
        self.given, count = _assigned(code)
        self.length = _length(code, count, run_layout.SCRATCH_BYTES - self.buffers)
        self.head = [0] * (block_calls.HEAD_BYTES // 8)

    def write(self) -> np.ndarray:
        head, cut = self.head, self.code.cut
        head[block_calls.ORIGINS // 8] = len(self.origins)
        self._append(block_calls.AT_ORIGINS, [word for key in self.origins for word in key])
        head[block_calls.WORDS // 8] = len(self.words)
        columns = self._columns(np.array(self._placed(), np.int64))
        end = len(head) + columns.size
        head[block_calls.AXES // 8] = len(cut.outer)
        head[block_calls.AT_SHAPE // 8] = 8 * end
        head[block_calls.AT_CALLS // 8] = 8 * (end + len(cut.outer))
        head[block_calls.GROUPS // 8] = cut.groups if cut.size and self.code.each else 0
        head[block_calls.SIZE // 8], head[block_calls.LENGTH // 8] = cut.size, self.length
        tail, first = [*cut.outer], 0
        for address, words in self.calls:
            tail += (address, first)
            first += 8 * len(words)
        for at, made in (
            (block_calls.FIRST, self.code.first),
            (block_calls.ONCE, self.code.once),
            (block_calls.EACH, self.code.each),
        ):
            head[at // 8] = len(made)
        return np.concatenate([np.array(head, np.int64), columns, np.array(tail, np.int64)])

    def _append(self, field: int, numbers: Sequence[int]) -> None:
        self.head[field // 8] = 8 * len(self.head)
        self.head += numbers

    def _columns(self, placed: np.ndarray) -> np.ndarray:
        """What each word of the calls has: origin, offset, step, and a move for each outer axis."""
        table = placed.T
        if self.code.cut.outer:
            table = np.concatenate([table, self._moves(len(placed))])
        fields = (block_calls.AT_KINDS, block_calls.AT_OFFSETS, block_calls.AT_STEPS)
        for k, field in enumerate((*fields, block_calls.AT_MOVES)):
            self.head[field // 8] = 8 * (len(self.head) + k * len(self.words))
        return table[:, self.words].ravel()

    def _placed(self) -> list[tuple[int, int, int]]:
        """Origin, offset and step by word; the axes are written."""
        item, length, head, known = self.item, self.length, self.head, self.code.words
        placed = [(0, 0, 0)] * len(known)
        for word in self.of[PLACE]:
            view, side, moves = known[word]
            origin = self.origins[side, 8 * view.base]
            placed[word] = origin, item * view.offset, item * length if moves else 0
        for word in self.of[AXES]:
            shape, strides = known[word]
            placed[word] = block_calls.DATA, 8 * (self.at + len(head)), 0
            head += [len(shape), *shape, *[item * n for n in strides]]
        # one cache line apart: lines at one place of all buffers would share a few sets
        apart = _rounded(item * length, CACHE_LINE) + CACHE_LINE
        for word in self.of[BUFFER]:
            placed[word] = block_calls.SCRATCH, self.buffers + self.given[word] * apart, 0
        for k, word in enumerate(self.of[NUMBER]):
            placed[word] = block_calls.SCRATCH, self.numbers + CACHE_LINE * k, 0
        for word in self.of[MARK]:
            origin, step, distance = known[word]
            placed[word] = origin, distance, step * length
        for word in self.of[ELEMENT]:
            placed[word] = block_calls.NOTHING, 0, length
        return placed

    def _moves(self, count: int) -> np.ndarray:
        """Distances by which words move when an outer axis advances, those after it back to 0."""
        cut = self.code.cut
        moves = np.zeros((len(cut.outer), count), np.int64)
        items = [(word, self.item) for word in self.of[PLACE]]
        for word, item in items + [(word, 1) for word in self.of[ELEMENT]]:
            strides, back = cut.outer_strides(self.code.words[word][0]), 0
            for axis in range(len(cut.outer) - 1, -1, -1):
                moves[axis, word] = item * (strides[axis] - back)
                back += (cut.outer[axis] - 1) * strides[axis]
        return moves


def part(passes: dict[str, StepPass], tier: str) -> Part:
    """The part of a step: its passes, their data one after the other; 0 for an empty one."""
    starts = [0] * len(block_calls.PASSES)
    made, end = [], len(starts)
    addresses: dict[str, Any] = {"forward": 0, "reverse": 0}
    for name, code in passes.items():
        if code.first or code.each:
            starts[block_calls.PASSES.index(name)] = 8 * end
            made.append(_PassWriter(code, end).write())
            end += len(made[-1])
            addresses[name] = block_calls.compiled(code.item)[name]
    data = np.concatenate([np.array(starts, np.int64), *made])
    kept = [memory for code in passes.values() for memory in code.kept]
    return Part(data=data, tier=tier, keep=kept or None, **addresses)


# --- elementwise parts ----------------------------------------------------------------------------
# Element-wise steps without code of their own: the kernels of their operations, block by block.
#
# The kernels are those of the sweep; blocks between them live in the run's scratch memory.

#: No word.
_NONE: Word = -1


@functools.cache
def _value_kernel(code: int, item: int, uniform: int = 0) -> int:
    return compile_value(BY_CODE[code], item, uniform)


@functools.cache
def _adjoint_kernel(code: int, item: int, masks: int) -> int:
    return compile_adjoint(BY_CODE[code], masks, item)


class _PassValues:
    """Values computed in one pass; `uniform` says which operands are numbers (`_uniform`)."""

    def __init__(self, flow: StepFlow, code: StepPass, uniform: dict[int, int]):
        self.flow, self.code, self.uniform = flow, code, uniform
        self.known: list[Word] = [_NONE] * (flow.count + len(flow.views))

    def word(self, node: Node) -> Word:
        """Where the values of a node are in this block; those stored are where they are stored."""
        found = self.known[node]
        if found == _NONE:
            found = self.known[node] = self._word(node)
        return found

    def _word(self, node: Node) -> Word:
        view = self.flow.view(node)
        if view is not None:
            return self.code.read(view, VALUES, whole=True)
        stored = self.flow.stores.get(node)
        return self.code.place(stored[0], VALUES) if stored else self.code.buffer()

    def operands(self, k: int) -> list[Word]:
        """What a kernel of operation k is given for its operands."""
        if not self.uniform[k]:
            return [self.word(node) for node in self.flow.operands[k]]
        return [self.operand(k, j, node) for j, node in enumerate(self.flow.operands[k])]

    def operand(self, k: int, j: int, node: Node) -> Word:
        """What it is given for operand j."""
        if self.uniform[k] >> j & 1:
            view = self.flow.views[node - self.flow.count]
            return self.code.read(view, VALUES, whole=False)
        return self.word(node)

    def compute(self, numbers: Iterable[int]) -> None:
        flow, item, each = self.flow, self.code.item, self.code.each
        for k in numbers:
            words = self.operands(k)
            words.append(self.word(k))
            each.append((_value_kernel(flow.ops[k].code, item, self.uniform[k]), words))

    def results(self) -> None:
        """Compute all that the step writes."""
        for views in self.flow.sums.values():
            for view in views:
                self.code.clear(view, VALUES)
        for k in self.flow.live:
            self.compute((k,))
            for view in self.flow.stores.get(k, ())[1:]:
                self.code.call("copy", self.word(k), self.code.place(view, VALUES))
            for view in self.flow.sums.get(k, ()):
                self.code.deliver(self.word(k), view, VALUES)


class _PassAdjoints:
    """Adjoints computed in one pass, `at` by node.

    The adjoint of a node may be that of another, while nothing has been added to it: only those
    that are `own` may be written. Those of numbers are sums, which are added where they belong.
    """

    def __init__(self, values: _PassValues):
        self.values, self.flow, self.code = values, values.flow, values.code
        self.left = list(self.flow.terms)
        self.at: list[Word] = [_NONE] * len(self.left)
        self.own = bytearray(len(self.left))

    def compute(self) -> None:
        for view in self.flow.cleared:
            self.code.clear(view, ADJOINTS)
        for k in self.flow.pulled:
            g = self._start(k)
            signs, edges = self.flow.ops[k].signs, self.flow.edges[k]
            if others := [edge for edge in edges if signs[edge[0]] != 1]:
                self._call_kernel(k, g, others)
            for _, node in edges[len(others) :]:  # which take it unchanged
                self._start(node)
                self._add(node, g)
                self._added(node)

    def _start(self, node: Node) -> Word:
        """The adjoint of a node begins with those of its results, or where it can be added to."""
        flow = self.flow
        if self.at[node] != _NONE:
            return self.at[node]
        if node < flow.count:
            for view in (*flow.stores.get(node, ()), *flow.sums.get(node, ())):
                self._add(node, self.code.read(view, ADJOINTS, whole=True))
        elif node in flow.direct and node not in flow.set_ and self.left[node] == 1:
            self.at[node] = self._place(node)
            self.own[node] = True
        return self.at[node]

    def _place(self, node: Node) -> Word:
        return self.code.place(self.flow.views[node - self.flow.count], ADJOINTS)

    def _home(self, node: Node) -> Word:
        return self._place(node) if node in self.flow.set_ else self.code.buffer()

    def _add(self, node: Node, block: Word) -> None:
        """Add a block that is not to be written, or a sum, to the adjoint of a node."""
        flow, code, so_far = self.flow, self.code, self.at[node]
        if flow.ones[node]:
            view = flow.views[node - flow.count]
            code.deliver(block, view, ADJOINTS, summed=code.is_number(block))
        elif self.own[node]:
            code.call("add", block, so_far)
        elif so_far != _NONE:
            home = self._home(node)
            code.call(_value_kernel(TABLE["add"].code, code.item), so_far, block, home)
            self.at[node] = home
            self.own[node] = True
        elif node in flow.set_:
            self.at[node] = self._home(node)
            self.own[node] = True
            code.call("copy", block, self.at[node])
        else:
            self.at[node] = block

    def _added(self, node: Node) -> None:
        """Bring the adjoint of a view to its place once it is complete."""
        self.left[node] -= 1
        word, flow = self.at[node], self.flow
        if node < flow.count or word == _NONE or self.left[node] or node in flow.set_:
            return
        if word != self._place(node):
            self.code.deliver(word, flow.views[node - flow.count], ADJOINTS)

    def _call_kernel(self, k: int, g: Word, edges: list[Edge]) -> None:
        op, uniform, own = self.flow.ops[k], self.values.uniform[k], self.own
        masks = uniform << FEW_OPERANDS
        targets: list[Word] = [g] * len(op.inputs)
        later: list[tuple[Node, Word]] = []
        for j, node in edges:
            masks |= 1 << j
            at = self._start(node)
            if uniform >> j & 1:
                targets[j] = self.code.number()
            elif len(op.inputs) > FEW_OPERANDS:  # its kernel can only add
                targets[j] = self.code.buffer()
                self.code.call("zero", targets[j])
            elif own[node] and at not in targets:
                targets[j] = at
                continue
            else:
                masks |= 1 << 2 * FEW_OPERANDS + j
                if at == _NONE:
                    self.at[node] = targets[j] = self._home(node)
                    own[node] = True
                    continue
                targets[j] = self.code.buffer()
            later.append((node, targets[j]))
        kernel = _adjoint_kernel(op.code, self.code.item, masks)
        self.code.each.append((kernel, [*self._read(k, g), g, *targets]))
        for node, word in later:
            self._add(node, word)
        for _, node in edges:
            self._added(node)

    def _read(self, k: int, g: Word) -> list[Word]:
        """What the partials of operation k may read, its adjoint in place of what they do not."""
        read, values = self.flow.partial_nodes(k), self.values
        words = [
            values.operand(k, j, node) if node in read else g
            for j, node in enumerate(self.flow.operands[k])
        ]
        words.append(values.word(k) if k in read else g)
        return words


def _uniform(flow: StepFlow, k: int) -> int:
    """Which operands a kernel of operation k takes as one number."""
    operands = flow.operands[k]
    if len(operands) > FEW_OPERANDS:
        return 0
    return sum([1 << j for j, node in enumerate(operands) if flow.ones[node]])


@part_of.register(Elementwise)
def interpreted(
    step: Elementwise,
    wanted: Wanted,
    fresh: Bases = NO_BASES,
    item: int = ITEM,
    passes: tuple[str, ...] = PASSES,
) -> Part:
    """A step as calls of kernels. See `ir.elementwise_step` for what `wanted` and `fresh` say."""
    flow = step.flow(wanted, fresh)
    uniform = {k: _uniform(flow, k) for k in flow.live}
    codes = {name: StepPass(flow, item) for name in passes}
    for name, code in codes.items():
        values = _PassValues(flow, code, uniform)
        if name != "reverse":
            values.results()
        else:
            values.compute(flow.recomputed())
        if name != "forward":
            _PassAdjoints(values).compute()
    return part(codes, "interpreted")

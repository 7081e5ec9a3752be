"""Steps made one: element-wise ones of one shape, rows that are picked or added to, copies."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..ir.elementwise_step import Elementwise, Picked, Rowwise
from ..ir.kernel_step import Kernel
from ..ir.moving_step import Gather, Link
from ..ir.rewriting import renumbered
from ..ir.steps import (
    ARENA,
    Code,
    Ranges,
    Shifts,
    Spans,
    Step,
    View,
    Visitor,
    contiguous,
    distinct,
)
from ..ir.uses import Written, mark_outputs, views_needed

# --- fusion ---------------------------------------------------------------------------------------
# Element-wise steps over one shape made one, sums of their results included.
#
# Steps are taken in order. Open groups do not read each other, so that a step may join any of its
# shape after those that it reads have been closed. A step that does not read an open group goes
# before it.

#: More operations in a group would have no room in cache.
MOST_OPERATIONS = 64
#: Slots that are checked one by one.
FEW = 128
#: Operations that cost no more than reading their result if applied to one array and numbers.
_NAMES = "add subtract multiply divide negative square".split()
CHEAP = frozenset(TABLE[name].code for name in _NAMES)


#: Where a stored result is computed: the number of the group, and that of the operation in it.
Place = tuple[int, int]
_ELSEWHERE: Place = (0, 0)


class FusedGroup:
    """An element-wise step that is still open."""

    def __init__(self, number: int, shape: tuple[int, ...]):
        self.number, self.shape = number, shape
        self.ops: list[tuple[int, tuple[int | View, ...]]] = []
        self.stores: list[tuple[int, View]] = []
        self.sums: list[tuple[int, View]] = []

    def add(self, step: Elementwise, home: dict[View, Place]) -> None:
        """Add a step; operands from this group are found inside, at their places in `home`."""
        start, number = len(self.ops), self.number
        for code, operands in step.ops:
            found: list[int | View] = []
            for x in operands:
                if isinstance(x, View):
                    group, at = home.get(x, _ELSEWHERE)
                    found.append(at if group == number else x)
                else:
                    found.append(start + x)
            self.ops.append((code, tuple(found)))
        for k, view in step.stores:
            self.stores.append((start + k, view))
            home[view] = number, start + k
        if step.sums:
            self.sums += [(start + k, view) for k, view in step.sums]

    def step(self) -> Elementwise:
        return Elementwise(self.shape, self.ops, self.stores, self.sums)


class Fuser(Visitor):
    """Steps taken in order; `owner` has by written view the number of the group that writes it."""

    def __init__(self, code: Code) -> None:
        self.open: dict[int, FusedGroup] = {}
        self.of_shape: dict[tuple[int, ...], dict[int, FusedGroup]] = {}  # open groups
        self.written, reads = Written(code), code.reads
        self.owner = np.zeros(len(self.written.first) + 1, np.int32)  # the last one is of no view
        spans = zip(*[at.tolist() for at in self.written.seen(reads.low, reads.high)], strict=True)
        self.seen = dict(zip(reads.views, spans, strict=True))
        self.groups = 0
        self.home: dict[View, Place] = {}  # of stored results
        self.cheap: dict[Any, tuple] = {}  # stored results by view: operation and operands
        self.steps: list[Step] = []

    def close(self, numbers: Iterable[int]) -> None:
        for number in sorted(numbers):
            group = self.open.pop(number)
            del self.of_shape[group.shape][number]
            self.steps.append(group.step())

    def _begun(self, shape: tuple[int, ...]) -> FusedGroup:
        """A new group."""
        self.groups += 1
        group = FusedGroup(self.groups, shape)
        self.open[group.number] = self.of_shape.setdefault(shape, {})[group.number] = group
        return group

    def _add(self, group: FusedGroup, step: Elementwise) -> None:
        group.add(step, self.home)
        for _, view in (*step.stores, *step.sums):
            self._wrote(group, view)

    def _wrote(self, group: FusedGroup, view: View) -> None:
        if view.size:
            self.owner[self.written.first.searchsorted(view.extent[0])] = group.number

    def _read(self, step: Step) -> tuple[set[int], set[int]]:
        """The open groups that a step reads: element by element, otherwise."""
        whole: set[int] = set()
        torn: set[int] = set()
        if not self.open:
            return whole, torn
        for view in step.views_read:
            number, _ = self.home.get(view, _ELSEWHERE)
            if number in self.open:
                whole.add(number)
            elif not number and view.base == ARENA:
                torn |= self._owners(self.owner[slice(*self.seen[view])])
        for slots in step.slots_read:
            torn |= self._owners(self.owner[self.written.of(slots)])
        return whole, torn

    def _owners(self, numbers: np.ndarray) -> set[int]:
        """The open groups among these; 0 is none."""
        if len(numbers) > FEW:
            numbers = distinct(numbers)
        return self.open.keys() & set(numbers.tolist())

    def _note_cheap(self, step: Elementwise) -> None:
        """Remember how to compute a stored result again from one array that is there."""
        if len(step.ops) != 1 or not step.stores or step.ops[0][0] not in CHEAP:
            return
        code, operands = step.ops[0]
        if len([x for x in operands if not isinstance(x, View) or any(x.strides)]) == 1:
            self.cheap[step.stores[0][1]] = code, operands

    def _with_cheap(self, step: Elementwise) -> Elementwise:
        """A step that computes cheap results again which it would have to read."""
        found = {x for _, operands in step.ops for x in operands if x in self.cheap}
        if not found:
            return step
        numbers: dict[Any, int] = {view: k for k, view in enumerate(found)}
        n = len(found)
        ops = [self.cheap[view] for view in found]
        for code, operands in step.ops:
            moved = (numbers.get(x, x) if isinstance(x, View) else x + n for x in operands)
            ops.append((code, tuple(moved)))
        stores = [(k + n, view) for k, view in step.stores]
        return Elementwise(step.shape, ops, stores, [(k + n, view) for k, view in step.sums])

    def _group_for(self, step: Elementwise, torn: set[int]) -> FusedGroup | None:
        """The newest open group over the same shape that a step may join."""
        found = self.of_shape.get(step.shape, {})
        for number in reversed(found):
            if number not in torn and len(found[number].ops) + len(step.ops) <= MOST_OPERATIONS:
                return found[number]
        return None

    def other(self, step: Step) -> None:
        whole, torn = self._read(step)
        read = whole | torn
        summed = step.summed if len(read) == 1 else None
        if summed is not None:
            (group,), (target, source) = [self.open[number] for number in read], summed
            number, at = self.home.get(source, _ELSEWHERE)
            if number == group.number:
                group.sums.append((at, target))
                self._wrote(group, target)
                return
        self.close(read)
        self.steps.append(step)

    def elementwise(self, step: Elementwise) -> None:
        whole, torn = self._read(step)
        read = whole | torn
        if (found := self._group_for(step, torn)) is not None:
            self.close(read - {found.number})
            self._add(found, step)
            self._note_cheap(step)
        else:
            self.close(read)
            self._add(self._begun(step.shape), self._with_cheap(step))


def fuse(code: Code) -> Code:
    """Element-wise steps of one shape made one where nothing between forbids it."""
    fuser = Fuser(code)
    for step in code.steps:
        step.accept(fuser)
    fuser.close(fuser.open)
    return dataclasses.replace(code, steps=fuser.steps)


def drop_stores(code: Code) -> Code:
    """Results of element-wise operations that nothing outside their step reads are not stored."""
    needed = views_needed(code)
    if needed.all():
        return code
    is_read, at, steps = needed.tolist(), 0, []
    for step in code.steps:
        if step.is_whole:
            start, at = at, at + len(step.views_written)
            step = step.storing(is_read[start:at])
        steps.append(step)
    return dataclasses.replace(code, steps=steps)


# --- row fusion -----------------------------------------------------------------------------------
# Rows picked, and rows added to, by the steps that read or compute them.


# --- Rows picked, and rows added to, by the element-wise steps that read or compute them ----------
# A gather that one element-wise step alone reads, all of it and in order, need not be an array: the
# step takes the rows block by block, and adds their adjoints where they are from. Likewise it adds
# results to rows itself which a scatter-add would read.


#: Fewer elements are not worth it: they may become operations on numbers.
LEAST = 256
#: The most arrays of rows of one step: its blocks are to stay in cache.
MOST_PICKS = 16
_SCATTER_ADD = TABLE["scatter_add"].code


class Readers:
    """Which steps read the slots of an array."""

    def __init__(self, code: Code):
        self.code = code
        self.outputs = np.zeros(code.slots, bool)
        mark_outputs(code, self.outputs)
        self.steps = np.full(code.slots + 1, -1, np.int64)  # −2 for several
        for number, step in enumerate(code.steps):
            for slots in step.slots_read:
                self._read(number, np.asarray(slots))
            for view in step.views_read:
                if view.base == ARENA:
                    self._read(number, slice(*view.extent))

    def _read(self, number: int, slots: Any) -> None:
        seen = self.steps[slots]
        self.steps[slots] = np.where((seen == -1) | (seen == number), number, -2)

    def only(self, view: View) -> int:
        """The one step that reads an array, −1 if there is none, or several."""
        low, high = view.extent
        if low == high or self.outputs[low:high].any():
            return -1
        found = self.steps[low:high]
        return int(found[0]) if found[0] >= 0 and (found == found[0]).all() else -1


class _GatherReading(Visitor):
    """Gives an element-wise step that reads rows itself, in place of a gather; None for others."""

    def __init__(self, gather: Gather):
        positions: Any = gather.positions
        self.out, self.picked = gather.out, Picked(gather.source, positions)

    def elementwise(self, step: Any) -> Rowwise | None:
        out = self.out
        seen = {x for x in step.operand_views if x.overlaps(out)}
        if not all(x.offset == out.offset and x.size == out.size for x in seen):
            return None
        if len(step.picks) >= MOST_PICKS or not all(x.is_contiguous for x in seen):
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        ops = [(op, tuple([rows if x in seen else x for x in given])) for op, given in step.ops]
        return Rowwise(step.shape, ops, step.stores, step.sums, [*step.picks, self.picked])

    def other(self, step: Step) -> None:
        return None


class _Adding(Visitor):
    """Gives an element-wise step that adds what it stores to rows itself; None for others."""

    def __init__(self, source: View, picked: Picked):
        self.source, self.picked = source, picked

    def elementwise(self, step: Any) -> Rowwise | None:
        if len(step.picks) >= MOST_PICKS:
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        result = next(k for k, stored in step.stores if stored == self.source)
        sums, picks = [*step.sums, (result, rows)], [*step.picks, self.picked]
        return Rowwise(step.shape, step.ops, step.stores, sums, picks)

    def other(self, step: Step) -> None:
        return None


def pick(code: Code) -> Code:
    """The program with rows picked and added to where they are needed."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited(step)}
    adds = {k: step for k, step in code.of(Kernel).items() if step.code == _SCATTER_ADD}
    if not gathers and not adds:
        return code
    steps = list(code.steps)
    done: set[int] = set()
    readers = Readers(code)
    for k, gather in gathers.items():
        reader = readers.only(gather.out)
        if reader >= 0:
            _replace(steps, reader, steps[reader].accept(_GatherReading(gather)), k, done)
    homes = {view: k for k, step in enumerate(steps) for view in step.movable}
    for k, add in adds.items():
        source, positions = add.operands
        if isinstance(positions, np.ndarray) and source.size >= LEAST and source in homes:
            home, picked = homes[source], Picked(add.out, positions)
            _replace(steps, home, steps[home].accept(_Adding(source, picked)), k, done)
    return dataclasses.replace(code, steps=[x for k, x in enumerate(steps) if k not in done])


def _replace(steps: list[Step], number: int, made: Step | None, instead: int, done: set) -> None:
    """Let a step, if it was made, take the place of one and do what another one did."""
    if made is not None:
        steps[number] = made
        done.add(instead)


def _is_suited(gather: Gather) -> bool:
    known = isinstance(gather.positions, np.ndarray)
    return known and gather.out.size >= LEAST and gather.source.is_contiguous


# --------------------------------------------------------------------------------------------------
# Products of rows that are picked with a matrix: the rows are picked from the products instead.
# `table[positions] @ matrix` is `(table @ matrix)[positions]`, which takes one product for each row
# of the table, while many positions may name a row, as edges of a graph do its nodes. In reverse
# the adjoints of equal rows are added before they are multiplied.


#: How often rows are picked, in the mean, and the least length of a row that is worth it.
OFTEN, LONG = 2, 4
_CONTRACT = TABLE["contract"].code


def multiply_first(code: Code) -> Code:
    """The program with such products computed of the rows that are picked, each once."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited_product(step)}
    if not gathers:
        return code
    products, slots, readers = code.of(Kernel), code.slots, Readers(code)
    instead: dict[int, list[Step]] = {}
    for k, gather in gathers.items():
        reader = readers.only(gather.out)
        product = products.get(reader)
        if product is not None and _is_product(product, gather.out):
            if made := _made(gather, product, slots):
                instead[k], instead[reader] = [], made
                slots += sum([one.out.size for one in made[:-1]])
    if not instead:
        return code
    flat = [one for k, step in enumerate(code.steps) for one in instead.get(k, [step])]
    return dataclasses.replace(code, steps=flat, slots=slots)


def _is_suited_product(gather: Gather) -> bool:
    """Whether whole rows of a matrix are picked, at positions that are known."""
    shape, positions = gather.out.shape, gather.positions
    return (
        isinstance(positions, np.ndarray)
        and gather.out.size >= LEAST
        and gather.source.is_contiguous
        and shape[-1] == gather.width >= LONG
    )


def _is_product(step: Kernel, rows: View) -> bool:
    """Whether a step multiplies these rows, as its left operand alone, with a matrix."""
    if step.code != _CONTRACT:
        return False
    left, right, _, batch, along = step.operands
    is_plain = batch == 0 and along == 1 and step.out.is_contiguous
    return is_plain and left == rows and isinstance(right, View) and not right.overlaps(rows)


def _made(gather: Gather, product: Kernel, first: int) -> list:
    """The steps in place of both, in slots from one on; none if few rows are picked twice."""
    positions: Any = gather.positions
    rows, places = np.unique(positions, return_inverse=True)
    width, count = gather.width, len(rows)
    if OFTEN * count > places.size:
        return []
    steps: list[Step] = []
    table = contiguous(gather.source.offset, (count, width), gather.source.base)
    if count * width < gather.source.size:  # the others may hold infinities
        table = contiguous(first, (count, width))
        steps.append(Gather(table, gather.source, rows))
        first += table.size
    out = product.out
    of_rows = contiguous(first, (count, *out.shape[len(gather.out.shape) - 1 :]))
    _, right, _, *how = product.operands
    steps.append(Kernel(product.code, [table, right, of_rows, *how], of_rows))
    return [*steps, Gather(out, of_rows, places.astype(np.int64).reshape(positions.shape))]


# --- copy elision ---------------------------------------------------------------------------------
# Copy elision: results computed at their place in a join, instead of being copied there.


def place(code: Code) -> Code:
    """A result that is one whole piece of a join is written to its place there."""
    if not any([step.pieces for step in code.steps]):
        return code
    movable = {view for step in code.steps for view in step.movable}
    apart = _taken_apart(code)
    moves: dict[int, tuple[int, int]] = {}  # first slot of a result → its size and new first slot
    steps: list[Step] = []
    for step in code.steps:
        pieces, left = step.pieces, []
        for target, source in pieces:
            free = source in movable and not apart.meets(source)
            if free and source.offset not in moves and source.size > 1:
                moves[source.offset] = source.size, target.offset
            else:
                left.append((target, source))
        if len(left) == len(pieces):
            steps.append(step)
        else:
            steps += _links(left)
    if not moves:
        return code
    return _moved(dataclasses.replace(code, steps=steps), moves)


def _taken_apart(code: Code) -> Ranges:
    """The slots where a view that is read sees several results, which must stay together."""
    written, outputs = Written(code), Spans([[output.view] for output in code.outputs])
    low, high = np.append(code.reads.low, outputs.low), np.append(code.reads.high, outputs.high)
    begin, end = written.seen(low, high)
    low, high, begin, count = (x[begin < end] for x in (low, high, begin, end - begin))
    apart = (count > 1) | (low < written.first[begin]) | (high > written.last[begin])
    return Ranges(low[apart], high[apart])


def _links(pairs: list[tuple[View, View]]) -> list[Step]:
    """The rest of a join; two single elements are a view of two."""
    single = [pair for pair in pairs if pair[0].size == 1]
    if len(single) == 2:
        target, source = (
            View(a.offset, (2,), (b.offset - a.offset,)) for a, b in zip(*single, strict=True)
        )
        pairs = [pair for pair in pairs if pair[0].size != 1] + [(target, source)]
    return [Link(target, [(target, source)]) for target, source in pairs]


def _moved(code: Code, moves: dict[int, tuple[int, int]]) -> Code:
    """The program with results moved; one may have been moved into another that moves too."""
    starts = sorted(moves)
    ends = [first + moves[first][0] for first in starts]
    shifts = [0] * len(starts)
    for first, (_, new) in reversed(moves.items()):
        k = bisect.bisect_right(starts, new) - 1
        further = shifts[k] if k >= 0 and new < ends[k] else 0
        shifts[bisect.bisect_left(starts, first)] = new - first + further
    return renumbered(code, Shifts.of(starts, ends, shifts), code.slots)

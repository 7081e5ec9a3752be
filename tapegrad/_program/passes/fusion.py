"""Element-wise steps over one shape made one, sums of their results included.

Steps are taken in order. Open groups do not read each other, so that a step may join any of its
shape after those that it reads have been closed. A step that does not read an open group goes
before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..ir.elementwise_step import Elementwise
from ..ir.steps import ARENA, Code, Step, View, Visitor
from ..ir.uses import Written, views_needed

#: More operations in a group would have no room in cache.
MOST = 64
#: Slots that are checked one by one.
FEW = 128
#: Operations that cost no more than reading their result if applied to one array and numbers.
_NAMES = "add subtract multiply divide negative square".split()
CHEAP = frozenset(TABLE[name].code for name in _NAMES)


#: Where a stored result is computed: the number of the group, and that of the operation in it.
Place = tuple[int, int]
_ELSEWHERE: Place = (0, 0)


class Group:
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
        self.open: dict[int, Group] = {}
        self.of_shape: dict[tuple[int, ...], dict[int, Group]] = {}  # open groups
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

    def _begun(self, shape: tuple[int, ...]) -> Group:
        """A new group."""
        self.groups += 1
        group = Group(self.groups, shape)
        self.open[group.number] = self.of_shape.setdefault(shape, {})[group.number] = group
        return group

    def _add(self, group: Group, step: Elementwise) -> None:
        group.add(step, self.home)
        for _, view in (*step.stores, *step.sums):
            self._wrote(group, view)

    def _wrote(self, group: Group, view: View) -> None:
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
            numbers = np.unique(numbers)
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

    def _group_for(self, step: Elementwise, torn: set[int]) -> Group | None:
        """The newest open group over the same shape that a step may join."""
        found = self.of_shape.get(step.shape, {})
        for number in reversed(found):
            if number not in torn and len(found[number].ops) + len(step.ops) <= MOST:
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

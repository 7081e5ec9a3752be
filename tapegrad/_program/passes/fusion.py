"""Element-wise steps over one shape made one, sums of their results included.

Steps are taken in order. Groups that are open read nothing of each other, so a step may join any of
its shape after those that it reads have been closed. What does not read an open group goes before.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.ops.table import BY_CODE
from ..ir.blocks import is_injective
from ..ir.steps import Code, Elementwise, Link, Step, View
from ..ir.uses import mark_outputs, mark_reads, slots_read, views_read, views_written

#: More operations in a group would have no room in cache.
MOST = 64
#: Operations that on one array and numbers cost no more than reading their result.
CHEAP = frozenset(("add", "subtract", "multiply", "divide", "negative", "square"))


@dataclasses.dataclass
class Group:
    """An element-wise step that is still open."""

    step: Elementwise
    low: int = 1 << 62
    high: int = 0

    def reaches(self, step: Step) -> bool:
        """Whether a step reads what the group writes."""
        for view in views_read(step):
            if not view.base and self._overlaps(*view.extent):
                return True
        for slots in slots_read(step):
            for written in views_written(self.step):
                low, high = written.offset, written.extent[1]
                if np.any((slots >= low) & (slots < high)):
                    return True
        return False

    def _overlaps(self, low: int, high: int) -> bool:
        if high <= self.low or low >= self.high:
            return False
        return any(low < v.extent[1] and high > v.extent[0] for v in views_written(self.step))

    def stored(self, view: View) -> int | None:
        """The operation whose stored result a view is."""
        return next((k for k, store in self.step.stores if store == view), None)

    def wrote(self, view: View) -> None:
        low, high = view.extent
        self.low, self.high = min(self.low, low), max(self.high, high)

    def add(self, step: Elementwise) -> None:
        """Take a step in; what it reads of this group it finds inside."""
        start, ops = len(self.step.ops), self.step.ops
        for code, operands in step.ops:
            found = []
            for x in operands:
                inner = self.stored(x) if isinstance(x, View) else start + x
                found.append(x if inner is None else inner)
            ops.append((code, tuple(found)))
        for k, view in step.stores:
            self.step.stores.append((start + k, view))
            self.wrote(view)
        for k, view in step.sums:
            self.step.sums.append((start + k, view))
            self.wrote(view)

    def takes(self, step: Elementwise) -> bool:
        """Whether a step over the same shape reads this group element by element only."""
        if step.shape != self.step.shape or len(self.step.ops) + len(step.ops) > MOST:
            return False
        for view in views_read(step):
            if self.stored(view) is None and not view.base and self._overlaps(*view.extent):
                return False
        return True

    def takes_sum(self, link: Link) -> bool:
        """Whether a link is a sum of a result of this group along axes: not one into windows."""
        if len(link.pairs) != 1:
            return False
        target, source = link.pairs[0]
        if self.stored(source) is None or target.size <= link.out.size:
            return False
        kept = [(n, s) for n, s in zip(target.shape, target.strides, strict=True) if s]
        found = View(target.offset, tuple(n for n, _ in kept), tuple(s for _, s in kept))
        return found.size == link.out.size and is_injective(found)


class Fuser:
    def __init__(self) -> None:
        self.open: list[Group] = []
        self.cheap: dict[Any, tuple] = {}  # stored results by view: operation and operands
        self.steps: list[Step] = []

    def close(self, groups: list[Group]) -> None:
        for group in groups:
            self.open.remove(group)
            self.steps.append(group.step)

    def _note_cheap(self, group: Group, step: Elementwise) -> None:
        """Remember how to compute a stored result again from one array that is there."""
        for (code, operands), (_, view) in zip(step.ops, step.stores, strict=False):
            arrays = [x for x in operands if not isinstance(x, View) or any(x.strides)]
            if len(step.ops) == len(arrays) == 1 and BY_CODE[code].name in CHEAP:
                self.cheap[view] = code, operands

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

    def take(self, step: Step) -> None:
        read = [group for group in self.open if group.reaches(step)]
        if isinstance(step, Link) and len(read) == 1 and read[0].takes_sum(step):
            target, source = step.pairs[0]
            number = read[0].stored(source)
            assert number is not None
            read[0].step.sums.append((number, target))
            read[0].wrote(target)
            return
        if isinstance(step, Elementwise):
            for group in self.open[::-1]:
                if group.takes(step):
                    self.close([other for other in read if other is not group])
                    group.add(step)
                    self._note_cheap(group, step)
                    return
            self.close(read)
            group = Group(Elementwise(step.shape, [], [], []))
            group.add(self._with_cheap(step))
            self.open.append(group)
            return
        self.close(read)
        self.steps.append(step)


def fuse(code: Code) -> Code:
    """Element-wise steps of one shape made one where nothing between forbids it."""
    fuser = Fuser()
    for step in code.steps:
        fuser.take(step)
    fuser.close(list(fuser.open))
    return dataclasses.replace(code, steps=fuser.steps)


def drop_stores(code: Code) -> Code:
    """Results of element-wise operations that nothing outside their step reads are not stored."""
    marks = np.zeros(code.slots, bool)
    mark_outputs(code, marks)
    for step in code.steps:
        mark_reads(step, marks)
    steps: list[Step] = []
    for step in code.steps:
        if isinstance(step, Elementwise):
            kept = [(k, view) for k, view in step.stores if marks[slice(*view.extent)].any()]
            step = dataclasses.replace(step, stores=kept)
        steps.append(step)
    return dataclasses.replace(code, steps=steps)

"""What takes longer to compute of data in each call than to see whether the data have changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.cost import VALUE_COSTS
from ..ir.steps import Code, Step, View, Visitor

#: Bytes that are compared in a nanosecond, and nanoseconds to store a number.
_COMPARED, _STORED = 16.0, 0.9


def dear(code: Code, first: int) -> set[int]:
    """The inputs from `first` on of which more is computed than comparing them would take.

    That is what depends on nothing else. It would be computed in advance, were they constants.
    """
    return _Computed(code, first).dear()


class _Computed(Visitor):
    """What the steps of a program compute of inputs from outside and constants alone.

    `costs` are nanoseconds, by sets of these inputs, which are bits.
    """

    def __init__(self, code: Code, first: int):
        inputs = [one.view for one in code.inputs]
        self._sources = np.zeros(code.slots, np.int64)  # by slot; −1 of what depends on arguments
        for view in inputs[:first]:
            self._sources[slice(*view.extent)] = -1
        for k, view in enumerate(inputs[first:]):
            self._sources[slice(*view.extent)] = 1 << k
        self._item, self._outside = code.item, inputs[first:]
        self.costs: dict[int, float] = {}
        for step in code.steps:
            step.accept(self)

    def dear(self) -> set[int]:
        """The inputs that take less time to compare than what is computed of them."""
        chosen, before = 0, -1
        while chosen != before:
            before = chosen
            for sources, cost in self.costs.items():
                left = self._numbers(sources & ~chosen)
                size = sum([self._outside[k].size for k in left])
                if cost > size * self._item / _COMPARED:
                    chosen |= sources
        return {*self._numbers(chosen)}

    def _numbers(self, sources: int) -> list[int]:
        return [k for k in range(len(self._outside)) if sources >> k & 1]

    def _source(self, view: View) -> int:
        found = self._sources[slice(*view.extent)]
        return int(np.bitwise_or.reduce(found)) if len(found) else 0

    def _spend(self, sources: int, nanoseconds: float) -> None:
        if sources > 0:
            self.costs[sources] = self.costs.get(sources, 0.0) + nanoseconds

    def scalars(self, step: Any) -> None:
        """Operations on numbers are few, or read an array one by one, which is copied then."""
        self._sources[step.slots_written] = -1

    def elementwise(self, step: Any) -> None:
        """Take operations, which are fused with those that read their results."""
        sources = 0
        for view in step.views_read:
            sources |= self._source(view)
        self._spend(sources, float(np.dot(VALUE_COSTS[0], step.work)))
        for view in step.views_written:
            self._sources[slice(*view.extent)] = sources

    def other(self, step: Step) -> None:
        """Take a step whose operands are stored."""
        for view in step.views_read:
            if not any(view.overlaps(one) for one in self._outside):
                self._spend(self._source(view), _STORED * view.size)
        self.elementwise(step)

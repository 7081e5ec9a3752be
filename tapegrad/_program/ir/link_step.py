"""Views added to views: copies, joins, broadcasts and sums."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.remembered import remembered
from .array_step import ArrayStep
from .blocks import is_injective
from .file_fields import VIEW, grouped, listed
from .slots import slots_of
from .steps import ARENA, Renumber, View
from .verify_memory import Memory, expect
from .work import Work


@dataclasses.dataclass
class Link(ArrayStep):
    """Views added to views: `out`, in C order, is 0; then target += source for (target, source)."""

    out: View
    pairs: list[tuple[View, View]]

    plural = "sums and joins"
    may_stop = False
    can_fold = True
    shares_memory = True
    needs_values = False
    file_fields = {"out": VIEW, "pairs": listed(grouped(VIEW, VIEW))}

    # --- what it reads and writes -------------------------------------------------------------

    @remembered
    def views(self) -> list[View]:
        return [self.out, *itertools.chain.from_iterable(self.pairs)]

    def mapped(self, move: Callable[[View], View], renumber: Renumber | None = None) -> Link:
        return Link(move(self.out), [(move(target), move(source)) for target, source in self.pairs])

    # --- what passes ask ----------------------------------------------------------------------

    @property
    def pieces(self) -> list[tuple[View, View]]:
        """The pairs if the targets, each in C order, are contiguous in the output."""
        for target, source in self.pairs:
            whole = target.is_contiguous and target.shape == source.shape
            if not whole or target.base != ARENA:
                return []
        at = self.out.offset
        for target in sorted((t for t, _ in self.pairs), key=lambda t: t.offset):
            if target.offset != at:
                return []
            at += target.size
        return self.pairs if at == self.out.offset + self.out.size else []

    @property
    def summed(self) -> tuple[View, View] | None:
        """The pair if it is a sum along axes: not one into windows."""
        if len(self.pairs) != 1 or self.pairs[0][0].size <= self.out.size:
            return None
        target, _ = self.pairs[0]
        kept = [(n, s) for n, s in zip(target.shape, target.strides, strict=True) if s]
        found = View(target.offset, tuple(n for n, _ in kept), tuple(s for _, s in kept))
        return self.pairs[0] if found.size == self.out.size and is_injective(found) else None

    def is_linear(self, wanted: Any) -> bool:
        return True

    # --- how it is made a part ----------------------------------------------------------------

    @property
    def pattern(self) -> tuple:
        return (len(self.pairs),)

    def is_small(self, elements: int, products: int) -> bool:
        return sum(v.size for v in self.views_read) <= products and self.out.size <= elements

    def expand(self, numbers: Any) -> None:
        targets = [slots_of(target).ravel() for target, _ in self.pairs]
        sources = [numbers.of(source).ravel() for _, source in self.pairs]
        numbers.place[slots_of(self.out)] = numbers.zero
        if targets:
            numbers.sum(np.concatenate(targets), np.concatenate(sources))

    # --- files --------------------------------------------------------------------------------

    def check(self, memory: Memory) -> None:
        memory.fits(self.out)
        whole = [target for target, _ in self.pairs] == [self.out]
        expect(whole or self.out.is_contiguous, "the result is not in C order")
        for target, source in self.pairs:
            memory.read(source)
            expect(target.shape == source.shape, "what is linked has another shape")
            if not whole:
                memory.lies_in(target, self.out)
        memory.write_each(self.out)

    # --- what it costs, and how it is shown -----------------------------------------------------

    @property
    def work(self) -> Work:
        return Work(1, moved=float(sum(source.size for _, source in self.pairs)))

    @property
    def label(self) -> str:
        return "sum" if any(target.size > self.out.size for target, _ in self.pairs) else "join"

"""Statements that compute operations of the table: every generator of code takes them from here.

A generator says what stands for the inputs in its code, and gets expressions of the value, of
partial derivatives, adjoints or tangents. An adjoint of exactly 0 passes on 0 (`partial_products`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .partial_products import in_branches, product, selects, symmetric_product, taken
from .table import ValueAndPartials


def renamed(text: str, place: Callable[[str], str | None]) -> str:
    """A text with others in the places of its names; those after a dot are NumPy's.

    `place` gives what stands for a name, None for one that stays.
    """
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda found: place(found[0]) or found[0], text)


class ElementwiseText:
    """Expressions of an operation in the names of the code that they become part of.

    `place` gives what stands for an input, or for `out`: None if that is the name itself. The steps
    that an expression reads are written when it is made, each once, and have names as the format
    `step` says. `wanted` are inputs by number; there is nothing for one whose partial derivative is
    0 everywhere.
    """

    def __init__(
        self,
        op: ValueAndPartials,
        write: Callable[[str], None],
        place: Callable[[str], str | None] = lambda _: None,
        step: str = "{}",
    ):
        self.op = op
        self._write, self._place, self._step = write, place, step
        self._steps: dict[str, str] = {}

    def expressions(self, *texts: str) -> list[str]:
        """Expressions of the declaration."""
        for name, text in self.op.needed(*texts):
            if name not in self._steps:
                made = self._renamed(text)  # which may write too
                self._steps[name] = self._step.format(name)
                self._write(f"{self._steps[name]} = {made}")
        return [self._renamed(text) for text in texts]

    def _renamed(self, text: str) -> str:
        return renamed(text, lambda name: self._steps.get(name) or self._place(name))

    def value(self) -> str:
        return self.expressions(self.op.value)[0]

    def slopes(self, wanted: Iterable[int]) -> dict[int, str]:
        """Partial derivatives by input."""
        found = [j for j in wanted if j in self.op.sloping]
        texts = self.expressions(*[self.op.partials[j] for j in found])
        return dict(zip(found, texts, strict=True))

    def formed(self, wanted: Iterable[int], form: Callable[[str], str]) -> dict[int, str]:
        """The same, `form` being applied to them, or to the branches of those that select."""
        return {j: in_branches(slope, form) for j, slope in self.slopes(wanted).items()}

    def adjoint(self, g: str, wanted: Iterable[int], nonzero: bool = False) -> dict[int, str]:
        """What inputs get of the output's adjoint, a name; `nonzero` says that it is not 0."""
        slopes = self.slopes(wanted).items()
        return {j: product(g, slope, nonzero) for j, slope in slopes}

    def tangent(self, tangents: dict[int, str]) -> str:
        """The tangent of the output from those of inputs, which are names."""
        parts = []
        for j, slope in self.slopes(tangents).items():
            if not self.op.signs[j]:
                self._write(f"p{j} = {slope}")
                slope = f"p{j}"
            parts.append(symmetric_product(tangents[j], slope))
        return " + ".join(parts)


def flagged(partial: str, bit: int) -> list[str]:
    """A statement that sets a bit of `flat` where a partial derivative is 0 for any adjoint, since
    another operand or piece was taken; none if it is nowhere."""
    return [f"flat |= select({taken(partial)}, 0, {bit})"] if selects(partial) else []

"""Statements that compute operations of the table: every generator of code takes them from here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..codegen.vector_math import OF_SCIPY
from .elementwise import STEERING
from .table import (
    POWERS,
    TABLE,
    Pointwise,
    ValueAndPartials,
    in_branches,
    product,
    selects,
    symmetric_product,
    taken,
    words_of,
)

# --------------------------------------------------------------------------------------------------
# Statements that compute operations of the table: every generator of code takes them from here.
# A generator says what stands for the inputs in its code, and gets expressions of the value, of
# partial derivatives, adjoints or tangents. An adjoint of exactly 0 passes on 0
# (see `table`).


def renamed(text: str, place: Callable[[str], str | None]) -> str:
    """A text with others in the places of its names; those after a dot are NumPy's.

    `place` gives what stands for a name, None for one that stays.
    """
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda found: place(found[0]) or found[0], text)


class ElementwiseText:
    """Expressions of an operation in the names of the code that they become part of.

    `place` gives what stands for an input, or for `out`: None if that is the name itself; without
    it all are. The steps that an expression reads are written when it is made, each once, and have
    names as the format `step` says. `wanted` are inputs by number; there is nothing for one whose
    partial derivative is 0 everywhere.
    """

    def __init__(
        self,
        op: ValueAndPartials,
        write: Callable[[str], None],
        place: Callable[[str], str | None] | None = None,
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
        place, steps = self._place, self._steps
        if place is None:
            same = all(name == step for name, step in steps.items())
            return text if same else renamed(text, steps.get)
        return renamed(text, lambda name: steps.get(name) or place(name))

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


# --------------------------------------------------------------------------------------------------
# The cases of interpreters' switches over element-wise operations, generated from the table.


def declared() -> list[Pointwise]:
    """The operations of the cases."""
    every = (*TABLE.values(), *STEERING.values(), *POWERS.values())
    return [op for op in every if isinstance(op, Pointwise) and not op.is_apart]


def of_numbers() -> list[Pointwise]:
    """Those that rows of numbers may hold."""
    return [op for op in declared() if op.of_numbers]


def is_elementary(op: Pointwise) -> bool:
    """Whether an operation does without functions of SciPy, whose import takes long."""
    texts = [op.value, *op.partials]
    return OF_SCIPY.keys().isdisjoint(words_of(*texts, *[text for _, text in op.needed(*texts)]))


def value_cases(ops: Iterable[Pointwise] | None = None) -> str:
    """Cases that return the value of the operation `code`; operands are x, y and z."""
    return _cases(_value, ops)


def adjoint_cases(*adjoints: str, ops: Iterable[Pointwise] | None = None) -> str:
    """Cases that add g times each partial derivative of the operation `code`, and return.

    `adjoints` are texts of targets: the adjoints of x, y and z. g is not 0. Nothing is added where
    the partial derivative is 0 everywhere, even for an infinite g.
    """
    return _cases(lambda op: _adjoints(op, adjoints), ops)


def _cases(lines_of: Callable[[Pointwise], list[str]], ops: Iterable[Pointwise] | None) -> str:
    cases = []
    for op in declared() if ops is None else ops:
        lines = [f"    if code == {op.code}:"]
        lines += [f"        {text}" for text in lines_of(op)]
        cases.append("\n".join(lines))
    return "\n".join(cases)


def _value(op: Pointwise) -> list[str]:
    lines: list[str] = []
    value = ElementwiseText(op, lines.append).value()
    return [*lines, f"return {value}"]


def _adjoints(op: Pointwise, adjoints: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    parts = ElementwiseText(op, lines.append).adjoint("g", op.sloping, nonzero=True)
    return [*lines, *[f"{adjoints[j]} += {part}" for j, part in parts.items()], "return"]

"""Expressions of the table combined, and their partial derivatives.

A user's operation is a list of lines, each an expression of inputs and of earlier lines, without
duplicates. Its partial derivatives follow from those of the table by the chain rule, from the last
line to the first.
"""

from __future__ import annotations

import ast
import functools

import numpy as np

from ..codegen.parsing import expression_in
from ..codegen.special_values import NO_PARTIAL
from .partial_products import selects, taken
from .table import Pointwise, needed

_ONES = {"1.0": 1.0, "-1.0": -1.0}


class Number(str):
    """An expression that stands for a number: the name of an input or a line, or a constant."""

    __slots__ = ()


class Test(str):
    """The name of a line that is true or false."""

    __slots__ = ()
    __test__ = False


def constant(value) -> Number:
    """A Python number as an expression."""
    value = float(value)
    if value != value:
        return Number("(1e999 - 1e999)")
    if value in (float("inf"), float("-inf")):
        return Number("1e999" if value > 0 else "-1e999")
    return Number(repr(value))


def is_constant(number: str) -> bool:
    return not number[0].isalpha()


@functools.lru_cache(4096)
def _parsed(expression: str):
    return expression_in(expression)


class _Put(ast.NodeTransformer):
    def __init__(self, places):
        self.places = places

    def visit_Name(self, node):
        return _parsed(self.places[node.id]) if node.id in self.places else node


def put(expression: str, places) -> str:
    """An expression with others in the places of its names."""
    return ast.unparse(_Put(places).visit(expression_in(expression)))


class Lines:
    """The lines of an operation under construction."""

    def __init__(self):
        self.steps: list[tuple[str, str]] = []
        self._names: dict = {}
        self._made: dict[str, tuple] = {}  # line → what made it, with its operands

    def _line(self, key, text: str) -> str:
        if key not in self._names:
            self._names[key] = f"s{len(self.steps)}"
            self.steps.append((self._names[key], text))
        return self._names[key]

    def number(self, text: str) -> Number:
        """A line through which no derivative passes."""
        return Number(self._line(text, text))

    def test(self, text: str) -> Test:
        return Test(self._line(text, text))

    def tested(self, op: Pointwise, operands) -> Test:
        """What an operation tests, whose value is 1.0 where it holds."""
        return self.test(put(op.test, dict(zip(op.inputs, operands, strict=True))))

    def both(self, a: Test, b: Test) -> Test:
        return a if a == b else self.test(f"{a} & {b}")

    def either(self, a: Test, b: Test) -> Test:
        return a if a == b else self.test(f"{a} | {b}")

    def negation(self, test: Test) -> Test:
        return self.test(f"{test} != True")

    def _steps_of(self, op: Pointwise, places: dict, expression: str) -> str:
        """An expression of an operation with its operands, its steps made lines."""
        for name, text in op.needed(expression):
            if name not in places:
                places[name] = self.number(put(text, places))
        return put(expression, places)

    def apply(self, op: Pointwise, operands) -> Number:
        """The value of an operation."""
        key = (op.name, *operands)
        if key not in self._names:
            text = self._steps_of(op, dict(zip(op.inputs, operands, strict=True)), op.value)
            made = self._line(key, text)
            self._made[made] = (op, operands)
        return Number(self._names[key])

    def select(self, test: Test, x: Number, y: Number) -> Number:
        """`x` where the test holds, else `y`."""
        if x == y:
            return x
        made = self.number(f"select({test}, {x}, {y})")
        self._made[made] = (test, (x, y))
        return made

    # --- partials -----------------------------------------------------------------------------

    def partials(self, out: Number, inputs) -> list[str]:
        """The partial derivatives of a line with respect to inputs."""
        adjoints: dict[str, str] = {out: "1.0"}
        live: dict[str, Test] = {}  # adjoints that are 0 unless a test holds
        for line, (op, operands) in reversed(list(self._made.items())):
            adjoint = adjoints.pop(line, None)
            if adjoint is None:
                continue
            if adjoint.startswith(NO_PARTIAL):
                parts = [adjoint] * len(operands)
            elif isinstance(op, Test):
                parts = self._branches(op, adjoint, live)
            else:
                parts = self._parts(op, operands, line, adjoint, live)
            for operand, part in zip(operands, parts, strict=True):
                if part != "0.0" and not is_constant(operand):
                    before = adjoints.get(operand)
                    adjoints[operand] = part if before is None else self._sum(before, part, live)
        return [str(self._selected(adjoints.get(name, "0.0"), live)) for name in inputs]

    def _selected(self, adjoint: str, live: dict[str, Test]) -> str:
        """A partial derivative, as one that selects if it is 0 unless a test holds."""
        if adjoint not in live or selects(dict(self.steps).get(adjoint, "")):
            return adjoint
        return self.number(f"select({live[adjoint]}, {adjoint}, 0.0)")

    def _sum(self, first: str, second: str, live) -> str:
        for one in (first, second):  # where there is none, there is none of what it is part of
            if one.startswith(NO_PARTIAL):
                return one
        total = self.number(f"{first} + {second}")
        if first in live and second in live:
            live[total] = self.either(live[first], live[second])
        return total

    def _branches(self, test, adjoint, live):
        parts = []
        for branch in (test, self.negation(test)):
            part = self.number(f"select({branch}, {adjoint}, 0.0)")
            live[part] = self.both(live[adjoint], branch) if adjoint in live else branch
            parts.append(part)
        return parts

    def _parts(self, op, operands, line, adjoint, live):
        """Adjoint times partial derivative, for each operand."""
        places = dict(zip((*op.inputs, "out"), (*operands, line), strict=True))
        parts = []
        for operand, partial in zip(operands, op.partials, strict=True):
            if is_constant(operand) or partial == "0.0":
                parts.append("0.0")
                continue
            if partial.startswith(NO_PARTIAL):
                parts.append(partial)
                continue
            text = self._steps_of(op, places, partial)
            value = text if text in _ONES or is_name(text) else self.number(text)
            here = live.get(adjoint)
            if selects(text):
                test = self.test(taken(text))
                here = test if here is None else self.both(here, test)
            part = self._product(adjoint, value, here)
            if here is not None:
                live[part] = here
            parts.append(part)
        return parts

    def _product(self, adjoint: str, partial: str, live: Test | None) -> str:
        """Where a branch is not taken the product is 0 whatever the partial derivative is."""
        if partial in _ONES or adjoint in _ONES:
            sign = _ONES[partial] if partial in _ONES else _ONES[adjoint]
            other = adjoint if partial in _ONES else partial
            return other if sign > 0 else self._negative(other)
        text = f"{adjoint} * {partial}"
        return self.number(f"select({live}, {text}, 0.0)" if live else text)

    def _negative(self, number: str) -> str:
        if number in _ONES:
            return "1.0" if number == "-1.0" else "-1.0"
        return self.number(f"-{number}")


def is_name(text: str) -> bool:
    return text.isidentifier()


def fold(op: Pointwise, function, operands) -> Number | None:
    """The value of an operation on constants, None if an operand is none."""
    if not all(map(is_constant, operands)):
        return None
    with np.errstate(all="ignore"):
        return constant(function(*[eval(str(number)) for number in operands]))


def declaration(lines: Lines, out: Number, partials) -> tuple:
    """Value, partial derivatives and steps of an operation whose value is a line.

    The line is the operation's `out`, so that the partial derivatives need not compute it again.
    """
    texts = dict(lines.steps)
    value = texts.pop(out, str(out))
    renamed = {out: "out"} if out in dict(lines.steps) else {}
    partials = [texts[one] if selects(texts.get(one, "")) else one for one in partials]
    kept = [
        (name, put(text, renamed) if renamed else text)
        for name, text in needed(texts.items(), value, *partials)
    ]
    partials = tuple(put(one, renamed) if renamed else one for one in partials)
    return value, partials, tuple(kept)

"""Expressions of the table combined, and their partial derivatives, first and second."""

from __future__ import annotations

import ast
import dataclasses
import functools

import numpy as np

from ..codegen.sources import ARITHMETIC, expression_in
from ..codegen.vector_math import NO_PARTIAL
from . import powers
from .table import STEERING, TABLE, Pointwise, ValueAndPartials, in_branches, needed, selects, taken

# --- Expressions of the table combined, and their partial derivatives -----------------------------
# A user's operation is a list of lines, each an expression of inputs and of earlier lines, without
# duplicates. Its partial derivatives follow from those of the table by the chain rule, from the
# last line to the first.


_ONES = {"1.0": 1.0, "-1.0": -1.0}


class NumberExpression(str):
    """An expression that stands for a number: the name of an input or a line, or a constant."""

    __slots__ = ()


class Test(str):
    """The name of a line that is true or false."""

    __slots__ = ()
    __test__ = False


def constant(value) -> NumberExpression:
    """A Python number as an expression."""
    value = float(value)
    if value != value:
        return NumberExpression("(1e999 - 1e999)")
    if value in (float("inf"), float("-inf")):
        return NumberExpression("1e999" if value > 0 else "-1e999")
    return NumberExpression(repr(value))


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


class OperationLines:
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

    def number(self, text: str) -> NumberExpression:
        """A line through which no derivative passes."""
        return NumberExpression(self._line(text, text))

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

    def apply(self, op: Pointwise, operands) -> NumberExpression:
        """The value of an operation."""
        key = (op.name, *operands)
        if key not in self._names:
            text = self._steps_of(op, dict(zip(op.inputs, operands, strict=True)), op.value)
            made = self._line(key, text)
            self._made[made] = (op, operands)
        return NumberExpression(self._names[key])

    def select(self, test: Test, x: NumberExpression, y: NumberExpression) -> NumberExpression:
        """`x` where the test holds, else `y`."""
        if x == y:
            return x
        made = self.number(f"select({test}, {x}, {y})")
        self._made[made] = (test, (x, y))
        return made

    # --- partials -----------------------------------------------------------------------------

    def partials(self, out: NumberExpression, inputs) -> list[str]:
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


def fold(op: Pointwise, function, operands) -> NumberExpression | None:
    """The value of an operation on constants, None if an operand is none."""
    if not all(map(is_constant, operands)):
        return None
    with np.errstate(all="ignore"):
        return constant(function(*[eval(str(number)) for number in operands]))


def declaration(lines: OperationLines, out: NumberExpression, partials) -> tuple:
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


# --- Second partial derivatives of element-wise operations, derived from the first ones -----------
# The partial derivative of each partial derivative with respect to each input is derived, with the
# output eliminated by the chain rule. At points without derivative the conventions of the first
# partial derivatives hold.


_COMPARED: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class UnreadableError(ValueError):
    """An expression uses something that the table lacks."""


@functools.cache
def _functions() -> dict[str, Pointwise]:
    """Operations of the table by the name of the NumPy function that their value calls."""
    found = {}
    for op in [*TABLE.values(), *STEERING.values()]:  # to which imports add
        if isinstance(op, Pointwise):
            name = op.value.partition("(")[0].removeprefix("np.")
            if op.value == f"np.{name}({', '.join(op.inputs)})":
                found[name] = op
    return found


class _ExpressionReader(OperationLines):
    """Expressions of an operation, parsed as uses of others whose partial derivatives are known."""

    def __init__(self, op: Pointwise):
        super().__init__()
        self.names: dict[str, NumberExpression | Test] = {
            name: NumberExpression(name) for name in (*op.inputs, "out")
        }
        self._names[(op.name, *op.inputs)] = "out"
        for name, text in op.steps:
            self.names[name] = self.read(text, self.names)

    def read(self, text: str, names) -> NumberExpression | Test:
        """An expression, with lines in the places of its names."""
        return self._read(expression_in(text), names)

    def _read(self, node, names) -> NumberExpression | Test:
        match node:
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Constant(value=bool()):
                raise UnreadableError(ast.unparse(node))
            case ast.Constant(value=value):
                return constant(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.apply(TABLE["negative"], [self._number(operand, names)])
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self.both(self._test(left, names), self._test(right, names))
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.either(self._test(left, names), self._test(right, names))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
                pair = [self._number(left, names), self._number(right, names)]
                return self.apply(TABLE[ARITHMETIC[type(sign)]], pair)
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return self._compared(left, sign, right, names)
            case ast.Call(func=ast.Name(id="select"), args=[condition, first, second]):
                test = self._test(condition, names)
                return self.select(test, self._number(first, names), self._number(second, names))
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _functions():
                return self.apply(_functions()[name], [self._number(one, names) for one in args])
        raise UnreadableError(ast.unparse(node))

    def _compared(self, left, sign, right, names) -> Test:
        if isinstance(right, ast.Constant) and right.value is True:
            return self.negation(self._test(left, names))
        pair = [self._number(left, names), self._number(right, names)]
        return self.test(f"{pair[0]} {_COMPARED[type(sign)]} {pair[1]}")

    def _number(self, node, names) -> NumberExpression:
        found = self._read(node, names)
        if not isinstance(found, NumberExpression):
            raise UnreadableError(ast.unparse(node))
        return found

    def _test(self, node, names) -> Test:
        found = self._read(node, names)
        if not isinstance(found, Test):
            raise UnreadableError(ast.unparse(node))
        return found

    def apply(self, op: Pointwise, operands) -> NumberExpression:
        """The value of an operation; of constants, as NumPy computes it."""
        if all(map(is_constant, operands)) and op.name in ("negative", *ARITHMETIC.values()):
            with np.errstate(all="ignore"):
                numbers = dict(zip(op.inputs, [np.float64(eval(o)) for o in operands], strict=True))
                return constant(eval(op.value, numbers))
        if op.name == "power" and is_constant(operands[1]):
            chosen = powers.OF_NUMBERS.get(eval(operands[1]))
            op, operands = (op, operands) if chosen is None else (chosen, operands[:1])
        key = (op.name, *operands)
        if key not in self._names:
            made = self._line(key, put(op.value, dict(zip(op.inputs, operands, strict=True))))
            self._made[made] = op, operands
        return NumberExpression(self._names[key])

    def _steps_of(self, op: Pointwise, places: dict, expression: str) -> str:
        names: dict[str, NumberExpression | Test] = {
            name: NumberExpression(x) for name, x in places.items()
        }
        for name, text in op.needed(expression):
            names[name] = self.read(text, names)
        return self.read(expression, names)

    def sum(self, first: str, second: str) -> str:
        if "0.0" in (first, second):
            return second if first == "0.0" else first
        return self.apply(TABLE["add"], [NumberExpression(first), NumberExpression(second)])

    def product(self, first: str, second: str) -> str:
        if "0.0" in (first, second):
            return "0.0"
        if "1.0" in (first, second):
            return second if first == "1.0" else first
        return self.apply(TABLE["multiply"], [NumberExpression(first), NumberExpression(second)])


@dataclasses.dataclass(frozen=True)
class Partials(ValueAndPartials):
    """First and second partial derivatives of an operation as names of steps, or constants.

    `second[k][j]` is the derivative of partial derivative k with respect to input j. The names of
    steps differ from the operation's own.
    """

    inputs: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    partials: tuple[str, ...]
    second: tuple[tuple[str, ...], ...]

    def selection(self, name: str) -> str:
        """A name, or in its place the branches of a step that selects; they are read by it."""
        text = dict(self.steps).get(name, name)
        return in_branches(text, self.selection) if selects(text) else name


@functools.lru_cache(None)
def partials_of(op: Pointwise) -> Partials | None:
    """The partial derivatives of an operation; None if one of them cannot be parsed."""
    try:
        reader = _ExpressionReader(op)
        first = [NumberExpression(reader.read(partial, reader.names)) for partial in op.partials]
    except UnreadableError:
        return None
    second = []
    for partial in first:
        *direct, through = reader.partials(partial, [*op.inputs, "out"])
        parts = [reader.product(through, own) for own in first]
        second.append(tuple(str(reader.sum(d, p)) for d, p in zip(direct, parts, strict=True)))
    return Partials(op.inputs, tuple(reader.steps), tuple(map(str, first)), tuple(second))

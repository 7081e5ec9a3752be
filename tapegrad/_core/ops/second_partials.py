"""Second partial derivatives of element-wise operations, derived from the first ones.

The partial derivative of each partial derivative with respect to each input is derived, with the
output eliminated by the chain rule. At points without derivative the conventions of the first
partial derivatives hold.
"""

from __future__ import annotations

import ast
import dataclasses
import functools

import numpy as np

from ..codegen.parsing import ARITHMETIC, expression_in
from . import powers
from .partial_products import in_branches, selects
from .symbolic import Lines, Number, Test, constant, is_constant, put
from .table import STEERING, TABLE, Pointwise, ValueAndPartials

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


class _Reader(Lines):
    """Expressions of an operation, parsed as uses of others whose partial derivatives are known."""

    def __init__(self, op: Pointwise):
        super().__init__()
        self.names: dict[str, Number | Test] = {name: Number(name) for name in (*op.inputs, "out")}
        self._names[(op.name, *op.inputs)] = "out"
        for name, text in op.steps:
            self.names[name] = self.read(text, self.names)

    def read(self, text: str, names) -> Number | Test:
        """An expression, with lines in the places of its names."""
        return self._read(expression_in(text), names)

    def _read(self, node, names) -> Number | Test:
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

    def _number(self, node, names) -> Number:
        found = self._read(node, names)
        if not isinstance(found, Number):
            raise UnreadableError(ast.unparse(node))
        return found

    def _test(self, node, names) -> Test:
        found = self._read(node, names)
        if not isinstance(found, Test):
            raise UnreadableError(ast.unparse(node))
        return found

    def apply(self, op: Pointwise, operands) -> Number:
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
        return Number(self._names[key])

    def _steps_of(self, op: Pointwise, places: dict, expression: str) -> str:
        names: dict[str, Number | Test] = {name: Number(x) for name, x in places.items()}
        for name, text in op.needed(expression):
            names[name] = self.read(text, names)
        return self.read(expression, names)

    def sum(self, first: str, second: str) -> str:
        if "0.0" in (first, second):
            return second if first == "0.0" else first
        return self.apply(TABLE["add"], [Number(first), Number(second)])

    def product(self, first: str, second: str) -> str:
        if "0.0" in (first, second):
            return "0.0"
        if "1.0" in (first, second):
            return second if first == "1.0" else first
        return self.apply(TABLE["multiply"], [Number(first), Number(second)])


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
        reader = _Reader(op)
        first = [Number(reader.read(partial, reader.names)) for partial in op.partials]
    except UnreadableError:
        return None
    second = []
    for partial in first:
        *direct, through = reader.partials(partial, [*op.inputs, "out"])
        parts = [reader.product(through, own) for own in first]
        second.append(tuple(str(reader.sum(d, p)) for d, p in zip(direct, parts, strict=True)))
    return Partials(op.inputs, tuple(reader.steps), tuple(map(str, first)), tuple(second))

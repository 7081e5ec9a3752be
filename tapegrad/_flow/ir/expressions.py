"""Expressions of the table composed of operations, by any maker: steps, code.

A maker has two functions, those of `Builder`: `step(op, *operands)` gives the result of an
operation of a graph, `constant(number)` a float as a value. The elementary operations of an
expression are element-wise ones of the table too, so that the value of `add` is `add` itself.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.codegen.sources import ARITHMETIC, expression_in
from ..._core.codegen.vector_math import Maker, refuse
from ..._core.ops.table import Pointwise, branches, selects
from ..kinds.step_kinds import StepKind

_LOGIC: dict[type, str] = {ast.BitAnd: "bool_and", ast.BitOr: "bool_or", ast.NotEq: "bool_xor"}
#: A comparison, and whether its operands change places.
_COMPARISONS: dict[type, tuple[str, bool]] = {
    ast.Lt: ("float_less", False),
    ast.LtE: ("float_less_equal", False),
    ast.Gt: ("float_less", True),
    ast.GtE: ("float_less_equal", True),
    ast.Eq: ("float_equal", False),
    ast.NotEq: ("float_equal", False),
}
#: Operations whose value is an operation of the expression language under their own name.
ELEMENTARY = frozenset(("add", "subtract", "multiply", "divide", "negative"))


@functools.lru_cache(4096)
def parsed(expression: str) -> Any:
    """The syntax tree of an expression."""
    return expression_in(expression)


@functools.lru_cache(4096)
def is_elementary(op: Pointwise) -> bool:
    """Whether an expression calls the operation by its name: it is not composed of others."""
    return op.name in ELEMENTARY or op.value == f"np.{op.name}({', '.join(op.inputs)})"


def value(op: Pointwise, operands: Sequence[Any], maker: Maker) -> Any:
    """The value of an operation, composed of others."""
    reading = _Reading(maker, dict(zip(op.inputs, operands, strict=True)))
    return reading.last(op, op.value)[0]


def tested(op: Pointwise, operands: Sequence[Any], maker: Maker) -> Any:
    """The truth that an operation is, whose value is 1.0 where a condition holds."""
    return _Reading(maker, dict(zip(op.inputs, operands, strict=True))).last(op, op.test)[0]


def products_of(
    op: StepKind,
    operands: Sequence[Any],
    out: Any,
    wanted: Sequence[bool],
    product: Callable[[int, str, Callable[[], Any]], Any],
    maker: Maker,
) -> dict[int, Any]:
    """The product of something and the partial derivative by each operand wanted.

    `product(k, text, made)` gives it for operand k and a partial derivative with that text, whose
    value is `made()`. Of one that selects it is that of the branch taken, 0 for a branch of 0.
    """
    reading = _Reading(maker, dict(zip((*op.inputs, "out"), (*operands, out), strict=True)))
    chosen = {k: op.partials[k] for k in op.sloping if wanted[k]}
    for partial in chosen.values():
        refuse(partial)
    reading.begin(op, *chosen.values())

    def of(k: int, partial: str) -> Any:
        if partial == "0.0":
            return maker.constant(0.0)
        found = branches(partial) if selects(partial) else None
        if found is None:
            return product(k, partial, lambda: reading.of(parsed(partial))[0])
        condition = reading.of(parsed(found[0]))[0]
        return maker.step("float_select", condition, of(k, found[1]), of(k, found[2]))

    return {k: of(k, partial) for k, partial in chosen.items()}


class _Reading:
    """An expression made; each part comes with whether it is a truth."""

    def __init__(self, maker: Maker, names: dict[str, Any]):
        self.maker, self.names = maker, {name: (given, False) for name, given in names.items()}

    def begin(self, op: Pointwise | StepKind, *expressions: str) -> None:
        """The steps that expressions share."""
        for name, text in op.needed(*expressions):
            self.names[name] = self.of(parsed(text))

    def last(self, op: Pointwise, expression: str) -> tuple[Any, bool]:
        self.begin(op, expression)
        return self.of(parsed(expression))

    def of(self, node: Any) -> tuple[Any, bool]:
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return self.maker.constant(float(node.value)), False
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = node.operand
            if isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)):
                return self.maker.constant(-float(inner.value)), False
            return self.maker.step("negative", self.of(inner)[0]), False
        if isinstance(node, ast.BinOp):
            kind: type = type(node.op)
            logic = kind in _LOGIC
            op = _LOGIC[kind] if logic else ARITHMETIC[kind]
            return self.maker.step(op, self.of(node.left)[0], self.of(node.right)[0]), logic
        if isinstance(node, ast.Compare):
            return self._comparison(node), True
        if isinstance(node, ast.Call):
            return self._call(node)
        raise NotImplementedError(ast.unparse(node))

    def _comparison(self, node: ast.Compare) -> Any:
        left, of_truths = self.of(node.left)
        (kind,), (other,) = map(type, node.ops), node.comparators
        if isinstance(other, ast.Constant) and other.value is True and kind is ast.NotEq:
            return self.maker.step("bool_not", left)
        right = self.of(other)[0]
        if of_truths:
            return self.maker.step(_LOGIC[kind], left, right)
        op, turned = _COMPARISONS[kind]
        holds = self.maker.step(op, *((right, left) if turned else (left, right)))
        return self.maker.step("bool_not", holds) if kind is ast.NotEq else holds

    def _call(self, node: ast.Call) -> tuple[Any, bool]:
        operands = [self.of(one) for one in node.args]
        given = [one for one, _ in operands]
        if isinstance(node.func, ast.Attribute):
            return self.maker.step(node.func.attr, *given), False
        truths = operands[-1][1]
        return self.maker.step("bool_select" if truths else "float_select", *given), truths

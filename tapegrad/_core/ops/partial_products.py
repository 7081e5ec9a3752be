"""Products of adjoints and partial derivatives, some of which select.

A partial derivative with a branch `0.0`, such as `select(x > y, 1.0, 0.0)`, selects: in this branch
another operand or piece was taken, and the value does not depend on the input. The product is 0
there whatever the adjoint, infinite or NaN. Any other partial derivative that happens to be 0 gives
NaN for an infinite adjoint, as in IEEE arithmetic.

Derivatives of a branch `0.0` are 0 as well. A partial derivative that is 0 at a point, but not its
own derivatives, is an expression there, such as `y / x` where y = 0.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

from ..codegen.parsing import expression_in


@functools.lru_cache(4096)
def branches(expression: str) -> tuple[str, str, str] | None:
    """The condition and the two branches of an expression that is a `select`, else None."""
    if "select(" not in expression:
        return None
    node = expression_in(expression)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "select":
        condition, first, second = map(ast.unparse, node.args)
        return condition, first, second
    return None


@functools.lru_cache(4096)
def selects(partial: str) -> bool:
    """Whether a partial derivative has a branch in which it is 0 whatever the adjoint."""
    found = branches(partial)
    return found is not None and any(one == "0.0" or selects(one) for one in found[1:])


@functools.lru_cache(4096)
def taken(partial: str) -> str:
    """The condition under which a partial derivative is not in a branch `0.0`."""
    found = branches(partial) if selects(partial) else None
    if found is None:
        return "False" if partial == "0.0" else "True"
    condition, first, second = found[0], taken(found[1]), taken(found[2])
    parts = [f"({condition})" if first == "True" else f"({condition}) & ({first})"]
    parts = [] if first == "False" else parts
    if second != "False":
        other = f"(({condition}) != True)"
        parts.append(other if second == "True" else f"{other} & ({second})")
    return " | ".join(f"({part})" for part in parts)


def in_branches(partial: str, each: Callable[[str], str]) -> str:
    """An expression in which `each` was applied to the branches of a selection, or to all of it."""
    found = branches(partial) if selects(partial) else None
    if found is None:
        return each(partial)
    condition, *both = found
    first, second = [one if one == "0.0" else in_branches(one, each) for one in both]
    return f"select({condition}, {first}, {second})"


def product(adjoint: str, partial: str, nonzero: bool = False) -> str:
    """Text of an adjoint, a name, times a partial derivative; `nonzero` says that it is not 0.

    An adjoint of exactly 0 gives 0 however steep the partial derivative.
    """
    return in_branches(partial, functools.partial(_plain_product, adjoint, nonzero))


def _plain_product(adjoint: str, nonzero: bool, partial: str) -> str:
    number = number_in(partial)
    if number in (1.0, -1.0):
        return adjoint if number == 1.0 else f"(-{adjoint})"
    if nonzero or number is not None:
        return f"{adjoint} * ({partial})"
    return f"select({adjoint} == 0.0, 0.0, {adjoint} * ({partial}))"


def symmetric_product(tangent: str, partial: str) -> str:
    """Text of a tangent times a partial derivative, names or 1.0 or -1.0: 0 where either is 0."""
    if partial in ("1.0", "-1.0"):
        return tangent if partial == "1.0" else f"-{tangent}"
    return f"select(({tangent} == 0.0) | ({partial} == 0.0), 0.0, {tangent} * {partial})"


@functools.lru_cache(4096)
def number_in(partial: str) -> float | None:
    """The value of a constant, which is finite; None for other expressions."""
    node, sign = expression_in(partial), 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return sign * value if abs(value) < float("inf") else None

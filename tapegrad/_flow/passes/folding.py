"""Steps whose result is known: a constant, or one of their operands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from ..ir.block_builder import rounded_to_single
from ..ir.flow_graph import Value

Number = float | int | bool
Operands = tuple[Value, ...]


def _whole(compute: Callable) -> Callable:
    """None where a result does not fit, or does not exist: the step leaves the graph."""

    def folded(*operands: int) -> int | None:
        try:
            result = compute(*operands)
        except ZeroDivisionError:
            return None
        return result if -(2**63) <= result < 2**63 else None

    return folded


def _finite(compute: Callable) -> Callable:
    """None if a result is no number."""

    def folded(*operands: float) -> float | None:
        try:
            result = compute(*operands)
        except ZeroDivisionError:
            return None
        return result if math.isfinite(result) else None

    return folded


def _truncated(x: float) -> int | None:
    return int(x) if abs(x) < 2.0**63 else None


def _selected(condition: bool, x, y):
    return x if condition else y


#: The result of a step on constants; None where the step stays.
EXACT: dict[str, Callable[..., Number | None]] = {
    "int_add": _whole(operator.add),
    "int_subtract": _whole(operator.sub),
    "int_multiply": _whole(operator.mul),
    "int_floor_divide": _whole(operator.floordiv),
    "int_remainder": _whole(operator.mod),
    "int_negative": _whole(operator.neg),
    "int_absolute": _whole(operator.abs),
    "int_min": min,
    "int_max": max,
    "int_and": operator.and_,
    "int_or": operator.or_,
    "int_xor": operator.xor,
    **{f"{kind}_equal": operator.eq for kind in ("int", "float")},
    **{f"{kind}_less": operator.lt for kind in ("int", "float")},
    **{f"{kind}_less_equal": operator.le for kind in ("int", "float")},
    "is_finite": math.isfinite,
    "bool_and": operator.and_,
    "bool_or": operator.or_,
    "bool_xor": operator.xor,
    "bool_not": operator.not_,
    "int_to_float": float,
    "bool_to_int": int,
    "to_single": _finite(rounded_to_single),
    "float_to_int": _truncated,
    "add": _finite(operator.add),
    "subtract": _finite(operator.sub),
    "multiply": _finite(operator.mul),
    "divide": _finite(operator.truediv),
    "negative": _finite(operator.neg),
    "absolute": _finite(operator.abs),
    **{f"{kind}_select": _selected for kind in ("float", "int", "bool")},
}
#: An operand that gives the other one, on both sides; on the right alone.
_NEUTRAL = {"int_add": 0, "int_multiply": 1, "bool_and": True, "bool_or": False, "bool_xor": False}
_NEUTRAL_RIGHT = {**_NEUTRAL, "int_subtract": 0, "int_floor_divide": 1}
#: An operand that is the result whatever the other one is.
_ABSORBING = {"int_multiply": 0, "bool_and": False, "bool_or": True}
#: The result for an operand twice, and the operations that give the operand.
_TWICE: dict[str, Number] = {
    **{"int_subtract": 0, "int_xor": 0, "bool_xor": False},
    **{"int_equal": True, "int_less": False, "int_less_equal": True},
}
_SAME_TWICE = frozenset(("int_min", "int_max", "int_and", "int_or", "bool_and", "bool_or"))
#: The conditions on a step of two operands.
PAIRS = frozenset((*_NEUTRAL_RIGHT, *_TWICE, *_SAME_TWICE))


def folded_pair(op: str, operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The result of an operation in PAIRS, where it is a constant or an operand."""
    x, y = operands
    if x is y:
        return x if op in _SAME_TWICE else _TWICE.get(op)
    left, right = known.get(x), known.get(y)
    if right is not None and right == _NEUTRAL_RIGHT.get(op):
        return x
    if left is not None and left == _NEUTRAL.get(op):
        return y
    absorbing = _ABSORBING.get(op)
    return absorbing if absorbing is not None and absorbing in (left, right) else None


def folded_select(operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The operand that a select always gives; a select of truths may be its condition."""
    condition, x, y = operands
    if x is y:
        return x
    if condition in known:
        return x if known[condition] else y
    if known.get(x) is True and known.get(y) is False:
        return condition
    return None

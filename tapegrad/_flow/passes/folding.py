"""Steps whose result is known: a constant, or one of their operands."""

from __future__ import annotations

from ..ir.flow_graph import Value
from ..kinds.step_kinds import CHOICE, Number, StepKind

Operands = tuple[Value, ...]


def folded(kind: StepKind, operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The result of a step, where it is a constant or an operand; `known` has the constants."""
    numbers = [known[one] for one in operands if one in known]
    found = kind.of_constants(*numbers) if len(numbers) == len(operands) else None
    if found is None and kind.payload == CHOICE:
        return _folded_select(operands, known)
    if found is None and len(operands) == 2:
        return _folded_pair(kind, operands, known)
    return found


def _folded_pair(
    kind: StepKind, operands: Operands, known: dict[Value, Number]
) -> Value | Number | None:
    x, y = operands
    if x is y:
        return x if kind.idempotent else kind.twice
    left, right = known.get(x), known.get(y)
    if right is not None and right in (kind.neutral, kind.neutral_right):
        return x
    if left is not None and left == kind.neutral:
        return y
    absorbing = kind.absorbing
    return absorbing if absorbing is not None and absorbing in (left, right) else None


def _folded_select(operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The operand that a select always gives; a select of truths may be its condition."""
    condition, x, y = operands
    if x is y:
        return x
    if condition in known:
        return x if known[condition] else y
    if known.get(x) is True and known.get(y) is False:
        return condition
    return None

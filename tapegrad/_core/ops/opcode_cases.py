"""The cases of interpreters' switches over element-wise operations, generated from the table."""

from __future__ import annotations

from collections.abc import Callable

from .comparisons import STEERING
from .table import TABLE, Pointwise

#: So many operands an operation of numbers has at most.
OPERANDS = 3


def value_cases() -> str:
    """Cases that return the value of the operation `code`; operands are x, y and z."""
    return _cases(_value)


def adjoint_cases(*adjoints: str) -> str:
    """Cases that add g times each partial derivative of the operation `code`, and return.

    `adjoints` are texts of what is added to: the adjoints of x, y and z. Nothing is added where the
    partial derivative is 0 everywhere, also of an infinite g.
    """
    return _cases(lambda op: _adjoints(op, adjoints))


def _cases(lines_of: Callable[[Pointwise], list[str]]) -> str:
    declared = [op for op in (*TABLE.values(), *STEERING.values()) if isinstance(op, Pointwise)]
    cases = []
    for op in declared:
        if len(op.inputs) <= OPERANDS:
            lines = [f"    if code == {op.code}:"]
            lines += [f"        {text}" for text in lines_of(op)]
            cases.append("\n".join(lines))
    return "\n".join(cases)


def _value(op: Pointwise) -> list[str]:
    steps = [f"{name} = {text}" for name, text in op.needed(op.value)]
    return [*steps, f"return {op.value}"]


def _adjoints(op: Pointwise, adjoints: tuple[str, ...]) -> list[str]:
    pairs = [pair for pair in zip(adjoints, op.slopes, strict=False) if pair[1] != "0.0"]
    steps = [f"{name} = {text}" for name, text in op.needed(*[partial for _, partial in pairs])]
    return [*steps, *[f"{adjoint} += g * ({partial})" for adjoint, partial in pairs], "return"]

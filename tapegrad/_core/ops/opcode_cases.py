"""The cases of interpreters' switches over element-wise operations, generated from the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..codegen.special_values import OF_SCIPY
from .comparisons import STEERING
from .elementwise_text import ElementwiseText
from .table import POWERS, TABLE, Pointwise, words_of


def declared() -> list[Pointwise]:
    """The operations of the cases."""
    every = (*TABLE.values(), *STEERING.values(), *POWERS.values())
    return [op for op in every if isinstance(op, Pointwise) and not op.is_apart]


def of_numbers() -> list[Pointwise]:
    """Those that rows of numbers may hold."""
    return [op for op in declared() if op.of_numbers]


def is_elementary(op: Pointwise) -> bool:
    """Whether an operation does without functions of SciPy, whose import takes long."""
    return OF_SCIPY.keys().isdisjoint(words_of(*_value(op), *_adjoints(op, ("x", "y", "z"))))


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

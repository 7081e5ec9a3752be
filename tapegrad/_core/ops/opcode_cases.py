"""The cases of interpreters' switches over element-wise operations, generated from the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..codegen.special_values import OF_SCIPY
from .comparisons import STEERING
from .partial_products import product
from .table import POWERS, TABLE, Pointwise, words_of


def declared() -> list[Pointwise]:
    """The operations of the cases."""
    every = (*TABLE.values(), *STEERING.values(), *POWERS.values())
    return [op for op in every if isinstance(op, Pointwise) and not op.is_apart]


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
    steps = [f"{name} = {text}" for name, text in op.needed(op.value)]
    return [*steps, f"return {op.value}"]


def _adjoints(op: Pointwise, adjoints: tuple[str, ...]) -> list[str]:
    pairs = [pair for pair in zip(adjoints, op.partials, strict=False) if pair[1] != "0.0"]
    steps = [f"{name} = {text}" for name, text in op.needed(*[partial for _, partial in pairs])]
    return [
        *steps,
        *[f"{to} += {product('g', partial, nonzero=True)}" for to, partial in pairs],
        "return",
    ]

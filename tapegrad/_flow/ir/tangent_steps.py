"""The tangent of a step: steps that compute it from the tangents of its operands."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from ..kinds.step_kinds import kind_of
from .expressions import products_of
from .flow_graph import Builder, GraphStep, Value


class TangentSteps:
    """Puts the tangents of element-wise steps behind them.

    `varying` are the values with a tangent, `tangents` has those made so far; other values have
    `zero`.
    """

    def __init__(
        self,
        builder: Builder,
        zero: Value,
        varying: Container[object],
        tangents: Mapping[Value, Value],
    ):
        self.builder, self.zero = builder, zero
        self._varying, self._tangents = varying, tangents

    def of(self, value: Value) -> Value:
        """The tangent of a value."""
        return self._tangents.get(value, self.zero)

    def made(self, step: GraphStep) -> Value:
        """The sum over the operands of tangent times partial derivative."""
        kind, total = kind_of(step.op), None
        active = [one in self._varying for one in step.operands]
        wanted = [a and not sign for a, sign in zip(active, kind.signs, strict=True)]
        operands, tangents = step.operands, [self.of(one) for one in step.operands]

        def product(k: int, text: str, made: Callable[[], Value]) -> Value:
            return tangents[k] if text == "1.0" else self._product(tangents[k], made())

        parts = products_of(kind, operands, step.result, wanted, product, self.builder)
        for k in [k for k in kind.sloping if active[k]]:
            sign, part = kind.signs[k], tangents[k]
            if sign == -1 and total is not None:
                total = self.builder.step("subtract", total, part)
                continue
            if sign == -1:
                part = self.builder.step("negative", part)
            elif not sign:
                part = parts[k]
            total = part if total is None else self.builder.step("add", total, part)
        assert total is not None, step.op
        return total

    def _product(self, tangent: Value, partial: Value) -> Value:
        """Tangent times partial derivative; a tangent of 0 gives 0, also of an infinite one."""
        step = self.builder.step
        if self._is_made_constant(partial):
            return step("multiply", tangent, partial)
        flat = step("float_equal", tangent, self.zero)
        finite = step("is_finite", partial)
        lost = step("bool_and", flat, step("bool_not", finite))
        return step("multiply", tangent, step("float_select", lost, self.zero, partial))

    def _is_made_constant(self, value: Value) -> bool:
        """Whether a value is the constant that was made last."""
        last = self.builder.block.steps[-1]
        return last.result is value and kind_of(last.op).is_constant

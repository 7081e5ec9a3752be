"""A call of an operation of `custom_vjp`, as programs repeat it with other operands."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .._core.codegen.layout import CALL_BYTES, CALL_DATA, CALL_SHAPE, CALL_TARGET

_bridge = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class VjpCall:
    """The call of an operation: `arguments` as they were, `recorded` those that programs replace.

    `wanted` says which of all arguments have adjoints; `bridge` is the address of the function that
    computes them.
    """

    def __init__(self, operation, arguments: list, recorded, wanted, given, bridge: int):
        self.operation, self.name = operation, f"{operation.__name__} of tg.custom_vjp"
        self.arguments, self.recorded, self.wanted = arguments, recorded, wanted
        self.form, self.bridge = operation.form(given), bridge

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        given = iter(operands)
        pairs = zip(self.arguments, self.recorded, strict=True)
        arguments = [_like(x, next(given)) if one else x for x, one in pairs]
        returned = self.operation.forward(*arguments)
        if self.operation.form(returned) != self.form:
            return None, None
        outputs = [np.array(y, order="C") for y in self.operation.outputs(returned)]
        whole = outputs[0] if len(outputs) == 1 else np.concatenate([y.ravel() for y in outputs])
        return whole, (arguments, outputs)

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        arguments, outputs = ([np.asarray(x) for x in one] for one in held)
        ends = np.cumsum([y.size for y in outputs])
        parts = [np.ravel(g)[end - y.size : end] for y, end in zip(outputs, ends, strict=True)]
        targets = [
            np.zeros(x.shape, x.dtype) if wanted else None
            for x, wanted in zip(arguments, self.wanted, strict=True)
        ]
        entries = np.zeros((len(arguments) + len(outputs), CALL_BYTES // 8), np.int64)
        shapes = [np.array(x.shape, np.int64) for x in (*arguments, *outputs)]
        items = zip(entries, (*arguments, *outputs), (*targets, *parts), shapes, strict=True)
        for entry, x, target, shape in items:
            entry[CALL_DATA // 8], entry[CALL_SHAPE // 8] = x.ctypes.data, shape.ctypes.data
            entry[CALL_TARGET // 8] = 0 if target is None else target.ctypes.data
        answer = _bridge(self.bridge)(entries.ctypes.data)
        if answer:
            raise self.operation.refusal(answer)
        return [one for one, recorded in zip(targets, self.recorded, strict=True) if recorded]


def _like(before, operand: np.ndarray):
    """An operand as `forward` gets it: an array, or a number of the kind that it was."""
    return operand if isinstance(before, np.ndarray) else type(before)(operand)

"""Parts that call a user's operations: Python computes values and adjoints."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..._core.codegen.elements import ITEM
from ..._core.tape.sweeps import add_to_view
from ..ir.kernel_step import Custom
from .opaque_calls import address_of, array_of, c_function, fits, float_of
from .parts import NO_BASES, Bases, Part, Wanted, part_of
from .rule_parts import has_adjoints
from .run_layout import FINISHED, GUARD_FAILED, RUN_ADJOINT_BASES, RUN_FAILED

_word = ctypes.c_int64.from_address


class _Repeated:
    """The calls of a step, in all runs: `held` has by run what its last one left for adjoints."""

    def __init__(self, step: Custom, wanted: Wanted, item: int):
        self.step, self.own = step, float_of(item)
        self.wanted = [dtype.kind == "f" and wanted(view) for view, dtype in step.operands]
        self.held: dict[int, Any] = {}

    def value(self, run: int) -> int:
        """Call the operation with copies of its operands; returns the status of a part."""
        return self._called(run)[0]

    def value_ahead(self, run: int) -> int:
        """The same where adjoints follow."""
        status, self.held[run] = self._called(run)
        return status

    def _called(self, run: int) -> tuple[int, Any]:
        step, own = self.step, self.own
        given = [array_of(run, view, own).astype(dtype, "C") for view, dtype in step.operands]
        values, held = step.call.value(given)
        if values is None or not fits(values, step.out, own):
            _word(run + RUN_FAILED).value = step.out.offset
            return GUARD_FAILED, None
        array_of(run, step.out, own)[...] = values
        return FINISHED, held

    def adjoints(self, run: int) -> int:
        """Add the adjoints of the operands."""
        step, own = self.step, self.own
        g = array_of(run, step.out, own, RUN_ADJOINT_BASES).copy()
        found = step.call.adjoints(self.held[run], g)
        for (view, _), wanted, part in zip(step.operands, self.wanted, found, strict=True):
            if wanted and part is not None and has_adjoints(run, view):
                add_to_view(array_of(run, view, own, RUN_ADJOINT_BASES), part)
        return FINISHED


@part_of.register(Custom)
def part_of_custom(step: Custom, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    calls = _Repeated(step, wanted, item)
    functions = [c_function(calls.value)]
    ahead = reverse = 0
    if step.is_reached and any(calls.wanted):
        functions += [c_function(calls.value_ahead), c_function(calls.adjoints)]
        ahead, reverse = map(address_of, functions[1:])
    data = np.zeros(1, np.int64)
    return Part(address_of(functions[0]), reverse, data, ahead=ahead, keep=functions, tier="Python")

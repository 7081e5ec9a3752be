"""A program that can be run: its steps as compiled parts, plans of calls, memory for runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from ..ops.table import BY_CODE
from ..replay import driver, fused, layout, moves, scalars
from ..replay.clearing import clearing
from ..replay.computed import part_of_computed
from ..replay.elementwise import interpreted
from ..replay.parts import Part, Run
from ..replay.steps import (
    GUARD,
    NOTHING,
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Step,
    View,
    contiguous,
)
from ..replay.structural import part_of_kernel
from .reads import Wanted, views_read
from .templates import parts_of

_word = ctypes.c_int64
_MAKERS: dict[type, Callable] = {
    Link: moves.part_of_link,
    Gather: moves.part_of_gather,
    Pack: moves.part_of_pack,
    Kernel: part_of_kernel,
    Computed: part_of_computed,
}


def table(objects: list):
    """Addresses of objects in memory, 0 for None."""
    return (_word * len(objects))(*[0 if one is None else id(one) for one in objects])


class Program:
    """A program, compiled; any number of threads may run it.

    With `native` its element-wise steps are compiled to code of their own.
    """

    def __init__(self, code: Code, native: bool = False):
        self.code = code
        self.is_wanted = Wanted(code)
        self.fresh = frozenset(b for b in self.is_wanted.bases if b and self._is_fresh(b))
        self._elementwise = fused.native if native else interpreted
        self.parts = parts_of(code.steps, self._part, self.is_wanted)
        self._clears = {k: [clearing(v) for v in views] for k, views in code.clears.items()}
        self.words = np.zeros(driver.WORDS, np.int64)
        self._fill_words()
        self.address = self.words.ctypes.data
        self.compiled = driver.compiled()
        self._runs: list[Run] = []

    # --- making -------------------------------------------------------------------------------

    def _is_fresh(self, base: int) -> bool:
        """Whether one element-wise step alone reads a large input, and all of it."""
        whole = contiguous(0, self.code.inputs[base - 1].view.shape, base)
        readers = [s for s in self.code.steps if any(v.base == base for v in views_read(s))]
        if len(readers) != 1 or not isinstance(readers[0], Elementwise):
            return False
        return whole in views_read(readers[0])

    def _part(self, step: Step, wanted: Callable[[View], bool]) -> Part:
        if isinstance(step, Scalars):
            return scalars.interpreted(step)
        if isinstance(step, Elementwise):
            return self._elementwise(step, wanted, self.fresh)
        return _MAKERS[type(step)](step, wanted)

    def _fill_words(self) -> None:
        code = self.code
        forward = [(part.forward, part) for part in self.parts]
        reverse = [call for k in range(len(self.parts))[::-1] for call in self._reverse(k)]
        self._plans = [_plan(calls) for calls in (forward, reverse, self._gradient_plan())]
        rows = [
            (
                one.view.offset,
                one.view.size,
                int(one.view.shape != ()),
                one.view.base,
                int(one.view.base not in self.fresh),
            )
            for one in code.inputs
        ]
        self._inputs = np.array(rows, np.int64).reshape(-1, driver.INPUT_WORDS)
        places = (driver.VALUE_PLAN, driver.REVERSE_PLAN, driver.GRADIENT_PLAN)
        for word, plan in zip(places, self._plans, strict=True):
            self.words[word // 8] = plan.ctypes.data
            self.words[word // 8 + 1] = len(plan)
        for word, value in (
            (driver.SLOTS, code.slots),
            (driver.INPUTS, self._inputs.ctypes.data),
            (driver.INPUTS_COUNT, len(rows)),
            (driver.RESULT, code.outputs[0].view.offset if code.outputs else NOTHING),
        ):
            self.words[word // 8] = value

    def _gradient_plan(self) -> list[tuple[int, Part]]:
        """Values and adjoints.

        Where the steps after an element-wise one have slopes that depend on nothing, their adjoints
        come first, so that this one is gone through only once.
        """
        steps, parts = self.code.steps, self.parts
        last = len(steps)
        while last > 0 and is_linear(steps[last - 1], self.is_wanted.constant):
            last -= 1
        pivot = last - 1
        if pivot < 0 or not parts[pivot].both:
            forward = [(part.forward, part) for part in parts]
            return forward + [call for k in range(len(parts))[::-1] for call in self._reverse(k)]
        before, after = range(pivot), range(last, len(parts))
        return [
            *[(parts[k].forward, parts[k]) for k in before],
            *[call for k in after[::-1] for call in self._reverse(k)],
            (parts[pivot].both, parts[pivot]),
            *self._reverse(pivot)[1:],
            *[(parts[k].forward, parts[k]) for k in after],
            *[call for k in before[::-1] for call in self._reverse(k)],
        ]

    def _reverse(self, k: int) -> list[tuple[int, Part]]:
        """The calls of a step in reverse."""
        part = self.parts[k]
        clears = self._clears.get(k, [])
        return [(part.reverse, part), *[(one.forward, one) for one in clears]]

    # --- running ------------------------------------------------------------------------------

    def begin(self) -> Run:
        """Memory for one evaluation, to be given to `end`."""
        if self._runs:
            return self._runs.pop()
        run = Run(self.code.slots, len(self.code.inputs) + 1)
        for slot, values in self.code.constants:
            run.values[slot : slot + len(values)] = values
        return run

    def end(self, run: Run) -> None:
        self._runs.append(run)

    def forward(self, run: Run, objects: list) -> int:
        """Compute values from floats and float64 arrays in C order; returns why it stopped."""
        given = table(objects)
        return self.compiled["value"](run.address, self.address, ctypes.addressof(given))

    def gradients(self) -> list:
        """New arrays for the derivatives of the inputs; None for data."""
        return [
            np.empty(one.view.shape) if one.differentiated else None for one in self.code.inputs
        ]

    def reverse(self, run: Run, seeds: list[np.ndarray]) -> list:
        """Adjoints of the inputs after `forward`, from those of the results; None for data."""
        made = self.gradients()
        given = table(made)
        self.compiled["clear"](run.address, self.address, ctypes.addressof(given))
        for output, seed in zip(self.code.outputs, seeds, strict=True):
            np.add.at(run.adjoints, moves.slots_of(output.view), seed)
        self.compiled["adjoints"](run.address, self.address)
        self.compiled["give"](run.address, self.address, ctypes.addressof(given))
        return made

    def value_and_grad(self, run: Run, objects: list) -> tuple[int, list]:
        """Values, and derivatives of the one result; first comes why it stopped."""
        made = self.gradients()
        given, wanted = table(objects), table(made)
        status = self.compiled["value_and_grad"](
            run.address, self.address, ctypes.addressof(given), ctypes.addressof(wanted)
        )
        return status, made

    def results(self, run: Run) -> list[np.ndarray]:
        """Copies of the results of `forward`."""
        return [
            np.array(seen(run.values, one.view), one.dtype, order="C") for one in self.code.outputs
        ]

    def failed(self, run: Run) -> tuple[int, float] | None:
        """Which guard failed, in their order, and the value that it saw.

        None if it was no guard: a function without derivative gave an array of another shape.
        """
        slot = int(run.words[layout.RUN_FAILED // 8])
        before = 0
        for step in self.code.steps:
            if isinstance(step, Scalars):
                guards = np.flatnonzero(step.op == GUARD)
                if step.first <= slot < step.first + len(step.op):
                    k = slot - step.first
                    return before + int(np.searchsorted(guards, k)), float(run.values[step.a[k]])
                before += len(guards)
        return None


def _plan(calls: list[tuple[int, Part]]) -> np.ndarray:
    rows = [(address, part.data.ctypes.data) for address, part in calls if address]
    return np.array(rows, np.int64).reshape(-1, 2)


def is_linear(step: Step, constant: np.ndarray) -> bool:
    """Whether the slopes of a step depend on constants only."""
    if isinstance(step, Link):
        return True
    if not isinstance(step, Scalars) or len(step.op) > _FEW:
        return False
    for op, a, b in zip(step.op, step.a, step.b, strict=True):
        name = BY_CODE[op].name if op != GUARD else ""
        linear = name in ("add", "subtract", "negative") or (
            name == "multiply" and (constant[a] or constant[b])
        )
        if not (linear or (name == "divide" and constant[b])):
            return False
    return True


#: More operations on numbers after the last element-wise step are not looked through.
_FEW = 64


def seen(arena: np.ndarray, view: View) -> np.ndarray:
    """A view of an arena."""
    steps = tuple(8 * stride for stride in view.strides)
    return np.lib.stride_tricks.as_strided(arena[view.offset :], view.shape, steps)

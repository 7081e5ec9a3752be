"""A program that can be run: its steps as compiled parts, and memory for runs at once."""

from __future__ import annotations

import ctypes

import numpy as np

from ..replay import driver, layout, moves, scalars
from ..replay.parts import Part, Run
from ..replay.steps import (
    GUARD,
    NOTHING,
    Code,
    Elementwise,
    Gather,
    Link,
    Pack,
    Scalars,
    Step,
    View,
)

_word = ctypes.c_int64


class Program:
    """A program, compiled; any number of threads may run it."""

    def __init__(self, code: Code):
        self.code = code
        self._constant = np.ones(code.slots, bool)
        for step in code.steps:
            for view in written(step):
                self._constant[view.offset : view.offset + view.size] = False
        for one in code.inputs:
            if one.differentiated:
                self._constant[one.view.offset : one.view.offset + one.view.size] = False
        self.parts = [self._part(step) for step in code.steps]
        self._table = self._make_table()
        inputs = [(i.view.offset, i.view.size, int(i.view.shape != ())) for i in code.inputs]
        self._inputs = np.array(inputs, np.int64).reshape(-1, 3)
        words = np.zeros(driver.WORDS, np.int64)
        for word, value in (
            (driver.PARTS, self._table.ctypes.data),
            (driver.PARTS_COUNT, len(self.parts)),
            (driver.SLOTS, code.slots),
            (driver.INPUTS, self._inputs.ctypes.data),
            (driver.INPUTS_COUNT, len(inputs)),
            (driver.RESULT, code.outputs[0].view.offset if code.outputs else NOTHING),
        ):
            words[word // 8] = value
        self.words = words
        self.address = words.ctypes.data
        self.compiled = driver.compiled()
        self._runs: list[Run] = []

    def is_wanted(self, view: View) -> bool:
        """Whether the adjoints of slots are wanted: not of constants and of data."""
        return not self._constant[view.offset]

    def _part(self, step: Step) -> Part:
        if isinstance(step, Scalars):
            return scalars.interpreted(step)
        if isinstance(step, Link):
            return moves.part_of_link(step, self.is_wanted)
        if isinstance(step, Gather):
            return moves.part_of_gather(step, self.is_wanted)
        if isinstance(step, Pack):
            return moves.part_of_pack(step, self.is_wanted)
        raise NotImplementedError(type(step))

    def _make_table(self) -> np.ndarray:
        rows = [(p.forward, p.reverse, p.both, p.data.ctypes.data) for p in self.parts]
        return np.array(rows, np.int64).reshape(-1, 4)

    def begin(self) -> Run:
        """Memory for one evaluation, to be given to `end`."""
        if self._runs:
            return self._runs.pop()
        run = Run(self.code.slots)
        for slot, values in self.code.constants:
            run.values[slot : slot + len(values)] = values
        return run

    def end(self, run: Run) -> None:
        self._runs.append(run)

    def forward(self, run: Run, objects: list) -> int:
        """Compute values from floats and float64 arrays in C order; returns why it stopped."""
        table = (_word * len(objects))(*map(id, objects))
        self.compiled["run_enter"](run.address, self.address, ctypes.addressof(table))
        return self.compiled["run_forward"](run.address, self.address)

    def reverse(self, run: Run, seeds: list[np.ndarray]) -> list[np.ndarray]:
        """Adjoints of the inputs after `forward`, from those of the results."""
        run.adjoints[:] = 0.0
        for output, seed in zip(self.code.outputs, seeds, strict=True):
            np.add.at(run.adjoints, moves.slots_of(output.view), seed)
        self.compiled["run_reverse"](run.address, self.address)
        return [seen(run.adjoints, one.view).copy() for one in self.code.inputs]

    def results(self, run: Run) -> list[np.ndarray]:
        """Copies of the results of `forward`."""
        return [
            np.array(seen(run.values, one.view), one.dtype, order="C") for one in self.code.outputs
        ]

    def failed(self, run: Run) -> tuple[int, float]:
        """Which guard failed, in their order, and the value that it saw."""
        slot = int(run.words[layout.RUN_FAILED // 8])
        before = 0
        for step in self.code.steps:
            if isinstance(step, Scalars):
                guards = np.flatnonzero(step.op == GUARD)
                if step.first <= slot < step.first + len(step.op):
                    k = slot - step.first
                    return before + int(np.searchsorted(guards, k)), float(run.values[step.a[k]])
                before += len(guards)
        raise AssertionError(slot)


def written(step: Step) -> list[View]:
    """The slots that a step writes."""
    if isinstance(step, Scalars):
        return [View(step.first, (len(step.op),), (1,))]
    if isinstance(step, Elementwise):
        return [view for _, view in step.stores] + [view for _, view in step.sums]
    return [step.out]


def seen(arena: np.ndarray, view: View) -> np.ndarray:
    """A view of an arena."""
    steps = tuple(8 * stride for stride in view.strides)
    return np.lib.stride_tricks.as_strided(arena[view.offset :], view.shape, steps)

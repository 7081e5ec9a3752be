"""A program that can be run: plans of calls of its parts, and memory for runs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.codegen import process
from ..._core.codegen.process import Later
from ..._core.ops.table import BY_CODE
from ..._core.remembered import remembered
from ..._core.tape.sweeps import memory_of
from ..._core.tensor import copies
from ..ir.elementwise_step import Elementwise
from ..ir.kernel_step import Custom
from ..ir.scalars_step import Scalars
from ..ir.steps import DOUBLE, NOTHING, Code, Input
from ..ir.uses import slots_of
from ..replay import driver, run_layout
from ..replay.operation_parts import error_of
from ..replay.parts import NO_BASES, Part, Run, clearing
from .assembly import FEW, Parts
from .scalarization import spread
from .sum_chains import sum_chains

#: Made of Numba, which is imported with the first of them.
njit_calls: Any = Later("tapegrad._program.replay.njit_calls")
_word = ctypes.c_int64
_words: list[weakref.ref] = []  # of all programs
_C_MAKE = ctypes.CFUNCTYPE(_word)
Call = tuple[int, Part]


def table(objects: list):
    """Addresses of objects in memory, 0 for None."""
    return (_word * len(objects))(*[0 if one is None else id(one) for one in objects])


class Program:
    """A program, compiled; any number of threads may run it.

    With `native` its steps are compiled to native code; with `cut` long loops in it save what they
    carry at intervals only; with fewer operations on numbers than `few` a step is interpreted.
    `source` is the origin of the program.
    """

    def __init__(
        self,
        code: Code,
        native: bool = False,
        cut: bool = False,
        source: Code | None = None,
        few: int = FEW,
    ):
        self.source = source or code
        self.code = code = spread(code) if native and code.dtype == DOUBLE else code
        self.native = native
        self.parts = Parts(code, native, cut, few)
        self._clears = {
            k: [clearing(view, code.item) for view in views] for k, views in code.clears.items()
        }
        self.words = np.zeros(driver.WORDS, np.int64)
        _words.append(weakref.ref(self.words, _words.remove))
        self._keep: list[np.ndarray] = []
        self._fill_words()
        self.address = self.words.ctypes.data
        self.compiled = driver.compiled(code.item)
        self._runs: list[Run] = []
        self._pooled: list[Run] = []  # of those that compiled code takes
        pool = np.zeros(driver.POOL_SIZE, np.int64)
        self._make = _C_MAKE(self._new_run)
        self._keep.append(pool)
        self.words[driver.POOL // 8] = pool.ctypes.data
        self.words[driver.NEW_RUN // 8] = ctypes.cast(self._make, ctypes.c_void_p).value or 0

    # --- making -------------------------------------------------------------------------------

    def _fill_words(self) -> None:
        code, steps = self.code, range(len(self.code.steps))
        forward = [self._forward(k) for k in steps]
        ahead = [self.ahead_calls(k) for k in steps]
        reverse = [self.reverse_calls(k) for k in steps]
        inputs = [self._input_words(one) for one in code.inputs]
        tables = (
            (driver.VALUE_PLAN, _plan(forward)),
            (driver.AHEAD_PLAN, _plan(ahead)),
            (driver.REVERSE_PLAN, _plan(reverse[::-1])),
            (driver.GRADIENT_PLAN, _plan(self._gradient_plan(forward, ahead, reverse))),
            (driver.CLEARS, self.parts.touched()),
            (driver.INPUTS, np.array(inputs, np.int64).reshape(-1, driver.INPUT_WORDS)),
        )
        for word, rows in tables:
            self._keep.append(rows)
            self.words[word // 8] = rows.ctypes.data
            self.words[word // 8 + 1] = len(rows)
        result = code.outputs[0].view.offset if code.outputs else NOTHING
        self.words[driver.RESULT // 8] = result

    def _input_words(self, one: Input) -> tuple[int, ...]:
        view = one.view
        shape = np.array(view.shape, np.int64)
        self._keep.append(shape)
        zeroed = view.base not in self.parts.fresh
        place = (view.offset, view.size, view.shape != (), view.base, zeroed)
        return (*place, one.differentiated, len(shape), shape.ctypes.data)

    def _forward(self, k: int) -> list[Call]:
        """The calls of a step."""
        return [(part.forward, part) for part in self.parts.of[k]]

    def ahead_calls(self, k: int) -> list[Call]:
        """The same, before its calls in reverse."""
        return [(part.ahead or part.forward, part) for part in self.parts.of[k]]

    def reverse_calls(self, k: int) -> list[Call]:
        """The calls of a step in reverse."""
        clears = [(one.forward, one) for one in self._clears.get(k, [])]
        return [(part.reverse, part) for part in self.parts.of[k][::-1]] + clears

    def _gradient_plan(
        self, forward: list[list[Call]], ahead: list[list[Call]], reverse: list[list[Call]]
    ) -> list[list[Call]]:
        """Values and adjoints, from the calls of each step.

        If the steps after an element-wise one have constant partial derivatives, their adjoints are
        computed first, so that this one is traversed only once.
        """
        pivot = self.parts.pivot
        both = [part for part in self.parts.of[pivot] if part.both] if pivot >= 0 else []
        if not both:
            return ahead + reverse[::-1]
        clears = [(one.forward, one) for one in self._clears.get(pivot, [])]
        return [
            *ahead[:pivot],
            *reverse[:pivot:-1],
            [(part.both, part) for part in both],
            clears,
            *forward[pivot + 1 :],
            *reverse[:pivot][::-1],
        ]

    # --- running ------------------------------------------------------------------------------

    def begin(self) -> Run:
        """Memory for one evaluation, to be given to `end`."""
        with contextlib.suppress(IndexError):  # another thread may have taken the last
            return self._runs.pop()
        bases = len(self.code.inputs) + 1 + len(self.code.held)
        run = Run(self.parts.slots, bases, self, self.code.dtype)
        self.hold(run, self.code.held)
        for slot, values in self.code.constants:
            run.values[slot : slot + len(values)] = values
        return run

    def end(self, run: Run) -> None:
        self._runs.append(run)

    def hold(self, run: Run, arrays: Sequence[np.ndarray]) -> None:
        """Let a run read the elements of arrays from outside, or of others in their place."""
        first = len(self.code.inputs) + 1
        run.value_bases[first:] = [memory_of(array) for array in arrays]

    def _new_run(self) -> int:
        """Memory for compiled code, which keeps it."""
        run = self.begin()
        self._pooled.append(run)
        return run.address

    def forward(self, run: Run, objects: list, ahead: bool = False) -> int:
        """Compute values from floats and arrays in C order; returns why it stopped.

        `ahead` says that `reverse` will follow: it is faster then.
        """
        given = table(objects)
        return self.compiled["value"](run.address, self.address, ctypes.addressof(given), ahead)

    def gradients(self) -> list:
        """New arrays for the derivatives of the inputs; None for data."""
        inputs = self.code.inputs
        make = functools.partial(copies.empty, dtype=self.code.dtype)
        return [make(i.view.shape) if i.differentiated else None for i in inputs]

    def reverse(self, run: Run, seeds: list[np.ndarray]) -> list:
        """Adjoints of the inputs after `forward`, from those of the results; None for data."""
        self.check()
        made = self.gradients()
        given = table(made)
        self.compiled["clear"](run.address, self.address, ctypes.addressof(given))
        for output, seed in zip(self.code.outputs, seeds, strict=True):
            np.add.at(run.adjoints, slots_of(output.view), seed)
        status = self.compiled["adjoints"](run.address, self.address, ctypes.addressof(given))
        if (error := error_of(run.address, status)) is not None:
            raise error
        return made

    def check(self) -> None:
        """Raise the error of a partial derivative that adjoints need and that does not exist."""
        for flow in self._with_refusals:
            for k in flow.pulled:
                flow.ops[k].check(j for j, _ in flow.edges[k])

    @remembered
    def _with_refusals(self) -> list:
        """The operations of steps of which some have no partial derivative by some operand."""
        return [
            step.flow(self.parts.wanted, NO_BASES)
            for step in self.code.of(Elementwise).values()
            if any(BY_CODE[code].refuses for code, _ in step.ops)
        ]

    def jitted(self):
        """(value, value_and_grad) for Numba code, which keeps the program."""
        self.check()
        if self.code.dtype != DOUBLE:
            raise ValueError(
                "tapegrad.compile: jitted gives functions of float64, and the arguments are of "
                f"{self.code.dtype}; convert them with astype(float)"
            )
        for step in self.code.of(Custom).values():
            raise ValueError(
                "tapegrad.compile: numba gives functions that do without Python, and the program "
                f"calls {step.called}, which is Python; call the compiled function itself"
            )
        arguments = [
            njit_calls.Argument(len(one.view.shape), one.view.shape, one.differentiated)
            for one in self.code.inputs
        ]
        call = ctypes.cast(self.compiled["call"], ctypes.c_void_p).value or 0
        refuse = njit_calls.refuse_of_program
        made = njit_calls.functions(call, self.address, arguments, refuse)
        for function in made:
            function.program = self
        return made

    def results(self, run: Run) -> list[np.ndarray]:
        """The results of `forward`, where they are."""
        return [one.view.of(run.values) for one in self.code.outputs]

    def failed(self, run: Run) -> tuple[int, float] | None:
        """The guard that failed, by number, and the value that it saw; None if it was none."""
        slot = int(run.words[run_layout.RUN_FAILED // 8])
        before = 0
        for step in self.code.of(Scalars).values():
            if step.first <= slot < step.first + len(step.op):
                number = before + int(np.searchsorted(step.guards, slot - step.first))
                return number, float(run.words.view(np.float64)[run_layout.RUN_SEEN // 8])
            before += len(step.guards)
        return None


@process.in_child
def _alone() -> None:
    """No other thread is taking a run from a pool; it may have stopped in between."""
    for reference in list(_words):
        words = reference()
        if words is not None:
            words[driver.POOL_LOCK // 8] = 0


def _plan(steps: list[list[Call]]) -> np.ndarray:
    """The calls of steps as rows of two addresses."""
    rows = [x for calls in steps for at, part in calls if at for x in (at, part.address)]
    return np.array(rows, np.int64).reshape(-1, 2)


def interpreted(code: Code) -> Program:
    """The interpreted version of a program with native code."""
    return Program(sum_chains(code) if code.dtype == DOUBLE else code, source=code)

"""Calls of `solve_ivp` in programs without Python: the table of a call, the memory of its runs."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.codegen import process
from .._core.codegen.factory import compile_source
from .._core.tape.sweeps import memory_of
from .._custom.closures import OperandPlace
from .._implicit.native_calls import StepViews
from .._program.ir.steps import DOUBLE, View, contiguous
from .._program.replay.moves import move_words, words
from .._program.replay.operation_parts import address_of
from .._program.replay.parts import SIGNATURE
from . import _ode_call_kernels as kernels
from . import _ode_kernels as solving
from ._ode_native import KernelSolution, SolveMemory
from ._ode_tables import tables_of
from ._optimize_calls import names_in

#: A number of an operand, and where it is among the numbers of a run.
_Pair = tuple[int, View]
#: Numbers that SciPy tells, in their order; the last two are the same in all calls.
_TOLD = ("nfev", "njev", "nlu", "status", "success")
#: How often Python may be called in place of compiled code that has no success.
_PATIENCE = 16
#: Objects in which there are no recorded values.
_PLAIN = (int, float, np.generic, np.ndarray)
_making = process.lock()
_C_MAKE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@functools.cache
def _compiled() -> dict[str, int]:
    return compile_source(kernels.TEXT, dict.fromkeys(kernels.EXPORTS, SIGNATURE))


class NativeSolve:
    """A call of `solve_ivp` in programs, each of which has a table.

    `given` is the problem with places of recorded values; `places` are the numbers of a step's
    operands by values, None for those that are not recorded. `has_times` if the interval or the
    times that are asked for are recorded.
    """

    def __init__(self, given: dict[str, Any], places: list, has_times: bool):
        self._given, self.places, self.has_times = given, places, has_times
        self._ways: list[tuple[np.ndarray, list]] = []  # all that tables have had, and callbacks
        self._tables: list[_SolveTable] = []
        self._lefts = 0

    def table(self, own: KernelSolution, step: StepViews) -> np.ndarray | None:
        """The table for a step, like whose solution is `own`; None if compiled code has none."""
        names = [name for name in names_in(own.result) if name not in ("t", "y")]
        names = ["t", "y", *names] if self.has_times else ["y", *names, "t"]
        numbers = _RunNumbers(own, dict(zip(names, step.parts, strict=False)))
        is_known = len(names) == len(step.parts) and {*names} <= {"t", "y", *_TOLD}
        if not is_known or not numbers.are_those_of(own):
            return None
        pairs = self._pairs(numbers, step)
        if pairs is None or not own.is_short:
            return None
        made = _SolveTable(self, own, numbers, step)
        made.set_moves(pairs)
        self._tables.append(made)
        self._know(own)
        return made.words

    def _pairs(self, numbers: _RunNumbers, step: StepViews) -> list[_Pair] | None:
        """The operands, by number, and their places; None if some are not known."""
        pairs, at = list[_Pair](), 0
        for place, size in zip(self.places, numbers.sizes, strict=False):
            if place is not None:
                pairs.append((place, contiguous(at, step.operands[place].shape)))
            at += size
        n, asked = numbers.shape[0], numbers.asked
        for name, first, count in (
            ("y0", numbers.state, n),
            ("span", numbers.ends, 2),
            ("t_eval", numbers.times, asked),
        ):
            more = self._pairs_in(self._given[name], first, count, step.operands)
            if more is None:
                return None
            pairs += more
        return pairs

    def _pairs_in(
        self, one: Any, first: int, count: int, operands: Sequence[View]
    ) -> list[_Pair] | None:
        """Those of recorded values in an object, which has numbers at places from `first` on."""
        items = one if isinstance(one, (list, tuple)) else [one]
        pairs = list[_Pair]()
        for k, item in enumerate(items):
            if item is None:  # no times are asked for
                continue
            if type(item) is not OperandPlace:
                if not isinstance(item, _PLAIN) or np.asarray(item).dtype.hasobject:
                    return None
                continue
            place = self.places[item.number]
            if place is None:  # a value that is not recorded
                continue
            shape = operands[place].shape
            if math.prod(shape) * len(items) != count:
                return None
            pairs.append((place, contiguous(first + k, shape)))
        return pairs

    def calls_left(self, own: KernelSolution) -> int:
        """How many calls of the right-hand side are left before it gets machine code of its own."""
        counts = [int(one.words[kernels.CALLS_LEFT // 8]) for one in self._tables]
        return min([own.right_side.calls_left(own.task.y0.size), *counts])

    def left(self, own: KernelSolution | None) -> None:
        """Python has solved a problem that compiled code has left."""
        self._lefts += 1
        solved = sum([int(one.words[kernels.SOLVED // 8]) for one in self._tables])
        is_off = self._lefts > _PATIENCE and self._lefts > solved
        for one in self._tables:
            one.words[kernels.IS_OFF // 8] = is_off
        if own is not None:
            for one in self._tables:
                if one.words[kernels.CALLS_LEFT // 8] < 0:
                    own.make_native()
                    one.words[kernels.CALLS_LEFT // 8] = own.right_side.calls_left(1)
            self._know(own)

    def _know(self, own: KernelSolution) -> None:
        """Let tables have the callbacks there are now, in calls that have not begun."""
        found = own.right_side.known_slopes
        if not self._ways or self._ways[-1][1] != found:
            addresses = [one.address for one in found]
            self._ways.append((words(len(found), addresses), found))
        for one in self._tables:
            one.words[kernels.WAYS // 8] = memory_of(self._ways[-1][0])


class _RunNumbers:
    """Where what is among the numbers of a run; `parts` are the views of results by name."""

    def __init__(self, own: KernelSolution, parts: dict[str, View]):
        self.parts, self.sizes = parts, [one.size for one in own.values]
        self.shape = parts["y"].shape if len(parts["y"].shape) == 2 else (0, 0)
        n, count = self.shape
        self.asked = 0 if own.task.asked is None else len(own.task.asked)
        self.state = sum(self.sizes)
        self.ends = self.state + n
        self.times = self.ends + 2
        self.given = self.times + self.asked
        self.again, self.adjoints = self.given, 2 * self.given
        self.rows = 3 * self.given
        self.row_times = self.times if self.asked else self.rows + n * count
        self.told = self.rows + n * count + count
        self.gradient = self.told + len(_TOLD)
        self.gradient_times = self.gradient + n * count
        self.size = self.gradient_times + count

    def are_those_of(self, own: KernelSolution) -> bool:
        """Whether a result of this form is that of such a solution."""
        n, count = self.shape
        return n == own.task.y0.size and (not self.asked or self.asked == count) and count > 0

    def of_result(self, name: str) -> View:
        """Where a part of the result is."""
        if name == "y":
            return self._columns(self.rows)
        if name == "t":
            return contiguous(self.row_times, self.shape[1:])
        return contiguous(self.told + _TOLD.index(name), ())

    def of_seed(self, name: str) -> View:
        """Where the adjoint of a part is."""
        if name == "y":
            return self._columns(self.gradient)
        return contiguous(self.gradient_times, self.shape[1:])

    def _columns(self, at: int) -> View:
        return View(at, self.shape, (1, self.shape[0]))

    def filled(self, own: KernelSolution) -> np.ndarray:
        """Numbers for a run, with those that are no operands."""
        task, made = own.task, np.zeros(self.size)
        asked = np.zeros(0) if task.asked is None else task.asked
        flat = [*map(np.ravel, own.values), task.y0, [task.start, task.end], asked]
        made[: self.given] = made[self.again : self.adjoints] = np.concatenate(flat)
        made[self.told + len(_TOLD) - 1] = 1.0
        return made


class _SolveTable:
    """The words of a table, and the memory of the runs that use it."""

    def __init__(
        self, call: NativeSolve, own: KernelSolution, numbers: _RunNumbers, step: StepViews
    ):
        self._call, self._own, self._numbers, self._step = call, own, numbers, step
        self._make = _C_MAKE(self._memory)
        self._runs = np.zeros(1 + 2 * kernels.RUNS_MOST, np.int64)
        self._memories: list[_SolveRun] = []
        self.words = np.zeros(0, np.int64)

    def set_moves(self, pairs: list[_Pair]) -> None:
        """Make the words, with the moves of operands and parts."""
        numbers, step, call = self._numbers, self._step, self._call
        given = [_move(view, step.operands[k]) for k, view in pairs]
        parts = [_move(view, numbers.of_result(name)) for name, view in numbers.parts.items()]
        seeded = [name for name in ("y", "t") if name == "y" or call.has_times]
        seeds = [_move(numbers.of_seed(name), numbers.parts[name]) for name in seeded]
        adjoints = [
            move_words(step.operands[k], view.moved(numbers.adjoints), False, True, DOUBLE.itemsize)
            for k, view in pairs
            if step.wanted[k]
        ]
        head, lists = self._head(), (given, parts, seeds, adjoints)
        at, items = 8 * kernels.HEAD_WORDS, []
        for word, one in zip(
            (kernels.OPERANDS, kernels.PARTS, kernels.SEEDS, kernels.ADJOINTS), lists, strict=True
        ):
            head[word // 8] = at
            items.append(words(len(one), *one))
            at += items[-1].nbytes
        self.words = words(head, *items)

    def _head(self) -> np.ndarray:
        own, numbers = self._own, self._numbers
        tables, code = tables_of(own.task.method), _compiled()
        n, count = numbers.shape
        made = np.zeros(kernels.HEAD_WORDS, np.int64)
        made[:2] = code["solution"], code["adjoints_of"]
        size = n * count + count * self._call.has_times
        found = {
            kernels.MAKE: address_of(self._make),
            kernels.MEMORIES: memory_of(self._runs),
            kernels.RESULT: min(one.offset for one in self._step.parts),
            kernels.CALLS_LEFT: self._call.calls_left(own),
            kernels.BEGIN: address_of(tables.compiled[tables.begin]),
            kernels.ADVANCE: address_of(tables.compiled[tables.advance]),
            kernels.PULL: address_of(tables.compiled[tables.pull]),
            kernels.MOST: tables.turn(n),
            kernels.IS_STIFF: own.task.method == "Radau",
            kernels.WORDS_BYTES: tables.words.nbytes,
            kernels.GIVEN_STATE: 8 * numbers.state,
            kernels.GIVEN_ENDS: 8 * numbers.ends,
            kernels.GIVEN_TIMES: 8 * numbers.times,
            kernels.GIVEN_BYTES: 8 * numbers.given,
            kernels.COUNTS: 8 * numbers.told,
            kernels.GRADIENT: 8 * numbers.gradient,
            kernels.GRADIENT_SIZE: size,
            kernels.GRADIENT_TIMES: 8 * numbers.gradient_times,
        }
        for word, value in found.items():
            made[word // 8] = value
        return made

    def _memory(self, run: int, _: int) -> int:
        """The memory of a run, for compiled code; 0 if there is none."""
        try:
            with _making:
                count = len(self._memories)
                if count == kernels.RUNS_MOST:
                    return 0
                step, places = self._step, self._call.places
                wanted = [place is not None and step.wanted[place] for place in places]
                made = _SolveRun(self._own, self._numbers, wanted, self._call.has_times)
                self._memories.append(made)
                self._runs[1 + 2 * count : 3 + 2 * count] = run, memory_of(made.words)
                self._runs[0] = count + 1
                return memory_of(made.words)
        except MemoryError:
            return 0


class _SolveRun:
    """What one run has of a solve: the words for compiled code, and what they have addresses of."""

    def __init__(
        self, own: KernelSolution, numbers: _RunNumbers, wanted: list[bool], has_times: bool
    ):
        task, self._numbers, self._filled = own.task, numbers, numbers.filled(own)
        self._solve = memory = SolveMemory(task, (), own.values)
        n = task.y0.size
        memory.floats[solving.STEP // 8] = task.first_step
        memory.point(solving.STATE, np.zeros(n))
        memory.keep_rows(np.empty((own.most_steps, memory.tables.width(n))))
        width = memory.words[solving.WIDTH // 8]
        memory.point(solving.RUNS, np.zeros(kernels.WAYS_MOST * width, np.int64))
        self._point_results()
        self._point_adjoints(wanted, has_times)
        self._at_first = memory.words.copy()
        self.words = np.zeros(kernels.MEMORY_WORDS, np.int64)
        self.words[kernels.NUMBERS // 8] = memory_of(self._filled)
        self.words[kernels.SOLVE // 8] = memory.address
        self.words[kernels.AT_FIRST // 8] = memory_of(self._at_first)

    def _from(self, at: int) -> np.ndarray:
        return self._filled[at:]

    def _point_results(self) -> None:
        memory, numbers = self._solve, self._numbers
        if numbers.asked:
            memory.point(solving.ASKED, self._from(numbers.times))
            memory.point(solving.BETWEEN, self._from(numbers.rows))
            memory.words[solving.ASKED_COUNT // 8] = numbers.asked
        else:
            memory.point(solving.TIMES, self._from(numbers.row_times))
            memory.point(solving.RESULTS, self._from(numbers.rows))
            memory.words[solving.RESULTS_ROOM // 8] = numbers.shape[1]

    def _point_adjoints(self, wanted: list[bool], has_times: bool) -> None:
        memory, numbers = self._solve, self._numbers
        memory.point(solving.OF_STATE, self._from(numbers.adjoints + numbers.state))
        rows = solving.OF_BETWEEN if numbers.asked else solving.OF_STATES
        memory.point(rows, self._from(numbers.gradient))
        memory.point(solving.OF_ASKED, self._from(numbers.adjoints + numbers.times))
        table, at = np.zeros(len(numbers.sizes), np.int64), numbers.adjoints
        for k, size in enumerate(numbers.sizes):
            if k < len(wanted) and wanted[k] and size:
                table[k] = memory_of(self._from(at))
            at += size
        memory.point(solving.OF_VALUES, table)
        memory.words[solving.VALUES // 8] = len(table)
        memory.words[solving.HAS_TIMES // 8] = has_times


def _move(target: View, source: View) -> np.ndarray:
    return move_words(target, source, True, True, DOUBLE.itemsize)

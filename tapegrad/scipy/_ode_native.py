"""Initial value problems solved in compiled code, by the kernels of `_ode_kernels`.

The right-hand side is a callback, kept for calls whose functions differ in numbers alone. Steps are
those that SciPy takes, but for rounding. The begins of steps are kept; if they are too many, those
of each second, fourth, … step, from which the steps between are taken again for adjoints.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.tape.sweeps import memory_of
from .._program.callbacks import Callback
from .._program.replay.run_layout import GUARD_FAILED
from . import _ode_kernels as kernels
from . import _ode_stiff_kernels as stiff
from ._ode_records import ROUNDED, error_of_newton
from ._ode_right_side import LeftToScipy, RightSide, RightSideObjects, begun
from ._ode_tables import tables_of

#: Bytes of begins of steps that are kept before there are fewer of them.
BOUND = 1 << 20
_CAPABLE = ("RK23", "RK45", "DOP853", "Radau")
_CONTROLS = ("rtol", "atol", "max_step", "first_step")


# --- what is asked for ----------------------------------------------------------------------------


class Task:
    """An initial value problem of plain values that the kernels solve; others raise an error."""

    def __init__(self, given: dict[str, Any]):
        options, self.method = dict(given["options"]), given["method"]
        if self.method not in _CAPABLE or given["has_events"]:
            raise LeftToScipy
        if not options.keys() <= {*_CONTROLS}:
            raise LeftToScipy
        span, self.is_dense = given["span"], given["is_dense"]
        if len(span) != 2:
            raise LeftToScipy
        self.start, self.end = map(float, span)
        self.y0 = np.array(given["y0"])
        if self.y0.dtype.kind not in "fiu" or self.y0.ndim != 1 or not self.y0.size:
            raise LeftToScipy
        self.y0 = self.y0.astype(float)
        self.direction = 1.0 if self.end > self.start else -1.0
        self.asked = self._times(given["t_eval"])
        whole = abs(self.end - self.start)
        self.rtol = self._tolerance(options.get("rtol", 1e-3))
        self.atol = self._tolerance(options.get("atol", 1e-6))
        self.max_step = float(options.get("max_step", np.inf))
        first = options.get("first_step")
        self.first_step = -1.0 if first is None else float(first)
        is_right = self.rtol.min() >= _LEAST and self.atol.min() >= 0.0 and self.max_step > 0.0
        is_right = is_right and (first is None or 0.0 < self.first_step <= whole)
        if self.y0.size > tables_of(self.method).most:
            raise LeftToScipy
        if self.method == "Radau":
            if np.ndim(options.get("rtol", 1e-3)):
                raise LeftToScipy
            rtol = float(self.rtol[0])
            self.newton_tolerance = max(10 * np.finfo(float).eps / rtol, min(0.03, rtol**0.5))
        if not (is_right and 0.0 < whole < np.inf and np.isfinite(self.y0).all()):
            raise LeftToScipy

    def _times(self, t_eval) -> np.ndarray | None:
        """The times that are asked for, in the direction of the solution."""
        if t_eval is None:
            return None
        found = np.asarray(t_eval)
        if found.dtype != np.float64 or found.ndim != 1 or not found.size:
            raise LeftToScipy
        sign = self.direction
        is_within = sign * (found[0] - self.start) >= 0.0 and sign * (found[-1] - self.end) <= 0.0
        if not is_within or not (sign * (found[1:] - found[:-1]) > 0.0).all():
            raise LeftToScipy
        return np.array(found)

    def _tolerance(self, given) -> np.ndarray:
        if np.shape(given) not in ((), self.y0.shape):
            raise LeftToScipy
        made = np.empty(self.y0.shape)
        made[:] = given
        return made


#: Relative tolerances below this SciPy replaces, with a warning.
_LEAST = 100.0 * np.finfo(float).eps


# --- a solution -----------------------------------------------------------------------------------


class SolveMemory:
    """The words of a solve, with the memory that they name, for one use at a time."""

    def __init__(self, task: Task, callbacks: Sequence[Callback], values: Sequence[np.ndarray]):
        self.tables, n = tables_of(task.method), task.y0.size
        self.words = self.tables.words.copy()
        self.floats, self.address = self.words.view(np.float64), memory_of(self.words)
        self._keep: dict[int, np.ndarray] = {}
        self._callbacks, self._values = [*callbacks], values
        self._runs: list[tuple[Callback, list]] = []  # in use
        self._is_ahead = False
        self.words[kernels.SIZE // 8] = n
        self.words[kernels.WIDTH // 8] = width = max(3, self.tables.runs)
        self.point(kernels.CHOSEN, np.zeros(width, np.int64))
        self.point(kernels.FAILED_STATE, np.zeros(n))
        self.floats[kernels.MAX_STEP // 8] = task.max_step
        self.floats[kernels.BOUND // 8] = task.end
        self.floats[kernels.DIRECTION // 8] = task.direction
        self.point(kernels.RTOL, task.rtol)
        self.point(kernels.ATOL, task.atol)
        if task.method == "Radau":
            self.floats[stiff.TOLERANCE // 8] = task.newton_tolerance
            self.point(stiff.ARGUMENTS, np.array([*map(ord, "NT"), n, 3 * n, 1, 0], np.int64))
        sizes = self.tables.sizes(n)
        self._room = np.zeros(sum(sizes.values()))
        at = memory_of(self._room)
        for word, size in sizes.items():
            self.words[word // 8] = at
            at += 8 * size

    def point(self, word: int, array: np.ndarray) -> None:
        """Write the address of an array, which is kept."""
        self._keep[word] = array
        self.words[word // 8] = memory_of(array)

    def state(self, row: np.ndarray, steps: int) -> None:
        """Go to the begin of a step, from a row for it and the number of steps before."""
        self.floats[kernels.TIME // 8], self.floats[kernels.STEP // 8] = row[:2]
        self.floats[kernels.SLOPE_TIME // 8] = row[2]
        self.words[kernels.COUNT // 8] = steps
        size = self.words[kernels.SIZE // 8]
        self.point(kernels.STATE, row[3 : 3 + size].copy())

    def state_now(self) -> np.ndarray:
        """The state, as a row."""
        return self._keep[kernels.STATE][None].copy()

    def keep_rows(self, rows: np.ndarray, count: int = 0) -> None:
        """Note begins of steps in some rows, of which there are so many."""
        self.point(kernels.ROWS, rows)
        self.words[kernels.ROWS_ROOM // 8] = len(rows)
        self.words[kernels.ROWS_COUNT // 8] = count

    @contextlib.contextmanager
    def calls(self, ahead: bool) -> Iterator[None]:
        """Memory for calls of the right-hand side: of one, or of all stages for adjoints."""
        self._is_ahead = ahead
        self.words[kernels.IS_AHEAD // 8] = ahead
        self._set_calls()
        try:
            yield
        finally:
            self._end_calls()

    def _set_calls(self) -> None:
        count, width = self.tables.runs if self._is_ahead else 1, self.words[kernels.WIDTH // 8]
        table = np.zeros((len(self._callbacks), width), np.int64)
        for row, callback in zip(table, self._callbacks, strict=True):
            runs = begun(callback, 2, self._values, count)
            self._runs.append((callback, runs))
            row[:count] = [run.address for run in runs]
            row[count:] = row[0]
        self.point(kernels.RUNS, table)
        self.point(kernels.CALLBACKS, np.array([x.address for x in self._callbacks], np.int64))
        self.words[kernels.CALLBACKS_COUNT // 8] = len(table)

    def _end_calls(self) -> None:
        while self._runs:
            callback, runs = self._runs.pop()
            for run in runs:
                callback.program.end(run)

    def failed(self) -> tuple[float, np.ndarray] | None:
        """The time and state at which no callback goes the way through branches, if that is so."""
        if self.words[kernels.STATUS // 8] != GUARD_FAILED:
            return None
        return float(self.floats[kernels.FAILED_TIME // 8]), self._keep[kernels.FAILED_STATE].copy()

    def take_again(self, callback: Callback) -> None:
        """Go back to the begin of a step, or of all, with a further callback."""
        self._end_calls()
        self._callbacks.append(callback)
        self._set_calls()
        self.words[kernels.CALLS // 8] = self.words[kernels.CALLS_BEFORE // 8]
        count, stride = self.words[[kernels.COUNT // 8, kernels.STRIDE // 8]]
        if self.words[kernels.ROWS_COUNT // 8] and count % stride == 0:
            self.words[kernels.ROWS_COUNT // 8] -= 1
        if len(self.words) > kernels.SOLVE_WORDS:
            self.words[stiff.HAS_FACTORS // 8] = 0

    def set_tangents(self, found: Sequence[tuple[Callback, Any]]) -> None:
        """Tangents of slopes, with memory for calls of each."""
        self.point(kernels.TANGENTS, np.array([one.address for one, _ in found], np.int64))
        self.point(kernels.TANGENT_RUNS, np.array([run.address for _, run in found], np.int64))
        self.words[kernels.TANGENTS_COUNT // 8] = len(found)
        self.words[kernels.TANGENT_TIME // 8] = 2 + len(self._values)
        self.words[kernels.TANGENT_STATE // 8] = 3 + len(self._values)

    def begin(self) -> bool:
        """Compute what the first step needs; returns whether it has."""
        return self.tables.compiled[self.tables.begin](self.address) == kernels.DONE

    def steps(self, most: int, turned: Callable[[int], bool]) -> int:
        """Take steps; `turned` is told why it has stopped, and says whether it goes on."""
        turn = self.tables.turn(int(self.words[kernels.SIZE // 8]))
        while most > 0:
            before = self.words[kernels.COUNT // 8]
            why = self.tables.compiled[self.tables.advance](self.address, min(most, turn))
            most -= self.words[kernels.COUNT // 8] - before
            if why not in (kernels.DONE, kernels.PAUSED) and not turned(why):
                raise LeftToScipy
            if why == kernels.DONE:
                break
        return most


class KernelSolution:
    """A solution, with begins of steps: of one step in `stride`."""

    def __init__(self, task: Task, right_side: RightSide, values: Sequence[np.ndarray]):
        at = (task.start, task.y0, *values)
        self.right_side, self._of = right_side, (task, right_side.slopes(at), values)
        self.task, self.values, size = task, values, task.y0.size
        self._slopes: np.ndarray | None = None  # of all stages, for the interpolant
        memory = SolveMemory(*self._of)
        width = memory.tables.width(size)
        self.room = max(64, BOUND // (8 * width))
        self.rows = np.empty((self.room, width))
        self.stride = 1
        self._keep_slopes(memory)
        memory.keep_rows(self.rows)
        memory.state(np.array([task.start, task.first_step, task.start, *task.y0]), 0)
        self._ask(memory)
        with memory.calls(False):
            while not memory.begin():
                if not self._turned(memory, kernels.STOPPED):
                    raise LeftToScipy
            memory.steps(1 << 62, functools.partial(self._turned, memory))
        self.count = int(memory.words[kernels.COUNT // 8])
        self.counts = {"nfev": int(memory.words[kernels.CALLS // 8]), "njev": 0, "nlu": 0}
        if task.method == "Radau":
            self.counts["njev"] = int(memory.words[stiff.JACOBIANS // 8])
            self.counts["nlu"] = int(memory.words[stiff.FACTORS // 8])
        self.rows = self.rows[: memory.words[kernels.ROWS_COUNT // 8]]
        self._finish(memory)
        right_side.note(self.counts["nfev"], at)

    @property
    def error(self) -> float:
        """That of `Steps`."""
        task = self.task
        return error_of_newton(task.rtol, task.atol) if task.method == "Radau" else ROUNDED

    def _keep_slopes(self, memory: SolveMemory) -> None:
        """Room for the slopes of as many steps as there are rows, if the interpolant is wanted."""
        if not self.task.is_dense or self.task.method == "Radau":
            return
        shape = len(self.rows), memory.tables.runs, self.task.y0.size
        before, self._slopes = self._slopes, np.empty(shape)
        if before is not None:
            self._slopes[: len(before)] = before
        memory.point(kernels.KEPT, self._slopes)

    def _ask(self, memory: SolveMemory) -> None:
        """Room for the results."""
        task, size = self.task, self.task.y0.size
        if task.asked is not None:
            self.t, self.y = task.asked, np.empty((len(task.asked), size))
            memory.point(kernels.ASKED, self.t)
            memory.point(kernels.BETWEEN, self.y)
            memory.words[kernels.ASKED_COUNT // 8] = len(self.t)
            return
        self.t, self.y = np.empty(_ROOM), np.empty((_ROOM, size))
        self.t[0], self.y[0] = task.start, task.y0
        self._point(memory)

    def _point(self, memory: SolveMemory) -> None:
        memory.point(kernels.TIMES, self.t)
        memory.point(kernels.RESULTS, self.y)
        memory.words[kernels.RESULTS_ROOM // 8] = len(self.t)

    def _turned(self, memory: SolveMemory, why: int) -> bool:
        if why == kernels.RESULTS_FULL:
            self._resize(2 * len(self.t))
            self._point(memory)
        elif why == kernels.ROWS_FULL:
            is_thinned = memory.tables.is_thinned and not self.task.is_dense
            if 2 * self.stride > len(self.rows) or not is_thinned:
                full, self.rows = len(self.rows), np.concatenate([self.rows, self.rows])
                memory.keep_rows(self.rows, full)
                self._keep_slopes(memory)
            else:
                kept = (len(self.rows) + 1) // 2
                self.rows[:kept] = self.rows[::2].copy()
                self.stride *= 2
                memory.words[kernels.STRIDE // 8] = self.stride
                memory.words[kernels.ROWS_COUNT // 8] = kept
        elif why == kernels.STOPPED and (at := memory.failed()) is not None:
            _, callbacks, values = self._of
            callbacks.append(self.right_side.another_slope((*at, *values)))
            memory.take_again(callbacks[-1])
        else:
            return False
        return True

    def _resize(self, count: int) -> None:
        """Memory for more results, or for no more than there are."""
        self.t.resize(count, refcheck=False)
        self.y.resize((count, self.y.shape[1]), refcheck=False)

    def _finish(self, memory: SolveMemory) -> None:
        self._last = memory.state_now()
        if self.task.asked is None:
            self._resize(self.count + 1)

    @property
    def most_steps(self) -> int:
        """How many are taken without Python, which looks around after so many."""
        size = self.task.y0.size
        return min(self.room, tables_of(self.task.method).turn(size))

    @property
    def is_short(self) -> bool:
        """Whether it has no more steps than that."""
        return self.count <= self.most_steps and self.stride == 1

    def make_native(self) -> None:
        """Have the right-hand side compiled to machine code of its own."""
        self.right_side.make_native((self.task.start, self.task.y0, *self.values))

    @property
    def result(self):
        """SciPy's result."""
        y = np.ascontiguousarray(self.y.T) if self.task.asked is not None else self.y.T
        sol = self._interpolant() if self.task.is_dense else None
        found = dict(t=self.t, y=y, sol=sol, t_events=None, y_events=None)
        found.update(self.counts, status=0, message=_theirs().MESSAGES[0], success=True)
        return _theirs().OdeResult(**found)

    def _interpolant(self):
        """SciPy's solution as a function of time."""
        times, (states, stages) = self.steps()
        tables = tables_of(self.task.method)
        kept = self._slopes[: self.count] if stages is None else stages
        weights = np.einsum("ksn,sp->knp", kept, tables.P)
        make = getattr(importlib.import_module(tables.module), tables.interpolant)
        given = zip(times[:-1], times[1:], states, weights, strict=False)
        return _theirs().OdeSolution(times, [make(*one) for one in given])

    def steps(self) -> tuple[np.ndarray, tuple]:
        """The times and states of all steps and, of Radau, Z of the stages."""
        size = self.task.y0.size
        every = np.concatenate([rows.copy() for _, rows in self._segments()][::-1])
        states = np.concatenate([every[:, 3 : 3 + size], self._last])
        kept = every[:, 3 + size :].reshape(-1, 3, size) if self.task.method == "Radau" else None
        return np.append(every[:, 0], self.task.end), (states, kept)

    def _segments(self, turned: bool = True) -> Iterator[tuple[int, np.ndarray]]:
        """The number of the first step, and the begins of all steps, of some segments.

        The last segment comes first if they are `turned`.
        """
        if self.stride == 1:
            yield 0, self.rows
            return
        memory = SolveMemory(*self._of)
        rows = max(1, self.room // self.stride)
        room = np.empty((rows * self.stride, self.rows.shape[1]))
        every = range(0, len(self.rows), rows)
        for number in reversed(every) if turned else every:
            first = number * self.stride
            count = min(len(room), self.count - first)
            memory.state(self.rows[number], 0)
            memory.keep_rows(room)
            with memory.calls(False):
                if not memory.begin():
                    raise RuntimeError(_LOST)
                if memory.steps(count, lambda why: False):
                    raise RuntimeError(_LOST)
            yield first, room[:count]

    def is_current(self) -> bool:
        """Whether what the right-hand side reads is as it was."""
        return all([one.is_current() for one in self._of[1]])

    def pulled(self, seeds: tuple, wanted: int, has_times: bool) -> tuple:
        """The adjoints of the first state, of the begin and end, of times, and of values.

        `seeds` are those of the states after steps, or at `times`: the other is None. The times
        are in the direction of the solution.
        """
        of_steps, of_between, times = seeds
        size, memory = self.task.y0.size, SolveMemory(*self._of)
        of_state = np.array(of_steps[-1]) if of_steps is not None else np.zeros(size)
        of_asked = np.zeros(0 if of_between is None else len(of_between))
        of_values = [np.zeros(one.shape) for one in self._of[2][:wanted]]
        memory.point(kernels.OF_STATE, of_state)
        if of_steps is not None:
            memory.point(kernels.OF_STATES, of_steps)
        else:
            memory.point(kernels.ASKED, times)
            memory.point(kernels.OF_BETWEEN, of_between)
            memory.point(kernels.OF_ASKED, of_asked)
            memory.words[kernels.ASKED_COUNT // 8] = len(of_asked)
            memory.words[kernels.ASKED_NEXT // 8] = len(of_asked)
        table = [memory_of(one) for one in of_values] + [0] * (len(self._of[2]) - wanted)
        memory.point(kernels.OF_VALUES, np.array(table, np.int64))
        memory.words[kernels.VALUES // 8] = len(table)
        memory.words[kernels.HAS_TIMES // 8] = has_times
        memory.floats[kernels.END // 8] = self.task.end
        with memory.calls(True):
            for first, rows in self._segments():
                self._pull(memory, first, rows)
        of_start, of_step = memory.floats[[kernels.OF_TIME // 8, kernels.OF_STEP // 8]].tolist()
        return of_state, (of_start - of_step, of_step), of_asked, of_values

    def _pull(self, memory: SolveMemory, first: int, rows: np.ndarray) -> None:
        memory.keep_rows(rows, len(rows))
        turn = memory.tables.turn(self.task.y0.size)
        why = kernels.PAUSED
        while why == kernels.PAUSED:
            is_last = int(memory.floats[kernels.END // 8] == self.task.end)
            why = memory.tables.compiled[memory.tables.pull](memory.address, first, is_last, turn)
        if why != kernels.DONE:
            raise RuntimeError(_LOST)

    def pushed(self, first, ends: tuple, of_asked, moves: Sequence[np.ndarray]):
        """The tangents of the states after steps, or at times; None if they are not compiled.

        They are given those of the first state, of the ends, of these times, and of values.
        """
        (task, _, values), size = self._of, self.task.y0.size
        memory, count = SolveMemory(*self._of), len(self.t)
        change, made = np.array(first, dtype=float), np.empty((count, size))
        memory.point(kernels.CHANGE, change)
        memory.floats[[kernels.OF_START // 8, kernels.OF_END // 8]] = ends
        if task.asked is None:
            made[0] = change
            memory.point(kernels.CHANGES_OF_STATES, made)
        else:
            memory.point(kernels.ASKED, self.t)
            memory.words[kernels.ASKED_COUNT // 8] = count
            memory.point(kernels.CHANGES_BETWEEN, made)
            memory.point(kernels.CHANGES_OF_ASKED, np.array(of_asked, dtype=float))
        pushing = _Pushing(self, memory, [*values, 0.0, first, *moves])
        try:
            with memory.calls(True):
                pushing.begin()
                for number, rows in self._segments(turned=False):
                    pushing.push(number, rows)
        except LeftToScipy:
            return None
        finally:
            pushing.end()
        return made


class _Pushing:
    """Tangents on their way through steps; `given` are the arguments from the third on."""

    def __init__(self, solution: KernelSolution, memory: SolveMemory, given: list):
        self._solution, self._memory, self._given = solution, memory, given
        self._found: list[tuple[Callback, Any]] = []  # with memory for calls

    def begin(self) -> None:
        """Find tangents of slopes."""
        task = self._solution.task
        for one in self._solution.right_side.tangents((task.start, task.y0, *self._given)):
            self._add(one)

    def end(self) -> None:
        """Give memory for calls back."""
        for callback, run in self._found:
            callback.program.end(run)

    def _add(self, callback: Callback) -> None:
        self._found.append((callback, *begun(callback, 2, self._given, 1)))
        self._memory.set_tangents(self._found)

    def push(self, first: int, rows: np.ndarray) -> None:
        """Go through the steps of some rows, of which this is the number of the first."""
        memory, whole, of = self._memory, self._solution.task.end, self._solution
        is_last = first + len(rows) == of.count
        after = whole if is_last else of.rows[(first + len(rows)) // of.stride, 0]
        turn, start = memory.tables.turn(of.task.y0.size), 0
        while start < len(rows):
            some = rows[start : start + turn]
            is_end = start + len(some) == len(rows)
            memory.keep_rows(some, len(some))
            memory.floats[kernels.END // 8] = after if is_end else rows[start + turn, 0]
            push = memory.tables.compiled[memory.tables.push]
            if push(memory.address, first + start, int(is_last and is_end)) == kernels.DONE:
                start += len(some)
                continue
            start += int(memory.words[kernels.ROWS_DONE // 8])
            if (at := memory.failed()) is None:
                raise RuntimeError(_LOST)
            self._add(of.right_side.another_tangent((*at, *self._given)))


#: The number of results for which there is room at first.
_ROOM = 1024
_LOST = (
    "tapegrad.scipy.integrate: the steps of a solution are repeated for the derivative, and the "
    "right-hand side has no value where it had one"
)


@functools.cache
def _theirs() -> Any:
    """SciPy's module with the classes of results."""
    return importlib.import_module("scipy.integrate._ivp.ivp")


def solution_of(
    given: dict[str, Any], own: RightSideObjects, values: Sequence
) -> KernelSolution | None:
    """The solution of a problem, computed by the kernels; None for one that is left to SciPy."""
    try:
        task = Task(given)
        every = own.values(values)
        right_side = own.right_side(task.y0.size, every)
        return KernelSolution(task, right_side, every) if right_side is not None else None
    except LeftToScipy:
        return None

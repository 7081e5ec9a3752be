"""Initial value problems solved in compiled code, by the kernels of `_ode_kernels`.

The right-hand side is a callback, kept for calls whose functions differ in numbers alone. Steps are
those that SciPy takes, but for rounding. The begins of steps are kept; if they are too many, those
of each second, fourth, … step, from which the steps between are taken again for adjoints.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.tape.sweeps import memory_of
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import own_code
from .._custom.closures import Captured, OperandPlace
from .._custom.structure import KeptByStructure, with_numbers_lifted
from .._entering.entering import entering
from .._program.callbacks import Callback, callback_of
from .._transforms.jacobians import jvp
from . import _ode_kernels as kernels
from . import _ode_stiff_kernels as stiff
from ._ode_records import CHANGED, ROUNDED, Initial, error_of_newton
from ._ode_tables import tables_of

#: Bytes of begins of steps that are kept before there are fewer of them.
BOUND = 1 << 20
#: The most numbers of a state and steps together for which nothing else is looked after.
_TURN = 1 << 17
_CAPABLE = ("RK23", "RK45", "DOP853", "Radau")
_CONTROLS = ("rtol", "atol", "max_step", "first_step")


# --- the right-hand side --------------------------------------------------------------------------


class RightSide:
    """The right-hand side of problems alike: a function of the time, the state and values.

    `wanted` says how many of the values may be differentiated by.
    """

    def __init__(self, captured: Captured, form: dict[str, Any], wanted: int):
        self._functions = _calling(captured, form, wanted)
        self._found: list[Callback | None] = [None, None]
        self._tries = [0, 0]

    def callback(self, t: float, y: np.ndarray, values: Sequence) -> Callback | None:
        """The callback, if it can be compiled; made with these values unless there is one."""
        found = self._of(0, y.size, (t, y, *values))
        return found if found is not None and found.adjoints else None

    def tangent(self, y: np.ndarray, values: Sequence, moves: Sequence) -> Callback | None:
        """That of the tangent of the slope: its arguments are followed by tangents of them."""
        return self._of(1, y.size, (0.0, y, *values, 0.0, np.zeros(y.shape), *moves))

    def _of(self, number: int, size: int, arguments: tuple) -> Callback | None:
        found = self._found[number]
        if found is not None and found.is_current():
            return found
        if self._tries[number] == _TRIES:
            return None
        self._tries[number] += 1
        with rt.outside():
            found = callback_of(self._functions[number], arguments)
        if found is None or found.size != size:
            self._tries[number], found = _TRIES, None
        self._found[number] = found
        return found


#: The number of times that a right-hand side is compiled, since what it reads has changed.
_TRIES = 8


def _calling(captured: Captured, form: dict[str, Any], wanted: int) -> list[Callable]:
    """The function (t, y, *values), and that of its tangent."""
    objects = captured.objects

    def call(t, y, *values):
        assert objects  # programs find in its variables what the user's function reads
        return _slope(captured, form, t, y, values)

    def change(t, y, *given):
        assert objects
        return _change(captured, form, wanted, (t, y, *given))

    space = {"_slope": _slope, "_change": _change, "__name__": "right_side"}
    space["__builtins__"] = vars(builtins)
    return [
        types.FunctionType(f.__code__, space, f.__name__, None, f.__closure__)
        for f in (call, change)
    ]


def _slope(captured: Captured, form: dict[str, Any], t, y, values: Sequence):
    fun, rest = captured.filled(values)
    return Initial({**form, "fun": fun, "args": rest, "y0": y}, entering).f(t, y)


def _change(captured: Captured, form: dict[str, Any], wanted: int, given: tuple):
    at, moves = given[: len(given) - wanted - 2], given[len(given) - wanted - 2 :]
    fixed = at[2 + wanted :]

    def slope(t, y, *values):
        return _slope(captured, form, t, y, (*values, *fixed))

    return jvp(slope, at[: 2 + wanted], moves)[1]


_kept = KeptByStructure[RightSide]()


class RightSideObjects:
    """What the right-hand side of a call is made of, and the numbers that are values beside.

    `given` is the problem with places for the `count` recorded values.
    """

    def __init__(self, given: dict[str, Any], count: int):
        self._form = {name: given[name] for name in ("is_vectorized", "is_swapped")}
        self._form.update(span=(0.0, 0.0), t_eval=None, events=[])
        rest, numbers = _with_places(given["args"] or (), count)
        captured = Captured(given["fun"], rest)
        first = count + len(numbers)
        self._captured, more = with_numbers_lifted(captured, first) or (captured, [])
        self._numbers = [*numbers, *more]
        self._found: dict[tuple, RightSide | None] = {}
        self.is_known, self._count = not _reads_globals(self._captured), count

    def values(self, values: Sequence) -> list[np.ndarray]:
        """All values of the right-hand side, as they are now."""
        return [np.array(one, dtype=float) for one in (*values, *self._numbers)]

    def right_side(self, size: int, values: list[np.ndarray]) -> RightSide | None:
        """The one for calls like this; None if it is not known which these are."""
        kind = size, self._count, *[self._form[name] for name in ("is_vectorized", "is_swapped")]
        kind = *kind, *[one.shape for one in values]
        if kind not in self._found:
            make = functools.partial(RightSide, self._captured, self._form, self._count)
            found = _kept.get(kind, self._captured, make) if self.is_known else None
            self._found[kind] = found
        return self._found[kind]


def _with_places(rest, first: int) -> tuple[Any, list]:
    """Further arguments with places for floats; and these."""
    if not isinstance(rest, (tuple, list)):
        raise _NotCompiled
    numbers: list = []

    def placed(one):
        if type(one) is not float and type(one) is not np.float64:
            return one
        numbers.append(one)
        return OperandPlace(first + len(numbers) - 1)

    return tuple([placed(one) for one in rest]), numbers


class _NotCompiled(Exception):
    """A call that SciPy is left with."""


def _reads_globals(captured: Captured) -> bool:
    """Whether functions read recorded values from globals, of which copies have others."""
    return any(
        id(f.__globals__.get(name)) in captured.marked
        for f in captured.marked.values()
        if type(f) is types.FunctionType
        for name in own_code(f).co_names
    )


# --- what is asked for ----------------------------------------------------------------------------


class Task:
    """An initial value problem of plain values that the kernels solve; others raise an error."""

    def __init__(self, given: dict[str, Any]):
        options, self.method = dict(given["options"]), given["method"]
        if self.method not in _CAPABLE or not given["is_bare"]:
            raise _NotCompiled
        if not options.keys() <= {*_CONTROLS}:
            raise _NotCompiled
        span = given["span"]
        if len(span) != 2:
            raise _NotCompiled
        self.start, self.end = map(float, span)
        self.y0 = np.array(given["y0"])
        if self.y0.dtype.kind not in "fiu" or self.y0.ndim != 1 or not self.y0.size:
            raise _NotCompiled
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
            raise _NotCompiled
        if self.method == "Radau":
            if np.ndim(options.get("rtol", 1e-3)):
                raise _NotCompiled
            rtol = float(self.rtol[0])
            self.newton_tolerance = max(10 * np.finfo(float).eps / rtol, min(0.03, rtol**0.5))
        if not (is_right and 0.0 < whole < np.inf and np.isfinite(self.y0).all()):
            raise _NotCompiled

    def _times(self, t_eval) -> np.ndarray | None:
        """The times that are asked for, in the direction of the solution."""
        if t_eval is None:
            return None
        found = np.asarray(t_eval)
        if found.dtype != np.float64 or found.ndim != 1 or not found.size:
            raise _NotCompiled
        sign = self.direction
        is_within = sign * (found[0] - self.start) >= 0.0 and sign * (found[-1] - self.end) <= 0.0
        if not is_within or not (sign * (found[1:] - found[:-1]) > 0.0).all():
            raise _NotCompiled
        return np.array(found)

    def _tolerance(self, given) -> np.ndarray:
        if np.shape(given) not in ((), self.y0.shape):
            raise _NotCompiled
        made = np.empty(self.y0.shape)
        made[:] = given
        return made


#: Relative tolerances below this SciPy replaces, with a warning.
_LEAST = 100.0 * np.finfo(float).eps


# --- a solution -----------------------------------------------------------------------------------


class SolveMemory:
    """The words of a solve, with the memory that they name, for one use at a time."""

    def __init__(self, task: Task, callback: Callback, values: Sequence[np.ndarray]):
        self.tables, n = tables_of(task.method), task.y0.size
        self.words = self.tables.words.copy()
        self.floats, self.address = self.words.view(np.float64), memory_of(self.words)
        self._keep: dict[int, np.ndarray] = {}
        self._callback, self._values = callback, values
        self.words[kernels.SIZE // 8] = n
        self.words[kernels.CALLBACK // 8] = callback.address
        self.floats[kernels.MAX_STEP // 8] = task.max_step
        self.floats[kernels.BOUND // 8] = task.end
        self.floats[kernels.DIRECTION // 8] = task.direction
        self.point(kernels.RTOL, task.rtol)
        self.point(kernels.ATOL, task.atol)
        if task.method == "Radau":
            self.floats[stiff.TOLERANCE // 8] = task.newton_tolerance
            self.point(stiff.ARGUMENTS, np.array([*map(ord, "NT"), n, 3 * n, 1, 0], np.int64))
        self._runs = [np.zeros(max(3, self.tables.runs), np.int64) for _ in range(2)]
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
        with contextlib.ExitStack() as stack:
            given = self._callback, 2, self._values
            count = self.tables.runs if ahead else 1
            runs = [stack.enter_context(running(*given)) for _ in range(count)]
            table = self._runs[ahead]
            table[:] = [run.address for run in runs] if ahead else runs[0].address
            self.point(kernels.RUNS, table)
            self.words[kernels.IS_AHEAD // 8] = ahead
            yield

    def begin(self) -> bool:
        """Compute what the first step needs; returns whether it has."""
        return self.tables.compiled[self.tables.begin](self.address) == kernels.DONE

    def steps(self, most: int, turned: Callable[[int], bool]) -> int:
        """Take steps; `turned` is told why it has stopped, and says whether it goes on."""
        turn = max(1, _TURN // (8 + self.words[kernels.SIZE // 8]))
        while most > 0:
            before = self.words[kernels.COUNT // 8]
            why = self.tables.compiled[self.tables.advance](self.address, min(most, turn))
            most -= self.words[kernels.COUNT // 8] - before
            if why not in (kernels.DONE, kernels.PAUSED) and not turned(why):
                raise _NotCompiled
            if why == kernels.DONE:
                break
        return most


class KernelSolution:
    """A solution, with begins of steps: of one step in `stride`."""

    def __init__(
        self, task: Task, right_side: RightSide, callback: Callback, values: Sequence[np.ndarray]
    ):
        self._right_side, self._of = right_side, (task, callback, values)
        self.task, size = task, task.y0.size
        memory = SolveMemory(*self._of)
        width = memory.tables.width(size)
        self._room = max(64, BOUND // (8 * width))
        self.rows = np.empty((self._room, width))
        self.stride = 1
        memory.keep_rows(self.rows)
        memory.state(np.array([task.start, task.first_step, task.start, *task.y0]), 0)
        self._ask(memory)
        with memory.calls(False):
            if not memory.begin():
                raise _NotCompiled
            memory.steps(1 << 62, functools.partial(self._turned, memory))
        self.count = int(memory.words[kernels.COUNT // 8])
        self.counts = {"nfev": int(memory.words[kernels.CALLS // 8]), "njev": 0, "nlu": 0}
        if task.method == "Radau":
            self.counts["njev"] = int(memory.words[stiff.JACOBIANS // 8])
            self.counts["nlu"] = int(memory.words[stiff.FACTORS // 8])
        self.rows = self.rows[: memory.words[kernels.ROWS_COUNT // 8]]
        self._finish(memory)

    @property
    def error(self) -> float:
        """That of `Steps`."""
        task = self.task
        return error_of_newton(task.rtol, task.atol) if task.method == "Radau" else ROUNDED

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
            if 2 * self.stride > len(self.rows) or not memory.tables.is_thinned:
                full, self.rows = len(self.rows), np.concatenate([self.rows, self.rows])
                memory.keep_rows(self.rows, full)
            else:
                kept = (len(self.rows) + 1) // 2
                self.rows[:kept] = self.rows[::2].copy()
                self.stride *= 2
                memory.words[kernels.STRIDE // 8] = self.stride
                memory.words[kernels.ROWS_COUNT // 8] = kept
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
    def result(self):
        """SciPy's result."""
        y = np.ascontiguousarray(self.y.T) if self.task.asked is not None else self.y.T
        found = dict(t=self.t, y=y, sol=None, t_events=None, y_events=None)
        found.update(self.counts, status=0, message=_messages()[0], success=True)
        return _result_class()(**found)

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
        rows = max(1, self._room // self.stride)
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

    def pulled(self, seeds: tuple, wanted: int, has_times: bool) -> tuple:
        """The adjoints of the first state, of the begin and end, of times, and of values.

        `seeds` are those of the states after steps, or at times: the other is None.
        """
        of_steps, of_between = seeds
        if not self._of[1].is_current():
            raise RuntimeError(CHANGED.format("scipy.integrate.solve_ivp"))
        size, memory = self.task.y0.size, SolveMemory(*self._of)
        of_state = np.array(of_steps[-1]) if of_steps is not None else np.zeros(size)
        of_asked = np.zeros(0 if of_between is None else len(of_between))
        of_values = [np.zeros(one.shape) for one in self._of[2][:wanted]]
        memory.point(kernels.OF_STATE, of_state)
        if of_steps is not None:
            memory.point(kernels.OF_STATES, of_steps)
        else:
            memory.point(kernels.ASKED, self.t)
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
        turn = max(1, _TURN // (8 + self.task.y0.size))
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
        tangent = self._right_side.tangent(task.y0, values, moves)
        if tangent is None or not self._of[1].is_current():
            return None
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
        memory.words[kernels.TANGENT // 8] = tangent.address
        memory.words[kernels.TANGENT_TIME // 8] = 2 + len(values)
        memory.words[kernels.TANGENT_STATE // 8] = 3 + len(values)
        with memory.calls(True), running(tangent, 2, [*values, 0.0, first, *moves]) as run:
            memory.words[kernels.TANGENT_RUN // 8] = run.address
            for number, rows in self._segments(turned=False):
                self._push(memory, number, rows)
        return made

    def _push(self, memory: SolveMemory, first: int, rows: np.ndarray) -> None:
        is_last = first + len(rows) == self.count
        after = self.task.end if is_last else self.rows[(first + len(rows)) // self.stride, 0]
        turn = max(1, _TURN // (8 + self.task.y0.size))
        for start in range(0, len(rows), turn):
            some = rows[start : start + turn]
            end = rows[start + turn, 0] if start + turn < len(rows) else after
            memory.keep_rows(some, len(some))
            memory.floats[kernels.END // 8] = end
            is_end = int(is_last and start + turn >= len(rows))
            push = memory.tables.compiled[memory.tables.push]
            if push(memory.address, first + start, is_end) != kernels.DONE:
                raise RuntimeError(_LOST)


@contextlib.contextmanager
def running(callback: Callback, first: int, values: Sequence) -> Iterator[Any]:
    """Memory for calls of a callback, with some values from an argument on."""
    run = callback.program.begin()
    try:
        for one, value in zip(callback.program.code.inputs[first:], values, strict=True):
            run.values[one.view.offset : one.view.offset + one.view.size] = np.ravel(value)
        yield run
    finally:
        callback.program.end(run)


#: The number of results for which there is room at first.
_ROOM = 1024
_LOST = (
    "tapegrad.scipy.integrate: the steps of a solution are repeated for the derivative, and the "
    "right-hand side has no value where it had one"
)


@functools.cache
def _result_class() -> type:
    return importlib.import_module("scipy.integrate._ivp.ivp").OdeResult


@functools.cache
def _messages() -> dict[int, str]:
    return importlib.import_module("scipy.integrate._ivp.ivp").MESSAGES


def solution_of(
    given: dict[str, Any], own: RightSideObjects, values: Sequence
) -> KernelSolution | None:
    """The solution of a problem, computed by the kernels; None for one that is left to SciPy."""
    try:
        task = Task(given)
        every = own.values(values)
        right_side = own.right_side(task.y0.size, every)
        callback = right_side and right_side.callback(task.start, task.y0, every)
        if not right_side or not callback:
            return None
        return KernelSolution(task, right_side, callback, every)
    except _NotCompiled:
        return None

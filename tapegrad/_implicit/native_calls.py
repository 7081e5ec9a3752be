"""Calls of solvers in programs without Python: the equations as a callback, the table of a call."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .._core.codegen import process
from .._core.codegen.factory import compile_source
from .._core.operations import PUBLIC
from .._custom.closures import Captured, OperandPlace
from .._custom.structure import KeptByStructure, readers_of
from .._entering.entering import entering
from .._program.callbacks import Callback, callback_of
from .._program.ir.steps import DOUBLE, View, contiguous
from .._program.replay.moves import move_words, words
from .._program.replay.parts import SIGNATURE
from . import solver_kernels as kernels
from . import way_kernels as ways

#: Calls that SciPy solves before the equations are compiled; how often they are, for ways through
#: branches, and since what they read from outside has changed; of how many steps that share
#: equations these get machine code.
EAGER, RECORDS, MANY = 20, 16, 10


@dataclasses.dataclass
class SolverMethod:
    """How a call of a solver is made by a method of `solver_kernels`.

    `settings` are floats and places of numbers, which follow one another in the memory of the
    method. `found` has, for each part of the result, where in this memory the method writes it: the
    first word, and the strides of its axes. `functions` are further functions of the unknowns whose
    results it wants behind those of the equations.
    """

    name: str
    settings: list[Any]
    found: list[tuple[int, tuple[int, ...]]]
    functions: tuple[str, ...] = ()


class NativeSolver(Protocol):
    """What is known of a solver with a method in compiled code."""

    def method(self, solved: Any, *objects: Any) -> SolverMethod | None:
        """The method of a call, whose objects have places; None if there is none for them."""

    def function(self, name: str, *objects: Any) -> Callable:
        """A further function of the unknowns."""


@dataclasses.dataclass
class StepViews:
    """The views of a step: operands, which of them have adjoints, the parts of its result."""

    operands: list[View]
    wanted: list[bool]
    parts: list[View]


def view_of(part: np.ndarray, whole: np.ndarray, out: View) -> View:
    """The part of a result that has such a place in an array like it."""
    start = part.ctypes.data - whole.ctypes.data
    item = whole.itemsize
    return View(out.offset + start // item, part.shape, tuple([n // item for n in part.strides]))


# --- the equations, compiled ----------------------------------------------------------------------


class _Equations:
    """The equations of a problem, and further functions, as one vector."""

    def __init__(self, problem, functions: tuple[str, ...]):
        self.problem, self.functions = problem, functions

    def __call__(self, x, *values):
        parts = [self.problem.residual(x, (), values, entering)]
        parts += self.problem.further(self.functions, x, values)
        vectors = [PUBLIC["reshape"](one, (-1,)) for one in parts]
        return PUBLIC["concatenate"](vectors) if len(vectors) > 1 else vectors[0]


class _Ways:
    """The callbacks of a function for ways through its branches, as `way_kernels` have them."""

    def __init__(self, first: Callback):
        self.first, self._callbacks = first, list[Callback]()
        self._sizes = [one.view.size for one in first.program.code.inputs]
        self._shapes = [one.view.shape for one in first.program.code.inputs]
        self._noted = np.full(sum(self._sizes), np.nan)
        self._words = np.zeros(ways.WAYS_FIRST // 8 + ways.WAYS, np.int64)
        self._words[ways.WAYS_NOTED // 8] = self._noted.ctypes.data
        self.address = self._words.ctypes.data
        self.add(first)

    @property
    def is_full(self) -> bool:
        return len(self._callbacks) == ways.WAYS or not self.first.is_written

    def add(self, callback: Callback) -> None:
        """Have another way; calls that have begun do without it."""
        self._words[ways.WAYS_FIRST // 8 + len(self._callbacks)] = callback.address
        self._callbacks.append(callback)
        self._words[ways.WAYS_COUNT // 8] = len(self._callbacks)

    def noted(self) -> list[np.ndarray] | None:
        """The arguments of a call for which there was no way, once."""
        given = self._noted.copy()
        self._noted[:] = np.nan
        if np.isnan(given).any():
            return None
        parts = np.split(given, np.cumsum(self._sizes)[:-1])
        return [one.reshape(shape) for one, shape in zip(parts, self._shapes, strict=True)]


class _CompiledEquations:
    """Equations of calls whose functions differ in numbers alone, compiled after some calls."""

    def __init__(self, problem, captured: Captured, functions: tuple[str, ...]):
        problem = copy.copy(problem)
        problem.captured = captured
        self._function = _Equations(problem, functions)
        self._calls, self._lock = 0, process.lock()
        self._found: _Ways | None = None
        self._records, self._steps, self._is_callback = 0, 0, True

    def at(self, x: np.ndarray, values: list, is_new: bool) -> _Ways | None:
        """The equations, recorded here if they are not yet; None while calls are few.

        They are recorded again where something that they read from outside is another. `is_new`
        says that the step has not called yet: those of a loop get machine code of their own.
        """
        with self._lock:
            self._calls += 1
            self._steps += is_new
            if self._calls <= EAGER or not self._is_callback:
                return None
            if self._found is None or not self._found.first.is_current():
                made = self._recorded([x, *values])
                self._found = None if made is None else _Ways(made)
                self._is_callback = made is not None
            return self._found

    def another(self) -> None:
        """Record the way of a call for which there was none."""
        with self._lock:
            if self._found is None or self._found.is_full:
                return
            given = self._found.noted()
            made = None if given is None else self._recorded(given)
            if made is not None and made.size == self._found.first.size:
                self._found.add(made)

    def _recorded(self, given: list) -> Callback | None:
        self._records += 1
        readers = readers_of(self._function.problem.captured)
        if self._records > RECORDS or readers is None:
            return None
        made = callback_of(self._function, given, readers)
        if made is not None and self._steps >= MANY:
            made = made.native(given)
        return made if made is not None and made.adjoints else None


_kept = KeptByStructure[_CompiledEquations]()


@functools.cache
def compiled() -> dict[str, int]:
    return compile_source(kernels.TEXT, dict.fromkeys(kernels.EXPORTS, SIGNATURE))


# --- a call ---------------------------------------------------------------------------------------


class NativeCall:
    """A call of a solver in a step of a program, whose table is made.

    `places` are the numbers of the step's operands by values of the problem, None for those that
    are not recorded.
    """

    def __init__(self, problem, places: list[int | None]):
        self._problem = problem
        self._captured, self._numbers = problem.with_numbers_lifted(len(places), of_objects=True)
        self._places = [*places, *[None] * len(self._numbers)]
        self._compiled: _CompiledEquations | None = None
        self._is_refused = False
        self._kept: list = []  # what the table has addresses of

    def table(self, solved: Any, values: list, step: StepViews) -> np.ndarray | None:
        """The table, None while there are no compiled equations, or where there is no method."""
        if self._is_refused:
            return None
        method = self._problem.native.method(solved, *self._captured.objects)
        every = [*values, *self._numbers]
        self._is_refused = method is None or not all(map(_is_float, [solved.x, *every]))
        if method is None or self._is_refused:
            return None
        is_new = self._compiled is None
        if self._compiled is None:
            self._compiled = self._shared(method, np.shape(solved.x))
        found = self._compiled.at(solved.x, every, is_new)
        return None if found is None else self._words(method, found, every, step)

    def left(self) -> None:
        """Let the equations be recorded on a way that they have gone now."""
        if self._compiled is not None:
            self._compiled.another()

    def _shared(self, method: SolverMethod, shape: tuple[int, ...]) -> _CompiledEquations:
        def made() -> _CompiledEquations:
            return _CompiledEquations(self._problem, self._captured, method.functions)

        kind = self._problem.name, method.functions, shape, len(self._places)
        return _kept.get(kind, self._captured, made) or made()

    def _words(
        self, method: SolverMethod, found: _Ways, every: list, step: StepViews
    ) -> np.ndarray:
        inputs = [one.view for one in found.first.program.code.inputs]
        constants, values, adjoints = [], [], []
        for k, (place, one) in enumerate(zip(self._places, every, strict=True), 1):
            if place is None:
                constants.append(np.array([k, *self._memory_of(one)]))
                continue
            operand = step.operands[place]
            values.append(_move(inputs[k], operand))
            if step.wanted[place]:
                adjoints.append(move_words(operand, inputs[k], False, True, DOUBLE.itemsize))
        solution = step.parts[0]
        settings, copied, moved = self._settings(method, every, step)
        results = [
            _move(part, View(at, part.shape, strides))
            for part, (at, strides) in zip(step.parts, method.found, strict=True)
            if part.size
        ]
        gradient = _move(contiguous(0, solution.shape), solution)
        lists = (
            constants,
            values,
            copied,
            moved,
            results,
            [_move(inputs[0], solution)],
            [gradient],
        )
        code = compiled()
        head = code[method.name], code["pulled"], found.address
        counts = solution.size, len(inputs), len(settings), self._memory_of(settings)[0]
        self._kept.append(found)
        return _table([*head, *counts], (*lists, adjoints))

    def _settings(self, method: SolverMethod, every: list, step: StepViews) -> tuple:
        """The settings, copies of those that are arrays, moves of those that are operands."""
        numbers, copied, moved, at = [], [], [], 0
        for one in method.settings:
            place = None
            if isinstance(one, OperandPlace):
                place, one = self._places[one.number], every[one.number]
            if place is not None:
                view = step.operands[place]
                moved.append(_move(contiguous(at, view.shape), view))
            elif isinstance(one, np.ndarray):
                copied.append(np.array([at, *self._memory_of(one)]))
            numbers.append(np.ravel(one))
            at += np.size(one)
        return np.concatenate(numbers).astype(float), copied, moved

    def _memory_of(self, one) -> tuple[int, int]:
        """Address and bytes of a number or an array; an array is read as it is then."""
        array = np.ascontiguousarray(one, float)
        self._kept.append(array)
        return array.ctypes.data, array.nbytes


def _move(target: View, source: View) -> np.ndarray:
    return move_words(target, source, True, True, DOUBLE.itemsize)


def _is_float(one) -> bool:
    """Whether it is a float, or floats in C order, which are read where they are."""
    array = np.asarray(one)
    return array.dtype == np.float64 and array.flags.c_contiguous


def _table(head: list[int], lists: tuple) -> np.ndarray:
    """The words of a table: its head, where lists are, the lists."""
    at, places, items = 8 * kernels.HEAD_WORDS, [], []
    for one in lists:
        items.append(words(len(one), *one))
        places.append(at)
        at += items[-1].nbytes
    return words(head, places, *items)

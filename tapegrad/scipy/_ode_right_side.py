"""Right-hand sides of initial value problems as callbacks, which compiled code calls by address."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.pytree import own_code
from .._custom.closures import Captured, OperandPlace
from .._custom.structure import KeptByStructure, readers_of, with_numbers_lifted
from .._entering.entering import entering
from .._program.callbacks import Callback, callback_of
from .._transforms.jacobians import jvp
from ._ode_records import Initial


class LeftToScipy(Exception):
    """A call that SciPy is left with."""


class RightSide:
    """The right-hand side of problems alike: a function of the time, the state and values.

    It has a callback for each way through its branches that was gone; and one for each way of its
    tangent, whose arguments are followed by tangents of them. `wanted` says how many of the values
    may be differentiated by.
    """

    def __init__(self, captured: Captured, form: dict[str, Any], wanted: int):
        self._functions = _calling(captured, form, wanted)
        self._readers = readers_of(captured)
        self._found: tuple[list[Callback], list[Callback]] = ([], [])
        self._tries, self._calls = [0, 0], 0

    def slopes(self, arguments: tuple) -> list[Callback]:
        """The callbacks; if there are none, the one for the way that these arguments take."""
        return self._ways(0, arguments)

    def tangents(self, arguments: tuple) -> list[Callback]:
        """The same of the tangent."""
        return self._ways(1, arguments)

    def another_slope(self, arguments: tuple) -> Callback:
        """A further callback, for the way that these arguments take."""
        return self._another(0, arguments)

    def another_tangent(self, arguments: tuple) -> Callback:
        """The same of the tangent."""
        return self._another(1, arguments)

    @property
    def known_slopes(self) -> list[Callback]:
        """The callbacks there are."""
        return [*self._found[0]]

    def calls_left(self, size: int) -> int:
        """How many calls for states of a size there are before it gets machine code of its own."""
        is_native = self._calls > MANY_CALLS
        return 1 << 62 if is_native else (MANY_CALLS - self._calls) // _weight(size)

    def note(self, calls: int, arguments: tuple) -> None:
        """Note calls; after many the right-hand side gets machine code of its own."""
        before, self._calls = self._calls, self._calls + calls * _weight(np.size(arguments[1]))
        if before <= MANY_CALLS < self._calls:
            self.make_native(arguments)

    def make_native(self, arguments: tuple) -> None:
        """Have it compiled to machine code of its own now."""
        self._calls, found = max(self._calls, MANY_CALLS + 1), self._found[0]
        if len(found) == 1 and not found[0].program.native:
            found[0] = found[0].native(arguments)

    def _ways(self, number: int, arguments: tuple) -> list[Callback]:
        found = self._found[number]
        if not all([one.is_current() for one in found]):
            found.clear()
        if not found:
            self._another(number, arguments)
        return [*found]

    def _another(self, number: int, arguments: tuple) -> Callback:
        if self._tries[number] == _TRIES or self._readers is None:
            raise LeftToScipy
        self._tries[number] += 1
        with rt.outside():
            made = callback_of(self._functions[number], arguments, self._readers)
        if made is None or made.size != np.size(arguments[1]) or not (number or made.adjoints):
            self._tries[number] = _TRIES
            raise LeftToScipy
        self._found[number].append(made)
        return made


#: How often a right-hand side is compiled, for its ways through branches, and since what it reads
#: has changed; and after how many calls it gets machine code of its own, which takes a tenth of a
#: second to compile and saves some ten nanoseconds in each call, or one for each number.
_TRIES, MANY_CALLS = 16, 1 << 22


def _weight(size: int) -> int:
    """For how many calls one counts, of a state of a size."""
    return 1 + size // 8


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
    found = Initial({**form, "fun": fun, "args": rest, "y0": y}, entering).f(t, y)
    captured.warn_of_writes("scipy.integrate")
    return found


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
        rest, self.is_known = given["args"] or (), True
        if not isinstance(rest, (tuple, list)):
            rest, self.is_known = (), False
        rest, numbers = _with_places(rest, count)
        captured = Captured(given["fun"], rest)
        first = count + len(numbers)
        self._captured, more = with_numbers_lifted(captured, first) or (captured, [])
        self._numbers = [*numbers, *more]
        self._found: dict[tuple, RightSide | None] = {}
        self.is_known = self.is_known and not _reads_globals(self._captured)
        self._count = count

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
    numbers: list = []

    def placed(one):
        if type(one) is not float and type(one) is not np.float64:
            return one
        numbers.append(one)
        return OperandPlace(first + len(numbers) - 1)

    return tuple([placed(one) for one in rest]), numbers


def _reads_globals(captured: Captured) -> bool:
    """Whether functions read recorded values from globals, of which copies have others."""
    return any(
        id(f.__globals__.get(name)) in captured.marked
        for f in captured.marked.values()
        if type(f) is types.FunctionType
        for name in own_code(f).co_names
    )


def begun(callback: Callback, first: int, values: Sequence, count: int) -> list:
    """Memories for calls of a callback, with some values from an argument on."""
    program = callback.program
    runs = [program.begin() for _ in range(count)]
    for one, value in zip(program.code.inputs[first:], values, strict=True):
        start, flat = one.view.offset, np.ravel(value)
        for run in runs:
            run.values[start : start + len(flat)] = flat
    return runs

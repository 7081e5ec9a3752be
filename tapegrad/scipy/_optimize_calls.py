"""Calls of SciPy's solvers as operations: SciPy is given plain values, its results get tensors."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.remembered import remembered
from .._core.tensor.copies import unlisted
from .._core.tensor.trace import DerivativeLost, is_steering, learned, refuse
from .._core.tensor.values import array_of, is_recorded, is_tensor, wrap
from .._flow.reading import solvers
from .._implicit.linear import STRAY
from .._implicit.native_calls import NativeSolver
from .._implicit.solution import Problem, Solved, answer
from ..autograd._function_calls import FunctionCall
from ._differentiable import differentiable, of_functions

#: The arguments of a call by name.
Given = dict[str, Any]


class Solver:
    """A function of SciPy that solves, with what is needed of it for the derivative.

    `equations(given)` is a function of x, and of what is in `aux`, that is 0 at the solution, for
    arguments that may be recorded. `read(given, result)` finds both in SciPy's result. `finish(
    given, result, x)` puts the solution into it. `pattern(given, aux)` tells where the Jacobian of
    large equations is not 0.
    """

    def __init__(
        self,
        name: str,
        equations: Callable,
        read: Callable,
        finish: Callable,
        pattern: Callable | None = None,
    ):
        self.name, self._equations, self._read, self._finish = name, equations, read, finish
        self._pattern = pattern
        module, _, function = name.rpartition(".")
        #: What graphs follow in its place.
        self.followed_by = solvers.FOLLOWED.get(function) if module == "optimize" else None
        #: What is known of methods in compiled code, made with `named`.
        self.native: NativeSolver | None = None

    @remembered
    def theirs(self) -> Callable:
        module, _, name = self.name.rpartition(".")
        return getattr(importlib.import_module(f"scipy.{module}"), name)

    def __call__(self, *args, **kwargs):
        name, given = f"scipy.{self.name}", (args, kwargs)
        problem = Problem(name, self._solve, self._conditions, given)
        if self._pattern is not None:
            problem.pattern = self._pattern_of
        problem.native, problem.is_in_graphs = self.native, self.followed_by is not None
        if not problem.tensors:
            return self._of_plain(args, kwargs, name)
        refusal = Refusal(name, problem.tensors)
        x, solved = answer(problem)
        result = solved.result
        if problem.is_traced:
            result = traced(result, iter(solved.fields.values()))
        return refusal.inside(self._finish(self.named(args, kwargs), result, x))

    @remembered
    def _parameters(self) -> tuple[tuple[str, ...], Given, str]:
        """The names of SciPy's parameters, their defaults, and that of further keywords."""
        every = inspect.signature(self.theirs).parameters.values()
        rest = [one.name for one in every if one.kind is one.VAR_KEYWORD]
        names = tuple([one.name for one in every if one.kind is not one.VAR_KEYWORD])
        defaults = {one.name: one.default for one in every if one.default is not one.empty}
        return names, defaults, (rest or [""])[0]

    def named(self, args: tuple, kwargs: dict) -> Given:
        """All arguments by name. SciPy itself gets those that are given: its signatures differ."""
        names, defaults, rest = self._parameters
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if rest:
            given[rest] = {name: one for name, one in kwargs.items() if name not in names}
        return given

    def _of_plain(self, args: tuple, kwargs: dict, name: str):
        try:
            return self.theirs(*args, **kwargs)
        except DerivativeLost as error:
            error.args = (STRAY.format(name),)
            raise

    def _conditions(self, args: tuple, kwargs: dict) -> Callable:
        return self._equations(self.named(args, kwargs))

    def _pattern_of(self, args: tuple, kwargs: dict, aux):
        assert self._pattern is not None
        return self._pattern(self.named(args, kwargs), aux)

    def _solve(self, args: tuple, kwargs: dict) -> Solved:
        result = self.theirs(*args, **kwargs)
        solved = self._read(self.named(args, kwargs), result)
        solved.result = result
        solved.fields = {str(k): one for k, one in enumerate(numbers_in(result))}
        return solved


def solver(name: str, *parts: Callable, native: Callable | None = None) -> None:
    """Let SciPy's function of a name in `optimize` be differentiated by a `Solver`.

    `native(named)` gives what is known of methods in compiled code.
    """
    made = Solver(f"optimize.{name}", *parts)
    made.native = None if native is None else native(made.named)
    let_solve(made)


def let_solve(made: Solver) -> None:
    """Let SciPy's function be differentiated by a solver."""

    @of_functions
    @differentiable(made.name)
    def function(*args, **kwargs):
        return made(*args, **kwargs)

    function.followed_by = made.followed_by


def arguments(args) -> tuple:
    """Further arguments of a function as SciPy takes them."""
    return args if isinstance(args, tuple) else (args,)


class OfX:
    """A function of x alone; one of its results, by number, if it gives derivatives too.

    It is `entered` by its function, which differs from that of another turn of a loop in data.
    """

    def __init__(self, f: Callable, args, part: int | None = None):
        self._f, self._rest, self._part = f, arguments(args), part

    def __call__(self, x):
        found = self._f(x, *self._rest)
        return unlisted(found if self._part is None else found[self._part])

    def entered(self, how: Callable) -> Callable:
        return OfX(how(self._f), self._rest, self._part)


# --- SciPy's results ------------------------------------------------------------------------------

#: Fields that are 0 at every solution, or held constant, where no rule of a solver gives them.
_WITHOUT_SLOPE = frozenset(("fun", "fvec", "x", "active_mask"))
_NO_RULE = (
    "tapegrad.{}: {!r} of the result has no derivative; compute it from the solution, or "
    "take tg.stop_gradient of it"
)


class Refusal:
    """What makes floats of a result raise an error if a derivative of them is asked for.

    They are those to which no rule gives a derivative; `causes` are what the call depends on.
    """

    def __init__(self, name: str, causes: list):
        self._name = name
        self._causes = [one for one in causes if is_recorded(one) and not is_steering(one)]

    def inside(self, result):
        """A result in which they do; of traced dicts, when they are read."""
        if isinstance(result, dict):
            if "_refusal" in (own := getattr(result, "__dict__", {})):
                own["_refusal"] = self
                return result
            for name, value in result.items() if self._causes else ():
                dict.__setitem__(result, name, self.of(name, value))
        elif type(result) is tuple and self._causes:
            return (result[0], *[self.of(k, one) for k, one in enumerate(result[1:], 1)])
        return result

    def of(self, name: str | int, value):
        """The value of a field."""
        if isinstance(value, tuple):
            return tuple([self.of(name, one) for one in value])
        if isinstance(value, dict):
            return self.inside(value)
        if type(value).__name__ == "LbfgsInvHessProduct" and self._causes:
            value = copy.copy(value)
            value.sk, value.yk = self.of(name, value.sk), self.of(name, value.yk)
            return value
        is_plain = not is_tensor(value) and is_number(value)
        if not (is_plain or (is_tensor(value) and (not is_recorded(value) or is_steering(value)))):
            return value
        if not self._causes or name in _WITHOUT_SLOPE or array_of(value).dtype.kind != "f":
            return value
        message = _NO_RULE.format(self._name, name)
        given = wrap(np.asarray(value)) if is_plain else value
        return FunctionCall.refusing(given, message, self._causes, DerivativeLost)


def is_number(value) -> bool:
    """Whether a part of a result is a number, or an array of some."""
    return isinstance(value, (bool, int, float, np.number, np.bool_)) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    )


def numbers_in(result) -> list:
    """The numbers and arrays in a result, in tuples and dicts."""
    if isinstance(result, (tuple, dict)):
        items = result.values() if isinstance(result, dict) else result
        return [number for item in items for number in numbers_in(item)]
    return [result] if is_number(result) else []


def names_in(result, name: str = "") -> Iterator[str]:
    """Their names: keys of dicts, else their places in a tuple."""
    if isinstance(result, (tuple, dict)):
        items = result.items() if isinstance(result, dict) else enumerate(result)
        for key, item in items:
            yield from names_in(item, str(key))
    elif is_number(result):
        yield name


def traced(result, tensors):
    """A result with tensors for its numbers, whose other contents a program does not follow."""
    if isinstance(result, tuple):
        items = [traced(item, tensors) for item in result]
        for one in items if any(isinstance(item, str) for item in items) else ():
            if is_tensor(one) and one.dtype.kind == "i":  # the text says what a number stands for
                learned(one, "a message of SciPy")
        return tuple(items)
    if isinstance(result, dict):
        found = {name: traced(value, tensors) for name, value in result.items()}
        made = dict.__new__(_guarded(type(result)))
        made.__dict__["_refusal"] = None
        dict.update(made, found)
        return made
    return next(tensors) if is_number(result) else result


def _is_followed(value) -> bool:
    """Whether a program computes a field again: a tensor, a list of some, or what asks for them."""
    if isinstance(value, list):
        return all(map(is_tensor, value))
    if isinstance(value, dict):  # it tells of its own fields
        return True
    return is_tensor(value) or getattr(value, "is_followed", False)


#: Fields of results that are the same in all calls, or by the field that decides them.
_FIXED, _DECIDED = frozenset(("method",)), {"flag": "converged"}


class _Guarded:
    """What tells the trace of fields that are read, before the class of a result."""

    def __getitem__(self, name):
        _tell_of(self, name)
        value, refusal = dict.__getitem__(self, name), self.__dict__["_refusal"]
        return value if refusal is None else refusal.of(name, value)

    def __iter__(self):  # so dict(result) and {**result} ask for each item
        return dict.__iter__(self)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def values(self):
        return [self[name] for name in self]

    def items(self):
        return [(name, self[name]) for name in self]

    def copy(self):
        return dict(self.items())

    def pop(self, name, *default):
        if name not in self:
            return dict.pop(self, name, *default)
        found = self[name]
        dict.pop(self, name)
        return found


def _tell_of(made, name: str) -> None:
    value = dict.get(made, name)
    if name in _FIXED or value is None or _is_followed(value):
        return
    if name in _DECIDED:
        learned(dict.__getitem__(made, _DECIDED[name]), f"the field {name} of a result")
    else:
        refuse(f"it reads the field {name} of a result of SciPy's")


@functools.cache
def _guarded(kind: type) -> type:
    """A subclass of SciPy's results that tells the trace of fields which are read."""
    methods = {name: one for name, one in vars(_Guarded).items() if callable(one)}
    space = {**methods, "__doc__": kind.__doc__, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), space)


def first_of(result):
    """A result that is x, or that begins with it."""
    return result[0] if isinstance(result, tuple) else result


def first(given: Given, result, x):
    """A result that is x, or a tuple which begins with it."""
    return (x, *result[1:]) if isinstance(result, tuple) else x


def in_field(name: str) -> Callable:
    """What puts x into a field of a result."""

    def finish(given: Given, result, x):
        result[name] = x
        return result

    return finish

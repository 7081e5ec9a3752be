"""Integrands as functions of x and one vector of numbers, and their derivatives, compiled.

An integral is linear in its integrand: its derivative by a number is the integral of the
integrand's derivative by it. So all numbers by which an integrand may be differentiated are one
vector `theta`, and each derivative is another integrand, of this vector or of one with more numbers
behind it.
"""

from __future__ import annotations

import builtins
import functools
import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import (
    ComplexTensor,
    imag_part,
    is_recorded,
    is_tensor,
    real_part,
    value_of,
)
from .._custom.closures import Captured
from .._custom.own_variables import are_close, with_own_variables
from .._custom.structure import KeptByStructure
from .._entering.entering import entering
from .._program.compile import compile as compiled
from .._transforms.gradients import grad
from .._transforms.jacobians import jvp, vjp

_HIDDEN = (
    "tapegrad.scipy.{}: the function that it calls reads a recorded value that is not found in its "
    "arguments, in variables of enclosing functions, globals and attributes, so that its "
    "derivative would be lost; give it the value in args"
)


def plain_result(name: str, value):
    """What a user's function returned, as SciPy takes it: a plain value."""
    if not is_tensor(value) and type(value) is not ComplexTensor:
        return value
    if is_recorded(value):
        raise DerivativeLost(_HIDDEN.format(name))
    if type(value) is ComplexTensor:
        return value_of(value._re) + 1j * value_of(value._im)
    return value_of(value)


class VectorLayout:
    """Where recorded numbers and arrays are in a vector."""

    def __init__(self, tensors):
        self.parts = [(np.shape(value_of(one)), value_of(one).dtype) for one in tensors]
        self.size = sum([math.prod(shape) for shape, _ in self.parts])

    def split(self, theta) -> list:
        """The numbers and arrays of a vector, in order."""
        made, start = [], 0
        for shape, dtype in self.parts:
            end = start + math.prod(shape)
            one = theta[start:end].reshape(shape) if shape else theta[start]
            made.append(one if dtype == np.float64 else one.astype(dtype))
            start = end
        return made

    def spread(self, values: list[bool]) -> np.ndarray:
        """For each element of the vector the value of its number or array."""
        return np.repeat(np.array(values, bool), [math.prod(shape) for shape, _ in self.parts])


def joined(tensors):
    """Numbers and arrays as one vector of floats."""
    flat = [PUBLIC["reshape"](one, (-1,)).astype(np.float64) for one in tensors]
    return flat[0] if len(flat) == 1 else PUBLIC["concatenate"](flat)


# --- integrands of plain values, and their derivatives --------------------------------------------


class Integrand:
    """A function (x, theta), and its derivatives by theta and by x.

    It is called with plain values, and compiled after `eager` calls. `size` is the number of
    elements of theta, `count` that of results; None if they are as the user's.
    """

    def __init__(self, name: str, function: Callable, size: int, eager: float, count: int | None):
        self.name, self.function, self.size = name, function, size
        self.eager, self.count = eager, count
        self._calls = 0
        self._compiled: Any = None
        self._made: dict[Any, Integrand] = {}

    def bound(self, theta) -> Callable:
        """The function of x alone."""
        return functools.partial(self._at, theta)

    def _at(self, theta, x):
        if self._calls > _SETTLED and self._compiled is not None:
            return self._compiled(x, theta)
        self._calls += 1
        if self._calls <= self.eager:
            return plain_result(self.name, self.function(x, theta))
        if self._compiled is None:
            self._compiled = compiled(self.function)
            self._compiled._flows.has_warned = True  # no call of the user's asks for a program
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "tapegrad.compile", RuntimeWarning)
            return self._compiled(x, theta)

    def gradient(self, shape: tuple[int, ...]) -> Integrand:
        """The integrand of the gradient by theta, for results of a shape.

        If they are several, theta is followed by weights, and it is that of the weighted sum.
        """
        if shape == ():
            return self._of("gradient", grad(self.function, argnums=1), self.size, self.size)
        pulled = functools.partial(_pulled, self.function, self.size, shape)
        return self._of(shape, pulled, self.size + math.prod(shape), self.size)

    def partial(self, k: int) -> Integrand:
        """The integrand of the derivative by an element of x, a tuple of arrays."""
        made = functools.partial(_by_element, self.function, k)
        return self._of(("partial", k), made, self.size, self.count)

    def face(self, k: int) -> Integrand:
        """The integrand on a face, where coordinate k is the number behind theta."""
        made = functools.partial(_on_face, self.function, self.size, k)
        return self._of(("face", k), made, self.size + 1, self.count)

    def tangent(self) -> Integrand:
        """The integrand of the derivative along a direction, which follows theta."""
        pushed = functools.partial(_pushed, self.function, self.size)
        return self._of("tangent", pushed, 2 * self.size, self.count)

    def slope(self) -> Integrand:
        """The integrand of the derivative by x."""
        return self._of("slope", functools.partial(_sloped, self.function), self.size, self.count)

    def moment(self) -> Integrand:
        """The integrand times x."""
        times = functools.partial(_times_x, self.function)
        return self._of("moment", times, self.size, self.count)

    def _of(self, name, function: Callable, size: int, count: int | None) -> Integrand:
        made = Integrand(self.name, function, size, self.eager, count)
        return self._made.setdefault(name, made)  # another thread may have been faster


#: The number of calls that are made without a program: of what is kept for other integrals, and of
#: what is not; and of all calls in which programs may be made.
_EAGER, _LONELY, _SETTLED = 5, 40, 80


def _pulled(function: Callable, size: int, shape: tuple[int, ...], x, both):
    _, back = vjp(lambda theta: function(x, theta), both[:size])
    return back(both[size:].reshape(shape))[0]


def _pushed(function: Callable, size: int, x, both):
    return jvp(lambda theta: function(x, theta), (both[:size],), (both[size:],))[1]


def _sloped(function: Callable, x, theta):
    return jvp(lambda x: function(x, theta), (x,), (1.0,))[1]


def _by_element(function: Callable, k: int, x, theta):
    unit = np.ones(np.shape(value_of(x[k])))
    return jvp(lambda one: function((*x[:k], one, *x[k + 1 :]), theta), (x[k],), (unit,))[1]


def _on_face(function: Callable, size: int, k: int, x, both):
    height = both[size] * np.ones((len(x), 1))
    whole = PUBLIC["concatenate"]([x[:, :k], height, x[:, k:]], axis=1)
    return function(whole, both[:size])


def _times_x(function: Callable, x, theta):
    return x * function(x, theta)


# --- the integrand that a user gave ---------------------------------------------------------------


class IntegrandArguments:
    """A user's function with its further arguments, of which recorded numbers are in theta.

    The first values are computed by the function itself, later ones by one whose variables nothing
    else assigns, and derivatives by one like it that is kept for later integrals.
    """

    count = None

    def __init__(self, name: str, function: Callable, args: tuple, *, compiles: bool = True):
        self.name = name
        own, later = Captured(function, args), Captured(*with_own_variables((function, args)))
        self.tensors, own.tensors, found = own.tensors, [], own.tensors
        is_same = [*map(id, found)] == [*map(id, later.tensors)]
        later.tensors, self.layout, self._later = [], VectorLayout(found), later
        self._first: Captured | None = own if is_same else later
        self._like = _integrand_like(name, later, self.layout, compiles)
        #: First calls of functions: which one, arguments, result. A program has no need of them.
        self._noted: list[tuple] | None = None if rt.trace() is not None else []

    def __getattr__(self, name: str):
        return getattr(self._like, name)

    def function(self, x, theta):
        """The function with recorded values."""
        return _called(self._later, self.layout, x, theta)

    def finished(self) -> None:
        """Note that the integral has been computed, by the function itself."""
        if self._first is not None:
            self._first.warn_of_writes(self.name)
        self._first = None

    def filled(self, theta) -> tuple:
        """The function and its arguments with plain values."""
        values = [] if theta is None else self.layout.split(theta)
        return (self._first or self._later).filled(values)

    def bound(self, theta) -> Callable:
        """The function of x alone, of plain values, as SciPy calls it."""
        return self.checked(*self.filled(theta))

    def checked(self, function: Callable, args: tuple = (), number: int = 0) -> Callable:
        """A function of plain values, whose results are plain; its number says which one it is."""
        name, noted = self.name, self._noted if self._first is not None else None

        def at(*x):
            found = plain_result(name, function(*x, *args))
            if noted is not None and len(noted) < _NOTED:
                noted.append((number, _copied(x), _copied((found,))[0]))
            return found

        return at

    def check_unchanged(self, functions: Callable[[], list[Callable]]) -> None:
        """Raise an error if functions give something else than when they were called first."""
        if not self._noted:
            return
        now = functions()
        with np.errstate(all="ignore"):  # as some of SciPy's functions call it
            for number, x, before in self._noted:
                again = now[number](*x)
                if isinstance(again, float) and again == before:
                    continue
                if not are_close(np.asarray(again), np.asarray(before)):
                    raise RuntimeError(_CHANGED.format(self.name))


def _copied(x: tuple) -> tuple:
    """Arguments, and arrays in tuples, that a caller may write to later."""
    if len(x) == 1 and isinstance(x[0], float):
        return x
    return tuple(
        [
            _copied(one) if isinstance(one, tuple) else one if np.isscalar(one) else np.array(one)
            for one in x
        ]
    )


#: The number of calls by which it is noticed that what a function reads has changed: the nodes of
#: Gauss's rule in `quad`, which lie all over the interval.
_NOTED = 11
_CHANGED = (
    "tapegrad.scipy.{}: the derivative calls the function again, and it gives something else than "
    "before: it reads data that have been changed since, or random numbers; give it copies of data "
    "that change, in args"
)


def _called(captured: Captured, layout: VectorLayout, x, theta):
    function, args = captured.filled([] if theta is None else layout.split(theta))
    found = entering(function)(x, *args)
    if type(found) is ComplexTensor or np.iscomplexobj(found):
        return PUBLIC["stack"]([real_part(found), imag_part(found)])
    return found


_kept = KeptByStructure[Integrand]()


def _integrand_like(
    name: str, captured: Captured, layout: VectorLayout, compiles: bool
) -> Integrand:
    """The integrand of functions that differ in recorded values alone."""

    def made(eager: float = _EAGER) -> Integrand:
        return Integrand(name, _calling(captured, layout), layout.size, eager, None)

    if not compiles:
        return made(np.inf)
    found = _kept.get((name, *layout.parts), captured, made)
    return made(_LONELY) if found is None else found


def _calling(captured: Captured, layout: VectorLayout) -> Callable:
    """The function (x, theta)."""
    objects = captured.objects

    def call(x, theta):
        assert objects  # programs find in its variables what the user's function reads
        return _called(captured, layout, x, theta)

    space = {"_called": _called, "__name__": _OF_USERS, "__builtins__": vars(builtins)}
    return types.FunctionType(call.__code__, space, call.__name__, None, call.__closure__)


#: The module of functions that are to be searched for data like those of users.
_OF_USERS = "integrands"

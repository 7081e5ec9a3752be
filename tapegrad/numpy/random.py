"""NumPy's `random`: with recorded parameters, draws that keep the derivative where that is exact.

A draw of normal, uniform, exponential, laplace, gumbel, logistic, lognormal, rayleigh, weibull,
pareto and power numbers is a function of its parameters and of numbers that do not depend on them
(location + scale · draw, …): its derivative is that of this function, and its value is NumPy's for
the same state of the generator, but for rounding. `choice` and `permutation` of recorded values
pick them. Others refuse recorded parameters by name.

In a compiled function draws would be those of the recording: it runs eagerly, with a
RuntimeWarning. Pass draws as arguments; see `docs/randomness.md`.

>>> import numpy as np
>>> import tapegrad as tg
>>> from tapegrad.numpy import random
>>> def f(scale):
...     return np.mean(random.default_rng(0).normal(1.0, scale, size=1000) ** 2)
>>> bool(abs(tg.grad(f)(2.0) - 4.0) < 0.4)
True
"""

from __future__ import annotations

import functools as _functools
from collections.abc import Callable as _Callable
from typing import Any as _Any

import numpy as _np

from .._core.operations import PUBLIC as _PUBLIC
from .._core.operations.without_derivative import accepted_parameters as _accepted_parameters
from .._core.tensor import runtime as _rt
from .._core.tensor.apply import apply as _apply
from .._core.tensor.copies import unlisted as _unlisted
from .._core.tensor.pytree import none_recorded as _none_recorded
from .._core.tensor.registry import with_note as _with_note
from .._core.tensor.trace import learned as _learned
from .._core.tensor.trace import lost_derivative as _lost_derivative
from .._core.tensor.trace import refuse as _refuse
from .._core.tensor.trace import steered as _steered
from .._core.tensor.values import array_of as _array_of
from .._core.tensor.values import shape_of as _shape_of
from ._lists import DRAWS as _DRAWS_NOTE

__all__ = list(_np.random.__all__)


def _moved(z, loc, scale):
    return _apply("add", loc, _apply("multiply", scale, z))


def _lognormal(z, mean, sigma):
    return _apply("exp", _moved(z, mean, sigma))


def _between(u, low, high):
    return _apply("add", low, _apply("multiply", _apply("subtract", high, low), u))


def _scaled(z, scale):
    return _apply("multiply", scale, z)


def _weibull(e, a):
    made = _apply("power", e, _apply("reciprocal", _np.where(_np.equal(a, 0.0), 1.0, a)))
    return _apply("where", _np.equal(a, 0.0), 0.0, made)


def _pareto(e, a):
    return _apply("expm1", _apply("divide", e, a))


def _power(e, a):
    return _apply("power", -_np.expm1(-e), _apply("reciprocal", a))


#: By name: the parameters with their defaults, the draw that does not depend on them and its
#: arguments, and the result. All are as in NumPy's C code.
_EXACT: dict[str, tuple[dict, str, tuple, _Callable]] = {
    "normal": ({"loc": 0.0, "scale": 1.0}, "normal", (0.0, 1.0), _moved),
    "laplace": ({"loc": 0.0, "scale": 1.0}, "laplace", (0.0, 1.0), _moved),
    "gumbel": ({"loc": 0.0, "scale": 1.0}, "gumbel", (0.0, 1.0), _moved),
    "logistic": ({"loc": 0.0, "scale": 1.0}, "logistic", (0.0, 1.0), _moved),
    "lognormal": ({"mean": 0.0, "sigma": 1.0}, "normal", (0.0, 1.0), _lognormal),
    "uniform": ({"low": 0.0, "high": 1.0}, "uniform", (0.0, 1.0), _between),
    "exponential": ({"scale": 1.0}, "standard_exponential", (), _scaled),
    "rayleigh": ({"scale": 1.0}, "rayleigh", (1.0,), _scaled),
    "weibull": ({"a": None}, "standard_exponential", (), _weibull),
    "pareto": ({"a": None}, "standard_exponential", (), _pareto),
    "power": ({"a": None}, "standard_exponential", (), _power),
}


#: Methods that draw no numbers.
_OTHERS = frozenset("bit_generator spawn seed get_state set_state".split())
_DRAWS = "a program would repeat the draws of its recording; draw outside and pass them"


class _Drawing:
    """A generator's method of a name, or NumPy's function: called as NumPy's is."""

    def __init__(self, name: str, owner: _Any, theirs: _Callable, place: str):
        self.name, self.owner, self.theirs, self.place = name, owner, theirs, place

    def __call__(self, args, kwargs):
        if _none_recorded(args) and (not kwargs or _none_recorded(kwargs.values())):
            return self.theirs(*args, **kwargs)
        if self.name in _EXACT:
            return self._by_its_parameters(*args, **kwargs)
        if self.name in ("choice", "permutation"):
            return self._picked(*args, **kwargs)
        raise _lost_derivative(
            f"{self.place} has no derivative: an argument is recorded, and the draws are not a "
            "function of it and of other draws; use x.detach(), or a distribution that "
            "docs/randomness.md names",
            args,
            kwargs,
        )

    def _by_its_parameters(self, *args, **kwargs):
        defaults, base, given, result = _EXACT[self.name]
        names = [*defaults, "size"]
        if len(args) > len(names) or not {*kwargs} <= {*names[len(args) :]}:
            raise TypeError(f"{self.place}: takes the arguments {', '.join(names)}")
        found = {**defaults, "size": None, **dict(zip(names, args, strict=False)), **kwargs}
        size = found.pop("size")
        parameters = [_unlisted(found[name]) for name in defaults]
        values = [_array_of(one) for one in parameters]
        generator = self.owner.bit_generator if hasattr(self.owner, "bit_generator") else None
        before = _state_of(self.owner, generator)
        sample = self.theirs(*values, size=size)  # refuses what NumPy refuses
        _learned(_steered(_accepted_parameters, *parameters, name=self.name), f"{self.place}()")
        _set_state(self.owner, generator, before)
        draw = getattr(_Theirs(self.owner), base)(*given, size=_np.shape(sample) or None)
        return result(draw, *parameters)

    def _picked(self, *args, **kwargs):
        """Elements of recorded values, as NumPy picks them."""
        first = "a" if self.name == "choice" else "x"
        values, args = (args[0], args[1:]) if args else (kwargs.pop(first), ())
        others = {k: v for k, v in kwargs.items() if k != "axis"}
        axis = kwargs.get("axis", 0)
        if not _none_recorded((*args, *others.values())):
            raise _lost_derivative(
                f"{self.place}: p is recorded, but the selection has no derivative with respect to "
                "p; use p.detach()",
                args,
                others,
            )
        values = _unlisted(values)
        if self.name == "choice" and len(args) > 3:  # axis and shuffle by position
            axis, args = args[3], (*args[:3], *args[4:])
        elif self.name == "permutation" and args:
            axis, args = args[0], ()
        picked = self.theirs(_shape_of(values)[axis], *args, **others)
        return _PUBLIC["take"](values, picked, axis=axis)


class _Theirs:
    """NumPy's own methods of a generator."""

    def __init__(self, owner):
        self._owner = owner

    def __getattr__(self, name: str):
        kind = _np.random.Generator
        if isinstance(self._owner, kind):
            return _functools.partial(getattr(kind, name), self._owner)
        return getattr(_np.random.RandomState, name).__get__(self._owner)


def _state_of(owner, generator):
    return generator.state if generator is not None else owner.get_state(legacy=False)


def _set_state(owner, generator, state) -> None:
    if generator is not None:
        generator.state = state
    else:
        owner.set_state(state)


def _method(name: str, kind: type):
    """A method of a generator that notes draws in a trace."""
    theirs = getattr(kind, name)
    place = f"tapegrad.numpy.random.{kind.__name__}.{name}"

    @_functools.wraps(theirs)
    def method(self, *args, **kwargs):
        if _rt.trace() is not None and self._trace is not _rt.trace():
            what = f"{kind.__name__}.{name}()"
            _refuse(f"{what} draws random numbers: {_DRAWS} as arguments", faithful=True)
        return _Drawing(name, self, _functools.partial(theirs, self), place)(args, kwargs)

    method.__doc__ = _with_note(theirs.__doc__, _DRAWS_NOTE)
    return method


def _names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and name not in _OTHERS]


class Generator(_np.random.Generator):
    """NumPy's generator, whose draws keep the derivative to recorded parameters."""

    def __init__(self, bit_generator):
        super().__init__(bit_generator)
        self._trace = _rt.trace()  # a generator made inside of a trace draws the same each time

    def __reduce__(self):
        return Generator, (self.bit_generator,)


class RandomState(_np.random.RandomState):
    """NumPy's older generator, whose draws keep the derivative to recorded parameters."""

    def __init__(self, seed=None):
        super().__init__(seed)
        self._trace = _rt.trace() if seed is not None else None


for _kind, _theirs in ((Generator, _np.random.Generator), (RandomState, _np.random.RandomState)):
    for _name in _names(_theirs):
        setattr(_kind, _name, _method(_name, _theirs))


def default_rng(seed=None) -> Generator:
    """Construct a generator whose draws keep the derivative to recorded parameters.

    Parameters
    ----------
    seed : optional
        The arguments of `numpy.random.default_rng`. A generator is drawn from.

    Returns
    -------
    Generator
        NumPy's generator, with the methods of this module.
    """
    if type(seed) is Generator:
        return seed
    made = Generator(_np.random.default_rng(seed).bit_generator)
    if seed is None or isinstance(seed, (_np.random.Generator, _np.random.BitGenerator)):
        made._trace = None  # it draws other numbers at each call
    return made


def _function(name: str, theirs):
    """NumPy's function of its common generator."""
    place = f"tapegrad.numpy.random.{name}"
    owner = theirs.__self__

    @_functools.wraps(theirs)
    def function(*args, **kwargs):
        if _rt.trace() is not None:
            _refuse(
                f"np.random.{name}() draws random numbers: {_DRAWS} as arguments", faithful=True
            )
        return _Drawing(name, owner, theirs, place)(args, kwargs)

    function.__doc__ = _with_note(theirs.__doc__, _DRAWS_NOTE)
    return function


def _fill() -> None:
    for name in __all__:
        if name not in globals():
            found = getattr(_np.random, name)
            drawing = hasattr(found, "__self__") and name not in _OTHERS
            globals()[name] = _function(name, found) if drawing else found


_fill()


def __getattr__(name: str):
    return getattr(_np.random, name)

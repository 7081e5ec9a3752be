"""`complex()` and the functions of `cmath` in entered code: recorded numbers stay recorded."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.complex_tensors import imag_part, joined_parts, real_part
from .._core.tensor.plain_data import number_of
from .._core.tensor.trace import learned, steered
from .._core.tensor.values import value_of

_TENSORS = rt.Tensor, rt.ComplexTensor


def _are_plain(given) -> bool:
    return not any([isinstance(one, _TENSORS) for one in given])


def _parts(one) -> tuple:
    """The real and the imaginary part of a number as it is."""
    if isinstance(one, rt.ComplexTensor):
        return real_part(one), imag_part(one)
    if isinstance(one, rt.Tensor):
        kept = number_of(one)
        return (float(one) if kept is None else kept), 0.0  # an array has its own error
    made = complex(one)
    return made.real, made.imag


def _plain(one) -> complex:
    return complex(*[float(value_of(part)) for part in _parts(one)])


def complex_of_recorded(*given, **named):
    """Python's `complex`; of recorded numbers a recorded one."""
    if len(given) + len(named) > 2 or _are_plain((*given, *named.values())):
        return complex(*given, **named)
    every = [*given, *[named.get(name, 0.0) for name in ("real", "imag")][len(given) :]]
    real, imag = every[0], every[1]
    (a, b), (c, d) = _parts(real), _parts(imag)
    if isinstance(imag, (complex, rt.ComplexTensor)):
        a = a - d
    if isinstance(real, (complex, rt.ComplexTensor)):
        c = b + c
    return joined_parts(a, c)


def _of_python(made):
    """A result whose numbers are Python's."""
    if isinstance(made, rt.ComplexTensor):
        return joined_parts(*map(_of_python, (real_part(made), imag_part(made))))
    kept = number_of(made) if isinstance(made, rt.Tensor) else None
    return made if kept is None else kept


def _checked(theirs: Callable, made, given: tuple):
    """A result that is finite; else what Python's function raises there.

    Programs serve only operands for which it is so again.
    """
    name = f"cmath.{theirs.__name__}()"
    parts = _parts(made)
    if all([math.isfinite(float(value_of(part))) for part in parts]):
        if rt.trace() is not None:
            for part in parts:
                learned(steered(np.isfinite, part), name)
        return _of_python(made)
    for one in given:
        for part in _parts(one):
            learned(part, name)
    theirs(*map(_plain, given))
    return _of_python(made)


def _unary(theirs: Callable, ours: str) -> Callable:
    """A function of one number by an operation."""

    @functools.wraps(theirs)
    def function(z, /):
        if not isinstance(z, _TENSORS):
            return theirs(z)
        return _checked(theirs, PUBLIC[ours](joined_parts(*_parts(z))), (z,))

    return function


def _recorded(theirs: Callable) -> Callable[[Callable], Callable]:
    """A decorator: Python's function of plain numbers, another one of recorded ones."""

    def decorate(ours: Callable) -> Callable:
        @functools.wraps(theirs)
        def function(*given, **named):
            return theirs(*given, **named) if _are_plain(given) else ours(*given, **named)

        return function

    return decorate


@_recorded(cmath.log)
def _log(z, *base):
    found = [PUBLIC["log"](joined_parts(*_parts(one))) for one in (z, *base)]
    return _checked(cmath.log, found[0] / found[1] if base else found[0], (z, *base))


@_recorded(cmath.phase)
def _phase(z):
    real, imag = _parts(z)
    return _of_python(PUBLIC["arctan2"](imag, real))


@_recorded(cmath.polar)
def _polar(z):
    return _of_python(PUBLIC["absolute"](joined_parts(*_parts(z)))), _phase(z)


@_recorded(cmath.rect)
def _rect(r, phi):
    made = joined_parts(r * PUBLIC["cos"](phi), r * PUBLIC["sin"](phi))
    return _checked(cmath.rect, made, (r, phi))


@_recorded(cmath.isclose)
def _isclose(a, b, *, rel_tol=1e-9, abs_tol=0.0):
    off, sizes = abs(a - b), (abs(a), abs(b))
    return bool(off <= abs_tol) or any([bool(off <= rel_tol * size) for size in sizes])


def _truth(theirs: Callable, ours: Callable, of_both: Callable) -> Callable:
    """A function of the parts that answers yes or no."""
    return _recorded(theirs)(lambda z: of_both([bool(ours(part)) for part in _parts(z)]))


_OPERATIONS = {
    **{
        name: name for name in ("exp", "sqrt", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
#: What stands for the functions of `cmath`.
OF_CMATH: dict[Any, Callable] = {
    **{getattr(cmath, name): _unary(getattr(cmath, name), op) for name, op in _OPERATIONS.items()},
    **{cmath.log: _log, cmath.phase: _phase, cmath.polar: _polar, cmath.rect: _rect},
    cmath.isclose: _isclose,
    cmath.isnan: _truth(cmath.isnan, np.isnan, any),
    cmath.isinf: _truth(cmath.isinf, np.isinf, any),
    cmath.isfinite: _truth(cmath.isfinite, np.isfinite, all),
}

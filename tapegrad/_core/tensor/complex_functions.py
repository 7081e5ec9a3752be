"""The treatment of complex operands by public functions, by name; others refuse them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from . import runtime as rt
from .callers import users_line
from .complex_tensors import (
    PARTS_OF,
    REAL,
    ComplexTensor,
    combined,
    holds_tensors,
    imag_part,
    is_complex,
    real_part,
)
from .refusal_advice import KINDS
from .refused_derivatives import lost_derivative

#: The treatment of complex operands by a public function, by its public name: called with the
#: function and with its arguments.
OF_COMPLEX: dict[str, Callable] = {}


def seems_complex(args) -> bool:
    """Whether one of some arguments is complex, or a list that holds a complex value."""
    for argument in args:
        if type(argument) not in REAL and is_complex(argument):
            return True
    return False


def taking_complex(name: str, ours):
    """A public function with the treatment of `OF_COMPLEX` if an argument is complex."""

    @functools.wraps(ours)
    def function(*args, **kwargs):
        for argument in args:
            if type(argument) not in REAL and is_complex(argument):
                return called_with_complex(name, ours, args, kwargs)
        if not kwargs:
            return ours(*args)
        for argument in kwargs.values():
            if type(argument) not in REAL and is_complex(argument):
                return called_with_complex(name, ours, args, kwargs)
        return ours(*args, **kwargs)

    return function


def called_with_complex(name: str, ours, args, kwargs):
    """Call a function with complex operands; among constants alone it is NumPy's."""
    if not any(map(holds_tensors, (*args, *kwargs.values()))):
        return ours(*args, **kwargs)
    how = OF_COMPLEX.get(name)
    if how is None:
        raise refused(name, args, kwargs)
    return how(ours, *args, **kwargs)


def refused(name: str, *operands) -> TypeError:
    """The error of a function that takes no complex operands."""
    return lost_derivative(
        f"tapegrad.{name}: an operand is complex, which {name} does not take; use it on the real "
        "and the imaginary part, z.real and z.imag",
        *operands,
    )


def complex_function(*names: str):
    """A decorator: what public functions of these names do with complex operands."""

    def enter(how):
        OF_COMPLEX.update(dict.fromkeys(names, how))
        return how

    return enter


@functools.cache
def _names_of(ours) -> list[str]:
    return list(inspect.signature(ours).parameters)


@functools.cache
def _repeated_from(ours) -> int | None:
    """The place of the parameter that takes all further positional arguments, or None."""
    kinds = [one.kind for one in inspect.signature(ours).parameters.values()]
    several = inspect.Parameter.VAR_POSITIONAL
    return kinds.index(several) if several in kinds else None


def split(ours, args, kwargs, data: tuple[str, ...]) -> list[tuple]:
    """The arguments with real parts, and with imaginary parts, of those that `data` names.

    Without names that is the first one. A complex argument is split in any case.
    """
    names, repeated = _names_of(ours), _repeated_from(ours)
    data = data or tuple(names[:1])
    found = []
    for part in (real_part, imag_part):
        made = []
        for k, argument in enumerate(args):
            name = names[k if repeated is None else min(k, repeated)] if names else ""
            is_part = argument is not None and (name in data or is_complex(argument))
            made.append(part(argument) if is_part else argument)
        named = {
            k: part(a) if a is not None and (k in data or is_complex(a)) else a
            for k, a in kwargs.items()
        }
        found.append((made, named))
    return found


def by_parts(*data: str):
    """The function of the real parts and of the imaginary parts: it is linear, or moves elements.

    `data` names the arguments that are parts, which is the first unless they are named; others are
    the same for both.
    """

    def how(ours, *args, out=None, dtype=None, **kwargs):
        if dtype is not None:
            kwargs["dtype"] = real_dtype(ours.__name__, dtype)
        first, second = split(ours, args, kwargs, data)
        return written_to(out, combined(ours(*first[0], **first[1]), ours(*second[0], **second[1])))

    return how


def writing_parts(*data: str):
    """As `by_parts`, for a function that writes to its first argument."""

    def how(ours, target, *args, **kwargs):
        if type(target) is not ComplexTensor:
            raise TypeError(
                f"tapegrad.{ours.__name__}: complex values cannot be written to a real tensor or a "
                "plain array; write to a complex tensor, or write z.real"
            )
        for positional, named in split(ours, (target, *args), kwargs, data):
            ours(*positional, **named)

    return how


def real_dtype(name: str, dtype):
    """The dtype of the parts of a requested complex dtype."""
    dtype = np.dtype(dtype)
    if dtype not in PARTS_OF:
        raise TypeError(
            f"tapegrad.{name}: an operand is complex and cannot become {dtype}; use z.real, or "
            "dtype=complex"
        )
    return PARTS_OF[dtype]


def by_products(count: int = 2, first: int = 0, conjugated: bool = False):
    """The function is linear in each of `count` operands, which come after `first` others.

    With `conjugated` it takes the complex conjugate of the first. Sums of products are from +0, as
    NumPy's: no part of them is -0.
    """

    def how(ours, *args, out=None, **kwargs):
        n = len(args) - first if count < 0 else count
        before, operands = args[:first], list(args[first : first + n])
        rest = args[first + n :]
        if len(operands) < n:  # by their names
            names = _names_of(ours)[first + len(operands) : first + n]
            operands += [kwargs.pop(name) for name in names]
        if conjugated:
            operands[0] = conjugate_of(operands[0])
        re, im = _products(lambda *parts: ours(*before, *parts, *rest, **kwargs), [], operands)
        if n > 1:
            re, im = re + 0.0, im + 0.0
        return written_to(out, combined(re, im))

    return how


def _products(function, done: list, operands: list):
    """The real and the imaginary part of a multilinear function; some operands are real parts."""
    if not operands:
        return function(*done), None
    operand, *rest = operands
    if not is_complex(operand):
        return _products(function, [*done, operand], rest)
    a, b = _products(function, [*done, real_part(operand)], rest)
    c, d = _products(function, [*done, imag_part(operand)], rest)
    return (a, c) if b is None else (a - d, b + c)


def conjugate(value):
    """Return the complex conjugate, with memory of its own.

    Returns
    -------
    ComplexTensor
    """
    made = conjugate_of(value)
    return combined(_own(made._re), made._im) if type(made) is ComplexTensor else made


def own_memory(z):
    """A complex value with memory of its own."""
    return combined(_own(z._re), _own(z._im)) if type(z) is ComplexTensor else +z


def _own(part):
    """A part with memory of its own; a number has none that could be written."""
    return part if type(part) is rt.Scalar else +part


def conjugate_of(value):
    """The complex conjugate for reading: it shares the real part of a tensor."""
    if not is_complex(value):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(map(conjugate_of, value))
    return combined(value._re, -value._im) if type(value) is ComplexTensor else np.conj(value)


def alike(ours, *args, **kwargs):
    """The function as it is: written in functions that take complex operands."""
    return ours(*args, **kwargs)


def written_to(out, made):
    """The result, written to `out` where one is given."""
    if out is None:
        return made
    if is_complex(made) and type(out) is not ComplexTensor:
        raise lost_derivative(
            "tapegrad: out=: a complex result cannot be written to a plain NumPy array or to a "
            f"real tensor ({users_line()}); {KINDS['complex write']}",
            made,
        )
    out[...] = made
    return out

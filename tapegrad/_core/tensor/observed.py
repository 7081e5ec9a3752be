"""Operations at which NumPy looks while its error state is loud (see `error_state`).

Each one is computed by NumPy first, with plain values, which raises and warns as it would without
derivatives. The result is dropped.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable

import numpy as np

from . import error_state
from . import runtime as rt
from .complex_tensors import ComplexTensor
from .row_listeners import users_level
from .trace import refuse
from .values import array_of, is_tensor, value_of

#: Functions that call functions of users, write, or give text: NumPy is not asked.
_NOT_ASKED = frozenset(
    "apply_along_axis apply_over_axes piecewise copyto put place putmask put_along_axis "
    "fill_diagonal save savez savez_compressed savetxt array2string array_repr array_str "
    "mask_indices may_share_memory shares_memory".split()
)
#: Methods and operators that may compute.
_METHODS = (
    "all any argmax argmin astype choose clip compress conj cumprod cumsum diagonal dot max mean "
    "min prod round std sum take trace var __abs__ __mod__ __rmod__ __floordiv__ __rfloordiv__ "
    "__divmod__ __rdivmod__ __matmul__ __rmatmul__".split()
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "pow")
#: Operators of complex tensors; those of others call Python while the state is loud.
_OF_COMPLEX = [f"__{r}{name}__" for name in _ARITHMETIC for r in ("", "r")]
_REASON = (
    "it computes while NumPy's error state (np.errstate, np.seterr) asks for errors or more than "
    "its default warnings, which a program does not give"
)


def observed(theirs: Callable, ours: Callable, args: tuple, kwargs: dict):
    """The result of our function, after NumPy's has looked at the values."""
    if rt.trace() is not None and not error_state.state_is_loud():  # only warnings are errors
        return ours(*args, **kwargs)
    refuse(_REASON)
    _ask(theirs, args, kwargs)
    with error_state.silent():
        return ours(*args, **kwargs)


def _ask(theirs: Callable, args: tuple, kwargs: dict) -> None:
    """Let NumPy compute with plain values, and pass on what it raises and warns of."""
    given = [_plain(one) for one in args]
    named = {name: _plain(one) for name, one in kwargs.items() if name != "out"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            theirs(*given, **named)
        except FloatingPointError:
            raise
        except Exception:  # ours raises it, unless it is that of a function given to np.seterrcall
            if "call" in np.geterr().values():
                raise
    for one in seen:
        if issubclass(one.category, RuntimeWarning):
            warnings.warn(one.message, one.category, stacklevel=users_level())


def _plain(value):
    """An argument for NumPy, with arrays of its own: theirs may be written."""
    if type(value) in (list, tuple):
        return type(value)([_plain(one) for one in value])
    if type(value) is ComplexTensor:
        return array_of(value)[()]
    value = value_of(value) if is_tensor(value) else value
    return value.copy() if type(value) is np.ndarray else value


def _of_ufunc(ours):
    @functools.wraps(ours)
    def array_ufunc(self, ufunc, method, *inputs, **kwargs):
        calls_users = not any(set(types) - {*"O->"} for types in ufunc.types)  # np.frompyfunc
        if not error_state.is_loud() or calls_users:
            return ours(self, ufunc, method, *inputs, **kwargs)
        made = functools.partial(ours, self, ufunc, method)
        return observed(getattr(ufunc, method), made, inputs, kwargs)

    return array_ufunc


def _of_function(ours):
    @functools.wraps(ours)
    def array_function(self, function, types, args, kwargs):
        if not error_state.is_loud() or function.__name__ in _NOT_ASKED:
            return ours(self, function, types, args, kwargs)
        made = lambda *a, **k: ours(self, function, types, a, k)  # noqa: E731
        return observed(function, made, tuple(args), kwargs)

    return array_function


def _of_method(name: str, ours):
    theirs = getattr(operator, name, None) or (lambda x, *a, **k: getattr(x, name)(*a, **k))

    @functools.wraps(ours)
    def method(*args, **kwargs):
        if not error_state.is_loud():
            return ours(*args, **kwargs)
        return observed(theirs, ours, args, kwargs)

    return method


def _begin() -> None:
    """Put what observes around the functions of the classes: not before a state is loud."""
    for kind in (rt.Tensor, ComplexTensor):
        names = {*_METHODS, *(_OF_COMPLEX if kind is ComplexTensor else ())}
        made = {name: _of_method(name, one) for name, one in vars(kind).items() if name in names}
        made["__array_ufunc__"] = _of_ufunc(vars(kind)["__array_ufunc__"])
        made["__array_function__"] = _of_function(vars(kind)["__array_function__"])
        for name, one in made.items():
            setattr(kind, name, one)


error_state.on_first.append(_begin)

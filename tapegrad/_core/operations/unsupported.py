"""NumPy functions that take no recorded values."""

from __future__ import annotations

import numpy as np

from ..tensor import runtime as rt
from ..tensor.callers import ARRAY_ALONE, KINDS, OF_NUMPY, name_of_ufunc, users_line
from ..tensor.conversions import without_derivative
from ..tensor.trace import lost_derivative, name_of
from ..tensor.values import is_recorded, is_tensor, value_of, wrap

#: Functions that write to their first argument.
_WRITING = frozenset("copyto put place putmask put_along_axis fill_diagonal".split())


def unsupported(function, operands) -> TypeError:
    """The error where a function has no derivative here."""
    name = name_of(function)
    if isinstance(function, np.ufunc) and (of_scipy := name_of_ufunc(function)) is not None:
        return without_derivative(of_scipy, operands)
    advice = OF_NUMPY.get(name) or KINDS["not derived"]
    return lost_derivative(
        f"tapegrad: {name}() is not supported on recorded tensors ({users_line()}): {advice}; or "
        f"use {ARRAY_ALONE}",
        operands,
    )


def answered(function, args: tuple, kwargs: dict):
    """NumPy's result for tensors of which none is recorded; else an error.

    Its arrays are tensors, as those of functions that have derivatives. A result that shares memory
    with an argument is refused: a write with a derivative to one of the two would not be seen in
    the other.
    """
    name = name_of(function)
    tensors = [leaf for leaf in _leaves((args, kwargs)) if is_tensor(leaf)]
    if name in _WRITING or any(map(is_recorded, tensors)):
        raise unsupported(function, tensors)
    made = function(*_valued(args), **_valued(kwargs))
    for part in _leaves(made):
        shared = isinstance(part, np.ndarray) and any(
            np.may_share_memory(part, value_of(t)) for t in tensors if type(t) is rt.Array
        )
        if shared:
            raise unsupported(function, tensors)
    return _wrapped(made)


def _leaves(tree):
    """The leaves of nested lists, tuples and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if not isinstance(tree, (list, tuple)):
        return [tree]
    return [leaf for item in tree for leaf in _leaves(item)]


def _valued(tree):
    if isinstance(tree, dict):
        return {key: _valued(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        made = [_valued(item) for item in tree]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    return value_of(tree)


def _wrapped(made):
    """Arrays and numbers of a result as tensors; complex ones and objects as they are."""
    if isinstance(made, (list, tuple)):
        parts = [_wrapped(part) for part in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    if isinstance(made, (np.ndarray, np.generic)) and made.dtype.kind in "fiub":
        return wrap(made)
    return made

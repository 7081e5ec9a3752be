"""Functions compiled by Numba, in entered code: the Python functions that they were made of.

Their results are compared once with those of the compiled function: its integers wrap, and its
error model may differ.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.reachable import module_of_class
from .._core.tensor.values import is_tensor, value_of

_made: weakref.WeakKeyDictionary[Any, Checked] = weakref.WeakKeyDictionary()
_RTOL, _ATOL = 1e-6, 1e-12


def is_compiled(one) -> bool:
    """Whether an object is a function that `numba.njit` or `numba.vectorize` has made."""
    kind = type(one)
    if not module_of_class(kind).startswith("numba."):
        return False
    return hasattr(one, "py_func") or kind.__name__ == "DUFunc"


def python_function(compiled) -> types.FunctionType:
    """The user's Python function that was compiled."""
    return getattr(compiled, "_dispatcher", compiled).py_func


def checked(compiled) -> Checked:
    """What is called in place of a compiled function."""
    if compiled not in _made:
        _made[compiled] = Checked(compiled)
    return _made[compiled]


class Checked:
    """The Python function of one that is compiled: a copy, so that Numba's stays as it is."""

    def __init__(self, compiled):
        theirs = python_function(compiled)
        own = types.FunctionType(
            theirs.__code__,
            theirs.__globals__,
            theirs.__name__,
            theirs.__defaults__,
            theirs.__closure__,
        )
        functools.update_wrapper(own, theirs)
        own.__kwdefaults__ = theirs.__kwdefaults__
        del own.__wrapped__
        #: The copy.
        self.function = own
        self._compiled, self._is_new = weakref.ref(compiled), True
        self._called: Callable = own
        if type(compiled).__name__ == "DUFunc":
            self._called = importlib.import_module("tapegrad.numpy").vectorize(own, otypes=[float])
        functools.update_wrapper(self, own)

    def __call__(self, *args, **kwargs):
        found = self._called(*args, **kwargs)
        compiled = self._compiled()
        if self._is_new and compiled is not None:
            self._compare(found, compiled, args, kwargs)
            self._is_new = False
        return found

    def __reduce__(self):
        return checked, (self._compiled(),)

    def _compare(self, found, compiled, args, kwargs) -> None:
        wanted = compiled(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
        pairs = zip(tree_leaves(_plain(found)), tree_leaves(wanted), strict=True)
        for (_, one), (_, other) in pairs:
            if not np.allclose(one, other, _RTOL, _ATOL, equal_nan=True):
                raise ValueError(
                    f"tapegrad: {self.function.__name__}() gives {other!r:.60} compiled by Numba, "
                    f"and {one!r:.60} in Python: integers that overflow and division by zero differ"
                )


def _plain(tree):
    """Arguments without their derivatives: copies of arrays, since functions may write to them."""
    if is_tensor(tree):
        value = value_of(tree)
        return np.array(value) if np.ndim(value) else float(value)
    if isinstance(tree, np.ndarray):
        return np.array(tree)
    if type(tree) in (tuple, list, dict):
        leaves = [_plain(leaf) for _, leaf in tree_leaves(tree)]
        return tree_build(tree, iter(leaves))
    return tree


class List(list):
    """`numba.typed.List` in entered code."""

    @classmethod
    def empty_list(cls, *_, **__):
        return cls()


class Dict(dict):
    """`numba.typed.Dict` in entered code."""

    @classmethod
    def empty(cls, *_, **__):
        return cls()


def of_numba(value) -> Any:
    """The stand-in of an object of Numba's; None for others."""
    numba = sys.modules.get("numba")
    if numba is None:
        return None
    if is_compiled(value):
        return checked(value)
    if value is getattr(numba, "prange", None):
        return range
    typed = sys.modules.get("numba.typed")
    if typed is not None:
        return {id(typed.List): List, id(typed.Dict): Dict}.get(id(value))
    return None

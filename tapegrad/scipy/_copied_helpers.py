"""What copies of SciPy's code call in place of SciPy's helpers for arrays of any kind."""

from __future__ import annotations

import functools
import importlib
import operator

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.plain_data import kind_of
from .._core.tensor.trace import fixed, steered
from .._core.tensor.values import is_tensor
from .._entering.stand_ins import pair


def namespace(*_, **__):
    """The namespace of any arrays."""
    return importlib.import_module("tapegrad.numpy")


def _apply_where(cond, args, f1, f2=None, /, *, fill_value=None, **_):
    """One function where a condition holds, another or a value elsewhere."""
    args = args if isinstance(args, tuple) else (args,)
    return namespace().where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazywhere(cond, arrays, f, fillvalue=None, f2=None):
    """The same by its name and arguments in SciPy before 1.16."""
    return _apply_where(cond, tuple(arrays), f, f2, fill_value=fillvalue)


def _lazyselect(conditions, choices, arrays, default=0):
    """The first function whose condition holds, a value where none does."""
    out = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = namespace().where(condition, choice(*arrays), out)
    return out


def _promoted(*args, broadcast=False, force_floating=False, xp):
    """Arrays of one type, of floats and of one shape, if that is wanted."""
    kept = [unlisted(one) for one in args if one is not None]
    kept = [one if isinstance(one, (rt.Tensor, int, float)) else np.asarray(one) for one in kept]
    kinds = [getattr(one, "dtype", one) for one in kept]
    kind = np.result_type(*kinds, *([1.0] if force_floating else [])) if kinds else None
    kept = [_of_type(one, kind) for one in kept]
    found = iter(namespace().broadcast_arrays(*kept) if broadcast else kept)
    out = tuple([None if one is None else next(found) for one in args])
    return out[0] if len(out) == 1 else out


def _of_type(one, kind: np.dtype):
    if not hasattr(one, "dtype"):
        return np.asarray(one, kind)
    return one if one.dtype == kind else one.astype(kind)


def _is_numpy(_) -> bool:
    """Whether a namespace is NumPy's: as SciPy's code answers for arrays of NumPy."""
    return True


class _At:
    """An array in which some elements are others: `at(x)[index].set(y)`.

    It is the array itself if that can be written, as SciPy's code relies on; else a copy.
    """

    def __init__(self, x, index=None, /):
        self._x, self._index = x, index

    def __getitem__(self, index):
        return _At(self._x, index)

    def _by(self, change, y, copy=None):
        mask = self._mask()
        if mask is not None and np.ndim(y) == 0:
            return namespace().where(mask, change(self._x, y), self._x)
        can_write = isinstance(self._x, rt.Tensor) and self._x.ndim and self._x.flags.writeable
        made = self._x if can_write and not copy else namespace().array(self._x)
        made[self._index] = change(made[self._index], y)
        return made

    def _mask(self):
        """Where the elements are; None for floats that can be written."""
        index, x = self._index, self._x
        if hasattr(index, "dtype") and index.dtype.kind == "b" and index.shape == x.shape:
            return index
        if is_tensor(index) or x.dtype.kind == "f":
            return None
        mask = np.zeros(x.shape, bool)
        mask[index] = True
        return mask

    def set(self, y, /, copy=None, **_):
        return self._by(lambda _, y: y, y, copy)

    def add(self, y, /, copy=None, **_):
        return self._by(operator.add, y, copy)

    def subtract(self, y, /, copy=None, **_):
        return self._by(operator.sub, y, copy)

    def multiply(self, y, /, copy=None, **_):
        return self._by(operator.mul, y, copy)

    def divide(self, y, /, copy=None, **_):
        return self._by(operator.truediv, y, copy)


def _type(one, *more, **named):
    """Python's `type`: numbers in SciPy's code are NumPy's."""
    known = isinstance(one, rt.Tensor) and not more and not named
    return kind_of(one) if known else type(one, *more, **named)


def _int(*given, **named):
    """Python's `int`, a whole number: its derivative is 0."""
    if len(given) != 1 or named or not isinstance(given[0], rt.Tensor):
        return int(*given, **named)
    return int(fixed(steered(np.trunc, given[0]), "int()"))


#: What stands for Python's functions in SciPy's code, but where they are asked for as classes.
OF_PYTHON = {"type": functools.partial(_type), "int": functools.partial(_int)}
for _name, _ours in (("type", _type), ("int", _int)):
    pair(OF_PYTHON[_name], _ours)
#: What SciPy's code asks of arrays of any kind, by its names there.
OF_ARRAYS = {
    "array_namespace": namespace,
    "apply_where": _apply_where,
    "at": _At,
    "is_numpy": _is_numpy,
    "_lazyselect": _lazyselect,
    "_lazywhere": _lazywhere,
    "xp_promote": _promoted,
}

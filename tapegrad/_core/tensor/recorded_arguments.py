"""Whether arguments of a function hold recorded values, also in lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .complex_tensors import ComplexTensor
from .tensor_classes import Tensor
from .trace import is_steering
from .values import is_recorded

_PLAIN = frozenset((float, int, bool, str, type(None), np.ndarray, np.float64))


def none_recorded(arguments) -> bool:
    """Whether no argument is recorded, or a list with something recorded."""
    return _none(arguments, lambda x: is_recorded(x) and not is_steering(x))


def none_traced(arguments) -> bool:
    """The same, where values of which a program only computes choices count as recorded, too."""
    return _none(arguments, is_recorded)


def _none(arguments, counts: Callable) -> bool:
    for x in arguments:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if isinstance(x, Tensor):
            if counts(x):
                return False
        elif kind is ComplexTensor and not _none((x._re, x._im), counts):
            return False
        elif (kind is list or kind is tuple) and not _none(x, counts):
            return False
        elif kind is dict and not _none(x.values(), counts):
            return False
    return True

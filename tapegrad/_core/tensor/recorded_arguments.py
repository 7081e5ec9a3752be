"""Whether arguments of a function hold recorded values, also in lists, tuples and dicts."""

from __future__ import annotations

import numpy as np

from .complex_tensors import ComplexTensor
from .tensor_classes import Tensor
from .trace import is_steering
from .values import is_recorded

_PLAIN = frozenset((float, int, bool, str, type(None), np.ndarray, np.float64))


def none_recorded(arguments) -> bool:
    """Whether no argument is recorded, or a list with something recorded."""
    for x in arguments:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if isinstance(x, Tensor):
            if is_recorded(x) and not is_steering(x):
                return False
        elif kind is ComplexTensor and not none_recorded((x._re, x._im)):
            return False
        elif (kind is list or kind is tuple) and not none_recorded(x):
            return False
        elif kind is dict and not none_recorded(x.values()):
            return False
    return True

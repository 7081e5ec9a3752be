"""Tensors copied by `copy` and `pickle`.

In a function that is differentiated a copy keeps its derivative. A copy of a user's input is
another input, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..tensor import runtime as rt
from ..tensor.copies import copy_tensor
from ..tensor.trace import refuse
from ..tensor.values import array_of, is_recorded
from .creation import tensor

#: Makers of inputs with an array, after a test of the tensor that is copied; the first that fits.
MAKERS: list[tuple[Callable, Callable]] = []


def _maker_of(source) -> Callable:
    return next((make for test, make in MAKERS if test(source)), tensor)


def _is_own_input(source) -> bool:
    """Whether a tensor is an input that the user has made, not one of a transform."""
    return source.is_leaf and is_recorded(source) and source._id not in rt.noted_inputs()


def _copied(self):
    """The result of `copy.copy(t)`: as in NumPy, a copy of the elements; recorded."""
    return self if type(self) is rt.Scalar else copy_tensor(self, "K")


def _deeply_copied(self, memo):
    """The result of `copy.deepcopy(t)`: a recorded copy; for an input of the user a new input."""
    if not _is_own_input(self):
        return _copied(self)
    refuse("it copies an input (copy.deepcopy)")
    return _maker_of(self)(array_of(self), requires_grad=True)


def _reduced(self, protocol):
    """The state that `pickle` saves: the value, and whether it is an input."""
    if is_recorded(self) and not _is_own_input(self):
        raise TypeError(
            "tapegrad.pickle: the tensor is recorded, so its derivative would be lost; pickle "
            "t.detach()"
        )
    if is_recorded(self):
        refuse("an input is pickled")
    return rebuilt, (_maker_of(self), np.array(array_of(self)), is_recorded(self))


def rebuilt(make: Callable, array: np.ndarray, requires_grad: bool):
    """A tensor from a pickle."""
    return make(array, requires_grad=requires_grad)


METHODS = {"__copy__": _copied, "__deepcopy__": _deeply_copied, "__reduce_ex__": _reduced}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)

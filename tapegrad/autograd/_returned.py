"""Checks of the results of backward of a `Function`."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.values import FLOATS, is_tensor, name_of, value_of, wrap
from .._derivatives.recorded_reverse import summed_to


def gradients_for(name: str, returned, count: int) -> tuple:
    """The gradients that backward has returned, one for each of `count` arguments."""
    found = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(found) > count and all(one is None for one in found[count:]):
        found = found[:count]
    if len(found) != count:
        raise RuntimeError(
            f"tapegrad.{name}: backward returned {len(found)} gradients, expected {count}, one for "
            "each argument of forward; return None where there is none"
        )
    return tuple(found)


def gradient_for(name: str, k: int, one, is_tensor_argument, needed: bool, shape, dtype):
    """The gradient of argument `k` as a tensor of its shape and dtype; None if there is none."""
    if one is None:
        return None
    if not is_tensor_argument:
        raise RuntimeError(
            f"tapegrad.{name}: backward returned a gradient for argument {k}, which is not a "
            "tensor; return None in its place"
        )
    if not needed:
        return None
    value = value_of(one)
    numeric = is_tensor(one) or isinstance(value, (np.ndarray, np.generic, int, float))
    if not numeric or np.asarray(value).dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: backward returned a gradient of type {name_of(one)} for argument "
            f"{k}, expected a tensor of {dtype}"
        )
    one = one if is_tensor(one) else wrap(np.asarray(value))
    if one.shape != shape:
        if not _expands(shape, one.shape):
            raise RuntimeError(
                f"tapegrad.{name}: backward returned a gradient of shape {one.shape} for argument "
                f"{k}, expected {shape}"
            )
        one = summed_to(one, shape)
    return one if one.dtype == dtype else PUBLIC["asarray"](one, dtype)


def _expands(shape, larger) -> bool:
    """Whether `shape` can be broadcast to `larger`; then the gradient is summed."""
    try:
        return np.broadcast_shapes(shape, larger) == larger
    except ValueError:
        return False

"""Results in the tensor or array that `out=` names."""

from __future__ import annotations

import numpy as np

from ..tensor.indexing import set_item
from ..tensor.values import dtype_of, is_recorded, is_tensor, shape_of, value_of


def written_to(name: str, result, out, casting: str = "same_kind"):
    """A result in the array that `out=` names; without one the result itself."""
    if out is None:
        return result
    if not is_tensor(out) and is_recorded(result):
        raise TypeError(
            f"tapegrad.{name}: out= is a plain array, into which no derivative can be written; "
            "make it with tg.zeros_like"
        )
    if shape_of(out) != shape_of(result):
        raise ValueError(
            f"tapegrad.{name}: out= has shape {shape_of(out)}, the result {shape_of(result)}; make "
            "them equal"
        )
    if not np.can_cast(dtype_of(result), dtype_of(out), casting):
        raise TypeError(
            f"tapegrad.{name}: a result of dtype {dtype_of(result)} cannot be written to out= of "
            f"dtype {dtype_of(out)}; convert one of them with astype"
        )
    if is_tensor(out):
        set_item(out, ..., result)
    else:
        out[...] = value_of(result)
    return out

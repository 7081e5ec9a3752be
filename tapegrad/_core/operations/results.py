"""Where results go: into the array of `out=`; and what NumPy answers where nothing is recorded."""

from __future__ import annotations

import numpy as np

from ..tensor.indexing import set_item
from ..tensor.trace import fixed, steered, tensor_like
from ..tensor.values import (
    check_casting,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    value_of,
)


def into(name: str, made, out):
    """A result in the array that `out=` names, or as it is without one."""
    if out is None:
        return made
    if shape_of(out) != shape_of(made):
        raise ValueError(
            f"tapegrad.{name}: out has shape {shape_of(out)}, the result {shape_of(made)}; give an "
            "array of that shape"
        )
    if is_tensor(out):
        check_casting(name, dtype_of(made), out)
        set_item(out, ..., made)
        return out
    if is_recorded(made):
        raise TypeError(
            f"tapegrad.{name}: out= is a plain array, into which no derivative can be written; "
            "make it with tg.zeros_like"
        )
    np.copyto(out, value_of(made), casting="same_kind")
    return out


def unrecorded(numpy_function, *operands, **keywords):
    """What a function of NumPy's gives for operands without derivative: a tensor if one is."""
    name = numpy_function.__name__
    keywords = {key: fixed(value, f"{name}()") for key, value in keywords.items()}
    made = steered(numpy_function, *operands, **keywords)
    if isinstance(made, tuple):
        return tuple([tensor_like(part, *operands) for part in made])
    return tensor_like(made, *operands)

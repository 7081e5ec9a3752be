"""Derivatives with respect to complex tensors: those of their parts, combined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.tensor.complex_tensors import ComplexTensor, combined
from .._core.tensor.values import is_recorded


def holds_complex(inputs) -> bool:
    """Whether an input, or one of several, is complex."""
    given = inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return any(type(one) is ComplexTensor for one in given)


def by_parts(derive: Callable[[list], tuple], inputs, name: str, allowed: bool) -> tuple:
    """`derive` applied to the recorded parts of inputs, None where nothing depends on one."""
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    parts: list = []
    places: list[list] = []
    for one in given:
        own = [one._re, one._im] if type(one) is ComplexTensor else [one]
        kept = [part for part in own if is_recorded(part) or len(own) == 1]
        places.append([next((k for k, x in enumerate(kept) if x is p), None) for p in own])
        places[-1] = [None if k is None else k + len(parts) for k in places[-1]]
        parts += kept
    found = derive(parts)
    made = []
    for k, (one, own) in enumerate(zip(given, places, strict=True)):
        pair = [None if at is None else found[at] for at in own]
        if all(part is None for part in pair) and not allowed:
            raise RuntimeError(
                f"tapegrad.{name}: the outputs do not depend on input {k}; pass allow_unused=True "
                "to get None for it, or materialize_grads=True for zeros"
            )
        made.append(_joined(one, pair))
    return tuple(made)


def _joined(one, pair: list):
    if len(pair) == 1 or pair == [None, None]:
        return pair[0]
    zeros = np.zeros(one.shape, one._re.dtype)
    return combined(*[zeros if part is None else part for part in pair])

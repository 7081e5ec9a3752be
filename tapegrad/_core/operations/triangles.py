"""Triangles of matrices: `tril`, `triu`."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.values import is_tensor, records, shape_of, value_of, wrap


def _triangle(name: str, keeps: str):
    def triangle(x, k=0):
        x = unlisted(x)
        if not is_tensor(x):
            return getattr(np, name)(x, k)
        shape = shape_of(x)
        if not shape:
            raise ValueError(f"tapegrad.{name}: the tensor has no axes; pass a vector or matrices")
        if not records(x):
            return wrap(getattr(np, name)(value_of(x), k))
        mask = np.tri(*shape[-2:], k=k if name == "tril" else k - 1, dtype=bool)
        mask = mask if name == "tril" else ~mask
        keep = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, shape))
        return apply("where", keep, x, 0.0)

    triangle.__name__ = name
    triangle.__doc__ = (
        f"Keep the elements {keeps} a diagonal of matrices; the others are 0.\n\n"
        "    A vector of n elements stands for n equal rows, as in NumPy.\n    "
    )
    return function(name)(triangle)


tril, triu = _triangle("tril", "on and below"), _triangle("triu", "on and above")

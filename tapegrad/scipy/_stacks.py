"""SciPy's functions of one matrix applied to the matrices of stacks, one after the other."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.values import shape_of


def is_stack(x) -> bool:
    """Whether an operand has more axes than a matrix."""
    return len(shape_of(x)) > 2


def of_stacks(name: str, function, *operands):
    """The results of `function` for each matrix of stacks that broadcast, stacked.

    Results of a function with several outputs are a list, as in SciPy.
    """
    shapes = [shape_of(x) for x in operands]
    batch = np.broadcast_shapes(*[shape[:-2] for shape in shapes])
    if 0 in batch:
        raise ValueError(f"`{name}` does not support zero-size batches.")
    wide = [
        PUBLIC["broadcast_to"](x, (*batch, *shape[-2:]))
        for x, shape in zip(operands, shapes, strict=True)
    ]
    found = [function(*[x[at] for x in wide]) for at in np.ndindex(batch)]
    if not isinstance(found[0], tuple):
        return _side_by_side(found, batch)
    return [_side_by_side(results, batch) for results in zip(*found, strict=True)]


def _side_by_side(results, batch):
    if results[0] is None:
        return np.full(batch, None)
    made = PUBLIC["stack"](list(results))
    return PUBLIC["reshape"](made, (*batch, *shape_of(made)[1:]))

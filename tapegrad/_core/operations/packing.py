"""Operations with several outputs: one row, whose output holds them stacked."""

from __future__ import annotations

import math


def packed(np, *parts, own):
    """Arrays of one batch stacked along a last axis; `own` counts the axes of each part.

    Applied to values, or in a rule of their derivatives: `np` is the namespace of the rule.
    """
    flat = [
        np.reshape(x, (*x.shape[: x.ndim - n], math.prod(x.shape[x.ndim - n :])))
        for x, n in zip(parts, own, strict=True)
    ]
    return np.concatenate(flat, axis=-1)


def parts_of(x, *shapes) -> list:
    """The parts, with these shapes without the axes in front, of a stacked array.

    `x` is an array or a tensor, an output or derivatives of one.
    """
    found, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        found.append(x[..., start:stop].reshape(*x.shape[:-1], *shape))
        start = stop
    return found


def size_of(*shapes) -> int:
    """The length of the axis that holds parts of these shapes."""
    return sum(math.prod(shape) for shape in shapes)

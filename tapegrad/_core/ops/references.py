"""How a row refers to its operands, and what the rules of its operation see of them.

A layout is a function of the operands and the output that a row names, as (row, view or number)
each, with −1 for the row of a constant. It gives what a rule is called with.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Keywords(dict):
    """The keyword arguments of an operation, as a row holds them; they never change."""

    def __hash__(self):
        return hash(tuple(self))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items())


class Site(NamedTuple):
    """What a rule sees of a row.

    `operands` are (row, view or number) pairs, `static` the keyword arguments of the operation.
    `out` is the output as the rule sees it, a view of the row's array of shape `shape`; None if
    the row's value is a number, which is then to be reshaped. Where operands are `broadcast`
    against each other their tangents get as many axes as the operand of most.
    """

    operands: list[tuple[int, Any]]
    static: dict[str, Any]
    out: np.ndarray | None
    shape: tuple[int, ...]
    broadcast: bool = False


@functools.lru_cache(1024)
def grouped_axes(shape, lines: int, groups: int | None = None) -> tuple[int, ...]:
    """The axes, counted from the end, that make groups of so many lines along the last axis.

    Without elements their number does not follow from that of the lines, but from the groups.
    """
    for kept in range(len(shape)):
        if math.prod(shape[kept:-1]) == lines and groups in (None, math.prod(shape[:kept])):
            return tuple(range(kept - len(shape), 0))
    raise AssertionError("a view along axes without its lines")


def reduction(found) -> Site:
    """An operand with the reduced axes last, lines of a group, the output: axes stay as 1."""
    operand, (_, lines), (_, out) = found
    shape = operand[1].shape
    axes = grouped_axes(shape, lines, 1 if out is None else out.size)
    kept = shape[: len(shape) - len(axes)] + (1,) * len(axes)
    return Site([operand], {"axes": axes}, None if out is None else out.reshape(kept), kept)


def same_shape(found) -> Site:
    """An operand with the axes last, lines of a group, the output as seen from it, the output."""
    operand, (_, lines), (_, seen), _ = found
    shape = operand[1].shape
    return Site([operand], {"axes": grouped_axes(shape, lines)}, seen, shape)


def plain(found) -> Site:
    """The keyword arguments, the operands, the output."""
    (_, static), *operands, (_, out) = found
    return Site(operands, static, out, () if out is None else out.shape, True)


def bare(found) -> Site:
    """The operands, the output."""
    *operands, (_, out) = found
    return Site(operands, {}, out, () if out is None else out.shape)


def links(found) -> Site:
    """Views of operands, each followed by the view of the output over the same shape."""
    *pairs, (_, out) = found
    return Site(pairs[::2], {"targets": [target for _, target in pairs[1::2]]}, out, out.shape)


def contraction(found) -> Site:
    """Two operands, the output as they give its axes, numbers of batch and of summed axes."""
    left, right, (_, whole), (_, batch), (_, inner), (_, out) = found
    static = {"batch": batch, "inner": inner}
    return Site([left, right], static, None if out is None else whole, whole.shape)


def without_derivative(found) -> Site:
    """An object that the row keeps, the operands, the output."""
    _, *operands, (_, out) = found
    return Site(operands, {}, out, () if out is None else out.shape)


#: By the names that declarations give them.
LAYOUTS: dict[str, Callable[[list], Site]] = {
    "reduction": reduction,
    "same shape": same_shape,
    "plain": plain,
    "operands": bare,
    "links": links,
    "deposit": bare,
    "contraction": contraction,
    "call": without_derivative,
}

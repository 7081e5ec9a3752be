"""References of a row to its operands, and the operands as the rules of its operation see them.

The `site` of a layout is a function of the operands and the output that a row names, as (row, view
or number) each, with −1 for the row of a constant. It gives the arguments of a rule.
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
    """The operands of a row as a rule sees them.

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


class Layout(NamedTuple):
    """Encodings of references to operands.

    `operands` names what each reference before the output is, for programs from files: "array",
    "number", or "output", a view that shows all of the output as the operation computes it. They
    are legal where `fits(out, *operands)` does not raise ValueError: it has the shape of the
    output, the shapes of the arrays, and the numbers.
    """

    site: Callable[[list], Site]
    operands: tuple[str, ...] = ()
    fits: Callable[..., None] | None = None

    @property
    def shown(self) -> int | None:
        """The operand that shows the output; None if there is none."""
        return self.operands.index("output") if "output" in self.operands else None


@functools.lru_cache(1024)
def grouped_axes(shape, lines: int, groups: int | None = None) -> tuple[int, ...]:
    """The axes, counted from the end, that make groups of a number of lines along the last axis.

    Without elements their number does not follow from that of the lines, but from the groups.
    """
    for kept in range(len(shape)):
        if math.prod(shape[kept:-1]) == lines and groups in (None, math.prod(shape[:kept])):
            return tuple(range(kept - len(shape), 0))
    raise AssertionError("a view along axes without its lines")


def check_lines(shape, lines: int) -> int:
    """The number of groups of a number of lines along the last axis; ValueError if not whole.

    Without elements any number of lines fits.
    """
    whole = math.prod(shape[:-1])
    fits = 0 < lines <= whole and whole % lines == 0
    if not fits and (math.prod(shape) or not 0 <= lines <= whole):
        raise ValueError(f"groups of {lines} of {whole} lines")
    return whole // lines if lines else 0


def _groups_fit(out, array, lines: int) -> None:
    if math.prod(out) != check_lines(array, lines) and math.prod(array):
        raise ValueError("not a result for each group")


def _shapes_fit(_out, array, lines: int, shown) -> None:
    check_lines(array, lines)
    if shown != array:
        raise ValueError("a result of another shape")


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


def without_derivative(found) -> Site:
    """An object that the row keeps, the operands, the output."""
    _, *operands, (_, out) = found
    return Site(operands, {}, out, () if out is None else out.shape)


#: Encodings by the names that declarations use.
LAYOUTS: dict[str, Layout] = {
    "reduction": Layout(reduction, ("array", "number"), _groups_fit),
    "same shape": Layout(same_shape, ("array", "number", "output"), _shapes_fit),
    "plain": Layout(plain),
    "operands": Layout(bare),
    "links": Layout(links),
    "scatter_add": Layout(bare),
    "call": Layout(without_derivative),
}

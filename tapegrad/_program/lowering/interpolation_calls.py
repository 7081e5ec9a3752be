"""Calls of `interp` on positions and lines as steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.moving_step import Gather
from ..ir.steps import View
from ..ir.uses import slots_of
from .call_lowering import Lowering
from .numpy_calls import Given, Result, compares_alike, of_constant


def _increases(lower: Lowering, xp: Given) -> Result | None:
    """Whether no place is below the one before."""
    n = xp.shape[0]
    if n == 1:
        return Result(lower.constant(1.0), (1, 1))
    view = xp.slots(lower.writer)
    later, before = lower.picked(view, np.arange(1, n)), lower.picked(view, np.arange(n - 1))
    wrong = lower.apply("logical_not", lower.apply("greater_equal", later, before))
    count = lower.total(wrong, (0,), False)
    return Result(lower.apply("equal", count, 0.0), (0, 1))


def _place(lower: Lowering, x: Given, xp: Given) -> View:
    """The line of each position, by number."""
    view, places = x.slots(lower.writer), xp.slots(lower.writer)
    found = lower.searched(places, view, "right")
    last = lower.picked(places, np.array([xp.shape[0] - 1]))
    behind = lower.apply("greater", view, View(last.offset, (), (), last.base))
    return lower.apply("where", behind, xp.shape[0] + 1.0, found)


def _interval(lower: Lowering, x, xp) -> Result | None:
    given = [one if isinstance(one, Given) else of_constant(lower.writer, one) for one in (x, xp)]
    if not compares_alike(lower.writer, *given):
        return None
    return Result(_place(lower, *given), (0, given[1].shape[0] + 1))


def _is_inside(lower: Lowering, where: Given, n) -> Result:
    return Result(_inside(lower, where.slots(lower.writer), n), (0, 1))


def _inside(lower: Lowering, where: View, n: int) -> View:
    """1 on lines, which one position alone has not."""
    bounds = (0.0, float(n)) if n > 1 else (0.0, 0.0)
    parts = [lower.apply("greater", where, bounds[0]), lower.apply("less_equal", where, bounds[1])]
    return lower.apply("logical_and", *parts)


def _lines_at(lower: Lowering, x: Given, xp, fp, left, right) -> Result | None:
    """Elements of lines that are constant, where no product of 0 and infinity occurs."""
    if not compares_alike(lower.writer, x, of_constant(lower.writer, xp)):
        return None
    with np.errstate(all="ignore"):
        slopes = np.concatenate([[0.0], np.diff(fp) / np.diff(xp), [0.0, 0.0]])
    lines = [np.append(xp[:1], np.append(xp, xp[-1:])), slopes, np.hstack([left, fp, right])]
    if not all([np.isfinite(one).all() for one in lines]):
        return None
    where, found = _place(lower, x, of_constant(lower.writer, xp)), []
    for one in lines:
        found.append(lower.writer.buffers.allocate(where.shape))
        lower.writer.steps.append(Gather(found[-1], lower.constant(one), where))
    found.append(_inside(lower, where, len(xp)))
    return Result(np.stack([slots_of(view) for view in found]))


#: Functions by their names in files.
HANDLERS: dict[str, Callable[..., Result | None]] = {
    "interpolation.increases": _increases,
    "interpolation.interval": _interval,
    "interpolation.is_inside": _is_inside,
    "interpolation.lines_at": _lines_at,
}

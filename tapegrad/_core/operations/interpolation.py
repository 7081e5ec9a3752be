"""Piecewise linear interpolation, and angles without jumps."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.runtime import silence
from ..tensor.trace import fixed, named, of_each, steered
from ..tensor.values import differentiates, dtype_of, is_recorded, is_tensor, shape_of, value_of
from .cumulative import diff
from .extremes import take
from .joining import checked_axis, concatenate
from .shapes import reshape
from .unrecorded import unrecorded

_FLOAT = np.dtype(np.float64)


@function("interp")
def interp(x, xp, fp, left=None, right=None, period=None):
    """Interpolate linearly between points.

    Parameters
    ----------
    x : array_like
        Where the function is evaluated.
    xp, fp : array_like
        The positions of the points, which increase, and their values.
    left, right : number, optional
        The values below and above all positions; by default the first and the last of `fp`.
    period : number, optional
        The period of `x` and `xp`.

    Raises
    ------
    ValueError
        If `xp` does not increase.

    Notes
    -----
    All arguments may be recorded. At a position the derivative is that of the line to its right; at
    the last position it is 0.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 3.0]))(1.0)
    0.5
    """
    x, xp, fp = (unlisted(part) for part in (x, xp, fp))
    if not differentiates(x, xp, fp, left, right, period):
        ends = dict(left=left, right=right, period=period)
        return unrecorded(np.interp, x, xp, fp, **ends)
    _check(xp, fp)
    x, xp, fp = (_in_double(part) for part in (x, xp, fp))
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
        left = right = None
    if not fixed(steered(_increases, xp), "xp of interp()"):
        raise ValueError("tapegrad.interp: xp does not increase; sort xp, and fp with it")
    left, right = (fp[:1] if left is None else left), (fp[-1:] if right is None else right)
    if not any(is_recorded(part) for part in (xp, fp, left, right)):
        return _on_lines(x, steered(_lines_at, x, xp, fp, *map(_number, (left, right))))
    where = steered(_interval, x, xp)
    values = _ended(fp, left, right)
    places = _ended(xp, xp[:1], xp[-1:])
    ends = np.zeros(1)
    lines = concatenate([ends, apply("divide", diff(fp), diff(xp)), ends, ends])
    inside = steered(_is_inside, where, n=shape_of(xp)[0])
    steps = apply("where", inside, apply("subtract", x, take(places, where)), 0.0)
    made = apply("add", apply("multiply", take(lines, where), steps), take(values, where))
    return _with_infinities(made, x, xp, fp, values)


def _on_lines(x, lines):
    """Values on known lines: a position, a slope and a value of each, and whether it is a line."""
    places, slopes, values, inside = (lines[k] for k in range(4))
    steps = apply("where", inside, apply("subtract", x, places), 0.0)
    return apply("add", apply("multiply", slopes, steps), values)


def _number(end):
    return float(np.reshape(value_of(end), ()))


@named("interpolation.lines_at")
def _lines_at(x, xp, fp, left, right):
    """For each place of x what `_on_lines` needs, of lines that are constant."""
    return _lines_along(x, xp, fp, left, right, 0)


def _lines_along(x, xp, fp, left, right, axis):
    where = _interval(x, xp)
    inside = _is_inside(where, len(xp))
    with silence():
        slopes = np.concatenate([[0.0], np.diff(fp) / np.diff(xp), [0.0, 0.0]])[where]
        places = np.concatenate([xp[:1], xp, xp[-1:]])[where]
        values = np.concatenate([[left], fp, [right]])[where]
        undone = np.isnan(slopes * np.where(inside, x - places, 0.0) + values) & ~np.isnan(x)
    if undone.any():  # 0 · ∞ occurred: NumPy's result, which has no derivative there
        values = np.where(undone, np.interp(x, xp, fp, left, right), values)
        slopes, inside = np.where(undone, 0.0, slopes), inside & ~undone
    return np.stack([places, slopes, values, inside], axis)


@of_each(_lines_at, "interpolation.lines_at_each")
def _lines_at_each(x, xp, fp, left, right, mapped):
    """The place in arrays that are constant for all elements; there are no others."""
    if mapped != (True, False, False, False, False):
        raise ValueError("interpolation.lines_at: lines are constant")
    return _lines_along(x, xp, fp, left, right, 1)


def _check(xp, fp):
    shape, given = shape_of(xp), shape_of(fp)
    if len(shape) != 1 or given != shape or not shape[0]:
        raise ValueError(
            f"tapegrad.interp: xp has shape {shape} and fp {given}; they must be vectors of the "
            "same length, at least 1"
        )


def _in_double(x):
    if is_tensor(x):
        return x if dtype_of(x) == _FLOAT else x.astype(_FLOAT)
    return np.asarray(x, _FLOAT)


def _periodic(x, xp, fp, period):
    """Places within one period, and one more on each side of those given."""
    if fixed(steered(operator.eq, period, 0), "period of interp()"):
        raise ValueError("tapegrad.interp: period is 0; it must be nonzero")
    period = apply("absolute", period)
    x, xp = apply("remainder", x, period), apply("remainder", xp, period)
    order = steered(np.argsort, xp)
    xp, fp = take(xp, order), take(fp, order)
    xp = concatenate([apply("subtract", xp[-1:], period), xp, apply("add", xp[:1], period)])
    return x, xp, concatenate([fp[-1:], fp, fp[:1]])


def _ended(middle, first, last):
    ends = [_in_double(unlisted(end)) for end in (first, last)]
    return concatenate([reshape(ends[0], (1,)), middle, reshape(ends[1], (1,))])


@named("interpolation.increases")
def _increases(xp):
    return bool(np.all(xp[1:] >= xp[:-1]))


@named("interpolation.interval")
def _interval(x, xp):
    """The line of each place, by number: 0 before the first place of xp, n + 1 after the last."""
    found = np.searchsorted(xp, x, side="right")
    return np.where(x > xp[-1], len(xp) + 1, found)


@named("interpolation.is_inside")
def _is_inside(where, n):
    """Whether a place is on a line, which NumPy thinks of no place where there is one point."""
    return (np.asarray(where) > 0) & (np.asarray(where) <= n) & (n > 1)


def _with_infinities(made, x, xp, fp, values):
    """NumPy's result for a product 0 · ∞, which has no derivative there."""
    for part in (xp, fp):
        if not fixed(steered(np.all, steered(np.isfinite, part)), "infinities in interp()"):
            exact = steered(_exact, x, xp, fp, values)
            return apply("where", steered(_is_undone, made, x), exact, made)
    return made


@named("interpolation.exact")
def _exact(x, xp, fp, values):
    return np.interp(x, xp, fp, values[0], values[-1])


@named("interpolation.is_undone")
def _is_undone(made, x):
    return np.isnan(made) & ~np.isnan(x)


# --- angles -----------------------------------------------------------------------------------


@function("unwrap")
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """Remove jumps between neighbours by adding multiples of the period.

    The derivative of the result is that of `p`; the derivative with respect to the period is the
    multiple that was added.

    Parameters
    ----------
    p : array_like
        The operand.
    discont : number, optional
        The smallest jump that is removed; at least half a period.
    period : number, optional
        The period.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.unwrap(tg.tensor([1.0, 5.0, 9.0, 2.0]), period=8.0)
    tensor([ 1.,  5.,  9., 10.])
    """
    p = unlisted(p)
    if not differentiates(p, period):
        options = {} if discont is None else {"discont": discont}
        return unrecorded(np.unwrap, p, axis=axis, period=period, **options)
    axis = checked_axis("unwrap", axis, len(shape_of(p)))
    jumps = steered(_corrections, p, discont, period, axis=axis)
    if differentiates(period):
        turns = steered(_turns, jumps, period, axis=axis)
        return apply("add", p, apply("multiply", turns, period))
    return apply("add", p, steered(_summed, jumps, axis=axis))


@named("interpolation.corrections")
def _corrections(p, discont, period, axis):
    """The correction of each difference of neighbours, as `np.unwrap` computes it."""
    steps = np.diff(np.asarray(p), axis=axis)
    half = period / 2
    wrapped = np.mod(steps + half, period) - half
    wrapped = np.where((wrapped == -half) & (steps > 0), half, wrapped)
    least = half if discont is None else discont
    return np.where(np.abs(steps) < least, 0, wrapped - steps).astype(steps.dtype)


@named("interpolation.summed")
def _summed(jumps, axis):
    """Running sums along an axis, after a first 0."""
    first = np.zeros_like(np.take(jumps, [], axis), shape=_first(jumps.shape, axis))
    return np.concatenate([first, np.cumsum(jumps, axis)], axis)


def _first(shape, axis):
    return (*shape[:axis], 1, *shape[axis + 1 :])


@named("interpolation.turns")
def _turns(jumps, period, axis):
    return _summed(np.rint(jumps / period), axis)


@function("angle")
def angle(z, deg=False):
    """Compute the angles of complex numbers. Angles of real numbers are 0 or π, with derivative 0.

    Parameters
    ----------
    z : array_like
        A tensor, an array or a number.
    deg : bool, optional
        Whether angles are in degrees.
    """
    z = unlisted(z)
    made = unrecorded(np.angle, z, deg=deg)
    if not differentiates(z):
        return made
    return apply("add", apply("multiply", apply("sign", z), 0.0), made)

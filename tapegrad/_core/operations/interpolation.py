"""Functions given by samples: gradients, interpolation, piecewise polynomials."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, memset, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.runtime import silence
from ..tensor.trace import fixed, named, of_each, steered
from ..tensor.values import differentiates, dtype_of, is_recorded, is_tensor, shape_of, value_of
from .cumulative import diff
from .declaring import declared, joint_batch
from .joining import checked_axis, concatenate
from .shapes import ravel, reshape
from .sorting import take
from .without_derivative import unrecorded

# --- Derivatives of sampled functions by differences of neighbours: `gradient`, `ediff1d` ---------


@function("gradient")
def gradient(f, *varargs, axis=None, edge_order=1):
    """Compute central differences, with one-sided differences at the ends.

    Parameters
    ----------
    f : array_like
        The samples.
    *varargs : array_like
        The distance between samples, or their positions, for all axes or for each; by default 1.
        They may be recorded.
    axis : int or tuple of ints, optional
        The axes; by default all.
    edge_order : {1, 2}, optional
        The order of the differences at the ends.

    Returns
    -------
    Tensor or ndarray, or tuple of them
        A tuple for several axes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.gradient(tg.tensor([1.0, 2.0, 4.0]), [0.0, 1.0, 3.0])
    tensor([1., 1., 1.])
    """
    f, spacings = unlisted(f), [unlisted(part) for part in varargs]
    if not differentiates(f, *spacings):
        return unrecorded(np.gradient, f, *spacings, axis=axis, edge_order=edge_order)
    f = f if is_tensor(f) else np.asarray(f)
    f = f if dtype_of(f).kind == "f" else f.astype(float)
    shape = shape_of(f)
    axes = _axes(axis, len(shape))
    if edge_order not in (1, 2):
        raise ValueError(f"tapegrad.gradient: edge_order is {edge_order}; it must be 1 or 2")
    for k in axes:
        if shape[k] < edge_order + 1:
            raise ValueError(
                f"tapegrad.gradient: axis {k} of the tensor has length {shape[k]}; edge_order "
                f"{edge_order} needs {edge_order + 1}"
            )
    steps = _steps(spacings, shape, axes)
    made = [_along(f, k, step, edge_order) for k, step in zip(axes, steps, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _axes(axis, ndim):
    """The axes in the order given; all by default."""
    if axis is None:
        return range(ndim)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [checked_axis("gradient", one, ndim) for one in given]
    if len(set(axes)) < len(axes):
        raise ValueError(f"tapegrad.gradient: axis {axis} names an axis twice")
    return axes


def _steps(spacings, shape, axes):
    """For each axis a distance, or the distances of neighbours."""
    if not spacings:
        return [1.0] * len(axes)
    if len(spacings) == 1 and not shape_of(spacings[0]):
        return spacings * len(axes)
    if len(spacings) != len(axes):
        raise TypeError(
            f"tapegrad.gradient: got {len(spacings)} spacings for {len(axes)} axes; give none, a "
            "number, or one for each axis"
        )
    return [_distances(x, shape[k]) for x, k in zip(spacings, axes, strict=True)]


def _distances(places, n):
    if not shape_of(places):
        return places
    if shape_of(places) != (n,):
        raise ValueError(
            f"tapegrad.gradient: places have shape {shape_of(places)}; there are {n} samples"
        )
    if dtype_of(places).kind != "f":
        places = places.astype(float)
    steps = diff(places)
    # One distance, as NumPy has it, unless the places are recorded: each has a derivative then.
    if not is_recorded(places) and np.all(value_of(steps) == value_of(steps)[0]):
        return float(value_of(steps)[0]) if dtype_of(steps) == np.float64 else value_of(steps)[0]
    return steps


def _along(f, axis, h, edge_order):
    """Differences along an axis; `h` is a distance or the distances of neighbours."""
    n, before = shape_of(f)[axis], (slice(None),) * axis
    at = lambda start, stop: f[(*before, slice(start, stop))]
    uniform = not shape_of(h)
    if not uniform:
        h = reshape(h, [-1 if k == axis else 1 for k in range(len(shape_of(f)))])
        of = lambda start, stop: h[(*before, slice(start, stop))]
        first, second, last = of(0, 1), of(1, 2), of(n - 2, n - 1)
    else:
        of, first, second, last = None, h, h, h
    parts = []
    if edge_order == 1:
        parts.append((at(1, 2) - at(0, 1)) / first)
    elif uniform:
        parts.append(-1.5 / h * at(0, 1) + 2.0 / h * at(1, 2) + -0.5 / h * at(2, 3))
    else:
        parts.append(_at_start(at(0, 1), at(1, 2), at(2, 3), first, second))
    if n > 2:
        ends = at(0, n - 2), at(1, n - 1), at(2, n)
        middle = (ends[2] - ends[0]) / (2.0 * h) if uniform else _inside(*ends, of(0, -1), of(1, n))
        parts.append(middle)
    if edge_order == 1:
        parts.append((at(n - 1, n) - at(n - 2, n - 1)) / last)
    elif uniform:
        parts.append(
            0.5 / h * at(n - 3, n - 2) + -2.0 / h * at(n - 2, n - 1) + 1.5 / h * at(n - 1, n)
        )
    else:
        ends = at(n - 3, n - 2), at(n - 2, n - 1), at(n - 1, n)
        parts.append(_at_end(*ends, of(n - 3, n - 2), last))
    made = concatenate(parts, axis)
    return made if dtype_of(made) == dtype_of(f) else made.astype(dtype_of(f))


def _inside(below, here, above, h, k):
    """The slope of the parabola through three samples, at distances h and k, in the middle."""
    a, b, c = -k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k))
    return a * below + b * here + c * above


def _at_start(first, second, third, h, k):
    """Its slope at the first one."""
    a, b, c = -(2.0 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))
    return a * first + b * second + c * third


def _at_end(first, second, third, h, k):
    """Its slope at the last one."""
    a, b, c = k / (h * (h + k)), -(k + h) / (h * k), (2.0 * k + h) / (k * (h + k))
    return a * first + b * second + c * third


@function("ediff1d")
def ediff1d(ary, to_end=None, to_begin=None):
    """Compute differences between neighbours of the flattened operand.

    Parameters
    ----------
    ary : array_like
        The operand.
    to_end, to_begin : array_like, optional
        Values that are joined to the result, which may be recorded.
    """
    x, end, begin = unlisted(ary), unlisted(to_end), unlisted(to_begin)
    if not differentiates(x, end, begin):
        options = {k: v for k, v in (("to_end", end), ("to_begin", begin)) if v is not None}
        return unrecorded(np.ediff1d, x, **options)
    x = ravel(x)
    parts = [begin, apply("subtract", x[1:], x[:-1]), end]
    for name, part in (("to_begin", begin), ("to_end", end)):
        if part is not None and not np.can_cast(dtype_of(part), dtype_of(x), "same_kind"):
            raise TypeError(
                f"tapegrad.ediff1d: {name} has dtype {dtype_of(part)}, the tensor {dtype_of(x)}; "
                "convert one of them"
            )
    parts = [ravel(part) for part in parts if part is not None]
    return concatenate(parts, dtype=dtype_of(x)) if len(parts) > 1 else parts[0]


# --- Piecewise linear interpolation, and angles without jumps -------------------------------------


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
    _check_samples(xp, fp)
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


def _check_samples(xp, fp):
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


# --- Piecewise polynomials at points, and their adjoints: what splines compute --------------------
# The polynomial between two breakpoints is Σₖ cₖ (p − x)ᵈ⁻ᵏ from the left one on, as SciPy's
# `PPoly` has it. Both operations are linear in their first operand, and each is the derivative of
# the other.


@helper
def interval_of(x, step, last, sign, p, near, extrapolate):
    """The interval of a point, −1 where there is none; `near` is where the search begins.

    `last` is the last interval, `sign` −1.0 where breakpoints decrease. An interval has its first
    breakpoint, the last one both.
    """
    p = sign * p
    if p != p:
        return -1
    if p < sign * load_f64(x, 0):
        return 0 if extrapolate else -1
    end = sign * load_f64(x, (last + 1) * step)
    if p >= end:
        return last if extrapolate or p == end else -1
    if sign * load_f64(x, near * step) <= p:
        if p < sign * load_f64(x, (near + 1) * step):
            return near
        if p < sign * load_f64(x, (near + 2) * step):
            return near + 1
    low, count = 0, last + 1
    while count > 1:  # without branches, which points in any order would mislead
        half = count // 2
        low = low + half if sign * load_f64(x, (low + half) * step) <= p else low
        count -= half
    return low


@helper
def falling(power, nu):
    """The factor of a power in the derivative of order `nu`."""
    factor = 1.0
    for i in range(nu):
        factor *= power - i
    return factor


@helper
def polynomial_at(c, down, order, nu, s):
    """The derivative of order `nu` of a polynomial at s."""
    total = 0.0
    if nu == 0:
        for r in range(order):
            total = total * s + load_f64(c, r * down)
    else:
        for r in range(order - nu):
            total = total * s + falling(order - 1 - r, nu) * load_f64(c, r * down)
    return total


@helper
def add_powers(to, down, order, nu, s, g):
    """Add g times the derivatives of the powers of s."""
    for r in range(order - 1 - nu, -1, -1):
        factor = falling(order - 1 - r, nu) if nu > 0 else 1.0
        store_f64(to, r * down, load_f64(to, r * down) + factor * g)
        g *= s


@helper
def direction_of(x, step, last):
    """Whether breakpoints increase: 1.0, or −1.0."""
    return 1.0 if load_f64(x, (last + 1) * step) >= load_f64(x, 0) else -1.0


def piecewise_polynomial_forward(frame, id, refs, task):
    """References: order of derivative, whether to extrapolate; coefficients, x, points, output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    nu, extrapolate = load_i64(words, 0), load_i64(words, 8) != 0
    c, x = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    points, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    count, width, order = (
        lapack.size_along(out, 2),
        lapack.size_along(out, 1),
        lapack.size_along(c, 3),
    )
    down, along, beside = (
        lapack.stride_along(c, 3),
        lapack.stride_along(c, 2),
        lapack.stride_along(c, 1),
    )
    step, apart = lapack.stride_along(x, 1), lapack.stride_along(points, 1)
    last, infinite = lapack.size_along(x, 1) - 2, 1e300 * 1e300
    for k in range(lapack.batch_size(out, 2) if count * width > 0 else 0):
        at_c, at_x = lapack.batch_item(c, 3, out, 2, k), lapack.batch_item(x, 1, out, 2, k)
        at_p = lapack.batch_item(points, 1, out, 2, k)
        to = load_i64(out, ARRAY_DATA) + k * count * width * 8
        sign, near = direction_of(at_x, step, last), 0
        for i in range(count):
            p = load_f64(at_p, i * apart)
            place = interval_of(at_x, step, last, sign, p, near, extrapolate)
            near = max(place, 0)
            s, own = p - load_f64(at_x, near * step), at_c + near * along
            for j in range(width):
                value = polynomial_at(own + j * beside, down, order, nu, s)
                store_f64(to, (i * width + j) * 8, value if place >= 0 else infinite - infinite)


def piecewise_polynomial_adjoint_forward(frame, id, refs, task):
    """References: number of coefficients, order of derivative, whether to extrapolate; adjoints at
    points, x, points, output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    order, nu, extrapolate = load_i64(words, 0), load_i64(words, 8), load_i64(words, 16) != 0
    g, x = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    points, out = load_i64(refs, 3 * REFERENCE_BYTES), load_i64(refs, 4 * REFERENCE_BYTES)
    count, width = lapack.size_along(g, 2), lapack.size_along(g, 1)
    down, beside = lapack.stride_along(g, 2), lapack.stride_along(g, 1)
    step, apart = lapack.stride_along(x, 1), lapack.stride_along(points, 1)
    last = lapack.size_along(x, 1) - 2
    row, size = (last + 1) * width * 8, order * (last + 1) * width * 8
    for k in range(lapack.batch_size(out, 3) if size > 0 else 0):
        at_g, at_x = lapack.batch_item(g, 2, out, 3, k), lapack.batch_item(x, 1, out, 3, k)
        at_p = lapack.batch_item(points, 1, out, 3, k)
        to = load_i64(out, ARRAY_DATA) + k * size
        memset(to, 0, size)
        sign, near = direction_of(at_x, step, last), 0
        for i in range(count):
            p = load_f64(at_p, i * apart)
            place = interval_of(at_x, step, last, sign, p, near, extrapolate)
            if place >= 0:
                near = place
                s, own = p - load_f64(at_x, near * step), to + near * width * 8
                for j in range(width):
                    value = load_f64(at_g, i * down + j * beside)
                    add_powers(own + j * 8, row, order, nu, s, value)


_HELPERS = (interval_of, falling, polynomial_at, add_powers, direction_of)


# --- values by NumPy ------------------------------------------------------------------------------


def intervals(x, points, extrapolate) -> np.ndarray:
    """The interval of each point, −1 where there is none, as `interval_of` finds it."""
    if x[-1] < x[0]:
        x, points = -x, -points
    found = np.clip(np.searchsorted(x, points, side="right") - 1, 0, len(x) - 2)
    inside = (points >= x[0]) & (points <= x[-1])
    return np.where(~np.isnan(points) if extrapolate else inside, found, -1)


def _powers(x, points, order: int, nu: int, extrapolate):
    """For each point its interval, whether it has one, and the derivatives of the powers there."""
    place = intervals(x, points, extrapolate)
    s = points - x[np.maximum(place, 0)]
    found = np.zeros((order, len(points)), np.result_type(x, points))
    for power in range(nu, order):
        found[order - 1 - power] = math.perm(power, nu) * s ** (power - nu)
    return np.maximum(place, 0), place >= 0, found


def _each(one, shape, operands, own):
    """The results for the elements of a batch."""
    front = shape[: len(shape) - own[-1]]
    wide = [
        np.broadcast_to(x, (*front, *x.shape[x.ndim - n :]))
        for x, n in zip(operands, own[:-1], strict=True)
    ]
    out = np.zeros(shape, np.result_type(*operands))
    for at in np.ndindex(front if out.size else (0,)):
        one(out[at], *[x[at] for x in wide])
    return out


# --- values at points -----------------------------------------------------------------------------


def _check(x, points) -> None:
    if not len(x) or not len(points) or x[-1] < 2:
        raise ValueError(f"piecewise polynomials: breakpoints {x} and points {points}")


def _polynomial_shape(c, x, points, nu, extrapolate):
    """The shape of values; raises ValueError where the value does."""
    _check(x, points)
    if len(c) < 3 or c[-2] != x[-1] - 1 or nu < 0:
        raise ValueError(f"piecewise polynomials: coefficients {c} for breakpoints {x}")
    front = joint_batch(joint_batch(c[:-3], x[:-1]), points[:-1])
    return (*front, points[-1], c[-1])


def _of_breakpoints(np, moved, x, points, extrapolate):
    """What breakpoints get of what their intervals get: a point moves against its breakpoint."""
    found = piecewise_polynomial_adjoint(
        moved[..., None], x, points, order=1, nu=0, extrapolate=extrapolate
    )
    lost = -found[..., 0, :, 0]
    return np.concatenate([lost, np.zeros((*lost.shape[:-1], 1), lost.dtype)], axis=-1)


def _of_batch(value):
    """The rule of a batch: operands that are the same for all elements are broadcast."""

    def batched(np, t, out, *operands, **static):
        pairs = zip(t, operands, strict=True)
        return value()(*[x if own is None else own for own, x in pairs], **static)

    return batched


def piecewise_polynomial_vjp(np, g, _out, c, x, points, *, nu, extrapolate):
    """The adjoint operation for the coefficients, a derivative more for points and breakpoints."""
    options = {"extrapolate": extrapolate}

    def moved():
        slopes = piecewise_polynomial(c, x, points, nu=nu + 1, **options)
        return np.sum(np.times(g, slopes), axis=-1)

    return (
        lambda: piecewise_polynomial_adjoint(g, x, points, order=c.shape[-3], nu=nu, **options),
        lambda: _of_breakpoints(np, moved(), x, points, extrapolate),
        moved,
    )


_AT = "{0} + np.array([0.0, 2.27, -2.0])[np.arange(len({0})) % 3]"
_PIECES = "tg.scipy.interpolate.PPoly(np.stack([{0}, {0} ** 2, -{0}]), " + (
    "2.0 * np.arange(len({0}) + 1.0){1})"
)


def _work(_static, out, c, *_):
    return 2.0 * math.prod(out) * c[-3] + 20.0 * out[-2]


@declared(
    vjp=piecewise_polynomial_vjp,
    takes_complex=False,
    batched=_of_batch(lambda: piecewise_polynomial),
    shape=_polynomial_shape,
    value_kernel=piecewise_polynomial_forward,
    helpers=_HELPERS,
    work=_work,
    example=f"{_PIECES.format('x', '')}({_AT.format('x')}) if len(x) else x",
    examples=(
        f"{_PIECES.format('x', '[::-1]')}(x * 0.5 + 0.1, 1) if len(x) else x",
        f"{_PIECES.format('x', ' + 0.1 * x[0, 0]')}(x[0] + 6.0 * len(x), extrapolate='periodic')"
        " if len(x) else x",
    ),
    awkward="at a breakpoint the derivative is that of the polynomial to its right",
)
def piecewise_polynomial(c, x, points, *, nu, extrapolate):
    """piecewise_polynomial(c, x, points, nu, extrapolate): piecewise polynomials at points.

    `c` has shape (…, degree + 1, M, N), of the highest power first, `x` (…, M + 1) and `points`
    (…, Q); the values have (…, Q, N). They are NaN outside of `x` unless `extrapolate`.
    """
    shape = _polynomial_shape(c.shape, x.shape, points.shape, nu, extrapolate)

    def one(out, c, x, points):
        place, inside, powers = _powers(x, points, len(c), nu, extrapolate)
        out[...] = np.einsum("kq,kqn->qn", powers, c[:, place])
        out[~inside] = np.nan

    return _each(one, shape, (c, x, points), (3, 1, 1, 2))


# --- the adjoint ----------------------------------------------------------------------------------


def _adjoint_shape(g, x, points, order, nu, extrapolate):
    """The shape of an adjoint; raises ValueError where the value does."""
    _check(x, points)
    if len(g) < 2 or g[-2] != points[-1] or order < 0 or nu < 0:
        raise ValueError(f"piecewise polynomials: adjoints {g} at points {points}")
    front = joint_batch(joint_batch(g[:-2], x[:-1]), points[:-1])
    return (*front, order, x[-1] - 1, g[-1])


def piecewise_polynomial_adjoint_vjp(np, h, _out, g, x, points, *, order, nu, extrapolate):
    """The values of polynomials with the adjoints as coefficients."""
    options = {"extrapolate": extrapolate}

    def moved():
        slopes = piecewise_polynomial(h, x, points, nu=nu + 1, **options)
        return np.sum(np.times(g, slopes), axis=-1)

    return (
        lambda: piecewise_polynomial(h, x, points, nu=nu, **options),
        lambda: _of_breakpoints(np, moved(), x, points, extrapolate),
        moved,
    )


@declared(
    vjp=piecewise_polynomial_adjoint_vjp,
    takes_complex=False,
    batched=_of_batch(lambda: piecewise_polynomial_adjoint),
    shape=_adjoint_shape,
    value_kernel=piecewise_polynomial_adjoint_forward,
    helpers=_HELPERS,
    work=lambda _static, out, g, *_: 2.0 * math.prod(g) * out[-3] + 20.0 * g[-2],
    example="tg.grad(lambda y: np.sum(np.sin("
    f"{_PIECES.format('y', '')}({_AT.format('y')}))))(x) if len(x) else x",
)
def piecewise_polynomial_adjoint(g, x, points, *, order, nu, extrapolate):
    """piecewise_polynomial_adjoint(g, x, points, order, nu, extrapolate): of coefficients.

    The sums over points in each interval of adjoints of shape (…, Q, N), times powers.
    """
    shape = _adjoint_shape(g.shape, x.shape, points.shape, order, nu, extrapolate)

    def one(out, g, x, points):
        place, inside, powers = _powers(x, points, order, nu, extrapolate)
        parts = powers[:, inside, None] * g[inside]
        np.add.at(out, (slice(None), place[inside]), parts)

    return _each(one, shape, (g, x, points), (2, 1, 1, 3))

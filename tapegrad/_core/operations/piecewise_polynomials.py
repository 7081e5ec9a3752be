"""Piecewise polynomials at points, and their adjoints: what splines compute.

The polynomial between two breakpoints is Σₖ cₖ (p − x)ᵈ⁻ᵏ from the left one on, as SciPy's `PPoly`
has it. Both operations are linear in their first operand, and each is the derivative of the other.
"""

from __future__ import annotations

import math

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import helper, load_f64, load_i64, memset, store_f64
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from .declaring import declared, joint_batch


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

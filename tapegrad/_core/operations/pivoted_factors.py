"""Triangular factors of any matrices, with rows exchanged: the LU factorization."""

from __future__ import annotations

import importlib

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats
from ..codegen.intrinsics import free, load_i32, load_i64, malloc
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..tensor.trace import named
from .declaring import adjoint, declared
from .packing import packed, parts_of, size_of
from .triangular_equations import solve_triangular


def shapes_of_factors(shape):
    """The shapes of both factors in one matrix, of the exchanges, and of the order of rows."""
    m, n = shape[-2:]
    return (m, n), (min(m, n),), (m,)


def _shape(a):
    """The shape of the output; raises ValueError where the value does."""
    if len(a) < 2:
        raise ValueError(f"lu_factor does not accept an operand of shape {a}")
    return (*a[:-2], size_of(*shapes_of_factors(a)))


def lu_factor_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    m, n, size = lapack.size_along(a, 2), lapack.size_along(a, 1), lapack.size_along(out, 1)
    matrix = malloc(m * n * ITEM + lapack.CALL_BYTES + min(m, n) * 4)
    call = matrix + m * n * ITEM
    pivots, rows = call + lapack.CALL_BYTES, call + lapack.ROWS
    for k in range(lapack.batch_size(out, 1) if m * n > 0 else 0):
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 1, k), a, 2)
        lapack.enter_call(call, 0, m, n)
        lapack.getrf(rows, call + lapack.COLUMNS, matrix, rows, pivots, call + lapack.ANSWER)
        to = load_i64(out, ARRAY_DATA) + k * size * ITEM
        exchanges = floats(to + m * n * ITEM)
        order = floats(to + (m * n + min(m, n)) * ITEM)
        lapack.write_turned(to, matrix, m, n)
        for i in range(m):
            order[i] = float(i)
        for i in range(min(m, n)):
            j = load_i32(pivots, i * 4) - 1
            exchanges[i] = float(j)
            order[i], order[j] = order[j], order[i]
    free(matrix)


@named("scipy.order_of_rows")
def order_of_rows(exchanges, count):
    """The permutation of `count` rows that results from successive exchanges."""
    exchanges = np.asarray(exchanges)
    order = np.broadcast_to(np.arange(count), (*exchanges.shape[:-1], count)).copy()
    for at in np.ndindex(exchanges.shape[:-1]):
        for i, j in enumerate(exchanges[at].astype(np.intp)):
            order[at][[i, j]] = order[at][[j, i]]
    return order


def permutation(np, order):
    """The matrices that put rows in an order back: a = p @ (rows in that order)."""
    order = np.real(order) if order.dtype.kind == "c" else order
    rows = np.arange(order.shape[-1])[:, None]
    return np.where(rows == order[..., None, :], 1.0, 0.0)


def lower_factor(np, both):
    """The factor with ones on its diagonal."""
    m, n = both.shape[-2:]
    few = min(m, n)
    return np.tril(both[..., :few], -1) + np.eye(m, few, dtype=both.dtype)


def upper_factor(np, both):
    """The other factor."""
    return np.triu(both[..., : min(both.shape[-2:]), :])


def _over(np, x, upper):
    """x u⁻¹."""
    return adjoint(np, solve_triangular(upper, adjoint(np, x), trans=2))


def lu_factor_vjp(np, g, out, _a):
    """With square l, u, rows permuted back: l⁻ᵀ (tril(lᵀ l̄, −1) + triu(ū uᵀ)) u⁻ᵀ.

    The rows of a tall matrix beyond the square are l₂ u, the columns of a wide one l u₂.
    """
    shapes, few = shapes_of_factors(_a.shape), min(_a.shape[-2:])
    (both, _, order), (given, _, _) = parts_of(out, *shapes), parts_of(g, *shapes)
    lower, upper = lower_factor(np, both), upper_factor(np, both)
    into_lower, into_upper = np.tril(given[..., :few], -1), np.triu(given[..., :few, :])
    square, first, rest = upper[..., :few], lower[..., :few, :], []
    if _a.shape[-1] > few:
        beyond = solve_triangular(first, into_upper[..., few:], trans=2, lower=True)
        rest = [beyond]
        into_lower = into_lower - np.matmul(beyond, adjoint(np, upper[..., few:]))
    into_square = into_upper[..., :few]
    if _a.shape[-2] > few:
        below = _over_adjoint(np, into_lower[..., few:, :], square)
        into_square = into_square - np.matmul(adjoint(np, lower[..., few:, :]), below)
    inner = np.tril(np.matmul(adjoint(np, first), into_lower[..., :few, :]), -1)
    inner = inner + np.triu(np.matmul(into_square, adjoint(np, square)))
    made = _over_adjoint(np, solve_triangular(first, inner, trans=2, lower=True), square)
    if _a.shape[-2] > few:
        made = np.concatenate([made, below], axis=-2)
    made = np.concatenate([made, *rest], axis=-1) if rest else made
    return (np.matmul(permutation(np, order), made),)


def _over_adjoint(np, x, upper):
    """x u⁻ᴴ."""
    return adjoint(np, solve_triangular(upper, adjoint(np, x)))


def lu_factor_jvp(np, t, out, _a):
    """With m = l⁻¹ ȧ u⁻¹ of the square: l̇ = l tril(m, −1), u̇ = triu(m) u."""
    few = min(_a.shape[-2:])
    both, exchanges, order = parts_of(out, *shapes_of_factors(_a.shape))
    lower, upper = lower_factor(np, both), upper_factor(np, both)
    moved = np.matmul(adjoint(np, permutation(np, order)), t[0])
    square, first = upper[..., :few], lower[..., :few, :]
    m = solve_triangular(first, moved[..., :few, :few], lower=True)
    m = _over(np, m, square)
    dl, du = np.matmul(first, np.tril(m, -1)), np.matmul(np.triu(m), square)
    made = np.tril(dl, -1) + np.triu(du)
    if _a.shape[-2] > few:
        rows = moved[..., few:, :few] - np.matmul(lower[..., few:, :], du)
        made = np.concatenate([made, _over(np, rows, square)], axis=-2)
    if _a.shape[-1] > few:
        columns = moved[..., few:] - np.matmul(dl, upper[..., few:])
        columns = solve_triangular(first, columns, lower=True)
        made = np.concatenate([made, columns], axis=-1)
    front = made.shape[:-2]
    nothing = [np.zeros((*front, x.shape[-1]), made.dtype) for x in (exchanges, order)]
    return packed(np, made, *nothing, own=(2, 1, 1))


_FACTOR = "tg.scipy.linalg.lu_factor"


@declared(
    vjp=lu_factor_vjp,
    jvp=lu_factor_jvp,
    shape=_shape,
    value_kernel=lu_factor_forward,
    complex_kernel=lu_factor_forward,
    example=f"{_FACTOR}(np.diag(x * x + 1.0) + x[::-1, None])[0]",
    examples=(
        "tg.scipy.linalg.lu(x @ x.T + np.diag(np.arange(len(x)) + 1.0))[2]",
        "tg.scipy.linalg.lu(x + np.eye(*x.shape)[::-1], permute_l=True)[0]",
        "tg.scipy.linalg.lu(x.T + 3.0 * np.eye(*x.T.shape))[1]",
        "tg.scipy.linalg.lu(x.T + 3.0 * np.eye(*x.T.shape))[2]",
        "tg.scipy.linalg.lu(x + 3.0 * np.eye(*x.shape))[2]",
    ),
    complex_example=f"{_FACTOR}(np.diag(x * x + 1j) + x[::-1, None])[0]",
    complex_examples=(
        "tg.scipy.linalg.lu(x.T + (3.0 - 1j) * np.eye(*x.T.shape))[1]",
        "tg.scipy.linalg.lu(x + (3.0 + 1j) * np.eye(*x.shape))[2]",
    ),
    awkward="a pivot 0: no derivative, LinAlgError",
)
def _lu_factor(a):
    """Both triangular factors of matrices in one, the exchanges of rows, and the order of rows."""
    factor = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("getrf",), (a,))[0]
    parts = [np.empty((*a.shape[:-2], *shape), a.dtype) for shape in shapes_of_factors(a.shape)]
    for at in np.ndindex(a.shape[:-2] if a.size else (0,)):
        both, exchanges, _ = factor(a[at])
        parts[0][at], parts[1][at] = both, exchanges
        parts[2][at] = order_of_rows(exchanges, a.shape[-2])
    return packed(np, *parts, own=(2, 1, 1))


lu_factor = _lu_factor

"""Linear equations, under NumPy's names."""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM
from ..codegen.intrinsics import free, helper, load_i64, malloc, store_u8
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..ops import small_matrices
from ..tensor.complex_tensors import is_complex
from ..tensor.copies import unlisted
from ..tensor.registry import alike, function
from ..tensor.values import differentiates
from .declaring import adjoint, declared, joint_batch
from .lu_factors import (
    Factored,
    check_regular,
    of_matrix,
    prepared,
    read_factors,
    routine,
    singular,
    square,
)
from .unrecorded import unrecorded


def _shape(a, b, lu, transposed=0):
    """The shape of a solution; raises ValueError where NumPy does."""
    square("solve", a)
    own = 1 if len(b) == 1 else 2
    if len(b) < own or b[-own] != a[-1] or lu != (*a[:-2], a[-1] + 1, a[-1]):
        raise ValueError(f"solve does not accept operands of shapes {a}, {b} and {lu}")
    return (*joint_batch(a[:-2], b[:-own]), *b[-own:])


# --- values in programs ---------------------------------------------------------------------------


@helper
def solve_lu(factors, x, columns, turned, call):
    """Solve for right-hand sides `x`, columns in Fortran order, in place."""
    matrix, pivots, n, kind = factors
    lapack.enter_call(call, kind, n, columns)
    store_u8(call, lapack.TURN, 67 if turned else 78)  # "C", of real matrices "T"; "N"
    rows, count, none = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.NOT_TRANSPOSED
    turn, answer = call + lapack.TURN, call + lapack.ANSWER
    if kind == lapack.FULL:
        lapack.getrs(turn, rows, count, matrix, rows, pivots, x, rows, answer)
    else:
        lapack.trtrs(call + lapack.LETTER, turn, none, rows, count, matrix, rows, x, rows, answer)


def solve_forward(frame, id, refs, task):
    """References: whether transposed, the matrices, the right-hand sides, factors, the output."""
    turned = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    b, lu = load_i64(refs, 2 * REFERENCE_BYTES), load_i64(refs, 3 * REFERENCE_BYTES)
    out = load_i64(refs, 4 * REFERENCE_BYTES)
    own = 1 if lapack.axes(b) == 1 else 2
    n, columns = lapack.size_along(out, own), lapack.size_along(out, 1) if own == 2 else 1
    count = lapack.batch_size(out, own) if n > 0 else 0
    copied = malloc(n * n * ITEM + n * columns * ITEM + n * 4 + lapack.CALL_BYTES)
    column = copied + n * n * ITEM
    call = column + n * columns * ITEM
    last, factors = 0, Factored(copied, call + lapack.CALL_BYTES, n, lapack.FULL)
    for k in range(count):
        at = lapack.batch_item(lu, 2, out, own, k)
        if at != last:
            factors, is_singular = read_factors(lu, at, n, copied, factors.pivots)
            last = at
            if is_singular:
                lapack.refuse(frame, 1)
                break
        to = load_i64(out, ARRAY_DATA) + k * n * columns * ITEM
        x = to if columns == 1 else column
        lapack.copy_turned(x, lapack.batch_item(b, own, out, own, k), b, own)
        solve_lu(factors, x, columns, turned, call)
        if columns != 1:
            lapack.write_turned(to, x, n, columns)
    free(copied)


# --- rules ----------------------------------------------------------------------------------------


def solve_vjp(np, g, out, a, _b, lu, transposed=0):
    """With x = a⁻¹ b: b̄ = a⁻ᴴ x̄ and ā = −b̄ xᴴ (Giles 2008, section 2.3.1)."""
    is_vector = _b.ndim == 1
    if is_vector:
        g, out = g[..., None], out[..., None]
    back = _solve(a, g, lu, transposed=1 - transposed)
    right = back[..., 0] if is_vector else back

    def left():
        column, row = (out, back) if transposed else (back, out)
        product = np.multiply if is_vector else np.matmul  # for one column: half the time
        return product(-column, adjoint(np, row))

    return left, right, None


def _columns(np, t, batch: int):
    """Tangents of vectors as columns, with `batch` axes between that of directions and the last."""
    between = t.shape[1:-1]
    between = (1,) * (batch - len(between)) + between[max(len(between) - batch, 0) :]
    return np.reshape(t, (len(t), *between, t.shape[-1], 1))


def solve_jvp(np, t, out, a, _b, lu, transposed=0):
    """ẋ = a⁻¹ (ḃ − ȧ x)."""
    is_vector = _b.ndim == 1
    side = t[1]
    if is_vector:
        out = out[..., None]
        side = None if side is None else _columns(np, side, a.ndim - 2)
    if t[0] is not None:
        moved = np.matmul(adjoint(np, t[0]) if transposed else t[0], out)
        side = -moved if side is None else side - moved
    made = _solve(a, side, lu, transposed=transposed)
    return made[..., 0] if is_vector else made


def solve_batched(np, t, _out, a, b, lu, transposed=0):
    """A vector `b` would be taken for a matrix with the axis in front: it is made a column."""
    is_vector, ndim = b.ndim == 1, _out.ndim + (b.ndim == 1)
    a, lu = (
        x if along is None else np.aligned(along, ndim)
        for along, x in zip(t[::2], (a, lu), strict=True)
    )
    b = b if t[1] is None else t[1]
    if is_vector:
        b = b[..., None]
    found = _solve(a, b if t[1] is None else np.aligned(b, ndim), lu, transposed=transposed)
    return found[..., 0] if is_vector else found


@declared(
    vjp=solve_vjp,
    jvp=solve_jvp,
    shape=_shape,
    value_kernel=solve_forward,
    complex_kernel=solve_forward,
    products=small_matrices.products,
    small=small_matrices.solved,
    helpers=(Factored, read_factors, solve_lu),
    refusal=singular,
    batched=solve_batched,
    example="np.linalg.solve(np.diag(x * x + 3.0), x)",
    examples=(
        "np.linalg.solve(x @ x.T + 3.0 * np.eye(len(x)), x)",
        "np.linalg.solve(x[:, None, :2] * x[:, :2, None] + np.eye(len(x[0, :2])), x[0, :2])"
        " if len(x) else np.linalg.solve(x @ x.T, x)",
        "np.linalg.solve(4.0 * np.eye(len(x)), x)",
    ),
    complex_example="np.linalg.solve(np.diag(x * x + 3.0) + 0.5j * x, x + 1j)",
    complex_examples=(
        "np.linalg.solve(x @ x.T + 3.0 * np.eye(len(x)) + 0.3j * x[:, :1], x)",
        "np.linalg.solve(x[:, None, :2] * x[:, :2, None] * 1j + np.eye(2), x[0, :2])",
        "np.linalg.solve(4.0 * np.eye(len(x)), x * (1.0 + 2.0j))",
    ),
)
def _solve(a, b, lu, *, transposed=0):
    """solve(a, b): the solution x of a @ x = b, or of aᴴ @ x = b, by the factors of a."""
    check_regular(lu)
    solution, turn = routine("getrs", lu.dtype.char), transposed and (2 if _is_complex(lu) else 1)
    columns = b[:, None] if b.ndim == 1 else b
    if lu.ndim == columns.ndim == 2:
        made = _one(solution, lu, columns, turn)
    else:
        batch = np.broadcast_shapes(lu.shape[:-2], columns.shape[:-2])
        factors = np.broadcast_to(lu, (*batch, *lu.shape[-2:]))
        columns = np.broadcast_to(columns, (*batch, *columns.shape[-2:]))
        made = np.empty(columns.shape, columns.dtype)
        for at in np.ndindex(batch):
            made[at] = _one(solution, factors[at], columns[at], turn)
    return made[..., 0] if b.ndim == 1 else made


def _is_complex(x) -> bool:
    return x.dtype.kind == "c"


def _one(solution, factors, columns, turn):
    """The solution of one matrix; LAPACK's routines take none without elements."""
    return solution(*of_matrix(factors), columns, trans=turn)[0] if columns.size else columns


@function("linalg.solve", complex=alike)
def solve(a, b):
    """Solve the equations a @ x = b.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.
    b : array_like, shape (M,) or (…, M, K)
        The right-hand sides.

    Returns
    -------
    Tensor or ndarray, shape (…, M) or (…, M, K)
        The solution x.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda b: np.sum(np.linalg.solve(np.diag([2.0, 4.0]), b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b) and not (is_complex(a) or is_complex(b)):
        return unrecorded(np.linalg.solve, a, b)
    return _solve(*prepared("solve", np.linalg.solve, _shape, a, b))

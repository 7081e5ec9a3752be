"""Linear equations, under NumPy's names."""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import (
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
)
from ..codegen.layout import ARRAY_DATA, ARRAY_NDIM, REFERENCE_BYTES
from .declaring import adjoint, operation

# --- values in programs ---------------------------------------------------------------------------


def _solution_shape(a, b):
    """The shape of a solution; raises ValueError where NumPy does."""
    own = 1 if len(b) == 1 else 2
    if len(a) < 2 or len(b) < own or not a[-2] == a[-1] == b[-own]:
        raise ValueError(f"solve takes no operands of shapes {a} and {b}")
    return (*np.broadcast_shapes(a[:-2], b[:-own]), *b[-own:])


def _singular(answer):
    return np.linalg.LinAlgError("Singular matrix")


@helper
def factor_lu(matrix, pivots, n, call):
    """Factor a matrix in place for `solve_lu`; its kind, and whether it is singular.

    A triangular one is its own factor.
    """
    kind, singular = lapack.triangle_of(matrix, n), False
    if kind == lapack.FULL:
        lapack.enter_call(call, 0, n, n)
        rows = call + lapack.ROWS
        lapack.dgetrf(rows, rows, matrix, rows, pivots, call + lapack.ANSWER)
        return kind, load_i32(call, lapack.ANSWER) != 0
    for i in range(n):
        singular = singular or load_f64(matrix, (n + 1) * i * 8) == 0.0
    return kind, singular


@helper
def solve_lu(kind, matrix, pivots, n, x, columns, call):
    """Solve for right-hand sides `x`, columns in Fortran order, in place."""
    lapack.enter_call(call, kind, n, columns)
    rows, count, none = call + lapack.ROWS, call + lapack.COLUMNS, call + lapack.NOT_TRANSPOSED
    answer = call + lapack.ANSWER
    if kind == lapack.FULL:
        lapack.dgetrs(none, rows, count, matrix, rows, pivots, x, rows, answer)
    else:
        lapack.dtrtrs(call + lapack.LETTER, none, none, rows, count, matrix, rows, x, rows, answer)


def solve_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the right-hand sides, the output.

    A matrix that several right-hand sides share is factored once.
    """
    a, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    own = 1 if load_i32(b, ARRAY_NDIM) == 1 else 2
    n, columns = lapack.size_along(out, own), lapack.size_along(out, 1) if own == 2 else 1
    count = lapack.batch_size(out, own) if n > 0 else 0
    matrix = malloc(n * n * 8 + n * columns * 8 + n * 4 + lapack.CALL_BYTES)
    turned = matrix + n * n * 8
    call = turned + n * columns * 8
    pivots, last, kind = call + lapack.CALL_BYTES, 0, lapack.FULL
    for k in range(count):
        at = lapack.batch_item(a, 2, out, own, k)
        if at != last:
            lapack.copy_turned(matrix, at, a, 2)
            kind, singular = factor_lu(matrix, pivots, n, call)
            last = at
            if singular:
                lapack.refuse(frame, 1)
                break
        to = load_i64(out, ARRAY_DATA) + k * n * columns * 8
        x = to if columns == 1 else turned
        lapack.copy_turned(x, lapack.batch_item(b, own, out, own, k), b, own)
        solve_lu(kind, matrix, pivots, n, x, columns, call)
        if columns != 1:
            lapack.write_turned(to, x, n, columns)
    free(matrix)


# --- linear equations -----------------------------------------------------------------------------


def solve_vjp(np, g, out, a, _b):
    """With x = a⁻¹ b: b̄ = a⁻ᴴ x̄ and ā = −b̄ xᴴ (Giles 2008, section 2.3.1)."""
    is_vector = _b.ndim == 1
    if is_vector:
        g, out = g[..., None], out[..., None]
    back = np.linalg.solve(adjoint(np, a), g)
    right = back[..., 0] if is_vector else back
    return (lambda: -np.matmul(back, adjoint(np, out)), right)


def solve_batched(np, t, _out, a, b):
    """A vector `b` would be taken for a matrix with the axis in front: it is made a column."""
    is_vector, ndim = b.ndim == 1, _out.ndim + (b.ndim == 1)
    a = a if t[0] is None else np.aligned(t[0], ndim)
    b = b if t[1] is None else t[1]
    if is_vector:
        b = b[..., None]
    found = np.linalg.solve(a, b if t[1] is None else np.aligned(b, ndim))
    return found[..., 0] if is_vector else found


@operation(
    "linalg.solve",
    vjp=solve_vjp,
    shape=_solution_shape,
    value_kernel=solve_forward,
    helpers=(factor_lu, solve_lu),
    refusal=_singular,
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
def solve(a, b):
    """solve(a, b): the solution x of a @ x = b.

    `a` has shape (…, M, M); `b` has shape (M,) or (…, M, K), and so has the result, (…, M) for a
    vector `b`. Raises numpy.linalg.LinAlgError for a singular matrix.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda b: np.sum(np.linalg.solve(np.diag([2.0, 4.0]), b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    return np.linalg.solve(a, b)

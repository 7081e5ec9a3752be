"""Equations with triangular matrices, for the rules of factors and under SciPy's names."""

from __future__ import annotations

import importlib

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, load_float
from ..codegen.intrinsics import free, load_i64, malloc
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import compiled, solve_triangle
from ..codegen.strided_memory import Matrix, Triangle, moved
from ..ops import small_matrices
from .declaring import adjoint, declared, joint_batch, transposed

# --- values ---------------------------------------------------------------------------------------


def _solution_shape(a, b, trans=0, lower=False, unit_diagonal=False):
    """The shape of a solution; raises ValueError where the value does."""
    if len(a) < 2 or len(b) < 2 or not a[-2] == a[-1] == b[-2]:
        raise ValueError(f"solve_triangular does not accept operands of shapes {a} and {b}")
    return (*joint_batch(a[:-2], b[:-2]), *b[-2:])


def _singular(answer):
    return np.linalg.LinAlgError(
        f"singular matrix: resolution failed at diagonal {answer - 1}",
    )


def solve_triangular_forward(frame, id, refs, task):
    """References: `trans`, `lower` and `unit_diagonal`, the matrices, right-hand sides, output."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    a, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n, columns = lapack.size_along(out, 2), lapack.size_along(out, 1)
    triangle = Triangle(load_i64(words, 0), load_i64(words, 8), load_i64(words, 16))
    matrices = Matrix(0, n, n, lapack.stride_along(a, 2), lapack.stride_along(a, 1))
    for k in range(lapack.batch_size(out, 2) if n * columns > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * columns * 8
        lapack.copy_matrix(to, lapack.batch_item(b, 2, out, 2, k), b)
        matrix = moved(matrices, lapack.batch_item(a, 2, out, 2, k))
        singular = solve_triangle(matrix, triangle, to, columns)
        if singular != 0:
            lapack.refuse(frame, singular)
            break


def complex_triangular_forward(frame, id, refs, task):
    """The same of complex matrices in Fortran order: BLAS conjugates none that are not turned."""
    words = load_i64(load_i64(refs, 0), ARRAY_DATA)
    a, b = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n, columns = lapack.size_along(out, 2), lapack.size_along(out, 1)
    trans, lower, unit = load_i64(words, 0), load_i64(words, 8) != 0, load_i64(words, 16) != 0
    matrix = malloc((n * n + n * columns) * ITEM)
    x, singular = matrix + n * n * ITEM, 0
    for k in range(lapack.batch_size(out, 2) if n * columns > 0 else 0):
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 2, k), a, 2)
        for i in range(0 if unit else n):
            if singular == 0 and load_float(matrix, i * (n + 1) * ITEM) == 0.0:
                singular = i + 1
        if singular != 0:
            lapack.refuse(frame, singular)
            break
        lapack.copy_turned(x, lapack.batch_item(b, 2, out, 2, k), b, 2)
        lapack.solve_columns(matrix, n, trans, lower, unit, x, columns)
        lapack.write_turned(load_i64(out, ARRAY_DATA) + k * n * columns * ITEM, x, n, columns)
    free(matrix)


# --- rules ----------------------------------------------------------------------------------------


def triangle_kept(np, x, lower=False, unit_diagonal=False):
    """The part of matrices that a triangular matrix is read from."""
    if lower:
        return np.tril(x, -1 if unit_diagonal else 0)
    return np.triu(x, 1 if unit_diagonal else 0)


def solve_triangular_vjp(np, g, out, a, _b, *, trans=0, **triangle):
    """With op(a) x = b: b̄ solves op(a)ᴴ b̄ = x̄, and the adjoint of op(a) is −b̄ xᴴ."""
    is_complex_transpose = trans == 1 and a.dtype.kind == "c"
    back = solve_triangular(
        np.conj(a) if is_complex_transpose else a,
        g,
        trans=0 if trans else 2,
        **triangle,
    )

    def into_a():
        product = np.matmul(back, adjoint(np, out))
        if trans:
            product = transposed(np, product) if trans == 1 else adjoint(np, product)
        return -triangle_kept(np, product, **triangle)

    return into_a, back


def solve_triangular_jvp(np, t, out, a, _b, *, trans=0, **triangle):
    """op(a) ẋ = ḃ − op(ȧ) x."""
    right = t[1]
    if t[0] is not None:
        moved = triangle_kept(np, t[0], **triangle)
        if trans:
            moved = transposed(np, moved) if trans == 1 else adjoint(np, moved)
        product = np.matmul(moved, out)
        right = -product if right is None else right - product
    return solve_triangular(a, right, trans=trans, **triangle)


_EXAMPLE = "tg.scipy.linalg.solve_triangular"


@declared(
    vjp=solve_triangular_vjp,
    jvp=solve_triangular_jvp,
    shape=_solution_shape,
    value_kernel=solve_triangular_forward,
    complex_kernel=complex_triangular_forward,
    products=small_matrices.products,
    small=small_matrices.solved_triangular,
    refusal=_singular,
    example=f"{_EXAMPLE}(np.diag(x * x + 3.0), x)",
    examples=(
        f"{_EXAMPLE}(x @ x.T + 3.0 * np.eye(len(x)), x, lower=True)",
        f"{_EXAMPLE}(x.T @ x + 3.0 * np.eye(len(x.T)), x.T, trans=1, unit_diagonal=True)",
        f"{_EXAMPLE}(x[:, :2, None] * x[:, None, :2] + 2.0 * np.eye(len(x[0, :2])), x[0, :2],"
        " trans='C', lower=True) if len(x) else x @ x.T",
    ),
    complex_example=f"{_EXAMPLE}(np.diag(x * x + 3.0) + 1j * x, x + 1j)",
    complex_examples=(
        f"{_EXAMPLE}(x @ x.T + (3.0 + 1j) * np.eye(len(x)), 1j * x, trans=2)",
        f"{_EXAMPLE}(x @ x.T + 1j * x[:, :1] + 3.0 * np.eye(len(x)), x, trans=1, lower=True)",
    ),
    awkward="of the matrix the triangle that is read has a gradient",
)
def _solve_triangular(a, b, *, trans=0, lower=False, unit_diagonal=False):
    """solve_triangular(a, b, trans, lower, unit_diagonal): x of a @ x = b for triangular matrices.

    `a` has shape (…, M, M) and `b` (…, M, K), with as many axes. Of `a` a triangle is read, with
    ones on the diagonal if `unit_diagonal`; `trans` is 1 for its transpose, 2 for the conjugate.
    Raises numpy.linalg.LinAlgError for a 0 on the diagonal.
    """
    shape = _solution_shape(a.shape, b.shape)
    dtype = np.result_type(a, b)
    solve = _solve_complex if dtype.kind == "c" else _solve_real
    out = solve(
        np.broadcast_to(a, (*shape[:-2], *a.shape[-2:])),
        np.broadcast_to(b, shape),
        trans,
        lower,
        unit_diagonal,
    )
    return out.astype(dtype if dtype.kind in "fc" else np.float64, copy=False)


def _solve_real(a, b, trans, lower, unit_diagonal):
    """Solutions in double precision, in C order."""
    matrices, out = np.asarray(a, np.float64), np.array(b, np.float64, order="C")
    n, columns = out.shape[-2:]
    solve = compiled("solve_triangle")
    words = (n, n, *matrices.strides[-2:], int(trans), int(lower), int(unit_diagonal))
    for at in np.ndindex(out.shape[:-2] if out.size else (0,)):
        singular = solve(matrices[at].ctypes.data, *words, out[at].ctypes.data, columns)
        if singular:
            raise _singular(singular)
    return out


def _solve_complex(a, b, trans, lower, unit_diagonal):
    """The same of complex numbers, by LAPACK through SciPy."""
    solve = importlib.import_module("scipy.linalg").solve_triangular
    out = np.array(b, np.complex128, order="C")
    for at in np.ndindex(out.shape[:-2] if out.size else (0,)):
        out[at] = solve(
            a[at],
            out[at],
            trans=trans,
            lower=lower,
            unit_diagonal=unit_diagonal,
            check_finite=False,
        )
    return out


solve_triangular = _solve_triangular

"""Triangular matrices: equations, Cholesky's and pivoted factors."""

from __future__ import annotations

import importlib

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float
from ..codegen.intrinsics import f64s, free, helper, load_f64, load_i32, load_i64, malloc, memset
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import cholesky_reverse, compiled, solve_triangle
from ..codegen.strided_memory import Matrix, Triangle, moved
from ..ops import small_matrices
from ..ops.table import PASSED
from ..tensor.trace import named
from .declaring import (
    adjoint,
    declared,
    joint_batch,
    operation,
    packed,
    parts_of,
    size_of,
    transposed,
)

# --- Equations with triangular matrices, for the rules of factors and under SciPy's names ---------


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


# --- Factors of positive definite matrices, under NumPy's names -----------------------------------


# --- values in programs ---------------------------------------------------------------------------


def _factor_shape(a, upper=False):
    """The shape of a factor; raises ValueError where NumPy does."""
    if len(a) < 2 or a[-1] != a[-2]:
        raise ValueError(f"cholesky does not accept an operand of shape {a}")
    return a


def _not_definite(answer):
    return np.linalg.LinAlgError("Matrix is not positive definite")


@helper
def copy_triangle(to, source, array, n, upper):
    """Copy one triangle of a matrix of an array to C order, with zeros in the other."""
    row_stride, column_stride = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    apart = lapack.parts_stride(array)
    memset(to, 0, n * n * ITEM)
    for i in range(n):
        line = floats(to + i * n * ITEM)
        for j in range(i if upper else 0, n if upper else i + 1):
            line[j] = lapack.load_number(source + i * row_stride + j * column_stride, apart)


def cholesky_forward(frame, id, refs, task):
    """References: `upper`, the matrices, the output.

    For LAPACK a factor in C order is the other triangle.
    """
    upper = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    call = malloc(lapack.CALL_BYTES)
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * ITEM
        copy_triangle(to, lapack.batch_item(a, 2, out, 2, k), a, n, upper)
        lapack.enter_call(call, lapack.LOWER if upper else lapack.UPPER, n, n)
        rows = call + lapack.ROWS
        lapack.potrf(call + lapack.LETTER, rows, to, rows, call + lapack.ANSWER)
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
    free(call)


def cholesky_adjoint_forward(frame, id, refs, task):
    """References: no parameters, the adjoints of factors, the factors, the output."""
    g, factors = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    factor = malloc(n * n * 8)
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * 8
        lapack.copy_matrix(factor, lapack.batch_item(factors, 2, out, 2, k), factors)
        lapack.copy_matrix(to, lapack.batch_item(g, 2, out, 2, k), g)
        cholesky_reverse(factor, to, n)
    free(factor)


# --- the adjoint, an operation itself -------------------------------------------------------------


def _lower_half(np, n: int):
    """The mask of the lower triangle of a matrix, with ½ on its diagonal."""
    return np.tri(n) - 0.5 * np.eye(n)


def _between(np, factor, a):
    """l⁻¹ a l⁻ᴴ for Hermitian matrices a."""
    half = solve_triangular(factor, a, lower=True)
    return solve_triangular(factor, adjoint(np, half), lower=True)


def cholesky_adjoint_vjp(np, w, _out, g, factor):
    """For a factor l, m = l⁻¹ w l⁻ᵀ with w made symmetric, p = Φ(lᵀ g): ⟨w, out⟩ = ⟨m, p⟩.

    Therefore g gets l Φ(m), and l the lower triangle of g Φ(m)ᵀ − l⁻ᵀ (p + pᵀ) m.
    """
    half = _lower_half(np, factor.shape[-1])
    m = _between(np, factor, 0.5 * (w + transposed(np, w)))

    def into_factor():
        p = np.matmul(transposed(np, factor), g) * half
        inner = np.matmul(p + transposed(np, p), m)
        moved = solve_triangular(factor, inner, trans=1, lower=True)
        return np.tril(np.matmul(g, transposed(np, m * half)) - moved)

    return (lambda: np.matmul(factor, m * half)), into_factor


def _adjoint_shape(g, factor):
    """The shape of an adjoint; raises ValueError where the value does."""
    if len(factor) < 2 or len(g) < 2 or not g[-2:] == factor[-2:] == (factor[-1], factor[-1]):
        raise ValueError(f"cholesky_adjoint does not accept operands of shapes {g} and {factor}")
    return np.broadcast_shapes(g, factor)


@declared(
    vjp=cholesky_adjoint_vjp,
    takes_complex=False,
    shape=_adjoint_shape,
    value_kernel=cholesky_adjoint_forward,
    example="tg.grad(lambda y: np.sum(np.linalg.cholesky(y)))(np.diag(x * x + 1.0))",
    awkward="of the adjoint and of the factor the lower triangles are read",
)
def _cholesky_adjoint(g, factor):
    """cholesky_adjoint(g, factor): the symmetric adjoint of a matrix from that of its factor.

    Both have shape (…, M, M): the rule of `cholesky`, by blocks (Murray 2016, arXiv 1602.07527).
    """
    shape = _adjoint_shape(g.shape, factor.shape)
    factors = np.broadcast_to(np.ascontiguousarray(factor, np.float64), shape)
    out = np.array(np.broadcast_to(g, shape), np.float64, order="C")
    reverse = compiled("cholesky_reverse")
    for at in np.ndindex(shape[:-2] if out.size else (0,)):
        reverse(factors[at].ctypes.data, out[at].ctypes.data, shape[-1])
    return out.astype(np.result_type(g, factor), copy=False)


cholesky_adjoint = _cholesky_adjoint


# --- small factors --------------------------------------------------------------------------------


def check_forward(frame, id, refs, task):
    """References: no parameters, squares of diagonals of factors, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    for i in range(lapack.size_along(a, 1)):
        if not load_f64(load_i64(a, ARRAY_DATA), i * lapack.stride_along(a, 1)) > 0.0:
            lapack.refuse(frame, 1)
    f64s(load_i64(out, ARRAY_DATA))[0] = 0.0


@declared(
    vjp=lambda np, g, out, _a: (None,),
    shape=lambda _squares: (),
    value_kernel=check_forward,
    constant=True,
    refusal=_not_definite,
    table=PASSED,
)
def _check_definite(a):
    """Refuses squares that are not positive, of diagonals of factors that are written out."""
    raise AssertionError("programs call its kernel")


# --- the factor -----------------------------------------------------------------------------------


def _hermitian_adjoint(np, g, factor):
    """The result of `cholesky_adjoint` for complex matrices."""
    p = np.matmul(adjoint(np, factor), np.tril(g)) * _lower_half(np, factor.shape[-1])
    half = solve_triangular(factor, p, trans=2, lower=True)
    found = adjoint(np, solve_triangular(factor, adjoint(np, half), trans=2, lower=True))
    return 0.5 * (found + adjoint(np, found))


def cholesky_vjp(np, g, out, _a, upper=False):
    """With a = l lᴴ and p = Φ(lᴴ l̄): ā is the Hermitian part of l⁻ᴴ p l⁻¹ (Murray 2016)."""
    if upper:
        g, out = adjoint(np, g), adjoint(np, out)
    if out.dtype.kind == "c":
        return (_hermitian_adjoint(np, g, out),)
    return (cholesky_adjoint(g, out),)


def cholesky_jvp(np, t, out, _a, upper=False):
    """l̇ = l Φ(l⁻¹ ȧ l⁻ᴴ)."""
    out = adjoint(np, out) if upper else out
    p = _between(np, out, 0.5 * (t[0] + adjoint(np, t[0])))
    made = np.matmul(out, p * _lower_half(np, out.shape[-1]))
    return adjoint(np, made) if upper else made


@operation(
    "linalg.cholesky",
    vjp=cholesky_vjp,
    jvp=cholesky_jvp,
    shape=_factor_shape,
    value_kernel=cholesky_forward,
    complex_kernel=cholesky_forward,
    products=small_matrices.products,
    small=small_matrices.cholesky,
    helpers=(copy_triangle,),
    refusal=_not_definite,
    example="np.linalg.cholesky(np.diag(x * x + 1.0))",
    examples=(
        "np.linalg.cholesky(x @ x.T + 3.0 * np.eye(len(x)))",
        "np.linalg.cholesky(x.T @ x + 3.0 * np.eye(len(x.T)), upper=True)",
        "np.linalg.cholesky(x[:, None, :] * x[:, :, None] + np.eye(len(x.T)))",
    ),
    complex_example="np.linalg.cholesky(np.diag(x * x + 1.0) + 0.2j * (x - x[:, None]))",
    complex_examples=(
        "np.linalg.cholesky((x + 0.5j) @ np.conj(x + 0.5j).T + 3.0 * np.eye(len(x)), upper=True)",
        "np.linalg.cholesky((x[:, None, :] + 1j) * (x[:, :, None] - 1j) + np.eye(len(x.T)))",
    ),
    awkward="the operand is taken for symmetric: its gradient is",
)
def cholesky(a, *, upper=False):
    """Compute the Cholesky factors of positive definite matrices: a = l @ lᵀ.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Symmetric (Hermitian) positive definite matrices.
    upper : bool, optional
        Whether the upper triangular factor lᵀ is returned.

    Returns
    -------
    Tensor or ndarray, shape (…, M, M)
        The lower triangular factor l.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not positive definite.

    Notes
    -----
    NumPy reads one triangle of `a`. For the derivative, `a` and the gradient are symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.sum(np.linalg.cholesky(a)))(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[0.1875, 0.125 ],
           [0.125 , 0.25  ]])
    """
    return np.linalg.cholesky(a, upper=upper)


# --- Triangular factors of any matrices, with rows exchanged: the LU factorization ----------------


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

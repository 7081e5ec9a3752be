"""Factors of positive definite matrices, under NumPy's names."""

from __future__ import annotations

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats
from ..codegen.intrinsics import f64s, free, helper, load_f64, load_i32, load_i64, malloc, memset
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import cholesky_reverse, compiled
from ..ops import small_matrices
from ..ops.table import PASSED
from .declaring import adjoint, declared, operation, transposed
from .triangular_equations import solve_triangular

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

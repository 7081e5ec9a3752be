"""Inverse matrices, pseudo-inverses, and products of several matrices, under NumPy's names."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float
from ..codegen.intrinsics import free, helper, load_f64, load_i32, load_i64, malloc, memcpy, memset
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import invert_factors
from ..ops import small_matrices
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import alike, function
from ..tensor.trace import fixed, lost_derivative
from ..tensor.values import (
    ComplexTensor,
    differentiates,
    dtype_of,
    is_complex,
    is_tensor,
    shape_of,
    tensor_of,
    value_of,
)
from .declaring import adjoint, declared
from .einsum import as_tensor
from .linear_algebra import dot, matmul
from .shapes import ravel, reshape, transpose
from .solving import (
    Factored,
    check_regular,
    inverted,
    prepared,
    read_factors,
    singular,
    solve,
    square,
)
from .symmetric_eigenvalues import is_finite, solve_singular, wanted_words
from .without_derivative import unrecorded

# --- Inverse matrices, and equations and inverses of arrays of more axes, under NumPy's names -----


# --- values in programs ---------------------------------------------------------------------------


@helper
def invert_lu(to, factors, call):
    """Write to `to`, where the factors may be, the inverse in C order."""
    matrix, pivots, n, kind = factors
    if matrix != to:
        memcpy(to, matrix, n * n * ITEM)
    lapack.enter_call(call, kind, n, n)
    rows, answer = call + lapack.ROWS, call + lapack.ANSWER
    if kind == lapack.FULL:
        invert_factors(to, pivots, n)
    else:
        none = call + lapack.NOT_TRANSPOSED
        lapack.trtri(call + lapack.LETTER, none, rows, to, rows, answer)
    lapack.turn(to, n)


def inverse_forward(frame, id, refs, task):
    """References: no parameters, the matrices, their factors, the output."""
    lu, out = load_i64(refs, 2 * REFERENCE_BYTES), load_i64(refs, 3 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    call = malloc(lapack.CALL_BYTES + n * 4)
    pivots = call + lapack.CALL_BYTES
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * ITEM
        at = lapack.batch_item(lu, 2, out, 2, k)
        factors, is_singular = read_factors(lu, at, n, to, pivots)
        if is_singular:
            lapack.refuse(frame, 1)
            break
        invert_lu(to, factors, call)
    free(call)


# --- inverses -------------------------------------------------------------------------------------


def inverse_shape(a, lu):
    """The shape of inverses; raises ValueError where NumPy does."""
    square("inv", a)
    if lu != (*a[:-2], a[-1] + 1, a[-1]):
        raise ValueError(f"inv does not accept matrices of shape {a} with factors of shape {lu}")
    return a


def inverse_vjp(np, g, out, _a, _lu):
    """With y = a⁻¹: ā = −yᴴ ȳ yᴴ (Giles 2008, section 2.2.3)."""
    turned = adjoint(np, out)
    return -np.matmul(np.matmul(turned, g), turned), None


def inverse_jvp(np, t, out, _a, _lu):
    """ẏ = −y ȧ y."""
    return None if t[0] is None else -np.matmul(np.matmul(out, t[0]), out)


@declared(
    vjp=inverse_vjp,
    jvp=inverse_jvp,
    shape=inverse_shape,
    value_kernel=inverse_forward,
    complex_kernel=inverse_forward,
    products=small_matrices.products,
    small=small_matrices.inverted,
    helpers=(Factored, read_factors, invert_lu),
    refusal=singular,
    complex_example="np.linalg.inv(np.diag(x * x + 1j) + 0.2j * x)",
    complex_examples=(
        "np.linalg.inv((x[:, None, :2] + 1j) * x[:, :2, None] + np.eye(len(x[0, :2])))",
    ),
    example="np.linalg.inv(np.diag(x * x + 1.0))",
    examples=(
        "np.linalg.inv(x @ x.T + 3.0 * np.eye(len(x)))",
        "np.linalg.inv(x[:, None, :2] * x[:, :2, None] + np.eye(len(x[0, :2])))"
        " if len(x) else np.linalg.inv(x @ x.T)",
    ),
)
def _inv(a, lu):
    """inv(a): the inverses of matrices, by their factors."""
    check_regular(lu)
    return inverted(lu)


inverse = _inv


@function("linalg.inv", complex=alike)
def inv(a):
    """Invert matrices.

    `solve(a, b)` costs less than `inv(a) @ b`, and rounds less.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.

    Returns
    -------
    Tensor or ndarray, shape (…, M, M)
        The inverses.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.trace(np.linalg.inv(a)))(
    ...     np.array([[2.0, 1.0], [1.0, 1.0]])
    ... ).round(6)
    array([[-2.,  3.],
           [ 3., -5.]])
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.inv, a)
    return inverse(*prepared("inv", np.linalg.inv, inverse_shape, a))


# --- arrays of more axes --------------------------------------------------------------------------


@function("linalg.tensorsolve", complex=alike)
def tensorsolve(a, b, axes=None):
    """Solve `tensordot(a, x, x.ndim) == b` for x.

    Parameters
    ----------
    a : array_like
        It has the axes of `b`, followed by those of the result.
    axes : tuple of ints, optional
        Axes of `a` that are moved to its end first.

    Raises
    ------
    numpy.linalg.LinAlgError
        If `a` is singular, or its axes do not match the number of elements of `b`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> a = tg.tensor([[[2.0, 0.0], [0.0, 4.0]]])
    >>> tg.tensorsolve(a.reshape(2, 1, 2), [[2.0], [2.0]])
    tensor([1. , 0.5])
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b) and not (is_complex(a) or is_complex(b)):
        return unrecorded(np.linalg.tensorsolve, a, b, axes=axes)
    a, b = (x if is_complex(x) else as_tensor("tensorsolve", x) for x in (a, b))
    if axes is not None:
        last = [k % len(shape_of(a)) for k in axes]
        a = transpose(a, [*[k for k in range(len(shape_of(a))) if k not in last], *last])
    own, whole = len(shape_of(b)), shape_of(a)
    # NumPy counts from the end: for an `a` with as many axes as `b` the result has its own shape.
    size, kept = math.prod(shape_of(b)), whole[-(len(whole) - own) :]
    if math.prod(whole) != size * size or size != math.prod(kept):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorsolve: a has shape {whole} and b {shape_of(b)}; the first {own} axes "
            f"of a must hold as many elements as the others, and as b"
        )
    return reshape(solve(reshape(a, (size, size)), ravel(b)), kept)


@function("linalg.tensorinv", complex=alike)
def tensorinv(a, ind=2):
    """Compute the inverse of `a` with respect to sums over its last axes.

    `tensordot(tensorinv(a, ind), b, ind)` solves `tensordot(a, x, x.ndim) == b`.

    Parameters
    ----------
    ind : int, optional
        The number of axes of `b`: the first axes of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the first `ind` axes and the others do not have the same number of elements.
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.tensorinv, a, ind=ind)
    if ind <= 0:
        raise ValueError(f"tapegrad.tensorinv: ind is {ind}; it must be positive")
    a = a if is_complex(a) else as_tensor("tensorinv", a)
    first, last = shape_of(a)[:ind], shape_of(a)[ind:]
    if math.prod(first) != math.prod(last):
        raise np.linalg.LinAlgError(
            f"tapegrad.tensorinv: a has shape {shape_of(a)}; its first {ind} axes must hold as "
            "many elements as the others"
        )
    size = math.prod(last)
    return reshape(inv(reshape(a, (size, size))), (*last, *first))


# --- Products of several matrices, and powers of one, under NumPy's names -------------------------


@function("linalg.matrix_power", complex=alike)
def matrix_power(a, n):
    """Raise square matrices to an integer power, by repeated products.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.
    n : int
        The power; a negative one is a power of the inverse, 0 gives the identity.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square, or is singular while `n` is negative.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.matrix_power(tg.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.matrix_power, a, n=n)
    a, power = a if is_complex(a) else as_tensor("matrix_power", a), _whole(n)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(
            f"tapegrad.matrix_power: the operand has shape {shape}; its last two axes must be equal"
        )
    if power == 0:
        return tensor_of(np.broadcast_to(np.eye(shape[-1], dtype=dtype_of(a)), shape).copy())
    square, made = inv(a) if power < 0 else a, None
    power = abs(power)
    if power == 3:
        return matmul(matmul(square, square), square)
    while power:
        power, odd = divmod(power, 2)
        if odd:
            made = square if made is None else matmul(made, square)
        if power:
            square = matmul(square, square)
    return made


def _whole(n) -> int:
    try:
        return operator.index(fixed(n, "matrix_power()"))
    except TypeError as error:
        raise TypeError(f"tapegrad.matrix_power: the power is {n!r}; it must be an integer") from (
            error
        )


@function("linalg.multi_dot", complex=alike)
def multi_dot(arrays, *, out=None):
    """Multiply matrices, in the order that needs the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of array_like
        The matrices; the first and the last may be vectors.

    Raises
    ------
    ValueError
        If there are fewer than two operands, or their sizes do not fit.
    numpy.linalg.LinAlgError
        If one of the others is not a matrix.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.multi_dot([tg.tensor([1.0, 2.0]), [[1.0, 0.0], [0.0, 3.0]], [1.0, 1.0]])
    tensor(7.)
    """
    parts = [unlisted(x) for x in arrays]
    if len(parts) < 2:
        raise ValueError(
            f"tapegrad.multi_dot: got {len(parts)} arrays; a product needs at least two"
        )
    if not differentiates(*parts) and not any(map(is_complex, parts)):
        made = unrecorded(_multi_dot, *parts)
    elif len(parts) == 2:
        made = dot(*parts)
    else:
        made = _product(parts)
    return written_to("multi_dot", made, out)


def _multi_dot(*arrays):
    return np.linalg.multi_dot(arrays)


def _product(parts):
    """The product of three or more."""
    parts = [x if is_complex(x) else as_tensor("multi_dot", x) for x in parts]
    row, column = len(shape_of(parts[0])) == 1, len(shape_of(parts[-1])) == 1
    if row:
        parts[0] = reshape(parts[0], (1, -1))
    if column:
        parts[-1] = reshape(parts[-1], (-1, 1))
    for k, x in enumerate(parts):
        if len(shape_of(x)) != 2:
            raise np.linalg.LinAlgError(
                f"tapegrad.multi_dot: array {k} has shape {shape_of(x)}; it must be a matrix, or a "
                "vector if it is the first or the last"
            )
    sizes = [shape_of(parts[0])[0], *[shape_of(x)[1] for x in parts]]
    splits = cheapest_splits(sizes)

    def between(first, last):
        if first == last:
            return parts[first]
        split = splits[first, last]
        return matmul(between(first, split), between(split + 1, last))

    made = between(0, len(parts) - 1)
    if row and column:
        return made[0, 0]
    return reshape(made, (-1,)) if row or column else made


def cheapest_splits(sizes) -> dict[tuple[int, int], int]:
    """After which factor each part of a chain is split (Cormen et al., matrix-chain order).

    Factor k has shape (sizes[k], sizes[k + 1]); a part is its first and its last factor.
    """
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            found = [
                (
                    cost[first, k]
                    + cost[k + 1, last]
                    + sizes[first] * sizes[k + 1] * sizes[last + 1],
                    k,
                )
                for k in range(first, last)
            ]
            cost[first, last], splits[first, last] = min(found)
    return splits


# --- Pseudo-inverses of matrices under NumPy's name -----------------------------------------------
# The derivative is that among matrices of the same rank (Golub and Pereyra 1973): singular values
# that are cut off count as zero.


# --- values in programs ---------------------------------------------------------------------------


@helper
def reflect_lower(matrix, n):
    """Replace the upper triangle of a square matrix in Fortran order by the lower one."""
    a = floats(matrix)
    for j in range(n):
        for i in range(j):
            a[j * n + i] = lapack.conjugate(a[i * n + j])
        a[j * n + j] = 0.5 * (a[j * n + j] + lapack.conjugate(a[j * n + j]))


@helper
def write_inverse(to, n, u, s, v, cutoff):
    """Write v s⁻¹ uᴴ of n rows in C order, without singular values up to the cutoff."""
    m, few = u.rows, v.rows
    memset(to, 0, m * n * ITEM)
    for j in range(n):
        line = floats(to + j * m * ITEM)
        for c in range(few):
            size, column = load_f64(s, c * 8), floats(u.data + c * m * ITEM)
            if size > cutoff:
                at = (j * few + c) * ITEM
                part = lapack.conjugate(load_float(v.data, at)) * (1.0 / size)
                for i in range(m):
                    line[i] += part * lapack.conjugate(column[i])


def pinv_forward(frame, id, refs, task):
    """References: `hermitian`, the matrices, the least singular values, the output."""
    hermitian = load_i64(load_i64(load_i64(refs, 0), ARRAY_DATA), 0) != 0
    a, least = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    m, n = lapack.size_along(a, 2), lapack.size_along(a, 1)
    few = min(m, n)
    count = lapack.batch_size(out, 2) if few > 0 else 0
    fixed = (m * n + (m + n) * few + 1) * ITEM + few * 8
    matrix = malloc(fixed + 8 * few * 4 + lapack.CALL_BYTES + 24)
    u = lapack.Columns(matrix + m * n * ITEM, m)
    v = lapack.Columns(u.data + m * few * ITEM, few)
    asked, call = v.data + n * few * ITEM, matrix + fixed
    s = asked + ITEM
    counts, words = call + lapack.CALL_BYTES + 24, 4 * few * few + 7 * few + m + n
    if few > 0:
        lapack.enter_call(call, ord("S"), m, n)
        solve_singular(call, matrix, u, s, v, lapack.Workspace(asked, -1, counts))
        words = wanted_words(asked, words)
    work = malloc(words * ITEM + 8)
    for k in range(count):
        to = load_i64(out, ARRAY_DATA) + k * m * n * ITEM
        lapack.copy_turned(matrix, lapack.batch_item(a, 2, out, 2, k), a, 2)
        if hermitian:
            reflect_lower(matrix, n)
        lapack.enter_call(call, ord("S"), m, n)
        solve_singular(call, matrix, u, s, v, lapack.Workspace(work, words, counts))
        if load_i32(call, lapack.ANSWER) != 0:
            lapack.refuse(frame, 1)
            break
        cutoff = load_f64(lapack.batch_item(least, 0, out, 2, k), 0) * load_f64(s, 0)
        write_inverse(to, n, u, s, v, cutoff)
    free(work)
    free(matrix)


# --- the pseudo-inverse ---------------------------------------------------------------------------


def _turned_shape(a, rcond, hermitian=False):
    """The shape of a pseudo-inverse; raises ValueError where NumPy does."""
    if len(a) < 2 or (hermitian and a[-1] != a[-2]):
        raise ValueError(f"pinv does not accept an operand of shape {a}")
    if np.broadcast_shapes(rcond, stack := a[:-2] or (1,)) != stack:
        raise ValueError(f"pinv does not accept rcond of shape {rcond} for matrices of shape {a}")
    return (*a[:-2], a[-1], a[-2])


def _not_converged(answer):
    return np.linalg.LinAlgError("SVD did not converge")


def whole(np, a):
    """Symmetric matrices from their lower triangles."""
    return np.tril(a) + adjoint(np, np.tril(a, -1))


def symmetric(np, a):
    """The symmetric part of matrices."""
    return 0.5 * (a + adjoint(np, a))


def pinv_vjp(np, g, out, a, _rcond, hermitian=False):
    """With p = a⁺: ā = −pᵀ p̄ pᵀ + (1 − a p) p̄ᵀ p pᵀ + pᵀ p p̄ᵀ (1 − p a)."""
    if hermitian:
        return symmetric(np, _pinv_adjoint(np, g, out, whole(np, a))), None
    if a.shape[-2] >= a.shape[-1]:
        return _pinv_adjoint(np, g, out, a), None
    return adjoint(np, _pinv_adjoint(np, *[adjoint(np, x) for x in (g, out, a)])), None


def _pinv_adjoint(np, g, p, a):
    """For tall matrices: no product here is larger than `a`, except for (M, N) with (N, N)."""
    turned, back = adjoint(np, p), adjoint(np, g)
    outside = back - np.matmul(a, np.matmul(p, back))
    inside = back - np.matmul(back, np.matmul(p, a))
    both = np.matmul(p, inside) - np.matmul(g, turned)
    return np.matmul(outside, np.matmul(p, turned)) + np.matmul(turned, both)


def pinv_jvp(np, t, out, a, _rcond, hermitian=False):
    """ṗ = −p ȧ p + p pᵀ ȧᵀ (1 − a p) + (1 − p a) ȧᵀ pᵀ p."""
    moved, p, turned = t[0], out, adjoint(np, out)
    if hermitian:
        a, moved = whole(np, a), symmetric(np, moved)
    back = adjoint(np, moved)
    first, last = np.matmul(turned, back), np.matmul(back, turned)
    right = first - np.matmul(np.matmul(first, a), p)
    left = last - np.matmul(p, np.matmul(a, last))
    return np.matmul(p, right) + np.matmul(left, p) - np.matmul(p, np.matmul(moved, p))


@declared(
    vjp=pinv_vjp,
    jvp=pinv_jvp,
    shape=_turned_shape,
    value_kernel=pinv_forward,
    complex_kernel=pinv_forward,
    helpers=(wanted_words, is_finite, solve_singular, reflect_lower, write_inverse),
    refusal=_not_converged,
    example="np.linalg.pinv(np.diag(x * x + 1.0) + x[:, None])",
    examples=(
        "np.linalg.pinv(x + 2.0 * np.eye(*x.shape))",
        "np.linalg.pinv(x[:, :2] + 2.0 * np.eye(*x[:, :2].shape))",
        "np.linalg.pinv(x @ x.T + np.eye(len(x)), hermitian=True)",
        "np.linalg.pinv(x[:, None, :] * x[:, :, None], 1e-5)",
    ),
    domain=(0.6, 1.4),
    awkward="the derivative among matrices of the same rank",
)
def _pinv(a, rcond, *, hermitian=False):
    """The pseudo-inverse of matrices."""
    rcond = rcond.real if a.ndim > 2 else rcond.real.reshape(())
    return np.linalg.pinv(a, rcond, hermitian)


pseudo_inverse = _pinv


@function("linalg.pinv", complex=alike)
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    """Compute the pseudo-inverses of matrices.

    Parameters
    ----------
    a : array_like, shape (…, M, N)
        Matrices.
    rtol : number, optional
        Another name of `rcond`.

    Returns
    -------
    Tensor or ndarray, shape (…, N, M)
        The pseudo-inverses.

    Notes
    -----
    The derivative is that among matrices of the same rank: singular values that count as 0 stay 0.
    Near a matrix of less than full rank there are matrices with far larger pseudo-inverses.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.sum(np.linalg.pinv(a)))(np.array([[2.0, 0.0], [0.0, 0.0]]))
    array([[-0.25,  0.25],
           [ 0.25,  0.  ]])
    """
    a = unlisted(a)
    chosen = {} if rtol is np._NoValue else {"rtol": rtol}
    if not is_tensor(a) and type(a) is not ComplexTensor:
        return np.linalg.pinv(a, rcond, hermitian, **chosen)
    if differentiates(rcond) or differentiates(rtol):
        raise lost_derivative(
            "tapegrad.pinv: rcond is recorded; the result is piecewise constant in it, so use "
            "detach()",
            (a, rcond, rtol),
        )
    if rcond is not None and chosen:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if len(shape_of(a)) < 2:
        raise np.linalg.LinAlgError(
            f"tapegrad.pinv: the operand has shape {shape_of(a)}; it must be a matrix or a stack"
        )
    return _pinv(a, _cutoff(a, rcond, rtol), hermitian=bool(hermitian))


def _cutoff(a, rcond, rtol):
    """The ratio of the least singular value to the largest, as in NumPy: an array with an axis.

    Its dtype leaves that of the result to the matrix.
    """
    if rcond is None and rtol is not np._NoValue:
        rcond = rtol if rtol is not None else max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
    found = np.asarray(value_of(1e-15 if rcond is None else rcond), np.float64)
    if found.ndim > len(shape_of(a)) - 2:
        raise ValueError(
            f"tapegrad.pinv: rcond has shape {found.shape} with an operand of shape {shape_of(a)}; "
            "give a number, or one for each matrix of a stack"
        )
    is_single = dtype_of(a) in (np.float32, np.complex64)
    return np.atleast_1d(found).astype(np.float32 if is_single else np.float64)

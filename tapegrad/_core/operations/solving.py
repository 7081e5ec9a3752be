"""Linear equations under NumPy's names, and the factors of matrices that these share."""

from __future__ import annotations

import functools
import importlib
from typing import NamedTuple

import numpy as np

from ..codegen import lapack
from ..codegen.elements import ITEM, floats, load_float, store_float
from ..codegen.intrinsics import (
    f64s,
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    store_i32,
    store_u8,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.shared_kernels import compiled
from ..ops import small_matrices
from ..ops.table import PASSED
from ..tensor import runtime as rt
from ..tensor.copies import empty, in_dtype, unlisted
from ..tensor.registry import alike, function
from ..tensor.runtime import silence
from ..tensor.trace import refuse
from ..tensor.values import (
    array_of,
    differentiates,
    is_complex,
    is_recorded,
    is_recorded_complex,
    value_of,
)
from .declaring import Own, adjoint, declared, joint_batch, ready
from .einsum import as_tensor, common_dtype
from .without_derivative import unrecorded

# --------------------------------------------------------------------------------------------------
# Factors of matrices with pivots, which solutions, inverses and determinants of a matrix share.
# The factors of a matrix (M, M) are a matrix (M + 1, M). Its first M rows are the transpose of the
# result of LAPACK's getrf: U with its diagonal, and L below it without. The last row is the pivots,
# from 0 on: the row with which each row was exchanged. Programs keep a triangular matrix unchanged;
# then the last row says which triangle.


#: The contents of the last row for a matrix that is its own factor.
LOWER_MARK, UPPER_MARK = -1.0, -2.0
#: Columns of memory that an inverse is computed with.
WORK = 32
_LETTERS = {"d": "d", "f": "s", "D": "z", "F": "c"}


@functools.cache
def routine(name: str, char: str):
    """LAPACK's routine for a dtype, by the character of that."""
    return getattr(importlib.import_module("scipy.linalg.lapack"), _LETTERS[char] + name)


def of_matrix(factors):
    """The arguments of LAPACK routines for the factors of one matrix: the matrix, and the pivots.

    Pivots that are none exchange nothing.
    """
    matrix, pivots, own = factors[:-1].T, factors[-1].real, _places(factors.shape[-1])
    if pivots[0] == LOWER_MARK:  # with the diagonal d its factors are a d⁻¹ and d
        with silence():
            diagonal = np.diagonal(matrix)
            matrix = np.asfortranarray(np.tril(matrix / diagonal, -1) + np.diag(diagonal))
    return matrix, np.where(pivots < len(own), np.maximum(pivots, own), own).astype(np.intc)


@functools.cache
def _places(n: int):
    """The numbers of rows, a read-only array."""
    return np.arange(n)


def diagonals(factors):
    """The diagonals of U, of all matrices."""
    return np.diagonal(factors, axis1=-2, axis2=-1)


def check_regular(factors) -> None:
    """Raise NumPy's error if a matrix is singular."""
    if not np.all(diagonals(factors)):
        raise np.linalg.LinAlgError("Singular matrix")


def inverted(factors):
    """The inverses of all matrices; of a singular one anything. One alone has Fortran order."""
    n, shape = factors.shape[-1], factors.shape[:-2]
    if n and not shape:
        return _inverse(factors)
    made = np.empty((*shape, n, n), factors.dtype)
    for at in np.ndindex(shape if n else (0,)):
        made[at] = _inverse(factors[at])
    return made


def _inverse(factors):
    """The inverse of one matrix, in Fortran order."""
    matrix, pivots = of_matrix(factors)
    if factors.dtype != np.float64:
        invert = routine("getri", factors.dtype.char)
        return invert(matrix, pivots, lwork=WORK * len(matrix))[0]
    made, pivots = empty(matrix.shape).T, pivots + np.intc(1)
    made[...] = matrix
    compiled("invert_factors")(made.ctypes.data, pivots.ctypes.data, len(made))
    return made


def signs_and_logarithms(factors):
    """The signs of the determinants of all matrices, and the logarithms of their sizes."""
    diagonal = diagonals(factors)
    size = np.abs(diagonal)
    exchanged = factors[..., -1, :].real > np.arange(factors.shape[-1])
    with silence():
        signs = np.sign(diagonal) if factors.dtype.kind != "c" else diagonal / size
        sign = np.prod(signs, axis=-1) * np.where(np.sum(exchanged, axis=-1) % 2, -1.0, 1.0)
        logarithm = np.sum(np.log(size), axis=-1)
    zero = np.any(size == 0.0, axis=-1)
    sign = np.where(zero, 0.0, sign).astype(factors.dtype)
    return sign, np.where(zero, -np.inf, logarithm).astype(size.dtype)


def singular(answer):
    return np.linalg.LinAlgError("Singular matrix")


# --- values in programs ---------------------------------------------------------------------------


class Factored(NamedTuple):
    """Factors with pivots of a matrix of n rows in Fortran order, and its kind for LAPACK."""

    matrix: int
    pivots: int
    n: int
    kind: int


@helper
def factor_lu(matrix, pivots, n, call):
    """Factor a matrix in Fortran order in place; its kind: a triangular one is its own factor."""
    kind = lapack.triangle_of(matrix, n)
    if kind == lapack.FULL:
        lapack.enter_call(call, 0, n, n)
        rows = call + lapack.ROWS
        lapack.getrf(rows, rows, matrix, rows, pivots, call + lapack.ANSWER)
    return kind


def lu_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    call = malloc(lapack.CALL_BYTES + n * 4)
    pivots = call + lapack.CALL_BYTES
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * (n + 1) * n * ITEM
        marks = floats(to + n * n * ITEM)
        lapack.copy_turned(to, lapack.batch_item(a, 2, out, 2, k), a, 2)
        kind = factor_lu(to, pivots, n, call)
        if kind == lapack.FULL:
            for i in range(n):
                marks[i] = float(load_i32(pivots, i * 4) - 1)
        else:
            for i in range(n):
                marks[i] = -1.0 if kind == lapack.LOWER else -2.0
    free(call)


@helper
def read_factors(factors, at, n, copied, pivots):
    """The factors of one matrix, and whether it is singular.

    It is `copied` unless it has LAPACK's layout. Invalid pivots exchange nothing.
    """
    step, row = lapack.stride_along(factors, 1), lapack.stride_along(factors, 2)
    kind, is_singular, matrix, apart = lapack.FULL, False, at, lapack.parts_stride(factors)
    if step != ITEM or row != n * ITEM or not lapack.is_whole(apart):
        matrix = copied
        for i in range(n):
            for j in range(n):
                number = lapack.load_number(at + i * row + j * step, apart)
                store_float(copied, (i * n + j) * ITEM, number)
    for i in range(n):
        mark = load_f64(at, n * row + i * step)
        if mark == -1.0 or mark == -2.0:
            kind = lapack.LOWER if mark == -1.0 else lapack.UPPER
        place = int(mark) + 1 if i < mark < n else i + 1
        store_i32(pivots, i * 4, place)
        is_singular = is_singular or load_float(matrix, (n + 1) * i * ITEM) == 0.0
    return Factored(matrix, pivots, n, kind), is_singular


# --- the operation --------------------------------------------------------------------------------


def square(name: str, shape) -> None:
    """Raise ValueError unless an operand has matrices with as many rows as columns."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{name} does not accept an operand of shape {shape}")


def _factors_shape(a):
    square("lu_factors", a)
    return (*a[:-2], a[-1] + 1, a[-1])


def _no_adjoint(np, g, _out, _a):
    return (None,)


def factored(a):
    """The factors of matrices."""
    n = a.shape[-1]
    made = empty((*a.shape[:-2], n + 1, n), a.dtype)
    factor = routine("getrf", a.dtype.char)
    for at in np.ndindex(a.shape[:-2] if n else (0,)):
        matrix = made[at][:n].T
        matrix[...] = a[at]
        made[at][n] = factor(matrix, overwrite_a=True)[1]
    return made


@declared(
    vjp=_no_adjoint,
    shape=_factors_shape,
    value_kernel=lu_forward,
    complex_kernel=lu_forward,
    helpers=(factor_lu,),
    constant=True,
    products=small_matrices.products,
    example="np.linalg.solve(np.diag(x * x + 3.0), x)",
)
def lu_factors(a):
    """The factors of matrices with pivots, for operations that have a derivative."""
    return factored(a)


def check_forward(frame, id, refs, task):
    """References: no parameters, diagonals of factors, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    for i in range(lapack.size_along(a, 1)):
        if load_f64(load_i64(a, ARRAY_DATA), i * lapack.stride_along(a, 1)) == 0.0:
            lapack.refuse(frame, 1)
    f64s(load_i64(out, ARRAY_DATA))[0] = 0.0


def _no_axes(_diagonals):
    return ()


@declared(
    vjp=_no_adjoint,
    shape=_no_axes,
    value_kernel=check_forward,
    constant=True,
    refusal=singular,
    table=PASSED,
)
def _check_regular(a):
    """Refuses diagonals of factors with a 0, which programs have written out."""
    raise AssertionError("programs call its kernel")


def prepared(name: str, numpy_function, shape, a, *others):
    """Operands of one dtype, the first of them square matrices, and its factors.

    Operands that NumPy's function refuses raise its error: `shape` gives the shape of the result,
    or raises ValueError. The factors are a row of programs, which share it; elsewhere they are a
    constant, which a sweep frees.
    """
    are_ready = rt.trace() is None and ready((a, *others))
    operands = are_ready or [x if is_complex(x) else as_tensor(name, x) for x in (a, *others)]
    arrays = [array_of(x) for x in operands]
    shapes = [x.shape for x in arrays]
    if "e" in [x.dtype.char for x in arrays]:
        numpy_function(*arrays)  # raises
    try:
        shape(*shapes, _factors_shape(shapes[0]))
    except ValueError:
        refuse(f"{name} does not accept operands of these shapes")
        numpy_function(*arrays)
        raise
    if are_ready:
        return *operands, lu_factors(arrays[0]).view(Own)
    if any(map(is_complex, operands)):
        dtype = np.result_type(*arrays, np.complex64)
        if dtype.char not in _LETTERS:
            raise TypeError(
                f"tapegrad.{name}: the result has dtype {dtype}; convert the operands to complex128"
            )
    else:
        dtype = common_dtype(name, *operands)
        operands = [_in_dtype(x, dtype) for x in operands]
    a = operands[0]
    if rt.trace() is not None and (is_recorded(a) or is_recorded_complex(a)):
        return *operands, lu_factors(a)
    factors = lu_factors(np.asarray(array_of(a), dtype).view(np.ndarray))
    return *operands, factors if dtype.kind == "c" else factors.view(Own)


def _in_dtype(x, dtype):
    """An operand in the dtype of a row, a constant as a copy."""
    if is_recorded(x):
        return in_dtype(x, dtype)
    return np.array(value_of(x), dtype, order="C").view(Own)


# --- Linear equations, under NumPy's names --------------------------------------------------------


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

"""Functions of matrices: exponential, logarithm, square root, sign, powers, sines."""

from __future__ import annotations

import math

import numpy as np

from ..codegen import lapack
from ..codegen.intrinsics import (
    f64s,
    free,
    helper,
    load_f64,
    load_i64,
    malloc,
    memset,
    store_f64,
    unaliased,
)
from ..codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from ..codegen.matrix_products import blas_dgemm
from ..tensor.copies import unlisted
from ..tensor.values import combined, imag_part, is_complex, is_tensor, real_part, shape_of
from .declaring import adjoint, declared
from .einsum import as_tensor
from .solving import Factored, factor_lu, solve_lu
from .sylvester import by_matrix, check_square, inexact, of_scipy, solve_sylvester

# --------------------------------------------------------------------------------------------------
# Exponentials of matrices in programs: scaling, Padé's approximant of degree 13, and squaring.
# The algorithm is that of Al-Mohy and Higham, A New Scaling and Squaring Algorithm for the Matrix
# Exponential (2009), with the highest of its degrees alone. Everything is a polynomial of one
# matrix, so that products commute, and C order does for LAPACK as well as Fortran order.


@helper
def few_products(a, b, to, n):
    """to = a @ b, rows of numbers."""
    unaliased()
    for i in range(n):
        for j in range(n):
            to[i * n + j] = 0.0
        for k in range(n):
            factor = a[i * n + k]
            for j in range(n):
                to[i * n + j] += factor * b[k * n + j]


@helper
def multiply(a, b, to, n, call):
    """to = a @ b, of matrices that commute; BLAS computes products of more rows."""
    if n <= 24:
        few_products(f64s(a), f64s(b), f64s(to), n)
        return
    lapack.enter_call(call, 0, n, n)
    one, none = call + lapack.CALL_BYTES, call + lapack.CALL_BYTES + 8
    store_f64(one, 0, 1.0)
    store_f64(none, 0, 0.0)
    size, kept = call + lapack.ROWS, call + lapack.NOT_TRANSPOSED
    blas_dgemm(kept, kept, size, size, size, one, a, size, b, size, none, to, size)


@helper
def norm_of(matrix, n):
    """The largest sum of magnitudes of a row; NaN if an element is."""
    a, largest = f64s(matrix), 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += np.absolute(a[i * n + j])
        if not total <= largest:
            largest = total
    return largest


@helper
def norm_of_power(matrix, n, power, x, y, factor):
    """That of a power of the matrix of magnitudes times a factor, by products with vectors."""
    a, largest = f64s(matrix), 0.0
    for i in range(n):
        x[i] = 1.0
    for _ in range(power):
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += factor * np.absolute(a[i * n + j]) * x[j]
        for i in range(n):
            x[i] = y[i]
    for i in range(n):
        if not x[i] <= largest:
            largest = x[i]
    return largest


@helper
def halvings(a, fourth, sixth, n, vectors):
    """How often a is halved: by norms of powers, and more if it is far from normal; or −1.

    The approximant is exact where the roots of those norms are at most 5.37, and its leading error,
    |a|²⁷ / 1.13e35, is less than 2⁻⁵³ |a|.
    """
    norm, four, six = norm_of(a, n), norm_of(fourth, n), norm_of(sixth, n)
    if not norm < 1e300 or not four < 1e300 or not six < 1e300:
        return -1
    count, square = 0, 28.857528259079682
    while four > square * square or six > square * square * square:
        four, six, count = four / 16.0, six / 64.0, count + 1
    if norm == 0.0:
        return count
    half = np.power(0.5, count)
    left_out = norm_of_power(a, n, 27, f64s(vectors), f64s(vectors + n * 8), half) / (norm * half)
    while left_out > 1.2573361863446166e19 and left_out < 1e300:
        left_out, count = left_out / 67108864.0, count + 1
    return count


@helper
def scale(matrix, n, factor):
    a = f64s(matrix)
    for i in range(n * n):
        a[i] *= factor


@helper
def combine(to, a, n, coefficients):
    """to += c6 a⁶ + c4 a⁴ + c2 a² + c0; the powers follow a."""
    c6, c4, c2, c0 = coefficients
    size = n * n * 8
    t, x, y, z = f64s(to), f64s(a + size), f64s(a + 2 * size), f64s(a + 3 * size)
    for i in range(n * n):
        t[i] += c6 * z[i] + c4 * y[i] + c2 * x[i]
    for i in range(n):
        t[i * n + i] += c0


@helper
def enter_fraction(a, n, call):
    """The odd part u and the even part v of the numerator: they are left in matrices 4 and 5."""
    size = n * n * 8
    a6 = a + 3 * size
    u, v, spare = a + 4 * size, a + 5 * size, a + 6 * size
    memset(u, 0, size)
    memset(spare, 0, size)
    combine(u, a, n, (1.0, 16380.0, 40840800.0, 0.0))
    multiply(u, a6, spare, n, call)
    combine(spare, a, n, (33522128640.0, 10559470521600.0, 1187353796428800.0, 3.238237626624e16))
    multiply(a, spare, u, n, call)
    memset(spare, 0, size)
    combine(spare, a, n, (182.0, 960960.0, 1323241920.0, 0.0))
    multiply(spare, a6, v, n, call)
    combine(v, a, n, (670442572800.0, 129060195264000.0, 7771770303897600.0, 6.476475253248e16))


@helper
def exponentiate(a, n, call, pivots):
    """Replace the matrix at `a` by its exponential; returns whether that was possible."""
    size = n * n * 8
    a2, a4, a6 = a + size, a + 2 * size, a + 3 * size
    multiply(a, a, a2, n, call)
    multiply(a2, a2, a4, n, call)
    multiply(a2, a4, a6, n, call)
    count = halvings(a, a4, a6, n, a + 4 * size)
    if count < 0:
        return False
    half = np.power(0.5, count)
    scale(a, n, half)
    scale(a2, n, half * half)
    fourth = half * half * (half * half)
    scale(a4, n, fourth)
    scale(a6, n, fourth * half * half)
    enter_fraction(a, n, call)
    u, v = f64s(a + 4 * size), f64s(a + 5 * size)
    for i in range(n * n):
        odd, even = u[i], v[i]
        u[i], v[i] = even + odd, even - odd
    factors = Factored(a + 5 * size, pivots, n, factor_lu(a + 5 * size, pivots, n, call))
    solve_lu(factors, a + 4 * size, n, False, call)
    found, other = a + 4 * size, a
    for _ in range(count):
        multiply(found, found, other, n, call)
        found, other = other, found
    copy_numbers(found, a, n * n)
    return True


@helper
def copy_numbers(source, to, count):
    if source != to:
        x, y = f64s(source), f64s(to)
        for i in range(count):
            y[i] = x[i]


@helper
def copy_rows(array, at, to, n, width, factor):
    """A matrix of an array, times a number, to where a row has a width in numbers."""
    down, along = lapack.stride_along(array, 2), lapack.stride_along(array, 1)
    for i in range(n):
        line = f64s(to + i * width * 8)
        for j in range(n):
            line[j] = factor * load_f64(at, i * down + j * along)


@helper
def work_bytes(n):
    """Memory of a call: powers 1, 2, 4, 6, numerator, denominator, scratch; vectors, pivots."""
    return (7 * n * n + 2 * n) * 8 + lapack.CALL_BYTES + 16 + n * 4


def expm_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the output."""
    a, out = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    work = malloc(work_bytes(n))
    call = work + (7 * n * n + 2 * n) * 8
    pivots = call + lapack.CALL_BYTES + 16
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = load_i64(out, ARRAY_DATA) + k * n * n * 8
        copy_rows(a, lapack.batch_item(a, 2, out, 2, k), work, n, n, 1.0)
        if not exponentiate(work, n, call, pivots):
            fill(work, n * n)
        copy_numbers(work, to, n * n)
    free(work)


@helper
def fill(to, count):
    """NaN everywhere."""
    x = f64s(to)
    for i in range(count):
        x[i] = float("nan")


@helper
def enter_block(work, a, e, at_a, at_e, n):
    """[[a, 0], [c·e, a]] with c so that both are of one size; c, 0 where e is.

    LAPACK, for which the order is Fortran's, exchanges no rows of the one block with the other's.
    """
    memset(work, 0, 4 * n * n * 8)
    spare = work + 4 * n * n * 8
    copy_rows(a, at_a, spare, n, n, 1.0)
    norm = norm_of(spare, n)
    copy_rows(e, at_e, spare, n, n, 1.0)
    other = norm_of(spare, n)
    if other == 0.0:
        return 0.0
    factor = (norm if norm > 0.0 else 1.0) / other
    copy_rows(a, at_a, work, n, 2 * n, 1.0)
    copy_rows(a, at_a, work + (2 * n * n + n) * 8, n, 2 * n, 1.0)
    copy_rows(e, at_e, work + 2 * n * n * 8, n, 2 * n, factor)
    return factor


def expm_frechet_forward(frame, id, refs, task):
    """References: no parameters, the matrices, the directions, the output."""
    a, e = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    out = load_i64(refs, 3 * REFERENCE_BYTES)
    n = lapack.size_along(out, 1)
    wide = 2 * n
    work = malloc(work_bytes(wide))
    call = work + (7 * wide * wide + 2 * wide) * 8
    pivots = call + lapack.CALL_BYTES + 16
    for k in range(lapack.batch_size(out, 2) if n > 0 else 0):
        to = f64s(load_i64(out, ARRAY_DATA) + k * n * n * 8)
        at_a, at_e = lapack.batch_item(a, 2, out, 2, k), lapack.batch_item(e, 2, out, 2, k)
        factor = enter_block(work, a, e, at_a, at_e, n)
        if factor != 0.0 and not exponentiate(work, wide, call, pivots):
            fill(work, wide * wide)
        found = f64s(work)
        for i in range(n):
            for j in range(n):
                to[i * n + j] = found[(n + i) * wide + j] / factor if factor != 0.0 else 0.0
    free(work)


HELPERS = (
    *(Factored, factor_lu, solve_lu),
    *(few_products, multiply, norm_of, norm_of_power, halvings, scale, combine, enter_fraction),
    *(exponentiate, copy_numbers, copy_rows, work_bytes, fill, enter_block),
)


# --------------------------------------------------------------------------------------------------
# Functions of matrices: exponential, logarithm, square root, sign, powers, sines and cosines.
# The derivative L(a, e) of a function f at a along e is the upper right block of f of the block
# matrix [[a, e], [0, a]] (Higham, Functions of Matrices, 2008, theorem 3.6); its adjoint takes g to
# L(a, gᴴ)ᴴ, on branch cuts too. Equal eigenvalues, and matrices without a basis of eigenvectors,
# are nothing special.


# --- derivatives ----------------------------------------------------------------------------------


def block_of(np, a, e):
    """[[a, e], [0, a]]; one of the two may have more axes in front."""
    shape = np.broadcast_shapes(a.shape, e.shape)
    a, e = np.broadcast_to(a, shape), np.broadcast_to(e, shape)
    lower = np.concatenate([np.zeros(shape, a.dtype), a], -1)
    return np.concatenate([np.concatenate([a, e], -1), lower], -2)


def upper_right(x):
    """The block of a block matrix of two by two."""
    half = x.shape[-1] // 2
    return x[..., :half, half:]


def _along_both(np, frechet, a, e, t, s):
    """The change of L(a, e) for changes of a along t and of e along s."""
    return upper_right(frechet(block_of(np, a, e), block_of(np, t, s)))


def rules_of(frechet):
    """The rules of a function whose derivative at a along e is `frechet()(a, e)`."""

    def vjp(np, g, _out, a):
        return (adjoint(np, frechet()(a, adjoint(np, g))),)

    def jvp(np, t, _out, a):
        return frechet()(a, t[0])

    return {"vjp": vjp, "jvp": jvp}


def rules_of_frechet(frechet):
    """The rules of that derivative."""

    def vjp(np, g, _out, a, e):
        zero, back = np.zeros(g.shape, g.dtype), adjoint(np, g)
        return (
            lambda: adjoint(np, _along_both(np, frechet(), a, e, back, zero)),
            lambda: adjoint(np, frechet()(a, back)),
        )

    def jvp(np, t, _out, a, e):
        if t[0] is None:
            return frechet()(a, t[1])
        along = np.zeros(t[0].shape, t[0].dtype) if t[1] is None else t[1]
        return _along_both(np, frechet(), a, e, t[0], along)

    return {"vjp": vjp, "jvp": jvp}


# --- exponential ----------------------------------------------------------------------------------

_SQUARES = ("0.2 * x @ x.T", "x[:, None, :] * np.cos(x)[:, :, None] - np.eye(len(x.T))")


def _shape(a):
    if len(a) < 2 or a[-1] != a[-2]:
        raise ValueError(f"expm does not accept an operand of shape {a}")
    return a


def _shape_of_both(a, e):
    if _shape(a)[-2:] != _shape(e)[-2:]:
        raise ValueError(f"expm_frechet does not accept operands of shapes {a} and {e}")
    return np.broadcast_shapes(a, e)


@declared(
    **rules_of(lambda: expm_frechet),
    shape=_shape,
    value_kernel=expm_forward,
    helpers=HELPERS,
    example="tg.scipy.linalg.expm(x[:, None] * (x - 1.0))",
    examples=tuple(f"tg.scipy.linalg.expm({one})" for one in _SQUARES),
    complex_example="tg.scipy.linalg.expm(1j * x[:, None] * (x - 1.0))",
    complex_examples=("tg.scipy.linalg.expm(np.stack([x @ x.T, 1j * x @ x.T]))",),
)
def expm(a):
    """The exponentials of matrices."""
    return of_scipy("expm")(a)


#: Complex matrices of more rows are not worth a real one of twice as many.
_FEW_ROWS = 12


def small_complex(z):
    """The exponential of complex matrices: for few rows by real ones, which programs compile."""
    n = z.shape[-1] if len(z.shape) > 1 else 0
    if n > _FEW_ROWS or z.shape[-2:] != (n, n):
        return expm(z)
    x, y = real_part(z), imag_part(z)
    upper, lower = np.concatenate([x, -y], -1), np.concatenate([y, x], -1)
    found = expm(np.concatenate([upper, lower], -2))
    return combined(found[..., :n, :n], found[..., n:, :n])


def _expm_frechet(a, e):
    check_square("expm_frechet", A=a, E=e)
    if a.shape != e.shape:
        raise ValueError(
            f"tapegrad.scipy.linalg.expm_frechet: A has shape {a.shape} and E {e.shape}; they "
            "must be equal"
        )
    dtype = np.result_type(a, e, np.float64)
    if not np.all(np.isfinite(a)) or not a.size:
        return np.full(a.shape, np.nan, dtype)
    a, e = np.asarray(a, dtype), np.asarray(e, dtype)
    found = of_scipy("expm_frechet")(a, e, compute_expm=False, check_finite=False)
    return np.asarray(found, dtype)


@declared(
    **rules_of_frechet(lambda: expm_frechet),
    shape=_shape_of_both,
    value_kernel=expm_frechet_forward,
    helpers=HELPERS,
    example="tg.scipy.linalg.expm_frechet(0.3 * x[:, None] * (x - 1.0), np.diag(x))[1]",
    examples=(
        "tg.scipy.linalg.expm_frechet(0.2 * x @ x.T, np.cos(x @ x.T), compute_expm=False)",
        "tg.scipy.linalg.expm_frechet(np.eye(len(x)), np.stack([x @ x.T, np.cos(x @ x.T)]),"
        " compute_expm=False) if x.size else"
        " tg.scipy.linalg.expm_frechet(x @ x.T, x @ x.T, compute_expm=False)",
    ),
    complex_example="tg.scipy.linalg.expm_frechet(1j * x[:, None] * x, np.diag(x))[1]",
)
def expm_frechet(a, e):
    """The derivatives of the exponentials of matrices a along e."""
    return by_matrix(_expm_frechet, a, e)


# --- square root, sign ----------------------------------------------------------------------------


class ComplexResult(ValueError):
    """A function of a real matrix is complex."""


def real_result(name: str, a, found):
    """SciPy's result; for real matrices it must be real."""
    if np.iscomplexobj(found) and not np.iscomplexobj(a):
        raise ComplexResult(
            f"tapegrad.scipy.linalg.{name}: the result for a real matrix is complex, since an "
            "eigenvalue is negative or 0; give a complex matrix"
        )
    return found


def _has_real_root(a) -> bool:
    """Whether the square root of a real matrix is real; SciPy before 1.16 gives complex ones."""
    values = np.linalg.eigvals(a)
    return bool(np.all((values.imag != 0.0) | (values.real > 0.0)))


def root_of(a, name="sqrtm"):
    """The square root of one matrix."""
    check_square("sqrtm", A=a)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    whole = np.iscomplexobj(a) and not np.any(a.imag)
    found = of_scipy("sqrtm")(a.real if whole else a)
    if not np.iscomplexobj(a) and np.iscomplexobj(found) and _has_real_root(a):
        return found.real
    return np.asarray(found, inexact(a)) if whole else real_result(name, a, found)


def of_any(function, a):
    """A function of matrices, as that of complex ones where it is complex for real ones."""
    try:
        return function(a)
    except ComplexResult:
        return function(unlisted(a) + 0j)


def sqrtm_vjp(np, g, out, _a):
    """With s² = a: ā of sᴴ ā + ā sᴴ = s̄."""
    back = adjoint(np, out)
    return (solve_sylvester(back, back, g),)


def sqrtm_jvp(np, t, out, _a):
    """s ṡ + ṡ s = ȧ."""
    return solve_sylvester(out, out, t[0])


@declared(
    vjp=sqrtm_vjp,
    jvp=sqrtm_jvp,
    example="tg.scipy.linalg.sqrtm(np.diag(x * x + 0.5) + 0.1)",
    examples=(
        "tg.scipy.linalg.sqrtm(x @ x.T + np.eye(len(x)))",
        "tg.scipy.linalg.sqrtm(x[:, None, :] * x[:, :, None] + np.eye(len(x.T)))",
    ),
    awkward="of a singular matrix the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.sqrtm(np.diag(x * x + 1j) + 0.1j * x)",
)
def sqrtm(a):
    """The principal square roots of matrices."""
    return by_matrix(root_of, a)


def _signm(a):
    check_square("signm", A=a)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    return real_result("signm", a, of_scipy("signm")(np.asarray_chkfinite(a)))


def signm_vjp(np, g, out, a):
    """With n = a s: y of nᴴ y + y nᴴ = s̄, ā = y − sᴴ y sᴴ (Higham 2008, theorem 5.3)."""
    root, back = adjoint(np, np.matmul(a, out)), adjoint(np, out)
    y = solve_sylvester(root, root, g)
    return (y - np.matmul(np.matmul(back, y), back),)


def signm_jvp(np, t, out, a):
    """n ṡ + ṡ n = ȧ − s ȧ s."""
    root = np.matmul(a, out)
    return solve_sylvester(root, root, t[0] - np.matmul(np.matmul(out, t[0]), out))


@declared(
    vjp=signm_vjp,
    jvp=signm_jvp,
    example="tg.scipy.linalg.signm("
    "np.diag(np.resize([2.0, -3.0], len(x))) + 0.1 * x[:, None] * np.cos(x))",
    awkward="of a singular matrix the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.signm("
    "np.diag(np.resize([2.0, -3.0], len(x))) + 0.1j * x[:, None] * np.cos(x))",
)
def signm(a):
    """The signs of matrices: of the real parts of their eigenvalues."""
    return by_matrix(_signm, a)


# --- by the exponential ---------------------------------------------------------------------------


def square_tensor(name: str, a):
    a = unlisted(a)
    a = a if is_complex(a) else as_tensor(name, a)
    check_square(name, A=a)
    return a


def cosine_and_sine(name, a):
    """cos(a) and sin(a), which are blocks of the exponential of [[0, −a], [a, 0]]."""
    a = square_tensor(name, a)
    n, zero = shape_of(a)[-1], np.zeros(shape_of(a), a.dtype)
    upper = np.concatenate([zero, -a], -1)
    found = expm(np.concatenate([upper, np.concatenate([a, zero], -1)], -2))
    return found[..., :n, :n], found[..., n:, :n]


def cosm(a):
    """The cosines of matrices."""
    return cosine_and_sine("cosm", a)[0]


def sinm(a):
    """The sines of matrices."""
    return cosine_and_sine("sinm", a)[1]


def coshm(a):
    """The hyperbolic cosines of matrices."""
    a = square_tensor("coshm", a)
    return 0.5 * (expm(a) + expm(-a))


def sinhm(a):
    """The hyperbolic sines of matrices."""
    a = square_tensor("sinhm", a)
    return 0.5 * (expm(a) - expm(-a))


# --- The logarithm of matrices, and powers of any exponent by it ----------------------------------


#: Gauss and Legendre's rule in [0, 1]: the integrals below to 1e-18 for |z| ≤ ¼.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(9)[k] * 0.5 + 0.5 * (k == 0) for k in range(2))
#: The number of square roots that take a matrix with elements in float64 to the identity.
_MOST_ROOTS = 100
_NEAR = 0.25
_SINGULAR = "tapegrad.scipy.linalg.logm: the matrix is singular: it has no logarithm"


def _checked(a, dtype):
    check_square("logm", A=a)
    return np.asarray_chkfinite(a, np.result_type(dtype, np.float64))


def _near_identity(a):
    """Repeated square roots of a matrix, until the last is near 1."""
    found, one = [], np.eye(len(a))
    if len(a) and np.linalg.slogdet(a)[0] == 0:
        raise np.linalg.LinAlgError(_SINGULAR)
    while np.linalg.norm(a - one, 1) > _NEAR:
        if len(found) == _MOST_ROOTS:
            raise np.linalg.LinAlgError(_SINGULAR)
        a = root_of(a, "logm")
        found.append(a)
    return found


def _logm(a):
    """2ᵏ times the logarithm of the 2ᵏth root, an integral of z (1 + tz)⁻¹; not random."""
    x = _checked(a, a.dtype)
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    roots, one = _near_identity(x), np.eye(len(a))
    z = (roots[-1] if roots else x) - one
    found = sum(w * np.linalg.solve(one + t * z, z) for t, w in zip(_NODES, _WEIGHTS, strict=True))
    return np.asarray(math.ldexp(1.0, len(roots)) * found, inexact(a))


@declared(
    **rules_of(lambda: logm_frechet),
    example="tg.scipy.linalg.logm((np.diag(x * x + 0.5) + 0.1).astype(float))",
    examples=(
        "tg.scipy.linalg.logm((0.2 * x @ x.T + np.eye(len(x))).astype(float))",
        "tg.scipy.linalg.logm("
        "(0.3 * x[:, None, :2] * np.cos(x[:, :2, None]) + np.eye(2)).astype(float))"
        " if len(x) and len(x.T) else tg.scipy.linalg.logm(x @ x.T + np.eye(len(x)))",
    ),
    awkward="a singular matrix raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.logm((np.diag(x * x + 1j) + 0.1j * x).astype(complex))",
)
def logm(a):
    """The principal logarithms of matrices."""
    return by_matrix(_logm, a)


def _check_branch(a) -> None:
    """Raise ValueError for a block matrix [[b, d], [0, b]] with b on the branch cut.

    Rounding would take its two blocks to different sides.
    """
    n = len(a) // 2
    is_block = np.array_equal(a[:n, :n], a[n:, n:]) and not np.any(a[n:, :n]) and 2 * n == len(a)
    if not np.iscomplexobj(a) or not n or not is_block:
        return
    values = np.linalg.eigvals(a)
    if np.any((values.real <= 0.0) & (np.abs(values.imag) <= 1e-6 * np.abs(values))):
        raise ValueError(
            "tapegrad.scipy.linalg.logm: an eigenvalue is on the branch cut, the negative numbers; "
            "there is no second derivative here"
        )


def _logm_frechet(a, e):
    """The derivative by the integral of (1 + tz)⁻¹ e (1 + tz)⁻¹ at the 2ᵏth root 1 + z.

    With a = s² the derivative at a along e is twice that at s along d, s d + d s = e.
    """
    dtype = inexact(a, e)
    _check_branch(a)
    a, e = _checked(a, dtype), np.asarray(e, np.result_type(dtype, np.float64))
    if not a.size:
        return np.zeros(a.shape, dtype)
    roots, one = _near_identity(a), np.eye(len(a))
    for root in roots:
        e = solve_sylvester(root, root, e)
    z, total = (roots[-1] if roots else a) - one, 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        inverse = np.linalg.inv(one + node * z)
        total = total + weight * (inverse @ e @ inverse)
    return np.asarray(math.ldexp(1.0, len(roots)) * total, dtype)


@declared(
    **rules_of_frechet(lambda: logm_frechet),
    example="tg._core.operations.matrix_functions.logm_frechet("
    "np.diag(x * x + 0.5) + 0.1, x[:, None] * x)",
    takes_complex=True,
    complex_example="tg._core.operations.matrix_functions.logm_frechet("
    "np.diag(x * x + 0.5j), 1j * x[:, None] * x)",
)
def logm_frechet(a, e):
    """The derivatives of the logarithms of matrices a along e."""
    return by_matrix(_logm_frechet, a, e)


# --- powers ---------------------------------------------------------------------------------------


def fractional_matrix_power(a, t):
    """Powers of matrices: products for whole t, otherwise exp(t log a), which t enters too."""
    a = square_tensor("fractional_matrix_power", a)
    if shape_of(t):
        raise TypeError(
            "tapegrad.scipy.linalg.fractional_matrix_power: t has shape "
            f"{shape_of(t)}; it must be a number"
        )
    if is_tensor(t) or t != int(t):
        return expm(t * of_any(logm, a))
    return _whole_power(a, int(t))


def _whole_power(a, t: int):
    """A product of squares; that of the inverse for t < 0."""
    one = np.broadcast_to(np.eye(shape_of(a)[-1], dtype=a.dtype), shape_of(a))
    if t < 0:
        a, t = np.linalg.solve(a, one), -t
    found = None
    while t:
        if t & 1:
            found = a if found is None else np.matmul(found, a)
        t >>= 1
        a = np.matmul(a, a) if t else a
    return one + 0.0 * a if found is None else found * 1.0

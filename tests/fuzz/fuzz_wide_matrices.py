"""Linear algebra in extended precision, as plain as it can be: the judge of random programs.

NumPy's and SciPy's own stop at double precision. Matrices are small and well conditioned; factors
that are not unique (signs of vectors, bases of eigenspaces) are any of them.
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.linalg

EPS = float(np.finfo(np.longdouble).eps)
#: Singular values below so many of the largest count as zero.
ZERO = 1e-13


class SlogdetResult(NamedTuple):
    sign: np.ndarray
    logabsdet: np.ndarray


def wide(a):
    """As an array of extended precision, complex if it is."""
    a = np.asarray(a)
    return a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def each(function):
    """A function of one matrix as one of stacks of them; it returns an array, or several."""

    @functools.wraps(function)
    def of_stack(a, *others, **keywords):
        a = wide(a)
        if a.ndim < 2:
            raise np.linalg.LinAlgError("less than two axes")
        if a.ndim == 2:
            return function(a, *others, **keywords)
        made = [of_stack(one, *others, **keywords) for one in a]
        if isinstance(made[0], tuple):
            return tuple(np.stack(parts) for parts in zip(*made, strict=True))
        return np.stack(made)

    return of_stack


def eliminated(a, b):
    """Upper triangular u and c with u x = c where a x = b, and the sign of exchanges of rows."""
    a, b = wide(a), wide(b)
    a, b, sign = a.copy(), b.astype(np.result_type(a, b)), 1.0
    if a.shape != (len(a), len(a)):
        raise np.linalg.LinAlgError("not square")
    for k in range(len(a)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        if a[p, k] == 0:
            raise np.linalg.LinAlgError("Singular matrix")
        if p != k:
            a[[k, p]], b[[k, p]], sign = a[[p, k]], b[[p, k]], -sign
        factors = (a[k + 1 :, k] / a[k, k])[:, None]
        a[k + 1 :] -= factors * a[k]
        b[k + 1 :] -= factors * b[k]
    return a, b, sign


def solve(a, b):
    a, b = wide(a), wide(b)
    if b.ndim == 1:
        return solve(a, b[:, None])[..., 0]
    if max(a.ndim, b.ndim) > 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = np.broadcast_to(a, batch + a.shape[-2:])
        b = np.broadcast_to(b, batch + b.shape[-2:])
        return np.stack([solve(*pair) for pair in zip(a, b, strict=True)])
    u, c, _ = eliminated(a, b)
    for k in reversed(range(len(u))):
        c[k] = (c[k] - u[k, k + 1 :] @ c[k + 1 :]) / u[k, k]
    return c


@each
def inv(a):
    return solve(a, np.eye(len(a)))


@each
def slogdet(a):
    u, _, sign = eliminated(a, np.zeros((len(a), 0)))
    d = np.diagonal(u)
    return SlogdetResult(sign * np.prod(d / np.abs(d)), np.sum(np.log(np.abs(d))))


@each
def det(a):
    u, _, sign = eliminated(a, np.zeros((len(a), 0)))
    return sign * np.prod(np.diagonal(u))


@each
def cholesky(a, upper=False):
    """Of the lower triangle, the upper one with `upper`; SciPy's has `lower`."""
    a = adjoint(a) if upper else a
    factor = np.zeros_like(a)
    for k in range(len(a)):
        pivot = a[k, k].real - np.sum(np.abs(factor[k, :k]) ** 2)
        if not pivot > 0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        factor[k, k] = np.sqrt(pivot)
        below = a[k + 1 :, k] - factor[k + 1 :, :k] @ np.conj(factor[k, :k])
        factor[k + 1 :, k] = below / factor[k, k]
    return adjoint(factor) if upper else factor


@each
def qr(a, mode="reduced"):
    """By Gram and Schmidt, twice; the diagonal of r is positive."""
    if len(a) < a.shape[1]:
        q, r = qr(a[:, : len(a)])
        return q, np.hstack([r, adjoint(q) @ a[:, len(a) :]])
    q, r = a.copy(), np.zeros((a.shape[1],) * 2, a.dtype)
    for k in range(a.shape[1]):
        for _ in range(2):
            along = adjoint(q[:, :k]) @ q[:, k]
            q[:, k] -= q[:, :k] @ along
            r[:k, k] += along
        r[k, k] = np.sqrt(np.sum(np.abs(q[:, k]) ** 2))
        q[:, k] /= r[k, k]
    return q, r


def _rotated(p, q, alpha, beta, gamma):
    """Columns p and q turned so that their products [[alpha, gamma], [·, beta]] are a diagonal."""
    size = np.abs(gamma)
    phase = np.conj(gamma / size)
    angle = np.arctan2(2 * size, alpha - beta) / 2
    c, s = np.cos(angle), np.sin(angle)
    return c * p + s * phase * q, c * phase * q - s * p


@each
def svd(a, full_matrices=False, compute_uv=True):
    """By rotations of columns (Hestenes); columns of u are zero where singular values are."""
    if len(a) < a.shape[1]:
        v, s, u = svd(adjoint(a))
        return (adjoint(u), s, adjoint(v)) if compute_uv else s
    n = a.shape[1]
    both = np.vstack([a, np.eye(n, dtype=a.dtype)])
    largest = np.sum(np.abs(a) ** 2)
    for _ in range(60):
        done = True
        for i in range(n - 1):
            for j in range(i + 1, n):
                p, q = both[: len(a), i], both[: len(a), j]
                alpha, beta = np.sum(np.abs(p) ** 2), np.sum(np.abs(q) ** 2)
                gamma = np.sum(np.conj(p) * q)
                if np.abs(gamma) <= 2 * EPS * np.sqrt(alpha * beta) + largest * EPS**2:
                    continue
                done = False
                both[:, i], both[:, j] = _rotated(both[:, i], both[:, j], alpha, beta, gamma)
        if done:
            break
    s = np.sqrt(np.sum(np.abs(both[: len(a)]) ** 2, axis=0))
    order = np.argsort(-s)
    both, s = both[:, order], s[order]
    u = both[: len(a)] / np.where(s > 0, s, 1)
    return (u, s, adjoint(both[len(a) :])) if compute_uv else s


@each
def eigh(a, UPLO="L"):  # NumPy's name
    """Of what is positive definite or not: by the singular values of what is shifted to be so."""
    lower = np.tril(a) if UPLO == "L" else np.triu(a)
    a = lower + adjoint(lower) - np.diag(np.diagonal(lower).real)
    shift = 1 + np.ceil(np.sqrt(np.sum(np.abs(a) ** 2)))
    u, s, _ = svd(a + shift * np.eye(len(a), dtype=a.dtype))
    return (s - shift)[::-1], u[:, ::-1]


def eigvalsh(a, UPLO="L"):
    return eigh(a, UPLO)[0]


@each
def pinv(a, rcond=None, hermitian=False):
    u, s, vh = svd(a)
    kept = s > ZERO * s[0]
    return adjoint(vh) @ (np.where(kept, 1 / np.where(kept, s, 1), 0)[:, None] * adjoint(u))


def lstsq(a, b, rcond=None):
    x = pinv(a) @ wide(b)
    s = svd(a, compute_uv=False)
    return x, np.zeros(0), int(np.sum(s > ZERO * s[0])), s


def norm(x, ord=None, axis=None, keepdims=False):
    if ord in (2, -2, "nuc") and axis is None and np.ndim(x) == 2:
        s = svd(x, compute_uv=False)
        return {2: s[0], -2: s[-1], "nuc": np.sum(s)}[ord]
    return np.linalg.norm(wide(x), ord, axis, keepdims)


def cond(x, p=None):
    s = svd(x, compute_uv=False)
    return s[..., 0] / s[..., -1]


def matrix_power(a, n):
    a = inv(a) if n < 0 else wide(a)
    return functools.reduce(np.matmul, [a] * abs(n))


@each
def expm(a):
    term = made = np.eye(len(a), dtype=a.dtype)
    for k in range(1, 30):
        term = term @ (a / 64) / k
        made = made + term
    for _ in range(6):
        made = made @ made
    return made


def of_values(function):
    """A function of symmetric matrices, of their eigenvalues."""

    @each
    def of_matrix(a):
        w, u = eigh(a)
        return (u * function(w)) @ adjoint(u)

    return of_matrix


class Linalg:
    """`np.linalg` of extended precision."""

    LinAlgError = np.linalg.LinAlgError
    multi_dot = staticmethod(lambda arrays: functools.reduce(np.matmul, map(wide, arrays)))


for function in (solve, inv, det, slogdet, cholesky, qr, svd, eigh, eigvalsh, pinv, lstsq, norm,
                 cond, matrix_power):  # fmt: skip
    setattr(Linalg, function.__name__, staticmethod(function))
LINALG = Linalg()


class ScipyLinalg(Linalg):
    """`scipy.linalg` of extended precision."""

    expm, sqrtm, logm = map(staticmethod, (expm, of_values(np.sqrt), of_values(np.log)))
    block_diag, toeplitz, circulant = map(
        staticmethod, (scipy.linalg.block_diag, scipy.linalg.toeplitz, scipy.linalg.circulant)
    )

    @staticmethod
    def cholesky(a, lower=False):
        return cholesky(a, upper=not lower)

    @staticmethod
    def solve_triangular(a, b, trans=0, lower=False):
        a = np.tril(a) if lower else np.triu(a)
        return solve((a, a.T, adjoint(a))[trans], b)

    @staticmethod
    def cho_solve(pair, b):
        factor, lower = pair
        a = np.tril(factor) if lower else np.triu(factor)
        return solve(a @ adjoint(a) if lower else adjoint(a) @ a, b)

    @staticmethod
    def solve_toeplitz(c, b):
        return solve(scipy.linalg.toeplitz(c), b)

    @staticmethod
    def solve_sylvester(a, b, q):
        """By a x + x b as a matrix of the elements of x."""
        a, b, q = wide(a), wide(b), wide(q)
        whole = np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b.T)
        return solve(whole, q.reshape(-1)).reshape(q.shape)


SCIPY_LINALG = ScipyLinalg()

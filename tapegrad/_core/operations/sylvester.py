"""Equations of matrices: Sylvester's, Lyapunov's, Riccati's; the polar decomposition."""

from __future__ import annotations

import functools
import importlib

import numpy as np

from .declaring import adjoint, declared

# --- Linear equations of matrices: of Sylvester, of Lyapunov --------------------------------------


@functools.cache
def of_scipy(name: str):
    """A function of scipy.linalg, which is imported when one is first needed."""
    return getattr(importlib.import_module("scipy.linalg"), name)


def by_matrix(function, *operands):
    """The result of a function for each matrix of a batch; the axes before the last two broadcast.

    A batch of none has the shape and dtype of the last operand.
    """
    operands = tuple([np.asarray(x) for x in operands])
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in operands])
    if not batch:
        return function(*operands)
    wide = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in operands]
    made = [function(*[x[at] for x in wide]) for at in np.ndindex(batch)]
    if not made:
        return np.zeros(wide[-1].shape, inexact(*operands))
    return np.stack(made).reshape(*batch, *made[0].shape)


def inexact(*operands):
    """The dtype of a result of floats or complex numbers."""
    return np.result_type(np.float32, *operands)


def check_square(name: str, **matrices) -> None:
    """Raise ValueError for a matrix that is not square."""
    for argument, x in matrices.items():
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"tapegrad.scipy.linalg.{name}: {argument} has shape {x.shape}; it must be a "
                "square matrix"
            )


# --- Sylvester ------------------------------------------------------------------------------------


def _solved_by_factors(name, r, s, f):
    """y of r @ y + y @ sᴴ = f, for Schur factors."""
    (trsyl,) = of_scipy("get_lapack_funcs")(("trsyl",), (r, s, f))
    y, scale, answer = trsyl(r, s, f, tranb="C")
    if answer:
        raise np.linalg.LinAlgError(
            f"tapegrad.scipy.linalg.{name}: the equation is singular: an eigenvalue of the one "
            "side is minus one of the other, or nearly so"
        )
    return scale * y


def _sylvester(a, b, q):
    """The algorithm of Bartels and Stewart, which SciPy has too; all in one dtype."""
    check_square("solve_sylvester", a=a, b=b)
    if q.shape != (len(a), len(b)):
        raise ValueError(
            f"tapegrad.scipy.linalg.solve_sylvester: q has shape {q.shape}; with a of {a.shape} "
            f"and b of {b.shape} it must be {(len(a), len(b))}"
        )
    a, b, q = (np.asarray(x, inexact(a, b, q)) for x in (a, b, q))
    if not q.size:
        return np.zeros_like(q)
    (r, u), (s, v) = of_scipy("schur")(a), of_scipy("schur")(np.conj(b.T))
    y = _solved_by_factors("solve_sylvester", r, s, np.conj(u.T) @ q @ v)
    return u @ y @ np.conj(v.T)


def solve_sylvester_vjp(np, g, out, a, b, _q):
    """y of aᴴ y + y bᴴ = x̄ is q̄; ā = −y xᴴ, b̄ = −xᴴ y."""
    y = solve_sylvester(adjoint(np, a), adjoint(np, b), g)
    return (
        lambda: -np.matmul(y, adjoint(np, out)),
        lambda: -np.matmul(adjoint(np, out), y),
        y,
    )


def solve_sylvester_jvp(np, t, out, a, b, _q):
    """The same equation, with q̇ − ȧ x − x ḃ."""
    right = [
        t[2],
        None if t[0] is None else -np.matmul(t[0], out),
        None if t[1] is None else -np.matmul(out, t[1]),
    ]
    first, *others = [x for x in right if x is not None]
    return solve_sylvester(a, b, sum(others, first))


@declared(
    vjp=solve_sylvester_vjp,
    jvp=solve_sylvester_jvp,
    example="tg.scipy.linalg.solve_sylvester("
    "np.diag(x * x + 1.0), np.diag(x * x), np.cos(x[:, None] * x))",
    examples=(
        "tg.scipy.linalg.solve_sylvester(x @ x.T + np.eye(len(x)), x.T @ x + np.eye(len(x.T)), x)",
        "tg.scipy.linalg.solve_sylvester(4.0 * np.eye(len(x)), np.diag(np.arange(len(x.T))), x)"
        " if x.size else tg.scipy.linalg.solve_sylvester(x @ x.T, x.T @ x, x)",
        "tg.scipy.linalg.solve_sylvester(np.stack([x @ x.T, 0.5 * x @ x.T]), np.eye(2), x[:, :2])"
        " if x.size else tg.scipy.linalg.solve_sylvester(x @ x.T, x.T @ x, x)",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_sylvester("
    "np.diag(x * x + 1.0), np.diag(1j * x * x), np.exp(1j * x[:, None] * x))",
    complex_examples=(
        "tg.scipy.linalg.solve_sylvester("
        "x @ x.T + 1j * np.eye(len(x)), x.T @ x + np.eye(len(x.T)), x)",
    ),
)
def solve_sylvester(a, b, q):
    """The solution x of a @ x + x @ b = q."""
    return by_matrix(_sylvester, a, b, q)


# --- Lyapunov -------------------------------------------------------------------------------------


def _check_alike(name, a, q) -> None:
    check_square(name, a=a, q=q)
    if a.shape != q.shape:
        raise ValueError(
            f"tapegrad.scipy.linalg.{name}: a has shape {a.shape} and q {q.shape}; they must be "
            "equal"
        )


def _continuous(a, q):
    """One Schur factor serves both sides."""
    _check_alike("solve_continuous_lyapunov", a, q)
    a, q = (np.asarray(x, inexact(a, q)) for x in (a, q))
    if not q.size:
        return np.zeros_like(q)
    r, u = of_scipy("schur")(a)
    y = _solved_by_factors("solve_continuous_lyapunov", r, r, np.conj(u.T) @ q @ u)
    return u @ y @ np.conj(u.T)


def solve_continuous_lyapunov_vjp(np, g, out, a, _q):
    """y of aᴴ y + y a = x̄ is q̄; ā = −y xᴴ − yᴴ x."""
    y = solve_continuous_lyapunov(adjoint(np, a), g)
    return (
        lambda: -np.matmul(y, adjoint(np, out)) - np.matmul(adjoint(np, y), out),
        y,
    )


def solve_continuous_lyapunov_jvp(np, t, out, a, _q):
    """The same equation, with q̇ − ȧ x − x ȧᴴ."""
    if t[0] is None:
        return solve_continuous_lyapunov(a, t[1])
    moved = np.matmul(t[0], out) + np.matmul(out, adjoint(np, t[0]))
    return solve_continuous_lyapunov(a, -moved if t[1] is None else t[1] - moved)


@declared(
    vjp=solve_continuous_lyapunov_vjp,
    jvp=solve_continuous_lyapunov_jvp,
    example="tg.scipy.linalg.solve_continuous_lyapunov("
    "np.diag(x * x + 1.0), x[:, None] * (x - 1.0))",
    examples=(
        "tg.scipy.linalg.solve_continuous_lyapunov(x @ x.T + np.eye(len(x)), np.cos(x @ x.T))",
        "tg.scipy.linalg.solve_continuous_lyapunov("
        "x[:, None, :] * x[:, :, None] + np.triu(np.ones((len(x.T),) * 2)), np.cos(x.T @ x))",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_continuous_lyapunov("
    "np.diag(x * x + 1.0 + 1j) + 0.2j * x, np.exp(1j * x[:, None] * x))",
)
def solve_continuous_lyapunov(a, q):
    """The solution x of a @ x + x @ aᴴ = q."""
    return by_matrix(_continuous, a, q)


def _discrete(a, q, bilinear):
    """By one system of all elements, or by the bilinear transformation to `_continuous`."""
    _check_alike("solve_discrete_lyapunov", a, q)
    a, q = (np.asarray(x, inexact(a, q)) for x in (a, q))
    if not q.size:
        return np.zeros_like(q)
    if not bilinear:
        system = np.eye(a.size, dtype=a.dtype) - np.kron(a, np.conj(a))
        if not np.all(np.isfinite(system)):
            raise ValueError(
                "tapegrad.scipy.linalg.solve_discrete_lyapunov: products of elements of a are not "
                "finite; scale a, or give method='bilinear'"
            )
        return np.linalg.solve(system, q.reshape(-1)).reshape(q.shape)
    one = np.eye(len(a), dtype=a.dtype)
    half = np.linalg.inv(a + one)
    c = 2.0 * half @ q @ np.conj(half.T)
    return _continuous(half @ (a - one), -c)


def solve_discrete_lyapunov_vjp(np, g, out, a, _q, bilinear):
    """y of aᴴ y a − y + x̄ = 0 is q̄; ā = y a xᴴ + yᴴ a x."""
    y = solve_discrete_lyapunov(adjoint(np, a), g, bilinear=bilinear)
    return (
        lambda: (
            np.matmul(np.matmul(y, a), adjoint(np, out))
            + np.matmul(np.matmul(adjoint(np, y), a), out)
        ),
        y,
    )


def solve_discrete_lyapunov_jvp(np, t, out, a, _q, bilinear):
    """The same equation, with q̇ + ȧ x aᴴ + a x ȧᴴ."""
    right = t[1]
    if t[0] is not None:
        moved = np.matmul(np.matmul(t[0], out), adjoint(np, a))
        moved = moved + np.matmul(np.matmul(a, out), adjoint(np, t[0]))
        right = moved if right is None else right + moved
    return solve_discrete_lyapunov(a, right, bilinear=bilinear)


@declared(
    vjp=solve_discrete_lyapunov_vjp,
    jvp=solve_discrete_lyapunov_jvp,
    example="tg.scipy.linalg.solve_discrete_lyapunov(0.3 * x[:, None] * np.cos(x), np.diag(x))",
    examples=(
        "tg.scipy.linalg.solve_discrete_lyapunov("
        "0.05 * x @ x.T + np.eye(len(x), k=1), np.cos(x @ x.T), 'bilinear')",
        "tg.scipy.linalg.solve_discrete_lyapunov("
        "np.stack([0.2 * np.cos(x @ x.T), 0.1 * x @ x.T]), np.cos(x @ x.T))"
        " if x.size else tg.scipy.linalg.solve_discrete_lyapunov(x @ x.T, x @ x.T)",
    ),
    awkward="an equation without a unique solution raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.solve_discrete_lyapunov("
    "0.2 * np.exp(1j * x[:, None] * x), np.diag(x) + 1j)",
)
def solve_discrete_lyapunov(a, q, *, bilinear):
    """The solution x of a @ x @ aᴴ − x + q = 0."""
    return by_matrix(lambda a, q: _discrete(a, q, bilinear), a, q)


# --- Algebraic Riccati equations, SciPy's `solve_continuous_are` and `solve_discrete_are` ---------
# With the gain k the left side is that of a Lyapunov equation of a − b k, and k makes it
# stationary: so its derivatives are those at fixed k, and the adjoint y of the left side solves one
# Lyapunov equation of (a − b k)ᴴ.


def _product(np, *factors):
    """The product of several matrices."""
    found, *others = factors
    for one in others:
        found = np.matmul(found, one)
    return found


def _half_sum(np, g):
    """The part of an adjoint that a symmetric solution has; Hermitian for complex numbers."""
    return 0.5 * (g + adjoint(np, g))


def _divided(np, e, x):
    """e⁻¹ x e⁻ᴴ"""
    half = np.linalg.solve(e, x)
    return adjoint(np, np.linalg.solve(e, adjoint(np, half)))


def _of_arguments(np, y, x, k, closed, other):
    """Adjoints of a, b, q, r, e, s, given that of the left side; `other` enters that of e."""
    back = adjoint(np, k)
    along = lambda: 2.0 * _product(np, x, closed[0], y)  # noqa: E731
    return (
        along,
        lambda: -np.matmul(along(), back),
        y,
        lambda: _product(np, k, y, back),
        lambda: 2.0 * _product(np, x, other, y),
        lambda: -2.0 * np.matmul(y, back),
    )


def _solved(name, generalized, balanced, *matrices):
    """SciPy's solution; terms that the simple equation lacks are left out."""

    def solve(q, a, b, r, *added):
        if not a.size:
            return np.zeros(a.shape, inexact(a, b, q, r))
        if generalized:  # SciPy 1.17 balances e by the wrong factors: the solution is none
            return of_scipy(name)(a, b, q, r, *added, balanced=False)
        return of_scipy(name)(a, b, q, r, balanced=balanced)

    a, b, q, *others = matrices
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in matrices])
    wide = np.broadcast_to(q, (*batch, *q.shape[-2:]))
    if not batch or not wide.size:
        return np.zeros(wide.shape, inexact(*matrices)) if batch else solve(q, a, b, *others)
    return by_matrix(solve, wide, a, b, *others)


# --- continuous -----------------------------------------------------------------------------------


def solve_continuous_are_vjp(np, g, out, *matrices, generalized, balanced):
    """y of c y eᴴ + e y cᴴ = −x̄, c = a − b k; then ā = 2 x e y and ē = 2 x c y.

    The gain k is r⁻¹ (bᴴ x e + sᴴ).
    """
    a, b, _, r, e, s = matrices
    k = np.linalg.solve(r, _product(np, adjoint(np, b), out, e) + adjoint(np, s))
    c = a - np.matmul(b, k)
    y = solve_continuous_lyapunov(np.linalg.solve(e, c), -_divided(np, e, _half_sum(np, g)))
    return _of_arguments(np, y, out, k, (e, c), c)


_SMALL = (
    "0.1 * x[:, None] * np.cos(x) - 0.5 * np.eye(len(x)), np.eye(len(x)), "
    "np.diag(x * x), np.eye(len(x)), 0.1 * x[:, None] * np.sin(x) + np.eye(len(x)), balanced=False"
)
_COMPLEX = (
    "0.1j * x[:, None] * np.cos(x) - 0.5 * np.eye(len(x)), np.diag(1j * x), "
    "np.diag(x * x), np.eye(len(x))"
)
_SYSTEM = (
    "0.2 * np.cos(x @ x.T) - 0.7 * np.eye(len(x)), x, "
    "x[:, :1] * x[:, 0] + np.eye(len(x)), x[:1].T * x[0] + np.eye(len(x.T))) if x.size else (x"
)


@declared(
    vjp=solve_continuous_are_vjp,
    example=f"tg.scipy.linalg.solve_continuous_are({_SMALL})",
    examples=(f"tg.scipy.linalg.solve_continuous_are({_SYSTEM})",),
    awkward="q and r are taken for symmetric: their adjoints are, and that of the solution",
    takes_complex=True,
    complex_example=f"tg.scipy.linalg.solve_continuous_are({_COMPLEX})",
)
def solve_continuous_are(a, b, q, r, e, s, *, generalized, balanced):
    """The solution x of aᴴ x e + eᴴ x a − (eᴴ x b + s) r⁻¹ (bᴴ x e + sᴴ) + q = 0."""
    return _solved("solve_continuous_are", generalized, balanced, a, b, q, r, e, s)


# --- discrete -------------------------------------------------------------------------------------


def solve_discrete_are_vjp(np, g, out, *matrices, generalized, balanced):
    """y of c y cᴴ − e y eᴴ = −x̄, c = a − b k; then ā = 2 x c y and ē = −2 x e y."""
    a, b, _, r, e, s = matrices
    xb = np.matmul(adjoint(np, b), out)
    k = np.linalg.solve(r + np.matmul(xb, b), np.matmul(xb, a) + adjoint(np, s))
    c = a - np.matmul(b, k)
    right = _divided(np, e, _half_sum(np, g))
    bilinear = a.shape[-1] >= 10
    y = solve_discrete_lyapunov(np.linalg.solve(e, c), right, bilinear=bilinear)
    return _of_arguments(np, y, out, k, (c, c), -e)


@declared(
    vjp=solve_discrete_are_vjp,
    example=f"tg.scipy.linalg.solve_discrete_are({_SMALL})",
    examples=(f"tg.scipy.linalg.solve_discrete_are({_SYSTEM})",),
    awkward="q and r are taken for symmetric: their adjoints are, and that of the solution",
    takes_complex=True,
    complex_example=f"tg.scipy.linalg.solve_discrete_are({_COMPLEX})",
)
def solve_discrete_are(a, b, q, r, e, s, *, generalized, balanced):
    """The solution x of aᴴ x a − eᴴ x e − (aᴴ x b + s) (r + bᴴ x b)⁻¹ (bᴴ x a + sᴴ) + q = 0."""
    return _solved("solve_discrete_are", generalized, balanced, a, b, q, r, e, s)


# --- The polar decomposition, and the rotation that takes one set of points nearest to another ----


def _nearest(a):
    """By singular values, as in SciPy."""
    if not a.size:
        return np.zeros(a.shape, inexact(a))
    w, _, v = of_scipy("svd")(a, full_matrices=False)
    return w @ v


def _turning(np, u, p, x):
    """z of p z + z p = uᴴ x − xᴴ u: how u turns within its own columns as u p changes along x."""
    inner = np.matmul(adjoint(np, u), x)
    return solve_sylvester(p, p, inner - adjoint(np, inner))


def _outside(np, u, x):
    """The part of columns that those of u do not span."""
    return x - np.matmul(u, np.matmul(adjoint(np, u), x))


def _stretch(np, u, a):
    """p = uᴴ a"""
    p = np.matmul(adjoint(np, u), a)
    return 0.5 * (p + adjoint(np, p))


def polar_factor_vjp(np, g, out, a):
    """ā = u z + (1 − u uᴴ) ū p⁻¹, z of p z + z p = uᴴ ū − ūᴴ u."""
    p = _stretch(np, out, a)
    found = np.matmul(out, _turning(np, out, p, g))
    if a.shape[-1] == a.shape[-2]:
        return (found,)
    divided = adjoint(np, np.linalg.solve(p, adjoint(np, g)))
    return (found + _outside(np, out, divided),)


def polar_factor_jvp(np, t, out, a):
    """The same: the derivative of a projection onto a surface is symmetric."""
    return polar_factor_vjp(np, t[0], out, a)[0]


@declared(
    vjp=polar_factor_vjp,
    jvp=polar_factor_jvp,
    example="tg.scipy.linalg.polar(np.diag(x + 1.0) + 0.1 * x[:, None])[0]",
    examples=(
        "tg.scipy.linalg.polar(np.concatenate([x[:, :2], np.eye(2)]))[0]"
        " if len(x.T) else tg.scipy.linalg.polar(x.T @ x)[0]",
        "tg.scipy.linalg.polar(x[:, None, :] * x[:, :, None] + 2.0 * np.eye(len(x.T)))[0]",
    ),
    awkward="for a matrix that has not full rank the derivative raises LinAlgError",
    takes_complex=True,
    complex_example="tg.scipy.linalg.polar(np.diag(x + 1.0) + 0.1j * x[:, None])[0]",
    complex_examples=(
        "tg.scipy.linalg.polar(np.concatenate([x[:, :2], 1j * np.eye(2)]))[0]"
        " if len(x.T) else tg.scipy.linalg.polar(x.T @ x + 0j)[0]",
    ),
)
def polar_factor(a):
    """The matrix with orthonormal columns nearest to a, which has no more columns than rows."""
    return by_matrix(_nearest, a)


def polar(a, side):
    """Factors (u, p) of a = u @ p, on the side "left" of a = p @ u; p is positive semidefinite."""
    wide = a.shape[-2] < a.shape[-1]
    u = adjoint(np, polar_factor(adjoint(np, a))) if wide else polar_factor(a)
    p = np.matmul(adjoint(np, u), a) if side == "right" else np.matmul(a, adjoint(np, u))
    return u, 0.5 * (p + adjoint(np, p))


def orthogonal_procrustes(a, b):
    """The orthogonal r that makes ‖a @ r − b‖ least, and the sum of singular values of aᴴ b."""
    product = np.matmul(adjoint(np, a), b)
    r = polar_factor(product)
    return r, np.sum(np.real(np.conj(r) * product), axis=(-2, -1))

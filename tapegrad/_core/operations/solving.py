"""Linear equations and factors of matrices, under NumPy's names."""

from __future__ import annotations

import numpy as np

from .declaring import operation


def _transposed(np, x):
    return np.swapaxes(x, -1, -2)


# --- linear equations -----------------------------------------------------------------------------


def solve_vjp(np, g, out, a, _b):
    """With x = a⁻¹ b: b̄ = a⁻ᵀ x̄ and ā = −b̄ xᵀ (Giles 2008, section 2.3.1)."""
    is_vector = _b.ndim == 1
    if is_vector:
        g, out = g[..., None], out[..., None]
    back = np.linalg.solve(_transposed(np, a), g)
    right = back[..., 0] if is_vector else back
    return (lambda: -np.matmul(back, _transposed(np, out)), right)


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
    batched=solve_batched,
    example="np.linalg.solve(np.diag(x * x + 3.0), x)",
    examples=(
        "np.linalg.solve(x @ x.T + 3.0 * np.eye(len(x)), x)",
        "np.linalg.solve(x[:, None, :2] * x[:, :2, None] + np.eye(len(x[0, :2])), x[0, :2])"
        " if len(x) else np.linalg.solve(x @ x.T, x)",
        "np.linalg.solve(4.0 * np.eye(len(x)), x)",
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


# --- factors --------------------------------------------------------------------------------------


def _lower_half(np, n: int):
    """What takes the lower triangle of a matrix, with half its diagonal."""
    return np.tri(n) - 0.5 * np.eye(n)


def cholesky_vjp(np, g, out, _a, upper=False):
    """With a = l lᵀ and P = Φ(lᵀ l̄): ā is the symmetric part of l⁻ᵀ P l⁻¹ (Murray 2016)."""
    if upper:
        g, out = _transposed(np, g), _transposed(np, out)
    p = np.matmul(_transposed(np, out), g) * _lower_half(np, out.shape[-1])
    half = np.linalg.solve(_transposed(np, out), p)
    s = _transposed(np, np.linalg.solve(_transposed(np, out), _transposed(np, half)))
    return (0.5 * (s + _transposed(np, s)),)


def cholesky_jvp(np, t, out, _a, upper=False):
    """l̇ = l Φ(l⁻¹ ȧ l⁻ᵀ)."""
    out = _transposed(np, out) if upper else out
    half = np.linalg.solve(out, 0.5 * (t[0] + _transposed(np, t[0])))
    p = np.linalg.solve(out, _transposed(np, half))
    made = np.matmul(out, _transposed(np, p) * _lower_half(np, out.shape[-1]))
    return _transposed(np, made) if upper else made


@operation(
    "linalg.cholesky",
    vjp=cholesky_vjp,
    jvp=cholesky_jvp,
    example="np.linalg.cholesky(np.diag(x * x + 1.0))",
    examples=(
        "np.linalg.cholesky(x @ x.T + 3.0 * np.eye(len(x)))",
        "np.linalg.cholesky(x.T @ x + 3.0 * np.eye(len(x.T)), upper=True)",
        "np.linalg.cholesky(x[:, None, :] * x[:, :, None] + np.eye(len(x.T)))",
    ),
    awkward="the operand is taken for symmetric: its gradient is",
)
def cholesky(a, *, upper=False):
    """cholesky(a, upper): the lower triangular factor l of positive definite matrices, a = l @ lᵀ.

    `a` has shape (…, M, M), and so has the result; with `upper` it is lᵀ. The derivative takes `a`
    for symmetric, as NumPy does, which reads one triangle. Raises numpy.linalg.LinAlgError for a
    matrix that is not positive definite.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda a: np.sum(np.linalg.cholesky(a)))(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[0.1875, 0.125 ],
           [0.125 , 0.25  ]])
    """
    return np.linalg.cholesky(a, upper=upper)

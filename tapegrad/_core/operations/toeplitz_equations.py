"""Equations with Toeplitz matrices, of which the first column and row are kept."""

from __future__ import annotations

import numpy as np

from .banded_equations import each, in_scipy, padded
from .declaring import adjoint, declared


def _turned(np, c, r):
    """The first column and row of the transposes; the diagonal is that of `c`."""
    return np.concatenate([c[..., :1, :], r[..., 1:, :]], axis=-2), c


def _sums_along(namespace, product):
    """The sums of the diagonals of matrices, from the main one downwards, as columns."""
    n = product.shape[-1]
    flat = padded(namespace, namespace.reshape(product, (*product.shape[:-2], n * n)))
    row, column = np.arange(n)[:, None] + np.arange(n), np.arange(n)
    places = np.where(row < n, row * n + column, n * n)
    return namespace.sum(flat[..., places], axis=-1)[..., None]


def solve_toeplitz_vjp(np, g, out, c, r, _b):
    """With a x = b: b̄ = a⁻ᴴ x̄, and the sums of −b̄ xᴴ along diagonals."""
    column, row = _turned(np, c, r)
    if c.dtype.kind == "c":
        column, row = np.conj(column), np.conj(row)
    back = solve_toeplitz(column, row, g)
    product = -np.matmul(back, adjoint(np, out))

    def into_row():
        sums = _sums_along(np, np.swapaxes(product, -1, -2))
        return np.concatenate([0.0 * sums[..., :1, :], sums[..., 1:, :]], axis=-2)

    return (lambda: _sums_along(np, product)), into_row, back


_TOEPLITZ = "tg.scipy.linalg.solve_toeplitz"


@declared(
    vjp=solve_toeplitz_vjp,
    takes_complex=True,
    example=f"{_TOEPLITZ}(x + 5.0 * (np.arange(len(x)) == 0), x * x)",
    examples=(
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), x[-1]), x.T) if x.size else x",
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), x[0]), x[-1]) if x.size else x",
    ),
    complex_example=f"{_TOEPLITZ}((1.0 + 0.5j) * x + 5.0 * (np.arange(len(x)) == 0), x * x)",
    complex_examples=(
        f"{_TOEPLITZ}((x[0] + 5.0 * (np.arange(len(x.T)) == 0), 1j * x[-1]), x.T) if x.size else x",
    ),
    awkward="the first element of the row is not read: that of the column counts",
)
def _solve_toeplitz(c, r, b):
    """solve_toeplitz(c, r, b): x of a @ x = b for matrices with equal elements on each diagonal.

    `c` and `r` have shape (…, M, 1), the first column and row; `b` has (…, M, K), all as many axes.
    Levinson's recursion: M² operations. Raises numpy.linalg.LinAlgError where a leading minor is 0.
    """
    solve = in_scipy("solve_toeplitz")
    return each(lambda c, r, b: solve((c[:, 0], r[:, 0]), b, check_finite=False), [c, r], b)


solve_toeplitz = _solve_toeplitz

"""Coefficients of splines through the elements of an array along an axis, SciPy's.

They are S x with a matrix S. With the extension of mode "mirror", which SciPy takes for those of
constants and "wrap", too, Sᵀ = D S D⁻¹, where D halves the elements at both ends; with that of
"grid-wrap" S is symmetric. So it is with the others, but for fewer than `MOST_INEXACT` elements,
for which SciPy begins its recursion inexactly: such S are to be multiplied with as matrices.
"""

from __future__ import annotations

import importlib

import numpy as np

from .declaring import declared

#: SciPy's S differs by less than 1e-16 from a symmetric matrix for more elements: z²ⁿ for the
#: largest of the poles z, −0.43.
MOST_INEXACT = 32
_MIRRORED = ("mirror", "constant", "wrap", "grid-constant")


def is_exact(n: int, mode: str) -> bool:
    """Whether S of n elements is as above."""
    return n > MOST_INEXACT or n < 2 or mode == "grid-wrap" or mode in _MIRRORED


def _halves(n: int, axis: int) -> np.ndarray:
    """The diagonal of D, along an axis."""
    found = np.ones((n, *[1] * (-1 - axis)))
    if n > 1:
        found[[0, -1]] = 0.5
    return found


def spline_coefficients_vjp(np, g, _out, _x, *, axis, mode, order):
    static = {"axis": axis, "mode": mode, "order": order}
    if mode not in _MIRRORED:
        return (spline_coefficients(g, **static),)
    halves = _halves(_x.shape[axis], axis).astype(_x.dtype)
    return (halves * spline_coefficients(g / halves, **static),)


def spline_coefficients_jvp(np, t, _out, _x, **static):
    return spline_coefficients(t[0], **static)


@declared(
    vjp=spline_coefficients_vjp,
    jvp=spline_coefficients_jvp,
    example="tg.scipy.ndimage.spline_filter1d(x)",
    examples=(
        "tg.scipy.ndimage.spline_filter1d(x, 2, 0, mode='mirror')",
        "tg.scipy.ndimage.spline_filter1d(x, 5, 1, mode='grid-wrap')",
    ),
)
def spline_coefficients(x, *, order, axis, mode):
    """The coefficients of a spline along an axis."""
    filtered = importlib.import_module("scipy.ndimage").spline_filter1d
    return filtered(x, order, axis, output=x.dtype, mode=mode)

"""Values of complex functions by NumPy, part by part: of arrays or numbers x and y, z = x + iy."""

from __future__ import annotations

import numpy as np


def complex_of(x, y):
    """The complex array of two real parts, or the number; complex64 where both are float32."""
    dtype = np.result_type(np.result_type(x, y), np.complex64)
    x, y = np.asarray(x), np.asarray(y)
    if x.shape == y.shape:
        made = np.empty_like(x, dtype)
    else:
        made = np.empty(np.broadcast_shapes(x.shape, y.shape), dtype)
    made.real, made.imag = x, y
    return made if made.ndim else made[()]


def _part(function, name: str):
    def part(x, y):
        found = getattr(function(complex_of(x, y)), name)
        return np.array(found, order="K") if np.ndim(found) else found

    return part


exp_real, exp_imag = _part(np.exp, "real"), _part(np.exp, "imag")
sinh_real, sinh_imag = _part(np.sinh, "real"), _part(np.sinh, "imag")
cosh_real, cosh_imag = _part(np.cosh, "real"), _part(np.cosh, "imag")
tanh_real, tanh_imag = _part(np.tanh, "real"), _part(np.tanh, "imag")
sqrt_real, sqrt_imag = _part(np.sqrt, "real"), _part(np.sqrt, "imag")
log_real, log_imag = _part(np.log, "real"), _part(np.log, "imag")
inverse_real, inverse_imag = _part(np.reciprocal, "real"), _part(np.reciprocal, "imag")


def divisor_real(x, y):
    """The factor of a numerator: the real part of 1 / (x + iy), infinity at 0."""
    return np.where(
        (x == 0.0) & (y == 0.0), np.asarray(np.inf, np.result_type(x)), inverse_real(x, y)
    )[()]


def divisor_imag(x, y):
    """The imaginary part of 1 / (x + iy), 0 at 0."""
    return np.where(
        (x == 0.0) & (y == 0.0), np.asarray(0.0, np.result_type(x)), inverse_imag(x, y)
    )[()]


def phase(x, y):
    """The angle of x + iy."""
    return np.arctan2(y, x)

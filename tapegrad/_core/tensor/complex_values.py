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


def divisor_first(x, y):
    """The factor of the same part of a numerator, in Smith's quotient by x + iy."""
    return np.where(np.abs(x) < np.abs(y), np.divide(x, y), _like(1.0, x))[()]


def divisor_second(x, y):
    """The factor of the other part of a numerator, 0 for a divisor of 0."""
    ratio = np.where((x == 0.0) & (y == 0.0), _like(0.0, x), np.divide(y, x))
    return np.where(np.abs(x) < np.abs(y), _like(1.0, x), ratio)[()]


def divisor_scale(x, y):
    """What both parts of a numerator are multiplied by then, infinity for a divisor of 0."""
    swap = np.abs(x) < np.abs(y)
    big, small = np.where(swap, y, x), np.where(swap, x, y)
    is_zero = (x == 0.0) & (y == 0.0)
    return np.where(is_zero, 1.0 / np.abs(x), 1.0 / (big + small * (small / big)))[()]


def _like(number: float, x):
    """A number in the dtype of an operand."""
    return np.asarray(number, np.result_type(x))


def multiple_real(x, y, z):
    """The real part of x (y + iz), in which NumPy takes a real x for x + 0i."""
    return x * y - 0.0 * z


def multiple_imag(x, y, z):
    """The imaginary part of x (y + iz)."""
    return x * z + 0.0 * y


def fraction_real(x, y, z):
    """The real part of (x + iy) / z, in which NumPy takes a real z for z + 0i."""
    z = np.asarray(z, np.result_type(x, z))
    return np.where(z == 0.0, x / np.abs(z), (x + y * (0.0 / z)) * (1.0 / z))[()]


def fraction_imag(x, y, z):
    """The imaginary part of (x + iy) / z."""
    z = np.asarray(z, np.result_type(x, z))
    return np.where(z == 0.0, y / np.abs(z), (y - x * (0.0 / z)) * (1.0 / z))[()]


def ratio_real(x, y, z):
    """The real part of x / (y + iz), by NumPy's quotient."""
    return _ratio(x, y, z).real


def ratio_imag(x, y, z):
    """The imaginary part of x / (y + iz)."""
    return _ratio(x, y, z).imag


def _ratio(x, y, z):
    return np.divide(x, complex_of(y, z))


def phase(x, y):
    """The angle of x + iy."""
    return np.arctan2(y, x)

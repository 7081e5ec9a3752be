"""Fourier transforms of recorded operands, composed of those of pairs along one axis.

Axes are negative; `power` is as in `fourier_rows`.
"""

from __future__ import annotations

import numpy as np

from ..tensor import runtime as rt
from ..tensor.complex_tensors import ComplexTensor, combined, imag_part, is_complex, real_part
from ..tensor.trace import steered, tensor_like
from ..tensor.values import FLOATS, current, dtype_of, shape_of
from .fourier_rows import along, complex_fourier, hermitian_fourier, real_fourier
from .joining import concatenate
from .shapes import shown


def pairs_of(z):
    """A complex value as a real one whose last axis holds the parts: a view if possible."""
    re, im = real_part(z), imag_part(z)
    if type(z) is not ComplexTensor:
        return np.stack([re, im], -1)
    joint = _side_by_side(re, im)
    return np.stack([floating(re), floating(im)], -1) if joint is None else shown(re, joint)


def _side_by_side(re, im) -> np.ndarray | None:
    """The array of both parts, if they are one row of pairs."""
    if type(re) is not rt.Array or type(im) is not rt.Array:
        return None
    a, b = current(re)._array, current(im)._array
    if re._id < 0 or re._id != im._id or a.strides != b.strides or not a.size:
        return None
    if b.ctypes.data - a.ctypes.data != a.itemsize:
        return None
    return np.lib.stride_tricks.as_strided(a, (*a.shape, 2), (*a.strides, a.itemsize))


def complex_of(pairs):
    """Pairs as a complex value, whose parts are views."""
    return combined(pairs[..., 0], pairs[..., 1])


def floating(x):
    """A real operand in one of the dtypes that transforms compute in."""
    dtype = dtype_of(x)
    if dtype in FLOATS:
        return x
    wanted = np.float32 if dtype == np.float16 else np.float64
    return tensor_like(steered(np.asarray, x, dtype=wanted), x)


def conjugate(pairs):
    """The complex conjugates of pairs."""
    return pairs * np.array([1.0, -1.0], dtype_of(pairs))


def frequencies(x, n: int, axis: int, power: int):
    """The frequencies of real signals, up to half of all, in pairs."""
    return real_fourier(x, n=n, axis=axis, kept=n // 2 + 1, power=power)


def signals(pairs, n: int, axis: int, power: int):
    """Real signals of such frequencies."""
    return hermitian_fourier(pairs, n=n, axis=axis, kept=n, power=power)


def transformed(pairs, n: int, axis: int, power: int, inverse: bool):
    """All frequencies of complex signals, or signals of frequencies; in pairs."""
    return complex_fourier(pairs, n=n, axis=axis, kept=n, power=power, inverse=inverse)


def transformed_real(x, n: int, axis: int, power: int, inverse: bool):
    """The same of real ones: half of them are the conjugates of the others."""
    half = frequencies(x, n, axis, power)
    others = half[along(axis - 1, slice((n - 1) // 2, 0, -1))]
    if inverse:
        half = half * _signs(half, n, axis)
    else:
        others = conjugate(others)
    return concatenate([half, others], axis=axis - 1) if n > 2 else half


def _signs(half, n: int, axis: int) -> np.ndarray:
    """Those that conjugate frequencies of a real signal; real ones keep the imaginary part +0."""
    made = np.ones((n // 2 + 1, 2), dtype_of(half))
    made[1 : (n + 1) // 2, 1] = -1.0
    shape = [1] * len(shape_of(half))
    shape[axis - 1], shape[-1] = made.shape
    return made.reshape(shape)


# --- several axes ---------------------------------------------------------------------------------


def _paired(x):
    """A complex or a real operand as pairs."""
    if is_complex(x):
        return pairs_of(x)
    x = floating(x)
    return np.stack([x, np.zeros(shape_of(x), dtype_of(x))], -1)


def all_frequencies(x, sizes, axes, power: int, inverse: bool = False):
    """The transform of `x` along axes, cut off or continued by zeros to these sizes."""
    is_paired = is_complex(x)
    made = pairs_of(x) if is_paired else floating(x)
    for n, axis in [*zip(sizes, axes, strict=True)][::-1]:
        step = transformed if is_paired else transformed_real
        made, is_paired = step(made, n, axis, power, inverse), True
    return complex_of(made) if axes else x


def half_frequencies(x, sizes, axes, power: int, conjugated: bool = False):
    """The transform of a real `x`, along the last of the axes up to half of the frequencies."""
    made = frequencies(floating(x), sizes[-1], axes[-1], power)
    for n, axis in [*zip(sizes[:-1], axes[:-1], strict=True)][::-1]:
        made = transformed(made, n, axis, power, False)
    found = complex_of(made)
    return combined(found._re, -found._im) if conjugated else found


def real_signals(x, sizes, axes, power: int, conjugated: bool = False):
    """The real signals of these sizes of such frequencies, or of their complex conjugates."""
    made = _paired(x)
    if conjugated:
        made = conjugate(made)
    for n, axis in zip(sizes[:-1], axes[:-1], strict=True):
        made = transformed(made, n, axis, power, True)
    return signals(made, sizes[-1], axes[-1], power)

"""Fourier transforms under NumPy's names: `np.fft`, of real and complex tensors."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable

import numpy as np

from ..tensor import runtime as rt
from ..tensor.conversions import written
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import PUBLIC, alike, function
from ..tensor.trace import steered, tensor_like
from ..tensor.values import (
    FLOATS,
    ComplexTensor,
    combined,
    current,
    dtype_of,
    imag_part,
    is_complex,
    is_recorded,
    is_tensor,
    real_part,
    records,
    shape_of,
    value_of_complex,
    wrap,
)
from .fourier_rows import (
    FORWARD_NORMS,
    INVERSE_NORMS,
    along,
    complex_fourier,
    hermitian_fourier,
    real_fourier,
)
from .joining import concatenate
from .shapes import shown

# --- Fourier transforms of recorded operands, composed of those of pairs along one axis -----------
# Axes are negative; `power` is as in `fourier_rows`.


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


# --- Fourier transforms under NumPy's names: `np.fft`, of real and complex tensors ----------------


# --- arguments ------------------------------------------------------------------------------------


def _power(norm, inverse: bool) -> int:
    """The number of a norm for rows; ValueError where NumPy raises it."""
    norm = "backward" if norm is None else norm
    if norm not in FORWARD_NORMS:
        raise ValueError(f"Invalid norm value {norm}; should be 'backward', 'ortho' or 'forward'")
    return (INVERSE_NORMS if inverse else FORWARD_NORMS).index(norm)


def _axis(axis, ndim: int) -> int:
    """An axis, counted from the end."""
    return np.lib.array_utils.normalize_axis_index(operator.index(axis), ndim) - ndim


def _points(n, default: int) -> int:
    """The number of points of a transform."""
    n = default if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def _parts_of(x) -> tuple:
    return (x._re, x._im) if type(x) is ComplexTensor else (x,)


def _is_plain(x) -> bool:
    """Whether nothing of an operand is recorded."""
    return not records(*_parts_of(x))


def _unrecorded(numpy_function, x, *arguments):
    """NumPy's result for a value, as a tensor if it was one."""
    made = numpy_function(value_of_complex(x), *arguments)
    if not is_tensor(x) and type(x) is not ComplexTensor:
        return made
    if made.dtype.kind != "c":
        return wrap(made)
    return combined(wrap(made.real.copy()), wrap(made.imag.copy()))


def _written(name: str, made, out):
    """A result; in `out` where that is given."""
    if out is None:
        return made
    if not is_tensor(out) and type(out) is not ComplexTensor and not isinstance(out, np.ndarray):
        raise TypeError(f"tapegrad.{name}: out is {type(out).__name__}; it must be an array")
    if shape_of(out) != shape_of(made) if not is_complex(made) else out.shape != made.shape:
        raise ValueError(f"tapegrad.{name}: output array has wrong shape.")
    if not is_complex(made):
        return written_to(name, made, out)
    if type(out) is ComplexTensor or not any(map(is_recorded, _parts_of(made))):
        out[...] = made if type(out) is ComplexTensor else value_of_complex(made)
        return out
    raise written(made, f".{name}: out=")


def _sizes(shape: tuple[int, ...], s, axes, halved: bool = False) -> tuple[list, list]:
    """Sizes and axes of a transform along several axes, as in NumPy, with its warnings.

    `halved`: frequencies are given up to half of all.
    """
    given = s is not None
    if axes is None:
        if given:
            warnings.warn(_WITHOUT_AXES, DeprecationWarning, stacklevel=4)
        count = len(s) if given else len(shape)
        axes = range(-count, 0)
    axes = list(axes)
    sizes = list(s) if given else [shape[axis] for axis in axes]
    if len(sizes) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    axes = [_axis(axis, len(shape)) for axis in axes]
    own = [shape[axis] for axis in axes]
    sizes = [size if n == -1 else n for n, size in zip(sizes, own, strict=True)]
    own[-1:] = [_own_size(size, halved) for size in own[-1:]]
    if not given:
        sizes = own
    elif None in sizes:
        warnings.warn(_WITHOUT_SIZE, DeprecationWarning, stacklevel=4)
    return [_points(n, size) for n, size in zip(sizes, own, strict=True)], axes


_WITHOUT_AXES = (
    "`axes` should not be `None` if `s` is not `None` (Deprecated in NumPy 2.0): pass a sequence "
    "[0, ..., k-1] to `axes` for an array of dimension k."
)
_WITHOUT_SIZE = (
    "Passing an array containing `None` values to `s` is deprecated in NumPy 2.0: use -1 for all "
    "of an axis."
)


def _check_real(x) -> None:
    if is_complex(x):
        raise TypeError("the operand is complex, and must be real; use fft or ifft, or give z.real")


def _named(name: str, error: Exception) -> Exception:
    """An error of arguments under the name of a function."""
    kinds = (np.exceptions.AxisError, ValueError, IndexError, TypeError)
    kind = next(kind for kind in kinds if isinstance(error, kind))
    return kind(f"tapegrad.{name}: {error}")


# --- along one axis -------------------------------------------------------------------------------


def _along(name: str, x, n, axis, norm, out):
    """One of the six transforms along an axis, by its name."""
    x = unlisted(x)
    if _is_plain(x):
        return _written(name, _unrecorded(getattr(np.fft, name), x, n, axis, norm), out)
    try:
        if name in ("rfft", "ihfft"):
            _check_real(x)
        if not x.shape:
            raise IndexError("the operand has no axis")
        axis, power = _axis(axis, x.ndim), _power(norm, name in ("ifft", "irfft", "ihfft"))
        n = _points(n, _own_size(x.shape[axis], name in ("irfft", "hfft")))
    except (ValueError, IndexError, TypeError) as error:
        raise _named(name, error) from None
    return _written(name, _ALONG[name](x, [n], [axis], power), out)


def _own_size(size: int, halved: bool) -> int:
    """The number of points for a number of elements."""
    return 2 * (size - 1) if halved else size


_ALONG: dict[str, Callable] = {
    "fft": all_frequencies,
    "ifft": functools.partial(all_frequencies, inverse=True),
    "rfft": half_frequencies,
    "irfft": real_signals,
    "hfft": functools.partial(real_signals, conjugated=True),
    "ihfft": functools.partial(half_frequencies, conjugated=True),
}


@function("fft.fft", complex=alike)
def fft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the discrete Fourier transform along an axis.

    Parameters
    ----------
    norm : {"backward", "ortho", "forward"}, optional
        "backward" scales the inverse transform by 1/n, "ortho" both by 1/√n, "forward" this one
        by 1/n.

    Returns
    -------
    ComplexTensor or ndarray
        The frequencies; complex64 for operands in float32.

    Raises
    ------
    ValueError
        If `n` is less than 1, or `norm` is not known.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(np.array([1.0, 2.0, 3.0]))
    array([ 6., 12., 18.])
    """
    return _along("fft", a, n, axis, norm, out)


@function("fft.ifft", complex=alike)
def ifft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the inverse of `fft` along an axis.

    Returns
    -------
    ComplexTensor or ndarray
    """
    return _along("ifft", a, n, axis, norm, out)


@function("fft.rfft", complex=alike)
def rfft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the frequencies 0, …, n // 2 of the discrete Fourier transform of a real signal.

    Returns
    -------
    ComplexTensor or ndarray

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: np.fft.rfft(x)[1].imag)(np.zeros(4))
    array([ 0., -1.,  0.,  1.])
    """
    return _along("rfft", a, n, axis, norm, out)


@function("fft.irfft", complex=alike)
def irfft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the inverse of `rfft`, a real signal.

    The imaginary parts of the first and, for even `n`, of the last frequency are treated as 0, as
    in NumPy, and have derivative 0.

    Parameters
    ----------
    n : int, optional
        The size of the signal; by default 2·(m − 1) for m frequencies.
    """
    return _along("irfft", a, n, axis, norm, out)


@function("fft.hfft", complex=alike)
def hfft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the real frequencies of a signal with Hermitian symmetry.

    Parameters
    ----------
    a : array_like
        The first half of the signal.
    n : int, optional
        The number of frequencies; by default 2·(m − 1) for m elements.
    """
    return _along("hfft", a, n, axis, norm, out)


@function("fft.ihfft", complex=alike)
def ihfft(a, n=None, axis=-1, norm=None, out=None):
    """Compute the inverse of `hfft`, the first half of a signal.

    Returns
    -------
    ComplexTensor or ndarray
    """
    return _along("ihfft", a, n, axis, norm, out)


# --- along several axes ---------------------------------------------------------------------------


def _several(name: str, x, s, axes, norm, out):
    """One of the transforms along several axes, by its name."""
    x, kind = unlisted(x), name.rstrip("2n")
    if _is_plain(x):
        return _written(name, _unrecorded(getattr(np.fft, name), x, s, axes, norm), out)
    try:
        if kind == "rfft":
            _check_real(x)
        sizes, axes = _sizes(x.shape, s, axes, kind == "irfft")
        if not axes and kind in ("rfft", "irfft"):
            raise IndexError("at least one axis must be transformed")
        power = _power(norm, kind in ("ifft", "irfft"))
    except (ValueError, IndexError, TypeError) as error:
        raise _named(name, error) from None
    return _written(name, _ALONG[kind](x, sizes, axes, power), out)


def _along_several(name: str, doc: str, axes: tuple[int, ...] | None = None) -> Callable:
    """The function for a transform along several axes, by default some of them or all."""

    def transform(a, s=None, axes=axes, norm=None, out=None):
        return _several(name, a, s, axes, norm, out)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return function(f"fft.{name}", complex=alike)(transform)


_AXES = (
    "\n\nParameters\n----------\naxes : sequence of ints, optional\n    The axes of the transform."
)
_COMPLEX = "\n\nReturns\n-------\nComplexTensor or ndarray"
fftn = _along_several(
    "fftn",
    "Compute the discrete Fourier transform along several axes, by default all." + _COMPLEX,
)
ifftn = _along_several("ifftn", "Compute the inverse of `fftn`." + _COMPLEX)
rfftn = _along_several(
    "rfftn",
    "Compute `fftn` of real signals, with half of the frequencies along the last axis." + _COMPLEX,
)
irfftn = _along_several(
    "irfftn",
    "Compute the inverse of `rfftn`, real signals.\n\n"
    "Without `s` there are 2·(m − 1) elements along the last axis, for m frequencies.",
)
fft2, ifft2, rfft2, irfft2 = [
    _along_several(f"{kind}2", f"Compute `{kind}n` along two axes.{_AXES}{returns}", (-2, -1))
    for kind, returns in (("fft", _COMPLEX), ("ifft", _COMPLEX), ("rfft", _COMPLEX), ("irfft", ""))
]


# --- order of the frequencies ---------------------------------------------------------------------


def _rolled(x, axes, sign: int):
    x = unlisted(x)
    shape = np.shape(value_of_complex(x))
    axes = tuple(range(len(shape)) if axes is None else np.atleast_1d(axes).tolist())
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        name = "fftshift" if sign > 0 else "ifftshift"
        raise IndexError(
            f"tapegrad.{name}: axes is {axes}; an operand of shape {shape} does not have these axes"
        )
    shift = [shape[axis] // 2 if sign > 0 else -(shape[axis] // 2) for axis in axes]
    return PUBLIC["roll"](x, shift, axes)


@function("fft.fftshift", complex=alike)
def fftshift(x, axes=None):
    """Shift frequency 0 to the middle of each axis.

    Parameters
    ----------
    axes : int or tuple of ints, optional
        The axes; by default all.
    """
    return _rolled(x, axes, 1)


@function("fft.ifftshift", complex=alike)
def ifftshift(x, axes=None):
    """Shift elements back; the inverse of `fftshift`.

    Parameters
    ----------
    axes : int or tuple of ints, optional
        The axes; by default all.
    """
    return _rolled(x, axes, -1)

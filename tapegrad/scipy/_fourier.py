"""SciPy's `fft` for recorded values: transforms, with SciPy's arguments and errors."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import fourier_transforms as pairs
from .._core.operations.fourier_rows import cosine_transform
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import lost_derivative
from .._core.tensor.values import combined, imag_part, is_complex, real_part
from ._copied_code import copy_of
from ._differentiable import OURS

_NORMS = (None, "backward", "ortho", "forward")


# --- arguments ------------------------------------------------------------------------------------


def _power(norm, inverse: bool) -> int:
    """The number of a norm for rows."""
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')
    power = max(_NORMS.index(norm) - 1, 0)
    return 2 - power if inverse else power


def _check_others(workers, plan=None) -> None:
    """`workers` is accepted and ignored; there are no plans, as in SciPy."""
    if workers is not None and operator.index(workers) == 0:
        raise ValueError("workers must not be zero")
    if plan is not None:
        raise NotImplementedError(
            "Passing a precomputed plan is not yet supported by scipy.fft functions"
        )


def _integers(values, name: str) -> list[int]:
    try:
        return [operator.index(one) for one in (values if np.iterable(values) else (values,))]
    except TypeError:
        raise ValueError(f"{name} must be a scalar or iterable of integers") from None


def _sizes(shape, s, axes, own=None) -> tuple[list[int], list[int]]:
    """Sizes and negative axes of a transform; `own` is the last size where none is given."""
    ndim = len(shape)
    if axes is not None:
        axes = _integers(axes, "axes")
        axes = [axis - ndim if axis >= 0 else axis for axis in axes]
        if any(not -ndim <= axis < 0 for axis in axes):
            raise ValueError("axes exceeds dimensionality of input")
        if len(set(axes)) != len(axes):
            raise ValueError("all axes must be unique")
    if s is None:
        axes = list(range(-ndim, 0)) if axes is None else axes
        sizes = [shape[axis] for axis in axes]
        if own is not None and axes:
            sizes[-1] = own(sizes[-1])
    else:
        sizes = _integers(s, "shape")
        if axes and len(axes) != len(sizes):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
        if axes is None:
            if len(sizes) > ndim:
                raise ValueError("shape requires more axes than are present")
            axes = list(range(-len(sizes), 0))
        sizes = [shape[axis] if n == -1 else n for n, axis in zip(sizes, axes, strict=True)]
    if any(n < 1 for n in sizes):
        raise ValueError(f"invalid number of data points ({sizes}) specified")
    return sizes, axes


def _along(shape, n, axis, own=None) -> tuple[list[int], list[int]]:
    """The same for one axis, which SciPy's functions of one axis name by `n` and `axis`."""
    size = shape[axis]  # IndexError where SciPy has it
    axis = operator.index(axis)
    axis -= len(shape) if axis >= 0 else 0
    n = (size if own is None else own(size)) if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    return [n], [axis]


def _half(count: int) -> int:
    """The number of real elements for a number of frequencies."""
    return 2 * (count - 1)


# --- Fourier transforms ---------------------------------------------------------------------------

#: By the name without the number of axes: the function that computes it, whether it scales as an
#: inverse does, whether it takes real operands only, and whether frequencies up to half are its
#: operand.
_KINDS: dict[str, tuple[Callable, bool, bool, bool]] = {
    "fft": (pairs.all_frequencies, False, False, False),
    "ifft": (functools.partial(pairs.all_frequencies, inverse=True), True, False, False),
    "rfft": (pairs.half_frequencies, False, True, False),
    "irfft": (pairs.real_signals, True, False, True),
    "hfft": (functools.partial(pairs.real_signals, conjugated=True), False, False, True),
    "ihfft": (functools.partial(pairs.half_frequencies, conjugated=True), True, True, False),
}


def _transform(name: str, sizes: Callable):
    """A SciPy function for recorded values."""
    kind = name.rstrip("2n")
    compute, inverse, is_of_real, is_of_half = _KINDS[kind]
    own = _half if is_of_half else None

    def function(x, s, axes, norm, workers, plan):
        _check_others(workers, plan)
        x, power = unlisted(x), _power(norm, inverse)
        if is_of_real and is_complex(x):
            raise TypeError("x must be a real sequence")
        n, places = sizes(x.shape, s, axes, own)
        if not places and (is_of_real or is_of_half):
            raise ValueError("at least 1 axis must be transformed")
        return compute(x, n, places, power)

    return _with_signature(name, function)


@functools.cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(importlib.import_module("scipy.fft"), name))


def _with_signature(name: str, function: Callable):
    """A function with the parameters of the SciPy function of a name."""

    def ours(*args, **kwargs):
        bound = _signature(name).bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments.pop("overwrite_x")
        return function(*bound.arguments.values())

    ours.__name__ = name
    OURS[f"fft.{name}"] = ours
    return ours


for _kind in _KINDS:
    _transform(_kind, _along)
    _transform(f"{_kind}2", _sizes)
    _transform(f"{_kind}n", _sizes)
OURS["fft.fftshift"], OURS["fft.ifftshift"] = PUBLIC["fftshift"], PUBLIC["ifftshift"]


# --- cosine and sine transforms -------------------------------------------------------------------


def _real_transform(name: str, sizes: Callable):
    """The same of a cosine or sine transform."""
    inverse, sine = name.startswith("i"), "st" in name

    def function(x, kind, s, axes, norm, workers, orthogonalize):
        _check_others(workers)
        x = unlisted(x)
        n, places = sizes(x.shape, s, axes)
        if is_complex(x):  # whose parts SciPy transforms by `norm` alone
            parts = [
                function(p(x), kind, s, axes, norm, None, None) for p in (real_part, imag_part)
            ]
            return combined(*parts)
        number = operator.index(kind)
        number = {2: 3, 3: 2}.get(number, number) if inverse else number
        is_orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
        static = _ends(number, sine, is_orthogonal) | {"power": _power(norm, inverse)}
        x = pairs.floating(x)
        for size, axis in zip(n, places, strict=True):
            x = cosine_transform(x, n=size, axis=axis, kept=size, kind=number, sine=sine, **static)
        return x

    return _with_signature(name, function)


def _ends(kind: int, sine: bool, orthogonalized: bool) -> dict[str, int]:
    """The correction of the orthogonal transform at its ends."""
    if not orthogonalized or kind == 4 or (sine and kind == 1):
        return {}
    return {1: {"before": 1, "after": -1}, 2: {"after": -1}, 3: {"before": 1}}.get(kind, {})


for _name in ("dct", "idct", "dst", "idst"):
    _real_transform(_name, _along)
    _real_transform(f"{_name}n", _sizes)


# --- logarithmic scales ---------------------------------------------------------------------------


def _hankel(name: str):
    """A Hankel transform of logarithmic scales, by SciPy's own code, linear in its operand."""

    def function(a, dln, mu, offset=0.0, bias=0.0):
        if not none_traced((dln, mu, offset, bias)):
            raise lost_derivative(
                f"tapegrad.scipy.fft.{name}: one of dln, mu, offset and bias is recorded; the "
                "transform has a derivative to its first argument only, give plain numbers",
                (dln, mu, offset, bias),
            )
        theirs = importlib.import_module("scipy.fft._fftlog_backend")
        return copy_of(getattr(theirs, name))(a, dln, mu, offset, bias)

    OURS[f"fft.{name}"] = function


_hankel("fht")
_hankel("ifht")

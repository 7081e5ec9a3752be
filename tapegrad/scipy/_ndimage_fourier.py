"""SciPy's `ndimage` for recorded values: filters of Fourier transforms, which are products."""

from __future__ import annotations

import functools
import inspect
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_recorded, none_traced
from .._core.tensor.trace import lost_derivative, tensor_like
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._differentiable import OURS
from ._ndimage_arguments import answer, axis_of, numbers_of, of_scipy, plain


def _frequencies(shape, n: int, axis: int) -> list[np.ndarray]:
    """The frequencies along each axis, of which one may be that of a real transform of n points."""
    found = []
    for k, count in enumerate(shape):
        is_half = n >= 0 and k == axis
        one = np.arange(count) / n if is_half else np.fft.fftfreq(count) if count else np.zeros(0)
        found.append(one.reshape(-1, *[1] * (len(shape) - 1 - k)))
    return found


def _product(factor):
    """What multiplies a transform: the product of factors of the axes."""

    def made(shape, sizes, n: int, axis: int):
        pairs = zip(sizes, _frequencies(shape, n, axis), strict=True)
        return functools.reduce(operator.mul, [factor(*pair) for pair in pairs])

    return made


def _turn(shift, frequency):
    """exp(−2πi f s) of a recorded s."""
    angle = -2.0 * np.pi * frequency * shift
    return PUBLIC["cos"](angle) + 1j * PUBLIC["sin"](angle)


#: By name: what multiplies a transform where the size, as SciPy calls it, is recorded.
_FACTORS = {
    "gaussian": _product(lambda s, f: PUBLIC["exp"](-2.0 * np.pi**2 * (s * f) ** 2)),
    "uniform": _product(lambda s, f: PUBLIC["sinc"](s * f)),
    "shift": _product(_turn),
}


def _result_dtype(name: str, made, image, output) -> np.dtype:
    """The dtype of a result, which is complex if the transform or the factor is."""
    if output is not None and type(output) is not type:
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: output is an array, in which the derivative would be "
            "lost; use the result, or give a type",
            image,
        )
    kinds = (np.complex64, np.complex128) if is_complex(made) else (np.float32, np.float64)
    if output is None:  # that of the transform, if it can be
        return np.dtype(kinds[0] if dtype_of(image) == kinds[0] else kinds[1])
    if output not in (*kinds, np.complex64, np.complex128):
        raise RuntimeError("output type not supported")
    return np.dtype(output)


def _enter(kind: str) -> None:
    name = f"fourier_{kind}"
    signature = inspect.signature(of_scipy(name))

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if none_recorded(given.values()):
            return tensor_like(answer(name, given))
        image, size, n, axis, output = given.values()
        image, n = unlisted(image), plain(name, "n", n)
        ndim, shape = len(shape_of(image)), shape_of(image)
        if kind == "ellipsoid" or none_traced((size,)):
            factor = of_scipy(name)(np.ones(shape), plain(name, "size", size), n, axis)
        else:
            factor = _FACTORS[kind](shape, numbers_of(size, ndim), n, axis_of(axis, ndim) + ndim)
        made = (image if is_tensor(image) or is_complex(image) else np.asarray(image)) * factor
        dtype = _result_dtype(name, made, image, output)
        return made if dtype_of(made) == dtype else made.astype(dtype)

    OURS[f"ndimage.{name}"] = function


for _kind in ("gaussian", "uniform", "ellipsoid", "shift"):
    _enter(_kind)

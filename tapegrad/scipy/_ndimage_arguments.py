"""What functions of images take: images, dtypes of results, axes, modes, for `scipy.ndimage`."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Iterable

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations import image_filters as filters
from .._core.operations.image_filters import MODES
from .._core.tensor.complex_tensors import combined, imag_part, is_complex, real_part
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_recorded, none_traced
from .._core.tensor.trace import fixed, lost_derivative, named, steered, tensor_like
from .._core.tensor.values import dtype_of, is_tensor, shape_of
from ._differentiable import OURS

_DOUBLE, _SINGLE = np.dtype(np.float64), (np.float32, np.complex64)


def entered(*recorded: str, linear: bool = False) -> Callable:
    """A decorator of functions of images: other arguments than some may not be recorded.

    The function gets the first argument in double precision, and its result gets the dtype that
    SciPy's has. A `linear` one is applied to both parts of a complex image.
    """

    def enter(function):
        name, signature = function.__name__, inspect.signature(function)

        @functools.wraps(function)
        def of_images(*args, **kwargs):
            given = _bound(name, signature, args, kwargs)
            if none_recorded(given.values()):  # only choices, of a program
                return tensor_like(answer(name, given))
            for key, value in given.items():
                if key != "input" and key not in recorded:
                    given[key] = plain(name, key, value)
            return _of_parts(name, function, given, linear)

        OURS[f"ndimage.{name}"] = of_images
        return of_images

    return enter


def _bound(name: str, signature: inspect.Signature, args, kwargs) -> dict:
    """Arguments by name, with defaults."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    bound.apply_defaults()
    more = bound.arguments.pop("keywords", {})
    return {**bound.arguments, **more}


@named("ndimage.answer")
def _answer(*values, name, keys):
    """What a function of SciPy gives for values."""
    return of_scipy(name)(**dict(zip(keys, values, strict=True)))


def answer(name: str, given: dict):
    """The same, recorded as a choice in a program."""
    values = map(unlisted, given.values())
    return steered(_answer, *values, name=name, keys=tuple(given))


def of_scipy(name: str):
    return getattr(importlib.import_module("scipy.ndimage"), name)


def plain(name: str, key: str, value):
    """The value of an argument that may not be recorded; programs check that it stays."""
    if none_traced((value,)):
        return value
    if not none_recorded((value,)):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: {key} is recorded, and the result has no derivative "
            "to it here; give a plain value, such as x.detach().numpy()",
            value,
        )
    return fixed(unlisted(value), f"{key} of ndimage.{name}()")


def _of_parts(name: str, function, given: dict, linear: bool):
    """The result of a function for an image, or for the parts of a complex one, in its dtype."""
    image = given["input"] = unlisted(given["input"])
    if is_complex(image) and not linear:
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: the image is complex; give its real and imaginary "
            "parts, z.real and z.imag, one after the other",
            image,
        )
    both = is_complex(image) or is_complex(given.get("weights"))
    dtype, cval = result_dtype(name, image, given["output"], both), given.get("cval", 0.0)
    if shape_of(unlisted(cval)):
        raise TypeError(f"tapegrad.scipy.ndimage.{name}: cval is an array; it must be a number")
    if is_complex(cval) and not is_complex(image):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")
    working, parts = _working_dtype(dtype, given), []
    for part in (real_part, imag_part) if is_complex(image) else (None,):
        given["input"] = floats(part(image) if part else image, working)
        if "cval" in given and part:
            given["cval"] = part(cval) if is_complex(cval) else (cval, 0.0)[part is imag_part]
        parts.append(function(**given))
    made = parts[0]
    if len(parts) == 2:
        made = made + 1j * parts[1] if is_complex(made) else combined(*parts)
    return made if dtype_of(made) == dtype else made.astype(dtype)


def _working_dtype(dtype, given: dict) -> np.dtype:
    """The dtype that a function computes in: SciPy's is double, but programs cannot do both.

    So it is single where the result is, and all that is recorded.
    """
    is_single = dtype in _SINGLE and dtype_of(given["input"]) in _SINGLE
    for key, one in given.items():
        if is_single and key != "input" and not none_traced((one,)):
            is_of_pixels = key in ("weights", "structure", "cval")
            is_single = is_of_pixels and dtype_of(unlisted(one)) in _SINGLE
    return np.dtype(np.float32) if is_single else _DOUBLE


def floats(x, dtype=_DOUBLE):
    """An array or a tensor in double precision, or in single."""
    x = x if is_tensor(x) else PUBLIC["asarray"](x)
    return x if dtype_of(x) == dtype else x.astype(dtype)


def like(x, image):
    """Weights, or a value beyond the ends, in the dtype of an image."""
    return floats(unlisted(x), dtype_of(image))


def result_dtype(name: str, image, output, is_of_parts: bool) -> np.dtype:
    """The dtype of a result; that of the image by default, or a complex one like it."""
    if output is not None and not isinstance(output, (type, np.dtype, str)):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: output is an array, in which the derivative would be "
            "lost; use the result, or give a dtype",
            image,
        )
    dtype = np.dtype(dtype_of(image) if output is None else output)
    if is_of_parts:
        dtype = np.promote_types(dtype, np.complex64)
    if dtype.kind not in "fc":
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: the result has dtype {dtype}, which has no "
            "derivative; give the image as floats, or output=float",
            image,
        )
    return dtype


def root(x):
    """A square root with derivative 0 at 0, where images are flat."""
    is_flat = x == 0.0
    return PUBLIC["where"](is_flat, 0.0, PUBLIC["sqrt"](PUBLIC["where"](is_flat, 1.0, x)))


def axis_of(axis, ndim: int) -> int:
    """An axis, counted from the end."""
    return np.lib.array_utils.normalize_axis_index(operator.index(axis), ndim) - ndim


def axes_of(axes, ndim: int) -> list[int]:
    """Different axes, counted from the end; all of them for None."""
    if axes is None:
        return [*range(-ndim, 0)]
    found = list(axes) if isinstance(axes, Iterable) else [axes]
    for axis in found:
        if not -ndim <= operator.index(axis) < ndim:
            raise ValueError(f"specified axis: {axis} is out of range")
    found = [operator.index(axis) % ndim - ndim for axis in found]
    if len({*found}) != len(found):
        raise ValueError("axes must be unique")
    return found


def each(value, count: int) -> list:
    """An option of each axis, given for all of them or once."""
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    found = list(value)
    if len(found) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return found


def numbers_of(values, count: int):
    """Numbers of each axis, given one by one or for all."""
    values = unlisted(values)
    if is_tensor(values) and shape_of(values):
        values = [values[k] for k in range(shape_of(values)[0])]
    return each(values, count)


#: The same modes by other names, for filters.
_ALSO = {"grid-wrap": "wrap", "grid-mirror": "reflect", "grid-constant": "constant"}


def known_mode(mode) -> str:
    if not isinstance(mode, str) or _ALSO.get(mode, mode) not in MODES:
        raise RuntimeError("boundary mode not supported")
    return mode


def number_of(mode) -> int:
    """The number of a mode of filters."""
    return MODES.index(_ALSO.get(known_mode(mode), mode))


def along(x, weights, axis: int, mode, cval, origin=0):
    """A correlation with weights along an axis."""
    static = {"axis": axis, "ndim": len(shape_of(x)), "origin": operator.index(origin)}
    weights, cval = like(weights, x), like(cval, x)
    return filters.correlated(x, weights, cval, mode=number_of(mode), **static)

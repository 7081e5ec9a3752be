"""Errors for conversions of recorded tensors to plain arrays or numbers, which lose derivatives.

Each names the user's line, the function that refuses, and what works (see `refusal_advice`).
"""

from __future__ import annotations

import types

import numpy as np

from ..config import config
from . import callers, sparse_operands
from . import runtime as rt
from .packages import LEFT_OUT
from .refusal_advice import ARRAY_ALONE, KINDS, NUMBER_ALONE, OF_MATH, of_scipy
from .refused_derivatives import DerivativeLost, lost_derivative
from .registry import PUBLIC
from .scipy_names import class_with_derivative, has_derivative


class PlainAsked(TypeError):
    """The error that functions of `tapegrad.numpy` catch, where NumPy asks for a plain value."""


_TAKEN = (
    "tapegrad.numpy: an argument is recorded, and is taken as a plain array, in which its "
    "derivative would be lost; use other operations on it, or t.detach() if no derivative is needed"
)


def as_array(frame: types.FrameType, tensor) -> TypeError:
    """The error if a frame requests the array of a recorded tensor."""
    if callers.asks_for_stand_in(frame):
        return PlainAsked(_TAKEN)
    holder = callers.container_advice(frame)
    if holder is None:
        if sparse_operands.is_scaling(frame):
            return scaled(tensor)
        if (name := callers.function_of_scipy(frame)) is not None:
            return without_derivative(name, tensor)
        if callers.writes_item(frame):
            return written(tensor)
    if holder is not None:
        advice = KINDS["container"].format(holder)
    elif (in_package := _of_package()) is not None:
        advice = in_package
    elif callers.imports(callers.users_frame(), "tapegrad.numpy"):
        advice = KINDS["array beside the stand-in"]
    elif callers.has_loaded(frame, "dot"):
        advice = KINDS["dot"]
    else:
        advice = KINDS["array in entered code" if _is_entered() else "array"]
    return lost_derivative(
        "tapegrad: a recorded tensor cannot become a plain NumPy array, since its derivative would "
        f"be lost ({callers.users_line()}); {advice}; or use {ARRAY_ALONE}",
        tensor,
    )


def without_derivative(name: str, *operands) -> DerivativeLost:
    """The error of one of SciPy's functions, by its name below `scipy`."""
    of_class = class_with_derivative(name) if _is_entered() else None
    if of_class is not None:
        advice = KINDS["class in entered code"].format(of_class)
    elif has_derivative(name):
        kind = "package in entered code" if _is_entered() else "package"
        advice = KINDS[kind].format(name.partition(".")[0])
    else:
        advice = of_scipy(name)
    return lost_derivative(
        f"tapegrad: scipy.{name}() takes plain values, so the derivative of a recorded one would "
        f"be lost ({callers.users_line()}); {advice}; or use {ARRAY_ALONE}",
        *operands,
    )


def scaled(tensor) -> DerivativeLost:
    """The error where a sparse matrix of SciPy's is multiplied by a recorded number."""
    return lost_derivative(
        "tapegrad: a sparse matrix takes a recorded number on its left alone, as in t * A "
        f"({callers.users_line()}); {KINDS['sparse scaled']}",
        tensor,
    )


def written(value, name: str = "", kind: str = "") -> TypeError:
    """The error where a recorded value would be written to a plain array."""
    if not kind:
        has_stand_in = callers.imports(callers.users_frame(), "tapegrad.numpy") or _is_entered()
        beside = "write beside the stand-in" if rt.in_transform() else "write outside of transforms"
        kind = beside if has_stand_in else "write"
    return lost_derivative(
        f"tapegrad{name}: a recorded tensor cannot be written to a plain NumPy array "
        f"({callers.users_line()}), since its derivative would be lost; {KINDS[kind]}, or write "
        "t.detach() if no derivative is needed",
        value,
    )


def as_float(frame: types.FrameType, tensor, kind: str = "float") -> TypeError:
    """The error where a frame takes the number of a recorded tensor by float(), or another kind."""
    if callers.asks_for_stand_in(frame):
        return PlainAsked(_TAKEN)
    name, holder = callers.function_of_scipy(frame), callers.container_advice(frame)
    if callers.is_numbas(frame):
        return compiled_by_numba(tensor)
    if name is not None:
        return without_derivative(name, tensor)
    taken, advice = _taken(frame, f"{kind}()")
    advice = _of_package() or advice
    if holder is not None:
        advice = KINDS["container"].format(holder)
    return lost_derivative(
        f"tapegrad: {taken} of a recorded tensor loses its derivative inside a transform "
        f"({callers.users_line()}); {advice}, or {NUMBER_ALONE}",
        tensor,
    )


def by_json(tensor) -> TypeError:
    """The error where `json` writes a recorded value."""
    return lost_derivative(
        "tapegrad: json cannot write a recorded tensor, of which it would take the number alone "
        f"({callers.users_line()}); give float(tg.stop_gradient(t)), or t.detach().tolist() of an "
        "array",
        tensor,
    )


#: The name of the type of tensors in Numba's code.
OPAQUE = "a recorded value of tapegrad"


def compiled_by_numba(tensor) -> TypeError:
    """The error where Numba's code takes a recorded value."""
    advice = KINDS["entered compiled code" if config.enter else "compiled code"]
    return lost_derivative(
        "tapegrad: a function compiled by Numba takes plain values, so the derivative of a "
        f"recorded one would be lost ({callers.users_line()}); {advice}; or use {ARRAY_ALONE}",
        tensor,
    )


def _of_package() -> str | None:
    """What works where the code of an installed package takes a value, if functions are entered."""
    package = callers.package_of(callers.users_frame()) if config.enter else None
    if package is None:
        return None
    if package in LEFT_OUT:
        return KINDS["left out"].format(package, LEFT_OUT[package])
    return KINDS["in a package"].format(package)


def _taken(frame: types.FrameType, conversion: str) -> tuple[str, str]:
    """The function that takes the number at a frame, as far as known, and what works instead."""
    name, function = callers.function_of_math(frame), callers.library_function(frame)
    if function is not None:
        conversion = f"math.{name}()" if name is not None else conversion
        return f"{conversion}, called by {function}(),", KINDS["number in a library"]
    if name is not None:
        known = OF_MATH.get(name) or (f"np.{name}" if hasattr(np, name) else None)
        known = known or (f"tg.{name}" if name in PUBLIC else None)
        kind = ("math" if known else "other math") + " in entered code" * _is_entered()
        return f"math.{name}()", KINDS[kind].format(known, name)
    extension = callers.function_of_extension(frame)
    if extension is not None:
        return f"{extension}()", KINDS["number in an extension"]
    if callers.imports(callers.users_frame(), "tapegrad.numpy"):
        return conversion, KINDS["number beside the stand-in"]
    return conversion, KINDS["number in entered code" if _is_entered() else "number"]


def _is_entered() -> bool:
    """Whether the user's code that runs is entered, as far as it names NumPy and its like."""
    frame = callers.users_frame()
    if frame is None or not (config.enter and rt.in_transform()):
        return False
    held = frame.f_code.co_consts
    if any([callable(one) or isinstance(one, types.ModuleType) for one in held]):
        return True  # constants that only code with stand-ins has
    return not callers.names_any(frame, ("numpy", "math", "scipy"))

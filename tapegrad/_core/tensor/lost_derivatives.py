"""Conversions that would lose derivatives: their errors, and SciPy's sparse operands."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np

from .. import PACKAGE
from ..config import config
from . import callers
from . import runtime as rt
from .callers import (
    ARRAY_ALONE,
    KINDS,
    LEFT_OUT,
    NUMBER_ALONE,
    OF_MATH,
    class_with_derivative,
    has_derivative,
    of_scipy,
)
from .registry import PUBLIC
from .trace import DerivativeLost, lost_derivative

# --- SciPy's sparse matrices as operands of operators, where the other one is a tensor ------------
# They leave an operator to the other operand, as NumPy's protocol of operators has it, if NumPy can
# make no array of it but one of no axes, of an object.


#: What computes them, imported when it is first needed.
_OURS = f"{PACKAGE.name}.scipy._sparse_tensors"
#: The methods of SciPy's classes that are called by operators, or use them.
_OPERATORS = frozenset(
    "__matmul__ __rmatmul__ __mul__ __rmul__ __add__ __radd__ __sub__ __rsub__ __truediv__ "
    "dot".split()
)
#: What of them asks for an array, and leaves the operator to the other operand without one.
_ASKING = frozenset("_matmul_dispatch multiply _multiply_2d_with_broadcasting _divide".split())


def is_sparse(x) -> bool:
    """Whether a value is one of SciPy's sparse matrices, or one of `tapegrad.scipy.sparse`."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and module.issparse(x)


def by_operator(name: str, x, y):
    """An operator, by its name in Python, of a tensor and a sparse matrix, in any order.

    NotImplemented if none of the operands is a sparse matrix.
    """
    if is_sparse(y):
        return importlib.import_module(_OURS).operate(name, x, y, is_reflected=False)
    if is_sparse(x):
        return importlib.import_module(_OURS).operate(name, y, x, is_reflected=True)
    return NotImplemented


def left_by(frame: types.FrameType | None) -> bool:
    """Whether a frame, which asks for an array, is an operator of SciPy's sparse matrices."""
    method = ""
    if frame is None or frame.f_code.co_name not in _ASKING:
        return False
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse."):
        method, frame = frame.f_code.co_name, frame.f_back
    return method in _OPERATORS


def is_scaling(frame: types.FrameType | None) -> bool:
    """Whether a frame is called by the product of a sparse matrix and a number on the right.

    SciPy takes recorded numbers for numbers there, and does not leave the operator to them.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse."):
        if frame.f_code.co_name == "_mul_scalar":
            return True
        frame = frame.f_back
    return False


def left(tensor) -> np.ndarray:
    """The array of an operand that shall get the operator: it holds the operand itself."""
    made = np.empty((), object)
    made[()] = tensor
    return made


# --------------------------------------------------------------------------------------------------
# Errors for conversions of recorded tensors to plain arrays or numbers, which lose derivatives.
# Each names the user's line, the function that refuses, and what works (see `callers`).


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
        if is_scaling(frame):
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

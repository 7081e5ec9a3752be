"""Tensors converted to numbers, arrays and text, and derivatives that would be lost so."""

from __future__ import annotations

import hashlib
import importlib
import math
import sys
import types
import warnings

import numpy as np

from .. import PACKAGE
from ..config import config
from ..tape import store
from ..tape.workspace import dependence_of
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
from .trace import (
    DerivativeLost,
    is_differentiated,
    is_steering,
    learned,
    lost_derivative,
    named,
    refuse,
    steered,
    steering_tensor,
)
from .values import (
    Origin,
    Storage,
    Told,
    array_of,
    is_recorded,
    is_relied_on,
    storage_of,
    told_of,
    value_of,
    wrap,
)

# --- lost derivatives -----------------------------------------------------------------------------
# Conversions that would lose derivatives: their errors, and SciPy's sparse operands.


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


# --- conversions ----------------------------------------------------------------------------------
# Conversions of tensors to plain values: detach, arrays, Python's numbers, text.
#
# A number that Python converts, as in `math.sin(t)`, loses its derivative. Inside a transform that
# would be a wrong gradient, and is refused; for a tensor of the user it warns.


def detach(self):
    """Return a tensor with the same values and memory that is not recorded.

    Returns
    -------
    Tensor

    See Also
    --------
    item : One element as a Python number.
    """
    trace = rt.trace()
    if trace is not None and is_recorded(self):
        made = steering_tensor(np.array, self)
        if type(self) is rt.Array:
            trace.share(self._array, made._id)
        trace.detached.add(made._id)
        made._array.flags.writeable = False  # so that compiled code leaves writes to Python
        return made
    if type(self) is not rt.Array:
        return wrap(self._value)
    if trace is not None:
        trace.share(self._array, None)
    made = rt.wrap(self._array)
    if is_recorded(self):
        made._meta = Storage(self._array, Told(Origin(self)))
    elif is_relied_on(self):
        storage_of(made).tensor = told_of(self)
    return made


def numpy_value(self):
    """Return the values as a NumPy array, which shares memory.

    Returns
    -------
    ndarray

    Raises
    ------
    RuntimeError
        If the tensor is recorded; use `detach().numpy()`.
    """
    if learned(self, "numpy()") and (not is_recorded(self) or is_steering(self)):
        return array_of(self).view()
    if is_recorded(self):
        raise RuntimeError(
            "tapegrad.numpy: the tensor is recorded, so its derivative would be lost; use "
            "detach().numpy()"
        )
    return array_of(self).view()  # whose shape and dtype may be changed: rows have the other


def as_numpy_array(self, dtype=None, copy=None):
    """Convert to an array, for `np.asarray(t)`."""
    if is_recorded(self) and rt.is_recording():
        frame = sys._getframe(1)
        if callers.compares(frame):
            learned(self, "np.array_equal()")
            return np.array(array_of(self), dtype=dtype)
        if callers.is_stand_in(frame):
            raise as_array(frame, self)
        if callers.shows(frame, lambda: is_differentiated(self)):
            refuse("np.testing or Matplotlib reads values")
            return np.array(array_of(self), dtype=dtype)
        if not is_steering(self) and not has_outlived(self):
            if left_by(frame):
                return left(self)
            raise as_array(frame, self)
        learned(self, "np.asarray()")
    return np.array(array_of(self).view(), dtype=dtype, copy=copy)


def to_numpy(self):
    """Return the values as a NumPy array, for Matplotlib and pandas.

    Matplotlib also draws the values of recorded tensors, unless a transform differentiates them.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        If the tensor is recorded; use `detach().numpy()`.
    """
    if is_recorded(self) and callers.shows(sys._getframe(1), lambda: is_differentiated(self)):
        refuse("Matplotlib reads values")
        return np.array(array_of(self))
    return as_numpy_array(self)


#: The guard of a number that Python converts to an integer.
_ROUNDING = {int: np.trunc, math.trunc: np.trunc, math.floor: np.floor, math.ceil: np.ceil}


def has_outlived(tensor) -> bool:
    """Whether the transforms are over whose inputs a tensor depends on, and it on nothing else.

    If so, it is treated as its value. This is not tested while a transform is active in any thread.
    """
    if rt.transforming:
        return False
    inputs = list(store.input_slots)
    found, _ = dependence_of([tensor._id])
    return not any(map(found.has, inputs))


def _lossy(kind):
    """`float()`, `int()` or another of a tensor, which leave the derivative behind."""

    def method(self):
        value = value_of(self)
        if value.size != 1:
            raise TypeError(
                f"tapegrad: {kind.__name__}() needs a tensor with one element; the tensor has "
                f"shape {value.shape}"
            )
        frame = sys._getframe(1)
        recorded = is_recorded(self) and rt.is_recording() and not is_steering(self)
        compared = recorded and callers.compares(frame)
        if recorded and kind is float and not compared and callers.asks_for_stand_in(frame):
            raise as_float(frame, self)
        formatted = callers.formats(frame) or (
            recorded and callers.shows(frame, lambda: is_differentiated(self))
        )
        if recorded and not compared and not formatted and not has_outlived(self):
            _lose(self, kind, frame)
        whole = rt.trace() is not None and kind in _ROUNDING and value.dtype.kind == "f"
        seen = steered(_ROUNDING[kind], self) if whole else self
        learned(seen, "a format" if formatted else f"{kind.__name__}()")
        return kind(value.item())

    return method


def as_integer_ratio(number) -> tuple[int, int]:
    """Return the exact ratio of two integers that a number is.

    Returns
    -------
    tuple of int

    Raises
    ------
    TypeError
        Inside a transform that differentiates the number, as for `float()`.
    """
    return float(number).as_integer_ratio()


_integer_ratio = _lossy(as_integer_ratio)  # by it `statistics` reads numbers
_integer_ratio.__doc__ = as_integer_ratio.__doc__


def _hex(number) -> str:
    """Return the hexadecimal digits of a number.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        Inside a transform that differentiates the number, as for `float()`.
    """
    return float(number).hex()


_hex.__name__ = "hex"
_hexadecimal = _lossy(_hex)
_hexadecimal.__doc__ = _hex.__doc__


def _lose(tensor, kind, frame) -> None:
    """Refuse a loss of a derivative at a frame, or warn of it."""
    if callers.writes_item(frame) and callers.function_of_scipy(frame) is None:
        raise written(tensor)
    differentiated = is_differentiated(tensor)
    if differentiated and array_of(tensor).ndim:
        kind(array_of(tensor))  # of an array with axes NumPy may refuse it, too
    if kind is not int and differentiated:
        raise as_float(frame, tensor, kind.__name__)
    if differentiated or rt.trace() is None:
        warnings.warn(
            f"{kind.__name__}() of a recorded tensor loses its derivative "
            f"({callers.users_line()}); use tg.stop_gradient() if this is intended, or NumPy's "
            "functions on the tensor",
            RuntimeWarning,
            stacklevel=3,
        )


def _bool(self):
    value = value_of(self)
    if value.size != 1:
        raise ValueError(
            f"tapegrad: the truth of a tensor of shape {value.shape} is ambiguous; use any() or "
            "all()"
        )
    learned(steered(np.not_equal, self, 0) if value.dtype.kind == "f" else self, "bool()")
    return bool(value.item())


def _index(self):
    value = array_of(self)
    if value.ndim or value.dtype.kind not in "iu":
        raise TypeError("tapegrad: only integer tensors without axes can be used as an index")
    learned(self, "an index")
    return int(value)


def text_of_tensor(self) -> str:
    """The text of a tensor that is shown as one."""
    value = array_of(self)
    body = _shown(self, None)
    dtype = "" if value.dtype in (np.float64, np.int64, np.bool_) else f", dtype={value.dtype}"
    if not is_recorded(self) or has_outlived(self):
        return f"tensor({body}{dtype})"
    node = self.grad_fn
    grad = ", requires_grad=True" if node is None else f", grad_fn=<{node.name()}>"
    return f"tensor({body}{dtype}{grad})"


def _formatted(self, layout):
    if not layout:
        return str(self)
    if type(self) is rt.Array and self._array.ndim:
        raise TypeError(
            f"tapegrad: the format {layout!r} applies to numbers, but the tensor has shape "
            f"{array_of(self).shape}; use np.array2string(t, precision=…)"
        )
    return _shown(self, layout)


def note_text(tensor, layout) -> None:
    """Note that Python reads the text of a value, not all digits: programs round otherwise."""
    if rt.trace() is not None:
        learned(steered(_digest, tensor, layout=layout), "a format")


def _shown(tensor, layout) -> str:
    note_text(tensor, layout)
    return _text_of(array_of(tensor), layout)


def _text_of(value: np.ndarray, layout) -> str:
    if layout is None:
        return np.array2string(value, separator=", ", prefix="tensor(")
    return format(value[()], layout)


@named("conversions.digest")
def _digest(value, layout):
    """Two integers below 2^48 that no other text has."""
    found = hashlib.blake2b(_text_of(value, layout).encode(), digest_size=12).digest()
    return np.array([int.from_bytes(found[:6], "big"), int.from_bytes(found[6:], "big")])


def rounded(self, digits=None):
    """`round(t)`, an int, and `round(t, digits)`, whose derivative is zero."""
    if type(self) is rt.Array and self._array.ndim:
        raise TypeError(
            "tapegrad: round() needs a tensor with one element; the tensor has shape "
            f"{array_of(self).shape}: use np.round(t, digits)"
        )
    if digits is not None:
        return PUBLIC["round"](self, digits)
    if rt.trace() is not None:
        learned(steered(np.rint, self), "round()")
    return round(self._value if type(self) is rt.Scalar else self._array.item())


def _numba_type(self):
    """What Numba asks for when a compiled function is called.

    In functions that are entered it is a type that no function takes: Numba asks to compile for it.
    """
    if config.enter and rt.in_transform():
        return sys.modules["numba"].types.Opaque(OPAQUE)
    if not is_recorded(self) or not rt.is_recording():
        raise AttributeError("_numba_type_")
    raise compiled_by_numba(self)


METHODS = {
    "_numba_type_": property(_numba_type),
    "detach": detach,
    "numpy": numpy_value,
    "to_numpy": to_numpy,
    "__array__": as_numpy_array,
    "__float__": _lossy(float),
    "__int__": _lossy(int),
    "__complex__": _lossy(complex),
    "__floor__": _lossy(math.floor),
    "__ceil__": _lossy(math.ceil),
    "__trunc__": _lossy(math.trunc),
    "as_integer_ratio": _integer_ratio,
    "hex": _hexadecimal,
    "__bool__": _bool,
    "__index__": _index,
    "__format__": _formatted,
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)

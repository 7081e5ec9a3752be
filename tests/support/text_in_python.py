"""Generated text run by Python itself: what compiled code of it has to give.

Numbers are NumPy's, so that they divide by zero and overflow as those of C; memory is read and
written at addresses. Helpers are Python functions already, intrinsics get Python forms here.
"""

import ctypes
import types
from fractions import Fraction

import numpy as np
from scipy import special

from tapegrad._core.codegen import intrinsics, vector_math
from tapegrad._core.codegen.intrinsics import Intrinsic, helper


class Memory:
    """Numbers of a type at an address, by their index."""

    def __init__(self, kind, address):
        self.kind, self.address = kind, int(address)

    def at(self, index):
        size = ctypes.sizeof(self.kind)
        return self.kind.from_address(self.address + size * int(index))

    def __getitem__(self, index):
        value = self.at(index).value
        return np.float64(value) if isinstance(value, float) else value

    def __setitem__(self, index, value):
        self.at(index).value = value


def _loaded(kind):
    return lambda address, offset: Memory(kind, address + offset)[0]


def _stored(kind):
    def store(address, offset, value):
        Memory(kind, address + offset)[0] = value

    return store


def _rounded_once(x, y, z):
    if not np.isfinite(x * y + z):
        return x * y + z
    return np.float64(float(Fraction(x) * Fraction(y) + Fraction(z)))


_KINDS = {
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "u8": ctypes.c_uint8,
    "f64": ctypes.c_double,
    "f32": ctypes.c_float,
}
_FORMS = {
    **{f"load_{name}": _loaded(kind) for name, kind in _KINDS.items()},
    **{f"store_{name}": _stored(kind) for name, kind in _KINDS.items()},
    **{f"{name}s": lambda at, kind=kind: Memory(kind, at) for name, kind in _KINDS.items()},
    "sum_of": lambda total, part: total + part,
    "multiply_add": _rounded_once,
    "apart": lambda: None,
    "inside": lambda: None,
    "unaliased": lambda: None,
}
_BY_INTRINSIC = {getattr(intrinsics, name): form for name, form in _FORMS.items()}


def _mathematics(name):
    if name in ("erf", "erfc"):
        return getattr(special, name)
    return getattr(np, name, None) or getattr(special, name, None)  # None of one of ours


def in_python(given, name=""):
    """What Python runs in place of something that generated text names."""
    if isinstance(given, helper):
        function = given.py_func
        names = _Names(function.__globals__)
        made = types.FunctionType(function.__code__, names, function.__name__)
        return made
    if isinstance(given, Intrinsic):
        return _BY_INTRINSIC.get(given) or _mathematics(name)
    if given is vector_math:
        return _Mathematics()
    return given


class _Mathematics:
    def __getattr__(self, name):
        return in_python(getattr(vector_math, name), name)


class _Names(dict):
    """The names of a module, each as Python runs it."""

    def __init__(self, names):
        super().__init__({name: in_python_later(one, name) for name, one in names.items()})


def in_python_later(given, name):
    """A helper calls others, itself among them: they are made when they are called."""
    if isinstance(given, helper):
        return lambda *arguments: in_python(given)(*arguments)
    return in_python(given, name)


def functions_of(text):
    """The functions of a text, for Python."""
    names: dict = {}
    exec(text.replace("@helper\n", ""), names)
    made = {
        name: in_python_later(one, name)
        for name, one in names.items()
        if not isinstance(one, types.FunctionType)
    }
    names.update(made)
    return names

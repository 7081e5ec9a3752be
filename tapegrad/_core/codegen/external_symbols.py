"""C functions of SciPy that generated code names: found by the address in their capsules.

A loader runs before a text that contains its word is compiled or loaded from the cache, so that
SciPy is imported only when a kernel calls it.
"""

import ctypes
import functools
import importlib
import math
import re
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from . import compat

#: Word in the text of a kernel → function that names the symbols for it.
LOADERS: dict[str, Callable[[], object]] = {}
_done: set[str] = set()
#: The arguments that functions of BLAS, LAPACK and scipy.special are called with.
_KNOWN = re.compile(
    r"(char|int|__pyx_t_\w+_[ds]|__pyx_t_double_complex) \*|double|int __pyx_skip_dispatch"
)
_keep: list = []  # compiled code holds addresses only


def fortran_function(word: str, symbol: str, module: str, function: str, arity: int) -> None:
    """Let `word` in a text stand for a function of BLAS or LAPACK, linked as `symbol`."""
    LOADERS[word] = functools.partial(link_fortran, symbol, module, function, arity)


def link_fortran(symbol: str, module: str, function: str, arity: int) -> None:
    """Name a function of BLAS or LAPACK for compiled code."""
    wanted = f"scipy.linalg.cython_{module}", function
    if _has_signature(*wanted, arity):
        address = _pointer(_capsule(*wanted))
    else:
        by_python = importlib.import_module(f"scipy.linalg.{module}")
        address = _pointer(getattr(by_python, function)._cpointer)
    llvm.add_symbol(symbol, address)


def special_function(word: str, symbol: str, name: str, function: str) -> None:
    """Let `word` in a text stand for a function of scipy.special of one double."""

    def load():
        wanted = "scipy.special.cython_special", function
        if _has_signature(*wanted, 2):
            address = _pointer(_capsule(*wanted))
        else:
            called = _called(getattr(importlib.import_module("scipy.special"), name))
            _keep.append(called)
            address = ctypes.cast(called, ctypes.c_void_p).value
        llvm.add_symbol(symbol, address)

    LOADERS[word] = load


def _called(function):
    """A function of Python's as one for C, which returns NaN in place of an exception."""

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int)
    def call(x, _):
        try:
            with np.errstate(all="ignore"):
                return float(function(x))
        except Exception:
            return math.nan

    return call


def _capsule(module: str, function: str):
    return importlib.import_module(module).__pyx_capi__[function]


def _has_signature(module: str, function: str, arity: int) -> bool:
    """Whether a capsule holds a function of as many doubles, floats, characters and C ints."""

    def probe() -> bool:
        result, arguments = _name(_capsule(module, function)).decode().rstrip(")").split(" (", 1)
        kinds = arguments.split(", ")
        known = all(_KNOWN.fullmatch(kind) for kind in kinds)
        return known and len(kinds) == arity and result in ("void", "double")

    return compat.holds("scipy-capsules", probe, f"{module}.{function}")


def names_symbols(source: str) -> bool:
    """Whether a text of generated code needs symbols."""
    return any(word in source for word in LOADERS)


def load_symbols(source: str) -> None:
    """Name the symbols that a text of generated code needs."""
    for word, load in LOADERS.items():
        if word not in _done and word in source:
            _done.add(word)  # first: what is loaded may itself contain the word
            try:
                load()
            except BaseException:
                _done.discard(word)
                raise


def name_address(symbol: str, address: int) -> None:
    """Let compiled code call the function at an address by a name."""
    llvm.add_symbol(symbol, address)


def _name(capsule) -> bytes:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return name(capsule)


def _pointer(capsule) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, _name(capsule))

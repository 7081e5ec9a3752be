"""C functions of SciPy that generated code names: found by the address in their capsules.

A loader runs before a text that contains its word is compiled or loaded from the cache, so that
SciPy is imported only when a kernel calls it.
"""

import ctypes
import importlib
from collections.abc import Callable

import llvmlite.binding as llvm

#: Word in the text of a kernel → function that names the symbols it stands for.
LOADERS: dict[str, Callable[[], object]] = {}
_done: set[str] = set()


def from_capsule(word: str, symbol: str, module: str, function: str) -> None:
    """Let `word` in a text stand for a function of a Cython module, linked as `symbol`."""

    def load():
        capsule = importlib.import_module(module).__pyx_capi__[function]
        llvm.add_symbol(symbol, _pointer(capsule))

    LOADERS[word] = load


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
    """Let compiled code call what lies at an address by a name."""
    llvm.add_symbol(symbol, address)


def _pointer(capsule) -> int:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))

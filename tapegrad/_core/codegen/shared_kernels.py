"""Functions that all generated code shares: compiled once, and called by their symbols.

A group is compiled with the first text that calls one of its functions. Their arguments are words
and descriptors, whose words C takes one by one.
"""

import ctypes
import functools
import itertools
import string
from typing import Any

from . import machine_types as types
from .factory import compile_source
from .intrinsics import Intrinsic, c_function
from .machine_code import LOADERS, name_address
from .strided_memory import Matrix, Strided, Triangle, word_count, words_of
from .vector_math import OWN_BY_MODULE

_PART = (int, Strided, int, int, int, int)
#: By the module that defines them: their results, and what their arguments are, words or others.
GROUPS: dict[str, dict[str, tuple[str, tuple[Any, ...]]]] = {
    "adjoint_memory": {
        "cell": ("int64", (int, int)),
        "adjoint_buffer_memory": ("int64", (int, int, int)),
        "forget": ("void", (int, int)),
    },
    "strided_memory": {
        "strided_add": ("void", (int, Strided, int, int, int)),
        "block_of": ("void", _PART),
        "add_block": ("void", _PART),
    },
    "matrix_products": {"product_by_tiles": ("void", (Matrix, Matrix, Matrix, int, int))},
    "triangular_blocks": {
        "solve_triangle": ("int64", (Matrix, Triangle, int, int)),
        "cholesky_reverse": ("void", (int, int, int)),
    },
    "inverse_blocks": {"invert_factors": ("void", (int, int, int))},
    **{
        module: {name: ("float64", (float,) * count) for name, count in functions.items()}
        for module, functions in OWN_BY_MODULE.items()
    },
}


def _symbols(module: str) -> list[Intrinsic]:
    return [
        c_function(f"tapegrad_{name}", getattr(types, result)(*map(words_of, kinds)))
        for name, (result, kinds) in GROUPS[module].items()
    ]


cell, adjoint_buffer_memory, forget = _symbols("adjoint_memory")
strided_add, block_of, add_block = _symbols("strided_memory")
(product_by_tiles,) = _symbols("matrix_products")
solve_triangle, cholesky_reverse = _symbols("triangular_blocks")
(invert_factors,) = _symbols("inverse_blocks")


def _source(module: str) -> str:
    """The text of a module with one C function for each of a group."""
    lines = [f"from tapegrad._core.codegen import {module}"]
    lines.append("from tapegrad._core.codegen.strided_memory import Matrix, Strided, Triangle")
    for name, (_, kinds) in GROUPS[module].items():
        words = iter(string.ascii_lowercase)
        taken = [", ".join(itertools.islice(words, word_count(kind))) for kind in kinds]
        given = [
            text if kind in (int, float) else f"{kind.__name__}({text})"
            for kind, text in zip(kinds, taken, strict=True)
        ]
        lines += ["", "", f"def {name}({', '.join(taken)}):"]
        lines.append(f"    return {module}.{name}({', '.join(given)})")
    return "\n".join(lines) + "\n"


def _words(kinds) -> list[str]:
    """The types in C of arguments."""
    return [("float64" if kind is float else "int64") for kind in kinds for _ in _each(kind)]


def _each(kind) -> range:
    return range(word_count(kind))


@functools.cache
def compile_group(module: str) -> dict[str, int]:
    """Compile a group, if it has not been, and name its symbols; returns the addresses."""
    signatures = {
        name: f"{result}({', '.join(_words(kinds))})"
        for name, (result, kinds) in GROUPS[module].items()
    }
    addresses = compile_source(_source(module), signatures)
    for name, address in addresses.items():
        name_address(f"tapegrad_{name}", address)
    return addresses


@functools.cache
def compiled(name: str):
    """A function of a group, callable from Python; arguments are words."""
    module = next(module for module, functions in GROUPS.items() if name in functions)
    words = [ctypes.c_int64] * len(_words(GROUPS[module][name][1]))
    return ctypes.CFUNCTYPE(ctypes.c_int64, *words)(compile_group(module)[name])


for _group, _functions in GROUPS.items():
    for _name in _functions:
        LOADERS[f"tapegrad_{_name}"] = functools.partial(compile_group, _group)

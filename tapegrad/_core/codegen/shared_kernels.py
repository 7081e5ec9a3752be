"""Functions that all generated code shares: compiled once, and called by their symbols.

A group is compiled with the first text that calls one of its functions.
"""

import ctypes
import functools
import string
from collections.abc import Callable

import llvmlite.binding as llvm
from numba import types

from .external_symbols import LOADERS
from .factory import compile_source
from .intrinsics import c_function

#: By the module that defines them: their results and numbers of arguments, all words.
GROUPS = {
    "adjoint_memory": {"cell": ("int64", 2), "mirror_memory": ("int64", 3), "forget": ("void", 2)},
    "strided_sums": {"strided_add": ("void", 8), "block_of": ("void", 9), "add_block": ("void", 9)},
    "matmul_tiles": {"product_by_tiles": ("void", 13)},
    "triangular_blocks": {"solve_triangle": ("int64", 9), "cholesky_reverse": ("void", 3)},
    "inverse_blocks": {"invert_factors": ("void", 3)},
}
#: The calls of a group to others: the words in its text that have loaders.
_CALLED = {
    "triangular_blocks": "blas_dgemm, blas_dtrsm, blas_dtrsv",
    "inverse_blocks": "blas_dgemm, blas_dtrmm, blas_dtrsm",
}


def _symbols(module: str) -> list[Callable]:
    return [
        c_function(f"tapegrad_{name}", getattr(types, result)(*[types.int64] * arity))
        for name, (result, arity) in GROUPS[module].items()
    ]


cell, mirror_memory, forget = _symbols("adjoint_memory")
strided_add, block_of, add_block = _symbols("strided_sums")
(product_by_tiles,) = _symbols("matmul_tiles")
solve_triangle, cholesky_reverse = _symbols("triangular_blocks")
(invert_factors,) = _symbols("inverse_blocks")


def _source(module: str) -> str:
    """The text of a module with one C function for each of a group."""
    lines = [f"from tapegrad._core.codegen import {module}"]
    if module in _CALLED:
        lines.append(f"from tapegrad._core.codegen.blas import {_CALLED[module]}")
    for name, (_, arity) in GROUPS[module].items():
        arguments = ", ".join(string.ascii_lowercase[:arity])
        lines += ["", "", f"def {name}({arguments}):", f"    return {module}.{name}({arguments})"]
    return "\n".join(lines) + "\n"


@functools.cache
def compile_group(module: str) -> dict[str, int]:
    """Compile a group, if it has not been, and name its symbols; returns the addresses."""
    signatures = {
        name: f"{result}({', '.join(['int64'] * arity)})"
        for name, (result, arity) in GROUPS[module].items()
    }
    addresses = compile_source(_source(module), signatures)
    for name, address in addresses.items():
        llvm.add_symbol(f"tapegrad_{name}", address)
    return addresses


@functools.cache
def compiled(name: str):
    """A function of a group, callable from Python; arguments are words."""
    module = next(module for module, functions in GROUPS.items() if name in functions)
    words = [ctypes.c_int64] * GROUPS[module][name][1]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *words)(compile_group(module)[name])


for _module in ("codegen.sweep_frame", "codegen.shared_kernels"):  # they call cells
    LOADERS[_module] = functools.partial(compile_group, "adjoint_memory")
for _group in ("strided_sums", "matmul_tiles", "triangular_blocks", "inverse_blocks"):
    for _name in GROUPS[_group]:
        LOADERS[f" {_name}("] = functools.partial(compile_group, _group)

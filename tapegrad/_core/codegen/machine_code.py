"""Modules of LLVM made machine code, and machine code loaded."""

import contextlib
import gc
import re

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock

from .layout import CACHE_LINE


def target():
    """Numba's context for the processor."""
    return numba.core.registry.cpu_target.target_context


def magic() -> str:
    """The processor that machine code is for, as Numba describes it."""
    return repr(target().codegen().magic_tuple())


def machine_code(module) -> bytes:
    """An object file of a module in LLVM's memory."""
    return target().codegen()._tm.emit_object(optimised(module))


def optimised(module):
    """The module, for which nothing but machine code is left to make."""
    codegen = target().codegen()
    for function in module.functions:  # short first, so that what is inlined is the short form
        if not function.is_declaration:
            passes, builder = codegen._function_pass_manager()
            passes.run(function, builder)
    passes, builder = codegen._module_pass_manager()
    passes.run(module, builder)
    return module


def parsed(module: ir.Module, exports):
    """A module in LLVM's memory; the loops of exports lie alike in lines of the cache."""
    codegen = target().codegen()
    codegen._check_llvm_bugs()
    module.triple = llvm.get_process_triple()
    text = str(module)
    for symbol in exports:
        text = re.sub(rf'(define [^\n]*@"?{symbol}"?\([^\n]*)', rf"\1 align {CACHE_LINE}", text)
    found = llvm.parse_assembly(text)
    found.data_layout = codegen._data_layout
    found.verify()
    return found


def assembled(text: str) -> bytes:
    """An object file of a text for LLVM.

    Its loops are of branches and chains of sums, which have no use for vectors.
    """
    codegen = target().codegen()
    module = llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"\n{text}')
    module.data_layout = codegen._data_layout
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(codegen._tm, options)
    builder.getModulePassManager().run(module, builder)
    return codegen._tm.emit_object(module)


def load(code: bytes, symbols) -> list[int]:
    """Addresses of functions of an object file, which stays for the life of the process."""
    with global_compiler_lock:
        engine = target().codegen()._engine._ee
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return [engine.get_function_address(symbol) for symbol in symbols]


@contextlib.contextmanager
def without_collections():
    """No collection of garbage inside this context: compilers make many objects and few cycles."""
    collecting = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collecting:
            gc.enable()

"""Modules of LLVM made machine code, and machine code loaded."""

import functools
import platform
import re
from typing import Any

from .. import environment
from . import levels
from .external_symbols import loading, name_symbols
from .late_imports import llvm
from .layout import CACHE_LINE

#: A double that LLVM reads wrongly in some locales, and what it then says.
_DOUBLE = "define double @f() {\n  ret double 1.23e+01\n}\n"


@functools.cache
def target_machine():
    """LLVM's description of this processor, for code that stays in this process.

    Where the package is built it is of a level, for code of a library.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=_processor(),
        features=_features(),
        opt=3,
        **_placing(),
    )


def _placing() -> dict[str, Any]:
    """Where code finds what it calls."""
    if levels.made():
        return {"reloc": "pic", "codemodel": "small"}
    reloc = "static" if platform.machine() in ("x86_64", "AMD64") else "default"
    return {"reloc": reloc, "codemodel": "jitdefault", "jit": True}


def _processor() -> str:
    """The name of the processor; as for Numba's own code, the environment may say another one."""
    if level := levels.made():
        return level.processor
    return environment.given("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()


def _features() -> str:
    if level := levels.made():
        return level.features
    if (given := environment.given("NUMBA_CPU_FEATURES")) is not None:
        return given
    try:
        return llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not know them: those of the processor's name
        return ""


@functools.cache
def _engine():
    """What holds all machine code of ours; asked for under the lock `loading`, so there is one."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def magic() -> str:
    """The processor that machine code is for."""
    return repr((llvm.get_process_triple(), _processor(), _features()))


def machine_code(module) -> bytes:
    """Machine code of a module in LLVM's memory."""
    return emitted(optimised(module))


def emitted(module) -> bytes:
    """A line with the symbols that a module calls, and its object file.

    A module may declare more symbols than it calls; the names of the others are not in the file.
    """
    code = target_machine().emit_object(module)
    declared = [
        value.name
        for value in (*module.functions, *module.global_variables)
        if value.is_declaration and not value.name.startswith("llvm.")
    ]
    called = sorted(name for name in declared if name.encode() in code)
    return " ".join(called).encode() + b"\n" + code


def _pass_builder(vectors: bool = True, level: int = 3):
    """Optimizations as Numba sets them; the one of straight lines made wrong code (Numba #8705)."""
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization, options.slp_vectorization = vectors, False
    return llvm.create_pass_builder(target_machine(), options)


def optimised(module):
    """The module, for which nothing but machine code is left to make."""
    builder = _pass_builder()
    builder.getModulePassManager().run(module, builder)
    return module


def simplified(module):
    """The same for modules of branches and chains of sums, which have no use for vectors."""
    builder = _pass_builder(vectors=False, level=2)
    builder.getModulePassManager().run(module, builder)
    return module


def read_text(text: str):
    """A module in LLVM's memory, of a text with its numbers written out."""
    if "1.23" not in str(llvm.parse_assembly(_DOUBLE)):
        raise RuntimeError(
            "tapegrad: LLVM reads numbers wrongly in this locale; set LC_NUMERIC=C "
            "(https://numba.readthedocs.io/en/stable/user/faq.html#llvm-locale-bug)"
        )
    module = llvm.parse_assembly(text)
    module.data_layout = str(target_machine().target_data)
    module.verify()
    return module


def parsed(module: Any, exports):
    """A module in LLVM's memory; the loops of exports are aligned to cache lines."""
    module.triple = llvm.get_process_triple()
    text = str(module)
    for symbol in exports:
        text = re.sub(rf'(define [^\n]*@"?{symbol}"?\([^\n]*)', rf"\1 align {CACHE_LINE}", text)
    return read_text(text)


def assembled(text: str) -> bytes:
    """Machine code of a text for LLVM."""
    return emitted(simplified(read_text(f'target triple = "{llvm.get_process_triple()}"\n{text}')))


def load(code: bytes, symbols) -> list[int]:
    """Addresses of functions of machine code, which stays for the life of the process."""
    with loading:
        engine = _engine()  # from now on LLVM finds the symbols of the process
        called, _, content = code.partition(b"\n")
        name_symbols(called.decode().split())
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(content))
        engine.finalize_object()
        return [engine.get_function_address(symbol) for symbol in symbols]

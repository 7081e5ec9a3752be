"""Machine code: levels of processors, symbols that it calls, modules of LLVM."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import math
import platform
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import config
from ..config import given
from . import compat, process
from .layout import CACHE_LINE
from .process import llvm

# --- Levels of processors: machine code for each is made when the package is built ----------------
# Code of a level uses nothing of a processor but what NumPy, of any release, tells of it. So a
# level can be chosen without asking the processor, and `NPY_DISABLE_CPU_FEATURES` counts.


class Level(NamedTuple):
    """A processor as LLVM knows it, and what NumPy tells of those that run its code."""

    name: str
    processor: str
    features: str
    needs: tuple[str, ...]
    #: Sets of instructions that vector functions are called for, as LLVM names them.
    vectors: tuple[str, ...] = ()


_V2 = ("SSE3", "SSSE3", "SSE41", "SSE42", "POPCNT")
_V3 = (*_V2, "AVX", "F16C", "FMA3", "AVX2")
_V4 = (*_V3, "AVX512F", "AVX512CD", "AVX512VL", "AVX512BW", "AVX512DQ")
#: Groups of features in newer releases of NumPy, which switch them off together.
_GROUPS = {"x86-64-v2": ("X86_V2",), "x86-64-v3": ("X86_V2", "X86_V3")}
_GROUPS["x86-64-v4"] = (*_GROUPS["x86-64-v3"], "X86_V4", "AVX512_SKX")
_UNTOLD = "-cx16,-sahf"
_UNTOLD_V3 = f"{_UNTOLD},-bmi,-bmi2,-lzcnt,-movbe"
#: Vectors of 512 bits are not avoided, as LLVM does on some processors: that costs 30 % where they
#: are fast, and the same sums would have other bits in code of a library.
_WIDE = "-prefer-256-bit"
#: From the widest down.
LEVELS = {
    one.name: one
    for one in (
        Level(
            *("x86-64-v4", "x86-64-v4", f"{_UNTOLD_V3},{_WIDE}", _V4),
            ("avx2", "avx512f"),
        ),
        Level("x86-64-v3", "x86-64-v3", _UNTOLD_V3, _V3, ("avx2",)),
        Level("x86-64-v2", "x86-64-v2", _UNTOLD, _V2),
        Level("aarch64", "generic", "+neon", ("ASIMD",)),
    )
}
_VARIABLE = "TAPEGRAD_BUILD_LEVEL"


@functools.cache
def made() -> Level | None:
    """The level that this process makes code for; None if its code is for its own processor."""
    name = given(_VARIABLE)
    return LEVELS[name] if name else None


def environment(level: Level) -> dict[str, str]:
    """What is set for a process that makes code for a level."""
    return {_VARIABLE: level.name}


def of_this_processor() -> list[Level]:
    """The levels whose code runs here, from the widest down."""
    has: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return [one for one in LEVELS.values() if _runs(one, has)]


def _runs(level: Level, has: dict[str, bool]) -> bool:
    groups = [one for one in _GROUPS.get(level.name, ()) if one in has]
    return all(has.get(one, False) for one in (*level.needs, *groups))


# --- Symbols that generated code calls: their addresses are found before the code is loaded -------
# Machine code carries the list of symbols that it calls. The loader of a symbol runs when code that
# calls it is first loaded, so that SciPy is imported only for kernels that need it; its functions
# are found by the address in their capsules.


#: Symbol → function that names its address, as the last thing that it does.
LOADERS: dict[str, Callable[[], object]] = {}
#: The modules that register loaders, with others for generated code.
_REGISTERING = (
    "vector_math",
    "matrix_products",
    "lapack",
    "complex_lapack",
    "pocketfft",
    "shared_kernels",
)
#: Held while code is loaded, and what it calls: other threads find all of it or wait.
loading = process.lock()
#: What a symbol begins with that stands for a word with the address that the rest of it names.
SLOT = "slot_"
#: Symbols that need not be found before code that calls them runs: it seldom does.
LATE: set[str] = set()
_addresses: dict[str, int] = {}  # of symbols that are named
_known: set[str] = set()  # symbols that LLVM has found
_under_way: set[str] = set()  # symbols whose loaders run, in the thread that holds the lock
#: The arguments that functions of BLAS, LAPACK and scipy.special are called with.
_KNOWN = re.compile(
    r"(char|int|double|__pyx_t_\w+_[ds]|__pyx_t_double_complex) \*"
    r"|double|Py_ssize_t|int __pyx_skip_dispatch|__pyx_t_double_complex"
)
_RESULTS = ("void", "double", "__pyx_t_double_complex")
#: Names of capsules that differ from those of functions.
_CAPSULES = {"digamma": "psi"}
_keep: list = []  # compiled code holds addresses only


def fortran_function(symbol: str, module: str, function: str, arity: int) -> None:
    """Let a symbol stand for a function of BLAS or LAPACK."""
    LOADERS[symbol] = functools.partial(_link_fortran, symbol, module, function, arity)


def _link_fortran(symbol: str, module: str, function: str, arity: int) -> None:
    """Name a function of BLAS or LAPACK for compiled code."""
    wanted = f"scipy.linalg.cython_{module}", function
    if _has_signature(*wanted, arity):
        address = _pointer(_capsule(*wanted))
    else:
        by_python = importlib.import_module(f"scipy.linalg.{module}")
        address = _pointer(getattr(by_python, function)._cpointer)
    name_address(symbol, address)


def special_function(
    symbol: str, name: str, inputs: int, outputs: int, whole: bool = False
) -> None:
    """Let a symbol stand for a function of scipy.special of doubles.

    It returns one, or writes several. The first argument may be a `whole` number.
    """
    LOADERS[symbol] = functools.partial(_link_special, symbol, name, inputs, outputs, whole)
    if not outputs:
        LATE.add(symbol)


def complex_function(symbol: str, name: str) -> None:
    """Let a symbol stand for a function of scipy.special of a complex number.

    It takes the parts of the number, and writes those of the result.
    """
    LOADERS[symbol] = functools.partial(_link_complex, symbol, name)


def _link_complex(symbol: str, name: str) -> None:
    module, kind = "scipy.special.cython_special", "__pyx_t_double_complex"
    function = _of_type(module, name, f"{kind} ({kind}, int __pyx_skip_dispatch)")
    if function and _has_signature(module, function, 2):
        name_address(f"{symbol}_of_c", _pointer(_capsule(module, function)))
        parts = importlib.import_module(f"{__package__}.vector_math").function_of_parts
        address = parts(f"{symbol}_of_c")
    else:
        address = _address(_called(_of_parts(_by_python(name)), 2, 2, False))
    name_address(symbol, address)


def _of_parts(function: Callable) -> Callable:
    def parts(x, y):
        found = function(complex(x, y))
        return found.real, found.imag

    return parts


def _link_special(symbol: str, name: str, inputs: int, outputs: int, whole: bool) -> None:
    module = "scipy.special.cython_special"
    function = _of_doubles(module, name, inputs, outputs, whole)
    if function and _has_signature(module, function, inputs + (outputs or 1)):
        address = _pointer(_capsule(module, function))
    else:
        address = _address(_called(_by_python(name), inputs, outputs, whole))
    name_address(symbol, address)


def _address(called) -> int:
    """The address of a function that ctypes has made, which is kept."""
    _keep.append(called)
    return ctypes.cast(called, ctypes.c_void_p).value or 0


def _of_doubles(module: str, name: str, inputs: int, outputs: int, whole: bool) -> str:
    """The one of the functions of a name, one for each type, that takes doubles; "" if none is."""
    taken = ["Py_ssize_t" if whole else "double", *["double"] * (inputs - 1)]
    taken += ["double *"] * outputs if outputs else ["int __pyx_skip_dispatch"]
    return _of_type(module, name, f"{'void' if outputs else 'double'} ({', '.join(taken)})")


def _of_type(module: str, name: str, wanted: str) -> str:
    """The one of the functions of a name that has a type as C writes it; "" if none has."""
    pattern = re.compile(rf"(__pyx_fuse(_\d+)+)?{_CAPSULES.get(name, name)}")
    capsules = getattr(importlib.import_module(module), "__pyx_capi__", {})
    found = (one for one in capsules if pattern.fullmatch(one))
    return next((one for one in found if _name(capsules[one]).decode() == wanted), "")


def _by_python(name: str) -> Callable:
    """A function of scipy.special, some of which are not public."""
    special = importlib.import_module("scipy.special")
    return getattr(special, name, None) or getattr(special._ufuncs, name)


def _called(function, inputs: int, outputs: int, whole: bool):
    """A function of Python's as one for C, which gives NaN in place of an exception."""
    double, count = ctypes.c_double, max(outputs, 1)

    def results(given) -> tuple:
        try:
            with np.errstate(all="ignore"):
                found = function(*given)
                return tuple(map(float, found if outputs else (found,)))
        except Exception:
            return (math.nan,) * count

    if not outputs:
        kinds = [ctypes.c_int64 if whole else double, *[double] * (inputs - 1)]
        return ctypes.CFUNCTYPE(double, *kinds, ctypes.c_int)(lambda *x: results(x[:-1])[0])

    def write(*words):
        for place, value in zip(words[inputs:], results(words[:inputs]), strict=True):
            place[0] = value

    places = [ctypes.POINTER(double)] * outputs
    return ctypes.CFUNCTYPE(None, *[double] * inputs, *places)(write)


def _capsule(module: str, function: str):
    return importlib.import_module(module).__pyx_capi__[function]


def _has_signature(module: str, function: str, arity: int) -> bool:
    """Whether a capsule holds a function of as many doubles, floats, characters and C ints."""

    def probe() -> bool:
        result, arguments = _name(_capsule(module, function)).decode().rstrip(")").split(" (", 1)
        kinds = arguments.split(", ")
        known = all(_KNOWN.fullmatch(kind) for kind in kinds)
        return known and len(kinds) == arity and result in _RESULTS

    return compat.holds("scipy-capsules", probe, f"{module}.{function}")


def name_symbols(symbols: Iterable[str]) -> None:
    """Let LLVM find symbols; it ends the process where code that it loads calls unknown ones."""
    unknown = [one for one in symbols if one not in _known and not _is_named(one)]
    if unknown:
        raise RuntimeError(
            f"tapegrad: compiled code calls {', '.join(unknown)}, which this process does not "
            "have: the code was compiled in another environment. `python -m tapegrad cache clear` "
            "deletes it, so that it is compiled again"
        )


def _is_named(symbol: str) -> bool:
    """Whether LLVM finds a symbol: one that is named here, or one of the process."""
    if (address := _named(symbol)) is not None:
        llvm.add_symbol(symbol, address)
    elif llvm.address_of_symbol(symbol) is None:
        return False
    _known.add(symbol)
    return True


def _named(symbol: str) -> int | None:
    """The address of a symbol that is named here, by its loader where there is one."""
    if symbol not in _addresses:
        with loading:  # another thread may be about to name it
            if symbol not in _addresses:
                _load(symbol)
    return _addresses.get(symbol)


def _load(symbol: str) -> None:
    """Run the loader of a symbol, if it has one."""
    if symbol.startswith(SLOT):
        if (address := _named(symbol.removeprefix(SLOT))) is not None:
            _keep.append(ctypes.c_int64(address))
            name_address(symbol, ctypes.addressof(_keep[-1]))
        return
    if symbol not in LOADERS and symbol.startswith("tapegrad_"):
        for name in _REGISTERING:
            importlib.import_module(f"{__package__}.{name}")
    if symbol in LOADERS and symbol not in _under_way:  # no code calls what is made of it
        _under_way.add(symbol)
        try:
            LOADERS[symbol]()
        finally:
            _under_way.discard(symbol)


def name_address(symbol: str, address: int) -> None:
    """Let compiled code find an address, of a function or of data, by a name."""
    _addresses[symbol] = address
    _known.discard(symbol)


def is_late(symbol: str) -> bool:
    """Whether a function of a symbol, of numbers with a number as the result, can be found late."""
    return symbol in LATE and symbol not in _addresses


def address_of(symbol: str) -> int | None:
    """The address of a symbol that is named here, or of a function of the process."""
    address = _named(symbol)
    return of_process(symbol) if address is None else address


@functools.cache
def _libraries() -> list[ctypes.CDLL]:
    """The process, and where it may have no mathematics the library of that."""
    found: list[ctypes.CDLL] = [ctypes.PyDLL("", handle=ctypes.pythonapi._handle)]
    with contextlib.suppress(OSError):
        found.append(ctypes.CDLL("libm.so.6"))
    return found


def of_process(symbol: str) -> int | None:
    """The address of a function of the process; None if it has none of the name."""
    found = (getattr(library, symbol, None) for library in _libraries())
    function = next((one for one in found if one is not None), None)
    return ctypes.cast(function, ctypes.c_void_p).value if function is not None else None


def _name(capsule) -> bytes:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return name(capsule)


def _pointer(capsule) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, _name(capsule))


# --- Modules of LLVM made machine code, and machine code loaded -----------------------------------


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
    if made():
        return {"reloc": "pic", "codemodel": "small"}
    reloc = "static" if platform.machine() in ("x86_64", "AMD64") else "default"
    return {"reloc": reloc, "codemodel": "jitdefault", "jit": True}


def _processor() -> str:
    """The name of the processor; as for Numba's own code, the environment may say another one."""
    if level := made():
        return level.processor
    return config.given("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()


def _features() -> str:
    if level := made():
        return level.features
    if (given := config.given("NUMBA_CPU_FEATURES")) is not None:
        return given
    try:
        found = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not know them: those of the processor's name
        return ""
    return f"{found},{_WIDE}" if "+avx512f" in found.split(",") else found


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

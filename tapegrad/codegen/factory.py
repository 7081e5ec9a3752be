"""The kernel factory: Python source text in, addresses of compiled C functions out.

The text becomes a module file named by the hash of its content and of everything it is compiled
with, so that a stale result can never be loaded; Numba compiles each export once and keeps the
machine code beside the file.
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from .pipeline import Pipeline, plain_code
from .symbols import load_symbols

_PACKAGE = Path(__file__).resolve().parent.parent
_lock = threading.RLock()


@functools.cache
def fingerprint() -> str:
    """Hash of what generated code may include: floors 0 to 2 and the compiler's versions."""
    digest = hashlib.sha256()
    for folder in ("codegen", "ops", "sweep", "replay"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(path.read_bytes())
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
    digest.update(repr(versions).encode())
    return digest.hexdigest()


def _user_cache() -> Path:
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(folder)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base)


@functools.cache
def cache_folder() -> Path:
    """Where generated modules live; a folder that cannot be written is replaced, with a warning."""
    wanted = _user_cache() / "tapegrad" / fingerprint()[:16]
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="tapegrad-"))
        warnings.warn(
            f"tapegrad: the cache folder {wanted} cannot be written ({error.strerror}); compiled "
            f"kernels are kept in {folder} for this process only. Set NUMBA_CACHE_DIR to a folder "
            "that can be written to keep them.",
            RuntimeWarning,
            stacklevel=2,
        )
        return folder


def _write(path: Path, text: str) -> None:
    """Put `text` at `path` in one step: another process sees all of it or nothing.

    Numba's index is stamped with the file's time, so every writer gives the same time.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.utime(name, (1_000_000_000, 1_000_000_000))
    os.replace(name, path)


def compile_source(source: str, exports: dict[str, str]) -> dict[str, int]:
    """Compile functions of a module text; returns name → address of the C function.

    `exports` maps a function's name to its Numba signature, for instance "int64(int64, int64)".
    """
    digest = hashlib.sha256((fingerprint() + source).encode()).hexdigest()[:24]
    with _lock:
        path = cache_folder() / f"k_{digest}.py"
        if not path.exists():
            _write(path, source)
        spec: Any = importlib.util.spec_from_file_location(f"tapegrad_{digest}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # Numba looks the module of a cached function up by name
        spec.loader.exec_module(module)
        load_symbols(source)
        addresses: dict[str, Any] = {}
        with plain_code(exports):
            for name, signature in exports.items():
                compiled = numba.cfunc(
                    signature, error_model="numpy", cache=True, pipeline_class=Pipeline
                )
                function = compiled(getattr(module, name))
                _keep.append(function)
                addresses[name] = function.address
        return addresses


def functions(source: str, exports: dict[str, int], keep_lock: bool) -> dict:
    """Compile functions of words and make them callable from Python.

    `exports` maps a name to its number of int64 arguments; each returns an int64. With `keep_lock`
    the interpreter lock stays held during the call, otherwise other threads run meanwhile.
    """
    word = ctypes.c_int64
    prototype = ctypes.PYFUNCTYPE if keep_lock else ctypes.CFUNCTYPE
    signatures = {name: f"int64({', '.join(['int64'] * n)})" for name, n in exports.items()}
    address = compile_source(source, signatures)
    return {name: prototype(word, *[word] * n)(address[name]) for name, n in exports.items()}


def once(make):
    """Decorate a function without arguments: it runs for the first thread that asks, others wait.

    What others hold the address of must not be made twice.
    """
    made: list = []
    lock = threading.RLock()

    @functools.wraps(make)
    def get():
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get


#: Compiled functions stay alive for as long as the process.
_keep: list = []

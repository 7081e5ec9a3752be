"""The kernel factory: Python source text in, addresses of compiled C functions out.

The machine code of a text is kept in a file named by the hash of the text and of everything it is
compiled with, so that a stale result can never be loaded. Its checksum is of the name too. What is
no such file, for whatever reason, is compiled anew and put in its place.
"""

import ctypes
import functools
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from .. import PACKAGE
from . import compat, forks
from .compiler_choice import is_ours, ours, usual_addresses
from .external_symbols import load_symbols
from .intrinsics import helper
from .machine_code import assembled, load, machine_code, magic, parsed
from .plain_expressions import NotPlain, known_intrinsics
from .plain_functions import lowered
from .uninterrupted import uninterrupted
from .vector_math import VARIANTS

_DIGEST_BYTES = 32
#: What generated code may include.
_FOLDERS = (
    *("_core/codegen", "_core/ops", "_core/recorder", "_core/sweep"),
    *("_program/ir", "_program/replay", "_program/native", "_flow/ir", "_flow/interpreted"),
)
_lock = forks.lock()
#: Addresses of the functions of a text, by its digest.
_loaded: dict[str, dict[str, int]] = {}


@functools.cache
def fingerprint() -> str:
    """Hash of what generated code may include, and of the compiler's versions."""
    digest = hashlib.sha256()
    for folder in _FOLDERS:
        for path in sorted((PACKAGE / folder).glob("*.py")):
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
    """Where machine code lives; a folder that cannot be written is replaced, with a warning."""
    wanted = Path("tapegrad") / fingerprint()[:16]
    try:
        wanted = _user_cache() / wanted
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except (OSError, RuntimeError) as error:  # the latter where nobody has a home
        folder = Path(tempfile.mkdtemp(prefix="tapegrad-"))
        warnings.warn(
            f"tapegrad: the cache folder {wanted} cannot be written ({_why(error)}); compiled "
            f"kernels are kept in {folder} for this process only. Set NUMBA_CACHE_DIR to a folder "
            "that can be written to keep them.",
            RuntimeWarning,
            stacklevel=2,
        )
        return folder


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _checksum(path: Path, code: bytes) -> bytes:
    """Of code and of the name that it belongs to: files may be mistaken for one another."""
    return hashlib.sha256(path.name.encode() + code).digest()


def _write(path: Path, code: bytes) -> None:
    """Put `code` at `path` in one step: another process sees all of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            os.replace(path, tempfile.mkdtemp(dir=path.parent, suffix=".damaged"))
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_checksum(path, code) + code)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        warnings.warn(
            f"tapegrad: {path} cannot be written ({_why(error)}); what was compiled is kept for "
            "this process only, and other processes compile it again",
            RuntimeWarning,
            stacklevel=2,
        )


def _read(path: Path) -> bytes | None:
    """What was written to `path`; None if there is nothing, or anything else."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[_DIGEST_BYTES:]
    return code if _checksum(path, code) == content[:_DIGEST_BYTES] else None


@functools.cache
def _machine() -> str:
    """What machine code depends on, beside what it is made from."""
    return uninterrupted(magic) + repr(VARIANTS)


def compile_source(source: str, exports: dict[str, str]) -> dict[str, int]:
    """Compile functions of a module text; returns name → address of the C function.

    `exports` maps a function's name to its Numba signature, for instance "int64(int64, int64)".
    """
    key = fingerprint() + _machine() + source + repr(exports)
    digest = hashlib.sha256(key.encode()).hexdigest()[:24]
    return _loaded.get(digest) or uninterrupted(lambda: _compiled_once(source, exports, digest))


def _compiled_once(source: str, exports: dict[str, str], digest: str) -> dict[str, int]:
    with _lock:
        if digest not in _loaded:
            _loaded[digest] = _compile(source, exports, digest)
        return _loaded[digest]


def _compile(source: str, exports: dict[str, str], digest: str) -> dict[str, int]:
    module: dict[str, Any] = {"__name__": f"tapegrad_{digest}"}
    exec(compile(source, f"<{digest}>", "exec"), module)
    load_symbols(source)
    if not is_ours():
        return usual_addresses({name: (module[name], exports[name]) for name in exports})
    symbols = {name: f"tapegrad_{digest}_{name}" for name in exports}
    path = cache_folder() / f"k_{digest}.o"
    code = _read(path)
    if code is None:
        wanted = {symbols[name]: (helper(module[name]), exports[name]) for name in exports}
        code = machine_code(ours.compiled(wanted))
        _write(path, code)
    return dict(zip(exports, load(code, symbols.values()), strict=True))


def compile_plain(source: str, exports: dict[str, str], single: bool = False) -> dict[str, int]:
    """`compile_source` for functions of numbers: without Numba, where they are no more than that.

    Other threads compile meanwhile. Numbers in the text are of float32 if that is `single`.
    """
    key = f"plain {single}" + fingerprint() + _machine() + source + repr(exports)
    digest = hashlib.sha256(key.encode()).hexdigest()[:24]
    return _loaded.get(digest) or uninterrupted(lambda: _plain(source, exports, single, digest))


def _plain(source: str, exports: dict[str, str], single: bool, digest: str) -> dict[str, int]:
    load_symbols(source)
    symbols = {name: f"tapegrad_{digest}_{name}" for name in exports}
    path = cache_folder() / f"k_{digest}.o"
    code = _read(path)
    if code is None:
        try:
            if not compat.holds("numba-intrinsics", known_intrinsics):
                raise NotPlain("intrinsics are not as they were")
            wanted = {symbols[name]: (name, exports[name]) for name in exports}
            module = lowered(source, wanted, single)
        except NotPlain:
            return compile_source(source, exports)
        code = machine_code(parsed(module, symbols.values()))
        _write(path, code)
    return _load_once(digest, code, symbols)


def _load_once(digest: str, code: bytes, symbols: dict[str, str]) -> dict[str, int]:
    """Addresses in machine code; what another thread has loaded meanwhile is not loaded twice."""
    with _lock:
        if digest not in _loaded:
            _loaded[digest] = dict(zip(symbols, load(code, symbols.values()), strict=True))
        return _loaded[digest]


def compile_assembly(text: str, exports: Iterable[str]) -> dict[str, int]:
    """Compile functions of a text for LLVM; returns name → address.

    Names that the text defines and exports get the digest, for they are known everywhere.
    """
    digest = hashlib.sha256((fingerprint() + _machine() + text).encode()).hexdigest()[:24]
    return _loaded.get(digest) or uninterrupted(lambda: _assembled(text, exports, digest))


def _assembled(text: str, exports: Iterable[str], digest: str) -> dict[str, int]:
    symbols = {name: f"tapegrad_{digest}_{name}" for name in exports}
    path = cache_folder() / f"k_{digest}.o"
    code = _read(path)
    if code is None:
        for name, symbol in symbols.items():
            text = text.replace(f"@{name}(", f"@{symbol}(")
        code = assembled(text)
        _write(path, code)
    return _load_once(digest, code, symbols)


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
    lock = forks.lock()

    @functools.wraps(make)
    def get():
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get

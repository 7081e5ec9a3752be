"""The files of machine code: where they are, and how they are read and written.

The checksum of a file is of its name, too. What is no such file, for whatever reason, is taken for
one that is not there.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from . import late_imports

_DIGEST_BYTES = 32


@functools.cache
def versions() -> str:
    """The versions of what makes machine code, Python's included."""
    return repr((sys.version, late_imports.llvmlite.__version__, np.__version__))


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
    wanted = Path("tapegrad") / hashlib.sha256(versions().encode()).hexdigest()[:16]
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


def _checksum(path: Path, content: bytes) -> bytes:
    """Of content and of the name that it belongs to: files may be mistaken for one another."""
    return hashlib.sha256(path.name.encode() + content).digest()


def replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step: another process sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        os.replace(path, tempfile.mkdtemp(dir=path.parent, suffix=".damaged"))
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_checksum(path, content) + content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write(path: Path, code: bytes) -> None:
    """Put machine code at `path`, with a warning where that cannot be done."""
    try:
        replace(path, code)
    except OSError as error:
        warnings.warn(
            f"tapegrad: {path} cannot be written ({_why(error)}); what was compiled is kept for "
            "this process only, and other processes compile it again",
            RuntimeWarning,
            stacklevel=2,
        )


def read(path: Path | None) -> bytes | None:
    """What was written to `path`; None if there is nothing, or anything else."""
    if path is None:
        return None
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content = whole[_DIGEST_BYTES:]
    return content if _checksum(path, content) == whole[:_DIGEST_BYTES] else None

"""The files of machine code, and the line in the terminal where compilation takes long."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..config import given
from . import process, progress

# --- The files of machine code: where they are, and how they are read and written -----------------
# The checksum of a file is of its name, too. What is no such file, for whatever reason, is taken
# for one that is not there.


_DIGEST_BYTES = 32


@functools.cache
def versions() -> str:
    """The versions of what makes machine code, Python's included."""
    return repr((sys.version, process.llvmlite.__version__, np.__version__))


def every_folder() -> Path:
    """Where the folders of all versions are, whether there are any or not.

    Who moves Numba's cache, since a home cannot be written or is not kept, means this one, too.
    """
    if folder := given("TAPEGRAD_CACHE_DIR"):
        return Path(folder).expanduser().absolute()
    return (_user_cache() / "tapegrad").absolute()


def _user_cache() -> Path:
    if folder := given("NUMBA_CACHE_DIR"):
        return Path(folder)
    if sys.platform == "win32":
        return Path(given("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(given("XDG_CACHE_HOME") or Path.home() / ".cache")


@functools.cache
def cache_folder() -> Path:
    """Where machine code lives; a folder that cannot be written is replaced, with a warning."""
    wanted = Path(hashlib.sha256(versions().encode()).hexdigest()[:16])
    try:
        wanted = every_folder() / wanted
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except (OSError, RuntimeError) as error:  # the latter where nobody has a home
        folder = Path(tempfile.mkdtemp(prefix="tapegrad-"))
        warnings.warn(
            f"tapegrad: the cache folder {wanted} cannot be written ({_why(error)}); compiled "
            f"kernels are kept in {folder} for this process only. Set TAPEGRAD_CACHE_DIR to a "
            "folder that can be written to keep them.",
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


#: The folder of versions, and the files in one: nothing else in the cache is ours.
_FOLDER, _FILE = re.compile("[0-9a-f]{16}"), re.compile(r"(k|modules|texts)_[0-9a-f]{24}\.(o|json)")
#: What a process writes before it has its name, and how old it is if that process has been ended.
_UNFINISHED, _SECONDS = re.compile(r"tmp\w+\.tmp"), 3600.0


def files_of_all() -> Iterator[tuple[str, int]]:
    """Path and bytes of the files of all versions; links are none, nor what linked folders hold."""
    for folder in _entries(every_folder()):
        if _FOLDER.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
            for one in _entries(folder):
                with contextlib.suppress(FileNotFoundError):  # another process deletes them, too
                    found = one.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and _is_ours(one.name, found.st_mtime):
                        yield one.path, found.st_size


def _entries(folder) -> list[os.DirEntry]:
    """What is in a folder; nothing if there is none."""
    try:
        with os.scandir(folder) as found:
            return [*found]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_ours(name: str, written: float) -> bool:
    if _UNFINISHED.fullmatch(name):
        return written < time.time() - _SECONDS
    return _FILE.fullmatch(name) is not None


def size_of_all() -> tuple[int, int]:
    """The number of files of all versions, and of their bytes."""
    sizes = [size for _, size in files_of_all()]
    return len(sizes), sum(sizes)


def clear_all() -> tuple[int, int]:
    """Delete the files of all versions, and folders that are empty then; their number and bytes."""
    found = [*files_of_all()]
    for path, _ in found:
        Path(path).unlink(missing_ok=True)
    for folder in {os.path.dirname(path) for path, _ in found}:
        with contextlib.suppress(OSError):  # something else is in it
            os.rmdir(folder)
    return len(found), sum(size for _, size in found)


# --------------------------------------------------------------------------------------------------
# A line in the terminal where compilation takes long: who waits sees why, and that it is once.


_spent = 0.0  # seconds in this process


@contextlib.contextmanager
def announced() -> Iterator[None]:
    """A context in which code is compiled that a file will keep."""
    global _spent
    if not progress.is_wanted():
        yield
        return
    started = time.perf_counter()
    text = (
        "compiling kernels for this processor, which takes some seconds once; they are kept in "
        f"{cache_folder()}"
    )
    try:
        with progress.Progress(text, spent=_spent):
            yield
    finally:
        _spent += time.perf_counter() - started

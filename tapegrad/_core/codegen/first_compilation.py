"""A line in the terminal where compilation takes long: who waits sees why, and that it is once."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from . import forks
from .machine_files import cache_folder

#: Seconds of compilation in a process before the line.
_PATIENCE = 0.3
_lock = forks.lock()
_said: list[bool] = []
_spent = 0.0


@contextlib.contextmanager
def announced() -> Iterator[None]:
    """A context in which code is compiled that a file will keep."""
    global _spent
    if _said or not _is_wanted():
        yield
        return
    if _spent >= _PATIENCE:
        _say()
    started = time.perf_counter()
    timer = threading.Timer(_PATIENCE - _spent, _say)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # the process is ending, and begins no thread
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        _spent += time.perf_counter() - started


def _is_wanted() -> bool:
    """Whether somebody looks at a terminal; a process without one may have no stderr at all."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False


def _say() -> None:
    with _lock:
        if not _said:
            _said.append(True)
            with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
                print(
                    "tapegrad: compiling kernels for this processor, which takes some seconds "
                    f"once; they are kept in {cache_folder()}",
                    file=sys.stderr,
                    flush=True,
                )

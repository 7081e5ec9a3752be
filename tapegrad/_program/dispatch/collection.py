"""Python's garbage collector, which pauses while a program is made.

All objects made live on and form no cycles: collections would take a quarter of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from ..._core.codegen import forks

_lock = forks.lock()
_paused = [0, False]  # the number of threads that are making programs, and whether it ran before


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A context without automatic collections, in all threads."""
    with _lock:
        if not _paused[0]:
            _paused[1] = gc.isenabled()
            gc.disable()
        _paused[0] += 1
    try:
        yield
    finally:
        with _lock:
            _paused[0] -= 1
            if not _paused[0] and _paused[1]:
                gc.enable()


@forks.in_child
def _alone() -> None:
    """No other thread is making a program."""
    if _paused[0] and _paused[1]:
        gc.enable()
    _paused[0] = 0

"""Python's garbage collector, which pauses while code and programs are made.

All objects made live on, or form few cycles: collections would take a quarter of the time.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from . import forks

_pausing: set[int] = set()  # the threads that have switched it off


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A context without automatic collections, in all threads.

    Who has switched them off switches them on again, also after an interrupt at any moment: nothing
    is counted.
    """
    collecting, thread = gc.isenabled(), threading.get_ident()
    try:
        if collecting:
            _pausing.add(thread)
            gc.disable()
        yield
    finally:
        if collecting:
            gc.enable()
            _pausing.discard(thread)


@forks.in_child
def _alone() -> None:
    """No other thread makes anything in the child of a fork."""
    own = {threading.get_ident()}
    if _pausing - own:
        gc.enable()
    _pausing.intersection_update(own)

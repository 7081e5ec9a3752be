"""State of the process: children of forks, Python's garbage collector, late imports."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

# --- The state of the child of a fork, which has only the thread that forked ----------------------
# A fork waits until no other thread holds one of our locks. Therefore all locks are free in the
# child, and the data that they protect are consistent. Each module drops its other per-thread state
# in the child.


_forking = threading.RLock()  # threads fork one after the other
_locks: list[Any] = []
_finders: list[Callable[[], list]] = []
_held: list[Any] = []
_in_child: list[Callable[[], None]] = []


def whole(lock):
    """Let forks wait until no other thread holds `lock`, which is reentrant."""
    _locks.append(lock)
    return lock


def whole_later(find: Callable[[], list]) -> None:
    """The same for the locks that `find` gives when a process forks."""
    _finders.append(find)


def lock():
    """A reentrant lock that is free in the child of a fork."""
    return whole(threading.RLock())


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function without arguments in the child of each fork, before anything else of ours."""
    _in_child.append(function)
    return function


def _before() -> None:
    _forking.acquire()
    while (busy := _take()) is not None:
        _release()
        with busy:  # no lock is held here: its holder may wait for any other
            pass


def _take():
    """Take all locks; returns one that another thread holds, None if there is none."""
    for one in [*_locks, *(found for find in _finders for found in find())]:
        if not one.acquire(blocking=False):
            return one
        _held.append(one)
    return None


def _release() -> None:
    while _held:
        _held.pop().release()


def _after() -> None:
    _release()
    _forking.release()


def _after_in_child() -> None:
    _after()
    for function in _in_child:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)


# --- Modules that are imported when something of them is first asked for --------------------------
# What was compiled when the package was built, or before, needs no compiler.


class Later:
    """A module, imported when it is first used."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        self.__dict__[attribute] = found
        return found


llvmlite: Any = Later("llvmlite")
ir: Any = Later("llvmlite.ir")
llvm: Any = Later("llvmlite.binding")
#: The statements that Numba reads bytecode as.
numba_ir: Any = Later("numba.core.ir")


# --- Python's garbage collector, which pauses while code and programs are made --------------------
# All objects made live on, or form few cycles: collections would take a quarter of the time.


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


@in_child
def _alone() -> None:
    """No other thread makes anything in the child of a fork."""
    own = {threading.get_ident()}
    if _pausing - own:
        gc.enable()
    _pausing.intersection_update(own)

"""Work that an interrupt must not stop halfway.

Python raises KeyboardInterrupt anywhere in the main thread. In the middle of a compilation Numba's
declarations would be half loaded for ever, LLVM's lock stay held, or LLVM free an object twice. So
a thread of its own does such work, while the main thread waits: an interrupt ends the waiting, and
the work goes on to its end, whose result is kept.
"""

import _thread
import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .. import PACKAGE
from . import compat, process
from .machine_code import loading

Result = TypeVar("Result")
#: Threads at work, and locks that are held while they are.
_at_work: dict[int, Any] = {}
_registered: list[bool] = []
#: How many modules there were when none of ours was being imported, and the last of them.
_looked: list[tuple[int, Any]] = [(0, None)]


def _lock_of(module: str, path: str) -> Any:
    """The lock of a compiler, None while its module is not imported, or is being imported."""
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _llvm_lock() -> Any:
    return _lock_of("llvmlite.binding.ffi", "lib._lock._lock")


def _numba_lock() -> Any:
    return _lock_of("numba.core.compiler_lock", "global_compiler_lock._lock")


def _locks() -> list:
    return [one for one in (_numba_lock(), _llvm_lock()) if one is not None]


def _can_wait() -> bool:
    """Whether the locks are such as ours; other threads may hold them now."""
    assert process.llvm.ffi  # imported now
    used = ("acquire", "release", "_is_owned")
    have = [all(hasattr(one, name) for name in used) for one in _locks()]
    return _llvm_lock() is not None and all(have)


#: Held around work of ours where a fork cannot wait for the locks of the compilers.
_around = process.lock()


def _whole() -> contextlib.AbstractContextManager:
    """What a fork waits for, so that the child finds nothing half compiled.

    While nothing needs a compiler, which takes long to import, that is a lock of ours.
    """
    if _llvm_lock() is None or not compat.holds("numba-locks", _can_wait):
        return _around
    return contextlib.nullcontext()


process.whole_later(_locks)


def uninterrupted(work: Callable[[], Result]) -> Result:
    """The result of a function without arguments, which runs to its end."""
    if not _may_be_interrupted():
        return _done(work)
    outcome: list[tuple[Any, BaseException | None]] = []
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(_run, (work, outcome, done))
    done.acquire()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _may_be_interrupted() -> bool:
    """Whether this is the main thread, and holds nothing that another would wait for.

    When the process is ending, as in functions of `atexit`, no thread can begin.
    """
    main = threading.main_thread()
    if threading.get_ident() != main.ident or not main.is_alive():
        return False
    numba_lock = _numba_lock()
    if loading._is_owned() or (numba_lock is not None and numba_lock._is_owned()):
        return False
    release_llvm()
    return not _is_importing()


def release_llvm() -> None:
    """Release LLVM's lock if this thread holds it, though it is in no call of LLVM.

    llvmlite frees objects while garbage is collected; interrupts of that leave the lock held.
    """
    lock = _llvm_lock()
    while lock is not None and lock._is_owned():
        lock.release()


def _is_importing() -> bool:
    """Whether a module of ours is being imported: another thread that imports it waits.

    Modules that have been found to be imported are looked at again only if some have gone.
    """
    modules, (count, last) = [*sys.modules.items()], _looked[0]
    if len(modules) < count or (count and modules[count - 1][1] is not last):
        count = 0
    ours = [one for key, one in modules[count:] if key.startswith(PACKAGE.name)]
    found = any(getattr(getattr(one, "__spec__", None), "_initializing", False) for one in ours)
    _looked[0] = (0, None) if found else (len(modules), modules[-1][1])
    return found


def _done(work: Callable[[], Result]) -> Result:
    with _whole():
        return work()


def _run(work: Callable[[], Any], outcome: list, done: Any) -> None:
    number = threading.get_ident()
    try:
        _at_work[number] = done
        if not _registered:
            _registered.append(True)
            threading._register_atexit(_stop)  # type: ignore[attr-defined]
        outcome.append((_done(work), None))
    except BaseException as error:
        outcome.append((None, error))
    finally:
        _at_work.pop(number, None)
        done.release()


def _stop() -> None:
    """End work that nobody waits for any more: the process is ending."""
    release_llvm()
    for number, done in [*_at_work.items()]:
        end_thread(number)
        while not done.acquire(timeout=0.2):  # a callback of C may have swallowed it
            end_thread(number)


def end_thread(number: int) -> None:
    """Raise SystemExit in a thread, wherever it is; the process is ending."""
    before = sys.unraisablehook
    if before is not _without_exits:
        _hooks[:] = [before]
        sys.unraisablehook = _without_exits
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(SystemExit))


def _without_exits(unraisable) -> None:
    """Say nothing of an exit in a callback of C, where it cannot be raised."""
    if unraisable.exc_type is not SystemExit:
        _hooks[0](unraisable)


_hooks: list[Callable] = []


process.in_child(_at_work.clear)

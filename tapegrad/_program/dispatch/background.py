"""Code of a program's own, compiled while calls go on."""

from __future__ import annotations

import functools
import math
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ..._core.codegen import forks
from ..._core.codegen.factory import once
from ..._core.codegen.uninterrupted import end_thread, release_llvm
from ..build.executable import Program
from ..ir.cost import GRADIENT_COSTS, nanoseconds
from ..ir.elementwise_step import Elementwise
from ..ir.scalars_step import Scalars
from ..ir.uses import known_slots
from ..native.scalar_code import BUDGET, pieces_of, within
from .life import Life, State
from .takeover import Trial
from .variants import Variant

#: Nanoseconds that native code takes to compile: any, of a fused step, of an operation in its text.
#: A rough estimate: functions of numbers, of 20 to 3000 operations of text, are off by less than a
#: factor of 2 on one machine.
COMPILATION, OF_STEP, OF_OPERATION = 0.06e9, 0.02e9, 1e6
#: At least this number of evaluations, for arguments of a shape that may occur only once.
FEWEST = 10
_lock = forks.lock()
_pool: list[ThreadPoolExecutor] = []
_under_way: dict[Future, Callable] = {}  # submitted work that has not ended
#: The work of a thread of a parent process.
_left: weakref.WeakKeyDictionary[Future, Callable] = weakref.WeakKeyDictionary()
_at_work: list[int] = []  # the thread that is compiling


def patience(program: Program) -> int:
    """Evaluations after which interpreting has taken as long as compiling is expected to take."""
    code = program.source
    known = known_slots(code)
    pieces = [x for step in code.of(Scalars).values() for x in pieces_of(step, known)]
    cost = COMPILATION + OF_OPERATION * within(BUDGET, pieces)
    for step in code.of(Elementwise).values():
        cost += OF_STEP + OF_OPERATION * len(step.ops)
    return max(FEWEST, math.ceil(cost / nanoseconds(code, GRADIENT_COSTS)))


def native_later(life: Life, name: str, why: str, make: Callable[[], None]) -> Future | None:
    """Let native code be made in a background thread; None if it is not the time for that.

    `make` puts it in the place of the interpreter. If that fails a warning is given, the future
    raises, and what `life` is of stays interpreted. `name` is that of the function.
    """
    if not life.go(State.COMPILING, f"native code is being made, {why}"):
        return None
    return later(functools.partial(_made, life, name, make))


def later(job: Callable) -> Future:
    """Run a job in the thread that compiles."""
    with _lock:
        if not _pool:
            _pool.append(ThreadPoolExecutor(1, thread_name_prefix="tapegrad"))
            threading._register_atexit(_stop)  # type: ignore[attr-defined]
    return _submitted(job)


def _made(life: Life, name: str, make: Callable[[], None]) -> None:
    _at_work.append(threading.get_ident())
    try:
        make()
    except Exception as error:
        raise stays_interpreted(life, name, error) from error
    finally:
        _at_work.clear()


def make_program_native(variant: Variant, cut: bool, trial: Trial | None) -> None:
    """Let a variant be evaluated by native code from now on.

    A `trial` compares it with the interpreted program first. With `cut` long loops in it save what
    they carry at intervals only.
    """
    start = time.perf_counter()
    try:
        program = Program(variant.program.source, native=True, cut=cut)
    except Exception as error:
        reason = f"native code for it could not be made ({error!r}); please report this"
        raise RuntimeError(reason) from error
    made = f"native code, made in {time.perf_counter() - start:.2g} s"
    if trial is None:
        variant.life.go(State.NATIVE, made)
    else:
        trial.begin(program)
        # before calls can use the program
        variant.life.go(State.TRIED, f"{made}, equal to the interpreted program", trial)
    variant.use(program)


def stays_interpreted(life: Life, name: str, error: Exception, level: int = 2) -> Exception:
    """Warn that native code is not used; returns the error that `wait` raises."""
    failure = RuntimeError(f"tapegrad.compile: {name} stays interpreted: {error}")
    if life.go(State.FAILED, f"stays interpreted: {error}", failure):  # no other thread was here
        warnings.warn(str(failure), RuntimeWarning, stacklevel=level)
    return failure


def _stop() -> None:
    """Cancel compilations and those that wait: the process is ending.

    It is not needed any more, and the end of the process waits for the thread.
    """
    release_llvm()
    for pool in _pool:
        pool.shutdown(wait=False, cancel_futures=True)
    for thread in _at_work:
        end_thread(thread)


def _submitted(job: Callable) -> Future:
    future = _pool[0].submit(job)
    _under_way[future] = job
    future.add_done_callback(lambda future: _under_way.pop(future, None))
    return future


@forks.in_child
def _alone() -> None:
    """The compiling thread is the parent's; here its work is done on `wait`."""
    _left.update({future: once(job) for future, job in _under_way.items()})
    _under_way.clear()
    _at_work.clear()
    _pool.clear()


def finish(future: Future) -> None:
    """Wait for a compilation; raises its exception."""
    release_llvm()
    job = _left.get(future)
    if job is None:
        future.result()
    else:
        job()

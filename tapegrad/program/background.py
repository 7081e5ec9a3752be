"""Code of a program's own, compiled while calls go on."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ..codegen import forks
from .program import Program
from .variants import Variant

#: Evaluations after which a program is worth code of its own.
HOT = 200
_lock = forks.lock()
_pool: list[ThreadPoolExecutor] = []
_under_way: dict[Future, Callable] = {}  # what has been submitted and is not over
_left: dict[Future, Callable] = {}  # of it, what the thread of a parent process was about


def compile_later(variant: Variant, cut: bool) -> Future:
    """Compile the code of a variant in a thread of its own; the variant has it when it is done.

    Where that fails the future raises, and the variant goes on interpreted, with the `failure`.
    With `cut` long loops in it keep what they carry at intervals only.
    """
    with _lock:
        if not _pool:
            _pool.append(ThreadPoolExecutor(1, thread_name_prefix="tapegrad"))
    return _submitted(functools.partial(_compile, variant, cut))


def _compile(variant: Variant, cut: bool) -> None:
    if threading.main_thread().is_alive():  # else the process is ending
        try:
            variant.program = Program(variant.program.source, native=True, cut=cut)
        except Exception as error:
            variant.failure = error
            raise
        variant.fast = None


def _submitted(job: Callable) -> Future:
    future = _pool[0].submit(job)
    _under_way[future] = job
    future.add_done_callback(lambda future: _under_way.pop(future, None))
    return future


@forks.in_child
def _alone() -> None:
    """The thread that compiles is the parent's; here what it was about is done when waited for."""
    _left.update(_under_way)
    _under_way.clear()
    _pool.clear()


def finish(future: Future) -> None:
    """Wait for a compilation; raises what it raised."""
    job = _left.pop(future, None)
    if job is None:
        future.result()
    else:
        job()

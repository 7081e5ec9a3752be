"""Code of a program's own, compiled while calls go on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from .program import Program
from .variants import Variant

#: Evaluations after which a program is worth code of its own.
HOT = 200
_lock = threading.Lock()
_pool: list[ThreadPoolExecutor] = []


def compile_later(variant: Variant, cut: bool) -> Future:
    """Compile the code of a variant in a thread of its own; the variant has it when it is done.

    Where that fails the future raises, and the variant goes on interpreted, with the `failure`.
    With `cut` long loops in it keep what they carry at intervals only.
    """
    with _lock:
        if not _pool:
            _pool.append(ThreadPoolExecutor(1, thread_name_prefix="tapegrad"))
    return _pool[0].submit(_compile, variant, cut)


def _compile(variant: Variant, cut: bool) -> None:
    if threading.main_thread().is_alive():  # else the process is ending
        try:
            variant.program = Program(variant.program.source, native=True, cut=cut)
        except Exception as error:
            variant.failure = error
            raise
        variant.fast = None

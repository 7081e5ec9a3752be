"""Reverse sweeps, timed row by row in compiled code."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from ..._core.codegen import layout
from ..._core.sweep.timed_reverse import HEAD, RECORD
from ..._core.tape.sweeps import Sweep
from ._op_timer import Span, Timer, now

SWEEP = "reverse sweep"


@dataclasses.dataclass
class Times:
    """Rows that a sweep has passed: number, start and duration in ns, op, bytes of the adjoint."""

    numbers: np.ndarray
    starts: np.ndarray
    spent: np.ndarray
    ops: np.ndarray
    nbytes: np.ndarray


def _read(table: np.ndarray, sequence: np.ndarray) -> Times:
    records = table[HEAD // 8 :].reshape(-1, layout.ROWS, RECORD // 8)
    slots, positions = np.nonzero(records[sequence, :, 0])
    slots = sequence[slots]
    starts, spent, ops, nbytes = records[slots, positions].T
    numbers = (slots << layout.ROWS_BITS) + positions
    return Times(numbers, starts, np.maximum(spent, 0), ops, nbytes)


def timed_run(run: Callable, timer: Timer, finish: Callable[[Span, Times], None]) -> Callable:
    """`Sweep.run` as a span of `timer`, with the compiled sweep that reads the clock.

    `finish(span, times)` receives the times of the rows.
    """

    @functools.wraps(run)
    def timed(sweep: Sweep, stops=None) -> None:
        began, aside = now(), timer.aside
        code, plain, work = sweep.code.timed(), sweep.code, sweep.work
        table = np.zeros(HEAD // 8 + len(work.adjoints) * layout.ROWS * RECORD // 8, np.int64)
        work.set(FRAME_TIMES=table.ctypes.data, FRAME_SCALARS=0, FRAME_POINTWISE=0)
        table[2] = code.idle(work.address)
        sweep.code = code
        span = timer.begin(SWEEP)
        try:
            run(sweep, stops)
        finally:
            timer.end(span)
            sweep.code = plain
            work.set(FRAME_TIMES=0, FRAME_SCALARS=0, FRAME_POINTWISE=0)
            finish(span, _read(table, work.sequence))
            timer.aside = aside + now() - began - span.spent

    return timed

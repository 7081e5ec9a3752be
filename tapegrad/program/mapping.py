"""A program evaluated for many inputs, on threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .program import Program

#: Rows that a thread takes at once: results do not depend on how many threads there are.
ROWS = 64


class Batch:
    """Inputs with one row for each evaluation, and memory for what is computed from them."""

    def __init__(self, program: Program, inputs: list[np.ndarray], gradient: bool):
        self.program = program
        self.count = len(inputs[0])
        self.inputs = [np.ascontiguousarray(array, np.float64) for array in inputs]
        self.values = np.empty(self.count)
        self.gradients = [
            np.empty_like(array) if gradient and one.differentiated else None
            for array, one in zip(self.inputs, program.code.inputs, strict=True)
        ]
        self.wanted = gradient

    def run_to(self, start: int, stop: int) -> int:
        """Evaluate rows; returns the first at which a guard failed, or `stop`."""
        table = [self.values.ctypes.data + 8 * start, int(self.wanted)]
        for array, gradient in zip(self.inputs, self.gradients, strict=True):
            step = array.nbytes // max(self.count, 1)
            to = 0 if gradient is None else gradient.ctypes.data + start * step
            table += [array.ctypes.data + start * step, step, to, step]
        words = np.array(table, np.int64)
        memory = self.program.begin()
        done = self.program.compiled["rows"](
            memory.address, self.program.address, words.ctypes.data, stop - start
        )
        self.program.end(memory)
        return start + done


def run_rows(batch: Batch, threads: int | None) -> list[int]:
    """Evaluate all rows; returns those at which a guard failed, which are left."""
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        left = pool.map(lambda start: _run_all(batch, start), range(0, batch.count, ROWS))
        return [row for rows in left for row in rows]


def _run_all(batch: Batch, start: int) -> list[int]:
    """Evaluate the rows of one piece, around those at which a guard fails."""
    left, stop = [], min(start + ROWS, batch.count)
    while (start := batch.run_to(start, stop)) < stop:
        left.append(start)
        start += 1
    return left

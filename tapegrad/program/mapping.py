"""A program evaluated for many inputs, on threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .program import Program

#: Rows that a thread takes at once: results do not depend on how many threads there are.
ROWS = 64


class Batch:
    """Inputs with a row for each evaluation, and memory for what is computed from them."""

    def __init__(self, inputs: list[np.ndarray], wanted: list[int]):
        self.count = len(inputs[0])
        self.inputs = inputs
        self.values = np.empty(self.count)
        self.gradients = {k: np.empty_like(inputs[k]) for k in wanted}

    def arguments(self, row: int) -> list:
        """The arguments of one evaluation."""
        return [array[row] if array.ndim > 1 else float(array[row]) for array in self.inputs]

    def run(self, program: Program, evaluate: Callable, threads: int | None) -> None:
        """Evaluate all rows; `evaluate` sees to those at which a guard of the program fails."""
        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            left = pool.map(lambda at: self._piece(program, at), range(0, self.count, ROWS))
        for row in [row for rows in left for row in rows]:
            self.set(row, *evaluate(*self.arguments(row)))

    def set(self, row: int, value: float, gradients: list) -> None:
        self.values[row] = value
        for made, gradient in zip(self.gradients.values(), gradients, strict=True):
            made[row] = gradient

    def _piece(self, program: Program, start: int) -> list[int]:
        """Evaluate rows from `start` on; returns those at which a guard failed."""
        left, stop = [], min(start + ROWS, self.count)
        memory = program.begin()
        while start < stop:
            words = self._words(start)
            start += program.compiled["rows"](
                memory.address, program.address, words.ctypes.data, stop - start
            )
            if start < stop:
                left.append(start)
                start += 1
        program.end(memory)
        return left

    def _words(self, start: int) -> np.ndarray:
        """Where rows lie and how far apart, see `driver.rows`."""
        words = [self.values.ctypes.data + 8 * start, int(bool(self.gradients))]
        for k, array in enumerate(self.inputs):
            step, made = array.strides[0], self.gradients.get(k)
            to = 0 if made is None else made.ctypes.data + start * step
            words += [array.ctypes.data + start * step, step, to, step]
        return np.array(words, np.int64)

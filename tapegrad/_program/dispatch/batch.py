"""A program evaluated for many inputs, on threads."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..._core.codegen.progress import Progress
from ..._core.operations import PUBLIC
from ..._core.tensor.copies import unlisted
from ..._core.tensor.values import is_complex, is_recorded, is_tensor, value_of
from ..._derivatives.inputs import plain
from ..build.executable import Program
from .flows import TieredGraph

#: The number of rows that a thread takes at once, and of pieces whose sums are kept: results do not
#: depend on the number of threads.
ROWS, SUMS = 64, 64


class Batch:
    """Inputs of many evaluations, and memory for their results.

    An input has a row for each evaluation, or is shared by all. The gradients `wanted` have a row
    for each evaluation; if `summed`, those of shared inputs are summed over the evaluations.
    ValueError where the arguments do not fit `in_axes`.
    """

    def __init__(self, args: tuple, in_axes, argnums: tuple[int, ...], summed: bool):
        if any(map(is_complex, args)):
            raise TypeError(
                "tapegrad.compile: map, sum and the like take real arguments, and one is complex; "
                "give its real and imaginary part, or use tg.vmap"
            )
        self.inputs = [_rows_of(number, arg) for number, arg in enumerate(args)]
        self.shared = _shared(in_axes, self.inputs)
        self.asked = [number % len(args) for number in argnums]
        self.wanted = sorted({*self.asked})
        self.count = len(self.inputs[self.shared.index(False)])
        self.rows = max(ROWS, math.ceil(self.count / SUMS)) if summed else ROWS
        self.values = np.empty(self.count)
        self.summed = {k for k in self.wanted if summed and self.shared[k]}
        pieces = math.ceil(self.count / self.rows)
        self.gradients = {k: self._gradient(k, pieces) for k in self.wanted}

    def _gradient(self, k: int, pieces: int) -> np.ndarray:
        """A row for each evaluation; of sums one for each piece, and one for the remainder."""
        shape = self.inputs[k].shape if self.shared[k] else self.inputs[k].shape[1:]
        if k in self.summed:
            return np.zeros((pieces + 1, *shape))
        return np.empty((self.count, *shape))

    def total(self) -> float:
        """The sum of the values."""
        return float(self.values.sum())

    def found(self, single: bool):
        """The gradients, in the requested order."""
        sums = {k: plain(self.gradients[k].sum(axis=0)) for k in self.summed}
        made = [sums.get(k, self.gradients[k]) for k in self.asked]
        return made[0] if single else tuple(made)

    def arguments(self, row: int) -> list:
        """The arguments of one evaluation."""
        pairs = zip(self.inputs, self.shared, strict=True)
        found = [array if shared else array[row] for array, shared in pairs]
        return [array if array.ndim else float(array) for array in found]

    def run(self, program: Program, threads: int | None) -> list[int]:
        """Evaluate all rows but those at which a guard of the program fails; returns these."""
        left = self._on_threads(lambda start: self._piece(program, start), threads)
        return [row for rows in left for row in rows]

    def run_graph(self, graph: TieredGraph, hidden: list, threads: int | None) -> list[list]:
        """Evaluate all rows by a graph.

        Returns of each piece its rows, those of them that left the graph, and the edges taken.
        """
        values, gradient = [*self.arguments(0), *hidden], bool(self.wanted)

        def piece(start: int) -> list:
            rows = range(start, min(start + self.rows, self.count))
            given = self._sums()
            words = self._words(start, start // self.rows, given)
            left, taken = graph.run_rows(values, words, len(rows), gradient)
            return [rows, [start + row for row in left], taken]

        return self._on_threads(piece, threads)

    def _on_threads(self, work: Callable, threads: int | None) -> list:
        """The result of work for each piece, by the number of its first row."""
        pool = ThreadPoolExecutor(threads or os.cpu_count())
        with pool, Progress(f"evaluating {self.count} rows", self.count) as progress:

            def piece(start: int):
                found = work(start)
                progress.advance(min(self.rows, self.count - start))
                return found

            return list(pool.map(piece, range(0, self.count, self.rows)))

    def clear(self) -> None:
        """Reset the sums."""
        for k in self.summed:
            self.gradients[k][...] = 0.0

    def set(self, row: int, value: float, gradients: list) -> None:
        self.values[row] = value
        for k, gradient in zip(self.wanted, gradients, strict=True):
            if k in self.summed:
                self.gradients[k][-1] += gradient
            else:
                self.gradients[k][row] = gradient

    def _piece(self, program: Program, start: int) -> list[int]:
        """Evaluate rows from `start` on; returns those at which a guard failed."""
        left, piece, stop = [], start // self.rows, min(start + self.rows, self.count)
        memory = program.begin()
        given = self._sums()
        while start < stop:
            words = self._words(start, piece, given)
            start += program.compiled["rows"](
                memory.address, program.address, words.ctypes.data, stop - start
            )
            if start < stop:
                left.append(start)
                start += 1
        program.end(memory)
        return left

    def _sums(self) -> dict[int, np.ndarray]:
        """Memory for the gradients of one row that are summed up."""
        return {k: np.empty_like(self.inputs[k]) for k in self.summed}

    def _words(self, start: int, piece: int, given: dict[int, np.ndarray]) -> np.ndarray:
        """The addresses of rows and their distances, see `driver.rows`."""
        words = [self.values.ctypes.data + 8 * start, int(bool(self.wanted))]
        for k, array in enumerate(self.inputs):
            words += _place(array[None] if self.shared[k] else array, start, self.shared[k])
            if k in self.summed:
                total, _ = _place(self.gradients[k], piece, False)
                words += [*_place(given[k][None], start, True), total, array.size]
            elif k in self.gradients:
                words += [*_place(self.gradients[k], start, False), 0, 0]
            else:
                words += [0, 0, 0, 0]
        return np.array(words, np.int64)


def _rows_of(number: int, arg) -> np.ndarray:
    """An argument as an array of floats."""
    try:
        return np.asarray(value_of(unlisted(arg)), np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(
            f"tapegrad.compile: map and sum take arrays of numbers, and argument {number} is "
            f"{arg!r:.60}; give the parts of a structure as arguments of their own"
        ) from None


def _shared(in_axes, inputs: list[np.ndarray]) -> list[bool]:
    """The inputs that are the same for all evaluations."""
    given = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(inputs)
    shapes = ", ".join(str(array.shape) for array in inputs)
    if len(given) != len(inputs) or any(axis not in (0, None) for axis in given):
        raise ValueError(
            f"tapegrad.compile: in_axes is {in_axes!r} for {len(inputs)} arguments; it must be 0, "
            "rows along the first axis, or None, the same for all, for each of them"
        )
    rows = [array for array, axis in zip(inputs, given, strict=True) if axis == 0]
    if not rows or any(array.ndim == 0 or len(array) != len(rows[0]) for array in rows):
        raise ValueError(
            "tapegrad.compile: map and sum need arrays with a row for each evaluation, not "
            f"{shapes}; in_axes says which arguments are the same for all"
        )
    return [axis is None for axis in given]


def _place(rows: np.ndarray, start: int, shared: bool) -> tuple[int, int]:
    """The address of row `start` and the distance to the next; there is one row if it is shared."""
    step = 0 if shared else rows.strides[0]
    return rows.ctypes.data + start * step, step


# --- rows of a batch evaluated one by one, with recorded results ----------------------------------


class RecordedBatch:
    """Values and gradients of all rows as tensors, with the interface of a `Batch`."""

    def __init__(self, batch: Batch, rows: list):
        self._batch = batch
        self.values = _stacked([value for value, _ in rows])
        columns = zip(*[gradients for _, gradients in rows], strict=True)
        self._gradients = dict(zip(batch.wanted, map(_stacked, columns), strict=True))

    def total(self):
        """The sum of the values."""
        return PUBLIC["sum"](self.values)

    def found(self, single: bool):
        """The gradients, in the requested order."""
        sums = {k: PUBLIC["sum"](self._gradients[k], axis=0) for k in self._batch.summed}
        made = [sums.get(k, self._gradients[k]) for k in self._batch.asked]
        return made[0] if single else tuple(made)


def _stacked(column):
    return PUBLIC["stack"](list(column))


def gathered(batch: Batch, rows: list):
    """The results of all rows, each a value and its gradients: in the batch, or recorded."""
    if any(is_recorded(one) for value, gradients in rows for one in (value, *gradients)):
        return RecordedBatch(batch, rows)
    for number, (value, gradients) in enumerate(rows):
        batch.set(number, value_of(value), [value_of(one) for one in gradients])
    return batch


def row_of(batch: Batch, args: list, number: int) -> list:
    """The arguments of one evaluation, recorded where those of the batch are."""
    plain = batch.arguments(number)
    for k, arg in enumerate(args):
        if is_tensor(arg) and is_recorded(arg):
            whole = arg.astype(np.float64, "C", copy=False)  # in which order all rows are
            plain[k] = whole if batch.shared[k] else whole[number]
    return plain

"""Rows of a batch evaluated one by one, with recorded results."""

from __future__ import annotations

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.values import is_recorded, is_tensor, value_of
from .batch import Batch


class RecordedRows:
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
        return RecordedRows(batch, rows)
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

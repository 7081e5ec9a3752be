"""Rows picked, and rows added to, by the steps that read or compute them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..ir.elementwise_step import Picked, Rowwise
from ..ir.kernel_step import Kernel
from ..ir.moving_step import Gather
from ..ir.steps import ARENA, Code, Step, View, Visitor, contiguous
from ..ir.uses import mark_outputs

# --- Rows picked, and rows added to, by the element-wise steps that read or compute them ----------
# A gather that one element-wise step alone reads, all of it and in order, need not be an array: the
# step takes the rows block by block, and adds their adjoints where they are from. Likewise it adds
# results to rows itself which a scatter-add would read.


#: Fewer elements are not worth it: they may become operations on numbers.
LEAST = 256
#: The most arrays of rows of one step: its blocks are to stay in cache.
MOST = 16
_SCATTER_ADD = TABLE["scatter_add"].code


class Readers:
    """Which steps read the slots of an array."""

    def __init__(self, code: Code):
        self.code = code
        self.outputs = np.zeros(code.slots, bool)
        mark_outputs(code, self.outputs)
        self.steps = np.full(code.slots + 1, -1, np.int64)  # −2 for several
        for number, step in enumerate(code.steps):
            for slots in step.slots_read:
                self._read(number, np.asarray(slots))
            for view in step.views_read:
                if view.base == ARENA:
                    self._read(number, slice(*view.extent))

    def _read(self, number: int, slots: Any) -> None:
        seen = self.steps[slots]
        self.steps[slots] = np.where((seen == -1) | (seen == number), number, -2)

    def only(self, view: View) -> int:
        """The one step that reads an array, −1 if there is none, or several."""
        low, high = view.extent
        if low == high or self.outputs[low:high].any():
            return -1
        found = self.steps[low:high]
        return int(found[0]) if found[0] >= 0 and (found == found[0]).all() else -1


class _Reading(Visitor):
    """Gives an element-wise step that reads rows itself, in place of a gather; None for others."""

    def __init__(self, gather: Gather):
        positions: Any = gather.positions
        self.out, self.picked = gather.out, Picked(gather.source, positions)

    def elementwise(self, step: Any) -> Rowwise | None:
        out = self.out
        seen = {x for x in step.operand_views if x.overlaps(out)}
        if not all(x.offset == out.offset and x.size == out.size for x in seen):
            return None
        if len(step.picks) >= MOST or not all(x.is_contiguous for x in seen):
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        ops = [(op, tuple([rows if x in seen else x for x in given])) for op, given in step.ops]
        return Rowwise(step.shape, ops, step.stores, step.sums, [*step.picks, self.picked])

    def other(self, step: Step) -> None:
        return None


class _Adding(Visitor):
    """Gives an element-wise step that adds what it stores to rows itself; None for others."""

    def __init__(self, source: View, picked: Picked):
        self.source, self.picked = source, picked

    def elementwise(self, step: Any) -> Rowwise | None:
        if len(step.picks) >= MOST:
            return None
        rows = contiguous(0, step.shape, -1 - len(step.picks))
        result = next(k for k, stored in step.stores if stored == self.source)
        sums, picks = [*step.sums, (result, rows)], [*step.picks, self.picked]
        return Rowwise(step.shape, step.ops, step.stores, sums, picks)

    def other(self, step: Step) -> None:
        return None


def pick(code: Code) -> Code:
    """The program with rows picked and added to where they are needed."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited(step)}
    adds = {k: step for k, step in code.of(Kernel).items() if step.code == _SCATTER_ADD}
    if not gathers and not adds:
        return code
    steps = list(code.steps)
    done: set[int] = set()
    readers = Readers(code)
    for k, gather in gathers.items():
        reader = readers.only(gather.out)
        if reader >= 0:
            _replace(steps, reader, steps[reader].accept(_Reading(gather)), k, done)
    homes = {view: k for k, step in enumerate(steps) for view in step.movable}
    for k, add in adds.items():
        source, positions = add.operands
        if isinstance(positions, np.ndarray) and source.size >= LEAST and source in homes:
            home, picked = homes[source], Picked(add.out, positions)
            _replace(steps, home, steps[home].accept(_Adding(source, picked)), k, done)
    return dataclasses.replace(code, steps=[x for k, x in enumerate(steps) if k not in done])


def _replace(steps: list[Step], number: int, made: Step | None, instead: int, done: set) -> None:
    """Let a step, if it was made, take the place of one and do what another one did."""
    if made is not None:
        steps[number] = made
        done.add(instead)


def _is_suited(gather: Gather) -> bool:
    known = isinstance(gather.positions, np.ndarray)
    return known and gather.out.size >= LEAST and gather.source.is_contiguous


# --------------------------------------------------------------------------------------------------
# Products of rows that are picked with a matrix: the rows are picked from the products instead.
# `table[positions] @ matrix` is `(table @ matrix)[positions]`, which takes one product for each row
# of the table, while many positions may name a row, as edges of a graph do its nodes. In reverse
# the adjoints of equal rows are added before they are multiplied.


#: How often rows are picked, in the mean, and the least length of a row that is worth it.
OFTEN, LONG = 2, 4
_CONTRACT = TABLE["contract"].code


def multiply_first(code: Code) -> Code:
    """The program with such products computed of the rows that are picked, each once."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited_product(step)}
    if not gathers:
        return code
    products, slots, readers = code.of(Kernel), code.slots, Readers(code)
    instead: dict[int, list[Step]] = {}
    for k, gather in gathers.items():
        reader = readers.only(gather.out)
        product = products.get(reader)
        if product is not None and _is_product(product, gather.out):
            if made := _made(gather, product, slots):
                instead[k], instead[reader] = [], made
                slots += sum([one.out.size for one in made[:-1]])
    if not instead:
        return code
    flat = [one for k, step in enumerate(code.steps) for one in instead.get(k, [step])]
    return dataclasses.replace(code, steps=flat, slots=slots)


def _is_suited_product(gather: Gather) -> bool:
    """Whether whole rows of a matrix are picked, at positions that are known."""
    shape, positions = gather.out.shape, gather.positions
    return (
        isinstance(positions, np.ndarray)
        and gather.out.size >= LEAST
        and gather.source.is_contiguous
        and shape[-1] == gather.width >= LONG
    )


def _is_product(step: Kernel, rows: View) -> bool:
    """Whether a step multiplies these rows, as its left operand alone, with a matrix."""
    if step.code != _CONTRACT:
        return False
    left, right, _, batch, along = step.operands
    is_plain = batch == 0 and along == 1 and step.out.is_contiguous
    return is_plain and left == rows and isinstance(right, View) and not right.overlaps(rows)


def _made(gather: Gather, product: Kernel, first: int) -> list:
    """The steps in place of both, in slots from one on; none if few rows are picked twice."""
    positions: Any = gather.positions
    rows, places = np.unique(positions, return_inverse=True)
    width, count = gather.width, len(rows)
    if OFTEN * count > places.size:
        return []
    steps: list[Step] = []
    table = contiguous(gather.source.offset, (count, width), gather.source.base)
    if count * width < gather.source.size:  # the others may hold infinities
        table = contiguous(first, (count, width))
        steps.append(Gather(table, gather.source, rows))
        first += table.size
    out = product.out
    of_rows = contiguous(first, (count, *out.shape[len(gather.out.shape) - 1 :]))
    _, right, _, *how = product.operands
    steps.append(Kernel(product.code, [table, right, of_rows, *how], of_rows))
    return [*steps, Gather(out, of_rows, places.astype(np.int64).reshape(positions.shape))]

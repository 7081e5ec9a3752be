"""Products of rows that are picked with a matrix: the rows are picked from the products instead.

`table[positions] @ matrix` is `(table @ matrix)[positions]`, which takes one product for each row
of the table, while many positions may name a row, as edges of a graph do its nodes. In reverse the
adjoints of equal rows are added before they are multiplied.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..._core.ops.table import TABLE
from ..ir.gather_step import Gather
from ..ir.kernel_step import Kernel
from ..ir.steps import Code, Step, View, contiguous
from .row_fusion import LEAST, Readers

#: How often rows are picked, in the mean, and the least length of a row that is worth it.
OFTEN, LONG = 2, 4
_CONTRACT = TABLE["contract"].code


def multiply_first(code: Code) -> Code:
    """The program with such products computed of the rows that are picked, each once."""
    gathers = {k: step for k, step in code.of(Gather).items() if _is_suited(step)}
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


def _is_suited(gather: Gather) -> bool:
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

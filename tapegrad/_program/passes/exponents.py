"""Powers of numbers with constant exponents, as operations that compute them by products."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..._core.ops.powers import OF_NUMBERS
from ..._core.ops.table import TABLE
from ..ir import scalar_scans
from ..ir.scalars_step import Scalars
from ..ir.steps import Code
from ..ir.uses import constants_of

_POWER = TABLE["power"].code
#: Codes of operations as marks of `settle_wishes`: no difference of places is one of marks.
_MARK = 1 << 16


def by_products(code: Code) -> Code:
    """The program with powers by products, where loops stay regular.

    A loop whose exponent changes from iteration to iteration keeps it as data.
    """
    steps = code.numbers
    if not any((step.op == _POWER).any() for step in steps):
        return code
    known, values = constants_of(code)
    chosen = [_chosen(step, known, values) for step in steps]
    marks = np.zeros(code.slots, np.int32)
    for step, codes in zip(steps, chosen, strict=True):
        marks[step.first : step.first + len(codes)] = _MARK * codes
    wishes = [(codes != 0).astype(np.uint8) for codes in chosen]
    if not scalar_scans.settle_wishes(steps, wishes, marks):
        return code
    new = {}
    for step, codes, wished in zip(steps, chosen, wishes, strict=True):
        op, b = np.where(wished, codes, step.op), np.where(wished, -1, step.b)
        new[id(step)] = dataclasses.replace(step, op=op.astype(np.int32), b=b.astype(np.int32))
    return dataclasses.replace(code, steps=[new.get(id(step), step) for step in code.steps])


def _chosen(step: Scalars, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The code of the operation for each power of a step with a constant exponent, 0 for others."""
    found = np.zeros(len(step.op), np.int32)
    rows = np.flatnonzero(step.op == _POWER)
    rows = rows[known[step.b[rows]] != 0]
    exponents, numbers = np.unique(values[step.b[rows]], return_inverse=True)
    codes = [OF_NUMBERS[x].code if x in OF_NUMBERS else 0 for x in exponents.tolist()]
    found[rows] = np.array(codes, np.int32)[numbers] if codes else 0
    return found

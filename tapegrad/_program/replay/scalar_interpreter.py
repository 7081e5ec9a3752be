"""Steps of operations on single numbers, interpreted: one loop with a switch, for all programs.

The switch is generated from the declarations. A missing operand is the slot NOTHING, which every
arena has.
"""

from __future__ import annotations

import functools

import numpy as np

from ..._core.codegen import elements
from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source
from ..._core.ops.elementwise_text import adjoint_cases, declared, is_elementary, value_cases
from ..._core.ops.table import MOST_CODES, OPERANDS, TABLE, Pointwise
from ..._core.tape.sweeps import memory_of
from ..ir.elementwise_step import counted
from ..ir.scalars_step import Scalars
from ..ir.steps import NOTHING
from .parts import SIGNATURE, Part

#: Words of a part's data, byte offsets: the number of operations, the first one's slot, their
#: address.
COUNT, FIRST, ROWS = range(0, 24, 8)
#: An operation: its code, the slots of its operands. One table occupies few registers.
OP, A, B, C = range(0, 16, 4)
ROW_BYTES = 16

_HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    apart, helper, load_i32, load_i64, store_f64, store_i64,
)
from tapegrad._core.codegen.vector_math import select
from tapegrad._program.replay.run_layout import (
    FINISHED, GUARD_FAILED, RUN_ADJOINTS, RUN_FAILED, RUN_SEEN, RUN_VALUES,
)
from tapegrad._program.replay.scalar_interpreter import A, B, C, COUNT, FIRST, OP, ROW_BYTES, ROWS
"""

_ADJOINTS = """
@helper
def other_adjoints(row, V, G, slot, g):
    apart()
    code, out = load_i32(row, OP), V[slot]
    x, y, z = V[load_i32(row, A)], V[load_i32(row, B)], V[load_i32(row, C)]
"""

_LOOPS = """

def forward(run, data):
    V = floats(load_i64(run, RUN_VALUES))
    first, rows = load_i64(data, FIRST), load_i64(data, ROWS)
    for k in range(load_i64(data, COUNT)):
        row = rows + k * ROW_BYTES
        op, x, y = load_i32(row, OP), V[load_i32(row, A)], V[load_i32(row, B)]
        if op == ADD:
            out = x + y
        elif op == MULTIPLY:
            out = x * y
        elif op == SUBTRACT:
            out = x - y
        else:
            out = other_value(op, x, y, V[load_i32(row, C)])
            if op == GUARD and out != 0.0:
                store_i64(run, RUN_FAILED, first + k)
                store_f64(run, RUN_SEEN, x)
                return GUARD_FAILED
        V[first + k] = out
    return FINISHED


def reverse(run, data):
    V, G = floats(load_i64(run, RUN_VALUES)), floats(load_i64(run, RUN_ADJOINTS))
    first = load_i64(data, FIRST)
    slot, rows = first + load_i64(data, COUNT) - 1, load_i64(data, ROWS) - first * ROW_BYTES
    while slot >= first:
        g = G[slot]
        if g != 0.0:
            row = rows + slot * ROW_BYTES
            op, x, y = load_i32(row, OP), load_i32(row, A), load_i32(row, B)
            if op == ADD:
                G[x] += g
                G[y] += g
            elif op == MULTIPLY:
                to_x, to_y = g * V[y], g * V[x]
                G[x] += to_x
                G[y] += to_y
            elif op == SUBTRACT:
                G[x] += g
                G[y] -= g
            else:
                other_adjoints(row, V, G, slot, g)
        slot -= 1
    return FINISHED
"""
#: With a fourth case in the loop the switch would be a table of jumps, which are predicted worse.
_FAILED = """
    if code == GUARD:
        return 1.0 if x != y and (x == x or y == y) else 0.0
"""


def source(ops: list[Pointwise], item: int) -> str:
    """The text of the module, for some operations on elements of so many bytes."""
    codes = "".join(
        f"{name.upper()} = {TABLE[name].code}\n" for name in ("add", "subtract", "multiply")
    )
    return (
        elements.head(item)
        + _HEAD
        + codes
        + "GUARD = 0\n\n\n@helper\ndef other_value(code, x, y, z):\n    apart()"
        + _FAILED
        + value_cases(ops)
        + "\n    return 0.0\n\n\n"
        + _ADJOINTS
        + adjoint_cases(*[f"G[load_i32(row, {at})]" for at in "ABC"], ops=ops)
        + "\n"
        + _LOOPS
    )


@functools.cache
def compiled(item: int, elementary: bool) -> dict[str, int]:
    """The functions; if `elementary`, for operations without SciPy, as most programs have."""
    ops = [op for op in declared() if not elementary or not _others()[op.code]]
    return compile_source(source(ops, item), {"forward": SIGNATURE, "reverse": SIGNATURE})


@functools.cache
def _others() -> np.ndarray:
    """By code: whether an operation needs SciPy."""
    found = np.zeros(MOST_CODES, bool)
    found[[op.code for op in declared() if not is_elementary(op)]] = True
    return found


def interpreted(step: Scalars, item: int = ITEM) -> Part:
    """The part of a step without native code."""
    return interpreted_each([step], item)[0]


def interpreted_each(steps: list[Scalars], item: int = ITEM) -> list[Part]:
    """The parts of steps, made all at once: there may be thousands of few operations."""
    if not steps:
        return []
    sizes = [len(step.op) for step in steps]
    ends = np.cumsum(sizes)
    rows = np.full((ends[-1], 1 + OPERANDS), NOTHING, np.int32)
    for j, columns in enumerate(zip(*[(s.op, s.a, s.b) for s in steps], strict=True)):
        rows[:, j] = np.concatenate(columns)
    starts = (ends - sizes).tolist()
    for step, start in zip(steps, starts, strict=True):
        if len(step.c):
            rows[start : start + len(step.c), OPERANDS] = step.c
    np.maximum(rows[:, 1:], NOTHING, out=rows[:, 1:])  # −1 is no operand
    places = memory_of(rows) + rows.strides[0] * np.array(starts)
    data = np.stack([sizes, [step.first for step in steps], places], 1)
    others = np.append(0, np.cumsum(_others()[rows[:, 0]]))
    elementary = (others[ends] == others[starts]).tolist()
    return [
        _part(size, row, rows, compiled(item, plain))
        for size, row, plain in zip(sizes, data, elementary, strict=True)
    ]


def _part(count: int, data: np.ndarray, rows: np.ndarray, found: dict[str, int]) -> Part:
    note = f"{counted(count, 'operation')}, which would take too long to compile, or are few"
    return Part(found["forward"], found["reverse"], data, keep=rows, tier="interpreted", note=note)

"""Steps of operations on single numbers, interpreted: one loop with a switch, for all programs.

The switch is generated from the declarations. Where an operation has no such operand the slot
NOTHING stands in, which every arena has.
"""

from __future__ import annotations

import numpy as np

from ..codegen.factory import compile_source, once
from ..ops.steering import STEERING
from ..ops.table import TABLE, Pointwise
from .parts import SIGNATURE, Part
from .steps import NOTHING, Scalars

#: Words of a part's data, byte offsets: numbers, then addresses of columns.
COUNT, FIRST, OPS, A, B, C = range(0, 48, 8)
_OPERANDS = 3

_HEAD = """
from tapegrad.codegen import vmath as np
from tapegrad.codegen.memory import (
    apart, f64s, helper, inside, load_i32, load_i64, store_f64, store_i64,
)
from tapegrad.codegen.vmath import select
from tapegrad.replay.layout import (
    FINISHED, GUARD_FAILED, RUN_ADJOINTS, RUN_FAILED, RUN_SEEN, RUN_VALUES,
)
from tapegrad.replay.scalars import A, B, C, COUNT, FIRST, OPS
"""

_FORWARD = """

def forward(run, data):
    V = f64s(load_i64(run, RUN_VALUES))
    first = load_i64(data, FIRST)
    ops, xs, ys = load_i64(data, OPS), load_i64(data, A), load_i64(data, B)
    for k in range(load_i64(data, COUNT)):
        op, x, y = load_i32(ops, k * 4), V[load_i32(xs, k * 4)], V[load_i32(ys, k * 4)]
        if op == ADD:
            out = x + y
        elif op == MULTIPLY:
            out = x * y
        elif op == SUBTRACT:
            out = x - y
        elif op == GUARD:
            if x != y and (x == x or y == y):
                store_i64(run, RUN_FAILED, first + k)
                store_f64(run, RUN_SEEN, x)
                return GUARD_FAILED
            continue
        else:
            out = other_value(op, x, y, V[load_i32(load_i64(data, C), k * 4)])
        V[first + k] = out
    return FINISHED


def reverse(run, data):
    V, G = f64s(load_i64(run, RUN_VALUES)), f64s(load_i64(run, RUN_ADJOINTS))
    first = load_i64(data, FIRST)
    ops, xs, ys = load_i64(data, OPS), load_i64(data, A), load_i64(data, B)
    k = load_i64(data, COUNT) - 1
    while k >= 0:
        g = G[first + k]
        if g != 0.0:
            op, x, y = load_i32(ops, k * 4), load_i32(xs, k * 4), load_i32(ys, k * 4)
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
                z = load_i32(load_i64(data, C), k * 4)
                sx, sy, sz = other_slopes(op, V[x], V[y], V[z], V[first + k])
                G[x] += g * sx
                G[y] += g * sy
                G[z] += g * sz
        k -= 1
    return FINISHED
"""


def _cases(line) -> str:
    declared = [op for op in (*TABLE.values(), *STEERING.values()) if isinstance(op, Pointwise)]
    cases = []
    for op in declared:
        if len(op.inputs) <= _OPERANDS:
            lines = [f"    if code == {op.code}:"]
            lines += [f"        {text}" for text in line(op)]
            cases.append("\n".join(lines))
    return "\n".join(cases)


def _value(op: Pointwise) -> list[str]:
    steps = [f"{name} = {text}" for name, text in op.needed(op.value)]
    return [*steps, f"return {op.value}"]


def _slopes(op: Pointwise) -> list[str]:
    slopes = [*op.slopes, "0.0", "0.0"][:_OPERANDS]
    steps = [f"{name} = {text}" for name, text in op.needed(*slopes)]
    return [*steps, f"return {', '.join(slopes)}"]


def source() -> str:
    """The text of the module."""
    codes = "".join(
        f"{name.upper()} = {TABLE[name].code}\n" for name in ("add", "subtract", "multiply")
    )
    return (
        _HEAD
        + codes
        + "GUARD = 0\n\n\n@helper\ndef other_value(code, x, y, z):\n    apart()\n"
        + _cases(_value)
        + "\n    return 0.0\n\n\n@helper\ndef other_slopes(code, x, y, z, out):\n    apart()\n"
        + _cases(_slopes)
        + "\n    return 0.0, 0.0, 0.0\n"
        + _FORWARD
    )


@once
def compiled() -> dict[str, int]:
    return compile_source(source(), {"forward": SIGNATURE, "reverse": SIGNATURE})


def interpreted(step: Scalars) -> Part:
    """The part of a step, without code of its own."""
    a = np.ascontiguousarray(step.a, np.int32)
    columns = [np.ascontiguousarray(step.op, np.int32), a]
    for given in (step.b, step.c):
        full = given if len(given) else np.full_like(a, NOTHING)
        columns.append(np.ascontiguousarray(np.where(full < 0, NOTHING, full), np.int32))
    addresses = [column.ctypes.data for column in columns]
    data = np.array([len(step.op), step.first, *addresses], np.int64)
    found = compiled()
    return Part(found["forward"], found["reverse"], data, keep=columns)

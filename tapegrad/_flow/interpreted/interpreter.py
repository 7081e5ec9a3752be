"""Graphs interpreted: the loops over rows, generated from the declarations of operations.

An undo log keeps what reverse reads: before a block is entered, `ahead` saves on the tape the
registers that the block sets and reverse reads, then the number of the edge. So reverse proceeds
with registers as they were after each block.
"""

from __future__ import annotations

from ..._core.codegen.factory import compile_source, once
from ..._core.ops.opcode_cases import adjoint_cases, value_cases
from ..._core.ops.table import TABLE, Pointwise
from .encoding_layout import NAMES

SIGNATURE = "int64(int64, int64)"

_HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    apart, calloc, difference_fits, f64s, free, helper, i32s, i64s, load_f64, load_i32, load_i64,
    malloc, memcpy, memset, product_fits, single, store_f64, store_i64, store_u8, sum_fits,
)
from tapegrad._core.codegen.vector_math import select
from tapegrad._flow.interpreted.encoding_layout import *
from tapegrad._flow.ir.frame import *

LEAST = -(2**63)
"""

_INTEGERS = """
@helper
def allocated(frame, spaces, count):
    used, words = load_i64(frame, ARENA_USED), load_i64(frame, ARENA_WORDS)
    if count > words - used:
        return ARENA_FULL
    for space in range(spaces):
        memset(load_i64(frame, ARENA) + 8 * (space * words + used), 0, 8 * count)
    store_i64(frame, ARENA_USED, used + count)
    return FINISHED


@helper
def touches(op):
    return op == LOAD_FLOAT or op == LOAD_INT or op == STORE_FLOAT or op == STORE_INT


@helper
def refused(frame, why):
    store_i64(frame, REASON, why)
    return LEFT


@helper
def other_step(frame, data, row, regs):
    apart()
    V, W, op = f64s(regs), i64s(regs), load_i32(row, OP)
    x, y, z = load_i32(row, A), load_i32(row, B), load_i32(row, C)
    i, j, out, fits = W[x], W[y], 0, True
    if op == INT_SUBTRACT:
        fits, out = difference_fits(i, j), i - j
    elif op == INT_MULTIPLY:
        fits, out = product_fits(i, j), i * j
    elif op == INT_FLOOR_DIVIDE:
        if j == -1:
            fits, out = i != LEAST, -i
        elif j == 0:
            fits = False
        else:
            out = i // j
    elif op == INT_REMAINDER:
        if j == 0:
            fits = False
        elif j != -1:
            out = i % j
    elif op == INT_MIN:
        out = min(i, j)
    elif op == INT_MAX:
        out = max(i, j)
    elif op == INT_AND or op == BOOL_AND:
        out = i & j
    elif op == INT_OR or op == BOOL_OR:
        out = i | j
    elif op == INT_XOR or op == BOOL_XOR:
        out = i ^ j
    elif op == INT_NEGATIVE:
        fits, out = i != LEAST, -i
    elif op == INT_ABSOLUTE:
        fits, out = i != LEAST, abs(i)
    elif op == FLOAT_EQUAL:
        out = 1 if V[x] == V[y] else 0
    elif op == FLOAT_LESS_EQUAL:
        out = 1 if V[x] <= V[y] else 0
    elif op == IS_FINITE:
        out = 1 if V[x] - V[x] == 0.0 else 0
    elif op == BOOL_NOT:
        out = 1 - i
    elif op == BOOL_TO_INT:
        out = i
    elif op == FLOAT_TO_INT:
        fits = -9223372036854775808.0 <= V[x] < 9223372036854775808.0
        if fits:
            out = int(V[x])
    elif op == INT_SELECT or op == BOOL_SELECT or op == FLOAT_SELECT:
        out = j if i != 0 else W[z]
        taken, covered = load_i32(row, D), load_i64(frame, COVERED)
        if taken != 0 and covered != 0:
            store_u8(covered, taken - i, 1)
    elif op == ALLOCATE:
        out = load_i64(frame, ARENA_USED)
        if i < 0:
            return refused(frame, ARITHMETIC - load_i32(row, F))
        W[load_i32(row, OUT)] = out
        return allocated(frame, load_i64(data, SPACES), i)
    elif op == LOAD_INT:
        words = z * load_i64(frame, ARENA_WORDS)
        out = load_i64(load_i64(frame, ARENA), 8 * (i + words))
    elif op == STORE_INT:
        words = z * load_i64(frame, ARENA_WORDS)
        store_i64(load_i64(frame, ARENA), 8 * (i + words), j)
        return FINISHED
    if not fits:
        return refused(frame, ARITHMETIC - load_i32(row, F))
    W[load_i32(row, OUT)] = out
    return FINISHED
"""

_FORWARD = """

@helper
def finished(frame, data, regs, lists, row, tape, start):
    count, W = load_i64(data, REGISTERS), i64s(regs)
    for k in range(load_i32(row, B)):
        store_i64(load_i64(frame, OUTPUTS), 8 * k, W[lists[load_i32(row, A) + k]])
    if start == 0:
        return FINISHED
    used = (tape - start) >> 3
    if used + count + 1 > load_i64(frame, TAPE_WORDS):
        return TAPE_FULL
    memcpy(tape, regs, 8 * count)
    store_i64(tape, 8 * count, load_i32(row, C))
    store_i64(frame, TAPE_USED, used + count + 1)
    return FINISHED


@helper
def followed(frame, data, regs, moved, start):
    V, W, M = f64s(regs), i64s(regs), i64s(moved)
    rows, edges, lists = load_i64(data, ROWS), load_i64(data, EDGES), i32s(load_i64(data, LISTS))
    covered, jumps, arena = load_i64(frame, COVERED), load_i64(frame, JUMPS), load_i64(frame, ARENA)
    words = 8 * load_i64(frame, ARENA_WORDS)
    tape, end = start, start + 8 * load_i64(frame, TAPE_WORDS)
    row, edge = rows, 0
    while True:
        op, x, y = load_i32(row, OP), load_i32(row, A), load_i32(row, B)
        if op == JUMP or op == BRANCH:
            edge = x
            if op == BRANCH:
                edge = y if W[x] != 0 else load_i32(row, C)
            if covered != 0:
                store_u8(covered, edge, 1)
            jumps -= 1
            if jumps < 0:
                return refused(frame, TOO_MANY_JUMPS)
            at = edges + edge * EDGE_BYTES
            if start != 0:
                first, count = load_i32(at, SAVES), load_i32(at, SAVE_COUNT)
                if tape + 8 * count + 8 > end:
                    return TAPE_FULL
                for k in range(count):
                    store_i64(tape, 8 * k, W[lists[first + k]])
                store_i64(tape, 8 * count, edge)
                tape += 8 * count + 8
            first, count = load_i32(at, MOVES), load_i32(at, MOVE_COUNT)
            if count == 1:
                W[lists[first + 1]] = W[lists[first]]
            else:
                for k in range(count):
                    M[k] = W[lists[first + 2 * k]]
                for k in range(count):
                    W[lists[first + 2 * k + 1]] = M[k]
            row = rows + load_i32(at, TARGET)
            continue
        if CHECKED and touches(op) and not 0 <= W[x] < load_i64(frame, ARENA_USED):
            return refused(frame, OUTSIDE)
        if op == ADD:
            V[load_i32(row, OUT)] = V[x] + V[y]
        elif op == MULTIPLY:
            V[load_i32(row, OUT)] = V[x] * V[y]
        elif op == SUBTRACT:
            V[load_i32(row, OUT)] = V[x] - V[y]
        elif op == LOAD_FLOAT:
            V[load_i32(row, OUT)] = load_f64(arena + load_i32(row, C) * words, 8 * W[x])
        elif op == STORE_FLOAT:
            store_f64(arena + load_i32(row, C) * words, 8 * W[x], V[y])
        elif op == TO_SINGLE:
            V[load_i32(row, OUT)] = single(V[x])
        elif op == INT_ADD:
            i, j = W[x], W[y]
            if not sum_fits(i, j):
                return refused(frame, ARITHMETIC - load_i32(row, F))
            W[load_i32(row, OUT)] = i + j
        elif op == INT_LESS:
            W[load_i32(row, OUT)] = 1 if W[x] < W[y] else 0
        elif op == INT_LESS_EQUAL:
            W[load_i32(row, OUT)] = 1 if W[x] <= W[y] else 0
        elif op == INT_EQUAL:
            W[load_i32(row, OUT)] = 1 if W[x] == W[y] else 0
        elif op == FLOAT_LESS:
            W[load_i32(row, OUT)] = 1 if V[x] < V[y] else 0
        elif op == CHECK:
            if W[x] == 0:
                return refused(frame, y)
        elif op == NOTE_CHOICE:
            if W[y] != 0 and covered != 0:
                store_u8(covered, load_i32(row, D) - W[x], 1)
        elif op == INT_TO_FLOAT:
            V[load_i32(row, OUT)] = float(W[x])
        elif op > 0:
            V[load_i32(row, OUT)] = other_value(op, V[x], V[y], V[load_i32(row, C)])
        elif op == RETURN:
            return finished(frame, data, regs, lists, row, tape, start)
        elif op == LEAVE:
            return refused(frame, x)
        else:
            status = other_step(frame, data, row, regs)
            if status != FINISHED:
                return status
        row += ROW_BYTES


@helper
def entered(frame, data, start):
    count = load_i64(data, REGISTERS)
    regs = malloc(16 * count + 8)
    memcpy(regs, load_i64(data, TEMPLATE), 8 * count)
    memcpy(regs, load_i64(frame, INPUTS), 8 * load_i64(data, PARAMETERS))
    status = followed(frame, data, regs, regs + 8 * count, start)
    free(regs)
    return status


def forward(frame, data):
    return entered(frame, data, 0)


def ahead(frame, data):
    return entered(frame, data, load_i64(frame, TAPE))
"""

_REVERSE = """

@helper
def gone_back(frame, data, regs, adjoints, moved, tape):
    V, W, G, M = f64s(regs), i64s(regs), f64s(adjoints), f64s(moved)
    rows, edges = load_i64(data, BACK_ROWS), load_i64(data, EDGES)
    lists, shadow = i32s(load_i64(data, LISTS)), load_i64(frame, SHADOW)
    words, start = 8 * load_i64(frame, ARENA_WORDS), load_i64(frame, TAPE)
    row = rows + i32s(load_i64(data, RETURNS))[load_i64(tape, 0)]
    tape -= 8 * load_i64(data, REGISTERS)
    while True:
        op = load_i32(row, OP)
        if op == JUMP:
            if tape == start:
                return
            tape -= 8
            at = edges + load_i64(tape, 0) * EDGE_BYTES
            first, count = load_i32(at, SAVES), load_i32(at, SAVE_COUNT)
            tape -= 8 * count
            for k in range(count):
                W[lists[first + k]] = load_i64(tape, 8 * k)
            first, count = load_i32(at, PAIRS), load_i32(at, PAIR_COUNT)
            for k in range(count):
                parameter = lists[first + 2 * k + 1]
                M[k] = G[parameter]
                G[parameter] = 0.0
            for k in range(count):
                G[lists[first + 2 * k]] += M[k]
            row = rows + load_i32(at, SOURCE)
            continue
        x, y = load_i32(row, A), load_i32(row, B)
        if op == STORE_FLOAT:
            place = shadow + load_i32(row, C) * words + 8 * W[x]
            G[y] += load_f64(place, 0)
            store_f64(place, 0, 0.0)
        elif op == RETURN:
            for k in range(y):
                g = load_f64(load_i64(frame, OUTPUT_ADJOINTS), 8 * lists[x + 2 * k + 1])
                G[lists[x + 2 * k]] += g
        else:
            out = load_i32(row, OUT)
            g = G[out]
            if g != 0.0:
                G[out] = 0.0
                if op == ADD:
                    G[x] += g
                    G[y] += g
                elif op == MULTIPLY:
                    to_x, to_y = g * V[load_i32(row, E)], g * V[load_i32(row, D)]
                    G[x] += to_x
                    G[y] += to_y
                elif op == SUBTRACT:
                    G[x] += g
                    G[y] -= g
                elif op == TO_SINGLE:
                    G[x] += g
                elif op == LOAD_FLOAT:
                    place = shadow + load_i32(row, C) * words + 8 * W[x]
                    store_f64(place, 0, load_f64(place, 0) + g)
                elif op == FLOAT_SELECT:
                    G[y if W[x] != 0 else load_i32(row, C)] += g
                else:
                    other_adjoints(row, V, G, g)
        row += ROW_BYTES


def reverse(frame, data):
    count, parameters = load_i64(data, REGISTERS), load_i64(data, PARAMETERS)
    regs, adjoints = malloc(16 * count + 8), calloc(count + 1, 8)
    tape = load_i64(frame, TAPE) + 8 * (load_i64(frame, TAPE_USED) - 1)
    memcpy(regs, tape - 8 * count, 8 * count)
    gone_back(frame, data, regs, adjoints, regs + 8 * count, tape)
    memcpy(load_i64(frame, INPUT_ADJOINTS), adjoints, 8 * parameters)
    free(regs)
    free(adjoints)
    return FINISHED
"""


def source(checked: bool) -> str:
    """The text of the module; if `checked`, calls leave at an address that is not in use.

    Reverse needs no checks: it reads addresses from registers as they were.
    """
    codes = "".join(f"{name.upper()} = {op.code}\n" for name, op in _hot().items())
    values = "\n\n@helper\ndef other_value(code, x, y, z):\n    apart()\n" + value_cases()
    adjoints = (
        "\n\n@helper\ndef other_adjoints(row, V, G, g):\n    apart()\n"
        "    code, out = load_i32(row, OP), V[load_i32(row, OUT)]\n"
        "    to_x, to_y, to_z = load_i32(row, A), load_i32(row, B), load_i32(row, C)\n"
        "    x, y, z = V[load_i32(row, D)], V[load_i32(row, E)], V[load_i32(row, F)]\n"
    )
    cases = adjoint_cases("G[to_x]", "G[to_y]", "G[to_z]")
    parts = (values, "\n    return 0.0\n", adjoints, cases, "\n", _FORWARD, _REVERSE)
    return _HEAD + NAMES + f"CHECKED = {checked}\n" + codes + _INTEGERS + "".join(parts)


def _hot() -> dict[str, Pointwise]:
    """The operations with their own cases in the loops."""
    return {name: TABLE[name] for name in ("add", "subtract", "multiply")}


def _functions(checked: bool) -> dict[str, int]:
    names = dict.fromkeys(("forward", "ahead", "reverse"), SIGNATURE)
    return compile_source(source(checked), names)


@once
def compiled() -> dict[str, int]:
    """The addresses of `forward`, `ahead` and `reverse`."""
    return _functions(checked=False)


@once
def compiled_with_checks() -> dict[str, int]:
    """The same for graphs whose addresses are checked."""
    return _functions(checked=True)

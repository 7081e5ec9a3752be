"""Graphs interpreted: their tables, and loops over rows generated from the kinds of steps."""

from __future__ import annotations

import functools
import itertools
import string
import textwrap
from typing import Any

import numpy as np

from ..._core.codegen.factory import compile_source, once
from ..._core.ops.elementwise_text import ElementwiseText, adjoint_cases, renamed, value_cases
from ..._core.ops.table import Pointwise
from ..._core.sweep import kernels
from ..ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    GraphStep,
    Jump,
    Leave,
    Return,
    Value,
    live,
)
from ..kinds.step_kinds import (
    BOOL,
    CHOICE,
    CONTROL,
    FLOAT,
    PLACE,
    REASON,
    StepKind,
    kind_of,
    with_cases,
)
from .encoding_layout import ROW_BYTES

# --- encoding -------------------------------------------------------------------------------------
# A graph as tables for the interpreter.

_ROW_WORDS = ROW_BYTES // 4


class Encoding:
    """The tables of a graph; `data` is the address that the interpreter is given.

    `graph` must stay as it is.
    """

    def __init__(self, graph: Graph):
        self._graph, self._selects = graph, graph.edges  # where flags of selects begin
        self._variation = live(graph)
        self._registers = {one: k for k, one in enumerate(graph.entry.parameters)}
        self._constants: list[tuple[int, Any]] = []  # registers and numbers
        self._kernels: dict[int, int] = {}  # registers, by the addresses in them
        self._number()
        self._lists: list[int] = []
        self.edges = self._returns = 0
        rows = [self._rows(block) for block in graph.blocks]
        back = [self._back_rows(block) for block in graph.blocks]
        read = {one for step in graph.steps() for one in self._variation.read(step).values()}
        starts, back_starts = _starts(rows), _starts(back)
        numbers = {id(block): k for k, block in enumerate(graph.blocks)}
        edges = []
        for k, block in enumerate(graph.blocks):
            for edge in block.end.edges:
                target = numbers[id(edge.target)]
                edges.append([starts[target], *self._edge(edge, read), back_starts[k]])
        #: The number of registers, and the number of them that the tape saves for each edge.
        self.registers = len(self._registers) + len(self._kernels)
        self.kept = [edge[4] for edge in edges]
        returns = [k for k, block in enumerate(graph.blocks) if isinstance(block.end, Return)]
        tables = [_joined(rows), _joined(back), _joined(edges), self._lists]
        self._keep = [np.array([*table, 0], np.int32) for table in tables]
        self._keep += [self._template(), np.array([back_starts[k] for k in returns], np.int32)]
        at = [table.ctypes.data for table in self._keep]
        counts = (self.registers, len(graph.entry.parameters), graph.spaces)
        self._data = np.array([*at[:5], *counts, at[5]], np.int64)
        self.data = int(self._data.ctypes.data)

    def _number(self) -> None:
        """A register for each value; constants are there from the beginning."""
        registers = self._registers
        for block in self._graph.blocks:
            for one in block.parameters:
                registers.setdefault(one, len(registers))
            for step in block.steps:
                if step.result is not None:
                    registers[step.result] = len(registers)
                    if kind_of(step.op).is_constant:
                        self._constants.append((registers[step.result], step.payload))

    def _template(self) -> np.ndarray:
        words = np.zeros(self.registers + 1)
        integers = words.view(np.int64)
        kernels_at = [(place, address) for address, place in self._kernels.items()]
        for k, number in [*self._constants, *kernels_at]:
            (words if isinstance(number, float) else integers)[k] = number
        return words

    # --- forward ------------------------------------------------------------------------------

    def _rows(self, block: Block) -> list[int]:
        rows = [self._row(step) for step in block.steps if not kind_of(step.op).is_constant]
        return _joined([*rows, self._end(block)])

    def _row(self, step: GraphStep) -> list[int]:
        out = self._registers[step.result] if step.result is not None else 0
        operands = [self._registers[one] for one in step.operands]
        if (op := kind_of(step.op).declared) is not None and op.is_apart:
            return self._by_kernel(out, operands, operands, _value_kernel(op))
        return [kind_of(step.op).code, out, *_three(operands), self._word(step), 0, step.line]

    def _by_kernel(
        self, out: int, operands: list[int], adjoints: list[int], kernel: int
    ) -> list[int]:
        """A row of an operation that its own kernel computes, which adds to adjoints."""
        at = self._list([*operands, *adjoints])
        place = self._kernels.setdefault(kernel, len(self._registers) + len(self._kernels))
        return _padded(CONTROL["kernel"], out, at, len(operands), place)

    def _word(self, step: GraphStep) -> int:
        """What a step has in addition to its operands, as a word."""
        payload: Any = step.payload
        if payload is None:
            return 0
        kind = kind_of(step.op).payload
        if kind == CHOICE:
            return self._selects + 2 * payload + 1
        return payload.space if kind == PLACE else payload

    def _end(self, block: Block) -> list[int]:
        end = block.end
        if isinstance(end, Jump):
            return _padded(CONTROL["jump"], 0, self._next_edge())
        if isinstance(end, Branch):
            condition = self._registers[end.condition]
            then, other = self._next_edge(), self._next_edge()
            return _padded(CONTROL["branch"], 0, condition, then, other)
        if isinstance(end, Leave):
            return _padded(CONTROL["leave"], 0, end.reason)
        assert isinstance(end, Return)
        at = self._list([self._registers[one] for one in end.results])
        self._returns += 1
        return _padded(CONTROL["return"], 0, at, len(end.results), self._returns - 1)

    def _next_edge(self) -> int:
        self.edges += 1
        return self.edges - 1

    def _list(self, registers: list[int]) -> int:
        self._lists += registers
        return len(self._lists) - len(registers)

    # --- reverse ------------------------------------------------------------------------------

    def _adjoint(self, value: Value) -> int:
        """The place of the adjoint of a value; those that are never read share one place."""
        return self._registers[value] if value in self._variation else len(self._registers)

    def _back_rows(self, block: Block) -> list[int]:
        rows = []
        if isinstance(block.end, Return):
            results = enumerate(block.end.results)
            pairs = [(self._registers[one], k) for k, one in results if one in self._variation]
            at = self._list([number for pair in pairs for number in pair])
            rows.append(_padded(CONTROL["return"], 0, at, len(pairs)))
        steps = filter(self._variation.has, reversed(block.steps))
        rows += [self._back_row(step) for step in steps]
        return _joined([*rows, _padded(CONTROL["jump"])])

    def _back_row(self, step: GraphStep) -> list[int]:
        out = self._registers[step.result] if step.result is not None else 0
        registers = [self._registers[one] for one in step.operands]
        pairs = zip(step.operands, registers, strict=True)
        to = [self._adjoint(one) if one.kind == FLOAT else register for one, register in pairs]
        kind = kind_of(step.op)
        if kind.declared is not None and kind.declared.is_apart:
            kernel = _adjoint_kernel(kind.declared, self._variation.wanted(step))
            return self._by_kernel(out, registers, to, kernel)
        rest = [self._word(step)] if kind.is_linear else registers
        return _padded(kind.code, out, *_three(to), *rest)

    # --- edges --------------------------------------------------------------------------------

    def _edge(self, edge: Edge, read: set[Value]) -> list[int]:
        registers, target = self._registers, edge.target
        pairs = list(zip(edge.arguments, target.parameters, strict=True))
        moves = [registers[one] for pair in pairs for one in pair]
        results = [one.result for one in target.steps if not kind_of(one.op).is_constant]
        saves = [registers[one] for one in (*target.parameters, *results) if one in read]
        active = [(self._adjoint(a), self._adjoint(p)) for a, p in pairs if p in self._variation]
        adjoints = [one for pair in active for one in pair]
        found = [self._list(moves), len(pairs), self._list(saves), len(saves)]
        return [*found, self._list(adjoints), len(active)]


def _joined(lists: list[list[int]]) -> list[int]:
    return [*itertools.chain.from_iterable(lists)]


def _padded(*words: int) -> list[int]:
    return [*words, *[0] * (_ROW_WORDS - len(words))]


def _three(words: list[int]) -> list[int]:
    return [*words, *[0] * (3 - len(words))]


@functools.cache
def _value_kernel(op: Pointwise) -> int:
    return kernels.compile_value(op, 8)


@functools.cache
def _adjoint_kernel(op: Pointwise, wanted: tuple[bool, ...]) -> int:
    masks = sum(1 << k for k, is_wanted in enumerate(wanted) if is_wanted)
    return kernels.compile_adjoint(op, masks, 8)


def _starts(blocks: list[list[int]]) -> list[int]:
    """The byte offset of the first row of each block."""
    ends = np.cumsum([0, *map(len, blocks)]) * 4
    return ends[:-1].tolist()


# --- interpreter ----------------------------------------------------------------------------------
# Graphs interpreted: the loops over rows, generated from the declarations of kinds of steps.


# --- The cases of the interpreter's loops, generated from the declarations of kinds of steps ------


_ROW = ("x", "y", "load_i32(row, C)")
_BACK_ROW = ("load_i32(row, D)", "load_i32(row, E)", "load_i32(row, F)")
_PAYLOAD = "load_i32(row, D)"


def codes() -> str:
    """The names of kinds for their codes, as text."""
    named = {**CONTROL, **{kind.name: kind.code for kind in with_cases()}}
    return "".join(f"{name.upper()} = {code}\n" for name, code in named.items())


def touching() -> str:
    """The condition that `op` reads or writes memory at the address x."""
    return " or ".join(_is(kind) for kind in with_cases() if kind.payload == PLACE)


def forward_cases(hot: bool, indent: int) -> str:
    """The cases of steps in the loop itself, or of the others."""
    kinds = [kind for kind in with_cases() if kind.hot is hot and not kind.is_constant]
    return _chain(((kind, _forward(kind)) for kind in kinds), indent)


def back_cases(of_stores: bool, indent: int) -> str:
    """The cases of the reverse loop: of stores, or of steps with a result, whose adjoint is `g`."""
    kinds = [kind for kind in with_cases() if kind.is_linear or kind.sloping]
    chosen = [kind for kind in kinds if kind.is_store is of_stores]
    cases = ((kind, _linear(kind) if kind.is_linear else _partial(kind)) for kind in chosen)
    return _chain(cases, indent)


def _is(kind: StepKind) -> str:
    return f"op == {kind.name.upper()}"


def _chain(cases, indent: int) -> str:
    lines = [f"elif {_is(kind)}:\n{textwrap.indent(body, ' ' * 4)}" for kind, body in cases]
    return textwrap.indent("\n".join(lines).removeprefix("el"), " " * indent)


def _registers(kind: StepKind, words: tuple[str, ...], floats: str) -> dict[str, str]:
    """What operands are called, whose registers are in words of the row."""
    registers = zip(kind.inputs, kind.operands, words, strict=False)
    return {name: f"{floats if of == FLOAT else 'W'}[{at}]" for name, of, at in registers}


def _forward(kind: StepKind) -> str:
    names, lines = {**_registers(kind, _ROW, "V"), "payload": _PAYLOAD}, []
    if kind.holds:
        why = _PAYLOAD if kind.payload == REASON else "ARITHMETIC - load_i32(row, F)"
        lines += [f"if not ({kind.holds}):", f"    return refused(frame, {why})"]
    if kind.result:
        value = f"1 if ({kind.value}) else 0" if kind.result == BOOL else kind.value
        lines.append(f"{'V' if kind.result == FLOAT else 'W'}[load_i32(row, OUT)] = {value}")
    return renamed("\n".join([*lines, *filter(None, [kind.effect])]), names.get)


def _linear(kind: StepKind) -> str:
    """The adjoint of a step as it is declared."""
    place = f"place = shadow + {_PAYLOAD} * words + 8 * x\n" if kind.payload == PLACE else ""
    return renamed(place + kind.back, _registers(kind, _ROW, "G").get)


def _partial(kind: StepKind) -> str:
    """Contributions to the adjoints of operands; all products come before the first sum."""
    names, sums = {**_registers(kind, _BACK_ROW, "V"), "out": "V[out]"}, []
    products: list[str] = []
    text = ElementwiseText(kind, products.append, names.get)
    for j, part in text.adjoint("g", kind.sloping, nonzero=True).items():
        if kind.signs[j]:
            sums.append(f"G[{_ROW[j]}] {'-' if kind.signs[j] < 0 else '+'}= g")
        else:
            products.append(f"to_{kind.inputs[j]} = {part}")
            sums.append(f"G[{_ROW[j]}] += to_{kind.inputs[j]}")
    return "\n".join([*products, *sums])


# --- Graphs interpreted: the loops over rows, generated from the declarations of operations -------
# An undo log keeps what reverse reads: before a block is entered, `ahead` saves on the tape the
# registers that the block sets and reverse reads, then the number of the edge. So reverse proceeds
# with registers as they were after each block.


SIGNATURE = "int64(int64, int64)"

_TEXT = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    apart, call_address, calloc, difference_fits, f64s, free, helper, i32s, i64s, load_f64,
    load_i32, load_i64, malloc, memcpy, memset, product_fits, single, store_f64, store_i64,
    store_u8, sum_fits, types,
)
from tapegrad._core.codegen.vector_math import select
from tapegrad._flow.interpreted.encoding_layout import *
from tapegrad._flow.ir.frame import *

LEAST, CHECKED = -(2**63), $checked
$codes
kernel_call = call_address(types.none(types.int64, types.int64))

@helper
def by_kernel(row, regs, adjoints, lists, g):
    apart()
    W, first, count = i64s(regs), load_i32(row, A), load_i32(row, B)
    table = malloc(16 * count + 24)
    for k in range(count):
        store_i64(table, 8 * k, regs + 8 * lists[first + k])
        store_i64(table, 8 * (count + 2 + k), adjoints + 8 * lists[first + count + k])
    store_i64(table, 8 * count, regs + 8 * load_i32(row, OUT))
    store_i64(table, 8 * count + 8, table + 16 * count + 16)
    store_f64(table, 16 * count + 16, g)
    kernel_call(W[load_i32(row, C)], 1, table)
    free(table)


@helper
def other_value(code, x, y, z):
    apart()
$value_cases
    return 0.0


@helper
def other_adjoints(row, V, G, g):
    apart()
    code, out = load_i32(row, OP), V[load_i32(row, OUT)]
    to_x, to_y, to_z = load_i32(row, A), load_i32(row, B), load_i32(row, C)
    x, y, z = V[load_i32(row, D)], V[load_i32(row, E)], V[load_i32(row, F)]
$adjoint_cases


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
    return $touches


@helper
def refused(frame, why):
    store_i64(frame, REASON, why)
    return LEFT


@helper
def other_step(frame, data, row, regs):
    apart()
    V, W, op = f64s(regs), i64s(regs), load_i32(row, OP)
    x, y, covered = load_i32(row, A), load_i32(row, B), load_i64(frame, COVERED)
    arena, words = load_i64(frame, ARENA), 8 * load_i64(frame, ARENA_WORDS)
    if op == KERNEL:
        by_kernel(row, regs, regs, i32s(load_i64(data, LISTS)), 0.0)
$other_steps
    return FINISHED


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
$hot_steps
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
$stores
        elif op == RETURN:
            for k in range(y):
                g = load_f64(load_i64(frame, OUTPUT_ADJOINTS), 8 * lists[x + 2 * k + 1])
                G[lists[x + 2 * k]] += g
        else:
            out = load_i32(row, OUT)
            g = G[out]
            if g != 0.0:
                G[out] = 0.0
$adjoints
                elif op == KERNEL:
                    by_kernel(row, regs, adjoints, lists, g)
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
    return string.Template(_TEXT).substitute(
        checked=checked,
        codes=codes(),
        value_cases=value_cases(),
        adjoint_cases=adjoint_cases("G[to_x]", "G[to_y]", "G[to_z]"),
        other_steps=forward_cases(hot=False, indent=4),
        hot_steps=forward_cases(hot=True, indent=8),
        touches=touching(),
        stores=back_cases(of_stores=True, indent=8),
        adjoints=back_cases(of_stores=False, indent=16),
    )


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

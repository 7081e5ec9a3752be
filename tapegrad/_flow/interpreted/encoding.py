"""A graph as tables for the interpreter."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from ..._core.ops.table import Pointwise
from ..._core.sweep import kernels
from ..ir.flow_graph import Block, Branch, Edge, Graph, Jump, Leave, Return, Step, Value, varying
from ..kinds.step_kinds import CHOICE, CONTROL, FLOAT, PLACE, kind_of
from .encoding_layout import ROW_BYTES

_ROW_WORDS = ROW_BYTES // 4


class Encoding:
    """The tables of a graph; `data` is the address that the interpreter is given.

    `graph` must stay as it is.
    """

    def __init__(self, graph: Graph):
        self._graph, self._selects = graph, graph.edges  # where flags of selects begin
        self._variation = varying(graph)
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
            for edge in block.end.edges:  # type: ignore[union-attr]
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

    def _row(self, step: Step) -> list[int]:
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

    def _word(self, step: Step) -> int:
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

    def _back_row(self, step: Step) -> list[int]:
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

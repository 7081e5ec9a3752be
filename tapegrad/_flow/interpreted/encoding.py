"""A graph as tables for the interpreter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..._core.ops.table import find
from ..ir.activity import varying
from ..ir.flow_graph import (
    SELECTS,
    Block,
    Branch,
    Edge,
    Graph,
    Jump,
    Leave,
    Place,
    Return,
    Step,
    Value,
)
from .encoding_layout import CODES, ROW_BYTES

_CONSTANTS = ("float_const", "int_const", "bool_const")
_ROW_WORDS = ROW_BYTES // 4


class Encoding:
    """The tables of a graph; `data` is the address that the interpreter is given.

    `graph` must stay as it is. Raises ValueError for element-wise operations of more than three
    operands, which no table has today.
    """

    def __init__(self, graph: Graph):
        self._graph, self._selects = graph, graph.edges  # where flags of selects begin
        self._values, self._places = varying(graph)
        self._registers = {one: k for k, one in enumerate(graph.entry.parameters)}
        self._constants: list[tuple[int, Step]] = []
        self._number()
        self._lists: list[int] = []
        self.edges = self._returns = 0
        rows = [self._rows(block) for block in graph.blocks]
        back = [self._back_rows(block) for block in graph.blocks]
        read = self._read_back()
        starts, back_starts = _starts(rows), _starts(back)
        numbers = {id(block): k for k, block in enumerate(graph.blocks)}
        edges = []
        for k, block in enumerate(graph.blocks):
            for edge in block.end.edges:  # type: ignore[union-attr]
                target = numbers[id(edge.target)]
                edges.append([starts[target], *self._edge(edge, read), back_starts[k]])
        #: The number of registers, and the number of them that the tape saves for each edge.
        self.registers, self.kept = len(self._registers), [edge[4] for edge in edges]
        returns = [k for k, block in enumerate(graph.blocks) if isinstance(block.end, Return)]
        tables = [_joined(rows), _joined(back), _joined(edges), self._lists]
        self._keep = [np.array([*table, 0], np.int32) for table in tables]
        self._keep += [self._template(), np.array([back_starts[k] for k in returns], np.int32)]
        at = [table.ctypes.data for table in self._keep]
        counts = (len(self._registers), len(graph.entry.parameters), graph.spaces)
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
                    if step.op in _CONSTANTS:
                        self._constants.append((registers[step.result], step))

    def _template(self) -> np.ndarray:
        words = np.zeros(len(self._registers) + 1)
        integers = words.view(np.int64)
        for k, step in self._constants:
            number: Any = step.payload
            (words if step.op == "float_const" else integers)[k] = number
        return words

    # --- forward ------------------------------------------------------------------------------

    def _rows(self, block: Block) -> list[int]:
        rows = [self._row(step) for step in block.steps if step.op not in _CONSTANTS]
        return _joined([*rows, self._end(block)])

    def _row(self, step: Step) -> list[int]:
        operands = [self._registers[one] for one in step.operands]
        out = self._registers[step.result] if step.result is not None else 0
        if isinstance(step.payload, Place):
            operands = [*operands, *[0] * (2 - len(operands)), step.payload.space]
        elif step.op == "check":
            operands.append(int(step.payload))  # type: ignore[arg-type]
        elif step.op == "note_choice":
            operands += [0, self._selects + 2 * int(step.payload) + 1]  # type: ignore[arg-type]
        elif step.op in SELECTS and step.payload is not None:
            operands.append(self._selects + 2 * int(step.payload) + 1)
        return [*_padded(_code(step.op), out, *operands)[:-1], step.line]

    def _end(self, block: Block) -> list[int]:
        end = block.end
        if isinstance(end, Jump):
            return _padded(CODES["jump"], 0, self._next_edge())
        if isinstance(end, Branch):
            condition = self._registers[end.condition]
            then, other = self._next_edge(), self._next_edge()
            return _padded(CODES["branch"], 0, condition, then, other)
        if isinstance(end, Leave):
            return _padded(CODES["leave"], 0, end.reason)
        assert isinstance(end, Return)
        at = self._list([self._registers[one] for one in end.results])
        self._returns += 1
        return _padded(CODES["return"], 0, at, len(end.results), self._returns - 1)

    def _next_edge(self) -> int:
        self.edges += 1
        return self.edges - 1

    def _list(self, registers: list[int]) -> int:
        self._lists += registers
        return len(self._lists) - len(registers)

    # --- reverse ------------------------------------------------------------------------------

    def _adjoint(self, value: Value) -> int:
        """The place of the adjoint of a value; those that are never read share one place."""
        return self._registers[value] if value in self._values else len(self._registers)

    def _is_reversed(self, step: Step) -> bool:
        if step.op == "store_float":
            return step.payload in self._places
        return step.result in self._values and step.op not in _CONSTANTS

    def _back_rows(self, block: Block) -> list[int]:
        rows = []
        if isinstance(block.end, Return):
            results = enumerate(block.end.results)
            pairs = [(self._registers[one], k) for k, one in results if one in self._values]
            at = self._list([number for pair in pairs for number in pair])
            rows.append(_padded(CODES["return"], 0, at, len(pairs)))
        rows += [self._back_row(step) for step in reversed(block.steps) if self._is_reversed(step)]
        return _joined([*rows, _padded(CODES["jump"])])

    def _back_row(self, step: Step) -> list[int]:
        code, registers = _code(step.op), [self._registers[one] for one in step.operands]
        if step.op == "store_float":
            place = (registers[0], self._adjoint(step.operands[1]), step.payload.space)  # type: ignore[union-attr]
            return _padded(code, 0, *place)
        out = self._registers[step.result]  # type: ignore[index]
        if step.op == "load_float":
            return _padded(code, out, registers[0], 0, step.payload.space)  # type: ignore[union-attr]
        to = [self._adjoint(one) for one in step.operands]
        if step.op == "float_select":
            return _padded(code, out, registers[0], *to[1:])
        to += [len(self._registers)] * (3 - len(to))
        return _padded(code, out, *to, *registers)

    def _read_back(self) -> set[Value]:
        """The values that reverse reads."""
        read: set[Value] = set()
        for step in filter(self._is_reversed, self._graph.steps()):
            if step.op in ("store_float", "load_float", "float_select"):
                read.add(step.operands[0])
            elif step.op == "multiply":
                x, y = step.operands
                read.update({y} if x in self._values else (), {x} if y in self._values else ())
            elif step.op != "to_single":
                op = find(step.op)
                known = (*step.operands, step.result)
                read.update(one for k, one in enumerate(known) if op.used >> k & 1)  # type: ignore[misc]
        return read

    # --- edges --------------------------------------------------------------------------------

    def _edge(self, edge: Edge, read: set[Value]) -> list[int]:
        registers, target = self._registers, edge.target
        pairs = list(zip(edge.arguments, target.parameters, strict=True))
        moves = [registers[one] for pair in pairs for one in pair]
        results = [step.result for step in target.steps if step.op not in _CONSTANTS]
        saves = [registers[one] for one in (*target.parameters, *results) if one in read]
        active = [(self._adjoint(a), self._adjoint(p)) for a, p in pairs if p in self._values]
        adjoints = [one for pair in active for one in pair]
        found = [self._list(moves), len(pairs), self._list(saves), len(saves)]
        return [*found, self._list(adjoints), len(active)]


def _joined(lists: list[list[int]]) -> list[int]:
    return [*itertools.chain.from_iterable(lists)]


def _padded(*words: int) -> list[int]:
    return [*words, *[0] * (_ROW_WORDS - len(words))]


def _code(op: str) -> int:
    if op in CODES:
        return CODES[op]
    declared = find(op)
    if len(declared.inputs) > 3:
        raise ValueError(f"{op} has more than three operands")
    return declared.code


def _starts(blocks: list[list[int]]) -> list[int]:
    """The byte offset of the first row of each block."""
    ends = np.cumsum([0, *map(len, blocks)]) * 4
    return ends[:-1].tolist()

"""Graphs of loops and branches in files: blocks, what calls they serve, the form of the result.

Values are numbered in the order in which blocks have them: parameters, then results of steps. So
each is set once, and its kind follows from the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import POWERS, STEERING, TABLE, Pointwise
from ..._flow.ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    Input,
    Jump,
    Leave,
    Line,
    Place,
    Reason,
    Region,
    Return,
    Step,
    Value,
    dominators,
    ordered,
    validate_with,
    ways_in,
)
from ..._flow.kinds.step_kinds import CHOICE, FLOAT, INT, KINDS, PLACE, kind_of
from ..._flow.program import Limits
from ..._flow.reading.forms import kinds_of
from ..._flow.reading.readings import Reading
from ..dispatch.flows import Flow, inputs_of
from ..ir.steps import fields, integer, integers, items, label, pairs, short, text
from .encode import Reader, Writer
from .signature_format import SIGNATURE, encode_form, encode_signature, read_form, read_signature

#: The most steps that a call computes, which protects from infinite loops.
MOST_STEPS = 1 << 38


def _known() -> set[str]:
    """The operations of graphs that files have names for: not those of users."""
    declared = (*TABLE.values(), *STEERING.values(), *POWERS.values())
    return {*KINDS, *(op.name for op in declared if isinstance(op, Pointwise))}


# --- written --------------------------------------------------------------------------------------


def encode_graph(writer: Writer, flow: Flow) -> dict:
    """A graph, and what it needs for calls; ValueError for what files have no name for."""
    graph = flow.primal.program.graph
    encoder = _Encoder(graph)
    return {
        **encode_signature(writer, flow.key),
        "hidden": [writer.array(array) for array in flow.hidden],
        "inputs": [one.region for one in graph.inputs],
        "regions": "".join(one.kind for one in graph.regions),
        "lines": [one and list(one[:3]) for one in graph.lines],
        "reasons": [list(one) for one in graph.reasons],
        "blocks": [encoder.block(*one) for one in zip(*encoder.in_order(), strict=True)],
        "result": encode_form(writer, flow.form),
    }


class _Encoder:
    """Parts of a graph as JSON."""

    def __init__(self, graph: Graph):
        self.blocks, self.known = ordered(graph), _known()
        self.places = {block: k for k, block in enumerate(self.blocks)}
        self.numbers: dict[Value, int] = {}
        self.notes: dict[Any, int] = {}  # numbers of selects, those that are left
        for block in self.blocks:
            results = [step.result for step in block.steps if step.result is not None]
            for value in (*block.parameters, *results):
                self.numbers[value] = len(self.numbers)

    def in_order(self) -> tuple[list[Block], list[int]]:
        """The blocks, and the nearest dominator of each."""
        return self.blocks, dominators(self.blocks, ways_in(self.blocks))

    def block(self, block: Block, dominator: int) -> dict:
        return {
            "dominator": dominator,
            "parameters": "".join(one.kind for one in block.parameters),
            "steps": [self.step(step) for step in block.steps],
            "end": self.end(block.end),
        }

    def of(self, values) -> list[int]:
        return [self.numbers[one] for one in values]

    def step(self, step: Step) -> list:
        if step.op not in self.known:
            raise ValueError(f"its graph has {step.op}, which files have no name for")
        payload: Any = step.payload
        if isinstance(payload, Place):
            payload = payload.region
        elif isinstance(payload, float):
            payload = payload.hex()
        elif kind_of(step.op).payload == CHOICE and payload is not None:
            payload = self.notes.setdefault(payload, len(self.notes))
        return [step.op, self.of(step.operands), payload, step.line]

    def end(self, end) -> dict:
        if isinstance(end, Jump):
            return {"jump": self.edge(end.edge)}
        if isinstance(end, Branch):
            (condition,) = self.of(end.reads)
            return {"branch": [condition, self.edge(end.then), self.edge(end.other), end.line]}
        if isinstance(end, Return):
            return {"return": self.of(end.results)}
        return {"leave": end.reason}

    def edge(self, edge: Edge) -> list:
        return [self.places[edge.target], self.of(edge.arguments)]


# --- read -----------------------------------------------------------------------------------------


def read_graph(reader: Reader, item, most_bytes: int) -> Flow:
    """A graph of a file, checked; what it does at run time, above all addresses, is limited."""
    parts = "hidden", "inputs", "regions", "lines", "reasons", "blocks", "result"
    found = fields(item, *SIGNATURE, *parts)
    hidden, regions_of_inputs, regions, lines, reasons, blocks, result = found[len(SIGNATURE) :]
    key, _ = read_signature(reader, found[: len(SIGNATURE)], of_graph=True)
    arrays = [reader.array(one) for one in items(hidden)]
    graph = Graph()
    graph.inputs = _read_inputs(key, arrays, integers(regions_of_inputs))
    graph.regions = [Region(_one_of(kind, FLOAT + INT)) for kind in text(regions)]
    graph.lines = [None if one is None else Line(*reader.frame(one), False) for one in items(lines)]
    graph.reasons = [Reason(label(why), integer(line)) for why, line in pairs(reasons)]
    decoder = _Decoder(graph, items(blocks))
    validate_with(graph, graph.blocks, decoder.dominators)
    form = read_form(reader, result)
    ends = [block.end for block in graph.blocks if isinstance(block.end, Return)]
    if any(tuple([one.kind for one in end.results]) != kinds_of(form) for end in ends):
        raise ValueError("a graph returns other numbers than its result has")
    limits = Limits(most_bytes // 16, max(1, MOST_STEPS // _longest(graph)), are_checked=True)
    return Flow(Reading(graph, form, [], arrays), key, limits)


def _read_inputs(key: tuple, hidden: list[np.ndarray], regions: tuple[int, ...]) -> list[Input]:
    """The inputs of calls, then the arrays that the function read outside."""
    given = [(len(lengths), differentiated) for _, lengths, differentiated in inputs_of(key)]
    given += [(array.ndim, False) for array in hidden]
    if len(regions) != len(given):
        raise ValueError(f"a graph has {len(regions)} inputs, and its calls {len(given)}")
    pairs_of = zip(given, regions, strict=True)
    return [Input(ndim or None, wanted, region) for (ndim, wanted), region in pairs_of]


def _one_of(item, known: str) -> str:
    if item not in known:
        raise ValueError(f"{short(item)} is none of the kinds {known}")
    return item


def _longest(graph: Graph) -> int:
    """What a round of a block computes at most."""
    ends = [(block, block.end.edges) for block in graph.blocks]  # type: ignore[union-attr]
    return max(
        1 + len(block.steps) + sum(len(edge.arguments) for edge in edges) for block, edges in ends
    )


class _Decoder:
    """Blocks from JSON, put into a graph; `validate_with` checks what is not checked here."""

    def __init__(self, graph: Graph, blocks: list):
        self.graph, self.known = graph, _known()
        self.values: list[Value] = []
        self.dominators: list[int] = []
        if not blocks:
            raise ValueError("a graph has no blocks")
        graph.blocks = [Block(k) for k in range(len(blocks))]
        for block, item in zip(graph.blocks, blocks, strict=True):
            dominator, parameters, steps, end = fields(
                item, "dominator", "parameters", "steps", "end"
            )
            if not 0 <= integer(dominator) < max(block.number, 1):
                raise ValueError(f"block {block.number} is dominated by {dominator}")
            self.dominators.append(dominator)
            block.parameters = [self.value(_one_of(kind, "fib")) for kind in text(parameters)]
            block.steps = [self.step(one) for one in items(steps)]
            block.end = self.end(end)

    def value(self, kind: str) -> Value:
        self.values.append(self.graph.value(kind))
        return self.values[-1]

    def of(self, numbers) -> list[Value]:
        found = integers(numbers)
        if any(not 0 <= number < len(self.values) for number in found):
            raise ValueError("a graph reads what is not set")
        return [self.values[number] for number in found]

    def step(self, item) -> Step:
        op, operands, payload, line = items(item, 4)
        if type(op) is not str or op not in self.known:
            raise ValueError(f"there is no operation {short(op)}")
        read = tuple(self.of(operands))
        kind = kind_of(op)
        if kind.payload == PLACE:
            region = integer(payload)
            payload = Place(region)
            if kind.is_store and 0 <= region < len(self.graph.regions):
                self.graph.regions[region].written = True
        elif kind.is_constant and kind.result == FLOAT:
            payload = float.fromhex(text(payload))
        elif kind.payload == CHOICE and payload is not None:
            if not 0 <= integer(payload) <= self.graph.selects:
                raise ValueError(f"select {payload} comes before others")
            self.graph.selects = max(self.graph.selects, payload + 1)
        result = self.value(kind.result) if kind.result else None
        return Step(op, read, result, payload, integer(line))

    def end(self, item) -> Any:
        if type(item) is not dict or len(item) != 1 or not set(item) <= set(_ENDS):
            raise ValueError(f"{short(item)} is no end of a block")
        ((name, content),) = item.items()
        return _ENDS[name](self, content)

    def edge(self, item) -> Edge:
        target, arguments = items(item, 2)
        if not 0 <= integer(target) < len(self.graph.blocks):
            raise ValueError(f"there is no block {target}")
        return Edge(self.graph.blocks[target], self.of(arguments))

    def branch(self, item) -> Branch:
        condition, then, other, line = items(item, 4)
        (read,) = self.of([condition])
        return Branch(read, self.edge(then), self.edge(other), integer(line))


_ENDS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "jump": lambda decoder, item: Jump(decoder.edge(item)),
    "branch": _Decoder.branch,
    "return": lambda decoder, item: Return(tuple(decoder.of(item))),
    "leave": lambda decoder, item: Leave(integer(item)),
}

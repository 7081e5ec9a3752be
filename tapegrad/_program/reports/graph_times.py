"""The time of a graph by block and by the user's line, forward and reverse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._flow.edge_counting import edge_counts
from ..._flow.ir.flow_graph import Block, Branch, Graph, Leave, Return, Step, Value, varying
from ..._flow.kinds.step_kinds import kind_of
from ..dispatch.flows import Flow
from ..dispatch.life import State
from ..ir.cost import GRADIENT_COSTS, VALUE_COSTS
from ..ir.steps import is_function
from .draw import counted_kinds
from .step_times import ProgramProfile, StepTime

_VALUE, _GRADIENT = VALUE_COSTS[0], GRADIENT_COSTS[0]
#: Estimates of a plain operation and of a function, as of programs: forward, in reverse.
_PLAIN = np.array([_VALUE.numbers, _GRADIENT.numbers - _VALUE.numbers])
_FUNCTION = np.array(
    [_VALUE.number_functions, _GRADIENT.number_functions - _VALUE.number_functions]
)
_FORWARD_ALONE = np.array([1.0, 0.0])


def profile_graph(flow: Flow, name: str, values: Sequence, repeats: int) -> ProgramProfile:
    """Time calls, and divide the best by how often each block runs and what its steps cost.

    Raises ValueError where the call leaves the graph.
    """
    graph = flow.primal.program.graph
    counts = edge_counts(flow.primal.program, flow.inputs([*values]))
    tier = "native" if flow.primal.life.state is State.NATIVE else "interpreted"
    best = np.min([flow.timed([*values]) for _ in range(repeats)], axis=0)
    steps, costs = _steps(graph, _rounds(graph, counts), tier)
    total = np.sum(costs, axis=0)
    scale = np.divide(best, total, out=np.zeros(2), where=total > 0.0)
    for step, (forward, reverse) in zip(steps, scale * costs, strict=True):
        step.forward, step.reverse = float(forward), float(reverse)
    return ProgramProfile(name, tier == "native", steps)


def _rounds(graph: Graph, counts: np.ndarray) -> list[int]:
    """The number of runs of each block."""
    found = {id(block): 0 for block in graph.blocks} | {id(graph.entry): 1}
    edges = [edge for block in graph.blocks for edge in block.end.edges]  # type: ignore[union-attr]
    for edge, count in zip(edges, counts.tolist(), strict=True):
        found[id(edge.target)] += count
    return list(found.values())


def _steps(graph: Graph, rounds: list[int], tier: str) -> tuple[list[StepTime], np.ndarray]:
    """The operations of blocks at each line, without times, and their estimated cost."""
    active, _ = varying(graph)
    steps, costs = [], []
    for block, count in zip(graph.blocks, rounds, strict=True):
        for number, (ops, cost) in _by_line(block, active).items() if count else ():
            line = graph.lines[number]
            what = f"{count} × ({counted_kinds(ops)})"
            operations = {line[:3] if line else None: float(count * len(ops))}
            steps.append(StepTime(block.number, what, tier, 0.0, 0.0, operations))
            costs.append(count * cost)
    return steps, np.reshape(costs, (-1, 2))


def _by_line(block: Block, active: set[Value]) -> dict[int, tuple[list[str], np.ndarray]]:
    """Operations of a block by line, jumps among them, and what they cost in a round."""
    found: dict[int, tuple[list[str], np.ndarray]] = {}
    line = 0
    for step in block.steps:
        if not kind_of(step.op).is_constant:
            line = step.line
            ops, cost = found.setdefault(line, ([], np.zeros(2)))
            ops.append(step.op)
            cost += _cost(step, active)
    if not isinstance(block.end, (Return, Leave)):
        line = block.end.line if isinstance(block.end, Branch) else line
        ops, cost = found.setdefault(line, ([], np.zeros(2)))
        ops.append(type(block.end).__name__.lower())
        cost += _PLAIN
    return found


def _cost(step: Step, active: set[Value]) -> np.ndarray:
    kind = kind_of(step.op)
    cost = _FUNCTION if kind.declared and is_function(kind.code) else _PLAIN
    value = step.operands[1] if kind.is_store else step.result
    return cost if value in active else cost * _FORWARD_ALONE

"""A graph of a compiled function in words: loops and branches by line, calls that left it."""

from __future__ import annotations

import dataclasses
import linecache
import re
import textwrap
from collections.abc import Iterator

import numpy as np

from ..._flow.ir.flow_graph import Graph, Line
from ..dispatch.flow_tiers import PATIENCE, TieredGraph
from ..dispatch.flows import Flow
from ..dispatch.graph_advice import advice_on_leaving, advised
from ..dispatch.life import State
from ..ir.operation_words import counted
from .graph_nesting import Node, nested

#: More lines of one graph are counted and not shown; more letters of the user's are cut off.
MOST, MOST_LETTERS = 60, 70
_LOOP = re.compile(r"\b(for|while)\b")


def graph_text(flow: Flow, native: bool | None) -> Iterator[str]:
    """The report on a graph, in lines; `native` is the setting of the function."""
    yield _state(flow.primal, "blocks read from bytecode", native)
    yield from (_state(one, "blocks of its tangents", native) for one in flow.tiers[1:])
    lines = list(_entries(flow.primal.program.graph, flow.primal.seen))
    yield from (f"  {line}" for line in lines[:MOST])
    if len(lines) > MOST:
        yield f"  … and {len(lines) - MOST} more"
    if flow.primal.left:
        what = "raised an error" if flow.limits.are_checked else "ran eagerly"
        yield f"  {counted(flow.primal.left, 'evaluation')} left it and {what}"
        for reason, times in flow.primal.reasons.most_common(MOST):
            yield f"    {times} × {_with(reason, advice_on_leaving(reason))}"


def _state(one: TieredGraph, what: str, native: bool | None) -> str:
    """The size of a graph, its evaluator, and how often it was called."""
    state = one.life.state.value
    if one.life.state is State.FAILED:
        state += f": {one.life.held}"
    if one.program.limits.are_checked:
        state += ", since it is from a file"
    elif one.is_interpreted and native is None:
        state = f"interpreted for {one.seconds:.2g} s (native code after {PATIENCE:g} s)"
    count = f"{len(one.program.graph.blocks)} {what}"
    return f"branches and loops: a graph of {count}, {state}, {counted(one.calls, 'evaluation')}"


def refusal_text(reason: str) -> str:
    """The reason for having no graph, and how to avoid it."""
    return f"branches and loops: recorded once for each path, without a graph: {advised(reason)}"


def _with(reason: str, advice: str) -> str:
    return f"{reason}; {advice}" if advice else reason


# --- loops and branches -----------------------------------------------------------------------


@dataclasses.dataclass
class _Entry:
    """Loops or branches of one line, their depth, and their edges."""

    kind: str
    line: int
    depth: int
    edges: list[int]
    count: int = 1


def _entries(graph: Graph, seen: np.ndarray) -> Iterator[str]:
    found: list[_Entry] = []
    _collect(nested(graph), 0, None, found)
    for entry in found:
        yield "  " * entry.depth + _shown(graph, entry, seen)


def _collect(nodes: list[Node], depth: int, inside, found: list[_Entry]) -> None:
    """Entries of nodes; tests of one line, as of `a and b`, are one branch."""
    last: _Entry | None = inside
    for node in nodes:
        if node.kind == "block":
            continue
        if last is not None and (last.kind, last.line) == (node.kind, node.line):
            last.edges += node.edges
            last.count += node.kind == "loop"
        else:
            last = _Entry(node.kind, node.line, depth, [*node.edges])
            found.append(last)
        for part in node.parts:
            _collect(part, last.depth + 1, last, found)


def _shown(graph: Graph, entry: _Entry, seen: np.ndarray) -> str:
    line = graph.lines[entry.line]
    source = source_of(line)
    kind = entry.kind
    if kind == "loop" and source and not _LOOP.search(source):
        kind = "loop over elements"
    if kind == "select":
        kind = "branch of which both arms are computed"
    times = f" × {entry.count}" if entry.count > 1 else ""
    where = f" at {line}" if line else ""
    text = f"{kind}{times}{where}, {edges_text(entry.edges, seen)}"
    return text + (f": {textwrap.shorten(source, MOST_LETTERS)}" if source else "")


def source_of(line: Line | None) -> str:
    """The text of a line of the user's code, "" if there is no file."""
    return linecache.getline(line.file, line.number).strip() if line and line.is_here else ""


def edges_text(edges: list[int], seen: np.ndarray) -> str:
    """The number of edges taken."""
    if not edges:
        return "no test"
    return f"{int(np.count_nonzero(seen[edges]))} of {len(edges)} edges seen"

"""The report on a compiled function, in words: passes, steps, guards, memory, time, graphs."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import linecache
import re
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np

from ..._core.tensor.trace import Guard
from ..._flow.ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    Leave,
    Return,
    SourceLine,
    dominators,
    ordered,
    spans,
    ways_in,
)
from ..._flow.kinds.step_kinds import CHOICE, kind_of
from ..build.executable import Program
from ..dispatch.evaluation import Compilation
from ..dispatch.flow_choice import advice_on_leaving, advised
from ..dispatch.flows import PATIENCE, Flow, TieredGraph
from ..dispatch.life import State
from ..dispatch.variants import Variant, Variants, same
from ..ir.elementwise_step import counted
from ..ir.steps import Step
from ..ir.uses import GRADIENT_COSTS, VALUE_COSTS, Size, nanoseconds, size_of
from ..passes.pipeline import Account
from ..replay.operation_parts import Ruled, ruled_of
from ..replay.parts import Part

# --- graph nesting --------------------------------------------------------------------------------
# A graph as nested loops and branches, as the user's code has them, from its blocks and edges.

#: Deeper branches are put in sequence.
_DEEPEST = 40


@dataclasses.dataclass
class NestedNode:
    """A block, a branch or a loop in its place.

    Attributes
    ----------
    kind : str
        "block", "branch", "loop", or "select" for a branch of which both arms are computed.
    block : Block
        The block itself, that of the branch or select, or the first one of the loop.
    line : int
        Of the branch, select or loop, an index into the graph's lines.
    parts : list of list of Node
        The two arms of a branch; the body of a loop.
    edges : list of int
        Numbers of the edges of the branch, as in `covered`, or of those that decide at the loop's
        line whether it goes on.
    """

    kind: str
    block: Block
    line: int = 0
    parts: list[list[NestedNode]] = dataclasses.field(default_factory=list)
    edges: list[int] = dataclasses.field(default_factory=list)


def nested(graph: Graph) -> list[NestedNode]:
    """The blocks of a graph in order, each once."""
    blocks = ordered(graph)
    return _Nesting(graph, blocks).sequence(blocks, None, 0)


def _edge_numbers(graph: Graph) -> dict[int, int]:
    """The number of each edge by its id."""
    edges = [edge for block in graph.blocks for edge in block.end.edges]
    return {id(edge): number for number, edge in enumerate(edges)}


class _Nesting:
    def __init__(self, graph: Graph, blocks: list[Block]):
        self.graph, self.numbers = graph, _edge_numbers(graph)
        self.ways = ways_in(blocks)
        self.spans = dict(zip(blocks, spans(dominators(blocks, self.ways)), strict=True))
        self.loops = self._find_loops(blocks)

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether each call reaches b through a."""
        first, last = self.spans[a]
        return first <= self.spans[b][0] <= last

    def _find_loops(self, blocks: list[Block]) -> dict[Block, set[Block]]:
        """The blocks of each loop by its first one."""
        found: dict[Block, set[Block]] = {}
        for block in blocks:
            for edge in _edges(block):
                if self.dominates(edge.target, block):
                    body = found.setdefault(edge.target, {edge.target})
                    waiting = [block]
                    while waiting:
                        one = waiting.pop()
                        if one not in body:
                            body.add(one)
                            waiting.extend(before for before, _ in self.ways[one])
        return found

    def sequence(self, blocks: list[Block], loop: Block | None, depth: int) -> list[NestedNode]:
        """Nodes of the blocks of a loop, which its first block identifies."""
        found: list[NestedNode] = []
        done: set[Block] = set()
        for block in blocks:
            if block in done:
                continue
            if block in self.loops and block is not loop:
                body = [one for one in blocks if one in self.loops[block]]
                nodes = [self._loop(block, body, depth)]
            else:
                rest = [one for one in blocks if one not in done and one is not block]
                nodes = [NestedNode("block", block), *self._selects(block)]
                nodes += self._branch(block, rest, loop, depth)
            done.update(one.block for one in every(nodes))
            found += nodes
        return found

    def _loop(self, first: Block, body: list[Block], depth: int) -> NestedNode:
        line = self._line_of_loop(first, body)
        nodes = self.sequence(body, first, depth + 1)
        decides = [one for one in nodes if one.kind == "branch" and one.line == line]
        parts = [[one for one in nodes if one not in decides]]
        return NestedNode(
            "loop", first, line, parts, [edge for one in decides for edge in one.edges]
        )

    def _selects(self, block: Block) -> list[NestedNode]:
        """The branches that have become selects in a block."""
        choices = [one for one in block.steps if kind_of(one.op).payload == CHOICE]
        found = [one for one in choices if one.payload is not None]
        first = [len(self.numbers) + 2 * int(step.payload) for step in found]  # type: ignore[arg-type]
        return [
            NestedNode("select", block, step.line, [], [flag, flag + 1])
            for step, flag in zip(found, first, strict=True)
        ]

    def _line_of_loop(self, first: Block, body: list[Block]) -> int:
        """The place where a loop is decided: before a round, after it, or nowhere."""
        ends = [before for before, _ in self.ways[first] if before in self.loops[first]]
        lines = [
            block.end.line
            for block in (first, *ends)
            if isinstance(block.end, Branch) and self._leaves(block, first)
        ]
        lines = lines or [step.line for block in body for step in block.steps]
        return min(lines, key=self._number, default=0)

    def _number(self, line: int) -> int:
        place = self.graph.lines[line]
        return place.number if place else 0

    def _leaves(self, block: Block, loop: Block | None) -> bool:
        """Whether an edge leaves a loop, but where the function raises."""
        return loop is not None and any(
            edge.target not in self.loops[loop] and not isinstance(edge.target.end, Leave)
            for edge in _edges(block)
        )

    def _branch(self, block: Block, rest: list[Block], loop: Block | None, depth: int) -> list:
        """The branch at the end of a block, with those arms that return to the rest."""
        if not isinstance(block.end, Branch):
            return []
        is_flat = depth >= _DEEPEST or self._leaves(block, loop)
        arms = [[], []] if is_flat else self._arms(block, rest, loop)
        parts = [self.sequence(arm, loop, depth + 1) for arm in arms]
        edges = [self.numbers[id(edge)] for edge in _edges(block)]
        node = NestedNode("branch", block, block.end.line, parts, edges)
        return self._joined(node)

    def _arms(self, block: Block, rest: list[Block], loop: Block | None) -> list[list[Block]]:
        """The blocks that are reached through one edge of a branch only.

        If an arm ends the call, the code after the other one is no arm: it is not indented.
        """
        arms = [self._reached(block, edge.target, rest) for edge in _edges(block)]
        others = [set(rest).difference(arm) for arm in arms]
        comes_back = [
            any(
                edge.target is loop
                or (edge.target in other and not isinstance(edge.target.end, Return))
                for one in arm
                for edge in _edges(one)
            )
            for arm, other in zip(arms, others, strict=True)
        ]
        plain = [not any(isinstance(one.end, Branch) for one in arm) for arm in arms]
        if all(arms) and not all(comes_back) and not all(plain):
            sizes = [len(arm) for arm in arms]
            goes_on = comes_back if any(comes_back) else [size == max(sizes) for size in sizes]
            arms[goes_on.index(True)] = []
        return arms

    def _reached(self, block: Block, target: Block, rest: list[Block]) -> list[Block]:
        """The blocks of the rest that are reached through the edge to a target only."""
        ways = [one for one, _ in self.ways[target] if not self.dominates(target, one)]
        if ways != [block]:
            return []
        return [one for one in rest if self.dominates(target, one)]

    def _joined(self, node: NestedNode) -> list[NestedNode]:
        """A branch; a test before a loop that the loop repeats after each round belongs to it."""
        taken = [part for part in node.parts if part]
        if len(taken) == 1:
            for one in taken[0]:
                if one.kind == "loop" and one.line == node.line:
                    one.edges += node.edges
                    return taken[0]
        return [node]


def every(nodes: Iterable[NestedNode]) -> Iterator[NestedNode]:
    """Nodes with those inside."""
    for node in nodes:
        yield node
        for part in node.parts:
            yield from every(part)


def _edges(block: Block) -> tuple[Edge, ...]:
    return block.end.edges


# --- explain --------------------------------------------------------------------------------------
# The report on a compiled function, in words: passes, steps, guards, memory, time.

#: More lines of one sort are counted and not shown.
MOST = 24
_UNITS = ("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)


def explain(found: Compilation) -> str:
    """The text of `explain()`."""
    return "\n".join(_compilation(found, found.name))


def _compilation(found: Compilation, name: str) -> Iterator[str]:
    count = sum(bool(family.found) for family in found.families.values())
    is_graph = bool(found.graphs) and not count
    yield f"{name}: {counted(*(len(found.graphs), 'graph') if is_graph else (count, 'signature'))}"
    if found.reason:
        yield f"  runs eagerly, without a program: {found.reason}"
    if found.changes and name == found.name:
        yield f"  {found.changes}, which its programs do not"
    for flow in found.graphs:
        yield from (f"  {line}" for line in graph_text(flow, found.native))
    yield from (f"  {refusal_text(reason)}" for reason in found.refused)
    for key, family in found.families.items():
        if family.found:
            yield f"  signature ({_key(key)}): {_programs(family)}"
            yield from (f"    {line}" for line in _data(family.found[0]))
            yield from (f"    {line}" for line in _branches(family.found))
            for number, variant in enumerate(family.found, 1):
                yield f"    program {number}"
                yield from (f"      {line}" for line in _variant(variant))
    yield from (f"  {line}" for line in _history(found))
    for kind, derived in found.derived.items():
        yield from _compilation(derived, f"{name}.{kind}")


def _history(found: Compilation) -> Iterator[str]:
    """What has happened to the function, in order."""
    lines = [*found.history.lines()] if found.history is not None else []
    if not lines:
        return
    yield "history"
    if found.history is not None and found.history.dropped:
        yield f"  … {found.history.dropped} earlier"
    many = len(found.families) > 1
    shown = [
        f"signature ({_key(family.key)}): {text}" if many and family is not None else text
        for family, text in lines
    ]
    for text, alike in itertools.groupby(shown):
        count = len([*alike])
        yield f"  {text}" + (f" × {count}" if count > 1 else "")


def _programs(family: Variants) -> str:
    evaluations = counted(family.hits, "evaluation") + " replayed"
    return f"{counted(len(family.found), 'program')}, {evaluations}"


def _key(key: tuple) -> str:
    """The arguments of a signature."""
    count, *rest = key
    count, same = (count, ()) if isinstance(count, int) else count
    names = [item for item in rest if isinstance(item, str)]
    trees = rest[len(names) :]
    shown = [
        "{}: {}".format(name, ", ".join(map(_leaf, leaves)))
        if name
        else ", ".join(map(_leaf, leaves))
        for name, (_, *leaves) in zip([""] * count + names, trees, strict=True)
    ]
    return "; ".join(shown) + (f"; {counted(len(same), 'object')} given again" if same else "")


def _data(variant: Variant) -> Iterator[str]:
    """The arrays from outside that each call reads to see whether they have changed."""
    if in_place := variant.names.in_place():
        size = sum([one.owner.nbytes for one in in_place]) / 1e6
        names = ", ".join([one.name for one in in_place])
        yield f"data from outside, read where they lie: {names}, {size:.3g} MB"
    if arrays := variant.names.large_arrays():
        size = sum(arrays.values()) / 1e6
        yield f"data from outside, compared in each call: {', '.join(arrays)}, {size:.3g} MB"
        yield "  as arguments they are not compared"


def _branches(found: list[Variant]) -> Iterator[str]:
    """The user's lines at which programs differ, and how one program could serve both branches."""
    places = collections.Counter(
        next((str(g) for g, h in pairs if not same(g.value, h.value)), None)
        for one, other in itertools.pairwise(found)
        for pairs in [list(zip(one.guards, other.guards, strict=False))]
    )
    for place, count in places.most_common(MOST):
        if place is not None:
            again = counted(count, "more recording")
            yield f"{again} for {place}: another value took another branch"
            yield "  np.where, np.maximum or np.clip compute both branches in one program"


def _leaf(leaf: tuple) -> str:
    if len(leaf) == 2:
        return f"{leaf[1]!r:.40}"
    dtype, shape, differentiated, order = leaf
    lies = "" if order is None else f" with axes {list(order)} in memory"
    return f"{dtype[1:]}{list(shape)}{lies}" + ("" if differentiated else " data")


def _variant(variant: Variant) -> Iterator[str]:
    program = variant.program
    yield from _passes(variant.account, program)
    yield _native(variant)
    yield from steps_text(program)
    yield from _guards(variant.guards)
    yield _memory(program)
    code = program.source if program.native else program.code
    value, gradient = (nanoseconds(code, costs) for costs in (VALUE_COSTS, GRADIENT_COSTS))
    gradient += sum(_time_of_rule(part) for parts in program.parts.of for part in parts)
    yield f"estimate, interpreted: {_time(value)} a value, {_time(gradient)} with derivatives"


def _time_of_rule(part: Part) -> float:
    """Nanoseconds of a rule that has been made a program, as part of another."""
    ruled = ruled_of(part)
    if ruled is None or ruled.made is None:
        return 0.0
    return nanoseconds(ruled.made.program.code, VALUE_COSTS) - VALUE_COSTS[1]


def _native(variant: Variant) -> str:
    if variant.program.native:
        return "native: compiled to code of its own"
    if variant.life.state is State.FAILED:
        return f"native: no; {variant.life.held}"
    return "native: no, interpreted"


def _time(ns: float) -> str:
    unit, scale = max((u for u in _UNITS if u[1] <= max(ns, 1.0)), key=lambda u: u[1])
    return f"{ns / scale:.3g} {unit}"


# --- passes -------------------------------------------------------------------------------------


def _passes(account: Account | None, program: Program) -> Iterator[str]:
    if account is None:
        yield "loaded from a file, which does not tell how it was made"
        return
    yield f"rows: {account.rows} recorded, {account.rows - account.needed} of them not needed"
    yield f"{'pass':14s}{'steps':>9s}{'operations':>12s}{'stored':>12s}{'slots':>12s}  what it did"
    before, sizes = None, account.sizes
    if program.code is not program.source:
        last = "spread" if program.native else "sum chains"
        sizes = [*sizes, (last, size_of(program.code))]
    for name, size in sizes:
        numbers = "".join(f"{n:{w}d}" for n, w in zip(size, (9, 12, 12, 12), strict=True))
        yield f"{name:14s}{numbers}  {_change(before, size)}".rstrip()
        before = size


def _change(before: Size | None, after: Size) -> str:
    if before is None:
        return ""
    words = zip(("step", "operation", "stored number", "slot"), before, after, strict=True)
    found = [
        f"{counted(abs(old - new), word)} {'fewer' if new < old else 'more'}"
        for word, old, new in words
        if old != new
    ]
    return ", ".join(found) or "nothing"


# --- steps --------------------------------------------------------------------------------------


def steps_text(program: Program) -> Iterator[str]:
    """Steps by kind, and the operations inside of those that hold many."""
    steps = program.code.steps
    kinds = collections.Counter(step.plural for step in steps)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield f"steps: {words or 'none'}"
    named = collections.Counter(filter(None, [step.called for step in steps]))
    if named:
        yield "  calls: " + ", ".join(f"{name} × {count}" for name, count in named.most_common())
    lines = collections.Counter(
        line for k, step in enumerate(steps) for line in _inside(program, k, step)
    )
    for line, count in itertools.islice(lines.items(), MOST):
        yield f"  {line}" + (f" × {count}" if count > 1 else "")
    if len(lines) > MOST:
        yield f"  … and {len(lines) - MOST} more kinds"


def _inside(program: Program, k: int, step: Step) -> Iterator[str]:
    yield from step.explained(program.parts.wanted, program.parts.fresh)
    for part in program.parts.of[k]:
        if part.note and program.native:
            yield f"  {part.tier}: {part.note}"
        if (ruled := ruled_of(part)) is not None:
            value = "by NumPy, in Python" if part.tier == "Python" else "without Python"
            yield f"{ruled.op.name}: value {value}; its rule {_rule(ruled)}"


def _rule(ruled: Ruled) -> str:
    """The report on a rule."""
    if ruled.made is not None:
        return f"is a program of {counted(len(ruled.made.program.code.steps), 'step')}"
    return "is called in Python" if ruled.has_called else "has not been asked for"


# --- guards, memory -----------------------------------------------------------------------------


def _guards(guards: list[Guard]) -> Iterator[str]:
    lines = collections.Counter(f"{guard} was {guard.value:.6g}" for guard in guards)
    yield f"guards: {len(guards)}"
    for line, count in itertools.islice(lines.items(), MOST):
        yield f"  {line}" + (f" × {count}" if count > 1 else "")
    if len(lines) > MOST:
        yield f"  … and {len(lines) - MOST} more"


def _memory(program: Program) -> str:
    code = program.code
    item = code.item
    constants = sum(values.nbytes for _, values in code.constants)
    shared = sum(view.size for views in code.clears.values() for view in views)
    outside = sum(one.view.size for one in code.inputs if one.view.base)
    return (
        f"memory of a run: {item * program.parts.slots} bytes of values, as many of adjoints; "
        f"{constants} bytes of constants; {item * shared} bytes of values share slots with others; "
        f"{item * outside} bytes of inputs stay with the caller"
    )


# --- a graph of a compiled function in words: loops and branches by line, calls that left it ------


#: More lines of one graph are counted and not shown; more letters of the user's are cut off.
MOST_OF_GRAPH, MOST_LETTERS = 60, 70
_LOOP = re.compile(r"\b(for|while)\b")


def graph_text(flow: Flow, native: bool | None) -> Iterator[str]:
    """The report on a graph, in lines; `native` is the setting of the function."""
    yield _state(flow.primal, "blocks read from bytecode", native)
    yield from (_state(one, "blocks of its tangents", native) for one in flow.tiers[1:])
    lines = list(_entries(flow.primal.program.graph, flow.primal.seen))
    yield from (f"  {line}" for line in lines[:MOST_OF_GRAPH])
    if len(lines) > MOST_OF_GRAPH:
        yield f"  … and {len(lines) - MOST_OF_GRAPH} more"
    if flow.primal.left:
        what = "raised an error" if flow.limits.are_checked else "ran eagerly"
        yield f"  {counted(flow.primal.left, 'evaluation')} left it and {what}"
        for reason, times in flow.primal.reasons.most_common(MOST_OF_GRAPH):
            yield f"    {times} × {_with(reason, advice_on_leaving(reason))}"


def _state(one: TieredGraph, what: str, native: bool | None) -> str:
    """The size of a graph, its evaluator, and how often it was called."""
    state = one.life.state.value
    if one.life.state is State.FAILED:
        state += f": {one.life.held}"
    if one.program.limits.are_checked:
        state += ", since it is from a file"
    elif one.life.state is State.INTERPRETED and native is None:
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


def _collect(nodes: list[NestedNode], depth: int, inside, found: list[_Entry]) -> None:
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


def source_of(line: SourceLine | None) -> str:
    """The text of a line of the user's code, "" if there is no file."""
    return linecache.getline(line.file, line.number).strip() if line and line.is_here else ""


def edges_text(edges: list[int], seen: np.ndarray) -> str:
    """The number of edges taken."""
    if not edges:
        return "no test"
    return f"{int(np.count_nonzero(seen[edges]))} of {len(edges)} edges seen"

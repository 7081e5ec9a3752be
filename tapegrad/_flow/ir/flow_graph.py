"""A graph of blocks: what a function with loops and branches becomes; built, ordered, as text."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..kinds.step_kinds import (
    CHOICE,
    CONSTANT,
    CONSTANT_OF,
    FLOAT,
    INT,
    LOAD_OF,
    PLACE,
    REASON,
    STORE_OF,
    TYPE_OF,
    StepKind,
    kind_of,
)

# --- A graph of blocks: what a function with loops and branches becomes ---------------------------
# A block has parameters, steps and an end, which names the next block and its arguments. A value is
# set once in each round of its block, by a step or as a parameter, and is read in blocks that it
# dominates. Arrays and lists of numbers lie in one memory of words of 8 bytes, the arena; an
# address is the number of a word. Allocated memory stays until the call is over.
#
# Numbers of float32 are float64 here, too: sums, products, quotients and square roots of float32
# that are computed in float64 and then rounded (`to_single`) are those that float32 arithmetic
# gives.
#
# A call leaves the graph where this does not describe it (`check`, `Leave`, integers beyond 63
# bits, division by the integer 0): then the function runs eagerly.


class Value:
    """A number that a step gives or a block takes; compared by identity."""

    __slots__ = ("kind", "number")

    def __init__(self, kind: str, number: int):
        self.kind, self.number = kind, number

    def __repr__(self) -> str:
        return f"{self.kind}{self.number}"


@dataclasses.dataclass(frozen=True)
class Place:
    """The memory that a load or a store touches.

    A region is an alias class: its memory is reached through no other region. A space is a layer of
    the arena with addresses of its own, the same in all: 0 holds values, the others tangents.
    """

    region: int
    space: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class GraphStep:
    """One operation; `op` names its kind, which says what `payload` is.

    `line` is an index into the graph's lines.
    """

    op: str
    operands: tuple[Value, ...]
    result: Value | None
    payload: float | int | bool | Place | None = None
    line: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class Edge:
    """An edge to a block, with an argument for each of its parameters."""

    target: Block
    arguments: list[Value]


class End:
    """What follows the steps of a block."""

    __slots__ = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The ways to other blocks."""
        return ()

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that are read, but for those given along edges."""
        return ()


@dataclasses.dataclass(eq=False, slots=True)
class Jump(End):
    """Go on at a block."""

    edge: Edge

    @property
    def edges(self) -> tuple[Edge, ...]:
        return (self.edge,)


@dataclasses.dataclass(eq=False, slots=True)
class Branch(End):
    """Go on at one of two blocks, by a truth; `line` is an index into the graph's lines."""

    condition: Value
    then: Edge
    other: Edge
    line: int = 0

    @property
    def edges(self) -> tuple[Edge, ...]:
        return self.then, self.other

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.condition,)


@dataclasses.dataclass(eq=False, slots=True)
class Return(End):
    """The end, with the results."""

    results: tuple[Value, ...]

    @property
    def reads(self) -> tuple[Value, ...]:
        return self.results


@dataclasses.dataclass(eq=False, slots=True)
class Leave(End):
    """The function runs eagerly, for the reason of this number."""

    reason: int


@dataclasses.dataclass(eq=False, slots=True)
class Block:
    """Steps that run one after the other, and what follows."""

    number: int
    parameters: list[Value] = dataclasses.field(default_factory=list)
    steps: list[GraphStep] = dataclasses.field(default_factory=list)
    end: Jump | Branch | Return | Leave = None  # type: ignore[assignment]  # while it is read


class SourceLine(NamedTuple):
    """A line of the user's code, and the function that it is of.

    `is_here` says that the file is one of this process, whose text reports may show.
    """

    file: str
    number: int
    function: str
    is_here: bool = True

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number} in {self.function}"


class Reason(NamedTuple):
    """Why a call leaves the graph, and where: an index into the graph's lines."""

    text: str
    line: int = 0


@dataclasses.dataclass
class MemoryRegion:
    """Words of a kind; `written` says whether a step stores there (allocating is no store)."""

    kind: str
    written: bool = False


@dataclasses.dataclass
class GraphInput:
    """An input: a float, or an array in C order.

    A float is one parameter of the first block. An array is its address, in `region`, and its
    lengths; its elements lie there as doubles, whatever its dtype. An array of tangents has no
    parameters: it lies at the address of the array `tangent_of`, an input before it, in `space`.
    """

    ndim: int | None  # None for a float
    differentiated: bool
    region: int = -1
    tangent_of: int | None = None
    space: int = 0

    @property
    def parameters(self) -> str:
        """The kinds of its parameters."""
        if self.ndim is None:
            return FLOAT
        return INT * (1 + self.ndim) if self.tangent_of is None else ""


@dataclasses.dataclass
class Graph:
    """The blocks, the first one entered first, to which no edge leads.

    Its parameters are those of the inputs in order. `spaces` counts the layers of the arena.
    `lines` are the lines of the user's code that steps come from, the first one unknown; `reasons`
    say why a call leaves.
    """

    inputs: list[GraphInput] = dataclasses.field(default_factory=list)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    regions: list[MemoryRegion] = dataclasses.field(default_factory=list)
    lines: list[SourceLine | None] = dataclasses.field(default_factory=lambda: [None])
    reasons: list[Reason] = dataclasses.field(default_factory=list)
    spaces: int = 1
    selects: int = 0  # the number of branches that became selects
    values: int = 0  # the number so far

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    def value(self, kind: str) -> Value:
        """A new value."""
        self.values += 1
        return Value(kind, self.values - 1)

    def block(self) -> Block:
        """A new block."""
        self.blocks.append(Block(1 + max([one.number for one in self.blocks[-1:]], default=-1)))
        return self.blocks[-1]

    def region(self, kind: str) -> int:
        """A new region."""
        self.regions.append(MemoryRegion(kind))
        return len(self.regions) - 1

    def reason(self, text: str, line: int = 0) -> int:
        """The number of a reason to leave at a line."""
        reason = Reason(text, line)
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    @property
    def edges(self) -> int:
        """The number of edges."""
        return sum(len(block.end.edges) for block in self.blocks if block.end is not None)

    @property
    def flags(self) -> int:
        """The number of edges: the edges, then two for each branch that became a select."""
        return self.edges + 2 * self.selects

    def steps(self) -> Iterator[GraphStep]:
        for block in self.blocks:
            yield from block.steps


# --- Steps appended to blocks, with constants folded immediately ----------------------------------


_CONSTANT_OF = {TYPE_OF[kind]: name for kind, name in CONSTANT_OF.items()}


class Builder:
    """Puts steps at the end of a block of a graph; `block` and `line` may be set.

    `single` says that the floats of arrays are of float32; `has_own_kinds` that ints and floats go
    ways of their own, as far as that can be.
    """

    def __init__(self, graph: Graph, block: Block, line: int = 0, single: bool = False):
        self.graph, self.block, self.line, self.single = graph, block, line, single
        self.has_own_kinds = False

    def step(self, op: str, *operands: Value, payload=None) -> Value:
        """A step of the kind `op`; returns its result."""
        kind = kind_of(op).result
        result = self.graph.value(kind) if kind else None
        self.block.steps.append(GraphStep(op, operands, result, payload, self.line))
        return result  # type: ignore[return-value]

    def constant(self, number: float | int | bool) -> Value:
        """A Python float, int or bool as a value of its kind."""
        return self.step(_CONSTANT_OF[type(number)], payload=number)

    def load(self, region: int, address: Value) -> Value:
        """The word at an address."""
        op = LOAD_OF[self.graph.regions[region].kind]
        return self.step(op, address, payload=Place(region))

    def store(self, region: int, address: Value, value: Value) -> None:
        """Write a word."""
        self.graph.regions[region].written = True
        self.step(STORE_OF[value.kind], address, value, payload=Place(region))

    def check(self, condition: Value, why: str) -> None:
        """Leave the graph where a condition does not hold."""
        self.step("check", condition, payload=self.graph.reason(why, self.line))

    def jump(self, target: Block, *arguments: Value) -> None:
        self.block.end = Jump(Edge(target, list(arguments)))

    def branch(self, condition: Value, then: Edge, other: Edge) -> None:
        self.block.end = Branch(condition, then, other, self.line)

    def give(self, *results: Value) -> None:
        """Return from the graph."""
        self.block.end = Return(results)

    def leave(self, why: str) -> None:
        self.block.end = Leave(self.graph.reason(why, self.line))

    def begin(self, *kinds: str) -> Block:
        """A new block with parameters of these kinds; steps go on being put where they were."""
        block = self.graph.block()
        block.parameters = [self.graph.value(kind) for kind in kinds]
        return block


# --- Blocks in the order of dominators: which block every path to another one goes through --------


def ordered(graph: Graph) -> list[Block]:
    """The blocks that can be reached; a block comes after those that dominate it."""
    done: list[Block] = []
    seen = {graph.entry}
    waiting = [(graph.entry, iter(graph.entry.end.edges))]
    while waiting:
        block, edges = waiting[-1]
        for edge in edges:
            if edge.target not in seen:
                seen.add(edge.target)
                waiting.append((edge.target, iter(edge.target.end.edges)))
                break
        else:
            done.append(block)
            waiting.pop()
    return done[::-1]


def ways_in(blocks: list[Block]) -> dict[Block, list[tuple[Block, Edge]]]:
    """The edges to each block, with the blocks that they come from."""
    found: dict[Block, list[tuple[Block, Edge]]] = {block: [] for block in blocks}
    for block in blocks:
        for edge in block.end.edges:
            found[edge.target].append((block, edge))
    return found


def dominators(blocks: list[Block], ways: dict[Block, list[tuple[Block, Edge]]]) -> list[int]:
    """The nearest dominator of each block, as places in `blocks`; the first has itself."""
    place = {block: k for k, block in enumerate(blocks)}
    before = [[place[block] for block, _ in ways[one]] for one in blocks]
    found = [0] + [-1] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            nearest = -1
            for one in before[k]:
                if found[one] >= 0:
                    nearest = one if nearest < 0 else _common(found, nearest, one)
            if nearest != found[k]:
                found[k], changed = nearest, True
    return found


def _common(found: list[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = found[a]
        else:
            b = found[b]
    return a


def spans(nearest: list[int]) -> list[tuple[int, int]]:
    """Numbers down the tree of dominators: of a block itself, and the last one below it.

    A block dominates those whose number is in its span. `nearest` has the nearest dominator of each
    block, one before it; the first has itself.
    """
    sizes = [1] * len(nearest)
    for k in range(len(nearest) - 1, 0, -1):
        sizes[nearest[k]] += sizes[k]
    first, free = [0] * len(nearest), [1] * len(nearest)
    for k in range(1, len(nearest)):
        above = nearest[k]
        first[k] = free[above]
        free[above] += sizes[k]
        free[k] = first[k] + 1
    return [(k, k + size - 1) for k, size in zip(first, sizes, strict=True)]


# --- The values and the memory of a graph that vary with inputs -----------------------------------


class Variation(NamedTuple):
    """Values, and places in memory, with a derivative."""

    values: set[Value]
    places: set[Place]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def has(self, step: GraphStep) -> bool:
        """Whether the result of a step varies, or the memory that it writes."""
        if step.result is None:
            return step.payload in self.places
        return step.result in self.values

    def wanted(self, step: GraphStep) -> tuple[bool, ...]:
        """The operands that get a contribution from the adjoint of the result."""
        sloping = kind_of(step.op).sloping
        return tuple(j in sloping and one in self.values for j, one in enumerate(step.operands))

    def read(self, step: GraphStep) -> dict[str, Value]:
        """The values that the adjoint of a step reads, by name."""
        if not self.has(step):
            return {}
        kind = kind_of(step.op)
        named = dict(zip(kind.inputs, step.operands, strict=True))
        if kind.is_linear:
            return {name: one for name, one in named.items() if one.kind != FLOAT}
        if step.result is not None:
            named["out"] = step.result
        names = names_read(step.op, self.wanted(step))
        return {name: one for name, one in named.items() if name in names}


def varying(graph: Graph, inputs: Iterable[int] | None = None) -> Variation:
    """The floats, and the memory, with a derivative with respect to some inputs.

    Parameters
    ----------
    graph : Graph
    inputs : iterable of int, optional
        Numbers of inputs; by default of those that are differentiated.
    """
    if inputs is None:
        inputs = [k for k, one in enumerate(graph.inputs) if one.differentiated]
    onward = passed_on(graph)
    found, waiting = set(), _seeds(graph, set(inputs))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += onward.get(one, ())
    values = {one for one in found if isinstance(one, Value)}
    return Variation(values, {one for one in found if isinstance(one, Place)})


def live(graph: Graph) -> Variation:
    """Values and places with adjoints: they vary with an input, and a result with them."""
    values, places = varying(graph)
    return Variation(values & _read_by_results(graph), places)


def _read_by_results(graph: Graph) -> set[Value]:
    """Values on which a result depends; writes to memory always count."""
    found: set[Value] = set()
    count = -1
    while count < len(found):
        count = len(found)
        for block in reversed(graph.blocks):
            found.update(block.end.reads)
            for edge in block.end.edges:
                pairs = zip(edge.arguments, edge.target.parameters, strict=True)
                found.update(given for given, parameter in pairs if parameter in found)
            for step in reversed(block.steps):
                if step.result is None or step.result in found:
                    found.update(differentiable_operands(step))
    return found


def differentiable_operands(step: GraphStep) -> list[Value]:
    """The operands of a step to which the partial derivative is not always 0."""
    return [step.operands[j] for j in kind_of(step.op).sloping]


@functools.lru_cache(4096)
def names_read(op: str, wanted: tuple[bool, ...]) -> frozenset[str]:
    """The names of operands, and `out`, that the partial derivatives wanted read."""
    return frozenset(kind_of(op).read_by([j for j, want in enumerate(wanted) if want]))


def _seeds(graph: Graph, inputs: set[int]) -> list[Value | Place]:
    seeds: list[Value | Place] = []
    at = 0
    for k, one in enumerate(graph.inputs):
        if k in inputs:
            is_number = one.ndim is None
            seeds.append(graph.entry.parameters[at] if is_number else Place(one.region, one.space))
        at += len(one.parameters)
    return seeds


def passed_on(graph: Graph) -> dict[Value | Place, list[Value | Place]]:
    """For a value, or a place, what varies with it directly."""
    found: dict[Value | Place, list[Value | Place]] = {}
    for step in graph.steps():
        kind = kind_of(step.op)
        to: Any = step.payload if kind.is_store else step.result
        for one in [step.payload] if kind.is_load else differentiable_operands(step):
            found.setdefault(one, []).append(to)  # type: ignore[arg-type]
    for block in graph.blocks:
        for edge in block.end.edges if block.end else ():
            for argument, parameter in zip(edge.arguments, edge.target.parameters, strict=True):
                if parameter.kind == FLOAT:
                    found.setdefault(argument, []).append(parameter)
    return found


# --- A graph as text, for people and for tests ----------------------------------------------------


def text_of(graph: Graph) -> str:
    """The blocks of a graph, a line for each step and end."""
    return "\n".join(line for block in graph.blocks for line in _block(graph, block))


def _block(graph: Graph, block: Block) -> list[str]:
    found = [f"block {block.number}({_listed(block.parameters)}):"]
    for step in block.steps:
        where = graph.lines[step.line]
        found.append(f"    {_step(graph, step)}" + (f"  # {where}" if where else ""))
    return [*found, f"    {_end(graph, block)}"]


def _listed(values) -> str:
    return ", ".join(map(repr, values))


def _step(graph: Graph, step: GraphStep) -> str:
    payload = step.payload
    if isinstance(payload, Place):
        shown = f"[region {payload.region}" + (
            f", space {payload.space}]" if payload.space else "]"
        )
    elif kind_of(step.op).payload == REASON:
        shown = repr(graph.reasons[payload].text)  # type: ignore[index]
    else:
        shown = "" if payload is None else repr(payload)
    call = " ".join(filter(None, (step.op, _listed(step.operands), shown)))
    return call if step.result is None else f"{step.result!r} = {call}"


def _edge(edge: Edge) -> str:
    return f"block {edge.target.number}({_listed(edge.arguments)})"


def _end(graph: Graph, block: Block) -> str:
    end = block.end
    if isinstance(end, Jump):
        return f"jump {_edge(end.edge)}"
    if isinstance(end, Branch):
        return f"branch {end.condition!r}: {_edge(end.then)}, else {_edge(end.other)}"
    if isinstance(end, Return):
        return f"return {_listed(end.results)}".rstrip()
    return "no end" if end is None else f"leave {graph.reasons[end.reason].text!r}"


# --- A graph checked: kinds, numbers, and that every value is set before it is read ---------------


def validate(graph: Graph) -> None:
    """ValueError where a graph is none."""
    blocks = ordered(graph)
    validate_with(graph, blocks, dominators(blocks, ways_in(blocks)))


def validate_with(graph: Graph, blocks: list[Block], nearest: Sequence[int]) -> None:
    """The same, in linear time: the dominators of blocks that can be reached are known or claimed.

    Parameters
    ----------
    graph : Graph
    blocks : list of Block
        The blocks of the graph, the first one first; at least all that can be reached.
    nearest : sequence of int
        For each of these the place of its nearest dominator, before its own.
    """
    _check(_parameters(graph) == _kinds(graph.entry.parameters), "inputs and parameters differ")
    for one in graph.inputs:
        _check(one.ndim is None or _is_region(graph, one.region, FLOAT), f"region {one.region}")
    for reason in graph.reasons:
        _check(0 <= reason.line < len(graph.lines), "a reason has no line")
    known = {id(block) for block in graph.blocks}
    for block in graph.blocks:
        for step in block.steps:
            _check_step(graph, step)
        _check_end(graph, block, known)
    _check_order(blocks, nearest)


def _parameters(graph: Graph) -> str:
    return "".join(one.parameters for one in graph.inputs)


def _kinds(values) -> str:
    return "".join(one.kind for one in values)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_step(graph: Graph, step: GraphStep) -> None:
    op, kind = step.op, kind_of(step.op)
    kinds = _kinds(step.operands)
    _check(kinds == kind.operands, f"{op} of {kinds}")
    result = step.result.kind if step.result is not None else ""
    _check(result == kind.result, f"{op} gives {result}")
    _check(0 <= step.line < len(graph.lines), f"{op} has no line")
    _PAYLOADS[kind.payload](graph, kind, step.payload)


def _check_nothing(_graph: Graph, kind: StepKind, payload) -> None:
    _check(payload is None, f"{kind.name} has {payload!r:.60}")


def _check_constant(_graph: Graph, kind: StepKind, payload) -> None:
    of_type = type(payload) is TYPE_OF[kind.result]
    fits = of_type and (kind.result != INT or -(2**63) <= payload < 2**63)
    _check(fits, f"{kind.name} is {payload!r:.60}")


def _check_place(graph: Graph, kind: StepKind, place) -> None:
    _check(isinstance(place, Place), f"{kind.name} has no place")
    _check(_is_region(graph, place.region, kind.word), f"{kind.name} in region {place.region}")
    _check(0 <= place.space < graph.spaces, f"space {place.space}")


def _check_reason(graph: Graph, _kind: StepKind, payload) -> None:
    _check(_is_number(payload, len(graph.reasons)), f"reason {payload!r:.60}")


def _check_choice(graph: Graph, kind: StepKind, payload) -> None:
    """A select that never was a branch has no number."""
    is_none = kind.result != "" and payload is None
    _check(is_none or _is_number(payload, graph.selects), f"select {payload!r:.60}")


#: Checks of what steps have in addition to operands.
_PAYLOADS: dict[str, Callable[[Graph, StepKind, Any], None]] = {
    **{"": _check_nothing, CONSTANT: _check_constant, PLACE: _check_place},
    **{REASON: _check_reason, CHOICE: _check_choice},
}


def _is_region(graph: Graph, number: int, kind: str) -> bool:
    return _is_number(number, len(graph.regions)) and graph.regions[number].kind == kind


def _is_number(payload, count: int) -> bool:
    return type(payload) is int and 0 <= payload < count


def _check_end(graph: Graph, block: Block, known: set[int]) -> None:
    end = block.end
    _check(end is not None, f"block {block.number} has no end")
    if isinstance(end, Branch):
        _check(end.condition.kind == "b", "a condition is no truth")
        _check(0 <= end.line < len(graph.lines), "a branch has no line")
    if isinstance(end, Leave):
        _check(_is_number(end.reason, len(graph.reasons)), f"reason {end.reason}")
    for edge in end.edges:
        _check(id(edge.target) in known, f"an edge of block {block.number} leads nowhere")
        _check(edge.target is not graph.entry, "an edge leads to the first block")
        same = _kinds(edge.arguments) == _kinds(edge.target.parameters)
        _check(same, "arguments and parameters differ")


def _check_order(blocks: list[Block], nearest: Sequence[int]) -> None:
    """Every path to a block sets the values that it reads.

    It is enough that for each edge the dominator of its target also dominates its source: then
    those that are claimed are dominators, if not the nearest ones.
    """
    span = spans([*nearest])
    places = {id(block): k for k, block in enumerate(blocks)}
    made: dict[Value, int] = {}  # the place of the block of each value

    def dominates(a: int, b: int) -> bool:
        return span[a][0] <= span[b][0] <= span[a][1]

    def check_set(values, place: int, what: str) -> None:
        for value in values:
            _check(value in made and dominates(made[value], place), f"{what} is not set")

    for place, block in enumerate(blocks):
        made.update(dict.fromkeys(block.parameters, place))
        for step in block.steps:
            check_set(step.operands, place, f"what {step.op} reads")
            if step.result is not None:
                made[step.result] = place
        check_set(block.end.reads, place, "what an end reads")
        for edge in block.end.edges:
            check_set(edge.arguments, place, "what an edge reads")
            above = nearest[places[id(edge.target)]]
            _check(dominates(above, place), "a block is not reached through its dominator")

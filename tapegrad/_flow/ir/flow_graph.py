"""A graph of blocks: what a function with loops and branches becomes.

A block has parameters, steps and an end, which names the next block and its arguments. A value is
set once in each round of its block, by a step or as a parameter, and is read in blocks that it
dominates. Arrays and lists of numbers lie in one memory of words of 8 bytes, the arena; an address
is the number of a word. Allocated memory stays until the call is over.

Numbers of float32 are float64 here, too: sums, products, quotients and square roots of float32 that
are computed in float64 and then rounded (`to_single`) are those that float32 arithmetic gives.

A call leaves the graph where this does not describe it (`check`, `Leave`, integers beyond 63 bits,
division by the integer 0): then the function runs eagerly.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

from ..kinds.step_kinds import FLOAT, INT


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
class Step:
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


@dataclasses.dataclass(eq=False, slots=True)
class Jump:
    """Go on at a block."""

    edge: Edge

    @property
    def edges(self) -> tuple[Edge, ...]:
        return (self.edge,)

    @property
    def reads(self) -> tuple[Value, ...]:
        return ()


@dataclasses.dataclass(eq=False, slots=True)
class Branch:
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
class Return:
    """The end, with the results."""

    results: tuple[Value, ...]

    @property
    def edges(self) -> tuple[Edge, ...]:
        return ()

    @property
    def reads(self) -> tuple[Value, ...]:
        return self.results


@dataclasses.dataclass(eq=False, slots=True)
class Leave:
    """The function runs eagerly, for the reason of this number."""

    reason: int

    @property
    def edges(self) -> tuple[Edge, ...]:
        return ()

    @property
    def reads(self) -> tuple[Value, ...]:
        return ()


@dataclasses.dataclass(eq=False, slots=True)
class Block:
    """Steps that run one after the other, and what follows."""

    number: int
    parameters: list[Value] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    end: Jump | Branch | Return | Leave | None = None


class Line(NamedTuple):
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
class Region:
    """Words of a kind; `written` says whether a step stores there (allocating is no store)."""

    kind: str
    written: bool = False


@dataclasses.dataclass
class Input:
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

    inputs: list[Input] = dataclasses.field(default_factory=list)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    regions: list[Region] = dataclasses.field(default_factory=list)
    lines: list[Line | None] = dataclasses.field(default_factory=lambda: [None])
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
        self.regions.append(Region(kind))
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

    def steps(self) -> Iterator[Step]:
        for block in self.blocks:
            yield from block.steps

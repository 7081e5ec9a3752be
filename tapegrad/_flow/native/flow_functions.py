"""A graph compiled by LLVM: the text of its forward and reverse passes, and their functions."""

from __future__ import annotations

import functools
import itertools
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..._core.codegen.factory import compile_assembly, compile_source
from ..._core.codegen.machine_code import LOADERS, name_address
from ..._core.codegen.vector_math import c_name
from ..._core.ops.table import Pointwise, find, number_in
from ..ir import frame
from ..ir.expressions import is_elementary, products_of
from ..ir.expressions import value as value_of_expression
from ..ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    GraphStep,
    Jump,
    Leave,
    Place,
    Return,
    Value,
    Variation,
    live,
    ordered,
)
from ..ir.frame import ARITHMETIC
from ..kinds.step_kinds import CHOICE, FLOAT, TYPES, kind_of

# --- assembly text --------------------------------------------------------------------------------
# The text of one function for LLVM: instructions, labels, the operations of graphs.
#
# Names are those of LLVM: a local name, or a constant in its notation.


class TextModule:
    """Declarations shared by the functions of a text: calls, and which memory overlaps."""

    def __init__(self, graph: Graph):
        self.declared: dict[str, str] = {}
        self.helpers: set[str] = set()
        self.edges, self.spaces = graph.edges, graph.spaces
        places = {step.payload for step in graph.steps() if isinstance(step.payload, Place)}
        self.scopes = {place: k for k, place in enumerate(sorted(places, key=str))}

    def call(self, name: str, arity: int) -> str:
        """A function of doubles without effects, to be called."""
        arguments = ", ".join(["double"] * arity)
        self.declared[name] = (
            f"declare double @{name}({arguments}) nounwind willreturn memory(none)"
        )
        return f"call double @{name}"

    def alias(self, place: Place) -> str:
        """Metadata: memory reached through a place is reached through no other."""
        k, count = self.scopes[place], len(self.scopes)
        return f", !alias.scope !{10 + k}, !noalias !{10 + count + k}"

    def metadata(self) -> list[str]:
        count = len(self.scopes)
        lines = ["!0 = distinct !{!0}", '!1 = !{!"branch_weights", i32 1, i32 100000}']
        first = 10 + 2 * count
        for k in range(count):
            others = ", ".join(f"!{first + j}" for j in range(count) if j != k)
            lines.append(f"!{10 + k} = !{{!{first + k}}}")
            lines.append(f"!{10 + count + k} = !{{{others}}}")
            lines.append(f"!{first + k} = distinct !{{!{first + k}, !0}}")
        return lines


class Assembly:
    """The text of a function; `leave` is called with a condition and a reason, None if unchecked.

    It makes expressions: `step` and `constant` are those of `expressions.Maker`.
    """

    def __init__(self, module: TextModule, leave: Callable[[str, int], None] | None):
        self.module, self.leave = module, leave
        self.lines: list[str] = []
        self.names = 0
        self.here = ""

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def let(self, text: str) -> str:
        """The result of an instruction."""
        self.names += 1
        self.put(f"%t{self.names} = {text}")
        return f"%t{self.names}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.here = name

    def fork(self, condition: str, rare: str) -> None:
        """Jump to a label if a condition holds, which is rare."""
        self.names += 1
        after = f"g{self.names}"
        self.put(f"br i1 {condition}, label %{rare}, label %{after}, !prof !1")
        self.label(after)

    def word(self, base: str, index: int | str) -> str:
        """The pointer to a word."""
        return self.let(f"getelementptr inbounds i64, ptr {base}, i64 {index}")

    def read(self, base: str, index: int | str, kind: str = "i64", alias: str = "") -> str:
        return self.let(f"load {kind}, ptr {self.word(base, index)}, align 8{alias}")

    def write(self, base: str, index: int | str, value: str, kind="i64", alias: str = "") -> None:
        self.put(f"store {kind} {value}, ptr {self.word(base, index)}, align 8{alias}")

    # --- operations ---------------------------------------------------------------------------

    def constant(self, number: float) -> str:
        """A double in LLVM's notation, exactly."""
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"

    def number(self, name: str) -> float | None:
        """The number of a constant, None for the name of a value."""
        if not name.startswith("0x"):
            return None
        return struct.unpack("<d", struct.pack("<Q", int(name, 16)))[0]

    def step(self, op: str, *x: Any, payload: Any = None) -> Any:
        """The result of a step, if it has one."""
        kind = kind_of(op)
        if callable(kind.native):
            return kind.native(self, *([payload] if kind.payload else []), *x)
        if kind.native:
            return self.let(kind.native.format(*x))
        assert kind.declared is not None, op
        return self._element_wise(kind.declared, x)

    def _element_wise(self, op: Pointwise, x: tuple[str, ...]) -> str:
        if not is_elementary(op):
            return value_of_expression(op, x, self)
        name = c_name(op.name)
        if name is None:
            self.module.helpers.add(op.name)
            name = f"tapegrad_value_of_{op.name}"
        return self.call(name, *x)

    def call(self, name: str, *x: str) -> str:
        """A function of floats."""
        given = ", ".join(f"double {one}" for one in x)
        return self.let(f"{self.module.call(name, len(x))}({given})")

    def check(self, condition: str, reason: int = ARITHMETIC) -> None:
        """Leave if a condition holds, unless it has been tested before."""
        if self.leave is not None:
            self.leave(condition, reason)

    def note(self, number: int, condition: str, counts: str) -> None:
        """Note the value that a select takes, where `counts` holds: loops may keep the flags."""
        flag = self.module.edges + 2 * number
        for k, holds in enumerate((condition, self.let(f"xor i1 {condition}, true"))):
            at = self.let(f"getelementptr i8, ptr %covered, i64 {flag + k}")
            taken = self.let(f"and i1 {holds}, {counts}")
            before, now = self.let(f"load i8, ptr {at}"), self.let(f"zext i1 {taken} to i8")
            self.put(f"store i8 {self.let(f'or i8 {before}, {now}')}, ptr {at}")


# --- tape plan ------------------------------------------------------------------------------------
# What the reverse pass of a graph needs: values with adjoints, and the tape of a call.


# --- The tape of a call for its reverse pass: words for each block that runs ----------------------
# Blocks with one predecessor share a frame with it: a tree, entered at its root. A frame has the
# number of the edge to its root, then what is saved in each of the blocks, in order. What is cheap
# is recomputed from what is saved.


#: The number of cheap operations that are recomputed to avoid saving a number.
_CHEAP = 3


class Ways:
    """Blocks in the order in which they are reached, and the edges by their numbers."""

    def __init__(self, graph: Graph):
        self.numbers: dict[int, int] = {}
        counter = itertools.count()
        for block in graph.blocks:
            for edge in block.end.edges:
                self.numbers[id(edge)] = next(counter)
        self.blocks = ordered(graph)
        self.place = {id(block): k for k, block in enumerate(self.blocks)}
        self.incoming: dict[int, list[tuple[Block, Edge]]] = {id(one): [] for one in self.blocks}
        for block, edge in self.edges():
            self.incoming[id(edge.target)].append((block, edge))

    def edges(self) -> Iterator[tuple[Block, Edge]]:
        """Edges that a call may take, each with its block."""
        for block in self.blocks:
            for edge in block.end.edges:
                yield block, edge

    def number(self, edge: Edge) -> int:
        return self.numbers[id(edge)]

    def back(self, block: Block, edge: Edge) -> bool:
        """Whether an edge may close a loop."""
        return self.place[id(edge.target)] <= self.place[id(block)]


class TapePlan:
    """The values that each block saves, and their places."""

    def __init__(self, graph: Graph, ways: Ways, variation: Variation):
        self.graph, self.ways, self.variation = graph, ways, variation
        self.made: dict[Value, GraphStep] = {
            step.result: step
            for block in ways.blocks
            for step in block.steps
            if step.result is not None
        }
        self.inputs = {value: k for k, value in enumerate(graph.entry.parameters)}
        self.root: dict[int, Block] = {}
        self.begin: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.saved: dict[int, dict[Value, int]] = {}  # in the block itself
        self.known: dict[int, dict[Value, int]] = {}  # in the blocks before in the tree, too
        self.most: dict[int, int] = {}  # words of a tree
        self.returns = [block for block in ways.blocks if isinstance(block.end, Return)]
        for block in ways.blocks:
            self._allot(block)

    def is_root(self, block: Block) -> bool:
        return self.root[id(block)] is block

    def _allot(self, block: Block) -> None:
        incoming = self.ways.incoming[id(block)]
        before = incoming[0][0] if len(incoming) == 1 else None
        self.root[id(block)] = self.root[id(before)] if before else block
        first = self.end[id(before)] if before else int(bool(incoming))
        self.begin[id(block)] = first
        self.known[id(block)] = dict(self.known[id(before)]) if before else {}
        self.saved[id(block)] = {}
        for value in self._needed(block):
            if self._cost(block, value) > _CHEAP:
                at = first + len(self.saved[id(block)])
                self.saved[id(block)][value] = self.known[id(block)][value] = at
        self.end[id(block)] = first + len(self.saved[id(block)])
        root = id(self.root[id(block)])
        last = self.end[id(block)] + isinstance(block.end, Return)  # a word for which of them
        self.most[root] = max(self.most.get(root, 0), last)

    def _cost(self, block: Block, value: Value) -> int:
        if self.position(block, value) is not None or value in self.inputs:
            return 0
        step = self.made.get(value)
        if step is None:
            return _CHEAP + 1
        if kind_of(step.op).is_constant:
            return 0
        cost = 1
        for operand in step.operands if self.again(step) else ():
            cost += self._cost(block, operand)
            if cost > _CHEAP:
                break
        return cost if self.again(step) else _CHEAP + 1

    def again(self, step: GraphStep) -> bool:
        """Whether a step can be recomputed in the reverse pass."""
        place = step.payload
        changes = isinstance(place, Place) and self.graph.regions[place.region].written
        return kind_of(step.op).again and not changes

    def position(self, block: Block, value: Value) -> tuple[bool, int] | None:
        """The word of a value in the reverse pass: of the first block's frame or of its own."""
        if (own := self.known[id(block)].get(value)) is not None:
            return False, own
        first = self.saved[id(self.graph.entry)].get(value)
        return None if first is None else (True, first)

    def _needed(self, block: Block) -> list[Value]:
        """Values that the reverse pass of a block reads, each once, in the order of definition."""
        found: dict[Value, None] = {}
        for step in block.steps:
            found.update(dict.fromkeys(self.variation.read(step).values()))
        return list(found)


# --- values code ----------------------------------------------------------------------------------
# The forward pass of a graph for LLVM; with a tape plan it writes what the reverse pass reads.

#: Arguments of functions from the frame, by name: pointers to memory that does not overlap.
WORDS = {
    **{"arena": frame.ARENA, "shadow": frame.SHADOW, "tape": frame.TAPE, "inputs": frame.INPUTS},
    **{"outputs": frame.OUTPUTS, "seeds": frame.OUTPUT_ADJOINTS, "given": frame.INPUT_ADJOINTS},
}
PARAMETERS = ", ".join(f"ptr noalias %{name}" for name in ("frame", "covered", *WORDS))


def bases(code: Assembly, graph: Graph, name: str) -> None:
    """The beginning of each space of the arena, or of the shadow."""
    words = code.read("%frame", frame.ARENA_WORDS // 8)
    for space in range(graph.spaces):
        offset = code.let(f"mul i64 {words}, {space}")
        code.put(f"%{name}{space} = getelementptr inbounds i64, ptr %{name}, i64 {offset}")


def _left(reason: int) -> str:
    return f"left{reason}" if reason >= 0 else f"left_{-reason}"


class Values:
    """The text of a function that computes values."""

    def __init__(self, graph: Graph, ways: Ways, module: TextModule, plan: TapePlan | None):
        self.graph, self.ways = graph, ways
        self.plan: TapePlan = plan  # type: ignore[assignment]  # None: nothing is kept
        self.code = Assembly(module, self._leave)
        self.names: dict[Value, str] = {}
        self.labels: dict[int, str] = {}  # by number of edge: the target of the edge
        self.reasons: set[int] = set()
        self.line = 0  # of the step, as an index into the graph's
        self.later: list[tuple[int, Block]] = []  # lines of phis, which read what follows
        self._begin()
        for block in ways.blocks:
            self._block(block)
        self._joins()
        self._ends()

    def text(self, name: str) -> list[str]:
        head = f"define internal i64 @{name}({PARAMETERS}) noinline nounwind {{"
        return [head, *self.code.lines, "}"]

    def _leave(self, condition: str, reason: int) -> None:
        if reason == frame.ARITHMETIC:
            reason -= self.line
        self.reasons.add(reason)
        self.code.fork(condition, _left(reason))

    def _begin(self) -> None:
        code = self.code
        code.label("entry")
        bases(code, self.graph, "arena")
        code.put(f"%arena_words = load i64, ptr {code.word('%frame', frame.ARENA_WORDS // 8)}")
        for name, word in {"used": frame.ARENA_USED, "jumps": frame.JUMPS}.items():
            code.put(f"%{name} = alloca i64")
            code.put(f"store i64 {code.read('%frame', word // 8)}, ptr %{name}")
        if self.plan:
            code.put(f"%tape_words = load i64, ptr {code.word('%frame', frame.TAPE_WORDS // 8)}")
            code.put("%position = alloca i64")
            code.put("store i64 0, ptr %position")
        for k, value in enumerate(self.graph.entry.parameters):
            self.names[value] = code.read("%inputs", k, TYPES[value.kind])
        code.put(f"br label %b{self.graph.entry.number}")

    def _block(self, block: Block) -> None:
        code = self.code
        code.label(f"b{block.number}")
        self.later.append((len(code.lines), block))
        if block is not self.graph.entry:
            for value in block.parameters:
                self.names[value] = f"%v{value.number}"
        if self.plan and self.plan.is_root(block):
            self._frame(block)
        for step in block.steps:
            self._step(step)
        if self.plan:
            self._save(block)
        self._end(block)

    def _frame(self, block: Block) -> None:
        """Room on the tape for a tree of blocks."""
        code, most = self.code, self.plan.most[id(block)]
        code.put(f"%at{block.number} = load i64, ptr %position")
        if most:
            last = code.let(f"add i64 %at{block.number}, {most}")
            code.fork(code.let(f"icmp sgt i64 {last}, %tape_words"), "tape_full")
        code.put(f"%frame{block.number} = getelementptr i64, ptr %tape, i64 %at{block.number}")
        if self.ways.incoming[id(block)]:
            code.write(f"%frame{block.number}", 0, f"%from{block.number}")

    def _save(self, block: Block) -> None:
        root = self.plan.root[id(block)].number
        for value, at in self.plan.saved[id(block)].items():
            self.code.write(f"%frame{root}", at, self.names[value], TYPES[value.kind])

    def _step(self, step: GraphStep) -> None:
        self.line = step.line
        operands = [self.names[one] for one in step.operands]
        name = self.code.step(step.op, *operands, payload=step.payload)
        if step.result is not None:
            self.names[step.result] = name

    def _end(self, block: Block) -> None:
        code, end = self.code, block.end
        if isinstance(end, Leave):
            self.reasons.add(end.reason)
            code.put(f"br label %{_left(end.reason)}")
        elif isinstance(end, Return):
            self._return(block, end)
        elif isinstance(end, Jump):
            code.put(f"br label %e{self.ways.number(end.edge)}")
        elif isinstance(end, Branch):
            then, other = self.ways.number(end.then), self.ways.number(end.other)
            code.put(f"br i1 {self.names[end.condition]}, label %e{then}, label %e{other}")
        for edge in end.edges:
            self._edge(block, edge)

    def _edge(self, block: Block, edge: Edge) -> None:
        code, number = self.code, self.ways.number(edge)
        code.label(f"e{number}")
        code.put(f"store i8 1, ptr {code.let(f'getelementptr i8, ptr %covered, i64 {number}')}")
        if self.ways.back(block, edge):
            left = code.let(f"sub i64 {code.let('load i64, ptr %jumps')}, 1")
            code.put(f"store i64 {left}, ptr %jumps")
            self._leave(code.let(f"icmp slt i64 {left}, 0"), frame.TOO_MANY_JUMPS)
        if self.plan and self.plan.is_root(edge.target):
            self._advance(block)
        code.put(f"br label %b{edge.target.number}")
        self.labels[number] = code.here

    def _advance(self, block: Block) -> str:
        """The position after a block, for the frame that follows."""
        root, end = self.plan.root[id(block)].number, self.plan.end[id(block)]
        after = self.code.let(f"add i64 %at{root}, {end}")
        self.code.put(f"store i64 {after}, ptr %position")
        return after

    def _return(self, block: Block, end: Return) -> None:
        code = self.code
        if self.plan:
            after = self._advance(block)
            if len(self.plan.returns) > 1:
                code.write("%tape", after, str(block.number))
            code.write("%frame", frame.TAPE_USED // 8, after)
        for k, value in enumerate(end.results):
            name = self.names[value]
            if value.kind == "b":
                name = code.step("bool_to_int", name)
            code.write("%outputs", k, name, "double" if value.kind == FLOAT else "i64")
        code.write("%frame", frame.ARENA_USED // 8, code.let("load i64, ptr %used"))
        code.put(f"ret i64 {frame.FINISHED}")

    def _joins(self) -> None:
        for at, block in reversed(self.later):
            incoming = self.ways.incoming[id(block)]
            phis = [
                self._phi(value, [(edge, self.names[edge.arguments[k]]) for _, edge in incoming])
                for k, value in enumerate(block.parameters)
                if incoming
            ]
            if self.plan and self.plan.is_root(block) and incoming:
                pairs = [f"[{k}, %{self._label(edge)}]" for k, (_, edge) in enumerate(incoming)]
                phis.append(f"  %from{block.number} = phi i64 {', '.join(pairs)}")
            self.code.lines[at:at] = phis

    def _label(self, edge: Edge) -> str:
        return self.labels[self.ways.number(edge)]

    def _phi(self, value: Value, given: list[tuple[Edge, str]]) -> str:
        pairs = ", ".join(f"[{name}, %{self._label(edge)}]" for edge, name in given)
        return f"  %v{value.number} = phi {TYPES[value.kind]} {pairs}"

    def _ends(self) -> None:
        code = self.code
        for number in sorted(self.reasons):
            code.label(_left(number))
            code.write("%frame", frame.REASON // 8, str(number))
            code.put(f"ret i64 {frame.LEFT}")
        for label, status in {"tape_full": frame.TAPE_FULL, "arena_full": frame.ARENA_FULL}.items():
            code.label(label)
            code.put(f"ret i64 {status}")


# --- adjoints code --------------------------------------------------------------------------------
# The reverse pass of a graph for LLVM: adjoints, from what the forward pass has saved.

_NOTHING = "0.0"


class Adjoints:
    """The text of a function that computes adjoints."""

    def __init__(self, plan: TapePlan, module: TextModule):
        self.graph: Graph = plan.graph
        self.plan, self.ways, self.variation = plan, plan.ways, plan.variation
        self.code = Assembly(module, None)
        self.local: dict[Value, str | None] = {}  # adjoints that one block has for itself
        self.taken: dict[int, list[str | None]] = {}  # adjoints of parameters, by block
        self.known: dict[Value, str] = {}  # values in the block that is traversed backwards
        self.apart = dict.fromkeys(self._set_apart())
        self._begin()
        for block in reversed(self.ways.blocks):
            self._block(block)
        for _, edge in self.ways.edges():
            self._edge(edge)

    def text(self, name: str) -> list[str]:
        head = f"define internal i64 @{name}({PARAMETERS}) noinline nounwind {{"
        return [head, *self.code.lines, "}"]

    def _set_apart(self) -> list[Value]:
        """Values with adjoints that come from more than steps of their own block."""
        own: dict[Value, int] = {}
        for block in self.ways.blocks:
            made = [*block.parameters, *[step.result for step in block.steps if step.result]]
            own.update(dict.fromkeys(made, block.number))
        elsewhere: Counter[Value] = Counter()
        for block in self.ways.blocks:
            read = [one for step in block.steps for one in step.operands]
            elsewhere.update(one for one in read if own[one] != block.number)
            elsewhere.update(block.end.reads)
            for edge in block.end.edges:
                elsewhere.update(edge.arguments)
        return [one for one in own if one in self.variation and elsewhere[one]]

    def _begin(self) -> None:
        code = self.code
        code.label("entry")
        bases(code, self.graph, "arena")
        bases(code, self.graph, "shadow")
        for value in self.apart:
            code.put(f"%a{value.number} = alloca double")
            code.put(f"store double {_NOTHING}, ptr %a{value.number}")
        for k, value in enumerate(self.graph.entry.parameters):
            code.put(f"%in{k} = load {TYPES[value.kind]}, ptr {code.word('%inputs', k)}")
        code.put("%position = alloca i64")
        used = code.read("%frame", frame.TAPE_USED // 8)
        code.put(f"store i64 {used}, ptr %position")
        returns = self.plan.returns
        if not returns:
            code.put("unreachable")
        elif len(returns) == 1:
            code.put(f"br label %end{returns[0].number}")
        else:
            self._switch(
                code.read("%tape", used), {one.number: f"end{one.number}" for one in returns}
            )

    def _switch(self, number: str, labels: dict[int, str]) -> None:
        """Go to the label of a number."""
        *others, (_, last) = labels.items()
        cases = " ".join(f"i64 {k}, label %{label}" for k, label in others)
        self.code.put(f"switch i64 {number}, label %{last} [{cases}]")

    # --- blocks -------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        code = self.code
        if isinstance(block.end, Return):
            self._return(block, block.end)
        code.label(f"r{block.number}")
        self.local, self.known = {}, {}
        at = code.let("load i64, ptr %position")
        code.put(f"%frame{block.number} = getelementptr i64, ptr %tape, i64 {at}")
        self.here = block
        for step in reversed(block.steps):
            self._step(step)
        taken = [self._take(value) for value in block.parameters]
        if block is self.graph.entry:
            for k, adjoint in enumerate(taken):
                code.write("%given", k, adjoint or _NOTHING, "double")
            code.put(f"ret i64 {frame.FINISHED}")
            return
        self._onwards(block, taken)

    def _return(self, block: Block, end: Return) -> None:
        self.code.label(f"end{block.number}")
        for k, value in enumerate(end.results):
            if value in self.variation:
                self.add(value, self.code.read("%seeds", k, "double"))
        self._go_back(block)

    def _go_back(self, block: Block) -> None:
        """Move from after the frame of a block to its beginning."""
        at = self.code.let("load i64, ptr %position")
        before = self.code.let(f"sub i64 {at}, {self.plan.end[id(block)]}")
        self.code.put(f"store i64 {before}, ptr %position")
        self.code.put(f"br label %r{block.number}")

    def _onwards(self, block: Block, taken: list[str | None]) -> None:
        """Jump to the edge that the call took, with the adjoints of the parameters."""
        incoming = self.ways.incoming[id(block)]
        self.taken[block.number] = taken
        if len(incoming) == 1:
            self.code.put(f"br label %e{self.ways.number(incoming[0][1])}")
            return
        number = self.code.read(f"%frame{block.number}", 0)
        self._switch(number, {k: f"e{self.ways.number(x)}" for k, (_, x) in enumerate(incoming)})

    def _edge(self, edge: Edge) -> None:
        code, number = self.code, self.ways.number(edge)
        source = next(one for one, x in self.ways.incoming[id(edge.target)] if x is edge)
        code.label(f"e{number}")
        for value, adjoint in zip(edge.arguments, self.taken[edge.target.number], strict=True):
            if adjoint is not None and value in self.variation:
                self.add(value, adjoint)
        if self.plan.is_root(edge.target):
            self._go_back(source)
        else:
            code.put(f"br label %r{source.number}")

    # --- adjoints and values ------------------------------------------------------------------

    def add(self, value: Value, adjoint: str) -> None:
        """Add to the adjoint of a value."""
        code = self.code
        if value in self.apart:
            before = code.let(f"load double, ptr %a{value.number}")
            total = code.let(f"fadd nsz double {before}, {adjoint}")
            code.put(f"store double {total}, ptr %a{value.number}")
            return
        own = self.local.get(value)
        self.local[value] = code.let(f"fadd nsz double {own}, {adjoint}") if own else adjoint

    def _take(self, value: Value) -> str | None:
        """The adjoint of a value where it is set; None for 0."""
        if value not in self.variation:
            return None
        if value not in self.apart:
            return self.local.pop(value, None)
        adjoint = self.code.let(f"load double, ptr %a{value.number}")
        self.code.put(f"store double {_NOTHING}, ptr %a{value.number}")
        return adjoint

    def value(self, value: Value) -> str:
        """A value of the forward pass: an input, from the tape, or recomputed."""
        if value not in self.known:
            self.known[value] = self._found(value)
        return self.known[value]

    def _found(self, value: Value) -> str:
        plan, code = self.plan, self.code
        if value in plan.inputs:
            return f"%in{plan.inputs[value]}"
        if (place := plan.position(self.here, value)) is not None:
            base = "%tape" if place[0] else f"%frame{self.here.number}"
            return code.read(base, place[1], TYPES[value.kind])
        step = plan.made[value]
        operands = [self.value(one) for one in step.operands]
        payload = None if kind_of(step.op).payload == CHOICE else step.payload  # it is noted
        return code.step(step.op, *operands, payload=payload)

    # --- steps --------------------------------------------------------------------------------

    def _step(self, step: GraphStep) -> None:
        kind = kind_of(step.op)
        g = self._take(step.result) if step.result is not None else _NOTHING
        if g is None or not self.variation.has(step):
            return
        if kind.native_back:
            kind.native_back(self, step, g)
        else:
            self._element_wise(step, g)

    def shadow(self, step: GraphStep) -> tuple[str, str, str, str]:
        """The adjoint of the word of a load or a store, for `Assembly.read` and `write`."""
        place: Any = step.payload
        address = self.value(step.operands[0])
        return f"%shadow{place.space}", address, "double", self.code.module.alias(place)

    def _element_wise(self, step: GraphStep, g: str) -> None:
        """An adjoint of 0 gives nothing, also where a partial derivative is infinite."""
        code, kind, wanted = self.code, kind_of(step.op), self.variation.wanted(step)
        read = self.variation.read(step)
        names = (*kind.inputs, "out")
        values = [self.value(read[name]) if name in read else None for name in names]
        zero = ""

        def product(_, text: str, made: Callable[[], str]) -> str:
            nonlocal zero
            if text == "1.0":
                return g
            part = code.let(f"fmul double {g}, {made()}")
            if number_in(text) is not None:
                return part
            zero = zero or code.let(f"fcmp oeq double {g}, {_NOTHING}")
            return code.step("float_select", zero, _NOTHING, part)

        parts = products_of(kind, values[:-1], values[-1], wanted, product, code)
        for k, part in parts.items():
            self.add(step.operands[k], part)


# --- flow functions -------------------------------------------------------------------------------
# A graph compiled: the functions that run it forwards and back.

_HELPER = """
from tapegrad._core.codegen import vector_math as np
def value({inputs}):
    return {value}
"""


def compiled(graph: Graph) -> dict[str, int]:
    """Addresses of `forward`, `ahead` and `reverse`: int64(int64, int64), of a frame and nothing.

    `forward` computes values, `ahead` those and the tape for `reverse`.
    """
    text, helpers = assembly(graph)
    for name in helpers:
        LOADERS[f"tapegrad_value_of_{name}"] = functools.partial(_name_helper, name)
    return compile_assembly(text, ("forward", "ahead", "reverse"))


def assembly(graph: Graph) -> tuple[str, set[str]]:
    """The text for LLVM, and the operations whose functions it calls."""
    ways = Ways(graph)
    plan = TapePlan(graph, ways, live(graph))
    module = TextModule(graph)
    texts: dict[str, Values | Adjoints] = {
        "forward": Values(graph, ways, module, None),
        "ahead": Values(graph, ways, module, plan),
        "reverse": Adjoints(plan, module),
    }
    lines = [line for name, one in texts.items() for line in one.text(f"{name}_inside")]
    for name in texts:
        lines += _entry(name, graph.flags)
    lines = [*module.declared.values(), *lines, *module.metadata()]
    return "\n".join(lines) + "\n", module.helpers


def _entry(name: str, flags: int) -> list[str]:
    """The function that is called with a frame. A caller that requests no edges gets none."""
    lines = [f"define i64 @{name}(i64 %at, i64 %data) {{", "  %frame = inttoptr i64 %at to ptr"]
    for word, offset in {**WORDS, "asked": frame.COVERED}.items():
        lines.append(f"  %{word}_at = getelementptr i8, ptr %frame, i64 {offset}")
        lines.append(f"  %{word} = load ptr, ptr %{word}_at")
    lines.append(f"  %nowhere = alloca i8, i64 {max(flags, 1)}")
    lines.append("  %none = icmp eq ptr %asked, null")
    lines.append("  %covered = select i1 %none, ptr %nowhere, ptr %asked")
    given = ", ".join(f"ptr %{one}" for one in ("frame", "covered", *WORDS))
    lines.append(f"  %status = call i64 @{name}_inside({given})")
    return [*lines, "  ret i64 %status", "}"]


def _name_helper(name: str) -> None:
    """Let a text call the function of an operation that the C library does not have."""
    op = find(name)
    source = _HELPER.format(inputs=", ".join(op.inputs), value=op.value)
    signature = f"float64({', '.join(['float64'] * len(op.inputs))})"
    name_address(
        f"tapegrad_value_of_{name}",
        compile_source(source, {"value": signature}, fixed=op.is_fixed)["value"],
    )

"""The forward pass of a graph for LLVM; with a tape plan it writes what the reverse pass reads."""

from __future__ import annotations

from ..ir import frame
from ..ir.flow_graph import Block, Branch, Edge, Graph, Jump, Leave, Return, Step, Value
from ..kinds.step_kinds import FLOAT, TYPES
from .assembly_text import Assembly, Module
from .tape_plan import TapePlan, Ways

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

    def __init__(self, graph: Graph, ways: Ways, module: Module, plan: TapePlan | None):
        self.graph, self.ways, self.plan = graph, ways, plan
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
        code, most = self.code, self.plan.most[id(block)]  # type: ignore[union-attr]
        code.put(f"%at{block.number} = load i64, ptr %position")
        if most:
            last = code.let(f"add i64 %at{block.number}, {most}")
            code.fork(code.let(f"icmp sgt i64 {last}, %tape_words"), "tape_full")
        code.put(f"%frame{block.number} = getelementptr i64, ptr %tape, i64 %at{block.number}")
        if self.ways.incoming[id(block)]:
            code.write(f"%frame{block.number}", 0, f"%from{block.number}")

    def _save(self, block: Block) -> None:
        root = self.plan.root[id(block)].number  # type: ignore[union-attr]
        for value, at in self.plan.saved[id(block)].items():  # type: ignore[union-attr]
            self.code.write(f"%frame{root}", at, self.names[value], TYPES[value.kind])

    def _step(self, step: Step) -> None:
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
        for edge in end.edges:  # type: ignore[union-attr]
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
        root, end = self.plan.root[id(block)].number, self.plan.end[id(block)]  # type: ignore[union-attr]
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

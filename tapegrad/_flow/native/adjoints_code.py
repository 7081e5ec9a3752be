"""The reverse pass of a graph for LLVM: adjoints, from what the forward pass has saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..._core.ops.table import number_in
from ..ir import frame
from ..ir.expressions import products_of
from ..ir.flow_graph import Block, Edge, Graph, Return, Step, Value
from ..kinds.step_kinds import CHOICE, TYPES, kind_of
from .assembly_text import Assembly, Module
from .tape_plan import TapePlan
from .values_code import PARAMETERS, bases

_NOTHING = "0.0"


class Adjoints:
    """The text of a function that computes adjoints."""

    def __init__(self, plan: TapePlan, module: Module):
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
            elsewhere.update(block.end.reads)  # type: ignore[union-attr]
            for edge in block.end.edges:  # type: ignore[union-attr]
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

    def _step(self, step: Step) -> None:
        kind = kind_of(step.op)
        g = self._take(step.result) if step.result is not None else _NOTHING
        if g is None or not self.variation.has(step):
            return
        if kind.native_back:
            kind.native_back(self, step, g)
        else:
            self._element_wise(step, g)

    def shadow(self, step: Step) -> tuple[str, str, str, str]:
        """The adjoint of the word of a load or a store, for `Assembly.read` and `write`."""
        place: Any = step.payload
        address = self.value(step.operands[0])
        return f"%shadow{place.space}", address, "double", self.code.module.alias(place)

    def _element_wise(self, step: Step, g: str) -> None:
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

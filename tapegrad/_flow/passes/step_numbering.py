"""Steps that are constants, or equal to earlier steps; branches that always take one edge."""

from __future__ import annotations

from ..ir.block_order import dominators, ways_in
from ..ir.flow_graph import Block, Branch, Edge, Graph, Jump, Leave, Step, Value
from ..kinds.kind_lookup import kind_of
from ..kinds.number_kinds import CONSTANT_OF, TYPE_OF
from ..kinds.step_kinds import REASON, Number
from .block_parameters import constant_key
from .folding import folded
from .graph_edits import renamed, replace


def number_steps(graph: Graph) -> bool:
    """Drop steps with a known result, decide branches; returns whether an edge was dropped.

    The graph is settled: blocks in order, constants in the first block.
    """
    numbering = Numbering(graph)
    ways = ways_in(graph.blocks)
    nearest = dominators(graph.blocks, ways)
    found: list[dict] = []
    for k, block in enumerate(graph.blocks):
        before = dict(found[nearest[k]]) if k else {}
        if len(ways[block]) == 1:
            numbering.learn(*ways[block][0], before)
        numbering.block(block, before)
        found.append(before)
    graph.entry.steps[:0] = numbering.new
    replace(graph, numbering.replaced)
    return numbering.decided


class Numbering:
    """Facts about values.

    In addition, a dictionary is passed down the dominator tree: the results of steps by what they
    compute, and under conditions themselves whether they hold.
    """

    def __init__(self, graph: Graph):
        self.graph, self.decided = graph, False
        self.replaced: dict[Value, Value] = {}
        self.negated: dict[Value, Value] = {}  # the operand of a result of bool_not
        constants = [step for step in graph.entry.steps if kind_of(step.op).is_constant]
        self.known: dict[Value, Number] = {one.result: one.payload for one in constants}  # type: ignore[misc]
        self.constants = {constant_key(one): one.result for one in constants}
        self.new: list[Step] = []
        self.stored = {step.payload for step in graph.steps() if kind_of(step.op).is_store}

    def learn(self, block: Block, edge: Edge, before: dict) -> None:
        """The conditions that hold after the only edge to a block."""
        end = block.end
        if isinstance(end, Branch) and end.then.target is not end.other.target:
            self.assume(end.condition, edge is end.then, before)

    def assume(self, condition: Value, holds: bool, before: dict) -> None:
        before[condition] = holds
        if condition in self.negated:
            before[self.negated[condition]] = not holds

    def truth(self, condition: Value, before: dict) -> bool | None:
        known = before.get(condition, self.known.get(condition))
        if known is None and condition in self.negated:
            known = before.get(self.negated[condition])
            return None if known is None else not known
        return known

    def block(self, block: Block, before: dict) -> None:
        """Steps and the end of a block."""
        kept: list[Step] = []
        for step in block.steps:
            step.operands = renamed(self.replaced, step.operands)
            if kind_of(step.op).payload == REASON:
                holds = self.truth(step.operands[0], before)
                if holds is False:
                    self.decided, block.steps, block.end = True, kept, Leave(step.payload)  # type: ignore[arg-type]
                    return
                if holds is None:
                    self.assume(step.operands[0], True, before)
                    kept.append(step)
            elif not self.drops(step, before):
                kept.append(step)
        block.steps = kept
        if isinstance(block.end, Branch):
            self.branch(block, block.end, before)

    def branch(self, block: Block, end: Branch, before: dict) -> None:
        """Jump where a condition is known; branch on the operand of a negation."""
        end.condition = self.replaced.get(end.condition, end.condition)
        holds = self.truth(end.condition, before)
        if holds is not None:
            self.decided, block.end = True, Jump(end.then if holds else end.other)
        elif end.condition in self.negated:
            end.condition = self.negated[end.condition]
            end.then, end.other = end.other, end.then

    def drops(self, step: Step, before: dict) -> bool:
        """Whether a step is redundant: the replacement of its result is noted."""
        kind, result = kind_of(step.op), step.result
        if kind.is_constant or kind.fresh or result is None:
            return False
        value = self.folded(step)
        if value is None:
            if kind.is_load and step.payload in self.stored:
                return False
            key = (step.op, *step.operands, step.payload if kind.is_load else None)
            value = before.setdefault(key, result)
            if value is result:
                if kind.negates:
                    self.negated[result] = step.operands[0]
                return False
        self.replaced[result] = value
        return True

    def folded(self, step: Step) -> Value | None:
        """A value that is the result of a step."""
        kind = kind_of(step.op)
        found = folded(kind, step.operands, self.known)
        if found is None and kind.negates:
            found = self.negated.get(step.operands[0])
        if found is None or isinstance(found, Value):
            return found
        return self.constant(kind.result, found)

    def constant(self, kind: str, number: Number) -> Value:
        """A constant of the first block."""
        step = Step(CONSTANT_OF[kind], (), None, TYPE_OF[kind](number))
        value = self.constants.get(constant_key(step))
        if value is None:
            value = step.result = self.constants[constant_key(step)] = self.graph.value(kind)
            self.known[value] = step.payload  # type: ignore[assignment]
            self.new.append(step)
        return value

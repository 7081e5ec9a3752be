"""Steps that are constants, or equal to earlier steps; branches that always take one edge."""

from __future__ import annotations

from ..ir.block_builder import BOOL, FLOAT, INT, result_kind
from ..ir.block_order import dominators, ways_in
from ..ir.flow_graph import SELECTS, Block, Branch, Edge, Graph, Jump, Leave, Place, Step, Value
from .block_parameters import CONSTANTS, constant_key
from .folding import EXACT, PAIRS, Number, folded_pair, folded_select
from .graph_edits import renamed, replace

_LOADS = frozenset(("load_float", "load_int"))
#: Never equal to another step: memory is new, or changes.
_STORES = frozenset(("allocate", "store_float", "store_int"))
_MAKES = {FLOAT: "float_const", INT: "int_const", BOOL: "bool_const"}
_OF = {FLOAT: float, INT: int, BOOL: bool}


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
        constants = [step for step in graph.entry.steps if step.op in CONSTANTS]
        self.known: dict[Value, Number] = {one.result: one.payload for one in constants}  # type: ignore[misc]
        self.constants = {constant_key(one): one.result for one in constants}
        self.new: list[Step] = []
        self.stored = {step.payload for step in graph.steps() if step.op.startswith("store")}

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
            if step.op == "check":
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
        op, result = step.op, step.result
        if op in CONSTANTS or op in _STORES or result is None:
            return False
        value = self.folded(step)
        if value is None:
            if op in _LOADS:
                if step.payload in self.stored:
                    return False
                assert isinstance(step.payload, Place)
                key = (op, *step.operands, step.payload.region, step.payload.space)
            else:
                key = (op, *step.operands)
            value = before.setdefault(key, result)
            if value is result:
                if op == "bool_not":
                    self.negated[result] = step.operands[0]
                return False
        self.replaced[result] = value
        return True

    def folded(self, step: Step) -> Value | None:
        """A value that is the result of a step."""
        op, operands, known = step.op, step.operands, self.known
        found: Value | Number | None = None
        if op in EXACT:
            numbers = [known[one] for one in operands if one in known]
            if len(numbers) == len(operands):
                found = EXACT[op](*numbers)
            elif op in PAIRS:
                found = folded_pair(op, operands, known)
            elif op in SELECTS:
                found = folded_select(operands, known)
            elif op == "bool_not":
                found = self.negated.get(operands[0])
        if found is None or isinstance(found, Value):
            return found
        return self.constant(result_kind(op), found)

    def constant(self, kind: str, number: Number) -> Value:
        """A constant of the first block."""
        step = Step(_MAKES[kind], (), None, _OF[kind](number))
        value = self.constants.get(constant_key(step))
        if value is None:
            value = step.result = self.constants[constant_key(step)] = self.graph.value(kind)
            self.known[value] = step.payload  # type: ignore[assignment]
            self.new.append(step)
        return value

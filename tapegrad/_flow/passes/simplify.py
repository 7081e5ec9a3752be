"""Graphs made simpler: the same results and gradients with fewer steps, parameters and blocks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from ..ir.flow_graph import (
    Block,
    Branch,
    Edge,
    Graph,
    GraphStep,
    Jump,
    Leave,
    Return,
    Value,
    dominators,
    ordered,
    ways_in,
)
from ..kinds.step_kinds import (
    BOOL,
    CHOICE,
    CONSTANT_OF,
    NOTE,
    REASON,
    SELECT_OF,
    TYPE_OF,
    Number,
    StepKind,
    kind_of,
)

# --- Functions shared by passes: values replaced by others ----------------------------------------


def replace(graph: Graph, replaced: dict[Value, Value]) -> None:
    """Replace values in all steps, edges and ends; a replacement may be replaced, too."""
    if not replaced:
        return
    for value in replaced:
        replaced[value] = last(replaced, value)
    for block in graph.blocks:
        for step in block.steps:
            step.operands = renamed(replaced, step.operands)
        end = block.end
        for edge in end.edges:
            edge.arguments = [replaced.get(one, one) for one in edge.arguments]
        if isinstance(end, Branch):
            end.condition = replaced.get(end.condition, end.condition)
        elif isinstance(end, Return):
            end.results = renamed(replaced, end.results)


def renamed(replaced: Mapping[Value, Value], values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values, with others for those that are replaced."""
    for one in values:
        if one in replaced:
            return tuple([replaced.get(each, each) for each in values])
    return values


def last(replaced: Mapping[Value, Value], value: Value) -> Value:
    """The final replacement of a value."""
    while (after := replaced.get(value)) is not None:
        value = after
    return value


# --- Steps whose result is known: a constant, or one of their operands ----------------------------


Operands = tuple[Value, ...]


def folded(kind: StepKind, operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The result of a step, where it is a constant or an operand; `known` has the constants."""
    numbers = [known[one] for one in operands if one in known]
    found = kind.of_constants(*numbers) if len(numbers) == len(operands) else None
    if found is None and kind.payload == CHOICE:
        return _folded_select(operands, known)
    if found is None and len(operands) == 2:
        return _folded_pair(kind, operands, known)
    return found


def _folded_pair(
    kind: StepKind, operands: Operands, known: dict[Value, Number]
) -> Value | Number | None:
    x, y = operands
    if x is y:
        return x if kind.idempotent else kind.twice
    left, right = known.get(x), known.get(y)
    if right is not None and right in (kind.neutral, kind.neutral_right):
        return x
    if left is not None and left == kind.neutral:
        return y
    absorbing = kind.absorbing
    return absorbing if absorbing is not None and absorbing in (left, right) else None


def _folded_select(operands: Operands, known: dict[Value, Number]) -> Value | Number | None:
    """The operand that a select always gives; a select of truths may be its condition."""
    condition, x, y = operands
    if x is y:
        return x
    if condition in known:
        return x if known[condition] else y
    if known.get(x) is True and known.get(y) is False:
        return condition
    return None


# --- Block parameters that always have the same value, and constants, each set once ---------------


def settle(graph: Graph) -> None:
    """Drop unreachable blocks, and parameters with one value; set constants in the first block."""
    graph.blocks = ordered(graph)
    replaced = _gather_constants(graph)
    arguments = _arguments(graph)
    readers: dict[Value, list[Value]] = {}
    for parameter, given in arguments.items():
        for one in given:
            readers.setdefault(one, []).append(parameter)
    waiting = list(arguments)
    for parameter in waiting:  # it grows
        if parameter in replaced:
            continue
        only = _only(parameter, arguments[parameter], replaced)
        if only is not None:
            replaced[parameter] = only
            again = readers.get(parameter, ())
            waiting.extend(again)
            readers.setdefault(only, []).extend(again)
    drop_parameters(graph, replaced)
    replace(graph, replaced)


def constant_key(step: GraphStep) -> tuple[str, str]:
    """Equal for equal constants; −0 is not 0."""
    return step.op, repr(step.payload)


def drop_parameters(graph: Graph, gone) -> None:
    """Drop the parameters in `gone`, with their arguments."""
    kept: dict[Block, list[int]] = {}
    for block in graph.blocks[1:]:
        stay = [k for k, one in enumerate(block.parameters) if one not in gone]
        if len(stay) < len(block.parameters):
            kept[block] = stay
            block.parameters = [block.parameters[k] for k in stay]
    for block in graph.blocks:
        for edge in block.end.edges:
            if edge.target in kept:
                edge.arguments = [edge.arguments[k] for k in kept[edge.target]]


def _gather_constants(graph: Graph) -> dict[Value, Value]:
    """Move constants to the beginning; returns replacements for those that were there already."""
    found: dict[tuple[str, str], GraphStep] = {}
    replaced: dict[Value, Value] = {}
    for block in graph.blocks:
        others = []
        for step in block.steps:
            if not kind_of(step.op).is_constant:
                others.append(step)
                continue
            first = found.setdefault(constant_key(step), step)
            if first is not step:
                replaced[step.result] = first.result  # type: ignore[index, assignment]
        block.steps = others
    graph.entry.steps[:0] = found.values()
    return replaced


def _arguments(graph: Graph) -> dict[Value, list[Value]]:
    """The possible values of each parameter."""
    found: dict[Value, list[Value]] = {
        parameter: [] for block in graph.blocks[1:] for parameter in block.parameters
    }
    for block in graph.blocks:
        for edge in block.end.edges:
            for parameter, one in zip(edge.target.parameters, edge.arguments, strict=True):
                found[parameter].append(one)
    return found


def _only(parameter: Value, given: list[Value], replaced: dict[Value, Value]) -> Value | None:
    """The value that a parameter is given besides itself, if there is one only."""
    only = None
    for one in given:
        one = last(replaced, one)
        if one is parameter or one is only:
            continue
        if only is not None:
            return None
        only = one
    return only


# --- Blocks joined with what follows them, and short branches as selects --------------------------


#: The most steps of two arms that are computed instead of a jump, and the most selects for them.
_MOST_STEPS, _MOST_SELECTS = 8, 4


def join_blocks(graph: Graph) -> bool:
    """Join blocks that have a single predecessor; returns whether branches became selects.

    The blocks are in order.
    """
    joining, selected = _Joining(graph), False
    for block in reversed(graph.blocks):  # inner branches come before outer ones
        if block not in joining.gone:
            joining.append_next(block)
            if joining.select_arms(block):
                selected = True
                joining.append_next(block)
    graph.blocks = [block for block in graph.blocks if block not in joining.gone]
    replace(graph, joining.replaced)
    return selected


class _Joining:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.ways: Counter[Block] = Counter(
            edge.target for block in graph.blocks for edge in block.end.edges
        )
        self.gone: set[Block] = set()
        self.replaced: dict[Value, Value] = {}

    def append_next(self, block: Block) -> None:
        """Append blocks that are reached from here alone, and from here they alone."""
        while isinstance(block.end, Jump) and self.ways[block.end.edge.target] == 1:
            edge = block.end.edge
            after = edge.target
            if after is block:
                return
            self.replaced.update(zip(after.parameters, edge.arguments, strict=True))
            block.steps, block.end = block.steps + after.steps, after.end
            self.gone.add(after)

    def select_arms(self, block: Block) -> bool:
        """Compute both arms of a branch, where they are cheap and meet again."""
        end = block.end
        if not isinstance(end, Branch):
            return False
        (then, first), (other, second) = self.arm(end.then), self.arm(end.other)
        pairs = list(zip(then.arguments, other.arguments, strict=False))
        selects = sum(a is not b for a, b in pairs)
        if (
            then.target is not other.target
            or len(first) + len(second) > _MOST_STEPS
            or selects > _MOST_SELECTS
        ):
            return False
        self.gone.update({end.then.target, end.other.target} - {then.target})
        self.ways[then.target] -= 1
        block.steps += self.within(first, end.condition, True)
        block.steps += self.within(second, end.condition, False)
        first_select = len(block.steps)
        arguments = [self.select(block, end.condition, a, b, end.line) for a, b in pairs]
        if selects:
            block.steps[first_select].payload = self.graph.selects
            self.graph.selects += 1
        block.end = Jump(Edge(then.target, arguments))
        return True

    def arm(self, edge: Edge) -> tuple[Edge, list[GraphStep]]:
        """The edge at the end of an arm and the steps before; an edge may be an arm itself."""
        block = edge.target
        if (
            self.ways[block] == 1
            and not block.parameters
            and isinstance(block.end, Jump)
            and len(block.steps) <= _MOST_STEPS
            and all(kind_of(step.op).in_arms for step in block.steps)
        ):
            return block.end.edge, block.steps
        return edge, []

    def within(self, steps: list[GraphStep], condition: Value, truth: bool) -> list[GraphStep]:
        """Steps of an arm; its own choices count where the arm is taken."""
        if all(step.payload is None for step in steps):
            return steps
        taken, found, line = condition, [], steps[0].line
        if not truth:
            taken = self.graph.value(BOOL)
            found.append(GraphStep("bool_not", (condition,), taken, None, line))
        for step in steps:
            if step.payload is None:
                found.append(step)
            elif step.result is None:
                both = self.graph.value(BOOL)
                found.append(
                    GraphStep("bool_and", (step.operands[1], taken), both, None, step.line)
                )
                found.append(dataclasses.replace(step, operands=(step.operands[0], both)))
            else:
                found.append(dataclasses.replace(step, payload=None))
                noted = step.operands[0], taken
                found.append(GraphStep(NOTE, noted, None, step.payload, step.line))
        return found

    def select(self, block: Block, condition: Value, a: Value, b: Value, line: int) -> Value:
        if a is b:
            return a
        result = self.graph.value(a.kind)
        block.steps.append(GraphStep(SELECT_OF[a.kind], (condition, a, b), result, None, line))
        return result


# --- Steps that are constants, or equal to earlier steps; branches that always take one edge ------


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
        self.new: list[GraphStep] = []
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
        kept: list[GraphStep] = []
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

    def drops(self, step: GraphStep, before: dict) -> bool:
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

    def folded(self, step: GraphStep) -> Value | None:
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
        step = GraphStep(CONSTANT_OF[kind], (), None, TYPE_OF[kind](number))
        value = self.constants.get(constant_key(step))
        if value is None:
            value = step.result = self.constants[constant_key(step)] = self.graph.value(kind)
            self.known[value] = step.payload  # type: ignore[assignment]
            self.new.append(step)
        return value


# --- Steps and parameters that are never read -----------------------------------------------------


def drop_unread(graph: Graph) -> None:
    """Drop what neither a result nor an effect depends on.

    An integer that does not fit leaves the graph, which is no effect: Python's would be right.
    """
    made: dict[Value, GraphStep] = {
        step.result: step for step in graph.steps() if step.result is not None
    }
    waiting: list[Value] = []
    for block in graph.blocks:
        waiting.extend(block.end.reads)
        for step in block.steps:
            if has_effect(step, made):
                waiting.extend(step.operands)
    read = _followed(graph, made, waiting)
    for block in graph.blocks:
        block.steps = [one for one in block.steps if one.result in read or has_effect(one, made)]
    parameters = {one for block in graph.blocks[1:] for one in block.parameters}
    drop_parameters(graph, parameters - read)


def has_effect(step: GraphStep, made: dict[Value, GraphStep]) -> bool:
    """Whether a step does more than give a result."""
    kind = kind_of(step.op)
    if kind.divides:
        divisor = made.get(step.operands[-1])
        return divisor is None or not kind_of(divisor.op).is_constant or divisor.payload == 0
    return kind.stays


def _followed(graph: Graph, made: dict[Value, GraphStep], waiting: list[Value]) -> set[Value]:
    """All that values are computed from."""
    arguments: dict[Value, list[Value]] = {}
    for block in graph.blocks:
        for edge in block.end.edges:
            for parameter, one in zip(edge.target.parameters, edge.arguments, strict=True):
                arguments.setdefault(parameter, []).append(one)
    read: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value not in read:
            read.add(value)
            step = made.get(value)
            waiting.extend(arguments.get(value, ()) if step is None else step.operands)
    return read


# --------------------------------------------------------------------------------------------------
# Graphs made simpler: the same results and gradients with fewer steps, parameters and blocks.


#: Each round decides branches; the graph after the last one is right, if not the simplest.
_ROUNDS = 4


def simplified(graph: Graph) -> Graph:
    """The graph itself, simplified.

    A call that left the graph may now run to its end, if it left for an integer that is never read.
    """
    for _ in range(_ROUNDS):
        settle(graph)
        if not number_steps(graph):
            break
    else:
        settle(graph)
    drop_unread(graph)
    if join_blocks(graph):
        drop_unread(graph)  # conditions
    return graph

"""The derivative of one number by another inside a graph, as steps of the graph itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..kinds.step_kinds import CONSTANT_OF, FLOAT, INT, SELECT_OF, kind_of
from .flow_graph import (
    Block,
    Builder,
    Graph,
    GraphStep,
    Place,
    Value,
    differentiable_operands,
    dominators,
    ordered,
    passed_on,
    spans,
    ways_in,
)
from .tangent_steps import TangentSteps


class Slope(NamedTuple):
    """`result`, a constant so far, is to be the derivative of `value` by `point`.

    `point` is the result of a step, computed before `value` on all ways, or what blocks make of it
    that pass it on.
    """

    point: Value
    value: Value
    result: Value


def put_slopes(graph: Graph, slopes: Sequence[Slope]) -> None:
    """Let the graph compute derivatives, of which no step need be left.

    ValueError says why that is not possible.
    """
    steps = {step.result: step for step in graph.steps() if step.result is not None}
    left = [
        one._replace(point=_origin(graph, one.point))
        for one in slopes
        if one.result in steps  # else it was read again
    ]
    while left:  # those inside of others first: their derivatives are those of steps
        inner = next(one for one in left if not _holds(graph, one, left))
        _TangentsBetween(graph, inner, steps[inner.result])
        left.remove(inner)


def _holds(graph: Graph, slope: Slope, others: Sequence[Slope]) -> bool:
    """Whether another derivative is computed between the point and the value of one."""
    region = _steps_between(graph, slope)
    made = [step.result for block, (a, b) in region.items() for step in block.steps[a:b]]
    return not {one.result for one in others}.isdisjoint(made)


class _TangentsBetween:
    """The tangents of what is computed between a point and a value, where they are in between.

    Other values do not vary with the point, those of its earlier rounds among them, nor does memory
    that was there before; a call leaves where it would. Memory has its tangents in a further space.
    """

    def __init__(self, graph: Graph, slope: Slope, result: GraphStep):
        self.graph, self.slope = graph, slope
        self.varying = _between(graph, slope)
        self.region = _steps_between(graph, slope)
        inside = [step for block, (a, b) in self.region.items() for step in block.steps[a:b]]
        spaces = [one.payload.space for one in inside if isinstance(one.payload, Place)]
        self.offset = 1 + max(spaces, default=0)
        self.first = next(iter(self.region))
        self.builder = Builder(graph, self.first)
        self.zero, self.one, self.mark = [graph.value(kind) for kind in "ffi"]
        self.tangents = {slope.point: self.one}
        self.of = TangentSteps(self.builder, self.zero, self.tangents, self.tangents)
        has_places = any(isinstance(one, Place) for one in self.varying)
        if has_places:
            graph.spaces = max(graph.spaces, 2 * self.offset)
        self._put(has_places)
        result.op, result.payload = "add", None
        result.operands = self.of.of(slope.value), self.zero

    def _put(self, has_places: bool) -> None:
        inner = [block for block in self.region if block is not self.first]
        carried = [(block, one) for block in inner for one in block.parameters]
        for _, one in carried:
            if one in self.varying:
                self.tangents[one] = self.graph.value(FLOAT)
        for block, (start, end) in self.region.items():
            self._put_steps(block, start, end)
        for block in self.graph.blocks:
            for edge in block.end.edges:
                if edge.target not in inner:
                    continue
                pairs = zip(edge.arguments, edge.target.parameters, strict=True)
                edge.arguments += [self.of.of(a) for a, p in pairs if p in self.tangents]
        for block in inner:
            block.parameters += [self.tangents[p] for p in block.parameters if p in self.tangents]
        self._begin(has_places)

    def _begin(self, has_places: bool) -> None:
        """Put constants behind the point, and the mark where memory begins that is new."""
        steps, at = self.first.steps, self.region[self.first][0]
        made = [
            GraphStep(CONSTANT_OF[FLOAT], (), value, number)
            for value, number in ((self.zero, 0.0), (self.one, 1.0))
        ]
        if has_places:
            none = self.graph.value(INT)
            made.append(GraphStep(CONSTANT_OF[INT], (), none, 0))
            made.append(GraphStep("allocate", (none,), self.mark))
        steps[at:at] = made

    def _put_steps(self, block: Block, start: int, end: int) -> None:
        steps, self.builder.block = block.steps, block
        block.steps = steps[:start]
        for step in steps[start:end]:
            block.steps.append(step)
            self.builder.line = step.line
            if isinstance(step.payload, Place):
                self._put_memory(step, step.payload)
            elif step.result in self.varying and self._has_tangent(step):
                self.tangents[step.result] = self._made(step)
        block.steps += steps[end:]

    def _has_tangent(self, step: GraphStep) -> bool:
        return any(one in self.tangents for one in differentiable_operands(step))

    def _made(self, step: GraphStep) -> Value:
        if not kind_of(step.op).is_linear:
            return self.of.made(step)
        operands = [self.of.of(x) if x.kind == FLOAT else x for x in step.operands]
        return self.builder.step(step.op, *operands)

    def _put_memory(self, step: GraphStep, place: Place) -> None:
        if place not in self.varying:
            return
        build, address = self.builder, step.operands[0]
        beside = Place(place.region, place.space + self.offset)
        if step.result is None:
            tangent = self.of.of(step.operands[1])
            if tangent is not self.zero:
                build.check(build.step("int_less_equal", self.mark, address), _OLD)
            build.step(step.op, address, tangent, payload=beside)
        elif step.result in self.varying:
            found = build.step(step.op, address, payload=beside)
            is_new = build.step("int_less_equal", self.mark, address)
            tangent = build.step(SELECT_OF[FLOAT], is_new, found, self.zero)
            self.tangents[step.result] = tangent


_OLD = "a function of which a root is asked for writes to an array or a list of outside"


def _steps_between(graph: Graph, slope: Slope) -> dict[Block, tuple[int, int]]:
    """The blocks between the point and the value, and which of their steps; in their order.

    All come after the first, that of the point, and reach the last without it.
    """
    blocks = ordered(graph)
    ways = ways_in(blocks)
    made = {step.result: (block, k) for block in blocks for k, step in enumerate(block.steps)}
    first, begin = made[slope.point]
    takers = {one: (block, -1) for block in blocks for one in block.parameters}
    last, end = made.get(slope.value) or takers[slope.value]
    if last is first:
        return {first: (begin + 1, end + 1)}
    span, number = spans(dominators(blocks, ways)), {block: k for k, block in enumerate(blocks)}
    low, high = span[number[first]]
    if not low < span[number[last]][0] <= high:  # it does not depend on the point
        return {first: (begin + 1, begin + 1)}
    back = {block: [before for before, _ in ways[block]] for block in blocks}
    found = _reached(back, last, first)
    region = {block: (0, len(block.steps)) for block in blocks if block in found}
    region[first] = begin + 1, len(first.steps)
    if last not in {before for one in found - {first} for before in back[one]}:
        region[last] = 0, end + 1
    return region


def _origin(graph: Graph, value: Value) -> Value:
    """The result of a step that is passed on as a parameter."""
    given: dict[Value, list[Value]] = {}
    for block in graph.blocks:
        for edge in block.end.edges:
            for argument, parameter in zip(edge.arguments, edge.target.parameters, strict=True):
                given.setdefault(parameter, []).append(argument)
    found = [one for one in _reached(given, value, None) if one not in given]
    if len(found) != 1 or found[0] in graph.entry.parameters:
        raise ValueError("the point of a derivative is not known")
    return found[0]


def _between(graph: Graph, slope: Slope) -> set[Value | Place]:
    """The point, the value, and what varies with the one and makes the other vary."""
    onward = passed_on(graph)
    back: dict[Value | Place, list[Value | Place]] = {}
    for start, reached in onward.items():
        for other in reached:
            back.setdefault(other, []).append(start)
    ahead = _reached(onward, slope.point, slope.value)
    return ahead & _reached(back, slope.value, slope.point)


def _reached(ways: dict, start, end) -> set:
    """What is reached from a start on ways that stop at an end."""
    found, waiting = set(), [start]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += ways.get(one, ()) if one is not end else ()
    return found

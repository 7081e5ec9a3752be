"""Loops that the reader itself puts into the graph: over elements of arrays and lists."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.flow_graph import Edge, Value
from ..kinds.step_kinds import INT


def counted(
    builder, count: Value, body: Callable[[Value, list[Value]], list[Value]], carried: list[Value]
) -> list[Value]:
    """`carried = body(k, carried)` for k from 0 to `count`; returns the last carried values."""
    kinds = [one.kind for one in carried]
    head = builder.begin(INT, *kinds)
    zero = builder.constant(0)
    builder.jump(head, zero, *carried)
    builder.block = head
    k, *inside = head.parameters
    round_, after = builder.begin(), builder.begin()
    builder.branch(builder.step("int_less", k, count), Edge(round_, []), Edge(after, []))
    builder.block = round_
    made = body(k, inside)
    builder.jump(head, builder.step("int_add", k, builder.constant(1)), *made)
    builder.block = after
    return inside


def nested(
    builder,
    counts: list[Value],
    body: Callable[[list[Value], list[Value]], list[Value]],
    carried: list[Value],
) -> list[Value]:
    """The same for several counts, the last one innermost; `body` gets all of the indices."""

    def level(done: list[Value], inside: list[Value]) -> list[Value]:
        if len(done) == len(counts):
            return body(done, inside)
        count = counts[len(done)]
        return counted(builder, count, lambda k, now: level([*done, k], now), inside)

    return level([], carried)

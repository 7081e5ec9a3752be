"""Graphs made simpler: the same results and gradients with fewer steps, parameters and blocks."""

from __future__ import annotations

from ..ir.flow_graph import Graph
from .block_joining import join_blocks
from .block_parameters import settle
from .step_numbering import number_steps
from .unread import drop_unread

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

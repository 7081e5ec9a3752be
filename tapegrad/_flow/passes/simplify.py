"""Graphs made simpler: the same results and gradients with fewer steps, parameters and blocks."""

from __future__ import annotations

from ..ir.flow_graph import Graph
from .block_joining import join_blocks
from .block_parameters import settle
from .step_numbering import number_steps
from .unread import drop_unread

#: Each round decides branches; what the last one leaves is right, if not as simple.
_ROUNDS = 4


def simplified(graph: Graph) -> Graph:
    """The graph itself, simplified.

    A call that the graph was left by may now run to its end, where what it was left for is an
    integer that nobody reads.
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

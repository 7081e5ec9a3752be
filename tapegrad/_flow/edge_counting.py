"""How often a call takes each edge of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .interpreted.encoding import Encoding
from .ir import frame as layout
from .ir.frame import FINISHED
from .program import FlowProgram, interpreted


def edge_counts(counted: FlowProgram, values: Sequence) -> np.ndarray:
    """The number of times that a call takes each edge; ValueError says why it left.

    The interpreter has put the number of each edge on the tape, after the registers saved there.
    """
    graph, limits = counted.graph, counted.limits
    functions = interpreted(graph, limits.are_checked)
    encoding: Encoding = functions.keep  # type: ignore[assignment]
    program = FlowProgram(graph, functions, limits)
    call = program.start(values, gradient=True)
    if call.status != FINISHED:
        raise ValueError(call.reason)
    run = call._open
    words = run.tape[: run.frame[layout.TAPE_USED // 8] - 1 - encoding.registers].tolist()
    counts = np.zeros(graph.edges, np.int64)
    at = len(words)
    while at:
        edge = words[at - 1]
        counts[edge] += 1
        at -= 1 + encoding.kept[edge]
    call.close()
    return counts

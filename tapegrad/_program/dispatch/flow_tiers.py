"""A graph that runs: interpreted first, as native code later; which edges have been compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._flow.ir.flow_graph import Graph
from ..._flow.ir.frame import FINISHED
from ..._flow.kinds.step_kinds import FLOAT
from ..._flow.native.flow_functions import compiled
from ..._flow.program import Adjoints, Call, FlowProgram, Functions, Limits, Outcome
from ..._flow.row_runs import evaluate_rows
from ..ir.steps import DOUBLE
from .life import Life, State
from .rounding import first_difference

#: Seconds of interpreting after which a graph gets native code.
PATIENCE = 0.05
#: One call in this number is compared with the function; of this number of calls half may leave.
SAMPLED, MANY = 1000, 32


class TieredGraph:
    """A graph, its evaluator, and counts of its calls; its floats are of `dtype`.

    `functions` are those of its interpreter, if there are some.

    `calls` counts its calls, `reasons` why some of them had to leave it. A graph whose addresses
    are checked stays interpreted.
    """

    def __init__(
        self,
        graph: Graph,
        read: Callable[[Call], Any] | None,
        limits: Limits,
        dtype: np.dtype = DOUBLE,
        functions: Functions | None = None,
    ):
        self.dtype = dtype
        self.program = FlowProgram(graph, functions, limits=limits, read=read)
        self.calls = 0
        self.reasons: Counter[str] = Counter()
        self.seconds = 0.0
        self.life = Life(State.CHECKED if limits.are_checked else State.INTERPRETED)
        self._taken = 0  # the edges that calls took
        self._compared = [0, 0]  # edges along which values, and adjoints, were compared

    def run(
        self, inputs: Sequence, gradient: bool = False, adjoints: Adjoints = (1.0,)
    ) -> Outcome | None:
        """Results, and adjoints of the differentiated inputs; None where the call left."""
        self.calls += 1
        start = time.perf_counter()
        outcome = self.program.run(inputs, gradient, adjoints)
        self.seconds += time.perf_counter() - start
        self._taken |= outcome.taken
        if outcome.status == FINISHED:
            return outcome
        self.reasons[outcome.reason] += 1
        return None

    def again(self, inputs: Sequence, gradient=False, adjoints: Adjoints = (1.0,)):
        """The result of `run`, at inputs that are no call's: nothing is counted."""
        outcome = self.program.run(inputs, gradient, adjoints)
        if outcome.status != FINISHED:
            raise ValueError(outcome.reason)
        return outcome

    def run_rows(self, values: Sequence, words, count: int, gradient: bool) -> tuple[list, int]:
        """The rows that left, and the edges taken, see `evaluate_rows`."""
        start = time.perf_counter()
        left, taken = evaluate_rows(self.program, values, words, count, gradient)
        self.seconds += time.perf_counter() - start
        self.calls += count - len(left)  # which are called again, and report why they leave
        self._taken |= taken
        return left, taken

    @property
    def left(self) -> int:
        """The number of calls that left it."""
        return self.reasons.total()

    @property
    def seen(self) -> np.ndarray:
        """For each edge whether a call took it."""
        edges = self.program.graph.flags
        return np.frombuffer((self._taken >> 1).to_bytes(edges, "little"), np.uint8)

    @property
    def uselessness(self) -> str:
        """Why most calls leave it, if they do, and the function could be called instead."""
        if self.program.limits.are_checked or self.left < MANY or 2 * self.left <= self.calls:
            return ""
        return f"most calls leave it: {self.reasons.most_common(1)[0][0]}"

    @property
    def is_interpreted(self) -> bool:
        """Whether it is interpreted, and may become native."""
        return self.life.state is State.INTERPRETED

    @property
    def is_impatient(self) -> bool:
        """Whether interpreting has taken long enough for native code."""
        return self.seconds > PATIENCE and self.is_interpreted

    def is_sample(self) -> bool:
        """Whether the next call is due for a regular comparison."""
        return (self.calls + 1) % SAMPLED == 0

    def is_due(self, taken: int, gradient: bool) -> bool:
        """Whether a call that was just made, along these edges, is to be compared."""
        return self.calls % SAMPLED == 0 or self.is_new(taken, gradient)

    def is_new(self, taken: int, gradient: bool) -> bool:
        """Whether one of these edges has not been compared."""
        return bool(taken & ~self._compared[gradient])

    def note_compared(self, taken: int, gradient: bool) -> None:
        """Note that a call along these edges was compared, with its adjoints or without."""
        for what in range(1 + gradient):
            self._compared[what] |= taken

    def take_over(self, inputs: list, gradient: bool) -> None:
        """Switch to native code if its results agree; RuntimeError says where they do not."""
        graph = self.program.graph
        functions = Functions(**compiled(graph), data=0)
        adjoints = [float(kind == FLOAT) for kind in self.program.kinds]
        expected = self.program.run(inputs, gradient, adjoints)
        other = FlowProgram(graph, functions, read=self.program.read)
        found = other.run(inputs, gradient, adjoints)
        if expected.status != found.status:
            raise RuntimeError("native code takes another branch than the interpreted graph")
        pair = first_difference(
            (found.results, found.gradients),
            (expected.results, expected.gradients),
            dtype=self.dtype,
        )
        if pair is not None:
            raise RuntimeError(f"native code gives {pair[0]}, the interpreted graph {pair[1]}")
        self.program.use(functions)
        self._compared = [0, 0]  # each edge is compared with the function once more
        self.life.go(State.NATIVE, "native code of the graph, equal to the interpreted graph")

"""A graph that can be called: memory for its calls, its evaluator, counts of its edges."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.ops.table import Pointwise
from .._core.remembered import remembered
from .interpreted.interpreter import Encoding, compiled, compiled_with_checks
from .ir import frame as layout
from .ir.flow_graph import Graph, Leave, Reason, Return, varying
from .ir.frame import ARITHMETIC, FINISHED, LEFT, OUTSIDE, TAPE_FULL, TOO_MANY_JUMPS
from .kinds.step_kinds import BOOL, FLOAT, REASON, kind_of

# --- program --------------------------------------------------------------------------------------
# A graph that can be called: memory for its calls, and its evaluators.

#: The number of runs kept for later calls.
_KEPT = 8
_USED = layout.ARENA_USED // 8
_NO_NUMBER = "an integer beyond 63 bits, or 53 as a float, or a division by the integer 0"
TOO_LARGE = "the call needs more memory than a program takes"
_OUTSIDE = "the graph reads or writes outside of its memory"
_REASONS = {TOO_MANY_JUMPS: Reason("the call has no end"), OUTSIDE: Reason(_OUTSIDE)}
_prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@dataclasses.dataclass(frozen=True)
class Functions:
    """An evaluator: addresses of `int64(frame, data)` that share the frame, and what they read."""

    forward: int
    ahead: int
    reverse: int
    data: int
    keep: object = None

    def callables(self) -> tuple[Callable, Callable, Callable]:
        return _prototype(self.forward), _prototype(self.ahead), _prototype(self.reverse)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What calls may use: words of tape, and of the arena with its adjoints; jumps.

    `are_checked` says that addresses are checked, too, as in graphs that may come from anywhere.
    """

    words: int = 1 << 28
    jumps: int = 1 << 40
    are_checked: bool = False


#: Those of graphs that are read from functions.
OWN = Limits()


def interpreted(graph: Graph, checked: bool = False) -> Functions:
    """The functions of the interpreter; `checked` ones leave where an address is not in use."""
    encoding, functions = Encoding(graph), compiled_with_checks() if checked else compiled()
    return Functions(**functions, data=encoding.data, keep=encoding)


class GraphRun:
    """The memory of one call at a time."""

    def __init__(self, program: FlowProgram):
        parameters, results = program.parameters, program.most_results
        self.frame = np.zeros(layout.FRAME_BYTES // 8, np.int64)
        self.address = self.frame.ctypes.data
        self.inputs = np.zeros(parameters + 1)
        self.input_words = self.inputs.view(np.int64)
        self.outputs = np.zeros(results + 1)
        self.output_words = self.outputs.view(np.int64)
        self.output_adjoints, self.input_adjoints = np.zeros(results + 1), np.zeros(parameters + 1)
        self.shapes: list = [None] * len(program.graph.inputs)
        self.places = [(0, 0, 0)] * len(program.graph.inputs)  # space, first word, end
        self.used = 0
        self._point(layout.INPUTS, self.inputs)
        self._point(layout.OUTPUTS, self.outputs)
        self._point(layout.OUTPUT_ADJOINTS, self.output_adjoints)
        self._point(layout.INPUT_ADJOINTS, self.input_adjoints)
        self.covered = np.zeros(program.graph.flags, np.uint8)
        self._point(layout.COVERED, self.covered)
        self.frame[layout.JUMPS // 8] = program.limits.jumps
        self.spaces, self.most = program.graph.spaces, program.limits.words
        self.set_tape(layout.FIRST_TAPE_WORDS)
        self.set_arena(layout.FIRST_ARENA_WORDS)

    @property
    def taken(self) -> int:
        """The edges and selected arms that were taken, see `Outcome`."""
        return 1 | int.from_bytes(self.covered, "little") << 1

    def _point(self, word: int, array: np.ndarray) -> None:
        self.frame[word // 8] = array.ctypes.data

    def set_tape(self, words: int) -> None:
        self.tape = np.empty(words, np.int64)
        self._point(layout.TAPE, self.tape)
        self.frame[layout.TAPE_WORDS // 8] = words

    def set_arena(self, words: int) -> None:
        self.arena, self.shadow = np.zeros((2, self.spaces, words))
        self._point(layout.ARENA, self.arena)
        self._point(layout.SHADOW, self.shadow)
        self.frame[layout.ARENA_WORDS // 8] = words

    def grow(self, status: int) -> bool:
        """Twice the tape or the arena; False where that would be too much."""
        words = 2 * (len(self.tape) if status == TAPE_FULL else self.arena.shape[1])
        if words * (1 if status == TAPE_FULL else 2 * self.spaces) > self.most:
            return False
        (self.set_tape if status == TAPE_FULL else self.set_arena)(words)
        return True


class GraphCall:
    """A call that was run: `status`, `reason`, `results`; then its adjoints, until it is closed.

    Results are Python's numbers in the order of the graph. An array among the results is its
    address and lengths; `array_at` reads it, `seed` sets its adjoint before `reverse`.
    """

    __slots__ = ("_functions", "_program", "_run", "reason", "results", "status")

    def __init__(
        self, program, run: GraphRun, functions: tuple, status: int, reason="", results=()
    ):
        self._program, self._functions = program, functions
        self._run: GraphRun | None = run
        self.status, self.reason, self.results = status, reason, list(results)

    @property
    def taken(self) -> int:
        """The edges that it took, see `Outcome`."""
        return self._open.taken

    @property
    def _open(self) -> GraphRun:
        if self._run is None:
            raise RuntimeError("the call is closed")
        return self._run

    def array_at(self, address: int, shape: Sequence[int], space: int = 0) -> np.ndarray:
        """A copy of words of the arena."""
        return self._words(self._open.arena[space], address, shape).copy()

    def seed(self, address: int, adjoint: np.ndarray, space: int = 0) -> None:
        """Add to the adjoints of words of the arena."""
        self._words(self._open.shadow[space], address, adjoint.shape)[...] += adjoint

    def _words(self, memory: np.ndarray, address: int, shape: Sequence[int]) -> np.ndarray:
        end = address + math.prod(shape)
        if min(address, *shape) < 0 or end > self._open.frame[_USED]:
            raise ValueError(f"{_OUTSIDE}: the result is an array of {shape} at {address}")
        return memory[address:end].reshape(shape)

    def reverse(self, adjoints: Sequence[float] = (1.0,)) -> list:
        """The adjoint of each differentiated input, once."""
        if len(adjoints) != self._program.most_results:
            raise ValueError(f"{len(adjoints)} adjoints of {self._program.most_results} results")
        _, _, reverse, data, _ = self._functions  # the evaluators that wrote the tape
        run = self._open
        run.output_adjoints[: len(adjoints)] = adjoints
        reverse(run.address, data)
        return self._program._gradients(run)

    def close(self) -> None:
        """Give the memory back."""
        if (run := self._run) is not None:
            self._run = None
            self._program.give_back(run)


@dataclasses.dataclass(slots=True)
class Outcome:
    """The result of a call; `reason` says why it left where `status` is LEFT.

    `taken` has a bit for each edge and each selected arm that it took, and one that is always set.
    """

    status: int
    reason: str
    results: list
    gradients: list
    taken: int


Adjoints = Sequence[float] | Callable[[GraphCall], Sequence[float]]


class FlowProgram:
    """A graph with functions that compute it; calls may run in several threads at once.

    `functions` may be replaced by others of the same graph at any time. `read` makes of a call the
    results of `run`, where these are more than its numbers: arrays in its memory.
    """

    def __init__(
        self,
        graph: Graph,
        functions: Functions | None = None,
        limits: Limits = OWN,
        read: Callable[[GraphCall], Any] | None = None,
    ):
        self.graph, self.limits, self.read = graph, limits, read
        self.parameters = len(graph.entry.parameters)
        ends = [block.end for block in graph.blocks if isinstance(block.end, Return)]
        kinds = {"".join(one.kind for one in end.results) for end in ends} or {""}
        if len(kinds) > 1:
            raise ValueError(f"returns of {' and '.join(sorted(kinds))}")
        (self.kinds,) = kinds
        self.most_results, self._all_float = len(self.kinds), set(self.kinds) <= {FLOAT}
        self._plan = self._planned()
        self._pool: list[GraphRun] = []
        self.current = np.zeros(1, np.int64)  # the address of those of `functions`, in their order
        self._every: list[tuple[Functions, np.ndarray]] = []  # compiled code may be in any of them
        self.use(functions or interpreted(graph, limits.are_checked))

    @property
    def functions(self) -> Functions:
        """The evaluators in use."""
        return self._used[-1]

    def use(self, functions: Functions) -> None:
        """Compute with other functions from now on."""
        addresses = functions.forward, functions.ahead, functions.reverse, functions.data
        words = np.array(addresses, np.int64)
        self._every.append((functions, words))
        self.current[0] = words.ctypes.data
        self._used = (*functions.callables(), functions.data, functions)

    def _planned(self) -> list[tuple[int, int, bool, bool]]:
        """For each input: its number, its first parameter, whether it is an array, a tangent's."""
        plan, first = [], 0
        for k, one in enumerate(self.graph.inputs):
            plan.append((k, first, one.ndim is not None, one.tangent_of is not None))
            first += len(one.parameters)
        return plan

    def run(self, values: Sequence, gradient: bool = False, adjoints: Adjoints = (1.0,)) -> Outcome:
        """Results, and gradients with respect to the differentiated inputs.

        `values` has a float or a C-contiguous float64 array for each input. `adjoints` are those of
        the results, or a function of the call that gives them and seeds its arrays.
        """
        if gradient:
            self.check()
        call = self.start(values, gradient)
        try:
            is_read = self.read is not None and call.status == FINISHED
            results = self.read(call) if is_read else call.results  # type: ignore[misc]
            gradients: list = []
            if gradient and call.status == FINISHED:
                gradients = call.reverse(adjoints(call) if callable(adjoints) else adjoints)
            return Outcome(call.status, call.reason, results, gradients, call.taken)
        finally:
            call.close()

    def check(self) -> None:
        """Raise the error of a partial derivative that adjoints need and that does not exist."""
        for op, wanted in self._with_refusals:
            op.check(k for k, is_wanted in enumerate(wanted) if is_wanted)

    @remembered
    def _with_refusals(self) -> list[tuple[Pointwise, tuple[bool, ...]]]:
        """Steps that have no partial derivative by some operand: operations, operands wanted."""
        declared = [(kind_of(step.op).declared, step) for step in self.graph.steps()]
        found = [(op, step) for op, step in declared if op is not None and op.refuses]
        variation = varying(self.graph) if found else None
        return [(op, variation.wanted(step)) for op, step in found if variation is not None]

    def timed(self, values: Sequence) -> tuple[float, float]:
        """Seconds of a call forward, with a tape, and back; ValueError says why it left."""
        call = self.start(values, gradient=True)  # the first run makes room
        try:
            if call.status != FINISHED:
                raise ValueError(call.reason)
            run, (_, ahead, reverse, data, _) = call._open, call._functions
            self._enter(run, values)
            begin = time.perf_counter()
            ahead(run.address, data)
            forward = time.perf_counter() - begin
            run.shadow[:, : run.frame[_USED]] = 0.0
            run.output_adjoints[: self.most_results] = 1.0
            begin = time.perf_counter()
            reverse(run.address, data)
            return forward, time.perf_counter() - begin
        finally:
            call.close()

    def start(self, values: Sequence, gradient: bool = False) -> GraphCall:
        """Run forwards; with `gradient` reverse can follow. The call is to be closed."""
        run = self.borrow()
        functions = forward, ahead, _, data, _ = self._used
        function = ahead if gradient else forward
        while True:
            self._enter(run, values)
            status = function(run.address, data)
            if status == FINISHED:
                if gradient:
                    run.shadow[:, : run.frame[_USED]] = 0.0
                return GraphCall(self, run, functions, status, "", self._results(run))
            if status == LEFT:
                return GraphCall(
                    self, run, functions, status, self.why(int(run.frame[layout.REASON // 8]))
                )
            if not run.grow(status):
                return GraphCall(self, run, functions, LEFT, TOO_LARGE)

    # --- memory -------------------------------------------------------------------------------

    def borrow(self) -> GraphRun:
        """Memory for a call, by which no edge was taken yet; to be given back."""
        try:
            run = self._pool.pop()
        except IndexError:
            return GraphRun(self)
        run.covered[:] = 0
        return run

    def give_back(self, run: GraphRun) -> None:
        if len(self._pool) < _KEPT:
            self._pool.append(run)

    def entered(self, run: GraphRun, values: Sequence) -> list[tuple[int, int, bool]]:
        """Let inputs be in memory; of each its first word there, its bytes, whether an array."""
        self._enter(run, values)
        return [
            (run.places[k][1], 8 * values[k].size, True) if is_array else (first, 8, False)
            for k, first, is_array, _ in self._plan
        ]

    def _enter(self, run: GraphRun, values: Sequence) -> None:
        """The inputs of a call into its memory."""
        for k, first, is_array, _ in self._plan:
            if not is_array:
                run.inputs[first] = values[k]
            elif values[k].shape != run.shapes[k]:
                self._place(run, values)
                return self._enter(run, values)
        if run.spaces > 1:
            run.arena[1:, : run.used] = 0.0
        for k, _, is_array, _ in self._plan:
            if is_array:
                space, at, end = run.places[k]
                run.arena[space, at:end] = values[k].reshape(-1)
        run.frame[_USED] = run.used
        return None

    def _place(self, run: GraphRun, values: Sequence) -> None:
        """Addresses and lengths of arrays as parameters."""
        used = 0
        for k, first, is_array, is_tangent in self._plan:
            if not is_array:
                continue
            one, shape, at = self.graph.inputs[k], values[k].shape, used
            if is_tangent:
                at = run.places[one.tangent_of][1]  # type: ignore[index]
                if shape != run.shapes[one.tangent_of]:  # type: ignore[index]
                    raise ValueError("an array and its tangents have different shapes")
            else:
                used += values[k].size
                run.input_words[first : first + 1 + len(shape)] = (at, *shape)
            run.shapes[k], run.places[k] = shape, (one.space, at, at + values[k].size)
        run.used = used
        if used > run.arena.shape[1]:
            run.set_arena(1 << used.bit_length())

    def _results(self, run: GraphRun) -> list:
        found = run.outputs[: self.most_results].tolist()
        if self._all_float:
            return found
        words = run.output_words[: self.most_results].tolist()
        return [
            number if kind == FLOAT else bool(word) if kind == BOOL else word
            for kind, number, word in zip(self.kinds, found, words, strict=True)
        ]

    def reason_numbers(self) -> list[int]:
        """The numbers of the reasons for which calls may leave."""
        numbers = {TOO_MANY_JUMPS, OUTSIDE} if self.limits.are_checked else {TOO_MANY_JUMPS}
        for block in self.graph.blocks:
            if isinstance(block.end, Leave):
                numbers.add(block.end.reason)
            for step in block.steps:
                kind = kind_of(step.op)
                if kind.holds:
                    own = kind.payload == REASON
                    numbers.add(step.payload if own else ARITHMETIC - step.line)  # type: ignore[arg-type]
        return sorted(numbers)

    def why(self, number: int) -> str:
        """A reason to leave, by the number that compiled code has for it."""
        if number <= ARITHMETIC:
            reason, line = _NO_NUMBER, ARITHMETIC - number
        else:
            reason, line = _REASONS.get(number) or self.graph.reasons[number]
        return f"{reason} ({self.graph.lines[line]})" if line else reason

    def _gradients(self, run: GraphRun) -> list:
        gradients: list = []
        for k, first, is_array, _ in self._plan:
            if not self.graph.inputs[k].differentiated:
                continue
            if is_array:
                space, at, end = run.places[k]
                gradients.append(run.shadow[space, at:end].reshape(run.shapes[k]).copy())
            else:
                gradients.append(float(run.input_adjoints[first]))
        return gradients


__all__ = [
    "OWN",
    "TOO_LARGE",
    "GraphCall",
    "FlowProgram",
    "Functions",
    "Limits",
    "Outcome",
    "interpreted",
]


# --- edge counting --------------------------------------------------------------------------------
# How often a call takes each edge of a graph.


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

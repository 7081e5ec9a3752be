"""Reports of a compiled function on its programs: text, a picture, times."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import html
import itertools
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

from ..._core.codegen.layout import ARRAY
from ..._core.ops.table import BY_CODE
from ..._core.tape.tape import BLUE, FONT, GREEN, INK, PALE, RED, Box, picture, saved, scrolled
from ..._core.tensor import operators
from ..._core.tensor.values import records
from ..._flow.ir.flow_graph import Block, Branch, Graph, GraphStep, Leave, Return, Value, varying
from ..._flow.kinds.step_kinds import kind_of
from ..._flow.program import edge_counts
from ..build.executable import Call, Program, table
from ..dispatch.evaluation import Compilation, Replayed
from ..dispatch.flows import Flow
from ..dispatch.life import State
from ..dispatch.signature import Arguments
from ..dispatch.takeover import entered
from ..dispatch.variants import NotRecorded, traced_call
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Step, View, is_function
from ..ir.uses import GRADIENT_COSTS, VALUE_COSTS, marked, slots_of
from ..native.loop_finding import find_loops
from ..replay.operation_parts import error_of
from ..replay.parts import Part, Run
from .explain import NestedNode, edges_text, explain, nested, source_of

# --- draw -----------------------------------------------------------------------------------------
# Pictures of programs: steps, what flows between them, fused groups and loops marked.

#: More loops of one step are not listed.
_LOOPS = 6


def drawing_of_program(program: Program, name: str) -> str:
    """The SVG text."""
    return picture(f"program of {name}: {len(program.code.steps)} steps", boxes_of(program))


def boxes_of(program: Program) -> list[Box]:
    """A box for each input, each array from outside, and each step."""
    code = program.code
    owner = np.full(code.slots, -1)
    boxes = []
    for number, one in enumerate(code.inputs):
        if one.view.base == ARENA:
            marked(owner, one.view)[...] = number
        lines = [f"input {number}", f"{one.dtype}{list(one.view.shape)}"]
        boxes.append(Box(lines, [], "input", BLUE if one.differentiated else PALE))
    for array in code.held:
        boxes.append(Box(["from outside", f"{array.dtype}{[*array.shape]}"], [], "input", PALE))
    loops = _loops(program)
    for k, step in enumerate(code.steps):
        reads = _owners(step, owner)
        for view in step.views_written:
            marked(owner, view)[...] = len(boxes)
        boxes.append(_box(step, reads, loops.get(k, [])))
    for output in code.outputs:
        for number in _of_view(output.view, owner):
            boxes[number].is_result = True
    return boxes


def _of_view(view: View, owner: np.ndarray) -> set[int]:
    """The boxes in which the slots of a view were computed."""
    if view.base != ARENA:
        return {view.base - 1}
    return set(np.unique(marked(owner, view)).tolist()) - {-1}


def _owners(step: Step, owner: np.ndarray) -> list[int]:
    found = set().union(*[_of_view(view, owner) for view in step.views_read])
    for slots in step.slots_read:
        outside = slots[slots >= 0]
        found |= set(np.unique(owner[outside]).tolist()) - {-1}
    return sorted(found)


def _box(step: Step, reads: list[int], loops: list[str]) -> Box:
    colour = RED if loops else GREEN if step.is_fused else "white"
    return Box(step.caption(loops[:_LOOPS]), reads, step.label, colour)


def _loops(program: Program) -> dict[int, list[str]]:
    """The loops in operations on numbers, by step."""
    constant = program.parts.wanted.constant
    steps = program.code.of(Scalars).items()
    return {k: list(map(str, find_loops(step, constant))) for k, step in steps}


# --- pictures of graphs: loops and branches as nested boxes, with the user's lines ----------------


#: Points: of text, of a line of it, of a letter (about), inside of boxes, between boxes.
_TEXT, _LINE, _LETTER, _INSIDE, _BETWEEN = 10, 14, 6.3, 8, 8
#: More letters of a line are cut off; of more boxes in one box the others are counted.
_LETTERS, _BOXES = 60, 40
#: More kinds of operations of one line are not listed.
_KINDS = 6


def drawing_of_graph(graph: Graph, seen: np.ndarray, name: str) -> str:
    """The SVG text; `seen` says of each edge whether a call took it."""
    drawing = _Picture(graph, seen)
    inputs = _beside([_box_of_block([*drawing.input(k)], BLUE) for k in range(len(graph.inputs))])
    whole = _stacked([inputs, drawing.nodes(nested(graph))])
    title = f"graph of {name}: {len(graph.blocks)} blocks"
    head = 34
    width = max(whole.width, len(title) * 7.5) + 2 * _INSIDE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{whole.height + head + _INSIDE:.0f}" font-family="{FONT}" '
        f'font-size="{_TEXT}" fill="{INK}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_INSIDE}" y="20" font-weight="bold">{html.escape(title)}</text>',
        *_moved(whole, _INSIDE, head),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- panels -------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Panel:
    """A part of the picture with its left upper corner at 0."""

    width: float
    height: float
    svg: list[str]


def _moved(panel: _Panel, x: float, y: float) -> Iterator[str]:
    yield f'<g transform="translate({x:.1f} {y:.1f})">'
    yield from panel.svg
    yield "</g>"


def _stacked(panels: list[_Panel]) -> _Panel:
    """Panels one below the other, all as wide as the widest."""
    y = 0.0
    svg: list[str] = []
    for panel in panels:
        svg += _moved(panel, 0.0, y)
        y += panel.height + _BETWEEN
    return _Panel(max((one.width for one in panels), default=0.0), max(y - _BETWEEN, 0.0), svg)


def _beside(panels: list[_Panel]) -> _Panel:
    x = 0.0
    svg: list[str] = []
    for panel in panels:
        svg += _moved(panel, x, 0.0)
        x += panel.width + _BETWEEN
    return _Panel(max(x - _BETWEEN, 0.0), max((one.height for one in panels), default=0.0), svg)


def _box_of_block(lines: list[str], colour: str, inside: _Panel | None = None, edge=1.2) -> _Panel:
    """A box with lines of text, indented ones pale and the others bold, above another panel."""
    width = max(len(line) for line in lines) * _LETTER + 2 * _INSIDE
    height = float(len(lines) * _LINE + _INSIDE)
    svg = []
    for k, line in enumerate(lines, 1):
        x = _INSIDE + _LETTER * (len(line) - len(line.lstrip()))
        style = 'fill-opacity="0.7"' if line[0] == " " else 'font-weight="bold"'
        text = html.escape(line.strip())
        svg.append(f'<text x="{x:.1f}" y="{_LINE * k}" {style}>{text}</text>')
    if inside is not None and inside.height:
        svg += _moved(inside, _INSIDE, height)
        width, height = max(width, inside.width + 2 * _INSIDE), height + inside.height + _INSIDE
    box = (
        f'<rect width="{width:.1f}" height="{height:.1f}" rx="2" fill="{colour}" '
        f'stroke="{INK}" stroke-width="{edge}"/>'
    )
    return _Panel(width, height, [box, *svg])


# --- what panels show ---------------------------------------------------------------------------


class _Picture:
    def __init__(self, graph: Graph, seen: np.ndarray):
        self.graph, self.seen = graph, seen

    def input(self, k: int) -> Iterator[str]:
        one = self.graph.inputs[k]
        yield f"input {k}"
        yield "  number" if one.ndim is None else f"  array, ndim {one.ndim}"
        if one.differentiated:
            yield "  differentiated"

    def nodes(self, nodes: list[NestedNode]) -> _Panel:
        panels = [panel for node in nodes if (panel := self.node(node)).height]
        shown = panels[:_BOXES]
        if len(panels) > len(shown):
            shown.append(_box_of_block([f"… and {len(panels) - len(shown)} more"], PALE))
        return _stacked(shown)

    def node(self, node: NestedNode) -> _Panel:
        if node.kind == "block":
            lines = [*self.block(node.block)]
            return _box_of_block(lines, "white", edge=0.8) if lines else _Panel(0.0, 0.0, [])
        line = self.graph.lines[node.line]
        source = source_of(line) or node.kind
        title = [
            _cut(source),
            f"  {node.kind}, {line or 'no line'}: {edges_text(node.edges, self.seen)}",
        ]
        if node.kind == "loop":
            return _box_of_block(title, RED, self.nodes(node.parts[0]))
        arms = [
            self.arm(part, edge) for part, edge in zip(node.parts, node.edges, strict=False) if part
        ]
        return _box_of_block(title, PALE, _beside([arm for arm in arms if arm.height]))

    def arm(self, part: list[NestedNode], edge: int) -> _Panel:
        if self.seen[edge]:
            return self.nodes(part)
        return _stacked([_box_of_block(["not taken yet"], "white", edge=0.0), self.nodes(part)])

    def block(self, block: Block) -> Iterator[str]:
        """The lines of a block with their operations."""
        steps = [step for step in block.steps if not kind_of(step.op).is_constant]
        for number, group in itertools.groupby(steps, lambda step: step.line):
            line = self.graph.lines[number]
            if line is not None:
                yield _cut(f"{line.number}  {source_of(line) or line.function}")
            yield "    " + counted_kinds([step.op for step in group])
        if isinstance(block.end, Return):
            yield "return"
        elif isinstance(block.end, Leave):
            yield _cut(f"runs eagerly: {self.graph.reasons[block.end.reason].text}")


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def counted_kinds(ops: list[str]) -> str:
    """Names of operations with their counts, the most frequent first."""
    counts = collections.Counter(ops).most_common()
    shown = [f"{op} × {count}" if count > 1 else op for op, count in counts[:_KINDS]]
    return ", ".join(shown) + ", …" * (len(counts) > _KINDS)


# --- step times -----------------------------------------------------------------------------------
# The time of a program or graph by step, block and the user's line, forward and reverse.


# --- step times -----------------------------------------------------------------------------------
# The time of a program by step and by the user's line, forward and reverse.

Place = operators.Place
#: By operation and value, or by operation alone: the number of rows that each line has recorded.
_Recorded = dict[tuple[int, float | None], collections.Counter]
_PART = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
#: More rows of a table are counted and not shown.
MOST = 20


@dataclasses.dataclass
class StepTime:
    """One step of a program, and the seconds that it takes.

    `tier` is "native", "interpreted", "mixed" (of both), "kernel" (precompiled, for any program) or
    "Python". `operations` counts those in it, by the user's place (file, line, function); None if
    no line is known.
    """

    number: int
    what: str
    tier: str
    forward: float
    reverse: float
    operations: dict[Place | None, float]


@dataclasses.dataclass
class LineTime:
    """One line of the user's, and the seconds that its operations take."""

    place: Place | None
    operations: float
    forward: float
    reverse: float


@dataclasses.dataclass
class ProgramProfile:
    """The time of a program; `print` shows it as tables.

    Attributes
    ----------
    name : str
        The function.
    native : bool
        Whether the program has code of its own.
    steps : list of StepTime
        In their order.
    lines : list of LineTime
        By time, the longest first.
    forward, reverse : float
        Seconds of all steps.
    """

    name: str
    native: bool
    steps: list[StepTime]

    @property
    def forward(self) -> float:
        return sum(step.forward for step in self.steps)

    @property
    def reverse(self) -> float:
        return sum(step.reverse for step in self.steps)

    @property
    def lines(self) -> list[LineTime]:
        found: dict[Place | None, LineTime] = {}
        for step in self.steps:
            total = sum(step.operations.values())
            for place, count in step.operations.items():
                line = found.setdefault(place, LineTime(place, 0.0, 0.0, 0.0))
                line.operations += count
                line.forward += step.forward * count / total
                line.reverse += step.reverse * count / total
        return sorted(found.values(), key=lambda line: -(line.forward + line.reverse))

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return f"<pre>{html.escape(str(self))}</pre>"


def profile(program: Program, name: str, f, arguments: Arguments, repeats: int) -> ProgramProfile:
    """Time each step of a program, the best of some evaluations, and find the lines of its steps.

    `f` is called once, with its rows listened to.
    """
    values = arguments.values
    recorded = _recorded(f, arguments)
    times, run = [], entered(program, values)
    try:
        for _ in range(repeats):
            run = entered(program, values, run)
            times.append(_times(program, run))
        best = np.maximum(np.min(times, 0) - _overhead(program), 0.0)
        steps = []
        for k, (step, (forward, reverse)) in enumerate(zip(program.code.steps, best, strict=True)):
            tier, lines = _tier(program.parts.of[k]), _lines(program, run, k, recorded)
            steps.append(StepTime(k, _what(step), tier, float(forward), float(reverse), lines))
    finally:
        program.end(run)
    return ProgramProfile(name, program.native, steps)


# --- time -----------------------------------------------------------------------------------------


def _times(program: Program, run: Run) -> np.ndarray:
    """Seconds of each step, forward and reverse, in one evaluation."""
    count = len(program.code.steps)
    found = np.zeros((count, 2))
    for k in range(count):
        found[k, 0] = _time(run, program.ahead_calls(k))
    made = program.gradients()
    given = table(made)
    program.compiled["clear"](run.address, program.address, ctypes.addressof(given))
    for output in program.code.outputs:
        np.add.at(run.adjoints, slots_of(output.view), 1.0)
    for k in reversed(range(count)):
        found[k, 1] = _time(run, program.reverse_calls(k))
    return found


def _time(run: Run, calls: list[Call]) -> float:
    made = [(_PART(address), part.data.ctypes.data) for address, part in calls if address]
    seconds, statuses = _timed(made, run.address)
    for status in statuses:
        if (error := error_of(run.address, status)) is not None:
            raise error
    return seconds


def _timed(made: list, run: int) -> tuple[float, list[int]]:
    begin = time.perf_counter()
    statuses = [function(run, data) for function, data in made]
    return time.perf_counter() - begin, statuses


def _overhead(program: Program) -> np.ndarray:
    """Seconds that it takes to call the parts of each step from here."""
    nothing = [(_PART(("Py_IsInitialized", ctypes.pythonapi)), 0)]
    none, ten = (min(_timed(made, 0)[0] for _ in range(50)) for made in ([], 10 * nothing))
    steps = range(len(program.code.steps))
    calls = [(program.ahead_calls(k), program.reverse_calls(k)) for k in steps]
    counts = [[sum(bool(address) for address, _ in one) for one in pair] for pair in calls]
    return none + (ten - none) / 10 * np.array(counts).reshape(-1, 2)


# --- what steps are -------------------------------------------------------------------------------


def _what(step: Step) -> str:
    names = collections.Counter(BY_CODE[code].name for code, _ in step.results)
    words = [name + (f" × {count}" if count > 1 else "") for name, count in names.most_common(4)]
    more = ", …" if len(names) > 4 else ""
    return ", ".join(words) + more if words else step.name


def _tier(parts: list[Part]) -> str:
    tiers = {part.tier for part in parts}
    return tiers.pop() if len(tiers) == 1 else "mixed"


# --- the user's lines -----------------------------------------------------------------------------


def _recorded(f, arguments: Arguments) -> _Recorded:
    """The lines that record each operation, where `f` is called with its arguments."""
    found: _Recorded = collections.defaultdict(collections.Counter)

    def note(number: int, op: int, output, operands) -> None:
        place = next(iter(operators.places(1)), None)
        code = op - ARRAY if op >= ARRAY else op // 4 - 1
        found[code, None][place] += 1
        if isinstance(output, float):
            found[code, output][place] += 1

    operators.listen(note)
    try:
        with traced_call(f, arguments):
            pass
    except NotRecorded:
        return {}
    finally:
        operators.stop_listening(note)
    return found


def _lines(program: Program, run: Run, k: int, recorded: _Recorded) -> dict[Place | None, float]:
    """The operations of a step by line: those that recorded them, with this result if it is known.

    An operation that passes have put in the place of others has no line.
    """
    found: dict[Place | None, float] = collections.defaultdict(float)
    for code, value in _results(program, run, program.code.steps[k]):
        lines = recorded.get((code, value)) or recorded.get((code, None)) or {None: 1}
        total = sum(lines.values())
        for place, count in lines.items():
            found[place] += count / total
    return dict(found) or {None: 1.0}


def _results(program: Program, run: Run, step: Step) -> Iterator[tuple[int, float | None]]:
    """Operations of a step with their results, None where they are not stored as numbers."""
    for code, slot in step.results:
        yield code, None if slot is None or program.native else run.values.item(slot)


# --- text -----------------------------------------------------------------------------------------


def _text(found: ProgramProfile) -> Iterator[str]:
    how = "native" if found.native else "interpreted"
    yield (
        f"{found.name}: {how}, {len(found.steps)} steps, "
        f"{_microseconds(found.forward)} µs forward, {_microseconds(found.reverse)} µs reverse"
    )
    yield f"{'line':36s}{'operations':>11s}{'forward µs':>12s}{'reverse µs':>12s}"
    for line in found.lines[:MOST]:
        yield _row(f"{_place(line.place):36.36s}{line.operations:11.0f}", line)
    yield f"{'step':36s}{'runs':>11s}{'forward µs':>12s}{'reverse µs':>12s}"
    steps = sorted(found.steps, key=lambda step: -(step.forward + step.reverse))
    for step in steps[:MOST]:
        yield _row(f"{f'{step.number} {step.what}':35.35s} {step.tier:>11s}", step)
    if len(steps) > MOST:
        yield f"… and {len(steps) - MOST} more steps"


def _row(words: str, timed: StepTime | LineTime) -> str:
    return f"{words}{_microseconds(timed.forward):>12s}{_microseconds(timed.reverse):>12s}"


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:.2f}"


def _place(place: Place | None) -> str:
    if place is None:
        return "(made by passes, or copies)"
    file, line, function = place
    return f"{os.path.basename(file)}:{line} {function}"


# --- graph times ----------------------------------------------------------------------------------
# The time of a graph by block and by the user's line, forward and reverse.

_VALUE, _GRADIENT = VALUE_COSTS[0], GRADIENT_COSTS[0]
#: Estimates of a plain operation and of a function, as of programs: forward, in reverse.
_PLAIN = np.array([_VALUE.numbers, _GRADIENT.numbers - _VALUE.numbers])
_FUNCTION = np.array(
    [_VALUE.number_functions, _GRADIENT.number_functions - _VALUE.number_functions]
)
_FORWARD_ALONE = np.array([1.0, 0.0])


def profile_graph(flow: Flow, name: str, values: Sequence, repeats: int) -> ProgramProfile:
    """Time calls, and divide the best by how often each block runs and what its steps cost.

    Raises ValueError where the call leaves the graph.
    """
    graph = flow.primal.program.graph
    counts = edge_counts(flow.primal.program, flow.inputs([*values]))
    tier = "native" if flow.primal.life.state is State.NATIVE else "interpreted"
    best = np.min([flow.timed([*values]) for _ in range(repeats)], axis=0)
    steps, costs = _steps(graph, _rounds(graph, counts), tier)
    total = np.sum(costs, axis=0)
    scale = np.divide(best, total, out=np.zeros(2), where=total > 0.0)
    for step, (forward, reverse) in zip(steps, scale * costs, strict=True):
        step.forward, step.reverse = float(forward), float(reverse)
    return ProgramProfile(name, tier == "native", steps)


def _rounds(graph: Graph, counts: np.ndarray) -> list[int]:
    """The number of runs of each block."""
    found = {id(block): 0 for block in graph.blocks} | {id(graph.entry): 1}
    edges = [edge for block in graph.blocks for edge in block.end.edges]
    for edge, count in zip(edges, counts.tolist(), strict=True):
        found[id(edge.target)] += count
    return list(found.values())


def _steps(graph: Graph, rounds: list[int], tier: str) -> tuple[list[StepTime], np.ndarray]:
    """The operations of blocks at each line, without times, and their estimated cost."""
    active, _ = varying(graph)
    steps, costs = [], []
    for block, count in zip(graph.blocks, rounds, strict=True):
        for number, (ops, cost) in _by_line(block, active).items() if count else ():
            line = graph.lines[number]
            what = f"{count} × ({counted_kinds(ops)})"
            operations = {line[:3] if line else None: float(count * len(ops))}
            steps.append(StepTime(block.number, what, tier, 0.0, 0.0, operations))
            costs.append(count * cost)
    return steps, np.reshape(costs, (-1, 2))


def _by_line(block: Block, active: set[Value]) -> dict[int, tuple[list[str], np.ndarray]]:
    """Operations of a block by line, jumps among them, and what they cost in a round."""
    found: dict[int, tuple[list[str], np.ndarray]] = {}
    line = 0
    for step in block.steps:
        if not kind_of(step.op).is_constant:
            line = step.line
            ops, cost = found.setdefault(line, ([], np.zeros(2)))
            ops.append(step.op)
            cost += _cost(step, active)
    if not isinstance(block.end, (Return, Leave)):
        line = block.end.line if isinstance(block.end, Branch) else line
        ops, cost = found.setdefault(line, ([], np.zeros(2)))
        ops.append(type(block.end).__name__.lower())
        cost += _PLAIN
    return found


def _cost(step: GraphStep, active: set[Value]) -> np.ndarray:
    kind = kind_of(step.op)
    cost = _FUNCTION if kind.declared and is_function(kind.code) else _PLAIN
    value = step.operands[1] if kind.is_store else step.result
    return cost if value in active else cost * _FORWARD_ALONE


# --- reported -------------------------------------------------------------------------------------
# Reports of a compiled function on its programs: text, a picture, times.


class Reported(Replayed):
    """A function with its programs, and reports on them."""

    def _compilation(self) -> Compilation:
        raise NotImplementedError

    def explain(self) -> str:
        """Describe what became of the function.

        Returns
        -------
        str
            Rows, passes, steps, guards, memory and times of each program, or the reason why the
            function runs eagerly.

        Examples
        --------
        >>> import tapegrad as tg
        >>> f = tg.compile(lambda x: x * x)
        >>> _ = f.grad(3.0)
        >>> text = f.explain()
        """
        return explain(self._compilation())

    def profile(self, *args, repeats=10) -> ProgramProfile:
        """Measure the time of the program for such arguments, by step and source line.

        Each step is timed, forward and reverse. The function is called once more to find the lines
        of its operations; the time of a step is divided evenly among its operations. Of a graph the
        whole call is timed, and divided by how often each block runs and what its operations are
        estimated to cost.

        Parameters
        ----------
        *args
            Arguments as for a call.
        repeats : int, optional
            Number of evaluations that are timed; the best time of each step counts.

        Returns
        -------
        ProgramProfile
            With `steps`, `lines`, `forward` and `reverse`; `print` shows tables.

        Raises
        ------
        ValueError
            If the function runs without a program, or `repeats` is less than 1.
        TypeError
            If an argument is a recorded tensor.
        """
        if repeats < 1:
            raise ValueError(f"tapegrad.compile: repeats is {repeats}; it must be positive")
        if records(*args):
            raise TypeError("tapegrad.compile: profile takes plain arguments, no recorded tensors")
        arguments = Arguments(args, {}, self._argnums)
        flow = self._flow_for(arguments)
        if flow is not None:
            with contextlib.suppress(ValueError):  # a call that leaves it has a program of its own
                return profile_graph(flow, self._name, arguments.values, repeats)
        return profile(self._program_for(arguments), self._name, self._f, arguments, repeats)

    def draw(self, path=None) -> str:
        """Draw the program that was used last.

        Parameters
        ----------
        path : str or path-like, optional
            A file to which the picture is written, too.

        Returns
        -------
        str
            The picture as SVG text: steps with what flows between them; fused groups and loops are
            marked. Loops and branches of a graph are boxes in one another, with your lines.

        Raises
        ------
        ValueError
            If there is no program yet.
        """
        if not self._flows.found:
            self._compilation()
        drawing = self._drawing()
        if drawing is None:
            raise ValueError(f"tapegrad.compile: {self._name} has no program yet; call it first")
        return saved(drawing, path)

    def _drawing(self) -> str | None:
        """The picture of the graph or program used last; None if there is none yet."""
        for flow in list(self._flows.found.values())[-1:]:
            graph = flow.primal
            return drawing_of_graph(graph.program.graph, graph.seen, self._name)
        found = [family.found[0] for family in list(self._families.found.values()) if family.found]
        return drawing_of_program(found[-1].program, self._name) if found else None

    def _repr_html_(self) -> str:
        """What notebooks show: the picture, below what it is."""
        drawing = self._drawing()
        text = f"<pre>{html.escape(repr(self))}</pre>"
        return text if drawing is None else f"{text}\n{scrolled(drawing)}"

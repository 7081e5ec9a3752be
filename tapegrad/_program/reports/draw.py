"""Pictures of programs: steps, what flows between them, fused groups and loops marked."""

from __future__ import annotations

import collections
import dataclasses
import html
import itertools
from collections.abc import Iterator

import numpy as np

from ..._core.tape.tape import BLUE, FONT, GREEN, INK, PALE, RED, Box, picture
from ..._flow.ir.flow_graph import Block, Graph, Leave, Return
from ..._flow.kinds.step_kinds import kind_of
from ..build.executable import Program
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Step, View
from ..ir.uses import marked
from ..native.loop_finding import find_loops
from .explain import Node, edges_text, nested, source_of

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
    drawing = _Drawing(graph, seen)
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


class _Drawing:
    def __init__(self, graph: Graph, seen: np.ndarray):
        self.graph, self.seen = graph, seen

    def input(self, k: int) -> Iterator[str]:
        one = self.graph.inputs[k]
        yield f"input {k}"
        yield "  number" if one.ndim is None else f"  array, ndim {one.ndim}"
        if one.differentiated:
            yield "  differentiated"

    def nodes(self, nodes: list[Node]) -> _Panel:
        panels = [panel for node in nodes if (panel := self.node(node)).height]
        shown = panels[:_BOXES]
        if len(panels) > len(shown):
            shown.append(_box_of_block([f"… and {len(panels) - len(shown)} more"], PALE))
        return _stacked(shown)

    def node(self, node: Node) -> _Panel:
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

    def arm(self, part: list[Node], edge: int) -> _Panel:
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

"""Pictures of what computes what, as SVG text: boxes in columns, lines from left to right.

A box stands in the column after the last of those that it reads. If there are too many boxes,
neighbours in the order of time become one.
"""

from __future__ import annotations

import collections
import dataclasses
import html
import itertools
from collections.abc import Iterable

#: Colours: text and lines, headings, inputs, what belongs together, what repeats.
INK, PALE, BLUE, GREEN, RED = "#222222", "#eeeeee", "#cfe2f3", "#d9ead3", "#f4cccc"
FONT = "DejaVu Sans"
#: More boxes than this cannot be read.
MOST = 300
#: Points: of text, of a line of it, of a letter (about), around boxes and between columns.
_TEXT, _LINE, _LETTER, _GAP, _BETWEEN, _HEAD = 10, 13, 6.3, 10, 46, 34
#: Points across; and lines into one box, of more the last are drawn.
_WIDTH = 2400
_LINES = 24


@dataclasses.dataclass
class Box:
    """Something computed: lines of text, the numbers of the boxes that it reads, a colour.

    `kind` determines which boxes are merged, `count` is the number of operations in it. A result
    has a thick edge.
    """

    lines: list[str]
    reads: list[int]
    kind: str
    colour: str = "white"
    is_result: bool = False
    count: int = 1

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _LETTER + 12

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 8


def saved(text: str, path) -> str:
    """Write a picture to a file, if there is a path; returns it."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def picture(title: str, boxes: list[Box]) -> str:
    """The SVG text; `boxes` are in the order of time."""
    shown = summarised(boxes)
    if len(shown) < len(boxes):
        title += f"; {len(boxes)} boxes shown as {len(shown)}"
    places = _placed(shown)
    width = max((x + box.width for (x, _), box in zip(places, shown, strict=True)), default=0)
    height = max((y + box.height for (_, y), box in zip(places, shown, strict=True)), default=0)
    width = max(width, len(title) * 7.5) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height + _GAP:.0f}" font-family="{FONT}" font-size="{_TEXT}" fill="{INK}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_GAP}" y="20" font-weight="bold">{html.escape(title)}</text>',
        f'<g fill="none" stroke="{INK}" stroke-opacity="0.45" stroke-width="0.8">',
        *_flows(shown, places),
        "</g>",
        *itertools.chain(*map(_box, shown, places)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- too many boxes -----------------------------------------------------------------------------


def summarised(boxes: list[Box], most: int = MOST) -> list[Box]:
    """The largest number of boxes: runs of one kind are one, then neighbours of any kind."""
    if len(boxes) <= most:
        return boxes
    runs = [list(run) for _, run in itertools.groupby(range(len(boxes)), lambda k: boxes[k].kind)]
    if len(runs) > most:
        size = -(-len(boxes) // most)
        runs = [list(range(k, min(k + size, len(boxes)))) for k in range(0, len(boxes), size)]
    return _joined(boxes, runs)


def _joined(boxes: list[Box], runs: list[list[int]]) -> list[Box]:
    home = {k: number for number, run in enumerate(runs) for k in run}
    made = []
    for number, run in enumerate(runs):
        if len(run) == 1:
            box = boxes[run[0]]
            lines = box.lines
        else:
            kinds = collections.Counter(boxes[k].kind for k in run)
            lines = [f"{run[0]} … {run[-1]}"]
            lines += [f"{count} × {kind}" for kind, count in kinds.most_common(4)]
            lines += ["…"] if len(kinds) > 4 else []
        colours = {boxes[k].colour for k in run}
        made.append(
            Box(
                lines,
                sorted({home[j] for k in run for j in boxes[k].reads} - {number}),
                boxes[run[0]].kind,
                colours.pop() if len(colours) == 1 else PALE,
                any(boxes[k].is_result for k in run),
                len(run),
            )
        )
    return made


# --- places -------------------------------------------------------------------------------------


def depths(boxes: list[Box]) -> list[int]:
    """The column of each box."""
    found: list[int] = []
    for box in boxes:
        found.append(1 + max((found[k] for k in box.reads), default=-1))
    return found


def _placed(boxes: list[Box]) -> list[tuple[float, float]]:
    """Left upper corners. Columns that find no room go on below, from the left again.

    In a column boxes are in the order of what they read, from the top down.
    """
    columns: dict[int, list[int]] = {}
    for k, depth in enumerate(depths(boxes)):
        columns.setdefault(depth, []).append(k)
    places: dict[int, tuple[float, float]] = {}
    x, top, bottom = float(_GAP), float(_HEAD), float(_HEAD)
    for depth in sorted(columns):
        column = columns[depth]
        width = max(boxes[k].width for k in column)
        if x + width > _WIDTH and x > _GAP:
            x, top = float(_GAP), bottom + _BETWEEN / 2
        wishes = {k: _wish(boxes[k], boxes, places, top) for k in column}
        y = top
        for k in sorted(column, key=lambda k: (wishes[k], k)):
            y = max(y, wishes[k] - boxes[k].height / 2)
            places[k] = x, y
            y += boxes[k].height + _GAP
        bottom = max(bottom, y)
        x += width + _BETWEEN
    return [places[k] for k in range(len(boxes))]


def _wish(box: Box, boxes: list[Box], places: dict, top: float) -> float:
    """The preferred position of the middle of a box: the mean of the boxes that it reads."""
    middles = [places[k][1] + boxes[k].height / 2 for k in box.reads if places[k][1] >= top]
    return sum(middles) / len(middles) if middles else 0.0


# --- text ---------------------------------------------------------------------------------------


def _flows(boxes: list[Box], places: list[tuple[float, float]]) -> Iterable[str]:
    for k, box in enumerate(boxes):
        x, y = places[k][0], places[k][1] + box.height / 2
        for j in box.reads[-_LINES:]:
            start = places[j][0] + boxes[j].width
            level, bend = places[j][1] + boxes[j].height / 2, min(60.0, abs(x - start) / 2)
            yield (
                f'<path d="M{start:.1f} {level:.1f}C{start + bend:.1f} {level:.1f} '
                f'{x - bend:.1f} {y:.1f} {x:.1f} {y:.1f}"/>'
            )


def _box(box: Box, place: tuple[float, float]) -> Iterable[str]:
    x, y = place
    edge = 2.4 if box.is_result else 0.8
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="2" '
        f'fill="{box.colour}" stroke="{INK}" stroke-width="{edge}"/>'
    )
    for k, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if k == 0 else ""
        middle = x + box.width / 2
        yield (
            f'<text x="{middle:.1f}" y="{y + 14 + k * _LINE:.1f}" text-anchor="middle"{weight}>'
            f"{html.escape(line)}</text>"
        )

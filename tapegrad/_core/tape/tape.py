"""The tape as people and other code read it: rows, their operands, and a picture."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import functools
import html
import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.table import BY_CODE, Pointwise, find
from . import store

# --- row reader -----------------------------------------------------------------------------------
# Rows of the store as they are: their operations, operands, arrays, and the writes of buffers.

ROW = np.dtype([("op", "i4"), ("a", "i4"), ("b", "i4"), ("c", "i4"), ("value", "f8")])
REFERENCE = np.dtype([("what", "i8"), ("id", "i4"), ("tag", "i4")])
USED_UP = (
    "tapegrad: a row that is needed was used up by a backward pass; call it with retain_graph=True"
)
CELLS = {layout.LOAD: "load", layout.STORE: "store"}
_OTHERS = {
    layout.LEAF: "input",
    layout.CONSTANT: "constant",
    layout.NUMBER: "constant",
    **CELLS,
}
_IN_CHUNK = layout.ROWS - 1  # the position of a time in its chunk


@functools.cache
def _writing_ops() -> np.ndarray:
    """Words of the operations that write in place."""
    codes = [code for code, op in list(BY_CODE.items()) if getattr(op, "writes", False)]
    return np.array([layout.STORE, *[layout.ARRAY + code for code in codes]])


def array_at(address: int) -> np.ndarray:
    return object_at(address)


def object_at(address: int) -> Any:
    if not address:
        raise RuntimeError(USED_UP)
    return ctypes.py_object.from_buffer(ctypes.c_int64(address)).value


class Reader:
    """Rows of the store, by id."""

    def __init__(self):
        with store.lock:
            store.seal()
            self._sequence = store.input_slots + store.order
            self._inputs = len(store.input_slots)
        self.place = {slot: k for k, slot in enumerate(self._sequence)}
        self._writes: dict[int, list[int]] = {}
        self._looked = len(self._sequence) << layout.ROWS_BITS  # from this time on they are known
        self._rows: dict[int, np.ndarray] = {}
        self._references: dict[int, np.ndarray] = {}

    def time(self, number: int) -> int:
        """Position in time."""
        slot = number >> layout.ROWS_BITS
        return (self.place[slot] << layout.ROWS_BITS) + (number & (layout.ROWS - 1))

    def _read(self, slot: int) -> None:
        if slot not in self._rows:
            memory = store.chunks[slot]
            rows = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES
            self._rows[slot] = memory[layout.HEADER_BYTES : rows].view(ROW)
            self._references[slot] = memory[rows:].view(REFERENCE)

    def chunk(self, slot: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a chunk and all references, used or not."""
        self._read(slot)
        return self._rows[slot], self._references[slot]

    def filled(self, slot: int) -> np.ndarray:
        """The rows of a chunk."""
        self._read(slot)
        return self._rows[slot][: store.word(slot, layout.USED_ROWS)]

    def row(self, number: int):
        slot = number >> layout.ROWS_BITS
        self._read(slot)
        return self._rows[slot][number & (layout.ROWS - 1)]

    def references(self, number: int):
        row = self.row(number)
        first, count = int(row["a"]), int(row["b"])
        return self._references[number >> layout.ROWS_BITS][first : first + count]

    def operands(self, number: int) -> list[int]:
        """Ids of the rows that row `number` reads."""
        row = self.row(number)
        op = int(row["op"])
        if op > layout.ARRAY:
            found = [int(i) for i in self.references(number)["id"]]
            return [i for i in found if i >= 0 and i != number]
        if op == layout.LOAD:
            return [int(row["a"])]
        if op == layout.STORE:
            return [i for i in (int(row["a"]), int(row["c"])) if i >= 0]  # below: used up
        if op >= 4 * layout.FIRST_CODE:
            both = op & 3 == layout.ROW_ROW and row["b"] >= 0
            return [int(row["a"])] + ([int(row["b"])] if both else [])
        return []

    def buffer_written(self, number: int) -> int:
        """The buffer that the row writes in place, −1 if none."""
        row = self.row(number)
        op = int(row["op"])
        if op > layout.ARRAY:
            declared = BY_CODE[op - layout.ARRAY]
            if not isinstance(declared, Pointwise) and declared.writes:
                return int(self.references(number)["id"][0])
        return int(row["a"]) if op == layout.STORE else -1

    def writes(self, buffer: int) -> list[int]:
        """The rows that write a buffer in place, oldest first. All are newer than its own."""
        if self.place[buffer >> layout.ROWS_BITS] < self._inputs:
            return []  # an input that is written has another row from then on
        self._look_back(self.time(buffer))
        return self._writes.get(buffer, [])

    def written_since(self, time: int) -> dict[int, int]:
        """The buffers that rows from a time on write in place, and the first of these rows."""
        self._look_back(time)
        found = {}
        for buffer, rows in self._writes.items():
            newer = [row for row in rows if self.time(row) >= time]
            found.update({buffer: newer[0]} if newer else {})
        return found

    def last_reads(self, rows: set[int]) -> dict[int, int]:
        """The time at which each of some rows is read last, of those that are read."""
        found, first = {}, min(rows, key=self.time)
        start = (first & (layout.ROWS - 1)) + 1
        for slot in self._sequence[self.place[first >> layout.ROWS_BITS] :]:
            for place in range(start, len(self.filled(slot))):
                number = (slot << layout.ROWS_BITS) + place
                found.update(dict.fromkeys(rows.intersection(self.operands(number)), number))
            start = 0
        return {row: self.time(number) for row, number in found.items()}

    def base(self, number: int) -> np.ndarray | None:
        """The array of a row, None where its value is a scalar, such as that of a sum.

        A row that is used up has it as long as another pass may read it, and None afterwards.
        """
        op = abs(int(self.row(number)["op"]))
        if op <= layout.ARRAY and op not in (layout.LEAF, layout.CONSTANT):
            return None
        references = self.references(number)
        if not len(references) or int(references[-1]["tag"]) != layout.TAG_ARRAY:
            return None
        return self.held(number, len(references) - 1)

    def held(self, number: int, k: int) -> Any:
        """The object of the k-th reference of a row, None if it is gone.

        It is looked up in one step, since another thread's pass may let it go meanwhile.
        """
        slot, first = number >> layout.ROWS_BITS, int(self.row(number)["a"])
        start = int(store.table[slot]) + layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES
        try:
            return ctypes.py_object.from_address(start + (first + k) * REFERENCE.itemsize).value
        except ValueError:
            return None

    def function(self, number: int) -> Any:
        """The call of a `Function` that a row represents."""
        found = self.held(number, 0)
        if found is None:
            raise RuntimeError(USED_UP)
        return found

    def _look_back(self, time: int) -> None:
        """Find the writes among the rows from a time on."""
        while self._looked > time:
            place = (self._looked - 1) >> layout.ROWS_BITS
            first, stop = max(time - (place << layout.ROWS_BITS), 0), self._looked & _IN_CHUNK
            self._look(self._sequence[place], first, stop or layout.ROWS)
            self._looked = (place << layout.ROWS_BITS) + first

    def _look(self, slot: int, first: int, stop: int) -> None:
        """Find the writes among some rows of a chunk, which are older than those known."""
        if store.word(slot, layout.WRITES):
            base, rows = (slot << layout.ROWS_BITS) + first, self.filled(slot)[first:stop]
            places = np.isin(rows["op"], _writing_ops()).nonzero()[0]
            buffers, ops = rows["a"][places].copy(), rows["op"][places]
            arrays = ops > layout.ARRAY  # there `a` is the number of the first reference
            buffers[arrays] = self._references[slot]["id"][buffers[arrays]]
            found: dict[int, list[int]] = {}
            for buffer, place in zip(buffers.tolist(), places.tolist(), strict=True):
                found.setdefault(buffer, []).append(base + place)
            for buffer, older in found.items():
                self._writes[buffer] = older + self._writes.get(buffer, [])


def constant_of(row) -> float:
    return float(np.array([row["b"], row["c"]], np.int32).view(np.float64)[0])


def operation_of(op: int) -> Any:
    """The declared operation of a row, from its word; None for inputs and cells."""
    op = abs(op)
    code = op - layout.ARRAY if op > layout.ARRAY else op // 4 - 1
    return BY_CODE[code] if op >= 4 * layout.FIRST_CODE else None


def name_of_op(op: int) -> str:
    """Name of the operation of a row, from its word; also if the row is used up."""
    declared = operation_of(op)
    return _OTHERS.get(abs(op), "") if declared is None else declared.name


def name_of_row(reader: Reader, number: int) -> str:
    """Name of a row's operation."""
    op = int(reader.row(number)["op"])
    name = name_of_op(op) if op > 0 else ""
    if not name:
        raise RuntimeError(USED_UP)
    return name


def needed(reader: Reader, outputs: list[int], stops=()) -> list[int]:
    """Ids of all rows that the outputs need, in order of time; writes of their buffers included.

    Rows that only the rows in `stops` need are left out, but not writes of their buffers.
    """
    found, waiting = set(), list(outputs)
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        waiting.extend(reader.writes(number))
        if number not in stops:
            waiting.extend(reader.operands(number))
    return sorted(found, key=reader.time)


# --- svg ------------------------------------------------------------------------------------------
# Pictures of what computes what, as SVG text: boxes in columns, lines from left to right.
#
# A box stands in the column after the last of those that it reads. If there are too many boxes,
# neighbours in the order of time become one.

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


def scrolled(drawing: str) -> str:
    """A picture as notebooks show it: as large as it is, in a window if that is too large."""
    return f'<div style="overflow: auto; max-height: 40em">\n{drawing}</div>'


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


# --- tape -----------------------------------------------------------------------------------------
# A recording that can be inspected: the rows that an output needs, renumbered from 0.
#
# `extract` copies them out of the store, oldest first, so that the store may go on. A tape prints
# itself one row a line, reports its size, and checks that it is legal.


@dataclasses.dataclass
class Row:
    """One row: the operation, its operands, and its value.

    An operand is (row number, view or None), a constant number, or a constant array; `view` is the
    part of that row's array which the operation reads.
    """

    op: str
    operands: list[Any]
    value: np.ndarray | float | None

    @property
    def inputs(self) -> list[int]:
        """Numbers of the rows that this one reads."""
        return [operand[0] for operand in self.operands if isinstance(operand, tuple)]


def _shown(what) -> np.ndarray:
    """An array of the store for a tape: what is done to it leaves the row as it is."""
    view = array_at(what).view()
    view.flags.writeable = False
    return view


def _scalar_row(reader, number, row, numbers) -> Row:
    op = int(row["op"])
    first = (numbers[int(row["a"])], None)
    kind = op & 3
    operands: list = [first]
    if kind == layout.ROW_CONSTANT:
        operands.append(constant_of(row))
    elif kind == layout.CONSTANT_ROW:
        operands.insert(0, constant_of(row))
    elif row["b"] >= 0:
        operands.append((numbers[int(row["b"])], None))
    return Row(BY_CODE[op // 4 - 1].name, operands, float(row["value"]))


def _array_row(reader, number, row, numbers) -> Row:
    operands: list = []
    value: np.ndarray | float | None = None
    for what, source, tag in reader.references(number):
        source, tag = int(source), int(tag)
        if source == number:
            value = _shown(what) if tag == layout.TAG_ARRAY else float(row["value"])
        elif tag == layout.TAG_ARRAY:
            array = _shown(what)
            operands.append((numbers[source], array) if source >= 0 else array)
        elif tag == layout.TAG_SCALAR:
            operands.append((numbers[source], None))
        elif tag == layout.TAG_CONSTANT:
            operands.append(float(np.int64(what).view(np.float64)))
        else:
            operands.append(object_at(what) if tag == layout.TAG_OBJECT else int(what))
    return Row(BY_CODE[int(row["op"]) - layout.ARRAY].name, operands, value)


def _read(reader, number, numbers) -> Row:
    row = reader.row(number)
    op = int(row["op"])
    if op > layout.ARRAY:
        return _array_row(reader, number, row, numbers)
    if op >= 4 * layout.FIRST_CODE:
        return _scalar_row(reader, number, row, numbers)
    if op in CELLS:
        operands: list = [(numbers[source], None) for source in reader.operands(number)]
        operands.insert(1, int(row["b"]) * 4)
        return Row(CELLS[op], operands, float(row["value"]) if op == layout.LOAD else None)
    if op == layout.NUMBER:
        return Row("constant", [], float(row["value"]))
    if op in (layout.LEAF, layout.CONSTANT):
        name = "input" if op == layout.LEAF else "constant"
        references = reader.references(number)
        array = _shown(references["what"][0]) if len(references) else float(row["value"])
        return Row(name, [], array)
    raise AssertionError(name_of_row(reader, number))


class Tape:
    """The rows of a recorded computation, oldest first.

    `tg.record` makes tapes. A tape prints one row per line.

    Parameters
    ----------
    rows : list of Row
        The rows: `op` is the name of the operation, `operands` its operands, `value` its value.
    outputs : list of int
        The numbers of the rows of the results.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tape = tg.record(lambda x: x * x, 3.0)
    >>> len(tape), [row.op for row in tape.rows], tape.outputs
    (2, ['input', 'multiply'], [1])
    """

    def __init__(self, rows: list[Row], outputs: list[int]):
        self.rows = rows
        self.outputs = outputs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Size in bytes of the rows, their references and the arrays that they hold."""
        held = {id(r.value): r.value.nbytes for r in self.rows if isinstance(r.value, np.ndarray)}
        references = sum(len(row.operands) + 1 for row in self.rows)
        return (
            len(self.rows) * layout.ROW_BYTES
            + references * layout.REFERENCE_BYTES
            + sum(held.values())
        )

    def check(self) -> None:
        """Check that every row reads only earlier rows, through views that fit.

        Raises
        ------
        ValueError
            If the tape is not legal; the message names the row.
        """
        for number, row in enumerate(self.rows):
            if find(row.op) is None and row.op not in ("input", "constant", *CELLS.values()):
                raise ValueError(f"tapegrad.Tape: row {number} has an unknown operation {row.op}")
            for source in row.inputs:
                if not 0 <= source < number:
                    raise ValueError(
                        f"tapegrad.Tape: row {number} ({row.op}) reads row {source}, which is not "
                        "before it"
                    )
            for operand in row.operands:
                if isinstance(operand, tuple) and operand[1] is not None:
                    base = self.rows[operand[0]].value
                    if not isinstance(base, np.ndarray) or not _inside(operand[1], base):
                        raise ValueError(
                            f"tapegrad.Tape: row {number} ({row.op}) reads outside the buffer of "
                            f"row {operand[0]}"
                        )
        for output in self.outputs:
            if not 0 <= output < len(self.rows):
                raise ValueError(f"tapegrad.Tape: there is no row {output}, which is an output")

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the tape.

        Rows are boxes, and lines lead from each row to the rows that read it. In the picture of a
        long tape, each run of equal operations is one box.

        Parameters
        ----------
        path : str or path-like, optional
            A file to which the picture is written, too.

        Returns
        -------
        str
            The picture as SVG text.
        """
        written: dict[int, int] = {}  # the row that wrote a buffer last
        boxes = []
        for number, row in enumerate(self.rows):
            reads = sorted({written.get(source, source) for source in row.inputs})
            boxes.append(_drawn(number, row, reads, number in self.outputs))
            if row.op == CELLS[layout.STORE] or getattr(find(row.op), "writes", False):
                written[row.inputs[0]] = number
        return saved(picture(f"tape of {len(self)} rows", boxes), path)

    def __str__(self) -> str:
        lines = [f"tape of {len(self)} rows, {self.nbytes} bytes"]
        lines += [f"{k:5d}  {_line(row, k in self.outputs)}" for k, row in enumerate(self.rows)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show: the picture."""
        return scrolled(self.draw())


def _inside(view: np.ndarray, base: np.ndarray) -> bool:
    low, high = bounds(view)
    base_low, base_high = bounds(base)
    return view.size == 0 or (base_low <= low and high <= base_high)


def bounds(array: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte of an array and of the byte after its last."""
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0]
    low = start + sum(step for step in steps if step < 0)
    return low, start + sum(step for step in steps if step > 0) + array.itemsize


def cell_of(base: np.ndarray, place: int) -> np.ndarray:
    """The element of an array at a place as LOAD and STORE name it, without axes."""
    if base.flags.c_contiguous:
        return np.ndarray((), base.dtype, base, place * 4)
    places = np.zeros(1, np.int64)
    for n, stride in zip(base.shape, base.strides, strict=True):
        places = np.add.outer(places, np.arange(n) * stride).ravel()
    index: tuple = np.unravel_index(int(np.flatnonzero(places == place * 4)[0]), base.shape)
    return base[(*index, ...)]


def _drawn(number: int, row: Row, reads: list[int], is_output: bool) -> Box:
    """The box of a row: its number, operation and value; operands that are constants."""
    others = [_operand_text(x) for x in row.operands if not isinstance(x, tuple)]
    lines = [f"{number} {row.op}", *[", ".join(others)[:40]][: len(others)]]
    if row.value is not None:
        lines.append(_value_text(row.value))
    colour = {"input": BLUE, "constant": PALE}.get(row.op, "white")
    return Box(lines, reads, row.op, colour, is_output)


def _value_text(value) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{value:.6g}"


def _operand_text(operand) -> str:
    if isinstance(operand, tuple):
        number, view = operand
        return f"%{number}" if view is None else f"%{number}{list(view.shape)}"
    if isinstance(operand, np.ndarray):
        return f"array{list(operand.shape)}"
    return f"{operand:.6g}" if isinstance(operand, float) else str(operand)


def _line(row: Row, is_output: bool) -> str:
    value = "" if row.value is None else _value_text(row.value)
    operands = " ".join(_operand_text(operand) for operand in row.operands)
    end = "  output" if is_output else ""
    return f"{row.op:12s} {operands:32s} {value}{end}".rstrip()


def extract(outputs: list[int]) -> Tape:
    """The tape of the rows that the rows `outputs` need."""
    reader = Reader()
    found = needed(reader, outputs)
    numbers = {number: k for k, number in enumerate(found)}
    rows = [_read(reader, number, numbers) for number in found]
    return Tape(rows, [numbers[number] for number in outputs])

"""A recording that can be inspected: the rows that an output needs, renumbered from 0.

`extract` copies them out of the store, oldest first, so that the store may go on. A tape prints
itself one row a line, reports its size, and checks that it is legal.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.table import BY_CODE, find
from .row_reader import CELLS, Reader, array_at, constant_of, name_of_row, needed, object_at
from .svg import BLUE, PALE, Box, picture, saved


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

"""Lines at which the tape grew without need. Each finder reads notes of rows, oldest first."""

from __future__ import annotations

import collections
import dataclasses

from ..._core.tensor.row_listeners import Place
from ._row_log import Note

#: Smaller costs are not reported; and fewer elements than these are no loop.
LEAST_BYTES, LEAST_ELEMENTS = 1024, 32


@dataclasses.dataclass
class Advice:
    """One line of the user's code at which the tape grew more than necessary.

    Attributes
    ----------
    kind : str
        What was found.
    place : tuple
        The file, line and function.
    rows, nbytes : int
        By how much the tape grew.
    text : str
        What to do.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.autograd.profiler.profile() as prof:
    ...     y = tg.tensor([1.0], requires_grad=True) * 2.0
    >>> prof.advice
    []
    """

    kind: str
    place: Place
    rows: int
    nbytes: int
    text: str

    def __str__(self) -> str:
        file, line, function = self.place
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{file}:{line} in {function}: {self.text} ({rows}, {self.nbytes} bytes)"


def copies(notes: list[Note]) -> list[Advice]:
    """`repeat`, `tile` and other copies that repeat elements, of which nothing is written later."""
    written = {(note.written, note.sweeps) for note in notes}
    groups: dict = collections.defaultdict(list)
    for note in notes:
        if note.copied and (note.number, note.sweeps) not in written:
            groups[note.place, note.function, note.copied].append(note)
    return [
        Advice(
            "copy",
            place,
            len(rows),
            sum(note.nbytes for note in rows),
            f"{function} copies shape {before} to {after}; a view serves: index with None, as in "
            "x[:, None], or tg.broadcast_to, and let the arithmetic broadcast",
        )
        for (place, function, (before, after)), rows in groups.items()
    ]


class _Loops:
    """Scalar rows by the line that recorded them and the array whose cells they read."""

    def __init__(self):
        self.cells: dict[int, tuple] = {}  # row that reads a cell → its array, address
        self.groups: dict = collections.defaultdict(list)
        self.member: dict = {}  # row → its group
        self.serial: set = set()  # groups in which a row needs the one before
        self.behind: dict = collections.defaultdict(frozenset)  # row → groups that it depends on

    def add(self, note: Note) -> None:
        reads, number = note.reads, note.number
        self.cells.pop(number, None)
        self.member.pop(number, None)
        before = frozenset().union(*[self.behind[k] for k in reads])
        if note.op == "load":
            self.cells[number] = (reads[0], *note.operands[0][3:4])
        found = [self.cells[k] for k in reads if k in self.cells] if note.scalar else []
        if found and note.op != "load":
            group = note.place, note.op, found[0][0], note.sweeps
            cells = {k: self.cells[k] for k in reads if k in self.cells}
            self.groups[group].append((note, cells))
            if any(group in self.behind[k] and self.member.get(k) != group for k in reads):
                self.serial.add(group)
            self.member[number] = group
            before |= {group}
        target = number if note.written < 0 else note.written
        self.behind[target] = before if note.written < 0 else self.behind[target] | before


def element_loops(notes: list[Note]) -> list[Advice]:
    """Loops over elements, unless each turn needs the result of the one before.

    A turn may add its element to the sum so far: that is one operation too.
    """
    loops = _Loops()
    for note in notes:
        loops.add(note)
    found = []
    for group, members in loops.groups.items():
        loads = {k: cell for _, cells in members for k, cell in cells.items()}
        elements = len(set(loads.values()))
        if elements >= LEAST_ELEMENTS and group not in loops.serial:
            rows = len(members) + len(loads)
            place, op, *_ = group
            text = (
                f"a loop of {op} over {elements} elements of one array; use one operation on the "
                "array, or on a slice of it"
            )
            nbytes = sum(note.nbytes for note, _ in members) * rows // len(members)
            found.append(Advice("loop", place, rows, nbytes, text))
    return found


def recorded_twice(notes: list[Note]) -> list[Advice]:
    """Equal operations on equal operands, between two reverse sweeps."""
    first: dict[tuple, Note] = {}
    same: dict[int, int] = {}  # row → the row that computes the same
    groups: dict = collections.defaultdict(list)
    for note in notes:
        same.pop(note.number, None)
        if note.written >= 0 or not note.operands:
            continue
        operands = tuple(_as_first(operand, same) for operand in note.operands)
        key = note.op, note.sweeps, operands
        if key in first:
            same[note.number] = first[key].number
            if note.op != "load":
                groups[note.place, first[key].place, note.function].append(note)
        else:
            first[key] = note
    return [
        Advice(
            "twice",
            place,
            len(rows),
            sum(note.nbytes for note in rows),
            f"{function} on operands on which {earlier[0]}:{earlier[1]} has called it; keep the "
            "first result",
        )
        for (place, earlier, function), rows in groups.items()
    ]


def _as_first(operand: tuple, same: dict[int, int]) -> tuple:
    """An operand as part of the row that computed its like first."""
    if operand[0] == "row" and operand[1] in same:
        return (operand[0], same[operand[1]], *operand[2:])
    return operand


def advice(notes: list[Note]) -> list[Advice]:
    """All that is worth a word, the most expensive first."""
    found = [one for finder in (copies, element_loops, recorded_twice) for one in finder(notes)]
    found = [one for one in found if one.nbytes >= LEAST_BYTES]
    return sorted(found, key=lambda one: -one.nbytes)

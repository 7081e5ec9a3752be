"""The results of a profile, under PyTorch's names, with advice by notes of rows."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.ops.table import find
from ..._core.tape.tape import name_of_op
from ..._core.tensor import runtime as rt
from ..._core.tensor.operators import Place

# --- row log --------------------------------------------------------------------------------------
# Notes of a row for advice: no array, only its line, its size, and its operands.

#: The value that leaves the other operand unchanged, by operation.
_NEUTRAL = {"multiply": 1.0, "divide": 1.0, "add": 0.0, "subtract": 0.0}


@dataclasses.dataclass
class Note:
    """One row that was recorded.

    `operands` are equal for two rows with the same computation; `function` is the function that the
    user called. `copied` holds two shapes if the row repeats elements that a view could repeat.
    """

    number: int
    op: str
    place: Place
    function: str
    nbytes: int
    scalar: bool
    operands: tuple
    written: int  # the row whose buffer this one writes, −1 if none
    copied: tuple | None
    sweeps: int  # the number of reverse sweeps before

    @property
    def reads(self) -> list[int]:
        """Numbers of the rows that this one reads."""
        return [operand[1] for operand in self.operands if operand[0] == "row"]


class Notes:
    """The rows of a profile, in the order in which they were recorded."""

    def __init__(self):
        self.rows: list[Note] = []
        self.sweeps = 0
        self._writes: dict[int, int] = {}  # row → writes to its buffer so far
        self._begin: dict[int, int] = {}  # row → address of its result

    def add(self, number: int, op: int, out, operands, place: Place, function: str) -> Note:
        name = name_of_op(op)
        written = operands[0]._id if out is None else -1
        note = Note(
            number,
            name,
            place,
            function,
            _bytes(op, out, operands),
            not isinstance(out, np.ndarray) and out is not None,
            tuple(self._operand(out, operand) for operand in operands),
            written,
            _copied(name, out, operands),
            self.sweeps,
        )
        self._writes[number] = 0
        self._begin[number] = _place(out)[0] if isinstance(out, np.ndarray) else 0
        if written >= 0:
            self._writes[written] = self._writes.get(written, 0) + 1
        self.rows.append(note)
        return note

    def _operand(self, out, operand) -> tuple:
        kind: Any = type(operand)
        if kind is rt.Scalar:
            return ("row", operand._id) if operand._id >= 0 else ("constant", operand._value)
        if kind is rt.Array and operand._id >= 0:
            number, (address, *rest) = operand._id, _place(operand._array)
            offset = address - self._begin.get(number, 0)
            return "row", number, self._writes.get(number, 0), offset, *rest
        array = operand._array if kind is rt.Array else operand
        if isinstance(array, np.ndarray):
            if isinstance(out, np.ndarray) and np.may_share_memory(array, out):
                address, *rest = _place(array)
                return "part", address - out.__array_interface__["data"][0], *rest
            return "array", array.shape, array.dtype, hash(array.tobytes())
        return "constant", operand


def _place(array: np.ndarray) -> tuple:
    return array.__array_interface__["data"][0], array.shape, array.strides


def _bytes(op: int, out, operands) -> int:
    """Memory of the row on the tape: itself, its references, its result or what it overwrites."""
    if op <= layout.ARRAY:
        return layout.ROW_BYTES
    own = out if out is not None else operands[1]
    size = own.nbytes if isinstance(own, np.ndarray) else 0
    return layout.ROW_BYTES + layout.REFERENCE_BYTES * (len(operands) + 1) + size


def _copied(name: str, out, operands) -> tuple | None:
    """Shapes before and after, if the row writes elements repeatedly."""
    if not isinstance(out, np.ndarray):
        return None
    tensors = [operand._array for operand in operands if type(operand) is rt.Array]
    if getattr(find(name), "layout", "") == "links":
        distinct = {_place(_unrepeated(array)): _unrepeated(array) for array in tensors}
        if sum(array.size for array in distinct.values()) < sum(a.size for a in tensors):
            first = next(iter(distinct.values()))
            return tuple(n for n, s in zip(first.shape, first.strides, strict=True) if s), out.shape
    if name in _NEUTRAL and len(tensors) == 1 and tensors[0].size < out.size:
        others = [operand for operand in operands if isinstance(operand, np.ndarray)]
        if others and np.all(others[0] == _NEUTRAL[name]):
            return tensors[0].shape, out.shape
    return None


def _unrepeated(array: np.ndarray) -> np.ndarray:
    """The distinct elements of a view."""
    return array[tuple(slice(None) if step else slice(0, 1) for step in array.strides)]


# --- advice ---------------------------------------------------------------------------------------
# Lines at which the tape grew without need. Each finder reads notes of rows, oldest first.

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


# --- events ---------------------------------------------------------------------------------------
# The results of a profile, under PyTorch's names: events, averages, the table, the trace.


@dataclasses.dataclass
class FunctionEvent:
    """One call of an operation, or one row of a reverse sweep.

    Attributes
    ----------
    name : str
        The operation.
    start : float
        When it started, in microseconds.
    cpu_time_total, self_cpu_time_total : float
        Its time in microseconds, with and without the operations inside it.
    cpu_memory_usage, self_cpu_memory_usage : int
        Its memory in bytes, with and without that of the operations inside it.
    place : tuple
        The file, line and function of the user's code.
    thread : int
        The thread.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.autograd.profiler.profile() as prof:
    ...     y = tg.tensor([1.0], requires_grad=True) * 2.0
    >>> prof.events()[-1].name
    'multiply'
    """

    name: str
    start: float
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    place: Place
    input_shapes: tuple[Any, ...]
    thread: int
    is_reverse: bool


@dataclasses.dataclass
class FunctionEventAvg:
    """The sums over events of one name; times are in microseconds.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.autograd.profiler.profile() as prof:
    ...     y = tg.tensor([1.0], requires_grad=True) * 2.0
    >>> prof.total_average().key
    'Total'
    """

    key: str
    input_shapes: tuple[Any, ...] = ()
    stack: tuple[Any, ...] = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    is_reverse: bool = False

    @property
    def cpu_time(self) -> float:
        """The average time of an event."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def self_cpu_time(self) -> float:
        """The average time of an event without the operations inside it."""
        return self.self_cpu_time_total / self.count if self.count else 0.0

    def add(self, event: FunctionEvent) -> None:
        """Add an event to the sums.

        Parameters
        ----------
        event : FunctionEvent
            The event.
        """
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.is_reverse = event.is_reverse


#: The columns by which a table can be sorted.
SORTS = (
    "cpu_time",
    "cpu_time_total",
    "self_cpu_time",
    "self_cpu_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "count",
)


class EventList(list[Any]):
    """A list of events, or of their averages, that prints as a table.

    Parameters
    ----------
    items : iterable of FunctionEvent or FunctionEventAvg, optional
        The items.
    advice : iterable of Advice, optional
        The advice that is printed below them.

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.autograd.profiler.profile() as prof:
    ...     y = tg.tensor([1.0], requires_grad=True) * 2.0
    >>> [row.key for row in prof.key_averages() if row.key == "multiply"]
    ['multiply']
    """

    def __init__(self, items: Iterable[Any] = (), advice: Iterable[Advice] = ()):
        super().__init__(items)
        self.advice: list[Advice] = list(advice)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events in microseconds."""
        return sum(item.self_cpu_time_total for item in self)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return the sums over events of the same name.

        Parameters
        ----------
        group_by_input_shape : bool, optional
            Whether calls with different shapes of operands are separate rows.
        group_by_stack_n : int, optional
            If positive, calls on different lines are separate rows.

        Returns
        -------
        EventList
        """
        found: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ()
            stack = (event.place,) if group_by_stack_n > 0 else ()
            key = event.name, shapes, stack
            if key not in found:
                found[key] = FunctionEventAvg(*key)
            found[key].add(event)
        return EventList(found.values(), self.advice)

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events, as one row.

        Returns
        -------
        FunctionEventAvg
        """
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += getattr(event, "count", 1)
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
        total.cpu_time_total = total.self_cpu_time_total
        total.cpu_memory_usage = total.self_cpu_memory_usage
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        header: str | None = None,
    ) -> str:
        """Return the averages as text, followed by the advice.

        Parameters
        ----------
        sort_by : str, optional
            The column by which rows are sorted, the largest first.
        row_limit : int, optional
            The largest number of rows and of pieces of advice, −1 for all.
        max_name_column_width : int, optional
            The largest width of names.
        header : str, optional
            A text above the table.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If the column is not known.
        """
        if sort_by is not None and sort_by not in SORTS:
            raise ValueError(
                f"tapegrad.profiler.table: sort_by is {sort_by!r}; it must be one of "
                f"{', '.join(SORTS)}"
            )
        rows = list(self if self and isinstance(self[0], FunctionEventAvg) else self.key_averages())
        if sort_by is not None:
            rows.sort(key=lambda row: -getattr(row, sort_by))
        limit = row_limit if row_limit >= 0 else None
        total = self.self_cpu_time_total
        text = _text(rows[:limit], total, max_name_column_width)
        end = f"Self CPU time total: {_time(total)}"
        advice = [f"  {one.kind:6s} {one}" for one in self.advice[:limit]]
        parts = [header] if header else []
        parts += [text, end, *(["", "Where the tape grew for nothing:", *advice] if advice else [])]
        return "\n".join(parts) + "\n"

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON that chrome://tracing and Perfetto read.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        entries = [_trace_entry(event, os.getpid()) for event in self]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": entries, "displayTimeUnit": "ms"}, file)


def _trace_entry(event: FunctionEvent, process: int) -> dict[str, Any]:
    file, line, function = event.place
    return {
        "name": event.name,
        "cat": "reverse" if event.is_reverse else "forward",
        "ph": "X",
        "ts": event.start,
        "dur": event.cpu_time_total,
        "pid": process,
        "tid": event.thread,
        "args": {"bytes": event.cpu_memory_usage, "line": f"{file}:{line} in {function}"},
    }


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _size(nbytes: float) -> str:
    for unit, size in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes:.0f} b"


def _stack_text(row: FunctionEventAvg) -> str:
    return " ".join(f"{os.path.basename(file)}:{line}" for file, line, _ in row.stack)


_COLUMNS: dict[str, Callable[[FunctionEventAvg, float], str]] = {
    "Self CPU %": lambda row, total: f"{100 * row.self_cpu_time_total / (total or 1):.2f}%",
    "Self CPU": lambda row, _: _time(row.self_cpu_time_total),
    "CPU total %": lambda row, total: f"{100 * row.cpu_time_total / (total or 1):.2f}%",
    "CPU total": lambda row, _: _time(row.cpu_time_total),
    "CPU time avg": lambda row, _: _time(row.cpu_time),
    "Bytes": lambda row, _: _size(row.cpu_memory_usage),
    "# of Calls": lambda row, _: str(row.count),
    "Input Shapes": lambda row, _: str(list(map(list, row.input_shapes))),
    "Source Location": lambda row, _: _stack_text(row),
}


def _text(rows: list[FunctionEventAvg], total: float, widest: int) -> str:
    columns = dict(_COLUMNS)
    if not any(row.input_shapes for row in rows):
        del columns["Input Shapes"]
    if not any(row.stack for row in rows):
        del columns["Source Location"]
    names = [row.key if len(row.key) <= widest else row.key[: widest - 3] + "..." for row in rows]
    cells = [["Name", *names]]
    cells += [[title, *[show(row, total) for row in rows]] for title, show in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*cells, strict=True)
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])

"""The results of a profile, under PyTorch's names: events, averages, the table, the trace."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from ..._core.tensor.row_listeners import Place
from ._advice import Advice


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

"""`profile`: a context that times operations and rows, and keeps notes of rows for advice."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any

from ..._core.codegen import process
from ..._core.tape.sweeps import Sweep
from ..._core.tape.tape import name_of_op
from ..._core.tape.workspace import compiled_timed
from ..._core.tensor import row_listeners
from ..._core.tensor import runtime as rt
from .._node_names import name_of_operation
from ._advice import Advice, advice
from ._events import EventList, FunctionEvent, FunctionEventAvg
from ._op_timer import NO_PLACE, Span, Timer, now, replaced
from ._row_log import Notes
from ._sweep_timer import Times, timed_run

_run = row_listeners.Wrapped(Sweep, "run")
_current: list[profile] = []
_lock = process.lock()


class _Reverse:
    """One reverse sweep: its span, its rows, and the lines that recorded them."""

    def __init__(self, span: Span, times: Times, places: list[row_listeners.Place]):
        self.span, self.times, self.places = span, times, places


class profile:
    """Profile operations and reverse sweeps: where time and memory go; a context.

    Parameters
    ----------
    enabled : bool, optional
        If false, the context does nothing.
    record_shapes : bool, optional
        Whether events have the shapes of their operands.

    Raises
    ------
    RuntimeError
        On entering, if another profile is active.

    Notes
    -----
    A profile includes all threads. While it is active, operators run in Python; docs/profiling.md
    describes what the figures mean. `key_averages()`, `table()`, `total_average()`, `events()`,
    `advice` and `export_chrome_trace(path)` show what was found.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.ones((100, 100), requires_grad=True)
    >>> with tg.autograd.profiler.profile() as prof:
    ...     (tg.sin(x) * 2.0).sum().backward()
    >>> sorted(row.key for row in prof.key_averages())
    ['MulBackward0', 'SinBackward0', 'SumBackward0', 'backward', 'multiply', 'reverse sweep',
     'sin', 'sum']
    """

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False):
        self.enabled: bool = enabled
        self.record_shapes: bool = record_shapes
        self._spans: list[Span] = []
        self._reverse: list[_Reverse] = []
        self._timer = Timer(self._spans, record_shapes)
        self._notes = Notes()
        self._places: dict[int, row_listeners.Place] = {}
        self._open = contextlib.ExitStack()

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if _current:
            raise RuntimeError(
                "tapegrad.profiler.profile: another profile is active; leave its block first"
            )
        rt.start()
        compiled_timed()
        _current.append(self)
        self._open.callback(_current.remove, self)
        row_listeners.listen(self._listen)
        self._open.callback(row_listeners.stop_listening, self._listen)
        wrapper = functools.partial(timed_run, timer=self._timer, finish=self._swept)
        _run.add(wrapper)
        self._open.callback(_run.remove, wrapper)
        self._open.enter_context(replaced(self._timer))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _listen(self, number, op, out, operands) -> None:
        began, spans = now(), self._timer.under_way
        calls = [span for span in spans if not span.label]
        place = calls[0].place if calls else next(iter(row_listeners.places(1)), NO_PLACE)
        with _lock:
            self._places[number] = place
            function = calls[0].name if calls else name_of_op(op)
            note = self._notes.add(number, op, out, operands, place, function)
        self._timer.record(note.nbytes, now() - began)

    def _swept(self, span: Span, times: Times) -> None:
        span.inner += int(times.spent.sum())
        with _lock:
            self._notes.sweeps += 1
            places = [self._places.get(k, NO_PLACE) for k in times.numbers.tolist()]
        self._reverse.append(_Reverse(span, times, places))

    def events(self) -> EventList:
        """Return every call and every row that was swept, in the order of their starts.

        Returns
        -------
        EventList
        """
        found = [_forward(span) for span in self._spans]
        found += [event for reverse in self._reverse for event in _rows(reverse)]
        return EventList(sorted(found, key=lambda event: event.start), self.advice)

    @property
    def function_events(self) -> EventList:
        """The same as `events()`."""
        return self.events()

    @property
    def advice(self) -> list[Advice]:
        """Lines where the tape grew without need, the most expensive first."""
        return advice(self._notes.rows)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return one row per operation; see `EventList.key_averages`.

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
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events.

        Returns
        -------
        FunctionEventAvg
        """
        return self.events().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return the averages and the advice as text; see `EventList.table`.

        Parameters
        ----------
        sort_by : str, optional
            The column by which rows are sorted, the largest first.
        row_limit : int, optional
            The largest number of rows, −1 for all.
        **options
            `max_name_column_width` and `header`.

        Returns
        -------
        str
        """
        return self.events().table(sort_by, row_limit, **options)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all operations in microseconds."""
        return self.events().self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON that chrome://tracing and Perfetto read.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        self.events().export_chrome_trace(path)

    def __str__(self) -> str:
        return self.table() if self._spans or self._reverse else "<nothing was profiled>"


class record_function(contextlib.ContextDecorator):
    """Name a block of code, or a function, in profiles.

    Parameters
    ----------
    name : str
        The name.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.ones(3, requires_grad=True)
    >>> with tg.autograd.profiler.profile() as prof, tg.autograd.profiler.record_function("mine"):
    ...     y = x * 2.0
    >>> [event.name for event in prof.events()]
    ['mine', 'multiply']
    """

    def __init__(self, name: str):
        self.name = name
        self._open: list = []

    def __enter__(self) -> None:
        timer = _current[0]._timer if _current else None
        span = timer.begin(self.name, label=True) if timer else None
        self._open.append((timer, span))

    def __exit__(self, *_: object) -> None:
        timer, span = self._open.pop()
        if timer:
            timer.end(span)


def _forward(span: Span) -> FunctionEvent:
    return FunctionEvent(
        span.name,
        span.start / 1000,
        span.spent / 1000,
        max(0, span.spent - span.inner) / 1000,
        span.nbytes,
        span.own,
        span.place,
        span.shapes,
        span.thread,
        False,
    )


def _rows(reverse: _Reverse):
    times = reverse.times
    for start, spent, op, nbytes, place in zip(
        times.starts.tolist(),
        times.spent.tolist(),
        times.ops.tolist(),
        times.nbytes.tolist(),
        reverse.places,
        strict=True,
    ):
        name, took = name_of_operation(op), spent / 1000
        thread = reverse.span.thread
        yield FunctionEvent(name, start / 1000, took, took, nbytes, nbytes, place, (), thread, True)

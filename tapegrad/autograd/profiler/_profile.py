"""`profile`: a context that times operations and rows, and keeps notes of rows for advice."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.codegen import layout, process
from ..._core.operations import PUBLIC
from ..._core.sweep.timed_reverse import HEAD, RECORD
from ..._core.tape import native_types
from ..._core.tape.sweeps import Sweep
from ..._core.tape.tape import name_of_op
from ..._core.tape.workspace import compiled_timed
from ..._core.tensor import apply as element_wise
from ..._core.tensor import indexing, operators
from ..._core.tensor import runtime as rt
from ..._core.tensor.operators import Place, places
from ..._core.tensor.registry import OF_NUMPY, SPACES
from .._node_names import name_of_operation
from ._events import Advice, EventList, FunctionEvent, FunctionEventAvg, Notes, advice

# --- op timer -------------------------------------------------------------------------------------
# Calls of tapegrad's functions, timed: each is replaced, wherever the package names it.

NO_PLACE: Place = ("", 0, "")


def now() -> int:
    """Nanoseconds, on the clock that compiled code reads."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclasses.dataclass(slots=True)
class Span:
    """One call: its start, its duration without the profiler's own work, and its rows."""

    name: str
    place: Place
    shapes: tuple
    thread: int
    label: bool  # whether it is the user's own, of `record_function`
    start: int = 0
    end: int = 0
    aside: int = 0  # the profiler's own time when it began
    spent: int = 0
    inner: int = 0  # nanoseconds in spans inside this one
    own: int = 0  # bytes that it recorded itself
    nbytes: int = 0  # and with those of the spans inside


class Timer(threading.local):
    """The active spans of each thread; those that have ended are moved to `finished`."""

    def __init__(self, finished: list[Span], with_shapes: bool):
        self.finished, self.with_shapes = finished, with_shapes
        self.under_way: list[Span] = []
        self.aside = 0  # nanoseconds that the profiler itself has taken

    def begin(self, name: str, args=(), label: bool = False) -> Span:
        """A span of this thread from now on, inside the active one."""
        began = now()
        if self.under_way and not self.under_way[-1].label:
            place = self.under_way[-1].place
        else:
            place = next(iter(places(1)), NO_PLACE)
        shapes = _shapes(args) if self.with_shapes else ()
        span = Span(name, place, shapes, threading.get_ident(), label)
        self.under_way.append(span)
        span.start = now()
        self.aside += span.start - began
        span.aside = self.aside
        return span

    def end(self, span: Span) -> None:
        """The span is over; spans inside it are."""
        span.end = now()
        span.spent = span.end - span.start - (self.aside - span.aside)
        self.under_way.pop()
        if self.under_way:
            self.under_way[-1].inner += span.spent
            self.under_way[-1].nbytes += span.nbytes
        self.finished.append(span)
        self.aside += now() - span.end

    def call(self, name: str, function: Callable, args, kwargs):
        """Call a function in a span, of its own unless the outer one has the same name."""
        if self.under_way and self.under_way[-1].name == name:
            return function(*args, **kwargs)
        span = self.begin(name, args)
        try:
            return function(*args, **kwargs)
        finally:
            self.end(span)

    def record(self, nbytes: int, took: int) -> None:
        """Note the bytes of a recorded row, and the nanoseconds that noting it took."""
        self.aside += took
        if self.under_way:
            self.under_way[-1].own += nbytes
            self.under_way[-1].nbytes += nbytes


def _shapes(args) -> tuple:
    return tuple(tuple(arg.shape) if hasattr(arg, "shape") else () for arg in args)


#: Operators that do not end in the element-wise `apply`.
_ITEMS = (layout.GET_ITEM, layout.SET_ITEM)
_OPERATORS = ("matmul", "rmatmul", "lt", "le", "gt", "ge", "eq", "ne")


def _operations() -> dict[Callable, str]:
    """The functions that a profile shows, with their names."""
    found: dict[Callable, str] = {}
    PUBLIC.values()  # what this imports replaces methods, and the last ones are looked for
    for space in (*SPACES[1:], vars(rt.Tensor), PUBLIC):
        for name, function in space.items():
            if isinstance(function, types.FunctionType) and not name.startswith("_"):
                own = function.__name__
                found[function] = own if own in space else name
    for name in _OPERATORS:
        found[vars(rt.Tensor)[f"__{name}__"]] = name.removeprefix("r")
    found[indexing.get_item], found[indexing.set_item] = "getitem", "setitem"
    return found


def _spaces() -> Iterator[tuple[object, dict]]:
    """Everything in the package that names functions, with its names."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __name__.partition(".")[0]:
            yield module, vars(module)
    yield from ((kind, dict(vars(kind))) for kind in (rt.Tensor, rt.Array))
    yield from ((space, space) for space in (PUBLIC, OF_NUMPY))


def _wrappers(timer: Timer) -> dict[Callable, Callable]:
    made: dict[Callable, Callable] = {}
    for function, name in _operations().items():
        made[function] = _wrapper(timer, function, name)

    @functools.wraps(element_wise.apply)
    def apply(name, *operands):
        return timer.call(name, plain, (name, *operands), {})

    plain = element_wise.apply
    made[plain] = apply
    return made


def _wrapper(timer: Timer, function: Callable, name: str) -> Callable:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return timer.call(name, function, args, kwargs)

    return wrapper


def _put(space, name, function) -> None:
    if isinstance(space, dict):
        space[name] = function
    else:
        setattr(space, name, function)


def _swap(stands: dict[Callable, Callable]) -> None:
    """Replace a function wherever the package names it, in modules imported since, too."""
    found = [
        (space, name, stands[function])
        for space, names in _spaces()
        for name, function in names.items()
        if isinstance(function, types.FunctionType) and function in stands
    ]
    for space, name, function in found:
        _put(space, name, function)


@contextlib.contextmanager
def replaced(timer: Timer):
    """Within, calls of tapegrad's functions are spans of `timer`."""
    wrappers = _wrappers(timer)
    slow: dict[int, Any] = {number: rt.slow[layout.OPERATORS[number]] for number in _ITEMS}
    _swap(wrappers)
    for number, plain in slow.items():
        native_types.set_operator(number, wrappers[plain])
    try:
        yield
    finally:
        for number, plain in slow.items():
            native_types.set_operator(number, plain)
        _swap({wrapper: function for function, wrapper in wrappers.items()})


# --- sweep timer ----------------------------------------------------------------------------------
# Reverse sweeps, timed row by row in compiled code.

SWEEP = "reverse sweep"


@dataclasses.dataclass
class Times:
    """Rows that a sweep has passed: number, start and duration in ns, op, bytes of the adjoint."""

    numbers: np.ndarray
    starts: np.ndarray
    spent: np.ndarray
    ops: np.ndarray
    nbytes: np.ndarray


def _read(table: np.ndarray, sequence: np.ndarray) -> Times:
    records = table[HEAD // 8 :].reshape(-1, layout.ROWS, RECORD // 8)
    slots, positions = np.nonzero(records[sequence, :, 0])
    slots = sequence[slots]
    starts, spent, ops, nbytes = records[slots, positions].T
    numbers = (slots << layout.ROWS_BITS) + positions
    return Times(numbers, starts, np.maximum(spent, 0), ops, nbytes)


def timed_run(run: Callable, timer: Timer, finish: Callable[[Span, Times], None]) -> Callable:
    """`Sweep.run` as a span of `timer`, with the compiled sweep that reads the clock.

    `finish(span, times)` receives the times of the rows.
    """

    @functools.wraps(run)
    def timed(sweep: Sweep, stops=None) -> None:
        began, aside = now(), timer.aside
        code, plain, work = sweep.code.timed(), sweep.code, sweep.work
        table = np.zeros(HEAD // 8 + len(work.adjoints) * layout.ROWS * RECORD // 8, np.int64)
        work.set(FRAME_TIMES=table.ctypes.data, FRAME_SCALARS=0, FRAME_POINTWISE=0)
        table[2] = code.idle(work.address)
        sweep.code = code
        span = timer.begin(SWEEP)
        try:
            run(sweep, stops)
        finally:
            timer.end(span)
            sweep.code = plain
            work.set(FRAME_TIMES=0, FRAME_SCALARS=0, FRAME_POINTWISE=0)
            finish(span, _read(table, work.sequence))
            timer.aside = aside + now() - began - span.spent

    return timed


# --- profile --------------------------------------------------------------------------------------
# `profile`: a context that times operations and rows, and keeps notes of rows for advice.

_run = operators.Wrapped(Sweep, "run")
_current: list[profile] = []
_lock = process.lock()


class _Reverse:
    """One reverse sweep: its span, its rows, and the lines that recorded them."""

    def __init__(self, span: Span, times: Times, places: list[operators.Place]):
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
        self._places: dict[int, operators.Place] = {}
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
        operators.listen(self._listen)
        self._open.callback(operators.stop_listening, self._listen)
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
        place = calls[0].place if calls else next(iter(operators.places(1)), NO_PLACE)
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

"""Calls of tapegrad's functions, timed: each is replaced, wherever the package names it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..._core.codegen import layout
from ..._core.operations import PUBLIC
from ..._core.tape import native_types
from ..._core.tensor import apply as element_wise
from ..._core.tensor import indexing
from ..._core.tensor import runtime as rt
from ..._core.tensor.registry import OF_NUMPY, SPACES
from ..._core.tensor.row_listeners import Place, places

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

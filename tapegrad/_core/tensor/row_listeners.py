"""Listeners to rows, with the user's lines that record them.

The recorder's fast paths test one word. While it is not zero every operator goes through Python,
which appends rows by `rt.row` and `rt.load` only; these two are replaced while there is a listener.
"""

from __future__ import annotations

import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from .. import PACKAGE
from ..codegen import forks, layout
from ..tape import native_types, store
from . import runtime as rt

_PACKAGE = str(PACKAGE) + os.sep
_lock = forks.lock()

#: A place in the user's code: file, line, function.
Place = tuple[str, int, str]


class Wrapped:
    """A function in its place, with others put around it and taken off in any order."""

    def __init__(self, owner: Any, name: str):
        self.owner, self.name = owner, name
        self.wrappers: list[Callable] = []
        self.original: Any = None

    def add(self, wrapper: Callable) -> None:
        """Call `wrapper(function)` instead of the function from now on."""
        if not self.wrappers:
            self.original = vars(self.owner)[self.name]
        self.wrappers.append(wrapper)
        self._place()

    def remove(self, wrapper: Callable) -> None:
        self.wrappers.remove(wrapper)
        self._place()

    def _place(self) -> None:
        function = self.original
        for wrapper in self.wrappers:
            function = wrapper(function)
        setattr(self.owner, self.name, function)


# --- listeners --------------------------------------------------------------------------------

#: Called with (row, op, output, operands) of every new row.
_listeners: list[Callable] = []


def _reporting(function, read):
    """`function`, which appends a row, telling the listeners; `read` finds its op and operands."""

    def reporting(*arguments):
        with _lock:  # with two threads each finds its own row
            before = native_types.get_word(layout.STATE_ID)
            made = function(*arguments)
            after = native_types.get_word(layout.STATE_ID)
        if after != before:
            for listener in _listeners:
                listener(after - 1, *read(arguments))
        return made

    return reporting


def _row(function):
    return _reporting(function, lambda given: (given[0], given[1], given[2:]))


def _load(function):
    return _reporting(function, lambda given: (layout.LOAD, 0.0, given))


_WRAPPED = {_row: Wrapped(rt, "row"), _load: Wrapped(rt, "load")}


def listen(listener: Callable) -> None:
    """Call `listener(row, op, output, operands)` for every row that any thread records."""
    rt.start()
    with _lock:
        if not _listeners:
            rt.add_special(1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.add(wrapper)
        _listeners.append(listener)


def stop_listening(listener: Callable) -> None:
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            rt.add_special(-1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.remove(wrapper)


# --- places -----------------------------------------------------------------------------------


def places(most: int | None = None) -> tuple[Place, ...]:
    """The user's frames around this call, innermost first, up to a number."""
    found: list[Place] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and len(found) != most:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def users_level() -> int:
    """The `stacklevel` with which a warning of the caller's names the user's line."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def shown(frames: tuple[Place, ...]) -> str:
    """Frames as Python prints a traceback, outermost first."""
    return "".join(
        traceback.format_list([traceback.FrameSummary(*place) for place in frames[::-1]])
    )


class Places:
    """The operations of rows and the frames that recorded them, for as long as the rows are there.

    Numbers of rows are used again; each chunk's places are kept with the time at which the store
    began the chunk.
    """

    def __init__(self):
        self._chunks: dict[int, tuple[int, dict]] = {}
        self._same: dict = {}  # equal frames are kept once

    def note(self, number: int, op: int, *_) -> None:
        """Remember op and place of row `number`, which is being recorded; a listener."""
        slot, frames = number >> layout.ROWS_BITS, places()
        begun, rows = self._chunks.get(slot, (-1, {}))
        if begun != store.begun[slot]:
            rows = {}
            self._chunks[slot] = store.begun[slot], rows
        rows[number] = op, self._same.setdefault(frames, frames)

    def find(self, number: int) -> tuple[int | None, tuple[Place, ...]]:
        """Op and frames of row `number`; None and no frames if there was no listener then."""
        slot = number >> layout.ROWS_BITS
        begun, rows = self._chunks.get(slot, (-1, {}))
        return rows.get(number, (None, ())) if begun == store.begun[slot] else (None, ())

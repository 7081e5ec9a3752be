"""The life of a compiled function: its states, the ways between them, and what has happened.

Three things have a state. The function: compiled, or eager for ever. The last recording of each
signature: what becomes of it. What evaluates a program or a graph: the interpreter, or native code.
`WAYS` has all ways between states. Each is gone by `Life.go` with a reason, which is noted in the
history of the function, that `explain` shows. A graph has no more states than that it is there, or
why it is not (see `flow_choice`): that is noted in the same history.
"""

from __future__ import annotations

import collections
import enum
import weakref
from collections.abc import Iterator
from typing import Any

from ..._core.codegen import process

#: The number of lines of a history that are kept, the last ones.
MOST = 64
_lock = process.lock()


class State(str, enum.Enum):
    """What becomes of calls of a function, of a recording, of a program or a graph."""

    # a function
    COMPILED = "compiled"
    EAGER = "runs eagerly from now on"  # held: the reason
    # the last recording of a signature
    NONE = "not recorded yet"
    CALLED = "called eagerly, since no path is known to come again"  # held: the arguments
    PENDING = "recorded: the next call makes its program"  # held: the recording
    BRANCHING = "recorded: the next call looks for a graph first"  # held: the recording
    SPARE = "recorded: a program is made if a call goes this way again"  # held: the recording
    CONVERTED = "its program is being made, or a graph looked for"
    PROGRAM = "a program"
    SERVED = "a graph serves its calls"
    # what evaluates a program or a graph
    INTERPRETED = "interpreted"
    CHECKED = "interpreted with checks"
    COMPILING = "being compiled"
    TRIED = "native code on trial"  # held: the trial
    NATIVE = "native"
    FAILED = "interpreted, without native code"  # held: the error


#: A function may be recorded by several threads at once: the last recording counts.
_RECORDED = {State.PENDING, State.BRANCHING, State.SPARE, State.PROGRAM}
WAYS: dict[State, set[State]] = {
    State.COMPILED: {State.COMPILED, State.EAGER},
    State.EAGER: {State.COMPILED},  # by clear()
    State.NONE: {State.CALLED, *_RECORDED},
    State.CALLED: _RECORDED,
    State.PENDING: {State.CONVERTED, *_RECORDED},
    State.BRANCHING: {State.CONVERTED, *_RECORDED},
    State.SPARE: {State.CONVERTED, State.SERVED, *_RECORDED},
    State.CONVERTED: _RECORDED,
    State.PROGRAM: _RECORDED,
    State.SERVED: _RECORDED,
    State.INTERPRETED: {State.COMPILING},
    State.CHECKED: set(),
    State.COMPILING: {State.TRIED, State.NATIVE, State.FAILED},
    State.TRIED: {State.NATIVE, State.FAILED},
    State.NATIVE: set(),
    State.FAILED: set(),
}


class History:
    """What has happened to a function, in order: texts, each with what it is about."""

    def __init__(self):
        self._lines: collections.deque[tuple[Any, str]] = collections.deque(maxlen=MOST)
        self.dropped = 0

    def note(self, text: str, about: Any = None) -> None:
        """Note that something has happened, to the function or a signature of it."""
        self.dropped += len(self._lines) == MOST
        self._lines.append((about and weakref.ref(about), text))

    @property
    def count(self) -> int:
        """How many things have happened."""
        return self.dropped + len(self._lines)

    def lines(self) -> Iterator[tuple[Any, str]]:
        """The texts with what they are about; None for the function, or what is forgotten."""
        for about, text in list(self._lines):
            yield about and about(), text


class Life:
    """The state of something, and what is `held` in it."""

    def __init__(self, state: State, history: History | None = None, about: Any = None):
        self.state = state
        self.held: Any = None
        self.history, self._about = history, about and weakref.ref(about)

    def join(self, other: Life) -> None:
        """Note what happens where another life does."""
        self.history, self._about = other.history, other._about

    def go(self, state: State, why: str = "", held: Any = None) -> bool:
        """Enter a state; whether there was a way: another thread may have been here first."""
        with _lock:
            if state not in WAYS[self.state]:
                return False
            left, self.state, self.held = self.held, state, held
        del left  # which may run code: not under the lock
        if why:
            self.note(why)
        return True

    def take(self, *states: State) -> Any:
        """The recording that is held in one of some states, to be used now; None in others."""
        with _lock:
            if self.state not in states:
                return None
            found, self.state, self.held = self.held, State.CONVERTED, None
        return found

    def note(self, text: str) -> None:
        """Note in the history what has happened."""
        if self.history is not None:
            self.history.note(text, self._about and self._about())

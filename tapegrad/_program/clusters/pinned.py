"""Evaluations whose bits do not depend on what was evaluated before, so that processes agree.

A compiled function may give a recorded value, that of a program, of a graph, or of native code.
They differ by rounding, and which it is depends on its history. Here one kind is chosen for all.
"""

from __future__ import annotations

import threading
from typing import Any

from ..dispatch.life import State
from ..dispatch.signature import Arguments

#: How calls with other branches are evaluated: by a program for each path, or by one graph.
PATHS, GRAPH = "paths", "graph"
#: Calls in a row of which each makes something new, after which it is given up.
_MOST = 16


class Pinned:
    """A compiled function, evaluated by programs or graphs of one kind; native code or none."""

    def __init__(self, compiled: Any, native: bool):
        self._compiled, self._native = compiled, native
        self._copies: dict[str, Any] = {}
        self._read: dict[tuple, str] = {}  # which copy evaluates such arguments
        self._lock = threading.RLock()

    def kind_for(self, args: tuple) -> str:
        """The kind for all partitions, chosen by calls with the arguments of one of them."""
        with self._lock:
            for _ in range(2):  # recorded; a program is made, or a graph found
                self._compiled(*args)
            return GRAPH if self._compiled._flows.found else PATHS

    def evaluate(self, kind: str, method: str, args: tuple):
        """The result of a method; the first call of a signature is made by one thread alone."""
        asked = args if method != "hvp" else (args[0], *args[2:])
        key = (kind, method, *Arguments(asked, {}, (0,)).key)
        if key in self._read:
            return self._settled(self._read[key], method, args)
        with self._lock:
            copy = self._copy(kind)
            if kind == GRAPH and copy._graph(asked) is None:
                self._copy(kind := PATHS)
            found = self._settled(kind, method, args)
            self._read[key] = kind
        return found

    def _copy(self, kind: str):
        if kind not in self._copies:
            self._copies[kind] = self._compiled._pinned(kind, self._native)
        return self._copies[kind]

    def _settled(self, kind: str, method: str, args: tuple):
        """The result of a call that made nothing new: no recording, program or graph."""
        compiled = self._copies[kind]
        for _ in range(_MOST):
            before = compiled._noted()
            found = getattr(compiled, method)(*args)
            if self._native:
                compiled.wait()
            if compiled._noted() == before:
                self._check(compiled)
                return found
        raise RuntimeError(
            f"tapegrad.compile: {compiled._name} has something new at each of {_MOST} equal calls, "
            "so that its bits would differ between processes; explain() shows what"
        )

    def _check(self, compiled) -> None:
        """Refuse an evaluation that is of another kind here than it is elsewhere."""
        if self._native and compiled._is_in(State.FAILED):
            raise RuntimeError(
                f"tapegrad.compile: {compiled._name} has no native code in this process, so that "
                "its bits would differ from those of others; distribute it with native=False"
            )

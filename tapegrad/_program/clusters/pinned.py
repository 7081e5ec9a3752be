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
        """The result of a method; calls that make something new are made by one thread alone."""
        if kind == GRAPH:
            kind = self._read_graph(method, args)
        copy = self._copies.get(kind)
        if copy is not None:
            found, is_settled = self._once(copy, method, args)
            if is_settled:
                return found
        with self._lock:
            copy = self._copy(kind)
            for _ in range(_MOST):
                found, is_settled = self._once(copy, method, args)
                if is_settled:
                    return found
        raise RuntimeError(
            f"tapegrad.compile: {copy._name} has something new at each of {_MOST} equal calls, "
            "so that its bits would differ between processes; explain() shows what"
        )

    def _read_graph(self, method: str, args: tuple) -> str:
        """The kind by which calls with such arguments are evaluated, where a graph is wanted."""
        asked = args if method != "hvp" else (args[0], *args[2:])
        key = Arguments(asked, {}, (0,)).key
        with self._lock:
            if key not in self._read:
                is_there = self._copy(GRAPH)._graph(asked) is not None
                self._read[key] = GRAPH if is_there else PATHS
        return self._read[key]

    def _copy(self, kind: str):
        if kind not in self._copies:
            self._copies[kind] = self._compiled._pinned(kind, self._native)
        return self._copies[kind]

    def _once(self, compiled, method: str, args: tuple) -> tuple[Any, bool]:
        """The result of a call, and whether it made nothing new: no recording, program or graph."""
        before = compiled._noted()
        found = getattr(compiled, method)(*args)
        if self._native:
            compiled.wait()
            self._check(compiled)
        return found, compiled._noted() == before

    def _check(self, compiled) -> None:
        """Refuse an evaluation that is of another kind here than it is elsewhere."""
        if self._native and compiled._is_in(State.FAILED):
            raise RuntimeError(
                f"tapegrad.compile: {compiled._name} has no native code in this process, so that "
                "its bits would differ from those of others; distribute it with native=False"
            )

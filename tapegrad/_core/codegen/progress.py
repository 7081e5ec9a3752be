"""Progress of what takes seconds: a bar by tqdm, or one line, where somebody looks at it."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import time
from typing import Any

from ..config import config
from . import process

#: Seconds before anything is shown, and between two looks at what is under way.
PATIENCE, _TICK = 2.0, 0.1
_lock = process.lock()
_under_way: list[Progress] = []
_watching: list[threading.Thread] = []
_wake = threading.Event()
_said: set[str] = set()


class Progress:
    """A context in which something is computed that may take long.

    `total` counts its parts, of which `advance` says how many are done; without it there is one
    line, once in a process. `spent` are seconds that have passed before. A thread shows what is
    under way, so it costs little where nothing is shown: nearly nothing if nobody looks.
    """

    __slots__ = "_bar", "_since", "done", "total", "what"

    def __init__(self, what: str, total: int | None = None, spent: float = 0.0):
        self.what, self.total, self.done = what, total, 0
        self._since, self._bar = time.monotonic() - spent, None

    def __enter__(self) -> Progress:
        if is_wanted():
            with _lock:
                _under_way.append(self)
                _watch()
        return self

    def __exit__(self, *_) -> None:
        if not _under_way:
            return
        with _lock:
            if self in _under_way:
                _under_way.remove(self)
            if self._bar is not None:
                self._moved()
                with contextlib.suppress(Exception):  # a terminal that is gone
                    self._bar.close()

    def advance(self, count: int = 1) -> None:
        """Count parts that are done."""
        self.done += count

    def is_due(self) -> bool:
        """Whether it has taken long."""
        return time.monotonic() - self._since > PATIENCE

    def show(self) -> None:
        """Show how far it is."""
        if self._bar is None and self.total is not None:
            self._bar = _new_bar(self.what, self.total, time.monotonic() - self._since)
        if self._bar is not None:
            self._moved()
        elif self.what not in _said:
            _said.add(self.what)
            print(f"tapegrad: {self.what}", file=sys.stderr, flush=True)

    def _moved(self) -> None:
        with contextlib.suppress(Exception):
            self._bar.update(min(self.done, self.total) - self._bar.n)  # type: ignore


def is_wanted() -> bool:
    """Whether progress is shown: by the setting, or else if stderr is a terminal."""
    if config.progress is not None:
        return config.progress
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False


def _new_bar(what: str, total: int, seconds: float) -> Any:
    """A bar of tqdm of what has begun some seconds ago; None where that is not installed."""
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None
    bar = tqdm(total=total, desc=what, file=sys.stderr, leave=False, smoothing=0.0)
    bar.start_t -= seconds
    return bar


def _watch() -> None:
    """Have a thread look at what is under way."""
    _wake.set()
    if not _watching:
        thread = threading.Thread(target=_look, name="tapegrad progress", daemon=True)
        with contextlib.suppress(RuntimeError):  # the process is ending, and begins no thread
            thread.start()
            _watching.append(thread)


def _look() -> None:
    while _wake.wait():
        with _lock:
            first = next((one for one in _under_way if one.is_due()), None)
            if first is not None:
                with contextlib.suppress(Exception):  # a terminal that is gone
                    first.show()
            if not _under_way:
                _wake.clear()
        time.sleep(_TICK)


@process.in_child
def _alone() -> None:
    """A child of this process has no such thread, and nothing of its parent's under way."""
    _watching.clear()
    _under_way.clear()
    _wake.clear()

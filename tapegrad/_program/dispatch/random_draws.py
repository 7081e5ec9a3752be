"""Whether a function draws random numbers: states of generators before and after a call.

A program would repeat the draws of its recording. The generators checked are the common ones of
Python and NumPy, and those that the function can reach: in its closure, its defaults, the globals
that it names, attributes of objects there, and functions that it names. A generator that it makes
itself with a seed draws the same at every call.

Other threads may draw from the same generators meanwhile. Then the function is recorded once more,
and what its own thread calls is watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..._core import PACKAGE
from ..._core.tensor.reachable import reachable

#: The generator behind the functions of `random`.
_OF_MODULE = random.random.__self__  # type: ignore[attr-defined]
_OF_NUMPY = np.random.mtrand._rand
_KINDS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


#: Names of methods of NumPy's generators, which are compiled: no profiler sees them called.
_METHODS = frozenset(
    name
    for kind in (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
    for name in dir(kind)
    if not name.startswith("_")
)
_PACKAGE = str(PACKAGE) + os.sep
_STAND_IN = str(PACKAGE / "numpy" / "random.py")
_NUMPY = str(Path(np.__file__).parent) + os.sep


class Draws:
    """The states of generators that a function can reach, when this is made.

    With `watched`, draws of other threads are told from its own.
    """

    def __init__(self, f: Callable, watched: bool):
        found: list[tuple[str, Any]] = [("random", _OF_MODULE), ("np.random", _OF_NUMPY)]
        found += [(f"a {type(one).__name__}", one) for one in reachable(f, _is_generator)]
        self._watch = _Watch() if watched else None
        self._is_alone = _is_alone()
        self._states = [(name, one, _state(one)) for name, one in found]
        #: Whether it is not known who has drawn: the function is to be watched.
        self.is_unsure = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Around the call of the function."""
        before = sys.getprofile()
        if self._watch is None or before is not None:  # which could not be set again
            self._watch = None
            yield
            return
        sys.setprofile(self._watch)
        try:
            yield
        finally:
            sys.setprofile(None)

    def reason(self) -> str | None:
        """Why there can be no program, None if the function has drawn nothing."""
        drawn = [(name, one) for name, one, before in self._states if _state(one) != before]
        if drawn and self._watch is None and not (self._is_alone and _is_alone()):
            self.is_unsure = True
        for name, one in drawn:
            if self._watch is None or self._watch.may_draw_from(one):
                return (
                    f"it draws random numbers from {name}, and a program would repeat those of its "
                    "recording; draw outside and pass them as arguments"
                )
        return None


class _Watch:
    """A profiler of one thread: what it calls from generators of Python, and the code it runs."""

    def __init__(self):
        self._callers: dict[int, Any] = {}
        self._methods: set[int] = set()  # of which generators it may call some by another name
        self._codes: set[types.CodeType] = set()

    def __call__(self, frame: types.FrameType, event: str, called) -> None:
        owner = None
        if event == "call":
            if frame.f_code not in self._codes:
                self._codes.add(frame.f_code)
                self._methods.update(map(id, _generators_of_methods(frame)))
            if frame.f_code.co_filename == random.__file__:  # gauss() may use up an earlier draw
                owner = frame.f_locals.get("self")
        elif event == "c_call":
            owner = getattr(called, "__self__", None)
        if isinstance(owner, random.Random):
            self._callers[id(owner)] = owner

    def may_draw_from(self, one) -> bool:
        """Whether the thread has drawn from a generator; of NumPy's, whether it named a draw."""
        if type(one) is random.Random:
            return id(one) in self._callers
        if one is not _OF_NUMPY or id(one) in self._methods:
            return True
        return any(not _METHODS.isdisjoint(code.co_names) for code in self._codes if _draws(code))


def _draws(code: types.CodeType) -> bool:
    """Whether code may be such that draws: NumPy's and most of ours only have such names."""
    file = code.co_filename
    return file == _STAND_IN or not file.startswith((_PACKAGE, _NUMPY))


def _generators_of_methods(frame: types.FrameType) -> Iterator[Any]:
    """The generators of methods in variables that the code of a frame reads, such as `draw`."""
    code = frame.f_code
    if _draws(code):
        named = [frame.f_globals.get(name) for name in code.co_names]
        for one in (*frame.f_locals.values(), *named):
            with contextlib.suppress(AttributeError):
                yield object.__getattribute__(one, "__self__")


def _is_alone() -> bool:
    """Whether this is the only thread that runs Python code."""
    return len(sys._current_frames()) == 1


def _is_generator(one) -> bool:
    return isinstance(one, _KINDS)


def _state(one):
    """The state of a generator, to be compared."""
    if isinstance(one, random.SystemRandom):
        return object()  # it has none: it may have drawn
    if isinstance(one, random.Random):
        return one.getstate()
    if isinstance(one, np.random.RandomState):  # with the normal number that it may have kept
        return _comparable(one.get_state(legacy=False))
    one = getattr(one, "bit_generator", one)
    if type(one) is np.random.MT19937:  # whose `state` takes long: 624 words and a position
        return ctypes.string_at(one.ctypes.state_address, 625 * 4)
    return _comparable(one.state)


def _comparable(state):
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state

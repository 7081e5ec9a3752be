"""Whether a function draws random numbers: states of generators before and after a call.

A program would repeat the draws of its recording. The generators checked are the common ones of
Python and NumPy, and those that the function can reach: in its closure, its defaults, the globals
that it names, attributes of objects there, and functions that it names. A generator that it makes
itself with a seed draws the same at every call.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.tensor.reachable import reachable

_KINDS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


class Draws:
    """The states of generators that a function can reach, when this is made."""

    def __init__(self, f: Callable):
        found: list[tuple[str, Any]] = [("np.random", np.random.mtrand._rand), ("random", random)]
        found += [(f"a {type(one).__name__}", one) for one in reachable(f, _is_generator)]
        self._states = [(name, one, _state(one)) for name, one in found]

    def drawn(self) -> str | None:
        """The name of a generator that has been drawn from since."""
        for name, one, before in self._states:
            if _state(one) != before:
                return name
        return None

    def reason(self) -> str | None:
        """Why there can be no program, None if nothing was drawn."""
        name = self.drawn()
        return name and (
            f"it draws random numbers from {name}, and a program would repeat those of its "
            "recording; draw outside and pass them as arguments"
        )


def _is_generator(one) -> bool:
    return isinstance(one, _KINDS)


def _state(one):
    """The state of a generator, to be compared."""
    if one is random or isinstance(one, random.Random):
        return one.getstate()
    if isinstance(one, np.random.RandomState):
        one = one._bit_generator
    one = getattr(one, "bit_generator", one)
    if type(one) is np.random.MT19937:  # whose `state` takes long: 624 words and a position
        return ctypes.string_at(one.ctypes.state_address, 625 * 4)
    return _comparable(one.state)


def _comparable(state):
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state

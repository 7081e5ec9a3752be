"""Functions that ask for types and attributes of their arguments, which a trace cannot answer.

`type(d) is float` says no while `d` is a tensor. The program of such a function is compared with
the function before it is used, at the arguments of the call and at others nearby: two ways through
a function seldom agree at both.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable

import numpy as np

from ..._core.tensor.reachable import Reach
from ..replay.run_layout import FINISHED
from .signature import Arguments

#: Built-in names that such code reads.
_ASKING = frozenset(("type", "hasattr", "getattr", "vars", "dir", "id", "AttributeError"))
_ATTRIBUTES = frozenset(("getsizeof",))
#: Relative distances of places nearby.
_STEPS = (1e-4, -1e-4, 1e-7, -1e-7)


def asks_for_types(f: Callable) -> str | None:
    """Where a function, or one that it calls, asks objects for types or attributes."""
    return next(filter(None, [_asks(one.__code__) for one in Reach(f).functions()]), None)


@functools.lru_cache(maxsize=4096)
def _asks(code: types.CodeType) -> str | None:
    for one in dis.get_instructions(code):
        is_builtin = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _ASKING
        if is_builtin or (one.opcode in dis.hasname and one.argval in _ATTRIBUTES):
            lines = [line for start, end, line in code.co_lines() if start <= one.offset < end]
            return f"{one.argval} at {code.co_filename}:{lines[0]}"
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return next(filter(None, map(_asks, inner)), None)


def agrees(variant, f: Callable, arguments: Arguments) -> bool:
    """Whether a program gives what the function gives, at the arguments and nearby.

    Nearby it is compared where it takes the same branches; if there is no such place, this counts
    as no.
    """

    def again(values):
        return arguments.call(f, values)

    pairs = [*zip(arguments.values, arguments.kinds, strict=True)]
    nearby = ([_nearby(*pair, step) for pair in pairs] for step in _STEPS)
    try:
        with np.errstate(all="ignore"):
            places = [arguments.values, next(one for one in nearby if _is_taken(variant, one))]
            return all(variant.differs(one, again(one), again) is None for one in places)
    except Exception:
        return False


def _is_taken(variant, values: list) -> bool:
    """Whether a program gives a result for these values."""
    memory = variant.program.begin()
    try:
        return variant.program.forward(memory, values) == FINISHED
    finally:
        variant.program.end(memory)


def _nearby(value, kind: tuple, step: float):
    """A value of an input to be differentiated with other digits; data are as they are."""
    dtype, shape, differentiated = kind
    if not differentiated:
        return value
    steps = step * np.cos(np.arange(np.size(value))).reshape(shape)
    found = np.asarray(value * (1.0 + steps) + 0.01 * steps, dtype)
    return found if shape else float(found)

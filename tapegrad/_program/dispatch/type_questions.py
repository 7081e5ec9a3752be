"""Functions that ask for types and attributes of their arguments, which a trace cannot answer.

`type(d) is float` says no while `d` is a tensor; a function that catches errors may catch that of C
code which takes numbers alone, such as `json.dumps(d)`. The program of such a function is compared
with the function before it is used, at the arguments of the call and at others nearby: two ways
through a function seldom agree at both.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable

import numpy as np

from ..._core.tensor.own_code import own_code
from ..._core.tensor.reachable import Reach
from ..replay.run_layout import FINISHED
from .signature import Arguments

#: Built-in names that such code reads.
_ASKING = frozenset(("type", "hasattr", "getattr", "vars", "dir", "id", "AttributeError"))
_ATTRIBUTES = frozenset(("getsizeof",))
#: What handlers of errors begin with: the test of a class, or, for all errors, nothing.
_TESTS = frozenset(("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"))
_CATCHING = ("PUSH_EXC_INFO", "POP_TOP")
#: Relative distances of places nearby.
_STEPS = (1e-4, -1e-4, 1e-7, -1e-7)


def asks_for_types(f: Callable, arguments: Arguments) -> str | None:
    """Where a function, or one that it calls, asks objects for types or attributes.

    Where there are data, also where it catches errors.
    """
    has_data = not all([differentiated for *_, differentiated in arguments.kinds])
    codes = [own_code(one) for one in Reach(f).functions()]
    found = [_asks(code, has_data) for code in codes if code.co_filename != "<string>"]
    return next(filter(None, found), None)  # without that of named tuples and dataclasses


@functools.lru_cache(maxsize=4096)
def _asks(code: types.CodeType, has_data: bool) -> str | None:
    before = ""
    for one in dis.get_instructions(code):
        is_builtin = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _ASKING
        catches = one.opname in _TESTS or (before, one.opname) == _CATCHING
        what = None
        if is_builtin or (one.opcode in dis.hasname and one.argval in _ATTRIBUTES):
            what = f"reads {one.argval}"
        elif has_data and (catches or one.argval == "suppress"):
            what = "catches errors"
        if what is not None:
            lines = [line for start, end, line in code.co_lines() if start <= one.offset < end]
            return f"{what} at {code.co_filename}:{lines[0]}"
        before = one.opname
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return next(filter(None, [_asks(one, has_data) for one in inner]), None)


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

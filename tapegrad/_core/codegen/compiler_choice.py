"""Whether our pipeline compiles generated code or, where it does not fit Numba, numba.cfunc."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba

from . import compat
from .machine_code import load, machine_code

try:
    from . import numba_pipeline as ours
except (ImportError, AttributeError):  # of another Numba: what it is made of is not there
    ours = None  # type: ignore[assignment]

#: How Numba compiles what generated code calls.
OPTIONS: dict[str, Any] = {"error_model": "numpy"}
if ours is not None:
    OPTIONS |= {
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "_nrt": False,
        "pipeline_class": ours.Pipeline,
    }
_TEXT = """
def called(n):
    return 3 * n + 1 if n % 2 else n // 2


def loop(n):
    total = 0
    for i in range(n):
        total += called(i)
        if total > 9:
            total -= 7
    return total
"""
_POINTS = (-1, 0, 1, 6, 300)
_keep: list = []


def _probe() -> bool:
    """Whether a function with a loop, a branch and a call gives what it should."""
    if ours is None:
        return False
    helper = numba.njit(**OPTIONS)
    names: dict[str, Any] = {}
    exec(_TEXT, names)
    expected = [names["loop"](n) for n in _POINTS]
    names["called"] = helper(names["called"])
    module = ours.compiled({"tapegrad_probe": (helper(names["loop"]), "int64(int64)")})
    (address,) = load(machine_code(module), ["tapegrad_probe"])
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    return [function(n) for n in _POINTS] == expected


def is_ours() -> bool:
    """Whether our pipeline compiles: asked when something is first compiled."""
    return compat.holds("numba-pipeline", _probe)


def usual_addresses(functions: dict[str, tuple[Callable, str]]) -> dict[str, int]:
    """Addresses of C functions that numba.cfunc makes of functions and their signatures."""
    made = {
        name: numba.cfunc(signature, error_model="numpy")(function)
        for name, (function, signature) in functions.items()
    }
    _keep.extend(made.values())
    return {name: int(one.address or 0) for name, one in made.items()}

"""Elements of arrays in generated code: whatever differs between their dtypes stands here.

A module of helpers takes these names, as they are of float64; `of_width` gives the module for other
elements. A text that is put together names them by `NAMES`.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from .intrinsics import (
    c128s,
    f32s,
    f64s,
    helper,
    load_c128,
    load_f32,
    load_f64,
    store_c128,
    store_f32,
    store_f64,
)
from .strided_memory import add_run32, add_run64, sum32, sum64

#: Of float64, as modules import them.
ITEM, floats, load_float, store_float = 8, f64s, load_f64, store_f64
add_run, sum_of_run = add_run64, sum64
#: The bytes of a float32, and of a complex number: two float64.
SINGLE, PAIR = 4, 16
_TWINS: dict[int, dict[str, Any]] = {
    SINGLE: {
        "ITEM": SINGLE,
        "floats": f32s,
        "load_float": load_f32,
        "store_float": store_f32,
        "add_run": add_run32,
        "sum_of_run": sum32,
    },
    PAIR: {
        "ITEM": PAIR,
        "floats": c128s,
        "load_float": load_c128,
        "store_float": store_c128,
    },
}
NAMES = tuple(_TWINS[SINGLE])


@functools.cache
def of_width(module: types.ModuleType, width: int) -> types.ModuleType:
    """A module of helpers for elements of so many bytes: each of its helpers made with others."""
    if width == ITEM:
        return module
    twins, made = _TWINS[width], types.ModuleType(f"{module.__name__}_{width}")
    own = vars(made)
    for name, given in vars(module).items():
        f = given.py_func if isinstance(given, helper) else None
        if name in twins:
            own[name] = twins[name]
        elif f is None or not twins.keys() & f.__globals__.keys():
            own.setdefault(name, given)
        elif f.__module__ == module.__name__:
            own[name] = helper(types.FunctionType(f.__code__, own, f.__name__, f.__defaults__))
        else:  # of another module
            own[name] = getattr(of_width(sys.modules[f.__module__], width), name)
    return made


def head(width: int, *modules: str) -> str:
    """The lines of a text that names elements of so many bytes, and modules of helpers for them."""
    lines = ["from tapegrad._core.codegen import elements"]
    source = "elements" if width == ITEM else f"elements.of_width(elements, {width})"
    lines += [f"_of = {source}", *(f"{name} = _of.{name}" for name in NAMES)]
    for path in modules:
        folder, name = path.rsplit(".", 1)
        lines += [f"from {folder} import {name}", f"{name} = elements.of_width({name}, {width})"]
    return "\n".join(lines) + "\n"

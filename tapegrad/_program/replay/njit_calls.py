"""Programs as functions that a user's own Numba code calls, without Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from ..._core.codegen.intrinsics import call_address
from .run_layout import REFUSED

#: Calls `driver.call`: program, inputs, gradients, the address of the value.
entry = call_address(types.int64(types.int64, types.int64, types.int64, types.int64))


def _data(dtype):
    """The address of the data of an array of this dtype, and of no other."""

    @intrinsic
    def function(typingctx, array):
        if not isinstance(array, types.Array) or array.dtype != dtype:
            raise TypingError(
                f"tapegrad: a compiled function takes arrays of {dtype} in Numba code, not "
                f"{array}; convert it with astype"
            )

        def codegen(context, builder, signature, args):
            made = context.make_array(signature.args[0])(context, builder, args[0])
            return builder.ptrtoint(made.data, ir.IntType(64))

        return types.int64(array), codegen

    return function


data_of, data_of_int64 = _data(types.float64), _data(types.int64)

_HEAD = """\
def {name}({arguments}):
    table, numbers, out = np.empty({words}, np.int64), np.empty({words}), np.empty(1)
    at, first = data_of_int64(table), data_of(numbers)
"""
_ARRAY = """\
    if {x}.shape != {shape}:
        raise ValueError("tapegrad: argument {number} of a compiled function has another shape")
    if not {x}.flags.c_contiguous:
        raise ValueError("tapegrad: argument {number} of a compiled function is not in C order")
    table[{place}] = data_of({x})
"""
_NUMBER = "    numbers[{place}] = {x}\n    table[{place}] = first + 8 * {place}\n"
#: Numba lets go of an array after its last use.
_TAIL = """\
    status = entry({call}, {program}, at, {gradients}, data_of(out))
    table[0], numbers[0] = 0, 0.0
    if status == REFUSED:
        raise LinAlgError("tapegrad: a compiled function meets a matrix that an operation refuses")
    if status != 0:
        raise ValueError("tapegrad: a compiled function takes a way here that was not recorded")
    return out[0]
"""


def _take(x: str, shape: tuple[int, ...], number: int, place: int) -> str:
    if shape:
        return _ARRAY.format(x=x, shape=shape, number=number, place=place)
    return _NUMBER.format(x=x, place=place)


def _made(name: str, text: str) -> Any:
    names: dict[str, Any] = {
        "np": np,
        "LinAlgError": np.linalg.LinAlgError,
        "REFUSED": REFUSED,
        "entry": entry,
        "data_of": data_of,
        "data_of_int64": data_of_int64,
    }
    exec(text, names)
    return numba.njit(names[name])


def functions(call: int, program: int, shapes: list[tuple[int, ...]], wanted: list[bool]):
    """(value, value_and_grad) of a program, both compiled by Numba when first called.

    `shapes` are those of the inputs; after them `value_and_grad` takes an array for the gradient of
    each that is `wanted`, of shape (1,) for a number.
    """
    n = len(shapes)
    xs, gs = [f"x{k}" for k in range(n)], [f"g{k}" for k in range(n) if wanted[k]]
    inputs = "".join(
        _take(x, shape, k, k) for k, (x, shape) in enumerate(zip(xs, shapes, strict=True))
    )
    ends = {"call": call, "program": program}
    value = _HEAD.format(name="value", arguments=", ".join(xs), words=n) + inputs
    value += _TAIL.format(gradients=0, **ends)
    both = _HEAD.format(name="value_and_grad", arguments=", ".join(xs + gs), words=2 * n) + inputs
    for k, shape in enumerate(shapes):
        if wanted[k]:
            both += _take(f"g{k}", shape or (1,), n + xs.index(f"x{k}"), n + k)
            both += f"    g{k}[:0] = 0.0\n"  # which Numba refuses for an array that is read only
        else:
            both += f"    table[{n + k}] = 0\n"
    both += _TAIL.format(gradients=f"at + {8 * n}", **ends)
    return _made("value", value), _made("value_and_grad", both)

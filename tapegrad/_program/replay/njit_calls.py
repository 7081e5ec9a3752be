"""Programs and graphs as functions that a user's own Numba code calls, without Python."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from ..._flow.ir.frame import LEFT
from ..._flow.program import TOO_LARGE
from .run_layout import REFUSED


@intrinsic
def entry(typingctx, address, callee, arguments, gradients, value):
    """Calls `driver.call` or that of a graph: what is called, the arguments, the gradients, the
    address of the value."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 4).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), args[1:])

    return types.int64(*[types.int64] * 5), codegen


class Argument(NamedTuple):
    """An argument: its axes, their lengths, whether its gradient is wanted.

    Lengths are None where they may be any, which is so for arrays without gradient alone.
    """

    axes: int
    shape: tuple[int, ...] | None
    is_wanted: bool


@functools.cache
def _data(dtype, axes: int):
    """The address of the data of an array of this dtype and number of axes, and of no other."""

    @intrinsic
    def function(typingctx, array):
        if not isinstance(array, types.Array) or array.dtype != dtype:
            raise TypingError(
                f"tapegrad: a compiled function takes arrays of {dtype} in Numba code, not "
                f"{array}; convert it with astype"
            )
        if array.ndim != axes:
            raise TypingError(
                f"tapegrad: a compiled function takes an array of {axes} axes here in Numba code, "
                f"not {array}; reshape it"
            )

        def codegen(context, builder, signature, args):
            made = context.make_array(signature.args[0])(context, builder, args[0])
            return builder.ptrtoint(made.data, ir.IntType(64))

        return types.int64(array), codegen

    return function


_process = os.urandom(16)  # of this process and its forks


class _Address(int):
    """An address, which is refused where it is unpickled by another process."""

    def __reduce__(self):
        return _unpickled, (_process, int(self))


def _unpickled(process: bytes, value: int) -> _Address:
    if process != _process:
        raise ValueError(
            "tapegrad: a compiled function for Numba code was pickled by another process; pickle "
            "what numba() is called on, and call it here"
        )
    return _Address(value)


def _address(at: int):
    """A function that returns an address; Numba keeps no code with it in files."""
    value = _Address(at)

    @intrinsic
    def function(typingctx):
        def codegen(context, builder, signature, args):
            found = context.add_dynamic_addr(builder, value, info="tapegrad")
            return builder.ptrtoint(found, ir.IntType(64))

        return types.int64(), codegen

    return function


_HEAD = """\
def {name}({arguments}):
    table, numbers, out = np.empty({words}, np.int64), np.empty({words}), np.empty(1)
    at, first = words_of(table), data_of_1(numbers)
"""
_ADDRESS = "    table[{place}] = data_of_{axes}({x})\n"
_SHAPE = """\
    if {x}.shape != {shape}:
        raise ValueError("tapegrad: argument {number} of a compiled function has another shape")
"""
_ORDER = """\
    if not {x}.flags.c_contiguous:
        raise ValueError("tapegrad: argument {number} of a compiled function is not in C order")
"""
_LENGTH = "    table[{place}] = {x}.shape[{axis}]\n"
_NUMBER = "    numbers[{place}] = {x}\n    table[{place}] = first + 8 * {place}\n"
#: Numba lets go of an array after its last use.
_TAIL = """\
    status = entry(call(), callee(), at, {gradients}, data_of_1(out))
    reason = table[0]
    table[0], numbers[0] = 0, 0.0
    if status != 0:
        refuse(status, reason)
    return out[0]
"""


def _take(x: str, axes: int, shape: tuple[int, ...] | None, number: int, place: int) -> str:
    if axes == 0:
        return _NUMBER.format(x=x, place=place)
    taken = _ADDRESS.format(x=x, axes=axes, place=place)
    if shape is not None:
        taken += _SHAPE.format(x=x, shape=shape, number=number)
    return taken + _ORDER.format(x=x, number=number)


def _made(name: str, text: str, known: dict[str, Any]) -> Any:
    names = {"np": np, "entry": entry, "words_of": _data(types.int64, 1), **known}
    exec(text, names)
    return numba.njit(names[name])


@numba.njit
def refuse_of_program(status, _reason):
    """Raise the error of a program that has stopped."""
    if status == REFUSED:
        raise np.linalg.LinAlgError(
            "tapegrad: a compiled function meets values that an operation refuses, such as a "
            "singular matrix or an index out of bounds"
        )
    raise ValueError(
        "tapegrad: a compiled function takes a way here that was not recorded; call it in Python "
        "with such arguments, then numba() once more"
    )


def refuse_of_graph(reasons: dict[int, str]) -> Callable:
    """A function that raises the error of a call that left its graph, for Numba code."""
    text = "def refuse(status, reason):\n"
    for number, reason in reasons.items():
        text += f"    if status == {LEFT} and reason == {number}:\n"
        text += f"        raise ValueError({_LEFT.format(reason=reason)!r})\n"
    text += f"    raise ValueError({_LEFT.format(reason=TOO_LARGE)!r})\n"
    names: dict[str, Any] = {}
    exec(text, names)
    return numba.njit(names["refuse"])


_LEFT = "tapegrad: a compiled function cannot compute this call in Numba code: {reason}"


def functions(
    call: int, callee: int, arguments: list[Argument], refuse: Callable, lengths: bool = False
):
    """(value, value_and_grad) of a program or a graph, compiled by Numba when first called.

    After the arguments `value_and_grad` takes an array for each gradient, of shape (1,) for that of
    a number. With `lengths` the lengths of an array follow its address; `refuse` is called with
    another status than 0, and the first word of the table.
    """
    n, place, inputs = len(arguments), 0, ""
    xs, gs = [f"x{k}" for k in range(n)], [f"g{k}" for k in range(n) if arguments[k].is_wanted]
    for k, one in enumerate(arguments):
        inputs += _take(xs[k], one.axes, one.shape, k, place)
        place += 1
        for axis in range(one.axes if lengths else 0):
            inputs += _LENGTH.format(x=xs[k], axis=axis, place=place)
            place += 1
    value = _HEAD.format(name="value", arguments=", ".join(xs), words=place) + inputs
    value += _TAIL.format(gradients=0)
    both = _HEAD.format(name="value_and_grad", arguments=", ".join(xs + gs), words=place + n)
    both += inputs
    for k, one in enumerate(arguments):
        if one.is_wanted:
            shape = one.shape or (1,)
            both += _take(f"g{k}", len(shape), shape, n + gs.index(f"g{k}"), place + k)
            both += f"    g{k}[:0] = 0.0\n"  # which Numba refuses for an array that is read only
        else:
            both += f"    table[{place + k}] = 0\n"
    both += _TAIL.format(gradients=f"at + {8 * place}")
    known = {
        "call": _address(_Address(call)),
        "callee": _address(_Address(callee)),
        "refuse": refuse,
    }
    for axes in {1, *[one.axes for one in arguments]}:
        known[f"data_of_{axes}"] = _data(types.float64, axes)
    return _made("value", value, known), _made("value_and_grad", both, known)

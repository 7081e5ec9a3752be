"""The bridge from a row to the adjoint that a user has compiled with Numba.

It makes arrays of the given addresses, calls the function, checks the shapes of the results and
adds these to the adjoint buffers. Numba's usual pipeline compiles it, and it is kept for the life
of the process; the user decides whether the function itself is cached.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, is_jitted
from numba.np.numpy_support import from_dtype

from .layout import CALL_BYTES, CALL_DATA, CALL_SHAPE, CALL_TARGET

#: The results of a bridge: 0, that an exception was raised, that there is no adjoint, or what is
#: wrong with a derivative, as 1 + its number | axis << AXIS | length << LENGTH.
RAISED, MISSING, AXIS, LENGTH = -1, -2, 8, 16
#: A number or an array as the function gets it: dtype and number of axes.
Kind = tuple[np.dtype, int]
_keep: list = []


def is_compiled(function) -> bool:
    """Whether Numba has compiled, or will compile, a function."""
    return is_jitted(function)


@intrinsic
def pointer(typingctx, address):
    """An address as a pointer to anything."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def words(typingctx, address):
    """An address as that of words."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(64).as_pointer())

    return types.CPointer(types.int64)(types.int64), codegen


def type_of(kind: Kind):
    dtype, ndim = kind
    return types.Array(from_dtype(dtype), ndim, "C") if ndim else from_dtype(dtype)


def _returned(backward, arguments: Sequence[Kind]):
    """The type of the result of a function for arguments; it is compiled for them."""
    signature = tuple(type_of(kind) for kind in arguments)
    backward.compile(signature)
    return backward.overloads[signature].signature.return_type


def derivatives(backward, arguments: Sequence[Kind]) -> list:
    """The types of what `backward` returns, one for each operand, None where it returns None."""
    result: Any = _returned(backward, arguments)
    is_tuple = isinstance(result, types.BaseTuple)
    parts = result if is_tuple else [result]
    return [None if isinstance(part, types.NoneType) else part for part in parts]


def fits(returned, kind: Kind) -> bool:
    """Whether a type may be the derivative with respect to an operand: floats of as many axes."""
    if kind[1] == 0:
        return isinstance(returned, (types.Float, types.Integer))
    if not isinstance(returned, types.Array) or returned.ndim != kind[1]:
        return False
    return isinstance(returned.dtype, types.Float)


def compile_bridge(backward, operands: Sequence[Kind], outputs: Sequence[Kind], wanted) -> int:
    """Address of the bridge to `backward(adjoints, operands, outputs)`; see `ops.call_rows`.

    `wanted` says of each operand whether its derivative is added to its adjoint.
    """
    result = _returned(backward, (*outputs, *operands, *outputs))
    text = _source(operands, outputs, wanted, isinstance(result, types.BaseTuple))
    dtypes = {f"d{k}": from_dtype(kind[0]) for k, kind in enumerate((*operands, *outputs))}
    names = {"backward": backward, "words": words, "pointer": pointer, **dtypes}
    names["carray"] = numba.carray
    exec(text, names)
    bridge = numba.cfunc(types.int64(types.int64))(names["bridge"])
    _keep.append(bridge)
    return int(bridge.address or 0)


@functools.cache
def no_bridge() -> int:
    """Address of the bridge of an operation without adjoint."""
    bridge = numba.cfunc(types.int64(types.int64))(lambda entries: MISSING)
    _keep.append(bridge)
    return int(bridge.address or 0)


def _source(operands, outputs, wanted, is_tuple: bool) -> str:
    kinds, count = (*operands, *outputs), len(operands)
    lines = ["def bridge(entries):", "    at = words(entries)"]
    for k, (_, ndim) in enumerate(kinds):
        lines += _argument(f"x{k}", k, CALL_DATA, ndim)
        if k >= count:
            lines += _argument(f"g{k}", k, CALL_TARGET, ndim)
    numbers = range(count, len(kinds))
    arguments = [f"g{k}" for k in numbers] + [f"x{k}" for k in range(len(kinds))]
    lines += ["    try:", f"        found = backward({', '.join(arguments)})"]
    lines += ["    except Exception:", f"        return {RAISED}"]
    for k in range(count):
        if wanted[k]:
            lines.append(f"    r{k} = found[{k}]" if is_tuple else f"    r{k} = found")
            lines += _check(k, operands[k][1])
    for k in range(count):
        if wanted[k]:
            lines += _add(k, operands[k][1])
    return "\n".join([*lines, "    return 0"]) + "\n"


def _argument(name: str, k: int, where: int, ndim: int) -> list[str]:
    word = k * CALL_BYTES // 8
    shape = "".join(f"n{k}[{axis}], " for axis in range(ndim)) or "1,"
    made = f"carray(pointer(at[{word + where // 8}]), ({shape}), d{k})"
    head = [f"    n{k} = words(at[{word + CALL_SHAPE // 8}])"] if ndim else []
    return [*head, f"    {name} = {made}" + ("" if ndim else "[0]")]


def _check(k: int, ndim: int) -> list[str]:
    lines = []
    for axis in range(ndim):
        answer = f"{1 + k} | {axis} << {AXIS} | r{k}.shape[{axis}] << {LENGTH}"
        lines += [f"    if r{k}.shape[{axis}] != n{k}[{axis}]:", f"        return {answer}"]
    return lines


def _add(k: int, ndim: int) -> list[str]:
    word = k * CALL_BYTES // 8
    if not ndim:
        return [f"    carray(pointer(at[{word + CALL_TARGET // 8}]), (1,), d{k})[0] += r{k}"]
    lines = [f"    if at[{word + CALL_TARGET // 8}] != 0:"]
    lines += ["    " + line for line in _argument(f"t{k}", k, CALL_TARGET, ndim)[1:]]
    for axis in range(ndim):
        lines.append(f"{'    ' * (axis + 2)}for i{axis} in range(n{k}[{axis}]):")
    place = ", ".join(f"i{axis}" for axis in range(ndim))
    return [*lines, f"{'    ' * (ndim + 2)}t{k}[{place}] += r{k}[{place}]"]

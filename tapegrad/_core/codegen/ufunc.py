"""NumPy ufuncs: those on compiled kernels, and the inner loops of NumPy's own."""

from __future__ import annotations

import ctypes
import functools
import sys

import numpy as np

from . import compat
from .factory import compile_source

# --- The inner loops of ufuncs: addresses of C functions `(addresses, sizes, steps, data)` --------
# They are fields of the ufunc objects of NumPy 2.2 to 2.5.


#: Fields of NumPy ufunc objects, as byte offsets.
_NIN, _NOUT, _NARGS, _FUNCTIONS, _DATA, _NTYPES, _TYPES = 16, 20, 24, 32, 40, 48, 64
_int, _word_at = ctypes.c_int.from_address, ctypes.c_int64.from_address


def loop_of(ufunc, signature: str) -> tuple[int, int]:
    """The loop of a ufunc for some dtypes, such as "dd->d", and its data: addresses.

    LookupError if they are not there.
    """
    at, letters = id(ufunc), [text.replace("->", "") for text in ufunc.types]
    fields = [_int(at + offset).value for offset in (_NIN, _NOUT, _NARGS, _NTYPES)]
    if fields != [ufunc.nin, ufunc.nout, ufunc.nargs, len(letters)]:
        raise LookupError(f"{ufunc.__name__} does not lie as in NumPy 2")
    numbers = bytes(np.dtype(letter).num for text in letters for letter in text)
    if ctypes.string_at(_word_at(at + _TYPES).value, len(numbers)) != numbers:
        raise LookupError(f"{ufunc.__name__} has loops for other types than it tells")
    k = ufunc.types.index(signature)
    functions, data = (_word_at(at + offset).value for offset in (_FUNCTIONS, _DATA))
    return _word_at(functions + 8 * k).value, _word_at(data + 8 * k).value if data else 0


def loop_of_doubles(ufunc) -> tuple[int, int] | None:
    """The loop of a ufunc of one or two doubles with one double as result; None if there is none.

    It gives what the ufunc does, or is not used.
    """
    signature = "d" * ufunc.nin + "->d"
    if ufunc.nin not in (1, 2) or ufunc.nout != 1 or signature not in ufunc.types:
        return None
    found: list[tuple[int, int]] = []

    def probe() -> bool:
        found.append(loop_of(ufunc, signature))
        operands = [np.array([0.7]), np.array([1.3])][: ufunc.nin]
        with np.errstate(all="ignore"):
            wanted, out = ufunc(*operands), np.empty(1)
        addresses = np.array([array.ctypes.data for array in (*operands, out)])
        sizes, steps = np.array([1]), np.array([8] * 3)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(found[0][0])
        call(*[array.ctypes.data for array in (addresses, sizes, steps)], found[0][1])
        return np.array_equal(out, wanted, equal_nan=True)

    holds = compat.holds("numpy-ufunc-fields", probe, ufunc.__name__)
    return found[0] if holds else None


# --- NumPy ufuncs on compiled kernels: broadcasting, dtypes and errors are NumPy's own ------------
# A kernel takes contiguous blocks. One inner loop serves all of them: NumPy passes addresses,
# strides and the data of the kernel, and the loop copies strided or broadcast operands, block by
# block.


SOURCE = """
from tapegrad._core.codegen.layout import BLOCK
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen import machine_types as types

kernel_call = call_address(types.none(types.int64, types.int64))


@helper
def move(target, target_step, source, source_step, n, width):
    if width == 8:
        for i in range(n):
            store_i64(target, i * target_step, load_i64(source, i * source_step))
    else:
        for i in range(n):
            store_i32(target, i * target_step, load_i32(source, i * source_step))


@helper
def in_blocks(kernel, operands, width, n, at, steps):
    block = min(n, BLOCK)
    table = malloc(operands * (block + 1) * 8)
    start = 0
    while start < n:
        m = min(block, n - start)
        for k in range(operands):
            room = table + operands * 8 + k * block * 8
            step = load_i64(steps, k * 8)
            source = load_i64(at, k * 8) + start * step
            store_i64(table, k * 8, source if step == width else room)
            if step != width and k < operands - 1:
                move(room, width, source, step, m, width)
        kernel_call(kernel, m, table)
        last = (operands - 1) * 8
        step = load_i64(steps, last)
        if step != width:
            move(load_i64(at, last) + start * step, step, load_i64(table, last), width, m, width)
        start += m
    free(table)


def loop(at, dimensions, steps, data):
    kernel, operands, width = load_i64(data, 0), load_i64(data, 8), load_i64(data, 16)
    n = load_i64(dimensions, 0)
    side_by_side = True
    for k in range(operands):
        side_by_side = side_by_side and (n == 1 or load_i64(steps, k * 8) == width)
    if side_by_side:
        kernel_call(kernel, n, at)
    else:
        in_blocks(kernel, operands, width, n, at, steps)
"""
_UMATH = "numpy._core._multiarray_umath"
#: Place of PyUFunc_FromFuncAndData in NumPy's table of functions for C.
_FROM_LOOPS = 1
_NO_IDENTITY = -1
_word, _pointer = ctypes.c_int64, ctypes.c_void_p
_keep: list = []  # NumPy holds addresses only


@functools.cache
def _loop() -> int:
    return compile_source(SOURCE, {"loop": "void(int64, int64, int64, int64)"})["loop"]


@functools.cache
def _create():
    """NumPy's function that makes a ufunc of loops."""
    compat.require("numpy-ufunc-api", lambda: hasattr(sys.modules[_UMATH], "_UFUNC_API"))
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = _pointer, [ctypes.py_object, ctypes.c_char_p]
    functions = ctypes.cast(table(sys.modules[_UMATH]._UFUNC_API, None), ctypes.POINTER(_pointer))
    types = [_pointer] * 3 + [ctypes.c_int] * 4 + [_pointer] * 2 + [ctypes.c_int]
    return ctypes.PYFUNCTYPE(ctypes.py_object, *types)(functions[_FROM_LOOPS])


def make_ufunc(name: str, inputs: int, kernels: dict[str, int]):
    """The ufunc on kernels `kernel(n, addresses)`: address by the letter of their dtype."""
    dtypes = [np.dtype(letter) for letter in kernels]
    owned = [
        (_word * 3)(kernel, inputs + 1, dtype.itemsize)
        for kernel, dtype in zip(kernels.values(), dtypes, strict=True)
    ]
    loops = (_word * len(owned))(*[_loop()] * len(owned))
    data = (_word * len(owned))(*map(ctypes.addressof, owned))
    numbers = ctypes.create_string_buffer(bytes(d.num for d in dtypes for _ in range(inputs + 1)))
    label = ctypes.create_string_buffer(name.encode())
    _keep.append((owned, loops, data, numbers, label))
    where = [ctypes.addressof(part) for part in (loops, data, numbers)]
    arity = (len(owned), inputs, 1, _NO_IDENTITY)
    return _create()(*where, *arity, ctypes.addressof(label), None, 0)

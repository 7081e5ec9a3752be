"""NumPy ufuncs on compiled loops: broadcasting, dtypes and errors are NumPy's own.

The inner loop that NumPy calls gets addresses and strides. Its blocks are made contiguous first,
so that one vectorised loop serves all of them.
"""

import ctypes

import numpy as np

from .layout import BLOCK
from .memory import f32s, f64s, helper

try:
    from numpy._core import _multiarray_umath as _umath
except ImportError:  # NumPy 1
    from numpy.core import _multiarray_umath as _umath

#: Place of PyUFunc_FromFuncAndData in NumPy's table of functions for C.
_FROM_LOOPS = 1
_NO_IDENTITY = -1
_word, _pointer = ctypes.c_int64, ctypes.c_void_p
_keep: list = []  # NumPy holds addresses only


@helper
def packed(address, step, n, memory, width):
    """Address of n elements side by side: where they are if they lie so, else a copy."""
    if step == width:
        return address
    if width == 8:
        to64 = f64s(memory)
        for i in range(n):
            to64[i] = f64s(address + i * step)[0]
    else:
        to32 = f32s(memory)
        for i in range(n):
            to32[i] = f32s(address + i * step)[0]
    return memory


@helper
def unpack(memory, address, step, n, width):
    """Put n elements that lie side by side where they belong, if they are not there."""
    if memory == address:
        return
    if width == 8:
        from64 = f64s(memory)
        for i in range(n):
            f64s(address + i * step)[0] = from64[i]
    else:
        from32 = f32s(memory)
        for i in range(n):
            f32s(address + i * step)[0] = from32[i]


def loop_source(values: str, inputs: int, width: int) -> str:
    """Text of the inner loop `loop` on a function `values(n, *addresses)` of contiguous blocks."""
    plain = " and ".join(f"i64s(steps)[{k}] == {width}" for k in range(inputs + 1))
    whole = ", ".join(f"at[{k}]" for k in range(inputs + 1))
    lines = [
        "def loop(arguments, dimensions, steps, data):",
        "    at, step, n = i64s(arguments), i64s(steps), i64s(dimensions)[0]",
        f"    if n == 1 or ({plain}):",
        f"        {values}(n, {whole})",
        "        return",
        f"    block = min(n, {BLOCK})",
        f"    memory = malloc({inputs + 1} * block * 8)",
        "    start = 0",
        "    while start < n:",
        "        m = min(block, n - start)",
    ]
    for k in range(inputs + 1):
        lines.append(f"        p{k} = at[{k}] + start * step[{k}]")
    for k in range(inputs):
        room = f"memory + {k} * block * 8"
        lines.append(f"        p{k} = packed(p{k}, step[{k}], m, {room}, {width})")
    lines += [
        f"        out = p{inputs} if step[{inputs}] == {width} else memory + {inputs} * block * 8",
        f"        {values}(m, {', '.join(f'p{k}' for k in range(inputs))}, out)",
        f"        unpack(out, p{inputs}, step[{inputs}], m, {width})",
        "        start += m",
        "    free(memory)",
    ]
    return "\n".join(lines) + "\n"


LOOP_SIGNATURE = "void(int64, int64, int64, int64)"


def make_ufunc(name: str, inputs: int, loops: dict[str, int]):
    """The ufunc on inner loops at addresses, by NumPy's letter of their dtype."""
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = _pointer, [ctypes.py_object, ctypes.c_char_p]
    functions = ctypes.cast(table(_umath._UFUNC_API, None), ctypes.POINTER(_pointer))
    types = [_pointer] * 3 + [ctypes.c_int] * 4 + [_pointer] * 2 + [ctypes.c_int]
    create = ctypes.PYFUNCTYPE(ctypes.py_object, *types)(functions[_FROM_LOOPS])
    addresses = (_word * len(loops))(*loops.values())
    data = (_word * len(loops))()
    numbers = [np.dtype(letter).num for letter in loops for _ in range(inputs + 1)]
    dtypes = (ctypes.c_char * len(numbers))(*numbers)
    label = ctypes.create_string_buffer(name.encode())
    _keep.append((addresses, data, dtypes, label))
    where = [ctypes.addressof(part) for part in (addresses, data, dtypes)]
    arity = (len(loops), inputs, 1, _NO_IDENTITY)
    return create(*where, *arity, ctypes.addressof(label), None, 0)

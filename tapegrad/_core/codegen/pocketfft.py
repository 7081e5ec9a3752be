"""NumPy's Fourier transforms for structural kernels: inner loops of the ufuncs behind `numpy.fft`.

They take `(addresses, sizes, steps, data)` as those of every generalised ufunc, call no Python and
need no interpreter lock. Where they are not found (`ufunc`), or one gives anything else than
`numpy.fft`, `is_available` is False, and programs call NumPy by Python.
"""

import ctypes
import importlib

import numpy as np

from . import compat
from . import machine_types as types
from .intrinsics import call_address, global_address, helper, load_i64, store_f64, store_i64
from .machine_code import LOADERS, name_address
from .ufunc import loop_of
from .vector_math import sqrt

_MODULE = "numpy.fft._pocketfft_umath"
_LOOPS = ("fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft")
#: The number of each in the table of loops.
FORWARD, BACKWARD, REAL_EVEN, REAL_ODD, HERMITIAN = range(5)
_SYMBOL = "tapegrad_pocketfft"
_tables: list = []  # compiled code holds the address only


def _loop_of(name: str) -> tuple[int, int]:
    """The inner loop of a ufunc for doubles and its data, addresses; raises if it is not there."""
    ufunc = getattr(importlib.import_module(_MODULE), name)
    if (ufunc.nin, ufunc.nout) != (2, 1):
        raise LookupError(f"{name} is not called as in NumPy 2")
    return loop_of(ufunc, next(text for text in ufunc.types if text[1] == "d"))


def _is_right(number: int, loop: int, data: int) -> bool:
    """Whether a loop gives what `numpy.fft` does for a few lines."""
    is_real = number in (REAL_EVEN, REAL_ODD)
    n = 6 if number == REAL_EVEN else 5
    count = n // 2 + 1 if number == HERMITIAN else n
    x = np.cos(np.arange(2.0 * count)).reshape(2, count)
    x = x if is_real else x + 1j * np.sin(3.0 * x)
    wanted = (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.rfft, np.fft.irfft)[number](x, n)
    scale = np.array(1.0 / n if number in (BACKWARD, HERMITIAN) else 1.0)
    out = np.empty_like(wanted)
    addresses = np.array([x.ctypes.data, scale.ctypes.data, out.ctypes.data])
    sizes = np.array([2, count, out.shape[1]])
    steps = np.array([x.strides[0], 0, out.strides[0], x.strides[1], out.strides[1]])
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(loop)
    call(*[array.ctypes.data for array in (addresses, sizes, steps)], data)
    return np.array_equal(out, wanted)


def _probe() -> bool:
    """Whether all loops are as expected."""
    return all(_is_right(k, *_loop_of(name)) for k, name in enumerate(_LOOPS))


def is_available() -> bool:
    """Whether kernels can call NumPy's loops."""
    return compat.holds("numpy-ufunc-fields", _probe)


def _load() -> None:
    """Name the table of loops, two words each, for compiled code."""
    if not is_available():
        raise ImportError(f"the loops of {_MODULE} are not where they are expected")
    words = [word for name in _LOOPS for word in _loop_of(name)]
    _tables.append((ctypes.c_int64 * len(words))(*words))
    name_address(_SYMBOL, ctypes.addressof(_tables[-1]))


LOADERS[_SYMBOL] = _load

_table = global_address(_SYMBOL)
_loop = call_address(types.none(*[types.int64] * 4))

#: Arguments of a call: addresses of input, scale, output; count and sizes; steps; the scale.
_ADDRESSES, _SIZES, _STEPS, _SCALE = 0, 24, 48, 88
#: Their size in bytes.
CALL_BYTES = 96


@helper
def lines(call, number, count, x, y, scale):
    """Transform `count` lines by the loop of a number.

    `x` and `y` are (address, size, step between elements, step between lines) of the input and the
    output. An input of more elements than the transform has is cut off, one of fewer is continued
    by zeros.
    """
    store_f64(call, _SCALE, scale)
    store_i64(call, _ADDRESSES, x[0])
    store_i64(call, _ADDRESSES + 8, call + _SCALE)
    store_i64(call, _ADDRESSES + 16, y[0])
    store_i64(call, _SIZES, count)
    store_i64(call, _SIZES + 8, x[1])
    store_i64(call, _SIZES + 16, y[1])
    store_i64(call, _STEPS, x[3])
    store_i64(call, _STEPS + 8, 0)
    store_i64(call, _STEPS + 16, y[3])
    store_i64(call, _STEPS + 24, x[2])
    store_i64(call, _STEPS + 32, y[2])
    entry = _table() + 16 * number
    _loop(load_i64(entry, 0), call, call + _SIZES, call + _STEPS, load_i64(entry, 8))


@helper
def scale_of(n, power):
    """n to the power of minus half of `power`, which is 0, 1 or 2, rounded as NumPy does."""
    if power == 1:
        return 1.0 / sqrt(float(n))
    return 1.0 / n if power == 2 else 1.0

"""The inner loops of ufuncs: addresses of C functions `(addresses, sizes, steps, data)`.

They are fields of the ufunc objects of NumPy 2.2 to 2.5.
"""

from __future__ import annotations

import ctypes

import numpy as np

from . import compat

#: Fields of NumPy ufunc objects, as byte offsets.
_NIN, _NOUT, _NARGS, _FUNCTIONS, _DATA, _NTYPES, _TYPES = 16, 20, 24, 32, 40, 48, 64
_int, _word = ctypes.c_int.from_address, ctypes.c_int64.from_address


def loop_of(ufunc, signature: str) -> tuple[int, int]:
    """The loop of a ufunc for some dtypes, such as "dd->d", and its data: addresses.

    LookupError if they are not there.
    """
    at, letters = id(ufunc), [text.replace("->", "") for text in ufunc.types]
    fields = [_int(at + offset).value for offset in (_NIN, _NOUT, _NARGS, _NTYPES)]
    if fields != [ufunc.nin, ufunc.nout, ufunc.nargs, len(letters)]:
        raise LookupError(f"{ufunc.__name__} does not lie as in NumPy 2")
    numbers = bytes(np.dtype(letter).num for text in letters for letter in text)
    if ctypes.string_at(_word(at + _TYPES).value, len(numbers)) != numbers:
        raise LookupError(f"{ufunc.__name__} has loops for other types than it tells")
    k = ufunc.types.index(signature)
    functions, data = (_word(at + offset).value for offset in (_FUNCTIONS, _DATA))
    return _word(functions + 8 * k).value, _word(data + 8 * k).value if data else 0


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

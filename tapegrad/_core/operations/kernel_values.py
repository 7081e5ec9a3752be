"""Values of declared operations by their compiled kernels, as programs compute them.

For small matrices NumPy's functions spend more time on their arguments than on arithmetic.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..ops.table import Structural
from ..sweep import kernels
from ..tensor.copies import empty

DOUBLE = np.dtype(np.float64)
_NO_WORDS = np.zeros(0, np.int64)
_addressof = ctypes.addressof
#: In the words of a call, counted from the end: why a kernel has stopped, and LAPACK's answer.
_STATUS, _ANSWER = (
    (place - layout.FRAME_BYTES) // 8 for place in (layout.FRAME_STATUS, layout.FRAME_WANTED_MASK)
)
#: What calls the value kernel of an operation, by the function that computes its value.
_CALLS: dict[Callable, Callable] = {}


@functools.cache
def _words_of_call(operands: int) -> Any:
    """The class of a call's memory: references to arguments and result, then a sweep's frame."""
    return ctypes.c_int64 * (2 * (operands + 2) + layout.FRAME_BYTES // 8)


def _compiled(op: Structural) -> Callable:
    """What calls the value kernel of an operation, without the interpreter lock."""
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    return prototype(kernels.compile_structural(op, op.value_kernel))


def by_kernel(op: Structural, operands, static: dict[str, Any]) -> np.ndarray | None:
    """The value of an operation by its kernel, a new array in C order; None where it takes none.

    Kernels take as many arrays of float64 as the operation has operands, of shapes that it allows,
    and whole keyword arguments. Results that are not finite are left to NumPy's function.
    """
    if op.value_kernel is None or op.shape is None or op.value is None:
        return None
    if len(operands) != op.operand_count:
        return None
    for x in operands:
        if type(x) is not np.ndarray or x.dtype is not DOUBLE or not x.flags.aligned:
            return None
    try:
        has_words = static or op.keywords
        words = np.array(op.static_words(static), np.int64) if has_words else _NO_WORDS
        out = empty(op.shape(*[x.shape for x in operands], **static))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    call = _CALLS.get(op.value)
    if call is None:
        call = _CALLS[op.value] = _compiled(op)
    references = [word for x in (words, *operands, out) for word in (id(x), 0)]
    memory = _words_of_call(len(operands))(*references)
    call(_addressof(memory) + 8 * len(references), 0, _addressof(memory), 0)
    if memory[_STATUS] == layout.REFUSED:
        assert op.refusal is not None
        raise op.refusal(memory[_ANSWER])
    if not np.isfinite(out).all():  # NumPy's function may raise, or have infinities
        return None
    return out

"""Rows of the store as a batch reads them, and calls without derivative for all elements."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.codegen import layout
from .._core.operations.creation import converted
from .._core.tape import store
from .._core.tape.tape import USED_UP, cell_of, operation_of
from .._core.tensor import runtime as rt
from .._core.tensor.registry import declared_by
from .._core.tensor.trace import OF_EACH, Call, named, steered
from .._core.tensor.values import is_tensor, value_of

# --- Rows of the store as a batch reads them, each read once: operands, buffers, operations -------
# They are read straight from the memory of their chunks, so that small batches pay off too.


_ROW = struct.Struct("<iiiid")
_REFERENCE = struct.Struct("<qii")
_NUMBER = struct.Struct("<d")
_WORDS = struct.Struct("<ii")
_object = ctypes.py_object.from_address
_REFERENCES = layout.HEADER_BYTES + layout.ROWS * layout.ROW_BYTES


class RecordedRow(NamedTuple):
    """A row: its word and operation, operands as (row, view, number or object), its own array.

    A constant operand is of row −1; the view of a row of a number is None. `reads` are the rows
    that it reads.
    """

    word: int
    op: Any
    operands: list[tuple[int, Any]]
    base: Any  # an array, or None
    reads: list[int]

    @property
    def name(self) -> str:
        return self.op.name if self.op is not None else "a row"


class RecordedRows:
    """Rows by number."""

    def __init__(self):
        self._rows: dict[int, RecordedRow] = {}

    def __getitem__(self, number: int) -> RecordedRow:
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = self._read(number)
        return found

    @staticmethod
    def fields(number: int) -> tuple[int, int, int, int, float]:
        """The word of a row, a, b, c and its value."""
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        at = layout.HEADER_BYTES + (number & (layout.ROWS - 1)) * layout.ROW_BYTES
        return _ROW.unpack_from(chunk, at)

    def _read(self, number: int) -> RecordedRow:
        word, a, b, c, _ = self.fields(number)
        if word <= 0:
            raise RuntimeError(USED_UP)
        if word > layout.ARRAY or word in (layout.LEAF, layout.CONSTANT):
            return self._read_array(number, word, a, b)
        if word == layout.LOAD:
            return RecordedRow(word, None, [(a, cell_of(self[a].base, b))], None, [a])
        if word == layout.STORE:
            return RecordedRow(word, None, [], None, [k for k in (a, c) if k >= 0])
        if word < 4 * layout.FIRST_CODE:
            return RecordedRow(word, None, [], None, [])
        return self._read_number(word, a, b, c)

    @staticmethod
    def _read_number(word: int, a: int, b: int, c: int) -> RecordedRow:
        op, kind = operation_of(word), word & 3
        if kind == layout.ROW_ROW:
            reads = [a, b] if b >= 0 else [a]
            return RecordedRow(word, op, [(k, None) for k in reads], None, reads)
        (constant,) = _NUMBER.unpack(_WORDS.pack(b, c))
        operands = [(a, None), (-1, constant)]
        if kind == layout.CONSTANT_ROW:
            operands.reverse()
        return RecordedRow(word, op, operands, None, [a])

    @staticmethod
    def _read_array(number: int, word: int, first: int, count: int) -> RecordedRow:
        chunk: Any = store.chunks[number >> layout.ROWS_BITS]
        start = _REFERENCES + first * layout.REFERENCE_BYTES
        memory = memoryview(chunk)[start : start + count * layout.REFERENCE_BYTES]
        address = chunk.ctypes.data + start
        found: list[tuple[int, Any]] = []
        for what, source, tag in _REFERENCE.iter_unpack(memory):
            if source < -1:
                raise RuntimeError(USED_UP)
            seen: Any = None
            if tag in (layout.TAG_ARRAY, layout.TAG_OBJECT):
                seen = _object(address + len(found) * layout.REFERENCE_BYTES).value
            elif tag == layout.TAG_INT:
                seen = what
            elif tag == layout.TAG_CONSTANT:
                (seen,) = _NUMBER.unpack(what.to_bytes(8, "little", signed=True))
            found.append((source if tag <= layout.TAG_SCALAR else -1, seen))
        op = operation_of(word) if word > layout.ARRAY else None
        if getattr(op, "writes", False):
            found.append((-1, None))  # it has no output
        *operands, (_, base) = found or [(-1, None)]
        reads = [source for source, _ in operands if source >= 0]
        return RecordedRow(word, op, operands, base, reads)


# --------------------------------------------------------------------------------------------------
# Calls without derivative, such as masks and positions, for all elements of a batch at once.
# Calls that work element by element are unchanged, calls along axes have one more in front, others
# are described in `OF_EACH`; the rest is called for each element.


#: Functions that work element by element, beside ufuncs and those that are declared.
_ELEMENTWISE = {
    *(np.isclose, np.asarray, np.array, converted, operator.pos, operator.invert),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
}
#: Functions of one array along axes, the second argument, and which axis it is by default.
_ALONG: dict[Callable, int | None] = {
    **dict.fromkeys((np.sum, np.prod, np.mean, np.var, np.std, np.median, np.ptp)),
    **dict.fromkeys((np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.count_nonzero)),
    **dict.fromkeys((np.cumsum, np.cumprod)),
    **dict.fromkeys((np.sort, np.argsort), -1),
}
#: Calls whose result has the shape of the operand.
_KEEPING = {np.cumsum, np.cumprod, np.sort, np.argsort}


def call_of_each(call: Call, t: list, alone: list, ndim: int):
    """The result of a call for all elements: an array, or a recorded tensor in a trace.

    `t` are its operands with an axis of elements in front, None for one that is the same for all
    and among `alone`; `ndim` is the number of axes of the result for one element.
    """
    given, mapped = [], []
    for is_operand, what in call.arguments:
        one = t[what] if is_operand else None
        mapped.append(one is not None)
        given.append(one if one is not None else alone[what] if is_operand else what)
    function, keywords = call.function, call.keywords
    if _is_elementwise(function):
        pairs = zip(given, mapped, strict=True)
        given = [spread(x, ndim) if is_mapped else x for x, is_mapped in pairs]
        return steered(function, *given, **keywords)
    if function in _ALONG and mapped in ([True], [True, False]) and "where" not in keywords:
        axis = given[1] if len(given) == 2 else keywords.get("axis", _ALONG[function])
        rest = {name: x for name, x in keywords.items() if name != "axis"}
        return steered(_along, given[0], function=function, axis=axis, rest=rest)
    known = OF_EACH.get(function)
    if known is not None:
        return steered(known, *given, mapped=tuple(mapped), **keywords)
    return steered(_each, *given, function=function, mapped=tuple(mapped), keywords=keywords)


def _is_elementwise(function) -> bool:
    if isinstance(function, np.ufunc):
        return function.signature is None and function.nout == 1
    return declared_by(function) is not None or function in _ELEMENTWISE


def spread(value, ndim: int):
    """An operand with the axis of elements first and `ndim` axes after it, for broadcasting."""
    array = value_of(value)
    if array.ndim > ndim:
        return value
    seen = array[(slice(None), *[None] * (ndim + 1 - array.ndim))]
    return rt.view_of(value, seen) if is_tensor(value) else seen


@named("batching.each")
def _each(*values, function, mapped, keywords):
    """A function called for each element."""
    pairs = [*zip(values, mapped, strict=True)]
    count = next(len(x) for x, is_mapped in pairs if is_mapped)
    found = [
        function(*[x[k] if is_mapped else x for x, is_mapped in pairs], **keywords)
        for k in range(count)
    ]
    return np.stack(found)


@named("batching.along")
def _along(x, function, axis, rest):
    """A function along axes of each element; None means all of them, as one."""
    shape = x.shape[1:]
    if axis is not None and shape:
        axes = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(one % len(shape) + 1 for one in axes)
        return function(x, axis=axes if isinstance(axis, tuple) else axes[0], **rest)
    keepdims = rest.get("keepdims", False)
    others = {name: value for name, value in rest.items() if name != "keepdims"}
    made = function(x.reshape(len(x), math.prod(shape)), axis=-1, **others)
    if function in _KEEPING and not shape:
        return made.reshape(x.shape)
    return made.reshape(len(x), *[1] * len(shape)) if keepdims is True else made

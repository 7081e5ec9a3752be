"""Operations on whole arrays declared in one place: value, rules, and the public function."""

from __future__ import annotations

import functools

import numpy as np

from ..codegen.layout import ARRAY
from ..ops.table import Keywords, structural
from ..tensor import runtime as rt
from ..tensor.complex_tensors import is_complex
from ..tensor.copies import in_dtype, unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import refuse, steered, tensor_like
from ..tensor.values import current, differentiates, is_recorded, is_tensor, scalar_of, value_of
from .complex_forms import declare_complex, recorded_complex
from .einsum import as_tensor, common_dtype
from .kernel_values import DOUBLE, by_kernel


class Own(np.ndarray):
    """An array that no other code can write, in the dtype and order of a row: it is not copied."""


def declared(
    *,
    vjp,
    jvp=None,
    takes_complex=None,
    complex_kernel=None,
    complex_example="",
    complex_examples=(),
    **fields,
):
    """A decorator: the function computes the value of an operation with arrays.

    Its positional arguments are the operands, its keyword arguments static. It is declared under
    its name with the rules and the other fields of `ops.table.Structural`. The function that
    replaces it takes tensors, and records one row.

    Its rules apply to complex operands, too (see `complex_forms`), if `takes_complex`, by default
    if it has a `shape`. `complex_kernel` is the value kernel of such operands, in which names of
    `codegen.elements` are of complex numbers, and `lapack` is `codegen.complex_lapack`; it may be
    that of real ones. `complex_example` and `complex_examples` are examples of that, of a real
    `x`, for tests.
    """

    def declare(value):
        doc = (value.__doc__ or "").partition("\n")[0].rstrip(".")
        name = value.__name__.lstrip("_")
        op = structural(name, value=value, vjp=vjp, jvp=jvp, doc=doc, **fields)
        if op.shape is not None if takes_complex is None else takes_complex:
            declare_complex(op, complex_kernel, complex_example, complex_examples)

        @functools.wraps(value)
        def of_tensors(*operands, **static):
            operands = [x if type(x) is Own else unlisted(x) for x in operands]
            return recorded(op, operands, static)

        return of_tensors

    return declare


def operation(*numpy_functions, method=None, **fields):
    """A decorator: `declared`, and public, for `numpy_functions` as in `registry.function`."""

    def public(value):
        return function(*numpy_functions, method=method, complex=alike)(declared(**fields)(value))

    return public


def transposed(np, x):
    """Matrices with their last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def conjugate(np, x):
    """The complex conjugate; real numbers as they are."""
    return np.conj(x) if x.dtype.kind == "c" else x


def adjoint(np, x):
    """The conjugate transposes of matrices: what rules of real and complex matrices multiply by."""
    return conjugate(np, np.swapaxes(x, -1, -2))


def joint_batch(x: tuple, y: tuple) -> tuple:
    """The shape of two batches broadcast to each other; equal ones, as most are, at once."""
    return x if x == y else np.broadcast_shapes(x, y)


def recorded(op, operands, static):
    """The value of an operation: a row if an operand is recorded."""
    if rt.trace() is None:
        made = by_kernel(op, operands, static)
        if made is not None:
            return made
        if found := ready(operands):
            return _row(op, found, static)
    if any(map(is_complex, operands)):
        return recorded_complex(recorded, op, operands, static)
    if not differentiates(*operands):
        made = _computed(op, steered, op.value, *operands, **static)
        return tensor_like(_required(op, made), *operands)
    dtype = common_dtype(op.name, *operands)
    return _row(op, [_operand(op.name, x, dtype) for x in operands], static)


def ready(operands) -> list | None:
    """Operands as a row is to refer to them, if one is recorded and none need be changed."""
    found, has_row = [], False
    for x in operands:
        kind = type(x)
        if kind is rt.Array and x._id >= 0 and x._array.dtype is DOUBLE:
            has_row = True
        elif kind is Own and x.dtype is DOUBLE:
            x = x.view(np.ndarray)
        else:
            return None
        found.append(x)
    return found if has_row and rt.is_recording() else None


def _row(op, operands, static):
    """Record the row of an operation, whose operands have one dtype."""
    values = [value_of(x) for x in operands]
    out = _computed(op, by_kernel, op, values, static)
    if out is None:
        out = _buffer(_computed(op, op.value, *values, **static), operands)
    made = rt.row(ARRAY + op.code, out, Keywords(static), *operands)
    return scalar_of(_required(op, made))


def _buffer(out, operands) -> np.ndarray:
    """A result as the buffer of a row: itself, if it is in C order and does not share memory."""
    is_whole = type(out) is np.ndarray and out.flags.c_contiguous and out.flags.writeable
    if is_whole and not any([np.may_share_memory(out, value_of(x)) for x in operands]):
        return out
    return np.array(out, order="C")


def _required(op, made):
    """Mark a result that a program must compute even if nothing reads it: it may raise."""
    trace = rt.trace()
    if trace is not None and op.may_refuse and is_tensor(made):
        trace.required.append(made)
    return made


def _computed(op, function, /, *operands, **static):
    """Call a function for an operation; a trace in which it raises makes no program.

    A caller that catches the error takes another branch, which no recorded row shows.
    """
    try:
        return function(*operands, **static)
    except Exception as error:
        refuse(f"{op.name} raises {type(error).__name__}")
        raise


def _operand(name: str, x, dtype):
    """An operand in the dtype of the row; a constant as a copy, which the caller cannot write."""
    if type(x) is Own:
        return x.view(np.ndarray)
    if type(x) is rt.Array:
        x = current(x)
        if x._id >= 0 and x._array.dtype is dtype:
            return x
    x = as_tensor(name, x)
    return in_dtype(x, dtype) if is_recorded(x) else np.array(value_of(x), dtype, order="C")

"""Operations on whole arrays declared in one place: value, rules, the public function."""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.layout import ARRAY
from ..ops.table import COMPLEX, Keywords, Structural, structural
from ..sweep import kernels
from ..tensor import runtime as rt
from ..tensor.copies import empty, in_dtype, unlisted
from ..tensor.registry import alike, function
from ..tensor.trace import refuse, steered, tensor_like
from ..tensor.values import (
    ComplexTensor,
    combined,
    current,
    differentiates,
    dtype_of,
    imag_part,
    is_complex,
    is_recorded,
    is_tensor,
    real_part,
    scalar_of,
    value_of,
)
from .einsum import as_tensor, common_dtype
from .joining import stack

# --- Operations with several outputs: one row, whose output holds them stacked --------------------


def packed(np, *parts, own):
    """Arrays of one batch stacked along a last axis; `own` counts the axes of each part.

    Applied to values, or in a rule of their derivatives: `np` is the namespace of the rule.
    """
    flat = [
        np.reshape(x, (*x.shape[: x.ndim - n], math.prod(x.shape[x.ndim - n :])))
        for x, n in zip(parts, own, strict=True)
    ]
    return np.concatenate(flat, axis=-1)


def parts_of(x, *shapes) -> list:
    """The parts, with these shapes without the axes in front, of a stacked array.

    `x` is an array or a tensor, an output or derivatives of one.
    """
    found, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        found.append(x[..., start:stop].reshape(*x.shape[:-1], *shape))
        start = stop
    return found


def size_of(*shapes) -> int:
    """The length of the axis that holds parts of these shapes."""
    return sum(math.prod(shape) for shape in shapes)


# --- Values of declared operations by their compiled kernels, as programs compute them ------------
# For small matrices NumPy's functions spend more time on their arguments than on arithmetic.


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


# --------------------------------------------------------------------------------------------------
# Complex operands of declared operations: a second row, of real arrays with an axis of two parts.
# `value` is computed on complex arrays. The rules are the texts of the declaration: they are called
# with complex arrays, and where something is recorded with complex tensors, made of the parts.


_OF_WIDTH = {4: np.complex64, 8: np.complex128}


def whole(x):
    """The complex value of an array or a tensor whose last axis holds two parts."""
    if isinstance(x, rt.Tensor):
        return combined(x[..., 0], x[..., 1])
    x = np.ascontiguousarray(x)
    return x.view(_OF_WIDTH[x.dtype.itemsize])[..., 0]


def parted(z):
    """A real array, or a tensor, with the parts of a value along a last axis."""
    if isinstance(z, (ComplexTensor, rt.Tensor)):
        re, im = real_part(z), imag_part(z)
        im = np.zeros(np.shape(re), dtype_of(re)) if isinstance(im, float) else im
        return stack([re, im], axis=-1)
    z = np.asarray(z)
    z = np.array(z, np.complex64 if z.dtype in (np.float32, np.complex64) else np.complex128)
    return z[..., None].view(z.real.dtype)


def _value_of(op: Structural):
    def value(*operands, **static):
        return parted(op.value(*map(whole, operands), **static))

    vars(value)["__signature__"] = inspect.signature(op.value)
    value.__doc__, value.__name__ = op.value.__doc__, op.value.__name__
    return value


def _parted_or_none(part):
    """A derivative as its parts; of a function, a function that gives them."""
    if part is None:
        return None
    return (lambda: parted(part())) if callable(part) else parted(part)


def _vjp_of(rule):
    @functools.wraps(rule)
    def vjp(np, g, out, *operands, **static):
        found = rule(np, whole(g), whole(out), *map(whole, operands), **static)
        return tuple(map(_parted_or_none, found))

    return vjp


def _jvp_of(rule):
    @functools.wraps(rule)
    def jvp(np, t, out, *operands, **static):
        t = [None if one is None else whole(one) for one in t]
        return _parted_or_none(rule(np, t, whole(out), *map(whole, operands), **static))

    return jvp


def _shape_of(op: Structural):
    if op.shape is None:
        return None

    def shape(*shapes, **static):
        if any(one[-1:] != (2,) for one in shapes):
            raise ValueError(
                f"{op.name} of complex numbers does not accept operands of shapes {shapes}"
            )
        return (*op.shape(*[one[:-1] for one in shapes], **static), 2)

    return shape


def declare_complex(
    op: Structural, kernel: Callable | None, example: str, examples: tuple[str, ...]
) -> Structural:
    """Declare the treatment of complex operands by an operation, under its name and `.complex`."""
    return structural(
        f"{op.name}.complex",
        table=COMPLEX,
        value=_value_of(op),
        vjp=_vjp_of(op.vjp),
        jvp=op.jvp and _jvp_of(op.jvp),
        shape=_shape_of(op),
        value_kernel=kernel,
        helpers=op.helpers,
        refusal=op.refusal,
        constant=op.constant,
        in_pairs=True,
        batch=op.batch,
        batched=op.batched and _jvp_of(op.batched),
        domain=op.domain,
        doc=f"{op.doc}, of complex numbers".strip(),
        awkward=op.awkward,
        graph=op.graph,
        example=example,
        examples=examples,
    )


def form_of(op: Structural) -> Structural | None:
    """The operation on complex operands that belongs to one, or None."""
    return COMPLEX.get(f"{op.name}.complex")


def recorded_complex(record, op: Structural, operands, static):
    """The value of an operation with a complex operand; `record` records a row of real ones."""
    if not any(isinstance(x, (ComplexTensor, rt.Tensor)) for x in operands):
        return op.value(*operands, **static)
    form = form_of(op)
    if form is None:
        raise TypeError(
            f"tapegrad.{op.name}: an operand is complex, which {op.name} does not take; use it on "
            "z.real and z.imag"
        )
    return whole(record(form, [parted(x) for x in operands], static))


# --- Operations on whole arrays declared in one place: value, rules, and the public function ------


class Own(np.ndarray):
    """An array that no other code can write, in the dtype and order of a row: it is not copied."""


def declared(
    *,
    vjp,
    jvp=None,
    is_linear=False,
    takes_complex=None,
    complex_kernel=None,
    complex_example="",
    complex_examples=(),
    **fields,
):
    """A decorator: the function computes the value of an operation with arrays.

    Its positional arguments are the operands, its keyword arguments static. It is declared under
    its name with the rules and the other fields of `ops.table.Structural`. The function that
    replaces it takes tensors, and records one row. If it is linear in its only operand, it is its
    own `jvp`.

    Its rules apply to complex operands, too (see above), if `takes_complex`, by default
    if it has a `shape`. `complex_kernel` is the value kernel of such operands, in which names of
    `codegen.elements` are of complex numbers, and `lapack` is `codegen.complex_lapack`; it may be
    that of real ones. `complex_example` and `complex_examples` are examples of that, of a real
    `x`, for tests.
    """

    def declare(value):
        doc = (value.__doc__ or "").partition("\n")[0].rstrip(".")
        name = value.__name__.lstrip("_")
        rule = (lambda np, t, *_, **static: of_tensors(t[0], **static)) if is_linear else jvp
        op = structural(name, value=value, vjp=vjp, jvp=rule, doc=doc, **fields)
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

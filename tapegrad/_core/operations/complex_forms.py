"""Complex operands of declared operations: a second row, of real arrays with an axis of two parts.

`value` is computed on complex arrays. The rules are the texts of the declaration: they are called
with complex arrays, and where something is recorded with complex tensors, made of the parts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from ..ops.table import COMPLEX, Structural, structural
from ..tensor import runtime as rt
from ..tensor.complex_tensors import (
    ComplexTensor,
    combined,
    imag_part,
    real_part,
)
from ..tensor.values import dtype_of
from .joining import stack

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

"""Copies of values: memory that is used again, memory orders, rows of linked views."""

from __future__ import annotations

import functools
import math
import sys

import numpy as np

from ..codegen import process
from ..codegen.layout import ARRAY, LARGE, ROWS
from ..ops import copy_add as kernels
from ..ops.table import structural
from ..tape.sweeps import copy_axes, dense, inverse, memory_axes
from . import runtime as rt
from .trace import named, of_each, steered
from .values import (
    FLOATS,
    ComplexTensor,
    array_of,
    combined,
    current,
    imag_part,
    is_complex,
    is_container,
    is_number,
    is_recorded,
    is_tensor,
    plain_array,
    real_part,
    records,
    scalar_of,
    storage_of,
    value_of,
)

# --- Memory for large results, used again once nothing refers to it -------------------------------
# A recorded program keeps its intermediate arrays alive and frees all of them after the sweep;
# fresh pages from the system for each of them would cost more than the arithmetic.


#: Large results begin with a page. NumPy's large arrays begin 16 bytes after one, so that stores of
#: a loop never alias its next loads: processors compare twelve bits first.
PAGE = 4096
#: The most bytes that are kept idle.
KEPT = 512 << 20

_lock = process.lock()
_blocks: dict[int, list[np.ndarray]] = {}  # bytes → memory, in use or not
_total = 0


def _is_idle(blocks, k) -> bool:
    """Whether nothing but the list refers to a block."""
    return sys.getrefcount(blocks[k]) == 2


def empty(shape, dtype=np.float64) -> np.ndarray:
    """An uninitialised array in C order, like np.empty; a large one begins with a page."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    with _lock:
        block = _take(size)
    start = -block.ctypes.data % PAGE
    return block[start : start + size].view(dtype).reshape(shape)


def maker(shape, dtype: np.dtype):
    """The function of a shape by which arrays of this shape and dtype are made best."""
    make = empty if dtype.itemsize * math.prod(shape) >= LARGE else np.empty
    return make if dtype == np.float64 else functools.partial(make, dtype=dtype)


def _take(size: int) -> np.ndarray:
    global _total
    blocks = _blocks.setdefault(size, [])
    for k in range(len(blocks)):
        if _is_idle(blocks, k):
            return blocks[k]
    if _total + size > KEPT:
        _drop_idle()
    block = np.empty(size + PAGE, np.uint8)
    if _total + size <= KEPT:
        blocks.append(block)
        _total += size
    return block


def _drop_idle() -> None:
    """Forget blocks that are not in use; the system gets their memory back."""
    global _total
    for size, blocks in list(_blocks.items()):
        for k in reversed(range(len(blocks))):
            if _is_idle(blocks, k):
                del blocks[k]
                _total -= size
        if not blocks:
            del _blocks[size]


def copy_of(array: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    made = empty(array.shape, array.dtype)
    made[...] = array
    return made


def copy_in_order(array: np.ndarray) -> np.ndarray:
    """A copy in the memory order of the array, as np.array(array) is."""
    axes = copy_axes(array)
    if axes is None:
        return copy_of(array)
    return copy_of(array.transpose(axes)).transpose(inverse(axes))


# --- Results with NumPy's memory order, on rows in C order ----------------------------------------
# A row has its result in C order. If NumPy's result has another order, the row is of the operands
# and the result with their axes in the order of memory; the user gets a view of it, transposed
# back.


def row_on(op: int, out: np.ndarray, *operands):
    """Append a row whose result `out` may be in any order; its operands name views of `out`.

    `out` must have no gaps.
    """
    axes = memory_axes(out)
    if axes is None:
        return rt.row(op, out, *operands)
    return rt.view_of(rt.row(op, out.transpose(axes), *operands), out)


def transposed(operand, axes):
    """An operand as one of a result whose axes are transposed; numbers stay."""
    array = value_of(operand)
    if not isinstance(array, np.ndarray) or not array.ndim:
        return operand
    seen = array[(None,) * (len(axes) - array.ndim)].transpose(axes)
    return rt.view_of(current(operand), seen) if is_recorded(operand) else seen


def in_order(out: np.ndarray, operands, record):
    """The tensor that `record(out, operands)` gives, called with axes in the order of memory.

    For rows in which every element of the result is of the same element of each operand.
    """
    out = dense(out)
    axes = memory_axes(out)
    if axes is None:
        return record(out, operands)
    made = record(out.transpose(axes), [transposed(operand, axes) for operand in operands])
    return rt.view_of(made, out)


def order_of(values) -> tuple[int, ...] | None:
    """The `memory_axes` of what NumPy's element-wise functions give for values."""
    arrays = [value for value in values if isinstance(value, np.ndarray) and value.ndim]
    if all([array.flags.c_contiguous for array in arrays]):
        return None
    made = np.nditer([*arrays, None], ["zerosize_ok"]).operands[-1]
    return memory_axes(made)


def backwards(array: np.ndarray, axes) -> np.ndarray:
    """An array whose axes were transposed, in its own order."""
    return array.transpose(inverse(axes))


# --- Rows of linked views, which sums, copies, joins and pads share; lists as arrays --------------


# --- declarations -----------------------------------------------------------------------------


def link_vjp(np, g, _out, *_sources, targets):
    """The adjoint of each operand is that of the output through the same views."""
    return tuple([lambda target=target: np.seen_as(g, _out, target) for target in targets])


def link_jvp(np, t, _out, *_sources, targets):
    pairs = [(one, target) for one, target in zip(t, targets, strict=True) if one is not None]
    return np.joined(_out, pairs) if pairs else None


def link_batched(np, t, _out, *sources, targets):
    pairs = [
        (np.repeated(source, t) if one is None else one, target)
        for one, source, target in zip(t, sources, targets, strict=True)
    ]
    return np.linked(_out, pairs)


def _name_of_link(found) -> str:
    *pairs, _ = found
    if len(pairs) > 2:
        return "CatBackward0"
    target = pairs[1][1]
    summed = any(s == 0 and n > 1 for s, n in zip(target.strides, target.shape, strict=True))
    return "SumBackward0" if summed else "CloneBackward0"


LINK = (
    ARRAY
    + structural(
        "link",
        kernels.link_adjoint,
        tangent=kernels.link_tangent,
        vjp=link_vjp,
        jvp=link_jvp,
        batched=link_batched,
        layout="links",
        example="np.concatenate([x, x])",
        examples=("np.sum(x, 0)", "np.concatenate([x, x[:, ::-1]], 1)", "np.copy(x.T)"),
        doc="sums, copies and joins: views of operands onto the output",
        graph=_name_of_link,
    ).code
)


def pack_vjp(np, g, _out, *_scalars):
    lead = g.shape[: g.ndim - _out.ndim]
    flat = np.reshape(g, (*lead, _out.size))
    before = (slice(None),) * len(lead)
    return tuple([lambda k=k: flat[(*before, k)] for k in range(_out.size)])


def pack_jvp(np, t, _out, *_scalars):
    zero = np.zeros(next(one.shape for one in t if one is not None))
    columns = np.stack([zero if one is None else one for one in t], -1)
    return np.reshape(columns, (len(zero), *_out.shape))


def pack_batched(np, t, _out, *scalars):
    columns = [np.repeated(one, t) if x is None else x for x, one in zip(t, scalars, strict=True)]
    return np.reshape(np.stack(columns, -1), (len(columns[0]), *_out.shape))


PACK = (
    ARRAY
    + structural(
        "pack",
        kernels.pack_adjoint,
        tangent=kernels.pack_tangent,
        vjp=pack_vjp,
        jvp=pack_jvp,
        batched=pack_batched,
        layout="operands",
        example="np.stack([x[0], x[1]])",
        examples=("tg.asarray([[x[0, 1], 2.0], [x[1, 0], x[0, 1]]])",),
        doc="scalars side by side in a new array",
        graph="StackBackward0",
    ).code
)


def convert_vjp(np, g, _out, _x):
    return (g,)


def convert_jvp(np, t, _out, _x):
    return t[0]


def convert_batched(np, t, _out, _x):
    return t[0].astype(_out.dtype)


CONVERT = (
    ARRAY
    + structural(
        "convert",
        kernels.convert_adjoint,
        vjp=convert_vjp,
        jvp=convert_jvp,
        batched=convert_batched,
        layout="operands",
        helpers=(kernels.convert_add,),
        example="x.astype(np.float32)",
        examples=("x.T.astype(np.float32)",),
        doc="another floating dtype",
        graph="ToCopyBackward0",
    ).code
)


# --- rows -------------------------------------------------------------------------------------


def convert(tensor, dtype, order="K"):
    """A recorded array tensor in float64 or float32; other dtypes raise TypeError."""
    if dtype not in FLOATS:
        raise TypeError(
            f"tapegrad: a recorded tensor cannot become {dtype}; only float64 and float32 have "
            "derivatives: use one of these, or detach()"
        )
    return in_order(tensor._array.astype(dtype, order), [tensor], _converted)


def _converted(out, operands):
    return rt.row(CONVERT, out, *operands)


def in_dtype(operand, dtype):
    """An operand in the dtype of a row: a recorded conversion, or a converted constant."""
    kind = type(operand)
    if not is_recorded(operand):
        return np.asarray(value_of(operand), dtype)
    if kind is rt.Scalar:
        return operand if dtype == np.float64 else convert(pack(operand), dtype)
    if operand._array.dtype not in FLOATS:
        return steered(np.asarray, operand, dtype=dtype)
    return operand if operand._array.dtype == dtype else convert(operand, dtype)


def link(out: np.ndarray, pairs):
    """Record `out`, whose value is known and which has no gaps, as the sum of views of operands.

    `pairs` are (view of an operand: tensor or array, view of `out` of the same shape). Operands
    without derivative are left out.
    """
    references = []
    for operand, target in pairs:
        if is_tensor(operand) and operand._id >= 0:
            references += [operand, target]
    return row_on(LINK, out, *references)


def joined(out: np.ndarray, axis: int, pieces: list):
    """Record `out` as pieces along an axis, in their order: (operand, first, end) of each.

    Without an end it is the element at `first`. A row's references must fit in a chunk: of many
    pieces blocks are joined first.
    """
    before = (slice(None),) * axis
    while len(pieces) > ROWS:
        pieces = [_block(out, axis, pieces[k : k + ROWS]) for k in range(0, len(pieces), ROWS)]
    places = [first if end is None else slice(first, end) for _, first, end in pieces]
    targets = [out[(*before, place, ...)] for place in places]
    return link(out, [(piece[0], target) for piece, target in zip(pieces, targets, strict=True)])


def _block(out: np.ndarray, axis: int, pieces: list) -> tuple:
    """Neighbouring pieces as one."""
    (_, start, _), (_, last, stop) = pieces[0], pieces[-1]
    stop = last + 1 if stop is None else stop
    block = np.array(out[(slice(None),) * axis + (slice(start, stop),)])
    moved = [(x, first - start, end if end is None else end - start) for x, first, end in pieces]
    return joined(block, axis, moved) if records(*[x for x, *_ in pieces]) else block, start, stop


def as_number(operand):
    """An operand of a row of numbers: a scalar, or a number if it is not recorded."""
    if is_recorded(operand):
        return scalar_of(in_dtype(operand, np.dtype(np.float64)))
    return float(value_of(operand))


def pack(*scalars, shape=()):
    """Scalars and numbers as one new tensor of `shape`, in C order; recorded if one of them is."""
    values = [float(value_of(s)) for s in scalars]
    out = np.array(values, np.float64).reshape(shape)
    if not any([is_recorded(s) for s in scalars]):
        return rt.wrap(out)
    if len(scalars) > ROWS:  # a row's references must fit in a chunk
        flat, pairs = out.reshape(-1), []
        for k in range(0, len(scalars), ROWS):
            target = flat[k : k + ROWS]
            pairs.append((pack(*scalars[k : k + ROWS], shape=target.shape), target))
        return link(out, pairs)
    return rt.row(PACK, out, *[as_number(s) for s in scalars])


def view_like(tensor, array: np.ndarray):
    """A tensor on `array`, which is a view of the value of `tensor`.

    For a number, which has no views in NumPy, it is a copy that can be written.
    """
    if type(tensor) is rt.Scalar and tensor._id >= 0:
        raise AssertionError("a view of a recorded number, which has no buffer")
    made = rt.view_of(current(tensor), array)
    if array.ndim and array.size == 1 and tensor._array.ndim == 0 and is_number(tensor):
        return copy_tensor(made)
    if made._id < 0:
        share(tensor, made)
    return made


def share(tensor, made) -> None:
    """Let `made` belong to the same buffer as `tensor`, which is not recorded."""
    made._meta = storage_of(tensor)


def copy_tensor(tensor, order="C"):
    """A new tensor with the same value, in C order or another order of NumPy."""
    if not records(tensor):
        return rt.wrap(np.array(array_of(tensor), order=order))
    if type(tensor) is rt.Scalar:
        return pack(tensor)
    out = tensor._array.copy(order=order)
    return link(out, [(tensor, out)])


def copied_number(tensor):
    """An element as a number: later writes to its array do not change it."""
    made = copy_tensor(tensor)
    made._array.flags.writeable = False
    return made


def holds_tensor(sequence) -> bool:
    return any(
        isinstance(item, (rt.Tensor, ComplexTensor))
        or (isinstance(item, (list, tuple)) and holds_tensor(item))
        for item in sequence
    )


def unlisted(operand):
    """Lists that hold tensors as one tensor; other lists as arrays; everything else as it is.

    Series, frames and the like become arrays. An array of another class than NumPy's raises
    TypeError.
    """
    kind = type(operand)
    if kind is rt.Scalar or kind is rt.Array or kind is float:
        return operand
    if not isinstance(operand, (list, tuple)):
        if isinstance(operand, np.ndarray):
            return plain_array(operand)
        return np.asarray(operand) if is_container(operand) else operand
    for item in operand:
        if isinstance(item, np.ndarray):
            plain_array(item)
    if not holds_tensor(operand):
        return np.asarray(operand)
    items = [unlisted(item) for item in operand]
    return stack_equal(items)


def stack_equal(items):
    """Tensors, arrays and numbers of one shape, one after the other along a new first axis."""
    if any(map(is_complex, items)):
        parts = [stack_equal([part(item) for item in items]) for part in (real_part, imag_part)]
        return combined(*parts)
    shapes = {np.shape(value_of(item)) for item in items}
    if len(shapes) > 1:
        raise ValueError(
            f"tapegrad.stack: the items have shapes {sorted(shapes)}; they must be equal"
        )
    if np.result_type(*[value_of(item) for item in items]).kind in "biu":
        made = steered(_stacked, *items)
        return made if is_tensor(made) else rt.wrap(made)
    if shapes == {()} and all(np.result_type(value_of(i)) != np.float32 for i in items):
        if not records(*items):
            return rt.wrap(np.array([value_of(i) for i in items]))
        return pack(*[scalar_of(i) for i in items], shape=(len(items),))
    arrays = [array_of(item) for item in items]
    out = np.stack(arrays)
    if not records(*items):
        return rt.wrap(out)
    items = [pack(item) if type(item) is rt.Scalar else item for item in items]
    return joined(out, 0, [(in_dtype(item, out.dtype), k, None) for k, item in enumerate(items)])


@named("linking.stacked")
def _stacked(*values):
    return np.stack(values)


@of_each(_stacked, "linking.stacked_each")
def _stacked_each(*values, mapped):
    count = next(len(x) for x, is_mapped in zip(values, mapped, strict=True) if is_mapped)
    shape = next(x.shape for x, is_mapped in zip(values, mapped, strict=True) if is_mapped)
    pairs = zip(values, mapped, strict=True)
    every = [x if m else np.broadcast_to(x, (count, *shape[1:])) for x, m in pairs]
    return np.stack(every, 1)

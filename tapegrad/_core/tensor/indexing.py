"""Reading and writing parts of a tensor: views, gathered elements, and writes in place."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.layout import ARRAY, CONSTANT
from ..ops import gather as _declarations
from ..ops import gather as kernels
from ..ops.table import BY_CODE, TABLE, structural
from ..sweep.kernels import compile_structural
from ..tape import store
from ..tape.sweeps import covering, dense, memory_axes
from . import callers
from . import runtime as rt
from .apply import apply
from .conversions import without_derivative
from .copies import (
    copied_number,
    copy_tensor,
    empty,
    in_dtype,
    pack,
    transposed,
    unlisted,
    view_like,
)
from .trace import named, of_each, steered
from .values import (
    FLOATS,
    Storage,
    array_of,
    before_write,
    check_recordable,
    current,
    dtype_of,
    is_complex,
    is_recorded,
    is_relied_on,
    is_tensor,
    meta_of,
    plain_array,
    records,
    renew,
    scalar_of,
    shape_of,
    value_of,
    wrap,
)

# --------------------------------------------------------------------------------------------------
# Positions of what an advanced key picks from an array: of whole rows where it takes all of them.
# The axes of a key are the first ones of the array, without the last ones of which it takes all, in
# order: what it picks are rows along these, by their positions among all rows in C order.


#: Elements of rows from which on they are taken as such.
MANY = 1 << 10


def as_tuple(key) -> tuple:
    return key if isinstance(key, tuple) else (key,)


def axes_and_parts(shape, key) -> tuple[tuple[int, ...], tuple]:
    """The lengths of the axes of an advanced key, and its parts without what takes whole axes."""
    parts = as_tuple(key)
    while parts and _is_whole(parts[-1]):
        parts = parts[:-1]
    taken = len(as_tuple(key)) - len(parts)
    parts = parts[:-1] if parts[-1] is Ellipsis else parts
    if any(part is Ellipsis for part in parts):
        count = len(shape) - taken
    else:
        count = sum(map(_axes_of, parts))
    if not count or not math.prod(shape[count:]):
        return shape, as_tuple(key)
    return shape[:count], parts


def _is_whole(part) -> bool:
    return type(part) is slice and part.start is part.stop is part.step is None


def _axes_of(part) -> int:
    """The number of axes that a part of a key stands for."""
    if type(part) is np.ndarray:
        return part.ndim if part.dtype == bool else 1
    if part is None:
        return 0
    if isinstance(part, slice):
        return 1
    array = array_of(part) if is_tensor(part) else np.asarray(part)
    return array.ndim if array.dtype == bool else 1


def steered_positions(shape, key):
    """The `positions` of a key; in a trace, if it holds recorded tensors, a recorded tensor.

    They are those of rows.
    """
    axes, parts = axes_and_parts(shape, key)
    parts = tuple([unlisted(p) if isinstance(p, list) and p else p for p in parts])
    parts = tuple([plain_array(p) if isinstance(p, np.ndarray) else p for p in parts])
    for part in parts:
        if rt.trace() is not None and is_recorded(part) and dtype_of(part).kind == "b":
            rt.trace().learn(steered(np.count_nonzero, part), "how many a mask picks")
    return steered(_positions_of, *parts, shape=axes, is_tuple=len(parts) > 1)


def rows_at(array: np.ndarray, key) -> np.ndarray:
    """`array[key]`, which takes NumPy three times as long for rows by index."""
    if type(key) is not np.ndarray or key.dtype == bool or array.ndim < 2:
        return array[key]
    if not np.can_cast(key.dtype, np.intp):
        return array[key]
    if key.size * array.size < MANY * (len(array) or 1) or not array.flags.c_contiguous:
        return array[key]
    out = empty((*key.shape, *array.shape[1:]), array.dtype)
    low, high = key.min(), key.max()
    if low < -len(array) or high >= len(array):
        return array[key]  # raises NumPy's own error
    return np.take(array, key, axis=0, out=out, mode="wrap")


def of_elements(picked, shape: tuple[int, ...]):
    """The positions of all elements, in a shape, of the rows at positions."""
    same = shape_of(picked) == shape
    return picked if same else steered(_positions_of_elements, picked, shape=shape)


@named("indexing.positions_of_elements")
def _positions_of_elements(picked, shape):
    picked = np.asarray(picked, np.int64)
    width = math.prod(shape) // (picked.size or 1)
    return np.add.outer(picked * width, np.arange(width)).reshape(shape)


@named("indexing.positions_of")
def _positions_of(*parts, shape, is_tuple):
    return np.asarray(positions(shape, parts if is_tuple else parts[0]), order="C")


@of_each(_positions_of, "indexing.positions_of_each")
def _positions_of_each(*parts, shape, is_tuple, mapped):
    """A further index, of the element, comes first; with it NumPy puts index axes first."""
    count = next(len(part) for part, is_mapped in zip(parts, mapped, strict=True) if is_mapped)
    picks = [k for k, part in enumerate(parts) if isinstance(part, (np.ndarray, int, np.integer))]
    if any(np.asarray(parts[k]).dtype == bool for k in picks):
        each = [
            [p[n] if m else p for p, m in zip(parts, mapped, strict=True)] for n in range(count)
        ]
        return np.stack([_positions_of(*one, shape=shape, is_tuple=is_tuple) for one in each])
    ndim = max(np.ndim(parts[k]) - mapped[k] for k in picks)
    axes = [
        part.reshape(count, *[1] * (ndim + 1 - part.ndim), *part.shape[1:]) if is_mapped else part
        for part, is_mapped in zip(parts, mapped, strict=True)
    ]
    own = np.arange(count).reshape(count, *[1] * ndim)
    found = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), (count, *shape))
    found = found[(own, *axes)]
    before = 0 if picks[-1] - picks[0] >= len(picks) else _axes_before(parts, picks[0], len(shape))
    return np.moveaxis(found, range(1, 1 + ndim), range(1 + before, 1 + before + ndim))


def _axes_before(parts, stop: int, ndim: int) -> int:
    """The number of axes of the result before one of the parts of a key."""
    rest = ndim - sum(part is not None and part is not Ellipsis for part in parts)
    return sum(rest if part is Ellipsis else 1 for part in parts[:stop])


def positions(shape, key) -> np.ndarray:
    """Positions in C order of the elements that an advanced key picks from an array of `shape`."""
    size = int(np.prod(shape, dtype=np.int64))
    if isinstance(key, np.ndarray) and key.dtype == bool and key.shape == shape:
        return np.flatnonzero(key)
    if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and len(shape) == 1:
        picked = key.astype(np.int64)
        low, high = picked.min(initial=0), picked.max(initial=0)
        if low < -size or high >= size:
            np.empty(size, np.uint8)[key]  # raises NumPy's own error
        return picked if low >= 0 else np.where(picked < 0, picked + size, picked)
    return np.arange(size, dtype=np.int64).reshape(shape)[key]


# --- Elements picked by positions, and added at positions: each the transpose of the other --------
# A position stands for a row: as many elements, counted in C order, as there are to each position.


#: Elements from which on rows are added by a kernel: NumPy takes as long for fewer.


def elements(x, key):
    """`x[key]`, recorded also where in a trace the positions are and `x` is a plain array."""
    plain = rt.trace() is not None and not isinstance(x, rt.Tensor)
    return (rt.wrap(np.asarray(x)) if plain else x)[key]


def scatter_add(x, picked, size: int):
    """An array of `size` zeros to which the rows of `x` are added at positions of rows of it."""
    x = pack(x) if type(x) is rt.Scalar else x
    out = added(array_of(x), array_of(picked), size)
    if not records(x, picked):
        return wrap(out)
    if not is_tensor(x) and not isinstance(x, np.ndarray):
        x = np.asarray(x)
    return rt.row(SCATTER_ADD, out, x, picked)


def added(x: np.ndarray, picked: np.ndarray, size: int) -> np.ndarray:
    """The sums of `scatter_add`, in order."""
    picked = np.ascontiguousarray(picked, np.int64)
    width = width_of(x.size, picked)
    if width == 1 or x.size < MANY or not x.flags.aligned:
        out = np.zeros((size // width, width) if width > 1 else size, x.dtype)
        np.add.at(out, picked.ravel(), x.reshape(-1, width) if width > 1 else x.ravel())
        return out.reshape(size)
    out = empty((size,), x.dtype)
    references = [word for array in (x, picked, out) for word in (id(array), 0)]
    memory = (ctypes.c_int64 * (len(references) + layout.FRAME_BYTES // 8))(*references)
    at = ctypes.addressof(memory)
    _kernel(x.dtype.itemsize)(at + 8 * len(references), 0, at, 0)
    return out


@functools.cache
def _kernel(item: int) -> Callable[..., Any]:
    """The value kernel of scatter-add for elements of so many bytes, called without the lock."""
    address = compile_structural(BY_CODE[SCATTER_ADD - ARRAY], kernels.scatter_add_forward, item)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)


def _scatter_add_each(np, x, picked, size: int, lead: tuple):
    """`scatter_add` of each array along the first axis; of the whole one without `lead`."""
    if not lead:
        return scatter_add(x, picked, size)
    (count,) = lead
    rows = size // width_of(math.prod(x.shape[1:]), picked)
    places = steered(_repeated, picked, directions=count, size=rows)
    return np.reshape(scatter_add(x, places, count * size), (count, size))


def width_of(size: int, picked) -> int:
    """The elements of a row, where the rows at some positions have `size` elements; at least 1."""
    return size // (math.prod(shape_of(picked)) or 1) or 1


@named("tangent_rules.repeated")
def _repeated(positions, directions, size):
    """Positions in contiguous arrays of a size, in each of them."""
    return np.asarray(positions, np.int64).ravel() + size * np.arange(directions)[:, None]


def _elements_of_each(np, x, picked, shape):
    """The rows at positions of arrays with one axis, in a shape; of each of several."""
    lead, width = x.shape[:-1], width_of(math.prod(shape), picked)
    rows = np.reshape(x, (*lead, x.shape[-1] // width, width))
    found = elements(rows, (slice(None),) * len(lead) + (picked,))
    return np.reshape(found, (*lead, *shape))


def gather_vjp(np, g, _out, _x, picked):
    lead = g.shape[: g.ndim - _out.ndim]
    spread = lambda: _scatter_add_each(np, g, picked, _x.size, lead)
    return (lambda: np.reshape(spread(), (*lead, *_x.shape)), None)


def gather_jvp(np, t, _out, _x, picked):
    if t[0] is None:  # the positions alone are recorded, in a trace
        return None
    flat = np.reshape(t[0], (len(t[0]), _x.size))
    return _elements_of_each(np, flat, picked, _out.shape)


@named("indexing.in_each")
def _in_each(positions, size):
    """Positions in contiguous arrays of a size: a first axis for each of them."""
    flat = np.asarray(positions, np.int64).reshape(len(positions), -1)
    return flat + size * np.arange(len(flat))[:, None]


def gather_batched(np, t, _out, x, picked):
    """With positions of their own, elements are picked from all operands as one."""
    if t[1] is None:
        return gather_jvp(np, t, _out, x, picked)
    places, width = t[1], width_of(_out.size, picked)
    if t[0] is not None:
        x, places = t[0], steered(_in_each, places, size=x.size // width)
    rows = np.reshape(x, (math.prod(shape_of(x)) // width, width))
    return np.reshape(elements(rows, places), (len(t[1]), *_out.shape))


#: What a program says of an index that it has computed.
OUTSIDE = "tapegrad: an index computed by the program is outside its array"
GATHER = (
    ARRAY
    + structural(
        "gather",
        kernels.gather_adjoint,
        vjp=gather_vjp,
        jvp=gather_jvp,
        batched=gather_batched,
        layout="operands",
        helpers=kernels.GATHER_HELPERS,
        example="x[np.arange(len(x))]",
        examples=("x[[0, 2, 2], [1, 0, 0]]", "np.take(x, [[0, 0], [1, 1]], 1)"),
        doc="elements picked by index arrays or masks; repeated ones accumulate",
        graph="IndexBackward0",
    ).code
)


def scatter_add_vjp(np, g, _out, _x, picked):
    return (lambda: _elements_of_each(np, g, picked, _x.shape), None)


def scatter_add_jvp(np, t, _out, _x, picked):
    return None if t[0] is None else _scatter_add_each(np, t[0], picked, _out.size, t[0].shape[:1])


def scatter_add_batched(np, t, _out, x, picked):
    """With positions of their own, elements are added to all outputs as one."""
    if t[1] is None:
        return scatter_add_jvp(np, t, _out, x, picked)
    count = len(t[1])
    rows = _out.size // width_of(x.size, picked)
    x = np.repeated(x, t) if t[0] is None else t[0]
    places = steered(_in_each, t[1], size=rows)
    return np.reshape(scatter_add(x, places, count * _out.size), (count, *_out.shape))


SCATTER_ADD = (
    ARRAY
    + structural(
        "scatter_add",
        kernels.scatter_add_adjoint,
        vjp=scatter_add_vjp,
        jvp=scatter_add_jvp,
        batched=scatter_add_batched,
        value_kernel=kernels.scatter_add_forward,
        layout="scatter_add",
        helpers=kernels.SCATTER_ADD_HELPERS,
        refusal=lambda _: IndexError(OUTSIDE),
        example="tg.grad(lambda t: np.sum(t[np.arange(len(x))] ** 2))(x)",
        examples=("tg.grad(lambda t: np.sum(t[[0, 2, 2]] ** 3))(x)",),
        doc="elements added at positions of an array of zeros: the transpose of gather",
        graph="IndexPutBackward0",
    ).code
)


# --- Reading and writing parts of a tensor: views, gathered elements, and writes in place ---------


assert _declarations
SCATTER, WRITE = (ARRAY + TABLE[name].code for name in ("scatter", "write"))


def _plain_key(key):
    """A key as NumPy takes it: tensors in it become arrays, lists of tensors too."""
    if isinstance(key, tuple):
        return tuple([_plain_key(part) for part in key])
    if type(key) is slice:
        return _plain_slice(key)
    if isinstance(key, np.ndarray):
        return plain_array(key)
    key = unlisted(key) if isinstance(key, list) and key else key
    if not is_tensor(key):
        return key
    value = array_of(key)
    if value.dtype.kind not in "biu":
        raise IndexError(
            f"tapegrad.getitem: an index has dtype {value.dtype}; indices are integers or "
            "booleans: convert it with astype(int)"
        )
    return value


def _plain_slice(key):
    return slice(
        *[operator.index(p) if is_tensor(p) else p for p in (key.start, key.stop, key.step)]
    )


def is_basic(key) -> bool:
    """Whether NumPy answers this key with a view."""
    if type(key) is slice:
        return True
    parts = key if isinstance(key, tuple) else (key,)
    return all(
        part is None
        or part is Ellipsis
        or isinstance(part, slice)
        or (isinstance(part, (int, np.integer)) and not isinstance(part, bool))
        for part in parts
    )


def get_item(tensor, key):
    """`tensor[key]` for every key that NumPy accepts."""
    given, key = key, _plain_key(key)
    if type(tensor) is rt.Scalar:
        return get_item(pack(tensor), given)
    tensor = current(tensor)
    try:
        value = rows_at(tensor._array, key)
    except IndexError as error:
        raise IndexError(
            f"tapegrad.getitem: {error} (the tensor has shape {tensor._array.shape})"
        ) from error
    if is_basic(key):
        if isinstance(value, np.ndarray):
            return view_like(tensor, value)
        return _element(tensor, key, value)
    if not records(tensor) and rt.trace() is None:
        return wrap(value)
    picked = steered_positions(tensor._array.shape, given)
    if not records(tensor, picked):
        return wrap(value)
    return gather(tensor, value, picked)


def gather(x, out, picked):
    """Record `out`, the rows of `x` at positions `picked` in C order."""
    out = dense(np.asarray(out))
    axes = memory_axes(out)
    if axes is not None or not out.size:
        picked = of_elements(picked, out.shape)
    if axes is not None:
        made = gather(x, out.transpose(axes), _contiguous(transposed(picked, axes)))
        return rt.view_of(made, out)
    return scalar_of(rt.row(GATHER, out, x, _contiguous(picked)))


def _contiguous(picked):
    """Positions as rows take them: contiguous integers."""
    if not is_tensor(picked):
        return np.asarray(picked, np.int64, order="C")
    if picked._array.flags.c_contiguous:
        return picked
    return steered(np.array, picked, order="C")


def _element(tensor, key, value):
    """One element, which NumPy answers with a number: not with a view that could be written."""
    if value.dtype == np.float64 and not records(tensor):
        return rt.scalar_at(float(value), -1, 0)
    view = tensor._array[_with_rest(key)]
    view.flags.writeable = False
    made = view_like(tensor, view)
    made = scalar_of(made) if rt.is_recording() else made
    return copied_number(made) if type(made) is rt.Array else made


def _no_view(tensor, value, frame) -> TypeError:
    """The error of a write to a number, in the user's code or in a function of SciPy's."""
    if (name := callers.function_of_scipy(frame)) is not None:
        return without_derivative(name, tensor, value)
    return TypeError(
        "tapegrad.setitem: the tensor is an element of another tensor, or computed from such "
        "elements; it is a number, not a view: write to the tensor itself, y[i] = value"
    )


def _check_memory(tensor) -> None:
    """Refuse a write to memory that is not the tensor's own, or read-only."""
    if rt.trace() is not None and tensor._id in rt.trace().detached:
        raise TypeError(
            "tapegrad.setitem: a detached tensor is written in a traced function, where it has "
            "memory of its own; write to detach().copy()"
        )
    if not tensor._array.flags.writeable:
        raise ValueError("tapegrad.setitem: the tensor is a read-only view; copy() it first")


def set_item(tensor, key, value) -> None:
    """`tensor[key] = value`, in place; the reverse sweep undoes it."""
    if type(tensor) is rt.Scalar:
        raise _no_view(tensor, value, sys._getframe(1))
    if type(value) is rt.Array and value._id == tensor._id >= 0 and is_basic(key):
        part = tensor._array[key if type(key) is slice else _with_rest(key)]
        if rt.same_place(value._array, part):
            return  # `t[i] += x` ends with t[i] = t[i]
    given, key, value = key, _plain_key(key), unlisted(value)
    if is_complex(value):
        raise TypeError(
            "tapegrad.setitem: a complex value cannot be written to a real tensor; write its real "
            "part z.real, or make the tensor complex with astype(complex)"
        )
    tensor = current(tensor)
    array = tensor._array
    _check_memory(tensor)
    target = rows_at(array, key) if not is_basic(key) else array[_with_rest(key)]
    value = _fitting(value, target)
    if _is_traced_mask(given, array) and np.size(value_of(value)) == 1:
        value = apply("where", given, value, tensor)  # however many elements it picks
        given, key, target = ..., ..., array
    if not array.ndim and not is_basic(key) and not (rt.trace() and is_recorded(given)):
        if target.size:  # else the key is a mask of the one element, False
            set_item(tensor, ..., _fitting(value, array))
        return
    picked = None if is_basic(key) else _picked(given, tensor, value)
    if not records(tensor, value, picked):
        _write_unrecorded(tensor, key, value)
        return
    check_write(tensor)
    if array.dtype not in FLOATS and rt.trace() is not None:
        rt.trace().refuse(f"an array of {array.dtype} is written in place")
        array[key] = value_of(value)
    else:
        _write_recorded(tensor, key, target, value, picked)


def _write_recorded(tensor, key, target, value, picked) -> None:
    """Record and do a write; nothing is changed before the last thing that may be refused."""
    array = tensor._array
    if tensor._id < 0 or array.dtype not in FLOATS:
        check_recordable("setitem", array)
    value = _source(value, array.dtype)
    if type(value) is rt.Array and np.may_share_memory(value._array, array):
        value = copy_tensor(value)
    if tensor._id < 0:
        before_write(tensor)
        become_row(tensor)
    if is_basic(key):
        _write_view(rt.view_of(tensor, target), target, value)
    else:
        _write_picked(tensor, key, target, value, picked)


def _is_traced_mask(key, array) -> bool:
    """Whether a key is a mask of all elements that a program computes again."""
    if rt.trace() is None or array.dtype.kind != "f" or not is_recorded(key):
        return False
    return dtype_of(key).kind == "b" and shape_of(key) == array.shape


def _picked(key, tensor, value):
    """Positions of the elements that an advanced key picks; None if nothing is recorded."""
    if records(tensor, value) or rt.trace() is not None:
        return steered_positions(tensor._array.shape, key)
    return None


def _with_rest(key):
    """A basic key that gives a view also where it picks one element."""
    parts = key if isinstance(key, tuple) else (key,)
    return key if any(part is Ellipsis for part in parts) else (*parts, ...)


def _fitting(value, target):
    shape = np.shape(value_of(value))
    try:
        np.broadcast_to(np.empty(shape, np.uint8), target.shape)
    except ValueError:
        extra = shape[: len(shape) - target.ndim]
        if len(shape) > target.ndim and all(n == 1 for n in extra):
            return value.reshape(shape[len(extra) :])
        raise ValueError(
            f"tapegrad.setitem: a value of shape {shape} does not fit where shape {target.shape} "
            "is written; reshape or broadcast it"
        ) from None
    return value


def _owner_of(tensor):
    """The input that a tensor is, or is a view of; None if it is neither."""
    known = store.leaves.get(tensor._id)
    return known() if known else None


def check_write(tensor) -> None:
    """Refuse an in-place write to a tensor that may not be written as things are."""
    is_input = _owner_of(tensor) is not None
    if not rt.is_recording() and is_recorded(tensor) and not is_input:
        raise RuntimeError(
            "tapegrad.setitem: a recorded tensor cannot be written inside no_grad(), since its "
            "derivative would be lost; write to detach().copy() instead"
        )
    if rt.is_recording() and is_input:
        raise RuntimeError(
            "tapegrad.setitem: an input that requires grad cannot be written in place while "
            "operations are recorded; write to a copy(), or inside `with tg.no_grad():`"
        )


def become_row(tensor) -> None:
    """Make the buffer of a tensor that is not recorded a row, for it and for all its views."""
    storage = meta_of(tensor)
    if type(storage) is not Storage:
        storage = tensor._meta = Storage(tensor._array)
    buffer = covering(storage.owner)
    storage.tensor = made = rt.row(CONSTANT, buffer)
    if rt.trace() is not None:
        rt.trace().originals[made._id] = buffer, buffer.copy()
    current(tensor)


def _source(value, dtype):
    """The value to be written, in the dtype of the buffer."""
    return float(value) if isinstance(value, (bool, int, float)) else in_dtype(value, dtype)


def _write_unrecorded(tensor, key, value) -> None:
    check_write(tensor)
    owner = _owner_of(tensor)
    if owner is not None or is_relied_on(tensor):
        value = np.asarray(value_of(value), tensor._array.dtype)  # raises if it is no number
        before_write(tensor if owner is None else owner)
    if owner is not None:
        renew(owner)
        if tensor is not owner:
            rt.attach(tensor, owner._id, owner._chunk)
    tensor._array[key] = value_of(value)


def _write_view(view, target, value) -> None:
    """Record and do the write of a view."""
    if target.ndim == 0 and target.dtype == np.float64 and not isinstance(value, np.ndarray):
        value = scalar_of(value) if is_tensor(value) else value
    kept = target.copy(order="C")
    if type(value) is rt.Scalar or isinstance(value, float):
        rt.row(WRITE, None, view, kept, value)
        target[...] = value_of(value)
        return
    if is_tensor(value):
        shown = np.broadcast_to(value._array, target.shape)
        rt.row(WRITE, None, view, kept, rt.view_of(value, shown))
        target[...] = value._array
        return
    rt.row(WRITE, None, view, kept, np.broadcast_to(value, target.shape))
    target[...] = value


def _write_picked(tensor, key, target, value, picked) -> None:
    """Record and do the write of elements picked by an advanced key."""
    array = tensor._array
    kept = np.asarray(target, order="C")
    if type(value) is rt.Scalar:
        source = value
    elif is_tensor(value):
        source = rt.view_of(value, np.broadcast_to(value._array, target.shape))
    elif rt.trace() is None:
        source = 0.0
    else:  # a program writes it again
        source = np.array(np.broadcast_to(value_of(value), target.shape), array.dtype)
    rt.row(SCATTER, None, tensor, kept, source, picked)
    array[key] = value_of(value)

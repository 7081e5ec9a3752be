"""Reading and writing parts of a tensor: views, gathered elements, and writes in place."""

from __future__ import annotations

import operator
import sys

import numpy as np

from ..codegen.layout import ARRAY, CONSTANT
from ..ops import gather as _declarations
from ..ops.table import TABLE
from ..tape import store
from ..tape.memory_order import covering, dense, memory_axes
from . import callers
from . import runtime as rt
from .aliases import before_write, is_relied_on, renew
from .apply import apply
from .complex_tensors import is_complex
from .copies import copied_number, copy_tensor, in_dtype, pack, unlisted, view_like
from .gathering import GATHER
from .key_positions import of_elements, rows_at, steered_positions
from .lost_derivatives import without_derivative
from .memory_layouts import transposed
from .trace import steered
from .values import (
    FLOATS,
    Storage,
    array_of,
    check_recordable,
    current,
    dtype_of,
    is_recorded,
    is_tensor,
    meta_of,
    plain_array,
    records,
    scalar_of,
    shape_of,
    value_of,
    wrap,
)

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

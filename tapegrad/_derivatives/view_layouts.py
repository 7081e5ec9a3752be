"""Adjoints and tangents laid out in memory as the buffers that they belong to.

A view of a buffer is found in other memory by its place in the buffer (`tape_traversal.placed`). So
the memory must have elements of the buffer's dtype, in its order: buffers of operations are in C
order, those of inputs in any.
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.einsum import shown
from .._core.tape.memory_order import copy_axes, inverse, memory_axes
from .._core.tape.overlaps import add_to_windows
from .._core.tape.tape import bounds
from .._core.tensor import runtime as rt
from .._core.tensor.copies import copy_tensor, link, pack, view_like
from .._core.tensor.values import array_of, dtype_of, is_tensor, records, shape_of, value_of
from .tape_traversal import placed


def of_input(adjoint, base, tensor):
    """The adjoint of the row of an input, as one of the input, in its memory order.

    `base` is the row's array, None for a scalar; the input is all of it, transposed perhaps.
    """
    if adjoint is None or base is None:
        return adjoint
    if not is_tensor(adjoint) or adjoint.shape != base.shape:
        adjoint = PUBLIC["broadcast_to"](adjoint, base.shape)
    axes = () if rt.same_place(tensor._array, base) else memory_axes(tensor._array)
    adjoint = PUBLIC["transpose"](adjoint, inverse(axes)) if axes else adjoint
    wanted = copy_axes(tensor._array)
    if memory_axes(array_of(adjoint)) == wanted:
        return adjoint
    adjoint = adjoint if wanted is None else PUBLIC["transpose"](adjoint, wanted)
    made = copied(adjoint)
    return made if wanted is None else PUBLIC["transpose"](made, inverse(wanted))


def of_row(seed, base, tensor):
    """The tangent of an input, directions first, as one of the row of the input."""
    if base is None or rt.same_place(tensor._array, base):
        return seed
    axes = memory_axes(tensor._array)
    return PUBLIC["transpose"](seed, (0, *[1 + axis for axis in axes]))


def cast(derivative, dtype):
    """An adjoint or tangent in the dtype of its value; a conversion is recorded."""
    if dtype_of(derivative) == dtype:
        return derivative
    return derivative.astype(dtype) if is_tensor(derivative) else np.asarray(derivative, dtype)


def zeros_for(base: np.ndarray, *lead: int) -> np.ndarray:
    """Memory for a buffer, `lead` times: of its shape if it is in C order, else without axes."""
    if base.flags.c_contiguous:
        return np.zeros((*lead, *base.shape), base.dtype)
    low, high = bounds(base)
    return np.zeros((*lead, (high - low) // base.itemsize), base.dtype)


def seen_as(derivative, base: np.ndarray, view: np.ndarray, *lead: int):
    """An adjoint or tangent of the row that owns `base`, seen through a view of it.

    `lead` is the length of an axis in front, of several adjoints or directions.
    """
    derivative, shape = cast(derivative, base.dtype), (*lead, *base.shape)
    if shape_of(derivative) != shape:
        derivative = PUBLIC["broadcast_to"](derivative, shape)
    if not base.flags.c_contiguous:
        full = _laid_out(derivative, base, *lead)
    elif type(derivative) is rt.Scalar or not array_of(derivative).flags.c_contiguous:
        full = copied(derivative)
    else:
        full = derivative
    return shown(full, placed(array_of(full), base, view, *lead))


def copied(derivative):
    """The same in separate memory, in C order."""
    return copy_tensor(derivative) if is_tensor(derivative) else np.array(derivative, order="C")


def _laid_out(derivative, base: np.ndarray, *lead: int):
    """The elements of a derivative in the order of a buffer that is not in C order."""
    out = zeros_for(base, *lead)
    place = placed(out, base, base, *lead)
    place[...] = array_of(derivative)
    return link(out, [(derivative, place)]) if records(derivative) else rt.wrap(out)


def in_zeros(base: np.ndarray, view: np.ndarray, adjoint):
    """The adjoint of a view of a buffer as one of the buffer."""
    repeated = tuple(k for k, s in enumerate(view.strides) if s == 0 and view.shape[k] > 1)
    if repeated:
        adjoint = PUBLIC["sum"](adjoint, axis=repeated, keepdims=True)
        view = view[tuple(slice(0, 1) if k in repeated else slice(None) for k in range(view.ndim))]
    out = zeros_for(base)
    part = placed(out, base, view)
    adjoint = PUBLIC["broadcast_to"](adjoint, view.shape)
    adjoint = cast(pack(adjoint) if type(adjoint) is rt.Scalar else adjoint, base.dtype)
    add_to_windows(part, value_of(adjoint))
    made = link(out, [(adjoint, part)]) if records(adjoint) else rt.wrap(out)
    return made if base.flags.c_contiguous else view_like(made, placed(out, base, base))


def joined(base: np.ndarray, pairs):
    """The tangent of the row that owns `base`: the sum of tangents, each for a view of it."""
    count = len(value_of(pairs[0][0]))
    out = np.zeros((count, *base.shape), base.dtype)
    linked = []
    for tangent, view in pairs:
        tangent = cast(tangent, base.dtype)
        place = placed(out, base, view, count)
        repeated = [k for k, s in enumerate(place.strides) if s == 0 and place.shape[k] > 1]
        if repeated:
            tangent = PUBLIC["sum"](tangent, axis=tuple(repeated), keepdims=True)
            key = [slice(0, 1) if k in repeated else slice(None) for k in range(place.ndim)]
            place = place[tuple(key)]
        add_to_windows(place, array_of(tangent))
        linked.append((tangent, place))
    return link(out, linked) if records(*[t for t, _ in linked]) else out

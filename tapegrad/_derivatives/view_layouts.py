"""Floor 5: adjoints and tangents laid out in memory as the buffers that they belong to.

A view of a buffer is found in other memory by where it lies in the buffer (`walk.placed`). So the
memory must hold elements of the buffer's dtype, in its order: buffers of operations are in C order,
those of inputs in any.
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.einsum import shown
from .._core.tape.overlaps import add_to_windows
from .._core.tape.tape import bounds
from .._core.tensor import runtime as rt
from .._core.tensor.copies import link, pack, view_like
from .._core.tensor.values import array_of, dtype_of, is_tensor, records, value_of
from .tape_walk import placed


def cast(derivative, dtype):
    """An adjoint or tangent in the dtype of what it belongs to; a conversion is recorded."""
    if dtype_of(derivative) == dtype:
        return derivative
    return derivative.astype(dtype) if is_tensor(derivative) else np.asarray(derivative, dtype)


def zeros_for(base: np.ndarray, *lead: int) -> np.ndarray:
    """Memory for a buffer, `lead` times: of its shape if it is in C order, else without axes."""
    if base.flags.c_contiguous:
        return np.zeros((*lead, *base.shape), base.dtype)
    low, high = bounds(base)
    return np.zeros((*lead, (high - low) // base.itemsize), base.dtype)


def seen_as(adjoint, base: np.ndarray, view: np.ndarray):
    """The adjoint of the row that owns `base`, seen through a view of it."""
    adjoint = PUBLIC["broadcast_to"](cast(adjoint, base.dtype), base.shape)
    full = PUBLIC["copy"](adjoint) if base.flags.c_contiguous else _laid_out(adjoint, base)
    return view_like(full, placed(full._array, base, view))


def tangent_seen_as(tangent, base: np.ndarray, view: np.ndarray):
    """A tangent of the row that owns `base`, directions first, seen through a view of it."""
    lead = len(value_of(tangent))
    full = tangent if base.flags.c_contiguous else _laid_out(tangent, base, lead)
    return shown(full, placed(array_of(full), base, view, lead))


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


def joined(walk, number, pairs):
    """The tangent of an array row: the sum of tangents, each at the place of a view of the row."""
    base = walk.base(number)
    out = np.zeros((walk.directions, *base.shape), base.dtype)
    linked = []
    for tangent, view in pairs:
        tangent = cast(tangent, base.dtype)
        place = placed(out, base, view, walk.directions)
        repeated = [k for k, s in enumerate(place.strides) if s == 0 and place.shape[k] > 1]
        if repeated:
            tangent = PUBLIC["sum"](tangent, axis=tuple(repeated), keepdims=True)
            key = [slice(0, 1) if k in repeated else slice(None) for k in range(place.ndim)]
            place = place[tuple(key)]
        add_to_windows(place, array_of(tangent))
        linked.append((tangent, place))
    return link(out, linked) if records(*[t for t, _ in linked]) else out

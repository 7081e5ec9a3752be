"""Elements picked by positions, and added at positions: each the transpose of the other.

A position stands for a row: as many elements, counted in C order, as there are to each position.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.layout import ARRAY
from ..ops import gather as kernels
from ..ops.table import BY_CODE, structural
from ..sweep.kernels import compile_structural
from . import runtime as rt
from .buffer_pool import empty
from .copies import pack
from .trace import named, steered
from .values import array_of, is_tensor, records, shape_of, wrap

#: Elements from which on rows are added by a kernel: NumPy takes as long for fewer.
MANY = 1 << 10


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
    spread = lambda: _scatter_add_each(np, g, picked, _x.size, lead)  # noqa: E731
    return (lambda: np.reshape(spread(), (*lead, *_x.shape)), None)


def gather_jvp(np, t, _out, _x, picked):
    if t[0] is None:  # the positions alone are recorded, in a trace
        return None
    flat = np.reshape(t[0], (len(t[0]), _x.size))
    return _elements_of_each(np, flat, picked, _out.shape)


@named("gathering.in_each")
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

"""Elements picked by positions, and added at positions: each the transpose of the other."""

from __future__ import annotations

import numpy as np

from ..codegen.layout import ARRAY
from ..ops import gather as kernels
from ..ops.table import structural
from . import runtime as rt
from .copies import pack
from .trace import named, steered
from .values import array_of, is_tensor, records, wrap


def elements(x, key):
    """`x[key]`, recorded also where in a trace the positions are and `x` is a plain array."""
    plain = rt.trace() is not None and not isinstance(x, rt.Tensor)
    return (rt.wrap(np.asarray(x)) if plain else x)[key]


def scatter_add(x, picked, size: int):
    """An array of `size` zeros to which the elements of `x` are added at positions."""
    x = pack(x) if type(x) is rt.Scalar else x
    out = np.zeros(size, array_of(x).dtype)
    np.add.at(out, array_of(picked).ravel(), array_of(x).ravel())
    if not records(x, picked):
        return wrap(out)
    if not is_tensor(x) and not isinstance(x, np.ndarray):
        x = np.asarray(x)
    return rt.row(SCATTER_ADD, out, x, picked)


def _scatter_add_each(np, x, picked, size: int, lead: tuple):
    """`scatter_add` of each array along the first axis; of the whole one without `lead`."""
    if not lead:
        return scatter_add(x, picked, size)
    (count,) = lead
    places = steered(_repeated, picked, directions=count, size=size)
    return np.reshape(scatter_add(x, places, count * size), (count, size))


@named("tangent_rules.repeated")
def _repeated(positions, directions, size):
    """Positions in contiguous arrays of a size, in each of them."""
    return np.asarray(positions, np.int64).ravel() + size * np.arange(directions)[:, None]


def _elements_of_each(np, x, picked, shape):
    """The elements at positions of arrays with one axis, in a shape; of each of several."""
    lead = x.shape[:-1]
    found = elements(x, (slice(None),) * len(lead) + (picked,))
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
    places = t[1]
    if t[0] is not None:
        x, places = t[0], steered(_in_each, places, size=x.size)
    return np.reshape(elements(np.reshape(x, (-1,)), places), (len(t[1]), *_out.shape))


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
    x = np.repeated(x, t) if t[0] is None else t[0]
    places = steered(_in_each, t[1], size=_out.size)
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
        example="tg.grad(lambda t: np.sum(t[np.arange(len(x))] ** 2))(x)",
        examples=("tg.grad(lambda t: np.sum(t[[0, 2, 2]] ** 3))(x)",),
        doc="elements added at positions of an array of zeros: the transpose of gather",
        graph="IndexPutBackward0",
    ).code
)

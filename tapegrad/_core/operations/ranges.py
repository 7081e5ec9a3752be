"""Arrays from one number or two ends, which may be recorded: `full`, `linspace` and others.

`creation` makes them by NumPy where nothing is recorded.
"""

from __future__ import annotations

import operator

import numpy as np

from ..tape.memory_order import inverse, memory_axes
from ..tensor.apply import apply
from ..tensor.copies import copy_tensor, unlisted
from ..tensor.trace import fixed, named, steered
from ..tensor.values import array_of, is_tensor, shape_of, value_of, wrap
from .shapes import array_tensor, broadcast_to, expand_dims, moveaxis, reshape, transpose


def full(shape, fill_value, dtype=None, order="C"):
    """An array filled with a value, which is broadcast to it."""
    filled = copy_tensor(broadcast_to(array_tensor(unlisted(fill_value)), shape), order)
    return filled if dtype is None else filled.astype(dtype, copy=False)


def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None):
    """An array of the shape and dtype of another, filled with a value."""
    a = unlisted(a)
    like = np.empty_like(array_of(a), dtype, order, shape=shape)
    axes = memory_axes(like)
    filled = broadcast_to(array_tensor(unlisted(fill_value)), like.shape)
    if axes is None:
        return copy_tensor(filled).astype(like.dtype, copy=False)
    made = copy_tensor(transpose(filled, axes)).astype(like.dtype, copy=False)
    return transpose(made, inverse(axes))


def arange(start, stop=None, step=1, dtype=None):
    """Numbers from `start` on at distances of `step`, as long as they are before `stop`."""
    start, stop = (0, start) if stop is None else (start, stop)
    count = int(fixed(steered(_count, start, stop, step), "the length of arange()"))
    plain = np.arange(value_of(start), value_of(stop), value_of(step), dtype)
    made = apply("add", start, apply("multiply", step, np.arange(count, dtype=np.float64)))
    return made.astype(plain.dtype, copy=False) if is_tensor(made) else wrap(plain)


@named("ranges.count")
def _count(start, stop, step):
    """The number of elements of arange."""
    return len(np.arange(start, stop, step))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """`num` numbers at equal distances between two ends, which may be arrays."""
    start, stop, num = unlisted(start), unlisted(stop), operator.index(num)
    plain = np.linspace(value_of(start), value_of(stop), num, endpoint, axis=axis)
    spaces = num - 1 if endpoint else num
    steps = _along(np.arange(num, dtype=float), plain.ndim)
    difference = apply("subtract", stop, start)
    step = apply("divide", difference, spaces) if spaces > 0 else np.nan
    made = apply("add", start, apply("multiply", steps, step if spaces > 0 else difference))
    if endpoint and num > 1:
        made = apply("where", steps == num - 1, stop, made)
    made = _arranged(made, plain, dtype, axis)
    return (made, step) if retstep else made


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers with equal quotients between two ends, which may be arrays."""
    start, stop, num = unlisted(start), unlisted(stop), operator.index(num)
    plain = np.geomspace(value_of(start), value_of(stop), num, endpoint, axis=axis)
    parts = _along(np.linspace(0.0, 1.0, num, endpoint), plain.ndim)
    quotient = apply("power", apply("divide", stop, start), parts)
    made = apply("multiply", start, quotient)
    if endpoint and num > 1:
        made = apply("where", parts == 1.0, stop, made)
    return _arranged(made, plain, dtype, axis)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """Powers of `base` with `num` exponents at equal distances."""
    start, stop, base = unlisted(start), unlisted(stop), unlisted(base)
    if shape_of(base):
        ndim = len(np.broadcast_shapes(*map(shape_of, (start, stop, base))))
        start, stop, base = (_with_axes(x, ndim) for x in (start, stop, base))
        base = expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    made = apply("power", base, exponents)
    return made if dtype is None else made.astype(dtype)


def _along(numbers: np.ndarray, ndim: int) -> np.ndarray:
    """Numbers along the first of `ndim` axes."""
    return numbers.reshape(-1, *(1,) * (ndim - 1))


def _with_axes(x, ndim: int):
    shape = shape_of(x)
    return reshape(x, (1,) * (ndim - len(shape)) + shape)


def _arranged(made, plain: np.ndarray, dtype, axis: int):
    """Numbers along the first axis as NumPy's function gives them: its dtype, along `axis`."""
    made = made if axis == 0 else moveaxis(made, 0, axis)
    wanted = plain.dtype if dtype is None else np.dtype(dtype)
    if wanted.kind in "iu":
        made = apply("floor", made)
    return made if array_of(made).dtype == wanted else made.astype(wanted)


RECORDED = {
    made.__name__: made for made in (full, full_like, arange, linspace, geomspace, logspace)
}

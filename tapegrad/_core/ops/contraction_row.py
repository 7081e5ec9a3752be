"""References of a row of the contraction, and its properties for programs: cost, small form.

References are as in `contraction`. Shapes are those of the operands as the row shows them.
"""

from __future__ import annotations

import math

import numpy as np

from .references import Layout, Site
from .table import TABLE


def site(found) -> Site:
    """Two operands, the output as they give its axes, numbers of batch and of summed axes."""
    left, right, (_, whole), (_, batch), (_, inner), (_, out) = found
    static = {"batch": batch, "inner": inner}
    return Site([left, right], static, None if out is None else whole, whole.shape)


def check_axes(_out, left, right, whole, batch: int, inner: int) -> None:
    """Raise ValueError unless the axes match: (batch, m, k) times (batch, k, n)."""
    rows = len(left) - inner
    if not (0 <= batch <= rows and 0 <= inner <= len(right) - batch):
        raise ValueError(f"{batch} and {inner} axes of operands")
    if left[rows:] != right[batch : batch + inner] or left[:batch] != right[:batch]:
        raise ValueError("axes do not meet")
    if whole != left[:rows] + right[batch + inner :]:
        raise ValueError("a result of another shape")


LAYOUT = Layout(site, ("array", "array", "output", "number", "number"), check_axes)


def products(_out, left, _right, whole, _batch: int, inner: int) -> int:
    """The number of products that are added."""
    return math.prod(whole) * math.prod(left[len(left) - inner :])


def expanded(apply, a, b, _whole, batch: int, inner: int):
    """The products, each added to the sum of those before: as the kernel adds few of them."""
    add, multiply = TABLE["add"].code, TABLE["multiply"].code
    many, k = math.prod(a.shape[:batch]), math.prod(a.shape[a.ndim - inner :])
    a, b = a.reshape(many, -1, k), b.reshape(many, k, -1)
    total = np.empty(0, np.int64)
    for p in range(k):
        product = apply(multiply, *np.broadcast_arrays(a[:, :, p, None], b[:, p, None, :]))
        total = apply(add, total, product) if p else product
    return total

"""Products along axes: `prod`, and what others need of it."""

from __future__ import annotations

import numpy as np

from ..codegen.intrinsics import f64s, free, malloc
from ..codegen.layout import REFERENCE_BYTES
from ..ops.axis_groups import (
    REDUCTION_HELPERS,
    add_partials,
    count_of_groups,
    group_in,
    groups_of,
    of_reduction,
    read_group,
)
from ..ops.table import structural
from ..tensor.operators import begun, written_to
from ..tensor.registry import function
from ..tensor.trace import fixed
from ..tensor.values import differentiates
from .reductions import masked, operand, plain, reduced_by, wide_enough


def product_of_others(np, x, axes):
    """For each element the product of the others along axes, which are the last."""
    if x.size == 0:
        return x
    flat = np.reshape(x, (*x.shape[: x.ndim - len(axes)], -1))
    before, after = product_before(np, flat), product_before(np, flat[..., ::-1])[..., ::-1]
    return np.reshape(before * after, x.shape)


def product_before(np, x):
    """Products of the elements before each, along the last axis."""
    first = np.ones((*x.shape[:-1], 1), x.dtype)
    if x.shape[-1] < 2:
        return first
    return np.concatenate([first, np.cumprod(x[..., :-1], -1)], -1)


def prod_vjp(np, g, out, x, axes):
    if np.may_hold_zeros(x):
        return (np.times(g, product_of_others(np, x, axes)),)
    return (g * out / x,)


def prod_jvp(np, t, _out, x, axes):
    return np.sum(np.times(t[0], product_of_others(np, x, axes)), axis=axes, keepdims=True)


def prod_adjoint(frame, id, refs, task):
    """References: operand, lines of a group, output. A partial is the product of the others."""
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    block = malloc(n * 16)
    x, partial = f64s(block), f64s(block + n * 8)
    for group in range(count_of_groups(groups)):
        read_group(groups, group, block)
        before = 1.0
        for i in range(n):
            partial[i] = before
            before *= x[i]
        after = 1.0
        for i in range(n - 1, -1, -1):
            partial[i] *= after
            after *= x[i]
        add_partials(frame, id, refs + 2 * REFERENCE_BYTES, groups, group, found, block + n * 8)
    free(block)


def prod_forward(frame, id, refs, task):
    groups, n, count, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(count):
        x = f64s(group_in(groups, group, block))
        product = 1.0
        for i in range(n):
            product *= x[i]
        out[group] = product
    free(block)


_PROD = structural(
    "prod",
    prod_adjoint,
    value=lambda x, axes: np.prod(x, axis=axes, keepdims=True),
    vjp=prod_vjp,
    jvp=prod_jvp,
    value_kernel=prod_forward,
    layout="reduction",
    helpers=REDUCTION_HELPERS,
    example="np.prod(x)",
    examples=("np.prod(x, 0)", "np.prod(x.T, 0, keepdims=True)"),
    doc="product along axes, right with zeros",
)


@function("prod", method="prod")
def prod(x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Multiply elements.

    The partial derivative with respect to an element is the product of the others. It is right
    where elements are zero too.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.prod(x))([0.0, 2.0, 3.0])
    [6.0, 0.0, 0.0]
    """
    if out is not None:
        dtype = wide_enough(x, dtype, out)
        return written_to("prod", prod(x, axis, dtype, None, keepdims, initial, where), out)
    x = operand("prod", x, dtype)
    if initial is not None and differentiates(x, initial):
        return begun("multiply", prod(x, axis, dtype, None, keepdims, where=where), initial)
    if not differentiates(x):
        options = {} if initial is None else {"initial": fixed(initial, "initial=")}
        options |= dict(axis=axis, dtype=dtype, keepdims=keepdims)
        return plain(np.prod, x, where=where, **options)
    if where is not True:
        x = masked(where, x, 1.0)
    return reduced_by(_PROD, x, axis, keepdims)

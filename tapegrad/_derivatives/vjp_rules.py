"""Adjoints of structural operations as recorded operations, for higher derivatives.

Each rule gets the walk (see `recorded_reverse`), the number of the row and its adjoint.
"""

from __future__ import annotations

import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.einsum import as_tensor, contract
from .._core.tensor import runtime as rt
from .._core.tensor.copies import view_like
from .._core.tensor.trace import steered
from .._core.tensor.values import array_of, is_tensor, shape_of, value_of
from .infinities import product
from .view_layouts import seen_as


def grouped_axes(shape, lines: int) -> tuple[int, ...]:
    """The reduced axes of a view that has them last, `lines` lines along the last to a group."""
    for kept in range(len(shape)):
        if int(np.prod(shape[kept:-1], dtype=np.int64)) == lines:
            return tuple(range(kept, len(shape)))
    raise AssertionError("a reduced view without its lines")


def reduced(walk, number, adjoint):
    """Operand, axes, and output and adjoint broadcastable to the operand, of a reduction's row."""
    (source, x), (_, lines), *rest = walk.operands(number)
    axes = grouped_axes(x.shape, lines)
    kept = x.shape[: axes[0]] + (1,) * len(axes)
    out = walk.output(number)
    return source, x, axes, PUBLIC["reshape"](out, kept), PUBLIC["reshape"](adjoint, kept)


def extreme_rule(walk, number, adjoint):
    source, x, axes, out, adjoint = reduced(walk, number, adjoint)
    walk.add(source, x._array, adjoint * shares(x, out, axes))


def shares(x, best, axes):
    """What each element has of an extreme: those tied for it the same, together 1, others 0.

    Where it is NaN those that are NaN are tied for it.
    """
    nan = steered(operator.and_, steered(np.isnan, x), steered(np.isnan, best))
    tied = steered(operator.or_, steered(operator.eq, x, best), nan)
    if is_tensor(tied):  # as numbers, which programs sum without Python
        tied = steered(np.multiply, tied, 1.0)
        return tied / PUBLIC["maximum"](PUBLIC["sum"](tied, axis=axes, keepdims=True), 1.0)
    return tied / np.maximum(tied.sum(axis=axes, keepdims=True), 1)


def prod_rule(walk, number, adjoint):
    source, x, axes, out, adjoint = reduced(walk, number, adjoint)
    if may_hold_zeros(x):
        walk.add(source, x._array, product(adjoint, product_of_others(x, axes)))
    else:
        walk.add(source, x._array, adjoint * out / x)


def may_hold_zeros(x) -> bool:
    """Whether an element is 0, or may be when a program that is traced computes it."""
    return rt.trace() is not None or bool(np.any(array_of(x) == 0.0))


def product_of_others(x, axes):
    """For each element the product of the others along axes, which are the last."""
    shape = shape_of(x)
    flat = PUBLIC["reshape"](x, (*shape[: axes[0]], -1)) if np.prod(shape) else x
    before, after = product_before(flat), product_before(flat[..., ::-1])[..., ::-1]
    return PUBLIC["reshape"](before * after, shape)


def product_before(x):
    """Products of the elements before each, along the last axis."""
    shape = shape_of(x)
    first = np.ones((*shape[:-1], min(shape[-1], 1)), array_of(x).dtype)
    if shape[-1] < 2:
        return first
    return PUBLIC["concatenate"]([first, PUBLIC["cumprod"](x[..., :-1], -1)], -1)


def logsumexp_rule(walk, number, adjoint):
    source, x, _, out, adjoint = reduced(walk, number, adjoint)
    walk.add(source, x._array, product(adjoint, PUBLIC["exp"](x - out)))


def kept(walk, number, adjoint):
    """Operand, axes, and output and adjoint in the operand's order, of a row that keeps shape."""
    (source, x), (_, lines), (_, seen), *_ = walk.operands(number)
    base = walk.base(number)
    out = view_like(walk.output(number), seen)
    return source, x, grouped_axes(x.shape, lines), out, seen_as(adjoint, base, seen)


def cumsum_rule(walk, number, adjoint):
    source, x, _, _, adjoint = kept(walk, number, adjoint)
    walk.add(source, x._array, PUBLIC["cumsum"](adjoint[..., ::-1], -1)[..., ::-1])


def cumprod_rule(walk, number, adjoint):
    source, x, _, out, adjoint = kept(walk, number, adjoint)
    if may_hold_zeros(x):
        walk.add(source, x._array, product(sums_of_products_after(adjoint, x), product_before(x)))
        return
    sums = PUBLIC["cumsum"]((adjoint * out)[..., ::-1], -1)[..., ::-1]
    walk.add(source, x._array, sums / x)


def sums_of_products_after(adjoint, x):
    """Along the last axis, s with s[i] = adjoint[i] + x[i + 1] · s[i + 1].

    Stretches of 1, 2, 4, … elements are put together: the sum of one, with the product of the
    elements of x that the sum of the next is multiplied by; there is none after the last.
    """
    join = PUBLIC["concatenate"]
    size, step = x.shape[-1], 1
    if size < 2:
        return adjoint
    end = np.zeros((*x.shape[:-1], 1), array_of(x).dtype)
    factors = join([x[..., 1:], end], -1)
    while step < size:
        passed = product(adjoint[..., step:], factors[..., :-step])
        adjoint = join([adjoint[..., :-step] + passed, adjoint[..., -step:]], -1)
        factors = join([factors[..., :-step] * factors[..., step:], factors[..., -step:]], -1)
        step *= 2
    return adjoint


def softmax_rule(walk, number, adjoint):
    source, x, axes, out, adjoint = kept(walk, number, adjoint)
    mean = PUBLIC["sum"](adjoint * out, axis=axes, keepdims=True)
    walk.add(source, x._array, out * (adjoint - mean))


def log_softmax_rule(walk, number, adjoint):
    source, x, axes, out, adjoint = kept(walk, number, adjoint)
    total = PUBLIC["sum"](adjoint, axis=axes, keepdims=True)
    walk.add(source, x._array, adjoint - PUBLIC["exp"](out) * total)


def contract_rule(walk, number, adjoint):
    (left, a), (right, b), (_, whole), (_, batch), (_, inner), *_ = walk.operands(number)
    x, y = np.asarray(value_of(a)), np.asarray(value_of(b))
    groups = [f"b{k}" for k in range(batch)]
    rows = [f"m{k}" for k in range(x.ndim - batch - inner)]
    sums = [f"k{k}" for k in range(inner)]
    columns = [f"n{k}" for k in range(y.ndim - batch - inner)]
    base = walk.base(number)
    if base is None:
        seen = PUBLIC["broadcast_to"](adjoint, whole.shape)
    else:
        seen = seen_as(adjoint, base, whole)
    shape = [x.shape[k] for k in range(batch)]
    shape += x.shape[batch : batch + len(rows)] + y.shape[batch + inner :]
    seen = as_tensor("matmul", PUBLIC["reshape"](seen, shape))
    labels_a, labels_b = (*groups, *rows, *sums), (*groups, *sums, *columns)
    labels = (*groups, *rows, *columns)
    if left >= 0:
        walk.add(left, x, contract("matmul", seen, _array(b), labels, labels_b, labels_a))
    if right >= 0:
        walk.add(right, y, contract("matmul", _array(a), seen, labels_a, labels, labels_b))


def _array(operand):
    return operand if isinstance(operand, rt.Tensor) else rt.wrap(np.ascontiguousarray(operand))


RULES = {
    "max": extreme_rule,
    "min": extreme_rule,
    "prod": prod_rule,
    "logsumexp": logsumexp_rule,
    "cumsum": cumsum_rule,
    "cumprod": cumprod_rule,
    "softmax": softmax_rule,
    "log_softmax": log_softmax_rule,
    "contract": contract_rule,
}

"""Floor 5: adjoints of structural operations as recorded operations, for higher derivatives.

Each rule gets the walk (see `differentiate`), the number of the row and its adjoint.
"""

from __future__ import annotations

import numpy as np

from .layouts import seen_as
from .tensor import PUBLIC
from .tensor import runtime as rt
from .tensor.einsum import as_tensor, contract
from .tensor.linking import view_like
from .tensor.values import value_of


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
    tied = np.asarray(value_of(x)) == np.asarray(value_of(out))
    share = tied / np.maximum(tied.sum(axis=axes, keepdims=True), 1)
    walk.add(source, x._array, adjoint * share)


def prod_rule(walk, number, adjoint):
    source, x, _, out, adjoint = reduced(walk, number, adjoint)
    refuse_zeros("prod", x)
    walk.add(source, x._array, adjoint * out / x)


def logsumexp_rule(walk, number, adjoint):
    source, x, _, out, adjoint = reduced(walk, number, adjoint)
    walk.add(source, x._array, adjoint * PUBLIC["exp"](x - out))


def refuse_zeros(name, x):
    if np.any(np.asarray(value_of(x)) == 0.0):
        raise NotImplementedError(
            f"tapegrad.{name}: a derivative of a derivative where an element is 0 is not supported "
            "yet; multiply the elements one after the other instead"
        )


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
    refuse_zeros("cumprod", x)
    sums = PUBLIC["cumsum"]((adjoint * out)[..., ::-1], -1)[..., ::-1]
    walk.add(source, x._array, sums / x)


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

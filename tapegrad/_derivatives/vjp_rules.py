"""Floor 5: adjoints of structural operations as recorded operations, for higher derivatives.

Each rule gets the walk (see `differentiate`), the number of the row and its adjoint.
"""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.einsum import as_tensor, contract
from .._core.tensor import runtime as rt
from .._core.tensor.values import value_of
from .view_layouts import seen_as


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
    "contract": contract_rule,
}

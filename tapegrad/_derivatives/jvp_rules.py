"""Floor 5: how the tangents of a row's operands make its own, for forward mode.

Each rule gets the walk (see `forward`) and the number of the row, and returns a new tensor, or
None where the tangent is zero; tangents have an axis of directions first. Rules of rows that write
change the tangent of the buffer.
"""

from __future__ import annotations

import numpy as np

from .._core.operations.einsum import einsum
from .._core.operations.reductions import sum as sum_of
from .._core.operations.shapes import reshape
from .._core.tensor.copies import copy_tensor
from .._core.tensor.indexing import deposit
from .._core.tensor.trace import named, steered
from .._core.tensor.values import is_tensor, value_of
from .declared_tangents import aligned
from .infinities import symmetric_product as product
from .tape_walk import elements, evaluate
from .view_layouts import joined


def copy(tangent):
    """The same in memory of its own, in C order."""
    return copy_tensor(tangent) if is_tensor(tangent) else np.array(tangent, order="C")


class _Values(dict):
    """The names of a slope: operands are looked up only where the slope reads them."""

    def __init__(self, walk, number, operands, names):
        self.operands = dict(zip(names, operands, strict=True))
        self.walk, self.number = walk, number

    def __missing__(self, name):
        return self.walk.value(self.number, *self.operands[name])


def pointwise_rule(walk, number, declaration):
    """The sum over the operands of tangent times slope."""
    operands = walk.read(number)
    values = _Values(walk, number, operands, (*declaration.inputs, "out"))
    ndim, total = len(walk.shape(number)), None
    tangents = [walk.tangent(source, view) for source, view in operands[:-1]]
    pairs = [(t, s) for t, s in zip(tangents, declaration.slopes, strict=True) if s != "0.0"]
    pairs = [(aligned(t, ndim), s) for t, s in pairs if t is not None]
    slopes = evaluate(declaration, [slope for _, slope in pairs], values)
    for (tangent, _), slope in zip(pairs, slopes, strict=True):
        part = product(tangent, slope)
        total = part if total is None else total + part
    return total


# --- what moves values ------------------------------------------------------------------------


def link_rule(walk, number):
    *pairs, _ = walk.read(number)
    found = []
    for (source, view), (_, target) in zip(pairs[::2], pairs[1::2], strict=True):
        tangent = walk.tangent(source, view)
        if tangent is not None:
            found.append((tangent, target))
    return joined(walk, number, found)


def pack_rule(walk, number):
    *operands, (_, out) = walk.read(number)
    flat = out.reshape(-1)
    found = [(walk.tangent(source), flat[k, ...]) for k, (source, _) in enumerate(operands)]
    return joined(walk, number, [(t, place) for t, place in found if t is not None])


def load_rule(walk, number):
    return walk.tangent(*walk.read(number)[0])


def sum_rule(walk, number):
    tangent = walk.tangent(*walk.read(number)[0])
    return sum_of(tangent, axis=tuple(range(1, tangent.ndim)))


def convert_rule(walk, number):
    (source, view), (_, out) = walk.read(number)
    return walk.tangent(source, view).astype(out.dtype)


def gather_rule(walk, number):
    (source, view), positions, (_, out) = walk.read(number)
    tangent = walk.tangent(source, view)
    if tangent is None:
        return None
    flat = reshape(tangent, (walk.directions, view.size))
    picked = reshape(walk.tensor(*positions), (out.size,))
    return reshape(elements(flat, (slice(None), picked)), (walk.directions, *out.shape))


def deposit_rule(walk, number):
    (source, view), positions, (_, out) = walk.read(number)
    tangent = walk.tangent(source, view)
    if tangent is None:
        return None
    places = steered(_repeated, walk.tensor(*positions), directions=walk.directions, size=out.size)
    made = deposit(tangent, places, walk.directions * out.size)
    return reshape(made, (walk.directions, *out.shape))


@named("tangent_rules.repeated")
def _repeated(positions, directions, size):
    """Positions in arrays of a size that lie one after the other, in each of them."""
    return np.asarray(positions, np.int64).ravel() + size * np.arange(directions)[:, None]


def write_rule(walk, number):
    """The tangent of what is written comes where it is written; zero that of a constant."""
    (buffer, view), _, (source, seen), *_ = walk.read(number)
    walk.begin(buffer)
    place = walk.tangent(buffer, view)
    tangent = walk.tangent(source, seen)
    key = (slice(None), *walk.key(number, view))
    if tangent is not None:
        tangent = aligned(tangent, np.ndim(value_of(place[key])) - 1)
    place[key] = 0.0 if tangent is None else tangent


# --- products of matrices ---------------------------------------------------------------------


def contract_rule(walk, number):
    """The sum of the two products in which one operand is replaced by its tangent."""
    left, right, (_, whole), (_, batch), (_, inner), _ = walk.read(number)
    rows = left[1].ndim - batch - inner
    columns = right[1].ndim - batch - inner
    groups_of = np.split(np.arange(1, 1 + batch + rows + inner + columns), [batch, batch + rows])
    b, m, rest = (list(map(int, group)) for group in groups_of)
    k, n = rest[:inner], rest[inner:]
    first, second, result = [*b, *m, *k], [*b, *k, *n], [0, *b, *m, *n]
    total = None
    for one, other, labels, others in ((left, right, first, second), (right, left, second, first)):
        tangent = walk.tangent(*one)
        if tangent is None:
            continue
        factor = walk.value(number, *other)
        part = einsum(tangent, [0, *labels], factor, others, result)
        total = part if total is None else total + part
    if walk.base(number) is None:
        return reshape(total, (walk.directions,))
    total = reshape(total, (walk.directions, *whole.shape))
    return joined(walk, number, [(total, whole)])


RULES = {
    "load": load_rule,
    "link": link_rule,
    "sum": sum_rule,
    "pack": pack_rule,
    "convert": convert_rule,
    "gather": gather_rule,
    "deposit": deposit_rule,
    "write": write_rule,
    "store": write_rule,
    "scatter": write_rule,
    "contract": contract_rule,
}

"""How the tangents of a row's operands make its own, for forward mode.

Each rule gets the walk (see `forward_mode`) and the number of the row, and returns a new tensor, or
None where the tangent is zero; tangents have an axis of directions first. Rules of rows that write
change the tangent of the buffer.
"""

from __future__ import annotations

import numpy as np

from .._core.operations.cumulative import cumsum
from .._core.operations.einsum import einsum
from .._core.operations.joining import concatenate
from .._core.operations.reductions import sum as sum_of
from .._core.operations.shapes import reshape
from .._core.ops.table import find
from .._core.tape.overlaps import add_to_windows
from .._core.tape.tape import name_of_row
from .._core.tensor.apply import apply
from .._core.tensor.copies import copy_tensor, link
from .._core.tensor.indexing import deposit
from .._core.tensor.trace import named, steered
from .._core.tensor.values import array_of, is_tensor, records, shape_of, value_of
from .infinities import symmetric_product as product
from .tape_walk import elements, evaluate, placed
from .view_layouts import cast
from .vjp_rules import grouped_axes, product_of_others, shares


def aligned(tangent, ndim: int):
    """A tangent of fewer axes than `ndim`, after that of directions, ready to be broadcast."""
    count, *rest = tangent.shape
    if len(rest) == ndim:
        return tangent
    return reshape(tangent, (count, *[1] * (ndim - len(rest)), *rest))


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


def pointwise_rule(walk, number):
    """The sum over the operands of tangent times slope."""
    declaration = find(name_of_row(walk.reader, number))
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
            tangent = sum_of(tangent, axis=tuple(repeated), keepdims=True)
            key = [slice(0, 1) if k in repeated else slice(None) for k in range(place.ndim)]
            place = place[tuple(key)]
        add_to_windows(place, array_of(tangent))
        linked.append((tangent, place))
    return link(out, linked) if records(*[t for t, _ in linked]) else out


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


# --- along axes -------------------------------------------------------------------------------


def groups(walk, number):
    """Value, tangent and output of a row along axes, each with what is one group as last axis.

    The output keeps that axis with 1 element where it is reduced.
    """
    (source, view), (_, lines), *_, seen = operands = walk.read(number)
    kept = view.shape[: grouped_axes(view.shape, lines)[0]]
    size = int(np.prod(view.shape[len(kept) :], dtype=np.int64))
    if len(operands) == 4:  # the operand's shape is kept: the output as seen in its order
        seen = (number, operands[2][1])
    of = 1 if len(operands) == 3 else size
    x = reshape(walk.value(number, source, view), (*kept, size))
    tangent = reshape(walk.tangent(source, view), (walk.directions, *kept, size))
    return x, tangent, reshape(walk.value(number, *seen), (*kept, of))


def in_order(walk, number, tangent):
    """A tangent in the operand's order of axes as one of the row's array."""
    seen = walk.read(number)[2][1]
    return joined(walk, number, [(reshape(tangent, (walk.directions, *seen.shape)), seen)])


def reduced(walk, number, tangent):
    """A tangent of a reduction, one element to a group, as one of the row."""
    return reshape(tangent, (walk.directions, *walk.shape(number)))


def extreme_rule(walk, number):
    x, tangent, out = groups(walk, number)
    share = shares(x, out, (-1,))
    return reduced(walk, number, sum_of(product(tangent, share), axis=-1))


def prod_rule(walk, number):
    """A slope is the product of the elements before and of those after."""
    x, tangent, _ = groups(walk, number)
    slope = product_of_others(x, (len(shape_of(x)) - 1,))
    return reduced(walk, number, sum_of(product(tangent, slope), axis=-1))


def logsumexp_rule(walk, number):
    x, tangent, out = groups(walk, number)
    slope = apply("exp", x - out)
    return reduced(walk, number, sum_of(product(tangent, slope), axis=-1))


def cumsum_rule(walk, number):
    _, tangent, _ = groups(walk, number)
    return in_order(walk, number, cumsum(tangent, -1))


def cumprod_rule(walk, number):
    """Stretches of 1, 2, 4, … elements are put together: no division, right with zeros.

    Two neighbouring ones with products p, q and tangents s, t have p·q and s·q + p·t.
    """
    x, tangent, _ = groups(walk, number)
    size, step = np.shape(value_of(x))[-1], 1
    while step < size:
        p, q, s, t = x[..., :-step], x[..., step:], tangent[..., :-step], tangent[..., step:]
        tangent = concatenate([tangent[..., :step], product(s, q) + product(t, p)], -1)
        x = concatenate([x[..., :step], p * q], -1)
        step *= 2
    return in_order(walk, number, tangent)


def softmax_rule(walk, number):
    _, tangent, out = groups(walk, number)
    mean = sum_of(product(tangent, out), axis=-1, keepdims=True)
    return in_order(walk, number, product(tangent - mean, out))


def log_softmax_rule(walk, number):
    _, tangent, out = groups(walk, number)
    mean = sum_of(product(tangent, apply("exp", out)), axis=-1, keepdims=True)
    return in_order(walk, number, tangent - mean)


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


def computed_rule(walk, number):
    """A mask or an index of a traced function has no derivative."""
    return None


RULES = {
    "computed": computed_rule,
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

"""Tangents of rows, by the rules of their declarations."""

from __future__ import annotations

import functools

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.creation import tensor
from .._core.ops.table import Site, Structural
from .._core.tensor import runtime as rt
from .._core.tensor.values import is_recorded, shape_of, value_of
from .recorded_reverse import (
    adjoints_if_reached,
    output_at,
    parts_of,
    site_of,
    summed_to,
    values_at,
)
from .rule_namespace import FORWARD
from .rule_namespace import symmetric_product as product
from .tape_traversal import beside, evaluate, joined


def aligned(tangent, ndim: int):
    """A tangent of fewer axes than `ndim`, after that of directions, ready to be broadcast."""
    count, *rest = shape_of(tangent)
    if len(rest) == ndim:
        return tangent
    return PUBLIC["reshape"](tangent, (count, *[1] * (ndim - len(rest)), *rest))


def tangent_of(traversal, number: int, op: Structural):
    """The tangent of a row from those of its operands, an axis of directions first, or None."""
    site = site_of(op, traversal.read(number))
    tangents = [traversal.tangent(*operand) for operand in site.operands]
    if op.jvp is None:
        tangent = _transposed(traversal, number, op, site, tangents)
    else:
        values = _values(traversal, number, op.used_forwards, site)
        if site.broadcast:
            ndim = max(np.ndim(what) for _, what in site.operands)
            tangents = [None if t is None else aligned(t, ndim) for t in tangents]
        trace = rt.trace()
        rule = op.jvp if trace is None else functools.partial(trace.by_rule, op.jvp)
        tangent = rule(FORWARD, tangents, values[0], *values[1], **site.static)
    if tangent is None or site.out is None or site.out.flags.c_contiguous:
        shape = (traversal.directions, *traversal.shape(number))
        return None if tangent is None else PUBLIC["reshape"](tangent, shape)
    return joined(traversal.base(number), [(tangent, site.out)])


def _values(traversal, number: int, reads: int, site: Site) -> tuple:
    return values_at(
        reads,
        site,
        lambda source, what: traversal.value(number, source, what),
        lambda site: output_at(traversal, number, site),
    )


def _transposed(traversal, number: int, op: Structural, site: Site, tangents):
    """The tangent of a row without a `jvp`: `vjp` is linear in its adjoint, so it is transposed.

    The adjoint that it is transposed at does not matter, but with one of 0 nothing would pass
    through infinite partial derivatives.
    """
    out, operands = _values(traversal, number, op.used, site)
    dtype = np.float64 if site.out is None else site.out.dtype
    with rt.switched(True):
        seed = tensor(np.ones((traversal.directions, *site.shape), dtype), requires_grad=True)
        parts = parts_of(op, seed, site, out, operands)
        pairs = [
            (summed_to(part, np.shape(view), 1), tangent)
            for (_, view), part, tangent in zip(site.operands, parts, tangents, strict=True)
            if part is not None and tangent is not None and is_recorded(part)
        ]
        found = None
        if pairs:
            roots, seeds = [part for part, _ in pairs], [tangent for _, tangent in pairs]
            (found,) = adjoints_if_reached(roots, seeds, [seed])
    return found if traversal.recorded or found is None else value_of(found)


class _Values(dict):
    """The names of a partial derivative: operands are looked up only if it reads them."""

    def __init__(self, traversal, number, operands, names):
        self.operands = dict(zip(names, operands, strict=True))
        self.traversal, self.number = traversal, number
        base = traversal.base(number)
        self.dtype = np.dtype(np.float64) if base is None else base.dtype

    def __missing__(self, name):
        return beside(self.dtype, self.traversal.value(self.number, *self.operands[name]))


def pointwise_tangent(traversal, number, declaration):
    """The sum over the operands of tangent times partial derivative."""
    operands = traversal.read(number)
    values = _Values(traversal, number, operands, (*declaration.inputs, "out"))
    ndim, total = len(traversal.shape(number)), None
    found = [(j, traversal.tangent(*operands[j])) for j in declaration.sloping]
    tangents = {j: aligned(t, ndim) for j, t in found if t is not None}
    partials = evaluate(declaration, values, tuple(tangents))
    for tangent, partial in zip(tangents.values(), partials, strict=True):
        part = product(tangent, partial)
        total = part if total is None else total + part
    return total

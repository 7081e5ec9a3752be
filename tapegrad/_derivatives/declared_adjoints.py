"""Adjoints of rows written as rows, by the rules of their declarations."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tensor import runtime as rt
from .._core.tensor.copies import pack
from .._core.tensor.values import dtype_of, shape_of, value_of
from .infinities import product
from .rule_namespace import REVERSE
from .tape_traversal import beside, evaluate
from .view_layouts import seen_as


def site_of(op: Structural, found: list) -> Site:
    """The operands of a row as the rules of its operation see them, given operands and output."""
    return op.references.site(found)


def values_at(reads: int, site: Site, read, output) -> tuple:
    """The output and the operands of a row as a rule gets them, by functions that find them.

    An operand that the rule does not read, by the bits of `reads`, is an array of the same shape
    and dtype.
    """
    out = output(site) if reads & 1 else site.out
    operands = [
        read(*operand) if reads >> k + 1 & 1 else operand[1]
        for k, operand in enumerate(site.operands)
    ]
    return out, operands


def output_at(traversal, number: int, site: Site):
    """The output of a row as its rules see it, with the value that the traversal finds."""
    out = traversal.value(number, number, site.out)
    return PUBLIC["reshape"](out, site.shape) if site.out is None else out


def summed_to(adjoint, shape, lead: int = 0):
    """An adjoint summed over the axes along which an operand of `shape` was repeated.

    Its first `lead` axes stay.
    """
    own = shape_of(adjoint)
    if own[lead:] == shape:
        return adjoint
    extra = len(own) - lead - len(shape)
    repeated = [k for k, n in enumerate(shape) if n == 1 and own[lead + extra + k] != 1]
    axes = (*range(lead, lead + extra), *[lead + extra + k for k in repeated])
    if axes:
        adjoint = PUBLIC["sum"](adjoint, axis=axes, keepdims=True)
    return PUBLIC["reshape"](adjoint, (*own[:lead], *shape)) if extra else adjoint


def parts_of(op: Structural, g, site: Site, out, operands) -> list:
    """The result of the rule of a row for each operand, None where it has no derivative."""
    trace = rt.trace()
    if trace is None:
        return _parts(op, g, site, out, operands)
    return trace.by_rule(_parts, op, g, site, out, operands)


def _parts(op: Structural, g, site: Site, out, operands) -> list:
    parts = op.vjp(REVERSE, g, out, *operands, **site.static)
    pairs = zip(site.operands, parts, strict=True)
    wanted = [part if source >= 0 else None for (source, _), part in pairs]
    return [part() if callable(part) else part for part in wanted]


def write_adjoint(traversal, number: int, adjoint, op: Structural) -> None:
    """Write the adjoints of a row's operands as rows, given its own."""
    site = site_of(op, traversal.read(number))
    adjoint = pack(adjoint) if type(adjoint) is rt.Scalar else adjoint
    if site.out is None or site.out.flags.c_contiguous:
        same = shape_of(adjoint) == site.shape
        g = adjoint if same else PUBLIC["reshape"](adjoint, site.shape)
    else:
        g = seen_as(adjoint, traversal.base(number), site.out)
    out, operands = values_at(
        op.used, site, traversal.tensor, lambda site: output_at(traversal, number, site)
    )
    for (source, view), part in zip(
        site.operands, parts_of(op, g, site, out, operands), strict=True
    ):
        if part is not None:
            traversal.add(source, view, summed_to(part, np.shape(view)))


def _product_text(partial: str) -> str:
    return "adjoint" if partial == "1.0" else f"product(adjoint, {partial})"


def write_pointwise(traversal, number: int, adjoint, declaration: Pointwise) -> None:
    """Write adjoint times partial derivative, for each operand of an element-wise row."""
    *operands, (_, out) = traversal.operands(number)
    values = [beside(dtype_of(out), tensor) for _, tensor in operands]
    names = dict(zip(declaration.inputs, values, strict=True))
    names |= {"out": out, "adjoint": adjoint, "product": product}
    wanted = tuple([j for j in declaration.sloping if operands[j][0] >= 0])
    for j, part in zip(wanted, evaluate(declaration, names, wanted, _product_text), strict=True):
        source, tensor = operands[j]
        if type(part) is float:  # of a selection by a number
            part = np.full(shape_of(adjoint), part, dtype_of(adjoint))
        view = tensor._array if type(tensor) is rt.Array else None
        shape = np.shape(value_of(tensor))
        part = summed_to(part, shape)
        traversal.add(source, view, part)

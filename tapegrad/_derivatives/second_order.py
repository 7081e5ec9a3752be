"""Products with Hessians by a sweep of second order over the rows of a function.

Tangents of all rows are computed forwards first. The reverse sweep then carries the adjoint of each
row and the tangent of that adjoint. Rows without second-order code of their own stop it for the
contribution of the dependence of their rule on values.

Cases that are not known to be right are left to a gradient of a gradient: rows that write in place,
functions of users, and derivatives that are not finite, where products of 0 and infinity depend on
the order of operations (see `rule_namespace`).
"""

from __future__ import annotations

import functools

import numpy as np

from .._core.operations.creation import tensor
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tape.sweeps import Carrying, SecondOrderSweep
from .._core.tensor import runtime as rt
from .._core.tensor.runtime import silence
from .._core.tensor.values import array_of, is_recorded
from .forward_mode import BY_HAND, Carried, tangents_of
from .inputs import InputTensors
from .recorded_reverse import output_at, parts_of, site_of, summed_to, values_at
from .reverse_mode import meets_hooks


class _LeftError(RuntimeError):
    """A row that a sweep of second order cannot process."""


class _Tangents(Carried):
    """Tangents of rows for a sweep of second order."""

    def __init__(self, stops, carrying: Carrying):
        super().__init__(stops, carrying)
        self.curved: list[int] = []  # rows whose rule reads values that have tangents

    def _carry(self, number: int) -> None:
        name, op = self.operation(number)
        if name in BY_HAND or not isinstance(op, Pointwise) and op.vjp is None:
            raise _LeftError(name)
        super()._carry(number)
        if not isinstance(op, Pointwise) and op.second_order is None:
            site = site_of(op, self.read(number))
            if any(t is not None for t in self.read_by_rule(number, op, site)):
                if op.adjoint is None:  # its rule, differentiated here, costs more than recorded
                    raise _LeftError(name)
                self.curved.append(number)

    def read_by_rule(self, number: int, op: Structural, site: Site) -> list:
        """Tangents of the output and the operands as the rule sees them, None where it does not
        read them or they have none."""
        found = [self.tangent(number, site.out) if op.used & 1 else None]
        for k, (source, view) in enumerate(site.operands):
            reads = op.used >> k + 1 & 1
            found.append(self.tangent(source, view) if reads else None)
        return found


def product_with_hessian(out, inputs: InputTensors, v) -> list | None:
    """The tangents of the adjoints of inputs along `v`; None where this method does not apply.

    `out` is a recorded number, `v` has a plain value of the shape and dtype of each input.
    """
    stops = [one._id for one in inputs.tensors]
    try:
        with Carrying(1) as carrying:
            if carrying.meets_writes([out._id]) or meets_hooks([out], inputs.tensors):
                return None
            tangents = _Tangents(stops, carrying)
            for one, seed in zip(inputs.tensors, v, strict=True):
                tangents.start(one._id, seed[None])
            tangents.run([out._id])
            return _swept(out, inputs, tangents)
    except RuntimeError:  # the other method describes the error
        return None


def _swept(out, inputs: InputTensors, tangents: _Tangents) -> list | None:
    value = array_of(out)
    seeds = np.zeros((2, *value.shape), value.dtype)
    seeds[0] = 1.0
    with SecondOrderSweep(tangents.carrying) as sweep:
        inputs.prepare(sweep)
        sweep.plant(out, seeds)
        stops = {k: functools.partial(_add_curved, sweep, tangents, k) for k in tangents.curved}
        is_right = False
        try:
            with silence():
                sweep.run(stops)
            found = inputs.second(sweep)
            is_right = all(np.isfinite(one).all() for one in found)
        finally:
            if not is_right:
                sweep.give_again()
        return found if is_right else None


def _add_curved(sweep: SecondOrderSweep, tangents: _Tangents, number: int) -> None:
    """Add the effect of the change of a row's partials to the tangents of operands' adjoints."""
    tangents.now = number
    _, op = tangents.operation(number)
    site = site_of(op, tangents.read(number))
    if site.out is None:
        g = np.reshape(sweep.cell(number)[0], site.shape)
    else:
        g = sweep.adjoint_buffer(number, site.out)[0].copy()  # rows refer to it
    parts = _along(tangents, number, op, site, g)
    for (source, view), part in zip(site.operands, parts, strict=True):
        if part is not None:
            sweep.add(source, view, summed_to(part, np.shape(view), 1), slice(1, 2))


def _along(tangents: _Tangents, number: int, op: Structural, site: Site, g) -> list:
    """The derivative of a rule's results, along the tangents of all that it reads."""
    read = lambda source, what: tangents.value(number, source, what)  # noqa: E731
    out, operands = values_at(op.used, site, read, lambda site: output_at(tangents, number, site))
    found = tangents.read_by_rule(number, op, site)
    with rt.switched(True):
        values = [
            value if t is None else tensor(np.array(value), requires_grad=True)
            for value, t in zip([out, *operands], found, strict=True)
        ]
        parts = parts_of(op, g, site, values[0], values[1:])
        pairs = [(value, t) for value, t in zip(values, found, strict=True) if t is not None]
        recorded = [part for part in parts if part is not None and is_recorded(part)]
        seeds = [np.reshape(t, (1, *np.shape(array_of(value)))) for value, t in pairs]
        along = iter(tangents_of(recorded, [value for value, _ in pairs], seeds, False))
    return [next(along) if part is not None and is_recorded(part) else None for part in parts]

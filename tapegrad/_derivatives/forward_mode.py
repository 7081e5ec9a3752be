"""Forward mode, and products with Hessians: tangents are computed together with rows."""

from __future__ import annotations

import functools

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.creation import tensor as new_tensor
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tape.sweeps import Carrying, SecondOrderSweep
from .._core.tape.tape import USED_UP, needed
from .._core.tape.workspace import FreedError
from .._core.tensor import runtime as rt
from .._core.tensor.runtime import silence, silent
from .._core.tensor.values import array_of, is_recorded, shape_of, value_of
from .inputs import InputTensors
from .recorded_reverse import (
    adjoints_if_reached,
    meets_hooks,
    output_at,
    parts_of,
    site_of,
    summed_to,
    values_at,
    without_writes_to,
)
from .tape_traversal import (
    FORWARD,
    Rewound,
    Traversal,
    beside,
    copied,
    evaluate,
    joined,
    of_row,
    seen_as,
    settled,
)
from .tape_traversal import symmetric_product as product

# --- declared tangents ----------------------------------------------------------------------------
# Tangents of rows, by the rules of their declarations.


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
        seed = new_tensor(np.ones((traversal.directions, *site.shape), dtype), requires_grad=True)
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


# --- forward mode ---------------------------------------------------------------------------------
# Forward mode: tangents are computed together with rows, from the oldest to the newest.
#
# Each row's tangent is computed from those of its operands, in several directions at once: a
# tangent has the shape of the row's array with an axis of directions before it. `Carried` does it
# in compiled code, which stops at rows of arrays for their rules, called with arrays. `Recorded`
# serves derivatives of tangents: the rules are called with tensors for every row.
#
# Rows read buffers as they were at their time (see `tape_traversal`); where tangents are recorded,
# the rows are recorded again without in-place writes first (see `recorded_reverse`).


def _load(traversal, number: int):
    return traversal.tangent(*traversal.read(number)[0])


def _write(traversal, number):
    """The tangent of a written value belongs to its place; that of a constant is zero."""
    (buffer, view), _, (source, seen), *_ = traversal.read(number)
    traversal.begin(buffer)
    place = traversal.tangent(buffer, view)
    tangent = traversal.tangent(source, seen)
    key = (slice(None), *traversal.key(number, view))
    if tangent is not None:
        tangent = aligned(tangent, np.ndim(value_of(place[key])) - 1)
    place[key] = 0.0 if tangent is None else tangent


#: Tangents of rows that read or write buffers in place, and of users' operations, by name.
BY_HAND = {"load": _load, "write": _write, "store": _write, "scatter": _write}


def _tangent(traversal, number: int, name: str, op):
    """The tangent of a row from those of its operands; None where it is zero, or was written."""
    if isinstance(op, Pointwise):
        return pointwise_tangent(traversal, number, op)
    if name in BY_HAND:
        return BY_HAND[name](traversal, number)
    if op.jvp is None and op.vjp is None:
        raise NotImplementedError(
            f"tapegrad: a forward derivative through {name} is not supported yet; use a "
            "reverse one: grad, vjp or jacobian"
        )
    return tangent_of(traversal, number, op)


def _view_of(tensor):
    return tensor._array if type(tensor) is rt.Array else None


class Carried(Rewound):
    """Tangents as plain arrays, in the memory of a compiled traversal."""

    recorded = False

    def __init__(self, stops, carrying: Carrying):
        super().__init__(stops)
        self.carrying = carrying
        self.directions = carrying.directions

    def value(self, number: int, source: int, what):
        """An operand of row `number`, found by `read`, as a plain value."""
        return self.then(source, what)

    def tangent(self, source: int, view=None):
        """The tangent of a row, seen through a view of its buffer; None where it is zero."""
        if source < 0 or not self.carrying.has(source):
            return None
        return self._memory(source, view)

    def _memory(self, number: int, view=None) -> np.ndarray:
        base = self.base(number)
        if base is None:
            return self.carrying.scalar(number)
        return self.carrying.part(number, base if view is None else view)

    def start(self, number: int, seed) -> None:
        """Give a row its tangent, or one that broadcasts to it."""
        memory = self._memory(number)
        # The −0.0 of a scalar row would stand for no tangent.
        np.add(aligned(value_of(seed), memory.ndim - 1), 0.0, out=memory, casting="same_kind")

    def begin(self, buffer: int) -> None:
        """Give a buffer that is written its tangent, zero so far, if it has none."""
        self._memory(buffer)

    def run(self, outputs) -> None:
        """Traverse the tape from the oldest row that `outputs` need to the newest."""
        try:
            with silence():
                self.carrying.run(self.stops, outputs, self._carry)
        except FreedError:
            raise RuntimeError(USED_UP) from None

    def _carry(self, number: int) -> None:
        self.now = number
        tangent = _tangent(self, number, *self.operation(number))
        if tangent is not None:
            self.start(number, tangent)

    def found(self, output) -> np.ndarray:
        """The tangent of a recorded tensor, in memory of its own."""
        tangent = self.tangent(output._id, _view_of(output))
        value = array_of(output)
        shape = (self.directions, *value.shape)
        return np.zeros(shape, value.dtype) if tangent is None else np.array(tangent, order="C")


class Recorded(Traversal):
    """Tangents as tensors, or arrays where they depend on nothing recorded."""

    recorded = True

    def __init__(self, stops, directions: int):
        super().__init__(stops)
        self.directions = directions
        self.tangents: dict = {}

    def tangent(self, source: int, view=None):
        """The tangent of a row, seen through a view of its buffer; None where it is zero."""
        found = self.tangents.get(source)
        if found is None or view is None:
            return found
        base = self.base(source)
        return found if rt.same_place(view, base) else seen_as(found, base, view, self.directions)

    def start(self, number: int, seed) -> None:
        """Give a row its tangent, or one that broadcasts to it."""
        base = self.base(number)
        dtype = np.dtype(np.float64) if base is None else base.dtype
        shape = (self.directions, *(() if base is None else base.shape))
        tangent = seed
        if tangent.shape != shape:
            tangent = PUBLIC["broadcast_to"](aligned(tangent, len(shape) - 1), shape)
        if tangent.dtype != dtype:
            tangent = tangent.astype(dtype)
        contiguous = array_of(tangent).flags.c_contiguous
        self.tangents[number] = tangent if contiguous else copied(tangent)

    def run(self, outputs) -> None:
        """Traverse the tape from the oldest row that `outputs` need to the newest."""
        with silence():
            for number in needed(self.reader, outputs, self.stops):
                if number not in self.stops:
                    self._carry(number)

    def _carry(self, number: int) -> None:
        operation = self.operation(number)  # raises if the row is used up
        if any(source in self.tangents for source in self.reader.operands(number)):
            tangent = _tangent(self, number, *operation)
            if tangent is not None:
                self.start(number, tangent)

    def found(self, output):
        """The tangent of a recorded tensor."""
        tangent = self.tangent(output._id, _view_of(output))
        value = array_of(output)
        shape = (self.directions, *value.shape)
        return np.zeros(shape, value.dtype) if tangent is None else tangent


def _traversed(traversal, outputs, inputs, seeds) -> list:
    for tensor, seed in zip(inputs, seeds, strict=True):
        traversal.start(tensor._id, of_row(seed, traversal.base(tensor._id), tensor))
    traversal.run([output._id for output in outputs])
    return [traversal.found(output) for output in outputs]


def tangents_of(outputs, inputs, seeds, recorded: bool) -> list:
    """Tangents of recorded tensors for those of the inputs, an axis of directions first.

    `seeds` have that axis too. With `recorded`, or where a seed is recorded, tangents are tensors
    that can be differentiated with respect to whatever values and seeds depend on; else arrays.
    """
    with silent():
        return settled(lambda: _tangents(outputs, inputs, seeds, recorded))


def _tangents(outputs, inputs, seeds, recorded: bool) -> list:
    directions = len(value_of(seeds[0])) if seeds else 1
    stops = [tensor._id for tensor in inputs]
    if recorded or any([is_recorded(seed) for seed in seeds]):
        inputs, outputs = without_writes_to(inputs, outputs)  # rows that the traversal must know
        stops = [tensor._id for tensor in inputs]
        return _traversed(Recorded(stops, directions), outputs, inputs, seeds)
    with Carrying(directions) as carrying:
        return _traversed(Carried(stops, carrying), outputs, inputs, seeds)


# --- second order ---------------------------------------------------------------------------------
# Products with Hessians by a sweep of second order over the rows of a function.
#
# Tangents of all rows are computed forwards first. The reverse sweep then carries the adjoint of
# each row and the tangent of that adjoint. Rows without second-order code of their own stop it for
# the contribution of the dependence of their rule on values.
#
# Cases that are not known to be right are left to a gradient of a gradient: rows that write in
# place, functions of users, and derivatives that are not finite, where products of 0 and infinity
# depend on the order of operations (see `Namespace`).


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
    read = lambda source, what: tangents.value(number, source, what)
    out, operands = values_at(op.used, site, read, lambda site: output_at(tangents, number, site))
    found = tangents.read_by_rule(number, op, site)
    with rt.switched(True):
        values = [
            value if t is None else new_tensor(np.array(value), requires_grad=True)
            for value, t in zip([out, *operands], found, strict=True)
        ]
        parts = parts_of(op, g, site, values[0], values[1:])
        pairs = [(value, t) for value, t in zip(values, found, strict=True) if t is not None]
        recorded = [part for part in parts if part is not None and is_recorded(part)]
        seeds = [np.reshape(t, (1, *np.shape(array_of(value)))) for value, t in pairs]
        along = iter(tangents_of(recorded, [value for value, _ in pairs], seeds, False))
    return [next(along) if part is not None and is_recorded(part) else None for part in parts]

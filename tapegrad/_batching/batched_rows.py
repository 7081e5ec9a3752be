"""Rows of one element computed for a whole batch, which is an axis in front.

Element-wise rows are those of the table on operands whose axes are aligned. All others follow from
their declarations: by `batched` where there is one, else by the layout of the row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.codegen.layout import ARRAY
from .._core.operations import PUBLIC
from .._core.operations.cumulative import same_shape
from .._core.operations.declaring import recorded
from .._core.operations.einsum import in_c_order
from .._core.operations.reductions import reduced
from .._core.ops.call_rows import COMPUTED
from .._core.ops.elementwise import STEERING
from .._core.ops.table import Pointwise, Site, Structural
from .._core.tape.sweeps import add_to_windows, memory_axes
from .._core.tensor import copies
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import link
from .._core.tensor.runtime import silence
from .._core.tensor.trace import steered
from .._core.tensor.values import array_of, is_recorded, is_tensor, shape_of, value_of
from .._derivatives.declared_tangents import aligned
from .._derivatives.recorded_reverse import site_of
from .._derivatives.rule_namespace import Namespace, product
from .._derivatives.tape_traversal import evaluate, placed, tensor_at
from .element import Element, Unbatched
from .recorded_rows import RecordedRow, call_of_each, spread

_FLOAT64 = np.dtype(np.float64)

# --- what rules compute with ----------------------------------------------------------------------


class _Batching(Namespace):
    """NumPy's functions by name, and the additional functions that batching needs."""

    aligned = staticmethod(aligned)

    @staticmethod
    def repeated(operand, t):
        """An operand that is the same for all elements with the axis of those in `t`."""
        count = next(len(value_of(one)) for one in t if one is not None)
        return PUBLIC["broadcast_to"](operand, (count, *shape_of(operand)))

    @staticmethod
    def linked(base: np.ndarray, pairs):
        return linked(base, pairs)


def linked(base: np.ndarray, pairs):
    """Arrays like `base`, assembled from parts: (values, the view of `base` that they add to).

    Where nothing is added it has the values of `base`.
    """
    pairs = [_once(*pair) for pair in pairs]
    (first, view), count = pairs[0], len(value_of(pairs[0][0]))
    if (
        len(pairs) == 1
        and view.size == base.size
        and rt.same_place(view.reshape(-1), base.reshape(-1))
    ):
        return PUBLIC["reshape"](first, (count, *base.shape))
    times = np.zeros(base.shape, base.dtype)
    for _, view in pairs:
        add_to_windows(placed(times, base, view), base.dtype.type(1))
    out = copies.empty((count, *base.shape), base.dtype)
    rest = np.flatnonzero(times == 0.0)
    if times.size and times.max() > 1.0:
        out[...] = np.where(times == 0.0, base, 0.0)
    else:
        out.reshape(count, base.size)[:, rest] = base.reshape(-1)[rest]
    targets = [(values, placed(out, base, view, count)) for values, view in pairs]
    for values, target in targets:
        if times.size and times.max() > 1.0:
            add_to_windows(target, array_of(values))
        else:
            target[...] = array_of(values)
    return link(out, targets) if any(is_recorded(values) for values, _ in targets) else out


def _once(values, view: np.ndarray):
    """Values summed over the axes along which a view repeats an element."""
    axes = tuple(k - view.ndim for k, s in enumerate(view.strides) if s == 0 and view.shape[k] > 1)
    if not axes:
        return values, view
    key = [slice(0, 1) if k - view.ndim in axes else slice(None) for k in range(view.ndim)]
    return PUBLIC["sum"](values, axis=axes, keepdims=True), view[tuple(key)]


_NAMES = _Batching(product)


def in_order_of(value, base: np.ndarray):
    """The counterpart of `base` for all elements, with the same memory order; and the axes."""
    axes = memory_axes(base)
    if axes is not None:
        value = PUBLIC["transpose"](value, (0, *[1 + axis for axis in axes]))
    return in_c_order(value)


# --- by layout ------------------------------------------------------------------------------------


def _reduction(op: Structural, t: list, site: Site):
    """Axes count from the end: an axis in front is one more that is kept."""
    (x,) = t
    value = op.value(value_of(x), **site.static)
    if not is_recorded(x):
        return value
    return reduced(ARRAY + op.code, value, x, _axes(site, value.ndim), True)


def _same_shape(op: Structural, t: list, site: Site):
    (x,) = t
    value = np.ascontiguousarray(op.value(value_of(x), **site.static))
    if not is_recorded(x):
        return value
    return same_shape(op, value, x, _axes(site, value.ndim))


def _axes(site: Site, ndim: int) -> tuple[int, ...]:
    return tuple(axis % ndim for axis in site.static["axes"])


def _plain(op: Structural, t: list, site: Site):
    """Operands broadcast against each other: those of fewer axes get some behind the first."""
    ndim = max(np.ndim(what) for _, what in site.operands)
    pairs = zip(t, site.operands, strict=True)
    operands = [what if one is None else aligned(one, ndim) for one, (_, what) in pairs]
    return recorded(op, operands, site.static)


_BY_LAYOUT: dict[Any, Callable] = {
    "reduction": _reduction,
    "same shape": _same_shape,
    "plain": _plain,
}


def _one_by_one(op: Structural, t: list, site: Site):
    """For each element separately, where the declaration says so."""
    count = next(len(value_of(one)) for one in t if one is not None)
    pairs = [*zip(t, site.operands, strict=True)]
    each = [[what if one is None else one[k] for one, (_, what) in pairs] for k in range(count)]
    return PUBLIC["stack"]([recorded(op, operands, site.static) for operands in each])


def _steering(op: Pointwise, operands: list):
    """An operation of traces, by its expression; without derivative where its partials are 0."""
    if not op.sloping:
        operands = [steered(np.positive, one) for one in operands]
    (made,) = evaluate(op, dict(zip(op.inputs, operands, strict=True)))
    return made


# --- rows -----------------------------------------------------------------------------------------


class BatchedRows:
    """The rows of an element, oldest to newest, with their counterparts for all elements.

    `inputs` are arrays or recorded tensors with the elements along the first axis, in memory as
    those of the element. Rows that do not depend on them are the same for all.
    """

    def __init__(self, element: Element, inputs: list, count: int):
        self.element, self.rows, self.count = element, element.rows, count
        pairs = zip(element.inputs, inputs, strict=True)
        self.made: dict[int, Any] = {one._id: value for one, value in pairs}
        self._cells: dict[int, dict[int, np.ndarray]] = {}  # of consecutive rows, by address

    # --- operands -------------------------------------------------------------------------------

    def seen(self, source: int, what):
        """An operand for all elements; None if it is the same for all."""
        made = self.made.get(source)
        if made is None or what is None:
            return made
        memory, base = value_of(made), self.rows[source].base
        if what is base and base.flags.c_contiguous:
            return made
        view = placed(memory, base, what, self.count)
        return rt.view_of(made, view) if is_tensor(made) else view

    def alone(self, source: int, what):
        """An operand that is the same for all elements, as a tensor if it is recorded elsewhere."""
        is_outer = source in self.element.outer and rt.is_recording()
        if what is None:
            value = self.rows.fields(source)[4]
            return tensor_at(source, None, value) if is_outer else value
        return tensor_at(source, what) if is_outer else self.element.as_read(source, what)

    def of_tensor(self, tensor):
        """The batched counterpart of a recorded tensor; None if it is the same for all elements."""
        view = tensor._array if type(tensor) is rt.Array else None
        return self.seen(tensor._id, view)

    # --- the traversal --------------------------------------------------------------------------

    def run(self, wanted: list) -> list:
        """The batched counterparts of recorded tensors (see `of_tensor`); others are left out."""
        numbers = self._behind([tensor._id for tensor in wanted])
        uses = Counter(k for number in numbers for k in self.rows[number].reads)
        uses.update(tensor._id for tensor in wanted)
        with silence():
            for number in numbers:
                row = self.rows[number]
                if any(k in self.made for k in row.reads):
                    self.made[number] = self._laid(row, self._value(number, row))
                for k in row.reads:
                    uses[k] -= 1
                    if not uses[k]:
                        self.made.pop(k, None)
                        self._cells.pop(k, None)
        return [self.of_tensor(tensor) for tensor in wanted]

    def _behind(self, wanted: list[int]) -> list[int]:
        """The rows that some rows need, oldest first, but for inputs."""
        found, waiting = set(), list(wanted)
        inside = set(self.element.order)
        while waiting:
            number = waiting.pop()
            if number in found or number in self.made or number not in inside:
                continue
            found.add(number)
            waiting += self.rows[number].reads
        return [number for number in self.element.order if number in found]

    def _laid(self, row: RecordedRow, value):
        """The value of a row in memory as that of the element."""
        value = value if is_recorded(value) else value_of(value)
        shape, dtype = ((), _FLOAT64) if row.base is None else (row.base.shape, row.base.dtype)
        shape = (self.count, *shape)
        array = array_of(value)
        if array.dtype != dtype or array.size != math.prod(shape):
            raise Unbatched(f"{row.name} gives another shape or dtype for a batch")
        if row.base is None:
            return value if array.ndim == 1 else PUBLIC["reshape"](value, shape)
        value = value if array.shape == shape else PUBLIC["reshape"](value, shape)
        return in_order_of(value, row.base)

    def _value(self, number: int, row: RecordedRow):
        """The value of a row for all elements."""
        if row.word == layout.LOAD:
            return self._cell(*row.operands[0])
        if isinstance(row.op, Pointwise):
            return self._pointwise(row, row.op)
        if row.op is COMPUTED:
            return self._call(row)
        return self._structural(number, row, row.op)

    def _cell(self, source: int, what: np.ndarray):
        """One number of each element; copied, since the originals are far apart in memory."""
        if is_tensor(self.made[source]):
            return self.seen(source, what)
        found, address = self._cells.setdefault(source, {}), what.ctypes.data
        if address not in found:
            found[address] = np.ascontiguousarray(self.seen(source, what))
        return found[address]

    def _pointwise(self, row: RecordedRow, op: Pointwise):
        ndim = 0 if row.base is None else row.base.ndim
        operands = []
        for source, what in row.operands:
            given = self.seen(source, what)
            operands.append(self.alone(source, what) if given is None else spread(given, ndim))
        return apply(op.name, *operands) if op.name not in STEERING else _steering(op, operands)

    def _call(self, row: RecordedRow):
        (_, call), *operands = row.operands
        t = [self.seen(*operand) for operand in operands]
        pairs = zip(t, operands, strict=True)
        alone = [self.alone(*operand) if one is None else None for one, operand in pairs]
        return call_of_each(call, t, alone, np.ndim(row.base))

    def _structural(self, number: int, row: RecordedRow, op: Structural):
        rule: Any = None if op is None else _BY_LAYOUT.get(op.layout)
        if op is None or op.vjp is None or (op.batched is None and rule is None):
            raise Unbatched(f"it calls {row.name}, which has no batching rule")
        site = site_of(op, [*row.operands, (number, row.base)])
        t = [self.seen(*operand) for operand in site.operands]
        pairs = zip(t, site.operands, strict=True)
        operands = [
            (source, self.alone(source, what) if one is None else _element(what))
            for one, (source, what) in pairs
        ]
        site = site._replace(operands=operands)
        if op.batch == "loop":
            made = _one_by_one(op, t, site)
        elif op.batched is not None:
            values = [operand for _, operand in operands]
            made = op.batched(_NAMES, t, _element(site.out), *values, **site.static)
        else:
            made = rule(op, t, site)
        if site.out is None or site.out.flags.c_contiguous or op.layout == "links":
            return made
        return linked(row.base, [(PUBLIC["reshape"](made, (self.count, *site.shape)), site.out)])


def _element(what):
    """An operand of one element, read for its shape and dtype."""
    return np.float64(0.0) if what is None else what

"""Floor 5: forward mode. Tangents are carried beside the values of rows, oldest to newest.

Each row's tangent is computed from those of its operands, in several directions at once: a tangent
has the shape of the row's array with an axis of directions before it. The rules are called with
tensors where somebody around wants the derivative of tangents, which are recorded then, else with
arrays.

Rows read buffers as they were at their time (see `rewound`); where tangents are recorded, the
rows are recorded again without in-place writes first (see `unwritten`).
"""

from __future__ import annotations

import numpy as np

from .ops.table import Pointwise, find
from .rewound import Rewound
from .tangent_rules import RULES, aligned, copy, pointwise_rule
from .tape.tape import bounds, name_of_row, needed
from .tensor import PUBLIC
from .tensor import runtime as rt
from .tensor.einsum import shown
from .tensor.values import array_of, is_tensor, value_of
from .unwritten import without_writes
from .walk import placed


class Forward(Rewound):
    """The tangents of rows while the rows are walked forwards."""

    def __init__(self, stops, directions: int, recorded: bool):
        super().__init__(stops)
        self.directions = directions
        self.recorded = recorded  # whether values are tensors on their rows, or plain
        self.tangents: dict = {}

    # --- values -------------------------------------------------------------------------------

    def value(self, number: int, source: int, what):
        """An operand of row `number`, found by `read`: a tensor on its row, or a plain value."""
        if source < 0:
            return what
        return self.tensor(source, what) if self.recorded else self.then(source, what)

    # --- tangents -----------------------------------------------------------------------------

    def tangent(self, source: int, view=None):
        """The tangent of a row, seen through a view of its buffer; None where it is zero."""
        found = self.tangents.get(source)
        if found is None or view is None:
            return found
        base = self.base(source)
        if rt.same_place(view, base) and base.flags.c_contiguous:
            return found
        return shown(found, placed(array_of(found), base, view, self.directions))

    def set(self, number: int, tangent) -> None:
        """Give a row its tangent, or one that broadcasts to it."""
        base = self.base(number)
        dtype = np.dtype(np.float64) if base is None else base.dtype
        shape = (self.directions, *(() if base is None else base.shape))
        if tangent.shape != shape:
            tangent = PUBLIC["broadcast_to"](aligned(tangent, len(shape) - 1), shape)
        if tangent.dtype != dtype:
            tangent = tangent.astype(dtype)
        if number in self.written or not array_of(tangent).flags.c_contiguous:
            tangent = copy(tangent)  # in a buffer of its own, laid out as the row's
        self.tangents[number] = tangent

    def start(self, number: int, seed) -> None:
        """Give an input its tangent, a copy of what the caller has."""
        self.set(number, copy(seed))

    def begin(self, buffer: int) -> None:
        """Give a buffer that is written its tangent, zero so far, if it has none: a tensor."""
        found = self.tangents.get(buffer)
        if found is None:
            base = self.base(buffer)
            low, high = bounds(base)
            size = (high - low) // base.itemsize if base.size else 0
            shape = base.shape if base.flags.c_contiguous else (size,)
            found = np.zeros((self.directions, *shape), base.dtype)
        self.tangents[buffer] = found if is_tensor(found) else rt.wrap(found)

    def run(self, outputs) -> None:
        """Walk from the oldest row that `outputs` need to the newest."""
        numbers = needed(self.reader, outputs, self.stops)
        self.rewind(numbers)
        with np.errstate(all="ignore"):
            for number in numbers:
                if number in self.stops:
                    continue
                name = name_of_row(self.reader, number)
                if any(source in self.tangents for source in self.reader.operands(number)):
                    tangent = self._rule(name)(self, number)
                    if tangent is not None:
                        self.set(number, tangent)
                self.write_again(number)

    @staticmethod
    def _rule(name: str):
        if isinstance(find(name), Pointwise):
            return pointwise_rule
        if name not in RULES:
            raise NotImplementedError(
                f"tapegrad: a forward derivative through {name} is not supported yet; use a "
                "reverse one: grad, vjp or jacobian"
            )
        return RULES[name]


def tangents_of(outputs, inputs, seeds, recorded: bool) -> list:
    """Tangents of recorded tensors for those of the inputs, an axis of directions first.

    `seeds` have that axis too; tangents are arrays where they are not recorded. With `recorded` the
    values of rows are taken as tensors, so that the tangents can be differentiated with respect to
    whatever the values depend on.
    """
    directions = len(value_of(seeds[0])) if seeds else 1
    stops = [tensor._id for tensor in inputs]
    outputs = without_writes(outputs, stops) if recorded else outputs
    walk = Forward(stops, directions, recorded)
    for tensor, seed in zip(inputs, seeds, strict=True):
        walk.start(tensor._id, seed)
    walk.run([output._id for output in outputs])
    found = []
    for output in outputs:
        view = output._array if type(output) is rt.Array else None
        tangent = walk.tangent(output._id, view)
        if tangent is None:
            value = array_of(output)
            tangent = np.zeros((directions, *value.shape), value.dtype)
        found.append(tangent)
    return found

"""Floor 5: forward mode. Tangents are carried beside the values of rows, oldest to newest.

Each row's tangent is computed from those of its operands, in several directions at once: a tangent
has the shape of the row's array with an axis of directions before it. The rules are called with
tensors where somebody around wants the derivative of tangents, which are recorded then, else with
arrays.

Rows read buffers as they were at their time. Without recording, the walk starts from copies of
the written buffers with their oldest values and does the writes again as it meets them. What is
recorded on the newest row of a buffer cannot be an old value: a rule that asks for one is refused.
"""

from __future__ import annotations

import numpy as np

from .ops.table import Pointwise, find
from .tangent_rules import RULES, aligned, copy, pointwise_rule
from .tape.tape import bounds, name_of_row, needed
from .tensor import PUBLIC
from .tensor import runtime as rt
from .tensor.einsum import shown
from .tensor.values import array_of, is_tensor, value_of
from .walk import Walk, placed


class Forward(Walk):
    """The tangents of rows while the rows are walked forwards."""

    def __init__(self, stops, directions: int, recorded: bool):
        super().__init__(stops)
        self.directions = directions
        self.recorded = recorded  # whether values are tensors on their rows, or plain
        self.tangents: dict = {}
        self.written: dict[int, list[int]] = {}  # buffer → rows that write it
        self._memory: dict[int, np.ndarray] = {}  # buffer → its values at the time of the walk
        self._after: dict[int, np.ndarray] = {}  # write → what it wrote

    # --- values -------------------------------------------------------------------------------

    def value(self, number: int, source: int, what):
        """An operand of row `number`, found by `read`: a tensor on its row, or a plain value."""
        if source < 0:
            return what
        if self.recorded:
            self._check_current(number, source, what)
            return self.tensor(source, what)
        if what is None:
            return self.number(source)
        return self._now(source, what)

    def _now(self, source: int, view: np.ndarray) -> np.ndarray:
        """A view of a buffer as it is at the time of the walk."""
        memory = self._memory.get(source)
        return view if memory is None else placed(memory, self.base(source), view)

    def _check_current(self, number: int, source: int, view) -> None:
        """Refuse a value that was overwritten after row `number` had read it."""
        for write in self.written.get(source, ()):
            later = self.reader.time(write) > self.reader.time(number)
            if later and np.may_share_memory(self.read(write)[0][1], view):
                raise NotImplementedError(
                    "tapegrad: a derivative of a forward derivative through an in-place write of "
                    f"what {name_of_row(self.reader, number)} had read is not supported yet; write "
                    "to a copy(), or build the array with concatenate, stack or where instead"
                )

    def key(self, number: int, view: np.ndarray) -> tuple:
        """The key by which a write writes its view: all of it, or picked elements."""
        picked = self.read(number)[3:]
        return np.unravel_index(picked[0][1], view.shape) if picked else (...,)

    def _rewind(self, numbers) -> None:
        """Note the writes; without recording, give their buffers the values before the first."""
        writes = [n for n in numbers if self.reader.buffer_written(n) >= 0]
        for number in writes:
            self.written.setdefault(self.reader.buffer_written(number), []).append(number)
        if self.recorded:
            return
        for buffer in self.written:
            base = self.base(buffer)
            low, high = bounds(base)
            memory = np.zeros((high - low) // base.itemsize if base.size else 0, base.dtype)
            placed(memory, base, base)[...] = base
            self._memory[buffer] = memory
        for number in reversed(writes):
            (buffer, view), (_, kept), *_ = self.read(number)
            now, key = self._now(buffer, view), self.key(number, view)
            self._after[number] = now[key].copy()
            now[key] = kept

    def _write_again(self, number: int) -> None:
        buffer, view = self.read(number)[0]
        self._now(buffer, view)[self.key(number, view)] = self._after[number]

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
        self._rewind(numbers)
        with np.errstate(all="ignore"):
            for number in numbers:
                if number in self.stops:
                    continue
                name = name_of_row(self.reader, number)
                if any(source in self.tangents for source in self.reader.operands(number)):
                    tangent = self._rule(name)(self, number)
                    if tangent is not None:
                        self.set(number, tangent)
                if number in self._after:
                    self._write_again(number)

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
    walk = Forward([tensor._id for tensor in inputs], directions, recorded)
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

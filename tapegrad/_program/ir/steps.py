"""What a program is made of: an arena of float64 slots and the steps that fill it.

A program is in single assignment: every slot is written once, by one step, before it is read. A
slot has its adjoint at the same place of a second arena. Elements of arrays lie in slots as well,
so that a view of an array costs nothing and `x[3]` is a slot. Booleans and integers are kept as
float64 (integers up to 2^53).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: The base of the arena. Bases from 1 on are large inputs, read where the caller has them.
ARENA = 0
#: A slot that belongs to no value.
NOTHING = 0
#: In `Scalars.op`: the value in slot `a` must be equal to that in slot `b` (NaN to NaN), else the
#: program stops. A step's result slot of it is never read.
GUARD = 0


@dataclasses.dataclass(slots=True, unsafe_hash=True)
class View:
    """Slots of one base: element (i, j, …) is at offset + i·strides[0] + j·strides[1] + …

    A view never changes. `size`, and `extent`, the first slot and the one after the last, are
    computed when they are first asked for: passes ask again and again.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    base: int = ARENA
    size: int = dataclasses.field(init=False, compare=False, repr=False)
    extent: tuple[int, int] = dataclasses.field(init=False, compare=False, repr=False)

    def __getattr__(self, name: str):
        """What has not been computed yet."""
        if name == "size":
            self.size = math.prod(self.shape)
            return self.size
        if name == "extent":
            self.extent = self._extent()
            return self.extent
        raise AttributeError(f"a view has no attribute {name!r}")

    def _extent(self) -> tuple[int, int]:
        if not self.size:
            return self.offset, self.offset
        low = high = self.offset
        for n, stride in zip(self.shape, self.strides, strict=True):
            if stride > 0:
                high += (n - 1) * stride
            elif stride:
                low += (n - 1) * stride
        return low, high + 1

    def overlaps(self, other: View) -> bool:
        """Whether two views may share a slot: whether what lies between their ends does."""
        (low, high), (other_low, other_high) = self.extent, other.extent
        return self.base == other.base and low < other_high and other_low < high

    def of(self, memory: np.ndarray) -> np.ndarray:
        """The elements, where the slots of the base are one array."""
        if not self.size:
            return np.empty(self.shape, memory.dtype)
        item = memory.itemsize
        steps = [item * stride for stride in self.strides]
        return np.ndarray(self.shape, memory.dtype, memory, item * self.offset, steps)

    def at(self, offset: int) -> View:
        """The same view that begins elsewhere."""
        if offset == self.offset:
            return self
        made = View(offset, self.shape, self.strides, self.base)
        made.size, (low, high) = self.size, self.extent
        made.extent = low + offset - self.offset, high + offset - self.offset
        return made

    def moved(self, distance: int) -> View:
        """The same view some slots further on."""
        return self.at(self.offset + distance)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie side by side in C order."""
        expected = 1
        for n, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True


def contiguous(offset: int, shape: tuple[int, ...], base: int = ARENA) -> View:
    """The view of an array in C order."""
    strides = []
    step = 1
    for n in shape[::-1]:
        strides.append(step)
        step *= n
    made = View(offset, tuple(shape), tuple(strides[::-1]), base)
    made.size, made.extent = step, (offset, offset + step)
    return made


def shown(operand: Any) -> Any:
    """An operand of a kernel as its declaration is asked about it: the shape of a view."""
    return operand.shape if isinstance(operand, View) else operand


@dataclasses.dataclass
class Scalars:
    """Operations on numbers, one after the other: operation k writes slot first + k.

    `op` holds codes of element-wise operations (`ops.table.BY_CODE`) or GUARD; `a`, `b`, `c` the
    slots of the operands, −1 where there is none. All are int32 and of one length; `c` is empty if
    no operation has three operands.
    """

    first: int
    op: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


@dataclasses.dataclass
class Elementwise:
    """Element-wise operations over one shape: what lives only inside is never stored.

    `ops` are (code, operands); an operand is the number of an earlier operation of the step, or a
    view that broadcasts to the shape (already broadcast: strides of 0). `stores` are (number,
    view in C order) of results that are read outside; `sums` are (number, view of `shape` whose
    strides along summed axes are 0) of results that are summed into slots, which start at 0.
    """

    shape: tuple[int, ...]
    ops: list[tuple[int, tuple[int | View, ...]]]
    stores: list[tuple[int, View]]
    sums: list[tuple[int, View]]


@dataclasses.dataclass
class Link:
    """Views added to views: `out`, in C order, is 0; then target += source for (target, source)."""

    out: View
    pairs: list[tuple[View, View]]


@dataclasses.dataclass
class Gather:
    """Elements of `source`, counted in C order, at `positions`: an int64 array, or a view."""

    out: View
    source: View
    positions: np.ndarray | View


@dataclasses.dataclass
class Scatter:
    """Elements written: `out`, in C order, is `before`, but `source` at `positions` of it.

    Positions count in C order and are a view; the last element of a repeated one holds.
    """

    out: View
    before: View
    source: View
    positions: View


@dataclasses.dataclass
class Pack:
    """Slots side by side: out[k] = slot[k]; `out` in C order, `slots` an int32 array."""

    out: View
    slots: np.ndarray


@dataclasses.dataclass
class Kernel:
    """A structural operation of the table, by its kernels or by its rule.

    Operands are views, arrays that never change, numbers and other objects, as in its row. For an
    operation by rule they are its keyword arguments, as pairs of name and value, then views.
    """

    code: int
    operands: list[Any]
    out: View


@dataclasses.dataclass
class Computed:
    """A function of Python's without derivative: out = function(*operands).

    `operands` are views, given as arrays of the dtype beside them, or other objects.
    """

    function: Callable
    operands: list[tuple[Any, np.dtype | None]]
    out: View


Step = Scalars | Elementwise | Link | Gather | Scatter | Pack | Kernel | Computed


@dataclasses.dataclass
class Input:
    """An argument: its slots, and whether it is differentiated."""

    view: View
    dtype: np.dtype
    differentiated: bool = True


@dataclasses.dataclass
class Output:
    """A result: its slots and its dtype."""

    view: View
    dtype: np.dtype


@dataclasses.dataclass
class Code:
    """A program: how many slots, what is in some of them from the start, steps, results.

    `constants` are (first slot, float64 array) pairs; nothing writes there. `clears` are slots that
    several arrays share, by step: after its reverse their adjoints are set back to 0.
    """

    slots: int
    constants: list[tuple[int, np.ndarray]]
    inputs: list[Input]
    steps: list[Step]
    outputs: list[Output]
    clears: dict[int, list[View]] = dataclasses.field(default_factory=dict)

"""The memory of a program during its check: slots that hold values, and the places of views."""

from __future__ import annotations

import math

import numpy as np

from ..._core.codegen.layout import DIMENSIONS
from .blocks import is_injective
from .steps import ARENA, NOTHING, Code, View, contiguous

#: Slots of a program, and elements of a view: BLAS and columns of operands count no further.
MOST = 2**31 - 1
#: Kinds of dtypes of arguments and results.
KINDS = "biuf"


class IllegalProgram(ValueError):
    """Why a program cannot be trusted."""


def expect(holds: bool, what: str) -> None:
    """Raise IllegalProgram if a condition does not hold."""
    if not holds:
        raise IllegalProgram(what)


class Memory:
    """Slots of a program that is traversed in order, first those of constants and inputs.

    Slots that are `ready` can be read, those that are `taken` not be written. Those that are
    `lasting` stay to the end: constants, inputs, and what is read as positions in reverse.
    """

    def __init__(self, code: Code, most: int):
        expect(NOTHING < code.slots <= MOST, f"{code.slots} slots")
        self.most = min(most, MOST)
        self.inputs, self.dtype = code.inputs, code.dtype
        given = enumerate(code.inputs, 1)
        self.bases = {k: one.view.size for k, one in given if one.view.base == k}
        held = enumerate(code.held, len(code.inputs) + 1)
        self.bases |= {k: array.size for k, array in held}
        self.slots = code.slots
        self.ready = np.zeros(code.slots, bool)
        self.taken = np.zeros(code.slots, bool)
        self.taken[NOTHING] = True
        for slot, values in code.constants:
            fits = values.dtype == code.dtype and values.ndim == 1
            expect(fits, f"constants are not of {code.dtype}")
            self.write(contiguous(slot, values.shape))
        for number, one in enumerate(self.inputs):
            self._input(number, one)
        self.lasting = self.taken.copy()

    def _input(self, number: int, one) -> None:
        self.is_shaped(one.view)
        expect(one.view.is_contiguous, f"input {number} is not in C order")
        expect(one.dtype.kind in KINDS, f"input {number} has dtype {one.dtype}")
        if one.view.base == ARENA:
            self.write(one.view)
        else:
            own = one.view.base == number + 1 and one.view.offset == 0
            expect(own and one.dtype == self.dtype, f"input {number} is base {one.view.base}")

    def is_shaped(self, view: View) -> None:
        """Shape and strides are such that no product of them is too large."""
        sizes, strides = view.shape, view.strides
        is_legal = len(sizes) == len(strides) <= DIMENSIONS and min(sizes, default=0) >= 0
        if not is_legal or math.prod([n or 1 for n in sizes]) > self.most:
            raise IllegalProgram(f"a view has shape {sizes}")  # no text is made where all is well
        if max(map(abs, strides), default=0) > MOST:
            raise IllegalProgram(f"a view has strides {strides}")

    def fits(self, view: View) -> None:
        """A view lies in its memory."""
        self.is_shaped(view)
        room = self.slots
        if view.base != ARENA:
            expect(view.base in self.bases, f"there is no base {view.base}")
            room = self.bases[view.base]
        low, high = view.extent
        if not 0 <= low <= high <= room:
            raise IllegalProgram(f"a view of {low} to {high} in {room} slots")

    def read(self, view: View) -> None:
        """A view has values."""
        self.fits(view)
        if view.base == ARENA:
            ready = self.ready[slice(*view.extent)].all() or marked(self.ready, view).all()
            expect(bool(ready), "a slot is read before it is written")

    def write(self, view: View) -> None:
        """Slots in C order get values."""
        self.fits(view)
        expect(view.base == ARENA and view.is_contiguous, "results are not in C order in the arena")
        self._take(view)

    def write_each(self, view: View) -> None:
        """Slots anywhere get values, each slot one."""
        self.fits(view)
        expect(view.base == ARENA and is_injective(view), "two results share a slot")
        self._take(view)

    def write_sums(self, view: View) -> None:
        """Slots get sums along the axes whose strides are 0."""
        axes = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if s or not n]
        shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
        self.write_each(View(view.offset, shape, strides, view.base))

    def begin_again(self, view: View) -> None:
        """Slots whose values are not read any more are given to others."""
        self.fits(view)
        expect(view.base == ARENA and view.is_contiguous, "shared slots are not side by side")
        expect(not marked(self.lasting, view).any(), "slots are given up that must last")
        marked(self.taken, view)[...] = False
        marked(self.ready, view)[...] = False

    def _take(self, view: View) -> None:
        expect(not marked(self.taken, view).any(), "a slot is written twice")
        marked(self.taken, view)[...] = True
        marked(self.ready, view)[...] = True

    def last(self, view: View) -> None:
        """A view is read in reverse by code that trusts its values."""
        if view.base == ARENA:
            marked(self.lasting, view)[...] = True

    def lies_in(self, view: View, whole: View) -> None:
        """A view sees slots of a result only."""
        self.fits(view)
        low, high = view.extent
        inside = whole.offset <= low and high <= whole.offset + whole.size
        expect(view.base == whole.base and (inside or not view.size), "a view leaves the result")


def marked(marks: np.ndarray, view: View) -> np.ndarray:
    """Marks of the slots of a view, those of a broadcast axis once."""
    axes = zip(view.shape, view.strides, strict=True)
    sizes = tuple(n if stride else min(n, 1) for n, stride in axes)
    return View(view.offset, sizes, view.strides).of(marks)


def are_below(positions: np.ndarray, count: int) -> None:
    """Positions are in an array."""
    inside = not positions.size or 0 <= positions.min() <= positions.max() < count
    expect(bool(inside), "a position is outside")

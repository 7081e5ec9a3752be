"""Common subexpressions: the same operation on the same operands is computed once.

Its result then gets the adjoints of all that read it, and its partial derivative multiplies their
sum: values are the same to the bit, derivatives up to rounding.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Hashable, Sequence

import numpy as np

from ..._core.ops.elementwise import STEERING
from ..._core.ops.table import MOST_CODES, TABLE
from ..ir import scalar_scans
from ..ir.rewriting import merged
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, Code, Step, View, Visitor, mostly_zeros

#: Operations whose operands may change places: the result is the same to the bit.
_NAMES = "add multiply equal not_equal logical_and logical_or logical_xor".split()
COMMUTATIVE = frozenset({**TABLE, **STEERING}[name].code for name in _NAMES)


def share_results(code: Code) -> Code:
    """The program without operations that repeat an earlier computation."""
    finder = _Finder(code.slots)
    for step in code.steps:
        step.accept(finder)
    return merged(code, finder.stands) if finder.any_left() else code


class _Numbers(dict[View, int]):
    """A number for each view that is read: views of the same values have the same."""

    def __init__(self, finder: _Finder):
        self.first = finder.first

    def __missing__(self, view: View) -> int:
        """What a view shows has been written: it is known whether something replaces that."""
        first = self.first(view)
        number = len(self) if first is view else self[first]
        self[view] = number
        return number


class _Finder(Visitor):
    """The computations so far, by operation and operands; `stands`: see `scalar_scans`."""

    def __init__(self, slots: int):
        self.stands = mostly_zeros(slots, np.int32)
        self.known: dict[tuple, list[View]] = {}
        self.of_views = _Numbers(self)
        self.moved: list[tuple[int, int]] = []  # arrays with replacements, by first slot
        self.numbers: list[Scalars] = []
        self.wishes: list[np.ndarray] = []
        self.any_number = False
        commutative = np.zeros(MOST_CODES, np.uint8)
        commutative[list(COMMUTATIVE)] = True
        self.scan = scalar_scans.Scan(
            {
                scalar_scans.BY_SLOT: self.stands,
                scalar_scans.COMMUTATIVE: commutative,
                scalar_scans.HEADS: np.full(scalar_scans.HASHES, -1, np.int32),
                scalar_scans.RING: np.zeros(scalar_scans.ENTRY * scalar_scans.WINDOW, np.int32),
            }
        )

    def scalars(self, step: Scalars) -> None:
        """Find what is computed again, and remember what is computed."""
        wished = np.zeros(len(step.op), np.uint8)
        self.any_number |= self.scan("number", step, {scalar_scans.WISHED: wished}) > 0
        self.numbers.append(step)
        self.wishes.append(wished)

    def other(self, step: Step) -> None:
        """Find what is computed again as a whole, and remember what is computed."""
        key, written = step.key(self), step.views_written
        if key is None:
            return
        firsts = self.known.setdefault(key, written)
        if firsts is written:
            return
        for view, first in zip(written, firsts, strict=True):
            if view is not first and view.size:
                low, high = view.extent
                self.stands[low:high] = np.arange(first.offset, first.offset + view.size)
                bisect.insort(self.moved, (low, high))

    def any_left(self) -> bool:
        """Whether there is any, after what would spoil loops has been left out."""
        if self.any_number:
            self.any_number = scalar_scans.settle_wishes(self.numbers, self.wishes, self.stands)
            for step, wished in zip(self.numbers, self.wishes, strict=True):
                self.stands[step.first : step.first + len(step.op)][wished == 0] = 0
        return self.any_number or bool(self.moved)

    # --- what steps are told by: see `Step.key` -----------------------------------------------

    def operations(self, ops: list[tuple[int, tuple]]) -> list[tuple]:
        """Operations of an element-wise step; operands that may change places in one order."""
        numbers, made = self.of_views, []
        for code, operands in ops:
            found = [numbers[x] if type(x) is View else -1 - x for x in operands]
            if code in COMMUTATIVE:
                found.sort()
            made.append((code, *found))
        return made

    def key_of(self, kind: type, parts: list, written: list[View]) -> tuple | None:
        """What a step of such parts computes, wherever it writes; None if that cannot be said."""
        try:
            key = kind, *[self._hashable(what, written) for what in parts]
            hash(key)
        except TypeError:
            return None
        return key

    def _hashable(self, what, written: list[View]) -> Hashable:
        """Equal for equal parts of steps: numbers of one type, zeros of one sign."""
        if isinstance(what, View):
            return self.place(what, written)
        if isinstance(what, (list, tuple)):
            return tuple([self._hashable(one, written) for one in what])
        if isinstance(what, np.ndarray):
            return what.dtype.str, what.shape, what.tobytes()
        if isinstance(what, functools.partial):
            keywords = self._hashable(sorted(what.keywords.items()), written)
            return what.func, self._hashable(what.args, written), keywords
        return type(what), what.hex() if isinstance(what, float) else what

    def place(self, view: View, written: Sequence[View]) -> tuple:
        """The place where the values of a view were computed first, or where in a result it is."""
        offset = view.offset
        if view.base == ARENA and view.size:
            for number, out in enumerate(written):
                if out.offset <= offset < out.offset + out.size:
                    return -1 - number, offset - out.offset, view.shape, view.strides
        return view.base, self.first(view).offset, view.shape, view.strides

    def first(self, view: View) -> View:
        """The view where the values of one were computed first."""
        if view.base == ARENA and view.size and self._has_moved(view):
            return view.at(self.stands.item(view.offset) or view.offset)
        return view

    def _has_moved(self, view: View) -> bool:
        """Whether another array, or number, replaces all slots of a view."""
        if view.size == 1:
            return True
        if not self.moved:
            return False
        low, high = view.extent
        k = bisect.bisect_right(self.moved, (low, 1 << 62)) - 1
        return k >= 0 and high <= self.moved[k][1]

    def stand_ins(self, slots: np.ndarray) -> np.ndarray:
        """The slots in which the values of others were computed first."""
        return np.where((slots >= 0) & (self.stands[slots] > 0), self.stands[slots], slots)

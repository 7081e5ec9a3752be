"""Common subexpressions: the same operation on the same operands is computed once.

Its result then gets the adjoints of all that read it, and its slope is applied to their sum: values
are the same to the bit, derivatives but for rounding.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Hashable

import numpy as np

from ..ops.steering import STEERING
from ..ops.table import MOST_CODES, TABLE
from ..replay.steps import ARENA, Code, Scalars, Step, View
from . import walks
from .merging import merged
from .reads import inside, views_written
from .rewrite import mapped

#: Operations whose operands may change places: the result is the same to the bit.
_NAMES = "add multiply equal not_equal logical_and logical_or logical_xor".split()
COMMUTATIVE = frozenset({**TABLE, **STEERING}[name].code for name in _NAMES)


def share_results(code: Code) -> Code:
    """The program without operations that compute again what was computed before."""
    finder = _Finder(code.slots)
    for step in code.steps:
        finder.take(step)
    return merged(code, finder.stands) if finder.any_left() else code


class _Finder:
    """What has been computed so far, by operation and operands; `stands` is as in `walks`."""

    def __init__(self, slots: int):
        self.stands = np.zeros(slots, np.int32)
        self.known: dict[tuple, list[View]] = {}
        self.moved: list[tuple[int, int, int]] = []  # first slot, end, how far arrays have moved
        self.scalars: list[Scalars] = []
        self.wishes: list[np.ndarray] = []
        commutative = np.zeros(MOST_CODES, np.uint8)
        commutative[list(COMMUTATIVE)] = True
        self.walk = walks.Walk(
            {
                walks.BY_SLOT: self.stands,
                walks.COMMUTATIVE: commutative,
                walks.HEADS: np.full(2 * walks.WINDOW, -1, np.int32),
                walks.RING: np.zeros(walks.ENTRY * walks.WINDOW, np.int32),
            }
        )

    def take(self, step: Step) -> None:
        """Find what the step computes again, and remember what it computes."""
        if isinstance(step, Scalars):
            wished = np.zeros(len(step.op), np.uint8)
            self.walk("number", step, {walks.WISHED: wished})
            self.scalars.append(step)
            self.wishes.append(wished)
            return
        key, written = self._key(step), views_written(step)
        if key is None:
            return
        for view, first in zip(written, self.known.setdefault(key, written), strict=True):
            if view is not first and view.size:
                low, high = view.extent
                self.stands[low:high] = np.arange(first.offset, first.offset + view.size)
                self.moved.append((low, high, first.offset - low))

    def any_left(self) -> bool:
        """Whether there is any, after what would spoil loops has been left out."""
        any_number = walks.settle_wishes(self.scalars, self.wishes)
        for step, wished in zip(self.scalars, self.wishes, strict=True):
            self.stands[step.first : step.first + len(step.op)][wished == 0] = 0
        return any_number or bool(self.moved)

    def _key(self, step: Step) -> tuple | None:
        """What a step of arrays computes, wherever it writes it; None if that cannot be said."""
        written = views_written(step)

        def move(view: View) -> View:
            for number, out in enumerate(written):
                if inside(view, out):
                    return View(view.offset - out.offset, view.shape, view.strides, -1 - number)
            return self._stand_in(view)

        made = mapped(step, move, lambda slots: _stand_ins(self.stands, slots))
        try:
            key = type(step), *map(_hashable, vars(made).values())
            hash(key)
        except TypeError:
            return None
        return key

    def _stand_in(self, view: View) -> View:
        """The view of the same values that were computed first."""
        if view.base != ARENA:
            return view
        if view.size == 1:
            slot = int(_stand_ins(self.stands, np.array([view.offset]))[0])
            return View(slot, view.shape, (0,) * len(view.shape))
        low, high = view.extent
        k = bisect.bisect_right(self.moved, (low, 1 << 62)) - 1
        if k >= 0 and high <= self.moved[k][1]:
            return view.moved(self.moved[k][2])
        return view


def _stand_ins(stands: np.ndarray, slots: np.ndarray) -> np.ndarray:
    found = stands[slots]
    return np.where((slots >= 0) & (found > 0), found, slots)


def _hashable(what) -> Hashable:
    """Equal for equal steps: numbers of one type, zeros of one sign."""
    if isinstance(what, (list, tuple)):
        return tuple(map(_hashable, what))
    if isinstance(what, np.ndarray):
        return what.dtype.str, what.shape, what.tobytes()
    if isinstance(what, functools.partial):
        return what.func, _hashable(what.args), _hashable(sorted(what.keywords.items()))
    return type(what), what.hex() if isinstance(what, float) else what

"""The parts of a program: interpreted, or compiled to native code; equal ones made once."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from ..._core.codegen.elements import ITEM
from ..._core.remembered import remembered
from ..ir.scalars_step import Scalars
from ..ir.steps import Code, Ranges, Spans, Step, View, contiguous
from ..ir.uses import Wanted, constants_of
from ..native import fused_elementwise as _registered  # noqa: F401
from ..native import scalar_code
from ..native.loop_finding import Slots
from ..native.scalar_code import Piece
from ..replay import scalar_interpreter
from ..replay.block_calls import APART
from ..replay.parts import Part, native_part_of, part_of

# --- templates ------------------------------------------------------------------------------------
# Steps that differ only in the places of their arrays: made once, then relocated.
#
# A long loop over arrays makes the same step a thousand times. Its part is made for the first, and
# again with its arrays moved, which shows the words of the data that depend on the place of each
# array.

#: Steps that occur this often are made from a template.
OFTEN = 4
#: The distances, in slots, by which arrays are moved to see which words follow: by FAR, and then
#: one after the other by this much more. No array is as large.
FAR, BETWEEN_GROUPS = 1 << 52, 1 << 38


@dataclasses.dataclass(frozen=True)
class StepTemplate:
    """A step without places: `key` is equal for steps that differ in `places` only."""

    key: tuple
    places: tuple[int, ...]


def clusters(views: list[View]) -> tuple[list[int], list[int]]:
    """For each view the number of the group of overlapping views that it is in.

    Groups are numbered in order of occurrence; with the lowest slot of each.
    """
    order = sorted([(view.base, *view.extent, k) for k, view in enumerate(views)])
    found, lows, last, end = [-1] * len(views), [], -1, -1
    for base, low, high, k in order:
        if base != last or low >= end:
            lows.append(low)
            last, end = base, high
        end = max(end, high)
        found[k] = len(lows) - 1
    numbers: dict[int, int] = {}
    groups = [numbers.setdefault(group, len(numbers)) for group in found]
    return groups, [lows[group] for group in numbers]


def form_of(step: Step, pattern: tuple, wanted: Callable[[View], bool]) -> StepTemplate:
    """The form of a step with a pattern; overlapping views are moved together."""
    numbers: dict[View, int] = {}
    same = [numbers.setdefault(view, len(numbers)) for view in step.views]
    views = list(numbers)
    groups, places = clusters(views)
    parts = [
        (v.base, v.offset - places[group], v.shape, v.strides, group, wanted(v))
        for v, group in zip(views, groups, strict=True)
    ]
    return StepTemplate((type(step), *pattern, tuple(same), *parts), tuple(places))


class _Swapped:
    """Views replaced by others."""

    def __init__(self, views: dict[View, View]):
        self.views = views

    def __call__(self, view: View) -> View:
        return self.views.get(view, view)


class _AskedAdjoints(_Swapped):
    """Whether adjoints are needed, of views that represent others."""

    def __init__(self, wanted, views: dict[View, View]):
        super().__init__(views)
        self.wanted = wanted

    def __call__(self, view: View):
        return self.wanted(super().__call__(view))


class Template:
    """The part of a form, and the words of its data that move with each of its places."""

    def __init__(
        self, step: Step, form: StepTemplate, make: Callable[..., Part], wanted, item: int
    ):
        self.item = item
        self.part = make(step, wanted)
        self.places = np.array(form.places, np.int64)
        views = list(dict.fromkeys(step.views))
        groups, _ = clusters(views)
        moved = {
            v: v.moved(FAR + group * BETWEEN_GROUPS) for v, group in zip(views, groups, strict=True)
        }
        back = {new: old for old, new in moved.items()}
        other = make(step.mapped(_Swapped(moved)), _AskedAdjoints(wanted, back)).data
        self.fits = other.shape == self.part.data.shape
        if self.fits:
            self._find(other - self.part.data)

    def _find(self, change: np.ndarray) -> None:
        """The words that have changed, and by how many times the distance of which place."""
        self.words = change.nonzero()[0]
        change = change[self.words]
        self.factors = np.where(change >= self.item * FAR, self.item, 1)
        self.groups = (change // self.factors - FAR) // BETWEEN_GROUPS
        known = (self.groups >= 0) & (self.groups < len(self.places))
        exact = change == self.factors * (FAR + self.groups * BETWEEN_GROUPS)
        self.fits = bool((known & exact).all())

    def at(self, places: list[tuple[int, ...]]) -> list[Part]:
        """The parts with their arrays at other places."""
        shifts = np.array(places, np.int64).reshape(len(places), -1) - self.places
        data = np.tile(self.part.data, (len(places), 1))
        data[:, self.words] += self.factors * shifts[:, self.groups]
        part = self.part
        return [
            Part(part.forward, part.reverse, row, 0, part.ahead, part.keep, part.tier)
            for row in data
        ]


def parts_of(steps: list[Step], make: Callable[..., Part], wanted, item: int = ITEM) -> list[Part]:
    """The parts of steps, in order; `make(step, wanted)` makes one, slots have `item` bytes."""
    patterns = [step.pattern for step in steps]
    frequent = collections.Counter(patterns)
    alike: dict[tuple, list[int]] = {}
    places: dict[int, tuple[int, ...]] = {}
    for k, (step, pattern) in enumerate(zip(steps, patterns, strict=True)):
        if pattern is not None and frequent[pattern] >= OFTEN:
            form = form_of(step, pattern, wanted)
            alike.setdefault(form.key, []).append(k)
            places[k] = form.places
    parts: dict[int, Part] = {}
    for key, found in alike.items():
        if len(found) >= OFTEN:
            form = StepTemplate(key, places[found[0]])
            template = Template(steps[found[0]], form, make, wanted, item)
            if template.fits:
                made = template.at([places[k] for k in found])
                parts.update(zip(found, made, strict=True))
    return [parts[k] if k in parts else make(step, wanted) for k, step in enumerate(steps)]


# --- assembly -------------------------------------------------------------------------------------
# The parts of a program: interpreted, or compiled to native code.

#: Fewer operations on numbers are interpreted in any case.
FEW = 16


class Parts:
    """The parts of each step of a program; `slots` of the arena they need.

    `pivot` is the last step but for those with constant partial derivatives: their adjoints can be
    computed before its values, so that it alone may be evaluated in one pass. −1 for none. Fewer
    operations on numbers than `few` are interpreted in any case.
    """

    def __init__(self, code: Code, native: bool, cut: bool, few: int = FEW):
        self.code, self.cut, self.few, self.item = code, cut, few, code.item
        self.slots = code.slots
        self._unused: list[np.ndarray] = []  # slots of values that live in registers only
        self.wanted = Wanted(code)
        self.fresh = frozenset(b for b in self.wanted.bases if self._is_fresh(b))
        self._make: Callable[..., Part] = native_part_of if native else part_of
        self.pivot = self._pivot()
        last = code.steps[self.pivot] if self.pivot >= 0 else None
        apart = [step for step in code.whole_steps if step is not last]
        whole = iter(parts_of(apart, self._part, self.wanted, self.item))
        self._pieces = self._planned() if native else {}
        numbers = self._of_numbers(code.of(Scalars))
        self.of = [
            numbers[k]
            if k in numbers
            else [self._make(step, self.wanted, self.fresh, self.item)]
            if step is last
            else [next(whole)]
            for k, step in enumerate(code.steps)
        ]

    def _pivot(self) -> int:
        steps, k = self.code.steps, len(self.code.steps) - 1
        while k >= 0 and steps[k].is_linear(self.wanted):
            k -= 1
        return k

    def _is_fresh(self, base: int) -> bool:
        """Whether one element-wise step alone reads a large input, and all of it."""
        whole = contiguous(0, self.code.inputs[base - 1].view.shape, base)
        readers = [s for s in self.code.steps if any(v.base == base for v in s.views_read)]
        return len(readers) == 1 and readers[0].sets_adjoints and whole in readers[0].views_read

    def _part(self, step: Step, wanted: Callable[[View], bool]) -> Part:
        passes = (APART,) if step.in_one_pass else ()
        return self._make(step, wanted, self.fresh, self.item, *passes)

    def _planned(self) -> dict[int, list[Piece]]:
        """By step: pieces of operations on numbers; those within the budget are compiled."""
        every = self.code.of(Scalars).items()
        numbers = {k: step for k, step in every if len(step.op) >= self.few}
        found = {k: scalar_code.pieces_of(step, self._by_slot.known) for k, step in numbers.items()}
        scalar_code.within(scalar_code.BUDGET, itertools.chain(*found.values()))
        return found

    def _of_numbers(self, numbers: dict[int, Scalars]) -> dict[int, list[Part]]:
        """The parts of operations on numbers, by step."""
        native = [k for k, found in self._pieces.items() if any(piece.native for piece in found)]
        others = [k for k in numbers if k not in native]
        made = scalar_interpreter.interpreted_each([numbers[k] for k in others], self.item)
        parts = {k: [part] for k, part in zip(others, made, strict=True)}
        return parts | {k: self._native(k, numbers[k]) for k in native}

    def _native(self, k: int, step: Scalars) -> list[Part]:
        pieces = self._pieces[k]
        own = np.arange(step.first, step.first + len(step.op))
        outside = self._read_outside.hold(own)
        parts = scalar_code.native(step, pieces, self._by_slot, outside, self._new_slots, self.cut)
        self._unused.append(own[~outside])
        return parts

    @remembered
    def _by_slot(self) -> Slots:
        known, initial = constants_of(self.code)
        return Slots(known, initial, ~self.wanted.constant)

    def _new_slots(self, count: int) -> int:
        self.slots += count
        return self.slots - count

    @remembered
    def _read_outside(self) -> Ranges:
        """The slots that other steps than the one that writes them read, or the results."""
        found = [slots for step in self.code.whole_steps for slots in step.slots_read]
        for step in self.code.of(Scalars).values():
            read = np.concatenate(step.slots_read)
            own = (read >= step.first) & (read < step.first + len(step.op))
            found.append(read[(read >= 0) & ~own])
        single = np.concatenate([np.zeros(0, np.int64), *found])
        outputs = Spans([[one.view] for one in self.code.outputs])
        return Ranges(
            np.concatenate([single, self.code.reads.low, outputs.low]),
            np.concatenate([single + 1, self.code.reads.high, outputs.high]),
        )

    @property
    def used(self) -> np.ndarray:
        """By slot of the program: whether its value, and its adjoint, may lie there."""
        found = np.ones(self.code.slots, bool)
        for slots in self._unused:
            found[slots] = False
        return found

    def touched(self) -> np.ndarray:
        """Rows (offset, bytes): the adjoints that are to be 0 before a reverse pass."""
        unused = np.concatenate([np.zeros(0, np.int64), *self._unused])
        constants = np.array([(at, at + len(x)) for at, x in self.code.constants], np.int64)
        low, high = constants.reshape(-1, 2).T  # their adjoints are not read
        gaps = Ranges(np.append(unused, low), np.append(unused + 1, high)).edges
        starts, ends = np.append(0, gaps[1::2]), np.append(gaps[::2], self.code.slots)
        starts, ends = starts[starts < ends], ends[starts < ends]
        if not len(starts):
            return np.zeros((0, 2), np.int64)
        apart = starts[1:] - ends[:-1] > _NEAR
        starts = starts[np.concatenate(([True], apart))]
        ends = ends[np.concatenate((apart, [True]))]
        return self.item * np.stack([starts, ends - starts], 1)


#: Slots between that are set to 0 as well, rather than in another call.
_NEAR = 64

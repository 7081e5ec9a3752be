"""Steps that differ only in the places of their arrays: made once, then relocated.

A long loop over arrays makes the same step a thousand times. Its part is made for the first, and
again with its arrays moved, which shows the words of the data that depend on the place of each
array.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

import numpy as np

from ..._core.codegen.elements import ITEM
from ..ir.steps import Step, View
from ..replay.parts import Part

#: Steps that occur this often are made from a template.
OFTEN = 4
#: The distances, in slots, by which arrays are moved to see which words follow: by FAR, and then
#: one after the other by this much more. No array is as large.
FAR, APART = 1 << 52, 1 << 38


@dataclasses.dataclass(frozen=True)
class Form:
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


def form_of(step: Step, pattern: tuple, wanted: Callable[[View], bool]) -> Form:
    """The form of a step with a pattern; overlapping views are moved together."""
    numbers: dict[View, int] = {}
    same = [numbers.setdefault(view, len(numbers)) for view in step.views]
    views = list(numbers)
    groups, places = clusters(views)
    parts = [
        (v.base, v.offset - places[group], v.shape, v.strides, group, wanted(v))
        for v, group in zip(views, groups, strict=True)
    ]
    return Form((type(step), *pattern, tuple(same), *parts), tuple(places))


class _Swapped:
    """Views replaced by others."""

    def __init__(self, views: dict[View, View]):
        self.views = views

    def __call__(self, view: View) -> View:
        return self.views.get(view, view)


class _Asked(_Swapped):
    """Whether adjoints are needed, of views that represent others."""

    def __init__(self, wanted, views: dict[View, View]):
        super().__init__(views)
        self.wanted = wanted

    def __call__(self, view: View):
        return self.wanted(super().__call__(view))


class Template:
    """The part of a form, and the words of its data that move with each of its places."""

    def __init__(self, step: Step, form: Form, make: Callable[..., Part], wanted, item: int):
        self.item = item
        self.part = make(step, wanted)
        self.places = np.array(form.places, np.int64)
        views = list(dict.fromkeys(step.views))
        groups, _ = clusters(views)
        moved = {v: v.moved(FAR + group * APART) for v, group in zip(views, groups, strict=True)}
        back = {new: old for old, new in moved.items()}
        other = make(step.mapped(_Swapped(moved)), _Asked(wanted, back)).data
        self.fits = other.shape == self.part.data.shape
        if self.fits:
            self._find(other - self.part.data)

    def _find(self, change: np.ndarray) -> None:
        """The words that have changed, and by how many times the distance of which place."""
        self.words = change.nonzero()[0]
        change = change[self.words]
        self.factors = np.where(change >= self.item * FAR, self.item, 1)
        self.groups = (change // self.factors - FAR) // APART
        known = (self.groups >= 0) & (self.groups < len(self.places))
        exact = change == self.factors * (FAR + self.groups * APART)
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
            form = Form(key, places[found[0]])
            template = Template(steps[found[0]], form, make, wanted, item)
            if template.fits:
                made = template.at([places[k] for k in found])
                parts.update(zip(found, made, strict=True))
    return [parts[k] if k in parts else make(step, wanted) for k, step in enumerate(steps)]

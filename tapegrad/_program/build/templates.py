"""Steps that differ only in where their arrays lie: made once, then moved.

A long loop over arrays leaves the same step a thousand times. Its part is made for the first, and
again with each array moved, which shows the words of the data that say where that array is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..ir.rewriting import mapped
from ..ir.steps import Elementwise, Link, Step, View
from ..replay.parts import Part

#: Steps that come so often are made from a template.
OFTEN = 6
#: How far arrays are moved, in slots, to see which words follow.
FAR = 1 << 40


@dataclasses.dataclass(frozen=True)
class Form:
    """A step without places: `key` is equal for steps that differ in `places` only."""

    key: tuple
    places: tuple[int, ...]


def views_of(step: Elementwise | Link) -> list[View]:
    """All views of a step, in a fixed order."""
    if isinstance(step, Link):
        return [step.out, *[view for pair in step.pairs for view in pair]]
    read = [x for _, operands in step.ops for x in operands if isinstance(x, View)]
    return [*read, *[v for _, v in step.stores], *[v for _, v in step.sums]]


def clusters(views: list[View]) -> list[int]:
    """For each view the number of the group of overlapping views that it is in, −1 outside."""
    order = sorted((v.extent, k) for k, v in enumerate(views) if not v.base)
    found, end, number = [-1] * len(views), -1, -1
    for (low, high), k in order:
        if low >= end:
            number += 1
        end = max(end, high)
        found[k] = number
    return found


def form_of(step: Elementwise | Link, wanted: Callable[[View], bool]) -> Form:
    """A step's form; overlapping views are moved together."""
    views = views_of(step)
    groups = clusters(views)
    first: dict[int, int] = {}
    for view, group in zip(views, groups, strict=True):
        if group >= 0:
            first[group] = min(first.get(group, view.offset), view.offset)
    numbers = {group: k for k, group in enumerate(dict.fromkeys(g for g in groups if g >= 0))}
    parts = [
        (view.base, view.offset - first.get(group, 0), view.shape, view.strides)
        + (numbers.get(group, -1), wanted(view))
        for view, group in zip(views, groups, strict=True)
    ]
    if isinstance(step, Link):
        shape: tuple = (len(step.pairs),)
    else:
        pattern = tuple(
            (code, *[-1 if isinstance(x, View) else x for x in operands])
            for code, operands in step.ops
        )
        results = tuple(k for k, _ in (*step.stores, *step.sums))
        shape = (step.shape, pattern, results, len(step.stores))
    places = tuple(first[group] for group in numbers)
    return Form((type(step), shape, *parts), places)


class _Swapped:
    """Views replaced by others."""

    def __init__(self, views: dict[View, View]):
        self.views = views

    def __call__(self, view: View) -> View:
        return self.views.get(view, view)


class _Asked(_Swapped):
    """Whether adjoints are wanted, of views that stand for others."""

    def __init__(self, wanted, views: dict[View, View]):
        super().__init__(views)
        self.wanted = wanted

    def __call__(self, view: View):
        return self.wanted(super().__call__(view))


class Template:
    """The part of a form, and for each place the words of its data that move with it."""

    def __init__(self, step, form: Form, make: Callable[..., Part], wanted):
        self.part = make(step, wanted)
        self.places = form.places
        self.moving: list[tuple[np.ndarray, np.ndarray]] = []
        self.fits = True
        views = views_of(step)
        groups = clusters(views)
        for group in dict.fromkeys(g for g in groups if g >= 0):
            moved = {v: v.moved(FAR) for v, g in zip(views, groups, strict=True) if g == group}
            back = {new: old for old, new in moved.items()}
            other = make(mapped(step, _Swapped(moved)), _Asked(wanted, back)).data
            if other.shape != self.part.data.shape:
                self.fits = False
                return
            change = other - self.part.data
            words = change.nonzero()[0]
            self.fits = self.fits and bool(np.isin(change[words], (FAR, 8 * FAR)).all())
            self.moving.append((words, change[words] // FAR))

    def at(self, places: tuple[int, ...]) -> Part:
        """The part with its arrays at other places."""
        data = self.part.data.copy()
        for (words, factors), old, new in zip(self.moving, self.places, places, strict=True):
            data[words] += factors * (new - old)
        return dataclasses.replace(self.part, data=data)


def parts_of(steps: list[Step], make: Callable[..., Part], wanted) -> list[Part]:
    """The parts of steps, in order; `make(step, wanted)` makes one."""
    forms = [form_of(s, wanted) if isinstance(s, (Elementwise, Link)) else None for s in steps]
    count: dict[tuple, int] = {}
    for form in forms:
        if form is not None:
            count[form.key] = count.get(form.key, 0) + 1
    templates: dict[tuple, Template] = {}
    parts = []
    for step, form in zip(steps, forms, strict=True):
        if form is None or count[form.key] < OFTEN:
            parts.append(make(step, wanted))
            continue
        if form.key not in templates:
            templates[form.key] = Template(step, form, make, wanted)
        template = templates[form.key]
        parts.append(template.at(form.places) if template.fits else make(step, wanted))
    return parts

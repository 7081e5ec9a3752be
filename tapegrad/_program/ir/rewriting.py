"""Programs with other views and slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from .steps import (
    ARENA,
    NOTHING,
    Code,
    Computed,
    Elementwise,
    Gather,
    Kernel,
    Link,
    Pack,
    Scalars,
    Scatter,
    Step,
    View,
)
from .uses import views_of

#: Gives other slots for an array of slots, of which −1 stays.
Renumber = Callable[[np.ndarray], np.ndarray]


def mapped(step: Step, move: Callable[[View], View], renumber: Renumber | None = None) -> Step:
    """A step with other views; `renumber` gives other slots for those that are no views."""

    def any_of(item):
        return move(item) if isinstance(item, View) else item

    if isinstance(step, Elementwise):
        return Elementwise(
            step.shape,
            [(code, tuple(map(any_of, operands))) for code, operands in step.ops],
            [(k, move(view)) for k, view in step.stores],
            [(k, move(view)) for k, view in step.sums],
        )
    if isinstance(step, Scalars):
        if renumber is None:
            return step
        first = int(renumber(np.array([step.first]))[0])
        columns = [renumber(column).astype(np.int32) for column in (step.a, step.b, step.c)]
        return Scalars(first, step.op, *columns)
    out = move(step.out)
    if isinstance(step, Link):
        return Link(out, [(move(target), move(source)) for target, source in step.pairs])
    if isinstance(step, Gather):
        return Gather(out, move(step.source), any_of(step.positions))
    if isinstance(step, Scatter):
        return Scatter(out, move(step.before), move(step.source), move(step.positions))
    if isinstance(step, Pack):
        return Pack(out, step.slots if renumber is None else renumber(step.slots).astype(np.int32))
    if isinstance(step, Kernel):
        return Kernel(step.code, [any_of(x) for x in step.operands], out)
    return Computed(step.function, [(any_of(x), dtype) for x, dtype in step.operands], out)


def renumbered(code: Code, places: np.ndarray, slots: int) -> Code:
    """A program with other slots; views stay as they are but for where they begin.

    `places` has the new slot of each, and as its last entry −1, which stands for no slot.
    """
    place = places.item

    def move(view: View) -> View:
        if view.base != ARENA:
            return view
        # one without elements may lie behind the last slot
        return view.at(place(view.offset) if view.size else NOTHING)

    def moved(step: Step) -> Step:
        stays = not isinstance(step, (Scalars, Pack)) and all(
            view.base != ARENA or (view.size and place(view.offset) == view.offset)
            for view in views_of(step)
        )
        return step if stays else mapped(step, move, places.__getitem__)

    return Code(
        slots,
        [(place(slot), values) for slot, values in code.constants if len(values)],
        [dataclasses.replace(given, view=move(given.view)) for given in code.inputs],
        [moved(step) for step in code.steps],
        [dataclasses.replace(made, view=move(made.view)) for made in code.outputs],
        {k: [move(view) for view in views] for k, views in code.clears.items()},
    )

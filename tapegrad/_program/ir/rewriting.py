"""Programs with other slots."""

from __future__ import annotations

import dataclasses

import numpy as np

from .scalars_step import renumbered as of_numbers
from .slot_ranges import Chain, Shifts
from .steps import ARENA, NOTHING, Code, Step, View

Constants = list[tuple[int, np.ndarray]]


def renumbered(
    code: Code, places: Shifts | Chain, slots: int, constants: Constants | None = None
) -> Code:
    """A program with other slots; views change only their first slots.

    Its constants may be fewer.
    """
    place = places.place
    known: dict[View, View] = {}  # so that steps share views: many read the same
    stay = iter(_staying(code, places).tolist())

    def move(view: View) -> View:
        if view.base != ARENA:
            return view
        found = known.get(view)
        if found is None:
            # one without elements may begin after the last slot
            found = known[view] = view.at(place(view.offset) if view.size else NOTHING)
        return found

    def moved(step: Step) -> Step:
        return step if next(stay) and not step.slots_read else step.mapped(move, places)

    numbers = iter(of_numbers(code.numbers, places))
    constants = code.constants if constants is None else constants
    return Code(
        slots,
        [(place(slot), values) for slot, values in constants if len(values)],
        [dataclasses.replace(given, view=move(given.view)) for given in code.inputs],
        [moved(step) if step.is_whole else next(numbers) for step in code.steps],
        [dataclasses.replace(made, view=move(made.view)) for made in code.outputs],
        {k: [move(view) for view in views] for k, views in code.clears.items()},
        code.dtype,
        code.held,
    )


def _staying(code: Code, places: Shifts | Chain) -> np.ndarray:
    """Which whole steps read and write views with elements alone, which stay where they are."""
    found = np.ones(len(code.whole_steps), bool)
    for spans in (code.reads, code.writes):
        moves = (places(spans.low) != spans.low) | (spans.low == spans.high)
        found &= ~spans.steps_of(moves)
    return found

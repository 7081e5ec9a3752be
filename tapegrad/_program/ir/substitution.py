"""Slots removed from programs: others replace them, or nothing reads them."""

from __future__ import annotations

import dataclasses

import numpy as np

from . import scalar_scans
from .scalars_step import Scalars
from .slots import pattern, slots_of
from .spans import counted
from .steps import ARENA, NOTHING, Code, Step, View, Visitor


def merged(code: Code, stands: np.ndarray, together: bool = False) -> Code:
    """The program without the removed slots; `stands` is as in `scalar_scans`.

    The substitute of a slot may have a substitute, too. Slots stay if a view would otherwise lose
    its regular pattern, and with any slot of an array all of it. Arrays and steps stay where they
    are, so that most steps are the same objects; with `together` all slots that are left move
    together.
    """
    stands = _resolved(stands)
    read, written = code.reads, code.writes
    while True:
        written.keep_whole(stands)
        if not stands.any():
            return code
        places = scalar_scans.places_after(stands) if together else _places(code, stands)
        changes = counted((stands != 0) | (places != np.arange(len(places), dtype=np.int32)))
        moves, touched = _Moves(stands, places), read.touched(changes)
        seen = [read.views[k] for k in np.flatnonzero(touched).tolist()]
        seen += [one.view for one in code.outputs]
        torn = [view for view in dict.fromkeys(seen) if view.size > 1 and moves.of(view) is None]
        if not torn:
            break
        # a view of slots of several steps, between which a gap would be, has no slot that goes
        together = together or not any(stands[slice(*view.extent)].any() for view in torn)
        for view in torn:
            stands[slice(*view.extent)] = 0
    return Code(
        len(places) - int(np.count_nonzero(stands)) if together else code.slots,
        # one without elements may begin after the last slot
        [(int(moves.places[slot]), values) for slot, values in code.constants if len(values)],
        [dataclasses.replace(one, view=moves(one.view)) for one in code.inputs],
        _moved(code, moves, ~(read.steps_of(touched) | written.steps_of(written.touched(changes)))),
        [dataclasses.replace(one, view=moves(one.view)) for one in code.outputs],
        dtype=code.dtype,
    )


def _resolved(stands: np.ndarray) -> np.ndarray:
    """`stands` for slots without a replacement."""
    stands = stands.copy()
    gone = np.flatnonzero(stands > 0)
    while len(gone):
        further = stands[stands[gone]]
        gone, further = gone[further > 0], further[further > 0]
        stands[gone] = further
    return stands


def _moved(code: Code, moves: _Moves, same: np.ndarray) -> list[Step]:
    """The steps that are left; of the whole ones some are the same."""
    stay, steps = iter(same.tolist()), []
    for step in code.steps:
        is_same = step.is_whole and next(stay) and not step.slots_read
        made = step if is_same else step.accept(moves)
        if made is not None:
            steps.append(made)
    return steps


def _places(code: Code, stands: np.ndarray) -> np.ndarray:
    """The new places of slots; operations on numbers that stay move together within their step."""
    places = np.arange(len(stands), dtype=np.int32)
    for step in code.of(Scalars).values():
        slots = slice(step.first, step.first + len(step.op))
        if stands[slots].any():
            places[slots] = step.first - 1 + np.cumsum(stands[slots] == 0)
    replaced = np.flatnonzero(stands > 0)
    places[replaced] = places[stands[replaced]]
    return places


class _Moves(Visitor):
    """The new places of slots."""

    def __init__(self, stands: np.ndarray, places: np.ndarray):
        self.stands, self.places = stands, places
        self.known: dict[View, View | None] = {}
        self.scan = scalar_scans.Scan(
            {scalar_scans.BY_SLOT: stands, scalar_scans.PLACES: self.places}
        )

    def of(self, view: View) -> View | None:
        """The view of the same values; None if there is no such view."""
        try:
            return self.known[view]
        except KeyError:
            found = self.known[view] = self._of(view)
            return found

    def __call__(self, view: View) -> View:
        found = self.of(view)
        assert found is not None
        return found

    def _of(self, view: View) -> View | None:
        if view.base != ARENA:
            return view
        if not view.size:
            return view.at(NOTHING)
        (low, high), place = view.extent, self.places.item
        as_long = place(high - 1) - place(low) == high - 1 - low
        if view.size == 1 or (as_long and not self.stands[low:high].any()):
            return view.at(place(view.offset))
        return pattern(self.places[slots_of(view)])

    def other(self, step: Step) -> Step | None:
        first = next((view.offset for view in step.views_written if view.size), NOTHING)
        if self.stands[first]:  # as a whole
            return None
        return step.mapped(self, lambda slots: self.places[slots])

    def scalars(self, step: Scalars) -> Scalars | None:
        stays = self.stands[step.first : step.first + len(step.op)] == 0
        count = int(np.count_nonzero(stays))
        if not count:
            return None
        first = int(self.places[step.first + int(stays.argmax())])
        op, a, b = (np.empty(count, np.int32) for _ in range(3))
        c = np.empty(count if len(step.c) else 0, np.int32)
        made = {scalar_scans.OUT + 8 * k: column for k, column in enumerate((op, a, b, c))}
        self.scan("keep", step, made)
        return Scalars(first, op, a, b, c)

"""Slots removed from programs: others replace them, or nothing reads them."""

from __future__ import annotations

import dataclasses

import numpy as np

from . import scalar_scans
from .scalars_step import Scalars
from .slots import pattern, slots_of
from .steps import ARENA, NOTHING, Code, Step, View, Visitor
from .uses import all_in


def merged(code: Code, stands: np.ndarray, together: bool = False) -> Code:
    """The program without the removed slots; `stands` is as in `scalar_scans`.

    The substitute of a slot may have a substitute, too. Slots stay if a view would otherwise lose
    its regular pattern, and with any slot of an array all of it. Arrays and steps stay where they
    are, so that most steps are the same objects; with `together` all slots that are left move
    together.
    """
    stands = _resolved(stands)
    while True:
        for step in code.whole_steps:
            _keep_whole(step, stands)
        if not stands.any():
            return code
        places = scalar_scans.places_after(stands) if together else _places(code, stands)
        moves = _Moves(stands, places)
        torn = [view for view in _changed(code, moves) if moves.of(view) is None]
        if not torn:
            break
        for view in torn:
            stands[slice(*view.extent)] = 0
    return Code(
        len(places) - int(np.count_nonzero(stands)) if together else code.slots,
        # one without elements may begin after the last slot
        [(int(moves.places[slot]), values) for slot, values in code.constants if len(values)],
        [dataclasses.replace(one, view=moves(one.view)) for one in code.inputs],
        [made for step in code.steps if (made := step.accept(moves)) is not None],
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


def _keep_whole(step: Step, stands: np.ndarray) -> None:
    """Let a step stay as a whole if it does not go."""
    if not _goes(step, stands):
        for view in step.views_written:
            stands[slice(*view.extent)] = 0


def _goes(step: Step, stands: np.ndarray) -> bool:
    """Whether none of the slots that a step writes stays."""
    written = step.views_written
    return all([all_in(stands, view) for view in written]) and any([v.size for v in written])


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


def _changed(code: Code, moves: _Moves) -> list[View]:
    """The views that steps read, and those of the results, of which several slots change."""
    views = [view for step in code.steps for view in step.views_read if not moves.leave(view)]
    views += [one.view for one in code.outputs if not moves.leave(one.view)]
    return [view for view in dict.fromkeys(views) if view.size > 1]


class _Moves(Visitor):
    """The new places of slots."""

    def __init__(self, stands: np.ndarray, places: np.ndarray):
        self.stands, self.places = stands, places
        changes = (stands != 0) | (places != np.arange(len(places), dtype=np.int32))
        self.changed = np.zeros(len(places) + 1, np.int32)  # slots before each one
        np.cumsum(changes, out=self.changed[1:])
        self.known: dict[View, View | None] = {}
        self.walk = scalar_scans.Walk(
            {scalar_scans.BY_SLOT: stands, scalar_scans.PLACES: self.places}
        )

    def leave(self, view: View) -> bool:
        """Whether a view stays as it is: no slot between its ends is changed."""
        low, high = view.extent
        changed = self.changed.item
        return view.base != ARENA or (low < high and changed(low) == changed(high))

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
        if self.leave(view):
            return view
        if not view.size:
            return view.at(NOTHING)
        (low, high), place = view.extent, self.places.item
        as_long = place(high - 1) - place(low) == high - 1 - low
        if view.size == 1 or (as_long and not self.stands[low:high].any()):
            return view.at(place(view.offset))
        return pattern(self.places[slots_of(view)])

    def other(self, step: Step) -> Step | None:
        if _goes(step, self.stands):
            return None
        views = [*step.views_read, *step.views_written]
        if all([self.leave(view) for view in views]) and not step.slots_read:
            return step
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
        self.walk("keep", step, made)
        return Scalars(first, op, a, b, c)

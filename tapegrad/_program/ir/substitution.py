"""Slots removed from programs: others replace them, or nothing reads them."""

from __future__ import annotations

import dataclasses

import numpy as np

from . import scalar_scans
from .scalars_step import Scalars
from .slots import pattern, slots_of
from .steps import ARENA, NOTHING, Code, Step, View, Visitor
from .uses import all_in


def merged(code: Code, stands: np.ndarray) -> Code:
    """The program without the removed slots; `stands` is as in `scalar_scans`.

    The substitute of a slot may have a substitute, too. Slots stay if a view would otherwise lose
    its regular pattern, and with any slot of an array all of it.
    """
    stands = _resolved(stands)
    while True:
        for step in code.whole_steps:
            _keep_whole(step, stands)
        moves = _Moves(stands)
        torn = [view for view in _seen(code) if moves.of(view) is None]
        if not torn:
            break
        for view in torn:
            stands[slice(*view.extent)] = 0
    return Code(
        len(moves.places) - int(np.count_nonzero(stands)),
        # one without elements may begin after the last slot
        [(int(moves.places[slot]), values) for slot, values in code.constants if len(values)],
        [dataclasses.replace(one, view=moves(one.view)) for one in code.inputs],
        [made for step in code.steps if (made := moves.visit(step)) is not None],
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


def _seen(code: Code) -> list[View]:
    """The views that steps read, and those of the results, which have several slots."""
    views = [view for step in code.steps for view in step.views_read]
    views += [one.view for one in code.outputs]
    return [view for view in dict.fromkeys(views) if view.size > 1 and view.base == ARENA]


class _Moves(Visitor):
    """The new places of slots."""

    def __init__(self, stands: np.ndarray):
        self.stands = stands
        self.places = scalar_scans.places_after(stands)
        self.known: dict[View, View | None] = {}
        self.walk = scalar_scans.Walk(
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
        (low, high), place, stand = view.extent, self.places.item, self.stands.item
        as_long = place(high - 1) - place(low) == high - 1 - low
        if view.size == 1 or (as_long and not (stand(low) or stand(high - 1))):
            return view.at(place(view.offset))
        return pattern(self.places[slots_of(view)])

    def other(self, step: Step) -> Step | None:
        if _goes(step, self.stands):
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
        self.walk("keep", step, made)
        return Scalars(first, op, a, b, c)

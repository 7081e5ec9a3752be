"""Programs with other slots: written anew, substituted, compacted."""

from __future__ import annotations

import dataclasses

import numpy as np

from . import scalar_scans
from .scalars_step import Scalars
from .scalars_step import renumbered as of_numbers
from .steps import (
    ARENA,
    NOTHING,
    ChainedPlaces,
    Code,
    Ranges,
    Shifts,
    Spans,
    Step,
    View,
    Visitor,
    mostly_zeros,
)
from .uses import constants_read, pattern, slots_of

# --- Programs with other slots --------------------------------------------------------------------


Constants = list[tuple[int, np.ndarray]]


def renumbered(
    code: Code, places: Shifts | ChainedPlaces, slots: int, constants: Constants | None = None
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


def _staying(code: Code, places: Shifts | ChainedPlaces) -> np.ndarray:
    """Which whole steps read and write views with elements alone, which stay where they are."""
    found = np.ones(len(code.whole_steps), bool)
    for spans in (code.reads, code.writes):
        moves = (places(spans.low) != spans.low) | (spans.low == spans.high)
        found &= ~spans.steps_of(moves)
    return found


# --- Slots removed from programs: others replace them, or nothing reads them ----------------------


def merged(code: Code, stands: np.ndarray, together: bool = False) -> Code:
    """The program without the removed slots; `stands` is as in `scalar_scans`.

    The substitute of a slot may have a substitute, too. Slots stay if a view would otherwise lose
    its regular pattern, and with any slot of an array all of it: arrays are marked as a whole.
    Arrays and steps stay where they are, so that most steps are the same objects; with `together`
    all slots that are left move together.
    """
    gone = _Gone(code, stands)
    read, written = code.reads, code.writes
    while True:
        gone.keep_whole()
        if not gone.any():
            return code
        shifts = gone.shifts(together)
        changed = Ranges(0, len(stands)) if together else gone.changed(shifts)
        moves = _Moves(stands, shifts, changed)
        touched = changed.meet(read.low, read.high) | (read.low == read.high)
        seen = [read.views[k] for k in np.flatnonzero(touched).tolist()]
        seen += [one.view for one in code.outputs]
        torn = [view for view in dict.fromkeys(seen) if view.size > 1 and moves.of(view) is None]
        if not torn:
            break
        # a view of slots of several steps, between which a gap would be, has no slot that goes
        together = together or not any(stands[slice(*view.extent)].any() for view in torn)
        gone.keep(torn)
    rewritten = changed.meet(written.low, written.high) | (written.low == written.high)
    return Code(
        len(stands) - int(np.count_nonzero(stands)) if together else code.slots,
        # one without elements may begin after the last slot
        [(moves.place(slot), values) for slot, values in code.constants if len(values)],
        [dataclasses.replace(one, view=moves(one.view)) for one in code.inputs],
        _moved(
            code,
            moves,
            ~(read.steps_of(touched) | written.steps_of(rewritten)),
            _unchanged(code.numbers, changed),
        ),
        [dataclasses.replace(one, view=moves(one.view)) for one in code.outputs],
        dtype=code.dtype,
        held=code.held,
    )


class _Gone:
    """The removed slots of a program: those of arrays as a whole, and of operations on numbers.

    Nothing here looks at all slots: those of arrays are many more than steps.
    """

    def __init__(self, code: Code, stands: np.ndarray):
        self.stands, self.writes, self.numbers = stands, code.writes, code.numbers
        last = len(stands) - 1
        low, high = self.writes.low, self.writes.high
        self.arrays = (stands[np.minimum(low, last)] != 0) & (low < high)
        self.slots = _joined([np.arange(s.first, s.first + len(s.op)) for s in self.numbers])
        self._resolve()

    def _resolve(self) -> None:
        """Give slots whose replacement has one that one."""
        stands = self.stands
        gone = self.slots[stands[self.slots] > 0]
        gone = np.concatenate([gone, *self._ranges(np.flatnonzero(self.arrays))])
        gone = gone[stands[gone] > 0]
        while len(gone):
            further = stands[stands[gone]]
            gone, further = gone[further > 0], further[further > 0]
            stands[gone] = further

    def _ranges(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The slots of some of the arrays."""
        low, high = self.writes.low[numbers].tolist(), self.writes.high[numbers].tolist()
        return [np.arange(*ends) for ends in zip(low, high, strict=True)]

    def any(self) -> bool:
        return bool(self.arrays.any() or self.stands[self.slots].any())

    def keep_whole(self) -> None:
        """Let a step that writes several arrays stay as a whole if any of it stays."""
        writes = self.writes
        stays = writes.steps_of(~self.arrays & (writes.low < writes.high))
        self._keep_arrays(self.arrays & stays[writes.step])

    def _keep_arrays(self, which: np.ndarray) -> None:
        for k in np.flatnonzero(which).tolist():
            self.stands[self.writes.low[k] : self.writes.high[k]] = 0
        self.arrays &= ~which

    def keep(self, views: list[View]) -> None:
        """Let all that some views see stay."""
        for view in views:
            self.stands[slice(*view.extent)] = 0
        seen = Ranges(*zip(*[view.extent for view in views], strict=True))
        self._keep_arrays(self.arrays & seen.meet(self.writes.low, self.writes.high))

    def shifts(self, together: bool) -> np.ndarray:
        """How far slots move. Operations on numbers that stay move together within their step."""
        stands = self.stands
        if together:
            return scalar_scans.places_after(stands) - np.arange(len(stands), dtype=np.int32)
        shifts = mostly_zeros(len(stands), np.int32)
        for step in self.numbers:
            slots = slice(step.first, step.first + len(step.op))
            if stands[slots].any():
                shifts[slots] = -np.cumsum(stands[slots] != 0)
        replaced = self.slots[stands[self.slots] > 0]
        for slots in (replaced, *self._ranges(np.flatnonzero(self.arrays))):
            to = stands[slots]
            if len(slots) and to[0] > 0:
                shifts[slots] = to + shifts[to] - slots
        return shifts

    def changed(self, shifts: np.ndarray) -> Ranges:
        """The slots that are removed or move."""
        slots = self.slots[(self.stands[self.slots] != 0) | (shifts[self.slots] != 0)]
        low, high = self.writes.low[self.arrays], self.writes.high[self.arrays]
        return Ranges(np.append(slots, low), np.append(slots + 1, high))


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *columns])


def _unchanged(numbers: list[Scalars], changed: Ranges) -> np.ndarray:
    """Which steps of operations on numbers neither write nor read slots that change."""
    if not numbers:
        return np.zeros(0, bool)
    first = np.array([step.first for step in numbers])
    counts = np.array([len(step.op) for step in numbers])
    columns = [column for step in numbers for column in step.slots_read]
    reads = changed.hold(np.concatenate(columns))
    begins = np.cumsum([0] + [sum(map(len, step.slots_read)) for step in numbers[:-1]])
    return ~(np.logical_or.reduceat(reads, begins) | changed.meet(first, first + counts))


def _moved(code: Code, moves: _Moves, same: np.ndarray, numbers: np.ndarray) -> list[Step]:
    """The steps that are left; of the whole ones, and of those of numbers, some are the same."""
    stay, stays, steps = iter(same.tolist()), iter(numbers.tolist()), []
    for step in code.steps:
        is_same = next(stay) and not step.slots_read if step.is_whole else next(stays)
        made = step if is_same else step.accept(moves)
        if made is not None:
            steps.append(made)
    return steps


class _Moves(Visitor):
    """The new places of slots; none of those that are not `changed` is removed or moves."""

    def __init__(self, stands: np.ndarray, shifts: np.ndarray, changed: Ranges):
        self.stands, self.shifts, self.changed = stands, shifts, changed
        self.known: dict[View, View | None] = {}
        self.scan = scalar_scans.Scan(
            {scalar_scans.BY_SLOT: stands, scalar_scans.SHIFTS: self.shifts}
        )

    def place(self, slot: int) -> int:
        """The new place of a slot."""
        return slot + self.shifts.item(slot)

    def _places(self, slots: np.ndarray) -> np.ndarray:
        return slots + self.shifts[slots]

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
        if not self.changed.meets(view):
            return view
        (low, high), place = view.extent, self.place
        if high - low == 1:
            return view.at(place(low))
        as_long = place(high - 1) - place(low) == high - 1 - low
        if as_long and not self.stands[low:high].any():
            return view.at(place(view.offset))
        return pattern(self._places(slots_of(view)))

    def other(self, step: Step) -> Step | None:
        first = next((view.offset for view in step.views_written if view.size), NOTHING)
        if self.stands[first]:  # as a whole
            return None
        return step.mapped(self, self._places)

    def scalars(self, step: Scalars) -> Scalars | None:
        stays = self.stands[step.first : step.first + len(step.op)] == 0
        count = int(np.count_nonzero(stays))
        if not count:
            return None
        first = self.place(step.first + int(stays.argmax()))
        op, a, b = (np.empty(count, np.int32) for _ in range(3))
        c = np.empty(count if len(step.c) else 0, np.int32)
        made = {scalar_scans.OUT + 8 * k: column for k, column in enumerate((op, a, b, c))}
        self.scan("keep", step, made)
        return Scalars(first, op, a, b, c)


# --- Programs without the slots that nothing uses -------------------------------------------------


def compact(code: Code) -> Code:
    """The program without the slots that no step writes or reads."""
    constants = constants_read(code)
    low, high = used(code, constants)
    places, slots = closed(low, high)
    if slots == code.slots and len(constants) == len(code.constants):
        return code
    return renumbered(code, places, slots, constants)


def used(code: Code, constants: Constants) -> tuple[np.ndarray, np.ndarray]:
    """The slots that steps write and read, from each of the first to before the second ones."""
    numbers = [view for step in code.numbers for view in step.views_written]
    ends = [one.view for one in code.inputs] + [one.view for one in code.outputs]
    others = [view for view in ends if view.base == ARENA]
    spans = [code.reads, code.writes, Spans([numbers, others])]
    first = np.array([slot for slot, _ in constants], np.int64)
    single = np.append(code.single_reads, NOTHING)
    low = [single, first, *[one.low for one in spans]]
    high = [single + 1, first + [len(x) for _, x in constants], *[one.high for one in spans]]
    return np.concatenate(low), np.concatenate(high)


def closed(low: np.ndarray, high: np.ndarray) -> tuple[Shifts, int]:
    """Where slots go if only those that are used are left, and how many these are."""
    low, high = Ranges(low, high).edges.reshape(-1, 2).T
    last = np.cumsum(high - low)
    return Shifts(low, last - high), int(last[-1])

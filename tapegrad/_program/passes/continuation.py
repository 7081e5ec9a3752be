"""Programs of few iterations of a loop, continued to all of them.

In the middle the steps repeat: each is the one an iteration before at other slots. All arrays and
numbers that an iteration makes move by the slots of one, constants that differ by their number, and
everything else is the same. So the steps of the iterations that were left out are written down as
more of the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ..ir.steps import ARENA, Code, Step, View
from ..lowering.iterations import Short, first_constant
from ..lowering.repetition import periods_of

#: The fewest iterations in the middle of a program that show how it continues.
LEAST = 4


class _Recorder:
    """Takes down the places of a step, in the order in which it is mapped."""

    def __init__(self) -> None:
        self.places: list[np.ndarray] = []
        self.forms: list[Any] = []

    def view(self, view: View) -> View:
        if view.base == ARENA and view.size:
            self.places.append(np.array([view.offset]))
            self.forms.append((view.shape, view.strides))
        else:
            self.forms.append((view.shape, view.strides, view.base, view.offset))
        return view

    def slots(self, slots: np.ndarray) -> np.ndarray:
        self.places.append(slots.astype(np.int64).ravel())
        self.forms.append(len(self.places[-1]))
        return slots


class _Writer:
    """Gives a step other places, in the same order."""

    def __init__(self, places: np.ndarray):
        self.places, self.at = places, 0

    def view(self, view: View) -> View:
        if view.base != ARENA or not view.size:
            return view
        self.at += 1
        return view.at(int(self.places[self.at - 1]))

    def slots(self, slots: np.ndarray) -> np.ndarray:
        self.at += slots.size
        return self.places[self.at - slots.size : self.at].reshape(slots.shape)


class _Taken(NamedTuple):
    """A step: what it is apart from places, and its places."""

    form: tuple
    places: np.ndarray


def _taken(step: Step) -> _Taken:
    recorder = _Recorder()
    step.mapped(recorder.view, recorder.slots)
    places = np.concatenate([np.zeros(0, np.int64), *recorder.places])
    values = step.values if step.is_whole else [step.values[1]]  # of numbers: their operations
    return _Taken((type(step), *recorder.forms, *_others(values, step.slots_read)), places)


def _others(found: Any, slots: list[np.ndarray]) -> list:
    """What a step consists of besides views and slots."""
    made: list[Any] = []
    for x in found:
        if isinstance(x, View):
            made.append(min(x.base, ARENA))  # rows of which array it stands for
        elif any(x is one for one in slots):
            made.append(None)
        elif isinstance(x, (list, tuple)):
            made.append((len(x), *_others(x, slots)))
        elif isinstance(x, np.ndarray):
            made.append((x.dtype.str, x.shape, x.tobytes()))
        else:
            made.append((type(x), repr(x)))
    return made


def continued(code: Code, short: Short) -> Code | None:
    """The program of all iterations; None where those that are there do not show it."""
    if first_constant(code) != short.end:
        return None  # slots have been given up: it is not known which are of what iteration
    taken = [_taken(step) for step in code.steps]
    numbers: dict[tuple, int] = {}
    tokens = np.array([numbers.setdefault(one.form, len(numbers)) for one in taken])
    cut = short.slots[short.before]
    middle = next((k for k, step in enumerate(code.steps) if last_written(step) >= cut), 0)
    if 0 < middle < len(tokens):
        for found in periods_of(tokens, middle, LEAST):
            body = _Body(code, short, taken, *found)
            if body.shows(middle):
                return body.program()
    return None


def last_written(step: Step) -> int:
    """The first slot of the last view that a step writes."""
    return max([view.offset for view in step.views_written], default=-1)


class _Body:
    """The steps of iterations that repeat, and where others go.

    From step `start` on there are `count` times `length` steps; `moves` are how far the places of
    one iteration move to the next.
    """

    def __init__(self, code: Code, short: Short, taken: list[_Taken], start, length, count):
        self.code, self.short, self.taken = code, short, taken
        self.start, self.length, self.count = start, length, count
        self.size, self.cut = short.size, short.slots[short.before]
        self.end = code.slots + short.left_out * self.size  # where constants of all will be

    def _places(self, k: int) -> np.ndarray:
        """The places of iteration k."""
        first = self.start + k * self.length
        return np.concatenate([one.places for one in self.taken[first : first + self.length]])

    def shows(self, middle: int) -> bool:
        """Whether the iterations around a step are the same but for places that move evenly."""
        places = np.array([self._places(k) for k in range(self.count)])
        moves, k = np.diff(places, axis=0), (middle - self.start) // self.length
        if not 0 < k < len(moves):
            return False
        other = np.flatnonzero((moves != moves[k]).any(1))
        at = int(np.searchsorted(other, k))
        first = int(other[at - 1]) + 1 if at else 0
        last = int(other[at]) if at < len(other) else len(moves)
        self.start, self.count = self.start + first * self.length, last - first + 1
        self.moves, self.places, last_places = moves[k], places[first], places[last]
        if self.count < LEAST:
            return False
        self.varies = self._is_varying(self.places)
        even = self.moves == self.size
        rest = ~even & ~self.varies
        return bool(
            (self.moves[self.varies] == self.short.width).all()
            and (self.moves[rest] == 0).all()
            and (even & ~self.varies).any()
            and (last_places[even & ~self.varies] >= self.cut).all()
            and self._writes_all()
            and self._are_settled(self.places[rest])
            and all(self._are_settled(one.places) for one in self.taken[: self.start])
        )

    def _writes_all(self) -> bool:
        """Whether the body writes all that iterations before and after those left out do.

        Else there are others with a rhythm of their own, such as fused ones of several iterations:
        all results are still stored.
        """
        before, slots = self.short.before, self.short.slots
        begin, end = slots[before - 2], slots[before + 1]
        stop = self.start + self.count * self.length
        ends = [view.extent for view in self._written(0, self.start)]
        ends += [view.extent for view in self._written(stop, len(self.code.steps))]
        return not any(low < end and begin < high for low, high in ends)

    def _written(self, start: int, stop: int) -> list[View]:
        return [view for step in self.code.steps[start:stop] for view in step.views_written]

    def _is_varying(self, places: np.ndarray) -> np.ndarray:
        first, short = self.short.constants, self.short
        return (places >= first) & (places < first + short.width * short.converted)

    def _are_settled(self, places: np.ndarray) -> bool:
        """Whether places are those of the first iterations, or before, or of constants."""
        return bool(((places < self.cut) | (places >= self.short.end)).all())

    # --- the program --------------------------------------------------------------------------

    def _moved(self, places: np.ndarray) -> np.ndarray:
        """Where slots outside of the body go."""
        short = self.short
        found = np.where(places >= self.cut, places + short.left_out * self.size, places)
        if not short.width:
            return found
        number, rest = np.divmod(places - short.constants, short.width)
        number = np.where(number < short.before, number, number + short.left_out)
        return np.where(self._is_varying(places), self.end + number * short.width + rest, found)

    def _view(self, view: View) -> View:
        if view.base != ARENA or not view.size:
            return view
        return view.at(int(self._moved(np.array(view.offset))))

    def _rest(self, start: int, stop: int) -> list[Step]:
        """Steps outside of the body."""
        steps = []
        for step, one in zip(self.code.steps[start:stop], self.taken[start:stop], strict=True):
            places = self._moved(one.places)
            if not np.array_equal(places, one.places):
                step = _placed(step, places)
            steps.append(step)
        return steps

    def _iterations(self) -> list[Step]:
        count = self.count + self.short.left_out
        first = self._moved(self.places)
        first[self.moves == self.size] = self.places[self.moves == self.size]
        first[self.varies] = self._moved(self.places[self.varies])
        stop = self.start + self.length
        steps: list[Step] = []
        ends = np.cumsum([len(one.places) for one in self.taken[self.start : stop]])[:-1]
        for k in range(count):
            parts = np.split(first + k * self.moves, ends)
            steps += map(_placed, self.code.steps[self.start : stop], parts)
        return steps

    def program(self) -> Code:
        code, short = self.code, self.short
        stop = self.start + self.count * self.length
        steps = self._rest(0, self.start) + self._iterations() + self._rest(stop, len(code.steps))
        constants = [(int(self._moved(np.array(slot))), values) for slot, values in code.constants]
        if short.width:
            constants.append((self.end, short.values.ravel()))
        return Code(
            self.end + short.values.size,
            constants,
            code.inputs[: len(code.inputs) - short.inputs],
            steps,
            [dataclasses.replace(one, view=self._view(one.view)) for one in code.outputs],
            dtype=code.dtype,
        )


def _placed(step: Step, places: np.ndarray) -> Step:
    """A step at other places."""
    writer = _Writer(places)
    return step.mapped(writer.view, writer.slots)

"""Programs without the slots that nothing uses."""

from __future__ import annotations

import numpy as np

from .rewriting import Constants, renumbered
from .slot_ranges import Ranges, Shifts
from .spans import Spans
from .steps import ARENA, NOTHING, Code
from .uses import constants_read


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

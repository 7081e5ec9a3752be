"""Programs without the slots that nothing uses."""

from __future__ import annotations

import dataclasses

import numpy as np

from .rewriting import renumbered
from .slot_ranges import Ranges, Shifts
from .spans import Spans
from .steps import ARENA, NOTHING, Code
from .uses import constants_read


def compact(code: Code) -> Code:
    """The program without the slots that no step writes or reads."""
    code = dataclasses.replace(code, constants=constants_read(code))
    numbers = [view for step in code.steps if not step.is_whole for view in step.views_written]
    ends = [one.view for one in code.inputs] + [one.view for one in code.outputs]
    others = [view for view in ends if view.base == ARENA]
    spans = [code.reads, code.writes, Spans([numbers, others])]
    first = np.array([slot for slot, _ in code.constants], np.int64)
    single = np.append(code.single_reads, NOTHING)
    low = [single, first, *[one.low for one in spans]]
    high = [single + 1, first + [len(x) for _, x in code.constants], *[one.high for one in spans]]
    low, high = Ranges(np.concatenate(low), np.concatenate(high)).edges.reshape(-1, 2).T
    last = np.cumsum(high - low)
    return renumbered(code, Shifts(low, last - high), int(last[-1]))

"""What nothing reads is not computed."""

from __future__ import annotations

import numpy as np

from ..replay.steps import Code, Elementwise, Kernel, Link, Pack, Scalars
from . import walks
from .merging import merged
from .reads import mark_outputs, mark_reads, views_written

#: Steps that only compute. The others may stop the program, which is their business too.
_HARMLESS = Elementwise, Kernel, Link, Pack


def drop_unread(code: Code) -> Code:
    """The program without operations on numbers, and steps of arrays, that no result needs."""
    marks, stands = np.zeros(code.slots, np.uint8), np.zeros(code.slots, np.int32)
    mark_outputs(code, marks)
    walk, any_found = walks.Walk({walks.BY_SLOT: marks}), False
    for step in reversed(code.steps):
        if isinstance(step, Scalars):
            wished = np.zeros(len(step.op), np.uint8)
            if walk("read", step, {walks.WISHED: wished}):
                stands[step.first + np.flatnonzero(wished)] = walks.UNREAD
                any_found = True
        elif not isinstance(step, _HARMLESS) or any(
            marks[slice(*view.extent)].any() for view in views_written(step)
        ):
            mark_reads(step, marks)
        else:
            for view in views_written(step):
                stands[slice(*view.extent)] = walks.UNREAD
            any_found = True
    return merged(code, stands) if any_found else code

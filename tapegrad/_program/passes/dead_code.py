"""Dead code: values that are never read are not computed."""

from __future__ import annotations

import numpy as np

from ..ir import scalar_scans
from ..ir.scalars_step import Scalars
from ..ir.steps import Code, Step, Visitor
from ..ir.substitution import merged
from ..ir.uses import any_in, mark_outputs, mark_reads, views_needed


def drop_unread(code: Code) -> Code:
    """The program without operations on numbers, and steps of arrays, that no result needs."""
    if not _any_unread(code):
        return code
    finder = _Finder(code)
    for step in reversed(code.steps):
        step.accept(finder)
    return merged(code, finder.stands) if finder.any_found else code


def _any_unread(code: Code) -> bool:
    """Whether there are operations on numbers, or a step that may go and that no step reads.

    What only unneeded steps read is needed by none: the last of these is read by no step at all.
    """
    if len(code.whole_steps) < len(code.steps):
        return True
    is_read = code.writes.steps_of(views_needed(code))
    return any(not code.whole_steps[k].may_stop for k in np.flatnonzero(~is_read).tolist())


class _Finder(Visitor):
    """The values that are read, found from the last step on; `stands`: see `scalar_scans`."""

    def __init__(self, code: Code):
        self.marks, self.stands = np.zeros(code.slots, np.uint8), np.zeros(code.slots, np.int32)
        mark_outputs(code, self.marks)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.marks})
        self.any_found = False

    def scalars(self, step: Scalars) -> None:
        wished = np.zeros(len(step.op), np.uint8)
        if self.scan("read", step, {scalar_scans.WISHED: wished}):
            self.stands[step.first + np.flatnonzero(wished)] = scalar_scans.UNREAD
            self.any_found = True

    def other(self, step: Step) -> None:
        if step.may_stop or any(any_in(self.marks, view) for view in step.views_written):
            mark_reads(step, self.marks)
            return
        for view in step.views_written:
            self.stands[slice(*view.extent)] = scalar_scans.UNREAD
        self.any_found = True

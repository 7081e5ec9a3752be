"""Dead code: values that are never read are not computed."""

from __future__ import annotations

import numpy as np

from ..ir import scalar_scans
from ..ir.rewriting import merged
from ..ir.scalars_step import Scalars
from ..ir.steps import Code, Ranges, Spans, Step, View, Visitor, mostly_zeros
from ..ir.uses import Written, any_in, views_needed


def drop_unread(code: Code) -> Code:
    """The program without operations on numbers, and steps of arrays, that no result needs."""
    if not (_any_number_unread(code) or _any_unread(code)):
        return code
    finder = _Finder(code)
    for step in reversed(code.steps):
        step.accept(finder)
    return merged(code, finder.stands) if finder.any_found else code


def _any_unread(code: Code) -> bool:
    """Whether there is a step of arrays that may go and that no step reads.

    What only unneeded steps read is needed by none: the last of these is read by no step at all.
    """
    is_read = code.writes.steps_of(views_needed(code))
    return any(not code.whole_steps[k].may_stop for k in np.flatnonzero(~is_read).tolist())


def _any_number_unread(code: Code) -> bool:
    """Whether there is an operation on numbers whose result no step reads, for the same reason."""
    numbers = [step.slots_written for step in code.numbers]
    if not numbers:
        return False
    outputs, single = Spans([[output.view] for output in code.outputs]), code.single_reads
    low = np.concatenate([code.reads.low, outputs.low, single])
    high = np.concatenate([code.reads.high, outputs.high, single + 1])
    return not Ranges(low, high).hold(np.concatenate(numbers)).all()


class _Finder(Visitor):
    """The values that are read, found from the last step on; `stands`: see `scalar_scans`.

    `read` says of written views whether they are; of those that are numbers, or of which single
    slots are read, `marks` says it slot by slot. Of the `views` that whole steps read, before those
    of results, view k shows the written ones from `begin[k]` to before `end[k]`; the steps that are
    left read those before `at`.
    """

    def __init__(self, code: Code):
        self.marks = mostly_zeros(code.slots, np.uint8)
        self.stands = mostly_zeros(code.slots, np.int32)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.marks})
        self.any_found = False
        self._find_views(code)
        self._read(range(self.at, len(self.views)))

    def _find_views(self, code: Code) -> None:
        written, single = Written(code), code.single_reads
        numbers = [step.first for step in code.numbers]
        by_slot = np.isin(written.first, np.array(numbers, np.int64))
        by_slot |= np.searchsorted(single, written.first) < np.searchsorted(single, written.last)
        self.by_slot, self.read = by_slot.tolist(), bytearray(len(by_slot))
        self.number = {slot: k for k, slot in enumerate(written.first.tolist())}
        outputs = Spans([[output.view] for output in code.outputs])
        self.views, self.at = code.reads.views + outputs.views, len(code.reads.views)
        low, high = np.append(code.reads.low, outputs.low), np.append(code.reads.high, outputs.high)
        self.begin, self.end = (at.tolist() for at in written.seen(low, high))

    def _read(self, numbers: range) -> None:
        """Mark what some of the views that are read show."""
        for k in numbers:
            for number in range(self.begin[k], self.end[k]):
                self.read[number] = True
                if self.by_slot[number]:
                    self.marks[slice(*self.views[k].extent)] = True

    def _is_read(self, view: View) -> bool:
        if not view.size:
            return False
        number = self.number[view.extent[0]]
        return bool(self.read[number]) or (self.by_slot[number] and any_in(self.marks, view))

    def scalars(self, step: Scalars) -> None:
        wished = np.zeros(len(step.op), np.uint8)
        if self.scan("read", step, {scalar_scans.WISHED: wished}):
            self.stands[step.first + np.flatnonzero(wished)] = scalar_scans.UNREAD
            self.any_found = True

    def other(self, step: Step) -> None:
        last, self.at = self.at, self.at - len(step.views_read)
        if step.may_stop or any([self._is_read(view) for view in step.views_written]):
            self._read(range(self.at, last))
            for slots in step.slots_read:
                self.marks[slots] = True
            return
        for view in step.views_written:
            self.stands[slice(*view.extent)] = scalar_scans.UNREAD
        self.any_found = True

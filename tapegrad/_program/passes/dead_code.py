"""Dead code: values that are never read are not computed."""

from __future__ import annotations

import numpy as np

from ..ir import scalar_scans
from ..ir.scalars_step import Scalars
from ..ir.slot_ranges import mostly_zeros
from ..ir.spans import Spans
from ..ir.steps import ARENA, Code, Step, View, Visitor
from ..ir.substitution import merged
from ..ir.uses import Written, any_in, views_needed


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
    """The values that are read, found from the last step on; `stands`: see `scalar_scans`.

    `read` says of written views whether they are; of those that are numbers, or of which single
    slots are read, `marks` says it slot by slot.
    """

    def __init__(self, code: Code):
        self.marks = mostly_zeros(code.slots, np.uint8)
        self.stands = mostly_zeros(code.slots, np.int32)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.marks})
        self.any_found = False
        self._find_views(code)
        self._read([output.view for output in code.outputs])

    def _find_views(self, code: Code) -> None:
        written, single = Written(code), code.single_reads
        numbers = [step.first for step in code.of(Scalars).values()]
        by_slot = np.isin(written.first, np.array(numbers, np.int64))
        by_slot |= np.searchsorted(single, written.first) < np.searchsorted(single, written.last)
        self.by_slot, self.read = by_slot.tolist(), bytearray(len(by_slot))
        self.number = {slot: k for k, slot in enumerate(written.first.tolist())}
        outputs = Spans([[output.view] for output in code.outputs])
        self.seen: dict[View, range] = {}
        for spans in (code.reads, outputs):
            ends = [at.tolist() for at in written.seen(spans.low, spans.high)]
            self.seen |= dict(zip(spans.views, map(range, *ends), strict=True))

    def _read(self, views: list[View]) -> None:
        for view in dict.fromkeys(views):
            for number in self.seen[view] if view.base == ARENA else ():
                self.read[number] = True
                if self.by_slot[number]:
                    self.marks[slice(*view.extent)] = True

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
        if step.may_stop or any([self._is_read(view) for view in step.views_written]):
            self._read(step.views_read)
            for slots in step.slots_read:
                self.marks[slots] = True
            return
        for view in step.views_written:
            self.stands[slice(*view.extent)] = scalar_scans.UNREAD
        self.any_found = True

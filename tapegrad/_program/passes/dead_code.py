"""Dead code: values that are never read are not computed."""

from __future__ import annotations

import numpy as np

from ..._core.ops.table import BY_CODE
from ..ir import scalar_scans
from ..ir.steps import Code, Elementwise, Kernel, Link, Pack, Scalars, Step
from ..ir.substitution import merged
from ..ir.uses import any_in, mark_outputs, mark_reads, views_written

#: Steps that only compute. The others may stop the program, which is their business too.
_HARMLESS = Elementwise, Kernel, Link, Pack


def _is_harmless(step: Step) -> bool:
    refuses = isinstance(step, Kernel) and getattr(BY_CODE[step.code], "may_refuse", False)
    return isinstance(step, _HARMLESS) and not refuses


def drop_unread(code: Code) -> Code:
    """The program without operations on numbers, and steps of arrays, that no result needs."""
    marks, stands = np.zeros(code.slots, np.uint8), np.zeros(code.slots, np.int32)
    mark_outputs(code, marks)
    walk, any_found = scalar_scans.Walk({scalar_scans.BY_SLOT: marks}), False
    for step in reversed(code.steps):
        if isinstance(step, Scalars):
            wished = np.zeros(len(step.op), np.uint8)
            if walk("read", step, {scalar_scans.WISHED: wished}):
                stands[step.first + np.flatnonzero(wished)] = scalar_scans.UNREAD
                any_found = True
        elif not _is_harmless(step) or any(any_in(marks, v) for v in views_written(step)):
            mark_reads(step, marks)
        else:
            for view in views_written(step):
                stands[slice(*view.extent)] = scalar_scans.UNREAD
            any_found = True
    return merged(code, stands) if any_found else code

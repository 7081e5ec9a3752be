"""Programs without the slots that nothing uses."""

from __future__ import annotations

import dataclasses

import numpy as np

from .rewriting import renumbered
from .steps import NOTHING, Code
from .uses import mark_outputs, mark_reads


def compact(code: Code) -> Code:
    """The program without the slots that no step writes or reads."""
    used = np.zeros(code.slots, bool)
    used[NOTHING] = True
    for step in code.steps:
        mark_reads(step, used)
        for view in step.views_written:
            used[slice(*view.extent)] = True
    mark_outputs(code, used)
    for one in code.inputs:
        if not one.view.base:
            used[slice(*one.view.extent)] = True
    kept = [
        (slot, values) for slot, values in code.constants if used[slot : slot + len(values)].any()
    ]
    for slot, values in kept:
        used[slot : slot + len(values)] = True
    code = dataclasses.replace(code, constants=kept)
    places = np.cumsum(used, dtype=np.int32) - 1
    return renumbered(code, np.append(places, np.int32(-1)), int(places[-1]) + 1)

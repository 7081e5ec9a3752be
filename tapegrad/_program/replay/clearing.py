"""Adjoints set back to 0, where slots belong to several arrays one after the other."""

from __future__ import annotations

import numpy as np

from ..._core.codegen.factory import compile_source, once
from ..ir.steps import View
from .parts import SIGNATURE, Part

SOURCE = """
from tapegrad._core.codegen.intrinsics import load_i64, memset
from tapegrad._program.replay.run_layout import FINISHED, RUN_ADJOINTS


def clear(run, data):
    memset(load_i64(run, RUN_ADJOINTS) + load_i64(data, 0), 0, load_i64(data, 8))
    return FINISHED
"""


@once
def compiled() -> int:
    return compile_source(SOURCE, {"clear": SIGNATURE})["clear"]


def clearing(view: View, item: int) -> Part:
    """The part, as a forward, that sets the adjoints of slots in C order to 0."""
    return Part(compiled(), 0, np.array([item * view.offset, item * view.size], np.int64))

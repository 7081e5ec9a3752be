"""Many calls of a graph in compiled code: one for each row of its inputs, with gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .._core.codegen.factory import compile_source, once
from .ir.frame import ARENA_FULL, TAPE_FULL
from .program import FlowProgram

#: One evaluation of what is in a frame: its value, and adjoints unless `reverse` is 0.
EVALUATED = """
@helper
def evaluated(frame, forward, reverse, data):
    status = called_with(forward, frame, data)
    if status == FINISHED and reverse != 0:
        memset(load_i64(frame, SHADOW), 0, 8 * load_i64(frame, ARENA_USED))
        store_f64(load_i64(frame, OUTPUT_ADJOINTS), 0, 1.0)
        called_with(reverse, frame, data)
    return status
"""

#: The table has forward or ahead, reverse or 0, their data; the number of inputs, the number of
#: words of the arena that they use; the status where a row stops. For each input follow its first
#: word among the parameters or in the arena, the bytes of a row, and whether it is an array.
_TEXT = f"""
from tapegrad._core.codegen.intrinsics import (
    called_with, f64s, helper, load_f64, load_i64, memcpy, memset, store_f64, store_i64,
)
from tapegrad._flow.ir.frame import *

{EVALUATED}

def rows(frame, table, words, start, count):
    forward, reverse, data = load_i64(table, 0), load_i64(table, 8), load_i64(table, 16)
    inputs, used = load_i64(table, 24), load_i64(table, 32)
    values = load_i64(words, 0)
    for row in range(start, count):
        for k in range(inputs):
            at, given = table + 48 + 24 * k, words + 16 + 48 * k
            source = load_i64(given, 0) + row * load_i64(given, 8)
            base = load_i64(frame, ARENA if load_i64(at, 16) else INPUTS)
            memcpy(base + 8 * load_i64(at, 0), source, load_i64(at, 8))
        store_i64(frame, ARENA_USED, used)
        status = evaluated(frame, forward, reverse, data)
        if status != FINISHED:
            store_i64(table, 40, status)
            return row
        store_f64(values, 8 * row, load_f64(load_i64(frame, OUTPUTS), 0))
        if reverse == 0:
            continue
        for k in range(inputs):
            at, given = table + 48 + 24 * k, words + 16 + 48 * k
            to = load_i64(given, 16)
            if to == 0:
                continue
            to += row * load_i64(given, 24)
            base = load_i64(frame, SHADOW if load_i64(at, 16) else INPUT_ADJOINTS)
            memcpy(to, base + 8 * load_i64(at, 0), load_i64(at, 8))
            if load_i64(given, 32) != 0:
                total, part = f64s(load_i64(given, 32)), f64s(to)
                for i in range(load_i64(given, 40)):
                    total[i] += part[i]
    return count
"""
_prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)


@once
def _rows():
    return _prototype(compile_source(_TEXT, {"rows": f"int64({', '.join(['int64'] * 5)})"})["rows"])


def evaluate_rows(
    program: FlowProgram, values: Sequence, words: np.ndarray, count: int, gradient: bool
) -> tuple[list[int], int]:
    """Evaluate the rows of the first inputs; the others are those of `values` in every row.

    Parameters
    ----------
    program : FlowProgram
        Of a graph with one float as result, and without tangents.
    values : sequence
        The inputs of one row, as `FlowProgram.run` takes them.
    words : ndarray of int64
        The address of the values that are found, and a word for nothing; then for each of the first
        inputs the address of its rows and how many bytes they are apart, the same of gradients (or
        0), and where gradients are summed up (or 0), with the number of elements.
    count : int
        The number of rows.
    gradient : bool
        Whether gradients are asked for.

    Returns
    -------
    list of int
        The rows that left the graph, which have neither value nor gradient.
    int
        The edges that were taken, as in `Outcome`.
    """
    run = program.borrow()
    functions = program.functions
    inputs = (len(words) - 2) // 6
    start, left = 0, []
    try:
        while start < count:
            table = program.entered(run, values)[:inputs]
            address = functions.ahead if gradient else functions.forward
            reverse = functions.reverse if gradient else 0
            head = [address, reverse, functions.data, inputs, run.used, 0]
            made = np.array([*head, *[word for row in table for word in row]], np.int64)
            start = _rows()(run.address, made.ctypes.data, words.ctypes.data, start, count)
            if start < count and not (made[5] in (TAPE_FULL, ARENA_FULL) and run.grow(made[5])):
                left.append(start)
                start += 1
        return left, run.taken
    finally:
        program.give_back(run)

"""Calls of a graph by compiled code: in any thread, one for each row of its inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .._core.codegen.factory import compile_source, once
from .ir import frame as layout
from .ir.frame import ARENA_FULL, TAPE_FULL
from .program import FlowProgram

__all__ = ["Callee", "entry"]


# --- Many calls of a graph in compiled code: one for each row of its inputs, with gradients -------


#: One evaluation of what is in a frame: its value, and adjoints unless `reverse` is 0.
EVALUATED = """
@helper
def evaluated(frame, forward, reverse, data, spaces):
    status = called_with(forward, frame, data)
    if status == FINISHED and reverse != 0:
        for space in range(spaces):
            at = load_i64(frame, SHADOW) + 8 * space * load_i64(frame, ARENA_WORDS)
            memset(at, 0, 8 * load_i64(frame, ARENA_USED))
        store_f64(load_i64(frame, OUTPUT_ADJOINTS), 0, 1.0)
        called_with(reverse, frame, data)
    return status
"""

#: The table has forward or ahead, reverse or 0, their data; the number of inputs, the number of
#: words of the arena that they use; the status where a row stops; the spaces of the arena. For each
#: input follow its first word among the parameters or in the arena, the bytes of a row, and whether
#: it is an array.
_TEXT_OF_ROWS = f"""
from tapegrad._core.codegen.intrinsics import (
    called_with, f64s, helper, load_f64, load_i64, memcpy, memset, store_f64, store_i64,
)
from tapegrad._flow.ir.frame import *

{EVALUATED}

def rows(frame, table, words, start, count):
    forward, reverse, data = load_i64(table, 0), load_i64(table, 8), load_i64(table, 16)
    inputs, used, spaces = load_i64(table, 24), load_i64(table, 32), load_i64(table, 48)
    values = load_i64(words, 0)
    for row in range(start, count):
        for k in range(inputs):
            at, given = table + 56 + 24 * k, words + 16 + 48 * k
            source = load_i64(given, 0) + row * load_i64(given, 8)
            base = load_i64(frame, ARENA if load_i64(at, 16) else INPUTS)
            memcpy(base + 8 * load_i64(at, 0), source, load_i64(at, 8))
        store_i64(frame, ARENA_USED, used)
        status = evaluated(frame, forward, reverse, data, spaces)
        if status != FINISHED:
            store_i64(table, 40, status)
            return row
        store_f64(values, 8 * row, load_f64(load_i64(frame, OUTPUTS), 0))
        if reverse == 0:
            continue
        for k in range(inputs):
            at, given = table + 56 + 24 * k, words + 16 + 48 * k
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
    return _prototype(
        compile_source(_TEXT_OF_ROWS, {"rows": f"int64({', '.join(['int64'] * 5)})"})["rows"]
    )


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
            head = [address, reverse, functions.data, inputs, run.used, 0, run.spaces]
            made = np.array([*head, *[word for row in table for word in row]], np.int64)
            start = _rows()(run.address, made.ctypes.data, words.ctypes.data, start, count)
            if start < count and not (made[5] in (TAPE_FULL, ARENA_FULL) and run.grow(made[5])):
                left.append(start)
                start += 1
        return left, run.taken
    finally:
        program.give_back(run)


# --------------------------------------------------------------------------------------------------
# A call of a graph by compiled code that is not ours: in any thread, with memory of its own.


#: Words of a graph that is called, byte offsets.
(
    IN_USE,  # where the address of its functions lies
    ALL_INPUTS,
    ARGUMENTS,  # the number of inputs that are arguments, the first ones
    PARAMETERS,
    MOST_JUMPS,
    MOST,  # words of tape, or of the arena with its adjoints
    SPACES,  # of the arena
    NEEDED_TAPE,  # words of tape that calls needed so far
    NEEDED_ARENA,
    ROWS,  # for each input its axes and, for an array that is no argument, its table as in `given`
) = range(0, 80, 8)

#: `given` has for each argument the address of its data and its lengths, `gradients` (or 0) the
#: address of each argument's gradient, or 0. The value goes to an address. Where the call leaves
#: the graph its reason is the first word of `given`.
_TEXT = f"""
from tapegrad._core.codegen.intrinsics import (
    called_with, free, helper, load_f64, load_i64, malloc, memcpy, memset, store_f64, store_i64,
)
from tapegrad._flow.ir.frame import *

{EVALUATED}

@helper
def words_of(graph, given, k, first):
    own = load_i64(graph, {ROWS} + 16 * k + 8)
    return own if own != 0 else given + 8 * first


@helper
def size_of(words, axes):
    size = 1
    for axis in range(axes):
        size *= load_i64(words, 8 + 8 * axis)
    return size


@helper
def used_by(graph, given):
    first = used = 0
    for k in range(load_i64(graph, {ALL_INPUTS})):
        axes = load_i64(graph, {ROWS} + 16 * k)
        if axes > 0:
            used += size_of(words_of(graph, given, k, first), axes)
        first += 1 + axes
    return used


@helper
def made(graph, tape, arena):
    parameters, spaces = load_i64(graph, {PARAMETERS}), load_i64(graph, {SPACES})
    frame = malloc(FRAME_BYTES + 8 * (2 * parameters + 2 + tape + 2 * spaces * arena))
    if frame == 0:
        return frame
    memset(frame, 0, FRAME_BYTES)
    store_i64(frame, INPUTS, frame + FRAME_BYTES)
    store_i64(frame, INPUT_ADJOINTS, load_i64(frame, INPUTS) + 8 * parameters)
    store_i64(frame, OUTPUTS, load_i64(frame, INPUT_ADJOINTS) + 8 * parameters)
    store_i64(frame, OUTPUT_ADJOINTS, load_i64(frame, OUTPUTS) + 8)
    store_i64(frame, TAPE, load_i64(frame, OUTPUT_ADJOINTS) + 8)
    store_i64(frame, ARENA, load_i64(frame, TAPE) + 8 * tape)
    store_i64(frame, SHADOW, load_i64(frame, ARENA) + 8 * spaces * arena)
    store_i64(frame, TAPE_WORDS, tape)
    store_i64(frame, ARENA_WORDS, arena)
    store_i64(frame, JUMPS, load_i64(graph, {MOST_JUMPS}))
    return frame


@helper
def enter(graph, given, frame):
    first = used = 0
    for k in range(load_i64(graph, {ALL_INPUTS})):
        axes, words = load_i64(graph, {ROWS} + 16 * k), words_of(graph, given, k, first)
        to = load_i64(frame, INPUTS) + 8 * first
        if axes == 0:
            memcpy(to, load_i64(words, 0), 8)
        else:
            size = size_of(words, axes)
            store_i64(to, 0, used)
            memcpy(to + 8, words + 8, 8 * axes)
            memcpy(load_i64(frame, ARENA) + 8 * used, load_i64(words, 0), 8 * size)
            used += size
        first += 1 + axes
    store_i64(frame, ARENA_USED, used)


@helper
def give(graph, given, frame, gradients):
    first = used = 0
    for k in range(load_i64(graph, {ARGUMENTS})):
        axes, to = load_i64(graph, {ROWS} + 16 * k), load_i64(gradients, 8 * k)
        size = size_of(given + 8 * first, axes)
        if to != 0 and axes == 0:
            memcpy(to, load_i64(frame, INPUT_ADJOINTS) + 8 * first, 8)
        elif to != 0:
            memcpy(to, load_i64(frame, SHADOW) + 8 * used, 8 * size)
        used += size if axes > 0 else 0
        first += 1 + axes


def call(graph, given, gradients, value):
    functions = load_i64(load_i64(graph, {IN_USE}), 0)
    forward = load_i64(functions, 0 if gradients == 0 else 8)
    reverse = 0 if gradients == 0 else load_i64(functions, 16)
    tape, arena = load_i64(graph, {NEEDED_TAPE}), load_i64(graph, {NEEDED_ARENA})
    used, spaces = used_by(graph, given), load_i64(graph, {SPACES})
    while arena < used:
        arena *= 2
    while True:
        frame = made(graph, tape, arena)
        if frame == 0:
            return ARENA_FULL
        enter(graph, given, frame)
        status = evaluated(frame, forward, reverse, load_i64(functions, 24), spaces)
        if status == FINISHED:
            store_f64(value, 0, load_f64(load_i64(frame, OUTPUTS), 0))
            if gradients != 0:
                give(graph, given, frame, gradients)
        elif status == LEFT:
            store_i64(given, 0, load_i64(frame, REASON))
        free(frame)
        if status == FINISHED or status == LEFT:
            return status
        if status == TAPE_FULL:
            tape *= 2
        else:
            arena *= 2
        if tape > load_i64(graph, {MOST}) or 2 * spaces * arena > load_i64(graph, {MOST}):
            return status
        store_i64(graph, {NEEDED_TAPE}, tape)  # other threads may do so too: calls begin with it
        store_i64(graph, {NEEDED_ARENA}, arena)
"""


@once
def entry() -> int:
    """The address of `int64(graph, given, gradients, value)`, which returns a status."""
    signature = f"int64({', '.join(['int64'] * 4)})"
    return compile_source(_TEXT, {"call": signature})["call"]


class Callee:
    """The words of a program for such calls, which must not outlive it.

    The program is of a graph with one float as result, and without tangents. Its last inputs are
    `others`: arrays that are no arguments, read where they are in each call.
    """

    def __init__(self, program: FlowProgram, others: Sequence[np.ndarray]):
        inputs = program.graph.inputs
        arguments = len(inputs) - len(others)
        tables = [np.array([one.ctypes.data, *one.shape], np.int64) for one in others]
        self.keep = program, others, tables
        counts = len(inputs), arguments, program.parameters
        limits = program.limits.jumps, program.limits.words, program.graph.spaces
        head = program.current.ctypes.data, *counts, *limits
        room = layout.FIRST_TAPE_WORDS, layout.FIRST_ARENA_WORDS
        own = [0] * arguments + [table.ctypes.data for table in tables]
        rows = [(one.ndim or 0, at) for one, at in zip(inputs, own, strict=True)]
        words = [*head, *room, *[word for row in rows for word in row]]
        self.words = np.array(words, np.int64)
        self.address = self.words.ctypes.data

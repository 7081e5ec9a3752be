"""The sweep once more, with a clock: what each row costs, in a table that the frame points to.

The texts are those of the ordinary sweep. At their end, before anything is compiled, the functions
that sweep one row are taken over by ones that read the clock around them.
"""

import ast
import time
from pathlib import Path

from ..codegen import machine_types as types
from ..codegen.intrinsics import c_function, helper, load_i32, load_i64, store_i64
from ..codegen.layout import FRAME_SEEDS, FRAME_TIMES, TAG_ARRAY
from ..codegen.sources import statements_in
from ..codegen.sweep_frame import count_of, item_bytes, reference_of, row_of
from . import reverse, scalar_rows

#: The table: the clock's two words, the cost of reading it, and a record per row from HEAD on: when
#: it was first swept, nanoseconds, op, bytes of its adjoint.
HEAD, RECORD = 32, 32
CLOCK = getattr(time, "CLOCK_MONOTONIC", 1)
READINGS = 1000

read_clock = c_function("clock_gettime", types.int64(types.int64, types.int64))


@helper
def clock(frame):
    """Nanoseconds on the clock that Python reads by `time.clock_gettime_ns`."""
    at = load_i64(frame, FRAME_TIMES)
    read_clock(CLOCK, at)
    return load_i64(at, 0) * 1_000_000_000 + load_i64(at, 8)


@helper
def note(frame, id, op, size, started):
    """Add the time since `started`, less the clock's own time, to the record of a row."""
    table = load_i64(frame, FRAME_TIMES)
    spent = clock(frame) - started - load_i64(table, 16)
    at = table + HEAD + id * RECORD
    if load_i64(at, 0) == 0:
        store_i64(at, 0, started)
    store_i64(at, 8, load_i64(at, 8) + spent)
    store_i64(at, 16, op)
    store_i64(at, 24, size * load_i64(frame, FRAME_SEEDS))


@helper
def bytes_of_result(frame, id):
    """Bytes of the array that a row has made or written; 8 for a scalar."""
    row = row_of(frame, id)
    last = reference_of(frame, id, load_i32(row, 4) + load_i32(row, 8) - 1)
    if load_i32(last, 12) != TAG_ARRAY:
        return 8
    return count_of(load_i64(last, 0)) * item_bytes(frame, load_i64(last, 0))


@helper
def idle_time(frame):
    """Nanoseconds between two readings of the clock with nothing in between."""
    total = 0
    for _ in range(READINGS):
        started = clock(frame)
        total += clock(frame) - started
    return total // READINGS


_IMPORTS = """

from tapegrad._core.codegen.layout import ARRAY
from tapegrad._core.sweep.timed_reverse import bytes_of_result, clock, idle_time, note
"""

_SCALARS = """
plain_scalar, plain_other = sweep_scalar, sweep_other


@helper
def sweep_scalar(frame, slot, first_row, cells, row, op, address):
    started = clock(frame)
    at = plain_scalar(frame, slot, first_row, cells, row, op, address)
    note(frame, (slot << ROWS_BITS) + (row - first_row) // ROW_BYTES, op, 8, started)
    return at


@helper
def sweep_other(frame, id, row, op, address):
    started = clock(frame)
    status = plain_other(frame, id, row, op, address)
    if op == LOAD:
        note(frame, id, op, 8, started)
    return status
"""

_SWEEP = """
plain_structural = structural_call


@helper
def is_reached(frame, id):
    return id >= 0 and is_touched(frame, id >> ROWS_BITS, id & (ROWS - 1))


@helper
def structural_call(kernel, frame, id, references, task):
    # A write has no adjoint of its own, and is undone whether or not its buffer has one.
    reached = is_reached(frame, id) or is_reached(frame, load_i32(references, 8))
    op, started = load_i32(row_of(frame, id), 0), clock(frame)
    plain_structural(kernel, frame, id, references, task)
    if task == REVERSE and reached:
        note(frame, id, op, bytes_of_result(frame, id), started)


def idle(frame):
    return idle_time(frame)
"""

_RUN = """
from tapegrad._core.sweep.{module} import *

plain_block = {block}


@helper
def {block}(frame, entry, e, block{seed}):
    started, op = clock(frame), ARRAY + load_i64(entry, CODE)
    plain_block(frame, entry, e, block{seed})
    note(frame, load_i64(entry, ID), op, count_of(block.out) * block.width, started)


{again}


def pointwise(frame, id):
    return {run}(frame, id)
"""
#: By module: the function of a block and its last parameter; those that lead to it, made again.
_FUNCTIONS = {
    "elementwise_run": ("row_block", ", seed", "sweep_run", "pointwise_run"),
    "second_order_run": ("block_of_both", "", "sweep_both", "second_order_run"),
}

EXPORTS = {**reverse.EXPORTS, "idle": 1}


def source() -> str:
    """The text of the sweep's module, rows of arrays timed."""
    return reverse.SOURCE + _IMPORTS + _SWEEP


def scalars_source(rows=scalar_rows) -> str:
    """The text of a module that sweeps scalar rows, each timed."""
    return rows.source() + _IMPORTS + _SCALARS


def pointwise_source(module: str = "elementwise_run") -> str:
    """The text of a module that sweeps element-wise runs, each row timed block by block."""
    block, seed, *leading = _FUNCTIONS[module]
    tree = statements_in((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    again = [ast.unparse(one) for one in tree.body if getattr(one, "name", "") in leading]
    names = {"block": block, "seed": seed, "again": "\n\n\n".join(again), "run": leading[-1]}
    return _IMPORTS + _RUN.format(module=module, **names)

"""Second-order reverse of element-wise array rows: runs of rows, both seeds in one pass.

Runs are planned and their blocks found as in `elementwise_run`; a kernel receives adjoints, the
tangents of adjoints, and the tangents of its inputs, which another frame holds.
"""

from ..codegen.intrinsics import helper, load_i64, memcpy, memset, store_i64
from ..codegen.layout import (
    ARRAY_DATA,
    BLOCK,
    DONE,
    FRAME_SCRATCH,
    FRAME_STATUS,
    FRAME_TANGENTS,
    FRAME_USED,
)
from ..codegen.sweep_frame import base_of, count_of, item_bytes
from .elementwise_run import (
    adjoint_address,
    deliver,
    find_place,
    kernel_call,
    leave_run,
    own_adjoint,
    place_adjoints,
    targets,
    value_address,
)
from .elementwise_run_layout import (
    ADDED,
    AT_ADJOINTS,
    AT_ARGUMENTS,
    AT_ENTRIES,
    AT_UNIT,
    CLEAR,
    CODE,
    COPIED,
    ENTRY,
    HOW,
    ID,
    INPUTS,
    KERNEL,
    MASK,
    NEXT_SEED,
    OWN,
    ROUTE,
    SEED_STEP,
    SLOPES,
    STRIDED,
    UNIFORM,
    UNITS,
)
from .elementwise_run_planning import collect, release_pending, resolve, undo_inside
from .elementwise_tangents import tangent_block

#: The part of the sweep that it is, called by its address.
SOURCE = """
from tapegrad._core.sweep.second_order_run import second_order_run


def pointwise(frame, id):
    return second_order_run(frame, id)
"""


@helper
def place_operands(frame, entry, e, out, start, n, width):
    """Pass values, output and tangents of inputs for this block to the kernel, by address."""
    arguments = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS
    id, inputs = load_i64(entry, ID), load_i64(entry, INPUTS)
    used = load_i64(load_i64(frame, FRAME_USED), load_i64(entry, CODE) * 8)
    mask, tangents = (
        load_i64(entry, MASK) & load_i64(entry, SLOPES),
        load_i64(frame, FRAME_TANGENTS),
    )
    for j in range(inputs):
        at = value_address(frame, entry, e, j, used, out, start, n, width)
        store_i64(arguments, j * 8, at)
        if mask & (1 << j):
            at = tangent_block(frame, tangents, entry, e, j, out, start, n, 0, width)
            store_i64(arguments, (3 * inputs + 3 + j) * 8, at)
    value = load_i64(base_of(frame, id), ARRAY_DATA) + start * width
    store_i64(arguments, inputs * 8, value)


@helper
def place_adjoint(frame, entry, e, start, n, seed, width):
    """Pass the adjoints of one seed to the kernel; returns bits of those to deliver later."""
    scratch, inputs = load_i64(frame, FRAME_SCRATCH), load_i64(entry, INPUTS)
    table = scratch + AT_ARGUMENTS + (inputs + 1) * (1 + seed) * 8
    store_i64(table, 0, own_adjoint(frame, e, start, seed))
    blocks = scratch + AT_ADJOINTS + seed * NEXT_SEED
    return targets(frame, entry, start, n, seed, width, table + 8, blocks)


@helper
def run_both(frame, entry, e, out, start, n, width):
    """Let the kernel of a row of the run add to both adjoints of its inputs, for one block."""
    arguments, inputs = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS, load_i64(entry, INPUTS)
    place_operands(frame, entry, e, out, start, n, width)
    detours = place_adjoint(frame, entry, e, start, n, 0, width)
    place_adjoint(frame, entry, e, start, n, 1, width)
    kernel_call(load_i64(entry, KERNEL), n, arguments)
    for j in range(inputs):
        if detours & (1 << j):
            count = 1 if load_i64(entry, UNIFORM) & (1 << j) else n  # the kernel has summed
            for seed in range(2):
                at = load_i64(arguments, ((inputs + 1) * (1 + seed) + 1 + j) * 8)
                deliver(frame, entry, e, j, at, out, start, count, seed, width)


@helper
def block_of_both(frame, entry, e, out, start, n, width):
    """Take one row of the run through one block."""
    inputs = load_i64(entry, INPUTS)
    for j in range(inputs):
        if load_i64(entry, HOW + j * 8) == STRIDED:
            find_place(frame, entry, e, j, out, start, n, width)
    if load_i64(entry, KERNEL) != 0:
        run_both(frame, entry, e, out, start, n, width)
    units = load_i64(entry, UNITS) & load_i64(entry, MASK)
    for seed in range(2):
        own = own_adjoint(frame, e, start, seed)
        for j in range(inputs):
            route = load_i64(entry, ROUTE + j * 8)
            if units & (1 << j) and route == COPIED:
                memcpy(adjoint_address(frame, entry, j, start, seed, width), own, n * width)
            elif units & (1 << j) and route == ADDED:
                deliver(frame, entry, e, j, own, out, start, n, seed, width)


@helper
def sweep_both(frame, n, out):
    """Execute the collected run, last row first, block by block."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    width = item_bytes(frame, out)
    size, unit = count_of(out), load_i64(scratch, AT_UNIT)
    pieces = (unit + BLOCK - 1) // BLOCK
    piece = (unit + pieces - 1) // pieces
    place_adjoints(frame, n, width, NEXT_SEED)
    start = 0
    while start < size:
        length = min(piece, unit - start % unit)
        for e in range(n):
            entry = scratch + AT_ENTRIES + e * ENTRY
            if load_i64(entry, CLEAR):
                own = load_i64(entry, OWN)
                memset(own, 0, length * width)
                memset(own + load_i64(entry, SEED_STEP), 0, length * width)
        for e in range(n):
            entry = scratch + AT_ENTRIES + e * ENTRY
            block_of_both(frame, entry, e, out, start, length, width)
        start += length
    leave_run(frame, n)


@helper
def second_order_run(frame, id):
    """Sweep the run that ends at row `id`; returns the next id, or `id` for a request (status)."""
    store_i64(frame, FRAME_STATUS, DONE)
    n, low = collect(frame, id)
    if load_i64(frame, FRAME_STATUS) != DONE:
        undo_inside(frame, n)
        return id
    out = base_of(frame, id)
    release_pending(frame, n)
    resolve(frame, n)
    sweep_both(frame, n, out)
    return low - 1

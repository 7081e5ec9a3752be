"""Second-order reverse of element-wise array rows: runs of rows, both seeds in one pass.

Runs are planned and their blocks found as in `elementwise_run`; a kernel receives adjoints, the
tangents of adjoints, and the tangents of its inputs, which another frame holds.
"""

from ..codegen.intrinsics import helper, load_i64, memset, store_i64
from ..codegen.layout import (
    ARRAY_DATA,
    BLOCK,
    FRAME_SCRATCH,
    FRAME_TANGENTS,
    FRAME_USED,
)
from ..codegen.sweep_frame import base_of, count_of, item_bytes
from .elementwise_run import (
    RunBlock,
    deliver,
    find_place,
    kernel_call,
    leave_run,
    left_by_kernel,
    own_adjoint,
    pass_units,
    place_adjoints,
    run_below,
    targets,
    value_address,
)
from .elementwise_run_layout import (
    AT_ADJOINTS,
    AT_ARGUMENTS,
    AT_ENTRIES,
    AT_UNIT,
    CLEAR,
    CODE,
    ENTRY,
    HOW,
    ID,
    INPUTS,
    KERNEL,
    NEXT_SEED,
    OWN,
    PARTIALS,
    SEED_STEP,
    STRIDED,
)
from .elementwise_tangents import tangent_address

#: The part of the sweep that it is, called by its address.
SOURCE = """
from tapegrad._core.sweep.second_order_run import second_order_run


def pointwise(frame, id):
    return second_order_run(frame, id)
"""


@helper
def place_operands(frame, entry, e, block):
    """Pass values, output and tangents of inputs for this block to the kernel, by address.

    The kernel reads the tangents of all inputs that it was compiled for: also of one whose row
    turned out to be used up.
    """
    arguments = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS
    id, inputs = load_i64(entry, ID), load_i64(entry, INPUTS)
    used = load_i64(load_i64(frame, FRAME_USED), load_i64(entry, CODE) * 8)
    mask, tangents = load_i64(entry, PARTIALS), load_i64(frame, FRAME_TANGENTS)
    for j in range(inputs):
        store_i64(arguments, j * 8, value_address(frame, entry, e, j, used, block))
        if mask & (1 << j):
            at = tangent_address(frame, tangents, entry, e, j, block, 0)
            store_i64(arguments, (3 * inputs + 3 + j) * 8, at)
    value = load_i64(base_of(frame, id), ARRAY_DATA) + block.start * block.width
    store_i64(arguments, inputs * 8, value)


@helper
def place_adjoint(frame, entry, e, block, seed):
    """Pass the adjoints of one seed to the kernel; returns bits of those to deliver later."""
    scratch, inputs = load_i64(frame, FRAME_SCRATCH), load_i64(entry, INPUTS)
    table = scratch + AT_ARGUMENTS + (inputs + 1) * (1 + seed) * 8
    store_i64(table, 0, own_adjoint(frame, e, block.start, seed))
    rooms = scratch + AT_ADJOINTS + seed * NEXT_SEED
    return targets(frame, entry, block, seed, table + 8, rooms)


@helper
def run_both(frame, entry, e, block):
    """Let the kernel of a row of the run add to both adjoints of its inputs, for one block."""
    arguments, inputs = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS, load_i64(entry, INPUTS)
    place_operands(frame, entry, e, block)
    detours = place_adjoint(frame, entry, e, block, 0)
    place_adjoint(frame, entry, e, block, 1)
    kernel_call(load_i64(entry, KERNEL), block.n, arguments)
    for j in range(inputs):
        if detours & (1 << j):
            made = left_by_kernel(entry, j, block)
            for seed in range(2):
                at = load_i64(arguments, ((inputs + 1) * (1 + seed) + 1 + j) * 8)
                deliver(frame, entry, e, j, at, made, seed)


@helper
def block_of_both(frame, entry, e, block):
    """Take one row of the run through one block."""
    for j in range(load_i64(entry, INPUTS)):
        if load_i64(entry, HOW + j * 8) == STRIDED:
            find_place(frame, entry, e, j, block)
    if load_i64(entry, KERNEL) != 0:
        run_both(frame, entry, e, block)
    for seed in range(2):
        own = own_adjoint(frame, e, block.start, seed)
        pass_units(frame, entry, e, own, block, seed)


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
        block = RunBlock(out, start, length, width)
        for e in range(n):
            block_of_both(frame, scratch + AT_ENTRIES + e * ENTRY, e, block)
        start += length
    leave_run(frame, n)


@helper
def second_order_run(frame, id):
    """Sweep the run that ends at row `id`; returns the next id, or `id` for a request (status)."""
    return run_below(frame, id, sweep_both)

"""The reverse sweep of element-wise array rows: a run of rows over one shape, block by block.

Going back from the last row, rows join the run while they are element-wise, of the same shape and
dtype, and are read by later rows of the run element by element. Then each block of the shape is
computed for all rows: adjoints of results that only live inside the run exist as one block only and
never travel to main memory. Operands that are broadcast, strided or scalars are copied to a
contiguous block first, so that one kernel per operation serves all of them.
"""

from typing import NamedTuple

from ..codegen import machine_types as types
from ..codegen.intrinsics import (
    apart,
    call_address,
    f32s,
    f64s,
    helper,
    i64s,
    inside,
    load_i32,
    load_i64,
    memcpy,
    memset,
    store_i32,
    store_i64,
)
from ..codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    BLOCK,
    DONE,
    FRAME_ADD_BLOCK,
    FRAME_BLOCK_OF,
    FRAME_RETAIN,
    FRAME_SCRATCH,
    FRAME_SEEDS,
    FRAME_STATUS,
    FRAME_USED,
    REFERENCE_BYTES,
)
from ..codegen.shared_kernels import cell, forget
from ..codegen.strided_memory import (
    Strided,
    add_run32,
    add_run64,
    start_of_block,
    sum32,
    sum64,
    words_of,
)
from ..codegen.sweep_frame import (
    add_to_cell,
    adjoint_place,
    base_of,
    count_of,
    item_bytes,
    row_of,
    scalar_operand,
)
from .elementwise_run_layout import (
    ADDED,
    ALIGNED,
    AT_ADJOINTS,
    AT_ARGUMENTS,
    AT_ENTRIES,
    AT_INSIDE,
    AT_UNIT,
    AT_VALUES,
    BLOCK_BYTES,
    CLEAR,
    CODE,
    COPIED,
    ENTRY,
    FRESH,
    FROM,
    HOW,
    ID,
    INPUTS,
    INSIDE,
    KERNEL,
    LINE,
    MASK,
    OUTER,
    OWN,
    OWN_STEP,
    PARTIALS,
    PLACE,
    REFS,
    ROUTE,
    SEED_STEP,
    SINGLE,
    STEP,
    STRIDED,
    UNIFORM,
    UNITS,
    WHERE,
)
from .elementwise_run_planning import collect, release_pending, resolve, strides_of, undo_inside

kernel_call = call_address(types.none(types.int64, types.int64))
block_call = call_address(types.none(*map(words_of, (int, Strided, int, int, int, int))))


class RunBlock(NamedTuple):
    """Elements start … start + n of arrays in C order, of the shape of `out`, of so many bytes."""

    out: int
    start: int
    n: int
    width: int


@helper
def fill(address, value, n, width):
    if width == 8:
        b64 = f64s(address)
        for i in range(n):
            b64[i] = value
    else:
        b32 = f32s(address)
        for i in range(n):
            b32[i] = value


@helper
def add_line(target, source, n, width):
    """Add contiguous elements to others."""
    if width == 8:
        add_run64(target, 8, source, 8, n)
    else:
        add_run32(target, 4, source, 4, n)


@helper
def add_value(target, value, width):
    """Add a number to an element."""
    if width == 8:
        f64s(target)[0] += value
    else:
        f32s(target)[0] += value


@helper
def total(address, n, width):
    """The sum of contiguous elements, in float64."""
    return sum64(address, n) if width == 8 else sum32(address, n)


@helper
def find_place(frame, entry, e, j, block):
    """Note where in its array a strided input starts for this block, if the block is in one line
    of neighbours or of one value."""
    line, step = load_i64(entry, LINE + j * 8), load_i64(entry, STEP + j * 8)
    skip = block.start % line
    place = -1
    if skip + block.n <= line and (step == block.width or load_i64(entry, UNIFORM) & (1 << j)):
        index, outer = i64s(load_i64(frame, FRAME_SCRATCH)), load_i64(entry, OUTER + j * 8)
        strides, shape = strides_of(frame, e, j), load_i64(block.out, ARRAY_SHAPE)
        place = start_of_block(index, strides, shape, outer, block.start // line) + skip * step
    store_i64(entry, PLACE + j * 8, place)


@helper
def seen_from(frame, e, j, block, data):
    """Input j of a row of the run, from `data` on, broadcast to the shape of the run."""
    shape, ndim = load_i64(block.out, ARRAY_SHAPE), load_i32(block.out, ARRAY_NDIM)
    return Strided(data, strides_of(frame, e, j), shape, ndim)


@helper
def copied(frame, e, j, block, data, room):
    """Copy the elements of input j from `data` on for this block to `room`, which is returned."""
    way, array = load_i64(frame, FRAME_BLOCK_OF), seen_from(frame, e, j, block, data)
    block_call(way, frame, array, block.start, block.n, room, block.width)
    return room


@helper
def value_address(frame, entry, e, j, used, block):
    """The address from which the kernel reads the values of input j for this block."""
    inside()
    room = load_i64(frame, FRAME_SCRATCH) + AT_VALUES + j * BLOCK_BYTES
    how, ref = load_i64(entry, HOW + j * 8), load_i64(entry, REFS) + j * REFERENCE_BYTES
    if not used & (1 << j):
        return room
    if how == SINGLE:
        one = load_i64(entry, UNIFORM) & (1 << j)
        fill(room, scalar_operand(frame, ref), 1 if one else block.n, block.width)
        return room
    data = load_i64(load_i64(ref, 0), ARRAY_DATA)
    if how == ALIGNED:
        return data + block.start * block.width
    if load_i64(entry, PLACE + j * 8) >= 0:
        return data + load_i64(entry, PLACE + j * 8)
    return copied(frame, e, j, block, data, room)


@helper
def own_adjoint(frame, e, start, seed):
    """The address of the adjoint of a row of the run, for this block."""
    inside()
    entry = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES + e * ENTRY
    own = load_i64(entry, OWN) + seed * load_i64(entry, SEED_STEP)
    return own + start * load_i64(entry, OWN_STEP)


@helper
def adjoint_address(frame, entry, j, start, seed, width):
    """The address of the adjoint of input j for this block; 0 if it is not in one line."""
    inside()
    where, how = load_i64(entry, WHERE + j * 8), load_i64(entry, HOW + j * 8)
    place = start * width if how == ALIGNED else load_i64(entry, PLACE + j * 8)
    if how == SINGLE or place < 0:
        return 0
    if where < 0:
        return own_adjoint(frame, where - INSIDE, start, seed)
    array = load_i64(load_i64(entry, REFS), j * REFERENCE_BYTES)
    return adjoint_place(where, load_i64(array, ARRAY_DATA), seed) + place


@helper
def deliver(frame, entry, e, j, source, block, seed):
    """Add adjoints that could not be added in place, a block of them, to where they belong."""
    apart()
    n, width = block.n, block.width
    ref = load_i64(entry, REFS) + j * REFERENCE_BYTES
    if load_i64(entry, HOW + j * 8) == SINGLE:
        add_to_cell(frame, load_i32(ref, 8), seed, total(source, n, width))
        return
    target = adjoint_address(frame, entry, j, block.start, seed, width)
    if target == 0:
        where = load_i64(entry, WHERE + j * 8)
        data = adjoint_place(where, load_i64(load_i64(ref, 0), ARRAY_DATA), seed)
        way, array = load_i64(frame, FRAME_ADD_BLOCK), seen_from(frame, e, j, block, data)
        block_call(way, frame, array, block.start, n, source, width)
    elif load_i64(entry, UNIFORM) & (1 << j):
        add_value(target, total(source, n, width), width)
    else:
        add_line(target, source, n, width)


@helper
def targets(frame, entry, block, seed, table, rooms):
    """Where the kernel writes the adjoint of each input; returns bits of those to deliver later.

    Each of those is written to a place of its own in `rooms`.
    """
    inside()
    mask = load_i64(entry, MASK) & load_i64(entry, PARTIALS)
    uniform, fresh = load_i64(entry, UNIFORM), load_i64(entry, FRESH)
    detours = 0
    for j in range(load_i64(entry, INPUTS)):
        target = 0
        if mask & ~uniform & (1 << j):
            target = adjoint_address(frame, entry, j, block.start, seed, block.width)
            for other in range(j):
                if target == load_i64(table, other * 8):
                    target = 0
        if target == 0:
            target = rooms + j * BLOCK_BYTES
            if mask & (1 << j):
                detours |= 1 << j
                if not fresh & (1 << j):
                    memset(target, 0, block.n * block.width)
        store_i64(table, j * 8, target)
    return detours


@helper
def left_by_kernel(entry, j, block):
    """The block of adjoints of input j that the kernel has made: one, if it has summed them."""
    n = 1 if load_i64(entry, UNIFORM) & (1 << j) else block.n
    return RunBlock(block.out, block.start, n, block.width)


@helper
def run_kernel(frame, entry, e, own, block, seed):
    """Let the kernel of a row of the run add to the adjoints of its inputs, for one block."""
    arguments = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS
    id, inputs = load_i64(entry, ID), load_i64(entry, INPUTS)
    used = load_i64(load_i64(frame, FRAME_USED), load_i64(entry, CODE) * 8)
    for j in range(inputs):
        store_i64(arguments, j * 8, value_address(frame, entry, e, j, used, block))
    value = load_i64(base_of(frame, id), ARRAY_DATA) + block.start * block.width
    store_i64(arguments, inputs * 8, value)
    store_i64(arguments, (inputs + 1) * 8, own)
    table = arguments + (inputs + 2) * 8
    rooms = load_i64(frame, FRAME_SCRATCH) + AT_ADJOINTS
    detours = targets(frame, entry, block, seed, table, rooms)
    kernel_call(load_i64(entry, KERNEL), block.n, arguments)
    for j in range(inputs):
        if detours & (1 << j):
            made = left_by_kernel(entry, j, block)
            deliver(frame, entry, e, j, load_i64(table, j * 8), made, seed)


@helper
def row_block(frame, entry, e, block, seed):
    """Take one row of the run through one block."""
    inputs, own = load_i64(entry, INPUTS), own_adjoint(frame, e, block.start, seed)
    for j in range(inputs):
        if load_i64(entry, HOW + j * 8) == STRIDED:
            find_place(frame, entry, e, j, block)
    if load_i64(entry, KERNEL) != 0:
        run_kernel(frame, entry, e, own, block, seed)
    pass_units(frame, entry, e, own, block, seed)


@helper
def pass_units(frame, entry, e, own, block, seed):
    """Pass the adjoint of a row to the inputs whose partial derivative is 1, for one block."""
    inside()
    units = load_i64(entry, UNITS) & load_i64(entry, MASK)
    for j in range(load_i64(entry, INPUTS)):
        route = load_i64(entry, ROUTE + j * 8)
        if units & (1 << j) and route == COPIED:
            target = adjoint_address(frame, entry, j, block.start, seed, block.width)
            memcpy(target, own, block.n * block.width)
        elif units & (1 << j) and route == ADDED:
            deliver(frame, entry, e, j, own, block, seed)


@helper
def place_adjoints(frame, n, width, next_inside):
    """Note the address of the adjoint of each row of the run; those of the next seed are
    `next_inside` farther if they live inside the run."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    for e in range(n):
        entry = scratch + AT_ENTRIES + e * ENTRY
        id, source = load_i64(entry, ID), load_i64(entry, FROM)
        state = load_i64(cell(frame, id), 0)
        own, step, next_seed = scratch + AT_INSIDE + e * BLOCK_BYTES, 0, next_inside
        if source >= 0:
            giver = scratch + AT_ENTRIES + source * ENTRY
            own, step = load_i64(giver, OWN), load_i64(giver, OWN_STEP)
            next_seed = load_i64(giver, SEED_STEP)
        elif state > 0:
            own, step = adjoint_place(state, load_i64(base_of(frame, id), ARRAY_DATA), 0), width
            next_seed = load_i64(state, 0)
        store_i64(entry, OWN, own)
        store_i64(entry, OWN_STEP, step)
        store_i64(entry, SEED_STEP, next_seed)


@helper
def sweep_run(frame, n, out):
    """Execute the collected run, last row first, block by block."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    width = item_bytes(frame, out)
    size, unit = count_of(out), load_i64(scratch, AT_UNIT)
    pieces = (unit + BLOCK - 1) // BLOCK  # of equal lengths, since blocks end where a unit does
    piece = (unit + pieces - 1) // pieces
    place_adjoints(frame, n, width, 0)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        start = 0
        while start < size:
            length = min(piece, unit - start % unit)
            for e in range(n):
                entry = scratch + AT_ENTRIES + e * ENTRY
                if load_i64(entry, CLEAR):
                    memset(load_i64(entry, OWN), 0, length * width)
            block = RunBlock(out, start, length, width)
            for e in range(n):
                row_block(frame, scratch + AT_ENTRIES + e * ENTRY, e, block, seed)
            start += length
    leave_run(frame, n)


@helper
def leave_run(frame, n):
    """Release the adjoint buffers of a run after its sweep; its rows are used up."""
    for e in range(n):
        entry = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES + e * ENTRY
        id = load_i64(entry, ID)
        if load_i64(cell(frame, id), 0) > 0:
            forget(frame, id)
        if not load_i64(frame, FRAME_RETAIN):
            store_i32(row_of(frame, id), 0, -(ARRAY + load_i64(entry, CODE)))


@helper
def run_below(frame, id, sweep):
    """Sweep the run that ends at row `id`; returns the next id, or `id` for a request (status)."""
    store_i64(frame, FRAME_STATUS, DONE)
    n, low = collect(frame, id)
    if load_i64(frame, FRAME_STATUS) != DONE:
        undo_inside(frame, n)
        return id
    out = base_of(frame, id)
    release_pending(frame, n)
    resolve(frame, n)
    sweep(frame, n, out)
    return low - 1


@helper
def pointwise_run(frame, id):
    """The same of adjoints."""
    return run_below(frame, id, sweep_run)

"""Runs of element-wise rows: which rows the sweep takes together, and where their adjoints go."""

from ..codegen.intrinsics import helper, load_i32, load_i64, store_i64
from ..codegen.layout import (
    ARRAY,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    DIMENSIONS,
    DONE,
    FEW_OPERANDS,
    FLAT_SHIFT,
    FRAME_BLOCK_OF,
    FRAME_KERNELS32,
    FRAME_KERNELS64,
    FRAME_SCRATCH,
    FRAME_STATUS,
    FRAME_STOP,
    FRAME_USED,
    FRAME_WANTED,
    FRAME_WANTED_DTYPE,
    FRAME_WANTED_MASK,
    MASKS,
    OPERANDS,
    POINTWISE_BIT,
    REFERENCE_BYTES,
    ROWS,
    RUN,
    TAG_ARRAY,
    TAG_SCALAR,
    UNIT_SHIFT,
    UNTOUCHED,
    WANT_KERNEL,
    WANT_STRIDED,
)
from ..codegen.shared_kernels import adjoint_buffer_memory, cell
from ..codegen.strided_memory import broadcast_strides, is_aligned, line_in, same_shape
from ..codegen.sweep_frame import (
    base_of,
    count_of,
    is_scalar,
    item_bytes,
    reference_of,
    row_of,
    touch_cell,
)
from .elementwise_run_layout import (
    ADDED,
    ALIGNED,
    AT_ENTRIES,
    AT_STRIDES,
    AT_UNIT,
    CLEAR,
    CODE,
    COPIED,
    ENTRY,
    FRESH,
    FROM,
    FULL_MASK,
    GIVEN,
    HOW,
    ID,
    INPUTS,
    INSIDE,
    KERNEL,
    LEAST_LINE,
    LINE,
    MASK,
    OUTER,
    PARTIALS,
    PENDING,
    REFS,
    ROUTE,
    SINGLE,
    STEP,
    STRIDED,
    TAKEN,
    UNIFORM,
    UNITS,
    WHERE,
)


@helper
def active_mask(refs, inputs):
    """Bits of the inputs that have an adjoint."""
    mask = 0
    for j in range(inputs):
        ref = refs + j * REFERENCE_BYTES
        tag = load_i32(ref, 12)
        if tag == TAG_SCALAR or (tag == TAG_ARRAY and load_i32(ref, 8) >= 0):
            mask |= 1 << j
    return mask


@helper
def kernel_of(frame, code, masks, width):
    table = load_i64(frame, FRAME_KERNELS64 if width == 8 else FRAME_KERNELS32)
    return load_i64(table, (code * MASKS + masks) * 8)


@helper
def is_pointwise(frame, op):
    return op > ARRAY and (load_i64(load_i64(frame, FRAME_USED), (op - ARRAY) * 8) & POINTWISE_BIT)


@helper
def wanted_kernel(frame, entry, code, width):
    """The kernel of a row of the run, 0 if all partials are 0 or 1; requests a missing one."""
    word = load_i64(load_i64(frame, FRAME_USED), code * 8)
    mask = load_i64(entry, MASK) & ~(word >> FLAT_SHIFT) & ~(word >> UNIT_SHIFT) & FULL_MASK
    store_i64(entry, PARTIALS, mask)
    if mask == 0:
        return 0
    masks = mask
    if load_i64(entry, INPUTS) <= FEW_OPERANDS:
        uniform = load_i64(entry, UNIFORM)
        fresh = mask & (uniform | first_readings(frame, entry, mask))
        store_i64(entry, FRESH, fresh)
        masks |= (uniform & (word | mask)) << FEW_OPERANDS | fresh << 2 * FEW_OPERANDS
    kernel = kernel_of(frame, code, masks, width)
    if kernel == 0:
        store_i64(frame, FRAME_WANTED, code)
        store_i64(frame, FRAME_WANTED_MASK, masks)
        store_i64(frame, FRAME_WANTED_DTYPE, width)
        store_i64(frame, FRAME_STATUS, WANT_KERNEL)
    return kernel


@helper
def is_read_once(entry, j):
    """Whether no other input of a row of the run is (part of) the same buffer."""
    refs = load_i64(entry, REFS)
    source = load_i32(refs + j * REFERENCE_BYTES, 8)
    for other in range(load_i64(entry, INPUTS)):
        if other != j and load_i64(entry, MASK) & (1 << other):
            if load_i32(refs + other * REFERENCE_BYTES, 8) == source:
                return False
    return True


@helper
def is_whole_result(frame, entry, j):
    """Whether an input of a row of the run is all that an element-wise row has made."""
    ref = load_i64(entry, REFS) + j * REFERENCE_BYTES
    source = load_i32(ref, 8)
    if not is_pointwise(frame, load_i32(row_of(frame, source), 0)):
        return False
    return base_of(frame, source) == load_i64(ref, 0) and is_read_once(entry, j)


@helper
def first_readings(frame, entry, mask):
    """The inputs whose adjoint begins with all that this row passes on."""
    found = 0
    for j in range(load_i64(entry, INPUTS)):
        if mask & (1 << j) and load_i64(entry, HOW + j * 8) == ALIGNED:
            source = load_i32(load_i64(entry, REFS) + j * REFERENCE_BYTES, 8)
            if load_i64(cell(frame, source), 0) == UNTOUCHED and is_whole_result(frame, entry, j):
                found |= 1 << j
    return found


@helper
def strides_of(frame, e, j):
    """The address of the strides of an input of a row of the run."""
    return load_i64(frame, FRAME_SCRATCH) + AT_STRIDES + (e * OPERANDS + j) * DIMENSIONS * 8


@helper
def is_one_value(frame, line, step, size):
    """Whether an input is one value per block; if so, blocks are made to end with its lines."""
    if step != 0 or (line < LEAST_LINE and line != size) or line == 0:
        return False
    at = load_i64(frame, FRAME_SCRATCH) + AT_UNIT
    unit = load_i64(at, 0)
    if line % unit == 0:
        return True
    if unit % line != 0:
        return False
    store_i64(at, 0, line)
    return True


@helper
def note_ways(frame, entry, e, first):
    """Note how the inputs of a row of the run are reached."""
    refs, inputs = load_i64(entry, REFS), load_i64(entry, INPUTS)
    ndim, shape, size = load_i32(first, ARRAY_NDIM), load_i64(first, ARRAY_SHAPE), count_of(first)
    uniform = 0
    for j in range(inputs):
        ref = refs + j * REFERENCE_BYTES
        how = SINGLE
        if is_scalar(ref):
            uniform |= 1 << j
        else:
            array = load_i64(ref, 0)
            how = ALIGNED if is_aligned(array, first) else STRIDED
            if how == STRIDED:
                if load_i64(frame, FRAME_BLOCK_OF) == 0:
                    store_i64(frame, FRAME_STATUS, WANT_STRIDED)
                strides = strides_of(frame, e, j)
                broadcast_strides(array, ndim, strides)
                outer, line, step = line_in(strides, shape, ndim)
                store_i64(entry, OUTER + j * 8, outer)
                store_i64(entry, LINE + j * 8, line)
                store_i64(entry, STEP + j * 8, step)
                if inputs <= FEW_OPERANDS and is_one_value(frame, line, step, size):
                    uniform |= 1 << j
        store_i64(entry, HOW + j * 8, how)
        store_i64(entry, ROUTE + j * 8, ADDED)
    store_i64(entry, UNIFORM, uniform if inputs <= FEW_OPERANDS else 0)


@helper
def enter_inputs(frame, e, at, barrier):
    """Mark the operands of a row of the run; returns the row that the run must not pass.

    Adjoints of operands that are read element by element may live inside the run. An adjoint of an
    operand that is read otherwise must be complete before its own row is swept.
    """
    entry = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES + e * ENTRY
    refs, mask = load_i64(entry, REFS), load_i64(entry, MASK)
    for j in range(load_i64(entry, INPUTS)):
        how = load_i64(entry, HOW + j * 8)
        if how != SINGLE and mask & (1 << j):
            source = load_i32(refs + j * REFERENCE_BYTES, 8)
            address = cell(frame, source)
            if load_i64(address, 0) == UNTOUCHED:
                store_i64(address, 0, PENDING + e * OPERANDS + j)
            if how == STRIDED and source > barrier and source < at:
                barrier = source
    return barrier


@helper
def is_pending(state):
    return UNTOUCHED < state < INSIDE


@helper
def begin_inside(frame, entry, first):
    """Set how the adjoint of a row inside the run begins, from input `first`, its first reader.

    The adjoint that a partial derivative of 1 passes on need not be added to zero: it is copied, or
    the reader's own adjoint is used where it has no further use. Where the reader's kernel sets it,
    nothing else is needed.
    """
    reader = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES + first // OPERANDS * ENTRY
    j = first % OPERANDS
    unit = load_i64(reader, UNITS) & (1 << j) and is_whole_result(frame, reader, j)
    store_i64(entry, CLEAR, not (unit or load_i64(reader, FRESH) & (1 << j)))
    if unit and load_i64(reader, GIVEN):
        store_i64(reader, ROUTE + j * 8, COPIED)
    elif unit:
        store_i64(reader, ROUTE + j * 8, TAKEN)
        store_i64(reader, GIVEN, 1)
        store_i64(entry, FROM, first // OPERANDS)


@helper
def enter(frame, e, at, code, first):
    """Note a row of the run. If something is not compiled yet the frame's status says what.

    The code is the row's code when it was read: another sweep may use up the row meanwhile.
    """
    entry = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES + e * ENTRY
    row = row_of(frame, at)
    inputs = load_i32(row, 8) - 1
    refs = reference_of(frame, at, load_i32(row, 4))
    mask = active_mask(refs, inputs)
    unit = load_i64(load_i64(frame, FRAME_USED), code * 8) >> UNIT_SHIFT & FULL_MASK
    store_i64(entry, ID, at)
    store_i64(entry, CODE, code)
    store_i64(entry, REFS, refs)
    store_i64(entry, INPUTS, inputs)
    store_i64(entry, MASK, mask)
    store_i64(entry, UNITS, mask & unit)
    store_i64(entry, FRESH, 0)
    store_i64(entry, FROM, -1)
    store_i64(entry, GIVEN, 0)
    store_i64(entry, CLEAR, 0)
    note_ways(frame, entry, e, first)
    store_i64(entry, KERNEL, wanted_kernel(frame, entry, code, item_bytes(frame, first)))
    own = cell(frame, at)
    if load_i64(frame, FRAME_STATUS) == DONE and is_pending(load_i64(own, 0)):
        begin_inside(frame, entry, load_i64(own, 0) - PENDING)
        store_i64(own, 0, INSIDE + e)


@helper
def barrier_of(frame, id):
    """The row that a run ending at row `id` must not reach: outside the chunk, or a stop."""
    start = id & ~(ROWS - 1)
    stop = load_i64(frame, FRAME_STOP)
    return stop if stop >= start and stop < id else start - 1


@helper
def collect(frame, id):
    """Collect the run that ends at row `id`; returns (entries, lowest id read)."""
    first = base_of(frame, id)
    barrier = barrier_of(frame, id)
    store_i64(load_i64(frame, FRAME_SCRATCH), AT_UNIT, max(count_of(first), 1))
    n = 0
    at = id
    while at > barrier and n < RUN:
        row = row_of(frame, at)
        op = load_i32(row, 0)
        if not is_pointwise(frame, op):
            break
        out = base_of(frame, at)
        if load_i64(out, ARRAY_DTYPE) != load_i64(first, ARRAY_DTYPE):
            break
        if not same_shape(out, first):
            break
        if load_i64(cell(frame, at), 0) != UNTOUCHED:
            enter(frame, n, at, op - ARRAY, first)
            if load_i64(frame, FRAME_STATUS) != DONE:
                return n, at
            barrier = enter_inputs(frame, n, at, barrier)
            n += 1
        at -= 1
    return n, at + 1


@helper
def release_pending(frame, n):
    """Replace the outer operands of the run by adjoint buffers, or by nothing."""
    entries = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES
    for e in range(n):
        entry = entries + e * ENTRY
        refs = load_i64(entry, REFS)
        for j in range(load_i64(entry, INPUTS)):
            ref = refs + j * REFERENCE_BYTES
            if load_i32(ref, 12) == TAG_ARRAY and load_i32(ref, 8) >= 0:
                address = cell(frame, load_i32(ref, 8))
                if is_pending(load_i64(address, 0)):
                    store_i64(address, 0, UNTOUCHED)


@helper
def resolve(frame, n):
    """Find the target of the adjoint of every input of the run."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    for e in range(n):
        entry = scratch + AT_ENTRIES + e * ENTRY
        refs = load_i64(entry, REFS)
        for j in range(load_i64(entry, INPUTS)):
            ref = refs + j * REFERENCE_BYTES
            where = 0
            if load_i64(entry, MASK) & (1 << j):
                source = load_i32(ref, 8)
                if load_i32(ref, 12) == TAG_SCALAR:
                    touch_cell(frame, source)
                else:
                    state = load_i64(cell(frame, source), 0)
                    inside = state < 0 and state != UNTOUCHED
                    where = state if inside else adjoint_buffer_memory(frame, source, 1)
                    if where == 0:
                        store_i64(entry, MASK, load_i64(entry, MASK) & ~(1 << j))
            store_i64(entry, WHERE + j * 8, where)


@helper
def undo_inside(frame, n):
    """Forget a collected run: its rows are as untouched as before."""
    entries = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES
    release_pending(frame, n)
    for e in range(n):
        address = cell(frame, load_i64(entries + e * ENTRY, ID))
        if load_i64(address, 0) < 0:
            store_i64(address, 0, UNTOUCHED)

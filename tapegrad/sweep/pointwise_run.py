"""The reverse sweep of element-wise array rows: a run of rows over one shape, block by block.

Going back from the last row, rows join the run while they are element-wise, of the same shape and
dtype, and are read by later rows of the run element by element. Then each block of the shape is
taken through all rows: adjoints of results that only live inside the run exist as one block only
and never travel to main memory. Operands that are broadcast, strided or scalars are copied to a
contiguous block first, so that one kernel per operation serves all of them.
"""

from numba import types

from tapegrad.codegen.frame import (
    add_block,
    add_to_cell,
    block_of,
    cell,
    count_of,
    forget,
    is_scalar,
    item_bytes,
    mirror,
    mirrored,
    reference_of,
    row_of,
    scalar_operand,
    touch_cell,
)
from tapegrad.codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    BLOCK,
    C_CONTIGUOUS,
    DIMENSIONS,
    FRAME_KERNELS32,
    FRAME_KERNELS64,
    FRAME_RETAIN,
    FRAME_SCRATCH,
    FRAME_SEEDS,
    FRAME_STOP,
    FRAME_USED,
    FRAME_WANTED,
    FRAME_WANTED_DTYPE,
    FRAME_WANTED_MASK,
    FREED_ARRAY,
    OPERANDS,
    REFERENCE_BYTES,
    ROWS,
    RUN,
    TAG_ARRAY,
    TAG_SCALAR,
    UNTOUCHED,
)
from tapegrad.codegen.memory import (
    call_address,
    f32s,
    f64s,
    helper,
    load_i32,
    load_i64,
    memset,
    store_i32,
    store_i64,
)

# A row of the run, as words: its id, references, number of inputs, mask of the inputs that want a
# derivative, kernel, and per input how its values and its adjoint are reached.
ID, REFS, INPUTS, MASK, KERNEL, HOW, WHERE, STRIDES = 0, 8, 16, 24, 32, 40, 72, 104
ENTRY = 104 + OPERANDS * 8
#: How an input is reached.
ALIGNED, STRIDED, SINGLE = 0, 1, 2
#: Cells of rows whose adjoint may live inside the run: wanted by it, then their place in it.
PENDING = UNTOUCHED + 1
INSIDE = UNTOUCHED + 2

# scratch memory: odometer, kernel arguments, entries, effective strides, blocks
AT_ARGUMENTS = DIMENSIONS * 8
AT_ENTRIES = AT_ARGUMENTS + 16 * 8
AT_STRIDES = AT_ENTRIES + RUN * ENTRY
AT_VALUES = AT_STRIDES + RUN * OPERANDS * DIMENSIONS * 8
AT_ADJOINTS = AT_VALUES + (OPERANDS + 1) * BLOCK * 8
AT_INSIDE = AT_ADJOINTS + OPERANDS * BLOCK * 8
SCRATCH_BYTES = AT_INSIDE + RUN * BLOCK * 8

POINTWISE_BIT, FLAT_SHIFT = 1 << 16, 8

kernel_call = call_address(types.none(types.int64, types.int64))


@helper
def same_shape(a, b):
    if load_i32(a, ARRAY_NDIM) != load_i32(b, ARRAY_NDIM):
        return False
    for axis in range(load_i32(a, ARRAY_NDIM)):
        at = axis * 8
        if load_i64(load_i64(a, ARRAY_SHAPE), at) != load_i64(load_i64(b, ARRAY_SHAPE), at):
            return False
    return True


@helper
def is_aligned(array, out):
    """Whether element i of `array` in memory is what meets element i of `out`."""
    return (load_i32(array, ARRAY_FLAGS) & C_CONTIGUOUS) != 0 and same_shape(array, out)


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
def kernel_of(frame, code, mask, width):
    table = load_i64(frame, FRAME_KERNELS64 if width == 8 else FRAME_KERNELS32)
    return load_i64(table, (code * 8 + mask) * 8)


@helper
def is_pointwise(frame, op):
    return op > ARRAY and (load_i64(load_i64(frame, FRAME_USED), (op - ARRAY) * 8) & POINTWISE_BIT)


@helper
def collect(frame, id):
    """Collect the run that ends at row `id`; returns (entries, lowest id looked at, status)."""
    entries = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES
    first_row = row_of(frame, id)
    first = load_i64(
        reference_of(frame, id, load_i32(first_row, 4) + load_i32(first_row, 8) - 1), 0
    )
    width = item_bytes(frame, first)
    chunk_start = id & ~(ROWS - 1)
    barrier = chunk_start - 1
    stop = load_i64(frame, FRAME_STOP)
    if stop >= chunk_start and stop < id:
        barrier = stop
    n = 0
    at = id
    while at > barrier and n < RUN:
        row = row_of(frame, at)
        op = load_i32(row, 0)
        if not is_pointwise(frame, op):
            break
        inputs = load_i32(row, 8) - 1
        refs = reference_of(frame, at, load_i32(row, 4))
        out = load_i64(refs, inputs * REFERENCE_BYTES)
        if at != id:
            if load_i64(out, ARRAY_DTYPE) != load_i64(first, ARRAY_DTYPE):
                break
            if not same_shape(out, first):
                break
        own = cell(frame, at)
        state = load_i64(own, 0)
        if state == UNTOUCHED:
            at -= 1
            continue
        code = op - ARRAY
        mask = active_mask(refs, inputs)
        flat = (load_i64(load_i64(frame, FRAME_USED), code * 8) >> FLAT_SHIFT) & 7
        kernel = 0
        if mask & ~flat:
            kernel = kernel_of(frame, code, mask & ~flat, width)
            if kernel == 0:
                store_i64(frame, FRAME_WANTED, code)
                store_i64(frame, FRAME_WANTED_MASK, mask & ~flat)
                store_i64(frame, FRAME_WANTED_DTYPE, width)
                return n, at, True
        if state == PENDING:
            store_i64(own, 0, INSIDE + n)
        entry = entries + n * ENTRY
        store_i64(entry, ID, at)
        store_i64(entry, REFS, refs)
        store_i64(entry, INPUTS, inputs)
        store_i64(entry, MASK, mask)
        store_i64(entry, KERNEL, kernel)
        n += 1
        for j in range(inputs):
            ref = refs + j * REFERENCE_BYTES
            how = SINGLE
            if not is_scalar(ref):
                array = load_i64(ref, 0)
                how = ALIGNED if is_aligned(array, first) else STRIDED
                if mask & (1 << j):
                    source = load_i32(ref, 8)
                    address = cell(frame, source)
                    if how == ALIGNED and load_i64(address, 0) == UNTOUCHED:
                        store_i64(address, 0, PENDING)
                    if how == STRIDED and source > barrier and source < at:
                        barrier = source
            store_i64(entry, HOW + j * 8, how)
        at -= 1
    return n, at + 1, False


@helper
def release_pending(frame, n):
    """Turn what the run wants from outside into mirrors (or, for the dead, into nothing)."""
    entries = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES
    for e in range(n):
        entry = entries + e * ENTRY
        refs = load_i64(entry, REFS)
        for j in range(load_i64(entry, INPUTS)):
            ref = refs + j * REFERENCE_BYTES
            if load_i32(ref, 12) == TAG_ARRAY and load_i32(ref, 8) >= 0:
                address = cell(frame, load_i32(ref, 8))
                if load_i64(address, 0) == PENDING:
                    store_i64(address, 0, UNTOUCHED)


@helper
def broadcast_strides(array, ndim, target):
    """Strides of `array` as seen from the full shape: 0 along axes that are broadcast."""
    own = load_i32(array, ARRAY_NDIM)
    for axis in range(ndim):
        back = own - ndim + axis
        stride = 0
        if back >= 0 and load_i64(load_i64(array, ARRAY_SHAPE), back * 8) != 1:
            stride = load_i64(load_i64(array, ARRAY_STRIDES), back * 8)
        store_i64(target, axis * 8, stride)


@helper
def resolve(frame, n, ndim):
    """Find for every input of the run where its adjoint goes."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    for e in range(n):
        entry = scratch + AT_ENTRIES + e * ENTRY
        refs = load_i64(entry, REFS)
        for j in range(load_i64(entry, INPUTS)):
            ref = refs + j * REFERENCE_BYTES
            where = 0
            if load_i64(entry, HOW + j * 8) == STRIDED:
                strides = scratch + AT_STRIDES + (e * OPERANDS + j) * DIMENSIONS * 8
                broadcast_strides(load_i64(ref, 0), ndim, strides)
            if load_i64(entry, MASK) & (1 << j):
                source = load_i32(ref, 8)
                if load_i32(ref, 12) == TAG_SCALAR:
                    touch_cell(frame, source)
                else:
                    state = load_i64(cell(frame, source), 0)
                    where = state if state < 0 and state != UNTOUCHED else mirror(frame, source)
                    if where == 0:
                        store_i64(entry, MASK, load_i64(entry, MASK) & ~(1 << j))
            store_i64(entry, WHERE + j * 8, where)


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
def total(address, n, width):
    result = 0.0
    if width == 8:
        b64 = f64s(address)
        for i in range(n):
            result += b64[i]
    else:
        b32 = f32s(address)
        for i in range(n):
            result += b32[i]
    return result


@helper
def value_address(frame, entry, e, j, used, out, start, n, width):
    """Where the kernel finds the values of input j for this block."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    ref = load_i64(entry, REFS) + j * REFERENCE_BYTES
    block = scratch + AT_VALUES + j * BLOCK * 8
    if not used & (1 << j):
        return block
    how = load_i64(entry, HOW + j * 8)
    if how == SINGLE:
        fill(block, scalar_operand(frame, ref), n, width)
        return block
    array = load_i64(ref, 0)
    if how == ALIGNED:
        return load_i64(array, ARRAY_DATA) + start * width
    strides = scratch + AT_STRIDES + (e * OPERANDS + j) * DIMENSIONS * 8
    shape = load_i64(out, ARRAY_SHAPE)
    ndim = load_i32(out, ARRAY_NDIM)
    block_of(frame, load_i64(array, ARRAY_DATA), strides, shape, ndim, start, n, block, width)
    return block


@helper
def adjoint_address(frame, entry, j, start, seed, width):
    """Where the kernel may add the adjoint of input j for this block; 0 if it needs a detour."""
    if load_i64(entry, HOW + j * 8) != ALIGNED:
        return 0
    where = load_i64(entry, WHERE + j * 8)
    if where < 0:
        place = where - INSIDE
        return load_i64(frame, FRAME_SCRATCH) + AT_INSIDE + place * BLOCK * 8
    array = load_i64(load_i64(entry, REFS), j * REFERENCE_BYTES)
    return mirrored(where, load_i64(array, ARRAY_DATA), seed) + start * width


@helper
def deliver(frame, entry, e, j, block, out, start, n, seed, width):
    """Add a block of adjoints that could not be added in place to where it belongs."""
    ref = load_i64(entry, REFS) + j * REFERENCE_BYTES
    how = load_i64(entry, HOW + j * 8)
    if how == SINGLE:
        add_to_cell(frame, load_i32(ref, 8), seed, total(block, n, width))
        return
    if how == ALIGNED:
        target = adjoint_address(frame, entry, j, start, seed, width)
        if width == 8:
            t64, b64 = f64s(target), f64s(block)
            for i in range(n):
                t64[i] += b64[i]
        else:
            t32, b32 = f32s(target), f32s(block)
            for i in range(n):
                t32[i] += b32[i]
        return
    scratch = load_i64(frame, FRAME_SCRATCH)
    strides = scratch + AT_STRIDES + (e * OPERANDS + j) * DIMENSIONS * 8
    data = mirrored(load_i64(entry, WHERE + j * 8), load_i64(load_i64(ref, 0), ARRAY_DATA), seed)
    shape = load_i64(out, ARRAY_SHAPE)
    add_block(frame, data, strides, shape, load_i32(out, ARRAY_NDIM), start, n, block, width)


@helper
def row_block(frame, entry, e, out, start, n, seed, width):
    """Take one row of the run through one block."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    arguments = scratch + AT_ARGUMENTS
    refs = load_i64(entry, REFS)
    inputs = load_i64(entry, INPUTS)
    id = load_i64(entry, ID)
    code = load_i32(row_of(frame, id), 0) - ARRAY
    used = load_i64(load_i64(frame, FRAME_USED), code * 8)
    mask = load_i64(entry, MASK)
    own = load_i64(refs, inputs * REFERENCE_BYTES)
    for j in range(inputs):
        address = value_address(frame, entry, e, j, used, out, start, n, width)
        store_i64(arguments, j * 8, address)
    store_i64(arguments, inputs * 8, load_i64(own, ARRAY_DATA) + start * width)
    state = load_i64(cell(frame, id), 0)
    if state < 0:
        seeds = scratch + AT_INSIDE + (state - INSIDE) * BLOCK * 8
    else:
        seeds = mirrored(state, load_i64(own, ARRAY_DATA), seed) + start * width
    store_i64(arguments, (inputs + 1) * 8, seeds)
    detours = 0
    for j in range(inputs):
        target = 0
        if mask & (1 << j):
            target = adjoint_address(frame, entry, j, start, seed, width)
            for other in range(j):
                if target == load_i64(arguments, (inputs + 2 + other) * 8):
                    target = 0
        if target == 0:
            target = scratch + AT_ADJOINTS + j * BLOCK * 8
            if mask & (1 << j):
                memset(target, 0, n * width)
                detours |= 1 << j
        store_i64(arguments, (inputs + 2 + j) * 8, target)
    kernel = load_i64(entry, KERNEL)
    if kernel != 0:
        kernel_call(kernel, n, arguments)
        for j in range(inputs):
            if detours & (1 << j):
                block = load_i64(arguments, (inputs + 2 + j) * 8)
                deliver(frame, entry, e, j, block, out, start, n, seed, width)


@helper
def sweep_run(frame, n, out):
    """Execute the collected run, last row first, block by block."""
    scratch = load_i64(frame, FRAME_SCRATCH)
    width = item_bytes(frame, out)
    size = count_of(out)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        start = 0
        while start < size:
            length = min(BLOCK, size - start)
            for e in range(n):
                if load_i64(cell(frame, load_i64(scratch + AT_ENTRIES + e * ENTRY, ID)), 0) < 0:
                    memset(scratch + AT_INSIDE + e * BLOCK * 8, 0, length * width)
            for e in range(n):
                entry = scratch + AT_ENTRIES + e * ENTRY
                row_block(frame, entry, e, out, start, length, seed, width)
            start += length
    retain = load_i64(frame, FRAME_RETAIN)
    for e in range(n):
        entry = scratch + AT_ENTRIES + e * ENTRY
        id = load_i64(entry, ID)
        if load_i64(cell(frame, id), 0) > 0:
            forget(frame, id)
        if not retain:
            store_i32(row_of(frame, id), 0, FREED_ARRAY)


@helper
def undo_inside(frame, n):
    """Forget a collected run: its rows are as untouched as before."""
    entries = load_i64(frame, FRAME_SCRATCH) + AT_ENTRIES
    release_pending(frame, n)
    for e in range(n):
        address = cell(frame, load_i64(entries + e * ENTRY, ID))
        if load_i64(address, 0) < 0:
            store_i64(address, 0, UNTOUCHED)


@helper
def pointwise_run(frame, id):
    """Sweep the run that ends at row `id`; returns the next id, or `id` to ask for a kernel."""
    n, low, wanting = collect(frame, id)
    if wanting:
        undo_inside(frame, n)
        return id
    row = row_of(frame, id)
    out = load_i64(reference_of(frame, id, load_i32(row, 4) + load_i32(row, 8) - 1), 0)
    release_pending(frame, n)
    resolve(frame, n, load_i32(out, ARRAY_NDIM))
    sweep_run(frame, n, out)
    return low - 1

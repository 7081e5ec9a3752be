"""Memory that a sweep allocates on demand: tables of cells, adjoint buffers (see `sweep_frame`)."""

from .intrinsics import (
    apart,
    calloc,
    free,
    helper,
    i64s,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_i64,
)
from .layout import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    CACHE_LINE,
    CHANGED,
    DEAD,
    FRAME_ADJOINTS,
    FRAME_CELLS,
    FRAME_FIRST,
    FRAME_INPUTS,
    FRAME_LOWEST,
    FRAME_MET_FREED,
    FRAME_ORDER,
    FRAME_POOL,
    FRAME_SEEDS,
    MET_CHANGED,
    MET_FREED,
    POOL,
    POOL_LEAST,
    POOL_MOST,
    POOL_TOTAL,
    ROWS,
    ROWS_BITS,
    UNTOUCHED,
)
from .sweep_frame import ADJOINT_HEADER, base_of, item_bytes, row_of

#: The size of one seed's part of an adjoint buffer is a multiple of this number of bytes.
SEED_STEP = 16


@helper
def new_cells(frame, slot):
    """A table of untouched cells for a chunk that the sweep reaches for the first time."""
    apart()
    seeds = load_i64(frame, FRAME_SEEDS)
    address = load_i64(frame, FRAME_CELLS)
    if seeds == 1 and address != 0:
        store_i64(frame, FRAME_CELLS, load_i64(address, 0))
    else:
        address = malloc(ROWS * seeds * 8)
    cells = i64s(address)
    for k in range(ROWS * seeds):
        cells[k] = UNTOUCHED
    store_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8, address)
    store_i64(load_i64(frame, FRAME_LOWEST), slot * 8, ROWS)
    order = load_i64(load_i64(frame, FRAME_ORDER), slot * 8)
    inputs = load_i64(frame, FRAME_INPUTS)  # their chunks come first and hold no rows to sweep
    if inputs <= order < load_i64(frame, FRAME_FIRST):
        store_i64(frame, FRAME_FIRST, order)
    return address


@helper
def cell(frame, id):
    """Address of the cell of row `id`; the row is from now on among those to sweep."""
    slot = id >> ROWS_BITS
    position = id & (ROWS - 1)
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells == 0:
        cells = new_cells(frame, slot)
    lowest = load_i64(frame, FRAME_LOWEST)
    if position < load_i64(lowest, slot * 8):
        store_i64(lowest, slot * 8, position)
    return cells + position * 8 * load_i64(frame, FRAME_SEEDS)


@helper
def memory_for(frame, size, clear):
    """Memory for an adjoint buffer, its parts aligned to cache lines. Large blocks come from the
    pool, which keeps their pages. The memory is zeroed where needed. The fourth word of the header
    is the address of the memory itself.
    """
    pool = load_i64(frame, FRAME_POOL)
    if size >= POOL_LEAST:
        for k in range(POOL):
            if load_i64(pool, k * 16 + 8) == size:
                found = load_i64(pool, k * 16)
                store_i64(pool, k * 16 + 8, 0)
                store_i64(pool, POOL * 16, load_i64(pool, POOL * 16) - size)
                if clear:
                    memset(found + ADJOINT_HEADER, 0, size - ADJOINT_HEADER)
                return found
    given = calloc(size + CACHE_LINE, 1)
    found = ((given + ADJOINT_HEADER + CACHE_LINE - 1) & -CACHE_LINE) - ADJOINT_HEADER
    store_i64(found, 24, given)
    return found


@helper
def give_back(frame, found):
    """Put an adjoint buffer into the pool if there is room, else free it."""
    size = ADJOINT_HEADER + load_i64(found, 0) * load_i64(frame, FRAME_SEEDS)
    pool = load_i64(frame, FRAME_POOL)
    total = load_i64(pool, POOL * 16) + size
    if size >= POOL_LEAST and size <= POOL_MOST and total <= POOL_TOTAL:
        for k in range(POOL):
            if load_i64(pool, k * 16 + 8) == 0:
                store_i64(pool, k * 16, found)
                store_i64(pool, k * 16 + 8, size)
                store_i64(pool, POOL * 16, total)
                return
    free(load_i64(found, 24))


@helper
def adjoint_buffer_memory(frame, id, clear):
    """The address of the adjoint buffer of row `id`, allocated on first use; 0 if it has none.

    Unless it is to be clear, the caller then sets all elements.

    An adjoint buffer is a header (bytes of one seed's part, lowest address of the buffer, whether
    Python owns the memory, the address of the memory itself) and the parts.
    """
    address = cell(frame, id)
    found = load_i64(address, 0)
    if found != UNTOUCHED:
        return found
    op = load_i32(row_of(frame, id), 0)
    if op == DEAD:
        return 0
    if op < 0:
        store_i64(frame, FRAME_MET_FREED, MET_FREED)
        return 0
    if op == CHANGED:
        store_i64(frame, FRAME_MET_FREED, MET_CHANGED)
        return 0
    array = base_of(frame, id)
    low = load_i64(array, ARRAY_DATA)
    high = low + item_bytes(frame, array)
    for axis in range(load_i32(array, ARRAY_NDIM)):
        n = load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
        stride = load_i64(load_i64(array, ARRAY_STRIDES), axis * 8)
        if stride < 0:
            low += (n - 1) * stride
        elif n > 0:
            high += (n - 1) * stride
    span = ((high - low) + SEED_STEP - 1) & -SEED_STEP
    made = memory_for(frame, ADJOINT_HEADER + span * load_i64(frame, FRAME_SEEDS), clear)
    store_i64(made, 0, span)
    store_i64(made, 8, low)
    store_i64(address, 0, made)
    return made


@helper
def forget(frame, id):
    """Release the adjoint buffer of a row after its sweep."""
    address = cell(frame, id)
    give_back(frame, load_i64(address, 0))
    store_i64(address, 0, UNTOUCHED)

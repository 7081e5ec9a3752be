"""Adjoint memory during a sweep: cells of scalar rows, mirrors of buffers, strided accumulation.

Each chunk that a sweep reaches gets a table of 8-byte cells, one per row and seed. For a scalar
row the cell is its adjoint; for an array row it is the address of the buffer's mirror. A cell that
nothing has touched holds −0.0, and since every contribution is added as `c + 0.0` a touched
adjoint never does: what is reachable with derivative zero is told from what is not reachable.
"""

from .layout import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    CACHE_LINE,
    CHANGED,
    DEAD,
    FRAME_ADJOINTS,
    FRAME_CELLS,
    FRAME_CHUNKS,
    FRAME_FIRST,
    FRAME_FLOAT32,
    FRAME_INPUTS,
    FRAME_LOWEST,
    FRAME_MET_FREED,
    FRAME_ORDER,
    FRAME_POOL,
    FRAME_SEEDS,
    HEADER_BYTES,
    KEPT_CELLS,
    MET_CHANGED,
    MET_FREED,
    POOL,
    POOL_LEAST,
    POOL_MOST,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROWS,
    ROWS_BITS,
    TAG_CONSTANT,
    TAG_SCALAR,
    UNTOUCHED,
)
from .memory import (
    apart,
    calloc,
    free,
    helper,
    i64s,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    memset,
    store_f64,
    store_i64,
)

REFERENCES_AT = HEADER_BYTES + ROWS * ROW_BYTES


@helper
def row_of(frame, id):
    """Address of the row with this id."""
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), (id >> ROWS_BITS) * 8)
    return chunk + HEADER_BYTES + (id & (ROWS - 1)) * ROW_BYTES


@helper
def reference_of(frame, id, number):
    """Address of a reference, by its number in the chunk of row `id`."""
    chunk = load_i64(load_i64(frame, FRAME_CHUNKS), (id >> ROWS_BITS) * 8)
    return chunk + REFERENCES_AT + number * REFERENCE_BYTES


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
    inputs = load_i64(frame, FRAME_INPUTS)  # their chunks come first and hold nothing to sweep
    if inputs <= order < load_i64(frame, FRAME_FIRST):
        store_i64(frame, FRAME_FIRST, order)
    return address


@helper
def free_cells(frame, slot):
    """Put a chunk's table of cells where the next one is taken from, if it is of one seed."""
    address = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    store_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8, 0)
    if load_i64(frame, FRAME_SEEDS) == 1:
        store_i64(address, 0, load_i64(frame, FRAME_CELLS))
        store_i64(frame, FRAME_CELLS, address)
    else:
        free(address)


@helper
def trim_cells(frame):
    """Keep some free tables of cells for the next sweep, and no more."""
    address = load_i64(frame, FRAME_CELLS)
    kept = 0
    while address != 0:
        kept += 1
        following = load_i64(address, 0)
        if kept == KEPT_CELLS:
            store_i64(address, 0, 0)
        elif kept > KEPT_CELLS:
            free(address)
        address = following


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
def add_to_cell(frame, id, seed, value):
    """Accumulate into the adjoint of a scalar row."""
    address = cell(frame, id)
    store_f64(address, seed * 8, load_f64(address, seed * 8) + (value + 0.0))


@helper
def touch_cell(frame, id):
    """Make a scalar row reachable without changing its adjoint."""
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        add_to_cell(frame, id, seed, 0.0)


@helper
def item_bytes(frame, array):
    """Bytes per element of a float32 or float64 array."""
    return 4 if load_i64(array, ARRAY_DTYPE) == load_i64(frame, FRAME_FLOAT32) else 8


@helper
def count_of(array):
    """Number of elements of an array."""
    total = 1
    for axis in range(load_i32(array, ARRAY_NDIM)):
        total *= load_i64(load_i64(array, ARRAY_SHAPE), axis * 8)
    return total


@helper
def base_of(frame, id):
    """The array that owns the buffer of row `id`: its last reference."""
    row = row_of(frame, id)
    return load_i64(reference_of(frame, id, load_i32(row, 4) + load_i32(row, 8) - 1), 0)


MIRROR_HEADER = 32


@helper
def memory_for(frame, size, clear):
    """Memory for a mirror, its parts on a cache line: large ones from the pool, so that their pages
    stay ours. It is zeroed where it must be. The header's fourth word is the memory's own address.
    """
    pool = load_i64(frame, FRAME_POOL)
    if size >= POOL_LEAST:
        for k in range(POOL):
            if load_i64(pool, k * 16 + 8) == size:
                found = load_i64(pool, k * 16)
                store_i64(pool, k * 16 + 8, 0)
                if clear:
                    memset(found + MIRROR_HEADER, 0, size - MIRROR_HEADER)
                return found
    given = calloc(size + CACHE_LINE, 1)
    found = ((given + MIRROR_HEADER + CACHE_LINE - 1) & -CACHE_LINE) - MIRROR_HEADER
    store_i64(found, 24, given)
    return found


@helper
def found_mirror(frame, buffer):
    """Mirror of a buffer if the sweep has one, else 0."""
    adjoints = load_i64(load_i64(frame, FRAME_ADJOINTS), (buffer >> ROWS_BITS) * 8)
    if adjoints == 0:
        return 0
    found = load_i64(adjoints, (buffer & (ROWS - 1)) * 8 * load_i64(frame, FRAME_SEEDS))
    return 0 if found == UNTOUCHED else found


@helper
def give_back(frame, found):
    """Put a mirror in the pool if there is room, else free it."""
    size = MIRROR_HEADER + load_i64(found, 0) * load_i64(frame, FRAME_SEEDS)
    pool = load_i64(frame, FRAME_POOL)
    if size >= POOL_LEAST and size <= POOL_MOST:
        for k in range(POOL):
            if load_i64(pool, k * 16 + 8) == 0:
                store_i64(pool, k * 16, found)
                store_i64(pool, k * 16 + 8, size)
                return
    free(load_i64(found, 24))


@helper
def mirror(frame, id):
    """Address of the mirror of the buffer of row `id`, zeros on first touch; 0 if it has none."""
    return mirror_memory(frame, id, True)


@helper
def mirror_memory(frame, id, clear):
    """As `mirror`; with `clear` false the caller sets all elements on first touch.

    A mirror is a header (bytes of one seed's part, lowest address of the buffer, whether Python
    owns the memory, the memory's own address) and the parts.
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
    span = ((high - low) + 15) & -16
    made = memory_for(frame, MIRROR_HEADER + span * load_i64(frame, FRAME_SEEDS), clear)
    store_i64(made, 0, span)
    store_i64(made, 8, low)
    store_i64(address, 0, made)
    return made


@helper
def mirrored(found, data, seed):
    """Where the mirror `found` holds the adjoint of the element at address `data`."""
    return found + MIRROR_HEADER + seed * load_i64(found, 0) + data - load_i64(found, 8)


@helper
def forget(frame, id):
    """Give back the mirror of a row that has been swept."""
    address = cell(frame, id)
    give_back(frame, load_i64(address, 0))
    store_i64(address, 0, UNTOUCHED)


@helper
def scalar_operand(frame, reference):
    """Value of a reference that is a scalar row or a constant."""
    if load_i32(reference, 12) == TAG_SCALAR:
        return load_f64(row_of(frame, load_i32(reference, 8)), 16)
    return load_f64(reference, 0)


@helper
def is_scalar(reference):
    tag = load_i32(reference, 12)
    return (tag == TAG_SCALAR) | (tag == TAG_CONSTANT)

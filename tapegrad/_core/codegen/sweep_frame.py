"""Adjoint memory during a sweep: cells of scalar rows, adjoint buffers, strided accumulation.

Each chunk that a sweep reaches gets a table of 8-byte cells, one per row and seed. For a scalar row
the cell is its adjoint; for an array row it is the address of the adjoint buffer. A cell that no
row has touched holds −0.0. Every contribution is added as `c + 0.0`, so that a touched adjoint is
never −0.0: rows with derivative zero are distinguished from rows that are not reached.
"""

from .intrinsics import free, helper, load_f64, load_i32, load_i64, store_f64, store_i64
from .layout import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    FRAME_ADJOINTS,
    FRAME_CELLS,
    FRAME_CHUNKS,
    FRAME_FLOAT32,
    FRAME_SEEDS,
    HEADER_BYTES,
    KEPT_CELLS,
    REFERENCE_BYTES,
    ROW_BYTES,
    ROWS,
    ROWS_BITS,
    TAG_ARRAY,
    TAG_CONSTANT,
    TAG_SCALAR,
    UNTOUCHED,
)
from .shared_kernels import adjoint_buffer_memory, cell

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
    """Keep some free tables of cells for the next sweep, up to a limit."""
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


ADJOINT_HEADER = 32


@helper
def found_adjoint_buffer(frame, buffer):
    """The adjoint buffer of a buffer if the sweep has one, else 0."""
    adjoints = load_i64(load_i64(frame, FRAME_ADJOINTS), (buffer >> ROWS_BITS) * 8)
    if adjoints == 0:
        return 0
    found = load_i64(adjoints, (buffer & (ROWS - 1)) * 8 * load_i64(frame, FRAME_SEEDS))
    return 0 if found == UNTOUCHED else found


@helper
def adjoint_buffer(frame, id):
    """The address of the adjoint buffer of row `id`, zeros on first use; 0 if it has none."""
    found = found_adjoint_buffer(frame, id)
    return found if found != 0 else adjoint_buffer_memory(frame, id, 1)


@helper
def adjoint_place(found, data, seed):
    """The address in the adjoint buffer `found` of the adjoint of the element at `data`."""
    return found + ADJOINT_HEADER + seed * load_i64(found, 0) + data - load_i64(found, 8)


@helper
def tangent_of(frame, id):
    """The address of a row's tangents, or its buffer's cell, in forward mode; 0 if it has none."""
    if id < 0:
        return 0
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), (id >> ROWS_BITS) * 8)
    if cells == 0:
        return 0
    at = cells + (id & (ROWS - 1)) * 8 * load_i64(frame, FRAME_SEEDS)
    return 0 if load_i64(at, 0) == UNTOUCHED else at


@helper
def tangent_data(frame, reference, seed):
    """Address of the tangent of an operand in one direction, laid out as its array; 0 for none."""
    if load_i32(reference, 12) != TAG_ARRAY:
        return 0
    at = tangent_of(frame, load_i32(reference, 8))
    if at == 0:
        return 0
    return adjoint_place(load_i64(at, 0), load_i64(load_i64(reference, 0), ARRAY_DATA), seed)


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

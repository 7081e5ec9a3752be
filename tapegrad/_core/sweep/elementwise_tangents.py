"""Tangents of element-wise array rows, carried forwards one row at a time, block by block.

Operands that are broadcast, strided or scalars are copied to a contiguous block first, values and
tangents, as in `elementwise_run`.
"""

from ..codegen.intrinsics import helper, load_f64, load_i32, load_i64, store_i64
from ..codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    BLOCK,
    DONE,
    FEW_OPERANDS,
    FLAT_SHIFT,
    FRAME_SCRATCH,
    FRAME_SEEDS,
    FRAME_STATUS,
    FRAME_TANGENT_KERNELS32,
    FRAME_TANGENT_KERNELS64,
    FRAME_USED,
    FRAME_WANTED,
    FRAME_WANTED_DTYPE,
    FRAME_WANTED_MASK,
    MASKS,
    REFERENCE_BYTES,
    TAG_ARRAY,
    TAG_SCALAR,
    WANT_KERNEL,
)
from ..codegen.shared_kernels import adjoint_buffer_memory
from ..codegen.sweep_frame import (
    adjoint_place,
    base_of,
    count_of,
    item_bytes,
    reference_of,
    row_of,
    tangent_of,
)
from .elementwise_run import RunBlock, copied, fill, find_place, kernel_call, value_address
from .elementwise_run_layout import (
    ALIGNED,
    AT_ARGUMENTS,
    AT_ENTRIES,
    AT_TANGENTS,
    AT_UNIT,
    BLOCK_BYTES,
    HOW,
    INPUTS,
    MASK,
    PLACE,
    REFS,
    SINGLE,
    STRIDED,
    UNIFORM,
)
from .elementwise_run_planning import note_ways


@helper
def tangent_address(frame, tangents, entry, e, j, block, seed):
    """The address of the tangents of input j of a row for this block, from the frame `tangents`."""
    room = load_i64(frame, FRAME_SCRATCH) + AT_TANGENTS + j * BLOCK_BYTES
    ref = load_i64(entry, REFS) + j * REFERENCE_BYTES
    count = 1 if load_i64(entry, UNIFORM) & (1 << j) else block.n
    at, how = tangent_of(tangents, load_i32(ref, 8)), load_i64(entry, HOW + j * 8)
    if at == 0 or how == SINGLE:
        fill(room, load_f64(at, seed * 8) if at != 0 else 0.0, count, block.width)
        return room
    data = adjoint_place(load_i64(at, 0), load_i64(load_i64(ref, 0), ARRAY_DATA), seed)
    if how == ALIGNED:
        return data + block.start * block.width
    if load_i64(entry, PLACE + j * 8) >= 0:
        return data + load_i64(entry, PLACE + j * 8)
    return copied(frame, e, j, block, data, room)


@helper
def tangent_mask(frame, refs, inputs):
    """Bits of the inputs that have a tangent."""
    mask = 0
    for j in range(inputs):
        ref = refs + j * REFERENCE_BYTES
        tag = load_i32(ref, 12)
        if (tag == TAG_SCALAR or tag == TAG_ARRAY) and tangent_of(frame, load_i32(ref, 8)) != 0:
            mask |= 1 << j
    return mask


@helper
def tangent_kernel(frame, entry, code, width):
    """The kernel of a row; asks for one that is missing."""
    masks, word = load_i64(entry, MASK), load_i64(load_i64(frame, FRAME_USED), code * 8)
    if load_i64(entry, INPUTS) <= FEW_OPERANDS:
        masks |= (load_i64(entry, UNIFORM) & (word | masks)) << FEW_OPERANDS
    wide = width == 8
    table = load_i64(frame, FRAME_TANGENT_KERNELS64 if wide else FRAME_TANGENT_KERNELS32)
    kernel = load_i64(table, (code * MASKS + masks) * 8)
    if kernel == 0:
        store_i64(frame, FRAME_WANTED, code)
        store_i64(frame, FRAME_WANTED_MASK, masks)
        store_i64(frame, FRAME_WANTED_DTYPE, width)
        store_i64(frame, FRAME_STATUS, WANT_KERNEL)
    return kernel


@helper
def carry_block(frame, entry, kernel, used, target, block, seed):
    """Compute the tangents of one block of a row, those of the whole row at `target`."""
    arguments, offset = load_i64(frame, FRAME_SCRATCH) + AT_ARGUMENTS, block.start * block.width
    inputs, mask = load_i64(entry, INPUTS), load_i64(entry, MASK)
    store_i64(arguments, inputs * 8, load_i64(block.out, ARRAY_DATA) + offset)
    store_i64(arguments, (inputs + 1) * 8, target + offset)
    for j in range(inputs):
        if load_i64(entry, HOW + j * 8) == STRIDED:
            find_place(frame, entry, 0, j, block)
        store_i64(arguments, j * 8, value_address(frame, entry, 0, j, used, block))
        if mask & (1 << j):
            at = tangent_address(frame, frame, entry, 0, j, block, seed)
            store_i64(arguments, (inputs + 2 + j) * 8, at)
    kernel_call(kernel, block.n, arguments)


@helper
def carry_elementwise(frame, id):
    """Compute the tangent of row `id` in all directions; returns a status."""
    scratch, row = load_i64(frame, FRAME_SCRATCH), row_of(frame, id)
    entry, out, code = scratch + AT_ENTRIES, base_of(frame, id), abs(load_i32(row, 0)) - ARRAY
    refs, inputs = reference_of(frame, id, load_i32(row, 4)), load_i32(row, 8) - 1
    used = load_i64(load_i64(frame, FRAME_USED), code * 8)
    mask = tangent_mask(frame, refs, inputs) & ~(used >> FLAT_SHIFT)
    if mask == 0:
        return DONE
    size, width = count_of(out), item_bytes(frame, out)
    store_i64(entry, REFS, refs)
    store_i64(entry, INPUTS, inputs)
    store_i64(entry, MASK, mask)
    store_i64(scratch, AT_UNIT, max(size, 1))
    store_i64(frame, FRAME_STATUS, DONE)
    note_ways(frame, entry, 0, out)
    kernel = tangent_kernel(frame, entry, code, width)
    if load_i64(frame, FRAME_STATUS) != DONE:
        return load_i64(frame, FRAME_STATUS)
    value, found = load_i64(out, ARRAY_DATA), adjoint_buffer_memory(frame, id, 0)
    unit = load_i64(scratch, AT_UNIT)
    pieces = (unit + BLOCK - 1) // BLOCK
    piece = (unit + pieces - 1) // pieces
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        target, start = adjoint_place(found, value, seed), 0
        while start < size:
            n = min(piece, unit - start % unit)
            carry_block(frame, entry, kernel, used, target, RunBlock(out, start, n, width), seed)
            start += n
    return DONE

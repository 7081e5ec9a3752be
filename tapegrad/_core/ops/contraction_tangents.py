"""Tangents of contractions, and their adjoints of second order. References as in `contraction`."""

from tapegrad._core.codegen.blas import LEFT, MATRIX_BYTES, OUT, RIGHT, WORK_BYTES
from tapegrad._core.codegen.intrinsics import free, helper, load_i32, load_i64, malloc
from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    FRAME_SEEDS,
    FRAME_TANGENTS,
    REFERENCE_BYTES,
    TAG_SCALAR,
)
from tapegrad._core.codegen.sweep_frame import (
    count_of,
    item_bytes,
    mirror,
    mirrored,
    tangent_data,
    touch_cell,
)

from .contraction import (
    CONTRACT_HELPERS,
    add_products,
    begin_sums,
    drop_matrix,
    end_sums,
    load_matrix,
    memory_of_output,
    pass_one,
    product_of,
    roles,
    see_matrices,
    sweep_product,
)


@helper
def pass_curved(frame, work, side, found, own, tangent, arrays, batch, width):
    """Add to the tangents in the adjoint buffer `found` of one operand the product of the output's
    adjoint, at `own`, with the tangent of the other operand."""
    target, _, factor, other = roles(work, side, arrays)
    if found != 0 and tangent != 0:
        load_matrix(frame, other, factor, tangent, width)
        data = mirrored(found, load_i64(target, ARRAY_DATA), 1)
        pass_one(frame, work, side, data, own, arrays, batch, width)
        drop_matrix(other)


def contract_second_order(frame, id, refs, task):
    """Both seeds: the part that is linear in them, and that of the tangents of the operands."""
    sweep_product(frame, id, refs)
    arrays, batch = product_of(refs)
    left, right, whole = arrays
    to_left, to_right = load_i32(refs, 8), load_i32(refs, REFERENCE_BYTES + 8)
    if count_of(left) == 0 or count_of(right) == 0 or to_left < 0 or to_right < 0:
        return
    width, tangents = item_bytes(frame, whole), load_i64(frame, FRAME_TANGENTS)
    own, _ = memory_of_output(frame, id, refs, whole)
    along_left = tangent_data(tangents, refs, 0)
    along_right = tangent_data(tangents, refs + REFERENCE_BYTES, 0)
    work = malloc(WORK_BYTES)
    see_matrices(work, arrays, batch, load_i64(refs, 4 * REFERENCE_BYTES), width)
    found = mirror(frame, to_left)
    pass_curved(frame, work, LEFT, found, own, along_right, arrays, batch, width)
    found = mirror(frame, to_right)
    pass_curved(frame, work, RIGHT, found, own, along_left, arrays, batch, width)
    free(work)


@helper
def carry_product(frame, work, side, tangent, data, arrays, batch, width):
    """Add to the output's tangents at `data` the product with one operand's in its place."""
    target, matrix, factor, other = roles(work, side, arrays)
    out, whole = work + 2 * MATRIX_BYTES, arrays[2]
    load_matrix(frame, matrix, target, tangent, width)
    load_matrix(frame, other, factor, load_i64(factor, ARRAY_DATA), width)
    begin_sums(out, whole, data, width)
    add_products(work, OUT, arrays, batch, False, width)
    end_sums(frame, out, whole, data, width)
    drop_matrix(other)
    drop_matrix(matrix)


def contract_tangent(frame, id, refs, task):
    """The same references; the sum of the products with the tangent of one operand each."""
    arrays, batch = product_of(refs)
    width, seeds = item_bytes(frame, arrays[2]), load_i64(frame, FRAME_SEEDS)
    if load_i32(refs, 5 * REFERENCE_BYTES + 12) == TAG_SCALAR:
        touch_cell(frame, id)
    elif mirror(frame, id) == 0:
        return
    own, step = memory_of_output(frame, id, refs, arrays[2])
    if count_of(arrays[0]) == 0 or count_of(arrays[1]) == 0:
        return
    work = malloc(WORK_BYTES)
    see_matrices(work, arrays, batch, load_i64(refs, 4 * REFERENCE_BYTES), width)
    for seed in range(seeds):
        along_left = tangent_data(frame, refs, seed)
        along_right = tangent_data(frame, refs + REFERENCE_BYTES, seed)
        data = own + seed * step
        if along_left != 0:
            carry_product(frame, work, LEFT, along_left, data, arrays, batch, width)
        if along_right != 0:
            carry_product(frame, work, RIGHT, along_right, data, arrays, batch, width)
    free(work)


#: The functions that the kernels call.
HELPERS = (*CONTRACT_HELPERS, pass_curved, carry_product)

"""Tangents of contractions, and their adjoints of second order. References as in `contraction`."""

from tapegrad._core.codegen.blas import LEFT, MATRIX_BYTES, OUT, RIGHT
from tapegrad._core.codegen.intrinsics import free, helper, load_i32, load_i64
from tapegrad._core.codegen.layout import (
    ARRAY_DATA,
    FRAME_SEEDS,
    FRAME_TANGENTS,
    REFERENCE_BYTES,
    TAG_SCALAR,
)
from tapegrad._core.codegen.sweep_frame import (
    adjoint_buffer,
    adjoint_place,
    count_of,
    item_bytes,
    tangent_data,
    touch_cell,
)

from .contraction import (
    CONTRACT_HELPERS,
    add_products,
    begin_sums,
    contraction_of,
    drop_matrix,
    end_sums,
    load_matrix,
    memory_of_output,
    operands_of,
    pass_one,
    roles,
    sweep_product,
)


@helper
def pass_curved(frame, contraction, side, found, own, tangent):
    """Add to the tangents in the adjoint buffer `found` of one operand the product of the output's
    adjoint, at `own`, with the tangent of the other operand."""
    target, _, factor, other = roles(contraction, side)
    if found != 0 and tangent != 0:
        load_matrix(frame, other, factor, tangent, contraction.width)
        data = adjoint_place(found, load_i64(target, ARRAY_DATA), 1)
        pass_one(frame, contraction, side, data, own)
        drop_matrix(other)


def contract_second_order(frame, id, refs, task):
    """Both seeds: the part that is linear in them, and that of the tangents of the operands."""
    sweep_product(frame, id, refs)
    left, right, whole = operands_of(refs)
    to_left, to_right = load_i32(refs, 8), load_i32(refs, REFERENCE_BYTES + 8)
    if count_of(left) == 0 or count_of(right) == 0 or to_left < 0 or to_right < 0:
        return
    tangents = load_i64(frame, FRAME_TANGENTS)
    own, _ = memory_of_output(frame, id, refs, whole)
    along_left = tangent_data(tangents, refs, 0)
    along_right = tangent_data(tangents, refs + REFERENCE_BYTES, 0)
    contraction = contraction_of(refs, item_bytes(frame, whole))
    pass_curved(frame, contraction, LEFT, adjoint_buffer(frame, to_left), own, along_right)
    pass_curved(frame, contraction, RIGHT, adjoint_buffer(frame, to_right), own, along_left)
    free(contraction.work)


@helper
def carry_product(frame, contraction, side, tangent, data):
    """Add to the output's tangents at `data` the product with one operand's in its place."""
    target, matrix, factor, other = roles(contraction, side)
    out, width = contraction.work + 2 * MATRIX_BYTES, contraction.width
    load_matrix(frame, matrix, target, tangent, width)
    load_matrix(frame, other, factor, load_i64(factor, ARRAY_DATA), width)
    begin_sums(out, contraction.whole, data, width)
    add_products(contraction, OUT, False)
    end_sums(frame, out, contraction.whole, data, width)
    drop_matrix(other)
    drop_matrix(matrix)


def contract_tangent(frame, id, refs, task):
    """The same references; the sum of the products with the tangent of one operand each."""
    left, right, whole = operands_of(refs)
    if load_i32(refs, 5 * REFERENCE_BYTES + 12) == TAG_SCALAR:
        touch_cell(frame, id)
    elif adjoint_buffer(frame, id) == 0:
        return
    own, step = memory_of_output(frame, id, refs, whole)
    if count_of(left) == 0 or count_of(right) == 0:
        return
    contraction = contraction_of(refs, item_bytes(frame, whole))
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        along_left = tangent_data(frame, refs, seed)
        along_right = tangent_data(frame, refs + REFERENCE_BYTES, seed)
        data = own + seed * step
        if along_left != 0:
            carry_product(frame, contraction, LEFT, along_left, data)
        if along_right != 0:
            carry_product(frame, contraction, RIGHT, along_right, data)
    free(contraction.work)


#: What the kernels need.
HELPERS = (*CONTRACT_HELPERS, pass_curved, carry_product)

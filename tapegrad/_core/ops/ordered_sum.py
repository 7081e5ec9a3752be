"""Numbers added one after the other, for programs: the sum that a loop makes, to the bit.

In a program the row number of the operation is its number of operands.
"""

from tapegrad._core.codegen.intrinsics import f64s, helper, load_f64, load_i32, load_i64, store_f64
from tapegrad._core.codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.strided_sums import line_of, line_offset, lines_of
from tapegrad._core.codegen.sweep_frame import adjoint_buffer, adjoint_place

from .table import PASSED, structural


def sum_in_order_forward(frame, id, refs, task):
    """References: a number whose bits say which views are subtracted, the views, the output."""
    total = -0.0  # the number that changes none it is added to
    for k in range(1, id):
        array = load_i64(refs, k * REFERENCE_BYTES)
        n, stride = line_of(array)
        for line in range(lines_of(array)):
            at = load_i64(array, ARRAY_DATA) + line_offset(array, line)
            if load_i64(refs, 0) >> (k - 1) & 1:
                for i in range(n):
                    total -= load_f64(at, i * stride)
            else:
                for i in range(n):
                    total += load_f64(at, i * stride)
    out = load_i64(refs, id * REFERENCE_BYTES)
    store_f64(load_i64(out, ARRAY_DATA), 0, total)


@helper
def add_number(at, stride, n, g):
    """Add a number to each of n doubles."""
    if stride == 8:
        to = f64s(at)
        for i in range(n):
            to[i] += g
    else:
        for i in range(n):
            f64s(at + i * stride)[0] += g


def sum_in_order_adjoint(frame, id, refs, task):
    """References as before. Each number gets the output's adjoint, or the opposite."""
    out = load_i64(refs, id * REFERENCE_BYTES)
    g = load_f64(adjoint_place(load_i64(cell(frame, id), 0), load_i64(out, ARRAY_DATA), 0), 0)
    for k in range(1, id):
        array, source = load_i64(refs, k * REFERENCE_BYTES), load_i32(refs, k * REFERENCE_BYTES + 8)
        found = adjoint_buffer(frame, source) if source >= 0 else 0
        if found == 0:
            continue
        data = adjoint_place(found, load_i64(array, ARRAY_DATA), 0)
        n, stride = line_of(array)
        for line in range(lines_of(array)):
            part = -g if load_i64(refs, 0) >> (k - 1) & 1 else g
            add_number(data + line_offset(array, line), stride, n, part)


structural(
    "sum_in_order",
    sum_in_order_adjoint,
    value_kernel=sum_in_order_forward,
    layout="sum",
    helpers=(add_number,),
    doc="numbers added and subtracted one after the other",
    table=PASSED,
)

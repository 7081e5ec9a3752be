"""Values of operations along axes, for programs: of doubles, with NumPy's NaN and infinity.

References are those of the adjoint kernels in `axis_adjoints`.
"""

from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    f64s,
    free,
    helper,
    larger_of,
    load_f64,
    load_i64,
    malloc,
    sum_of,
    unaliased,
)
from tapegrad._core.codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from tapegrad._core.codegen.strided_sums import SHORT_GROUP, SIDE_BY_SIDE, line_of, lines_of
from tapegrad._core.codegen.sweep_frame import count_of
from tapegrad._core.codegen.vector_math import select

from .axis_groups import group_in, read_group, read_groups, write_group


@helper
def of_reduction(refs):
    """The operand, lines of a group, elements of one, how many there are, and their results."""
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    return array, lines, line_of(array)[0] * lines, count_of(out), f64s(load_i64(out, ARRAY_DATA))


@helper
def of_same_shape(refs):
    """The operand, the output as seen from it, lines of a group, elements, how many there are."""
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    n = line_of(array)[0] * lines
    groups = lines_of(array) // lines if n != 0 else 0
    return array, load_i64(refs, 2 * REFERENCE_BYTES), lines, n, groups


@helper
def extreme_of(x, n, sign):
    """The largest for the sign 1, the smallest for −1; NaN if one is."""
    best = float("-inf")
    for i in range(n):
        best = larger_of(best, sign * x[i])
    return sign * best


@helper
def extreme_forward(refs, sign):
    array, lines, n, groups, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(groups):
        out[group] = extreme_of(f64s(group_in(array, group, lines, block)), n, sign)
    free(block)


def max_forward(frame, id, refs, task):
    extreme_forward(refs, 1.0)


def min_forward(frame, id, refs, task):
    extreme_forward(refs, -1.0)


def prod_forward(frame, id, refs, task):
    array, lines, n, groups, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(groups):
        x = f64s(group_in(array, group, lines, block))
        product = 1.0
        for i in range(n):
            product *= x[i]
        out[group] = product
    free(block)


@helper
def finite(top):
    """What exponentials are taken relative to, given the largest element: 0 for infinity or NaN."""
    return select(np.absolute(top) <= 1.7976931348623157e308, top, 0.0)


@helper
def exponentials(x, n, top, block):
    """Their sum; they are left in the block, which may be where `x` is."""
    to, total = f64s(block), 0.0
    for i in range(n):
        to[i] = np.exp(x[i] - top)
    for i in range(n):
        total = sum_of(total, to[i])
    return total


@helper
def exponentials_beside(x, width, tops, n):
    """The same in place for groups side by side, each relative to a number of its own."""
    unaliased()
    for i in range(n):
        for g in range(width):
            x[i * width + g] -= tops[g]
    for i in range(n * width):
        x[i] = np.exp(x[i])


@helper
def logsumexps_beside(x, width, tops, totals, n):
    """Values of groups side by side, left in `totals`."""
    unaliased()
    for g in range(width):
        tops[g], totals[g] = float("-inf"), 0.0
    for i in range(n):
        for g in range(width):
            tops[g] = larger_of(tops[g], x[i * width + g])
    for g in range(width):
        tops[g] = finite(tops[g])
    exponentials_beside(x, width, tops, n)
    for i in range(n):
        for g in range(width):
            totals[g] += x[i * width + g]
    for g in range(width):
        totals[g] = np.log(totals[g]) + tops[g]


@helper
def short_logsumexps(array, lines, n, groups, out):
    """Values of short groups, many side by side; how many were computed."""
    if n > SHORT_GROUP or groups < SIDE_BY_SIDE:
        return 0
    block = malloc((n + 2) * SIDE_BY_SIDE * 8)
    tops = block + n * SIDE_BY_SIDE * 8
    totals = tops + SIDE_BY_SIDE * 8
    for first in range(0, groups, SIDE_BY_SIDE):
        count = min(SIDE_BY_SIDE, groups - first)
        data = load_i64(array, ARRAY_DATA)
        width = read_groups(array, data, first, count, lines, block, True)
        logsumexps_beside(f64s(block), width, f64s(tops), f64s(totals), n)
        for g in range(count):
            out[first + g] = load_f64(totals, g * 8)
    free(block)
    return groups


def logsumexp_forward(frame, id, refs, task):
    array, lines, n, groups, out = of_reduction(refs)
    done = short_logsumexps(array, lines, n, groups, out)
    block = malloc(n * 8)
    for group in range(done, groups):
        x = f64s(group_in(array, group, lines, block))
        top = finite(extreme_of(x, n, 1.0))
        out[group] = np.log(exponentials(x, n, top, block)) + top
    free(block)


def softmax_forward(frame, id, refs, task):
    array, out, lines, n, groups = of_same_shape(refs)
    block = malloc(n * 8)
    y = f64s(block)
    for group in range(groups):
        x = f64s(group_in(array, group, lines, block))
        total = exponentials(x, n, extreme_of(x, n, 1.0), block)
        for i in range(n):
            y[i] /= total
        write_group(out, group, lines, block)
    free(block)


def log_softmax_forward(frame, id, refs, task):
    array, out, lines, n, groups = of_same_shape(refs)
    block, exps = malloc(n * 8), malloc(n * 8)
    y = f64s(block)
    for group in range(groups):
        x = f64s(group_in(array, group, lines, block))
        top = finite(extreme_of(x, n, 1.0))
        log = np.log(exponentials(x, n, top, exps))
        for i in range(n):
            y[i] = x[i] - top - log
        write_group(out, group, lines, block)
    free(block)
    free(exps)


@helper
def running_forward(refs, products):
    """Running products, or sums."""
    array, out, lines, n, groups = of_same_shape(refs)
    block = malloc(n * 8)
    x = f64s(block)
    for group in range(groups):
        read_group(array, load_i64(array, ARRAY_DATA), group, lines, block, True)
        for i in range(1, n):
            x[i] = x[i] * x[i - 1] if products else x[i] + x[i - 1]
        write_group(out, group, lines, block)
    free(block)


def cumsum_forward(frame, id, refs, task):
    running_forward(refs, False)


def cumprod_forward(frame, id, refs, task):
    running_forward(refs, True)


FORWARD_HELPERS = (
    group_in,
    write_group,
    of_reduction,
    of_same_shape,
    extreme_of,
    extreme_forward,
    finite,
    exponentials,
    exponentials_beside,
    logsumexps_beside,
    short_logsumexps,
    running_forward,
)

"""Adjoint kernels of rows along axes: extremes, products, running ones, softmax and its kin.

The operand is referred to through a view that has the axes in question last; what is reduced
together, a group, is then a number of whole lines, and that number is the reference after it.
The forward kernels are in `axis_values`.
"""

from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    f32s,
    f64s,
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
)
from tapegrad._core.codegen.layout import ARRAY_DATA, FRAME_SEEDS, REFERENCE_BYTES, TAG_SCALAR
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.strided_sums import SHORT_GROUP, SIDE_BY_SIDE, line_of, lines_of
from tapegrad._core.codegen.sweep_frame import item_bytes, mirror, mirrored, row_of

from .axis_groups import add_group, add_groups, read_group, read_groups
from .axis_values import FORWARD_HELPERS, exponentials_beside


@helper
def groups_of(frame, refs):
    """The operand, lines of a group, elements of one, the operand's mirror, whether it is float64.

    No elements stand for nothing to do.
    """
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    found = mirror(frame, load_i32(refs, 8))
    n = line_of(array)[0] * lines if found != 0 else 0
    return array, lines, n, found, item_bytes(frame, array) == 8


@helper
def reduced_value(frame, id, out, group, wide):
    """Value of element `group` of the output of a reduction: `out` is its reference."""
    if load_i32(out, 12) == TAG_SCALAR:
        return load_f64(row_of(frame, id), 16)
    data = load_i64(load_i64(out, 0), ARRAY_DATA)
    if wide:
        return load_f64(data, group * 8)
    return f32s(data)[group] * 1.0


@helper
def add_slopes(frame, id, refs, group, lines, found, slopes):
    """Add output adjoint × slope to the elements of a group of the operand, for every seed."""
    array, out = load_i64(refs, 0), refs + 2 * REFERENCE_BYTES
    own = cell(frame, id)
    wide = item_bytes(frame, array) == 8
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        if load_i32(out, 12) == TAG_SCALAR:
            g = load_f64(own, seed * 8)
        else:
            at = mirrored(load_i64(own, 0), load_i64(load_i64(out, 0), ARRAY_DATA), seed)
            g = load_f64(at, group * 8) if wide else f32s(at)[group] * 1.0
        if g != 0.0:
            data = mirrored(found, load_i64(array, ARRAY_DATA), seed)
            add_group(array, data, group, lines, slopes, g, wide)


def extreme_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output. What is tied shares evenly."""
    array, lines, n, found, wide = groups_of(frame, refs)
    if n == 0:
        return
    block = malloc(n * 8)
    x = f64s(block)
    for group in range(lines_of(array) // lines):
        read_group(array, load_i64(array, ARRAY_DATA), group, lines, block, wide)
        best = reduced_value(frame, id, refs + 2 * REFERENCE_BYTES, group, wide)
        tied = 0
        for i in range(n):
            same = (x[i] == best) | ((x[i] != x[i]) & (best != best))
            x[i] = 1.0 if same else 0.0
            tied += same
        for i in range(n):
            x[i] /= tied
        add_slopes(frame, id, refs, group, lines, found, block)
    free(block)


def prod_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output. A slope is the product of the rest."""
    array, lines, n, found, wide = groups_of(frame, refs)
    if n == 0:
        return
    block = malloc(n * 16)
    x, slope = f64s(block), f64s(block + n * 8)
    for group in range(lines_of(array) // lines):
        read_group(array, load_i64(array, ARRAY_DATA), group, lines, block, wide)
        before = 1.0
        for i in range(n):
            slope[i] = before
            before *= x[i]
        after = 1.0
        for i in range(n - 1, -1, -1):
            slope[i] *= after
            after *= x[i]
        add_slopes(frame, id, refs, group, lines, found, block + n * 8)
    free(block)


@helper
def read_numbers(data, first, groups, to, wide):
    """Numbers `first` … of an array whose elements lie side by side, as doubles."""
    for g in range(groups):
        to[g] = load_f64(data, (first + g) * 8) if wide else f32s(data)[first + g] * 1.0


@helper
def short_softmaxes(frame, id, refs, n, groups, found, wide):
    """Adjoints of short groups, many side by side; how many were computed."""
    if n > SHORT_GROUP or groups < SIDE_BY_SIDE:
        return 0
    array, lines = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    out = load_i64(load_i64(refs, 2 * REFERENCE_BYTES), ARRAY_DATA)
    own = load_i64(cell(frame, id), 0)
    block = malloc((n + 1) * SIDE_BY_SIDE * 8)
    numbers = f64s(block + n * SIDE_BY_SIDE * 8)
    for first in range(0, groups, SIDE_BY_SIDE):
        count = min(SIDE_BY_SIDE, groups - first)
        data = load_i64(array, ARRAY_DATA)
        width = read_groups(array, data, first, count, lines, block, wide)
        read_numbers(out, first, count, numbers, wide)
        exponentials_beside(f64s(block), width, numbers, n)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_numbers(mirrored(own, out, seed), first, count, numbers, wide)
            to, factors = mirrored(found, data, seed), block + n * SIDE_BY_SIDE * 8
            add_groups(array, to, first, count, lines, block, width, factors, wide)
    free(block)
    return groups


def logsumexp_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output. The slopes are the softmax."""
    array, lines, n, found, wide = groups_of(frame, refs)
    if n == 0:
        return
    groups = lines_of(array) // lines
    done = short_softmaxes(frame, id, refs, n, groups, found, wide)
    block = malloc(n * 8)
    x = f64s(block)
    for group in range(done, groups):
        read_group(array, load_i64(array, ARRAY_DATA), group, lines, block, wide)
        total = reduced_value(frame, id, refs + 2 * REFERENCE_BYTES, group, wide)
        for i in range(n):
            x[i] = np.exp(x[i] - total)
        add_slopes(frame, id, refs, group, lines, found, block)
    free(block)


@helper
def read_adjoint(frame, id, view, group, lines, block, seed, wide):
    """Copy the adjoint of a group of the output, given the output's view, to a block."""
    data = mirrored(load_i64(cell(frame, id), 0), load_i64(view, ARRAY_DATA), seed)
    read_group(view, data, group, lines, block, wide)


@helper
def add_adjoint(array, found, group, lines, block, seed, wide):
    """Add a block to the adjoint of a group of the operand."""
    data = mirrored(found, load_i64(array, ARRAY_DATA), seed)
    add_group(array, data, group, lines, block, 1.0, wide)


def softmax_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output as seen from it, the output."""
    array, lines, n, found, wide = groups_of(frame, refs)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    if n == 0:
        return
    block = malloc(n * 16)
    y, g = f64s(block), f64s(block + n * 8)
    for group in range(lines_of(array) // lines):
        read_group(out, load_i64(out, ARRAY_DATA), group, lines, block, wide)
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, lines, block + n * 8, seed, wide)
            total = 0.0
            for i in range(n):
                total += g[i] * y[i] if g[i] != 0.0 else 0.0
            for i in range(n):
                g[i] = y[i] * (g[i] - total)
            add_adjoint(array, found, group, lines, block + n * 8, seed, wide)
    free(block)


def log_softmax_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output as seen from it, the output."""
    array, lines, n, found, wide = groups_of(frame, refs)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    if n == 0:
        return
    block = malloc(n * 16)
    y, g = f64s(block), f64s(block + n * 8)
    for group in range(lines_of(array) // lines):
        read_group(out, load_i64(out, ARRAY_DATA), group, lines, block, wide)
        for i in range(n):
            y[i] = np.exp(y[i])
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, lines, block + n * 8, seed, wide)
            total = 0.0
            for i in range(n):
                total += g[i]
            if total != 0.0:
                for i in range(n):
                    g[i] -= total * y[i]
            add_adjoint(array, found, group, lines, block + n * 8, seed, wide)
    free(block)


def cumsum_adjoint(frame, id, refs, task):
    """References: the operand, 1, the output as seen from it, the output."""
    array, lines, n, found, wide = groups_of(frame, refs)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    if n == 0:
        return
    block = malloc(n * 8)
    g = f64s(block)
    for group in range(lines_of(array) // lines):
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, lines, block, seed, wide)
            for i in range(n - 2, -1, -1):
                g[i] += g[i + 1]
            add_adjoint(array, found, group, lines, block, seed, wide)
    free(block)


def cumprod_adjoint(frame, id, refs, task):
    """References: the operand, 1, the output as seen from it, the output.

    x[i] has adjoint before[i]·s[i], where s[i] = g[i] + x[i+1]·s[i+1]: no division, right at 0.
    """
    array, lines, n, found, wide = groups_of(frame, refs)
    out = load_i64(refs, 2 * REFERENCE_BYTES)
    if n == 0:
        return
    block = malloc(n * 24)
    x, before, g = f64s(block), f64s(block + n * 8), f64s(block + n * 16)
    for group in range(lines_of(array) // lines):
        read_group(array, load_i64(array, ARRAY_DATA), group, lines, block, wide)
        before[0] = 1.0
        for i in range(1, n):
            before[i] = before[i - 1] * x[i - 1]
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            read_adjoint(frame, id, out, group, lines, block + n * 16, seed, wide)
            for i in range(n - 2, -1, -1):
                g[i] += x[i + 1] * g[i + 1] if g[i + 1] != 0.0 else 0.0
            for i in range(n):
                g[i] = g[i] * before[i] if g[i] != 0.0 else 0.0
            add_adjoint(array, found, group, lines, block + n * 16, seed, wide)
    free(block)


#: What the kernels of reductions call, and of operations that keep the shape.
REDUCTION_HELPERS = (read_group, *FORWARD_HELPERS, groups_of, add_group, reduced_value, add_slopes)
LOGSUMEXP_HELPERS = (read_groups, *REDUCTION_HELPERS, add_groups, read_numbers, short_softmaxes)
SAME_SHAPE_HELPERS = (
    read_group,
    *FORWARD_HELPERS,
    groups_of,
    add_group,
    read_adjoint,
    add_adjoint,
)

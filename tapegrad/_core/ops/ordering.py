"""Positions by value, for programs: of sorting, of extremes, of masks. No derivative.

Positions are whole numbers in floats, as all integers of programs are. References are those of
the kernels along axes (`along`); of `mask_positions`: the mask, the output.
"""

from tapegrad._core.codegen.elements import floats, load_float
from tapegrad._core.codegen.intrinsics import f64s, free, helper, i64s, load_i64, malloc
from tapegrad._core.codegen.layout import ARRAY_DATA, REFERENCE_BYTES
from tapegrad._core.codegen.strided_sums import line_of, line_offset, lines_of
from tapegrad._core.codegen.sweep_frame import count_of

from .axis_groups import (
    Groups,
    count_of_groups,
    group_in,
    groups_in,
    of_reduction,
    of_same_shape,
    read_beside,
    read_group,
    read_line,
    write_group,
)
from .table import STEERING, structural


@helper
def comes_before(x, y):
    """Whether a number belongs before another in ascending order; NaN is last."""
    return x < y or (y != y and x == x)


@helper
def merge(x, of, to, low, middle, high):
    """Merge two sorted runs of positions in x; of equal elements the first stays first."""
    i, j = low, middle
    for k in range(low, high):
        if i < middle and (j >= high or not comes_before(x[of[j]], x[of[i]])):
            to[k] = of[i]
            i += 1
        else:
            to[k] = of[j]
            j += 1


@helper
def sorting_positions(x, n, of, to):
    """The positions that sort n numbers, by merging runs; `of` and `to` have room for them."""
    for i in range(n):
        of[i] = i
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            merge(x, of, to, low, min(low + width, n), min(low + 2 * width, n))
        of, to = to, of
        width *= 2
    return of


def stable_argsort_forward(frame, id, refs, task):
    groups, out, n, count = of_same_shape(refs)
    block = malloc(n * 24)
    x = f64s(block)
    for group in range(count):
        read_group(groups, group, block)
        found = sorting_positions(x, n, i64s(block + n * 8), i64s(block + n * 16))
        for i in range(n):
            x[i] = float(found[i])
        write_group(out, group, block)
    free(block)


@helper
def position_of_extreme(x, n, sign):
    """The position of the largest for the sign 1, of the smallest for −1; of the first NaN."""
    best = 0
    for i in range(1, n):
        nan = x[i] != x[i] and x[best] == x[best]
        if sign * x[i] > sign * x[best] or nan:
            best = i
    return float(best)


@helper
def positions_of_extremes(refs, sign):
    groups, n, count, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(count):
        out[group] = position_of_extreme(f64s(group_in(groups, group, block)), n, sign)
    free(block)


def argmax_forward(frame, id, refs, task):
    positions_of_extremes(refs, 1.0)


def argmin_forward(frame, id, refs, task):
    positions_of_extremes(refs, -1.0)


def mask_positions_forward(frame, id, refs, task):
    """Positions of the elements that are not 0; −1 fills up an output with room for more."""
    array, out = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    to, room = floats(load_i64(out, ARRAY_DATA)), count_of(out)
    n, stride = line_of(array)
    count = 0
    for line in range(lines_of(array)):
        at = load_i64(array, ARRAY_DATA) + line_offset(array, line)
        for i in range(n):
            if load_float(at, i * stride) != 0.0 and count < room:
                to[count] = float(line * n + i)
                count += 1
    for k in range(count, room):
        to[k] = -1.0


_ALONG = (
    *(Groups, groups_in, count_of_groups, read_line, read_beside, read_group, group_in),
    *(write_group, of_reduction, of_same_shape),
)
for _name, _forward, _form, _doc in (
    ("stable_argsort", stable_argsort_forward, "same shape", "the positions that sort, NaN last"),
    ("argmax", argmax_forward, "reduction", "where the largest element or a NaN is first"),
    ("argmin", argmin_forward, "reduction", "where the smallest element or a NaN is first"),
    ("mask_positions", mask_positions_forward, "mask positions", "where elements are not 0"),
):
    structural(
        _name,
        None,
        value_kernel=_forward,
        layout=_form,
        helpers=(
            *_ALONG,
            comes_before,
            merge,
            sorting_positions,
            position_of_extreme,
            positions_of_extremes,
        ),
        doc=_doc,
        table=STEERING,
    )

"""Sums in order, and positions by value: of sorting, of extremes, of masks; for programs."""

import functools

import numpy

from tapegrad._core.codegen.elements import ITEM, floats, load_float
from tapegrad._core.codegen.layout import ARRAY_DATA, FRAME_STATUS, REFERENCE_BYTES, REFUSED
from tapegrad._core.codegen.shared_kernels import cell
from tapegrad._core.codegen.sweep_frame import adjoint_buffer, adjoint_place, count_of

from ..codegen import vector_math as np
from ..codegen.intrinsics import (
    apart,
    f64s,
    free,
    helper,
    i64s,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    store_f64,
    store_i64,
)
from ..codegen.strided_memory import line_of, line_offset, lines_of
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
from .table import PASSED, STEERING, Layout, bare, structural

# --- Numbers added one after the other, for programs: the sum that a loop makes, to the bit -------
# In a program the row number of the operation is its number of operands.


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


# --- Positions by value, for programs: of sorting, of extremes, of masks. No derivative -----------
# Positions are whole numbers in floats, as all integers of programs are. References are those of
# the kernels along axes (`along`); of `mask_positions`: the mask, the output; of `searchsorted`:
# the sorted array, the values, how they are searched (`searching`), the output; of `whole`:
# numbers, the least and the greatest that they may be, the output.


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


@helper
def has_ties(x, n, order):
    """Whether any of n numbers in ascending order belongs nowhere before the next."""
    for i in range(1, n):
        if not comes_before(x[order[i - 1]], x[order[i]]):
            return True
    return False


@helper
def sort_positions(frame, refs, refuses_ties):
    """The positions that sort each line, where equal elements keep their order."""
    groups, out, n, count = of_same_shape(refs)
    block = malloc(n * 24)
    x = f64s(block)
    for group in range(count):
        read_group(groups, group, block)
        found = sorting_positions(x, n, i64s(block + n * 8), i64s(block + n * 16))
        if refuses_ties and has_ties(x, n, found):
            store_i64(frame, FRAME_STATUS, REFUSED)
            break
        for i in range(n):
            x[i] = float(found[i])
        write_group(out, group, block)
    free(block)


def stable_argsort_forward(frame, id, refs, task):
    sort_positions(frame, refs, False)


def argsort_forward(frame, id, refs, task):
    """In which order NumPy's default puts equal elements only NumPy knows: it stops at them."""
    sort_positions(frame, refs, True)


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


@helper
def searched(at, stride, value, low, high, right):
    """Where a number belongs, between two places, as NumPy finds it."""
    while low < high:
        middle = (low + high) >> 1
        x = load_float(at, middle * stride)
        if (not comes_before(value, x)) if right else comes_before(x, value):
            low = middle + 1
        else:
            high = middle
    return low


@helper
def is_ascending(at, stride, n):
    for i in range(1, n):
        if comes_before(load_float(at, i * stride), load_float(at, (i - 1) * stride)):
            return False
    return True


@helper
def searched_alone(at, stride, n, value, right):
    """Where a number belongs among n, at least one, as NumPy finds it from version 2.5 on."""
    first, left = 0, n
    while left > 1:
        half = left >> 1
        x = load_float(at, (first + half) * stride)
        first += half if belongs_after(x, value, right) else 0
        left -= half
    return first + (1 if belongs_after(load_float(at, first * stride), value, right) else 0)


@helper
def belongs_after(x, value, right):
    """Whether a number belongs after x, without a branch."""
    return (x < value) | ((x == value) & right) | ((value != value) & (right | (x == x)))


def searchsorted_forward(frame, id, refs, task):
    """As NumPy, whose places in unsorted arrays depend on its version.

    Before 2.5 it searches from the place of the value before on. In sorted arrays that is the same.
    """
    array, values = load_i64(refs, 0), load_i64(refs, REFERENCE_BYTES)
    asked = load_i64(refs, 2 * REFERENCE_BYTES)
    right = asked & 1 != 0
    to = floats(load_i64(load_i64(refs, 3 * REFERENCE_BYTES), ARRAY_DATA))
    size, step = line_of(array)
    of = load_i64(array, ARRAY_DATA)
    n, stride = line_of(values)
    is_alone = asked > 1
    if size < 8 * count_of(values) and not is_alone:
        is_alone = is_ascending(of, step, size)
    low, high, before = 0, size, float("inf")
    for line in range(lines_of(values)):
        at = load_i64(values, ARRAY_DATA) + line_offset(values, line)
        for i in range(n):
            value = load_float(at, i * stride) * 1.0
            if is_alone and size > 0:
                to[line * n + i] = float(searched_alone(of, step, size, value, right))
                continue
            if (not comes_before(value, before)) if right else comes_before(before, value):
                high = size
            else:
                low, high = 0, min(high + 1, size)
            before = value
            low = high = searched(of, step, value, low, high, right)
            to[line * n + i] = float(low)


@helper
def whole_line(at, stride, to, n, least, greatest):
    """Numbers without their fractions; whether any is outside."""
    apart()
    outside = 0
    if stride == ITEM:
        x = floats(at)
        for i in range(n):
            whole = np.trunc(x[i])
            outside |= 0 if (whole >= least) & (whole <= greatest) else 1
            to[i] = whole + 0.0
    else:
        for i in range(n):
            whole = np.trunc(load_float(at, i * stride))
            outside |= 0 if (whole >= least) & (whole <= greatest) else 1
            to[i] = whole + 0.0
    return outside


def whole_forward(frame, id, refs, task):
    """Integers from numbers; it stops at one that is outside, or NaN."""
    array, out = load_i64(refs, 0), load_i64(refs, 3 * REFERENCE_BYTES)
    least, greatest = load_i64(refs, REFERENCE_BYTES), load_i64(refs, 2 * REFERENCE_BYTES)
    n, stride = line_of(array)
    for line in range(lines_of(array)):
        at = load_i64(array, ARRAY_DATA) + line_offset(array, line)
        to = floats(load_i64(out, ARRAY_DATA) + line * n * ITEM)
        if whole_line(at, stride, to, n, float(least), float(greatest)) != 0:
            store_i64(frame, FRAME_STATUS, REFUSED)


@functools.cache
def _is_alone() -> bool:
    """Whether this NumPy searches each value alone, as its places in unsorted arrays show."""
    return bool(numpy.searchsorted([0.0, 2.0, 1.0], [0.5, 1.5])[1] == 1)  # 3 before 2.5


def searching(side: str) -> int:
    """The number that says how values are searched: 1 for the right side, and 2 if each alone."""
    return int(side == "right") + 2 * _is_alone()


def _sorted_fits(out, array, values, asked) -> None:
    if len(array) != 1 or out != values or asked not in range(4):
        raise ValueError("not a place for each value in an array of one axis")


def _whole_fits(out, array, least, greatest) -> None:
    if out != array:
        raise ValueError("a result of another shape")


def _of_ties(_answer) -> Exception:
    return ValueError(
        "tapegrad.argsort: elements are equal, whose order is NumPy's own; with kind='stable' they "
        "keep their order"
    )


def _outside(_answer) -> Exception:
    return OverflowError(
        "tapegrad: an integer that the program computes is beyond those that it was made for"
    )


_ALONG = (
    *(Groups, groups_in, count_of_groups, read_line, read_beside, read_group, group_in),
    *(write_group, of_reduction, of_same_shape),
)
_HELPERS = (
    *_ALONG,
    *(comes_before, merge, sorting_positions, has_ties, sort_positions),
    *(position_of_extreme, positions_of_extremes, whole_line),
    *(searched, is_ascending, belongs_after, searched_alone),
)
_SORTED = Layout(bare, ("array", "array", "number"), _sorted_fits)
_WHOLE = Layout(bare, ("array", "number", "number"), _whole_fits)
for _name, _forward, _form, _refusal, _doc in (
    *(
        ("stable_argsort", stable_argsort_forward, "same shape", None, "what sorts, NaN last"),
        ("argsort", argsort_forward, "same shape", _of_ties, "what sorts unequal numbers"),
        ("argmax", argmax_forward, "reduction", None, "where the largest or a NaN is first"),
        ("argmin", argmin_forward, "reduction", None, "where the smallest or a NaN is first"),
        ("mask_positions", mask_positions_forward, "mask positions", None, "what is not 0"),
        ("searchsorted", searchsorted_forward, _SORTED, None, "where numbers belong"),
        ("whole", whole_forward, _WHOLE, _outside, "numbers without fractions, within bounds"),
    ),
):
    structural(
        _name,
        None,
        value_kernel=_forward,
        layout=_form,
        helpers=_HELPERS,
        refusal=_refusal,
        doc=_doc,
        table=STEERING,
    )

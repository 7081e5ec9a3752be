"""Rows of contiguous elements copied from places, and added there, in compiled code.

Rows are short: a call of memcpy for each, or a loop with tests of its own, would take longer.
"""

from ..._core.codegen.elements import ITEM, add_run, floats, load_float
from ..._core.codegen.intrinsics import apart, f64s, helper, i64s, memcpy
from ..._core.codegen.strided_memory import LONG, add4, add_both4, copy4

#: Bytes that are moved at once.
LANE_BYTES = 32


@helper
def copy_rows(to, of, places, count, width):
    """Copy rows to contiguous memory; `places` are the address of their byte offsets."""
    apart()
    at, row_bytes = i64s(places), width * ITEM
    if width == 1:
        t = floats(to)
        for k in range(count):
            t[k] = load_float(of, at[k])
    elif LANE_BYTES <= row_bytes < 8 * LONG:
        end = row_bytes - LANE_BYTES
        for k in range(count):
            target, source = to + k * row_bytes, of + at[k]
            for part in range(0, end, LANE_BYTES):
                copy4(target + part, source + part)
            copy4(target + end, source + end)  # some of it for a second time
    elif width == 2:
        for k in range(count):
            t, s = floats(to + 2 * ITEM * k), floats(of + at[k])
            t[0], t[1] = s[0], s[1]
    elif width == 3:
        for k in range(count):
            t, s = floats(to + 3 * ITEM * k), floats(of + at[k])
            t[0], t[1], t[2] = s[0], s[1], s[2]
    elif row_bytes < LANE_BYTES:
        for k in range(count):
            t, s = floats(to + k * row_bytes), floats(of + at[k])
            for i in range(width):
                t[i] = s[i]
    else:
        for k in range(count):
            memcpy(to + k * row_bytes, of + at[k], row_bytes)


@helper
def are_sorted(at, count):
    """Whether places come several times in a row, as sorted ones do."""
    again = 0
    for k in range(count - 1):
        again += at[k] == at[k + 1]
    return 4 * again > count


@helper
def same_from(at, k, count):
    """The number of the first place after k that is another one."""
    end = k + 1
    while end < count and at[end] == at[k]:
        end += 1
    return end


@helper
def add_each(to, places, of, count, row_bytes):
    """Add rows of four doubles at least: the last four are added with those before them."""
    apart()
    at, end = i64s(places), row_bytes - LANE_BYTES
    if end == 0:
        for k in range(count):
            add4(to + at[k], of + k * row_bytes)
    elif end <= LANE_BYTES:
        for k in range(count):
            add_both4(to + at[k], of + k * row_bytes, end)
    elif end <= 2 * LANE_BYTES:
        for k in range(count):
            target, source = to + at[k], of + k * row_bytes
            add4(target, source)
            add_both4(target + LANE_BYTES, source + LANE_BYTES, end - LANE_BYTES)
    else:
        last = (row_bytes - 1) // LANE_BYTES * LANE_BYTES - LANE_BYTES
        for k in range(count):
            target, source = to + at[k], of + k * row_bytes
            for part in range(0, last, LANE_BYTES):
                add4(target + part, source + part)
            add_both4(target + last, source + last, end - last)


@helper
def add_often(target, source, row_bytes, count):
    """Add several rows to one, each of its doubles kept meanwhile: a sum waits for no store."""
    whole = row_bytes // LANE_BYTES * LANE_BYTES
    for part in range(0, whole, LANE_BYTES):
        t = f64s(target + part)
        first, second, third, fourth = t[0], t[1], t[2], t[3]
        for k in range(count):
            s = f64s(source + part + k * row_bytes)
            first, second = first + s[0], second + s[1]
            third, fourth = third + s[2], fourth + s[3]
        t[0], t[1], t[2], t[3] = first, second, third, fourth
    for part in range(whole, row_bytes, 8):
        total = f64s(target + part)[0]
        for k in range(count):
            total += f64s(source + part + k * row_bytes)[0]
        f64s(target + part)[0] = total


@helper
def add_sorted(to, places, of, count, width):
    """Add rows to places of which many come several times in a row: a sum waits for no store."""
    apart()
    at, s, row_bytes, k = i64s(places), f64s(of), width * ITEM, 0
    while k < count:
        here, t = at[k], f64s(to + at[k])
        if width == 1:
            total = t[0] + s[k]
            k += 1
            while k < count and at[k] == here:
                total += s[k]
                k += 1
            t[0] = total
        elif width == 3:
            first, second, third = t[0] + s[3 * k], t[1] + s[3 * k + 1], t[2] + s[3 * k + 2]
            k += 1
            while k < count and at[k] == here:
                first, second = first + s[3 * k], second + s[3 * k + 1]
                third += s[3 * k + 2]
                k += 1
            t[0], t[1], t[2] = first, second, third
        else:
            end = same_from(at, k, count)
            add_often(to + here, of + k * row_bytes, row_bytes, end - k)
            k = end


@helper
def add_rows(to, places, of, count, width):
    """Add contiguous rows to rows at places, one after the other."""
    apart()
    at, row_bytes = i64s(places), width * ITEM
    if ITEM == 8 and width < LONG and are_sorted(at, count):
        add_sorted(to, places, of, count, width)
    elif width == 1:
        s = floats(of)
        for k in range(count):
            floats(to + at[k])[0] += s[k]
    elif width == 2:
        for k in range(count):
            t, s = floats(to + at[k]), floats(of + 2 * ITEM * k)
            t[0], t[1] = t[0] + s[0], t[1] + s[1]
    elif width == 3:
        for k in range(count):
            t, s = floats(to + at[k]), floats(of + 3 * ITEM * k)
            t[0], t[1], t[2] = t[0] + s[0], t[1] + s[1], t[2] + s[2]
    elif ITEM == 8 and width < LONG:
        add_each(to, places, of, count, row_bytes)
    else:
        for k in range(count):
            add_run(to + at[k], ITEM, of + k * row_bytes, ITEM, width)

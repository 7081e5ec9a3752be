"""Rows of contiguous elements copied from places, and added there, in compiled code.

Rows are short: a call of memcpy for each, or a loop with tests of its own, would take longer.
"""

from ..._core.codegen.elements import ITEM, add_run, floats, load_float
from ..._core.codegen.intrinsics import apart, f64s, helper, i64s, memcpy
from ..._core.codegen.line_copies import LONG, add4, copy4

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
def add_rows(to, places, of, count, width):
    """Add contiguous rows to rows at places, one after the other."""
    apart()
    at, row_bytes = i64s(places), width * ITEM
    if width == 1:
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
        whole = width * 8 // LANE_BYTES * LANE_BYTES
        for k in range(count):
            target, source = to + at[k], of + k * row_bytes
            for part in range(0, whole, LANE_BYTES):
                add4(target + part, source + part)
            for part in range(whole, row_bytes, 8):
                f64s(target + part)[0] += f64s(source + part)[0]
    else:
        for k in range(count):
            add_run(to + at[k], ITEM, of + k * row_bytes, ITEM, width)

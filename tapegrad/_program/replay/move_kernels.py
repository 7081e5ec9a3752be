"""Compiled parts of steps that move values: links, gathers, packs; the layout of their data."""

from ..._core.codegen.elements import ITEM, add_run, floats, load_float, store_float
from ..._core.codegen.intrinsics import (
    apart,
    f64s,
    helper,
    i64s,
    load_i64,
    memcpy,
    memset,
    store_i64,
)
from ..._core.codegen.strided_memory import LONG, add4, add_both4, copy4
from .run_layout import (
    FINISHED,
    RAISED,
    RUN_ADJOINT_BASES,
    RUN_ADJOINTS,
    RUN_FAILED,
    RUN_SCRATCH,
    RUN_VALUE_BASES,
    RUN_VALUES,
)

# --- row moves ------------------------------------------------------------------------------------
# Rows of contiguous elements copied from places, and added there, in compiled code.
#
# Rows are short: a call of memcpy for each, or a loop with tests of its own, would take longer.

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


# --- move kernels ---------------------------------------------------------------------------------
# Compiled parts of steps that move values: links, gathers, packs; the layout of their data.
#
# A link: `L_OUT`, how many bytes there to set to zero, how many moves, the moves. A move is one
# traversal of two views: along a line of LINE elements, and over LINES lines by an odometer of AXES
# axes. For each of them it has its size, and the change of place of each view when it counts (and
# those inside it go back). What is picked: lists of places, or of runs of neighbours. See `moves`.

LINK_OUT, LINK_CLEAR, LINK_COUNT, LINK_MOVES = range(0, 32, 8)
#: A move. Each side is a base, a byte offset in it, and the step along a line; then come the axes.
(BYTES, SETS, WANTED, LINE, LINES, AXES, TARGET, SOURCE) = (0, 8, 16, 24, 32, 40, 48, 72)
SIDE_BASE, SIDE_OFFSET, SIDE_STEP = 0, 8, 16
MOVE_AXES, AXIS_BYTES = 96, 24
#: A list of places: the length of equal rows of the output, or 0; how many, and the place of each;
#: or else those of runs: place, place in the output, length.
LIST_ROWS, LIST_COUNT, LIST_PLACES, RUN_OF_PLACES = 0, 8, 16, 24
PICK_BASE, PICK_OUT, PICK_REVERSE, PICK_LISTS = range(0, 32, 8)
#: A gather whose positions are computed: the output, how many rows and of how many, the elements
#: of a row, two views.
(
    GATHER_OUT,
    GATHER_COUNT,
    GATHER_SIZE,
    GATHER_WIDTH,
    GATHER_POSITIONS,
    GATHER_SOURCE,
    GATHER_WORDS,
) = range(0, 56, 8)
#: A write at computed places: the same of the rows that are written, whether the source has an
#: adjoint, two views, and the move of the old values.
(
    SCATTER_OUT,
    SCATTER_COUNT,
    SCATTER_SIZE,
    SCATTER_WIDTH,
    SCATTER_WANTED,
    SCATTER_POSITIONS,
    SCATTER_SOURCE,
    SCATTER_MOVE,
) = range(0, 64, 8)
#: The places that are found at once, in scratch memory.
PLACES = 512
#: A view read in C order: base, byte offset, number of axes, sizes and strides in turn.
VIEW_BASE, VIEW_OFFSET, VIEW_NDIM, VIEW_AXES = range(0, 32, 8)


@helper
def base_at(table, base):
    return load_i64(table, base * 8)


# --- links ------------------------------------------------------------------------------------


@helper
def set_run(target, target_step, source, source_step, n):
    apart()
    if target_step == ITEM and source_step == ITEM:
        memcpy(target, source, n * ITEM)
    elif target_step == ITEM and source_step == 0:
        t, value = floats(target), load_float(source, 0)
        for i in range(n):
            t[i] = value
    else:
        for i in range(n):
            store_float(target, i * target_step, load_float(source, i * source_step))


@helper
def move(sets, item, target, to, source, of, index):
    """Set or add to the side `to` of a move from its side `of`, whose first elements are given."""
    n, axes = load_i64(item, LINE), load_i64(item, AXES)
    to_step, of_step = load_i64(item, to + SIDE_STEP), load_i64(item, of + SIDE_STEP)
    to_delta, of_delta = (8, 16) if to == TARGET else (16, 8)
    for k in range(axes):
        index[k] = 0
    for _ in range(load_i64(item, LINES)):
        if sets:
            set_run(target, to_step, source, of_step, n)
        else:
            add_run(target, to_step, source, of_step, n)
        axis = axes - 1
        at = item + MOVE_AXES + axis * AXIS_BYTES
        while axis > 0 and index[axis] + 1 == load_i64(at, 0):
            index[axis] = 0
            axis -= 1
            at -= AXIS_BYTES
        if axis >= 0:
            index[axis] += 1
            target += load_i64(at, to_delta)
            source += load_i64(at, of_delta)


@helper
def link_forward(run, data):
    table, index = load_i64(run, RUN_VALUE_BASES), i64s(load_i64(run, RUN_SCRATCH))
    clear = load_i64(data, LINK_CLEAR)
    if clear != 0:
        memset(load_i64(run, RUN_VALUES) + load_i64(data, LINK_OUT), 0, clear)
    item = data + LINK_MOVES
    for _ in range(load_i64(data, LINK_COUNT)):
        target = base_at(table, load_i64(item, TARGET)) + load_i64(item, TARGET + SIDE_OFFSET)
        source = base_at(table, load_i64(item, SOURCE)) + load_i64(item, SOURCE + SIDE_OFFSET)
        move(load_i64(item, SETS) != 0, item, target, TARGET, source, SOURCE, index)
        item += load_i64(item, BYTES)
    return FINISHED


@helper
def link_reverse(run, data):
    table, index = load_i64(run, RUN_ADJOINT_BASES), i64s(load_i64(run, RUN_SCRATCH))
    item = data + LINK_MOVES
    for _ in range(load_i64(data, LINK_COUNT)):
        target = base_at(table, load_i64(item, TARGET)) + load_i64(item, TARGET + SIDE_OFFSET)
        source = base_at(table, load_i64(item, SOURCE))
        if load_i64(item, WANTED) != 0 and source != 0:
            source += load_i64(item, SOURCE + SIDE_OFFSET)
            move(False, item, source, SOURCE, target, TARGET, index)
        item += load_i64(item, BYTES)
    return FINISHED


# --- what is picked at known places -------------------------------------------------------------


@helper
def pick_forward(run, data):
    out = load_i64(run, RUN_VALUES) + load_i64(data, PICK_OUT)
    of = base_at(load_i64(run, RUN_VALUE_BASES), load_i64(data, PICK_BASE))
    places = data + PICK_LISTS
    count, rows = load_i64(places, LIST_COUNT), load_i64(places, LIST_ROWS)
    at = places + LIST_PLACES
    if rows != 0:
        copy_rows(out, of, at, count, rows)
        return FINISHED
    runs = i64s(at)
    for k in range(count):
        memcpy(out + runs[3 * k + 1], of + runs[3 * k], runs[3 * k + 2] * ITEM)
    return FINISHED


@helper
def pick_reverse(run, data):
    out = load_i64(run, RUN_ADJOINTS) + load_i64(data, PICK_OUT)
    of = base_at(load_i64(run, RUN_ADJOINT_BASES), load_i64(data, PICK_BASE))
    places = data + load_i64(data, PICK_REVERSE)
    count, rows = load_i64(places, LIST_COUNT), load_i64(places, LIST_ROWS)
    at = places + LIST_PLACES
    if of == 0:
        return FINISHED
    if rows != 0:
        add_rows(of, at, out, count, rows)
        return FINISHED
    runs = i64s(at)
    for k in range(count):
        add_run(of + runs[3 * k], ITEM, out + runs[3 * k + 1], ITEM, runs[3 * k + 2])
    return FINISHED


# --- what is picked at computed places ----------------------------------------------------------


@helper
def place(view, k):
    """Byte offset of element k of a view, counted in C order, from its first."""
    axes = load_i64(view, VIEW_NDIM)
    if axes == 1:
        return k * load_i64(view, VIEW_AXES + 8)
    offset = 0
    for axis in range(axes - 1, -1, -1):
        n = load_i64(view, VIEW_AXES + axis * 16)
        offset += k % n * load_i64(view, VIEW_AXES + axis * 16 + 8)
        k //= n
    return offset


@helper
def first_of(table, view):
    """Address of the first element of a view, 0 if its base has no memory."""
    base = base_at(table, load_i64(view, VIEW_BASE))
    return base + load_i64(view, VIEW_OFFSET) if base != 0 else 0


@helper
def run_in(view, width):
    """Elements of a row of a view that are one after the other: all of them, or one."""
    axes = load_i64(view, VIEW_NDIM)
    last = view + VIEW_AXES + 16 * (axes - 1)
    return width if load_i64(last, 8) == ITEM and load_i64(last, 0) % width == 0 else 1


@helper
def position_of(positions, picked, k, size):
    """The position of row k; −1 if it is outside."""
    position = load_float(positions, place(picked, k))
    return int(position) if 0.0 <= position < size else -1


@helper
def is_line(view):
    """Whether the elements of a view are equally far apart."""
    return load_i64(view, VIEW_NDIM) == 1


@helper
def find_in_line(positions, places, row_bytes, size, count):
    """`find_places` of whole rows in a line, by positions one after the other."""
    p, found, below, inside = floats(positions), i64s(places), 0.0 + size, True
    for k in range(count):
        is_inside = (p[k] >= 0.0) & (p[k] < below)
        inside &= is_inside
        found[k] = int(p[k] if is_inside else 0.0) * row_bytes
    return inside


@helper
def find_places(run, data, start, count, each):
    """Write the places in the source of pieces of rows, of `each` elements, to scratch memory.

    Returns whether all positions are inside.
    """
    picked, source = data + load_i64(data, GATHER_POSITIONS), data + load_i64(data, GATHER_SOURCE)
    positions = first_of(load_i64(run, RUN_VALUE_BASES), picked)
    size, width = load_i64(data, GATHER_SIZE), load_i64(data, GATHER_WIDTH)
    places, pieces, inside = i64s(load_i64(run, RUN_SCRATCH)), width // each, True
    step = load_i64(picked, VIEW_AXES + 8)
    if pieces == 1 and is_line(picked) and is_line(source) and step == ITEM:
        row_bytes = width * load_i64(source, VIEW_AXES + 8)
        first, found = positions + start * ITEM, load_i64(run, RUN_SCRATCH)
        return find_in_line(first, found, row_bytes, size, count)
    for k in range(count):
        row, piece = (
            (start + k, 0) if pieces == 1 else ((start + k) // pieces, (start + k) % pieces)
        )
        position = position_of(positions, picked, row, size)
        inside &= position >= 0
        places[k] = place(source, position * width + piece * each) if position >= 0 else 0
    return inside


@helper
def gather_forward(run, data):
    """Stops at a position outside the source; nothing is read there."""
    source, width = data + load_i64(data, GATHER_SOURCE), load_i64(data, GATHER_WIDTH)
    of, out = first_of(load_i64(run, RUN_VALUE_BASES), source), load_i64(data, GATHER_OUT)
    to, places = load_i64(run, RUN_VALUES) + out, load_i64(run, RUN_SCRATCH)
    each = run_in(source, width)
    total = load_i64(data, GATHER_COUNT) * (width // each)
    for start in range(0, total, PLACES):
        count = min(PLACES, total - start)
        if not find_places(run, data, start, count, each):
            store_i64(run, RUN_FAILED, out // ITEM)
            return RAISED
        copy_rows(to + start * each * ITEM, of, places, count, each)
    return FINISHED


@helper
def gather_reverse(run, data):
    source, width = data + load_i64(data, GATHER_SOURCE), load_i64(data, GATHER_WIDTH)
    of, each = first_of(load_i64(run, RUN_ADJOINT_BASES), source), run_in(source, width)
    own = load_i64(run, RUN_ADJOINTS) + load_i64(data, GATHER_OUT)
    total = load_i64(data, GATHER_COUNT) * (width // each) if of != 0 else 0
    for start in range(0, total, PLACES):
        count = min(PLACES, total - start)
        find_places(run, data, start, count, each)
        at = own + start * each * ITEM
        add_rows(of, load_i64(run, RUN_SCRATCH), at, count, each)
    return FINISHED


# --- what is written at computed places ---------------------------------------------------------


@helper
def scatter_forward(run, data):
    """Stops at a position outside the output; nothing is written there."""
    table, index = load_i64(run, RUN_VALUE_BASES), i64s(load_i64(run, RUN_SCRATCH))
    item, out = data + SCATTER_MOVE, load_i64(data, SCATTER_OUT)
    before = base_at(table, load_i64(item, SOURCE)) + load_i64(item, SOURCE + SIDE_OFFSET)
    to = load_i64(run, RUN_VALUES) + out
    move(True, item, to, TARGET, before, SOURCE, index)
    picked, source = data + load_i64(data, SCATTER_POSITIONS), data + load_i64(data, SCATTER_SOURCE)
    positions, of = first_of(table, picked), first_of(table, source)
    size, width = load_i64(data, SCATTER_SIZE), load_i64(data, SCATTER_WIDTH)
    each = run_in(source, width)
    for k in range(load_i64(data, SCATTER_COUNT)):
        position = position_of(positions, picked, k, size)
        if position < 0:
            store_i64(run, RUN_FAILED, out // ITEM)
            return RAISED
        for i in range(0, width, each):
            at = to + (position * width + i) * ITEM
            set_run(at, ITEM, of + place(source, k * width + i), ITEM, each)
    return FINISHED


@helper
def scatter_reverse(run, data):
    """The written rows take the adjoints, last to first; the rest goes to the array before."""
    table, index = load_i64(run, RUN_ADJOINT_BASES), i64s(load_i64(run, RUN_SCRATCH))
    picked, source = data + load_i64(data, SCATTER_POSITIONS), data + load_i64(data, SCATTER_SOURCE)
    positions, of = first_of(load_i64(run, RUN_VALUE_BASES), picked), first_of(table, source)
    own = load_i64(run, RUN_ADJOINTS) + load_i64(data, SCATTER_OUT)
    width = load_i64(data, SCATTER_WIDTH)
    asked, each = load_i64(data, SCATTER_WANTED) != 0 and of != 0, run_in(source, width)
    for k in range(load_i64(data, SCATTER_COUNT) - 1, -1, -1):
        row = own + int(load_float(positions, place(picked, k))) * width * ITEM
        if asked:
            for i in range(0, width, each):
                add_run(of + place(source, k * width + i), ITEM, row + i * ITEM, ITEM, each)
        memset(row, 0, width * ITEM)
    item = data + SCATTER_MOVE
    before = base_at(table, load_i64(item, SOURCE))
    if load_i64(item, WANTED) != 0 and before != 0:
        before += load_i64(item, SOURCE + SIDE_OFFSET)
        move(False, item, before, SOURCE, own, TARGET, index)
    return FINISHED


EXPORTS = (
    "link_forward",
    "link_reverse",
    "pick_forward",
    "pick_reverse",
    "gather_forward",
    "gather_reverse",
    "scatter_forward",
    "scatter_reverse",
)
TEXT = "".join(
    f"\n\ndef {name}(run, data):\n    return move_kernels.{name}(run, data)\n" for name in EXPORTS
)

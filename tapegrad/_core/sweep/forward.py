"""Forward mode in compiled code: tangents of scalar rows and cells, oldest to newest.

The tables of adjoints hold tangents here: the cell of a scalar row its tangents, one per direction;
the adjoint buffer of a buffer those of its elements. A separate function, called by its address,
computes element-wise rows of arrays, and some other rows likewise. The remaining rows of arrays are
left to Python, which has their rules; so are all of them where a buffer was written in place, since
Python finds the past values.
"""

from . import scalar_rows

#: The function that computes the tangents of an element-wise row.
CARRY_SOURCE = """
from tapegrad._core.sweep.elementwise_tangents import carry_elementwise


def carry_row(frame, id):
    return carry_elementwise(frame, id)
"""

_TEXT = '''
from tapegrad._core.codegen import machine_types as types
from tapegrad._core.sweep.marking import buffer_written, has_marked, mark_below, references
from tapegrad._core.sweep.marking import next_marked
from tapegrad._core.sweep.elementwise_run_planning import is_pointwise

carry_call = call_address(types.int64(types.int64, types.int64))
tangent_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


@helper
def part(tangent, seed, partial):
    """Tangent times partial, 0 where either is exactly 0 whatever the other is."""
    if tangent == 0 or partial == 0.0:
        return 0.0
    return times(0, load_f64(tangent, seed * 8), partial)


@helper
def next_cell(frame, id):
    """The cell of a row that is newer than all of its chunk that have one, without a call."""
    inside()
    slot, position = id >> ROWS_BITS, id & (ROWS - 1)
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    if cells == 0 or position < load_i64(load_i64(frame, FRAME_LOWEST), slot * 8):
        return cell(frame, id)
    return cells + position * 8 * load_i64(frame, FRAME_SEEDS)


@helper
def carry_scalar(frame, id, row, op, i, j, first, second):
    """The tangent of a scalar operation on rows i and j, of which −1 stands for a constant, from
    where those of the rows are."""
    inside()
    kind = op & 3
    x = load_f64(row_of(frame, i), 16) if i >= 0 else load_f64(row, 8)
    y = load_f64(row_of(frame, j), 16) if j >= 0 else load_f64(row, 8)
    sx, sy, _ = first_partials_of(op >> 2, kind, x, y, load_f64(row, 16))
    at = next_cell(frame, id)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        store_f64(at, seed * 8, part(first, seed, sx) + part(second, seed, sy) + 0.0)


@helper
def carry_load(frame, id, row):
    """The tangent of a cell that is read."""
    buffer = load_i32(row, 4)
    data = load_i64(base_of(frame, buffer), ARRAY_DATA) + load_i32(row, 8) * 4
    found, at = found_adjoint_buffer(frame, buffer), next_cell(frame, id)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        store_f64(at, seed * 8, load_f64(adjoint_place(found, data, seed), 0) + 0.0)


@helper
def carry_store(frame, row):
    """The tangent of what is written comes where it is written."""
    buffer, source = load_i32(row, 4), tangent_of(frame, load_i32(row, 12))
    found = adjoint_buffer(frame, buffer)
    if found != 0:
        data = load_i64(base_of(frame, buffer), ARRAY_DATA) + load_i32(row, 8) * 4
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            value = load_f64(source, seed * 8) if source != 0 else 0.0
            store_f64(adjoint_place(found, data, seed), 0, value)


@helper
def unmoved(frame, op):
    """Status for a row without tangent; notes one that is used up."""
    if op < 0:
        store_i64(frame, FRAME_MET_USED, 1)
    return DONE


@helper
def meets_tangent(frame, chunk, row, used_up):
    """Status for an array row: whether it reads, or writes, something that has a tangent.

    What a used-up write has written is not known any more.
    """
    at = references(chunk, row)
    status = unmoved(frame, -1 if used_up else 1)
    for k in range(load_i32(row, 8)):
        id = load_i32(at, k * REFERENCE_BYTES + 8)
        if id < -1:
            return MET_FREED if id == PASSED else MET_UNKNOWN
        if tangent_of(frame, id) != 0:
            status = MET_FREED if used_up else WANT_RULE
    return status


@helper
def carry_array(frame, id, row, op):
    """Carry tangents through a row of arrays, to which nothing has written since."""
    if is_pointwise(frame, op):
        carry = load_i64(frame, FRAME_CARRY)
        return carry_call(carry, frame, id) if carry != 0 else WANT_CARRY
    kernel = load_i64(load_i64(frame, FRAME_TANGENT_STRUCTURAL), (op - ARRAY) * 8)
    if kernel == 0:
        store_i64(frame, FRAME_WANTED, op - ARRAY)
        return WANT_STRUCTURAL
    if kernel == 1:
        return WANT_RULE
    tangent_call(kernel, frame, id, reference_of(frame, id, load_i32(row, 4)), FORWARD)
    return DONE


@helper
def second_of(row, op):
    """The second operand of a scalar operation, -1 if it is a constant or there is none."""
    return load_i32(row, 8) if op & 3 == ROW_ROW else -1


@helper
def carry_row(frame, id, chunk, row):
    """Carry tangents through a row that is needed; returns a status."""
    word = load_i32(row, 0)
    op = abs(word)
    i, j = load_i32(row, 4), -1
    if op > ARRAY:
        status = meets_tangent(frame, chunk, row, word < 0)
        if status == WANT_RULE and load_i64(frame, FRAME_WRITES) == 0:
            return carry_array(frame, id, row, op)
        return status
    if op >= 4 * FIRST_CODE:
        j = second_of(row, op)
    elif op == STORE:
        j = load_i32(row, 12)
    elif op != LOAD:
        return DONE
    if j < -1:
        return MET_FREED
    first, second = tangent_of(frame, i), tangent_of(frame, j)
    if first == 0 and second == 0:
        return unmoved(frame, word)
    if word < 0:
        return MET_FREED
    if op == LOAD:
        carry_load(frame, id, row)
    elif op == STORE:
        carry_store(frame, row)
    elif op & 3 == CONSTANT_ROW:
        carry_scalar(frame, id, row, op, -1, i, 0, first)
    else:
        carry_scalar(frame, id, row, op, i, j, first, second)
    return DONE


def carry(frame):
    """Go on from where the frame says; returns why it stopped. The position is the row's then."""
    marks = load_i64(frame, FRAME_MARKS)
    order, position = load_i64(frame, FRAME_AT_ORDER), load_i64(frame, FRAME_AT_POSITION)
    while order <= load_i64(frame, FRAME_START_ORDER):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8)
        rows, base = load_i64(chunk, USED_ROWS), slot << ROWS_BITS
        while position < rows:
            if position & 7 == 0 and load_i64(marks, base + position) == 0:
                position += 8
                continue
            if load_u8(marks, base + position) == 1:
                row = chunk + HEADER_BYTES + position * ROW_BYTES
                status = carry_row(frame, base + position, chunk, row)
                if status != DONE:
                    store_i64(frame, FRAME_AT_ORDER, order)
                    store_i64(frame, FRAME_AT_POSITION, position)
                    return status
            position += 1
        order += 1
        position = 0
    return load_i64(frame, FRAME_MET_FREED)


@helper
def mark_written_for(chunk, base, marks, used):
    """Mark the rows of a chunk that write a buffer which is marked."""
    for position in range(load_i64(chunk, USED_ROWS)):
        row = chunk + HEADER_BYTES + position * ROW_BYTES
        buffer = buffer_written(chunk, row, load_i32(row, 0), used)
        if buffer >= 0:
            if load_u8(marks, buffer) != 0:
                store_u8(marks, base + position, 1)


def has_writes(frame):
    """Whether a marked row writes in place."""
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    for order in range(load_i64(frame, FRAME_START_ORDER) + 1):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk, base = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), slot << ROWS_BITS
        if load_i64(chunk, WRITES) != 0:
            for position in range(load_i64(chunk, USED_ROWS)):
                row = chunk + HEADER_BYTES + position * ROW_BYTES
                if load_u8(marks, base + position) != 0:
                    if buffer_written(chunk, row, abs(load_i32(row, 0)), used) >= 0:
                        return 1
    return 0


def give_again(frame):
    """Make the marked rows ones that are not used up."""
    marks = load_i64(frame, FRAME_MARKS)
    for order in range(load_i64(frame, FRAME_START_ORDER) + 1):
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk, base = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), slot << ROWS_BITS
        if has_marked(marks, slot):
            for position in range(load_i64(chunk, USED_ROWS)):
                if load_u8(marks, base + position) != 0:
                    row = chunk + HEADER_BYTES + position * ROW_BYTES
                    store_i32(row, 0, abs(load_i32(row, 0)))
    return 0


def mark_needed(frame):
    """Mark what the marked rows need, and the writes of their buffers; returns the oldest chunk."""
    marks, used = load_i64(frame, FRAME_MARKS), load_i64(frame, FRAME_USED)
    order = load_i64(frame, FRAME_START_ORDER)
    oldest = order + 1
    while True:
        if order < oldest:
            older = next_marked(frame, order)
            if older < 0:
                return oldest
            oldest = older
        slot = load_i64(load_i64(frame, FRAME_SEQUENCE), order * 8)
        chunk, base = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8), slot << ROWS_BITS
        mark_below(chunk, base, marks, used)
        if load_i64(chunk, WRITES) != 0:
            mark_written_for(chunk, base, marks, used)
        order -= 1
'''


def source() -> str:
    """The text of the module; partials are those of the switch of the reverse sweep."""
    return scalar_rows.source() + _TEXT


#: Called with the interpreter lock held: writes of other threads may not come in between.
EXPORTS = {"carry": 1, "mark_needed": 1, "has_writes": 1, "give_again": 1}

"""Reverse of rows of scalars: operations, reads and writes of cells.

The switch over scalar operations is generated from the table. It is a separate part of the sweep,
called by its address: programs of whole arrays never wait for its compilation.
"""

from ..ops.elementwise_text import ElementwiseText, flagged, of_numbers
from ..ops.table import TABLE, Pointwise

_HEAD = '''
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.vector_math import select
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.adjoint_memory import cell# a copy of its own: it is on the hot road
from tapegrad._core.codegen.shared_kernels import forget
from tapegrad._core.sweep.marking import sweep_store


@helper
def sweep_load(frame, row, address):
    """Reverse of a read cell."""
    buffer = load_i32(row, 4)
    found = adjoint_buffer(frame, buffer)
    if found == 0:
        return
    data = load_i64(base_of(frame, buffer), ARRAY_DATA) + load_i32(row, 8) * 4
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        where = adjoint_place(found, data, seed)
        store_f64(where, 0, load_f64(where, 0) + load_f64(address, seed * 8))


@helper
def other_first_partials(code, kind, x, y, out):
    """Partials of an operation that is no sum or product, and as bits which are 0 everywhere, or
    here, since another operand or piece was taken."""
    apart()
    sx = 0.0
    sy = 0.0
    flat = 0
'''

_TAIL = '''
    return sx, sy, flat


@helper
def first_partials_of(code, kind, x, y, out):
    """Partials of a scalar operation to its operands, and as bits which are 0 for any adjoint.

    Those of sums and products are picked without a jump, which would often be foreseen wrongly.
    """
    inside()
    bit = 1 << code if code < 63 else 0
    if bit & PLAIN:
        sx = y if bit & X_IS_Y else (-1.0 if bit & X_IS_LESS else 1.0)
        sy = x if bit & Y_IS_X else (-1.0 if bit & Y_IS_LESS else 1.0)
        return sx, sy, 0
    return other_first_partials(code, kind, x, y, out)


@helper
def operand_of(frame, id, slot, first_row, cells, stride):
    """Value of a scalar operand, address of its cell, and its position in the chunk being swept.

    Most operands lie there and are found without tables; the position of others counts as ROWS.
    """
    inside()
    if id >> ROWS_BITS == slot:
        position = id & (ROWS - 1)
        return load_f64(first_row + position * ROW_BYTES, 16), cells + position * stride, position
    return load_f64(row_of(frame, id), 16), cell(frame, id), ROWS


@helper
def times(flat, factor, other):
    """A product; a factor that is exactly 0 gives 0, and so does a partial that is (`flat`)."""
    inside()
    return 0.0 if factor == 0.0 or flat != 0 else factor * other


@helper
def pass_on(address, seeds, partial, target):
    """Add a row's adjoint times a partial to an operand's; an adjoint of exactly 0 gives 0."""
    inside()
    for seed in range(seeds):
        part = times(0, load_f64(address, seed * 8), partial)
        store_f64(target, seed * 8, load_f64(target, seed * 8) + (part + 0.0))


@helper
def pass_on_unless(flat, address, seeds, partial, target):
    """The same; a partial that is 0 for any adjoint (`flat`) gives 0, also of an infinite one."""
    inside()
    if flat == 0:
        pass_on(address, seeds, partial, target)
    else:
        for seed in range(seeds):
            store_f64(target, seed * 8, load_f64(target, seed * 8) + 0.0)


@helper
def sweep_scalar(frame, slot, first_row, cells, row, op, address):
    """Reverse of a touched scalar row; returns the lowest position of its operands in the chunk."""
    inside()
    seeds = load_i64(frame, FRAME_SEEDS)
    kind, out = op & 3, load_f64(row, 16)
    x, to_x, at = operand_of(frame, load_i32(row, 4), slot, first_row, cells, seeds * 8)
    if kind == CONSTANT_ROW:
        _, partial, flat = first_partials_of(op >> 2, kind, load_f64(row, 8), x, out)
        pass_on_unless(flat & 2, address, seeds, partial, to_x)
    elif kind == ROW_CONSTANT or load_i32(row, 8) < 0:
        partial, _, flat = first_partials_of(op >> 2, kind, x, load_f64(row, 8), out)
        pass_on_unless(flat & 1, address, seeds, partial, to_x)
    else:
        y, to_y, other = operand_of(frame, load_i32(row, 8), slot, first_row, cells, seeds * 8)
        first, second, flat = first_partials_of(op >> 2, kind, x, y, out)
        pass_on_unless(flat & 1, address, seeds, first, to_x)
        pass_on_unless(flat & 2, address, seeds, second, to_y)
        at = min(at, other)
    return at


@helper
def sweep_other(frame, id, row, op, address):
    """Reverse of a touched row that is neither an operation on scalars nor on arrays."""
    if op == LOAD:
        sweep_load(frame, row, address)
        if not load_i64(frame, FRAME_RETAIN):
            store_i32(row, 0, -op)
    elif op == STORE:
        return sweep_store(frame, row)
    elif op < 0:
        return MET_FREED
    elif op == CONSTANT:
        forget(frame, id)
    return DONE


def scalars(frame, slot, position, stop):
    """Sweep scalar rows of a chunk from `position` down to a row of another kind, to `stop` or
    to the lowest row reached; returns the position there, and the status in the frame."""
    status = DONE
    first_row = load_i64(load_i64(frame, FRAME_CHUNKS), slot * 8) + HEADER_BYTES
    cells = load_i64(load_i64(frame, FRAME_ADJOINTS), slot * 8)
    lowest = load_i64(frame, FRAME_LOWEST) + slot * 8
    stride, retain = load_i64(frame, FRAME_SEEDS) * 8, load_i64(frame, FRAME_RETAIN)
    low = load_i64(lowest, 0)
    while position >= low and position != stop:
        row = first_row + position * ROW_BYTES
        op = load_i32(row, 0)
        if op > ARRAY:
            break
        address = cells + position * stride
        touched = load_i64(address, 0) != UNTOUCHED
        if op >= 4 * FIRST_CODE:
            if touched:
                low = min(low, sweep_scalar(frame, slot, first_row, cells, row, op, address))
                if not retain:
                    store_i32(row, 0, -op)
        elif touched or op == STORE:
            store_i64(lowest, 0, low)
            status = sweep_other(frame, (slot << ROWS_BITS) + position, row, op, address)
            if status != DONE:
                break
            low = load_i64(lowest, 0)
        position -= 1
    store_i64(lowest, 0, low)
    store_i64(frame, FRAME_STATUS, status)
    return position
'''


def _case(op: Pointwise) -> str:
    flat = sum(1 << j for j in range(len(op.inputs)) if j not in op.sloping)
    lines = [f"flat = {flat}"] if flat else []
    for j, partial in ElementwiseText(op, lines.append).slopes(op.sloping).items():
        guard = f"if kind != {2 - j}:\n            " if len(op.inputs) == 2 else ""
        made = [f"s{'xy'[j]} = {partial}", *flagged(partial, 1 << j)]
        lines += [guard + line for line in made]
    body = "\n        ".join(lines)
    return f"if code == {op.code + 1}:\n        {body}"


def _plain() -> dict[str, int]:
    """Bits of the operations whose partials are 1, −1 or the other operand, and which of these."""
    bits = dict.fromkeys(("PLAIN", "X_IS_Y", "X_IS_LESS", "Y_IS_X", "Y_IS_LESS"), 0)
    named = {"y": "IS_Y", "x": "IS_X", "-1.0": "IS_LESS"}
    for op in [one for one in of_numbers() if one.name in TABLE]:
        slopes = ElementwiseText(op, lambda _: None).slopes(op.sloping)
        plain = [op.signs[j] or slopes.get(j) == "yx"[j] for j in range(len(op.inputs))]
        if not all(plain) or op.code > 61:
            continue
        bits["PLAIN"] |= 2 << op.code
        for j, partial in slopes.items():
            if partial in named:
                bits[f"{'XY'[j]}_{named[partial]}"] |= 2 << op.code
    return bits


def source() -> str:
    """The text of the module: the switch contains every operation that rows of numbers may hold."""
    constants = "".join(f"{name} = {value}\n" for name, value in _plain().items())
    return constants + _HEAD + "    " + "\n    el".join(map(_case, of_numbers())) + _TAIL

"""Reverse of scalar rows in a sweep of second order: adjoints and their tangents.

The text is that of `scalar_rows`, whose function for one row is taken over at the end. Seed 0 is
the adjoint g, seed 1 its tangent h. An operand gets g · p and h · p + Σ (g · t) · q, where p is the
partial derivative, t the tangent of an operand and q the derivative of that operand's p.
"""

from ..ops.elementwise_text import ElementwiseText, flagged, of_numbers
from ..ops.symbolic import partials_of
from ..ops.table import Pointwise
from . import scalar_rows

#: Bits of the partials and of their derivatives; and those of all that an operand gets.
_BITS = {"sx": 1, "sy": 2, "xx": 4, "xy": 8, "yx": 16, "yy": 32}
_TO = (1 | 4 | 16, 2 | 8 | 32)

_HEAD = '''

@helper
def other_partials(code, kind, x, y, out):
    """First and second partials of an operation that is no sum or product, as `partials_at`."""
    apart()
    sx = sy = xx = xy = yx = yy = 0.0
    flat = 0
'''

_TAIL = '''
    return sx, sy, flat, xx, xy, yx, yy


@helper
def partials_at(code, kind, x, y, out):
    """Partials to x and y, which of all are 0 whatever they multiply as bits, and derivatives of
    the partials: that to x by x and by y, that to y by x and by y."""
    inside()
    bit = 1 << code if code < 63 else 0
    if bit & PLAIN:
        sx, sy, flat = first_partials_of(code, kind, x, y, out)
        return sx, sy, flat, 0.0, 1.0 if bit & X_IS_Y else 0.0, 1.0 if bit & Y_IS_X else 0.0, 0.0
    return other_partials(code, kind, x, y, out)


@helper
def scalar_tangent(tangents, id):
    """The tangent of a scalar row; −0.0 or 0.0 if it has none."""
    inside()
    cells = load_i64(load_i64(tangents, FRAME_ADJOINTS), (id >> ROWS_BITS) * 8)
    return load_f64(cells, (id & (ROWS - 1)) * 8) if cells != 0 else 0.0


@helper
def pass_on_both(flat, g, h, partial, curved, target):
    """Add to an operand's adjoint, and to the tangent of that."""
    inside()
    first, second = times(flat, g, partial), times(flat, h, partial) + curved
    store_f64(target, 0, load_f64(target, 0) + (first + 0.0))
    store_f64(target, 8, load_f64(target, 8) + (second + 0.0))


@helper
def sweep_scalar(frame, slot, first_row, cells, row, op, address):
    """Reverse of a touched scalar row; returns the lowest position of its operands in the chunk."""
    inside()
    kind, out = op & 3, load_f64(row, 16)
    g, h, tangents = load_f64(address, 0), load_f64(address, 8), load_i64(frame, FRAME_TANGENTS)
    x, to_x, at = operand_of(frame, load_i32(row, 4), slot, first_row, cells, 16)
    along = times(0, scalar_tangent(tangents, load_i32(row, 4)), g)
    if kind == CONSTANT_ROW:
        _, partial, flat, _, _, _, q = partials_at(op >> 2, kind, load_f64(row, 8), x, out)
        pass_on_both(flat & 2, g, h, partial, times(flat & 32, along, q), to_x)
    elif kind == ROW_CONSTANT or load_i32(row, 8) < 0:
        partial, _, flat, q, _, _, _ = partials_at(op >> 2, kind, x, load_f64(row, 8), out)
        pass_on_both(flat & 1, g, h, partial, times(flat & 4, along, q), to_x)
    else:
        y, to_y, other = operand_of(frame, load_i32(row, 8), slot, first_row, cells, 16)
        across = times(0, scalar_tangent(tangents, load_i32(row, 8)), g)
        sx, sy, flat, xx, xy, yx, yy = partials_at(op >> 2, kind, x, y, out)
        curved = times(flat & 4, along, xx) + times(flat & 16, across, yx)
        pass_on_both(flat & 1, g, h, sx, curved, to_x)
        curved = times(flat & 8, along, xy) + times(flat & 32, across, yy)
        pass_on_both(flat & 2, g, h, sy, curved, to_y)
        at = min(at, other)
    return at
'''


def _case(op: Pointwise) -> str:
    partials = partials_of(op)
    assert partials is not None
    flat = sum(_TO[j] for j in range(len(op.inputs)) if j not in op.sloping)
    (sx, *_), ((xx, *_), *_) = partials.partials, partials.second
    groups = {"kind != 2": {"sx": sx, "xx": xx}}
    if len(op.inputs) == 2:
        (_, xy), (yx, yy) = partials.second
        groups["kind != 1"] = {"sy": partials.partials[1], "yy": yy}
        groups["kind == 0"] = {"xy": xy, "yx": yx}
    lines = [f"flat = {flat}"]
    for guard, variables in groups.items():
        wanted = {variable: text for variable, text in variables.items() if text != "0.0"}
        body: list[str] = []
        text = ElementwiseText(partials, body.append, step=f"{{}}_{op.code}")
        made = text.expressions(*wanted.values())
        body += [f"{variable} = {name}" for variable, name in zip(wanted, made, strict=True)]
        for variable, name in wanted.items():
            (partial,) = text.expressions(partials.selection(name))
            body += flagged(partial, _BITS[variable])
        lines += [f"if {guard}:", *["    " + line for line in body]] if wanted else []
    return f"if code == {op.code + 1}:\n        " + "\n        ".join(lines)


def source() -> str:
    """The text of the module: the switch contains every operation that rows of numbers may hold."""
    cases = "\n    el".join(map(_case, of_numbers()))
    return scalar_rows.source() + _HEAD + "    " + cases + _TAIL

"""Rows of calls: of compiled functions, of Python functions, of values without derivative."""

from tapegrad._core.codegen.layout import (
    ARRAY,
    ARRAY_DATA,
    ARRAY_SHAPE,
    CALL_ADJOINT,
    CALL_BYTES,
    CALL_DATA,
    CALL_PYTHON,
    CALL_SHAPE,
    CALL_TARGET,
    CALL_VALUE,
    FRAME_ANSWERED,
    FRAME_SEEDS,
    FRAME_STATUS,
    FRAME_WANTED,
    FRAME_WANTED_MASK,
    REFERENCE_BYTES,
    REFUSED,
    TAG_ARRAY,
    TAG_SCALAR,
)
from tapegrad._core.codegen.sweep_frame import (
    add_to_cell,
    adjoint_buffer,
    adjoint_place,
    base_of,
    count_of,
    is_scalar,
    item_bytes,
    row_of,
    scalar_operand,
)

from ..codegen.intrinsics import (
    bits_of,
    called,
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    store_f64,
    store_i64,
)
from .table import Structural, structural

# --- Rows whose adjoint is a compiled function of a user's, called by its address -----------------
# Their references: the operands, arrays of the outputs' shapes, the number of outputs, the address
# of the bridge, and the row's array, in which the outputs are contiguous. The bridge (see
# `njit_adjoints`) gets one entry of words for each operand and output: the addresses of its
# elements and of their adjoint, its shape; numbers and their adjoints lie in the entry.


@helper
def enter_number(ref, entry):
    """An operand that is a number: it and its adjoint lie in the entry."""
    store_i64(entry, CALL_VALUE, load_i64(ref, 0))
    store_f64(entry, CALL_ADJOINT, 0.0)
    store_i64(entry, CALL_DATA, entry + CALL_VALUE)
    store_i64(entry, CALL_TARGET, entry + CALL_ADJOINT)


@helper
def enter_array(frame, array, data, source, seed, entry):
    """The elements at `data`, and the adjoint buffer of the row `source` if it has one."""
    found = adjoint_buffer(frame, source) if source >= 0 else 0
    store_i64(entry, CALL_DATA, data)
    store_i64(entry, CALL_TARGET, adjoint_place(found, data, seed) if found != 0 else 0)
    store_i64(entry, CALL_SHAPE, load_i64(array, ARRAY_SHAPE))


@helper
def enter_operands(frame, refs, operands, seed, entries):
    for k in range(operands):
        ref, entry = refs + k * REFERENCE_BYTES, entries + k * CALL_BYTES
        if load_i32(ref, 12) == TAG_ARRAY:
            array = load_i64(ref, 0)
            data = load_i64(array, ARRAY_DATA)
            enter_array(frame, array, data, load_i32(ref, 8), seed, entry)
        else:
            enter_number(ref, entry)
            if is_scalar(ref):
                store_i64(entry, CALL_VALUE, bits_of(scalar_operand(frame, ref)))


@helper
def enter_outputs(frame, refs, outputs, id, seed, entries):
    whole = base_of(frame, id)
    data = load_i64(whole, ARRAY_DATA)
    for k in range(outputs):
        array = load_i64(refs, k * REFERENCE_BYTES)
        enter_array(frame, array, data, id, seed, entries + k * CALL_BYTES)
        data += count_of(array) * item_bytes(frame, whole)


def called_adjoint(frame, id, refs, task):
    """References: operands, outputs, how many outputs, the bridge, the row's array."""
    row = row_of(frame, id)
    count = load_i32(row, 8)
    outputs = load_i64(refs, (count - 3) * REFERENCE_BYTES)
    bridge = load_i64(refs, (count - 2) * REFERENCE_BYTES)
    operands = count - 3 - outputs
    entries = malloc((operands + outputs) * CALL_BYTES)
    for seed in range(load_i64(frame, FRAME_SEEDS)):
        enter_operands(frame, refs, operands, seed, entries)
        places = refs + operands * REFERENCE_BYTES
        enter_outputs(frame, places, outputs, id, seed, entries + operands * CALL_BYTES)
        answer = called(bridge, entries)
        if answer != 0:
            store_i64(frame, FRAME_STATUS, REFUSED)
            store_i64(frame, FRAME_WANTED, load_i32(row, 0) - ARRAY)
            store_i64(frame, FRAME_WANTED_MASK, answer)
            break
        for k in range(operands):
            ref = refs + k * REFERENCE_BYTES
            if load_i32(ref, 12) == TAG_SCALAR:
                part = load_f64(entries, k * CALL_BYTES + CALL_ADJOINT)
                add_to_cell(frame, load_i32(ref, 8), seed, part)
    free(entries)


def declaration(name: str, code: int, refusal) -> Structural:
    """The declaration of an operation of this kind; `refusal` describes its bridge's result."""
    doc = f"{name}, an operation of a user's with a compiled adjoint"
    helpers = (enter_number, enter_array, enter_operands, enter_outputs)
    return Structural(
        name, code, doc, adjoint=called_adjoint, helpers=helpers, refusal=refusal, layout=""
    )


# --- Rows whose adjoint is a Python function: the sweep stops there and continues afterwards ------
# It is the rule of the row's operation, or else that of the object which the row refers to first.


def python_adjoint(frame, id, refs, task):
    """The first call requests Python, the second finds that it is done.

    The request is the row, and the code of its operation.
    """
    if load_i64(frame, FRAME_ANSWERED):
        store_i64(frame, FRAME_ANSWERED, 0)
    else:
        store_i64(frame, FRAME_STATUS, CALL_PYTHON)
        store_i64(frame, FRAME_WANTED, id)
        store_i64(frame, FRAME_WANTED_MASK, load_i32(row_of(frame, id), 0) - ARRAY)


structural(
    "function",
    python_adjoint,
    example='type("Twice", (tg.autograd.Function,), {"forward": lambda ctx, x: 2.0 * x, '
    '"backward": lambda ctx, g: 2.0 * g}).apply(x)',
    doc="a function whose backward is written in Python",
    graph=lambda found: f"{found[0][1]}Backward",
)


# --- Rows of values without derivative, recorded while a program is traced; not in the table ------
# References: the call, as an object; the recorded operands; the output.


def computed_adjoint(frame, id, refs, task):
    """Nothing passes on."""


def no_adjoints(np, g, _out, *_operands):
    return (None,) * len(_operands)


def no_tangent(np, t, _out, *_operands):
    return None


COMPUTED = structural(
    "computed",
    computed_adjoint,
    vjp=no_adjoints,
    jvp=no_tangent,
    layout="call",
    doc="a mask, an index or another value without derivative, in a traced program",
    table={},
)

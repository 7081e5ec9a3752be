"""The call of a kernel of a structural operation from a program, in a sweep of one row.

The part's data hold all that such a sweep has in memory as it would lie at address 0: a frame, one
cell per operand and for the output, adjoint buffers, references, the arrays' descriptions. A call
copies them to scratch memory and adds addresses: that of the copy, and those where this run has
values and adjoints. An adjoint buffer without memory of its own says where adjoints are relative to
values.
"""

from ..._core.codegen import machine_types as types
from ..._core.codegen.intrinsics import (
    call_address,
    helper,
    i64s,
    load_i64,
    memcpy,
    store_i32,
    store_i64,
)
from ..._core.codegen.layout import (
    DONE,
    FRAME_SCRATCH,
    FRAME_STATUS,
    FRAME_WANTED,
    FRAME_WANTED_MASK,
    REVERSE,
)
from ..._core.codegen.sweep_frame import ADJOINT_HEADER
from .run_layout import (
    FINISHED,
    REFUSED,
    RUN_ADJOINT_BASES,
    RUN_ANSWER,
    RUN_REFUSED,
    RUN_SCRATCH,
    RUN_VALUE_BASES,
)

#: The data: addresses of the kernels, the output's row, where its references are, how many bytes
#: are copied, how many words are addresses in the copy, and in bases; how many adjoint buffers
#: there are; the sweep's memory, and for each of those words where it is (and of which base). An
#: operation by rule has the address of its rule's words in place of a kernel in reverse (see
#: `rule_kernels`).
(
    K_FORWARD,
    K_REVERSE,
    K_ROW,
    K_REFERENCES,
    K_BYTES,
    K_INSIDE,
    K_OUTSIDE,
    K_ADJOINT_BUFFERS,
    K_COPY,
) = range(0, 72, 8)
PAIR, TRIPLE = 16, 24

kernel_call = call_address(types.none(types.int64, types.int64, types.int64, types.int64))


@helper
def lay_out(run, data):
    """Copy the sweep's memory and add addresses; returns its address, and the words after it."""
    to, size = load_i64(run, RUN_SCRATCH), load_i64(data, K_BYTES)
    memcpy(to, data + K_COPY, size)
    store_i64(to, FRAME_SCRATCH, to + size)
    at = data + K_COPY + size
    for _ in range(load_i64(data, K_INSIDE)):
        word = to + load_i64(at, 0)
        store_i64(word, 0, load_i64(word, 0) + to)
        at += 8
    values = i64s(load_i64(run, RUN_VALUE_BASES))
    for _ in range(load_i64(data, K_OUTSIDE)):
        word = to + load_i64(at, 0)
        store_i64(word, 0, load_i64(word, 0) + values[load_i64(at, 8)])
        at += PAIR
    return to, at


@helper
def kernel_forward(run, data):
    frame, _ = lay_out(run, data)
    row, references = load_i64(data, K_ROW), frame + load_i64(data, K_REFERENCES)
    kernel_call(load_i64(data, K_FORWARD), frame, row, references, REVERSE)
    if load_i64(frame, FRAME_STATUS) != DONE:
        store_i64(run, RUN_REFUSED, load_i64(frame, FRAME_WANTED))
        store_i64(run, RUN_ANSWER, load_i64(frame, FRAME_WANTED_MASK))
        return REFUSED
    return FINISHED


@helper
def kernel_reverse(run, data):
    """An operand without memory for its adjoint is one that has no derivative."""
    frame, at = lay_out(run, data)
    values = i64s(load_i64(run, RUN_VALUE_BASES))
    adjoints = i64s(load_i64(run, RUN_ADJOINT_BASES))
    for _ in range(load_i64(data, K_ADJOINT_BUFFERS)):
        adjoint_buffer, base = frame + load_i64(at, 0), load_i64(at, 8)
        store_i64(
            adjoint_buffer, 8, adjoint_buffer + ADJOINT_HEADER + values[base] - adjoints[base]
        )
        if adjoints[base] == 0:
            store_i32(frame + load_i64(at, 16), 8, -1)
        at += TRIPLE
    row, references = load_i64(data, K_ROW), frame + load_i64(data, K_REFERENCES)
    kernel_call(load_i64(data, K_REVERSE), frame, row, references, REVERSE)
    return FINISHED


EXPORTS = ("kernel_forward", "kernel_reverse")
TEXT = "from tapegrad._program.replay import structural_kernels\n" + "".join(
    f"\n\ndef {name}(run, data):\n    return structural_kernels.{name}(run, data)\n"
    for name in EXPORTS
)

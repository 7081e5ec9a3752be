"""Rows whose adjoint is a Python function: the sweep stops there and continues afterwards.

It is the rule of the row's operation, or else that of the object which the row refers to first.
"""

from tapegrad._core.codegen.intrinsics import load_i32, load_i64, store_i64
from tapegrad._core.codegen.layout import (
    ARRAY,
    CALL_PYTHON,
    FRAME_ANSWERED,
    FRAME_STATUS,
    FRAME_WANTED,
    FRAME_WANTED_MASK,
)
from tapegrad._core.codegen.sweep_frame import row_of

from .table import structural


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

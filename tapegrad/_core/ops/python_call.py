"""Rows whose adjoint is a function of Python's: the sweep stops there and goes on when it is done.

References: the object that passes the adjoint on, the operands, the output.
"""

from tapegrad._core.codegen.intrinsics import load_i64, store_i64
from tapegrad._core.codegen.layout import CALL_PYTHON, FRAME_ANSWERED, FRAME_STATUS

from .table import structural


def function_adjoint(frame, id, refs, task):
    """The first call asks for Python, the second finds that it has answered."""
    if load_i64(frame, FRAME_ANSWERED):
        store_i64(frame, FRAME_ANSWERED, 0)
    else:
        store_i64(frame, FRAME_STATUS, CALL_PYTHON)


structural(
    "function",
    function_adjoint,
    example='type("Twice", (tg.autograd.Function,), {"forward": lambda ctx, x: 2.0 * x, '
    '"backward": lambda ctx, g: 2.0 * g}).apply(x)',
    doc="a function whose backward is written in Python",
)

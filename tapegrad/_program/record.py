"""`record`: the tape of what a function computes, to look at."""

from __future__ import annotations

import numpy as np

from .._core.tape.tape import Tape, extract
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.values import is_recorded, value_of
from .._derivatives.inputs import Inputs


def record(f, *args, **kwargs) -> Tape:
    """Call `f` and return the tape of what it computed from its arguments.

    The arguments are floats, arrays, or nested tuples, lists and dicts of them. The tape prints one
    row a line, `len()` counts its rows, `nbytes` its bytes, `check()` raises ValueError if it is
    not legal. Raises ValueError when no result depends on an argument.

    >>> import tapegrad as tg
    >>> tape = tg.record(lambda x, y: x * y + 2.0 * x, 3.0, 4.0)
    >>> tape
    tape of 5 rows, 296 bytes
        0  input                                         3
        1  input                                         4
        2  multiply     %0 %1                            12
        3  multiply     2 %0                             6
        4  add          %2 %3                            18  output
    """
    with rt.recording():
        inputs = Inputs("record", args, tuple(range(len(args))))
        out = f(*inputs.args, **kwargs)
        outputs = [value for _, value in tree_leaves(out) if is_recorded(value)]
        if not outputs:
            shapes = [np.shape(value_of(value)) for _, value in tree_leaves(out)]
            raise ValueError(
                f"tapegrad.record: the function's results, of shapes {shapes}, do not depend on "
                "its arguments through recorded operations"
            )
        return extract([output._id for output in outputs])

"""`record`: the tape of what a function computes, for inspection."""

from __future__ import annotations

import numpy as np

from .._core.tape.tape import Tape, extract
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.values import is_recorded, value_of
from .._derivatives.inputs import Inputs
from .._entering.entering import entering


def record(f, *args, **kwargs) -> Tape:
    """Call `f` and return the tape of the operations that its result depends on.

    Parameters
    ----------
    f : callable
        A function of floats, arrays, and nested tuples, lists and dicts of them.
    *args
        The arguments of `f`. All of them become inputs of the tape.
    **kwargs
        Keyword arguments of `f`, which are constants.

    Returns
    -------
    Tape
        It prints one row per line; `len(tape)` is the number of rows, `tape.nbytes` their size in
        bytes.

    Raises
    ------
    ValueError
        If no result depends on an argument.

    Examples
    --------
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
        out = entering(f)(*inputs.args, **kwargs)
        outputs = [value for _, value in tree_leaves(out) if is_recorded(value)]
        if not outputs:
            shapes = [np.shape(value_of(value)) for _, value in tree_leaves(out)]
            raise ValueError(
                f"tapegrad.record: the function's results, of shapes {shapes}, do not depend on "
                "its arguments through recorded operations"
            )
        return extract([output._id for output in outputs])

"""Of whom a number is where nothing is recorded: Python's or NumPy's, for code that asks."""

from ..codegen.intrinsics import helper, load_i32, load_i64
from ..codegen.layout import (
    OBJECT_TYPE,
    OF_EITHER,
    OF_NUMPY,
    OF_PYTHON,
    SCALAR_KIND,
    STATE_FLOAT_TYPE,
    STATE_INT_TYPE,
    STATE_SCALAR_TYPE,
)
from .rows import state


@helper
def kind_at(operand):
    """Of whom an operand is, a scalar tensor or a number, where nothing is recorded."""
    S = state()
    kind = load_i64(operand, OBJECT_TYPE)
    if kind == load_i64(S, STATE_SCALAR_TYPE):
        return load_i32(operand, SCALAR_KIND)
    is_own = kind == load_i64(S, STATE_FLOAT_TYPE) or kind == load_i64(S, STATE_INT_TYPE)
    return OF_PYTHON if is_own else OF_NUMPY


@helper
def kind_of_two(a, b):
    """The same of the result of an operator."""
    first, second = kind_at(a), kind_at(b)
    return first if first > second else second


@helper
def not_of_python(kind):
    """The kind of what Python's and NumPy's functions compute by the same row."""
    return kind if kind == OF_NUMPY else OF_EITHER

"""Native recording: the operators of tensors as compiled slots of two CPython types.

A scalar tensor is an object of 40 bytes: value, row (-1: not recorded), chunk. `a * b` calls a
compiled function that computes the value, appends a row of 24 bytes and makes the result, some 40
ns in all; without a row if recording is off or no operand has one. Arrays use NumPy's operator in
between (see `array_operators`). Other cases call a Python function.
"""

from ..codegen.factory import compile_source
from ..codegen.layout import OPERATORS
from ..ops.table import TABLE

_HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.cpython import call_none, decref, int_as_word
from tapegrad._core.codegen.vector_math import select
from tapegrad._core.recorder import array_operators, number_ufuncs, python_calls, rows
from tapegrad._core.recorder.rows import is_fine, mode, number_at, result_of_two, scalar_row
from tapegrad._core.recorder.rows import slow, state
from tapegrad._core.recorder.number_ufuncs import kind_at, kind_of_two
from tapegrad._core.codegen import machine_types as types

operator_call = call_address(types.int64(*[types.int64] * 5))
subscript_call = call_address(types.int32(types.int64, types.int64, types.int64))
"""

_BINARY = """

def {operator}(a, b{third}):
    S = state()
    {modulo}
    scalar = load_i64(S, STATE_SCALAR_TYPE)
    how = mode()
    if how != WATCHED and (
        load_i64(a, OBJECT_TYPE) == scalar or load_i64(b, OBJECT_TYPE) == scalar
    ):
        first, x, row = number_at(a, how)
        second, y, other = number_at(b, how)
        if first and second:
            {square}
            value = {value}
            if is_fine(value):
                return result_of_two({op}, x, row, y, other, value, kind_of_two(a, b))
    arrays = load_i64(S, STATE_ARRAY_OPERATOR)
    return operator_call(arrays, a, b, {number}, {code}, {constants})
"""

_SQUARE = """if other < 0 and y == 2.0 and is_fine(x * x):
                return scalar_row({square_op}, row, -1, 0.0, x * x, kind_of_two(a, b))"""

_MODULO = """if modulus != load_i64(S, STATE_NONE):
        return slow(a, b, {number})"""

_NEGATIVE = """

def negative(a):
    S = state()
    how = mode()
    if how != WATCHED and load_i64(a, OBJECT_TYPE) == load_i64(S, STATE_SCALAR_TYPE):
        _, x, row = number_at(a, how)
        return scalar_row({op}, row, -1, 0.0, -x, kind_at(a))
    return operator_call(load_i64(S, STATE_ARRAY_OPERATOR), a, a, {number}, {code}, 0)
"""

_SUBSCRIPT = """

def set_subscript(a, b, c):
    S = state()
    if load_i64(S, STATE_SET_SUBSCRIPT) == 0:
        made = call_none(load_i64(S, STATE_COMPILE_WRITES))
        if made == 0:
            return -1
        decref(made)
    return subscript_call(load_i64(S, STATE_SET_SUBSCRIPT), a, b, c)
"""

#: Writes have a module of their own, compiled at the first one.
_WRITES = """
from tapegrad._core.recorder import array_operators


def set_subscript(a, b, c):
    return array_operators.set_subscript(a, b, c)


def write_whole(self, arguments, count):
    return array_operators.write_whole(arguments, count)
"""

#: Slots of CPython's types for the operators that are compiled.
SLOTS = {
    "add": "nb_add",
    "subtract": "nb_subtract",
    "multiply": "nb_multiply",
    "divide": "nb_true_divide",
    "power": "nb_power",
    "negative": "nb_negative",
}

#: Functions for Python, each called as `f(*arguments)`.
FUNCTIONS = (
    "row",
    "view_of",
    "wrap",
    "attach",
    "hold",
    "scalar_leaf",
    "load",
    "same_place",
    "scalar_at",
    "as_float",
)

_SHARED = {
    "array_operator": ("array_operators.array_operator", 5),
    "tensor_item": ("array_operators.tensor_item", 2),
    "number_ufunc": ("number_ufuncs.number_ufunc", 4),
    "ufunc_called": ("number_ufuncs.ufunc_called", 4),
    "free_scalar": ("rows.release_scalar", 1),
    "free_tensor": ("rows.release_tensor", 1),
    "class_of": ("rows.class_of", 1),
}


def called_by_number(functions: list[str]) -> str:
    """The text of `call`, which serves builtins that give their number as self."""
    text = "\n\ndef call(self, arguments, count):\n    number = int_as_word(self)\n"
    for number, function in enumerate(functions):
        text += f"    if number == {number}:\n        return {function}(arguments, count)\n"
    return text + "    return 0\n"


def _binary(name: str) -> str:
    op, square = TABLE[name], TABLE["square"].code
    power = name == "power"
    return _BINARY.format(
        operator=name,
        third=", modulus" if power else "",
        modulo=_MODULO.format(number=OPERATORS.index("power_modulo")) if power else "",
        value=op.value,
        op=4 * (op.code + 1),
        code=op.code,
        number=OPERATORS.index(name),
        square=_SQUARE.format(square_op=4 * (square + 1)) if power else "",
        constants=int(op.used == 0),
    )


def source() -> str:
    """The text of the recorder's module."""
    text = _HEAD
    for name in SLOTS:
        code = TABLE[name].code
        if name == "negative":
            text += _NEGATIVE.format(op=4 * (code + 1), code=code, number=OPERATORS.index(name))
        else:
            text += _binary(name)
    for name, (function, count) in _SHARED.items():
        arguments = ", ".join("abcdef"[:count])
        text += f"\n\ndef {name}({arguments}):\n    return {function}({arguments})\n"
    text += _SUBSCRIPT
    return text + called_by_number([f"python_calls.{name}" for name in FUNCTIONS])


def compile_recorder() -> dict[str, int]:
    """Addresses of the slots and functions of the recorder."""
    counts = {name: 2 for name in SLOTS} | {"power": 3, "negative": 1}
    counts |= {name: count for name, (_, count) in _SHARED.items()}
    counts |= {"call": 3, "set_subscript": 3}
    result = {"free_scalar": "void", "free_tensor": "void", "set_subscript": "int32"}
    return compile_source(
        source(),
        {
            name: f"{result.get(name, 'int64')}({', '.join(['int64'] * count)})"
            for name, count in counts.items()
        },
    )


def compile_writes() -> dict[str, int]:
    """Addresses of what the slot for `t[key] = value` and `del t[key]` calls, and of the builtin
    that writes a whole tensor."""
    word = "(int64, int64, int64)"
    return compile_source(_WRITES, {"set_subscript": "int32" + word, "write_whole": "int64" + word})

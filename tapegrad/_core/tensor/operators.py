"""Operators of tensors that compiled slots do not cover, and results written to `out=`."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..codegen.layout import OF_OPERANDS, OF_PYTHON
from ..tape import native_types
from . import runtime
from . import runtime as rt
from .apply import ELEMENTWISE_OF_COMPLEX, apply, ufunc_of
from .complex_tensors import ComplexTensor, is_complex
from .copies import in_dtype, unlisted
from .indexing import WRITE, get_item, set_item
from .lost_derivatives import by_operator, written
from .plain_data import repeats
from .row_listeners import observed
from .trace import fixed, note_equal, steering_tensor
from .values import (
    FLOATS,
    check_casting,
    dtype_of,
    is_container,
    is_number,
    is_recorded,
    is_tensor,
    shape_of,
)

# --------------------------------------------------------------------------------------------------
# Operators of tensors that compiled slots do not cover, and calls from compiled code to Python.


def power(x, y):
    """Raise x to the power y, element by element.

    The partial derivatives are y·xʸ⁻¹ and xʸ log x. At x = 0 the one with respect to y is 0, for
    x < 0 it is NaN. Where y is a Python number that is whole or a half, up to 16 or −16, arrays are
    raised by products, reciprocals and square roots.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(tg.power)(3.0, 2.0)
    6.0
    """
    return apply("power", x, y)


#: Python's names of operators that NumPy names differently.
_OPERATORS = {"subtract": "sub", "multiply": "mul", "divide": "truediv", "remainder": "mod"}
_OPERATORS |= {"floor_divide": "floordiv"}


def _binary(name):
    theirs = getattr(operator, _OPERATORS.get(name, name))

    def method(x, y):
        if not _understands(y) or not _understands(x):
            return by_operator(theirs.__name__.strip("_"), x, y)
        x, y = _float_of(x), _float_of(y)
        if runtime.is_loud():
            return observed(theirs, functools.partial(apply, name), (x, y), {})
        return apply(name, x, y)

    return method


def _understands(operand) -> bool:
    kinds = (rt.Tensor, np.ndarray, np.generic, int, float, complex, list, tuple, ComplexTensor)
    return isinstance(operand, kinds) or _is_fraction(operand) or is_container(operand)


def _float_of(operand):
    """A fraction converted to a float, as beside a float; else the operand."""
    return float(operand) if _is_fraction(operand) else operand


def _is_fraction(operand) -> bool:
    """Tested by name: importing `fractions` takes longer than any module of tapegrad."""
    kind = type(operand)
    return kind.__name__ == "Fraction" and kind.__module__ == "fractions"


def _multiply(x, y):
    """A product, or a list or tuple repeated where NumPy has an integer for a tensor."""
    for number, other in ((x, y), (y, x)):
        if issubclass(type(other), (list, tuple)) and rt.in_transform() and repeats(number):
            return NotImplemented
    return _product(x, y)


_product = _binary("multiply")


def _power_method(x, y):
    if not _understands(y) or not _understands(x):
        return NotImplemented
    ours = ELEMENTWISE_OF_COMPLEX["power"] if is_complex(x) or is_complex(y) else power
    x, y = _float_of(x), _float_of(y)
    return observed(operator.pow, ours, (x, y), {}) if runtime.is_loud() else ours(x, y)


def _power_modulo(x, y):
    raise TypeError("tapegrad: pow() with three arguments supports integers only; use (x ** y) % z")


def _delete(tensor, key):
    raise TypeError(
        "tapegrad: elements of a tensor cannot be deleted; select the elements to keep instead"
    )


rt.slow.update(
    add=_binary("add"),
    subtract=_binary("subtract"),
    multiply=_multiply,
    divide=_binary("divide"),
    power=_power_method,
    item=get_item,
    negative=lambda x, _: apply("negative", x),
    set_item=set_item,
    delete_item=_delete,
    power_modulo=_power_modulo,
)


def _reflected(function):
    return lambda self, other: function(other, self)


_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}


def _is_of_python(x) -> bool:
    """Whether a tensor stands for a Python float, whose comparisons are Python's."""
    return type(x) is rt.Scalar and x._kind == OF_PYTHON


def _compare(name):
    function = getattr(operator, name)

    def method(x, y):
        of_python = _is_of_python(x) and (type(y) in (float, int) or _is_of_python(y))
        if of_python and rt.trace() is None and rt.in_transform():
            return function(x._value, y if type(y) is not rt.Scalar else y._value)
        if is_complex(y):
            return ELEMENTWISE_OF_COMPLEX[_COMPARISONS[name]](x, y)
        if not _understands(y):
            return NotImplemented
        made = steering_tensor(function, x, _float_of(unlisted(y)))
        if of_python and rt.trace() is not None:
            rt.trace().truths.add(made._id)
        elif name == "eq" and type(x) is rt.Array and x.ndim:
            note_equal(made)
        return made

    return method


def divided(x, y):
    """Compute `x // y` and `x % y`, element by element.

    Returns
    -------
    tuple of Tensor, ndarray or number
        The quotient, whose derivative is zero, and the remainder.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.divmod(tg.tensor([7.0, -7.0]), 3.0)
    (tensor([ 2., -3.]), tensor([1., 2.]))
    """
    return apply("floor_divide", x, y), apply("remainder", x, y)


def _divmod_method(x, y):
    return divided(x, y) if _understands(x) and _understands(y) else NotImplemented


#: Types of operands that make a number; recorded ones are added when their class exists.
_NUMBERS: set[type] = {float, int, np.float64}
rt.on_start.append(lambda: _NUMBERS.add(rt.Scalar))


@functools.cache
def _of_numbers(name: str):
    """The ufunc of an operator, whose results are Python's numbers of such operands."""
    return native_types.calling(ufunc_of(name), ufunc_of(name), OF_OPERANDS)


def _of_two(name):
    """A binary operator that has no slot: of numbers the ufunc, which is compiled for them."""
    method = _binary(name)

    def of_two(x, y):
        if type(x) in _NUMBERS and type(y) in _NUMBERS:
            return _of_numbers(name)(x, y)
        return method(x, y)

    return of_two


def _absolute(x):
    return _of_numbers("absolute")(x) if type(x) is rt.Scalar else apply("absolute", x)


def _logical(name):
    function = getattr(operator, name)
    return lambda x, y: steering_tensor(function, x, y)


METHODS = {
    "__abs__": _absolute,
    "__pos__": lambda self: apply("multiply", self, 1.0),
    "__mod__": _of_two("remainder"),
    "__rmod__": _reflected(_of_two("remainder")),
    "__floordiv__": _of_two("floor_divide"),
    "__rfloordiv__": _reflected(_of_two("floor_divide")),
    "__divmod__": _divmod_method,
    "__rdivmod__": _reflected(_divmod_method),
    "__invert__": lambda self: steering_tensor(operator.invert, self),
}
_LOGICAL = {name: _logical(f"__{name}__") for name in ("and", "or", "xor", "lshift", "rshift")}
METHODS |= {f"__{name}__": _compare(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
METHODS |= {f"__{name}__": method for name, method in _LOGICAL.items()}
METHODS |= {f"__r{name}__": _reflected(method) for name, method in _LOGICAL.items()}

for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


# --- in place ---------------------------------------------------------------------------------


def _in_place(name, function):
    def method(self, other):
        changed = function(self, other)
        if changed is NotImplemented or is_number(self):
            return changed
        if type(changed) is ComplexTensor:
            check_casting(name, changed.dtype, self)
        if type(changed) is not rt.Array or not native_types.write_whole()(WRITE, self, changed):
            if function is not operator.floordiv:  # for whole numbers in any dtype
                check_casting(name, dtype_of(changed), self)
            self[...] = changed
        return self

    return method


_IN_PLACE = {
    "__iadd__": operator.add,
    "__isub__": operator.sub,
    "__imul__": operator.mul,
    "__itruediv__": operator.truediv,
    "__ipow__": operator.pow,
    "__imod__": operator.mod,
    "__ifloordiv__": operator.floordiv,
}


def _add_in_place() -> None:
    for name, function in _IN_PLACE.items():
        setattr(rt.Array, name, _in_place(name.strip("_"), function))


rt.on_start.append(_add_in_place)


# --- Results written to NumPy's `out=` and `where=` -----------------------------------------------


def written_to(name: str, result, out, where=True, casting="same_kind", broadcast=False):
    """A result; in `out`, a tensor or an array, where one is given.

    With a mask `where` the other elements stay. Raises TypeError for a recorded result in a plain
    array, or one of another kind, ValueError for a shape that does not fit; ufuncs `broadcast`.
    """
    if out is None:
        return result
    _check_shape(name, out, (result, where), broadcast)
    if not np.can_cast(dtype_of(result), dtype_of(out), casting):
        raise TypeError(
            f"tapegrad.{name}: a result of dtype {dtype_of(result)} cannot be written in place to "
            f"out, of dtype {dtype_of(out)}, with casting={casting!r}; convert one with astype"
        )
    if is_tensor(out):
        made = result if where is True else apply("where", mask_of(name, where), result, out)
        if dtype_of(out).kind in "iub" and dtype_of(made) != dtype_of(out):
            made = made.astype(dtype_of(out))
        set_item(out, ..., made)
        return out
    if is_recorded(result) and (rt.trace() is None or dtype_of(result) in FLOATS):
        raise written(result, f".{name}: out=")
    mask = where if where is True else fixed(mask_of(name, where), "where=")
    np.copyto(out, fixed(result, "out="), casting=casting, where=mask)
    return out


def _check_shape(name: str, out, given, broadcast: bool) -> None:
    if not is_tensor(out) and not isinstance(out, np.ndarray):
        raise TypeError(f"tapegrad.{name}: out is {type(out).__name__}; it must be an array")
    shape = shape_of(given[0])
    if broadcast:
        shape = np.broadcast_shapes(shape, shape_of(given[1]), shape_of(out))
    if shape != shape_of(out):
        raise ValueError(
            f"tapegrad.{name}: the result has shape {shape} and out {shape_of(out)}; they must be "
            "equal"
        )


def mask_of(name: str, where):
    """The mask that `where=` is."""
    where = unlisted(where)
    if dtype_of(where) != np.bool_:
        raise TypeError(
            f"tapegrad.{name}: where has dtype {dtype_of(where)}; it must be boolean: compare with "
            "!= 0"
        )
    return where if is_tensor(where) else np.asarray(where)


def begun(name: str, made, initial):
    """The result of a reduction that begins with `initial`, by the operation that it repeats."""
    dtype = dtype_of(made)
    initial = unlisted(initial)
    if shape_of(initial):
        raise ValueError(f"tapegrad.{name}: initial has shape {shape_of(initial)}; give a number")
    if dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: initial is recorded and the result has dtype {dtype}; only float64 "
            "and float32 have derivatives: use astype(float)"
        )
    return apply(name, made, in_dtype(initial, dtype))

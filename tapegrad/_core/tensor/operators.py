"""Operators and methods of tensors, and those who are told of writes."""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import PACKAGE
from ..codegen import layout, process
from ..codegen.layout import OF_OPERANDS, OF_PYTHON
from ..tape import native_types, store
from . import runtime
from . import runtime as rt
from .apply import ELEMENTWISE_OF_COMPLEX, apply, ufunc_of
from .conversions import by_operator, written
from .copies import in_dtype, unlisted
from .indexing import WRITE, get_item, set_item
from .plain_data import repeats
from .trace import fixed, note_equal, refuse, steering_tensor
from .values import (
    FLOATS,
    ComplexTensor,
    array_of,
    check_casting,
    dtype_of,
    is_complex,
    is_container,
    is_number,
    is_recorded,
    is_tensor,
    shape_of,
    value_of,
)

# --- row listeners --------------------------------------------------------------------------------
# Listeners to rows, with the user's lines that record them; NumPy's look at loud operations.


# --- Listeners to rows, with the user's lines that record them ------------------------------------
# The recorder's fast paths test one word. While it is not zero every operator goes through Python,
# which appends rows by `rt.row` and `rt.load` only; these two are replaced while there is a
# listener.


_PACKAGE = str(PACKAGE) + os.sep
_lock = process.lock()

#: A place in the user's code: file, line, function.
Place = tuple[str, int, str]


class Wrapped:
    """A function in its place, with others put around it and taken off in any order."""

    def __init__(self, owner: Any, name: str):
        self.owner, self.name = owner, name
        self.wrappers: list[Callable] = []
        self.original: Any = None

    def add(self, wrapper: Callable) -> None:
        """Call `wrapper(function)` instead of the function from now on."""
        if not self.wrappers:
            self.original = vars(self.owner)[self.name]
        self.wrappers.append(wrapper)
        self._place()

    def remove(self, wrapper: Callable) -> None:
        self.wrappers.remove(wrapper)
        self._place()

    def _place(self) -> None:
        function = self.original
        for wrapper in self.wrappers:
            function = wrapper(function)
        setattr(self.owner, self.name, function)


# --- listeners --------------------------------------------------------------------------------

#: Called with (row, op, output, operands) of every new row.
_listeners: list[Callable] = []


def _reporting(function, read):
    """`function`, which appends a row, telling the listeners; `read` finds its op and operands."""

    def reporting(*arguments):
        with _lock:  # with two threads each finds its own row
            before = native_types.get_word(layout.STATE_ID)
            made = function(*arguments)
            after = native_types.get_word(layout.STATE_ID)
        if after != before:
            for listener in _listeners:
                listener(after - 1, *read(arguments))
        return made

    return reporting


def _row(function):
    return _reporting(function, lambda given: (given[0], given[1], given[2:]))


def _load(function):
    return _reporting(function, lambda given: (layout.LOAD, 0.0, given))


_WRAPPED = {_row: Wrapped(rt, "row"), _load: Wrapped(rt, "load")}


def listen(listener: Callable) -> None:
    """Call `listener(row, op, output, operands)` for every row that any thread records."""
    rt.start()
    with _lock:
        if not _listeners:
            rt.add_special(1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.add(wrapper)
        _listeners.append(listener)


def stop_listening(listener: Callable) -> None:
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            rt.add_special(-1)
            for wrapper, wrapped in _WRAPPED.items():
                wrapped.remove(wrapper)


# --- places -----------------------------------------------------------------------------------


def places(most: int | None = None) -> tuple[Place, ...]:
    """The user's frames around this call, innermost first, up to a number."""
    found: list[Place] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and len(found) != most:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def users_level() -> int:
    """The `stacklevel` with which a warning of the caller's names the user's line."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def shown(frames: tuple[Place, ...]) -> str:
    """Frames as Python prints a traceback, outermost first."""
    return "".join(
        traceback.format_list([traceback.FrameSummary(*place) for place in frames[::-1]])
    )


class Places:
    """The operations of rows and the frames that recorded them, for as long as the rows are there.

    Numbers of rows are used again; each chunk's places are kept with the time at which the store
    began the chunk.
    """

    def __init__(self):
        self._chunks: dict[int, tuple[int, dict]] = {}
        self._same: dict = {}  # equal frames are kept once

    def note(self, number: int, op: int, *_) -> None:
        """Remember op and place of row `number`, which is being recorded; a listener."""
        slot, frames = number >> layout.ROWS_BITS, places()
        begun, rows = self._chunks.get(slot, (-1, {}))
        if begun != store.begun[slot]:
            rows = {}
            self._chunks[slot] = store.begun[slot], rows
        rows[number] = op, self._same.setdefault(frames, frames)

    def find(self, number: int) -> tuple[int | None, tuple[Place, ...]]:
        """Op and frames of row `number`; None and no frames if there was no listener then."""
        slot = number >> layout.ROWS_BITS
        begun, rows = self._chunks.get(slot, (-1, {}))
        return rows.get(number, (None, ())) if begun == store.begun[slot] else (None, ())


# --- Operations at which NumPy looks while its error state is loud (see `runtime`) ----------------
# Each one is computed by NumPy first, with plain values, which raises and warns as it would without
# derivatives. The result is dropped. Where only warnings are errors, ours is computed first, and
# NumPy is asked if the result is not finite.


#: Functions that call functions of users, write, or give text: NumPy is not asked.
_NOT_ASKED = frozenset(
    "apply_along_axis apply_over_axes piecewise copyto put place putmask put_along_axis "
    "fill_diagonal save savez savez_compressed savetxt array2string array_repr array_str "
    "mask_indices may_share_memory shares_memory".split()
)
#: Functions, methods and reductions that meet what NumPy warns of by default only if their results
#: are not finite; so do ufuncs.
_SHOWN = frozenset(
    "add multiply subtract sum mean prod dot inner outer matmul vdot tensordot einsum cumsum "
    "cumprod max min amax amin concatenate stack hstack vstack reshape ravel transpose take trace "
    "diagonal where clip copy __abs__ __matmul__ __rmatmul__ __mod__ __rmod__ __floordiv__ "
    "__rfloordiv__".split()
)
#: Methods and operators that may compute.
_METHODS = (
    "all any argmax argmin astype choose clip compress conj cumprod cumsum diagonal dot max mean "
    "min prod round std sum take trace var __abs__ __mod__ __rmod__ __floordiv__ __rfloordiv__ "
    "__divmod__ __rdivmod__ __matmul__ __rmatmul__".split()
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "pow")
#: Operators of complex tensors; those of others call Python while the state is loud.
_OF_COMPLEX = [f"__{r}{name}__" for name in _ARITHMETIC for r in ("", "r")]
_REASON = (
    "it computes while NumPy's error state (np.errstate, np.seterr) asks for errors or more than "
    "its default warnings, which a program does not give"
)


def observed(theirs: Callable, ours: Callable, args: tuple, kwargs: dict, shown: bool = True):
    """The result of our function, after NumPy's has looked at the values.

    `shown` says that what NumPy warns of by default makes the result infinite or NaN.
    """
    if runtime.is_careful():
        if rt.trace() is not None:
            return ours(*args, **kwargs)
        if shown and "out" not in kwargs:
            with runtime.silent():
                made = ours(*args, **kwargs)
            if not _is_finite(made):
                _ask(theirs, args, kwargs)
            return made
    refuse(_REASON)
    _ask(theirs, args, kwargs)
    with runtime.silent():
        return ours(*args, **kwargs)


def _ask(theirs: Callable, args: tuple, kwargs: dict) -> None:
    """Let NumPy compute with plain values, and pass on what it raises and warns of."""
    given = [_plain(one) for one in args]
    named = {name: _plain(one) for name, one in kwargs.items() if name != "out"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            theirs(*given, **named)
        except FloatingPointError:
            raise
        except Exception:  # ours raises it, unless it is that of a function given to np.seterrcall
            if "call" in np.geterr().values():
                raise
    for one in seen:
        if issubclass(one.category, RuntimeWarning):
            warnings.warn(one.message, one.category, stacklevel=users_level())


def _is_finite(made) -> bool:
    """Whether a result holds floats, and all are finite."""
    if type(made) is rt.Scalar:
        return math.isfinite(made._value)
    array = array_of(made) if is_tensor(made) else made
    is_of_floats = isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "fc"
    return is_of_floats and bool(np.isfinite(array).all())


def _plain(value):
    """An argument for NumPy, with arrays of its own: theirs may be written."""
    if type(value) in (list, tuple):
        return type(value)([_plain(one) for one in value])
    if type(value) is ComplexTensor:
        return array_of(value)[()]
    value = value_of(value) if is_tensor(value) else value
    return value.copy() if type(value) is np.ndarray else value


def _of_ufunc(ours):
    @functools.wraps(ours)
    def array_ufunc(self, ufunc, method, *inputs, **kwargs):
        calls_users = not any(set(types) - {*"O->"} for types in ufunc.types)  # np.frompyfunc
        if not runtime.is_loud() or calls_users:
            return ours(self, ufunc, method, *inputs, **kwargs)
        made = functools.partial(ours, self, ufunc, method)
        shown = method == "__call__" or (method == "reduce" and ufunc.__name__ in _SHOWN)
        return observed(getattr(ufunc, method), made, inputs, kwargs, shown)

    return array_ufunc


def _of_function(ours):
    @functools.wraps(ours)
    def array_function(self, function, types, args, kwargs):
        if not runtime.is_loud() or function.__name__ in _NOT_ASKED:
            return ours(self, function, types, args, kwargs)
        made = lambda *a, **k: ours(self, function, types, a, k)
        return observed(function, made, tuple(args), kwargs, function.__name__ in _SHOWN)

    return array_function


def _of_method(name: str, ours):
    theirs = getattr(operator, name, None) or (lambda x, *a, **k: getattr(x, name)(*a, **k))

    @functools.wraps(ours)
    def method(*args, **kwargs):
        if not runtime.is_loud():
            return ours(*args, **kwargs)
        return observed(theirs, ours, args, kwargs, name in _SHOWN or name in _OF_COMPLEX)

    return method


def _begin() -> None:
    """Put what observes around the functions of the classes: not before a state is loud."""
    for kind in (rt.Tensor, ComplexTensor):
        names = {*_METHODS, *(_OF_COMPLEX if kind is ComplexTensor else ())}
        made = {name: _of_method(name, one) for name, one in vars(kind).items() if name in names}
        made["__array_ufunc__"] = _of_ufunc(vars(kind)["__array_ufunc__"])
        made["__array_function__"] = _of_function(vars(kind)["__array_function__"])
        for name, one in made.items():
            setattr(kind, name, one)


runtime.on_first.append(_begin)


# --- operators ------------------------------------------------------------------------------------
# Operators of tensors that compiled slots do not cover, and results written to `out=`.


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

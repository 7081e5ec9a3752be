"""Which arrays from outside a function hands to recorded operations only, as they lie.

The statements of a function are followed on each way through it, with the objects that it reads
from outside as they are. Whatever is not known ends this: nothing is shown then.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.tensor.dependencies import SMALL
from ..._core.tensor.registry import declared_by, theirs
from .errors import Refused
from .followed_forms import (
    DATA,
    RECORDED,
    UNSURE,
    Derived,
    Items,
    Iterator,
    Known,
    Method,
    Unknown,
    Way,
    is_array,
    is_number,
    is_operand,
    is_plain,
    is_recorded,
)
from .followed_frames import Frame
from .followed_objects import Objects

#: Statements that are followed, and calls inside of another.
_STATEMENTS, _DEPTH = 20_000, 20
#: Products of two arrays. A recorded operand makes one row of each, and of an element-wise
#: operation, with the other operands as they lie.
_PRODUCTS = (np.matmul, np.dot, np.inner)
#: Functions and methods whose result is recorded if that of which it is computed is.
_REDUCTIONS = (np.sum, np.mean)
_IN_PLACE: dict[Callable, np.ufunc] = {
    operator.iadd: np.add,
    operator.isub: np.subtract,
    operator.imul: np.multiply,
    operator.itruediv: np.divide,
}
_OPERATORS: dict[Callable, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.divide,
    operator.matmul: np.matmul,
    operator.neg: np.negative,
    **_IN_PLACE,
}
#: Functions that take less time than to see whether an operand has changed.
_SHORT = (np.negative, np.add, np.subtract, np.multiply, np.divide)
#: Builtins and operators that give what follows from numbers and texts alone.
_OF_PLAIN = (abs, bool, divmod, float, int, len, max, min, pow, range, round, slice, str, sum)
#: Methods of an array that give views.
_VIEWS = frozenset(("reshape", "transpose", "swapaxes", "ravel", "squeeze"))
_KEYWORDS = frozenset(("axis", "axes", "keepdims", "ddof", "dtype", "initial", "ord", "subscripts"))


class Uses(Objects):
    """What is shown of the arrays `given`, for a function and arguments that are forms.

    `clean` are those that only enter recorded operations, and `ways` has for each way the operands
    of these operations.
    """

    def __init__(self, f: Callable, args: Sequence, named: dict, given: Sequence[np.ndarray]):
        super().__init__(given)
        self._left, self._depth = _STATEMENTS, 0
        way = Way([], {})
        ends = self.called(Known(f), [*args], named, way)
        for found, _ in ends:
            self.spend_all(found)
        self.ways = [way.uses for _, way in ends]
        self.clean = [one for key, one in self.given.items() if key not in self.dirty]

    # --- functions ----------------------------------------------------------------------------

    def called(self, function, args: list, named: dict, way: Way) -> list[tuple[Any, Way]]:
        """The results of a call, and the ways to them."""
        if isinstance(function, Method):
            return [(self._of_method(function, args, named), way)]
        if not isinstance(function, Known):
            raise Unknown("a call of something computed")
        called = function.value
        if type(called) is functools.partial:
            args = [*map(Known, called.args), *args]
            named = {**{k: Known(x) for k, x in called.keywords.items()}, **named}
            return self.called(Known(called.func), args, named, way)
        if type(called) is types.MethodType:
            return self.called(Known(called.__func__), [Known(called.__self__), *args], named, way)
        meant = theirs(called)
        if _is_of_numpy(meant):
            return [(self._of_library(meant, args, named, way), way)]
        if getattr(math, getattr(called, "__name__", ""), None) is called:
            return [(self._computed(args, named), way)]
        if isinstance(called, type) or type(called) is types.BuiltinFunctionType:
            return [(self._of_builtin(called, args, named, way), way)]
        if type(called) is not types.FunctionType or _is_ours(called):
            raise Unknown(f"a call of {getattr(called, '__name__', called)}")
        return self._inside(called, args, named, way)

    def _inside(self, f: types.FunctionType, args: list, named: dict, way: Way) -> list:
        if self._depth >= _DEPTH or f.__dict__.keys() & {"__signature__"}:
            raise Unknown("calls that nest too deeply")
        self._depth += 1
        try:
            return Frame(self, f, _bound(f, args, named)).run(way)
        finally:
            self._depth -= 1

    def _computed(self, args: list, named: dict):
        """The result of a function without effects, of values; it reads all of them."""
        for one in (*args, *named.values()):
            self.spend_all(one)
        return UNSURE if any(map(is_recorded, (*args, *named.values()))) else DATA

    def _of_library(self, called, args: list, named: dict, way: Way):
        """A function of NumPy's."""
        if not _KEYWORDS.issuperset(named):
            raise Unknown("a keyword of a function")
        for one in named.values():
            self.spend_all(one)
        return self._operation(called, args, way)

    def _operation(self, called, args: list, way: Way):
        """The result of a function of NumPy's; one of a recorded operand may be one row."""
        read = [one for one in args if self.arrays(one)]
        is_row = _is_recorded(called, args) and all(map(is_operand, args))
        if read and is_row and called not in _REDUCTIONS:
            way.uses.append(tuple(read))
            return RECORDED
        if _is_short(called, args):
            return Derived(called, tuple(args))
        found = self._computed(args, {})
        return RECORDED if is_row else found

    def _of_builtin(self, called, args: list, named: dict, way: Way):
        if called is len and len(args) == 1 and self.arrays(args[0]):
            return Known(len(args[0].value)) if isinstance(args[0], Known) else DATA
        if called is isinstance and isinstance(args[0], Known) and isinstance(args[1], Known):
            return Known(isinstance(args[0].value, args[1].value))
        if called in (tuple, list) and len(args) == 1 and not named:
            return Items(tuple(self.iterated(args[0])), called is list)
        if called in (zip, enumerate, reversed) and args and not named:
            return _iterator_of(called, [self.iterated(one) for one in args], way)
        if called is print:
            return self._computed(args, named)
        if called not in _OF_PLAIN:
            raise Unknown(f"a call of {getattr(called, '__name__', called)}")
        return self._plainly(called, args) if not named else self._computed(args, named)

    def _plainly(self, called, args: list):
        """The result of known numbers and texts; data of others."""
        if all([isinstance(one, Known) and is_plain(one.value) for one in args]):
            try:
                return Known(called(*[one.value for one in args]))
            except Exception as error:
                raise Unknown("an error") from error
        return self._computed(args, {})

    def _of_method(self, method: Method, args: list, named: dict):
        owner = method.owner
        if isinstance(owner, Known) and type(owner.value) is list:
            self.write(owner, None)
            return Known(None)
        if isinstance(owner, Known):  # an array
            if method.name in _VIEWS and not named and all([isinstance(x, Known) for x in args]):
                if all([is_plain(one.value) for one in args]):
                    made = getattr(owner.value, method.name)(*[one.value for one in args])
                    return self.view(made, owner.value)
            if any(map(is_recorded, args)) or not hasattr(np.ndarray, method.name):
                raise Unknown(f"a method {method.name} of recorded operands")
            if method.name not in ("sum", "mean", "copy", "max", "min", "dot", "std", "astype"):
                raise Unknown(f"the method {method.name}")
        if not _KEYWORDS.issuperset(named):
            raise Unknown("a keyword of a method")
        self.spend(owner)
        found = self._computed([UNSURE if is_recorded(owner) else DATA, *args], named)
        return RECORDED if owner == RECORDED and method.name in ("sum", "mean") else found

    def spend_statement(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unknown("too many statements")

    # --- operators ----------------------------------------------------------------------------

    def operation(self, function, operands: list, way: Way):
        """An operator of Python's."""
        if function in _IN_PLACE and not is_recorded(operands[0]):
            raise Unknown("a change in place")
        called = _OPERATORS.get(function)
        is_plain_one = all([isinstance(one, Known) and is_plain(one.value) for one in operands])
        if called is not None and not is_plain_one:
            return self._operation(called, operands, way)
        if function in (operator.is_, operator.is_not):
            if all([isinstance(one, Known) for one in operands]):
                return Known(function(*[one.value for one in operands]))
            return DATA
        if any([isinstance(one, Items) for one in operands]):
            raise Unknown("an operation of a list")
        return self._plainly(function, operands)


def _is_short(called, args: list) -> bool:
    """Whether a function of a large array and numbers takes less time than comparing the array."""
    known = [one.value for one in args if isinstance(one, Known)]
    arrays = [one for one in known if is_array(one) and one.nbytes > SMALL]
    if called not in _SHORT or len(arrays) != 1 or len(known) != len(args):
        return False
    return all([one is arrays[0] or is_number(one) for one in known])


def _is_recorded(called, args: list) -> bool:
    """Whether a function of NumPy's is one row, since an operand is recorded for sure.

    Powers by constants may be others, by their values. A product of what has yet to be computed
    takes longer than to see whether it has changed.
    """
    if called in _REDUCTIONS:
        return args[0] == RECORDED
    if called in _PRODUCTS:
        return len(args) == 2 and RECORDED in args and not any(map(_is_derived, args))
    op = declared_by(called)
    if op is None or op.name == "power" or len(args) != len(op.inputs):
        return False
    return RECORDED in (args[1:] if op.name == "where" else args)


def _is_derived(form) -> bool:
    return isinstance(form, Derived)


def _is_of_numpy(called) -> bool:
    """Whether a function is one of NumPy's, and none that a user has made with NumPy."""
    if isinstance(called, np.ufunc):
        return getattr(np, called.__name__, None) is called
    if type(called) not in (types.FunctionType, types.BuiltinFunctionType, type(np.sum)):
        return False
    if isinstance(getattr(called, "__self__", None), np.ndarray):
        return False
    held = getattr(called, "__globals__", {"__name__": called.__module__})
    return str(held.get("__name__")).split(".")[0] == "numpy"


def _iterator_of(called, items: list[list], way: Way) -> Iterator:
    """What zip, enumerate or reversed give of items."""
    if called is zip:
        return way.iterator([Items(pair) for pair in zip(*items, strict=False)])
    (only,) = items
    if called is reversed:
        return way.iterator(only[::-1])
    return way.iterator([Items((Known(k), one)) for k, one in enumerate(only)])


def _is_ours(f: types.FunctionType) -> bool:
    return str(f.__globals__.get("__name__")).split(".")[0] == "tapegrad"


def _bound(f: types.FunctionType, args: list, named: dict) -> dict[str, Any]:
    """Arguments by the names that code has for them."""
    signature = inspect.signature(f, follow_wrapped=False)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise Unknown("other arguments") from error
    found = {}
    for name, one in signature.parameters.items():
        if one.kind is one.VAR_KEYWORD:
            raise Unknown("a function that takes **")
        if one.kind is one.VAR_POSITIONAL:
            found[name] = Items(bound.arguments.get(name, ()))
        else:
            found[name] = bound.arguments.get(name, Known(one.default))
    return found


def shown(f: Callable, args: Sequence, named: dict, given: Sequence[np.ndarray]) -> Uses | None:
    """What can be shown of some arrays; None where the function does anything that is not known."""
    try:
        return Uses(f, args, named, given)
    except (Unknown, Refused):
        return None
    except Exception:  # what an object of the user's raises must not cost the call
        return None

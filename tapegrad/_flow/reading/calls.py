"""Calls: functions that are followed, replaced, recorded, or of which no result is known."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import logging
import math
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.config import config
from ..._core.ops.table import BY_CODE
from ..._core.tensor.dependencies import (
    Checked,
    Snapshot,
    method_dependencies,
    partial_dependencies,
)
from ..._entering.stand_ins import is_of_scipys_class, stand_in
from ..ir.expressions import tested
from ..ir.flow_graph import Builder, Value
from ..ir.inner_slopes import Slope
from ..kinds.step_kinds import BOOL, FLOAT, INT, SELECT_OF
from . import access, arrays, outside_changes, prelude, solvers, views
from .access import special_method
from .builtin_functions import BUILTINS, method_of
from .forms import (
    NONE,
    Array,
    Form,
    Known,
    LocalFunction,
    Method,
    Number,
    Raises,
    Ref,
    Refused,
    Tuple,
    Unfollowed,
    are_known,
    described,
    is_plain,
)
from .numbers import (
    converted,
    folded,
    is_float,
    is_number,
    is_tensor,
    kind_of,
    of_numpy,
    settled,
    stopped,
)
from .numpy_functions import handler_of
from .outside_changes import TEXT, WRITERS, combined, counted, is_container, line_of
from .reader import Inline

# --- recorded calls -------------------------------------------------------------------------------
# Calls of functions of SciPy that are no operations, and objects with parameters.


# --- Objects with parameters, such as a distribution of SciPy's that is frozen --------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Parametrised(Form, parts="*args *named"):
    """An object with the methods of another one, called with these arguments after their own."""

    owner: Known
    args: tuple[Form, ...]
    names: tuple[str, ...]
    named: tuple[Form, ...]

    @property
    def head(self) -> tuple:
        return Parametrised, id(self.owner.value), len(self.args), self.names


# --------------------------------------------------------------------------------------------------
# Calls of functions of SciPy that are no operations: what they record becomes steps of the graph.
# A function is recorded once for each kind of arguments, at numbers of ours. If all that it does is
# operations on numbers, these are computed in place of the call, for numbers and small arrays;
# those that it applies element by element for arrays of any lengths. What Python reads in it is
# checked.


#: In `Operations.steps`: two numbers must be equal.
EQUAL = 0
#: The most elements of an array of which each is a number in what is recorded.
_MOST = 16
_PLACES = ("scipy.", "tapegrad.scipy.", "tapegrad.numpy.linalg.")
_PLAIN = (type(None), bool, int, float, str)
_LOGIC = {"logical_and": "bool_and", "logical_or": "bool_or", "logical_xor": "bool_xor"}


class Operations(NamedTuple):
    """Operations on numbers in their order: what a function has recorded for some arguments.

    `inputs` are the slots of the arguments' numbers, `constants` numbers by slot, `steps` hold the
    code of an operation of the table, the slots of its operands, and that of its result; the code
    is 0 where two slots must be equal, and `reads` says of each of these what Python reads there.
    `tree` is the structure of the result, `results` its leaves: slots in its shape and its dtype,
    or None and what never changes.
    """

    inputs: list[np.ndarray]
    constants: dict[int, float]
    steps: list[tuple[int, tuple[int, ...], int]]
    reads: list[str]
    tree: Any
    results: list[tuple[np.ndarray | None, Any]]


#: What records a function: for it, arguments and keywords as trees of `Sample` and plain values, it
#: gives the `Operations`; a text where there are none. A wing above enters it.
recorders: list[Callable[[Callable, tuple, dict], Operations | str]] = []


@dataclasses.dataclass(frozen=True)
class Sample:
    """The place of an array of numbers, or of a number, among arguments."""

    shape: tuple[int, ...]


def can_record(target) -> bool:
    """Whether a function is of SciPy, or ours in place of one, or of `numpy.linalg`."""
    module = getattr(target, "__module__", None)
    is_function = isinstance(target, (types.FunctionType, types.MethodType))
    return is_function and isinstance(module, str) and f"{module}.".startswith(_PLACES)


def entered_object(value) -> Any:
    """What stands for an object of SciPy's, itself if it is ours; None for others."""
    if not is_of_scipys_class(value):
        return None
    return stand_in(value) if config.enter else value


def method_entered(method: types.MethodType) -> Any:
    """The stand-in of a method of an object of SciPy's; None for others."""
    owner = method.__self__
    ours = entered_object(owner)
    if ours is not None and any(map(is_of_scipys_class, vars(owner).values())):
        raise Refused(
            f"it calls {method.__name__} of an object that holds parameters, which may change; "
            "give them as arguments of the method of the distribution"
        )
    return None if ours is None else getattr(ours, method.__name__, None)


def takes_point(method) -> bool:
    """Whether the first argument of a distribution's method is a point, before the parameters."""
    if getattr(method, "is_element_wise", False):
        return True
    return can_record(method) and [*inspect.signature(method).parameters][:1] == ["x"]


def of_recorded_call(s, function: Callable, args: list[Form], kwargs: dict[str, Form]) -> Form:
    """The result of a call of a function that is recorded."""
    if s.builder.single:
        raise Refused(f"it calls {_name(function)} where arrays are of float32")
    args = [_prepared(s, one) for one in args]
    kwargs = {name: _prepared(s, one) for name, one in kwargs.items()}
    given = [*args, *kwargs.values()]
    if not getattr(function, "is_element_wise", False):
        return _Written(s, function).call(args, kwargs)
    if are_known(given):
        return _of_known(function, args, kwargs)
    if any([isinstance(one, Array) for one in given]):
        return _of_elements(s, function, args, kwargs)
    return _Written(s, function).call(args, kwargs)


def _name(function) -> str:
    """The name of a function, or of a method after that of its object."""
    owner = getattr(getattr(function, "__self__", None), "name", "")
    name = getattr(function, "__qualname__", str(function))
    return f"{owner}.{name}" if isinstance(owner, str) and owner else name


def _prepared(s, form: Form) -> Form:
    form = settled(s.builder, form)
    if isinstance(form, Ref):
        return Tuple(tuple(access.items_of(s.reader, form)))
    return form


def _of_known(function, args, kwargs) -> Form:
    """The result for what is the same in each call: a number."""
    if not all([isinstance(one.value, _PLAIN) for one in (*args, *kwargs.values())]):
        raise Refused(f"it calls {_name(function)}, which is not known here")
    try:
        found = function(*[x.value for x in args], **{k: x.value for k, x in kwargs.items()})
    except Exception as error:
        raise Raises(f"{type(error).__name__}: {error}") from None
    if np.shape(found) or not isinstance(found, (float, np.ndarray, np.float64)):
        raise Refused(f"it calls {_name(function)}, which is not known here")
    return Known(float(found), of_numpy=True)


def _of_elements(s, function, args: list[Form], kwargs: dict[str, Form]) -> Form:
    """The result for arrays of a function that is applied to their elements one by one."""
    every = [*args, *kwargs.values()]
    places = [k for k, form in enumerate(every) if not isinstance(form, Known)]

    def one(part: int | None, *elements: Form) -> Form:
        given = list(every)
        for place, element in zip(places, elements, strict=True):
            given[place] = element
        named = dict(zip(kwargs, given[len(args) :], strict=True))
        found = _Written(s, function).call(given[: len(args)], named)
        return found if part is None else found.items[part]  # type: ignore[attr-defined]

    def results(part: int | None) -> Form:
        of_part = functools.partial(one, part)
        return arrays.mapped(s.reader, of_part, *[every[k] for k in places])

    count = _Written(s, function).count(every[: len(args)], kwargs)
    return results(None) if count is None else Tuple(tuple(map(results, range(count))), s.site)


@functools.lru_cache(1024)
def _operations(function, args: tuple, names: tuple[str, ...], kwargs: tuple):
    (record,) = recorders
    return record(function, args, dict(zip(names, kwargs, strict=True)))


def _recorded(reader, *call):
    """What a call records: kept for others, but that of an object's method for one reading.

    The object may change, and be let go.
    """
    owner = getattr(call[0], "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return _operations(*call)
    if call not in reader.recorded:
        reader.recorded[call] = _operations.__wrapped__(*call)
    return reader.recorded[call]


class _Written:
    """One call written as steps."""

    def __init__(self, s, function: Callable):
        self.s, self.reader, self.builder, self.function = s, s.reader, s.builder, function
        self.values: list[Value] = []  # of the numbers of arguments
        # the results of others may be the integers themselves
        self._kinds = (FLOAT, INT) if getattr(function, "is_element_wise", False) else (FLOAT,)
        self._inputs: set[int] = set()

    def call(self, args: list[Form], kwargs: dict[str, Form]) -> Form:
        trees = tuple([self._tree(one) for one in args])
        named = tuple([self._tree(one) for one in kwargs.values()])
        found = _recorded(self.reader, self.function, trees, tuple(kwargs), named)
        if isinstance(found, str):
            raise Refused(
                f"it calls {_name(self.function)}, of which graphs know no formula: {found}"
            )
        slots = [int(slot) for one in found.inputs for slot in one.ravel()]
        written = _WrittenSlots(
            self.builder, dict(zip(slots, self.values, strict=True)), found.constants
        )
        reads = iter(found.reads)
        for code, operands, slot in found.steps:
            if code == EQUAL:
                why = f"{_name(self.function)} takes another way, by {next(reads)}"
                seen, expected = operands
                written.check(seen, expected, why)
            else:
                written.step(BY_CODE[code], operands, slot)
        self._inputs = {*slots}
        return self._built(found.tree, iter(found.results), written)

    def count(self, args: list[Form], kwargs: dict[str, Form]) -> int | None:
        """How many results the function gives for numbers in place of arrays; None if no tuple."""

        def number(form: Form):
            return Plain(form.value) if isinstance(form, Known) else Sample(())

        named = tuple([number(one) for one in kwargs.values()])
        found = _recorded(
            self.reader, self.function, tuple(map(number, args)), tuple(kwargs), named
        )
        tree = None if isinstance(found, str) else found.tree
        return len(tree) if isinstance(tree, tuple) else None

    # --- arguments ----------------------------------------------------------------------------

    def _tree(self, form: Form):
        """An argument as the recorder takes it; its numbers become values."""
        if isinstance(form, Tuple) and not form.names:
            return tuple([self._tree(_prepared(self.s, one)) for one in form.items])
        if isinstance(form, Known) and isinstance(form.value, _PLAIN):
            return Plain(form.value)
        if is_number(form) and kind_of(form) in self._kinds:
            self.values.append(converted(self.builder, form, FLOAT))
            return Sample(())
        if isinstance(form, Array) and form.element in self._kinds:
            return self._array(form)
        raise Refused(f"it calls {_name(self.function)} with {described(form)}")

    def _array(self, form: Array) -> Sample:
        lengths = [one.value for one in form.lengths if isinstance(one, Known)]
        if len(lengths) < len(form.lengths) or math.prod(lengths) > _MOST:
            raise Refused(
                f"it calls {_name(self.function)} with an array of more than {_MOST} elements, or "
                "of lengths that may differ"
            )
        for place in np.ndindex(*lengths):
            one = views.of(self.reader, form, [Known(k) for k in place])
            self.values.append(converted(self.builder, one, FLOAT))
        return Sample(tuple(lengths))

    # --- results ------------------------------------------------------------------------------

    def _built(self, tree, results, written: _WrittenSlots) -> Form:
        if isinstance(tree, (tuple, list)):
            if type(tree) not in (tuple, list):
                raise Refused(f"{_name(self.function)} gives a {type(tree).__name__}")
            items = tuple([self._built(one, results, written) for one in tree])
            return Tuple(items, self.s.site) if type(tree) is tuple else self._list(items)
        slots, what = next(results)
        if slots is None:
            if type(what) not in (float, bool):
                raise Refused(f"{_name(self.function)} gives a {type(what).__name__}")
            return Known(what, of_numpy=True)
        if what.kind not in "fb":
            raise Refused(f"{_name(self.function)} gives numbers of {what}")
        kind = BOOL if what.kind == "b" else FLOAT
        if not slots.shape:
            return self._number(kind, int(slots), written)
        if not self._inputs.isdisjoint(slots.ravel().tolist()):
            raise Refused(f"{_name(self.function)} gives elements of its argument as they lie")
        made = views.new(self.reader, tuple(map(Known, slots.shape)), kind)
        for place in np.ndindex(*slots.shape):
            target = views.element(self.reader, made, [Known(k) for k in place])
            views.stored(self.reader, target, self._number(kind, int(slots[place]), written))
        return made

    def _list(self, items: tuple[Form, ...]) -> Form:
        return access.new_list(self.reader, self.s.site, items)

    def _number(self, kind: str, slot: int, written: _WrittenSlots) -> Number:
        value = written.truth(slot) if kind == BOOL else written.number(slot)
        return of_numpy(self.builder, kind, value)


@dataclasses.dataclass(frozen=True)
class Plain:
    """A value that is no number of a call; 1, 1.0 and True are three."""

    value: Any

    def __eq__(self, other) -> bool:
        return type(other) is Plain and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple:
        return type(self.value), repr(self.value)


class _WrittenSlots:
    """The values in the slots of what was recorded: numbers, and truths where those are wanted."""

    def __init__(self, builder: Builder, numbers: dict[int, Value], constants: dict[int, float]):
        self.builder, self.numbers, self.constants = builder, numbers, constants
        self.truths: dict[int, Value] = {}

    def number(self, slot: int) -> Value:
        if slot not in self.numbers:
            if slot in self.truths:
                one, zero = self.builder.constant(1.0), self.builder.constant(0.0)
                made = self.builder.step(SELECT_OF[FLOAT], self.truths[slot], one, zero)
            else:
                made = self.builder.constant(float(self.constants[slot]))
            self.numbers[slot] = made
        return self.numbers[slot]

    def truth(self, slot: int) -> Value:
        if slot not in self.truths:
            zero = self.builder.constant(0.0)
            is_zero = self.builder.step("float_equal", self.number(slot), zero)
            self.truths[slot] = self.builder.step("bool_not", is_zero)
        return self.truths[slot]

    def step(self, op, operands: tuple[int, ...], slot: int) -> None:
        """An operation of the table."""
        build, made = self.builder, None
        if op.name in _LOGIC:
            made = build.step(_LOGIC[op.name], *map(self.truth, operands))
        elif op.name == "logical_not":
            made = build.step("bool_not", self.truth(*operands))
        elif op.test:
            made = tested(op, [*map(self.number, operands)], build)
        if made is not None:
            self.truths[slot] = made
        elif op.name == "where":
            x, y = map(self.number, operands[1:])
            condition = self.truth(operands[0])
            self.numbers[slot] = build.step(SELECT_OF[FLOAT], condition, x, y)
        else:
            self.numbers[slot] = build.step(op.name, *map(self.number, operands))

    def check(self, seen: int, expected: int, what: str) -> None:
        """Leave where a value that Python reads is another one than was recorded."""
        wanted = self.constants[expected]
        if seen in self.truths:
            holds = self.truths[seen]
            holds = holds if wanted else self.builder.step("bool_not", holds)
        elif wanted != wanted:
            holds = self.builder.step("float_equal", self.number(seen), self.number(seen))
            holds = self.builder.step("bool_not", holds)
        else:
            holds = self.builder.step("float_equal", self.number(seen), self.number(expected))
        self.builder.check(holds, what)


# --- calls ----------------------------------------------------------------------------------------
# Calls: functions that are followed, replaced, or of which no result is read.


# --------------------------------------------------------------------------------------------------
# Calls that write texts, read clocks, or take what is not followed: no result depends on them.


#: Functions of values that are not followed: they change nothing.
_OF_NUMBERS = (abs, bool, divmod, float, int, isinstance, len, max, min, round, sum)
_OF_ARRAYS = (np.mean, np.sum, np.max, np.min, np.std, np.var, np.median)
_COPIES = (list, tuple, dict, set, frozenset, sorted)
_CLOCKS = (time.time, time.perf_counter, time.monotonic, time.process_time)
_TEXTS = (str, repr, format)
_WRITING = ("write", "writelines", "flush")
_OUR_FILES = ("numpy", "scipy", "tapegrad", "numba", "builtins", "math")


def of_call(reader, target, args: list[Form], kwargs: dict[str, Form]) -> Form | None:
    """The result of a call that writes a text, reads a clock, or takes what is not followed."""
    owner = getattr(target, "__self__", None)
    if target is print or _is_of_logging(target) or _writes(owner, target):
        return written(reader, f"calls {target.__name__}")
    if target is logging.getLogger and are_known(args):
        return Known(target(*[form.value for form in args]))
    if _is_one(target, _CLOCKS):
        return Unfollowed("the time", True)
    if _is_one(target, _TEXTS) or isinstance(owner, str):
        is_fixed = all(isinstance(form, Known) and is_plain(form) for form in args) and not kwargs
        return folded(target, *[form.value for form in args]) if is_fixed else TEXT  # type: ignore[attr-defined]
    if target is isinstance and isinstance(args[0], Known):
        return None
    if _is_one(target, (len, bool)) and len(args) == 1 and is_container(args[0]):
        return counted(reader, args[0].value, target)
    found = combined(reader, *args, *kwargs.values())
    if found is None:
        return None
    if _is_one(target, _OF_NUMBERS) or getattr(target, "__module__", "") == "math":
        return dataclasses.replace(found, plain=True)
    is_ufunc = isinstance(target, np.ufunc) and "out" not in kwargs
    if is_ufunc or _is_one(target, _OF_ARRAYS + _COPIES):
        return dataclasses.replace(found, plain=False)
    if (getattr(target, "__module__", "") or "").split(".")[0] in _OUR_FILES:
        raise Refused(f"it calls {getattr(target, '__name__', target)} with {found.words}")
    return None


def _writes(owner, target) -> bool:
    """Whether a method writes a text to a log or a file; others may read the file."""
    is_file = isinstance(owner, io.IOBase)
    return isinstance(owner, WRITERS) and not (is_file and target.__name__ not in _WRITING)


def _is_one(target, among: tuple) -> bool:
    return any(target is one for one in among)


def _is_of_logging(target) -> bool:
    """Whether a function of the module logs a message."""
    is_function = isinstance(target, types.FunctionType) and target.__module__ == "logging"
    return is_function and hasattr(logging.Logger, target.__name__)


def written(reader, what: str) -> Form:
    """A text that is written somewhere."""
    reader.changes.texts.setdefault(line_of(reader), what)
    return NONE


# --- Calls: functions that are followed, and those that are replaced ------------------------------


_signature = functools.lru_cache(1024)(inspect.signature)
_OURS = ("numpy", "scipy", "tapegrad", "numba")


def called(s, function: Form, args: list[Form], kwargs: dict[str, Form]):
    """`function(*args, **kwargs)`: a form, or a function to be followed."""
    if isinstance(function, LocalFunction):
        return s.inline(function, args, kwargs)
    if isinstance(function, Method):
        return _method(s, function, args, kwargs)
    if isinstance(function, Ref) and s.reader.contents(function).what == "instance":
        return _method(s, Method(function, "__call__"), args, kwargs)
    if not isinstance(function, Known):
        raise Refused(f"it calls {described(function)}")
    target = (function := _entered(function)).value
    if (made := of_call(s.reader, target, args, kwargs)) is not None:
        return made
    if (made := _of_scipy(s, function, args, kwargs)) is not None:
        return made
    if isinstance(target, types.MethodType):
        owner = s.reader.outside(target.__self__)
        return called(s, Known(target.__func__), [owner, *args], kwargs)
    if isinstance(target, functools.partial):
        s.reader.dependencies += held_by_partial(target)
        bound = {name: s.reader.outside(one) for name, one in target.keywords.items()}
        first = [s.reader.outside(one) for one in target.args]
        return called(s, Known(target.func), [*first, *args], {**bound, **kwargs})
    if hasattr(type(target), "_method_for"):
        own = [_own(one) for one in args], {name: _own(one) for name, one in kwargs.items()}
        return called(s, Known(_inside(target)), *own)
    made = _by_table(s, target, args, kwargs)
    if made is not None:
        return made
    if isinstance(target, types.FunctionType) and _is_users(target):
        return s.inline(function, args, kwargs)
    if isinstance(target, type) and _is_plain_class(target):
        return _instance(s, target, args, kwargs)
    if (method := special_method(s.reader, function, "__call__")) is not None:
        return called(s, method, args, kwargs)
    raise Refused(f"it calls {getattr(target, '__qualname__', target)!s}, which is not known here")


def _of_scipy(s, function: Known, args: list[Form], kwargs: dict[str, Form]):
    """A call of a function of SciPy, or of an object that takes parameters; None for others."""
    target = function.value
    if (followed := getattr(target, "followed_by", None)) is not None:
        return _of_solver(s, followed, args, kwargs)
    if can_record(target):
        made = _by_table(s, target, args, kwargs)
        return of_recorded_call(s, target, args, kwargs) if made is None else made
    if getattr(type(target), "takes_parameters", False):
        return Parametrised(function, tuple(args), (*kwargs,), (*kwargs.values(),))
    return None


def _of_solver(s, followed: types.FunctionType, args: list[Form], kwargs: dict[str, Form]):
    """A call of a solver of SciPy's, for which a function of `solvers` is followed."""
    name = followed.__name__
    if s.builder.single:
        raise Refused(f"it calls {name} where arrays are of float32")
    try:
        given = _signature(followed).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise Refused(f"it calls {name} with arguments that graphs do not know ({error})") from None
    for one in ("a", "b", "x0"):
        if one in given and not is_number(given[one]):
            raise Refused(f"it calls {name} with {described(given[one])} for {one}")
    return s.inline(Known(followed), args, kwargs)


def _value_at(s, f: Form, x: Form, args: Form):
    """`solvers.value_at`; how often SciPy calls the function is not told."""
    is_tuple = isinstance(args, Tuple) or (isinstance(args, Known) and type(args.value) is tuple)
    rest = access.items_of(s.reader, args) if is_tuple else (args,)
    call = called(s, f, [x, *rest], {})
    if isinstance(call, Inline) and call.frame.code.assigns_outside:
        name = call.frame.code.name
        raise Refused(f"a solver calls {name}, which assigns variables of outside")
    return call


def _variable(s, x: Form) -> Form:
    """`solvers.variable`: the result of a step of its own."""
    one = s.builder.constant(1.0)
    made = s.builder.step("multiply", converted(s.builder, x, FLOAT), one)
    return Number(FLOAT, made, is_tensor(x))


def _slope_of(s, value: Form, point: Number) -> Form:
    """`solvers.slope_of`: a constant, in whose place steps are put when all is read."""
    if not is_number(value):
        raise Refused(f"a function of which it needs a root returns {described(value)}")
    of = converted(s.builder, value, FLOAT)
    made = s.builder.constant(1.0)
    assert point.value is not None
    s.reader.slopes.append(Slope(point.value, of, made))
    return Number(FLOAT, made, is_tensor(value))


BUILTINS |= {
    solvers.value_at: _value_at,
    solvers.variable: _variable,
    solvers.slope_of: _slope_of,
    solvers.detached: stopped,
}


def _entered(function: Known) -> Known:
    """The stand-in of a function, where the functions of users are entered."""
    is_builtin = getattr(function.value, "__module__", None) == "builtins"
    if not config.enter or is_builtin or isinstance(function.value, type):
        return function
    if isinstance(function.value, types.MethodType):
        made = method_entered(function.value)
    else:
        made = stand_in(function.value)
    return function if made is None else Known(getattr(made, "followed", made))


def held_by_partial(partial: functools.partial) -> list[Checked]:
    """What a functools.partial holds; its keywords can be changed in place."""
    return [*partial_dependencies(partial), Snapshot.of(partial.keywords, "keywords")]


def _inside(compiled) -> Any:
    """The function inside a compiled one, which has `_method_for`, see `method_of_compiled`."""
    if isinstance(getattr(compiled, "__func__", None), types.FunctionType):
        return types.MethodType(compiled.__func__, compiled.__self__)
    if getattr(compiled, "_kind", "") != "value":
        raise Refused("it calls a compiled gradient")
    return compiled._f


def _own(form: Form) -> Form:
    """An argument of a compiled function, whose writes are not visible to the caller."""
    if isinstance(form, Array):
        return dataclasses.replace(form, writable=False)
    if isinstance(form, (Number, Known)):
        return form
    raise Refused(f"it calls a compiled function with {described(form)}")


def _instance(s, target: type, args: list[Form], kwargs: dict[str, Form]):
    """An instance of a user's class."""
    s.reader.dependencies += method_dependencies(target, "__init__")
    made = s.reader.make(s.site, "instance", (target, ()), ())
    if _init_of(target) is object.__init__:
        if args or kwargs:
            raise Raises("TypeError: arguments of a class without __init__")
        return made
    call = s.inline(Known(_init_of(target)), [made, *args], kwargs)
    return dataclasses.replace(call, result=made)


def _init_of(target: type) -> Any:
    return inspect.getattr_static(target, "__init__")


def _is_plain_class(target: type) -> bool:
    """Whether instances of a user's class are what its `__init__` makes them."""
    own = (object.__new__, object.__getattribute__, object.__setattr__, type)
    has = (target.__new__, target.__getattribute__, target.__setattr__, type(target))
    init = _init_of(target)
    simple = init is object.__init__ or isinstance(init, types.FunctionType)
    return (
        has == own
        and simple
        and target.__module__ != "builtins"
        and not hasattr(target, "__slots__")
    )


def is_of_ours(space: dict) -> bool:
    """Whether names are those of a module of functions that are followed in place of others."""
    return space is vars(prelude) or space is vars(solvers)


def _is_users(target) -> bool:
    module = (getattr(target, "__module__", "") or "").split(".")[0]
    return module not in _OURS or is_of_ours(target.__globals__)


def _by_table(s, target, args, kwargs):
    try:
        handler = BUILTINS.get(target) or handler_of(target)
    except TypeError:
        return None
    if handler is None:
        return None
    name = getattr(target, "__name__", target)
    return handled(s, name, handler, args, kwargs)


def handled(s, name, handler: Callable, args: list, kwargs: dict):
    """The result of a handler for a call; refused if it does not take the arguments."""
    try:
        _signature(handler).bind(s, *args, **kwargs)
    except TypeError as error:
        raise Refused(
            f"{name} is called with arguments that are not known here ({error})"
        ) from None
    return handler(s, *args, **kwargs)


def _method(s, method: Method, args: list, kwargs: dict):
    owner, name = method.owner, method.name
    if isinstance(owner, Parametrised):
        return _of_parametrised(s, owner, name, args, kwargs)
    if name == "setdefault" and outside_changes.sets_default(s.reader, owner, args):
        name = "get"
    if outside_changes.is_container(owner) or outside_changes.is_changing(s.reader, owner, name):
        return outside_changes.method(s.reader, owner, name, args, kwargs)
    if is_float(owner) and not is_tensor(owner) and name == "detach":  # after one round
        return Unfollowed("detach() of a number that may be one of Python's", True)
    if not (isinstance(owner, Ref) and s.reader.contents(owner).what == "instance"):
        return handled(s, name, method_of(s.reader, owner, name), [owner, *args], kwargs)
    kind = s.reader.contents(owner).keys[0]
    found = inspect.getattr_static(kind, name)
    if isinstance(found, staticmethod):
        return called(s, Known(found.__func__), args, kwargs)
    if not isinstance(found, types.FunctionType):
        raise Refused(f"the attribute {name} of a class is no plain method")
    s.reader.dependencies += method_dependencies(kind, name)
    return called(s, Known(found), [owner, *args], kwargs)


def _of_parametrised(s, owner: Parametrised, name: str, args: list, kwargs: dict):
    """A method of an object with parameters: that of the one without, which takes them last."""
    found = getattr(owner.owner.value, name, None)
    given = len(args) + len(kwargs)
    if not can_record(found) or given > takes_point(found):
        raise Refused(f"it calls the method {name} of an object with parameters")
    every = [*args, *kwargs.values(), *owner.args]
    return called(s, Known(found), every, dict(zip(owner.names, owner.named, strict=True)))

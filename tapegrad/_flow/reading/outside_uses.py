"""Uses of arrays from outside, followed through a function on each way."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.process import numba_ir as ir
from ..._core.tensor.dependencies import SMALL
from ..._core.tensor.pytree import held_by
from ..._core.tensor.registry import declared_by, theirs
from .code import FunctionCode, code_of
from .forms import Refused

# --- What is known of values where the uses of arrays from outside are followed -------------------


#: Types of arrays that do what NumPy's do.
ARRAYS = (np.ndarray, np.memmap)
#: Types of numbers, texts and indices that never change.
PLAIN = (int, float, bool, str, type(None), type(Ellipsis), slice, range)


class UnknownUse(Exception):
    """Something that a function does is not known here."""


@dataclasses.dataclass(frozen=True)
class KnownObject:
    """An object from outside, or one that follows from such objects and constants."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class DerivedUse:
    """What an element-wise function of NumPy's gives of an array from outside and of numbers."""

    function: np.ufunc
    operands: tuple[KnownObject, ...]

    @property
    def array(self) -> np.ndarray:
        """The array."""
        (found,) = [one.value for one in self.operands if isinstance(one.value, np.ndarray)]
        return found


@dataclasses.dataclass(frozen=True)
class Other:
    """Numbers and arrays that are computed; `recorded` of arguments, else of plain data.

    `sure` says that they are recorded floats, so that an operation of one is recorded.
    """

    recorded: bool
    sure: bool = False


@dataclasses.dataclass(frozen=True)
class Items:
    """A tuple or a list that the function makes."""

    items: tuple
    is_list: bool = False


@dataclasses.dataclass(frozen=True)
class UsedMethod:
    """A method of something that is computed, or of an array."""

    owner: Any
    name: str


@dataclasses.dataclass(frozen=True)
class Iterator:
    """An iterator; where it stands is in the state of a way."""

    key: int


RECORDED, UNSURE, DATA = Other(True, True), Other(True), Other(False)
#: What is not followed: whatever reads it ends this.
NOTHING = None


@dataclasses.dataclass
class Way:
    """A way through a function so far: which operands operations read, and iterators."""

    uses: list[tuple]
    iterators: dict[int, tuple[tuple, int]]

    def copy(self) -> Way:
        return Way([*self.uses], dict(self.iterators))

    def iterator(self, items: list) -> Iterator:
        """A new iterator over some items."""
        found = Iterator(len(self.iterators))
        self.iterators[found.key] = tuple(items), 0
        return found


def is_plain(value) -> bool:
    """Whether an object is a number or a text, or a tuple of such."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    if type(value) is slice:
        return all(map(is_plain, (value.start, value.stop, value.step)))
    return type(value) in PLAIN or isinstance(value, np.dtype)


def is_operand(form) -> bool:
    """Whether a form is a number or an array."""
    if isinstance(form, KnownObject):
        return is_plain(form.value) or isinstance(form.value, np.number) or is_array(form.value)
    return isinstance(form, (Other, DerivedUse))


def is_number(value) -> bool:
    """Whether an object is a number of Python's."""
    return type(value) in (int, float)


def is_array(value) -> bool:
    """Whether an object is an array of numbers."""
    return type(value) in ARRAYS and not value.dtype.hasobject


def is_recorded(form) -> bool:
    if isinstance(form, Items):
        return any(map(is_recorded, form.items))
    return isinstance(form, Other) and form.recorded


def value_of(form):
    """The object that a form is."""
    if not isinstance(form, KnownObject):
        raise UnknownUse("something computed")
    return form.value


def key_of(form) -> tuple | None:
    """An index that gives views, in a tuple; None for others."""
    if isinstance(form, Items):
        if form.is_list:
            return None  # as an index a list is an array
        found = [key_of(one) for one in form.items]
        return None if None in found else (tuple([one[0] for one in found if one]),)
    return (form.value,) if isinstance(form, KnownObject) and is_plain(form.value) else None


# --------------------------------------------------------------------------------------------------
# Arrays and other objects from outside where the uses of arrays are followed: parts, writes.


#: Items that are gone through.
_ITEMS = 20_000
#: Attributes of an array that tell how it lies.
_LAYOUT = frozenset(("shape", "ndim", "size", "dtype", "T", "mT"))
#: All parts of a container.
_ALL = object()
#: The class of the fields of named tuples.
_TUPLE_FIELD = type(vars(collections.namedtuple("_Pair", "a b"))["a"])
_GENERIC = (object.__getattribute__, types.SimpleNamespace.__getattribute__)


class Objects:
    """The arrays `given`, of which those that are `dirty` do more than enter recorded operations.

    Objects are as they are now: what the function writes to is not read any more.
    """

    def __init__(self, given: Sequence[np.ndarray]):
        self.given = {id(one): one for one in given}
        self.dirty: set[int] = set()
        self._written: set[tuple[int, Any]] = set()  # parts of objects, on any way

    # --- arrays -------------------------------------------------------------------------------

    def arrays(self, form) -> list[int]:
        """The given arrays in whose memory an operand may lie, or of which it is computed."""
        if isinstance(form, DerivedUse):
            return [key for one in form.operands for key in self.arrays(one)]
        if isinstance(form, Items):
            return [key for one in form.items for key in self.arrays(one)]
        if isinstance(form, UsedMethod):
            return self.arrays(form.owner)
        if not isinstance(form, KnownObject) or not isinstance(form.value, np.ndarray):
            return []
        return [k for k, one in self.given.items() if np.may_share_memory(one, form.value)]

    def spend(self, *forms) -> None:
        """Values of arrays are read by something else than recorded operations."""
        for form in forms:
            self.dirty.update(self.arrays(form))

    def spend_all(self, form) -> None:
        """The same of all that a result or an argument of unknown use holds."""
        if isinstance(form, Items):
            for one in form.items:
                self.spend_all(one)
        elif not is_operand(form):
            kind = type(form.value if isinstance(form, KnownObject) else form).__name__
            raise UnknownUse(f"an object of type {kind}")
        self.spend(form)

    def computed_form(self, form):
        """A form, or data where it is computed of an array from outside."""
        if not isinstance(form, DerivedUse):
            return form
        self.spend(form)
        return DATA

    def view(self, made, of: np.ndarray):
        """What an operation that gives views has made of an array."""
        if type(made) is np.ndarray and np.may_share_memory(made, of):
            return KnownObject(made)
        if type(made) in PLAIN or type(made) is tuple or isinstance(made, np.dtype):
            return KnownObject(made)
        self.spend(KnownObject(of))
        return DATA

    # --- parts --------------------------------------------------------------------------------

    def item(self, owner, key):
        """`owner[key]`."""
        if isinstance(owner, Items):
            if isinstance(key, KnownObject) and isinstance(key.value, (int, slice)):
                found = owner.items[key.value]
                return Items(found) if isinstance(key.value, slice) else found
            raise UnknownUse("an item by a computed index")
        owner = self.computed_form(owner)
        if isinstance(owner, Other):
            self.spend_all(key)
            return owner
        value, key = value_of(owner), key_of(key)
        if is_array(value):
            if key is None or not self.arrays(owner):
                self.spend(owner)
                return DATA
            return self.view(value[key[0]], value)
        if key is None or type(value) not in (list, tuple, dict):
            raise UnknownUse("an item of an object")
        self._check_unwritten(value, key[0] if type(value) is dict else None)
        return KnownObject(value[key[0]])

    def write(self, owner, key) -> None:
        """A write to a part of an object from outside: what is read of it later is not known."""
        value = value_of(owner)
        if type(value) not in (list, dict):
            raise UnknownUse("a write to an object")
        key = key_of(key) if type(value) is dict else (None,)
        if key is None:
            raise UnknownUse("a write at a computed key")
        self._written.update([(id(value), key[0]), (id(value), _ALL)])

    def write_attribute(self, owner, name: str) -> None:
        """The same of an attribute."""
        value = value_of(owner)
        kind = type(value)
        is_data = hasattr(inspect.getattr_static(kind, name, None), "__set__")
        is_plain_one = kind.__setattr__ is object.__setattr__ and name in held_by(value)
        is_plain_one = is_plain_one and not is_data
        if not is_plain_one or isinstance(value, (type, types.ModuleType)):
            raise UnknownUse("a write to an attribute")
        self.write_name(value, name)

    def write_name(self, owner, name: str) -> None:
        """The same of a name, by what holds it."""
        self._written.add((id(owner), name))

    def name(self, owner, name: str, value) -> KnownObject:
        """The value of a name, which has not been written to."""
        self._check_unwritten(owner, name)
        return KnownObject(value)

    def _check_unwritten(self, owner, key) -> None:
        if (id(owner), key) in self._written:
            raise UnknownUse("something that the function has written")

    def attribute(self, owner, name: str):
        """`owner.name`."""
        owner = self.computed_form(owner)
        if isinstance(owner, Other):
            if callable(getattr(np.ndarray, name, None)):
                return UsedMethod(owner, name)
            return owner if name == "T" or not owner.recorded else UNSURE
        value = value_of(owner)
        if is_array(value):
            if name in _LAYOUT:
                return self.view(getattr(value, name), value)
            return UsedMethod(owner, name)
        if isinstance(value, types.ModuleType):
            is_plain_module = type(value) is types.ModuleType and name in vars(value)
            if is_plain_module or value.__name__.split(".")[0] in ("numpy", "math", "tapegrad"):
                return KnownObject(getattr(value, name))
            raise UnknownUse("an attribute of a module")
        if type(value) is list and name == "append":
            return UsedMethod(owner, name)
        self._check_unwritten(value, name)
        return _attribute_of_instance(value, name)

    def iterated(self, form) -> list:
        if isinstance(form, Items):
            return [*form.items]
        value = value_of(form)
        if is_array(value) and value.ndim > 1 and len(value) <= _ITEMS:
            return [self.view(row, value) for row in value]
        self._check_unwritten(value, _ALL)
        if type(value) in (range, list, tuple, dict) and len(value) <= _ITEMS:
            return [KnownObject(one) for one in value]
        raise UnknownUse("an iteration")


def _attribute_of_instance(value, name: str):
    """An attribute that an instance holds, or a method of its class."""
    kind = type(value)
    if isinstance(value, type) or kind.__getattribute__ not in _GENERIC:
        raise UnknownUse("an attribute of an object")
    raw, held = inspect.getattr_static(kind, name, None), getattr(value, "__dict__", {})
    if isinstance(raw, types.MemberDescriptorType):
        return KnownObject(getattr(value, name))
    is_data = hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")
    if type(raw) is _TUPLE_FIELD or (name in held and not is_data):
        return KnownObject(held[name] if name in held else getattr(value, name))
    if isinstance(raw, types.FunctionType):
        return KnownObject(types.MethodType(raw, value))
    if isinstance(raw, np.ndarray) or is_plain(raw) and raw is not None:
        return KnownObject(raw)
    raise UnknownUse(f"the attribute {name} of an object")


# --------------------------------------------------------------------------------------------------
# Statements of a function followed on each way through it, for the uses of arrays from outside.


#: Ways through a function.
WAYS = 32


class FollowedCall:
    """A call of a function: its variables on the way that is followed."""

    def __init__(self, uses: Any, f: types.FunctionType, arguments: dict[str, Any]):
        self.uses, self.f, self.arguments = uses, f, arguments
        self.code: FunctionCode = code_of(f.__code__)
        self.cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        if f.__code__.co_flags & inspect.CO_GENERATOR:
            raise UnknownUse("a generator")

    def run(self, way: Way) -> list[tuple[Any, Way]]:
        """The results on all ways."""
        waiting, ends = [(self.code.first, 0, dict(self.arguments), way)], []
        while waiting:
            label, at, variables, way = waiting.pop()
            found = self._follow(label, at, variables, way)
            ends += [one for one in found if len(one) == 2]
            waiting += [one for one in found if len(one) == 4]
            if len(waiting) + len(ends) > WAYS:
                raise UnknownUse("too many ways")
        return ends

    def _follow(self, label: int, at: int, variables: dict, way: Way) -> list[tuple]:
        """The statements of a block from one on: its ends, and where it goes on."""
        body = self.code.blocks[label].body
        for k in range(at, len(body)):
            self.uses.spend_statement()
            one = body[k]
            if isinstance(one, ir.Assign):
                ways = self._value(one.value, one.target.name, variables, way)
                if len(ways) != 1:
                    return [
                        (label, k + 1, self._with(variables, one.target.name, form), other)
                        for form, other in ways
                    ]
                form, way = ways[0]
                variables = self._with(variables, one.target.name, form)
            elif isinstance(one, (ir.SetItem, ir.StaticSetItem, ir.SetAttr)):
                self._write(one, variables)
            elif isinstance(one, ir.Del):
                variables.pop(one.value, None)
            elif isinstance(one, ir.Jump):
                return [(one.target, 0, variables, way)]
            elif isinstance(one, ir.Branch):
                return self._branch(one, variables, way)
            elif isinstance(one, ir.Return):
                return [(variables[one.value.name], way)]
            elif isinstance(one, (ir.Raise, ir.StaticRaise)):
                return []
            else:
                raise UnknownUse(f"a statement {type(one).__name__}")
        raise UnknownUse("a block without an end")

    def _with(self, variables: dict, name: str, form) -> dict:
        """The variables after an assignment; a name from outside is no variable."""
        if name in self.code.assigned_globals:
            self.uses.write_name(self.f.__globals__, name)
            return variables
        if name in self.cells:
            self.uses.write_name(self.cells[name], name)
            return variables
        return {**variables, name: form}

    def _write(self, one, variables: dict) -> None:
        """A write to an item or an attribute."""
        owner = variables[one.target.name]
        if isinstance(one, ir.SetAttr):
            self.uses.write_attribute(owner, one.attr)
        elif isinstance(one, ir.StaticSetItem):
            self.uses.write(owner, KnownObject(one.index))
        else:
            self.uses.write(owner, variables[one.index.name])

    def _branch(self, one: ir.Branch, variables: dict, way: Way) -> list[tuple]:
        asked = variables[one.cond.name]
        if isinstance(asked, KnownObject) and (is_plain(asked.value) or type(asked.value) is tuple):
            return [(one.truebr if asked.value else one.falsebr, 0, variables, way)]
        if isinstance(asked, Items):
            return [(one.truebr if asked.items else one.falsebr, 0, variables, way)]
        self.uses.spend_all(asked)
        return [(one.truebr, 0, dict(variables), way.copy()), (one.falsebr, 0, variables, way)]

    # --- values -------------------------------------------------------------------------------

    def _value(self, value, target: str, variables: dict, way: Way) -> list[tuple[Any, Way]]:
        """The values of a right side, and the ways to them."""
        if isinstance(value, ir.Expr) and value.op == "call":
            return self._call(value, variables, way)
        return [(self._plain_value(value, variables, way), way)]

    def _call(self, value: ir.Expr, variables: dict, way: Way) -> list:
        args = [variables[one.name] for one in value.args]
        if value.vararg is not None:
            args += self.uses.iterated(variables[value.vararg.name])
        if getattr(value, "varkwarg", None) is not None:
            raise UnknownUse("a call with **")
        named = {name: variables[one.name] for name, one in value.kws}
        return self.uses.called(variables[value.func.name], args, named, way)

    def _plain_value(self, value, variables: dict, way: Way):
        if isinstance(value, ir.Var):
            return variables[value.name]
        if isinstance(value, ir.Arg):
            return self.arguments[value.name]
        if isinstance(value, ir.Const):
            return KnownObject(value.value)
        if isinstance(value, ir.Global):
            return self._global(value.name)
        if isinstance(value, ir.FreeVar):
            cell = self.cells[value.name]
            return self.uses.name(cell, value.name, cell.cell_contents)
        if not isinstance(value, ir.Expr):
            raise UnknownUse(f"a value {type(value).__name__}")
        handler = getattr(self, f"_of_{value.op}", None)
        if handler is None:
            raise UnknownUse(f"an expression {value.op}")
        return handler(value, variables, way)

    def _global(self, name: str):
        if name in self.f.__globals__:
            return self.uses.name(self.f.__globals__, name, self.f.__globals__[name])
        if hasattr(builtins, name):
            return KnownObject(getattr(builtins, name))
        raise UnknownUse(f"the name {name}")

    def _of_binop(self, value, variables, way):
        operands = [variables[value.lhs.name], variables[value.rhs.name]]
        return self.uses.operation(value.fn, operands, way)

    def _of_inplace_binop(self, value, variables, way):
        operands = [variables[value.lhs.name], variables[value.rhs.name]]
        is_number = isinstance(operands[0], KnownObject) and is_plain(operands[0].value)
        function = value.immutable_fn if is_number else value.fn
        return self.uses.operation(function, operands, way)

    def _of_unary(self, value, variables, way):
        return self.uses.operation(value.fn, [variables[value.value.name]], way)

    def _of_getattr(self, value, variables, way):
        return self.uses.attribute(variables[value.value.name], value.attr)

    def _of_getitem(self, value, variables, way):
        return self.uses.item(variables[value.value.name], variables[value.index.name])

    def _of_static_getitem(self, value, variables, way):
        return self.uses.item(variables[value.value.name], KnownObject(value.index))

    def _of_build_tuple(self, value, variables, way):
        return Items(tuple([variables[one.name] for one in value.items]))

    def _of_build_list(self, value, variables, way):
        return Items(tuple([variables[one.name] for one in value.items]), True)

    def _of_exhaust_iter(self, value, variables, way):
        form = variables[value.value.name]
        if isinstance(form, Other):
            return Items((form,) * value.count)
        return Items(tuple(self.uses.iterated(form)))

    def _of_getiter(self, value, variables, way):
        form = variables[value.value.name]
        return form if isinstance(form, Iterator) else way.iterator(self.uses.iterated(form))

    def _of_iternext(self, value, variables, way):
        form = variables[value.value.name]
        if not isinstance(form, Iterator):
            raise UnknownUse("an iteration")
        items, at = way.iterators[form.key]
        way.iterators[form.key] = items, at + 1
        is_there = at < len(items)
        return Items((items[at] if is_there else KnownObject(None), KnownObject(is_there)))

    def _of_pair_first(self, value, variables, way):
        return variables[value.value.name].items[0]

    def _of_pair_second(self, value, variables, way):
        return variables[value.value.name].items[1]

    def _of_cast(self, value, variables, way):
        return variables[value.value.name]


# --- Which arrays from outside a function hands to recorded operations only, as they lie ----------
# The statements of a function are followed on each way through it, with the objects that it reads
# from outside as they are. Whatever is not known ends this: nothing is shown then.


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
        ends = self.called(KnownObject(f), [*args], named, way)
        for found, _ in ends:
            self.spend_all(found)
        self.ways = [way.uses for _, way in ends]
        self.clean = [one for key, one in self.given.items() if key not in self.dirty]

    # --- functions ----------------------------------------------------------------------------

    def called(self, function, args: list, named: dict, way: Way) -> list[tuple[Any, Way]]:
        """The results of a call, and the ways to them."""
        if isinstance(function, UsedMethod):
            return [(self._of_method(function, args, named), way)]
        if not isinstance(function, KnownObject):
            raise UnknownUse("a call of something computed")
        called = function.value
        if type(called) is functools.partial:
            args = [*map(KnownObject, called.args), *args]
            named = {**{k: KnownObject(x) for k, x in called.keywords.items()}, **named}
            return self.called(KnownObject(called.func), args, named, way)
        if type(called) is types.MethodType:
            return self.called(
                KnownObject(called.__func__), [KnownObject(called.__self__), *args], named, way
            )
        meant = theirs(called)
        if _is_of_numpy(meant):
            return [(self._of_library(meant, args, named, way), way)]
        if getattr(math, getattr(called, "__name__", ""), None) is called:
            return [(self._computed(args, named), way)]
        if isinstance(called, type) or type(called) is types.BuiltinFunctionType:
            return [(self._of_builtin(called, args, named, way), way)]
        if type(called) is not types.FunctionType or _is_ours(called):
            raise UnknownUse(f"a call of {getattr(called, '__name__', called)}")
        return self._inside(called, args, named, way)

    def _inside(self, f: types.FunctionType, args: list, named: dict, way: Way) -> list:
        if self._depth >= _DEPTH or f.__dict__.keys() & {"__signature__"}:
            raise UnknownUse("calls that nest too deeply")
        self._depth += 1
        try:
            return FollowedCall(self, f, _bound(f, args, named)).run(way)
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
            raise UnknownUse("a keyword of a function")
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
            return DerivedUse(called, tuple(args))
        found = self._computed(args, {})
        return RECORDED if is_row else found

    def _of_builtin(self, called, args: list, named: dict, way: Way):
        if called is len and len(args) == 1 and self.arrays(args[0]):
            return KnownObject(len(args[0].value)) if isinstance(args[0], KnownObject) else DATA
        if (
            called is isinstance
            and isinstance(args[0], KnownObject)
            and isinstance(args[1], KnownObject)
        ):
            return KnownObject(isinstance(args[0].value, args[1].value))
        if called in (tuple, list) and len(args) == 1 and not named:
            return Items(tuple(self.iterated(args[0])), called is list)
        if called in (zip, enumerate, reversed) and args and not named:
            return _iterator_of(called, [self.iterated(one) for one in args], way)
        if called is print:
            return self._computed(args, named)
        if called not in _OF_PLAIN:
            raise UnknownUse(f"a call of {getattr(called, '__name__', called)}")
        return self._plainly(called, args) if not named else self._computed(args, named)

    def _plainly(self, called, args: list):
        """The result of known numbers and texts; data of others."""
        if all([isinstance(one, KnownObject) and is_plain(one.value) for one in args]):
            try:
                return KnownObject(called(*[one.value for one in args]))
            except Exception as error:
                raise UnknownUse("an error") from error
        return self._computed(args, {})

    def _of_method(self, method: UsedMethod, args: list, named: dict):
        owner = method.owner
        if isinstance(owner, KnownObject) and type(owner.value) is list:
            self.write(owner, None)
            return KnownObject(None)
        if isinstance(owner, KnownObject):  # an array
            if (
                method.name in _VIEWS
                and not named
                and all([isinstance(x, KnownObject) for x in args])
            ):
                if all([is_plain(one.value) for one in args]):
                    made = getattr(owner.value, method.name)(*[one.value for one in args])
                    return self.view(made, owner.value)
            if any(map(is_recorded, args)) or not hasattr(np.ndarray, method.name):
                raise UnknownUse(f"a method {method.name} of recorded operands")
            if method.name not in ("sum", "mean", "copy", "max", "min", "dot", "std", "astype"):
                raise UnknownUse(f"the method {method.name}")
        if not _KEYWORDS.issuperset(named):
            raise UnknownUse("a keyword of a method")
        self.spend(owner)
        found = self._computed([UNSURE if is_recorded(owner) else DATA, *args], named)
        return RECORDED if owner == RECORDED and method.name in ("sum", "mean") else found

    def spend_statement(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnknownUse("too many statements")

    # --- operators ----------------------------------------------------------------------------

    def operation(self, function, operands: list, way: Way):
        """An operator of Python's."""
        if function in _IN_PLACE and not is_recorded(operands[0]):
            raise UnknownUse("a change in place")
        called = _OPERATORS.get(function)
        is_plain_one = all(
            [isinstance(one, KnownObject) and is_plain(one.value) for one in operands]
        )
        if called is not None and not is_plain_one:
            return self._operation(called, operands, way)
        if function in (operator.is_, operator.is_not):
            if all([isinstance(one, KnownObject) for one in operands]):
                return KnownObject(function(*[one.value for one in operands]))
            return DATA
        if any([isinstance(one, Items) for one in operands]):
            raise UnknownUse("an operation of a list")
        return self._plainly(function, operands)


def _is_short(called, args: list) -> bool:
    """Whether a function of a large array and numbers takes less time than comparing the array."""
    known = [one.value for one in args if isinstance(one, KnownObject)]
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
    return isinstance(form, DerivedUse)


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
    return way.iterator([Items((KnownObject(k), one)) for k, one in enumerate(only)])


def _is_ours(f: types.FunctionType) -> bool:
    return str(f.__globals__.get("__name__")).split(".")[0] == "tapegrad"


def _bound(f: types.FunctionType, args: list, named: dict) -> dict[str, Any]:
    """Arguments by the names that code has for them."""
    signature = inspect.signature(f, follow_wrapped=False)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise UnknownUse("other arguments") from error
    found = {}
    for name, one in signature.parameters.items():
        if one.kind is one.VAR_KEYWORD:
            raise UnknownUse("a function that takes **")
        if one.kind is one.VAR_POSITIONAL:
            found[name] = Items(bound.arguments.get(name, ()))
        else:
            found[name] = bound.arguments.get(name, KnownObject(one.default))
    return found


def shown(f: Callable, args: Sequence, named: dict, given: Sequence[np.ndarray]) -> Uses | None:
    """What can be shown of some arrays; None where the function does anything that is not known."""
    try:
        return Uses(f, args, named, given)
    except (UnknownUse, Refused):
        return None
    except Exception:  # what an object of the user's raises must not cost the call
        return None

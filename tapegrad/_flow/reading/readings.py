"""A function read into a graph, for arguments of given forms, and readings kept."""

from __future__ import annotations

import dataclasses
import functools
import gc
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._core.config import config
from ..._core.tensor.dependencies import (
    ABSENT,
    Checked,
    Dependency,
    Placement,
    Snapshot,
    UnchangedPart,
    each_once,
    is_absent,
    is_equal,
    is_open,
    module_of_names,
    value_now,
)
from ..._core.tensor.pytree import (
    LIBRARIES,
    fields_of,
    held_by,
    is_fixed,
    module_of,
    outer,
    own_code,
)
from ..ir.flow_graph import Graph, validate
from .access import new_list
from .code import code_of
from .forms import SINGLE, Again, Form, Known, Leaves, Lost, Outdated, Refused, Tuple, shape_of
from .joins import element_joined
from .outside_changes import Changes
from .outside_values import GivenInput, Opened, entered, is_plain_namedtuple
from .reader import Frame, Stack
from .statements import bound_arguments, defaults_of, follow

# --- A function read into a graph, for arguments of given forms -----------------------------------


#: The number of times that reading restarts.
_TIMES = 40


@dataclasses.dataclass(frozen=True)
class Instance:
    """An instance among the arguments: its class, and the attributes that are known."""

    kind: type
    attributes: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Outside:
    """An object from outside among the arguments, such as one that a functools.partial holds."""

    value: Any


@dataclasses.dataclass
class Shared:
    """What readings of one code for other data share: evaluators of the graph, by their kind.

    `is_first` says that the graph was made before a program of a recording.
    """

    evaluators: dict[bool, Any] = dataclasses.field(default_factory=dict)
    is_first: bool = False


@dataclasses.dataclass
class Reading:
    """The result of reading: the graph, its result's form, and what it read outside.

    A call is like this one if the dependencies are unchanged. `hidden` are arrays from outside:
    further inputs, of which `given` lie there as they are. `changes` are what the function changes
    there, which the graph does not. `is_of_objects` says that it is of these very objects, whose
    identity or missing attributes are asked for.
    """

    graph: Graph
    result: Form
    dependencies: list[Checked]
    hidden: list[np.ndarray]
    changes: Changes = dataclasses.field(default_factory=Changes)
    given: Sequence[np.ndarray] = ()
    is_of_objects: bool = False
    shared: Shared = dataclasses.field(default_factory=Shared)


def read(
    f: Callable,
    trees: list,
    names: list[str],
    inputs: Sequence[GivenInput] = (),
    choices: dict[Any, Form | None] | None = None,
) -> Reading:
    """Read `f` for arguments: trees of `GivenInput`, `Known`, `Outside` and containers.

    The last ones are named. The inputs of the graph are in the order of the arguments, if `inputs`
    does not give another. `choices` are lists that lie in the arena, as an earlier reading has
    found; those that this one finds are added. Raises Refused if there is no graph.
    """
    if not isinstance(f, types.FunctionType):
        raise Refused(f"it is of type {type(f).__name__}")
    choices = {} if choices is None else choices
    single = any(one.kind == SINGLE for one in inputs)
    followed, changes = 0, Changes()
    for _ in range(_TIMES):
        reader = Opened(Graph(), choices, follow, followed, single)
        reader.changes = changes
        changes.begin()
        try:
            found = _read(reader, f, trees, names, inputs)
            if not changes.is_outdated:
                return found
        except Again as again:
            _choose(choices, again)
        except Outdated:
            pass
        except Refused as error:
            if not changes.is_outdated:
                if not (reader.is_of_objects or changes.refused):
                    error.dependencies = each_once(reader.dependencies)
                raise
        except Leaves as error:
            raise Refused(str(error)) from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # a mistake here must cost the graph, not the call
            raise Refused(f"reading failed with {type(error).__name__}: {error}") from error
        followed = reader.followed
    raise Refused("its lists hold items of kinds that do not fit")


def _choose(choices: dict, again: Again) -> None:
    """Put lists into the arena, with elements that fit all forms seen of them."""
    before = len(choices), [_shape(choices.get(site)) for site in again.sites]
    for site in again.sites:
        choices[site] = element_joined(choices.get(site), again.element, _same)
    if before == (len(choices), [_shape(choices[site]) for site in again.sites]):
        raise Refused(again.why)


def _shape(element: Form | None) -> tuple | None:
    return None if element is None else shape_of(element)


def _same(a: int, b: int) -> None:
    """Regions of an earlier reading are forgotten."""


def _read(
    reader: Opened, f, trees: list, names: list[str], inputs: Sequence[GivenInput]
) -> Reading:
    reader.run(lambda: _start(reader, f, trees, names, inputs))
    validate(reader.graph)
    dependencies = each_once(reader.dependencies)
    found = reader.graph, reader.result, dependencies, reader.hidden, reader.changes
    return Reading(*found, reader.arrays, reader.is_of_objects)


def _start(reader: Opened, f, trees: list, names: list[str], inputs: Sequence[GivenInput]):
    """The inputs as forms, and the edge to the function's first statement."""
    given = {id(one): entered(reader, one) for one in inputs}
    forms = [_form(reader, tree, ("argument", k), given) for k, tree in enumerate(trees)]

    code = own_code(f)
    defaults, keywords = defaults_of(reader, f)
    count = len(forms) - len(names)
    named = dict(zip(names, forms[count:], strict=True))
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    frame = Frame("f", code_of(code), f.__globals__, cells)
    arguments = bound_arguments(reader, frame, forms[:count], named, defaults, keywords)
    if code.co_flags & 0x20:
        raise Refused("it is a generator")
    reader.frames["f"] = frame
    for name, form in arguments.items():
        reader.state.variables["f", name] = form
    return reader.goto(Stack("f"), frame.code.first, 0, reader.state)


def _form(reader: Opened, tree, place: tuple, given: dict[int, Form]) -> Form:
    """An argument as a form; `given` has those of inputs that are in order."""

    def forms(items) -> tuple[Form, ...]:
        return tuple([_form(reader, one, (*place, k), given) for k, one in enumerate(items)])

    if isinstance(tree, GivenInput):
        return given.get(id(tree)) or entered(reader, tree)
    if isinstance(tree, Known):
        return tree
    if isinstance(tree, Outside):
        return reader.outside(tree.value)
    if isinstance(tree, tuple):
        if type(tree) is not tuple and not is_plain_namedtuple(type(tree)):
            raise Refused(f"an argument is of type {type(tree).__name__}")
        return Tuple(forms(tree), place, getattr(tree, "_fields", ()))
    if isinstance(tree, list):
        return new_list(reader, place, forms(tree))
    if isinstance(tree, dict):
        return reader.make(place, "dict", tuple(tree), forms(tree.values()))
    names = fields_of(tree)
    if not isinstance(tree, Instance) and names is not None:
        fields = {name: getattr(tree, name) for name in names}
        fields = {k: Known(one) if is_fixed(one) else one for k, one in fields.items()}
        tree = Instance(type(tree), fields)
    if not isinstance(tree, Instance) or not _has_plain_attributes(tree.kind):
        raise Refused(f"an argument is of type {getattr(tree, 'kind', type(tree)).__name__}")
    keys = tree.kind, tuple(tree.attributes)
    return reader.make(place, "instance", keys, forms(tree.attributes.values()))


def _has_plain_attributes(kind: type) -> bool:
    """Whether an attribute of an instance is its own, or one of its class."""
    return kind.__getattribute__ is object.__getattribute__ and not hasattr(kind, "__getattr__")


# --------------------------------------------------------------------------------------------------
# Readings of code kept for functions that are made of it anew, as a closure over other data is.
# A reading depends on what its dependencies say, on nothing else outside. So it is that of another
# function of the same code if that reads the same numbers, texts, modules and classes, by the same
# names, and in place of lists, dicts, arrays, instances of plain classes, functions and cells
# others of their kind, each of them in place of one, which hold the same in turn. No object is kept
# that one function has and another has not.


#: Readings kept, for other data of one code; values compared for them, bytes of an array they keep.
_MOST, _ALIKE, _MOST_VALUES, _MOST_BYTES = 256, 4, 2000, 1 << 16
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_CONTAINERS = (list, dict, set)
_Any = TypeVar("_Any", Dependency, Snapshot, UnchangedPart)
_NAMESPACES = (types.ModuleType, types.CodeType)
_HOLDERS = (functools.partial, types.MethodType)
#: Of NumPy and Python, which hold no data; weak references to them cannot be made.
_LASTING = (np.ufunc, type(np.sum), type(str.join))
_PAIRED = (*_CONTAINERS, np.ndarray, types.CellType, types.FunctionType, types.SimpleNamespace)


class Unknown(Exception):
    """Something whose likeness cannot be told."""


class Pattern(NamedTuple):
    """What a value is to be like: `how` says whether it is this one, equal, of items, or another.

    `what` gives the object, or is the value, the patterns of its items, or the number of an object;
    `kind` gives its type.
    """

    how: str
    kind: Callable[[], type | None]
    what: Any

    @classmethod
    def of(cls, how: str, value, what) -> Pattern:
        return cls(how, weakref.ref(type(value)), what)

    def is_of(self, value) -> bool:
        """Whether a value is of its type."""
        return type(value) is self.kind()


# --- what was read --------------------------------------------------------------------------------


class _Patterns:
    """The patterns of a function and of what was read from it on."""

    def __init__(self, f: types.FunctionType):
        self._numbers: dict[int, int] = {}
        self._objects: list = []
        self._classes: dict[int, type] = {}  # by the identity of the dict of their names
        self._count = 0
        self.parts: list[Any] = []  # by object what is the same of all that stand for it
        self.root = self.of(f)

    def of(self, value) -> Pattern:
        kind = type(value)
        self._count += len(value) if kind in (str, bytes) else 1
        if self._count > _MOST_VALUES:
            raise Unknown
        if kind in _PLAIN or isinstance(value, np.generic):
            return Pattern.of("equal", value, value)
        if isinstance(value, tuple):
            return Pattern.of("items", value, tuple(map(self.of, value)))
        if kind is staticmethod:
            return Pattern.of("wrapped", value, self.of(value.__func__))
        return self._numbered(value) if _is_paired(value) else self._same(value)

    def _same(self, value) -> Pattern:
        """That of an object which is the same one."""
        kind = type(value)
        if kind in _LASTING:
            return Pattern.of("same", value, lambda: value)
        if not (callable(value) or kind in _NAMESPACES) or kind in _HOLDERS:
            raise Unknown
        if isinstance(value, type):
            self._classes[_names_of(vars(value))] = value
        try:
            return Pattern.of("same", value, weakref.ref(value))  # it may hold much
        except TypeError:
            raise Unknown from None

    def _numbered(self, value) -> Pattern:
        """That of an object for which others may stand."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
            self.parts.append(None)
            self.parts[self._numbers[id(value)]] = self._parts(value)
        return Pattern.of("object", value, self._numbers[id(value)])

    def _parts(self, value) -> Any:
        if isinstance(value, np.ndarray):
            return _layout(value)
        if not isinstance(value, types.FunctionType):
            own = held_by(value)  # in which others may change attributes
            return self.of(own) if own else None
        if value.__kwdefaults__:
            raise Unknown
        held = value.__globals__, value.__defaults__, tuple(value.__closure__ or ())
        return own_code(value), self.of(held)

    def owner(self, owner) -> Pattern:
        """That of what holds a name."""
        if (module := module_of_names(owner)) is not None:
            return Pattern.of("names", owner, weakref.ref(module))
        if not isinstance(owner, types.MappingProxyType):
            return self.of(owner)
        kind = self._classes.get(_names_of(owner))
        if kind is None:
            raise Unknown
        return Pattern.of("names", owner, weakref.ref(kind))

    def read(self, one: Checked) -> tuple:
        """What a dependency compares."""
        if isinstance(one, Dependency):
            value = None if one.value is ABSENT else self.of(one.value)
            is_own = one.name in held_by(one.owner)
            return Dependency, self.owner(one.owner), one.name, (value, is_own)
        if isinstance(one, Placement) or type(one.value) is not list:  # memory, or part of a set
            raise Unknown
        items = [self.of(item) for item in one.value]
        if isinstance(one, Snapshot):
            return Snapshot, self.of(one.owner), one.name, (items, _plain_keys(one.keys))
        whole = _plain_keys(one.whole) if isinstance(one.whole, list) else one.whole
        return (
            UnchangedPart,
            self.of(one.owner),
            one.name,
            (items, _plain_keys([*one.places]), whole),
        )

    def hidden(self, array: np.ndarray, is_read: bool) -> Pattern:
        """That of an array that is an input: one that is made of what was read is the same."""
        if not is_read:
            if array.nbytes > _MOST_BYTES:
                raise Unknown
            return Pattern.of("same", array, lambda: array)
        if id(array) not in self._numbers:  # it was not found by a name
            raise Unknown
        return self.of(array)


def _is_paired(value) -> bool:
    """Whether others of its type may stand for an object, if the same is read of them.

    Whatever can be read of such an object can be changed, and is therefore a dependency. Instances
    of libraries' classes have attributes that are taken to stay; their functions are known as such.
    """
    kind = type(value)
    if kind is types.FunctionType:
        return not _is_of_library(module_of(value))
    if kind in _PAIRED:
        return True
    bases = [one for one in kind.__mro__ if one not in (object, types.SimpleNamespace)]
    is_users = all([is_open(one) and not _is_of_library(str(one.__module__)) for one in bases])
    return not issubclass(kind, type) and bool(bases) and is_users


def _is_of_library(module: str) -> bool:
    package = outer(module)
    is_known = package in LIBRARIES or package in sys.stdlib_module_names
    return is_known and package != "__main__"


def _names_of(names: types.MappingProxyType) -> int:
    """The identity of the dict of a class."""
    return id(gc.get_referents(names)[0])


def _layout(array: np.ndarray) -> tuple:
    flags = array.flags
    return array.dtype, array.shape, array.strides, flags.writeable, array.base is None


def _plain_keys(keys: list | None) -> list | None:
    if keys is not None and not {*map(type, keys)} <= {*_PLAIN}:
        raise Unknown
    return keys


# --- what is read by another ----------------------------------------------------------------------


class _Match:
    """Objects of another function in place of those of patterns."""

    def __init__(self, parts: list):
        self._parts = parts
        self._found: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}

    def fits(self, pattern: Pattern, value) -> bool:
        """Whether a value is like a pattern; what stands for what is noted."""
        how, what = pattern.how, pattern.what
        if not pattern.is_of(value):
            return False
        if how == "same":
            return value is what()
        if how == "wrapped":
            return self.fits(what, value.__func__)
        if how == "equal":
            return _is_alike(value, what)
        if how == "items":
            items: Any = value
            return self._fit(what, items)
        if what in self._found or id(value) in self._numbers:
            return self._found.get(what) is value
        self._found[what], self._numbers[id(value)] = value, what
        return self._has_parts(self._parts[what], value)

    def _has_parts(self, parts, value) -> bool:
        if isinstance(value, np.ndarray):
            return parts == _layout(value)
        if not isinstance(value, types.FunctionType):
            own = held_by(value)
            return self.fits(parts, own) if own and parts else not (own or parts)
        code, inner = parts
        if own_code(value) is not code or value.__kwdefaults__:
            return False
        closure = tuple(value.__closure__ or ())
        return self.fits(inner, (value.__globals__, value.__defaults__, closure))

    def object(self, pattern: Pattern) -> Any:
        """What stands for a pattern."""
        if pattern.how in ("same", "names"):
            if (found := pattern.what()) is None:  # by now
                raise Unknown
            return found if pattern.how == "same" else vars(found)
        if pattern.how != "object" or pattern.what not in self._found:
            raise Unknown
        return self._found[pattern.what]

    def read(self, kind: type, owner: Pattern, name: str, what) -> Checked:
        """The dependency of the other function; `Unknown` if it has another value."""
        held = self.object(owner)
        if kind is Dependency:
            value, is_own = what
            one = Dependency(held, name, ABSENT)
            if value is None:
                return self._checked(is_absent(one), one)
            if is_own != (name in held_by(held)):
                raise Unknown
            one = one._replace(value=value_now(one))
            return self._checked(self.fits(value, one.value), one)
        if kind is Snapshot:
            items, keys = what
            contents = Snapshot.of(held, name)
            is_like = _are_alike(contents.keys, keys) and self._fit(items, contents.value)
            return self._checked(is_like, contents)
        return self._part(held, name, *what)

    def _part(self, held, name: str, items: list[Pattern], places: list, whole) -> UnchangedPart:
        values = [held[place] for place in places]
        one = UnchangedPart(held, name, values, places, whole)
        return self._checked(self._fit(items, values) and one.is_there(), one)

    def _fit(self, patterns: Sequence[Pattern], values: Sequence) -> bool:
        if len(patterns) != len(values):
            return False
        return all(self.fits(*pair) for pair in zip(patterns, values, strict=True))

    def _checked(self, holds: bool, one: _Any) -> _Any:
        if not holds:
            raise Unknown
        return one

    @property
    def share_memory(self) -> bool:
        """Whether arrays may lie in each other, or in other memory."""
        arrays = [one for one in self._found.values() if isinstance(one, np.ndarray)]
        return not all([one.base is None for one in arrays])


def _is_alike(a, b) -> bool:
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, complex):
        return repr(a) == repr(b)
    return a is b or is_equal(a, b)


def _are_alike(a: list | None, b: list | None) -> bool:
    if a is None or b is None:
        return a is b
    pairs = [*zip(a, b, strict=False)]
    return len(a) == len(b) and all([type(x) is type(y) and _is_alike(x, y) for x, y in pairs])


# --- readings -------------------------------------------------------------------------------------


class _Made(NamedTuple):
    """What is made of a reading: patterns of further inputs, and the graph with what it gives."""

    hidden: list[Pattern]
    graph: Graph
    result: Form
    changes: Changes
    shared: Shared


class _KeptReading(NamedTuple):
    """A reading without what one function has alone; `made` is the reason why there is no graph."""

    code: types.CodeType
    root: Pattern
    parts: list
    read: list[tuple]
    made: _Made | Refused

    def of(self, f: types.FunctionType) -> Reading | Refused | None:
        """The reading of a function of this code, if it is the same."""
        match = _Match(self.parts)
        try:
            if not match.fits(self.root, f):
                return None
            dependencies = [match.read(*one) for one in self.read]
            if isinstance(self.made, Refused):
                return self.made
            hidden, graph, result, changes, shared = self.made
            arrays = [match.object(one) for one in hidden]
        except Exception:  # whatever the user's objects raise
            return None
        if changes.found and match.share_memory:
            return None
        return Reading(graph, result, dependencies, arrays, changes, shared=shared)


_kept: OrderedDict[tuple, list[_KeptReading]] = OrderedDict()


def keep(f: Callable, key, reading: Reading) -> None:
    """Keep a reading of a function for arguments of a key; its graph must stay as it is."""
    if reading.is_of_objects or not _is_plain(reading.result):
        return

    def made(patterns: _Patterns) -> _Made:
        given = {id(one) for one in reading.given}
        hidden = [patterns.hidden(one, id(one) in given) for one in reading.hidden]
        changes = reading.changes.without_objects()
        return _Made(hidden, reading.graph, reading.result, changes, reading.shared)

    _keep(f, key, reading.dependencies, made)


def keep_refusal(f: Callable, key, error: Refused) -> None:
    """Keep why a function has no graph for arguments of a key."""
    made = type(error)(str(error))
    made.paths = []
    if error.dependencies is not None and type(error) in (Refused, Lost):
        _keep(f, key, error.dependencies, lambda patterns: made)


def _keep(f, key, dependencies: list[Checked], make: Callable[[_Patterns], _Made | Refused]):
    if not (isinstance(f, types.FunctionType) and _is_plain_key(key)):
        return
    try:
        patterns = _Patterns(f)
        read = [patterns.read(one) for one in dependencies]
        made = make(patterns)
    except Exception:  # whatever the user's objects raise
        return
    one, place = (
        _KeptReading(own_code(f), patterns.root, patterns.parts, read, made),
        _place(f, key),
    )
    _kept[place] = [one, *_kept.get(place, ())][:_ALIKE]
    while len(_kept) > _MOST:
        _kept.popitem(last=False)


def kept(f: types.FunctionType, key) -> Reading | None:
    """The reading of a function for arguments of a key, if one was kept of the same code.

    Raises Refused if it is known that there is no graph.
    """
    for one in _kept.get(_place(f, key), ()):
        if (found := one.of(f)) is not None:
            if isinstance(found, Refused):
                error = type(found)(str(found))  # without the frames of another call
                error.paths = found.paths
                raise error
            return found
    return None


def _place(f: types.FunctionType, key) -> tuple:
    return id(own_code(f)), key, config.enter


def _is_plain_key(key) -> bool:
    """Whether the description of arguments holds no object of the user's, such as a function."""
    if isinstance(key, (tuple, list)):
        return all(map(_is_plain_key, key))
    return type(key) in _PLAIN or isinstance(key, (type, np.dtype))


def clear() -> None:
    """Keep none of the readings so far."""
    _kept.clear()


def _is_plain(form: Form) -> bool:
    """Whether a result holds no object of the user's."""
    if isinstance(form, Known):
        return type(form.value) in _PLAIN
    return all(map(_is_plain, form.parts))

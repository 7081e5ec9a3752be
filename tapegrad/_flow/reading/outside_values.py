"""What a function reads outside of its arguments, and its arguments, as forms."""

from __future__ import annotations

import collections
import dataclasses
import enum
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.tensor.callers import outer
from ..._core.tensor.dependencies import (
    ABSENT,
    Dependency,
    class_dependencies,
    library_name,
    method_dependencies,
)
from ..._core.tensor.dependencies import Snapshot as Held
from ..._core.tensor.pytree import COMPUTING
from ..._core.tensor.values import is_tensor
from ..ir.flow_graph import Graph, GraphInput
from ..kinds.step_kinds import FLOAT, INT
from . import arena_lists, outside_changes
from .arena_lists import words_of
from .arrays import mapped
from .calls import Parametrised, entered_object
from .forms import (
    FLOATS,
    NARROW,
    SINGLE,
    ArenaList,
    Array,
    Contents,
    Form,
    Known,
    Number,
    Raises,
    Ref,
    Refused,
    Tuple,
    shape_of,
    unbound,
)
from .numbers import EXACT, number
from .reader import FunctionReader
from .views import strides_of

# --- Classes of named tuples whose instances are tuples with names and nothing else ---------------


#: What Python itself sets in a class; the rest with such names changes what operators do.
_OF_CLASSES = frozenset(
    "__module__ __doc__ __slots__ __qualname__ __dict__ __weakref__ __annotations__ __orig_bases__ "
    "__firstlineno__ __static_attributes__ __annotate__ __annotate_func__ __annotations_cache__ "
    "__classdictcell__ __parameters__ __type_params__".split()
)
_GENERATED = frozenset(vars(collections.namedtuple("_Generated", ())))
_GETTER = type(vars(collections.namedtuple("_Generated", "a"))["a"])


def is_plain_namedtuple(kind: type) -> bool:
    """Whether a class is a named tuple, or a subclass that overrides nothing of one's."""
    if type(kind) is not type or len(kind.__mro__) < 3 or kind.__mro__[-2] is not tuple:
        return False
    *subclasses, generated = kind.__mro__[:-2]
    if "_fields" not in vars(generated):
        return False
    fields = vars(generated)["_fields"]
    if any([type(vars(generated).get(name)) is not _GETTER for name in fields]):
        return False
    taken = {*dir(tuple), *_GENERATED, *fields}
    return all([_adds(one, taken) for one in subclasses]) and all(
        [name in _GENERATED or name in fields or _is_new(name, taken) for name in vars(generated)]
    )


def _adds(kind: type, taken: set[str]) -> bool:
    """Whether a class has only names of its own."""
    return all([_is_new(name, taken) for name in vars(kind)])


def _is_new(name: str, taken: set[str]) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return name in _OF_CLASSES or not (is_special or name in taken)


# --- Inputs of a graph as forms: parameters of its first block ------------------------------------


@dataclasses.dataclass(frozen=True)
class GivenInput:
    """An input: dtype and lengths, () for a number; None is a length that changes with calls."""

    kind: str  # of the dtype in NumPy; SINGLE for float32
    lengths: tuple[int | None, ...]
    differentiated: bool


def entered(reader: FunctionReader, given: GivenInput, writable: bool = True) -> Form:
    """An input as a form, its numbers parameters of the first block."""
    graph, entry = reader.graph, reader.graph.blocks[0]
    if not given.lengths and given.kind in FLOATS:
        value = graph.value(FLOAT)
        entry.parameters.append(value)
        graph.inputs.append(GraphInput(None, given.differentiated))
        return Number(given.kind, value, given.differentiated or given.kind == SINGLE)
    if not given.lengths:
        raise Refused("an argument is a NumPy number that is not a float")
    region = reader.region(FLOAT)
    graph.inputs.append(GraphInput(len(given.lengths), given.differentiated, region))
    values = [graph.value(INT) for _ in range(1 + len(given.lengths))]
    entry.parameters.extend(values)
    lengths: tuple[Form, ...] = tuple(
        [
            Number(INT, value, natural=True) if length is None else Known(length)
            for value, length in zip(values[1:], given.lengths, strict=True)
        ]
    )
    with reader.at_start():
        strides = strides_of(reader, lengths)
    element = INT if given.kind in ("i", "u") else given.kind
    return Array(
        number(values[0]),
        lengths,
        strides,
        region,
        element,
        element not in FLOATS,
        writable and given.differentiated,
    )


# --- What a function reads outside of its arguments, as forms -------------------------------------


#: Items of a container that are read one by one; longer lists are of numbers.
_MOST_ITEMS = 100
_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_LIBRARIES = ("numpy", "math", "tapegrad", "scipy")
#: What finds attributes in an instance and in its class alone.
_GENERIC = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
_NUMBERS = {int, float, bool, tuple}
_PLAIN = (str, int, float, complex, bytes)


class Opened(FunctionReader):
    """A reader, and the values that a function reads outside of its arguments.

    What it reads is among the dependencies. Containers have their contents in `given`, since the
    graph does not change them; arrays, and lists that are indexed by computed numbers, are inputs.
    """

    def __init__(
        self,
        graph: Graph,
        choices: dict[Any, Form | None],
        follow: Callable,
        followed: int = 0,
        single: bool = False,
    ):
        super().__init__(graph, choices, follow, followed, single)
        self._float = SINGLE if single else FLOAT
        self._forms: dict[int, Form] = {}  # of arrays and containers
        self._kept: list[Any] = []  # these
        self._laid: dict[Any, ArenaList | None] = {}
        self._constants: dict[tuple, Form] = {}
        self.arrays: list[np.ndarray] = []  # those that lie outside
        self._own: dict[int, types.MappingProxyType] = {}  # attributes of instances
        #: Whether what is read depends on these very objects, as on elements of an array.
        self.is_of_objects = False

    def outside(self, value, name: str = "") -> Form:
        """An object from outside of the function as a form; `name` is that by which it is read."""
        found = self._forms.get(id(value))
        if found is not None:
            return found
        self.dependencies += class_dependencies(value)
        if outside_changes.is_changed(self, value, name):
            return Known(value)
        if isinstance(value, np.ndarray):
            return self._of_array(value)
        if isinstance(value, np.generic):
            return self._scalar(value)
        if isinstance(value, tuple):
            return self._tuple(value, name)
        if isinstance(value, (list, dict, set, frozenset)):
            return self._of_container(value, name or f"a {type(value).__name__}")
        if (ours := entered_object(value)) is not None and hasattr(ours, "is_parametrised"):
            return self._parametrised(value, ours)
        return outside_changes.tensor(value, name) if is_tensor(value) else Known(value)

    def _keep(self, value, form: Form) -> Form:
        """Let a value have one form, and its id be no other's."""
        self._kept.append(value)
        self._forms[id(value)] = form
        return form

    def _parametrised(self, value, ours) -> Form:
        """An object of SciPy's with parameters, which are compared in each call."""
        names = "dist", "args", "kwds"
        self.dependencies += [Dependency(value, one, getattr(value, one)) for one in names]
        args, named = self.outside(tuple(value.args)), self.outside(value.kwds)
        given, held = tuple(args.items), self.given[named.site]  # type: ignore[attr-defined]
        return self._keep(value, Parametrised(Known(ours.dist), given, held.keys, held.items))

    # --- numbers and arrays -------------------------------------------------------------------

    def _scalar(self, value: np.generic) -> Form:
        if isinstance(value, (np.float64, np.int64)) and not self.builder.single:
            return Known(value.item(), of_numpy=True)
        with self.at_start():
            if isinstance(value, np.bool_) and not self.builder.single:
                return number(self.builder.constant(bool(value)))
            if isinstance(value, np.float32) and self.builder.single:
                return Number(SINGLE, self.builder.constant(float(value)), True)
        raise Refused(f"it reads a number of dtype {value.dtype} from outside")

    def _array(self, value: np.ndarray) -> Form:
        if type(value) not in (np.ndarray, np.memmap):
            raise Refused(f"it reads a {type(value).__name__} from outside")
        floats = np.dtype(np.float32 if self.builder.single else np.float64)
        is_narrow = value.dtype.kind in "iu" and value.dtype.itemsize < 8
        is_narrow = is_narrow and not self.builder.single
        if value.dtype not in (floats, np.dtype(np.int64), np.dtype(np.bool_)) and not is_narrow:
            raise Refused(
                f"it reads an array of {value.dtype} from outside; make it one of {floats}, int64 "
                "or bool"
            )
        is_of_ints = value.dtype == np.int64 and value.size > 0
        if is_of_ints and not -EXACT < value.min() <= value.max() < EXACT:
            self.is_of_objects = True
            raise Refused("it reads an array of integers beyond 2**53 from outside")
        kind = self._float if value.dtype == floats else value.dtype.kind
        kind = NARROW if is_narrow else kind
        if not value.shape and kind != self._float:
            raise Refused(f"it reads an array of {value.dtype} without dimensions from outside")
        return self._input(value, GivenInput(kind, value.shape, False))

    def constant(self, key: tuple, made) -> Form:
        """An array that is the same in each call, and is given by its key.

        If the graph writes to one, it makes a copy where the function makes the array.
        """
        if key not in self._constants:
            if not isinstance(made, np.ndarray):
                raise Refused(f"{key[0]} gives no array")
            form = self._array(made)
            if isinstance(form, Array) and (site := ("constant", *key)) not in self.choices:
                self.constant_sites[form.region] = site
            self._constants[key] = form
        form = self._constants[key]
        if isinstance(form, Array) and form.region not in self.constant_sites:
            return dataclasses.replace(mapped(self, lambda x: x, form), plain=form.plain)
        return form

    def _input(self, value: np.ndarray, given: GivenInput) -> Form:
        """An array as a further input, which the graph does not change."""
        self.hidden.append(value)
        return entered(self, given, writable=False)

    def _of_array(self, value: np.ndarray) -> Form:
        form = self._keep(value, self._array(value))
        self.arrays.append(value)
        if isinstance(form, Array):
            self.hidden_regions[form.region] = value
        return form

    # --- containers ---------------------------------------------------------------------------

    def _tuple(self, value: tuple, name: str) -> Form:
        kind = type(value)
        names = tuple(getattr(kind, "_fields", ()))
        if kind is not tuple and not is_plain_namedtuple(kind):
            raise Refused(f"it reads a {kind.__name__} from outside")
        items = tuple([self.outside(one, name) for one in value])
        return self._keep(value, Tuple(items, ("outside", id(value)), names))

    def _of_container(self, value, name: str) -> Form:
        """A container, or what it is called if its contents cannot be read."""
        count = len(self.dependencies)
        try:
            return self._container(value, name)
        except Refused as error:
            if not outside_changes.is_container(Known(value)):
                raise
            del self.dependencies[count:]
            self.changes.refused[id(value)] = str(error)
            return self._keep(value, Known(value))

    def _container(self, value, name: str) -> Form:
        """A container, compared in each call."""
        if type(value) not in (list, set, frozenset, *_DICTS):
            raise Refused(f"it reads a {type(value).__name__} from outside")
        held = Held.of(value, name)
        self.dependencies.append(held)
        what = "list" if type(value) is list else "dict" if held.keys is not None else "set"
        count, site = len(held.value), ("outside", id(value))
        is_long = count > _MOST_ITEMS
        if is_long and not (what == "list" and set(map(type, held.value)) <= _NUMBERS):
            raise Refused(f"it reads a {type(value).__name__} of {count} items from outside")
        self._keep(value, Ref(site, what))
        items = tuple([self.outside(one, name) for one in held.value])
        self.given[site] = Contents(what, tuple(held.keys or ()), items)
        if is_long and self.laid_out(self._forms[id(value)]) is None:
            raise Refused(f"it reads a list of {count} items that are no numbers from outside")
        if site in self.choices:  # a variable is this list or another one
            self._forms[id(value)] = self._in_memory(site, items)
        return self._forms[id(value)]

    def _in_memory(self, site, items: tuple[Form, ...]) -> ArenaList:
        wanted = self.choices[site]
        if (row := self._laid_out(site, items, wanted)) is not None:
            return row
        with self.at_start():
            return arena_lists.new(self, site, items)

    def laid_out(self, form: Form, more_than: int = 0) -> ArenaList | None:
        """A list or tuple of numbers from outside as one in memory, made when a call begins.

        None for others, and for those that have no more items than that.
        """
        if isinstance(form, Known) and type(form.value) is tuple:
            form = self.outside(form.value)
        if isinstance(form, Tuple):
            site, items = form.site, form.items
        elif isinstance(form, Ref) and form.what == "list" and form.site in self.given:
            site, items = form.site, self.given[form.site].items
        else:
            return None
        if not site or site[0] != "outside" or len(items) <= more_than:
            return None
        if site not in self._laid:
            self._laid[site] = self._laid_out(site, items, None)
        return self._laid[site]

    def _laid_out(self, site, items: tuple[Form, ...], wanted: Form | None) -> ArenaList | None:
        rows = [self.laid_out(one) for one in items if isinstance(one, Ref)]
        if rows and len(rows) == len(items) and None not in rows:
            return self._of_rows(site, rows, wanted)
        found = words_of(items, wanted)
        if found is None:
            return None
        element, words = found
        data = self._input(words, GivenInput(FLOAT, words.shape, False))
        with self.at_start():
            parts = Known(len(items)), Known(len(items)), data.parts[0]
            return arena_lists.with_data(self, site, element, parts)

    def _of_rows(self, site, rows: list, wanted: Form | None) -> ArenaList | None:
        """A list of lists; None where these differ in kind."""
        if len({shape_of(row) for row in [*rows, *([wanted] if wanted else [])]}) > 1:
            return None
        with self.at_start():
            return arena_lists.with_items(self, site, unbound(rows[0]), tuple(rows))

    # --- attributes ---------------------------------------------------------------------------

    def outside_attribute(self, owner, name: str) -> Form:
        """`owner.name` of an object from outside."""
        if isinstance(owner, types.ModuleType) or type(owner) in _PLAIN:
            return self._attribute(owner, name)
        if isinstance(owner, type):
            return self._of_class(owner, name)
        return self._of_instance(owner, name)

    def _attribute(self, owner, name: str) -> Form:
        """An attribute that lies where `getattr` finds it.

        One of a library is compared if it is a function, say, of a module that computes.
        """
        try:
            value = getattr(owner, name)
        except AttributeError as error:
            raise Raises(f"AttributeError: {error}") from None
        if (changed := outside_changes.name_read(self, owner, name, value)) is not None:
            return changed
        if isinstance(owner, types.ModuleType) and outer(owner.__name__) in COMPUTING:
            if name in vars(owner):
                self.dependencies.append(library_name(owner, name))
        elif not (type(owner) in _PLAIN or _is_of_library(owner)):
            self.dependencies.append(Dependency(owner, name, value))
        return self.outside(value, name)

    def _of_class(self, kind: type, name: str) -> Form:
        raw = inspect.getattr_static(kind, name, None)
        is_member = isinstance(kind, enum.EnumMeta) and name in kind.__members__
        if isinstance(raw, classmethod):
            self.dependencies += method_dependencies(kind, name)
            return Known(types.MethodType(raw.__func__, kind))
        is_held = isinstance(raw, (types.FunctionType, staticmethod)) or not _has(raw, "__get__")
        if not (is_held or is_member) or not hasattr(kind, name):
            raise Refused(f"it reads the attribute {name} of a class")
        return self._attribute(kind, name)

    def _of_instance(self, owner, name: str) -> Form:
        kind = type(owner)
        if isinstance(owner, outside_changes.WRITERS):
            return Known(getattr(owner, name, None))
        if kind.__getattribute__ not in _GENERIC:
            raise Refused(f"it reads the attribute {name} of a {kind.__name__} from outside")
        raw, held = inspect.getattr_static(kind, name, None), getattr(owner, "__dict__", {})
        is_slot = isinstance(raw, types.MemberDescriptorType)
        is_of_enum = isinstance(owner, enum.Enum) and name in ("name", "value")
        if is_slot or is_of_enum or (name in held and not _has(raw, "__set__")):
            return self._attribute(owner, name)
        if isinstance(raw, (types.FunctionType, staticmethod, classmethod)):
            self.absent(owner, name)  # in the instance itself
            return Known(raw.__get__(owner, kind))
        if _has(raw, "__get__") or hasattr(kind, "__getattr__"):
            raise Refused(f"it reads the attribute {name} of a {kind.__name__} from outside")
        return self._attribute(owner, name)

    def absent(self, owner, name: str) -> None:
        """Note that a module or an instance has no attribute of a name, and what its class has."""
        if isinstance(owner, types.ModuleType):
            self.dependencies.append(Dependency(vars(owner), name, ABSENT))
            return
        self.dependencies += method_dependencies(type(owner), name)
        if isinstance(inspect.getattr_static(owner, name, None), types.MemberDescriptorType):
            self.dependencies.append(Dependency(owner, name, ABSENT))
        if hasattr(owner, "__dict__"):
            self.is_of_objects = True
            own = self._own.setdefault(id(owner), types.MappingProxyType(vars(owner)))
            self.dependencies.append(Dependency(own, name, ABSENT))

    def getter(self, kind: type, name: str) -> Form | None:
        """The function of a property of a user's class; None for other attributes."""
        raw = inspect.getattr_static(kind, name, None)
        if type(raw) is not property or not isinstance(raw.fget, types.FunctionType):
            return None
        if kind.__getattribute__ not in _GENERIC:
            return None
        self.dependencies += method_dependencies(kind, name)
        return Known(raw.fget)


def _has(raw, method: str) -> bool:
    """Whether what a class holds is a descriptor with this method."""
    return hasattr(type(raw), method)


def _is_of_library(owner) -> bool:
    """Whether an object is a module or a class of one of the libraries."""
    if not isinstance(owner, (type, types.ModuleType)):
        return False
    name = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
    return str(name).split(".")[0] in _LIBRARIES

"""What a function reads from outside: globals, attributes, and what it finds with plain numbers."""

from __future__ import annotations

import builtins
import collections
import contextvars
import dis
import functools
import inspect
import io
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.layout import ARRAY, FIRST_CODE, LEAF, ROW_CONSTANT, ROW_ROW, ROWS, ROWS_BITS
from ..._core.ops.table import TABLE
from ..._core.tape.tape import Reader, constant_of
from ..._core.tensor import runtime as rt
from ..._core.tensor.callers import outer
from ..._core.tensor.dependencies import (
    Dependencies,
    Dependency,
    Snapshot,
    class_dependencies,
    held_memory,
    is_constant,
    least,
    library_name,
    method_dependencies,
    module_of_names,
    own_dependencies,
    partial_dependencies,
)
from ..._core.tensor.pytree import (
    ABSENT,
    COMPUTING,
    HOLDERS,
    MOST,
    MOST_ITEMS,
    Reach,
    content,
    held_by,
    held_items,
    is_namespace,
    is_numerical,
    module_of,
    module_of_class,
    own_code,
)
from ..._core.tensor.trace import Guard, Trace, steered
from ..._core.tensor.values import is_recorded, is_tensor
from ..._derivatives.tape_traversal import tensor_at
from ..._entering.stand_ins import is_replaced
from ..replay.run_layout import FINISHED
from .signature import Arguments

# --- names read -----------------------------------------------------------------------------------
# What a function reads from outside: globals, variables of enclosing functions, attributes, items.
#
# It is found in the bytecode of the function and of the functions that it can reach, so that of
# branches that have not been taken is there, too. A name that one of these functions assigns is
# not: its changes may be the function's own.

#: A container takes as long to compare as that number of items.
_LEAST = 4
#: Routes by which code may read any name.
_ANY = frozenset(("globals()", "eval()", "exec()"))


def names_read(f: Callable) -> Dependencies:
    """The names that a function reads, with their values now."""
    reach = Reach(f)
    every = reach.objects(lambda one: False)
    functions = reach.functions(every)
    of_packages = [one for one in functions if reach.is_of_package(module_of(one))]
    assigned = [one for function in functions for one in _assigned(function)]
    functions = [one for one in functions if not reach.is_of_package(module_of(one))]
    wanted = wanted_by(functions, of_packages, every)
    texts = [(f, one) for f in functions for one in _named_by_texts(f)]
    own = {(id(one.owner), one.name) for one in assigned}
    own |= {(id(f.__globals__), one.name) for f, one in texts}
    search = _NameSearch(reach, wanted, own)
    for function in functions:
        search.add(own_dependencies(function))
        search.add(_names(function))
        search.follow(_imported(function))
    for function in of_packages:
        search.add_settings(_names(function))
    search.add([one for _, one in texts])
    search.follow([("a partial", one) for one in every if isinstance(one, functools.partial)])
    if not isinstance(f, types.FunctionType):
        search.follow([(type(f).__name__, f)])
    search.run()
    unknown = [
        f"calls {one}, so that what it reads is not known" for one in sorted(wanted.routes & _ANY)
    ]
    unknown += search.unknown
    why = f"it {unknown[0]}; pass that as an argument" if unknown else None
    return Dependencies([*search.found.values()], assigned, search.long, why)


def are_replaced(names: Dependencies) -> bool:
    """Whether a function of NumPy's, or the like, is another one for now, as in a test.

    Then each call is one of the function: a mock counts them, and our own code may call it, too.
    """
    for one in names:
        if isinstance(one, Dependency) and (module := module_of_names(one.owner)) is not None:
            if outer(module.__name__) in COMPUTING and is_replaced(module, one.name):
                return True
    return False


# --- names ----------------------------------------------------------------------------------------


def _names(f: types.FunctionType) -> Iterator[Dependency]:
    """The globals and variables that a function reads, with their values."""
    uses = uses_of(own_code(f))
    for name in sorted(uses.names):
        value = f.__globals__.get(name, vars(builtins).get(name, ABSENT))
        if value is not ABSENT:
            yield Dependency(f.__globals__, name, value)
    for name, cell in _cells(f, uses.variables):
        if (value := content(cell)) is not ABSENT:
            yield Dependency(cell, name, value)


def _named_by_texts(f: types.FunctionType) -> Iterator[Dependency]:
    """The globals that a function reads by constants, as `globals()["n"]`, with their values."""
    uses = uses_of(own_code(f))
    if "globals" in uses.routes:
        held = types.MappingProxyType(f.__globals__)  # its changes may be the function's own
        for name in sorted(uses.strings):
            yield Dependency(held, name, held.get(name, ABSENT))


def _cells(f: types.FunctionType, names: Iterable[str]) -> list[tuple[str, types.CellType]]:
    """The variables of enclosing functions among some names."""
    cells = zip(own_code(f).co_freevars, f.__closure__ or (), strict=True)
    return [(name, cell) for name, cell in cells if name in names]


def _assigned(f: types.FunctionType) -> Iterator[Dependency]:
    """The names that a function assigns, with their values."""
    uses = uses_of(own_code(f))
    owners: list[tuple[str, Any]] = [(name, f.__globals__) for name in uses.assigned_names]
    for name, owner in [*owners, *_cells(f, uses.assigned_variables)]:
        one = Dependency(owner, name, None)
        yield one._replace(value=one.now())


def _imported(f: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The modules that a function imports in its body, if they have been imported."""
    package = f.__globals__.get("__package__") or ""
    for name in sorted(uses_of(own_code(f)).modules):
        for full in (name, f"{package}.{name}"):
            if full in sys.modules:
                yield full, sys.modules[full]


# --- in objects -----------------------------------------------------------------------------------


class _NameSearch:
    """The search for what is read of objects, from the values of names on.

    Names that are `assigned` are left out, each given with what holds it.
    """

    def __init__(self, reach: Reach, wanted: NamesWanted, assigned: set[tuple[int, str]]):
        self._reach, self._writes = reach, wanted.writes
        self._every = "attributes" in wanted.routes  # of any name
        self._asked, self._operators = sorted(wanted.asked), sorted(wanted.operators)
        self._attributes, self._assigned = sorted(wanted.attributes), assigned
        self._own, self._set = wanted.own, sorted(wanted.set)
        self.found: dict[tuple[int, str], Dependency | Snapshot] = {}
        self.unknown: list[str] = []  # what cannot be compared
        self.long: list[tuple[Any, str]] = []  # of too many items to be compared in each call
        self._waiting: list[tuple[str, Any]] = []
        self._items = 0  # that are compared in each call

    def add(self, dependencies: Iterable[Dependency]) -> None:
        """Keep dependencies, and follow their values."""
        for one in dependencies:
            key = id(one.owner), one.name
            if key not in self._assigned:
                self.found.setdefault(key, one)
                self._waiting.append((one.name, one.value))

    def add_settings(self, dependencies: Iterable[Dependency]) -> None:
        """Keep what may change of an installed package, neither its code nor its tables."""
        for one in dependencies:
            value, key = one.value, (id(one.owner), one.name)
            if key not in self._assigned and not is_code(value):
                self.found.setdefault(key, one)
                if self._is_of_package(type(value)):
                    self._waiting.append((one.name, value))

    def _is_of_package(self, kind: type) -> bool:
        return self._reach.is_of_package(module_of_class(kind))

    def follow(self, objects: Iterable[tuple[str, Any]]) -> None:
        """Search objects, each after a name of it."""
        self._waiting.extend(objects)

    def run(self) -> None:
        """Search all objects that are waiting, and those that they lead to."""
        seen: dict[int, Any] = {}  # which keeps them alive
        for name, one in self._waiting:  # which grows
            if id(one) not in seen and len(seen) < MOST:
                seen[id(one)] = one
                self._search(name, one)

    def _search(self, name: str, one) -> None:
        if isinstance(one, types.ModuleType):
            self._search_module(one)
        elif isinstance(one, np.ndarray):
            self._add_array(name, one)
            self.follow([(name, item) for item in held_items(one)])
            self._add_instance(one)
        elif type(one) is rt.ComplexTensor:
            self.follow([(name, one._re), (name, one._im)])
        elif is_tensor(one):
            if not is_recorded(one) and self._takes(1):
                self.found[id(one), ""] = Snapshot.of(one, name)
        elif isinstance(one, (list, dict, set, collections.deque)):
            self._add_container(name, one)
            self._add_instance(one)
        elif isinstance(one, (tuple, frozenset)):
            self.follow([(name, item) for item in held_items(one)])
            self._add_instance(one)
        elif (why := self._unknown(name, one)) is not None:
            self.unknown.append(why)
        elif isinstance(one, functools.partial):
            self.add(partial_dependencies(one))
        elif isinstance(one, types.MethodType):
            self.follow([(name, one.__self__)])
        elif self._is_of_package(one if isinstance(one, type) else type(one)):
            self._search_of_package(name, one)
        elif isinstance(one, type):
            if not self._reach.is_library(one):
                self.add(class_dependencies(one))
                self._add_named(one, self._of_class(one))
                self.follow([(base.__name__, base) for base in one.__bases__])
        elif not isinstance(one, (bytes, type)) and held_memory(one) is not None:
            if self._takes(1):
                self.found[id(one), ""] = Snapshot.of(one, name)
        elif not is_numerical(one):
            self.follow([(name, item) for item in held_items(one)])
            self._add_instance(one)
        else:
            self._search_of_library(name, one)

    def _search_of_library(self, name: str, one) -> None:
        """Search a sparse matrix, an interpolator: their methods are not searched."""
        if "scipy" in module_of_class(one).split(".")[:2]:
            self.add(state_of(one))
        self.follow([(name, held) for held in [*arrays_and_holders(one), *held_items(one)]])

    def _search_module(self, module: types.ModuleType) -> None:
        """Keep the attributes that are read of a module; of an installed package its settings, and
        what the user's code names.
        """
        if not self._reach.is_of_package(module.__name__):
            if outer(module.__name__) in COMPUTING:
                self._search_library(module)
            elif not self._reach.is_of_library(module.__name__):
                self._add_named(module, self._of_module(module))
            return
        found = [*self._of_module(module)]
        self.found |= {(id(module), one.name): one for one in found if one.name in self._own}
        self.add_settings(found)
        inner = [one for one in found if isinstance(one.value, (types.ModuleType, type))]
        self.follow([(one.name, one.value) for one in inner])

    def _search_library(self, module: types.ModuleType) -> None:
        """Keep the functions that are read of a module of NumPy's, which tests replace."""
        found = [library_name(module, one.name) for one in self._of_module(module)]
        self.found |= {(id(one.owner), one.name): one for one in found}
        self.follow([(one.name, one.value) for one in found if type(one.value) is type(module)])

    def _search_of_package(self, name: str, one) -> None:
        """Keep the settings in a class of an installed package, or in an instance and its class."""
        if isinstance(one, type):
            self.add_settings(self._of_class(one))
            self.follow([(base.__name__, base) for base in one.__bases__])
            return
        self.add([each for each in self._of_instance(one) if not is_code(each.value)])
        self.follow([(name, item) for item in held_items(one)])
        self.follow([(type(one).__name__, type(one))])

    def _unknown(self, name: str, one) -> str | None:
        """Why an object cannot be compared: an iterator, an open file, a context variable."""
        if isinstance(one, contextvars.ContextVar):
            return f"reads {name}, a context variable"
        if isinstance(one, io.IOBase):
            is_read = not one.closed and one.readable() and not self._writes
        else:
            is_other = isinstance(one, (np.flatiter, *weakref.ProxyTypes))
            is_other = is_other or not self._reach.is_library(one)
            is_read = not is_other and hasattr(type(one), "__next__")
        return f"reads {name}, whose items come once" if is_read else None

    def _add_container(self, name: str, one) -> None:
        if self._takes(max(len(one), _LEAST)):
            self.found[id(one), ""] = Snapshot.of(one, name)
            self.follow([(name, item) for item in held_items(one)])
        else:
            self.long.append((one, name))

    def _add_instance(self, one) -> None:
        """Keep what is read of an instance by its attributes, unless it is one of Python's own."""
        if is_numerical(one):
            return
        if not self._reach.is_library(one):
            self.add(class_dependencies(one))
        if isinstance(one, HOLDERS):
            self.add([Dependency(one, name, held) for name, held in held_by(one).items()])
        self._add_named(one, self._of_instance(one))
        self.follow([(type(one).__name__, type(one))])

    def _add_named(self, one, found: Iterable[Dependency]) -> None:
        """Keep attributes of an object; all of them, if code may read one of any name."""
        self.add(found)
        self.add(self._absent(one))
        self.add(self._unset(one))
        if not self._every or not (is_namespace(one) or not self._reach.is_library(one)):
            return
        held, name = held_by(one), getattr(one, "__name__", type(one).__name__)
        for names in [held] if isinstance(held, dict) else held_items(held):
            self.found[id(names), ""] = Snapshot.of(names, str(name))
        self.follow([(str(name), value) for value in held.values()])

    def _add_array(self, name: str, one: np.ndarray) -> None:
        """Compare the elements, unless nothing can write to them."""
        if isinstance(one, np.ma.MaskedArray):
            self.follow([(name, one.mask)])
        kept = least(np.asarray(one))
        if not kept.dtype.hasobject and not is_constant(kept) and self._takes(1):
            self.found[id(kept), ""] = Snapshot.of(kept, name)

    def _absent(self, one) -> Iterator[Dependency]:
        """The attributes that an object, a class or a module has not and is asked for."""
        if isinstance(type(one).__getattribute__, types.FunctionType):  # anything may happen
            return
        owner = one
        if hasattr(type(one), "__getattr__") or hasattr(one, "__getattr__"):
            owner = types.MappingProxyType(held_by(one))
        for name in self._asked:
            if inspect.getattr_static(one, name, ABSENT) is ABSENT or is_empty(one, name):
                yield Dependency(owner, name, ABSENT)

    def _unset(self, one) -> Iterator[Dependency]:
        """The attributes that an object of the user's has not, and that the function may set."""
        held = held_by(one)
        if self._set and isinstance(held, dict) and not self._reach.is_library(one):
            for name in self._set:
                if inspect.getattr_static(one, name, ABSENT) is ABSENT:
                    yield Dependency(types.MappingProxyType(held), name, ABSENT)

    def _takes(self, count: int) -> bool:
        """Whether so many further items can be compared in each call."""
        fits = self._items + count <= MOST_ITEMS
        self._items += count if fits else 0
        return fits

    def _of_module(self, module: types.ModuleType) -> Iterator[Dependency]:
        """The attributes that are read of a module."""
        for name in self._attributes:
            if name in vars(module):
                yield Dependency(module, name, vars(module)[name])

    def _of_class(self, kind: type) -> Iterator[Dependency]:
        """The attributes that are read of a class or of instances, wherever they are inherited.

        With them are methods that Python calls for operators, calls and the like.
        """
        for name in () if hasattr(type(kind), "__getattr__") else self._operators:
            none = getattr(object, name, ABSENT)
            if inspect.getattr_static(kind, name, ABSENT) is none:
                yield Dependency(kind, name, none)
        every = {*itertools.chain(*map(vars, kind.__mro__[:-1]))}
        for name in sorted(every.difference(self._attributes)):
            found = getattr(kind, name, None) if name.startswith("__") else None
            if isinstance(found, types.FunctionType):
                yield Dependency(kind, name, found)
        for name, raw in self._inherited(kind):
            if isinstance(raw, types.MemberDescriptorType):
                continue
            if isinstance(raw, (types.FunctionType, staticmethod)) or not has(raw, "__get__"):
                yield Dependency(kind, name, getattr(kind, name))
            else:  # bound anew each time, as a class method is
                yield from method_dependencies(kind, name)

    def _of_instance(self, one) -> Iterator[Dependency]:
        """The attributes that are read of an instance: in its dict or slots, or of its class."""
        kind, held = type(one), held_by(one)
        if isinstance(kind.__getattribute__, types.FunctionType):  # the user's: anything may happen
            return
        inherited = dict(self._inherited(kind))
        for name in self._attributes:
            raw = inherited.get(name, ABSENT)
            if isinstance(raw, types.MemberDescriptorType):
                if hasattr(one, name):
                    yield Dependency(one, name, getattr(one, name))
            elif has(raw, "__set__"):  # as a property has
                continue
            elif name in held:
                yield Dependency(one, name, held[name])
            elif raw is not ABSENT and not has(raw, "__get__"):
                yield Dependency(one, name, raw)
            elif raw is not ABSENT and hasattr(one, "__dict__"):  # a method: not yet hidden
                yield Dependency(types.MappingProxyType(vars(one)), name, ABSENT)

    def _inherited(self, kind: type) -> Iterator[tuple[str, Any]]:
        """The attributes that are read and that a class has from classes that are no library's."""
        for name in self._attributes:
            base = next(holding(kind, name), None)
            if base is not None and not self._reach.is_library(base):
                yield name, vars(base)[name]


# --- the names that code uses ---------------------------------------------------------------------
# The names that code uses, as far as its bytecode tells; whether it uses others by their text.


#: Functions that read an attribute by its name, which may not exist.
_ASKING = frozenset(("getattr", "hasattr", "setattr", "delattr", "vars"))
_GETTERS = frozenset(("attrgetter", "methodcaller"))
#: Methods that read files, and that write to them.
_READING = frozenset("read readline readlines read1 readinto getvalue seek tell".split())
_WRITING = frozenset(("write", "writelines"))
#: Functions that read names of their caller, as far as a text tells.
_TEXTS = frozenset(("eval", "exec"))
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


class NameUses(NamedTuple):
    """The names that code reads, and those that it assigns."""

    names: frozenset[str]  # of globals
    variables: frozenset[str]  # of enclosing functions
    attributes: frozenset[str]
    set_attributes: frozenset[str]  # those among them that it sets
    modules: frozenset[str]  # that it imports
    strings: frozenset[str]  # that may be names
    operators: frozenset[str]  # methods that Python calls for its operators, if there are any
    routes: frozenset[str]  # by which it reads what names do not tell, see `_routes`
    assigned_names: frozenset[str]
    assigned_variables: frozenset[str]


@functools.lru_cache(maxsize=4096)
def uses_of(code: types.CodeType) -> NameUses:
    found: list[set[str]] = [set() for _ in NameUses._fields]
    names, variables, attributes, set_attributes, modules, *more, globals_, cells = found
    strings, operators, routes = more
    before = ""
    for one in dis.get_instructions(code):
        kind, _, what = one.opname.partition("_")
        operators |= _operators(before, one)
        before = one.opname
        is_assigned = kind in ("STORE", "DELETE")
        if one.opcode in dis.hasfree:
            (cells if is_assigned else variables).add(one.argval)
        elif one.opcode not in dis.hasname:
            continue
        elif one.opname == "IMPORT_NAME":
            modules.add(one.argval)
        elif what.endswith(("ATTR", "METHOD")) or one.opname == "IMPORT_FROM":
            attributes.add(one.argval)
            if is_assigned:
                set_attributes.add(one.argval)
        elif not (is_assigned and what == "NAME"):  # which is in the body of a class
            (globals_ if is_assigned else names).add(one.argval)
    strings |= _strings(code.co_consts)
    routes |= _routes(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            for own, others in zip(found, uses_of(inner), strict=True):
                own |= others
    return NameUses(*map(frozenset, found))


def _operators(before: str, one: dis.Instruction) -> set[str]:
    """The methods for an instruction that compares or asks for truth, after another."""
    if one.opname == "CONTAINS_OP" or (one.opname == "COMPARE_OP" and one.argval in ("==", "!=")):
        return {"__eq__", "__ne__"}
    asks = one.opname in ("UNARY_NOT", "TO_BOOL") or "IF_TRUE" in one.opname
    asks = asks or "IF_FALSE" in one.opname or (one.opname, one.argval) == ("LOAD_GLOBAL", "bool")
    if asks and before not in ("COMPARE_OP", "CONTAINS_OP", "IS_OP"):
        return {"__bool__", "__len__"}
    return set()


def _strings(constants: Iterable) -> set[str]:
    """The strings among constants that can be names of attributes."""
    inner = [_strings(one) for one in constants if isinstance(one, tuple)]
    own = {one for one in constants if isinstance(one, str) and one.isidentifier()}
    return own.union(*inner)


def asked_of(uses: list[NameUses]) -> frozenset[str]:
    """The names for which getattr and hasattr may be called; those of others, by a helper."""
    asking = [one.strings for one in uses if _asks(one)]
    every = asking if all(asking) else [one.strings for one in uses]
    return frozenset().union(*every)


def _asks(uses: NameUses) -> bool:
    names = uses.names | uses.attributes
    return "__dict__" in uses.attributes or not (_ASKING | _GETTERS).isdisjoint(names)


def texts_of(one) -> frozenset[str]:
    """The attributes that an object such as `operator.attrgetter("a.b")` reads of others."""
    if not isinstance(one, (operator.attrgetter, operator.methodcaller)):
        return frozenset()
    texts = [text for text in one.__reduce__()[1] if isinstance(text, str)]
    return frozenset(name for text in texts for name in text.split("."))


def writes_files(uses: list[NameUses], attributes: frozenset[str]) -> bool:
    """Whether code uses files to write to them, as far as its names tell."""
    prints = any("print" in one.names for one in uses)
    reads = not _READING.isdisjoint(attributes)
    return not reads and (prints or not _WRITING.isdisjoint(attributes))


class NamesWanted(NamedTuple):
    """Names of attributes that code reads of any object, and of those that it asks for.

    `own` are those of code that is not of installed packages, `set` those among them that it sets.
    `operators` are methods that Python calls, `routes` as in `NameUses`. `writes` says that code
    uses files to write to them.
    """

    attributes: frozenset[str]
    own: frozenset[str]
    set: frozenset[str]
    asked: frozenset[str]
    operators: frozenset[str]
    routes: frozenset[str]
    writes: bool


def wanted_by(functions: list, of_packages: list, every: list) -> NamesWanted:
    """What functions read of objects, of which some are of installed packages."""
    uses = [uses_of(own_code(one)) for one in functions]
    asked = asked_of(uses).union(*map(texts_of, every))
    own = frozenset().union(asked, *[one.attributes for one in uses])
    return NamesWanted(
        own.union(*[uses_of(own_code(one)).attributes for one in of_packages]),
        own,
        frozenset().union(*[one.set_attributes for one in uses]),
        asked,
        frozenset().union(*[one.operators for one in uses]),
        frozenset().union(*[one.routes for one in uses]),
        writes_files(uses, own),
    )


# --- by their text --------------------------------------------------------------------------------


def _routes(code: types.CodeType) -> set[str]:
    """How code reads what its names and constants do not tell: "attributes", "globals()", …

    "globals" where it reads global names by constants.
    """
    found: set[str] = set()
    every = [*dis.get_instructions(code)]
    for k, one in enumerate(every):
        name = one.argval if one.opname in _LOADS else None
        if name == "vars" or (one.opcode in dis.hasname and one.argval == "__dict__"):
            found.add("attributes")
        elif name in _ASKING and not _has_constant(every[k + 1 :]):
            found.add("attributes")
        elif name in _TEXTS and len(_arguments(every[k + 1 :])) > 1:
            found.add("attributes")  # of what is in the namespace that it is given
        elif name == "globals":
            found.add("globals" if _is_indexed_by_constant(every[k + 1 :]) else "globals()")
        elif name in _TEXTS:
            found.add(f"{name}()")
    return found


def _has_constant(rest: list[dis.Instruction]) -> bool:
    """Whether the second argument of a call is a constant, from its first argument on."""
    found = _arguments(rest)
    return len(found) > 1 and found[1].opname == "LOAD_CONST"


def _arguments(rest: list[dis.Instruction]) -> list[dis.Instruction]:
    """What gives each argument of a call, from its first argument on; [] if that is not known."""
    pushed: list[dis.Instruction] = []  # of each thing on the stack, what pushed it
    for one in rest:
        if one.opname.startswith("CALL") and one.arg == len(pushed):
            return pushed
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs or one.opname == "KW_NAMES":
            return []
        if one.opname == "PRECALL":
            continue
        is_call = one.opname == "CALL"
        effect = (
            -1 - (one.arg or 0) if is_call else dis.stack_effect(one.opcode, one.arg, jump=False)
        )
        if len(pushed) + effect < 0:
            return []
        pushed = pushed[: len(pushed) + min(effect, 0)] + [one] * effect
        if effect < 1 and pushed:
            pushed[-1] = one  # which is made of what was there
    return []


def _is_indexed_by_constant(rest: list[dis.Instruction]) -> bool:
    """Whether `globals` is called and the item of a constant is taken, or asked for by `get`."""
    names = [one for one in rest[:8] if one.opname not in ("PRECALL", "PUSH_NULL", "CACHE")]
    if len(names) < 3 or not names[0].opname.startswith("CALL"):
        return False
    is_method = names[1].argval == "get"
    return names[1 + is_method].opname == "LOAD_CONST"


# --- attributes as classes and instances hold them ------------------------------------------------


_PLAIN = (bool, int, float, str)


def is_code(value) -> bool:
    """Whether a value is a part of a program, or none: a function, a class, a module."""
    return value is ABSENT or callable(value) or isinstance(value, types.ModuleType)


def arrays_and_holders(one) -> list:
    """The arrays and the objects of SciPy that an object has in its dict and slots."""
    if isinstance(one, np.flatiter):
        return [one.base]
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw for raw in members if isinstance(raw, types.MemberDescriptorType)]
    held = [*held_by(one).values(), *(getattr(one, slot.__name__, None) for slot in slots)]
    return [x for x in held if isinstance(x, np.ndarray) or type(x).__module__.startswith("scipy.")]


def state_of(one) -> list[Dependency]:
    """The arrays and plain values that an object of SciPy has, by their names.

    They are in its dict, with dicts of public names as the arguments of a distribution, in its
    slots, or in memory of its class.
    """
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw for raw in members if isinstance(raw, types.MemberDescriptorType)]
    fields = [raw for raw in members if isinstance(raw, types.GetSetDescriptorType)]
    held = [(name, x) for name, x in held_by(one).items() if getattr(one, name, None) is x]
    held += [(raw.__name__, getattr(one, raw.__name__, None)) for raw in slots]
    found = [(name, x) for name, x in held if _is_state(name, x)]
    arrays = [(raw.__name__, getattr(one, raw.__name__, None)) for raw in fields]
    found += [  # not those that are made anew each time
        (name, x) for name, x in arrays if isinstance(x, np.ndarray) and getattr(one, name) is x
    ]
    return [Dependency(one, name, x) for name, x in found]


def _is_state(name: str, value) -> bool:
    is_dict = type(value) is dict and not name.startswith("_")
    return is_dict or isinstance(value, (np.ndarray, tuple, *_PLAIN))


def is_empty(one, name: str) -> bool:
    """Whether an attribute is a slot that has no value."""
    raw = inspect.getattr_static(type(one), name, None)
    return isinstance(raw, types.MemberDescriptorType) and not hasattr(one, name)


def has(raw, method: str) -> bool:
    """Whether what a class holds is a descriptor with this method."""
    return hasattr(type(raw), method)


def holding(kind: type, name: str) -> Iterator[type]:
    """The classes that have an attribute themselves, in the order in which they are searched."""
    return (base for base in kind.__mro__ if name in vars(base))


# --- plain numbers --------------------------------------------------------------------------------
# What code finds with plain numbers, and not with tensors: Python's floats, types, attributes.

_DIVISIONS = frozenset(TABLE[name].code for name in ("divide", "floor_divide", "remainder"))
_POWERS = frozenset(TABLE[name].code for name in ("power", "square"))
_OPS = np.array([4 * (code + 1) for code in sorted(_DIVISIONS | _POWERS)])
_OF_TWO = _OPS[_OPS != 4 * (TABLE["square"].code + 1)]
_DIVIDED, _RAISED = "a division", "a power"


def refused_by_python(trace: Trace, first: int, end: int) -> str | None:
    """Add the guards; returns what Python does otherwise at these arguments, if it does."""
    numbers = {row: kind for row, kind in trace.data.items() if kind in (float, np.float64)}
    if not numbers:
        return None
    rows, guarded = _Rows(numbers), set()
    for row in rows.of_operations(first, end):
        found, kinds = rows.condition(row), rows.kinds(row)
        if found is None or kinds is None or found in guarded:
            continue
        if kinds != {float}:
            trace.is_exact = True  # NumPy's do not raise
            continue
        guarded.add(found)
        number, is_divisor, how = found
        tensor = tensor_at(number, value=float(rows.reader.row(number)["value"]))
        holds = steered(np.not_equal, tensor, 0.0) if is_divisor else steered(np.isfinite, tensor)
        if not holds._array:
            return f"{how} of Python's floats does not give a float"
        trace.held.append(holds)
        trace.guards.append(Guard(holds, 0, 1.0, trace.now(), (), f"{how} of Python's floats"))
    return None


class _Rows:
    """The rows of numbers that are computed from some inputs and constants alone."""

    def __init__(self, inputs: Mapping[int, type]):
        self.reader = Reader()
        self._kinds: dict[int, set[type] | None] = {n: {kind} for n, kind in inputs.items()}

    def of_operations(self, first: int, end: int) -> list[int]:
        """The operations that Python may refuse, in order, without most that have other operands.

        Each number has an oldest one that it is computed from by its first operands: those where
        this is no input are left out.
        """
        begin, last = (self.reader.place[row >> ROWS_BITS] for row in (first, end))
        slots = [*self.reader.place][begin : last + 1]
        chunks = [self.reader.filled(slot) for slot in slots]
        op = np.concatenate([rows["op"] for rows in chunks])
        found = np.isin(op & ~3, _OPS)
        if not found.any():
            return []
        sizes = np.array([len(rows) for rows in chunks])
        ids = np.concatenate([np.arange(n) for n in sizes]) + np.repeat(slots, sizes) * ROWS
        starts = np.full(max(slots) + 2, -1)
        starts[slots] = np.cumsum(sizes) - sizes
        outside = len(op)

        def at(name: str):
            """The places of operands; those outside have a place after all others."""
            numbers = np.concatenate([rows[name] for rows in chunks])
            start = starts[np.clip(numbers >> ROWS_BITS, -1, len(starts) - 1)]
            return np.where(start < 0, outside, start + (numbers & (ROWS - 1)))

        is_scalar = (op >= 4 * FIRST_CODE) & (op < ARRAY)
        fits = np.append(np.isin(ids, [*self._kinds]), False)
        may_fit = fits | np.append(is_scalar, False)
        a = np.append(np.where(is_scalar, at("a"), np.arange(outside)), outside)
        has_two = found & (op & 3 == ROW_ROW) & np.isin(op & ~3, _OF_TWO)
        b = np.where(has_two, at("b"), a[:-1])
        found &= may_fit[a[:-1]] & may_fit[b]
        if not found.any():
            return []
        while not np.array_equal(older := a[a], a):
            a = older
        found &= fits[a[:-1]] & fits[a[b]]
        return ids[found].tolist()

    def condition(self, number: int) -> tuple[int, bool, str] | None:
        """A number that must be finite, or not 0 if it is a divisor, and the kind of operation."""
        row = self.reader.row(number)
        op = int(row["op"])
        if op // 4 - 1 in _POWERS:
            return number, False, _RAISED
        if op & 3 == ROW_CONSTANT:
            return None if constant_of(row) else (number, False, _DIVIDED)
        return int(row["b" if op & 3 == ROW_ROW else "a"]), True, _DIVIDED

    def kinds(self, number: int) -> set[type] | None:
        """The types of the inputs that a number is computed from; None if of anything else."""
        waiting = [number]
        while waiting:
            row = waiting[-1]
            if row in self._kinds:
                waiting.pop()
                continue
            op = int(self.reader.row(row)["op"])
            is_scalar = 4 * FIRST_CODE <= op < ARRAY and op != LEAF
            operands = self.reader.operands(row) if is_scalar else []
            left = [one for one in operands if one not in self._kinds]
            if any(one in self._kinds and self._kinds[one] is None for one in operands) or not left:
                found = [self._kinds.get(one) or set() for one in operands]
                self._kinds[row] = set().union(*found) if found and all(found) else None
            else:
                waiting.extend(left)
        return self._kinds[number]


# --- questions for types and attributes -----------------------------------------------------------
# Functions that ask for types and attributes of their arguments, which a trace cannot answer.
#
# `type(d) is float` says no while `d` is a tensor; a function that catches errors may catch that of
# C code which takes numbers alone, such as `json.dumps(d)`. The program of such a function is
# compared with the function before it is used, at the arguments of the call and at others nearby:
# two ways through a function seldom agree at both.


#: Built-in names that such code reads.
_ASKING_OF_NUMBERS = frozenset(
    ("type", "hasattr", "getattr", "vars", "dir", "id", "AttributeError")
)
_ATTRIBUTES = frozenset(("getsizeof",))
#: What handlers of errors begin with: the test of a class, or, for all errors, nothing; in Python
#: 3.10 the three parts of an error are dropped then.
_TESTS = frozenset(("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"))
_CATCHING = (("PUSH_EXC_INFO", "POP_TOP"), ("POP_TOP", "POP_TOP", "POP_TOP"))
#: Relative distances of places nearby.
_STEPS = (1e-4, -1e-4, 1e-7, -1e-7)


def asks_for_types(f: Callable, arguments: Arguments) -> str | None:
    """Where a function, or one that it calls, asks objects for types or attributes.

    Where there are data, also where it catches errors.
    """
    has_data = not all([differentiated for *_, differentiated in arguments.kinds])
    codes = [own_code(one) for one in Reach(f).functions()]
    found = [_asks_of_numbers(code, has_data) for code in codes if code.co_filename != "<string>"]
    return next(filter(None, found), None)  # without that of named tuples and dataclasses


@functools.lru_cache(maxsize=4096)
def _asks_of_numbers(code: types.CodeType, has_data: bool) -> str | None:
    last: tuple[str, ...] = ()
    for one in dis.get_instructions(code):
        last = (*last[-2:], one.opname)
        is_builtin = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _ASKING_OF_NUMBERS
        catches = one.opname in _TESTS or last[-2:] in _CATCHING or last in _CATCHING
        what = None
        if is_builtin or (one.opcode in dis.hasname and one.argval in _ATTRIBUTES):
            what = f"reads {one.argval}"
        elif has_data and (catches or one.argval == "suppress"):
            what = "catches errors"
        if what is not None:
            lines = [line for start, end, line in code.co_lines() if start <= one.offset < end]
            return f"{what} at {code.co_filename}:{lines[0]}"
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return next(filter(None, [_asks_of_numbers(one, has_data) for one in inner]), None)


def agrees(variant, f: Callable, arguments: Arguments) -> bool:
    """Whether a program gives what the function gives, at the arguments and nearby.

    Nearby it is compared where it takes the same branches; if there is no such place, this counts
    as no.
    """

    def again(values):
        return arguments.call(f, values)

    pairs = [*zip(arguments.values, arguments.kinds, strict=True)]
    nearby = ([_nearby(*pair, step) for pair in pairs] for step in _STEPS)
    try:
        with np.errstate(all="ignore"):
            places = [arguments.values, next(one for one in nearby if _is_taken(variant, one))]
            return all(variant.differs(one, again(one), again) is None for one in places)
    except Exception:
        return False


def _is_taken(variant, values: list) -> bool:
    """Whether a program gives a result for these values."""
    memory = variant.program.begin()
    try:
        return variant.program.forward(memory, values) == FINISHED
    finally:
        variant.program.end(memory)


def _nearby(value, kind: tuple, step: float):
    """A value of an input to be differentiated with other digits; data are as they are."""
    dtype, shape, differentiated = kind
    if not differentiated:
        return value
    steps = step * np.cos(np.arange(np.size(value))).reshape(shape)
    found = np.asarray(value * (1.0 + steps) + 0.01 * steps, dtype)
    return found if shape else float(found)

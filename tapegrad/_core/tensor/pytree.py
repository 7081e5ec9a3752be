"""Arguments of any structure, and what objects lead to."""

from __future__ import annotations

import atexit
import collections
import copy
import ctypes
import dataclasses
import functools
import gc
import operator
import sys
import types
import weakref
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ..codegen import compat
from ..tape.native_types import Getter
from .callers import ANY, is_installed, outer
from .tensor_classes import Tensor
from .trace import is_steering
from .values import ComplexTensor, imag_part, is_recorded, is_tensor, joined_parts, real_part

# --- pytree ---------------------------------------------------------------------------------------
# Values in nested tuples, lists, dicts, and instances of dataclasses and attrs classes.


# --- Values in nested tuples, lists, dicts, and instances of dataclasses and attrs classes --------


#: Classes of containers that are made of their items alone.
CONTAINERS = frozenset((dict, list, tuple, collections.OrderedDict))
#: Types that are tested first, since most values have them.
LEAVES = frozenset((float, int, bool, np.ndarray, np.float64, str, type(None)))
#: Which object such a value is does not matter.
_VALUES = (int, float, complex, str, bytes, type(None), np.generic, tuple)
#: Fields of instances with such values, or functions, are no leaves: they are unchanged.
_FIXED = (str, bytes, bool, type(None))


def items_of(tree) -> list:
    """What a dict, a list or a tuple holds, whatever its class makes of going through it."""
    if isinstance(tree, dict):
        return [value for _, value in _pairs(tree)]
    return [*(tuple if isinstance(tree, tuple) else list).__iter__(tree)]


def _pairs(tree: dict) -> list[tuple]:
    """The keys and values of a dict in its order."""
    kind = collections.OrderedDict if isinstance(tree, collections.OrderedDict) else dict
    return [*kind.items(tree)]


def fields_of(value) -> list[str] | None:
    """The names of the fields of an instance of a dataclass or attrs class, None for others."""
    kind = type(value)
    if hasattr(kind, "__dataclass_fields__") and kind is not type:
        return [one.name for one in dataclasses.fields(kind)]
    found = getattr(kind, "__attrs_attrs__", None)
    return None if found is None else [one.name for one in found]


def is_fixed(value) -> bool:
    """Whether a field's value is none to be differentiated: text, a truth, None, a function."""
    return isinstance(value, _FIXED) or (callable(value) and fields_of(value) is None)


def computed_field(tree) -> tuple[str, str] | None:
    """The class and name of a field in a tree that its class computes from others, or None."""
    kind = type(tree)
    if kind in LEAVES:
        return None
    if isinstance(tree, (tuple, list, dict)):
        return next(filter(None, map(computed_field, items_of(tree))), None)
    fields = dataclasses.fields(kind) if hasattr(kind, "__dataclass_fields__") else ()
    for one in (*fields, *getattr(kind, "__attrs_attrs__", ())):
        value = getattr(tree, one.name)
        if not one.init and not is_fixed(value):
            return kind.__name__, one.name
        if (found := computed_field(value)) is not None:
            return found
    return None


def refuse_computed_fields(name: str, tree) -> None:
    """Refuse an instance with a field that its class computes: it would be taken for an input."""
    if (found := computed_field(tree)) is not None:
        kind, field = found
        raise TypeError(
            f"tapegrad.{name}: the field {field!r} of {kind} has init=False: the class computes it "
            "from others, which would not be differentiated; make it a property"
        )


def is_complex_leaf(tree) -> bool:
    """Whether a leaf is a complex number, array or tensor."""
    if isinstance(tree, (np.ndarray, np.generic)):
        return tree.dtype.kind == "c"
    return isinstance(tree, (complex, ComplexTensor))


def tree_leaves(tree, path="") -> list:
    """Values in nested tuples, lists, dicts and fields, each with its place.

    A complex value is two: its real and its imaginary part.
    """
    kind = type(tree)
    if kind in LEAVES:
        if kind is not np.ndarray or tree.dtype.kind != "c":
            return [(path, tree)]
        return [(f"{path}.real", _owned(tree.real)), (f"{path}.imag", _owned(tree.imag))]
    if isinstance(tree, dict):
        return [x for k, item in _pairs(tree) for x in tree_leaves(item, f"{path}[{k!r}]")]
    if isinstance(tree, (tuple, list)):
        held = tree if kind in CONTAINERS else items_of(tree)
        return [x for k, item in enumerate(held) for x in tree_leaves(item, f"{path}[{k}]")]
    names = fields_of(tree)
    if names is None:
        if is_complex_leaf(tree):
            return [(f"{path}.real", real_part(tree)), (f"{path}.imag", imag_part(tree))]
        return [(path, tree)]
    pairs = [(name, getattr(tree, name)) for name in names]
    return [x for k, v in pairs if not is_fixed(v) for x in tree_leaves(v, f"{path}.{k}")]


def holds_complex(tree) -> bool:
    """Whether a value in a tree is complex."""
    if isinstance(tree, (dict, tuple, list)):
        return any(map(holds_complex, items_of(tree)))
    names = None if type(tree) in LEAVES else fields_of(tree)
    if names is None:
        return is_complex_leaf(tree)
    return any(holds_complex(v) for v in [getattr(tree, k) for k in names] if not is_fixed(v))


def _owned(part: np.ndarray) -> np.ndarray:
    """A contiguous copy of a part of a complex array."""
    return np.array(part, order="K")


def tree_build(tree, values, kept: dict | None = None):
    """A tree of the same structure with values taken from an iterator.

    Instances are made without their `__init__`: attributes that are not fields, such as caches, are
    missing. With `kept`, which holds what was made by the id of what it stands for, that of one
    array or container is one object.
    """
    kind = type(tree)
    if kind in LEAVES:
        is_array = kind is np.ndarray
        is_complex = is_array and tree.dtype.kind == "c"
        made = joined_parts(next(values), next(values)) if is_complex else next(values)
        return made if kept is None or not is_array else kept.setdefault(id(tree), made)
    made = _built(tree, values, kept)
    return made if kept is None or not has_identity(tree) else kept.setdefault(id(tree), made)


def _built(tree, values, kept: dict | None):
    """The same for a container, or a leaf of a rarer type."""
    kind = type(tree)
    if isinstance(tree, dict):
        found = {key: tree_build(item, values, kept) for key, item in _pairs(tree)}
        return found if kind is dict else _with_items(tree, found)
    if isinstance(tree, (tuple, list)):
        items = [tree_build(item, values, kept) for item in items_of(tree)]
        return kind(items) if kind in CONTAINERS else _with_items(tree, items)
    names = fields_of(tree)
    if names is None:
        return joined_parts(next(values), next(values)) if is_complex_leaf(tree) else next(values)
    made = object.__new__(type(tree))
    for name in names:
        value = getattr(tree, name)
        built = value if is_fixed(value) else tree_build(value, values, kept)
        object.__setattr__(made, name, built)
    return made


def _with_items(tree, items):
    """A copy of an instance of a user's container class that holds other items."""
    if isinstance(tree, tuple):
        made = tuple.__new__(type(tree), items)
        if hasattr(tree, "__dict__"):
            vars(made).update(vars(tree))
        return made
    made = copy.copy(tree)
    if isinstance(tree, list):
        list.__setitem__(made, slice(None), items)
    else:
        for key, item in items.items():
            dict.__setitem__(made, key, item)
    return made


def users_container(tree) -> str | None:
    """What a tree contains of instances of subclasses of dict, list or tuple; None if nothing.

    Named tuples are none, nor are ordered dicts.
    """
    kind = type(tree)
    if kind in LEAVES:
        return None
    for base in (dict, list, tuple):
        if isinstance(tree, base):
            if kind not in CONTAINERS and not hasattr(tree, "_fields"):
                return f"a {kind.__name__}, a subclass of {base.__name__}"
            return next(filter(None, map(users_container, items_of(tree))), None)
    held = [getattr(tree, name) for name in fields_of(tree) or ()]
    return next(filter(None, map(users_container, held)), None)


def has_identity(tree) -> bool:
    """Whether it matters which object it is: an array, a tensor, a container that can change."""
    if isinstance(tree, (np.ndarray, list, dict, Tensor, ComplexTensor)):
        return True
    return not isinstance(tree, _VALUES) and fields_of(tree) is not None


def repeats(trees: Sequence) -> tuple[tuple[int, int], ...]:
    """Which arrays and containers in trees are ones that have come before: pairs of numbers.

    Trees, and what they contain, are counted in order.
    """
    if len(trees) == 1 and type(trees[0]) in LEAVES:
        return ()
    nodes = trees if LEAVES.issuperset(map(type, trees)) else [x for t in trees for x in _nodes(t)]
    own = [id(one) for one in nodes if not isinstance(one, _VALUES)]
    if len({*own}) == len(own):
        return ()
    first: dict[int, int] = {}
    places = [(k, first.setdefault(id(x), k)) for k, x in enumerate(nodes) if has_identity(x)]
    return tuple([(k, before) for k, before in places if before < k])


def _nodes(tree) -> list:
    """A tree and all that it contains."""
    if type(tree) in LEAVES:
        return [tree]
    if isinstance(tree, (dict, tuple, list)):
        items = items_of(tree)
    else:
        fields = [getattr(tree, name) for name in fields_of(tree) or ()]
        items = [one for one in fields if not is_fixed(one)]
    return [tree, *[x for item in items for x in _nodes(item)]]


# --- Whether arguments of a function hold recorded values, also in lists, tuples and dicts --------


_PLAIN = frozenset((float, int, bool, str, type(None), np.ndarray, np.float64))


def none_recorded(arguments) -> bool:
    """Whether no argument is recorded, or a list with something recorded."""
    return _none(arguments, lambda x: is_recorded(x) and not is_steering(x))


def none_traced(arguments) -> bool:
    """The same, where values of which a program only computes choices count as recorded, too."""
    return _none(arguments, is_recorded)


def _none(arguments, counts: Callable) -> bool:
    for x in arguments:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if isinstance(x, Tensor):
            if counts(x):
                return False
        elif kind is ComplexTensor and not _none((x._re, x._im), counts):
            return False
        elif (kind is list or kind is tuple) and not _none(x, counts):
            return False
        elif kind is dict and not _none(x.values(), counts):
            return False
    return True


# --- Values that derivatives treat as constants ---------------------------------------------------


T = TypeVar("T")


def stop_gradient(x: T) -> T:
    """Return the values of `x`, which derivatives treat as constants.

    Parameters
    ----------
    x : Tensor, array_like, or nested tuples, lists, dicts and dataclasses of them
        Plain numbers, arrays and other objects stay as they are.

    Returns
    -------
    same as x
        With `t.detach()` in place of each tensor t. It shares the memory of t.

    See Also
    --------
    Tensor.detach : The same for one tensor.

    Notes
    -----
    Derivatives of the result of any order are 0, in reverse and in forward mode. Compiled functions
    recompute the result from their arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> def f(x):  # the weights do not count in the derivative
    ...     weights = tg.stop_gradient(1 / (1 + x**2))
    ...     return np.sum(weights * x**2)
    >>> print(tg.grad(f)(np.array([0.0, 1.0, 3.0])))
    [0.  1.  0.6]
    """
    leaves = [value for _, value in tree_leaves(x)]
    if not any(map(is_tensor, leaves)):
        return x
    return tree_build(x, iter([one.detach() if is_tensor(one) else one for one in leaves]))


# --- reachable ------------------------------------------------------------------------------------
# Objects that a user's function can reach, and its own code.


# --- The user's code of functions, whether they are entered or not --------------------------------
# Python's attribute `__code__` gives it, too, once a code has been made of a user's: then the table
# from which the descriptor of the attribute takes its function is another one, which calls ours.


#: By the identity of code that was made: a reference to it, and the user's.
_own: dict[int, tuple[weakref.ref, types.CodeType]] = {}


def made_for(own: types.CodeType, made: types.CodeType) -> types.CodeType:
    """Note that code was made of a user's."""
    number = id(made)
    if number not in _own:
        pop = _own.pop  # names of modules are none at the end of a process
        _own[number] = weakref.ref(made, lambda _: pop(number, None)), own
        _show_own()
    return made


def own_code(function: types.FunctionType) -> types.CodeType:
    """The user's code of a function."""
    code = code_of(function)
    hit = _own.get(id(code))
    return code if hit is None or hit[0]() is not code else hit[1]


#: The value of a name that has none.
ABSENT: Any = object()


def content(cell: types.CellType, missing=ABSENT) -> Any:
    """The value of a variable of an enclosing function."""
    try:
        return cell.cell_contents
    except ValueError:
        return missing


# --- the attribute --------------------------------------------------------------------------------


class _CodeGetter:
    """Is given with a function to `PyNumber_MatrixMultiply`, as which a getter is called."""

    def __rmatmul__(self, function: types.FunctionType) -> types.CodeType:
        return own_code(function)


_descriptor = vars(types.FunctionType)["__code__"]
#: Where the descriptor has the address of its table: after the head and three objects.
_HEAD = 16
_place = ctypes.c_void_p.from_address(id(_descriptor) + _HEAD + 24)
_asked = _CodeGetter()


def _table() -> Getter | None:
    """The table of the attribute, if it lies where it is looked for."""
    is_known = type(_descriptor) is types.GetSetDescriptorType and object.__basicsize__ == _HEAD
    if not is_known or not _place.value:
        return None
    found = Getter.from_address(_place.value)
    return found if found.name == b"__code__" else None


def _is_table_known() -> bool:
    return _table() is not None


def _getter() -> Callable[[types.FunctionType], types.CodeType]:
    """What gives the code by which a function runs, however the attribute is read."""
    if not compat.holds("attribute-tables", _is_table_known):
        return operator.attrgetter("__code__")
    make = ctypes.pythonapi.PyDescr_NewGetSet
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(types.FunctionType, _place.value).__get__


#: The code by which a function runs: while it is entered, that which was made.
code_of = _getter()
_shown: list[Getter] = []


def _show_own() -> None:
    """Let the attribute give the user's code from now on."""
    theirs = _table()
    if _shown or theirs is None or not compat.holds("attribute-tables", _is_table_known):
        return
    multiply = ctypes.cast(ctypes.pythonapi.PyNumber_MatrixMultiply, ctypes.c_void_p)
    ours = Getter(theirs.name, multiply.value, theirs.set, theirs.doc, id(_asked))
    for one in (ours, _asked):  # which other threads may use until the very end
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    _shown.append(ours)
    atexit.register(setattr, _place, "value", _place.value)
    _place.value = ctypes.addressof(ours)


# --- Objects that a user's function can reach: functions that it calls, state that it reads -------


#: Libraries whose functions are recorded where they are called.
COMPUTING = frozenset(("numpy", "scipy", "math"))
LIBRARIES = frozenset(("tapegrad", "numpy", "scipy", "numba", "math", "builtins", "torch"))
#: The number of objects that are searched, and of items of containers.
MOST, MOST_ITEMS = 2000, 100
#: Containers with items, and objects of the standard library that hold nothing but others.
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
_CONTAINERS = (*_SEQUENCES, dict, functools.partial)
HOLDERS = (collections.UserDict, collections.UserList, collections.ChainMap)
_REFERRING: tuple[type, ...] = (
    *(types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items())),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)
#: What classes hold of their functions.
_MEMBERS = (
    *(property, functools.cached_property, functools.partialmethod, staticmethod, classmethod),
    functools.singledispatchmethod,
)
_PLAIN_TYPES = frozenset((int, float, complex, bool, str, bytes, type(None)))


def reachable(f: Callable, is_wanted: Callable[[Any], bool]) -> list:
    """The objects of a kind that a function can reach."""
    return [one for one in Reach(f).objects(is_wanted) if is_wanted(one)]


class Reach:
    """What a function can reach.

    It is in the closure of the function, in its defaults and the globals that it names, in
    attributes of objects there, and behind functions that it names. Of modules, of classes of
    installed packages, and of objects of the standard library, such as namespaces, it is in the
    attributes that code names. The standard library is not searched itself, nor are installed
    packages, except for `packages` and those to which the function belongs.
    """

    def __init__(self, f: Callable, *others: Any, packages: Container[str] = ANY):
        self._first, self._packages = [f, *others], packages
        self._own = {outer(module_of(one)) for one in _behind(f)}

    def objects(self, is_end: Callable[[Any], bool]) -> list:
        """The objects, nearest first, without those beyond an end."""
        found: list = [*self._first]
        seen, names, holders = set(map(id, found)), set[str](), list[Mapping]()
        for one in found:  # which grows
            others: list = []
            if not is_end(one):
                others += self._reached(one)
                if isinstance(one, types.FunctionType) and not self.is_of_library(module_of(one)):
                    names |= _names(own_code(one))
                elif self._is_read_by_name(one):
                    holders.append(held_by(one))
            if one is found[-1]:
                others += [held[name] for held in holders for name in names.intersection(held)]
            for other in others:
                if id(other) not in seen and len(found) < MOST:
                    seen.add(id(other))
                    found.append(other)
        return found

    def functions(self, every: list | None = None) -> list[types.FunctionType]:
        """The functions among objects, by default all; not those of libraries."""
        every = self.objects(lambda one: False) if every is None else every
        functions = [one for one in every if isinstance(one, types.FunctionType)]
        return [one for one in functions if not self.is_of_library(module_of(one))]

    def is_library(self, one) -> bool:
        """Whether an object is a class, or an instance of a class, of a library."""
        return self.is_of_library(module_of_class(one))

    def is_of_library(self, module: str) -> bool:
        """Whether a module is one of a library."""
        package = outer(module)
        if package == "__main__":  # which is among the names of the standard library
            return False
        if package in LIBRARIES or package in sys.stdlib_module_names:
            return True
        return self._is_installed(package) and package not in self._packages

    def is_of_package(self, module: str) -> bool:
        """Whether a module is one of an installed package that is searched by names."""
        return self._is_installed(outer(module)) and not self.is_of_library(module)

    def _is_installed(self, package: str) -> bool:
        return package not in self._own and is_installed(package)

    def _reached(self, one) -> list:
        """The objects that an object refers to."""
        if isinstance(one, types.FunctionType):
            return self._of_function(one)
        if isinstance(one, types.MethodType):
            return [one.__func__, one.__self__]
        if isinstance(one, functools.partial):
            return [one.func, *one.args, *one.keywords.values()]
        if type(one) in _PLAIN_TYPES or isinstance(one, types.ModuleType):
            return []
        if isinstance(one, _MEMBERS):
            return _of_member(one)
        if type(one) is np.vectorize:
            return [one.pyfunc]
        if self.is_library(one):
            return held_items(one) + _wrapped(one)  # as a compiled function's
        if isinstance(one, type):
            every = not self.is_of_package(module_of_class(one))
            return [*one.__bases__, *_held_by_class(one, every)]
        return [*held_items(one), *attribute_values(one), *_slots(one), type(one)]

    def _is_read_by_name(self, one) -> bool:
        """Whether an object may hold much that is read of it by name alone."""
        if isinstance(one, types.ModuleType):
            return not self.is_of_library(one.__name__)
        return type(one) not in _PLAIN_TYPES and isinstance(one, type) != self.is_library(one)

    def _of_function(self, f: types.FunctionType) -> list:
        """Cells and defaults of a function, and the globals it names, unless it is a library's."""
        found = [*_cells(f), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        found += _wrapped(f)
        if self.is_of_library(module_of(f)):
            return found
        names = _names(own_code(f))
        found += [f.__globals__[name] for name in names if name in f.__globals__]
        return found + _imported(f, names)


def held_items(one) -> list:
    """What a container holds, whatever its class makes of going through it; [] for others."""
    if isinstance(one, _REFERRING):
        return gc.get_referents(one)
    if isinstance(one, HOLDERS) or module_of_class(one).startswith("tapegrad.nn"):
        return [*held_by(one).values()]
    if isinstance(one, weakref.ref):
        return [one()]
    if type(one) in weakref.ProxyTypes:
        return [one.__repr__.__self__]
    if isinstance(one, np.ndarray):
        return [*one.flat] if one.dtype.hasobject and one.size <= MOST_ITEMS else []
    if isinstance(one, dict):
        few = dict.__len__(one) <= MOST_ITEMS
        keys = [key for key in dict.keys(one) if type(key) not in _PLAIN_TYPES] if few else []
        return [*dict.values(one), *keys] if few else []
    kind = next((kind for kind in _SEQUENCES if isinstance(one, kind)), None)
    if kind is None or kind.__len__(one) > MOST_ITEMS:
        return []
    return [*kind.__iter__(one)]


def is_namespace(one) -> bool:
    """Whether an object is there for its attributes alone: a module, a namespace."""
    kind = type(one)
    is_of_options = (kind.__module__, kind.__name__) == ("argparse", "Namespace")
    return is_of_options or isinstance(one, (types.ModuleType, types.SimpleNamespace))


def is_numerical(one) -> bool:
    """Whether an object is of a library of arrays, whose objects have state of their own."""
    return outer(module_of_class(one)) in LIBRARIES


def _behind(f: Callable) -> list[types.FunctionType]:
    """The functions that a callable consists of: those that it wraps, binds or encloses."""
    found: list = [f]
    for one in found:  # which grows
        others: list = _wrapped(one)
        if isinstance(one, types.FunctionType):
            others += [held for held in _cells(one) if callable(held)]
        elif isinstance(one, types.MethodType):
            others.append(one.__func__)
        elif isinstance(one, functools.partial):
            others.append(one.func)
        found += [other for other in others if not any(other is known for known in found)]
    return [one for one in found if isinstance(one, types.FunctionType)]


def _held_by_class(kind: type, every: bool) -> list:
    """The functions that a class holds, in methods and properties, and its containers.

    If not `every`, only methods that Python calls: others are called by their names.
    """
    found: list = []
    for name, value in vars(kind).items():
        is_special = name.startswith("__")
        is_function = isinstance(value, (types.FunctionType, *_MEMBERS))
        if (every or is_special) and (is_function or hasattr(value, "__wrapped__")):
            found.append(value)
        elif every and isinstance(value, _CONTAINERS) and not is_special:  # as annotations are
            found.append(value)
    return found


def _of_member(one) -> list:
    """The functions of a property or another member of a class."""
    if isinstance(one, property):
        return [each for each in (one.fget, one.fset, one.fdel) if each is not None]
    if isinstance(one, (functools.cached_property, functools.partialmethod)):
        return [one.func]
    if isinstance(one, functools.singledispatchmethod):
        return [one.func, one.dispatcher]
    return [one.__func__]


def module_of(f: types.FunctionType) -> str:
    """The name of the module in which a function looks up names; a wrapper has another's name."""
    return f.__globals__.get("__name__") or ""


def module_of_class(one) -> str:
    module = (one if isinstance(one, type) else type(one)).__module__
    return module if isinstance(module, str) else ""  # Cython's functions have a descriptor


def held_by(one) -> Mapping[str, Any]:
    """The attributes in the dict of an object; none if it has no dict, or a proxy gives none."""
    try:
        found = vars(one)
    except Exception:  # a user's own __dict__ may raise anything
        return {}
    is_known = type(found) is dict or isinstance(found, Mapping)  # as one that loads a library's
    return found if is_known else {}


#: The words before an object that hold its attributes or, in 3.12 without a 1, their dict.
_PLACE = {(3, 11): -32, (3, 12): -24}.get(sys.version_info[:2])
_MANAGED = 1 << 4  # the flag of classes whose objects have such words


def attribute_values(one) -> Collection:
    """The values of the attributes of an object, and of its slots if the dict is not made yet.

    It is not made for that: Python 3.11 and 3.12 read attributes more slowly afterwards.
    """
    if _PLACE is not None and compat.holds("inline-attributes", _is_place_known):
        if _is_inline(one):
            return [value for value in gc.get_referents(one) if value is not type(one)]
    return held_by(one).values()


def _is_inline(one) -> bool:
    """Whether an object has attributes, and no dict."""
    if not type(one).__flags__ & _MANAGED:
        return False
    word = ctypes.c_size_t.from_address(id(one) + (_PLACE or 0)).value
    return word != 0 if sys.version_info[:2] == (3, 11) else word & 1 == 1


def _is_place_known() -> bool:
    class Probed:
        def __init__(self):
            self.attribute = self

    one = Probed()
    before = _is_inline(one)
    is_dict_made = bool(vars(one))
    found = before and is_dict_made and not _is_inline(one)
    del one.attribute
    return found


def _slots(one) -> list:
    """The values in the slots of an object."""
    members = [raw for kind in type(one).__mro__ for raw in vars(kind).values()]
    slots = [raw.__name__ for raw in members if isinstance(raw, types.MemberDescriptorType)]
    return [getattr(one, name) for name in slots if hasattr(one, name)]


def _wrapped(one) -> list:
    own = held_by(one)
    return [own["__wrapped__"]] if "__wrapped__" in own else []


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and that of the functions and classes in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from codes_in(one)


def _names(code: types.CodeType) -> set[str]:
    return {name for one in codes_in(code) for name in one.co_names}


def _imported(f: types.FunctionType, names: set[str]) -> list:
    """The modules among the names of a function's code, which imports them in its body."""
    parents = [f"{f.__globals__.get('__package__') or ''}."]
    while parents[-1].count(".") > 1:  # `from ..x import y`
        parents.append(parents[-1][:-1].rpartition(".")[0] + ".")
    wanted = [f"{parent}{name}" for name in names for parent in ("", *parents)]
    return [sys.modules[one] for one in wanted if one in sys.modules]


def _cells(f: types.FunctionType) -> list:
    """The values of the variables of enclosing functions."""
    return [value for cell in f.__closure__ or () if (value := content(cell)) is not ABSENT]

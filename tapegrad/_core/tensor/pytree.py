"""Values in nested tuples, lists, dicts, and instances of dataclasses and attrs classes."""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from .complex_tensors import ComplexTensor, imag_part, joined_parts, real_part
from .tensor_classes import Tensor
from .trace import is_steering
from .values import is_recorded, is_tensor

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

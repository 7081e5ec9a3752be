"""Classes of named tuples whose instances are tuples with names and nothing else."""

from __future__ import annotations

import collections

#: What Python itself sets in a class; the rest with such names changes what operators do.
_OF_CLASSES = frozenset(
    "__module__ __doc__ __slots__ __qualname__ __dict__ __weakref__ __annotations__ __orig_bases__ "
    "__firstlineno__ __static_attributes__ __annotate__ __annotate_func__ __annotations_cache__ "
    "__classdictcell__ __parameters__ __type_params__".split()
)
_GENERATED = frozenset(vars(collections.namedtuple("_Generated", ())))  # noqa: PYI024
_GETTER = type(vars(collections.namedtuple("_Generated", "a"))["a"])  # noqa: PYI024


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

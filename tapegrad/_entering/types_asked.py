"""`type`, `isinstance`, `hasattr`, `float` in entered code: recorded values are as plain ones."""

from __future__ import annotations

from .._core.tensor import runtime as rt
from .._core.tensor.plain_data import (
    ambiguous,
    as_kind,
    class_of,
    number_of,
    plain_samples,
    possible_kinds,
)
from .._core.tensor.reachable import outer
from .complex_numbers import complex_of_recorded

_TENSORS = rt.Tensor, rt.ComplexTensor
#: Modules of Python's classes of classes.
_ASKING = frozenset(("builtins", "abc", "typing", "types"))


def _is_asked(one) -> bool:
    """Whether the answer for an object is that for its plain value."""
    return issubclass(type(one), _TENSORS) and rt.in_transform()


def type_of_recorded(one, *more, **named):
    """Python's `type`; refused for numbers that may be Python's or NumPy's."""
    if more or named or not issubclass(type(one), _TENSORS):
        return type(one, *more, **named)
    if (found := _class_of(one)) is not None:
        return found
    if not _is_asked(one):
        return type(one)
    found = possible_kinds(one)
    if len(found) > 1:
        raise ambiguous("the type", one)
    return found[0]


def is_instance(one, kinds):
    """Python's `isinstance`; refused where the answer is another one for Python and NumPy.

    What stands for an object of SciPy's names its class, `stands_for`.
    """
    if hasattr(type(one), "stands_for"):
        return isinstance(one, kinds) or issubclass(one.stands_for, kinds)
    if not _is_asked(one) or _reads(kinds):
        return isinstance(one, kinds)
    return _is_of_ours(type(one), kinds) or _agreed(
        "isinstance()", one, lambda plain: isinstance(plain, kinds)
    )


def has_attribute(one, name):
    """Python's `hasattr`; refused where the answer is another one for Python and NumPy."""
    if not _is_asked(one):
        return hasattr(one, name)
    return _agreed("hasattr()", one, lambda plain: hasattr(plain, name))


def _is_of_ours(kind: type, kinds) -> bool:
    """Whether a class of tensors is asked for."""
    if isinstance(kinds, tuple):
        return any([_is_of_ours(kind, each) for each in kinds])
    return isinstance(kinds, type) and issubclass(kinds, _TENSORS) and issubclass(kind, kinds)


def _reads(kinds) -> bool:
    """Whether a class of the user's may read the value of what it is asked for."""
    if isinstance(kinds, tuple):
        return any(map(_reads, kinds))
    check = getattr(type(kinds), "__instancecheck__", None)
    return outer(getattr(check, "__module__", None) or "builtins") not in _ASKING


def _class_of(one) -> type | None:
    """The class of data, of which it is known."""
    return class_of(one) if issubclass(type(one), rt.Tensor) else None


def _agreed(what: str, one, ask):
    known = _class_of(one)
    samples = plain_samples(one) if known is None else [as_kind(one, known)]
    found = [ask(plain) for plain in samples]
    if any([answer is not found[0] for answer in found]):
        raise ambiguous(what, one)
    return found[0]


def float_of_recorded(*given):
    """Python's `float`; a recorded number stays one, with its derivative."""
    if len(given) != 1 or not isinstance(given[0], rt.Tensor):
        return float(*given)
    kept = number_of(given[0])
    return float(given[0]) if kept is None else kept


#: What stands for Python's own functions and classes.
OF_PYTHON = {
    type: type_of_recorded,
    isinstance: is_instance,
    hasattr: has_attribute,
    float: float_of_recorded,
    complex: complex_of_recorded,
}

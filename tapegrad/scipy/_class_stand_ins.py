"""What stands for classes of SciPy: calls make SciPy's objects, or ours of recorded values."""

from __future__ import annotations

import functools
from typing import Any

from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import lost_derivative

#: In place of SciPy's object for one of ours that has recorded values.
RECORDED = type("Recorded", (), {})


def plain_object(x) -> Any:
    """SciPy's object for one of ours, or `RECORDED`; others as they are."""
    if not hasattr(type(x), "plain_object"):
        return x
    return RECORDED if x.plain_object is None else x.plain_object


class ClassStandIn:
    """A class of SciPy for `isinstance`, for classes derived from it, and by its attributes."""

    def __init__(self, theirs: type, place: str):
        self._theirs = self.__wrapped__ = theirs
        self.__name__ = self.__qualname__ = theirs.__name__
        self.__module__, self.__doc__ = place, theirs.__doc__

    def __instancecheck__(self, x):
        return isinstance(x, self._theirs) or self.is_ours(x)

    def is_ours(self, x) -> bool:
        """Whether an object of ours is one of this class."""
        raise NotImplementedError

    def __subclasscheck__(self, kind):
        return issubclass(kind, self._theirs)

    def __mro_entries__(self, bases):
        return (self._theirs,)

    def __getattr__(self, name: str):
        return getattr(self._theirs, name)

    def __eq__(self, other):
        return other is self or other is self._theirs

    def __hash__(self):
        return hash(self._theirs)

    def __repr__(self):
        return repr(self._theirs)


class RefusingClass(ClassStandIn):
    """A class of SciPy that has no derivative of recorded values; plain ones make SciPy's."""

    def __call__(self, *args, **keywords):
        return self._theirs(*self._plain("", args), **self._plain("", keywords))

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, type) or not callable(found):
            return found

        @functools.wraps(found)
        def function(*args, **keywords):
            return found(*self._plain(f".{name}", args), **self._plain(f".{name}", keywords))

        return function

    def _plain(self, name: str, given):
        """Arguments, in a list or by name, with SciPy's objects in place of ours."""
        values = [*given.values()] if isinstance(given, dict) else [*given]
        theirs = [plain_object(x) for x in values]
        if any(x is RECORDED for x in theirs) or not none_traced(theirs):
            raise lost_derivative(
                f"{self.__module__}.{self.__name__}{name}: it has no derivative of recorded "
                "values; give x.detach().numpy() if none is needed",
                *values,
            )
        return dict(zip(given, theirs, strict=True)) if isinstance(given, dict) else theirs

    def is_ours(self, x) -> bool:
        return False

"""What stands for classes of SciPy: calls make SciPy's objects, or ours of recorded values."""

from __future__ import annotations


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

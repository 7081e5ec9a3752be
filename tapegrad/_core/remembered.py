"""Properties that are found once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Found = TypeVar("_Found")


class remembered(Generic[_Found]):
    """A property that is found when it is first asked for, of an object that never changes in it.

    Unlike `functools.cached_property` it takes no lock, which until Python 3.11 is one for all
    objects, and which the child of a fork could find taken. Threads that ask at once may each find
    a value, and keep one.
    """

    def __init__(self, find: Callable[[Any], _Found]):
        self.find, self.name = find, find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, owner: Any, kind: type) -> _Found:
        if owner is None:  # of the class
            return self  # type: ignore[return-value]
        return vars(owner).setdefault(self.name, self.find(owner))

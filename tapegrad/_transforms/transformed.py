"""What transforms return: functions that can be pickled, and compiled."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


class Transformed:
    """A function made of another one by a transform, whose name and signature it has.

    It is pickled as the transform, the function and the options; `evaluate` computes it.
    """

    __slots__ = "__dict__", "__weakref__", "_evaluate", "_of"  # what wraps it copies its dict

    def __init__(self, transform: Callable, f: Callable, options: dict[str, Any], evaluate):
        functools.update_wrapper(self, f)
        self._evaluate = evaluate
        self._of = transform, f, options

    def __call__(self, /, *args, **kwargs):
        return self._evaluate(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self):
        transform, f, options = self._of
        own = {k: v for k, v in vars(self).items() if getattr(f, k, None) is not v}
        own.pop("__wrapped__", None)
        return _transformed, (transform, f, options), own

    def __repr__(self) -> str:
        transform, f, _ = self._of
        return f"<tapegrad.{transform.__name__} of {getattr(f, '__qualname__', f)}>"


def transformed(transform: Callable, f: Callable, **options) -> Callable[[Callable], Transformed]:
    """Decorate the function that computes `transform(f, **options)`."""
    return functools.partial(Transformed, transform, f, options)


def transform_of(f) -> tuple | None:
    """The (transform, function, options) of what a transform gave; None for others."""
    return f._of if type(f) is Transformed else None


def _transformed(transform: Callable, f: Callable, options: dict[str, Any]):
    return transform(f, **options)

"""Transforms of compiled functions, which have methods of their own for them."""

from __future__ import annotations

from collections.abc import Callable


def method_of_compiled(transform: str, f, argnums=0, argnames=None) -> Callable | None:
    """The method by which a compiled function computes a transform of itself; None for others.

    A compiled function is recognized by its method `_method_for`: programs are not imported here.
    """
    find = getattr(type(f), "_method_for", None)
    return None if find is None else find(f, transform, argnums, argnames)

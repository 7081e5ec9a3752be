"""Compiled functions whose differentiated arguments are named: `tg.compile(f, argnames=…)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._transforms.named_arguments import Names, joined


class CompiledByName:
    """A compiled function of arguments by name; made by `tg.compile`, see there.

    It is a compiled function of a tuple of these arguments, and of all others.
    """

    def __init__(self, make: Callable, f: Callable, kind: str, argnums, argnames, **settings):
        self._names = names = Names("compile", f, argnums, argnames)

        def of_values(values, places, rest, others):
            every, named = joined(values, places, rest, others)
            return f(*every, **named)

        of_values.__name__ = getattr(f, "__name__", str(f))
        self._kind, self._compiled = kind, make(of_values, "value", 0, **settings)
        functools.update_wrapper(self, f)
        self._split = names.split

    def _one(self, found):
        """The derivative to the one argument, or a tuple of those to several."""
        return found[0] if self._names.single else found

    def __call__(self, *args, **kwargs) -> Any:
        if self._kind != "value":
            return getattr(self, self._kind)(*args, **kwargs)
        return self._compiled(*self._split(args, kwargs))

    def value_and_grad(self, *args, **kwargs):
        """Value and gradient, as `tg.value_and_grad(f, argnames=…)` gives them."""
        value, found = self._compiled.value_and_grad(*self._split(args, kwargs))
        return value, self._one(found)

    def grad(self, *args, **kwargs):
        """The gradient, as `tg.grad(f, argnames=…)` gives it."""
        return self.value_and_grad(*args, **kwargs)[1]

    def hessian(self, *args, **kwargs):
        """The matrix of second derivatives, as `tg.hessian(f, argnames=…)` gives it."""
        found = self._compiled.hessian(*self._split(args, kwargs))
        return found[0][0] if self._names.single else found

    def jacobian(self, *args, **kwargs):
        """The Jacobian of one result, as `tg.jacobian(f, argnames=…)` gives it."""
        found = self._compiled.jacobian(*self._split(args, kwargs))
        if self._names.single and isinstance(found, tuple) and len(found) == 1:
            return found[0]
        if self._names.single:
            raise TypeError(
                "tapegrad.compile: the function returned a structure, and the Jacobian of one is "
                "given by argnums alone; return an array"
            )
        return found

    def __getattr__(self, name: str):
        if name in ("explain", "wait", "draw"):
            return getattr(self._compiled, name)
        if name in ("hvp", "jvp", "vjp", "map", "sum", "numba", "save"):
            raise AttributeError(
                f"tapegrad.compile: {name} takes arguments by position: give argnums in place of "
                "argnames"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

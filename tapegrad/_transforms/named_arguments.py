"""Arguments that are differentiated by their names: `argnames=` of transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .._entering.numba_functions import called
from .transformed import transformed


class Names:
    """The names of arguments of a function: one, or several in a tuple, like the results."""

    def __init__(self, transform: str, f: Callable, argnums, argnames):
        self.transform, self.f = transform, called(f)
        if argnums != 0 or isinstance(argnums, bool):
            raise ValueError(
                f"tapegrad.{transform}: argnums and argnames are both given; use only one of them, "
                "for all arguments"
            )
        self.single = isinstance(argnames, str)
        self.names = (argnames,) if self.single else tuple(argnames)
        if not all(isinstance(name, str) for name in self.names):
            raise TypeError(
                f"tapegrad.{transform}: argnames is {argnames!r}; it must be a name, or a tuple of "
                "names"
            )
        self.argnums: Any = 0 if self.single else tuple(range(len(self.names)))
        self._positions = _positions(f)

    def places(self, args: tuple, kwargs: dict) -> tuple:
        """The place of each in a call: a position, or a name."""
        found: list = []
        for name in self.names:
            position = self._positions.get(name)
            if name in kwargs:
                found.append(name)
            elif position is not None and position < len(args):
                found.append(position)
            else:
                raise TypeError(
                    f"tapegrad.{self.transform}: argnames has {name!r}, which is not an "
                    f"argument of this call; it got {len(args)} positional arguments, and "
                    f"{sorted(kwargs)}"
                )
        return tuple(found)

    def of_positions(self, count: int) -> list[str]:
        """The names of the first parameters, "" for those without one."""
        names = {position: name for name, position in self._positions.items()}
        return [names.get(k, "") for k in range(count)]

    def split(self, args: tuple, kwargs: dict) -> tuple:
        """The values of these arguments; places; the others, with None in their places."""
        places = self.places(args, kwargs)
        values = tuple([kwargs[k] if isinstance(k, str) else args[k] for k in places])
        rest, others = joined((None,) * len(places), places, args, kwargs)
        return values, places, tuple(rest), others

    def of_values(self, args: tuple, kwargs: dict) -> tuple[Callable, tuple]:
        """The function of these arguments alone, in a call; and their values."""
        values, places, rest, others = self.split(args, kwargs)
        function = self.f  # as a variable, by which it is found and entered

        def f(*values):
            every, named = joined(values, places, rest, others)
            return function(*every, **named)

        return f, values


def joined(values, places, args, kwargs) -> tuple[list, dict]:
    """All arguments of a call, with values in their places."""
    every, named = list(args), dict(kwargs)
    for value, place in zip(values, places, strict=True):
        if isinstance(place, str):
            named[place] = value
        else:
            every[place] = value
    return every, named


def _positions(f: Callable) -> dict[str, int]:
    """The positions of parameters by name; none if Python does not give them."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {one.name: k for k, one in enumerate(parameters) if one.kind in kinds}


def by_names(transform: Callable, f: Callable, argnums, argnames, **options) -> Callable:
    """The result of a transform for named arguments."""
    names = Names(transform.__name__, f, argnums, argnames)

    @transformed(transform, f, argnames=argnames, **options)
    def evaluate(*args, **kwargs):
        of_values, values = names.of_values(args, kwargs)
        return transform(of_values, names.argnums, **options)(*values)

    return evaluate

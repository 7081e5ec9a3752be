"""A function with branches, and what it is called with."""

from collections.abc import Callable
from typing import NamedTuple


class Case(NamedTuple):
    """A function, a maker of its arguments, and how often it is compared with eager calls."""

    name: str
    function: Callable
    make: Callable
    argnums: int | tuple = (0, 1)
    calls: int = 100
    #: Derivatives compared too: Hessian-vector products at some of the inputs.
    second: bool = True


def numbers(count, *sizes, scale=1.5):
    """A maker of numbers and of normally distributed arrays of these sizes."""

    def make(rng):
        values = [float(v) for v in rng.normal(0.6, 0.7, count)]
        return *values, *(rng.normal(0.0, scale, size) for size in sizes)

    return make


def cases(*rows, **options) -> list[Case]:
    """Cases of (function, make) or (function, make, options)."""
    found = []
    for function, make, *rest in rows:
        own = {"name": function.__name__, **options, **(rest[0] if rest else {})}
        found.append(Case(function=function, make=make, **own))
    return found


def uniform(rng, low, high):
    """A float between two others."""
    return float(rng.uniform(low, high))

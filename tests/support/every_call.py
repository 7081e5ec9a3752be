"""Calls of functions found by trying: arguments of many kinds until NumPy takes them."""

import dataclasses
import functools
import inspect
import itertools
import warnings
from typing import Any

import numpy as np

#: Of each arity no more calls are tried once so many have been found.
ENOUGH = 3

V = np.array([0.31, 0.83, 0.12, 0.57])
M = np.array([[2.1, 0.3, 0.2, 0.4], [0.31, 1.7, 0.15, 0.22], [0.1, 0.25, 1.9, 0.37]])
S = np.vstack([M, [0.42, 0.11, 0.29, 2.3]])
#: Arguments by kind; those that hold floats may be recorded.
POOL = {
    "vector": V,
    "square": S,
    "number": 0.37,
    "indices": np.array([0, 2, 1, 2]),
    "mask": np.array([True, False, True, True]),
    "int": 2,
    "list": [V, V[::-1] * 1.3],
    "wide": M,
}
FLOATS = ("vector", "square", "number", "list", "wide")
#: Keywords and the kinds that they are tried with.
KEYWORDS = (
    "weights initial fill_value constant_values left right period prepend append aweights fweights "
    "to_begin to_end x dx mean range bins a_min a_max min max base where start stop step q y num "
    "values decimals tol rtol atol rcond ord nan posinf neginf copy axis n p indices k shift "
    "minlength ddof correction keepdims method condition axes end_values stat_length ref discont"
).split()


@dataclasses.dataclass
class Call:
    """A call that NumPy takes: `kinds` of the positional arguments, and of one keyword."""

    function: Any
    kinds: tuple[str, ...]
    keyword: tuple[str, str] | None = None

    def arguments(self):
        """Fresh arguments, and the places of those that may be recorded."""
        args = [_copied(POOL[kind], k) for k, kind in enumerate(self.kinds)]
        kwargs = {self.keyword[0]: _copied(POOL[self.keyword[1]], 5)} if self.keyword else {}
        places = [k for k, kind in enumerate(self.kinds) if kind in FLOATS]
        if self.keyword:
            return args, kwargs, [self.keyword[0]] if self.keyword[1] in FLOATS else []
        return args, kwargs, places

    def at(self, place, value, function=None):
        """The call with another value at a place."""
        args, kwargs, _ = self.arguments()
        if isinstance(place, int):
            args[place] = value
        else:
            kwargs[place] = value
        return (function or self.function)(*args, **kwargs)

    def __str__(self) -> str:
        keyword = [f"{self.keyword[0]}={self.keyword[1]}"] if self.keyword else []
        return f"{name_of(self.function)}({', '.join([*self.kinds, *keyword])})"


def name_of(function) -> str:
    return getattr(function, "__name__", str(function))


def _copied(value, place: int):
    """An argument of its own; floats differ by place, so that none are equal."""
    if isinstance(value, list):
        return [_copied(item, place) for item in value]
    if isinstance(value, np.ndarray):
        return value * (1.0 + 0.07 * place) if value.dtype.kind == "f" else value.copy()
    return value * (1.0 + 0.07 * place) if isinstance(value, float) else value


def _works(call: Call) -> bool:
    args, kwargs, places = call.arguments()
    if not places:
        return False
    try:
        call.function(*args, **kwargs)
    except Exception:
        return False
    return True


@functools.cache
def calls_of(function, most: int = 3) -> list[Call]:
    """Calls of a function with up to `most` arguments, and with each keyword of floats."""
    found: list[Call] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for arity in range(1, most + 1):
            if len(found) > ENOUGH:
                break
            of_arity: list[Call] = []
            for kinds in itertools.product(POOL, repeat=arity):
                if len(of_arity) < ENOUGH and _works(Call(function, kinds)):
                    of_arity.append(Call(function, kinds))
            found += of_arity
        for keyword in keywords_of(function):
            fitting = (
                Call(function, base.kinds, (keyword, kind))
                for base in [c for c in found if not c.keyword]
                for kind in FLOATS
            )
            found += itertools.islice((call for call in fitting if _works(call)), 2)
    return found


def keywords_of(function) -> list[str]:
    """The keywords of a function that are worth trying."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in KEYWORDS if name in known]

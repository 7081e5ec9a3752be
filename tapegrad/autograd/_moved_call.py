"""Which values that forward of a `Function` keeps in `ctx` are constants: forward called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.values import is_recorded, value_of
from ._context import Context, is_computed
from ._repeated_call import apart, kept, shown


class Moved:
    """A call, which can be repeated with its differentiated arguments slightly moved.

    It holds the other arguments. `compute(ctx, args)` calls forward.
    """

    def __init__(self, compute: Callable, needs: tuple[bool, ...], args):
        self.compute, self.needs = compute, needs
        self.args = [None if is_recorded(arg) else arg for arg in args]
        self.recorded = [is_recorded(arg) for arg in args]
        self.numbers = [type(arg) is rt.Scalar for arg in args]

    def constants(self, values: list, computed: dict[str | int, Any]) -> dict:
        """Which leaves of values in `ctx`, by their names, are the same at moved arguments.

        `values` are the recorded arguments. An array of `ctx` that forward writes anew, because it
        exists once for all calls, gets back what it held.
        """
        before = {name: _copied(value) for name, value in computed.items()}
        found = []
        try:
            for seed in range(2):
                ctx = self._called(values, np.random.default_rng(seed))
                found.append({name: _copied(ctx._as_kept(name)) for name in computed})
        except Exception:  # of the user's code, at arguments that the user did not give
            found = [{}]
        finally:
            for name, value in computed.items():
                _restore(value, before[name])
        return {
            name: [all(_equal(k, own, one.get(name)) for one in found) for k in range(len(own))]
            for name, own in before.items()
        }

    def _called(self, values: list, rng: np.random.Generator) -> Context:
        """`ctx` of a call with moved arguments."""
        given, ctx = iter(values), Context(self.needs)
        places = zip(self.args, self.recorded, self.numbers, self.needs, strict=True)
        args = [
            shown(_moved(value_of(next(given)), need, rng), is_number) if one else kept(arg)
            for arg, one, is_number, need in places
        ]
        with apart():
            self.compute(ctx, args)
        return ctx


def _moved(value, need: bool, rng: np.random.Generator) -> np.ndarray:
    """A copy with each element moved to either side, by different amounts, if there is need.

    Elements other than 0 keep their signs, so that masks of signs are constants.
    """
    array = np.array(value)
    if not need:
        return array
    step = np.finfo(array.dtype).eps ** (1 / 3)
    moves = step * rng.uniform(0.5, 1.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)
    return (array + moves * np.where(array == 0.0, 1.0, array)).astype(array.dtype)


def _copied(value) -> list:
    """The places of the leaves of a value, with copies of those that may have a derivative."""
    return [
        (place, np.array(value_of(leaf)) if is_computed(leaf) else None)
        for place, leaf in tree_leaves(value)
    ]


def _equal(k: int, own: list, other: list | None) -> bool:
    """Whether leaf `k` is the same in two values of the same form."""
    if other is None or [place for place, _ in own] != [place for place, _ in other]:
        return False
    (_, a), (_, b) = own[k], other[k]
    if a is None or b is None:
        return False
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


def _restore(value, before: list) -> None:
    for (_, leaf), (_, held) in zip(tree_leaves(value), before, strict=True):
        array = value_of(leaf)
        if held is not None and isinstance(array, np.ndarray) and array.flags.writeable:
            if not np.array_equal(array, held, equal_nan=True):
                array[...] = held

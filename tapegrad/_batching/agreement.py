"""Comparison of results for a batch with the results of the function for an element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.tensor.values import array_of

#: Relative tolerances of results, in terms of the largest number: in double precision, and where
#: single precision is involved.
DOUBLE, SINGLE = 1e-9, 1e-5
#: Units in the last place by which arguments are changed to measure the effect of rounding, and the
#: factor by which two methods of computation may differ.
_MOVES, _MARGIN = (4.0, 32.0, 256.0), 100.0


def first_difference(found: list, wanted: list, again: Callable, scale: Callable) -> int:
    """The first of the results `found` that differs from `wanted` beyond rounding; −1 if none.

    `again` calls the function with arguments changed by units in the last place, and returns its
    results. `scale` gives the relative tolerance of results, and the largest number that the
    function meets. Both are called only if results seem to differ: if terms cancel, a result does
    not show their size.
    """
    pairs = [(array_of(a), array_of(b)) for a, b in zip(found, wanted, strict=True)]
    differing = [k for k, pair in enumerate(pairs) if not _agree(*pair, DOUBLE, 0.0)]
    if not differing:
        return -1
    part, largest = scale()
    differing = [k for k in differing if not _agree(*pairs[k], part, 0.0)]
    if not differing:
        return -1
    noises = _noises(again, [b for _, b in pairs])
    noises = [min(_MARGIN * noise, part * largest) for noise in noises]
    return next((k for k in differing if not _agree(*pairs[k], part, noises[k])), -1)


def _agree(a: np.ndarray, b: np.ndarray, part: float, noise: float) -> bool:
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f":
        return a.dtype == b.dtype and bool(np.array_equal(a, b))
    most = part * np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) + noise
    return bool(np.allclose(a, b, rtol=part, atol=most, equal_nan=True))


def _noises(again: Callable, first: list) -> list[float]:
    """The effect of rounding on each result; 0 for a function that is not deterministic."""
    if any(_apart(again(0.0), first)):
        return [0.0] * len(first)
    most = np.zeros((2, len(first)))
    for k, sign in enumerate((1.0, -1.0)):
        for move in _MOVES:
            most[k] = np.maximum(most[k], _apart(again(sign * move), first))
    return most.min(axis=0).tolist()


def _apart(found: list, first: list) -> list[float]:
    """The distance between results; none if they have different structures."""
    found = [array_of(one) for one in found]
    if [one.shape for one in found] != [one.shape for one in first]:
        return [0.0] * len(first)
    return [_distance(a, b) for a, b in zip(found, first, strict=True)]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    if a.dtype.kind != "f":
        return 0.0
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a[both] - b[both]), initial=0.0))


def moved(value, units: float):
    """Floats moved by some units in the last place, each by another number of them."""
    value = np.asarray(value)
    if value.dtype.kind != "f" or not units:
        return value
    draws = np.random.default_rng(0).random(value.shape)
    return (value * (1.0 + np.sign(value) * units * np.finfo(value.dtype).eps * draws)).astype(
        value.dtype
    )


def difference(a, b) -> str:
    """The difference between the result of an element by itself and that in a batch, in words."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        one, other = (f"{x.dtype} of shape {x.shape}" for x in (a, b))
        return f"by itself an element gives {one}, where it is recorded {other}"
    apart = np.abs(a - b) if a.dtype.kind == "f" else a != b
    place = np.unravel_index(np.argmax(apart), a.shape)
    return (
        f"by itself an element gives {a[place]}, in the batch {b[place]}: it depends on something "
        "else than its arguments, such as random numbers or state that changes between calls; pass "
        "that as an argument"
    )

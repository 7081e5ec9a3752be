"""Functions of several numbers: distances, exact sums, products."""

from __future__ import annotations

import functools
import math as _math
import operator

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.numpy_protocols import OF_NUMBERS
from .._core.operations.without_derivative import (
    multiplied_and_added,
    sum_of_floats,
    sum_of_products,
)
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import unlisted
from .._core.tensor.tensor_classes import Tensor
from .._core.tensor.trace import steered
from ._operands import are_plain, as_numbers, checked, standing_for


def _distance(numbers):
    """√Σx², nested; the derivative at 0 is 0."""
    if len(numbers) == 1:
        return OF_NUMBERS["absolute"](numbers[0])
    return functools.reduce(OF_NUMBERS["hypot"], numbers)


def _hypot(*coordinates):
    for x in coordinates:  # `are_plain`, without a call
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.hypot(*coordinates)
    found, recorded = as_numbers("hypot", coordinates)
    return rt.as_float(_distance(found)) if recorded else _math.hypot(*found)


def _items(numbers):
    """The elements of an iterable, as a list, since they are read twice; arrays unchanged."""
    return numbers if isinstance(numbers, (list, tuple, np.ndarray)) else list(numbers)


def _dist(p, q, /):
    p = p if type(p) is tuple else _items(p)
    q = q if type(q) is tuple else _items(q)
    for x in (*p, *q):
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    (first, one), (second, other) = as_numbers("dist", p), as_numbers("dist", q)
    if not one and not other:
        return _math.dist(first, second)
    return rt.as_float(_distance([*map(OF_NUMBERS["subtract"], first, second)]))


def _exactly(parts, value):
    """A value with the derivative of the sum of `parts`, whose own value may have rounded."""
    known = steered(np.array, parts)
    nothing = apply("subtract", parts, known)  # 0, and its derivative is 1
    moved = apply("where", steered(np.isfinite, parts), nothing, parts)
    with np.errstate(invalid="ignore"):  # of infinities
        total = PUBLIC["sum"](moved)
    return apply("add", total, value)


def _fsum(seq, /):
    if type(seq) is not list:
        seq = _items(seq)
    for x in seq:
        if type(x) is not float and isinstance(x, Tensor):
            break
    else:
        return _math.fsum(seq)
    numbers, recorded = as_numbers("fsum", seq)
    if not recorded:
        return _math.fsum(numbers)
    parts = unlisted(numbers)
    made = _exactly(parts, steered(sum_of_floats, parts))
    return checked("fsum", lambda *numbers: _math.fsum(numbers), made, numbers)


def _prod(iterable, /, *, start=1):
    items = iterable if type(iterable) is list else _items(iterable)
    if type(start) is int or not isinstance(start, Tensor):
        for x in items:
            if type(x) is not float and isinstance(x, Tensor):
                break
        else:
            return _math.prod(items, start=start)
    return functools.reduce(operator.mul, items, start)


hypot, dist = standing_for(_hypot, _math.hypot), standing_for(_dist, _math.dist)
fsum, prod = standing_for(_fsum, _math.fsum), standing_for(_prod, _math.prod)


def _sumprod(p, q, /):
    p, q = _items(p), _items(q)
    theirs = _math.sumprod
    if are_plain(p) and are_plain(q):
        return theirs(p, q)
    if len(p) != len(q):
        raise ValueError("Inputs are not the same length")
    (first, one), (second, other) = as_numbers("sumprod", p), as_numbers("sumprod", q)
    if not one and not other:
        return theirs(first, second)
    pair = [unlisted(first), unlisted(second)]
    return rt.as_float(_exactly(apply("multiply", *pair), steered(sum_of_products, *pair)))


def _fma(x, y, z, /):
    theirs = _math.fma
    if are_plain((x, y, z)):
        return theirs(x, y, z)
    given, recorded = as_numbers("fma", (x, y, z))
    if not recorded:
        return theirs(*given)
    parts = unlisted([apply("multiply", given[0], given[1]), given[2]])
    made = _exactly(parts, steered(multiplied_and_added, *given))
    return checked("fma", theirs, made, given)


#: Functions of Python from 3.12 and 3.13 on.
NEWER = {
    name: standing_for(ours, getattr(_math, name))
    for name, ours in (("sumprod", _sumprod), ("fma", _fma))
    if hasattr(_math, name)
}

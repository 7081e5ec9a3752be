"""SciPy's `ndimage` for recorded values: sums, means, extremes and the like of labelled parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_recorded
from .._core.tensor.trace import fixed, lost_derivative, named, steered, tensor_like
from .._core.tensor.values import dtype_of, is_complex, shape_of
from ._differentiable import OURS, root
from ._ndimage_filters import answer, floats, of_scipy, plain


class _Groups(NamedTuple):
    """For each element which of the labels it has, or how many labels there are; and counts.

    Labels may be those of another image in a program: numbers and counts are choices. `order` has
    the labels in the order of an index.
    """

    numbers: Any
    counts: Any
    order: np.ndarray


@named("ndimage.numbers")
def _numbers(labels, wanted, shape):
    labels = np.broadcast_to(labels, shape).ravel()
    places = np.minimum(np.searchsorted(wanted, labels), wanted.size - 1)
    return np.where(wanted[places] == labels, places, wanted.size)


@named("ndimage.counts")
def _counts(numbers, size):
    return np.bincount(numbers, minlength=size + 1)[:size].astype(float)


def _groups(shape, labels, index) -> _Groups:
    wanted, order = np.unique(index, return_inverse=True)
    if not wanted.size:
        return _Groups(np.zeros(math.prod(shape), np.intp), np.zeros(0), order)
    numbers = steered(_numbers, labels, wanted, shape=tuple(shape))
    counts = steered(_counts, numbers, size=wanted.size)
    return _Groups(numbers, counts, np.reshape(order, np.shape(index)))


def _in_order(values, groups: _Groups):
    """Values of labels in the order of the index."""
    return PUBLIC["take"](values, groups.order)


def _part(x, labels, index):
    """The elements of one group: all, those of positive labels, or those of a label."""
    if labels is None:
        return PUBLIC["reshape"](x, (-1,))
    labels = PUBLIC["broadcast_to"](labels, shape_of(x))
    return x[labels > 0 if index is None else labels == index]


def _sums(x, groups: _Groups):
    """The sums of groups, one after the other."""
    flat, size = PUBLIC["reshape"](x, (-1,)), shape_of(groups.counts)[0]
    return PUBLIC["bincount"](groups.numbers, weights=flat, minlength=size + 1)[:size]


def _like(made, image):
    """A result in the dtype of an image of floats."""
    dtype = dtype_of(image)
    return made.astype(dtype) if dtype == np.float32 else made


def _entered(of_part: Callable, is_element: bool = False):
    """A decorator: a function of groups, beside that of the elements of a single one.

    Results that are elements have the dtype of the image; so has the sum of one part.
    """

    def enter(of_groups):
        name = of_groups.__name__

        def function(input, labels=None, index=None):
            given = {"input": unlisted(input), "labels": labels, "index": index}
            if none_recorded(given.values()):
                return tensor_like(answer(name, given))
            x, labels, index = _operands(name, **given)
            if labels is None or index is None or np.isscalar(index):
                made = of_part(_part(x, labels, index))
                return _like(made, given["input"]) if is_element or name == "sum_labels" else made
            made = of_groups(x, labels, index) if index.size else np.zeros(index.shape)
            return _like(made, given["input"]) if is_element else made

        OURS[f"ndimage.{name}"] = function
        return function

    return enter


def _operands(name: str, input, labels, index):
    """An image of floats, labels and an index that are plain."""
    if is_complex(input):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: the image is complex; give its real and imaginary "
            "parts, z.real and z.imag, one after the other",
            input,
        )
    if not none_recorded((labels,)):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: labels is recorded, and the result has no derivative "
            "to it; give plain values, such as x.detach().numpy()",
            labels,
        )
    index = plain(name, "index", index)
    is_one = index is None or np.isscalar(index)
    return floats(input), unlisted(labels), index if is_one else np.asarray(index)


# --- sums -----------------------------------------------------------------------------------------


@_entered(lambda x: PUBLIC["sum"](x))
def sum_labels(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    return _in_order(_sums(x, groups), groups)


OURS["ndimage.sum"] = sum_labels


@_entered(lambda x: PUBLIC["sum"](x) / float(shape_of(x)[0]))
def mean(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    return _in_order(_sums(x, groups) / groups.counts, groups)  # 0 / 0 without elements, as SciPy


def _variance_of_one(x):
    count = float(shape_of(x)[0])
    return PUBLIC["sum"]((x - PUBLIC["sum"](x) / count) ** 2) / count


def _variances(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    means = _sums(x, groups) / steered(np.maximum, groups.counts, 1.0)
    means = PUBLIC["concatenate"]([means, np.zeros(1)])  # of elements of other labels
    squares = (PUBLIC["reshape"](x, (-1,)) - PUBLIC["take"](means, groups.numbers)) ** 2
    return _in_order(_sums(squares, groups) / groups.counts, groups)


@_entered(_variance_of_one)
def variance(x, labels, index):
    return _variances(x, labels, index)


@_entered(lambda x: root(_variance_of_one(x)))
def standard_deviation(x, labels, index):
    return root(_variances(x, labels, index))


def center_of_mass(input, labels=None, index=None):
    x, labels, index = _operands("center_of_mass", unlisted(input), labels, index)
    total = sum_labels(x, labels, index)
    grids = np.ogrid[tuple(slice(0, n) for n in shape_of(x))]
    found = [sum_labels(x * grid.astype(float), labels, index) / total for grid in grids]
    if not shape_of(found[0]):
        return tuple(found)
    table = PUBLIC["transpose"](PUBLIC["stack"](found))
    count, width = shape_of(table)[:2]
    return [tuple(table[k, j] for j in range(width)) for k in range(count)]


OURS["ndimage.center_of_mass"] = center_of_mass


# --- chosen elements ------------------------------------------------------------------------------


@named("ndimage.places")
def _places(x, labels, index, name):
    """Where the extremes of groups are; 0 for labels that no element has."""
    is_one = index is None or np.isscalar(index)
    found = np.array(of_scipy(name)(x, labels, index), dtype=np.intp)
    places = np.ravel_multi_index(tuple(np.reshape(found, (-1, x.ndim)).T), x.shape)
    return places[0] if is_one else np.reshape(places, index.shape)


def _extremes(name: str, x, labels, index):
    """The extremes of groups, 0 for labels that no element has."""
    places = steered(_places, x, labels, index, name=f"{name}_position")
    groups = _groups(shape_of(x), labels, index)
    values = PUBLIC["take"](PUBLIC["reshape"](x, (-1,)), places)
    return PUBLIC["where"](_in_order(groups.counts, groups) > 0.0, values, 0.0)


@_entered(lambda x: PUBLIC["min"](x), is_element=True)
def minimum(x, labels, index):
    return _extremes("minimum", x, labels, index)


@_entered(lambda x: PUBLIC["max"](x), is_element=True)
def maximum(x, labels, index):
    return _extremes("maximum", x, labels, index)


@_entered(lambda x: PUBLIC["median"](x), is_element=True)
def median(x, labels, index):
    groups, flat = _groups(shape_of(x), labels, index), PUBLIC["reshape"](x, (-1,))
    if fixed(steered(_lacks_one, groups.counts), "labels of ndimage.median()"):
        raise lost_derivative(
            "tapegrad.scipy.ndimage.median: no element has some labels of index, for which SciPy "
            "gives the least element of others; leave them out",
            x,
        )
    made = []
    for k in range(shape_of(groups.counts)[0]):
        places = steered(np.flatnonzero, steered(np.equal, groups.numbers, k))
        made.append(PUBLIC["median"](PUBLIC["take"](flat, places)))
    return _in_order(PUBLIC["stack"](made), groups)


@named("ndimage.lacks_one")
def _lacks_one(counts):
    return bool((counts == 0.0).any())


def _positions(name: str, x, labels, index):
    """Where the extremes of groups are, as SciPy says it: in indices of each axis."""
    places = steered(_places, x, labels, index, name=name)
    at = np.unravel_index(fixed(places, f"the result of ndimage.{name}()"), shape_of(x))
    is_one = index is None or np.isscalar(index)
    return tuple(at) if is_one else [*zip(*map(np.ravel, at), strict=True)]


def _of_positions(name: str) -> None:
    def function(input, labels=None, index=None):
        return _positions(name, *_operands(name, unlisted(input), labels, index))

    OURS[f"ndimage.{name}"] = function


for _name in ("minimum_position", "maximum_position"):
    _of_positions(_name)


def extrema(input, labels=None, index=None):
    x, labels, index = _operands("extrema", unlisted(input), labels, index)
    values, positions = [], []
    for name, function in (("minimum_position", minimum), ("maximum_position", maximum)):
        positions.append(_positions(name, x, labels, index))
        if index is None or np.isscalar(index):
            values.append(x[positions[-1]])
        else:
            values.append(function(x, labels, index))
    return (*(_like(one, unlisted(input)) for one in values), *positions)


OURS["ndimage.extrema"] = extrema

"""SciPy's `ndimage` for recorded values: sums, means, extremes and the like of labelled parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.complex_tensors import is_complex
from .._core.tensor.copies import unlisted
from .._core.tensor.recorded_arguments import none_recorded
from .._core.tensor.refused_derivatives import lost_derivative
from .._core.tensor.trace import fixed, named, steered, tensor_like
from .._core.tensor.values import dtype_of, shape_of
from ._differentiable import OURS
from ._ndimage_arguments import answer, floats, of_scipy, plain, root


class _Groups(NamedTuple):
    """For each element the number of its group, of so many, and the groups that are wanted.

    `wanted` is −1 for labels that no element has.
    """

    numbers: np.ndarray
    number: int
    wanted: np.ndarray


def _groups(shape, labels, index) -> _Groups:
    labels, index = np.broadcast_to(labels, shape).ravel(), np.asarray(index)
    present, numbers = np.unique(labels, return_inverse=True)
    if not present.size:
        return _Groups(numbers, 0, np.full(index.shape, -1))
    places = np.minimum(np.searchsorted(present, index), present.size - 1)
    wanted = np.where(present[places] == index, places, -1)
    return _Groups(np.reshape(numbers, -1), present.size, wanted)


def _part(x, labels, index):
    """The elements of one group: all, those of positive labels, or those of a label."""
    if labels is None:
        return PUBLIC["reshape"](x, (-1,))
    labels = np.broadcast_to(labels, shape_of(x))
    return x[labels > 0 if index is None else labels == index]


def _sums(x, groups: _Groups):
    """The sums of groups, one after the other."""
    flat = PUBLIC["reshape"](x, (-1,))
    return PUBLIC["bincount"](groups.numbers, weights=flat, minlength=groups.number)


def _wanted(values, groups: _Groups):
    """The values of the groups that are wanted, 0 where no element has the label."""
    found = groups.wanted >= 0
    if not found.any():
        return np.zeros(found.shape)
    return PUBLIC["where"](found, PUBLIC["take"](values, np.maximum(groups.wanted, 0)), 0.0)


def _counts(groups: _Groups) -> np.ndarray:
    return np.bincount(groups.numbers, minlength=groups.number).astype(float)


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
            made = of_groups(x, labels, index)
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
    labels, index = plain(name, "labels", labels), plain(name, "index", index)
    labels = labels if labels is None else np.asarray(labels)
    return (
        floats(input),
        labels,
        index if index is None or np.isscalar(index) else (np.asarray(index)),
    )


# --- sums -----------------------------------------------------------------------------------------


@_entered(lambda x: PUBLIC["sum"](x))
def sum_labels(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    return _wanted(_sums(x, groups), groups)


OURS["ndimage.sum"] = sum_labels


def _over(sums, groups: _Groups):
    """Sums over the counts of elements: 0 / 0 where there are none, as in SciPy."""
    found = groups.wanted >= 0
    counts = np.where(found, _counts(groups)[np.maximum(groups.wanted, 0)], 0.0)
    return sums / counts


@_entered(lambda x: PUBLIC["sum"](x) / float(shape_of(x)[0]))
def mean(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    return _over(_wanted(_sums(x, groups), groups), groups)


def _variance_of_one(x):
    count = float(shape_of(x)[0])
    return PUBLIC["sum"]((x - PUBLIC["sum"](x) / count) ** 2) / count


def _variances(x, labels, index):
    groups = _groups(shape_of(x), labels, index)
    means = _sums(x, groups) / _counts(groups)
    squares = (PUBLIC["reshape"](x, (-1,)) - PUBLIC["take"](means, groups.numbers)) ** 2
    return _over(_wanted(_sums(squares, groups), groups), groups)


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
    return [tuple(one[k] for one in found) for k in range(shape_of(found[0])[0])]


OURS["ndimage.center_of_mass"] = center_of_mass


# --- chosen elements ------------------------------------------------------------------------------


@named("ndimage.places")
def _places(x, labels, index, name):
    """Where the extremes of groups are; 0 for labels that no element has."""
    found = np.array(of_scipy(name)(x, labels, index), dtype=np.intp)
    found = np.ravel_multi_index(tuple(np.moveaxis(found, -1, 0)), x.shape)
    return found if index is None or np.isscalar(index) else np.reshape(found, index.shape)


def _extremes(name: str, x, labels, index):
    """The extremes of groups, 0 for labels that no element has; and where they are."""
    places = steered(_places, x, labels, index, name=f"{name}_position")
    found = _groups(shape_of(x), labels, index).wanted >= 0
    values = PUBLIC["take"](PUBLIC["reshape"](x, (-1,)), places)
    return PUBLIC["where"](found, values, 0.0), places


@_entered(lambda x: PUBLIC["min"](x), is_element=True)
def minimum(x, labels, index):
    return _extremes("minimum", x, labels, index)[0]


@_entered(lambda x: PUBLIC["max"](x), is_element=True)
def maximum(x, labels, index):
    return _extremes("maximum", x, labels, index)[0]


@_entered(lambda x: PUBLIC["median"](x), is_element=True)
def median(x, labels, index):
    groups, flat = _groups(shape_of(x), labels, index), PUBLIC["reshape"](x, (-1,))
    if (groups.wanted < 0).any():
        raise lost_derivative(
            "tapegrad.scipy.ndimage.median: no element has some labels of index, for which SciPy "
            "gives the least element of others; leave them out",
            x,
        )
    found = {
        k: PUBLIC["median"](PUBLIC["take"](flat, np.flatnonzero(groups.numbers == k)))
        for k in np.unique(groups.wanted).tolist()
    }
    made = PUBLIC["stack"]([found[k] for k in groups.wanted.ravel().tolist()])
    return PUBLIC["reshape"](made, groups.wanted.shape)


def extrema(input, labels=None, index=None):
    x, labels, index = _operands("extrema", unlisted(input), labels, index)
    values, positions, shape = [], [], shape_of(x)
    for name in ("minimum", "maximum"):
        places = steered(_places, x, labels, index, name=f"{name}_position")
        at = np.unravel_index(fixed(places, "positions of ndimage.extrema()"), shape)
        if not np.ndim(at[0]):
            positions.append(tuple(at))
            values.append(PUBLIC["take"](PUBLIC["reshape"](x, (-1,)), places))
        else:
            positions.append([*zip(*map(np.ravel, at), strict=True)])
            values.append(_extremes(name, x, labels, index)[0])
    return (*(_like(one, unlisted(input)) for one in values), *positions)


OURS["ndimage.extrema"] = extrema

"""SciPy's `ndimage` for recorded values: filters that choose an element of each window.

What is chosen depends on the order of the elements alone. So SciPy's filter of their ranks gives
the rank of the chosen one, and no other code looks for it.
"""

from __future__ import annotations

import inspect

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.refused_derivatives import lost_derivative
from .._core.tensor.trace import named, steered
from ._ndimage_arguments import entered, of_scipy

_SELECTIONS = (
    "minimum_filter1d maximum_filter1d minimum_filter maximum_filter median_filter rank_filter "
    "percentile_filter grey_erosion grey_dilation grey_opening grey_closing"
).split()


@named("ndimage.chosen")
def _chosen(x, cval, footprint, name, options):
    """Where the chosen elements are among all, of which `cval` is the last; equal ones by place."""
    every = np.append(x, cval)
    order = np.argsort(every, kind="stable")
    if np.isnan(x).any():
        raise ValueError(
            f"tapegrad.scipy.ndimage.{name}: the image contains NaN, which has no place in the "
            "order of its elements; replace it, as by np.where(np.isnan(x), 0.0, x)"
        )
    ranks = np.empty(every.size)
    ranks[order] = np.arange(every.size)
    given = {} if footprint is None else {"footprint": footprint}
    found = of_scipy(name)(np.reshape(ranks[:-1], x.shape), cval=ranks[-1], **given, **options)
    return order[found.astype(np.intp)]


def _selected(name: str, x, cval, footprint, **options):
    """The elements of an image that a filter chooses."""
    if options.get("structure") is not None:
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: structure has no derivative here; give size or "
            "footprint, or compute with maximum_filter of shifted images",
            x,
        )
    cval = unlisted(cval)
    places = steered(_chosen, x, cval, footprint, name=name, options=options)
    every = [PUBLIC["reshape"](x, (-1,)), PUBLIC["reshape"](cval, (1,))]
    return PUBLIC["take"](PUBLIC["concatenate"](every), places)


def _enter(name: str, function) -> None:
    """Let a function have SciPy's name and arguments."""
    function.__name__, function.__signature__ = name, inspect.signature(of_scipy(name))
    entered("cval")(function)


def _by_ranks(name: str) -> None:
    def function(input, output, cval, footprint=None, **options):
        return _selected(name, input, cval, footprint, **options)

    _enter(name, function)


for _name in _SELECTIONS:
    _by_ranks(_name)


# --- differences of them --------------------------------------------------------------------------


def _of_both(name: str, parts: tuple, combine) -> None:
    """A function of the image and of what some filters choose."""

    def function(input, output, cval, footprint=None, **options):
        made = [_selected(part, input, cval, footprint, **options) for part in parts]
        return combine(input, *made)

    _enter(name, function)


_of_both(
    "morphological_gradient", ("grey_dilation", "grey_erosion"), lambda x, high, low: high - low
)
_of_both(
    "morphological_laplace",
    ("grey_dilation", "grey_erosion"),
    lambda x, high, low: high + low - x - x,
)
_of_both("white_tophat", ("grey_opening",), lambda x, opened: x - opened)
_of_both("black_tophat", ("grey_closing",), lambda x, closed: closed - x)

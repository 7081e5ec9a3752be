"""SciPy's `ndimage` for recorded values: filters that choose an element of each window.

What is chosen depends on the order of the elements alone. So SciPy's filter of their ranks gives
the rank of the chosen one, and no other code looks for it.
"""

from __future__ import annotations

import inspect

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.image_filters import ends_of, sources
from .._core.tensor.trace import lost_derivative, named, steered
from .._core.tensor.values import shape_of
from ._ndimage_arguments import each, entered, like, number_of, of_scipy

_SELECTIONS = (
    "minimum_filter1d maximum_filter1d minimum_filter maximum_filter median_filter rank_filter "
    "percentile_filter grey_erosion grey_dilation grey_opening grey_closing"
).split()


@named("ndimage.chosen")
def _chosen(x, cval, footprint, name, options):
    """Where the chosen elements are among all, of which `cval` is the last; equal ones by place."""
    every = np.append(x, cval)
    order = np.argsort(every, kind="stable")
    is_read = "constant" in str(options["mode"])
    if np.isnan(x).any() or (is_read and np.isnan(cval)):
        raise ValueError(
            f"tapegrad.scipy.ndimage.{name}: the image or cval contains NaN, which has no place "
            "in the order of elements; replace it, as by np.where(np.isnan(x), 0.0, x)"
        )
    ranks = np.empty(every.size)
    ranks[order] = np.arange(every.size)
    given = {} if footprint is None else {"footprint": footprint}
    found = of_scipy(name)(np.reshape(ranks[:-1], x.shape), cval=ranks[-1], **given, **options)
    return order[found.astype(np.intp)]


def _selected(name: str, x, cval, footprint, **options):
    """The elements of an image that a filter chooses."""
    cval = like(cval, x)
    if options.get("structure") is not None:
        return _by_structure(name, x, cval, footprint, **options)
    places = steered(_chosen, x, cval, footprint, name=name, options=options)
    every = [PUBLIC["reshape"](x, (-1,)), PUBLIC["reshape"](cval, (1,))]
    return PUBLIC["take"](PUBLIC["concatenate"](every), places)


def _enter(name: str, function) -> None:
    """Let a function have SciPy's name and arguments."""
    function.__name__, function.__signature__ = name, inspect.signature(of_scipy(name))
    entered("cval", "structure")(function)


def _by_ranks(name: str) -> None:
    def function(input, output, cval, footprint=None, **options):
        return _selected(name, input, cval, footprint, **options)

    _enter(name, function)


for _name in _SELECTIONS:
    _by_ranks(_name)


# --- images that are not flat ---------------------------------------------------------------------


def _extended(x, cval, ends: list, mode: str):
    """An image with elements beyond its ends, so many before and after along each axis."""
    for axis, (before, after) in enumerate(ends):
        places = sources(shape_of(x)[axis], before, after, number_of(mode))
        lines = PUBLIC["moveaxis"](x, axis, -1)
        if (places < 0).any():
            beyond = PUBLIC["broadcast_to"](cval, (*shape_of(lines)[:-1], 1))
            lines = PUBLIC["concatenate"]([lines, beyond], axis=-1)
        x = PUBLIC["moveaxis"](PUBLIC["take"](lines, places, axis=-1), -1, axis)
    return x


def _of_window(x, cval, window: tuple, options: tuple, is_least: bool):
    """The greatest sum, or the least difference, of windows of an image and a structure."""
    structure, footprint = window
    mode, origins = options
    ends = [ends_of(n, one) for n, one in zip(footprint.shape, origins, strict=True)]
    if any(min(pair) < 0 for pair in ends):
        raise ValueError("invalid origin")
    wide = _extended(x, cval, ends, mode)
    parts = []
    for at in np.argwhere(footprint).tolist():
        slices = (slice(k, k + n) for k, n in zip(at, shape_of(x), strict=True))
        part, one = wide[tuple(slices)], structure[tuple(at)]
        parts.append(part - one if is_least else part + one)
    return PUBLIC["min" if is_least else "max"](PUBLIC["stack"](parts), axis=0)


def _by_structure(name: str, x, cval, footprint, *, size, structure, mode, origin, axes=None):
    """Erosion, dilation, or one after the other, by an image."""
    structure, ndim = like(structure, x), len(shape_of(x))
    if len(shape_of(structure)) != ndim:
        raise RuntimeError("structure array has incorrect shape")
    if axes is not None or not isinstance(mode, str):
        raise lost_derivative(
            f"tapegrad.scipy.ndimage.{name}: axes and several modes have no derivative together "
            "with structure here; give a structure of all axes, and one mode",
            (x, structure),
        )
    if footprint is None:
        footprint = np.ones(shape_of(structure), bool)
    footprint = np.asarray(footprint, bool)
    if footprint.shape != shape_of(structure):
        raise RuntimeError("structure array has incorrect shape")
    origin, turned = each(origin, ndim), (slice(None, None, -1),) * ndim
    opposite = [-one - (n % 2 == 0) for one, n in zip(origin, footprint.shape, strict=True)]
    steps = {
        "grey_erosion": ((structure, footprint), (mode, origin), True),
        "grey_dilation": ((structure[turned], footprint[turned]), (mode, opposite), False),
    }
    order = {"grey_opening": (*steps,), "grey_closing": (*steps,)[::-1]}
    for step in order.get(name, (name,)):
        x = _of_window(x, cval, *steps[step])
    return x


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

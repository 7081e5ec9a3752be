"""SciPy's `interp1d` for recorded values, in all its kinds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import steered
from .._core.tensor.values import is_tensor, shape_of
from . import _interpolators as shared
from ._basis_splines import spline_at
from ._interpolators import columns, flat, floats, holds, theirs
from ._piecewise import evaluated
from ._splines_of_data import make_interp_spline

_SPLINES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
_STEPS = ("nearest", "nearest-up", "previous", "next")


def _order(x) -> np.ndarray:
    return np.argsort(x, kind="mergesort")


def _edges(x, kind: str):
    """The numbers between positions, by which points are placed."""
    if kind in ("nearest", "nearest-up"):
        middle = x / 2.0
        return middle[1:] + middle[:-1]
    return np.nextafter(x, -np.inf if kind == "previous" else np.inf)


def _place(edges, points, kind: str, last: int) -> Any:
    """For each point the number of the position whose value it gets."""
    side: Any = "left" if kind in ("nearest", "previous") else "right"
    found = np.searchsorted(edges, points, side=side)
    return found.clip(1, last + 1) - 1 if kind == "previous" else found.clip(0, last)


def _is_extrapolated(fill_value) -> bool:
    return isinstance(fill_value, str) and fill_value == "extrapolate"


@shared.stands_for(theirs.interp1d)
class interp1d(shared.Interpolator, theirs.interp1d):  # noqa: N801
    def __init__(
        self,
        x,
        y,
        kind="linear",
        axis=-1,
        copy=True,
        bounds_error=None,
        fill_value=np.nan,
        assume_sorted=False,
    ):
        if none_traced((x, y, fill_value)):
            options = (kind, axis, copy, bounds_error, fill_value, assume_sorted)
            super().__init__(x, y, *options)
            return
        kinds = shared.kind_of_floats(x), shared.kind_of_floats(y)
        x, y = floats("interp1d", "x", x), floats("interp1d", "y", y)
        known = kind in (*_SPLINES, *_STEPS, "linear") or isinstance(kind, int)
        if not known:
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        if len(shape_of(x)) != 1:
            raise ValueError("the x array must have exactly one dimension.")
        if not shape_of(y):
            raise ValueError("the y array must have at least one dimension.")
        axis = axis % len(shape_of(y))
        if shape_of(x)[0] != shape_of(y)[axis]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        rows = PUBLIC["moveaxis"](y, axis, 0)
        if not assume_sorted:
            order = steered(_order, x)
            x, rows = (PUBLIC["take"](one, order, axis=0) for one in (x, rows))
        self._prepare(x, rows, kind, axis, (bounds_error, fill_value))
        self._held["_kinds"] = kinds

    def _prepare(self, x, rows, kind, axis: int, ends) -> None:
        """Hold the data, values with the axis of interpolation first, and what follows of them."""
        bounds_error, fill_value = ends
        extra = shape_of(rows)[1:]
        degree = _SPLINES.get(kind, kind if isinstance(kind, int) else None)
        least = 1 if degree is None else degree + 1
        if shape_of(x)[0] < least:
            raise ValueError(f"x and y arrays must have at least {least} entries")
        held = self._held = dict(x=x, axis=axis, _y=columns(rows), _y_axis=axis)
        held |= dict(y=PUBLIC["moveaxis"](rows, 0, axis), _y_extra_shape=extra)
        held |= dict(_kind=kind if degree is None else "spline", _spline=None)
        if degree is not None:
            held["_spline"] = make_interp_spline(x, held["_y"], k=degree, check_finite=False)
        if _is_extrapolated(fill_value):
            if bounds_error:
                raise ValueError("Cannot extrapolate and raise at the same time.")
            if kind in ("previous", "next"):
                end = rows[-1] if kind == "previous" else rows[0]
                pair = (np.nan, end) if kind == "previous" else (end, np.nan)
                held |= _filled(pair, extra)
            held |= dict(bounds_error=False, _extrapolate=kind not in ("previous", "next"))
        else:
            held |= _filled(fill_value, extra)
            is_strict = bounds_error is None or bounds_error
            held |= dict(bounds_error=is_strict, _extrapolate=False)
        held["_fill_value_orig"] = fill_value

    def _of_plain(self, **held):
        fill = "extrapolate" if held["_extrapolate"] else held["_fill_value_orig"]
        kind = held["_kind"] if held["_spline"] is None else held["_spline"].k
        strict, axis = held["bounds_error"], held["axis"]
        return theirs.interp1d(
            held["x"], held["y"], kind, axis, bounds_error=strict, fill_value=fill
        )

    def _held_data(self) -> tuple:
        if self._held is None:
            return ()
        names = ("x", "_y", "_fill_value_below", "_fill_value_above")
        return tuple(self._held.get(name) for name in names)

    def __call__(self, x):
        if self._is_plain(x):
            return self._plainly("__call__", x)
        points, dtype = floats("interp1d", "x", x), self._kind_at(x)
        out = shared.in_kind(self._filled_at(flat(points)), dtype)
        extra = tuple(self._y_extra_shape)
        axis = self._y_axis if shape_of(points) else 0
        return shared.with_points(out, shape_of(points), extra, axis)

    def _kind_at(self, points):
        """The dtype of values at points."""
        if self._held is not None:
            x, y = self._held["_kinds"]
        else:
            x, y = shared.kind_of_floats(self.x), shared.kind_of_floats(self.y)
        if self._kind == "spline":
            return np.dtype(np.float64)
        return y if self._kind in _STEPS else np.result_type(x, y, shared.kind_of_floats(points))

    def _filled_at(self, points):
        """The values of shape (points, others), those outside of the positions filled."""
        out = self._inside(points)
        if self._extrapolate:
            return out
        low, high = points < self.x[0], points > self.x[-1]
        if self.bounds_error:
            for what, side in ((low, "below"), (high, "above")):
                if not holds("the bounds of interp1d", _are_none, what):
                    raise ValueError(f"A value in x_new is {side} the interpolation range.")
        below, above = self._fill_value_below, self._fill_value_above
        where = PUBLIC["where"]
        return where(low[:, None], below, where(high[:, None], above, out))

    def _inside(self, points):
        x, y = floats("interp1d", "x", self.x), floats("interp1d", "y", self._values())
        kind = self._kind
        if kind in _STEPS:
            if self._held is not None:
                edges = steered(_edges, x, kind)
            else:
                edges = self.x_bds if kind.startswith("nearest") else self._x_shift
            place = steered(_place, edges, points, kind, shape_of(x)[0] - 1)
            return PUBLIC["take"](y, place, axis=0)
        if kind == "linear":
            if shape_of(x)[0] == 1:
                return PUBLIC["broadcast_to"](y, (shape_of(points)[0], shape_of(y)[1]))
            lines = PUBLIC["diff"](y, axis=0) / PUBLIC["diff"](x)[:, None]
            return evaluated(PUBLIC["stack"]([lines, y[:-1]]), x, points, 0, True)
        t, c, k = self._spline.tck
        found = spline_at(t, columns(c), k, points, 0, True)
        return found * np.nan if self._calls("_call_nan_spline") else found

    def _values(self):
        """The values at the positions, in the attribute that SciPy's object of plain data reads."""
        return columns(self.y) if self._calls("_call_linear_np") else self._y

    def _calls(self, name: str) -> bool:
        """Whether SciPy's object of plain data computes by one of its methods."""
        return self._held is None and self._call is getattr(theirs.interp1d, name)


def _are_none(mask) -> bool:
    return not mask.any()


def _filled(fill_value, extra: tuple) -> dict:
    """The values below and above all positions, in one row each or one number."""
    pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else None
    found = {}
    for name, one in zip(("below", "above"), pair or (fill_value,) * 2, strict=True):
        one = floats("interp1d", "fill_value", one)
        shape = extra or (1,)
        if np.broadcast_shapes(shape_of(one), shape) != shape:
            raise ValueError(
                f"fill_value argument must be able to broadcast up to shape {shape} but had shape "
                f"{shape_of(one)}"
            )
        wide = PUBLIC["broadcast_to"](one, shape) if is_tensor(one) else np.broadcast_to(one, shape)
        found[f"_fill_value_{name}"] = PUBLIC["reshape"](wide, (1, math.prod(shape)))
    return found


_NAMES = ("x", "y", "_y", "axis", "_y_axis", "_y_extra_shape", "_kind", "_spline", "_extrapolate")
for _name in (*_NAMES, "bounds_error", "_fill_value_below", "_fill_value_above"):
    setattr(interp1d, _name, shared.field(theirs.interp1d, _name))

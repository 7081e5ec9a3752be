"""SciPy's splines of curves for recorded values: `splprep`, `make_splrep`, `make_splprep`."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import shape_of
from . import _interpolators as shared
from ._fitpack import SMOOTH
from ._interpolators import entered, floats, refused
from ._splines_of_data import make_interp_spline


def _exact(name: str, s, *others) -> None:
    """Refuse a spline that does not go through all points."""
    if not none_traced((s,)) or s != 0:
        raise refused(name, SMOOTH, *others)


def _along(points):
    """Parameters of points, rows of an array: the lengths of the lines between them, up to 1."""
    steps = PUBLIC["diff"](points, axis=0)
    lengths = PUBLIC["cumsum"](PUBLIC["sqrt"](PUBLIC["sum"](steps * steps, axis=1)))
    return np.concatenate([np.zeros(1), lengths / lengths[-1]])


def _rows(name: str, x):
    """Coordinates, each in a row, as points in rows."""
    return PUBLIC["transpose"](PUBLIC["stack"]([floats(name, "x", one) for one in x]))


@entered
def splprep(
    x, w=None, u=None, ub=None, ue=None, k=3, task=0, s=None, t=None, full_output=0, nest=None,
    per=0, quiet=1,
):  # fmt: skip
    points = _rows("splprep", x)
    if task or t is not None or full_output or per:
        why = "task, t, full_output and per have no derivative here; leave them out"
        raise refused("splprep", why, x, u)
    _exact("splprep", s, x, u)
    if not 1 <= k <= 5:
        raise TypeError(f"1 <= k= {k} <=5 must hold")
    if shape_of(points)[0] <= k:
        raise TypeError("m > k must hold")
    if not (none_traced((ub, ue)) and ub is None and ue is None):
        raise refused("splprep", "ub and ue have no derivative here; leave them out", x, u)
    u = _along(points) if u is None else floats("splprep", "u", u)
    made = make_interp_spline(u, points, k)
    count = shape_of(points)[1]
    return [made.t, [made.c[:, d] for d in range(count)], k], u


@shared.making
def make_splrep(x, y, *, w=None, xb=None, xe=None, k=3, s=0, t=None, nest=None, bc_type=None):
    _exact("make_splrep", s, x, y, w)
    if t is not None or w is not None or nest is not None:
        raise ValueError("s==0 is for interpolation only")
    return make_interp_spline(x, y, k, bc_type=bc_type)


@shared.making
def make_splprep(x, *, w=None, u=None, ub=None, ue=None, k=3, s=0, t=None, nest=None, bc_type=None):
    _exact("make_splprep", s, x, u, w)
    if t is not None or w is not None or nest is not None:
        raise ValueError("s==0 is for interpolation only")
    points = _rows("make_splprep", x)
    u = _along(points) if u is None else floats("make_splprep", "u", u)
    return make_interp_spline(u, PUBLIC["transpose"](points), k, axis=1), u

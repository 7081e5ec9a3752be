"""`scipy.integrate.solve_bvp` for recorded values.

SciPy's solution satisfies the equations of collocation on the mesh that it has chosen [1]_, and the
boundary conditions. They are what the derivative is of; the mesh is held constant, but for its
ends.

.. [1] J. Kierzenka, L. F. Shampine, "A BVP Solver Based on Residual Control and the MATLAB PSE",
   ACM Transactions on Mathematical Software 27 (2001), 299-316.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.values import array_of, is_tensor, shape_of
from .._implicit.linear import JacobianPattern
from .._implicit.solution import Solved
from ._optimize_calls import Given, Solver, let_solve

_NAME = "integrate.solve_bvp"


class BoundaryProblem:
    """The equations of a call: of its arguments by name, which may be recorded.

    The unknowns are the states at the nodes of the mesh, a row for each component, and the
    parameters. `places` are those of the nodes, from 0 to 1 between the ends.
    """

    def __init__(self, given: Given):
        self._given = given
        self.count = len(given["y"])
        self.parameters = 0 if given["p"] is None else len(given["p"])
        singular = given["S"]
        if not none_traced((singular,)):
            raise TypeError(_SINGULAR_TERM.format(_NAME))
        self._singular = None if singular is None else np.asarray(singular, dtype=float)

    def mesh(self, places):
        """The nodes."""
        ends = unlisted(self._given["x"])
        return ends[0] + (ends[-1] - ends[0]) * places

    def split(self, z) -> tuple[Any, tuple]:
        """The states, and the parameters as further arguments of the user's functions."""
        at = shape_of(z)[0] - self.parameters
        rest = (z[at:],) if self.parameters else ()
        return PUBLIC["reshape"](z[:at], (self.count, -1)), rest

    def slopes(self, x, y, rest: tuple):
        """What the user's function and the singular term give at nodes."""
        f = unlisted(self._given["fun"](x, y, *rest))
        if self._singular is None:
            return f
        S, distances = self._singular, x - unlisted(self._given["x"])[0]
        if array_of(distances)[0]:
            return f + S @ y / distances
        first = np.linalg.pinv(np.identity(self.count) - S) @ f[:, :1]
        return PUBLIC["concatenate"]([first, f[:, 1:] + S @ y[:, 1:] / distances[1:]], axis=1)

    def equations(self, z, places):
        """What is 0 at the solution: a row of each component for the intervals, then the ends."""
        y, rest = self.split(z)
        x = self.mesh(places)
        h = x[1:] - x[:-1]
        f = self.slopes(x, y, rest)
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
        between = self.slopes(x[:-1] + 0.5 * h, middle, rest)
        steps = y[:, 1:] - y[:, :-1] - h / 6.0 * (f[:, :-1] + f[:, 1:] + 4.0 * between)
        ends = unlisted(self._given["bc"](y[:, 0], y[:, -1], *rest))
        parts = [PUBLIC["reshape"](one, (-1,)) for one in (steps, ends)]
        return PUBLIC["concatenate"](parts)


def _pattern(given: Given, aux) -> JacobianPattern:
    (places,) = aux
    count = 0 if given["p"] is None else len(given["p"])
    return _pattern_of(len(given["y"]), len(places), count)


@functools.lru_cache(16)
def _pattern_of(n: int, m: int, k: int) -> JacobianPattern:
    """An interval depends on the states at both of its ends, the conditions on those at both ends.

    So the columns of every other node have no row in common, and those of the ends are groups of
    their own.
    """
    interval, row, column = np.indices((m - 1, n, n)).reshape(3, -1)
    rows = [row * (m - 1) + interval] * 2
    columns = [column * m + interval, column * m + interval + 1]
    conditions, every = np.arange(n * (m - 1), n * m + k), np.arange(n * m + k)
    ends = np.concatenate([np.arange(n) * m, np.arange(n) * m + m - 1])
    for some, reached in ((conditions, ends), (every, np.arange(n * m, n * m + k))):
        rows.append(np.repeat(some, len(reached)))
        columns.append(np.tile(reached, len(some)))
    component, node = np.indices((n, m)).reshape(2, -1)
    kind = np.where(node == 0, 2, np.where(node == m - 1, 3, node % 2))
    groups = np.concatenate([kind * n + component, 4 * n + np.arange(k)])
    return JacobianPattern(np.concatenate(rows), np.concatenate(columns), groups)


def _equations(given: Given):
    return BoundaryProblem(given).equations


def _read(given: Given, result) -> Solved:
    x = result.x
    parameters = np.zeros(0) if result.p is None else result.p
    places = (x - x[0]) / (x[-1] - x[0])
    z = np.concatenate([np.ravel(result.y), parameters])
    return Solved(z, (places,))


def _finish(given: Given, result, z):
    """The result with the states, the slopes, the parameters and the function between nodes."""
    made, x = BoundaryProblem(given), result["x"]
    y, rest = made.split(z)
    if not none_traced((given["x"],)):
        first, last = x[0], x[-1]
        x = made.mesh((x - first) / (last - first))
    slopes = made.slopes(x, y, rest)
    if not is_tensor(slopes):
        slopes = np.asarray(slopes, dtype=float)
    sol = _splines().CubicHermiteSpline(x, y, slopes, axis=1)
    sol.is_followed = True
    result.update(x=x, y=y, p=rest[0] if rest else None, yp=slopes, sol=sol)
    return result


@functools.cache
def _splines():
    """The module of splines, which loads SciPy's."""
    return importlib.import_module("tapegrad.scipy._interpolate_polynomials")


let_solve(Solver(_NAME, _equations, _read, _finish, _pattern))

_SINGULAR_TERM = (
    "tapegrad.scipy.{}: S is a recorded value, which has no derivative here; write the term "
    "S y / (x − a) in fun, with a mesh that begins after a"
)

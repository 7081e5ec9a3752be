"""SciPy's least squares for recorded values: fits of functions, of curves, with bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.pytree import stop_gradient
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of
from .._derivatives.inputs import Inputs
from .._implicit.solution import Solved
from .._transforms.gradients import elementwise_grad
from .._transforms.jacobians import columns_of
from ._differentiable import as_array
from ._optimize_calls import Given, arguments, in_field, solver
from ._optimize_conditions import FLAT, Conditions, Constraint, sides

#: The costs of squares that are scaled, by names of SciPy's losses.
_LOSSES: dict[str, Callable] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * ((1.0 + z) ** 0.5 - 1.0),
    "huber": lambda z: np.where(z <= 1.0, z, 2.0 * np.where(z <= 1.0, 1.0, z) ** 0.5 - 1.0),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}


def _loss(loss) -> Callable:
    """The cost of scaled squares; a function of the user's gives its derivatives, too."""
    return (lambda z: loss(z)[0]) if callable(loss) else _LOSSES[loss]


class _Squares:
    """A sum of squares of residuals, of which a loss is taken."""

    def __init__(self, residuals: Callable, loss="linear", scale=1.0):
        self.residuals, self._loss, self._scale = residuals, loss, scale

    def of(self, r):
        """Half the sum for some residuals."""
        if self._loss == "linear":
            return 0.5 * np.sum(r**2)
        return 0.5 * np.sum(self._scale**2 * _loss(self._loss)((r / self._scale) ** 2))

    def cost(self, x):
        return self.of(self.residuals(x))

    def jacobian(self, x):
        """∂r/∂x, by forward mode, scaled as SciPy does for a loss."""
        with rt.recording():
            inputs = Inputs("jacobian", (x,), 0)
            out = self.residuals(inputs.args[0])
            is_nested = is_recorded(x) or rt.is_nested()
            ((matrix,),) = columns_of([out], inputs, is_nested)
        if self._loss == "linear":
            return matrix
        r, loss = self.residuals(x), _loss(self._loss)
        z = (r / self._scale) ** 2
        first = elementwise_grad(loss)
        second = elementwise_grad(first)(z) / self._scale**2
        factor = first(z) + 2.0 * second * r**2
        factor = np.where(factor < _EPS, _EPS, factor) ** 0.5
        return PUBLIC["reshape"](factor, (-1, 1)) * matrix


_EPS = np.finfo(float).eps


def _residuals(f: Callable, rest: tuple, named: dict | None = None) -> Callable:
    return lambda x: PUBLIC["reshape"](as_array(f(x, *rest, **(named or {}))), (-1,))


def _anchored(value, ours):
    """SciPy's value, with the derivative of ours."""
    return value + (ours - stop_gradient(ours))


# --- least_squares, leastsq -----------------------------------------------------------------------


def _bounds(bounds):
    """Bounds of `least_squares` as those of `minimize`; None if there are none."""
    if hasattr(bounds, "lb"):
        return bounds
    lower, upper = map(as_array, bounds)
    if np.isinf(lower).all() and np.isinf(upper).all():  # a program checks it again
        return None
    return _Limits(lower, upper)


class _Limits:
    def __init__(self, lb, ub):
        self.lb, self.ub = lb, ub


def _squares(given: Given) -> _Squares:
    f = _residuals(given["fun"], tuple(given["args"]), given["kwargs"])
    return _Squares(f, given["loss"], given["f_scale"])


def _conditions(given: Given) -> Conditions:
    return Conditions(_squares(given).cost, _bounds(given["bounds"]))


def _read_squares(given: Given, result) -> Solved:
    x, aux = _conditions(given).solved(result.x, lambda: result.grad, given["gtol"] or FLAT)
    return Solved(x, aux)


def _finish_squares(given: Given, result, x):
    result["x"] = x
    if is_tensor(x) and is_recorded(x):
        squares = _squares(given)
        result["fun"] = r = squares.residuals(x)
        result["cost"] = squares.of(r)
    return result


solver(
    "least_squares",
    lambda given: _conditions(given).equations,
    _read_squares,
    _finish_squares,
)


def _of_leastsq(given: Given) -> _Squares:
    return _Squares(_residuals(given["func"], arguments(given["args"])))


def _finish_leastsq(given: Given, result, x):
    covariance = result[1]
    if len(result) > 2 and covariance is not None and is_recorded(x):
        covariance = _anchored(covariance, _covariance(_of_leastsq(given).jacobian(x)))
        result = (x, covariance, *result[2:])
    return (x, *result[1:])


def _covariance(matrix):
    return np.linalg.inv(PUBLIC["transpose"](matrix) @ matrix)


solver(
    "leastsq",
    lambda given: Conditions(_of_leastsq(given).cost).equations,
    lambda given, result: Solved(np.asarray(result[0], float)),
    _finish_leastsq,
)


# --- curve_fit ------------------------------------------------------------------------------------


def _fitted(given: Given) -> _Squares:
    """The weighted residuals of a curve."""
    f, x, y, sigma = (given[name] for name in ("f", "xdata", "ydata", "sigma"))
    x = as_array(x) if isinstance(x, (list, tuple)) else x
    y, named = as_array(y), given.get("kwargs", {})
    sigma = None if sigma is None else as_array(sigma)

    def residuals(p):
        r = as_array(f(x, *[p[k] for k in range(shape_of(p)[0])])) - y
        if sigma is None:
            return PUBLIC["reshape"](r, (-1,))
        if len(shape_of(sigma)) == 2:
            return np.linalg.solve(np.linalg.cholesky(sigma), r)
        return PUBLIC["reshape"](r / sigma, (-1,))

    return _Squares(residuals, named.get("loss", "linear"), named.get("f_scale", 1.0))


def _conditions_of_fit(given: Given) -> Conditions:
    if given["nan_policy"] == "omit":
        raise TypeError(
            "tapegrad.scipy.optimize.curve_fit: nan_policy='omit' has no derivative; leave the "
            "data that are NaN out"
        )
    return Conditions(_fitted(given).cost, _bounds(given["bounds"]))


def _read_fit(given: Given, result) -> Solved:
    conditions = _conditions_of_fit(given)
    return Solved(*conditions.solved(np.asarray(result[0], float)))


def _finish_fit(given: Given, result, p):
    plain = result[1]
    if not (is_tensor(p) and is_recorded(p)) or not np.isfinite(value_of(plain)).all():
        return (p, *result[1:])
    squares = _fitted(given)
    covariance = _covariance(squares.jacobian(p))
    if not given["absolute_sigma"]:
        r = squares.residuals(p)
        covariance = covariance * (2.0 * squares.of(r) / (shape_of(r)[0] - shape_of(p)[0]))
    return (p, _anchored(plain, covariance), *result[2:])


solver(
    "curve_fit",
    lambda given: _conditions_of_fit(given).equations,
    _read_fit,
    _finish_fit,
)


# --- linear least squares -------------------------------------------------------------------------


def _linear(A, b) -> Callable:
    return lambda x: A @ x - b


def _cost(A, b) -> Callable:
    return lambda x: 0.5 * np.sum((A @ x - b) ** 2)


def _of_nnls(given: Given) -> Callable:
    A, b = as_array(given["A"]), as_array(given["b"])
    return lambda x, side: np.where(side == 0.0, A.T @ (A @ x - b), x) + 0.0 * side


def _read_nnls(given: Given, result) -> Solved:
    x, A = result[0], np.asarray(given["A"])
    slope = A.T @ (A @ x - given["b"])
    flat = 1e-10 * max(1.0, np.max(np.abs(A.T @ given["b"]), initial=0.0))
    zero, infinite = np.zeros(len(x)), np.full(len(x), np.inf)
    side = np.where(x > 0.0, 0.0, sides(x, zero, infinite, slope, flat))
    return Solved(x, (side,))


def _finish_nnls(given: Given, result, x):
    if not (is_tensor(x) and is_recorded(x)):
        return (x, *result[1:])
    r = as_array(given["A"]) @ x - as_array(given["b"])
    return x, np.linalg.norm(r), *result[2:]


solver("nnls", _of_nnls, _read_nnls, _finish_nnls)


def _matrix(A):
    return A if hasattr(A, "tocsr") else as_array(A)


def _of_lsq_linear(given: Given) -> Conditions:
    return Conditions(_cost(_matrix(given["A"]), as_array(given["b"])), _bounds(given["bounds"]))


def _read_lsq_linear(given: Given, result) -> Solved:
    x, A = np.asarray(result.x, float), _matrix(given["A"])
    slope = A.T @ (A @ x - given["b"])
    flat = 1e-9 * max(1.0, np.max(np.abs(A.T @ given["b"]), initial=0.0))
    return Solved(*_of_lsq_linear(given).solved(x, lambda: slope, flat))


def _finish_lsq_linear(given: Given, result, x):
    result["x"] = x
    if is_tensor(x) and is_recorded(x):
        result["fun"] = r = _matrix(given["A"]) @ x - as_array(given["b"])
        result["cost"] = 0.5 * np.sum(r**2)
    return result


solver(
    "lsq_linear",
    lambda given: _of_lsq_linear(given).equations,
    _read_lsq_linear,
    _finish_lsq_linear,
)


# --- isotonic regression --------------------------------------------------------------------------


def _of_isotonic(given: Given) -> Callable:
    """Each result is the weighted mean of its block, whose number is in `aux`."""
    y, weights = as_array(given["y"]), given["weights"]
    weights = 1.0 + 0.0 * y if weights is None else as_array(weights)

    def equations(x, blocks):
        same = np.where(blocks[:, None] == blocks[None, :], 1.0, 0.0)
        return x - (same @ (weights * y)) / (same @ weights)

    return equations


def _read_isotonic(given: Given, result) -> Solved:
    sizes = np.diff(result.blocks)
    blocks = np.repeat(np.arange(len(sizes), dtype=float), sizes)
    return Solved(np.asarray(result.x, float), (blocks,))


solver("isotonic_regression", _of_isotonic, _read_isotonic, in_field("x"))


# --- linear programs ------------------------------------------------------------------------------


def _of_linprog(given: Given) -> Conditions:
    if np.any(value_of(given["integrality"] or 0)):
        raise TypeError(
            "tapegrad.scipy.optimize.linprog: integrality has no derivative: whole numbers do not "
            "change with the data; give plain data"
        )
    c, bounds = as_array(given["c"]), given["bounds"]
    is_pair = isinstance(bounds, tuple) and len(bounds) == 2 and not np.ndim(bounds[0])
    is_pair = is_pair and not isinstance(bounds[0], (tuple, list))
    constraints = []
    if given["A_ub"] is not None:
        upper = as_array(given["b_ub"])
        constraints.append(Constraint(_product(given["A_ub"]), -np.inf, upper))
    if given["A_eq"] is not None:
        equal = as_array(given["b_eq"])
        constraints.append(Constraint(_product(given["A_eq"]), equal, equal))
    return Conditions(lambda x: c @ x, [bounds] if is_pair else bounds, constraints)


def _product(A) -> Callable:
    matrix = _matrix(A)
    return lambda x: matrix @ x


def _read_linprog(given: Given, result) -> Solved:
    if result.x is None:  # it is infeasible or unbounded, as the status says
        return Solved(np.zeros(0))
    flat = 1e-9 * max(1.0, np.max(np.abs(given["c"]), initial=0.0))
    x, aux = _of_linprog(given).solved(np.asarray(result.x, float), flat=flat)
    return Solved(x, aux)


def _finish_linprog(given: Given, result, z):
    if result.x is None:
        return result
    result["x"] = x = z[: np.size(result.x)]
    if is_tensor(x) and is_recorded(x):
        result["fun"] = as_array(given["c"]) @ x
        if given["A_ub"] is not None:
            result["slack"] = as_array(given["b_ub"]) - _product(given["A_ub"])(x)
    return result


solver(
    "linprog",
    lambda given: _of_linprog(given).equations,
    _read_linprog,
    _finish_linprog,
)

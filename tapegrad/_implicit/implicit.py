"""`implicit` and `fixed_point`: derivatives of what any solver finds, by its equations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import is_tensor, shape_of, value_of
from .solution import Problem, Solved, answer


def implicit(residual: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a solver: the derivative of its result is that of the equations that it solves.

    Parameters
    ----------
    residual : callable
        A function ``residual(x, *params, **named)`` of the result of the solver and its arguments,
        which is 0 at the solution. It returns as many numbers as there are unknowns, of any shapes,
        and computes with NumPy, as functions that are differentiated do.

    Returns
    -------
    callable
        A decorator of a function ``solver(*params, **named)``. It may be anything in Python: it is
        called with plain numbers and arrays in place of recorded values, and returns the solution:
        a float, an array, or nested tuples, lists and dicts of them. The decorated function has its
        arguments and results; where an argument is recorded, or one that `residual` or the solver
        reads from outside, results are tensors.

    Raises
    ------
    LinAlgError
        When the derivative is computed, if the Jacobian of `residual` by `x` is singular.
    TypeError
        When called, if `residual` depends on a recorded value that is not found: neither an
        argument, nor in variables, defaults, globals and attributes of objects that it reads.
    ValueError
        When called, if `residual` does not return as many numbers as there are unknowns.

    Warns
    -----
    RuntimeWarning
        If Newton's method would leave the result by a long step: the derivative is only as good as
        the solution.

    See Also
    --------
    fixed_point : Solutions of x = f(x, …), with a solver.

    Notes
    -----
    With F the residual, the derivative is −(∂F/∂x)⁻¹ ∂F/∂p, whatever the steps of the solver. It is
    not the derivative of a start value. The Jacobian is that of tapegrad, factorised once for all
    adjoints. There are derivatives of all orders and forward mode; compiled functions call the
    solver at every evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> def residual(x, p):
    ...     return x**3 + p[0] * x - p[1]
    >>> @tg.implicit(residual)
    ... def root(p):
    ...     x = 0.0
    ...     for _ in range(50):  # Newton's method
    ...         x -= residual(x, p) / (3.0 * x**2 + p[0])
    ...     return x
    >>> print(tg.grad(root)(np.array([2.0, 1.0])).round(6))
    [-0.17327  0.38216]
    >>> print(tg.hessian(root)(np.array([2.0, 1.0])).round(6))
    [[ 0.101222 -0.077205]
     [-0.077205 -0.151832]]
    """

    def decorate(solver: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(solver)
        def solution(*params, **named):
            return _solved(solver.__name__, solver, residual, params, named)

        return solution

    return decorate


def fixed_point(
    f: Callable[..., Any], x0: Any, *params: Any, tol: float = 1e-12, max_iterations: int = 1000
) -> Any:
    """Find x = f(x, *params) by iteration; its derivative is that of the equation.

    Parameters
    ----------
    f : callable
        A function of x and parameters that returns what replaces x, of the same structure.
    x0 : float, array_like, or nested tuples, lists and dicts of them
        Where the iteration starts. The result does not depend on it: it has no derivative.
    *params
        Further arguments of `f`. They may have derivatives, as what `f` reads from outside.
    tol : float, optional
        The iteration ends when no element changes by more than `tol` times the larger of 1 and the
        element.
    max_iterations : int, optional
        The number of iterations at most.

    Returns
    -------
    same as x0
        The fixed point, tensors where values are recorded.

    Raises
    ------
    RuntimeError
        If `max_iterations` are not enough.
    ValueError
        If `f` returns something of another structure than `x0`.
    LinAlgError
        When the derivative is computed, if 1 is an eigenvalue of the Jacobian of `f`.

    See Also
    --------
    implicit : The same for equations F(x, …) = 0, with any solver.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> x = tg.fixed_point(np.cos, 1.0)
    >>> print(round(x, 9))
    0.739085133
    >>> slope = tg.grad(lambda a: tg.fixed_point(lambda x: np.cos(a * x), 1.0))(1.0)
    >>> print(round(slope, 9), round(-x * np.sin(x) / (1.0 + np.sin(x)), 9))
    -0.297474342 -0.297474342
    """

    def iterated(start, *params):
        return _iterated(f, start, params, tol, max_iterations)

    def residual(x, start, *params):
        return _difference(f(x, *params), x)

    return _solved("fixed_point", iterated, residual, (x0, *params), {})


def _iterated(f: Callable, x, params: tuple, tol: float, most: int):
    form = _Form(x)
    for _ in range(most):
        new = f(x, *params)
        if _Form(new) != form:
            raise ValueError(
                f"tapegrad.fixed_point: f returned {new!r:.60} for x of another structure; it must "
                "return what has the structure and the shapes of x0"
            )
        pairs = zip(_vectors(new), _vectors(x), strict=True)
        if all([np.all(np.abs(a - b) <= tol * np.maximum(1.0, np.abs(a))) for a, b in pairs]):
            return new
        x = new
    raise RuntimeError(
        f"tapegrad.fixed_point: {most} iterations do not change x by less than tol={tol:g}; start "
        "closer, give more max_iterations, or use tg.implicit with another solver"
    )


def _difference(a, b):
    parts = zip(_vectors(a, plain=False), _vectors(b, plain=False), strict=True)
    return [one - other for one, other in parts]


def _vectors(tree, plain: bool = True) -> list:
    """The leaves of a tree as vectors."""
    leaves = [leaf for _, leaf in tree_leaves(tree)]
    if plain:
        return [np.ravel(np.asarray(value_of(leaf), dtype=float)) for leaf in leaves]
    return [PUBLIC["reshape"](one if is_tensor(one) else np.asarray(one), (-1,)) for one in leaves]


# --- the unknowns of a tree as one vector ---------------------------------------------------------


class _Form:
    """The structure of a solution: a tree, with the shapes of its leaves."""

    def __init__(self, tree):
        self.tree = tree
        self.shapes = [np.shape(value_of(leaf)) for _, leaf in tree_leaves(tree)]

    def __eq__(self, other) -> bool:
        return self._places() == other._places()

    __hash__ = None  # type: ignore[assignment]

    def _places(self) -> list:
        places = [place for place, _ in tree_leaves(self.tree)]
        return [*zip(places, self.shapes, strict=True)]

    def vector(self) -> np.ndarray:
        return np.concatenate([*_vectors(self.tree), np.zeros(0)])

    def built(self, z):
        """The tree of the elements of a vector."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        ends = np.cumsum([0, *sizes])
        parts = [
            PUBLIC["reshape"](z[start:end], shape) if shape else z[int(start)]
            for start, end, shape in zip(ends, ends[1:], self.shapes, strict=False)
        ]
        return tree_build(self.tree, iter(parts))


def _solved(name: str, solver: Callable, residual: Callable, params: tuple, named: dict):
    forms: list[_Form] = []

    def solve(solver, residual, params, named) -> Solved:
        form = _Form(solver(*params, **named))
        if not forms:
            forms.append(form)
        if form != forms[0]:
            raise ValueError(
                f"tapegrad.{name}: the solver returned another structure than in the call that was "
                "recorded; return arrays of the same shapes in each call"
            )
        return Solved(form.vector())

    def equations(solver, residual, params, named) -> Callable:
        def of(z):
            found = residual(forms[0].built(z), *params, **named)
            parts = _vectors(found, plain=False)
            if sum(shape_of(one)[0] for one in parts) != shape_of(z)[0]:
                raise ValueError(
                    f"tapegrad.{name}: the residual has {sum(shape_of(one)[0] for one in parts)} "
                    f"numbers for {shape_of(z)[0]} unknowns; there must be as many of both"
                )
            return PUBLIC["concatenate"](parts) if len(parts) != 1 else parts[0]

        return of

    problem = Problem(name, solve, equations, (solver, residual, params, named))
    if not problem.tensors:
        return solver(*params, **named)
    z, _ = answer(problem)
    return forms[0].built(z)

"""SciPy's solvers of equations for recorded values: roots of functions, fixed points.

SciPy solves with plain values. The derivative of the root is that of the implicit function.
"""

from __future__ import annotations

from collections.abc import Callable

from .._implicit.solution import Solved
from . import _optimize_native as native
from ._optimize_calls import Given, OfX, first, first_of, in_field, solver


def _natively(choose: native.Choice) -> Callable:
    return lambda named: native.RootSolver(named, choose)


def _first_of(given: Given, result) -> Solved:
    """A result that is a root, or a tuple which begins with it."""
    return Solved(first_of(result))


# --- one unknown ----------------------------------------------------------------------------------


def _of_f(given: Given):
    return OfX(given["f"], given["args"])


def _with_root(given: Given, result, x):
    """The root, and what SciPy tells of it where that is asked for."""
    if not isinstance(result, tuple):
        return x
    found, told, *rest = result
    if isinstance(told, dict):
        told["root"] = x
    return (x, told, *rest)


def _of_newton(given: Given):
    return OfX(given["func"], given["args"])


solver("newton", _of_newton, _first_of, _with_root, native=_natively(native.of_newton))
for _name in ("bisect", "brenth", "brentq", "ridder"):
    _choice = native.in_interval(_name)
    solver(_name, _of_f, _first_of, _with_root, native=_natively(_choice))
solver("toms748", _of_f, _first_of, _with_root)


def _of_root_scalar(given: Given):
    has_more = given["fprime"] is True or given["fprime2"] is True
    return OfX(given["f"], given["args"], 0 if has_more else None)


solver(
    "root_scalar",
    _of_root_scalar,
    lambda given, result: Solved(result.root),
    in_field("root"),
    native=_natively(native.of_root_scalar),
)


# --- several unknowns -----------------------------------------------------------------------------


def _of_fsolve(given: Given):
    return OfX(given["func"], given["args"])


solver("fsolve", _of_fsolve, _first_of, first, native=_natively(native.of_fsolve))


def _of_root(given: Given):
    return OfX(given["fun"], given["args"], 0 if given["jac"] is True else None)


solver(
    "root",
    _of_root,
    lambda given, result: Solved(result.x),
    in_field("x"),
    native=_natively(native.of_root),
)


def _of_fixed_point(given: Given):
    f = OfX(given["func"], given["args"])
    return lambda x: x - f(x)


solver("fixed_point", _of_fixed_point, _first_of, first)

for _name in (
    *("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing"),
    "newton_krylov",
):
    solver(_name, lambda given: OfX(given["F"], ()), _first_of, first)

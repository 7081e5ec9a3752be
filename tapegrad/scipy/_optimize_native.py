"""SciPy's solvers of equations as methods of compiled code: which one a call asks for, with what.

Arguments that are no numbers, and those that no method here knows, leave the call to SciPy.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._custom.closures import OperandPlace
from .._implicit import hybrid_method as hybrid
from .._implicit import scalar_roots as scalar
from .._implicit.native_calls import SolverMethod
from ._optimize_calls import Given, OfX, names_in

Choice = Callable[[Given, Any], "SolverMethod | None"]


class RootSolver:
    """A solver of SciPy's with methods in compiled code (see `NativeSolver`)."""

    def __init__(self, named: Callable, choose: Choice):
        self._named, self._choose = named, choose

    def method(self, solved: Any, args: tuple, kwargs: dict) -> SolverMethod | None:
        return self._choose(self._named(args, kwargs), solved)

    def function(self, name: str, args: tuple, kwargs: dict) -> Callable:
        given = self._named(args, kwargs)
        if given[name] is True:  # the function gives it, too
            return OfX(given["fun"], given["args"], 1)
        return OfX(given[name], given["args"])


# --- arguments and results ------------------------------------------------------------------------


def _are_numbers(*given) -> bool:
    """Whether arguments are real numbers, or places of some."""
    return all([isinstance(one, (OperandPlace, int, float, np.integer)) for one in given])


def _found(solved: Any, places: dict[str, tuple[int, tuple[int, ...]]], x: str) -> list | None:
    """Where the parts of a result are, by the names of what SciPy tells; None for others."""
    names = [x, *[name or x for name in names_in(solved.result)]]
    return [places[name] for name in names] if {*names} <= places.keys() else None


# --- one unknown ----------------------------------------------------------------------------------

_SCALAR: dict[str, tuple[int, tuple[int, ...]]] = {
    **dict.fromkeys(("0", "root"), (scalar.ROOT, ())),
    "iterations": (scalar.ITERATIONS, ()),
    "function_calls": (scalar.CALLS, ()),
    "converged": (scalar.CONVERGED, ()),
}


def _scalar(
    name: str, solved: Any, settings: list, functions: tuple[str, ...] = ()
) -> SolverMethod | None:
    found = _found(solved, _SCALAR, "root")
    if found is None or not _are_numbers(*settings) or np.shape(solved.x):
        return None
    return SolverMethod(name, settings, found, functions)


def in_interval(name: str) -> Choice:
    """The choice for a method that begins with an interval."""

    def choose(given: Given, solved: Any) -> SolverMethod | None:
        settings = [given[one] for one in ("a", "b", "xtol", "rtol", "maxiter")]
        return _scalar(name, solved, settings)

    return choose


def _from_start(
    solved: Any, x0, x1, tolerances: list, derivatives: tuple[Any, Any]
) -> SolverMethod | None:
    """Newton's method and its kin; `derivatives` are functions, or None."""
    by_slope, by_bend = derivatives
    if by_slope is None:
        return _scalar("secant", solved, [x0, np.nan if x1 is None else x1, *tolerances])
    if not callable(by_slope) or not (by_bend is None or callable(by_bend)):
        return None
    settings = [x0, 0.0, *tolerances]
    if by_bend is None:
        return _scalar("newton", solved, settings, ("fprime",))
    return _scalar("halley", solved, settings, ("fprime", "fprime2"))


def of_newton(given: Given, solved: Any) -> SolverMethod | None:
    tolerances = [given[one] for one in ("tol", "rtol", "maxiter")]
    derivatives = given["fprime"], given["fprime2"]
    return _from_start(solved, given["x0"], given["x1"], tolerances, derivatives)


#: SciPy's defaults of `root_scalar`: absolute and relative tolerance, iterations.
_IN_INTERVAL, _FROM_START = (2e-12, 4.0 * np.finfo(float).eps, 100), (1.48e-8, 0.0, 50)
_INTERVALS = ("bisect", "brenth", "brentq", "ridder")


def of_root_scalar(given: Given, solved: Any) -> SolverMethod | None:
    method, bracket = given["method"], given["bracket"]
    if given["options"] or (method is None and bracket is None and given["fprime"] is None):
        return None
    method = (method or ("newton" if bracket is None else "brentq")).lower()
    told = [given[one] for one in ("xtol", "rtol", "maxiter")]
    if method in _INTERVALS:
        if not isinstance(bracket, (list, tuple)):
            return None
        pairs = zip(told, _IN_INTERVAL, strict=True)
        settings = [known if one is None else one for one, known in pairs]
        return _scalar(method, solved, [*bracket[:2], *settings])
    tolerances = [
        known if one is None else one for one, known in zip(told, _FROM_START, strict=True)
    ]
    slope, bend = given["fprime"], given["fprime2"]
    if method == "secant":
        return _from_start(solved, given["x0"], given["x1"], tolerances, (None, None))
    if method == "newton" and slope is not None:
        is_given = given["method"] is not None
        return _from_start(
            solved, given["x0"], None, tolerances, (slope, None if is_given else bend)
        )
    if method == "halley" and slope is not None and bend is not None:
        return _from_start(solved, given["x0"], None, tolerances, (slope, bend))
    return None


# --- several unknowns -----------------------------------------------------------------------------


def _elements(x0) -> list | None:
    """The numbers of a start, and places of some; None for others."""
    if _are_numbers(x0):
        return [x0]
    if not isinstance(x0, (list, tuple)):
        return None
    parts = [_elements(one) for one in x0]
    return None if None in parts else [one for part in parts if part for one in part]


def _hybrid(
    solved: Any, x0, options: dict, names: dict[str, str], jacobian: str
) -> SolverMethod | None:
    """Powell's method; `names` are SciPy's for those of `hybrid.places_of`.

    `jacobian` is the argument that is the Jacobian, empty without.
    """
    n, start = solved.x.size, _elements(x0)
    if start is None or not 0 < n <= hybrid.UNKNOWNS or solved.x.ndim != 1:
        return None
    most, step = options["maxfev"] or (100 if jacobian else 200) * (n + 1), options["eps"]
    if jacobian and options["col_deriv"]:
        return None
    if not _are_numbers(options["xtol"], most, options["factor"]):
        return None
    if isinstance(most, OperandPlace) or not (step is None or type(step) is float):
        return None
    smallest = float(np.finfo(float).eps)
    step = float(np.sqrt(max(step or smallest, smallest)))
    settings = [options["xtol"], float(most), step, options["factor"], 0.0]
    settings += [float(jacobian != ""), _calls_beside(), *start, *[1.0] * n]
    places = {}
    for name, (at, size) in hybrid.places_of(n).items():
        shape = (n, n) if name == "fjac" else (size,) if name in hybrid.VECTORS else ()
        for one in names.get(name, name).split():
            places[one] = at, {2: (n, 1), 1: (1,), 0: ()}[len(shape)]
    found = _found(solved, places, "x")
    functions = (jacobian,) if jacobian else ()
    return None if found is None else SolverMethod("hybr", settings, found, functions)


@functools.cache
def _calls_beside() -> float:
    """The calls that SciPy counts beside those of the method: versions differ.

    It calls the function twice before, to see what it returns.
    """
    calls = []

    def f(x):
        calls.append(1)
        return x - 0.5

    found = importlib.import_module("scipy.optimize").root(f, [1.0])
    return found.nfev - (len(calls) - 2.0)


#: The options of Powell's method that are known here, with SciPy's defaults.
_OPTIONS = {"xtol": 1.49012e-08, "maxfev": 0, "eps": None, "factor": 100, "col_deriv": 0}


def of_fsolve(given: Given, solved: Any) -> SolverMethod | None:
    if given["band"] is not None or given["diag"] is not None:
        return None
    options = {name: given["epsfcn" if name == "eps" else name] for name in _OPTIONS}
    names = {"x": "x 0", "status": "2", "fun": "fvec"}
    return _hybrid(solved, given["x0"], options, names, "fprime" if given["fprime"] else "")


def of_root(given: Given, solved: Any) -> SolverMethod | None:
    method, told, tol = given["method"], given["options"] or {}, given["tol"]
    if not isinstance(method, str) or method.lower() != "hybr":
        return None
    if given["callback"] is not None or not {*told} <= {*_OPTIONS}:
        return None
    options = {**_OPTIONS, **({} if tol is None else {"xtol": tol}), **told}
    names = {"status": "status success"}
    return _hybrid(solved, given["x0"], options, names, "jac" if given["jac"] else "")

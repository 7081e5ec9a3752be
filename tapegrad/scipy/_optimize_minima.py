"""SciPy's minimisers for recorded values: the derivative of a minimum is that of its conditions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.tensor.values import is_recorded, is_tensor, value_of
from .._implicit.solution import Solved
from .._transforms.gradients import elementwise_grad, grad
from ._optimize_calls import Given, arguments, first_of, solver
from ._optimize_conditions import FLAT, Conditions, as_array, as_number, constraints_of


def _objective(f: Callable, args, is_pair: bool = False) -> Callable:
    """The function that is minimised, of x alone; of a pair it is the first."""
    rest = arguments(args)
    return lambda x: as_number(f(x, *rest)[0] if is_pair else f(x, *rest))


# --- minimize -------------------------------------------------------------------------------------


def _f_of_minimize(given: Given) -> Callable:
    return _objective(given["fun"], given["args"], given["jac"] is True)


def _conditions(given: Given) -> Conditions:
    constraints = constraints_of(given["constraints"])
    return Conditions(_f_of_minimize(given), given["bounds"], constraints)


def _flat(given: Given) -> float:
    """The gradient at which a minimiser was told to stop."""
    options = given["options"] or {}
    told = [options.get(name) for name in ("gtol", "pgtol")] + [given["tol"]]
    return next((float(one) for one in told if one is not None), FLAT)


def _read_minimum(given: Given, result) -> Solved:
    slope = next((result[name] for name in ("grad", "jac") if _is_vector(result, name)), None)
    known = None if slope is None else lambda: slope
    x, aux = _conditions(given).solved(np.asarray(result.x, float), known, _flat(given))
    return Solved(x, aux)


def _is_vector(result, name: str) -> bool:
    return isinstance(result.get(name), np.ndarray) and result[name].shape == np.shape(result.x)


def _finish_minimum(given: Given, result, z):
    """The result with the minimum and the value of the function there."""
    x = z[: np.size(result.x)]
    result["x"] = x
    if is_tensor(x) and is_recorded(x):
        result["fun"] = _f_of_minimize(given)(x)
    return result


solver(
    "minimize",
    lambda given: _conditions(given).equations,
    _read_minimum,
    _finish_minimum,
)


# --- minimize_scalar and its kin ------------------------------------------------------------------


def _of_number(f: Callable, bounds: Callable) -> tuple[Callable, Callable]:
    """Equations of a minimum of a function of one number, and what finds it in a result.

    `f(given)` is the function, `bounds(given)` the pair of its bounds, or None.
    """

    def equations(given: Given):
        slope, ends = grad(f(given)), bounds(given)

        def of(x, *aux):
            if not aux:
                return slope(x)
            side = aux[0]
            return _of_side(side, slope(x), x - ends[0], x - ends[1])

        return of

    def solved(given: Given, x) -> Solved:
        ends = bounds(given)
        if ends is None:
            return Solved(np.asarray(x, float))
        x = float(x)
        slope, bend = grad(f(given))(x), grad(grad(f(given)))(x)
        return Solved(np.asarray(x), (np.asarray(_side_of(x, ends, slope, bend)),))

    return equations, solved


#: How close to a bound, as part of its size, a minimum of one variable is that is at it: the method
#: does not reach it.
_CLOSE = 1e-4


def _side_of(x: float, ends, slope: float, bend: float) -> float:
    """Which bound is active: that beyond which the function would have its minimum, by Newton.

    NaN where that is undecided.
    """
    for sign, end in ((-1.0, float(value_of(ends[0]))), (1.0, float(value_of(ends[1])))):
        distance, push = abs(x - end), -sign * slope
        if distance > _CLOSE * max(1.0, abs(end)) or push <= 0.0:
            continue
        beyond = push - bend * distance  # of the slope, at the bound
        if abs(beyond) <= 0.5 * abs(push) and push <= FLAT:
            return np.nan
        if beyond > 0.0:
            return sign
    return 0.0


def _of_side(side, free, low, high):
    """What is 0: the slope, or the distance from the bound that is active."""
    at_low, at_high = side < 0.0, side > 0.0
    return np.where(at_low, low, np.where(at_high, high, free)) + 0.0 * side


def _f_of_scalar(given: Given) -> Callable:
    return _objective(given["fun"], given["args"])


def _finish_scalar(given: Given, result, x):
    result["x"] = x
    if is_tensor(x) and is_recorded(x):
        result["fun"] = _f_of_scalar(given)(x)
    return result


_scalar, _scalar_solved = _of_number(_f_of_scalar, lambda given: given["bounds"])
solver(
    "minimize_scalar",
    _scalar,
    lambda given, result: _scalar_solved(given, result.x),
    _finish_scalar,
)


def _func(given: Given) -> Callable:
    return _objective(given["func"], given["args"])


def _with_value(f: Callable) -> Callable:
    """What puts the minimum, and the value of f there, at the begin of a tuple."""

    def finish(given: Given, result, x):
        if not isinstance(result, tuple):
            return x
        is_known = not (is_tensor(x) and is_recorded(x))
        return (x, result[1] if is_known else f(given)(x), *result[2:])

    return finish


for _name, _ends in (
    ("brent", lambda given: None),
    ("golden", lambda given: None),
    ("fminbound", lambda given: (given["x1"], given["x2"])),
):
    _one, _one_solved = _of_number(_func, _ends)
    solver(
        _name,
        _one,
        lambda given, result, solved=_one_solved: solved(given, first_of(result)),
        _with_value(_func),
    )


# --- functions of older interfaces, and those that search everywhere ------------------------------


def _unbounded(f: Callable) -> tuple[Callable, Callable, Callable]:
    return (
        lambda given: Conditions(f(given)).equations,
        lambda given, result: Solved(np.asarray(first_of(result), float)),
        _with_value(f),
    )


for _name in ("fmin", "fmin_powell"):
    solver(_name, *_unbounded(_func))
for _name in ("fmin_bfgs", "fmin_cg", "fmin_ncg"):
    solver(_name, *_unbounded(lambda given: _objective(given["f"], given["args"])))


def _f_with_slope(given: Given) -> Callable:
    is_pair = given["fprime"] is None and not given["approx_grad"]
    return _objective(given["func"], given["args"], is_pair)


def _read_bounded(given: Given, result) -> Solved:
    conditions = Conditions(_f_with_slope(given), given["bounds"])
    return Solved(*conditions.solved(np.asarray(result[0], float)))


def _finish_tnc(given: Given, result, z):
    return (z[: np.size(result[0])], *result[1:])


for _name, _finish in (("fmin_l_bfgs_b", _with_value(_f_with_slope)), ("fmin_tnc", _finish_tnc)):
    solver(
        _name,
        lambda given: Conditions(_f_with_slope(given), given["bounds"]).equations,
        _read_bounded,
        _finish,
    )


def _of_search(given: Given) -> Conditions:
    constraints = given.get("constraints") or ()
    return Conditions(_func(given), given["bounds"], constraints_of(constraints))


def _read_search(given: Given, result) -> Solved:
    return Solved(*_of_search(given).solved(np.asarray(result.x, float)))


def _finish_search(given: Given, result, z):
    result["x"] = x = z[: np.size(result.x)]
    if is_tensor(x) and is_recorded(x):
        result["fun"] = _func(given)(x)
    return result


for _name in ("differential_evolution", "dual_annealing", "shgo"):
    solver(_name, lambda given: _of_search(given).equations, _read_search, _finish_search)


def _of_hopping(given: Given) -> Conditions:
    named = given["minimizer_kwargs"] or {}
    f = _objective(given["func"], named.get("args", ()), named.get("jac") is True)
    return Conditions(f, named.get("bounds"), constraints_of(named.get("constraints") or ()))


def _finish_hopping(given: Given, result, z):
    x = z[: np.size(result.x)]
    found = {"x": x}
    if is_tensor(x) and is_recorded(x):
        named = given["minimizer_kwargs"] or {}
        f = _objective(given["func"], named.get("args", ()), named.get("jac") is True)
        found["fun"] = f(x)
    result.update(found)
    result.lowest_optimization_result.update(found)
    return result


solver(
    "basinhopping",
    lambda given: _of_hopping(given).equations,
    lambda given, result: Solved(*_of_hopping(given).solved(np.asarray(result.x, float))),
    _finish_hopping,
)


def _of_slsqp(given: Given) -> Conditions:
    rest, named = arguments(given["args"]), (("eq", "eqcons"), ("ineq", "ieqcons"))
    every = [(kind, f) for kind, name in named for f in given[name]]
    every += [(kind, f) for kind, name in named if (f := given["f_" + name]) is not None]
    constraints = [{"type": kind, "fun": f, "args": rest} for kind, f in every]
    return Conditions(_func(given), given["bounds"], constraints_of(constraints))


def _of_cobyla(given: Given) -> Conditions:
    rest = arguments(given["args"] if given["consargs"] is None else given["consargs"])
    every = [given["cons"]] if callable(given["cons"]) else given["cons"]
    constraints = [{"type": "ineq", "fun": f, "args": rest} for f in every]
    return Conditions(_func(given), None, constraints_of(constraints))


def _with_minimum(given: Given, result, z):
    """As `_with_value`, without the multipliers."""
    return _with_value(_func)(given, result, z[: np.size(first_of(result))])


def _constrained(conditions: Callable) -> tuple[Callable, Callable, Callable]:
    return (
        lambda given: conditions(given).equations,
        lambda given, result: Solved(
            *conditions(given).solved(np.asarray(first_of(result), float))
        ),
        _with_minimum,
    )


solver("fmin_slsqp", *_constrained(_of_slsqp))
solver("fmin_cobyla", *_constrained(_of_cobyla))


# --- minima of many functions of one number -------------------------------------------------------


def _of_elements(given: Given) -> Callable:
    return lambda x: as_array(given["f"](x, *arguments(given["args"])))


def _finish_elements(given: Given, result, x):
    result["x"] = x
    if is_tensor(x) and is_recorded(x):
        result["f_x"] = _of_elements(given)(x)
    return result


solver(
    "elementwise.find_minimum",
    lambda given: elementwise_grad(_of_elements(given)),
    lambda given, result: Solved(np.asarray(result.x, float)),
    _finish_elements,
)
solver(
    "elementwise.find_root",
    _of_elements,
    lambda given, result: Solved(np.asarray(result.x, float)),
    _finish_elements,
)

"""Initial value problems as SciPy solves them, with plain values, and what is kept of its steps."""

from __future__ import annotations

import array
import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.remembered import remembered
from .._core.tensor.values import shape_of
from ._differentiable import as_array
from ._ode_methods import method_of

#: The methods whose steps are repeated for derivatives; the others are replaced by Radau.
_REPEATED = ("RK23", "RK45", "DOP853", "Radau")
METHODS = (*_REPEATED, "BDF", "LSODA")


@functools.cache
def integrate():
    """SciPy's module, imported when it is needed."""
    return importlib.import_module("scipy.integrate")


class Initial:
    """An initial value problem: its function, times and state, which may be recorded.

    `entered` is applied to functions of users.
    """

    def __init__(self, given: dict[str, Any], entered: Callable):
        self._given = given
        self._fun = entered(given["fun"])
        y0 = as_array(given["y0"])
        self.y0 = y0 if shape_of(y0) else PUBLIC["reshape"](y0, (1,))
        self.t0, self.t1 = given["span"][0], given["span"][-1]
        self.t_eval = None if given["t_eval"] is None else as_array(given["t_eval"])
        self.rest = () if given["args"] is None else tuple(given["args"])
        self._events = [entered(one) for one in given["events"]]

    def f(self, t, y):
        """The derivative of the state, of its shape."""
        if self._given["is_vectorized"]:
            out = as_array(self._fun(t, PUBLIC["reshape"](y, (-1, 1)), *self.rest))
            out = PUBLIC["reshape"](out, (-1,))
        else:
            first = (y, t) if self._given["is_swapped"] else (t, y)
            out = as_array(self._fun(*first, *self.rest))
        return out if shape_of(out) == shape_of(y) else PUBLIC["broadcast_to"](out, shape_of(y))

    def event(self, number: int, t, y):
        """The value of an event function, a number."""
        out = as_array(self._events[number](t, y, *self.rest))
        return PUBLIC["reshape"](out, ()) if shape_of(out) else out

    @property
    def events(self) -> int:
        return len(self._events)


#: How far a step that is repeated may end elsewhere, as a part of the state, for rounding.
ROUNDED = 1e-6


class Steps:
    """Steps that a method has taken: times, states and, of Radau, Z of the stages.

    `is_whole` if the last step is to the end of the interval, wherever that is; the lengths of
    other steps are constants. If Z is not kept, there is one state for each time and no more.
    """

    def __init__(self, method, times: np.ndarray, states: tuple, is_whole: bool, error: float):
        self.method, self.is_whole, self.times = method, is_whole, times
        self.states, self.kept = states
        self.error = error  # how far a step may end elsewhere, as a part of the state

    def __len__(self) -> int:
        return len(self.times) - 1

    def segments(self, times: np.ndarray) -> np.ndarray:
        """The step in which each of some times lies: the earlier one at the end of a step."""
        sign = -1.0 if len(self) and self.times[-1] < self.times[0] else 1.0
        found = np.searchsorted(sign * self.times, sign * times, side="left") - 1
        return np.clip(found, 0, len(self) - 1)


class Record:
    """A result of an initial value problem, and the steps by which it is differentiated.

    They are found by `find` when they are needed; `are_own` if they are those of the method. `own`
    is the solution by kernels, if it is one.
    """

    def __init__(self, result, find: Callable[[], Steps], are_own: bool, own: Any = None):
        self.result, self.are_own, self.own, self._find = result, are_own, own, find

    def forget_states(self) -> None:
        """Drop the states of the result: tensors have them, and nothing else reads them."""
        if isinstance(self.result, dict):
            self.result["y"] = np.broadcast_to(np.nan, np.shape(self.result["y"]))
        if self.own is not None:
            self.own.y = np.zeros((0, self.own.task.y0.size))

    @remembered
    def steps(self) -> Steps:
        """Those that were taken; of BDF and LSODA those of Radau to the same time."""
        return self._find()


def error_of_newton(rtol, atol) -> float:
    """How far a step may end elsewhere where Newton's method has stopped earlier."""
    return 1e-3 + 10.0 * float(np.max(rtol)) + float(np.max(atol))


class _Noted:
    """The steps of a solver of SciPy's class, noted while it is used."""

    def __init__(self, name: str):
        self.times, self.states, self.kept = (array.array("d") for _ in range(3))
        self._size = 0
        self.bound, self.error = np.nan, ROUNDED
        self.name = name

    def kind(self) -> type:
        """A class as SciPy's, whose instances note their steps here."""
        noted, theirs = self, getattr(integrate(), self.name)

        def begin(solver, fun, t0, y0, t_bound, *args, **kwargs):
            theirs.__init__(solver, fun, t0, y0, t_bound, *args, **kwargs)
            noted.note(solver)
            noted.bound = solver.t_bound
            if noted.name == "Radau":  # where Newton's method has stopped
                noted.error = error_of_newton(solver.rtol, solver.atol)

        def step(solver):
            is_taken, message = theirs._step_impl(solver)
            if is_taken:
                noted.note(solver)
                if noted.name == "Radau":
                    noted.kept.frombytes(solver.Z.tobytes())
            return is_taken, message

        return type(self.name, (theirs,), {"__init__": begin, "_step_impl": step})

    def note(self, solver) -> None:
        self._size = solver.n
        self.times.append(solver.t)
        self.states.frombytes(solver.y.tobytes())

    def steps(self) -> Steps:
        is_whole = self.times[-1] == self.bound and len(self.times) > 1
        states = np.array(self.states).reshape(len(self.times), self._size)
        kept = np.array(self.kept).reshape(-1, 3, self._size) if self.kept else None
        method, times = method_of(self.name), np.array(self.times)
        return Steps(method, times, (states, kept), is_whole, self.error)


CHANGED = (
    "tapegrad.{}: for the derivative the steps of the solver are repeated, which give other states "
    "than before: data that the functions read have changed since then, or the functions give "
    "other values at each call; give them copies of data"
)


# --- solve_ivp ------------------------------------------------------------------------------------


@functools.cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(integrate(), name))


def given_to_solve_ivp(args: Sequence, kwargs: dict) -> dict[str, Any]:
    """The problem of a call of `solve_ivp`, for `Initial`."""
    bound = _signature("solve_ivp").bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    events = given["events"]
    every = [events] if callable(events) else [*(events or ())]
    return {
        "fun": given["fun"],
        "span": given["t_span"],
        "y0": given["y0"],
        "t_eval": given["t_eval"],
        "args": given["args"],
        "events": every,
        "is_vectorized": bool(given["vectorized"]),
        "is_swapped": False,
        "has_events": events is not None,
        "is_dense": bool(given["dense_output"]),
        "method": name_of(given["method"]),
        "options": given["options"],
    }


def name_of(method) -> str | None:
    """The name of a method, which may be given by its class; None for another class."""
    if isinstance(method, str):
        return method
    name = getattr(method, "__name__", "")
    return name if name in METHODS and getattr(integrate(), name) is method else None


def solve_ivp(args: Sequence, kwargs: dict) -> Record:
    """SciPy's result for plain values, with its steps."""
    bound = _signature("solve_ivp").bind(*args, **kwargs)
    given = given_to_solve_ivp(args, kwargs)
    name = given["method"]
    if name not in _REPEATED:
        result = integrate().solve_ivp(*args, **kwargs)
        final = result.sol.ts[-1] if result.sol is not None else None
        return Record(result, lambda: _by_radau(given, _end(given, result, final)), False)
    noted = _Noted(name)
    bound.arguments["method"] = noted.kind()
    result = integrate().solve_ivp(*bound.args, **bound.kwargs)
    steps = noted.steps()
    return Record(result, lambda: steps, True)


def _end(given: dict, result, final) -> float:
    """Where the solution of another method ends."""
    if result.status == 0:
        return float(given["span"][-1])
    found = [float(one) for one in (final, *np.ravel(result.t)[-1:]) if one is not None]
    found += [float(one[-1]) for one in result.t_events or () if len(one)]
    sign = np.sign(float(given["span"][-1]) - float(given["span"][0]))
    return max(found, key=lambda t: sign * t, default=float(given["span"][0]))


_RADAU = ("rtol", "atol", "max_step", "first_step", "jac", "jac_sparsity")


def _by_radau(given: dict, end: float) -> Steps:
    """The steps of Radau to a time, at the tolerances of another method."""
    noted, problem = _Noted("Radau"), Initial(given, lambda f: f)
    options = {k: v for k, v in given["options"].items() if k in _RADAU and v is not None}
    jac, rest = options.get("jac"), problem.rest
    if callable(jac) and rest:
        options["jac"] = lambda t, y: jac(t, y, *rest)
    y0, t0 = np.asarray(problem.y0), float(problem.t0)
    solver = noted.kind()(problem.f, t0, y0, end, **options)
    while solver.status == "running":
        message = solver.step()
    if solver.status == "failed":
        raise RuntimeError(_FAILED.format(given["method"], message))
    found = noted.steps()
    found.is_whole = found.is_whole and end == float(problem.t1)
    return found


_FAILED = (
    "tapegrad.scipy.integrate: the derivative of a solution of {} is that of Radau's at the same "
    "tolerances, which fails: {} Use a method whose own steps are differentiated: RK23, RK45, "
    "DOP853, Radau"
)


# --- odeint ---------------------------------------------------------------------------------------


def given_to_odeint(args: Sequence, kwargs: dict) -> dict[str, Any]:
    """The problem of a call of `odeint`, for `Initial`."""
    bound = _signature("odeint").bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    func = given["func"]
    rest = given["args"] if isinstance(given["args"], tuple) else (given["args"],)
    tolerances = {name: given[name] for name in ("rtol", "atol")}
    options = {k: 1.49012e-8 if v is None else v for k, v in tolerances.items()}
    return {
        "fun": func,
        "span": given["t"],
        "y0": given["y0"],
        "t_eval": given["t"],
        "args": rest,
        "events": [],
        "is_vectorized": False,
        "is_swapped": not given["tfirst"],
        "has_events": False,
        "is_dense": False,
        "method": "odeint",
        "options": options,
    }


def odeint(args: Sequence, kwargs: dict) -> Record:
    """As `solve_ivp`."""
    result = integrate().odeint(*args, **kwargs)
    given = given_to_odeint(args, kwargs)
    return Record(result, lambda: _by_radau(given, float(given["span"][-1])), False)

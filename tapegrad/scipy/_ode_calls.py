"""`scipy.integrate.solve_ivp` and `odeint` for recorded values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import none_traced
from .._core.tensor.tensor_classes import ComplexTensor
from .._core.tensor.trace import DerivativeLost, refuse
from .._core.tensor.values import is_recorded, is_tensor, wrap
from .._implicit.linear import STRAY
from ._differentiable import differentiable
from ._ode_flow import Order, Plan, SolverCall, derived, plain
from ._ode_records import (
    given_to_odeint,
    given_to_solve_ivp,
    integrate,
    odeint,
    solve_ivp,
)
from ._optimize_calls import traced

#: Arguments without derivative: what the solver is told of steps and errors.
_CONTROLS = ("rtol", "atol", "first_step", "max_step", "min_step", "h0", "hmax", "hmin")


def _flow(kind: str, args: tuple, kwargs: dict) -> tuple[SolverCall, list]:
    """The operation of a call, and its operands."""
    solve, read = _KINDS[kind]
    flow = SolverCall(kind, solve, read, (args, kwargs))
    values, flow.tensors = flow.tensors, []
    if values:
        given = read(args, kwargs)
        _check(flow.name, given, kwargs)
        flow.moves = not none_traced((given["span"],))
        flow.asks = given["t_eval"] is not None and not none_traced((given["t_eval"],))
    return flow, values


def _check(name: str, given: dict[str, Any], kwargs: dict) -> None:
    """Refuse what has no derivative."""
    for one in _CONTROLS:
        if not none_traced((kwargs.get(one),)):
            raise TypeError(_CONTROL.format(name, one))
    if not isinstance(given["method"], str):
        raise TypeError(_METHOD.format(name, given["method"]))
    if holds_complex(given["y0"]):
        raise TypeError(_COMPLEX.format(name))


def _is_complex(value) -> bool:
    return type(value) is ComplexTensor or (not is_tensor(value) and np.iscomplexobj(value))


def holds_complex(y0) -> bool:
    """Whether a state is complex."""
    return any(map(_is_complex, y0)) if isinstance(y0, (list, tuple)) else _is_complex(y0)


_CONTROL = (
    "tapegrad.{0}: {1} is a recorded value; the derivative is that of the steps that are taken, "
    "which has none to {1}; pass {1}=tg.stop_gradient(…)"
)
_METHOD = (
    "tapegrad.{}: a solution by the method {} is not differentiated; choose one by its name: RK23, "
    "RK45, DOP853, Radau, BDF, LSODA"
)


_COMPLEX = (
    "tapegrad.{}: the state y0 is complex, which is not differentiated; solve for its real and "
    "imaginary parts, y0=np.concatenate([y0.real, y0.imag])"
)


def _of_plain(name: str, args: tuple, kwargs: dict):
    try:
        return getattr(integrate(), name)(*args, **kwargs)
    except DerivativeLost as error:
        error.args = (STRAY.format(f"scipy.integrate.{name}"),)
        raise


def _answer(flow: SolverCall, values: list) -> tuple[Plan, Iterator]:
    """SciPy's results and, one after the other, the tensors for them."""
    outs = iter(derived(Order(flow, len(values)), *values))
    plan = Plan(flow, plain(values))
    if plan.record.own is None:  # a callback reads no recorded values that are not found
        flow.check_reads(plan.values)
    plan.record.forget_states()
    return plan, outs


@differentiable("integrate.solve_ivp")
def _solve_ivp(*args, **kwargs):
    flow, values = _flow("solve_ivp", args, kwargs)
    if not values:
        return _of_plain("solve_ivp", args, kwargs)
    plan, outs = _answer(flow, values)
    found = dict(plan.record.result)
    if plan.has_t:
        found["t"] = next(outs)
    found["y"] = next(outs)
    if found["t_events"] is not None:
        pairs = [(next(outs), next(outs)) for _ in found["t_events"]]
        found["t_events"], found["y_events"] = [t for t, _ in pairs], [y for _, y in pairs]
    if found["sol"] is not None:
        found["sol"] = Dense(flow, values, found["sol"])
    result = type(plan.record.result)(found)
    if not flow.is_traced:
        return result
    fixed = {name: result.pop(name) for name in ("y", "t", "t_events", "y_events", "sol")}
    made = traced(result, outs)
    if not plan.has_t:
        fixed["t"] = next(outs)
    dict.update(made, fixed)
    return made


@differentiable("integrate.odeint")
def _odeint(*args, **kwargs):
    flow, values = _flow("odeint", args, kwargs)
    if not values:
        return _of_plain("odeint", args, kwargs)
    plan, outs = _answer(flow, values)
    result, y = plan.record.result, next(outs)
    if not isinstance(result, tuple):
        return y
    return y, traced(result[1], outs) if flow.is_traced else result[1]


_KINDS = {
    "solve_ivp": (solve_ivp, given_to_solve_ivp),
    "odeint": (odeint, given_to_odeint),
}
_solve_ivp.calls_users = True
_odeint.calls_users = True


class Dense:
    """A solution as a function of time, SciPy's `OdeSolution` for recorded values."""

    is_followed = True

    def __init__(self, flow: SolverCall, values: list, theirs):
        self._flow, self._values, self._theirs = flow, values, theirs

    def __call__(self, t):
        """The states at times: a vector for a number, a column for each of several.

        Parameters
        ----------
        t : float or array of shape (m,)
            The times.

        Returns
        -------
        Tensor of shape (n,) or (n, m)
            The states.
        """
        order = Order(self._flow, 1 + len(self._values), True)
        given = [unlisted(t), *self._values]
        given = [one if is_tensor(one) else wrap(np.asarray(one, dtype=float)) for one in given]
        if not any(map(is_recorded, given)):
            return order(plain(given))[0]
        (found,) = derived(order, *given)
        return found

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "interpolants":
            raise AttributeError(_INTERPOLANTS)
        if self._flow.is_traced:
            refuse(f"it reads {name} of a solution of scipy.integrate")
        return getattr(self._theirs, name)


_INTERPOLANTS = (
    "tapegrad.scipy.integrate.solve_ivp: sol.interpolants of recorded values have no derivatives; "
    "call sol(t)"
)

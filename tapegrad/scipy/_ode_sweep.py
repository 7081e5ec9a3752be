"""Steps of a solution repeated: one after the other for recorded values, or backwards for adjoints.

The backward pass keeps the states at the begin of the steps; the stages of a step are computed
again, recorded, and dropped. If there are many steps, the function for one is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.values import shape_of
from .._implicit.linear import Factors
from .._program.compile import compile
from .._transforms.jacobians import jacobian, vjp
from ._ode_records import CHANGED

#: The number of steps, in all calls, from which on the function for one is compiled: of explicit
#: and of implicit methods.
MANY_STEPS = 100, 20

#: An event in a step: the number of its function, its time, and how fast the function changes.
Root = tuple[int, float, float]


def _outputs(problem, end, states, asked, roots: Sequence[Root], order: int = 1) -> tuple:
    """The state after a step, those at the times that are asked for, and its events.

    Events are found from where SciPy has found them, by Newton steps with a constant slope: one for
    each order of a derivative gives it exactly.
    """
    found, at_found = [], []
    for number, t, slope in roots:
        at: Any = t
        for _ in range(order):
            at = at - problem.event(number, at, _at(states, at)) / slope
        found.append(at)
        at_found.append(_at(states, at))
    between = () if asked is None else (states(asked),)
    return (end, *between, *found, *at_found)


def _at(states: Callable, t):
    return states(PUBLIC["reshape"](t, (1,)))[0]


# --- one step backwards, of plain values ----------------------------------------------------------


def explicit_run(of: tuple, roots: Sequence[Root], begin: tuple, has_times: bool, order: int = 1):
    """What a step gives, as a function of y, of times if there are some, t and h, and the values.

    Those of t and h are there if the ends of the interval are recorded; else they are `begin`.
    """
    flow, method = of

    def run(y, *given):
        asked, given = (given[0], given[1:]) if has_times else (None, given)
        t, h = given[:2] if flow.moves else begin
        problem = flow.initial(given[2 * flow.moves :])
        end, states = method.step(problem.f, t, y, h, has_times or bool(roots))
        return _outputs(problem, end, states, asked, roots, order)

    return run


def residual_run(of: tuple, begin: tuple):
    """The equations of the stages, as a function of Z, y, t and h, and the values."""
    flow, method = of

    def run(z, y, *given):
        t, h = given[:2] if flow.moves else begin
        return method.residual(flow.initial(given[2 * flow.moves :]).f, t, y, h, z)

    return run


def outputs_run(of: tuple, roots: Sequence[Root], begin: tuple, has_times: bool, order: int = 1):
    """As `explicit_run`, of the solution Z of the equations, which comes first."""
    flow, method = of

    def run(z, y, *given):
        asked, given = (given[0], given[1:]) if has_times else (None, given)
        t, h = given[:2] if flow.moves else begin
        end, states = method.step(z, t, y, h)
        return _outputs(flow.initial(given[2 * flow.moves :]), end, states, asked, roots, order)

    return run


def _explicit_adjoint(of: tuple, roots: Sequence[Root], begin: tuple, asked, seeds, values):
    """The state after a step, and the adjoints of y, `asked`, t and h, and the values."""
    t, y, h = begin
    run = explicit_run(of, roots, (t, h), asked is not None)
    ends = [t, h] if of[0].moves else []
    out, back = vjp(run, y, *([] if asked is None else [asked]), *ends, *values)
    return out[0], *back((*seeds,))


def _residual_adjoint(of: tuple, t, y, h, z, seed, *values):
    """The equations of the stages, and the adjoints of y, t and h, and the values from theirs."""
    run = residual_run(of, (t, h))
    ends = [t, h] if of[0].moves else []
    out, back = vjp(lambda *given: run(z, *given), y, *ends, *values)
    return out, *back(seed)


def _to_end(of: tuple, t, y, h, seed, *values):
    return _explicit_adjoint(of, (), (t, y, h), None, [seed], values)


def _with_times(of: tuple, t, y, h, asked, *given):
    return _explicit_adjoint(of, (), (t, y, h), asked, given[:2], given[2:])


def _slopes(of: tuple, t, y, *values):
    """∂f/∂y."""
    return jacobian(lambda y: of[0].initial(values).f(t, y))(y)


def roots_of(plan, k: int) -> list[Root]:
    """The events in a step."""
    found: list[Root] = []
    if not len(plan.roots):
        return found
    for n in np.flatnonzero(plan.places == k).tolist():
        number, at = plan.roots[n]
        t, end = plan.steps.times[k : k + 2].tolist()
        y, h = plan.steps.states[k], end - t

        def value(s, number=number, t=t, y=y, h=h):
            problem = plan.flow.initial(plan.values)
            states = _states_of(plan, problem, k, t, y, h)
            return problem.event(number, s, _at(states, s))

        _, back = vjp(value, at)
        slope = float(back(1.0)[0])
        if not np.isfinite(slope) or slope == 0.0:
            raise ValueError(_TANGENT.format(plan.flow.name, number, at))
        found.append((number, at, slope))
    return found


def _states_of(plan, problem, k: int, t, y, h) -> Callable:
    """The interpolant of a step."""
    method = plan.steps.method
    if method.is_implicit:
        return method.step(plan.steps.kept[k], t, y, h)[1]
    return method.step(problem.f, t, y, h, True)[1]


class SolutionSweep:
    """The adjoints of a solution of a plan, from the last step to the first."""

    def __init__(self, plan, values: Sequence):
        self.plan, self._values, self._steps = plan, values, plan.steps
        self._flow, self._method = plan.flow, plan.steps.method
        self._order = np.argsort(plan.segments, kind="stable")
        limits = np.arange(len(self._steps) + 1)
        self._limits = np.searchsorted(plan.segments[self._order], limits).tolist()
        self._most = int(np.max(np.diff(self._limits), initial=0))
        self._flow.repeated += len(self._steps)
        self._is_many = self._flow.repeated >= MANY_STEPS[self._method.is_implicit]
        self.start = self.end = 0.0
        self.of_times = np.zeros(len(plan.times))
        self.of_values = [np.zeros(np.shape(one)) for one in values]

    def pulled(self, of_states, of_ts, of_between, of_roots) -> tuple:
        """The adjoints of the first state, of the ends, of `times` of the plan, and of the values.

        They are given those of all states and times of steps, of the states at `times`, and of the
        times and states of events.
        """
        self._of_between, self._of_roots = of_between, of_roots
        adjoint = of_states[-1]
        for k in reversed(range(len(self._steps))):
            self._add_end(k + 1, of_ts[k + 1])
            adjoint = of_states[k] + self._back(k, adjoint)
        self.start += of_ts[0]
        if not len(self._steps) and len(of_between):
            adjoint = adjoint + of_between.sum(0)
        return adjoint, (self.start, self.end), self.of_times, self.of_values

    def _add_end(self, k: int, adjoint) -> None:
        """Add the adjoint of the time of a state."""
        if k == len(self._steps) and self._steps.is_whole:
            self.end += adjoint
        else:
            self.start += adjoint

    def _begin(self, k: int) -> tuple:
        """The time and state before a step, and its length."""
        t, end = self._steps.times[k : k + 2].tolist()
        return t, self._steps.states[k], end - t

    def _back(self, k: int, adjoint: np.ndarray) -> np.ndarray:
        """The adjoint of the state before a step from that after it."""
        chosen = self._order[self._limits[k] : self._limits[k + 1]]
        numbers = np.flatnonzero(self.plan.places == k) if self.plan.roots else ()
        asked = self.plan.times[chosen] if len(chosen) else None
        seeds = [adjoint] if asked is None else [adjoint, self._of_between[chosen]]
        roots = roots_of(self.plan, k)
        seeds += [one[n] for one in self._of_roots for n in numbers]
        back = self._back_implicit if self._method.is_implicit else self._back_explicit
        of_y, of_asked, of_ends, of_values = back(k, asked, seeds, roots)
        if asked is not None:
            self.of_times[chosen] += of_asked[: len(chosen)]
        for total, one in zip(self.of_values, of_values, strict=True):
            total += one
        if of_ends:
            self._add_end(k, of_ends[0])
            if k + 1 == len(self._steps) and self._steps.is_whole:
                self._add_end(k + 1, of_ends[1])
                self._add_end(k, -of_ends[1])
        return of_y

    def _back_explicit(self, k: int, asked, seeds: list, roots: Sequence[Root]) -> tuple:
        t, y, h = self._begin(k)
        if self._is_many and not roots and asked is not None:  # as many times in all steps
            more = self._most - len(asked)
            asked = np.append(asked, np.full(more, t + h))
            seeds = [seeds[0], np.concatenate([seeds[1], np.zeros((more, len(y)))])]
        if roots or not self._is_many:
            of = self._flow, self._method
            given = roots, (t, y, h), asked, seeds, self._values
            end, of_y, *found = _explicit_adjoint(of, *given)
        elif asked is None:
            end, of_y, *found = self._function(_to_end)(t, y, h, *seeds, *self._values)
        else:
            end, of_y, *found = self._function(_with_times)(t, y, h, asked, *seeds, *self._values)
        self._check(end - self._steps.states[k + 1], k)
        of_asked = np.asarray(found.pop(0)) if asked is not None else None
        of_ends = [float(found.pop(0)) for _ in range(2)] if self._flow.moves else []
        return np.asarray(of_y), of_asked, of_ends, map(np.asarray, found)

    def _back_implicit(self, k: int, asked, seeds: list, roots: Sequence[Root]) -> tuple:
        t, y, h = self._begin(k)
        z = self._steps.kept[k]
        of_y, of_z = seeds[0], np.zeros_like(z)
        of_z[2] = seeds[0]
        ends = [t, h] if self._flow.moves else []
        of_asked, rest = None, [np.zeros(np.shape(one)) for one in (*ends, *self._values)]
        if asked is not None or roots:
            run = outputs_run((self._flow, self._method), roots, (t, h), asked is not None)
            times = [] if asked is None else [asked]
            _, back = vjp(run, z, y, *times, *ends, *self._values)
            of_z, of_y, *rest = map(np.asarray, back((*seeds,)))
            of_asked = rest.pop(0) if times else None
        factors = self.factors(k)
        seed = -factors.solved(of_z.ravel(), transposed=True).reshape(z.shape)
        out, more, *found = self._function(_residual_adjoint)(t, y, h, z, seed, *self._values)
        self._check(factors.solved(np.ravel(out)), k)
        found = [np.asarray(one) + other for one, other in zip(found, rest, strict=True)]
        of_ends = [float(found.pop(0)) for _ in ends]
        return of_y + np.asarray(more), of_asked, of_ends, found

    def factors(self, k: int) -> Factors:
        """Those of the matrix of a step."""
        return Factors(self._flow.name, self.matrix(k))

    def matrix(self, k: int) -> np.ndarray:
        """The derivative of the equations of the stages of a step to Z."""
        f = self._function(_slopes)
        t, y, h = self._begin(k)
        stages = self._method.stages(t, y, h, self._steps.kept[k])
        return self._method.matrix(h, [np.asarray(f(*one, *self._values)) for one in stages])

    def _function(self, f: Callable) -> Callable:
        """A function of a step, compiled if there are many."""
        of = self._flow, self._method
        if not self._is_many:
            return functools.partial(f, of)
        if f not in self._flow.programs:
            self._flow.programs[f] = compile(lambda *given: f(of, *given))
        return self._flow.programs[f]

    def _check(self, change: np.ndarray, k: int) -> None:
        """Raise an error if a step that is repeated ends elsewhere."""
        if not change.size:
            return
        size = np.abs(self._steps.states[k : k + 2]).max() + 1e-100
        if np.abs(change).max() > self._steps.error * size:
            raise RuntimeError(CHANGED.format(self._flow.name))


# --- all steps, recorded --------------------------------------------------------------------------


def taken(plan, values: Sequence, begun: Sequence, order: int) -> list:
    """All that `Plan.assembled` is given, for values and a beginning that may be recorded."""
    y, start, end, asked = begun
    sweep = SolutionSweep(plan, plan.values)
    steps, problem = plan.steps, plan.flow.initial(values)
    ts = plan.moved(steps.times, start, end)
    states, between, events = [y], [], []
    for k in range(len(steps)):
        t, h = ts[k], steps.times[k + 1] - steps.times[k]
        if steps.is_whole and k + 1 == len(steps) and plan.flow.moves:
            h = ts[k + 1] - t
        chosen = np.flatnonzero(plan.segments == k)
        wanted = asked[chosen] if len(chosen) else None
        roots = roots_of(plan, k)
        y, inner = _step_of(sweep, problem, k, (t, y, h), order)
        y, *found = _outputs(problem, y, inner, wanted, roots, order)
        states.append(y)
        between += [(n, found[0][m]) for m, n in enumerate(chosen.tolist())]
        found = found[1:] if len(chosen) else found
        events += [*zip(found[: len(roots)], found[len(roots) :], strict=True)]
    if not len(steps):
        between = [(n, y) for n in range(len(plan.times))]
    return [_stacked(states), _joined(ts, asked), *_in_order(plan, between, events, y)]


def _step_of(sweep: SolutionSweep, problem, k: int, begin: tuple, order: int) -> tuple:
    """The state after a step, and the interpolant."""
    plan = sweep.plan
    method, (t, y, h) = plan.steps.method, begin
    if not method.is_implicit:
        is_dense = bool((plan.segments == k).any() or (plan.places == k).any())
        return method.step(problem.f, t, y, h, is_dense)
    z = plan.steps.kept[k]
    inverse = np.linalg.inv(sweep.matrix(k))
    for _ in range(order):
        out = PUBLIC["reshape"](method.residual(problem.f, t, y, h, z), (-1,))
        z = z - PUBLIC["reshape"](PUBLIC["matmul"](inverse, out), shape_of(z))
    return method.step(z, t, y, h)


def _stacked(rows: list):
    return PUBLIC["stack"](rows)


def _joined(*parts):
    return PUBLIC["concatenate"](list(parts))


def _in_order(plan, between: list, events: list, y) -> list:
    """The states at `times`, and the times and states of events, in the order of the plan."""
    none = np.zeros((0, shape_of(y)[0]))
    between = [state for _, state in sorted(between, key=lambda one: one[0])]
    by_step = np.argsort(plan.places, kind="stable")
    placed = [events[n] for n in np.argsort(by_step).tolist()] if events else []
    return [
        _stacked(between) if between else none,
        _stacked([t for t, _ in placed]) if placed else np.zeros(0),
        _stacked([state for _, state in placed]) if placed else none,
    ]


_TANGENT = (
    "tapegrad.{}: event {} at t = {} is no simple root: the event function does not change its "
    "sign with a slope there, and the time of the event has no derivative"
)

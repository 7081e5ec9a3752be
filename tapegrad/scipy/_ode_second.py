"""Tangents of solutions and of their adjoints, step by step, of plain values.

A forward pass moves the states along the tangents of the inputs; a backward pass has the adjoints
and how these change. Both keep one state and one tangent for each step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._program.compile import compile
from .._transforms.jacobians import jvp, vjp
from ._ode_sweep import (
    Root,
    SolutionSweep,
    explicit_run,
    outputs_run,
    residual_run,
    roots_of,
)

#: What a step is told: its number, the places of times in it, the times, and events.
_Told = tuple[int, np.ndarray, Any, list[Root]]


def _change(run: Callable, at: Sequence, moves: Sequence) -> list[np.ndarray]:
    """The tangent of what a function gives."""
    return [np.asarray(one) for one in jvp(run, tuple(at), tuple(moves))[1]]


def _adjoint_change(run: Callable, seeds: Sequence, at: Sequence, moves: tuple) -> tuple:
    """The adjoints of arguments, and their tangent; `moves` are those of seeds and arguments."""
    count = len(seeds)

    def adjoint(*given):
        return [*vjp(run, *given[count:])[1](tuple(given[:count]))]

    return jvp(adjoint, (*seeds, *at), (*moves[0], *moves[1]))


def _with_zeros(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows, and as many of zeros as make a number of them."""
    more = np.zeros((count - len(rows), *rows.shape[1:]))
    return np.concatenate([rows, more]) if len(more) else rows


# --- functions of a step, which are compiled if there are many ------------------------------------
# They are given the flow and its method, whether there are times, t and h; then arguments of a run,
# and as many tangents.


def _explicit_change(of: tuple, has_times: bool, t, h, *given):
    return _run_change(explicit_run(of, (), (t, h), has_times), given)


def _outputs_change(of: tuple, has_times: bool, t, h, *given):
    return _run_change(outputs_run(of, (), (t, h), has_times, 2), given)


def _run_change(run: Callable, given: tuple):
    half = len(given) // 2
    return jvp(run, given[:half], given[half:])[1]


def _residual_change(of: tuple, has_times: bool, t, h, z, *given):
    """The tangent of the equations of the stages Z, which stay."""
    run, half = residual_run(of, (t, h)), len(given) // 2
    return (jvp(lambda *given: run(z, *given), given[:half], given[half:])[1],)


def _explicit_adjoint_change(of: tuple, has_times: bool, t, h, *given):
    return _run_adjoint_change(explicit_run(of, (), (t, h), has_times), 1 + has_times, given)


def _outputs_adjoint_change(of: tuple, has_times: bool, t, h, *given):
    return _run_adjoint_change(outputs_run(of, (), (t, h), has_times, 2), 1 + has_times, given)


def _residual_adjoint_change(of: tuple, has_times: bool, t, h, *given):
    run = residual_run(of, (t, h))
    return _run_adjoint_change(lambda *given: (run(*given),), 1, given)


def _run_adjoint_change(run: Callable, count: int, given: tuple):
    """The same as `_adjoint_change`; the first `count` are seeds."""
    half = len(given) // 2
    moves = given[half : half + count], given[half + count :]
    return _adjoint_change(run, given[:count], given[count:half], moves)


def _residual_back(of: tuple, has_times: bool, t, h, seed, z, *given):
    run = residual_run(of, (t, h))
    return vjp(lambda *given: run(z, *given), *given)[1](seed)


class Tangents(SolutionSweep):
    """The tangent of a solution, and that of its adjoints.

    `begun` are the tangents of the first state, of the ends and of `times` of the plan, `moves`
    those of the values.
    """

    def __init__(self, plan, values: Sequence, begun: Sequence, moves: Sequence):
        super().__init__(plan, values)
        self._moves = [np.asarray(one, dtype=float) for one in moves]
        self._y, self._ends, self._times = begun[0], begun[1:3], begun[3]
        self.states: list[np.ndarray] = []
        self._stages: list[np.ndarray] = []  # tangents of Z

    def _told(self, k: int) -> _Told:
        chosen = self._order[self._limits[k] : self._limits[k + 1]]
        asked, roots = self.plan.times[chosen] if len(chosen) else None, roots_of(self.plan, k)
        if asked is not None and self._is_many and not roots:
            more = self._most - len(asked)  # as many times in all steps
            asked = np.append(asked, np.full(more, self._steps.times[k + 1]))
        return k, chosen, asked, roots

    def _arguments(self, told: _Told) -> tuple[list, list]:
        """The arguments of a step but Z: y, times, t and h, and the values; and their tangents."""
        k, chosen, asked, _ = told
        t, y, h = self._begin(k)
        at, moves = [y], [self.states[k]]
        if asked is not None:
            at.append(asked)
            moves.append(_with_zeros(self._times[chosen], len(asked)))
        if self._flow.moves:
            is_last = self._steps.is_whole and k + 1 == len(self._steps)
            at += [np.asarray(t), np.asarray(h)]
            moves += [self._ends[0], self._ends[1] - self._ends[0] if is_last else np.zeros(())]
        at += [np.asarray(one, dtype=float) for one in self._values]
        return at, [*map(np.asarray, moves), *self._moves]

    # --- forwards -----------------------------------------------------------------------------

    def pushed(self) -> list:
        """The tangents of all that `Plan.assembled` is given."""
        plan, size = self.plan, len(self._y)
        between = np.zeros((len(plan.times), size))
        roots, at_roots = np.zeros(len(plan.roots)), np.zeros((len(plan.roots), size))
        self.states = [np.asarray(self._y)]
        for k in range(len(self._steps)):
            told = self._told(k)
            end, *found = self._pushed(told)
            self.states.append(end)
            if told[2] is not None:
                between[told[1]] = found.pop(0)[: len(told[1])]
            numbers, count = np.flatnonzero(plan.places == k), len(told[3])
            if count:
                roots[numbers], at_roots[numbers] = found[:count], found[count:]
        if not len(self._steps):
            between[:] = self._y
        ts = np.full(len(self._steps.times), float(self._ends[0]))
        if self._steps.is_whole:
            ts[-1] = self._ends[1]
        return [np.array(self.states), np.append(ts, self._times), between, roots, at_roots]

    def _pushed(self, told: _Told) -> list[np.ndarray]:
        k, _, asked, roots = told
        of = self._flow, self._method
        t, _, h = self._begin(k)
        at, moves = self._arguments(told)
        has_times = asked is not None
        if not self._method.is_implicit:
            if roots:
                return _change(explicit_run(of, roots, (t, h), has_times, 2), at, moves)
            return self._of_step(_explicit_change, has_times)(t, h, *at, *moves)
        z, skip = self._steps.kept[k], 1 + has_times
        still = at[0], *at[skip:], moves[0], *moves[skip:]
        (change,) = self._of_step(_residual_change)(t, h, z, *still)
        of_z = -self.factors(k).solved(change.ravel()).reshape(z.shape)
        self._stages.append(of_z)
        if roots:
            return _change(outputs_run(of, roots, (t, h), has_times, 2), [z, *at], [of_z, *moves])
        return self._of_step(_outputs_change, has_times)(t, h, z, *at, of_z, *moves)

    def _of_step(self, f: Callable, has_times: bool = False) -> Callable:
        """A function of a step with times or without, of arrays; compiled if there are many."""
        key, programs = (f, has_times), self._flow.programs
        run = functools.partial(f, (self._flow, self._method), has_times)
        if self._is_many and key not in programs:
            programs[key] = compile(lambda *given: run(*given))
        made = programs[key] if self._is_many else run
        return lambda *given: _arrays(made(*given))

    # --- backwards ----------------------------------------------------------------------------

    def pulled(self, of_states, of_ts, of_between, of_roots) -> tuple:
        """The tangents of what `SolutionSweep.pulled` gives, after `pushed`."""
        self._of_between, self._of_roots = of_between, of_roots
        adjoint, change = of_states[-1], np.zeros(len(self._y))
        for k in reversed(range(len(self._steps))):
            found, of_change = self._pulled(k, adjoint, change)
            adjoint = of_states[k] + np.asarray(found)
            change = self._add(k, [*map(np.asarray, of_change)])
        return change, (self.start, self.end), self.of_times, self.of_values

    def _add(self, k: int, found: list[np.ndarray]) -> np.ndarray:
        """Add tangents of adjoints of the arguments of a step; returns that of the state."""
        chosen = self._order[self._limits[k] : self._limits[k + 1]]
        change = found.pop(0)
        if len(chosen):
            self.of_times[chosen] += found.pop(0)[: len(chosen)]
        if self._flow.moves:
            self._add_end(k, found.pop(0))
            length = found.pop(0)
            if k + 1 == len(self._steps) and self._steps.is_whole:
                self._add_end(k + 1, length)
                self._add_end(k, -length)
        for total, one in zip(self.of_values, found, strict=True):
            total += one
        return change

    def _pulled(self, k: int, adjoint, change) -> tuple:
        """The adjoint of the state before a step, and the tangents of those of all arguments."""
        told = self._told(k)
        _, chosen, asked, roots = told
        of = self._flow, self._method
        t, _, h = self._begin(k)
        at, moves = self._arguments(told)
        numbers = np.flatnonzero(self.plan.places == k)
        seeds = [adjoint]
        if asked is not None:
            seeds.append(_with_zeros(self._of_between[chosen], len(asked)))
        seeds += [np.asarray(one[n]) for one in self._of_roots for n in numbers]
        of_seeds = [change, *[np.zeros(np.shape(one)) for one in seeds[1:]]]
        if self._method.is_implicit:
            return self._pulled_implicit(told, (at, moves), (seeds, of_seeds))
        if roots:
            run = explicit_run(of, roots, (t, h), asked is not None, 2)
            found, changes = _adjoint_change(run, seeds, at, (of_seeds, moves))
        else:
            f = self._of_step(_explicit_adjoint_change, asked is not None)
            found, changes = f(t, h, *seeds, *at, *of_seeds, *moves)
        return found[0], changes

    def _pulled_implicit(self, told: _Told, arguments: tuple, seeds: tuple) -> tuple:
        k, _, asked, roots = told
        of, (at, moves) = (self._flow, self._method), arguments
        t, _, h = self._begin(k)
        z, of_z, skip = self._steps.kept[k], self._stages[k], 1 + (asked is not None)
        if roots:
            run = outputs_run(of, roots, (t, h), asked is not None, 2)
            moved = seeds[1], (of_z, *moves)
            both = _adjoint_change(run, seeds[0], (z, *at), moved)
            (adjoint, of_y, *_), (change, *changes) = _arrays(both)
        else:
            f = self._of_step(_outputs_adjoint_change, asked is not None)
            both = f(t, h, *seeds[0], z, *at, *seeds[1], of_z, *moves)
            (adjoint, of_y, *_), (change, *changes) = both
        factors = self.factors(k)
        seed = -factors.solved(np.ravel(adjoint), transposed=True).reshape(z.shape)
        still = (z, at[0], *at[skip:]), (of_z, moves[0], *moves[skip:])
        f = self._of_step(_residual_adjoint_change)
        more, more_change = f(t, h, seed, *still[0], np.zeros_like(seed), *still[1])
        right = change + more_change[0]
        of_seed = -factors.solved(right.ravel(), transposed=True).reshape(z.shape)
        back = self._of_step(_residual_back)(t, h, of_seed, *still[0])
        rest = [one + other for one, other in zip(more_change[1:], back, strict=True)]
        changes[0] = changes[0] + rest[0]
        changes[skip:] = [one + other for one, other in zip(changes[skip:], rest[1:], strict=True)]
        return of_y + more[1], changes


def _arrays(found) -> Any:
    """What a function of a step gives, as arrays: a list, or one of them."""
    return [_arrays(one) if isinstance(one, (tuple, list)) else np.asarray(one) for one in found]

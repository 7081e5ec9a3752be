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


def _explicit_change(of: tuple, has_times: bool, t, h, *given):
    half = len(given) // 2
    run = explicit_run(of, (), (t, h), has_times)
    return jvp(run, given[:half], given[half:])[1]


def _explicit_adjoint_change(of: tuple, has_times: bool, t, h, *given):
    count, half = 1 + has_times, len(given) // 2
    run = explicit_run(of, (), (t, h), has_times)
    moves = given[half : half + count], given[half + count :]
    return _adjoint_change(run, given[:count], given[count:half], moves)


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
        if asked is not None and self._is_many and not self._method.is_implicit and not roots:
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
        if not self._method.is_implicit:
            if roots or not self._is_many:
                run = explicit_run(of, roots, (t, h), asked is not None, 2)
                return _change(run, at, moves)
            f = self._of_times(_explicit_change, asked)
            return [np.asarray(one) for one in f(t, h, *at, *moves)]
        z, skip = self._steps.kept[k], 1 + (asked is not None)
        still = [at[0], *at[skip:]], [moves[0], *moves[skip:]]
        run = residual_run(of, (t, h))
        change = np.asarray(jvp(lambda *given: run(z, *given), *map(tuple, still))[1])
        of_z = -self.factors(k).solved(change.ravel()).reshape(z.shape)
        self._stages.append(of_z)
        run = outputs_run(of, roots, (t, h), asked is not None, 2)
        return _change(run, [z, *at], [of_z, *moves])

    def _of_times(self, f: Callable, asked) -> Callable:
        """A function of a step with times or without, compiled."""
        of, key = (self._flow, self._method), (f, asked is not None)
        if key not in self._flow.programs:
            made = functools.partial(f, of, asked is not None)
            self._flow.programs[key] = compile(lambda *given: made(*given))
        return self._flow.programs[key]

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
        if roots or not self._is_many:
            run = explicit_run(of, roots, (t, h), asked is not None, 2)
            found, changes = _adjoint_change(run, seeds, at, (of_seeds, moves))
        else:
            f = self._of_times(_explicit_adjoint_change, asked)
            found, changes = f(t, h, *seeds, *at, *of_seeds, *moves)
        return found[0], changes

    def _pulled_implicit(self, told: _Told, arguments: tuple, seeds: tuple) -> tuple:
        k, _, asked, roots = told
        of, (at, moves) = (self._flow, self._method), arguments
        t, y, h = self._begin(k)
        z, of_z, skip = self._steps.kept[k], self._stages[k], 1 + (asked is not None)
        run = outputs_run(of, roots, (t, h), asked is not None, 2)
        moved = seeds[1], (of_z, *moves)
        found, changes = _adjoint_change(run, seeds[0], (z, *at), moved)
        (adjoint, of_y), (change, *changes) = found[:2], map(np.asarray, changes)
        factors = self.factors(k)
        seed = -factors.solved(np.ravel(adjoint), transposed=True).reshape(z.shape)
        equations = residual_run(of, (t, h))
        still = (z, at[0], *at[skip:]), (of_z, moves[0], *moves[skip:])
        moved = (np.zeros_like(seed),), still[1]
        more, more_change = _adjoint_change(
            lambda *given: (equations(*given),), (seed,), still[0], moved
        )
        right = change + np.asarray(more_change[0])
        of_seed = -factors.solved(right.ravel(), transposed=True).reshape(z.shape)
        _, back = vjp(lambda *given: equations(z, *given), *still[0][1:])
        of_rest = zip(more_change[1:], back(of_seed), strict=True)
        rest = [np.asarray(one) + np.asarray(other) for one, other in of_rest]
        changes[0] = changes[0] + rest[0]
        changes[skip:] = [one + other for one, other in zip(changes[skip:], rest[1:], strict=True)]
        return np.asarray(of_y) + np.asarray(more[1]), changes

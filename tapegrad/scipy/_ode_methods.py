"""Steps of SciPy's methods for initial value problems, written with operations.

A step maps the state y at t to that at t + h, and to states in between by the interpolant of the
method. SciPy has taken the steps; the methods here repeat them for derivatives. Times may be
recorded, and so may what the right-hand side reads.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC


def _combined(weights: np.ndarray, parts: list) -> Any:
    """The sum of parts by their weights, of which some are 0."""
    terms = [w * part for w, part in zip(weights.tolist(), parts, strict=True) if w]
    return functools.reduce(lambda a, b: a + b, terms)


def _powers(x, count: int):
    """The powers of numbers from the first on, one row for each number."""
    rows = [x]
    for _ in range(count - 1):
        rows.append(rows[-1] * x)
    return PUBLIC["stack"](rows, axis=1)


class Explicit:
    """RK23 or RK45: all stages of a step are those of a table, the last is at its end."""

    is_implicit = False

    def __init__(self, name: str):
        kind = getattr(importlib.import_module("scipy.integrate"), name)
        self.name = name
        self._A, self._B, self._C, self._P = kind.A, kind.B, kind.C, getattr(kind, "P", None)

    def step(self, f: Callable, t, y, h, is_dense: bool) -> tuple:
        """The state after a step, and the function of times for the states in between, a row each.

        It is None unless `is_dense`.
        """
        slopes = [f(t, y)]
        for k in range(1, len(self._C)):
            change = _combined(self._A[k, :k], slopes) * h
            slopes.append(f(t + self._C[k] * h, y + change))
        end = y + h * _combined(self._B, slopes)
        if not is_dense:
            return end, None
        slopes.append(f(t + h, end))
        states = self._interpolant(f, t, y, h, end, slopes)
        return end, lambda times: states((times - t) / h)

    def _interpolant(self, f: Callable, t, y, h, end, slopes: list) -> Callable:
        stages = PUBLIC["stack"](slopes)

        def states(x):
            weights = PUBLIC["matmul"](_powers(x, self._P.shape[1]), self._P.T)
            return y + h * PUBLIC["matmul"](weights, stages)

        return states


class EighthOrder(Explicit):
    """DOP853, whose interpolant has three stages of its own."""

    def __init__(self):
        super().__init__("DOP853")
        kind = importlib.import_module("scipy.integrate").DOP853
        self._more, self._D = (kind.A_EXTRA, kind.C_EXTRA), kind.D

    def _interpolant(self, f: Callable, t, y, h, end, slopes: list) -> Callable:
        last = slopes[-1]
        for a, c in zip(*self._more, strict=True):
            slopes.append(f(t + c * h, y + _combined(a[: len(slopes)], slopes) * h))
        change, first = end - y, slopes[0]
        parts = [change, h * first - change, 2.0 * change - h * (last + first)]
        parts += [h * _combined(row, slopes) for row in self._D]

        def states(x):
            x = PUBLIC["reshape"](x, (-1, 1))
            found = 0.0 * x
            for k, part in enumerate(reversed(parts)):
                found = (found + part) * (x if k % 2 == 0 else 1.0 - x)
            return y + found

        return states


class Collocation:
    """Radau: the method of Radau IIA of three stages, whose equations a step solves.

    The stages are y + Z. `kept` has the Z that SciPy's Newton method has found, from which further
    steps are taken with the same matrix: one for each order of a derivative gives it exactly.
    """

    is_implicit = True
    name = "Radau"
    _S = 6.0**0.5
    _C = np.array([(4 - _S) / 10, (4 + _S) / 10, 1.0])
    weights = np.array(
        [
            [(88 - 7 * _S) / 360, (296 - 169 * _S) / 1800, (-2 + 3 * _S) / 225],
            [(296 + 169 * _S) / 1800, (88 + 7 * _S) / 360, (-2 - 3 * _S) / 225],
            [(16 - _S) / 36, (16 + _S) / 36, 1 / 9],
        ]
    )
    _P = np.array(
        [
            [13 / 3 + 7 * _S / 3, -23 / 3 - 22 * _S / 3, 10 / 3 + 5 * _S],
            [13 / 3 - 7 * _S / 3, -23 / 3 + 22 * _S / 3, 10 / 3 - 5 * _S],
            [1 / 3, -8 / 3, 10 / 3],
        ]
    )

    def stages(self, t: float, y: np.ndarray, h: float, kept: np.ndarray) -> list[tuple]:
        """The times and states of the stages, of plain values."""
        return [(t + c * h, y + z) for c, z in zip(self._C, kept, strict=True)]

    def matrix(self, h: float, jacobians: list[np.ndarray]) -> np.ndarray:
        """The derivative of the equations of the stages to Z, from ∂f/∂y of each stage."""
        n = len(jacobians[0])
        found = np.empty((3, n, 3, n))
        for j, one in enumerate(jacobians):
            found[:, :, j] = -h * self.weights[:, j][:, None, None] * one
        found[[0, 1, 2], :, [0, 1, 2]] += np.eye(n)
        return found.reshape(3 * n, 3 * n)

    def residual(self, f: Callable, t, y, h, z):
        """What is 0 for the Z of the stages, in the shape of Z."""
        slopes = [f(t + c * h, y + z[k]) for k, c in enumerate(self._C)]
        return z - h * PUBLIC["matmul"](self.weights, PUBLIC["stack"](slopes))

    def step(self, z, t, y, h) -> tuple:
        """As that of `Explicit`, from the solution Z of the equations."""

        def states(times):
            weights = PUBLIC["matmul"](_powers((times - t) / h, 3), self._P.T)
            return y + PUBLIC["matmul"](weights, z)

        return y + z[2], states


@functools.cache
def method_of(name: str) -> Any:
    """The method by which the steps of one of SciPy's are repeated.

    Derivatives of BDF and LSODA are those of Radau at the same tolerances.
    """
    if name in ("RK23", "RK45"):
        return Explicit(name)
    return EighthOrder() if name == "DOP853" else Collocation()

"""Methods as the kernels of `_ode_kernels` and `_ode_stiff_kernels` know them: words and memory.

All numbers are read from SciPy's classes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import numpy as np

from .._core.tape.sweeps import memory_of
from . import _ode_kernels as kernels
from . import _ode_stiff_kernels as stiff
from ._ode_methods import method_of
from ._ode_records import integrate

#: Numbers that are computed in about a tenth of a second.
_NUMBERS = 1 << 17


class ExplicitTables:
    """The tables of one of SciPy's explicit methods, extended by the stages after a step.

    The state at a part x of a step is y + h · the sum of slopes with weights, which are polynomials
    of x without a constant: `P` has their coefficients.
    """

    #: The most elements of a state, and whether rows of steps may be fewer than steps.
    most, is_thinned = np.inf, True
    begin, advance, pull, push = "begin", "advance", "pull", "push"
    interpolant = "RkDenseOutput"

    def __init__(self, name: str):
        kind = getattr(integrate(), name)
        more, count = getattr(kind, "A_EXTRA", np.zeros((0, 0))), kind.n_stages
        self.stages, self.runs = count + 1, count + 1 + len(more)
        self.A, self.C = np.zeros((self.runs,) * 2), np.zeros(self.runs)
        self.A[:count, : kind.A.shape[1]], self.C[:count] = kind.A, kind.C
        self.A[count, :count], self.C[count] = kind.B, 1.0
        if name == "DOP853":
            self.A[count + 1 :, : more.shape[1]], self.C[count + 1 :] = more, kind.C_EXTRA
            self.E, self.P = np.array([kind.E5, kind.E3]), self._nested(kind.D)
        else:
            self.E, self.P = np.array([kind.E]), np.ascontiguousarray(kind.P)
        self.module = integrate().RK45.__module__
        rules = importlib.import_module(self.module)
        self._keep = tables = {
            kernels.A: self.A,
            kernels.C: self.C,
            kernels.E: self.E,
            kernels.P: self.P,
        }
        numbers = {
            kernels.EXPONENT: -1.0 / (kind.error_estimator_order + 1),
            kernels.SAFETY: rules.SAFETY,
            kernels.MIN_FACTOR: rules.MIN_FACTOR,
            kernels.MAX_FACTOR: rules.MAX_FACTOR,
        }
        words = {
            kernels.STAGES: self.stages,
            kernels.ALL_STAGES: self.runs,
            kernels.POWERS: self.P.shape[1],
            kernels.IS_EIGHTH: name == "DOP853",
            kernels.STRIDE: 1,
        }
        self.words = _words(kernels.SOLVE_WORDS, words, numbers, tables)

    @property
    def compiled(self) -> dict[str, Callable]:
        return kernels.compiled()

    def _nested(self, D: np.ndarray) -> np.ndarray:
        """The interpolant of DOP853, which SciPy has as nested products of x and 1 − x."""
        last, unit = self.stages - 1, np.eye(self.runs)
        change = self.A[last]
        parts = [change, unit[0] - change, 2.0 * change - unit[last] - unit[0], *D]
        found = np.zeros((self.runs, len(parts) + 1))
        for k, part in enumerate(reversed(parts)):
            found[:, 0] += part
            times_x = np.roll(found, 1, axis=1)
            found = times_x if k % 2 == 0 else found - times_x
        return np.ascontiguousarray(found[:, 1:])

    def turn(self, size: int) -> int:
        """The number of steps in one call of compiled code, after which Python looks around."""
        return max(1, _NUMBERS // (8 + size))

    def width(self, size: int) -> int:
        """The numbers of a row for a step."""
        return kernels.ROW_STATE // 8 + size

    def sizes(self, size: int) -> dict[int, int]:
        """The numbers for which there is room, by the words of their addresses."""
        states = kernels.NEXT, kernels.SUMS, kernels.STATES, kernels.NEXT_CHANGE
        made = {word: size for word in states}
        rows = kernels.SLOPES, kernels.ADJOINTS, kernels.CHANGES
        made.update({word: self.runs * size for word in rows})
        return {**made, kernels.WEIGHTS: self.runs}


class RadauTables:
    """The numbers of SciPy's Radau."""

    #: The matrix of all stages is solved with for adjoints: of three times as many rows.
    most, is_thinned = 200, False
    begin, advance = "begin_implicit", "advance_implicit"
    pull, push, interpolant = "pull_implicit", "push_implicit", "RadauDenseOutput"
    runs = 3

    def __init__(self):
        self.module = integrate().Radau.__module__
        theirs = importlib.import_module(self.module)
        self.P = np.array(theirs.P, dtype=float)
        self._keep = tables = {
            stiff.NODES: np.array(theirs.C, dtype=float),
            stiff.INVERSE: np.array(theirs.TI, dtype=float),
            stiff.TRANSFORM: np.array(theirs.T, dtype=float),
            stiff.ESTIMATE: np.array(theirs.E, dtype=float),
            stiff.POLYNOMIALS: self.P,
            stiff.WEIGHTS_OF_STAGES: method_of("Radau").weights,
        }
        numbers = {
            kernels.EXPONENT: -0.25,
            kernels.MIN_FACTOR: theirs.MIN_FACTOR,
            kernels.MAX_FACTOR: theirs.MAX_FACTOR,
            stiff.REAL: theirs.MU_REAL,
            stiff.COMPLEX: theirs.MU_COMPLEX.real,
            stiff.IMAGINARY: theirs.MU_COMPLEX.imag,
            stiff.LAST_ERROR: -1.0,
        }
        words = {stiff.MOST: theirs.NEWTON_MAXITER, kernels.STRIDE: 1}
        self.words = _words(stiff.RADAU_WORDS, words, numbers, tables)

    @property
    def compiled(self) -> dict[str, Callable]:
        return stiff.compiled()

    def turn(self, size: int) -> int:
        """As that of `ExplicitTables`."""
        return max(1, _NUMBERS // (8 + size**2))

    def width(self, size: int) -> int:
        """The numbers of a row for a step."""
        return kernels.ROW_STATE // 8 + 4 * size

    def sizes(self, size: int) -> dict[int, int]:
        """The numbers for which there is room, by the words of their addresses."""
        states = kernels.NEXT, kernels.SUMS, stiff.OLD_STATE, stiff.REAL_PIVOTS
        rows = stiff.STAGES_GUESS, stiff.STAGES_Z, stiff.STAGES_W, stiff.STAGES_CHANGE
        made = {word: size for word in (*states, stiff.COMPLEX_PIVOTS)}
        every = *rows, stiff.OLD_STAGES, stiff.PIVOTS, kernels.CHANGES
        made.update({word: 3 * size for word in every})
        made.update({stiff.COMPLEX_SIDE: 2 * size, kernels.SLOPES: 4 * size})
        made.update({word: size * size for word in (stiff.JACOBIAN, stiff.REAL_FACTORS)})
        return {**made, stiff.COMPLEX_FACTORS: 2 * size * size, stiff.MATRIX: 9 * size * size}


def _words(count: int, words: dict, numbers: dict, tables: dict) -> np.ndarray:
    """The words of a solve that are those of the method."""
    made = np.zeros(count, np.int64)
    for word, value in words.items():
        made[word // 8] = value
    for word, number in numbers.items():
        made.view(np.float64)[word // 8] = number
    for word, array in tables.items():
        made[word // 8] = memory_of(array)
    return made


@functools.cache
def tables_of(name: str) -> ExplicitTables | RadauTables:
    """The tables of a method."""
    return RadauTables() if name == "Radau" else ExplicitTables(name)

"""Equations linearised at their solution, with plain values: a Jacobian, factorised once."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.remembered import remembered
from .._core.tensor import runtime as rt
from .._core.tensor.trace import Trace, refuse
from .._core.tensor.values import array_of, is_recorded, value_of
from .._custom.closures import CapturedCall, Strays
from .._derivatives.inputs import Inputs, InputTensors
from .._derivatives.recorded_reverse import depends_on_others
from .._entering.entering import entering
from .._transforms.gradients import pulled, pushed
from .._transforms.jacobians import rows_of

#: Parts of the length of a solution: a Newton step that is longer than the first is warned of, one
#: that is longer than the second shows that the equations have changed.
LONG_STEP, SHORT_STEP = 1e-3, 1e-6
#: Unknowns of which the whole Jacobian is computed without asking whether it is diagonal.
SMALL = 32


class SingularJacobian(np.linalg.LinAlgError):
    """The equations have no unique solution nearby: none has a derivative."""


def as_inputs(name: str, needs, x, values) -> tuple[list, list]:
    """The unknowns, and the values that need a derivative, as inputs; x and all values with them.

    The others are given as they are: whole numbers, truths.
    """
    needed = [one for one, need in zip(values, needs, strict=True) if need]
    inputs = Inputs(name, (x, *needed), tuple(range(1 + len(needed))))
    found = iter(inputs.args[1:])
    pairs = zip(values, needs, strict=True)
    return inputs.tensors, [inputs.args[0], *[next(found) if need else one for one, need in pairs]]


def check_reads(call: CapturedCall, made: Callable[[], tuple], computed: Callable) -> None:
    """Raise an error, or refuse the trace, if functions read recorded values that are not found.

    A program repeats the call without Python telling it of these. `made()` gives inputs and what
    is given to `computed`, which gives the results.
    """
    trace = Trace(lambda: ()) if call.is_traced else None
    with rt.tracing(trace), rt.recording():
        if trace is not None:
            trace.now()
        tensors, given = made()
        strays = Strays(tensors)
        read = computed(given)
        if trace is not None:
            read += [*[one.tensor for one in trace.guards], *trace.required]
        is_stray = strays.are_in(read)
    if is_stray and trace is None:
        raise TypeError(STRAY.format(call.name))
    if trace is not None and (is_stray or trace.refusal):
        refuse(trace.refusal or STRAY.format(call.name))


def is_decided(aux) -> bool:
    """Whether it is known of each constraint if it is active."""
    return not any([np.isnan(one).any() for one in aux])


def is_long(step: np.ndarray, x: np.ndarray, part: float) -> bool:
    """Whether a step from x is longer than a part of its length."""
    length = np.max(np.abs(step), initial=0.0)
    return bool(length > part * max(1e-3, np.max(np.abs(x), initial=0.0)))


@dataclasses.dataclass(frozen=True)
class JacobianPattern:
    """Where a square matrix is not 0, and groups of columns that have no row in common.

    Element (rows[k], columns[k]) is one of the matrix; column j is in the group groups[j]. The sum
    of the columns of a group has all of their elements.
    """

    rows: np.ndarray
    columns: np.ndarray
    groups: np.ndarray


class Linearised:
    """The equations F(x, values) = 0 at a solution: a recording of them, and factors of ∂F/∂x.

    Adjoints and tangents of x are carried to and from those of the values.
    """

    def __init__(self, problem, needs, x: np.ndarray, aux, values):
        self.name, self.x, self._needs = problem.name, x, needs
        self._is_decided = is_decided(aux)
        with rt.tracing(None), rt.recording():
            tensors, given = as_inputs(self.name, needs, x, values)
            self.out = problem.residual(given[0], aux, given[1:], entering)
            if not problem.is_traced and is_recorded(self.out):  # else it has been checked
                if depends_on_others([self.out], tensors):
                    raise TypeError(STRAY.format(self.name))
        self._tensors = tensors
        self._pattern = problem.pattern_of(aux, values) if x.size > SMALL else None

    @remembered
    def factors(self) -> Factors | Diagonal | PatternFactors:
        """Those of ∂F/∂x."""
        if not self._is_decided:
            raise undecided(self.name)
        if self.x.size == 1:
            return Diagonal(self.name, np.ravel(self._slopes[0]))
        if self._pattern is not None and (factors := self._sparse(self._pattern)) is not None:
            return factors
        if self.x.size > SMALL and (found := self._diagonal()) is not None:
            return found
        with rt.tracing(None):
            (matrix,) = rows_of(self.out, InputTensors(self._tensors[:1]), False)
        return Factors(self.name, np.reshape(array_of(matrix), (self.x.size, self.x.size)))

    def _sparse(self, pattern: JacobianPattern) -> PatternFactors | None:
        """The factors by one tangent for each group of columns; None if a random one is another."""
        count = 1 + int(pattern.groups.max())
        seeds = np.zeros((count + 1, self.x.size))
        seeds[pattern.groups, np.arange(self.x.size)] = 1.0
        seeds[count] = probe = np.random.default_rng(0).uniform(0.5, 1.0, self.x.size)
        with rt.tracing(None), rt.recording():
            x = InputTensors(self._tensors[:1])
            (found,) = pushed([self.out], x, [seeds.reshape(-1, *self.x.shape)], False)
        *sums, moved = np.reshape(value_of(found), (count + 1, -1))
        rows, columns = pattern.rows, pattern.columns
        elements = np.array(sums)[pattern.groups[columns], rows]
        parts = elements * probe[columns]
        length = np.bincount(rows, np.abs(parts), self.x.size)
        if not np.all(np.abs(np.bincount(rows, parts, self.x.size) - moved) <= 1e-12 * length):
            return None
        return PatternFactors(self.name, elements, pattern, self.x.size)

    @remembered
    def _slopes(self) -> list[np.ndarray]:
        """Of one equation: the derivatives by the unknown and by the values, in one sweep."""
        if not is_recorded(self.out):
            return [np.zeros(np.shape(value_of(one))) for one in self._tensors]
        with rt.tracing(None):
            found = pulled([self.out], InputTensors(self._tensors), [np.ones(self.x.shape)], False)
        return [np.asarray(one) for one in found]

    def _diagonal(self) -> Diagonal | None:
        """The diagonal of ∂F/∂x if it is diagonal: if a random product of it says so."""
        if not is_recorded(self.out):
            return None
        probe = np.random.default_rng(0).uniform(0.5, 1.0, self.x.shape)
        x = InputTensors(self._tensors[:1])
        with rt.tracing(None):
            (ones,) = pulled([self.out], x, [np.ones(self.x.shape)], False)
            (found,) = pulled([self.out], x, [probe], False)
        if not np.allclose(found, probe * ones, rtol=1e-13, atol=0.0):
            return None
        return Diagonal(self.name, np.ravel(ones))

    def is_far(self) -> bool:
        """Whether Newton's method would leave x by a long step: it is not close to a solution."""
        return self._is_long(array_of(self.out), LONG_STEP)

    def is_other(self, out: np.ndarray) -> bool:
        """Whether F, computed again, has another value than before."""
        return self._is_long(out - array_of(self.out), SHORT_STEP)

    def _is_long(self, residual: np.ndarray, part: float) -> bool:
        return is_long(self.factors.solved(np.ravel(residual)), self.x, part)

    def pulled(self, g: np.ndarray) -> list:
        """The adjoints of the values from that of x, None for those that are not needed."""
        seed = -self.factors.solved(np.ravel(g), transposed=True).reshape(self.x.shape)
        if self.x.size == 1:
            factor = seed.item()
            parts = [factor * one if factor else np.zeros(one.shape) for one in self._slopes[1:]]
            found = iter(parts)
            return [next(found) if need else None for need in self._needs]
        with rt.tracing(None):
            found = iter(pulled([self.out], InputTensors(self._tensors[1:]), [seed], False))
        return [next(found) if need else None for need in self._needs]

    def pushed(self, tangents: list) -> np.ndarray:
        """The tangent of x from those of the values; None for one that does not change."""
        needed = [t for t, need in zip(tangents, self._needs, strict=True) if need]
        given = zip(self._tensors[1:], needed, strict=True)
        pairs = [(one, t) for one, t in given if t is not None]
        inputs, seeds = InputTensors([one for one, _ in pairs]), [t[None] for _, t in pairs]
        with rt.tracing(None), rt.recording():
            (found,) = pushed([self.out], inputs, seeds, False)
        return -self.factors.solved(np.ravel(value_of(found)[0])).reshape(self.x.shape)


STRAY = (
    "tapegrad.{}: the function depends on a recorded value that is neither among its arguments nor "
    "in its variables, defaults, globals or attributes of objects in them, so that the derivative "
    "to it would be lost; pass the value in args, or close over it"
)


class Factors:
    """LU factors of a matrix whose rows and columns are scaled to elements of at most 1."""

    def __init__(self, name: str, matrix: np.ndarray):
        self._rows = _scales(matrix, 1)
        scaled = matrix / self._rows[:, None]
        self._columns = _scales(scaled, 0)
        scaled = scaled / self._columns
        if not matrix.size:
            return
        if not np.isfinite(scaled).all():
            raise SingularJacobian(_NOT_FINITE.format(name))
        lapack: Any = _lapack()
        self._lu, self._pivots, info = lapack.dgetrf(np.asarray(scaled, np.float64))
        norm = np.abs(scaled).sum(0).max()
        rcond = lapack.dgecon(self._lu, norm)[0] if info == 0 else 0.0
        if rcond < np.finfo(np.float64).eps:
            raise SingularJacobian(_SINGULAR.format(name))

    def solved(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """The solution of the equations with the matrix, or with its transpose."""
        if not b.size:
            return b
        first, last = (self._columns, self._rows) if transposed else (self._rows, self._columns)
        return _lapack().dgetrs(self._lu, self._pivots, b / first, trans=int(transposed))[0] / last


class PatternFactors:
    """LU factors of a sparse matrix whose rows and columns are scaled to elements of at most 1."""

    def __init__(self, name: str, elements: np.ndarray, pattern: JacobianPattern, size: int):
        if not np.isfinite(elements).all():
            raise SingularJacobian(_NOT_FINITE.format(name))
        rows, columns = pattern.rows, pattern.columns
        self._rows = _largest(np.abs(elements), rows, size)
        scaled = elements / self._rows[rows]
        self._columns = _largest(np.abs(scaled), columns, size)
        scaled = scaled / self._columns[columns]
        sparse, linalg = _sparse()
        matrix = sparse.csc_matrix((scaled, (rows, columns)), (size, size))
        try:
            self._factors = linalg.splu(matrix)
        except RuntimeError:  # "Factor is exactly singular"
            raise SingularJacobian(_SINGULAR.format(name)) from None
        solve = self._factors.solve
        inverse = linalg.LinearOperator(
            (size, size), matvec=solve, rmatvec=lambda b: solve(b, trans="T"), dtype=float
        )
        norms = linalg.norm(matrix, 1) * linalg.onenormest(inverse)
        if not norms * np.finfo(np.float64).eps < 1.0:
            raise SingularJacobian(_SINGULAR.format(name))

    def solved(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """The solution of the equations with the matrix, or with its transpose."""
        first, last = (self._columns, self._rows) if transposed else (self._rows, self._columns)
        return self._factors.solve(b / first, trans="T" if transposed else "N") / last


def _largest(elements: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """The largest of the elements at each place; 1 where they are 0."""
    found = np.zeros(size)
    np.maximum.at(found, places, elements)
    return np.where(found > 0.0, found, 1.0)


@functools.cache
def _sparse():
    return tuple([importlib.import_module(f"scipy.{one}") for one in ("sparse", "sparse.linalg")])


def is_regular(matrix: np.ndarray, size: int) -> bool:
    """Whether a matrix is far from a singular one, at a glance: by its rows and its determinant."""
    matrix = np.reshape(matrix, (size, size))
    if size == 1:
        return 0.0 < abs(float(matrix[0, 0])) < np.inf
    if size == 2:
        (a, b), (c, d) = matrix.tolist()
        return abs(a * d - b * c) > 1e-8 * (abs(a * d) + abs(b * c))
    try:
        Factors("", matrix)
    except SingularJacobian:
        return False
    return True


def undecided(name: str) -> SingularJacobian:
    return SingularJacobian(_UNDECIDED.format(name))


class Diagonal:
    """A diagonal matrix, as that of equations for each unknown on its own."""

    def __init__(self, name: str, diagonal: np.ndarray):
        if not np.isfinite(diagonal).all():
            raise SingularJacobian(_NOT_FINITE.format(name))
        if not diagonal.all():
            raise SingularJacobian(_SINGULAR.format(name))
        self._diagonal = diagonal

    def solved(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """The solution of the equations with the matrix, which is its own transpose."""
        return b / self._diagonal


def _scales(matrix: np.ndarray, axis: int) -> np.ndarray:
    found = np.max(np.abs(matrix), axis=axis, initial=0.0)
    return np.where(found > 0.0, found, 1.0)


@functools.cache
def _lapack():
    return importlib.import_module("scipy.linalg.lapack")


_SINGULAR = (
    "tapegrad.{}: the Jacobian of the equations is singular at the solution, which is not unique "
    "there, or a multiple one, and has no derivative; state the problem so that the solution is "
    "unique, or detach the values that are read with tg.stop_gradient"
)
_UNDECIDED = (
    "tapegrad.{}: a constraint or a bound is active at the solution and its multiplier is 0, or "
    "more of them are active than there are unknowns: the derivatives to either side differ; leave "
    "the constraint out, or move its limit"
)
_NOT_FINITE = (
    "tapegrad.{}: the Jacobian of the equations is not finite at the solution, which has no "
    "derivative there"
)

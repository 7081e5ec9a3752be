"""A call of a solver as one operation, whose result satisfies equations.

The solver is given plain values. The derivative of its result x to the values p of which the
equations F(x, p) = 0 are is −(∂F/∂x)⁻¹ ∂F/∂p, by the implicit function theorem. F computes with
tensors: so the derivative has a derivative itself, in which x is the result of the same operation.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.row_listeners import users_level
from .._core.tensor.trace import Trace, refuse
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of, wrap
from .._custom.closures import Captured, Strays
from .._derivatives.inputs import Inputs, InputTensors
from .._derivatives.recorded_reverse import recorded_adjoints
from .._entering.entering import entering
from .._transforms.gradients import pushed
from .._transforms.jacobians import blocks_of
from ..autograd.function import Function
from .linear import STRAY, Linearised


@dataclasses.dataclass
class Solved:
    """What a solver found: `x`, and floats `aux` that the equations read, without derivative.

    `fields` are further results, arrays and numbers by name; `result` is the solver's own.
    """

    x: np.ndarray
    aux: tuple[np.ndarray, ...] = ()
    result: Any = None
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    has_converged: bool = True


class Problem:
    """A call of a solver with some objects, in which recorded values have their places.

    `solve(*objects)` gives what is `Solved`; `equations(*objects)` gives F, which is called with x
    and with what is in `aux`. The objects are with plain values for one, with tensors for the
    other.
    """

    def __init__(self, name: str, solve: Callable, equations: Callable, objects: tuple):
        self.name, self._solve, self._equations = name, solve, equations
        self._captured = Captured(*objects)
        self.tensors, self._captured.tensors = self._captured.tensors, []
        self.has_warned = False
        self.first: Any = None  # what is found in the first call
        self.is_traced = rt.trace() is not None and rt.is_recording()

    def __call__(self, x, aux, values):
        """F, of tensors."""
        return self.residual(x, aux, values, lambda f: f)

    def solved(self, values) -> Solved:
        """What the solver finds for some values of tensors."""
        plain = [np.array(value) if np.ndim(value) else value for value in map(value_of, values)]
        with rt.tracing(None):
            return self._solve(*self._captured.filled(plain))

    def residual(self, x, aux, values, entered: Callable):
        """F as a tensor of the shape of x."""
        equations = entered(self._equations(*self._captured.filled(values)))
        out = equations(x, *aux)
        out = out if is_tensor(out) else PUBLIC["asarray"](out)
        if shape_of(out) != shape_of(x):
            if value_of(out).size != value_of(x).size:
                raise ValueError(
                    f"tapegrad.{self.name}: the function returned shape {shape_of(out)} for "
                    f"unknowns of shape {shape_of(x)}; there must be as many equations as unknowns"
                )
            out = PUBLIC["reshape"](out, shape_of(x))
        return out

    def check_reads(self, x, aux, values) -> None:
        """Refuse the trace if the equations read recorded values that are not found.

        A program repeats the call of the solver without Python telling it of these.
        """
        made = Trace(lambda: ())
        with rt.tracing(made), rt.recording():
            made.now()
            inputs = Inputs(self.name, (x, *values), tuple(range(1 + len(values))))
            strays = Strays(inputs.tensors)
            out = self.residual(inputs.args[0], aux, inputs.args[1:], entering)
            read = [out, *[one.tensor for one in made.guards], *made.required]
            if strays.are_in(read):
                refuse(STRAY.format(self.name))

    def __str__(self) -> str:
        return self.name


class Solution(Function):
    """The operation: its results are x, what is in `aux` and, in a trace, fields."""

    @staticmethod
    def forward(ctx, problem, *values):
        solved = problem.solved(values)
        ctx.problem = problem
        x, *aux = [wrap(np.array(one, dtype=float)) for one in (solved.x, *solved.aux)]
        ctx.save_for_backward(x, *aux, *values)
        if problem.first is None:
            problem.first = solved
        if not problem.is_traced:
            if any(ctx.needs_input_grad) and x.size:  # now, since data that are read may change
                plain = [np.asarray(value_of(one)) for one in (x, *aux)]
                ctx._linearised = Linearised(problem, plain[0], plain[1:], _plain(values))
            return (x, *aux)
        fields = [wrap(np.array(one)) for one in solved.fields.values()]
        ctx.mark_non_differentiable(*fields)
        return (x, *aux, *fields)

    @staticmethod
    def backward(ctx, g, *others):
        x, aux, values = _saved(ctx)
        needs = ctx.needs_input_grad[1:]
        if not _is_recorded((x, *values, g)):
            found = _linearised(ctx).pulled(np.asarray(value_of(g)))
            return None, *map(np.asarray, found)
        with rt.recording():
            inputs, out, matrix = _equations(ctx)
            wanted = [one for one, need in zip(inputs[1:], needs, strict=True) if need]
            seed = 0.0 - _solved(matrix, g, transposed=True)
            found = iter(recorded_adjoints([out], [seed], wanted, only=True))
        return None, *[next(found) if need else None for need in needs]

    @staticmethod
    def jvp(ctx, _, *tangents):
        x, aux, values = _saved(ctx)
        rest = [wrap(np.zeros(shape_of(one))) for one in aux]
        if not _is_recorded((x, *values, *tangents)):
            plain = [None if t is None else np.asarray(value_of(t)) for t in tangents]
            return wrap(_linearised(ctx).pushed(plain)), *rest
        with rt.recording():
            inputs, out, matrix = _equations(ctx)
            pairs = [
                (one, PUBLIC["reshape"](t, (1, *shape_of(t))))
                for one, t in zip(inputs[1:], tangents, strict=True)
                if t is not None
            ]
            moved = InputTensors([one for one, _ in pairs])
            (found,) = pushed([out], moved, [t for _, t in pairs], True)
        return 0.0 - _solved(matrix, found[0]), *rest


def answer(problem: Problem) -> tuple[Any, Solved]:
    """The solution as a tensor, and what the solver found.

    In a trace the fields are tensors without derivative, which a program computes again; what has
    no field is that of the call that is traced.
    """
    values, problem.tensors = problem.tensors, []
    x, *rest = Solution.apply(problem, *values)
    solved = problem.first
    if problem.is_traced:
        aux, fields = rest[: len(solved.aux)], rest[len(solved.aux) :]
        if solved.x.size:
            problem.check_reads(_plain([x])[0], _plain(aux), _plain(values))
        solved = dataclasses.replace(solved, fields=dict(zip(solved.fields, fields, strict=True)))
    problem.first = ()  # no other call is the first
    return x, solved


# --- the derivative -------------------------------------------------------------------------------


def _saved(ctx) -> tuple:
    """The solution, what is in `aux`, and the values of which the equations are."""
    count = len(ctx.needs_input_grad) - 1
    x, *rest = ctx.saved_tensors
    at = len(rest) - count
    return x, rest[:at], rest[at:]


def _is_recorded(tensors) -> bool:
    """Whether the derivative may itself be differentiated."""
    return rt.is_recording() and any([one is not None and is_recorded(one) for one in tensors])


def _plain(values) -> list[np.ndarray]:
    return [np.asarray(value_of(one)) for one in values]


def _linearised(ctx) -> Linearised:
    """The equations of a call, linearised once for all its derivatives."""
    found = vars(ctx).get("_linearised")
    if found is None:
        x, aux, values = _saved(ctx)
        (at,) = _plain([x])
        found = ctx._linearised = Linearised(ctx.problem, at, _plain(aux), _plain(values))
    if not ctx.problem.has_warned and found.is_far():
        ctx.problem.has_warned = True
        warnings.warn(_FAR.format(ctx.problem.name), RuntimeWarning, stacklevel=users_level())
    return found


def _check(ctx, out) -> None:
    """Raise what a linearisation raises, and if it has changed since then.

    Programs, which have other values later, do without.
    """
    if rt.trace() is None and _linearised(ctx).is_other(np.asarray(value_of(out))):
        raise RuntimeError(_CHANGED.format(ctx.problem.name))


def _equations(ctx) -> tuple:
    """The unknowns and values as inputs, F and ∂F/∂x, all of them recorded."""
    x, aux, values = _saved(ctx)
    inputs = Inputs(ctx.problem.name, (x, *values), tuple(range(1 + len(values))))
    aux = [wrap(np.asarray(value_of(one))) if rt.trace() is None else one for one in aux]
    out = ctx.problem.residual(inputs.args[0], aux, inputs.args[1:], entering)
    _check(ctx, out)
    ((matrix,),) = blocks_of("jacobian", [out], InputTensors(inputs.tensors[:1]), True)
    return inputs.tensors, out, matrix


def _solved(matrix, b, transposed: bool = False):
    """The solution of the equations with a recorded matrix, in the shape of the other side."""
    shape = shape_of(b)
    if not shape:
        return b / matrix
    size = value_of(b).size
    if not size:
        return b
    matrix = PUBLIC["reshape"](matrix, (size, size))
    matrix = PUBLIC["transpose"](matrix) if transposed else matrix
    found = PUBLIC["solve"](matrix, PUBLIC["reshape"](b, (size,)))
    return PUBLIC["reshape"](found, shape)


_FAR = (
    "tapegrad.{}: the result is not close to a solution: Newton's method would leave it by more "
    "than a thousandth of its length, so its derivative is inexact; choose a smaller tolerance"
)
_CHANGED = (
    "tapegrad.{}: a second derivative evaluates the function at the solution again, where it gives "
    "another value than before: data that it reads have changed since then; give it a copy of them"
)

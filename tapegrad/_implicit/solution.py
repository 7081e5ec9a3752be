"""A call of a solver as one operation, whose result satisfies equations.

The solver is given plain values. The derivative of its result x to the values p of which the
equations F(x, p) = 0 are is −(∂F/∂x)⁻¹ ∂F/∂p, by the implicit function theorem. F computes with
tensors: so the derivative has a derivative itself, in which x is the result of the same operation.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.operators import users_level
from .._core.tensor.trace import is_steering
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of, wrap
from .._custom.closures import Captured, CapturedCall
from .._custom.structure import KeptByStructure, with_numbers_lifted
from .._derivatives.inputs import InputTensors
from .._derivatives.recorded_reverse import recorded_adjoints
from .._entering.entering import entering
from .._program.compile import compile
from .._program.ir.steps import DOUBLE
from .._transforms.gradients import pushed
from .._transforms.jacobians import blocks_of
from ..autograd._function_calls import Repeated, apart
from ..autograd.function import Function
from .linear import (
    LONG_STEP,
    JacobianPattern,
    Linearised,
    as_inputs,
    check_reads,
    is_decided,
    is_long,
    is_regular,
)
from .native_calls import NativeCall, NativeSolver, StepViews, view_of


@dataclasses.dataclass
class Solved:
    """What a solver found: `x`, and floats `aux` that the equations read, without derivative.

    `fields` are further results, arrays and numbers by name; `result` is the solver's own.
    """

    x: np.ndarray
    aux: tuple[np.ndarray, ...] = ()
    result: Any = None
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)


class Problem(CapturedCall):
    """A call of a solver whose result satisfies equations.

    `solve(*objects)` gives what is `Solved`; `equations(*objects)` gives F, which is called with x
    and with what is in `aux`. The objects are with plain values for one, with tensors for the
    other.
    """

    def __init__(self, name: str, solve: Callable, equations: Callable, objects: tuple):
        super().__init__(name, *objects)
        self._solve, self._equations = solve, equations
        self.has_warned = False
        self.first: Any = None  # what is found in the first call
        #: A function of the objects and of `aux`: where ∂F/∂x is not 0, of large equations.
        self.pattern: Callable | None = None
        #: What is known of methods in compiled code.
        self.native: NativeSolver | None = None
        #: Whether graphs know the solver.
        self.is_in_graphs = False

    def __call__(self, x, aux, values):
        """F, of tensors."""
        return self.residual(x, aux, values, lambda f: f)

    def solved(self, values) -> Solved:
        """What the solver finds for some values of tensors."""
        plain = [np.array(one) if np.ndim(one) else _number(one) for one in map(value_of, values)]
        with _plainly():
            solved = self._solve(*self.captured.filled(plain))
        self.captured.warn_of_writes(self.name)
        if np.iscomplexobj(solved.x):
            raise TypeError(
                f"tapegrad.{self.name}: the solution is complex, which has no derivative here; "
                "solve for its real and its imaginary part"
            )
        return solved

    def pattern_of(self, aux, values) -> JacobianPattern | None:
        """Where ∂F/∂x is not 0, if that is known."""
        return None if self.pattern is None else self.pattern(*self.captured.filled(values), aux)

    def with_numbers_lifted(self, first: int, of_objects: bool = False) -> tuple[Captured, list]:
        """The objects with places for further numbers, from `first` on, and these numbers."""
        return with_numbers_lifted(self.captured, first, of_objects) or (self.captured, [])

    def residual(self, x, aux, values, entered: Callable):
        """F as a tensor of the shape of x."""
        equations = _entered(self._equations(*self.captured.filled(values)), entered)
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

    def further(self, names: tuple[str, ...], x, values) -> list:
        """Further functions of x, by their names in `native`."""
        objects = self.captured.filled(values)
        found = [self.native.function(name, *objects) for name in names] if self.native else []
        return [_entered(one, entering)(x) for one in found]


def _entered(equations, entered: Callable) -> Callable:
    """Equations entered: those that know it by the function of the user's which they call."""
    own = getattr(equations, "entered", None)
    return entered(equations) if own is None else own(entered)


def _untraced():
    """A context in which nothing is traced."""
    return _nothing if rt.trace() is None else rt.tracing(None)


def _plainly():
    """A context in which functions of users make arrays, as they do outside of transforms.

    A program may run inside a transform: of another program, or while that is still recorded.
    """
    return apart() if rt.in_transform() else _untraced()


_nothing = contextlib.nullcontext()


def _number(value):
    """A number as NumPy has it, not as an array without axes."""
    return value[()] if isinstance(value, np.ndarray) else value


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
        (at,), needs = _plain([x]), ctx.needs_input_grad[1:]
        found = Linearised(ctx.problem, needs, at, _plain(aux), _plain(values))
        ctx._linearised = found
    return _checked(ctx.problem, found)


def _checked(problem: Problem, found: Linearised) -> Linearised:
    """Equations at their solution, with a warning if it is none."""
    if not problem.has_warned and found.is_far():
        problem.has_warned = True
        warnings.warn(_FAR.format(problem.name), RuntimeWarning, stacklevel=users_level())
    return found


def _check(ctx, out) -> None:
    """Raise what a linearisation raises, and if it has changed since then.

    Programs, which have other values later, do without.
    """
    if rt.trace() is None and _linearised(ctx).is_other(np.asarray(value_of(out))):
        raise RuntimeError(_CHANGED.format(ctx.problem.name))


def _equations(problem: Problem, needs, x, aux, values) -> tuple:
    """The unknowns and values as inputs, F and ∂F/∂x, all of them recorded."""
    tensors, given = as_inputs(problem.name, needs, x, values)
    aux = [wrap(np.asarray(value_of(one))) if rt.trace() is None else one for one in aux]
    out = problem.residual(given[0], aux, given[1:], entering)
    ((matrix,),) = blocks_of("jacobian", [out], InputTensors(tensors[:1]), True)
    return tensors, out, matrix


def _adjoints(inputs, out, matrix, g) -> list:
    """The adjoints of the values from that of x, recorded."""
    seed = 0.0 - _solved(matrix, g, transposed=True)
    return recorded_adjoints([out], [seed], inputs[1:], only=True)


class _Adjoints:
    """A function of the adjoint of x: the adjoints of values; with ∂F/∂x and Newton's step."""

    def __init__(self, problem: Problem, needs, count: int):
        self.problem, self.needs, self.count = problem, needs, count

    def __call__(self, g, x, *rest):
        aux, values = rest[: self.count], rest[self.count :]
        with rt.recording():
            inputs, out, matrix = _equations(self.problem, self.needs, x, aux, values)
            found = _adjoints(inputs, out, matrix, g)
        return matrix, _solved(matrix, out), *found


#: Adjoints that are computed eagerly before they are compiled, and unknowns for which they are.
_EAGER, _MOST = 20, 100


#: What is given as a float, if it has no axes.
_SCALARS = (np.ndarray, np.float64)


class _CompiledAdjoints:
    """Compiled adjoints of calls whose functions differ in numbers alone, as those of a loop."""

    def __init__(self, problem: Problem, needs, count: int):
        self._calls = 0
        self._program = compile(_Adjoints(problem, needs, count))
        self._program._flows.has_warned = True  # where there is no program it runs eagerly

    def __call__(self, *operands) -> list | None:
        """∂F/∂x, Newton's step and the adjoints; None while calls are few."""
        self._calls += 1
        if self._calls <= _EAGER:
            return None
        given = [
            one.item() if isinstance(one, _SCALARS) and not one.ndim else one for one in operands
        ]
        with _untraced():
            return self._program(*given)


_kept = KeptByStructure[_CompiledAdjoints]()


def _compiled_like(problem: Problem, needs, aux, x) -> tuple[_CompiledAdjoints, list]:
    """Adjoints for functions like those of a problem, and the numbers in which they differ."""
    captured, numbers = problem.with_numbers_lifted(len(needs))
    alike, needs = copy.copy(problem), (*needs, *[False] * len(numbers))
    alike.captured = captured

    def made() -> _CompiledAdjoints:
        return _CompiledAdjoints(alike, needs, len(aux))

    kind = problem.name, needs, len(aux), np.shape(x)
    return _kept.get(kind, captured, made) or made(), numbers


class _Repeated(Repeated):
    """The call of a solver in a program: it is given arrays, and its adjoints are compiled.

    Compiled code makes the call where the solver has a native method, and the solution no parts of
    its own for constraints.
    """

    def __init__(self, compute: Callable, cls, ctx, args, out):
        super().__init__(compute, cls, ctx, args, out)
        self.problem, self.name = args[0], args[0].name
        self._compiled: tuple[_CompiledAdjoints, list] | None = None
        self._values = [None if one else np.asarray(value_of(x)) for one, x in self._pairs(args)]
        self.needs_values = self.problem.native is not None
        self.is_in_graphs = self.problem.is_in_graphs
        self._native: NativeCall | None = None
        self._last: tuple[Solved, list] | None = None  # the last call of the solver

    def _pairs(self, args) -> list:
        return [*zip(self.recorded, args, strict=True)][1:]

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        given = iter(operands)
        values = [next(given) if one is None else one for one in self._values]
        solved = self.problem.solved(values)
        parts = [solved.x, *solved.aux, *solved.fields.values()]
        shape, dtype = self.whole
        if len(parts) != len(self.parts):
            return None, None
        whole = np.empty(shape, dtype)
        for part, value in zip(self._views(whole), parts, strict=True):
            value = np.asarray(value)
            if value.shape != part.shape or value.dtype.kind not in _SAME[part.dtype.kind]:
                return None, None
            part[...] = value
        held = np.array(solved.x, dtype=float), solved.aux, values
        self._last = (solved, values) if self.needs_values else None
        return whole, held

    def held(self, operands: list[np.ndarray], array: np.ndarray) -> Any:
        given = iter(operands)
        values = [next(given) if one is None else one for one in self._values]
        return self._views(array)[0].copy(), (), values

    def table(self, operands: list, out: Any, wanted: list[bool]) -> np.ndarray | None:
        shape, dtype = self.whole
        if self._last is None or dtype != DOUBLE or not out.is_contiguous:
            return None
        solved, values = self._last
        if self._native is None:
            numbers = itertools.count()
            places = [next(numbers) if one is None else None for one in self._values]
            self._native = NativeCall(self.problem, places)
        whole = np.empty(shape, dtype)
        parts = [view_of(part, whole, out) for part in self._views(whole)]
        return self._native.table(solved, values, StepViews(operands, wanted, parts))

    def left(self) -> None:
        if self._native is not None:
            self._native.left()

    def _views(self, whole: np.ndarray) -> list[np.ndarray]:
        if len(self.parts) == 1:
            return [whole]
        return [np.ndarray(shape, dtype, whole, *place) for shape, dtype, *place in self.parts]

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        x, aux, values = held
        (g,) = self._views(g)[:1]
        found = self._by_program(g, x, aux, values)
        if found is None:
            with apart():
                found = self._linearised(x, aux, values).pulled(g)
        return [one for one, recorded in zip(found, self.recorded[1:], strict=True) if recorded]

    def _linearised(self, x, aux, values) -> Linearised:
        return _checked(self.problem, Linearised(self.problem, self.needs[1:], x, aux, values))

    def _by_program(self, g, x, aux, values) -> list | None:
        """The adjoints by a program; None where they are not finite, or x is no solution."""
        if not 0 < x.size <= _MOST or not is_decided(aux):
            return None
        if self._compiled is None:
            self._compiled = _compiled_like(self.problem, self.needs[1:], aux, x)
        compiled, numbers = self._compiled
        try:
            found = compiled(g, x, *aux, *values, *numbers)
        except (np.linalg.LinAlgError, ArithmeticError):
            return None  # with an error that says so; NumPy's numbers may be divided by 0
        if found is None:
            return None
        matrix, step, *found = found
        if not self.problem.has_warned and is_long(step, x, LONG_STEP):
            return None
        if not is_regular(matrix, x.size):
            return None
        every = iter(found)
        return [np.asarray(next(every)) if need else None for need in self.needs[1:]]


#: Kinds of numbers that elements of each kind stand for.
_SAME = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}


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


# --- the operation --------------------------------------------------------------------------------


class Solution(Function):
    """The operation: its results are x, what is in `aux` and, in a trace, fields."""

    _repeated = _Repeated
    _is_inside = True

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
                needs = ctx.needs_input_grad[1:]
                ctx._linearised = Linearised(problem, needs, plain[0], plain[1:], _plain(values))
            return (x, *aux)
        fields = [wrap(np.array(one)) for one in solved.fields.values()]
        ctx.mark_non_differentiable(*fields)
        return (x, *aux, *fields)

    @staticmethod
    def backward(ctx, g, *others):
        x, aux, values = _saved(ctx)
        needs = ctx.needs_input_grad[1:]
        if not _is_recorded((x, *values, g)):
            plain = _linearised(ctx).pulled(np.asarray(value_of(g)))
            return None, *[None if one is None else np.asarray(one) for one in plain]
        with rt.recording():
            inputs, out, matrix = _equations(ctx.problem, needs, x, aux, values)
            _check(ctx, out)
            found = iter(_adjoints(inputs, out, matrix, g))
        return None, *[next(found) if need else None for need in needs]

    @staticmethod
    def jvp(ctx, _, *tangents):
        x, aux, values = _saved(ctx)
        rest = [wrap(np.zeros(shape_of(one))) for one in aux]
        if not _is_recorded((x, *values, *tangents)):
            plain = [None if t is None else np.asarray(value_of(t)) for t in tangents]
            return wrap(_linearised(ctx).pushed(plain)), *rest
        needs = ctx.needs_input_grad[1:]
        with rt.recording():
            inputs, out, matrix = _equations(ctx.problem, needs, x, aux, values)
            _check(ctx, out)
            needed = [t for t, need in zip(tangents, needs, strict=True) if need]
            pairs = [
                (one, PUBLIC["reshape"](t, (1, *shape_of(t))))
                for one, t in zip(inputs[1:], needed, strict=True)
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
        if np.size(solved.x):
            needs = [not is_steering(one) for one in values]
            (point,), aux, values = map(_plain, ([x], aux, values))
            check_reads(
                problem,
                lambda: as_inputs(problem.name, needs, point, values),
                lambda given: [problem.residual(given[0], aux, given[1:], entering)],
            )
        solved = dataclasses.replace(solved, fields=dict(zip(solved.fields, fields, strict=True)))
    problem.first = ()  # no other call is the first
    return x, solved


_FAR = (
    "tapegrad.{}: the result is not close to a solution: Newton's method would leave it by more "
    "than a thousandth of its length, so its derivative is inexact; choose a smaller tolerance"
)
_CHANGED = (
    "tapegrad.{}: a second derivative evaluates the function at the solution again, where it gives "
    "another value than before: data that it reads have changed since then; give it a copy of them"
)

"""Initial value problems as operations: their results, and derivatives of any order.

The derivative is that of the steps that were taken, the lengths of which are constants: the
discrete adjoint, step by step from the last to the first. For each step its begin is kept, and the
stages are computed again. So are those of second derivatives; derivatives of order three and more
are those of all steps, recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.remembered import remembered
from .._core.tensor import runtime as rt
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of, wrap
from .._custom.closures import CapturedCall, OperandPlace
from .._derivatives.inputs import Inputs, InputTensors
from .._entering.entering import entering
from .._implicit.linear import check_reads
from .._implicit.native_calls import StepViews, view_of
from .._program.ir.steps import DOUBLE
from .._transforms.gradients import pulled
from .._transforms.jacobians import jvp, vjp
from ..autograd._function_calls import Repeated, apart
from ..autograd.function import Function
from ._ode_methods import method_of
from ._ode_native import KernelSolution, solution_of
from ._ode_native_calls import NativeSolve
from ._ode_records import Initial, Record, Steps, as_array
from ._ode_right_side import RightSideObjects
from ._ode_second import Tangents
from ._ode_sweep import SolutionSweep, taken
from ._optimize_calls import numbers_in


class SolverCall(CapturedCall):
    """A call of a solver of differential equations.

    `solve(args, kwargs)` gives the `Record`, `given(args, kwargs)` the problem. `kind` says what
    the results are: "solve_ivp" or "odeint".
    """

    def __init__(self, kind: str, solve: Callable, given: Callable, objects: tuple):
        super().__init__(f"scipy.integrate.{kind}", *objects)
        self.kind, self._solve, self._given = kind, solve, given
        self.programs: dict[Any, Callable] = {}  # of steps
        self.repeated = 0  # steps, for derivatives
        self.results: dict[tuple, int] = {}  # how many, by form
        self.moves = False  # whether the ends of the interval are recorded
        self.asks = False  # whether t_eval is
        self._last: tuple[list, Record] | None = None
        self._own: RightSideObjects | None = None  # what compiled code has of the functions

    def initial(self, values, entered: Callable = entering) -> Initial:
        """The problem with some values in the places of the recorded ones."""
        return Initial(self._given(*self.captured.filled(values)), entered)

    def record(self, values, is_new: bool = False) -> Record:
        """SciPy's solution for plain values: the last one, if it is of the same and not `is_new`.

        Data that functions read may change from one evaluation of a program to the next, not before
        the derivative of one.
        """
        last = self._last
        if not is_new and last is not None and all(map(_is_same, last[0], values)):
            return last[1]
        filled = self.captured.filled([*values])
        with rt.tracing(None), rt.outside():
            found = self._by_kernels(filled, values) or self._solve(*filled)
        self.captured.warn_of_writes(self.name)
        self._last = [np.array(one) for one in values], found
        return found

    @remembered
    def place_of_state(self) -> int | None:
        """The number of the value that is the first state, −1 if none is in it, or else None."""
        y0 = self._given(*self.captured.objects)["y0"]
        if type(y0) is OperandPlace:
            return y0.number
        return None if id(y0) in self.captured.marked else -1

    @property
    def last_own(self) -> KernelSolution | None:
        """The last solution, if compiled code has found it."""
        return None if self._last is None else self._last[1].own

    def native(self, places: list[int | None]) -> NativeSolve:
        """The call in programs without Python, with the numbers of operands by values."""
        given = self._given(*self.captured.objects)
        return NativeSolve(given, places, self.moves or self.asks)

    def _by_kernels(self, filled: tuple, values) -> Record | None:
        """The solution by compiled code, if it has what is asked for."""
        if self.kind != "solve_ivp":
            return None
        if self._own is None:
            self._own = RightSideObjects(self._given(*self.captured.objects), len(values))
        own = solution_of(self._given(*filled), self._own, values)
        if own is None:
            return None
        method = method_of(own.task.method)

        def find() -> Steps:
            times, states = own.steps()
            return Steps(method, times, states, True, own.error)

        return Record(own.result, find, True, own)

    def check_reads(self, values) -> None:
        """Raise an error, or refuse the trace, if functions read values that are not found."""

        def made():
            inputs = Inputs(self.name, tuple(values), tuple(range(len(values))))
            return inputs.tensors, inputs.args

        def computed(args):
            initial = self.initial(args)
            at, count = (initial.t0, initial.y0), initial.events
            return [initial.f(*at), *[initial.event(k, *at) for k in range(count)]]

        check_reads(self, made, computed)


def _is_same(one, other) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


# --- what is asked for ----------------------------------------------------------------------------


class Plan:
    """What is asked for of a solution of plain values, and how it follows from the states.

    It is SciPy's results or, if `at` is not None, the states at these times. They are states at
    ends of steps, the first `nodes` of them; at `times`, which lie in the steps `segments`; and at
    events: `roots` has the number of the event function and the time of each, `places` the steps.
    The inputs are `at`, unless it is None, and the values of the flow.
    """

    def __init__(self, flow: SolverCall, values: Sequence, at=None):
        self.flow, self.values, self.at = flow, values, at
        self.record = flow.record(values)
        self._result = self.record.result

    @remembered
    def outs(self) -> list[np.ndarray]:
        """SciPy's results."""
        result = self._result
        if self.at is not None:
            return [np.asarray(result.sol(np.asarray(self.at)))]
        if self.flow.kind == "odeint":
            return [np.asarray(result[0] if isinstance(result, tuple) else result)]
        found = [np.asarray(result.t)] if self.has_t else []
        found.append(np.asarray(result.y))
        for t, y in zip(result.t_events or (), result.y_events or (), strict=True):
            found += [np.asarray(t), np.asarray(y)]
        return found

    @property
    def fields(self) -> list:
        """Numbers of SciPy's results that have no derivative."""
        if self.at is not None:
            return []
        if self.flow.kind == "odeint":
            return numbers_in(self._result[1]) if isinstance(self._result, tuple) else []
        found = {name: one for name, one in self._result.items() if name not in ("t", "y")}
        return numbers_in(found) + ([] if self.has_t else [np.asarray(self._result.t)])

    @property
    def has_t(self) -> bool:
        """Whether the times of the result have a derivative."""
        is_moved = self.flow.moves or self.flow.asks or self._result.status == 1
        return is_moved and np.size(self._result.t) > 0

    @remembered
    def steps(self) -> Steps:
        found = self.record.steps
        if self.flow.moves and not len(found):
            raise ValueError(_NO_STEPS.format(self.flow.name))
        return found

    @remembered
    def roots(self) -> list[tuple[int, float]]:
        if self.at is not None or self.flow.kind == "odeint":
            return []
        every = enumerate(self._result.t_events or ())
        return [(number, float(t)) for number, found in every for t in found]

    @remembered
    def last_root(self) -> int | None:
        """The event at which the solution ends, if its state is the last of the results."""
        if self.at is not None or self.flow.kind == "odeint" or self._result.status != 1:
            return None
        if self._t_eval is not None or not self.roots:
            return None
        is_repeated = self._is_of_steps and len(self._result.t) < len(self.steps.times)
        last = float(self._result.t[-1])
        same = [k for k, (_, t) in enumerate(self.roots) if t == last]
        return same[-1] if same and not is_repeated else None

    @remembered
    def _t_eval(self):
        if self.record.own is not None:
            return self.record.own.task.asked
        return self.flow.initial(self.values, lambda f: f).t_eval

    @property
    def _is_of_steps(self) -> bool:
        """Whether states are asked for at the ends of the steps that are repeated."""
        is_free = self.at is None and self._t_eval is None
        return is_free and self.record.are_own

    @remembered
    def nodes(self) -> int:
        if not self._is_of_steps:
            return 0
        return len(self._result.t) - (self.last_root is not None)

    @remembered
    def times(self) -> np.ndarray:
        if self.at is not None:
            return np.ravel(np.asarray(self.at, dtype=float))
        if self.flow.kind == "odeint":
            return np.asarray(self._t_eval, dtype=float)[: len(self.outs[0])]
        if self._is_of_steps:
            return np.zeros(0)
        found = np.ravel(np.asarray(self._result.t, dtype=float))
        return found if self.last_root is None else found[:-1]

    @remembered
    def segments(self) -> np.ndarray:
        return self.steps.segments(self.times)

    @remembered
    def places(self) -> np.ndarray:
        return self.steps.segments(np.array([t for _, t in self.roots], dtype=float))

    # --- of inputs that may be recorded -------------------------------------------------------

    def split(self, inputs: Sequence) -> tuple[Any, Sequence]:
        """The times that are asked for, or None, and the values of the flow."""
        return (inputs[0], inputs[1:]) if self.at is not None else (None, inputs)

    def begun(self, inputs: Sequence) -> list:
        """The first state, the ends of the interval, and `times`."""
        at, values = self.split(inputs)
        problem = self.flow.initial(values)
        start, end = as_array(problem.t0), as_array(problem.t1)
        if at is not None:
            asked = PUBLIC["reshape"](at, (-1,))
        elif self._t_eval is not None:
            asked = as_array(problem.t_eval)[: len(self.times)]
        else:
            asked = self.moved(self.times, start, end)
        return [problem.y0, start, end, asked]

    def moved(self, times: np.ndarray, start, end):
        """Times of ends of steps, of which the first, or the last, is an end of the interval."""
        if not self.flow.moves:
            return times
        is_last = np.zeros(len(times))
        if self.steps.is_whole:
            is_last[times == self.steps.times[-1]] = 1.0
        start, end = [one - np.asarray(value_of(one)) for one in (start, end)]
        return times + (1.0 - is_last) * start + is_last * end

    def assembled(self, states, ts, between, roots, at_roots) -> list:
        """The results, of states and times of steps, states at `times`, and events.

        It is linear. Each argument has a row for each time.
        """
        if self.at is not None or self.flow.kind == "odeint":
            rows = between if self.at is None else PUBLIC["transpose"](between)
            return [PUBLIC["reshape"](rows, np.shape(self.outs[0]))]
        rows = states[: self.nodes] if self._is_of_steps else between
        if self.nodes > len(self.steps.times):  # the end of an interval without length
            rows = PUBLIC["concatenate"]([rows, rows])
        if self.last_root is not None:
            rows = PUBLIC["concatenate"]([rows, at_roots[self.last_root : self.last_root + 1]])
        found = [self._t_of(ts, roots)] if self.has_t else []
        found.append(PUBLIC["transpose"](rows))
        first = 0
        for times in self._result.t_events or ():
            last = first + len(times)
            found += [roots[first:last], at_roots[first:last] if len(times) else np.zeros(0)]
            first = last
        return found

    def _t_of(self, ts, roots):
        """The times of the results; `ts` has those of steps and then `times`."""
        count = len(self.steps.times)
        found = ts[: self.nodes] if self._is_of_steps else ts[count:]
        if self.last_root is None:
            return found
        return PUBLIC["concatenate"]([found, roots[self.last_root : self.last_root + 1]])

    # --- derivatives --------------------------------------------------------------------------

    def _seeds(self, gradients: Sequence) -> tuple:
        """The adjoints of the arguments of `assembled`; those of `times` are apart."""
        steps, count, size = self.steps, len(self.steps.times), len(self.steps.states[0])
        parts = [steps.states, np.append(steps.times, self.times)]
        parts += [np.zeros((len(self.times), size)), np.array([t for _, t in self.roots])]
        parts.append(np.zeros((len(self.roots), size)))
        of_states, of_ts, of_between, *of_roots = _pulled(self.assembled, parts, gradients)
        return (of_states, of_ts[:count], of_between, of_roots), of_ts[count:]

    def _of_inputs(self, inputs: Sequence, begun: Sequence, of_values: Sequence) -> list:
        """The adjoints of inputs from those of `begun` and those of the values."""
        found = _pulled(lambda *given: self.begun(given), inputs, begun)
        first = len(found) - len(of_values)
        sums = [one + more for one, more in zip(found[first:], of_values, strict=True)]
        return [*found[:first], *sums]

    def pulled(self, gradients: Sequence, inputs: Sequence) -> list[np.ndarray]:
        """The adjoints of plain inputs from those of the results."""
        _, values = self.split(inputs)
        if (own := self._own) is not None:
            return self._pulled_by_kernels(own, gradients, inputs)
        seeds, of_asked = self._seeds(gradients)
        first, ends, of_times, of_values = SolutionSweep(self, values).pulled(*seeds)
        return self._of_inputs(inputs, [first, *ends, of_asked + of_times], of_values)

    @property
    def _own(self) -> KernelSolution | None:
        """The solution by kernels, as long as what its functions read is as it was."""
        own = self.record.own
        return own if own is not None and own.is_current() else None

    def _pulled_by_kernels(
        self, own: KernelSolution, gradients: Sequence, inputs: Sequence
    ) -> list:
        of_rows = np.asarray(gradients[-1]).T
        if self.at is not None:
            return self._pulled_at(own, np.reshape(of_rows, (len(self.times), -1)), inputs)
        of_rows = np.ascontiguousarray(of_rows)
        of_t = np.asarray(gradients[0]) if self.has_t else np.zeros(1)
        seeds = (of_rows, None, None) if self._is_of_steps else (None, of_rows, own.t)
        has_times = self.flow.moves or self.flow.asks
        first, ends, of_asked, of_values = own.pulled(seeds, len(inputs), has_times)
        start, end = ends
        if self._is_of_steps:
            start, end = start + of_t[:-1].sum(), end + of_t[-1]
        else:
            of_asked = of_asked + of_t
        if self.flow.moves or self.flow.asks or (place := self.flow.place_of_state) is None:
            return self._of_inputs(inputs, [first, start, end, of_asked], of_values)
        if place >= 0:
            of_values[place] += first.reshape(of_values[place].shape)
        return of_values

    def _pulled_at(self, own: KernelSolution, of_rows: np.ndarray, inputs: Sequence) -> list:
        """The same of states at any times."""
        order = np.argsort(own.task.direction * self.times, kind="stable")
        seeds = None, np.ascontiguousarray(of_rows[order]), self.times[order]
        first, ends, of_sorted, of_values = own.pulled(seeds, len(inputs) - 1, True)
        of_times = np.empty_like(of_sorted)
        of_times[order] = of_sorted
        return self._of_inputs(inputs, [first, *ends, of_times], of_values)

    def pushed(self, moves: Sequence, gradients: Sequence, inputs: Sequence) -> list[np.ndarray]:
        """The tangents of the results, and of what `pulled` gives, from those of the inputs."""
        _, values = self.split(inputs)
        _, begun = jvp(lambda *given: self.begun(given), tuple(inputs), tuple(moves))
        has_seeds = any(np.any(one) for one in gradients)
        if not has_seeds and self.at is None and (own := self._own) is not None:
            if (found := self._pushed_by_kernels(own, begun, moves)) is not None:
                return found + [np.zeros(np.shape(one)) for one in inputs]
        tangents = Tangents(self, values, [*map(np.asarray, begun)], self.split(moves)[1])
        results = [np.asarray(one) for one in self.assembled(*tangents.pushed())]
        if not has_seeds:
            return results + [np.zeros(np.shape(one)) for one in inputs]
        first, ends, of_times, of_values = tangents.pulled(*self._seeds(gradients)[0])
        return results + self._of_inputs(inputs, [first, *ends, of_times], of_values)

    def _pushed_by_kernels(self, own: KernelSolution, begun: Sequence, moves: Sequence):
        first, start, end, asked = map(np.asarray, begun)
        given = [np.asarray(one, dtype=float) for one in moves]
        rows = own.pushed(first, (float(start), float(end)), asked, given)
        if rows is None:
            return None
        found = [np.ascontiguousarray(rows.T)]
        if self.has_t:
            ts = asked
            if self._is_of_steps:
                ts = np.full(len(rows), float(start))
                ts[-1] = end
            found.insert(0, ts)
        return found

    def repeated(self, inputs: Sequence, order: int) -> list:
        """The results for inputs that are recorded, for derivatives up to an order."""
        _, values = self.split(inputs)
        return self.assembled(*taken(self, values, self.begun(inputs), order))


def _pulled(f: Callable, at: Sequence, adjoints: Sequence) -> list[np.ndarray]:
    """The adjoints of arguments of a function of ours, which is not entered."""
    with rt.tracing(None), rt.recording():
        inputs = Inputs("scipy.integrate", tuple(at), tuple(range(len(at))))
        pairs = zip(f(*inputs.args), adjoints, strict=True)
        known = [(one, seed) for one, seed in pairs if is_tensor(one) and is_recorded(one)]
    if not known:
        return [np.zeros(np.shape(one)) for one in at]
    outs = [one for one, _ in known]
    seeds = [np.reshape(seed, shape_of(one)) for one, seed in known]
    found = pulled(outs, InputTensors(inputs.tensors), seeds, False)
    return [np.asarray(one) for one in found]


class Order:
    """The derivative of an order of a flow: 0 for its results, else adjoints of that of one less.

    Its inputs are adjoints and then the `count` inputs of the plan, which begin with times that are
    asked for if `has_times`.
    """

    def __init__(self, flow: SolverCall, count: int, has_times: bool = False, number: int = 0):
        self.flow, self.count, self._has_times, self.number = flow, count, has_times, number
        self.results, self.shapes = 0, list[tuple[int, ...]]()  # found in the first call
        self.states = 0  # the number of the result that is states

    @property
    def is_solution(self) -> bool:
        """Whether it is SciPy's results that are computed."""
        return not self.number and not self._has_times

    @remembered
    def next(self) -> Order:
        return Order(self.flow, self.count, self._has_times, self.number + 1)

    def given(self, inputs: Sequence) -> list:
        """The values of tensors, those copied that functions of users are given."""
        first = len(inputs) - self.count
        found = [np.asarray(value_of(one)) for one in inputs[:first]]
        return [*[one if one.ndim else float(one) for one in found], *plain(inputs[first:])]

    def unshared(self, found: list[np.ndarray]) -> list[np.ndarray]:
        """Results of a call as arrays that nothing else reads: the states are read by nothing."""
        states = self.states if self.is_solution else -1
        return [one if k == states else np.array(one) for k, one in enumerate(found)]

    def __call__(self, inputs: Sequence) -> list[np.ndarray]:
        """The results for plain inputs and, in a trace, those without derivative."""
        given = inputs[len(inputs) - self.count :]
        if not self.number and not self._has_times:
            self.flow.record(given, is_new=True)
        plan = Plan(self.flow, given[self._has_times :], given[0] if self._has_times else None)
        found = self._of(plan, inputs)
        self.results, self.shapes = len(found), [*map(np.shape, found)]
        self.states = int(self.flow.kind == "solve_ivp" and self.is_solution and plan.has_t)
        is_told = not self.number and self.flow.is_traced
        return [*found, *map(np.asarray, plan.fields)] if is_told else found

    def _of(self, plan: Plan, inputs: Sequence) -> list[np.ndarray]:
        if self.number == 0:
            return plan.outs
        results = len(plan.outs)
        if self.number == 1:
            return plan.pulled(inputs[:results], inputs[results:])
        if self.number == 2:
            count, rest = self.count, inputs[self.count + results :]
            return plan.pushed(inputs[:count], inputs[count : count + results], rest)
        functions: list[Callable] = [lambda *given: plan.repeated(given, self.number)]
        operands = self.count
        for _ in range(self.number):
            functions.append(_adjoint(functions[-1], results))
            results, operands = operands, results + operands
        return [np.asarray(one) for one in functions[-1](*inputs)]


def _adjoint(f: Callable, results: int) -> Callable:
    def adjoint(*given):
        _, back = vjp(f, *given[results:])
        return [*back([*given[:results]])]

    return adjoint


class RepeatedOrder(Repeated):
    """The call of an order of derivatives in a program: it is given arrays.

    Compiled code makes that of a solution which it has found, and the derivative is not recorded.
    """

    def __init__(self, compute: Callable, cls, ctx, args, out):
        super().__init__(compute, cls, ctx, args, out)
        self.order = args[0]
        pairs = zip(args[1:], self.recorded[1:], strict=True)
        self._fixed = [None if one else plain([x])[0] for x, one in pairs]
        own = self.order.flow.last_own if self.order.is_solution else None
        self._is_own = own is not None and own.is_short and not own.task.is_dense
        self._native: NativeSolve | None = None

    @property
    def needs_values(self) -> bool:  # type: ignore[override]
        return self._is_own and not self.derived

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        if self.derived:  # a derivative finds values by their places in the context
            return super().value(operands)
        inputs = self._inputs(operands)
        with apart():
            found = [*map(np.asarray, self.order(inputs))]
        kinds = [(one.shape, one.dtype) for one in found]
        if kinds != self.form[2] or self.order.results != self.count:
            return None, None
        whole = np.empty(*self.whole)
        for part, one in zip(self._views(whole), found, strict=True):
            part[...] = one
        return whole, inputs

    def _inputs(self, operands: list[np.ndarray]) -> list:
        given = iter(operands)
        return [plain([next(given)])[0] if one is None else one for one in self._fixed]

    def held(self, operands: list[np.ndarray], array: np.ndarray) -> Any:
        return self._inputs(operands)

    def table(self, operands: list, out: Any, wanted: list[bool]) -> np.ndarray | None:
        own, (shape, dtype) = self.order.flow.last_own, self.whole
        if own is None or dtype != DOUBLE or not out.is_contiguous:
            return None
        if self._native is None:
            numbers = itertools.count()
            places = [next(numbers) if one is None else None for one in self._fixed]
            self._native = self.order.flow.native(places)
        whole = np.empty(shape, dtype)
        parts = [view_of(part, whole, out) for part in self._views(whole)]
        return self._native.table(own, StepViews(operands, wanted, parts))

    def left(self) -> None:
        if self._native is not None:
            self._native.left(self.order.flow.last_own)

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        if isinstance(held, tuple):
            return super().adjoints(held, g)
        seeds = [np.array(one) for one in self._views(g)[: self.count]]
        with apart():
            found = self.order.next([*seeds, *held])
        pairs = zip(found, self.recorded[1:], strict=True)
        return [np.asarray(one) for one, recorded in pairs if recorded]

    def _views(self, whole: np.ndarray) -> list[np.ndarray]:
        """The parts of an array with all results, those with a derivative first."""
        if len(self.parts) == 1:
            return [whole]
        return [np.ndarray(shape, dtype, whole, *place) for shape, dtype, *place in self.parts]


class Derived(Function):
    """The operation of an order of derivatives, which is differentiated by the next one."""

    _repeated = RepeatedOrder
    _is_inside = True

    @staticmethod
    def forward(ctx, order, *inputs):
        with rt.tracing(None):
            found = [wrap(one) for one in order.unshared(order(order.given(inputs)))]
        ctx.order = order
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(*found[order.results :])
        return tuple(found)

    @staticmethod
    def backward(ctx, *gradients):
        order = ctx.order
        found = derived(order.next, *gradients[: order.results], *ctx.saved_tensors)
        needs = ctx.needs_input_grad[1:]
        return None, *[one if need else None for one, need in zip(found, needs, strict=True)]


class DerivedTwice(Derived):
    """The operation of the results or of their adjoints, whose tangents the second order has."""

    @staticmethod
    def jvp(ctx, _, *tangents):
        order, inputs = ctx.order, ctx.saved_tensors
        moves = [
            PUBLIC["zeros_like"](one) if t is None else t
            for one, t in zip(inputs, tangents, strict=True)
        ]
        if not order.number:
            adjoints = [wrap(np.zeros(shape)) for shape in order.shapes]
            return tuple(derived(order.next.next, *moves, *adjoints, *inputs)[: order.results])
        at = len(inputs) - order.count
        turned = derived(order, *moves[:at], *inputs[at:])
        moved = derived(order.next, *moves[at:], *inputs)[at:]
        return tuple([one + more for one, more in zip(turned, moved, strict=True)])


def derived(order: Order, *inputs):
    """The results of an order of derivatives as tensors."""
    return (Derived if order.number > 1 else DerivedTwice).apply(order, *inputs)


def plain(values: Sequence) -> list:
    """The values of tensors, copied: arrays and floats."""
    found = map(value_of, values)
    return [np.array(one) if np.ndim(one) else float(one) for one in found]


_NO_STEPS = (
    "tapegrad.{}: the interval has no length, or the solver took no step: the derivative to its "
    "ends is not computed; detach them with tg.stop_gradient"
)

"""A function recorded at its first call and replayed afterwards: one evaluation."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.progress import Progress
from ..._core.codegen.vector_math import NoPartial
from ..._core.tensor.dependencies import Checked, Dependencies
from ..._core.tensor.operators import users_level
from ..._core.tensor.pytree import repeats, tree_leaves
from ..._core.tensor.values import is_recorded, wrap
from ..._derivatives.inputs import plain
from ..._entering.entering import entering
from ..._entering.stand_ins import followed
from ..._flow.reading import calls
from ..._transforms.gradients import value_and_grad
from ..build.executable import Program
from ..ir.elementwise_step import counted
from ..ir.kernel_step import Custom
from ..ir.steps import printable
from ..lowering.tape_rows import READS_OTHERS
from ..replay import operation_parts
from .effects import Draws, Effects, seems_read
from .flow_choice import Flows
from .flows import Flow
from .life import History, Life, State
from .names_read import are_replaced
from .recorded_call import FastCall, fast_call, recorded_call, short_recorded_call
from .rounding import differ_in_nan, first_difference
from .rule_programs import operations, rule_program
from .signature import Arguments, arrays_in_place, own_copy
from .takeover import (
    Trial,
    make_program_native,
    native_later,
    patience,
    stays_interpreted,
    use_plain,
)
from .variants import (
    Families,
    NotRecorded,
    RaisedError,
    Renewals,
    Traced,
    Variant,
    Variants,
    reads_others,
    traced_call,
)

#: The largest numbers of programs kept for one signature, and of signatures.
VARIANTS, SIGNATURES = 32, 64
NO_NUMBER = (
    "tapegrad.compile: the function returned more than one number; a gradient is of a scalar: "
    "reduce it, for instance with sum(), or use jacobian"
)
#: Why the result of a program is another one than that of the function.
_AS_OTHER = (
    ": it depends on something else than its arguments, such as random numbers or state that "
    "changes between calls; pass that as an argument, or use verify='never'"
)
_AS_NAN = (
    ": a factor of 0 meets NaN or infinity, which a program may leave out; replace such numbers "
    "before they are used, or use verify='never'"
)


operation_parts.makers.append(rule_program)
calls.recorders.append(operations)


class EvaluationCall(NamedTuple):
    """A call as it was made, and whether its gradient is asked for."""

    args: Sequence
    kwargs: dict
    gradient: bool


class Replayed:
    """A function and its programs."""

    def __init__(
        self, f: Callable, kind: str, argnums, *, on_branch, verify, native, memory, enter=None
    ):
        self._name = printable(getattr(f, "__name__", str(f)))
        self._given, self._f, self._kind = f, followed(f), kind
        self._entered = entering(f, enter)
        self._single = isinstance(argnums, (int, np.integer))
        self._argnums = (argnums,) if self._single else tuple(argnums)
        self._on_branch, self._verify = on_branch, verify
        self._native, self._memory = native, memory
        self._history = History()
        self._life = Life(State.COMPILED, self._history)
        self._families = Families(SIGNATURES, VARIANTS, self._history)
        self._renewals = Renewals()
        # the program used last, if calls of it can be short: for values and gradients, for values
        self._fast: FastCall | None = None
        self._fast_value: FastCall | None = None
        self._compiling: list[Future] = []
        self._compares = verify != "never"  # native code with the interpreted program
        self._flows = Flows(self._history)
        self._effects = Effects(self._f)
        self._recordings = 0  # also those that no program is made of
        self._watched = False  # whether draws of random numbers are its own, see `Draws`
        #: Arguments that are objects of their own, see `Arguments`, in calls for values.
        self._apart: tuple[int, ...] | None = ()

    @property
    def _reason(self) -> str | None:
        """Why it has no program, if it runs eagerly for ever."""
        return self._life.held

    def _evaluate(self, args, kwargs, gradient: bool):
        """The value, and the gradient or None: by a graph, a program, or the function itself."""
        call = EvaluationCall(args, kwargs, gradient)
        if self._reason is not None:
            return self._eagerly(*call)
        arguments = Arguments(args, kwargs, self._argnums, None if gradient else self._apart)
        if (found := self._by_flow(arguments, call)) is not None:
            return found
        family = self._family(arguments)
        if family is None:
            is_row = arguments.nested and not gradient
            row = self._as_row(args, kwargs, arguments) if is_row else None
            return self._eagerly(*call) if row is None else (row[0], None)
        if (found := self._without_program(family, arguments, call)) is not None:
            return found
        self._go_on_with_trials(family, arguments.values)
        variant, run, stopped = family.run(arguments.values, gradient)
        if variant is not None and run is not None:
            return self._replayed(family, variant, run, arguments, call)
        if self._flows.asked(self, arguments, stopped):
            if (found := self._by_flow(arguments, call)) is not None:
                return found
        return self._on_another_way(family, arguments, stopped, call)

    def _replayed(
        self, family: Variants, variant: Variant, run, arguments: Arguments, call: EvaluationCall
    ):
        """The same by a program that has run forwards, compared with the function if it is due."""
        if variant.trial is not None and variant.trial.is_new:  # it has just been set
            run.program.end(run)
            return self._evaluate(*call)
        self._count_hit(family, variant, arguments.values)
        try:
            value = variant.result(run.program.results(run))
            found = value, None
            if call.gradient:
                found = self._differentiated(variant, run, arguments, value)
        finally:
            run.program.end(run)
        is_new = self._verify == "once" and variant.checked <= call.gradient
        if is_new or self._verify == "always":
            if (expected := self._verified(found, variant, arguments, call)) is not None:
                return expected
        if self._verify != "always" and not self._flows.serves(arguments):
            self._shorten(variant, arguments, call.gradient)
        return found

    def _on_another_way(
        self, family: Variants, arguments: Arguments, stopped, call: EvaluationCall
    ):
        """A call that no program serves: recorded, or eagerly."""
        if self._reason is None and stopped is not None:  # else found while a graph was read
            self._flows.check_branch(self, family, stopped)
        if self._reason is not None:
            return self._eagerly(*call)
        if stopped is not None and self._flows.is_lost_at(self, family, stopped):
            with family.budget.calling():
                return self._eagerly(*call)
        return self._record(family, arguments, call)

    def _program_for(self, arguments: Arguments) -> Program:
        """The program by which a call with such arguments is evaluated, recorded if need be."""
        with self._flows.aside():
            for _ in range(2):  # recorded, and compared
                call = lambda *a, **k: self._evaluate(a, k, gradient=False)
                arguments.call(call, arguments.values)
        family = self._families.found.get(arguments.key) if self._reason is None else None
        run = None
        if family is not None:
            self._settle(family)
            _, run, _ = family.run(arguments.values, False)
        if run is None:
            raise ValueError(f"tapegrad.compile: {self._name} has no program: {self._reason}")
        run.program.end(run)
        return run.program

    def _count_hit(self, family: Variants, variant: Variant, values: list) -> None:
        family.hits += 1
        self._count(variant, 1, values)

    def _flow_for(self, arguments: Arguments) -> Flow | None:
        """The graph that serves a call, if there is one."""
        if arguments.nested or arguments.reason is not None:
            return None
        if not self._flows.found:
            if arguments.key in self._families.found:
                return None
            if lost := self._flows.recall(self, arguments):
                self._families.of(arguments.key).lose(lost)
        return self._flows.of(self, arguments)

    def _by_flow(self, arguments: Arguments, call: EvaluationCall) -> tuple | None:
        """Value and gradient by the graph of the function; None where it has none for the call."""
        flow = self._flow_for(arguments)
        found = None if flow is None else flow.run(arguments.values, call.gradient)
        if flow is None or found is None:
            return None
        value, made, taken = found
        gradients = None
        if call.gradient:
            gradients = arguments.gradients(made, self._argnums, self._single)
        self._fast = self._fast_value = None
        self._flows.count(self, flow.primal, flow.inputs(arguments.values))
        due = flow.primal.is_due(taken, call.gradient)
        if self._verify == "always" or (self._verify == "once" and due):
            expected = self._eagerly(*call)
            if self._flows.differs(self, flow, arguments, (value, gradients), expected):
                return expected
            flow.primal.note_compared(taken, call.gradient)
        return value, gradients

    def _make_hot(self, fast: FastCall, args: tuple) -> None:
        """Let native code be made of a program that many short calls have used."""
        self._make_native(fast.variant, Arguments(args, {}, self._argnums).values)

    def _as_row(self, args, kwargs, arguments: Arguments) -> tuple | None:
        """The result for recorded arguments, in a tuple, as one row; None where it is none."""
        recorded = [any(is_recorded(leaf) for _, leaf in tree_leaves(arg)) for arg in args]
        numbers = tuple([number for number, one in enumerate(recorded) if one])
        if self._kind != "value" or not numbers or repeats([args[k] for k in numbers]):
            return None
        if arguments.wanted.issuperset(numbers):
            return recorded_call(self, arguments)
        other = self._with_argnums(numbers)
        if (row := other._as_short_row(args, kwargs)) is not None:
            return row
        return recorded_call(other, Arguments(args, kwargs, numbers))

    def _as_short_row(self, args, kwargs) -> tuple | None:
        """The same by the fast path of a call."""
        return None if kwargs else short_recorded_call(self, args)

    def _with_argnums(self, argnums) -> Replayed:
        """The function with other arguments differentiated."""
        raise NotImplementedError

    def _shorten(self, variant: Variant, arguments: Arguments, gradient: bool) -> None:
        """Let the next call be a short one, if it is like this; not while code is on trial."""
        fast = fast_call(variant, arguments)
        if variant.trial is not None:  # checked after `fast` has its program
            fast = None
        if not gradient:
            self._fast_value = fast
            return
        if fast is not None and fast.bare:
            numbers = [number % fast.count for number in self._argnums]
            fast.order = [sorted({*numbers}).index(number) for number in numbers]
        self._fast = fast if fast is not None and fast.is_number else None

    def _family(self, arguments: Arguments) -> Variants | None:
        """The programs for such arguments; None where the function is to be called as it is."""
        if arguments.nested:
            return None
        if arguments.reason is not None:
            self._give_up(arguments.reason)
            return None
        names = self._families.names
        if names is not None and not names.unchanged():
            self._renew(names, arguments)
        family = self._families.of(arguments.key)
        if self._families.unused >= SIGNATURES:
            self._give_up(
                "its arguments that are neither floats nor arrays differ at nearly every call; "
                "pass an int that changes as a float or an array"
            )
            return None
        self._convert(family, State.PENDING)
        return family if self._reason is None else None

    def _renew(self, names: Dependencies, arguments: Arguments) -> None:
        """Forget all programs, since a name that the function reads has another value.

        If data changes at nearly every call, a graph may serve: it reads arrays in each call.
        """
        reason = self._renewals.reason(names, self._families.evaluations)
        self._forget(names)
        self._flows.renew()
        if reason is not None:
            if not names.is_data() or self._flows.graph(self, arguments) is None:
                self._give_up(reason)

    def _forget(self, names: Dependencies) -> None:
        """Forget all programs, since a name has another value."""
        self._history.note(f"programs are forgotten: {names.changed()} has another value")
        self._families = Families(SIGNATURES, VARIANTS, self._history)
        self._fast = self._fast_value = None

    def _differentiated(self, variant: Variant, memory, arguments: Arguments, value):
        outputs = variant.program.code.outputs
        if len(variant.leaves) != 1 or np.size(value) != 1:
            raise ValueError(NO_NUMBER)
        adjoints = memory.program.reverse(memory, [np.ones(one.view.shape) for one in outputs])
        found = [plain(adjoint) for adjoint in adjoints if adjoint is not None]
        return plain(np.reshape(value, ())), arguments.gradients(found, self._argnums, self._single)

    def _record(self, family: Variants, arguments: Arguments, call: EvaluationCall):
        """Call the function, and keep its program, if it is worth one."""
        self._recordings += 1
        try:
            with family.budget.recording():
                found = self._recorded(family, arguments, call.gradient)
            return self._eagerly(*call) if found is None else found
        except RaisedError as error:
            reason = str(error)
        except NotRecorded as error:
            self._give_up(str(error))
            return self._eagerly(*call)
        found = self._eagerly(*call)
        self._give_up(reason)
        return found

    def _recorded(self, family: Variants, arguments: Arguments, gradient: bool):
        """The result of the recorded call; None if only its program would show that it is right."""
        names = self._families.names_for(self._f, arguments)
        if names.unknown is not None:
            raise NotRecorded(names.unknown)
        if are_replaced(names):
            return None
        draws, before = Draws(self._f, self._watched), [*names.effects_now(), *names.long_now()]
        known = len(names.effects)
        in_place = arrays_in_place(self._f, arguments, names)
        with traced_call(self._entered, arguments, draws=draws, in_place=in_place) as traced:
            traced.names = names = self._families.after_call(names)
            traced.keep_in_place(names)
            traced.changed = [*self._effects.of_call(before), *names.effects[known:]]
            if self._verify == "never":
                self._report(self._effects.of_recording(traced.changed), arguments)
            self._watched = draws.is_unsure  # once more
            # else what it reads may be of either value
            is_sure = names.unchanged() and not draws.is_unsure
            found = self._computed(family, arguments, traced, is_sure, gradient)
        if found is None or not gradient:
            return found
        return found[0], arguments.gradients(found[1], self._argnums, self._single)

    def _computed(self, family, arguments: Arguments, traced: Traced, is_sure: bool, gradient):
        """The result of a recording and its derivatives, of which a program is made now or later.

        None if only its program would show that it is right. One is made only if it `is_sure`.
        """
        waits = self._put_off(family, arguments, traced) if is_sure else None
        if waits is not None:
            arguments.keep()
        elif (reason := self._reason_against(family, traced if is_sure else None)) is not None:
            if traced.trace.refusal is None:
                raise NotRecorded(reason)
            self._give_up(reason)
        try:
            if waits in (State.BRANCHING, State.SPARE) and traced.asks_for_types:
                return None
            is_kept = waits is not None
            return traced.value_and_grad(is_kept) if gradient else (traced.value(), None)
        except NoPartial:  # perhaps by data, which are recorded as well
            return None
        finally:  # other threads may make its program from now on
            if waits is not None:
                family.life.go(waits, waits.value, traced)

    def _convert(self, family: Variants, *states: State) -> None:
        """Make a program of the last recording, if it is in one of some states."""
        if (traced := family.life.take(*states)) is not None:
            self._make_program(family, traced)

    def _make_program(self, family: Variants, traced: Traced) -> None:
        """Make a program of a recording that has waited for it."""
        with family.budget.making():
            reason = self._reason_against(family, traced)
        if reason is not None:
            self._give_up(reason)

    def _reason_against(self, family: Variants, traced: Traced | None) -> str | None:
        """Make a program of a recording, if there is one; returns the reason for having none."""
        if traced is None:
            return None
        with Progress(f"making a program of {self._name}, of {counted(traced.rows, 'row')}"):
            variant, reason = traced.program()
        if variant is None:
            return reason
        recent = self._fast or self._fast_value
        family.add(variant, None if recent is None else recent.variant)
        family.life.go(
            State.PROGRAM, f"a program of {counted(len(variant.program.source.steps), 'step')}"
        )
        self._families.settle(variant)
        if self._native:
            self._make_native(variant, traced.values)
        return None

    def _eagerly(self, args, kwargs, gradient: bool):
        """Call the function eagerly; as in a program, its writes to arguments are local."""
        own = {k % len(args) for k in self._argnums} if gradient and args else set()
        kept: dict = {}
        args = [arg if k in own else own_copy(arg, kept) for k, arg in enumerate(args)]
        kwargs = {name: own_copy(arg, kept) for name, arg in kwargs.items()}
        if gradient:
            return value_and_grad(
                self._entered, self._argnums[0] if self._single else self._argnums
            )(*args, **kwargs)
        return self._entered(*args, **kwargs), None

    def _give_up(self, reason: str) -> None:
        is_new = self._life.go(State.EAGER, f"{State.EAGER.value}: {reason}", reason)
        self._fast = self._fast_value = None
        if self._flows.has_warned or not is_new:
            return
        warnings.warn(
            f"tapegrad.compile: {self._name} runs eagerly, without a program: {reason}",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def _count(self, variant: Variant, evaluations: int, values: list) -> None:
        """Count evaluations of a program; after enough of them it gets native code."""
        if self._native is False or variant.life.state is not State.INTERPRETED:
            return
        variant.calls += evaluations
        if variant.patience is None:
            variant.patience = patience(variant.program)
        if variant.calls >= variant.patience:
            self._make_native(variant, values)

    def _make_native(self, variant: Variant, values: list | None) -> None:
        """Let native code be made of a program, and be compared with it at some inputs first."""
        if self._native is False or variant.program.native:
            return
        trial = Trial(variant.program, values) if self._compares else None
        make = functools.partial(make_program_native, variant, self._memory == "sqrt", trial)
        count = variant.calls + (0 if variant.fast is None else variant.fast.calls)
        self._later(variant.life, f"after {counted(count, 'evaluation')} of a program", make)

    def _later(self, life: Life, why: str, make: Callable[[], None]) -> None:
        """Let native code be made in the background, if it has not been asked for."""
        if life.history is None:
            life.history = self._history
        future = native_later(life, self._name, why, make)
        if future is not None:
            self._compiling.append(future)

    def _go_on_with_trials(self, family: Variants, values: list) -> None:
        """Compare new native code with the interpreted programs at the inputs of this call."""
        for variant in family.found:
            trial = variant.trial
            if trial is not None and (trial.left > 0 or variant is family.found[0]):
                try:
                    if trial.is_over(values):
                        variant.life.go(State.NATIVE, "native code stays: no difference was found")
                except RuntimeError as error:
                    use_plain(variant, trial)
                    stays_interpreted(variant.life, self._name, error, users_level() + 1)

    # --- a graph is looked for first, or a path must come again ----------------------------------

    def _without_program(self, family: Variants, arguments: Arguments, call: EvaluationCall):
        """The result by a graph made now, or of an eager call where no path is known to come again.

        None where the call is to be recorded, or a program has been made.
        """
        if family.life.state is State.BRANCHING:
            if (found := self._by_new_flow(family, arguments, call)) is not None:
                return found
        if family.found or not self._flows.is_without_program(self, family):
            return None
        if not family.budget.has_called:
            arguments.keep()
            family.life.go(State.CALLED, State.CALLED.value, arguments)
        with family.budget.calling():
            return self._eagerly(*call)

    def _by_new_flow(self, family: Variants, arguments: Arguments, call: EvaluationCall):
        """Value and gradient by a graph, made in place of the program of the last recording.

        None where it has none: then this program is made.
        """
        traced = family.life.take(State.BRANCHING)
        if traced is None:
            return None
        guard = str(traced.branch)
        with family.budget.making():
            is_there = self._flows.asked(self, arguments, guard)
        has_one_path = isinstance(traced.branch, str)
        if not is_there and (has_one_path or not self._flows.is_lost):  # it is not to have one
            self._make_program(family, traced)
            return None
        family.life.go(State.SPARE, held=traced)
        left = self._leaves_new_flow(arguments, traced) if is_there else ""
        if is_there and (found := self._by_flow(arguments, call)) is not None:
            family.life.go(State.SERVED, State.SERVED.value)
            return found
        if left:  # as this one has
            self._flows.drop_last(self, left)
        if self._flows.is_lost:
            family.lose(guard)
            self._flows.note_loss(self, arguments, guard)
            family.budget.comes_again(traced.trace.guards)
        return None

    def _leaves_new_flow(self, arguments: Arguments, traced: Traced) -> str:
        """Why the recorded call leaves the graph that was made since; else they are compared."""
        flow = self._flow_for(arguments)
        if flow is None or not traced.names.unchanged():
            return ""
        left = flow.compare(traced.values, traced.result)
        flow.reading.shared.is_first = not left
        return left

    def _put_off(self, family: Variants, arguments: Arguments, traced: Traced) -> State | None:
        """The state in which a recording waits to become a program; None if it is made one now."""
        found = None
        if traced.trace.refusal is None and not self._flows.is_aside:
            found = self._awaited(family, arguments, traced)
        if found is None and traced.is_long and not self._native and not traced.asks_for_types:
            return State.PENDING  # after the first result
        return found

    def _awaited(self, family: Variants, arguments: Arguments, traced: Traced) -> State | None:
        """The same where a graph may serve, or no other call go this way."""
        if not family.lost:
            traced.branch = self._flows.first_for(self, arguments, traced)
            if traced.branch is None:
                return None
            if not self._flows.is_refused(arguments):
                return State.BRANCHING
            family.lose(str(traced.branch))
        served = family.evaluations
        is_worth = family.budget.is_worth(traced.trace.guards, traced.rows, served)
        return None if is_worth else State.SPARE

    def _settle(self, family: Variants) -> None:
        """Make a program where one is asked for, of the last recording if there is none."""
        if family.found:
            self._convert(family, State.PENDING, State.BRANCHING)
            return
        first = family.life.held
        if isinstance(first, Arguments):  # called
            with self._flows.aside():
                call = lambda *args, **kwargs: self._evaluate(args, kwargs, False)
                first.call(call, first.values)
        self._convert(family, State.PENDING, State.BRANCHING, State.SPARE)

    # --- first results are compared with those of the function -----------------------------------

    def _verified(self, found, variant: Variant, arguments: Arguments, call: EvaluationCall):
        """Compare with an eager call; returns its result where it is of another function."""
        before, long = variant.names.effects_now(), variant.names.long_now()
        expected = self._compared(variant, arguments, call)
        if self._is_of_another(variant, expected):
            return expected
        moved = [*self._effects.of_call(before), *[one for one in long if not one.is_there()]]
        changed = moved if self._verify == "once" else []
        if self._depends_on(changed, arguments):
            return expected
        pair = self._difference(found, expected, variant, arguments)
        if pair is not None:
            why = _AS_NAN if differ_in_nan(*pair, dtype=arguments.dtype) else _AS_OTHER
            raise RuntimeError(
                f"tapegrad.compile: {self._name} replayed gives {pair[0]}, called again {pair[1]}"
                f"{why}"
            )
        if variant.checked <= call.gradient:
            what = "value and gradient" if call.gradient else "value"
            variant.life.note(f"{what} compared with an eager call: equal")
            variant.checked = 1 + call.gradient
        self._effects.report(changed, self._name)
        is_settled = bool(before) and not moved and self._reason is None
        if is_settled and variant.names is self._families.names:  # no other thread has recorded
            self._families.put(variant.names.settled(before))
        return None if self._reason is None else expected

    def _check_compared(self) -> None:
        """Check that no program is of state that its recorded call has changed, and no other saw.

        Raises ValueError.
        """
        found = [one for family in list(self._families.found.values()) for one in family.found]
        alone = [one for one in found if not one.checked and one.names.unchanged()]
        changed = [one for variant in alone for one in variant.changed]
        if self._verify == "never" or not changed:
            return
        if (name := seems_read(self._f, changed)) is not None:
            raise ValueError(
                f"a call that was recorded has changed {name}, which its result may depend on; "
                "repeat the call, so that its program is compared, and save then"
            )

    def _report(self, changed: list[Checked], arguments: Arguments) -> None:
        """Report what the function changes outside; run eagerly if results depend on that."""
        if not self._depends_on(changed, arguments):
            self._effects.report(changed, self._name)

    def _depends_on(self, changed: list[Checked], arguments: Arguments) -> bool:
        """Whether a result may depend on what the function changes, which then runs eagerly."""
        reason = self._flows.dependence(self, arguments, changed) if changed else None
        if reason is not None:
            self._give_up(reason)
        return reason is not None

    def _compared(self, variant: Variant, arguments: Arguments, call: EvaluationCall):
        """What the function gives, to compare: for tensors where it does not take arrays.

        Forward of an `autograd.Function` may rely on tensors, which it is given in a program.
        """
        try:
            return self._eagerly(*call)
        except Exception:
            if call.gradient or not variant.program.code.of(Custom):
                raise
        tensors = [wrap(np.array(value)) for value in arguments.values]
        args, kwargs = arguments.build(tensors)
        return self._entered(*args, **kwargs), None

    def _is_of_another(self, variant: Variant, expected) -> bool:
        """Whether what a call gave cannot be compared: the function is not the recorded one now."""
        if reads_others(expected, []):
            self._give_up(READS_OTHERS)
            return True
        return not variant.names.unchanged()  # another thread has changed one during the call

    def _difference(self, found, expected, variant: Variant, arguments: Arguments):
        """Two leaves that differ from those of an eager call of the function; None without."""

        gradient = found[1] is not None

        def again(values):
            return arguments.call(lambda *a, **k: self._eagerly(a, k, gradient), values)

        def adjoints(noise):
            wanted = [m for m, (_, _, is_one) in zip(noise, arguments.kinds, strict=True) if is_one]
            built = arguments.in_structure(wanted, self._argnums, self._single)
            return [m for _, m in tree_leaves(built)]

        noises = variant.noises(arguments.values, again, adjoints if gradient else None)
        return first_difference(found, expected, *noises, dtype=arguments.dtype)


# --- what a compiled function consists of, to be written to a file and read from one --------------


@dataclasses.dataclass
class Compilation:
    """A compiled function: name, kind of result, differentiated arguments, programs.

    `derived` are transforms of it, such as its Hessian, by name; `reason` is that of having no
    programs; `graphs` are those of its loops and branches, `refused` the reason for having none;
    `native` is the setting.
    """

    name: str
    kind: str
    argnums: tuple[int, ...]
    single: bool
    families: dict[Any, Variants]
    derived: dict[str, Compilation]
    reason: str | None = None
    graphs: tuple[Flow, ...] = ()
    refused: tuple[str, ...] = ()
    native: bool | None = None
    changes: str | None = None  # what the function changes outside, and where
    history: History | None = None  # unless it was loaded from a file

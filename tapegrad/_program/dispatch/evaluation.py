"""A function recorded at its first call and replayed afterwards: one evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from ..._core.codegen.special_values import NoPartial
from ..._core.tensor.dependencies import Dependencies
from ..._core.tensor.pytree import repeats, tree_leaves
from ..._core.tensor.row_listeners import users_level
from ..._core.tensor.values import is_recorded
from ..._derivatives.inputs import plain
from ..._entering.entering import entering
from ..._entering.numba_functions import followed
from ..._flow.reading import recorded_calls
from ..._transforms.gradients import value_and_grad
from ..build.executable import Program
from ..ir.json_values import printable
from ..replay import rule_parts
from .arrays_in_place import arrays_in_place
from .background import compile_later, failed, patience
from .effects import Effects
from .families import Families, Renewals
from .fast_path import FastCall, fast_call
from .flow_choice import Flows
from .flows import Flow
from .library_calls import operations
from .names_read import are_replaced
from .put_off import PutOff
from .random_draws import Draws
from .recorded_call import recorded_call, short_recorded_call
from .rule_programs import rule_program
from .signature import Arguments, own_copy
from .takeover import Trial
from .variants import NotRecorded, RaisedError, Traced, Variant, Variants, traced_call

#: The largest numbers of programs kept for one signature, and of signatures.
VARIANTS, SIGNATURES = 32, 64
NO_NUMBER = (
    "tapegrad.compile: the function returned more than one number; a gradient is of a scalar: "
    "reduce it, for instance with sum(), or use jacobian"
)


rule_parts.makers.append(rule_program)
recorded_calls.recorders.append(operations)


class Replayed(PutOff):
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
        self._families = Families(SIGNATURES, VARIANTS)
        self._renewals = Renewals()
        self._reason: str | None = None  # the reason for having no program
        # the program used last, if calls of it can be short: for values and gradients, for values
        self._fast: FastCall | None = None
        self._fast_value: FastCall | None = None
        self._compiling: list[Future] = []
        self._compares = verify != "never"  # native code with the interpreted program
        self._flows = Flows()
        self._effects = Effects(self._f)
        self._watched = False  # whether draws of random numbers are its own, see `Draws`
        #: Arguments that are objects of their own, see `Arguments`, in calls for values.
        self._apart: tuple[int, ...] | None = ()

    def _evaluate(self, args, kwargs, gradient: bool):
        arguments = None
        if self._reason is None:
            apart = None if gradient else self._apart
            arguments = Arguments(args, kwargs, self._argnums, apart)
        if arguments is not None and (found := self._by_flow(arguments, args, kwargs, gradient)):
            return found
        family = self._family(arguments) if arguments is not None else None
        if arguments is None or family is None:
            if arguments is not None and arguments.nested and not gradient:
                if (row := self._as_row(args, kwargs, arguments)) is not None:
                    return row[0], None
            return self._eagerly(args, kwargs, gradient)
        if (found := self._without_program(family, arguments, args, kwargs, gradient)) is not None:
            return found
        self._go_on_with_trials(family, arguments.values)
        variant, memory, stopped = family.run(arguments.values, gradient)
        if variant is None or memory is None:
            if self._flows.asked(self, arguments, stopped):
                if (found := self._by_flow(arguments, args, kwargs, gradient)) is not None:
                    return found
            return self._on_another_way(family, arguments, stopped, args, kwargs, gradient)
        if variant.trial is not None and variant.trial.is_new:  # it has just been set
            memory.program.end(memory)
            return self._evaluate(args, kwargs, gradient)
        self._count_hit(family, variant, arguments.values)
        try:
            value = variant.result(memory.program.results(memory))
            found = value, None
            if gradient:
                found = self._differentiated(variant, memory, arguments, value)
        finally:
            memory.program.end(memory)
        if self._verify == "always" or (self._verify == "once" and variant.checked <= gradient):
            expected = self._verified(found, variant, arguments, args, kwargs)
            if expected is not None:
                return expected
        if self._verify != "always" and not self._flows.serves(arguments):
            self._shorten(variant, arguments, gradient)
        return found

    def _on_another_way(self, family, arguments: Arguments, stopped, args, kwargs, gradient: bool):
        """A call that no program serves: recorded, or eagerly."""
        if self._reason is not None:  # found while a graph was read
            return self._eagerly(args, kwargs, gradient)
        if stopped is not None:
            self._flows.check_branch(self, family, stopped)
            if self._reason is not None:
                return self._eagerly(args, kwargs, gradient)
            if self._flows.is_lost_at(self, family, stopped):
                with family.budget.calling():
                    return self._eagerly(args, kwargs, gradient)
        return self._record(family, arguments, args, kwargs, gradient)

    def _program_for(self, arguments: Arguments) -> Program:
        """The program by which a call with such arguments is evaluated, recorded if need be."""
        with self._flows.aside():
            for _ in range(2):  # recorded, and compared
                call = lambda *a, **k: self._evaluate(a, k, gradient=False)  # noqa: E731
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
                self._families.of(arguments.key).lost = lost
        return self._flows.of(self, arguments)

    def _by_flow(self, arguments: Arguments, args, kwargs, gradient: bool) -> tuple | None:
        """Value and gradient by the graph of the function; None where it has none for the call."""
        flow = self._flow_for(arguments)
        found = None if flow is None else flow.run(arguments.values, gradient)
        if flow is None or found is None:
            return None
        value, made, taken = found
        gradients = arguments.gradients(made, self._argnums, self._single) if gradient else None
        self._fast = self._fast_value = None
        self._flows.count(self, flow.primal, flow.inputs(arguments.values))
        due = flow.primal.is_due(taken, gradient)
        if self._verify == "always" or (self._verify == "once" and due):
            expected = self._eagerly(args, kwargs, gradient)
            if self._flows.differs(self, flow, arguments, (value, gradients), expected):
                return expected
            flow.primal.note_compared(taken, gradient)
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
        if family.branching is None:
            self._convert(family)
        return family if self._reason is None else None

    def _renew(self, names: Dependencies, arguments: Arguments) -> None:
        """Forget all programs, since a name that the function reads has another value.

        If data changes at nearly every call, a graph may serve: it reads arrays in each call.
        """
        reason = self._renewals.reason(names, self._families.evaluations)
        self._forget()
        self._flows.renew()
        if reason is not None:
            if not names.is_data() or self._flows.graph(self, arguments) is None:
                self._give_up(reason)

    def _forget(self) -> None:
        """Forget all programs."""
        self._families = Families(SIGNATURES, VARIANTS)
        self._fast = self._fast_value = None

    def _differentiated(self, variant: Variant, memory, arguments: Arguments, value):
        outputs = variant.program.code.outputs
        if len(variant.leaves) != 1 or np.size(value) != 1:
            raise ValueError(NO_NUMBER)
        adjoints = memory.program.reverse(memory, [np.ones(one.view.shape) for one in outputs])
        found = [plain(adjoint) for adjoint in adjoints if adjoint is not None]
        return plain(np.reshape(value, ())), arguments.gradients(found, self._argnums, self._single)

    def _record(self, family: Variants, arguments: Arguments, args, kwargs, gradient: bool):
        """Call the function, and keep its program, if it is worth one."""
        try:
            with family.budget.recording():
                found = self._recorded(family, arguments, gradient)
            return self._eagerly(args, kwargs, gradient) if found is None else found
        except RaisedError as error:
            reason = str(error)
        except NotRecorded as error:
            self._give_up(str(error))
            return self._eagerly(args, kwargs, gradient)
        found = self._eagerly(args, kwargs, gradient)
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
        is_put_off, branching = False, None
        if is_sure:
            is_put_off, branching = self._put_off(family, arguments, traced)
        waits = self._native or traced.asks_for_types  # the first result, for the program
        later = is_put_off or (traced.is_long and not waits)
        if later:
            arguments.keep()
        elif (reason := self._reason_against(family, traced if is_sure else None)) is not None:
            if traced.trace.refusal is None:
                raise NotRecorded(reason)
            self._give_up(reason)
        try:
            if is_put_off and traced.asks_for_types:
                return None
            return traced.value_and_grad(later) if gradient else (traced.value(), None)
        except NoPartial:  # perhaps by data, which are recorded as well
            return None
        finally:  # other threads may make its program from now on
            if later and is_sure and family.spare is not traced:
                family.pending, family.branching = traced, branching

    def _convert(self, family: Variants) -> None:
        """Make a program of the last recording, if that is still due."""
        traced, family.pending, family.branching = family.pending, None, None
        with family.budget.making():
            reason = self._reason_against(family, traced)
        if reason is not None:
            self._give_up(reason)

    def _reason_against(self, family: Variants, traced: Traced | None) -> str | None:
        """Make a program of a recording, if there is one; returns the reason for having none."""
        if traced is None:
            return None
        variant, reason = traced.program()
        if variant is None:
            return reason
        recent = self._fast or self._fast_value
        family.add(variant, None if recent is None else recent.variant)
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

    def _give_up(self, reason: str | None) -> None:
        self._reason = reason
        self._fast = self._fast_value = None
        if self._flows.has_warned:
            return
        warnings.warn(
            f"tapegrad.compile: {self._name} runs eagerly, without a program: {reason}",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def _count(self, variant: Variant, evaluations: int, values: list) -> None:
        """Count evaluations of a program; after enough of them it gets native code."""
        if self._native is False or variant.asked:
            return
        variant.calls += evaluations
        if variant.patience is None:
            variant.patience = patience(variant.program)
        if variant.calls >= variant.patience:
            self._make_native(variant, values)

    def _make_native(self, variant: Variant, values: list | None) -> None:
        """Let native code be made of a program, and be compared with it at some inputs first."""
        if self._native is False or variant.asked or variant.program.native:
            return
        variant.asked = True
        trial = Trial(variant.program, values) if self._compares else None
        cut = self._memory == "sqrt"
        self._compiling.append(compile_later(variant, cut, self._name, trial))

    def _go_on_with_trials(self, family: Variants, values: list) -> None:
        """Compare new native code with the interpreted programs at the inputs of this call."""
        for variant in family.found:
            trial = variant.trial
            if trial is not None and (trial.left > 0 or variant is family.found[0]):
                try:
                    over = trial.is_over(variant.program, values)
                except RuntimeError as error:
                    over = True
                    variant.use(trial.plain)
                    if variant.failure is None:  # no other thread was here
                        failed(variant, self._name, error, users_level() + 1)
                if over:
                    variant.trial = None

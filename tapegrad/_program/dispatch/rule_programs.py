"""Functions of this package and of libraries that are recorded, and made programs or graphs.

A rule is a function of the adjoint of the output, the output and the operands. Its program computes
values alone. The steps in it may have rules themselves, which are not used.
"""

from __future__ import annotations

import collections
import itertools
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from ..._core.codegen import process
from ..._core.ops.table import STEERING
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import pack
from ..._flow.reading.calls import Operations, Plain, Sample
from ..build.scalarization import Spreader, is_small
from ..ir.steps import ARENA, GUARD, Code, Step
from ..ir.uses import any_in, mark_outputs, mark_reads, slots_of
from ..replay.operation_parts import OperationUse, RuleProgram
from .signature import Arguments
from .variants import NotRecorded, Variant, traced_call

#: Rules that are kept, by use: parts of programs.
_known: weakref.WeakValueDictionary[Hashable, RuleProgram] = weakref.WeakValueDictionary()
#: The most slots of programs that stay after the programs that requested them are freed.
LAST, SMALL = 64, 1 << 14
_last: collections.deque[RuleProgram] = collections.deque(maxlen=LAST)
_lock = process.lock()
#: The pass that leaves large inputs where the caller has them, for which they must be in C order.
_IN_PLACE = "leave inputs"


def rule_program(use: OperationUse, g, out, operands: list) -> RuleProgram | None:
    """The program of the rule of a use, made with these values unless there is one.

    None if there is none: the rule has guards, calls Python, or raises.
    """
    key = use, repr(use.static)  # 1 and True are equal
    try:
        with _lock:
            found = _known.get(key)
    except TypeError:  # keyword arguments that cannot be compared
        return None
    if found is not None:
        return found
    try:
        made = _made(use, g, out, operands)
    except NotRecorded:  # Python then raises the error, unless it is due to tracing
        return None
    if made is None:
        return None
    if made.program.code.slots <= SMALL:
        _last.append(made)
    with _lock:
        return _known.setdefault(key, made)


def _made(use: OperationUse, g, out, operands: list) -> RuleProgram | None:
    reads = use.op.used
    numbers = [k for k in range(-1, len(operands)) if reads >> k + 1 & 1]
    plain = [out, *operands]

    def rule(g, *given):
        """The adjoints of the operands that need them."""
        read = dict(zip(numbers, map(_as_array, given), strict=True))
        unread = [np.broadcast_to(0.0, np.shape(x)) for x in plain]
        out, *operands = [read.get(k, x) for k, x in enumerate(unread, -1)]
        return use.parts(_as_array(g), out, operands)

    given = (g, *[plain[k + 1] for k in numbers])
    without = () if use.in_order else (_IN_PLACE,)
    with traced_call(rule, Arguments(given, {}, tuple(range(len(given)))), without) as traced:
        variant, _ = traced.program()
    return None if variant is None else _placed(use, variant, numbers)


def _as_array(x):
    """An argument of no axes as a rule gets it: an array."""
    return pack(x) if type(x) is rt.Scalar else np.asarray(x) if isinstance(x, float) else x


def _placed(use: OperationUse, variant: Variant, numbers: list[int]) -> RuleProgram | None:
    """The places of inputs and results; None if the program has guards or calls Python."""
    code, results = variant.program.code, {}
    if variant.guards or any(step.calls_python_in(code.item) for step in code.steps):
        return None
    for k, (number, constant) in enumerate(variant.leaves):
        if number >= 0:
            results[k] = code.outputs[number].view
        elif constant is not None and np.any(constant):  # not linear in the adjoint
            return None
    if any(view.shape != use.shapes[k] for k, view in results.items()):
        return None
    read = np.zeros(code.slots, bool)
    for step in code.steps:
        mark_reads(step, read)
    mark_outputs(code, read)
    bases = {view.base for step in code.steps for view in step.views_read}
    seed, *given = [
        view if (any_in(read, view) if view.base == ARENA else view.base in bases) else None
        for view in [one.view for one in code.inputs]
    ]
    values = {k: view for k, view in zip(numbers, given, strict=True) if view is not None}
    return RuleProgram(variant.program, seed, values, results)


# --- functions of libraries, for graphs -----------------------------------------------------------
# Functions of libraries as operations on numbers, for graphs: recorded, converted, written out.


#: The most operations that are written for a call.
_MOST = 2000
#: Numbers at which a function is recorded: the first and the distance of those after it.
_STARTS = ((0.37, 0.11), (2.3, 0.7), (9.1, -1.3))
#: A pass that leaves large inputs where the caller has them.
_WITHOUT = ("leave inputs",)
#: By operations that refuse numbers, the comparison with 0 that holds for others.
_HOLDS = {"check_regular": "not_equal", "check_definite": "greater"}


class _Unwritten(Exception):
    """Why a program is no list of operations on numbers."""


class _SampleNumbers(Spreader):
    """The operations of a program on numbers, one by one."""

    def __init__(self, code: Code):
        super().__init__(code)
        self.operations: list[tuple[int, tuple[int, ...], int]] = []
        self.refusals: list[str] = []  # what is checked at the end
        self.read = np.zeros(code.slots, bool)

    def written_out(self) -> None:
        for step in self.code.steps:
            step.accept(self)
        for op, slots in self.refused.items():
            found, zero = np.array([*slots]), np.full(len(slots), self.zero)
            holds = self.apply(STEERING[_HOLDS[op.name]].code, found, zero)
            self.write(np.full(len(found), GUARD), holds, np.full(len(found), self.one))
            self.refusals += [f"{op.name}()"] * len(found)

    def flush(self) -> None:
        """Operations are in one list."""

    def write(self, op: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        made = np.arange(self.slots, self.slots + len(op))
        rows = zip(op.tolist(), made.tolist(), *[x.tolist() for x in operands], strict=True)
        for code, slot, *given in rows:
            self.operations.append((code, tuple([x for x in given if x >= 0]), slot))
        if len(self.operations) > _MOST:
            raise _Unwritten(f"it computes more than {_MOST} numbers")
        self.slots += len(op)
        return made

    def elementwise(self, step: Any) -> None:
        step.expand(self)

    def other(self, step: Step) -> None:
        if not is_small(step):
            raise _Unwritten(f"{step.called or step.plural} is no operation on numbers")
        step.expand(self)


def operations(function: Callable, args: tuple, kwargs: dict) -> Operations | str:
    """What a function does with arguments, as `recorded_calls.recorders` say."""
    state: Any = np.random.get_state()
    try:
        found = _operations(function, args, kwargs)
        now: Any = np.random.get_state()
        is_drawn = now[2] != state[2] or not np.array_equal(now[1], state[1])
        return "it draws random numbers" if is_drawn else found
    finally:
        np.random.set_state(state)


def _operations(function, args: tuple, kwargs: dict) -> Operations | str:
    reason = ""
    for first, distance in _STARTS:
        numbers = itertools.count(first, distance)
        values = [_sample(one, numbers) for one in _samples((args, *kwargs.values()))]
        try:
            with np.errstate(all="ignore"):
                variant, why = _recorded(function, args, kwargs, values)
        except NotRecorded as error:
            variant, why = None, str(error)
        if variant is not None:
            return _written(variant)
        reason = reason or why or "it cannot be recorded"
    return reason


def _recorded(function, args: tuple, kwargs: dict, values: list):
    """The program of a call, and why there is none, with values in place of samples."""

    def called(*values):
        given = iter(values)
        first = [_filled(one, given) for one in args]
        return function(*first, **{name: _filled(one, given) for name, one in kwargs.items()})

    arguments = Arguments((*values,), {}, tuple(range(len(values))))
    with traced_call(called, arguments, _WITHOUT) as traced:
        return traced.program()


def _samples(tree) -> Iterator[Sample]:
    if isinstance(tree, tuple):
        for one in tree:
            yield from _samples(one)
    elif isinstance(tree, Sample):
        yield tree


def _filled(tree, values: Iterator):
    """An argument with values in place of its samples."""
    if isinstance(tree, tuple):
        return tuple([_filled(one, values) for one in tree])
    return tree.value if isinstance(tree, Plain) else next(values)


def _sample(sample: Sample, numbers: Iterator[float]):
    """A value to record with; matrices are positive definite."""
    shape = sample.shape
    if not shape:
        return next(numbers)
    made = np.array([next(numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)
    is_square = len(shape) == 2 and shape[0] == shape[1]
    return 0.05 * (made + made.T) + 10.0 * np.eye(len(made)) if is_square else made


def _written(variant: Variant) -> Operations | str:
    code = variant.program.code
    numbers = _SampleNumbers(code)
    try:
        numbers.written_out()
    except _Unwritten as error:
        return str(error)
    constants = {
        first + k: value
        for first, values in numbers.constants
        for k, value in enumerate(np.asarray(values, float).ravel().tolist())
    }
    results: list[tuple[np.ndarray | None, Any]] = [
        (None, constant) if number < 0 else _result(numbers, code.outputs[number])
        for number, constant in variant.leaves
    ]
    inputs = [slots_of(one.view) for one in code.inputs]
    reads = [one.how for one in variant.guards] + numbers.refusals
    return Operations(inputs, constants, numbers.operations, reads, variant.tree, results)


def _result(numbers: _SampleNumbers, output) -> tuple[np.ndarray, np.dtype]:
    return numbers.of(output.view), output.dtype

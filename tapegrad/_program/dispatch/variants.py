"""Recordings of a function and the programs of each signature, one for each way through it."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.codegen import process
from ..._core.codegen.layout import STATE_BYTES
from ..._core.remembered import remembered
from ..._core.tape import store
from ..._core.tape.native_types import get_word
from ..._core.tape.sweeps import Sweep, copied, copy_axes
from ..._core.tensor import runtime as rt
from ..._core.tensor.dependencies import NOTHING, Checked, Dependencies, joined
from ..._core.tensor.operators import places
from ..._core.tensor.plain_data import answering, clear_caches, possible_kinds
from ..._core.tensor.pytree import Reach, codes_in, own_code, tree_build, tree_leaves
from ..._core.tensor.trace import SHARED, Guard, Trace
from ..._core.tensor.values import array_of, is_recorded, is_tensor, value_of
from ..._derivatives.inputs import InputTensors, plain, scalar_output
from ..._derivatives.recorded_reverse import depends_on_others, plant, run
from ..build.executable import Program, interpreted
from ..ir.elementwise_step import counted
from ..ir.steps import Code
from ..lowering.tape_rows import READS_OTHERS, WRITES_DATA, Unsupported, is_long
from ..passes.pipeline import Account
from ..replay.operation_parts import LARGEST, error_of
from ..replay.parts import Run
from ..replay.run_layout import FINISHED, GUARD_FAILED
from .effects import Draws
from .life import History, Life, State
from .names_read import agrees, asks_for_types, names_read, refused_by_python
from .rounding import Rounding, first_difference
from .signature import Arguments, ArraysInPlace, converted, converted_in_place


@dataclasses.dataclass
class Variant:
    """A program, what its guards expect, and the structure of its result.

    `leaves` are the results in order: the number of the program's output and its `memory_axes`, or
    −1 and what never changes.
    """

    program: Program
    guards: list[Guard]
    tree: Any
    leaves: list[tuple[int, Any]]
    account: Account | None = None  # its origin, unless it was loaded from a file
    checked: int = 0  # compared with the function: 1 its value, 2 its gradient too
    fast: Any = None  # the fast path of its calls
    calls: int = 0  # evaluations except for those by its fast path
    patience: int | None = None  # evaluations before it compiles; None if that is not known yet
    #: Whether native code evaluates it, is being made or on trial, or why there is none.
    life: Life = dataclasses.field(default_factory=lambda: Life(State.INTERPRETED))
    is_exact: bool = False  # data without axes must have the types that they had
    #: The names that the function reads, with the values that it was recorded with.
    names: Dependencies = NOTHING
    changed: list[Checked] = dataclasses.field(default_factory=list)  # by its call
    in_place: list[np.ndarray] = dataclasses.field(default_factory=list)  # read where they lie

    def use(self, program: Program) -> None:
        """Evaluate by another program from now on, also in calls by the fast path of this one."""
        fast, self.program, self.fast = self.fast, program, None
        if fast is not None:
            fast.end()

    @property
    def trial(self) -> Any:
        """That of native code (see `takeover`), until it has ended."""
        held = self.life.held
        return held if self.life.state is State.TRIED else None

    def outcome(self, k: int) -> float:
        return self.guards[k].value

    def is_float(self) -> bool:
        """Whether the function returns one float, or a tensor that is one."""
        outputs = [(one.view.shape, one.dtype) for one in self.program.code.outputs]
        return type(self.tree) is float and outputs == [((), np.float64)]

    def differs(self, objects: list, out, again: Callable) -> str | None:
        """The difference from the recorded results; None if there is none.

        `again` calls the function as it is with other values of the inputs.
        """
        memory = self.program.begin()
        try:
            status = self.program.forward(memory, objects)
            if (error := error_of(memory.address, status)) is not None:
                return f"replayed at once it raises {error!r}"
            if status == GUARD_FAILED:
                failed = self.program.failed(memory)
                if failed is None:
                    return (
                        f"it computes integers beyond ±{LARGEST[self.program.code.item]}, or calls "
                        "what gives results of other kinds or shapes when it is called again"
                    )
                return (
                    f"replayed at once it takes another branch at {self.guards[failed[0]]}; a "
                    "number that Python reads there may be the rounded result of a sum"
                )
            found = self.result(self.program.results(memory))
        finally:
            self.program.end(memory)
        noises, dtype = self.noises(objects, again), self.program.code.dtype
        if first_difference(found, out, *noises, dtype=dtype) is None:
            return None
        return (
            "replayed at once it gives something else: it writes to an array that it has read "
            "before; make a new array for that"
        )

    def noises(
        self, objects: list, again: Callable, adjoints: Callable | None = None
    ) -> tuple[Callable[[], list[float]], ...]:
        """The effect of rounding on each leaf of the result, and on the gradient after it.

        First of the program, then of the function: `again` calls it eagerly with other values of
        the inputs. `adjoints` puts numbers for the inputs in the order of the gradient's leaves;
        without it there is no gradient.
        """
        rounding = Rounding(self.program, objects, adjoints is not None)

        def of_program():
            results, pulled = rounding.of_program()
            made = [results[k] if k >= 0 else 0.0 for k, _ in self.leaves]
            return made + adjoints(pulled) if adjoints is not None else made

        return of_program, lambda: rounding.of(again)

    def result(self, results: list[np.ndarray]):
        """The result of the function from those of its program, which are copied."""
        outputs = self.program.code.outputs
        values = [
            shown(copied(results[k], given, outputs[k].dtype)) if k >= 0 else _own(given)
            for k, given in self.leaves
        ]
        return tree_build(self.tree, iter(values))


def shown(array: np.ndarray):
    """A result as the caller gets it: a number of float32 stays one."""
    return array[()] if array.dtype == np.float32 else plain(array)


def _own(given):
    """A constant result, which the caller may change."""
    return np.array(given) if isinstance(given, np.ndarray) else given


def same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def reads_others(result, inputs: list) -> bool:
    """Whether a result has a derivative to something recorded elsewhere than in `inputs`."""
    if not store.leaves and len(rt.noted_inputs()) <= len(inputs):
        return False
    recorded = [out for _, out in tree_leaves(result) if is_recorded(out)]
    return bool(recorded) and depends_on_others(recorded, inputs)


def _is_pythons(result) -> bool:
    """Whether a recorded result is a Python number where nothing is recorded."""
    return type(result) is rt.Scalar and possible_kinds(result) == (float,)


#: The types of results, other than tensors, that programs return.
_RESULTS = (np.ndarray, np.generic, float, int, str, bool, type(None))


class NotRecorded(Exception):
    """A function cannot be recorded, for this reason; it may do well without."""


class RaisedError(NotRecorded):
    """The reason is an error, which it may raise without a recording, too."""


class Traced:
    """One call of a function with arguments made inputs: its result and, if it can be, its program.

    The program is made by all passes but those that are named in `without`. Random numbers that the
    function draws are a reason for no program, with the `draws` of `effects`.
    """

    def __init__(
        self, f: Callable, arguments: Arguments, without: tuple[str, ...], draws: Draws | None
    ):
        self.trace = Trace(lambda: places(1))
        self.in_place: ArraysInPlace | None = None
        self.result: tuple | None = None  # its value, and the gradients of its inputs if asked for
        self._call, self._without, self.draws = (f, arguments), without, draws
        self.branch: Guard | str | None = None  # why a graph is looked for first
        self.names = NOTHING  # see `Variant`
        self.changed: list[Checked] = []

    def run(self) -> None:
        """Call the function; its rows are recorded."""
        f, arguments = self._call
        store.collect()
        if self.in_place is not None:
            self.trace.copies = {}
        with rt.tracing(self.trace):
            self._first, before = self.trace.now(), get_word(STATE_BYTES)
            self.inputs = arguments.record(self.trace)
            args, kwargs = arguments.build([tensor for tensor, _ in self.inputs])
            watched = contextlib.nullcontext() if self.draws is None else self.draws.watching()
            try:
                with watched, answering(self.trace):
                    self.out = f(*args, **kwargs)
            except NotRecorded:
                raise
            except Exception as error:
                raise RaisedError(_unrecorded(rt.take_refusal() or error)) from error
            finally:
                if self.trace.has_keys:
                    clear_caches(f)
            if (refusal := rt.take_refusal()) is not None:  # the function has caught it
                raise RaisedError(_unrecorded(refusal)) from refusal
            if self.draws is not None and (reason := self.draws.reason()):
                self.trace.refuse(reason, faithful=True)
            if not self.inputs:
                self.trace.refuse("it has no arguments that are floats or arrays", faithful=True)
            with store.NothingFreed():  # see `program`
                self._check_rows()
        self.bytes = get_word(STATE_BYTES) - before  # of the arrays that it has made
        self.rows = self._end - self._first  # about as many, those of other threads included

    def _check_rows(self) -> None:
        """Check that a program is right, as far as the rows tell."""
        self._check_outside()
        refused = refused_by_python(self.trace, self._first, self.trace.now())
        if refused is not None:
            raise RaisedError(refused)
        self._end = self.trace.now()
        self.is_long = is_long(self._first, self._end)

    def _check_outside(self) -> None:
        """Check that the result follows from the arguments alone, and is what it is eagerly."""
        if not self.trace.is_faithful:
            raise NotRecorded(self.trace.refusal)
        results = [one for _, one in tree_leaves(self.out) if is_recorded(one)]
        # Python's numbers, as of item(), would be plain eagerly: no other call, as of an optimizer.
        is_over = self.trace.refusal is not None and all(map(_is_pythons, results))
        if not is_over and reads_others(self.out, [tensor for tensor, _ in self.inputs]):
            raise NotRecorded(self.trace.refusal or READS_OTHERS)
        if self.trace.sees_old_values(results):
            raise NotRecorded(self.trace.refusal or SHARED)
        for place, one in tree_leaves(self.out):
            if not is_tensor(one) and not isinstance(one, _RESULTS):
                raise NotRecorded(f"the result{place} is of type {type(one).__name__}")

    @property
    def values(self) -> list:
        """The effects on the inputs."""
        return self._call[1].values

    @remembered
    def asks_for_types(self) -> str | None:
        """Where its code asks for types, so that the program is compared with the function."""
        return asks_for_types(*self._call)

    def keep_in_place(self, names: Dependencies) -> None:
        """Read no array where it lies that the call has changed."""
        left = {id(one.owner) for one in names.compared()}
        if self.in_place is not None and not left.issuperset(map(id, self.in_place.arrays)):
            self.in_place = None

    def program(self) -> tuple[Variant | None, str | None]:
        """The program, or why there is none; the rows must not have been used up."""
        if self.trace.refusal is not None:
            return None, self.trace.refusal
        try:
            with (
                process.paused(),
                store.NothingFreed(),
            ):  # chunks of other threads lie between its own
                variant = self._convert()
        except Unsupported as error:
            return None, str(error)
        f, arguments = self._call
        again = lambda values: arguments.call(f, values)
        reason = variant.differs(arguments.values, self.out, again)
        asks = self.asks_for_types if reason is None else None
        if asks is not None and not agrees(variant, f, arguments):
            reason = (
                f"it {asks}, and gives another result while it is recorded, where numbers are "
                "tensors; test with isinstance, and take plain numbers with float()"
            )
        return (variant, None) if reason is None else (None, reason)

    def value_and_grad(self, retain: bool):
        """The result, which must be one number, and its derivatives; its rows may be retained."""
        value = scalar_output("compile", self.out)
        inputs = InputTensors([tensor for tensor, differentiated in self.inputs if differentiated])
        with Sweep(retain=retain) as sweep:
            inputs.prepare(sweep)
            if is_recorded(self.out) and self.out._id not in self.trace.steering:
                plant(sweep, self.out, np.ones((1, *value.shape)))
                run(sweep)
            self.result = plain(value.reshape(())), inputs.flat(sweep)
            return self.result

    def _convert(self) -> Variant:
        outputs: list = []
        leaves: list[tuple[int, Any]] = []
        for _, value in tree_leaves(self.out):
            if is_recorded(value):
                leaves.append((len(outputs), copy_axes(array_of(value))))
                outputs.append(value)
            elif is_tensor(value):
                leaves.append((-1, plain(np.array(value_of(value)))))
            else:
                leaves.append((-1, np.array(value) if isinstance(value, np.ndarray) else value))
        made = self._in_place(outputs) if self.in_place is not None else None
        code, account = made or self._code(outputs)
        tree = tree_build(self.out, iter([0.0] * len(leaves)))
        guards = [dataclasses.replace(guard, tensor=None) for guard in self.trace.guards]
        program = interpreted(code)  # neither it nor the guards keep rows alive
        variant = Variant(program, guards, tree, leaves, account)
        variant.names, variant.changed = self.names, self.changed
        variant.is_exact = self.trace.is_exact
        variant.in_place = (
            self.in_place.arrays if made is not None and self.in_place is not None else []
        )
        return variant

    def _code(self, outputs: list) -> tuple[Code, Account]:
        """The program, in which arrays from outside are constants."""
        dtype = self._call[1].dtype
        return converted(self.inputs, self._end, outputs, self.trace, dtype, self._without)

    def _in_place(self, outputs: list) -> tuple[Code, Account] | None:
        """The same with arrays from outside that are read where they lie; None if none can be."""
        assert self.in_place is not None
        given = self.inputs, self._end, outputs, self.trace
        return converted_in_place(*given, self.in_place, self._without)

    def value(self):
        """The result with plain values."""
        leaves = [value for _, value in tree_leaves(self.out)]
        made = [shown(np.array(value_of(v))) if is_tensor(v) else v for v in leaves]
        self.result = tree_build(self.out, iter(made)), None
        return self.result[0]


@contextlib.contextmanager
def traced_call(
    f: Callable,
    arguments: Arguments,
    without: tuple[str, ...] = (),
    draws: Draws | None = None,
    in_place: ArraysInPlace | None = None,
) -> Iterator[Traced]:
    """Call a function, and go on where its recording can be differentiated; see `Traced`."""
    rt.start()
    with rt.recording():
        traced = Traced(f, arguments, without, draws)
        traced.in_place = in_place
        traced.run()
        yield traced


def _unrecorded(error: Exception) -> str:
    """Why a function that has raised this is not recorded."""
    if isinstance(error, ValueError) and "read-only" in str(error):
        return WRITES_DATA
    return f"recorded it raises {type(error).__name__}: {error}"


class Variants:
    """The programs of one signature, the one used last first; at most `most` of them."""

    def __init__(self, most: int, key: Any = None, history: History | None = None):
        self.most, self.key = most, key
        self.found: list[Variant] = []
        self.life = Life(State.NONE, history, self)  # of the last recording
        self.nested = False  # it was called with recorded arguments
        self.recorded = 0  # the number so far
        self.hits = 0  # evaluations without a new recording, except for those by a fast path
        self.budget = Budget()
        self.lost = ""  # the branch at which calls take one path each, if no graph serves them all
        #: The guard at which the last call stopped, and those of that program.
        self.stopped_at: tuple[Guard, list[Guard]] | None = None

    def lose(self, where: str) -> None:
        """Note a branch at which calls take one path each, and that no graph serves them all."""
        if not self.lost:
            self.life.note(f"calls take one path each at {where}; most are made eagerly")
        self.lost = where

    @property
    def evaluations(self) -> int:
        """The number so far without a new recording."""
        return self.hits + sum([v.fast.calls for v in self.found if v.fast is not None])

    def add(self, variant: Variant, recent: Variant | None) -> None:
        """Add a new variant; drop the oldest, except for one that was used by its fast path."""
        self.recorded += 1
        variant.life.join(self.life)
        first = [variant, *[v for v in self.found if v is recent]]
        rest = [v for v in self.found if v is not recent]
        self.found = [*first, *rest][: self.most]

    def run(
        self, objects: list, ahead: bool
    ) -> tuple[Variant | None, Run | None, str | Exception | None]:
        """Run the program whose guards hold.

        `ahead` says that adjoints will follow. Returns the variant with its run, which its
        program's `end` takes back; without one, where the known programs have stopped, or the error
        with which an operation has refused its operands.
        """
        candidates = self.found
        stopped: str | Exception | None = None
        self.stopped_at = None
        while candidates:
            variant = candidates[0]
            program = variant.program  # another thread may put another in its place
            if ahead:
                program.check()
            memory = program.begin()
            status = program.forward(memory, objects, ahead)
            if status == FINISHED:
                if variant is not self.found[0]:
                    self.found = [variant, *[v for v in self.found if v is not variant]]
                return variant, memory, None
            failed = program.failed(memory) if status == GUARD_FAILED else None
            error = error_of(memory.address, status)
            program.end(memory)
            if failed is not None:
                k, seen = failed
                stopped = str(variant.guards[k])
                self.stopped_at = variant.guards[k], variant.guards
                candidates = [v for v in candidates[1:] if _goes_on(v, variant, k, seen)]
            else:
                stopped = error if isinstance(error, Exception) else "a result of another shape"
                candidates = candidates[1:]
        if stopped is not None:
            self.life.note(f"no program goes on at {stopped}")
        return None, None, stopped


def _goes_on(variant: Variant, other: Variant, k: int, seen: float) -> bool:
    """Whether a variant took the same branches as another up to guard k, and saw a value there."""
    if len(variant.guards) <= k or not same(variant.outcome(k), seen):
        return False
    return all(same(variant.outcome(j), other.outcome(j)) for j in range(k))


# --- where each call takes another path: how many recordings are worth their time -----------------


#: Paths that are remembered.
_PATHS = 256
#: About the seconds of a first recording, in addition to an eager call, of a program, of its rows.
_FIRST, _OF_PROGRAM, _OF_ROW = 1e-3, 3e-3, 5e-6
_OF_CALL = 7e-5  # to find that a call is to be made eagerly


class Budget:
    """Whether to record once more, where calls take one path after the other.

    What recordings and programs have taken in addition is at most what eager calls have taken, and
    those that programs served would have. A recording is due when these have taken twice as long as
    the last one, or four, eight, … times as long while each path is another one. It becomes a
    program when its path comes the second time.
    """

    _LEAST, _MOST = 2.0, 64.0

    def __init__(self):
        self._eagerly, self._of_call = 0.0, 0.0
        self._added, self._last = 0.0, _FIRST  # in addition, and in the last recording
        self._wanted = 0.0  # of a program that is worth its time
        self._since, self._served, self._factor = 0.0, 0, 0.0
        self._asked: dict[str, bool] = {}
        self._paths: set[tuple] = set()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note the time of a recorded call, of which an eager call is a part."""
        started = time.thread_time()
        yield
        seconds = time.thread_time() - started
        own = min(self._of_call or 0.5 * seconds, seconds)
        self._eagerly += own
        self._last = seconds - own
        self._added += self._last

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Note the time in which a program is made, or a graph is looked for."""
        started = time.thread_time()
        yield
        self._added += time.thread_time() - started

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Note the time of an eager call."""
        started = time.thread_time()
        yield
        self._of_call = time.thread_time() - started
        self._eagerly += self._of_call
        self._since += self._of_call
        self._added += _OF_CALL

    @property
    def has_called(self) -> bool:
        """Whether there was a call, recorded or eager."""
        return self._eagerly > 0.0

    def is_worth(self, guards: Sequence[Guard], rows: int, served: int) -> bool:
        """Whether a recording is to become a program: its path was recorded before."""
        if not self.comes_again(guards):
            return False
        self._wanted = _OF_PROGRAM + _OF_ROW * rows
        is_paid = self._may_take(served) >= self._added + self._wanted
        self._wanted *= not is_paid
        return is_paid

    def _may_take(self, served: int) -> float:
        """The seconds that recordings and programs may have taken."""
        return self._eagerly + served * self._of_call

    def comes_again(self, guards: Sequence[Guard]) -> bool:
        """Whether a path was recorded before; one that was not is noted."""
        path = tuple([(one.place, one.how, one.position, one.value) for one in guards])
        is_known = path in self._paths
        self._factor = 0.0 if is_known else min(max(2.0 * self._factor, self._LEAST), self._MOST)
        if len(self._paths) < _PATHS:
            self._paths.add(path)
        return is_known

    def is_due_to(self, f: Callable, guard: Guard, guards: Sequence[Guard]) -> bool:
        """Whether paths differ at a guard that lets nearly each call take another one."""
        place = str(guard)
        if not self._asked.get(place):
            self._asked[place] = is_of_value(guard) or is_in_loop(f, guard, guards)
        return self._asked[place]

    def is_there(self, served: int) -> bool:
        """Whether a recording is due; `served` counts the calls that programs have served."""
        since = self._since + (served - self._served) * self._of_call
        costs = self._added + self._last + self._wanted
        if since < self._factor * self._last or self._may_take(served) < costs:
            return False
        self._since, self._served = 0.0, served
        return True


def is_of_value(guard: Guard) -> bool:
    """Whether a guard is of a value that hardly ever comes again: a text, or no whole number."""
    return guard.how == "a format" or bool(guard.value % 1.0)


def repeated(f: Callable, guards: Sequence[Guard]) -> Guard | None:
    """A guard of a branch that a call seems to pass several times; None if there is none."""
    found: dict[tuple, bool] = {}  # by place, whether there was one before
    for one in guards:
        place = one.place, one.how
        if found.get(place) is False:
            found[place] = True
            if is_in_loop(f, one, guards):
                return one
        found.setdefault(place, False)
    return None


def is_in_loop(f: Callable, guard: Guard, guards: Sequence[Guard]) -> bool:
    """Whether a call seems to pass a branch several times, so that there are paths without number.

    That is so if its line has more guards than the code of the line has branches, and there is a
    loop in the function, or in one that it can reach.
    """
    count = sum([(one.place, one.how) == (guard.place, "bool()") for one in guards])
    if count < 2 or guard.how != "bool()" or not guard.place:
        return False
    codes = [one for function in Reach(f).functions() for one in codes_in(own_code(function))]
    file, line, _ = guard.place[0]
    branches = sum([_branches(one, line) for one in codes if one.co_filename == file])
    return count > branches and any(map(_has_loop, codes))


@functools.lru_cache(4096)
def _branches(code: types.CodeType, line: int) -> int:
    """The number of branches at a line."""
    number, found = code.co_firstlineno, 0
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset) or number
        found += number == line and "JUMP" in one.opname and "_IF_" in one.opname
    return found


@functools.lru_cache(4096)
def _has_loop(code: types.CodeType) -> bool:
    jumps = (*dis.hasjabs, *dis.hasjrel)
    for one in dis.get_instructions(code):
        if one.opname == "FOR_ITER" or (one.opcode in jumps and one.argval <= one.offset):
            return True
    return False


# --- the programs of a function by the signatures of its calls, and the names that it reads -------


#: So many times in a row, each after so few calls, is too often.
_MANY, _FEW = 16, 4


class Renewals:
    """How often what was made of a function was made anew, since a name had another value."""

    def __init__(self):
        self._in_a_row = 0

    def reason(self, names: Dependencies, uses: int) -> str | None:
        """Why it is not worth while once more, where it was used that often; None if it is."""
        self._in_a_row = self._in_a_row + 1 if uses < _FEW else 0
        if self._in_a_row < _MANY:
            return None
        return (
            f"{names.changed()}, which it reads, changes at nearly every call; pass it as an "
            "argument"
        )


class Families:
    """The variants of each signature, the one used last at the end; at most `most` of them.

    They were recorded with the same values of the names that the function reads.
    """

    def __init__(self, most: int, variants: int, history: History):
        self.most, self.variants, self._history = most, variants, history
        self.names: Dependencies | None = None  # if anything has been recorded
        self._read: dict[int, Callable] = {}  # functions whose names are among them, by id
        self.found: dict[Any, Variants] = {}
        self.unused = 0  # signatures given up that have been called once only

    def install(self, found: dict[Any, Variants], names: Dependencies | None) -> None:
        """Have programs that were made elsewhere, of these names."""
        self.found, self.names = found, names
        for key, family in found.items():
            family.key, family.life.history = key, self._history
            for variant in family.found:
                variant.life.join(family.life)
            family.life.note(f"{counted(len(family.found), 'program')} of a file")

    @property
    def evaluations(self) -> int:
        """The number so far without a new recording."""
        return sum([family.evaluations for family in list(self.found.values())])

    def names_for(self, f: Callable, arguments: Arguments) -> Dependencies:
        """The names that a function reads, and functions among its arguments."""
        if self.names is None:
            self._read = {}
        given = [value for is_fixed, value in arguments.static if is_fixed and callable(value)]
        new = {id(one): one for one in (f, *given) if id(one) not in self._read}
        if new:
            self._read |= new
            self.names = joined([self.names or NOTHING, *map(names_read, new.values())])
        if self.names is not None:
            self.names = self.names.with_elements()
        return self.names or NOTHING

    def after_call(self, names: Dependencies) -> Dependencies:
        """The names, without what the call of the function has changed itself."""
        left = names.after_call()
        if left is not names:
            self.put(left)
        return left

    def settle(self, variant: Variant) -> None:
        """Compare no longer the arrays that all programs, with a new one, read where they lie."""
        others = [one for family in list(self.found.values()) for one in family.found]
        in_place = [{*map(id, other.in_place)} for other in others]
        found = [one for one in variant.in_place if all([id(one) in ids for ids in in_place])]
        before = names = self.names or NOTHING
        if not {id(one.owner) for one in names.in_place()}.issubset(map(id, found)):
            names = variant.names  # another thread has recorded meanwhile
        if found or names is not before:
            self.put(names.read_in_place(found))

    def put(self, names: Dependencies) -> None:
        """Compare other names from now on."""
        self.names = names
        for variant in [one for family in list(self.found.values()) for one in family.found]:
            variant.names = names
            variant.use(variant.program)  # with another fast path

    def of(self, key) -> Variants:
        """The variants of a signature."""
        family = self.found.pop(key, None) or Variants(self.variants, key, self._history)
        self.found[key] = family
        while len(self.found) > self.most:
            oldest = self.found.pop(next(iter(self.found)), None)
            self.unused += oldest is not None and not oldest.evaluations
        return family

"""Native code: made in the background, and compared with the interpreter that it replaces.

It is compared twice: at the inputs of the call that requested it, and at those of the next call
that differ. That is done outside of the fast path, which does not exist meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ..._core.codegen import process
from ..._core.codegen.factory import once
from ..._core.codegen.uninterrupted import end_thread, release_llvm
from ..._core.tensor.dependencies import contents
from ..build.executable import Program, table
from ..ir.elementwise_step import Elementwise
from ..ir.scalars_step import Scalars
from ..ir.steps import Step
from ..ir.uses import GRADIENT_COSTS, known_slots, nanoseconds
from ..native.scalar_code import BUDGET, pieces_of, within
from ..replay import driver
from ..replay.operation_parts import error_of
from ..replay.parts import Run
from ..replay.run_layout import FINISHED
from .life import Life, State
from .rounding import Rounding, agree, first_difference
from .variants import Variant

#: The number of calls with the inputs of the first comparison, or on another branch, that are
#: checked; then no other inputs are awaited, or only those of calls on this branch again.
PATIENCE = 16
#: The number of times that inputs are moved by rounding, if native code differs: a result may jump
#: there.
_TRIES = 8
_PART = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Trial:
    """Native code that is still to be compared with the program `plain`.

    `values` are the inputs of the first comparison; None if they are not known yet. `is_new` says
    that no call has used it: a call that has begun before has not been compared.
    """

    def __init__(self, plain: Program, values: list | None):
        self.plain, self.left, self.is_new = plain, PATIENCE, True
        self.values = None if values is None else _copied(values)

    def begin(self, native: Program) -> None:
        """Compare at the first inputs; RuntimeError describes a difference."""
        self.native = native
        if self.values is not None and not compared(self.plain, native, self.values):
            self.values = None

    def is_over(self, values: list) -> bool:
        """Compare at a call's inputs, if they are others; RuntimeError describes a difference."""
        self.is_new = False
        if self.values is not None and _same(self.values, values):
            self.left -= 1
            return self.left <= 0
        if not compared(self.plain, self.native, values):
            self.left -= 1
            return False
        is_first, self.values = self.values is None, _copied(values)
        return not is_first


def _copied(values: list) -> list:
    """Inputs as they are now."""
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


def _same(first: list, second: list) -> bool:
    return all(np.array_equal(_bits(a), _bits(b)) for a, b in zip(first, second, strict=True))


def _bits(value) -> np.ndarray:
    """Numbers as words, so that NaNs are equal too: ten times faster than `equal_nan`."""
    return np.asarray(value, np.float64).view(np.int64)


def compared(plain: Program, native: Program, objects: list) -> bool:
    """Whether programs could be compared at some inputs, since no guard stops the plain one.

    Nor can they where data that both read in place change meanwhile. RuntimeError describes a
    difference of more than rounding.
    """
    before = [*map(contents, plain.code.held)]
    try:
        return _compared(plain, native, objects)
    except RuntimeError:
        if before == [*map(contents, plain.code.held)]:
            raise
        return False


def _compared(plain: Program, native: Program, objects: list) -> bool:
    reverse = _is_differentiable(plain)
    expected = _evaluated(plain, objects, reverse)
    if expected is None:
        return False

    def noise() -> list[float]:
        results, adjoints = Rounding(plain, objects, reverse).of_program()
        return [*results, *adjoints]

    ways = [_evaluated(native, objects, False), *_fast(native, objects, reverse)]
    if reverse:
        ways.append(_evaluated(native, objects, True))
    for found in ways:
        wanted = expected if found is None else expected[: len(found)]
        dtype = plain.code.dtype
        if found is None or first_difference(found, wanted, noise, dtype=dtype) is not None:
            if found is None or not _is_near(plain, objects, found, reverse):
                raise RuntimeError(_fault(native, objects, found, expected))
    return True


def _is_differentiable(program: Program) -> bool:
    """Whether the program computes a gradient."""
    code = program.code
    one = len(code.outputs) == 1 and code.outputs[0].view.size == 1
    return one and any(given.differentiated for given in code.inputs)


def _evaluated(program: Program, objects: list, reverse: bool) -> list | None:
    """Results, then adjoints of the inputs; None where the program stops."""
    run = program.begin()
    try:
        status = program.forward(run, objects, reverse)
        error_of(run.address, status)
        if status != FINISHED:
            return None
        found = [np.array(result) for result in program.results(run)]
        if reverse:
            seeds = [np.ones(one.view.shape) for one in program.code.outputs]
            found += _adjoints(program.reverse(run, seeds))
        return found
    finally:
        program.end(run)


def _fast(program: Program, objects: list, reverse: bool) -> list[list]:
    """The same as the fast path of a call returns it, with derivatives."""
    if not reverse:
        return []
    run, made = program.begin(), program.gradients()
    try:
        given = table([*objects, *made])
        words = (ctypes.c_int64 * (2 + len(given)))(run.address, program.address, *given)
        status = program.compiled["fast"](ctypes.addressof(words))
        error_of(run.address, status)
        if status != FINISHED:  # a guard: the other variants decide
            return []
        return [[*map(np.array, program.results(run)), *_adjoints(made)]]
    finally:
        program.end(run)


def _adjoints(found: list) -> list:
    return [np.zeros(()) if adjoint is None else adjoint for adjoint in found]


def _is_near(plain: Program, objects: list, found: list, reverse: bool) -> bool:
    """Whether the plain program gives the same where rounding might have led to."""
    rng, dtype = np.random.default_rng(0), plain.code.dtype
    few = 4.0 * float(np.finfo(dtype).eps)
    for _ in range(_TRIES):
        moved = []
        for value in objects:
            up = value * (1.0 + few * rng.uniform(-1.0, 1.0, np.shape(value)))
            is_array = isinstance(value, np.ndarray)
            moved.append(np.asarray(up, dtype) if is_array else float(up))
        near = _evaluated(plain, moved, reverse)
        if (
            near is not None
            and first_difference(found, near[: len(found)], list, dtype=dtype) is None
        ):
            return True
    return False


# --- what differs ---------------------------------------------------------------------------------


def _fault(native: Program, objects: list, found: list | None, expected: list) -> str:
    where = _first_step(native, objects)
    if where is None and found is None:
        where = "a guard of it stops, which may see the rounded result of a sum"
    if where is None:
        pairs = zip(found or [], expected, strict=False)
        k = next(
            (k for k, (a, b) in enumerate(pairs) if not agree(a, b, dtype=native.code.dtype)), 0
        )
        results = len(native.code.outputs)
        what = f"result {k}" if k < results else f"the derivative by input {k - results}"
        where = f"{what} is another one; the steps before it agree"
    reason = "its native code gives something else than the interpreted program"
    return f"{reason}: {where}; please report this"


def _first_step(native: Program, objects: list) -> str | None:
    """The first step of native code whose results differ from those of the same interpreted."""
    plain, steps = Program(native.code), native.code.steps
    runs = [entered(native, objects), entered(plain, objects)]
    for k, step in enumerate(steps):
        where = f"step {k} of {len(steps)}, {_described(native, k)}"
        for program, run in zip((native, plain), runs, strict=True):
            for part in program.parts.of[k]:
                if part.forward and _PART(part.forward)(run.address, part.data.ctypes.data):
                    return f"{where}, stops"
        slots = _written(native, step)
        a, b = (run.values[slots] for run in runs)
        if not agree(a, b, dtype=native.code.dtype):
            apart = ~np.isclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True)
            at = int(np.flatnonzero(apart)[0])
            seen = f"{float(a[at])!r}, interpreted {float(b[at])!r}"
            return f"{where}: {step.operation_at(int(slots[at]))} is {seen}"
    return None


def entered(program: Program, objects: list, run: Run | None = None) -> Run:
    """Memory with inputs, in which nothing has been computed."""
    words, given, run = program.words.copy(), table(objects), run or program.begin()
    words[driver.VALUE_COUNT // 8] = 0
    program.compiled["value"](run.address, words.ctypes.data, ctypes.addressof(given), False)
    return run


def _written(native: Program, step: Step) -> np.ndarray:
    """Slots in which a step leaves its results."""
    slots = step.slots_written
    return slots[native.parts.used[slots]]


def _described(native: Program, k: int) -> str:
    notes = [part.note for part in native.parts.of[k] if part.tier == "native" and part.note]
    return native.code.steps[k].title + (f" ({'; '.join(notes)})" if notes else "")


# --- code of a program's own, compiled while calls go on ------------------------------------------


#: Nanoseconds that native code takes to compile: any, of a fused step, of an operation in its text.
#: A rough estimate: functions of numbers, of 20 to 3000 operations of text, are off by less than a
#: factor of 2 on one machine.
COMPILATION, OF_STEP, OF_OPERATION = 0.06e9, 0.02e9, 1e6
#: At least this number of evaluations, for arguments of a shape that may occur only once.
FEWEST = 10
_lock = process.lock()
_replacing = process.lock()
_pool: list[ThreadPoolExecutor] = []
_under_way: dict[Future, Callable] = {}  # submitted work that has not ended
#: The work of a thread of a parent process.
_left: weakref.WeakKeyDictionary[Future, Callable] = weakref.WeakKeyDictionary()
_at_work: list[int] = []  # the thread that is compiling


def patience(program: Program) -> int:
    """Evaluations after which interpreting has taken as long as compiling is expected to take."""
    code = program.source
    known = known_slots(code)
    pieces = [x for step in code.of(Scalars).values() for x in pieces_of(step, known)]
    cost = COMPILATION + OF_OPERATION * within(BUDGET, pieces)
    for step in code.of(Elementwise).values():
        cost += OF_STEP + OF_OPERATION * len(step.ops)
    return max(FEWEST, math.ceil(cost / nanoseconds(code, GRADIENT_COSTS)))


def native_later(life: Life, name: str, why: str, make: Callable[[], None]) -> Future | None:
    """Let native code be made in a background thread; None if it is not the time for that.

    `make` puts it in the place of the interpreter. If that fails a warning is given, the future
    raises, and what `life` is of stays interpreted. `name` is that of the function.
    """
    if not life.go(State.COMPILING, f"native code is being made, {why}"):
        return None
    return later(functools.partial(_made, life, name, make))


def later(job: Callable) -> Future:
    """Run a job in the thread that compiles."""
    with _lock:
        if not _pool:
            _pool.append(ThreadPoolExecutor(1, thread_name_prefix="tapegrad"))
            threading._register_atexit(_stop)  # type: ignore[attr-defined]
    return _submitted(job)


def _made(life: Life, name: str, make: Callable[[], None]) -> None:
    _at_work.append(threading.get_ident())
    try:
        make()
    except Exception as error:
        raise stays_interpreted(life, name, error) from error
    finally:
        _at_work.clear()


def make_program_native(variant: Variant, cut: bool, trial: Trial | None) -> None:
    """Let a variant be evaluated by native code from now on.

    A `trial` compares it with the interpreted program first. With `cut` long loops in it save what
    they carry at intervals only.
    """
    start = time.perf_counter()
    try:
        program = Program(variant.program.source, native=True, cut=cut)
    except Exception as error:
        reason = f"native code for it could not be made ({error!r}); please report this"
        raise RuntimeError(reason) from error
    made = f"native code, made in {time.perf_counter() - start:.2g} s"
    if trial is None:
        variant.life.go(State.NATIVE, made)
        variant.use(program)
        return
    trial.begin(program)
    with _replacing:  # calls that can use it know that it is on trial
        variant.life.go(State.TRIED, f"{made}, on trial against the interpreted program", trial)
        variant.use(program)


def use_plain(variant: Variant, trial: Trial) -> None:
    """Let a variant be interpreted again, since its native code gives something else."""
    with _replacing:  # after it was put in its place
        variant.use(trial.plain)


def stays_interpreted(life: Life, name: str, error: Exception, level: int = 2) -> Exception:
    """Warn that native code is not used; returns the error that `wait` raises."""
    failure = RuntimeError(f"tapegrad.compile: {name} stays interpreted: {error}")
    if life.go(State.FAILED, f"stays interpreted: {error}", failure):  # no other thread was here
        warnings.warn(str(failure), RuntimeWarning, stacklevel=level)
    return failure


def _stop() -> None:
    """Cancel compilations and those that wait: the process is ending.

    It is not needed any more, and the end of the process waits for the thread.
    """
    release_llvm()
    for pool in _pool:
        pool.shutdown(wait=False, cancel_futures=True)
    for thread in _at_work:
        end_thread(thread)


def _submitted(job: Callable) -> Future:
    future = _pool[0].submit(job)
    _under_way[future] = job
    future.add_done_callback(lambda future: _under_way.pop(future, None))
    return future


@process.in_child
def _alone() -> None:
    """The compiling thread is the parent's; here its work is done on `wait`."""
    _left.update({future: once(job) for future, job in _under_way.items()})
    _under_way.clear()
    _at_work.clear()
    _pool.clear()


def finish(future: Future) -> None:
    """Wait for a compilation; raises its exception."""
    release_llvm()
    job = _left.get(future)
    if job is None:
        future.result()
    else:
        job()

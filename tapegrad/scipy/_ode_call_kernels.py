"""Solutions of initial value problems in programs, without Python: values, then their adjoints.

A table of `custom_kernels` has what is the same in all runs of a program. Each run has memory of
its own, which Python makes once: the words of a solve, and numbers. These are what the solution is
of (`given`), room for the same read again and for its adjoints, the results and theirs. Values
leave the begins of steps there, for the adjoints. If there are more or fewer steps than in the
recorded solution, and all are results, the program stops. Python is called where a solution ends in
another way, or goes one through branches that is not known.
"""

from .._core.codegen import machine_types as types
from .._core.codegen.intrinsics import (
    call_address,
    f64s,
    helper,
    i64s,
    load_f64,
    load_i64,
    memcpy,
    memset,
    store_f64,
    store_i64,
)
from .._implicit.solver_kernels import moved
from .._program.replay.callback_kernels import argument_at, argument_size, begin_calls, end_calls
from .._program.replay.custom_kernels import OTHER_FORM
from .._program.replay.rule_kernels import any_set
from .._program.replay.run_layout import (
    FINISHED,
    RUN_ADJOINT_BASES,
    RUN_FAILED,
    RUN_VALUE_BASES,
)
from ._ode_kernels import (
    ASKED,
    ASKED_COUNT,
    ASKED_NEXT,
    BOUND,
    CALLBACKS,
    CALLBACKS_COUNT,
    CALLS,
    COUNT,
    DIRECTION,
    DONE,
    END,
    HAS_TIMES,
    IS_AHEAD,
    OF_STATE,
    OF_STEP,
    OF_TIME,
    RESULTS,
    RESULTS_FULL,
    RESULTS_ROOM,
    ROWS_COUNT,
    RUNS,
    SIZE,
    SLOPE_TIME,
    STATE,
    STEP,
    STOPPED,
    TIME,
    TIMES,
    VALUES,
    WIDTH,
)
from ._ode_stiff_kernels import FACTORS, JACOBIANS, are_finite

#: Words of a table, after its two functions.
(
    MAKE,  # a C function that makes the memory of a run
    MEMORIES,  # address of a number, and so many pairs of a run and its memory
    WAYS,  # address of the number of callbacks, and these
    IS_OFF,  # whether Python solves all
    RESULT,  # the slot of the result
    SOLVED,  # how often it was solved here
    CALLS_LEFT,  # of the right-hand side, before it gets machine code of its own
    BEGIN,  # addresses of the functions of the method
    ADVANCE,
    PULL,
    MOST,  # steps
    IS_STIFF,
    WORDS_BYTES,  # of a solve
    # Places in the numbers of a run, in bytes: state and times that are given, behind all values.
    GIVEN_STATE,
    GIVEN_ENDS,
    GIVEN_TIMES,
    GIVEN_BYTES,
    COUNTS,
    GRADIENT,  # of the results: states, then times; how many numbers
    GRADIENT_SIZE,
    GRADIENT_TIMES,
    # Places in the table of lists of moves, each with their number first.
    OPERANDS,
    PARTS,
    SEEDS,
    ADJOINTS,
) = range(16, 16 + 8 * 25, 8)
HEAD_WORDS = 27
#: Words of the memory of a run: whether values are there; the address of its numbers, a word as a
#: table of bases; the solve, and its words as they are at first; how many rows there are.
IS_SOLVED, NUMBERS, BASES, SOLVE, AT_FIRST, ROWS_LEFT = range(0, 48, 8)
MEMORY_WORDS = 6
#: The most runs with memory, and callbacks.
RUNS_MOST, WAYS_MOST = 256, 16
#: The status that makes Python solve the problem.
LEFT = FINISHED + 1

made = call_address(types.int64(types.int64, types.int64))
method = call_address(types.int64(types.int64))
method_of_steps = call_address(types.int64(types.int64, types.int64))
method_of_rows = call_address(types.int64(types.int64, types.int64, types.int64, types.int64))


@helper
def memory_of(run, table):
    """The memory of a run; 0 if there is none."""
    memories = load_i64(table, MEMORIES)
    for k in range(load_i64(memories, 0)):
        if load_i64(memories, 16 * k + 8) == run:
            return load_i64(memories, 16 * k + 16)
    return 0


@helper
def read_given(run, table, memory, place):
    """Read the operands into the numbers of a run, from a place on."""
    bases = memory + BASES
    store_i64(bases, 0, load_i64(memory, NUMBERS) + place)
    moved(table, OPERANDS, bases, load_i64(run, RUN_VALUE_BASES), run)
    store_i64(bases, 0, load_i64(memory, NUMBERS))


@helper
def are_equal(x, y, size):
    """Whether words are."""
    a, b = i64s(x), i64s(y)
    for k in range(size // 8):
        if a[k] != b[k]:
            return False
    return True


# --- calls of the right-hand side -----------------------------------------------------------------


@helper
def end_runs(solve, is_ahead):
    """Give the memory for calls back."""
    width, runs = load_i64(solve, WIDTH), load_i64(solve, RUNS)
    for k in range(load_i64(solve, CALLBACKS_COUNT)):
        callback = load_i64(load_i64(solve, CALLBACKS), k * 8)
        for j in range(width if is_ahead else 1):
            run = load_i64(runs, (k * width + j) * 8)
            if run != 0:
                end_calls(callback, run)


@helper
def begin_runs(solve, values, is_ahead):
    """Take memory for calls, with the values in it: for all stages if it `is_ahead`."""
    width, runs, count = load_i64(solve, WIDTH), load_i64(solve, RUNS), 1
    if is_ahead:
        count = width
    store_i64(solve, IS_AHEAD, 1 if is_ahead else 0)
    memset(runs, 0, load_i64(solve, CALLBACKS_COUNT) * width * 8)
    for k in range(load_i64(solve, CALLBACKS_COUNT)):
        callback = load_i64(load_i64(solve, CALLBACKS), k * 8)
        for j in range(count):
            run = begin_calls(callback)
            if run == 0:
                return False
            store_i64(runs, (k * width + j) * 8, run)
            at = values
            for v in range(load_i64(solve, VALUES)):
                size = argument_size(callback, v + 2) * 8
                memcpy(argument_at(callback, run, v + 2), at, size)
                at += size
        for j in range(count, width):
            store_i64(runs, (k * width + j) * 8, load_i64(runs, k * width * 8))
    return True


@helper
def renew(table, memory):
    """The words of a solve as they are at first, with the callbacks there are and the times."""
    solve, ends = load_i64(memory, SOLVE), load_i64(memory, NUMBERS) + load_i64(table, GIVEN_ENDS)
    memcpy(solve, load_i64(memory, AT_FIRST), load_i64(table, WORDS_BYTES))
    ways = load_i64(table, WAYS)
    store_i64(solve, CALLBACKS, ways + 8)
    store_i64(solve, CALLBACKS_COUNT, load_i64(ways, 0))
    store_f64(solve, TIME, load_f64(ends, 0))
    store_f64(solve, SLOPE_TIME, load_f64(ends, 0))
    store_f64(solve, BOUND, load_f64(ends, 8))
    store_f64(solve, END, load_f64(ends, 8))
    return solve


# --- values ---------------------------------------------------------------------------------------


@helper
def are_times(solve):
    """Whether the interval, and the times that are asked for, are ones that SciPy accepts."""
    direction, count = load_f64(solve, DIRECTION), load_i64(solve, ASKED_COUNT)
    start, end, asked = load_f64(solve, TIME), load_f64(solve, END), f64s(load_i64(solve, ASKED))
    length = direction * (end - start)
    if not length > 0.0 or length - length != 0.0 or load_f64(solve, STEP) > length:
        return False
    for k in range(1, count):
        if not direction * (asked[k] - asked[k - 1]) > 0.0:
            return False
    if count == 0:
        return True
    return direction * (asked[0] - start) >= 0.0 and direction * (asked[count - 1] - end) <= 0.0


@helper
def take_all(table, memory, solve):
    """Take all steps; returns why it has not, as where there are other numbers of results."""
    n, state = load_i64(solve, SIZE) * 8, load_i64(solve, STATE)
    memcpy(state, load_i64(memory, NUMBERS) + load_i64(table, GIVEN_STATE), n)
    if not are_finite(state, n // 8):
        return LEFT
    times = load_i64(solve, TIMES)
    if times != 0:
        store_f64(times, 0, load_f64(solve, TIME))
        memcpy(load_i64(solve, RESULTS), state, n)
    if method(load_i64(table, BEGIN), solve) != DONE:
        return LEFT
    why = method_of_steps(load_i64(table, ADVANCE), solve, load_i64(table, MOST))
    is_other = why == RESULTS_FULL
    if why == DONE and times != 0:
        is_other = load_i64(solve, COUNT) + 1 != load_i64(solve, RESULTS_ROOM)
    if is_other:
        return OTHER_FORM
    is_all = load_i64(solve, ASKED_NEXT) == load_i64(solve, ASKED_COUNT)
    return FINISHED if why == DONE and is_all else LEFT


@helper
def write_counts(table, memory, solve):
    """How often what was computed, as SciPy tells it."""
    at = load_i64(memory, NUMBERS) + load_i64(table, COUNTS)
    store_f64(at, 0, load_i64(solve, CALLS) * 1.0)
    if load_i64(table, IS_STIFF) != 0:
        store_f64(at, 8, load_i64(solve, JACOBIANS) * 1.0)
        store_f64(at, 16, load_i64(solve, FACTORS) * 1.0)
    store_i64(memory, ROWS_LEFT, load_i64(solve, ROWS_COUNT))
    store_i64(table, SOLVED, load_i64(table, SOLVED) + 1)
    store_i64(table, CALLS_LEFT, load_i64(table, CALLS_LEFT) - load_i64(solve, CALLS))


@helper
def solution(run, table):
    """The values of a call."""
    if load_i64(table, IS_OFF) != 0 or load_i64(table, CALLS_LEFT) < 0:
        return LEFT
    memory = memory_of(run, table)
    if memory == 0:
        memory = made(load_i64(table, MAKE), run, 0)
        if memory == 0:
            return LEFT
    store_i64(memory, IS_SOLVED, 0)
    read_given(run, table, memory, 0)
    solve, status = renew(table, memory), LEFT
    if not are_times(solve):
        return LEFT
    if begin_runs(solve, load_i64(memory, NUMBERS), False):
        status = take_all(table, memory, solve)
    end_runs(solve, False)
    if status == OTHER_FORM:
        store_i64(run, RUN_FAILED, load_i64(table, RESULT))
    if status != FINISHED:
        return status
    write_counts(table, memory, solve)
    moved(table, PARTS, load_i64(run, RUN_VALUE_BASES), memory + BASES, run)
    store_i64(memory, IS_SOLVED, 1)
    return FINISHED


# --- adjoints -------------------------------------------------------------------------------------


@helper
def add_times(table, solve, seeds, adjoints):
    """Complete the adjoints of the ends and times by those of the times of the results."""
    start, end = load_f64(solve, OF_TIME) - load_f64(solve, OF_STEP), load_f64(solve, OF_STEP)
    given, asked = f64s(seeds), f64s(adjoints + load_i64(table, GIVEN_TIMES))
    if load_i64(solve, TIMES) != 0:
        last = load_i64(solve, RESULTS_ROOM) - 1
        for k in range(last):
            start += given[k]
        end += given[last]
    else:
        for k in range(load_i64(solve, ASKED_COUNT)):
            asked[k] += given[k]
    store_f64(adjoints, load_i64(table, GIVEN_ENDS), start)
    store_f64(adjoints, load_i64(table, GIVEN_ENDS) + 8, end)


@helper
def pull_all(table, memory, solve, seeds):
    """Go through all steps from the last to the first; returns why it has stopped."""
    store_i64(solve, ROWS_COUNT, load_i64(memory, ROWS_LEFT))
    store_i64(solve, ASKED_NEXT, load_i64(solve, ASKED_COUNT))
    if load_i64(solve, TIMES) != 0:
        n, last = load_i64(solve, SIZE) * 8, load_i64(solve, RESULTS_ROOM) - 1
        memcpy(load_i64(solve, OF_STATE), seeds + last * n, n)
    why = STOPPED
    if begin_runs(solve, load_i64(memory, NUMBERS), True):
        why = method_of_rows(load_i64(table, PULL), solve, 0, 1, load_i64(table, MOST))
    end_runs(solve, True)
    return why


@helper
def adjoints_of(run, table):
    """The adjoints of a call, after its values."""
    memory = memory_of(run, table)
    if memory == 0 or load_i64(memory, IS_SOLVED) == 0:
        return LEFT
    numbers, size, bases = load_i64(memory, NUMBERS), load_i64(table, GIVEN_BYTES), memory + BASES
    read_given(run, table, memory, size)
    if not are_equal(numbers, numbers + size, size):
        return LEFT
    moved(table, SEEDS, bases, load_i64(run, RUN_ADJOINT_BASES), run)
    seeds, adjoints = numbers + load_i64(table, GRADIENT), numbers + 2 * size
    if not any_set(seeds, load_i64(table, GRADIENT_SIZE)):
        return FINISHED
    memset(adjoints, 0, size)
    solve = renew(table, memory)
    if pull_all(table, memory, solve, seeds) != DONE:
        return LEFT
    if load_i64(solve, HAS_TIMES) != 0:
        add_times(table, solve, numbers + load_i64(table, GRADIENT_TIMES), adjoints)
    moved(table, ADJOINTS, load_i64(run, RUN_ADJOINT_BASES), bases, run)
    return FINISHED


EXPORTS = ("solution", "adjoints_of")
TEXT = "from tapegrad.scipy import _ode_call_kernels\n" + "".join(
    f"\n\ndef {name}(run, table):\n    return _ode_call_kernels.{name}(run, table)\n"
    for name in EXPORTS
)

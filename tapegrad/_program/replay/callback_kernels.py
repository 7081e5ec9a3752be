"""Callbacks by address: functions of users that fixed machine code calls without Python.

A solver or an integrator in compiled code is given the address of the words of a callback: a
function f of several arguments, numbers or arrays, with one vector as result. It is a program, in
whose memory the caller writes arguments and reads results; there is nothing between. With
`callback` such an address:

    run = begin_calls(callback)             # memory for calls of this caller; 0: there is none
    store_f64(argument_at(callback, run, k), 0, x)      # arguments: float64, in C order
    status = call_value(callback, run)
    y = load_f64(result_at(callback, run, j), 0)        # the numbers of the result

    seed(callback, run, j, w)               # after `clear_seeds`
    status = call_pull(callback, run)       # values, and adjoints of all arguments
    g = load_f64(adjoint_at(callback, run, k), 0)

    end_calls(callback, run)

Arguments stay from call to call: one that does not change is written once. `call_pull` needs
`clear_seeds` before the seeds of each call; it computes the values, too. A status other than
FINISHED says that the function has no values there, by this program: a guard has failed, as at an
`if` that goes another way, or an operation refuses its operands. Then what is in the memory means
nothing, except for the arguments; the caller ends its calls and lets Python solve the problem with
the function itself. Nothing here takes the interpreter lock, but for `begin_calls` where no memory
is left from earlier calls.
"""

from ..._core.codegen.intrinsics import helper, load_f64, load_i64, memset, store_f64
from .driver import (
    AHEAD_COUNT,
    AHEAD_PLAN,
    CLEARS,
    CLEARS_COUNT,
    GRADIENT_COUNT,
    GRADIENT_PLAN,
    REVERSE_COUNT,
    REVERSE_PLAN,
    VALUE_COUNT,
    VALUE_PLAN,
    follow,
    return_run,
    take_run,
)
from .run_layout import RUN_ADJOINTS, RUN_VALUES

#: The words of a callback, byte offsets: its program; where the first number of the result is in
#: the arena, the bytes to the next and how many there are; the number of arguments; then of each
#: argument the byte offset in the arena, and how many numbers it has.
(
    CALLBACK_PROGRAM,
    CALLBACK_RESULT,
    CALLBACK_STEP,
    CALLBACK_SIZE,
    CALLBACK_COUNT,
    CALLBACK_ARGUMENTS,
) = range(0, 48, 8)
ARGUMENT_BYTES = 16


@helper
def begin_calls(callback):
    """Memory for calls; 0 if there is none."""
    return take_run(load_i64(callback, CALLBACK_PROGRAM))


@helper
def end_calls(callback, run):
    """Give the memory back."""
    return_run(load_i64(callback, CALLBACK_PROGRAM), run)


@helper
def argument_place(callback, k):
    """The byte offset of an argument in the arenas."""
    return load_i64(callback, CALLBACK_ARGUMENTS + k * ARGUMENT_BYTES)


@helper
def argument_size(callback, k):
    """How many numbers an argument has."""
    return load_i64(callback, CALLBACK_ARGUMENTS + k * ARGUMENT_BYTES + 8)


@helper
def argument_at(callback, run, k):
    """Where the numbers of an argument are."""
    return load_i64(run, RUN_VALUES) + argument_place(callback, k)


@helper
def adjoint_at(callback, run, k):
    """Where the adjoints of an argument are after `call_pull`."""
    return load_i64(run, RUN_ADJOINTS) + argument_place(callback, k)


@helper
def result_place(callback, j):
    """The byte offset of a number of the result in the arenas."""
    return load_i64(callback, CALLBACK_RESULT) + j * load_i64(callback, CALLBACK_STEP)


@helper
def result_at(callback, run, j):
    """Where a number of the result is."""
    return load_i64(run, RUN_VALUES) + result_place(callback, j)


@helper
def call_value(callback, run):
    """Compute the result from the arguments; returns why it stopped."""
    program = load_i64(callback, CALLBACK_PROGRAM)
    return follow(run, load_i64(program, VALUE_PLAN), load_i64(program, VALUE_COUNT))


@helper
def clear_seeds(callback, run):
    """Set all adjoints to 0, before seeds."""
    program, G = load_i64(callback, CALLBACK_PROGRAM), load_i64(run, RUN_ADJOINTS)
    clears = load_i64(program, CLEARS)
    for k in range(load_i64(program, CLEARS_COUNT)):
        memset(G + load_i64(clears, k * 16), 0, load_i64(clears, k * 16 + 8))


@helper
def seed(callback, run, j, weight):
    """Add to the adjoint of a number of the result."""
    at = load_i64(run, RUN_ADJOINTS) + result_place(callback, j)
    store_f64(at, 0, load_f64(at, 0) + weight)


@helper
def seed_of(callback, run, j):
    """The adjoint of a number of the result."""
    return load_f64(load_i64(run, RUN_ADJOINTS) + result_place(callback, j), 0)


@helper
def call_pull(callback, run):
    """Compute the result, and the adjoints of arguments from the seeds; returns why it stopped."""
    program = load_i64(callback, CALLBACK_PROGRAM)
    return follow(run, load_i64(program, GRADIENT_PLAN), load_i64(program, GRADIENT_COUNT))


@helper
def call_ahead(callback, run):
    """As `call_value`, before `call_reverse`."""
    program = load_i64(callback, CALLBACK_PROGRAM)
    return follow(run, load_i64(program, AHEAD_PLAN), load_i64(program, AHEAD_COUNT))


@helper
def call_reverse(callback, run):
    """Compute the adjoints of arguments from the seeds, after `call_ahead`; why it stopped."""
    program = load_i64(callback, CALLBACK_PROGRAM)
    return follow(run, load_i64(program, REVERSE_PLAN), load_i64(program, REVERSE_COUNT))

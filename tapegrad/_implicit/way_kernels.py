"""A function with branches as one callback: a callback for each way through it, in compiled code.

A program takes one way; at an `if` that goes another one its guard fails. Then the others are tried
with the same arguments, and what is found is copied to where the first would have it. So callers
see one function; where no way is known the arguments are noted, for Python to record it.

Words of the ways: how many there are, where arguments are noted, the addresses of callbacks. `runs`
is the address of memory that the caller has: how many runs there are, and these.
"""

from .._core.codegen.intrinsics import (
    apart,
    helper,
    load_f64,
    load_i64,
    memcpy,
    store_f64,
    store_i64,
)
from .._program.replay import callback_kernels as one
from .._program.replay.callback_kernels import CALLBACK_COUNT, CALLBACK_SIZE
from .._program.replay.run_layout import FINISHED, GUARD_FAILED

#: Byte offsets of the words, and the most ways.
WAYS_COUNT, WAYS_NOTED, WAYS_FIRST = range(0, 24, 8)
WAYS = 8
#: Bytes of the memory for runs.
RUNS_BYTES = 8 * (1 + WAYS)


@helper
def way_at(ways, k):
    return load_i64(ways, WAYS_FIRST + 8 * k)


@helper
def run_at(runs, k):
    return load_i64(runs, 8 + 8 * k)


@helper
def begin_calls(ways, runs):
    """Take memory for calls; whether there is any."""
    count = 0
    for k in range(load_i64(ways, WAYS_COUNT)):
        run = one.begin_calls(way_at(ways, k))
        if run == 0:
            break
        store_i64(runs, 8 + 8 * k, run)
        count += 1
    store_i64(runs, 0, count)
    return count > 0


@helper
def end_calls(ways, runs):
    """Give the memory back."""
    for k in range(load_i64(runs, 0)):
        one.end_calls(way_at(ways, k), run_at(runs, k))


@helper
def argument_size(ways, k):
    return one.argument_size(way_at(ways, 0), k)


@helper
def argument_at(ways, runs, k):
    return one.argument_at(way_at(ways, 0), run_at(runs, 0), k)


@helper
def adjoint_at(ways, runs, k):
    return one.adjoint_at(way_at(ways, 0), run_at(runs, 0), k)


@helper
def result_at(ways, runs, j):
    return one.result_at(way_at(ways, 0), run_at(runs, 0), j)


@helper
def clear_seeds(ways, runs):
    one.clear_seeds(way_at(ways, 0), run_at(runs, 0))


@helper
def seed(ways, runs, j, weight):
    one.seed(way_at(ways, 0), run_at(runs, 0), j, weight)


@helper
def call_value(ways, runs):
    """Compute the result from the arguments; returns why it stopped."""
    status = one.call_value(way_at(ways, 0), run_at(runs, 0))
    return status if status != GUARD_FAILED else otherwise(ways, runs, False)


@helper
def call_pull(ways, runs):
    """The same with the adjoints of the arguments.

    Where there are several ways, values tell first if it is this one: seeds stay until then.
    """
    if load_i64(ways, WAYS_COUNT) > 1:
        status = one.call_value(way_at(ways, 0), run_at(runs, 0))
        if status == GUARD_FAILED:
            return otherwise(ways, runs, True)
    return one.call_pull(way_at(ways, 0), run_at(runs, 0))


@helper
def otherwise(ways, runs, is_pulled):
    """The result, and adjoints if asked for, by one of the other ways."""
    apart()
    first, own = way_at(ways, 0), run_at(runs, 0)
    for k in range(1, load_i64(runs, 0)):
        way, run = way_at(ways, k), run_at(runs, k)
        for j in range(load_i64(first, CALLBACK_COUNT)):
            size = one.argument_size(first, j)
            memcpy(one.argument_at(way, run, j), one.argument_at(first, own, j), 8 * size)
        status = by_way(first, own, way, run, is_pulled)
        if status != GUARD_FAILED:
            return status
    note(ways, first, own)
    return GUARD_FAILED


@helper
def by_way(first, own, way, run, is_pulled):
    """The same by a way, whose arguments are there."""
    size = load_i64(first, CALLBACK_SIZE)
    if is_pulled:
        one.clear_seeds(way, run)
        for j in range(size):
            one.seed(way, run, j, one.seed_of(first, own, j))
        status = one.call_pull(way, run)
    else:
        status = one.call_value(way, run)
    if status != FINISHED:
        return status
    for j in range(size):
        store_f64(one.result_at(first, own, j), 0, load_f64(one.result_at(way, run, j), 0))
    if is_pulled:
        for j in range(load_i64(first, CALLBACK_COUNT)):
            count = one.argument_size(first, j)
            memcpy(one.adjoint_at(first, own, j), one.adjoint_at(way, run, j), 8 * count)
    return FINISHED


@helper
def note(ways, first, own):
    """Note the arguments of a call that no way is known for."""
    to = load_i64(ways, WAYS_NOTED)
    for j in range(load_i64(first, CALLBACK_COUNT)):
        size = one.argument_size(first, j)
        memcpy(to, one.argument_at(first, own, j), 8 * size)
        to += 8 * size

"""Steps of explicit Runge–Kutta methods in compiled code, and their adjoints.

A solve is a table of words (`SOLVE_WORDS`), and a callback: the right-hand side. SciPy's tables are
extended: the stage after those of a step is at its end, with the weights B, and the stages of the
interpolant follow. So the state after a step and those in between are sums of stages.
"""

from __future__ import annotations

import functools

from .._core.codegen.factory import functions
from .._core.codegen.intrinsics import (
    bits_of,
    f64s,
    helper,
    load_f64,
    load_i64,
    memcpy,
    memset,
    store_f64,
    store_i64,
)
from .._core.codegen.vector_math import power, sqrt
from .._program.replay.callback_kernels import (
    CALLBACK_STEP,
    adjoint_at,
    argument_at,
    argument_size,
    call_ahead,
    call_reverse,
    call_value,
    clear_seeds,
    result_at,
    result_place,
    seed,
)
from .._program.replay.run_layout import FINISHED, GUARD_FAILED, RUN_ADJOINTS

#: Words of a solve, byte offsets.
(
    SIZE,  # of the state
    STAGES,  # of a step, with that at its end
    ALL_STAGES,  # with those of the interpolant
    POWERS,  # of the interpolant
    A,  # address of ALL_STAGES² weights
    C,
    E,  # of the estimate of the error; of two rows for DOP853
    IS_EIGHTH,
    P,  # ALL_STAGES rows of POWERS numbers
    EXPONENT,
    SAFETY,
    MIN_FACTOR,
    MAX_FACTOR,
    RTOL,  # addresses of a number for each element of the state
    ATOL,
    MAX_STEP,
    BOUND,  # the end of the interval
    DIRECTION,
    TIME,
    STEP,  # the length of the next step to try
    SLOPE_TIME,  # at which the slope at the begin of the step was computed
    STATE,  # address
    NEXT,  # address of the state after a step
    SLOPES,  # address of ALL_STAGES rows
    STATES,  # address of ALL_STAGES rows: of stages, for adjoints
    ADJOINTS,  # address of ALL_STAGES rows
    SUMS,  # address of room for the state
    COUNT,  # steps that were taken
    CALLS,  # of the right-hand side
    ROWS,  # address of rows: see `ROW_STATE`
    ROWS_COUNT,
    ROWS_ROOM,
    STRIDE,  # steps from a row to the next
    TIMES,  # address of the times of all steps, or 0
    RESULTS,  # address of the states at these times
    RESULTS_ROOM,
    ASKED,  # address of times, ordered from the begin to the end
    ASKED_COUNT,
    ASKED_NEXT,
    BETWEEN,  # address of rows of states at these times
    CALLBACKS,  # address of a table: the right-hand side, of the time, the state, and values
    CALLBACKS_COUNT,  # for its ways through branches
    CHOSEN,  # address of a table: of each stage the number of the one that had its last value
    WIDTH,  # of the table of memories
    IS_AHEAD,  # whether slopes are computed for adjoints of them
    RUNS,  # address of a table of memories for calls: of each callback one for each stage
    OF_VALUES,  # address of a table of the addresses of adjoints of the values
    VALUES,  # how many there are
    STATUS,  # of the program that has stopped
    OF_STATES,  # address of rows of adjoints: of the states after steps, or 0
    OF_BETWEEN,  # address of rows of adjoints of states at times
    OF_ASKED,  # address of the adjoints of these times
    OF_TIME,  # adjoints: of the times of begins of steps, summed up
    OF_STEP,  # of the length of the last step
    OF_STATE,  # address of the adjoint of the state
    HAS_TIMES,  # whether adjoints of times are wanted
    END,  # the time at which the last of the rows ends
    WEIGHTS,  # address of room for a number for each stage
    ROOM,  # for a number
    TANGENTS,  # callbacks of tangents of slopes: of the arguments of the others, and of tangents
    TANGENTS_COUNT,
    TANGENT_RUNS,  # address of a table of memories for calls of them
    TANGENT_TIME,  # the places among its arguments of the tangents of the time and of the state
    TANGENT_STATE,
    CHANGES,  # address of ALL_STAGES rows: tangents of slopes
    CHANGE,  # addresses of the tangents of the state, and of that after a step
    NEXT_CHANGE,
    OF_START,  # the tangents of the ends of the interval
    OF_END,
    CHANGES_OF_STATES,  # address of rows: tangents of the states after steps, or 0
    CHANGES_BETWEEN,  # address of rows: of the states at times that are asked for
    CHANGES_OF_ASKED,  # address of the tangents of these times
    FAILED_TIME,  # where no callback had a value; and the address of the state
    FAILED_STATE,
    CALLS_BEFORE,  # how many there were before the step
    ROWS_DONE,  # by `push`
    KEPT,  # address of the slopes of all stages of each step, for the interpolant; or 0
) = range(0, 8 * 77, 8)
SOLVE_WORDS = 77
#: Words of a row of steps: the time, the length of the next step, the time of the slope; the state.
ROW_TIME, ROW_STEP, ROW_SLOPE_TIME, ROW_STATE = range(0, 32, 8)
#: Why `advance` and `pull` return.
DONE, TOO_SMALL, STOPPED, ROWS_FULL, RESULTS_FULL, PAUSED = range(6)


# --- the right-hand side --------------------------------------------------------------------------


@helper
def copy_numbers(to, of, n):
    """Copy some numbers, unless they are there; few of them without a call."""
    out, given = f64s(to), f64s(of)
    if n < 8:
        for i in range(n):
            out[i] = given[i]
    elif to != of:
        memcpy(to, of, n * 8)


@helper
def callback_at(solve, stage):
    """The callback that had the last value of a stage."""
    number = load_i64(load_i64(solve, CHOSEN), stage * 8)
    return load_i64(load_i64(solve, CALLBACKS), number * 8)


@helper
def run_at(solve, stage):
    """Its memory."""
    number = load_i64(load_i64(solve, CHOSEN), stage * 8)
    return load_i64(load_i64(solve, RUNS), (number * load_i64(solve, WIDTH) + stage) * 8)


@helper
def call_slope(solve, stage, t, y):
    """Call the callback that is chosen for a stage; returns why it stopped."""
    callback, run = callback_at(solve, stage), run_at(solve, stage)
    store_f64(argument_at(callback, run, 0), 0, t)
    copy_numbers(argument_at(callback, run, 1), y, load_i64(solve, SIZE))
    if load_i64(solve, IS_AHEAD) != 0:
        return call_ahead(callback, run)
    return call_value(callback, run)


@helper
def copy_result(callback, run, n, out):
    """Copy the result of a call."""
    at, step, to = result_at(callback, run, 0), load_i64(callback, CALLBACK_STEP), f64s(out)
    if step == 8:
        copy_numbers(out, at, n)
    else:
        for i in range(n):
            to[i] = load_f64(at, i * step)


@helper
def add_seeds(callback, run, n, weights):
    """Add to the adjoints of the result of a callback."""
    if load_i64(callback, CALLBACK_STEP) == 8:
        at = load_i64(run, RUN_ADJOINTS) + result_place(callback, 0)
        add_sum(at, at, weights, n, 1.0)
    else:
        for i in range(n):
            seed(callback, run, i, load_f64(weights, i * 8))


@helper
def note_failure(solve, t, y, status):
    """Note where there is no value, and why."""
    store_i64(solve, STATUS, status)
    store_f64(solve, FAILED_TIME, t)
    memcpy(load_i64(solve, FAILED_STATE), y, load_i64(solve, SIZE) * 8)


@helper
def slope_of(solve, stage, t, y, out):
    """Compute the slope at a time and a state, in the memory of a stage; returns whether it has."""
    count, chosen = load_i64(solve, CALLBACKS_COUNT), load_i64(solve, CHOSEN) + stage * 8
    first, status = load_i64(chosen, 0), GUARD_FAILED
    store_i64(solve, CALLS, load_i64(solve, CALLS) + 1)
    for k in range(count):
        store_i64(chosen, 0, (first + k) % count)
        status = call_slope(solve, stage, t, y)
        if status != GUARD_FAILED:
            break
    if status != FINISHED:
        note_failure(solve, t, y, status)
        return False
    store_i64(solve, STATUS, FINISHED)
    copy_result(callback_at(solve, stage), run_at(solve, stage), load_i64(solve, SIZE), out)
    return True


@helper
def pull_slope(solve, stage, weights):
    """The adjoint of the state of a stage from that of its slope: its address, or 0.

    Those of values are added to their sums.
    """
    callback, run = callback_at(solve, stage), run_at(solve, stage)
    clear_seeds(callback, run)
    add_seeds(callback, run, load_i64(solve, SIZE), weights)
    status = call_reverse(callback, run)
    store_i64(solve, STATUS, status)
    if status != FINISHED:
        return 0
    for k in range(load_i64(solve, VALUES)):
        to = load_i64(load_i64(solve, OF_VALUES), k * 8)
        if to != 0:
            add_sum(to, to, adjoint_at(callback, run, k + 2), argument_size(callback, k + 2), 1.0)
    return adjoint_at(callback, run, 1)


@helper
def adjoint_of_time(solve, stage):
    """That of the time of a stage, after `pull_slope`."""
    return load_f64(adjoint_at(callback_at(solve, stage), run_at(solve, stage), 0), 0)


# --- sums of stages -------------------------------------------------------------------------------


@helper
def sum_of_stages(solve, weights, count):
    """The sum of the slopes of the first stages with their weights: where it is."""
    n, w, slopes = load_i64(solve, SIZE), f64s(weights), load_i64(solve, SLOPES)
    at = load_i64(solve, SUMS)
    total = f64s(at)
    if n < 8:
        k = f64s(slopes)
        for i in range(n):
            one = 0.0
            for j in range(count):
                one += w[j] * k[j * n + i]
            total[i] = one
        return at
    memset(at, 0, n * 8)
    row = next_weight(weights, 0, count)
    while row < count:
        after = next_weight(weights, row + 1, count)
        if after < count:
            add_two(at, slopes + row * n * 8, slopes + after * n * 8, n, w[row], w[after])
        else:
            add_sum(at, at, slopes + row * n * 8, n, w[row])
        row = next_weight(weights, after + 1, count)
    return at


@helper
def next_weight(weights, j, count):
    """The number of the next weight, from j on, that is not 0."""
    w = f64s(weights)
    while j < count and w[j] == 0.0:
        j += 1
    return j


@helper
def add_two(to, x, y, n, v, w):
    """Add v · x, then w · y."""
    out, a, b = f64s(to), f64s(x), f64s(y)
    for i in range(n):
        out[i] = out[i] + a[i] * v + b[i] * w


@helper
def add_sum(to, y, x, n, h):
    """Write y + h · x."""
    out, begin, given = f64s(to), f64s(y), f64s(x)
    for i in range(n):
        out[i] = begin[i] + given[i] * h


@helper
def product(x, y, n):
    """The scalar product of two vectors."""
    a, b = f64s(x), f64s(y)
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@helper
def is_zero(x, n):
    """Whether all numbers are 0."""
    a = f64s(x)
    for i in range(n):
        if a[i] != 0.0:
            return False
    return True


# --- a step ---------------------------------------------------------------------------------------


@helper
def do_stage(solve, stage, t, y, h, state):
    """Compute the state and the slope of a stage; returns whether it has.

    A `state` of 0 is where the right-hand side reads it.
    """
    n = load_i64(solve, SIZE)
    if state == 0:
        state = argument_at(callback_at(solve, stage), run_at(solve, stage), 1)
    weights = load_i64(solve, A) + stage * load_i64(solve, ALL_STAGES) * 8
    add_sum(state, y, sum_of_stages(solve, weights, stage), n, h)
    at = t + load_f64(load_i64(solve, C), stage * 8) * h
    return slope_of(solve, stage, at, state, load_i64(solve, SLOPES) + stage * n * 8)


@helper
def take_step(solve, h):
    """All stages of a step but the first, which is known; the last has the state after it."""
    t, y, last = load_f64(solve, TIME), load_i64(solve, STATE), load_i64(solve, STAGES) - 1
    for stage in range(1, last + 1):
        if not do_stage(solve, stage, t, y, h, load_i64(solve, NEXT) if stage == last else 0):
            return False
    return True


@helper
def square_of(solve, x, h, y, z):
    """The sum of squares of h · x, in units of what is tolerated of two states."""
    a, old, new = f64s(x), f64s(y), f64s(z)
    rtol, atol = f64s(load_i64(solve, RTOL)), f64s(load_i64(solve, ATOL))
    total = 0.0
    for i in range(load_i64(solve, SIZE)):
        one, other = abs(old[i]), abs(new[i])
        size = one if one > other else other
        error = a[i] * h / (atol[i] + size * rtol[i])
        total += error * error
    return total


@helper
def error_norm(solve, x, y, z):
    """The norm of x, in these units."""
    return sqrt(square_of(solve, x, 1.0, y, z) / load_i64(solve, SIZE))


@helper
def square_of_error(solve, weights, h):
    """The sum of squares of an estimate of the error."""
    errors = sum_of_stages(solve, weights, load_i64(solve, STAGES))
    return square_of(solve, errors, h, load_i64(solve, STATE), load_i64(solve, NEXT))


@helper
def error_of(solve, h):
    """The norm of the estimate of the error of a step."""
    n, weights = load_i64(solve, SIZE) * 1.0, load_i64(solve, E)
    if load_i64(solve, IS_EIGHTH) == 0:
        return sqrt(square_of_error(solve, weights, h) / n)
    fifth = square_of_error(solve, weights, 1.0)
    third = square_of_error(solve, weights + load_i64(solve, STAGES) * 8, 1.0)
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return abs(h) * fifth / sqrt((fifth + 0.01 * third) * n)


@helper
def next_number(solve, t, direction):
    """The number after t in a direction."""
    if t == 0.0:
        return direction * 5e-324
    is_away = (t > 0.0) == (direction > 0.0)
    store_i64(solve, ROOM, bits_of(t) + (1 if is_away else -1))
    return load_f64(solve, ROOM)


@helper
def accepted_step(solve):
    """Take a step of a length whose error is small, as SciPy does; returns why it has not."""
    t, direction, bound = load_f64(solve, TIME), load_f64(solve, DIRECTION), load_f64(solve, BOUND)
    least = 10.0 * abs(next_number(solve, t, direction) - t)
    size, most = load_f64(solve, STEP), load_f64(solve, MAX_STEP)
    if size > most:
        size = most
    elif size < least:
        size = least
    safety, exponent = load_f64(solve, SAFETY), load_f64(solve, EXPONENT)
    limit = load_f64(solve, MAX_FACTOR)
    while True:
        if not size >= least:  # NaN: SciPy goes on for ever, where Ctrl-C is heard
            return TOO_SMALL
        h = size * direction
        end = t + h
        if direction * (end - bound) > 0.0:
            end = bound
        h = end - t
        size = abs(h)
        if not take_step(solve, h):
            return STOPPED
        error = error_of(solve, h)
        if error < 1.0:
            break
        factor = safety * power(error, exponent)
        least_factor = load_f64(solve, MIN_FACTOR)
        size *= factor if factor > least_factor else least_factor
        limit = 1.0
    factor = load_f64(solve, MAX_FACTOR)
    if error != 0.0:
        found = safety * power(error, exponent)
        factor = found if found < factor else factor
    size *= factor if factor < limit else limit
    store_f64(solve, STEP, size)
    store_f64(solve, TIME, end)
    store_f64(solve, SLOPE_TIME, t + h)
    return DONE


# --- all steps ------------------------------------------------------------------------------------


@helper
def first_step(solve):
    """The length of the first step, chosen as SciPy does; −1 if a slope is not computed."""
    t, direction = load_f64(solve, TIME), load_f64(solve, DIRECTION)
    y, slope, state = load_i64(solve, STATE), load_i64(solve, SLOPES), load_i64(solve, NEXT)
    n, whole = load_i64(solve, SIZE), abs(load_f64(solve, BOUND) - t)
    d0, d1 = error_norm(solve, y, y, y), error_norm(solve, slope, y, y)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    h0 = whole if whole < h0 else h0
    add_sum(state, y, slope, n, h0 * direction)
    if not slope_of(solve, 1, t + h0 * direction, state, slope + n * 8):
        return -1.0
    change = load_i64(solve, SUMS)
    add_sum(change, slope + n * 8, slope, n, -1.0)
    d2 = error_norm(solve, change, y, y) / h0
    if d1 <= 1e-15 and d2 <= 1e-15:
        h1 = h0 * 1e-3 if h0 * 1e-3 > 1e-6 else 1e-6
    else:
        h1 = power(0.01 / (d2 if d2 > d1 else d1), -load_f64(solve, EXPONENT))
    least = 100.0 * h0
    least = h1 if h1 < least else least
    least = whole if whole < least else least
    most = load_f64(solve, MAX_STEP)
    return most if most < least else least


@helper
def begin(solve):
    """Compute the first slope and, unless it is given, the length of the first step."""
    slope = load_i64(solve, SLOPES)
    at = load_f64(solve, SLOPE_TIME)
    if not slope_of(solve, 0, at, load_i64(solve, STATE), slope):
        return STOPPED
    if load_f64(solve, STEP) < 0.0:
        store_f64(solve, STEP, first_step(solve))
        if not load_f64(solve, STEP) > 0.0:
            return STOPPED
    return DONE


@helper
def weights_of(solve, x, to):
    """The weights of all stages in the interpolant, at a part of the step."""
    powers, out = load_i64(solve, POWERS), f64s(to)
    for j in range(load_i64(solve, ALL_STAGES)):
        row = f64s(load_i64(solve, P) + j * powers * 8)
        total = 0.0
        for k in range(powers):
            total = (total + row[powers - 1 - k]) * x
        out[j] = total


@helper
def slopes_of(solve, x, to):
    """The derivatives of these weights."""
    powers, out = load_i64(solve, POWERS), f64s(to)
    for j in range(load_i64(solve, ALL_STAGES)):
        row = f64s(load_i64(solve, P) + j * powers * 8)
        total = 0.0
        for k in range(powers):
            total = total * x + row[powers - 1 - k] * (powers - k)
        out[j] = total


@helper
def write_between(solve, t, h, end):
    """Write the states at the times that are asked for up to the end of a step, and keep slopes."""
    n, direction, kept = load_i64(solve, SIZE), load_f64(solve, DIRECTION), load_i64(solve, KEPT)
    number, count = load_i64(solve, ASKED_NEXT), load_i64(solve, ASKED_COUNT)
    asked, stages = f64s(load_i64(solve, ASKED)), load_i64(solve, ALL_STAGES)
    if kept == 0 and (number >= count or direction * (asked[number] - end) > 0.0):
        return True
    y, weights = load_i64(solve, STATE), load_i64(solve, WEIGHTS)
    for stage in range(load_i64(solve, STAGES), stages):
        if not do_stage(solve, stage, t, y, h, 0):
            return False
    while number < count and direction * (asked[number] - end) <= 0.0:
        weights_of(solve, (asked[number] - t) / h, weights)
        at = load_i64(solve, BETWEEN) + number * n * 8
        add_sum(at, y, sum_of_stages(solve, weights, stages), n, h)
        number += 1
    store_i64(solve, ASKED_NEXT, number)
    if kept != 0:
        size = stages * n * 8
        memcpy(kept + load_i64(solve, COUNT) * size, load_i64(solve, SLOPES), size)
    return True


@helper
def write_row(solve, size):
    """Note the begin of a step in a row of so many bytes."""
    n, number = load_i64(solve, SIZE), load_i64(solve, ROWS_COUNT)
    row = load_i64(solve, ROWS) + number * size
    store_f64(row, ROW_TIME, load_f64(solve, TIME))
    store_f64(row, ROW_STEP, load_f64(solve, STEP))
    store_f64(row, ROW_SLOPE_TIME, load_f64(solve, SLOPE_TIME))
    memcpy(row + ROW_STATE, load_i64(solve, STATE), n * 8)
    store_i64(solve, ROWS_COUNT, number + 1)


@helper
def write_result(solve):
    """Note the time and state after a step, if all of them are asked for."""
    n, number = load_i64(solve, SIZE), load_i64(solve, COUNT)
    if load_i64(solve, TIMES) != 0:
        store_f64(load_i64(solve, TIMES), number * 8, load_f64(solve, TIME))
        memcpy(load_i64(solve, RESULTS) + number * n * 8, load_i64(solve, STATE), n * 8)


@helper
def advance(solve, most):
    """Take steps, not more than some; returns why it has stopped."""
    n, direction, bound = load_i64(solve, SIZE), load_f64(solve, DIRECTION), load_f64(solve, BOUND)
    slopes, last = load_i64(solve, SLOPES), (load_i64(solve, STAGES) - 1) * n * 8
    for _ in range(most):
        t, count = load_f64(solve, TIME), load_i64(solve, COUNT)
        step, slope_time = load_f64(solve, STEP), load_f64(solve, SLOPE_TIME)
        store_i64(solve, CALLS_BEFORE, load_i64(solve, CALLS))
        if direction * (t - bound) >= 0.0:
            return DONE
        if load_i64(solve, TIMES) != 0 and count + 1 >= load_i64(solve, RESULTS_ROOM):
            return RESULTS_FULL
        if count % load_i64(solve, STRIDE) == 0:
            if load_i64(solve, ROWS_COUNT) >= load_i64(solve, ROWS_ROOM):
                return ROWS_FULL
            write_row(solve, ROW_STATE + n * 8)
        status = accepted_step(solve)
        if status != DONE:
            return status
        end = load_f64(solve, TIME)
        if not write_between(solve, t, end - t, end):
            store_f64(solve, TIME, t)
            store_f64(solve, STEP, step)
            store_f64(solve, SLOPE_TIME, slope_time)
            return STOPPED
        memcpy(load_i64(solve, STATE), load_i64(solve, NEXT), n * 8)
        memcpy(slopes, slopes + last, n * 8)
        store_i64(solve, COUNT, count + 1)
        write_result(solve)
    return PAUSED if direction * (load_f64(solve, TIME) - bound) < 0.0 else DONE


# --- adjoints -------------------------------------------------------------------------------------


@helper
def pull_between(solve, t, h, number, of_begin):
    """The adjoints of stages, and of the begin of a step, from that of the state at a time."""
    n, stages, asked = load_i64(solve, SIZE), load_i64(solve, ALL_STAGES), load_i64(solve, ASKED)
    seed, weights = load_i64(solve, OF_BETWEEN) + number * n * 8, load_i64(solve, WEIGHTS)
    x = (load_f64(asked, number * 8) - t) / h
    weights_of(solve, x, weights)
    for j in range(stages):
        to = load_i64(solve, ADJOINTS) + j * n * 8
        add_sum(to, to, seed, n, h * load_f64(weights, j * 8))
    add_sum(of_begin, of_begin, seed, n, 1.0)
    if load_i64(solve, HAS_TIMES) == 0:
        return 0.0
    at = product(seed, sum_of_stages(solve, weights, stages), n)
    slopes_of(solve, x, weights)
    change = product(seed, sum_of_stages(solve, weights, stages), n)
    to = load_i64(solve, OF_ASKED)
    store_f64(to, number * 8, load_f64(to, number * 8) + change)
    store_f64(solve, OF_TIME, load_f64(solve, OF_TIME) - change)
    return at - x * change


@helper
def pull_stage(solve, stage, h, of_begin, of_state):
    """The adjoints of earlier stages, and of the begin of a step, from that of a stage's state.

    Returns that of the length of the step.
    """
    n, slopes, total = load_i64(solve, SIZE), load_i64(solve, SLOPES), 0.0
    weights = load_i64(solve, A) + stage * load_i64(solve, ALL_STAGES) * 8
    add_sum(of_begin, of_begin, of_state, n, 1.0)
    for j in range(stage):
        weight = load_f64(weights, j * 8)
        if weight != 0.0:
            to = load_i64(solve, ADJOINTS) + j * n * 8
            add_sum(to, to, of_state, n, h * weight)
            if load_i64(solve, HAS_TIMES) != 0:
                total += weight * product(slopes + j * n * 8, of_state, n)
    return total


@helper
def pull_step(solve, t, y, h, asked, count):
    """The adjoint of the begin of a step from that of its end, and of some times in it.

    Returns that of the length of the step; NaN if a slope is not computed.
    """
    n, all_stages = load_i64(solve, SIZE), load_i64(solve, ALL_STAGES)
    last = load_i64(solve, STAGES) - 1
    stages = all_stages if count > 0 else last
    for stage in range(stages):
        if not do_stage(solve, stage, t, y, h, 0):
            return 0.0
    adjoints, of_begin = load_i64(solve, ADJOINTS), load_i64(solve, NEXT)
    memset(adjoints, 0, all_stages * n * 8)
    memset(of_begin, 0, n * 8)
    of_step = 0.0
    for k in range(count):
        of_step += pull_between(solve, t, h, asked + k, of_begin)
    of_end, C_at = load_i64(solve, OF_STATE), load_i64(solve, C)
    stage = stages - 1 if stages > last else last
    while stage >= 0:
        seed = adjoints + stage * n * 8
        of_state = 0
        if stage < stages and not is_zero(seed, n):
            of_state = pull_slope(solve, stage, seed)
            if of_state == 0:
                return 0.0
            of_t = adjoint_of_time(solve, stage)
            store_f64(solve, OF_TIME, load_f64(solve, OF_TIME) + of_t)
            of_step += load_f64(C_at, stage * 8) * of_t
        if of_state != 0:
            of_step += pull_stage(solve, stage, h, of_begin, of_state)
        if stage == last:
            of_step += pull_stage(solve, stage, h, of_begin, of_end)
        stage -= 1
    memcpy(of_end, of_begin, n * 8)
    return of_step


@helper
def pull(solve, first, is_last, most):
    """The adjoint of the begin of the first of all rows from that of the end of the last.

    The first row is that of the step of this number; `is_last` if the last step of all is the last
    of them. Returns why it has stopped; after some steps it is called again.
    """
    n, direction = load_i64(solve, SIZE), load_f64(solve, DIRECTION)
    asked, of_state = load_i64(solve, ASKED), load_i64(solve, OF_STATE)
    for _ in range(most):
        number, end, unused = (
            load_i64(solve, ROWS_COUNT),
            load_f64(solve, END),
            load_i64(solve, ASKED_NEXT),
        )
        if number == 0:
            return DONE
        row, step = load_i64(solve, ROWS) + (number - 1) * (ROW_STATE + n * 8), first + number - 1
        t, begun = load_f64(row, ROW_TIME), unused
        while begun > 0 and (step == 0 or direction * (load_f64(asked, begun * 8 - 8) - t) > 0.0):
            begun -= 1
        of_step = pull_step(solve, t, row + ROW_STATE, end - t, begun, unused - begun)
        if load_i64(solve, STATUS) != FINISHED:
            return STOPPED
        if is_last != 0:
            store_f64(solve, OF_STEP, of_step)
            is_last = 0
        if load_i64(solve, OF_STATES) != 0:
            more = load_i64(solve, OF_STATES) + step * n * 8
            add_sum(of_state, of_state, more, n, 1.0)
        store_i64(solve, ASKED_NEXT, begun)
        store_i64(solve, ROWS_COUNT, number - 1)
        store_f64(solve, END, t)
    return PAUSED if load_i64(solve, ROWS_COUNT) > 0 else DONE


# --- tangents -------------------------------------------------------------------------------------


@helper
def change_of_slope(solve, t, y, of_t, of_y, out):
    """The tangent of the slope at a time and a state; returns whether it is computed."""
    n, status, k = load_i64(solve, SIZE), GUARD_FAILED, 0
    while status == GUARD_FAILED and k < load_i64(solve, TANGENTS_COUNT):
        callback = load_i64(load_i64(solve, TANGENTS), k * 8)
        run = load_i64(load_i64(solve, TANGENT_RUNS), k * 8)
        store_f64(argument_at(callback, run, 0), 0, t)
        memcpy(argument_at(callback, run, 1), y, n * 8)
        store_f64(argument_at(callback, run, load_i64(solve, TANGENT_TIME)), 0, of_t)
        memcpy(argument_at(callback, run, load_i64(solve, TANGENT_STATE)), of_y, n * 8)
        status = call_value(callback, run)
        if status == FINISHED:
            copy_result(callback, run, n, out)
        k += 1
    if status != FINISHED:
        note_failure(solve, t, y, status)
    return status == FINISHED


@helper
def sum_of_rows(rows, weights, count, n, to):
    """Write the sum of some rows with their weights."""
    memset(to, 0, n * 8)
    for j in range(count):
        weight = load_f64(weights, j * 8)
        if weight != 0.0:
            add_sum(to, to, rows + j * n * 8, n, weight)


@helper
def push_between(solve, t, h, of_t, of_h, number):
    """The tangent of the state at a time in a step."""
    n, stages, weights = (
        load_i64(solve, SIZE),
        load_i64(solve, ALL_STAGES),
        load_i64(solve, WEIGHTS),
    )
    to, sums = load_i64(solve, CHANGES_BETWEEN) + number * n * 8, load_i64(solve, SUMS)
    x = (load_f64(load_i64(solve, ASKED), number * 8) - t) / h
    of_x = load_f64(load_i64(solve, CHANGES_OF_ASKED), number * 8) - of_t - x * of_h
    weights_of(solve, x, weights)
    sum_of_rows(load_i64(solve, CHANGES), weights, stages, n, sums)
    add_sum(to, load_i64(solve, CHANGE), sums, n, h)
    sum_of_rows(load_i64(solve, SLOPES), weights, stages, n, sums)
    add_sum(to, to, sums, n, of_h)
    slopes_of(solve, x, weights)
    sum_of_rows(load_i64(solve, SLOPES), weights, stages, n, sums)
    add_sum(to, to, sums, n, of_x)


@helper
def push_step(solve, row, h, of_h, count):
    """The tangent of the state after a step from that before it; and at some times in it."""
    n, t, y = load_i64(solve, SIZE), load_f64(row, ROW_TIME), row + ROW_STATE
    last, all_stages = load_i64(solve, STAGES) - 1, load_i64(solve, ALL_STAGES)
    change, next_change = load_i64(solve, CHANGE), load_i64(solve, NEXT_CHANGE)
    state, sums, changes = load_i64(solve, STATES), load_i64(solve, SUMS), load_i64(solve, CHANGES)
    of_t, end = load_f64(solve, OF_START), load_i64(solve, NEXT)
    for stage in range(all_stages if count > 0 else last + 1):
        weights = load_i64(solve, A) + stage * all_stages * 8
        sum_of_rows(changes, weights, stage, n, sums)
        add_sum(end, change, sums, n, h)
        sum_of_rows(load_i64(solve, SLOPES), weights, stage, n, sums)
        add_sum(end, end, sums, n, of_h)
        if stage == last:
            memcpy(next_change, end, n * 8)
            if count == 0:
                return True
        if not do_stage(solve, stage, t, y, h, state):
            return False
        c = load_f64(load_i64(solve, C), stage * 8)
        out = changes + stage * n * 8
        if not change_of_slope(solve, t + c * h, state, of_t + c * of_h, end, out):
            return False
    for k in range(count):
        push_between(solve, t, h, of_t, of_h, load_i64(solve, ASKED_NEXT) + k)
    return True


@helper
def times_within(solve, end, is_last):
    """How many of the times that are asked for, from the next one on, lie in a step."""
    number, count = load_i64(solve, ASKED_NEXT), load_i64(solve, ASKED_COUNT)
    asked, direction, found = load_i64(solve, ASKED), load_f64(solve, DIRECTION), 0
    while number + found < count:
        beyond = direction * (load_f64(asked, (number + found) * 8) - end) > 0.0
        if beyond and not is_last:
            break
        found += 1
    return found


@helper
def push(solve, first, is_last):
    """The tangent of the state after the last of all rows from that before the first.

    Arguments are those of `pull`. Returns why it has stopped.
    """
    n, count = load_i64(solve, SIZE), load_i64(solve, ROWS_COUNT)
    for number in range(count):
        store_i64(solve, ROWS_DONE, number)
        row = load_i64(solve, ROWS) + number * (ROW_STATE + n * 8)
        is_end = number + 1 == count
        end = load_f64(solve, END) if is_end else load_f64(row + ROW_STATE + n * 8, ROW_TIME)
        of_h = 0.0
        if is_end and is_last != 0:
            of_h = load_f64(solve, OF_END) - load_f64(solve, OF_START)
        asked = times_within(solve, end, is_end and is_last != 0)
        if not push_step(solve, row, end - load_f64(row, ROW_TIME), of_h, asked):
            return STOPPED
        store_i64(solve, ASKED_NEXT, load_i64(solve, ASKED_NEXT) + asked)
        memcpy(load_i64(solve, CHANGE), load_i64(solve, NEXT_CHANGE), n * 8)
        if load_i64(solve, CHANGES_OF_STATES) != 0:
            to = load_i64(solve, CHANGES_OF_STATES) + (first + number + 1) * n * 8
            memcpy(to, load_i64(solve, CHANGE), n * 8)
    return DONE


EXPORTS = {
    "begin": "solve",
    "advance": "solve, most",
    "pull": "solve, first, is_last, most",
    "push": "solve, first, is_last",
}
SOURCE = "from tapegrad.scipy import _ode_kernels\n" + "".join(
    f"\n\ndef {name}({given}):\n    return _ode_kernels.{name}({given})\n"
    for name, given in EXPORTS.items()
)


@functools.cache
def compiled() -> dict:
    """The functions as Python calls them, without the interpreter lock."""
    counts = {name: given.count(",") + 1 for name, given in EXPORTS.items()}
    return functions(SOURCE, counts, keep_lock=False)

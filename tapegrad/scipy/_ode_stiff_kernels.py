"""Steps of SciPy's Radau in compiled code, and their adjoints, for small systems.

The words of a solve are those of `_ode_kernels` and those here. A step solves the equations of
three stages, whose states are y + Z: by Newton's method with one real and one complex matrix, as
SciPy does, and, for adjoints, with the exact matrix of all stages. Matrices are in C order, which
LAPACK takes for their transposes.
"""

from __future__ import annotations

import functools

from .._core.codegen.complex_lapack import lapack as complex_lapack
from .._core.codegen.factory import functions
from .._core.codegen.intrinsics import (
    f64s,
    helper,
    load_f64,
    load_i32,
    load_i64,
    memcpy,
    memset,
    store_f64,
    store_i64,
)
from .._core.codegen.lapack import getrf, getrs
from .._core.codegen.vector_math import power, sqrt
from .._program.replay.callback_kernels import (
    adjoint_at,
    call_pull,
    clear_seeds,
    seed,
)
from .._program.replay.run_layout import FINISHED
from ._ode_kernels import (
    ASKED,
    ASKED_COUNT,
    ASKED_NEXT,
    BETWEEN,
    BOUND,
    CALLS,
    CALLS_BEFORE,
    CHANGE,
    CHANGES,
    CHANGES_BETWEEN,
    CHANGES_OF_ASKED,
    CHANGES_OF_STATES,
    COUNT,
    DIRECTION,
    DONE,
    END,
    MAX_FACTOR,
    MAX_STEP,
    MIN_FACTOR,
    NEXT,
    OF_ASKED,
    OF_BETWEEN,
    OF_END,
    OF_START,
    OF_STATE,
    OF_STATES,
    OF_STEP,
    OF_TIME,
    PAUSED,
    RESULTS_FULL,
    RESULTS_ROOM,
    ROW_STATE,
    ROW_TIME,
    ROWS,
    ROWS_COUNT,
    ROWS_DONE,
    ROWS_FULL,
    ROWS_ROOM,
    SIZE,
    SLOPE_TIME,
    SLOPES,
    SOLVE_WORDS,
    STATE,
    STATUS,
    STEP,
    STOPPED,
    SUMS,
    TIME,
    TIMES,
    TOO_SMALL,
    add_sum,
    adjoint_of_time,
    begin,
    callback_at,
    change_of_slope,
    error_norm,
    next_number,
    product,
    pull_slope,
    run_at,
    slope_of,
    sum_of_rows,
    times_within,
    write_result,
    write_row,
)

zgetrf, zgetrs = complex_lapack.getrf, complex_lapack.getrs
_FIRST = 8 * SOLVE_WORDS
#: Words of a solve by Radau, byte offsets.
(
    NODES,  # address of SciPy's C, and of its other numbers
    INVERSE,  # of T: the matrix of three rows that it calls TI
    TRANSFORM,  # T
    ESTIMATE,  # E
    WEIGHTS_OF_STAGES,  # A, of the equations of the stages
    POLYNOMIALS,  # P
    REAL,  # SciPy's MU_REAL; the parts of MU_COMPLEX
    COMPLEX,
    IMAGINARY,
    MOST,  # iterations of Newton's method
    TOLERANCE,  # of it
    ARGUMENTS,  # address of LAPACK's arguments: see `LETTER_N`
    JACOBIAN,  # addresses: of ∂f/∂y, of the factors of the two matrices, and of their pivots
    REAL_FACTORS,
    COMPLEX_FACTORS,
    REAL_PIVOTS,
    COMPLEX_PIVOTS,
    STAGES_GUESS,  # addresses of three rows: Z at the begin of Newton's method, Z, W, its change
    STAGES_Z,
    STAGES_W,
    STAGES_CHANGE,
    COMPLEX_SIDE,  # of complex numbers
    OLD_TIME,  # of the last step: its begin, and whether there was one
    OLD_STEP,
    OLD_STATE,  # address
    OLD_STAGES,  # address
    HAS_OLD,
    LAST_TRIED,  # the step that was to be tried last, and the error of the last one; −1: none
    LAST_ERROR,
    IS_CURRENT,  # whether ∂f/∂y is that of the begin of the step
    HAS_FACTORS,
    JACOBIANS,  # how many were computed
    FACTORS,
    MATRIX,  # address, of the equations of all stages; for adjoints
    PIVOTS,
    ITERATIONS,  # of the last solution, and the rate of convergence; −1: not known
    RATE,
) = range(_FIRST, _FIRST + 8 * 37, 8)
RADAU_WORDS = SOLVE_WORDS + 37
#: LAPACK's arguments, byte offsets: letters, sizes of matrices, its answer.
LETTER_N, LETTER_T, ROWS_OF_STATE, ROWS_OF_STAGES, ONE, ANSWER = range(0, 48, 8)


@helper
def row_bytes(n):
    """Of the begin of a step, which Z of its stages follows."""
    return ROW_STATE + 4 * n * 8


# --- matrices -------------------------------------------------------------------------------------


@helper
def write_jacobian(solve, stage, t, y, to):
    """Compute ∂f/∂y, row by row, in the memory of a stage; returns whether it has."""
    n, calls = load_i64(solve, SIZE), load_i64(solve, CALLS)
    found = slope_of(solve, stage, t, y, load_i64(solve, SUMS))
    store_i64(solve, CALLS, calls)
    if not found:
        return False
    callback, run = callback_at(solve, stage), run_at(solve, stage)
    for i in range(n):
        clear_seeds(callback, run)
        seed(callback, run, i, 1.0)
        status = call_pull(callback, run)
        if status != FINISHED:
            store_i64(solve, STATUS, status)
            return False
        memcpy(to + i * n * 8, adjoint_at(callback, run, 1), n * 8)
    return True


@helper
def find_jacobian(solve, t, y):
    """Compute ∂f/∂y for further steps; returns whether it has."""
    store_i64(solve, JACOBIANS, load_i64(solve, JACOBIANS) + 1)
    store_i64(solve, IS_CURRENT, 1)
    return write_jacobian(solve, 0, t, y, load_i64(solve, JACOBIAN))


@helper
def factorise(solve, h):
    """The factors of both matrices; returns whether they are regular."""
    n, J, given = load_i64(solve, SIZE), f64s(load_i64(solve, JACOBIAN)), load_i64(solve, ARGUMENTS)
    real, pair = load_i64(solve, REAL_FACTORS), load_i64(solve, COMPLEX_FACTORS)
    a, b = f64s(real), f64s(pair)
    for k in range(n * n):
        a[k] = -J[k]
        b[2 * k] = -J[k]
        b[2 * k + 1] = 0.0
    for i in range(n):
        k = i * (n + 1)
        a[k] += load_f64(solve, REAL) / h
        b[2 * k] += load_f64(solve, COMPLEX) / h
        b[2 * k + 1] += load_f64(solve, IMAGINARY) / h
    store_i64(solve, FACTORS, load_i64(solve, FACTORS) + 2)
    store_i64(solve, HAS_FACTORS, 1)
    rows, answer = given + ROWS_OF_STATE, given + ANSWER
    getrf(rows, rows, real, rows, load_i64(solve, REAL_PIVOTS), answer)
    if load_i32(answer, 0) != 0:
        return False
    zgetrf(rows, rows, pair, rows, load_i64(solve, COMPLEX_PIVOTS), answer)
    return load_i32(answer, 0) == 0


@helper
def solve_real(solve, x):
    """Solve with the real matrix, in place."""
    given, pivots = load_i64(solve, ARGUMENTS), load_i64(solve, REAL_PIVOTS)
    rows, one, matrix = given + ROWS_OF_STATE, given + ONE, load_i64(solve, REAL_FACTORS)
    getrs(given + LETTER_T, rows, one, matrix, rows, pivots, x, rows, given + ANSWER)


@helper
def solve_complex(solve, x):
    """Solve with the complex matrix, in place."""
    given, pivots = load_i64(solve, ARGUMENTS), load_i64(solve, COMPLEX_PIVOTS)
    rows, one, matrix = given + ROWS_OF_STATE, given + ONE, load_i64(solve, COMPLEX_FACTORS)
    zgetrs(given + LETTER_T, rows, one, matrix, rows, pivots, x, rows, given + ANSWER)


# --- Newton's method ------------------------------------------------------------------------------


@helper
def write_product(to, matrix, x, n):
    """Write the product of a matrix of three rows and columns, and three rows."""
    out, m, rows = f64s(to), f64s(matrix), f64s(x)
    for i in range(n):
        x0, x1, x2 = rows[i], rows[n + i], rows[2 * n + i]
        for k in range(3):
            out[k * n + i] = m[3 * k] * x0 + m[3 * k + 1] * x1 + m[3 * k + 2] * x2


@helper
def write_slopes(solve, t, y, h):
    """The slopes of the stages; returns whether they are computed."""
    n, z = load_i64(solve, SIZE), load_i64(solve, STAGES_Z)
    slopes, state = load_i64(solve, SLOPES), load_i64(solve, NEXT)
    for k in range(3):
        add_sum(state, y, z + k * n * 8, n, 1.0)
        at = t + load_f64(load_i64(solve, NODES), k * 8) * h
        if not slope_of(solve, k, at, state, slopes + k * n * 8):
            return False
    return True


@helper
def are_finite(x, n):
    """Whether numbers are."""
    a = f64s(x)
    for i in range(n):
        if a[i] - a[i] != 0.0:
            return False
    return True


@helper
def write_change(solve, h):
    """The change of W in an iteration, for the slopes of the stages."""
    n, ti = load_i64(solve, SIZE), f64s(load_i64(solve, INVERSE))
    f, w = f64s(load_i64(solve, SLOPES)), f64s(load_i64(solve, STAGES_W))
    real, re, im = load_f64(solve, REAL), load_f64(solve, COMPLEX), load_f64(solve, IMAGINARY)
    real, re, im = real / h, re / h, im / h
    change, pairs = f64s(load_i64(solve, STAGES_CHANGE)), f64s(load_i64(solve, COMPLEX_SIDE))
    for i in range(n):
        x, y, z = f[i], f[n + i], f[2 * n + i]
        w1, w2 = w[n + i], w[2 * n + i]
        change[i] = ti[0] * x + ti[1] * y + ti[2] * z - real * w[i]
        pairs[2 * i] = ti[3] * x + ti[4] * y + ti[5] * z - (re * w1 - im * w2)
        pairs[2 * i + 1] = ti[6] * x + ti[7] * y + ti[8] * z - (re * w2 + im * w1)
    solve_real(solve, load_i64(solve, STAGES_CHANGE))
    solve_complex(solve, load_i64(solve, COMPLEX_SIDE))
    for i in range(n):
        change[n + i] = pairs[2 * i]
        change[2 * n + i] = pairs[2 * i + 1]


@helper
def norm_of_change(solve, y):
    """The norm of the change of W, in units of what is tolerated."""
    n, at = load_i64(solve, SIZE), load_i64(solve, STAGES_CHANGE)
    total = 0.0
    for k in range(3):
        one = error_norm(solve, at + k * n * 8, y, y)
        total += one * one
    return sqrt(total / 3.0)


@helper
def find_stages(solve, t, y, h):
    """Solve the equations of the stages; returns whether it has."""
    n, most = load_i64(solve, SIZE), load_i64(solve, MOST)
    z, w = load_i64(solve, STAGES_Z), load_i64(solve, STAGES_W)
    change = load_i64(solve, STAGES_CHANGE)
    memcpy(z, load_i64(solve, STAGES_GUESS), 3 * n * 8)
    write_product(w, load_i64(solve, INVERSE), z, n)
    store_f64(solve, RATE, -1.0)
    last, rate = -1.0, -1.0
    for k in range(most):
        store_i64(solve, ITERATIONS, k + 1)
        if not write_slopes(solve, t, y, h) or not are_finite(load_i64(solve, SLOPES), 3 * n):
            return False
        write_change(solve, h)
        size = norm_of_change(solve, y)
        if k > 0:
            rate = size / last
            left = power(rate, most - k * 1.0) / (1.0 - rate) * size
            store_f64(solve, RATE, rate)
            if rate >= 1.0 or left > load_f64(solve, TOLERANCE):
                return False
        add_sum(w, w, change, 3 * n, 1.0)
        write_product(z, load_i64(solve, TRANSFORM), w, n)
        if size == 0.0 or (k > 0 and rate / (1.0 - rate) * size < load_f64(solve, TOLERANCE)):
            return True
        last = size
    return False


@helper
def weight_of(solve, x, k):
    """The weight of Z of a stage at a part of a step."""
    row = f64s(load_i64(solve, POLYNOMIALS) + k * 24)
    return x * (row[0] + x * (row[1] + x * row[2]))


@helper
def slope_of_weight(solve, x, k):
    """The derivative of this weight."""
    row = f64s(load_i64(solve, POLYNOMIALS) + k * 24)
    return row[0] + x * (2.0 * row[1] + x * 3.0 * row[2])


@helper
def state_between(solve, x, y, z, to):
    """Write the state at a part of a step with some Z."""
    n = load_i64(solve, SIZE)
    memcpy(to, y, n * 8)
    for k in range(3):
        add_sum(to, to, z + k * n * 8, n, weight_of(solve, x, k))


@helper
def guess_stages(solve, t, y, h):
    """Z at the begin of Newton's method: by the interpolant of the last step."""
    n, guess = load_i64(solve, SIZE), load_i64(solve, STAGES_GUESS)
    if load_i64(solve, HAS_OLD) == 0:
        memset(guess, 0, 3 * n * 8)
        return 0
    before, z = load_i64(solve, OLD_STATE), load_i64(solve, OLD_STAGES)
    for k in range(3):
        at = t + h * load_f64(load_i64(solve, NODES), k * 8)
        x = (at - load_f64(solve, OLD_TIME)) / load_f64(solve, OLD_STEP)
        to = guess + k * n * 8
        state_between(solve, x, before, z, to)
        add_sum(to, to, y, n, -1.0)
    return 0


# --- a step ---------------------------------------------------------------------------------------


@helper
def converged(solve, t, y, h):
    """Solve the equations of a step with the matrix there is, or a new one; whether it has."""
    while True:
        if load_i64(solve, HAS_FACTORS) == 0 and not factorise(solve, h):
            store_i64(solve, STATUS, -1)
            return False
        if find_stages(solve, t, y, h):
            return True
        if load_i64(solve, STATUS) != FINISHED or load_i64(solve, IS_CURRENT) != 0:
            return False
        if not find_jacobian(solve, t, y):
            return False
        store_i64(solve, HAS_FACTORS, 0)


@helper
def write_error(solve, slope, h, to):
    """Write the estimate of the error, by a slope at the begin of the step."""
    n, e = load_i64(solve, SIZE), f64s(load_i64(solve, ESTIMATE))
    f, z, out = f64s(slope), f64s(load_i64(solve, STAGES_Z)), f64s(to)
    for i in range(n):
        out[i] = f[i] + (z[i] * e[0] + z[n + i] * e[1] + z[2 * n + i] * e[2]) / h
    solve_real(solve, to)


@helper
def error_of_stages(solve, t, y, h, rejected):
    """The norm of the estimate of the error; −1 if it is not computed."""
    n, begin = load_i64(solve, SIZE), load_i64(solve, SLOPES) + 3 * load_i64(solve, SIZE) * 8
    error, end = load_i64(solve, SUMS), load_i64(solve, NEXT)
    write_error(solve, begin, h, error)
    add_sum(end, y, load_i64(solve, STAGES_Z) + 2 * n * 8, n, 1.0)
    size = error_norm(solve, error, y, end)
    if rejected and size > 1.0:
        state, slope = load_i64(solve, STAGES_CHANGE), load_i64(solve, STAGES_CHANGE) + n * 8
        add_sum(state, y, error, n, 1.0)
        if not slope_of(solve, 0, t, state, slope):
            return -1.0
        write_error(solve, slope, h, error)
        size = error_norm(solve, error, y, end)
    return size


@helper
def factor_of(size, old_size, error, old_error):
    """The factor by which the step is to change, for the error and that of the last step."""
    by = 1.0
    if old_error >= 0.0 and error != 0.0:
        by = size / old_size * power(old_error / error, 0.25)
    return (by if by < 1.0 else 1.0) * power(error, -0.25)


@helper
def end_step(solve, h, end, error, size):
    """Go to the end of a step; the next one has the length `size`. Returns whether it has."""
    n, y, after = load_i64(solve, SIZE), load_i64(solve, STATE), load_i64(solve, NEXT)
    if not slope_of(solve, 0, end, after, load_i64(solve, SLOPES) + 3 * n * 8):
        return False
    store_f64(solve, LAST_TRIED, load_f64(solve, STEP))
    store_f64(solve, LAST_ERROR, error)
    store_f64(solve, OLD_TIME, load_f64(solve, TIME))
    store_f64(solve, OLD_STEP, h)
    memcpy(load_i64(solve, OLD_STATE), y, n * 8)
    memcpy(load_i64(solve, OLD_STAGES), load_i64(solve, STAGES_Z), 3 * n * 8)
    store_i64(solve, HAS_OLD, 1)
    memcpy(y, after, n * 8)
    store_f64(solve, TIME, end)
    store_f64(solve, SLOPE_TIME, end)
    store_f64(solve, STEP, size)
    return True


@helper
def step_size(solve, least):
    """The length of a step to try; what is known of the last error is dropped if it is limited."""
    size, most = load_f64(solve, STEP), load_f64(solve, MAX_STEP)
    if size > most or size < least:
        size = most if size > most else least
        store_f64(solve, LAST_ERROR, -1.0)
    return size


@helper
def take_implicit_step(solve):
    """Take a step whose error is small, as SciPy does; returns why it has not."""
    t, y, direction = load_f64(solve, TIME), load_i64(solve, STATE), load_f64(solve, DIRECTION)
    least, bound = 10.0 * abs(next_number(solve, t, direction) - t), load_f64(solve, BOUND)
    size, rejected = step_size(solve, least), False
    old_size, old_error = load_f64(solve, LAST_TRIED), load_f64(solve, LAST_ERROR)
    while True:
        if size < least:
            return TOO_SMALL
        h = size * direction
        end = t + h
        if direction * (end - bound) > 0.0:
            end = bound
        h = end - t
        size = abs(h)
        guess_stages(solve, t, y, h)
        if not converged(solve, t, y, h):
            if load_i64(solve, STATUS) != FINISHED:
                return STOPPED
            size *= 0.5
            store_i64(solve, HAS_FACTORS, 0)
            continue
        error = error_of_stages(solve, t, y, h, rejected)
        if error < 0.0:
            return STOPPED
        count = load_i64(solve, MOST) * 2.0
        safety = 0.9 * (count + 1.0) / (count + load_i64(solve, ITERATIONS))
        factor = safety * factor_of(size, old_size, error, old_error)
        if not error > 1.0:
            break
        least_factor = load_f64(solve, MIN_FACTOR)
        size *= factor if factor > least_factor else least_factor
        store_i64(solve, HAS_FACTORS, 0)
        rejected = True
    return finish_step(solve, h, end, error, factor)


@helper
def finish_step(solve, h, end, error, factor):
    """Choose the next step, and go to the end of this one; returns why it has not."""
    is_slow = load_i64(solve, ITERATIONS) > 2 and load_f64(solve, RATE) > 1e-3
    most = load_f64(solve, MAX_FACTOR)
    factor = factor if factor < most else most
    if not is_slow and factor < 1.2:
        factor = 1.0
    else:
        store_i64(solve, HAS_FACTORS, 0)
    if not end_step(solve, h, end, error, abs(h) * factor):
        return STOPPED
    store_i64(solve, IS_CURRENT, 0)
    if is_slow and not find_jacobian(solve, end, load_i64(solve, STATE)):
        return STOPPED
    return DONE


@helper
def begin_implicit(solve):
    """The first slope, ∂f/∂y and, unless it is given, the length of the first step."""
    n = load_i64(solve, SIZE)
    status = begin(solve)
    if status != DONE:
        return status
    slopes = load_i64(solve, SLOPES)
    memcpy(slopes + 3 * n * 8, slopes, n * 8)
    t, y = load_f64(solve, TIME), load_i64(solve, STATE)
    return DONE if find_jacobian(solve, t, y) else STOPPED


@helper
def write_states_between(solve, end):
    """Write the states at the times that are asked for up to the end of a step."""
    n, direction = load_i64(solve, SIZE), load_f64(solve, DIRECTION)
    number, count = load_i64(solve, ASKED_NEXT), load_i64(solve, ASKED_COUNT)
    asked, y, z = (
        f64s(load_i64(solve, ASKED)),
        load_i64(solve, OLD_STATE),
        load_i64(solve, OLD_STAGES),
    )
    while number < count and direction * (asked[number] - end) <= 0.0:
        x = (asked[number] - load_f64(solve, OLD_TIME)) / load_f64(solve, OLD_STEP)
        state_between(solve, x, y, z, load_i64(solve, BETWEEN) + number * n * 8)
        number += 1
    store_i64(solve, ASKED_NEXT, number)


@helper
def advance_implicit(solve, most):
    """Take steps, not more than some; returns why it has stopped."""
    n, direction, bound = load_i64(solve, SIZE), load_f64(solve, DIRECTION), load_f64(solve, BOUND)
    for _ in range(most):
        count = load_i64(solve, COUNT)
        store_i64(solve, CALLS_BEFORE, load_i64(solve, CALLS))
        if direction * (load_f64(solve, TIME) - bound) >= 0.0:
            return DONE
        if load_i64(solve, TIMES) != 0 and count + 1 >= load_i64(solve, RESULTS_ROOM):
            return RESULTS_FULL
        if load_i64(solve, ROWS_COUNT) >= load_i64(solve, ROWS_ROOM):
            return ROWS_FULL
        write_row(solve, row_bytes(n))
        status = take_implicit_step(solve)
        if status != DONE:
            return status
        row = load_i64(solve, ROWS) + (load_i64(solve, ROWS_COUNT) - 1) * row_bytes(n)
        memcpy(row + ROW_STATE + n * 8, load_i64(solve, OLD_STAGES), 3 * n * 8)
        write_states_between(solve, load_f64(solve, TIME))
        store_i64(solve, COUNT, count + 1)
        write_result(solve)
    return PAUSED if direction * (load_f64(solve, TIME) - bound) < 0.0 else DONE


# --- adjoints -------------------------------------------------------------------------------------


@helper
def write_matrix(solve, t, y, h):
    """The factors of the matrix of all stages, in C order; returns whether they are computed."""
    n, state = load_i64(solve, SIZE), load_i64(solve, NEXT)
    matrix, J, weights = (
        f64s(load_i64(solve, MATRIX)),
        load_i64(solve, JACOBIAN),
        load_i64(solve, WEIGHTS_OF_STAGES),
    )
    one = f64s(J)
    for k in range(3):
        add_sum(state, y, load_i64(solve, STAGES_Z) + k * n * 8, n, 1.0)
        at = t + load_f64(load_i64(solve, NODES), k * 8) * h
        if not write_jacobian(solve, k, at, state, J):
            return False
        for m in range(3):
            by = -h * load_f64(weights, (3 * m + k) * 8)
            for i in range(n):
                first = (m * n + i) * 3 * n + k * n
                for j in range(n):
                    matrix[first + j] = by * one[i * n + j]
                if m == k:
                    matrix[first + i] += 1.0
    given = load_i64(solve, ARGUMENTS)
    rows, answer = given + ROWS_OF_STAGES, given + ANSWER
    getrf(rows, rows, load_i64(solve, MATRIX), rows, load_i64(solve, PIVOTS), answer)
    store_i64(solve, STATUS, load_i32(answer, 0))
    return load_i32(answer, 0) == 0


@helper
def pull_state_between(solve, t, h, number, of_begin, of_stages):
    """Add to the adjoints of the begin of a step, and of Z, those of the state at a time.

    Returns that of the length of the step.
    """
    n, z = load_i64(solve, SIZE), load_i64(solve, STAGES_Z)
    weights = load_i64(solve, OF_BETWEEN) + number * n * 8
    x = (load_f64(load_i64(solve, ASKED), number * 8) - t) / h
    add_sum(of_begin, of_begin, weights, n, 1.0)
    change = 0.0
    for k in range(3):
        to = of_stages + k * n * 8
        add_sum(to, to, weights, n, weight_of(solve, x, k))
        change += slope_of_weight(solve, x, k) * product(weights, z + k * n * 8, n)
    to, change = load_i64(solve, OF_ASKED), change / h
    store_f64(to, number * 8, load_f64(to, number * 8) + change)
    store_f64(solve, OF_TIME, load_f64(solve, OF_TIME) - change)
    return -x * change


@helper
def scale_by(x, h, n):
    """Multiply numbers by h."""
    a = f64s(x)
    for i in range(n):
        a[i] *= h


@helper
def pull_equations(solve, h, of_stages, of_begin):
    """Add to the adjoint of the begin of a step by those of its equations.

    Returns that of its length.
    """
    n, slopes, weights = (
        load_i64(solve, SIZE),
        load_i64(solve, SLOPES),
        load_i64(solve, STAGES_CHANGE),
    )
    of_step = 0.0
    A = f64s(load_i64(solve, WEIGHTS_OF_STAGES))
    for k in range(3):
        memset(weights, 0, n * 8)
        for m in range(3):
            add_sum(weights, weights, of_stages + m * n * 8, n, A[3 * m + k])
        of_step += product(weights, slopes + k * n * 8, n)
        scale_by(weights, h, n)
        of_state = pull_slope(solve, k, weights)
        if of_state == 0:
            return 0.0
        add_sum(of_begin, of_begin, of_state, n, 1.0)
        of_t = adjoint_of_time(solve, k)
        store_f64(solve, OF_TIME, load_f64(solve, OF_TIME) + of_t)
        of_step += load_f64(load_i64(solve, NODES), k * 8) * of_t
    return of_step


@helper
def pull_implicit_step(solve, row, h, asked, count):
    """The adjoint of the begin of a step from that of its end, and of some times in it.

    Returns that of the length of the step.
    """
    n, t, y = load_i64(solve, SIZE), load_f64(row, ROW_TIME), row + ROW_STATE
    memcpy(load_i64(solve, STAGES_Z), row + ROW_STATE + n * 8, 3 * n * 8)
    if not write_matrix(solve, t, y, h) or not write_slopes(solve, t, y, h):
        return 0.0
    of_end, of_stages = load_i64(solve, OF_STATE), load_i64(solve, STAGES_W)
    memset(of_stages, 0, 3 * n * 8)
    memcpy(of_stages + 2 * n * 8, of_end, n * 8)
    of_step = 0.0
    for k in range(count):
        of_step += pull_state_between(solve, t, h, asked + k, of_end, of_stages)
    given, pivots = load_i64(solve, ARGUMENTS), load_i64(solve, PIVOTS)
    rows, matrix, one = given + ROWS_OF_STAGES, load_i64(solve, MATRIX), given + ONE
    getrs(given + LETTER_N, rows, one, matrix, rows, pivots, of_stages, rows, given + ANSWER)
    return of_step + pull_equations(solve, h, of_stages, of_end)


@helper
def pull_implicit(solve, first, is_last, most):
    """As `pull` of `_ode_kernels`."""
    n, direction = load_i64(solve, SIZE), load_f64(solve, DIRECTION)
    asked, of_state = load_i64(solve, ASKED), load_i64(solve, OF_STATE)
    for _ in range(most):
        number, end = load_i64(solve, ROWS_COUNT), load_f64(solve, END)
        if number == 0:
            return DONE
        row, step = load_i64(solve, ROWS) + (number - 1) * row_bytes(n), first + number - 1
        t, unused = load_f64(row, ROW_TIME), load_i64(solve, ASKED_NEXT)
        begun = unused
        while begun > 0 and (step == 0 or direction * (load_f64(asked, begun * 8 - 8) - t) > 0.0):
            begun -= 1
        of_step = pull_implicit_step(solve, row, end - t, begun, unused - begun)
        if load_i64(solve, STATUS) != FINISHED:
            return STOPPED
        if is_last != 0:
            store_f64(solve, OF_STEP, of_step)
            is_last = 0
        if load_i64(solve, OF_STATES) != 0:
            add_sum(of_state, of_state, load_i64(solve, OF_STATES) + step * n * 8, n, 1.0)
        store_i64(solve, ASKED_NEXT, begun)
        store_i64(solve, ROWS_COUNT, number - 1)
        store_f64(solve, END, t)
    return PAUSED if load_i64(solve, ROWS_COUNT) > 0 else DONE


# --- tangents -------------------------------------------------------------------------------------


@helper
def push_stages(solve, t, y, h, of_h):
    """The tangents of Z of the stages, from that of the state before a step; whether it has."""
    n, weights, of_t = (
        load_i64(solve, SIZE),
        load_i64(solve, WEIGHTS_OF_STAGES),
        load_f64(solve, OF_START),
    )
    state, changes, of_stages = (
        load_i64(solve, NEXT),
        load_i64(solve, CHANGES),
        load_i64(solve, STAGES_W),
    )
    if not write_matrix(solve, t, y, h) or not write_slopes(solve, t, y, h):
        return False
    for k in range(3):
        c, out = load_f64(load_i64(solve, NODES), k * 8), changes + k * n * 8
        add_sum(state, y, load_i64(solve, STAGES_Z) + k * n * 8, n, 1.0)
        at, of_at = t + c * h, of_t + c * of_h
        if not change_of_slope(solve, at, state, of_at, load_i64(solve, CHANGE), out):
            return False
    sums = load_i64(solve, SUMS)
    for m in range(3):
        to = of_stages + m * n * 8
        sum_of_rows(changes, weights + 24 * m, 3, n, to)
        scale_by(to, h, n)
        sum_of_rows(load_i64(solve, SLOPES), weights + 24 * m, 3, n, sums)
        add_sum(to, to, sums, n, of_h)
    given, pivots = load_i64(solve, ARGUMENTS), load_i64(solve, PIVOTS)
    rows, matrix, one = given + ROWS_OF_STAGES, load_i64(solve, MATRIX), given + ONE
    getrs(given + LETTER_T, rows, one, matrix, rows, pivots, of_stages, rows, given + ANSWER)
    return True


@helper
def push_state_between(solve, t, h, of_h, number):
    """The tangent of the state at a time in a step."""
    n, z, of_stages = load_i64(solve, SIZE), load_i64(solve, STAGES_Z), load_i64(solve, STAGES_W)
    to = load_i64(solve, CHANGES_BETWEEN) + number * n * 8
    x = (load_f64(load_i64(solve, ASKED), number * 8) - t) / h
    of_x = load_f64(load_i64(solve, CHANGES_OF_ASKED), number * 8) - load_f64(solve, OF_START)
    of_x = (of_x - x * of_h) / h
    memcpy(to, load_i64(solve, CHANGE), n * 8)
    for k in range(3):
        add_sum(to, to, of_stages + k * n * 8, n, weight_of(solve, x, k))
        add_sum(to, to, z + k * n * 8, n, slope_of_weight(solve, x, k) * of_x)


@helper
def push_implicit(solve, first, is_last):
    """As `push` of `_ode_kernels`."""
    n, count = load_i64(solve, SIZE), load_i64(solve, ROWS_COUNT)
    change = load_i64(solve, CHANGE)
    for number in range(count):
        store_i64(solve, ROWS_DONE, number)
        row = load_i64(solve, ROWS) + number * row_bytes(n)
        is_end, of_h = number + 1 == count, 0.0
        end = load_f64(solve, END) if is_end else load_f64(row + row_bytes(n), ROW_TIME)
        if is_end and is_last != 0:
            of_h = load_f64(solve, OF_END) - load_f64(solve, OF_START)
        t, y = load_f64(row, ROW_TIME), row + ROW_STATE
        h = end - t
        memcpy(load_i64(solve, STAGES_Z), y + n * 8, 3 * n * 8)
        if not push_stages(solve, t, y, h, of_h):
            return STOPPED
        asked = times_within(solve, end, is_end and is_last != 0)
        for k in range(asked):
            push_state_between(solve, t, h, of_h, load_i64(solve, ASKED_NEXT) + k)
        store_i64(solve, ASKED_NEXT, load_i64(solve, ASKED_NEXT) + asked)
        add_sum(change, change, load_i64(solve, STAGES_W) + 2 * n * 8, n, 1.0)
        if load_i64(solve, CHANGES_OF_STATES) != 0:
            to = load_i64(solve, CHANGES_OF_STATES) + (first + number + 1) * n * 8
            memcpy(to, change, n * 8)
    return DONE


EXPORTS = {
    "begin_implicit": "solve",
    "advance_implicit": "solve, most",
    "pull_implicit": "solve, first, is_last, most",
    "push_implicit": "solve, first, is_last",
}
SOURCE = "from tapegrad.scipy import _ode_stiff_kernels\n" + "".join(
    f"\n\ndef {name}({given}):\n    return _ode_stiff_kernels.{name}({given})\n"
    for name, given in EXPORTS.items()
)


@functools.cache
def compiled() -> dict:
    """The functions as Python calls them, without the interpreter lock."""
    counts = {name: given.count(",") + 1 for name, given in EXPORTS.items()}
    return functions(SOURCE, counts, keep_lock=False)

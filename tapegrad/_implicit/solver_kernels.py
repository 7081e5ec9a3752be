"""Solvers in compiled programs: the solution by a method of ours, its adjoints by the equations.

The equations are callbacks by address, for each way through them (`way_kernels`): of the unknowns,
then of the values of which they are. The table of a call has what does not change from run to run;
it is a table of `custom_kernels`, so that Python solves the problem where a method finds nothing,
or adjoints are in doubt: where ∂F/∂x is close to a singular matrix, or the solution is none.
"""

from .._core.codegen.intrinsics import f64s, helper, i64s, load_f64, load_i64, memcpy, store_i64
from .._program.replay.rule_kernels import any_set, move_all
from .._program.replay.run_layout import (
    FINISHED,
    RUN_ADJOINT_BASES,
    RUN_SCRATCH,
    RUN_VALUE_BASES,
)
from .scalar_roots import NOT_FOUND, is_finite
from .way_kernels import (
    adjoint_at,
    argument_at,
    argument_size,
    begin_calls,
    call_pull,
    clear_seeds,
    end_calls,
    result_at,
    run_at,
    seed,
)

#: Words of a table, after its two functions: the ways of the equations, the numbers of unknowns, of
#: arguments and of settings, and where the settings are.
CALLBACK, UNKNOWNS, ARGUMENTS, SETTINGS_COUNT, SETTINGS = range(16, 56, 8)
#: Byte offsets in the table of lists, each with its number of items first: arguments that are the
#: same in all calls (number, address, bytes), and moves (see `move_kernels`) of other arguments;
#: settings that are arrays (number, address, bytes), and moves of others; moves of results, of the
#: solution, of its adjoint, of adjoints of arguments.
CONSTANTS, VALUES, COPIED, MOVED, RESULTS, SOLUTION, GRADIENT, ADJOINTS = range(56, 120, 8)
HEAD_WORDS = 15
#: The methods, by name, and the modules in which they are.
METHODS = {
    **dict.fromkeys("bisect brenth brentq halley newton ridder secant".split(), "scalar_roots"),
    "hybr": "hybrid_method",
}
#: The memory of a run that a method has: counters of moves, the address of the words, these.
_BASES, _RUNS, _WORDS = 1024, 1040, 2048
#: Parts of the length of a solution: a longer step of Newton's is Python's to judge.
LONG_STEP, SHORT = 1e-3, 1e-3
#: The least pivot of a matrix whose largest elements are 1 that is far from a singular one.
_REGULAR = 1e-8


@helper
def moved(table, which, to, of, run):
    """Make the moves of a list, from bases to bases."""
    at = table + load_i64(table, which)
    move_all(at + 8, load_i64(at, 0), to, of, i64s(load_i64(run, RUN_SCRATCH)))


@helper
def memory(run):
    """Bases of which the first is the memory of a method, and this."""
    bases = load_i64(run, RUN_SCRATCH) + _BASES
    words = load_i64(run, RUN_SCRATCH) + _WORDS
    store_i64(bases, 0, words)
    return bases, words


@helper
def value_bases(own):
    """The bases of the values of a call of the equations."""
    return load_i64(run_at(own, 0), RUN_VALUE_BASES)


@helper
def begin(run, table):
    """Memory for calls of the equations, with all arguments but the unknowns; 0: there is none."""
    callback, own = load_i64(table, CALLBACK), load_i64(run, RUN_SCRATCH) + _RUNS
    if not begin_calls(callback, own):
        return 0
    at = table + load_i64(table, CONSTANTS)
    for k in range(load_i64(at, 0)):
        item = at + 8 + 24 * k
        to = argument_at(callback, own, load_i64(item, 0))
        memcpy(to, load_i64(item, 8), load_i64(item, 16))
    moved(table, VALUES, value_bases(own), load_i64(run, RUN_VALUE_BASES), run)
    return own


@helper
def solved(run, table, method):
    """The value of a call: `method(callback, run, words)` finds the solution."""
    bases, words = memory(run)
    own = begin(run, table)
    if own == 0:
        return NOT_FOUND
    memcpy(words, load_i64(table, SETTINGS), 8 * load_i64(table, SETTINGS_COUNT))
    at = table + load_i64(table, COPIED)
    for k in range(load_i64(at, 0)):
        item = at + 8 + 24 * k
        memcpy(words + 8 * load_i64(item, 0), load_i64(item, 8), load_i64(item, 16))
    moved(table, MOVED, bases, load_i64(run, RUN_VALUE_BASES), run)
    status = method(load_i64(table, CALLBACK), own, words)
    end_calls(load_i64(table, CALLBACK), own)
    if status == FINISHED:
        moved(table, RESULTS, load_i64(run, RUN_VALUE_BASES), bases, run)
    return status


# --- adjoints -------------------------------------------------------------------------------------


@helper
def is_solution(step, x, n):
    """Whether Newton's step from x is short."""
    longest, length = 0.0, SHORT
    for k in range(n):
        if not is_finite(step[k]):
            return False
        longest, length = max(longest, abs(step[k])), max(length, abs(x[k]))
    return longest <= LONG_STEP * length


@helper
def pull_one(callback, own, table, words):
    """The adjoints of arguments of one equation, from that of its unknown."""
    clear_seeds(callback, own)
    seed(callback, own, 0, 1.0)
    if call_pull(callback, own) != FINISHED:
        return NOT_FOUND
    slope = load_f64(adjoint_at(callback, own, 0), 0)
    if slope == 0.0 or not is_finite(slope):
        return NOT_FOUND
    g, step = f64s(words), f64s(words + 8)
    step[0] = load_f64(result_at(callback, own, 0), 0) / slope
    if not is_solution(step, f64s(argument_at(callback, own, 0)), 1):
        return NOT_FOUND
    factor = -g[0] / slope
    for k in range(1, load_i64(table, ARGUMENTS)):
        adjoint = f64s(adjoint_at(callback, own, k))
        for i in range(argument_size(callback, k)):
            adjoint[i] *= factor
    return FINISHED


@helper
def scale(J, n, rows, columns):
    """Scale rows, then columns, to a largest element of 1; whether all are finite, and not 0."""
    for i in range(n):
        rows[i] = columns[i] = 0.0
        for j in range(n):
            if not is_finite(J[i * n + j]):
                return False
            rows[i] = max(rows[i], abs(J[i * n + j]))
        if rows[i] == 0.0:
            return False
        for j in range(n):
            J[i * n + j] /= rows[i]
    for i in range(n):
        for j in range(n):
            columns[j] = max(columns[j], abs(J[i * n + j]))
    for i in range(n):
        for j in range(n):
            J[i * n + j] /= columns[j]
    return True


@helper
def factorise(J, n, pivots):
    """L·U of a matrix with its rows exchanged; whether it is far from a singular one."""
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(J[i * n + k]) > abs(J[best * n + k]):
                best = i
        if not abs(J[best * n + k]) > _REGULAR:
            return False
        pivots[k] = best
        if best != k:
            for j in range(n):
                J[k * n + j], J[best * n + j] = J[best * n + j], J[k * n + j]
        for i in range(k + 1, n):
            factor = J[i * n + k] / J[k * n + k]
            J[i * n + k] = factor
            for j in range(k + 1, n):
                J[i * n + j] -= factor * J[k * n + j]
    return True


@helper
def solve(J, n, pivots, b):
    """The solution of J·x = b, in its place."""
    for k in range(n):
        best = pivots[k]
        b[k], b[best] = b[best], b[k]
    for i in range(n):
        for j in range(i):
            b[i] -= J[i * n + j] * b[j]
    for back in range(n):
        i = n - 1 - back
        for j in range(i + 1, n):
            b[i] -= J[i * n + j] * b[j]
        b[i] /= J[i * n + i]


@helper
def solve_transposed(J, n, pivots, b):
    """The solution of Jᵀ·x = b, in its place."""
    for i in range(n):
        for j in range(i):
            b[i] -= J[j * n + i] * b[j]
        b[i] /= J[i * n + i]
    for back in range(n):
        i = n - 1 - back
        for j in range(i + 1, n):
            b[i] -= J[j * n + i] * b[j]
    for back in range(n):
        k = n - 1 - back
        best = pivots[k]
        b[k], b[best] = b[best], b[k]


@helper
def jacobian(callback, own, n, J):
    """∂F/∂x, row by row; whether there are values."""
    for i in range(n):
        clear_seeds(callback, own)
        seed(callback, own, i, 1.0)
        if call_pull(callback, own) != FINISHED:
            return False
        memcpy(J + 8 * n * i, adjoint_at(callback, own, 0), 8 * n)
    return True


@helper
def pull_all(callback, own, n, words):
    """The adjoints of arguments of n equations, from those of the unknowns, which begin `words`."""
    g, step, rows = f64s(words), f64s(words + 8 * n), f64s(words + 16 * n)
    columns, pivots = f64s(words + 24 * n), i64s(words + 32 * n)
    at = words + 40 * n
    J = f64s(at)
    if not jacobian(callback, own, n, at):
        return NOT_FOUND
    for i in range(n):
        step[i] = load_f64(result_at(callback, own, i), 0)
    if not scale(J, n, rows, columns) or not factorise(J, n, pivots):
        return NOT_FOUND
    for i in range(n):
        step[i] /= rows[i]
        g[i] /= columns[i]
    solve(J, n, pivots, step)
    for i in range(n):
        step[i] /= columns[i]
    if not is_solution(step, f64s(argument_at(callback, own, 0)), n):
        return NOT_FOUND
    solve_transposed(J, n, pivots, g)
    clear_seeds(callback, own)
    for i in range(n):
        seed(callback, own, i, -g[i] / rows[i])
    return call_pull(callback, own)


@helper
def pulled(run, table):
    """The adjoints of a call: those of the values of which the equations are."""
    n, callback = load_i64(table, UNKNOWNS), load_i64(table, CALLBACK)
    bases, words = memory(run)
    moved(table, GRADIENT, bases, load_i64(run, RUN_ADJOINT_BASES), run)
    if not any_set(words, n):
        return FINISHED
    own = begin(run, table)
    if own == 0:
        return NOT_FOUND
    moved(table, SOLUTION, value_bases(own), load_i64(run, RUN_VALUE_BASES), run)
    if n == 1:
        status = pull_one(callback, own, table, words)
    else:
        status = pull_all(callback, own, n, words)
    if status == FINISHED:
        adjoints = load_i64(run_at(own, 0), RUN_ADJOINT_BASES)
        moved(table, ADJOINTS, load_i64(run, RUN_ADJOINT_BASES), adjoints, run)
    end_calls(callback, own)
    return status


EXPORTS = ("pulled", *METHODS)
TEXT = """
from tapegrad._implicit import hybrid_method, scalar_roots, solver_kernels


def pulled(run, table):
    return solver_kernels.pulled(run, table)
"""
for _name, _module in METHODS.items():
    TEXT += f"""

def {_name}(run, table):
    return solver_kernels.solved(run, table, {_module}.{_name})
"""

"""Powell's hybrid method in compiled code: roots of several equations, as MINPACK finds them.

M. J. D. Powell, A hybrid method for nonlinear equations (1970): steps of a dogleg between the
steepest descent and Newton's step in a scaled ball, a Jacobian of forward differences, kept as Q·R
and updated by Broyden's formula after each step. Decisions, differences and constants are those of
MINPACK's `hybrd`, which SciPy calls, so that the same start leads along the same iterates, but for
rounding, to the same root; where the user gives a Jacobian those of `hybrj`. Where it does not
converge SciPy's own is to tell why.

`words` begin with settings, then the start and the scales of the unknowns; what is found follows.
The rest of the memory is for the method, see `words_of`.
"""

from typing import Any, NamedTuple

from .._core.codegen.intrinsics import f64s, helper
from .._core.codegen.vector_math import sqrt
from .._program.replay.run_layout import FINISHED
from .scalar_roots import NOT_FOUND, is_finite
from .way_kernels import argument_at, argument_size, call_value, result_at

#: Settings: when steps are small, the calls at most, the step of differences relative to an
#: unknown, the first radius, whether scales are given, whether the callback gives the Jacobian, by
#: rows, behind the values, and how many calls SciPy counts beside; then comes the start.
TOLERANCE, MOST, DIFFERENCE, FACTOR, HAS_SCALES, HAS_JACOBIAN, BESIDE, HEAD = range(8)
#: The most unknowns: the memory of a run is enough for the matrices of so many.
UNKNOWNS = 150
_EPSILON = 2.220446049250313e-16


#: Results that are vectors; the others are numbers, and a matrix.
VECTORS = ("x", "fun", "r", "qtf")


def settings_of(n: int) -> int:
    """The number of settings, with starts and scales."""
    return HEAD + 2 * n


def places_of(n: int) -> dict[str, tuple[int, int]]:
    """Where the results are, by SciPy's names: the first word, and how many."""
    sizes = dict(x=n, status=1, nfev=1, njev=1, fun=n, fjac=n * n, r=n * (n + 1) // 2, qtf=n)
    found, at = {}, settings_of(n)
    for name, size in sizes.items():
        found[name] = at, size
        at += size
    return found


@helper
def norm(x, n):
    """The length of a vector."""
    total = 0.0
    for k in range(n):
        total += x[k] * x[k]
    if total > 1e-290 and total < 1e290:
        return sqrt(total)
    most = 0.0
    for k in range(n):
        most = max(most, abs(x[k]))
    if most == 0.0 or not is_finite(most):
        return most
    total = 0.0
    for k in range(n):
        total += (x[k] / most) * (x[k] / most)
    return most * sqrt(total)


@helper
def scaled_norm(d, x, n):
    """The length of a vector in scaled unknowns."""
    total = 0.0
    for k in range(n):
        total += (d[k] * x[k]) * (d[k] * x[k])
    return sqrt(total)


@helper
def values(callback, run, x, f, n):
    """Compute f at x; whether it is finite."""
    to = f64s(argument_at(callback, run, 0))
    for k in range(n):
        to[k] = x[k]
    if call_value(callback, run) != FINISHED:
        return False
    is_good = True
    for k in range(n):
        f[k] = f64s(result_at(callback, run, k))[0]
        is_good = is_good and is_finite(f[k])
    return is_good


@helper
def vector(A, n, k):
    """Row or column k of a matrix, which is an address."""
    return f64s(A + 8 * n * k)


@helper
def differences(callback, run, n, step, m):
    """The Jacobian by forward differences, its columns one after the other."""
    x, f, new = m.x, m.f, m.new
    for j in range(n):
        before, column = x[j], vector(m.J, n, j)
        h = step * abs(before)
        h = h if h != 0.0 else step
        x[j] = before + h
        is_good = values(callback, run, x, new, n)
        x[j] = before
        if not is_good:
            return False
        for i in range(n):
            column[i] = (new[i] - f[i]) / h
    return True


@helper
def given_jacobian(callback, run, n, m):
    """The Jacobian that the user gives, its columns one after the other; whether it is finite."""
    if not values(callback, run, m.x, m.new, n):
        return False
    is_good = True
    for j in range(n):
        column = vector(m.J, n, j)
        for i in range(n):
            column[i] = f64s(result_at(callback, run, n + n * i + j))[0]
            is_good = is_good and is_finite(column[i])
    return is_good


# --- factors --------------------------------------------------------------------------------------


@helper
def factors(J, n, R, Q, f, qtf, lengths):
    """R by rows, Q by columns and Qᵀf, by Householder's reflections; and the lengths of columns."""
    for j in range(n):
        lengths[j] = norm(vector(J, n, j), n)
        qtf[j] = f[j]
    for j in range(n):
        column, row = vector(J, n, j), vector(R, n, j)
        length = norm(f64s(J + 8 * (n * j + j)), n - j)
        if length != 0.0:
            length = -length if column[j] < 0.0 else length
            for i in range(j, n):
                column[i] /= length
            column[j] += 1.0
            for k in range(j + 1, n):
                mirror(column, vector(J, n, k), j, n)
            mirror(column, qtf, j, n)
        for k in range(j + 1, n):
            row[k] = vector(J, n, k)[j]
        row[j] = -length
    for k in range(n):
        column = vector(Q, n, k)
        for i in range(n):
            column[i] = 1.0 if i == k else 0.0
        for back in range(n):
            j = n - 1 - back
            if vector(J, n, j)[j] != 0.0:
                mirror(vector(J, n, j), column, j, n)


@helper
def mirror(column, x, j, n):
    """Reflect a vector by a reflection from place j on."""
    total = 0.0
    for i in range(j, n):
        total += column[i] * x[i]
    part = total / column[j]
    for i in range(j, n):
        x[i] -= part * column[i]


@helper
def rotation(a, b):
    """Cosine and sine that turn (a, b) into (length, 0), the larger with a positive factor."""
    is_second, square = abs(a) < abs(b), a * a + b * b
    if square > 1e-290 and square < 1e290:
        factor = 1.0 / sqrt(square)
        factor = -factor if (b if is_second else a) < 0.0 else factor
        return a * factor, b * factor
    if is_second:
        ratio = a / b
        s = 0.5 / sqrt(0.25 + 0.25 * ratio * ratio)
        return s * ratio, s
    ratio = b / a
    c = 0.5 / sqrt(0.25 + 0.25 * ratio * ratio)
    return c, c * ratio


@helper
def turn(x, y, first, n, c, s):
    """Rotate pairs of numbers of two vectors."""
    for i in range(first, n):
        x_i, y_i = x[i], y[i]
        x[i] = c * x_i + s * y_i
        y[i] = c * y_i - s * x_i


@helper
def turn_results(Q, qtf, n, j, c, s):
    """Turn columns j and n − 1 of Q, and these numbers of Qᵀf."""
    turn(vector(Q, n, j), vector(Q, n, n - 1), 0, n, c, s)
    x, y = qtf[j], qtf[n - 1]
    qtf[j] = c * x + s * y
    qtf[n - 1] = c * y - s * x


@helper
def update(R, Q, qtf, n, u, v, w):
    """Add v·uᵀ to R, and turn it, the columns of Q and Qᵀf until it is triangular again."""
    last, corner = n - 1, vector(R, n, n - 1)
    for i in range(n):
        w[i] = 0.0
    w[last] = corner[last]
    for back in range(last):  # turn v into its last place
        j = last - 1 - back
        if v[j] != 0.0:
            c, s = rotation(v[last], v[j])
            v[last] = s * v[j] + c * v[last]
            turn(vector(R, n, j), w, j, n, c, -s)
            turn_results(Q, qtf, n, j, c, -s)
    for i in range(n):
        w[i] += v[last] * u[i]
    for j in range(last):  # and the last row into the triangle
        if w[j] != 0.0:
            row = vector(R, n, j)
            c, s = rotation(row[j], w[j])
            turn(row, w, j, n, c, s)
            turn_results(Q, qtf, n, j, c, s)
    corner[last] = w[last]


# --- steps ----------------------------------------------------------------------------------------


@helper
def newton_step(R, qtf, n, p):
    """Newton's step; a pivot of 0 is replaced by a small one."""
    for back in range(n):
        j = n - 1 - back
        row, total = vector(R, n, j), 0.0
        for i in range(j + 1, n):
            total += row[i] * p[i]
        pivot = row[j]
        if pivot == 0.0:
            for i in range(j + 1):
                pivot = max(pivot, abs(vector(R, n, i)[j]))
            pivot = _EPSILON * pivot if pivot != 0.0 else _EPSILON
        p[j] = (qtf[j] - total) / pivot


@helper
def product(R, x, n, y):
    """y = R·x."""
    for j in range(n):
        row, total = vector(R, n, j), 0.0
        for i in range(j, n):
            total += row[i] * x[i]
        y[j] = total


@helper
def dogleg(n, radius, m):
    """The step of the dogleg in the ball, to be subtracted."""
    R, d, qtf, p, g, w = m.R, m.d, m.qtf, m.p, m.g, m.w
    newton_step(R, qtf, n, p)
    newton = scaled_norm(d, p, n)
    if newton <= radius:
        return
    for i in range(n):
        g[i] = 0.0
    for j in range(n):
        row = vector(R, n, j)
        for i in range(j, n):
            g[i] += row[i] * qtf[j]
        g[j] /= d[j]
    slope, steepest, part = norm(g, n), 0.0, radius / newton
    if slope != 0.0:
        for j in range(n):
            g[j] = g[j] / slope / d[j]
        product(R, g, n, w)
        bend = norm(w, n)
        steepest, part = slope / bend / bend, 0.0
        if steepest < radius:
            part = along(norm(qtf, n), slope, newton, steepest, radius)
    rest = (1.0 - part) * min(steepest, radius)
    for j in range(n):
        p[j] = rest * g[j] + part * p[j]


@helper
def along(length, slope, newton, steepest, radius):
    """How far along the second piece of the dogleg the ball ends."""
    near, short = radius / newton, steepest / radius
    t = (length / slope) * (length / newton) * short
    root = sqrt((t - near) * (t - near) + (1.0 - near * near) * (1.0 - short * short))
    return near * (1.0 - short * short) / (t - near * short * short + root)


# --- the search -----------------------------------------------------------------------------------


class Search(NamedTuple):
    """The memory of a search: matrices as addresses, vectors, and numbers by the names below.

    `x`, `f`, `qtf` and Q are where results are; `d` are the scales, `p` is the step, and `new`
    with `f_new` where it leads.
    """

    x: Any
    f: Any
    d: Any
    qtf: Any
    p: Any
    new: Any
    f_new: Any
    g: Any
    w: Any
    t: Any
    Q: Any
    R: Any
    J: Any


RESIDUAL, LENGTH, RADIUS, CALLS, STEP, ACTUAL, RATIO = range(7)
SUCCESSES, FAILURES, SLOW_STEPS, SLOW_JACOBIANS, ROUNDS, IS_FRESH, JACOBIANS = range(7, 14)


@helper
def memory(words, n):
    """The memory of a search: results, then numbers, vectors, matrices."""
    x = words + 8 * (HEAD + 2 * n)
    f = x + 8 * (n + 3)
    Q = f + 8 * n
    r = Q + 8 * n * n
    qtf = r + 4 * n * (n + 1)
    t = qtf + 8 * n
    p = t + 8 * 16
    R = p + 8 * 5 * n
    return Search(
        f64s(x),
        f64s(f),
        f64s(words + 8 * (HEAD + n)),
        f64s(qtf),
        f64s(p),
        f64s(p + 8 * n),
        f64s(p + 16 * n),
        f64s(p + 24 * n),
        f64s(p + 32 * n),
        f64s(t),
        Q,
        R,
        R + 8 * n * n,
    )


@helper
def renew(callback, run, n, s, m):
    """A new Jacobian with its factors; scales and the first radius follow from the first."""
    t = m.t
    t[JACOBIANS] += 1.0
    if s[HAS_JACOBIAN] != 0.0:
        is_good = given_jacobian(callback, run, n, m)
    else:
        is_good = differences(callback, run, n, s[DIFFERENCE], m)
        t[CALLS] += float(n)
    if not is_good:
        return False
    factors(m.J, n, m.R, m.Q, m.f, m.qtf, m.w)
    if t[ROUNDS] == 1.0:
        if s[HAS_SCALES] == 0.0:
            for j in range(n):
                m.d[j] = m.w[j] if m.w[j] != 0.0 else 1.0
        t[LENGTH] = scaled_norm(m.d, m.x, n)
        t[RADIUS] = s[FACTOR] * t[LENGTH]
        if t[RADIUS] == 0.0:
            t[RADIUS] = s[FACTOR]
    if s[HAS_SCALES] == 0.0:
        for j in range(n):
            m.d[j] = max(m.d[j], m.w[j])
    t[IS_FRESH] = 1.0
    return True


@helper
def attempt(callback, run, n, m):
    """Compute a step and where it leads; whether values there are finite."""
    t, p = m.t, m.p
    dogleg(n, t[RADIUS], m)
    for j in range(n):
        p[j] = -p[j]
        m.new[j] = m.x[j] + p[j]
    t[STEP] = scaled_norm(m.d, p, n)
    if t[ROUNDS] == 1.0:
        t[RADIUS] = min(t[RADIUS], t[STEP])
    is_good = values(callback, run, m.new, m.f_new, n)
    t[CALLS] += 1.0
    return is_good


@helper
def judge(n, m):
    """Compare what a step has gained with what was expected, and change the radius."""
    t, residual = m.t, norm(m.f_new, n)
    t[ACTUAL], expected, t[RATIO] = -1.0, 0.0, 0.0
    if residual < t[RESIDUAL]:
        t[ACTUAL] = 1.0 - (residual / t[RESIDUAL]) * (residual / t[RESIDUAL])
    product(m.R, m.p, n, m.w)
    for j in range(n):
        m.w[j] += m.qtf[j]
    linear = norm(m.w, n)
    if linear < t[RESIDUAL]:
        expected = 1.0 - (linear / t[RESIDUAL]) * (linear / t[RESIDUAL])
    if expected > 0.0:
        t[RATIO] = t[ACTUAL] / expected
    if t[RATIO] < 0.1:
        t[SUCCESSES] = 0.0
        t[FAILURES] += 1.0
        t[RADIUS] = 0.5 * t[RADIUS]
    else:
        t[FAILURES] = 0.0
        t[SUCCESSES] += 1.0
        if t[RATIO] >= 0.5 or t[SUCCESSES] > 1.0:
            t[RADIUS] = max(t[RADIUS], t[STEP] / 0.5)
        if abs(t[RATIO] - 1.0) <= 0.1:
            t[RADIUS] = t[STEP] / 0.5
    if t[RATIO] >= 1e-4:
        for j in range(n):
            m.x[j], m.f[j] = m.new[j], m.f_new[j]
        t[LENGTH], t[RESIDUAL] = scaled_norm(m.d, m.x, n), residual
        t[ROUNDS] += 1.0


@helper
def verdict(s, t):
    """1 where it has converged, −1 where it will not, else 0."""
    t[SLOW_STEPS] = 0.0 if t[ACTUAL] >= 0.001 else t[SLOW_STEPS] + 1.0
    if t[IS_FRESH] != 0.0:
        t[SLOW_JACOBIANS] += 1.0
    if t[ACTUAL] >= 0.1:
        t[SLOW_JACOBIANS] = 0.0
    if t[RADIUS] <= s[TOLERANCE] * t[LENGTH] or t[RESIDUAL] == 0.0:
        return 1
    is_tiny = 0.1 * max(0.1 * t[RADIUS], t[STEP]) <= _EPSILON * t[LENGTH]
    is_slow = t[SLOW_JACOBIANS] == 5.0 or t[SLOW_STEPS] == 10.0
    return -1 if is_tiny or is_slow or t[CALLS] >= s[MOST] else 0


@helper
def broyden(n, m):
    """Update the factors by what a step has shown; `w` is what the linear model says of it."""
    t, p = m.t, m.p
    factor = 1.0 / t[STEP]
    for j in range(n):
        column, total = vector(m.Q, n, j), 0.0
        for i in range(n):
            total += column[i] * m.f_new[i]
        m.new[j] = (total - m.w[j]) * factor
        p[j] = m.d[j] * (m.d[j] * p[j] * factor)
        if t[RATIO] >= 1e-4:
            m.qtf[j] = total
    update(m.R, m.Q, m.qtf, n, p, m.new, m.w)
    t[IS_FRESH] = 0.0


@helper
def search(callback, run, n, s, m):
    """Steps until one converges or none will; the first Jacobian is there."""
    while True:
        if not attempt(callback, run, n, m):
            return NOT_FOUND
        judge(n, m)
        found = verdict(s, m.t)
        if found != 0:
            return FINISHED if found == 1 else NOT_FOUND
        if m.t[FAILURES] == 2.0:
            if not renew(callback, run, n, s, m):
                return NOT_FOUND
        else:
            broyden(n, m)


@helper
def hybr(callback, run, words):
    """Powell's hybrid method, of as many equations as there are unknowns."""
    n, s = argument_size(callback, 0), f64s(words)
    m = memory(words, n)
    for k in range(16):
        m.t[k] = 0.0
    for j in range(n):
        m.x[j] = s[HEAD + j]
    if not values(callback, run, m.x, m.f, n):
        return NOT_FOUND
    m.t[RESIDUAL], m.t[CALLS], m.t[ROUNDS] = norm(m.f, n), 1.0, 1.0
    if not renew(callback, run, n, s, m):
        return NOT_FOUND
    status = search(callback, run, n, s, m)
    if status == FINISHED:
        told(n, m, s[BESIDE])
    return status


@helper
def told(n, m, beside):
    """Write what SciPy tells: the status, the number of calls, R in a row."""
    m.x[n], m.x[n + 1], m.x[n + 2] = 1.0, m.t[CALLS] + beside, m.t[JACOBIANS]
    r = f64s(m.Q + 8 * n * n)
    at = 0
    for j in range(n):
        row = vector(m.R, n, j)
        for i in range(j, n):
            r[at] = row[i]
            at += 1

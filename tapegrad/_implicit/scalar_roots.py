"""Roots of functions of one number in compiled code: the methods of SciPy, decision by decision.

Brent's method (Algorithms for Minimization Without Derivatives, 1973, chapter 4) and Bus and
Dekker's hyperbolic variant, Ridders' method, bisection; Newton's, Halley's and the secant method.
With equal values of the function iterates are those of SciPy, bit for bit. A method returns a
status: other than FINISHED it has found nothing, and SciPy's own tells why.

`method(callback, run, words)` reads settings from `words` and writes what it finds behind them. Of
the result of the callback the first number is the value, the second and third, where a method wants
them, its derivatives.
"""

from .._core.codegen.intrinsics import f64s, helper, load_f64, store_f64
from .._core.codegen.vector_math import sqrt
from .._program.replay.run_layout import FINISHED
from .way_kernels import argument_at, call_value, result_at

#: What a method returns that has found nothing.
NOT_FOUND = -1
#: Settings of methods in an interval, and of those with a start.
LOW, HIGH, X_TOLERANCE, R_TOLERANCE, MOST = range(5)
START, SECOND = range(2)
SETTINGS = 5
#: What is found, behind the settings.
ROOT, ITERATIONS, CALLS, CONVERGED = range(SETTINGS, SETTINGS + 4)


@helper
def value(callback, run, x):
    """The value at x, and whether there is one: SciPy raises an error of NaN."""
    store_f64(argument_at(callback, run, 0), 0, x)
    status = call_value(callback, run)
    y = load_f64(result_at(callback, run, 0), 0)
    return y, status == FINISHED and y == y


@helper
def found(s, x, iterations, calls):
    s[ROOT], s[ITERATIONS], s[CALLS], s[CONVERGED] = x, float(iterations), float(calls), 1.0
    return FINISHED


@helper
def is_negative(x):
    """The sign of a number, also of 0."""
    return x < 0.0 or (x == 0.0 and 1.0 / x < 0.0)


@helper
def ends(callback, run, s):
    """The values at both ends; what to do: 0 to search, 1 the low end is it, 2 the high, −1."""
    fa, is_value = value(callback, run, s[LOW])
    if not is_value:
        return fa, fa, NOT_FOUND
    fb, is_value = value(callback, run, s[HIGH])
    if not is_value:
        return fa, fb, NOT_FOUND
    if fa == 0.0:
        return fa, fb, 1
    if fb == 0.0:
        return fa, fb, 2
    return fa, fb, NOT_FOUND if is_negative(fa) == is_negative(fb) else 0


@helper
def at_end(s, what):
    """The result where an end of the interval is the root, or there is none."""
    if what == NOT_FOUND:
        return NOT_FOUND
    return found(s, s[LOW] if what == 1 else s[HIGH], 0, 2)


# --- Brent's method -------------------------------------------------------------------------------


@helper
def by_parabola(x, fx, xp, fp, xe, fe):
    """Brent's step: inverse quadratic interpolation."""
    slope_p, slope_e = (fp - fx) / (xp - x), (fe - fx) / (xe - x)
    return -fx * (fe * slope_e - fp * slope_p) / (slope_e * slope_p * (fe - fp))


@helper
def by_hyperbola(x, fx, xp, fp, xe, fe):
    """Bus and Dekker's step: a hyperbola through three points."""
    slope_p, slope_e = (fp - fx) / (xp - x), (fe - fx) / (xe - x)
    return -fx * (fe - fp) / (fe * slope_e - fp * slope_p)


@helper
def bracketed(callback, run, words, step_of):
    """Brent's search: x is best, xp the one before, xe has a value of the other sign."""
    s = f64s(words)
    fp, fx, what = ends(callback, run, s)
    if what != 0:
        return at_end(s, what)
    xp, x, xe, fe, last, step = s[LOW], s[HIGH], 0.0, 0.0, 0.0, 0.0
    most = int(s[MOST])
    for k in range(most):
        if fp != 0.0 and fx != 0.0 and is_negative(fp) != is_negative(fx):
            xe, fe = xp, fp
            last = step = x - xp
        if abs(fe) < abs(fx):
            xp, x, xe = x, xe, x
            fp, fx, fe = fx, fe, fx
        tolerance = (s[X_TOLERANCE] + s[R_TOLERANCE] * abs(x)) / 2.0
        half = (xe - x) / 2.0
        if fx == 0.0 or abs(half) < tolerance:
            return found(s, x, k + 1, k + 2)
        is_accepted = False
        if abs(last) > tolerance and abs(fx) < abs(fp):
            if xp == xe:  # by a secant
                tried = -fx * (x - xp) / (fx - fp)
            else:
                tried = step_of(x, fx, xp, fp, xe, fe)
            bound = min(abs(last), 3.0 * abs(half) - tolerance)
            if 2.0 * abs(tried) < bound:
                is_accepted = True
                last, step = step, tried
        if not is_accepted:
            last, step = half, half
        xp, fp = x, fx
        if abs(step) > tolerance:
            x += step
        else:
            x += tolerance if half > 0.0 else -tolerance
        fx, is_value = value(callback, run, x)
        if not is_value:
            return NOT_FOUND
    return NOT_FOUND


@helper
def brentq(callback, run, words):
    return bracketed(callback, run, words, by_parabola)


@helper
def brenth(callback, run, words):
    return bracketed(callback, run, words, by_hyperbola)


# --- bisection, Ridders' method -------------------------------------------------------------------


@helper
def bisect(callback, run, words):
    s = f64s(words)
    fa, fb, what = ends(callback, run, s)
    if what != 0:
        return at_end(s, what)
    a, width = s[LOW], s[HIGH] - s[LOW]
    most = int(s[MOST])
    for k in range(most):
        width *= 0.5
        x = a + width
        fx, is_value = value(callback, run, x)
        if not is_value:
            return NOT_FOUND
        if is_negative(fx) == is_negative(fa):
            a = x
        if fx == 0.0 or abs(width) < s[X_TOLERANCE] + s[R_TOLERANCE] * abs(x):
            return found(s, x, k + 1, k + 3)
    return NOT_FOUND


@helper
def ridder(callback, run, words):
    s = f64s(words)
    fa, fb, what = ends(callback, run, s)
    if what != 0:
        return at_end(s, what)
    a, b = s[LOW], s[HIGH]
    tolerance = s[X_TOLERANCE] + s[R_TOLERANCE] * min(abs(a), abs(b))
    most = int(s[MOST])
    for k in range(most):
        half = 0.5 * (b - a)
        middle = a + half
        fm, is_value = value(callback, run, middle)
        if not is_value:
            return NOT_FOUND
        step = (1.0 if fb > fa else -1.0) * half * fm / sqrt(fm * fm - fa * fb)
        x = middle - (1.0 if step > 0.0 else -1.0) * min(abs(step), abs(half) - 0.5 * tolerance)
        fx, is_value = value(callback, run, x)
        if not is_value:
            return NOT_FOUND
        if is_negative(fx) != is_negative(fm):
            a, fa, b, fb = x, fx, middle, fm
        elif is_negative(fx) != is_negative(fa):
            b, fb = x, fx
        else:
            a, fa = x, fx
        tolerance = s[X_TOLERANCE] + s[R_TOLERANCE] * x
        if fx == 0.0 or abs(b - a) < tolerance:
            return found(s, x, k + 1, 2 * k + 4)
    return NOT_FOUND


# --- from a start ---------------------------------------------------------------------------------


@helper
def is_close(x, y, s):
    return abs(x - y) <= s[X_TOLERANCE] + s[R_TOLERANCE] * abs(y)


@helper
def is_finite(x):
    return x - x == 0.0


@helper
def secant(callback, run, words):
    s = f64s(words)
    p, x = s[START], s[SECOND]
    if x != x:  # there is none
        x = p * (1.0 + 1e-4)
        x += 1e-4 if x >= 0.0 else -1e-4
    fp, is_value = value(callback, run, p)
    fx, is_next = value(callback, run, x)
    if not (is_value and is_next) or p == x:
        return NOT_FOUND
    if abs(fx) < abs(fp):
        p, x, fp, fx = x, p, fx, fp
    most = int(s[MOST])
    for k in range(most):
        if fx == fp:
            return NOT_FOUND
        if abs(fx) > abs(fp):
            new = (-fp / fx * x + p) / (1.0 - fp / fx)
        else:
            new = (-fx / fp * p + x) / (1.0 - fx / fp)
        if not is_finite(new):
            return NOT_FOUND
        if is_close(new, x, s):
            return found(s, new, k + 1, k + 2)
        p, fp, x = x, fx, new
        fx, is_value = value(callback, run, x)
        if not is_value:
            return NOT_FOUND
    return NOT_FOUND


@helper
def by_slope(callback, run, words, step_of, calls):
    """A search by steps of the value over its slope, of which each takes so many calls."""
    s = f64s(words)
    x = s[START]
    most = int(s[MOST])
    for k in range(most):
        f, is_value = value(callback, run, x)
        if not is_value:
            return NOT_FOUND
        if f == 0.0:
            return found(s, x, k, calls * k + 1)
        slope = load_f64(result_at(callback, run, 1), 0)
        if slope == 0.0:
            return NOT_FOUND
        new = x - step_of(callback, run, f / slope, slope)
        if not is_finite(new):
            return NOT_FOUND
        if is_close(new, x, s):
            return found(s, new, k + 1, calls * (k + 1))
        x = new
    return NOT_FOUND


@helper
def newtons_step(callback, run, step, slope):
    return step


@helper
def halleys_step(callback, run, step, slope):
    bend = step * load_f64(result_at(callback, run, 2), 0) / slope / 2.0
    return step / (1.0 - bend) if abs(bend) < 1.0 else step


@helper
def newton(callback, run, words):
    return by_slope(callback, run, words, newtons_step, 2)


@helper
def halley(callback, run, words):
    return by_slope(callback, run, words, halleys_step, 3)

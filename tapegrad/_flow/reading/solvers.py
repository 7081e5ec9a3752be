"""SciPy's solvers of equations in one unknown, written in Python: they are followed.

With equal values of the function iterates are those of SciPy, bit for bit. What SciPy does where it
finds nothing is left to it: these raise errors, by which a call leaves the graph. Arguments that
these do not have leave the call to SciPy, too.

The iterates have no derivative. Two steps of Newton's method from the root give those of the root:
after one step the first derivative is that of the implicit function, after two also the second.
"""


def value_at(f, x, args):
    """A number: what f returns; readers replace this function, and the next three."""
    return f(x, *args)


def variable(x):
    """A number by which there is a derivative of others."""
    return x * 1.0


def slope_of(value, point):
    """The derivative of a value that is computed from a `variable`."""
    raise NotImplementedError


def detached(x):
    """A number without its derivative."""
    return x


def with_derivative(f, args, root):
    """A root with its derivative; SciPy's own call says what is wrong where there is none."""
    root = detached(root)
    x = root
    for _ in range(2):
        point = variable(x)  # read by f alone
        value = value_at(f, point, args)
        step = value / slope_of(value, point)
        if not abs(step) <= 1e-3 * max(1e-3, abs(x)):
            raise ArithmeticError
        x = x - step
    return root + (x - detached(x))


# --- in an interval -------------------------------------------------------------------------------


def interpolated(points, values, is_hyperbolic):
    """Brent's step: by a secant, a hyperbola, or inverse quadratic interpolation."""
    xp, x, xe = points
    fp, fx, fe = values
    if xp == xe:
        return -fx * (x - xp) / (fx - fp)
    slope_p, slope_e = (fp - fx) / (xp - x), (fe - fx) / (xe - x)
    if is_hyperbolic:
        return -fx * (fe - fp) / (fe * slope_e - fp * slope_p)
    return -fx * (fe * slope_e - fp * slope_p) / (slope_e * slope_p * (fe - fp))


def steps_of(points, values, steps, half, tolerance, is_hyperbolic):
    """The step before the next one, and the next one."""
    last, step = steps
    if abs(last) > tolerance and abs(values[1]) < abs(values[0]):
        tried = interpolated(points, values, is_hyperbolic)
        if 2.0 * abs(tried) < min(abs(last), 3.0 * abs(half) - tolerance):
            return step, tried
    return half, half


def bracketed(f, args, ends, tolerances, is_hyperbolic):
    """Brent's search: x is best, xp the one before, xe has a value of the other sign.

    One line calls the function: each that does has steps of its own for all that it computes.
    """
    x_tolerance, r_tolerance, most = tolerances
    xp, x = detached(ends[0]) * 1.0, detached(ends[1]) * 1.0
    at = xp
    fp = xe = fe = last = step = 0.0
    for k in range(most + 1):
        fx = value_at(f, at, args)
        if fx != fx:
            raise ValueError
        if k == 0:
            fp, at = fx, x
            continue
        if k == 1:
            if fp == 0.0:
                return xp
            if fx != 0.0 and (fp < 0.0) == (fx < 0.0):
                raise ValueError
        if fp != 0.0 and fx != 0.0 and (fp < 0.0) != (fx < 0.0):
            xe, fe = xp, fp
            last = step = x - xp
        if abs(fe) < abs(fx):
            xp, x, xe = x, xe, x
            fp, fx, fe = fx, fe, fx
        tolerance = (x_tolerance + r_tolerance * abs(x)) / 2.0
        half = (xe - x) / 2.0
        if fx == 0.0 or abs(half) < tolerance:
            return x
        points, values = (xp, x, xe), (fp, fx, fe)
        last, step = steps_of(points, values, (last, step), half, tolerance, is_hyperbolic)
        xp, fp = x, fx
        if abs(step) > tolerance:
            x += step
        elif half > 0.0:
            x += tolerance
        else:
            x -= tolerance
        at = x
    raise RuntimeError


#: SciPy's default of the relative tolerance: 4 times the smallest difference from 1.
_RELATIVE = 8.881784197001252e-16


def brentq(f, a, b, args=(), xtol=2e-12, rtol=_RELATIVE, maxiter=100):
    root = bracketed(f, args, (a, b), (xtol, rtol, maxiter), False)
    return with_derivative(f, args, root)


def brenth(f, a, b, args=(), xtol=2e-12, rtol=_RELATIVE, maxiter=100):
    root = bracketed(f, args, (a, b), (xtol, rtol, maxiter), True)
    return with_derivative(f, args, root)


def halved(f, args, ends, tolerances):
    x_tolerance, r_tolerance, most = tolerances
    low, high = detached(ends[0]) * 1.0, detached(ends[1]) * 1.0
    width = high - low
    fa, at = 0.0, low
    for k in range(most + 2):
        fx = value_at(f, at, args)
        if fx != fx:
            raise ValueError
        if k == 0:
            fa, at = fx, high
            continue
        if k == 1:
            if fa == 0.0:
                return low
            if fx == 0.0:
                return high
            if (fa < 0.0) == (fx < 0.0):
                raise ValueError
        else:
            if fx == 0.0 or abs(width) < x_tolerance + r_tolerance * abs(at):
                return at
            if (fx < 0.0) == (fa < 0.0):
                low = at
        width *= 0.5
        at = low + width
    raise RuntimeError


def bisect(f, a, b, args=(), xtol=2e-12, rtol=_RELATIVE, maxiter=100):
    root = halved(f, args, (a, b), (xtol, rtol, maxiter))
    return with_derivative(f, args, root)


# --- from a start ---------------------------------------------------------------------------------


def by_slope(f, slope, start, args, tolerances):
    """Newton's method."""
    x_tolerance, r_tolerance, most = tolerances
    x = detached(start) * 1.0
    for _ in range(most):
        fx = value_at(f, x, args)
        if fx == 0.0:
            return x
        new = x - fx / value_at(slope, x, args)
        if not abs(new) < 1e300:
            raise RuntimeError
        if abs(new - x) <= x_tolerance + r_tolerance * abs(x):
            return new
        x = new
    raise RuntimeError


def by_secant(f, start, args, tolerances):
    x_tolerance, r_tolerance, most = tolerances
    p = detached(start) * 1.0
    x = p * (1.0 + 1e-4)
    if x >= 0.0:
        x += 1e-4
    else:
        x -= 1e-4
    at, fp = p, 0.0
    for k in range(most + 1):
        fx = value_at(f, at, args)
        if k == 0:
            fp, at = fx, x
            continue
        if k == 1 and abs(fx) < abs(fp):
            p, x, fp, fx = x, p, fx, fp
        if fx == fp:
            raise RuntimeError
        if abs(fx) > abs(fp):
            new = (-fp / fx * x + p) / (1.0 - fp / fx)
        else:
            new = (-fx / fp * p + x) / (1.0 - fx / fp)
        if not abs(new) < 1e300:
            raise RuntimeError
        if abs(new - x) <= x_tolerance + r_tolerance * abs(x):
            return new
        p, fp = x, fx
        at = x = new
    raise RuntimeError


def newton(func, x0, fprime=None, args=(), tol=1.48e-08, maxiter=50, *, rtol=0.0):
    if fprime is None:
        root = by_secant(func, x0, args, (tol, rtol, maxiter))
    else:
        root = by_slope(func, fprime, x0, args, (tol, rtol, maxiter))
    return with_derivative(func, args, root)


# --- by the name of a method ----------------------------------------------------------------------


class RootFound:
    """What `root_scalar` tells of a solution that it has found."""

    def __init__(self, root):
        self.root, self.converged = root, True


def root_scalar(
    f, args=(), method=None, bracket=None, fprime=None, *, x0=None, xtol=None, rtol=None
):
    if method is None or method == "brentq" or method == "brenth" or method == "bisect":
        if bracket is None:
            raise NotImplementedError
        x_tolerance = 2e-12 if xtol is None else xtol
        tolerances = x_tolerance, _RELATIVE if rtol is None else rtol, 100
        if method == "bisect":
            root = halved(f, args, bracket, tolerances)
        else:
            root = bracketed(f, args, bracket, tolerances, method == "brenth")
    elif method == "newton":
        x_tolerance = 1.48e-8 if xtol is None else xtol
        root = by_slope(f, fprime, x0, args, (x_tolerance, 0.0 if rtol is None else rtol, 50))
    else:
        raise NotImplementedError
    return RootFound(with_derivative(f, args, root))


#: By the name of SciPy's function in `optimize`.
FOLLOWED = {
    **{"bisect": bisect, "brenth": brenth, "brentq": brentq},
    **{"newton": newton, "root_scalar": root_scalar},
}

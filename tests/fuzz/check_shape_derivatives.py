"""Derivatives by parameters of incomplete gamma and beta functions, kv and stdtr, on long grids.

`python check_shape_derivatives.py --points 50000 --references 2000` asks at all points for finite
first and second derivatives, and compares some with mpmath. The exit status is 1 where a bound is
passed: a median of 1e-14 and a worst relative error of 5e-12, 1e-9 for second derivatives, where
the value is above 1e-290.
"""

import argparse
import sys

import mpmath
import numpy as np

import tapegrad as tg
from tapegrad.scipy import special

WORST, MEDIAN, SECOND = 5e-12, 1e-14, 1e-9


def logarithmic(rng, low, high, count):
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def gamma_points(rng, count):
    a = logarithmic(rng, 1e-3, 1e4, count)
    near = a + 3.0 * np.sqrt(a) * rng.standard_normal(count)
    return a, np.where(rng.random(count) < 0.5, np.abs(near), logarithmic(rng, 1e-3, 1e4, count))


def beta_points(rng, count):
    a, b = (logarithmic(rng, 1e-2, 1e3, count) for _ in range(2))
    return a, b, np.clip(rng.beta(np.maximum(a, 0.2), np.maximum(b, 0.2)), 1e-6, 1 - 1e-6)


def kv_points(rng, count):
    return logarithmic(rng, 1e-2, 100.0, count), logarithmic(rng, 1e-2, 300.0, count)


def t_points(rng, count):
    return logarithmic(rng, 0.1, 1e4, count), 3.0 * rng.standard_normal(count)


def regularized_beta(a, b, x):
    return mpmath.betainc(a, b, 0, x, regularized=True)


# The next ones leave out a constant, 1, where it would hide the digits of a small derivative.


def lower_gamma(a, x):
    if x < a:
        return mpmath.gammainc(a, 0, x, regularized=True)
    return -mpmath.gammainc(a, x, regularized=True)


def distribution_of_t(df, t):
    half = regularized_beta(df / 2, mpmath.mpf(1) / 2, df / (df + t**2)) / 2
    return half if t < 0 else -half


#: By names: our function, points, mpmath's function, the argument of the derivative.
CASES = {
    "gammainc by a": (
        special.gammainc,
        gamma_points,
        lower_gamma,
        0,
    ),
    "gammaincc by a": (
        special.gammaincc,
        gamma_points,
        lambda a, x: -lower_gamma(a, x),
        0,
    ),
    "betainc by a": (special.betainc, beta_points, regularized_beta, 0),
    "betainc by b": (special.betainc, beta_points, regularized_beta, 1),
    "kv by v": (special.kv, kv_points, mpmath.besselk, 0),
    "stdtr by df": (special.stdtr, t_points, distribution_of_t, 0),
}


def derivatives(f, points, k):
    """The values, first and second derivatives at all points."""

    def of_one(x):
        return f(*points[:k], x, *points[k + 1 :])

    def slope(x):
        return tg.jvp(of_one, (x,), (np.ones_like(x),))[1]

    value, first = tg.jvp(of_one, (points[k],), (np.ones_like(points[k]),))
    return value, first, tg.jvp(slope, (points[k],), (np.ones_like(points[k]),))[1]


def reference(exact, point, k, order):
    """mpmath's derivative, by differences of many digits."""
    given = [mpmath.mpf(float(one)) for one in point]
    with mpmath.workdps(60):
        h = given[k] * mpmath.mpf(10) ** -12
        values = [exact(*given[:k], given[k] + j * h, *given[k + 1 :]) for j in (-2, -1, 0, 1, 2)]
        if order == 1:
            return (values[0] - 8 * values[1] + 8 * values[3] - values[4]) / (12 * h)
        return (-values[0] + 16 * values[1] - 30 * values[2] + 16 * values[3] - values[4]) / (
            12 * h * h
        )


def check(name, count, references, rng):
    """Print a line on one function; whether all bounds hold."""
    f, points_of, exact, k = CASES[name]
    points = points_of(rng, count)
    value, first, second = derivatives(f, points, k)
    kept = (np.abs(value) > 1e-290) & (np.abs(value) < 1e290)
    lost = [int(np.sum(~np.isfinite(one) & kept)) for one in (first, second)]
    errors = [[], []]
    for i in rng.permutation(np.flatnonzero(kept))[:references]:
        for order, found in ((1, first), (2, second)):
            wanted = reference(exact, [p[i] for p in points], k, order)
            if abs(wanted) > 1e-290:
                errors[order - 1].append(float(abs((found[i] - wanted) / wanted)))
    median, worst, of_second = np.median(errors[0]), np.max(errors[0]), np.max(errors[1])
    holds = median <= MEDIAN and worst <= WORST and of_second <= SECOND and lost == [0, 0]
    print(
        f"{name:16}{count:8d} points, not finite {lost}, of {len(errors[0])}: median {median:.1e}, "
        f"99 % {np.quantile(errors[0], 0.99):.1e}, worst {worst:.1e}; second {of_second:.1e}, "
        f"99 % {np.quantile(errors[1], 0.99):.1e}{'' if holds else '  <<<'}",
        flush=True,
    )
    return holds


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--points", type=int, default=50_000)
    options.add_argument("--references", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    rng = np.random.default_rng(given.seed)
    with np.errstate(all="ignore"):
        held = [check(name, given.points, given.references, rng) for name in CASES]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()

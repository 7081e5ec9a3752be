"""Fit extreme winds by maximum likelihood: a Python loop with branches, compiled by tg.compile.

A thousand yearly maxima follow a generalised extreme value distribution whose location drifts with
the years. Two branches stand in the likelihood as they would on paper. An anemometer stops at 45
m/s, so a maximum that reaches it counts by the probability of exceeding it: an `if` on the data.
The formula of the distribution divides by its shape, so near 0 a series takes its place: an `if` on
a parameter. The fit starts at shape 0 and needs both sides.

L-BFGS-B of SciPy is given the function compiled, recorded anew at each call, and with finite
differences. Then an optimiser written in Numba calls the compiled function without Python.

Run it with `python examples/compiled_fit.py`.
"""

import math
import time

import numba
import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

NAMES = ("location", "drift per decade", "log of the scale", "shape")
TRUTH = np.array([28.0, 0.8, math.log(4.0), 0.12])
START = np.array([30.0, 0.0, math.log(5.0), 0.0])
STOP = 45.0
SMALL = 1e-3


def measured(sites=25, years=40):
    """Return made-up decades since the first year, and the yearly maxima, cut off at STOP."""
    decades = np.tile(np.arange(years) / 10, sites)
    location, drift, log_scale, shape = TRUTH
    chance = np.random.default_rng(1987).uniform(size=decades.size)
    excess = ((-np.log(chance)) ** -shape - 1) / shape
    return decades, np.minimum(location + drift * decades + np.exp(log_scale) * excess, STOP)


def negative_log_likelihood(theta, decades, winds):
    """Return the mean negative log-likelihood of the parameters `theta`, see NAMES."""
    location, drift, log_scale, shape = theta
    scale = np.exp(log_scale)
    total = 0.0
    for decade, wind in zip(decades, winds, strict=True):
        z = (wind - location - drift * decade) / scale
        if abs(shape) < SMALL:
            log_t = z * (shape * z / 2 - 1)  # of log(1 + shape z) / -shape
        else:
            log_t = np.log(1 + shape * z) / -shape
        t = np.exp(log_t)  # the expected number of such winds in a year
        if wind < STOP:
            total = total + log_scale + t - (1 + shape) * log_t
        else:
            total = total - np.log(1 - np.exp(-t))
    return total / len(winds)


def fit(function, jac, data, progress=None):
    """Minimise with L-BFGS-B from START; return SciPy's result and the seconds that it took."""
    started = time.perf_counter()
    result = minimize(function, START, data, "L-BFGS-B", jac, callback=progress)
    return result, time.perf_counter() - started


def show(intermediate_result):
    """Print one line of the optimiser's progress."""
    x = " ".join(f"{one:8.4f}" for one in intermediate_result.x)
    print(f"{intermediate_result.fun:12.8f}   {x}", flush=True)


@numba.njit
def descend(value_and_grad, x, decades, winds):
    """Minimise from x, which becomes the end; return the evaluations.

    Each step goes down the gradient, as far as the curvature along the last step says (Barzilai and
    Borwein), and less far where that does not go down. `value_and_grad` is a compiled tapegrad
    function: nothing in this loop is Python.
    """
    gradient, ahead, there = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    value = value_and_grad(x, decades, winds, gradient)
    evaluations, rate, steepest = 1, 0.1, 1.0
    while steepest > 1e-7 and evaluations < 2000:
        for i in range(x.size):
            there[i] = x[i] - rate * gradient[i]
        next_value = value_and_grad(there, decades, winds, ahead)
        evaluations += 1
        if not next_value <= value + 1e-12:  # up to rounding; NaN neither
            rate *= 0.25
            continue
        squares = curvature = steepest = 0.0
        for i in range(x.size):
            squares += gradient[i] * gradient[i]
            curvature += gradient[i] * (gradient[i] - ahead[i])
            steepest = max(steepest, abs(ahead[i]))
            x[i], gradient[i] = there[i], ahead[i]
        value = next_value
        rate *= squares / abs(curvature)
    return evaluations


def by_numba(compiled, start, data):
    """Minimise by `descend`; return the end, the evaluations and the seconds without compiling."""
    _, value_and_grad = compiled.numba(start, *data)
    descend(value_and_grad, start.copy(), *data)  # Numba compiles it
    x, started = start.copy(), time.perf_counter()
    evaluations = descend(value_and_grad, x, *data)
    return x, evaluations, time.perf_counter() - started


def main():
    """Fit in every way, print the estimates and the times."""
    data = measured()
    print(f"{len(data[1])} maxima, {np.sum(data[1] >= STOP)} of them cut off at {STOP} m/s\n")
    compiled = tg.compile(negative_log_likelihood)
    print("mean neg. log-lik.   " + ", ".join(NAMES))
    best, first = fit(compiled.value_and_grad, True, data, show)
    again, later = min(
        (fit(compiled.value_and_grad, True, data) for _ in range(3)), key=lambda one: one[1]
    )
    eager, recorded = fit(tg.value_and_grad(negative_log_likelihood), True, data)
    other, differences = fit(negative_log_likelihood, "2-point", data)
    start = np.array([*START[:3], 0.1])  # on the side of the branch where the optimum is
    x, evaluations, in_numba = by_numba(compiled, start, data)

    print(f"\n{'parameter':18s} {'fitted':>9s} {'by Numba':>9s} {'truth':>9s}")
    for name, *numbers in zip(NAMES, best.x, x, TRUTH, strict=True):
        print(f"{name:18s} " + " ".join(f"{number:9.4f}" for number in numbers))
    print(f"\n{'gradient by':36s} {'evaluations':>11s} {'ms':>9s}")
    rows = (
        ("tg.compile, recordings included", best.nfev, first),
        ("tg.compile, a later fit", again.nfev, later),
        ("tapegrad, recorded at each call", eager.nfev, recorded),
        ("finite differences", other.nfev, differences),
        ("tg.compile, descent in Numba", evaluations, in_numba),
    )
    for name, count, took in rows:
        print(f"{name:36s} {count:11d} {1e3 * took:9.2f}")
    assert best.success and np.allclose(best.x, x, rtol=0, atol=1e-4)
    assert np.allclose(best.x, eager.x, rtol=0, atol=1e-6)


if __name__ == "__main__":
    main()

"""Fit the Lotka-Volterra equations to the Hudson's Bay Company pelts of 1900-1920.

    hare' =  growth hare - predation hare lynx        lynx' = -death lynx + feeding hare lynx

Maximum likelihood with log-normal errors. The differential equations are solved by 50 Runge-Kutta
steps a year in an ordinary Python loop over scalars. tapegrad records that loop once and replays it
with its gradient, without Python, for SciPy's L-BFGS-B. All eight parameters (four rates, two
initial populations, two error scales) are searched on the log scale.

Run it with `python examples/lynx_hare.py`; the picture is saved as lynx_hare.png.
"""

import itertools
import sys
import time

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

FIRST_YEAR = 1900
HARE = (30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1, 40.3, 57.0, 76.6, 52.3)
HARE += (19.5, 11.2, 7.6, 14.6, 16.2, 24.7)
LYNX = (4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4, 8.0, 12.3, 19.5, 45.7)
LYNX += (51.1, 29.7, 15.8, 9.7, 10.1, 8.6)

NAMES = ("hare growth", "predation", "lynx death", "lynx feeding")
NAMES += ("hare in 1900", "lynx in 1900", "hare scale", "lynx scale")
START = np.array([0.6, 0.03, 0.6, 0.03, 30.0, 4.0, 0.5, 0.5])
STEPS_A_YEAR = 50
PICTURE = "lynx_hare.png"


def slopes(hare, lynx, growth, predation, death, feeding):
    """Return the right-hand sides of the Lotka-Volterra equations."""
    return hare * (growth - predation * lynx), lynx * (feeding * hare - death)


def step(hare, lynx, rates, h):
    """Return both populations one classical Runge-Kutta step of length `h` later."""
    a0, b0 = slopes(hare, lynx, *rates)
    a1, b1 = slopes(hare + h / 2 * a0, lynx + h / 2 * b0, *rates)
    a2, b2 = slopes(hare + h / 2 * a1, lynx + h / 2 * b1, *rates)
    a3, b3 = slopes(hare + h * a2, lynx + h * b2, *rates)
    hare = hare + h / 6 * (a0 + 2 * a1 + 2 * a2 + a3)
    lynx = lynx + h / 6 * (b0 + 2 * b1 + 2 * b2 + b3)
    return hare, lynx


def trajectory(hare, lynx, rates, every=STEPS_A_YEAR):
    """Return the pairs (hare, lynx) after every `every` steps, the initial pair first."""
    states = [(hare, lynx)]
    for index in range(1, (len(HARE) - 1) * STEPS_A_YEAR + 1):
        hare, lynx = step(hare, lynx, rates, 1 / STEPS_A_YEAR)
        if index % every == 0:
            states.append((hare, lynx))
    return states


def negative_log_likelihood(theta, exp=np.exp, log=np.log):
    """Return the negative log-likelihood of the logarithms `theta` of the eight parameters.

    Constants are left out: over both series it is n log(scale) + sum of squares of the differences
    of logarithms / (2 scale^2). `theta` may be an array, a list of numbers or a tensor.
    """
    *rates, hare0, lynx0, hare_scale, lynx_scale = [exp(t) for t in theta]
    hare_squares = lynx_squares = 0.0
    states = trajectory(hare0, lynx0, rates)
    for hare_seen, lynx_seen, (hare, lynx) in zip(HARE, LYNX, states, strict=True):
        hare_squares = hare_squares + (log(hare) - float(np.log(hare_seen))) ** 2
        lynx_squares = lynx_squares + (log(lynx) - float(np.log(lynx_seen))) ** 2
    value = len(HARE) * (log(hare_scale) + log(lynx_scale))
    value = value + hare_squares / (2 * hare_scale**2)
    return value + lynx_squares / (2 * lynx_scale**2)


def fit(function, theta, jac, progress=None):
    """Minimise with L-BFGS-B; return SciPy's result and the seconds that it took."""
    started = time.perf_counter()
    result = minimize(function, theta, jac=jac, method="L-BFGS-B", callback=progress)
    return result, time.perf_counter() - started


def progress_printer():
    """Return a callback that prints one line per iteration of the optimiser."""
    numbers = itertools.count(1)
    print("iteration   neg. log-lik.   rates")

    def show(intermediate_result):
        value = intermediate_result.fun
        rates = " ".join(f"{rate:.4f}" for rate in np.exp(intermediate_result.x[:4]))
        print(f"{next(numbers):9d} {value:15.6f}   {rates}", flush=True)

    return show


def standard_errors(gradient, theta, h=1e-4):
    """Return the standard errors of `theta`: the Hessian by central differences of the gradient."""
    columns = []
    for shift in np.eye(len(theta)) * h:
        columns.append((gradient(theta + shift) - gradient(theta - shift)) / (2 * h))
    hessian = np.array(columns)
    return np.sqrt(np.diag(np.linalg.inv((hessian + hessian.T) / 2)))


def save_picture(theta, path=PICTURE):
    """Draw the pelts counted and the fitted curves."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    *rates, hare0, lynx0, _, _ = np.exp(theta)
    curves = np.array(trajectory(hare0, lynx0, rates, every=1))
    years = FIRST_YEAR + np.arange(len(curves)) / STEPS_A_YEAR
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    series = (("hare", HARE, "tab:blue", "o"), ("lynx", LYNX, "tab:red", "s"))
    for curve, (name, seen, colour, mark) in zip(curves.T, series, strict=True):
        axes.plot(years, curve, color=colour, label=f"{name}, fitted")
        axes.plot(years[::STEPS_A_YEAR], seen, mark, color=colour, label=f"{name} pelts")
    axes.set(xlabel="year", ylabel="thousands", title="Hudson's Bay Company pelts and the fit")
    axes.set_xticks(range(FIRST_YEAR, FIRST_YEAR + len(HARE), 2))
    axes.set_ylim(0, 90)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(theta, errors):
    """Print the parameters with standard errors, carried from the log scale to first order."""
    print(f"\n{'parameter':14s} {'estimate':>10s} {'std. error':>11s}")
    for name, value, error in zip(NAMES, np.exp(theta), errors, strict=True):
        print(f"{name:14s} {value:#10.4g} {value * error:#11.2g}")


def milliseconds(gradient, theta, times=20):
    """Return the least time that a gradient takes."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        gradient(theta)
        taken.append(1e3 * (time.perf_counter() - started))
    return min(taken)


def compare(compiled, eager, start):
    """Print what the fit costs with every kind of gradient, and what one gradient costs."""
    print(f"\n{'gradient by':32s} {'neg. log-lik.':>13s} {'evaluations':>12s} {'seconds':>8s}")
    ways = (
        (
            "tapegrad, compiled in the first",
            tg.compile(negative_log_likelihood).value_and_grad,
            True,
        ),
        ("tapegrad, compiled before", compiled.value_and_grad, True),
        ("tapegrad, recorded at each", eager, True),
        ("finite differences", negative_log_likelihood, "2-point"),
    )
    for name, function, jac in ways:
        result, seconds = fit(function, start, jac)
        print(f"{name:32s} {result.fun:13.6f} {result.nfev:12d} {seconds:8.3f}")
    ours, theirs = milliseconds(compiled.value_and_grad, start), milliseconds(eager, start)
    print(f"one gradient: compiled {ours:.3f} ms, recorded {theirs:.2f} ms", end=", ")
    print(f"compiled / recorded {ours / theirs:.3f}")


def main():
    """Fit, report, compare with other gradients and draw; return the exit code."""
    compiled = tg.compile(negative_log_likelihood)
    eager = tg.value_and_grad(negative_log_likelihood)
    start = np.log(START)
    best, _ = fit(compiled.value_and_grad, start, True, progress_printer())
    if not best.success:
        print(f"L-BFGS-B stopped early: {best.message}", file=sys.stderr)
        return 1
    report(best.x, standard_errors(compiled.grad, best.x))
    compare(compiled, eager, start)
    save_picture(best.x)
    print(f"\nsaved {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

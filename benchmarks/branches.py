"""Functions with branches: eager, compiled, and in JAX where that is installed.

    python -m benchmarks.branches            everything
    python -m benchmarks.branches --quick    less exactly

One thread, float64, other data at every call, the best of several turns. JAX takes its natural
form: `where` in place of `if`, over whole arrays. The table of fits measures the whole fit by
L-BFGS-B from three starts, recordings and compilation included.
"""

import argparse
import importlib.util
import itertools
import os
import sys
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402  (the number of threads is read when NumPy is imported)

import tapegrad as tg  # noqa: E402
import tapegrad.math as math  # noqa: E402
from benchmarks import figures, peers  # noqa: E402

SIZES = [6, 20, 100, 1000]
STARTS = ([0.0, 0.0], [2.0, -1.0], [-1.0, 3.0])
#: Calls before the clock runs, and those of which a time is the mean.
WARMING, INPUTS = 8, 4
EAGER, COMPILED, NATIVE = "eager", "compiled", "native"


def robust(parameters, x, y):
    """Return a loss of squares below 1 and absolute values above."""
    a, b = parameters
    loss = 0.0
    for i in range(len(x)):
        error = abs(y[i] - a * x[i] - b)
        loss += error**2 if error < 1 else 2 * error - 1
    return loss


def regimes(parameters, x, y):
    """Return a likelihood with other scales below and above the mean."""
    mean, scale = parameters
    loglik = 0.0
    for value in x:
        r = value - mean
        if r < 0:
            loglik -= (r / (1 + scale * scale)) ** 2 + math.log(1 + scale * scale)
        else:
            loglik -= 0.5 * r * r
    return loglik


def dtw(parameters, x, y):
    """Return the cost of dynamic time warping, with Python's min."""
    a, b = parameters
    cost = [[1e30] * (len(y) + 1) for _ in range(len(x) + 1)]
    cost[0][0] = 0.0
    for i in range(1, len(x) + 1):
        for j in range(1, len(y) + 1):
            d = (x[i - 1] - a * y[j - 1] - b) ** 2
            cost[i][j] = d + min(cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1])
    return cost[-1][-1]


def newton(parameters, x, y):
    """Return a root found to a tolerance, another number of rounds at each call."""
    a, b = parameters
    root = 1.0 + a * a
    while abs(root**3 - a * a - math.exp(b)) > 1e-9:
        root = root - (root**3 - a * a - math.exp(b)) / (3 * root * root)
    return root * b


#: Workload → function, length of its data.
WORKLOADS = {
    **{f"robust_{n}": (robust, n) for n in SIZES},
    "regimes": (regimes, 2000),
    "dtw": (dtw, 100),
    "newton": (newton, 1),
}
SMALL = {"robust_1000": 30, "regimes": 30, "dtw": 6}


def inputs(size, seed=0):
    """Generate arguments of calls without end, other numbers and data in each."""
    rng = np.random.default_rng(seed)
    while True:
        yield rng.normal(0.6, 0.5, 2), *rng.normal(0.0, 1.5, (2, size))


def jax_forms():
    """Return workload → function in JAX's form."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def robust(p, x, y):
        error = jnp.abs(y - p[0] * x - p[1])
        return jnp.where(error < 1, error**2, 2 * error - 1).sum()

    def regimes(p, x, y):
        r, variance = x - p[0], 1 + p[1] * p[1]
        low = (r / variance) ** 2 + jnp.log(variance)
        return -jnp.where(r < 0, low, 0.5 * r * r).sum()

    def dtw(p, x, y):
        def row(above, xi):
            def cell(left, operands):
                up, corner, d = operands
                new = d + jnp.minimum(jnp.minimum(up, left), corner)
                return new, new

            d = (xi - p[0] * y - p[1]) ** 2
            _, cells = jax.lax.scan(cell, 1e30, (above[1:], above[:-1], d))
            return jnp.concatenate([jnp.array([1e30]), cells]), None

        start = jnp.full(len(y) + 1, 1e30).at[0].set(0.0)
        return jax.lax.scan(row, start, x)[0][-1]

    forms = {robust: SIZES, regimes: [None], dtw: [None]}
    return {
        f"{f.__name__}_{n}" if n else f.__name__: jax.jit(jax.value_and_grad(f))
        for f, sizes in forms.items()
        for n in sizes
    }


def prepared(name, system, small=False):
    """Return a function of value and gradient, and its inputs; none of them was seen before."""
    f, size = WORKLOADS[name]
    size = SMALL.get(name, size) if small else size
    if system == EAGER:
        g = tg.value_and_grad(f)
    elif system == "JAX":
        g = jax_forms()[name]
    else:
        g = tg.compile(f, native=system == NATIVE).value_and_grad
    for args in itertools.islice(inputs(size, seed=1), WARMING):
        g(*args)

    def evaluate(*args):
        value, gradient = g(*args)
        return float(value), [np.asarray(gradient)]

    return evaluate, inputs(size)


def call_of(name, system, small=False):
    """Return a call without arguments: value and gradient at the next inputs."""
    evaluate, turns = prepared(name, system, small)
    return lambda: evaluate(*next(turns))


def fit(size, system):
    """Fit the robust loss from three starts; return the sum of the values found."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(size)
    x = rng.normal(size=size)
    y = 1.5 * x - 0.5 + rng.standard_t(2, size)
    g = tg.value_and_grad(robust) if system == EAGER else tg.compile(robust).value_and_grad
    return sum(
        minimize(g, np.array(start), args=(x, y), jac=True, method="L-BFGS-B").fun
        for start in STARTS
    )


class Gradients:
    """One call computes a value and its gradient, at other data each time."""

    params = [list(WORKLOADS), [EAGER, COMPILED, NATIVE]]
    param_names = ["workload", "system"]
    timeout = 300

    def setup(self, name, system):
        """Record, and compile."""
        warnings.simplefilter("ignore", RuntimeWarning)
        self.call = call_of(name, system)

    def time_value_and_gradient(self, name, system):
        """Compute the value and the gradient."""
        self.call()


class Fits:
    """A whole fit from three starts, recordings and compilation included."""

    params = [SIZES, [EAGER, COMPILED]]
    param_names = ["size", "system"]
    timeout = 300

    def time_fit(self, size, system):
        """Fit the robust loss."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            fit(size, system)


def milliseconds(name, system, budget, small):
    """Return the time of a call, the least mean; None where the system has no such form."""
    if system == "JAX" and name not in jax_forms():
        return None
    evaluate, turns = prepared(name, system, small)
    started, times = time.perf_counter(), []
    while not times or time.perf_counter() - started < budget:
        given = list(itertools.islice(turns, INPUTS))
        seconds = figures.best(lambda given=given: [evaluate(*args) for args in given], 1)
        times.append(seconds / INPUTS)
    return 1e3 * min(times)


def main(given=None):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="workload", help=", ".join([*WORKLOADS, "fits"]))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--small", action="store_true", help="small sizes, as a check")
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*WORKLOADS, "fits"}:
        parser.error(f"no workload {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore", RuntimeWarning)
    systems = [EAGER, COMPILED, NATIVE] + ["JAX"] * bool(importlib.util.find_spec("jax"))
    peers.print_row("value and gradient, ms", *systems)
    peers.print_row("---", *["---:"] * len(systems))
    for name in [name for name in WORKLOADS if name in (options.what or WORKLOADS)]:
        times = [
            milliseconds(name, s, 0.2 if options.quick else 2.0, options.small) for s in systems
        ]
        peers.print_row(f"`{name}`", *map(peers.shown, times))
    if "fits" in (options.what or ["fits"]):
        print()
        peers.print_row("whole fits of n data, ms", EAGER, COMPILED, f"{COMPILED} / {EAGER}")
        for size in SIZES[:2] if options.small else SIZES:
            times = [
                1e3 * figures.best(lambda s=s, n=size: fit(n, s), 2) for s in (EAGER, COMPILED)
            ]
            peers.print_row(str(size), *map(peers.shown, times), peers.ratio(times[1], times[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whole fits of functions that count, keep a history or print: eager, compiled, and without that.

    python -m benchmarks.fits_with_effects             every size
    python -m benchmarks.fits_with_effects 6 1000      some

The README's robust fit by L-BFGS-B: processor time of the whole `minimize`, of a function that is
compiled anew for it, with machine code in the cache; by turns, the least of several.
"""

import argparse
import os
import sys
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg
from benchmarks import branching_tables, peers

SIZES = (6, 20, 100, 1000)
_TURNS = 5


def without():
    """Return the README's function."""

    def misfit(p, x, y):
        total = 0.0
        for i in range(len(x)):
            r = abs(y[i] - p[0] * np.exp(-p[1] * x[i]))
            total = total + (r**2 if r < 1 else 2 * r - 1)
        return total

    return misfit


def with_counter():
    """Return the same with a counter."""
    calls = [0]

    def misfit(p, x, y):
        calls[0] += 1
        total = 0.0
        for i in range(len(x)):
            r = abs(y[i] - p[0] * np.exp(-p[1] * x[i]))
            total = total + (r**2 if r < 1 else 2 * r - 1)
        return total

    return misfit


def with_history():
    """Return the same with a dict of a counter and a history."""
    state = {"calls": 0, "history": []}

    def misfit(p, x, y):
        total = 0.0
        for i in range(len(x)):
            r = abs(y[i] - p[0] * np.exp(-p[1] * x[i]))
            total = total + (r**2 if r < 1 else 2 * r - 1)
        state["calls"] += 1
        state["history"].append(total.item())
        return total

    return misfit


MISFITS = {"without": without, "counter": with_counter, "history": with_history}
SYSTEMS = ("eager", "compiled")


def data(n):
    """Return the README's data, or as many of their kind."""
    if n == 6:
        return np.arange(6.0), np.array([2.0, 1.2, 5.0, 0.5, 0.3, 0.2])
    rng = np.random.default_rng(n)
    x = np.linspace(0.0, 5.0, n)
    y = 2.0 * np.exp(-0.5 * x) + 0.1 * rng.normal(size=n)
    y[:: max(n // 6, 2)] += 4.0
    return x, y


def fit(what, system, n):
    """Return what SciPy found, and the compiled function if there is one."""
    function = MISFITS[what]()
    compiled = tg.compile(function) if system == "compiled" else None
    value_and_grad = tg.value_and_grad(function) if compiled is None else compiled.value_and_grad
    found = minimize(value_and_grad, [1.0, 1.0], data(n), "L-BFGS-B", jac=True)
    if compiled is not None:
        compiled.wait()
    return found, compiled


class Fits:
    """A whole fit, recordings and compilation included."""

    params = [list(MISFITS), list(SYSTEMS), list(SIZES)]
    param_names = ["effect", "system", "data"]
    timeout = 300

    def setup(self, what, system, n):
        """Let machine code get into the cache."""
        warnings.simplefilter("ignore", RuntimeWarning)
        fit(what, system, n)

    def time_fit(self, what, system, n):
        """Fit."""
        fit(what, system, n)


def measured(what, n):
    """Return by system the seconds of a fit, evaluations, and recordings."""
    seconds = {}
    for _ in range(_TURNS):
        for system in SYSTEMS:
            started = time.process_time()
            found, compiled = fit(what, system, n)
            spent = time.process_time() - started
            seconds[system] = min(spent, seconds.get(system, spent))
    recordings = branching_tables.recordings(compiled)
    return *(seconds[system] for system in SYSTEMS), found.nfev, recordings


def main(given=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="data")
    options = parser.parse_args(given)
    warnings.simplefilter("ignore", RuntimeWarning)
    peers.print_row("whole fit, s", "data", *SYSTEMS, "evaluations", "recordings")
    peers.print_row("---", *["---:"] * 5)
    for what in MISFITS:
        for n in options.sizes:
            *times, evaluations, recordings = measured(what, n)
            shown = [peers.shown(one) for one in times]
            peers.print_row(what, str(n), *shown, str(evaluations), str(recordings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Functions with branches: eager, compiled, and in JAX where that is installed.

    python -m benchmarks.branches                 every table
    python -m benchmarks.branches dtw fits        some workloads or tables
    python -m benchmarks.branches --quick         less exactly

One thread, float64, other data at every call, the least of several turns. The table of fits
measures whole fits by L-BFGS-B from three starts, recordings and compilation included; that of
lengths calls one function with data of sixty lengths; that of composition measures a compiled
function inside of others; that of compilation the seconds that native code takes.
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

import numpy as np

import tapegrad as tg
from benchmarks import branching_tables, figures, peers
from benchmarks.branching_workloads import SIZES, WORKLOADS

EAGER, COMPILED, NATIVE, JAX, HAND = "eager", "interpreted", "native", "JAX", "by hand"
#: Calls before the clock runs, and those of which a time is the mean.
WARMING, INPUTS = 8, 4
#: What native says of compiled functions.
_NATIVE = {COMPILED: False, NATIVE: True}


def inputs(name, small=False, seed=0):
    """Generate arguments of calls without end, other numbers and data in each."""
    rng, workload = np.random.default_rng(seed), WORKLOADS[name]
    while True:
        yield (workload.small if small else workload.make)(rng)


def gradient_by(name, system):
    """Return a function of value and gradient, and the compiled function if there is one."""
    function, _, _, argnums = WORKLOADS[name]
    if system == EAGER:
        return tg.value_and_grad(function, argnums), None
    if system == JAX:
        from benchmarks import branching_in_jax

        return branching_in_jax.forms().get(name), None
    if system == HAND:
        from benchmarks import dtw_by_hand

        return dtw_by_hand.value_and_gradient if name.startswith("dtw") else None, None
    compiled = tg.compile(function, argnums=argnums, native=_NATIVE[system])
    return compiled.value_and_grad, compiled


def prepared(name, system, small=False):
    """Return a function of value and gradient that was called with other inputs before."""
    g, compiled = gradient_by(name, system)
    if g is None:
        return None, None
    for args in itertools.islice(inputs(name, small, seed=1), WARMING):
        g(*args)
    if compiled is not None:
        compiled.wait()

    def evaluate(*args):
        value, gradient = g(*args)
        parts = gradient if isinstance(gradient, tuple) else (gradient,)
        return float(value), [np.asarray(part) for part in parts]

    return evaluate, compiled


def call_of(name, system, small=False):
    """Return a call without arguments: value and gradient at the next inputs."""
    evaluate, _ = prepared(name, system, small)
    turns = inputs(name, small)
    return lambda: evaluate(*next(turns))


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
            branching_tables.fit(size, system == COMPILED)


def measured(name, system, budget, small):
    """Return the milliseconds of a call, the least mean, and the number of recordings.

    None stands where the system has no such form, or nothing is recorded.
    """
    evaluate, compiled = prepared(name, system, small)
    if evaluate is None:
        return None, None
    turns, started, times = inputs(name, small), time.perf_counter(), []
    while not times or time.perf_counter() - started < budget:
        given = list(itertools.islice(turns, INPUTS))
        seconds = figures.best(lambda given=given: [evaluate(*args) for args in given], 1)
        times.append(seconds / INPUTS)
    return 1e3 * min(times), None if compiled is None else branching_tables.recordings(compiled)


def table_of_gradients(names, options):
    """Print the time of a value and a gradient by each system."""
    systems = [EAGER, COMPILED, NATIVE]
    systems += [JAX] * bool(importlib.util.find_spec("jax"))
    systems += [HAND] * any(name.startswith("dtw") for name in names)
    peers.print_row("value and gradient, ms", *systems, "recordings")
    peers.print_row("---", *["---:"] * (len(systems) + 1))
    for name in names:
        found = {
            s: measured(name, s, 0.2 if options.quick else 2.0, options.small) for s in systems
        }
        times = [peers.shown(milliseconds) for milliseconds, _ in found.values()]
        peers.print_row(f"`{name}`", *times, str(found[COMPILED][1]))


def main(given=None):
    """Print the tables."""
    everything = [*WORKLOADS, *branching_tables.TABLES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="what", help=", ".join(everything))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--small", action="store_true", help="small sizes, as a check")
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*everything}:
        parser.error(f"no workload {', '.join(sorted(unknown))}")
    wanted = options.what or everything
    warnings.simplefilter("ignore", RuntimeWarning)
    names = [name for name in WORKLOADS if name in wanted]
    if names:
        table_of_gradients(names, options)
    for name, table in branching_tables.TABLES.items():
        if name in wanted:
            print()
            table(options.small)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tables of `branches` beside that of gradients: fits, lengths, composition, compilation."""

import copy
import math
import pickle
import time

import numpy as np

import tapegrad as tg
from benchmarks import compiled_loops, figures, peers
from benchmarks.branching_workloads import SIZES, data, robust

STARTS = ([0.0, 0.0], [2.0, -1.0], [-1.0, 3.0])


def recordings(compiled):
    """Return how often a compiled function has been recorded."""
    return sum(family.recorded for family in compiled._families.found.values())


def fit(size, compiled):
    """Fit the robust loss from three starts; return the sum of the values found."""
    found, _ = fit_and_recordings(size, compiled)
    return found


def fit_and_recordings(size, compiled):
    """Fit the robust loss from three starts; return the sum of values, and the recordings."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(size)
    x = rng.normal(size=size)
    y = 1.5 * x - 0.5 + rng.standard_t(2, size)
    c = tg.compile(robust) if compiled else None
    g = tg.value_and_grad(robust) if c is None else c.value_and_grad
    found = sum(
        minimize(g, np.array(start), args=(x, y), jac=True, method="L-BFGS-B").fun
        for start in STARTS
    )
    return found, None if c is None else recordings(c)


def table_of_fits(small=False):
    """Print the time of whole fits."""
    peers.print_row("whole fits of n data, ms", "eager", "compiled", "ratio", "recordings")
    peers.print_row("---", *["---:"] * 4)
    for size in SIZES[:2] if small else SIZES:
        times = [
            1e3 * figures.best(lambda c=c, n=size: fit(n, c), 2 if small else 5)
            for c in (False, True)
        ]
        count = fit_and_recordings(size, True)[1]
        shown = map(peers.shown, times)
        peers.print_row(str(size), *shown, peers.ratio(times[1], times[0]), str(count))


def table_of_lengths(small=False):
    """Print the time of a call with data of each length, and what was recorded for all."""
    rng, c = np.random.default_rng(0), tg.compile(robust)
    lengths = rng.permutation(np.arange(3, 9 if small else 63))
    for n in lengths:
        c.value_and_grad(*data(int(n))(rng))
    c.wait()
    peers.print_row("data of length", "µs a call", f"recordings for {len(lengths)} lengths")
    peers.print_row("---", "---:", "---:")
    for n in (lengths.min(), lengths.max()):
        args = data(int(n))(rng)
        seconds = figures.best(lambda args=args: c.value_and_grad(*args), 500)
        peers.print_row(str(n), peers.shown(1e6 * seconds), str(recordings(c)))


def long_sum(p, x):
    """Return a sum of about a millisecond, with a branch for each number."""
    total = 0.0
    for v in x:
        r = v - p[0]
        total = total + (r * r if r < 0 else math.log(2.0) * r * p[1])
    return total


def table_of_composition(small=False):
    """Print what a compiled function costs inside of something else."""
    rng = np.random.default_rng(0)
    x, p, c = rng.normal(size=100 if small else 60_000), np.array([0.3, 0.7]), tg.compile(long_sum)
    for _ in range(4):
        c.value_and_grad(p, rng.normal(size=x.size))
    c.wait()
    own, inside = c.value_and_grad, tg.value_and_grad(lambda p: 2.0 * c(p, x))
    copies = pickle.loads(pickle.dumps(copy.deepcopy(c)))
    calls = {
        "`c.value_and_grad`": lambda: own(p, x),
        "`c` in an eager gradient": lambda: inside(p),
        "`c.grad`": lambda: c.grad(p, x),
        "`tg.grad(c)`": lambda: tg.grad(c)(p, x),
        "a pickled copy": lambda: copies.value_and_grad(p, x),
    }
    peers.print_row("call", "ms")
    peers.print_row("---", "---:")
    for name, call in calls.items():
        call()
        peers.print_row(name, peers.shown(1e3 * figures.best(call, 5 if small else 200)))


def table_of_compilation(small=False):
    """Print the seconds that native code of loops takes, the first call to `wait` included."""
    peers.print_row("function", "native code, s")
    peers.print_row("---", "---:")
    for name, (function, args) in compiled_loops.functions(small).items():
        start = time.perf_counter()
        c = tg.compile(function, native=True)
        c.value_and_grad(*args)
        recorded = time.perf_counter()
        c.value_and_grad(*args)
        c.wait()
        seconds = time.perf_counter() - recorded
        total = time.perf_counter() - start
        peers.print_row(f"{name} (with recording {peers.shown(total)})", peers.shown(seconds))


TABLES = {
    "fits": table_of_fits,
    "lengths": table_of_lengths,
    "composition": table_of_composition,
    "compilation": table_of_compilation,
}

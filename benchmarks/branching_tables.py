"""Tables of `branches` beside that of gradients: fits, lengths, composition, compilation."""

import copy
import pickle
import time

import numpy as np

import tapegrad as tg
import tapegrad.math as math
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
    """Return a sum with a branch for each of many numbers."""
    total = 0.0
    for v in x:
        r = v - p[0]
        total = total + (r * r if r < 0 else 0.7 * r * p[1])
    return total


def long_walk(p, x):
    """Return where many steps lead that depend on one another; the data are few."""
    a, b = p[0], p[1]
    for k in range(len(x) * 200):
        step = 0.01 * math.sin(a) - 0.001 * b
        a, b = (a + step, b) if b > a else (a, b + step + 0.0001 * x[k % len(x)])
    return a * b


def table_of_composition(small=False):
    """Print what a compiled function costs inside of something else."""
    rng, p = np.random.default_rng(0), np.array([0.3, 0.7])
    forms = "`c.value_and_grad`", "`c` in an eager gradient", "`c.grad`", "`tg.grad(c)`"
    peers.print_row("function, ms", *forms, "a pickled copy")
    peers.print_row("---", *["---:"] * 5)
    for f, size in ((long_walk, 100), (long_sum, 60_000)):
        c, x = tg.compile(f), rng.normal(size=10 if small else size)
        for _ in range(4):
            c.value_and_grad(rng.normal(size=2), rng.normal(size=x.size))
        c.wait()
        times = [1e3 * seconds for seconds in composed(c, p, x, 5 if small else 200)]
        peers.print_row(f"`{f.__name__}`", *map(peers.shown, times))


def composed(c, p, x, times):
    """Return the seconds of calls of a compiled function, by itself and inside of others."""
    inside = tg.value_and_grad(lambda p: 2.0 * c(p, x))
    copied = pickle.loads(pickle.dumps(copy.deepcopy(c)))
    calls = (
        lambda: c.value_and_grad(p, x),
        lambda: inside(p),
        lambda: c.grad(p, x),
        lambda: tg.grad(c)(p, x),
        lambda: copied.value_and_grad(p, x),
    )
    for call in calls:
        call()
    return [figures.best(call, times) for call in calls]


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

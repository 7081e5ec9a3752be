"""Equations solved in compiled functions, beside SciPy's own solver and Newton's method by hand.

    python -m benchmarks.solvers            one solution, and loops of 1000
    python -m benchmarks.solvers 10000      loops of so many
    python -m benchmarks.solvers 10000 --peer PATH/python    beside JAX of another Python

Microseconds of a solution: value and gradient by the compiled function, SciPy's solver alone on
plain numbers, value and gradient of a loop of Newton's steps in native code; by turns, the least of
several. JAX takes these steps for all data at once, in a process of its own between two
measurements. Then the quotients.
"""

import argparse
import json
import math
import os
import subprocess
import time
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from scipy.optimize import brentq, newton, root

import tapegrad as tg
from benchmarks import peers

_TURNS, _CALLS = 7, 30


def kepler(e, anomalies):
    """Return the sum of squared eccentric anomalies."""
    total = 0.0
    for m in anomalies:
        total = total + brentq(lambda x, m=m: x - e[0] * np.sin(x) - m, 0.0, 7.0) ** 2
    return total


def kepler_by_newton(e, anomalies):
    """Return the same by SciPy's `newton`."""
    total = 0.0
    for m in anomalies:
        total = total + newton(lambda x, m=m: x - e[0] * np.sin(x) - m, m) ** 2
    return total


def kepler_by_hand(e, anomalies):
    """Return the same by five steps of Newton's."""
    total = 0.0
    for m in anomalies:
        x = m
        for _ in range(5):
            x = x - (x - e[0] * np.sin(x) - m) / (1.0 - e[0] * np.cos(x))
        total = total + x**2
    return total


def colebrook(p, numbers):
    """Return the sum of friction factors of a pipe of roughness p[0]."""
    total = 0.0
    for re in numbers:
        x = brentq(
            lambda x, re=re: x + 2.0 * np.log(p[0] / 3.7 + 2.51 * x / re) / math.log(10.0),
            0.1,
            50.0,
        )
        total = total + 1.0 / x**2
    return total


def colebrook_by_hand(p, numbers):
    """Return the same by six steps of Newton's."""
    total, scale = 0.0, 2.0 / math.log(10.0)
    for re in numbers:
        x = 7.0
        for _ in range(6):
            inside = p[0] / 3.7 + 2.51 * x / re
            x = x - (x + scale * np.log(inside)) / (1.0 + scale * 2.51 / re / inside)
        total = total + 1.0 / x**2
    return total


def plane(x, a, b):
    """Return two equations."""
    return [x[0] ** 2 + a * x[1] - 4.0, b * x[0] * x[1] + x[1] - 1.0]


def planes(p, data):
    """Return a sum over roots of two unknowns."""
    total = 0.0
    for a in data:
        x = root(plane, [1.0, 1.0], args=(a * p[0], p[1])).x
        total = total + x[0] * x[1]
    return total


def planes_by_hand(p, data):
    """Return the same by six steps of Newton's."""
    total = 0.0
    for a in data:
        x, y = 1.0, 1.0
        for _ in range(6):
            f, g = x**2 + a * p[0] * y - 4.0, p[1] * x * y + y - 1.0
            fx, fy, gx, gy = 2.0 * x, a * p[0], p[1] * y, p[1] * x + 1.0
            d = fx * gy - fy * gx
            x, y = x - (f * gy - g * fy) / d, y - (fx * g - gx * f) / d
        total = total + x * y
    return total


#: By name: the function, the same by hand, the parameters, the ends of the data, the name in JAX.
PROBLEMS = {
    "Kepler, brentq": (kepler, kepler_by_hand, [0.3], (0.1, 3.0), "kepler"),
    "Kepler, newton": (kepler_by_newton, kepler_by_hand, [0.3], (0.1, 3.0), "kepler"),
    "Colebrook, brentq": (colebrook, colebrook_by_hand, [1e-4], (1e4, 1e6), "colebrook"),
    "two unknowns, root": (planes, planes_by_hand, [1.2, 0.9], (0.9, 1.4), "planes"),
}


def functions(name, count):
    """Return what computes value and gradient in each way, and SciPy's value alone."""
    function, by_hand, p, ends, _ = PROBLEMS[name]
    p, data = np.array(p), np.linspace(*ends, count)
    made = {"compiled": tg.compile(function), "by hand": tg.compile(by_hand, native=True)}
    calls = {way: lambda c=c: c.value_and_grad(p, data) for way, c in made.items()}
    for _ in range(_CALLS):
        found = [call() for call in calls.values()]
    for c in made.values():
        c.wait()
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    return {**calls, "SciPy": lambda: function(p, data)}


def by_peer(name, count, peer):
    """Return what JAX of another Python finds, and its microseconds of a solution."""
    where = Path(__file__).resolve().parent.parent
    command = [peer, "-m", "benchmarks.solvers_in_jax", PROBLEMS[name][-1], str(count)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=where, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    return found, 1e6 * found["seconds"] / count


def measured(name, count, peer=None):
    """Return by way the microseconds of a solution."""
    calls, least = functions(name, count), {}
    for turn in range(_TURNS):
        for way, call in calls.items():
            if way == "SciPy" and turn * count > 10_000:
                continue
            repeats = max(1, (200 if way == "SciPy" else 2000) // count)
            started = time.process_time()
            for _ in range(repeats):
                call()
            spent = 1e6 * (time.process_time() - started) / repeats / count
            least[way] = min(spent, least.get(way, spent))
        if peer is not None and turn in (_TURNS // 3, 2 * _TURNS // 3):
            found, spent = by_peer(name, count, peer)
            np.testing.assert_allclose(found["gradient"], calls["compiled"]()[1], rtol=1e-6)
            least["JAX"] = min(spent, least.get("JAX", spent))
    return least


def main(given=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts", nargs="*", type=int, default=(1, 1000), metavar="solutions")
    parser.add_argument("--peer", help="Python that has JAX")
    parser.add_argument("--only", default="", help="problems whose names begin so")
    options = parser.parse_args(given)
    ways = ["SciPy", "by hand", *(["JAX"] if options.peer else [])]
    of_ways = [f"compiled / {way}" for way in ways]
    columns = ["solutions", "compiled", *ways, *of_ways, *(["by hand / JAX"] * ("JAX" in ways))]
    peers.print_row("a solution, µs", *columns)
    peers.print_row("---", *["---:"] * len(columns))
    for count in options.counts:
        for name in [one for one in PROBLEMS if one.startswith(options.only)]:
            found = measured(name, count, options.peer)
            times = [found["compiled"], *[found[way] for way in ways]]
            quotients = [times[0] / one for one in times[1:]]
            if "JAX" in ways:
                quotients.append(found["by hand"] / found["JAX"])
            peers.print_row(name, str(count), *map(peers.shown, [*times, *quotients]))


if __name__ == "__main__":
    main()

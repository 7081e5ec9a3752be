"""Functions of loops whose native code takes long to compile."""

import numpy as np

import tapegrad.math as math
from benchmarks.branching_workloads import tables


def ten_loops(x):
    """Return what ten loops that differ do to two numbers, one after the other."""
    a, b = x[0], x[1]
    for _ in range(50):
        a, b = a + 0.01 * math.sin(b), b - 0.01 * a
    for _ in range(50):
        a, b = a * 0.99 + 0.01 * b * b, b + 0.02 * math.cos(a)
    for _ in range(50):
        a = a + 0.01 * math.exp(-a * a) * b
    for _ in range(50):
        b = b - 0.01 * (b * b - a) / (1 + b * b)
    for _ in range(50):
        a, b = b * 0.5 + a * 0.5, a * 0.5 - b * 0.3
    for _ in range(50):
        a = math.tanh(a + 0.1 * b)
    for _ in range(50):
        a, b = a - 0.01 * a**3, b + 0.01 * math.sqrt(1 + a * a)
    for _ in range(50):
        b = b * (1 - 0.01 * b) + 0.001 * math.log(2 + a * a)
    for _ in range(50):
        a, b = a + 0.02 * b / (1 + a * a), b - 0.02 * a / (1 + b * b)
    for _ in range(50):
        a = a + 0.01 * (math.sin(a) * math.cos(b) - a)
    return a * b


def bodies(state):
    """Return the energy of bodies that attract each other, after some steps, number by number."""
    n, dt, steps = len(state) // 4, 0.01, 20
    x, y, u, v = ([state[k * n + i] for i in range(n)] for k in range(4))
    for _ in range(steps):
        for i in range(n):
            ax = ay = 0.0
            for j in range(n):
                if i != j:
                    dx, dy = x[j] - x[i], y[j] - y[i]
                    pull = (dx * dx + dy * dy + 0.01) ** -1.5
                    ax, ay = ax + pull * dx, ay + pull * dy
            u[i], v[i] = u[i] + dt * ax, v[i] + dt * ay
        for i in range(n):
            x[i], y[i] = x[i] + dt * u[i], y[i] + dt * v[i]
    return sum(u[i] * u[i] + v[i] * v[i] for i in range(n))


def functions(small=False):
    """Return name → function and its arguments."""
    rng, n = np.random.default_rng(0), 6 if small else 60
    series = (1.1, 0.1, rng.normal(size=n), rng.normal(size=n))
    return {
        "ten loops of 50 rounds": (ten_loops, (np.array([0.3, 0.7]),)),
        f"time warping {n} × {n}": (tables.dtw_of_minimum, series),
        "eight bodies": (bodies, (rng.normal(size=4 * (3 if small else 8)),)),
    }

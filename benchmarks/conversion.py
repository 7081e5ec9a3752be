"""Recordings of array operations converted to programs: costs per operation as they grow."""

import numpy as np

from benchmarks import figures


def chain(x, operations):
    """Element-wise operations, each on the result of the last."""
    y = x
    for _ in range(operations // 2):
        y = np.sin(y) + x
    return y.sum()


def recurrent(w, operations):
    """A recurrent network unrolled: products with a matrix between element-wise operations."""
    h = np.zeros(len(w))
    for k in range(operations // 4):
        h = np.tanh(w @ h + np.cos(np.arange(len(w)) + k)) * 0.9
    return (h * h).sum()


def stencil(x, operations):
    """Slices read and written in place."""
    x = x.copy()
    for _ in range(operations // 6):
        x[1:-1] = x[1:-1] + 0.1 * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    return (x * x).sum()


def joins(x, operations):
    """Arrays put together of parts."""
    for _ in range(operations // 3):
        x = np.concatenate([x[1:], np.sin(x[:1])]) * 0.99
    return x.sum()


def numbers_and_arrays(x, operations):
    """Numbers computed from elements, and arrays from numbers."""
    y = x
    for k in range(operations // 5):
        y = np.sin(y * (y[k % len(x)] * x[3] + 0.1) + x)
    return y.sum()


#: By name the function, and the shape of its argument.
FUNCTIONS = {
    "chain": (chain, (100,)),
    "recurrent": (recurrent, (16, 16)),
    "stencil": (stencil, (100,)),
    "joins": (joins, (50,)),
    "numbers and arrays": (numbers_and_arrays, (12,)),
}


def argument(name):
    """Return the argument of a function."""
    return 0.1 * np.random.default_rng(0).standard_normal(FUNCTIONS[name][1])


def costs(name, operations):
    """Return what `figures.program_costs` does, of a function of arrays."""
    return figures.program_costs(operations, FUNCTIONS[name][0], argument(name))


def track_conversion(name, operations, what):
    """A program of array operations, per operation, in a fresh process."""
    code = f"from benchmarks.conversion import *; print(*costs({name!r}, {operations}))"
    found = float(figures.in_fresh_process(code)[0].split()[figures.GROWTH.index(what)])
    return 1e9 * found if what.endswith("ns") else found


track_conversion.unit = "ns or bytes"
track_conversion.params = [
    list(FUNCTIONS),
    [10**power for power in range(2, 5)],
    list(figures.GROWTH),
]
track_conversion.param_names = ["function", "operations", "what"]
track_conversion.timeout = 300

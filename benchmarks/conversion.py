"""Recordings of array operations converted to programs: costs per operation as they grow.

As a program it prints, for functions of 10² to 10⁵ operations, the processor time of the conversion
(from the end of the recording to a program that can be called, without native code) and its memory:

    python -m benchmarks.conversion                              everything, some minutes
    python -m benchmarks.conversion chain joins --most 10000     some functions, up to so many
"""

import argparse
import resource
import sys
import time

import numpy as np

from benchmarks import figures

#: The sizes of programs, in operations.
SIZES = [10**power for power in range(2, 6)]


def chain(x, operations):
    """Element-wise operations, each on the result of the last."""
    y = x
    for _ in range(operations // 3):
        y = np.sin(y) * x + 0.5
    return y.sum()


def recurrent(w, operations):
    """A recurrent network unrolled: products with a matrix between element-wise operations."""
    h = w[0]
    for k in range(operations // 3):
        h = np.tanh(w @ h + np.cos(np.arange(len(w)) + k))
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


#: Operations of one array, and one that never changes, that give numbers near those of the first.
DIFFERENT = (
    lambda y, x: np.sin(y),
    lambda y, x: y * x + 1.0,
    lambda y, x: np.exp(-y),
    lambda y, x: np.maximum(y, x),
    lambda y, x: np.sqrt(y * y + 1.0),
    lambda y, x: np.tanh(y) - x,
    lambda y, x: y / (1.0 + x * x),
    lambda y, x: y - y.mean(),
    lambda y, x: y / (y * y).sum(),
    lambda y, x: y - y.max(),
    lambda y, x: np.arctan2(y, 1.0 + x),
    lambda y, x: np.logaddexp(y, x),
)


def different(x, operations):
    """Another element-wise operation or reduction at each step, in no order."""
    y = x
    for k in np.random.default_rng(1).integers(0, len(DIFFERENT), operations * 3 // 5):
        y = DIFFERENT[k](y, x)
    return y.sum()


def rows(x, operations):
    """Rows of a matrix read and written."""
    y = x.copy()
    for k in range(operations // 4):
        i, j = k % len(x), (7 * k + 1) % len(x)
        y[i] = 0.5 * y[j] + np.sin(x[i])
    return (y * y).sum()


def mixtures(x, operations):
    """Joins, choices and running sums."""
    for _ in range(operations // 8):
        both = np.stack([x, np.cumsum(x) * 0.1])
        x = np.where(both[0] > both[1], both[0], both[1])
        x = np.concatenate([x[len(x) // 2 :], np.sin(x[: len(x) // 2])])
    return x.sum()


#: By name the function, and the shape of its argument.
FUNCTIONS = {
    "chain of 3": (chain, (3,)),
    "chain of 30": (chain, (30,)),
    "chain": (chain, (300,)),
    "different of 3": (different, (3,)),
    "different": (different, (300,)),
    "recurrent": (recurrent, (16, 16)),
    "stencil": (stencil, (100,)),
    "rows of 3": (rows, (10, 3)),
    "rows": (rows, (10, 30)),
    "joins": (joins, (50,)),
    "mixtures": (mixtures, (30,)),
    "numbers and arrays": (numbers_and_arrays, (12,)),
    "numbers": (lambda x, operations: figures.irregular(x[0], operations), (1,)),
}
COSTS = ("converted, ns", "held, bytes", "at most, bytes")


def argument(name):
    """Return the argument of a function."""
    return 0.1 * np.random.default_rng(0).standard_normal(FUNCTIONS[name][1])


def costs(name, operations, times=3):
    """Return what the conversion of a function costs per operation, as `COSTS` names it.

    The least seconds of some conversions; memory in bytes, for which the process must be fresh.
    """
    from tapegrad._program.dispatch.signature import Arguments
    from tapegrad._program.dispatch.variants import traced_call

    x, function, seconds = argument(name), FUNCTIONS[name][0], []
    for count in [min(operations, 1000), *[operations] * times]:
        with traced_call(lambda x, n=count: function(x, n), Arguments((x,), {}, (0,))) as traced:
            before, started = figures.resident(), time.process_time()
            variant, reason = traced.program()
            seconds.append(time.process_time() - started)
        if variant is None:
            raise RuntimeError(f"{name} of {count} operations is no program: {reason}")
        if len(seconds) == 2:
            held = figures.resident() - before
            most = max(held, peak() - before)
    return min(seconds[1:]) / operations, held / operations, most / operations


def peak():
    """Return the bytes of memory that this process has held at most."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def costs_in_fresh_process(name, operations):
    """Return name → cost of a conversion, in nanoseconds and bytes per operation."""
    code = f"from benchmarks.conversion import *; print(*costs({name!r}, {operations}))"
    seconds, *held = map(float, figures.in_fresh_process(code)[0].split())
    return dict(zip(COSTS, [1e9 * seconds, *held], strict=True))


def track_conversion(name, operations, what):
    """The conversion of a program of array operations, per operation, in a fresh process."""
    return costs_in_fresh_process(name, operations)[what]


track_conversion.unit = "ns or bytes"
track_conversion.params = [list(FUNCTIONS), SIZES[:-1], list(COSTS)]
track_conversion.param_names = ["function", "operations", "what"]
track_conversion.timeout = 300


def main(arguments):
    """Print a line for each function and size: microseconds and bytes per operation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FUNCTIONS))
    parser.add_argument("--most", type=int, default=SIZES[-1], help="operations")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(FUNCTIONS):
        parser.error(f"there is no function {', '.join(unknown)}")
    print("| function | operations | µs each | bytes held | bytes at most |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in options.names or FUNCTIONS:
        for operations in [size for size in SIZES if size <= options.most]:
            nanoseconds, held, most = costs_in_fresh_process(name, operations).values()
            figured = f"{nanoseconds / 1000:.1f} | {held:.0f} | {most:.0f}"
            print(f"| {name} | {operations} | {figured} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

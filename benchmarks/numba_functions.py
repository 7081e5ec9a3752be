"""Gradients of functions compiled by Numba, as users write them, beside the functions themselves.

The figures are microseconds of the best call of many, by turns in one process: of the function that
`numba.njit` has compiled, and of its value and gradient by `tg.compile(f)` with native code. The
arguments change from call to call. `censored` has been called with 1000 data before.

    python -m benchmarks.numba_functions                    all
    python -m benchmarks.numba_functions garch heat         some of them
"""

import argparse
import contextlib
import os
import sys
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

import tapegrad as tg
from benchmarks import peers
from benchmarks.numba_examples import EXAMPLES, LINEAR_ALGEBRA, arguments

TURNS, CALLS = 8, 4


@contextlib.contextmanager
def entering():
    """Let transforms that are made meanwhile enter functions."""
    before, tg.config.enter = tg.config.enter, True
    try:
        yield
    finally:
        tg.config.enter = before


def compiled(name):
    """Return the compiled function of an example after its first calls, with native code."""
    with entering(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tg.compile(EXAMPLES[name].function, native=True)
        few = name == "censored"
        for turn in range(CALLS):
            made.value_and_grad(*arguments(name, few, turn))
        made.wait()
        for turn in range(CALLS):
            made.value_and_grad(*arguments(name, False, turn))
        made.wait()
    return made


def differs(name, made):
    """Return by how much value and gradient differ from the function and its differences."""
    f, (x, *data) = EXAMPLES[name].function, arguments(name, False, 1)
    value, gradient = made.value_and_grad(x, *data)
    along, found = np.random.default_rng(0).normal(size=x.shape), []
    for h in (2e-4, 1e-4):
        found.append((f(x + h * along, *data) - f(x - h * along, *data)) / (2.0 * h))
    wanted = (4.0 * found[1] - found[0]) / 3.0
    scale = 1.0 + abs(wanted)
    off = abs(value - f(x, *data)) / (1.0 + abs(value))
    return max(off, abs(np.sum(gradient * along) - wanted) / scale)


def measured(name, made, seconds=1.0):
    """Return the least seconds of a call of the function, and of its value and gradient."""
    every = [arguments(name, False, turn) for turn in range(TURNS)]
    calls, turn = (EXAMPLES[name].function, made.value_and_grad), 0
    found, end = ([], []), time.perf_counter() + seconds
    while time.perf_counter() < end or turn < TURNS:
        given = every[turn % TURNS]
        for times, call in zip(found, calls, strict=True):
            started = time.perf_counter()
            call(*given)
            times.append(time.perf_counter() - started)
        turn += 1
    return [min(times) for times in found]


class Gradients:
    """Values of functions, and values with gradients."""

    params = [list(EXAMPLES), ["value by Numba", "value and gradient"]]
    param_names = ["function", "what"]
    timeout = 300

    def setup(self, name, what):
        """Compile, and prepare arguments."""
        function = EXAMPLES[name].function
        self.call = compiled(name).value_and_grad if what == self.params[1][1] else function
        self.turn, self.every = 0, [arguments(name, False, turn) for turn in range(TURNS)]
        self.call(*self.every[0])

    def time_call(self, name, what):
        """Compute with other arguments than in the last call."""
        self.turn = (self.turn + 1) % TURNS
        self.call(*self.every[self.turn])


def main(given=None):
    """Print a table; return 1 if a gradient is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="function", help=", ".join(EXAMPLES))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*EXAMPLES}:
        parser.error(f"no function {', '.join(sorted(unknown))}; known: {', '.join(EXAMPLES)}")
    peers.print_row("function", "njit's value, µs", "value and gradient, µs", "ratio")
    peers.print_row("---", "---:", "---:", "---:")
    ratios, wrong = {}, []
    for name in options.what or EXAMPLES:
        made = compiled(name)
        if not (off := differs(name, made)) < 1e-6:
            wrong.append(f"{name} differs by {off:.1e}")
        value, both = measured(name, made, 0.2 if options.quick else 2.0)
        ratios[name] = both / value
        cells = [f"{1e6 * value:.1f}", f"{1e6 * both:.1f}", f"{both / value:.2f}"]
        peers.print_row(f"`{name}`", *cells)
    own = [ratio for name, ratio in ratios.items() if name not in LINEAR_ALGEBRA]
    if own:
        print(f"geometric mean without linear algebra: {np.exp(np.mean(np.log(own))):.2f}")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

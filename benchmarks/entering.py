"""What entering costs: programs of plain NumPy and `math` beside the same with stand-ins by hand.

Everything is measured by turns in one run:

    python -m benchmarks.entering
    python -m benchmarks.entering loops calls
"""

import argparse
import contextlib
import itertools
import math
import sys
import time
import types
from collections.abc import Callable

import numpy as np

import tapegrad as tg
import tapegrad.math
import tapegrad.numpy
from benchmarks import figures

#: Programs as users write them: `np` and `math` are what the module has by these names.
TEXT = '''
def scalar_loop(p):
    """A predator and its prey, number by number."""
    x, y = p[0], p[1]
    for k in range(1000):
        growth = p[2] * x * (1.0 + 0.1 * np.sin(0.01 * k + y)) - 0.4 * x * y
        y = y + 0.001 * (0.1 * x * y - math.sqrt(y) * 0.5)
        x = x + 0.001 * growth
    return x + y


def small_arrays(p):
    """Steps of a rotating body: vectors of three."""
    spin, inertia = np.array([p[0], p[1], p[2]]), np.array([1.0, 2.0, 3.0])
    total = 0.0
    for k in range(200):
        torque = np.cross(inertia * spin, spin) / inertia
        spin = spin + 0.01 * torque + 0.001 * np.tanh(spin)
        total = total + np.sum(spin**2)
    return total


def growth(x, rate):
    return rate * x * (1.0 - math.exp(-x))


def limited(x, rate):
    return np.minimum(growth(x, rate), 2.0) + 0.1 * math.log(1.0 + x)


def helpers(p):
    """A map with two functions a step."""
    x = p[0]
    for _ in range(1000):
        x = 0.5 * limited(x, p[1]) + 0.3 * p[2]
    return x


class Filter:
    """A filter of a noisy level."""

    def __init__(self, noise):
        self.noise = noise

    def gain(self, variance):
        return variance / (variance + self.noise)

    def step(self, level, variance, seen):
        gain = self.gain(variance)
        return level + gain * (seen - level), (1.0 - gain) * variance

    def loss(self, p):
        level, variance, total = p[0], np.exp(p[1]), 0.0
        for seen in DATA:
            variance = variance + p[2] ** 2
            total = total + math.log(variance + self.noise)
            level, variance = self.step(level, variance, seen)
            total = total + np.square(seen - level)
        return total


a_filter = Filter(0.3)


def methods(p):
    return a_filter.loss(p)


def list_of_lists(p):
    """The cheapest way through a table, by sums of exponentials."""
    n = 20
    cost = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            here = p[0] * COSTS[i][j] + p[1] * abs(i - j) + p[2]
            if i and j:
                ways = cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1]
                here = here - math.log(sum([math.exp(-way) for way in ways]))
            cost[i][j] = here
    return cost[-1][-1]


def small(p):
    return np.sin(p[0]) * np.sum(p)
'''
LOOPS = ("scalar_loop", "small_arrays", "helpers", "methods", "list_of_lists")
_RNG = np.random.default_rng(0)
DATA, COSTS = _RNG.normal(size=300).tolist(), _RNG.random((20, 20)).tolist()
P = np.array([0.7, 0.9, 0.4])


def module(name, np, math):
    """Return a user's module that has imported the two under these names."""
    made = types.ModuleType(name)
    vars(made).update(np=np, math=math, DATA=DATA, COSTS=COSTS)
    exec(compile(TEXT, f"<{name}>", "exec"), vars(made))
    return made


BY_HAND = module("by_hand", tapegrad.numpy, tapegrad.math)
PLAIN = module("plain", np, math)


@contextlib.contextmanager
def entering(on):
    """Let transforms that are made meanwhile enter functions, or not."""
    before, tg.config.enter = tg.config.enter, on
    try:
        yield
    finally:
        tg.config.enter = before


def by_turns(*calls, seconds=1.0, many=1):
    """Return the least seconds of each of some calls, which take turns."""
    for call in calls:
        call()
        call()
    found, end = [[] for _ in calls], time.perf_counter() + seconds
    while time.perf_counter() < end:
        for times, call in zip(found, calls, strict=True):
            started = time.perf_counter()
            for _ in itertools.repeat(None, many):
                call()
            times.append((time.perf_counter() - started) / many)
    return [min(times) for times in found]


def pair(f, x=P, other=None, transform=tg.value_and_grad) -> tuple[Callable, Callable]:
    """Return calls of a gradient: of `other` without entering, and of `f` with it."""
    made = []
    for on, function in ((False, other or f), (True, f)):
        with entering(on):
            made.append(transform(function))
    off, on = made
    return lambda: off(x), lambda: on(x)


def loop_ratio(name, seconds=2.0):
    """Return what the gradient of a loop costs entered, beside that with stand-ins by hand."""
    calls = pair(getattr(PLAIN, name), other=getattr(BY_HAND, name))
    by_hand, entered = by_turns(*calls, seconds=seconds, many=3)  # as a minimizer calls them
    return entered / by_hand


def small_ratio():
    """Return the seconds of a small gradient without entering, and with it beside them."""
    off, on = by_turns(*pair(PLAIN.small), many=10)
    return off, on / off


def _new_lambda(on):
    known = PLAIN.small

    def call():
        data = np.ones(3)
        return tg.grad(lambda p: known(p) * data[0])(P)

    def within():
        with entering(on):
            return call()

    return within


def new_lambda_seconds():
    """Return the seconds that the first gradient of a new function of known code takes longer."""
    off, on = by_turns(_new_lambda(False), _new_lambda(True), many=10)
    return on - off


def replay_ratio():
    """Return what a call of a compiled function costs with entering, beside one without."""
    made = []
    for on in (False, True):
        with entering(on):
            compiled = tg.compile(PLAIN.small, native=False)
            for _ in range(4):
                compiled.value_and_grad(P)
        made.append(lambda compiled=compiled: compiled.value_and_grad(P))
    off, on = by_turns(*made, many=50)
    return on / off


#: By name: an argument beside P, or the state of a function.
CONTAINERS = {
    "a list of 10 lists": [[1.0] * 10 for _ in range(10)],
    "a list of 1000 lists": [[1.0] * 10 for _ in range(1000)],
    "nested lists": [[[[1.0] * 90 for _ in range(90)] for _ in range(20)] for _ in range(5)],
    "a dict of 90 dicts": {f"{k}": dict.fromkeys(map(str, range(90)), 1.0) for k in range(90)},
}


def container_seconds(argument):
    """Return the seconds that entering adds where a function is given a container."""

    def f(p, held):
        return np.sum(p)

    def gradient(f):
        made = tg.grad(f)
        return lambda x: made(x, argument)

    off, on = by_turns(*pair(f, transform=gradient), many=20)
    return on - off


class Model:
    """A user's object with a history of its values."""

    def __init__(self, size):
        self.history = [0.0] * size

    def loss(self, p):
        return np.sum(p)


def history_seconds(size):
    """Return the seconds that entering adds where a function's state has so many items."""
    off, on = by_turns(*pair(Model(size).loss), many=20)
    return on - off


def number_seconds(text):
    """Return the seconds of a call with a recorded number `t`, in entered code."""
    found = []

    def f(p):
        t = p[0] * 1.0
        code = compile(f"lambda t: {text}", "<call>", "eval")
        space = {"np": tapegrad.numpy, "math": tapegrad.math}
        call = eval(code, space)
        found.extend(by_turns(lambda: call(t), lambda: None, many=200, seconds=0.3))
        return t

    tg.grad(f)(P)
    return found[0] - found[1]


NUMBERS = ("np.log(t)", "np.maximum(t, 0.5)", "math.exp(t)", "math.log(t)", "math.atan2(t, 2.0)")

_FIRST = """
import time
import math
import numpy as np
import tapegrad as tg
tg.config.enter = {on}
def f(x):
    return np.sin(x[0]) * np.exp(x[1]) + np.sqrt(x[0]) + math.pi * np.sum(x * x)
started = time.process_time()
tg.grad(f)(np.ones(3))
print(time.process_time() - started)
"""


def first_gradient_seconds(times=5):
    """Return the seconds of the processor that the first gradient of a process takes: off, on."""
    figures.in_fresh_process(_FIRST.format(on=True))
    found = [
        [float(figures.in_fresh_process(_FIRST.format(on=on))[0]) for on in (False, True)]
        for _ in range(times)
    ]
    return [min(one) for one in zip(*found, strict=True)]


def import_seconds(times=5):
    """Return the seconds that importing tapegrad takes after NumPy, and those of entering in it."""
    code = (
        "import time, numpy\nstarted = time.process_time()\nimport tapegrad\n"
        "print(time.process_time() - started)"
    )
    whole = min(float(figures.in_fresh_process(code)[0]) for _ in range(times))
    return whole


class Loops:
    """Gradients of loops."""

    params = [list(LOOPS), ["by hand", "entered"]]
    param_names = ["program", "stand-ins"]

    def setup(self, name, how):
        """Take the gradient once."""
        given = BY_HAND if how == "by hand" else PLAIN
        with entering(how == "entered"):
            self.gradient = tg.grad(getattr(given, name))
        self.time_gradient(name, how)

    def time_gradient(self, name, how):
        """Take the gradient of a known function."""
        self.gradient(P)


def print_loops():
    """Print the ratios of loops and their geometric mean."""
    ratios = {name: loop_ratio(name) for name in LOOPS}
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.3f} x by hand", flush=True)
    print(f"geometric mean: {np.exp(np.mean(np.log([*ratios.values()]))):.3f}")


def print_calls():
    """Print what single calls cost."""
    off, ratio = small_ratio()
    print(f"a gradient of {1e6 * off:.1f} us: {ratio:.3f} x")
    print(f"a new lambda of known code: {1e6 * new_lambda_seconds():.1f} us")
    print(f"compiled replay: {replay_ratio():.3f} x", flush=True)


def print_numbers():
    """Print what functions of recorded numbers cost."""
    for text in NUMBERS:
        print(f"{text}: {1e6 * number_seconds(text):.2f} us", flush=True)


def print_containers():
    """Print what is added by the size of containers."""
    for name, argument in CONTAINERS.items():
        print(f"{name}: {1e6 * container_seconds(argument):.1f} us")
    for size in (10, 1_000_000):
        print(f"a history of {size}: {1e6 * history_seconds(size):.1f} us", flush=True)


def print_processes():
    """Print what new processes wait for."""
    off, on = first_gradient_seconds()
    print(f"the first gradient of a process: {1e3 * off:.1f} ms, entered {1e3 * (on - off):+.1f}")
    print(f"import tapegrad: {1e3 * import_seconds():.1f} ms")


PARTS = {
    "loops": print_loops,
    "calls": print_calls,
    "numbers": print_numbers,
    "containers": print_containers,
    "processes": print_processes,
}


def main(arguments):
    """Print the parts that are named, by default all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.entering")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    for part in options.parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Entered functions among interrupts, threads and forks: the user's code, NumPy's values and types.

usage: python tests/fuzz/hostile_entering.py [interrupts] [calls] [seed]
"""

import contextlib
import gc
import math
import os
import random
import signal
import sys
import threading
import time

import numpy as np

import tapegrad as tg
from tapegrad._core.tensor.pytree import code_of

X = np.array([0.3, 0.4])


def inner(x):
    y = np.zeros(1)
    y[0] = math.sin(x)
    return y[0]


def objective(x):
    return inner(x[0]) * np.array([x[1], 1.0])[0]


def other(x):
    return inner(x[1]) + objective(x)


def with_a_gradient(x):
    return tg.grad(objective)(x)[0] * x[1]


FUNCTIONS = inner, objective, other, with_a_gradient
OWN = [one.__code__ for one in FUNCTIONS]
WANTED = [math.cos(0.3) * 0.4, math.sin(0.3)]


def are_own() -> bool:
    return all(code_of(one) is own for one, own in zip(FUNCTIONS, OWN, strict=True))


@contextlib.contextmanager
def plain_calls(most: int, threads: int = 2):
    """Other threads that call the functions; the yielded list gets what was wrong, and a count."""
    stop, bad, counts = threading.Event(), [], [0] * threads
    wanted = [(one, one(X)) for one in FUNCTIONS[1:3]]

    def call(k):
        while not stop.is_set() and counts[k] < most:
            for one, value in wanted:
                found = one(X)
                counts[k] += 1
                if type(found) is not np.float64 or found != value:
                    bad.append((one.__name__, found, type(found)))

    every = [threading.Thread(target=call, args=(k,)) for k in range(threads)]
    for one in every:
        one.start()
    try:
        yield bad, counts
    finally:
        stop.set()
        for one in every:
            one.join()


def gradients(calls: int) -> None:
    """Gradients in this thread until two others have made so many plain calls each."""
    every = [tg.grad(one) for one in (objective, other)] + [tg.grad(with_a_gradient)]
    wanted = [one(X) for one in every]
    with plain_calls(calls) as (bad, counts):
        while min(counts) < calls:
            for one, value in zip(every, wanted, strict=True):
                np.testing.assert_allclose(one(X), value, rtol=1e-12)
    assert not bad, bad[:3]
    assert sum(counts) >= 2 * calls and are_own()


def interrupts(count: int, seed: int, beside: int = 0) -> int:
    """Interrupts after random times; returns how many of them found other code afterwards."""
    draw = random.Random(seed)
    calls = [tg.grad(one) for one in (objective, other, with_a_gradient)]
    calls += [tg.hessian(objective), tg.compile(objective).grad]
    for one in [*calls, calls[-1], calls[-1]]:
        one(X)
    begin = time.perf_counter()
    for one in calls:
        one(X)
    span, left, done = 2.0 * (time.perf_counter() - begin) / len(calls), 0, 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with plain_calls(sys.maxsize, beside) as (bad, _):
            while done < count:
                call = draw.choice(calls)
                try:
                    delay = 1e-6 + span * draw.random()
                    end = time.perf_counter() + delay + 0.01
                    signal.setitimer(signal.ITIMER_REAL, delay)
                    while time.perf_counter() < end:  # Python ignores those in finalisers
                        call(X)
                except KeyboardInterrupt:
                    pass
                done += 1
                if not are_own():
                    left += 1
                    tg.grad(objective)(X)
                    assert are_own(), done
        assert not bad, bad[:3]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_allclose(tg.grad(objective)(X), WANTED)
    assert are_own()
    return left


def forks(count: int) -> None:
    """Forks inside functions: in the child they are plain, and can be differentiated again."""

    def child():
        found = objective(X)
        plain = are_own() and type(found) is np.float64
        return plain and np.allclose(tg.grad(objective)(X), WANTED) and are_own()

    def f(x):
        if (number := os.fork()) == 0:
            code = 1
            try:
                code = 0 if child() else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
        return objective(x)

    for _ in range(count):
        np.testing.assert_allclose(tg.grad(f)(X), WANTED)
    assert are_own()


def main(counts) -> None:
    many, calls, seed = (*map(int, counts), *(10000, 1000000, 1)[len(counts) :])
    tg.config.enter = True
    gc.collect()
    for name, one in {
        "interrupts": lambda: interrupts(many, seed),
        "interrupts beside threads": lambda: interrupts(many // 10, seed + 1, 2),
        "plain calls beside gradients": lambda: gradients(calls // 2),
        "forks": lambda: forks(many // 500),
    }.items():
        begin = time.perf_counter()
        print(name, one(), f"{time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

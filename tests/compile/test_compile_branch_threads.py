"""Graphs of compiled functions in several threads, and in a fork."""

import os
import sys
import threading
import warnings

import numpy as np
import pytest

import tapegrad as tg

RNG = np.random.default_rng(11)


def robust(p, x):
    total = 0.0
    for v in x:
        r = abs(v - p[0]) * p[1]
        total = total + (r * r if r < 1 else 2 * r - 1)
    return total


def points(count):
    return [(RNG.normal(size=2), 2 * RNG.normal(size=3 + k % 5)) for k in range(count)]


#: What is asked of a function, and of the compiled one.
ASKED = {
    "gradient": lambda t, f, p, x: (tg.grad(f) if t is None else t.grad)(p, x),
    "Hessian": lambda t, f, p, x: (tg.hessian(f) if t is None else t.hessian)(p, x),
    "map": lambda t, f, p, x: (
        np.stack([tg.grad(f)(p, row) for row in (x, -x)])
        if t is None
        else t.map(p, np.stack([x, -x]), in_axes=(None, 0))[1]
    ),
}


def differs(c, args, expected):
    found = [one(c, robust, *args) for one in ASKED.values()]
    pairs = zip(found, expected, strict=True)
    return not all(np.allclose(a, b, rtol=1e-9, atol=1e-10) for a, b in pairs)


@pytest.mark.parametrize("first", [0, 3])
def test_native_code_takes_over_while_threads_call(first):
    """From the very first call on, or with a graph that is there."""
    calls = points(12)
    expected = [[one(None, robust, *args) for one in ASKED.values()] for args in calls]
    c, wrong = tg.compile(robust, native=True), []
    for args in calls[:first]:
        c.grad(*args)

    def work(shift):
        with_shift = [(k + shift) % len(calls) for k in range(2 * len(calls))]
        try:
            wrong.extend(k for k in with_shift if differs(c, calls[k], expected[k]))
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(shift,)) for shift in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(interval)
    c.wait()
    assert not wrong
    assert not any(differs(c, args, found) for args, found in zip(calls, expected, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("native", [False, True])
def test_a_child_goes_on(native):
    calls = points(6)
    expected = [[one(None, robust, *args) for one in ASKED.values()] for args in calls]
    c = tg.compile(robust, native=native)
    for args in calls[:4]:
        c.grad(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            wrong = any(differs(c, *pair) for pair in zip(calls, expected, strict=True))
            c.wait()
            wrong |= any(differs(c, *pair) for pair in zip(calls, expected, strict=True))
            os._exit(int(wrong))
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

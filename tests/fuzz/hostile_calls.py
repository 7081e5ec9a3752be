"""Hostile calls of all kinds in one process, which must neither crash nor grow nor compute wrongly.

`python tests/fuzz/hostile_calls.py 200000 [seed]` makes so many and prints the seed; the suite
makes a few thousand (test_hostile_calls.py). Each call picks a kind: a refused write, an exception
in the middle of a recording, an interrupt at any moment, threads, a fork, arguments of every wrong
sort. What a call may raise it says; everything else ends the run. Now and then what has been left
is looked at: gradients of every kind must be right, and nothing switched off, held or growing.
"""

import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings

import numpy as np
from hostile_arguments import ERRORS, V, compiled, curve, leaf, strange_arguments

import tapegrad as tg
from tapegrad._core.tape import store, workspace
from tapegrad._core.tensor import runtime

W = np.array([1.0, -2.0, 3.0, 0.5, 2.5])


class Raised(Exception):
    """What a user's function raises."""


# --- what users compute, and what comes out -----------------------------------------------------


SLOPE = np.sin(V) + np.cos(V) * V + np.array([V[1], V[0], 0.0, 0.0, 0.0])
BEND = np.diag(2 * np.cos(V) - np.sin(V) * V)
BEND[0, 1] = BEND[1, 0] = 1.0


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=1e-10, atol=1e-12)


def backward():
    x = leaf()
    curve(x).backward()
    close(x.grad.numpy(), SLOPE)


def written():
    x = leaf()
    y = x * 2.0
    y[1:] = y[:-1] * 1.0
    y[0] = x[4] * x[4]
    np.sum(y * W).backward()
    close(x.grad.numpy(), np.append(2.0 * W[1:], 2 * V[4] * W[0]))


def scalars():
    a = first = leaf(1.5)
    for _ in range(40):
        a = a * 1.0 + first * 0.5 - first * 0.5
    a.backward()
    close(first.grad.item(), 1.0)


WORKS = {
    "gradient": lambda: close(tg.grad(curve)(V), SLOPE),
    "backward": backward,
    "hessian": lambda: close(tg.hessian(curve)(V), BEND),
    "hvp": lambda: close(tg.hvp(curve)(V, W), BEND @ W),
    "jvp": lambda: close(tg.jvp(curve, (V,), (W,))[1], SLOPE @ W),
    "compiled": lambda: close(compiled.grad(V), SLOPE),
    "compiled anew": lambda: close(tg.compile(curve).grad(V), SLOPE),
    "map": lambda: close(compiled.map(np.tile(V, (5, 1)), threads=2)[1][3], SLOPE),
    "writes": written,
    "numbers": scalars,
}
QUICK = ("gradient", "backward", "compiled", "writes", "numbers", "jvp")


def check_all():
    """Whatever has happened, everything is as at the beginning."""
    assert tg.is_grad_enabled() and not tg.is_inference_mode_enabled()
    assert runtime.trace() is None and not runtime.noted_inputs()
    for name, run in WORKS.items():
        try:
            run()
        except BaseException as error:
            raise AssertionError(f"{name} went wrong afterwards") from error


# --- kinds of calls -----------------------------------------------------------------------------


def refused_write(rng):
    """A write that cannot be; what it was to change is as it was, and is swept."""
    x = leaf()
    y = x * 2.0
    whole = tg.tensor(3)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    writes = [
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__setitem__(slice(1, 3), x[0]),
        lambda: whole.__setitem__(..., x[0]),
        lambda: tg.tensor([1, 2, 3]).__setitem__(slice(None), x[:3]),
        lambda: y.__setitem__(7, 1.0),
        lambda: y.__setitem__(-6, x[0]),
        lambda: y.__setitem__(slice(0, 2), x),
        lambda: y.__setitem__([0, 9], x[:2]),
        lambda: y.__setitem__([True, False], 0.0),
        lambda: y.__setitem__("a", 0.0),
        lambda: y.__setitem__(0, "text"),
        lambda: y.__setitem__(slice(None), None),
        lambda: y.__setitem__((0, 0), 1.0),
        lambda: y.__setitem__(0, np.ones(3)),
        lambda: y.__setitem__(slice(None), [[1.0, 2.0], [3.0]]),
        lambda: y.__iadd__(np.ones((2, 5))),
        lambda: y.__imul__("text"),
        lambda: y.__setitem__(slice(0, 3), 1j),
        lambda: tg.tensor(fixed).__setitem__(0, x[0]),
        lambda: fixed.__setitem__(0, x[0]),
        lambda: np.ones(3).__setitem__(slice(None), x[:3]),
        lambda: np.add(x, 1.0, out=np.ones(5)),
        lambda: y.fill(x),
    ]
    with contextlib.suppress(*ERRORS):
        rng.choice(writes)()
    with contextlib.suppress(*ERRORS):
        tg.compile(np.sum).grad(whole)
    found = y.detach().numpy()
    if np.array_equal(found, 2.0 * V):  # some are no errors
        np.sum(y * W).backward()
        close(x.grad.numpy(), 2.0 * W)


def failing(rng, error):
    """A function that raises after a few steps."""
    steps = rng.randrange(6)

    def f(x):
        y = x * 1.0
        for k in range(7):
            if k == steps:
                raise error
            y = [np.sin(y), y * x, y[::-1] + x, y * float(k), y[[1, 0, 2, 3, 4]]][k % 5]
            if k == 2 and rng.random() < 0.5:
                y[0] = x[1] * 2.0
        return np.sum(y)

    return f


TRANSFORMS = {
    "grad": lambda f: tg.grad(f)(V),
    "twice": lambda f: tg.grad(lambda x: np.sum(tg.grad(f)(x)))(V),
    "hessian": lambda f: tg.hessian(f)(V),
    "jacobian": lambda f: tg.jacobian(f)(V),
    "jvp": lambda f: tg.jvp(f, (V,), (W,)),
    "vjp": lambda f: tg.vjp(f, V),
    "hvp": lambda f: tg.hvp(f)(V, W),
    "vmap": lambda f: tg.vmap(tg.grad(f))(np.tile(V, (2, 1))),
    "compile": lambda f: tg.compile(f).grad(V),
    "compiled hessian": lambda f: tg.compile(f).hessian(V),
    "map": lambda f: tg.compile(f).map(np.tile(V, (3, 1))),
    "inside": lambda f: tg.grad(lambda x: compiled(x) + f(x))(V),
    "silent": lambda f: tg.no_grad()(f)(leaf()),
    "backward": lambda f: f(leaf()).backward(),
}


def exception(rng):
    """The user's function raises in the middle."""
    error = rng.choice(
        [Raised("no"), MemoryError("no"), KeyboardInterrupt(), StopIteration(), KeyError(1)]
    )
    f = failing(rng, error)
    with contextlib.suppress(Raised, MemoryError, KeyboardInterrupt, StopIteration, KeyError):
        rng.choice(list(TRANSFORMS.values()))(f)


class Failing(tg.autograd.Function):
    """Raises forwards or backwards, or gives back something wrong."""

    @staticmethod
    def forward(ctx, x, where):
        ctx.save_for_backward(x)
        ctx.where = where
        if where == "forward":
            raise Raised(where)
        return x * 2.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.where == "backward":
            raise Raised(ctx.where)
        if ctx.where == "nested":
            return tg.grad(lambda v: np.sum(v * v * v))(x.detach()) * g / 3.0 + failing_now(x), None
        return {"shape": g[:2], "none": None, "text": "text", "many": (g, g, g)}[ctx.where], None


def failing_now(x):
    raise Raised("nested")


def failing_function(rng):
    x = leaf()
    where = rng.choice(["forward", "backward", "nested", "shape", "none", "text", "many"])
    with contextlib.suppress(Raised, *ERRORS):
        y = np.sum(Failing.apply(x * 1.0, where) * W)
        y.backward(create_graph=rng.random() < 0.3)


def failing_hook(rng):
    """Hooks that raise, give back something wrong, or sweep themselves."""
    x = leaf()
    y = np.sin(x) * 1.0

    def raising(_):
        raise Raised("hook")

    def sweeping(_):
        with tg.enable_grad():
            backward()

    hook = rng.choice([raising, sweeping, lambda g: "text", lambda g: g[:2], lambda g: g * 2.0])
    rng.choice([x, y]).register_hook(hook)
    with contextlib.suppress(Raised, *ERRORS):
        np.sum(y * y).backward(retain_graph=rng.random() < 0.5)


def wrong_order(rng):
    """Rows that are used up, stale or of no number, and cycles of tensors."""
    x = leaf()
    y = np.exp(x) * x
    with contextlib.suppress(*ERRORS):
        kind = rng.randrange(6)
        if kind == 0:
            np.sum(y).backward()
            np.sum(y * 2.0).backward()
        elif kind == 1:
            with tg.no_grad():
                x[0] = 5.0
            np.sum(y).backward()
        elif kind == 2:
            y.backward()
        elif kind == 3:
            circle = [x, y]
            circle.append(circle)
            x.register_hook(lambda g: circle and None)
        elif kind == 4:
            with tg.autograd.detect_anomaly():
                np.sum(np.log(y - 1e9)).backward()
        else:
            tg.autograd.grad(np.sum(y), [x, leaf()])


def recursion(rng):
    """As deep as Python lets us, inside of a recording."""

    def deep(x):
        return deep(x * 1.0)

    before = sys.getrecursionlimit()
    with contextlib.suppress(RecursionError):
        sys.setrecursionlimit(len(_stack()) + 150)
        try:
            rng.choice([tg.grad, lambda f: tg.compile(f).grad, tg.hessian])(deep)(V)
        finally:
            sys.setrecursionlimit(before)


def _stack():
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def abandoned(rng):
    """Generators left in the middle of a mode, and modes ended in another order."""

    def inside(mode):
        with mode:
            yield leaf() * 2.0
            yield None

    mode = rng.choice([tg.no_grad, tg.enable_grad, tg.inference_mode])
    generator = inside(mode())
    next(generator)
    if rng.random() < 0.5:
        with contextlib.suppress(Raised):
            generator.throw(Raised("end"))
    del generator

    @mode()
    def steps():
        yield leaf() * 2.0

    next(steps())
    outer = tg.no_grad()
    outer.__enter__()
    with contextlib.suppress(*ERRORS):
        tg.grad(curve)(V)
    del outer  # never ended


# --- interrupts, threads, forks -----------------------------------------------------------------


def interrupt(rng):
    """Ctrl-C at any moment of some work."""
    armed = True

    def stop(*_):
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    name = rng.choice([*WORKS])
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 2e-3))
            end = time.monotonic() + 5e-3
            while time.monotonic() < end:
                WORKS[name]()
        finally:
            armed = False
    except KeyboardInterrupt:
        armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def threads(rng):
    """Threads that compute at once, hand tensors on, and may be interrupted."""
    shared, wrong = [leaf()], []

    def run(own):
        try:
            for _ in range(3):
                WORKS[own.choice(QUICK)]()
                shared.append(shared[own.randrange(len(shared))] * 1.0)
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            wrong.append(error)

    made = [threading.Thread(target=run, args=(random.Random(rng.random()),)) for _ in range(3)]
    for thread in made:
        thread.start()
    if rng.random() < 0.3:
        set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_exception(ctypes.c_ulong(made[0].ident), ctypes.py_object(KeyboardInterrupt))
    WORKS[rng.choice(QUICK)]()
    for thread in made:
        thread.join()
    if wrong:
        raise AssertionError("a thread went wrong") from wrong[0]
    np.sum(shared[-1] * W).backward()
    close(shared[0].grad.numpy(), W)


def fork(rng):
    """A child that computes, perhaps while a thread of the parent does."""
    run = WORKS[rng.choice(QUICK)]
    other = threading.Thread(target=lambda: [WORKS[name]() for name in QUICK])
    if rng.random() < 0.5:
        other.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            run()
            status = 0
        finally:
            os._exit(status)
    if other.ident is not None:
        other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a child went wrong"


#: Kinds, and how often each is picked.
KINDS = {
    refused_write: 30,
    exception: 30,
    failing_function: 10,
    failing_hook: 10,
    wrong_order: 10,
    strange_arguments: 60,
    recursion: 1,
    abandoned: 5,
    interrupt: 6,
    threads: 3,
    fork: 0.3,
}


# --- the run ------------------------------------------------------------------------------------


def held() -> dict[str, int]:
    """What the store holds once everything has been let go of that can be, and our memory."""
    for _ in range(3):
        gc.collect()
    with store.lock:
        store.seal()
        store.look()
    assert not store.is_sweeping() and not workspace._readers and not workspace._waiting
    found = store.statistics()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return {**found, "resident": pages * resource.getpagesize()}


def check_growth(half: dict, end: dict) -> None:
    assert end["rows"] <= half["rows"] + 8192 and end["inputs"] <= half["inputs"] + 64, (half, end)
    assert end["chunks"] <= half["chunks"] + 4, (half, end)
    assert end["resident"] <= 1.1 * half["resident"] + (32 << 20), (half, end)


def main(count: int, seed: int, report=print) -> None:
    """Make so many calls; what goes wrong is raised, with the number of the call."""
    rng = random.Random(seed)
    report(f"{count} hostile calls, seed {seed}")
    faulthandler.enable()
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None  # interrupts in callbacks
    half: dict[str, int] = {}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check_all()
            for number in range(count):
                (kind,) = rng.choices([*KINDS], [*KINDS.values()])
                try:
                    kind(rng)
                    assert tg.is_grad_enabled() and not runtime.noted_inputs()
                    assert gc.isenabled()
                    if number % 50 == 49:
                        check_all()
                except BaseException as error:
                    raise AssertionError(f"call {number}, {kind.__name__}") from error
                if number + 1 == count // 2:
                    half = held()
                if (number + 1) % max(1000, count // 50) == 0:
                    report(f"{number + 1} calls: {held()}")
            check_all()
            check_growth(half, held())
    finally:
        sys.unraisablehook = unraisable
    report("no crash, no growth")


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(given[0] if given else 200_000, given[1] if len(given) > 1 else random.randrange(1 << 30))

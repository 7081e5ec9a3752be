"""Forks of a process that records, sweeps and compiles in any thread: the child can do all."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import process
from tapegrad._core.remembered import remembered
from tapegrad._core.tape import store, workspace
from tapegrad._core.tensor import runtime
from tapegrad._program.dispatch import takeover

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork here"
)
V = np.linspace(0.1, 1.0, 7)
SECONDS = 60


def f(x):
    return np.sum(np.sin(x) * x)


WANTED = np.sin(V) + np.cos(V) * V


def forked(run):
    """What a child that does this ends with: 0 if all is well, −14 if it hung."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            run()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def everything():
    """Rows, sweeps, higher order, threads and programs, as the first thing or not."""
    for _ in range(5):
        x = tg.tensor(V, requires_grad=True)
        y = x * 1.0
        y[0] = y[1] * 2.0
        np.sum(y * y).backward()
        np.testing.assert_allclose(x.grad.numpy()[2:], 2 * V[2:], rtol=1e-13)
    z = first = tg.tensor(0.5, requires_grad=True)
    for _ in range(9000):
        z = z * 1.0
    z.backward()
    assert first.grad.item() == 1.0
    np.testing.assert_allclose(tg.grad(f)(V), WANTED, rtol=1e-13)
    np.testing.assert_allclose(tg.hessian(lambda x: np.sum(x**3))(V), np.diag(6 * V), rtol=1e-13)
    c = tg.compile(f, native=True)
    np.testing.assert_allclose(c.grad(V), WANTED, rtol=1e-13)
    c.wait()
    np.testing.assert_allclose(c.map(np.tile(V, (99, 1)), threads=3)[1][-1], WANTED, rtol=1e-12)


def is_native(c):
    (family,) = c._families.found.values()
    return family.found[0].program.native


def test_native_code_after_native_code_of_the_parent():
    c = tg.compile(f, native=True)
    c.grad(V)
    c.wait()

    def run():
        np.testing.assert_allclose(c.grad(V), WANTED, rtol=1e-12)
        other = tg.compile(lambda x: np.sum(np.cos(x) * x), native=True)
        other.grad(V)
        other.wait()
        assert is_native(other)
        np.testing.assert_allclose(other.grad(V), np.cos(V) - np.sin(V) * V, rtol=1e-12)

    assert forked(run) == 0


def test_native_code_that_is_being_compiled():
    """The child compiles itself what it waits for."""
    made = [
        tg.compile(lambda x, k=k: np.sum(np.exp(x * 0.1) * x**k), native=True) for k in range(2, 5)
    ]
    for c in made:
        c.grad(V)

    def run():
        for k, c in enumerate(made, 2):
            c.wait()
            assert is_native(c)
            slope = np.exp(V * 0.1) * (0.1 * V**k + k * V ** (k - 1))
            np.testing.assert_allclose(c.grad(V), slope, rtol=1e-12)

    assert forked(run) == 0
    for c in made:
        c.wait()
        assert is_native(c)


def in_silence(stop):
    while not stop.is_set():
        with tg.no_grad():
            time.sleep(1e-4)


def with_numbers(stop):
    while not stop.is_set():
        y = x = tg.tensor(1.0, requires_grad=True)
        for _ in range(6000):
            y = y * 1.0001
        y.backward()
        assert x.grad.item() > 1.0


def with_large_arrays(stop):
    x = tg.tensor(np.linspace(0.0, 1.0, 300_000), requires_grad=True)
    while not stop.is_set():
        x.grad = None
        f(x).backward()


def with_programs(stop):
    while not stop.is_set():
        tg.compile(lambda x: np.sum(x * x * x)).grad(V)


def with_hessians(stop):
    while not stop.is_set():
        tg.hessian(f)(V)


def test_threads_are_at_work():
    """Whatever they hold, the child does not wait for it; what they were about is forgotten."""

    def run():
        everything()
        assert not store.is_sweeping() and not workspace._readers and not workspace._waiting
        assert not runtime._silent

    everything()
    stop = threading.Event()
    works = (in_silence, with_numbers, with_large_arrays, with_programs, with_hessians)
    threads = [threading.Thread(target=one, args=(stop,), daemon=True) for one in works]
    for thread in threads:
        thread.start()
    try:
        assert [forked(run) for _ in range(6)] == [0] * 6
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    everything()


def test_no_lock_is_held_in_a_child():
    """A fork waits until other threads have let go of every lock there is."""
    everything()
    held, let_go = threading.Event(), threading.Event()

    def hold():
        locks = [store.lock, runtime._count_lock, *process._locks[::-1]]
        for lock in locks:
            lock.acquire()
        held.set()
        time.sleep(0.3)
        let_go.set()
        for lock in locks:
            lock.release()

    def run():
        assert let_go.is_set()
        everything()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert forked(run) == 0
    thread.join()


def test_a_fork_inside_of_a_sweep():
    """The thread that forks is there in both, in the middle of its backward pass."""
    x = tg.tensor(V, requires_grad=True)
    y = x * 2.0
    found = []

    @tg.enable_grad()
    def run():
        everything()
        assert store.is_sweeping()

    def hook(_):
        found.append(forked(run))

    y.register_hook(hook)
    np.sum(y * y).backward()
    assert found == [0] and not store.is_sweeping()
    np.testing.assert_allclose(x.grad.numpy(), 8 * V, rtol=1e-13)


def test_threads_that_fork_at_once():
    found, start = [], threading.Barrier(4)

    def many():
        start.wait()
        for _ in range(3):
            found.append(forked(lambda: tg.grad(f)(V)))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0] * 12


def test_native_code_that_several_threads_of_the_child_wait_for():
    """The compiling thread is the parent's: one thread compiles, the others wait for it."""
    go = threading.Event()
    takeover.later(go.wait)
    c = tg.compile(lambda x: np.sum(np.exp(x * 0.2) * x), native=True)
    c.grad(V)

    def run():
        threads = [threading.Thread(target=c.wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS / 2)
        assert not any(thread.is_alive() for thread in threads)
        assert is_native(c)

    try:
        assert forked(run) == 0
    finally:
        go.set()
    c.wait()
    assert is_native(c)


def test_a_property_that_another_thread_is_finding():
    inside, go, caller = threading.Event(), threading.Event(), threading.get_ident()

    class Owner:
        @remembered
        def found(self):
            if threading.get_ident() != caller:
                inside.set()
                go.wait()
            return object()

    owner = Owner()
    thread = threading.Thread(target=lambda: owner.found)
    thread.start()
    inside.wait()

    def run():
        assert owner.found is owner.found

    try:
        assert forked(run) == 0
        first = owner.found
    finally:
        go.set()
    thread.join()
    assert owner.found is first


#: In a process of its own: each order in which a thread takes two locks.
ORDERS = """
import _thread, sys, threading
import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock

own, edges, pairs = threading.local(), {}, {}

class Noting:
    def __init__(self, lock, name):
        self.lock, self.name = lock, name

    def acquire(self, blocking=True, timeout=-1):
        held = own.__dict__.setdefault("held", [])
        if blocking and self not in held:
            for other in held:
                edges.setdefault(id(other), set()).add(id(self))
                pairs[id(other), id(self)] = other.name, self.name
        taken = self.lock.acquire(blocking, timeout)
        if taken:
            held.append(self)
        return taken

    def release(self):
        own.held.remove(self)
        self.lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    def _is_owned(self):
        return self.lock._is_owned()

def noting(usual=threading.RLock):
    frame = sys._getframe(1)
    if frame.f_globals["__name__"] != "tapegrad._core.codegen.process":
        return usual()
    maker = frame.f_back
    return Noting(usual(), f"{maker.f_globals['__name__']}:{maker.f_lineno}")

def waited_for(function, given, usual=_thread.start_new_thread):
    held = [*own.__dict__.setdefault("held", [])]

    def run(*given):
        own.held = held
        function(*given)

    return usual(run, given)

threading.RLock, _thread.start_new_thread = noting, waited_for
for owner, name in ((global_compiler_lock, "numba"), (llvm.ffi.lib._lock, "llvm")):
    owner._lock = Noting(owner._lock, name)
import test_forks

def circle(start, now, seen):
    for one in edges.get(now, ()):
        if one == start:
            return [pairs[now, one]]
        if one not in seen:
            seen.add(one)
            found = circle(start, one, seen)
            if found:
                return [pairs[now, one], *found]
    return []

test_forks.everything()
test_forks.with_many_kinds()
assert len(pairs) > 15, pairs
for start in edges:
    assert not circle(start, start, set()), circle(start, start, set())
"""


def with_many_kinds():
    """What takes most locks: families that are imported later, transforms, graphs, custom rules."""
    a = np.diag(V + 1.0) + 0.1
    transformed = tg.compile(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))
    for point in (V, V + 1.0):
        tg.grad(transformed)(point)
    tg.grad(lambda x: np.sum(np.linalg.inv(a * x)) + np.sum(np.linalg.eigvalsh(a * x)))(V)
    tg.vmap(tg.grad(lambda x: np.sum(np.i0(x))))(np.tile(V, (3, 1)))
    tg.jvp(lambda x: np.sum(np.cumsum(x) * x), (V,), (V,))
    branching = tg.compile(lambda x: x[0] ** 2 if x[0] > 0.5 else 3.0 * x[1], native=True)
    for point in (V, -V):
        branching.value_and_grad(point)
    branching.wait()
    cubed = tg.elementwise(lambda x: x**3)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(cubed(x)))(V), 3 * V**2, rtol=1e-13)


def test_no_two_locks_are_taken_in_both_orders():
    """Threads that took them so could wait for each other for ever."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ORDERS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]

"""Compilations go on where an interrupt ends the waiting for them."""

import gc
import signal
import subprocess
import sys
import threading
import time
import types
from importlib.machinery import ModuleSpec

import pytest
from numba.core.compiler_lock import global_compiler_lock

from tapegrad._core.codegen import factory, process
from tapegrad._core.codegen.uninterrupted import _is_importing, uninterrupted

TEXT = "def doubled{}(x):\n    return x + x\n"


@pytest.fixture
def alarm():
    """Interrupt the main thread after so many seconds."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_where_it_runs():
    """In another thread if this is the main one, unless that would wait for this one."""
    main = threading.get_ident()
    assert uninterrupted(threading.get_ident) != main
    assert uninterrupted(lambda: uninterrupted(threading.get_ident)) != main
    with global_compiler_lock:
        assert uninterrupted(threading.get_ident) == main
    others = []

    def run():
        others.append((threading.get_ident(), uninterrupted(threading.get_ident)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert others[0][0] == others[0][1]


def test_errors_pass():
    def fail():
        raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(ZeroDivisionError, match="nothing to divide by"):
        uninterrupted(fail)
    with pytest.raises(SystemExit):
        uninterrupted(lambda: sys.exit(3))


def test_an_interrupt_ends_the_waiting(alarm, monkeypatch):
    text, exports = TEXT.format("once"), {"doubledonce": "int64(int64)"}
    compiles = factory.compile_source
    ended, usual = [], factory.read

    def slow(path):
        time.sleep(0.3)
        ended.append(path)
        return usual(path)

    monkeypatch.setattr(factory, "read", slow)
    with pytest.raises(KeyboardInterrupt):
        alarm(0.05)
        compiles(text, exports)
    assert not ended
    addresses = compiles(text, exports)  # which waits for the first, or finds its result
    assert addresses == compiles(text, exports) and len(ended) <= 2


@pytest.mark.parametrize("moment", ["disable", "enable"])
def test_collections_go_on_after_an_interrupt(moment, monkeypatch):
    """Nothing collected garbage any more in a process once interrupted where it paused."""

    class Interrupted:
        def __getattr__(self, name):
            def call():
                result = getattr(gc, name)()
                if name == moment:
                    raise KeyboardInterrupt
                return result

            return call

    with monkeypatch.context() as changed:
        changed.setattr(process, "gc", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            with process.paused():
                assert not gc.isenabled()
    assert gc.isenabled()
    with process.paused(), process.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


SCRIPT = """
import signal, sys, time
import numpy as np
import tapegrad as tg

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
f, x, stopped = lambda x: np.sum(np.sin(x) * x), np.linspace(0.0, 1.0, 5), 0
for _ in range(200):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.03)
            tg.grad(f)(x)
            tg.hessian(f)(x)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        stopped += 1
found = tg.grad(f)(x)
np.testing.assert_allclose(found, np.sin(x) + x * np.cos(x), rtol=1e-12)
print(stopped)
"""


def test_first_gradients_that_are_interrupted(tmp_path, monkeypatch):
    """Nothing is left half loaded: Numba's declarations, LLVM's lock, machine code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TAPEGRAD_WITHOUT", "libmvec")  # nothing made beforehand is for that
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3


def test_the_end_of_a_process_waits_for_nothing_long(tmp_path, monkeypatch):
    """An interrupt ends a process whose first gradient is being compiled."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TAPEGRAD_WITHOUT", "libmvec")  # nothing made beforehand is for that
    script = SCRIPT[: SCRIPT.index("for _ in")] + (
        "signal.setitimer(signal.ITIMER_REAL, 0.3)\ntg.grad(f)(x)\n"
    )
    words = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stderr


def test_a_first_gradient_at_the_end_of_a_process():
    """No thread can begin there any more."""
    script = (
        "import atexit, numpy as np, tapegrad as tg\n"
        "atexit.register(lambda: print(tg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[1. 1.]\n", done.stderr


def test_modules_that_are_being_imported_are_seen(monkeypatch):
    """Those that have come since the last look, and all of them when some have gone."""
    assert not _is_importing()
    module = types.ModuleType("tapegrad.new")
    module.__spec__ = ModuleSpec("tapegrad.new", None)
    monkeypatch.setitem(sys.modules, "tapegrad.new", module)
    for is_being_imported in (True, False):
        module.__spec__._initializing = is_being_imported
        assert _is_importing() == is_being_imported
    other = types.ModuleType("other")
    monkeypatch.setitem(sys.modules, "other", other)
    assert not _is_importing()
    module.__spec__._initializing = True  # imported anew, in the place of the last two
    del sys.modules["tapegrad.new"], sys.modules["other"]
    sys.modules["tapegrad.new"] = module
    assert _is_importing()
    sys.modules["other"] = other
    assert _is_importing()

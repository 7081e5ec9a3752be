"""Several processes and one cache of kernels: pools by fork and spawn, races, no place to write."""

import multiprocessing
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg

#: Scalars, element-wise and structural kernels, a write; prints a gradient.
PROGRAM = """
import numpy as np, warnings
import tapegrad as tg
def f(x):
    g = x * 2.0
    g[1:] = np.sin(x[:-1])
    return np.sum(g * g) + x[0] * x[1] + np.sum(x[[0, 0]])
print(tg.grad(f)(np.array([0.1, 0.2, 0.3])).tolist())
"""


def f(x):
    g = x * 2.0
    g[1:] = np.sin(x[:-1])
    return np.sum(g * g) + x[0] * x[1] + np.sum(x[[0, 0]])


AT = np.array([0.1, 0.2, 0.3])
WANTED = np.array([8 * 0.1 + np.sin(0.2) + 0.2 + 2.0, np.sin(0.4) + 0.1, 0.0])


def gradient(_=None):
    """What a worker of a pool does."""
    return tg.grad(f)(AT)


def environment(cache):
    """Variables of processes that compile: machine code made before is for all assumptions."""
    return {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
        "TAPEGRAD_WITHOUT": "libmvec",
    }


def start(cache, program=PROGRAM):
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", program],
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, error = process.communicate(timeout=180)
    assert process.returncode == 0, error
    return out, error


def check(text):
    np.testing.assert_allclose(np.array(eval(text)), WANTED, rtol=1e-13)


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """A cache that two processes have filled at the same time, and what they said."""
    cache = tmp_path_factory.mktemp("cache")
    processes = [start(cache) for _ in range(2)]
    return cache, [finish(process) for process in processes]


def test_two_processes_compile_the_same_kernels_at_once(cold):
    _, said = cold
    for out, error in said:
        check(out)
        assert "Warning" not in error


def test_a_warm_cache_is_used(cold):
    """Nothing is compiled, hence nothing written."""
    cache, _ = cold
    before = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}
    assert any(p.suffix == ".o" for p in before) and not any(p.suffix == ".tmp" for p in before)
    check(finish(start(cache))[0])
    after = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}
    machine_code = {p for p in before if p.suffix == ".o"}
    assert {p: after[p] for p in machine_code} == {p: before[p] for p in machine_code}
    assert {p for p in after if p.suffix == ".o"} == machine_code


POOL = """
import multiprocessing, sys
sys.path[:] = {path!r}
import test_processes as t
if __name__ == "__main__":
    if {first}:
        t.check(repr(t.gradient().tolist()))
    with multiprocessing.get_context({method!r}).Pool(3) as pool:
        for found in pool.map(t.gradient, range(6)):
            t.check(repr(found.tolist()))
    print("done")
"""


@pytest.mark.parametrize("first", [True, False], ids=["after-use", "before-use"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_on_a_warm_cache(cold, tmp_path, method, first):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    script = tmp_path / "pool.py"
    script.write_text(POOL.format(path=sys.path, method=method, first=first))
    done = subprocess.run(
        [sys.executable, script],
        env=environment(cold[0]),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr


def test_a_forked_pool_on_a_cold_cache(tmp_path):
    """Three workers race for the first compilation."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    script = tmp_path / "pool.py"
    script.write_text(POOL.format(path=sys.path, method="fork", first=False))
    done = subprocess.run(
        [sys.executable, script],
        env=environment(tmp_path / "cache"),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr


def test_a_fork_while_a_tape_is_alive():
    """The child records and sweeps on its copy; the parent's tape is as it was."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    x = tg.tensor(AT, requires_grad=True)
    loss = f(x)
    loss.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            loss.backward()
            right = np.allclose(x.grad.numpy(), 2 * first, rtol=1e-14)
            status = 0 if right and np.allclose(gradient(), WANTED) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-14)


def test_a_cache_folder_that_cannot_be_written(tmp_path):
    """It works all the same and says so once. A file in the way stops any user, root too."""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    out, error = finish(start(blocked))
    check(out)
    assert error.count("cannot be written") == 1
    assert "Set TAPEGRAD_CACHE_DIR to a folder that can be written to keep them." in error


def test_threads_that_begin_at_once():
    """Nothing is compiled or loaded yet when six threads ask for their first gradients."""
    program = (
        PROGRAM.rpartition("print")[0]
        + """
import threading
found = {}
def work(k):
    for _ in range(50):
        found[k] = tg.grad(f)(np.array([0.1, 0.2, 0.3]))
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print([found[k].tolist() for k in range(6)])
"""
    )
    out, _ = finish(start(os.environ.get("NUMBA_CACHE_DIR", ""), program))
    np.testing.assert_allclose(np.array(eval(out)), np.tile(WANTED, (6, 1)), rtol=1e-12)


#: Native code that is never ready is wanted twice, when the user interrupts and the process ends.
INTERRUPTED = """
import os, signal, threading, time
import numpy as np, tapegrad as tg
from tapegrad._program.dispatch import takeover

def endless(*given, **chosen):
    begun.set()
    while True:
        time.sleep(0.001)

signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells take from jobs
begun, takeover.Program = threading.Event(), endless
c = tg.compile(lambda x: np.sum(x * x), native=True)
for n in (3, 4):
    print(c(np.ones(n)), c(np.ones(n)), flush=True)
begun.wait()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
c.wait()
"""


def test_an_interrupted_process_does_not_wait_for_native_code():
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert found.stdout == "3.0 3.0\n4.0 4.0\n" and found.returncode != 0
    assert found.stderr.rstrip().endswith("KeyboardInterrupt"), found.stderr

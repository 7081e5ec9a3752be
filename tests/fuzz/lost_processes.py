"""Processes in which several threads compile and load machine code: none may be lost.

`python tests/fuzz/lost_processes.py 300` runs a script of four small native calls so many times, on
a warm cache of its own, with two busy processes for each core and with delays planted in some of
the runs. It prints how many processes were lost, and what the first of them said. The suite makes a
few runs (test_loading.py).
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Each length of the data is another call of a graph whose code is made in the background.
SCRIPT = """
import numpy as np, tapegrad as tg

def loss(p, t, z):
    total = 0.0
    for i0 in range(len(t)):
        i1 = z[i0] - p[0] * np.exp(-p[1] * t[i0])
        if i1 > 0.5:
            total = total + 2.0 * i1 - 0.5
        elif i1 < -0.5:
            total = total - 2.0 * i1 - 0.5
        else:
            total = total + 2.0 * i1 * i1
    return total

p, t = np.array([1.5, 0.3]), np.linspace(0.0, 3.0, 90)
z = 1.4 * np.exp(-0.4 * t) + np.where(np.arange(90) % 7, 0.0, 1.5)
c = tg.compile(loss, native=True, verify="never")
for n in (90, 70, 50, 30):
    value, slope = c.value_and_grad(p, t[:n], z[:n])
    np.testing.assert_allclose(value, loss(p, t[:n], z[:n]), rtol=1e-12)
    step = np.array([1e-6, 0.0])
    central = loss(p + step, t[:n], z[:n]) - loss(p - step, t[:n], z[:n])
    np.testing.assert_allclose(slope[0], central / 2e-6, rtol=1e-6)
c.wait()
print("all four")
"""
#: Where a thread loses the processor: nowhere; in the background, before each loader; in the
#: background, whenever a function that loads code is entered or left.
DELAYS = {
    "none": "",
    "loaders": """
import threading, time
import tapegrad
from tapegrad._core.codegen import machine_code

def delayed(load):
    def loader():
        if threading.current_thread().name.startswith("tapegrad"):
            time.sleep(1.0)
        load()
    return loader

for _symbol, _load in [*machine_code.LOADERS.items()]:
    machine_code.LOADERS[_symbol] = delayed(_load)
""",
    "profile": """
import os, threading, time
LOADING = ("compat", "factory", "machine_code", "shared_kernels")
LOADERS = ("load", "_load", "_link_fortran", "compile_group")

def stop(frame, event, _):
    stem, name = os.path.basename(frame.f_code.co_filename)[:-3], frame.f_code.co_name
    if event in ("call", "return") and stem in LOADING:
        if threading.current_thread().name.startswith("tapegrad"):
            time.sleep(0.5 if event == "call" and name in LOADERS else 0.002)

threading.setprofile(stop)
""",
}


def begun(cache, delay="none"):
    """A process that runs the script."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, too
        "PYTHONPYCACHEPREFIX": str(Path(cache) / "bytecode"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    code = DELAYS[delay] + SCRIPT
    given = [sys.executable, "-W", "error", "-X", "faulthandler", "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(given, env=environment, text=True, **pipes)


def outcome(process, seconds=300):
    """ "" if all is well, else the status and the last words of a process."""
    try:
        out, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"did not end in {seconds} s: " + process.communicate()[1][-3000:]
    return "" if (process.returncode, out) == (0, "all four\n") else f"{process.returncode}: {said}"


def lost(cache, delays, at_once=2):
    """What went wrong, of one process for each of `delays`, some of them at once."""
    waiting, running, found = list(delays), [], []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(begun(cache, waiting.pop()))
        found.append(outcome(running.pop(0)))
    return [one for one in found if one]


def main():
    """Run the script many times beside busy processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=300)
    parser.add_argument("--busy", type=int, default=2, help="busy processes for each core")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with tempfile.TemporaryDirectory() as cache:
        assert not lost(cache, DELAYS, 1), "a process is lost on an empty cache"
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(given.busy * cores)
        ]
        begin = time.monotonic()
        try:
            names = [[*DELAYS][k % len(DELAYS)] for k in range(given.count)]
            wrong = lost(cache, names, max(2, cores))
        finally:
            for process in busy:
                process.kill()
                process.wait()
    seconds = time.monotonic() - begin
    print(
        f"{given.count} processes, {len(busy)} busy ones beside: {len(wrong)} lost, {seconds:.0f} s"
    )
    for status, count in collections.Counter(one.split(":")[0] for one in wrong).items():
        print(f"{count} ended with {status}")
    print(*wrong[:1], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Machine code loaded by several threads, beside forks and imports: what it calls is there."""

import os
import subprocess
import sys
import threading

import lost_processes
import numpy as np
import pytest
from extent import rounds
from source_rules import ROOT

from tapegrad._core.codegen import compat, factory, machine_code, machine_files, uninterrupted

HEAD = """
import ctypes, os, sys, threading
from tapegrad._core.codegen import machine_code, factory, vector_math

HEAD = "from tapegrad._core.codegen import vector_math as np\\n"
inside, go = threading.Event(), threading.Event()
SECONDS = 0.3

def text(body):
    return HEAD + "def f(x):\\n    " + body + "\\n"

def called(body, x=1.0, way=factory.compile_source):
    at = way(text(body), {"f": "float64(float64)"})["f"]
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(at)(x)

LOADERS = machine_code.LOADERS
key = next(one for one in LOADERS if one.endswith("i1"))

def plant(loader):
    LOADERS[key] = lambda usual=LOADERS[key]: loader(usual)

def wait_inside(usual):
    inside.set()
    go.wait(SECONDS)
    usual()
"""
I1 = 0.5651591039924851


def run(code):
    """What a process with this code prints; it must not be lost."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = [sys.executable, "-W", "error", "-X", "faulthandler", "-c", HEAD + code]
    done = subprocess.run(given, capture_output=True, text=True, env=variables, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-3000:]}"
    return done.stdout.split()


@pytest.mark.parametrize("way, seconds", [("compile_source", 0.3), ("compile_source", 1.5)])
def test_a_thread_waits_for_a_symbol_that_another_one_loads(way, seconds):
    """Without that its code is loaded with calls of nothing, and the process dies."""
    found = run(
        f"plant(wait_inside); SECONDS, first = {seconds}, []\n"
        f"other = threading.Thread(target=lambda: first.append(called('return np.i1(x) * 2.0')))\n"
        f"other.start(); inside.wait()\n"
        f"print(called('return np.i1(x) + 0.0', way=factory.{way}))\n"
        f"go.set(); other.join(); print(*first)\n"
    )
    np.testing.assert_allclose([float(one) for one in found], [I1, 2 * I1], rtol=1e-13)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_loads_a_symbol():
    found = run(
        "import warnings; warnings.simplefilter('ignore')\n"
        "plant(wait_inside)\n"
        "other = threading.Thread(target=called, args=('return np.i1(x) * 3.0',))\n"
        "other.start(); inside.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print(called('return np.i1(x) + 1.0'), flush=True); os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); go.set(); other.join()\n"
    )
    np.testing.assert_allclose([float(one) for one in found], [1 + I1, 0], rtol=1e-13)


def test_modules_that_register_loaders_while_one_runs():
    found = run(
        "def importing(usual):\n"
        "    before = len(LOADERS)\n"
        "    import tapegrad._core.codegen.complex_lapack, tapegrad._core.codegen.pocketfft\n"
        "    assert len(LOADERS) > before\n"
        "    usual()\n"
        "plant(importing)\n"
        "print(called('return np.i1(x) * 4.0'))\n"
    )
    np.testing.assert_allclose(float(found[0]), 4 * I1, rtol=1e-13)


def test_a_loader_that_fails_runs_again():
    found = run(
        "def failing(usual):\n"
        "    if not inside.is_set():\n"
        "        inside.set(); raise ImportError('not yet')\n"
        "    usual()\n"
        "plant(failing)\n"
        "try:\n"
        "    called('return np.i1(x) * 5.0')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "print(called('return np.i1(x) * 5.0'))\n"
    )
    assert found[:2] == ["not", "yet"]
    np.testing.assert_allclose(float(found[2]), 5 * I1, rtol=1e-13)


def test_variables_with_names_of_symbols_load_nothing():
    found = run(
        "def never(usual):\n"
        "    raise AssertionError('it is not called')\n"
        "for key in [*LOADERS]:\n"
        "    plant(never)\n"
        "body = 'i0 = x + 1.0\\n    i1 = i0 * x\\n    gammaln = i1\\n    return gammaln'\n"
        "for way in (factory.compile_source, factory.compile_source):\n"
        "    print(called(body, 3.0, way), 'scipy.special' in sys.modules)\n"
    )
    assert found == ["12.0", "False", "12.0", "False"]


def test_threads_that_probe_fourier_transforms_at_once():
    """The loops that a probe finds are there for who is told that the assumption holds."""
    found = run(
        "import numpy as np, tapegrad as tg\n"
        "from tapegrad._core.codegen import compat, pocketfft\n"
        "def holds(name, probe, part='', usual=compat.holds):\n"
        "    found = usual(name, probe, part)\n"
        "    if name == 'numpy-ufunc-fields' and threading.current_thread().name == 'slow':\n"
        "        inside.set(); go.wait(60)\n"
        "    return found\n"
        "compat.holds = holds\n"
        "other = threading.Thread(target=pocketfft.is_available, name='slow')\n"
        "other.start(); inside.wait()\n"
        "c = tg.compile(lambda x: np.sum(np.fft.rfft(x).real ** 2))\n"
        "x = np.arange(4.0)\n"
        "print(*[c.value_and_grad(x + k)[0] for k in range(3)])\n"
        "go.set(); other.join()\n"
    )
    wanted = [np.sum(np.fft.rfft(np.arange(4.0) + k).real ** 2) for k in range(3)]
    np.testing.assert_allclose([float(one) for one in found], wanted, rtol=1e-13)


def test_a_probe_runs_once_for_threads_that_ask_at_once(monkeypatch):
    monkeypatch.setattr(compat, "_found", {})
    monkeypatch.delenv("TAPEGRAD_WITHOUT", raising=False)
    asked, inside, go = [], threading.Event(), threading.Event()

    def probe():
        asked.append(threading.current_thread().name)
        inside.set()
        go.wait(0.2)
        return True

    def ask():
        return compat.holds("numba-reader", probe)

    other = threading.Thread(target=ask)
    other.start()
    inside.wait()
    assert ask()
    other.join()
    assert len(asked) == 1


# --- the list of symbols that machine code carries ------------------------------------------------

TEXT = """
declare double @tapegrad_of_{name}(double)
declare double @tapegrad_declared_only(double)
define i64 @f(i64 %x) {{
  %a = sitofp i64 %x to double
  %b = call double @tapegrad_of_{name}(double %a)
  %c = fptosi double %b to i64
  ret i64 %c
}}
"""
ONE = """
define i64 @one(i64 %x) {
  %a = add i64 %x, 1
  ret i64 %a
}
"""


def named(name, loader, monkeypatch):
    monkeypatch.setitem(machine_code.LOADERS, f"tapegrad_of_{name}", loader)


def test_a_symbol_that_nobody_defines_is_an_error():
    """Of LLVM it would be the end of the process; also where the code comes from a file."""
    for _ in range(2):
        with pytest.raises(RuntimeError, match="calls tapegrad_of_nobody, which this process"):
            factory.compile_assembly(TEXT.format(name="nobody"), ("f",))
    assert factory.compile_assembly(ONE, ("one",))["one"]


def test_a_loader_that_does_not_name_its_symbol_is_an_error(monkeypatch):
    named("nothing", lambda: None, monkeypatch)
    with pytest.raises(RuntimeError, match="calls tapegrad_of_nothing, which"):
        factory.compile_assembly(TEXT.format(name="nothing"), ("f",))


def test_a_loader_that_needs_its_own_symbol_is_an_error(monkeypatch):
    def circular():
        factory.compile_assembly(TEXT.format(name="itself").replace("sitofp", "uitofp"), ("f",))

    named("itself", circular, monkeypatch)
    with pytest.raises(RuntimeError, match="calls tapegrad_of_itself, which"):
        factory.compile_assembly(TEXT.format(name="itself"), ("f",))


def test_a_file_carries_the_symbols_that_its_code_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(factory, "cache_folder", lambda: tmp_path)
    with pytest.raises(RuntimeError, match="nowhere"):
        factory.compile_assembly(TEXT.format(name="nowhere"), ("f",))
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[machine_files._DIGEST_BYTES :].startswith(b"tapegrad_of_nowhere\n")


def undefined(code):
    """The undefined symbols of an ELF object file of 64 bits."""

    def words(at, size, count):
        data = code[at : at + size * count]
        return [int.from_bytes(data[k : k + size], "little") for k in range(0, len(data), size)]

    (sections,), (size, count, _) = words(0x28, 8, 1), words(0x3A, 2, 3)
    found = []
    for at in range(sections, sections + size * count, size):
        if words(at + 4, 4, 1) != [2]:  # no table of symbols
            continue
        (first, length), (link,) = words(at + 24, 8, 2), words(at + 40, 4, 1)
        (names,) = words(sections + size * link + 24, 8, 1)
        for entry in range(first, first + length, 24):
            (name,), (where,) = words(entry, 4, 1), words(entry + 6, 2, 1)
            if name and where == 0:
                end = code.index(b"\0", names + name)
                found.append(code[names + name : end].decode())
    return set(found)


@pytest.mark.skipif(sys.platform != "linux", reason="files of another format")
def test_the_lists_are_those_of_the_object_files():
    run(
        "import numpy as np, tapegrad as tg\n"
        "f = lambda x: np.sum(np.i0(x)) + np.sum(np.fft.rfft(x).real) + np.sum(np.exp(x))\n"
        "c = tg.compile(f); c.value_and_grad(np.arange(3.0)); c.value_and_grad(np.ones(3))\n"
    )
    paths, ours = sorted(machine_files.cache_folder().glob("k_*.o")), set()
    assert paths
    for path in paths:
        line, _, code = (machine_files.read(path) or b"").partition(b"\n")
        listed, needed = set(line.decode().split()), undefined(code)
        assert {one for one in listed ^ needed if one.startswith("tapegrad_")} == set(), path
        ours |= needed & listed
    assert {"tapegrad_i0", "tapegrad_cell", "slot_tapegrad_pocketfft", "exp"} <= ours


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", lost_processes.DELAYS)
def test_four_native_calls_on_a_warm_cache(delay):
    cache = os.environ.get("NUMBA_CACHE_DIR") or machine_files.cache_folder().parents[1]
    count = rounds(12, 4) if delay == "none" else rounds(4, 2)
    assert lost_processes.lost(cache, [delay] * count) == []


def test_work_is_not_handed_on_by_who_holds_the_lock():
    """A thread that waits for another must not hold what that one needs."""
    with machine_code.loading:
        assert not uninterrupted._may_be_interrupted()
    assert uninterrupted._may_be_interrupted()

"""The line in a terminal where compilation takes long: once a process, and only there."""

import os
import subprocess
import sys

import pytest
from source_rules import ROOT

from tapegrad._core.codegen import machine_files

pty = pytest.importorskip("pty")  # terminals of POSIX

#: Compiles texts of its own in threads; patience is how long it does so without a word.
SCRIPT = """
import sys, threading
from tapegrad._core.codegen import factory, progress
progress.PATIENCE = {patience}
def work(k):
    text = f"def export(a):\\n    return a + {{8000 + k}}\\n"
    factory.compile_source(text, {{"export": "int64(int64)"}})
threads = [threading.Thread(target=work, args=(k,)) for k in range({threads})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work(0)
print("done")
"""


def run(cache, *, patience=0.0, threads=1, terminal=True, before="", **variables):
    """What a process says on stderr, which is a terminal or a pipe."""
    script = before + SCRIPT.format(patience=patience, threads=threads)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TAPEGRAD_CACHE_DIR": str(cache)}
    leader, follower = pty.openpty() if terminal else os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            stdout=subprocess.PIPE,
            stderr=follower,
            env={**environment, **variables},
            timeout=300,
        )
    finally:
        os.close(follower)
    with os.fdopen(leader, "rb") as file:
        said = read_all(file)
    assert (done.returncode, done.stdout) == (0, b"done\n"), said
    return said.replace("\r\n", "\n")


def read_all(file):
    """The text in a terminal that nothing writes to any more: its end is an error of input."""
    found = b""
    while True:
        try:
            part = os.read(file.fileno(), 65536)
        except OSError:
            part = b""
        if not part:
            return found.decode()
        found += part


def test_one_line_for_all_that_a_process_compiles(tmp_path):
    said = run(tmp_path, threads=4)
    (folder,) = tmp_path.iterdir()
    assert said == (
        "tapegrad: compiling kernels for this processor, which takes some seconds once; they are "
        f"kept in {folder}\n"
    )
    assert run(tmp_path, threads=4) == ""  # all is in files now


@pytest.mark.parametrize(
    "given",
    [
        {"terminal": False},
        {"patience": 600.0},
        {"before": "import sys; sys.stderr = None\n"},
        {"before": "import sys; sys.stderr.close()\n"},
    ],
    ids=["pipe", "soon", "none", "closed"],
)
def test_where_nobody_looks_nothing_is_said(tmp_path, given):
    assert run(tmp_path, **given) == ""


def test_compilations_of_before_count(monkeypatch, tmp_path):
    made = []

    class Shown:
        def __init__(self, what, spent):
            made.append(spent)

        __enter__ = __exit__ = lambda *_: None

    monkeypatch.setattr(machine_files.progress, "is_wanted", lambda: True)
    monkeypatch.setattr(machine_files.progress, "Progress", Shown)
    monkeypatch.setattr(machine_files, "_spent", 0.0)
    times = iter([0.0, 1.5, 10.0, 12.0, 20.0, 20.0])
    monkeypatch.setattr(machine_files.time, "perf_counter", lambda: next(times))
    for _ in range(3):
        with machine_files.announced():
            pass
    assert made == [0.0, 1.5, 3.5]

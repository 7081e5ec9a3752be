"""`python -m tapegrad cache`: where compiled code is, how much, deleting and making it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg
from tapegrad import _first_uses
from tapegrad.__main__ import main
from tapegrad._core.codegen import machine_files
from tapegrad._core.ops.sample_inputs import example
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families

CODE, NAMES = f"k_{'0a' * 12}.o", f"modules_{'0b' * 12}.json"


def run(cache, *words):
    """Exit status, stdout and stderr of a command."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TAPEGRAD_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "error", "-m", "tapegrad", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=600)
    return done.returncode, done.stdout, done.stderr


def filled(cache):
    """Two versions' folders with files of ours: three of 5 bytes each."""
    for folder, name in (("a" * 16, CODE), ("a" * 16, NAMES), ("0123456789abcdef", CODE)):
        (cache / folder).mkdir(parents=True, exist_ok=True)
        (cache / folder / name).write_bytes(b"12345")
    return cache


def test_the_commands_in_turn(tmp_path):
    cache = tmp_path / "new" / "cache"
    assert run(cache, "cache", "path") == (0, f"{cache}\n", "")
    assert run(cache, "cache", "size") == (0, "0 files, 0 bytes\n", "")
    assert not cache.exists()  # nobody has compiled anything
    filled(cache)
    assert run(cache, "cache", "size") == (0, "3 files, 15 bytes\n", "")
    assert run(cache, "cache", "clear") == (0, "deleted 3 files, 15 bytes\n", "")
    assert [*cache.iterdir()] == []
    assert run(cache, "cache", "clear") == (0, "deleted 0 files, 0 bytes\n", "")


def test_help_names_every_command():
    status, out, error = run("/nowhere", "cache", "--help")
    assert (status, error) == (0, "")
    assert out.startswith("usage: python -m tapegrad cache")
    assert all(f"\n    {name} " in out for name in ("path", "size", "clear", "warm"))


@pytest.mark.parametrize("words", [[], ["cache"], ["cache", "empty"], ["cache", "path", "more"]])
def test_what_is_not_understood(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("usage: python -m tapegrad")


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tapegrad {tg.__version__}\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return filled(tmp_path / "cache")


def everything(folder):
    return {str(one.relative_to(folder)) for one in folder.rglob("*")}


def test_what_is_not_ours_stays(cache, capsys):
    """Other files and folders, also in folders of ours; files that are written at this moment."""
    ours = cache / ("a" * 16)
    for place in ("kept.txt", f"{ours.name}/notes.o", f"{ours.name}/k_0.o", "Aaaaaaaaaaaaaaaa/x"):
        (cache / place).parent.mkdir(exist_ok=True)
        (cache / place).write_text("another's")
    (cache / "named").mkdir()
    (cache / "named" / CODE).write_text("another's")
    (ours / "below").mkdir()
    (ours / "below" / CODE).write_text("another's")
    (ours / "tmpnow.tmp").write_text("of another process")
    (ours / "tmpold.tmp").write_bytes(b"12345")
    os.utime(ours / "tmpold.tmp", (time.time() - 7200.0,) * 2)
    gone = {CODE, NAMES, "tmpold.tmp"}
    before = everything(cache)
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "deleted 4 files, 20 bytes\n"
    wanted = {f"{ours.name}/{name}" for name in gone}
    wanted |= {"0123456789abcdef", f"0123456789abcdef/{CODE}"}
    assert before - everything(cache) == wanted


def test_links_are_not_followed(cache, tmp_path, capsys):
    """Of folders and of files, to what has the names of ours; a linked cache is the user's wish."""
    others = filled(tmp_path / "others")
    (cache / ("b" * 16)).symlink_to(others / ("a" * 16))
    link = f"k_{'1c' * 12}.o"
    (cache / ("a" * 16) / link).symlink_to(others / "0123456789abcdef" / CODE)
    linked = tmp_path / "linked"
    linked.symlink_to(cache)
    os.environ["TAPEGRAD_CACHE_DIR"] = str(linked)
    before = everything(others)
    assert main(["cache", "size"]) == 0 == main(["cache", "clear"])
    assert capsys.readouterr().out == "3 files, 15 bytes\ndeleted 3 files, 15 bytes\n"
    assert everything(others) == before
    assert everything(cache) == {"b" * 16, "a" * 16, f"{'a' * 16}/{link}"}
    assert linked.is_symlink()


def test_what_another_process_deletes_meanwhile_is_no_error(cache, monkeypatch, capsys):
    found = [*machine_files.files_of_all()]
    Path(found[0][0]).unlink()
    monkeypatch.setattr(machine_files, "files_of_all", lambda: iter(found))
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "deleted 3 files, 15 bytes\n"


def test_a_file_in_the_place_of_the_folder(tmp_path):
    """Nothing is in it, and nothing can be kept."""
    (tmp_path / "file").write_text("no folder")
    assert run(tmp_path / "file", "cache", "size") == (0, "0 files, 0 bytes\n", "")
    assert run(tmp_path / "file", "cache", "clear")[:2] == (0, "deleted 0 files, 0 bytes\n")
    assert (tmp_path / "file").read_text() == "no folder"


def test_errors_of_the_system_are_one_line(monkeypatch, capsys):
    def refused(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(machine_files.os, "scandir", refused)
    assert main(["cache", "size"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m tapegrad: [Errno 13] Permission denied")
    assert error.count("\n") == 1


def test_warming_where_nothing_is_kept(monkeypatch, capsys, tmp_path):
    """A temporary folder is in the place of one that cannot be written."""
    command = sys.modules["tapegrad.__main__"]
    monkeypatch.setattr(command, "cache_folder", lambda: tmp_path / "tapegrad-0")
    assert main(["cache", "warm"]) == 1
    assert "nothing was compiled" in capsys.readouterr().err


#: First uses as users have them; prints what was compiled, or read from files.
FIRST = """
import math
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
import tapegrad as tg

def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

def drained(p):
    levels = np.zeros(6)
    levels[0] = p[0]
    for k in range(1, 6):
        level = levels[k - 1]
        levels[k] = level - p[1] * math.sqrt(level) if level > 0.25 else 0.5 * level
    return np.sum((levels - 1.0) ** 2)

@tg.compile
def misfit(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * np.exp(-p[1] * x[i]))
        total = total + (r**2 if r < 1 else 2 * r - 1)
    return total

tg.grad(rosenbrock)(np.ones(3)), tg.hessian(rosenbrock)(np.ones(3))
tg.grad(drained)(np.array([3.5, 0.6])), tg.hessian(drained)(np.array([3.5, 0.6]))
compiled = tg.compile(rosenbrock)
compiled.value_and_grad(np.ones(3)), compiled.hessian(np.ones(3))
misfit.value_and_grad(np.ones(2), np.arange(3.0), np.array([2.0, 1.2, 5.0]))

def residuals(p):
    rates, times = lambda t, y: [p[0] * y[0], p[1] * y[1] - y[0]], np.linspace(0.1, 1.0, 4)
    return np.ravel(solve_ivp(rates, (0.0, 1.0), [1.0, 2.0], t_eval=times).y) - np.ones(8)

fitted = tg.compile(residuals)
least_squares(fitted, np.zeros(2), jac=fitted.jacobian, max_nfev=3)
"""
LOADED = "\nfrom tapegrad._core.codegen import factory; print(*factory._loaded)"


def test_first_uses_are_among_those_that_warming_has():
    """Whatever is in the cache of the tests: the same texts are asked for."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = []
    for script in ("from tapegrad import _first_uses as uses; uses.use_first()", FIRST):
        command = [sys.executable, "-W", "error", "-c", script + LOADED]
        done = subprocess.run(command, capture_output=True, text=True, env=variables)
        assert done.returncode == 0, done.stderr
        found.append({*done.stdout.split()})
    warmed, used = found
    assert len(used) > 20 and used <= warmed


def test_what_warming_says(capsys, monkeypatch):
    """The files that there are more; here those of a gradient are not new."""

    def first():
        tg.grad(lambda x: np.sum(x * x))(np.ones(3))

    monkeypatch.setattr(_first_uses, "use_first", first)
    first()
    files, size = machine_files.size_of_all()
    assert main(["cache", "warm"]) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(r"\d+ files? more in \d+\.\d s; .* has \d+ files, \d+ bytes\n", said)
    assert str(machine_files.every_folder()) in said
    assert int(re.findall(r"\d+(?= files, )", said)[0]) >= files > 0 < size


def test_every_operation_that_is_no_part_of_others_is_warmed(rng):
    """Their examples are functions, with inputs; three of them are used as `warm --all` does."""
    load_families()
    ops = [op for op in TABLE.values() if not _first_uses._is_a_part(op)]
    made = {op.name: example(op, (5,), rng, tg) for op in ops}
    assert {"multiply", "exp", "jv", "cholesky"} <= made.keys()
    assert all(callable(call) and inputs for call, inputs in made.values())
    for name in ("multiply", "jv", "cholesky"):  # the order of jv has no derivative
        with np.errstate(all="ignore"):
            _first_uses._use(*made[name])

"""Compiled functions saved and loaded: the same numbers, errors in words, damaged files."""

import io
import json
import os
import subprocess
import sys
import types
import warnings
import zipfile

import numpy as np
import pytest
from assumed import needs
from saved_functions import FUNCTIONS, MODEL, X, bisection, compiled, near, rosenbrock, structured
from source_rules import ROOT

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._program.files import encode as container

MUTATIONS = 200  # more of them in .ci/nightly


def same(a, b):
    for (_, x), (_, y) in zip(tree_leaves(a), tree_leaves(b), strict=True):
        assert type(x) is type(y)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_is_loaded_computes_the_same_bit_for_bit(f, tmp_path):
    made, path = compiled(f), tmp_path / "f.npz"
    made.save(path)
    loaded = tg.load(path)
    assert loaded.__name__ == f.__name__
    for factor in (1.0, 0.9):
        args = near(FUNCTIONS[f], factor)
        for _ in range(2):  # the second call may take a short way
            same(loaded.value_and_grad(*args), made.value_and_grad(*args))
        same(loaded(*args), made(*args))
        same(loaded.grad(*args), made.grad(*args))


def test_a_loaded_function_is_saved_as_it_was(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    compiled(bisection).save(first)
    tg.load(first).save(second)
    (one, pools), (two, others) = container.read(first), container.read(second)
    assert one == two
    for name, pool in pools.pools.items():
        assert pool.tobytes() == others.pools[name].tobytes()


def test_several_signatures_keywords_and_structures(tmp_path):
    def f(x, *, scale=1.0, kind="a"):
        return {"total": np.sum(x * scale), "parts": [x * 2.0, kind, 3]}

    made, path = tg.compile(f, verify="never"), tmp_path / "f.npz"
    calls = [((X,), {}), ((X[:3],), {"scale": 2.0}), ((X,), {"kind": "b"}), ((1.5,), {})]
    for args, keywords in calls:
        made(*args, **keywords)
    made.save(path)
    loaded = tg.load(path)
    for args, keywords in calls:
        same(loaded(*args, **keywords), made(*args, **keywords))


def test_several_arguments_are_differentiated(tmp_path):
    def f(x, y, z):
        return np.sum(x * y) * z

    made, path = tg.compile(f, argnums=(2, 0)), tmp_path / "f.npz"
    made.value_and_grad(X, 2 * X, 3.0)
    made.save(path)
    same(tg.load(path).value_and_grad(X, 5 * X, 4.0), made.value_and_grad(X, 5 * X, 4.0))


def test_transforms_and_kinds_are_saved_too(tmp_path):
    path = tmp_path / "f.npz"
    made = tg.compile(rosenbrock, verify="never")
    calls = {
        "__call__": (X,),
        "hessian": (X,),
        "hvp": (X, X[::-1].copy()),
        "jacobian": (X,),
        "jvp": ((X,), (X,)),
    }
    for name, args in calls.items():
        getattr(made, name)(*args)
    made.save(path)
    loaded = tg.load(path)
    for name, args in calls.items():
        same(getattr(loaded, name)(*args), getattr(made, name)(*args))
    with pytest.raises(RuntimeError, match="rosenbrock has no vjp in its file"):
        loaded.vjp(X)[1](1.0)
    both = tg.compile(tg.value_and_grad(rosenbrock))
    both(X)
    both.save(path)
    same(tg.load(path)(X), both(X))


def test_a_loaded_function_gets_code_of_its_own(tmp_path):
    path = tmp_path / "f.npz"
    made = compiled(rosenbrock)
    made.save(path)
    loaded = tg.load(path, native=True)
    loaded.wait()
    value, gradient = loaded.value_and_grad(X)
    expected, slopes = made.value_and_grad(X)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-12)


def test_what_the_file_has_no_program_for_is_said(tmp_path):
    path = tmp_path / "f.npz"
    compiled(bisection).save(path)
    loaded = tg.load(path)
    with pytest.raises(RuntimeError, match="tapegrad.load: .*saved_functions.*before it is saved"):
        loaded(2.9)
    with pytest.raises(RuntimeError, match="no program in its file for arguments like these"):
        loaded(X)
    with pytest.raises(RuntimeError, match="cannot be called: an argument has dtype float16"):
        loaded(np.float16(0.7))
    x = tg.tensor(0.7, requires_grad=True)
    (gradient,) = tg.autograd.grad(loaded(x), x)  # first derivatives of recorded arguments
    assert gradient.item() == loaded.grad(0.7)
    with pytest.raises(RuntimeError, match="no recorded tensors"):
        loaded.grad(x)
    for n in range(40):  # forgets nothing for it
        with pytest.raises(RuntimeError, match="no program in its file"):
            loaded(np.ones(n + 1))
    assert loaded(0.7) == bisection(0.7) and len(loaded._families.found) == 1


@pytest.mark.parametrize("calls", [1, 2, 3, 5])
def test_a_result_of_state_that_its_call_changes_is_not_saved_unseen(tmp_path, calls):
    settings, x = types.SimpleNamespace(calls=0), np.array([0.5, -2.0, 3.0])

    def f(x):
        settings.calls += 1
        total = 0.0
        with np.errstate(all="ignore"):
            for v in x:
                total = total + (v * v if v > 0.0 else -v)
        return total * (2.0 if settings.calls % 6 > 3 else 1.0)

    c = tg.compile(f)
    for k in range(calls):
        c.value_and_grad(x if k == 0 else np.roll(x, k) * (-1.0) ** k)
    with pytest.raises(ValueError, match="cannot be saved: .* changed calls, .*repeat the call"):
        c.save(tmp_path / "f.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it runs eagerly, unless that was said
        found = [c.value_and_grad(x)[0] for _ in range(6)]
    assert sorted(found) == [11.25] * 4 + [22.5] * 2
    with pytest.raises(ValueError, match="cannot be saved: .*calls"):
        c.save(tmp_path / "f.npz")


def test_state_that_is_not_read_and_is_filled_once_is_saved(tmp_path):
    state, kept = {"calls": 0}, {}

    def counted(x):
        state["calls"] += 1
        return 3.0 * x

    def filled(x):
        if "scale" not in kept:
            kept["scale"] = 2.0
        return kept["scale"] * x**2

    c = tg.compile(counted)
    c.value_and_grad(2.0)
    c.save(tmp_path / "counted.npz")
    assert tg.load(tmp_path / "counted.npz").value_and_grad(4.0) == (12.0, 3.0)
    c = tg.compile(filled)
    c.value_and_grad(2.0)
    with pytest.raises(ValueError, match="changed kept.*repeat the call"):
        c.save(tmp_path / "filled.npz")
    assert c.value_and_grad(3.0) == (18.0, 12.0)
    c.save(tmp_path / "filled.npz")
    assert tg.load(tmp_path / "filled.npz").value_and_grad(4.0) == (32.0, 16.0)


def test_what_cannot_be_saved_is_said(tmp_path):
    path = tmp_path / "f.npz"
    with pytest.raises(ValueError, match="rosenbrock cannot be saved: there is no program yet"):
        tg.compile(rosenbrock).save(path)

    refused = tg.compile(lambda x: x)
    with pytest.warns(RuntimeWarning, match="without a program"):
        refused(np.float16(1.0))
    with pytest.raises(ValueError, match="cannot be saved: an argument has dtype float16"):
        refused.save(path)
    called = tg.compile(lambda x, g: g(x))
    called(1.0, np.sin)
    called(1.0, abs)
    with pytest.raises(ValueError, match="an argument is <.*, which files have no name for"):
        called.save(path)
    assert not path.exists()


def test_the_file_is_plain_arrays(tmp_path):
    path = tmp_path / "f.npz"
    compiled(structured).save(path)
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header"].tobytes())
        assert header["format"] == "tapegrad program" and header["version"] == 2
        named = set(header["operations"])  # what it uses, not what there happens to be
        assert {"add", "multiply"} <= named and not {"arctan2", "guard"} & named
        assert set(file.files) - {"header"} <= set(container.DTYPES)
    assert tg.load(path).value_and_grad(MODEL)


def test_a_file_depends_neither_on_numpy_nor_on_time(tmp_path, monkeypatch):
    made, first, second = compiled(bisection), tmp_path / "a.npz", tmp_path / "b.npz"
    made.save(first)
    monkeypatch.setattr(np, "savez", None)
    monkeypatch.setattr(zipfile.time, "time", lambda: 1e9)
    made.save(second)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {m.date_time for m in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_files_written_with_numpy_2_0_and_2_1_are_read(tmp_path):
    """There `np.savez` takes `allow_pickle=False` for one more array."""
    made, path = compiled(bisection), tmp_path / "f.npz"
    made.save(path)
    stray = io.BytesIO()
    np.save(stray, np.asarray(False))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("allow_pickle.npy", stray.getvalue())
    args = near(FUNCTIONS[bisection], 0.9)
    same(tg.load(path).value_and_grad(*args), made.value_and_grad(*args))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.npy", stray.getvalue())
    with pytest.raises(ValueError):
        tg.load(path)


def rewritten(path, change):
    """The file with its header changed."""
    header, pools = container.read(path)
    change(header)
    container.write(path, header, pools.pools)
    return path


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda h: h.update(format="other"), "it is no program"),
        (lambda h: h.update(version=3), "its version is 3; this tapegrad reads version 2"),
        (lambda h: h.update(operations=["no such"]), "there is no operation 'no such'"),
        (
            lambda h: h["function"]["signatures"][0]["variants"][0].update(slots=2**40),
            "most_bytes=",
        ),
        (lambda h: h["function"]["signatures"][0]["variants"][0].update(slots=-1), "-1 slots"),
        (
            lambda h: h["function"]["signatures"][0]["variants"][0]["steps"].pop(0),
            "before it is written",
        ),
        (
            lambda h: h["function"]["signatures"][0].update(positional=2),
            "arguments of another number",
        ),
        (lambda h: h["function"].pop("name"), "is no object of"),
    ],
)
def test_a_changed_header_is_refused(change, message, tmp_path):
    path = tmp_path / "f.npz"
    compiled(rosenbrock).save(path)
    with pytest.raises(ValueError, match=f"^tapegrad.load: .*{message}"):
        tg.load(rewritten(path, change))


def test_functions_that_are_not_on_the_list_are_not_called(tmp_path):
    def change(header):
        steps = header["function"]["signatures"][0]["variants"][0]["steps"]
        step = next(step for step in steps if step["step"] == "computed")
        step["function"] = {"function": "os.system"}

    f = lambda x: np.sum(x[np.argpartition(x, 1)] * X)
    made, path = tg.compile(f, verify="never"), tmp_path / "f"
    made(X)
    made.save(path)
    assert tg.load(path)(X) == made(X)
    with pytest.raises(ValueError, match="it calls 'os.system', which programs may not"):
        tg.load(rewritten(path, change))


def test_files_that_are_none_and_files_with_bombs(tmp_path):
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "nothing.npz")
    path = tmp_path / "f.npz"
    path.write_bytes(b"no file of ours")
    with pytest.raises(ValueError, match="tapegrad.load: .*zip"):
        tg.load(path)
    np.savez_compressed(path, header=np.zeros(1 << 20, np.uint8))
    with pytest.raises(ValueError, match="larger than the file"):
        tg.load(path)
    with zipfile.ZipFile(path, "w") as file:  # says that it holds much more than it does
        head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
        file.writestr("header.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with pytest.raises(ValueError, match="has 0 bytes"):
        tg.load(path)
    np.savez(path, header=np.array([object()]), allow_pickle=True)
    with pytest.raises(ValueError, match="tapegrad.load"):
        tg.load(path)


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    made, path = compiled(bisection), tmp_path / "f.npz"
    made.save(path)
    before, written = path.read_bytes(), []

    def full(stream, array, *args, **kwargs):
        written.append(stream.write(b"some of it"))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", full)
        with pytest.raises(OSError, match="No space left"):
            made.save(path)
    assert written and path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    path.chmod(0o640)
    linked = tmp_path / "link.npz"
    linked.symlink_to(path)
    made.save(linked)
    assert linked.is_symlink() and path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_of_moderate_size_is_not_read(tmp_path):
    pipe, sparse = tmp_path / "pipe", tmp_path / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="sparse: it has 1099511627776 bytes; allow more than"):
        tg.load(sparse)
    path = tmp_path / "f.npz"
    compiled(bisection).save(path)
    with pytest.raises(ValueError, match="bytes; allow more than 100 with most_bytes="):
        tg.load(path, most_bytes=100)
    with pytest.raises(ValueError, match="it is no regular file"):
        tg.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
        with pytest.raises(ValueError, match="pipe: it is no regular file"):
            tg.load(pipe)


def test_names_are_shown_with_escapes(tmp_path):
    def hostile(x):
        return x**2 if x > 0 else x

    hostile.__name__ = "clear\x1b[2J\u202e"
    made, path = tg.compile(hostile), tmp_path / "f.npz"
    made(2.0), made(2.0)
    made.save(path)

    def change(header):
        header["function"]["name"] = "a\x07\x1b[2J\u202e"
        for variant in header["function"]["signatures"][0]["variants"]:
            for _, place in variant["places"]:
                place[0][0] = "\x1b]0;file\x07"

    loaded = tg.load(rewritten(path, change))
    shown = [repr(made), made.explain(), repr(loaded), loaded.explain()]
    assert all(one.replace("\n", "").isprintable() for one in shown)
    assert "clear\\x1b[2J\\u202e" in shown[0] and "a\\x07\\x1b[2J" in shown[2]
    assert "\\x1b]0;file" in shown[3]


def test_programs_of_values_that_have_changed_are_not_saved(tmp_path):
    factor, at = 2.0, np.array([1.0, 2.0])

    @tg.compile(verify="never")
    def scaled(x):
        return factor * np.sum(x)

    assert scaled(at) == scaled(at) == 6.0
    factor = 5.0
    with pytest.raises(ValueError, match="what the function reads has changed since"):
        scaled.save(tmp_path / "f.npz")
    scaled(at)
    scaled.save(tmp_path / "f.npz")
    assert tg.load(tmp_path / "f.npz")(at) == 15.0


def fuzzed(*arguments):
    """The script of damaged files, run by itself."""
    tests = ROOT / "tests"
    script = tests / "fuzz" / "fuzz_files.py"
    paths = [str(ROOT), str(tests / "support"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
    )


linux = pytest.mark.skipif(sys.platform != "linux", reason="fences are made of Linux's pages")


@needs("numba-reader")
@linux
def test_damaged_files_are_refused_or_keep_to_their_memory():
    done = fuzzed(MUTATIONS, 3)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found.values()) == MUTATIONS and found["refused"] > 0 and found["evaluated"] > 0


@needs("numba-reader")
@linux
def test_the_fences_stop_what_is_not_checked():
    assert fuzzed(300, 1, "unchecked").returncode < 0

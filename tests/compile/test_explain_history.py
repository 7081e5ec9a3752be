"""The life of compiled functions: ways between states, and the history that `explain()` shows."""

import re
import sys
import threading
import warnings

import numpy as np
import pytest
from assumed import needs
from compiled import programs

import tapegrad as tg
from tapegrad._core.codegen.layout import ROWS
from tapegrad._core.tape import store
from tapegrad._entering import entering
from tapegrad._program import composition
from tapegrad._program.dispatch import life, takeover, variants
from tapegrad._program.dispatch.life import WAYS, History, Life, State
from tapegrad._program.dispatch.variants import Traced
from tapegrad._program.lowering.tape_rows import RowRange

X = np.array([0.3, 0.7, 1.1])


def history(c):
    """The lines of the history, without files and numbers."""
    lines = c.explain().splitlines()
    if "  history" not in lines:
        return []
    found = lines[lines.index("  history") + 1 :]
    is_over = [not line.startswith("    ") for line in found]
    text = "\n".join(line[4:] for line in found[: [*is_over, True].index(True)])
    text = re.sub(r"\S+:\d+ (in \w+ )?\(bool\(\)\)", "a line", text)
    return re.sub(r"\b\d[\d.e-]* (s\b|evaluation|step|block)s?", r"N \1", text).split("\n")


def smooth(x):
    return np.sum(np.sin(x) * x)


def root(a):
    """Newton's method, to a tolerance."""
    x = 1.0 + 0.0 * a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def sided(x):
    return np.sum(x * x) if x[0] > 0.0 else -x[1]


# --- the table ------------------------------------------------------------------------------------


def test_every_state_has_its_ways():
    assert set(WAYS) == set(State)


def test_every_state_but_the_first_ones_is_reached():
    first = {State.COMPILED, State.NONE, State.INTERPRETED, State.CHECKED}
    reached, new = set(first), set(first)
    while new:
        new = {after for state in new for after in WAYS[state]} - reached
        reached |= new
    assert reached == set(State)


def test_a_way_that_is_not_in_the_table_is_not_gone():
    kept = History()
    one = Life(State.NATIVE, kept)
    assert not one.go(State.COMPILING, "again") and one.state is State.NATIVE
    assert [*kept.lines()] == []


def test_one_of_many_threads_takes_a_recording():
    for _ in range(50):
        one, found, start = Life(State.NONE), [], threading.Barrier(4)
        one.go(State.PENDING, held="a recording")

        def take(one=one, found=found, start=start):
            start.wait()
            found.append(one.take(State.PENDING, State.SPARE))

        threads = [threading.Thread(target=take) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(found, key=str) == [None, None, None, "a recording"]
        assert one.state is State.CONVERTED and one.held is None


def test_a_history_is_bounded():
    kept = History()
    for k in range(life.MOST + 10):
        kept.note(str(k))
    assert [text for _, text in kept.lines()] == [str(k) for k in range(10, life.MOST + 10)]
    assert kept.dropped == 10


# --- what explain shows ---------------------------------------------------------------------------


def test_a_program_until_it_is_native():
    c = tg.compile(smooth)
    assert history(c) == []
    c.value_and_grad(X)
    assert history(c) == ["a program of N step"]
    value, gradient = c.value_and_grad(X)
    assert value == pytest.approx(np.sum(np.sin(X) * X), rel=1e-14)
    np.testing.assert_allclose(gradient, np.cos(X) * X + np.sin(X), rtol=1e-14)
    compared = ["a program of N step", "value and gradient compared with an eager call: equal"]
    assert history(c) == compared
    variant = next(iter(c._families.found.values())).found[0]
    while variant.life.state is State.INTERPRETED:
        c.value_and_grad(X)
    c.wait()
    made = [
        "native code is being made, after N evaluation of a program",
        "native code, made in N s, on trial against the interpreted program",
    ]
    assert history(c) == [*compared, *made] and variant.life.state is State.TRIED
    c.value_and_grad(X + 1.0)
    assert history(c) == [*compared, *made, "native code stays: no difference was found"]
    assert variant.life.state is State.NATIVE


@needs("numba-reader")
def test_a_graph_in_place_of_a_program():
    c = tg.compile(root)
    for a in (2.0, 50.0, 3.0):
        value, gradient = c.value_and_grad(a)
        assert value == pytest.approx(np.sqrt(a), rel=1e-12)
        assert gradient == pytest.approx(0.5 / np.sqrt(a), rel=1e-9)
    assert history(c) == [
        "recorded: the next call looks for a graph first",
        "a graph of N block read from bytecode",
        "a graph serves its calls",
    ]


@needs("numba-reader")
def test_a_graph_where_a_program_stops():
    c = tg.compile(sided)
    c(X), c(X), c(-X)
    assert history(c) == [
        "a program of N step",
        "value compared with an eager call: equal",
        "no program goes on at a line",
        "a graph of N block read from bytecode",
    ]


def test_each_branch_is_recorded_where_there_is_no_graph():
    def other(x, first):
        with warnings.catch_warnings():  # which graphs cannot read
            return np.sum(x) * first if x[0] > 0.0 else x[1] * x[2]

    c = tg.compile(other)
    for x in (X, -X, X):
        assert c(x, 2.0) == pytest.approx(other(x, 2.0), rel=1e-15)
    lines = history(c)
    assert lines[0] == "a program of N step" and lines[1].startswith("no program goes on at ")
    assert [line for line in lines if line.startswith("no graph: ")] == [lines[2]]
    assert lines[3] == "a program of N step"


def test_why_a_function_runs_eagerly():
    def coarse(x):
        return float(np.sum(x.astype(np.float16)))

    c = tg.compile(coarse)
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        assert c(X) == coarse(X)
    (line,) = history(c)
    assert line.startswith("runs eagerly from now on: ") and c._reason in line
    assert c._life.state is State.EAGER
    c.clear()
    assert history(c)[1:] == ["all is forgotten, as asked for by clear()"]
    assert c._life.state is State.COMPILED and c._reason is None


def test_a_name_that_has_another_value():
    factor = 2.0

    def scaled(x):
        return factor * np.sum(x)

    c = tg.compile(scaled)
    assert c(X) == 2.0 * np.sum(X)
    factor = 3.0
    assert c(X) == 3.0 * np.sum(X)
    assert history(c) == [
        "a program of N step",
        "programs are forgotten: factor has another value",
        "a program of N step",
    ]


def test_signatures_are_named_if_there_are_several():
    c = tg.compile(smooth)
    c(X), c(X[:2])
    assert [line.split(":")[0] for line in history(c)] == ["signature (f8[3])", "signature (f8[2])"]


def test_a_wrong_native_code_is_named(monkeypatch):
    c = tg.compile(smooth, native=True)
    monkeypatch.setattr(
        "tapegrad._program.dispatch.takeover.Trial.begin",
        lambda *_: (_ for _ in ()).throw(RuntimeError("planted")),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        c(X)
        with pytest.raises(RuntimeError, match="planted"):
            c.wait()
    assert history(c)[-1] == "stays interpreted: planted" and "native: no; " in c.explain()
    assert c(X) == pytest.approx(smooth(X), rel=1e-14)


def test_what_is_loaded(tmp_path):
    c = tg.compile(smooth)
    c(X)
    c.save(tmp_path / "smooth.npz")
    loaded = tg.load(tmp_path / "smooth.npz")
    assert loaded(X) == c(X) and history(loaded) == ["1 program of a file"]


# --- threads, errors, calls inside of calls -------------------------------------------------------


def in_threads(*jobs):
    failed = []

    def run(job):
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed


@pytest.mark.parametrize("verify", ["once", "always", "never"])
def test_threads_at_the_first_calls(verify):
    for seed in range(8):
        c = tg.compile(root, verify=verify)
        start = threading.Barrier(4)

        def calls(c=c, start=start, seed=seed):
            rng = np.random.default_rng(seed + threading.get_ident() % 97)
            start.wait()
            for a in rng.uniform(0.5, 90.0, 6):
                value, gradient = c.value_and_grad(float(a))
                assert value == pytest.approx(np.sqrt(a), rel=1e-11)
                assert gradient == pytest.approx(0.5 / np.sqrt(a), rel=1e-8)

        def asks(c=c, start=start):
            start.wait()
            for _ in range(20):
                assert "root" in c.explain() and "compiled function" in repr(c)

        in_threads(calls, calls, calls, asks)
        assert c._reason is None


def test_rows_are_there_until_they_are_converted(monkeypatch):
    """Chunks of another thread, that lie between those of a recording, are freed afterwards."""
    refused, make_room, counts = variants.refused_by_python, RowRange.make_room, []

    def elsewhere():
        y = tg.tensor(1.0, requires_grad=True)
        for _ in range(3 * ROWS):
            y = y * 1.5

    def between(*given):
        in_threads(elsewhere)
        return refused(*given)

    def collect():
        for _ in range(3):  # what the newest chunk needs is freed by the next one
            store.collect()

    def freed(self, extra):
        counts.append(len(store.order))
        in_threads(collect)
        counts.append(len(store.order))
        make_room(self, extra)

    monkeypatch.setattr(store, "FEWEST_CHUNKS", 1 << 20)  # else nothing is freed in a large store
    monkeypatch.setattr(variants, "refused_by_python", between)
    monkeypatch.setattr(RowRange, "make_room", freed)
    c = tg.compile(smooth)
    value, gradient = c.value_and_grad(X)
    assert value == pytest.approx(np.sum(np.sin(X) * X), rel=1e-14)
    np.testing.assert_allclose(gradient, np.cos(X) * X + np.sin(X), rtol=1e-14)
    assert counts and counts[0] == counts[1] >= 2 and programs(c) == 1
    collect()
    assert len(store.order) < counts[1]


def test_threads_that_search_what_calls_have_left():
    """Two threads may end a recording at once, and one finds what both have left."""
    wanted, found = np.cos(X), []

    def calls():
        for _ in range(40):
            kept = []
            found.append(tg.grad(lambda x, kept=kept: kept.append(x) or np.sum(np.sin(x)))(X))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(*[calls] * 4)
    finally:
        sys.setswitchinterval(before)
    entering._make_plain()  # nothing is left
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=1e-15)


def test_a_loss_that_another_thread_has_made_be_forgotten():
    def lost(x):
        with warnings.catch_warnings():  # which graphs cannot read
            total = 0.0
            for k in range(len(x)):
                total = total + x[k] * k if x[k] > 0.0 else total - x[k] ** 2
            return total

    c, rng = tg.compile(lost), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(3):
            c.value_and_grad(rng.normal(size=9))
        (family,) = c._families.found.values()
        assert family.lost
        c._flows.renew()  # as by a name that has another value
        x = rng.normal(size=9)
        assert c(x) == pytest.approx(lost(x), rel=1e-14)
    assert "most are made eagerly" in "".join(history(c))


def test_a_pickle_while_another_thread_adds_derivatives(monkeypatch):
    c, has_native = tg.compile(smooth), composition._has_native
    c.hessian(X)

    def meanwhile(one):
        c._derived[f"made meanwhile {len(c._derived)}"] = one
        return False

    monkeypatch.setattr(composition, "_has_native", meanwhile)
    assert not has_native(c) and len(c._derived) == 2


def test_native_code_that_is_found_wrong_while_it_is_put_in_place(monkeypatch):
    """A call of another thread compares it after the trial is known, and before it is used."""
    c, calls, waiting, use = tg.compile(smooth, native=True), [], [], variants.Variant.use

    def compared(plain, native, objects):
        calls.append((plain.native, native.native))
        if len(calls) > 1:
            raise RuntimeError("planted")
        return True

    def slow(self, program):
        if program.native:
            waiting.append(threading.Thread(target=lambda: c(X + 1.0)))
            waiting[0].start()
            waiting[0].join(0.3)
        use(self, program)

    monkeypatch.setattr(takeover, "compared", compared)
    monkeypatch.setattr(variants.Variant, "use", slow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        c(X)
        c.wait()
        waiting[0].join()
    assert calls == [(False, True), (False, True)]
    (family,) = c._families.found.values()
    (variant,) = family.found
    assert variant.life.state is State.FAILED and not variant.program.native
    assert c(X) == pytest.approx(smooth(X), rel=1e-14)


class StoppedError(BaseException):
    """No error of a function: as KeyboardInterrupt."""


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("place", ["_check_outside", "program", "_convert", "value_and_grad"])
def test_an_exception_in_a_recording_leaves_no_state(monkeypatch, place, long):
    c = tg.compile(lambda x: np.sum(np.sin(x)) + sum(x[0] * k for k in range(2000 if long else 2)))
    wanted, slope = np.sum(np.sin(X)), np.cos(X)
    total = sum(range(2000 if long else 2))
    stopped = getattr(Traced, place)

    def stop(self, *args):
        monkeypatch.setattr(Traced, place, stopped)
        raise StoppedError

    monkeypatch.setattr(Traced, place, stop)
    count = 0
    for _ in range(5):
        try:
            value, gradient = c.value_and_grad(X)
        except StoppedError:
            count += 1
            continue
        assert value == pytest.approx(wanted + X[0] * total, rel=1e-12)
        np.testing.assert_allclose(gradient, slope + np.array([total, 0.0, 0.0]), rtol=1e-12)
    assert count == 1 and c._reason is None
    (family,) = c._families.found.values()
    assert family.life.state is State.PROGRAM and family.life.held is None


def test_a_compiled_function_that_calls_itself():
    def power(x, n):
        return x if n == 0 else x * again(x, n - 1)

    again = tg.compile(power)
    for x in (1.5, 2.5):
        assert again.value_and_grad(x, 3) == (x**4, pytest.approx(4 * x**3))
    assert again.explain()

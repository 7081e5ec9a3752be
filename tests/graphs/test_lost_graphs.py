"""Functions without a graph: what the warning at the second recording advises, and recordings."""

import math
import sys
import warnings

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._core.tensor.trace import Guard
from tapegrad._program.dispatch import flows, variants
from tapegrad._program.dispatch.variants import Budget

pytestmark = needs("numba-reader")

POINTS = np.random.default_rng(0).normal(size=(12, 8))
MATRIX = 2.0 * np.eye(3) + 0.1


def loss(x):
    total = 0.0
    for v in x:
        total = total + (v * v if v > 0.0 else -v)
    return total


# --- functions without a graph, and the same as advised -------------------------------------------


def _with(x):
    total = 0.0
    with np.errstate(all="ignore"):  # HERE
        for v in x:
            total = total + (v * v if v > 0.0 else -v)
    return total


def _with_advised(x):
    return loss(x)


def _try(x):
    try:
        total = loss(x)  # HERE
    except ZeroDivisionError:
        total = 0.0
    return total


_try_advised = _with_advised


def _import(x):
    import math as m  # HERE

    return loss(x) * m.pi


def _import_advised(x):
    return loss(x) * math.pi


def _keywords(x, **options):
    return loss(x) + np.sum(x, **options)  # HERE


def _keywords_advised(x, axis=None):
    return loss(x) + np.sum(x, axis=axis)


def _intermediate(x):
    total = 0.0
    for v in x:
        if (square := v * v) > 1.0:  # HERE
            total = total + square
        else:
            total = total - v
    return total


def _intermediate_advised(x):
    total = 0.0
    for v in x:
        square = v * v
        if square > 1.0:
            total = total + square
        else:
            total = total - v
    return total


def power(v):
    return v if v < 0.5 else power(0.5 * v)  # HERE


def _recursion(x):
    total = 0.0
    for v in x:
        total = total + (power(v) if v > 0.0 else -v)
    return total


def _recursion_advised(x):
    total = 0.0
    for v in x:
        made = v
        while made >= 0.5:
            made = 0.5 * made
        total = total + (made if v > 0.0 else -v)
    return total


def _key(x):
    found = {}
    for k in range(len(x)):
        found[k % 2] = found.get(k % 2, 0.0) + (x[k] if x[k] > 0.0 else -x[k])  # HERE
    return found[0] * found[1]


def _key_advised(x):
    found = [0.0, 0.0]
    for k in range(len(x)):
        found[k % 2] = found[k % 2] + (x[k] if x[k] > 0.0 else -x[k])
    return found[0] * found[1]


def _arrays(x):
    out = []
    for k in range(3):
        out.append(x * k if x[k] > 0.0 else -x)  # HERE
    return np.sum(out[0]) + np.sum(out[1] * out[2])


def _arrays_advised(x):
    out = tnp.zeros((3, 8))
    for k in range(3):
        out[k] = x * k if x[k] > 0.0 else -x
    return np.sum(out[0]) + np.sum(out[1] * out[2])


def _set(x):
    seen, total = set(), 0.0  # HERE
    for k in range(len(x)):
        if x[k] > 0.0:
            seen.add(k)
        total = total + (x[k] if k in seen else -x[k])
    return total


def _set_advised(x):
    seen, total = [False] * len(x), 0.0
    for k in range(len(x)):
        if x[k] > 0.0:
            seen[k] = True
        total = total + (x[k] if seen[k] else -x[k])
    return total


def _isinstance(x):
    total = 0.0
    for v in x:
        if isinstance(v, str):  # HERE
            continue
        total = total + (v * v if v > 0.0 else -v)
    return total


_isinstance_advised = _with_advised


def _results(x):
    total = 0.0
    for v in x:
        if v > 1.5:
            return total, v
        total = total + (v if v > 0.0 else -v)
    return (total,)


def _results_advised(x):
    total, last = 0.0, 0.0
    for v in x:
        if v > 1.5:
            last = v
            break
        total = total + (v if v > 0.0 else -v)
    return total, last


def _unknown(x):
    return loss(x) + np.sum(np.partition(x, 2)[:2])  # HERE


inner = tg.compile(loss)


def _unknown_advised(x):
    return inner(x) + np.sum(np.partition(x, 2)[:2])


def _method_of_a_list(x):
    items = [v * v if v > 0.0 else -v for v in x]
    items.reverse()  # HERE
    return items[0] * items[1]


#: Reasons and advice.
TEXTS = {
    "with": ("a with statement", "put it around the call"),
    "try": ("a try statement", "put it around the call"),
    "import": ("an import", "import at the top"),
    "keywords": ("a call with **", "name the arguments"),
    "intermediate": ("as := does", "assign it on a line of its own"),
    "recursion": ("its calls nest too deeply", "write the recursion as a loop"),
    "key": ("a dict with the key", "use a list or array"),
    "arrays": ("a list of an array", "write the arrays to the rows of one"),
    "set": ("it calls set", "seen = [False] * n"),
    "isinstance": ("isinstance of a value", "leave isinstance() out"),
    "results": ("a tuple of", "of one length"),
    "unknown": ("it calls partition", "compile a function of the loops and branches alone"),
    "method_of_a_list": ("the method reverse", "compile a function of the loops and branches"),
}


def values(f, x):
    return f(x) if "results" in f.__name__ else tg.value_and_grad(f)(x)


def called(c, f, points=POINTS):
    """Call at points; values are right. Returns the warnings, by the number of calls before."""
    found = []
    for k, x in enumerate(points):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = c(x) if "results" in f.__name__ else c.value_and_grad(x)
        found += [(k, str(one.message)) for one in caught]
        for a, b in zip(got, values(f, x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    return found


def recordings(c):
    return sum(family.recorded for family in c._families.found.values())


@pytest.mark.parametrize("what", TEXTS)
def test_the_second_recording_names_the_line_and_what_to_write(what):
    f = globals()[f"_{what}"]
    c = tg.compile(f)
    ((number, text),) = called(c, f)
    reason, advice = TEXTS[what]
    assert number == 1 and text.startswith(f"tapegrad.compile: {f.__name__} is slow")
    assert reason in text and advice in text
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    first = f.__code__.co_firstlineno
    here = [k for k, line in enumerate(lines, 1) if "# HERE" in line]
    nearest = min(here, key=lambda k: abs(k - first))
    if what == "try" and sys.version_info < (3, 11):
        nearest -= 1  # where Python 3.10 says that it begins
    assert f"(test_lost_graphs.py:{nearest} in " in text or what == "results"
    assert recordings(c) <= 4 and not c._flows.found


@pytest.mark.parametrize("what", [what for what in TEXTS if f"_{what}_advised" in globals()])
def test_what_is_advised_gives_a_graph(what):
    f = globals()[f"_{what}_advised"]
    c = tg.compile(f)
    if what == "unknown":
        c, f = inner, loss
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            [tg.value_and_grad(_unknown_advised)(x) for x in POINTS]
    assert called(c, f) == [] and c._flows.found


# --- where there is nothing to say ----------------------------------------------------------------


def test_no_warning_of_another_dtype_or_shape():
    c = tg.compile(_with)
    for x in (np.ones(3), np.ones(3, np.float32), np.ones(4), np.ones(3)):
        c.value_and_grad(x)
    assert len(c._families.found) == 3


def test_no_warning_of_branches_outside_of_loops():
    def f(x):
        with np.errstate(all="ignore"):
            total = np.sum(x)
        for k in range(3):
            total = total * (k + 1.0)
        if x[0] > 0.0 and x[1] > 0.0:
            total = total * 2.0
        return total if x[2] > 0.0 else -total

    c = tg.compile(f)
    assert called(c, f) == [] and not c._flows.found
    assert 2 <= recordings(c) <= 6


@pytest.mark.usefixtures("not_entered")
def test_one_warning_of_a_function_that_gives_up():
    def f(x):
        with np.errstate(all="ignore"):
            return x * x.item()

    c = tg.compile(f)
    texts = []
    for k in range(60):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert c.value_and_grad(k + 0.5) == tg.value_and_grad(f)(k + 0.5)
        texts += [str(one.message) for one in caught]
    (text,) = texts
    assert "is slow" in text and "(item())" in text


def test_paths_that_come_again_are_recorded_after_all():
    points = np.repeat(POINTS[:3], 10, axis=1)  # an eager call takes long on fast machines, too
    with warnings.catch_warnings():  # machine code that is made first is time of a recording
        warnings.simplefilter("ignore")
        for x in [*points] * 20:
            tg.compile(_with, verify="never").value_and_grad(x)
            (again := tg.compile(_with)).value_and_grad(x), again.value_and_grad(x)
    c = tg.compile(_with)
    for _ in range(200):
        for x in points:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value, gradient = c.value_and_grad(x)
            wanted, slope = tg.value_and_grad(_with)(x)
            assert value == pytest.approx(wanted)
            np.testing.assert_allclose(gradient, slope)
    assert recordings(c) == 3
    (family,) = c._families.found.values()
    assert family.evaluations > 300


# --- what recordings may take ---------------------------------------------------------------------


class Clock:
    """Seconds that pass when they are said to."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(variants.time, "thread_time", lambda: self.now)


def spent(monkeypatch, paths, program, recording=3.0):
    """Seconds of calls along paths, each 1 s if made eagerly; the number of recordings, programs.

    A recording takes so many seconds, a program that many.
    """
    clock, budget = Clock(monkeypatch), Budget()
    recorded, made, served = 0, set(), 0
    for path in paths:
        if path in made:
            served += 1
        elif budget.has_called and not budget.is_there(served):
            with budget.calling():
                clock.now += 1.0
        else:
            with budget.recording():
                clock.now += recording
            recorded += 1
            guard = Guard(None, 0, float(path), 0, (("file", 1, "f"),), "bool()")
            if budget.is_worth([guard], 10, served):
                with budget.making():
                    clock.now += program
                made.add(path)
    return clock.now, recorded, len(made)


@pytest.mark.parametrize("calls", [20, 100, 1000])
def test_recordings_take_as_long_as_eager_calls_at_most(monkeypatch, calls):
    seconds, recorded, made = spent(monkeypatch, range(calls), 30.0)
    assert made == 0 and recorded >= 2 and seconds <= 2.0 * calls


@pytest.mark.parametrize("program", [1.0, 30.0])
def test_paths_that_come_again_become_programs(monkeypatch, program):
    seconds, recorded, made = spent(monkeypatch, [k % 3 for k in range(2000)], program)
    assert made == 3 and recorded <= 12 and seconds <= 400.0


def test_calls_are_eager_and_few_are_recorded():
    points = np.random.default_rng(1).normal(size=(200, 12))
    c = tg.compile(_with)
    assert len(called(c, _with, points)) == 1
    (family,) = c._families.found.values()
    assert family.recorded == 0 and family.lost and not c._flows.found


def test_a_program_is_made_where_one_is_asked_for(tmp_path):
    c = tg.compile(_with)
    called(c, _with, POINTS[:2])
    assert recordings(c) == 0
    c.save(tmp_path / "program")
    assert tg.load(tmp_path / "program")(POINTS[0]) == pytest.approx(_with(POINTS[0]))
    assert recordings(c) == 1


@pytest.mark.parametrize("calls", [1, 3])
def test_a_program_is_made_of_the_first_of_eager_calls(tmp_path, monkeypatch, calls):
    """As where the graph of another function was refused."""
    monkeypatch.setattr(Budget, "is_there", lambda *_: False)  # whatever the calls take

    def make(weight):
        def f(x):
            total = 0.0
            with np.errstate(all="ignore"):
                for v in x:
                    total = total + (v * weight if v > 0.0 else -v)
            return total

        return f

    called(tg.compile(make(1.0)), make(1.0), POINTS[:3])
    c, x = tg.compile(make(2.0)), POINTS[0].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        c.value_and_grad(x)
        x[:] = np.nan
        [c.value_and_grad(one) for one in POINTS[1:calls]]
    assert recordings(c) == 0
    c.save(tmp_path / "program")
    value, gradient = tg.load(tmp_path / "program").value_and_grad(POINTS[0])
    wanted, slope = tg.value_and_grad(make(2.0))(POINTS[0])
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(gradient, slope)
    assert c.value_and_grad(POINTS[1])[0] == pytest.approx(make(2.0)(POINTS[1]))


def test_elements_for_which_calls_leave_are_of_one_function():
    def make(data):
        def f(x):
            total = 0.0
            for k in range(len(x)):
                total = total + (x[k] * round(float(data[k]), 1) if x[k] > 0.0 else -x[k])
            return total

        return f

    for offset in (0.05, 0.01):
        f = make(np.arange(len(POINTS[0])) + offset)
        c = tg.compile(f)
        called(c, f, POINTS[:4])
    assert c._flows.found


# --- graphs before programs -----------------------------------------------------------------------


def test_no_program_is_made_where_a_graph_serves(monkeypatch):
    monkeypatch.setattr(variants.Traced, "program", None)
    calls = []

    def f(x):
        calls.append(0)
        return loss(x)

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="changes calls"):
        for x in POINTS:
            value, slope = c.value_and_grad(x)
            assert value == pytest.approx(loss(x))
            np.testing.assert_allclose(slope, tg.grad(loss)(x))
    assert c._flows.found and len(calls) == 1  # the graph is compared with the first call


def test_a_wrong_graph_is_found_by_the_first_call(monkeypatch):
    """A comparison with the first call that fails says nothing: the next one decides."""
    compare = flows.first_difference
    monkeypatch.setattr(flows, "first_difference", lambda *a, **k: compare(*a, **k) or (0.0, 1.0))
    calls = []

    def f(x):
        calls.append(0)
        return loss(x)

    c = tg.compile(f, native=False)  # whose trial would find a difference, too
    with pytest.warns(RuntimeWarning, match="changes calls"):
        [c.value_and_grad(x) for x in POINTS]
    assert c._flows.found and len(calls) > 1


def test_large_arrays_between_branches_keep_their_program():
    def f(x):
        for _ in range(3):
            x = 0.5 * x if np.sum(x) > -1e9 else x
        return np.sum(x * x)

    c = tg.compile(f)
    for k in range(3):
        assert c(np.full(5000, k + 1.0)) == pytest.approx(5000 * (k + 1.0) ** 2 / 64)
    assert recordings(c) == 1 and not c._flows.found


def test_arrays_that_change_between_the_first_calls():
    c, x = tg.compile(loss), POINTS[0].copy()
    for step in (1.0, -1.0, 0.5):
        assert c(x) == pytest.approx(loss(x))
        np.testing.assert_allclose(c.grad(x), tg.grad(loss)(x))
        x += step


@pytest.mark.parametrize("verify", ["once", "always", "never"])
def test_what_asks_for_types_is_right_at_the_first_call(verify):
    def f(x, y):
        total = 0.0
        for k in range(len(x)):
            try:
                total = total + (x[k] * y[k] if x[k] > 0.0 else -x[k])
            except ZeroDivisionError:
                total = 0.0
        return total + (1.0 if type(y[0]) is np.float64 else 2.0)

    c = tg.compile(f, verify=verify)
    for x in [*POINTS, *POINTS]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert c(x, POINTS[0]) == pytest.approx(f(x, POINTS[0]))

"""Counters, histories and prints in functions with branches: in no graph, and read by no result."""

import collections
import logging
import time
import types

import numpy as np
import pytest
from assumed import needs
from effect_lines import POINTS, X, line_of, loss, warned

import tapegrad as tg

pytestmark = needs("numba-reader")

LOGGER = logging.getLogger("tapegrad.tests.effects")
counted = 0


# --- effects: a function, and what they have come to ----------------------------------------------


def _list():
    calls = [0]

    def f(x):
        calls[0] += 1  # here
        return loss(x)

    return f, lambda: calls[0]


def _dict():
    st = {"nfev": 0, "rate": 1.0}

    def f(x):
        st["nfev"] += 1  # here
        return loss(x) * st["rate"]

    return f, lambda: st["nfev"]


def _counter():
    st = collections.Counter()

    def f(x):
        st["calls"] += 1  # here
        return loss(x)

    return f, lambda: st["calls"]


def _nonlocal():
    n = 0

    def f(x):
        nonlocal n
        n += 1  # here
        return loss(x)

    return f, lambda: n


def _global():
    def f(x):
        global counted
        counted += 1  # here
        return loss(x)

    global counted
    counted = 0
    return f, lambda: counted


def _attribute():
    state = types.SimpleNamespace(count=0)

    def f(x):
        state.count += 1  # here
        return loss(x)

    return f, lambda: state.count


def _array():
    calls = np.zeros(2)

    def f(x):
        calls[1] += 1.0  # here
        return loss(x)

    return f, lambda: calls[1]


def _integers():
    calls = np.zeros((2, 2), int)

    def f(x):
        calls[1, 0] += 1  # here
        return loss(x)

    return f, lambda: calls[1, 0]


def _history():
    history = []

    def f(x):
        total = loss(x)
        history.append(total.item())  # here
        return total

    return f, lambda: len(history)


def _values():
    history = []

    def f(x):
        total = loss(x)
        history.append(("total", total, x.copy(), [1, total]))  # here
        return total

    return f, lambda: len(history)


def _extended():
    history = []

    def f(x):
        nonlocal history
        history += [1.0]  # here
        return loss(x)

    return f, lambda: len(history)


def _deque():
    last = collections.deque(maxlen=2)

    def f(x):
        last.append(loss(x))  # here
        return loss(x)

    return f, lambda: len(last)


def _set():
    seen = set()

    def f(x):
        seen.add(len(seen))  # here
        return loss(x)

    return f, lambda: len(seen)


def _nested():
    record = {"values": [], "meta": {"n": 0}}

    def f(x):
        record["values"].append(1)  # here
        record["meta"]["n"] += 1
        return loss(x)

    return f, lambda: record["meta"]["n"]


def _lists_by_default():
    record = collections.defaultdict(list)

    def f(x):
        record["values"].append(1)  # here
        return loss(x)

    return f, lambda: len(record["values"])


def _sum_of_values():
    st = {"sum": 0.0, "n": 0}

    def f(x):
        total = loss(x)
        st["sum"] += total.item()  # here
        st["n"] += 1
        st["mean"] = st["sum"] / st["n"]
        return total

    return f, lambda: st["n"]


def _in_a_helper():
    calls = [0]

    def note(value):
        calls[0] += 1  # here
        return value

    def f(x):
        return note(loss(x))

    return f, lambda: calls[0]


def _in_the_loop():
    calls = [0]

    def f(x):
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0.0:
                total = total + x[i] * x[i]
            else:
                calls[0] += 1  # here
                total = total - x[i]
        return total

    return f, lambda: calls[0]


def _times():
    seconds = []

    def f(x):
        start = time.perf_counter()
        total = loss(x)
        seconds.append(time.perf_counter() - start)  # here
        return total

    return f, lambda: len(seconds)


def _tensors():
    st = {"best": None, "sum": 0.0}

    def f(x):
        total = loss(x)
        st["last"] = total  # here
        st["sum"] += total
        return total

    return f, lambda: st["last"] is None


def _method():
    class Model:
        every = 0

        def __init__(self):
            self.count, self.scale, self.history = 0, 2.0, []

        def loss(self, x):
            self.count += 1  # here
            Model.every += 1
            self.history.append(1.0)
            return self.scale * loss(x)

    model = Model()
    return lambda x: model.loss(x), lambda: model.count


# --- branches that decide effects alone


def _every_tenth():
    calls, history = [0], []

    def f(x):
        calls[0] += 1  # here
        total = loss(x)
        if calls[0] % 3 == 0 and calls[0] > 2:
            history.append((calls[0], total))
        elif calls[0] == 100:
            history.clear()
        return total

    return f, lambda: calls[0]


def _returned_in_each_arm():
    calls, history = [0], []

    def f(x):
        calls[0] += 1  # here
        total = loss(x)
        if calls[0] % 3 == 0:
            history.append(total)
            return total
        return total

    return f, lambda: calls[0]


def _best():
    best = {"value": 1e9, "x": None}

    def f(x):
        total = loss(x)
        if total < best["value"]:
            best["value"] = total  # here
            best["x"] = x.copy()
        return total

    return f, lambda: best["x"] is None


def _report():
    calls, lines = [0], []

    def report(n, total):
        for k in range(2):
            lines.append(f"{k}: {n} {total:.3f}")

    def f(x):
        calls[0] += 1  # here
        total = loss(x)
        if calls[0] % 2:
            text = "odd"
            report(calls[0], total)
            lines.append(text)
        return total

    return f, lambda: calls[0]


CHANGES = {
    name[1:]: made
    for name, made in list(globals().items())
    if name.startswith("_") and isinstance(made, types.FunctionType)
}


def recordings(c) -> int:
    return sum(family.recorded for family in c._families.found.values())


def check(c, f):
    """Values and derivatives are the function's, along all branches."""
    for x in POINTS:
        value, gradient = c.value_and_grad(x)
        wanted, slope = tg.value_and_grad(f)(x)
        assert value == pytest.approx(wanted, rel=1e-12) and c(x) == pytest.approx(wanted)
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("what", CHANGES)
def test_what_no_result_reads_costs_no_graph(what, native, tmp_path):
    f, count = CHANGES[what]()
    c = tg.compile(f, native=native)
    (one,) = warned(lambda: [c.value_and_grad(x) for x in POINTS])
    c.wait()
    text = str(one.message)
    assert issubclass(one.category, RuntimeWarning) and one.filename == __file__
    assert line_of(CHANGES[what]) in text and "changes " in text
    assert "when it is recorded and compared, but not in later calls" in text
    assert c._flows.found and not c._flows.refused and c._reason is None
    assert recordings(c) <= 1
    check(c, f)
    before = count()
    for _ in range(5):
        [c.value_and_grad(x) for x in POINTS]
    assert count() == before  # a graph does not count
    if not native:
        np.testing.assert_allclose(c.hessian(X), tg.hessian(f)(X), rtol=1e-12)
        np.testing.assert_allclose(c.jvp((X,), (-X,))[1], tg.jvp(f, (X,), (-X,))[1])
        np.testing.assert_allclose(c.map(np.array(POINTS))[0], [f(x) for x in POINTS])
        c.save(tmp_path / "f.tg")
        check(tg.load(tmp_path / "f.tg"), f)


@pytest.mark.parametrize("what", ["list", "nonlocal", "history", "array"])
def test_every_call_is_made_where_every_call_is_compared(what):
    f, count = CHANGES[what]()
    c = tg.compile(f, verify="always")
    before = count()
    assert not warned(lambda: [c.value_and_grad(x) for x in POINTS * 2])
    assert count() == before + 2 * len(POINTS) + 1 or count() == before + 2 * len(POINTS)


def _print(x):
    total = loss(x)
    print(f"total {total:.3f} {total!r}", "%g" % total, "{}".format(total), str(total), x)  # noqa
    return total


def _log(x):
    total = loss(x)
    LOGGER.info("total %s at %s", total, x)
    logging.getLogger("tapegrad.tests").debug("total")
    return total


@pytest.mark.parametrize("f, name", [(_print, "print"), (_log, "info")])
def test_text_is_written_when_the_function_is_called(f, name, capsys):
    c = tg.compile(f)
    (one,) = warned(lambda: [c.value_and_grad(x) for x in POINTS])
    assert f"calls {name} at {__file__}:{f.__code__.co_firstlineno + 2}" in str(one.message)
    assert c._flows.found and not c._flows.refused
    capsys.readouterr()
    values = [c.value_and_grad(x) for x in POINTS]
    assert not capsys.readouterr().out
    for (value, gradient), x in zip(values, POINTS, strict=True):
        wanted, slope = tg.value_and_grad(f)(x)
        assert value == pytest.approx(wanted)
        np.testing.assert_allclose(gradient, slope)
    assert capsys.readouterr().out or f is _log


# --- functions that cannot be read ----------------------------------------------------------------


def _solved(x, weight=1.0):
    return weight * np.sum(np.linalg.solve(2.0 * np.eye(3), x) ** 2)


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_a_counter_beside_what_cannot_be_read_keeps_the_program():
    calls, st, history = [0], {"nfev": 0, "scale": 2.0}, []

    def f(x):
        calls[0] += 1
        st["nfev"] += 1
        history.append(1)
        return _solved(x, st["scale"])

    c = tg.compile(f)
    for _ in range(5):
        np.testing.assert_allclose(c.grad(X), X, rtol=1e-12)
    assert c._reason is None and calls[0] < 5
    st["scale"] = 4.0
    np.testing.assert_allclose(c.grad(X), 2.0 * X, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_a_counter_that_is_read_beside_what_cannot_be_read():
    st = {"nfev": 0, "scale": 2.0}

    def f(x):
        st["nfev"] += 1
        late = st["nfev"] > 20
        return _solved(x, st["scale"] + late)

    c = tg.compile(f)
    for k in range(30):
        np.testing.assert_allclose(c.grad(X), (1.0 if k < 20 else 1.5) * X, rtol=1e-12)
    assert st["nfev"] == 30

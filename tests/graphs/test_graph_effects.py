"""Counters, histories and prints in functions with branches: in no graph, and read by no result."""

import collections
import heapq
import logging
import operator
import time
import types

import numpy as np
import pytest
from assumed import needs
from effect_lines import line_of, warned

import tapegrad as tg

pytestmark = needs("numba-reader")

X = np.array([0.5, -1.5, 2.0])
POINTS = [X, -X, 2.0 * X, np.array([3.0, 1.0, -1.0]), X - 1.0, np.array([-1.0, -2.0, 0.3])]
LOGGER = logging.getLogger("tapegrad.tests.effects")
counted = 0


def loss(x):
    total = 0.0
    for i in range(len(x)):
        total = total + (x[i] * x[i] if x[i] > 0.0 else 2.0 * x[i])
    return total


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


# --- what results read ----------------------------------------------------------------------------


def _value():
    calls = [0]

    def f(x):
        calls[0] += 1
        return loss(x) * calls[0]

    return f


def _value_before():
    calls = [0]

    def f(x):
        total = loss(x) * calls[0]
        calls[0] = calls[0] + 1
        return total

    return f


def _branch():
    calls = [0]

    def f(x):
        calls[0] += 1
        total = loss(x)
        if calls[0] > 10:
            total = total * 2.0
        return total

    return f


def _alias():
    calls = [0]
    same = calls

    def f(x):
        calls[0] += 1
        return loss(x) + same[0]

    return f


def _alias_in_a_dict():
    calls = [0]
    held = {"calls": calls}

    def f(x):
        held["calls"][0] += 1
        return loss(x) + calls[0]

    return f


def _helper():
    calls = [0]

    def scale():
        return 1.0 if calls[0] < 10 else 2.0

    def f(x):
        calls[0] += 1
        return loss(x) * scale()

    return f


def _written_by_a_helper():
    st = {"n": 0}

    def note():
        st["n"] += 1

    def f(x):
        note()
        return loss(x) * st["n"]

    return f


def _length():
    history = []

    def f(x):
        history.append(1.0)
        return loss(x) if len(history) < 10 else 2.0 * loss(x)

    return f


def _stop_test():
    history = []

    def f(x):
        total = loss(x)
        if history and abs(history[-1]) < 1e-3:
            return total * 0.0
        history.append(1.0)
        return total

    return f


def _mean():
    history = [1.0]

    def f(x):
        history.append(2.0)
        return loss(x) * np.mean(history)

    return f


def _through_nonlocal():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return loss(x) * n

    return f


def _through_global():
    def f(x):
        global counted
        counted += 1
        return loss(x) * counted

    return f


def _through_array():
    kept = np.zeros(3)

    def f(x):
        kept[0] += 1.0
        return loss(x) + kept[0]

    return f


def _through_view():
    kept = np.zeros(3)
    view = kept[:2]

    def f(x):
        kept[0] += 1.0
        return loss(x) + np.sum(view)

    return f


def _through_attribute():
    one = types.SimpleNamespace(n=0)

    def f(x):
        one.n += 1
        return loss(x) * one.n

    return f


def _in_the_next_round():
    st = {"scale": 1.0}

    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + (x[i] if x[i] > 0 else 2.0 * x[i]) * st["scale"]
            st["scale"] = st["scale"] * 1.5
        return total

    return f


def _assigned_at_last():
    st = {"last": None}

    def f(x):
        total = loss(x)
        if st["last"] is not None:
            total = total + 1.0
        st["last"] = 1.0
        return total

    return f


def _variable_of_a_branch():
    calls = [0]

    def f(x):
        calls[0] += 1
        scale = 1.0
        if calls[0] % 10 == 0:
            scale = 2.0
        return loss(x) * scale

    return f


def _list_of_a_branch():
    calls = [0]

    def f(x):
        calls[0] += 1
        items = [1.0]
        if calls[0] % 10 == 0:
            items.append(2.0)
        return loss(x) * len(items)

    return f


def _element_of_a_branch():
    calls = [0]

    def f(x):
        calls[0] += 1
        items = tg.numpy.zeros(2)
        if calls[0] % 10 == 0:
            items[0] = 2.0
        return loss(x) + items[0]

    return f


def _variable_of_an_inner_function():
    calls = [0]

    def f(x):
        scale = 1.0

        def more():
            nonlocal scale
            scale = 3.0

        calls[0] += 1
        if calls[0] % 10 == 0:
            more()
        return loss(x) * scale

    return f


def _break():
    calls = [0]

    def f(x):
        calls[0] += 1
        total = 0.0
        for i in range(len(x)):
            total = total + (x[i] * x[i] if x[i] > 0.0 else -x[i])
            if calls[0] > 12:
                break
        return total

    return f


def _without_a_loop():
    calls = [0]

    def f(x):
        calls[0] += 1
        return 2.0 * np.sum(x * x) if calls[0] > 10 else np.sum(x * x)

    return f


def _generator():
    calls = [0]

    def f(x):
        items = [1.0]

        def more():
            items.append(2.0)
            yield 1.0

        calls[0] += 1
        if calls[0] % 10 == 0:
            for _ in more():
                pass
        return loss(x) * len(items)

    return f


CALLS = POINTS * 4
READS = {
    name[1:]: made
    for name, made in list(globals().items())
    if name.startswith("_") and isinstance(made, types.FunctionType) and name[1:] not in CHANGES
    if name not in ("_print", "_log")
}


@pytest.mark.parametrize("what", READS)
def test_what_a_result_reads_is_refused_by_name(what):
    f, again = READS[what](), READS[what]()
    global counted
    c = tg.compile(f, verify="never")
    counted = 0
    found = []
    texts = [str(one.message) for one in warned(lambda: found.extend(map(c.value_and_grad, CALLS)))]
    counted = 0
    wanted = [tg.value_and_grad(again)(x) for x in CALLS]
    assert not c._flows.found and "runs eagerly" in texts[0]
    assert "which the function itself changes at test_graph_effects.py:" in texts[0]
    for (value, gradient), (value_, gradient_) in zip(found, wanted, strict=True):
        assert value == pytest.approx(value_)
        np.testing.assert_allclose(gradient, gradient_)


# --- several reads of a container that the function changes ---------------------------------------


def _changed_dict(read, change):
    held = {"n": 0, "a": 1.0, "b": 2.0}

    def f(x):
        held["n"] += 1
        return x[0] * held["a"] if x[0] > 0 else x[1] * read(held)

    return f, lambda: change(held)


PARTS = {
    "an item": (lambda d: d["b"], lambda d: d.update(b=5.0)),
    "get, of a key that comes": (lambda d: d.get("z", 3.0), lambda d: d.update(z=5.0)),
    "in, of a key that goes": (lambda d: 2.0 if "b" in d else 4.0, lambda d: d.pop("b")),
    "the length": (lambda d: 1.0 * len(d), lambda d: d.update(z=5.0)),
}


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("what", PARTS)
@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
def test_each_part_of_a_container_that_is_read_is_compared(what, verify):
    f, change = _changed_dict(*PARTS[what])
    c = tg.compile(f, verify=verify)
    points = [np.array(x) for x in ([0.5, -0.3], [-1.5, 0.3], [2.5, -3.0])]
    for x in points * 3:
        c.value_and_grad(x)
    change()
    for x in points:
        (value, slopes), (wanted, derivative) = c.value_and_grad(x), tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-14)
        np.testing.assert_allclose(slopes, derivative, rtol=1e-14)


# --- changes by ways that are not followed: whether a result reads them is not known --------------


class Holder:
    """Counts what is asked of it."""

    def __init__(self):
        self.n = 0

    def __bool__(self):
        self.n += 1
        return True

    def __eq__(self, other):
        self.n += 1
        return False

    __hash__ = None


def _by_setattr(held, items):
    setattr(held, "n", held.n + 1)


def _by_vars(held, items):
    vars(held)["n"] += 1


def _by_type(held, items):
    type(held).n = held.n + 1
    held.__dict__["n"] = type(held).n


def _by_class(held, items):
    held.__class__.n = held.n + 1
    held.__dict__["n"] = held.__class__.n


def _by_truth(held, items):
    if held:
        pass


def _by_equality(held, items):
    _ = held == 3


def _by_search(held, items):
    _ = held in [3]


def _by_a_bound_method(held, items):
    getattr(items, "append")(1.0)


def _by_operator(held, items):
    operator.setitem(items, slice(len(items), None), [1.0])


def _by_a_heap(held, items):
    heapq.heappush(items, 1.0)


def _by_a_generator(held, items):
    items.extend(1.0 for _ in range(1))


def _by_a_variable(held, items):
    one = items if held.scale > 0 else [4.0]
    one += [1.0]


WAYS = [made for name, made in list(globals().items()) if name.startswith("_by_")]


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("change", WAYS, ids=lambda f: f.__name__[4:])
def test_changes_that_are_not_followed_leave_no_program(change, verify):
    def made():
        held, items = Holder(), []
        held.scale = 1.0

        def f(x):
            change(held, items)
            w = 1.0 if held.n + len(items) < 20 else 2.0
            return x[0] * w if x[0] > 0 else x[1] * w

        return f, held, items

    f, held, items = made()
    c = tg.compile(f, verify=verify)
    texts = [str(one.message) for one in warned(lambda: [*map(c.value_and_grad, CALLS)])]
    assert "runs eagerly" in texts[0]
    held.n += 100
    items.extend([1.0] * 100)
    x = np.array([0.5, -0.3, 2.0])
    value, gradient = c.value_and_grad(x)
    assert value == 1.0
    np.testing.assert_array_equal(gradient, [2.0, 0.0, 0.0])


def _joined_lists():
    held = [1.0, 2.0]

    def f(x):
        one = held if x[0] > 0 else [4.0]
        one.append(1.0)
        return x[0] * len(one) if x[1] > 0 else x[1] * len(held)

    return f


def _joined_arrays():
    held = np.array([1.0, 2.0])

    def f(x):
        own = np.zeros(2)
        one = own if x[0] > 1 else held
        one[0] += 1
        return x[0] * held[0] if x[1] > 0 else x[1] * held[0]

    return f


def _viewed():
    held = np.array([1.0, 2.0, 3.0])

    def f(x):
        one = np.asarray(held[:2])
        one[1] = one[1] + 1
        return x[0] * held[1] if x[1] > 0 else x[1] * held[1]

    return f


def _extended_by_a_generator():
    held = [1.0]

    def f(x):
        held.extend(v for v in [1.0, 2.0])
        return x[0] * len(held) if x[1] > 0 else x[1] * len(held)

    return f


def _bytes_of_an_array():
    held = bytearray(np.array([1.0]).tobytes())
    numbers = np.frombuffer(held)

    def f(x):
        held[6] = (held[6] + 1) % 255
        return x[0] * numbers[0] if x[0] > 0 else x[1] * numbers[0]

    return f


def _array_of_bytes():
    held = bytearray(np.array([1.0]).tobytes())
    numbers = np.frombuffer(held)

    def f(x):
        numbers[0] += 1.0
        return x[0] * held[6] if x[0] > 0 else x[1] * held[6]

    return f


SHARED = [
    *(_joined_lists, _joined_arrays, _viewed, _extended_by_a_generator),
    *(_bytes_of_an_array, _array_of_bytes),
]


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("make", SHARED, ids=lambda f: f.__name__[1:])
def test_changes_of_what_a_variable_may_be_run_eagerly(make, verify):
    c = tg.compile(make(), verify=verify)
    texts = [str(one.message) for one in warned(lambda: [*map(c.value_and_grad, CALLS)])]
    assert "runs eagerly" in texts[0]
    assert repr(c).startswith("<compiled function f: runs eagerly: ")


def _named_by_texts(held, x):
    setattr(held, "count", getattr(held, "count") + 1)
    return x[0] * (1.0 if getattr(held, "count") < 20 else 2.0)


def _named_in_vars(held, x):
    vars(held)["count"] += 1
    return x[0] * (1.0 if vars(held)["count"] < 20 else 2.0)


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("f", [_named_by_texts, _named_in_vars], ids=lambda f: f.__name__[1:])
def test_attributes_that_a_text_names_are_looked_at(f, verify):
    held = types.SimpleNamespace(count=0)
    c = tg.compile(lambda x: f(held, x), verify=verify)
    texts = [str(one.message) for one in warned(lambda: [*map(c.value_and_grad, CALLS)])]
    assert "runs eagerly" in texts[0]
    held.count = 100
    assert c(np.array([0.5, -0.3])) == 1.0


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

"""Counters and histories in functions with branches that results read: refused by name."""

import heapq
import operator
import types

import numpy as np
import pytest
from assumed import needs
from effect_lines import POINTS, loss, warned

import tapegrad as tg

pytestmark = needs("numba-reader")

counted = 0


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
    if name.startswith("_") and isinstance(made, types.FunctionType)
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
    assert "which the function itself changes at test_effects_read.py:" in texts[0]
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

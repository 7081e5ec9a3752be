"""Compiled methods and functions that set attributes: counters, histories, intermediate results."""

import warnings

import numpy as np
import pytest

import tapegrad as tg

W = np.array([0.5, -1.0, 1.5, 0.25])


class Model:
    """Methods as users write them; those of `EAGER` read what an earlier call has set."""

    def __init__(self):
        self.calls, self.history, self.best, self.total = 0, [], np.inf, 7.0
        self.scale, self.x = 2.0, None

    def counts(self, w):
        self.calls += 1
        return self.scale * np.sum(np.tanh(w) ** 2 if w[0] > 0 else w**3)

    def remembers(self, w):
        value = np.sum(w**2) * w[1] if w[0] > 0 else w[1]
        self.history.append(float(value))
        return value

    def keeps_the_best(self, w):
        value = w[0] * w[1] if w[2] > 0 else w[3] ** 2
        if value < self.best:
            self.best, self.x = float(value), w.copy()
        return value

    def caches(self, w):
        if not hasattr(self, "matrix"):
            self.matrix = np.outer(np.arange(4.0), np.arange(4.0))
        return np.sum(np.sin(self.matrix @ w))

    def sets_and_reads(self, w):
        self.x = 2.0 * w
        self.x[0] = w[1] ** 2 if w[2] > 0 else w[3]
        return np.sum(self.x**3)

    def sets_in_another(self, w):
        self.set(w)
        return self.used() * self.scale

    def set(self, w):
        self.x = [w[0], 2.0 * w[1]]
        self.calls += 1

    def used(self):
        return sum([one**2 for one in self.x])

    def sums(self, w):
        self.total = 0.0
        for one in w:
            if one > 0:
                self.total += one**2
        return self.total

    def sets_on_both_branches(self, w):
        if w[0] > 0:
            self.x = 2.0 * w
        else:
            self.x = 3.0 * w
        return np.sum(self.x**2)

    def sets_behind_a_count(self, w):
        self.calls += 1
        self.total = w[0]
        if self.calls % 3 == 0:
            self.total, self.best = w[1], 1.0
        return w[2] ** 2 + w[0] * (w[1] if w[2] > 0 else 1.0)

    def reads_a_count(self, w):
        self.calls += 1
        return np.sum(w**2) * (2.0 if self.calls > 4 else 1.0)

    def anneals(self, w):
        self.scale = 1.5 * self.scale
        return self.scale * np.sum(w**2)

    def sets_on_one_branch(self, w):
        if w[0] > 0:
            self.total = w[1]
        return self.total * w[0]

    def reads_the_last_round(self, w):
        out = 0.0
        for one in w:
            out += self.total * one
            self.total = one
        return out

    def overwrites_behind_a_count(self, w):
        self.calls += 1
        self.total = w[0]
        if self.calls % 3 == 0:
            self.total = w[1]
        return self.total * w[2]


EAGER = {
    "reads_a_count",
    "anneals",
    "sets_on_one_branch",
    "reads_the_last_round",
    "overwrites_behind_a_count",
}


def points():
    return [W * (1.0 + 0.1 * k) * (-1.0) ** (k // 2) for k in range(8)]


def compared(f, plain) -> tuple[str, list[str]]:
    """What `explain` begins with, and the warnings, of a function that is as the plain one."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        compiled = tg.compile(f)
        found = [compiled.value_and_grad(w) for w in points()]
    for w, (value, slope) in zip(points(), found, strict=True):
        expected, wanted = tg.value_and_grad(plain)(w)
        np.testing.assert_allclose(value, expected, rtol=1e-13)
        np.testing.assert_allclose(slope, wanted, rtol=1e-12)
    return compiled.explain().splitlines()[0], [str(one.message) for one in noted]


METHODS = sorted(name for name in vars(Model) if not name.startswith("_"))
METHODS = [name for name in METHODS if name not in ("set", "used")]


@pytest.mark.parametrize("is_used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("name", METHODS)
def test_methods(name, is_used):
    """They are compiled, with one warning, unless a result depends on an earlier call."""
    model, plain = Model(), Model()
    if is_used:
        getattr(model, name)(W), getattr(plain, name)(W)
    said, noted = compared(getattr(model, name), getattr(plain, name))
    assert ("runs eagerly" in said) == (name in EAGER)
    assert len(noted) == (name != "caches")
    if name in EAGER:
        assert "which the function itself changes at test_methods_that_write.py" in noted[0]
    elif noted:
        assert "changes" in noted[0] and "not in later calls" in noted[0]


TOTAL = 0.0


def sums_a_global(w):
    global TOTAL
    TOTAL = 0.0
    for one in w:
        if one > 0:
            TOTAL += one**2
    return TOTAL


def test_a_global_that_is_set_before_it_is_read():
    said, noted = compared(sums_a_global, sums_a_global)
    assert "1 graph" in said and "changes TOTAL" in noted[0]


def test_a_variable_around_it_that_is_set_before_it_is_read():
    last = None

    def f(w):
        nonlocal last
        last = w[0] * w[1]
        return last**2 if w[2] > 0 else 3.0 * last

    _, noted = compared(f, f)
    assert "changes last" in noted[0]


@pytest.mark.parametrize("held", [{}, {"last": None}, {"last": np.zeros(4)}], ids=str)
def test_an_attribute_that_programs_do_not_set_is_told_of(held):
    """Also where it was not there before."""
    model = Model()
    vars(model).update(held)

    def f(w):
        model.last = 2.0 * w
        return np.sum(w**2)

    said, noted = compared(f, f)
    assert "eagerly" not in said and "changes last at" in noted[0]


def test_a_method_of_a_class_that_counts_says_what_to_compile():
    class Counted:
        calls = 0

        @tg.compile
        def loss(self, w):
            self.calls += 1
            return np.sum(w**2)

    one = Counted()
    with pytest.warns(RuntimeWarning, match=r"sets self.calls.*c = tg.compile\(model.loss\)"):
        assert one.loss(W) == one.loss(W) == np.sum(W**2)
    assert one.calls == 2


def test_attributes_that_change_later_and_named_arguments():
    model = Model()
    with pytest.warns(RuntimeWarning, match="changes calls"):
        compiled = tg.compile(model.counts, argnames="w")
        for scale in (2.0, 2.0, 3.0, -1.0):
            model.scale = scale
            for w in points()[:3]:
                expected, wanted = tg.value_and_grad(Model.counts, 1)(model, w)
                value, slope = compiled.value_and_grad(w=w)
                np.testing.assert_allclose(value, expected, rtol=1e-14)
                np.testing.assert_allclose(slope, wanted, rtol=1e-14)

"""When native code begins: where interpreting has cost about what compiling is going to cost."""

import numpy as np
import pytest
from compiled import by_ways, is_native

import tapegrad as tg
from tapegrad._program.dispatch import evaluation
from tapegrad._program.dispatch.takeover import FEWEST, patience


def loop(x, times):
    y = x[0]
    for _ in range(times):
        y = y + 0.01 * np.sin(y) * x[1]
    return y


def patience_of(f, *args):
    c = tg.compile(f, native=False)
    for _ in range(2):
        c.value_and_grad(*args)
    ((variant,),) = [family.found for family in c._families.found.values()]
    return patience(variant.program)


def test_long_functions_ask_early_and_short_ones_late():
    x = np.array([0.3, 0.2])
    short, middle, long = (patience_of(loop, x, times) for times in (1, 1000, 100_000))
    assert short > 5_000
    assert 500 < middle < 10_000
    assert FEWEST <= long < 100


def test_a_body_costs_its_text_once_however_often_it_occurs():
    """More iterations take longer, and as long to compile."""
    x = np.array([0.3, 0.2])
    assert patience_of(loop, x, 1000) > 5 * patience_of(loop, x, 10_000)


def test_large_arrays_ask_early():
    f = lambda x: np.sum(np.sin(x) * np.exp(x) * x)
    assert patience_of(f, np.linspace(0.0, 1.0, 100_000)) < 1000 < patience_of(f, np.ones(3))


@pytest.mark.parametrize("gradient", [True, False])
def test_each_evaluation_counts(gradient, monkeypatch):
    monkeypatch.setattr(evaluation, "patience", lambda program: 20)
    c = tg.compile(lambda x: np.sum(x**3))
    call = c.value_and_grad if gradient else c
    x = np.arange(1.0, 4.0)
    for _ in range(15):
        call(x)
    assert not c._compiling
    for k in range(10):
        call(x + k)
    c.wait()
    assert call(x)[0] == 36.0 if gradient else call(x) == 36.0
    assert len(c._compiling) == 1 and is_native(c)


def test_rows_count(monkeypatch):
    monkeypatch.setattr(evaluation, "patience", lambda program: 50)
    c = tg.compile(lambda x: np.sum(x**3))
    for count in (20, 20, 20):
        assert not c._compiling
        c.map(np.ones((count, 2)))
    assert len(c._compiling) == 1
    c.wait()
    np.testing.assert_array_equal(c.map(2.0 * np.ones((3, 2)), gradient=False), np.full(3, 16.0))
    assert is_native(c)


def test_each_way_through_the_branches_counts_for_itself(monkeypatch):
    """A way that is taken now and then is not worth code of its own."""
    monkeypatch.setattr(evaluation, "patience", lambda program: 30)
    c = by_ways(tg.compile(lambda x: x[0] * x[1] if x[0] > 0.0 else x[1] * 2.0))
    for k in range(60):
        c.value_and_grad(np.array([-1.0 if k % 10 == 9 else 1.0, 3.0]))
    c.wait()
    assert len(c._compiling) == 1

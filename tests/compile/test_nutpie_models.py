"""Compiled log densities as models of nutpie, of which a function stands in for the whole."""

import sys
import types

import numpy as np
import pytest

import tapegrad as tg

Y = np.array([1.0, 2.0, 6.0])


def density(p, y):
    """Normal data with a mean of two parts and a scale."""
    off = (y - np.sum(p["mean"])) * np.exp(-p["log_scale"])
    return -0.5 * np.sum(off**2) - len(y) * p["log_scale"]


@pytest.fixture
def given(monkeypatch):
    """nutpie with one function, which returns what it is given."""
    pyfunc = types.SimpleNamespace(from_pyfunc=lambda **given: given)
    monkeypatch.setitem(sys.modules, "nutpie", types.SimpleNamespace(compiled_pyfunc=pyfunc))


@pytest.mark.usefixtures("given")
def test_what_nutpie_is_given():
    c = tg.compile(density)
    like = {"mean": np.array([1.0, 3.0]), "log_scale": 0.5}
    model = c.nutpie_model(like, Y)
    assert model["ndim"] == 3 and model["expanded_names"] == ["mean", "log_scale"]
    assert model["expanded_shapes"] == [(2,), ()] and model["expanded_dtypes"] == [np.float64] * 2
    log_density, x = model["make_logp_fn"](), np.array([0.5, 2.0, -0.25])
    off = (Y - 2.5) * np.exp(0.25)
    for _ in range(3):
        value, gradient = log_density(x)
        np.testing.assert_allclose(value, -0.5 * off @ off + 0.75, rtol=1e-14)
        slope = np.sum(off) * np.exp(0.25)
        np.testing.assert_allclose(gradient, [slope, slope, off @ off - 3.0], rtol=1e-13)
    expanded = model["make_expand_fn"](1, 2, 0)(x)
    assert expanded["mean"].tolist() == [0.5, 2.0] and expanded["log_scale"] == -0.25
    starts = [model["make_initial_point_fn"](seed) for seed in (1, 2)]
    assert np.all(np.abs(starts - np.array([1.0, 3.0, 0.5])) <= 1.0)
    assert np.array_equal(starts[0], model["make_initial_point_fn"](1))
    assert not np.array_equal(*starts)


@pytest.mark.usefixtures("given")
def test_an_array_is_one_variable():
    model = tg.compile(lambda x: -np.sum(x**4)).nutpie_model(np.zeros((2, 2)))
    assert model["expanded_names"] == ["x"] and model["expanded_shapes"] == [(2, 2)]
    value, gradient = model["make_logp_fn"]()(np.arange(4.0))
    assert value == -98.0 and gradient.tolist() == [0.0, -4.0, -32.0, -108.0]


@pytest.mark.usefixtures("given")
def test_what_is_no_model():
    c = tg.compile(density)
    with pytest.raises(TypeError, match="and got 3 as a name"):
        c.nutpie_model({3: 1.0})
    with pytest.raises(TypeError, match="an empty dict"):
        c.nutpie_model({})
    with pytest.raises(TypeError, match="compile it without argnums"):
        tg.compile(density, argnums=(0, 1)).nutpie_model(np.zeros(2))


def test_without_nutpie(monkeypatch):
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.raises(ImportError, match="pip install nutpie"):
        tg.compile(density).nutpie_model(np.zeros(2))

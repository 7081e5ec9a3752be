"""Cells of code as users write them, entered: eager, compiled, with changes between calls."""

import math
import sys
import types
import warnings

import numpy as np
import pytest
from entered_snippets import REFUSED, SNIPPETS, WAYS, check

import tapegrad as tg

A, B, C = np.array([0.4, 1.3]), np.array([1.1, -0.7]), np.array([-0.6, 0.9])
EAGER = [(A, ""), (B, "then1"), (C, "then2")]


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    yield
    for name in [name for name in sys.modules if name.startswith("cell_of_")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", SNIPPETS)
def test_eager(name):
    make, _ = WAYS["value_and_grad"]
    if name in REFUSED:
        with pytest.raises(tg.DerivativeLost, match=REFUSED[name]):
            check(name, EAGER, make)
    else:
        check(name, EAGER, make)


@pytest.mark.parametrize("name", SNIPPETS)
def test_compiled_in_a_notebook(name):
    make, _ = WAYS["compile"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* (runs eagerly|is recorded and compared)")
        if name in REFUSED:
            with pytest.raises(tg.DerivativeLost, match=REFUSED[name]):
                check(name, [(A, ""), *EAGER], make, "__main__")
        else:
            check(name, [(A, ""), *EAGER], make, "__main__")


def test_asserts_that_pytest_rewrites():
    def f(x, least=0.0):
        y = np.zeros(1)
        y[0] = math.sin(x[0])
        assert isinstance(x, np.ndarray) and type(y[0]) in (np.float64,)
        assert y[0] > least and np.all([math.cos(v) < 1.0 for v in x]), f"{y[0]:.2f}"
        return y[0] * x[1]

    for call in (tg.value_and_grad(f), tg.compile(f).value_and_grad):
        for _ in range(3):
            value, gradient = call(A)
            assert value == pytest.approx(f(A), rel=1e-15)
            np.testing.assert_allclose(gradient, [math.cos(0.4) * 1.3, math.sin(0.4)])
    with pytest.raises(AssertionError) as plain:
        f(A, 1.0)
    with pytest.raises(AssertionError) as entered:
        tg.grad(f)(A, 1.0)
    assert str(entered.value) == str(plain.value) and "0.39" in str(plain.value)

"""Values and partial derivatives against 50 digits, for ordinary, tiny and huge arguments."""

import runpy

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg
from tapegrad.scipy import special

mpmath = pytest.importorskip("mpmath")
PAGE = runpy.run_path(str(ROOT / "docs" / "make_accuracy.py"))
X = np.array([-700.0, -45.0, -9.0, -1.0, -1e-200, 0.0, 1e-8, 0.5, 7.0, 9.0, 20.0, 45.0, 300.0])


@pytest.mark.parametrize("name", PAGE["names"]())
def test_errors_are_those_of_rounding(name):
    value, *partials = PAGE["errors"](name)
    most, most_of_partials, _ = PAGE["EXCEPTIONS"].get(name, (1e-12, 1e-12, ""))
    assert value[0] <= most, value
    assert max(partials)[0] <= most_of_partials, partials


def test_every_operation_is_on_the_page():
    assert not PAGE["uncovered"]()
    page = (ROOT / "docs" / "accuracy.md").read_text()
    found = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert found == PAGE["names"](), "run `python docs/make_accuracy.py`"
    assert page.startswith(PAGE["HEAD"])


def slopes(name, x):
    """The exact derivative, as floats."""
    found = PAGE["exact"](name, [x])[1]
    return np.array([float(one) for one in found])


MODES = {
    "grad": lambda f, x: tg.grad(lambda x: np.sum(f(x)))(x),
    "jvp": lambda f, x: tg.jvp(f, (x,), (np.ones(len(x)),))[1],
    "numbers": lambda f, x: np.array([tg.grad(f)(one) for one in x.tolist()]),
    "recorded": lambda f, x: tg.vjp(lambda x: tg.grad(lambda x: np.sum(f(x)))(x), x)[0],
    "vmap": lambda f, x: tg.vmap(tg.grad(f))(x),
    "program": lambda f, x: _third(tg.compile(lambda x: np.sum(f(x)), verify="never"), x),
    "native": lambda f, x: _third(tg.compile(lambda x: np.sum(f(x)), native=True), x),
    "graph": lambda f, x: np.array([_third(_branching(f), one) for one in x.tolist()]),
    "native graph": lambda f, x: np.array(
        [_third(_branching(f, native=True), one) for one in x[:3].tolist()]
    ),
}


def _third(compiled, x):
    return [compiled.grad(x) for _ in range(3)][-1]


def _branching(f, **options):
    return tg.compile(lambda x: f(x) if x < 1e9 else x, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_saturated_functions_keep_their_slopes_in_every_mode(name, mode):
    f = np.tanh if name == "tanh" else special.expit
    x = X if "native graph" != mode else X[-3:]
    found = MODES[mode](f, x)
    np.testing.assert_allclose(found, slopes(name, x)[: len(found)], rtol=1e-12)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_second_derivatives_of_saturated_functions(name):
    f = np.tanh if name == "tanh" else special.expit
    x = np.array([-20.0, -3.0, 0.5, 9.0, 20.0, 45.0])
    s = slopes(name, x)
    factor = -2.0 * np.tanh(x) if name == "tanh" else -np.tanh(0.5 * x)
    expected = factor * s

    def total(x):
        return np.sum(f(x))

    np.testing.assert_allclose(tg.hvp(total)(x, np.ones(6)), expected, rtol=1e-12)
    np.testing.assert_allclose(np.diag(tg.hessian(total)(x)), expected, rtol=1e-12)
    compiled = tg.compile(lambda x: tg.hvp(total)(x, np.ones(6)))
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 3, 300, 5000])
@pytest.mark.parametrize("far", [False, True])
def test_blocks_with_and_without_saturated_elements(count, far):
    x = np.random.default_rng(count).uniform(-3.0, 3.0, count)
    if far:
        x[count // 2] = 25.0
    s = 1.0 / np.cosh(x) ** 2
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(np.tanh(x)))(x), s, rtol=1e-12)
    single = tg.grad(lambda x: np.sum(np.tanh(x)))(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, s, rtol=2e-4)

"""logsumexp with weights, some of them 0: an element that is not counted has no part in it."""

import warnings

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad.scipy.special import logsumexp

INF, NAN = np.inf, np.nan
CASES = {
    "largest": ([0.1, 1000.0, -0.3], [1.0, 0.0, 2.0]),
    "infinite": ([0.1, INF, -0.3], [1.0, 0.0, 2.0]),
    "nan": ([0.1, NAN, -0.3], [1.0, 0.0, 2.0]),
    "none": ([0.1, 2.0], [0.0, 0.0]),
    "minus infinity": ([-INF, 2.0, 1.0], [1.0, 1.0, 0.0]),
    "negative": ([1.0, 800.0, 2.0], [-1.0, 0.0, 1.0]),
    "not a number": ([1.0, 2.0], [1.0, -1.0]),
    "far below": ([-2000.0, 3.0, -2001.0], [1.0, 0.0, 1.0]),
}


def exact(x, b):
    """SciPy's value, and the derivatives to x and b."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = scipy.special.logsumexp(x, b=b)
        powers = np.exp(x - value)
        return value, np.where(b == 0.0, 0.0, b * powers), powers


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    x, b = map(np.array, CASES[name])
    value, to_x, to_b = exact(x, b)
    f = lambda x, b: logsumexp(x, b=b)
    compiled = tg.compile(f, argnums=(0, 1))
    for transform in (tg.value_and_grad(f, argnums=(0, 1)), *[compiled.value_and_grad] * 3):
        found, (of_x, of_b) = transform(x, b)
        np.testing.assert_allclose(found, value, rtol=1e-14)
        if np.isfinite(value):
            np.testing.assert_allclose(of_x, to_x, rtol=1e-12)
            np.testing.assert_allclose(of_b, to_b, rtol=1e-12)
    if np.isfinite(value):
        slope = tg.jvp(lambda x: f(x, b), (x,), (np.ones(len(x)),))[1]
        np.testing.assert_allclose(slope, 1.0, rtol=1e-12)


def test_second_derivatives():
    x, b = map(np.array, CASES["largest"])
    _, p, _ = exact(x, b)
    f = lambda x: logsumexp(x, b=b)
    expected = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(tg.hessian(f)(x), expected, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(tg.hvp(f)(x, x), expected @ x, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_and_weights_that_change(axis, keepdims):
    rng = np.random.default_rng(0)
    weights = [np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.5]), np.ones((2, 3))]
    f = lambda x, b: logsumexp(x, axis=axis, b=b, keepdims=keepdims)
    compiled = tg.compile(f, verify="never")
    for b in (*weights[:2], *weights[:2], weights[2]):
        x = rng.normal(size=(2, 3))
        x[:, np.flatnonzero(np.broadcast_to(b, (2, 3))[0] == 0.0)] = 900.0
        powers = b * np.exp(np.where(b == 0.0, 0.0, x))  # SciPy's are NaN where all b are 0
        with np.errstate(divide="ignore"):
            wanted = np.log(np.sum(powers, axis=axis, keepdims=keepdims))
        np.testing.assert_allclose(f(tg.tensor(x, requires_grad=True), b).detach(), wanted)
        np.testing.assert_allclose(compiled(x, b), wanted)

"""Gradients written to the caller's arrays."""

import re

import numpy as np
import pytest
from compiled import normal

import tapegrad as tg


def f(x, w, s):
    return np.sum(np.sin(x) * w) * s if s > 0 else np.sum(x * w)


X, W = np.linspace(0.1, 1.0, 6), np.linspace(-1.0, 2.0, 6)


@pytest.mark.parametrize("argnums", [(0, 1, 2), (2, 0), (1,)])
@pytest.mark.parametrize("s", [0.5, -0.5])
def test_arrays_are_filled_and_returned(argnums, s):
    c, eager = tg.compile(f, argnums=argnums), tg.value_and_grad(f, argnums)
    for scale in (1.0, 2.0, 3.0, 4.0):  # recorded, compared, and twice the short way
        args = (scale * X, W / scale, s * scale)
        out = tuple(np.full(np.shape(args[k]), np.nan) for k in argnums)
        value, found = c.value_and_grad(*args, out=out)
        right, wanted = eager(*args)
        assert found is out and value == pytest.approx(right, rel=1e-14)
        for a, b in zip(out, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def test_one_array():
    c, out = tg.compile(lambda x: np.sum(x**3)), np.empty(4)
    for (x,) in normal(4):
        value, found = c.value_and_grad(x, out=out)
        assert found is out
        np.testing.assert_allclose(out, 3 * x**2, rtol=1e-14)
        assert c.grad(x * 2.0, out=out) is out
        np.testing.assert_allclose(out, 12 * x**2, rtol=1e-14)


def test_large_inputs():
    """Their gradients are computed where the caller has them."""
    c, x = tg.compile(lambda x: np.sum(np.exp(x) * x)), np.linspace(-1.0, 1.0, 40_000)
    out = np.empty_like(x)
    for k in range(4):
        c.value_and_grad(x + k, out=out)
        np.testing.assert_allclose(out, np.exp(x + k) * (1 + x + k), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "out, text",
    [
        (np.empty(5), "out for argument 0, of shape (6,), is float64 (5,); it must be a"),
        (np.empty(6, np.float32), "is float32 (6,); it must be a writable float64 array"),
        (np.empty(12)[::2], "in C order of the same shape"),
        ([0.0] * 6, "it must be a writable float64 array"),
        (X[:], "out for argument 0 shares memory with an argument or another out"),
    ],
)
def test_arrays_that_do_not_fit(out, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        tg.compile(f).value_and_grad(X, W, 0.5, out=out)


def test_several_that_do_not_fit():
    c, one = tg.compile(f, argnums=(0, 1)), np.empty(6)
    with pytest.raises(ValueError, match=r"out must be 2 arrays, one for each argument of argnums"):
        c.value_and_grad(X, W, 0.5, out=one)
    with pytest.raises(ValueError, match="shares memory with an argument or another out"):
        c.value_and_grad(X, W, 0.5, out=(one, one))
    frozen = np.empty(6)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out for argument 1"):
        c.value_and_grad(X, W, 0.5, out=(one, frozen))
    with pytest.raises(ValueError, match=r"argnums \(0, 1\) by position; there are 0"):
        c.value_and_grad(x=X, w=W, s=0.5, out=(one, np.empty(6)))
    nested = tg.compile(lambda d: d["a"] * d["a"])
    with pytest.raises(ValueError, match="out for argument 0, in a structure, is"):
        nested.value_and_grad({"a": 2.0}, out=np.empty(()))

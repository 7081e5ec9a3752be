"""Public functions that take a function: they enter it."""

import functools
import math
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import functional

X, V = np.array([0.4, 1.1, 0.7]), np.array([0.3, -1.0, 0.5])


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def filled(x):
    y = np.zeros(3)
    for k in range(3):
        y[k] = math.sin(x[k]) * x[0]
    return np.sum(y)


def whole(x):
    """The same without a plain array that is filled, for PyTorch's style."""
    return np.sum(np.sin(x) * x[0])


GRADIENT = tg.grad(whole)(X)
HESSIAN = tg.hessian(whole)(X)


@pytest.mark.parametrize(
    ("name", "vector", "wanted"),
    [
        ("vjp", (), GRADIENT),
        ("jvp", (V,), GRADIENT @ V),
        ("jacobian", (), GRADIENT),
        ("hessian", (), HESSIAN),
        ("vhp", (V,), HESSIAN @ V),
        ("hvp", (V,), HESSIAN @ V),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_functional(name, vector, wanted, create_graph):
    x = tg.tensor(X, requires_grad=True)
    given = [tg.tensor(one) for one in vector]
    found = getattr(functional, name)(filled, x, *given, create_graph=create_graph)
    found = found[1] if type(found) is tuple else found
    np.testing.assert_allclose(found.detach().numpy(), wanted)
    if create_graph and name in ("vjp", "jacobian"):
        found.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), HESSIAN.sum(0))


def test_checks_of_derivatives():
    x = tg.tensor(X, requires_grad=True)
    assert tg.autograd.gradcheck(filled, (x,), check_forward_ad=True)
    assert tg.autograd.gradcheck(filled, (x,), fast_mode=True)
    assert tg.autograd.gradgradcheck(filled, (x,))
    tg.check_grads(filled, (X,))


def test_record():
    text = repr(tg.record(filled, X))
    assert text.count("  sin ") == 3 and "write" in text


def test_check_grads_has_the_packages_of_a_transform():
    with pytest.raises(TypeError, match="enter has 1"):
        tg.check_grads(whole, (X,), enter=(1,))


# --- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", ["once", "never"])
def test_programs_of_entered_functions_are_compared_where_they_ask_for_types(verify):
    """As those that are not entered: the search for such code goes through what enters."""

    def f(x, d):
        return x[0] if hasattr(d, "shape") else x[1] ** 2

    c = tg.compile(f, verify=verify)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(3):
            value, gradient = c.value_and_grad(X, 2.0)
            assert value == pytest.approx(X[1] ** 2)
            np.testing.assert_allclose(gradient, [0.0, 2 * X[1], 0.0])


def test_memoized_functions_forget_what_a_recording_has_asked_of_them():
    @functools.lru_cache
    def kind(d):
        return d * 2.0

    def f(x, d):
        return x[0] * kind(d)

    c = tg.compile(f)
    for _ in range(3):
        assert c(X, 2.0) == pytest.approx(4.0 * X[0])
    assert type(kind(2.0)) is float

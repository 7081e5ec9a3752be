"""`full`, `full_like`, `arange`, `linspace`, `geomspace`, `logspace` of recorded numbers."""

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, 1.2, 1.9])
A, B = np.array([0.5, 2.0]), np.array([[1.5, 3.0], [4.0, 7.0], [2.5, 0.5]])

#: Functions of (the module, x) with NumPy's own as the module for plain values.
MADE = {
    "full": lambda m, x: m.full((2, 3), x[0]),
    "full of an int": lambda m, x: m.full(4, x[1]),
    "full of an array": lambda m, x: m.full((2, 3), x),
    "full by name": lambda m, x: m.full(shape=3, fill_value=x[0]),
    "full_like": lambda m, x: np.full_like(x, x[0]),
    "full_like of a matrix": lambda m, x: np.full_like(np.outer(x, x), x[2] * x[0]),
    "full_like with a shape": lambda m, x: m.full_like(x, x[1], shape=(2, 2)),
    "full_like of an array": lambda m, x: m.full_like(V, x[1]) if m is tg else x[1] * np.ones(3),
    "arange": lambda m, x: m.arange(x[0], x[2] * 3, x[1]),
    "arange from": lambda m, x: m.arange(x[0], 4.0),
    "arange to": lambda m, x: m.arange(x[2] * 2) + x[0],
    "arange by": lambda m, x: m.arange(0.0, 5.0, x[0]),
    "linspace": lambda m, x: np.linspace(x[0], x[2], 5),
    "linspace of one end": lambda m, x: np.linspace(0, x[1]),
    "linspace the other end": lambda m, x: m.linspace(x[1], 3.0, 4),
    "linspace without the end": lambda m, x: np.linspace(x[0], x[1], 5, endpoint=False),
    "linspace of one": lambda m, x: np.linspace(x[0], x[1], 1),
    "linspace of none": lambda m, x: np.linspace(x[0], x[1], 0),
    "linspace of arrays": lambda m, x: np.linspace(x, x[::-1] ** 2, 4),
    "linspace along an axis": lambda m, x: np.linspace(x, x[1] ** 2, 4, axis=-1),
    "linspace of broadcast arrays": lambda m, x: np.linspace(A * x[0], B, 3, axis=1),
    "linspace with its step": lambda m, x: np.linspace(x[0], x[1], 5, retstep=True)[1] * np.ones(2),
    "linspace of integers": lambda m, x: np.linspace(x[0], 9.3, 5, dtype=int) * x[0],
    "linspace of a list": lambda m, x: m.linspace([x[0], 1.0], [2.0, x[1]], 3),
    "geomspace": lambda m, x: np.geomspace(x[0], x[2], 5),
    "geomspace without the end": lambda m, x: m.geomspace(x[0], 7.0, 4, endpoint=False),
    "geomspace of arrays": lambda m, x: np.geomspace(A * x[1], B, 3, axis=-1),
    "geomspace below zero": lambda m, x: np.geomspace(-x[0], -x[2], 4),
    "logspace": lambda m, x: np.logspace(x[0], x[1], 4),
    "logspace of a base": lambda m, x: np.logspace(x[0], 2.0, 4, base=x[2]),
    "logspace of bases": lambda m, x: np.logspace(0.5, 2.0, 4, base=x),
    "logspace of bases along": lambda m, x: np.logspace(x, 2.0, 4, base=x[::-1], axis=-1),
}


def weighed(made):
    return np.sum(made**2 * np.cos(np.arange(made.size)).reshape(made.shape))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_values_gradients_programs_and_second_derivatives(make):
    def f(x):
        return weighed(make(tg, x))

    plain = make(np, V)
    value, back = tg.vjp(lambda x: make(tg, x), V)
    assert np.shape(value) == plain.shape
    np.testing.assert_allclose(value, plain, rtol=1e-14, atol=1e-14)
    eye = 1e-6 * np.eye(3)
    ends = [[weighed(make(np, V + step)) for step in sign * eye] for sign in (1, -1)]
    wanted = (np.array(ends[0]) - ends[1]) / 2e-6
    np.testing.assert_allclose(tg.grad(f)(V), wanted, rtol=1e-6, atol=1e-7)
    compiled = tg.compile(f)
    for x in (V, V, V * np.array([1.05, 0.95, 1.02])):
        np.testing.assert_allclose(compiled(x), weighed(make(np, x)), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(compiled.grad(x), tg.grad(f)(x), rtol=1e-12, atol=1e-12)
    slopes = [tg.grad(f)(V + step) - tg.grad(f)(V - step) for step in eye]
    np.testing.assert_allclose(tg.hessian(f)(V), np.array(slopes) / 2e-6, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(f, (V,), (V,))[1], tg.grad(f)(V) @ V, rtol=1e-11, atol=1e-12)


def test_ends_are_exact():
    """Also in rounding: the last number is the end, and its derivative 1."""
    jacobian = tg.jacobian(lambda x: np.linspace(x[0], x[1], 7))(V)
    assert jacobian[0].tolist() == [1.0, 0.0, 0.0] and jacobian[-1].tolist() == [0.0, 1.0, 0.0]
    for make in (np.linspace, np.geomspace):
        value, _ = tg.vjp(lambda x, make=make: make(x[0], x[1], 9), V)
        assert value[0] == V[0] and value[-1] == V[1]


def test_the_length_of_arange_is_a_guard():
    compiled = tg.compile(lambda x: np.sum(tg.arange(x[0], x[1]) ** 2))
    for ends in ((0.5, 4.0), (0.5, 4.0), (0.25, 2.0), (1.5, 9.0), (3.0, 2.0), (0.5, 4.0)):
        assert compiled(np.array(ends)) == np.sum(np.arange(*ends) ** 2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_dtypes_are_numpys(dtype):
    x = tg.tensor(V.astype(dtype), requires_grad=True)
    plain = V.astype(dtype)
    for name, ends in {"linspace": (0, 2), "geomspace": (0, 2), "logspace": (0, 1)}.items():
        made = getattr(np, name)(*[x[k : k + 1] for k in ends], 4)
        wanted = getattr(np, name)(*[plain[k : k + 1] for k in ends], 4)
        assert made.dtype == wanted.dtype and made.requires_grad
        np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=1e-6)
    assert np.full_like(x, x[0]).dtype == tg.full(2, x[:1]).dtype == np.dtype(dtype)
    assert np.full_like(x, x[0], dtype="f8").dtype == np.float64


def test_a_new_input_is_filled_with_the_value():
    """As in PyTorch: nothing passes to what it was made of."""
    x = tg.tensor(V, requires_grad=True)
    y = tg.full(2, x[0].item(), requires_grad=True)
    (y * y).sum().backward()
    assert x.grad is None and y.grad.tolist() == [2 * V[0]] * 2


def test_errors_are_numpys(not_entered):  # where np.full is NumPy's
    for call, kind in (
        (lambda x: np.geomspace(x[0] * 0.0, 1.0), ValueError),
        (lambda x: np.linspace(x[0], 1.0, -1), ValueError),
        (lambda x: np.linspace(x[0], 1.0, 2.5), TypeError),
        (lambda x: tg.zeros(x[0]), TypeError),
        (lambda x: np.full_like(V, x[0]), TypeError),
        (lambda x: np.full(3, x[0]), TypeError),
    ):
        with pytest.raises(kind):
            tg.grad(call)(V)

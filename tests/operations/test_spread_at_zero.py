"""Standard deviations that are 0, where PyTorch's derivative is 0, too."""

import numpy as np
import pytest

import tapegrad as tg

OF_EQUAL = {
    "std": np.std,
    "nanstd": np.nanstd,
    "std of one each": lambda x: np.sum(np.std(x[:, None], axis=1)),
    "nanstd of one each": lambda x: np.sum(np.nanstd(x[None], axis=0)),
    "std of complex numbers": lambda x: np.std(x * (1.0 + 2.0j)),
    "a column of equal ones": lambda x: np.sum(np.std(np.stack([x, 2.0 + 0.0 * x]), axis=1)),
}


@pytest.mark.parametrize("name", OF_EQUAL)
@pytest.mark.parametrize("size", [1, 3])
def test_the_derivative_is_zero(name, size):
    f, x = OF_EQUAL[name], np.full(size, 1.5)
    c = tg.compile(f)
    for g in (tg.grad(f), c.grad, c.grad, c.grad):
        assert np.array_equal(g(x), np.zeros(size))
    assert np.array_equal(tg.hessian(f)(x), np.zeros((size, size)))
    assert tg.jvp(f, (x,), (np.arange(1.0, size + 1.0),)) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["std", "nanstd", "a column of equal ones"])
def test_other_points_are_as_before(name):
    f, x, h = OF_EQUAL[name], np.array([0.3, -1.2, 2.0]), 1e-6
    steps = h * np.eye(3)
    wanted = [(f(x + step) - f(x - step)) / (2.0 * h) for step in steps]
    c = tg.compile(f)
    c.grad(np.ones(3))  # recorded where it is 0
    for g in (tg.grad(f), c.grad, c.grad):
        np.testing.assert_allclose(g(x), wanted, rtol=1e-8)


def test_pytorch_has_zeros():
    torch = pytest.importorskip("torch")
    x = torch.full((3,), 1.5, dtype=torch.float64, requires_grad=True)
    torch.std(x, correction=0).backward()
    assert np.array_equal(x.grad.numpy(), np.zeros(3))


def test_putmask_converts_recorded_numbers():
    """NumPy converts a number of float64 to the array's float32, but no array of float64."""

    def f(x, y):
        v = x * np.float32(2.0)
        np.putmask(v, v > 1.0, y[0] ** 2)
        return np.sum(v)

    x, y = np.array([0.25, 1.0, 3.0], np.float32), np.array([1.5])
    value, (of_x, of_y) = tg.value_and_grad(f, (0, 1))(x, y)
    assert value == f(x, y)
    assert np.array_equal(of_x, np.array([2.0, 0.0, 0.0], np.float32)) and of_y == [6.0]
    with pytest.raises(TypeError, match="putmask: values of dtype float64 .*astype"):
        tg.grad(lambda x: np.putmask(x * np.float32(1.0), x > 1.0, tg.tensor(y) * 1.0))(x)


def test_putmask_converts_counts_of_recorded_elements():
    """A tensor without axes is one of NumPy's numbers."""

    def f(x):
        v = x * np.float32(2.0)
        np.putmask(v, v > 1.0, np.count_nonzero(x > 0.5) * 0.1)
        return np.sum(v)

    x = np.array([0.25, 1.0, 3.0], np.float32)
    value, gradient = tg.value_and_grad(f)(x)
    assert value == f(x) and gradient.tolist() == [2.0, 0.0, 0.0]

"""`+=` on what NumPy has as a number makes a new one; on what it has as an array it writes."""

import numpy as np
import pytest

import tapegrad as tg


def element(x):
    v = x[1]
    v += 1.0
    return np.sum(x) + v


def running_totals(x):
    total, seen = x[0] * 1.0, []
    for i in range(1, len(x)):
        total += x[i]
        seen.append(total)
    return seen[0] * seen[-1]


def written_view(x):
    x = x * 1.0
    s = x[1, ...]
    s += 1.0
    return np.sum(x * x) + s


def made_to_be_written(x):
    z = np.zeros_like(x[:1])[0, ...]
    y = z
    z += x[0]
    z -= x[1]
    return y * z


RESULTS = {
    "sum": np.sum,
    "max": np.max,
    "mean": np.mean,
    "dot": lambda x: x @ x,
    "einsum": lambda x: np.einsum("i,i->", x, x),
    "sum of einsum": lambda x: np.einsum("i->", x),
    "prod": np.prod,
    "norm": np.linalg.norm,
    "trace": lambda x: np.trace(np.outer(x, x)),
    "picked": lambda x: x[np.argmax(x)],
    "take": lambda x: np.take(x, 1),
    "median": np.median,
    "last sum": lambda x: np.cumsum(x)[-1],
    "sine": lambda x: np.sin(x[0]),
    "inner": lambda x: np.inner(x, x),
    "astype": lambda x: x.sum().astype(x.dtype),
    "of one": lambda x: np.sum(x[:1]),
}


def changed_twice(result):
    def f(x):
        s = result(x)
        before = s
        s += x[0]
        s *= 2.0
        return s * before

    return f


FUNCTIONS = [element, running_totals, written_view, made_to_be_written]
CASES = [pytest.param(f, id=f.__name__) for f in FUNCTIONS]
CASES += [pytest.param(changed_twice(f), id=name) for name, f in RESULTS.items()]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", CASES)
def test_as_numpy_has_it(f, dtype):
    x, v = np.array([0.5, 0.25, 2.0], dtype), np.array([0.3, -0.7, 1.1])
    value, gradient = tg.value_and_grad(f)(x)
    assert gradient.dtype == dtype
    np.testing.assert_allclose(value, f(x.copy()), rtol=1e-5)
    double = x.astype(float)
    expected = (f(double + 1e-6 * v) - f(double - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(gradient @ v, expected, rtol=1e-5, atol=1e-7)
    if dtype != np.float64:
        return
    c = tg.compile(f)
    for at in (x, x, x[::-1].copy()):
        np.testing.assert_allclose(c.grad(at), tg.grad(f)(at), rtol=1e-6)


def test_numbers_that_are_not_recorded():
    for array in (np.array([1, 2]), np.array([0.5, 0.25], np.float32)):
        t = tg.tensor(array)
        for total in (np.sum(t), t[1]):
            before = total
            total += 1
            assert total.item() == before.item() + 1


def test_a_number_is_not_written():
    t = tg.tensor(np.array([0.5, 0.25], np.float32), requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        (t * 2.0)[1][...] = 3.0

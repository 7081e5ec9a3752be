"""Cells of arrays written one by one, as loops do: values, undo, lifetime, higher orders."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import store
from tapegrad._core.tape.tape import Reader

X = np.array([0.3, 0.5, -0.7, 1.1])


def central(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def recurrence(x):
    f = tg.zeros_like(x)
    f[0] = x[0] * x[1]
    for i in range(1, len(x)):
        f[i] = x[i] + f[i - 1] * f[i - 1]
        f[i - 1] = np.tanh(f[i]) * f[i - 1]
    f[-1] = 2.0
    return np.sum(f * f)


def matrix(x):
    y = tg.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            y[i, j] = x[i] * x[j]
            y[i, -1] = y[i, j] * x[2]
    return np.sum(y * y[::-1])


def views(x):
    y = (x * 1.0).reshape(2, 2)
    column = y.T[1]
    column[0] = column[1] * x[0]
    y[1][1] = 7
    y[0, 0] = np.float64(0.5) * column[0]
    return np.sum(np.exp(y) * column)


def other_order(x):
    y = tg.asarray(np.asfortranarray(np.ones((2, 2))))
    y[0, 1] = x[0] * x[1]
    y[1, 0] = y[0, 1] * x[3]
    return np.sum(y * y)


def overwritten(x):
    """What is read before a write keeps its value and its derivative."""
    y = x * 2.0
    before = y * y
    first = y[0]
    y[0] = x[1] * x[2]
    y[0] = y[0] * first
    return np.sum(before * y) + first


PROGRAMS = [recurrence, matrix, views, other_order, overwritten]


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradient(f):
    np.testing.assert_allclose(tg.grad(f)(X), central(f, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", PROGRAMS)
def test_forward_derivative(f):
    v = np.array([1.0, -2.0, 0.5, 3.0])
    np.testing.assert_allclose(tg.jvp(f, (X,), (v,))[1], tg.grad(f)(X) @ v, rtol=1e-12)


@pytest.mark.parametrize("f", [recurrence, matrix, views, overwritten])
def test_hessian(f):
    np.testing.assert_allclose(tg.hessian(f)(X), central(tg.grad(f), X), rtol=1e-7, atol=1e-7)


def test_several_seeds():
    def f(x):
        y = tg.zeros(3)
        for i in range(3):
            y[i] = x[i] * x[i + 1]
            y[0] = y[0] + y[i]
        return y

    wanted = central(f, X).T
    np.testing.assert_allclose(tg.jacobian(f)(X), wanted, rtol=1e-8, atol=1e-8)


def test_a_write_is_one_row_without_objects():
    x = tg.tensor(X, requires_grad=True)
    y = x * 1.0
    first = tg.tensor(1.0, requires_grad=True) * 1.0  # a row that tells where we are
    y[1] = first * 2.0
    y[2] = 3.0
    reader = Reader()
    ops = [int(reader.row(first._id + k)["op"]) for k in range(2, 5)]
    assert ops == [layout.STORE, layout.NUMBER, layout.STORE]


def test_backward_twice_and_values_afterwards():
    x = tg.tensor(X, requires_grad=True)
    y = x * 1.0
    y[0] = x[1] * x[1]
    y[1] = y[0] * x[2]
    out = np.sum(y * y)
    for times in (1, 2):
        out.backward(retain_graph=times == 1)
        right = central(lambda x: x[1] ** 4 + x[1] ** 4 * x[2] ** 2 + x[2] ** 2 + x[3] ** 2, X)
        np.testing.assert_allclose(x.grad.numpy(), times * right, rtol=1e-8)
        np.testing.assert_allclose(y.detach().numpy(), [0.25, 0.25 * -0.7, -0.7, 1.1], rtol=1e-15)


def test_used_up_rows_are_refused():
    x = tg.tensor(X, requires_grad=True)
    y = x * 1.0
    y[0] = x[1] * x[1]
    np.sum(y).backward()
    with pytest.raises(RuntimeError, match="used up by an earlier backward"):
        np.sum(y * y).backward()


def test_an_old_value_survives_another_backward_pass():
    x = tg.tensor(X, requires_grad=True)
    w = tg.tensor(np.ones(4), requires_grad=True)
    y = x * 1.0
    old = y.detach() * w  # reads what y held
    y[0] = x[1] * x[1]
    np.sum(y).backward(retain_graph=True)
    np.sum(old).backward()
    np.testing.assert_array_equal(w.grad.numpy(), X)


def test_the_tape_shows_the_write():
    def f(x):
        y = x * 1.0
        y[1] = x[0] * 2.0
        return np.sum(y)

    tape = tg.record(f, X)
    tape.check()
    assert [row.op for row in tape.rows].count("store") == 1
    assert "store" in str(tape)


def test_read_only_and_out_of_bounds():
    y = tg.tensor(X) * 1.0
    row = np.broadcast_to(tg.tensor(X, requires_grad=True) * 1.0, (2, 4))
    with pytest.raises(IndexError):
        y[4] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        row[0, 1] = 1.0


def test_loops_of_writes_are_let_go():
    x = tg.tensor(X, requires_grad=True)
    y = x * 1.0
    for k in range(60_000):
        y[k % 4] = x[k % 4] * 2.0 + y[(k + 1) % 4] * 0.0
        if k % 20_000 == 19_999:
            y = x * 1.0
    statistics = store.statistics()
    assert statistics["chunks"] < 3 * store.FEWEST_CHUNKS
    np.sum(y).backward()
    assert x.grad.tolist() == [1.0] * 4


def read_often(x):
    """Σ sin(k x₀) x₁ for k below 3000, and once x₂ of three elements; x₃ is never read."""
    total = 0.0 * x[2] * x[2]
    for k in range(3000):
        total = total + np.sin(0.001 * k * x[0]) * x[1]
    return total + x[2] ** 3


def test_second_derivatives_of_cells_that_are_read_often():
    x, k = np.array([0.7, -1.1, 0.4, 9.0]), 0.001 * np.arange(3000)
    expected = np.zeros((4, 4))
    expected[0, 0] = -np.sum(k * k * np.sin(k * x[0])) * x[1]
    expected[0, 1] = expected[1, 0] = np.sum(k * np.cos(k * x[0]))
    expected[2, 2] = 6.0 * x[2]
    np.testing.assert_allclose(tg.hessian(read_often)(x), expected, 1e-11, 1e-12)
    v = np.array([1.0, 0.5, -2.0, 3.0])
    np.testing.assert_allclose(tg.hvp(read_often)(x, v), expected @ v, 1e-11)
    compiled = tg.compile(read_often)
    np.testing.assert_allclose(compiled.hvp(x, v), expected @ v, 1e-11)
    third = tg.jvp(tg.hessian(read_often), (x,), (v,))[1][0, 1]
    closed = -np.sum(k * k * np.sin(k * x[0])) * v[0]
    np.testing.assert_allclose(third, closed, 1e-11)

"""`tg.elementwise`: values and slopes of what is read, against NumPy, PyTorch, complex steps."""

import math
import multiprocessing
import pickle
import re

import numba
import numpy as np
import pytest
import scipy.special
from rows import same

import tapegrad as tg

X = np.array([-1.7, -0.4, 0.3, 0.9, 2.2])
Y = np.array([0.8, -1.1, 0.2, 1.9, -0.6])


def both(function, reference, *inputs, rtol=1e-12):
    """Value and first derivatives of an operation against a function of tensors."""
    same(np.asarray(function(*inputs)), np.asarray(reference(*inputs)), rtol)
    numbers = tuple(range(len(inputs)))
    ours = tg.grad(lambda *a: np.sum(function(*a) * X), numbers)(*inputs)
    theirs = tg.grad(lambda *a: np.sum(reference(*a) * X), numbers)(*inputs)
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol, 1e-14)


# --- what is read -----------------------------------------------------------------------------


@tg.elementwise
def mixed(x, y):
    """A value by two ways."""
    a = math.exp(-x * x)
    if x > 0.5:
        b = math.sin(a) * y
    else:
        b = y**3 + np.log1p(a)
    return b / (1.0 + a) + (x if y > 0 else -math.sqrt(abs(x)))


def mixed_arrays(x, y):
    a = np.exp(-x * x)
    b = tg.where(x > 0.5, np.sin(a) * y, y**3 + np.log1p(a))
    return b / (1.0 + a) + tg.where(y > 0, x, -np.sqrt(np.abs(x)))


def test_values_and_slopes():
    both(mixed, mixed_arrays, X, Y)


def test_values_and_slopes_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(v, requires_grad=True) for v in (X, Y))
    a = torch.exp(-x * x)
    b = torch.where(x > 0.5, torch.sin(a) * y, y**3 + torch.log1p(a))
    out = b / (1.0 + a) + torch.where(y > 0, x, -torch.sqrt(torch.abs(x)))
    out.sum().backward()
    np.testing.assert_allclose(mixed(X, Y), out.detach().numpy(), 1e-12)
    ours = tg.grad(lambda x, y: np.sum(mixed(x, y)), (0, 1))(X, Y)
    for mine, tensor in zip(ours, (x, y), strict=True):
        np.testing.assert_allclose(mine, tensor.grad.numpy(), 1e-12)


# --- an operation like any other --------------------------------------------------------------


def test_higher_order_and_forward_mode():
    def derivatives(f):
        yield tg.hessian(f)(X)
        yield tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))(X)
        yield tg.jvp(f, (X,), (Y,))[1]
        yield tg.hvp(f)(X, Y)

    ours = derivatives(lambda x: np.sum(mixed(x, Y)))
    theirs = derivatives(lambda x: np.sum(mixed_arrays(x, Y)))
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, 1e-12, 1e-13)
    tg.check_grads(lambda x: tg.sum(mixed(x, Y)), (X,), order=3)


def test_broadcasting_scalars_and_views():
    a, b = np.arange(6.0).reshape(2, 3) / 5, np.array([[0.4], [1.7]])
    for inputs in ((a, 0.3), (0.3, b), (a, b), (a.T[::-1], b[0]), (0.3, 0.4), (a[:, 1], b[:, 0])):
        ours = tg.value_and_grad(lambda x, y: np.sum(mixed(x, y) ** 2), (0, 1))(*inputs)
        wanted = tg.value_and_grad(lambda x, y: np.sum(mixed_arrays(x, y) ** 2), (0, 1))(*inputs)
        np.testing.assert_allclose(ours[0], wanted[0], 1e-12)
        for mine, theirs in zip(ours[1], wanted[1], strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-12, 1e-14)
    assert mixed(np.zeros((0, 3)), 1.0).shape == (0, 3)
    with pytest.raises(
        ValueError, match=r"tapegrad.mixed: the operands have shapes \(5,\) and \(2"
    ):
        mixed(X, np.zeros(2))
    with pytest.raises(TypeError, match="tapegrad.mixed: an operand has type str"):
        mixed("a", X)


def test_strided_arrays_longer_than_a_block(rng):
    x, y = rng.normal(size=(5000, 2))[:, 0], rng.normal(size=5000)
    out = np.zeros((5000, 3))
    mixed(x, y)
    out[:, 1] = mixed(x, 0.5)
    same(out[:, 1], mixed_arrays(x, 0.5), 1e-12)
    x32 = x.astype(np.float32)
    same(np.asarray(mixed(x32, y.astype(np.float32))), np.asarray(mixed_arrays(x, y)), 2e-5)


def test_dtypes():
    x32 = X.astype(np.float32)
    assert mixed(x32, x32).dtype == np.float32 == mixed(x32, 2.0).dtype
    assert mixed(x32, X).dtype == np.float64 == mixed(3, 2).dtype
    found = tg.grad(lambda x: np.sum(mixed(x, np.float32(2))))(x32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tg.grad(lambda x: np.sum(mixed(x, 2.0)))(X), 1e-5)


def test_scalars_in_a_loop():
    def run(step):
        def f(a):
            for _ in range(50):
                a = step(a, 0.3) * 0.5
            return a

        return tg.value_and_grad(f)(0.2)

    np.testing.assert_allclose(run(mixed), run(mixed_arrays), 1e-12)
    x = tg.tensor(0.3, requires_grad=True)
    assert type(mixed(x, 1.0)) is type(x * 1.0)


def test_the_branch_not_taken_gives_no_nan():
    f = tg.elementwise(lambda x: math.log(x) * math.sqrt(x) if x > 0 else x * x)
    np.testing.assert_array_equal(tg.elementwise_grad(f)(np.array([-1.0, 0.0])), [-2.0, 0.0])
    np.testing.assert_array_equal(tg.elementwise_grad(tg.elementwise_grad(f))(np.array([-1.0])), 2)


def test_second_derivative_where_an_adjoint_is_zero():
    """The adjoint of the square is x, which is 0 here, on the branch that is taken."""
    f = tg.elementwise(lambda x: x * math.sin(x) if x < 1 else 0.0)
    np.testing.assert_allclose(tg.grad(tg.grad(f))(0.0), 2.0)


def option(s, k, r, v, t):
    d = (math.log(s / k) + (r + v * v / 2) * t) / (v * math.sqrt(t))
    a = 0.5 * math.erfc(-d / math.sqrt(2))
    b = 0.5 * math.erfc(-(d - v * math.sqrt(t)) / math.sqrt(2))
    return s * a - k * math.exp(-r * t) * b


def test_five_inputs():
    """Black and Scholes: the slopes to price, rate, volatility and time have closed forms."""
    f = tg.elementwise(option)
    s, k, r, v, t = np.array([90.0, 100.0, 120.0]), 100.0, 0.03, np.array([[0.2], [0.4]]), 0.5
    _, delta, rho, vega = (
        tg.jvp(lambda s: f(s, k, r, v, t), (s,), (np.ones(3),)),
        *[tg.grad(lambda *a: np.sum(f(*a)), j)(s, k, r, v, t) for j in (0, 2, 3)],
    )
    d = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    cdf = lambda x: scipy.special.ndtr(x)
    density = np.exp(-d * d / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(delta, cdf(d).sum(axis=0), 1e-12)
    wanted = (k * t * np.exp(-r * t) * cdf(d - v * np.sqrt(t))).sum()
    np.testing.assert_allclose(rho, wanted, 1e-12)
    np.testing.assert_allclose(vega[:, 0], (s * density * np.sqrt(t)).sum(axis=1), 1e-12)


def test_eight_inputs_and_any_of_them_differentiated():
    f = tg.elementwise(lambda a, b, c, d, e, f, g, h: a * b + c * d * e + f * g * h * a)
    inputs = tuple(np.array([k + 1.0, k + 2.0]) for k in range(8))
    whole = tg.grad(lambda *x: np.sum(f(*x)), tuple(range(8)))(*inputs)
    for j in range(8):
        np.testing.assert_array_equal(tg.grad(lambda *x: np.sum(f(*x)), j)(*inputs), whole[j])
    np.testing.assert_array_equal(whole[0], inputs[1] + inputs[5] * inputs[6] * inputs[7])
    np.testing.assert_array_equal(whole[7], inputs[5] * inputs[6] * inputs[0])


# --- given slopes -----------------------------------------------------------------------------


def test_given_slopes():
    @tg.elementwise(partials=[lambda x, y: 10.0, lambda x, y, out: out + x])
    def f(x, y):
        return x + y * y

    found = tg.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(X, Y)
    np.testing.assert_array_equal(found[0], np.full(5, 10.0))
    np.testing.assert_allclose(found[1], X + Y * Y + X, 1e-15)
    second = tg.grad(lambda y: np.sum(tg.grad(lambda y: np.sum(f(X, y)))(y)))(Y)
    np.testing.assert_allclose(second, X + Y * Y + X, 1e-15)  # by the given slope of out
    for slope in (np.cos, math.cos, numba.njit(lambda x: math.cos(x))):
        sine = tg.elementwise(numba.njit(lambda x: np.sin(x)), partials=[slope])
        np.testing.assert_allclose(tg.elementwise_grad(sine)(X), np.cos(X), 1e-14)


def test_given_slopes_hold_inside_other_functions():
    reversal = tg.elementwise(lambda x: x, partials=[lambda x: -1.0])
    f = tg.elementwise(lambda x: reversal(x * x) + x)
    np.testing.assert_array_equal(f(X), X * X + X)
    np.testing.assert_allclose(tg.elementwise_grad(f)(X), 1 - 2 * X, 1e-15)


# --- identity ---------------------------------------------------------------------------------


def test_the_same_function_twice_is_one_operation():
    def make(k):
        def scaled(x):
            return k * x

        return tg.elementwise(scaled)

    a, b, c = make(2.0), make(2.0), make(3.0)
    assert a.declaration is b.declaration is not c.declaration
    assert {a.__name__, c.__name__} == {"scaled"}
    assert (a.declaration.name, c.declaration.name) == ("scaled", "scaled_2")
    assert "scaled_2" in str(tg.record(lambda x: c(x), X))
    tg.record(lambda x: c(x) + a(x), X).check()


def test_a_name_of_the_table_stays_the_table_s():
    def five(x):
        return 5 * x

    five.__name__ = "sin"
    f = tg.elementwise(five)
    assert f(1.0) == 5.0 and tg.sin(0.0) == 0.0
    assert tg.grad(lambda x: f(x) + np.sin(x))(0.0) == 6.0


def gradient(f):
    return tg.elementwise_grad(f)(X)


def test_pickles_name_the_package_alone():
    """A file that was pickled before a module moved can still be read."""
    f = tg.elementwise(lambda x: 3.0 * x)
    for public in (f, tg.sin, tg.grad, tg.nn.Linear, tg.optim.SGD):
        found = {*re.findall(rb"tapegrad[\w.]*", pickle.dumps(public))}
        assert found <= {b"tapegrad", b"tapegrad.nn", b"tapegrad.optim"}, found


def test_pickled_and_in_processes():
    f = tg.elementwise(lambda x, k=2.0: math.sin(k * x))
    again = pickle.loads(pickle.dumps(f))
    assert again.declaration is f.declaration and again(0.5) == f(0.5)
    assert repr(again) == repr(f) == "<tapegrad operation elementwise(x, k)>"
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            (found,) = pool.map(gradient, [f])
        np.testing.assert_allclose(found, 2 * np.cos(2 * X), 1e-12)

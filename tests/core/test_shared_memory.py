"""Memory is shared where that is promised, array objects are not: theirs may be changed freely."""

import contextlib
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tape.tape import extract

#: NumPy 2.5 says so where a shape or a dtype is set.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])


def as_float32(a):
    a.dtype = np.float32


def as_column(a):
    a.shape = (a.size, 1)


def as_one_element(a):
    a.strides = (0,) * a.ndim


CHANGES = {
    "dtype": as_float32,
    "shape": as_column,
    "strides": as_one_element,
    "flags": lambda a: a.setflags(write=False),
    "size": lambda a: a.resize(100_000),
}


@pytest.fixture(params=CHANGES)
def change(request):
    """A change of an array object, which NumPy may refuse."""

    def done(a):
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            CHANGES[request.param](a)

    return done


HANDED_OUT = {
    "numpy": lambda t: t.detach().numpy(),
    "asarray": lambda t: np.asarray(t.detach()),
    "array": lambda t: np.array(t.detach(), copy=None),
    "method": lambda t: t.detach().__array__(),
    "part": lambda t: t[...].detach().numpy(),
    "tape": lambda t: extract([t._id]).rows[-1].value,
}


@pytest.mark.parametrize("hand_out", HANDED_OUT.values(), ids=HANDED_OUT)
def test_what_is_handed_out(hand_out, change):
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x) * 1.0
    z = y * y
    change(hand_out(y))
    (np.sin(z) * y).sum().backward()
    e = np.exp(V)
    wanted = e * (2 * e**2 * np.cos(e**2) + np.sin(e**2))
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-14)


def test_what_is_not_recorded(change):
    t, x = tg.tensor(V), tg.tensor(V, requires_grad=True)
    y = x * t
    change(t.numpy())
    change(np.asarray(t))
    (y * t).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), V * V)
    change(x.grad.numpy())
    (x * t).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), V * V + V)


TAKEN_IN = {
    "leaf": lambda a: tg.asarray(a, requires_grad=True),
    "leaf made later": lambda a: tg.asarray(a).requires_grad_(),
    "written": lambda a: tg.asarray(a),
}


@pytest.mark.parametrize("name", TAKEN_IN)
def test_what_is_taken_in(name, change):
    a, x = V.copy(), tg.tensor(V, requires_grad=True)
    t = TAKEN_IN[name](a)
    if name == "written":
        t[1:] = x[1:]
        t[0] = x[0]
    y = t * t * t
    change(a)
    y.sum().backward()
    leaf = x if name == "written" else t
    np.testing.assert_allclose(leaf.grad.numpy(), 3 * V * V)


OPERANDS = {
    "add": (lambda x, a: x + a, np.ones(5)),
    "subtract": (lambda x, a: a - x, -np.ones(5)),
    "multiply": (lambda x, a: a * x, V),
    "divide": (lambda x, a: x / a, 1 / V),
    "hypot": (lambda x, a: np.hypot(x, a), V / np.hypot(V, V)),
    "where": (lambda x, a: np.where(a > 0, x * a, a), np.where(V > 0, V, 0.0)),
    "matmul": (lambda x, a: x @ a, V),
    "number": (lambda x, a: x[0] + a, np.array([5.0, 0, 0, 0, 0])),
    "concatenate": (lambda x, a: np.concatenate([x, a]), np.ones(5)),
    "write": (lambda x, a: written(x, a), np.array([1.0, 0, 0, 1, 1])),
}


def written(x, a):
    y = x * 1.0
    y[1:3] = a[:2]
    y += a
    return y


@pytest.mark.parametrize("name", OPERANDS)
def test_constant_operands(name, change):
    """Neither what is done to the object later nor to its elements matters."""
    f, wanted = OPERANDS[name]
    a, x = V.copy(), tg.tensor(V, requires_grad=True)
    y = f(x, a)
    a *= 3.0
    change(a)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-14)


def test_seeds(change):
    seed, x = V.copy(), tg.tensor(V, requires_grad=True)
    y = np.exp(x)
    y.backward(seed)
    x.grad = seed
    change(seed)
    np.exp(x).backward(V)
    np.testing.assert_allclose(x.grad.numpy(), V + V * np.exp(V))


INDICES = {
    "take": lambda x, i: np.take(x, i),
    "take along": lambda x, i: np.take_along_axis(x, i, 0),
    "picked": lambda x, i: x[i],
    "repeat": lambda x, i: np.repeat(x[:2], i + 1),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices(name):
    i, x = np.array([0, 1]), tg.tensor(V, requires_grad=True)
    y = INDICES[name](x, i)
    wanted = np.bincount(np.searchsorted(V[[0, 1]], y.detach().numpy(), sorter=[1, 0]), minlength=2)
    i[:] = 1 << 40
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [wanted[1], wanted[0], 0, 0, 0])


def test_written_positions():
    i, x = np.array([0, 1]), tg.tensor(V, requires_grad=True)
    y = x * 1.0
    y[i] = x[2] * 2.0
    i[:] = 1 << 40
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 5, 1, 1])


def test_values_of_vjp_are_the_callers():
    """The function that pulls back is used later, and has its own."""
    value, back = tg.vjp(lambda x: (np.exp(x), x), V)
    value[0][:] = 0.0
    value[1].shape = (5, 1)
    for _ in range(2):
        np.testing.assert_allclose(back((np.ones(5), V))[0], np.exp(V) + V)


def test_results_of_functions():
    class Exp(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            made.append(np.exp(x.detach().numpy()))
            return made[0]

        @staticmethod
        def backward(ctx, gradient):
            return gradient * np.exp(V)

    made = []
    x = tg.tensor(V, requires_grad=True)
    z = Exp.apply(x) ** 2
    made[0][:] = 0.0
    made[0].shape = (5, 1)
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(V) ** 2)


def test_memory_stays_shared():
    a = V.copy()
    t = tg.asarray(a)
    t[0] = 7.0
    assert a[0] == 7.0
    a[1] = 8.0
    assert t[1] == 8.0
    t.numpy()[2] = 9.0
    np.asarray(t)[3] = 10.0
    np.testing.assert_array_equal(a, [7.0, 8.0, 9.0, 10.0, -0.3])
    x = tg.asarray(a, requires_grad=True)
    with tg.no_grad():
        x[4] = 11.0
    assert a[4] == 11.0

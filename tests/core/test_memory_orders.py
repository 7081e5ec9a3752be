"""Memory order in single functions and modes; random programs are in test_memory_order.py."""

import numba
import numpy as np
import pytest
from memory_programs import ORDERS

import tapegrad as tg

X = np.random.default_rng(3).normal(size=(3, 4, 2))
V = np.random.default_rng(4).normal(size=(3, 4, 2))
FORMS = [*ORDERS]


def alias(x):
    """What depends on whether a reshape of a result is a view: NumPy decides by the order."""
    y = np.sin(x) * 2.0
    flat = y.reshape(-1)
    flat[0] = x[1, 1, 1] ** 2
    turned = y.T.reshape(-1)
    turned[3] = x[0, 0, 0]
    return np.sum(y**3) + 0.1 * np.sum(turned**2) + 0.2 * np.sum(flat**2)


def slopes(function, x, eps=1e-6):
    found = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = np.array(x)
            moved[index] += sign * eps
            ends.append(function(moved))
        found[index] = (ends[0] - ends[1]) / (2 * eps)
    return found


def test_a_reshape_of_a_transposed_result_is_a_copy():
    x = tg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = np.sin(x.T)
    f = y.reshape(-1)
    f[0] = 7
    np.testing.assert_array_equal(y.detach().numpy(), np.sin(np.arange(6.0).reshape(2, 3).T))
    np.sum(y * y).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.sin(2 * np.arange(6.0)).reshape(2, 3))


def test_elements_with_gaps_are_copied_by_ravel():
    x = tg.tensor(np.arange(6.0), requires_grad=True)
    y = x * 1.0
    y[::2].ravel()[0] = 9.0
    assert float(y[0].item()) == 0.0
    y[::2].reshape(-1)[0] = 9.0
    assert float(y[0].item()) == 9.0


@pytest.mark.parametrize("order", FORMS)
def test_the_order_of_an_argument_decides_what_is_a_view(order):
    x = ORDERS[order](X)
    expected, wanted = alias(np.array(x)), slopes(alias, np.array(x))
    value, gradient = tg.value_and_grad(alias)(x)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(gradient, wanted, atol=1e-8)
    assert gradient.strides == np.zeros_like(x).strides
    leaf = tg.tensor(x, requires_grad=True)
    alias(leaf).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), wanted, atol=1e-8)
    assert leaf.strides == np.array(x).strides
    assert leaf.grad.strides == np.zeros_like(x).strides
    alias(leaf).backward(create_graph=True)
    np.testing.assert_allclose(leaf.grad.detach().numpy(), 2 * wanted, atol=1e-7)


@pytest.mark.parametrize("order", FORMS)
def test_transforms(order):
    x = ORDERS[order](X)
    second = slopes(lambda x: np.sum(tg.grad(alias)(x) * V), np.array(x), 1e-5)
    np.testing.assert_allclose(tg.hvp(alias)(x, V), second, atol=1e-6)
    matrix = tg.hessian(alias)(x)
    np.testing.assert_allclose(np.tensordot(matrix, V, 3), second, atol=1e-6)
    np.testing.assert_allclose(
        tg.jvp(alias, (x,), (V,))[1], np.sum(tg.grad(alias)(x) * V), rtol=1e-12
    )
    jacobian = tg.jacobian(lambda x: np.cumsum(np.sin(x).T, 0))(x)
    expected = tg.jacobian(lambda x: np.cumsum(np.sin(x).T, 0))(np.array(X, order="C"))
    np.testing.assert_allclose(jacobian, expected, rtol=1e-14)
    rows = tg.vmap(lambda row: np.sum(np.exp(row.T).reshape(-1)[:3]))(x)
    np.testing.assert_allclose(rows, [np.sum(np.exp(row.T).reshape(-1)[:3]) for row in X])
    third = tg.jvp(lambda x: tg.hvp(alias)(x, V), (x,), (X,))[1]
    ends = [tg.hvp(alias)(np.array(x) * (1.0 + step), V) for step in (1e-5, -1e-5)]
    np.testing.assert_allclose(third, (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", FORMS)
def test_float32(order):
    x = ORDERS[order](X.astype(np.float32))
    found = tg.hvp(alias)(x, V.astype(np.float32))
    assert found.dtype == np.float32
    wide = tg.hvp(alias)(ORDERS[order](X.astype(np.float32).astype(float)), V)
    np.testing.assert_allclose(found, wide, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("native", [False, True])
def test_compiled_for_each_order(tmp_path, native):
    def both(x):
        y = np.sin(x) * 2.0
        return alias(x), y, y.T, y > 0.5, np.where(y > 0.5, y, 0.0), np.ones((2, 3), order="F")

    number, several = tg.compile(alias, native=native), tg.compile(both, native=native)
    for scale in (1.0, 0.5, 0.25):
        for order in (*FORMS, "C"):
            x = ORDERS[order](scale * X)
            value, gradient = number.value_and_grad(x)
            np.testing.assert_allclose(value, alias(np.array(x)))
            wanted = tg.grad(alias)(x)
            np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-12)
            assert gradient.strides == wanted.strides
            for found, expected in zip(several(x), both(np.array(x)), strict=True):
                np.testing.assert_allclose(found, expected)
                if np.ndim(found):
                    assert found.strides == expected.strides
    if native:
        return
    np.testing.assert_allclose(number.hvp(x, V), tg.hvp(alias)(x, V), atol=1e-12)
    assert "f8[3, 4, 2] with axes [2, 1, 0] in memory)" in number.explain()
    several.save(tmp_path / "several.npz")
    loaded = tg.load(tmp_path / "several.npz")
    for order in FORMS:
        x = ORDERS[order](X)
        for found, expected in zip(loaded(x), both(np.array(x)), strict=True):
            np.testing.assert_allclose(found, expected)
            if np.ndim(found):
                assert found.strides == expected.strides


def test_rows_of_map_are_in_c_order():
    data = np.random.default_rng(5).normal(size=(5, 3, 4))

    def f(x):
        y = np.sin(x)
        y.reshape(-1)[0] = x[1, 1]
        return np.sum(y**2)

    wanted = [f(np.array(row, order="C")) for row in data]
    for given in (data, np.asfortranarray(data), data.transpose(0, 2, 1).copy().transpose(0, 2, 1)):
        compiled = tg.compile(f)
        values, gradients = compiled.map(given)
        np.testing.assert_allclose(values, wanted)
        np.testing.assert_allclose(gradients, [tg.grad(f)(row.copy()) for row in data])
        total = tg.grad(lambda d, compiled=compiled: np.sum(compiled.map(d)[0]))(given)
        np.testing.assert_allclose(total, gradients, atol=1e-14)


def test_numba_code_takes_c_order():
    compiled = tg.compile(lambda x: np.sum(np.sin(x).reshape(-1) ** 2))
    with pytest.raises(ValueError, match="arrays in C order"):
        compiled.numba(np.ones((2, 3), order="F"))
    value, _ = compiled.numba(np.ones((2, 3)))
    assert numba.njit(lambda x: value(x))(np.ones((2, 3))) == pytest.approx(6 * np.sin(1.0) ** 2)


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("form", FORMS)
def test_order_arguments(form, order):
    x = ORDERS[form](X)
    for t in (tg.asarray(x), tg.tensor(x, requires_grad=True) * 1.0):
        a = t.detach().numpy()
        for name, function in {
            "copy": lambda a: a.copy(order=order),
            "np.copy": lambda a: np.copy(a, order=order),
            "astype": lambda a: a.astype(np.float32, order=order),
            "same": lambda a: a.astype(np.float64, order=order, copy=False),
            "zeros_like": lambda a: np.zeros_like(a, order=order),
            "full_like": lambda a: np.full_like(a, a[0, 0, 0], order=order),
            "flatten": lambda a: a.flatten(order=order),
            "ravel": lambda a: np.ravel(a, order=order),
        }.items():
            found, wanted = function(t), function(a)
            shown = found.detach().numpy()
            np.testing.assert_array_equal(shown, wanted, err_msg=name)
            assert shown.strides == wanted.strides, name
            assert np.shares_memory(shown, a) == np.shares_memory(wanted, a), name
    assert t.strides == a.strides and t.itemsize == 8
    assert (t.flags.c_contiguous, t.flags.f_contiguous) == (
        a.flags.c_contiguous,
        a.flags.forc and not a.flags.c_contiguous,
    )


def test_gradients_of_order_arguments():
    weights = np.arange(24.0)
    for order in "CFAK":
        found = tg.grad(lambda x, o=order: np.sum(np.ravel(x, o) * weights))(np.asfortranarray(X))
        np.testing.assert_array_equal(np.ravel(found, order), weights)
        found = tg.grad(lambda x, o=order: np.sum(x.T[::-1].flatten(o) * weights))(X)
        np.testing.assert_array_equal(found.T[::-1].flatten(order), weights)


REDUCED = {
    "sort": lambda a: np.sort(a, 1),
    "median": lambda a: np.median(a, 1),
    "max": lambda a: np.max(a, (0, 1), keepdims=True),
    "min": lambda a: np.min(a, 1),
    "prod": lambda a: np.prod(a, 0),
    "var": lambda a: np.var(a, 1),
    "cumprod": lambda a: np.cumprod(a, 2),
    "norm": lambda a: np.linalg.norm(a, axis=1),
    "where": lambda a: np.where(a > 0.2, a, a * 0.5),
    "clip": lambda a: np.clip(a, -0.4, 0.6),
    "matmul": lambda a: np.matmul(a.transpose(1, 0, 2), np.ones((2, 5)) * a[0, 0, 0]),
    "batches": lambda a: a.swapaxes(0, 1)[..., None, :] @ a.swapaxes(0, 1)[..., None],
    "vecdot": lambda a: a.transpose(1, 0, 2) * 1.0 @ np.ones(2),
    "kron": lambda a: np.kron(a, a.transpose(2, 1, 0)),
    "tensordot": lambda a: np.tensordot(a, a, 0),
    "outer": lambda a: np.outer(a, a),
}


@pytest.mark.parametrize("order", FORMS)
@pytest.mark.parametrize("name", [*REDUCED])
def test_functions(name, order):
    function, x = REDUCED[name], ORDERS[order](X)
    wanted = function(np.array(x))
    found = function(tg.tensor(x, requires_grad=True))
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-13, atol=1e-13)
    assert found.strides == wanted.strides
    weights = np.cos(np.arange(wanted.size)).reshape(wanted.shape)
    total = lambda x: np.sum(function(x) ** 2 * weights)
    np.testing.assert_allclose(tg.grad(total)(x), slopes(total, x), rtol=1e-6, atol=1e-6)
    second = slopes(lambda x: np.sum(tg.grad(total)(x) * V), x)
    np.testing.assert_allclose(tg.hvp(total)(x, V), second, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 300])
def test_sizes(size):
    x = np.random.default_rng(6).normal(size=(size, 3))
    for a in (np.asfortranarray(x), x.T, x[::-1].T):
        found = tg.grad(lambda a: np.sum(np.sin(a).reshape(-1) ** 2))(a)
        np.testing.assert_allclose(found, np.sin(2 * a))
        assert found.shape == a.shape
        large = np.asfortranarray(np.repeat(a, 100, 1))
        np.testing.assert_allclose(
            tg.grad(lambda a: np.sum(np.where(np.exp(a) > 0, np.sin(a), a * a)))(large),
            np.cos(large),
        )


BINARY = {
    "exp": lambda a, b: np.exp(a),
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "where": lambda a, b: np.where(a > 0, a, b),
}


@pytest.mark.parametrize("name", [*BINARY])
def test_large_results_lie_as_numpys(name):
    function, x = BINARY[name], np.random.default_rng(7).normal(size=(220, 230))
    for a, b in ((x.T, x.T), (x.T, x.T.copy()), (x.T, x[:, 0]), (x[:, ::2].T, 2.0)):
        wanted, found = function(a, b), function(tg.tensor(a, requires_grad=True), b)
        assert found.strides == wanted.strides
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-14)
        gradient = tg.elementwise_grad(function)
        np.testing.assert_allclose(gradient(a, b), gradient(a.copy(), b), rtol=1e-13)


def test_asarray_shares_memory_in_any_order():
    a = np.asfortranarray(X)
    t = tg.asarray(a, requires_grad=True)
    assert np.shares_memory(t.detach().numpy(), a) and t.strides == a.strides
    np.sum(t**2).backward()
    np.testing.assert_allclose(t.grad.numpy(), 2 * a)
    gaps = tg.asarray(a[::2], requires_grad=True)
    assert not np.shares_memory(gaps.detach().numpy(), a)


class Turned(tg.autograd.Function):
    """Results in Fortran order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        value = np.asfortranarray(np.sin(x.detach().numpy()))
        return tg.asarray(value), tg.asarray(value * 2.0)

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return (g + 2.0 * h) * np.cos(x)


def test_results_of_functions():
    x = tg.tensor(X, requires_grad=True)
    a, b = Turned.apply(x)
    wanted = np.asfortranarray(X).strides
    assert a.strides == b.strides == wanted
    np.sum(a * b).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.sin(2 * X))
    cubed = tg.custom_vjp(
        numba.njit(lambda x: np.asfortranarray(x**3)), numba.njit(lambda g, x, y: 3 * g * x**2)
    )
    matrix = X[..., 0]
    assert cubed(tg.tensor(matrix, requires_grad=True)).strides == np.asfortranarray(matrix).strides
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(cubed(x)))(matrix), 3 * matrix**2)

"""Products with Hessians: whole arrays, what is left to recorded gradients, surroundings."""

import gc
import threading
import warnings

import declared
import numba
import numpy as np
import pytest
from extent import some
from second_order import check, counted, gradient_of_gradient

import tapegrad as tg
from tapegrad import autograd
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tape import sweeps

X, V = np.array([0.4, 1.3, 0.7, 2.0]), np.array([1.0, -2.0, 0.5, 3.0])


# --- rows of whole arrays -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text", "shape"), declared.EXAMPLES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_declared_examples(name, text, shape, dtype):
    op, f, rng = TABLE[name], declared.example_of(TABLE[name], text), np.random.default_rng(1)
    x = declared.point(op, shape, rng).astype(dtype)
    v = np.asarray(rng.normal(size=shape), dtype)
    total = declared.objective(f, declared.weights_of(f, x, rng))
    narrow = dtype == np.float32 or "float32" in text
    given = None if op.adjoint is None else True  # those without kernels are left where they bend
    points = [x, np.asfortranarray(x), x[::-1], np.ones_like(x), np.zeros_like(x)]
    directions = [(one, v) for one in points] + [(x, v * 0.0)]
    for one, along in some(directions, f"{text} {np.dtype(dtype)}"):
        check(total, one, along, 5e-3 if narrow else 1e-8, given, 1e-6 if narrow else 1e-14)


def test_products_of_matrices():
    rng = np.random.default_rng(2)
    a, b, c = rng.normal(size=(6, 5)), rng.normal(size=(5, 7)), rng.normal(size=7)
    va, vb, vc = [rng.normal(size=one.shape) for one in (a, b, c)]
    data = rng.normal(size=(4, 6))
    cases = {
        "both": lambda p: np.sum(np.tanh(p[0] @ p[1])),
        "three": lambda p: np.sum(np.tanh(data @ p[0] @ p[1]) @ p[2]),
        "transposed": lambda p: np.sum(np.sin(p[1].T @ p[0].T) * p[2][:, None]),
        "strided": lambda p: np.sum((p[0][::2] @ p[1][:, ::3]) ** 3),
        "itself": lambda p: np.sum((p[0] @ p[0].T) ** 2) + p[2] @ p[2],
        "batch": lambda p: np.sum(np.einsum("ij,jk,k->ik", p[0], p[1], p[2]) ** 2),
        "constant": lambda p: np.sum(np.exp(data @ p[0] * 0.1)) * (p[2] @ c),
        "of a view": lambda p: np.sum(p[0][1:4, :2] @ p[0][2:4, 1:]),
    }
    for f in cases.values():
        check(f, (a, b, c), (va, vb, vc))
        narrow = [
            tuple(one.astype(np.float32) for one in group) for group in ((a, b, c), (va, vb, vc))
        ]
        check(f, *narrow, 5e-3, noise=1e-13)


def test_empty_and_single_products():
    for shape in ((0, 3), (1, 1), (3, 1)):
        x = np.ones(shape)
        check(lambda x: np.sum((x.T @ x) ** 2) + np.sum(x), x, x)
        check(lambda x: np.sum((x @ x.T) ** 2) + np.sum(x), x, x)


def test_closed_forms():
    np.testing.assert_array_equal(tg.hvp(lambda x: np.sum(x**3))(X, V), 6.0 * X * V)
    q = np.arange(16.0).reshape(4, 4)
    np.testing.assert_allclose(tg.hvp(lambda x: x @ q @ x)(X, V), (q + q.T) @ V, rtol=1e-14)
    assert tg.hvp(np.exp)(0.0, 2.0) == 2.0
    found = tg.hvp(np.prod)(X[:2], V[:2])
    np.testing.assert_allclose(found, V[:2][::-1])


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    w, v, data = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=(9, 5))

    def ours(w):
        z = np.tanh(data @ w)
        return np.sum(z * z / (1.0 + np.exp(-z))) + np.sum(np.max(z, axis=1) * z[:, 0])

    def theirs(w):
        z = torch.tanh(torch.tensor(data) @ w)
        return (z * z / (1.0 + torch.exp(-z))).sum() + (z.max(dim=1).values * z[:, 0]).sum()

    _, wanted = torch.autograd.functional.hvp(theirs, torch.tensor(w), torch.tensor(v))
    np.testing.assert_allclose(tg.hvp(ours)(w, v), wanted.numpy(), rtol=1e-10, atol=1e-12)


# --- operations of users --------------------------------------------------------------------------


@tg.elementwise
def bent(x, y, z, w):
    return x * y if x < z else w * np.exp(-x * y) + z


@tg.elementwise
def huber(x, d):
    return 0.5 * x * x if abs(x) < d else d * (abs(x) - 0.5 * d)


def test_elementwise_operations_of_users():
    rng = np.random.default_rng(4)
    x, v = tuple(rng.random((4, 50))), tuple(rng.normal(size=(4, 50)))
    check(lambda p: np.sum(np.sin(bent(*p))), x, v)
    check(lambda p: np.sum(np.sin(bent(p[0], p[1][0], p[2], 0.5))), x, v)
    check(lambda p: np.sum(huber(p[0] * 3.0, 1.0) * p[1]), x, v)
    check(lambda p: huber(p[0][0] * 3.0, p[1][1]) * p[1][1], x, v, given=None)


def test_operations_without_second_partials_are_left(monkeypatch):
    """Also in the middle of a run of rows, when a part of the sweep is over."""

    @tg.elementwise
    def wave(x):
        return np.sin(x) * np.exp(x) * 0.125

    readable = sweeps.partials_of
    refused = lambda op: None if op.name.startswith("wave") else readable(op)
    monkeypatch.setattr(sweeps, "partials_of", refused)
    for _ in range(3):
        check(lambda x: np.sum(np.tanh(wave(x * x)) * x) * x[0], X, V, given=False)
        check(lambda x: np.sum(np.tanh(np.sin(x * x)) * x) * x[0], X, V)
    monkeypatch.undo()
    check(lambda x: np.sum(np.tanh(wave(x * x)) * x) * x[0], X, V)


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3.0 * x * x * g


def test_functions_of_users_are_left():
    found = check(lambda x: np.sum(Cube.apply(x) * x), X, V, given=False)
    np.testing.assert_allclose(found, 12.0 * X**2 * V)


@numba.njit
def squares(x):
    return x * x


@numba.njit
def adjoint_of_squares(g, x, out):
    return 2.0 * x * g


@numba.njit
def adjoint_of_adjoint(h, g, x, out, made):
    return 2.0 * x * h, 2.0 * g * h, None


def test_adjoints_of_users_are_left():
    once = tg.custom_vjp(squares, adjoint_of_squares)
    with pytest.raises(RuntimeError):
        tg.hvp(lambda x: np.sum(once(x) * x))(X, V)
    twice = tg.custom_vjp(squares, tg.custom_vjp(adjoint_of_squares, adjoint_of_adjoint))
    found = check(lambda x: np.sum(twice(x) * x), X, V, given=False)
    np.testing.assert_allclose(found, 6.0 * X * V)
    check(lambda x: np.sum(x**3) * np.sum(once(X)), X, V)


# --- writes ---------------------------------------------------------------------------------------


def written(x):
    y = x * x
    z = np.sin(y)
    y[1:] = y[1:] * x[0]
    return np.sum(y * z)


def cells(x):
    y = np.copy(x)
    for i in range(1, len(x)):
        y[i] = y[i - 1] * x[i]
    return np.sum(y * y)


def of_constants(x):
    y = tg.asarray(np.ones(4)) * 1.0
    z = x * y
    y[0] = 100.0
    return np.sum(z * z * y)


@pytest.mark.parametrize("f", [written, cells])
def test_writes_are_left(f):
    check(f, X, V, given=False)


def test_constants_that_are_written():
    check(of_constants, X, V, given=None)
    base = np.ones(4)

    def f(x):
        y = x * base
        base[0] = 5.0
        made = np.sum(y * y * base)
        base[0] = 1.0
        return made

    check(f, X, V, given=None)


def test_writes_elsewhere_do_not_matter():
    y = tg.tensor(np.ones(3), requires_grad=True)
    z = y * 2.0
    z[0] = 7.0
    check(lambda x: np.sum(np.exp(x) * x), X, V, given=None)
    z.sum().backward()
    np.testing.assert_array_equal(y.grad, [0.0, 2.0, 2.0])


# --- what is not finite ---------------------------------------------------------------------------


def test_products_that_are_not_finite_are_those_of_recorded_gradients():
    mask = np.array([0.0, 1.0, 1.0, 1.0])
    zero = np.array([0.0, 1.0, 2.0, 3.0])
    check(lambda x: np.sum(np.sqrt(x) * mask), zero, V, given=True)
    check(lambda x: np.sum((np.sqrt(x) * mask) ** 2), zero, V, given=None)
    check(lambda x: np.sum(np.where(x > 0.0, np.log(np.where(x > 0.0, x, 1.0)), x)), zero, V)
    check(lambda x: np.sum(np.where(x > 0.0, np.log(x), x)), zero, V, given=None)
    check(lambda x: np.sum(np.sqrt(x)), zero, V, given=False)
    check(lambda x: np.sum(x**3), zero, np.array([0.0, np.inf, np.nan, 1.0]), given=False)
    for x in (0.0, 1.0):
        check(lambda x: np.sqrt(x) * 0.0 + x * x, x, 1.0, given=None)


def test_rows_that_were_left_are_swept_again_and_again():
    for _ in range(20):
        check(
            lambda x: np.sum(np.sqrt(x) * x[::-1]),
            np.array([0.0, 1.0, 2.0]),
            np.ones(3),
            given=False,
        )
        check(lambda x: np.sum(np.sqrt(x + 1.0) * x[::-1]), np.array([0.0, 1.0, 2.0]), np.ones(3))
        gc.collect()


# --- arguments and results ------------------------------------------------------------------------


def test_structures():
    x = {"a": (X, 2.0), "b": [np.float32([[1.0, 2.0]]), np.array(0.5)]}
    v = {"a": (V, -1.0), "b": [np.float32([[0.5, 1.0]]), np.array(2.0)]}

    def f(p):
        (a, s), (b, c) = p["a"], p["b"]
        return np.sum(np.sin(a) * s) * c + np.sum(b * b) * s

    found = check(f, x, v)
    assert type(found["a"][1]) is float
    assert type(found["b"][1]) is float


def test_other_arguments_and_what_comes_beside():
    def f(x, k, scale):
        assert k == 2
        return np.sum(x**3) * scale, {"seen": x * 2.0, "k": k}

    product, beside = tg.hvp(f, has_aux=True)(X, V, 2, 0.5)
    np.testing.assert_allclose(product, 3.0 * X * V)
    assert type(beside["seen"]) is np.ndarray
    np.testing.assert_array_equal(beside["seen"], 2.0 * X)


def test_integers_lists_and_tensors():
    np.testing.assert_array_equal(
        tg.hvp(lambda x: np.sum(x**3))(np.arange(4), np.ones(4, int)), [0, 6, 12, 18]
    )
    found = tg.hvp(lambda x: np.sum(x**3))(tg.tensor(X), tg.tensor(V))
    np.testing.assert_allclose(found, 6.0 * X * V)


def test_functions_without_second_derivatives():
    for f in (lambda x: 1.0, lambda x: np.sum(x), lambda x: x[0], lambda x: np.sum(np.floor(x))):
        np.testing.assert_array_equal(tg.hvp(f)(X, V), np.zeros(4))


def test_arguments_are_neither_kept_nor_written():
    x, v = X.copy(), V.copy()
    found = tg.hvp(lambda x: np.sum(x**3))(x, v)
    assert found.base is None
    found[:] = 7.0
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(v, V)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: tg.hvp(np.sum)(X, V[:2]), ValueError, r"shape \(2,\), but the result"),
        (
            lambda: tg.hvp(lambda p: np.sum(p[0]))((X, X), (V,)),
            ValueError,
            "got 1 adjoints, but the function has 2",
        ),
        (lambda: tg.hvp(lambda x: x)(X, V), ValueError, r"the function returned shape \(4,\)"),
        (lambda: tg.hvp(np.sum)(X > 1.0, V), TypeError, "has dtype bool"),
        (lambda: tg.hvp(np.sum, has_aux=True)(X, V), TypeError, "must return a tuple"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_an_error_in_the_function_leaves_nothing_behind():
    def f(x):
        y = np.sin(x)
        raise KeyError(str(y.shape))

    with pytest.raises(KeyError):
        tg.hvp(f)(X, V)
    check(lambda x: np.sum(np.sin(x) ** 2), X, V)


# --- around it ------------------------------------------------------------------------------------


def test_inside_other_transforms():
    f = lambda x: np.sum(np.sin(x) * x)
    third = tg.grad(lambda x: np.sum(tg.hvp(f)(x, V)))(X)
    np.testing.assert_allclose(third, (-3.0 * np.sin(X) - X * np.cos(X)) * V, rtol=1e-12)
    along_v = tg.grad(lambda v: np.sum(tg.hvp(f)(X, v) * X))(V)
    np.testing.assert_allclose(along_v, (2.0 * np.cos(X) - X * np.sin(X)) * X, rtol=1e-12)
    scaled = tg.grad(lambda s: np.sum(tg.hvp(lambda x: f(x) * s)(X, V)))(2.0)
    np.testing.assert_allclose(scaled, np.sum((2.0 * np.cos(X) - X * np.sin(X)) * V), rtol=1e-12)
    inner = tg.hvp(lambda x: np.sum(tg.hvp(f)(X, V)) * np.sum(x**2))(X, V)
    np.testing.assert_allclose(inner, 2.0 * V * np.sum((2.0 * np.cos(X) - X * np.sin(X)) * V))
    compiled = tg.compile(lambda x: tg.hvp(f)(x, V))
    for x in (X, X + 1.0):
        np.testing.assert_allclose(compiled(x), tg.hvp(f)(x, V), rtol=1e-12)


def test_beside_tensors_that_require_grad():
    w = tg.tensor(np.ones(4), requires_grad=True)
    u = w * 2.0
    found = tg.hvp(lambda x: np.sum(x**2 * u))(X, V)
    np.testing.assert_allclose(found.detach().numpy(), 4.0 * V)
    np.sum(found).backward()
    np.testing.assert_allclose(w.grad, 4.0 * V)
    other = tg.tensor(np.ones(4), requires_grad=True)
    used = other * 3.0
    np.sum(used).backward()
    check(lambda x: np.sum(x**3), X, V, given=None)


def test_values_that_outlive_a_transform(monkeypatch):
    """What a derivative has passed through is used up, by hvp as by grad."""
    monkeypatch.setattr(tg.config, "enter", False)  # or they would be plain
    for transform in (tg.grad, lambda f: lambda x: tg.hvp(f)(x, V)):
        kept = []
        transform(lambda x, kept=kept: (kept.append(np.sin(x)), np.sum(x * kept[0]))[1])(X)
        for call in (tg.grad, lambda f: lambda x: tg.hvp(f)(x, V)):
            with pytest.raises(RuntimeError, match="used up"):
                call(lambda x, kept=kept: np.sum(x**2 * kept[0]))(X)
        value = kept[0].detach().numpy()
        check(lambda x, value=value: np.sum(x**2 * value), X, V)


@pytest.mark.parametrize("method", ["hvp", "vhp"])
def test_functional(method):
    call = getattr(autograd.functional, method)
    x, v = tg.tensor(X), tg.tensor(V)
    with counted() as counts:
        value, product = call(lambda x: (x**3).sum(), x, v)
        same = call(lambda x: (x**3).sum(), x, v, create_graph=True)[1]
    assert counts == {"given": 1, "left": 0}
    np.testing.assert_allclose(value.numpy(), np.sum(X**3))
    np.testing.assert_allclose(product.numpy(), 6.0 * X * V)
    np.testing.assert_allclose(same.detach().numpy(), product.numpy())
    w = tg.tensor(2.0, requires_grad=True)
    s = w * 3.0
    _, (one, two) = call(lambda x, y: (x**2 * y).sum() * s, (x, x), (v, v))
    np.testing.assert_allclose(one.numpy(), 6.0 * 4.0 * X * V)
    np.testing.assert_allclose(two.numpy(), 6.0 * 2.0 * X * V)
    s.backward()  # its rows are not used up
    assert w.grad == 3.0


def test_profiles_measure_and_do_not_change_it():
    f = lambda x: np.sum(np.sin(x) * x) * x[0] * x[1]
    wanted = tg.hvp(f)(X, V)
    with autograd.profiler.profile() as profile:
        found = tg.hvp(f)(X, V)
    np.testing.assert_array_equal(found, wanted)
    assert "sin" in profile.key_averages().table()
    np.testing.assert_allclose(tg.hvp(f)(X, V), wanted)
    np.testing.assert_allclose(tg.grad(f)(X), tg.jacobian(f)(X))


def test_gradients_between_products_are_what_they_were():
    rng = np.random.default_rng(5)
    x, v = rng.random(3000), rng.normal(size=3000)
    f = lambda x: np.sum(np.exp(x) / x * x[::-1]) * x[0]
    gradient, product = tg.grad(f)(x), tg.hvp(f)(x, v)
    for _ in range(5):
        np.testing.assert_array_equal(tg.hvp(f)(x, v), product)
        np.testing.assert_array_equal(tg.grad(f)(x), gradient)
        np.testing.assert_allclose(np.sum(gradient * v), tg.jvp(f, (x,), (v,))[1], rtol=1e-12)


def test_threads():
    rng = np.random.default_rng(6)
    x, v = rng.random((200, 30)), rng.normal(size=(200, 30))
    f = lambda x: np.sum(np.exp(x @ x.T * 0.01)) * x[0, 0] + sum(x[i, 0] ** 3 for i in range(50))
    wanted, wrong = gradient_of_gradient(f, x, v), []

    def work():
        with warnings.catch_warnings():
            for _ in range(10):
                found = tg.hvp(f)(x, v)
                if not np.allclose(found, wanted, rtol=1e-9, atol=1e-9):
                    wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_given_back():
    x, v = np.ones(200_000), np.ones(200_000)
    f = lambda x: np.sum(np.sin(x) * np.exp(x) * x)
    tracked = []
    tg.hvp(lambda x: (tracked.append(x), f(x))[1])(x, v)
    import weakref

    array = weakref.ref(tracked[0])
    tracked.clear()
    gc.collect()
    assert array() is None

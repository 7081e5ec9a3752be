"""`tg.custom_vjp`: value and adjoint compiled by the user, against closed forms and the tape."""

import importlib
import multiprocessing
import pickle
import threading
import time

import numba
import numpy as np
import pytest

import tapegrad as tg

custom_vjp_module = importlib.import_module("tapegrad._custom.custom_vjp")


@numba.njit
def smooth(x, w):
    """Weighted sums of neighbours, in a loop."""
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        for k in range(w.shape[0]):
            if i + k < x.shape[0]:
                y[i] += x[i + k] * w[k]
    return y


@numba.njit
def smooth_adjoint(g, x, w, y):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for i in range(x.shape[0]):
        for k in range(w.shape[0]):
            if i + k < x.shape[0]:
                dx[i + k] += g[i] * w[k]
                dw[k] += g[i] * x[i + k]
    return dx, dw


smoothed = tg.custom_vjp(smooth, smooth_adjoint)


def smooth_reference(x, w):
    padded = np.concatenate([x, np.zeros(len(w) - 1)])
    return sum(padded[k : k + len(x)] * w[k] for k in range(len(w)))


@numba.njit
def two(x, k, n):
    """Powers and their sum: an array and a number."""
    y = x * k**n
    return y, y.sum()


@numba.njit
def two_adjoint(gy, gs, x, k, n, y, s):
    g = gy + gs
    return g * k**n, (g * x).sum() * n * k ** (n - 1), None


powers = tg.custom_vjp(two, two_adjoint)


def powers_reference(x, k, n):
    y = x * k**n
    return y, np.sum(y)


@numba.njit
def cubed(x):
    return x * x * x


@numba.njit
def cubed_adjoint(g, x, y):
    return 3.0 * g * x * x


@numba.njit
def cubed_second(h, g, x, y, d):
    return 3.0 * h * x * x, 6.0 * h * g * x, None


cube = tg.custom_vjp(cubed, tg.custom_vjp(cubed_adjoint, cubed_second))


def weighted(f, weights):
    return lambda *a: np.sum(f(*a) * weights)


# --- values and adjoints ----------------------------------------------------------------------


def test_an_array_of_arrays(rng):
    x, w, weights = rng.normal(size=9), rng.normal(size=3), rng.normal(size=9)
    np.testing.assert_allclose(smoothed(x, w), smooth_reference(x, w), 1e-12)
    assert type(smoothed(x, w)) is np.ndarray
    ours = tg.grad(weighted(smoothed, weights), (0, 1))(x, w)
    wanted = tg.grad(weighted(smooth_reference, weights), (0, 1))(x, w)
    for mine, theirs in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-12)
    for j in (0, 1):
        alone = tg.grad(weighted(smoothed, weights), j)(x, w)
        np.testing.assert_array_equal(alone, ours[j])


def test_against_pytorch(rng):
    torch = pytest.importorskip("torch")
    x, w = rng.normal(size=12), rng.normal(size=4)
    tx, tw = (torch.tensor(v, requires_grad=True) for v in (x, w))
    padded = torch.nn.functional.pad(tx, (0, 3))
    y = torch.nn.functional.conv1d(padded[None, None], tw[None, None])[0, 0]
    torch.sin(y).sum().backward()
    dx, dw = tg.grad(lambda x, w: np.sum(np.sin(smoothed(x, w))), (0, 1))(x, w)
    np.testing.assert_allclose(dx, tx.grad.numpy(), 1e-12, 1e-14)
    np.testing.assert_allclose(dw, tw.grad.numpy(), 1e-12, 1e-14)


def loss(f):
    def of(x, k):
        y, s = f(x, k, 3)
        return np.sum(np.sin(y) * y) + s * k

    return of


def test_several_outputs_numbers_and_integers(rng):
    x = rng.normal(size=(3, 4))
    ours = tg.value_and_grad(loss(powers), (0, 1))(x, 1.3)
    wanted = tg.value_and_grad(loss(powers_reference), (0, 1))(x, 1.3)
    np.testing.assert_allclose(ours[0], wanted[0], 1e-12)
    np.testing.assert_allclose(ours[1][0], wanted[1][0], 1e-12)
    np.testing.assert_allclose(ours[1][1], wanted[1][1], 1e-12)
    y, s = powers(x, 1.3, 3)
    assert type(y) is np.ndarray and isinstance(s, float)


def test_only_one_of_the_outputs_is_used(rng):
    x = rng.normal(size=5)
    np.testing.assert_allclose(tg.grad(lambda x: powers(x, 2.0, 3)[1])(x), np.full(5, 8.0))
    found = tg.grad(lambda x: powers(x, 2.0, 3)[0][1])(x)
    np.testing.assert_array_equal(found, [0, 8, 0, 0, 0])


def test_views_writes_and_the_same_operand_twice(rng):
    x, w = rng.normal(size=(6, 6)), rng.normal(size=3)

    def f(g):
        def of(x):
            y = x * 1.0
            y[1] = g(x[:, 2], w)
            z = g(y[::2, 1], y[::2, 1][:2])
            y[0] = 0.0
            return np.sum(z * z) + np.sum(g(y.T[3], y.T[3][:1]))

        return of

    np.testing.assert_allclose(
        tg.grad(f(smoothed))(x), tg.grad(f(smooth_reference))(x), 1e-12, 1e-14
    )


def test_what_the_caller_writes_later_does_not_matter(rng):
    x, w = tg.tensor(rng.normal(size=5), requires_grad=True), rng.normal(size=2)
    kept = w.copy()
    y = smoothed(x, w)
    w[:] = 0.0
    tg.sum(y).backward()
    wanted = smooth_adjoint(np.ones(5), x.detach().numpy(), kept, y.detach().numpy())[0]
    np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_float32_and_tensors_without_axes():
    x = np.arange(4, dtype=np.float32)
    found = tg.grad(lambda x: tg.sum(cube(x)))(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 3 * x * x)
    adjoint = numba.njit(lambda g, x, y, z: ((2 * g).astype(np.float32), None))
    single = tg.custom_vjp(twice, adjoint)
    found = tg.grad(lambda x: np.sum(single(x, x)))(np.ones(2))
    assert found.dtype == np.float64 and found.tolist() == [2.0, 2.0]
    k = tg.tensor(1.5, requires_grad=True)
    k32 = tg.tensor(np.float32(1.5), requires_grad=True)
    for scalar in (k, k32):
        powers(np.ones(3), scalar, 2)[1].backward()
        assert scalar.grad.item() == 9.0
    assert tg.grad(cube)(2.0) == 12.0


def test_many_directions_at_once(rng):
    x, w = rng.normal(size=6), rng.normal(size=3)
    wanted = tg.jacobian(lambda x: smooth_reference(x, w))(x)
    np.testing.assert_allclose(tg.jacobian(lambda x: smoothed(x, w))(x), wanted, 1e-12)
    y = tg.tensor(x, requires_grad=True)
    z = tg.sum(smoothed(y, w))
    z.backward(retain_graph=True)
    z.backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * wanted.sum(axis=0), 1e-12)


def test_an_output_that_is_an_operand_is_copied():
    f = tg.custom_vjp(numba.njit(lambda x: x), numba.njit(lambda g, x, y: 7.0 * g))

    def of(x):
        y = x * 1.0
        z = f(y)
        z[0] = 5.0
        return np.sum(y * y) + np.sum(z)

    np.testing.assert_array_equal(tg.grad(of)(np.array([1.0, 2.0])), [2.0, 11.0])


def test_without_recording(rng):
    x, w = tg.tensor(rng.normal(size=5), requires_grad=True), rng.normal(size=2)
    with tg.no_grad():
        y = smoothed(x, w)
    assert isinstance(y, tg.Tensor) and not y.requires_grad
    np.testing.assert_allclose(y.numpy(), smooth_reference(x.detach().numpy(), w), 1e-12)


# --- derivatives of derivatives ---------------------------------------------------------------


def test_a_backward_with_an_adjoint_of_its_own(rng):
    x = rng.normal(size=4)
    np.testing.assert_allclose(tg.hessian(lambda x: np.sum(cube(x)))(x), np.diag(6 * x), 1e-12)
    found = tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(np.sin(cube(x))))(x) ** 2))(x)
    slope = lambda x: 3 * x * x * np.cos(x**3)
    bend = 6 * x * np.cos(x**3) - 9 * x**4 * np.sin(x**3)
    np.testing.assert_allclose(found, 2 * slope(x) * bend, 1e-10)


@numba.njit
def split(x):
    return x * x, x.sum()


@numba.njit
def split_adjoint(g, h, x, y, s):
    return 2.0 * g * x + h


@numba.njit
def split_second(v, g, h, x, y, s, d):
    return 2.0 * v * x, v.sum(), 2.0 * g * v, None, None


halves = tg.custom_vjp(split, tg.custom_vjp(split_adjoint, split_second))


def test_second_derivatives_of_several_outputs_beside_writes(rng):
    x = rng.normal(size=5)

    def f(g):
        def of(x):
            z = x * 1.0
            z[1:3] = x[:2] * x[3]
            y, s = g(z)
            y[0] = s * x[4]
            return np.sum(y * y) * s

        return of

    reference = lambda x: (x * x, np.sum(x))
    np.testing.assert_allclose(tg.grad(f(halves))(x), tg.grad(f(reference))(x), 1e-12)
    for weights in (np.ones(5), x):
        second = [
            tg.grad(lambda x, g=g, w=weights: np.sum(w * tg.grad(f(g))(x)))(x)
            for g in (halves, reference)
        ]
        np.testing.assert_allclose(*second, 1e-11)


def test_orders_that_nobody_has_given():
    with pytest.raises(NotImplementedError, match="through smooth needs the adjoint of its backwa"):
        tg.hessian(lambda x: np.sum(smoothed(x, np.ones(2))))(np.ones(3))
    with pytest.raises(NotImplementedError, match="through cubed_adjoint needs the adjoint of its"):
        tg.grad(tg.grad(tg.grad(cube)))(1.0)
    with pytest.raises(NotImplementedError, match="a forward derivative through smooth"):
        tg.jvp(lambda x: smoothed(x, np.ones(2)), (np.ones(3),), (np.ones(3),))


# --- identity ---------------------------------------------------------------------------------


def test_one_operation_for_the_same_functions():
    assert tg.custom_vjp(smooth, smooth_adjoint) is smoothed
    assert repr(smoothed) == "<tapegrad operation smooth with its own adjoint>"
    assert smoothed.__doc__ == "Weighted sums of neighbours, in a loop."
    tape = tg.record(lambda x: smoothed(x, np.ones(2)), np.ones(3))
    tape.check()
    assert tape.rows[-1].op == "smooth"


def gradient(f):
    return tg.grad(lambda x: np.sum(f(x, np.ones(2))))(np.ones(3))


def test_pickled_and_in_processes():
    again = pickle.loads(pickle.dumps(smoothed))
    np.testing.assert_array_equal(gradient(again), [1.0, 2.0, 2.0])
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            (found,) = pool.map(gradient, [smoothed])
        np.testing.assert_array_equal(found, [1.0, 2.0, 2.0])


# --- errors -----------------------------------------------------------------------------------


@numba.njit
def twice(x, y):
    return 2.0 * x


def refused(backward, error, text, x=None):
    f = tg.custom_vjp(twice, numba.njit(backward))
    x = np.ones((2, 3)) if x is None else x
    with pytest.raises(error, match="tapegrad.twice(_2)?: " + text):
        tg.grad(lambda x: np.sum(f(x, np.ones(2))))(x)
    assert tg.grad(lambda x: np.sum(x * x))(3.0) == 6.0  # the next sweep is well


def test_derivatives_that_do_not_fit():
    count = "backward returned 1 derivatives for 2 operands; return a tuple with one for each"
    refused(lambda g, x, y, z: g, TypeError, count)
    returned = r"backward returned array\(float64, 1d, C\) for operand 0, which is an array of fl"
    refused(lambda g, x, y, z: (y, None), TypeError, returned)
    flags = r"backward returned array\(bool, 2d, C\) for operand 0, which is an array of float64"
    refused(lambda g, x, y, z: (g > 0, None), TypeError, flags)
    words = r"backward returned (Literal\[str\]\(a\)|unicode_type) for operand 0, .*; return floats"
    refused(lambda g, x, y, z: ("a", None), TypeError, words)
    shape = "for operand 0 an array of length 2 along axis 1, where the operand has another"
    refused(lambda g, x, y, z: (g[:, :2], None), ValueError, "backward returned " + shape)


def test_exceptions_inside_the_sweep():
    def backward(g, x, y, z):
        if g[0, 0] > 0:
            raise ValueError("no")
        return g, y

    refused(backward, RuntimeError, "backward raised an exception inside the reverse sweep; call")


def test_none_is_zero():
    f = tg.custom_vjp(twice, numba.njit(lambda g, x, y, z: (None, None)))
    np.testing.assert_array_equal(tg.grad(lambda x: np.sum(f(x, x)))(np.ones(3)), np.zeros(3))


def test_what_is_not_compiled():
    with pytest.raises(
        TypeError, match="forward is of type function; decorate it with @numba.njit"
    ):
        tg.custom_vjp(lambda x: x, smooth_adjoint)
    with pytest.raises(TypeError, match="backward is of type function; decorate it with"):
        tg.custom_vjp(smooth, lambda g, x, y: g)


def test_operands_and_outputs_that_do_not_fit():
    with pytest.raises(TypeError, match="tapegrad.smooth: operand 1 has type str; it must be a te"):
        smoothed(np.ones(3), "a")
    mixed = numba.njit(lambda x: (x, x.astype(np.float32)))
    whole = numba.njit(lambda x: x.astype(np.int64))
    for forward, names in ((mixed, "float64, float32"), (whole, "int64")):
        f = tg.custom_vjp(forward, cubed_adjoint)
        with pytest.raises(TypeError, match=f"forward returned {names}; it must return float64"):
            f(np.ones(3))


def test_too_many_operations(monkeypatch):
    monkeypatch.setattr(tg._core.ops.table, "MOST_CODES", 3)
    with pytest.raises(RuntimeError, match="operations are declared; declare each once, outside"):
        tg.custom_vjp(numba.njit(lambda x: x), cubed_adjoint)


def test_threads_that_declare_the_same_operation_at_once(monkeypatch):
    """They get one operation; the first is held up while it declares."""
    inside, made, usual = threading.Event(), [], custom_vjp_module.declare

    def slow(make):
        inside.set()
        time.sleep(0.2)
        return usual(make)

    monkeypatch.setattr(custom_vjp_module, "declare", slow)
    own = numba.njit(lambda x: x * 2.0), numba.njit(lambda g, x, y: g * 2.0)
    other = threading.Thread(target=lambda: made.append(tg.custom_vjp(*own)))
    other.start()
    inside.wait()
    made.append(tg.custom_vjp(*own))
    other.join()
    assert made[0] is made[1]

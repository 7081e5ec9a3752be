"""Transforms of compiled functions: arguments, types of results, masks."""

import numpy as np
import pytest
from compiled import by_ways, programs, same

import tapegrad as tg


@pytest.mark.parametrize("argnums", [0, 2, -3, (0, 2)])
def test_products_take_all_arguments(argnums):
    """The argnums are those of the function, and no business of these."""
    c = tg.compile(lambda a, b, c: a * b * c, argnums=argnums)
    for _ in range(3):
        assert c.jvp((2.0, 3.0, 4.0), (1.0, 0.0, 0.0)) == (24.0, 12.0)
        value, back = c.vjp(2.0, 3.0, 4.0)
        assert value == 24.0 and back(1.0) == (12.0, 8.0, 6.0)


def test_constant_results_keep_their_type():
    c = tg.compile(lambda a, b: a * b)
    for _ in range(3):
        assert type(c.hessian(2.0, 3.0)) is float


def test_constant_arrays_are_new_each_time():
    c = tg.compile(lambda x: (x * 2.0, np.arange(3.0), np.float64(0.5)))
    for k in range(4):
        twice, given, half = c(float(k))
        assert twice == 2.0 * k and half == 0.5
        np.testing.assert_array_equal(given, [0.0, 1.0, 2.0])
        given[:] = -1.0


@pytest.mark.filterwarnings("error")
def test_tangents_pass_by_masks():
    f = lambda x: np.sum(np.where(x > 0, x**3, x) * (x[np.argsort(x)] > 0.1))
    c, rng = tg.compile(f), np.random.default_rng(3)
    for _ in range(4):
        x, v = rng.normal(size=(2, 5))
        same(c.jvp((x,), (v,)), tg.jvp(f, (x,), (v,)))
    assert programs(c._derived["jvp"]) == 1


def test_native_guards_say_what_they_saw():
    """So that the program for it is found, and the function is not recorded again."""

    def f(x):
        a = 0.0
        for v in x:
            a = a + v if v < 1.0 else a * 0.5
        return a

    x, y = np.zeros(8), np.eye(8)[4] * 2.0
    c = by_ways(tg.compile(f, native=True, verify="never"))
    for k in range(40):
        same(c.value_and_grad((x, y)[k % 2]), tg.value_and_grad(f)((x, y)[k % 2]))
        c.wait()
    assert programs(c) == 2


# --- choices by value ---------------------------------------------------------------------------

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
W = np.array([1.0, -2.0, 3.0, 0.5, 2.5])


def derived(c, name, most=1):
    """The compiled transform of a compiled function, which must have a program."""
    assert c._derived[name]._reason is None
    assert programs(c._derived[name]) <= most
    return c._derived[name]


def test_the_largest_is_another_one():
    c = tg.compile(np.max)
    for x in (V, V, -V, V[::-1]):
        same(c.jacobian(x), tg.jacobian(np.max)(x))
    derived(c, "jacobian")


def test_choices_of_numbers_are_made_again():
    f = lambda u: np.maximum(u[0], 0.0) ** 2 * u
    c = tg.compile(f)
    for _ in range(2):
        same(c.jacobian(np.array([-1.0, 2.0])), np.zeros((2, 2)))
    same(c.jacobian(np.array([3.0, 2.0])), np.array([[27.0, 0.0], [12.0, 9.0]]))
    inside = tg.compile(lambda u: tg.grad(lambda t: np.maximum(t[0], 0.0) ** 3)(u)[0])
    assert [inside(np.array([x])) for x in (-1.0, -1.0, 2.0)] == [0.0, 0.0, 12.0]


@pytest.mark.filterwarnings("error")
def test_order_and_masks_of_arguments_that_are_data():
    f = lambda x, d: np.sum(np.sort(x) ** 2 * W) + np.sum(x[np.argsort(d)] ** 3 * W)
    g = lambda x, d: np.sum(np.where(d > 0, x**3, x) ** 2)
    for function in (f, g):
        c = tg.compile(function)
        for x, d in ((V, W), (V, W), (-V, V), (W, -V)):
            same(c.hessian(x, d), tg.hessian(function)(x, d))
            same(c.hvp(x, W, d), tg.hvp(function)(x, W, d))
        derived(c, "hessian")
        derived(c, "hvp")


@pytest.mark.filterwarnings("error")
def test_plain_arrays_indexed_by_data():
    labels = np.array([0, 1, 2, 1, 0])
    f = lambda x, y: np.sum(np.eye(3)[y[np.argsort(x)]] * x[:, None] ** 2 * W[:3])
    c = tg.compile(f)
    for x, y in ((V, labels), (V, labels), (-V, labels), (V, labels[::-1].copy())):
        same(c.value_and_grad(x, y), tg.value_and_grad(f)(x, y))
    assert c._reason is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("verify", ["never", "once"])
def test_zero_times_infinity_at_another_input(verify):
    """The slope of a root at 0 is infinite; nothing passes through the root there."""
    f = lambda x: np.sum(np.sqrt(x) * [0.0, 1.0, 1.0])
    c = tg.compile(f, verify=verify)
    calls = [[1.0, 4.0, 9.0], [1.0, 4.0, 9.0], [0.0, 4.0, 9.0], [0.0, 1.0, 4.0], [4.0, 1.0, 1.0]]
    for x in map(np.array, calls):
        with np.errstate(divide="ignore"):
            same(c.jacobian(x), np.array([0.0, *0.5 / np.sqrt(x[1:])]))
            same(c.jvp((x,), (np.ones(3),))[1], (0.5 / np.sqrt(x[1:])).sum())
    assert programs(derived(c, "jacobian", 2)) == 2
    assert np.isposinf(c.jacobian(np.array([1.0, 0.0, 9.0]))[1])


def test_derivatives_detached_inside_are_refused():
    weights = tg.tensor(W, requires_grad=True)

    def backward(x):
        weights.grad = None
        np.sum(np.maximum(weights * x, 0.0) ** 2).backward()
        return weights.grad * 1.0

    def functional(x):
        return tg.autograd.functional.jacobian(np.sort, x).sum(0) * 2.0

    for f, text in ((backward, "a backward pass without"), (functional, "detaches its results")):
        c = tg.compile(f)
        with pytest.warns(RuntimeWarning, match=text):
            c(V)
        for x in (V, -V):
            same(c(x), np.asarray(f(x)))


def test_files_hold_scatter_adds_at_computed_positions(tmp_path):
    f = lambda x: np.max(x) * np.sort(x) ** 2
    c = tg.compile(f)
    c.jacobian(V)
    c.jvp((V,), (W,))
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for x in (V, -V, W):
        same(loaded.jacobian(x), tg.jacobian(f)(x))
        same(loaded.jvp((x,), (W,)), tg.jvp(f, (x,), (W,)))


@pytest.mark.parametrize("native", [False, True])
def test_derived_programs_are_differentiated(native):
    """Through scatter-adds at computed positions, shares of ties, products of the others."""
    f = lambda x: np.sum(np.sort(x)[:3] ** 3) + np.max(x) ** 2 * np.prod(x)
    g = lambda x: np.sum(tg.grad(f)(x) ** 2)
    c = tg.compile(g, native=native, verify="never")
    c.value_and_grad(V)
    c.wait()
    for x in (V, -V, W, np.where(V < 0, 0.0, V)):
        same(c.value_and_grad(x), tg.value_and_grad(g)(x), 1e-9)
    assert c._reason is None


@pytest.mark.filterwarnings("error")
def test_windows_that_overlap_add_up():
    """Recorded where what is added is 0, so that nothing shows at once."""
    f = lambda x: np.sum(np.lib.stride_tricks.sliding_window_view(x, 3) ** 2, axis=-1)
    c = tg.compile(f, verify="never")
    for x in (np.zeros(5), np.zeros(5), V, -W):
        same(c.jacobian(x), tg.jacobian(f)(x))
    derived(c, "jacobian")


def written_number(x):
    v = np.cos(x)
    v[0] = -0.66
    return np.sum(np.tanh(np.maximum(x[1], 0.1) + v))


def written_into_constants(x):
    v = np.zeros_like(x) + np.arange(4.0)
    v[[1, 2]] = x[:2] ** 2
    v[x > 0.0] = x[0] ** 2
    return np.sum(np.tanh(v) * x)


def written_through_views(x):
    v = np.cos(x) * 1.0
    v[::-1][1:3][...] = np.array([0.3, 0.4])
    v[1] *= x[0]
    return np.sum(np.tanh(v * x))


def steered_constant(x):
    return 3.0 if np.max(0.2 * x**3) > 0.0 else np.sum(x**3)


CONSTANTS = [written_number, written_into_constants, written_through_views, steered_constant]


@pytest.mark.parametrize("f", CONSTANTS)
def test_constants_that_are_written_stay_in_second_derivatives(f):
    rng = np.random.default_rng(3)
    c = tg.compile(f, verify="never")
    for x in rng.normal(size=(8, 4)):
        v = rng.normal(size=4)
        expected = (tg.grad(f)(x + 1e-6 * v) - tg.grad(f)(x - 1e-6 * v)) / 2e-6
        np.testing.assert_allclose(tg.hvp(f)(x, v), expected, atol=1e-7)
        np.testing.assert_allclose(c.hvp(x, v), expected, atol=1e-7)
        np.testing.assert_allclose(c.hessian(x) @ v, expected, atol=1e-7)
    assert c._derived["hvp"]._reason is c._derived["hessian"]._reason is None

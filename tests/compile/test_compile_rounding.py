"""`tg.compile`: a comparison with the function tells rounding from what is another result."""

import contextlib
import queue

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._program.dispatch.rounding import DIRECTIONS, agree, differ_in_nan, rounded

W = np.array([1.0, -2.0, 3.0, 0.5])


def normalised(X, b):
    """Batch normalisation, which takes a bias out again: all of its gradient cancels."""
    z = X + b
    z = (z - z.mean(0)) / np.sqrt(z.var(0) + 1e-5)
    return np.sum(np.tanh(z * W))


def data(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(int(rng.integers(2, 60)), 4)), [rng.normal(size=4) for _ in range(4)]


@pytest.mark.parametrize("seed", range(25))
def test_a_gradient_that_cancels_is_no_alarm(seed):
    X, biases = data(seed)
    c = tg.compile(lambda b: normalised(X, b), verify="always")
    for b in biases:
        value, gradient = c.value_and_grad(b)
        np.testing.assert_allclose(value, normalised(X, b), rtol=1e-12)
        assert np.abs(gradient).max() < 1e-11
    assert c._reason is None


def test_nor_is_one_of_native_code():
    X, biases = data(3)
    c = tg.compile(lambda b: normalised(X, b), verify="always", native=True)
    c.value_and_grad(biases[0])
    c.value_and_grad(biases[0])
    c.wait()
    for b in biases:
        assert np.abs(c.grad(b)).max() < 1e-11
    assert c._reason is None


@pytest.mark.parametrize("seed", range(10))
def test_values_that_cancel_are_no_alarm(seed):
    X, biases = data(seed)
    c = tg.compile(lambda x: np.sum(x - np.mean(x)) * 1e5, verify="always")
    derived = tg.compile(lambda b: normalised(X, b), verify="always")
    scalars = tg.compile(lambda x: sum(t * 0.1 for t in x) - 0.1 * np.sum(x), verify="always")
    for b in biases:
        assert abs(c(b)) < 1e-9 and abs(scalars(b)) < 1e-13
        assert np.abs(derived.jacobian(b)).max() < 1e-11
    assert c._reason is derived._reason is scalars._reason is None


def test_terms_that_cancel_exactly_in_the_program_only_are_no_alarm():
    """Of two equal sums the program takes one; called as it is the function adds in two orders."""
    x = np.random.default_rng(1).normal(size=(40, 5))

    def f(b):
        return np.sum(np.tanh(x * b)) - np.sum(np.tanh(x * b).T.copy())

    for k in range(1, 6):
        c = tg.compile(f, verify="always")
        for _ in range(2):
            value, gradient = c.value_and_grad(0.1 * k)
            assert abs(value) < 1e-12 and abs(gradient) < 1e-12
        assert c._reason is None


def test_infinite_arguments_stay_where_they_are():
    X, (b, *_) = data(5)
    far = np.array([np.inf, -np.inf, np.nan, 0.0])
    c = tg.compile(
        lambda b, far: normalised(X, b) + np.sum(np.maximum(far, 0.0)[3:]), verify="always"
    )
    for _ in range(3):
        assert np.abs(c.grad(b, far)).max() < 1e-11
    assert c._reason is None


def test_data_keeps_its_type_where_the_function_is_called_again():
    X, (b, *_) = data(7)
    picked = np.arange(len(X))[::-1].copy()

    def f(b, rows, column, flag):
        assert rows.dtype == np.int64 and flag.dtype == bool
        z = normalised(X[rows] * (1.0 if column == 0 else 2.0), b * flag)
        return z + 0.0 * X[rows[0], column]

    c = tg.compile(f, verify="always")
    for _ in range(3):
        gradient = c.grad(b, picked, 0, np.array([True, True, False, True]))
        assert np.abs(gradient).max() < 1e-11
    assert c._reason is None and picked[0] == len(X) - 1


# --- what is lost inside --------------------------------------------------------------------------


def slope(x):
    """1 - tanh², which loses places that np.cosh(x) ** -2.0 has."""
    return 1.0 - np.tanh(x) ** 2


def of_vector(x):
    return slope(x[0]) * 3.0 + slope(x[1])


def of_branches(x):
    y = 0.5 * x[1] if x[0] > 0.0 else x[1]
    return slope(x[0]) * 3.0 + slope(y + x[0])


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("way", ["value_and_grad", "jacobian", "hessian", "map"])
@pytest.mark.parametrize("f", [of_vector, of_branches])
def test_slopes_that_lose_their_places_are_no_alarm(f, way, native):
    """NumPy's tanh and the C library's differ in its last place."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        c = tg.compile(f, verify="always", native=native)
        for _ in range(4):
            x = rng.uniform(9.0, 21.0, (3, 2) if way == "map" else 2)
            getattr(c, way)(x)
            if f is of_vector and way == "value_and_grad":
                first, second = np.cosh(x) ** -2.0
                np.testing.assert_allclose(c(x), 3.0 * first + second, rtol=1e-6, atol=2e-15)
        c.wait()
        assert c._reason is None and not c._flows.refused


def test_what_is_the_users_is_rounded_to_the_nearest_number():
    one, tiny, kept = np.float64(1.0), np.float64(2.0**-60), set()

    class Tripled(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept.add(one - tiny == one == one + tiny)
            return x * 3.0

        @staticmethod
        def backward(ctx, gradient):
            kept.add(one - tiny == one == one + tiny)
            return gradient * 3.0

    rng = np.random.default_rng(0)
    c = tg.compile(lambda x: Tripled.apply(np.sum(np.tanh(x))), verify="always")
    for x in rng.uniform(9.0, 17.0, (40, 3)):
        with contextlib.suppress(RuntimeError):  # what is lost inside stays unknown
            c.grad(x)
    assert kept == {True}


@pytest.mark.skipif(not DIRECTIONS, reason="directions of rounding cannot be set here")
def test_directions_of_rounding():
    one, tiny = np.float64(1.0), np.float64(2.0**-60)

    def bounds():
        return one - tiny, one + tiny

    assert bounds() == (1.0, 1.0)
    down, up = DIRECTIONS
    assert rounded(down, bounds) == (1.0 - 2.0**-53, 1.0)
    assert rounded(up, bounds) == (1.0, 1.0 + 2.0**-52)
    assert rounded(up, lambda: (rounded(down, bounds), bounds()))[1] == (1.0, 1.0 + 2.0**-52)
    with pytest.raises(ZeroDivisionError):
        rounded(up, lambda: 1 / 0)
    assert bounds() == (1.0, 1.0)


# --- what is no rounding --------------------------------------------------------------------------


def alarmed(f, x, gradient=True):
    """Check that a function which counts its calls is found out."""
    c = tg.compile(f)
    call = c.value_and_grad if gradient else c
    call(x)
    with pytest.raises(RuntimeError, match="depends on something else than its arguments"):
        call(x)


def test_a_gradient_that_is_nan_in_the_function_alone_is_said_to_be():
    data = np.array([[1.0, 2.0], [np.nan, 1.0]])

    def f(p):
        return np.sum(np.where(np.isnan(data[:, 0]), 0.0, data @ p) ** 2)

    c, p = tg.compile(f), np.array([0.5, 0.25])
    with np.errstate(invalid="ignore"):
        c.value_and_grad(p)
        with pytest.raises(RuntimeError, match="a factor of 0 meets NaN or infinity"):
            c.value_and_grad(p)
    assert differ_in_nan([1.0, np.nan], [1.0, 3.0]) and not differ_in_nan([2.0, np.nan], [1.0, 3.0])
    assert not differ_in_nan(1.0, 2.0) and not differ_in_nan([1.0], np.nan)
    assert not differ_in_nan(None, np.nan)


def noise(seed):
    """Random numbers drawn beforehand: an iterator, or a generator, would be noticed."""
    state = queue.SimpleQueue()
    for one in np.random.default_rng(seed).random(1000).tolist():
        state.put(one)
    return state


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_a_gradient_that_differs_where_others_cancel_is_found_out(seed, size):
    """What is added up is of size 1; the gradient itself is 0, but for what changes."""
    X, (b, *_) = data(seed)
    state = noise(seed)
    alarmed(lambda b: normalised(X, b) + size * (1.0 + state.get()) * (b[1] - b[2]), b)


@pytest.mark.parametrize("seed", range(4))
def test_noise_inside_of_what_cancels_is_found_out(seed):
    X, (b, *_) = data(seed)
    state = noise(seed)

    def f(b):
        z = X + b * (1.0 + 1e-6 * state.get())
        return np.sum(np.tanh((z - (X + b).mean(0)) * W))

    alarmed(f, b)


@pytest.mark.parametrize("jump", [np.floor, np.sign, np.rint, lambda x: np.where(x > 3.0, x, -x)])
def test_a_jump_at_the_input_hides_nothing(jump):
    """Some units in the last place away the value is another one by 1 and more."""
    state = noise(0)
    alarmed(lambda x: jump(x) - jump(x) + 1e-5 * state.get(), 3.0, gradient=False)
    alarmed(lambda x: jump(x) * 1e-9 * state.get(), 3.0, gradient=False)


def test_infinities_and_placeholders_hide_nothing():
    state = noise(0)
    far = np.array([1e30, 1e300])
    alarmed(lambda x: np.sum(np.minimum(x, far)) * 0.0 + x[0] * state.get(), np.ones(2))


def test_what_differs_in_shape_kind_or_nan_does_not_agree():
    assert agree(1.0, 1.0 + 1e-9) and not agree(1.0, 1.0 + 1e-6)
    assert agree(1e-17, 0.0, noise=1e-16) and not agree(1e-17, 0.0)
    assert not agree(1.0, 2.0, noise=0.5) and agree(np.nan, np.nan) and not agree(np.nan, 0.0, 1.0)
    assert not agree(np.inf, 1e300, 1.0) and agree(-np.inf, -np.inf) and not agree(np.inf, -np.inf)
    assert (
        not agree(np.ones(2), np.ones(3), 9.0) and not agree(1, 1.0, 9.0) and not agree(1, 2, 9.0)
    )
    assert not agree(None, 1.0) and agree("a", "a") and not agree("a", "b", 9.0)


def test_gradients_that_cancel_of_an_array_in_another_order():
    """What rounding moves is a number for each argument, however the argument lies in memory."""
    for seed in range(4):
        x = np.asfortranarray(np.random.default_rng(seed).normal(size=(2, 2)))
        c = tg.compile(lambda x: np.sum(np.tanh(np.corrcoef(x))), native=False)
        for _ in range(3):
            found = c.grad(x)
            assert np.abs(found).max() < 1e-13 and found.flags.f_contiguous

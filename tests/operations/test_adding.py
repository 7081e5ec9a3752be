"""`np.add.at`, `np.subtract.at`, `bincount`, `histogram`, `unique`: sums at positions, counts."""

import functools
import itertools

import numpy as np
import pytest

import tapegrad as tg

RNG = np.random.default_rng(4)
X, W = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
#: Keys of every kind; most name elements more than once.
KEYS = {
    "list": [0, 2, 2, 0],
    "array": np.array([0, 0, 0]),
    "negative": np.array([-1, 0, 2, -1]),
    "two axes": np.array([[0, 1], [1, 1]]),
    "mask": np.array([True, False, True]),
    "whole mask": W > 0.0,
    "tuple": ([0, 2, 0], [1, 1, 1]),
    "slice and list": (slice(None), [1, 1, 0]),
    "mask and slice": (np.array([True, False, True]), slice(1, 3)),
    "int and list": (1, [0, 0, 2]),
    "new axis": (None, [0, 0]),
    "ellipsis": (..., [0, 0]),
    "int": 1,
    "slice": slice(0, 2),
    "no axes": np.array(1),
    "empty": [],
}
VALUES = {
    "full": lambda shape: RNG.normal(size=shape),
    "number": lambda shape: 0.7,
    "row": lambda shape: RNG.normal(size=shape[-1:]),
}
ORDERS = {
    "C": lambda x: x * 1.0,
    "transposed": lambda x: np.copy(x.T).T,
    "negative strides": lambda x: (x * 1.0)[::-1, ::-1],
}


def differences(f, x, step=1e-6):
    found = np.zeros(np.shape(x))
    for k in np.ndindex(found.shape):
        ends = []
        for sign in (step, -step):
            moved = np.array(x, float)
            moved[k] += sign
            ends.append(f(moved))
        found[k] = (ends[0] - ends[1]) / (2 * step)
    return found


def close(found, wanted, tolerance=1e-7):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def changed(function, key, x, value, order=ORDERS["C"]):
    y = order(x)
    function.at(y, key, np.sin(value))
    return np.sum(np.tanh(y) * W)


CASES = list(itertools.product(("add", "subtract"), KEYS, VALUES))


@pytest.mark.parametrize(("name", "key", "kind"), CASES)
def test_values_and_gradients(name, key, kind):
    function, key = getattr(np, name), KEYS[key]
    value = VALUES[kind](X[key].shape)
    for order in ORDERS.values():
        f = functools.partial(changed, function, key, order=order)
        number, (by_x, by_value) = tg.value_and_grad(f, (0, 1))(X, value)
        close(number, f(X, value), 1e-13)
        close(by_x, differences(lambda x, f=f: f(x, value), X))
        close(by_value, differences(functools.partial(f, X), value))


@pytest.mark.parametrize("key", KEYS)
def test_programs_second_derivatives_and_forward_mode(key):
    key = KEYS[key]
    value = VALUES["full"](X[key].shape)

    def f(x):
        return changed(np.add, key, x, value * x[0, 0])

    compiled = tg.compile(f)
    for x in (X, X, X + 0.5):
        close(compiled.value_and_grad(x)[1], tg.grad(f)(x), 1e-12)
        close(compiled(x), f(x), 1e-12)
    along = RNG.normal(size=X.shape)
    close(tg.jvp(f, (X,), (along,))[1], np.sum(tg.grad(f)(X) * along), 1e-12)
    step = 1e-6 * along
    wanted = (tg.grad(f)(X + step) - tg.grad(f)(X - step)) / 2e-6
    close(tg.hvp(f)(X, along), wanted)
    close(compiled.hvp(X, along), wanted)
    close(np.tensordot(compiled.hessian(X), along), wanted)


def test_the_example():
    """Each of two equal indices counts."""

    def f(x):
        y = tg.zeros(3)
        np.add.at(y, [0, 0, 1], x)
        np.subtract.at(y, np.array([1, 1]), x[:2])
        return np.sum(y * np.array([1.0, 10.0, 100.0]))

    x = np.array([1.0, 2.0, 4.0])
    value, gradient = tg.value_and_grad(f)(x)
    assert value == 3.0 + 10.0 * (4.0 - 3.0)
    assert gradient.tolist() == [1.0 - 10.0, 1.0 - 10.0, 10.0]


def test_positions_that_a_program_computes_again():
    def f(x, where):
        y = np.zeros_like(x)
        np.add.at(y, where, x * x)
        np.add.at(y, np.argsort(x)[:2], x[0])
        np.add.at(y, [np.argmax(x)] * 2, 2.5 * x[1])
        np.add.at(y, where, 1.5)
        return np.sum(y * y * np.arange(1.0, 5.0))

    compiled = tg.compile(f)
    for x in (X[0], X[1], X[2], -X[0]):
        for where in (np.array([0, 0, 3, 1]), np.array([2, 2, 2, 2]), np.array([3, 1, 0, 0])):
            number, gradient = compiled.value_and_grad(x, where)
            close(number, f(x, where), 1e-12)
            close(gradient, differences(lambda x, where=where: f(x, where), x), 1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_float32_and_what_overlaps(dtype):
    def f(x):
        y = x * 1.0
        np.add.at(y, [0, 0, 1], y[1:])
        np.subtract.at(y[::2], [1, 1], y[0])
        return y

    x = np.array([1.0, 2.0, 4.0, 8.0], dtype)
    plain = f(x)
    found = tg.jacobian(f)(x)
    assert found.dtype == plain.dtype == np.dtype(dtype)
    value, _ = tg.vjp(f, x)
    assert value.dtype == plain.dtype and value.tolist() == plain.tolist()
    # y = (x0 + x1 + x2, x1 + x3, x2 − 2 y0, x3)
    wanted = [[1, 1, 1, 0], [0, 1, 0, 1], [-2, -2, -1, 0], [0, 0, 0, 1]]
    assert found.tolist() == wanted


def test_tensors_that_are_not_recorded():
    counts = tg.zeros(3, dtype=int)
    np.add.at(counts, [0, 0, 2], 1)
    assert counts.tolist() == [2, 0, 1]
    plain = np.zeros(3)
    np.add.at(plain, tg.tensor([1, 1]), tg.tensor([0.5, 2.0]))
    assert plain.tolist() == [0.0, 2.5, 0.0]
    leaf = tg.tensor([1.0, 2.0], requires_grad=True)
    with tg.no_grad():
        np.add.at(leaf, [0, 0], 3.0)
    assert leaf.tolist() == [7.0, 2.0] and leaf.requires_grad


def recorded(n=3):
    return tg.tensor(np.arange(1.0, n + 1.0), requires_grad=True)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: np.add.at(np.zeros(3), [0, 0], recorded()[0]), TypeError, "add.at: a recorded"),
        (lambda: np.subtract.at(np.zeros(3), [0], recorded()[:1]), TypeError, "subtract.at: a rec"),
        (lambda: np.add.at(recorded(), [0, 0], 1.0), RuntimeError, "an input that requires grad"),
        (lambda: np.maximum.at(np.zeros(3), [0], recorded()[0]), TypeError, "maximum.at: a recor"),
        (lambda: np.add.at(tg.zeros(3, dtype=int), [0], 0.5), TypeError, "add.at: a result of dty"),
        (lambda: np.add.at(tg.zeros(3, dtype=int), [0], recorded()[0]), TypeError, "a result of"),
        (lambda: np.add.at(recorded()[0], (), 1.0), TypeError, "is an element|is not"),
        (lambda: np.add.at(recorded() * 1.0, [7, 7], 1.0), IndexError, "out of bounds"),
        (lambda: np.add.at(recorded() * 1.0, [0, 0], recorded()), ValueError, "broadcast|shape"),
        (lambda: np.histogram(recorded(), "auto"), TypeError, "chooses edges by the values"),
        (lambda: np.histogram(recorded(), [2.0, 1.0]), ValueError, "increase monotonically"),
        (lambda: np.histogram(recorded(), 3, weights=recorded(2)), ValueError, "weights have"),
        (lambda: np.histogram(recorded(), 0), ValueError, "must be positive"),
        (lambda: np.bincount([0.5], weights=recorded(1)), TypeError, "Cannot cast|cast"),
        (lambda: np.bincount([0, 1], weights=recorded(3)), ValueError, "same length"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# --- counts -----------------------------------------------------------------------------------

BINS = np.array([0, 3, 3, 1, 0])


@pytest.mark.parametrize("minlength", [0, 2, 7])
def test_bincount_with_recorded_weights(minlength):
    weights = RNG.normal(size=5)
    scale = RNG.normal(size=max(minlength, 4))

    def f(w):
        return np.sum(np.bincount(BINS, w**2, minlength) ** 2 * scale)

    close(tg.value_and_grad(f)(weights)[0], f(weights), 1e-13)
    close(tg.grad(f)(weights), differences(f, weights))
    slopes = [differences(lambda w, k=k: tg.grad(f)(w)[k], weights) for k in range(5)]
    close(tg.hessian(f)(weights), slopes, 1e-6)
    compiled = tg.compile(f)
    for w in (weights, weights, weights + 1.0):
        close(compiled.grad(w), tg.grad(f)(w), 1e-12)
    assert np.bincount(BINS, tg.tensor(weights, "f4")).dtype == np.float64


def test_bincount_of_positions_that_a_program_computes_again():
    def f(w, bins):
        made = np.bincount(bins, weights=w * w)
        return np.sum(made * made) + len(made) * w[0] + np.sum(np.bincount(np.argsort(w), w)[:2])

    compiled = tg.compile(f)
    for bins in (BINS, BINS, np.array([1, 1, 1, 1, 1]), np.array([5, 0, 5, 2, 2])):
        for w in (RNG.normal(size=5), RNG.normal(size=5)):
            number, gradient = compiled.value_and_grad(w, bins)
            close(number, f(w, bins), 1e-12)
            close(gradient, differences(lambda w, bins=bins: f(w, bins), w), 1e-6)


def test_histogram_counts():
    x = np.array([0.1, 0.7, 0.71, 1.5])

    def f(x):
        counts, edges = np.histogram(x, np.array([0.0, 0.5, 1.0, 2.0]))
        again, _ = np.histogram(x, 3, (0.0, 2.0), density=True)
        return np.sum(x * x) * counts[1] + edges[2] * x[0] + again[0] * x[1]

    close(tg.value_and_grad(f)(x)[0], f(x), 1e-13)
    close(tg.grad(f)(x), differences(f, x))
    compiled = tg.compile(f)
    for at in (x, x, x[::-1] * 0.9, x + 0.2):
        close(compiled.value_and_grad(at)[0], f(at), 1e-12)
        close(compiled.grad(at), differences(f, at), 1e-6)


def test_unique_takes_first_elements():
    x = np.array([3.0, 1.0, 3.0, 2.0, 1.0])

    def f(x):
        values, index, inverse, counts = np.unique(x, True, True, True)
        return np.sum(values**2 * counts) + x[index[0]] * inverse[2] + np.sum(values[inverse])

    assert np.isclose(tg.value_and_grad(f)(x)[0], f(x))
    assert tg.grad(lambda x: np.sum(np.unique(x) ** 2))(x).tolist() == [6.0, 2.0, 0.0, 4.0, 0.0]
    compiled = tg.compile(f)
    y = np.array([0.5, 2.5, -1.0, 0.25, 4.0])
    for at in (x, x, y, -y, y[::-1]):
        close(compiled(at), f(at), 1e-12)
        close(compiled.grad(at), tg.grad(f)(at), 1e-12)
    close(tg.grad(f)(y), differences(f, y))


def test_unique_along_an_axis():
    x = np.array([[1.0, 2.0], [0.5, 1.0], [1.0, 2.0]])
    value, back = tg.vjp(lambda x: np.unique(x, axis=0), x)
    assert value.tolist() == np.unique(x, axis=0).tolist()
    assert back(np.array([[1.0, 2.0], [3.0, 4.0]]))[0].tolist() == [[3.0, 4.0], [1.0, 2.0], [0, 0]]
    assert np.unique(tg.tensor([2.0, 1.0])).tolist() == [1.0, 2.0]

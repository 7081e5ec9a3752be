"""Rows picked by index, added at indices and written, in all ways to evaluate."""

import numpy as np
import pytest

import tapegrad as tg

rng = np.random.default_rng(5)
#: How an array of 7 × 3 × 5 lies in memory: a larger one, and the part of it.
LAYOUTS = {
    "C": (np.ones((7, 3, 5)), lambda a: a),
    "Fortran": (np.ones((7, 3, 5), order="F"), lambda a: a),
    "every second row": (np.ones((14, 3, 5)), lambda a: a[::2]),
    "every second column": (np.ones((7, 3, 10)), lambda a: a[..., ::2]),
    "a part of each row": (np.ones((7, 3, 8)), lambda a: a[..., 2:7]),
    "backwards": (np.ones((7, 3, 5)), lambda a: a[::-1]),
    "turned": (np.ones((5, 7, 3)), lambda a: np.moveaxis(a, 0, 2)),
}
#: Keys of the first axes of an array of 7 × 3 × 5.
KEYS = {
    "integers": np.array([3, 0, 3, 6]),
    "negative": np.array([-1, 2, -7, 2]),
    "int32": np.array([3, 0, 3], np.int32),
    "uint8": np.array([3, 0, 3], np.uint8),
    "two axes of indices": np.array([[3, 0], [3, 6], [1, 1]]),
    "no axis of indices": np.array(4),
    "list": [2, 2, 5],
    "tuple": ([2, 2, 5],),
    "none": np.zeros(0, int),
    "mask": np.array([True, False, True, True, False, False, True]),
    "mask of none": np.zeros(7, bool),
    "mask of two axes": np.arange(21).reshape(7, 3) % 4 == 1,
    "pairs": ([3, 0, 3], [2, 1, 2]),
    "and a slice": ([3, 0, 3], slice(None)),
    "and an ellipsis": ([3, 0, 3], ...),
    "number and indices": (3, [2, 0, 2]),
    "slice and indices": (slice(1, 6, 2), [2, 0, 2]),
    "whole axis and indices": (slice(None), [2, 0, 2]),
    "last axis": (..., [4, 0, 4]),
    "apart": ([3, 0, 3], slice(None), [4, 1, 4]),
    "new axis": (None, [3, 0, 3]),
    "new axis behind": ([3, 0, 3], None),
    "part of a row": ([3, 0, 3], slice(0, 2)),
}
every_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def spread(shape, key, g):
    """The adjoint of a gather by NumPy."""
    made = np.zeros(shape, g.dtype)
    np.add.at(made, key, g)
    return made


@every_key
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_picked(key, layout, dtype):
    whole, part = layout
    x = (whole * rng.normal(size=whole.shape)).astype(dtype)
    w = rng.normal(size=part(x)[key].shape).astype(dtype)
    t = tg.tensor(x, requires_grad=True)
    made = part(t)[key]
    np.testing.assert_array_equal(made.detach(), part(x)[key])
    (made * w).sum().backward()
    wanted = np.zeros_like(x)
    part(wanted)[...] = spread((7, 3, 5), key, w)
    np.testing.assert_allclose(t.grad, wanted, 1e-6, 1e-6)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 65, 130])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_all_lengths(width, dtype):
    x, i = rng.normal(size=(9, width)).astype(dtype), rng.integers(-9, 9, 40)
    w = rng.normal(size=(40, width)).astype(dtype)
    t = tg.tensor(x, requires_grad=True)
    (t[i] * w).sum().backward()
    np.testing.assert_allclose(t.grad, spread(x.shape, i, w), 1e-5, 1e-6)
    at = tg.tensor(w, requires_grad=True)
    sums = np.zeros_like(t)
    np.add.at(sums, i, at)
    np.testing.assert_allclose(sums.detach(), spread(x.shape, i, w), 1e-5, 1e-6)
    (sums * x).sum().backward()
    np.testing.assert_array_equal(at.grad, x[i])


@pytest.mark.parametrize("dtype", [*np.typecodes["AllInteger"], ">i4"])
def test_integers_of_all_dtypes(dtype):
    x, i = rng.normal(size=(9, 200)), rng.integers(0, 9, 40).astype(dtype)
    for key in (i, -i) if np.dtype(dtype).kind == "i" else (i,):
        t = tg.tensor(x, requires_grad=True)
        made = t[key]
        np.testing.assert_array_equal(made.detach(), x[key])
        (made * made).sum().backward()
        np.testing.assert_allclose(t.grad, spread(x.shape, key, 2.0 * x[key]), 1e-12)
    for outside in (np.array([0] * 20 + [9]), np.array([-10] * 20)):
        with pytest.raises(IndexError, match="getitem: index .* is out of bounds for axis 0"):
            t[outside]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (0, 2, 3)])
def test_rows_of_nothing(shape):
    """Also rows without elements, which have positions, and in all ways to evaluate."""
    x, i = np.zeros(shape), np.array([0, 2, 2][: shape[0]], int)

    def f(x):
        y = x * 1.0
        np.add.at(y, i, x[i])
        y[i] = np.take(x, i, axis=0) * 2.0
        return np.sum(y * y)

    compiled = tg.compile(f)
    for found in (tg.grad(f)(x), tg.hvp(f)(x, x), *[compiled.grad(x) for _ in range(3)]):
        assert found.shape == shape


@every_key
def test_written(key):
    x, v = rng.normal(size=(7, 3, 5)), rng.normal(size=(7, 3, 5))[key]
    w = rng.normal(size=x.shape)

    def written(x, v):
        y = x * 1.0
        y[key] = v
        return (y * w).sum()

    number = np.arange(x.size, dtype=float).reshape(x.shape)
    number[key] = -1 - np.arange(v.size).reshape(v.shape)
    of_v = np.zeros(v.size)
    taken = number[number < 0].astype(int)
    of_v[-1 - taken] = w[number < 0]
    value, (gx, gv) = tg.value_and_grad(written, argnums=(0, 1))(x, v)
    x[key] = v
    assert value == pytest.approx((x * w).sum(), rel=1e-12)
    np.testing.assert_array_equal(gx, np.where(number < 0, 0.0, w))
    np.testing.assert_array_equal(gv, of_v.reshape(v.shape))


@every_key
@pytest.mark.parametrize("value", ["array", "number", "row"])
def test_a_write_takes_back_from_what_broadcasts(key, value):
    x = rng.normal(size=(7, 3, 5))
    shape = {"array": x[key].shape, "number": (), "row": x[key].shape[-1:]}[value]
    v, w = rng.normal(size=shape), rng.normal(size=x.shape)

    def written(v):
        y = tg.tensor(x)
        y[key] = v[()] if value == "number" else v
        return (y * y * w).sum()

    y = x.copy()
    y[key] = v
    eps = np.zeros(shape)
    found = tg.grad(written)(v)
    for index in list(np.ndindex(shape))[:4]:
        eps[index] = 1e-20
        z = x.astype(complex)
        z[key] = v + 1j * eps
        wanted = (z * z * w).sum().imag * 1e20
        assert np.asarray(found)[index] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        eps[index] = 0.0


#: What users write with rows, of an array of 30 × 6, indices of 90 rows and values of 90 × 6.
def added(x, i, m):
    a = np.zeros_like(x)
    np.add.at(a, i, m * x[i])
    return np.sum(a * a)


def subtracted(x, i, m):
    a = x * 2.0
    np.subtract.at(a, i, np.tanh(m))
    return np.sum(a * a * a)


def distances(x, i, m):
    d = x[i] - x[i[::-1]] + m
    return np.sum(np.exp(-np.sum(d * d, axis=1)))


def products(x, i, m):
    return np.sum(np.sum(x[i] * m, 1) ** 2)


def taken(x, i, m):
    return np.sum(np.sin(np.take(x, i, axis=0) * m))


def assigned(x, i, m):
    y = x * x
    y[i[:10]] = m[:10]
    y[i[10:20]] += x[:10]
    return np.sum(y * x)


def two_rounds(x, i, m):
    for _ in range(2):
        a = np.zeros_like(x)
        np.add.at(a, i, np.tanh(x[i[::-1]] * m))
        x = x + a
    return np.sum(x * x)


USES = [added, subtracted, distances, products, taken, assigned, two_rounds]


def reference(function, x, i, m):
    """Value and gradients by complex steps in the direction of random vectors."""
    directions = rng.normal(size=(3, *x.shape)), rng.normal(size=(3, *m.shape))
    slopes = [
        function(x + 1e-30j * u, i, m + 1e-30j * v).imag * 1e30
        for u, v in zip(*directions, strict=True)
    ]
    return function(x, i, m), directions, slopes


def check(found, wanted):
    (value, (gx, gm)), (right, directions, slopes) = found, wanted
    assert value == pytest.approx(right, rel=1e-10)
    for u, v, slope in zip(*directions, slopes, strict=True):
        assert np.sum(gx * u) + np.sum(gm * v) == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("function", USES)
@pytest.mark.parametrize("is_argument", [True, False])
@pytest.mark.parametrize("native", [False, True])
def test_programs(function, is_argument, native):
    x, m = rng.normal(size=(30, 6)), rng.normal(size=(90, 6))
    i = rng.permuted(np.tile(np.arange(30), 3))
    if function is assigned:
        i[:20] = rng.permutation(30)[:20]
    wanted = reference(function, x, i, m)
    check(tg.value_and_grad(lambda x, m: function(x, i, m), argnums=(0, 1))(x, m), wanted)
    if is_argument:
        program = tg.compile(lambda x, m, i: function(x, i, m), argnums=(0, 1), native=native)
        call = lambda: program.value_and_grad(x, m, i)
    else:
        program = tg.compile(lambda x, m: function(x, i, m), argnums=(0, 1), native=native)
        call = lambda: program.value_and_grad(x, m)
    for _ in range(3):
        check(call(), wanted)
        program.wait()
    i[:] = i[::-1].copy()
    check(call(), reference(function, x, i, m))

"""Numbers have no views: elements and results in both dtypes, against NumPy."""

import numpy as np
import pytest

import tapegrad as tg


def written(make):
    """What a number is after something that is made of it has been written."""

    def f(x):
        number = np.max(x) * 2
        view = make(number)
        view[...] = 7.0
        return number * np.sum(x * view)

    return f


def read_before(read):
    """An element that was read before its place was written."""

    def f(x):
        y = x * 1
        number = read(y)
        y[:] = 7 * x
        return number * np.sum(y)

    return f


PROGRAMS = {
    "None": written(lambda v: v[None]),
    "reshape": written(lambda v: v.reshape(-1)),
    "ravel": written(np.ravel),
    "atleast_1d": written(np.atleast_1d),
    "atleast_2d": written(np.atleast_2d),
    "expand_dims": written(lambda v: np.expand_dims(v, 0)),
    "element of an element": lambda x: np.sum(x * written(lambda v: v[None])(x)),
    "read": read_before(lambda y: y[0]),
    "negative": read_before(lambda y: y[-1]),
    "iterated": read_before(lambda y: next(iter(y))),
    "unpacked": read_before(lambda y: [*y][1]),
    "a view": read_before(lambda y: y[0, ...]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_numpy(name, dtype):
    f, x = PROGRAMS[name], np.array([0.5, -1.0, 2.0], dtype)
    value, gradient = tg.value_and_grad(f)(x)
    assert np.float32(value) == np.float32(f(x))
    steps = 1e-6 * np.eye(3)
    wide = x.astype(np.float64)
    wanted = [(f(wide + step) - f(wide - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5)
    assert gradient.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_element_of_what_is_not_recorded(dtype):
    x = tg.zeros(3, dtype=dtype)
    number = x[0]
    x[0] = 5.0
    assert float(number) == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_element_cannot_be_written(dtype):
    x = tg.tensor(np.ones(3, dtype), requires_grad=True) * 1
    with pytest.raises((TypeError, ValueError), match="number, not a view|read-only"):
        x[0][...] = 3.0

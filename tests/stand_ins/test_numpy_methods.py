"""Methods and attributes of arrays that tensors have: as NumPy's, with derivatives, or refused."""

import numpy as np
import pytest
from declared import close

import tapegrad as tg

X = np.array([[0.7, 2.1, 1.2], [0.4, 1.9, 3.3]])


def sorted_in_place(x):
    y = x * 1.0
    y.sort()
    y[0].sort(axis=0)
    return y


def partitioned(x):
    y = x.ravel() * 1.0
    y.partition(2)
    return np.sum(y[:2]) * y[2]


def filled(x):
    y = x * 1.0
    y.fill(x[0, 1])
    y[0].fill(2.0)
    return y * x


def through_flat(x):
    y = x * 1.0
    y.flat[1:3] = x.flat[4] * 2.0
    y.flat[[0, 5]] = x[0, :2]
    y.T.flat[1] = x[1, 1]
    z = np.zeros_like(x)
    z.flat = [1.0, 2.0]
    return y * z + sum(t * t for t in x.flat) + len(x.flat) + x.flat.copy()[3]


FORMS = {
    "sort": sorted_in_place,
    "partition": partitioned,
    "fill": filled,
    "flat": through_flat,
    "compress": lambda x: x.compress([True, False, True], axis=1) ** 2,
    "compress, flat": lambda x: x.compress([True, False, True]) ** 2,
    "choose": lambda x: (x > 1.0).astype(int).choose([x, x * x]),
    "nonzero": lambda x: x[(x > 1.0).nonzero()] ** 2,
    "searchsorted": lambda x: x[0] * np.sort(x[1]).searchsorted(x[0]),
    "view": lambda x: x.view() ** 2,
    "contains": lambda x: x * (3.0 if x[0, 0] in x[0] else 1.0) * (2.0 if 5.0 in x else 1.0),
    "is_integer": lambda x: x * (1.0 if x[0, 0].is_integer() else 2.0),
    "to_device": lambda x: x.to_device(x.device) ** 2,
}


@pytest.mark.parametrize("name", FORMS)
def test_derivatives_eager_and_compiled(name):
    f = lambda x: np.sum(np.sin(FORMS[name](x)))
    gradient, v = tg.grad(f)(X), np.cos(X)
    one = tg.jvp(f, (X,), (v,))[1]
    ends = [tg.value_and_grad(f)(X + step * v)[0] for step in (1e-6, -1e-6)]
    assert abs(np.sum(gradient * v) - (ends[0] - ends[1]) / 2e-6) < 1e-6
    close(one, np.sum(gradient * v))
    c = tg.compile(f, native=False)
    for point in (X, X, X[::-1, ::-1].copy(), X * 0.5, np.round(X) + 5.0):
        for found, wanted in zip(c.value_and_grad(point), tg.value_and_grad(f)(point), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_write_through_a_view_is_seen():
    def f(x):
        y = x * 1.0
        y.view()[0] = x[1]
        return np.sum(y * x)

    close(tg.grad(f)(X), [X[1], X[0] + 2 * X[1]])


@pytest.mark.parametrize(
    "take, text",
    [
        (lambda x: x.data, r"use detach\(\).numpy\(\).data"),
        (lambda x: x.__dlpack__(), "tapegrad.__dlpack__"),
        (lambda x: np.from_dlpack(x), "tapegrad.__dlpack"),
        (lambda x: x.view(int), "tapegrad.view: a view of float64"),
        (lambda x: x.resize(3), "tapegrad.resize: .*np.resize or reshape"),
        (lambda x: x.sort(order="a"), "tapegrad.sort: order="),
        (lambda x: np.dot(x, x.T, np.empty((2, 2)), 1), "dot"),
    ],
)
def test_refused(take, text):
    with pytest.raises(TypeError, match=text):
        take(tg.tensor(X, requires_grad=True))


def test_of_tensors_that_are_not_recorded():
    x = tg.tensor(X)
    assert x.tobytes() == X.tobytes() and bytes(x.data) == bytes(X.data) and x.base is None
    close(np.from_dlpack(x), X)
    assert 2.1 in x and 7.0 not in x and x[0, 0].is_integer() is False
    assert np.linalg.inv(x[:, :2]).shape == (2, 2)
    assert np.fft.rfft(x).dtype == complex


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sort(x, order="a"),
        lambda x: np.argsort(x, order="a"),
        lambda x: np.partition(x, 1, order="a"),
        lambda x: x.sort(order="a"),
        lambda x: x.argsort(order="a"),
    ],
)
def test_fields_to_sort_by_are_refused(call):
    with pytest.raises(TypeError, match="order= is for structured arrays"):
        call(tg.tensor([3.0, 1.0, 2.0]))


@pytest.mark.parametrize("factor", [1.0, 1.0 + 2.0j])
def test_reversed_goes_along_the_first_axis(factor):
    def weighted(x):
        rows = reversed(x * factor)
        return sum(k * np.sum(np.abs(row) ** 2) for k, row in enumerate(rows))

    value, gradient = tg.value_and_grad(weighted)(X)
    size = abs(factor) ** 2
    close(value, size * np.sum(X[0] ** 2))
    close(gradient, size * np.stack([2.0 * X[0], np.zeros(3)]))
    with pytest.raises(TypeError, match="length"):
        reversed(tg.tensor(1.0)).__next__()

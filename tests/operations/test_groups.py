"""logsumexp of few and of many groups, short and long: values and adjoints against NumPy."""

import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._core.codegen.strided_memory import SHORT_GROUP, SIDE_BY_SIDE

RNG = np.random.default_rng(8)


def naive(x, axis):
    """The value, and the slopes of it."""
    with np.errstate(all="ignore"):
        top = np.max(x, axis=axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        value = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
        return np.squeeze(value, axis), np.exp(x - value)


def check(x, axis, zeros=()):
    """A compiled and a recorded one, twice; results numbered in `zeros` have adjoint 0."""
    value = naive(x, axis)[0]
    weights = np.asarray(RNG.normal(size=value.shape))
    weights.reshape(-1)[list(zeros)] = 0.0
    spread = np.expand_dims(weights, axis)

    def loss(x):
        made = tg.logsumexp(x, axis=axis)
        return np.sum(tg.where(weights == 0.0, 0.0, made * weights))

    plain = tg.compile(lambda x: tg.logsumexp(x, axis=axis), native=False, verify="never")
    swift = tg.compile(loss, native=False, verify="never")
    for at in (x, x[::-1] - 1.0, x):
        value, slopes = naive(at, axis)
        np.testing.assert_allclose(plain(at), value, 1e-14, 1e-14)
        wanted = np.where(spread == 0.0, 0.0, slopes * spread)
        for gradient in (swift.grad(at), tg.grad(loss)(at)):
            np.testing.assert_allclose(gradient, wanted, 1e-12, 1e-14)


@pytest.mark.parametrize("n", [1, 2, 7, SHORT_GROUP, SHORT_GROUP + 1])
@pytest.mark.parametrize("more", [-1, 0, 1, 3, 4, SIDE_BY_SIDE - 1, SIDE_BY_SIDE, SIDE_BY_SIDE + 5])
def test_every_edge_of_a_block_of_groups(n, more):
    check(RNG.normal(size=(SIDE_BY_SIDE + more, n)), 1)


@pytest.mark.parametrize("groups", [5, 70])
@pytest.mark.parametrize("n", [6, 90])
def test_infinities_and_nan(n, groups):
    x = RNG.normal(size=(groups, n))
    x[0, 1], x[1, 2], x[2, 3] = np.inf, np.nan, -np.inf
    x[3, :] = -np.inf
    x[4, 0] = 1e300
    check(x, 1, zeros=(0, 1, 3))


@given(
    st.lists(st.integers(1, 7), min_size=2, max_size=4),
    st.data(),
)
@settings(max_examples=rounds(60, 20), deadline=None)
def test_any_axes(shape, data):
    """Groups of several lines, and of elements that are not next to each other."""
    axes = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    order = data.draw(st.permutations(range(len(shape))))
    check(RNG.normal(size=[5 * n for n in shape[:1]] + shape[1:]).transpose(order), tuple(axes))


@pytest.mark.parametrize("groups, n", [(40, 3), (10, 3), (33, 70)])
def test_several_seeds(groups, n):
    x = RNG.normal(size=(groups, n))
    jacobian = tg.jacobian(lambda x: tg.logsumexp(x, axis=1))(x)
    expected = np.zeros((groups, groups, n))
    expected[range(groups), range(groups)] = naive(x, 1)[1]
    np.testing.assert_allclose(jacobian, expected, 1e-13, 1e-15)


@pytest.mark.parametrize("groups", [31, 45])
def test_single_precision(groups):
    x = RNG.normal(size=(groups, 9)).astype(np.float32)
    weights = RNG.normal(size=groups).astype(np.float32)
    gradient = tg.grad(lambda x: np.sum(tg.logsumexp(x, axis=1) * weights))(x)
    assert gradient.dtype == np.float32
    wanted = naive(x.astype(float), 1)[1] * weights[:, None]
    np.testing.assert_allclose(gradient, wanted, 2e-6, 1e-7)


@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 17, 100])
@pytest.mark.parametrize("function", [np.max, np.min])
def test_extremes_of_any_length(n, function):
    compiled = tg.compile(lambda x: function(x, axis=1), native=False, verify="never")
    x = RNG.normal(size=(n + 3, n))
    for place in range(n):
        x[place, place] = -9.0 if function is np.min else 9.0
    x[n + 1, n // 2], x[n + 2, n // 3] = np.nan, np.inf
    for at in (x, -x):
        np.testing.assert_array_equal(compiled(at), function(at, axis=1))

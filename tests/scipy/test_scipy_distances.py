"""Distances of SciPy in differentiated functions: values, partials, second order, programs."""

import numpy as np
import pytest
import scipy.spatial.distance as distance

import tapegrad as tg

RNG = np.random.default_rng(3)
A, B, W = RNG.uniform(0.5, 2.0, (4, 3)), RNG.uniform(0.5, 2.0, (5, 3)), np.array([0.5, 1.0, 2.0])
VI = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, 0.2], [0.0, 0.2, 1.0]])
OPTIONS = [
    *[(name, {}) for name in "euclidean sqeuclidean cityblock chebyshev seuclidean".split()],
    *[(name, {}) for name in "cosine correlation canberra braycurtis minkowski".split()],
    *[(name, {"w": W}) for name in "euclidean sqeuclidean cityblock canberra braycurtis".split()],
    *[("minkowski", {"p": 3}), ("minkowski", {"p": 1.5, "w": W})],
    *[("seuclidean", {"V": W}), ("mahalanobis", {"VI": VI}), ("mahalanobis", {})],
    *[("cosine", {"w": W}), ("correlation", {"w": W}), ("minkowski", {"p": np.inf})],
    *[("minkowski", {"p": 1}), ("minkowski", {"p": 2, "w": W}), ("jensenshannon", {})],
    *[("hamming", {}), ("hamming", {"w": W})],
]


def differences(f, x, h=1e-4):
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[at] = h
        found[at] = (8.0 * (f(x + e) - f(x - e)) - (f(x + 2.0 * e) - f(x - 2.0 * e))) / (12.0 * h)
    return found


def check(loss, x, other):
    value, gradient = tg.value_and_grad(loss)(x)
    assert np.isclose(value, loss(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences(loss, x), atol=1e-8)
    compiled = tg.compile(loss)
    compiled.grad(x)
    np.testing.assert_allclose(compiled.grad(other), differences(loss, other), atol=1e-8)
    v = np.random.default_rng(7).normal(size=x.shape)
    np.testing.assert_allclose(
        tg.jvp(loss, (x,), (v,))[1], np.sum(gradient * v), rtol=1e-10, atol=1e-12
    )
    slopes = tg.grad(loss)
    wanted = (slopes(x + 1e-5 * v) - slopes(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(tg.hvp(loss)(x, v), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("metric", "options"), OPTIONS)
def test_distances_of_many(metric, options):
    away = A[::-1] * 1.1 + 0.05
    check(lambda x: np.sum(np.sin(distance.cdist(x, B, metric, **options))), A, away)
    check(lambda x: np.sum(np.sin(distance.pdist(x, metric, **options))), A, away)


@pytest.mark.parametrize(("metric", "options"), OPTIONS)
def test_distances_of_two(metric, options):
    if metric == "seuclidean" and not options:
        options = {"V": W}
    options = {"VI": VI} if metric == "mahalanobis" else options
    one = getattr(distance, metric)
    check(lambda x: one(x, B[0], **options) ** 2, A[0], A[1])


def test_weights_and_both_operands():
    loss = lambda w: np.sum(distance.cdist(A, B, "minkowski", p=3, w=w))
    check(loss, W, W[::-1] + 0.1)
    wanted = differences(lambda y: np.sum(distance.cdist(A, y)), B)
    np.testing.assert_allclose(
        tg.grad(lambda y: np.sum(distance.cdist(A, y)))(B), wanted, atol=1e-8
    )


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski", "canberra"])
def test_equal_points_have_finite_derivatives(metric):
    found = tg.grad(lambda x: np.sum(distance.cdist(x, A, metric)))(A)
    assert np.isfinite(found).all()
    assert not tg.grad(lambda x: getattr(distance, metric)(x, A[0]))(A[0].copy()).any()


def test_cdist_of_two_recorded_matrices_to_the_last_row():
    v = RNG.normal(size=B.shape)
    for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine"):
        loss = lambda x, y: np.sum(np.sin(distance.cdist(x, y, metric)))
        found = tg.compile(tg.grad(loss, argnums=(0, 1)))(A, B)
        for wanted in (differences(lambda x: loss(x, B), A), differences(lambda y: loss(A, y), B)):
            np.testing.assert_allclose(found[wanted.shape == B.shape], wanted, atol=1e-8)
        each = tg.vmap(tg.grad(loss, argnums=1), in_axes=(None, 0))(A, np.stack([B, B + 0.1 * v]))
        np.testing.assert_allclose(each[0], found[1], atol=1e-13)
        np.testing.assert_allclose(each[1], tg.grad(loss, argnums=1)(A, B + 0.1 * v), atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (300, 2), (3, 0)])
def test_sizes(shape):
    x, y = RNG.random(shape), RNG.random((2, shape[1]))
    for metric in ("euclidean", "sqeuclidean", "cityblock"):
        loss = lambda x: np.sum(np.sin(distance.cdist(x, y, metric)))
        value, gradient = tg.value_and_grad(loss)(x)
        assert np.isclose(value, loss(x)) and gradient.shape == shape
        compiled = tg.compile(loss)
        compiled.grad(x)
        np.testing.assert_allclose(compiled.grad(x), gradient, atol=1e-14)


def test_equal_largest_coordinates_share_the_derivative():
    x = np.array([[1.0, -1.0, 0.5]])
    loss = lambda x: np.sum(distance.cdist(x, np.zeros((2, 3)), "chebyshev"))
    np.testing.assert_array_equal(tg.grad(loss)(x), [[1.0, -1.0, 0.0]])


def test_values_that_are_not_numbers_count_as_scipy_counts_them():
    x, y = np.array([[np.inf, 0.0], [1.0, 2.0]]), np.array([[0.0, 1.0], [np.nan, 1.0]])
    for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev"):
        compiled = tg.compile(lambda x: distance.cdist(x, y, metric))
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), distance.cdist(x, y, metric))


def test_probabilities_along_an_axis():
    for options in ({"axis": 1}, {"keepdims": True}, {"axis": 1, "keepdims": True, "base": 3.0}):
        one = lambda x: distance.jensenshannon(x, A[::-1], **options)
        check(lambda x: np.sum(np.sin(one(x))), A, A * 1.1 + 0.2)
        found = tg.grad(lambda x: np.sum(one(x)))(A[::-1].copy())
        assert np.isfinite(found).all()


def test_hausdorff_distance():
    loss = lambda x: distance.directed_hausdorff(x, B)[0] ** 2
    check(loss, A, A[::-1] * 1.2)
    places = []
    tg.grad(lambda x: places.append(distance.directed_hausdorff(x, B)[1:]) or x.sum())(A)
    assert tuple(map(int, places[0])) == distance.directed_hausdorff(A, B)[1:]


def test_uncentred_correlation_is_the_cosine():
    check(lambda x: distance.correlation(x, B[0], centered=False), A[0], A[1])


def test_squareform():
    check(lambda x: np.sum(np.sin(distance.squareform(distance.pdist(x)))), A, A[::-1])
    x = np.arange(1.0, 7.0)
    loss = lambda x: np.sum(distance.squareform(x) ** 2)
    np.testing.assert_allclose(tg.grad(loss)(x), 4.0 * x)
    square = distance.squareform(x)
    back = tg.grad(lambda m: np.sum(distance.squareform(m, checks=False) ** 2))(square)
    np.testing.assert_allclose(back, 2.0 * np.triu(square))


def test_others_are_refused_by_name():
    for call, text in (
        (lambda x: distance.cdist(x, B, "jaccard").sum(), "metric='jaccard'"),
        (lambda x: distance.cdist(x, B, "minkowski", p=0.5).sum(), "p=0.5"),
        (lambda x: distance.cdist(x, B, lambda u, v: u @ v).sum(), "no derivative here"),
        (lambda x: distance.squareform(x[:3]).sum(), "checks=False"),
        (lambda x: distance.jaccard(x[0], B[0]), "jaccard"),
        (lambda x: distance.jensenshannon(A[0], B[0], base=x[0, 0]), "base is recorded"),
    ):
        with pytest.raises(tg.DerivativeLost, match=text):
            tg.grad(call)(A)

"""SciPy's trees of neighbours, forms of points, codes and units in differentiated functions."""

import warnings

import numpy as np
import pytest
import scipy
import scipy.constants
import scipy.differentiate
import scipy.spatial as spatial
from richardson import differences
from scipy.cluster import hierarchy
from scipy.cluster import vq as codes
from scipy.spatial import KDTree, cKDTree, geometric_slerp, procrustes
from scipy.spatial.transform import Rotation

import tapegrad as tg
from tapegrad.scipy import cluster, constants
from tapegrad.scipy import spatial as ours

#: SciPy 1.18 names `cdist` in place of `distance_matrix` and the like.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")

RNG = np.random.default_rng(4)
POINTS, X = RNG.random((30, 3)), RNG.random((5, 3))
TREE, OTHER = KDTree(POINTS), cKDTree(POINTS, leafsize=2)
A, B = RNG.random((6, 2)), RNG.random((6, 2))
E, TIMES = np.array([0.6, 0.0, 0.8]), np.array([0.2, 0.3, 0.8, 0.7])


def of_unit(x):
    return x / np.sqrt(np.sum(x * x))


CASES = {
    "query": (lambda x: TREE.query(x)[0], X),
    "query of one": (lambda x: TREE.query(x[0])[0], X),
    "query of cKDTree": (lambda x: OTHER.query(x, k=3)[0], X),
    "query of a list": (lambda x: TREE.query(x, k=[1, 4])[0], X),
    "query of a list of one": (lambda x: TREE.query(x, k=[2])[0], X),
    "query of nested points": (lambda x: TREE.query(x.reshape(1, 5, 3), 2)[0], X),
    "query p=1": (lambda x: TREE.query(x, p=1)[0], X),
    "query p=3": (lambda x: TREE.query(x, 2, p=3.0)[0], X),
    "query p=inf": (lambda x: TREE.query(x, p=np.inf)[0], X + 0.02),
    "points": (lambda x: KDTree(x).query(X, k=2)[0], POINTS[:8]),
    "points of themselves": (lambda x: KDTree(x).query(x, k=3)[0][:, 1:], POINTS[:8]),
    "tree made inside": (lambda x: cKDTree(POINTS).query(x)[0], X),
    "weights of neighbours": (
        lambda x: np.sum(np.sin(POINTS[TREE.query(x, 4)[1]]) / TREE.query(x, 4)[0][..., None], 1),
        X,
    ),
    "minkowski_distance": (lambda x: spatial.minkowski_distance(x, X[0]), A @ np.ones((2, 3))),
    "minkowski_distance p=1": (lambda x: spatial.minkowski_distance(x, X, 1), X**2 + 1.0),
    "minkowski_distance p=3": (lambda x: spatial.minkowski_distance(x, X[::-1] + 2, 3), X),
    "minkowski_distance p=inf": (lambda x: spatial.minkowski_distance(x, X**2 + 1, np.inf), X),
    "minkowski_distance_p": (lambda x: spatial.minkowski_distance_p(x, X + 1), X),
    "distance_matrix": (lambda x: spatial.distance_matrix(x, 2.0 * x[:2] + 1.0), X),
    "distance_matrix p=3": (lambda x: spatial.distance_matrix(x, X + 1.5, p=3), X),
    "procrustes": (lambda x: procrustes(x, B)[2], A),
    "procrustes forms": (lambda x: np.concatenate(procrustes(A, x)[:2]), B),
    "slerp": (lambda x: geometric_slerp(of_unit(x), E, TIMES), X[0]),
    "slerp to its end": (lambda x: geometric_slerp(E, of_unit(x), 0.4), X[1]),
    "slerp to its parts": (lambda t: geometric_slerp([1.0, 0.0], [0.6, 0.8], t), TIMES),
    "slerp at no time": (lambda x: geometric_slerp(of_unit(x), E, np.zeros(0)), X[0]),
    "vq": (lambda x: codes.vq(x, X[:2] + 0.1)[1], X[2:]),
    "vq to codes": (lambda x: codes.vq(POINTS, x)[1], X),
    "vq of numbers": (lambda x: codes.vq(x, np.array([0.2, 0.9]))[1], X[:, 0]),
    "whiten": (lambda x: codes.whiten(x), X),
    "convert_temperature": (lambda x: scipy.constants.convert_temperature(x, "F", "Celsius"), X),
    "to rankine": (lambda x: scipy.constants.convert_temperature(x, "Kelvin", "r"), X),
    "from rankine": (lambda x: scipy.constants.convert_temperature(x, "R", "Fahrenheit"), X),
    "lambda2nu": (lambda x: scipy.constants.lambda2nu(x) / scipy.constants.c, X + 1),
    "nu2lambda": (lambda x: scipy.constants.nu2lambda(x) / scipy.constants.c, X + 1),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name):
    f, x = CASES[name]
    w = np.random.default_rng(5).normal(size=np.shape(f(x)))
    loss = lambda x: np.sum(w * f(x)) + np.sum(np.sin(f(x)))
    value, gradient = tg.value_and_grad(loss)(x)
    np.testing.assert_allclose(value, loss(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(gradient, differences(loss, x, 4e-4), atol=1e-7)
    compiled, other = tg.compile(loss), x + 0.11 * np.cos(np.arange(x.size)).reshape(x.shape)
    compiled.grad(x)
    for at in (other, x):
        np.testing.assert_allclose(compiled.grad(at), differences(loss, at, 4e-4), atol=1e-7)
        np.testing.assert_allclose(compiled(at), loss(at), rtol=1e-13, atol=1e-13)
    v = np.sin(np.arange(1.0, x.size + 1.0)).reshape(x.shape)
    np.testing.assert_allclose(tg.jvp(loss, (x,), (v,))[1], np.sum(gradient * v), atol=1e-11)
    slopes = tg.grad(loss)
    second = (slopes(x + 1e-5 * v) - slopes(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(tg.hvp(loss)(x, v), second, rtol=1e-5, atol=1e-5)
    each = tg.vmap(slopes)(np.stack([x, other]))
    np.testing.assert_allclose(each, [gradient, slopes(other)], rtol=1e-9, atol=1e-11)


def test_indices_are_scipys():
    far = {"k": 4, "distance_upper_bound": 0.3}
    for k, more in ((1, {}), (3, {}), ([2, 1], {}), (40, {}), (4, {"distance_upper_bound": 0.3})):

        def f(x, kept=None, k=k, more=more):
            distance, index = TREE.query(x, k, **more)
            if kept is not None:
                kept.append(index)
            near = np.isfinite(distance)
            return np.sum(np.where(near, distance, 0.0))

        compiled = tg.compile(f)
        for x in (X, X[::-1] * 0.5):
            wanted = TREE.query(x, k, **more)
            found: list = []
            gradient = tg.grad(lambda x: f(x, found))(x)
            np.testing.assert_array_equal(found[-1], wanted[1])
            np.testing.assert_allclose(gradient, differences(f, x, 4e-4), atol=1e-7)
            np.testing.assert_allclose(compiled.grad(x), gradient, atol=1e-14)
    value = tg.value_and_grad(lambda x: np.sum(TREE.query(x, **far)[0] < 1.0) + x.sum())(X)[0]
    assert value == np.sum(TREE.query(X, **far)[0] < 1.0) + X.sum()


def test_equal_points_have_finite_derivatives():
    assert not tg.grad(lambda x: np.sum(TREE.query(x)[0]))(POINTS[:3].copy()).any()
    loss = lambda x: np.sum(KDTree(x).query(x, k=2)[0])
    assert np.isfinite(tg.grad(loss)(POINTS)).all()
    assert np.isfinite(tg.grad(lambda x: np.sum(spatial.distance_matrix(x, x)))(X)).all()


def test_answers_of_trees():
    def f(x):
        near = TREE.query_ball_point(x, 0.4)
        pairs = KDTree(x).query_pairs(0.5)
        between = KDTree(x).query_ball_tree(TREE, 0.3)
        count = TREE.count_neighbors(KDTree(x), 0.4)
        known = [isinstance(KDTree(x), kind) for kind in (KDTree, cKDTree, dict)]
        assert known == [True, True, False]
        answers.append((list(map(sorted, near)), pairs, list(map(sorted, between)), int(count)))
        return np.sum(x[sorted(near[0])[0] % 5]) * (1.0 + count)

    answers = []
    compiled = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        compiled.grad(X)
    for x in (X, 0.7 * X):
        for grad in (tg.grad(f), compiled.grad):
            assert np.isfinite(grad(x)).all()
            near = [sorted(one) for one in TREE.query_ball_point(x, 0.4)]
            between = [sorted(one) for one in KDTree(x).query_ball_tree(TREE, 0.3)]
            pairs, count = KDTree(x).query_pairs(0.5), TREE.count_neighbors(KDTree(x), 0.4)
            assert answers[-1] == (near, pairs, between, count)
    shown = tg.grad(lambda x: KDTree(x).n * KDTree(x).m * x.sum() + np.sum(KDTree(x).data))(X)
    np.testing.assert_array_equal(shown, np.full(X.shape, 16.0))


def test_plain_arguments_make_scipys_own():
    assert type(ours.KDTree(POINTS)) is KDTree and ours.KDTree == KDTree
    assert type(ours.Delaunay(A)) is spatial.Delaunay and isinstance(TREE, ours.cKDTree)
    assert ours.Rectangle([1.0], [0.0]).volume() == 1.0
    np.testing.assert_array_equal(cluster.vq.whiten(X), codes.whiten(X))
    assert constants.convert_temperature(0.0, "C", "K") == 273.15
    assert constants.g == scipy.constants.g
    area = tg.grad(lambda x: spatial.ConvexHull(A).volume * x.sum())(A)
    np.testing.assert_allclose(area, spatial.ConvexHull(A).volume)


def test_narrow_numbers():
    x = X.astype(np.float32)
    for f in (
        lambda x: codes.vq(x, x[:2] + np.float32(0.1))[1],
        lambda x: codes.whiten(x),
        lambda x: scipy.constants.convert_temperature(x, "C", "F"),
        lambda x: scipy.constants.nu2lambda(x),
        lambda x: TREE.query(x)[0],
        lambda x: procrustes(x, x[::-1])[0],
    ):
        kinds = []

        def loss(x, f=f, kinds=kinds):
            made = f(x)
            kinds.append(made.dtype)
            return np.sum(made)

        value, slopes = tg.value_and_grad(loss)(x)
        assert slopes.dtype == np.float32 and kinds[0] == f(x).dtype
        np.testing.assert_allclose(value, np.sum(f(x)), rtol=1e-5, atol=1e-6)


def test_columns_without_deviation_warn():
    x = np.column_stack([X[:, 0], np.ones(5)])
    with pytest.warns(RuntimeWarning, match="standard deviation zero"):
        found = tg.grad(lambda x: np.sum(codes.whiten(x)[:, 1]))(x)
    np.testing.assert_array_equal(found, [[0.0, 1.0]] * 5)


def rigid(x):
    return spatial.transform.RigidTransform.from_translation(x[0])


def spline(x):
    return spatial.transform.RotationSpline([0, 1.0], Rotation.from_rotvec(x[:2]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        *[
            (lambda x, name=name: getattr(spatial, name)(x), rf"spatial\.{name}: it has no deriv")
            for name in ("ConvexHull", "Delaunay", "Voronoi", "SphericalVoronoi")
        ],
        (lambda x: spatial.HalfspaceIntersection(x, x[0, :2]), "HalfspaceIntersection: it has no"),
        (lambda x: KDTree(x).maxes, r"KDTree\.maxes"),
        (lambda x: TREE.query(X, distance_upper_bound=x[0, 0]), r"KDTree\.query: only the points"),
        (lambda x: KDTree(x, boxsize=2.0).query(X), "boxsize"),
        (lambda x: KDTree(x).sparse_distance_matrix(TREE, 0.3), "sparse_distance_matrix"),
        (lambda x: TREE.sparse_distance_matrix(KDTree(x), 0.3), "sparse_distance_matrix"),
        (lambda x: spatial.minkowski_distance(x, X, x[0, 0]), "p is recorded"),
        (lambda x: spatial.distance_matrix(x, X, 0.5), "p=0.5"),
        (lambda x: geometric_slerp(of_unit(x[0]), of_unit(x[0]), 0.5), "are equal"),
        (lambda x: codes.kmeans(x, 2), r"vq\.kmeans\(\)"),
        (lambda x: codes.kmeans2(x, 2), r"vq\.kmeans2\(\)"),
        (lambda x: hierarchy.linkage(x), r"hierarchy\.linkage\(\)"),
        (lambda x: hierarchy.fclusterdata(x, 1.0), r"hierarchy\.fclusterdata\(\)"),
        (lambda x: spline(x), "RotationSpline: it has no derivative"),
        (lambda x: scipy.differentiate.derivative(np.sin, x[0, 0]), "differentiate.derivative"),
        (lambda x: scipy.differentiate.derivative(lambda t: t * x[0, 0], 0.5).df, "takes plain"),
        (lambda x: scipy.differentiate.jacobian(lambda t: t**2, x[0]), "differentiate.jacobian"),
        (lambda x: scipy.differentiate.hessian(np.sum, x[0]), "differentiate.hessian"),
    ],
)
def test_others_are_refused_by_name(call, text):
    with pytest.raises(tg.DerivativeLost, match=text):
        tg.grad(lambda x: call(x) and x.sum())(X)


@pytest.mark.skipif(scipy.__version__ < "1.16", reason="SciPy has none")
def test_rigid_transforms_are_refused_by_name():
    with pytest.raises(tg.DerivativeLost, match=r"RigidTransform\.from_translation: it has no"):
        tg.grad(lambda x: rigid(x).apply(x).sum())(X)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: procrustes(x, X[:2]),
        lambda x: procrustes(x * 0.0, X),
        lambda x: procrustes(x[0], X),
        lambda x: geometric_slerp(x[0], E, 0.5),
        lambda x: geometric_slerp(of_unit(x[0]), E[:2], 0.5),
        lambda x: geometric_slerp(of_unit(x[0]), E, [[0.5]]),
        lambda x: codes.vq(x, X[0]),
        lambda x: codes.vq(x / 0.0, X),
        lambda x: spatial.distance_matrix(x, X[:, :2]),
        lambda x: TREE.query(x[:, :2]),
    ],
)
def test_errors_are_scipys(call):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        for f in (call, tg.grad(lambda x: call(x) and x.sum())):
            with pytest.raises(ValueError):
                f(X)


def test_antipodes_warn():
    other = of_unit(-E + 1e-8 * E[::-1])
    with pytest.warns(UserWarning, match="antipodes"):
        found = tg.grad(lambda x: geometric_slerp(of_unit(x), other, 0.5).sum())(E)
    assert np.isfinite(found).all()

"""Objects of SciPy that entered functions name: another one, or other attributes, between calls."""

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.sparse.linalg import spsolve
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation, Slerp

import tapegrad as tg

X = np.array([0.3, 1.2])
TIMES = np.array([0.0, 1.0, 2.0])
distribution, tree, rotation, slerp, normal, kde = [None] * 6
#: By the name of a global: what a function computes with the object, and two objects.
CASES = {
    "distribution": (
        lambda x: distribution.logpdf(x).sum(),
        *(stats.norm(0.0, 1.0), stats.norm(3.0, 1.0)),
    ),
    "tree": (lambda x: tree.query(x)[0], KDTree(np.eye(2)), KDTree(3 * np.eye(2))),
    "rotation": (
        lambda x: rotation.apply(np.stack([x[0], x[1], x[0]])).sum(),
        *(Rotation.from_rotvec([0.1, 0.2, 0.3]), Rotation.from_rotvec([0.5, 0.2, 0.3])),
    ),
    "slerp": (
        lambda x: slerp(x).as_rotvec().sum(),
        Slerp(TIMES, Rotation.from_rotvec(np.eye(3))),
        Slerp(TIMES, Rotation.from_rotvec(2 * np.eye(3))),
    ),
    "normal": (
        lambda x: normal.logpdf(x),
        *(stats.multivariate_normal([0.0, 0.0]), stats.multivariate_normal([1.0, 0.0])),
    ),
    "kde": (
        lambda x: kde(x).sum(),
        *(stats.gaussian_kde([0.0, 1.0, 4.0]), stats.gaussian_kde([0.0, 1.0, 5.0])),
    ),
}
TRANSFORMS = [tg.value_and_grad, lambda f: tg.compile(tg.value_and_grad(f))]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_global_with_another_object(name, transform, monkeypatch):
    f, *objects = CASES[name]
    transformed = transform(f)
    for one in (*objects, *objects):
        monkeypatch.setitem(globals(), name, one)
        for _ in range(2):
            assert transformed(X)[0] == pytest.approx(f(X), rel=1e-13)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_variable_of_an_enclosing_function_with_another_object(transform):
    held = stats.gamma(2.0)
    transformed = transform(lambda x: held.cdf(x).sum())
    for shape in (2.0, 5.0):
        held = stats.gamma(shape)
        assert transformed(X)[0] == pytest.approx(held.cdf(X).sum(), rel=1e-13)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_objects_with_other_attributes(transform):
    """The stand-ins of some objects have copies of attributes."""
    frozen, normal = stats.norm(0.0, 1.0), stats.multivariate_normal([0.0, 0.0])
    density = stats.gaussian_kde([0.0, 1.0, 2.0, 4.0])

    def f(x):
        return frozen.logpdf(x).sum() + normal.logpdf(x) + density(x).sum()

    def moved():
        yield
        frozen.args = (2.0, 3.0)
        yield
        frozen.args, frozen.kwds = (1.0,), {"scale": 2.0}
        yield
        frozen.kwds["scale"] = 0.5
        yield
        normal.mean = np.array([1.0, 2.0])
        yield
        normal.mean[1] = -1.0
        yield
        density.set_bandwidth(0.2)
        yield

    transformed = transform(f)
    for _ in moved():
        assert transformed(X)[0] == pytest.approx(f(X), rel=1e-13)


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "lil_matrix", "dok_array"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_elements_that_a_sparse_matrix_gets_later(transform, kind):
    """Another number of stored elements: the matrix has other arrays then."""
    A = getattr(sparse, kind)(np.array([[2.0, 1.0], [0.0, 3.0]]))

    def product(x):
        return np.sum((A @ x) ** 2)

    def branching(x):
        return (A @ x).sum() if x[0] > 5.0 else (A @ x) @ x

    def solution(x):
        return spsolve(A.tocsc(), x).sum()

    transformed = [(f, transform(f)) for f in (product, branching, solution)]
    for changes in ((), ((1, 0, 0.7),), ((1, 0, -1.0), (0, 0, 4.0))):
        for row, column, number in changes:
            A[row, column] = number
        for f, one in transformed:
            for x in (X, 2 * X, 30 * X, X):
                value, gradient = one(x)
                assert value == pytest.approx(f(x), rel=1e-13)
                wanted = [(f(x + h) - f(x - h)) / 2e-5 for h in 1e-5 * np.eye(2)]
                np.testing.assert_allclose(gradient, wanted, rtol=1e-7)

"""Sparse matrices to which recorded values are written, element by element."""

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import tapegrad as tg

X = np.array([1.0, 2.0, 3.0])
KINDS = [f"{format}_{kind}" for format in ("lil", "dok") for kind in ("array", "matrix")]


def springs(a, x):
    """The stiffness of springs in a row, as finite elements are added."""
    for k in range(2):
        a[k, k] += x[k]
        a[k + 1, k + 1] += x[k]
        a[k, k + 1] -= x[k]
        a[k + 1, k] -= x[k]
    a[0, 0] += 2.0
    return a.tocsr() @ x


def rows(a, x):
    a[0, 1] = 5.0
    a[1, :] = x
    a[[0, 2], [0, 2]] = x[:2] ** 2
    return a.tocsc() @ x


def operators(a, x):
    a[0, 1] = x[0]
    a[2, 0] = x[1] * x[2]
    sides = a @ x + x @ a
    return sides + (a * 2.0).toarray()[0] + (a + a.T).toarray()[1] + (a / x[1] - abs(-a)).sum()


def written_twice(a, x):
    a[0, 1] = x[0]
    a[0, 1] = x[1] ** 2
    a[2, 2] = x[0]
    a[2, 2] = 1.0
    return a.toarray() * x


def solved(a, x):
    a[0, 0], a[1, 1], a[2, 2], a[0, 2] = x[0] + 2.0, x[1] + 3.0, x[2] + 1.0, x[1]
    return sl.spsolve(a.tocsc(), x)


def read(a, x):
    a[0, 1] = x[0]
    a[1, 1] = 2.0 * a[0, 1] * x[2]
    return a[1, 1] * x + a[0, 0] + a[[0, 1], :].toarray()[1]


def converted(a, x):
    a[0, 1] = x[0]
    return ss.csr_array(a) @ x + ss.vstack([a, a]).toarray()[0]


def copied(a, x):
    a[0, 1] = x[0]
    b = a.copy()
    b[0, 1], b[2, 2] = x[2] ** 2, x[1]
    return a.toarray() * x - b.toarray()


def in_place(a, x):
    a[0, 1] = x[0]
    a += a
    a *= 2.0
    return a @ x


def block(a, x):
    a[:2, 1:] = ss.csr_array(np.outer(x[:2], x[1:]))
    return a.toarray()


def plain(a, x):
    a[0, 1], a[1, 1] = 3.0, 2.0
    assert type(a.tocsr()).__module__.startswith("scipy.sparse")
    return a.tocsr() @ x + sl.eigsh((a.tocsr() + a.tocsr().T).tocsr(), 1)[0] * x[0]


WAYS = (
    springs, rows, operators, written_twice, solved, read, converted, copied, in_place, block, plain
)  # fmt: skip


def slopes_of(loss, x, h=1e-3):
    found = []
    for e in h * np.eye(len(x)):
        first, last = loss(x + e) - loss(x - e), loss(x + 2.0 * e) - loss(x - 2.0 * e)
        found.append((8.0 * first - last) / (12.0 * h))
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
def test_numbers_are_written_one_by_one(way, kind):
    def loss(x):
        a = getattr(ss, kind)((3, 3))
        found = way(a, x)
        return np.sum(np.sin(0.3 * (found.toarray() if ss.issparse(found) else found)))

    value, gradient = tg.value_and_grad(loss)(X)
    assert np.isclose(value, loss(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, slopes_of(loss, X), atol=1e-8)
    compiled = tg.compile(loss)
    for x in (X, 1.3 * X, 0.7 * X):
        np.testing.assert_allclose(compiled.grad(x), slopes_of(loss, x), atol=1e-8)
    second = [(tg.grad(loss)(X + e) - tg.grad(loss)(X - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(tg.hessian(loss)(X), second, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(loss, (X,), (np.ones(3),))[1], gradient.sum(), rtol=1e-10)
    both = tg.vmap(loss)(np.stack([X, 2.0 * X]))
    np.testing.assert_allclose(both, [loss(X), loss(2.0 * X)], rtol=1e-12)


REFUSED = {
    "contains": (lambda a, x: x * ((0, 1) in a), "__contains__ of a dok_array"),
    "compared": (lambda a, x: x * (a != 0).sum(), "are not compared"),
    "diagonal": (lambda a, x: a.setdiag(x), r"\.setdiag of a dok_array"),
    "rounded": (lambda a, x: round(a), "__round__ of a dok_array"),
    "items": (lambda a, x: a.items(), r"\.items of a dok_array"),
    "get": (lambda a, x: x * a.get((0, 1)), r"\.get of a dok_array"),
    "maximum of rows": (lambda a, x: a.max(0), r"A\.toarray\(\)\.max\(axis\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_written_matrix_does_not_do(name):
    then, words = REFUSED[name]

    def f(x):
        a = ss.dok_array((3, 3))
        a[0, 1] = x[0]
        return np.sum(then(a, x))

    with pytest.raises(tg.DerivativeLost, match=words):
        tg.grad(f)(X)


def test_kinds_that_hold_no_derivative():
    def whole(x):
        a = ss.lil_array((2, 2), dtype=int)
        a[0, 0] = x[0]
        return a.sum()

    with pytest.raises(tg.DerivativeLost, match="lil_array of dtype int64; make it with"):
        tg.grad(whole)(X)
    with pytest.raises(tg.DerivativeLost, match=r"sparse\.lil_array: a matrix of recorded numbers"):
        tg.grad(lambda x: ss.lil_array(np.outer(x, x)).sum())(X)
    with pytest.raises(ValueError):  # SciPy's own
        tg.grad(lambda x: ss.lil_array((2, 2)).__setitem__((0, slice(None)), x))(X)


def test_the_class_is_scipys():
    import tapegrad.scipy.sparse as sparse

    assert type(sparse.lil_array((2, 2))) is ss.lil_array
    a = sparse.dok_matrix((2, 2))
    a[0, 1] = 2.0
    assert type(a) is ss.dok_matrix and isinstance(a, sparse.dok_matrix)
    kinds = []

    def f(x):
        b = ss.lil_array((2, 2))
        kinds.append((isinstance(b, ss.lil_array), isinstance(b, ss.csr_array), repr(b)))
        b[0, 0] = x[0]
        kinds.append((isinstance(b, ss.lil_array), ss.issparse(b), b.shape, b.format))
        return b[0, 0] * b[1, 1] + b.nnz * x[0]

    assert np.array_equal(tg.grad(f)(X), [1.0, 0.0, 0.0])
    assert kinds[:2] == [(True, False, repr(ss.lil_array((2, 2)))), (True, True, (2, 2), "lil")]

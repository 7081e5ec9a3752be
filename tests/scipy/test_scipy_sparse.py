"""Sparse matrices in differentiated functions, as operands and of recorded numbers."""

import numpy as np
import pytest
import scipy
import scipy.sparse as ss
import scipy.sparse.linalg as sl
from extent import some

import tapegrad as tg

X = np.array([1.0, 2.0, 3.0])
DENSE = np.arange(1.0, 10.0).reshape(3, 3) / 5.0
PLAIN = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0], [4.0, 0.0, 0.0]])
ROWS, COLUMNS = [0, 1, 1, 2, 0], [1, 2, 0, 0, 1]  # the last number lies where the first does
KINDS = ("array", "matrix")


def test_stored_elements_of_a_dense_array_are_not_counted():
    for ask in (lambda a: a.nnz, lambda a: a.size, lambda a: a.getnnz()):
        with pytest.raises(tg.DerivativeLost, match="np.count_nonzero of the array"):
            tg.grad(lambda x, ask=ask: ask(ss.csr_array(np.diag(x))) * x[0])(np.ones(3))


def test_a_matrix_that_is_a_dict_is_noticed_when_it_changes():
    matrix = ss.dok_array(np.diag([1.0, 2.0, 3.0]))
    f = tg.compile(lambda x: np.sum((matrix @ x) ** 2))
    for k in range(45):  # so many calls compile the comparison
        matrix[0, k % 3] = float(k // 40)
        wanted = np.sum((matrix @ np.ones(3)) ** 2)
        assert f.value_and_grad(np.ones(3))[0] == pytest.approx(wanted)


def dense(v):
    return (
        np.asarray(v.toarray()) if ss.issparse(v) else v.toarray() if hasattr(v, "toarray") else v
    )


def loss_of(f):
    return lambda x: np.sum(np.sin(0.05 * dense(f(x))))


def differences(f, x):
    """The gradient by differences of fourth order."""
    loss, h, found = loss_of(f), 1e-3, np.zeros_like(x)
    for k, e in enumerate(h * np.eye(len(x))):
        first, second = loss(x + e) - loss(x - e), loss(x + 2.0 * e) - loss(x - 2.0 * e)
        found[k] = (8.0 * first - second) / (12.0 * h)
    return found


# --- SciPy's matrices as operands -----------------------------------------------------------------

OPERATORS = {
    "a @ x": lambda a, x: a @ x,
    "a @ X": lambda a, x: a @ (DENSE * x),
    "a.T @ x": lambda a, x: a.T @ x,
    "x @ a": lambda a, x: x @ a,
    "X @ a": lambda a, x: (DENSE * x) @ a,
    "a * x": lambda a, x: a * x,
    "x * a": lambda a, x: x * a,
    "x[0] * a": lambda a, x: x[0] * a,
    "a + X": lambda a, x: a + DENSE * x,
    "X - a": lambda a, x: DENSE * x - a,
    "a / X": lambda a, x: a / (DENSE * x),
    "a @ column": lambda a, x: a @ x[:, None],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", "csr csc coo dia bsr lil dok".split())
def test_matrices_are_operands_of_recorded_values(format, kind):
    a = getattr(ss, f"{format}_{kind}")(PLAIN)
    for name, f in OPERATORS.items():
        given = lambda x, f=f: f(a, x)
        found = tg.grad(loss_of(given))(X)
        np.testing.assert_allclose(found, differences(given, X), atol=1e-8, err_msg=name)
        value = loss_of(given)(X)
        assert np.isclose(tg.value_and_grad(loss_of(given))(X)[0], value, rtol=1e-14), name


@pytest.mark.parametrize("format", "csr csc dia bsr lil dok".split())
def test_dot_is_a_product(format):
    a = getattr(ss, f"{format}_array")(PLAIN)
    assert np.allclose(tg.grad(lambda x: np.sum(a.dot(x)))(X), PLAIN.sum(0))


def test_what_sparse_matrices_do_not_do_is_refused_by_name():
    a = ss.csr_array(PLAIN)
    with pytest.raises(tg.DerivativeLost, match=r"csr_array\.multiply.*t \* sparse"):
        tg.grad(lambda x: a.multiply(x).sum())(X)
    with pytest.raises(tg.DerivativeLost, match=r"\.eliminate_zeros of a csr_array"):
        tg.grad(lambda x: (x * a).tocsr().eliminate_zeros())(X)
    with pytest.raises(tg.DerivativeLost, match=r"use \.toarray\(\)"):
        tg.grad(lambda x: np.linalg.det(np.asarray(x[0] * a)))(X)
    with pytest.raises(tg.DerivativeLost, match="indices are recorded"):
        tg.grad(lambda x: ss.csr_array((x, (x, [0, 1, 2])), shape=(4, 4)).sum())(X)
    with pytest.raises(tg.DerivativeLost, match=r"two axes"):
        tg.grad(lambda x: (x * a).tocsr()[0].sum())(X)
    with pytest.raises(ValueError, match="dimension mismatch"):
        tg.grad(lambda x: np.sum(a @ x[:2]))(X)
    with pytest.raises(TypeError, match="linalg.eigsh"):
        tg.grad(lambda x: np.sum(ss.linalg.eigsh(x * a)[0]))(X)


def test_a_changed_matrix_is_noticed_by_a_program():
    a = ss.csr_array(PLAIN)
    compiled = tg.compile(lambda x: np.sum((a @ x) ** 2))
    wanted = lambda: 2.0 * a.toarray().T @ (a @ X)
    for _ in range(3):
        assert np.allclose(compiled.grad(X), wanted())
    a.data *= 2.0
    assert np.allclose(compiled.grad(X), wanted())
    a.indices[:2] = [1, 2]
    assert np.allclose(compiled.grad(X), wanted())


def test_float32_and_sizes():
    a = ss.csr_array(PLAIN.astype(np.float32))
    x = X.astype(np.float32)
    value = lambda x: a @ x
    assert tg.vjp(value, x)[0].dtype == (a @ x).dtype == np.float32
    for shape in ((0, 3), (3, 0), (0, 0), (1, 1)):
        empty = ss.csr_array(shape)
        assert tg.grad(lambda x, a=empty: np.sum(a @ x))(np.ones(shape[1])).shape == (shape[1],)


def test_complex_numbers():
    a = ss.csr_array(PLAIN * (1.0 - 2.0j))
    size = lambda x: np.abs(a @ (x * (2.0 + 1.0j) + 1.0j))
    assert np.allclose(tg.grad(loss_of(size))(X), differences(size, X), atol=1e-8)


def test_wide_products_and_threads():
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    a, x = ss.random_array((300, 300), density=0.02, format="csr", rng=rng), rng.normal(size=300)
    compiled = tg.compile(lambda x: np.sum((a @ x) ** 2))
    wanted = 2.0 * a.T @ (a @ x)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: compiled.grad(x), range(16)):
            assert np.allclose(found, wanted)


# --- recorded numbers -----------------------------------------------------------------------------


def numbers(x):
    return np.concatenate([x, x[:2] ** 2])


def made(format, kind, x, shape=(3, 3)):
    """A matrix whose numbers depend on x, two of them in one place."""
    return getattr(ss, f"{format}_{kind}")((numbers(x), (ROWS, COLUMNS)), shape=shape)


GIVEN = np.array([1.0, 2.0, 3.0, 1.0, 4.0])


def other(kind, x=None):
    given = GIVEN if x is None else numbers(x * x)
    return getattr(ss, f"csc_{kind}")((given, (COLUMNS, ROWS)), shape=(3, 3))


#: By kind of class: whether the format is SciPy's, too, is compared.
MATRICES = {
    "coo": lambda k, x: made("coo", k, x, (3, 4)),
    "csr": lambda k, x: made("csr", k, x, (3, 4)),
    "csc": lambda k, x: made("csc", k, x, (3, 4)),
    "csr of rows": lambda k, x: getattr(ss, f"csr_{k}")(
        (numbers(x), COLUMNS, [0, 2, 3, 5]), shape=(3, 4)
    ),
    "csc of columns": lambda k, x: getattr(ss, f"csc_{k}")((numbers(x), COLUMNS, [0, 2, 3, 5])),
    "bsr": lambda k, x: getattr(ss, f"bsr_{k}")(
        (np.outer(numbers(x)[:4], x[:2]).reshape(2, 2, 2), [0, 1], [0, 1, 2]), shape=(4, 4)
    ),
    "dia": lambda k, x: getattr(ss, f"dia_{k}")((np.stack([x, x * x]), [0, 1]), shape=(3, 3)),
    "of a matrix": lambda k, x: getattr(ss, f"csr_{k}")(np.outer(x, x)),
    "sum over rows": lambda k, x: made("csr", k, x).sum(0),
    "sum over columns": lambda k, x: made("csr", k, x).sum(axis=1),
    "sum": lambda k, x: made("csr", k, x).sum(),
    "mean": lambda k, x: made("csr", k, x).mean(0),
    "mean of rows": lambda k, x: made("csr", k, x).mean(axis=-1),
    "sum of all": lambda k, x: made("csc", k, x).sum((0, 1)),
    "largest": lambda k, x: made("csr", k, x).max() * x,
    "smallest": lambda k, x: made("csr", k, -x).min() * x + made("csr", k, x).min(),
    "largest of full": lambda k, x: getattr(ss, f"csr_{k}")(-np.outer(x, x)).max() * x,
    "largest stored": lambda k, x: made("csr", k, -x).max(explicit=True) * x,
    "absolute": lambda k, x: abs(made("csr", k, x - 2.5)),
    "product": lambda k, x: made("csr", k, x) @ x,
    "transposed": lambda k, x: made("csr", k, x).T @ x,
    "from the left": lambda k, x: x @ made("coo", k, x),
    "with an array": lambda k, x: made("csc", k, x) @ DENSE,
    "array with": lambda k, x: DENSE @ made("csr", k, x),
    "of two": lambda k, x: made("csr", k, x) @ other(k, x),
    "with SciPy's": lambda k, x: made("csr", k, x) @ other(k),
    "SciPy's with": lambda k, x: other(k) @ made("csr", k, x),
    "star": lambda k, x: made("csr", k, x) * other(k, x),
    "star SciPy's": lambda k, x: made("csr", k, x) * other(k),
    "SciPy's star": lambda k, x: other(k) * made("csr", k, x),
    "sum of two": lambda k, x: made("csr", k, x) + other(k),
    "SciPy's plus": lambda k, x: other(k) + made("csr", k, x),
    "SciPy's minus": lambda k, x: other(k) - made("csr", k, x),
    "multiply": lambda k, x: made("csr", k, x).multiply(x),
    "multiply column": lambda k, x: made("csr", k, x).multiply(x[:, None]),
    "by numbers": lambda k, x: np.float64(2.0) * made("csr", k, x) * x[0] / 4,
    "diagonal": lambda k, x: made("csr", k, x).diagonal(1),
    "rows": lambda k, x: made("csr", k, x)[1:],
    "columns": lambda k, x: made("csc", k, x)[:, [0, 1]],
    "element": lambda k, x: made("csr", k, x)[0, 1],
    "none there": lambda k, x: made("csr", k, x)[0, 2] + x[0],
    "hstack": lambda k, x: ss.hstack([made("csr", k, x), other(k)]),
    "vstack": lambda k, x: ss.vstack([made("csr", k, x), other(k, x)], format="csr"),
    "bmat": lambda k, x: ss.bmat([[made("csr", k, x), None], [None, other(k, x)]], format="csr"),
    "kron": lambda k, x: ss.kron(made("csr", k, x), other(k, x)),
    "kron with an array": lambda k, x: ss.kron(np.eye(2), other(k, x), format="csr"),
    "kronsum": lambda k, x: ss.kronsum(made("csr", k, x), other(k, x)),
    "tril": lambda k, x: ss.tril(made("csr", k, x)),
    "square": lambda k, x: made("csr", k, x) ** 2,
    "log1p": lambda k, x: made("csr", k, x).log1p(),
    "reshape": lambda k, x: made("csr", k, x).reshape((1, 9)),
    "complex": lambda k, x: np.abs(((1.0 + 2.0j) * made("csr", k, x)) @ (x * 1j + 1.0)),
    "diags": lambda k, x: ss.diags([x, x[1:]], [0, 1]),
    "diags of one": lambda k, x: ss.diags(x, 1),
    "diags of numbers": lambda k, x: ss.diags([x[0], -2 * x[1], x[2]], [-1, 0, 1], shape=(4, 4)),
    "diags_array": lambda k, x: ss.diags_array([x[0] * np.ones(4), x[:1]], offsets=[0, 3]),
    "spdiags": lambda k, x: ss.spdiags(np.stack([x, x * x]), [0, 1], 3, 3),
    "block_diag": lambda k, x: ss.block_diag([np.outer(x, x), ss.eye(2), x[None, :1]]),
}
_OF_ONE_KIND = ("diags", "spdiags", "block_diag")
CASES = [
    (name, kind)
    for name in MATRICES
    for kind in KINDS
    if kind == "array" or not name.startswith(_OF_ONE_KIND)
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_matrices_of_recorded_numbers(name, kind):
    if name == "sum of all" and np.lib.NumpyVersion(scipy.__version__) < "1.16.0":
        pytest.skip("SciPy's take no tuples of axes")
    f = lambda x: MATRICES[name](kind, x)
    plain, away, loss = f(X), 1.3 * X + 0.1, loss_of(f)
    value, gradient = tg.value_and_grad(loss)(X)
    assert np.isclose(value, loss(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences(f, X), atol=1e-8)
    seen = []
    tg.grad(lambda x: seen.append(f(x)) or x[0])(X)
    one = seen[0]
    assert np.shape(plain) == np.shape(one)
    if ss.issparse(plain):
        assert (plain.nnz, plain.dtype) == (one.nnz, one.dtype)
        assert type(plain).__name__[4:] == repr(one).split("(")[1].split(",")[0][4:]
    if "compiled" in (ways := some(("compiled", "forward", "batch"), f"{name} {kind}")):
        compiled = tg.compile(loss)
        compiled.grad(X)
        np.testing.assert_allclose(compiled.grad(away), differences(f, away), atol=1e-8)
    if "forward" in ways:
        tangent = tg.jvp(loss, (X,), (np.ones(3),))[1]
        np.testing.assert_allclose(tangent, gradient.sum(), rtol=1e-12)
    if "batch" in ways:
        np.testing.assert_allclose(tg.vmap(loss)(np.stack([X, away])), [loss(X), loss(away)])


@pytest.mark.parametrize("name", ["coo", "product", "of two", "multiply", "kron", "complex"])
def test_second_derivatives(name):
    loss = loss_of(lambda x: MATRICES[name]("array", x))
    slopes = tg.grad(loss)
    wanted = [(slopes(X + e) - slopes(X - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(tg.hessian(loss)(X), wanted, rtol=1e-5, atol=1e-5)


def test_the_stand_in_has_classes():
    import tapegrad.scipy.sparse as sparse

    a = sparse.csr_array(PLAIN)
    assert type(a) is ss.csr_array and isinstance(a, sparse.csr_array) and sparse.issparse(a)
    assert not isinstance(a, sparse.csr_matrix)
    x = tg.tensor(X, requires_grad=True)
    made = sparse.diags_array(x)
    assert isinstance(made, sparse.dia_array) and sparse.issparse(made)
    np.sum((made @ np.ones(3)) ** 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * X)
    np.testing.assert_allclose(made.detach().toarray(), np.diag(X))


# --- equations ------------------------------------------------------------------------------------


def regular(x):
    """A matrix of equations, not symmetric."""
    return ss.csc_array((np.concatenate([x + 3.0, x[:2]]), ([0, 1, 2, 0, 2], [0, 1, 2, 1, 0])))


def symmetric(x):
    return ss.diags_array([x[1:], x + 4.0, x[1:]], offsets=[-1, 0, 1], format="csr")


def lower(x):
    """A triangle, with indices of 32 bits, which SciPy before 1.17 asks for."""
    places = np.array([[0, 1, 2, 2], [0, 1, 2, 0]], np.int32)
    return ss.csr_array((np.concatenate([x + 3.0, x[:1]]), tuple(places)), shape=(3, 3))


TIGHT = {"rtol": 1e-14, "atol": 0.0}
EQUATIONS = {
    "spsolve": lambda x: sl.spsolve(regular(x), np.sin(x)),
    "spsolve, complex": lambda x: np.abs(sl.spsolve(regular(x) * (1.0 + 2.0j), np.exp(1j * x))),
    "spsolve, complex side": lambda x: np.abs(sl.spsolve(regular(X), x + 1j * x**2)),
    "splu, complex": lambda x: np.abs(sl.splu(regular(x) * 2.0j).solve(x**2 * 1j + 1.0, "H")),
    "spsolve of a matrix": lambda x: sl.spsolve(regular(x), np.outer(x, x[:2])),
    "spsolve, plain matrix": lambda x: sl.spsolve(regular(X), x),
    "spsolve, plain side": lambda x: sl.spsolve(regular(x).tocsr(), X, permc_spec="NATURAL"),
    "splu": lambda x: sl.splu(regular(x)).solve(x, "T"),
    "splu, plain matrix": lambda x: sl.splu(regular(X)).solve(x, "T"),
    "splu, plain and diagonal": lambda x: sl.splu(regular(X), "NATURAL", 0.1).solve(np.outer(x, x)),
    "factorized, plain matrix": lambda x: sl.factorized(regular(X))(sl.factorized(regular(X))(x)),
    "splu of a matrix": lambda x: sl.splu(regular(x)).solve(np.outer(x, x)),
    "factorized": lambda x: sl.factorized(regular(x))(x),
    "triangular": lambda x: sl.spsolve_triangular(lower(x), x),
    "unit": lambda x: sl.spsolve_triangular(lower(x).T.tocsr(), x, lower=False, unit_diagonal=True),
    **{
        name: lambda x, name=name: getattr(sl, name)(symmetric(x), x, **TIGHT)[0]
        for name in "bicg bicgstab cg cgs gcrotmk gmres lgmres qmr tfqmr".split()
    },
    "minres": lambda x: sl.minres(symmetric(x), x, rtol=1e-14)[0],
    "cg, plain matrix": lambda x: sl.cg(symmetric(X), x, **TIGHT)[0],
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations(name):
    f, away = EQUATIONS[name], 1.3 * X + 0.1
    loss = lambda x: np.sum(np.sin(f(x)))
    value, gradient = tg.value_and_grad(loss)(X)
    assert np.isclose(value, loss(X), rtol=1e-13)
    wanted = slopes_of(loss, X)
    np.testing.assert_allclose(gradient, wanted, atol=1e-8)
    compiled = tg.compile(loss)
    compiled.grad(X)
    np.testing.assert_allclose(compiled.grad(away), slopes_of(loss, away), atol=1e-8)
    np.testing.assert_allclose(tg.jvp(loss, (X,), (np.ones(3),))[1], gradient.sum(), rtol=1e-10)
    second = [(tg.grad(loss)(X + e) - tg.grad(loss)(X - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(tg.hessian(loss)(X), second, atol=1e-6)


def slopes_of(loss, x, h=1e-3):
    found = []
    for e in h * np.eye(len(x)):
        first, last = loss(x + e) - loss(x - e), loss(x + 2.0 * e) - loss(x - 2.0 * e)
        found.append((8.0 * first - last) / (12.0 * h))
    return np.array(found)


def test_factors_of_a_plain_matrix():
    """They are SciPy's for plain right sides, and are of the numbers that the matrix had."""
    import tapegrad.scipy.sparse.linalg as ours

    a = regular(X)
    made, theirs = ours.splu(a), sl.splu(a)
    a.data[:] = 7.0
    assert np.array_equal(made.solve(X, "T"), theirs.solve(X, "T"))
    assert np.array_equal(made.perm_c, theirs.perm_c) and (made.U != theirs.U).nnz == 0
    assert (made.shape, made.nnz) == (theirs.shape, theirs.nnz)
    slopes = tg.jacobian(made.solve)(X)
    np.testing.assert_allclose(slopes, np.linalg.inv(regular(X).toarray()), rtol=1e-13)
    with pytest.raises(AttributeError, match="no attribute"):
        made.other
    with pytest.raises(RuntimeError, match="singular"):
        tg.grad(lambda x: np.sum(sl.splu(ss.csc_array((3, 3))).solve(x)))(X)


#: Made outside of functions, and their inverse.
OUTSIDE = ss.csc_array(np.array([[4.0, 0.0, 2.0], [0.0, 3.0, -1.0], [4.0, 1.0, 9.0]]))
LU, SOLVE, INVERSE = sl.splu(OUTSIDE), sl.factorized(OUTSIDE), np.linalg.inv(OUTSIDE.toarray())
BY_FACTORS = {
    "solve": (lambda x: LU.solve(x), lambda x: INVERSE @ x),
    "transposed": (lambda x: LU.solve(x, "T"), lambda x: INVERSE.T @ x),
    "several": (lambda x: LU.solve(np.outer(x, x), "H"), lambda x: INVERSE.T @ np.outer(x, x)),
    "factorized": (lambda x: SOLVE(x * x), lambda x: INVERSE @ (x * x)),
    "twice": (lambda x: LU.solve(x * SOLVE(x)), lambda x: INVERSE @ (x * (INVERSE @ x))),
}


@pytest.mark.parametrize("name", BY_FACTORS)
def test_factors_that_scipy_made_outside(name):
    f, g = [lambda x, f=f: np.sum(np.sin(f(x))) for f in BY_FACTORS[name]]
    ones, c = np.ones(3), tg.compile(f)
    assert np.isclose(f(X), g(X), rtol=1e-13)
    for x in (X, 1.1 * X, X):
        for made in (tg.grad, tg.hessian, lambda f: tg.compile(tg.grad(f))):
            np.testing.assert_allclose(made(f)(x), made(g)(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(c.grad(x), tg.grad(g)(x), rtol=1e-10)
        np.testing.assert_allclose(c.hessian(x), tg.hessian(g)(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(tg.jvp(f, (x,), (ones,)), tg.jvp(g, (x,), (ones,)), rtol=1e-11)
    batch = np.stack([X, 2.0 * X])
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(batch), tg.vmap(tg.grad(g))(batch), rtol=1e-10)


def test_what_factors_made_outside_do_not_do():
    of_complex = sl.splu(ss.csc_array(OUTSIDE.toarray() * (1.0 + 1.0j)))
    with pytest.raises(tg.DerivativeLost, match=r"call tapegrad\.scipy\.sparse\.linalg\.splu"):
        tg.grad(lambda x: np.sum(np.abs(of_complex.solve(x))))(X)
    with pytest.raises(tg.DerivativeLost, match="right sides of float64"):
        tg.grad(lambda x: np.sum(np.abs(LU.solve(1j * x))))(X)
    with pytest.raises(ValueError, match="dimension mismatch"):
        tg.grad(lambda x: np.sum(LU.solve(x[:2])))(X)
    with pytest.raises(ValueError, match="trans"):
        tg.grad(lambda x: np.sum(LU.solve(x, "X")))(X)
    assert np.array_equal(tg.grad(lambda x: LU.shape[0] * x[0] + LU.solve(X)[0])(X), [3, 0, 0])


def test_a_program_notices_another_matrix_of_factors():
    a = regular(X)
    compiled = tg.compile(lambda x: np.sum(sl.factorized(a)(x) ** 2))
    for scale in (1.0, 1.0, 1.0, 2.0, 0.5):
        a.data[:] = scale * regular(X).data
        wanted = np.linalg.inv(a.toarray())
        np.testing.assert_allclose(compiled.grad(X), 2.0 * wanted.T @ (wanted @ X), atol=1e-14)


def test_singular_matrices():
    singular = lambda x: ss.csc_array((x, ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    at = np.array([1.0, 2.0, 0.0])
    with pytest.warns(sl.MatrixRankWarning):
        assert np.isnan(tg.value_and_grad(lambda x: np.sum(sl.spsolve(singular(x), X[:2])))(at)[0])
    with pytest.raises(RuntimeError, match="singular"):
        tg.grad(lambda x: np.sum(sl.splu(singular(x)).solve(X[:2])))(at)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tg.grad(lambda x: np.sum(sl.spsolve_triangular(ss.tril(x[0] * ss.eye(3), -1), x)))(X)
    with pytest.raises(ValueError, match="square"):
        tg.grad(lambda x: np.sum(sl.spsolve(made("csr", "array", x, (3, 4)), x)))(X)


def test_a_recorded_number_on_the_right_of_a_matrix_of_scipys_is_refused_with_what_works():
    matrix = ss.csr_array(DENSE)
    for f in (lambda x: matrix * x[0], lambda x: matrix / x[0], lambda x: matrix.multiply(x[0])):
        with pytest.raises(tg.DerivativeLost, match=r"write t \* A in place of A \* t"):
            tg.grad(lambda x, f=f: np.sum(f(x) @ x))(X)
    found = tg.grad(lambda x: np.sum((x[0] * matrix) @ X) + np.sum(((1.0 / x[1]) * matrix) @ X))(X)
    total = (DENSE @ X).sum()
    np.testing.assert_allclose(found, [total, -total / 4.0, 0.0], rtol=1e-14)


@pytest.mark.parametrize("order", ["COLAMD", "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_an_order_of_columns_that_is_kept_changes_no_bit(order, dtype):
    rng = np.random.default_rng(3)
    for n in (1, 2, 7, 60):
        places = ss.csc_array(ss.random(n, n, 0.1, random_state=n) + ss.eye(n) + ss.eye(n, k=-1))
        for _ in range(3):  # an elimination that changes rows in other places each time
            numbers = rng.standard_normal(places.nnz).astype(dtype)
            if dtype is np.complex128:
                numbers += 1j * rng.standard_normal(places.nnz)
            one = ss.csc_array((numbers, places.indices, places.indptr), shape=(n, n))
            b = rng.standard_normal((n, 2)).astype(dtype)
            lu = sl.splu(one, order)
            for way in "NTH":
                found = tg.scipy.sparse.linalg.splu(
                    tg.scipy.sparse.csc_array(
                        (tg.tensor(numbers, requires_grad=True), one.indices, one.indptr),
                        shape=(n, n),
                    ),
                    order,
                ).solve(b, way)
                np.testing.assert_array_equal(found.detach().numpy(), lu.solve(b, way))


def test_index_arrays_that_are_written_later_are_seen():
    columns, starts = np.array([0, 1, 1]), np.array([0, 2, 3])
    rows = np.array([0, 0, 1])
    for _ in range(2):
        for name, places in (("csr_array", (columns, starts)), ("coo_array", ((rows, columns),))):
            one = getattr(ss, name)
            f = lambda d: one((d, *places), shape=(2, 3)) @ np.arange(3.0) ** 2
            d = np.array([1.0, 2.0, 3.0])
            found = tg.jacobian(f)(d)
            wanted = np.stack([f(e) for e in np.eye(3)], axis=1)
            np.testing.assert_array_equal(found, wanted)
        columns[:] = [0, 2, 2]


def test_places_of_a_matrix_are_read_only():
    def f(d):
        a = ss.csr_array((d, [0, 1, 1], [0, 2, 3]), shape=(2, 2))
        a.indices[0] = 1
        return a.sum()

    with pytest.raises(ValueError, match="read-only"):
        tg.grad(f)(np.ones(3))


def test_both_adjoints_of_a_large_product():
    n, rng = 300, np.random.default_rng(5)
    a = ss.random_array((n, 2 * n), density=0.02, rng=rng, format="csr")
    for x in (rng.random(2 * n), rng.random((2 * n, 3)), rng.random((3, 2 * n)).T):
        f = lambda d, x: np.sum(np.sin(ss.csr_array((d, a.indices, a.indptr), shape=a.shape) @ x))
        slope = np.cos(a @ x).reshape(n, -1)
        wide = x.reshape(2 * n, -1)
        rows = np.repeat(np.arange(n), np.diff(a.indptr))
        for grad in (tg.grad(f, argnums=(0, 1)), tg.grad(tg.compile(f), argnums=(0, 1))):
            of_data, of_x = grad(a.data, x)
            wanted = np.sum(slope[rows] * wide[a.indices], axis=1)
            np.testing.assert_allclose(of_data, wanted, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(of_x, (a.T @ slope).reshape(x.shape), rtol=1e-12, atol=1e-14)


def test_isinstance_in_entered_code_knows_the_class():
    def f(d):
        a = ss.csr_array((d, [0, 1, 1], [0, 2, 3]), shape=(2, 2))
        kinds = ss.csr_array, (dict, ss.sparray), ss.csc_array, ss.spmatrix
        known = [isinstance(a, kind) for kind in kinds]
        assert known == [True, True, False, False]
        return a.sum()

    np.testing.assert_array_equal(tg.grad(f)(np.ones(3)), np.ones(3))

"""Singular matrices, results without derivative, and bad input of NumPy's linear algebra."""

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp

LinAlgError = np.linalg.LinAlgError


def recorded(x):
    return tg.tensor(np.asarray(x, float), requires_grad=True)


def minors(a):
    """Cofactors by their definition."""
    n = len(a)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            rest = np.delete(np.delete(a, i, 0), j, 1)
            found[i, j] = (-1.0) ** (i + j) * np.linalg.det(rest)
    return found


def of_rank(rng, n, rank):
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))


def test_determinant_of_reference():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(tg.grad(np.linalg.det)(a), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-14)


@pytest.mark.parametrize("n,rank", [(2, 1), (2, 0), (3, 2), (4, 3), (4, 2), (5, 2), (1, 0), (6, 5)])
def test_determinant_of_singular_matrices(n, rank, rng):
    """First derivatives are cofactors; second ones are those of each cofactor by differences."""
    a, h = of_rank(rng, n, rank), rng.normal(size=(n, n))
    wanted = minors(a)
    slope = (minors(a + 1e-4 * h) - minors(a - 1e-4 * h)) / 2e-4
    c = tg.compile(np.linalg.det)
    c.grad(np.eye(n))
    for gradient in (tg.grad(np.linalg.det), c.grad):
        np.testing.assert_allclose(gradient(a), wanted, rtol=1e-10, atol=1e-12)
    for product in (tg.hvp(np.linalg.det), c.hvp):
        np.testing.assert_allclose(product(a, h), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(np.linalg.det, (a,), (h,))[1], np.sum(wanted * h), atol=1e-12)
    forward = tg.jvp(tg.grad(np.linalg.det), (a,), (h,))[1]
    np.testing.assert_allclose(forward, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tiny", [1e-3, 1e-6, 1e-8, 1e-10, 1e-13, 1e-16])
def test_determinant_of_nearly_singular_matrices(tiny, rng):
    """No digits are lost where one singular value is small, whichever formula is taken."""
    u, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    v, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    a = u * [3.0, 2.0, 1.0, tiny] @ v
    h = rng.normal(size=(4, 4))
    np.testing.assert_allclose(tg.grad(np.linalg.det)(a), minors(a), rtol=1e-9, atol=1e-9)
    slope = (minors(a + 1e-4 * h) - minors(a - 1e-4 * h)) / 2e-4
    np.testing.assert_allclose(tg.hvp(np.linalg.det)(a, h), slope, rtol=1e-6, atol=1e-6)


def test_determinants_of_a_batch_with_singular_matrices(rng):
    a = np.stack(
        [rng.normal(size=(3, 3)), of_rank(rng, 3, 2), np.zeros((3, 3)), of_rank(rng, 3, 1)]
    )
    f = lambda a: np.sum(np.sin(np.linalg.det(a)))
    wanted = [np.cos(np.linalg.det(one)) * minors(one) for one in a]
    np.testing.assert_allclose(tg.grad(f)(a), wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        tg.vmap(tg.grad(np.linalg.det))(a), [minors(one) for one in a], rtol=1e-9, atol=1e-12
    )
    single = tg.hessian(np.linalg.det)(a[1])
    np.testing.assert_allclose(tg.vmap(tg.hessian(np.linalg.det))(a)[1], single, atol=1e-12)


def test_third_derivative_of_determinants(rng):
    """That of 3×3 matrices is the signs of permutations; at a singular matrix it raises."""
    third = tg.jacobian(tg.hessian(np.linalg.det))
    found = third(rng.normal(size=(3, 3)) + 3.0 * np.eye(3))
    wanted = np.zeros((3,) * 6)
    sign = np.zeros((3, 3, 3))
    for k in range(3):
        sign[k, (k + 1) % 3, (k + 2) % 3], sign[k, k - 1, k - 2] = 1.0, -1.0
    wanted = np.einsum("ace,bdf->abcdef", sign, sign)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    with pytest.raises(LinAlgError, match="tapegrad.det: the third derivative at a singular"):
        third(np.ones((3, 3)))


def test_sizes_0_and_1():
    for shape in [(0, 0), (2, 0, 0), (0, 2, 2), (1, 1)]:
        a = np.full(shape, 2.0)
        for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[1]):
            total = lambda a, f=f: np.sum(f(a))
            np.testing.assert_array_equal(total(recorded(a)).detach(), total(a))
            assert tg.grad(total)(a).shape == shape
            assert tg.hessian(total)(a).shape == shape + shape
            assert tg.compile(total, native=False).grad(a).shape == shape
    assert np.linalg.matrix_power(recorded(np.zeros((0, 0))), 3).shape == (0, 0)
    assert tg.grad(np.linalg.det)(np.array([[0.0]])) == 1.0


def test_slogdet_is_numpys(rng):
    a = rng.normal(size=(2, 3, 3))
    found, wanted = np.linalg.slogdet(recorded(a)), np.linalg.slogdet(a)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found.sign.detach(), wanted.sign)
    np.testing.assert_array_equal(found.logabsdet.detach(), wanted.logabsdet)
    assert not found.sign.requires_grad and found.logabsdet.requires_grad


def test_slogdet_in_programs_has_the_sign_of_the_call():
    f = lambda a: np.linalg.slogdet(a)[0] * np.sum(a)
    c = tg.compile(f, native=False)
    for a in (np.eye(2), np.diag([1.0, -1.0]), np.diag([-2.0, -1.0]), np.diag([-2.0, 3.0])):
        assert c(a) == f(a)
        np.testing.assert_array_equal(c.grad(a), np.full((2, 2), np.linalg.slogdet(a)[0]))


def test_slogdet_of_a_singular_matrix():
    a = recorded(np.ones((2, 2)))
    sign, logarithm = np.linalg.slogdet(a)
    assert sign == 0.0 and logarithm == -np.inf
    with pytest.raises(LinAlgError, match="Singular matrix"):
        logarithm.backward()


SINGULAR = {
    "inv": np.linalg.inv,
    "power": lambda a: np.linalg.matrix_power(a, -2),
    "solve": lambda a: np.linalg.solve(a, a[0]),
    "tensorinv": lambda a: np.linalg.tensorinv(a, ind=1),
    "tensorsolve": lambda a: np.linalg.tensorsolve(a, a[0]),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("native", [False, True])
def test_singular_matrices_raise(name, native):
    f = lambda a: np.sum(SINGULAR[name](a))
    c = tg.compile(f, native=native)
    good, bad = np.array([[2.0, 1.0], [0.5, 3.0]]), np.ones((2, 2))
    for call in (tg.grad(f), tg.value_and_grad(f), c, c.grad, c.hessian, c, c.grad):
        call(good)
        with pytest.raises(LinAlgError, match="Singular matrix"):
            call(bad)
    np.testing.assert_allclose(c.grad(good), tg.grad(f)(good))
    with pytest.raises(LinAlgError, match="Singular matrix"):
        f(recorded(bad))


NOT_SQUARE = [
    ("inv", lambda a: np.linalg.inv(a)),
    ("det", lambda a: np.linalg.det(a)),
    ("slogdet", lambda a: np.linalg.slogdet(a)),
    ("matrix_power", lambda a: np.linalg.matrix_power(a, 2)),
    ("tensorinv", lambda a: np.linalg.tensorinv(a, ind=1)),
]


@pytest.mark.parametrize("name,f", NOT_SQUARE)
def test_shapes_are_refused(name, f):
    for shape in [(2, 3), (3,), (2, 3, 2)]:
        with pytest.raises(LinAlgError):
            f(np.ones(shape))
        with pytest.raises(LinAlgError):
            f(recorded(np.ones(shape)))
    with pytest.raises(LinAlgError):
        tg.grad(lambda x: np.sum(f(x * np.ones((2, 3)))[0]))(1.0)


BAD = [
    (lambda a: np.linalg.matrix_power(a, 1.5), TypeError, "matrix_power: the power is 1.5"),
    (lambda a: np.linalg.matrix_power(a, a[0, 0]), TypeError, None),
    (lambda a: np.linalg.multi_dot([a]), ValueError, "multi_dot: got 1 arrays"),
    (lambda a: np.linalg.multi_dot([a, a[0], a]), LinAlgError, "array 1 has shape"),
    (lambda a: np.linalg.multi_dot([a, a[:1], a]), ValueError, "multi_dot|matmul"),
    (lambda a: np.linalg.tensorsolve(a, a), LinAlgError, "tensorsolve: a has shape"),
    (lambda a: np.linalg.tensorsolve(a, a[0, :1]), (LinAlgError, ValueError), None),
    (lambda a: np.linalg.tensorinv(a, ind=0), ValueError, "ind is 0"),
    (lambda a: np.linalg.tensorinv(a, ind=2), LinAlgError, "first 2 axes"),
    (lambda a: np.linalg.inv(a[0, 0]), LinAlgError, None),
    (lambda a: np.linalg.multi_dot([a, a, a], out=np.zeros((2, 2))), TypeError, "out="),
]


@pytest.mark.parametrize("f,kind,words", BAD)
def test_bad_input(f, kind, words):
    with pytest.raises(kind, match=words):
        f(recorded(np.eye(2)))


def test_results_in_out(rng):
    a = rng.normal(size=(2, 2))

    def f(a):
        out = tnp.zeros((2, 2))
        assert tnp.linalg.multi_dot([a, a, a], out=out) is out
        return np.sum(out)

    np.testing.assert_allclose(tg.grad(f)(a), tg.grad(lambda a: np.sum(a @ a @ a))(a))


def test_lists_integers_and_other_dtypes(rng):
    whole = [[2, 1], [1, 3]]
    x = recorded(2.0)
    found = tnp.linalg.inv([[x, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(found.detach(), np.linalg.inv(whole))
    assert tnp.linalg.det([[x, 1.0], [1.0, 3.0]]).item() == pytest.approx(5.0)
    assert np.linalg.solve(whole, recorded([1.0, 2.0])).requires_grad
    for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[1]):
        np.testing.assert_array_equal(f(tg.tensor(whole)).numpy(), f(np.array(whole)))
        narrow = tg.tensor(np.array(whole, np.float32), requires_grad=True)
        assert f(narrow).dtype == np.float32
        assert tg.grad(lambda a, f=f: np.sum(f(a)))(np.array(whole, np.float32)).dtype == np.float32
    product = np.linalg.multi_dot([whole, recorded(whole), np.array(whole)])
    np.testing.assert_array_equal(product.detach(), np.linalg.multi_dot([whole, whole, whole]))


def test_nan_and_infinity_pass():
    for bad in (np.nan, np.inf):
        a = np.array([[bad, 1.0], [1.0, 2.0]])
        for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[1]):
            total = lambda a, f=f: np.sum(f(a))
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(total(recorded(a)).detach(), total(a))
                gradient = tg.grad(total)(a)
            assert gradient.shape == (2, 2)
            if np.isnan(bad):
                assert np.isnan(gradient).any()


def test_values_of_the_time_of_the_call(rng):
    """Operands and results are written in place before the sweep."""
    a = rng.normal(size=(3, 3)) + 3.0 * np.eye(3)

    def written(a):
        y = np.copy(a)
        inverse, size = np.linalg.inv(y), np.linalg.det(y)
        y[0] = 5.0
        made = np.sum(inverse * inverse) * size + np.sum(y)
        inverse[...] = 0.0
        return made + np.sum(inverse)

    def plain(a):
        inverse = np.linalg.inv(a)
        return np.sum(inverse * inverse) * np.linalg.det(a) + np.sum(a[1:])

    np.testing.assert_allclose(tg.grad(written)(a), tg.grad(plain)(a), rtol=1e-10)
    v = rng.normal(size=(3, 3))
    np.testing.assert_allclose(tg.hvp(written)(a, v), tg.hvp(plain)(a, v), rtol=1e-9, atol=1e-9)


def test_order_of_products(rng):
    """A chain is multiplied in the cheapest order, as by trying all."""
    from tapegrad._core.operations.inverses import cheapest_splits

    def cost(sizes, splits, first, last):
        if first == last:
            return 0
        k = splits[first, last]
        here = sizes[first] * sizes[k + 1] * sizes[last + 1]
        return here + cost(sizes, splits, first, k) + cost(sizes, splits, k + 1, last)

    def best(sizes):
        if len(sizes) == 2:
            return 0
        return min(
            sizes[0] * sizes[k] * sizes[-1] + best(sizes[: k + 1]) + best(sizes[k:])
            for k in range(1, len(sizes) - 1)
        )

    for count in (3, 4, 5, 6):
        sizes = rng.integers(1, 30, count + 1).tolist()
        assert cost(sizes, cheapest_splits(sizes), 0, count - 1) == best(sizes)


def test_a_write_to_a_view_of_a_log_determinant_leaves_it():
    """It is a number, of which NumPy copies such a view."""

    def f(a):
        sign, number = np.linalg.slogdet(a)
        view = number[..., None]
        np.subtract.at(view, [0, -1], 0.25)
        return number * 10.0 + view[0] + sign

    a = np.array([[2.0, 1.0], [0.5, 3.0]])
    c = tg.compile(f)
    for g in (tg.value_and_grad(f), c.value_and_grad, c.value_and_grad, c.value_and_grad):
        value, gradient = g(a)
        assert value == pytest.approx(f(a), rel=1e-14)
        np.testing.assert_allclose(gradient, 11.0 * np.linalg.inv(a).T, rtol=1e-13)
    (_, _), (d_sign, d_number) = tg.jvp(np.linalg.slogdet, (a,), (np.eye(2),))
    assert d_sign == 0.0 and d_number == pytest.approx(np.trace(np.linalg.inv(a)))

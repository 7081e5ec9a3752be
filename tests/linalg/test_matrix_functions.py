"""Functions of matrices of scipy.linalg against SciPy, PyTorch, closed forms and differences."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from declared import difference
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.scipy import linalg


def expression(text, torch=None, shape=(3, 3), **fields):
    return Expression(text, torch, shape, names={"linalg": linalg}, **fields)


S = "(0.3 * x @ x.T + np.eye(3))"
#: Each of a general and of a symmetric matrix, where it is defined.
TABLE = [
    expression("linalg.expm(x - 1.0)", "torch.linalg.matrix_exp(x - 1.0)"),
    expression("linalg.expm(0.3 * x @ x.T)", "torch.linalg.matrix_exp(0.3 * x @ x.T)"),
    expression("linalg.expm(np.triu(x, 1))", "torch.linalg.matrix_exp(torch.triu(x, 1))"),
    expression("linalg.expm(3.0 * x) * 1e-3", "torch.linalg.matrix_exp(3.0 * x) * 1e-3"),
    expression("linalg.expm(0.0 * x)", "torch.linalg.matrix_exp(0.0 * x)"),
    expression("linalg.expm(x[:1, :1])", "torch.linalg.matrix_exp(x[:1, :1])"),
    expression(
        "linalg.expm(np.stack([x, -x.T]))", "torch.linalg.matrix_exp(torch.stack([x, -x.T]))"
    ),
    expression("linalg.expm(x - x.T)", "torch.linalg.matrix_exp(x - x.T)"),
    expression("linalg.expm(x)[0] @ linalg.expm(-x)[:, 1]"),
    expression("linalg.expm_frechet(0.3 * x, x.T)[0]"),
    expression("linalg.expm_frechet(0.3 * x, np.cos(x), compute_expm=False)"),
    expression("linalg.expm_frechet(np.eye(3), x)[1]"),
    expression("linalg.expm_frechet(x, np.eye(3), check_finite=False)[1]"),
    expression(f"linalg.logm({S})"),
    expression("linalg.logm(linalg.expm(0.2 * x))"),
    expression("linalg.logm(np.eye(3) + np.triu(x, 1))"),
    expression(f"linalg.logm(np.stack([{S}, 2.0 * np.eye(3)]))"),
    expression(f"linalg.sqrtm({S})"),
    expression("linalg.sqrtm(linalg.expm(0.2 * x))"),
    expression(f"linalg.sqrtm(np.stack([{S}, 3.0 * {S}]))[1]"),
    expression("linalg.signm(0.1 * x + np.diag([2.0, -3.0, 1.0]))"),
    expression(f"linalg.fractional_matrix_power({S}, 0.5)"),
    expression(f"linalg.fractional_matrix_power({S}, -1.3)"),
    expression(f"linalg.fractional_matrix_power({S}, x[0, 0])"),
    expression(
        "linalg.fractional_matrix_power(0.5 * x, 5)", "torch.linalg.matrix_power(0.5 * x, 5)"
    ),
    expression("linalg.fractional_matrix_power(x, 0)"),
    expression(f"linalg.fractional_matrix_power({S}, -2)"),
    expression("linalg.cosm(0.5 * x)"),
    expression("linalg.sinm(0.5 * x)"),
    expression("linalg.tanm(0.2 * x)"),
    expression("linalg.coshm(0.5 * x)"),
    expression("linalg.sinhm(0.5 * x)"),
    expression("linalg.tanhm(0.5 * x)"),
    expression("linalg.cosm(np.stack([x, 0.5 * x.T]))"),
]


@parametrized(TABLE)
def test_derivatives(expression):
    CHECKS["derivatives"](expression)


@native_parts(TABLE[1::4])
def test_programs_of_all(part):
    check_native(part)


@pytest.mark.parametrize("check", ["compiled", "float32", "batched"])
@parametrized([TABLE[k] for k in (6, 10, 21, 29)])
def test_the_other_readings(check, expression):
    CHECKS[check](expression)


# --- values and derivatives that are known --------------------------------------------------------

W = np.arange(9.0).reshape(3, 3)


def derivatives(f, a, e, weights=W[:2, :2]):
    """Of ⟨weights, f(a)⟩: along e by the gradient and forwards, and twice along e."""
    total = lambda a: np.sum(weights * f(a))
    return (
        np.sum(tg.grad(total)(a) * e),
        tg.jvp(total, (a,), (e,))[1],
        np.sum(tg.hvp(total)(a, e) * e),
    )


def test_equal_eigenvalues_of_the_exponential():
    found = tg.grad(lambda a: np.sum(W * linalg.expm(a)))(np.diag([1.0, 1.0, 2.0]))
    wanted = [
        [0, 2.71828183, 9.34154854],
        [8.15484549, 10.87312731, 23.35387135],
        [28.02464562, 32.69541989, 59.11244879],
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("x", [0.5, 2.0, 5.0])
def test_multiples_of_the_identity(x):
    """Along anything the derivatives are those of the function of a number: here e² = 1."""
    a, e = x * np.eye(2), np.array([[0.0, 2.0], [0.5, 0.0]])
    cases = [
        (linalg.expm, np.exp(x), np.exp(x)),
        (linalg.logm, 1.0 / x, -1.0 / x**2),
        (linalg.sqrtm, 0.5 / np.sqrt(x), -0.25 * x**-1.5),
        (linalg.signm, 0.0, 0.0),
        (linalg.cosm, -np.sin(x), -np.cos(x)),
        (linalg.sinm, np.cos(x), -np.sin(x)),
        (linalg.tanm, np.cos(x) ** -2, 2.0 * np.tan(x) * np.cos(x) ** -2),
        (linalg.tanhm, np.cosh(x) ** -2, -2.0 * np.tanh(x) * np.cosh(x) ** -2),
        (lambda a: linalg.fractional_matrix_power(a, 1.7), 1.7 * x**0.7, 1.7 * 0.7 * x**-0.3),
        (lambda a: linalg.fractional_matrix_power(a, -3), -3.0 * x**-4, 12.0 * x**-5),
    ]
    weights = W[:2, :2]
    for f, first, second in cases:
        wanted = (np.sum(weights * e) * first,) * 2 + (np.sum(weights * e @ e) * second,)
        np.testing.assert_allclose(derivatives(f, a, e), wanted, rtol=1e-9, atol=1e-9 * abs(first))


def test_matrices_without_a_basis_of_eigenvectors():
    """f of [[c, s], [0, c]] has f′(c)·s at the upper right."""
    for f, slope, second in [
        (linalg.expm, np.exp(1.5), np.exp(1.5)),
        (linalg.logm, 1 / 1.5, -1 / 1.5**2),
        (linalg.sqrtm, 0.5 * 1.5**-0.5, -0.25 * 1.5**-1.5),
    ]:
        corner = lambda c, s, f=f: f(np.eye(2) * c + N * s)[0, 1]
        assert np.allclose(tg.grad(corner, (0, 1))(1.5, 1.0), (second, slope), rtol=1e-10)


N = np.array([[0.0, 1.0], [0.0, 0.0]])


def test_nilpotent_and_zero():
    """exp(a) = 1 + a + a²/2 where a³ = 0; at a = 0 the derivative is the identity."""
    a = np.triu(W, 1)
    value, _ = tg.vjp(linalg.expm, a)
    np.testing.assert_allclose(value, np.eye(3) + a + a @ a / 2)
    zero = np.zeros((3, 3))
    np.testing.assert_allclose(tg.grad(lambda a: np.sum(W * linalg.expm(a)))(zero), W)
    np.testing.assert_allclose(tg.jacobian(linalg.sinm)(zero).reshape(9, 9), np.eye(9), atol=1e-15)


def test_large_matrices_and_steep_slopes():
    rng = np.random.default_rng(5)
    a = rng.normal(size=(40, 40)) / 4
    weights, e = rng.normal(size=(2, 40, 40))
    for f, at in [(linalg.expm, a), (linalg.logm, a @ a.T + np.eye(40)), (linalg.sqrtm, a @ a.T)]:
        first, along, _ = derivatives(f, at, e * 1e-3, weights)
        wanted = difference(lambda a, f=f: np.sum(weights * f(a)), at, e * 1e-3)
        np.testing.assert_allclose([first, along], wanted, rtol=1e-6)
    narrow = np.diag([1e-8, 1.0])
    found = tg.grad(lambda a: np.trace(linalg.sqrtm(a)))(narrow)
    np.testing.assert_allclose(found, np.diag([5e3, 0.5]), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 26])
def test_exponentials_in_programs(n, rng):
    """Without Python: small and large matrices, zero, triangular, far from normal, not finite."""
    weights = rng.normal(size=(n, n))
    c = tg.compile(lambda a: np.sum(linalg.expm(a) * weights), verify="never")
    one = tg.compile(lambda a: linalg.expm(a)[..., 0, -1].sum(), verify="never")
    c.grad(weights), one(weights)
    a = rng.normal(size=(n, n))
    ways = [a, 20.0 * a / np.sqrt(n), 0.0 * a, 1e-9 * a, np.triu(a, 1) * 3.0, np.tril(a), a.T]
    for at in [*ways, np.diag(np.linspace(-700.0, 1.0, n)), np.eye(n) * 3.0]:
        theirs = scipy.linalg.expm(at)
        size = np.max(np.abs(theirs))
        np.testing.assert_allclose(one(at), theirs[0, -1], atol=1e-12 * size, rtol=1e-9)
        np.testing.assert_allclose(c(at), np.sum(theirs * weights), rtol=1e-9, atol=1e-11 * size)
        wanted = scipy.linalg.expm_frechet(at.T, weights, compute_expm=False)
        size = np.max(np.abs(wanted))
        np.testing.assert_allclose(c.grad(at), wanted, rtol=1e-9, atol=1e-9 * size)
    assert np.isnan(c(np.full((n, n), np.inf))) and np.isnan(c.grad(np.full((n, n), np.nan))).all()
    many = np.stack([a, 2.0 * a, np.eye(n)])[:, ::-1]
    stacked = tg.compile(lambda a: np.sum(linalg.expm(a) * weights), verify="never")
    for at in (many, many[::-1], many * 0.5):
        np.testing.assert_allclose(stacked.grad(at), np.stack([c.grad(x) for x in at]), rtol=1e-11)


def test_third_derivative():
    third = tg.grad(tg.grad(tg.grad(lambda t: np.sum(linalg.expm(t * W[:2, :2]) * W[:2, :2]))))
    a = W[:2, :2]
    np.testing.assert_allclose(third(0.3), np.sum(scipy.linalg.expm(0.3 * a) @ a @ a @ a * a))
    f = lambda t: linalg.logm(np.eye(2) + t * a @ a.T)[0, 1]
    h, second = 1e-4, tg.grad(tg.grad(f))
    found = tg.grad(second)(0.3)
    np.testing.assert_allclose(found, (second(0.3 + h) - second(0.3 - h)) / (2 * h), rtol=1e-6)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", "expm logm sqrtm signm cosm sinm tanm coshm sinhm tanhm".split())
def test_sizes_and_bad_shapes(name):
    f = getattr(linalg, name)
    for shape in [(0, 0), (1, 1), (2, 1, 1), (0, 2, 2)]:
        x = tg.tensor(np.full(shape, 0.5), requires_grad=True)
        found = f(x)
        assert found.shape == shape
        np.sum(found).backward()
        assert x.grad.shape == shape
    with pytest.raises((ValueError, np.linalg.LinAlgError), match="square|two-dimensional"):
        f(tg.tensor(np.ones((2, 3)), requires_grad=True))
    with pytest.raises((ValueError, np.linalg.LinAlgError), match="square|two-dimensional"):
        f(tg.tensor(np.ones(3), requires_grad=True))


def test_values_are_scipys():
    a = np.array([[1.0, 0.3, 0.2], [0.1, 2.0, 0.4], [0.5, 0.2, 1.5]])
    for name in "expm logm sqrtm signm cosm sinm tanm coshm sinhm tanhm".split():
        ours, theirs = getattr(linalg, name), getattr(scipy.linalg, name)
        np.testing.assert_array_equal(ours(a), theirs(a))
        recorded = ours(tg.tensor(a, requires_grad=True)).detach().numpy()
        np.testing.assert_allclose(recorded, theirs(a), rtol=1e-13, atol=1e-14)
        listed = ours([[tg.tensor(1.0, requires_grad=True), 0.0], [0.0, 2.0]])
        np.testing.assert_allclose(listed.detach(), theirs(np.diag([1.0, 2.0])), atol=1e-14)


def test_complex_results_of_real_matrices():
    """One eigenvalue is negative: on the branch cut the derivatives are those of its side."""
    a, e = np.array([[0.3, 1.0], [1.5, 0.2]]), np.array([[0.4, 0.1], [-0.3, 0.2]])
    functions = [
        (linalg.logm, scipy.linalg.logm),
        (linalg.sqrtm, scipy.linalg.sqrtm),
        (lambda a: linalg.fractional_matrix_power(a, 0.3), None),
    ]
    for f, theirs in functions:
        theirs = theirs or (lambda a: scipy.linalg.fractional_matrix_power(a, 0.3))
        loss = lambda a, f=f: np.sum(WC * np.real(f(a)) + np.imag(f(a)) ** 2)
        value, back = tg.vjp(loss, a)
        found = theirs(a)
        np.testing.assert_allclose(value, np.sum(WC * found.real + found.imag**2), rtol=1e-12)
        wanted = difference(loss, a, e)
        np.testing.assert_allclose(np.sum(back(1.0)[0] * e), wanted, rtol=1e-8)
        np.testing.assert_allclose(tg.jvp(loss, (a,), (e,))[1], wanted, rtol=1e-8)
    c = tg.compile(lambda a: np.sum(np.abs(linalg.sqrtm(a)) ** 2))
    assert np.allclose(c(np.eye(2)), 2.0) and np.allclose(c(4.0 * np.eye(2)), 8.0)
    with pytest.warns(RuntimeWarning, match="raises ComplexResult"):
        assert np.allclose(c(a), np.sum(np.abs(scipy.linalg.sqrtm(a)) ** 2))
    slope = tg.grad(lambda a: np.sum(np.abs(linalg.sqrtm(a)) ** 2))(a)
    np.testing.assert_allclose(c.grad(a), slope, rtol=1e-12)
    with pytest.raises(ValueError, match="no second derivative here"):
        tg.hvp(lambda a: np.sum(np.imag(linalg.logm(a)) ** 2))(a, e)


WC = np.array([[1.0, 2.0], [-0.5, 0.7]])


def test_singular_matrices():
    zero = np.diag([1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy's, from 1.16 on
        assert np.allclose(linalg.sqrtm(tg.tensor(zero, requires_grad=True)).detach(), zero)
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            tg.grad(lambda a: np.sum(linalg.sqrtm(a)))(zero)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tg.grad(lambda a: np.sum(linalg.logm(a)))(zero)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tg.grad(lambda a: np.sum(linalg.signm(a)))(zero)


def test_not_finite():
    bad = np.array([[np.nan, 1.0], [0.0, 1.0]])
    assert np.isnan(tg.grad(lambda a: np.sum(linalg.expm(a)))(bad)).all()
    for f in (linalg.logm, linalg.signm, lambda a: linalg.expm_frechet(a, a)):
        with pytest.raises(ValueError, match="infs or NaNs"):
            tg.grad(lambda a, f=f: np.sum(f(a)))(bad)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="infs or NaNs"):
        tg.grad(lambda a: np.sum(linalg.tanhm(a)))(1e300 * np.eye(2))


def test_numbers_and_diagonals():
    """SciPy takes a number for a matrix of one row; `diagsvd` pads a diagonal."""
    found = tg.grad(lambda x: linalg.expm(x)[0, 0] * linalg.sqrtm(x)[0, 0])(2.0)
    np.testing.assert_allclose(found, np.exp(2.0) * (np.sqrt(2.0) + 0.5 / np.sqrt(2.0)))
    s = np.array([3.0, 1.0])
    for shape in [(2, 3), (4, 2), (2, 2)]:
        weights = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
        value, back = tg.vjp(lambda s, shape=shape: linalg.diagsvd(s, *shape), s)
        np.testing.assert_array_equal(value, scipy.linalg.diagsvd(s, *shape))
        np.testing.assert_array_equal(back(weights)[0], np.diagonal(weights))
    with pytest.raises(ValueError, match="Length of s"):
        tg.grad(lambda s: np.sum(linalg.diagsvd(s, 3, 4)))(s)


def test_what_has_no_derivative_says_so():
    a = tg.tensor(np.eye(2), requires_grad=True)
    for name in ("expm_cond", "funm", "schur", "hessenberg", "ldl", "matrix_balance", "qr_insert"):
        with pytest.raises(TypeError, match=rf"scipy.linalg.{name}\(\) takes plain values"):
            getattr(linalg, name)(a, *[np.exp] * (name == "funm"))
    with pytest.raises(TypeError, match="disp=False has no derivative"):
        linalg.logm(a, disp=False)
    with pytest.raises(ValueError, match="Unknown implementation"):
        linalg.expm_frechet(a, a, "fast")

"""Covariances, averages, products of vectors, norms, limits: derivatives, and NumPy's answers."""

import itertools

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized, torch
from test_numpy_statistics import as_numpy, same

import tapegrad as tg

C, A = np.array([1, 2, 1, 3]), np.array([0.5, 1.0, 2.0, 0.25])
B = np.arange(24.0).reshape(2, 3, 4) / 9.0 - 1.0
KNOWN = {"c": C, "a": A, "b": B, "torch": torch}


def pairs(*texts, **options):
    """Expressions of NumPy's text, and of PyTorch's if there is one."""
    for text in texts:
        ours, theirs = text if isinstance(text, tuple) else (text, None)
        yield Expression(ours, theirs, names=KNOWN, **options)


COVARIANCE = [
    *pairs(
        ("np.cov(x)", "torch.cov(x)"),
        ("np.cov(x, rowvar=False)", "torch.cov(x.T)"),
        ("np.cov(x, bias=True)", "torch.cov(x, correction=0)"),
        ("np.cov(x, ddof=2)", "torch.cov(x, correction=2)"),
        ("np.cov(x, fweights=c)", "torch.cov(x, fweights=torch.tensor(c))"),
        ("np.cov(x, aweights=a)", "torch.cov(x, aweights=torch.tensor(a))"),
        (
            "np.cov(x, aweights=a, fweights=c, bias=1)",
            "torch.cov(x, correction=0, aweights=torch.tensor(a), fweights=torch.tensor(c))",
        ),
        (
            "np.cov(x, aweights=a, fweights=c)",
            "torch.cov(x, aweights=torch.tensor(a), fweights=torch.tensor(c))",
        ),
        ("np.cov(x[0])", "torch.cov(x[0])"),
        ("np.cov(x[0], x[1:])", "torch.cov(x)"),
        "np.cov(x, aweights=x[0] ** 2 + 0.1)",
        "np.cov(x[1], a, aweights=x[0] ** 2 + 0.1, fweights=c, ddof=1)",
        "np.cov(x[:, :2], x[:, 2:], rowvar=False)",
        "np.cov(x, dtype=np.float64, ddof=0)",
        "np.average(x)",
        "np.average(x, axis=1, weights=a)",
        "np.average(x, 0, weights=x**2 + 0.1)",
        "np.average(x, weights=np.exp(x), keepdims=True)",
        "np.ptp(x, axis=1) * np.ptp(x)",
    ),
    *pairs(
        ("np.corrcoef(x)", "torch.corrcoef(x)"),
        ("np.corrcoef(x.T)", "torch.corrcoef(x.T)"),
        "np.corrcoef(x, rowvar=False)",
        "np.corrcoef(x[0], x[1])",
        "np.corrcoef(x[:2], a)",
        choices=False,
    ),
]

PRODUCTS = [
    *pairs(
        ("np.cross(x[:, :3], x[:, 1:])", "torch.linalg.cross(x[:, :3], x[:, 1:])"),
        ("np.cross(x, x[::-1] ** 2, axis=0)", "torch.linalg.cross(x, x.flip(0) ** 2, dim=0)"),
        "np.cross(x[0, :3], b[:, :, 0])",
        "np.cross(b, x, axisa=1, axisb=0, axisc=-1)",
        "np.cross(x[:, :3], x[:, 1:], axisc=0)",
        "np.linalg.cross(x, 2.0 * x[::-1], axis=0)",
        ("np.matvec(x, x[0])", "x @ x[0]"),
        "np.matvec(b, x[0])",
        ("np.vecmat(x[:, 0], x)", "x[:, 0] @ x"),
        "np.vecmat(x[:2, :3], b)",
        ("np.linalg.outer(x[0], x[1])", "torch.outer(x[0], x[1])"),
        ("np.linalg.trace(x, offset=1)", "torch.diagonal(x, 1).sum()"),
        "np.linalg.trace(b * x)",
        "np.trace(x[:, :3] @ x, dtype=float)",
        ("np.linalg.diagonal(b * x, offset=-1)", "torch.diagonal(torch.tensor(b) * x, -1, -2, -1)"),
        "np.linalg.matrix_transpose(x) * x[:, :1].T",
        ("np.linalg.vecdot(x, x**2)", "torch.linalg.vecdot(x, x**2)"),
        ("np.linalg.matmul(x, x.T)", "x @ x.T"),
        ("np.linalg.tensordot(x, x, axes=2)", "torch.tensordot(x, x, 2)"),
        ("np.linalg.vector_norm(x)", "torch.linalg.vector_norm(x)"),
        ("np.linalg.vector_norm(x, axis=1, ord=3)", "torch.linalg.vector_norm(x, 3, 1)"),
        (
            "np.linalg.vector_norm(b * x, axis=(0, 2), keepdims=True)",
            "torch.linalg.vector_norm(torch.tensor(b) * x, dim=(0, 2), keepdim=True)",
        ),
        ("np.linalg.vector_norm(x, ord=1, keepdims=True)", "x.abs().sum().reshape(1, 1)"),
        "np.linalg.vector_norm(x, ord=np.inf)",
        ("np.linalg.matrix_norm(x)", "torch.linalg.matrix_norm(x)"),
        "np.linalg.matrix_norm(b * x, keepdims=True, ord=1)",
        low=0.4,
    ),
]

ELEMENTS = [
    *pairs(
        ("np.i0(x)", "torch.special.i0(x)"),
        ("np.i0(2.0 * x + 1.0)", "torch.special.i0(2.0 * x + 1.0)"),
        "np.i0(0.1 * x)",
        ("np.clip(x, 0.45, 1.25)", "torch.clip(x, 0.45, 1.25)"),
        "np.clip(x, None, x[0, 0])",
        "np.clip(x, min=x[0], max=1.6)",
        "np.clip(x, max=1.1)",
        "np.clip(x, 0.8, None) * np.clip(x**2)",
        ("np.float_power(np.abs(x) + 0.1, 2.5)", "(x.abs() + 0.1) ** 2.5"),
        "np.around(3.0 * x, 1) + x",
        "np.round(x, decimals=-1) + x**2",
        "np.angle(x) * x",
        "np.angle(x, deg=True) + x**2",
        ("np.sinc(x)", "torch.sinc(x)"),
        "np.cbrt(x**2 + 0.2)",
    ),
]
TABLE = [*COVARIANCE, *PRODUCTS, *ELEMENTS]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE[::3])
def test_native(part):
    check_native(part)


# --- NumPy's answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [float, np.float32, int])
def test_covariances_give_numpys_values(kind):
    x = np.array([[1, 4, 2, 0], [3, 1, 0, 7], [5, 2, 2, 1]]).astype(kind)
    for call in (
        lambda x: np.cov(x),
        lambda x: np.cov(x[0]),
        lambda x: np.cov(x[:1]),
        lambda x: np.cov(x, x[0]),
        lambda x: np.cov(x[:, :1], x[:, 1], False),
        lambda x: np.cov(x, rowvar=False, ddof=2),
        lambda x: np.cov(x[:0]),
        lambda x: np.cov(x, fweights=C, aweights=A),
        lambda x: np.average(x, 1, A, True),
        lambda x: np.cross(x[:, :3], x[:, 1:]),
        lambda x: np.linalg.trace(x),
        lambda x: np.trace(x, dtype=float),
        lambda x: np.linalg.vector_norm(x, axis=(1, 0), keepdims=True),
        lambda x: np.clip(x, 1, 3),
        lambda x: np.clip(x, None, None),
        lambda x: np.round(x, 1),
        lambda x: np.float_power(x, 2),
        lambda x: np.angle(x),
        lambda x: np.real(x),
        lambda x: np.imag(x),
    ):
        wanted, found = call(x), call(tg.tensor(x, requires_grad=kind is not int))
        if not isinstance(wanted, tuple):
            wanted, found = (wanted,), (found,)
        for one, other in zip(found, wanted, strict=True):
            one = np.asarray(tg.asarray(one).detach())
            assert one.dtype == np.asarray(other).dtype and one.shape == np.shape(other)
            np.testing.assert_allclose(one, other, rtol=1e-6 if one.dtype == np.float32 else 1e-13)
    as_numpy(lambda x: np.corrcoef(x[0]), x)


def test_norms_of_nothing_and_of_nan():
    x = np.array([1.0, np.nan, 0.0])
    as_numpy(lambda x: np.linalg.vector_norm(x, ord=0), x)
    for order in (None, 0, 1, 2, 3, np.inf):
        as_numpy(lambda x, ord=order: np.linalg.norm(x, ord), x[:0])


def test_bessel_functions_near_zero_and_far():
    x = np.array([0.0, 1e-9, 1e-4, 0.2999, 0.3001, 7.9, 8.1, 300.0, -2.0])
    i0, i1 = (torch.special.i0, torch.special.i1) if torch else (None, None)
    np.testing.assert_allclose(
        np.i0(tg.tensor(x, requires_grad=True)).detach(), np.i0(x), rtol=1e-15
    )
    first = tg.elementwise_grad(np.i0)
    third = tg.elementwise_grad(tg.elementwise_grad(first))
    h = 1e-3
    if torch:
        t = torch.tensor(x)
        np.testing.assert_allclose(first(x), i1(t), rtol=1e-14)
        second = i0(t) - torch.where(t == 0.0, 0.5, i1(t) / t)
        np.testing.assert_allclose(tg.elementwise_grad(first)(x), second, rtol=1e-13)
    small = x[:5]
    slopes = [tg.elementwise_grad(first)(small + s * h) for s in (1.0, -1.0)]
    np.testing.assert_allclose(
        third(small), (slopes[0] - slopes[1]) / (2 * h), rtol=1e-5, atol=1e-7
    )


def test_correlations_of_one_are_one():
    """Rounding that NumPy clips does not take the second derivative away."""
    x = np.array([[1.0, 2.0, 4.0], [3.0, 6.0, 12.0]])
    c = np.corrcoef(tg.tensor(x, requires_grad=True))
    same(c, np.corrcoef(x))
    hessian = tg.hessian(lambda x: np.corrcoef(x)[0, 1])(x)
    h, e = 1e-4, np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    r = lambda s: np.corrcoef(x + s * e)[0, 1]
    assert hessian[0, 0, 0, 0] == pytest.approx((r(h) - 2 * r(0) + r(-h)) / h**2, rel=1e-3)
    assert hessian[0, 0, 0, 0] < -0.01


def test_weights_that_divide_by_nothing():
    x = tg.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.5]], requires_grad=True)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0"):
        assert np.isinf(np.asarray(np.cov(x, ddof=3).detach())).all()
    for call, kind, text in (
        (lambda: np.cov(x, aweights=[1.0, -1.0, 2.0]), ValueError, "aweights holds negative"),
        (lambda: np.cov(x, fweights=[1.0, 1.5, 2.0]), TypeError, "must be whole numbers"),
        (lambda: np.cov(x, fweights=x[0]), TypeError, "counts have no derivative"),
        (lambda: np.cov(x, aweights=[1.0, 1.0]), RuntimeError, "for each of the 3 observations"),
        (lambda: np.cov(x, aweights=[0.0, 0.0, 0.0]), ZeroDivisionError, "sum to zero"),
        (lambda: np.cov(x, ddof=0.5), ValueError, "must be a whole number"),
        (lambda: np.cov(x.reshape(1, 2, 3)), ValueError, "m has shape"),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_a_program_asks_again_about_weights():
    x = np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 0.5]])
    compiled = tg.compile(lambda w: np.sum(np.cov(x, aweights=w)), native=False)
    for w in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 0.5, 2.0]):
        assert compiled.value_and_grad(np.array(w))[0] == pytest.approx(np.cov(x, aweights=w).sum())
    with pytest.raises(ValueError, match="negative"):
        compiled.value_and_grad(np.array([1.0, -1.0, 2.0]))


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "2.5.0",
    reason="NumPy 2.5, with which values are compared, refuses vectors of two elements",
)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
@pytest.mark.parametrize("m, n", [*itertools.product((2, 3), repeat=2)])
def test_cross_products_of_two_elements(m, n):
    x = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    f = lambda x: np.cross(x[0, :m], x[1, :n])
    as_numpy(f, x)
    jacobian = tg.jacobian(f)(x)
    assert np.einsum("...ij,ij->...", jacobian, x) == pytest.approx(2 * f(x))


def test_cross_products_of_two_elements_are_deprecated():
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.warns(DeprecationWarning, match="2-dimensional vectors are deprecated"):
        np.cross(x[:2], x)


def test_errors_of_products():
    x = tg.tensor(np.ones((3, 4)), requires_grad=True)
    for call, text in (
        (lambda: np.cross(x, x), "cross: the vectors have 4 and 4 elements"),
        (lambda: np.cross(x[0, 0], x), "an operand has no axes"),
        (lambda: np.linalg.cross(x[:, :2], x[:, :2]), "linalg.cross: the vectors have 2 and 2"),
        (lambda: np.linalg.outer(x, x), "linalg.outer: the operands have shapes"),
        (lambda: tg.matvec(x[0], x), "matvec: got a matrix of shape"),
        (lambda: np.clip(x, 1.0, 2.0, min=0.0), "clip: a_min and min are both given"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="clip: out="):
        np.clip(x, 0.0, 1.0, out=np.zeros((3, 4)))
    for norm in (np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm):
        with pytest.raises(
            TypeError, match="norm: ord is recorded, so its derivative would be lost"
        ):
            norm(x, ord=x[0, 0])
    out = tg.zeros((3, 4))
    assert np.clip(x, 0.0, 0.5, out=out) is out and out.requires_grad
    assert np.trace(x, out=(total := tg.zeros(()))) is total and total.item() == 3.0

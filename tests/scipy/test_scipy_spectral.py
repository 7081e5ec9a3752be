"""Eigenvalues, singular values and what stands on them under `scipy.linalg`."""

import inspect

import numpy as np
import pytest
import scipy.linalg
from declared import close, difference, objective

import tapegrad as tg

S, B = "(x @ x.T + D)", "(x[:, :3] @ x[:, :3].T + 2.0 * np.eye(3))"
D = np.diag(np.arange(3.0))
TEXTS = [
    f"L.eigh({S})[0]",
    f"L.eigh({S})[1] ** 2",
    f"L.eigh({S}, lower=False, eigvals_only=True)",
    *[f"L.eigh({S}, {B}, type={k})[0]" for k in (1, 2, 3)],
    *[f"L.eigh({S}, {B}, type={k})[1] ** 2" for k in (1, 2, 3)],
    f"L.eigh({S}, {B}, lower=False)[1] ** 2",
    f"L.eigh({S}, D + np.eye(3))[1] ** 2",
    f"L.eigh(D, {B})[1] ** 2",
    f"L.eigvalsh({S}, {B})",
    f"L.eigh({S}, subset_by_index=[1, 2])[1] ** 2",
    f"L.eigvalsh({S}, subset_by_index=[0, 1])",
    f"L.eigvalsh({S}, subset_by_value=[0.0, 100.0])",
    "np.real(L.eigvals(x[:, :3]) ** 2)",
    "np.abs(L.eig(x[:, :3])[1])",
    f"np.real(L.eig({S}, right=False) ** 2)",
    "L.svd(x)[1]",
    "L.svd(x)[2] ** 2",
    "L.svd(x, full_matrices=False)[0] ** 2",
    "L.svd(x, compute_uv=False)",
    "L.svdvals(x)",
    "L.qr(x)[1]",
    "L.qr(x.T)[1]",
    "L.qr(x.T, mode='economic')[0]",
    "L.qr(x.T, mode='r')[0]",
    "L.qr(x, pivoting=True)[1]",
    "L.qr(x.T, mode='economic', pivoting=True)[0]",
    "L.pinv(x)",
    "L.pinv(x, rtol=1e-8, return_rank=True)[0]",
    f"L.pinvh({S})",
    f"L.pinvh({S}, lower=False)",
    "L.lstsq(x.T, np.arange(4.0))[0]",
    "L.lstsq(x.T, np.arange(4.0))[1]",
    "L.lstsq(x.T, np.ones((4, 2)) * x[0, 0])[1]",
    "L.lstsq(x, x[:, 0] ** 2)[0]",
    "L.lstsq(x, x[:, 0] ** 2)[3]",
    "L.orth(x.T) @ L.orth(x.T).T",
    "L.null_space(x) @ L.null_space(x).T",
    "L.lstsq(np.stack([x.T, 2.0 * x.T + 1.0]), x[0])[0]",
    "L.lstsq(x.T, np.stack([x.T, x.T ** 2]))[1]",
    "L.qr(np.stack([x, x ** 2]))[1]",
    "L.qr(np.stack([x, x ** 2]), pivoting=True)[1]",
    "np.matmul(L.orth(np.stack([x.T, x.T ** 2])), np.ones((3, 2))) ** 2",
    "L.null_space(np.stack([x, x ** 2])) ** 2",
    "L.expm_frechet(x[:, :3], np.stack([D, x[:, 1:]]))[1]",
    "L.expm_frechet(np.stack([D, x[:, 1:]]), D)[0]",
    "L.norm(x, 2)",
    "L.norm(x, 'nuc')",
]
if np.lib.NumpyVersion(scipy.__version__) < "1.16.0":  # it takes no stacks
    TEXTS = [text for text in TEXTS if "np.stack" not in text]


def function(text, linalg):
    code = compile(text, text, "eval")
    return lambda x: eval(code, {"np": np, "L": linalg, "D": D, "x": x})


@pytest.mark.parametrize("text", TEXTS)
def test_expression(text, rng):
    f, theirs = function(text, tg.scipy.linalg), function(text, scipy.linalg)
    x, other, v = rng.normal(size=(3, 3, 4))
    weights = rng.normal(size=np.shape(theirs(x)))
    total, plain = objective(f, weights), objective(theirs, weights)
    value, gradient = tg.value_and_grad(total)(x)
    np.testing.assert_allclose(value, plain(x), rtol=1e-9, atol=1e-9)
    close(np.sum(gradient * v), difference(plain, x, v), loose=300.0)
    close(np.sum(tg.hvp(total)(x, v) * v), difference(tg.grad(total), x, v).ravel() @ v.ravel())
    c = tg.compile(total, native=False)
    c.grad(x)
    value, gradient = c.value_and_grad(other)
    np.testing.assert_allclose(value, plain(other), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, tg.grad(total)(other), rtol=1e-8, atol=1e-8)


def test_what_is_no_derivative():
    L = tg.scipy.linalg
    a = tg.tensor(np.diag([1.0, 2.0, 0.0]), requires_grad=True)
    assert L.pinv(a, return_rank=True)[1] == 2
    assert L.pinvh(a, return_rank=True)[1] == 2
    np.testing.assert_array_equal(L.qr(a, pivoting=True)[2], [1, 0, 2])
    assert L.lstsq(a, np.ones(3))[2] == 2
    assert L.lstsq(a, np.ones(3), lapack_driver="gelsy")[3] is None
    assert L.lstsq(np.stack([a, 2.0 * a]), np.ones(3), lapack_driver="gelsy")[3].shape == (2,)
    assert L.null_space(a).shape == (3, 1) and L.orth(a).shape == (3, 2)


@pytest.mark.parametrize("driver", ["gelsd", "gelss", "gelsy"])
@pytest.mark.parametrize("shape", [(4,), (4, 2)])
def test_residuals_below_the_rank(driver, shape, rng):
    """None before SciPy 1.18, NaN from then on."""
    a, b = np.outer(np.arange(1.0, 5.0), [1.0, 2.0]), rng.normal(size=shape)
    wanted = scipy.linalg.lstsq(a, b, lapack_driver=driver)
    f = lambda a, b: tg.scipy.linalg.lstsq(a, b, lapack_driver=driver)
    for call in (f, tg.compile(f)):
        for _ in range(2):
            found = call(tg.tensor(a, requires_grad=True), b)
            for one, other in zip(found[:3], wanted, strict=False):
                one = one.detach() if isinstance(one, tg.Tensor) else one
                np.testing.assert_allclose(one, other, atol=1e-12)
                assert np.shape(one) == np.shape(other)


def test_vectors_are_real_where_all_eigenvalues_are():
    """As in SciPy; NumPy's are complex from 2.5 on."""
    L, plane = tg.scipy.linalg, np.array([[0.0, 1.0], [-1.0, 0.0]])
    c = tg.compile(lambda a: np.sum(np.absolute(L.eig(a)[1]) ** 3))
    for a in (
        np.diag([1.0, 3.0]) + 0.25,
        plane,
        np.diag([2.0, 1.0]) + np.tri(2, k=-1),
        np.zeros((0, 0)),
    ):
        w, v = L.eig(tg.tensor(a, requires_grad=True))
        for found, wanted in zip((w, v), scipy.linalg.eig(a), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found.detach().numpy(), wanted, atol=1e-12)
        np.testing.assert_allclose(c(a), np.sum(np.absolute(scipy.linalg.eig(a)[1]) ** 3))


def test_arguments_of_eigvals():
    """In the order of the installed SciPy, which 1.18 changed."""
    a = np.array([[2.0, np.inf], [0.0, 1.0]])
    names = list(inspect.signature(scipy.linalg.eigvals).parameters)
    given = [{"check_finite": True}.get(name, False) for name in names[2:]]
    with pytest.raises(ValueError, match="infs or NaNs"):
        tg.scipy.linalg.eigvals(tg.tensor(a, requires_grad=True), None, *given)
    found = tg.scipy.linalg.eigvals(
        tg.tensor(np.diag([2.0, 1.0]), requires_grad=True), None, *given[:-1]
    )
    np.testing.assert_array_equal(found.detach().numpy(), [2.0, 1.0])
    with pytest.raises(TypeError, match="linalg.eigvals: homogeneous_eigvals=True"):
        tg.scipy.linalg.eigvals(tg.tensor(a, requires_grad=True), None, *given[:-1], True)


WRONG = {
    "not square": (ValueError, lambda L, a: L.eigh(a[:2])),
    "another b": (ValueError, lambda L, a: L.eigh(a, a[:2, :2])),
    "type": (ValueError, lambda L, a: L.eigh(a, a, type=4)),
    "indices": (ValueError, lambda L, a: L.eigh(a, subset_by_index=[1, 3])),
    "bounds": (ValueError, lambda L, a: L.eigh(a, subset_by_value=[1.0, 0.0])),
    "both": (ValueError, lambda L, a: L.eigh(a, subset_by_index=[1, 2], subset_by_value=[1, 2])),
    "NaN": (ValueError, lambda L, a: L.eigh(a * np.nan)),
    "not definite": (np.linalg.LinAlgError, lambda L, a: L.eigh(a, -a)),
    "mode": (ValueError, lambda L, a: L.qr(a, mode="none")),
    "rows": (ValueError, lambda L, a: L.lstsq(a, np.ones(2))),
    "ranks": (ValueError, lambda L, a: L.orth(np.stack([a, 0.0 * a]))),
    "no stack": (ValueError, lambda L, a: L.null_space(a[None][:0])),
    "driver": (ValueError, lambda L, a: L.lstsq(a, np.ones(3), lapack_driver="none")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    """The errors are SciPy's."""
    kind, call = WRONG[name]
    if name == "no stack" and scipy.__version__.startswith("1.16"):
        pytest.skip("SciPy 1.16 takes it")
    with pytest.raises(kind):
        call(scipy.linalg, np.eye(3))
    with pytest.raises(kind):
        call(tg.scipy.linalg, tg.tensor(np.eye(3), requires_grad=True))


def test_what_has_no_derivative_says_so():
    a = tg.tensor(np.eye(3), requires_grad=True)
    with pytest.raises(TypeError, match="linalg.qr: mode='raw' has no derivative"):
        tg.scipy.linalg.qr(a, mode="raw")
    with pytest.raises(TypeError, match="linalg.pinv: atol=0.1 has no derivative"):
        tg.scipy.linalg.pinv(a, atol=0.1)

"""Forward mode through vectors that are LAPACK's choice warns where reverse mode does."""

import warnings

import numpy as np
import pytest

import tapegrad as tg

W = np.random.default_rng(5).normal(size=(4, 4))
TWICE, V = np.diag([1.0, 1.0, 2.0]), np.array([[0.3, -0.7, 0.2], [-0.7, 0.4, 1.1], [0.2, 1.1, 0.9]])
TALL = np.outer([1.0, 2.0, 3.0, 4.0], [0.5, -1.0])
HERMITIAN = np.array([[2.0, 1.0j], [-1.0j, 3.0]])
ROTATING = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, 0.5], [0.1, 0.2, 3.0]])


def weighted(a):
    return np.sum(np.real(a) * W[: a.shape[-2], : a.shape[-1]])


def of_the_matrix(a):
    w, v = np.linalg.eigh(a)
    return weighted((v * np.sin(w)) @ np.conj(v).T)


def projector(a):
    v = np.linalg.eigh(a)[1][:, :2]
    return weighted(v @ np.conj(v).T)


def by_singular_vectors(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return weighted((u * np.sin(s)) @ vh)


def largest_part(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return weighted((u[:, :1] * np.sin(s[:1])) @ vh[:1])


def null_projector(a):
    u = np.linalg.svd(a)[0][:, 2:]
    return weighted(u @ u.T)


def by_general_vectors(a):
    w, v = np.linalg.eig(a)
    return weighted((v * np.exp(w)) @ np.linalg.inv(v))


REGULAR = TALL + np.eye(4, 2)
WARNED = {
    "vectors": (lambda a: np.linalg.eigh(a)[1] * np.linalg.eigh(a)[0], TWICE),
    "a function of the matrix": (of_the_matrix, TWICE),
    "the last of several results": (lambda a: (a[0, 0], 2.0, of_the_matrix(a)), TWICE),
    "in float32": (of_the_matrix, TWICE.astype(np.float32)),
    "equal singular values": (lambda a: weighted(np.linalg.svd(a)[0]), TWICE),
    "singular values of 0": (by_singular_vectors, TALL),
    "of a wide matrix": (by_singular_vectors, TALL.T),
    "other columns": (lambda a: weighted(np.linalg.svd(a)[0]), REGULAR),
    "others of qr": (lambda a: weighted(np.linalg.qr(a, "complete")[0]), REGULAR),
    "general eigenvectors": (by_general_vectors, np.eye(3)),
    "phases": (lambda a: np.real(np.linalg.eig(a)[1][1, 0]), ROTATING),
    "phases of a Hermitian matrix": (lambda a: np.imag(np.linalg.eigh(a)[1][0, 1]), HERMITIAN),
}
RIGHT = {
    "a projector": (projector, TWICE),
    "equal values": (lambda a: np.sum(np.linalg.eigh(a)[0] ** 2), TWICE),
    "a function of a Hermitian matrix": (of_the_matrix, HERMITIAN),
    "values that differ": (of_the_matrix, np.diag([1.0, 3.0, 2.0])),
    "the part of the largest value": (largest_part, TALL),
    "singular values of 0": (lambda a: np.sum(np.linalg.svd(a)[1] ** 2), TALL),
    "the space of other columns": (null_projector, REGULAR),
    "sizes of general vectors": (lambda a: np.sum(np.abs(np.linalg.eig(a)[1]) ** 3), ROTATING),
}


def along(a):
    v = np.resize(V, a.shape).astype(a.dtype)
    return v + v.conj().T if a.dtype.kind == "c" or a.shape == TWICE.shape else v


@pytest.mark.parametrize("name", WARNED)
def test_results_that_depend_on_them_warn(name):
    f, a = WARNED[name]
    with pytest.warns(RuntimeWarning, match=r"tapegrad\.(eigh|svd|qr|eig): "):
        tg.jvp(f, (a,), (along(a),))


@pytest.mark.parametrize("name", RIGHT)
def test_others_are_right(name):
    f, a = RIGHT[name]
    v, h = along(a), 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = tg.jvp(f, (a,), (v,))
    assert found == pytest.approx((f(a + h * v) - f(a - h * v)) / (2.0 * h), abs=1e-8)


@pytest.mark.parametrize("f", [np.linalg.qr, np.linalg.svd])
def test_a_matrix_without_columns_has_no_derivative(f):
    a, g = np.zeros((3, 0)), np.arange(9.0).reshape(3, 3)
    basis = (lambda a: f(a, "complete")[0] * g) if f is np.linalg.qr else lambda a: f(a)[0] * g
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.jvp(basis, (a,), (a,))[1].tolist() == np.zeros((3, 3)).tolist()
        assert tg.grad(lambda a: np.sum(basis(a)))(a).shape == (3, 0)


def test_a_function_that_does_not_depend_on_its_argument():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tg.jvp(lambda a: np.ones(2) * projector(TWICE), (V,), (V,))[1].tolist() == [0.0] * 2


def test_a_transform_inside_does_not_warn_for_the_one_around():
    def f(a):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner = tg.jvp(of_the_matrix, (TWICE,), (V,))[1]
        return weighted(a) * inner

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.jvp(f, (V,), (V,))


def test_jacobians_by_forward_mode_warn():
    with pytest.warns(RuntimeWarning, match="tapegrad.eigh: values are equal"):
        tg.autograd.functional.jvp(of_the_matrix, tg.tensor(TWICE), tg.tensor(V))
    with pytest.warns(RuntimeWarning, match="tapegrad.eigh: values are equal"):
        tg.jacobian(lambda t: np.linalg.eigh(TWICE + t * V)[1] * np.arange(3.0))(0.0)


class Sine(tg.autograd.Function):
    """Without backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach().numpy()
        return tg.tensor(np.sin(ctx.x))

    @staticmethod
    def jvp(ctx, t):
        return t * np.cos(ctx.x)


def test_without_reverse_mode_they_are_not_tested():
    f = lambda a: Sine.apply(np.linalg.eigh(a)[1])
    with pytest.warns(RuntimeWarning, match="has no reverse mode, which would test") as seen:
        assert np.all(np.isfinite(tg.jvp(f, (TWICE,), (V,))[1]))
    assert seen[0].filename == __file__


def test_phases_are_not_called_equal_values():
    with pytest.warns(RuntimeWarning, match="tapegrad.eigh: the derivative depends on the phases"):
        tg.jvp(lambda a: np.imag(np.linalg.eigh(a)[1][0, 1]), (HERMITIAN,), (HERMITIAN * 1j,))


def test_second_derivatives_of_values_of_0_warn():
    f = lambda a: np.sum(np.linalg.svdvals(a) ** 2)
    first = lambda a: tg.jvp(f, (a,), (along(a),))[1]
    with pytest.warns(RuntimeWarning, match="svdvals: singular values are 0"):
        tg.jvp(first, (TALL,), (along(TALL),))

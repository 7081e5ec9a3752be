"""Eigenvalues of any matrices, and decompositions of complex ones, against PyTorch."""

import warnings

import numpy as np
import pytest
from expressions import Expression, check_compiled, check_derivatives, parametrized

import tapegrad as tg

W = np.cos(np.arange(25.0)).reshape(5, 5)
PLAIN = {"choices": False, "other": (0.8, 1.1), "names": {"W": W}}
Z = {
    (4, 4): ("(x + 1j * np.sin(3.0 * x))", "(x + 1j * torch.sin(3.0 * x))"),
    (4, 3): ("(x + 1j * np.sin(3.0 * x))", "(x + 1j * torch.sin(3.0 * x))"),
    (3, 4): ("(x + 1j * np.sin(3.0 * x))", "(x + 1j * torch.sin(3.0 * x))"),
}
H = ("(x + x.T + 1j * (x - x.T))", "(x + x.T + 1j * (x - x.T))")
OF_HERMITIAN = [
    "np.sin(L.eigvalsh(Z))",
    "L.eigh(Z)[0]",
    "np.abs(L.eigh(Z)[1]) ** 2",
    "(lambda w, v: ((v * np.exp(0.1 * w)) @ v.conj().T).imag)(*L.eigh(Z))",
]
OF_ANY = [
    "np.log(L.svdvals(Z))",
    "np.abs(L.svd(Z, full_matrices=False)[0]) ** 2",
    "(lambda u, s, vh: (u @ vh).real)(*L.svd(Z, full_matrices=False))",
    "(lambda u, s, vh: ((u * np.sin(s)) @ vh).imag)(*L.svd(Z, full_matrices=False))",
    "np.abs(L.qr(Z)[0]) ** 2",
    "L.pinv(Z).imag",
]
OF_SQUARE = [
    "np.abs(L.eigvals(Z)) ** 2",
    "np.abs(L.eig(Z)[1]) ** 2",
    "(lambda w, v: ((v * np.exp(w)) @ L.inv(v)).real)(*L.eig(Z))",
]


def expression(text, shape, ours, theirs):
    torch = text.replace("L.", "torch.linalg.").replace("np.", "torch.")
    return Expression(
        text.replace("L.", "np.linalg.").replace("Z", ours),
        torch.replace("Z", theirs),
        shape=shape,
        **PLAIN,
    )


TABLE = [
    *[expression(text, (4, 4), *H) for text in OF_HERMITIAN],
    *[expression(text, shape, *Z[shape]) for shape in Z for text in OF_ANY],
    *[expression(text, (4, 4), *Z[4, 4]) for text in OF_SQUARE],
    *[expression(text, (4, 4), "(x - x.T @ x)", "(x - x.T @ x)") for text in OF_SQUARE],
    *[expression(text, (3, 3), "(np.sin(9.0 * x))", "(torch.sin(9.0 * x))") for text in OF_SQUARE],
    Expression("np.linalg.qr(x + 1j * np.sin(3.0 * x))[0].real", **PLAIN),
    Expression("np.linalg.qr((x + 1j * np.sin(3.0 * x)).T)[1].imag", **PLAIN),
]


@parametrized(TABLE)
def test_derivatives(expression):
    check_derivatives(expression)


@parametrized(TABLE[::3])
def test_compiled(expression):
    check_compiled(expression)


def test_complex_exactly_where_numpy_s_are(rng):
    for a in (np.diag([1.0, 2.0]), np.array([[0.0, -1.0], [1.0, 0.0]]), rng.normal(size=(2, 3, 3))):
        recorded = tg.tensor(a, requires_grad=True)
        pairs = [
            (np.linalg.eigvals(recorded), np.linalg.eigvals(a)),
            *zip(np.linalg.eig(recorded), np.linalg.eig(a), strict=True),
        ]
        for ours, theirs in pairs:
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-12, atol=1e-12)


def test_a_program_that_meets_complex_eigenvalues():
    f = lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2)
    real, turning = np.array([[1.0, 2.0], [0.5, 3.0]]), np.array([[1.0, 2.0], [-2.0, 1.5]])
    c = tg.compile(f, native=False)
    for a in (real, turning, real, turning):
        np.testing.assert_allclose(c(a), f(a))
        np.testing.assert_allclose(c.grad(a), tg.grad(f)(a), rtol=1e-12)


def test_equal_eigenvalues():
    found = tg.grad(lambda a: np.sum(np.real(np.linalg.eigvals(a)) ** 2))(np.diag([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, np.diag([2.0, 2.0, 4.0]), atol=1e-14)
    gradient = tg.grad(lambda z: np.sum(np.linalg.eigvalsh(z) ** 2))(np.diag([1.0, 1.0, 2.0 + 0j]))
    np.testing.assert_allclose(gradient, np.diag([2.0, 2.0, 4.0]), atol=1e-14)


PHASES = {
    "eig": lambda a: np.sum(np.linalg.eig(a + 1j * a.T @ a)[1].real * W[:3, :3]),
    "eigh": lambda a: np.sum(np.linalg.eigh(a + a.T + 1j * (a - a.T))[1].real * W[:3, :3]),
    "svd": lambda a: np.sum(np.linalg.svd(a + 1j * a.T)[0].real * W[:3, :3]),
}


@pytest.mark.parametrize("name", PHASES)
def test_what_depends_on_phases_warns(name, rng):
    a = rng.normal(size=(3, 3))
    with pytest.warns(RuntimeWarning, match=f"tapegrad.{name}: .*arbitrary"):
        tg.grad(PHASES[name])(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.grad(lambda a: np.sum(np.abs(np.linalg.eig(a)[1])))(a)


@pytest.mark.parametrize("a", [np.ones((2, 3)), np.ones(3), np.full((2, 2), np.nan)])
@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_bad_input_is_numpy_s_error(name, a):
    call = getattr(np.linalg, name)
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        call(a)
    with pytest.raises(np.linalg.LinAlgError) as ours:
        tg.grad(lambda a: np.sum(np.abs(call(a)[0])))(a)
    assert str(ours.value) == str(theirs.value)


def test_matrices_without_a_basis_of_eigenvectors_raise():
    jordan = np.array([[1.0, 1.0], [0.0, 1.0]])
    f = lambda a: np.sum(np.real(np.linalg.eigvals(a)) ** 2)
    for attempt in (tg.grad(f), lambda a: tg.jvp(f, (a,), (a,))):
        with pytest.raises(np.linalg.LinAlgError, match="fewer independent eigenvectors"):
            attempt(jordan)
    c = tg.compile(f, native=False)
    for k in (1.0, 2.0):
        np.testing.assert_allclose(c.grad(np.diag([k, 3.0])), np.diag([2.0 * k, 6.0]))
    with pytest.warns(RuntimeWarning, match="has equal values, and only eager"):
        with pytest.raises(np.linalg.LinAlgError, match="fewer independent eigenvectors"):
            c.grad(jordan)


def test_functions_of_matrices_by_eigenvectors_warn_where_values_are_equal():
    def exponential(a):
        w, v = np.linalg.eig(a)
        found = np.real((v * np.exp(w)) @ np.linalg.inv(v))  # NumPy 2.5 gives complex w and v
        return np.sum(found * np.array([[1.0, 2.0], [3.0, 4.0]]))

    with pytest.warns(RuntimeWarning, match="tapegrad.eig: values are equal"):
        tg.grad(exponential)(np.eye(2))

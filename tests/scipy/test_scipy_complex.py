"""`scipy.linalg` of complex recorded values: equations, factors, matrices made of a few numbers."""

import numpy as np
import pytest
import scipy.linalg
from expressions import CHECKS, Expression, parametrized
from test_scipy_solving import AXES, CALLS, ERRORS, of_names

import tapegrad as tg
from tapegrad.scipy import linalg

NAMES = {"linalg": linalg}
FULL = "(x.T @ x + 1j * x.T[:, :1] * x[:1] + np.diag([3.0 + 1.0j, 4.0, 5.0, 6.0 - 2.0j]))"
TORCH = (
    "(x.T @ x + 1j * x.T[:, :1] * x[:1] + torch.diag(torch.tensor([3.0 + 1j, 4, 5, 6.0 - 2j], "
    "dtype=torch.complex128)))"
)
DEFINITE = f"({FULL} @ np.conj({FULL}).T)"
TORCH_DEFINITE = f"({TORCH} @ {TORCH}.mH)"
RIGHT = "(x.T + 0.5j * x[:1].T)"


def expression(text, torch=None):
    """Of the squares of what is complex."""
    if torch is not None:
        torch = f"({torch}).abs() ** 2"
    return Expression(f"np.absolute({text}) ** 2", torch, names=NAMES, choices=False)


TABLE = [
    expression(
        f"linalg.solve_triangular({FULL}, {RIGHT})",
        f"torch.linalg.solve_triangular({TORCH}, {RIGHT}, upper=True)",
    ),
    expression(
        f"linalg.solve_triangular({FULL}, {RIGHT}, trans='T')",
        f"torch.linalg.solve_triangular({TORCH}.mT, {RIGHT}, upper=False)",
    ),
    expression(
        f"linalg.solve_triangular({FULL}, {RIGHT}, trans='C', lower=True)",
        f"torch.linalg.solve_triangular({TORCH}.mH, {RIGHT}, upper=True)",
    ),
    expression(
        f"linalg.cho_solve(linalg.cho_factor({DEFINITE}), {RIGHT})",
        f"torch.linalg.solve({TORCH_DEFINITE}, {RIGHT})",
    ),
    expression(
        f"linalg.cholesky(0.05 * {DEFINITE}, lower=True)",
        f"torch.linalg.cholesky(0.05 * {TORCH_DEFINITE})",
    ),
    expression(f"linalg.solve({FULL}, {RIGHT})", f"torch.linalg.solve({TORCH}, {RIGHT})"),
    expression(
        f"linalg.solve({DEFINITE}, {RIGHT}, assume_a='pos')",
        f"torch.linalg.solve({TORCH_DEFINITE}, {RIGHT})",
    ),
    expression(f"linalg.solve({DEFINITE}, {RIGHT}, assume_a='her', lower=True)"),
    expression(f"linalg.solve({FULL}, {RIGHT}, assume_a='sym')"),
    expression(f"linalg.inv({FULL})", f"torch.linalg.inv({TORCH})"),
    expression(f"linalg.lu({FULL}[::-1])[1]", f"torch.linalg.lu({TORCH}.flip(0))[1]"),
    expression(f"linalg.lu({FULL}[::-1])[2]", f"torch.linalg.lu({TORCH}.flip(0))[2]"),
    expression(f"linalg.lu_solve(linalg.lu_factor({FULL}), {RIGHT}, trans=2)"),
    expression("linalg.solve_banded((1, 1), np.stack([x[0], 1j * x[1] + 4.0, x[2]]), x[0])"),
    expression("linalg.solveh_banded(np.stack([1j * x[0], x[1] + 5.0]), x.T)"),
    expression("linalg.cho_solve_banded((np.stack([1j * x[0], x[1] + 5.0]), False), x[2])"),
    expression("linalg.cholesky_banded(np.stack([x[1] + 5.0, 1j * x[0]]), lower=True)"),
    expression("linalg.solve_toeplitz(1j * x[0] + np.array([9.0, 0.0, 0.0, 0.0]), x.T)"),
    expression("linalg.matmul_toeplitz((x[0], 1j * x[1]), x[2])"),
    expression("linalg.solve_circulant(1j * x[0] + np.array([9.0, 0.0, 0.0, 0.0]), x[1])"),
    expression("linalg.toeplitz(x[0] + 0.5j * x[1]) @ x.T"),
    expression("linalg.companion(x[0] ** 2 + 1j * x[1])"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", ["derivatives", "compiled"])
def test_expression(check, expression):
    CHECKS[check](expression)


# --- values and errors are SciPy's ----------------------------------------------------------------

COMPLEX = {name: x + (0.3j if name in "abvu" else 0.0) for name, x in AXES.items()}
COMPLEX["junk"] = np.where(np.tri(3, k=-1) > 0, 99.0, COMPLEX["a"] @ COMPLEX["a"].conj().T)


def copies():
    return {name: x.astype(complex) for name, x in COMPLEX.items()}


@pytest.mark.parametrize(
    "text", [one for one in CALLS if "32" not in one and "det" not in one and "trans" not in one]
)
def test_values_are_scipys(text):
    wanted = of_names(text, scipy.linalg, copies())
    leaves = {name: tg.tensor(x, requires_grad=True) for name, x in copies().items()}
    found = of_names(text, linalg, leaves)
    found = found.detach().numpy() if hasattr(found, "detach") else found
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("text", [one for one in ERRORS if "det" not in one])
def test_errors_are_scipys(text):
    leaves = {name: tg.tensor(x, requires_grad=True) for name, x in copies().items()}
    with pytest.raises((ValueError, np.linalg.LinAlgError)) as theirs:
        of_names(text, scipy.linalg, copies())
    with pytest.raises(theirs.type):
        of_names(text, linalg, leaves)


def test_transposes_of_complex_matrices_are_refused_as_scipy_does():
    a = tg.tensor(COMPLEX["a"], requires_grad=True)
    with pytest.raises(NotImplementedError, match="complex matrices"):
        linalg.solve(a, AXES["b"], transposed=True)

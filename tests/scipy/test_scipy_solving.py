"""`scipy.linalg` of recorded values: equations, factors, and matrices made of a few numbers."""

import numpy as np
import pytest
import scipy
import scipy.linalg
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.scipy import linalg

NAMES = {"linalg": linalg}
SPD = "(x.T @ x + np.diag([3.0, 4.0, 5.0, 6.0]))"
FULL = "(x.T @ x + np.diag([3.0, 4.0, 5.0, 6.0]) + np.triu(x.T[:, :1] * x[:1] * 0.3, 1))"
TORCH_SPD = "(x.T @ x + torch.diag(torch.tensor([3.0, 4, 5, 6], dtype=x.dtype)))"
TORCH_FULL = f"({TORCH_SPD[1:-1]} + torch.triu(x.T[:, :1] * x[:1] * 0.3, 1))"
BANDED = "np.stack([x[0], x[1] + 4.0, x[2]])"
STACK = f"np.stack([{SPD}, 2.0 * {FULL}])"


def expression(text, torch=None, **fields):
    return Expression(text, torch, names=NAMES, **fields)


TRIANGLES = [
    expression(
        f"linalg.solve_triangular({FULL}, x.T)",
        f"torch.linalg.solve_triangular({TORCH_FULL}, x.T, upper=True)",
    ),
    expression(
        f"linalg.solve_triangular({FULL}, x[0], lower=True)",
        f"torch.linalg.solve_triangular({TORCH_FULL}, x[0][:, None], upper=False)[:, 0]",
    ),
    expression(
        f"linalg.solve_triangular({FULL}, x[0], trans='T')",
        f"torch.linalg.solve_triangular({TORCH_FULL}.T, x[0][:, None], upper=False)[:, 0]",
    ),
    expression(
        f"linalg.solve_triangular({FULL}, x.T, trans=2, lower=True, check_finite=False)",
        f"torch.linalg.solve_triangular({TORCH_FULL}.T, x.T, upper=True)",
    ),
    expression(
        "linalg.solve_triangular(0.3 * x[:, :3], x, unit_diagonal=True)",
        "torch.linalg.solve_triangular(0.3 * x[:, :3], x, upper=True, unitriangular=True)",
    ),
    expression(
        "linalg.solve_triangular(0.3 * x[:, :3], x[:, 0], 1, lower=True, unit_diagonal=True)",
        "torch.linalg.solve_triangular("
        "0.3 * x[:, :3].T, x[:, :1], upper=True, unitriangular=True)[:, 0]",
    ),
    expression(f"linalg.solve_triangular(np.linalg.cholesky({SPD}), np.eye(4), lower=True)"),
    expression(
        f"linalg.cho_solve((np.linalg.cholesky({SPD}), True), x.T)",
        f"torch.cholesky_solve(x.T, torch.linalg.cholesky({TORCH_SPD}))",
    ),
    expression(f"linalg.cho_solve(linalg.cho_factor({SPD}), x[0])"),
    expression(f"linalg.cho_solve(linalg.cho_factor({SPD}, lower=True), x.T)"),
    expression(f"linalg.cho_factor({SPD})[0]"),
    expression(
        f"np.sum(np.log(np.diagonal(linalg.cho_factor({SPD}, True)[0])))",
        f"torch.linalg.slogdet({TORCH_SPD})[1] / 2.0",
    ),
]
STRUCTURES = [
    expression(f"linalg.solve({FULL}, x.T)", f"torch.linalg.solve({TORCH_FULL}, x.T)"),
    expression(
        f"linalg.solve({FULL}, x[0], transposed=True)",
        f"torch.linalg.solve({TORCH_FULL}.T, x[0])",
    ),
    expression(
        f"linalg.solve({SPD}, x.T, assume_a='pos')", f"torch.linalg.solve({TORCH_SPD}, x.T)"
    ),
    expression(f"linalg.solve({FULL}, x[0], assume_a='pos', lower=True)"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='sym')"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='sym', lower=True)"),
    expression(f"linalg.solve({FULL}, x[0], assume_a='her')"),
    expression("linalg.solve(2.0 + x[:1, :1] ** 2, x.T)"),
    expression(f"linalg.inv({FULL})", f"torch.linalg.inv({TORCH_FULL})"),
    expression(f"linalg.det(0.2 * {FULL})", f"torch.linalg.det(0.2 * {TORCH_FULL})"),
]
BANDS = [
    expression(
        f"linalg.solve_banded((1, 1), {BANDED}, x[0])",
        "torch.linalg.solve(torch.diag(x[1] + 4.0) + torch.diag(x[0, 1:], 1)"
        " + torch.diag(x[2, :-1], -1), x[0])",
    ),
    expression("linalg.solve_banded((2, 0), x + np.array([[4.0], [0.0], [0.0]]), x.T)"),
    expression("linalg.solve_banded((0, 2), x + np.array([[0.0], [0.0], [4.0]]), x[0])"),
    expression("linalg.solve_banded((0, 0), x[:1] ** 2 + 1.0, x.T)"),
]
BANDS += [
    expression("linalg.solveh_banded(np.stack([x[0], x[1] + 5.0]), x.T)"),
    expression("linalg.solveh_banded(x + np.array([[9.0], [0.0], [0.0]]), x[0], lower=True)"),
    expression("linalg.cho_solve_banded((np.stack([x[0], x[1] + 5.0]), False), x.T)"),
    expression("linalg.cho_solve_banded((np.stack([x[1] + 5.0, x[0]]), True), x[2])"),
    expression("linalg.cholesky_banded(np.stack([x[0], x[1] + 5.0]))"),
    expression("linalg.cholesky_banded(x + np.array([[9.0], [0.0], [0.0]]), lower=True)"),
    expression("linalg.solve_toeplitz(x[0] + np.array([9.0, 0.0, 0.0, 0.0]), x[1])"),
    expression("linalg.solve_toeplitz((x[0] + np.array([9.0, 0.0, 0.0, 0.0]), x[1]), x.T)"),
    expression("linalg.matmul_toeplitz(x[0], x[1])"),
    expression("linalg.matmul_toeplitz((x[0], x[:, 0]), x)"),
    expression("linalg.matmul_toeplitz((x[:, 1], x[0]), x[2])"),
    expression("linalg.solve_circulant(x[0] + np.array([9.0, 0.0, 0.0, 0.0]), x[1])"),
    expression("linalg.solve_circulant(x + np.array([9.0, 0.0, 0.0, 0.0]), x.T, baxis=0)[..., 1]"),
    expression("linalg.solve_circulant(x[0] - np.mean(x[0]), x[1], singular='lstsq')"),
]
PIVOTS = [
    expression(f"linalg.lu({FULL}[::-1])[1]", f"torch.linalg.lu({TORCH_FULL}.flip(0))[1]"),
    expression(f"linalg.lu({FULL}[::-1])[2]", f"torch.linalg.lu({TORCH_FULL}.flip(0))[2]"),
    expression(f"linalg.lu({FULL}[::-1], p_indices=True)[2]"),
    expression(f"linalg.lu({FULL}[::-1], permute_l=True)[0]"),
    expression(f"linalg.lu({FULL}[:3])[1] + linalg.lu({FULL}[2::-1])[2][:, :3]"),
    expression(f"linalg.lu({FULL}[::-1, :3])[1]"),
    expression(f"linalg.lu({FULL}[::-1, :3])[2]"),
    expression(
        f"linalg.lu_factor({FULL}[::-1])[0]", f"torch.linalg.lu_factor({TORCH_FULL}.flip(0))[0]"
    ),
    expression(f"linalg.lu_solve(linalg.lu_factor({FULL}[::-1]), x.T)"),
    expression(f"linalg.lu_solve(linalg.lu_factor({FULL}[::-1]), x[0], trans=1)"),
    expression("linalg.lu_solve(linalg.lu_factor(np.diag([4.0, 5.0, 6.0])[::-1]), x, trans=2)"),
    expression(f"linalg.lu_solve(({FULL}, [2, 2, 2, 3]), x.T)"),
]
SPECIAL = [
    expression("linalg.toeplitz(x[0])"),
    expression("linalg.toeplitz(x[0], x[:, 1] * x[:, 2])"),
    expression("linalg.circulant(x[0]) @ x.T"),
    expression("linalg.hankel(x[0]) @ x.T"),
    expression("linalg.hankel(x[0], x[1])"),
    expression(
        "linalg.block_diag(x, x[0] ** 2, 3.0, x.T)",
        "torch.block_diag(x, x[0] ** 2, torch.tensor(3.0), x.T)",
    ),
    expression("linalg.leslie(x[0], x[1, :3])"),
    expression("linalg.companion(x[0] ** 2 + 1.0)"),
    expression("linalg.fiedler_companion(x.ravel() ** 2 + 1.0)"),
    expression("linalg.fiedler(np.sort(x[0]) ** 2)", choices=False, other=(2.0, 0.5)),
    expression("linalg.convolution_matrix(x[0], 3) @ x"),
    expression("linalg.convolution_matrix(x[0], 3, mode='same')"),
    expression("linalg.convolution_matrix(x[0], 3, 'valid')"),
    expression("linalg.khatri_rao(x, x[:2] ** 2)"),
]
BATCHES = [
    expression(f"linalg.solve_triangular({STACK}, x.T)"),
    expression(f"linalg.solve({STACK}, x[0])"),
    expression(f"linalg.solve({STACK}, x.T, assume_a='pos')"),
    expression(f"linalg.cho_solve(({STACK}, True), x.T)"),
    expression(f"linalg.cho_factor(np.stack([{SPD}, 2.0 * {SPD}]))[0]"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='tridiagonal')"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='diagonal')"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='upper triangular', transposed=True)"),
    expression(f"linalg.solve({FULL}, x.T, assume_a='lower triangular')"),
    expression(f"linalg.lu({STACK})[2]"),
    expression(f"linalg.lu_solve(linalg.lu_factor({STACK}[:, ::-1]), x.T)"),
    expression("linalg.circulant(x)"),
    expression("linalg.companion(x ** 2 + 1.0)"),
]
#: SciPy's own, with which values are compared, takes these from 1.17 on.
if np.lib.NumpyVersion(scipy.__version__) >= "1.17.0":
    BATCHES += [
        expression("linalg.toeplitz(x)"),
        expression("linalg.khatri_rao(np.stack([x, x ** 2]), x[:2])"),
    ]
TABLE = [*TRIANGLES, *STRUCTURES, *BANDS, *PIVOTS, *SPECIAL, *BATCHES]


@parametrized(TABLE)
@pytest.mark.parametrize("check", ["derivatives", "compiled"])
def test_expression(check, expression):
    CHECKS[check](expression)


@parametrized(TABLE[::4])
@pytest.mark.parametrize("check", ["float32", "batched", "stand-in"])
def test_other_readings(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE[::9])
def test_native(part):
    check_native(part)


# --- values and errors are SciPy's ----------------------------------------------------------------

A = np.array([[5.0, 1.0, 0.5], [0.3, 6.0, -1.0], [0.2, 0.7, 4.0]])
DEFINITE = A @ A.T
JUNK = np.where(np.tri(3, k=-1) > 0, 99.0, DEFINITE)
B = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
BAND = np.array([[5.0, 6.0, 7.0], [1.0, -0.5, 99.0]])
AXES = {"band": BAND, "a": A, "junk": JUNK, "b": B, "v": B[:, 0], "u": B[:2, 1]}
CALLS = [
    *[f"linalg.solve(a, b, assume_a={one!r})" for one in (None, "gen", "general", "banded")],
    *[f"linalg.solve(junk, v, assume_a={one!r})" for one in ("sym", "symmetric", "her")],
    "linalg.solve(junk, b, assume_a='pos')",
    "linalg.solve(junk.T, b, lower=True, assume_a='positive definite')",
    *[f"linalg.solve(a, v, transposed={one})" for one in (True, False)],
    "linalg.solve(a[:1, :1], b)",
    "linalg.solve(a[:0, :0], b[:0])",
    "linalg.solve(2.0 * a[0, 0], 3.0)",
    *[f"linalg.solve_triangular(a, b, trans={one!r})" for one in (0, 1, 2, "N", "T", "C")],
    "linalg.solve_triangular(a, v, lower=True, unit_diagonal=True, overwrite_b=True)",
    "linalg.solve_triangular(a.T, b[::-1])",
    "linalg.solve_triangular(a[::-1, ::-1], b.astype(np.float32))",
    "linalg.solve_triangular(a.astype(np.float32), [1, 2, 3])",
    "linalg.solve_triangular(a[:0, :0], b[:0])",
    "linalg.solve_triangular(a, b[:, :0])",
    "linalg.cholesky(junk, overwrite_a=True)",
    "linalg.cholesky(junk.T, True)",
    "linalg.cholesky(4.0 * a[0, 0])",
    "linalg.cho_factor(junk)[0]",
    "linalg.cho_factor(junk.T, lower=True)[0]",
    "linalg.cho_solve((a, False), b)",
    "linalg.cho_solve((a, True), v, check_finite=False)",
    "linalg.solve_banded((1, 1), a, v)",
    "linalg.solve_banded((2, 0), a, b)",
    "linalg.solve_banded((0, 0), a[:1, :1], v[:1])",
    "linalg.solveh_banded(band, b, lower=True)",
    "linalg.solveh_banded(a[:1], v)",
    "linalg.solveh_banded(a[None, :, :0] + [[[1.0]], [[2.0]]], v[:0])",
    "linalg.cholesky_banded(band, lower=True)",
    "linalg.cholesky_banded(band[::-1, ::-1])",
    "linalg.cho_solve_banded((a, False), b)",
    "linalg.cho_solve_banded((a, True), v)",
    "linalg.solve_toeplitz(a[0], b)",
    "linalg.solve_toeplitz((a[0], v), v)",
    "linalg.solve_toeplitz(a[0].astype(np.float32), v.astype(np.float32))",
    "linalg.matmul_toeplitz(a[0], b)",
    "linalg.matmul_toeplitz((u, a[0]), v)",
    "linalg.solve_circulant(a[0], b)",
    "linalg.solve_circulant(a, a, caxis=0, baxis=0, outaxis=-1)",
    "linalg.solve_circulant(a, a, baxis=1)[0]",
    "linalg.solve_circulant(a[0] * 0.0 + 1.0, v, singular='lstsq')",
    "linalg.solve_circulant(1e300 * a[0], 1e300 * v)",
    "linalg.solve_circulant(a[0] + 1j * v, b[:, :0]).real",
    *[f"linalg.lu(a[::-1])[{k}]" for k in range(3)],
    *[f"linalg.lu(a[::-1, :2])[{k}]" for k in range(3)],
    *[f"linalg.lu(b.T, permute_l=True)[{k}]" for k in range(2)],
    "linalg.lu(a[::-1], p_indices=True)[0]",
    "linalg.lu(a.astype(np.float32))[0]",
    "linalg.lu(a[:0])[1]",
    "linalg.lu_factor(a[::-1])[0]",
    "linalg.lu_factor(a[::-1])[1]",
    *[f"linalg.lu_factor({one})[{k}]" for one in ("v", "v[0]") for k in range(2)],
    *[f"linalg.lu_solve(linalg.lu_factor(a[::-1]), b, trans={k})" for k in range(3)],
    "linalg.lu_solve((a, [1, 2, 2]), v)",
    "linalg.inv(a)",
    "linalg.inv(junk, assume_a='pos')",
    "linalg.det(a)",
    "linalg.det(a.astype(np.float32))",
    "linalg.toeplitz(a)",
    "linalg.toeplitz(v, u)",
    "linalg.toeplitz(v[0])",
    "linalg.circulant(v)",
    "linalg.hankel(v, u)",
    "linalg.block_diag(v, a, 1, [[2, 3]])",
    "linalg.block_diag(a.astype(np.float32), [1, 2])",
    "linalg.leslie(v, u)",
    "linalg.companion(v)",
    "linalg.fiedler(v)",
    *[f"linalg.fiedler(v[:{n}])" for n in (0, 1, 2)],
    "linalg.fiedler_companion(v)",
    "linalg.fiedler_companion(u)",
    *[f"linalg.fiedler_companion({one})" for one in ("u[:0]", "u[:1]", "b[:, :1]")],
    "linalg.convolution_matrix(v, 4)",
    "linalg.khatri_rao(b, b[:2])",
    "linalg.khatri_rao(b, [[1, 2], [3, 4]])",
    "linalg.companion([1.0, v[0], 3])",
    "linalg.solve([[2, 1], [1, v[0]]], [1, 2])",
    "linalg.toeplitz([1, v[0]], [4, 2, v[1]])",
    "linalg.bandwidth(a * np.tri(3))",
    "linalg.issymmetric(a @ a.T, rtol=1e-12)",
    "linalg.ishermitian(a)",
]
ERRORS = [
    "linalg.solve(a, b[:2])",
    "linalg.solve(a[:2], b)",
    "linalg.solve(a, b, assume_a='nothing')",
    "linalg.solve(0.0 * a, b)",
    "linalg.solve(0.0 * a, b, assume_a='diagonal')",
    "linalg.solve(-a, b, assume_a='pos')",
    "linalg.solve(a * np.nan, b)",
    "linalg.solve_triangular(a[:2], b)",
    "linalg.solve_triangular(a, b[:2])",
    "linalg.solve_triangular(a * np.diag([1.0, 0.0, 1.0]), b)",
    "linalg.solve_triangular(a, b * np.inf)",
    "linalg.cholesky(-a)",
    "linalg.cholesky(a[:2])",
    "linalg.cho_factor(a * np.nan)",
    "linalg.cho_solve((a[:2], True), b)",
    "linalg.cho_solve((a, True), b[:2])",
    "linalg.solve_banded((1, 0), a, v)",
    "linalg.solve_banded((1, 1), 0.0 * a[:0], v)",
    "linalg.solve_banded((1, 1), a, v[:2])",
    "linalg.solve_banded((1, 1), 0.0 * a, v)",
    "linalg.solveh_banded(-a, v)",
    "linalg.solveh_banded(a, v[:2])",
    "linalg.cholesky_banded(-a)",
    "linalg.cho_solve_banded((a, True), v[:2])",
    "linalg.solve_toeplitz(0.0 * a[0], v)",
    "linalg.solve_toeplitz((v, v[:2]), v)",
    "linalg.matmul_toeplitz(v, b[:2])",
    "linalg.solve_circulant(v, v[:2])",
    "linalg.solve_circulant(0.0 * v + 1.0, v)",
    "linalg.lu(v)",
    "linalg.lu(a * np.nan)",
    "linalg.lu_solve((a, [0, 1, 2]), b[:2])",
    "linalg.inv(0.0 * a)",
    "linalg.inv(a[:2])",
    "linalg.inv(v)",
    "linalg.det(v)",
    "linalg.det(a[:2])",
    "linalg.leslie(v, v)",
    "linalg.companion(v[:1])",
    "linalg.companion(0.0 * v)",
    "linalg.fiedler_companion(0.0 * v)",
    "linalg.convolution_matrix(v, 0)",
    "linalg.convolution_matrix(v, 2, mode='all')",
    "linalg.khatri_rao(a, b)",
    "linalg.khatri_rao(v, v)",
]
#: SciPy before 1.17 takes these otherwise: without the argument, as one vector, with infinities.
if np.lib.NumpyVersion(scipy.__version__) < "1.17.0":
    OTHERWISE = (
        "linalg.solveh_banded(a[None, :, :0] + [[[1.0]], [[2.0]]], v[:0])",
        "linalg.inv(junk, assume_a='pos')",
        "linalg.toeplitz(a)",
        "linalg.solve(0.0 * a, b)",
        "linalg.solve(0.0 * a, b, assume_a='diagonal')",
    )
    CALLS, ERRORS = ([one for one in table if one not in OTHERWISE] for table in (CALLS, ERRORS))


def of_names(text, linalg, names):
    return eval(text, {"np": np, "linalg": linalg, **names})


@pytest.mark.parametrize("text", CALLS)
def test_values_are_scipys(text):
    wanted = of_names(text, scipy.linalg, {name: x.copy() for name, x in AXES.items()})
    leaves = {name: tg.tensor(x, requires_grad=True) for name, x in AXES.items()}
    found = of_names(text, linalg, leaves)
    found = found.detach().numpy() if isinstance(found, tg.Tensor) else found
    assert np.shape(found) == np.shape(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if "32" in text else 1e-12, atol=1e-12)


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_scipys(text):
    leaves = {name: tg.tensor(x, requires_grad=True) for name, x in AXES.items()}
    with pytest.raises((ValueError, np.linalg.LinAlgError)) as theirs:
        of_names(text, scipy.linalg, AXES)
    with pytest.raises(theirs.type):
        of_names(text, linalg, leaves)
    c = tg.compile(lambda a, b, v: np.sum(of_names(text, linalg, {"a": a, "b": b, "v": v})))
    with pytest.raises(theirs.type):
        c(A, B, B[:, 0])


REFUSED = {
    "linalg.solve_triangular(a, b)": (A, A * np.diag([1.0, 0.0, 1.0])),
    "linalg.solve(a, b, assume_a='pos')": (A, -A),
    "linalg.solve(a, b, assume_a='diagonal')": (A, A - 5.0 * np.eye(3)),
    "linalg.solve_banded((1, 1), a, b)": (A, 0.0 * A),
    "linalg.solveh_banded(a[:1], b)": (A, -A),
    "linalg.solve_toeplitz(a[0], b)": (A, 0.0 * A),
    "linalg.solve_circulant(a[0], b)": (A, 0.0 * A + 1.0),
    "linalg.companion(a[0])": (A, A - 5.0),
    "linalg.cho_solve(linalg.cho_factor(a), b)": (A, -A),
}
if np.lib.NumpyVersion(scipy.__version__) < "1.17.0":
    del REFUSED["linalg.solve(a, b, assume_a='diagonal')"]


@pytest.mark.parametrize("text", REFUSED)
def test_programs_refuse_what_scipy_refuses(text):
    good, bad = REFUSED[text]
    f = lambda a: np.sum(of_names(text, linalg, {"a": a, "b": B}))
    c = tg.compile(f)
    for call in (c, c.grad):
        call(good)
        with pytest.raises((ValueError, np.linalg.LinAlgError)):
            call(bad)
        np.testing.assert_allclose(call(good + 0.1), call(good + 0.1))
    np.testing.assert_allclose(c.grad(good + 0.1), tg.grad(f)(good + 0.1), rtol=1e-10)


#: What SciPy reads by accident, or gives infinities for.
UNREAD = {
    "linalg.cho_solve((0.0 * a, True), b)": "cho_solve: the factor has a 0 on its diagonal",
    "linalg.lu_solve((0.0 * a, [0, 1, 2]), b)": "lu_solve: the factor has a 0 on its diagonal",
    "linalg.solve_triangular(a, b, trans='fro')": "solve_triangular: trans is 'fro'; it must be 0",
    "linalg.solveh_banded(v, v)": "solveh_banded: ab has shape .3,.; it must be",
    "linalg.solve_banded((1, 1), v, v)": "solve_banded: ab has shape .3,.; it must be",
    "linalg.block_diag(a, {})": "block_diag: an argument is not an array of numbers",
    "linalg.toeplitz(v, {})": "toeplitz: an argument is not an array of numbers",
    "linalg.cho_solve((a, True), np.array([None] * 3))": "an operand has dtype object",
    "linalg.eigh(a, np.longdouble(np.eye(3)))": "eigh: a matrix has dtype .*; convert it to",
}


@pytest.mark.parametrize("text", UNREAD)
def test_what_has_no_derivative_is_refused_by_name(text):
    leaves = {name: tg.tensor(x, requires_grad=True) for name, x in AXES.items()}
    error = (TypeError, ValueError, np.linalg.LinAlgError)
    with pytest.raises(error, match=f"tapegrad.scipy.linalg.*{UNREAD[text]}"):
        of_names(text, linalg, leaves)


def test_a_singular_matrix_has_factors_and_a_warning():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    with pytest.warns(scipy.linalg.LinAlgWarning, match="number 2 is exactly zero"):
        both, _ = linalg.lu_factor(tg.tensor(a, requires_grad=True))
    assert np.array_equal(both.detach(), [[2.0, 4.0], [0.5, 0.0]])
    with pytest.raises(np.linalg.LinAlgError):
        tg.grad(lambda a: np.sum(linalg.lu(a)[2]))(a)


def test_programs_exchange_rows_anew():
    f = lambda a: np.sum(np.sin(linalg.lu(a)[2]) * [[1.0, 2.0], [3.0, 4.0]])
    c = tg.compile(f)
    for a in ([[4.0, 1.0], [2.0, 3.0]], [[2.0, 3.0], [4.0, 1.0]], [[1.0, 2.0], [-3.0, 0.5]]):
        np.testing.assert_allclose(c(a), f(np.array(a)), rtol=1e-12)
        np.testing.assert_allclose(c.grad(a), tg.grad(f)(np.array(a)), rtol=1e-12)
        np.testing.assert_allclose(c.hessian(a), tg.hessian(f)(np.array(a)), rtol=1e-12, atol=1e-12)


def test_operands_are_not_written_to():
    a, b = A.copy(), B.copy()
    tg.grad(lambda a: np.sum(linalg.solve_triangular(a, b, overwrite_b=True)))(a)
    tg.grad(lambda a: np.sum(linalg.solve(a, b, overwrite_a=True, overwrite_b=True)))(a)
    tg.grad(lambda a: np.sum(linalg.cholesky(a + a.T, overwrite_a=True)))(a)
    assert np.array_equal(a, A) and np.array_equal(b, B)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_matrices_of_half_precision(dtype, shape, rng):
    a = (rng.normal(size=(3, 3)) + 3.0 * np.eye(3)).astype(np.float16)
    b = rng.normal(size=shape).astype(dtype)
    b *= 1.0 + 0.5j if dtype[0] == "c" else 1.0
    x = linalg.solve(a, tg.tensor(b, requires_grad=True))
    wanted = scipy.linalg.solve(a.astype(np.float32), b)
    assert x.dtype == wanted.dtype
    rtol = 1e-5 if dtype in ("f4", "c8") else 1e-12
    np.testing.assert_allclose(x.detach().numpy(), wanted, rtol=rtol)

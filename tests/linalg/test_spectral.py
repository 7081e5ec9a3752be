"""Eigenvalues of symmetric matrices, singular values and QR, against PyTorch and closed forms."""

import warnings

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg

S = "(x @ x.T + np.diag(np.arange(3.0)))"
T = "(x @ x.T + torch.diag(torch.arange(3.0, dtype=x.dtype)))"
W = np.cos(np.arange(25.0)).reshape(5, 5)
PLAIN = {"choices": False, "other": (0.8, 1.1), "names": {"W": W}}


def both(text, numpy_matrix=S, torch_matrix=T, **more):
    """An expression with `A` for a matrix and `L` for the library's linalg, in both libraries."""
    ours = text.replace("L.", "np.linalg.").replace("A", numpy_matrix)
    theirs = text.replace("L.", "torch.linalg.").replace("A", torch_matrix)
    for one, other in (
        ("np.sum(", "torch.sum("),
        ("np.sin(", "torch.sin("),
        ("np.exp(", "torch.exp("),
        ("np.sqrt(", "torch.sqrt("),
        ("np.log(", "torch.log("),
        ("np.stack(", "torch.stack("),
        ("W[:3, :3]", "torch.tensor(W[:3, :3])"),
    ):
        theirs = theirs.replace(one, other)
    return Expression(ours, theirs, **{**PLAIN, **more})


V = "L.eigh(A)[1]"
EIGEN = [
    both("L.eigvalsh(A)"),
    both("(0.3 * L.eigvalsh(A)) ** 3"),
    both("L.eigvalsh(A)[-1]"),
    both("L.eigvalsh(A)[0] * x[0]"),
    both("L.eigvalsh(A[::2, ::2])"),
    both("np.log(L.eigvalsh(A)) @ L.eigvalsh(A)"),
    both("L.eigh(A)[0]"),
    both(f"{V} ** 2"),
    both(f"{V}[:, :1] * {V}[:1, :1]"),
    both("(lambda w, v: (v * np.exp(0.1 * w)) @ v.T)(*L.eigh(A))"),
    both("(lambda w, v: (v / w) @ v.T @ x)(*L.eigh(A))"),
    both("(lambda w, v: v[:, 1:] @ v[:, 1:].T)(*L.eigh(A))"),
    both("(lambda w, v: np.sum(v[0, 2] * v[2, 2] * np.sin(x)))(*L.eigh(A))"),
    both("L.eigh(A)[1] ** 4 * W[:3, :3]"),
    both("L.eigh(A, UPLO='U')[1] ** 2"),
    both("L.eigvalsh(A, UPLO='U')"),
    both("L.eigvalsh(np.stack([A, 2.0 * A, A @ A]))"),
    both("L.eigh(np.stack([A, A @ A]))[1] ** 2"),
    both("L.eigh(0.5 * A)[1][:, 0] ** 2 / L.eigvalsh(A)"),
    both("np.sqrt(L.eigvalsh(A @ A))[1:]"),
]
WIDE = ("(x + np.eye(3, 4) * 2.0)", "(x + torch.eye(3, 4, dtype=x.dtype) * 2.0)")
TALL = ("(x.T + np.eye(4, 3) * 2.0)", "(x.T + torch.eye(4, 3, dtype=x.dtype) * 2.0)")
SQUARE = ("(x[:, :3] + np.eye(3) * 2.0)", "(x[:, :3] + torch.eye(3, dtype=x.dtype) * 2.0)")


def singular(matrix):
    u, s, vh = (f"L.svd(A, full_matrices=False)[{k}]" for k in range(3))
    all_parts = "*L.svd(A, full_matrices=False)"
    return [
        both(f"{s} ** 2", *matrix),
        both("L.svdvals(A)", *matrix),
        both("np.log(L.svdvals(A))[1:]", *matrix),
        both(f"{u} ** 2", *matrix),
        both(f"{vh} ** 2", *matrix),
        both(f"(lambda u, s, vh: u[:, :2] @ u[:, :2].T)({all_parts})", *matrix),
        both(f"(lambda u, s, vh: u @ vh)({all_parts})", *matrix),
        both(f"(lambda u, s, vh: (u * np.sqrt(s)) @ vh)({all_parts})", *matrix),
        both(f"(lambda u, s, vh: vh.T @ np.sin(vh * u[:1, 0]))({all_parts})", *matrix),
    ]


SINGULAR = [
    *singular(WIDE),
    *singular(TALL),
    *singular(SQUARE),
    both("L.svd(A)[0] ** 2", *WIDE),
    Expression(f"np.linalg.svd({WIDE[0]})[2] ** 2", **PLAIN),  # PyTorch leaves out the last one
    Expression(f"np.linalg.svd({TALL[0]})[0] ** 2", **PLAIN),
    both("L.svd(A)[2] ** 2 * L.svd(A)[1]", *TALL),
    both("L.svdvals(np.stack([A, np.sin(A)]))", *WIDE),
    both("L.svd(np.stack([A, np.sin(A)]), full_matrices=False)[2] ** 2", *TALL),
    Expression(f"np.linalg.svd({S}, compute_uv=False)", f"torch.linalg.svdvals({T})", **PLAIN),
    Expression(
        f"np.linalg.svd({S} - 4.0 * np.eye(3), hermitian=True)[1]",
        f"torch.linalg.svdvals({T} - 4.0 * torch.eye(3, dtype=x.dtype))",
        **PLAIN,
    ),
    Expression(
        f"np.linalg.svd({S} - 4.0 * np.eye(3), hermitian=True)[2] ** 2",
        f"torch.linalg.svd({T} - 4.0 * torch.eye(3, dtype=x.dtype))[2] ** 2",
        **PLAIN,
    ),
]


def factors(matrix):
    return [
        both("L.qr(A)[0]", *matrix),
        both("L.qr(A)[1]", *matrix),
        both("(lambda q, r: q @ np.sin(r))(*L.qr(A))", *matrix),
        both("(lambda q, r: r.T @ np.exp(0.1 * r))(*L.qr(A))", *matrix),
    ]


QR = [
    *factors(WIDE),
    *factors(TALL),
    *factors(SQUARE),
    Expression(
        f"np.linalg.qr({WIDE[0]}, mode='r') ** 2", f"torch.linalg.qr({WIDE[1]})[1] ** 2", **PLAIN
    ),
    both("L.qr(A, mode='complete')[0]", *WIDE),
    both("L.qr(np.stack([A, np.sin(A)]))[0]", *TALL),
    both("L.qr(np.stack([A, np.sin(A)]))[1] ** 2", *WIDE),
    Expression(f"np.linalg.qr({TALL[0]}, mode='complete')[0]", **PLAIN),
    Expression(f"np.linalg.qr({TALL[0]}, mode='complete')[1] ** 3", **PLAIN),
    Expression("np.linalg.qr(x[:, :1] + 1.0, mode='complete')[1]", **PLAIN),
    Expression("(lambda q: q[:, 1:] @ q[:, 1:].T)(np.linalg.qr(x[:, :1], 'complete')[0])", **PLAIN),
]
TABLE = [*EIGEN, *SINGULAR, *QR]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts([EIGEN[0], EIGEN[7], SINGULAR[0], SINGULAR[6], QR[0], QR[1]])
def test_native(part):
    check_native(part)


# --- equal values ---------------------------------------------------------------------------------

TWICE = np.diag([1.0, 1.0, 2.0])


@pytest.mark.filterwarnings("ignore:tapegrad.compile.*has equal values")
def test_functions_of_the_values_where_these_are_equal():
    wanted = np.diag([2.0, 2.0, 4.0])
    for f in (
        lambda a: np.sum(np.linalg.eigvalsh(a) ** 2),
        lambda a: np.sum(np.linalg.eigh(a)[0] ** 2),
        lambda a: np.sum(np.linalg.svdvals(a) ** 2),
        lambda a: np.sum(np.linalg.svd(a)[1] ** 2),
        lambda a: np.sum(np.linalg.svd(a, hermitian=True, compute_uv=False) ** 2),
    ):
        np.testing.assert_allclose(tg.grad(f)(TWICE), wanted, atol=1e-14)
        c = tg.compile(f, native=False)
        c.grad(np.diag([1.0, 2.0, 5.0]))
        np.testing.assert_allclose(c.grad(TWICE), wanted, atol=1e-14)
        np.testing.assert_allclose(c.grad(np.zeros((3, 3))), 0.0)


def test_a_simple_eigenvector_beside_equal_values():
    found = tg.grad(lambda a: np.linalg.eigh(a)[1][0, 2] * np.linalg.eigh(a)[1][2, 2])(TWICE)
    wanted = np.zeros((3, 3))
    wanted[0, 2] = wanted[2, 0] = 0.5
    np.testing.assert_allclose(found, wanted, atol=1e-14)


def rotated(rng, values):
    q = np.linalg.qr(rng.normal(size=(len(values),) * 2))[0]
    return (q * values) @ q.T


def symmetric(a):
    return 0.5 * (a + a.T)


OF_VALUES = {
    "squares": (
        lambda a: np.sum(np.linalg.eigvalsh(symmetric(a)) ** 2),
        lambda a: np.sum(symmetric(a) ** 2),
    ),
    "mixed": (
        lambda a: (lambda w: np.prod(w) * np.sum(w**2))(np.linalg.eigvalsh(symmetric(a))),
        lambda a: np.linalg.det(symmetric(a)) * np.sum(symmetric(a) ** 2),
    ),
    "singular": (
        lambda a: (lambda s: np.sum(s**4) + np.sum(np.log(s)))(np.linalg.svdvals(a)),
        lambda a: np.sum((a.T @ a) ** 2) + 0.5 * np.log(np.linalg.det(a.T @ a)),
    ),
    "tall": (
        lambda a: np.sum(np.linalg.svdvals(a[:, 1:]) ** 4),
        lambda a: np.sum((a[:, 1:].T @ a[:, 1:]) ** 2),
    ),
}


@pytest.mark.parametrize("values", [[1, 1, 2, 3], [2, 2, 2, 2], [1, 3, 1, 3], [1, 2, 3, 4]])
@pytest.mark.parametrize("name", OF_VALUES)
def test_second_derivatives_where_values_are_equal(name, values, rng):
    f, same = OF_VALUES[name]
    a, other, v = rotated(rng, np.array(values, float)), *rng.normal(size=(2, 4, 4))
    c = tg.compile(f, native=False)
    with np.errstate(all="ignore"):
        c.hvp(other, v)
    wanted = tg.hvp(same)(a, v)
    found = {
        "reverse over reverse": tg.hvp(f)(a, v),
        "forward over reverse": tg.jvp(tg.grad(f), (a,), (v,))[1],
        "reverse over forward": tg.grad(lambda a: tg.jvp(f, (a,), (v,))[1])(a),
        "compiled": c.hvp(a, v),
        "batched": tg.vmap(tg.hvp(f))(np.stack([a, a]), np.stack([v, v]))[1],
        "by rows": (tg.hessian(f)(a).reshape(16, 16) @ v.ravel()).reshape(4, 4),
    }
    for way, product in found.items():
        np.testing.assert_allclose(product, wanted, rtol=1e-10, atol=1e-10, err_msg=way)


def test_equal_values_move_apart():
    """Forward mode gives the derivatives from one side, in order."""
    v = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 5.0]])
    moved = tg.jvp(np.linalg.eigvalsh, (TWICE,), (v,))[1]
    np.testing.assert_allclose(moved, [-1.0, 1.0, 5.0], atol=1e-14)


def space(a):
    """The projector on the space of the two smaller eigenvalues."""
    v = np.linalg.eigh(a)[1][:, :2]
    return v @ v.T


@pytest.mark.filterwarnings("ignore:tapegrad.compile.*has equal values")
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6])
def test_what_does_not_depend_on_the_basis(gap, rng):
    """Projectors, against the same of the resolvent: contour integrals without eigenvectors."""
    weights = rng.normal(size=(4, 4))
    a = rotated(rng, np.array([1.0, 1.0 + gap, 3.0, 4.0]))
    v = rng.normal(size=(4, 4))
    found = tg.grad(lambda a: np.sum(space(a) * weights))(a)
    points = 1.0 + 1.2 * np.exp(2j * np.pi * (np.arange(400) + 0.5) / 400)

    def wanted(b):
        parts = [(z - 1.0) * np.linalg.inv(z * np.eye(4) - b) for z in points]
        return np.sum(np.mean(parts, axis=0).real * weights)

    symmetric = 0.5 * (v + v.T)
    h = 1e-4
    at = [wanted(a + k * h * symmetric) for k in (-2, -1, 1, 2)]
    slope = (8.0 * (at[2] - at[1]) - (at[3] - at[0])) / (12.0 * h)
    np.testing.assert_allclose(np.sum(found * v), slope, rtol=1e-6)
    c = tg.compile(lambda a: np.sum(space(a) * weights), native=False)
    c.grad(rotated(rng, np.array([1.0, 2.0, 3.0, 4.0])))
    np.testing.assert_allclose(c.grad(a), found, rtol=1e-6, atol=1e-6)
    tangent = tg.jvp(lambda a: np.sum(space(a) * weights), (a,), (v,))[1]
    np.testing.assert_allclose(tangent, slope, rtol=1e-6)


def test_the_polar_factor_where_singular_values_are_equal(rng):
    """u vᵀ is a function of the matrix: the solution of a Sylvester equation gives its tangent."""
    p, q = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    a, weights, v = (p * [2.0, 2.0, 1.0]) @ q.T, rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def f(a):
        u, _, vh = np.linalg.svd(a)
        return np.sum(u @ vh * weights)

    def newton(a):
        for _ in range(30):
            a = 0.5 * (a + np.linalg.inv(a).T)
        return np.sum(a * weights)

    wanted = (newton(a + 1e-5 * v) - newton(a - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(np.sum(tg.grad(f)(a) * v), wanted, rtol=1e-7)
    np.testing.assert_allclose(tg.jvp(f, (a,), (v,))[1], wanted, rtol=1e-7)


def test_zero_singular_values():
    a = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    for f, wanted in (
        (lambda a: np.sum(np.linalg.svdvals(a) ** 2), 2.0 * a),
        (lambda a: np.linalg.svd(a, full_matrices=False)[1][0], a / 15.0),
    ):
        for one, expected in ((a, wanted), (a.T, wanted.T)):
            np.testing.assert_allclose(tg.grad(f)(one), expected, atol=1e-13)


WARNED = {
    "a vector": lambda a: np.sum(np.linalg.eigh(a)[1][:, 0] * np.arange(3.0)),
    "a matrix function": lambda a: np.sum(
        (np.linalg.eigh(a)[1] * np.exp(np.linalg.eigh(a)[0])) @ np.linalg.eigh(a)[1].T * W[:3, :3]
    ),
    "singular vectors": lambda a: np.sum(np.linalg.svd(a)[0] * W[:3, :3]),
    "other columns": lambda a: np.sum(np.linalg.svd(a[:, :1])[0] * W[:3, :3]),
    "others of qr": lambda a: np.sum(np.linalg.qr(a[:, :1], "complete")[0] * W[:3, :3]),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_depends_on_the_basis_warns(name):
    with pytest.warns(RuntimeWarning, match=r"tapegrad\.(eigh|svd|qr): .*eigvalsh or svdvals"):
        found = tg.grad(WARNED[name])(TWICE)
    assert np.all(np.isfinite(found))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.grad(WARNED["a vector"])(np.diag([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("name", [name for name in WARNED if "other" not in name])
def test_programs_leave_equal_values_to_calls_that_warn(name):
    c = tg.compile(WARNED[name], native=False)
    for k in (1.0, 2.0):
        a = k * np.array([[2.0, 1.0, 0.5], [1.0, 5.0, 0.2], [0.5, 0.2, 9.0]])
        np.testing.assert_allclose(c.grad(a), tg.grad(WARNED[name])(a), atol=1e-12)
    with pytest.warns(RuntimeWarning) as seen:
        found = c.grad(TWICE)
    assert any("has equal values, and only eager calls can warn" in str(w.message) for w in seen)
    assert any("eigvalsh or svdvals" in str(w.message) for w in seen)
    with pytest.warns(RuntimeWarning, match="eigvalsh or svdvals"):
        np.testing.assert_array_equal(found, tg.grad(WARNED[name])(TWICE))


def test_a_function_of_a_multiple_of_the_identity_warns():
    """Derivatives of the values agree; those of the vectors tell that there is more."""
    weights = np.array([[1.0, 3.0], [3.0, 1.0]])

    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * np.exp(w)) @ v.T * weights)

    with pytest.warns(RuntimeWarning, match="may be that of a function of the matrix"):
        tg.grad(f)(2.0 * np.eye(2))


# --- input ----------------------------------------------------------------------------------------

BAD = {
    "not square": ("eigh", np.ones((2, 3)), np.linalg.LinAlgError),
    "a vector": ("eigh", np.ones(3), np.linalg.LinAlgError),
    "values of a vector": ("eigvalsh", np.ones(3), np.linalg.LinAlgError),
    "svd of a vector": ("svd", np.ones(3), np.linalg.LinAlgError),
    "svd of a number": ("svdvals", np.float64(3.0), np.linalg.LinAlgError),
    "qr of a vector": ("qr", np.ones(3), np.linalg.LinAlgError),
    "NaN": ("svd", np.full((2, 2), np.nan), np.linalg.LinAlgError),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_numpy_s_error(name):
    function, a, error = BAD[name]
    call = getattr(np.linalg, function)
    with pytest.raises(error) as theirs:
        call(a)
    with pytest.raises(error) as ours:
        tg.grad(lambda a: np.sum(call(a)[0]))(a)
    assert str(ours.value) == str(theirs.value)


def test_what_numpy_raises_in_a_program():
    c = tg.compile(lambda a: np.sum(np.linalg.svdvals(a)), native=False)
    good, bad = np.diag([1.0, 3.0]), np.array([[1.0, np.nan], [0.0, 1.0]])
    for _ in range(2):
        np.testing.assert_allclose(c.grad(good), np.eye(2), atol=1e-15)
        with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
            c.grad(bad)


def test_arguments():
    a = tg.tensor(np.diag([1.0, 2.0]), requires_grad=True)
    with pytest.raises(ValueError, match="UPLO argument must be 'L' or 'U'"):
        np.linalg.eigh(a, "X")
    with pytest.raises(ValueError, match="Unrecognized mode"):
        np.linalg.qr(a, "other")
    with pytest.raises(TypeError, match="tapegrad.qr: mode='raw' has no derivative"):
        np.linalg.qr(a, "raw")
    np.testing.assert_array_equal(np.linalg.qr(a.detach(), "raw")[1], np.zeros(2))
    assert type(np.linalg.eigh(a)) is type(np.linalg.eigh(np.eye(2)))
    assert type(np.linalg.svd(a)) is type(np.linalg.svd(np.eye(2)))
    assert type(np.linalg.qr(a)) is type(np.linalg.qr(np.eye(2)))
    assert np.linalg.eigvalsh(a, "u").grad_fn is not None


def test_columns_that_depend_on_others_have_no_derivative_of_qr():
    a = np.ones((3, 2))
    with pytest.raises(np.linalg.LinAlgError):
        tg.grad(lambda a: np.sum(np.linalg.qr(np.zeros((3, 2)) * a).R))(a)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 2, 2), (1, 1), (2, 1, 3)])
def test_small_and_empty(shape, rng):
    x = rng.normal(size=shape)
    calls = [
        lambda x: np.linalg.svd(x)[0],
        lambda x: np.linalg.svd(x)[2],
        lambda x: np.linalg.svd(x, full_matrices=False)[2],
        np.linalg.svdvals,
        lambda x: np.linalg.qr(x)[1],
        lambda x: np.linalg.qr(x, "complete")[0] ** 2,
    ]
    if shape[-1] == shape[-2]:
        calls += [np.linalg.eigvalsh, lambda x: np.linalg.eigh(x)[1]]
    for call in calls:
        np.testing.assert_allclose(call(tg.tensor(x)).numpy(), call(x))
        total = lambda x, call=call: np.sum(call(x) ** 2) + np.sum(x)
        c = tg.compile(total, native=False)
        for _ in range(2):
            value, gradient = c.value_and_grad(x)
            np.testing.assert_allclose(value, total(x), atol=1e-14)
            np.testing.assert_allclose(gradient, tg.grad(total)(x), atol=1e-13)

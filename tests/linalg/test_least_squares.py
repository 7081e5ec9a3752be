"""Pseudo-inverses, least squares, condition numbers and spectral norms: PyTorch, closed forms."""

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized
from test_spectral import PLAIN, SQUARE, TALL, WIDE, S, T, both

import tapegrad as tg


def of_shape(matrix):
    return [
        both("L.pinv(A)", *matrix),
        both("L.pinv(A) @ np.sin(A)", *matrix),
        Expression(
            f"np.linalg.lstsq({matrix[0]}, {matrix[0]}[:, 0] ** 2)[0]",
            f"torch.linalg.pinv({matrix[1]}) @ {matrix[1]}[:, 0] ** 2",
            **PLAIN,
        ),
        Expression(
            f"np.linalg.lstsq({matrix[0]}, np.sin({matrix[0]}))[0]",
            f"torch.linalg.pinv({matrix[1]}) @ torch.sin({matrix[1]})",
            **PLAIN,
        ),
        Expression(
            f"np.linalg.lstsq({matrix[0]}, {matrix[0]}[:, 0])[3]",
            f"torch.linalg.svdvals({matrix[1]})",
            **PLAIN,
        ),
        both("L.cond(A)", *matrix),
        both("L.cond(A, -2)", *matrix),
        both("L.norm(A, 2)", *matrix),
        both("L.norm(A, -2)", *matrix),
        both("L.norm(A, 'nuc')", *matrix),
    ]


TABLE = [
    *of_shape(WIDE),
    *of_shape(TALL),
    *of_shape(SQUARE),
    Expression(
        f"np.linalg.lstsq({TALL[0]}, x.T)[1]",
        f"((x.T - {TALL[1]} @ (torch.linalg.pinv({TALL[1]}) @ x.T)) ** 2).sum(0)",
        **PLAIN,
    ),
    Expression(
        f"np.linalg.pinv({S}, hermitian=True)", f"torch.linalg.pinv({T}, hermitian=True)", **PLAIN
    ),
    Expression(f"np.linalg.pinv({S}, rtol=None)", f"torch.linalg.pinv({T})", **PLAIN),
    both("L.pinv(np.stack([A, np.sin(A)]))", *WIDE),
    Expression(
        "np.linalg.norm(np.stack([x, np.sin(x)]), 2, (0, 2), True)",
        "torch.linalg.matrix_norm(torch.stack([x, torch.sin(x)]), 2, (0, 2), True)",
        **PLAIN,
    ),
    *[
        Expression(
            f"np.linalg.cond({SQUARE[0]}, {p})",
            f"torch.linalg.norm({SQUARE[1]}, {p}) * torch.linalg.norm(torch.linalg.inv("
            f"{SQUARE[1]}), {p})",
            **PLAIN,
        )
        for p in ("1", "-1", "float('inf')", "-float('inf')", "'fro'", "'nuc'")
    ],
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts([TABLE[0], TABLE[2], TABLE[12]])
def test_native(part):
    check_native(part)


# --- matrices of less than full rank --------------------------------------------------------------


def low(p):
    """Of rank 2, wide or tall."""
    return p[:, :2] @ p[:2]


def inverse_of_low(p):
    b, c = p[:, :2], p[:2]
    return c.T @ np.linalg.inv(c @ c.T) @ np.linalg.inv(b.T @ b) @ b.T


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_matrices_of_one_rank(shape, rng):
    """Along matrices of rank 2 all derivatives are those of the closed form."""
    p, other, v = rng.normal(size=(3, *shape))
    b = rng.normal(size=(shape[0], 2))
    weights, sides = rng.normal(size=shape[::-1]), rng.normal(size=(shape[1], 2))
    pairs = [
        (lambda p: np.linalg.pinv(low(p), 1e-10) * weights, lambda p: inverse_of_low(p) * weights),
        (
            lambda p: np.linalg.lstsq(low(p), b + p[0, 0])[0] * sides,
            lambda p: inverse_of_low(p) @ (b + p[0, 0]) * sides,
        ),
    ]
    for ours, theirs in pairs:
        f, wanted = (lambda p, g=g: np.sum(np.sin(g(p))) for g in (ours, theirs))
        c = tg.compile(f, native=False)
        c.grad(other), c.hvp(other, v)
        product = tg.hvp(wanted)(p, v)
        for found, expected in (
            (tg.grad(f)(p), tg.grad(wanted)(p)),
            (c.grad(p), tg.grad(wanted)(p)),
            (tg.hvp(f)(p, v), product),
            (c.hvp(p, v), product),
        ):
            scale = np.max(np.abs(expected))
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * scale)


def test_the_zero_matrix():
    zero = np.zeros((3, 2))
    np.testing.assert_array_equal(tg.grad(lambda a: np.sum(np.linalg.pinv(a)))(zero), 0.0)
    b = np.ones(3)
    gradient = tg.grad(lambda a: np.sum(np.linalg.lstsq(a, b)[0]))(zero)
    np.testing.assert_array_equal(gradient, 0.0)
    np.testing.assert_array_equal(tg.grad(lambda a: np.linalg.norm(a, 2))(zero), 0.0)
    np.testing.assert_array_equal(tg.grad(lambda a: np.linalg.norm(a, "nuc"))(zero), 0.0)


def test_equal_largest_singular_values_share_the_derivative():
    np.testing.assert_allclose(tg.grad(lambda a: np.linalg.norm(a, 2))(np.eye(3)), np.eye(3) / 3)


# --- what is not differentiated -------------------------------------------------------------------


def test_ranks():
    a = tg.tensor(np.diag([1.0, 1e-3, 0.0]), requires_grad=True)
    assert np.linalg.matrix_rank(a) == 2
    assert np.linalg.matrix_rank(a, 0.1) == 1
    assert np.linalg.matrix_rank(a, rtol=tg.tensor(0.1)) == 1
    assert np.linalg.matrix_rank(tg.tensor(2.0)) == 1
    c = tg.compile(lambda a: np.sum(a) * np.linalg.matrix_rank(a), native=False)
    for _ in range(2):
        assert c(np.eye(3)) == 9.0
        assert c(np.diag([1.0, 2.0, 0.0])) == 6.0
        np.testing.assert_array_equal(c.grad(np.eye(3)), 3.0)


def test_what_lstsq_gives(rng):
    """All four results as NumPy's; the rank decides about the second, in programs too."""
    for m, n in ((4, 2), (3, 3), (2, 4), (0, 2), (3, 0)):
        a, b = rng.normal(size=(m, n)), rng.normal(size=m)
        for given in ((a, b), (a, np.stack([b, b], 1)), (np.outer(b, np.arange(n)), b)):
            wanted = np.linalg.lstsq(*given)
            for place in range(2):
                operands = list(given)
                operands[place] = tg.tensor(given[place], requires_grad=True)
                found = np.linalg.lstsq(*operands)
                for ours, theirs in zip(found, wanted, strict=True):
                    ours = ours.detach().numpy() if isinstance(ours, tg.Tensor) else ours
                    assert np.shape(ours) == np.shape(theirs)
                    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    c = tg.compile(lambda a: np.sum(np.linalg.lstsq(a, np.arange(3.0))[1]), native=False)
    full, less = rng.normal(size=(3, 2)), np.ones((3, 2))
    for a in (full, less, full, less):
        wanted = np.sum(np.linalg.lstsq(a, np.arange(3.0))[1])
        np.testing.assert_allclose(c(a), wanted, atol=1e-12)
        np.testing.assert_array_equal(c.grad(a) == 0.0, np.full((3, 2), wanted == 0.0))


@pytest.mark.parametrize(
    "a,b", [((3, 2), (2,)), ((2, 3, 3), (3,)), ((3,), (3,)), ((3, 2), (3, 1, 1))]
)
def test_shapes_that_lstsq_refuses(a, b, rng):
    a, b = rng.normal(size=a), rng.normal(size=b)
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        np.linalg.lstsq(a, b)
    with pytest.raises(np.linalg.LinAlgError) as ours:
        tg.grad(lambda a: np.sum(np.linalg.lstsq(a, b)[0]))(a)
    assert str(ours.value) == str(theirs.value)


def test_arguments(rng):
    a = tg.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    with pytest.raises(ValueError, match="can't be both set"):
        np.linalg.pinv(a, 1e-3, rtol=1e-3)
    with pytest.raises(TypeError, match="tapegrad.pinv: rcond is recorded"):
        np.linalg.pinv(a, a[0, 0])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.pinv(a[0])
    with pytest.raises(ValueError, match="is not a norm of matrices"):
        np.linalg.norm(a, 3)
    stack = np.stack([np.diag([1.0, 0.1]), np.diag([1.0, 0.01])])
    recorded = tg.tensor(stack, requires_grad=True)
    for cut in (0.05, [0.05, 0.005], np.array([0.2, 0.2])):
        found = np.linalg.pinv(recorded, cut)
        np.testing.assert_array_equal(found.detach().numpy(), np.linalg.pinv(stack, cut))
        c = tg.compile(lambda x, cut=cut: np.sum(np.linalg.pinv(x, cut) ** 2), native=False)
        for _ in range(2):
            np.testing.assert_allclose(c(stack), np.sum(np.linalg.pinv(stack, cut) ** 2))


def test_a_singular_matrix_has_no_condition():
    with pytest.raises(np.linalg.LinAlgError, match="tapegrad.cond: Singular matrix"):
        tg.grad(lambda a: np.linalg.cond(a, 1))(np.ones((2, 2)))
    value, gradient = tg.value_and_grad(np.linalg.cond)(np.diag([1.0, 0.0]))
    assert value == np.inf
    np.testing.assert_array_equal(gradient, 0.0)
    with pytest.raises(np.linalg.LinAlgError, match="cond is not defined on empty arrays"):
        tg.grad(lambda a: np.linalg.cond(a) + np.sum(a))(np.zeros((0, 2)))


@pytest.mark.parametrize("f", [np.linalg.pinv, lambda a: np.linalg.lstsq(a, a[:, 0] * 0 + 1)[0]])
def test_float32_stays(f):
    a = np.random.default_rng(3).normal(size=(4, 3))
    single = a.astype(np.float32)
    found = f(tg.tensor(single, requires_grad=True))
    assert found.dtype == f(single).dtype == np.float32
    np.testing.assert_allclose(found.detach().numpy(), f(single), rtol=1e-6)
    gradient = tg.grad(lambda a: np.sum(f(a) ** 2))
    assert gradient(single).dtype == np.float32
    np.testing.assert_allclose(gradient(single), gradient(a), rtol=1e-4, atol=1e-4)


def test_no_right_hand_sides():
    """The rank and the singular values are those of the matrix."""
    a = np.random.default_rng(3).normal(size=(4, 3))
    x, _, rank, s = np.linalg.lstsq(tg.tensor(a, requires_grad=True), np.zeros((4, 0)))
    wanted = np.linalg.lstsq(a, np.zeros((4, 0)))
    assert x.shape == (3, 0) and rank == wanted[2] == 3
    np.testing.assert_allclose(s.detach().numpy(), wanted[3])

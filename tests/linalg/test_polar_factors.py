"""The polar decomposition and orthogonal Procrustes problems, against SciPy and differences."""

import numpy as np
import pytest
import scipy.linalg
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.scipy import linalg


def expression(text, shape=(4, 3), **fields):
    return Expression(text, None, shape, names={"linalg": linalg}, choices=False, **fields)


T = "(x + np.eye(4, 3))"
TABLE = [
    expression(f"linalg.polar({T})[0]"),
    expression(f"linalg.polar({T})[1]"),
    expression(f"linalg.polar({T}, 'left')[0]"),
    expression(f"linalg.polar({T}, 'left')[1]"),
    expression(f"linalg.polar({T}.T, side='right')[1]"),
    expression(f"linalg.polar({T}.T, side='left')[1] @ linalg.polar({T}[:3])[0]"),
    expression("linalg.polar(3.0 * np.eye(3) + 0.0 * x[:3])[0]"),
    expression("linalg.polar(np.stack([x[:3] + 2.0 * np.eye(3), np.eye(3)]))[1]"),
    expression("linalg.polar(x[:, :1])[0]"),
    expression("linalg.orthogonal_procrustes(np.tri(4, 3), x - 1.0)[0]"),
    expression("linalg.orthogonal_procrustes(np.tri(4, 3), x - 1.0)[1]"),
    expression("linalg.orthogonal_procrustes(x + np.tri(4, 3), x[::-1] ** 2)[0]"),
]


@parametrized(TABLE)
def test_derivatives(expression):
    CHECKS["derivatives"](expression)


@native_parts(TABLE[1::3])
def test_programs_of_all(part):
    check_native(part)


def test_values_are_scipys(rng):
    for shape in [(4, 3), (3, 4), (3, 3)]:
        a = rng.normal(size=shape)
        for side in ("left", "right"):
            theirs = scipy.linalg.polar(a, side)
            ours = tg.vjp(lambda a, side=side: linalg.polar(a, side), a)[0]
            for one, two in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)
    a, b = rng.normal(size=(2, 5, 3))
    theirs = scipy.linalg.orthogonal_procrustes(a, b)
    r, scale = tg.vjp(lambda a: linalg.orthogonal_procrustes(a, b), a)[0]
    np.testing.assert_allclose(r, theirs[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(scale, theirs[1], rtol=1e-12)


def test_invariants(rng):
    """u does not change with the size of a, and p is even: p(−a) = p(a)."""
    a = rng.normal(size=(3, 3))
    slope = tg.grad(lambda t: np.sum(linalg.polar(t * a)[0] * np.arange(9.0).reshape(3, 3)))(2.0)
    assert abs(slope) < 1e-13
    slope = tg.grad(lambda t: np.trace(linalg.polar(t * a)[1]))(2.0)
    np.testing.assert_allclose(slope, np.sum(scipy.linalg.svdvals(a)))


def test_without_full_rank():
    a = np.diag([1.0, 0.0, 0.0])
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tg.grad(lambda a: np.sum(linalg.polar(a)[0]))(a)


def test_bad_arguments():
    a = tg.tensor(np.eye(3), requires_grad=True)
    with pytest.raises(ValueError, match="must be either"):
        linalg.polar(a, "up")
    with pytest.raises(ValueError, match="2-D"):
        linalg.polar(a[0])
    with pytest.raises(ValueError, match="differ"):
        linalg.orthogonal_procrustes(a, a[:2])
    with pytest.raises(ValueError, match="infs or NaNs"):
        linalg.polar(a * np.nan)

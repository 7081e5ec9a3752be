"""Condition numbers and ranks of matrices, under NumPy's names."""

from __future__ import annotations

import operator

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import function
from ..tensor.trace import fixed, named, steered, tensor_like
from ..tensor.values import differentiates, is_tensor, shape_of
from .inverses import inv
from .norms import check_order, norm
from .singular_values import svdvals


@function("linalg.cond")
def cond(x, p=None):
    """Compute the condition numbers of matrices.

    Parameters
    ----------
    x : array_like, shape (…, M, N)
        Matrices.
    p : number or str, optional
        None or 2: the largest singular value divided by the smallest; −2: the reverse; other orders
        of `norm`: the norm of the matrix times that of its inverse.

    Raises
    ------
    numpy.linalg.LinAlgError
        If matrices have no elements or, for the other orders, if a recorded matrix is singular.

    Notes
    -----
    Where the smallest singular value is 0, the condition number is inf and its derivative 0.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.linalg.cond)(np.diag([4.0, 2.0]))
    array([[ 0.5,  0. ],
           [ 0. , -1. ]])
    """
    x = unlisted(x)
    check_order("cond", p)
    if not differentiates(x) or 0 in shape_of(x)[-2:]:
        return tensor_like(steered(np.linalg.cond, x, p=p), x)
    if p is None or p in (2, -2):
        return _by_singular_values(x, p == -2)
    try:
        inverse = inv(x)
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(
            f"tapegrad.cond: {error}; its condition number for p={p!r} is inf and has no "
            "derivative; use detach() for the value"
        ) from error
    sizes = [norm(matrix, p, axis=(-2, -1)) for matrix in (x, inverse)]
    return _or_infinite(apply("multiply", *sizes), x)


def _by_singular_values(x, reversed):
    """The quotient of singular values; infinity for matrices with infinities, which have none."""
    infinite = steered(_holds_infinity, x)
    if fixed(steered(np.any, infinite), "infinities in cond()"):
        made = _by_singular_values(apply("where", infinite, 1.0, x), reversed)
        return apply("where", infinite[..., 0, 0], np.inf, made)
    s = svdvals(x)
    largest, smallest = s[..., 0], s[..., -1]
    made = _ratio(smallest, largest) if reversed else _ratio(largest, smallest)
    return _or_infinite(made, x)


@named("conditions.holds_infinity")
def _holds_infinity(a):
    """Whether matrices hold infinities and no NaN, with two axes of length 1."""
    infinite, nan = (f(a).any(axis=(-2, -1), keepdims=True) for f in (np.isinf, np.isnan))
    return infinite & ~nan


def _ratio(x, y):
    """x / y, inf where y is 0 without a derivative there, as NumPy has 0 / 0 too."""
    zero = steered(operator.eq, y, 0)
    return apply("where", zero, np.inf, apply("divide", x, apply("where", zero, 1.0, y)))


def _or_infinite(condition, a):
    """Infinity, without derivative, where a norm or a quotient of finite elements overflows."""
    return apply("where", steered(_undefined, condition, a), np.inf, condition)


@named("conditions.undefined")
def _undefined(condition, a):
    """The places where a condition number is NaN although no element is."""
    return np.isnan(condition) & ~np.isnan(a).any(axis=(-2, -1))


@named("conditions.rank")
def _rank(a, *limits, names, hermitian):
    chosen = dict(zip(names, limits, strict=True))
    return np.asarray(np.linalg.matrix_rank(a, hermitian=hermitian, **chosen))


@function("linalg.matrix_rank")
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    """Compute the ranks of matrices. They have no derivative.

    Parameters
    ----------
    A : array_like, shape (…, M, N)
        Matrices.
    tol : number, optional
        Singular values of at most `tol` count as 0.
    rtol : number, optional
        Singular values of at most `rtol` times the largest count as 0.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> int(np.linalg.matrix_rank(tg.tensor([[1.0, 2.0], [2.0, 4.0]])))
    1
    """
    A = unlisted(A)
    limits = {name: x for name, x in (("tol", tol), ("rtol", rtol)) if x is not None}
    if not any(map(is_tensor, (A, *limits.values()))):
        return np.linalg.matrix_rank(A, tol, hermitian, rtol=rtol)
    return steered(_rank, A, *limits.values(), names=tuple(limits), hermitian=hermitian)

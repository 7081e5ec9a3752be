"""Norms, condition numbers and ranks, under NumPy's names."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted, view_like
from ..tensor.registry import function
from ..tensor.trace import fixed, lost_derivative, named, steered, tensor_like
from ..tensor.values import differentiates, is_tensor, scalar_of, shape_of, value_of
from .einsum import as_tensor
from .inverses import inv
from .reductions import axes_of, kept_shape, plain, root
from .reductions import sum as sum_of
from .shapes import moveaxis, ravel, reshape, transpose
from .singular_values import svdvals
from .without_derivative import unrecorded

# --- Norms of vectors and matrices, NumPy's `linalg.norm` -----------------------------------------


@function("linalg.norm", public="norm")
def norm(x, ord=None, axis=None, keepdims=False):
    """Compute the norms of vectors or matrices.

    Parameters
    ----------
    ord : number or str, optional
        For vectors: None or 2 (Euclidean), 1, inf, −inf, 0 or any number p. Of matrices (two axes,
        or an `ord` and an operand with two axes): None or "fro", 1, −1, inf, −inf, and by singular
        values 2, −2 and "nuc".
    axis : int or pair of ints, optional
        The axis of vectors, or the axes of matrices.

    Raises
    ------
    ValueError
        If the order is not known.

    Notes
    -----
    Where the norm is 0, the derivative is 0. Largest or smallest elements that are equal share the
    derivative evenly.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.norm(tg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = unlisted(x)
    check_order("norm", ord)
    if not differentiates(x) or 0 in shape_of(x):
        return plain(np.linalg.norm, x, ord=ord, axis=axis, keepdims=keepdims)
    x = as_tensor("norm", x)
    ndim = len(shape_of(x))
    if axis is None and ord is not None and ndim not in (1, 2):
        raise ValueError(
            f"tapegrad.norm: ord={ord!r} for an operand of shape {shape_of(x)}; pass one axis for "
            "vectors or two for matrices"
        )
    check_axis("norm", axis)
    all_axes = axis is None and ord is None
    axes = axes_of("norm", axis, ndim)
    if (
        all_axes
        or (len(axes) == 1 and ord in (None, 2))
        or (len(axes) == 2 and ord in (None, "fro"))
    ):
        return root(_total(apply("square", x), axes, keepdims))
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        pair = axis if axis is not None else (0, 1)
        return _matrix_norm(x, ord, [k % ndim for k in pair], keepdims)
    raise ValueError(f"tapegrad.norm: axis={axis!r} has {len(axes)} axes; it must have one or two")


def check_order(name, ord):
    """Refuse an order that is recorded."""
    if differentiates(ord):
        raise lost_derivative(
            f"tapegrad.{name}: ord is recorded, so its derivative would be lost; use detach(), or "
            "write the norm as a sum of powers",
            ord,
        )


def check_axis(name, axis):
    """Refuse an axis that is not an integer, whose fraction NumPy's norms ignore."""
    if isinstance(axis, float):
        raise TypeError(f"tapegrad.{name}: axis is {axis!r}; it must be an integer")


def _total(x, axes, keepdims):
    return x if not axes else sum_of(x, axis=axes, keepdims=keepdims)


def _vector_norm(x, ord, axes, keepdims):
    if isinstance(ord, str) or not np.isscalar(ord):
        raise ValueError(f"tapegrad.norm: ord={ord!r} is not a norm of vectors")
    size = apply("absolute", x)
    if math.isinf(ord):
        return _extreme(size, axes, keepdims, largest=ord > 0)
    if ord == 1:
        return _total(size, axes, keepdims)
    if ord == 0:
        count = steered(np.linalg.norm, x, 0, axes[0], keepdims)
        nothing = apply("where", np.zeros(shape_of(size), bool), size, 0.0)
        return _total(nothing, axes, keepdims) + count
    zero = steered(operator.eq, size, 0)
    apart = apply("where", zero, 1.0, size)
    powers = apply("where", zero, 0.0 if ord > 0 else np.inf, apply("power", apart, float(ord)))
    total = _total(powers, axes, keepdims)
    if ord > 0:
        return root(total, 1.0 / ord)
    return apply("power", total, 1.0 / ord)


def _extreme(size, axes, keepdims, largest):
    """The largest or smallest along axes; equal ones share the derivative."""
    values = value_of(size)
    if not values.size:
        raise ValueError(
            f"tapegrad.norm: the operand of shape {values.shape} has no largest element"
        )
    chosen = steered(_chosen, size, axes=axes, largest=largest)
    count = steered(_count, chosen, axes=axes, keepdims=keepdims, dtype=values.dtype)
    return apply("divide", _total(apply("where", chosen, size, 0.0), axes, keepdims), count)


@named("norms.chosen")
def _chosen(values, axes, largest):
    """The elements that are the largest or smallest along axes; all where there is a NaN."""
    best = (np.max if largest else np.min)(values, axis=axes, keepdims=True)
    return (values == best) | np.isnan(best)


@named("norms.count")
def _count(chosen, axes, keepdims, dtype):
    return np.sum(chosen, axis=axes, keepdims=keepdims).astype(dtype)


def _matrix_norm(x, ord, axes, keepdims):
    rows, columns = axes
    if ord in (2, -2, "nuc"):
        return _spectral_norm(x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"tapegrad.norm: ord={ord!r} is not a norm of matrices")
    summed, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
    lines = sum_of(apply("absolute", x), axis=summed, keepdims=True)
    largest = _extreme(lines, (rest,), True, ord > 0)
    if keepdims:
        return largest
    kept = [n for k, n in enumerate(largest.shape) if k not in axes]
    return scalar_of(view_like(largest, value_of(largest).reshape(kept)))


def _spectral_norm(x, ord, axes, keepdims):
    """A norm of the singular values."""
    s = svdvals(moveaxis(x, axes, (-2, -1)))
    if ord == "nuc":
        found = sum_of(s, axis=-1)
    else:
        found = _extreme(s, (len(shape_of(s)) - 1,), False, ord > 0)
    found = apply("where", steered(operator.eq, found, 0), 0.0, found)
    if not keepdims:
        return found
    return reshape(found, [1 if k in axes else n for k, n in enumerate(shape_of(x))])


# --- names of the array API ----------------------------------------------------------------------


@function("linalg.vector_norm")
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Compute the norms of vectors.

    Parameters
    ----------
    axis : int or tuple of ints, optional
        The axes that a vector has; by default all.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.vector_norm(tg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = unlisted(x)
    check_order("vector_norm", ord)
    if not differentiates(x):
        return unrecorded(np.linalg.vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)
    x, shape = as_tensor("vector_norm", x), shape_of(x)
    check_axis("vector_norm", axis)
    axes = axes_of("vector_norm", axis, len(shape))
    kept = [k for k in range(len(shape)) if k not in axes]
    moved = x if not kept or len(axes) == 1 else transpose(x, (*axes, *kept))
    if not kept:
        made = norm(ravel(moved), ord, 0)
    elif len(axes) == 1:
        made = norm(moved, ord, axes[0])
    else:
        made = norm(reshape(moved, (-1, *[shape[k] for k in kept])), ord, 0)
    return reshape(made, kept_shape(shape, axes)) if keepdims else made


@function("linalg.matrix_norm")
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Compute the norms of the matrices along the last two axes."""
    x = unlisted(x)
    check_order("matrix_norm", ord)
    if not differentiates(x):
        return unrecorded(np.linalg.matrix_norm, x, keepdims=keepdims, ord=ord)
    return norm(x, ord, (-2, -1), keepdims)


# --- Condition numbers and ranks of matrices, under NumPy's names ---------------------------------


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


@named("norms.holds_infinity")
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


@named("norms.undefined")
def _undefined(condition, a):
    """The places where a condition number is NaN although no element is."""
    return np.isnan(condition) & ~np.isnan(a).any(axis=(-2, -1))


@named("norms.rank")
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

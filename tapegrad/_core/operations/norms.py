"""Norms of vectors and matrices, NumPy's `linalg.norm`."""

from __future__ import annotations

import math
import operator

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted, view_like
from ..tensor.registry import function
from ..tensor.trace import lost_derivative, named, steered
from ..tensor.values import differentiates, scalar_of, shape_of, value_of
from .einsum import as_tensor
from .reductions import axes_of, kept_shape, plain, root
from .reductions import sum as sum_of
from .shapes import moveaxis, ravel, reshape, transpose
from .singular_values import svdvals
from .unrecorded import unrecorded


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

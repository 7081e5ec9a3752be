"""Cross products; products of matrices and vectors; further names of NumPy's linalg."""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.registry import OF_NUMPY, function
from ..tensor.values import differentiates, shape_of
from .einsum import as_tensor
from .joining import checked_axis, stack
from .linear_algebra import matmul, outer, trace
from .shapes import diagonal, matrix_transpose, moveaxis
from .unrecorded import unrecorded


@function("cross")
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Compute cross products of vectors with 3 or 2 elements.

    The cross product of two vectors with 2 elements is the third element alone.

    Parameters
    ----------
    axisa, axisb, axisc : int, optional
        The axes of the vectors in `a`, `b` and the result.
    axis : int, optional
        The same axis for all three.
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b):
        options = dict(axisa=axisa, axisb=axisb, axisc=axisc, axis=axis)
        return unrecorded(np.cross, a, b, **options)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = as_tensor("cross", a), as_tensor("cross", b)
    parts = []
    for x, along in ((a, axisa), (b, axisb)):
        if not shape_of(x):
            raise ValueError("tapegrad.cross: an operand has no axes; it must be a vector")
        parts.append(moveaxis(x, checked_axis("cross", along, len(shape_of(x))), -1))
    a, b = parts
    sizes = shape_of(a)[-1], shape_of(b)[-1]
    if not {*sizes} <= {2, 3}:
        raise ValueError(
            f"tapegrad.cross: the vectors have {sizes[0]} and {sizes[1]} elements; they must have "
            "2 or 3"
        )
    if 2 in sizes:
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors "
            "instead. (deprecated in NumPy 2.0)",
            DeprecationWarning,
            stacklevel=3,
        )
    made = _cross(a, b)
    if sizes == (2, 2):
        return made[2]
    made = stack(made, -1)
    return moveaxis(made, -1, checked_axis("cross", axisc, len(shape_of(made))))


def _cross(a, b):
    """The three elements of the cross product; a third one that is missing counts as 0."""

    def product(i, j):
        missing = i >= shape_of(a)[-1] or j >= shape_of(b)[-1]
        return None if missing else apply("multiply", a[..., i], b[..., j])

    def difference(p, q):
        if q is None:
            return p
        return apply("negative", q) if p is None else apply("subtract", p, q)

    third = difference(product(0, 1), product(1, 0))
    if shape_of(a)[-1] == shape_of(b)[-1] == 2:
        return None, None, third
    first = difference(product(1, 2), product(2, 1))
    return first, difference(product(2, 0), product(0, 2)), third


def _checked_pair(name, matrix, vector):
    if len(shape_of(matrix)) < 2 or not shape_of(vector):
        raise ValueError(
            f"tapegrad.{name}: got a matrix of shape {shape_of(matrix)} and a vector of shape "
            f"{shape_of(vector)}; they must have at least 2 axes and at least 1 axis"
        )


@function("matvec")
def matvec(x1, x2):
    """Multiply matrices (…, M, N) by vectors (…, N); other axes broadcast."""
    a, x = unlisted(x1), unlisted(x2)
    if not differentiates(a, x):
        return unrecorded(np.matvec, a, x)
    a, x = as_tensor("matvec", a), as_tensor("matvec", x)
    _checked_pair("matvec", a, x)
    return matmul(a, x[..., None])[..., 0]


@function("vecmat")
def vecmat(x1, x2):
    """Multiply vectors (…, M) by matrices (…, M, N); other axes broadcast."""
    x, a = unlisted(x1), unlisted(x2)
    if not differentiates(x, a):
        return unrecorded(np.vecmat, x, a)
    x, a = as_tensor("vecmat", x), as_tensor("vecmat", a)
    _checked_pair("vecmat", a, x)
    return matmul(x[..., None, :], a)[..., 0, :]


# --- NumPy's linalg -----------------------------------------------------------------------------


def _of_linalg(name):
    """A decorator: the function implements the one of a name in `numpy.linalg`, if that exists."""

    def register(ours):
        theirs = getattr(np.linalg, name, None)
        if theirs is not None:
            OF_NUMPY[theirs] = ours
        return ours

    return register


@_of_linalg("cross")
def _cross_of_three(x1, x2, /, *, axis=-1):
    x1, x2 = unlisted(x1), unlisted(x2)
    sizes = [shape_of(x)[axis] if shape_of(x) else 1 for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            f"tapegrad.linalg.cross: the vectors have {sizes[0]} and {sizes[1]} elements; both "
            "must have 3"
        )
    return cross(x1, x2, axis=axis)


@_of_linalg("outer")
def _outer_of_vectors(x1, x2, /):
    x1, x2 = unlisted(x1), unlisted(x2)
    if len(shape_of(x1)) != 1 or len(shape_of(x2)) != 1:
        raise ValueError(
            f"tapegrad.linalg.outer: the operands have shapes {shape_of(x1)} and {shape_of(x2)}; "
            "they must have one axis"
        )
    return outer(x1, x2)


@_of_linalg("trace")
def _trace_of_last(x, /, *, offset=0, dtype=None):
    return trace(x, offset, -2, -1, dtype)


@_of_linalg("diagonal")
def _diagonal_of_last(x, /, *, offset=0):
    return diagonal(x, offset, -2, -1)


@_of_linalg("matrix_transpose")
def _matrix_transpose(x, /):
    return matrix_transpose(x)

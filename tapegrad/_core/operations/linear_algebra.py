"""Products of matrices and vectors, cross products, and traces, under NumPy's names."""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.conversions import by_operator
from ..tensor.copies import backwards, empty, order_of, unlisted, view_like
from ..tensor.indexing import set_item
from ..tensor.operators import written_to
from ..tensor.registry import OF_NUMPY, function
from ..tensor.trace import named, steered, tensor_like
from ..tensor.values import (
    FLOATS,
    check_casting,
    differentiates,
    dtype_of,
    is_container,
    is_tensor,
    shape_of,
    value_of,
)
from .einsum import as_tensor, contract, record, result, shown
from .joining import checked_axis, stack
from .reductions import axes_of, plain
from .reductions import sum as sum_of
from .shapes import diagonal, matrix_transpose, moveaxis, reshape
from .without_derivative import unrecorded

# --- Products of matrices and vectors, and traces, under NumPy's names ----------------------------


def _unrecorded(numpy_function, *operands, **kwargs):
    """A NumPy function on operands that are not recorded."""
    value = steered(numpy_function, *operands, **kwargs)
    return tensor_like(value, *operands)


def _unequal(name, a, b, what):
    return ValueError(
        f"tapegrad.{name}: operands of shapes {shape_of(a)} and {shape_of(b)}: {what}"
    )


def _pair(name, numpy_function, a, b):
    """Two operands as tensors, or (None, result) when nothing is to be recorded."""
    a, b = unlisted(a), unlisted(b)
    if differentiates(a, b):
        return as_tensor(name, a), as_tensor(name, b)
    try:
        return None, _unrecorded(numpy_function, a, b)
    except ValueError as error:
        raise _unequal(name, a, b, str(error)) from error


# --- products ---------------------------------------------------------------------------------


def _simple(x, y):
    """The product of two matrices or vectors of one dtype, recorded; None for anything else."""
    kinds = (rt.Array, np.ndarray)
    if type(x) not in kinds or type(y) not in kinds or not differentiates(x, y):
        return None
    a, b = value_of(x), value_of(y)
    if not (0 < a.ndim <= 2 and 0 < b.ndim <= 2) or a.dtype != b.dtype or a.dtype not in FLOATS:
        return None
    if a.shape[-1] != b.shape[0]:
        return None
    out = empty((*a.shape[:-1], *b.shape[1:]), a.dtype)
    np.matmul(a, b, out=out)
    return record(out, x, y, out, 0, 1)


@function("matmul", "linalg.matmul")
def matmul(x, y):
    """Multiply matrices, `x @ y`; axes before the last two broadcast.

    Parameters
    ----------
    x : array_like, shape (…, M, K)
        Matrices, or a vector, which is a row.
    y : array_like, shape (…, K, N)
        Matrices, or a vector, which is a column.

    Returns
    -------
    Tensor, ndarray or number, shape (…, M, N)
        The products, without the axis of a vector; float32 if both operands are, else float64.

    Raises
    ------
    ValueError
        If an operand is a scalar, or sizes do not fit; the message has the shapes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.tensor([[1.0, 2.0], [3.0, 4.0]]) @ [1.0, 10.0]
    tensor([21., 43.])
    """
    simple = _simple(x, y)
    if simple is not None:
        return simple
    a, b = _pair("matmul", np.matmul, x, y)
    if a is None:
        return b
    return _matmul("matmul", a, b)


def _matmul(name, a, b):
    m, n = shape_of(a), shape_of(b)
    if not m or not n:
        raise _unequal(name, a, b, "each needs an axis; use * for a number")
    _check_inner(name, a, b, m[-1], n[-2] if len(n) > 1 else n[0])
    deepest = max(len(m), len(n), 2) - 2
    labels_a = (*range(-max(len(m) - 2, 0), 0), *("mk" if len(m) > 1 else "k"))
    labels_b = (*range(-max(len(n) - 2, 0), 0), *("kn" if len(n) > 1 else "k"))
    for one, other in zip(m[-3::-1], n[-3::-1], strict=False):
        if one != other and 1 not in (one, other):
            raise _unequal(name, a, b, "the axes before the last two do not broadcast")
    ends = ("m" if len(m) > 1 else "") + ("n" if len(n) > 1 else "")
    return _batched(name, a, b, labels_a, labels_b, (*range(-deepest, 0), *ends))


def _batched(name, a, b, labels_a, labels_b, labels_out):
    """A product whose batch axes have the memory order of NumPy's generalised ufuncs."""
    pairs = ((value_of(a), labels_a), (value_of(b), labels_b))
    loops = [
        x[tuple(slice(None) if type(n) is int else 0 for n in labels)]
        for x, labels in pairs
        if x.size
    ]
    axes = order_of(loops) if len(loops) == 2 else None
    if axes is None:
        return result(contract(name, a, b, labels_a, labels_b, labels_out))
    axes = (*axes, *range(len(axes), len(labels_out)))
    made = contract(name, a, b, labels_a, labels_b, tuple(labels_out[k] for k in axes))
    return shown(made, backwards(value_of(made), axes))


def _check_inner(name, a, b, m, n) -> None:
    if m != n:
        raise _unequal(
            name, a, b, f"the axes summed over have sizes {m} and {n}, which must be equal"
        )


@function("dot", method="dot")
def dot(a, b):
    """Sum products over the last axis of `a` and the second to last axis of `b`.

    The inner product of vectors, `matmul` of matrices, the product with a number.
    """
    simple = _simple(a, b)
    if simple is not None:
        return simple
    a, b = _pair("dot", np.dot, a, b)
    if a is None:
        return b
    m, n = shape_of(a), shape_of(b)
    if not m or not n:
        return apply("multiply", a, b)
    if len(m) <= 2 and len(n) <= 2:
        return _matmul("dot", a, b)
    return _along("dot", a, b, (len(m) - 1,), (max(len(n) - 2, 0),))


@function("inner")
def inner(a, b):
    """Sum products over the last axes of both operands."""
    a, b = _pair("inner", np.inner, a, b)
    if a is None:
        return b
    m, n = shape_of(a), shape_of(b)
    if not m or not n:
        return apply("multiply", a, b)
    return _along("inner", a, b, (len(m) - 1,), (len(n) - 1,))


@function("vdot")
def vdot(a, b):
    """Sum products of all elements. Complex elements of `a` are conjugated."""
    a, b = _pair("vdot", np.vdot, a, b)
    if a is None:
        return b
    return _along("vdot", _flat(a), _flat(b), (0,), (0,))


@named("linear.vecdot")
def _vecdot(x1, x2, axis):
    return np.einsum("...i,...i->...", *[np.moveaxis(np.asarray(x), axis, -1) for x in (x1, x2)])


@function("vecdot", "linalg.vecdot")
def vecdot(x1, x2, axis=-1):
    """Compute inner products along one axis; the others broadcast."""
    x1, x2 = unlisted(x1), unlisted(x2)
    if not differentiates(x1, x2):
        return tensor_like(steered(_vecdot, x1, x2, axis=axis), x1, x2)
    a, b = as_tensor("vecdot", x1), as_tensor("vecdot", x2)
    for operand in (a, b):
        axes_of("vecdot", axis, len(shape_of(operand)))
    a, b = (shown(x, np.moveaxis(value_of(x), axis, -1)) for x in (a, b))
    m, n = shape_of(a), shape_of(b)
    _check_inner("vecdot", a, b, m[-1], n[-1])
    try:
        np.broadcast_shapes(m, n)
    except ValueError:
        raise _unequal("vecdot", a, b, "the other axes do not broadcast") from None
    labels = tuple(range(1 - max(len(m), len(n)), 0))
    ones, others = labels[len(labels) - len(m) + 1 :], labels[len(labels) - len(n) + 1 :]
    return _batched("vecdot", a, b, (*ones, "k"), (*others, "k"), labels)


@function("outer")
def outer(a, b):
    """Multiply every element of `a` by every element of `b`, both flattened."""
    a, b = _pair("outer", np.outer, a, b)
    if a is None:
        return b
    a, b = _flat(a), _flat(b)
    return apply("multiply", shown(a, value_of(a)[:, None]), shown(b, value_of(b)[None, :]))


@function("tensordot", "linalg.tensordot")
def tensordot(a, b, axes=2):
    """Sum products over pairs of axes.

    Parameters
    ----------
    axes : int or pair of sequences of ints, optional
        The number of last axes of `a` and first axes of `b`, or the axes of each.

    Returns
    -------
    Tensor, ndarray or number
        It has the other axes of `a`, then those of `b`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.tensordot(tg.tensor([1.0, 2.0]), [3.0, 4.0], axes=1)
    tensor(11.)
    """
    a, b = unlisted(a), unlisted(b)
    if not differentiates(a, b):
        return _unrecorded(np.tensordot, a, b, axes=axes)
    a, b = as_tensor("tensordot", a), as_tensor("tensordot", b)
    m, n = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(m, n):
            raise _unequal("tensordot", a, b, f"they do not have axes={axes} axes to sum over")
        return _along("tensordot", a, b, tuple(range(m - axes, m)), tuple(range(axes)))
    left, right = (tuple(x) if np.iterable(x) else (x,) for x in axes)
    if len(left) != len(right):
        raise _unequal("tensordot", a, b, f"axes={axes} names {len(left)} and {len(right)} axes")
    axes_of("tensordot", left, m)
    axes_of("tensordot", right, n)
    return _along("tensordot", a, b, [x % m for x in left], [x % n for x in right])


def _along(name, a, b, left, right):
    """The sum over pairs of axes; the result has the others of `a`, then those of `b`."""
    m, n = shape_of(a), shape_of(b)
    for one, other in zip(left, right, strict=True):
        _check_inner(name, a, b, m[one], n[other])
    labels_a = tuple(range(len(m)))
    labels_b = [len(m) + k for k in range(len(n))]
    out = [x for x in labels_a if x not in left] + [
        x for k, x in enumerate(labels_b) if k not in right
    ]
    for one, other in zip(left, right, strict=True):
        labels_b[other] = labels_a[one]
    return result(contract(name, a, b, labels_a, tuple(labels_b), tuple(out)))


@function("kron")
def kron(a, b):
    """Compute the Kronecker product: every element of `a` times all of `b`, in blocks."""
    a, b = _pair("kron", np.kron, a, b)
    if a is None:
        return b
    m, n = shape_of(a), shape_of(b)
    ndim = max(len(m), len(n))
    m, n = (1,) * (ndim - len(m)) + m, (1,) * (ndim - len(n)) + n
    if not ndim:
        return apply("multiply", a, b)
    wide = shown(a, value_of(a)[(None,) * (ndim - value_of(a).ndim)])
    deep = shown(b, value_of(b)[(None,) * (ndim - value_of(b).ndim)])
    wide = shown(wide, value_of(wide)[(slice(None), None) * ndim])
    deep = shown(deep, value_of(deep)[(None, slice(None)) * ndim])
    blocks = apply("multiply", wide, deep)
    return reshape(blocks, [p * q for p, q in zip(m, n, strict=True)])


def _flat(x):
    """All elements as a vector: a view where NumPy gives one."""
    array = value_of(x)
    if array.ndim == 1:
        return x
    flat = array.reshape(-1)
    if not is_tensor(x) or np.may_share_memory(flat, array) or not flat.size:
        return shown(x, flat)
    copied = x.copy()
    return view_like(copied, copied._array.reshape(-1))


def _operator(name, function_of_two):
    def method(x, y):
        if not isinstance(y, (rt.Tensor, np.ndarray, list, tuple)) and not is_container(y):
            return by_operator("matmul", *((y, x) if name == "__rmatmul__" else (x, y)))
        return function_of_two(x, y)

    method.__name__ = name
    return method


def _matmul_in_place(self, other):
    product = matmul(self, other)
    check_casting("imatmul", dtype_of(product), self)
    set_item(self, ..., product)
    return self


METHODS = {
    "__matmul__": _operator("__matmul__", matmul),
    "__rmatmul__": _operator("__rmatmul__", lambda x, y: matmul(y, x)),
    "__imatmul__": _matmul_in_place,
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


# --- trace -----------------------------------------------------------------------------------


@function("trace", method="trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """Sum the diagonals of the planes of two axes."""
    a = unlisted(a)
    value = np.asarray(value_of(a))
    if value.ndim < 2:
        raise ValueError(
            f"tapegrad.trace: the operand has shape {value.shape}; a trace needs two axes"
        )
    if not differentiates(a):
        made = plain(np.trace, a, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype)
        return written_to("trace", made, out)
    axes_of("trace", (axis1, axis2), value.ndim)
    made = sum_of(shown(a, value.diagonal(offset, axis1, axis2)), -1, dtype)
    return written_to("trace", made, out)


# --- Cross products; products of matrices and vectors; further names of NumPy's linalg ------------


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

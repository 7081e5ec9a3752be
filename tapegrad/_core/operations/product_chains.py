"""Products of several matrices, and powers of one, under NumPy's names."""

from __future__ import annotations

import operator

import numpy as np

from ..tensor.complex_tensors import is_complex
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import alike, function
from ..tensor.trace import fixed
from ..tensor.values import differentiates, dtype_of, shape_of, tensor_of
from .einsum import as_tensor
from .inverses import inv
from .linear_algebra import dot, matmul
from .shapes import reshape
from .unrecorded import unrecorded


@function("linalg.matrix_power", complex=alike)
def matrix_power(a, n):
    """Raise square matrices to an integer power, by repeated products.

    Parameters
    ----------
    a : array_like, shape (…, M, M)
        Square matrices.
    n : int
        The power; a negative one is a power of the inverse, 0 gives the identity.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not square, or is singular while `n` is negative.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.matrix_power(tg.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    a = unlisted(a)
    if not differentiates(a) and not is_complex(a):
        return unrecorded(np.linalg.matrix_power, a, n=n)
    a, power = a if is_complex(a) else as_tensor("matrix_power", a), _whole(n)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(
            f"tapegrad.matrix_power: the operand has shape {shape}; its last two axes must be equal"
        )
    if power == 0:
        return tensor_of(np.broadcast_to(np.eye(shape[-1], dtype=dtype_of(a)), shape).copy())
    square, made = inv(a) if power < 0 else a, None
    power = abs(power)
    if power == 3:
        return matmul(matmul(square, square), square)
    while power:
        power, odd = divmod(power, 2)
        if odd:
            made = square if made is None else matmul(made, square)
        if power:
            square = matmul(square, square)
    return made


def _whole(n) -> int:
    try:
        return operator.index(fixed(n, "matrix_power()"))
    except TypeError as error:
        raise TypeError(f"tapegrad.matrix_power: the power is {n!r}; it must be an integer") from (
            error
        )


@function("linalg.multi_dot", complex=alike)
def multi_dot(arrays, *, out=None):
    """Multiply matrices, in the order that needs the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of array_like
        The matrices; the first and the last may be vectors.

    Raises
    ------
    ValueError
        If there are fewer than two operands, or their sizes do not fit.
    numpy.linalg.LinAlgError
        If one of the others is not a matrix.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.multi_dot([tg.tensor([1.0, 2.0]), [[1.0, 0.0], [0.0, 3.0]], [1.0, 1.0]])
    tensor(7.)
    """
    parts = [unlisted(x) for x in arrays]
    if len(parts) < 2:
        raise ValueError(
            f"tapegrad.multi_dot: got {len(parts)} arrays; a product needs at least two"
        )
    if not differentiates(*parts) and not any(map(is_complex, parts)):
        made = unrecorded(_multi_dot, *parts)
    elif len(parts) == 2:
        made = dot(*parts)
    else:
        made = _product(parts)
    return written_to("multi_dot", made, out)


def _multi_dot(*arrays):
    return np.linalg.multi_dot(arrays)


def _product(parts):
    """The product of three or more."""
    parts = [x if is_complex(x) else as_tensor("multi_dot", x) for x in parts]
    row, column = len(shape_of(parts[0])) == 1, len(shape_of(parts[-1])) == 1
    if row:
        parts[0] = reshape(parts[0], (1, -1))
    if column:
        parts[-1] = reshape(parts[-1], (-1, 1))
    for k, x in enumerate(parts):
        if len(shape_of(x)) != 2:
            raise np.linalg.LinAlgError(
                f"tapegrad.multi_dot: array {k} has shape {shape_of(x)}; it must be a matrix, or a "
                "vector if it is the first or the last"
            )
    sizes = [shape_of(parts[0])[0], *[shape_of(x)[1] for x in parts]]
    splits = cheapest_splits(sizes)

    def between(first, last):
        if first == last:
            return parts[first]
        split = splits[first, last]
        return matmul(between(first, split), between(split + 1, last))

    made = between(0, len(parts) - 1)
    if row and column:
        return made[0, 0]
    return reshape(made, (-1,)) if row or column else made


def cheapest_splits(sizes) -> dict[tuple[int, int], int]:
    """After which factor each part of a chain is split (Cormen et al., matrix-chain order).

    Factor k has shape (sizes[k], sizes[k + 1]); a part is its first and its last factor.
    """
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            found = [
                (
                    cost[first, k]
                    + cost[k + 1, last]
                    + sizes[first] * sizes[k + 1] * sizes[last + 1],
                    k,
                )
                for k in range(first, last)
            ]
            cost[first, last], splits[first, last] = min(found)
    return splits

"""einsum, its subscripts, and the one contraction of two operands under all bilinear functions."""

from __future__ import annotations

import functools

import numpy as np

from ..codegen.layout import ARRAY
from ..ops import contraction
from ..ops import contraction as kernels
from ..ops.table import structural
from ..tensor import runtime as rt
from ..tensor.apply import apply, check_dtype, check_operand
from ..tensor.copies import copy_in_order, copy_tensor, in_dtype, pack, unlisted, view_like
from ..tensor.operators import written_to
from ..tensor.registry import function
from ..tensor.trace import named, note_copy, steered, tensor_like
from ..tensor.values import (
    FLOATS,
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    scalar_of,
    shape_of,
    value_of,
)
from .reductions import sum as sum_of

# --- Subscripts of einsum: labels of the axes of operands and of the result -----------------------


def as_text(subscripts, operands):
    """The form `einsum(a, [0, 1], b, [1, 2], [0, 2])` as subscripts and operands."""
    if isinstance(subscripts, str):
        return subscripts, operands
    items = (subscripts, *operands)
    out = items[-1] if len(items) % 2 else None
    lists = [*items[1::2]] + ([out] if out is not None else [])
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    texts = ["".join("..." if i is Ellipsis else letters[i] for i in one) for one in lists]
    count = len(items) // 2
    text = ",".join(texts[:count]) + ("->" + texts[count] if out is not None else "")
    return text, items[: 2 * count : 2]


@functools.lru_cache(maxsize=512)
def parse(subscripts: str, shapes: tuple) -> tuple[tuple, tuple]:
    """Labels of each operand and of the result; axes under an ellipsis count from the right."""
    text = subscripts.replace(" ", "")
    terms, arrow, wanted = text.partition("->")
    parts = terms.split(",")
    if len(parts) != len(shapes):
        raise ValueError(
            f"tapegrad.einsum: the subscripts {subscripts!r} name {len(parts)} operands, but "
            f"{len(shapes)} were given"
        )
    labels = [_labels(subscripts, p, len(s)) for p, s in zip(parts, shapes, strict=True)]
    _check_sizes(subscripts, labels, shapes)
    numbers = sorted({x for one in labels for x in one if isinstance(x, int)})
    if arrow:
        head, dots, tail = wanted.partition("...")
        if numbers and not dots:
            raise ValueError(
                f"tapegrad.einsum: the result of {subscripts!r} has no '...', but operands of "
                f"shapes {' and '.join(map(str, shapes))} have {len(numbers)} axes under theirs"
            )
        out = (*head, *(numbers if dots else ()), *tail)
    else:
        letters = [x for one in labels for x in one if isinstance(x, str)]
        out = (*numbers, *sorted(x for x in set(letters) if letters.count(x) == 1))
    known = {x for one in labels for x in one}
    for x in out:
        if x not in known or out.count(x) > 1:
            raise ValueError(
                f"tapegrad.einsum: the result of {subscripts!r} has {x!r} "
                f"{'more than once' if x in known else 'which no operand has'}"
            )
    return tuple(labels), out


def _labels(subscripts: str, part: str, ndim: int) -> tuple:
    head, dots, tail = part.partition("...")
    letters = head + tail
    if not all(x.isalpha() and x.isascii() for x in letters):
        raise ValueError(
            f"tapegrad.einsum: {part!r} in {subscripts!r} holds something that is not a letter, "
            "a comma, '...' or '->'"
        )
    hidden = ndim - len(letters)
    if hidden < 0 or (hidden and not dots):
        raise ValueError(
            f"tapegrad.einsum: {part!r} in {subscripts!r} names {len(letters)} axes, but its "
            f"operand has {ndim}"
        )
    return (*head, *range(-hidden, 0), *tail)


def _check_sizes(subscripts, labels, shapes) -> None:
    sizes: dict = {}
    for one, shape in zip(labels, shapes, strict=True):
        own: dict = {}
        for x, n in zip(one, shape, strict=True):
            if own.setdefault(x, n) != n or (n != 1 and sizes.setdefault(x, n) != n):
                axis = f"axis {x}" if isinstance(x, int) else repr(x)
                raise ValueError(
                    f"tapegrad.einsum: operands of shapes {' and '.join(map(str, shapes))} give "
                    f"{axis} in {subscripts!r} several sizes; they must be equal (or 1)"
                )


# --- einsum, and the one contraction of two operands under all bilinear functions -----------------
# Axes carry labels: letters of the subscripts, integers for the axes under an ellipsis. A label in
# both operands and in the result is a batch axis, in both but not in the result a contracted one.


#: Matrices of fewer multiplications than this each are multiplied by NumPy's own loops.
_FEW = 64
_LARGEST = 2**31 - 1


_DOUBLE = np.dtype(np.float64)


def as_tensor(name: str, operand):
    """A list as a tensor or an array, a recorded scalar as an array tensor."""
    operand = unlisted(operand)
    if type(operand) is rt.Scalar:
        return pack(operand)
    if is_tensor(operand) or type(operand) is rt.ComplexTensor:
        return operand
    check_operand(name, operand)
    return np.asarray(operand)


def shown(operand, array: np.ndarray):
    """`array`, which is a view of the operand's value, as an operand."""
    return view_like(operand, array) if is_tensor(operand) else array


def in_c_order(made):
    """A result in C order, copied if need be."""
    if value_of(made).flags.c_contiguous:
        return made
    return copy_tensor(made) if is_tensor(made) else np.ascontiguousarray(made)


def common_dtype(name: str, *operands) -> np.dtype:
    """The dtype of a product; raises TypeError if it cannot be recorded."""
    dtypes = [dtype_of(operand) for operand in operands]
    if all([dtype is _DOUBLE for dtype in dtypes]):
        return _DOUBLE
    dtype = np.result_type(*dtypes)
    check_dtype(name, np.empty(0, dtype))
    return dtype


def result(made):
    """A recorded result as NumPy returns it: a scalar if it has no axes."""
    return scalar_of(made) if is_tensor(made) and rt.is_recording() else made


# --- two operands -----------------------------------------------------------------------------


def contract(name: str, a, b, labels_a, labels_b, labels_out):
    """The sum over products of `a` and `b`: a row if one is recorded, else an array.

    No label is twice in one operand; a label of size 1 in one operand may be larger in the other.
    """
    dtype = common_dtype(name, a, b)
    a, b = in_dtype(a, dtype), in_dtype(b, dtype)
    a, labels_a = _without_ones(a, labels_a, labels_b, shape_of(b))
    b, labels_b = _without_ones(b, labels_b, labels_a, shape_of(a))
    a, labels_a = _summed(a, labels_a, {*labels_b, *labels_out})
    b, labels_b = _summed(b, labels_b, {*labels_a, *labels_out})
    inner = [x for x in labels_a if x in labels_b and x not in labels_out]
    batch = [x for x in labels_out if x in labels_a and x in labels_b]
    rows = [x for x in labels_a if x not in labels_b]
    columns = [x for x in labels_b if x not in labels_a]
    if not inner:
        return _spread_product(a, b, labels_a, labels_b, labels_out)
    sizes = dict(zip(labels_a, shape_of(a), strict=True))
    sizes |= zip(labels_b, shape_of(b), strict=True)
    left = _arranged(a, labels_a, batch + rows + inner)
    right = _arranged(b, labels_b, batch + inner + columns)
    out = np.empty([sizes[x] for x in labels_out], dtype)
    whole = out.transpose([labels_out.index(x) for x in batch + rows + columns])
    _multiply(value_of(left), value_of(right), whole, len(batch), len(inner))
    if not differentiates(left, right):
        return out
    return record(out, left, right, whole, len(batch), len(inner))


def _labels_of(x, y, batch: int, inner: int) -> tuple:
    """Labels of the operands and of the result of a contraction's row."""
    groups = [f"b{k}" for k in range(batch)]
    rows = [f"m{k}" for k in range(x.ndim - batch - inner)]
    sums = [f"k{k}" for k in range(inner)]
    columns = [f"n{k}" for k in range(y.ndim - batch - inner)]
    return (*groups, *rows, *sums), (*groups, *sums, *columns), (*groups, *rows, *columns)


def contract_vjp(np, g, _out, x, y, batch, inner):
    """The adjoint of each operand is a contraction of the result's with the other."""
    of_x, of_y, of_out = _labels_of(x, y, batch, inner)
    lead = ("lead",) * (g.ndim - len(of_out))
    of_g = (*lead, *of_out)
    return (
        lambda: contract("matmul", g, y, of_g, of_y, (*lead, *of_x)),
        lambda: contract("matmul", x, g, of_x, of_g, (*lead, *of_y)),
    )


def contract_jvp(np, t, _out, x, y, batch, inner):
    """The sum of the two contractions in which one operand is replaced by its tangent."""
    of_x, of_y, of_out = _labels_of(x, y, batch, inner)
    of_out = ("lead", *of_out)
    parts = []
    if t[0] is not None:
        parts.append(contract("matmul", t[0], y, ("lead", *of_x), of_y, of_out))
    if t[1] is not None:
        parts.append(contract("matmul", x, t[1], of_x, ("lead", *of_y), of_out))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def contract_batched(np, t, _out, x, y, batch, inner):
    """A label more in what differs between elements: of batches, of rows or of columns."""
    of_x, of_y, of_out = _labels_of(x, y, batch, inner)
    x, of_x = (x, of_x) if t[0] is None else (t[0], ("lead", *of_x))
    y, of_y = (y, of_y) if t[1] is None else (t[1], ("lead", *of_y))
    return contract("matmul", x, y, of_x, of_y, ("lead", *of_out))


def _name_of_product(found) -> str:
    (_, x), (_, y), *_ = found
    products = {(1, 1): "Dot", (2, 1): "Mv", (2, 2): "Mm"}
    return f"{products.get((x.ndim, y.ndim), 'Bmm')}Backward0"


CONTRACT = (
    ARRAY
    + structural(
        "contract",
        kernels.contract_adjoint,
        vjp=contract_vjp,
        jvp=contract_jvp,
        batched=contract_batched,
        value_kernel=kernels.contract_forward,
        tangent=contraction.contract_tangent,
        second_order=contraction.contract_second_order,
        layout=contraction.LAYOUT,
        products=contraction.products,
        expanded=contraction.expanded,
        helpers=contraction.HELPERS,
        example="np.dot(x, x)",
        examples=("x @ x.T", "np.einsum('ij,kj,k->i', x, x, x[:, 0])", "np.vecdot(x, x * x)"),
        doc="batched matrix product of axes in groups: matmul, dot, tensordot, einsum",
        graph=_name_of_product,
    ).code
)


def record(out, left, right, whole, batch: int, inner: int):
    """Append the row of a contraction whose value is known."""
    if max(out.size, np.size(value_of(left)), np.size(value_of(right))) > _LARGEST:
        raise ValueError(
            f"tapegrad.matmul: operands of shapes {shape_of(left)} and {shape_of(right)} have "
            f"more than {_LARGEST} elements, which BLAS cannot count; split them"
        )
    left, right = _kept(left), _kept(right)
    if out.ndim == 0 and out.dtype == np.float64:
        return rt.row(CONTRACT, float(out), left, right, whole, batch, inner)
    return rt.row(CONTRACT, out, left, right, whole, batch, inner)


def _kept(operand):
    """A constant operand as a copy, since the caller may write to it."""
    if is_recorded(operand):
        return operand
    value = value_of(operand)
    return note_copy(copy_in_order(value), value)


def _without_ones(a, labels, others, shape):
    """Drop axes of size 1 that are larger in the other operand."""
    larger = {x for x, n in zip(others, shape, strict=True) if n != 1}
    drop = [k for k, n in enumerate(shape_of(a)) if n == 1 and labels[k] in larger]
    if not drop:
        return a, labels
    key = tuple(0 if k in drop else slice(None) for k in range(len(labels)))
    kept = tuple(x for k, x in enumerate(labels) if k not in drop)
    return shown(a, value_of(a)[(*key, ...)]), kept


def _summed(a, labels, wanted):
    """Sum over the axes that no other operand has."""
    axes = tuple(k for k, x in enumerate(labels) if x not in wanted)
    if not axes:
        return a, labels
    kept = tuple(x for x in labels if x in wanted)
    return as_tensor("einsum", sum_of(a, axis=axes)), kept


def _arranged(a, labels, order):
    """A view with its axes in another order."""
    axes = [labels.index(x) for x in order]
    if axes == sorted(axes):
        return a
    return shown(a, value_of(a).transpose(axes))


def _spread_product(a, b, labels_a, labels_b, labels_out):
    """A product without a sum: both operands broadcast to the result."""
    spread = []
    for operand, labels in ((a, labels_a), (b, labels_b)):
        order = [x for x in labels_out if x in labels]
        view = value_of(_arranged(operand, labels, order))
        key = tuple(slice(None) if x in labels else None for x in labels_out)
        spread.append(shown(operand, view[(*key, ...)]))
    made = apply("multiply", *spread)
    return made if np.ndim(value_of(made)) < 2 else in_c_order(made)


def _multiply(left, right, whole, batch: int, inner: int) -> None:
    """Write the batched matrix product of grouped axes to `whole`, a view of the result."""
    split = left.ndim - inner
    shape = left.shape[:batch]
    m, k = _size(left.shape[batch:split]), _size(left.shape[split:])
    n = _size(right.shape[batch + inner :])
    if batch and m * k * n <= _FEW or (m == n == 1 and batch):
        left, right = left.reshape(*shape, m, k), right.reshape(*shape, k, n)
        whole[...] = np.einsum("...mk,...kn->...mn", left, right).reshape(whole.shape)
        return
    left, right = _for_blas(left.reshape(*shape, m, k)), _for_blas(right.reshape(*shape, k, n))
    target = whole.reshape(*shape, m, n)
    np.matmul(left, right, out=target)
    if not np.may_share_memory(target, whole):
        whole[...] = target.reshape(whole.shape)


def _size(shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _for_blas(matrices):
    """Matrices with contiguous rows or columns."""
    item = matrices.itemsize
    down, along = matrices.strides[-2:]
    rows, columns = matrices.shape[-2:]
    if (along == item or columns == 1) and (down >= columns * item or rows == 1):
        return matrices
    if (down == item or rows == 1) and (along >= rows * item or columns == 1):
        return matrices
    return np.ascontiguousarray(matrices)


# --- einsum -----------------------------------------------------------------------------------


@function("einsum")
def einsum(subscripts, *operands, out=None, dtype=None, order="K", casting="safe", optimize=True):
    """Evaluate sums of products in Einstein's notation.

    Parameters
    ----------
    subscripts : str
        Any subscripts: implicit results, ellipses, repeated indices.
    *operands : array_like
        The operands.
    order : {"C", "F", "A", "K"}, optional
        The memory order of the result.
    optimize : bool or str, optional
        The order of products: one of `numpy.einsum_path`.

    Returns
    -------
    Tensor, ndarray or number
        The sums. A single operand without a sum gives a writable view: "ii->i" is the diagonal.

    Raises
    ------
    ValueError
        If the subscripts do not fit the operands; the message has the shapes.

    Notes
    -----
    Two operands are contracted by BLAS; more than two are contracted in pairs.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.einsum("ij,j->i", tg.tensor([[1.0, 2.0], [3.0, 4.0]]), [1.0, 1.0])
    tensor([3., 7.])
    """
    subscripts, operands = as_text(subscripts, operands)
    operands = [as_tensor("einsum", operand) for operand in operands]
    if dtype is not None:
        operands = [_cast(operand, np.dtype(dtype), casting) for operand in operands]
    made = _einsum(subscripts, operands, optimize)
    if order in ("C", "F") and is_tensor(made) and len(shape_of(made)) > 1:
        made = made.copy(order)
    return written_to("einsum", made, out, casting=casting)


def _cast(operand, dtype, casting):
    if not np.can_cast(value_of(operand).dtype, dtype, casting):
        raise TypeError(
            f"tapegrad.einsum: an operand of dtype {value_of(operand).dtype} cannot become {dtype} "
            f"with casting={casting!r}; give casting='unsafe', or convert it with astype"
        )
    return operand.astype(dtype)


def _einsum(subscripts, operands, optimize):
    labels, out = parse(subscripts, tuple(shape_of(operand) for operand in operands))
    if len(operands) == 1 and value_of(operands[0]).dtype != bool:
        return _one(operands[0], labels[0], out, subscripts)
    if not differentiates(*operands):
        value = steered(
            _unrecorded, *operands, subscripts=subscripts, labels=labels, out=out, optimize=optimize
        )
        return tensor_like(value, *operands)
    pairs = [_diagonal(o, x) for o, x in zip(operands, labels, strict=True)]
    if len(pairs) > 2:
        pairs = _reduce_to_two(pairs, out)
    (a, labels_a), (b, labels_b) = pairs
    return result(contract("einsum", a, b, labels_a, labels_b, out))


@function("einsum_path")
def einsum_path(*operands, optimize="greedy", einsum_call=False):
    """Find a cheap order of the products of `einsum`, from the shapes alone.

    Parameters
    ----------
    *operands
        The arguments of `einsum`.
    optimize : bool or str, optional
        The algorithm; as in NumPy.
    einsum_call : bool, optional
        As in NumPy.

    Returns
    -------
    tuple
        The path and a text about it, as NumPy's function returns them.
    """
    return np.einsum_path(*map(value_of, operands), optimize=optimize, einsum_call=einsum_call)


@named("einsum.unrecorded")
def _unrecorded(*values, subscripts, labels, out, optimize):
    """einsum of arrays: NumPy's, but two of floats are contracted by BLAS also in batches."""
    if len(values) != 2 or np.result_type(*values) not in FLOATS:
        return np.einsum(subscripts, *values, optimize=optimize)
    (a, labels_a), (b, labels_b) = map(_diagonal, values, labels)
    return contract("einsum", a, b, labels_a, labels_b, out)[()]


def _one(operand, labels, out, subscripts):
    """einsum of one operand: views and sums."""
    if not is_tensor(operand):
        return np.einsum(subscripts, operand)
    view, labels = _diagonal(operand, labels)
    axes = tuple(k for k, x in enumerate(labels) if x not in out)
    if axes:
        total = sum_of(view, axis=axes)
        if not out:
            return total
        view, labels = total, tuple(x for x in labels if x in out)
    return result(_arranged(view, labels, out))


def _diagonal(operand, labels):
    """The view of an operand in which no label is repeated."""
    kept = tuple(dict.fromkeys(labels))
    if len(kept) == len(labels):
        return operand, labels
    numbers = [kept.index(x) for x in labels]
    view = np.einsum(value_of(operand), numbers, list(range(len(kept))))
    return shown(operand, view), kept


def _reduce_to_two(pairs, out):
    """Contract operands two at a time until two are left."""
    pairs = list(pairs)
    for step in _path(tuple((x, shape_of(o)) for o, x in pairs), out):
        group = [pairs.pop(k) for k in sorted(step, reverse=True)]
        while len(group) > 1 and len(group) + len(pairs) > 2:
            (a, labels_a), (b, labels_b) = group.pop(), group.pop()
            others = {x for _, one in (*pairs, *group) for x in one} | set(out)
            labels = tuple(x for x in dict.fromkeys(labels_a + labels_b) if x in others)
            pair = contract if differentiates(a, b) else _plain_pair
            made = pair("einsum", a, b, labels_a, labels_b, labels)
            group.append((as_tensor("einsum", made), labels))
        pairs += group
    return pairs


def _plain_pair(name, a, b, labels_a, labels_b, labels):
    """The contraction of two operands that are not recorded."""
    names = {x: k for k, x in enumerate(dict.fromkeys(labels_a + labels_b))}
    lists = [[names[x] for x in one] for one in (labels_a, labels_b, labels)]
    return np.einsum(value_of(a), lists[0], value_of(b), lists[1], lists[2], optimize=True)


@functools.lru_cache(maxsize=512)
def _path(operands, out):
    """The order of contraction that NumPy proposes: positions of operands, step by step."""
    names = {x: k for k, x in enumerate({x: 0 for labels, _ in operands for x in labels})}
    items: list = []
    for labels, shape in operands:
        items += [np.broadcast_to(np.float64(0), shape), [names[x] for x in labels]]
    return np.einsum_path(*items, [names[x] for x in out], optimize="greedy")[0][1:]

"""Extremes, order, and elements chosen by conditions."""

from __future__ import annotations

import builtins

import numpy as np

from ..codegen.intrinsics import f64s, free, helper, load_i64, malloc
from ..codegen.layout import FRAME_SEEDS, REFERENCE_BYTES
from ..ops.axis_groups import (
    REDUCTION_HELPERS,
    add_group,
    buffered,
    count_of_groups,
    extreme_of,
    group_in,
    groups_of,
    of_reduction,
    read_group,
    reduced_adjoint,
    reduced_value,
)
from ..ops.table import structural
from ..tape.sweeps import copied, copy_axes, inverse
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.indexing import gather
from ..tensor.operators import begun, written_to
from ..tensor.registry import PUBLIC, function
from ..tensor.trace import fixed, named, of_each, steered, tensor_like
from ..tensor.values import (
    current,
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    tensor_of,
    value_of,
    wrap,
)
from .joining import checked_axis, grid, stack
from .reductions import axes_of, masked, mean, operand, plain, reduced_axes, reduced_by
from .shapes import array_tensor, broadcast_to, numpy_call, ravel, reshape

# --- Positions of elements by rank, as a stable sort has them; of long vectors without one --------


#: Shorter vectors are sorted, and so are all for many ranks.
LONG, MANY = 512, 24


def at_ranks(values: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The positions of the elements of a vector that a stable ascending sort puts at some ranks.

    NaN is last. The result has the shape of the ranks.
    """
    wanted = np.unique(ranks)
    if values.size < LONG or wanted.size > MANY:
        return np.argsort(values, kind="stable")[ranks]
    parted = np.partition(values, wanted)
    found = np.array([_position(values, parted[rank], rank) for rank in wanted.tolist()], np.int64)
    return found[np.searchsorted(wanted, ranks)]


def _position(values, value, rank):
    """The element at a rank among those equal to a value: equal ones keep their order."""
    if np.isnan(value):
        same = np.isnan(values)
        before = values.size - np.count_nonzero(same)
    else:
        same, before = values == value, np.count_nonzero(values < value)
    return np.flatnonzero(same)[rank - before]


# --- Extremes and order: largest, smallest, medians, sorting, and elements by index ---------------


# --- largest and smallest ---------------------------------------------------------------------


def shares(np, x, best, axes):
    """The elements tied for an extreme; and their share, which is equal, and 0 for others.

    Where it is NaN the elements that are NaN are tied for it.
    """
    tied = (x == best) | (x != x)
    ones = np.multiply(tied, 1.0)
    return tied, ones / np.add.reduce(ones, axis=axes, keepdims=True)


def extreme_vjp(np, g, out, x, axes):
    tied, share = shares(np, x, out, axes)
    return (np.where(tied, g * share, 0.0),)


def extreme_jvp(np, t, out, x, axes):
    return np.sum(np.times(t[0], shares(np, x, out, axes)[1]), axis=axes, keepdims=True)


def extreme_adjoint(frame, id, refs, task):
    """References: the operand, lines of a group, the output. Tied elements share evenly.

    Others get 0 whatever the adjoint.
    """
    groups, n, found = groups_of(frame, refs)
    if n == 0:
        return
    out, block = refs + 2 * REFERENCE_BYTES, malloc(n * 16)
    x, parts = f64s(block), f64s(block + n * 8)
    for group in range(count_of_groups(groups)):
        read_group(groups, group, block)
        best = reduced_value(frame, id, out, group, groups.width)
        tied = 0
        for i in range(n):
            same = (x[i] == best) | ((x[i] != x[i]) & (best != best))
            x[i] = 1.0 if same else 0.0
            tied += same
        for i in range(n):
            x[i] /= tied
        for seed in range(load_i64(frame, FRAME_SEEDS)):
            g = reduced_adjoint(frame, id, out, group, groups.width, seed)
            if g != 0.0:
                for i in range(n):
                    parts[i] = g * x[i] if x[i] != 0.0 else 0.0
                add_group(buffered(groups, found, seed), group, 1.0, block + n * 8)
    free(block)


@helper
def extreme_forward(refs, sign):
    groups, n, count, out = of_reduction(refs)
    block = malloc(n * 8)
    for group in range(count):
        out[group] = extreme_of(f64s(group_in(groups, group, block)), n, sign)
    free(block)


def max_forward(frame, id, refs, task):
    extreme_forward(refs, 1.0)


def min_forward(frame, id, refs, task):
    extreme_forward(refs, -1.0)


def _extreme_op(name, value_kernel, doc, awkward):
    return structural(
        name,
        extreme_adjoint,
        value=lambda x, axes: getattr(np, name)(x, axis=axes, keepdims=True),
        vjp=extreme_vjp,
        jvp=extreme_jvp,
        value_kernel=value_kernel,
        layout="reduction",
        helpers=(*REDUCTION_HELPERS, extreme_forward),
        example=f"np.{name}(x)",
        examples=(f"np.{name}(x, 1)", f"np.{name}(x, (0, 1), keepdims=True)"),
        doc=doc,
        awkward=awkward,
        graph=f"A{name}Backward0",
    )


_MAX = _extreme_op(
    "max",
    max_forward,
    "largest along axes",
    "elements tied for it share the adjoint evenly; a NaN is largest",
)
_MIN = _extreme_op(
    "min",
    min_forward,
    "smallest along axes",
    "elements tied for it share the adjoint evenly; a NaN is smallest",
)


def _extreme(name, x, axis, out, keepdims, initial, where):
    if out is not None:
        return written_to(name, _extreme(name, x, axis, None, keepdims, initial, where), out)
    x = unlisted(x)
    if initial is None and where is True and differentiates(x):
        return reduced_by(_MAX if name == "max" else _MIN, x, axis, keepdims)
    if not differentiates(x, initial):
        options = {} if initial is None else {"initial": fixed(initial, "initial=")}
        return plain(getattr(np, name), x, axis=axis, keepdims=keepdims, where=where, **options)
    if where is not True:
        if initial is None:
            raise ValueError(f"tapegrad.{name}: where= needs initial=, as in NumPy")
        x = masked(where, x, initial)
    if initial is None:
        return reduced_by(_MAX if name == "max" else _MIN, x, axis, keepdims)
    axes = reduced_axes(name, axis, len(shape_of(x)))
    if 0 in [shape_of(x)[k] for k in axes]:
        first = {"initial": -np.inf if name == "max" else np.inf}
        made = plain(getattr(np, name), x, axis=axes, keepdims=keepdims, **first)
    elif differentiates(x):
        made = reduced_by(_MAX if name == "max" else _MIN, x, axes, keepdims)
    else:
        made = plain(getattr(np, name), x, axis=axes, keepdims=keepdims)
    return begun("maximum" if name == "max" else "minimum", made, initial)


@function("max", "amax", method="max")
def max(x, axis=None, out=None, keepdims=False, initial=None, where=True):
    """Find the largest element.

    Elements that tie for it share the derivative evenly. A NaN counts as the largest, as in NumPy.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.max(x))([1.0, 3.0, 3.0])
    [0.0, 0.5, 0.5]
    """
    return _extreme("max", x, axis, out, keepdims, initial, where)


@function("min", "amin", method="min")
def min(x, axis=None, out=None, keepdims=False, initial=None, where=True):
    """Find the smallest element.

    Elements that tie for it share the derivative evenly. A NaN counts as the smallest, as in NumPy.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.min(x))([1.0, 3.0])
    [1.0, 0.0]
    """
    return _extreme("min", x, axis, out, keepdims, initial, where)


PUBLIC["amax"], PUBLIC["amin"] = max, min


@function("ptp")
def ptp(x, axis=None, out=None, keepdims=False):
    """Compute the difference between the largest and the smallest element.

    Parameters
    ----------
    out : None, optional
        Not supported for tensors.
    """
    x = operand("ptp", x, None, out)
    if not differentiates(x):
        return plain(np.ptp, x, axis=axis, keepdims=keepdims)
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


# --- order ----------------------------------------------------------------------------------------


def _index_of(name: str, what: str):
    numpy_function = getattr(np, name)

    def index_of(x, axis=None, out=None, *, keepdims=False):
        if out is not None:
            return written_to(name, index_of(x, axis, keepdims=keepdims), out)
        return plain(numpy_function, unlisted(x), axis=axis, keepdims=keepdims)

    index_of.__name__ = name
    index_of.__doc__ = (
        f"Return the index of the {what}. It has no derivative.\n\n"
        "Parameters\n----------\naxis : int, optional\n    The axis; by default the operand is "
        "flattened."
    )
    return function(name, method=None if name.startswith("nan") else name)(index_of)


argmax, argmin = _index_of("argmax", "largest element"), _index_of("argmin", "smallest element")
nanargmax = _index_of("nanargmax", "largest element that is not NaN")
nanargmin = _index_of("nanargmin", "smallest element that is not NaN")


def refuse_order(name: str, order) -> None:
    """Raise TypeError for fields to sort by."""
    if order is not None:
        raise TypeError(f"tapegrad.{name}: order= is for structured arrays; tensors hold numbers")


@function("argsort", method="argsort")
def argsort(x, axis=-1, kind=None, order=None, *, stable=None):
    """Return the indices that sort along an axis. They have no derivative.

    Parameters
    ----------
    kind : str, optional
        The algorithm; as in NumPy.
    stable : bool, optional
        Whether equal elements keep their order.
    order : None, optional
        Must be None: it applies to structured arrays only.
    """
    refuse_order("argsort", order)
    kind = "stable" if stable else kind
    return plain(np.argsort, unlisted(x), axis=axis, kind=kind)


# --- order ------------------------------------------------------------------------------------


@function("sort")
def sort(x, axis=-1, kind=None, order=None, *, stable=None):
    """Return a copy sorted in ascending order along an axis.

    The derivative of each element of the result is passed to the corresponding element of the
    operand.

    Parameters
    ----------
    order : None, optional
        Must be None: it applies to structured arrays only.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: tg.sort(x)[0])([3.0, 1.0, 2.0])
    [0.0, 1.0, 0.0]
    """
    refuse_order("sort", order)
    x = unlisted(x)
    if not differentiates(x):
        return plain(np.sort, x, axis=axis, kind="stable" if stable else kind)
    if axis is None:
        x, axis = ravel(x), -1
    x = array_tensor(x)
    axis = checked_axis("sort", axis, x._array.ndim)
    indices = steered(np.argsort, x, axis, kind="stable")
    return _picked_along(x, indices, axis, copy_axes(x._array))


@function("median")
def median(x, axis=None, out=None, overwrite_input=False, keepdims=False):
    """Compute the median: the middle element, or the mean of the middle two.

    If an element is NaN, the result is NaN, and the other elements have derivative 0.

    Parameters
    ----------
    out : None, optional
        Not supported for tensors.
    """
    x = operand("median", x, None, out)
    if not differentiates(x):
        return plain(np.median, x, axis=axis, keepdims=keepdims)
    axes = axes_of("median", axis, len(shape_of(x)))
    if type(x) is rt.Scalar:
        return x
    x = current(x)
    order = copy_axes(x._array) or range(x._array.ndim)
    kept = [k for k in order if k not in axes]
    shape = [x._array.shape[k] for k in kept]
    n = int(np.prod([x._array.shape[k] for k in axes], dtype=np.int64))
    flat = x.transpose(*kept, *axes).reshape(*shape, n) if x._array.ndim else x.reshape(1)
    if n == 0:
        made = mean(flat, -1)
    else:
        made = mean(_picked_along(flat, steered(_middle, flat), -1, None), -1)
    if len(kept) > 1:
        made = made.transpose(inverse(kept))
    if keepdims:
        return made.reshape([1 if k in axes else m for k, m in enumerate(x._array.shape)])
    return made


@named("sorting.middle")
def _middle(values):
    """Along the last axis, where the middle element is or the middle two; where a NaN is."""
    n = values.shape[-1]
    if values.ndim == 1:
        middle = np.arange((n - 1) // 2, n // 2 + 1)
        return at_ranks(values, np.full_like(middle, n - 1) if np.isnan(values).any() else middle)
    order = np.argsort(values, -1, kind="stable")
    bad = np.isnan(np.take_along_axis(values, order[..., -1:], -1))
    return np.where(bad, order[..., -1:], order[..., (n - 1) // 2 : n // 2 + 1])


@of_each(_middle, "sorting.middle_each")
def _middle_each(values, mapped):
    return _middle(values)


# --- elements by index ------------------------------------------------------------------------


@function("take", method="take")
def take(x, indices, axis=None, out=None, mode="raise"):
    """Take elements at indices along an axis.

    Elements that are taken more than once accumulate their derivatives.

    Parameters
    ----------
    mode : {"raise", "wrap", "clip"}, optional
                How indices out of range are treated.
    """
    if out is not None:
        return written_to("take", take(x, indices, axis, mode=mode), out)
    x, indices = unlisted(x), unlisted(indices)
    if not differentiates(x):
        return tensor_like(steered(np.take, x, indices, axis=axis, mode=mode), x)
    if axis is None or (axis in (0, -1) and not shape_of(x)):
        x, axis = ravel(x), 0
    x = array_tensor(x)
    array = x._array
    value = numpy_call("take", np.take, array, value_of(indices), axis=axis, mode=mode)
    axis = checked_axis("take", axis, array.ndim)
    return gather(x, value, steered(_taken, indices, shape=array.shape, axis=axis, mode=mode))


@named("sorting.rows_taken")
def _taken(indices, shape, axis, mode):
    """Positions in C order of the rows that `take` picks."""
    n, index = shape[axis], np.array(indices, np.int64)  # a copy: the caller may write to them
    before = int(np.prod(shape[:axis], dtype=np.int64))
    if mode == "clip":
        index = np.clip(index, 0, builtins.max(n - 1, 0))
    elif mode == "wrap":
        index = index % n if n else index
    elif index.size and before:  # NumPy looks at no index of a row that is not there
        low, high = int(index.min()), int(index.max())
        if low < -n or high >= n:
            outside = low if low < -n else high
            raise IndexError(f"index {outside} is out of bounds for axis {axis} with size {n}")
        index = index % n if low < 0 else index
    if axis == 0:
        return index
    picked = np.arange(before)[:, None] * n + index.ravel()
    return picked.reshape(*shape[:axis], *np.shape(indices))


@function("take_along_axis")
def take_along_axis(x, indices, axis=-1):
    """Take elements at indices that match along an axis.

    Parameters
    ----------
    indices : array_like of ints
        The indices; the other axes broadcast with those of the operand.
    """
    x, indices = unlisted(x), unlisted(indices)
    if not differentiates(x):
        return tensor_like(steered(np.take_along_axis, x, indices, axis), x)
    if axis is None:
        x, axis = ravel(x), 0
    return _picked_along(array_tensor(x), indices, axis)


def _picked_along(x, indices, axis, *order):
    """Elements of a recorded tensor by indices along an axis, in memory in an order if given."""
    value = numpy_call("take_along_axis", np.take_along_axis, x._array, value_of(indices), axis)
    value = copied(value, *order) if order else value
    return gather(x, value, steered(_taken_along, indices, shape=x._array.shape, axis=axis))


@named("sorting.taken_along")
def _taken_along(indices, shape, axis):
    return np.take_along_axis(grid(shape), indices, axis)


@of_each(_taken_along, "sorting.taken_along_each")
def _taken_along_each(indices, shape, axis, mapped):
    return np.take_along_axis(grid(shape)[None], indices, axis % len(shape) + 1)


# --- Elements chosen by conditions and numbers: `compress`, `choose`, `select`, `piecewise` -------


@function("compress")
def compress(condition, a, axis=None, out=None):
    """Take the slices along an axis for which a condition holds.

    Parameters
    ----------
    condition : array_like of bool
        The condition, with one axis.
    """
    condition, a = unlisted(condition), unlisted(a)
    if not is_tensor(a) and not is_tensor(condition):
        return written_to("compress", np.compress(condition, a, axis), out)
    if len(shape_of(condition)) != 1:
        raise ValueError(
            f"tapegrad.compress: the condition has shape {shape_of(condition)}; it must have one "
            "axis"
        )
    a = tensor_of(a)
    return written_to("compress", take(a, steered(np.flatnonzero, condition), axis), out)


@function("extract")
def extract(condition, arr):
    """Take the elements for which a condition holds, along one axis."""
    condition, arr = unlisted(condition), unlisted(arr)
    if not is_tensor(arr) and not is_tensor(condition):
        return np.extract(condition, arr)
    arr = tensor_of(arr)
    return take(ravel(arr), steered(np.flatnonzero, condition))


@function("choose", method="choose")
def choose(a, choices, out=None, mode="raise"):
    """Choose each element from one of several operands, by an integer.

    Parameters
    ----------
    a : array_like of ints
        Which of the choices is taken.
    choices : sequence of array_like
        The operands, which broadcast.
    mode : {"raise", "wrap", "clip"}, optional
                How integers out of range are treated.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.choose([1, 0], [tg.tensor([1.0, 2.0]), [3.0, 4.0]])
    tensor([3., 2.])
    """
    a = unlisted(a)
    if is_tensor(choices) or isinstance(choices, np.ndarray):
        choices = [choices[k] for k in range(len(choices))]
    choices = [unlisted(x) for x in choices]
    if not any(map(is_tensor, (a, *choices))):
        return written_to("choose", np.choose(a, choices, mode=mode), out)
    if dtype_of(a).kind not in "biu":
        raise TypeError(
            f"tapegrad.choose: the indices of choices have dtype {dtype_of(a)}; they must be "
            "integers: convert them with astype(int)"
        )
    if not differentiates(*choices):
        made = steered(_chosen, a, *choices, mode=mode)
        return written_to("choose", tensor_like(made, a, *choices), out)
    shape = np.broadcast_shapes(shape_of(a), *map(shape_of, choices))
    number = steered(_number_of_choice, a, count=len(choices), shape=shape, mode=mode)
    dtype = np.result_type(*map(_typed, choices))
    wide = stack([broadcast_to(_with_axes(x, dtype), shape) for x in choices])
    return written_to("choose", take_along_axis(wide, number, 0)[0], out)


def _with_axes(x, dtype):
    return array_tensor(x) if is_tensor(x) else np.asarray(x, dtype)


@named("sorting.chosen")
def _chosen(a, *choices, mode):
    return np.choose(a, choices, mode=mode)


@named("sorting.number")
def _number_of_choice(a, count, shape, mode):
    """The number of the choice of each element, with an axis in front; raises as NumPy does."""
    found = np.choose(np.broadcast_to(a, shape), np.arange(count), mode=mode)
    return found[None].astype(np.int64)


@function("select")
def select(condlist, choicelist, default=0):
    """Choose each element from the operand of the first condition that holds.

    Parameters
    ----------
    condlist : list of array_like of bool
        The conditions.
    choicelist : list of array_like
        The operand for each condition.
    default : array_like, optional
        The operand where no condition holds.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0, 3.0])
    >>> tg.select([x < 2.0, x > 2.0], [x, x * x], -1.0)
    tensor([ 1., -1.,  9.])
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"tapegrad.select: there are {len(condlist)} conditions and {len(choicelist)} choices; "
            "give one choice for each condition"
        )
    if not len(condlist):
        raise ValueError("tapegrad.select: there is no condition; give at least one")
    conditions = [unlisted(x) for x in condlist]
    choices, default = [unlisted(x) for x in choicelist], unlisted(default)
    if not any(map(is_tensor, (*conditions, *choices, default))):
        return np.select(conditions, choices, default)
    for k, condition in enumerate(conditions):
        if dtype_of(condition).kind != "b":
            raise TypeError(
                f"tapegrad.select: condition {k} has dtype {dtype_of(condition)}; conditions are "
                "booleans, such as x > 0"
            )
    if not differentiates(*choices, default):
        made = steered(_selected, *conditions, *choices, default)
        return tensor_like(made, *conditions, *choices, default)
    dtype = np.result_type(*[_typed(x) for x in (*choices, default)])
    made = default
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        made = apply(
            "where", condition if is_recorded(condition) else value_of(condition), choice, made
        )
    shape = np.broadcast_shapes(*map(shape_of, (*conditions, *choices)))
    if shape_of(made) != shape:
        made = broadcast_to(made, shape).copy()
    return made if dtype_of(made) == dtype else made.astype(dtype)


def _typed(x):
    """An operand as NumPy promotes it: a Python number has no dtype."""
    return x if type(x) in (int, float) else value_of(x)


@named("sorting.selected")
def _selected(*parts):
    count = len(parts) // 2
    return np.select(list(parts[:count]), list(parts[count:-1]), parts[-1])


@function("piecewise")
def piecewise(x, condlist, funclist, *args, **kw):
    """Evaluate a function, or a constant, for each condition.

    Parameters
    ----------
    condlist : list of array_like of bool
        The conditions.
    funclist : list of callables or numbers
        The functions. Each takes the elements of `x` where its condition holds, along one axis. One
        function more than there are conditions is for the other elements.
    *args, **kw
        Further arguments of the functions.

    Returns
    -------
    Tensor or ndarray
        The values, in the dtype of `x`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([-1.0, 2.0])
    >>> tg.piecewise(x, [x < 0.0], [lambda v: v * v, 7.0])
    tensor([1., 7.])
    """
    x = unlisted(x)
    conditions = _conditions(x, condlist)
    count = len(conditions)
    if len(funclist) == count + 1:
        conditions = [*conditions, steered(_none_of, *conditions)]
    elif len(funclist) != count:
        raise ValueError(
            f"tapegrad.piecewise: with {count} conditions, {count} or {count + 1} functions are "
            f"expected, not {len(funclist)}"
        )
    x = tensor_of(x)
    shape, x = shape_of(x), reshape(x, (-1,)) if not shape_of(x) else x
    made = wrap(np.zeros_like(value_of(x), subok=False)[...])
    for condition, each in zip(conditions, funclist, strict=True):
        condition = steered(_one_truth, condition) if not shape else condition
        if callable(each):
            elements = x[condition]
            if not int(np.prod(shape_of(elements))):
                continue
            each = each(elements, *args, **kw)
        _check_kept(x, each)
        made[condition] = each
    return made if shape else made[0]


def _conditions(x, condlist):
    """The conditions as boolean arrays or recorded tensors, of the shape of `x`."""
    first = (
        condlist
        if np.ndim(value_of(condlist)) == 0 and not isinstance(condlist, (list, tuple))
        else condlist[0]
    )
    is_list = isinstance(first, (list, np.ndarray)) or (is_tensor(first) and len(shape_of(first)))
    if first is condlist or (not is_list and len(shape_of(x))):
        condlist = [condlist]
    found = [steered(_truths, unlisted(condlist[k])) for k in range(len(condlist))]
    return found


@named("sorting.truths")
def _truths(x):
    return np.asarray(x, bool)


@named("sorting.one_truth")
def _one_truth(condition):
    return np.ravel(condition)


@named("sorting.none_of")
def _none_of(*conditions):
    return ~np.any(conditions, axis=0)


def _check_kept(x, value) -> None:
    if is_recorded(unlisted(value)) and dtype_of(x).kind != "f" and differentiates(unlisted(value)):
        raise TypeError(
            "tapegrad.piecewise: a function returns recorded values, but the result has the dtype "
            f"of x, {dtype_of(x)}, which has no derivative; pass x.astype(float)"
        )

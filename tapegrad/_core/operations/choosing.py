"""Elements chosen by conditions and numbers: `compress`, `choose`, `select`, `piecewise`."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.operators import written_to
from ..tensor.registry import function
from ..tensor.trace import named, steered, tensor_like
from ..tensor.values import (
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    tensor_of,
    value_of,
    wrap,
)
from .extremes import take, take_along_axis
from .joining import stack
from .shapes import array_tensor, broadcast_to, ravel, reshape


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


@named("choosing.chosen")
def _chosen(a, *choices, mode):
    return np.choose(a, choices, mode=mode)


@named("choosing.number")
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


@named("choosing.selected")
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


@named("choosing.truths")
def _truths(x):
    return np.asarray(x, bool)


@named("choosing.one_truth")
def _one_truth(condition):
    return np.ravel(condition)


@named("choosing.none_of")
def _none_of(*conditions):
    return ~np.any(conditions, axis=0)


def _check_kept(x, value) -> None:
    if is_recorded(unlisted(value)) and dtype_of(x).kind != "f" and differentiates(unlisted(value)):
        raise TypeError(
            "tapegrad.piecewise: a function returns recorded values, but the result has the dtype "
            f"of x, {dtype_of(x)}, which has no derivative; pass x.astype(float)"
        )

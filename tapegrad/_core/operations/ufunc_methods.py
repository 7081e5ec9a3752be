"""Methods of ufuncs on tensors: `np.add.reduce`, `accumulate`, `reduceat`, `outer`."""

from __future__ import annotations

import functools

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import unlisted
from ..tensor.operators import begun, written_to
from ..tensor.registry import PUBLIC
from ..tensor.trace import fixed, lost_derivative, named, of_each, steered, steering_tensor
from ..tensor.values import array_of, differentiates, dtype_of, is_tensor, shape_of, value_of, wrap
from .cumulative import cumprod, cumsum
from .extremes import take, take_along_axis
from .joining import checked_axis, concatenate
from .logsumexp import logsumexp
from .nan_reductions import extreme_number
from .reductions import masked, reduced_axes, sum
from .shapes import array_tensor, moveaxis
from .ufunc_keywords import called

# --- without derivative -----------------------------------------------------------------------

#: NumPy's ufuncs by name: files of programs name no others.
_UFUNCS = {name: one for name, one in vars(np).items() if isinstance(one, np.ufunc)}
_METHODS = ("reduce", "accumulate", "reduceat", "outer")


@named("ufuncs.method")
def _by_numpy(*operands, name, method, masked=False, **options):
    """A method of a ufunc; if `masked`, the last operand is its `where`."""
    if method not in _METHODS:
        raise ValueError(f"no method {method} of ufuncs")
    if masked:
        *operands, options["where"] = operands
    return getattr(_UFUNCS[name], method)(*operands, **options)


def without_derivative(ufunc, method, *operands, where=True, **options):
    """NumPy's own answer, in a trace a row."""
    if _UFUNCS.get(ufunc.__name__) is not ufunc:
        return steering_tensor(getattr(ufunc, method), *operands, **options)
    if where is not True:
        operands, options["masked"] = (*operands, unlisted(where)), True
    return steering_tensor(_by_numpy, *operands, name=ufunc.__name__, method=method, **options)


# --- reduce -----------------------------------------------------------------------------------


def _without_nan(name):
    """`fmax.reduce` or that of `fmin`: NaN only where all elements are."""

    def reduced(x, axis, keepdims, where, initial):
        axes = reduced_axes(f"{name}.reduce", axis, len(shape_of(x)))
        return extreme_number(name == "fmax", x, axes, keepdims, where, initial)[0]

    return reduced


def _log_of_sum(x, axis, keepdims, where, initial):
    made = logsumexp(masked(where, x, -np.inf), axis, None, keepdims)
    return made if initial is None else begun("logaddexp", made, initial)


def _in_pairs(name, identity):
    """A reduction by an associative operation, of pairs of elements, then of pairs of results."""

    def reduced(x, axis, keepdims, where, initial):
        shape = shape_of(x)
        axes = reduced_axes(f"{name}.reduce", axis, len(shape))
        kept = [k for k in range(len(shape)) if k not in axes]
        count = int(np.prod([shape[k] for k in axes], dtype=np.int64))
        x = array_tensor(masked(where, x, identity)).transpose(*kept, *axes)
        x = x.reshape(*[shape[k] for k in kept], count)
        if not count:
            x, count = wrap(np.full((*x.shape[:-1], 1), identity, dtype_of(x))), 1
        while count > 1:
            half = count // 2
            pairs = apply(name, x[..., :half], x[..., half : 2 * half])
            x = concatenate([pairs, x[..., 2 * half :]], -1) if count % 2 else pairs
            count = shape_of(x)[-1]
        made = x[..., 0]
        made = apply("absolute", made) if name == "hypot" else made  # for one element
        if keepdims:
            made = made.reshape([1 if k in axes else n for k, n in enumerate(shape)])
        return made if initial is None else begun(name, made, initial)

    return reduced


def _difference(x, axis, keepdims, where, initial):
    """The first element less the others."""
    _only_plain("subtract", where, initial)
    axes = reduced_axes("subtract.reduce", axis, len(shape_of(x)))
    if not axes:
        return apply("multiply", x, 1.0)
    if len(axes) > 1:
        raise ValueError("tapegrad.subtract.reduce: it reduces only one axis; pass axis=")
    (axis,) = axes
    return sum(apply("multiply", x, _signs("subtract", x, axis)), axis, keepdims=keepdims)


def _signs(name, x, axis):
    shape = shape_of(x)
    axis = checked_axis(name, axis, len(shape))
    if not shape[axis]:
        raise ValueError(f"tapegrad.{name}.reduce: there are no elements along axis {axis}")
    signs = np.full(shape[axis], -1.0, dtype_of(x))
    signs[0] = 1.0
    return signs.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def _only_plain(name, where, initial):
    if where is not True or initial is not None:
        raise TypeError(f"tapegrad.{name}.reduce: where= and initial= are not supported on tensors")


def _public(name):
    def reduced(x, axis, keepdims, where, initial):
        return PUBLIC[name](x, axis, keepdims=keepdims, where=where, initial=initial)

    return reduced


_REDUCE = {
    "add": _public("sum"),
    "multiply": _public("prod"),
    "maximum": _public("max"),
    "minimum": _public("min"),
    "fmax": _without_nan("fmax"),
    "fmin": _without_nan("fmin"),
    "logaddexp": _log_of_sum,
    "logaddexp2": _in_pairs("logaddexp2", -np.inf),
    "subtract": _difference,
    "hypot": _in_pairs("hypot", 0.0),
}


def reduce(ufunc, x, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """`np.add.reduce(x, axis, dtype, out, keepdims, initial, where)` and those of other ufuncs."""
    name, x = ufunc.__name__, _operand(x, dtype)
    if not shape_of(x) and axis in (0, -1):
        axis = ()
    if differentiates(x, initial) and not _is_answer(ufunc):
        if name not in _REDUCE:
            raise _unsupported(ufunc, "reduce", x)
        if where is not True and initial is None and name in _WITHOUT_IDENTITY:
            raise ValueError(f"tapegrad.{name}.reduce: where= needs initial=, as in NumPy")
        made = _REDUCE[name](x, axis, keepdims, where, initial)
    else:
        options = {} if initial is None else {"initial": fixed(initial, "initial=")}
        options |= {} if dtype is None else {"dtype": dtype}
        made = without_derivative(
            ufunc, "reduce", x, axis=axis, keepdims=keepdims, where=where, **options
        )
    return written_to(f"{name}.reduce", made, out)


_WITHOUT_IDENTITY = ("maximum", "minimum", "fmax", "fmin")


def _operand(x, dtype):
    x = unlisted(x)
    if dtype is not None and differentiates(x):
        return x.astype(dtype, copy=False)
    return x


@functools.cache
def _is_answer(ufunc) -> bool:
    """Whether all that a ufunc gives are truths."""
    return all(one.rpartition(">")[2] == "?" for one in ufunc.types if "O" not in one)


#: Replacements of methods that do not exist, for the error message.
_INSTEAD = {
    ("divide", "reduce"): "x[0] / np.prod(x[1:])",
    ("power", "reduce"): "a loop",
}


def _unsupported(ufunc, method: str, x) -> TypeError:
    name = f"{ufunc.__name__}.{method}"
    if ufunc.nin != 2 or ufunc.nout != 1:
        return TypeError(f"tapegrad.{name}: only ufuncs of two operands with one result have it")
    instead = _INSTEAD.get((ufunc.__name__, method), "a loop over the elements")
    return lost_derivative(
        f"tapegrad.{name}: the operation is not associative and has no derivative here; use "
        f"{instead}",
        x,
    )


# --- accumulate -------------------------------------------------------------------------------


@named("ufuncs.best_so_far")
def _best_so_far(values, name, axis):
    """The position along an axis of the extreme up to each place."""
    best = _UFUNCS[name].accumulate(values, axis)
    best = np.moveaxis(best, axis, -1)
    before = best[..., :-1]
    same = (best[..., 1:] == before) | (np.isnan(best[..., 1:]) & np.isnan(before))
    places = np.zeros(best.shape, np.int64)
    places[..., 1:] = np.where(same, 0, np.arange(1, max(best.shape[-1], 1)))
    return np.moveaxis(np.maximum.accumulate(places, -1), -1, axis)


@of_each(_best_so_far, "ufuncs.best_so_far_each")
def _best_so_far_each(values, name, axis, mapped):
    return _best_so_far(values, name, axis)  # the axis counts from the end


def _running_extreme(name, x, axis):
    places = steered(_best_so_far, x, name=name, axis=axis - len(shape_of(x)))
    return take_along_axis(x, places, axis)


def _running(name, x, axis):
    """Segments of 1, 2, 4, … elements are combined: the operation is associative."""
    x, step = moveaxis(x, axis, -1), 1
    while step < shape_of(x)[-1]:
        later = apply(name, x[..., :-step], x[..., step:])
        x, step = concatenate([x[..., :step], later], -1), 2 * step
    return moveaxis(x, -1, axis)


_ACCUMULATE = {
    "add": lambda _, x, axis: cumsum(x, axis),
    "multiply": lambda _, x, axis: cumprod(x, axis),
    "subtract": lambda name, x, axis: cumsum(apply("multiply", x, _signs(name, x, axis)), axis),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _running_extreme),
    **dict.fromkeys(("logaddexp", "logaddexp2", "hypot"), _running),
}


def accumulate(ufunc, x, axis=0, dtype=None, out=None):
    """`np.add.accumulate(x, axis, dtype, out)` and those of other ufuncs."""
    name, x = ufunc.__name__, _operand(x, dtype)
    if differentiates(x) and not _is_answer(ufunc):
        if name not in _ACCUMULATE:
            raise _unsupported(ufunc, "accumulate", x)
        axis = checked_axis(f"{name}.accumulate", axis, len(shape_of(x)))
        made = _ACCUMULATE[name](name, array_tensor(x), axis) if array_of(x).size else x.copy()
    else:
        options = {} if dtype is None else {"dtype": dtype}
        made = without_derivative(ufunc, "accumulate", x, axis=axis, **options)
    return written_to(f"{name}.accumulate", made, out)


# --- reduceat ---------------------------------------------------------------------------------


def reduceat(ufunc, x, indices, axis=0, dtype=None, out=None):
    """`np.add.reduceat(x, indices, axis, dtype, out)` and those of other ufuncs.

    The indices are fixed in programs.
    """
    name, x = ufunc.__name__, _operand(x, dtype)
    if not isinstance(indices, np.ndarray):  # in a list NumPy accepts floats, too
        indices = np.array(fixed(unlisted(indices), f"{name}.reduceat()"), np.intp)
    if differentiates(x) and not _is_answer(ufunc):
        if name not in _REDUCE or name == "subtract":
            raise _unsupported(ufunc, "reduceat", x)
        ufunc.reduceat(value_of(x), indices, axis)  # raises NumPy's own errors
        axis = checked_axis(f"{name}.reduceat", axis, len(shape_of(x)))
        parts = stretches(name, moveaxis(x, axis, -1), indices)
        made = moveaxis(parts, -1, axis)
    else:
        options = {} if dtype is None else {"dtype": dtype}
        made = without_derivative(ufunc, "reduceat", x, indices, axis=axis, **options)
    return written_to(f"{name}.reduceat", made, out)


def stretches(name: str, x, starts: np.ndarray):
    """Segments of elements along the last axis reduced: from each start to before the next.

    A segment that would be empty has the element at its start. Segments of one length are reduced
    together.
    """
    stops = np.append(starts[1:], shape_of(x)[-1])
    lengths = np.maximum(stops - starts, 1)
    parts, order = [], []
    for length in np.unique(lengths):
        (those,) = np.nonzero(lengths == length)
        picked = take(x, starts[those, None] + np.arange(length), -1)
        reduced = _REDUCE[name](picked, -1, False, True, None) if length > 1 else picked[..., 0]
        parts.append(reduced)
        order.append(those)
    if not parts:
        return x[..., :0]
    made = concatenate(parts, -1) if len(parts) > 1 else parts[0]
    return take(made, np.argsort(np.concatenate(order)), -1) if len(parts) > 1 else made


# --- outer ------------------------------------------------------------------------------------


def outer(call, ufunc, a, b, out=None, **kwargs):
    """`np.add.outer(a, b)` and that of other ufuncs; `call(ufunc, inputs)` is a call."""
    a, b = unlisted(a), unlisted(b)
    a = array_tensor(a) if is_tensor(a) else np.asarray(a)
    a = a[(..., *[None] * len(shape_of(b)))]
    b = b if is_tensor(b) else np.asarray(b)
    return called(call, ufunc, (a, b), out, **kwargs)

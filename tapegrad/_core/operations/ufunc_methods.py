"""Ufuncs on tensors: their keywords, and methods such as `np.add.reduce` and `np.add.at`."""

from __future__ import annotations

import functools
import math
import re

import numpy as np

from ..tensor.apply import apply
from ..tensor.conversions import written
from ..tensor.copies import copy_tensor, in_dtype, unlisted
from ..tensor.indexing import (
    added,
    as_tuple,
    axes_and_parts,
    is_basic,
    of_elements,
    scatter_add,
    set_item,
    steered_positions,
)
from ..tensor.operators import begun, written_to
from ..tensor.registry import PUBLIC
from ..tensor.trace import fixed, lost_derivative, named, of_each, steered, steering_tensor
from ..tensor.values import (
    FLOATS,
    array_of,
    check_casting,
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    value_of,
    wrap,
)
from .cumulative import cumprod, cumsum
from .joining import checked_axis, concatenate
from .logsumexp import logsumexp
from .nan_reductions import extreme_number
from .reductions import masked, reduced_axes, sum
from .shapes import array_tensor, broadcast_to, expand_dims, moveaxis
from .sorting import take, take_along_axis

# --- Calls of ufuncs with NumPy's keywords: `out=`, `where=`, `dtype=`, `casting=`, `order=` ------


def called(call, ufunc, inputs, out=None, where=True, casting="same_kind", order="K", **kwargs):
    """The result of a ufunc with keywords; `call(ufunc, inputs)` is the call without.

    `subok` has no meaning for tensors. Raises TypeError for keywords that tensors do not have.
    """
    name = ufunc.__name__
    kwargs.pop("subok", None)
    if ufunc.signature is not None and not kwargs.keys().isdisjoint(("axis", "axes", "keepdims")):
        inputs, call = _along_axes(call, ufunc, inputs, kwargs)
    signature = _signature(ufunc, kwargs.pop("dtype", None), kwargs)
    if kwargs:
        raise TypeError(
            f"tapegrad.{name}: the argument {sorted(kwargs)[0]} is not supported on tensors"
        )
    targets = out if out is not None else (None,) * ufunc.nout
    if where is not True and any([target is None for target in targets]):
        raise TypeError(
            f"tapegrad.{name}: where= without out= leaves elements without a value; give out=, "
            "for instance out=tg.zeros_like(x), or use np.where"
        )
    if signature is not None or casting != "same_kind":
        inputs = _in_loop(ufunc, inputs, targets, signature, casting)
    made = call(ufunc, inputs)
    results = made if isinstance(made, tuple) else (made,)
    if order not in ("K", "A"):
        results = [copy_tensor(r, order) if is_tensor(r) and r.ndim else r for r in results]
    options = dict(where=where, casting=casting, broadcast=ufunc.signature is None)
    written = tuple(
        [
            written_to(name, result, target, **options)
            for result, target in zip(results, targets, strict=True)
        ]
    )
    return written if isinstance(made, tuple) else written[0]


def _along_axes(call, ufunc, inputs, kwargs):
    """Operands whose core axes are the last, and a call that moves those of the result back.

    `axis`, `axes` and `keepdims` are taken out of the keywords; see NumPy's generalized ufuncs.
    """
    counts = [len(core.split(",")) if core else 0 for core in _CORES.findall(ufunc.signature)]
    axes, keepdims = kwargs.pop("axes", None), kwargs.pop("keepdims", False)
    if "axis" in kwargs:
        axes = [(kwargs.pop("axis"),)] * ufunc.nin
    if axes is None:
        axes = [tuple(range(-count, 0)) for count in counts]
    axes = [one if isinstance(one, tuple) else (one,) for one in axes]
    kept = keepdims and not counts[-1]
    axes += [axes[0] if kept else ()] * (len(counts) - len(axes))
    if [len(one) for one in axes] != counts[:-1] + [len(axes[-1]) if kept else counts[-1]]:
        raise ValueError(f"tapegrad.{ufunc.__name__}: axes is {axes}; the core has {counts} axes")
    if keepdims and not kept:
        raise TypeError(f"tapegrad.{ufunc.__name__}: keepdims= is for results without core axes")
    *ins, out = axes
    inputs = [moveaxis(x, one, range(-len(one), 0)) for x, one in zip(inputs, ins, strict=True)]

    def moved(ufunc, inputs):
        made = call(ufunc, inputs)
        made = expand_dims(made, -1) if kept else made
        return moveaxis(made, range(-len(out), 0), out) if out else made

    return inputs, moved


_CORES = re.compile(r"\(([^)]*)\)")


def _signature(ufunc, dtype, kwargs):
    """The dtypes of a loop that `dtype=` or `signature=` requests; None if neither is given."""
    given = kwargs.pop("signature", kwargs.pop("sig", None))
    if given is None and dtype is not None:
        return (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    if isinstance(given, str):
        ins, _, outs = given.partition("->")
        return tuple([np.dtype(letter) for letter in ins + outs])
    return None if given is None else tuple([d if d is None else np.dtype(d) for d in given])


def _in_loop(ufunc, inputs, targets, signature, casting):
    """The inputs in the dtypes of the loop that NumPy chooses."""
    inputs = [unlisted(x) for x in inputs]
    weak = (int, float, complex)
    kinds = [type(x) if type(x) in weak else dtype_of(x) for x in inputs]
    outs = [None if target is None else dtype_of(target) for target in targets]
    options = {} if signature is None else {"signature": signature}
    try:
        dtypes = ufunc.resolve_dtypes((*kinds, *outs), casting=casting, **options)
    except TypeError as error:
        raise TypeError(f"tapegrad.{ufunc.__name__}: {error}") from None
    return [_cast(ufunc.__name__, x, d) for x, d in zip(inputs, dtypes[: ufunc.nin], strict=True)]


def _cast(name: str, x, dtype):
    if differentiates(x):
        if dtype not in FLOATS:
            raise TypeError(
                f"tapegrad.{name}: a recorded tensor would be converted to {dtype}; only float64 "
                "and float32 have derivatives: use one of these, or detach()"
            )
        return in_dtype(x, dtype)
    if is_tensor(x):
        return x.astype(dtype, copy=False)
    return np.asarray(value_of(x), dtype)


# --- Methods of ufuncs on tensors: `np.add.reduce`, `accumulate`, `reduceat`, `outer` -------------


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


# --- `np.add.at`: elements changed at positions, where one may be named many times ----------------


#: Operations whose contributions to one element can be combined first.
_ASSOCIATIVE = ("multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2")


def change_at(call, ufunc, target, key, *given) -> None:
    """`np.add.at(target, key, value)` and those of other ufuncs: in place, repeated elements too.

    `call(ufunc, inputs)` is a call. An element named several times is changed as often.
    """
    name, values = ufunc.__name__, [unlisted(value) for value in given]
    if not is_tensor(target):
        _change_plain(ufunc, target, key, values)
        return
    _check(ufunc, target, values)
    shape = shape_of(target)
    picked = None if is_basic(key) else steered_positions(shape, key)
    axes = () if picked is None else axes_and_parts(shape, key)[0]
    if picked is None or _is_once(picked, math.prod(axes)):
        set_item(target, key, call(ufunc, (target[key], *values)))
    elif name in ("add", "subtract"):
        row = shape[len(axes) :]
        sums = _sums(values[0], picked, (math.prod(axes), *row), array_of(target).dtype)
        set_item(target, ..., apply(name, target, sums.reshape(shape)))
    else:
        picked = np.asarray(fixed(picked, f"{name}.at()"))
        picked = of_elements(picked, (*picked.shape, *shape[len(axes) :]))
        values = [broadcast_to(v, picked.shape).reshape(-1) for v in values]
        _change_in_rounds(call, ufunc, target, picked.ravel(), values)


def _check(ufunc, target, values) -> None:
    if ufunc.nout != 1 or ufunc.signature is not None:
        raise TypeError(f"tapegrad.{ufunc.__name__}.at: a ufunc of one result is needed")
    if len(values) != ufunc.nin - 1:
        raise ValueError(
            f"tapegrad.{ufunc.__name__}.at: got {len(values)} operands beside the target; the "
            f"ufunc takes {ufunc.nin - 1}"
        )
    dtypes = [dtype_of(x) for x in (target, *values)]
    made = ufunc.resolve_dtypes((*dtypes, None), casting="unsafe")[-1]
    check_casting(f"{ufunc.__name__}.at", made, target)


def _change_in_rounds(call, ufunc, target, picked, values) -> None:
    """Change elements at positions: in each round those that have been named once more."""
    order = np.argsort(picked, kind="stable")
    ordered = picked[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(starts, len(ordered)))
    if not picked.size:
        return
    if ufunc.__name__ in _ASSOCIATIVE:
        value = values[0][order]
        if differentiates(value):
            values = [stretches(ufunc.__name__, value, starts)]
        else:
            values = [without_derivative(ufunc, "reduceat", value, starts)]
        picked, order, starts = ordered[starts], np.arange(len(starts)), np.arange(len(starts))
        counts = np.ones(len(starts), np.int64)
    for k in range(int(np.max(counts, initial=0))):
        those = order[starts[counts > k] + k]
        key = np.unravel_index(picked[those], shape_of(target))
        set_item(target, key, call(ufunc, (target[key], *[value[those] for value in values])))


def _change_plain(ufunc, target, key, values) -> None:
    name = ufunc.__name__
    if any([is_recorded(value) for value in values]):
        raise written(values, f".{name}.at")
    parts = [unlisted(part) if isinstance(part, list) and part else part for part in as_tuple(key)]
    parts = [fixed(part, f"{name}.at()") for part in parts]
    plain = tuple(parts) if isinstance(key, tuple) else parts[0]
    ufunc.at(target, plain, *map(value_of, values))


def _is_once(picked, count: int) -> bool:
    """Whether positions that no program computes again name each of so many rows once at most."""
    if is_tensor(picked) or picked.size > count:
        return False
    ordered = np.sort(picked, axis=None)
    return not np.any(ordered[1:] == ordered[:-1])


def _sums(value, picked, rows: tuple[int, ...], dtype):
    """Rows of some shape, each the sum of those of `value` whose position it is."""
    if not differentiates(value):
        return steered(sums_at, value, picked, size=rows, dtype=dtype)
    spread = broadcast_to(array_tensor(in_dtype(value, dtype)), (*shape_of(picked), *rows[1:]))
    return scatter_add(spread, picked, math.prod(rows))


@named("adding.sums_at")
def sums_at(values, picked, size, dtype):
    rows = size if isinstance(size, tuple) else (size,)
    spread = np.broadcast_to(np.asarray(values, dtype), (*np.shape(picked), *rows[1:]))
    return added(spread, np.asarray(picked), math.prod(rows)).reshape(rows)

"""`np.add.at`: elements changed at positions, where one may be named many times."""

from __future__ import annotations

import math

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import in_dtype, unlisted
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
from ..tensor.lost_derivatives import written
from ..tensor.trace import fixed, named, steered
from ..tensor.values import (
    array_of,
    check_casting,
    differentiates,
    dtype_of,
    is_recorded,
    is_tensor,
    shape_of,
    value_of,
)
from .shapes import array_tensor, broadcast_to
from .ufunc_methods import stretches, without_derivative

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

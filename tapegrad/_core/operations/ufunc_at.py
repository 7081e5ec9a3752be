"""`np.add.at`: elements changed at positions, where one may be named many times."""

from __future__ import annotations

import numpy as np

from ..tensor.apply import apply
from ..tensor.copies import in_dtype, unlisted
from ..tensor.gathering import deposit
from ..tensor.indexing import as_tuple, is_basic, set_item, steered_positions
from ..tensor.lost_derivatives import written
from ..tensor.trace import fixed, named, steered
from ..tensor.values import (
    array_of,
    check_casting,
    differentiates,
    is_recorded,
    is_tensor,
    shape_of,
    value_of,
)
from .shapes import array_tensor, broadcast_to

#: Ufuncs of which there is `at`, and the operation by which the sums change the target.
AT = ("add", "subtract")


def change_at(name: str, target, key, value) -> None:
    """`np.add.at(target, key, value)` or that of `subtract`: in place, repeated elements too."""
    value = unlisted(value)
    if not is_tensor(target):
        _change_plain(name, target, key, value)
        return
    check_casting(f"{name}.at", np.result_type(value_of(target), value_of(value)), target)
    picked = None if is_basic(key) else steered_positions(shape_of(target), key)
    if picked is None or _is_once(picked):
        set_item(target, key, apply(name, target[key], value))
        return
    size = int(np.prod(shape_of(target), dtype=np.int64))
    sums = _sums(value, picked, size, array_of(target).dtype)
    set_item(target, ..., apply(name, target, sums.reshape(shape_of(target))))


def _change_plain(name: str, target, key, value) -> None:
    if is_recorded(value):
        raise written(f".{name}.at")
    parts = [unlisted(part) if isinstance(part, list) and part else part for part in as_tuple(key)]
    parts = [fixed(part, f"{name}.at()") for part in parts]
    plain = tuple(parts) if isinstance(key, tuple) else parts[0]
    getattr(np, name).at(target, plain, value_of(value))


def _is_once(picked) -> bool:
    """Whether positions that no program computes again name each element once at most."""
    if is_tensor(picked):
        return False
    ordered = np.sort(picked, axis=None)
    return not np.any(ordered[1:] == ordered[:-1])


def _sums(value, picked, size: int, dtype):
    """An array of `size` elements, each the sum of those of `value` whose position it is."""
    if not differentiates(value):
        return steered(sums_at, value, picked, size=size, dtype=dtype)
    spread = broadcast_to(array_tensor(in_dtype(value, dtype)), shape_of(picked))
    return deposit(spread, picked, size)


@named("adding.sums_at")
def sums_at(values, picked, size, dtype):
    sums = np.zeros(size, dtype)
    np.add.at(sums, picked, values)
    return sums

"""Results written to NumPy's `out=` and `where=`."""

from __future__ import annotations

import numpy as np

from . import runtime as rt
from .apply import apply
from .copies import in_dtype, unlisted
from .indexing import set_item
from .lost_derivatives import written
from .trace import fixed
from .values import FLOATS, dtype_of, is_recorded, is_tensor, shape_of


def written_to(name: str, result, out, where=True, casting="same_kind", broadcast=False):
    """A result; in `out`, a tensor or an array, where one is given.

    With a mask `where` the other elements stay. Raises TypeError for a recorded result in a plain
    array, or one of another kind, ValueError for a shape that does not fit; ufuncs `broadcast`.
    """
    if out is None:
        return result
    _check_shape(name, out, (result, where), broadcast)
    if not np.can_cast(dtype_of(result), dtype_of(out), casting):
        raise TypeError(
            f"tapegrad.{name}: a result of dtype {dtype_of(result)} cannot be written in place to "
            f"out, of dtype {dtype_of(out)}, with casting={casting!r}; convert one with astype"
        )
    if is_tensor(out):
        made = result if where is True else apply("where", mask_of(name, where), result, out)
        if dtype_of(out).kind in "iub" and dtype_of(made) != dtype_of(out):
            made = made.astype(dtype_of(out))
        set_item(out, ..., made)
        return out
    if is_recorded(result) and (rt.trace() is None or dtype_of(result) in FLOATS):
        raise written(result, f".{name}: out=")
    mask = where if where is True else fixed(mask_of(name, where), "where=")
    np.copyto(out, fixed(result, "out="), casting=casting, where=mask)
    return out


def _check_shape(name: str, out, given, broadcast: bool) -> None:
    if not is_tensor(out) and not isinstance(out, np.ndarray):
        raise TypeError(f"tapegrad.{name}: out is {type(out).__name__}; it must be an array")
    shape = shape_of(given[0])
    if broadcast:
        shape = np.broadcast_shapes(shape, shape_of(given[1]), shape_of(out))
    if shape != shape_of(out):
        raise ValueError(
            f"tapegrad.{name}: the result has shape {shape} and out {shape_of(out)}; they must be "
            "equal"
        )


def mask_of(name: str, where):
    """The mask that `where=` is."""
    where = unlisted(where)
    if dtype_of(where) != np.bool_:
        raise TypeError(
            f"tapegrad.{name}: where has dtype {dtype_of(where)}; it must be boolean: compare with "
            "!= 0"
        )
    return where if is_tensor(where) else np.asarray(where)


def begun(name: str, made, initial):
    """The result of a reduction that begins with `initial`, by the operation that it repeats."""
    dtype = dtype_of(made)
    initial = unlisted(initial)
    if shape_of(initial):
        raise ValueError(f"tapegrad.{name}: initial has shape {shape_of(initial)}; give a number")
    if dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: initial is recorded and the result has dtype {dtype}; only float64 "
            "and float32 have derivatives: use astype(float)"
        )
    return apply(name, made, in_dtype(initial, dtype))

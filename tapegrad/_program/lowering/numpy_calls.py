"""Calls without derivative that are operations of programs: comparisons, logic, conversions."""

from __future__ import annotations

import operator

import numpy as np

from ..._core.operations.creation import converted
from ..._core.ops.comparisons import STEERING
from ..._core.ops.table import TABLE
from ..._core.tensor.trace import Call

_BOOL = np.dtype(bool)
_NAMED = {
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
}
_LOGICAL = {
    operator.and_: "logical_and",
    operator.or_: "logical_or",
    operator.xor: "logical_xor",
    operator.invert: "logical_not",
    np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or",
    np.bitwise_xor: "logical_xor",
    np.invert: "logical_not",
}
#: Give the same numbers in another dtype, if that holds them.
_SAME = (np.asarray, np.array, converted)


def operation_of(call: Call, dtypes: list[np.dtype]) -> int | str | None:
    """The code of the operation that a call is; "same" if it changes no value; None for others."""
    if call.function in _SAME and len(call.arguments) == 1:
        return _conversion(dtypes[0], np.dtype(call.keywords.get("dtype", dtypes[0])))
    if call.keywords:
        return None
    if call.function is np.where and len(call.arguments) == 3:
        return TABLE["where"].code if _chooses_doubles(call, dtypes) else None
    if call.function in _LOGICAL:
        plain = [np.asarray(what).dtype for recorded, what in call.arguments if not recorded]
        whole = all(dtype == _BOOL for dtype in [*dtypes, *plain])
        return STEERING[_LOGICAL[call.function]].code if whole else None
    name = _NAMED.get(call.function) or getattr(call.function, "__name__", "")
    if name in STEERING:
        return STEERING[name].code
    if isinstance(call.function, np.ufunc) and name in ("add", "subtract", "multiply"):
        return TABLE[name].code if _in_doubles(call, dtypes) else None
    return None


def _chooses_doubles(call: Call, dtypes: list[np.dtype]) -> bool:
    """Whether what `where` chooses from are numbers of float64, or of Python."""
    given = iter(dtypes)
    found = [next(given) if one else np.asarray(what).dtype for one, what in call.arguments]
    return found[1] == found[2] == np.float64


def _in_doubles(call: Call, dtypes: list[np.dtype]) -> bool:
    """Whether NumPy computes in float64: integers wrap around where doubles do not."""
    plain = [np.asarray(what).dtype for recorded, what in call.arguments if not recorded]
    found = [*dtypes, *plain]
    return np.float64 in found and all(d == np.float64 or d.kind in "iub" for d in found)


def _conversion(before: np.dtype, after: np.dtype) -> str | int | None:
    if before == after == np.float64:
        return STEERING["detached"].code
    if after == before or after == np.float64 or (before == _BOOL and after.kind in "iu"):
        return "same"
    return STEERING["not_equal"].code if after == _BOOL else None

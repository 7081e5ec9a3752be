"""Steps on truths."""

from .step_kinds import declare

_QUICK = "in_arms again"

declare(
    *("bool_and", "bb -> b", "x & y", f"idempotent {_QUICK}"),
    native="and i1 {}, {}",
    neutral=True,
    absorbing=False,
)
declare(
    *("bool_or", "bb -> b", "x | y", f"idempotent {_QUICK}"),
    native="or i1 {}, {}",
    neutral=False,
    absorbing=True,
)
declare(
    *("bool_xor", "bb -> b", "x ^ y", _QUICK), native="xor i1 {}, {}", neutral=False, twice=False
)
declare("bool_not", "b -> b", "not x", f"negates {_QUICK}", native="xor i1 {}, true")
declare("bool_to_int", "b -> i", "x", _QUICK, native="zext i1 {} to i64")

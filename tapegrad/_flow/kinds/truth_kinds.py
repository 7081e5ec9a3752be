"""Steps on truths."""

from .step_kinds import declare

declare(
    *("bool_and", "bb -> b", "x & y", "cheap idempotent"),
    native="and i1 {}, {}",
    neutral=True,
    absorbing=False,
)
declare(
    *("bool_or", "bb -> b", "x | y", "cheap idempotent"),
    native="or i1 {}, {}",
    neutral=False,
    absorbing=True,
)
declare(
    *("bool_xor", "bb -> b", "x ^ y", "cheap"), native="xor i1 {}, {}", neutral=False, twice=False
)
declare("bool_not", "b -> b", "not x", "cheap negates", native="xor i1 {}, true")
declare("bool_to_int", "b -> i", "x", "cheap", native="zext i1 {} to i64")

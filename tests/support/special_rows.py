"""The operations that `test_special_functions` tests, which other tests of the table leave out."""

from tapegrad._core.codegen.vector_math import OF_SCIPY, OWN
from tapegrad._core.ops.table import Pointwise

#: Those that the tests of all operations contain.
_ELSEWHERE = {*"gamma gammaln digamma i0 i1 erfinv erfcinv ndtri erfcx k0 k1".split()}
NAMES = {*OF_SCIPY, *OWN, "bdtr", "bdtrc", "bdtri"} - _ELSEWHERE


def is_ordinary(op) -> bool:
    """Whether an operation is an element-wise one that is none of these."""
    return isinstance(op, Pointwise) and op.name not in NAMES

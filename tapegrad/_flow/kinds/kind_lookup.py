"""The kind of steps of a name."""

import functools

from ..._core.ops.table import Pointwise, find
from . import choice_kinds, memory_kinds, number_kinds
from .elementwise_kinds import HOT, element_wise
from .step_kinds import KINDS, StepKind

# which declare kinds
assert all((choice_kinds, memory_kinds, number_kinds))


@functools.lru_cache(4096)
def kind_of(name: str) -> StepKind:
    """The kind of a name in KINDS, or of an element-wise operation; ValueError for others."""
    if name in KINDS:
        return KINDS[name]
    declared = find(name)
    if not isinstance(declared, Pointwise):
        raise ValueError(f"{name} is not element-wise")
    return element_wise(declared)


def with_cases() -> list[StepKind]:
    """The kinds with cases of their own in the interpreter."""
    return [*map(kind_of, HOT), *KINDS.values()]

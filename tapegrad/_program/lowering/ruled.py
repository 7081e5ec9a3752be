"""Operations without kernels in programs: Python computes their values, and calls their rules."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..._core.ops.references import Site
from ..._core.ops.table import find
from ..._core.tape.overlaps import add_to_view
from ..._core.tensor.values import value_of
from ..._derivatives.declared_adjoints import parts_of, summed_to


@dataclasses.dataclass(frozen=True)
class Ruled:
    """A declared operation as the function of a `Computed` step, which differentiates it."""

    name: str

    def __call__(self, *operands, **static):
        return find(self.name).value(*operands, **static)

    def pull(self, g, out, operands, targets, static) -> None:
        """Add to the adjoints of operands, `targets`; None for those without."""
        found = [(-1 if t is None else 0, x) for t, x in zip(targets, operands, strict=True)]
        site = Site(found, static, out, out.shape)
        with np.errstate(all="ignore"):
            parts = parts_of(find(self.name), g, site, out, operands)
        for target, part in zip(targets, parts, strict=True):
            if target is not None and part is not None:
                add_to_view(target, summed_to(value_of(part), target.shape))


def has_rule(name: str) -> bool:
    """Whether an operation of a program is computed by its rule."""
    op = find(name)
    has_kernels = getattr(op, "layout", None) != "plain" or op.adjoint is not None
    return not has_kernels and op.vjp is not None

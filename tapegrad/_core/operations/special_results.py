"""Ufuncs of `scipy.special` with several results, each an element-wise operation."""

from __future__ import annotations

from ..codegen.vector_math import OF_SCIPY
from ..tensor.apply import apply
from ..tensor.registry import OF_NUMPY


def _several(name: str, parts: list[str]):
    """The function that computes all results."""

    def operation(*operands):
        count = OF_SCIPY[parts[0]].inputs
        if len(operands) != count:  # more would be out=
            raise TypeError(
                f"tapegrad: scipy.special.{name}() got {len(operands)} arguments; it takes {count}"
            )
        return tuple([apply(part, *operands) for part in parts])

    operation.__name__ = operation.__qualname__ = name
    operation.is_element_wise = True  # type: ignore[attr-defined]
    return operation


_PARTS: dict[str, list[str]] = {}
for _part, _found in OF_SCIPY.items():
    if _found.outputs and not _found.of_complex:
        _PARTS.setdefault(_found.name, []).append(_part)
#: By name below `scipy.special`.
SEVERAL = {name: _several(name, parts) for name, parts in _PARTS.items()}
OF_NUMPY.update(SEVERAL)

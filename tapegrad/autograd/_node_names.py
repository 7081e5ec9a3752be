"""Names of operations as PyTorch's graph has them."""

from __future__ import annotations

from .._core.codegen import layout
from .._core.tape.tape import operation_of
from .._derivatives.tape_traversal import Traversal

_CELLS = {layout.LOAD: "SelectBackward0", layout.STORE: "CopySlices"}


def name_of(traversal: Traversal, number: int) -> str:
    """The name of a row's node, such as "MulBackward0"."""
    op = int(traversal.reader.row(number)["op"])
    graph = getattr(operation_of(op), "graph", "")
    return graph(traversal.read(number)) if op > 0 and callable(graph) else name_of_operation(op)


def name_of_operation(op: int) -> str:
    """The name of the nodes of an operation, as far as it follows from a row's word alone."""
    declared = operation_of(op)
    if declared is None:
        return _CELLS.get(abs(op), "")
    if declared.graph and not callable(declared.graph):
        return declared.graph
    name = declared.name
    name = f"a{name[3:]}" if name.startswith("arc") else name
    return f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"

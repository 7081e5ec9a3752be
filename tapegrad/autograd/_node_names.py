"""Names of operations as PyTorch's graph has them."""

from __future__ import annotations

from .._core.tape.tape import name_of_op, object_at
from .._derivatives.tape_walk import Walk

#: Where PyTorch's name does not follow from ours.
_NAMES = {
    "multiply": "Mul",
    "divide": "Div",
    "subtract": "Sub",
    "power": "Pow",
    "square": "Pow",
    "negative": "Neg",
    "absolute": "Abs",
    "load": "Select",
    "gather": "Index",
    "convert": "ToCopy",
    "pack": "Stack",
    "max": "Amax",
    "min": "Amin",
    "rint": "Round",
    "gammaln": "Lgamma",
    "deposit": "IndexPut",
    "scatter": "IndexPut",
}
_PRODUCTS = {(1, 1): "Dot", (2, 1): "Mv", (2, 2): "Mm"}


def name_of(walk: Walk, number: int) -> str:
    """The name of a row's node, such as "MulBackward0"."""
    op = int(walk.reader.row(number)["op"])
    name = name_of_op(op)
    if op > 0 and name == "function":
        return f"{object_at(walk.reader.references(number)['what'][0])}Backward"
    if op > 0 and name in ("link", "contract"):
        return f"{_structure(walk, number, name)}Backward0"
    return name_of_operation(name)


def name_of_operation(name: str) -> str:
    """The name of the nodes of an operation, as far as it follows from the operation alone."""
    if name in ("write", "store"):
        return "CopySlices"
    if name.startswith("arc"):
        name = f"a{name[3:]}"
    return f"{_NAMES.get(name) or ''.join(part.capitalize() for part in name.split('_'))}Backward0"


def _structure(walk: Walk, number: int, name: str) -> str:
    """What a row of linked views, or of a contraction, is."""
    found = walk.read(number)
    if name == "contract":
        return _PRODUCTS.get((found[0][1].ndim, found[1][1].ndim), "Bmm")
    if len(found) > 3:
        return "Cat"
    target = found[1][1]
    summed = any(s == 0 and n > 1 for s, n in zip(target.strides, target.shape, strict=True))
    return "Sum" if summed else "Clone"

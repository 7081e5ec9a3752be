"""The axis of each argument along which the elements of a batch lie, and results stacked."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import items_of, tree_leaves
from .._core.tensor.values import array_of, is_tensor, shape_of, value_of


def axes_of_leaves(name: str, axes, tree) -> list:
    """The axis of each leaf of a tree, where `axes` may stop at a node for all below it."""
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes for _ in tree_leaves(tree)]
    nodes, own = _nodes(tree), _nodes(axes)
    if own is None or nodes is None or set(nodes) != set(own):
        size = "" if nodes is None else f" of {len(nodes)}"
        raise ValueError(
            f"tapegrad.vmap: {name} has {axes!r} for a {type(tree).__name__}{size}; give an int, "
            "or one entry for each"
        )
    return [x for key, node in nodes.items() for x in axes_of_leaves(name, own[key], node)]


def _nodes(tree) -> dict | None:
    """What a node of a tree holds, by keys or positions; None for a leaf."""
    if isinstance(tree, dict):
        return dict(tree)
    return dict(enumerate(items_of(tree))) if isinstance(tree, (tuple, list)) else None


def count_of_elements(leaves, axes) -> int:
    """The number of elements; all mapped arguments must agree."""
    sizes = []
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        shape = shape_of(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"tapegrad.vmap: in_axes has {axis} for an argument of shape {shape}; it must be "
                "one of its axes, or None"
            )
        sizes.append(shape[axis])
    if len(set(sizes)) != 1 or sizes[0] == 0:
        raise ValueError(
            f"tapegrad.vmap: the mapped arguments have {sizes} elements along their axes; they "
            "must agree, and there must be at least one"
        )
    return sizes[0]


def element_of(x, axis, k: int):
    """An argument for one element."""
    if axis is None:
        return x
    value = x if is_tensor(x) else np.asarray(unlisted(x))
    return value[(slice(None),) * (axis % value.ndim) + (k,)]


def check_results(shapes: set, axis) -> None:
    """Refuse results of several shapes, and an axis that the stacked ones would not have."""
    if axis is None:
        raise ValueError(
            "tapegrad.vmap: out_axes has None; it must be the axis along which the results are "
            "stacked"
        )
    if len(shapes) > 1:
        raise ValueError(
            f"tapegrad.vmap: the function returned shapes {sorted(shapes)} for different elements; "
            "they must be equal"
        )
    (shape,) = shapes
    if not -len(shape) - 1 <= axis <= len(shape):
        raise ValueError(
            f"tapegrad.vmap: out_axes has {axis} for results of shape {shape}; it must be an axis "
            "of the stacked ones"
        )


def stacked(column):
    """Results of elements one after the other along a first axis; an array without tensors."""
    made = PUBLIC["stack"](list(column))
    return made if any(map(is_tensor, column)) else array_of(value_of(made))

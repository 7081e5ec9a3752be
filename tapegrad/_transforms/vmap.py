"""`vmap`, a function of one element made one of a batch."""

from __future__ import annotations

import functools

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import array_of, is_tensor, shape_of, value_of


def vmap(f, in_axes=0, out_axes=0):
    """A function that applies `f` to each element along an axis of its arguments.

    `in_axes` says along which axis the elements of each argument lie: an int for all, or a tuple
    with an int, None (the same for every element) or a structure of them per argument. Arguments
    and results may be nested tuples, lists and dicts; keyword arguments go to `f` as they are. The
    results are stacked along `out_axes`, an int or a structure of ints.

    `f` is run once for each element, so it may look at values and branch; what it computes is
    recorded, and the result can be differentiated. It saves no time over a loop. Raises ValueError
    where the axes do not fit the arguments.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.vmap(np.dot)(np.ones((3, 2)), np.arange(6.0).reshape(3, 2))
    array([1., 5., 9.])
    """

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        axes = _spread("in_axes", in_axes, args)
        leaves = [leaf for _, leaf in tree_leaves(args)]
        count = _count(leaves, axes)
        results = []
        for k in range(count):
            element = [_element(x, axis, k) for x, axis in zip(leaves, axes, strict=True)]
            results.append(f(*tree_build(args, iter(element)), **kwargs))
        columns = zip(*[[leaf for _, leaf in tree_leaves(out)] for out in results], strict=True)
        ends = _spread("out_axes", out_axes, results[0])
        stacked = [_stacked(column, axis) for column, axis in zip(columns, ends, strict=True)]
        return tree_build(results[0], iter(stacked))

    return evaluate


def _spread(name: str, axes, tree) -> list:
    """The axis of each leaf of a tree, where `axes` may stop at a node for all below it."""
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes for _ in tree_leaves(tree)]
    keys, own = _keys(tree), _keys(axes)
    if own is None or keys is None or set(keys) != set(own):
        size = "" if keys is None else f" of {len(keys)}"
        raise ValueError(
            f"tapegrad.vmap: {name} has {axes!r} for a {type(tree).__name__}{size}; give an int, "
            "or one entry for each"
        )
    return [axis for key in keys for axis in _spread(name, axes[key], tree[key])]


def _keys(tree):
    """The keys or positions in a node of a tree, None for a leaf."""
    if isinstance(tree, dict):
        return list(tree)
    return list(range(len(tree))) if isinstance(tree, (tuple, list)) else None


def _count(leaves, axes) -> int:
    """How many elements there are; all mapped arguments must agree."""
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


def _element(x, axis, k: int):
    if axis is None:
        return x
    value = x if is_tensor(x) else np.asarray(unlisted(x))
    return value[(slice(None),) * (axis % value.ndim) + (k,)]


def _stacked(column, axis):
    """Results side by side along a new axis; an array where none of them is a tensor."""
    if axis is None:
        raise ValueError("tapegrad.vmap: out_axes has None; the results are stacked along an axis")
    shapes = {shape_of(value) for value in column}
    if len(shapes) > 1:
        raise ValueError(
            f"tapegrad.vmap: the function returned shapes {sorted(shapes)} for different elements; "
            "they must be equal"
        )
    if not -len(shape_of(column[0])) - 1 <= axis <= len(shape_of(column[0])):
        raise ValueError(
            f"tapegrad.vmap: out_axes has {axis} for results of shape {shape_of(column[0])}; it "
            "must be an axis of the stacked ones"
        )
    made = PUBLIC["stack"](list(column), axis)
    return made if any(map(is_tensor, column)) else array_of(value_of(made))

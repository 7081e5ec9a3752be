"""Values in nested tuples, lists and dicts."""

from __future__ import annotations


def tree_leaves(tree, path="") -> list:
    """Values in nested tuples, lists and dicts, each with its place."""
    if isinstance(tree, dict):
        return [x for key in tree for x in tree_leaves(tree[key], f"{path}[{key!r}]")]
    if isinstance(tree, (tuple, list)):
        return [x for k, item in enumerate(tree) for x in tree_leaves(item, f"{path}[{k}]")]
    return [(path, tree)]


def tree_build(tree, values):
    """A tree of the same structure with values taken from an iterator."""
    if isinstance(tree, dict):
        return {key: tree_build(item, values) for key, item in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[tree_build(item, values) for item in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_build(item, values) for item in tree)
    return next(values)

"""`vmap`: a function of one element converted to a function of a batch."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import copy_tensor, unlisted
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.row_listeners import users_level
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of, wrap
from .._entering.entering import entering
from .._transforms.gradients import transformed
from .axes import axes_of_leaves, check_results, count_of_elements, element_of
from .element import Unbatched
from .groups import Group, Mapped

#: The number of elements called by themselves: recording and checking one takes as long as some
#: calls.
FEW = 8
#: The most combinations of branches by which elements are grouped, and the least average number of
#: elements of a group after the first three.
_MOST_WAYS, _LEAST_SIZE, _FIRST = 64, 8, 3
#: Functions that run in a loop, with the arguments for which they do. Each has warned once.
_loops: Any = weakref.WeakKeyDictionary()


def vmap(f, in_axes=0, out_axes=0, *, enter=None):
    """Return a function that applies `f` to each element along an axis of its arguments.

    Parameters
    ----------
    f : callable
        A function of one element. Arguments and results may be nested tuples, lists and dicts;
        keyword arguments are passed to `f` unchanged.
    in_axes : int, None, or a tuple with an entry for each argument
        The axis along which the elements of each argument lie; None for an argument that is the
        same for every element. An entry may be a structure of ints and None like its argument.
    out_axes : int, or a structure of ints like the result
        The axis along which the results are stacked.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function that computes all elements together: `f` is recorded for one element, and each
        operation is executed once for the whole batch. The result can be differentiated, and `f`
        may itself be the result of `grad`, `hessian`, `jvp` or `vmap`.

    Raises
    ------
    ValueError
        When called, if the axes do not fit the arguments, or if the results of elements have
        different shapes.

    Notes
    -----
    `f` may branch on values: elements that take the same branches are computed together. `f` is
    called once for each branch to record it, and once more for another element, to check that it
    depends only on its arguments; for up to 8 elements it is called for each of them. A function
    that depends on anything else, or has an operation that cannot be recorded or has no batching
    rule, is called for each element, and a RuntimeWarning gives the reason once.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.vmap(np.dot)(np.ones((3, 2)), np.arange(6.0).reshape(3, 2))
    array([1., 5., 9.])
    >>> tg.vmap(tg.grad(lambda x: x**2 if x > 0 else -x))(np.array([-1.0, 2.0, 3.0]))
    array([-1.,  4.,  6.])
    """
    entered = entering(f, enter)
    known: set = set()  # as in `_loops`, for functions that have no weak references

    @transformed(vmap, f, in_axes=in_axes, out_axes=out_axes, enter=enter)
    def evaluate(*args, **kwargs):
        axes = axes_of_leaves("in_axes", in_axes, args)
        leaves = [leaf for _, leaf in tree_leaves(args)]
        count = count_of_elements(leaves, axes)
        groups = _evaluated(f, entered, (args, kwargs, leaves, axes), count, known)
        return _together(groups, count, out_axes, leaves)

    return evaluate


# --- elements -------------------------------------------------------------------------------------


def _evaluated(f, entered, given: tuple, count: int, known: set) -> list[Group]:
    """The results of all elements, in groups that take the same branches."""
    args, kwargs, leaves, axes = given

    def call(values):
        return entered(*tree_build(args, iter(values)), **kwargs)

    def loop(numbers):
        return Group.of_results(numbers, [call(_elements(leaves, axes, k)) for k in numbers])

    everyone = np.arange(count)
    key = tuple([(axis, *_kind(leaf)) for leaf, axis in zip(leaves, axes, strict=True)])
    if count <= FEW or key in _loops_of(f, known):
        return [loop(everyone)]
    mapped, reason = Mapped(call, leaves, axes, count), ""
    try:
        groups, left, place = _grouped(mapped, everyone)
        if len(left) > FEW:
            often = "for nearly every element; np.where computes both"
            reason = f"it takes another branch at {place} {often}"
    except Unbatched as error:
        reason, groups, left = str(error), [], everyone
    if len(left):
        groups.append(loop(left))
    if reason:
        _say(f, reason, _loops_of(f, known), key)
    return groups


def _loops_of(f, known: set) -> set:
    """The arguments for which a function is known to run in a loop."""
    try:
        return _loops.setdefault(f, set())
    except TypeError:  # no weak reference to it can be made
        return known


def _grouped(mapped: Mapped, left: np.ndarray) -> tuple[list[Group], np.ndarray, Any]:
    """Elements by branches taken, those left, and where the last of them take another branch."""
    groups: list[Group] = []
    place, total = None, len(left)
    while len(left) > FEW:
        covered = total - len(left)
        if groups and (len(groups) >= _MOST_WAYS or covered < _LEAST_SIZE * (len(groups) - _FIRST)):
            break
        group, left, other = mapped.first_way(left)
        groups.append(group)
        place = other or place
    return groups, left, place


def _elements(leaves, axes, k: int) -> list:
    return [element_of(x, axis, k) for x, axis in zip(leaves, axes, strict=True)]


def _kind(leaf) -> tuple:
    """A key that is equal for arguments that are alike."""
    value = value_of(unlisted(leaf))
    return type(leaf), np.shape(value), str(getattr(value, "dtype", ""))


def _say(f, reason: str, loops: set, key) -> None:
    """Warn, once for each function, that it is called for each element."""
    is_new = not loops
    loops.add(key)
    if is_new:
        warnings.warn(
            f"tapegrad.vmap: {getattr(f, '__name__', str(f))} is called for each element, in a "
            f"loop: {reason}",
            RuntimeWarning,
            stacklevel=users_level(),
        )


# --- results --------------------------------------------------------------------------------------


def _together(groups: list[Group], count: int, out_axes, arguments: list):
    """The results of all groups in one, along the requested axes."""
    tree = groups[0].tree
    places = [place for place, _ in tree_leaves(tree)]
    if any([place for place, _ in tree_leaves(group.tree)] != places for group in groups):
        raise ValueError("tapegrad.vmap: the function returned different structures for elements")
    ends = axes_of_leaves("out_axes", out_axes, tree)
    held = [value_of(x) for x in arguments if isinstance(value_of(x), np.ndarray)]
    made = []
    for k, axis in enumerate(ends):
        check_results({shape for group in groups for shape in group.shapes(k)}, axis)
        made.append(_own(_merged([group.leaf(k) for group in groups], groups, count), axis, held))
        is_wanted = any(group.tensors[k] for group in groups) and not is_tensor(made[-1])
        held.append(value_of(made[-1]))
        made[-1] = wrap(made[-1]) if is_wanted else made[-1]
    return tree_build(tree, iter(made))


def _merged(parts: list, groups: list[Group], count: int):
    """The results of groups in the order of the elements."""
    if len(parts) == 1:
        return parts[0]
    order = np.concatenate([group.numbers for group in groups])
    back = np.empty(count, np.int64)
    back[order] = np.arange(count)
    return PUBLIC["concatenate"](parts)[back]


def _own(value, axis: int, held: list):
    """A result with its elements along an axis, in memory of its own."""
    if is_tensor(value) and not is_recorded(value):
        value = value_of(value)
    axis = axis % len(shape_of(value))
    seen = PUBLIC["moveaxis"](value, 0, axis) if axis else value
    if is_tensor(seen):
        return copy_tensor(seen)
    if seen.flags.c_contiguous and seen.flags.owndata and seen.flags.writeable:
        if not any(np.may_share_memory(seen, other) for other in held):
            return seen
    return np.array(seen, order="C")

"""`vmap`: a function of one element converted to a function of a batch; axes, branches."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import copy_tensor, unlisted
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import items_of, tree_build, tree_leaves
from .._core.tensor.trace import MOST_GUARDS, Guard, named, steered
from .._core.tensor.values import array_of, is_recorded, is_tensor, shape_of, value_of, wrap
from .._entering.entering import entering
from .._transforms.gradients import transformed
from .batched_rows import (
    BatchedRows,
    Element,
    Unbatched,
    difference,
    first_difference,
    in_order_of,
    moved,
)

# --- axes -----------------------------------------------------------------------------------------
# The axis of each argument along which the elements of a batch lie, and results stacked.


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


# --- groups ---------------------------------------------------------------------------------------
# Elements of a batch that take the same branches of a function, computed together and checked.

#: The largest number of guards that are checked one by one.
_MOST_LOOKED_AT = 100


@dataclasses.dataclass
class Group:
    """Results of some elements: one leaf of `tree` after the other, with an axis of elements first.

    A leaf that is the same for all has no such axis and is not `mapped`. `tensors` says which are
    tensors when an element is called by itself.
    """

    numbers: np.ndarray
    tree: Any
    leaves: list
    mapped: list[bool]
    tensors: list[bool]
    several: list[set] | None = None  # the shapes of each leaf where there is more than one

    @classmethod
    def of_results(cls, numbers: np.ndarray, results: list) -> Group:
        """Results of elements called by themselves."""
        columns = zip(*[[leaf for _, leaf in tree_leaves(out)] for out in results], strict=True)
        leaves, shapes = [], []
        for column in columns:
            shapes.append({shape_of(leaf) for leaf in column})
            leaves.append(stacked(column) if len(shapes[-1]) == 1 else None)
        tensors = [is_tensor(leaf) for leaf in leaves]
        return cls(numbers, results[0], leaves, [True] * len(leaves), tensors, shapes)

    def shapes(self, k: int) -> set:
        """The shapes of a result for one element."""
        if self.several is not None:
            return self.several[k]
        shape = shape_of(self.leaves[k])
        return {shape[1:] if self.mapped[k] else shape}

    def leaf(self, k: int):
        """A result for all elements."""
        value = self.leaves[k]
        if self.mapped[k]:
            return value
        return PUBLIC["broadcast_to"](value, (len(self.numbers), *shape_of(value)))

    def like(self, direct: list, tensors: list[bool]) -> None:
        """Convert results that are not differentiated to the dtypes of one element's results.

        A tensor in single precision may be a Python float in the call of one element.
        """
        self.tensors = tensors
        for k, (value, wanted) in enumerate(zip(self.leaves, direct, strict=True)):
            if not is_recorded(value) and array_of(value).dtype != array_of(wanted).dtype:
                self.leaves[k] = array_of(value).astype(array_of(wanted).dtype)

    def of_element(self, k: int) -> list:
        """The plain results of one of the elements."""
        pairs = zip(self.leaves, self.mapped, strict=True)
        return [array_of(value)[k] if mapped else array_of(value) for value, mapped in pairs]


class Mapped:
    """A function of one element, `call`, with the arguments of the whole batch."""

    def __init__(self, call: Callable, leaves: list, axes: list, count: int):
        self.call, self.leaves, self.axes, self.count = call, leaves, axes, count
        self.mapped = [k for k, axis in enumerate(axes) if axis is not None]

    def first_way(self, left: np.ndarray) -> tuple[Group, np.ndarray, Guard | None]:
        """The group of the first of some elements, the others, and where the first of them turn."""
        element = self._recorded(int(left[0]))
        found, same, other = self._together(element, left)
        if not same[0]:
            raise Unbatched(f"computed again it takes another branch at {other}")
        numbers = left[same]
        if found is None or (not same.all() and any(map(is_recorded, found))):
            found = self._alike(element, numbers)
        elif not same.all():
            found = [value if value is None else value[same] for value in found]
        group = self._group(element, numbers, found)
        self._check(element, group)
        return group, left[~same], other

    def _together(self, element: Element, numbers) -> tuple:
        """Results for elements, None if that fails, and which take the recorded branches."""
        wanted = [one for one in element.results if one is not None]
        try:
            made = iter(self._computed(element, numbers, wanted + element.conditions))
        except Unbatched:
            raise
        except Exception as error:
            if not element.guards:
                raise Unbatched(f"for the whole batch it raises {_text(error)}") from error
            return None, *self._one_after_the_other(element, numbers)
        found = [None if one is None else next(made) for one in element.results]
        return found, *_same_way(element, [*made], len(numbers))

    def _one_after_the_other(self, element: Element, numbers) -> tuple:
        """The elements that take the recorded branches; the computation may fail on the others."""
        same, other = np.arange(len(numbers)), None
        if rt.trace() is not None or len(element.guards) > _MOST_LOOKED_AT:
            raise Unbatched("for the whole batch the branch of one element fails")
        for guard, condition in zip(element.guards, element.conditions, strict=True):
            (value,) = self._alike(element, numbers[same], [condition])
            met = np.ones(len(same), bool)
            if value is not None:
                met = _meets(value_of(value), *_expected(guard))
            other = guard if other is None and not met.all() else other
            same = same[met]
        is_same = np.zeros(len(numbers), bool)
        is_same[same] = True
        return is_same, other

    def _alike(self, element: Element, numbers, wanted: list | None = None) -> list:
        """The results of elements that all take the recorded branches."""
        try:
            if wanted is not None:
                return self._computed(element, numbers, wanted)
            made = [one for one in element.results if one is not None]
            found = iter(self._computed(element, numbers, made))
        except Unbatched:
            raise
        except Exception as error:
            raise Unbatched(f"for the whole batch it raises {_text(error)}") from error
        return [None if one is None else next(found) for one in element.results]

    # --- computing ------------------------------------------------------------------------------

    def _recorded(self, k: int) -> Element:
        values = [np.asarray(value_of(self._element(n, k))) for n in self.mapped]

        def call(inputs):
            given, made = list(self.leaves), iter(inputs)
            for n in self.mapped:
                given[n] = next(made)
            return self.call(given)

        return Element(call, values, [self.leaves[n] for n in self.mapped])

    def _element(self, n: int, k: int):
        return element_of(self.leaves[n], self.axes[n], k)

    def _computed(self, element: Element, numbers, wanted: list) -> list:
        """The counterparts of recorded tensors in some elements; None for those that are shared."""
        pairs = zip(self.mapped, element.inputs, strict=True)
        inputs = [self._whole(n, one, numbers) for n, one in pairs]
        return BatchedRows(element, inputs, len(numbers)).run(wanted)

    def _whole(self, n: int, tensor, numbers):
        """An argument for some elements, along a first axis, in memory as that of one."""
        leaf = self.leaves[n]
        if not is_recorded(leaf) or not rt.is_recording():
            leaf = np.asarray(value_of(unlisted(leaf)))
        value = PUBLIC["moveaxis"](leaf, self.axes[n], 0)
        if len(numbers) != self.count:
            value = value[numbers]
        return in_order_of(value, np.asarray(value_of(tensor)))

    def _group(self, element: Element, numbers, found: list) -> Group:
        """Results of elements; those that are the same for all are as recorded."""
        leaves, mapped = [], []
        for leaf, value in zip(element.leaves, found, strict=True):
            mapped.append(value is not None)
            if value is None:
                is_outer = is_recorded(leaf) and leaf._id in element.outer and rt.is_recording()
                value = leaf if is_outer else value_of(leaf)
            leaves.append(value)
        return Group(numbers, element.out, leaves, mapped, [False] * len(leaves))

    # --- checking -------------------------------------------------------------------------------

    def _check(self, element: Element, group: Group) -> None:
        """Compare with the recording, and with the function called for the last element."""
        direct, tree = self._direct(int(group.numbers[-1]), 0.0)
        if [place for place, _ in tree_leaves(tree)] != [p for p, _ in tree_leaves(group.tree)]:
            raise Unbatched("it returns another structure for another element")
        self._compare(element, group, direct)
        group.like([value_of(leaf) for leaf in direct], [is_tensor(leaf) for leaf in direct])

    def _compare(self, element: Element, group: Group, direct: list) -> None:
        last = len(group.numbers) - 1
        recorded = [value_of(leaf) for leaf in element.leaves]
        for k, wanted in ((0, recorded), (last, direct)):
            wrong = first_difference(
                group.of_element(k),
                [value_of(one) for one in wanted],
                lambda units, k=k: self._direct(int(group.numbers[k]), units)[0],
                element.scale,
            )
            if wrong >= 0:
                raise Unbatched(difference(value_of(wanted[wrong]), group.of_element(k)[wrong]))

    def _direct(self, k: int, units: float) -> tuple[list, Any]:
        """The results for one element, called by itself outside of any trace."""
        given = list(self.leaves)
        for n in self.mapped:
            value = moved(value_of(self._element(n, k)), units)
            own = np.array(value, order="K")[()]
            given[n] = wrapped(own) if is_tensor(self.leaves[n]) else own
        with rt.tracing(None):
            out = self.call(given)
        return [leaf for _, leaf in tree_leaves(out)], out


def wrapped(value):
    """A plain value as a tensor that is not recorded."""
    if isinstance(value, np.float64):
        return rt.scalar_at(float(value), -1, 0)
    return rt.wrap(np.asarray(value))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# --- ways -----------------------------------------------------------------------------------------


def _same_way(element: Element, conditions: list, count: int) -> tuple[np.ndarray, Guard | None]:
    """The elements that satisfy all guards of a recording, and a guard that others do not."""
    same, other, trace = np.ones(count, bool), None, rt.trace()
    for guard, value in zip(element.guards, conditions, strict=True):
        if value is None:
            continue
        met = _meets(value_of(value), *_expected(guard))
        if trace is not None and is_recorded(value):
            _learn(trace, guard, value, same, met)
        other = other if other is not None or (met | ~same).all() else guard
        same &= met
    if trace is not None:
        _tell(trace, element, conditions)
    return same, other


def _learn(trace, guard: Guard, value, same: np.ndarray, met: np.ndarray) -> None:
    """Tell an outer trace which of the elements reached satisfy a guard."""
    position, expected = _expected(guard)
    places = np.flatnonzero(same)
    function, most = _all_meet, len(places)
    if not met[places].all():  # each element by itself
        function, most = _meet_at, MOST_GUARDS
    for k in range(0, len(places), max(most, 1)):
        at = places[k : k + most]
        seen = steered(function, value, position=position, expected=expected, at=at)
        trace.learn(seen, guard.how)


def _expected(guard: Guard) -> tuple:
    return guard.position, np.ravel(array_of(guard.tensor))[guard.position]


def _meets(value, position, expected) -> np.ndarray:
    one = value.reshape(len(value), -1)[:, position]
    return (one == expected) | ((one != one) & (expected != expected))


@named("batching.meet_at")
def _meet_at(value, position, expected, at):
    return _meets(value, position, expected)[at]


@named("batching.all_meet")
def _all_meet(value, position, expected, at):
    return bool(_meets(value, position, expected)[at].all())


def _tell(trace, element: Element, conditions: list) -> None:
    """Tell an outer trace of rows that were recorded in that of an element."""
    for guard, value in zip(element.guards, conditions, strict=True):
        if value is None and guard.tensor._id in element.outer:
            trace.learn(guard.tensor, guard.how)
    if element.outer:
        trace.held += element.trace.held
        trace.steering |= element.trace.steering
        trace.detached |= element.trace.detached
        trace.shared += element.trace.shared
        trace.originals |= element.trace.originals


# --- vmap -----------------------------------------------------------------------------------------
# `vmap`: a function of one element converted to a function of a batch.

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

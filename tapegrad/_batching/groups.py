"""Elements of a batch that take the same branches of a function, computed together and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.trace import MOST_GUARDS, Guard, named, steered
from .._core.tensor.values import array_of, is_recorded, is_tensor, shape_of, value_of
from .agreement import difference, first_difference, moved
from .axes import element_of, stacked
from .batched_rows import BatchedRows, in_order_of
from .element import Element, Unbatched

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

"""Parts of the steps that move values without changing them: Link, Gather, Scatter, Pack.

Properties known when the part is made are used then: views are traversed with as few axes as
possible, values that nothing else adds to are copied and not added, and neighbours are moved
together.
"""

from __future__ import annotations

import functools

import numpy as np

from ..._core.codegen import elements
from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source
from ..ir import uses
from ..ir.moving_step import Gather, Link, Pack, Scatter
from ..ir.steps import ARENA, View
from ..ir.uses import is_injective, slots_of
from . import move_kernels as kernels
from .parts import NO_BASES, SIGNATURE, Bases, Part, Wanted, part_of

#: Runs of neighbours are moved as such if they are this long on average.
LONG = 4


@functools.cache
def compiled(item: int) -> dict[str, int]:
    """The one compiled module, by name of its functions, for elements of so many bytes."""
    text = elements.head(item, "tapegrad._program.replay.move_kernels") + kernels.TEXT
    return compile_source(text, dict.fromkeys(kernels.EXPORTS, SIGNATURE))


def words(*items) -> np.ndarray:
    """Numbers, and lists and arrays of numbers, one after the other."""
    return np.concatenate([np.atleast_1d(np.asarray(item, np.int64)).ravel() for item in items])


def merged(sizes, *strides) -> list[tuple[int, ...]]:
    """The axes of views over one shape, as (size, stride of each): axes that all views traverse as
    one are merged, and those of size 1 left out."""
    axes: list[tuple[int, ...]] = []
    for n, *steps in zip(sizes, *strides, strict=True):
        if n == 1:
            continue
        if axes and all(a == n * b for a, b in zip(axes[-1][1:], steps, strict=True)):
            axes[-1] = (axes[-1][0] * n, *steps)
        else:
            axes.append((n, *steps))
    return axes


# --- links ------------------------------------------------------------------------------------


def covered_once(link: Link) -> tuple[list[bool], bool]:
    """The pairs that alone reach their targets, and whether these are the whole output."""
    if len(link.pairs) == 1 and link.pairs[0][0] == link.out:
        return [True], True
    count = np.zeros(link.out.size, np.int32)
    places = [target.moved(-link.out.offset) for target, _ in link.pairs]
    for place in places:
        if is_injective(place):
            place.of(count)[...] += 1
        else:
            np.add.at(count, slots_of(place), 1)
    alone = [bool((place.of(count) == 1).all()) for place in places]
    reached = sum(place.size for place, only in zip(places, alone, strict=True) if only)
    return alone, reached == link.out.size


def move_words(target: View, source: View, sets: bool, wanted: bool, item: int) -> np.ndarray:
    """The words of a move; the line is the axis with the shortest steps."""
    order = sorted(
        range(len(target.shape)),
        key=lambda k: -max(abs(target.strides[k]), abs(source.strides[k])),
    )
    lists = (target.shape, target.strides, source.strides)
    axes = merged(*[[one[k] for k in order] for one in lists]) or [(1, 0, 0)]
    n, step, from_step = axes.pop()
    counts: list[int] = []
    lines, back, from_back = 1, 0, 0
    for size, by, from_by in axes[::-1]:  # when an axis counts, those inside it go back
        counts[:0] = [size, item * (by - back), item * (from_by - from_back)]
        back, from_back = back + (size - 1) * by, from_back + (size - 1) * from_by
        lines *= size
    sides = target.base, item * target.offset, item * step
    from_sides = source.base, item * source.offset, item * from_step
    head = int(sets), int(wanted), n, lines, len(axes)
    found = [0, *head, *sides, *from_sides, *counts]
    found[0] = ITEM * len(found)
    return np.array(found, np.int64)


@part_of.register(Link)
def part_of_link(step: Link, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    code = compiled(item)
    pairs = [pair for pair in step.pairs if pair[0].size]
    alone, whole = covered_once(Link(step.out, pairs))
    moves = [
        move_words(target, source, sets, wanted(source), item)
        for (target, source), sets in zip(pairs, alone, strict=True)
    ]
    clear = 0 if whole else item * step.out.size
    data = words(item * step.out.offset, clear, len(moves), *moves)
    reverse = any(wanted(source) for _, source in pairs)
    return Part(code["link_forward"], code["link_reverse"] if reverse else 0, data)


# --- picks ------------------------------------------------------------------------------------


def _places(slots: np.ndarray, out: np.ndarray, item: int) -> np.ndarray:
    """The words of a list of places, and of their places in the output."""
    breaks = (np.diff(slots) != 1) | (np.diff(out) != 1)
    starts = np.concatenate([np.zeros(min(1, slots.size), np.int64), breaks.nonzero()[0] + 1])
    lengths = np.diff(starts, append=slots.size)
    if slots.size > 0 and out[0] == 0 and out[-1] == slots.size - 1:
        if slots.size < LONG * starts.size:
            return words(1, slots.size, item * slots)
        if (lengths == lengths[0]).all():
            return words(lengths[0], starts.size, item * slots[starts])
    places = [item * slots[starts], item * out[starts], lengths]
    return words(0, starts.size, np.stack(places, 1))


def _picked(out: View, base: int, slots: np.ndarray, mask: np.ndarray, item: int) -> Part:
    """The part that takes slots of a base; `mask` says which of them have an adjoint."""
    slots, order = slots.astype(np.int64).ravel(), np.arange(slots.size)
    lists = [_places(slots, order, item)]
    if not mask.all():
        lists.append(_places(slots[mask], order[mask], item))
    return _part_of_places(out, base, lists, bool(mask.any()), item)


def _part_of_places(out: View, base: int, lists: list, reverse: bool, item: int) -> Part:
    """The part that takes what is at places; the last list is for the reverse."""
    code, at = compiled(item), kernels.PICK_LISTS
    data = words(base, item * out.offset, at + sum(one.nbytes for one in lists[:-1]), *lists)
    return Part(code["pick_forward"], code["pick_reverse"] if reverse else 0, data)


@part_of.register(Pack)
def part_of_pack(
    step: Pack, wanted: uses.Wanted, fresh: Bases = NO_BASES, item: int = ITEM
) -> Part:
    slots = step.slots.ravel()
    return _picked(step.out, ARENA, slots, wanted.of_slots(slots), item)


def _view_words(view: View, item: int) -> np.ndarray:
    """The words of a view that is read in C order."""
    axes = merged(view.shape, view.strides) or [(1, 0)]
    pairs = [(n, item * stride) for n, stride in axes]
    return words(view.base, item * view.offset, len(axes), pairs)


def _picked_rows(step: Gather, positions: np.ndarray, reverse: bool, item: int) -> Part:
    """The part that takes rows at known places."""
    source, width = step.source, step.width
    if source.is_contiguous and width > 1:
        first = source.offset + width * positions.ravel()
    else:
        slots = slots_of(source).reshape(-1, width)[positions.ravel()]
        first = slots[:, 0]
        if width == 1 or not (np.diff(slots) == 1).all():
            mask = np.full(slots.size, reverse)
            return _picked(step.out, source.base, slots, mask, item)
    places = words(width, first.size, item * first)
    return _part_of_places(step.out, source.base, [places], reverse, item)


@part_of.register(Gather)
def part_of_gather(step: Gather, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    reverse = wanted(step.source)
    if not isinstance(step.positions, View):
        return _picked_rows(step, step.positions, reverse, item)
    code = compiled(item)
    positions, source = _view_words(step.positions, item), _view_words(step.source, item)
    at = kernels.GATHER_WORDS
    sizes = (step.out.size // step.width, step.source.size // step.width, step.width)
    data = words(item * step.out.offset, sizes, at, at + positions.nbytes, positions, source)
    return Part(code["gather_forward"], code["gather_reverse"] if reverse else 0, data)


# --- writes -----------------------------------------------------------------------------------


@part_of.register(Scatter)
def part_of_scatter(
    step: Scatter, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM
) -> Part:
    code = compiled(item)
    copy = move_words(step.out, step.before, True, wanted(step.before), item)
    positions, source = _view_words(step.positions, item), _view_words(step.source, item)
    at = kernels.SCATTER_MOVE + copy.nbytes
    sizes = (step.source.size // step.width, step.out.size // step.width, step.width)
    asked = wanted(step.source)
    data = words(
        item * step.out.offset, sizes, asked, at, at + positions.nbytes, copy, positions, source
    )
    reverse = asked or wanted(step.before)
    return Part(code["scatter_forward"], code["scatter_reverse"] if reverse else 0, data)

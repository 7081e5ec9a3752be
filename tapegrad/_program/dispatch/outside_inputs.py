"""Large arrays that a function reads from outside, as inputs of its programs.

They are not compared in each call: steps read their elements where they lie. While the function is
recorded it is a copy of itself that reads recorded data in their place. Arrays of which something
is computed in advance, since that takes longer than to compare them, are compared instead.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.layout import LEAF
from ..._core.tensor import plain_data
from ..._core.tensor import runtime as rt
from ..._core.tensor.container_contents import Contents, Layout
from ..._core.tensor.copies import view_like
from ..._core.tensor.dependencies import Checked, Dependencies, Dependency
from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.values import is_recorded, is_tensor
from ..ir.steps import ARENA, Code
from ..passes.costs_in_advance import dear
from ..passes.input_planning import LARGE
from .names_read import names_read
from .replaced_objects import Replaced

KEPT = "it keeps what it computes of data from outside"
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
#: So many times as large as an array that is read may that be in which it lies; arrays at most.
_LARGER, _MOST = 64, 60


def root_of(array: np.ndarray) -> np.ndarray | None:
    """The large array in C order in whose memory an array lies; None where there is none."""
    if type(array) not in (np.ndarray, np.memmap) or array.dtype not in _FLOATS:
        return None
    found = np.asarray(array)
    while not found.flags.c_contiguous:
        if found.flags.f_contiguous:
            found = found.T
        elif isinstance(found.base, np.ndarray):
            found = np.asarray(found.base)
        else:
            return None
    fits = found.dtype == array.dtype and LARGE <= found.size <= _LARGER * array.size
    return found if fits else None


def in_place(f: Callable, names: Dependencies, compared: Collection[str]) -> Dependencies:
    """The names that a function reads, with arrays that are not compared.

    These are the large arrays that a copy of the function does not reach; those `compared` stay.
    """
    is_any = any(isinstance(one, Contents) and _place(one.owner) for one in names)
    every = Replaced(f, {}).objects if is_any else []
    arrays = [x for x in every if isinstance(x, np.ndarray) and root_of(x) is not None][:_MOST]
    if not arrays:
        return names
    others = names_read(Replaced(f, {id(array): None for array in arrays}).function)
    left = {_place(one.owner) for one in others if isinstance(one, Contents)}
    chosen = {_place(array): array for array in arrays if _place(array) not in left}
    found: list[Checked] = []
    for one in names:
        array: Any = chosen.get(_place(one.owner)) if isinstance(one, Contents) else None
        is_left = array is None or one.name in compared
        found.append(one if is_left else Layout.of(array, one.name))
    return Dependencies(found, names.effects)


def rebound(f: Callable, names: Dependencies) -> tuple[Dependencies, dict[int, Any]] | None:
    """The names, if all that has changed is that some hold other arrays in the same layout.

    With them are these arrays by the ids of those before. None where anything else has changed.
    """
    before = {id(array): array for array in names.in_place()}
    pairs = [(one, one.now()) for one in names if isinstance(one, Dependency)]
    pairs = [(one, now) for one, now in pairs if id(one.value) in before and now is not one.value]
    others = {id(one.value): now for one, now in pairs}
    if not others or not all(_is_like(before[key], new) for key, new in others.items()):
        return None
    found: list[Checked] = []
    for one in names:
        if isinstance(one, Dependency) and (new := others.get(id(one.value))) is not None:
            one = one._replace(value=new)
        elif isinstance(one, Layout) and (new := others.get(id(one.owner))) is not None:
            one = Layout.of(new, one.name)
        found.append(one)
    made, holders = Dependencies(found, names.effects), Replaced(f, {}).holders
    if not made.unchanged() or not holders.keys().isdisjoint(others):
        return None
    for new in others.values():  # which only the names lead to
        owners = [id(one.owner) for one, now in pairs if now is new]
        every = [one for one in found if isinstance(one, Dependency) and one.value is new]
        if {*map(id, holders.get(id(new), ()))} != {*owners} or len(every) > len(owners):
            return None
    return (made, others) if len({*map(id, others.values())}) == len(others) else None


def _is_like(before: np.ndarray, now) -> bool:
    """Whether both are arrays in C order, of one shape and dtype."""
    if not (type(now) is type(before) is np.ndarray and now.flags.c_contiguous):
        return False
    return before.flags.c_contiguous and (now.shape, now.dtype) == (before.shape, before.dtype)


def _place(owner) -> tuple | None:
    """Where an array lies, and how; None for other objects."""
    if not isinstance(owner, np.ndarray):
        return None
    return owner.ctypes.data, owner.shape, owner.strides, owner.dtype


class Compared(Exception):
    """Some `arrays` are to be compared, since something is computed of them in advance."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        super().__init__("arrays from outside are to be compared")
        self.arrays = arrays


class OutsideInputs:
    """Arrays from outside that a recording takes as inputs.

    The inputs are the arrays in which they lie, `roots`, recorded as `tensors` with their `values`
    of the time.
    """

    def __init__(self, arrays: Sequence[np.ndarray] = ()):
        self.arrays = [*arrays]
        roots = {_place(root): root for root in map(root_of, arrays) if root is not None}
        self.roots, self.values = [*roots.values()], [np.array(root) for root in roots.values()]
        self.tensors: list = []
        self._views: list = []
        self._replaced: Replaced | None = None
        self._is_kept = False  # whether any of them is kept outside

    def recorded(self, f: Callable, trace) -> Callable:
        """A function that reads recorded tensors in place of the arrays."""
        if not self.arrays:
            return f
        self.tensors = [_data(value, trace) for value in self.values]
        self._views = [self._view(array) for array in self.arrays]
        others = zip(map(id, self.arrays), self._views, strict=True)
        self._replaced = Replaced(f, dict(others))
        return self._replaced.function

    def _number(self, array: np.ndarray) -> int:
        """The root of an array."""
        place = _place(root_of(array))
        return [_place(root) for root in self.roots].index(place)

    def _view(self, array: np.ndarray):
        """The tensor that stands for an array: it lies like this one in the tensor of the root."""
        k = self._number(array)
        offset = array.ctypes.data - self.roots[k].ctypes.data
        view = np.ndarray(array.shape, array.dtype, self.values[k], offset, array.strides)
        view.flags.writeable = False
        return view_like(self.tensors[k], view)

    def write_back(self) -> None:
        """Let the user's objects hold what the call has written to copies of them."""
        if self._replaced is not None:
            self._replaced.write_back(self._kept)

    def are_kept(self, names: Dependencies, trace) -> bool:
        """Whether the call keeps outside what it has computed of the arrays.

        Plain arrays are kept then, as without a recording.
        """
        if self._replaced is None:
            return False
        with rt.tracing(trace):
            for one in names.effects:
                _let_hold(one, self._kept)
        return self._is_kept

    def _kept(self, value):
        """What is kept outside for a value: plain arrays for data of the recording."""
        arrays = dict(zip(map(id, self._views), self.arrays, strict=True))
        leaves = [leaf for _, leaf in tree_leaves(value)]
        made = [arrays[id(x)] if id(x) in arrays else _plain(x) for x in leaves]
        if all(map(operator.is_, leaves, made)):
            return value
        self._is_kept = True
        return tree_build(value, iter(made))

    def check_reads(self, code: Code, made: Code) -> None:
        """Raise `Compared` where it takes less time to compare arrays than to read them.

        `code` is as recorded; in `made`, after all passes, inputs that are copied lie in the arena.
        """
        if not self.arrays:
            return
        first = len(code.inputs) - len(self.roots)
        chosen = dear(code, first)
        chosen |= {k for k, one in enumerate(made.inputs[first:]) if one.view.base == ARENA}
        if chosen:
            raise Compared([array for array in self.arrays if self._number(array) in chosen])


def _data(value: np.ndarray, trace):
    """An array as a recorded tensor that is not differentiated; see `Arguments.record`."""
    value.flags.writeable = False  # as of all data
    tensor = rt.row(LEAF, value)
    trace.steering.add(tensor._id)
    trace.data[tensor._id] = value.dtype.type
    rt.note_input(tensor._id, False)
    trace.held.append(tensor)
    return tensor


def _plain(value):
    """What is kept outside for a value: an array for data of a recording."""
    if not (is_tensor(value) and is_recorded(value)):
        return value
    found = plain_data.plain(value)
    return value if found is None else found


def _let_hold(one: Checked, plain: Callable[[Any], Any]) -> None:
    """Let a name or a container hold plain values, if it does not."""
    if isinstance(one, Dependency):
        now = one.now()
        if (made := plain(now)) is not now:
            one.set(made)
    elif isinstance(one.owner, (list, collections.deque)):
        items = [*map(plain, one.owner)]
        if not all(map(operator.is_, items, one.owner)):
            one.owner.clear()
            one.owner.extend(items)
    elif isinstance(one.owner, dict):
        for key, value in [*one.owner.items()]:
            one.owner[key] = plain(value)

"""Tensors without derivative on shared memory: listeners that are notified before it is written.

A detached tensor shares the buffer of a row, and a `Function` keeps saved tensors. Compiled code
leaves writes to such a tensor to Python (`recorder.rows.is_apart`), which notifies them first.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.layout import ARRAY
from ..ops import copy_add as _declarations
from ..ops.table import TABLE
from ..tape import store
from ..tape.row_reader import Reader
from . import runtime as rt
from .values import Leaf, Storage, meta_of, storage_of

assert _declarations
WRITE = ARRAY + TABLE["write"].code


class Told:
    """The listeners of the memory of a tensor that is not recorded; in the place of its row.

    Each has a method `before_write(array)`, which returns whether to be notified of the next write,
    too. Listeners in `others` live as long as another object refers to them.
    """

    __slots__ = ("others", "own")

    def __init__(self, *own):
        self.own = list(own)
        self.others: Any = ()  # or a WeakSet

    def tell(self, array) -> bool:
        """Notify all listeners of a write; returns whether one is left."""
        self.own = [one for one in self.own if one.before_write(array)]
        self.others = weakref.WeakSet(one for one in self.others if one.before_write(array))
        return bool(self.own or self.others)


def told_of(tensor) -> Told:
    """The listeners of writes to a tensor that is not recorded."""
    storage = storage_of(tensor)
    if type(storage.tensor) is not Told:
        storage.tensor = Told()
    return storage.tensor


def is_relied_on(tensor) -> bool:
    """Whether there is a listener of writes to a tensor."""
    meta = meta_of(tensor)
    storage = meta.alias if type(meta) is Leaf else meta
    return type(storage) is Storage and type(storage.tensor) is Told


def before_write(tensor) -> None:
    """Notify the listeners of the memory of a tensor that it is about to be written."""
    if is_relied_on(tensor):
        meta = meta_of(tensor)
        storage = meta.alias if type(meta) is Leaf else meta
        if not storage.tensor.tell(storage.owner):
            storage.tensor = None


class Origin:
    """A row whose buffer another tensor shows."""

    __slots__ = ("leaf", "number")

    def __init__(self, tensor):
        self.number = tensor._id
        self.leaf = store.leaves.get(tensor._id)

    def before_write(self, array) -> bool:
        leaf = self.leaf() if self.leaf else None
        if leaf is not None and type(meta_of(leaf)) is Leaf:
            renew(leaf)
            return True
        return self._is_shown_by(array) and self._change(array)

    def _is_shown_by(self, array) -> bool:
        """Whether the row still has its buffer, and a sweep may read it."""
        slot, position = self.number >> layout.ROWS_BITS, self.number & (layout.ROWS - 1)
        if store.table[slot] == 0:
            return False
        reader = Reader()
        if position >= store.word(slot, layout.USED_ROWS):
            return False
        if int(reader.row(self.number)["op"]) < 0:  # used up
            return False
        base = reader.base(self.number)
        return base is not None and np.may_share_memory(base, array)

    def _change(self, array) -> bool:
        """Let sweeps find the old values, but refuse sweeps from reads after the write.

        Once is enough, except for inputs of functions, for which the rows that a sweep reaches are
        not known.
        """
        if self.number >> layout.ROWS_BITS in store.input_slots:
            store.change_input(self.number)
            return False
        chunk = int(store.table[self.number >> layout.ROWS_BITS])
        view = rt.attach(rt.wrap(array), self.number, chunk)
        kept = array.copy(order="C")
        unknown = rt.attach(rt.wrap(kept), layout.UNKNOWN, 0)
        rt.row(WRITE, None, view, kept, unknown)
        return int(Reader().row(self.number)["op"]) == layout.LEAF


def renew(leaf) -> None:
    """Give an input that is about to be written another row: rows that have read it are stale."""
    number, chunk = store.renew_input(leaf)
    rt.attach(leaf, number, chunk)
    store.watch(leaf, number)
    if is_relied_on(leaf):
        store.never_unread(number)


def tell_each_other(leaf, storage: Storage) -> None:
    """Notify an input of writes to others in its memory, and their listeners of its own."""
    told = storage.tensor if type(storage.tensor) is Told else Told()
    told.own = [one for one in told.own if one.leaf is None or one.leaf() is not leaf]
    if told.own or told.others:
        leaf._meta.alias = aside = Storage(storage.owner)
        aside.tensor = Told(*told.own)
        aside.tensor.others = told.others
        store.never_unread(leaf._id)
    told.own.append(Origin(leaf))
    storage.tensor = told


def tell_rows(made, tensor) -> None:
    """Notify the rows of a recorded tensor of writes to another tensor on its memory."""
    told_of(made).own.append(Origin(tensor))


def rely(tensor, one) -> None:
    """Register `one`, while it is alive, as a listener of writes to an unrecorded tensor."""
    told = told_of(tensor)
    if not told.others:
        told.others = weakref.WeakSet()
    told.others.add(one)

"""Writes of what a backward pass reads, by hooks or other threads while the pass is under way.

A pass undoes the writes that were recorded before it began. It does not know later ones, and may
have read their values: then it is refused at its end. Neither writes nor passes wait for it.
"""

from __future__ import annotations

import numpy as np

from ..codegen import layout
from . import store
from .dependence import dependence_of
from .row_reader import Reader


class WrittenError(RuntimeError):
    """What a backward pass reads was written while the pass was under way."""

    def __init__(self):
        super().__init__(
            "tapegrad.backward: a tensor that the backward pass reads was written in place while "
            "the pass was under way, by a hook, a rule or another thread; write to a copy(), or "
            "after backward() has returned"
        )


def moment() -> tuple[int, int]:
    """The present: what is recorded, and the number of writes of inputs outside of the tape."""
    return store.now(), store.changes


def refuse_writes_since(begun: tuple[int, int], roots: list[int]) -> None:
    """Raise WrittenError if what the rows `roots` depend on was written since a moment."""
    now, changes = begun
    if now != store.now() or changes != store.changes:
        written = _written_buffers(now) + _changed_inputs(changes)
        if written and dependence_of(roots)[0].rows[written].any():
            raise WrittenError


def _written_buffers(then: int) -> list[int]:
    """Buffers that there were at a moment, and that rows write that have been appended since."""
    order = list(store.order)  # it has only grown: no chunk goes while a pass is under way
    known = [slot for slot in order if store.begun[slot] <= then >> 32]
    newer = order[max(0, len(known) - 1) :]
    if not any(store.word(slot, layout.WRITES) for slot in newer):
        return []
    reader = Reader()
    time = reader.place[newer[0]] << layout.ROWS_BITS
    first = (then & 0xFFFFFFFF) - (newer[0] << layout.ROWS_BITS)
    if 0 <= first <= layout.ROWS:  # else the chunk was about to be begun
        time += first
    return [buffer for buffer in reader.written_since(time) if reader.time(buffer) < time]


def _changed_inputs(count: int) -> list[int]:
    """Inputs that were written outside of the tape after so many others."""
    found: list[int] = []
    if store.changes != count:
        reader = Reader()
        for slot in store.input_slots:
            rows = reader.filled(slot)
            newer = rows["value"].view(np.int64) <= store.change_number(count)
            places = ((rows["op"] == layout.CHANGED) & newer).nonzero()[0]
            found.extend((places + (slot << layout.ROWS_BITS)).tolist())
    return found

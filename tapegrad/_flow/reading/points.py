"""Points of the code: statements with the active calls, each of which becomes a block."""

from __future__ import annotations

import math

from ..ir.flow_graph import Block, Edge
from .state import Stack, State


class Point:
    """A point of the code: its block, what is known there, and the edges from it."""

    def __init__(self, stack: Stack | None, label: int, at: int, state: State, note: tuple = ()):
        self.stack, self.label, self.at, self.state = stack, label, at, state
        self.note = note  # distinguishes it from other points of that statement
        self.block = Block(-1)
        self.ways: list[tuple[Edge, Block, Point, State]] = []
        self.times, self.waits = 0, False

    @property
    def place(self) -> tuple:
        """Its position in the code: by the active calls, the outermost first."""
        if self.stack is None:
            return ((math.inf, 0),)
        outer, stack = [], self.stack
        while stack.below is not None:
            outer.append((stack.label, stack.at - 0.5))
            stack = stack.below
        return (*outer[::-1], (self.label, self.at))

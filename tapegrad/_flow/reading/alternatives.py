"""Statements that read a choice: followed for each of its options if they need one."""

from __future__ import annotations

import dataclasses

from ..ir.flow_graph import Edge, Jump
from ..kinds.step_kinds import INT
from .code import read_by
from .forms import Choice, Form, shape_of
from .numbers import converted
from .points import Point
from .reader import Reader
from .state import State


@dataclasses.dataclass(frozen=True)
class Alternatives:
    """A variable that is a choice, and what there was before a statement that reads it."""

    name: str
    choice: Choice
    state: State
    steps: int
    ways: int

    def go_on(self, reader: Reader, point: Point, at: int, block) -> None:
        """Take the statement back, and go to it with each of the options."""
        del block.steps[self.steps :], point.ways[self.ways :]
        build, note = reader.builder, point.note if at == point.at else ()
        build.block = block
        index = converted(build, self.choice.index, INT)
        *others, last = self.choice.options
        for k, option in enumerate(others):
            here, rest = build.begin(), build.begin()
            same = build.step("int_equal", index, build.constant(k))
            build.branch(same, Edge(here, []), Edge(rest, []))
            build.block = here
            self._follow(reader, point, at, note, option)
            build.block = rest
        self._follow(reader, point, at, note, last)

    def _follow(self, reader: Reader, point: Point, at: int, note: tuple, option: Form) -> None:
        state = self.state.copy()
        for key, form in state.variables.items():
            if form is self.choice:
                state.variables[key] = option
        assert point.stack is not None
        told = (*note, self.name, shape_of(option))
        reader.builder.block.end = Jump(reader.goto(point.stack, point.label, at, state, told))


def alternatives_of(statement, values, block) -> Alternatives | None:
    """The first choice that a statement reads; `values` are those of its point."""
    for name in read_by(statement):
        form = values.peek(name)
        if isinstance(form, Choice):
            steps, ways = len(block.steps), len(values.point.ways)
            return Alternatives(name, form, values.reader.state.copy(), steps, ways)
    return None

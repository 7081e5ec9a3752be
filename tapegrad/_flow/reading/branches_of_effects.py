"""Branches that decide effects alone, as of `if calls[0] % 100 == 0: print(total)`.

No result depends on the way that such a branch takes, so that the graph has no branch there. Its
blocks are followed once, each on its own, to see what they change outside; whatever they assign is
not followed. If they change anything else, return or raise, a result depends on the branch.
"""

from __future__ import annotations

import dataclasses

from ..._core.codegen.process import numba_ir as ir
from ..ir.flow_graph import Block, Line, Place
from ..kinds.kind_lookup import kind_of
from . import access, outside_changes
from .code import SAVED
from .errors import Leaves, Refused
from .forms import Array, Form, Known, Ref, Row
from .reader import DEPTH, Inline, Point
from .right_sides import RightSides
from .state import Stack
from .unfollowed import Unfollowed, dependence


def followed(values: RightSides, condition: Unfollowed) -> int:
    """Follow the blocks that a condition decides; returns the label where their ways meet."""
    reader, build = values.reader, values.builder
    joined = values.frame.code.join_of(values.point.label)
    if joined is None:
        raise dependence("a branch", condition)
    kept = build.block, build.line, reader.state, reader.at, reader.point
    count = len(reader.graph.blocks)
    try:
        effects = _Effects(reader, values.point, dataclasses.replace(condition, plain=False))
        assigned = effects.run(joined[1])
    except (Refused, Leaves) as error:
        raise dependence("a branch", condition) from error
    finally:
        build.block, build.line, reader.state, reader.at, reader.point = kept
        del reader.graph.blocks[count:]
    for name in assigned:
        values.set(name, effects.unknown)
    return joined[0]


class _Effects(RightSides):
    """Follows blocks of one frame for their effects, from the state at a branch."""

    def __init__(self, reader, point: Point, unknown: Unfollowed):
        super().__init__(reader, point)
        self.unknown = unknown  # stands for what the blocks assign

    def run(self, labels: list[int]) -> list[str]:
        """Follow blocks, of which each may come after each; returns the variables they assign."""
        reader, blocks = self.reader, self.frame.code.blocks
        every = [one for label in labels for one in blocks[label].body]
        names = dict.fromkeys([one.target.name for one in every if isinstance(one, ir.Assign)])
        assigned = [name for name in names if not self._is_outside(name)]
        before = reader.state
        reader.state = start = before.copy()
        for name in assigned:
            self.set(name, self.unknown)
        for label in labels:
            reader.state = start.copy()
            reader.point = self.point = Point(self.stack, label, 0, start)
            self.builder.block = first = Block(-1)
            count, regions = len(reader.graph.blocks), len(reader.graph.regions)
            for at, statement in enumerate(blocks[label].body):
                reader.at = self.at = at
                self._follow(statement)
            self._check_nothing_else(start, [first, *reader.graph.blocks[count:]], regions)
        reader.state = before
        return assigned

    def _is_outside(self, name: str) -> bool:
        code, shared = self.frame.code, name.partition(".")[0]
        is_free = shared in code.free and self.reader.owner(self.frame, shared) is None
        return is_free or shared in code.assigned_globals

    def _check_nothing_else(self, start, made: list[Block], regions: int) -> None:
        """Check that no object, memory or variable of another frame has been changed."""
        state = self.reader.state
        for step in [step for block in made for step in block.steps]:
            if isinstance(step.payload, Place) and step.payload.region < regions:
                if kind_of(step.op).is_store:
                    raise Refused("it writes to memory")
        others = [key for key in start.variables if key[0] != self.frame.name]
        same = [state.variables.get(key) is start.variables[key] for key in others]
        same += [state.heap.get(site) is contents for site, contents in start.heap.items()]
        if not all(same):
            raise Refused("it changes an object or a variable")

    def _follow(self, statement) -> None:
        code = self.frame.code.code
        self.reader.line(Line(code.co_filename, statement.loc.line, code.co_name))
        if isinstance(statement, ir.Assign):
            self.set(statement.target.name, self._assigned(statement.value))
        elif isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            owner = self._changeable(statement.target)
            is_static = isinstance(statement, ir.StaticSetItem) and statement.index_var is None
            name = getattr(statement, "index_var", None) or statement.index
            index = Known(statement.index) if is_static else self.get(name)
            access.set_item(self.reader, owner, index, self.get(statement.value))
        elif isinstance(statement, ir.DelItem):
            owner = self._changeable(statement.target)
            access.delete_item(self.reader, owner, self.get(statement.index))
        elif isinstance(statement, ir.SetAttr):
            owner, value = self.get(statement.target), self.get(statement.value)
            if not isinstance(owner, Known):
                raise Refused("it changes an object")
            access.set_attribute(self.reader, owner, statement.attr, value)
        elif not isinstance(statement, (ir.Jump, ir.Branch, ir.Return, ir.Del)):
            raise Refused("it has another statement")

    def _changeable(self, var) -> Form:
        owner = self.get(var)
        if not outside_changes.is_outside(self.reader, owner):
            raise Refused("it changes an object")
        return owner

    def _assigned(self, value) -> Form:
        op = getattr(value, "op", "")
        if isinstance(value, ir.Yield):
            raise Refused("it yields")
        if op in ("iternext", SAVED):
            return self.unknown
        if op in ("pair_first", "pair_second", "exhaust_iter"):
            form = self.get(value.value)
            if isinstance(form, Unfollowed):
                return form
        if op == "getiter":
            self._check_no_generator(self.get(value.value))
            return self.unknown
        if op == "inplace_binop":
            form = self.get(value.lhs)
            if isinstance(form, (Array, Row, Ref)):
                self._changeable(value.lhs)
        made = self._value(value)
        return self._called(made) if isinstance(made, Inline) else made

    def _check_no_generator(self, form: Form) -> None:
        """Refuse to go through what runs code of the user's."""
        if isinstance(form, Ref) and self.reader.contents(form).what not in ("list", "dict"):
            raise Refused("it goes through an iterator")

    def _called(self, call: Inline) -> Form:
        """Follow all blocks of a function."""
        frame, reader = call.frame, self.reader
        ends = [block.body[-1] for block in frame.code.blocks.values()]
        raises = any(isinstance(one, (ir.Raise, ir.StaticRaise)) for one in ends)
        if raises or call.result is not None or self.stack.depth() >= DEPTH:
            raise Refused("it calls a function that is not followed")
        at, state, block, point = self.at, reader.state, self.builder.block, self.point
        reader.frames[frame.name] = frame
        inner = state.copy()
        for name, form in call.arguments.items():
            inner.variables[frame.name, name] = form
        stack = Stack(frame.name, self.stack, self.point.label, self.at + 1, "$nothing")
        reader.state = inner
        _Effects(reader, Point(stack, frame.code.first, 0, inner), self.unknown).run(
            [*frame.code.blocks]
        )
        reader.state, self.builder.block = state, block
        reader.point, reader.at, self.point = point, at, point
        return self.unknown

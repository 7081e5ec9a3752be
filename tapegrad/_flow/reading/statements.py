"""The statements of a point followed: assignments, calls, and the edges at its end."""

from __future__ import annotations

from ..._core.codegen.process import numba_ir as ir
from ..ir.flow_graph import Branch, Edge, Jump, Line
from ..kinds.step_kinds import BOOL
from . import access, branches_of_effects, container_operators, outside_changes
from .alternatives import alternatives_of
from .errors import Leaves, Raises, Refused
from .forms import NONE, Form, Known, Pair, Ref, described
from .iterators import advanced, has_next
from .numbers import converted, number, truth
from .points import Point
from .reader import DEPTH, RECURSIVE, Inline, Reader
from .right_sides import RightSides
from .state import Stack


def follow(reader: Reader, point: Point) -> None:
    """Follow the statements of a point to their end."""
    try:
        Statements(reader, point).run()
    except Leaves as error:
        reader.builder.leave(str(error))
        point.ways = [way for way in point.ways if way[1] is not reader.builder.block]


class Statements(RightSides):
    """The statements from a point on."""

    def run(self) -> None:
        body = self.frame.code.blocks[self.point.label].body
        if isinstance(body[-1], (ir.Raise, ir.StaticRaise)):
            self._at_line(body[-1])
            raise Raises("an exception")  # whatever is computed for its message
        for at in range(self.point.at, len(body)):
            self.reader.at, self.at = at, at
            statement = body[at]
            if self._is_end(statement, self._at_line(statement)):
                return

    def _at_line(self, statement) -> Line:
        """The user's line of a statement, which steps come from."""
        code = self.frame.code.code
        line = Line(code.co_filename, statement.loc.line, code.co_name)
        if line.number:
            self.reader.line(line)
        return line

    def _is_end(self, statement, line: Line) -> bool:
        """Follow a statement, perhaps for each option of a choice; whether it ends the point."""
        block = self.builder.block
        alternatives = alternatives_of(statement, self, block)
        try:
            return self._statement(statement)
        except Refused as error:
            if alternatives is not None:
                alternatives.go_on(self.reader, self.point, self.at, block)
                return True
            error.line = error.line or line
            raise

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, statement) -> bool:
        """Follow one; returns whether it ends the point."""
        if isinstance(statement, ir.Assign):
            return self._assign(statement)
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            index = _static(self, statement)
            access.set_item(
                self.reader, self.get(statement.target), index, self.get(statement.value)
            )
            return False
        if isinstance(statement, ir.DelItem):
            access.delete_item(self.reader, *map(self.get, (statement.target, statement.index)))
            return False
        if isinstance(statement, ir.SetAttr):
            value = self.get(statement.value)
            access.set_attribute(self.reader, self.get(statement.target), statement.attr, value)
            return False
        if isinstance(statement, ir.Jump):
            self.builder.block.end = Jump(self._goto(statement.target, 0))
            return True
        if isinstance(statement, ir.Branch):
            self._branch(statement)
            return True
        if isinstance(statement, ir.Return):
            self._return(self.get(statement.value))
            return True
        if isinstance(statement, ir.Del):
            self.reader.state.variables.pop(self._key(statement.value), None)
            return False
        raise Refused(f"it has a statement that is not known ({type(statement).__name__})")

    def _assign(self, statement) -> bool:
        value, name = statement.value, statement.target.name
        if isinstance(value, ir.Expr) and value.op == "iternext":
            self._next(value, name)
            return True
        if isinstance(value, ir.Yield):
            self._yield(value, name)
            return True
        source = value if isinstance(value, ir.Var) else None
        if name in self.frame.code.saved or (source and source.name in self.frame.code.saved):
            self._copy(source or value.value, name)
            return False
        form = self._value(value)
        if isinstance(form, Inline):
            if form.result is not None:
                self.set(name, form.result)
                name = "$nothing"
            self._enter(form, name)
            return True
        self.set(name, form)
        return False

    def _copy(self, source, name: str) -> None:
        """Copy a variable, or that it is unbound."""
        form = source and self.reader.state.variables.get(self._key(source.name))
        if form is None:
            self.reader.state.variables.pop(self._key(name), None)
        else:
            self.set(name, form)

    def _goto(self, label: int, at: int, note: tuple = (), state=None):
        return self.reader.goto(self.stack, label, at, state or self.reader.state, note)

    def _branch(self, statement) -> None:
        asked = self.get(statement.cond)
        if (outside := outside_changes.unfollowed(self.reader, asked)) is not None:
            label = branches_of_effects.followed(self, outside)
            self.builder.block.end = Jump(self._goto(label, 0))
            return
        condition = truth(self.builder, container_operators.truth_of(self.reader, asked))
        if isinstance(condition, Known):
            target = statement.truebr if condition.value else statement.falsebr
            self.builder.block.end = Jump(self._goto(target, 0))
            return
        then, other = self._goto(statement.truebr, 0), self._goto(statement.falsebr, 0)
        self.builder.block.end = Branch(condition.value, then, other, self.builder.line)  # type: ignore[attr-defined]

    def _return(self, form: Form) -> None:
        below = self.stack.below
        if below is None:
            if isinstance(form, Known) and type(form.value) is float:  # a number like others
                form = number(self.builder.constant(form.value))
            self.builder.block.end = Jump(self.reader.give(form))
            return
        state = self.reader.state
        if self.stack.generator is not None:
            site = self.stack.generator
            keys = state.heap[site].keys
            reader_keys = (keys[0], None, 0, keys[3])
            self.reader.update(Ref(site), reader_keys, ())
            form = Pair(NONE, False)
        state.variables[below.frame, self.stack.target] = form
        note = ("done",) if self.stack.generator is not None else ()
        edge = self.reader.goto(below, self.stack.label, self.stack.at, state, note)
        self.builder.block.end = Jump(edge)

    # --- calls --------------------------------------------------------------------------------

    def _enter(self, call: Inline, target: str, generator=None) -> None:
        """Go on inside of a function."""
        if self.stack.depth() >= DEPTH:
            raise Refused("its calls nest too deeply")
        frame, reader = call.frame, self.reader
        names = {one.frame for one in _stacks(self.stack)}
        if frame.name in names:
            raise Refused(f"{frame.code.name} calls itself")
        reader.recursive += any([reader.frames[one].code is frame.code for one in names])
        if reader.recursive > RECURSIVE:  # each of them is read
            raise Refused(f"{frame.code.name} calls itself more than {RECURSIVE} times")
        self.check_cells(frame)
        reader.frames[frame.name] = frame
        for name, form in call.arguments.items():
            reader.state.variables[frame.name, name] = form
        stack = Stack(frame.name, self.stack, self.point.label, self.at + 1, target, generator)
        edge = reader.goto(stack, frame.code.first, 0, reader.state)
        self.builder.block.end = Jump(edge)

    # --- iterators ----------------------------------------------------------------------------

    def _next(self, value, name: str) -> None:
        """The next item of an iterator: two edges, with and without one."""
        iterator = self.get(value.value)
        if not isinstance(iterator, Ref):
            raise Refused(f"iteration over {described(iterator)}")
        contents = self.reader.contents(iterator)
        if contents.what == "generator":
            self._resume(iterator, name)
            return
        there = has_next(self.reader, iterator)
        if isinstance(there, Known):
            edge = self._after_next(iterator, name, bool(there.value))
            self.builder.block.end = Jump(edge)
            return
        condition = converted(self.builder, there, BOOL)
        block = self.builder.block
        state = self.reader.state.copy()
        more = self.builder.begin()
        self.builder.block = more
        edge = self._after_next(iterator, name, True)
        more.end = Jump(edge)
        self.builder.block, self.reader.state = block, state
        done = self._after_next(iterator, name, False)
        block.end = Branch(condition, Edge(more, []), done, self.builder.line)

    def _after_next(self, iterator: Ref, name: str, there: bool):
        if there:
            item = advanced(self.reader, iterator)
        else:
            item = NONE
        self.set(name, Pair(item, there))
        return self._goto(self.point.label, self.at + 1, ("more",) if there else ("done",))

    def _resume(self, iterator: Ref, name: str) -> None:
        frame, label, at, _ = self.reader.contents(iterator).keys
        if label is None:
            self.set(name, Pair(NONE, False))
            self.builder.block.end = Jump(self._goto(self.point.label, self.at + 1, ("done",)))
            return
        stack = Stack(frame, self.stack, self.point.label, self.at + 1, name, iterator.site)
        if any(one.frame == frame for one in _stacks(self.stack)):
            raise Refused("a running generator is advanced")
        self.reader.state.variables[frame, "$generator"] = iterator
        self.builder.block.end = Jump(self.reader.goto(stack, label, at, self.reader.state))

    def _yield(self, value, name: str) -> None:
        item = self.get(value.value)
        stack, below = self.stack, self.stack.below
        if stack.generator is None or below is None:
            raise Refused("it yields")
        state = self.reader.state
        self.set(name, NONE)
        label, at = self.point.label, self.at + 1
        names = tuple(sorted(self.frame.code.live(label, at)))
        self.reader.update(Ref(stack.generator), (self.frame.name, label, at, names), ())
        state.variables[below.frame, stack.target] = Pair(item, True)
        edge = self.reader.goto(below, stack.label, stack.at, state, ("more",))
        self.builder.block.end = Jump(edge)


def _stacks(stack: Stack | None):
    while stack is not None:
        yield stack
        stack = stack.below


def _static(statements: Statements, statement) -> Form:
    if isinstance(statement, ir.StaticSetItem):
        if statement.index_var is not None:
            return statements.get(statement.index_var)
        return Known(statement.index)
    return statements.get(statement.index)

"""The statements of a point followed: assignments, calls, and the ways on at its end."""

from __future__ import annotations

import operator
import types
from typing import Any

from numba.core import ir

from ..ir.graph import BOOL, Branch, Jump
from . import access, calls
from .code import code_of
from .errors import Refused
from .forms import NONE, Form, Function, Known, Maybe, Method, Number, Pair, Ref, Tuple, described
from .iterators import advanced, has_next
from .numbers import (
    ARITHMETIC,
    COMPARISONS,
    Raises,
    compared,
    converted,
    folded,
    is_number,
    negated,
    negative,
    settled,
    truth,
)
from .reader import DEPTH, Inline, Point, Reader
from .state import Frame, Stack

_INPLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
}


def follow(reader: Reader, point: Point) -> None:
    """Follow the statements of a point to their end."""
    try:
        Statements(reader, point).run()
    except Raises as error:
        reader.builder.leave(f"the function raises {error}")
        point.ways = [way for way in point.ways if way[1] is not reader.builder.block]


class Statements:
    """The statements from a point on."""

    def __init__(self, reader: Reader, point: Point):
        self.reader, self.point, self.builder = reader, point, reader.builder
        assert point.stack is not None
        self.stack: Stack = point.stack
        self.frame: Frame = reader.frames[point.stack.frame]

    def run(self) -> None:
        body = self.frame.code.blocks[self.point.label].body
        for at in range(self.point.at, len(body)):
            self.reader.at, self.at = at, at
            statement = body[at]
            if statement.loc.line:
                code = self.frame.code.code
                self.reader.line(f"{code.co_filename}:{statement.loc.line}, {code.co_name}")
            try:
                if self._statement(statement):
                    return
            except Refused as error:
                if "line " not in str(error):
                    raise Refused(f"{error} (line {statement.loc.line})") from None
                raise

    # --- variables ----------------------------------------------------------------------------

    def get(self, var) -> Form:
        form = self.reader.state.variables.get(self._key(var.name))
        if form is None:
            raise Raises(f"UnboundLocalError: {var.name}")
        return form

    def set(self, name: str, form: Form) -> None:
        self.reader.state.variables[self._key(name)] = form

    def _key(self, name: str):
        if name in self.frame.code.free:
            key = self.reader.owner(self.frame, name)
            if key is None:
                raise Refused(f"it assigns to {name}, a variable outside of the function")
            return key
        return self.frame.name, name

    @property
    def site(self) -> tuple:
        """What is made by this statement has it as its name."""
        return self.frame.name, self.point.label, self.at

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, statement) -> bool:
        """Follow one; whether it ends the point."""
        if isinstance(statement, ir.Assign):
            return self._assign(statement)
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            index = _static(self, statement)
            access.set_item(self.reader, self.get(statement.target), index, self.get(statement.value))
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
        if isinstance(statement, (ir.Raise, ir.StaticRaise)):
            raise Raises("an exception")
        if isinstance(statement, ir.Del):
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
        form = self._value(value)
        if isinstance(form, Inline):
            self._enter(form, name)
            return True
        self.set(name, form)
        return False

    def _goto(self, label: int, at: int, note: tuple = (), state=None):
        return self.reader.goto(self.stack, label, at, state or self.reader.state, note)

    def _branch(self, statement) -> None:
        condition = truth(self.builder, self._as_truth(self.get(statement.cond)))
        if isinstance(condition, Known):
            target = statement.truebr if condition.value else statement.falsebr
            self.builder.block.end = Jump(self._goto(target, 0))
            return
        then, other = self._goto(statement.truebr, 0), self._goto(statement.falsebr, 0)
        self.builder.block.end = Branch(condition.value, then, other)  # type: ignore[attr-defined]

    def _as_truth(self, form: Form) -> Form:
        return access.truth_of(self.reader, form)

    def _return(self, form: Form) -> None:
        below = self.stack.below
        if below is None:
            self.builder.block.end = Jump(self.reader.give(form))
            return
        state = self.reader.state
        if self.stack.generator is not None:
            site = self.stack.generator
            keys = state.heap[site].keys
            reader_keys = (keys[0], None, 0, keys[3])
            self.reader.update(Ref(site), reader_keys, ())
            form = Pair(NONE, False)
        caller = self.reader.frames[below.frame]
        state.variables[below.frame, self.stack.target] = form
        del caller
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
        reader.frames[frame.name] = frame
        for name, form in call.arguments.items():
            reader.state.variables[frame.name, name] = form
        stack = Stack(frame.name, self.stack, self.point.label, self.at + 1, target, generator)
        edge = reader.goto(stack, frame.code.first, 0, reader.state)
        self.builder.block.end = Jump(edge)

    def inline(self, function: Form, args: list[Form], kwargs: dict[str, Form]) -> Form | Inline:
        """A call of a function of Python's: followed, or a generator."""
        frame, bound = calls.framed(self.reader, function, args, kwargs, self._frame_name())
        if frame.code.code.co_flags & 0x20:
            self.reader.frames[frame.name] = frame
            for name, form in bound.items():
                self.reader.state.variables[frame.name, name] = form
            names = tuple(sorted(frame.code.live(frame.code.first, 0)))
            return self.reader.make(
                self.site, "generator", (frame.name, frame.code.first, 0, names), ()
            )
        return Inline(frame, bound)

    def _frame_name(self):
        return self.frame.name, self.point.label, self.at

    # --- iterators ----------------------------------------------------------------------------

    def _next(self, value, name: str) -> None:
        """The next item of an iterator: two ways on, with and without one."""
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
        from ..ir.graph import Edge

        block.end = Branch(condition, Edge(more, []), done)

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
            raise Refused("a generator that is under way goes on")
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

    # --- values -------------------------------------------------------------------------------

    def _value(self, value) -> Form | Inline:
        if isinstance(value, ir.Var):
            return self.get(value)
        if isinstance(value, ir.Const):
            return Known(value.value)
        if isinstance(value, ir.Global):
            return calls.global_(self.reader, self.frame, value.name)
        if isinstance(value, ir.FreeVar):
            return self._free(value.name)
        if isinstance(value, ir.Arg):
            return self.get(value)
        if isinstance(value, ir.Expr):
            made = getattr(self, "_" + value.op, None)
            if made is None:
                raise Refused(f"it uses what is not known ({value.op})")
            return made(value)
        raise Refused(f"it uses what is not known ({type(value).__name__})")

    def _free(self, name: str) -> Form:
        key = self.reader.owner(self.frame, name)
        if key is not None:
            form = self.reader.state.variables.get(key)
            if form is None:
                raise Raises(f"NameError: {name}")
            return form
        return calls.outside(self.reader, self.frame, name)

    def _binop(self, value) -> Form | Inline:
        return self.operator(value.fn, self.get(value.lhs), self.get(value.rhs))

    def _inplace_binop(self, value) -> Form | Inline:
        a, b = self.get(value.lhs), self.get(value.rhs)
        made = access.in_place(self, value.fn, a, b)
        return made if made is not None else self.operator(_INPLACE[value.fn], a, b)

    def operator(self, op, a: Form, b: Form) -> Form | Inline:
        a, b = settled_unless_none(self, op, a), settled_unless_none(self, op, b)
        if op in COMPARISONS and is_number(a) and is_number(b):
            return compared(self.builder, op, a, b)
        if op in ARITHMETIC and is_number(a) and is_number(b):
            from .numbers import arithmetic

            return arithmetic(self.builder, op, a, b)
        return access.operator_of(self, op, a, b)

    def _unary(self, value) -> Form | Inline:
        form = settled(self.builder, self.get(value.value))
        if value.fn in (operator.not_, "not"):
            return negated(self.builder, self._as_truth(form))
        if value.fn in (operator.neg, "-") and is_number(form):
            return negative(self.builder, form)
        if value.fn in (operator.pos, "+") and is_number(form):
            return form
        return access.unary_of(self, value.fn, form)

    def _call(self, value) -> Form | Inline:
        function = self.get(value.func)
        args = [self.get(one) for one in value.args]
        kwargs = {name: self.get(one) for name, one in dict(value.kws).items()}
        if value.vararg is not None:
            spread = access.items_of(self.reader, self.get(value.vararg))
            args += spread
        if getattr(value, "varkwarg", None) is not None:
            raise Refused("a call with **")
        return calls.called(self, function, args, kwargs)

    def _getattr(self, value) -> Form:
        return access.attribute(self.reader, self.get(value.value), value.attr)

    def _getitem(self, value) -> Form:
        return access.get_item(self, self.get(value.value), self.get(value.index))

    def _static_getitem(self, value) -> Form:
        index = Known(value.index) if value.index_var is None else self.get(value.index_var)
        return access.get_item(self, self.get(value.value), index)

    def _build_tuple(self, value) -> Form:
        return Tuple(tuple([self.get(one) for one in value.items]), self.site)

    def _build_list(self, value) -> Form:
        items = tuple([self.get(one) for one in value.items])
        return access.new_list(self.reader, self.site, items)

    def _build_map(self, value) -> Form:
        keys = [self.get(key) for key, _ in value.items]
        if not all(isinstance(key, Known) for key in keys):
            raise Refused("a dict whose keys are computed")
        items = {key.value: self.get(item) for key, (_, item) in zip(keys, value.items, strict=True)}  # type: ignore[attr-defined]
        return self.reader.make(self.site, "dict", tuple(items), tuple(items.values()))

    def _getiter(self, value) -> Form | Inline:
        return calls.iterator(self, self.get(value.value))

    def _pair_first(self, value) -> Form:
        return _pair(self.get(value.value)).item

    def _pair_second(self, value) -> Form:
        return Known(_pair(self.get(value.value)).there)

    def _exhaust_iter(self, value) -> Form:
        items = access.unpacked(self.reader, self.get(value.value), value.count)
        return Tuple(tuple(items), self.site)

    def _cast(self, value) -> Form:
        return self.get(value.value)

    def _make_function(self, value) -> Form:
        code: Any = value.code
        if isinstance(code, ir.Var):
            code = self.get(code).value  # type: ignore[attr-defined]
        defaults: tuple[Form, ...] = ()
        if value.defaults is not None:
            given = value.defaults
            form = self.get(given) if isinstance(given, ir.Var) else Known(given)
            defaults = tuple(access.items_of(self.reader, form))
        return Function(code, self.frame.name, self.frame.globals, defaults, code.co_name)




def _pair(form: Form) -> Pair:
    if not isinstance(form, Pair):
        raise Refused("it uses an iterator in a way that is not known")
    return form


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


def settled_unless_none(statements: Statements, op, form: Form) -> Form:
    """What may be None, settled where the operator does not ask about that."""
    if isinstance(form, Maybe) and op not in (operator.is_, operator.is_not, operator.eq, operator.ne):
        return settled(statements.builder, form)
    return form


__all__ = ["Method", "Number", "code_of", "folded", "follow", "types"]

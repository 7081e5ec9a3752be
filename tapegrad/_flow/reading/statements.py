"""The statements of a point followed: right sides, alternatives, and the edges at its end."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import operator
import types
from typing import Any

from ..._core.codegen.process import numba_ir as ir
from ..._core.tensor.dependencies import Dependency, Snapshot, own_dependencies
from ..._core.tensor.pytree import own_code
from ..ir.flow_graph import Block, Branch, Edge, Jump, Place, SourceLine
from ..kinds.step_kinds import BOOL, INT, kind_of
from . import access, builtin_functions, calls, outside_changes
from .access import advanced, has_next
from .builtin_functions import iterator
from .code import SAVED, code_of, read_by
from .forms import (
    NONE,
    ArenaList,
    Array,
    Choice,
    Form,
    Known,
    Leaves,
    LocalFunction,
    Maybe,
    NextItem,
    Possible,
    Raises,
    Ref,
    Refused,
    Tuple,
    Unfollowed,
    dependence,
    described,
    shape_of,
)
from .numbers import (
    ARITHMETIC,
    COMPARISONS,
    IN_PLACE,
    arithmetic,
    compared,
    converted,
    is_number,
    negated,
    negative,
    number,
    settled,
    truth,
)
from .outside_changes import is_name_outside, name_read
from .reader import DEPTH, RECURSIVE, Frame, FunctionReader, Inline, Point, ReadingState, Stack

# --- Names from outside of a function, and the frames of calls ------------------------------------


#: Names by which Numba's reader marks where handlers of exceptions begin and end to hold.
_OF_TRY = ("mark_try_block", "end_try_block")


def global_(reader, frame: Frame, name: str) -> Form:
    """A global name of a frame's function."""
    if name in _OF_TRY:
        raise Leaves("it has a try statement")
    if name in frame.globals:
        value = frame.globals[name]
        if (changed := name_read(reader, frame.globals, name, value)) is not None:
            return changed
        if not calls.is_of_ours(frame.globals):
            reader.dependencies.append(Dependency(frame.globals, name, value))
        return reader.outside(value, name)
    if hasattr(builtins, name):
        value = getattr(builtins, name)
        reader.dependencies.append(Dependency(frame.globals, name, value))
        return Known(value)
    raise Raises(f"NameError: {name}")


def cell_of(reader, frame: Frame, name: str) -> types.CellType:
    """The cell of a variable of a function that enclosed a frame's function and is over."""
    while not isinstance(frame.outside, dict):
        frame = reader.frames[frame.outside]
    return frame.outside[name]


def outside(reader, frame: Frame, name: str) -> Form:
    """A variable of a function that enclosed a frame's function and is over."""
    cell = cell_of(reader, frame, name)
    try:
        value = cell.cell_contents
    except ValueError:
        raise Raises(f"NameError: {name}") from None
    if (changed := name_read(reader, cell, name, value)) is not None:
        return changed
    reader.dependencies.append(Dependency(cell, name, value))
    return reader.outside(value, name)


def defaults_of(reader, f: types.FunctionType) -> tuple[list[Form], dict[str, Form]]:
    """The defaults of a function, of positional arguments and of others."""
    reader.dependencies += own_dependencies(f)
    if f.__kwdefaults__:  # which can be changed in place
        reader.dependencies.append(Snapshot.of(f.__kwdefaults__, f"{f.__name__}.__kwdefaults__"))
    keywords = {k: reader.outside(one, k) for k, one in (f.__kwdefaults__ or {}).items()}
    defaults = f.__defaults__ or ()
    names = own_code(f).co_varnames[: own_code(f).co_argcount][-len(defaults) or None :]
    return [reader.outside(*pair) for pair in zip(defaults, names, strict=False)], keywords


def framed(reader, function: Form, args: list, kwargs: dict, name) -> tuple[Frame, dict]:
    """The frame of a call, and its arguments by name."""
    if isinstance(function, LocalFunction):
        code, defaults = function.code, list(function.defaults)
        frame = Frame((name, id(code)), code_of(code), function.globals, function.frame)
        keywords: dict[str, Form] = {}
    else:
        found: Any = function.value  # type: ignore[attr-defined]
        code = own_code(found)
        defaults, keywords = defaults_of(reader, found)
        cells = dict(zip(code.co_freevars, found.__closure__ or (), strict=True))
        frame = Frame((name, id(code)), code_of(code), found.__globals__, cells)
    return frame, bound_arguments(reader, frame, args, kwargs, defaults, keywords)


def bound_arguments(
    reader, frame: Frame, args: list, kwargs: dict, defaults: list, keywords: dict
) -> dict[str, Form]:
    """The arguments of a call by name; those that ** takes are a dict of the frame's own."""
    code = frame.code.code
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = [one.replace(".", "implicit") for one in code.co_varnames]  # as Numba names them
    takes_rest = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)
    given = dict(zip(names[:count], args, strict=False))
    rest = args[count:]
    if takes_more:
        given[names[count + only]] = Tuple(tuple(rest))
    elif rest:
        raise Raises("TypeError: too many arguments")
    named, others = names[code.co_posonlyargcount : count + only], {}
    for name, form in kwargs.items():
        if name in named and name not in given:
            given[name] = form
        elif takes_rest and name not in named:
            others[name] = form
        else:
            raise Raises(f"TypeError: argument {name}")
    if takes_rest:
        site = frame.name, "keywords"
        made = reader.make(site, "dict", tuple(others), tuple(others.values()))
        given[names[count + only + takes_more]] = made
    for name, form in zip(names[count - len(defaults) : count], defaults, strict=True):
        given.setdefault(name, form)
    for name, form in keywords.items():
        given.setdefault(name, form)
    if any(name not in given for name in names[: count + only]):
        raise Raises("TypeError: missing arguments")
    return given


# --- The right sides of assignments: variables, constants, operators, calls -----------------------


class RightSides:
    """Values of a point's statements; `at` is the number of the statement."""

    at = 0

    def __init__(self, reader: FunctionReader, point: Point):
        self.reader, self.point, self.builder = reader, point, reader.builder
        assert point.stack is not None
        self.stack: Stack = point.stack
        self.frame: Frame = reader.frames[point.stack.frame]

    # --- variables ----------------------------------------------------------------------------

    def get(self, var) -> Form:
        form = self.peek(var.name)
        if form is None and var.name.startswith("$"):  # Numba's reader renames what := takes
            raise Refused("it uses an intermediate value twice, as := does")
        if form is None:
            raise Raises(f"UnboundLocalError: {var.name}")
        return form

    def peek(self, name: str) -> Form | None:
        """A variable, None where there is none."""
        key = self.reader.owner(self.frame, name) if name in self.frame.code.free else None
        return self._set_one(key or (self.frame.name, name))

    def _set_one(self, key) -> Form | None:
        """A variable, checked to be set."""
        variables = self.reader.state.variables
        form = variables.get(key)
        if isinstance(form, Possible):
            there = converted(self.builder, form.there, BOOL)
            self.builder.check(there, f"a variable that is not set: {key[1]}")
            form = variables[key] = form.form
        return form

    def set(self, name: str, form: Form) -> None:
        """Assign to a variable, or note that it lies outside of the function."""
        code, shared = self.frame.code, name.partition(".")[0]
        if shared in code.assigned_globals:
            outside_changes.name_changed(self.reader, self.frame.globals, shared, form)
        elif shared in code.free and self.reader.owner(self.frame, shared) is None:
            cell = cell_of(self.reader, self.frame, shared)
            outside_changes.name_changed(self.reader, cell, shared, form)
        else:
            self.reader.state.variables[self._key(name)] = form

    def _key(self, name: str):
        if not name.startswith("$"):
            shared = name.partition(".")[0]  # Numba numbers names that are set again
            name = shared if shared in self.frame.code.free else name
        if name in self.frame.code.free:
            key = self.reader.owner(self.frame, name)
            if key is None:
                raise Refused(f"it deletes {name}, a variable outside of the function")
            return key
        return self.frame.name, name

    @property
    def site(self) -> tuple:
        """Objects made by this statement have it as their name."""
        return self.frame.name, self.point.label, self.at

    def inline(self, function: Form, args: list[Form], kwargs: dict[str, Form]) -> Form | Inline:
        """A call of a Python function: followed, or a generator."""
        frame, bound = framed(self.reader, function, args, kwargs, self._frame_name())
        if frame.code.code.co_flags & 0x20:
            self.check_cells(frame)
            self.reader.frames[frame.name] = frame
            for name, form in bound.items():
                self.reader.state.variables[frame.name, name] = form
            names = tuple(sorted(frame.code.live(frame.code.first, 0)))
            return self.reader.make(
                self.site, "generator", (frame.name, frame.code.first, 0, names), ()
            )
        return Inline(frame, bound)

    def check_cells(self, frame: Frame) -> None:
        """Refuse a call whose variables an earlier call of that place still lends to functions."""
        if self.reader.lends(frame, self.stack, self.point.label, self.at):
            raise Refused(f"functions made by an earlier call of {frame.code.name} are in use")

    def _frame_name(self):
        return self.frame.name, self.point.label, self.at

    # --- values -------------------------------------------------------------------------------

    def _value(self, value) -> Form | Inline:
        if isinstance(value, ir.Var):
            return self.get(value)
        if isinstance(value, ir.Const):
            return Known(value.value)
        if isinstance(value, ir.Global):
            return global_(self.reader, self.frame, value.name)
        if isinstance(value, ir.FreeVar):
            return self._free(value.name)
        if isinstance(value, ir.Arg):
            return self.get(value)
        if isinstance(value, ir.Expr):
            made = getattr(self, "_" + value.op, None)
            if made is None:
                raise Refused(f"it uses an unknown value ({value.op})")
            return made(value)
        raise Refused(f"it uses an unknown value ({type(value).__name__})")

    def _free(self, name: str) -> Form:
        key = self.reader.owner(self.frame, name)
        if key is not None:
            form = self._set_one(key)
            if form is None:
                raise Raises(f"NameError: {name}")
            return form
        return outside(self.reader, self.frame, name)

    def _binop(self, value) -> Form | Inline:
        return self.operator(value.fn, self.get(value.lhs), self.get(value.rhs))

    def _inplace_binop(self, value) -> Form | Inline:
        a, b = self.get(value.lhs), self.get(value.rhs)
        if (made := outside_changes.changed_in_place(self.reader, a, b)) is not None:
            return made
        made = builtin_functions.in_place(self, value.fn, a, b)
        return made if made is not None else self.operator(IN_PLACE[value.fn], a, b)

    def operator(self, op, a: Form, b: Form) -> Form | Inline:
        a, b = _settled_unless_none(self, op, a), _settled_unless_none(self, op, b)
        if (made := outside_changes.of_operator(self.reader, op, a, b)) is not None:
            return made
        if op in COMPARISONS and is_number(a) and is_number(b):
            return compared(self.builder, op, a, b)
        if op in ARITHMETIC and is_number(a) and is_number(b):
            return arithmetic(self.builder, op, a, b)
        return builtin_functions.operator_of(self, op, a, b)

    def _unary(self, value) -> Form | Inline:
        form = settled(self.builder, self.get(value.value))
        if (made := outside_changes.combined(self.reader, form)) is not None:
            return made
        if value.fn in (operator.not_, "not"):
            return negated(self.builder, builtin_functions.truth_of(self.reader, form))
        if value.fn in (operator.neg, "-") and is_number(form):
            return negative(self.builder, form)
        if value.fn in (operator.pos, "+") and is_number(form):
            return form
        return builtin_functions.unary_of(self, value.fn, form)

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

    def _formatted(self, value) -> Form:
        return outside_changes.TEXT

    def _getattr(self, value) -> Form | Inline:
        return self.attribute(self.get(value.value), value.attr)

    def attribute(self, owner: Form, name: str) -> Form | Inline:
        """`owner.name`."""
        if (getter := access.getter(self.reader, owner, name)) is not None:
            return self.inline(getter, [owner], {})
        return access.attribute(self.reader, owner, name)

    def special(self, owner: Form, name: str, *args: Form) -> Form | Inline | None:
        """The result of a method that Python calls for operators; None if there is none."""
        method = access.special_method(self.reader, owner, name)
        return None if method is None else calls.called(self, method, [*args], {})

    def _getitem(self, value) -> Form | Inline:
        return self._item(self.get(value.value), self.get(value.index))

    def _static_getitem(self, value) -> Form | Inline:
        index = Known(value.index) if value.index_var is None else self.get(value.index_var)
        return self._item(self.get(value.value), index)

    def _item(self, owner: Form, index: Form) -> Form | Inline:
        made = self.special(owner, "__getitem__", index)
        return access.get_item(self, owner, index) if made is None else made

    def _build_tuple(self, value) -> Form:
        return Tuple(tuple([self.get(one) for one in value.items]), self.site)

    def _list_to_tuple(self, value) -> Form:
        return Tuple(tuple(access.items_of(self.reader, self.get(value.info[0]))), self.site)

    def _build_list(self, value) -> Form:
        items = tuple([self.get(one) for one in value.items])
        return access.new_list(self.reader, self.site, items)

    def _build_map(self, value) -> Form:
        items: dict[Any, Form] = {}
        for key, item in value.items:
            known = self.get(key)
            if not isinstance(known, Known):
                raise Refused("a dict whose keys are computed")
            items[known.value] = self.get(item)
        return self.reader.make(self.site, "dict", tuple(items), tuple(items.values()))

    def _getiter(self, value) -> Form | Inline:
        return iterator(self, self.get(value.value))

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
        return LocalFunction(code, self.frame.name, self.frame.globals, defaults, code.co_name)


def _pair(form: Form) -> NextItem:
    if not isinstance(form, NextItem):
        raise Refused("it uses an iterator in a way that is not known")
    return form


def _settled_unless_none(values: RightSides, op, form: Form) -> Form:
    """An operand that may be None, decided unless the operator tests for that."""
    if isinstance(form, Maybe) and op not in (
        operator.is_,
        operator.is_not,
        operator.eq,
        operator.ne,
    ):
        return settled(values.builder, form)
    return form


# --- Branches that decide effects alone, as of `if calls[0] % 100 == 0: print(total)` -------------
# No result depends on the way that such a branch takes, so that the graph has no branch there. Its
# blocks are followed once, each on its own, to see what they change outside; whatever they assign
# is not followed. If they change anything else, return or raise, a result depends on the branch.


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
    for key in effects.outside:
        reader.state.variables.pop(key, None)
    return joined[0]


class _Effects(RightSides):
    """Follows blocks of one frame for their effects, from the state at a branch."""

    def __init__(self, reader, point: Point, unknown: Unfollowed):
        super().__init__(reader, point)
        self.unknown = unknown  # stands for what the blocks assign
        self.outside: set = set()  # the names outside that they assign

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
        for key in filter(is_name_outside, start.variables):  # another block may assign it first
            start.variables[key] = self.unknown
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
        for key in filter(is_name_outside, {**start.variables, **state.variables}):
            if state.variables.get(key) is not start.variables.get(key):
                self.outside.add(key)
        own = [key for key in start.variables if not is_name_outside(key)]
        others = [key for key in own if key[0] != self.frame.name]
        same = [state.variables.get(key) is start.variables[key] for key in others]
        same += [state.heap.get(site) is contents for site, contents in start.heap.items()]
        if not all(same):
            raise Refused("it changes an object or a variable")

    def _follow(self, statement) -> None:
        code = self.frame.code.code
        self.reader.line(SourceLine(code.co_filename, statement.loc.line, code.co_name))
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
            if isinstance(form, (Array, ArenaList, Ref)):
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


# --- Statements that read a choice: followed for each of its options if they need one -------------


@dataclasses.dataclass(frozen=True)
class Alternatives:
    """A variable that is a choice, and what there was before a statement that reads it."""

    name: str
    choice: Choice
    state: ReadingState
    steps: int
    ways: int

    def go_on(self, reader: FunctionReader, point: Point, at: int, block) -> None:
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

    def _follow(
        self, reader: FunctionReader, point: Point, at: int, note: tuple, option: Form
    ) -> None:
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


# --- The statements of a point followed: assignments, calls, and the edges at its end -------------


def follow(reader: FunctionReader, point: Point) -> None:
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

    def _at_line(self, statement) -> SourceLine:
        """The user's line of a statement, which steps come from."""
        code = self.frame.code.code
        line = SourceLine(code.co_filename, statement.loc.line, code.co_name)
        if line.number:
            self.reader.line(line)
        return line

    def _is_end(self, statement, line: SourceLine) -> bool:
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

    def _goto(self, label: int, at: int, note: tuple = ()):
        return self.reader.goto(self.stack, label, at, self.reader.state, note)

    def _branch(self, statement) -> None:
        asked = self.get(statement.cond)
        if (outside := outside_changes.unfollowed(self.reader, asked)) is not None:
            label = followed(self, outside)
            self.builder.block.end = Jump(self._goto(label, 0))
            return
        condition = truth(self.builder, builtin_functions.truth_of(self.reader, asked))
        if isinstance(condition, Known):
            target = statement.truebr if condition.value else statement.falsebr
            self.builder.block.end = Jump(self._goto(target, 0))
            return
        then, other = self._goto(statement.truebr, 0), self._goto(statement.falsebr, 0)
        self.builder.block.end = Branch(condition.value, then, other, self.builder.line)  # type: ignore[arg-type]

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
            form = NextItem(NONE, False)
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
        self.set(name, NextItem(item, there))
        return self._goto(self.point.label, self.at + 1, ("more",) if there else ("done",))

    def _resume(self, iterator: Ref, name: str) -> None:
        frame, label, at, _ = self.reader.contents(iterator).keys
        if label is None:
            self.set(name, NextItem(NONE, False))
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
        state.variables[below.frame, stack.target] = NextItem(item, True)
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

"""The right sides of assignments: variables, constants, operators, calls."""

from __future__ import annotations

import operator
from typing import Any

from ..._core.codegen.process import numba_ir as ir
from ..kinds.step_kinds import BOOL
from . import access, calls, container_operators, names_outside, outside_changes
from .builtin_functions import iterator
from .errors import Raises, Refused
from .forms import Form, Function, Known, Maybe, Pair, Possible, Tuple
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
    settled,
)
from .points import Point
from .reader import Inline, Reader
from .state import Frame, Stack


class RightSides:
    """Values of a point's statements; `at` is the number of the statement."""

    at = 0

    def __init__(self, reader: Reader, point: Point):
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
            cell = names_outside.cell_of(self.reader, self.frame, shared)
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
        frame, bound = names_outside.framed(self.reader, function, args, kwargs, self._frame_name())
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
            return names_outside.global_(self.reader, self.frame, value.name)
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
        return names_outside.outside(self.reader, self.frame, name)

    def _binop(self, value) -> Form | Inline:
        return self.operator(value.fn, self.get(value.lhs), self.get(value.rhs))

    def _inplace_binop(self, value) -> Form | Inline:
        a, b = self.get(value.lhs), self.get(value.rhs)
        if (made := outside_changes.changed_in_place(self.reader, a, b)) is not None:
            return made
        made = container_operators.in_place(self, value.fn, a, b)
        return made if made is not None else self.operator(IN_PLACE[value.fn], a, b)

    def operator(self, op, a: Form, b: Form) -> Form | Inline:
        a, b = _settled_unless_none(self, op, a), _settled_unless_none(self, op, b)
        if (made := outside_changes.of_operator(self.reader, op, a, b)) is not None:
            return made
        if op in COMPARISONS and is_number(a) and is_number(b):
            return compared(self.builder, op, a, b)
        if op in ARITHMETIC and is_number(a) and is_number(b):
            return arithmetic(self.builder, op, a, b)
        return container_operators.operator_of(self, op, a, b)

    def _unary(self, value) -> Form | Inline:
        form = settled(self.builder, self.get(value.value))
        if (made := outside_changes.combined(self.reader, form)) is not None:
            return made
        if value.fn in (operator.not_, "not"):
            return negated(self.builder, container_operators.truth_of(self.reader, form))
        if value.fn in (operator.neg, "-") and is_number(form):
            return negative(self.builder, form)
        if value.fn in (operator.pos, "+") and is_number(form):
            return form
        return container_operators.unary_of(self, value.fn, form)

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
        return Function(code, self.frame.name, self.frame.globals, defaults, code.co_name)


def _pair(form: Form) -> Pair:
    if not isinstance(form, Pair):
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

"""Statements of a function followed on each way through it, for the uses of arrays from outside."""

from __future__ import annotations

import builtins
import inspect
import types
from typing import Any

from ..._core.codegen.process import numba_ir as ir
from .code import Code, code_of
from .followed_forms import Items, Iterator, Known, Other, Unknown, Way, is_plain

#: Ways through a function.
WAYS = 32


class Frame:
    """A call of a function: its variables on the way that is followed."""

    def __init__(self, uses: Any, f: types.FunctionType, arguments: dict[str, Any]):
        self.uses, self.f, self.arguments = uses, f, arguments
        self.code: Code = code_of(f.__code__)
        self.cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        if f.__code__.co_flags & inspect.CO_GENERATOR:
            raise Unknown("a generator")

    def run(self, way: Way) -> list[tuple[Any, Way]]:
        """The results on all ways."""
        waiting, ends = [(self.code.first, 0, dict(self.arguments), way)], []
        while waiting:
            label, at, variables, way = waiting.pop()
            found = self._follow(label, at, variables, way)
            ends += [one for one in found if len(one) == 2]
            waiting += [one for one in found if len(one) == 4]
            if len(waiting) + len(ends) > WAYS:
                raise Unknown("too many ways")
        return ends

    def _follow(self, label: int, at: int, variables: dict, way: Way) -> list[tuple]:
        """The statements of a block from one on: its ends, and where it goes on."""
        body = self.code.blocks[label].body
        for k in range(at, len(body)):
            self.uses.spend_statement()
            one = body[k]
            if isinstance(one, ir.Assign):
                ways = self._value(one.value, one.target.name, variables, way)
                if len(ways) != 1:
                    return [
                        (label, k + 1, self._with(variables, one.target.name, form), other)
                        for form, other in ways
                    ]
                form, way = ways[0]
                variables = self._with(variables, one.target.name, form)
            elif isinstance(one, (ir.SetItem, ir.StaticSetItem, ir.SetAttr)):
                self._write(one, variables)
            elif isinstance(one, ir.Del):
                variables.pop(one.value, None)
            elif isinstance(one, ir.Jump):
                return [(one.target, 0, variables, way)]
            elif isinstance(one, ir.Branch):
                return self._branch(one, variables, way)
            elif isinstance(one, ir.Return):
                return [(variables[one.value.name], way)]
            elif isinstance(one, (ir.Raise, ir.StaticRaise)):
                return []
            else:
                raise Unknown(f"a statement {type(one).__name__}")
        raise Unknown("a block without an end")

    def _with(self, variables: dict, name: str, form) -> dict:
        """The variables after an assignment; a name from outside is no variable."""
        if name in self.code.assigned_globals:
            self.uses.write_name(self.f.__globals__, name)
            return variables
        if name in self.cells:
            self.uses.write_name(self.cells[name], name)
            return variables
        return {**variables, name: form}

    def _write(self, one, variables: dict) -> None:
        """A write to an item or an attribute."""
        owner = variables[one.target.name]
        if isinstance(one, ir.SetAttr):
            self.uses.write_attribute(owner, one.attr)
        elif isinstance(one, ir.StaticSetItem):
            self.uses.write(owner, Known(one.index))
        else:
            self.uses.write(owner, variables[one.index.name])

    def _branch(self, one: ir.Branch, variables: dict, way: Way) -> list[tuple]:
        asked = variables[one.cond.name]
        if isinstance(asked, Known) and (is_plain(asked.value) or type(asked.value) is tuple):
            return [(one.truebr if asked.value else one.falsebr, 0, variables, way)]
        if isinstance(asked, Items):
            return [(one.truebr if asked.items else one.falsebr, 0, variables, way)]
        self.uses.spend_all(asked)
        return [(one.truebr, 0, dict(variables), way.copy()), (one.falsebr, 0, variables, way)]

    # --- values -------------------------------------------------------------------------------

    def _value(self, value, target: str, variables: dict, way: Way) -> list[tuple[Any, Way]]:
        """The values of a right side, and the ways to them."""
        if isinstance(value, ir.Expr) and value.op == "call":
            return self._call(value, variables, way)
        return [(self._plain_value(value, variables, way), way)]

    def _call(self, value: ir.Expr, variables: dict, way: Way) -> list:
        args = [variables[one.name] for one in value.args]
        if value.vararg is not None:
            args += self.uses.iterated(variables[value.vararg.name])
        if getattr(value, "varkwarg", None) is not None:
            raise Unknown("a call with **")
        named = {name: variables[one.name] for name, one in value.kws}
        return self.uses.called(variables[value.func.name], args, named, way)

    def _plain_value(self, value, variables: dict, way: Way):
        if isinstance(value, ir.Var):
            return variables[value.name]
        if isinstance(value, ir.Arg):
            return self.arguments[value.name]
        if isinstance(value, ir.Const):
            return Known(value.value)
        if isinstance(value, ir.Global):
            return self._global(value.name)
        if isinstance(value, ir.FreeVar):
            cell = self.cells[value.name]
            return self.uses.name(cell, value.name, cell.cell_contents)
        if not isinstance(value, ir.Expr):
            raise Unknown(f"a value {type(value).__name__}")
        handler = getattr(self, f"_of_{value.op}", None)
        if handler is None:
            raise Unknown(f"an expression {value.op}")
        return handler(value, variables, way)

    def _global(self, name: str):
        if name in self.f.__globals__:
            return self.uses.name(self.f.__globals__, name, self.f.__globals__[name])
        if hasattr(builtins, name):
            return Known(getattr(builtins, name))
        raise Unknown(f"the name {name}")

    def _of_binop(self, value, variables, way):
        operands = [variables[value.lhs.name], variables[value.rhs.name]]
        return self.uses.operation(value.fn, operands, way)

    def _of_inplace_binop(self, value, variables, way):
        operands = [variables[value.lhs.name], variables[value.rhs.name]]
        is_number = isinstance(operands[0], Known) and is_plain(operands[0].value)
        function = value.immutable_fn if is_number else value.fn
        return self.uses.operation(function, operands, way)

    def _of_unary(self, value, variables, way):
        return self.uses.operation(value.fn, [variables[value.value.name]], way)

    def _of_getattr(self, value, variables, way):
        return self.uses.attribute(variables[value.value.name], value.attr)

    def _of_getitem(self, value, variables, way):
        return self.uses.item(variables[value.value.name], variables[value.index.name])

    def _of_static_getitem(self, value, variables, way):
        return self.uses.item(variables[value.value.name], Known(value.index))

    def _of_build_tuple(self, value, variables, way):
        return Items(tuple([variables[one.name] for one in value.items]))

    def _of_build_list(self, value, variables, way):
        return Items(tuple([variables[one.name] for one in value.items]), True)

    def _of_exhaust_iter(self, value, variables, way):
        form = variables[value.value.name]
        if isinstance(form, Other):
            return Items((form,) * value.count)
        return Items(tuple(self.uses.iterated(form)))

    def _of_getiter(self, value, variables, way):
        form = variables[value.value.name]
        return form if isinstance(form, Iterator) else way.iterator(self.uses.iterated(form))

    def _of_iternext(self, value, variables, way):
        form = variables[value.value.name]
        if not isinstance(form, Iterator):
            raise Unknown("an iteration")
        items, at = way.iterators[form.key]
        way.iterators[form.key] = items, at + 1
        is_there = at < len(items)
        return Items((items[at] if is_there else Known(None), Known(is_there)))

    def _of_pair_first(self, value, variables, way):
        return variables[value.value.name].items[0]

    def _of_pair_second(self, value, variables, way):
        return variables[value.value.name].items[1]

    def _of_cast(self, value, variables, way):
        return variables[value.value.name]

"""Generated text compiled without Numba: functions of numbers with loops and branches.

Numba spends most of the compilation of such a function on type inference. Here types follow from
those of the arguments, statement by statement. A variable is what was assigned last; at the head of
a loop and after a branch, a phi instruction joins those that differ. Any other statement raises
`NotPlain`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types

from . import collection
from .parsing import statements_in, text_of
from .plain_expressions import CONTEXT, FLOAT, INT, SINGLE, Expressions, NotPlain, Value


@collection.paused()
def lowered(source: str, exports: dict[str, tuple[str, str]], single: bool = False) -> ir.Module:
    """A module with the functions of a text; `exports`: symbol → name in the text, signature.

    Numbers in the text are of float32 if that is `single`.
    """
    module = _Module(source, SINGLE if single else FLOAT)
    for symbol, (name, signature) in exports.items():
        wanted = eval(signature, vars(types))
        module.function(module.globals[name], [*wanted.args], symbol, wanted.return_type)
    return module.made


class _Module:
    """A text: its names, and the functions made of it by their types."""

    def __init__(self, source: str, number: types.Type):
        tree, self.number = statements_in(source), number
        others = [one for one in tree.body if not isinstance(one, ast.FunctionDef)]
        self.globals: dict[str, Any] = {}
        exec(compile(ast.Module(others, []), "<text>", "exec"), self.globals)
        own = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
        self.globals |= own
        self.made = ir.Module("plain")
        self.functions: dict[tuple, tuple[ir.Function, types.Type] | None] = {}

    def function(
        self, text: Any, kinds: list, symbol: str = "", result: types.Type | None = None
    ) -> tuple[ir.Function, types.Type]:
        """A function for arguments of some types, and the type of its result."""
        key = text, str(kinds), symbol
        if key not in self.functions:
            self.functions[key] = None
            node, names = self.text_of(text)
            one = _Function(
                self, node, names, kinds, symbol or f"{node.name}.{len(self.functions)}"
            )
            one.made.linkage = "" if symbol else "internal"
            self.functions[key] = one.finish(result)
        if (found := self.functions[key]) is None:
            raise NotPlain("a function that calls itself")
        return found

    def text_of(self, text: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
        """A function of the text, or a helper, and the names in its scope."""
        return (text, self.globals) if isinstance(text, ast.FunctionDef) else _read(text)


@functools.cache
def _read(helper: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The text of a helper, and the names in its scope."""
    try:
        source = text_of(helper.py_func)
    except OSError as error:
        raise NotPlain(f"{helper.py_func.__name__} without its text") from error
    (node,) = statements_in(source).body
    assert isinstance(node, ast.FunctionDef)
    return node, helper.py_func.__globals__


def _flat(kinds) -> Iterator[types.Type]:
    """Types, those in tuples one by one."""
    for kind in kinds:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        else:
            yield kind


def _kinds(values) -> tuple:
    return tuple(one.kind if isinstance(one, Value) else _kinds(one) for one in values)


def _words(values) -> list:
    return [w for one in values for w in ([one.ir] if isinstance(one, Value) else _words(one))]


def _values(kinds, words: Iterator) -> list:
    """Values of some types, in consecutive words."""
    return [
        tuple(_values(kind, words)) if isinstance(kind, tuple) else Value(kind, next(words))
        for kind in kinds
    ]


@functools.lru_cache(256)
def _is_expression(node: ast.FunctionDef) -> bool:
    """Whether a function is a few assignments and a result: it is inlined."""
    *first, last = [one for one in node.body if not _is_docstring(one)]
    return isinstance(last, ast.Return) and all(
        isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) for one in first
    )


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _assigned(body: list[ast.stmt]) -> list[str]:
    """The variables that statements assign, in order."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found[node.id] = None
        elif isinstance(node, ast.Assign):
            waiting += node.targets
        elif isinstance(node, (ast.For, ast.AugAssign)):
            waiting.append(node.target)
        elif isinstance(node, ast.Tuple):
            waiting += node.elts
        if isinstance(node, (ast.For, ast.While, ast.If)):
            waiting += [*node.orelse, *reversed(node.body)]
    return list(found)


class _Function:
    """Makes one function of a text."""

    def __init__(self, module: _Module, node: ast.FunctionDef, names: dict, kinds, symbol: str):
        self.module, self.node = module, node
        self.result: types.Type | None = None
        given = [CONTEXT.get_value_type(kind) for kind in _flat(kinds)]
        self.made = ir.Function(module.made, ir.FunctionType(ir.VoidType(), given), symbol)
        self.builder = ir.IRBuilder(self.made.append_basic_block("entry"))
        self.values = Expressions(self.builder, names, self._called, module.number)
        parameters = [one.arg for one in node.args.args]
        arguments = _values(kinds, iter(self.made.args))
        self.values.names = dict(zip(parameters, arguments, strict=True))

    @property
    def names(self) -> dict[str, Any]:
        return self.values.names

    def finish(self, result: types.Type | None) -> tuple[ir.Function, types.Type]:
        """Write the function, of this type; returns it with the type of its result."""
        self.result = result
        self._statements(self.node.body)
        if not self._ended:
            self._return(ast.Return())
        assert self.result is not None
        returned = CONTEXT.get_value_type(self.result)
        self.made.ftype = ir.FunctionType(returned, self.made.ftype.args)
        self.made.type = self.made.ftype.as_pointer()
        self.made.return_value = ir.ReturnValue(self.made, returned)
        return self.made, self.result

    @property
    def _ended(self) -> bool:
        return self.builder.block.is_terminated

    # --- calls --------------------------------------------------------------------------------

    def _called(self, text: Any, given: list) -> Any:
        node, names = self.module.text_of(text)
        if _is_expression(node):
            return self._inside(node, names, given)
        function, result = self.module.function(text, list(_kinds(given)))
        return Value(result, self.builder.call(function, _words(given)))

    def _inside(self, node: ast.FunctionDef, names: dict, given: list) -> Any:
        """A function in the place where it is called."""
        before, around = self.values.names, self.values.globals
        parameters = [one.arg for one in node.args.args]
        self.values.names = dict(zip(parameters, given, strict=True))
        self.values.globals = names
        *first, last = [one for one in node.body if not _is_docstring(one)]
        self._statements(first)
        assert isinstance(last, ast.Return) and last.value is not None
        found = self.values.of(last.value)
        self.values.names, self.values.globals = before, around
        return found

    # --- statements ---------------------------------------------------------------------------

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self._ended:
                return
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is None:
                raise NotPlain(ast.unparse(statement))
            method(statement)

    def _expr(self, node: ast.Expr) -> None:
        if not _is_docstring(node):
            self.values.of(node.value)

    def _return(self, node: ast.Return) -> None:
        given = self.values.number(node.value) if node.value else Value(types.none, None)
        kind, value = given
        self.result = kind if self.result is None else self.result
        if kind != self.result:
            raise NotPlain("results of several types")
        if value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.values.of(node.value)
        for target in node.targets:
            self._set(target, value)

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple) and len(target.elts) == len(value):
            for one, part in zip(target.elts, value, strict=True):
                self._set(one, part)
        elif isinstance(target, ast.Subscript) and isinstance(value, Value):
            kind, place = self.values.place(target)
            self.builder.store(self.values.converted(value, kind).ir, place)
        else:
            raise NotPlain(ast.unparse(target))

    def _augassign(self, node: ast.AugAssign) -> None:
        values, op = self.values, type(node.op)
        if isinstance(node.target, ast.Name):
            before = values.number(ast.Name(node.target.id, ast.Load()))
            self.names[node.target.id] = values.binary(op, before, values.number(node.value))
            return
        if not isinstance(node.target, ast.Subscript):
            raise NotPlain(ast.unparse(node))
        kind, place = values.place(node.target)
        before = Value(kind, self.builder.load(place))
        after = values.binary(op, before, values.number(node.value))
        self.builder.store(values.converted(after, kind).ir, place)

    # --- branches and loops -------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        condition, build = self.values.truth(node.test), self.builder
        then, other, after = [self.made.append_basic_block(name) for name in ("if", "else", "end")]
        build.cbranch(condition, then, other)
        changed = _assigned([*node.body, *node.orelse])
        before = {name: self.names.get(name) for name in changed}
        ways: list[tuple[Any, dict[str, Any]]] = []
        for block, body in ((then, node.body), (other, node.orelse)):
            build.position_at_end(block)
            self.names.update(before)
            self._statements(body)
            if not self._ended:
                ways.append((build.block, {name: self.names.get(name) for name in changed}))
                build.branch(after)
        build.position_at_end(after)
        if not ways:
            build.unreachable()
        for name in changed:
            self._join(name, [(block, names[name]) for block, names in ways])

    def _join(self, name: str, ways: list[tuple[Any, Any]]) -> None:
        """The variable after branches join; none if one of the branches does not define it."""
        values = [value for _, value in ways]
        if all(value is values[0] for value in values):
            self.names[name] = values[0] if values else None
        elif all(isinstance(value, Value) for value in values):
            if len({value.kind for value in values}) > 1:
                raise NotPlain(f"{name} of several types")
            phi = self.builder.phi(values[0].ir.type)
            for block, value in ways:
                phi.add_incoming(value.ir, block)
            self.names[name] = Value(values[0].kind, phi)
        else:
            self.names[name] = None
        if self.names[name] is None:
            del self.names[name]

    def _for(self, node: ast.For) -> None:
        first, stop = self._range(node)
        build, before = self.builder, self.builder.block
        head, body, after = [self.made.append_basic_block(name) for name in ("for", "do", "done")]
        build.branch(head)
        build.position_at_end(head)
        counter = build.phi(first.ir.type)
        counter.add_incoming(first.ir, before)
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        changed = [one for one in _assigned(node.body) if one != name]
        phis = self._carried(changed, before)
        build.cbranch(build.icmp_signed("<", counter, stop.ir), body, after)
        build.position_at_end(body)
        self.names[name] = Value(INT, counter)
        self._statements(node.body)
        if not self._ended:
            counter.add_incoming(build.add(counter, counter.type(1), flags=["nsw"]), build.block)
            self._go_back(head, phis)
        build.position_at_end(after)
        self._left([*changed, name], phis)

    def _range(self, node: ast.For) -> tuple[Value, Value]:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and not {"range"} & {*self.names, *self.values.globals}
            and len(call.args) in (1, 2)
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            raise NotPlain(ast.unparse(node.iter))
        *first, stop = [self.values.number(one) for one in call.args]
        begin = first[0] if first else Value(INT, ir.Constant(stop.ir.type, 0))
        if not begin.kind == stop.kind == INT:
            raise NotPlain(ast.unparse(node.iter))
        return begin, stop

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise NotPlain("while with else")
        build, before = self.builder, self.builder.block
        head, body, after = [self.made.append_basic_block(n) for n in ("while", "do", "done")]
        build.branch(head)
        build.position_at_end(head)
        changed = _assigned(node.body)
        phis = self._carried(changed, before)
        build.cbranch(self.values.truth(node.test), body, after)
        build.position_at_end(body)
        self._statements(node.body)
        if not self._ended:
            self._go_back(head, phis)
        build.position_at_end(after)
        self._left(changed, phis)

    def _carried(self, changed: list[str], before: Any) -> dict[str, Value]:
        """At the head of a loop: variables from before that it changes."""
        phis = {}
        for name in changed:
            value = self.names.get(name)
            if isinstance(value, Value):
                phi = self.builder.phi(value.ir.type)
                phi.add_incoming(value.ir, before)
                phis[name] = self.names[name] = Value(value.kind, phi)
            elif value is not None:
                del self.names[name]
        return phis

    def _go_back(self, head: Any, phis: dict[str, Value]) -> None:
        for name, phi in phis.items():
            value = self.names.get(name)
            if not isinstance(value, Value) or value.kind != phi.kind:
                raise NotPlain(f"{name} of several types")
            phi.ir.add_incoming(value.ir, self.builder.block)
        self.builder.branch(head)

    def _left(self, changed: list[str], phis: dict[str, Value]) -> None:
        """After a loop variables that are first set inside may be missing."""
        for name in changed:
            self.names.pop(name, None)
        self.names.update(phis)

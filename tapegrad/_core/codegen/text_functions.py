"""Functions of generated text compiled: their statements, loops, branches; modules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import IMPORTED, PACKAGE
from . import process
from .machine_types import Type, flat, float32, float64, int64, none, signature_of
from .process import ir
from .sources import statements_in, text_of
from .text_expressions import (
    NotCompiled,
    TextExpressions,
    TextValue,
    common_kind,
    kind_of,
    value_of,
    values_in,
)

# --- Statements of generated text: what a helper's are, and what they assign ----------------------


@functools.cache
def read_helper(helper: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The text of a helper, and the names in its scope."""
    function = helper.py_func
    (node,) = statements_in(text_of(function)).body
    _require_unchanged(Path(function.__code__.co_filename))
    assert isinstance(node, ast.FunctionDef)
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return node, _Scope(function.__globals__, {name: cell.cell_contents for name, cell in closed})


def _require_unchanged(path: Path) -> None:
    """Raise an error if a file of the package is another one than Python has imported."""
    if PACKAGE in path.parents and path.stat().st_ctime_ns > IMPORTED:
        raise RuntimeError(
            f"tapegrad: {path} has changed since it was imported, and what is compiled from it "
            "would be something else; start Python again"
        )


class _Scope(dict):
    """The names around a function: those of its module, which may be made when asked for."""

    def __init__(self, module: dict[str, Any], closed: dict[str, Any]):
        super().__init__(closed)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._module


@functools.lru_cache(256)
def is_expression(node: ast.FunctionDef) -> bool:
    """Whether a function is a few assignments and a result: it is inlined."""
    *first, last = [one for one in node.body if not is_docstring(one)]
    return isinstance(last, ast.Return) and all(
        isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) for one in first
    )


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def assigned(body: list[ast.stmt]) -> list[str]:
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


# --- Functions of generated text compiled: their statements, loops and branches -------------------
# Types follow from those of the arguments, statement by statement. A variable is what was assigned
# last; at the head of a loop and where ways meet, phi instructions join what differs. Functions are
# compiled for each choice of types that they are called with. Any other statement raises
# `NotCompiled`.


class Wider(Exception):
    """A variable that a loop changes has to begin as another type, such as float64 for int64."""

    def __init__(self, place: tuple[ast.stmt, str], kind: Any):
        self.place, self.kind = place, kind


def _whole(number: int) -> TextValue:
    """A whole number of the text."""
    return TextValue(int64, int64.llvm(number))


#: The end of a way through a function, with the variables there.
_Way = tuple[Any, dict[str, Any]]


class TextFunction:
    """Makes one function of a text."""

    def __init__(
        self, module: Any, node: ast.FunctionDef, names: dict, kinds: list, symbol: str, wider
    ):
        self.module, self.node, self.wider = module, node, wider
        self.result: Any = None
        given = [one.llvm for one in flat(kinds)]
        self.made = ir.Function(module.made, ir.FunctionType(ir.VoidType(), given), symbol)
        self.builder = ir.IRBuilder(self.made.append_basic_block("entry"))
        self.values = TextExpressions(self.builder, names, self._called, module.number)
        words = iter(self.made.args)
        self.values.names = self._bound(node, [value_of(kind, words) for kind in kinds])
        #: Of each loop around a statement: where `break` and `continue` have left its body.
        self.loops: list[tuple[list[_Way], list[_Way]]] = []

    @property
    def names(self) -> dict[str, Any]:
        return self.values.names

    def finish(self, result: Any) -> tuple[Any, Any]:
        """Write the function, of this type; returns it with the type of its result."""
        self.result = result
        self._statements(self.node.body)
        if not self._ended:
            self._return(ast.Return())
        if isinstance(self.result, tuple):
            returned = ir.LiteralStructType([one.llvm for one in flat(self.result)])
        else:
            returned = self.result.llvm
        self.made.ftype = ir.FunctionType(returned, self.made.ftype.args)
        self.made.type = self.made.ftype.as_pointer()
        self.made.return_value = ir.ReturnValue(self.made, returned)
        return self.made, self.result

    @property
    def _ended(self) -> bool:
        return self.builder.block.is_terminated

    # --- calls --------------------------------------------------------------------------------

    def _bound(self, node: ast.FunctionDef, given: list) -> dict[str, Any]:
        """Arguments by the names of parameters, with those that have been left out."""
        names, left_out = [one.arg for one in node.args.args], node.args.defaults
        missing = len(names) - len(given)
        if missing:
            given = [*given, *map(self.values.of, left_out[len(left_out) - missing :])]
        return dict(zip(names, given, strict=True))

    def _called(self, text: Any, given: list) -> Any:
        node, names = self.module.text_of(text)
        if is_expression(node):
            return self._inside(node, names, given)
        function, result = self.module.function(text, [kind_of(one) for one in given])
        words = [value.ir for value in values_in(given)]
        made = self.builder.call(function, words)
        if isinstance(result, tuple):
            count = len([*flat(result)])
            return value_of(
                result, iter([self.builder.extract_value(made, k) for k in range(count)])
            )
        return TextValue(result, made)

    def _inside(self, node: ast.FunctionDef, names: dict, given: list) -> Any:
        """A function in the place where it is called."""
        before, around = self.values.names, self.values.globals
        self.values.names, self.values.globals = {}, names  # those that defaults are of
        self.values.names = self._bound(node, given)
        *first, last = [one for one in node.body if not is_docstring(one)]
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
                raise NotCompiled(ast.unparse(statement))
            method(statement)

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _expr(self, node: ast.Expr) -> None:
        if not is_docstring(node):
            self.values.of(node.value)

    def _return(self, node: ast.Return) -> None:
        given = self.values.of(node.value) if node.value else TextValue(none, None)
        self.result = kind_of(given) if self.result is None else self.result
        if self.result is none:
            self.builder.ret_void()
            return
        words = self.values.numbers.words(given, flat((self.result,)))
        if not isinstance(self.result, tuple):
            self.builder.ret(*words)
            return
        whole = ir.Constant(ir.LiteralStructType([one.type for one in words]), ir.Undefined)
        for k, word in enumerate(words):
            whole = self.builder.insert_value(whole, word, k)
        self.builder.ret(whole)

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
        elif isinstance(target, ast.Subscript) and isinstance(value, TextValue):
            kind, place = self.values.place(target)
            self.builder.store(self.values.numbers.converted(value, kind).ir, place)
        else:
            raise NotCompiled(ast.unparse(target))

    def _augassign(self, node: ast.AugAssign) -> None:
        values, op = self.values, type(node.op)
        if isinstance(node.target, ast.Name):
            before = values.number(ast.Name(node.target.id, ast.Load()))
            self.names[node.target.id] = values.numbers.binary(
                op, before, values.number(node.value)
            )
            return
        if not isinstance(node.target, ast.Subscript):
            raise NotCompiled(ast.unparse(node))
        kind, place = values.place(node.target)
        before = TextValue(kind, self.builder.load(place))
        before = values.numbers.converted(before, int64) if kind.is_integer else before
        after = values.numbers.binary(op, before, values.number(node.value))
        self.builder.store(values.numbers.converted(after, kind).ir, place)

    # --- branches -----------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        condition, build = self.values.truth(node.test), self.builder
        if isinstance(condition, ir.Constant):
            self._statements(node.body if condition.constant else node.orelse)
            return
        blocks = [self.made.append_basic_block(name) for name in ("if", "else")]
        build.cbranch(condition, *blocks)
        before, ways = self.values.names, []
        for block, body in zip(blocks, (node.body, node.orelse), strict=True):
            build.position_at_end(block)
            self.values.names = {**before}
            self._statements(body)
            if not self._ended:
                ways.append((build.block, self.names))
        self._meet(ways)

    def _meet(self, ways: list[_Way]) -> None:
        """Go on where open blocks meet, with the variables that all of them define."""
        build = self.builder
        if len(ways) == 1:
            ((block, self.values.names),) = ways
            build.position_at_end(block)
            return
        after = self.made.append_basic_block("end")
        if not ways:
            build.position_at_end(after)
            build.unreachable()
            return
        first = ways[0][1]
        shared = [name for name in first if all(name in names for _, names in ways)]
        same = [name for name in shared if all(names[name] is first[name] for _, names in ways)]
        changed = [name for name in shared if name not in {*same}]
        joined = self.values.numbers.joined(
            [(block, tuple(names[name] for name in changed)) for block, names in ways], after
        )
        self.values.names = {name: first[name] for name in same}
        self.values.names |= dict(zip(changed, joined, strict=True))

    # --- loops --------------------------------------------------------------------------------

    def _for(self, node: ast.For) -> None:
        first, stop, step = self._range(node)
        assert isinstance(node.target, ast.Name)
        name, build = node.target.id, self.builder
        hidden = f"{name}, counted"  # the body may assign the variable itself
        if isinstance(step.ir, ir.Constant):
            sign, by, offset = ("<" if step.ir.constant > 0 else ">"), step, None
        else:  # −((first − stop) // step) rounds, counted one by one
            rounds = self.values.numbers.binary(
                ast.FloorDiv, self.values.numbers.binary(ast.Sub, first, stop), step
            )
            stop = TextValue(int64, build.neg(rounds.ir))
            sign, by, offset, first = (
                "<",
                _whole(1),
                first,
                _whole(0),
            )

        def goes_on() -> Any:
            return build.icmp_signed(sign, self.names[hidden].ir, stop.ir)

        def begin() -> None:
            counter = self.names[hidden]
            if offset is not None:
                counter = TextValue(int64, build.add(offset.ir, build.mul(counter.ir, step.ir)))
            self.names[name] = counter

        def advance() -> None:
            word = self.names[hidden].ir
            self.names[hidden] = TextValue(int64, build.add(word, by.ir, flags=["nsw"]))

        self.names[hidden] = first
        self._loop(node, [hidden, *assigned(node.body)], goes_on, begin, advance)
        self.names.pop(hidden, None)

    def _range(self, node: ast.For) -> tuple[TextValue, TextValue, TextValue]:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and "range" not in self.names
            and "range" not in self.values.globals
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            raise NotCompiled(ast.unparse(node.iter))
        given = [self.values.numbers.converted(self.values.number(one), int64) for one in call.args]
        first = given.pop(0) if len(given) > 1 else _whole(0)
        stop, *step = given
        return first, stop, step[0] if step else _whole(1)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise NotCompiled("while with else")
        self._loop(node, assigned(node.body), lambda: self.values.truth(node.test))

    def _loop(
        self,
        node: ast.For | ast.While,
        changed: list[str],
        goes_on: Callable,
        begin: Callable = lambda: None,
        advance: Callable = lambda: None,
    ) -> None:
        """A loop that changes variables, while `goes_on()` is the condition at its head."""
        build = self.builder
        head, body = [self.made.append_basic_block(name) for name in ("head", "body")]
        phis = self._carried(node, changed, head)
        condition, ways = goes_on(), []
        if isinstance(condition, ir.Constant) and condition.constant:
            build.branch(body)
        else:
            done = self.made.append_basic_block("done")
            build.cbranch(condition, body, done)
            ways.append((done, {**self.names}))
        build.position_at_end(body)
        begin()
        leaving: list[_Way] = []
        again: list[_Way] = []
        self.loops.append((leaving, again))
        self._statements(node.body)
        self.loops.pop()
        if not self._ended:
            again.append((build.block, self.names))
        if again:
            self._meet(again)
            advance()
            self._go_back(node, head, phis)
        self._meet([*ways, *leaving])

    def _carried(self, node: ast.stmt, changed: list[str], head: Any) -> dict[str, Any]:
        """Begin the head of a loop: variables from before that it changes, as phis."""
        build, phis = self.builder, {}
        for name in changed:
            if (node, name) in self.wider:
                kind = self.wider[node, name]
                words = self.values.numbers.words(self.names[name], flat((kind,)))
                self.names[name] = value_of(kind, iter(words))
        before = build.block
        build.branch(head)
        build.position_at_end(head)
        for name in changed:
            if name in self.names and name not in phis:
                value = self.names[name]
                words = []
                for one in values_in(value):
                    words.append(build.phi(one.ir.type))
                    words[-1].add_incoming(one.ir, before)
                phis[name] = self.names[name] = value_of(kind_of(value), iter(words))
        return phis

    def _go_back(self, node: ast.stmt, head: Any, phis: dict[str, Any]) -> None:
        given = []
        for name, phi in phis.items():
            if name not in self.names:
                raise NotCompiled(f"{name}, which is not set on each way through a loop")
            begun = kind_of(phi)
            kind = common_kind([begun, kind_of(self.names[name])])
            if str(kind) != str(begun):
                raise Wider((node, name), kind)
            given.append(self.values.numbers.words(self.names[name], flat((kind,))))
        block = self.builder.block
        for phi, words in zip(phis.values(), given, strict=True):
            for one, word in zip(values_in(phi), words, strict=True):
                one.ir.add_incoming(word, block)
        self.builder.branch(head)

    def _break(self, node: ast.Break) -> None:
        self._leave(0)

    def _continue(self, node: ast.Continue) -> None:
        self._leave(1)

    def _leave(self, which: int) -> None:
        """End this way: it goes on behind the loop or at its next round."""
        self.loops[-1][which].append((self.builder.block, self.names))
        self.values.names = {**self.names}
        self.builder.position_at_end(self.made.append_basic_block("never"))
        self.builder.unreachable()


# --------------------------------------------------------------------------------------------------
# Generated text compiled: a module for LLVM of functions, for the types they are called with.
# What the compiler does not know raises `NotCompiled`: nothing is guessed.


@process.paused()
def lowered(source: str, exports: dict[str, tuple[str, str]], single: bool = False) -> Any:
    """A module with the functions of a text; `exports`: symbol → name in the text, signature.

    Numbers in the text are of float32 if that is `single`.
    """
    module = _Module(source, float32 if single else float64)
    for symbol, (name, signature) in exports.items():
        result, arguments = signature_of(signature)
        module.function(module.globals[name], [*arguments], symbol, result)
    return module.made


class _Module:
    """A text: its names, and the functions made of it by their types."""

    def __init__(self, source: str, number: Type):
        tree, self.number = statements_in(source), number
        self.globals: dict[str, Any] = {}
        for one in tree.body:
            if isinstance(one, ast.FunctionDef):
                self.globals[one.name] = one
            else:
                exec(compile(ast.Module([one], []), "<text>", "exec"), self.globals)
        self.made = ir.Module("text")
        self.functions: dict[tuple, tuple[Any, Any] | None] = {}

    def function(
        self, text: Any, kinds: list, symbol: str = "", result: Any = None
    ) -> tuple[Any, Any]:
        """A function for arguments of some types, and the type of its result."""
        key = text, str(kinds), symbol
        if key not in self.functions:
            self.functions[key] = None
            self.functions[key] = self._made(text, kinds, symbol, result)
        if (found := self.functions[key]) is None:
            raise NotCompiled("a function that calls itself")
        return found

    def _made(self, text: Any, kinds: list, symbol: str, result: Any) -> tuple[Any, Any]:
        node, names = self.text_of(text)
        module = names["__name__"] if "__name__" in names else "text"
        wider: dict[tuple[ast.stmt, str], Any] = {}
        while True:
            name = self.made.get_unique_name(f"{module}.{node.name}")
            one = TextFunction(self, node, names, kinds, name, wider)
            try:
                made, kind = one.finish(result)
            except Wider as found:
                wider |= {found.place: found.kind}
                del self.made.globals[name]
                continue
            made.linkage = "" if symbol else "internal"
            if symbol:
                made.name = symbol
                self.made.globals = {value.name: value for value in self.made.globals.values()}
            return made, kind

    def text_of(self, text: Any) -> tuple[ast.FunctionDef, dict[str, Any]]:
        """A function of the text, or a helper, and the names in its scope."""
        return (text, self.globals) if isinstance(text, ast.FunctionDef) else read_helper(text)

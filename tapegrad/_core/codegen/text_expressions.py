"""Expressions of generated text as instructions of LLVM: numbers, truths, pointers, tuples, calls.

Types follow from those of the operands, as they would in C: whole numbers have 64 bits, and become
floats where they meet one. What is not known here raises `NotCompiled`: nothing is guessed.
"""

from __future__ import annotations

import ast
import types as python_types
from collections.abc import Callable
from typing import Any

from .intrinsics import Intrinsic, helper
from .late_imports import ir
from .machine_types import Pointer, Type, boolean, complex128, float64, int64
from .text_numbers import COMPARISONS, Operators
from .text_values import Handed, NotCompiled, TextValue, kind_of

_BUILTINS: dict[str, Any] = {
    one.__name__: one for one in (min, max, abs, int, float, bool, complex, len, ord)
}


class TextExpressions:
    """Makes instructions, for functions of one module.

    `names` are local variables, `globals_` those of the text; `called` makes the call of a function
    of the text, or of a helper. Numbers in the text are of type `number`.
    """

    def __init__(
        self, builder: Any, globals_: dict[str, Any], called: Callable, number: Type = float64
    ):
        self.builder, self.globals, self.called = builder, globals_, called
        self.numbers = Operators(builder, number)
        self.names: dict[str, Any] = {}

    def of(self, node: ast.expr) -> Any:
        """The value of an expression; of a tuple a tuple."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotCompiled(ast.unparse(node))
        return method(node)

    def number(self, node: ast.expr) -> TextValue:
        """The value of an expression that is no tuple."""
        value = self.of(node)
        if not isinstance(value, TextValue):
            raise NotCompiled(ast.unparse(node))
        return value

    def truth(self, node: ast.expr) -> Any:
        """A condition, in LLVM's words."""
        return self.numbers.truth_of(self.number(node))

    def object(self, node: ast.expr) -> Any:
        """What a name stands for that is no value."""
        if isinstance(node, ast.Name) and isinstance(self.names.get(node.id), Handed):
            return self.names[node.id].object
        if isinstance(node, ast.Name) and node.id not in self.names:
            if node.id in self.globals:
                return self.globals[node.id]
            return _BUILTINS.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.object(node.value)
            if isinstance(owner, python_types.ModuleType):
                return getattr(owner, node.attr, None)
        return None

    # --- by kind of node ----------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Any:
        return self.numbers.literal(node.value)

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.globals:
            return self.numbers.literal(self.globals[node.id])
        raise NotCompiled(f"{node.id}, which is not set on each way here")

    def _attribute(self, node: ast.Attribute) -> Any:
        if self.object(node.value) is not None:
            return self.numbers.literal(self.object(node))
        owner = self.of(node.value)
        if isinstance(owner, TextValue) and owner.kind is complex128:
            return self.numbers.part(owner, ("real", "imag").index(node.attr))
        return getattr(owner, node.attr)

    def _tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.of(one) for one in node.elts)

    def _unaryop(self, node: ast.UnaryOp) -> TextValue:
        if isinstance(node.op, ast.Not):
            return TextValue(boolean, self.builder.not_(self.truth(node.operand)))
        return self.numbers.unary(type(node.op), self.number(node.operand))

    def _binop(self, node: ast.BinOp) -> TextValue:
        return self.numbers.binary(type(node.op), self.number(node.left), self.number(node.right))

    def _compare(self, node: ast.Compare) -> TextValue:
        operands = [self.number(one) for one in (node.left, *node.comparators)]
        found = None
        for op, x, y in zip(node.ops, operands, operands[1:], strict=False):
            if type(op) not in COMPARISONS:
                raise NotCompiled(ast.unparse(node))
            holds = self.numbers.compared(COMPARISONS[type(op)], x, y)
            found = holds if found is None else self.builder.and_(found, holds)
        return TextValue(boolean, found)

    def _boolop(self, node: ast.BoolOp) -> TextValue:
        is_and = isinstance(node.op, ast.And)
        found = self.truth(node.values[0])
        for one in node.values[1:]:
            if _is_free(one):
                make = self.builder.and_ if is_and else self.builder.or_
                found = make(found, self.truth(one))
            else:
                known = boolean.llvm(not is_and)
                found = (
                    self._one_of(found, one, known) if is_and else self._one_of(found, known, one)
                )
        return TextValue(boolean, found)

    def _ifexp(self, node: ast.IfExp) -> Any:
        condition = self.truth(node.test)
        if _is_free(node.body) and _is_free(node.orelse):
            return self.numbers.selected(condition, self.of(node.body), self.of(node.orelse))
        return self._chosen(condition, node)

    def _chosen(self, condition: Any, node: ast.IfExp) -> Any:
        """The value of the branch that is taken, which alone is computed."""
        build = self.builder
        blocks = [build.append_basic_block(name) for name in ("yes", "no", "one")]
        build.cbranch(condition, *blocks[:2])
        found, ends = [], []
        for block, part in zip(blocks, (node.body, node.orelse), strict=False):
            build.position_at_end(block)
            found.append(self.of(part))
            ends.append(build.block)
        return self.numbers.joined(list(zip(ends, found, strict=True)), blocks[2])

    def _one_of(self, condition: Any, yes: Any, no: Any) -> Any:
        """A truth, or an expression that alone is computed where it is chosen."""
        build = self.builder
        blocks = [build.append_basic_block(name) for name in ("yes", "no", "one")]
        build.cbranch(condition, *blocks[:2])
        ways = []
        for block, one in zip(blocks, (yes, no), strict=False):
            build.position_at_end(block)
            ways.append((self.truth(one) if isinstance(one, ast.expr) else one, build.block))
            build.branch(blocks[2])
        build.position_at_end(blocks[2])
        phi = build.phi(boolean.llvm)
        for word, block in ways:
            phi.add_incoming(word, block)
        return phi

    def _subscript(self, node: ast.Subscript) -> Any:
        whole = self.of(node.value)
        if isinstance(whole, tuple) and not isinstance(whole, TextValue):
            index = self.number(node.slice)
            if isinstance(index.ir, ir.Constant):
                return whole[index.ir.constant]
            return self._entry(node, whole, index)
        kind, place = self.place(node, whole)
        found = TextValue(kind, self.builder.load(place))
        return self.numbers.converted(found, int64) if kind.is_integer else found

    def _entry(self, node: ast.expr, table: tuple, index: TextValue) -> TextValue:
        """An entry of a tuple of constants of one type, at a place that is found while it runs."""
        kinds = {value.kind for value in table}
        if len(kinds) != 1 or not all(isinstance(value.ir, ir.Constant) for value in table):
            raise NotCompiled(ast.unparse(node))
        (kind,), module = kinds, self.builder.module
        array = ir.ArrayType(kind.llvm, len(table))
        made = ir.GlobalVariable(module, array, module.get_unique_name("table"))
        made.linkage, made.global_constant = "internal", True
        made.initializer = ir.Constant(array, [value.ir for value in table])
        zero = ir.IntType(64)(0)
        return TextValue(kind, self.builder.load(self.builder.gep(made, [zero, index.ir])))

    def place(self, node: ast.Subscript, pointer: Any = None) -> tuple[Type, Any]:
        """The type of an element of memory, and where it is."""
        pointer = self.of(node.value) if pointer is None else pointer
        index = self.numbers.whole(self.number(node.slice))
        if not isinstance(pointer, TextValue) or not isinstance(pointer.kind, Pointer):
            raise NotCompiled(ast.unparse(node))
        if index.kind is not int64:
            raise NotCompiled(ast.unparse(node))
        return pointer.kind.dtype, self.builder.gep(pointer.ir, [index.ir])

    # --- complex numbers ----------------------------------------------------------------------

    # --- calls --------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Any:
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise NotCompiled(ast.unparse(node))
        function = self.object(node.func)
        if function in (ord, float) and isinstance(node.args[0], ast.Constant):
            return self.numbers.literal(function(node.args[0].value))
        given = [self.of(one) for one in node.args]
        if isinstance(function, Intrinsic):
            return self._intrinsic(function, given)
        if isinstance(function, (ast.FunctionDef, helper)):
            return self.called(function, given)
        if isinstance(function, type) and issubclass(function, tuple):
            return function(*given)
        if function in _BUILTINS.values():
            method = getattr(self, f"_builtin_{function.__name__}")
            return method(*given)
        raise NotCompiled(f"{ast.unparse(node)}, a call of {function!r}")

    def _intrinsic(self, function: Intrinsic, given: list) -> Any:
        signature = function.signature(tuple(map(kind_of, given)))
        made = function.make(self.builder, *self.numbers.words(given, signature.args))
        found = TextValue(signature.return_type, made)
        return self.numbers.converted(found, int64) if found.kind.is_integer else found

    def _builtin_len(self, given: tuple) -> TextValue:
        return self.numbers.literal(len(given))

    def _builtin_bool(self, given: TextValue) -> TextValue:
        return TextValue(boolean, self.numbers.truth_of(given))

    def _builtin_int(self, given: TextValue) -> TextValue:
        if given.kind.is_float:
            return TextValue(int64, self.builder.fptosi(given.ir, int64.llvm))
        return self.numbers.converted(given, int64)

    def _builtin_float(self, given: TextValue) -> TextValue:
        return self.numbers.float(given)

    def _builtin_complex(self, real: TextValue, imag: TextValue) -> TextValue:
        return self.numbers.complex(self.numbers.float(real), self.numbers.float(imag))

    def _builtin_abs(self, given: TextValue) -> TextValue:
        return self.numbers.absolute(given)

    def _builtin_min(self, *given: TextValue) -> TextValue:
        return self.numbers.extreme("<", given)

    def _builtin_max(self, *given: TextValue) -> TextValue:
        return self.numbers.extreme(">", given)


def _is_free(node: ast.expr) -> bool:
    """Whether an expression may be computed whether it is asked for or not."""
    return not any(isinstance(one, (ast.Call, ast.Subscript)) for one in ast.walk(node))

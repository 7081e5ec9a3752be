"""Expressions of generated text as instructions of LLVM: numbers, truths, pointers, calls.

Values have Numba's types, and intrinsics make their own instructions, as they do for Numba. What
Numba would compile otherwise, or what is not known here, raises `NotPlain`: nothing is guessed.
"""

from __future__ import annotations

import ast
import functools
import operator
import types as python_types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from .intrinsics import bits_of, helper


class NotPlain(Exception):
    """A text has something that is left to Numba."""


class Value(NamedTuple):
    """A value in a function: of which type of Numba's, and in LLVM's words."""

    kind: types.Type
    ir: Any


INT, FLOAT, BOOL, SINGLE = types.int64, types.float64, types.boolean, types.float32
_LLVM = {
    types.int64: ir.IntType(64),
    types.int32: ir.IntType(32),
    types.uint8: ir.IntType(8),
    types.float64: ir.DoubleType(),
    types.float32: ir.FloatType(),
    types.boolean: ir.IntType(1),
    types.none: ir.VoidType(),
}
_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
#: Those that are computed at once of constants, as exponents are.
_PLAIN_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_INTEGERS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_TRUTHS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARISONS = dict(
    zip(
        (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
        "< <= > >= == !=".split(),
        strict=True,
    )
)


class Context:
    """What the code of intrinsics asks Numba's context for."""

    def get_value_type(self, kind):
        if isinstance(kind, types.CPointer):
            return self.get_value_type(kind.dtype).as_pointer()
        if kind not in _LLVM:
            raise NotPlain(f"values of type {kind}")
        return _LLVM[kind]

    def get_dummy_value(self):
        return None

    def cast(self, builder, value, given, wanted):
        """A value converted, as Numba converts it."""
        if given == wanted:
            return value
        target = self.get_value_type(wanted)
        if isinstance(given, types.Integer) and isinstance(wanted, types.Float):
            return builder.sitofp(value, target) if given.signed else builder.uitofp(value, target)
        if isinstance(given, types.Integer) and isinstance(wanted, types.Integer):
            if wanted.bitwidth <= given.bitwidth:
                return builder.trunc(value, target)
            return builder.sext(value, target) if given.signed else builder.zext(value, target)
        if given == types.float64 and wanted == types.float32:
            return builder.fptrunc(value, target)
        if given == types.float32 and wanted == types.float64:
            return builder.fpext(value, target)
        raise NotPlain(f"{given} made {wanted}")


CONTEXT = Context()
_INTRINSIC = type(bits_of)


def known_intrinsics() -> bool:
    """Whether intrinsics can be read where they have been decorated."""
    signature, make = bits_of._defn(None, FLOAT)
    return signature.return_type == INT and callable(make)


@functools.lru_cache(1024)
def _declared(function: Any, kinds: tuple[types.Type, ...]) -> tuple[Any, Callable]:
    """The signature of an intrinsic for arguments of some types, and what makes its code."""
    return function._defn(None, *kinds)


class Expressions:
    """Makes instructions, for functions of one module.

    `names` are local variables, `globals_` those of the text; `called` makes the call of a function
    of the text, or of a helper. Numbers in the text are of type `number`.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        globals_: dict[str, Any],
        called: Callable,
        number: types.Type = FLOAT,
    ):
        self.builder, self.globals, self.called = builder, globals_, called
        self.literals = (bool, BOOL), (int, INT), (float, number)
        self.names: dict[str, Any] = {}

    def of(self, node: ast.expr) -> Any:
        """The value of an expression; of a tuple a tuple."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotPlain(ast.unparse(node))
        return method(node)

    def number(self, node: ast.expr) -> Value:
        value = self.of(node)
        if not isinstance(value, Value):
            raise NotPlain(ast.unparse(node))
        return value

    def truth(self, node: ast.expr) -> Any:
        """A condition, in LLVM's words."""
        value = self.number(node)
        if value.kind is BOOL:
            return value.ir
        if value.kind is INT:
            return self.builder.icmp_signed("!=", value.ir, value.ir.type(0))
        raise NotPlain(f"the truth of {value.kind}")

    def converted(self, value: Value, kind: types.Type) -> Value:
        if value.kind is kind:
            return value
        return Value(kind, CONTEXT.cast(self.builder, value.ir, value.kind, kind))

    def object(self, node: ast.expr) -> Any:
        """What a name that is no variable stands for."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            if node.id in self.globals:
                return self.globals[node.id]
            return {"min": min, "max": max}.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.object(node.value)
            if isinstance(owner, python_types.ModuleType):
                return getattr(owner, node.attr, None)
        return None

    # --- by kind of node ----------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        return self._literal(node.value)

    def _literal(self, value: Any) -> Value:
        for python, kind in self.literals:
            if type(value) is python:
                with np.errstate(over="ignore"):
                    given = float(np.float32(value)) if kind is SINGLE else value
                return Value(kind, ir.Constant(_LLVM[kind], given))
        raise NotPlain(repr(value))

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        return self._literal(self.object(node))

    def _attribute(self, node: ast.Attribute) -> Value:
        return self._literal(self.object(node))

    def _tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.of(one) for one in node.elts)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(BOOL, self.builder.not_(self.truth(node.operand)))
        value = self.number(node.operand)
        if isinstance(node.op, ast.USub) and value.kind in (FLOAT, SINGLE):
            if isinstance(value.ir, ir.Constant):
                return Value(value.kind, ir.Constant(value.ir.type, -value.ir.constant))
            return Value(value.kind, self.builder.fneg(value.ir))
        if isinstance(node.op, ast.USub) and value.kind is INT:
            return Value(value.kind, self.builder.sub(value.ir.type(0), value.ir, flags=["nsw"]))
        raise NotPlain(ast.unparse(node))

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(type(node.op), self.number(node.left), self.number(node.right))

    def binary(self, op: type, x: Value, y: Value) -> Value:
        """The result of an operator."""
        build = self.builder
        if op in _FLOATS and {x.kind, y.kind} & {FLOAT, SINGLE}:
            kind = self.common(x, y)
            words = [self.float(one, kind) for one in (x, y)]
            if op in _PLAIN_OPERATORS and all(isinstance(one, ir.Constant) for one in words):
                return Value(kind, ir.Constant(_LLVM[kind], _folded(op, kind, words)))
            return Value(kind, getattr(build, _FLOATS[op])(*words))
        if x.kind is y.kind is INT and op in _INTEGERS:
            return Value(INT, getattr(build, _INTEGERS[op])(x.ir, y.ir, flags=("nsw",)))
        if x.kind is y.kind is INT and op is ast.FloorDiv:
            return Value(INT, self._floor_divided(x.ir, y.ir))
        if x.kind is y.kind is BOOL and op in _TRUTHS:
            return Value(BOOL, getattr(build, _TRUTHS[op])(x.ir, y.ir))
        raise NotPlain(f"{op.__name__} of {x.kind} and {y.kind}")

    def common(self, x: Value, y: Value) -> types.Type:
        """The type in which two numbers meet: that of float32 where a whole number does not ask."""
        is_single = SINGLE in (x.kind, y.kind) and {x.kind, y.kind} <= {SINGLE, INT}
        return SINGLE if is_single else FLOAT

    def float(self, value: Value, kind: types.Type = FLOAT) -> Any:
        """A float of a type, in LLVM's words."""
        if value.kind not in (INT, FLOAT, SINGLE):
            raise NotPlain(f"{value.kind} as a float")
        return CONTEXT.cast(self.builder, value.ir, value.kind, kind)

    def _floor_divided(self, x: Any, y: Any) -> Any:
        """The quotient rounded down, as Python has it, by a number that is not 0."""
        build, zero = self.builder, x.type(0)
        if not isinstance(y, ir.Constant) or y.constant <= 0:
            raise NotPlain("a division of integers by what is not known")
        rest = build.icmp_signed("<", build.srem(x, y), zero)
        return build.sub(build.sdiv(x, y), build.zext(rest, x.type))

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARISONS:
            raise NotPlain(ast.unparse(node))
        x, y = self.number(node.left), self.number(node.comparators[0])
        sign, build = _COMPARISONS[type(node.ops[0])], self.builder
        if x.kind is y.kind is INT:
            return Value(BOOL, build.icmp_signed(sign, x.ir, y.ir))
        if x.kind is y.kind is BOOL and sign in ("==", "!="):
            return Value(BOOL, build.icmp_unsigned(sign, x.ir, y.ir))
        make = build.fcmp_unordered if sign == "!=" else build.fcmp_ordered
        kind = self.common(x, y)
        return Value(BOOL, make(sign, self.float(x, kind), self.float(y, kind)))

    def _boolop(self, node: ast.BoolOp) -> Value:
        _without_effects(*node.values[1:])
        make = self.builder.and_ if isinstance(node.op, ast.And) else self.builder.or_
        found = self.truth(node.values[0])
        for one in node.values[1:]:
            found = make(found, self.truth(one))
        return Value(BOOL, found)

    def _ifexp(self, node: ast.IfExp) -> Value:
        _without_effects(node.body, node.orelse)
        condition = self.truth(node.test)
        x, y = self.number(node.body), self.number(node.orelse)
        if x.kind is not y.kind:
            kind = self.common(x, y)
            x, y = Value(kind, self.float(x, kind)), Value(kind, self.float(y, kind))
        return Value(x.kind, self.builder.select(condition, x.ir, y.ir))

    def _subscript(self, node: ast.Subscript) -> Value:
        kind, place = self.place(node)
        return Value(kind, self.builder.load(place))

    def place(self, node: ast.Subscript) -> tuple[types.Type, Any]:
        """The type of an element of memory, and where it is."""
        pointer, index = self.number(node.value), self.number(node.slice)
        if not isinstance(pointer.kind, types.CPointer) or index.kind is not INT:
            raise NotPlain(ast.unparse(node))
        return pointer.kind.dtype, self.builder.gep(pointer.ir, [index.ir])

    # --- calls --------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Any:
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise NotPlain(ast.unparse(node))
        function = self.object(node.func)
        given = [self.of(one) for one in node.args]
        if isinstance(function, _INTRINSIC):
            return self._intrinsic(function, given)
        if isinstance(function, (ast.FunctionDef, helper)):
            return self.called(function, given)
        if (function is min or function is max) and [one.kind for one in given] == [INT, INT]:
            x, y = [one.ir for one in given]
            takes = self.builder.icmp_signed("<" if function is min else ">", x, y)
            return Value(INT, self.builder.select(takes, x, y))
        raise NotPlain(ast.unparse(node))

    def _intrinsic(self, function: Any, given: list) -> Value:
        if not all(isinstance(one, Value) for one in given):
            raise NotPlain("a tuple that an intrinsic gets")
        signature, make = _declared(function, tuple(one.kind for one in given))
        pairs = zip(given, signature.args, strict=True)
        words = [self.converted(one, kind).ir for one, kind in pairs]
        return Value(signature.return_type, make(CONTEXT, self.builder, signature, words))


def _folded(op: type, kind: types.Type, words: list) -> float:
    """The result of an operator of constants."""
    number = np.float32 if kind is SINGLE else np.float64
    with np.errstate(all="ignore"):
        return float(_PLAIN_OPERATORS[op](*[number(one.constant) for one in words]))


def _without_effects(*nodes: ast.expr) -> None:
    """NotPlain unless expressions may be computed whether they are asked for or not."""
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Call, ast.Subscript)):
                raise NotPlain(f"{ast.unparse(node)}, where only one of several is computed")

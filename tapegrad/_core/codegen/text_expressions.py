"""Expressions of generated text as instructions of LLVM: numbers, truths, pointers, tuples, calls.

Types follow from those of the operands, as they would in C: whole numbers have 64 bits, and become
floats where they meet one. What is not known here raises `NotCompiled`: nothing is guessed.
"""

from __future__ import annotations

import ast
import operator
import types as python_types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .intrinsics import Intrinsic, converted, helper
from .later import ir
from .types import Pointer, Type, boolean, complex128, flat, float32, float64, int64, like


class NotCompiled(Exception):
    """A text has something that the compiler does not know."""


class Value(NamedTuple):
    """A value in a function: of which type, and in LLVM's words."""

    kind: Type
    ir: Any


class Known:
    """What a variable stands for that is no value: a function that another one is given."""

    def __init__(self, known: Any):
        self.object = known

    def __repr__(self) -> str:
        return f"known({id(self.object)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
#: Those that are computed at once of constants, as exponents are.
_OF_CONSTANTS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
_INTEGERS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
_TRUTHS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARISONS = dict(
    zip(
        (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
        "< <= > >= == !=".split(),
        strict=True,
    )
)
_HOLDS: dict[str, Callable] = dict(
    zip(
        _COMPARISONS.values(),
        (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
        strict=True,
    )
)
_BUILTINS: dict[str, Any] = {
    one.__name__: one for one in (min, max, abs, int, float, bool, complex, len, ord)
}


def values_in(given: Any) -> Iterator[Value]:
    """The values in a value, of which a tuple has several."""
    if isinstance(given, Value):
        yield given
    elif not isinstance(given, Known):
        for one in given:
            yield from values_in(one)


def kind_of(given: Any) -> Any:
    """The type of a value; of a tuple that of each."""
    if isinstance(given, Known):
        return given
    return given.kind if isinstance(given, Value) else like(given, map(kind_of, given))


def value_of(kind: Any, words: Iterator) -> Any:
    """The value of a type that consecutive words make up."""
    if isinstance(kind, Known):
        return kind
    if isinstance(kind, tuple):
        return like(kind, [value_of(one, words) for one in kind])
    return Value(kind, next(words))


class Expressions:
    """Makes instructions, for functions of one module.

    `names` are local variables, `globals_` those of the text; `called` makes the call of a function
    of the text, or of a helper. Numbers in the text are of type `number`.
    """

    def __init__(
        self, builder: Any, globals_: dict[str, Any], called: Callable, number: Type = float64
    ):
        self.builder, self.globals, self.called = builder, globals_, called
        self.literals = {bool: boolean, int: int64, float: number, complex: complex128}
        self.names: dict[str, Any] = {}

    def of(self, node: ast.expr) -> Any:
        """The value of an expression; of a tuple a tuple."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotCompiled(ast.unparse(node))
        return method(node)

    def number(self, node: ast.expr) -> Value:
        """The value of an expression that is no tuple."""
        value = self.of(node)
        if not isinstance(value, Value):
            raise NotCompiled(ast.unparse(node))
        return value

    def truth(self, node: ast.expr) -> Any:
        """A condition, in LLVM's words."""
        return self._truth_of(self.number(node))

    def _truth_of(self, value: Value) -> Any:
        if value.kind is boolean:
            return value.ir
        if value.kind.is_float:
            return self.builder.fcmp_unordered("!=", value.ir, value.ir.type(0.0))
        return self.converted(value, boolean).ir

    def converted(self, value: Value, kind: Type) -> Value:
        """A number as one of another type."""
        if value.kind is kind:
            return value
        if kind is complex128:
            return self._complex(self._float(value), Value(float64, ir.Constant(float64.llvm, 0.0)))
        try:
            return Value(kind, converted(self.builder, value.ir, value.kind, kind))
        except TypeError as error:
            raise NotCompiled(str(error)) from error

    def words(self, given: Any, kinds: Any) -> list:
        """The words of values, as values of some types."""
        pairs = zip(values_in(given), flat(kinds), strict=True)
        return [self.converted(value, kind).ir for value, kind in pairs]

    def object(self, node: ast.expr) -> Any:
        """What a name stands for that is no value."""
        if isinstance(node, ast.Name) and isinstance(self.names.get(node.id), Known):
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
        return self.literal(node.value)

    def literal(self, value: Any) -> Any:
        """A number of Python's, or a tuple of such."""
        if isinstance(value, tuple):
            return like(value, map(self.literal, value))
        if isinstance(value, (Intrinsic, helper, ast.FunctionDef)):
            return Known(value)
        kind = self.literals.get(type(value))
        if kind is None:
            raise NotCompiled(repr(value))
        if kind is complex128:
            return Value(kind, ir.Constant(kind.llvm, [value.real, value.imag]))
        with np.errstate(over="ignore"):
            given = float(np.float32(value)) if kind is float32 else value
        return Value(kind, ir.Constant(kind.llvm, given))

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.globals:
            return self.literal(self.globals[node.id])
        raise NotCompiled(f"{node.id}, which is not set on each way here")

    def _attribute(self, node: ast.Attribute) -> Any:
        if self.object(node.value) is not None:
            return self.literal(self.object(node))
        owner = self.of(node.value)
        if isinstance(owner, Value) and owner.kind is complex128:
            return self._part(owner, ("real", "imag").index(node.attr))
        return getattr(owner, node.attr)

    def _tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.of(one) for one in node.elts)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(boolean, self.builder.not_(self.truth(node.operand)))
        value = self.number(node.operand)
        kind, word = value
        if isinstance(node.op, ast.USub) and isinstance(word, ir.Constant) and kind is not boolean:
            if kind is not complex128:
                return Value(kind, ir.Constant(word.type, -word.constant))
        if isinstance(node.op, ast.USub) and kind.is_float:
            return Value(kind, self.builder.fneg(word))
        if isinstance(node.op, ast.USub) and kind is int64:
            return Value(kind, self.builder.sub(word.type(0), word))
        if isinstance(node.op, ast.USub) and kind is complex128:
            parts = [Value(float64, self.builder.fneg(self._part(value, k).ir)) for k in (0, 1)]
            return self._complex(*parts)
        if isinstance(node.op, ast.Invert) and kind in (int64, boolean):
            return Value(kind, self.builder.not_(word))
        raise NotCompiled(ast.unparse(node))

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(type(node.op), self.number(node.left), self.number(node.right))

    def binary(self, op: type, x: Value, y: Value) -> Value:
        """The result of an operator."""
        build = self.builder
        if x.kind is y.kind is boolean and op in _TRUTHS:
            return Value(boolean, getattr(build, _TRUTHS[op])(x.ir, y.ir))
        if complex128 in (x.kind, y.kind):
            return self._of_complex(op, *[self.converted(one, complex128) for one in (x, y)])
        constant = isinstance(x.ir, ir.Constant) and isinstance(y.ir, ir.Constant)
        if op in _FLOATS and (op is ast.Div or x.kind.is_float or y.kind.is_float):
            kind = self.common(x, y)
            if constant and op in _OF_CONSTANTS:
                return Value(kind, ir.Constant(kind.llvm, _folded(op, kind, x, y)))
            words = [self._float(one, kind).ir for one in (x, y)]
            return Value(kind, getattr(build, _FLOATS[op])(*words))
        if op is ast.Pow and constant and x.kind is float64:
            return Value(float64, ir.Constant(float64.llvm, _folded(op, float64, x, y)))
        x, y = self._whole(x), self._whole(y)
        if x.kind is y.kind is int64 and op in _INTEGERS:
            return Value(int64, getattr(build, _INTEGERS[op])(x.ir, y.ir))
        if x.kind is y.kind is int64 and op in (ast.FloorDiv, ast.Mod):
            return Value(int64, self._divided(x.ir, y.ir, op is ast.Mod))
        raise NotCompiled(f"{op.__name__} of {x.kind} and {y.kind}")

    def common(self, x: Value, y: Value) -> Type:
        """The float type in which two numbers meet; whole numbers in the text ask for none."""
        if float64 in (x.kind, y.kind) or float32 not in (x.kind, y.kind):
            return float64
        both = x.kind is y.kind
        return float32 if both or self.literals[float] is float32 else float64

    def _float(self, value: Value, kind: Type = float64) -> Value:
        if not (value.kind.is_float or value.kind in (int64, boolean)):
            raise NotCompiled(f"{value.kind} as a float")
        return self.converted(value, kind)

    def _whole(self, value: Value) -> Value:
        return self.converted(value, int64) if value.kind is boolean else value

    def _divided(self, x: Any, y: Any, rest: bool) -> Any:
        """The quotient rounded down, or what it leaves, as Python has them; 0 by 0."""
        build, zero = self.builder, x.type(0)
        if isinstance(y, ir.Constant) and y.constant != 0:
            by = y
        else:
            by = build.select(build.icmp_signed("==", y, zero), y.type(1), y)
        left = build.srem(x, by)
        off = build.icmp_signed("<", build.xor(left, by), zero)
        off = build.and_(off, build.icmp_signed("!=", left, zero))
        if rest:
            found = build.select(off, build.add(left, by), left)
        else:
            found = build.sub(build.sdiv(x, by), build.zext(off, x.type))
        if by is y:
            return found
        return build.select(build.icmp_signed("==", y, zero), zero, found)

    def _compare(self, node: ast.Compare) -> Value:
        operands = [self.number(one) for one in (node.left, *node.comparators)]
        found = None
        for op, x, y in zip(node.ops, operands, operands[1:], strict=False):
            if type(op) not in _COMPARISONS:
                raise NotCompiled(ast.unparse(node))
            holds = self._compared(_COMPARISONS[type(op)], x, y)
            found = holds if found is None else self.builder.and_(found, holds)
        return Value(boolean, found)

    def _compared(self, sign: str, x: Value, y: Value) -> Any:
        build = self.builder
        if complex128 in (x.kind, y.kind):
            return self._compared_complex(sign, x, y)
        if not (x.kind.is_float or y.kind.is_float):
            x, y = self._whole(x), self._whole(y)
            if not x.kind is y.kind is int64:
                raise NotCompiled(f"{x.kind} {sign} {y.kind}")
            if isinstance(x.ir, ir.Constant) and isinstance(y.ir, ir.Constant):
                return boolean.llvm(_HOLDS[sign](x.ir.constant, y.ir.constant))
            return build.icmp_signed(sign, x.ir, y.ir)
        make = build.fcmp_unordered if sign == "!=" else build.fcmp_ordered
        kind = self.common(x, y)
        return make(sign, self._float(x, kind).ir, self._float(y, kind).ir)

    def _boolop(self, node: ast.BoolOp) -> Value:
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
        return Value(boolean, found)

    def _ifexp(self, node: ast.IfExp) -> Any:
        condition = self.truth(node.test)
        if _is_free(node.body) and _is_free(node.orelse):
            x, y = self._alike(self.of(node.body), self.of(node.orelse))
            pairs = zip(values_in(x), values_in(y), strict=True)
            return value_of(
                kind_of(x), iter([self.builder.select(condition, a.ir, b.ir) for a, b in pairs])
            )
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
        return self.joined(list(zip(ends, found, strict=True)), blocks[2])

    def joined(self, ways: list[tuple[Any, Any]], after: Any) -> Any:
        """The value in block `after`, to which open blocks go on with a value each."""
        kind = common_kind([kind_of(value) for _, value in ways], self)
        incoming = []
        for block, value in ways:
            self.builder.position_at_end(block)
            incoming.append((self.words(value, flat((kind,))), block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        phis = []
        for words in zip(*[words for words, _ in incoming], strict=True):
            phis.append(self.builder.phi(words[0].type))
            for word, (_, block) in zip(words, incoming, strict=True):
                phis[-1].add_incoming(word, block)
        return value_of(kind, iter(phis))

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

    def _alike(self, x: Any, y: Any) -> list:
        kind = common_kind([kind_of(x), kind_of(y)], self)
        return [value_of(kind, iter(self.words(one, flat((kind,))))) for one in (x, y)]

    def _subscript(self, node: ast.Subscript) -> Any:
        whole = self.of(node.value)
        if isinstance(whole, tuple) and not isinstance(whole, Value):
            index = self.number(node.slice)
            if isinstance(index.ir, ir.Constant):
                return whole[index.ir.constant]
            return self._entry(node, whole, index)
        kind, place = self.place(node, whole)
        found = Value(kind, self.builder.load(place))
        return self.converted(found, int64) if kind.is_integer else found

    def _entry(self, node: ast.expr, table: tuple, index: Value) -> Value:
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
        return Value(kind, self.builder.load(self.builder.gep(made, [zero, index.ir])))

    def place(self, node: ast.Subscript, pointer: Any = None) -> tuple[Type, Any]:
        """The type of an element of memory, and where it is."""
        pointer = self.of(node.value) if pointer is None else pointer
        index = self._whole(self.number(node.slice))
        if not isinstance(pointer, Value) or not isinstance(pointer.kind, Pointer):
            raise NotCompiled(ast.unparse(node))
        if index.kind is not int64:
            raise NotCompiled(ast.unparse(node))
        return pointer.kind.dtype, self.builder.gep(pointer.ir, [index.ir])

    # --- complex numbers ----------------------------------------------------------------------

    def _part(self, value: Value, k: int) -> Value:
        return Value(float64, self.builder.extract_value(value.ir, k))

    def _complex(self, real: Value, imag: Value) -> Value:
        whole = ir.Constant(complex128.llvm, ir.Undefined)
        for k, part in enumerate((real, imag)):
            whole = self.builder.insert_value(whole, self.converted(part, float64).ir, k)
        return Value(complex128, whole)

    def _of_complex(self, op: type, x: Value, y: Value) -> Value:
        a, b, c, d = [self._part(one, k) for one in (x, y) for k in (0, 1)]
        if op in (ast.Add, ast.Sub):
            return self._complex(self.binary(op, a, c), self.binary(op, b, d))
        if op is ast.Mult:
            pairs = ((a, c), (b, d), (a, d), (b, c))
            ac, bd, ad, bc = [self.binary(op, *pair) for pair in pairs]
            return self._complex(self.binary(ast.Sub, ac, bd), self.binary(ast.Add, ad, bc))
        raise NotCompiled(f"{op.__name__} of complex numbers")

    def _compared_complex(self, sign: str, x: Value, y: Value) -> Any:
        if sign not in ("==", "!="):
            raise NotCompiled(f"{sign} of complex numbers")
        x, y = self.converted(x, complex128), self.converted(y, complex128)
        holds = [self._compared(sign, self._part(x, k), self._part(y, k)) for k in (0, 1)]
        return (self.builder.and_ if sign == "==" else self.builder.or_)(*holds)

    # --- calls --------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Any:
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise NotCompiled(ast.unparse(node))
        function = self.object(node.func)
        if function in (ord, float) and isinstance(node.args[0], ast.Constant):
            return self.literal(function(node.args[0].value))
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
        made = function.make(self.builder, *self.words(given, signature.args))
        found = Value(signature.return_type, made)
        return self.converted(found, int64) if found.kind.is_integer else found

    def _builtin_len(self, given: tuple) -> Value:
        return self.literal(len(given))

    def _builtin_bool(self, given: Value) -> Value:
        return Value(boolean, self._truth_of(given))

    def _builtin_int(self, given: Value) -> Value:
        if given.kind.is_float:
            return Value(int64, self.builder.fptosi(given.ir, int64.llvm))
        return self.converted(given, int64)

    def _builtin_float(self, given: Value) -> Value:
        return self._float(given)

    def _builtin_complex(self, real: Value, imag: Value) -> Value:
        return self._complex(self._float(real), self._float(imag))

    def _builtin_abs(self, given: Value) -> Value:
        kind, x = given
        if kind.is_float:
            made = self.builder.module.declare_intrinsic("llvm.fabs", [x.type])
            return Value(kind, self.builder.call(made, [x]))
        if kind is not int64:
            raise NotCompiled(f"abs of {kind}")
        is_negative = self.builder.icmp_signed("<", x, x.type(0))
        return Value(kind, self.builder.select(is_negative, self.builder.sub(x.type(0), x), x))

    def _builtin_min(self, *given: Value) -> Value:
        return self._extreme("<", given)

    def _builtin_max(self, *given: Value) -> Value:
        return self._extreme(">", given)

    def _extreme(self, sign: str, given: tuple[Value, ...]) -> Value:
        """The first of the smallest or largest, as Python's `min` and `max` choose it."""
        found, *others = given
        for one in others:
            one, found = self._alike(one, found)
            takes = self._compared(sign, one, found)
            found = Value(found.kind, self.builder.select(takes, one.ir, found.ir))
        return found


def common_kind(kinds: list, values: Expressions) -> Any:
    """The type that values of some types can have; of tuples that of each of their parts."""
    first = kinds[0]
    if all(one is first for one in kinds) or kinds == [first] * len(kinds):
        return first
    if isinstance(first, tuple):
        if not all(isinstance(one, tuple) and len(one) == len(first) for one in kinds):
            raise NotCompiled("tuples of several lengths in one variable")
        return like(first, [common_kind([*parts], values) for parts in zip(*kinds, strict=True)])
    if any(isinstance(one, (tuple, Pointer, Known)) for one in kinds):
        raise NotCompiled(f"one variable of the types {kinds}")
    if complex128 in kinds:
        return complex128
    if not any(one.is_float for one in kinds):
        return int64
    return float32 if {*kinds} == {float32} else float64


def _folded(op: type, kind: Type, *given: Value) -> float:
    """The result of an operator of constants."""
    number = np.float32 if kind is float32 else np.float64
    with np.errstate(all="ignore"):
        return float(_OF_CONSTANTS[op](*[number(one.ir.constant) for one in given]))


def _is_free(node: ast.expr) -> bool:
    """Whether an expression may be computed whether it is asked for or not."""
    return not any(isinstance(one, (ast.Call, ast.Subscript)) for one in ast.walk(node))

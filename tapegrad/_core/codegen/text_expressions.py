"""Expressions of generated text as instructions of LLVM: values, operators, calls."""

from __future__ import annotations

import ast
import operator
import types as python_types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import intrinsics
from .intrinsics import Intrinsic, helper
from .machine_types import Pointer, Type, boolean, complex128, flat, float32, float64, int64, like
from .process import ir

# --- Values in generated text: of which type they are, and in LLVM's words ------------------------
# A tuple has a value for each of its parts, and their types as its type.


class NotCompiled(Exception):
    """A text has something that the compiler does not know."""


class TextValue(NamedTuple):
    """A value in a function: of which type, and in LLVM's words."""

    kind: Type
    ir: Any


class Handed:
    """What a variable stands for that is no value: a function that another one is given."""

    def __init__(self, known: Any):
        self.object = known

    def __repr__(self) -> str:
        return f"known({id(self.object)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handed) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


def values_in(given: Any) -> Iterator[TextValue]:
    """The values in a value, of which a tuple has several."""
    if isinstance(given, TextValue):
        yield given
    elif not isinstance(given, Handed):
        for one in given:
            yield from values_in(one)


def kind_of(given: Any) -> Any:
    """The type of a value; of a tuple that of each."""
    if isinstance(given, Handed):
        return given
    return given.kind if isinstance(given, TextValue) else like(given, map(kind_of, given))


def value_of(kind: Any, words: Iterator) -> Any:
    """The value of a type that consecutive words make up."""
    if isinstance(kind, Handed):
        return kind
    if isinstance(kind, tuple):
        return like(kind, [value_of(one, words) for one in kind])
    return TextValue(kind, next(words))


def common_kind(kinds: list) -> Any:
    """The type that values of some types can have; of tuples that of each of their parts."""
    first = kinds[0]
    if all(one is first for one in kinds) or kinds == [first] * len(kinds):
        return first
    if isinstance(first, tuple):
        if not all(isinstance(one, tuple) and len(one) == len(first) for one in kinds):
            raise NotCompiled("tuples of several lengths in one variable")
        return like(first, [common_kind([*parts]) for parts in zip(*kinds, strict=True)])
    if any(isinstance(one, (tuple, Pointer, Handed)) for one in kinds):
        raise NotCompiled(f"one variable of the types {kinds}")
    if complex128 in kinds:
        return complex128
    if not any(one.is_float for one in kinds):
        return int64
    return float32 if {*kinds} == {float32} else float64


# --- Operators of generated text as instructions of LLVM: arithmetic, comparisons, conversions ----
# Whole numbers have 64 bits, and become floats where they meet one, as they would in C.


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
COMPARISONS = dict(
    zip(
        (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
        "< <= > >= == !=".split(),
        strict=True,
    )
)
_HOLDS: dict[str, Callable] = dict(
    zip(
        COMPARISONS.values(),
        (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
        strict=True,
    )
)


class Operators:
    """Makes instructions of operators. Numbers in the text are of type `number`."""

    def __init__(self, builder: Any, number: Type = float64):
        self.builder = builder
        self.literals = {bool: boolean, int: int64, float: number, complex: complex128}

    def literal(self, value: Any) -> Any:
        """A number of Python's, or a tuple of such."""
        if isinstance(value, tuple):
            return like(value, map(self.literal, value))
        if isinstance(value, (intrinsics.Intrinsic, intrinsics.helper, ast.FunctionDef)):
            return Handed(value)
        kind = self.literals.get(type(value))
        if kind is None:
            raise NotCompiled(repr(value))
        if kind is complex128:
            return TextValue(kind, ir.Constant(kind.llvm, [value.real, value.imag]))
        with np.errstate(over="ignore"):
            given = float(np.float32(value)) if kind is float32 else value
        return TextValue(kind, ir.Constant(kind.llvm, given))

    def converted(self, value: TextValue, kind: Type) -> TextValue:
        """A number as one of another type."""
        if value.kind is kind:
            return value
        if kind is complex128:
            return self.complex(
                self.float(value), TextValue(float64, ir.Constant(float64.llvm, 0.0))
            )
        try:
            return TextValue(kind, intrinsics.converted(self.builder, value.ir, value.kind, kind))
        except TypeError as error:
            raise NotCompiled(str(error)) from error

    def words(self, given: Any, kinds: Any) -> list:
        """The words of values, as values of some types."""
        pairs = zip(values_in(given), flat(kinds), strict=True)
        return [self.converted(value, kind).ir for value, kind in pairs]

    def alike(self, x: Any, y: Any) -> list:
        """Two values, of the type that both can have."""
        kind = common_kind([kind_of(x), kind_of(y)])
        return [value_of(kind, iter(self.words(one, flat((kind,))))) for one in (x, y)]

    def joined(self, ways: list[tuple[Any, Any]], after: Any) -> Any:
        """The value in block `after`, to which open blocks go on with a value each."""
        kind = common_kind([kind_of(value) for _, value in ways])
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

    def truth_of(self, value: TextValue) -> Any:
        """Whether a value is not 0, in LLVM's words."""
        if value.kind is boolean:
            return value.ir
        if value.kind.is_float:
            return self.builder.fcmp_unordered("!=", value.ir, value.ir.type(0.0))
        return self.converted(value, boolean).ir

    def selected(self, condition: Any, x: Any, y: Any) -> Any:
        """One of two values, both of which are computed."""
        x, y = self.alike(x, y)
        pairs = zip(values_in(x), values_in(y), strict=True)
        chosen = [self.builder.select(condition, a.ir, b.ir) for a, b in pairs]
        return value_of(kind_of(x), iter(chosen))

    def unary(self, op: type, value: TextValue) -> TextValue:
        """The result of `-` or `~`."""
        kind, word = value
        if op is ast.Invert and kind in (int64, boolean):
            return TextValue(kind, self.builder.not_(word))
        if op is ast.USub and kind is complex128:
            parts = [self.unary(op, self.part(value, k)) for k in (0, 1)]
            return self.complex(*parts)
        if op is ast.USub and kind is not boolean and isinstance(word, ir.Constant):
            return TextValue(kind, ir.Constant(word.type, -word.constant))
        if op is ast.USub and kind.is_float:
            return TextValue(kind, self.builder.fneg(word))
        if op is ast.USub and kind is int64:
            return TextValue(kind, self.builder.sub(word.type(0), word))
        raise NotCompiled(f"{op.__name__} of {kind}")

    def binary(self, op: type, x: TextValue, y: TextValue) -> TextValue:
        """The result of an operator."""
        build = self.builder
        if x.kind is y.kind is boolean and op in _TRUTHS:
            return TextValue(boolean, getattr(build, _TRUTHS[op])(x.ir, y.ir))
        if complex128 in (x.kind, y.kind):
            return self._of_complex(op, *[self.converted(one, complex128) for one in (x, y)])
        constant = isinstance(x.ir, ir.Constant) and isinstance(y.ir, ir.Constant)
        if op in _FLOATS and (op is ast.Div or x.kind.is_float or y.kind.is_float):
            kind = self.common(x, y)
            if constant and op in _OF_CONSTANTS:
                return TextValue(kind, ir.Constant(kind.llvm, _folded(op, kind, x, y)))
            words = [self.float(one, kind).ir for one in (x, y)]
            return TextValue(kind, getattr(build, _FLOATS[op])(*words))
        if op is ast.Pow and constant and x.kind is float64:
            return TextValue(float64, ir.Constant(float64.llvm, _folded(op, float64, x, y)))
        x, y = self.whole(x), self.whole(y)
        if x.kind is y.kind is int64 and op in _INTEGERS:
            return TextValue(int64, getattr(build, _INTEGERS[op])(x.ir, y.ir))
        if x.kind is y.kind is int64 and op in (ast.FloorDiv, ast.Mod):
            return TextValue(int64, self._divided(x.ir, y.ir, op is ast.Mod))
        raise NotCompiled(f"{op.__name__} of {x.kind} and {y.kind}")

    def common(self, x: TextValue, y: TextValue) -> Type:
        """The float type in which two numbers meet; whole numbers in the text ask for none."""
        if float64 in (x.kind, y.kind) or float32 not in (x.kind, y.kind):
            return float64
        both = x.kind is y.kind
        return float32 if both or self.literals[float] is float32 else float64

    def float(self, value: TextValue, kind: Type = float64) -> TextValue:
        """A number as a float."""
        if not (value.kind.is_float or value.kind in (int64, boolean)):
            raise NotCompiled(f"{value.kind} as a float")
        return self.converted(value, kind)

    def whole(self, value: TextValue) -> TextValue:
        """A truth as a whole number."""
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

    def compared(self, sign: str, x: TextValue, y: TextValue) -> Any:
        """Whether a comparison holds, in LLVM's words."""
        build = self.builder
        if complex128 in (x.kind, y.kind):
            return self._compared_complex(sign, x, y)
        if not (x.kind.is_float or y.kind.is_float):
            x, y = self.whole(x), self.whole(y)
            if not x.kind is y.kind is int64:
                raise NotCompiled(f"{x.kind} {sign} {y.kind}")
            if isinstance(x.ir, ir.Constant) and isinstance(y.ir, ir.Constant):
                return boolean.llvm(_HOLDS[sign](x.ir.constant, y.ir.constant))
            return build.icmp_signed(sign, x.ir, y.ir)
        make = build.fcmp_unordered if sign == "!=" else build.fcmp_ordered
        kind = self.common(x, y)
        return make(sign, self.float(x, kind).ir, self.float(y, kind).ir)

    def extreme(self, sign: str, given: tuple[TextValue, ...]) -> TextValue:
        """The first of the smallest or largest, as Python's `min` and `max` choose it."""
        found, *others = given
        for one in others:
            one, found = self.alike(one, found)
            takes = self.compared(sign, one, found)
            found = TextValue(found.kind, self.builder.select(takes, one.ir, found.ir))
        return found

    def absolute(self, given: TextValue) -> TextValue:
        """The size of a real number."""
        kind, x = given
        if kind.is_float:
            made = self.builder.module.declare_intrinsic("llvm.fabs", [x.type])
            return TextValue(kind, self.builder.call(made, [x]))
        if kind is not int64:
            raise NotCompiled(f"abs of {kind}")
        is_negative = self.builder.icmp_signed("<", x, x.type(0))
        return TextValue(kind, self.builder.select(is_negative, self.builder.sub(x.type(0), x), x))

    def part(self, value: TextValue, k: int) -> TextValue:
        """The real part of a complex number, 0, or the imaginary one, 1."""
        return TextValue(float64, self.builder.extract_value(value.ir, k))

    def complex(self, real: TextValue, imag: TextValue) -> TextValue:
        """A complex number of two parts."""
        whole = ir.Constant(complex128.llvm, ir.Undefined)
        for k, part in enumerate((real, imag)):
            whole = self.builder.insert_value(whole, self.converted(part, float64).ir, k)
        return TextValue(complex128, whole)

    def _of_complex(self, op: type, x: TextValue, y: TextValue) -> TextValue:
        a, b, c, d = [self.part(one, k) for one in (x, y) for k in (0, 1)]
        if op in (ast.Add, ast.Sub):
            return self.complex(self.binary(op, a, c), self.binary(op, b, d))
        if op is ast.Mult:
            pairs = ((a, c), (b, d), (a, d), (b, c))
            ac, bd, ad, bc = [self.binary(op, *pair) for pair in pairs]
            return self.complex(self.binary(ast.Sub, ac, bd), self.binary(ast.Add, ad, bc))
        raise NotCompiled(f"{op.__name__} of complex numbers")

    def _compared_complex(self, sign: str, x: TextValue, y: TextValue) -> Any:
        if sign not in ("==", "!="):
            raise NotCompiled(f"{sign} of complex numbers")
        x, y = self.converted(x, complex128), self.converted(y, complex128)
        holds = [self.compared(sign, self.part(x, k), self.part(y, k)) for k in (0, 1)]
        return (self.builder.and_ if sign == "==" else self.builder.or_)(*holds)


def _folded(op: type, kind: Type, *given: TextValue) -> float:
    """The result of an operator of constants."""
    number = np.float32 if kind is float32 else np.float64
    with np.errstate(all="ignore"):
        return float(_OF_CONSTANTS[op](*[number(one.ir.constant) for one in given]))


# --------------------------------------------------------------------------------------------------
# Expressions of generated text as instructions of LLVM: numbers, truths, pointers, tuples, calls.
# Types follow from those of the operands, as they would in C: whole numbers have 64 bits, and
# become floats where they meet one. What is not known here raises `NotCompiled`: nothing is
# guessed.


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

"""Operators of generated text as instructions of LLVM: arithmetic, comparisons, conversions.

Whole numbers have 64 bits, and become floats where they meet one, as they would in C.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import intrinsics
from .late_imports import ir
from .machine_types import Type, boolean, complex128, flat, float32, float64, int64, like
from .text_values import Handed, NotCompiled, TextValue, common_kind, kind_of, value_of, values_in

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

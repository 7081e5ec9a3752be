"""The text of one function for LLVM: instructions, labels, the operations of graphs.

Names are those of LLVM: a local name, or a constant in its notation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..._core.codegen.vector_math import c_name
from ..._core.ops.table import find
from ..ir.expressions import is_elementary, value
from ..ir.flow_graph import BOOL, FLOAT, INT, Place, Step
from ..ir.frame import ARITHMETIC

TYPES = {FLOAT: "double", INT: "i64", BOOL: "i1"}

_PLAIN = {
    **{"add": "fadd double", "subtract": "fsub double", "multiply": "fmul double"},
    **{"divide": "fdiv double", "negative": "fneg double"},
    **{"int_and": "and i64", "int_or": "or i64", "int_xor": "xor i64"},
    **{"int_equal": "icmp eq i64", "int_less": "icmp slt i64", "int_less_equal": "icmp sle i64"},
    **{"float_equal": "fcmp oeq double", "float_less": "fcmp olt double"},
    **{"float_less_equal": "fcmp ole double"},
    **{"bool_and": "and i1", "bool_or": "or i1", "bool_xor": "xor i1"},
}
_CONVERSIONS = {"int_to_float": "sitofp i64 {} to double", "bool_to_int": "zext i1 {} to i64"}
_SELECTS = {"float_select": "double", "int_select": "i64", "bool_select": "i1"}
_CHECKED = {"int_add": "add", "int_subtract": "sub", "int_multiply": "mul"}
#: Operations that are instructions of LLVM.
_INTRINSICS = {
    **{"sqrt": "sqrt", "absolute": "fabs", "floor": "floor", "ceil": "ceil", "rint": "rint"},
    **{"trunc": "trunc", "copysign": "copysign"},
}
#: Which operand has to be less for the first to be taken, and which one is NaN then, as NumPy has
#: it: of two equal numbers the second is taken.
_CHOICES = {"maximum": (1, 0), "minimum": (0, 0), "fmax": (1, 1), "fmin": (0, 1)}


def float_text(number: float) -> str:
    """A double in LLVM's notation, exactly."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def constant_text(step: Step) -> str:
    """The constant of a step."""
    if step.op == "float_const":
        return float_text(step.payload)  # type: ignore[arg-type]
    return str(step.payload).lower()


class Module:
    """Declarations shared by the functions of a text: calls, and which memory overlaps."""

    def __init__(self, places: set[Place]):
        self.declared: dict[str, str] = {}
        self.helpers: set[str] = set()
        self.scopes = {place: k for k, place in enumerate(sorted(places, key=str))}

    def call(self, name: str, arity: int) -> str:
        """A function of doubles without effects, to be called."""
        arguments = ", ".join(["double"] * arity)
        self.declared[name] = (
            f"declare double @{name}({arguments}) nounwind willreturn memory(none)"
        )
        return f"call double @{name}"

    def alias(self, place: Place) -> str:
        """Metadata: memory reached through a place is reached through no other."""
        k, count = self.scopes[place], len(self.scopes)
        return f", !alias.scope !{10 + k}, !noalias !{10 + count + k}"

    def metadata(self) -> list[str]:
        count = len(self.scopes)
        lines = ["!0 = distinct !{!0}", '!1 = !{!"branch_weights", i32 1, i32 100000}']
        first = 10 + 2 * count
        for k in range(count):
            others = ", ".join(f"!{first + j}" for j in range(count) if j != k)
            lines.append(f"!{10 + k} = !{{!{first + k}}}")
            lines.append(f"!{10 + count + k} = !{{{others}}}")
            lines.append(f"!{first + k} = distinct !{{!{first + k}, !0}}")
        return lines


class Assembly:
    """The text of a function; `leave` is called with a condition and a reason, None if unchecked.

    It makes expressions: `step` and `constant` are those of `expressions.Maker`.
    """

    def __init__(self, module: Module, leave: Callable[[str, int], None] | None):
        self.module, self.leave = module, leave
        self.lines: list[str] = []
        self.names = 0
        self.here = ""

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def let(self, text: str) -> str:
        """The result of an instruction."""
        self.names += 1
        self.put(f"%t{self.names} = {text}")
        return f"%t{self.names}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.here = name

    def fork(self, condition: str, rare: str) -> None:
        """Jump to a label if a condition holds, which is rare."""
        self.names += 1
        after = f"g{self.names}"
        self.put(f"br i1 {condition}, label %{rare}, label %{after}, !prof !1")
        self.label(after)

    def word(self, base: str, index: int | str) -> str:
        """The pointer to a word."""
        return self.let(f"getelementptr inbounds i64, ptr {base}, i64 {index}")

    def read(self, base: str, index: int | str, kind: str = "i64", alias: str = "") -> str:
        return self.let(f"load {kind}, ptr {self.word(base, index)}, align 8{alias}")

    def write(self, base: str, index: int | str, value: str, kind="i64", alias: str = "") -> None:
        self.put(f"store {kind} {value}, ptr {self.word(base, index)}, align 8{alias}")

    # --- operations ---------------------------------------------------------------------------

    def constant(self, number: float) -> str:
        return float_text(number)

    def step(self, op: str, *x: Any) -> str:
        """The result of an operation without memory."""
        if op in _PLAIN:
            return self.let(f"{_PLAIN[op]} {', '.join(x)}")
        if op in _CONVERSIONS:
            return self.let(_CONVERSIONS[op].format(*x))
        if op in _SELECTS:
            kind = _SELECTS[op]
            return self.let(f"select i1 {x[0]}, {kind} {x[1]}, {kind} {x[2]}")
        if op in _CHECKED:
            return self._checked(_CHECKED[op], *x)
        if op in _COMPOSED:
            return _COMPOSED[op](self, *x)
        return self._element_wise(op, x)

    def _element_wise(self, op: str, x: tuple[str, ...]) -> str:
        given = ", ".join(f"double {one}" for one in x)
        if op in _INTRINSICS:
            return self.let(f"{self.module.call(f'llvm.{_INTRINSICS[op]}.f64', len(x))}({given})")
        if op in _CHOICES:
            less, missing = _CHOICES[op]
            wins = self.let(f"fcmp olt double {x[less]}, {x[1 - less]}")
            isnan = self.let(f"fcmp uno double {x[missing]}, {x[missing]}")
            either = self.let(f"or i1 {wins}, {isnan}")
            return self.let(f"select i1 {either}, double {x[0]}, double {x[1]}")
        if not is_elementary(find(op)):
            return value(find(op), x, self)
        name = c_name(op)
        if name is None:
            self.module.helpers.add(op)
            name = f"tapegrad_value_of_{op}"
        return self.let(f"{self.module.call(name, len(x))}({given})")

    def _checked(self, name: str, x: str, y: str) -> str:
        if self.leave is None:
            return self.let(f"{name} nsw i64 {x}, {y}")
        full = f"llvm.s{name}.with.overflow.i64"
        self.module.declared[full] = f"declare {{i64, i1}} @{full}(i64, i64)"
        both = self.let(f"call {{i64, i1}} @{full}(i64 {x}, i64 {y})")
        result = self.let(f"extractvalue {{i64, i1}} {both}, 0")
        self.leave(self.let(f"extractvalue {{i64, i1}} {both}, 1"), ARITHMETIC)
        return result

    def check(self, condition: str, reason: int) -> None:
        """Leave if a condition holds, unless it has been tested before."""
        if self.leave is not None:
            self.leave(condition, reason)


_SMALLEST = str(-(2**63))


def _negative(code: Assembly, x: str) -> str:
    return code._checked("sub", "0", x)


def _absolute(code: Assembly, x: str) -> str:
    less = code.let(f"icmp slt i64 {x}, 0")
    return code.let(f"select i1 {less}, i64 {_negative(code, x)}, i64 {x}")


def _extreme(comparison: str):
    def emit(code: Assembly, x: str, y: str) -> str:
        takes = code.let(f"icmp {comparison} i64 {x}, {y}")
        return code.let(f"select i1 {takes}, i64 {x}, i64 {y}")

    return emit


def _divided(code: Assembly, op: str, x: str, y: str) -> tuple[str, str]:
    """Quotient or remainder rounded towards 0, and whether Python rounds to one less."""
    result = code.let(f"s{op} i64 {x}, {y}")
    rest = result if op == "rem" else code.let(f"srem i64 {x}, {y}")
    other_sign = code.let(f"icmp slt i64 {code.let(f'xor i64 {rest}, {y}')}, 0")
    inexact = code.let(f"icmp ne i64 {rest}, 0")
    return result, code.let(f"and i1 {other_sign}, {inexact}")


def _floor_divide(code: Assembly, x: str, y: str) -> str:
    code.check(code.let(f"icmp eq i64 {y}, 0"), ARITHMETIC)
    smallest, minus = code.let(f"icmp eq i64 {x}, {_SMALLEST}"), code.let(f"icmp eq i64 {y}, -1")
    code.check(code.let(f"and i1 {smallest}, {minus}"), ARITHMETIC)
    quotient, less = _divided(code, "div", x, y)
    return code.let(f"sub i64 {quotient}, {code.let(f'zext i1 {less} to i64')}")


def _remainder(code: Assembly, x: str, y: str) -> str:
    """The processor cannot divide the smallest integer by −1: over 1 the remainder is 0, too."""
    code.check(code.let(f"icmp eq i64 {y}, 0"), ARITHMETIC)
    y = code.let(f"select i1 {code.let(f'icmp eq i64 {y}, -1')}, i64 1, i64 {y}")
    rest, less = _divided(code, "rem", x, y)
    return code.let(f"add i64 {rest}, {code.let(f'select i1 {less}, i64 {y}, i64 0')}")


def _is_finite(code: Assembly, x: str) -> str:
    return code.let(f"fcmp olt double {code.step('absolute', x)}, {float_text(float('inf'))}")


def _to_int(code: Assembly, x: str) -> str:
    size = code.step("absolute", x)
    code.check(code.let(f"fcmp uge double {size}, {float_text(2.0**63)}"), ARITHMETIC)
    return code.let(f"fptosi double {x} to i64")


def _to_single(code: Assembly, x: str) -> str:
    return code.let(f"fpext float {code.let(f'fptrunc double {x} to float')} to double")


_COMPOSED: dict[str, Callable[..., str]] = {
    "int_negative": _negative,
    "int_absolute": _absolute,
    "int_min": _extreme("slt"),
    "int_max": _extreme("sgt"),
    "int_floor_divide": _floor_divide,
    "int_remainder": _remainder,
    "is_finite": _is_finite,
    "float_to_int": _to_int,
    "to_single": _to_single,
    "bool_not": lambda code, x: code.let(f"xor i1 {x}, true"),
}

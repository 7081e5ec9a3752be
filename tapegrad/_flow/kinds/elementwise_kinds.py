"""Element-wise operations of the table as steps: what graphs know of them beside the table."""

from __future__ import annotations

from typing import Any

from ..._core.codegen.vector_math import halves, raised
from ..._core.ops.powers import OF_NUMBERS
from ..._core.ops.table import Pointwise
from .step_kinds import FLOAT, StepKind, true_of


def _intrinsic(name: str):
    """An instruction of LLVM."""
    return lambda code, *x: code.call(f"llvm.{name}.f64", *x)


def _extreme(less: int, missing: int):
    """The first operand or the second, as NumPy has it: of two equal numbers the second.

    `less` is the operand that has to be less for the first to be taken, `missing` the one that is
    NaN then.
    """

    def emit(code, *x: str) -> str:
        wins = code.let(f"fcmp olt double {x[less]}, {x[1 - less]}")
        isnan = code.let(f"fcmp uno double {x[missing]}, {x[missing]}")
        either = code.let(f"or i1 {wins}, {isnan}")
        return code.let(f"select i1 {either}, double {x[0]}, double {x[1]}")

    return emit


def _power(code, x: str, y: str) -> str:
    """By products for many constant exponents."""
    exponent = code.number(y)
    twice = None if exponent is None else halves(exponent)
    return code.call("pow", x, y) if twice is None else raised(code, x, twice)


#: What is known of operations, as `StepKind` has it.
_FACTS: dict[str, dict[str, Any]] = {}


def _known(name: str, traits: str = "", **facts: Any) -> None:
    _FACTS[name] = {**facts, **true_of(traits)}


# the partial derivatives of those in arms are finite, also of NaN, or operands, by which an adjoint
# of 0 is not multiplied
_known("add", "hot cheap exact", native="fadd double {}, {}", of_ints="int_add")
_known("subtract", "hot cheap exact", native="fsub double {}, {}", of_ints="int_subtract")
_known("multiply", "hot cheap exact", native="fmul double {}, {}", of_ints="int_multiply")
_known("divide", "exact", native="fdiv double {}, {}")
_known("floor_divide", of_ints="int_floor_divide")
_known("remainder", of_ints="int_remainder")
_known("negative", "cheap exact", native="fneg double {}", of_ints="int_negative")
_known("absolute", "again exact", native=_intrinsic("fabs"), of_ints="int_absolute")
_known("power", native=_power)
for _exponent, _op in OF_NUMBERS.items():
    if _exponent > 0 and _exponent == int(_exponent):
        _known(_op.name, "in_arms", of_ints="int_multiply" if _exponent == 2 else "")
_known("maximum", "in_arms", native=_extreme(1, 0), of_ints="int_max")
_known("minimum", "in_arms", native=_extreme(0, 0), of_ints="int_min")
_known("fmax", native=_extreme(1, 1))
_known("fmin", native=_extreme(0, 1))
for _name in ("sqrt", "floor", "ceil", "rint", "trunc", "copysign"):
    _known(_name, native=_intrinsic(_name))
#: Operations with cases of their own in the loops of the interpreter.
HOT = tuple(name for name, facts in _FACTS.items() if "hot" in facts)


def element_wise(op: Pointwise) -> StepKind:
    """The kind of steps of an operation."""
    facts = _FACTS.get(op.name, {})
    operands = FLOAT * len(op.inputs)
    return StepKind(
        *(op.name, op.code, operands, FLOAT, op.value), partials=op.partials, declared=op, **facts
    )

"""Kinds of steps of graphs: what a kind declares, and all that are declared."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.codegen.vector_math import halves, raised
from ..._core.ops.powers import OF_NUMBERS
from ..._core.ops.table import Pointwise, ValueAndPartials, find
from ..._core.remembered import remembered

# --- What a kind of steps of graphs declares, and the table of those that are declared ------------


#: Kinds of values: float64, int64, truth.
FLOAT, INT, BOOL = "f", "i", "b"
#: Their types in text for LLVM.
TYPES = {FLOAT: "double", INT: "i64", BOOL: "i1"}
Number = float | int | bool
#: What a step has in addition to its operands: a number, the `Place` in memory that it touches, the
#: number of the reason for which it leaves, that of a branch which became a select.
CONSTANT, PLACE, REASON, CHOICE = "constant", "place", "reason", "choice"
#: Rows of the interpreter that are no kinds of steps, by their codes: those that end blocks, and
#: one of an operation whose own kernel computes it.
CONTROL = {"jump": -1, "branch": -2, "return": -3, "leave": -4, "kernel": -5}


@dataclasses.dataclass(frozen=True, eq=False)
class StepKind(ValueAndPartials):
    """A kind of steps: all that reads steps asks it.

    `value`, `holds` and `effect` are Python in the operands x, y, z and in `payload`. The cases of
    the interpreter are generated from them, where a truth is a word, 1 or 0; the results for
    constants follow from the first two.
    """

    name: str  # in graphs and files
    code: int  # of rows of the interpreter
    operands: str  # the kinds of values
    result: str  # "" for none
    value: str = ""  # the result
    holds: str = ""  # else a call leaves the graph
    effect: str = ""  # statements, in `frame`, `data`, `covered`, `arena`, `words`, its bytes, too
    #: For LLVM: an instruction with {} for each operand; or a function of the `Assembly`, of the
    #: payload if the kind has one, and of the names of operands. It returns that of the result.
    native: str | Callable[..., Any] = ""
    payload: str = ""  # CONSTANT, PLACE, REASON, CHOICE, or nothing
    hot: bool = False  # the loop of the interpreter has the case, not a function that it calls
    stays: bool = False  # does something, though its result is never read
    divides: bool = False  # does, unless its last operand is a constant other than 0
    fresh: bool = False  # has another result each time
    in_arms: bool = False  # may be computed in an arm not taken; an adjoint of 0 stays 0 through it
    again: bool = False  # may be computed again in the reverse pass
    idempotent: bool = False  # gives an operand that it has twice
    twice: Number | None = None  # gives this for an operand that it has twice
    neutral: Number | None = None  # on either side gives the other operand
    neutral_right: Number | None = None  # the same on the right
    absorbing: Number | None = None  # on either side is the result
    exact: bool = False  # of the table: `value` is the result for constants, to the last bit
    negates: bool = False  # gives the opposite of a truth
    partials: tuple[str, ...] = ()  # of an element-wise step, as in `declared`
    #: The adjoint of a step that is linear in floats, for the interpreter: floats stand for their
    #: adjoints, `g` for that of the result, `place` for the address of the adjoint of a word. The
    #: tangent is the step itself, of tangents.
    back: str = ""
    native_back: Callable[..., None] | None = None  # a function of `Adjoints`, the step, and g
    declared: Pointwise | None = None  # the operation of the table
    of_ints: str = ""  # the kind of steps that the operation is of integers

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the operands in texts."""
        return self.declared.inputs if self.declared else ("x", "y", "z")[: len(self.operands)]

    @property
    def is_constant(self) -> bool:
        return self.payload == CONSTANT

    @property
    def is_load(self) -> bool:
        return self.payload == PLACE and self.result != ""

    @property
    def is_store(self) -> bool:
        return self.payload == PLACE and self.result == ""

    @property
    def word(self) -> str:
        """The kind of the word in memory that a load or a store touches."""
        return self.result or self.operands[-1]

    @property
    def is_linear(self) -> bool:
        return self.back != ""

    @remembered
    def sloping(self) -> tuple[int, ...]:
        """The operands, by number, whose partial derivative is not 0 everywhere."""
        if not self.is_linear:
            return super().sloping
        return tuple([j for j, kind in enumerate(self.operands) if kind == FLOAT])

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:  # type: ignore[override]
        """What texts share."""
        return self.declared.steps if self.declared else ()

    @remembered
    def _folded(self) -> Callable[..., Number | None] | None:
        folds = self.exact if self.declared else self.payload in ("", CHOICE) and not self.fresh
        if not folds or not self.value:
            return None
        text = f"({self.value}) if {self.holds or True} else None"
        return eval(f"lambda {', '.join(self.inputs)}: {text}", {**_PYTHON})

    def of_constants(self, *operands: Number) -> Number | None:
        """The result for constants; None if it is not known, or is a float that is not finite."""
        try:
            found = self._folded(*operands) if self._folded else None
        except ZeroDivisionError:
            return None
        is_known = found is not None and (self.result != FLOAT or math.isfinite(found))
        return found if is_known else None


def rounded_to_single(x: float) -> float:
    """The nearest number of float32, as a float."""
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


#: The names in `value` and `holds`, for the results of constants.
_PYTHON = {
    "LEAST": -(2**63),
    "sum_fits": lambda x, y: _fits(x + y),
    "difference_fits": lambda x, y: _fits(x - y),
    "product_fits": lambda x, y: _fits(x * y),
    **{"single": rounded_to_single, "np": np},
}
#: The kinds by name, besides those of the table.
KINDS: dict[str, StepKind] = {}


def declare(name: str, signature: str, value: str = "", traits: str = "", **facts: Any) -> str:
    """Declare a kind of steps, with a signature such as "if -> f"; returns its name."""
    assert name not in KINDS, name
    operands, result = map(str.strip, signature.split("->"))
    code = -1 - len(CONTROL) - len(KINDS)
    kind = StepKind(name, code, operands, result, value, **facts, **true_of(traits))
    passes_floats = FLOAT in operands and (result == FLOAT or kind.is_store)
    is_differentiable = kind.is_linear or len(kind.signs) == len(operands)
    assert is_differentiable or not passes_floats, f"{name} has no derivative"
    KINDS[name] = kind
    return name


def true_of(traits: str) -> dict[str, Any]:
    """Fields of a kind that are true, by their names; "cheap" stands for two."""
    return dict.fromkeys(traits.replace("cheap", "in_arms again").split(), True)


# --- Steps that choose between values, note which way calls took, or leave the graph --------------
# These and steps on memory stand before those on numbers, for interpreters test operations in the
# order of this file: the other order takes 6 to 10 % longer in graphs with branches.


def _select(kind: str):
    def emit(code, number: int | None, condition: str, x: str, y: str) -> str:
        made = code.let(f"select i1 {condition}, {TYPES[kind]} {x}, {TYPES[kind]} {y}")
        if number is not None:
            code.note(number, condition, "true")
        return made

    return emit


def _select_back(reverse, step, g: str) -> None:
    condition, first, second = step.operands
    holds, nothing = reverse.value(condition), reverse.code.constant(0.0)
    if first in reverse.variation:
        reverse.add(first, reverse.code.step(step.op, holds, g, nothing))
    if second in reverse.variation:
        reverse.add(second, reverse.code.step(step.op, holds, nothing, g))


def _check(code, reason: int, condition: str) -> None:
    code.check(code.step("bool_not", condition), reason)


_TAKEN = "if payload != 0 and covered != 0:\n    store_u8(covered, payload - x, 1)"
#: The second operand where the first, a truth, holds, else the third; by their kind.
SELECT_OF = {
    FLOAT: declare(
        *("float_select", "bff -> f", "y if x else z", "cheap"),
        effect=_TAKEN,
        payload=CHOICE,
        native=_select(FLOAT),
        back="if x:\n    y += g\nelse:\n    z += g",
        native_back=_select_back,
    ),
    INT: declare(
        *("int_select", "bii -> i", "y if x else z", "cheap"),
        effect=_TAKEN,
        payload=CHOICE,
        native=_select(INT),
    ),
    BOOL: declare(
        *("bool_select", "bbb -> b", "y if x else z", "in_arms"),
        effect=_TAKEN,
        payload=CHOICE,
        native=_select(BOOL),
    ),
}
declare("check", "b ->", "", "hot stays", holds="x", payload=REASON, native=_check)
#: Which way a select went that was a branch inside an arm, where the second truth holds.
NOTE = declare(
    *("note_choice", "bb ->", "", "hot stays in_arms"),
    effect="if y != 0 and covered != 0:\n    store_u8(covered, payload - x, 1)",
    payload=CHOICE,
    native=lambda code, number, condition, counts: code.note(number, condition, counts),
)


# --- Steps on memory: words that are allocated, loaded and stored ---------------------------------


def _allocate(code, count: str) -> str:
    code.check(code.let(f"icmp slt i64 {count}, 0"))
    used = code.let("load i64, ptr %used")
    room = code.let(f"sub i64 %arena_words, {used}")
    code.fork(code.let(f"icmp sgt i64 {count}, {room}"), "arena_full")
    code.put(f"store i64 {code.let(f'add i64 {used}, {count}')}, ptr %used")
    size = code.let(f"shl i64 {count}, 3")
    fill = "llvm.memset.p0.i64"
    code.module.declared[fill] = f"declare void @{fill}(ptr, i8, i64, i1)"
    for space in range(code.module.spaces):
        at = code.word(f"%arena{space}", used)
        code.put(f"call void @{fill}(ptr {at}, i8 0, i64 {size}, i1 false)")
    return used


def _load(kind: str):
    def emit(code, place, at: str) -> str:
        return code.read(f"%arena{place.space}", at, TYPES[kind], code.module.alias(place))

    return emit


def _store(kind: str):
    def emit(code, place, at: str, value: str) -> None:
        code.write(f"%arena{place.space}", at, value, TYPES[kind], code.module.alias(place))

    return emit


def _load_back(reverse, step, g: str) -> None:
    base, at, kind, alias = reverse.shadow(step)
    total = reverse.code.let(f"fadd double {reverse.code.read(base, at, kind, alias)}, {g}")
    reverse.code.write(base, at, total, kind, alias)


def _store_back(reverse, step, _g: str) -> None:
    base, at, kind, alias = reverse.shadow(step)
    if step.operands[1] in reverse.variation:
        reverse.add(step.operands[1], reverse.code.read(base, at, kind, alias))
    reverse.code.write(base, at, reverse.code.constant(0.0), kind, alias)


# words, 0 in all spaces; gives the address of the first
declare(
    *("allocate", "i -> i", "load_i64(frame, ARENA_USED)", "stays fresh"),
    holds="x >= 0",
    effect="return allocated(frame, load_i64(data, SPACES), x)",
    native=_allocate,
)
#: By the kind of the word.
LOAD_OF = {
    FLOAT: declare(
        *("load_float", "i -> f", "load_f64(arena + payload * words, 8 * x)", "hot again"),
        payload=PLACE,
        native=_load(FLOAT),
        back="store_f64(place, 0, load_f64(place, 0) + g)",
        native_back=_load_back,
    ),
    INT: declare(
        *("load_int", "i -> i", "load_i64(arena + payload * words, 8 * x)", "again"),
        payload=PLACE,
        native=_load(INT),
    ),
}
STORE_OF = {
    FLOAT: declare(
        *("store_float", "if ->", "", "hot stays"),
        effect="store_f64(arena + payload * words, 8 * x, y)",
        payload=PLACE,
        native=_store(FLOAT),
        back="y += load_f64(place, 0)\nstore_f64(place, 0, 0.0)",
        native_back=_store_back,
    ),
    INT: declare(
        *("store_int", "ii ->", "", "stays"),
        effect="store_i64(arena + payload * words, 8 * x, y)",
        payload=PLACE,
        native=_store(INT),
    ),
}


# --- Steps on numbers: constants, integers, floats, truths ----------------------------------------
# An integer beyond 64 bits, or a divisor of 0, leaves the graph; Python's rounding. Floats have the
# operations of the table, too.


_SMALLEST = str(-(2**63))


def _checked(name: str):
    """An instruction of LLVM that says whether its result fits."""

    def emit(code, x: str, y: str) -> str:
        if code.leave is None:
            return code.let(f"{name} nsw i64 {x}, {y}")
        full = f"llvm.s{name}.with.overflow.i64"
        code.module.declared[full] = f"declare {{i64, i1}} @{full}(i64, i64)"
        both = code.let(f"call {{i64, i1}} @{full}(i64 {x}, i64 {y})")
        result = code.let(f"extractvalue {{i64, i1}} {both}, 0")
        code.check(code.let(f"extractvalue {{i64, i1}} {both}, 1"))
        return result

    return emit


def _extreme(comparison: str):
    def emit(code, x: str, y: str) -> str:
        takes = code.let(f"icmp {comparison} i64 {x}, {y}")
        return code.let(f"select i1 {takes}, i64 {x}, i64 {y}")

    return emit


def _divided(code, op: str, x: str, y: str) -> tuple[str, str]:
    """Quotient or remainder rounded towards 0, and whether Python rounds to one less."""
    result = code.let(f"s{op} i64 {x}, {y}")
    rest = result if op == "rem" else code.let(f"srem i64 {x}, {y}")
    other_sign = code.let(f"icmp slt i64 {code.let(f'xor i64 {rest}, {y}')}, 0")
    inexact = code.let(f"icmp ne i64 {rest}, 0")
    return result, code.let(f"and i1 {other_sign}, {inexact}")


def _floor_divide(code, x: str, y: str) -> str:
    code.check(code.let(f"icmp eq i64 {y}, 0"))
    smallest, minus = code.let(f"icmp eq i64 {x}, {_SMALLEST}"), code.let(f"icmp eq i64 {y}, -1")
    code.check(code.let(f"and i1 {smallest}, {minus}"))
    quotient, less = _divided(code, "div", x, y)
    return code.let(f"sub i64 {quotient}, {code.let(f'zext i1 {less} to i64')}")


def _remainder(code, x: str, y: str) -> str:
    """The processor cannot divide the smallest integer by −1: over 1 the remainder is 0, too."""
    code.check(code.let(f"icmp eq i64 {y}, 0"))
    y = code.let(f"select i1 {code.let(f'icmp eq i64 {y}, -1')}, i64 1, i64 {y}")
    rest, less = _divided(code, "rem", x, y)
    return code.let(f"add i64 {rest}, {code.let(f'select i1 {less}, i64 {y}, i64 0')}")


def _negative(code, x: str) -> str:
    return _checked("sub")(code, "0", x)


def _absolute(code, x: str) -> str:
    less = code.let(f"icmp slt i64 {x}, 0")
    return code.let(f"select i1 {less}, i64 {_negative(code, x)}, i64 {x}")


def _is_finite(code, x: str) -> str:
    return code.let(f"fcmp olt double {code.step('absolute', x)}, {code.constant(float('inf'))}")


def _to_int(code, x: str) -> str:
    size = code.step("absolute", x)
    code.check(code.let(f"fcmp uge double {size}, {code.constant(2.0**53)}"))
    return code.let(f"fptosi double {x} to i64")


def _to_single(code, x: str) -> str:
    return code.let(f"fpext float {code.let(f'fptrunc double {x} to float')} to double")


def _float(code, number: float) -> str:
    return code.constant(number)


def _word(_code, number: int | bool) -> str:
    return str(number).lower()


#: The constants by the kinds of their values.
CONSTANT_OF = {
    FLOAT: declare("float_const", "-> f", payload=CONSTANT, native=_float),
    INT: declare("int_const", "-> i", payload=CONSTANT, native=_word),
    BOOL: declare("bool_const", "-> b", payload=CONSTANT, native=_word),
}
#: The types of Python of the numbers of each kind.
TYPE_OF: dict[str, type] = {FLOAT: float, INT: int, BOOL: bool}

declare(
    *("int_add", "ii -> i", "x + y", "hot cheap"),
    holds="sum_fits(x, y)",
    native=_checked("add"),
    neutral=0,
)
declare(
    *("int_subtract", "ii -> i", "x - y", "cheap"),
    holds="difference_fits(x, y)",
    native=_checked("sub"),
    neutral_right=0,
    twice=0,
)
declare(
    *("int_multiply", "ii -> i", "x * y", "again"),
    holds="product_fits(x, y)",
    native=_checked("mul"),
    neutral=1,
    absorbing=0,
)
declare(
    *("int_floor_divide", "ii -> i", "x // y", "divides"),
    holds="y != 0 and (y != -1 or x != LEAST)",
    native=_floor_divide,
    neutral_right=1,
)
declare(
    *("int_remainder", "ii -> i", "x % y if y != -1 else 0", "divides"),
    holds="y != 0",
    native=_remainder,
)
declare("int_min", "ii -> i", "min(x, y)", "cheap idempotent", native=_extreme("slt"))
declare("int_max", "ii -> i", "max(x, y)", "cheap idempotent", native=_extreme("sgt"))
declare("int_and", "ii -> i", "x & y", "cheap idempotent", native="and i64 {}, {}")
declare("int_or", "ii -> i", "x | y", "cheap idempotent", native="or i64 {}, {}")
declare("int_xor", "ii -> i", "x ^ y", "cheap", native="xor i64 {}, {}", twice=0)
declare("int_negative", "i -> i", "-x", "again", holds="x != LEAST", native=_negative)
declare("int_absolute", "i -> i", "abs(x)", holds="x != LEAST", native=_absolute)
declare("int_equal", "ii -> b", "x == y", "hot cheap", native="icmp eq i64 {}, {}", twice=True)
declare("int_less", "ii -> b", "x < y", "hot cheap", native="icmp slt i64 {}, {}", twice=False)
declare(
    *("int_less_equal", "ii -> b", "x <= y", "hot cheap"),
    native="icmp sle i64 {}, {}",
    twice=True,
)

declare("float_equal", "ff -> b", "x == y", "cheap", native="fcmp oeq double {}, {}")
declare("float_less", "ff -> b", "x < y", "hot cheap", native="fcmp olt double {}, {}")
declare("float_less_equal", "ff -> b", "x <= y", "cheap", native="fcmp ole double {}, {}")
declare("is_finite", "f -> b", "x - x == 0.0", "in_arms", native=_is_finite)
declare("int_to_float", "i -> f", "float(x)", "hot cheap", native="sitofp i64 {} to double")
# rounded to float32
declare(*("to_single", "f -> f", "single(x)", "hot cheap"), native=_to_single, partials=("1.0",))
# towards 0; leaves where it is not finite, or where a float may stand for another integer
declare(
    *("float_to_int", "f -> i", "int(x)", "stays"),
    holds="-9007199254740992.0 < x < 9007199254740992.0",
    native=_to_int,
)

declare(
    *("bool_and", "bb -> b", "x & y", "cheap idempotent"),
    native="and i1 {}, {}",
    neutral=True,
    absorbing=False,
)
declare(
    *("bool_or", "bb -> b", "x | y", "cheap idempotent"),
    native="or i1 {}, {}",
    neutral=False,
    absorbing=True,
)
declare(
    *("bool_xor", "bb -> b", "x ^ y", "cheap"), native="xor i1 {}, {}", neutral=False, twice=False
)
declare("bool_not", "b -> b", "not x", "cheap negates", native="xor i1 {}, true")
declare("bool_to_int", "b -> i", "x", "cheap", native="zext i1 {} to i64")


# --- Element-wise operations of the table as steps: what graphs know of them beside the table -----


def _intrinsic(name: str):
    """An instruction of LLVM."""
    return lambda code, *x: code.call(f"llvm.{name}.f64", *x)


def _extreme_operation(less: int, missing: int):
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
_known("maximum", "in_arms", native=_extreme_operation(1, 0), of_ints="int_max")
_known("minimum", "in_arms", native=_extreme_operation(0, 0), of_ints="int_min")
_known("fmax", native=_extreme_operation(1, 1))
_known("fmin", native=_extreme_operation(0, 1))
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


# --- The kind of steps of a name ------------------------------------------------------------------


@functools.lru_cache(4096)
def kind_of(name: str) -> StepKind:
    """The kind of a name in KINDS, or of an element-wise operation; ValueError for others."""
    if name in KINDS:
        return KINDS[name]
    declared = find(name)
    if not isinstance(declared, Pointwise):
        raise ValueError(f"{name} is not element-wise")
    return element_wise(declared)


def with_cases() -> list[StepKind]:
    """The kinds with cases of their own in the interpreter."""
    return [*map(kind_of, HOT), *KINDS.values()]

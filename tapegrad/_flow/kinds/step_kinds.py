"""What a kind of steps of graphs declares, and the table of those that are declared."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import Pointwise, ValueAndPartials
from ..._core.remembered import remembered

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

"""What a kind of steps of graphs declares, and the table of those that are declared."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.ops.table import Pointwise

#: Kinds of values: float64, int64, truth.
FLOAT, INT, BOOL = "f", "i", "b"
#: Their types in text for LLVM.
TYPES = {FLOAT: "double", INT: "i64", BOOL: "i1"}
Number = float | int | bool
#: What a step has in addition to its operands: a number, the `Place` in memory that it touches, the
#: number of the reason for which it leaves, that of a branch which became a select.
CONSTANT, PLACE, REASON, CHOICE = "constant", "place", "reason", "choice"
#: Rows of the interpreter that end blocks, by their codes.
CONTROL = {"jump": -1, "branch": -2, "return": -3, "leave": -4}


@dataclasses.dataclass(frozen=True, eq=False)
class StepKind:
    """A kind of steps, from which all follows that reads steps.

    `value`, `holds` and `effect` are Python in the operands x, y, z and `payload`. The interpreter
    is generated from them; the first two give the results for constants, too.

    Parameters
    ----------
    name : str
        Graphs and files call it so.
    code : int
        The number of its rows in the interpreter.
    operands, result : str
        Kinds of values; no `result` for a step that gives none.
    value : str
        The result. An integer or a truth of one is 0 or 1 in the interpreter.
    holds : str
        The condition without which a call leaves the graph.
    effect : str
        Statements of the interpreter; `frame`, `data`, `arena`, `words` (the bytes of a space) and
        `covered` are those of the call.
    native : str or callable
        For LLVM: an instruction with {} for each operand, or a function of an `Assembly`, of the
        payload if there is one, and of the names of the operands, which returns that of the result.
    fold : callable, optional
        The result for constants where `value` is not Python's.
    payload : str
        What steps have in addition: CONSTANT, PLACE, REASON or CHOICE.
    hot : bool
        Whether the loop of the interpreter has the case, not a function that the loop calls.
    stays : bool
        Whether a step does something though its result is never read.
    divides : bool
        Whether it does unless its last operand is a constant other than 0.
    fresh : bool
        Whether equal steps have different results.
    in_arms : bool
        Whether it may be computed in the arm of a branch that is not taken; an adjoint of 0 has to
        stay 0 through it.
    again : bool
        Whether it may be computed again in the reverse pass.
    idempotent, negates : bool
        Whether an operand twice gives that operand; whether it gives the opposite of a truth.
    neutral, neutral_right, absorbing : number, optional
        A constant on either side, or on the right, that gives the other operand; one that is the
        result whatever the other operand is.
    twice : number, optional
        The result for an operand twice.
    partials : tuple of str
        The partial derivatives by floats, as in `declared`, of element-wise steps.
    back : str
        The adjoint of a step that is linear in its floats, for the interpreter: statements in which
        floats stand for their adjoints, `g` for that of the result, `place` for the address of the
        adjoint of memory. Its tangent is the step itself on tangents.
    native_back : callable, optional
        The same for LLVM: a function of an `Adjoints`, the step and the name of `g`.
    declared : Pointwise, optional
        The element-wise operation of the table.
    """

    name: str
    code: int
    operands: str
    result: str
    value: str = ""
    holds: str = ""
    effect: str = ""
    native: str | Callable[..., Any] = ""
    fold: Callable[..., Number] | None = None
    payload: str = ""
    hot: bool = False
    stays: bool = False
    divides: bool = False
    fresh: bool = False
    in_arms: bool = False
    again: bool = False
    idempotent: bool = False
    negates: bool = False
    neutral: Number | None = None
    neutral_right: Number | None = None
    absorbing: Number | None = None
    twice: Number | None = None
    partials: tuple[str, ...] = ()
    back: str = ""
    native_back: Callable[..., None] | None = None
    declared: Pointwise | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
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

    @functools.cached_property
    def differentiable(self) -> tuple[bool, ...]:
        """Whether the partial derivative by an operand is not 0 everywhere."""
        if self.partials:
            return tuple(partial != "0.0" for partial in self.partials)
        return tuple(self.is_linear and kind == FLOAT for kind in self.operands)

    def needed(self, *texts: str) -> list[tuple[str, str]]:
        """What texts share, in order: names and their texts."""
        return self.declared.needed(*texts) if self.declared else []

    @functools.cached_property
    def _folded(self) -> Callable[..., Number | None] | None:
        if self.declared or self.fresh or not self.value or self.payload not in ("", CHOICE):
            return self.fold
        head = f"lambda {', '.join(self.inputs)}: "
        return eval(f"{head}({self.value}) if {self.holds or True} else None", {**_PYTHON})

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
    "single": rounded_to_single,
}
#: The kinds by name, besides those of the table.
KINDS: dict[str, StepKind] = {}


def declare(name: str, signature: str, value: str = "", traits: str = "", **facts: Any) -> str:
    """Declare a kind of steps; returns its name.

    A signature is for instance "if -> f"; traits are the names of what is true of it.
    """
    operands, result = map(str.strip, signature.split("->"))
    code = -1 - len(CONTROL) - len(KINDS)
    facts.update(dict.fromkeys(traits.split(), True))
    KINDS[name] = StepKind(name, code, operands, result, value, **facts)
    return name

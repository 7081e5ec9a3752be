"""Steps that choose between values, note which way calls took, or leave the graph."""

from .step_kinds import BOOL, CHOICE, FLOAT, INT, REASON, TYPES, declare


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

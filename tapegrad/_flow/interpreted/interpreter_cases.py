"""The cases of the interpreter's loops, generated from the declarations of kinds of steps."""

from __future__ import annotations

import textwrap

from ..._core.ops.elementwise_text import ElementwiseText, renamed
from ..kinds.kind_lookup import with_cases
from ..kinds.step_kinds import BOOL, CONTROL, FLOAT, PLACE, REASON, StepKind

_ROW = ("x", "y", "load_i32(row, C)")
_BACK_ROW = ("load_i32(row, D)", "load_i32(row, E)", "load_i32(row, F)")
_PAYLOAD = "load_i32(row, D)"


def codes() -> str:
    """The names of kinds for their codes, as text."""
    named = {**CONTROL, **{kind.name: kind.code for kind in with_cases()}}
    return "".join(f"{name.upper()} = {code}\n" for name, code in named.items())


def touching() -> str:
    """The condition that `op` reads or writes memory at the address x."""
    return " or ".join(_is(kind) for kind in with_cases() if kind.payload == PLACE)


def forward_cases(hot: bool, indent: int) -> str:
    """The cases of steps in the loop itself, or of the others."""
    kinds = [kind for kind in with_cases() if kind.hot is hot and not kind.is_constant]
    return _chain(((kind, _forward(kind)) for kind in kinds), indent)


def back_cases(of_stores: bool, indent: int) -> str:
    """The cases of the reverse loop: of stores, or of steps with a result, whose adjoint is `g`."""
    kinds = [kind for kind in with_cases() if kind.is_linear or kind.sloping]
    chosen = [kind for kind in kinds if kind.is_store is of_stores]
    cases = ((kind, _linear(kind) if kind.is_linear else _partial(kind)) for kind in chosen)
    return _chain(cases, indent)


def _is(kind: StepKind) -> str:
    return f"op == {kind.name.upper()}"


def _chain(cases, indent: int) -> str:
    lines = [f"elif {_is(kind)}:\n{textwrap.indent(body, ' ' * 4)}" for kind, body in cases]
    return textwrap.indent("\n".join(lines).removeprefix("el"), " " * indent)


def _registers(kind: StepKind, words: tuple[str, ...], floats: str) -> dict[str, str]:
    """What operands are called, whose registers are in words of the row."""
    registers = zip(kind.inputs, kind.operands, words, strict=False)
    return {name: f"{floats if of == FLOAT else 'W'}[{at}]" for name, of, at in registers}


def _forward(kind: StepKind) -> str:
    names, lines = {**_registers(kind, _ROW, "V"), "payload": _PAYLOAD}, []
    if kind.holds:
        why = _PAYLOAD if kind.payload == REASON else "ARITHMETIC - load_i32(row, F)"
        lines += [f"if not ({kind.holds}):", f"    return refused(frame, {why})"]
    if kind.result:
        value = f"1 if ({kind.value}) else 0" if kind.result == BOOL else kind.value
        lines.append(f"{'V' if kind.result == FLOAT else 'W'}[load_i32(row, OUT)] = {value}")
    return renamed("\n".join([*lines, *filter(None, [kind.effect])]), names.get)


def _linear(kind: StepKind) -> str:
    """The adjoint of a step as it is declared."""
    place = f"place = shadow + {_PAYLOAD} * words + 8 * x\n" if kind.payload == PLACE else ""
    return renamed(place + kind.back, _registers(kind, _ROW, "G").get)


def _partial(kind: StepKind) -> str:
    """Contributions to the adjoints of operands; all products come before the first sum."""
    names, sums = {**_registers(kind, _BACK_ROW, "V"), "out": "V[out]"}, []
    products: list[str] = []
    text = ElementwiseText(kind, products.append, names.get)
    for j, part in text.adjoint("g", kind.sloping, nonzero=True).items():
        if kind.signs[j]:
            sums.append(f"G[{_ROW[j]}] {'-' if kind.signs[j] < 0 else '+'}= g")
        else:
            products.append(f"to_{kind.inputs[j]} = {part}")
            sums.append(f"G[{_ROW[j]}] += to_{kind.inputs[j]}")
    return "\n".join([*products, *sums])

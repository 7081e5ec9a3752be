"""The text of one function for LLVM: instructions, labels, the operations of graphs.

Names are those of LLVM: a local name, or a constant in its notation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..._core.codegen.vector_math import c_name
from ..._core.ops.table import Pointwise
from ..ir.expressions import is_elementary, value
from ..ir.flow_graph import Graph, Place
from ..ir.frame import ARITHMETIC
from ..kinds.step_kinds import kind_of


class Module:
    """Declarations shared by the functions of a text: calls, and which memory overlaps."""

    def __init__(self, graph: Graph):
        self.declared: dict[str, str] = {}
        self.helpers: set[str] = set()
        self.edges, self.spaces = graph.edges, graph.spaces
        places = {step.payload for step in graph.steps() if isinstance(step.payload, Place)}
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
        """A double in LLVM's notation, exactly."""
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"

    def number(self, name: str) -> float | None:
        """The number of a constant, None for the name of a value."""
        if not name.startswith("0x"):
            return None
        return struct.unpack("<d", struct.pack("<Q", int(name, 16)))[0]

    def step(self, op: str, *x: Any, payload: Any = None) -> Any:
        """The result of a step, if it has one."""
        kind = kind_of(op)
        if callable(kind.native):
            return kind.native(self, *([payload] if kind.payload else []), *x)
        if kind.native:
            return self.let(kind.native.format(*x))
        assert kind.declared is not None, op
        return self._element_wise(kind.declared, x)

    def _element_wise(self, op: Pointwise, x: tuple[str, ...]) -> str:
        if not is_elementary(op):
            return value(op, x, self)
        name = c_name(op.name)
        if name is None:
            self.module.helpers.add(op.name)
            name = f"tapegrad_value_of_{op.name}"
        return self.call(name, *x)

    def call(self, name: str, *x: str) -> str:
        """A function of floats."""
        given = ", ".join(f"double {one}" for one in x)
        return self.let(f"{self.module.call(name, len(x))}({given})")

    def check(self, condition: str, reason: int = ARITHMETIC) -> None:
        """Leave if a condition holds, unless it has been tested before."""
        if self.leave is not None:
            self.leave(condition, reason)

    def note(self, number: int, condition: str, counts: str) -> None:
        """Note the value that a select takes, where `counts` holds: loops may keep the flags."""
        flag = self.module.edges + 2 * number
        for k, holds in enumerate((condition, self.let(f"xor i1 {condition}, true"))):
            at = self.let(f"getelementptr i8, ptr %covered, i64 {flag + k}")
            taken = self.let(f"and i1 {holds}, {counts}")
            before, now = self.let(f"load i8, ptr {at}"), self.let(f"zext i1 {taken} to i8")
            self.put(f"store i8 {self.let(f'or i8 {before}, {now}')}, ptr {at}")

"""The conditions of a legal program, checked before any of it becomes compiled code.

Compiled code checks no bounds: it trusts that each slot is written once and before it is read, that
views lie in their memory, and that operands are as an operation takes them. Code that converts,
rewrites or loads programs must ensure that; it is checked here.
"""

from __future__ import annotations

from ..ir.steps import ARENA, Code
from ..ir.verify_memory import KINDS, MOST, IllegalProgram, Memory, expect


def check(code: Code, most: int = MOST) -> None:
    """Raise IllegalProgram unless a program stays in its own memory.

    No view may have more than `most` elements.
    """
    memory = Memory(code, most)
    expect(set(code.clears) <= set(range(len(code.steps))), "slots are shared by no step")
    for number, step in enumerate(code.steps):
        try:
            for view in code.clears.get(number, []):
                memory.begin_again(view)
            step.check(memory)
        except IllegalProgram as error:
            raise IllegalProgram(f"step {number} ({type(step).__name__}): {error}") from None
    for output in code.outputs:
        expect(output.view.base == ARENA, "a result lies outside the arena")
        expect(output.dtype.kind in KINDS, f"a result has dtype {output.dtype}")
        memory.read(output.view)

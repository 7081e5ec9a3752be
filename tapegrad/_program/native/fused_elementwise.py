"""Element-wise steps with code of their own: one kernel for all operations, one loop.

The text is put together from the declarations of the operations. It names no sizes and no
places, so that steps which compute the same share it.

What a kernel writes may be written twice, first by its plain loop, then by the careful one
(`fused_loops`). So it is set and never added to: blocks that are added elsewhere are delivered
after it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..._core.codegen import elements
from ..._core.codegen.elements import ITEM, SINGLE
from ..._core.codegen.factory import compile_source
from ..ir.elementwise_flow import Flow
from ..ir.elementwise_step import Elementwise
from ..replay.block_calls import PASSES
from ..replay.block_passes import ADJOINTS, VALUES, Pass, part
from ..replay.parts import NO_BASES, Bases, Part, Wanted, native_part_of
from .fused_loops import CarefulLoop, Loop, Words

_HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    helper, i64s, inside, multiply_add, single, sum_of, unaliased,
)
from tapegrad._core.codegen.vector_math import select
"""


@functools.cache
def _compiled(text: str, names: tuple[str, ...], item: int) -> dict[str, int]:
    exports = dict.fromkeys(names, "void(int64, int64)")
    return compile_source(text, exports, item == SINGLE, fixed=False)


class _Kernel:
    """One kernel: two loops over the same words."""

    def __init__(self, flow: Flow, item: int):
        self.flow, self.code = flow, Pass(flow, item)
        self.words = Words(self.code)
        self.plain, self.careful = Loop(flow, self.words), CarefulLoop(flow, self.words)

    def results(self) -> None:
        for views in self.flow.sums.values():
            for view in views:
                self.code.clear(view, VALUES)
        self.plain.results()
        self.careful.results()

    def adjoints(self, known: Iterable[int] = ()) -> None:
        for view in self.flow.cleared:
            self.code.clear(view, ADJOINTS)
        for loop in (self.plain, self.careful):
            loop.compute(known)
            loop.adjoints()

    def text(self, name: str) -> str:
        given = f"n, {self.words.given()}"
        lines = self.plain.text(f"{name}_plain")
        body = [f"    {name}_plain({given})"]
        if self.words.repeated or self.plain.constants:
            lines += self.careful.text(f"{name}_careful")
            body = [f"    if {name}_plain({given}):", f"        {name}_careful({given})"]
        return "\n".join([*lines, f"def {name}(n, words):", "    at = i64s(words)", *body, ""])

    def finish(self, address: int) -> None:
        self.code.call(address, *self.words.names)
        for block, view, side, one in self.words.later:
            self.code.deliver(block, view, side, summed=one)


@native_part_of.register(Elementwise)
def native(
    step: Elementwise,
    wanted: Wanted,
    fresh: Bases = NO_BASES,
    item: int = ITEM,
    passes: tuple[str, ...] = PASSES,
) -> Part:
    """A step as a kernel for each pass. See `elementwise_flow` for `wanted` and `fresh`."""
    flow = step.flow(wanted, fresh)
    kernels = {name: _Kernel(flow, item) for name in passes}
    for name, kernel in kernels.items():
        if name == "reverse":
            kernel.adjoints(flow.recomputed())
        else:
            kernel.results()
        if name == "both":
            kernel.adjoints()
    made = {name: kernel for name, kernel in kernels.items() if kernel.plain.lines}
    text = "\n\n".join(
        [elements.head(item) + _HEAD, *(kernel.text(name) for name, kernel in made.items())]
    )
    addresses = _compiled(text, tuple(made), item)
    for name, kernel in made.items():
        kernel.finish(addresses[name])
    return part({name: kernel.code for name, kernel in kernels.items()}, "native")

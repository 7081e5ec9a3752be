"""Element-wise steps with code of their own: one kernel for all operations, one loop.

The text is put together from the declarations of the operations. It names no sizes and no
places, so that steps which compute the same share it.

An adjoint of exactly 0 gives 0 whatever the slope. To ask for that in every product takes half as
long again, and matters only where a slope is infinite or NaN, which makes the result NaN. So a
block is computed without asking; if a result is NaN, it is computed again with care. What a kernel
writes is therefore set and never added to: blocks that are added elsewhere are delivered after it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from ..codegen.factory import compile_source
from .blocks import ONE
from .flow import Flow, Node
from .parts import Part
from .passes import ADJOINTS, VALUES, Buffer, Pass, Word, part
from .steps import Elementwise, View

_HEAD = """
from tapegrad.codegen import vmath as np
from tapegrad.codegen.memory import f64s, helper, i64s, inside, sum_of, unaliased
from tapegrad.codegen.vmath import select
"""


@functools.cache
def _compiled(text: str, names: tuple[str, ...]) -> dict[str, int]:
    return compile_source(text, dict.fromkeys(names, "void(int64, int64)"))


class _Kernel:
    """Text of one kernel: what is done before, in and after its loop; and its words."""

    def __init__(self, flow: Flow, code: Pass):
        self.flow, self.code = flow, code
        self.words: dict[Word, str] = {}
        self.before: list[str] = []
        self.loop: list[str] = []
        self.after: list[str] = []
        self.careful = False
        self.later: list[tuple] = []
        self.known: dict[Node, str] = {}
        self.steps: set[str] = set()

    def pointer(self, word: Word) -> str:
        return self.words.setdefault(word, f"p{len(self.words)}")

    def load(self, view: View, side: int) -> str:
        """Read a view; returns the name of the variable."""
        pointer = self.pointer(self.code.read(view, side, whole=False))
        name = f"v{pointer[1:]}"
        if self.code.cut.way(view) == ONE:
            line, lines = f"{name} = {pointer}[0]", self.before
        else:
            line, lines = f"{name} = {pointer}[i]", self.loop
        if line not in lines:
            lines.append(line)
        return name

    def value(self, node: Node) -> str:
        if node not in self.known:
            view = node if isinstance(node, View) else self.flow.stores[node][0]
            self.known[node] = self.load(view, VALUES)
        return self.known[node]

    def expression(self, k: int, text: str) -> str:
        """An expression of operation k in the names of this kernel; its steps are computed."""
        op = self.flow.ops[k]
        nodes = dict(zip((*op.inputs, "out"), (*self.flow.operands[k], k), strict=True))
        steps = {name: f"o{k}_{name}" for name, _ in op.steps}

        def renamed(expression: str) -> str:
            def name(match: re.Match) -> str:
                word = match.group()
                return self.value(nodes[word]) if word in nodes else steps.get(word, word)

            return re.sub(r"(?<![\w.])[A-Za-z_]\w*", name, expression)

        for step, its_text in op.needed(text):
            if steps[step] not in self.steps:
                self.steps.add(steps[step])
                self.loop.append(f"{steps[step]} = {renamed(its_text)}")
        return renamed(text)

    def compute(self, numbers: Iterable[int]) -> None:
        for k in numbers:
            self.loop.append(f"o{k} = {self.expression(k, self.flow.ops[k].value)}")
            self.known[k] = f"o{k}"

    def results(self) -> None:
        """Compute all that the step writes."""
        self.compute(self.flow.live)
        for k, views in self.flow.stores.items():
            for view in views:
                self.set(self.code.place(view, VALUES), f"o{k}")
        for k, views in self.flow.sums.items():
            for view in views:
                self.code.clear(view, VALUES)
                self.add(f"o{k}", view, VALUES)

    def set(self, word: Word, value: str) -> None:
        self.loop.append(f"{self.pointer(word)}[i] = {value}")

    def add(self, value: str, view: View, side: int) -> None:
        """Add a value to a view, by way of a block that is delivered later, or of a sum."""
        block, one = Buffer(), self.code.cut.way(view) == ONE
        if one:
            pointer = self.pointer(block)
            total = f"s{pointer[1:]}"
            self.before.append(f"{total} = 0.0")
            self.loop.append(f"{total} = sum_of({total}, {value})")
            self.after.append(f"{pointer}[0] = {total}")
        else:
            self.set(block, value)
        self.later.append((block, view, side, one))

    def adjoints(self) -> None:
        """Compute adjoints and add them to those of the views that are wanted."""
        terms: dict[Node, list[str]] = {}
        for view in self.flow.cleared:
            self.code.clear(view, ADJOINTS)
        for k in self.flow.pulled:
            seeds = (*self.flow.stores.get(k, []), *self.flow.sums.get(k, []))
            parts = [self.load(view, ADJOINTS) for view in seeds] + terms.get(k, [])
            self.loop.append(f"g{k} = {' + '.join(parts)}")
            for j, node in self.flow.edges(k):
                terms.setdefault(node, []).append(self.term(k, j))
        for number, view in enumerate(v for v in self.flow.wanted if v in terms):
            self.loop.append(f"a{number} = {' + '.join(terms[view])}")
            if self.careful:
                self.loop.append(f"bad = bad | (a{number} != a{number})")
            if view in self.flow.set_:
                self.set(self.code.place(view, ADJOINTS), f"a{number}")
            elif view in self.flow.direct and not self.careful:  # nothing is computed twice
                pointer = self.pointer(self.code.place(view, ADJOINTS))
                self.loop.append(f"{pointer}[i] = {pointer}[i] + a{number}")
            else:
                self.add(f"a{number}", view, ADJOINTS)

    def term(self, k: int, j: int) -> str:
        """What operand j gets."""
        slope = self.flow.ops[k].slopes[j]
        if slope in ("1.0", "-1.0"):
            return f"g{k}" if slope == "1.0" else f"(-g{k})"
        text = self.expression(k, slope)
        if self.is_one(k, j):  # one number for all elements, looked at before
            self.before.append(f"s{k}_{j} = {text}")
            self.before.append(f"n{k}_{j} = s{k}_{j} - s{k}_{j} != 0.0")
            return f"select(n{k}_{j} & (g{k} == 0.0), 0.0, g{k} * s{k}_{j})"
        self.careful = True
        zero = f"z{k} = careful & (g{k} == 0.0)"
        if zero not in self.loop:
            self.loop.append(zero)
        return f"select(z{k}, 0.0, g{k} * ({text}))"

    def is_one(self, k: int, j: int) -> bool:
        """Whether the slope to operand j reads numbers only, which were stored before the step."""
        if self.flow.ops[k].needed(self.flow.ops[k].slopes[j]):
            return False
        nodes = self.flow.slope_nodes(k, j)
        return all(isinstance(x, View) and self.code.cut.way(x) == ONE for x in nodes)

    def text(self, name: str) -> str:
        pointers = ", ".join(self.words.values())
        given = ", ".join(f"f64s(at[{k}])" for k in range(len(self.words)))
        lines = ["@helper", f"def {name}_block(careful, n, {pointers}):"]
        lines += ["    inside()", "    unaliased()", "    bad = False"]
        lines += [f"    {line}" for line in self.before]
        lines += ["    for i in range(n):", *(f"        {line}" for line in self.loop)]
        lines += [f"    {line}" for line in self.after]
        lines += ["    return bad", "", "", f"def {name}(n, words):", "    at = i64s(words)"]
        lines += [f"    bad = {name}_block(False, n, {given})"]
        if self.careful:
            lines += ["    if bad:", f"        {name}_block(True, n, {given})"]
        return "\n".join(lines) + "\n"

    def finish(self, address: int) -> None:
        self.code.call(address, *self.words)
        for block, view, side, one in self.later:
            self.code.deliver(block, view, side, summed=one)


def native(
    step: Elementwise, wanted: Callable[[View], bool], fresh: frozenset[int] = frozenset()
) -> Part:
    """A step as one kernel. See `flow` for what `wanted` and `fresh` say."""
    flow = Flow(step, wanted, fresh)
    kernels = {name: _Kernel(flow, Pass(flow.cut)) for name in ("forward", "reverse", "both")}
    kernels["forward"].results()
    read = {node for k in flow.pulled for node in flow.slope_nodes(k)}
    kernels["reverse"].compute(flow.computed(read, set(flow.stores)))
    kernels["reverse"].adjoints()
    kernels["both"].results()
    kernels["both"].adjoints()
    made = {name: kernel for name, kernel in kernels.items() if kernel.loop}
    text = "\n\n".join([_HEAD, *(kernel.text(name) for name, kernel in made.items())])
    addresses = _compiled(text, tuple(made))
    for name, kernel in made.items():
        kernel.finish(addresses[name])
    return part(*(kernel.code for kernel in kernels.values()))

"""Element-wise steps with code of their own: one kernel, one loop."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable

from ..._core.codegen import elements
from ..._core.codegen.elements import ITEM, SINGLE
from ..._core.codegen.factory import compile_source
from ..._core.codegen.sources import expression_in
from ..._core.ops.elementwise_text import ElementwiseText
from ..._core.ops.slopes import shorter
from ..._core.ops.table import product
from ..ir.elementwise_step import Elementwise, Node, StepFlow
from ..ir.steps import View
from ..ir.uses import ONE
from ..replay.block_calls import PASSES
from ..replay.elementwise_parts import ADJOINTS, VALUES, StepPass, Word, part
from ..replay.parts import NO_BASES, Bases, Part, Wanted, native_part_of

# --- The text of a fused kernel: what its loop computes of an element, values and adjoints --------
# An adjoint of exactly 0 gives 0 whatever the partial derivative is. A test in every product takes
# half as long again, and matters only where a partial derivative is infinite or NaN, which makes
# the result so. Hence two loops: a plain one without tests, which reports whether its results are
# finite, and a careful one.


#: An adjoint, as the name of a variable and a factor.
Term = tuple[str, str]
#: The most arguments of a call that Numba compiles are 30; beyond that words come in tuples.
_SINGLE, _TOGETHER = 29, 24


class Words:
    """The arguments of a kernel, by name; its loops share them."""

    def __init__(self, code: StepPass):
        self.code = code
        self.names: dict[Word, str] = {}
        self._blocks: dict[tuple[str, View, int], Word] = {}
        self.later: list[tuple] = []
        self.repeated = False  # whether results of the plain loop may be written again

    def pointer(self, word: Word) -> str:
        return self.names.setdefault(word, f"p{len(self.names)}")

    def taken(self) -> tuple[str, list[str]]:
        """The parameters of a function that takes all words, and its first lines."""
        groups = self._groups([*self.names.values()])
        lines = [f"{', '.join(group)} = t{k}" for k, group in enumerate(groups)]
        return ", ".join([f"t{k}" for k in range(len(groups))] or self.names.values()), lines

    def given(self) -> str:
        """The arguments for it, from the table `at`."""
        words = [f"floats(at[{k}])" for k in range(len(self.names))]
        groups = [f"({', '.join(group)})" for group in self._groups(words)]
        return ", ".join(groups or words)

    def _groups(self, words: list[str]) -> list[list[str]]:
        """Words for tuples of at least two; none if each is an argument of its own."""
        count = -(-len(words) // _TOGETHER) if len(words) > _SINGLE else 0
        return [words[k::count] for k in range(count)]

    def block(self, value: str, view: View, side: int, one: bool) -> str:
        """A block, or `one` number, that is added to a view after the kernel."""
        key = (value, view, side)
        if key not in self._blocks:
            self._blocks[key] = self.code.number() if one else self.code.buffer()
            self.later.append((self._blocks[key], view, side, one))
        return self.pointer(self._blocks[key])


class PlainLoop:
    """The lines of the plain loop, and those before and after it."""

    def __init__(self, flow: StepFlow, words: Words):
        self.flow, self.words, self.code = flow, words, words.code
        self.before: list[str] = []
        self.lines: list[str] = []
        self.after: list[str] = []
        self.constants: list[str] = []
        self.made: list[str] = []  # adjoints, as they can be read after the loop
        self._known: dict[Node, str] = {}
        self._texts: dict[int, ElementwiseText] = {}

    def load(self, view: View, side: int) -> str:
        """Read a view; returns the name of the variable."""
        pointer = self.words.pointer(self.code.read(view, side, whole=False))
        name = f"v{pointer[1:]}"
        if self.code.cut.way(view) == ONE:
            line, lines = f"{name} = {pointer}[0]", self.before
        else:
            line, lines = f"{name} = {pointer}[i]", self.lines
        if line not in lines:
            lines.append(line)
        return name

    def value(self, node: Node) -> str:
        if node not in self._known:
            view = self.flow.view(node)
            self._known[node] = self.load(view or self.flow.stores[node][0], VALUES)
        return self._known[node]

    def text_of(self, k: int) -> ElementwiseText:
        """The expressions of operation k in the names of this loop."""
        if k not in self._texts:
            op = self.flow.ops[k]
            nodes = dict(zip((*op.inputs, "out"), (*self.flow.operands[k], k), strict=True))
            place = lambda name: self.value(nodes[name]) if name in nodes else None
            self._texts[k] = ElementwiseText(op, self.lines.append, place, f"o{k}_{{}}")
        return self._texts[k]

    def compute(self, numbers: Iterable[int]) -> None:
        for k in numbers:
            value = self.text_of(k).value()
            self.lines.append(f"o{k} = {self.rounded(value)}")
            self._known[k] = f"o{k}"

    def rounded(self, value: str) -> str:
        """A result as it would be stored: functions of float64 alone are rounded to float32."""
        return f"single({value})" if self.code.item == SINGLE else value

    def results(self) -> None:
        """Compute all that the step writes."""
        self.compute(self.flow.live)
        for k, views in self.flow.stores.items():
            for view in views:
                self._set(self.words.pointer(self.code.place(view, VALUES)), f"o{k}")
        for k, views in self.flow.sums.items():
            for view in views:
                self._add(f"o{k}", view, VALUES)

    def _set(self, pointer: str, value: str) -> str:
        """Write a value; returns how it is read again."""
        self.lines.append(f"{pointer}[i] = {value}")
        return f"{pointer}[i]"

    def _add(self, value: str, view: View, side: int) -> str:
        """Add a value to a view, through a block that is written later, or a sum."""
        one = self.code.cut.way(view) == ONE
        pointer = self.words.block(value, view, side, one)
        if one:
            total = f"s{pointer[1:]}"
            self.before.append(f"{total} = 0.0")
            self.lines.append(f"{total} = sum_of({total}, {value})")
            self.after.append(f"{pointer}[0] = {total}")
            return total
        return self._set(pointer, value)

    def adjoints(self) -> None:
        """Compute adjoints and add them to those of the views that are wanted."""
        terms: dict[Node, list[Term]] = {}
        for k in self.flow.pulled:
            seeds = (*self.flow.stores.get(k, []), *self.flow.sums.get(k, []))
            parts = [(self.load(view, ADJOINTS), "1.0") for view in seeds] + terms.get(k, [])
            adjoint = self._adjoint(k, parts)
            for j, node in self.flow.edges[k]:
                terms.setdefault(node, []).append(self._term(k, j, adjoint))
        for number, node in enumerate(n for n in self.flow.wanted if n in terms):
            view = self.flow.views[node - self.flow.count]
            self.lines.append(f"a{number} = {self._sum(terms[node])}")
            if node in self.flow.set_:
                pointer = self.words.pointer(self.code.place(view, ADJOINTS))
                self.made.append(self._set(pointer, f"a{number}"))
            elif node in self.flow.direct and not self.words.repeated:
                pointer = self.words.pointer(self.code.place(view, ADJOINTS))
                self._set(pointer, f"{pointer}[i] + a{number}")
            else:
                self.made.append(self._add(f"a{number}", view, ADJOINTS))

    def _term(self, k: int, j: int, adjoint: Term) -> Term:
        """The contribution to operand j."""
        (name, factor), sign = adjoint, self.flow.ops[k].signs[j]
        if sign == 1:
            return adjoint
        if sign == -1:
            return name, "-1.0" if factor == "1.0" else f"(-({factor}))"
        return name, f"({self._partial(k, j, self.text_of(k).slopes((j,))[j])})"

    def is_one(self, k: int, j: int) -> bool:
        """Whether the partial of operand j reads only numbers that were stored before the step."""
        steps: list[str] = []
        ElementwiseText(self.flow.ops[k], steps.append).slopes((j,))
        return not steps and all(self.flow.ones[node] for node in self.flow.read_along(k, j))

    def _partial(self, k: int, j: int, text: str) -> str:
        """A partial, as a factor; it is tested for being finite once or in its products."""
        if not self.is_one(k, j):
            self.words.repeated = True
            text, test = shorter(text)
            if test:
                self.lines.append(f"bad = sum_of(bad, select({test}, 0.0, 1.0))")
            return text
        name = f"s{k}_{j}"
        self.before.append(f"{name} = {text}")
        self.constants.append(name)
        return name

    def _adjoint(self, k: int, terms: list[Term]) -> Term:
        """The adjoint of operation k.

        It stays a product where one operand takes it unchanged: partial derivatives that meet there
        are added before they are multiplied.
        """
        edges, by_name = self.flow.edges[k], _by_name(terms)
        passes_on = len(edges) == 1 and self.flow.ops[k].signs[edges[0][0]] != 0
        if len(terms) == 1 and (passes_on or terms[0][1] == "1.0"):
            return terms[0]
        if len(by_name) == 1 and passes_on:
            self.lines.append(f"f{k} = {_added([factor for _, factor in terms])}")
            return terms[0][0], f"f{k}"
        self.lines.append(f"g{k} = {self._sum(terms)}")
        return f"g{k}", "1.0"

    def _sum(self, terms: list[Term]) -> str:
        total = ""
        for name, factors in _by_name(terms).items():
            factor = _added(factors)
            if factor == "1.0":
                total = f"{total} + {name}" if total else name
            elif total:
                total = f"multiply_add({name}, {factor}, {total})"
            else:
                total = f"{name} * ({factor})" if factor != "-1.0" else f"-{name}"
        return total

    def _checks(self) -> list[str]:
        """Whether all adjoints are finite.

        They are read again: the loop that made them has no register to spare.
        """
        if not self.words.repeated:
            return []
        return ["for i in range(n):", f"    bad = sum_of(bad, ({' + '.join(self.made)}) * 0.0)"]

    def text(self, name: str) -> list[str]:
        taken, first = self.words.taken()
        lines = ["@helper", f"def {name}(n, {taken}):", "    inside()", "    unaliased()"]
        lines += [f"    {line}" for line in (*first, "bad = 0.0")]
        lines += [f"    {line}" for line in self.before]
        if self.constants:
            finite = " + ".join(f"({s} - {s})" for s in self.constants)
            lines += [f"    if {finite} != 0.0:", "        return True"]
        lines += ["    for i in range(n):", *(f"        {line}" for line in self.lines)]
        lines += [f"    {line}" for line in (*self.after, *self._checks())]
        return [*lines, "    return bad != 0.0", "", ""]


class CarefulLoop(PlainLoop):
    """The loop that tests every adjoint for 0."""

    def _partial(self, k: int, j: int, text: str) -> str:
        return text

    def _adjoint(self, k: int, terms: list[Term]) -> Term:
        self.lines.append(f"g{k} = {self._sum(terms)}")
        return f"g{k}", "1.0"

    def _sum(self, terms: list[Term]) -> str:
        return " + ".join(product(*term) for term in terms)

    def _checks(self) -> list[str]:
        return []


def _added(factors: list[str]) -> str:
    """The sum of some factors, of which products are added as they are taken."""
    total = factors[0]
    for factor in factors[1:]:
        tree = expression_in(factor)
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
            total = f"multiply_add({ast.unparse(tree.left)}, {ast.unparse(tree.right)}, {total})"
        else:
            total = f"{total} + {factor}"
    return total


def _by_name(terms: list[Term]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, factor in terms:
        found.setdefault(name, []).append(factor)
    return found


# --- Element-wise steps with code of their own: one kernel for all operations, one loop -----------
# The text is put together from the declarations of the operations. It names no sizes and no
# places, so that steps which compute the same share it.
#
# What a kernel writes may be written twice, first by its plain loop, then by the careful one
# (see above). So it is set and never added to: blocks that are added elsewhere are delivered
# after it.


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

    def __init__(self, flow: StepFlow, item: int):
        self.flow, self.code = flow, StepPass(flow, item)
        self.words = Words(self.code)
        self.plain, self.careful = PlainLoop(flow, self.words), CarefulLoop(flow, self.words)

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
    """A step as a kernel for each pass. See `ir.elementwise_step` for `wanted` and `fresh`."""
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

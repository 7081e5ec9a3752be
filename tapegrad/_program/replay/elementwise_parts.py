"""Element-wise steps without code of their own: the kernels of their operations, block by block.

The kernels are those of the sweep; blocks between them live in the run's scratch memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..._core.codegen.elements import ITEM
from ..._core.codegen.layout import FEW_OPERANDS
from ..._core.ops.table import BY_CODE, TABLE
from ..._core.sweep.kernels import compile_adjoint, compile_value
from ..ir.blocks import ONE
from ..ir.elementwise_flow import Flow, Node
from ..ir.elementwise_step import Elementwise
from ..ir.steps import View
from .block_calls import PASSES
from .block_passes import ADJOINTS, VALUES, Buffer, Number, Pass, Word, part
from .parts import NO_BASES, Bases, Part, Wanted, part_of


@functools.cache
def _value_kernel(code: int, item: int, uniform: int = 0) -> int:
    return compile_value(BY_CODE[code], item, uniform)


@functools.cache
def _adjoint_kernel(code: int, item: int, masks: int) -> int:
    return compile_adjoint(BY_CODE[code], masks, item)


class _Values:
    """Values computed in one pass; `uniform` says which operands are numbers (`_uniform`)."""

    def __init__(self, flow: Flow, code: Pass, uniform: dict[int, int]):
        self.flow, self.code, self.uniform = flow, code, uniform
        self.known: dict[int, Word] = {}

    def word(self, node: Node) -> Word:
        """Where the values of a node are in this block; those stored are where they are stored."""
        if isinstance(node, View):
            return self.code.read(node, VALUES, whole=True)
        if node not in self.known:
            stored = self.flow.stores.get(node)
            self.known[node] = self.code.place(stored[0], VALUES) if stored else Buffer()
        return self.known[node]

    def operand(self, k: int, j: int, node: Node) -> Word:
        """What a kernel of operation k is given for operand j."""
        if isinstance(node, View):
            return self.code.read(node, VALUES, whole=not self.uniform[k] >> j & 1)
        return self.word(node)

    def compute(self, numbers: Iterable[int]) -> None:
        for k in numbers:
            words = [self.operand(k, j, node) for j, node in enumerate(self.flow.operands[k])]
            kernel = _value_kernel(self.flow.ops[k].code, self.code.item, self.uniform[k])
            self.code.call(kernel, *words, self.word(k))

    def results(self) -> None:
        """Compute all that the step writes."""
        for views in self.flow.sums.values():
            for view in views:
                self.code.clear(view, VALUES)
        for k in self.flow.live:
            self.compute([k])
            for view in self.flow.stores.get(k, [])[1:]:
                self.code.call("copy", self.word(k), self.code.place(view, VALUES))
            for view in self.flow.sums.get(k, []):
                self.code.deliver(self.word(k), view, VALUES)


class _Adjoints:
    """Adjoints computed in one pass.

    The adjoint of a node may be that of another, while nothing has been added to it: only those
    that are `own` may be written. Those of numbers are sums, which are added where they belong.
    """

    def __init__(self, values: _Values):
        self.values, self.flow, self.code = values, values.flow, values.code
        self.at: dict[Node, Word] = {}
        self.own: set[Node] = set()
        self.left = dict(self.flow.terms)

    def compute(self) -> None:
        for view in self.flow.cleared:
            self.code.clear(view, ADJOINTS)
        for k in self.flow.pulled:
            self._start(k)
            partials, edges = self.flow.ops[k].partials, self.flow.edges(k)
            if others := [(j, node) for j, node in edges if partials[j] != "1.0"]:
                self._call_kernel(k, others)
            for node in [node for j, node in edges if partials[j] == "1.0"]:
                self._start(node)
                self._add(node, self.at[k])
                self._added(node)

    def _start(self, node: Node) -> None:
        """The adjoint of a node begins with those of its results, or where it can be added to."""
        if node in self.at:
            return
        if isinstance(node, View):
            if node in self.flow.direct and node not in self.flow.set_ and self.left[node] == 1:
                self.at[node] = self.code.place(node, ADJOINTS)
                self.own.add(node)
            return
        for view in (*self.flow.stores.get(node, []), *self.flow.sums.get(node, [])):
            self._add(node, self.code.read(view, ADJOINTS, whole=True))

    def _home(self, node: Node) -> Word:
        return self.code.place(node, ADJOINTS) if node in self.flow.set_ else Buffer()

    def _add(self, node: Node, block: Word) -> None:
        """Add a block that is not to be written, or a sum, to the adjoint of a node."""
        if isinstance(node, View) and _is_one(self.flow, node):
            self.code.deliver(block, node, ADJOINTS, summed=isinstance(block, Number))
        elif node in self.own:
            self.code.call("add", block, self.at[node])
        elif node in self.at:
            home = self._home(node)
            kernel = _value_kernel(TABLE["add"].code, self.code.item)
            self.code.call(kernel, self.at[node], block, home)
            self.at[node] = home
            self.own.add(node)
        elif node in self.flow.set_:
            self.at[node] = self._home(node)
            self.own.add(node)
            self.code.call("copy", block, self.at[node])
        else:
            self.at[node] = block

    def _added(self, node: Node) -> None:
        """Bring the adjoint of a view to its place once it is complete."""
        self.left[node] -= 1
        if not isinstance(node, View) or node not in self.at or node in self.flow.set_:
            return
        if self.left[node] == 0:
            place = self.code.place(node, ADJOINTS)
            if self.at[node] != place:
                self.code.deliver(self.at[node], node, ADJOINTS)

    def _call_kernel(self, k: int, edges: list[tuple[int, Node]]) -> None:
        op, g, uniform = self.flow.ops[k], self.at[k], self.values.uniform[k]
        masks = sum(1 << j for j, _ in edges) | uniform << FEW_OPERANDS
        targets: list[Word] = [g] * len(op.inputs)
        later: list[tuple[Node, Word]] = []
        for j, node in edges:
            self._start(node)
            if uniform >> j & 1:
                targets[j] = Number()
            elif len(op.inputs) > FEW_OPERANDS:  # its kernel can only add
                targets[j] = Buffer()
                self.code.call("zero", targets[j])
            elif node in self.own and self.at[node] not in targets:
                targets[j] = self.at[node]
                continue
            else:
                masks |= 1 << 2 * FEW_OPERANDS + j
                targets[j] = Buffer()
                if node not in self.at:
                    self.at[node] = targets[j] = self._home(node)
                    self.own.add(node)
                    continue
            later.append((node, targets[j]))
        kernel = _adjoint_kernel(op.code, self.code.item, masks)
        self.code.call(kernel, *self._read(k), g, *targets)
        for node, word in later:
            self._add(node, word)
        for _, node in edges:
            self._added(node)

    def _read(self, k: int) -> list[Word]:
        """What the partials of operation k may read, its adjoint in place of what they do not."""
        read, g = self.flow.partial_nodes(k), self.at[k]
        nodes = enumerate(self.flow.operands[k])
        words = [self.values.operand(k, j, node) if node in read else g for j, node in nodes]
        return [*words, self.values.word(k) if k in read else g]


def _is_one(flow: Flow, node: Node) -> bool:
    """Whether a node is a number, the same for all elements of a block."""
    return isinstance(node, View) and flow.cut.way(node) == ONE


def _uniform(flow: Flow, k: int) -> int:
    """Which operands a kernel of operation k takes as one number."""
    operands = flow.operands[k]
    if len(operands) > FEW_OPERANDS:
        return 0
    return sum([1 << j for j, node in enumerate(operands) if _is_one(flow, node)])


@part_of.register(Elementwise)
def interpreted(
    step: Elementwise,
    wanted: Wanted,
    fresh: Bases = NO_BASES,
    item: int = ITEM,
    passes: tuple[str, ...] = PASSES,
) -> Part:
    """A step as calls of kernels. See `elementwise_flow` for what `wanted` and `fresh` say."""
    flow = step.flow(wanted, fresh)
    uniform = {k: _uniform(flow, k) for k in flow.live}
    codes = {name: Pass(flow.cut, item) for name in passes}
    for name, code in codes.items():
        values = _Values(flow, code, uniform)
        if name != "reverse":
            values.results()
        else:
            read = {node for k in flow.pulled for node in flow.partial_nodes(k)}
            values.compute(flow.computed(read, set(flow.stores)))
        if name != "forward":
            _Adjoints(values).compute()
    return part(codes, "interpreted")

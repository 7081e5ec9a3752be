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
from ..ir.elementwise_step import Edge, Elementwise, Flow, Node
from .block_calls import PASSES
from .block_passes import ADJOINTS, VALUES, Pass, Word, part
from .parts import NO_BASES, Bases, Part, Wanted, part_of

#: No word.
_NONE: Word = -1


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
        self.known: list[Word] = [_NONE] * (flow.count + len(flow.views))

    def word(self, node: Node) -> Word:
        """Where the values of a node are in this block; those stored are where they are stored."""
        found = self.known[node]
        if found == _NONE:
            found = self.known[node] = self._word(node)
        return found

    def _word(self, node: Node) -> Word:
        view = self.flow.view(node)
        if view is not None:
            return self.code.read(view, VALUES, whole=True)
        stored = self.flow.stores.get(node)
        return self.code.place(stored[0], VALUES) if stored else self.code.buffer()

    def operands(self, k: int) -> list[Word]:
        """What a kernel of operation k is given for its operands."""
        if not self.uniform[k]:
            return [self.word(node) for node in self.flow.operands[k]]
        return [self.operand(k, j, node) for j, node in enumerate(self.flow.operands[k])]

    def operand(self, k: int, j: int, node: Node) -> Word:
        """What it is given for operand j."""
        if self.uniform[k] >> j & 1:
            view = self.flow.views[node - self.flow.count]
            return self.code.read(view, VALUES, whole=False)
        return self.word(node)

    def compute(self, numbers: Iterable[int]) -> None:
        flow, item, each = self.flow, self.code.item, self.code.each
        for k in numbers:
            words = self.operands(k)
            words.append(self.word(k))
            each.append((_value_kernel(flow.ops[k].code, item, self.uniform[k]), words))

    def results(self) -> None:
        """Compute all that the step writes."""
        for views in self.flow.sums.values():
            for view in views:
                self.code.clear(view, VALUES)
        for k in self.flow.live:
            self.compute((k,))
            for view in self.flow.stores.get(k, ())[1:]:
                self.code.call("copy", self.word(k), self.code.place(view, VALUES))
            for view in self.flow.sums.get(k, ()):
                self.code.deliver(self.word(k), view, VALUES)


class _Adjoints:
    """Adjoints computed in one pass, `at` by node.

    The adjoint of a node may be that of another, while nothing has been added to it: only those
    that are `own` may be written. Those of numbers are sums, which are added where they belong.
    """

    def __init__(self, values: _Values):
        self.values, self.flow, self.code = values, values.flow, values.code
        self.left = list(self.flow.terms)
        self.at: list[Word] = [_NONE] * len(self.left)
        self.own = bytearray(len(self.left))

    def compute(self) -> None:
        for view in self.flow.cleared:
            self.code.clear(view, ADJOINTS)
        for k in self.flow.pulled:
            g = self._start(k)
            signs, edges = self.flow.ops[k].signs, self.flow.edges[k]
            if others := [edge for edge in edges if signs[edge[0]] != 1]:
                self._call_kernel(k, g, others)
            for _, node in edges[len(others) :]:  # which take it unchanged
                self._start(node)
                self._add(node, g)
                self._added(node)

    def _start(self, node: Node) -> Word:
        """The adjoint of a node begins with those of its results, or where it can be added to."""
        flow = self.flow
        if self.at[node] != _NONE:
            return self.at[node]
        if node < flow.count:
            for view in (*flow.stores.get(node, ()), *flow.sums.get(node, ())):
                self._add(node, self.code.read(view, ADJOINTS, whole=True))
        elif node in flow.direct and node not in flow.set_ and self.left[node] == 1:
            self.at[node] = self._place(node)
            self.own[node] = True
        return self.at[node]

    def _place(self, node: Node) -> Word:
        return self.code.place(self.flow.views[node - self.flow.count], ADJOINTS)

    def _home(self, node: Node) -> Word:
        return self._place(node) if node in self.flow.set_ else self.code.buffer()

    def _add(self, node: Node, block: Word) -> None:
        """Add a block that is not to be written, or a sum, to the adjoint of a node."""
        flow, code, so_far = self.flow, self.code, self.at[node]
        if flow.ones[node]:
            view = flow.views[node - flow.count]
            code.deliver(block, view, ADJOINTS, summed=code.is_number(block))
        elif self.own[node]:
            code.call("add", block, so_far)
        elif so_far != _NONE:
            home = self._home(node)
            code.call(_value_kernel(TABLE["add"].code, code.item), so_far, block, home)
            self.at[node] = home
            self.own[node] = True
        elif node in flow.set_:
            self.at[node] = self._home(node)
            self.own[node] = True
            code.call("copy", block, self.at[node])
        else:
            self.at[node] = block

    def _added(self, node: Node) -> None:
        """Bring the adjoint of a view to its place once it is complete."""
        self.left[node] -= 1
        word, flow = self.at[node], self.flow
        if node < flow.count or word == _NONE or self.left[node] or node in flow.set_:
            return
        if word != self._place(node):
            self.code.deliver(word, flow.views[node - flow.count], ADJOINTS)

    def _call_kernel(self, k: int, g: Word, edges: list[Edge]) -> None:
        op, uniform, own = self.flow.ops[k], self.values.uniform[k], self.own
        masks = uniform << FEW_OPERANDS
        targets: list[Word] = [g] * len(op.inputs)
        later: list[tuple[Node, Word]] = []
        for j, node in edges:
            masks |= 1 << j
            at = self._start(node)
            if uniform >> j & 1:
                targets[j] = self.code.number()
            elif len(op.inputs) > FEW_OPERANDS:  # its kernel can only add
                targets[j] = self.code.buffer()
                self.code.call("zero", targets[j])
            elif own[node] and at not in targets:
                targets[j] = at
                continue
            else:
                masks |= 1 << 2 * FEW_OPERANDS + j
                if at == _NONE:
                    self.at[node] = targets[j] = self._home(node)
                    own[node] = True
                    continue
                targets[j] = self.code.buffer()
            later.append((node, targets[j]))
        kernel = _adjoint_kernel(op.code, self.code.item, masks)
        self.code.each.append((kernel, [*self._read(k, g), g, *targets]))
        for node, word in later:
            self._add(node, word)
        for _, node in edges:
            self._added(node)

    def _read(self, k: int, g: Word) -> list[Word]:
        """What the partials of operation k may read, its adjoint in place of what they do not."""
        read, values = self.flow.partial_nodes(k), self.values
        words = [
            values.operand(k, j, node) if node in read else g
            for j, node in enumerate(self.flow.operands[k])
        ]
        words.append(values.word(k) if k in read else g)
        return words


def _uniform(flow: Flow, k: int) -> int:
    """Which operands a kernel of operation k takes as one number."""
    operands = flow.operands[k]
    if len(operands) > FEW_OPERANDS:
        return 0
    return sum([1 << j for j, node in enumerate(operands) if flow.ones[node]])


@part_of.register(Elementwise)
def interpreted(
    step: Elementwise,
    wanted: Wanted,
    fresh: Bases = NO_BASES,
    item: int = ITEM,
    passes: tuple[str, ...] = PASSES,
) -> Part:
    """A step as calls of kernels. See `ir.elementwise_step` for what `wanted` and `fresh` say."""
    flow = step.flow(wanted, fresh)
    uniform = {k: _uniform(flow, k) for k in flow.live}
    codes = {name: Pass(flow, item) for name in passes}
    for name, code in codes.items():
        values = _Values(flow, code, uniform)
        if name != "reverse":
            values.results()
        else:
            values.compute(flow.recomputed())
        if name != "forward":
            _Adjoints(values).compute()
    return part(codes, "interpreted")

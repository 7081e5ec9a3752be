"""Text of native code for a region of operations with loops: values.

Names in the text: v5 is the result of operation 5 (as it is in iteration 0), g5 its adjoint; c0 is
a carried value, o0 its adjoint; p7 the value in slot 7 and s7 a sum for its adjoint; i0 a counter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from ..._core.codegen.elements import SINGLE
from ..._core.ops.elementwise_text import ElementwiseText
from ..ir.steps import GUARD
from .checkpoints import Kept
from .finite_partials import Finite
from .loop_finding import Loop
from .loop_operands import FIXED, Chain, Operand, Operands, in_order

HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    apart, helper, inside, load_i32, load_i64, load_u8, multiply_add, single, store_f64, store_i64,
    sum_of, unaliased,
)
from tapegrad._core.codegen.vector_math import select
from tapegrad._program.replay.run_layout import *

INF, NAN = float("inf"), float("nan")
"""
_START = """
def {name}(run, data):
    V, A = floats(load_i64(run, RUN_VALUES)), floats(load_i64(run, RUN_ADJOINTS))
    T = floats(data)
"""


class Writer:
    """Lines of one function, which begins with `start`."""

    start = _START

    def __init__(self, operands: Operands, kept: Kept, stores: Stores):
        self.operands, self.kept, self.stores = operands, kept, stores
        self.region, self.first = operands.region, operands.region.step.first
        self.lines: list[str] = []
        self.indent = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """The lines below a header, which is left out if there are none."""
        self.line(header)
        start = len(self.lines)
        self.indent += 1
        yield
        self.indent -= 1
        if len(self.lines) == start:
            self.lines.pop()

    def text(self, name: str) -> str:
        self.write()
        self.line("return 0")
        return self.start.format(name=name) + "\n".join(self.lines) + "\n"

    def write(self) -> None:
        raise NotImplementedError

    def text_of(self, k: int) -> ElementwiseText:
        """The expressions of an operation in the names of the text."""
        op, values = self.kept.op(k), [x.value for x in self.operands.of[k]]
        names = {**dict(zip(op.inputs, values, strict=True)), "out": f"v{k}"}
        return ElementwiseText(op, self.line, names.get, f"{{}}_{k}")

    def value_of(self, k: int) -> None:
        """Compute an operation."""
        value = self.text_of(k).value()
        self.line(f"v{k} = {self.rounded(value)}")

    def rounded(self, text: str) -> str:
        """A number as a slot would hold it: functions of float64 alone are rounded to float32."""
        return f"single({text})" if self.operands.item == SINGLE else text

    def entries(self, loop: Loop) -> list[tuple[str, str]]:
        """Name and place of each value that is saved of an iteration.

        For a loop in blocks the places are those of this block (f1 is the first iteration of it).
        """
        kept, number = self.kept.entries[loop], self.region.numbers[loop]
        chain = (*self.region.around[loop], loop)
        strides = [len(kept)]
        for inner in chain[:0:-1]:
            strides.insert(0, strides[0] * inner.count)
        pairs = []
        for j, entry in enumerate(kept):
            if loop in self.kept.blocks:
                first = self.kept.blocks[loop].slots + j
                at = f"{first} + (i{number} - f{number}) * {len(kept)}"
            elif loop in self.kept.columns:
                at = self.column(loop, self.kept.slots[loop], j, len(kept))
            else:
                at = self.region.index(self.kept.slots[loop] + j, strides, chain)
            pairs.append((f"v{entry}" if isinstance(entry, int) else entry.name, f"V[{at}]"))
        return pairs

    def column(self, loop: Loop, slot: int, which: int, width: int) -> str:
        """The place of a value of each iteration, contiguous over iterations."""
        chain, strides = (*self.region.around[loop], loop), [1]
        run = self.kept.size(loop, width)
        for around in reversed(chain[:-1]):
            strides.insert(0, run)
            run *= around.count
        return self.region.index(slot + which * self.kept.columns[loop], strides, chain)

    def beginnings(self, loop: Loop) -> list[tuple[str, str]]:
        """Name and place of the values carried into block b of a loop."""
        blocks, around = self.kept.blocks[loop], self.region.around[loop]
        number, size = self.region.numbers[loop], len(self.kept.entries[loop])
        strides = [blocks.count * size]
        for inner in around[:0:-1]:
            strides.insert(0, strides[0] * inner.count)
        places = []
        for j, register in enumerate(self.kept.registers(loop)):
            at = self.region.index(self.kept.slots[loop] + j, strides, around)
            places.append((register.name, f"V[{at} + b{number} * {size}]"))
        return places

    def place(self, k: int, chain: Chain, depth: int) -> str:
        """The slot of a result, in the last iterations of the loops inside of the first `depth`."""
        base = self.first + k + sum(x.length * (x.count - 1) for x in chain[depth:])
        return self.region.index(base, [x.length for x in chain[:depth]], chain)

    def entry(self, table: int, chain: Chain) -> str:
        """The place in a table of bytes with an entry for all counters."""
        strides = [1]
        for inner in chain[:0:-1]:
            strides.insert(0, strides[0] * inner.count)
        return self.region.index(table, strides, chain)

    def fixed(self, nest: Loop) -> list[Operand]:
        """Operands of a nest of loops that are the same slot in all iterations."""
        stop, found = nest.start + nest.length, {}
        for k, operands in self.operands.of.items():
            if nest.start <= k < stop:
                found.update({x.slot: x for x in operands if x.kind == FIXED})
        for loop, around in self.region.around.items():
            if around[:1] == (nest,):
                initial = [x.initial for x in self.operands.carried(loop)]
                found.update({x.slot: x for x in initial if x.kind == FIXED})
        return list(found.values())


class Stores:
    """Which results are stored in their slots, and where in the text.

    `of` a result: the depth of loops (less than its own: after the last iteration), and the offset
    of a table of bytes with the counters concerned, −1 for all. `read` are those with an adjoint.
    """

    def __init__(self, operands: Operands):
        self.of: dict[int, tuple[int, int]] = {}
        self.read: set[int] = set()
        region = operands.region
        for k in operands.of:
            chain = region.chain(k)
            positions = region.positions(k, chain)
            read = region.read[positions]
            if read.any():
                self.read.add(k)
            read = read | region.held[positions]
            if read.any() and region.step.op[k] != GUARD:
                at_once = operands.read_at_once[positions].any()
                self.of[k] = self._where(read, at_once, operands)
                for loop in chain[self.of[k][0] :]:
                    operands.registers[loop].setdefault(k, [])

    def _where(self, read: np.ndarray, at_once: bool, operands: Operands) -> tuple[int, int]:
        if read.all():
            return read.ndim, -1
        for depth in range(0 if not at_once else read.ndim, read.ndim):
            last = (slice(None),) * depth + (-1,) * (read.ndim - depth)
            if read[last].all() and read.sum() == read[last].size:
                return depth, -1
        return read.ndim, operands.data.add(read.astype(np.uint8))

    def after(self, loop: Loop, depth: int) -> list[int]:
        """Results of a loop that are stored after it."""
        return [
            k
            for k, (at, _) in self.of.items()
            if at == depth and loop.start <= k < loop.start + loop.length
        ]


class Forward(Writer):
    """Values, first operation to last; and in slot `flag`, if any, 0 if partials are `finite`."""

    def __init__(self, operands: Operands, kept: Kept, stores: Stores, finite: Finite, flag: int):
        super().__init__(operands, kept, stores)
        self.finite, self.flag = finite, flag
        self.computed: set[int] = set()  # known before the iterations of its loop

    def write(self) -> None:
        region = self.region
        self.body(region.start, region.stop, region.loops, ())
        if self.flag:
            self.line(f"V[{self.flag}] = flag")

    def body(self, start: int, stop: int, loops: list[Loop], chain: Chain) -> None:
        for item in in_order(start, stop, loops):
            if isinstance(item, Loop):
                self.loop(item, chain)
            elif self.region.step.op[item] == GUARD:
                self.guard(item, chain)
            else:
                if item not in self.computed:
                    self.value_of(item)
                self.store(item, chain)

    def guard(self, k: int, chain: Chain) -> None:
        x, y = [operand.value for operand in self.operands.of[k]]
        self.line(f"x, y = {x}, {y}")
        self.line("if not (x == y or (x != x and y != y)):")
        self.line(f"    store_i64(run, RUN_FAILED, {self.place(k, chain, len(chain))})")
        self.line("    store_f64(run, RUN_SEEN, x)")
        self.line("    return GUARD_FAILED")

    def store(self, k: int, chain: Chain) -> None:
        depth, mask = self.stores.of.get(k, (-1, -1))
        if depth == len(chain):
            if mask >= 0:
                self.line(f"if load_u8(data, {self.entry(mask, chain)}) != 0:")
                self.line(f"    V[{self.place(k, chain, depth)}] = v{k}")
            else:
                self.line(f"V[{self.place(k, chain, depth)}] = v{k}")

    def loop(self, loop: Loop, chain: Chain) -> None:
        registers = self.operands.registers[loop]
        if not chain:
            for operand in self.fixed(loop):
                self.line(f"{operand.value} = V[{operand.slot}]")
        after = self.stores.after(loop, len(chain))
        for result in {*registers, *after}:
            self.line(f"v{result} = 0.0")
        for register in self.operands.carried(loop):
            self.line(f"{register.name} = {register.initial.value}")
        self.iterations(loop, chain)
        for register in self.finite.carried.get(loop, []):
            self.line(f"flag = flag + ({register.name} - {register.name})")
        for result in after:
            home = self.region.chain(result)
            self.line(f"V[{self.place(result, home, len(chain))}] = v{result}")

    def iterations(self, loop: Loop, chain: Chain) -> None:
        """All iterations of a loop."""
        raise NotImplementedError

    def iteration(self, loop: Loop, chain: Chain) -> None:
        number = self.region.numbers[loop]
        entries = [] if loop in self.kept.blocks else self.entries(loop)
        if loop in self.kept.blocks:
            self.line(f"b{number} = i{number} // {self.kept.blocks[loop].length}")
            self.line(f"if i{number} == b{number} * {self.kept.blocks[loop].length}:")
            for name, at in self.beginnings(loop):
                self.line(f"    {at} = {name}")
        for name, at in entries:
            if name.startswith("c"):
                self.line(f"{at} = {name}")
        self.body(loop.start, loop.start + loop.length, loop.loops, (*chain, loop))
        for name, at in entries:
            if name.startswith("v") and int(name[1:]) not in self.computed:
                self.line(f"{at} = {name}")
        for register in self.operands.carried(loop):
            self.line(f"{register.name} = v{register.result}")

"""Text of native code for regions of operations with loops: checkpoints, values, adjoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterator

import numpy as np

from ..._core.codegen.elements import SINGLE
from ..._core.codegen.layout import CACHE_LINE
from ..._core.ops.elementwise_text import ElementwiseText
from ..._core.ops.table import BY_CODE, POWERS, Pointwise, in_branches, number_in, product
from ..ir.steps import GUARD
from .loop_finding import CARRIED, FIXED, LOCAL, Chain, Loop, Operand, Operands, Register, in_order

# --------------------------------------------------------------------------------------------------
# Checkpoints of the reverse pass of a region: recomputed, saved by iteration, or read in the
# slot.
# Inside loops the body of an iteration is recomputed from the values carried into it: a trajectory
# keeps these, and the results of functions that take longer than a load; of short loops all
# results. Outside of loops results are read where they are stored, and so are results of a loop
# that the code after it reads.
#
# A loop may be cut into blocks of about the square root of its iterations: then carried values are
# saved where a block begins, and reverse runs each block forwards before it goes back.


#: The number of slots that stay in the cache. Up to it all results of loops that carry something
#: are saved: forward waits for what it carries and has time to write them.
IN_CACHE = 1 << 16
#: Loops of fewer iterations are not cut into blocks.
LONG = 64
#: Functions that are computed in a few instructions.
QUICK = {"sqrt", "absolute", "sign", "floor", "ceil", "rint", "trunc", "maximum", "minimum"}


@dataclasses.dataclass(frozen=True)
class Blocks:
    """`count` blocks of `length` iterations; one of them is kept in slots from `slots` on."""

    length: int
    count: int
    slots: int


class KeptValues:
    """What the reverse pass of a region needs. `recomputed` are results, those of bodies of loops.

    `cut` says that long loops are cut into blocks.
    """

    def __init__(self, operands: Operands, wanted, new_slots: Callable[[int], int], cut: bool):
        self.operands, self.region = operands, operands.region
        self.wanted = wanted
        self._line = CACHE_LINE // operands.item  # slots of a cache line
        self._wanted: dict[int, bool] = {}  # by operation
        self.blocks: dict[Loop, Blocks] = {}  # of loops with checkpoints at intervals
        #: By loop whose entries are contiguous over iterations: the slots of one entry.
        self.columns: dict[Loop, int] = {}
        self.slots: dict[Loop, int] = {}
        self._find(set())
        carrying = {loop for loop in self.entries if self.registers(loop)}
        long = {loop for loop in carrying if cut and not loop.loops and loop.count >= LONG}
        self._find(carrying - long)
        if sum(self.total(x, len(kept)) for x, kept in self.entries.items()) > IN_CACHE:
            self._find(set())
        for loop in self.region.numbers:
            if loop in long:
                self._cut(loop, new_slots)

    def allot(self, new_slots: Callable[[int], int], columns: Collection[Loop]) -> None:
        """Give the entries of all loops their slots, those of `columns` side by side."""
        self.columns = {loop: self._apart(loop.count) for loop in columns}
        for loop, kept in self.entries.items():
            if kept:
                total = self.total(loop, len(kept))
                place = self.in_lines(new_slots, total) if loop in columns else new_slots(total)
                self.slots[loop] = place

    def _apart(self, count: int) -> int:
        """Slots of `count` iterations: an odd number of cache lines, so that columns spread."""
        return self._line * (-(-count // self._line) | 1)

    def in_lines(self, new_slots: Callable[[int], int], count: int) -> int:
        """The given number of new slots, which begin with a cache line."""
        return -(-new_slots(count + self._line - 1) // self._line) * self._line

    def registers(self, loop: Loop) -> list[Register]:
        """The carried values of a loop that reverse needs."""
        return [entry for entry in self.entries[loop] if isinstance(entry, Register)]

    def _cut(self, loop: Loop, new_slots: Callable[[int], int]) -> None:
        """Cut a loop into blocks; what its iterations need to be computed again is needed too."""
        chain, known = (*self.region.around[loop], loop), 0
        while known < len(self.entries[loop]):
            entry = self.entries[loop][known]
            known += 1
            if isinstance(entry, Register):
                self._need(Operand(LOCAL, "", result=entry.result), chain, entry.result)
                continue
            for name in self._names(entry):
                self._need(self._operand(entry, name), chain, entry)
        length = math.isqrt(loop.count - 1) + 1
        slots = new_slots(length * len(self.entries[loop]))
        self.blocks[loop] = Blocks(length, math.ceil(loop.count / length), slots)

    def _find(self, whole: set[Loop]) -> None:
        """Find recomputed and saved values; of the loops in `whole` all results are saved."""
        self.whole = whole
        self.recomputed: set[int] = set()
        #: By loop: what is saved of each iteration, registers and results.
        self.entries: dict[Loop, list[Register | int]] = {x: [] for x in self.region.numbers}
        #: By loop (None: outside of loops): results of loops inside that are read after them.
        self.last: dict[Loop | None, set[int]] = {x: set() for x in (None, *self.region.numbers)}
        #: By outermost loop or operation outside of loops: results and slots that are read.
        self.outer: dict[Loop | int, set[int]] = {}
        self.fixed: set[tuple[Loop, int]] = set()
        self._visit()

    def size(self, loop: Loop, width: int) -> int:
        """The slots of a number of values of each iteration, for one run of a loop."""
        times = self.blocks[loop].count if loop in self.blocks else loop.count
        return self.columns.get(loop, times) * width

    def total(self, loop: Loop, width: int) -> int:
        """The same for all its runs."""
        total = self.size(loop, width)
        for around in self.region.around[loop]:
            total *= around.count
        return total

    def is_wanted(self, k: int) -> bool:
        """Whether the adjoint of an operation's result is wanted."""
        if k not in self._wanted:
            slots = self.region.step.first + self.region.positions(k, self.region.chain(k))
            self._wanted[k] = bool(self.wanted[slots].any())
        return self._wanted[k]

    def op(self, k: int) -> Pointwise:
        return BY_CODE[int(self.region.step.op[k])]

    def edges(self, k: int) -> dict[int, str]:
        """Operands, by number, whose adjoint operation k adds to, with the partial derivatives."""
        if self.region.step.op[k] == GUARD or not self.is_wanted(k):
            return {}
        op, operands = self.op(k), self.operands.of[k]
        return ElementwiseText(op, lambda _: None).slopes(
            [j for j in op.sloping if operands[j].wanted]
        )

    def _visit(self) -> None:
        for k in self.operands.of:
            edges = self.edges(k)
            for name in self.op(k).read_by(edges) if edges else ():
                self._need(self._operand(k, name), self.region.chain(k), k)

    def _names(self, k: int) -> set[str]:
        """The inputs that the value of operation k reads."""
        return self.op(k).read(self.op(k).value)

    def _operand(self, k: int, name: str) -> Operand:
        if name == "out":
            return Operand(LOCAL, f"v{k}", result=k)
        return self.operands.of[k][self.op(k).inputs.index(name)]

    def _need(self, operand: Operand, chain: Chain, k: int) -> None:
        """Note how reverse gets the value of an operand, and what that requires."""
        todo = [(operand, chain)]
        while todo:
            operand, chain = todo.pop()
            if operand.kind == CARRIED:
                self._keep(operand.register)
            elif operand.kind == FIXED:
                self.fixed.add((chain[0], operand.slot))
            elif operand.kind == LOCAL:
                todo += self._need_result(operand.result, chain, k)

    def _keep(self, entry) -> None:
        loop = self.region.chain(entry)[-1] if isinstance(entry, int) else entry.loop
        if entry not in self.entries[loop]:
            self.entries[loop].append(entry)

    def _need_result(self, result: int, chain: Chain, k: int) -> list[tuple[Operand, Chain]]:
        home = self.region.chain(result)
        common = 0
        while common < min(len(home), len(chain)) and home[common] is chain[common]:
            common += 1
        if common < len(home):
            self.last[chain[common - 1] if common else None].add(result)
            self.region.held[self.region.last_positions(result, home, common)] = True
        if not common:
            node = chain[0] if chain else k
            self.outer.setdefault(node, set()).add(result)
            if not home:
                self.region.held[result] = True
        if common < len(home) or not home or result in self.recomputed:
            return []
        self.recomputed.add(result)
        if (home and home[-1] in self.whole) or self.takes_long(result):
            self._keep(result)
            return []
        return [(self._operand(result, name), home) for name in self._names(result)]

    def takes_long(self, k: int) -> bool:
        """Whether an operation calls a function that is more than a few instructions."""
        op = self.op(k)
        functions = functions_of(op.value, *[text for _, text in op.needed(op.value)])
        return not (op.name in POWERS or functions <= QUICK)


def functions_of(*texts: str) -> set[str]:
    """The functions under NumPy's names that expressions call."""
    return set(re.findall(r"\bnp\.(\w+)", " ".join(texts)))


# --- The places where the reverse pass of a loop need not test whether an adjoint is exactly 0 ----
# An adjoint of 0 gives 0 even where the partial derivative is infinite or NaN. Sums and products
# with operands that are not finite are not finite either. So if the values that a loop carries are
# finite when it ends, everything that entered them by sums and products only is finite, and so are
# the partial derivatives of those products: a plain product is sufficient for them. The carried
# values are tested once, after the loop.


#: Operations whose result is not finite if an operand is not; their partial derivatives are
#: operands or 1.
_PASS_ON = {"add", "subtract", "multiply", "negative", "square"}


class Finite:
    """`carried`, by loop, is tested; the partials of `operations` are finite if it is."""

    def __init__(self, kept: KeptValues):
        self.kept, self.operands = kept, kept.operands
        self.carried: dict[Loop, list[Register]] = {}
        self.operations: set[int] = set()
        for loop in self.operands.region.numbers:
            if not loop.loops:
                self._visit(loop)

    def _visit(self, loop: Loop) -> None:
        """Find the registers of a loop that pass on from iteration to iteration to its end."""
        lasting = self.operands.carried(loop)
        while True:
            reaching = self._reaching(loop, {register.result for register in lasting})
            still = [register for register in lasting if register in reaching]
            if len(still) == len(lasting):
                break
            lasting = still
        found = {k for k in reaching if isinstance(k, int) and self._passes_on(k)}
        if any(self.kept.edges(k) for k in found):
            self.carried[loop] = lasting
            self.operations |= found

    def _passes_on(self, k: int) -> bool:
        step = self.operands.region.step
        return step.op[k] != GUARD and self.kept.op(k).name in _PASS_ON

    def _reaching(self, loop: Loop, results: set[int]) -> set[int | Register]:
        """The results and registers that go into some results by sums and products."""
        found: set[int | Register] = {*results}
        for k in reversed(range(loop.start, loop.start + loop.length)):
            if k in found and self._passes_on(k):
                for operand in self.operands.of[k]:
                    if operand.kind == LOCAL:
                        found.add(operand.result)
                    elif operand.kind == CARRIED and operand.register is not None:
                        found.add(operand.register)
        return found & {*range(loop.start, loop.start + loop.length), *self.operands.carried(loop)}


# --- Text of native code for a region of operations with loops: values ----------------------------
# Names in the text: v5 is the result of operation 5 (as it is in iteration 0), g5 its adjoint; c0
# is a carried value, o0 its adjoint; p7 the value in slot 7 and s7 a sum for its adjoint; i0 a
# counter.


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


class TextWriter:
    """Lines of one function, which begins with `start`."""

    start = _START

    def __init__(self, operands: Operands, kept: KeptValues, stores: Stores):
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


class Forward(TextWriter):
    """Values, first operation to last; and in slot `flag`, if any, 0 if partials are `finite`."""

    def __init__(
        self, operands: Operands, kept: KeptValues, stores: Stores, finite: Finite, flag: int
    ):
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


# --- Text of native code for operations with loops: adjoints. Names as for values -----------------


class Reverse(TextWriter):
    """Adjoints, last operation to first; the partials of operations in `finite` are finite."""

    def __init__(self, operands: Operands, kept: KeptValues, stores: Stores, finite: set[int]):
        super().__init__(operands, kept, stores)
        self.finite = finite
        self.begun: set[str] = set()
        self.loaded: set[int] = set()

    def write(self) -> None:
        region = self.region
        self.body(region.start, region.stop, region.loops, ())

    def add(self, name: str, part: str) -> None:
        """Add to an adjoint: in memory, or in a variable that begins with the first part."""
        if name.startswith("A"):
            self.line(f"{name} += {part}")
        elif name in self.begun:
            self.line(f"{name} = {name} + {part}")
        else:
            self.begun.add(name)
            self.line(f"{name} = {part}")

    def begin(self, name: str) -> None:
        if name not in self.begun:
            self.add(name, "0.0")

    def body(self, start: int, stop: int, loops: list[Loop], chain: Chain) -> None:
        for item in reversed(list(in_order(start, stop, loops))):
            if not chain:
                self.load(item)
            if isinstance(item, Loop):
                self.loop(item, chain)
            else:
                self.operation(item, chain)

    def load(self, item: Loop | int) -> None:
        """Read the results outside of loops, and the last ones of loops, that an item needs."""
        for k in sorted(self.kept.outer.get(item, set()) - self.loaded):
            self.loaded.add(k)
            self.line(f"v{k} = V[{self.place(k, self.region.chain(k), 0)}]")

    def arrived(self, k: int, chain: Chain) -> bool:
        """Whether the adjoint of a result has a contribution; those of others are added."""
        depth, mask = self.stores.of.get(k, (-1, -1))
        if depth == len(chain) and k in self.stores.read:
            at = f"A[{self.place(k, chain, depth)}]"
            if mask < 0:
                self.add(f"g{k}", at)
            else:
                self.begin(f"g{k}")
                self.line(f"if load_u8(data, {self.entry(mask, chain)}) != 0:")
                self.line(f"    g{k} = g{k} + {at}")
        return f"g{k}" in self.begun

    def operation(self, k: int, chain: Chain) -> None:
        edges = self.kept.edges(k)
        if not edges or not self.arrived(k, chain):
            return
        parts: dict[str, list[str]] = {}
        for j, partial in self.text_of(k).slopes(edges).items():
            if target := self.target(self.operands.of[k][j]):
                parts.setdefault(target, []).append(self.factor(partial))
        for name, several in parts.items():
            if k in self.finite:
                self.add_product(name, f"g{k}", " + ".join(several))
            else:
                part = " + ".join(product(f"g{k}", partial) for partial in several)
                self.add(name, part if len(several) == 1 else f"({part})")

    def factor(self, partial: str) -> str:
        """A partial derivative as it is computed."""
        rounded = lambda one: self.rounded(one) if number_in(one) is None else one
        return in_branches(partial, rounded)

    def target(self, operand: Operand) -> str | None:
        """The target of an operation's contribution to an operand."""
        return operand.adjoint

    def add_product(self, name: str, adjoint: str, partial: str) -> None:
        """Add an adjoint times a finite partial derivative."""
        if name in self.begun and partial not in ("1.0", "-1.0"):
            self.line(f"{name} = multiply_add({adjoint}, {partial}, {name})")
        elif partial in ("1.0", "-1.0"):
            self.add(name, product(adjoint, partial))
        else:
            self.add(name, f"{adjoint} * ({partial})")

    def loop(self, loop: Loop, chain: Chain) -> None:
        fixed = [] if chain else self.fixed(loop)
        self.before(loop, chain, fixed)
        arriving = self.arriving(loop)
        for k, (first, *others) in arriving.items():
            self.line(f"{first} = {f'g{k}' if f'g{k}' in self.begun else '0.0'}")
            for name in others:
                self.line(f"{name} = 0.0")
        self.iterations(loop, chain, arriving)
        for register in self.operands.carried(loop):
            if register.initial.wanted:
                self.add(register.initial.adjoint, register.adjoint)
        for operand in fixed:
            if operand.wanted:
                self.line(f"A[{operand.slot}] += {operand.adjoint}")

    def iterations(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        """All iterations of a loop, last to first."""
        if loop in self.kept.blocks:
            self.blocks(loop, chain, arriving)
        else:
            number = self.region.numbers[loop]
            with self.block(f"for j{number} in range({loop.count}):"):
                self.line(f"i{number} = {loop.count - 1} - j{number}")
                self.iteration(loop, (*chain, loop), arriving)

    def blocks(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        """The blocks of a loop, last one first: forwards to save the needed values, then back."""
        number, cut = self.region.numbers[loop], self.kept.blocks[loop]
        with self.block(f"for k{number} in range({cut.count}):"):
            self.line(f"b{number} = {cut.count - 1} - k{number}")
            self.line(f"f{number} = b{number} * {cut.length}")
            self.line(f"l{number} = min(f{number} + {cut.length}, {loop.count})")
            for name, at in self.beginnings(loop):
                self.line(f"{name} = {at}")
            with self.block(f"for i{number} in range(f{number}, l{number}):"):
                self.compute_again(loop, ())
                for name, at in self.entries(loop):
                    self.line(f"{at} = {name}")
                for register in self.kept.registers(loop):
                    self.line(f"{register.name} = v{register.result}")
            with self.block(f"for j{number} in range(l{number} - f{number}):"):
                self.line(f"i{number} = l{number} - 1 - j{number}")
                self.iteration(loop, (*chain, loop), arriving)

    def before(self, loop: Loop, chain: Chain, fixed: list[Operand]) -> None:
        """Before the loop begins: fixed values, contributions of others to results, sums begun."""
        for operand in fixed:
            if (loop, operand.slot) in self.kept.fixed:
                self.line(f"{operand.value} = V[{operand.slot}]")
            if operand.wanted:
                self.begun.discard(operand.adjoint)
                self.begin(operand.adjoint)
        for k in self.stores.after(loop, len(chain)):
            if k in self.stores.read and self.kept.is_wanted(k):
                self.add(f"g{k}", f"A[{self.place(k, self.region.chain(k), len(chain))}]")
        for name in self.added_inside(loop):
            self.begin(name)

    def iteration(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        for k, adjoints in arriving.items():
            self.line(f"g{k} = {' + '.join(adjoints)}")
            self.begun.add(f"g{k}")
            self.begun -= {*adjoints}
        self.values(loop, chain)
        self.body(loop.start, loop.start + loop.length, loop.loops, chain)
        for adjoints in arriving.values():
            for name in adjoints:
                self.begin(name)

    def values(self, loop: Loop, chain: Chain) -> None:
        """The values of an iteration that its reverse reads: saved, or recomputed."""
        entries = self.entries(loop)
        for name, at in entries:
            self.line(f"{name} = {at}")
        for item in loop.loops:
            self.last_results(loop, item, chain)
        self.compute_again(loop, [name for name, _ in entries])

    def arriving(self, loop: Loop) -> dict[int, list[str]]:
        """By result of a loop: variables with the adjoint that comes from later iterations.

        It is the contribution to a carried value in the next iteration, and in the last iteration
        that after the loop. A result whose own adjoint is not needed may continue an initial value
        whose adjoint is.
        """
        number = self.region.numbers[loop]
        return {
            k: [x.adjoint for x in registers] or [f"e{number}_{k}"]
            for k, registers in self.operands.registers[loop].items()
            if self.kept.is_wanted(k) or any(x.initial.wanted for x in registers)
        }

    def added_inside(self, loop: Loop) -> list[str]:
        """Variables from outside of a loop that operations inside add to."""
        names: dict[str, None] = {}
        for k, operands in self.operands.of.items():
            if loop.start <= k < loop.start + loop.length and self.kept.edges(k):
                for operand in operands:
                    if operand.wanted and self.is_outer(operand, loop):
                        names[operand.adjoint] = None
        for inner, around in self.region.around.items():
            if loop in around:
                for register in self.operands.carried(inner):
                    if register.initial.wanted and self.is_outer(register.initial, loop):
                        names[register.initial.adjoint] = None
        return list(names)

    def is_outer(self, operand: Operand, loop: Loop) -> bool:
        if operand.register:
            return operand.register.loop in self.region.around[loop]
        return operand.kind == LOCAL and not loop.start <= operand.result < loop.start + loop.length

    def last_results(self, loop: Loop, inner: Loop, chain: Chain) -> None:
        """Read the last results of a loop inside that an iteration needs."""
        for k in sorted(self.kept.last[loop]):
            if inner.start <= k < inner.start + inner.length:
                self.line(f"v{k} = V[{self.place(k, self.region.chain(k), len(chain))}]")

    def compute_again(self, loop: Loop, known: Collection[str]) -> None:
        """The values of an iteration that its reverse reads, except for known ones."""
        for item in in_order(loop.start, loop.start + loop.length, loop.loops):
            if item in self.kept.recomputed and f"v{item}" not in known:
                self.value_of(item)

"""Text of native code for operations with loops: adjoints. Names as in `loop_values`."""

from __future__ import annotations

from collections.abc import Collection

from ..._core.ops.table import in_branches, number_in, product
from .checkpoints import Kept
from .loop_finding import Loop
from .loop_operands import LOCAL, Chain, Operand, Operands, in_order
from .loop_values import Stores, Writer


class Reverse(Writer):
    """Adjoints, last operation to first; the partials of operations in `finite` are finite."""

    def __init__(self, operands: Operands, kept: Kept, stores: Stores, finite: set[int]):
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
        rounded = lambda one: self.rounded(one) if number_in(one) is None else one  # noqa: E731
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

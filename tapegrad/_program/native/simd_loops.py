"""Text of native code for lanes of loops. Names as in `loop_values`.

In addition: J are the Jacobians of a loop, K its saved values, S numbers of the iterations of a
block; to7 is the contribution of an iteration to o7.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from ..._core.ops.table import number_in, selects
from .loop_adjoints import Reverse
from .loop_finding import Loop
from .loop_operands import LOCAL, Chain, Operand
from .loop_values import Forward, Writer
from .simd_planning import BLOCK, Lanes

#: Names of values, fixed slots, carried values and counters in the text.
_NAMES = re.compile(r"\b[vpci]\d+\b")
#: The most values from outside of a loop that a function of it takes.
_OUTER = 20
_JACOBIAN = """
@helper
def jacobian{number}(V, J, T, data, first, stop{outer}):
    inside()
    unaliased()
    bad = 0.0
    for i{number} in range(first, stop):
{lines}
    return bad
"""
_INDEPENDENT = """
@helper
def independent{number}(V, K, S, T, data, first, stop{outer}):
    inside()
    unaliased()
    for i{number} in range(first, stop):
{lines}
"""
_VALUES = """
def {name}(run, data, ahead, flag):
    apart()
    memory = load_i64(run, RUN_VALUES)
    V, A, T = floats(memory), floats(load_i64(run, RUN_ADJOINTS)), floats(data)
    S = floats(memory + {block})
"""
_FORWARD = """
def forward(run, data):
    return values(run, data, False, {flag})


"""
_AHEAD = """
def ahead(run, data):
    return values(run, data, True, 0.0)


"""
_ADJOINTS = """
def {name}_(V, A, T, S, memory, data):
    inside()
    unaliased()
"""
_CALL = """
@helper
def {name}(run, data):
    memory, adjoints = load_i64(run, RUN_VALUES), load_i64(run, RUN_ADJOINTS)
    S = floats(memory + {block})
    return {name}_(floats(memory), floats(adjoints), floats(data), S, memory, data)
"""


def _outer(lines: list[str], number: int) -> list[str]:
    """The names that lines read and do not compute themselves."""
    assigned = {line.split(" = ")[0].strip() for line in lines}
    return sorted({*_NAMES.findall("\n".join(lines))} - assigned - {f"i{number}"})


class Independent(Writer):
    """A function that computes independent operations of a loop for some iterations.

    `places` are those of the results that others read, as named in a block that begins with
    iteration h.
    """

    def __init__(self, lanes: Lanes, loop: Loop):
        super().__init__(lanes.kept.operands, lanes.kept, lanes.stores)
        self.lanes, self.loop, self.number = lanes, loop, self.region.numbers[loop]
        self.places: dict[int, str] = {}
        self.indent = 2
        self.write()
        self.outer = _outer(self.lines, self.number)

    def write(self) -> None:
        kept, read = self.kept.entries[self.loop], self._read()
        at = dict(self.entries(self.loop))
        for k in self.lanes.independent[self.loop]:
            self.value_of(k)
            if k in kept:
                self.places[k] = at[f"v{k}"]
                self.line(f"K[{self.column(self.loop, 0, kept.index(k), len(kept))}] = v{k}")
            elif k in read:
                column = sum(place.startswith("S") for place in self.places.values()) * BLOCK
                self.places[k] = f"S[{column} + i{self.number} - h{self.number}]"
                self.line(f"S[{column} + i{self.number} - first] = v{k}")
        self.places = {k: place for k, place in self.places.items() if k in read}

    def _read(self) -> set[int]:
        """Results that are read by other operations, or after an iteration."""
        mine = {*self.lanes.independent[self.loop]}
        others = [k for k in self.lanes.body(self.loop) if k not in mine]
        read = {x.result for k in others for x in self.operands.of[k] if x.kind == LOCAL}
        return mine & (read | {*self.stores.of} | {*self.operands.registers[self.loop]})

    def function(self) -> str:
        outer, lines = "".join(f", {name}" for name in self.outer), "\n".join(self.lines)
        return _INDEPENDENT.format(number=self.number, outer=outer, lines=lines)

    def call(self) -> str:
        kept = f"floats(memory + {self.operands.item * self.kept.slots.get(self.loop, 0)})"
        block = f"h{self.number}", f"l{self.number}"
        words = ", ".join(["V", kept, "S", "T", "data", *block, *self.outer])
        return f"independent{self.number}({words})"


class Iteration(Reverse):
    """Lines of the reverse of one iteration of a loop, which is in lanes."""

    def __init__(self, lanes: Lanes, loop: Loop, indent: int):
        super().__init__(lanes.kept.operands, lanes.kept, lanes.stores, lanes.operations)
        self.around, self.carried = (*self.region.around[loop], loop), lanes.carried(loop)
        self.to_carried = self.read = False
        self.indent = indent

    def adjoints(self, seeds: dict[int, str], to_carried: bool, read: bool) -> None:
        """Go back from `seeds` (text by result).

        Contributions to adjoints of carried values are left in names of their own, and so are those
        to sums; only one of both, as `to_carried` says. Where results are `read` by others that
        adds to their adjoints, except for those of carried values.
        """
        self.to_carried, self.read, self.begun = to_carried, read, set()
        for k, text in seeds.items():
            self.add(f"g{k}", text)
        loop = self.around[-1]
        self.body(loop.start, loop.start + loop.length, [], self.around)

    def arrived(self, k: int, chain: Chain) -> bool:
        if self.read and k not in self.carried:
            return super().arrived(k, chain)
        return f"g{k}" in self.begun

    def target(self, operand: Operand) -> str | None:
        loop = self.around[-1]
        if operand.kind == LOCAL and loop.start <= operand.result < loop.start + loop.length:
            return operand.adjoint
        carried = operand.register is not None and operand.register.loop is loop
        if carried != self.to_carried:
            return None
        return operand.adjoint if operand.adjoint.startswith("A") else f"t{operand.adjoint}"

    def watched(self, finite: set[int]) -> list[str]:
        """The partials of operations that are not among the `finite`; write what they need."""
        found, loop = [], self.around[-1]
        for k in range(loop.start, loop.start + loop.length):
            if k not in finite and (edges := self.kept.edges(k)):
                partials = self.text_of(k).slopes(edges).values()
                found += [self.factor(one) for one in partials if number_in(one) is None]
        return found

    def sums(self) -> list[str]:
        """The names of adjoints that have been added to, but for those of results inside."""
        return sorted(name[1:] for name in self.begun if name.startswith("t"))


class Jacobian:
    """A function that computes the Jacobians of some iterations of a loop: its text, and a call.

    `numbers` are those that are not 0 everywhere, in the order of their columns: from which result
    of the iteration to which adjoint of a carried value. Where a partial derivative `selects`, one
    of exactly 0 passes on 0 even of an infinite adjoint.
    """

    def __init__(self, lanes: Lanes, loop: Loop):
        self.lanes, self.loop = lanes, loop
        self.numbers: list[tuple[int, str]] = []
        for k in lanes.carried(loop):
            iteration = Iteration(lanes, loop, 0)
            iteration.adjoints({k: "1.0"}, to_carried=True, read=False)
            self.numbers += [(k, adjoint) for adjoint in iteration.sums()]
        self.number, self.lines = lanes.kept.region.numbers[loop], self._written().lines
        self.outer = _outer(self.lines, self.number)
        inside = range(loop.start, loop.start + loop.length)
        found = [partial for k in inside for partial in lanes.kept.edges(k).values()]
        self.selects = any(map(selects, found))

    def _written(self) -> Iteration:
        iteration = Iteration(self.lanes, self.loop, 2)
        iteration.values(self.loop, iteration.around)
        if partials := iteration.watched(self.lanes.finite.operations):
            iteration.line(f"bad = sum_of(bad, ({' + '.join(partials)}) * 0.0)")
        for k in self.lanes.carried(self.loop):
            iteration.adjoints({k: "1.0"}, to_carried=True, read=False)
            for result, adjoint in self.numbers:
                if result == k:
                    iteration.line(f"{self.at(iteration, k, adjoint)} = t{adjoint}")
        return iteration

    def at(self, writer: Reverse, result: int, adjoint: str, memory: str = "J") -> str:
        """The place of a number."""
        which = self.numbers.index((result, adjoint))
        return f"{memory}[{writer.column(self.loop, 0, which, len(self.numbers))}]"

    def function(self) -> str:
        outer, lines = "".join(f", {name}" for name in self.outer), "\n".join(self.lines)
        return _JACOBIAN.format(number=self.number, outer=outer, lines=lines)

    def call(self, first: str, stop: str) -> str:
        memory = f"floats(memory + {self.lanes.operands.item * self.lanes.jacobians[self.loop]})"
        words = ", ".join(["V", memory, "T", "data", first, stop, *self.outer])
        return f"jacobian{self.number}({words})"


class ForwardInLanes(Forward):
    """Values, first operation to last; Jacobians if they are computed `ahead`."""

    def __init__(self, lanes: Lanes, flag: int, functions: Functions):
        super().__init__(lanes.kept.operands, lanes.kept, lanes.stores, lanes.finite, flag)
        self.functions, self.group = functions, lanes.group
        self.start = _VALUES.format(name="{name}", block=lanes.kept.operands.item * lanes.block)
        self.computed = {k for loop in functions.independent for k in lanes.independent[loop]}

    def iterations(self, loop: Loop, chain: Chain) -> None:
        """In blocks, if something is computed first."""
        number, independent = self.region.numbers[loop], self.functions.independent.get(loop)
        if independent is None:
            self.some(loop, chain, "0", str(loop.count))
            return
        with self.block(f"for k{number} in range({math.ceil(loop.count / BLOCK)}):"):
            self.line(f"h{number} = k{number} * {BLOCK}")
            self.line(f"l{number} = min(h{number} + {BLOCK}, {loop.count})")
            self.line(independent.call())
            self.some(loop, chain, f"h{number}", f"l{number}")

    def some(self, loop: Loop, chain: Chain, first: str, stop: str) -> None:
        """Some iterations; in groups, each with the Jacobians of the one before."""
        number, jacobian = self.region.numbers[loop], self.functions.jacobians.get(loop)
        group = self.group
        if jacobian is None:
            with self.block(f"for i{number} in range({first}, {stop}):"):
                self.iteration(loop, chain)
            return
        groups = f"({stop} + {group - 1}) // {group} + ({stop} == {loop.count})"
        with self.block(f"for b{number} in range({first} // {group}, {groups}):"):
            self.line(f"f{number} = b{number} * {group}")
            end = f"min(f{number} + {group}, {stop})"
            with self.block(f"for i{number} in range(f{number}, {end}):"):
                self.iteration(loop, chain)
            self.line("if ahead:")
            before = f"max(f{number} - {group}, 0)", f"min(f{number}, {loop.count})"
            self.line(f"    flag = flag + {jacobian.call(*before)}")

    def body(self, start: int, stop: int, loops: list[Loop], chain: Chain) -> None:
        if chain and chain[-1] in self.functions.independent:
            for k, place in self.functions.independent[chain[-1]].places.items():
                self.line(f"v{k} = {place}")
        super().body(start, stop, loops, chain)


class ReverseInLanes(Reverse):
    """Adjoints, last operation to first."""

    start = _ADJOINTS

    def __init__(self, lanes: Lanes, functions: Functions):
        super().__init__(lanes.kept.operands, lanes.kept, lanes.stores, lanes.operations)
        self.lanes, self.jacobians = lanes, functions.jacobians

    def text(self, name: str) -> str:
        return super().text(name) + _CALL.format(
            name=name, block=self.operands.item * self.lanes.block
        )

    def iterations(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        """In blocks, the last one first; those that only add up in any order."""
        if loop in self.lanes.sums:
            with self.block(f"for i{self.region.numbers[loop]} in range({loop.count}):"):
                self.all_else(loop, {k: arriving[k][0] for k in self.lanes.carried(loop)})
            return
        if loop not in self.jacobians:
            super().iterations(loop, chain, arriving)
            return
        number, blocks = self.region.numbers[loop], math.ceil(loop.count / BLOCK)
        carried = {k: self.at(loop, j) for j, k in enumerate(self.lanes.carried(loop))}
        with self.block(f"for k{number} in range({blocks}):"):
            self.line(f"f{number} = ({blocks - 1} - k{number}) * {BLOCK}")
            self.line(f"l{number} = min(f{number} + {BLOCK}, {loop.count})")
            self.chain(loop, chain, arriving)
            with self.block(f"for i{number} in range(f{number}, l{number}):"):
                self.all_else(loop, carried)

    def at(self, loop: Loop, which: int) -> str:
        """The place of the adjoint of a carried value, in S."""
        number = self.region.numbers[loop]
        return f"S[{which * BLOCK} + i{number} - f{number}]"

    def chain(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        """The adjoints of carried values, from iteration to iteration."""
        number = self.region.numbers[loop]
        self.line(f"J{number} = floats(memory + {self.operands.item * self.lanes.jacobians[loop]})")
        with self.block(f"for j{number} in range(l{number} - f{number}):"):
            self.line(f"i{number} = l{number} - 1 - j{number}")
            self.link(loop, chain, arriving)

    def link(self, loop: Loop, chain: Chain, arriving: dict[int, list[str]]) -> None:
        """One iteration of the chain."""
        others = Iteration(self.lanes, loop, self.indent)
        others.adjoints({}, to_carried=True, read=True)
        if others.sums():
            others.lines, lines = [], others.lines
            others.values(loop, others.around)
            self.lines += others.lines + lines
        for which, k in enumerate(self.lanes.carried(loop)):
            self.begun.discard(f"g{k}")
            self.add(f"g{k}", " + ".join(arriving[k]))
            self.arrived(k, (*chain, loop))
            self.line(f"{self.at(loop, which)} = g{k}")
        for adjoint in [name for adjoints in arriving.values() for name in adjoints]:
            total = f"t{adjoint}" if adjoint in others.sums() else ""
            for k, name in self.jacobians[loop].numbers:
                if name == adjoint:
                    memory = f"J{self.region.numbers[loop]}"
                    partial = self.jacobians[loop].at(self, k, name, memory)
                    if self.jacobians[loop].selects:
                        part = f"select({partial} == 0.0, 0.0, g{k} * {partial})"
                        total = f"{total} + {part}" if total else part
                        continue
                    product = f"g{k} * {partial}"
                    total = f"multiply_add(g{k}, {partial}, {total})" if total else product
            self.line(f"{adjoint} = {total or '0.0'}")

    def all_else(self, loop: Loop, seeds: dict[int, str]) -> None:
        """All other adjoints of an iteration, from those of carried values."""
        iteration = Iteration(self.lanes, loop, self.indent)
        iteration.values(loop, iteration.around)
        iteration.adjoints(seeds, to_carried=False, read=True)
        for name in iteration.sums():
            iteration.line(f"{name} = sum_of({name}, t{name})")
        self.lines += iteration.lines


class Functions:
    """The functions that the code of a region calls for some iterations of a loop, by loop."""

    def __init__(self, lanes: Lanes):
        made = [Independent(lanes, loop) for loop in lanes.independent]
        self.independent = {one.loop: one for one in made if len(one.outer) <= _OUTER}
        found = [Jacobian(lanes, loop) for loop in lanes.apart]
        self.jacobians = {one.loop: one for one in found if len(one.outer) <= _OUTER}

    def text(self) -> str:
        texts = [one.function() for one in self.independent.values()]
        return "".join(texts + [one.function() for one in self.jacobians.values()])


def in_lanes(lanes: Lanes, flag: int, new_slots: Callable[[int], int]) -> str:
    """Text of functions `forward`, `plain`, and `ahead` if there are Jacobians."""
    functions = Functions(lanes)
    lanes.apart = [*functions.jacobians]
    lanes.independent = {loop: lanes.independent[loop] for loop in functions.independent}
    lanes.allot(new_slots, {x: len(one.numbers) for x, one in functions.jacobians.items()})
    values = ForwardInLanes(lanes, flag, functions).text("values")
    exported = _FORWARD.format(flag="NAN") + _AHEAD if lanes.apart else _FORWARD.format(flag="0.0")
    plain = ReverseInLanes(lanes, functions).text("plain")
    return f"{functions.text()}\n\n@helper{values}\n{exported}\n@helper{plain}"

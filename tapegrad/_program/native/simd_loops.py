"""Parts of loops in SIMD lanes: which ones, and their text."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable

from ..._core.codegen.vector_math import VECTOR, widest
from ..._core.ops.slopes import NEAR
from ..._core.ops.table import number_in, selects
from ..ir.steps import DOUBLE, GUARD
from .loop_code import QUICK, Finite, Forward, KeptValues, Reverse, Stores, TextWriter, functions_of
from .loop_finding import LOCAL, Chain, Loop, Operand

# --- Which parts of loops are done in SIMD lanes: several iterations at once ----------------------
# Values. Operations that depend on nothing that a loop carries are independent from iteration to
# iteration. They are computed first, block by block, if there are many of them, or functions.
#
# Adjoints. If a loop only sums, all iterations are independent in reverse. Otherwise the adjoints
# of carried values depend on each other, so that their computation is sequential. But an iteration
# only multiplies them with a small matrix, its Jacobian, and adds contributions from outside. Hence
# one loop that carries little is replaced by these:
#
# 1. The Jacobian of each iteration: its operations in reverse, with a seed of 1 at one carried
# result after the other. Iterations do not depend on each other. 2. The adjoints of what is
# carried, from iteration to iteration, by these matrices. 3. The adjoints of all else, from those:
# iterations do not depend on each other again.
#
# (Preaccumulation: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 10.) The
# Jacobians are computed ahead, along with the values: those depend on each other as well, and the
# processor has time while it waits for them.
#
# An adjoint of 0 gives 0 whatever the partial derivative is, but a seed of 1 multiplies all of
# them. So partial derivatives are tested as well: unless all are finite, the loop runs with tests,
# as others do.


#: Iterations of a block: their saved values stay in the first cache.
BLOCK = 256
#: The fewest iterations of a loop that is done in lanes.
FEWEST = 32
#: The fewest partial derivatives in the body of one with Jacobians, the most that it carries, and
#: the most partial derivatives in its text, which takes long to compile.
BODY, CARRIED, TEXT = 16, 4, 2000
#: The number of independent operations that are computed first even without a function among them.
MANY = 12
#: Functions that are computed in lanes.
_WIDE = {*VECTOR, *QUICK, *NEAR, "power", "hypot", "sigmoid"}


class Lanes:
    """The computations in SIMD lanes of a region, and the memory for that.

    `independent` by loop: operations whose values are computed first. `sums`: loops that only add
    up. `apart`: those with Jacobians, and `jacobians` by loop: the first slot of them. `block`: the
    first slot for numbers of the iterations of a block.
    """

    def __init__(self, kept: KeptValues, stores: Stores, finite: Finite):
        self.kept, self.stores, self.finite = kept, stores, finite
        self.operands = kept.operands
        #: Iterations whose Jacobians are computed at once, ahead: as many as vectors have lanes.
        self.group = widest() * DOUBLE.itemsize // kept.operands.item
        loops = [loop for loop in kept.region.numbers if self._is_suited(loop)]
        self.independent = {loop: found for loop in loops if (found := self._independent(loop))}
        backwards = [loop for loop in loops if self._is_suited_backwards(loop)]
        self.sums = [loop for loop in backwards if self._adds_up(loop)]
        self.apart = [x for x in backwards if x not in self.sums and self._carries_little(x)]
        self.jacobians: dict[Loop, int] = {}
        self.block = 0

    def allot(self, new_slots: Callable[[int], int], widths: dict[Loop, int]) -> None:
        """Give it slots; `widths` by loop: how many numbers a Jacobian has."""
        for loop, width in widths.items():
            self.jacobians[loop] = self.kept.in_lines(new_slots, self.kept.total(loop, width))
        numbers = [len(self.carried(loop)) for loop in self.apart]
        numbers += [len(self.independent[loop]) for loop in self.independent]
        if numbers:
            self.block = self.kept.in_lines(new_slots, max(numbers) * BLOCK)

    @property
    def columns(self) -> set[Loop]:
        """Loops whose numbers are saved contiguously over iterations."""
        return {*self.independent, *self.sums, *self.apart}

    @property
    def operations(self) -> set[int]:
        """Operations whose partial derivatives are finite where the code in lanes is used."""
        return self.finite.operations.union(*map(self.body, self.apart))

    def carried(self, loop: Loop) -> list[int]:
        """The results that a loop carries, those with an adjoint."""
        return [k for k in self.operands.registers[loop] if self.kept.is_wanted(k)]

    def body(self, loop: Loop) -> range:
        return range(loop.start, loop.start + loop.length)

    def chain(self, loop: Loop) -> Chain:
        return (*self.kept.region.around[loop], loop)

    def _is_suited(self, loop: Loop) -> bool:
        return not loop.loops and loop not in self.kept.blocks and loop.count >= FEWEST

    # --- values -------------------------------------------------------------------------------

    def _independent(self, loop: Loop) -> list[int]:
        """Operations that are computed first; none if that is not worth it."""
        found: set[int] = set()
        for k in self.body(loop):
            if self.kept.region.step.op[k] != GUARD and self._is_wide(k):
                if all(self._is_known(x, loop, found) for x in self.operands.of[k]):
                    found.add(k)
        worth = len(found) >= MANY or any(map(self.kept.takes_long, found))
        return sorted(found) if worth else []

    def _is_wide(self, k: int) -> bool:
        op = self.kept.op(k)
        return functions_of(op.value, *[text for _, text in op.needed(op.value)]) <= _WIDE

    def _is_known(self, operand: Operand, loop: Loop, found: set[int]) -> bool:
        """Whether an operand is known before the loop begins, or is also computed first."""
        if operand.register is not None and operand.register.loop is loop:
            return False
        if operand.kind == LOCAL and operand.result in self.body(loop):
            return operand.result in found
        return not operand.inside

    # --- adjoints -----------------------------------------------------------------------------

    def _is_suited_backwards(self, loop: Loop) -> bool:
        registers, partials = self.operands.registers[loop], self._partials(loop)
        carried = self.carried(loop)
        if not partials or not all(registers[k] for k in carried):
            return False
        if any(x.initial.wanted for k in registers.keys() - carried for x in registers[k]):
            return False
        return functions_of(*partials) <= _WIDE and not self._meets_itself(loop)

    def _partials(self, loop: Loop) -> list[str]:
        return [partial for k in self.body(loop) for partial in self.kept.edges(k).values()]

    def _meets_itself(self, loop: Loop) -> bool:
        """Whether results of a loop are read in memory while it runs."""
        region, at_once = self.kept.region, self.operands.read_at_once
        chain = self.chain(loop)
        return any(at_once[region.positions(k, chain)].any() for k in self.body(loop))

    def _carries_little(self, loop: Loop) -> bool:
        partials, carried = len(self._partials(loop)), len(self.carried(loop))
        return partials >= BODY and carried <= CARRIED and partials * (carried + 1) <= TEXT

    def _adds_up(self, loop: Loop) -> bool:
        """Whether all that is carried passes its adjoint on as it is."""
        return all(self._is_sum(k, loop) for k in self.carried(loop))

    def _is_sum(self, k: int, loop: Loop) -> bool:
        """Whether a result is that of the iteration before and other summands.

        The one before has no other reader, and neither have the sums between both; others read the
        result after the loop only.
        """
        registers = self.operands.registers[loop][k]
        read = [x for j in self.body(loop) for x in self.operands.of[j]]
        times = collections.Counter(x.result for x in read if x.kind == LOCAL)
        if times[k] or sum(x.register in registers for x in read) != 1:
            return False
        todo = [k]
        while todo:
            k = todo.pop()
            first, *others = self.operands.of[k]
            summands = {"add": [first, *others], "subtract": [first]}.get(self.kept.op(k).name, [])
            if not summands or self._is_read_outside(k, loop):
                continue
            if any(x.register in registers for x in summands):
                return True
            inside = [x.result for x in summands if x.kind == LOCAL]
            todo += [j for j in inside if j in self.body(loop) and times[j] == 1]
        return False

    def _is_read_outside(self, k: int, loop: Loop) -> bool:
        """Whether others read a result of each iteration, or of some."""
        return k in self.stores.read and self.stores.of[k][0] == len(self.chain(loop))


# --- Text of native code for lanes of loops. Names as in `loop_code` ------------------------------
# In addition: J are the Jacobians of a loop, K its saved values, S numbers of the iterations of a
# block; to7 is the contribution of an iteration to o7.


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


class Independent(TextWriter):
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

    def __init__(self, lanes: Lanes, flag: int, functions: LaneFunctions):
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

    def __init__(self, lanes: Lanes, functions: LaneFunctions):
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


class LaneFunctions:
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
    functions = LaneFunctions(lanes)
    lanes.apart = [*functions.jacobians]
    lanes.independent = {loop: lanes.independent[loop] for loop in functions.independent}
    lanes.allot(new_slots, {x: len(one.numbers) for x, one in functions.jacobians.items()})
    values = ForwardInLanes(lanes, flag, functions).text("values")
    exported = _FORWARD.format(flag="NAN") + _AHEAD if lanes.apart else _FORWARD.format(flag="0.0")
    plain = ReverseInLanes(lanes, functions).text("plain")
    return f"{functions.text()}\n\n@helper{values}\n{exported}\n@helper{plain}"

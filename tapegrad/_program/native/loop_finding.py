"""Periodic regions of a `Scalars` step as a tree of loops, and the operands of such loops."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..._core.codegen.factory import functions, once
from ..._core.ops.table import BY_CODE
from ..ir.scalars_step import Scalars
from ..ir.steps import GUARD
from .period_search import LONGEST, SOURCE, UNROLLED

# --- loop finding ---------------------------------------------------------------------------------
# Periodic regions of a `Scalars` step as a tree of loops.
#
# Short periods are found first (see `period_search`). A loop found becomes one element of a shorter
# sequence, in which outer loops are found in the same manner, until nothing repeats.

#: Tokens that are hashed where candidates for periods are looked for: of operations, of loops.
_WIDTHS = 6, 2


@dataclasses.dataclass(eq=False)
class Loop:
    """Operations start to start + count · length; `loops` are those inside of iteration 0."""

    start: int
    length: int
    count: int
    loops: list[Loop]

    @property
    def stop(self) -> int:
        return self.start + self.length * self.count

    @property
    def body(self) -> int:
        """The number of operations in its text."""
        return self.length - sum(x.count * x.length - x.body for x in self.loops)

    def __str__(self) -> str:
        inner = "".join(f", inside: {x}" for x in self.loops)
        return f"loop of {self.count} x {self.length} operations{inner}"


@dataclasses.dataclass
class _Elements:
    """A sequence as `period_search` reads it; `loops` are those among its elements, by element."""

    starts: np.ndarray
    tokens: np.ndarray
    loops: dict[int, Loop]


def find_loops(step: Scalars, known: np.ndarray) -> list[Loop]:
    """The outermost loops of a step, in order. `known` says which slots are constants."""
    n = len(step.op)
    elements = _Elements(np.arange(n + 1, dtype=np.int64), step.op.astype(np.int64), {})
    finder = _LoopFinder(step, known)
    while any([finder.roll(elements, irregular) for irregular in (False, True)]):
        pass
    return [elements.loops[e] for e in sorted(elements.loops)]


class _LoopFinder:
    """Finds loops in sequences of elements of one step."""

    def __init__(self, step: Scalars, known: np.ndarray):
        n = len(step.op)
        self.step, self.known = step, np.ascontiguousarray(known, np.uint8)
        operands = [step.a, step.b, step.c if len(step.c) else np.full(n, -1, np.int32)]
        self.operands = [np.ascontiguousarray(x, np.int32) for x in operands]
        self.slots = np.array([x.ctypes.data for x in self.operands])
        self.names: dict[tuple, int] = {}

    def roll(self, elements: _Elements, irregular: bool) -> bool:
        """Make elements that repeat loops, until nothing more is found; returns whether any was."""
        any_found = False
        while len(found := self._find(elements, irregular)):
            _replace(elements, found, self._name)
            any_found = True
        return any_found

    def _find(self, elements: _Elements, irregular: bool) -> np.ndarray:
        n, m = len(self.step.op), len(elements.tokens)
        size = 1 << max(4, (4 * m).bit_length())
        heads, following, bad = _words(size), _words(m), np.full(LONGEST + 1, -1)
        reach, live, out = _words(n + 2), _words(n + 2), _words(3 * m + 3)
        width = _WIDTHS[bool(elements.loops)]
        words = [m, width, self.step.first, n, irregular, size]
        arrays = [elements.starts, elements.tokens, self.known, self.slots]
        arrays += [heads, following, bad, reach, live, out]
        arguments = np.array([*words, *[x.ctypes.data for x in arrays]], np.int64)
        count = _compiled()(arguments.ctypes.data)
        return out[: 3 * count].reshape(-1, 3)

    def _name(self, tokens: np.ndarray, count: int) -> int:
        """The token of a loop: equal for equal bodies and counts."""
        key = tokens.tobytes(), count
        return self.names.setdefault(key, 1 << 20 | len(self.names))


def _words(count: int) -> np.ndarray:
    return np.empty(count, np.int64)


@once
def _compiled():
    """`periods.find_loops`, callable."""
    return functions(SOURCE, {"find": 1}, keep_lock=False)["find"]


def _replace(elements: _Elements, found: np.ndarray, name) -> None:
    """Put each loop found in the place of its elements."""
    keep = np.ones(len(elements.tokens), bool)
    places, loops = sorted(elements.loops), dict(elements.loops)
    for e, p, count in found.tolist():
        stop = e + p * count
        inside = places[bisect.bisect_left(places, e) : bisect.bisect_left(places, stop)]
        inner = [loops.pop(j) for j in inside if j < e + p]
        for j in inside[len(inner) :]:
            del loops[j]
        start, length = int(elements.starts[e]), int(elements.starts[e + p] - elements.starts[e])
        inner = [x for x in inner if x.count * x.length > UNROLLED]
        loops[e] = Loop(start, length, count, inner)
        keep[e + 1 : stop] = False
        elements.tokens[e] = name(elements.tokens[e : e + p], count)
    place = np.cumsum(keep) - 1
    elements.loops = {int(place[e]): loop for e, loop in loops.items()}
    elements.tokens = elements.tokens[keep]
    elements.starts = elements.starts[np.append(keep, True)]


# --- loop operands --------------------------------------------------------------------------------
# The operands of a region of operations with loops, as seen from inside the loops.
#
# An operation inside of loops has one operand for every combination of the loops' counters: an
# array of slots. Here it becomes one expression; nothing but what equals the whole array is taken.

Chain = tuple[Loop, ...]
#: The kinds of operands: a number in the text or a table of numbers; a result in a variable; a
#: result of the iteration before; a slot that is the same in all iterations of all loops; a slot.
NUMBER, LOCAL, CARRIED, FIXED, MEMORY = range(5)


class Slots(NamedTuple):
    """By slot of a program: whether it is a constant, which, whether its adjoint is needed."""

    known: np.ndarray
    initial: np.ndarray
    wanted: np.ndarray


@dataclasses.dataclass(eq=False)
class Operand:
    """The text of an operand: its value, and where its adjoint is added.

    `result` is the operation (in iteration 0) that a LOCAL or CARRIED operand is the result of.
    `inside` of one in MEMORY: whether it is written while the loops around it run.
    """

    kind: int
    value: str
    adjoint: str = ""
    wanted: bool = False
    result: int = -1
    slot: int = -1
    register: Register | None = None
    inside: bool = False


@dataclasses.dataclass(eq=False)
class Register:
    """A result that a loop carries to its next iteration; `initial` is there for iteration 0."""

    name: str
    adjoint: str
    loop: Loop
    result: int
    initial: Operand


class Data:
    """Tables of a part, contiguous in one array."""

    def __init__(self):
        self._offsets: dict[bytes, int] = {}
        self._size = 0

    def add(self, table: np.ndarray) -> int:
        """The offset of a table, in bytes."""
        piece = np.ascontiguousarray(table).tobytes()
        piece += bytes(-len(piece) % 8)
        if piece not in self._offsets:
            self._offsets[piece] = self._size
            self._size += len(piece)
        return self._offsets[piece]

    def array(self) -> np.ndarray:
        return np.frombuffer(b"".join(self._offsets) or bytes(8), np.float64)


class Region:
    """Operations start to stop of a step, with loops among them.

    `read` says which results of the whole step others read in their slots: those have an adjoint
    there. `held` are stored there for the reverse pass.
    """

    def __init__(self, step: Scalars, start: int, stop: int, loops: list[Loop], read: np.ndarray):
        self.step, self.start, self.stop, self.loops, self.read = step, start, stop, loops, read
        columns = [x for x in (step.a, step.b, step.c) if len(x)]
        self.held = np.zeros(len(read), bool)
        self.columns = [np.ascontiguousarray(x) for x in columns]
        self.around: dict[Loop, Chain] = {}
        self._enclose(loops, ())
        self.numbers = {loop: k for k, loop in enumerate(self.around)}

    def _enclose(self, loops: list[Loop], chain: Chain) -> None:
        for loop in loops:
            self.around[loop] = chain
            self._enclose(loop.loops, (*chain, loop))

    def place(self, position: int) -> tuple[list[tuple[Loop, int]], int]:
        """The loops around an operation with their counters, and its number in iteration 0."""
        around: list[tuple[Loop, int]] = []
        loops = self.loops
        while True:
            k = bisect.bisect_right(loops, position, key=lambda loop: loop.start) - 1
            if k < 0 or position >= loops[k].stop:
                return around, position
            count, position = divmod(position - loops[k].start, loops[k].length)
            position += loops[k].start
            around.append((loops[k], count))
            loops = loops[k].loops

    def chain(self, result: int) -> Chain:
        """The loops around an operation."""
        return tuple(loop for loop, _ in self.place(result)[0])

    def positions(self, k: int, chain: Chain) -> np.ndarray:
        """The operations that operation k is, for all counters of the loops around it."""
        return spread(k, [x.length for x in chain], [x.count for x in chain])

    def last_positions(self, k: int, chain: Chain, depth: int) -> np.ndarray:
        """The same, of the last iterations of the loops inside of the first `depth`."""
        base = k + sum(x.length * (x.count - 1) for x in chain[depth:])
        return self.positions(base, chain[:depth])

    def slots_of(self, k: int, operand: int, chain: Chain) -> np.ndarray:
        """The slots that an operand is, for all counters."""
        column = self.columns[operand][k:]
        strides = [x.length * column.itemsize for x in chain]
        return as_strided(column, [x.count for x in chain], strides, writeable=False)

    def is_before(self, slots: np.ndarray, chain: Chain) -> bool:
        """Whether no slot, by the counters of loops around, is a result of the last of the chain.

        This holds within one run: the initial values exist before it.
        """
        loop = chain[-1]
        after = slots.astype(np.int64) - self.step.first - self.positions(loop.start, chain[:-1])
        return not np.any((after >= 0) & (after < loop.length * loop.count))

    def arity(self, k: int) -> int:
        code = int(self.step.op[k])
        return 2 if code == GUARD else len(BY_CODE[code].inputs)

    def index(self, base: int, strides: list[int], chain: Chain) -> str:
        """Text of base + Σ stride · counter."""
        terms = [str(base)] if base or not any(strides) else []
        for stride, loop in zip(strides, chain, strict=False):
            if stride:
                terms.append(f"i{self.numbers[loop]}" + (f" * {stride}" if stride != 1 else ""))
        return " + ".join(terms)


def in_order(start: int, stop: int, loops: list[Loop]) -> Iterator[int | Loop]:
    """Operations and loops of a body, in order."""
    at = start
    for loop in loops:
        yield from range(at, loop.start)
        yield loop
        at = loop.stop
    yield from range(at, stop)


def spread(base: int, strides: list[int], counts: list[int]) -> np.ndarray:
    """base + Σ stride · counter for all counters."""
    total = np.array(base)
    for stride, count in zip(strides, counts, strict=True):
        total = total[..., None] + stride * np.arange(count)
    return total


def number(value: float) -> str:
    """Text of a float."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INF" if value > 0 else "(-INF)"
    return repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"


class Operands:
    """Finds the kind of each operand of a region; fills in what must be stored for that."""

    def __init__(self, region: Region, slots: Slots):
        self.region = region
        self.known, self.initial, self.wanted = slots
        #: The bytes of a slot.
        self.item = slots.initial.itemsize
        self.data = Data()
        self.of: dict[int, list[Operand]] = {}
        #: By loop: results that are used after an iteration, with the registers that carry them.
        self.registers: dict[Loop, dict[int, list[Register]]] = {}
        #: Results that are read in memory inside of the nest that they are from.
        self.read_at_once = np.zeros(len(region.step.op), bool)
        self._made: dict[tuple, Register] = {}
        for loop in region.numbers:
            self.registers[loop] = {}
        self._visit(region.start, region.stop, region.loops, ())

    def carried(self, loop: Loop) -> list[Register]:
        """The values that a loop carries from iteration to iteration."""
        return [register for group in self.registers[loop].values() for register in group]

    def _visit(self, start: int, stop: int, loops: list[Loop], chain: Chain) -> None:
        for item in in_order(start, stop, loops):
            if isinstance(item, Loop):
                self._visit(item.start, item.start + item.length, item.loops, (*chain, item))
            else:
                count = self.region.arity(item)
                slots = [self.region.slots_of(item, j, chain) for j in range(count)]
                self.of[item] = [self._operand(x, chain) for x in slots]

    def _operand(self, slots: np.ndarray, chain: Chain) -> Operand:
        if self.known[slots].all():
            return self._number(self.initial[slots], chain)
        wanted = bool(self.wanted[slots].any())
        return (
            self._local(slots, chain, wanted)
            or self._carried(slots, chain, wanted)
            or self._in_memory(slots, chain, wanted)
        )

    def _number(self, values: np.ndarray, chain: Chain) -> Operand:
        table, index = self._table(values.view(f"i{self.item}"), chain)
        if table.size == 1:
            return Operand(NUMBER, number(float(table.view(values.dtype).flat[0])))
        base = self.data.add(table) // self.item
        return Operand(NUMBER, f"T[{self.region.index(base, index, chain)}]")

    def _table(self, values: np.ndarray, chain: Chain) -> tuple[np.ndarray, list[int]]:
        """Values with an entry only for counters that they depend on, and the strides of those."""
        for axis in range(values.ndim):
            one = values.take([0], axis=axis)
            if np.array_equal(values, np.broadcast_to(one, values.shape)):
                values = one
        values = np.ascontiguousarray(values)
        strides = [s // values.itemsize for s in values.strides]
        return values, [s if n > 1 else 0 for s, n in zip(strides, values.shape, strict=True)]

    def _same_iteration(self, slots: np.ndarray, chain: Chain, least: int, most: int) -> int | None:
        """The result in a variable that `slots` are.

        At least this number of loops of the chain, and at most that one, are around both and in the
        same iteration. For all others around the result it is that of the last iteration.
        """
        first, region = self.region.step.first, self.region
        base = int(slots.flat[0]) - first
        if not region.start <= base < region.stop:
            return None
        around, result = region.place(base)
        common = 0
        while common < min(len(around), most) and around[common][0] is chain[common]:
            common += 1
        shared, deeper = around[:common], around[common:]
        if common < least or any(count for _, count in shared):
            return None
        if any(count != loop.count - 1 for loop, count in deeper):
            return None
        strides = [x.length for x in chain[:common]] + [0] * (len(chain) - common)
        if not np.array_equal(slots, spread(base + first, strides, list(slots.shape))):
            return None
        for loop, _ in deeper:
            self.registers[loop].setdefault(result, [])
        return result

    def _local(self, slots: np.ndarray, chain: Chain, wanted: bool) -> Operand | None:
        result = self._same_iteration(slots, chain, 0, len(chain))
        if result is None:
            return None
        return Operand(LOCAL, f"v{result}", f"g{result}", wanted, result)

    def _carried(self, slots: np.ndarray, chain: Chain, wanted: bool) -> Operand | None:
        """The operand as a result of the iteration before, of the innermost loop possible."""
        for axis in reversed(range(len(chain))):
            before = np.delete(slots, 0, axis)  # as iterations 0, 1, … see the next one's operand
            result = self._same_iteration(before, chain, axis + 1, axis + 1)
            start = slots.take(0, axis)
            inner = start.reshape(*start.shape[:axis], -1)
            if result is None or (inner != inner[..., :1]).any():
                continue
            if self.region.is_before(inner[..., 0], chain[: axis + 1]):
                register = self._register(chain[: axis + 1], result, inner[..., 0])
                value, adjoint = register.name, register.adjoint
                return Operand(CARRIED, value, adjoint, wanted, result, register=register)
        return None

    def _register(self, chain: Chain, result: int, initial: np.ndarray) -> Register:
        key = chain[-1], result, initial.tobytes()
        if key not in self._made:
            start = self._operand(initial, chain[:-1])
            name = str(len(self._made))
            register = Register(f"c{name}", f"o{name}", chain[-1], result, start)
            self._made[key] = register
            self.registers[chain[-1]].setdefault(result, []).append(register)
        return self._made[key]

    def _in_memory(self, slots: np.ndarray, chain: Chain, wanted: bool) -> Operand:
        fixed = (slots == slots.flat[0]).all()
        slot = int(slots.flat[0])
        inside = self._must_be_stored(slots, chain)
        if chain and fixed and not inside:
            return Operand(FIXED, f"p{slot}", f"s{slot}", wanted, slot=slot)
        strides = [
            int(slots.take(1, d).flat[0]) - slot if n > 1 else 0 for d, n in enumerate(slots.shape)
        ]
        if np.array_equal(slots, spread(slot, strides, list(slots.shape))):
            index = self.region.index(slot, strides, chain)
        else:
            table, strides = self._table(slots, chain)
            base = self.data.add(table.astype(np.int32))
            at = self.region.index(base, [4 * s for s in strides], chain)
            index = f"load_i32(data, {at})"
        return Operand(MEMORY, f"V[{index}]", f"A[{index}]", wanted, inside=inside)

    def _must_be_stored(self, slots: np.ndarray, chain: Chain) -> bool:
        """Note results among slots as read in memory; whether some are from the same nest."""
        results = slots.astype(np.int64).ravel() - self.region.step.first
        results = results[(results >= 0) & (results < len(self.region.step.op))]
        self.region.read[results] = True
        if not chain:
            return False
        inside = results[(results >= chain[0].start) & (results < chain[0].stop)]
        self.read_at_once[inside] = True
        return inside.size > 0

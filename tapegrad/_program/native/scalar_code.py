"""Native code for a step of operations on numbers: loops found, checked, compiled."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..._core.codegen import elements
from ..._core.codegen.elements import SINGLE
from ..._core.codegen.factory import compile_source
from ..ir.scalars_step import Scalars
from ..ir.steps import GUARD
from ..replay.parts import SIGNATURE, Part
from ..replay.scalar_interpreter import interpreted
from .loop_code import HEAD, Finite, KeptValues, Reverse, Stores
from .loop_finding import (
    CARRIED,
    FIXED,
    LOCAL,
    NUMBER,
    Chain,
    Loop,
    Operand,
    Operands,
    Region,
    Slots,
    find_loops,
    spread,
)
from .simd_loops import Lanes, in_lanes

# --------------------------------------------------------------------------------------------------
# The statements of native code about loops, checked against the operations that it stands for.
# `loop_finding` determines the kind of every operand inside of loops: the
# result of an iteration before, a slot that moves, an entry of a table. Here each is derived again
# from the words of the text alone, for all counters, and must be the slot that the operation reads.
# Values read from memory must have been stored there.


class _Slots:
    """V in an expression: the operand is the slot itself."""

    def __getitem__(self, slot):
        return slot


class Claims:
    """The kinds of the operands of a region. `read` and `at_once` are what must be stored.

    These are by operation of the step: results that are read in memory, and those of them that are
    read there before the loops around them have ended.
    """

    def __init__(self, operands: Operands):
        self.operands, self.region = operands, operands.region
        self.first, count = self.region.step.first, len(self.region.step.op)
        self.read, self.at_once = np.zeros(count, bool), np.zeros(count, bool)
        table = operands.data.array()
        self._names = {
            "V": _Slots(),
            "T": table.view(operands.initial.dtype),
            "INF": np.inf,
            "NAN": np.nan,
            "data": table.view(np.int32),
            "load_i32": lambda data, offset: data[offset // 4],
        }

    def check(self) -> None:
        """RuntimeError unless all hold."""
        for k, found in self.operands.of.items():
            chain = self.region.chain(k)
            for j, operand in enumerate(found):
                slots = self.region.slots_of(k, j, chain)
                if not self._holds(operand, slots, chain, k):
                    raise RuntimeError(_fault(f"operand {j} of operation {k} is {operand.value}"))
        if np.any(self.read & ~self.region.read):
            raise RuntimeError(_fault("a result that is read in memory is not stored there"))

    def _holds(self, operand: Operand, slots: np.ndarray, chain: Chain, k: int) -> bool:
        """Whether an operand that operation k reads, in loops, is the value of these slots."""
        if operand.kind == NUMBER:
            return _equal(self._evaluated(operand.value, chain), self.operands.initial[slots])
        if operand.kind == LOCAL:
            return self._is_result(operand.result, slots, chain, len(chain), k)
        if operand.kind == CARRIED:
            return self._is_carried(operand, slots, chain)
        self._note(slots, chain)
        if operand.kind == FIXED:  # which is read before the outermost loop
            is_before = self.region.is_before(slots.flat[:1].reshape(()), chain[:1])
            return is_before and bool((slots == operand.slot).all())
        return _equal(self._evaluated(operand.value, chain), slots)

    def _is_result(
        self, result: int, slots: np.ndarray, chain: Chain, most: int, before: int
    ) -> bool:
        """Whether slots are a result as it was computed last before an operation of the text.

        At most this number of loops of the chain are in the same iteration, in others the result is
        that of their last one.
        """
        home, common = self.region.chain(result), 0
        while common < min(len(home), most) and home[common] is chain[common]:
            common += 1
        last = result + sum(x.length * (x.count - 1) for x in home[common:])
        strides = [x.length for x in chain[:common]] + [0] * (len(chain) - common)
        return last < before and _equal(spread(self.first + last, strides, [*slots.shape]), slots)

    def _is_carried(self, operand: Operand, slots: np.ndarray, chain: Chain) -> bool:
        """Whether slots are an initial value in iteration 0 of a loop, then results of it."""
        register = operand.register
        if register is None or register.loop not in chain or register.result != operand.result:
            return False
        axis, loop = chain.index(register.loop), register.loop
        result, start = register.result, slots.take(0, axis)
        initial = start.reshape(*start.shape[:axis], -1)
        if not (initial == initial[..., :1]).all() or register not in self.operands.carried(loop):
            return False
        after = slots[(slice(None),) * axis + (slice(1, None),)]
        inside = self.region.chain(result)[: axis + 1] == chain[: axis + 1]
        return (
            inside
            and self.region.is_before(initial[..., 0], chain[: axis + 1])
            and self._is_result(result, after, chain, axis + 1, loop.start + loop.length)
            and self._holds(register.initial, initial[..., 0], chain[:axis], loop.start)
        )

    def _evaluated(self, text: str, chain: Chain):
        """An expression of counters, for all of them."""
        names = dict(self._names)
        for axis, loop in enumerate(chain):
            shape = [loop.count if d == axis else 1 for d in range(len(chain))]
            names[f"i{self.region.numbers[loop]}"] = np.arange(loop.count).reshape(shape)
        return eval(text, names)

    def _note(self, slots: np.ndarray, chain: Chain) -> None:
        """Note which results some slots are."""
        results = slots.astype(np.int64).ravel() - self.first
        results = results[(results >= 0) & (results < len(self.read))]
        self.read[results] = True
        if chain:
            inside = (results >= chain[0].start) & (results < chain[0].stop)
            self.at_once[results[inside]] = True

    def check_stores(self, stores: Stores) -> None:
        """RuntimeError unless values read from memory are stored in time."""
        region, made = self.region, np.zeros(len(self.read), bool)
        flags = self.operands.data.array().view(np.uint8)
        for k, (depth, mask) in stores.of.items():
            chain = region.chain(k)
            positions = region.positions(k, chain)
            if depth < len(chain):
                positions = region.last_positions(k, chain, depth)
                positions = positions[~self.at_once[positions]]
            elif mask >= 0:
                table = flags[mask : mask + positions.size].reshape(positions.shape)
                positions = positions[table != 0]
            made[positions] = True
        wanted = (region.read | region.held) & (region.step.op != GUARD)
        own = slice(region.start, region.stop)
        if np.any(wanted[own] & ~made[own]):
            raise RuntimeError(_fault("a result that is read in memory is not stored in time"))


def _equal(found, expected: np.ndarray) -> bool:
    """Whether values, which are broadcast, are the same to the bit; NaN is NaN."""
    found = np.broadcast_to(found, expected.shape)
    if expected.dtype.kind != "f":
        return bool((found == expected).all())
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    return bool((same | (np.isnan(found) & np.isnan(expected))).all())


def _fault(what: str) -> str:
    return f"a loop that was found in a program does not hold: {what}; please report this"


# --------------------------------------------------------------------------------------------------
# Native code for a step of operations on numbers: loops found, compiled, the rest interpreted.


#: The most operations of straight lines in the text of one part: LLVM takes more than in proportion
#: for longer ones.
_TEXT = 1000
#: The most operations in the body of a loop that is compiled.
_BODY = 2000
#: The cost of compiling a part in addition to its text, in operations.
_PART = 50
#: The budget of compilation for one program, in operations of text: some seconds.
BUDGET = 8000
_EITHER = """
def reverse(run, data):
    if load_float(load_i64(run, RUN_VALUES), {flag}) == 0.0:
        return plain(run, data)
    return careful(run, data)
"""


_PLAIN = """
def reverse(run, data):
    return plain(run, data)
"""


@dataclasses.dataclass
class Piece:
    """Operations start to stop: loops and the operations between them, or none; compiled or not."""

    start: int
    stop: int
    loops: list[Loop]
    native: bool

    @property
    def text(self) -> int:
        """The number of operations in its text."""
        return self.stop - self.start - sum(x.count * x.length - x.body for x in self.loops)

    @property
    def cost(self) -> int:
        """The cost of compilation, in operations of text."""
        return self.text + _PART


def rolled(step: Scalars, known: np.ndarray) -> int:
    """The number of operations of a step in loops that are compiled. See `Slots` for `known`."""
    return sum(x.count * x.length for x in find_loops(step, known) if x.body <= _BODY)


def pieces_of(step: Scalars, known: np.ndarray) -> list[Piece]:
    """The compiled and the other pieces of a step. See `Slots` for `known`."""
    return _grouped(_pieces(len(step.op), find_loops(step, known)))


def within(budget: int, pieces: Iterable[Piece]) -> int:
    """Leave pieces beyond a budget interpreted; returns the cost of the others.

    Pieces that compute most for their text come first.
    """
    total = 0
    native = [piece for piece in pieces if piece.native]
    for piece in sorted(native, key=lambda x: x.cost / (x.stop - x.start)):
        if total + piece.cost > budget:
            piece.native, piece.loops = False, []
        else:
            total += piece.cost
    return total


def native(
    step: Scalars,
    pieces: list[Piece],
    slots: Slots,
    outside: np.ndarray,
    new_slots: Callable[[int], int],
    cut: bool = False,
) -> list[Part]:
    """Parts for a step.

    `outside` says of results whether anything outside of the step reads
    them; afterwards it marks all that lie in their slots, those of interpreted pieces included.
    `new_slots(count)` gives the first of that many unused slots of the arena. `cut` says that long
    loops save what they carry at intervals only (see `loop_code`).
    """
    outside |= _read_by_interpreted(step, pieces)
    made: list[Callable[[], Part]] = []
    item = slots.initial.itemsize
    for piece in pieces:  # all determine their reads from memory before code is made for any
        if piece.native:
            region = Region(step, piece.start, piece.stop, piece.loops, outside)
            claims = Claims(Operands(region, slots))
            claims.check()
            kept = KeptValues(claims.operands, slots.wanted, new_slots, cut)
            made.append(functools.partial(_compiled, claims, kept, new_slots))
        else:
            outside[piece.start : piece.stop] = True
            made.append(functools.partial(interpreted, step.cut(piece.start, piece.stop), item))
    return [make() for make in made]


def _read_by_interpreted(step: Scalars, pieces: list[Piece]) -> np.ndarray:
    """The results that interpreted pieces read in their slots."""
    read = np.zeros(len(step.op), bool)
    for piece in pieces:
        if not piece.native:
            for column in (step.a, step.b, step.c):
                results = column[piece.start : piece.stop].astype(np.int64) - step.first
                read[results[(results >= 0) & (results < len(read))]] = True
    return read


def _pieces(n: int, loops: list[Loop]) -> Iterator[Piece]:
    at = 0
    for loop in loops:
        yield from _straight(at, loop.start)
        yield Piece(loop.start, loop.stop, [loop], loop.body <= _BODY)
        at = loop.stop
    yield from _straight(at, n)


def _straight(start: int, stop: int) -> Iterator[Piece]:
    """Operations without loops, in parts of about the same length."""
    count = -(-(stop - start) // _TEXT)
    ends = [start + (stop - start) * k // count for k in range(count + 1)] if count else []
    for first, last in itertools.pairwise(ends):
        yield Piece(first, last, [], True)


def _grouped(pieces: Iterator[Piece]) -> list[Piece]:
    """Neighbours together, those compiled up to a length of text."""
    groups: list[Piece] = []
    for piece in pieces:
        last = groups[-1] if groups else None
        if (
            last
            and last.native == piece.native
            and (not piece.native or last.text + piece.text <= _TEXT)
        ):
            loops = last.loops + piece.loops if piece.native else []
            groups[-1] = Piece(last.start, piece.stop, loops, piece.native)
        else:
            groups.append(piece if piece.native else dataclasses.replace(piece, loops=[]))
    return groups


def _compiled(claims: Claims, kept: KeptValues, new_slots: Callable[[int], int]) -> Part:
    operands = claims.operands
    stores, finite = Stores(operands), Finite(kept)
    claims.check_stores(stores)
    lanes = Lanes(kept, stores, finite)
    kept.allot(new_slots, lanes.columns)
    flag = new_slots(1) if finite.carried or lanes.apart else 0
    item = operands.item
    text = elements.head(item) + HEAD + in_lanes(lanes, flag, new_slots)
    if flag:
        careful = Reverse(operands, kept, stores, set()).text("careful")
        text += f"\n@helper{careful}{_EITHER.format(flag=item * flag)}"
    else:
        text += _PLAIN
    exports = ["forward", "reverse", *(["ahead"] if lanes.apart else [])]
    address = compile_source(text, dict.fromkeys(exports, SIGNATURE), item == SINGLE, fixed=False)
    note = _summary(operands.region, lanes)
    return Part(data=operands.data.array(), tier="native", note=note, **address)


def _summary(region: Region, lanes: Lanes) -> str:
    """The purpose of a part, in one line."""
    words = [str(loop) for loop in region.loops]
    for what, done in ("values", lanes.independent), ("adjoints", {*lanes.sums, *lanes.apart}):
        if done:
            words.append(f"{what} in lanes: {len(done)} of {len(region.numbers)} loops")
    straight = region.stop - region.start - sum(x.count * x.length for x in region.loops)
    if straight:
        words.append(f"{straight} operations")
    return "; ".join(words)

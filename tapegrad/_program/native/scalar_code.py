"""Native code for a step of operations on numbers: loops found, compiled, the rest interpreted."""

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
from ..replay.parts import SIGNATURE, Part
from ..replay.scalar_interpreter import interpreted
from .checkpoints import Kept
from .finite_partials import Finite
from .loop_adjoints import Reverse
from .loop_checks import Claims
from .loop_finding import Loop, find_loops
from .loop_operands import Operands, Region, Slots
from .loop_values import HEAD, Stores
from .simd_loops import in_lanes
from .simd_planning import Lanes

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
    loops save what they carry at intervals only (see `checkpoints`).
    """
    outside |= _read_by_interpreted(step, pieces)
    made: list[Callable[[], Part]] = []
    item = slots.initial.itemsize
    for piece in pieces:  # all determine their reads from memory before code is made for any
        if piece.native:
            region = Region(step, piece.start, piece.stop, piece.loops, outside)
            claims = Claims(Operands(region, slots))
            claims.check()
            kept = Kept(claims.operands, slots.wanted, new_slots, cut)
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


def _compiled(claims: Claims, kept: Kept, new_slots: Callable[[int], int]) -> Part:
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

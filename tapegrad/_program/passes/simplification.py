"""Fewer operations: exact algebra, constants folded, common subexpressions, dead code."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.ops.elementwise import STEERING
from ..._core.ops.powers import OF_NUMBERS
from ..._core.ops.table import MOST_CODES, TABLE
from ..build.executable import Program
from ..ir import scalar_scans
from ..ir.elementwise_step import Elementwise
from ..ir.rewriting import merged
from ..ir.scalars_step import Scalars
from ..ir.steps import (
    ARENA,
    GUARD,
    NOTHING,
    Code,
    Ranges,
    Spans,
    Step,
    View,
    Visitor,
    distinct,
    mostly_zeros,
)
from ..ir.uses import (
    Constants,
    Written,
    all_in,
    any_in,
    constants_of,
    constants_read,
    is_injective,
    known_slots,
    slots_of,
    views_needed,
)
from ..replay.run_layout import FINISHED

# --- algebra --------------------------------------------------------------------------------------
# Algebra that is exact in IEEE arithmetic, and constants folded.


# --- Powers of numbers with constant exponents, as operations that compute them by products -------


_POWER = TABLE["power"].code
#: Codes of operations as marks of `settle_wishes`: no difference of places is one of marks.
_MARK = 1 << 16


def by_products(code: Code) -> Code:
    """The program with powers by products, where loops stay regular.

    A loop whose exponent changes from iteration to iteration keeps it as data.
    """
    steps = code.numbers
    if not any((step.op == _POWER).any() for step in steps):
        return code
    known, values = constants_of(code)
    chosen = [_chosen(step, known, values) for step in steps]
    marks = np.zeros(code.slots, np.int32)
    for step, codes in zip(steps, chosen, strict=True):
        marks[step.first : step.first + len(codes)] = _MARK * codes
    wishes = [(codes != 0).astype(np.uint8) for codes in chosen]
    if not scalar_scans.settle_wishes(steps, wishes, marks):
        return code
    new = {}
    for step, codes, wished in zip(steps, chosen, wishes, strict=True):
        op, b = np.where(wished, codes, step.op), np.where(wished, -1, step.b)
        new[id(step)] = dataclasses.replace(step, op=op.astype(np.int32), b=b.astype(np.int32))
    return dataclasses.replace(code, steps=[new.get(id(step), step) for step in code.steps])


def _chosen(step: Scalars, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The code of the operation for each power of a step with a constant exponent, 0 for others."""
    found = np.zeros(len(step.op), np.int32)
    rows = np.flatnonzero(step.op == _POWER)
    rows = rows[known[step.b[rows]] != 0]
    exponents, numbers = np.unique(values[step.b[rows]], return_inverse=True)
    codes = [OF_NUMBERS[x].code if x in OF_NUMBERS else 0 for x in exponents.tolist()]
    found[rows] = np.array(codes, np.int32)[numbers] if codes else 0
    return found


# --- Constant folding: what depends on constants only is computed when the program is made --------


def fold(code: Code) -> Code:
    """Operations on numbers and steps of arrays whose operands are all constants become constants.

    The program's own parts compute them, so that values are the same to the bit. Guards stay: the
    programs of a function identify them by their order.
    """
    if not _may_fold(code):
        return code
    finder = _FoldFinder(code)
    if not finder.steps:
        return code
    only = dataclasses.replace(code, inputs=[], steps=finder.steps, outputs=[], clears={})
    program = Program(dataclasses.replace(only, constants=constants_read(only)))
    run = program.begin()
    if program.forward(run, []) != FINISHED:
        return code
    constants = list(code.constants)
    for view in finder.written:
        constants.append((view.offset, run.values[slice(*view.extent)].copy()))
    steps = [step for step in code.steps if id(step) not in finder.whole]
    rest = dataclasses.replace(code, constants=constants, steps=steps)
    return _without(rest, finder, run.values)


def _may_fold(code: Code) -> bool:
    """Whether anything has operands that are all constants: without that nothing ever has."""
    known, reads = code.constant_ranges, code.reads
    others = reads.steps_of(~known.cover(reads.low, reads.high))
    whole = [code.whole_steps[k] for k in np.flatnonzero(~others).tolist()]
    return any(step.can_fold and _reads_known(step, known) for step in whole) or any(
        _has_known(step, known.hold) for step in code.numbers
    )


def _reads_known(step: Step, known: Ranges) -> bool:
    """Whether all that a step whose views are known reads is known."""
    inside = all(view.base == ARENA for view in step.views_read)
    return inside and all([known.hold(slots).all() for slots in step.slots_read])


def _is_known(step: Step, known: np.ndarray) -> bool:
    """Whether all that a step reads is known."""
    for view in step.views_read:
        if view.base != ARENA or not all_in(known, view):
            return False
    return all([known[slots].all() for slots in step.slots_read])


def _has_known(step: Scalars, known: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether there is an operation whose operands are known before the step."""
    left = np.flatnonzero(known(step.a))
    left = left[(known(step.b[left]) != 0) | (step.b[left] < 0)]
    return bool((step.op[left] != GUARD).any())


class _FoldFinder(Visitor):
    """The steps that can be folded: `whole` ones, by id, and operations that are `wished` away."""

    def __init__(self, code: Code):
        self.known = known_slots(code).view(np.uint8)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.known})
        self.steps: list[Step] = []
        self.whole: set[int] = set()
        self.written: list = []
        self.numbers: list[Scalars] = []
        self.wishes: list[np.ndarray] = []
        for step in code.steps:
            step.accept(self)

    def other(self, step: Step) -> None:
        if step.can_fold and _is_known(step, self.known):
            self.whole.add(id(step))
            self.steps.append(step)
            self.written += step.views_written
            for view in step.views_written:
                self.known[slice(*view.extent)] = True

    def scalars(self, step: Scalars) -> None:
        """Operations whose operands are known; the others are guards that hold."""
        self.numbers.append(step)
        wished = np.zeros(len(step.op), np.uint8)
        self.wishes.append(wished)
        if not _has_known(step, self.known.__getitem__):
            return
        if self.scan("know", step, {scalar_scans.WISHED: wished}):
            op, a, b = (
                np.where(wished, column, nothing).astype(np.int32)
                for column, nothing in ((step.op, GUARD), (step.a, NOTHING), (step.b, NOTHING))
            )
            self.steps.append(Scalars(step.first, op, a, b, step.c))


def _without(code: Code, finder: _FoldFinder, values: np.ndarray) -> Code:
    """The program with constants instead of operations."""
    if not scalar_scans.settle_wishes(finder.numbers, finder.wishes):
        return code
    pairs = zip(finder.numbers, finder.wishes, strict=True)
    slots = np.concatenate([step.first + np.flatnonzero(wished) for step, wished in pairs])
    bits, numbers = np.unique(values[slots].view(f"i{code.item}"), return_inverse=True)
    stands = mostly_zeros(code.slots + len(bits), np.int32)
    stands[slots] = code.slots + numbers
    constants = [*code.constants, (code.slots, bits.view(code.dtype))]
    return merged(dataclasses.replace(code, slots=len(stands), constants=constants), stands)


# --------------------------------------------------------------------------------------------------
# Algebra that is exact in IEEE arithmetic: for all operands, signed zeros, NaN and infinities
# too.
# Partial derivatives are exact as well: an operand gets the same number. Two rules that may seem to
# belong here do not. x + 0 is not x, since −0 + 0 is 0. maximum(x, x) has the value x, but at NaN
# the partial derivatives 0 and 0, not 1.
#
# Before that powers become products (`exponents`), which round otherwise than powers do.


#: Kinds of constants, as bits.
ONE, MINUS_ONE, ZERO, MINUS_ZERO, POWER, TRUE, FALSE = (1 << k for k in range(7))
#: In the result of a rule: 1 / the constant.
RECIPROCAL = "reciprocal"


class Rule(NamedTuple):
    """An operation on operands of some kinds, and an equal expression.

    An operand is a kind of constants, a name, or (name, operation, name of its operand). The equal
    expression is a name, or (operation, name, …).
    """

    op: str
    operands: tuple
    equal: str | tuple[str, ...]


#: Why each is exact: its value; then the partial derivative of x.
RULES = (
    Rule("multiply", ("x", ONE), "x"),  # nothing is rounded; 1
    Rule("multiply", (ONE, "x"), "x"),  # the same
    Rule("divide", ("x", ONE), "x"),  # nothing is rounded; 1 / 1
    Rule("power", ("x", ONE), "x"),  # pow(x, 1) is x; 1 · x⁰, and x⁰ is 1 for NaN and ∞ too
    Rule("subtract", ("x", ZERO), "x"),  # −0 − 0 is −0, 0 − 0 is 0; 1
    Rule("add", ("x", MINUS_ZERO), "x"),  # −0 + −0 is −0, 0 + −0 is 0; 1
    Rule("add", (MINUS_ZERO, "x"), "x"),  # the same
    Rule("negative", (("y", "negative", "x"),), "x"),  # the sign changed twice; −1 · −1
    Rule("absolute", (("y", "absolute", "x"),), "y"),  # |x| has no sign; 1, or at 0 and NaN 0 · 0
    Rule("where", (TRUE, "x", "y"), "x"),  # a choice; 1, and what y gets is 0
    Rule("where", (FALSE, "y", "x"), "x"),  # the same
    Rule("where", ("c", "x", "x"), "x"),  # in either order; 1 + 0 or 0 + 1
    Rule("multiply", ("x", MINUS_ONE), ("negative", "x")),  # the sign is changed; −1
    Rule("multiply", (MINUS_ONE, "x"), ("negative", "x")),  # the same
    Rule("divide", ("x", MINUS_ONE), ("negative", "x")),  # the same; 1 / −1
    Rule("divide", ("x", POWER), ("multiply", "x", RECIPROCAL)),  # both round x · 2⁻ᵏ; 2⁻ᵏ is exact
)
_OPERANDS = 3
_CODES = {rule.op: TABLE[rule.op].code for rule in RULES}
#: Patterns without a constant, and kinds of constants that imply others.
_OTHERS = {"negative", "absolute", "where"}
_TELLING = ONE | MINUS_ONE | ZERO | MINUS_ZERO | POWER
_OTHER_CODES = {_CODES[name] for name in _OTHERS}
#: By operation the kinds of constants that its rules are for.
_KINDS = {
    code: functools.reduce(
        operator.or_,
        [kind for rule in RULES if rule.op == name for kind in rule.operands if type(kind) is int],
        0,
    )
    for name, code in _CODES.items()
}


def kinds_of(values: np.ndarray) -> np.ndarray:
    """The kinds of constants, of which most are numbers without a kind of their own."""
    found = np.full(len(values), TRUE, np.uint8)
    bits = values.view(f"i{values.itemsize}")
    fraction = (1 << np.finfo(values.dtype).nmant) - 1
    at = np.flatnonzero(bits & fraction == 0)  # zeros and powers of two, and infinities
    found[at] = _kinds_of_round(values[at])
    return found


def _kinds_of_round(values: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(values)
    minus = np.signbit(values)
    least, most = np.finfo(values.dtype).minexp + 1, np.finfo(values.dtype).maxexp - 1
    power = (np.abs(fraction) == 0.5) & (exponent >= least) & (exponent <= most)
    tests = {
        ONE: values == 1.0,
        MINUS_ONE: values == -1.0,
        ZERO: (values == 0.0) & ~minus,
        MINUS_ZERO: (values == 0.0) & minus,
        POWER: power & (np.abs(values) != 1.0),
        TRUE: values != 0.0,
        FALSE: values == 0.0,
    }
    found = np.zeros(len(values), np.uint8)
    for kind, test in tests.items():
        found[test] |= kind
    return found


class RuleChange(NamedTuple):
    """Rows of a table that a rule changes, and the operands by their names."""

    rule: Rule
    rows: np.ndarray
    names: dict[str, np.ndarray]

    def where(self, holds: np.ndarray) -> RuleChange:
        names = {name: operands[holds] for name, operands in self.names.items()}
        return RuleChange(self.rule, self.rows[holds], names)


class Table:
    """Operations as columns; operands are numbers, whose contents `kinds` gives.

    `results` are the numbers of the results, in ascending order.
    """

    def __init__(self, op, columns: list[np.ndarray], results: np.ndarray, kinds: np.ndarray):
        self.op, self.columns, self.results, self.kinds = op, columns, results, kinds

    def rows(self, operands: np.ndarray) -> np.ndarray:
        """The operations whose results operands are, −1 for others."""
        at = np.minimum(np.searchsorted(self.results, operands), len(self.results) - 1)
        return np.where(self.results[at] == operands, at, -1)

    def candidates(self) -> dict[str, np.ndarray]:
        """Operations that rules may change, by name: most rules are for constants."""
        found = {name: np.flatnonzero(self.op == _CODES[name]) for name in _OTHERS}
        kinds = self.kinds[self.columns[0]] | self.kinds[self.columns[1]]
        rows = np.flatnonzero(kinds & _TELLING)
        of_rows = self.op[rows]
        return found | {name: rows[of_rows == _CODES[name]] for name in _CODES.keys() - _OTHERS}

    def changes(self) -> Iterator[RuleChange]:
        """For each rule the operations that it changes."""
        found = self.candidates()
        for rule in RULES:
            if len(found[rule.op]):
                fits, names = self._match(rule, found[rule.op])
                if fits.any():
                    yield RuleChange(rule, found[rule.op], names).where(fits)
                    found[rule.op] = found[rule.op][~fits]

    def _match(self, rule: Rule, rows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        fits = np.ones(len(rows), bool)
        names: dict[str, np.ndarray] = {}
        for wanted, column in zip(rule.operands, self.columns, strict=False):
            given = column[rows]
            if isinstance(wanted, int):
                fits &= self.kinds[given] & wanted != 0
                names["constant"] = given
            elif isinstance(wanted, str):
                fits &= names.setdefault(wanted, given) == given
            else:
                name, inner, of = wanted
                at = self.rows(given)
                fits &= (at >= 0) & (self.op[at] == TABLE[inner].code)
                names[name], names[of] = given, self.columns[0][at]
        return fits, names


# --- programs -----------------------------------------------------------------------------------


def simplify(code: Code) -> Code:
    """The program with operations simplified by all rules, until none applies."""
    code = by_products(code)
    while (made := _Simplifier(code).simplified()) is not None:
        code = made
    return code


class _Simplifier:
    """Rules applied once to all operations of a program, on numbers and on arrays.

    `kinds` has by slot those of constants, if they are read one by one or a view begins there.
    """

    def __init__(self, code: Code):
        self.code, self.kinds = code, mostly_zeros(code.slots, np.uint8)
        reads = code.reads
        begins = np.array([view.offset for view in reads.views], np.int64)
        begins[(reads.high <= 1) | (reads.low == reads.high)] = NOTHING
        slots = distinct(np.concatenate([code.single_reads, begins]))
        self.constants = Constants(code)
        slots, values = self.constants.among(slots)
        self.kinds[slots] = kinds_of(values)
        telling = reads.steps_of(self.kinds[begins] & _TELLING != 0).tolist()
        #: The ids of steps that read a view that begins with a constant that most rules are about.
        self.telling = {
            id(x) for x, is_one in zip(code.whole_steps, telling, strict=True) if is_one
        }
        self.stands = mostly_zeros(2 * code.slots, np.int32)  # with room for constants
        self.any_goes = False
        self.added: list[np.ndarray] = []
        self.new: dict[int, Step] = {}  # by the id of the replaced step

    def simplified(self) -> Code | None:
        """The simpler program, None if there is none."""
        self._numbers(self.code.numbers)
        self._arrays([step for step in self.code.of(Elementwise).values() if self._may_fit(step)])
        if not self.new and not self.any_goes:
            return None
        added = np.concatenate([np.zeros(0, self.code.dtype), *self.added])
        constants = [*self.code.constants, *([(self.code.slots, added)] if len(added) else [])]
        steps = [self.new.get(id(step), step) for step in self.code.steps]
        slots = self.code.slots + len(added)
        code = dataclasses.replace(self.code, slots=slots, constants=constants, steps=steps)
        made = merged(code, self.stands[:slots])
        return made if self.new or made is not code else None

    def _reciprocals(self, slots: np.ndarray) -> np.ndarray:
        """Slots of 1 / the constants in slots."""
        read, places = np.unique(slots, return_inverse=True)
        values, numbers = np.unique(self.constants.among(read)[1][places], return_inverse=True)
        first = self.code.slots + sum(map(len, self.added))
        self.added.append(1.0 / values)
        return first + numbers

    def _numbers(self, steps: list[Scalars]) -> None:
        if not steps:
            return
        cuts = np.cumsum([len(step.op) for step in steps])[:-1]
        op, a, b = (_joined([getattr(s, name) for s in steps]) for name in ("op", "a", "b"))
        c = _joined([s.c if len(s.c) else np.full(len(s.op), -1, np.int32) for s in steps])
        results = _joined([np.arange(s.first, s.first + len(s.op), dtype=np.int32) for s in steps])
        found = list(Table(op, [a, b, c], results, self.kinds).changes())
        if not found:
            return
        wished = np.zeros(len(op), np.uint8)
        for change in found:
            wished[change.rows] = 1
        if not scalar_scans.settle_wishes(steps, np.split(wished, cuts)):
            return
        found = [change.where(wished[change.rows] != 0) for change in found]
        for change in found:
            if isinstance(change.rule.equal, str):
                self.stands[results[change.rows]] = change.names[change.rule.equal]
                self.any_goes = True
        rewritten = [change for change in found if not isinstance(change.rule.equal, str)]
        if any(len(change.rows) for change in rewritten):
            columns = [op.copy(), a.copy(), b.copy()]
            for change in rewritten:
                made = self._operation(change, change.names["constant"])
                for column, given in zip(columns, made, strict=True):
                    column[change.rows] = given
            parts = zip(steps, *[np.split(column, cuts) for column in columns], strict=True)
            for step, its_op, its_a, its_b in parts:
                self.new[id(step)] = Scalars(step.first, its_op, its_a, its_b, step.c)

    def _operation(self, change: RuleChange, constants: np.ndarray) -> tuple:
        """The operation and the operands that a rule gives; `constants` are slots of them."""
        assert not isinstance(change.rule.equal, str)
        name, first, *others = change.rule.equal
        second = self._reciprocals(constants) if others else np.full(len(constants), -1)
        return TABLE[name].code, change.names[first], second

    def _arrays(self, steps: list[Elementwise]) -> None:
        """The same of steps of one operation, where operands are numbered by their views."""
        if not steps:
            return
        numbers: dict[View, int] = {}
        rows = [
            [numbers.setdefault(view, len(numbers)) for view in (*step.views_read, out)]
            for step in steps
            for _, out in step.stores
        ]
        views = list(numbers)
        operands = np.array([[*row[:-1], -1, -1][:_OPERANDS] for row in rows])
        op, results = np.array([s.ops[0][0] for s in steps]), np.array([row[-1] for row in rows])
        kinds = np.array([self._kind(view) for view in views], np.uint8)
        for change in Table(op, list(operands.T), results, kinds).changes():
            self._change_arrays(steps, views, change)

    def _may_fit(self, step: Elementwise) -> bool:
        """Whether a step is one operation, as it is converted, that rules are about.

        Rules for constants are if there is one at the beginning of an operand.
        """
        if not len(step.ops) == len(step.stores) == 1 or step.sums:
            return False
        code, _ = step.ops[0]
        if code in _OTHER_CODES or id(step) not in self.telling:
            return code in _OTHER_CODES
        kind = _KINDS.get(code, 0)
        return kind != 0 and any([self._first_kind(view) & kind for view in step.views_read])

    def _first_kind(self, view: View) -> int:
        """The constant in the first slot of a view."""
        return self.kinds.item(view.offset) if view.size and view.base == ARENA else 0

    def _change_arrays(
        self, steps: list[Elementwise], views: list[View], change: RuleChange
    ) -> None:
        if isinstance(change.rule.equal, str):
            for k, number in zip(change.rows, change.names[change.rule.equal], strict=True):
                out, view = steps[k].stores[0][1], views[number]
                if is_injective(view):
                    self.stands[slice(*out.extent)] = slots_of(view).ravel()
                    self.any_goes = True
            return
        constants = np.array([views[number].offset for number in change.names["constant"]])
        code, firsts, seconds = self._operation(change, constants)
        for k, first, second in zip(change.rows, firsts, seconds, strict=True):
            step, operands = steps[k], [views[first]]
            if second >= 0:
                operands.append(View(int(second), step.shape, (0,) * len(step.shape)))
            self.new[id(step)] = dataclasses.replace(step, ops=[(code, tuple(operands))])

    def _kind(self, view: View) -> int:
        """The constant in all slots of a view."""
        if not self._first_kind(view):
            return 0
        if not any(view.strides):
            return self._first_kind(view)
        values = self.constants.of(view)
        if values is None:
            return 0
        bits = values.view(f"i{values.itemsize}")
        if (bits == bits.flat[0]).all():
            return self._first_kind(view) & ~POWER
        return TRUE if values.all() else 0 if values.any() else FALSE


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


# --- cse ------------------------------------------------------------------------------------------
# Common subexpressions: the same operation on the same operands is computed once.
#
# Its result then gets the adjoints of all that read it, and its partial derivative multiplies their
# sum: values are the same to the bit, derivatives up to rounding.

#: Operations whose operands may change places: the result is the same to the bit.
_NAMES = "add multiply equal not_equal logical_and logical_or logical_xor".split()
COMMUTATIVE = frozenset({**TABLE, **STEERING}[name].code for name in _NAMES)


def share_results(code: Code) -> Code:
    """The program without operations that repeat an earlier computation."""
    finder = _DuplicateFinder(code.slots)
    for step in code.steps:
        step.accept(finder)
    return merged(code, finder.stands) if finder.any_left() else code


class _Numbers(dict[View, int]):
    """A number for each view that is read: views of the same values have the same."""

    def __init__(self, finder: _DuplicateFinder):
        self.first = finder.first

    def __missing__(self, view: View) -> int:
        """What a view shows has been written: it is known whether something replaces that."""
        first = self.first(view)
        number = len(self) if first is view else self[first]
        self[view] = number
        return number


class _DuplicateFinder(Visitor):
    """The computations so far, by operation and operands; `stands`: see `scalar_scans`."""

    def __init__(self, slots: int):
        self.stands = mostly_zeros(slots, np.int32)
        self.known: dict[tuple, list[View]] = {}
        self.of_views = _Numbers(self)
        self.moved: list[tuple[int, int]] = []  # arrays with replacements, by first slot
        self.numbers: list[Scalars] = []
        self.wishes: list[np.ndarray] = []
        self.any_number = False
        commutative = np.zeros(MOST_CODES, np.uint8)
        commutative[list(COMMUTATIVE)] = True
        self.scan = scalar_scans.Scan(
            {
                scalar_scans.BY_SLOT: self.stands,
                scalar_scans.COMMUTATIVE: commutative,
                scalar_scans.HEADS: np.full(scalar_scans.HASHES, -1, np.int32),
                scalar_scans.RING: np.zeros(scalar_scans.ENTRY * scalar_scans.WINDOW, np.int32),
            }
        )

    def scalars(self, step: Scalars) -> None:
        """Find what is computed again, and remember what is computed."""
        wished = np.zeros(len(step.op), np.uint8)
        self.any_number |= self.scan("number", step, {scalar_scans.WISHED: wished}) > 0
        self.numbers.append(step)
        self.wishes.append(wished)

    def other(self, step: Step) -> None:
        """Find what is computed again as a whole, and remember what is computed."""
        key, written = step.key(self), step.views_written
        if key is None:
            return
        firsts = self.known.setdefault(key, written)
        if firsts is written:
            return
        for view, first in zip(written, firsts, strict=True):
            if view is not first and view.size:
                low, high = view.extent
                self.stands[low:high] = np.arange(first.offset, first.offset + view.size)
                bisect.insort(self.moved, (low, high))

    def any_left(self) -> bool:
        """Whether there is any, after what would spoil loops has been left out."""
        if self.any_number:
            self.any_number = scalar_scans.settle_wishes(self.numbers, self.wishes, self.stands)
            for step, wished in zip(self.numbers, self.wishes, strict=True):
                self.stands[step.first : step.first + len(step.op)][wished == 0] = 0
        return self.any_number or bool(self.moved)

    # --- what steps are told by: see `Step.key` -----------------------------------------------

    def operations(self, ops: list[tuple[int, tuple]]) -> list[tuple]:
        """Operations of an element-wise step; operands that may change places in one order."""
        numbers, made = self.of_views, []
        for code, operands in ops:
            found = [numbers[x] if type(x) is View else -1 - x for x in operands]
            if code in COMMUTATIVE:
                found.sort()
            made.append((code, *found))
        return made

    def key_of(self, kind: type, parts: list, written: list[View]) -> tuple | None:
        """What a step of such parts computes, wherever it writes; None if that cannot be said."""
        try:
            key = kind, *[self._hashable(what, written) for what in parts]
            hash(key)
        except TypeError:
            return None
        return key

    def _hashable(self, what, written: list[View]) -> Hashable:
        """Equal for equal parts of steps: numbers of one type, zeros of one sign."""
        if isinstance(what, View):
            return self.place(what, written)
        if isinstance(what, (list, tuple)):
            return tuple([self._hashable(one, written) for one in what])
        if isinstance(what, np.ndarray):
            return what.dtype.str, what.shape, what.tobytes()
        if isinstance(what, functools.partial):
            keywords = self._hashable(sorted(what.keywords.items()), written)
            return what.func, self._hashable(what.args, written), keywords
        return type(what), what.hex() if isinstance(what, float) else what

    def place(self, view: View, written: Sequence[View]) -> tuple:
        """The place where the values of a view were computed first, or where in a result it is."""
        offset = view.offset
        if view.base == ARENA and view.size:
            for number, out in enumerate(written):
                if out.offset <= offset < out.offset + out.size:
                    return -1 - number, offset - out.offset, view.shape, view.strides
        return view.base, self.first(view).offset, view.shape, view.strides

    def first(self, view: View) -> View:
        """The view where the values of one were computed first."""
        if view.base == ARENA and view.size and self._has_moved(view):
            return view.at(self.stands.item(view.offset) or view.offset)
        return view

    def _has_moved(self, view: View) -> bool:
        """Whether another array, or number, replaces all slots of a view."""
        if view.size == 1:
            return True
        if not self.moved:
            return False
        low, high = view.extent
        k = bisect.bisect_right(self.moved, (low, 1 << 62)) - 1
        return k >= 0 and high <= self.moved[k][1]

    def stand_ins(self, slots: np.ndarray) -> np.ndarray:
        """The slots in which the values of others were computed first."""
        return np.where((slots >= 0) & (self.stands[slots] > 0), self.stands[slots], slots)


# --- dead code ------------------------------------------------------------------------------------
# Dead code: values that are never read are not computed.


def drop_unread(code: Code) -> Code:
    """The program without operations on numbers, and steps of arrays, that no result needs."""
    if not (_any_number_unread(code) or _any_unread(code)):
        return code
    finder = _UnreadFinder(code)
    for step in reversed(code.steps):
        step.accept(finder)
    return merged(code, finder.stands) if finder.any_found else code


def _any_unread(code: Code) -> bool:
    """Whether there is a step of arrays that may go and that no step reads.

    What only unneeded steps read is needed by none: the last of these is read by no step at all.
    """
    is_read = code.writes.steps_of(views_needed(code))
    return any(not code.whole_steps[k].may_stop for k in np.flatnonzero(~is_read).tolist())


def _any_number_unread(code: Code) -> bool:
    """Whether there is an operation on numbers whose result no step reads, for the same reason."""
    numbers = [step.slots_written for step in code.numbers]
    if not numbers:
        return False
    outputs, single = Spans([[output.view] for output in code.outputs]), code.single_reads
    low = np.concatenate([code.reads.low, outputs.low, single])
    high = np.concatenate([code.reads.high, outputs.high, single + 1])
    return not Ranges(low, high).hold(np.concatenate(numbers)).all()


class _UnreadFinder(Visitor):
    """The values that are read, found from the last step on; `stands`: see `scalar_scans`.

    `read` says of written views whether they are; of those that are numbers, or of which single
    slots are read, `marks` says it slot by slot. Of the `views` that whole steps read, before those
    of results, view k shows the written ones from `begin[k]` to before `end[k]`; the steps that are
    left read those before `at`.
    """

    def __init__(self, code: Code):
        self.marks = mostly_zeros(code.slots, np.uint8)
        self.stands = mostly_zeros(code.slots, np.int32)
        self.scan = scalar_scans.Scan({scalar_scans.BY_SLOT: self.marks})
        self.any_found = False
        self._find_views(code)
        self._read(range(self.at, len(self.views)))

    def _find_views(self, code: Code) -> None:
        written, single = Written(code), code.single_reads
        numbers = [step.first for step in code.numbers]
        by_slot = np.isin(written.first, np.array(numbers, np.int64))
        by_slot |= np.searchsorted(single, written.first) < np.searchsorted(single, written.last)
        self.by_slot, self.read = by_slot.tolist(), bytearray(len(by_slot))
        self.number = {slot: k for k, slot in enumerate(written.first.tolist())}
        outputs = Spans([[output.view] for output in code.outputs])
        self.views, self.at = code.reads.views + outputs.views, len(code.reads.views)
        low, high = np.append(code.reads.low, outputs.low), np.append(code.reads.high, outputs.high)
        self.begin, self.end = (at.tolist() for at in written.seen(low, high))

    def _read(self, numbers: range) -> None:
        """Mark what some of the views that are read show."""
        for k in numbers:
            for number in range(self.begin[k], self.end[k]):
                self.read[number] = True
                if self.by_slot[number]:
                    self.marks[slice(*self.views[k].extent)] = True

    def _is_read(self, view: View) -> bool:
        if not view.size:
            return False
        number = self.number[view.extent[0]]
        return bool(self.read[number]) or (self.by_slot[number] and any_in(self.marks, view))

    def scalars(self, step: Scalars) -> None:
        wished = np.zeros(len(step.op), np.uint8)
        if self.scan("read", step, {scalar_scans.WISHED: wished}):
            self.stands[step.first + np.flatnonzero(wished)] = scalar_scans.UNREAD
            self.any_found = True

    def other(self, step: Step) -> None:
        last, self.at = self.at, self.at - len(step.views_read)
        if step.may_stop or any([self._is_read(view) for view in step.views_written]):
            self._read(range(self.at, last))
            for slots in step.slots_read:
                self.marks[slots] = True
            return
        for view in step.views_written:
            self.stands[slice(*view.extent)] = scalar_scans.UNREAD
        self.any_found = True

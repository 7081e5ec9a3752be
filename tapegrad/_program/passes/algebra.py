"""Algebra that is exact in IEEE arithmetic, and constants folded."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..._core.ops.powers import OF_NUMBERS
from ..._core.ops.table import TABLE
from ..build.executable import Program
from ..ir import scalar_scans
from ..ir.elementwise_step import Elementwise
from ..ir.rewriting import merged
from ..ir.scalars_step import Scalars
from ..ir.steps import ARENA, GUARD, NOTHING, Code, Ranges, Step, View, Visitor, mostly_zeros
from ..ir.uses import (
    Constants,
    all_in,
    constants_of,
    constants_read,
    is_injective,
    known_slots,
    slots_of,
)
from ..replay.run_layout import FINISHED

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
    finder = _Finder(code)
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


class _Finder(Visitor):
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


def _without(code: Code, finder: _Finder, values: np.ndarray) -> Code:
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


class Change(NamedTuple):
    """Rows of a table that a rule changes, and the operands by their names."""

    rule: Rule
    rows: np.ndarray
    names: dict[str, np.ndarray]

    def where(self, holds: np.ndarray) -> Change:
        names = {name: operands[holds] for name, operands in self.names.items()}
        return Change(self.rule, self.rows[holds], names)


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

    def changes(self) -> Iterator[Change]:
        """For each rule the operations that it changes."""
        found = self.candidates()
        for rule in RULES:
            if len(found[rule.op]):
                fits, names = self._match(rule, found[rule.op])
                if fits.any():
                    yield Change(rule, found[rule.op], names).where(fits)
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
        slots = np.unique(np.concatenate([code.single_reads, begins]))
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

    def _operation(self, change: Change, constants: np.ndarray) -> tuple:
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

    def _change_arrays(self, steps: list[Elementwise], views: list[View], change: Change) -> None:
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

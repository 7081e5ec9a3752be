"""Native code for operations on numbers: what is rolled, values, adjoints, guards."""

import copy
import dataclasses
import re

import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from random_loops import KINDS, RandomLoops, bodies, picked
from scalar_programs import Trace, check, numbers, summary

from tapegrad._program.native import loop_code, scalar_code
from tapegrad._program.native.loop_code import Stores
from tapegrad._program.native.loop_finding import (
    CARRIED,
    FIXED,
    LOCAL,
    Operands,
    Region,
    Slots,
    find_loops,
)
from tapegrad._program.native.scalar_code import Claims
from tapegrad._program.replay.run_layout import GUARD_FAILED


def euler(trace, steps, x, y, a, b):
    for _ in range(steps):
        dx, dy = x * (a - b * y), y * (x - a)
        x, y = x + 0.01 * dx, y + 0.01 * dy
    return x, y


def carried():
    t = Trace(numbers(4))
    return t.program(*euler(t, 40, *t.inputs))


def accumulated():
    t = Trace(numbers(60))
    s = 0.0
    for x in t.inputs:
        s = s + x * x
    return t.program(s)


def strided_backwards():
    t = Trace(numbers(120))
    s = t.inputs[0]
    for k in range(59):
        s = s * t.inputs[119 - 2 * k] + t.inputs[k]
    return t.program(s)


def constants_that_differ():
    t = Trace(numbers(3))
    x, a, b = t.inputs
    for value in numbers(50, 1):
        x = (x - value) * a + b
    return t.program(x)


def indexed():
    t = Trace(numbers(30))
    s = t.inputs[0]
    for k in np.random.default_rng(3).integers(0, 30, 50):
        s = s * 0.5 + t.inputs[k]
    return t.program(s)


def two_in_turn():
    """x and y are updated in turn by the same operations: one iteration is both."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(30):
        x = x + a * 0.1
        y = y + b * 0.1
    return t.program(x * y)


def second_order():
    """Each value is made of the two before it."""
    t = Trace(numbers(3))
    x, y, a = t.inputs
    for _ in range(60):
        x, y = y, y * a - x
    return t.program(y)


def one_after_the_other():
    t = Trace(numbers(100))
    s = r = 0.0
    for x in t.inputs[:50]:
        s = s + x * x
    for x in t.inputs[50:]:
        r = r + x * s
    return t.program(r)


def results_read_later():
    """A loop's results, all of them and each fifth, are read by loops after it."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    states = []
    for _ in range(100):
        x, y = euler(t, 1, x, y, a, b)
        states.append((x, y))
    s = 0.0
    for x, _ in states:
        s = s + x * a
    for _, y in states[4::5]:
        s = s + (y - 0.5) * (y - b) * y
    return t.program(s)


def nested():
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    s = 0.0
    for value in numbers(12, 5):
        x, y = euler(t, 40, x, y, a, b)
        s = s + (x - value) * (x - value) * y
    return t.program(s, x)


def rows_of_a_matrix():
    """The sum of each row starts anew; what a row gives is used by the row after."""
    t = Trace(numbers(8 * 150 + 150))
    matrix, w = t.inputs[: 8 * 150], t.inputs[8 * 150 :]
    total = 1.0
    for i in range(8):
        row = total * w[i]
        for j in range(150):
            row = row + matrix[i * 150 + j] * w[j]
        total = total + row * row
    return t.program(total)


def thrice_nested():
    t = Trace(numbers(3))
    x, a, b = t.inputs
    for i in range(5):
        for _ in range(4):
            for _ in range(90):
                x = x + (a - x) * 0.01 * b
            x = x * a
        x = x - float(i) * b
    return t.program(x)


def from_the_row_before():
    """Each row begins with the same number in all columns, and then takes what lies above."""
    t = Trace(numbers(110, 6))
    start, *moving = t.inputs
    above, total = [start] * 100, 0.0
    for i in range(6):
        row = moving[i]
        made = []
        for j in range(100):
            row = row * 0.5 + above[j] * moving[j]
            made.append(row)
        above = made
        total = total + row
    return t.program(total)


def begun_with_its_own():
    """In the first iteration an operand is a result of that iteration, later of the one before."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    last = None
    for _ in range(40):
        x = t.call("sin", x * a)
        y = y * b + (x if last is None else last)
        last = y
    return t.program(x, y)


ROLLED = {
    carried: "loop of 40 x 9 operations",
    accumulated: "loop of 60 x 2 operations",
    strided_backwards: "loop of 59 x 2 operations",
    constants_that_differ: "loop of 50 x 3 operations",
    indexed: "loop of 50 x 2 operations",
    two_in_turn: "loop of 30 x 4 operations; 1 operations",
    second_order: "loop of 30 x 4 operations",
    one_after_the_other: "loop of 50 x 2 operations; loop of 50 x 2 operations",
    results_read_later: "loop of 100 x 9 operations; loop of 100 x 2 operations; "
    "loop of 20 x 5 operations",
    nested: "loop of 12 x 365 operations, inside: loop of 40 x 9 operations",
    rows_of_a_matrix: "loop of 8 x 303 operations, inside: loop of 150 x 2 operations",
    begun_with_its_own: "loop of 40 x 4 operations",
    from_the_row_before: "loop of 6 x 301 operations, inside: loop of 100 x 3 operations",
    thrice_nested: "loop of 5 x 1446 operations, inside: loop of 4 x 361 operations, "
    "inside: loop of 90 x 4 operations",
}


@pytest.mark.parametrize("make", ROLLED, ids=lambda make: make.__name__)
def test_what_repeats_is_rolled(make, whole_loops):
    assert summary(check(make())) == ROLLED[make]


def test_sums_keep_no_trajectory(whole_loops):
    assert check(accumulated()).kept == 1  # whether all was finite
    assert check(carried()).kept == 4 * 40 + 1  # what is carried, and what slopes read


def test_long_loops_keep_what_is_carried_only(whole_loops, monkeypatch):
    monkeypatch.setattr(loop_code, "IN_CACHE", 4 * 40 - 1)
    assert check(carried()).kept == 2 * 40 + 1


def test_slow_functions_are_kept_not_repeated():
    t = Trace(numbers(3))
    x, a, b = t.inputs
    for _ in range(40):
        x = t.call("exp", -(x * a)) * b + t.call("sqrt", x)
    compiled = check(t.program(x), exact=False)
    assert summary(compiled) == "loop of 40 x 6 operations"
    assert compiled.kept == 3 * 40  # x, its exponential and its root: the loop is short


def test_unwanted_adjoints_are_not_added():
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    program = t.program(*euler(t, 40, x, y, a, b), frozen=(2, 3))
    compiled = check(program)
    assert (compiled.run.adjoints[[3, 4]] == 0).all()


@pytest.mark.parametrize("count", [16, 40])
def test_a_carried_value_without_adjoint_begins_as_one_with(count):
    """What a loop carries is data after its first iteration; before, it is differentiated."""
    t = Trace(numbers(count + 4))
    s, x, a, b, *data = t.inputs
    before = t.call("sin", x * a)
    for v in data:
        new = v * 0.5
        s = s * b - before * a
        before = new
    compiled = check(t.program(s * before, frozen=range(4, count + 4)), exact=False)
    assert f"loop of {count} x 4" in summary(compiled)


def test_an_adjoint_of_zero_meets_no_slope():
    """√ has an infinite slope at 0, and is multiplied by 0."""
    t = Trace([0.0, 2.0])
    x, s = t.inputs
    for _ in range(40):
        s = s + 0.0 * t.call("sqrt", x)
    compiled = check(t.program(s))
    assert compiled.run.adjoints[1] == 0.0


def special(value):
    t = Trace(numbers(2))
    x, a = t.inputs
    for _ in range(40):
        x = t.call("maximum", x * a, value)
    return t.program(x, x + value)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-300, -1.25])
def test_constants_of_every_kind(value):
    check(special(value))


def guarded(inputs):
    t = Trace(inputs)
    s = 0.0
    for x in t.inputs:
        s = s + x * x
        t.guard(t.call("maximum", x, 0.0), x)
    return t.program(s)


def test_guards_inside_loops(whole_loops):
    values = numbers(50)
    program = guarded(values)
    compiled = check(program)
    assert summary(compiled) == "loop of 50 x 4 operations"
    values[[31, 40]] = -1.0
    failed = program.first + 31 * 4 + 3
    assert compiled.forward(values) == (GUARD_FAILED, failed)
    values[[31, 40]] = np.nan  # NaN is equal to NaN
    assert compiled.forward(values)[0] == 0


@pytest.mark.parametrize("longest", [20, 170, 5000])
def test_long_straight_code_is_cut(longest, monkeypatch):
    """Parts of about the same length, each of which reads results of those before."""
    monkeypatch.setattr(scalar_code, "_TEXT", longest)
    t = Trace(numbers(4))
    rng = np.random.default_rng(0)
    results = list(t.inputs)
    for _ in range(300):
        x, y = rng.choice(len(results), 2)
        name = rng.choice(["add", "subtract", "multiply", "minimum"])
        results.append(t.call(str(name), results[x], results[y]) * 0.5)
    x, y = euler(t, 40, *results[-2:], *t.inputs[:2])
    compiled = check(t.program(x, y))
    assert len(compiled.parts) == {20: 31, 170: 4, 5000: 1}[longest]


def moved(operand):
    """What an operand was not found to be."""
    kinds = {LOCAL: "result", CARRIED: "result", FIXED: "slot"}
    if operand.kind in kinds:
        name = kinds[operand.kind]
        return dataclasses.replace(operand, **{name: getattr(operand, name) + 1})
    text = re.sub(r"\[(\d+)", lambda found: f"[{int(found[1]) + 1}", operand.value)
    return dataclasses.replace(operand, value=text if text != operand.value else "7.0")


@pytest.mark.parametrize("make", ROLLED, ids=lambda make: make.__name__)
def test_what_loops_claim_of_operands_is_checked(make):
    """Each operand in turn is said to be something else."""
    p = make()
    region = Region(p.step, 0, len(p.step.op), find_loops(p.step, p.known), p.outside)
    claims = Claims(Operands(region, Slots(p.known, p.initial, p.wanted)))
    claims.check()
    for found in claims.operands.of.values():
        for k, operand in enumerate(found):
            found[k] = moved(operand)
            with pytest.raises(RuntimeError, match="does not hold: operand"):
                claims.check()
            found[k] = operand


def test_what_loops_store_is_checked():
    p = results_read_later()
    region = Region(p.step, 0, len(p.step.op), find_loops(p.step, p.known), p.outside)
    claims = Claims(Operands(region, Slots(p.known, p.initial, p.wanted)))
    claims.check()
    stores = Stores(claims.operands)
    claims.check_stores(stores)
    for k in stores.of:
        fewer = copy.copy(stores)
        fewer.of = {other: place for other, place in stores.of.items() if other != k}
        with pytest.raises(RuntimeError, match="not stored in time"):
            claims.check_stores(fewer)


body = bodies(["add", "subtract", "multiply", "maximum", "negative", "square"], [*KINDS, "before"])


class Loops(RandomLoops):
    """Two states of three move up, and the last one is new and bounded."""

    def initial(self):
        return [*self.trace.inputs[:2], self.trace.constant(0.5)]

    def carried(self, local):
        return [*self.states[1:], self.trace.call("clip", local[-1], -1.5, 1.5)]


loop = st.tuples(body, st.integers(1, 40))


@settings(max_examples=rounds(8, 4))  # each is compiled
@given(st.lists(loop, min_size=1, max_size=3), picked)
def test_random_loops(sequence, picked):
    loops = Loops(700)
    for instructions, count in sequence:
        loops.run(instructions, count)
    check(loops.program(loops.states[1:], picked))


@settings(max_examples=rounds(5, 4))  # each is compiled
@given(st.lists(loop, min_size=1, max_size=2), st.integers(2, 6), picked)
def test_random_nested_loops(sequence, count, picked):
    loops = Loops(700)
    for _ in range(count):
        for instructions, inner in sequence:
            loops.run(instructions, inner)
    check(loops.program(loops.states[1:], picked))

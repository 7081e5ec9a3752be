"""Native code for loops taken apart: Jacobians of iterations, then a chain, then all else."""

import numpy as np
import pytest
from extent import rounds, some
from hypothesis import given, settings
from hypothesis import strategies as st
from random_loops import RandomLoops, bodies, picked
from scalar_programs import Trace, check, numbers, summary

from tapegrad._program.native import loop_code, simd_loops


@pytest.fixture
def every_loop(monkeypatch):
    """Short loops are taken apart, too; in short blocks."""
    monkeypatch.setattr(simd_loops, "FEWEST", 2)
    monkeypatch.setattr(simd_loops, "BODY", 1)
    monkeypatch.setattr(simd_loops, "MANY", 1)
    for module in (simd_loops, simd_loops):
        monkeypatch.setattr(module, "BLOCK", 16)


def predators(x, y, a, b):
    for _ in range(2):
        dx, dy = x * (a - b * y), y * (x - a)
        x, y = x + 0.01 * dx, y + 0.01 * dy
    return x, y


def one_carried(count):
    t = Trace(numbers(4))
    x, a, b, c = t.inputs
    for _ in range(count):
        x = x + 0.01 * (a * x * x - b * x + c * x * x * x - x * a * b)
    return t.program(x)


def two_carried(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(count):
        x, y = predators(x, y, a, b)
    return t.program(x, y)


def three_carried(count):
    t = Trace(numbers(6))
    x, y, z, s, r, b = t.inputs
    for _ in range(count):
        for _ in range(2):
            dx, dy, dz = s * (y - x), x * (r - z) - y, x * y - b * z
            x, y, z = x + 0.01 * dx, y + 0.01 * dy, z + 0.01 * dz
    return t.program(x, y, z)


def four_carried(count):
    t = Trace(numbers(6))
    *state, a, b = t.inputs
    for _ in range(count):
        x, y, z, w = state
        state = [x + 0.01 * y * a, y - 0.01 * x * b, z + 0.01 * w * x, w - 0.01 * z * y * a]
    return t.program(*state)


def read_outside(count):
    """A sum of what is carried, and of a result inside, that others read."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    seen = []
    for _ in range(count):
        x, y = predators(x, y, a, b)
        seen += [y, x * y - a]
    total = 0.0
    for value in seen:
        total = total + value * value
    return t.program(total, *seen[:4])


def read_now_and_then(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    seen = []
    for k in range(count):
        x, y = predators(x, y, a, b)
        if k % 5 == 1 or k == count - 2:
            seen.append(y)
    return t.program(x, *seen)


def driven(count):
    """By inputs of their own in each iteration, forwards, backwards, in no order; by constants."""
    t = Trace(numbers(3 * count + 2))
    x, y, *u = t.inputs
    picked = np.random.default_rng(3).permutation(count)
    for k in range(count):
        dx = u[k] * (x - y) + u[2 * count - k] * (1.0 + 0.01 * (k % 7))
        dy = u[picked[k]] * (x * y - u[2 * count - 1 - k]) - y
        x, y = x + 0.01 * dx, y + 0.01 * dy - 0.001 * x * dx
    return t.program(x, y)


def two_steps_back(count):
    t = Trace(numbers(5))
    old, x, a, b, c = t.inputs
    for _ in range(count):
        new = x + 0.01 * (a * x * old - b * x + c * old - x * x * a)
        old, x = x, new
    return t.program(old, x)


def two_beginnings(count):
    """The result of an iteration is carried under two names, which begin differently."""
    t = Trace(numbers(5))
    x, y, a, b, c = t.inputs
    for _ in range(count):
        x = y = x + 0.01 * (a * x * y - b * x + c * y - x * x * a)
    return t.program(x)


def summed(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    total = 0.0
    for _ in range(count):
        x, y = predators(x, y, a, b)
        total = total + x * y
    return t.program(total)


def nested(count):
    t = Trace(numbers(30))
    x, y, a, b, *u = t.inputs
    total = 0.0
    for k in range(6):
        for _ in range(count):
            x, y = predators(x, y, a, b * u[k])
        total = total + x * u[2 * k]
        a = a + 0.01 * y
    return t.program(total, x)


def guarded(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(count):
        x, y = predators(x, y, a, b)
        t.guard(t.call("maximum", x, 0.0), x)
    return t.program(x, y)


def one_after_the_other(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(count):
        x, y = predators(x, y, a, b)
    a = t.call("exp", x) * y
    for _ in range(count):
        x, y = predators(y, x, b, a)
    return t.program(x, y, a)


MAKERS = {
    one_carried: "1 of 1",
    two_carried: "1 of 1",
    three_carried: "1 of 1",
    four_carried: "1 of 1",
    read_outside: "2 of 2",
    read_now_and_then: "1 of 1",
    driven: "1 of 1",
    two_steps_back: "1 of 1",
    two_beginnings: "1 of 1",
    summed: "1 of 1",
    nested: "1 of 2",
    guarded: "1 of 1",
    one_after_the_other: "2 of 2",
}


@pytest.mark.parametrize(
    ("make", "count"),
    [(make, count) for k, make in enumerate(MAKERS) for count in some((36, 41, 600), k)],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_loops_are_taken_apart(make, count):
    compiled = check(make(count))
    assert f"adjoints in lanes: {MAKERS[make]} loops" in summary(compiled)


@pytest.mark.parametrize("make", [three_carried, read_outside, driven, nested])
def test_long_loops_compute_again(make, monkeypatch):
    monkeypatch.setattr(loop_code, "IN_CACHE", 1)
    assert "adjoints in lanes" in summary(check(make(300)))


def carrying_five(count):
    t = Trace(numbers(7))
    *state, a, b = t.inputs
    for _ in range(count):
        x, y, z, w, u = state
        x, y, z = x + 0.01 * y * a, y - 0.01 * x * b, z + 0.01 * w * u
        state = [x, y, z, w - 0.01 * z * y * a, u + 0.01 * w * x]
    return t.program(*state)


def with_an_integral(count):
    """Its slope is not computed in lanes."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(count):
        x, y = predators(x, y, a, b)
        x = x + 0.01 * t.call("digamma", y)
    return t.program(x, y)


def short(count):
    return two_carried(count // 4)


def reading_itself(count):
    """Each iteration reads what an earlier one has written to memory."""
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    seen = [x] * 9
    for _ in range(count):
        x, y = predators(x, y, a, b * seen[-8])
        seen.append(y)
    return t.program(x, y)


def with_much_from_outside(count):
    """More values from before the loop than a function of it takes."""
    t = Trace(numbers(26))
    x, *fixed = t.inputs
    for _ in range(count):
        total = 0.0
        for a in fixed:
            total = total + a * x
        x = x - 0.01 * total
    return t.program(x)


WHOLE = [carrying_five, with_an_integral, short, reading_itself, with_much_from_outside]


@pytest.mark.parametrize("make", WHOLE)
def test_others_stay_whole(make):
    assert "lanes" not in summary(check(make(40), exact=False))


def functions(count):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(count):
        speed = t.call("exp", -(x * a)) - t.call("sin", y) + t.call("sqrt", x * x + b)
        x = x + 0.01 * speed
        y = t.call("tanh", y / (1.0 + x * x) + a * t.call("log", x + 2.0))
    return t.program(x, y)


@pytest.mark.parametrize("count", [32, 601])
def test_functions(count):
    compiled = check(functions(count), exact=False)
    assert "adjoints in lanes: 1 of 1 loops" in summary(compiled)


def test_a_slope_that_is_not_finite_is_met_with_care():
    """√ has an infinite slope at 0, which a seed of 1 meets, and the adjoint of 0 does not."""
    t = Trace([0.0, 1.0, 0.7, 0.3])
    x, y, a, b = t.inputs
    for _ in range(40):
        x, y = x * a, y + 0.01 * y * (a - b * y) * (1.0 - b * y) + 0.0 * t.call("sqrt", x)
    compiled = check(t.program(y, x))
    assert "adjoints in lanes" in summary(compiled)
    assert np.isfinite(compiled.run.adjoints[1:5]).all()


def test_what_is_not_finite_is_computed_with_care():
    """An adjoint of 0 gives 0 whatever the slope, in the careful loop that runs then."""
    t = Trace([1e300, 1.0, 2.0, 0.5])
    x, y, a, b = t.inputs
    for _ in range(40):
        x, y = x * x * a + x * b * a - b, y + 0.01 * y * (a - y * b) - y * a * b * 0.01
    compiled = check(t.program(x * 0.0, y))
    assert "adjoints in lanes" in summary(compiled)
    assert compiled.run.adjoints[1] == 0.0
    assert np.isfinite(compiled.run.adjoints[2])


def test_loops_without_adjoints():
    """The result of the operations is read by guards only: nothing arrives at their adjoints."""
    t = Trace(numbers(60))
    for x in t.inputs:
        t.guard(t.call("maximum", x * 2.0, 0.0), x * 2.0)
    assert "60 x" in summary(check(t.program(t.inputs[0] * 2.0)))


def test_unwanted_adjoints_are_not_added(every_loop):
    t = Trace(numbers(4))
    x, y, a, b = t.inputs
    for _ in range(40):
        x, y = predators(x, y, a, b)
    compiled = check(t.program(x, y, frozen=(2, 3)))
    assert "adjoints in lanes" in summary(compiled)
    assert (compiled.run.adjoints[[3, 4]] == 0).all()


body = bodies(["add", "subtract", "multiply", "multiply", "negative", "square"])
functions_too = bodies(["sin", "exp", "tanh", "multiply", "add", "subtract"])


class Recurrence(RandomLoops):
    """Each loop carries some of the first inputs, up to four, which stay small."""

    def __init__(self, count):
        self.count = count
        super().__init__(400)

    def initial(self):
        return self.trace.inputs[: self.count]

    def carried(self, local):
        new = [
            0.5 * state + 1e-4 * local[-1 - j % len(local)] for j, state in enumerate(self.states)
        ]
        return [*new[1:], new[0]]


times = st.integers(8, 60)


@settings(max_examples=rounds(12, 4))  # each is compiled
@given(
    st.lists(st.tuples(body, st.integers(8, 60)), min_size=1, max_size=2), picked, st.integers(1, 3)
)
def test_random_recurrences(every_loop, sequence, picked, carried):
    loops = Recurrence(carried)
    for instructions, count in sequence:
        loops.run(instructions, count)
    check(loops.program(loops.states, picked))


@settings(max_examples=rounds(6, 4))  # each is compiled
@given(body, st.integers(8, 40), st.integers(3, 6), picked, st.integers(1, 4))
def test_random_nested_recurrences(every_loop, instructions, inner, count, picked, carried):
    loops = Recurrence(carried)
    for _ in range(count):
        loops.run(instructions, inner)
        loops.states = [state * loops.trace.inputs[8] for state in loops.states]
    check(loops.program(loops.states, picked))


@settings(max_examples=rounds(12, 4))  # each is compiled
@given(functions_too, times, picked, st.integers(1, 4))
def test_random_recurrences_with_functions(every_loop, instructions, count, picked, carried):
    loops = Recurrence(carried)
    loops.run(instructions, count)
    check(loops.program(loops.states, picked), exact=False)

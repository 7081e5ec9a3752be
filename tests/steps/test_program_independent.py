"""Native code for operations of loops that depend on nothing carried, and for loops that add up."""

import numpy as np
import pytest
from scalar_programs import Trace, check, numbers, summary

from tapegrad._program.replay.run_layout import GUARD_FAILED


def likelihood(t, count):
    """Of numbers by tables, inputs in and out of order; two sums, one of them subtracted from."""
    a, b, *u = t.inputs
    picked = np.random.default_rng(3).permutation(count)
    total, rest = a, 0.0
    for k in range(count):
        z = u[picked[k]] * a - 0.1 * (k % 7)
        density = 0.3 * t.call("exp", -(z * z)) + t.call("tanh", b * u[k]) + 1.1
        total = total + t.call("log", density) + 0.5
        rest = rest - density * t.call("sin", u[count - 1 - k])
    return [total * rest, total]


def results(t, count):
    """Stored, read in their slots, by others now and then."""
    a, b, *u = t.inputs
    made = [t.call("exp", a * x) * b for x in u[:count]]
    total = 0.0
    for k in range(count):
        total = total + made[count - 1 - k] * u[k]
    return [total, made[3], made[-1]]


def carried(t, count):
    """An independent result is carried to the next iteration, and the last one is read."""
    a, b, *u = t.inputs
    before, total = b, 0.0
    for x in u[:count]:
        now = t.call("exp", a * x)
        total = total + now * before
        before = now
    return [total, before]


def recurrence(t, count):
    x, y, a, b, *u = t.inputs
    for k in range(count - 2):
        push = t.call("sin", a * u[k]) * t.call("exp", -b * u[k])
        x, y = x + 0.01 * y * push - 0.001 * x * x, y - 0.01 * x * push + 0.01 * (a - y * b) * push
    return [x, y]


def with_guards(t, count):
    a, b, *u = t.inputs
    total = 0.0
    for x in u[:count]:
        z = t.call("exp", a * x) * b
        t.guard(t.call("maximum", z, 0.0), z)
        total = total + z * z
    return [total]


def runs(t, count):
    """Loops in a loop, which is carried into them."""
    a, b, *u = t.inputs
    total, x = 0.0, b
    for k in range(5):
        for j in range(count):
            total = total + t.call("exp", -(u[j] * x)) * u[k]
        x = x * 0.9 + 0.01 * total
    return [total, x]


#: Functions, and in how many loops values and adjoints are computed in lanes.
INDEPENDENT = {
    likelihood: (1, 1),
    results: (1, 2),
    carried: (1, 0),
    recurrence: (1, 1),
    with_guards: (1, 1),
    runs: (1, 1),
}


@pytest.mark.parametrize("count", [36, 41, 600])
@pytest.mark.parametrize("make", INDEPENDENT, ids=lambda make: make.__name__)
def test_independent_operations(make, count):
    t = Trace(numbers(count + 2))
    compiled = check(t.program(*make(t, count)), exact=False)
    for what, loops in zip(("values", "adjoints"), INDEPENDENT[make], strict=True):
        assert (f"{what} in lanes: {loops} of" in summary(compiled)) == (loops > 0)


def test_a_guard_fails_at_the_first_place():
    t = Trace(numbers(602))
    program = t.program(*with_guards(t, 600))
    compiled = check(program, exact=False)
    inputs = t.values.copy()
    inputs[1] = -1.0  # z is negative in all iterations
    status, place = compiled.forward(inputs)
    assert status == GUARD_FAILED
    assert place - program.first == 4


def test_sums_meet_an_adjoint_of_zero():
    """√ has an infinite slope at 0, which is multiplied by 0."""
    t = Trace([0.0, *numbers(50)])
    total = 0.0
    for x in t.inputs:
        total = total + 0.0 * t.call("sqrt", x) + x * x
    compiled = check(t.program(total), exact=False)
    assert "adjoints in lanes" in summary(compiled)
    assert compiled.run.adjoints[1] == 0.0


def test_stencils_are_not_independent():
    """Each iteration reads results of earlier ones in memory."""
    t = Trace(numbers(80))
    seen = [*t.inputs[:9]]
    for k in range(60):
        seen.append(t.call("exp", -seen[-9]) * t.inputs[k] + t.call("sin", seen[-8]))
    assert "lanes" not in summary(check(t.program(*seen[-3:]), exact=False))

"""Common subexpressions of programs: what is computed once, and what is not."""

import numpy as np
import pytest
import rows
from passed_programs import (
    AWKWARD,
    FLOAT,
    X,
    agree,
    bits,
    code_of,
    evaluated,
    operations,
    passed,
    steps_of,
)
from scalar_programs import Trace

import tapegrad as tg
from tapegrad._core.ops.elementwise import STEERING
from tapegrad._core.ops.table import TABLE
from tapegrad._program.ir.kernel_step import Computed
from tapegrad._program.ir.steps import Code, Input, Output, contiguous
from tapegrad._program.passes.simplification import COMMUTATIVE, share_results

# --- common subexpressions ----------------------------------------------------------------------


def test_equal_operations_are_computed_once():
    f = lambda x: np.exp(x[0] * x[1]) + np.sin(x[1] * x[0]) * np.exp(x[0] * x[1])
    assert sorted(steps_of(f, X)) == ["add", "exp", "multiply", "multiply", "sin"]


@pytest.mark.parametrize("name", [op.name for op in rows.ROWS if len(op.inputs) == 2])
def test_operands_change_places_only_where_that_changes_nothing(name):
    trace = Trace([0.7, 0.4])
    x, y = trace.inputs
    code = code_of(trace.program(trace.call(name, x, y), trace.call(name, y, x)))
    made = passed(code, [share_results])
    if name not in ("add", "multiply"):
        assert operations(made) == [name, name]
        return
    assert operations(made) == [name]
    for numbers in ([0.7, 0.4], [0.0, -0.0], [-0.0, 0.0], [np.inf, 0.0], [np.nan, 1.0]):
        agree(made, code, numbers)


def test_operations_that_commute_do_so_for_awkward_numbers():
    known = {op.code: op for op in (*TABLE.values(), *STEERING.values())}
    for op in [known[code] for code in COMMUTATIVE]:
        x, y = (a.ravel() for a in np.meshgrid(AWKWARD, AWKWARD))
        values = [rows.expression(op, op.value, pair, x) for pair in ((x, y), (y, x))]
        np.testing.assert_array_equal(*map(bits, values))


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: np.sum(np.exp(x) * 2.0) + np.sum(np.exp(x) * 3.0), "exp"),
        (lambda x: np.sum(np.exp(x[::2])) * np.sum(np.exp(x[::2])), "exp"),
        (lambda x: np.sum(x * x[::-1]) + np.max(x[::-1] * x), "multiply"),
        (lambda x: x[np.argsort(x)[0]] * x[np.argsort(x)[1]] + x[np.argsort(x)[0]], "argsort"),
        (lambda x: np.sum(np.outer(x, x) @ x) + np.max(np.outer(x, x) @ x), "contract"),
        (lambda x: np.max(x) * np.max(x) - np.max(x), "max"),
    ],
)
def test_equal_steps_are_computed_once(f, name):
    assert steps_of(f, X).count(name) == 1


def test_what_differs_in_a_sign_of_zero_is_not_equal():
    f = lambda x: np.arctan2(x[0] * 0.0, -1.0) - np.arctan2(x[0] * -0.0, -1.0)
    assert f(X + 2.0) != 0.0
    assert steps_of(f, X + 2.0).count("multiply") == 2


@pytest.mark.parametrize(("other", "calls"), [(0.0, 1), (-0.0, 2), (0, 2), (False, 2)])
def test_constants_of_calls_are_compared_to_the_bit(other, calls):
    x, first, second = (contiguous(1 + 4 * k, (4,)) for k in range(3))
    steps = [
        Computed(np.copysign, [(x, FLOAT), (sign, None)], out)
        for sign, out in ((0.0, first), (other, second))
    ]
    outputs = [Output(first, FLOAT), Output(second, FLOAT)]
    code = Code(13, [], [Input(x, FLOAT, differentiated=False)], steps, outputs)
    assert operations(passed(code)) == ["copysign"] * calls
    results, _ = evaluated(passed(code), AWKWARD[:4])
    for result, sign in zip(results, (0.0, other), strict=True):
        np.testing.assert_array_equal(bits(result), bits(np.copysign(AWKWARD[:4], sign)))


def test_calls_with_other_keywords_are_not_equal():
    def f(x):
        return np.sum(x[np.argsort(x, kind="stable")[:3]] * x[np.argsort(x)[:3]])

    steps = steps_of(f, X)
    assert steps.count("argsort") == steps.count("stable_argsort") == 1


def test_what_loops_do_not_change_is_computed_before_them():
    def f(p):
        total = 0.0
        for k in range(100):
            for weight in (0.1, 0.2, 0.3, 0.4):
                total = total + p[1] / (weight + k * p[2])
            total = total + np.sin(np.exp(p[0]) + k * p[3])
        return total

    c = tg.compile(f, native=True)
    c.value_and_grad(X)
    c.wait()
    assert steps_of(f, X).count("exp") == 1
    assert any(f"loop of {n} x 19 operations" in c.explain() for n in (98, 99, 100))


@pytest.mark.parametrize("choices", [(0, 1, 2), (0, 1)])
def test_operations_that_are_equal_by_chance_leave_loops_alone(choices):
    """Elements picked at random meet again, but a loop whose iterations differ is none."""
    picked = np.random.default_rng(0).choice(choices, 400)

    def f(p):
        total = 0.0
        for k in picked:
            total = total + (p[k] * 2.0 - 1.0) ** 2
        return total

    c = tg.compile(f, native=True)
    c.value_and_grad(X)
    c.wait()
    assert "loop of 39" in c.explain() or "loop of 400" in c.explain()

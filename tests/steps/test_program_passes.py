"""Passes that fold, simplify and leave out: the rest computes the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from tapegrad._core.ops.table import TABLE
from tapegrad._program.build.executable import Program
from tapegrad._program.files.encode import check
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.steps import GUARD, Code, Input, Output, View, contiguous
from tapegrad._program.passes import simplification
from tapegrad._program.passes.pipeline import PASSES
from tapegrad._program.passes.simplification import RULES, fold, simplify
from tapegrad._program.replay.run_layout import FINISHED, GUARD_FAILED

# --- algebra ------------------------------------------------------------------------------------


EXAMPLES = {
    simplification.ONE: [1.0],
    simplification.MINUS_ONE: [-1.0],
    simplification.ZERO: [0.0],
    simplification.MINUS_ZERO: [-0.0],
    simplification.POWER: [2.0, -0.25, 2.0**1022, 2.0**-1022],
    simplification.TRUE: [3.0, np.nan],
    simplification.FALSE: [0.0, -0.0],
}
CASES = [
    (rule, value)
    for rule in RULES
    for value in next((EXAMPLES[o] for o in rule.operands if isinstance(o, int)), [None])
]


def recorded(rule, value, x, y):
    """The operation of a rule on numbers of a trace, or of an array's elements."""
    trace = Trace([x, y])
    given = {"x": trace.inputs[0], "y": trace.inputs[1], "c": trace.inputs[1]}
    operands = []
    for wanted in rule.operands:
        if isinstance(wanted, tuple):
            operands.append(trace.call(wanted[1], given[wanted[2]]))
        else:
            operands.append(value if isinstance(wanted, int) else given[wanted])
    return trace.program(trace.call(rule.op, *operands))


def naive(program):
    """Values and adjoints of the inputs, by the expressions of the table."""
    values, adjoints = program.naive(np.array([3.0]))
    return values[program.outputs], adjoints[1:3]


@pytest.mark.parametrize(("rule", "value"), CASES, ids=lambda x: getattr(x, "op", str(x)))
def test_rules_are_exact_for_awkward_numbers(rule, value):
    left = rule.op if isinstance(rule.equal, str) else rule.equal[0]
    for x in AWKWARD:
        for y in (0.0, -2.0, np.nan):
            program = recorded(rule, value, x, y)
            code = code_of(program)
            made = passed(code, [simplify])
            assert operations(made).count(rule.op) < operations(code).count(rule.op) or (
                rule.op == "absolute"
            )
            assert isinstance(rule.equal, str) or operations(made) == [left]
            found, gradient = run_with_seed(made, [x, y], 3.0)
            wanted, adjoints = naive(program)
            np.testing.assert_array_equal(bits(found), bits(wanted))
            np.testing.assert_array_equal(gradient, adjoints)


def run_with_seed(code, inputs, seed):
    program = Program(code)
    run = program.begin()
    assert program.forward(run, [np.array(inputs)]) == FINISHED
    (result,) = program.results(run)
    (gradient,) = program.reverse(run, [np.array(seed)])
    return [result], gradient


@pytest.mark.parametrize(("rule", "value"), CASES, ids=lambda x: getattr(x, "op", str(x)))
def test_rules_hold_for_arrays(rule, value):
    """Element-wise steps, each of one operation, on all awkward numbers at once."""
    n = len(AWKWARD)
    x, y, free = contiguous(1, (n,)), contiguous(1 + n, (n,)), 2 + 2 * n
    constant = View(1 + 2 * n, (n,), (0,))
    steps, operands = [], []
    for wanted in rule.operands:
        if isinstance(wanted, tuple):
            operands.append(contiguous(free, (n,)))
            inner = TABLE[wanted[1]].code, (x,)
            steps.append(Elementwise((n,), [inner], [(0, operands[-1])], []))
            free += n
        else:
            operands.append(constant if isinstance(wanted, int) else {"x": x}.get(wanted, y))
    out = contiguous(free, (n,))
    steps.append(Elementwise((n,), [(TABLE[rule.op].code, tuple(operands))], [(0, out)], []))
    code = Code(
        free + n,
        [(1 + 2 * n, np.array([0.0 if value is None else value]))],
        [Input(x, FLOAT), Input(y, FLOAT)],
        steps,
        [Output(out, FLOAT)],
    )
    made = passed(code, [simplify])
    assert operations(made) != operations(code)
    agree(made, code, AWKWARD, AWKWARD[::-1], exact=True)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("add", ("x", 0.0)),
        ("subtract", ("x", -0.0)),
        ("multiply", ("x", 0.0)),
        ("divide", ("x", 3.0)),
        ("divide", ("x", 2.0**1023)),
        ("divide", ("x", 5e-324)),
        ("divide", (1.0, "x")),
        ("power", (1.0, "x")),
        ("maximum", ("x", "x")),
        ("subtract", (0.0, "x")),
    ],
)
def test_what_is_not_exact_stays(name, operands):
    trace = Trace([0.5])
    made = trace.call(name, *[trace.inputs[0] if x == "x" else x for x in operands])
    assert operations(simplify(code_of(trace.program(made)))) == [name]


def test_an_array_of_powers_of_two_is_no_single_one():
    x, y, out = contiguous(1, (9,)), contiguous(10, (9,)), contiguous(19, (9,))
    step = Elementwise((9,), [(TABLE["divide"].code, (x, y))], [(0, out)], [])
    powers = 2.0 ** np.arange(1.0, 10.0)
    code = Code(28, [(10, powers)], [Input(x, FLOAT)], [step], [Output(out, FLOAT)])
    agree(passed(code), code, powers[::-1], exact=True)


def test_a_product_that_broadcasts_stays():
    f = lambda x: np.max(x[:, None] * np.ones((40, 40)))
    assert steps_of(f, X).count("multiply") == 1


def test_rules_apply_to_what_rules_have_left():
    trace = Trace([0.7])
    x = trace.inputs[0]
    for _ in range(3):
        x = -((-(x * 1.0)) / 1.0)
    code = code_of(trace.program(x * 2.0))
    assert operations(passed(code)) == ["multiply"]
    agree(passed(code), code, [0.7], exact=True)


def test_a_constant_that_happens_to_be_one_leaves_a_loop_alone():
    trace = Trace(np.linspace(0.5, 1.5, 3))
    s = trace.inputs[0]
    for weight in np.random.default_rng(0).choice([1.0, 2.0, 3.0], 200):
        s = s + trace.inputs[1] * weight
    code = code_of(trace.program(s))
    assert operations(passed(code)).count("multiply") >= 190


# --- constants ----------------------------------------------------------------------------------


def test_operations_on_constants_are_folded():
    trace = Trace([0.7])
    two = trace.call("exp", 0.3)
    made = trace.call("sin", two) * trace.inputs[0] + trace.call("divide", two, 3.0)
    code = code_of(trace.program(made))
    assert operations(passed(code, [fold])) == ["multiply", "add"]
    agree(passed(code, [fold]), code, [0.7], exact=True)


def test_guards_of_constants_stay():
    """The programs of a function know them by their order."""
    trace = Trace([0.7])
    trace.guard(trace.call("add", 1.0, 1.0), 2.0)
    code = code_of(trace.program(trace.inputs[0] * 3.0))
    assert operations(passed(code)) == ["", "multiply"]


def test_a_guard_that_fails_still_fails():
    trace = Trace([0.7])
    trace.guard(trace.inputs[0] * 1.0, trace.inputs[0] * 1.0)
    trace.guard(trace.inputs[0] * 2.0, 1.4)
    code = passed(code_of(trace.program(trace.inputs[0])))
    assert evaluated(code, [0.7])[0][0] == 0.7
    assert evaluated(code, [0.8])[0] == GUARD_FAILED


def test_steps_of_constant_arrays_are_folded():
    def f(x):
        grid = np.zeros_like(x)
        grid[0] = x[0]  # from here on it is recorded
        grid[:] = np.linspace(0.0, 1.0, len(x))
        return np.sum(x * np.tanh(grid) ** 2)

    c, x = tg.compile(f), np.linspace(1.0, 2.0, 20)
    value, gradient = c.value_and_grad(x)
    assert "tanh" not in c.explain()
    assert value == f(x)
    np.testing.assert_array_equal(gradient, np.tanh(np.linspace(0.0, 1.0, 20)) ** 2)


# --- what nothing reads -------------------------------------------------------------------------


def test_what_nothing_reads_is_dropped():
    trace = Trace([0.7, 0.2])
    x, y = trace.inputs
    unread = trace.call("exp", trace.call("sin", x * y))
    trace.guard(x * x, 0.49)
    code = code_of(trace.program(trace.call("where", 0.0, unread, y + x)))
    assert operations(passed(code)) == ["multiply", "", "add"]


def test_whole_steps_that_nothing_reads_are_dropped():
    f = lambda x: np.sum(np.where(np.ones(40), x, np.exp(x @ np.ones((40, 40)))))
    assert not {"exp", "contract", "where"} & set(steps_of(f, X))


# --- any program --------------------------------------------------------------------------------


def test_all_new_passes_come_before_fusing():
    names = ["fold", "simplify", "cse", "drop unread", "multiply first", "fuse"]
    assert list(PASSES)[: len(names)] == names


def test_a_view_whose_ends_alone_have_been_computed_before_keeps_its_slots():
    trace = Trace([0.7, 0.4])
    x, y = trace.inputs
    for middle in (x - y, y - x):
        trace.call("sin", x), trace.call("negative", middle), trace.call("cos", y)
    program = trace.program(x)
    first, second = program.first + 1, program.first + 5
    code = code_of(program, [View(first, (3,), (1,)), View(second, (3,), (1,))])
    agree(passed(code), code, [0.7, 0.4])


operation = st.tuples(
    st.sampled_from(["add", "multiply", "subtract", "negative", "divide", "sin", "where", ""]),
    *[st.integers(0, 7)] * 3,
)


@given(st.lists(operation, min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 3))
def test_random_programs_compute_the_same(drawn, stride, start):
    """Few operands, so that much is equal; a view sees some of the results at a stride."""
    trace = Trace([0.5, -1.0, 2.0])
    numbers = [*trace.inputs, *map(trace.constant, (1.0, -1.0, 2.0, 0.0, -0.0))]
    for name, *operands in drawn:
        arity = len(TABLE[name].inputs) if name else 2
        picked = [numbers[-1 - k % len(numbers)] for k in operands[:arity]]
        if name:
            numbers.append(trace.call(name, *picked))
        else:
            trace.guard(picked[0], picked[0])
    program = trace.program(numbers[-1])
    results = [k for k, (op, _) in enumerate(trace.rows) if op != GUARD]
    views = [View(program.outputs[0], (), ())]
    seen = range(start, len(drawn), stride)
    if len(seen) > 1 and set(seen) <= set(results):
        views.append(View(program.first + start, (len(seen),), (stride,)))
    code = code_of(program, views)
    check(code)
    results, gradients = evaluated(code, trace.values)
    made = passed(code)
    found, adjoints = evaluated(made, trace.values)
    for a, b in zip(found, results, strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))
    if all(np.isfinite(g).all() for g in gradients):
        np.testing.assert_allclose(adjoints, gradients, rtol=1e-9, atol=1e-9)


# --- arrays -------------------------------------------------------------------------------------


def chain_of(*names):
    """Element-wise steps over 20 elements, each on the result of the last."""
    views = [contiguous(1 + 20 * k, (20,)) for k in range(len(names) + 1)]
    steps = [
        Elementwise((20,), [(TABLE[name].code, (before,))], [(0, after)], [])
        for name, before, after in zip(names, views[:-1], views[1:], strict=True)
    ]
    return views, steps


def test_steps_of_which_nothing_is_removed_stay_the_same_objects():
    (x, _, last), steps = chain_of("sin", "exp")
    unread = Elementwise((20,), [(TABLE["cos"].code, (x,))], [(0, contiguous(61, (20,)))], [])
    between = Code(81, [], [Input(x, FLOAT)], [steps[0], unread, steps[1]], [Output(last, FLOAT)])
    made = PASSES["drop unread"](between)
    assert [step is one for step, one in zip(made.steps, steps, strict=True)] == [True, True]
    assert made.slots == 81 and PASSES["compact"](made).slots == 61
    check(made)


def test_slots_of_removed_steps_are_gaps_until_the_program_is_compact():
    (x, sine, again, total), _ = chain_of("sin", "sin", "add")
    sin, add = (TABLE[name].code for name in ("sin", "add"))
    steps = [Elementwise((20,), [(sin, (x,))], [(0, out)], []) for out in (sine, again)]
    steps.append(Elementwise((20,), [(add, (sine, again))], [(0, total)], []))
    code = Code(81, [], [Input(x, FLOAT)], steps, [Output(total, FLOAT)])
    made = PASSES["cse"](code)
    assert [step.stores[0][1] for step in made.steps] == [sine, total]
    assert made.steps[1].ops == [(add, (sine, sine))]
    given = np.linspace(-1.0, 1.0, 20)
    for one in (code, made, PASSES["compact"](made)):
        check(one)
        results, _ = evaluated(one, given)
        np.testing.assert_allclose(results[0], 2.0 * np.sin(given), rtol=1e-14)


def test_the_last_step_that_is_not_linear_alone_is_evaluated_in_one_pass():
    (x, *_, last), steps = chain_of("sin", "exp", "cos")
    parts = Program(Code(81, [], [Input(x, FLOAT)], steps, [Output(last, FLOAT)])).parts
    assert parts.pivot == 2
    assert [bool(part.both) for (part,) in parts.of] == [False, False, True]

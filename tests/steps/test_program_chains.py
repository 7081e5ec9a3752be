"""Long sums, number by number, as one step: the same to the bit, taken out only where that pays."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passed_programs import AWKWARD, bits, code_of, operations
from scalar_programs import Trace

import tapegrad as tg
from tapegrad._program.build import sum_chains
from tapegrad._program.build.executable import Program
from tapegrad._program.files import encode
from tapegrad._program.files.encode import check
from tapegrad._program.ir.steps import View
from tapegrad._program.replay.run_layout import FINISHED

SUM = "sum_in_order"


@pytest.fixture
def short(monkeypatch):
    """Sums of four additions are long."""
    monkeypatch.setattr(sum_chains, "LEAST", 4)


def computed(code, values, seeds):
    program = Program(code)
    run = program.begin()
    assert program.forward(run, [np.array(values, float)]) == FINISHED
    results = program.results(run)
    return results, program.reverse(
        run, [np.full(r.shape, g) for r, g in zip(results, seeds, strict=True)]
    )


def same(code, made, values, seeds=(1.0,)):
    """Two programs compute the same bits."""
    check(made)
    with np.errstate(all="ignore"):
        for a, b in zip(computed(code, values, seeds), computed(made, values, seeds), strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(bits(x), bits(y))


def taken(trace, *outputs, views=None, seeds=(1.0,)):
    """What is left of a trace's program without its long sums."""
    code = code_of(trace.program(*outputs), views)
    made = sum_chains.sum_chains(code)
    for given_seeds in (
        seeds,
        [0.0 for _ in seeds],
        [-0.0 for _ in seeds],
        [np.inf for _ in seeds],
    ):
        same(code, made, trace.values, given_seeds)
    return operations(made)


def squares(trace, start, numbers):
    s = start
    for x in numbers:
        s = s + x * x
    return s


# --- what is taken out --------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("start", [0.0, -0.0, 2.5, np.inf])
@pytest.mark.parametrize("values", [np.linspace(-1.0, 1.5, 7), AWKWARD, np.full(6, -0.0)])
def test_a_sum_of_results(start, values):
    trace = Trace(values)
    assert taken(trace, squares(trace, start, trace.inputs)) == ["multiply"] * len(values) + [SUM]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("values", [np.linspace(0.1, 1.5, 9), np.full(9, -0.0), AWKWARD])
def test_a_sum_of_inputs(values):
    trace = Trace(values)
    s = trace.inputs[0]
    for x in trace.inputs[1:]:
        s = x + s
    assert taken(trace, s) == [SUM]


@pytest.mark.usefixtures("short")
def test_a_sum_of_what_comes_twice_and_of_a_constant():
    trace = Trace([0.1, 0.7, 1e16])
    s = trace.inputs[1]
    for x in (*trace.inputs[:2], trace.constant(0.3), trace.inputs[1], trace.inputs[2]):
        s = s + x
    assert taken(trace, s) == [SUM]


@pytest.mark.usefixtures("short")
def test_what_is_computed_of_a_sum_comes_after_it():
    trace = Trace(np.linspace(0.1, 1.5, 9))
    s = squares(trace, 0.0, trace.inputs)
    t = s * s
    assert taken(trace, trace.call("sin", t)) == ["multiply"] * 9 + [SUM, "multiply", "sin"]


@pytest.mark.usefixtures("short")
def test_a_sum_that_starts_with_another_and_one_that_adds_another():
    trace = Trace(np.linspace(0.1, 1.5, 9))
    s = squares(trace, 0.0, trace.inputs)
    t = squares(trace, s * 2.0, trace.inputs)
    u = squares(trace, 1.0, trace.inputs) + t
    assert taken(trace, u).count(SUM) == 3


@pytest.mark.usefixtures("short")
def test_two_sums_of_one_loop_and_guards_between():
    trace = Trace(np.linspace(0.1, 1.5, 9))
    s, t = trace.constant(0.0), trace.constant(1.0)
    for x in trace.inputs:
        s = s + x * 2.0
        trace.guard(x, x)
        t = t + x * x
    found = taken(trace, s, t, seeds=(1.0, 3.0))
    assert found == ["multiply", "", "multiply"] * 9 + [SUM, SUM]


@pytest.mark.usefixtures("short")
def test_rows_of_an_outer_loop_are_one_view():
    trace = Trace(np.linspace(0.1, 1.5, 40))
    s = trace.constant(0.0)
    for i in range(8):
        factor = trace.call("sin", trace.inputs[i])
        for j in range(5):
            s = s + factor * trace.inputs[5 * i + j]
    code = sum_chains.sum_chains(code_of(trace.program(s)))
    kernel = code.steps[-1]
    assert [view.shape for view in kernel.operands[1:]] == [(1,), (8, 5)]
    assert taken(trace, s).count(SUM) == 1


@pytest.mark.usefixtures("short")
def test_two_terms_an_iteration():
    trace = Trace(np.linspace(0.1, 1.5, 9))
    s = trace.constant(0.0)
    for x in trace.inputs:
        s = s + x * x
        s = s + trace.call("sin", x)
    assert taken(trace, s) == ["multiply", "sin"] * 9 + [SUM]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("values", [np.linspace(-1.0, 1.5, 7), AWKWARD, np.full(6, -0.0)])
def test_terms_that_are_subtracted(values):
    trace = Trace(values)
    s = trace.inputs[0] - trace.inputs[1]
    for x in trace.inputs[2:]:
        s = s - x * x
    for x in trace.inputs[2:]:
        s = x * 2.0 + s
    found = taken(trace, s, seeds=(0.3,))
    assert found == ["multiply"] * 2 * (len(values) - 2) + [SUM]


@pytest.mark.usefixtures("short")
def test_a_number_less_a_sum_ends_it():
    trace = Trace(np.linspace(-1.0, 1.5, 7))
    s = 1.0 - squares(trace, 0.0, trace.inputs)
    assert taken(trace, squares(trace, s, trace.inputs)).count(SUM) == 2


@pytest.mark.usefixtures("short")
def test_rows_that_are_added_and_subtracted_in_turn():
    trace = Trace(np.linspace(-1.0, 1.5, 24))
    s = trace.constant(0.0)
    for k, x in enumerate(trace.inputs):
        s = s - x * x if k // 3 % 2 else s + x * x
    assert taken(trace, s, seeds=(0.3,)) == ["multiply"] * 24 + [SUM]


@pytest.mark.usefixtures("short")
def test_a_constant_that_others_read_meanwhile_is_a_term():
    """Nobody asks for its adjoint."""
    trace = Trace(np.linspace(0.1, 1.5, 6))
    s = trace.constant(0.3)
    for x in trace.inputs:
        s = s + 0.3 * x
    assert taken(trace, s, seeds=(0.3,)) == ["multiply"] * 6 + [SUM]


# --- what is left alone -------------------------------------------------------------------------


def test_short_sums_stay():
    trace = Trace(np.linspace(0.1, 1.5, sum_chains.LEAST - 1))
    assert SUM not in taken(trace, squares(trace, 0.0, trace.inputs))
    trace = Trace(np.linspace(0.1, 1.5, sum_chains.LEAST))
    assert SUM in taken(trace, squares(trace, 0.0, trace.inputs))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("how", ["result", "operation", "guard", "view", "end in a view"])
def test_a_sum_that_something_else_reads_stays(how):
    trace = Trace(np.linspace(0.1, 1.5, 6))
    s, partial, views = trace.constant(0.0), [], None
    for x in trace.inputs:
        s = s + x * x
        partial.append(s)
    outputs = [s]
    if how == "result":
        outputs.append(partial[2])
    elif how == "operation":
        outputs.append(partial[2] * 2.0)
    elif how == "guard":
        trace.guard(partial[2], partial[2])
    else:
        first = trace.program(s).first
        views = [View(first + 11, (), ()), View(first + 2, (4,), (2,))]
        if how == "end in a view":
            views = [View(first + 10, (2,), (1,)), View(first + 8, (), ())]
    seeds = (1.0, 2.0)[: len(views or outputs)]
    assert SUM not in taken(trace, *outputs, views=views, seeds=seeds)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("later", [False, True])
def test_a_term_that_others_read_before_the_sum_is_read_stays(later):
    """Its adjoint is a sum of three, in another order if the sum's came first."""
    trace = Trace([0.1, 0.7, 0.3, 1.1, 0.9, 0.2])
    s, others = trace.constant(0.0), []
    for x in trace.inputs:
        s = s + x
        others.append(x * x)
    t = others[0]
    for one in others[1:]:
        t = trace.call("maximum", t, one)
    if not later:
        s = trace.call("sin", s)
    assert SUM not in taken(trace, s, t, seeds=(1e-3, 0.7))


@pytest.mark.usefixtures("short")
def test_a_start_that_others_read_meanwhile_stays():
    trace = Trace([0.1, 0.7, 0.3, 1.1, 0.9, 0.2])
    s = trace.inputs[0]
    for x in trace.inputs[1:]:
        s = s + trace.inputs[0] * x
    assert SUM not in taken(trace, s, seeds=(0.3,))


@pytest.mark.usefixtures("short")
def test_terms_without_any_order_stay():
    order = np.random.default_rng(3).permutation(60)
    trace = Trace(np.linspace(0.1, 1.5, 60))
    s = trace.inputs[order[0]]
    for k in order[1:]:
        s = s + trace.inputs[k]
    assert taken(trace, s) == ["add"] * 59


@pytest.mark.usefixtures("short")
def test_many_sums_stay():
    def sums(count):
        trace = Trace(np.linspace(0.1, 1.5, 7))
        found = trace.constant(1.0)
        for _ in range(count):
            found = squares(trace, 0.0, trace.inputs) * found
        return taken(trace, found).count(SUM)

    assert [sums(sum_chains.MOST), sums(sum_chains.MOST + 1)] == [sum_chains.MOST, 0]


# --- any program --------------------------------------------------------------------------------

body = st.lists(
    st.tuples(
        st.sampled_from(["sum", "sum", "other sum", "multiply", "sin", "subtract", ""]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.usefixtures("short")
@given(body, st.integers(1, 9), body, st.integers(0, 2))
def test_random_loops_compute_the_same(drawn, count, tail, outside):
    trace = Trace(np.linspace(-0.9, 1.3, 12))
    numbers = [trace.constant(0.5), *trace.inputs[:2]]
    sums = [trace.constant(0.0), trace.inputs[2]]
    for k in range(count + 1):
        numbers.append(trace.inputs[3 + k % 9])
        for name, i, j in drawn if k < count else tail:
            x, y = numbers[-1 - i % len(numbers)], numbers[-1 - j % len(numbers)]
            if "sum" in name:
                which = int(name == "other sum")
                s = sums[which]
                sums[which] = (x + s, s + x, s - x)[i % 3]
            elif name:
                numbers.append(trace.call(name, *[x, y][: 1 + (name != "sin")]))
            else:
                trace.guard(x, x)
    outputs = [*[x + trace.inputs[0] for x in sums], numbers[-1] * 1.5][: 1 + outside]
    taken(trace, *outputs, seeds=(0.3, 0.7, 1e-3)[: len(outputs)])


# --- compiled functions -------------------------------------------------------------------------

X = np.linspace(-1.0, 1.5, 2 * sum_chains.LEAST)


def total(x):
    s = 0.0
    for i in range(len(x)):
        s = s + np.sin(x[i]) * x[i]
    return s


def test_a_function_is_the_same_interpreted_and_native_and_from_a_file(tmp_path):
    value, gradient = tg.value_and_grad(total)(X)
    path, native = tmp_path / "total.npz", tg.compile(total, native=True)
    interpreted = tg.compile(total, native=False)

    def agrees(c):
        for _ in range(3):
            found, slopes = c.value_and_grad(X)
            assert found == value
            np.testing.assert_allclose(slopes, gradient, rtol=1e-14)
        return "calls: sum_in_order" in c.explain()

    assert agrees(interpreted)
    assert "sum chains" in interpreted.explain()
    interpreted.save(path)
    assert agrees(tg.load(path))
    agrees(native)
    native.wait()
    assert not agrees(native)
    assert "sum chains" not in native.explain()


def test_files_have_no_such_step(tmp_path):
    """One that says so is refused: its operands have not been checked."""
    path = tmp_path / "largest.npz"
    c = tg.compile(lambda x: np.max(x) * x[0])
    for _ in range(2):
        c.value_and_grad(X)
    c.save(path)
    header, pools = encode.read(path)
    text = json.dumps(header)
    assert '"max"' in text and SUM not in text
    encode.write(path, json.loads(text.replace('"max"', f'"{SUM}"')), pools.pools)
    with pytest.raises(ValueError, match=f"there is no operation '{SUM}'"):
        tg.load(path)

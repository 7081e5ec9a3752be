"""Graphs before and after they are simplified: results, gradients, and what is left."""

import math

import numpy as np
import pytest
from assumed import needs
from naive_flow import Run, evaluate
from random_flow import RandomGraph
from test_flow_native import Native

from tapegrad._flow.ir.flow_graph import Branch, Builder, Edge, Graph, GraphInput, text_of, validate
from tapegrad._flow.ir.frame import ARITHMETIC, FINISHED, LEFT
from tapegrad._flow.passes.simplify import simplified
from tapegrad._flow.passes.tangents import with_tangents
from tapegrad._flow.program import FlowProgram
from tapegrad._flow.reading.readings import GivenInput, read


def begun(kinds="f"):
    """A builder of a graph with numbers and arrays ("a", of one axis) as inputs; its parameters."""
    graph = Graph()
    for kind in kinds:
        graph.inputs.append(GraphInput(None if kind == "f" else 1, True))
        if kind == "a":
            graph.inputs[-1].region = graph.region("f")
    entry = graph.block()
    entry.parameters = [graph.value(kind) for one in graph.inputs for kind in one.parameters]
    return Builder(graph, entry), entry.parameters


def finished(graph):
    validate(graph)
    simplified(graph)
    validate(graph)
    return graph


def ops(graph):
    """The steps by name, but constants."""
    return [step.op for step in graph.steps() if not step.op.endswith("_const")]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed):
    made = RandomGraph(seed)
    values = made.values()
    count = sum(1 for _ in made.graph.steps())
    results, gradients = evaluate(made.graph, values, (1.0, -0.5))
    graph = finished(made.graph)
    found, slopes = evaluate(graph, values, (1.0, -0.5))
    same(found, results)
    same(slopes, gradients)
    assert sum(1 for _ in graph.steps()) <= count + 4 * len(graph.blocks)
    outcome = FlowProgram(graph).run(values, gradient=True, adjoints=(1.0, -0.5))
    assert outcome.status == FINISHED
    same(outcome.results, results)
    same(outcome.gradients, gradients)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_tangents_of_simplified_graphs_and_simplified_tangents(seed):
    first, second = RandomGraph(seed).graph, RandomGraph(seed).graph
    made = RandomGraph(seed)
    values = made.values()
    which = [k for k, one in enumerate(first.inputs) if one.differentiated]
    directions = [np.cos(np.arange(4.0)) if first.inputs[k].ndim else 0.3 for k in which]
    expected, _ = evaluate(with_tangents(first, which), [*values, *directions], (1.0,) * 4)
    for graph in (
        with_tangents(finished(second), which),
        finished(with_tangents(made.graph, which)),
    ):
        found, _ = evaluate(graph, [*values, *directions], (1.0,) * 4)
        same(found, expected)


def test_tangents_simplified_leave_their_graph_as_it_is():
    graph = finished(RandomGraph(5).graph)
    before = text_of(graph)
    finished(with_tangents(graph, [0]))
    assert text_of(graph) == before


def robust(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * x[i] - p[1])
        if r < 1:
            total += r * r
        else:
            total += 2 * r - 1
    return total


@needs("numba-reader")
def test_a_loop_of_pythons():
    """Only what changes is a parameter; the branch is a select; one check is left of two."""
    arrays = [
        GivenInput("f", (2,), True),
        GivenInput("f", (None,), False),
        GivenInput("f", (None,), False),
    ]
    graph = read(robust, arrays, []).graph
    rng = np.random.default_rng(1)
    values = [np.array([0.5, -1.0]), *rng.normal(0, 2, (2, 9))]
    results, gradients = evaluate(graph, values)
    finished(graph)
    assert [len(block.parameters) for block in graph.blocks[1:]] == [2, 0, 0]
    assert ops(graph).count("check") == 1
    assert sum(isinstance(block.end, Branch) for block in graph.blocks) == 1
    found, slopes = evaluate(graph, values)
    same(found, results)
    same(slopes, gradients)
    same(found, [robust(*values)])
    short = Run(graph, [values[0], values[1], values[2][:5]])
    assert short.status == LEFT
    assert graph.reasons[short.reason].text == "an index out of bounds"


def test_parameters_with_one_value():
    """Also where loops hand them to one another, or it is a constant."""
    b, (x,) = begun()
    outer, inner, middle, end = b.begin("f", "i"), b.begin("f", "f"), b.begin(), b.begin("f")
    b.jump(outer, x, b.constant(0))
    b.block = outer
    b.jump(inner, outer.parameters[0], b.constant(2.0))
    b.block = inner
    less = b.step("int_less", outer.parameters[1], b.constant(2))
    b.branch(less, Edge(middle, []), Edge(end, [inner.parameters[0]]))
    b.block = middle
    more = b.step("int_add", outer.parameters[1], b.constant(1))
    again = b.step("float_less", inner.parameters[0], b.constant(-1.0))
    b.branch(again, Edge(inner, [inner.parameters[0], b.constant(2.0)]), Edge(outer, [x, more]))
    b.block = end
    b.give(b.step("multiply", end.parameters[0], inner.parameters[1]))
    graph = finished(b.graph)
    assert sum(len(block.parameters) for block in graph.blocks[1:]) == 1
    assert evaluate(graph, [3.0]) == ([6.0], [2.0])


INTEGERS = (0, 1, 2, -1, -7, 5, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.5, -3.0, math.inf, math.nan, 1e308, 2.0**63)
BINARY = "add subtract multiply floor_divide remainder min max and or xor equal less less_equal"
FOLDED = [
    *[(f"int_{op}", INTEGERS, 2) for op in BINARY.split()],
    *[(f"int_{op}", INTEGERS, 1) for op in ("negative", "absolute")],
    *[(f"float_{op}", FLOATS, 2) for op in ("equal", "less", "less_equal")],
    *[(op, FLOATS, 2) for op in ("add", "subtract", "multiply", "divide")],
    *[(op, FLOATS, 1) for op in ("negative", "absolute", "is_finite", "float_to_int")],
    ("to_single", (0.1, -0.0, 1e-45, 7e-46, 3.4e38, 2.0**24 + 1, math.inf, math.nan), 1),
    *[(f"bool_{op}", (True, False), 2) for op in ("and", "or", "xor")],
    *[(op, (True, False), 1) for op in ("bool_not", "bool_to_int")],
    ("int_to_float", INTEGERS, 1),
]


def exactly(results):
    return [(type(one), repr(one)) for one in results]


@pytest.mark.parametrize(("op", "numbers", "count"), FOLDED, ids=[one[0] for one in FOLDED])
def test_folded_constants(op, numbers, count):
    """The result is the same to the sign of 0; what leaves the graph still does."""
    for pair in [(x, y) for x in numbers for y in numbers[: len(numbers) ** (count - 1)]]:
        b, _ = begun()
        b.give(b.step(op, *[b.constant(one) for one in pair[:count]]))
        before = Run(b.graph, [1.0])
        after = Run(finished(b.graph), [1.0])
        assert (after.status, after.reason) == (before.status, before.reason), pair
        assert exactly(after.results) == exactly(before.results), pair
        assert before.status == LEFT or ops(b.graph) in ([], [op])


@pytest.mark.parametrize(
    "op", [one[0] for one in FOLDED if one[2] == 2 and one[0] != "float_equal"]
)
def test_one_constant_or_one_operand_twice(op):
    """An unknown integer or truth with each constant on each side, and with itself."""
    numbers = next(one[1] for one in FOLDED if one[0] == op)
    cases = [(side, number) for side in (0, 1) for number in numbers] + [(2, 0)]
    for side, number in cases:
        b, (_, n) = begun("a")[0], (None, None)
        n = b.block.parameters[1]
        unknown = {int: n, bool: b.step("int_less", n, b.constant(3))}.get(type(numbers[0]))
        unknown = b.step("int_to_float", n) if unknown is None else unknown
        other = unknown if side == 2 else b.constant(number)
        b.give(b.step(op, *((other, unknown) if side == 0 else (unknown, other))))
        runs = [Run(b.graph, [np.ones(length)]) for length in (1, 4)]
        finished(b.graph)
        for before, length in zip(runs, (1, 4), strict=True):
            after = Run(b.graph, [np.ones(length)])
            assert (after.status, after.reason) == (before.status, before.reason), (side, number)
            assert exactly(after.results) == exactly(before.results), (side, number)


def test_decided_branches_and_checks():
    b, (x,) = begun()
    then, other, end = b.begin(), b.begin(), b.begin("f")
    b.branch(b.step("int_less", b.constant(1), b.constant(2)), Edge(then, []), Edge(other, []))
    b.block = then
    b.check(b.step("bool_not", b.constant(False)), "never")
    b.jump(end, b.step("sin", x))
    b.block = other
    b.jump(end, b.step("cos", x))
    b.block = end
    b.give(end.parameters[0])
    graph = finished(b.graph)
    assert (len(graph.blocks), ops(graph)) == (1, ["sin"])
    same(evaluate(graph, [0.7])[0], [math.sin(0.7)])


def test_a_check_that_fails_leaves():
    b, (x,) = begun()
    b.check(b.constant(True), "never")
    b.check(b.constant(False), "always")
    b.give(x)
    run = Run(finished(b.graph), [1.0])
    assert (run.status, b.graph.reasons[run.reason].text) == (LEFT, "always")


def test_what_a_branch_has_decided():
    """Behind an edge its condition is known; negated, too. Where edges meet, it is not."""
    b, (x,) = begun()
    condition = b.step("float_less", x, b.constant(0.0))
    then, other, end = b.begin(), b.begin(), b.begin()
    b.branch(b.step("bool_not", condition), Edge(then, []), Edge(other, []))
    b.block = then
    b.check(b.step("bool_not", condition), "below 0")
    b.jump(end)
    b.block = other
    b.check(condition, "not below 0")
    b.jump(end)
    b.block = end
    b.check(condition, "not below 0")
    b.give(x)
    graph = finished(b.graph)
    assert ops(graph) == ["float_less", "check"]
    assert Run(graph, [1.0]).status == LEFT
    assert evaluate(graph, [-1.0]) == ([-1.0], [1.0])


def test_equal_steps():
    """One is left in blocks that others dominate; two arms keep one each; loads of what changes."""
    b, (x, first, _) = begun("fa")
    y = b.step("sin", x)
    then, other, end = b.begin(), b.begin(), b.begin("f")
    b.branch(b.step("float_less", x, y), Edge(then, []), Edge(other, []))
    for arm in (then, other):
        b.block = arm
        b.jump(end, b.step("multiply", b.step("sin", x), b.step("exp", b.load(0, first))))
    b.block = end
    b.give(end.parameters[0], b.step("exp", b.load(0, first)))
    values = [0.4, np.array([2.0])]
    before = evaluate(b.graph, values, (1.0, 1.0))
    graph = finished(b.graph)
    assert (ops(graph).count("sin"), ops(graph).count("exp")) == (1, 3)
    after = evaluate(graph, values, (1.0, 1.0))
    same(after[0], before[0])
    same(after[1], before[1])


@pytest.mark.parametrize("stores", [False, True])
def test_loads(stores):
    b, (x, first, _) = begun("fa")
    one = b.load(0, first)
    if stores:
        b.store(0, first, x)
    b.give(b.step("multiply", one, b.load(0, first)))
    graph = finished(b.graph)
    assert ops(graph).count("load_float") == 1 + stores
    assert evaluate(graph, [3.0, np.array([2.0])])[0] == [6.0 if stores else 4.0]


def test_memory_is_new_each_time():
    b, (x,) = begun()
    region = b.graph.region("f")
    places = [b.step("allocate", b.constant(1)) for _ in range(2)]
    b.store(region, places[0], x)
    b.give(b.load(region, places[1]), b.load(region, places[0]))
    assert evaluate(finished(b.graph), [3.0], (1.0, 1.0)) == ([0.0, 3.0], [1.0])


@pytest.mark.parametrize("divisor", [0, 2, None])
@pytest.mark.parametrize("op", ["int_floor_divide", "int_remainder"])
def test_unread_steps(op, divisor):
    """A division that may leave stays; an integer that does not fit is no matter."""
    b, (_, n) = begun("a")
    b.step(op, b.constant(7), n if divisor is None else b.constant(divisor))
    b.step("int_multiply", b.step("int_add", n, b.constant(2**63 - 1)), n)
    b.give(b.load(0, b.block.parameters[0]))
    graph = finished(b.graph)
    assert ops(graph) == ([] if divisor == 2 else [op]) + ["load_float"]
    run = Run(graph, [np.ones(2)])
    assert (run.status, run.reason) == ((LEFT, ARITHMETIC) if divisor == 0 else (FINISHED, None))


def branched(steps, kinds="f", then="f"):
    """A graph that computes something where its first input is above 0, else gives -1."""
    b, parameters = begun(kinds)
    above, below, end = b.begin(), b.begin(), b.begin(then)
    condition = b.step("float_less", b.constant(0.0), parameters[0])
    b.branch(condition, Edge(above, []), Edge(below, []))
    b.block = above
    b.jump(end, steps(b, *parameters))
    b.block = below
    b.jump(end, b.constant(-1.0))
    b.block = end
    b.give(end.parameters[0])
    return b.graph


def test_short_arms_become_selects():
    graph = finished(branched(lambda b, x: b.step("multiply", x, x)))
    assert len(graph.blocks) == 1
    assert "float_select" in ops(graph)
    assert evaluate(graph, [3.0]) == ([9.0], [6.0])
    assert evaluate(graph, [-3.0]) == ([-1.0], [0.0])


def test_the_arm_not_taken_adds_nothing():
    """Its slopes are infinite or NaN, its adjoint 0; its tangent may be NaN, too."""

    def steps(b, x):
        y = b.step("multiply", b.step("square", x), x)
        return b.step("minimum", b.step("subtract", y, x), b.step("multiply", y, y))

    graph = finished(branched(steps))
    assert len(graph.blocks) == 1
    along, native = with_tangents(graph, [0]), Native(graph)
    for x in (-math.inf, math.nan, -1e308):
        assert evaluate(graph, [x]) == ([-1.0], [0.0])
        assert native.run([x])[1:] == ([-1.0], [0.0])
        outcome = FlowProgram(graph).run([x], gradient=True)
        assert (outcome.results, outcome.gradients) == ([-1.0], [0.0])
        outcome = FlowProgram(along).run([x, 1.0], gradient=True, adjoints=(0.0, 1.0))
        assert (outcome.results, outcome.gradients) == ([-1.0, 0.0], [0.0])


@pytest.mark.parametrize("op", ["sqrt", "log", "reciprocal", "absolute", "exp"])
def test_arms_that_stay(op):
    """A slope may be infinite where the value is not, NaN; or the step is not cheap."""
    graph = finished(branched(lambda b, x: b.step(op, x)))
    assert len(graph.blocks) > 1
    assert evaluate(graph, [-1.0]) == ([-1.0], [0.0])


def test_long_arms_stay():
    def steps(b, x):
        for _ in range(9):
            x = b.step("multiply", x, b.step("add", x, x))
        return x

    assert len(finished(branched(steps)).blocks) > 1


def test_arms_that_check_stay():
    def steps(b, x):
        b.check(b.step("float_less", x, b.constant(1.0)), "large")
        return x

    graph = finished(branched(steps))
    assert evaluate(graph, [-1.0])[0] == [-1.0]
    assert Run(graph, [2.0]).status == LEFT


def test_nested_branches_become_selects():
    b, (x, y) = begun("ff")
    zero = b.constant(0.0)
    arms, inner, meet, end = [b.begin(), b.begin()], [b.begin(), b.begin()], b.begin("f"), None
    end = b.begin("f")
    b.branch(b.step("float_less", zero, x), Edge(arms[0], []), Edge(arms[1], []))
    b.block = arms[0]
    b.branch(b.step("float_less", zero, y), Edge(inner[0], []), Edge(meet, [y]))
    b.block = inner[0]
    b.jump(meet, b.step("multiply", x, y))
    b.block = meet
    b.jump(end, b.step("add", meet.parameters[0], x))
    b.block = arms[1]
    b.jump(end, b.step("negative", y))
    b.block = inner[1]
    b.leave("never")
    b.block = end
    b.give(end.parameters[0])
    graph = finished(b.graph)
    assert len(graph.blocks) == 1
    assert evaluate(graph, [2.0, 3.0]) == ([8.0], [4.0, 2.0])
    assert evaluate(graph, [2.0, -3.0]) == ([-1.0], [1.0, 1.0])
    assert evaluate(graph, [-2.0, 3.0]) == ([-3.0], [0.0, -1.0])

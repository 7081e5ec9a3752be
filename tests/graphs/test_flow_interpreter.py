"""Graphs interpreted: results, gradients, memory, and why calls leave, against plain Python."""

import threading

import numpy as np
import pytest
from naive_flow import PLAIN, Run, evaluate

from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._flow.ir.flow_graph import Builder, Edge, Graph, GraphInput, Place, validate
from tapegrad._flow.ir.frame import ARITHMETIC, FINISHED, LEFT
from tapegrad._flow.kinds.step_kinds import BOOL, FLOAT, INT
from tapegrad._flow.kinds.step_kinds import KINDS as STEP_KINDS
from tapegrad._flow.program import FlowProgram, Limits

ROWS = [op for op in TABLE.values() if isinstance(op, Pointwise) and not op.apart]


def begun(*inputs, spaces=1):
    """A graph of inputs, "x" for a float, "v" for a vector; its builder and parameters."""
    graph = Graph(spaces=spaces)
    for one in inputs:
        region = graph.region(FLOAT) if one == "v" else -1
        graph.inputs.append(GraphInput(1 if one == "v" else None, True, region))
    entry = graph.block()
    kinds = "".join(one.parameters for one in graph.inputs)
    entry.parameters = [graph.value(kind) for kind in kinds]
    return graph, Builder(graph, entry), entry.parameters


def loop(build, count, *starts):
    """A loop of `count` rounds: gives its counter, what it carries, and the way back and out."""
    head = build.begin(INT, *[one.kind for one in starts])
    build.jump(head, build.constant(0), *starts)
    build.block = head
    body, out = build.begin(), build.begin()
    counter, *carried = head.parameters
    build.branch(build.step("int_less", counter, count), Edge(body, []), Edge(out, []))
    build.block = body

    def close(*values):
        build.jump(head, build.step("int_add", counter, build.constant(1)), *values)
        build.block = out

    return counter, carried, close


def agree(graph, values, adjoints=(1.0,), rtol=1e-13):
    """A program gives what plain Python gives; returns the program."""
    validate(graph)
    program = FlowProgram(graph)
    results, gradients = evaluate(graph, values, adjoints)
    for _ in range(2):  # memory is used again
        found = program.run(values, True, adjoints)
        assert found.status == FINISHED, found.reason
        np.testing.assert_allclose(found.results, results, rtol=rtol)
        for mine, theirs in zip(found.gradients, gradients, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-300)
        assert program.run(values).results == found.results
    return program


def robust_loss():
    """Σ of r² where r = |y − a·x − b| < 1, else of 2r − 1."""
    graph, build, (a, b, x, n, y, _) = begun("x", "x", "v", "v")
    i, (total,), close = loop(build, n, build.constant(0.0))
    at_x, at_y = build.step("int_add", x, i), build.step("int_add", y, i)
    r = build.step("subtract", build.load(1, at_y), build.step("multiply", a, build.load(0, at_x)))
    r = build.step("absolute", build.step("subtract", r, b))
    near, far, join = build.begin(), build.begin(), build.begin(FLOAT)
    one = build.constant(1.0)
    build.branch(build.step("float_less", r, one), Edge(near, []), Edge(far, []))
    build.block = near
    build.jump(join, build.step("multiply", r, r))
    build.block = far
    twice = build.step("multiply", build.constant(2.0), r)
    build.jump(join, build.step("subtract", twice, one))
    build.block = join
    close(build.step("add", total, join.parameters[0]))
    build.give(total)
    return graph


@pytest.mark.parametrize("n", [0, 1, 7, 2000])
def test_a_loop_with_a_branch(n):
    x = np.linspace(0, 3, n)
    y = np.sin(9 * x) * 3
    program = agree(robust_loss(), [0.5, 0.2, x, y], rtol=1e-11)
    r = y - 0.5 * x - 0.2
    slope = np.where(np.abs(r) < 1, 2 * r, 2 * np.sign(r))
    _, to_b, _, to_y = program.run([0.5, 0.2, x, y], True).gradients
    np.testing.assert_allclose(to_b, -slope.sum(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(to_y, slope, rtol=1e-13)


def test_lengths_and_coverage():
    program = FlowProgram(robust_loss())
    taken = 0
    for n in (3, 0, 700, 3):
        x = np.linspace(-1, 1, n)
        y = np.zeros(n)
        found = program.run([0.1, 0.2, x, y], True)
        taken |= found.taken
        r = np.abs(0.1 * x + 0.2)
        np.testing.assert_allclose(found.results, [(r * r).sum()], rtol=1e-12)
        assert found.gradients[2].shape == (n,)
    run = Run(program.graph, [0.1, 0.2, x, y])
    assert found.taken.bit_count() == 1 + len(run.covered)
    assert found.taken == taken and taken.bit_count() <= program.graph.flags + 1


def triangular():
    """v[i] += v[j]² · x for j < i, in place; gives v[n − 1] · v[0]."""
    graph, build, (x, v, n) = begun("x", "v")
    i, _, close = loop(build, n)
    j, _, close_inner = loop(build, i)
    at = build.step("int_add", v, i)
    other = build.load(0, build.step("int_add", v, j))
    more = build.step("multiply", build.step("square", other), x)
    build.store(0, at, build.step("add", build.load(0, at), more))
    close_inner()
    close()
    last = build.step("int_add", v, build.step("int_subtract", n, build.constant(1)))
    build.give(build.step("multiply", build.load(0, last), build.load(0, v)))
    return graph


def test_nested_loops_that_write_memory():
    given = np.array([0.3, -0.2, 0.7, 0.1, 0.5])
    agree(triangular(), [0.9, given])
    assert given[1] == -0.2


def test_a_constant_over_a_value():
    """What is overwritten has no adjoint."""
    graph, build, (v, _) = begun("v")
    first = build.load(0, v)
    build.store(0, v, build.constant(2.0))
    build.give(build.step("multiply", first, build.load(0, v)))
    assert agree(graph, [np.array([3.0, 1.0])]).run([np.ones(2)], True).gradients[0][0] == 2.0


def test_arguments_are_passed_at_once():
    """(a, b) → (b, a + 2b): Pell's numbers, which are 5741 and 13860 after eleven rounds."""
    graph, build, (x, y) = begun("x", "x")
    _, (a, b), close = loop(build, build.constant(11), x, y)
    close(b, build.step("add", a, build.step("multiply", build.constant(2.0), b)))
    build.give(a)
    assert agree(graph, [0.0, 1.0]).run([0.0, 1.0], True).gradients == [2378.0, 5741.0]
    graph, build, (x, y) = begun("x", "x")
    _, (a, b), close = loop(build, build.constant(3), x, y)
    close(b, a)
    build.give(a, b)
    assert agree(graph, [3.0, 4.0], (1.0, 10.0)).run([3.0, 4.0]).results == [4.0, 3.0]


def early_return():
    """The first product of v above 10, with its position; else x."""
    graph, build, (x, v, n) = begun("x", "v")
    i, (product,), close = loop(build, n, x)
    product = build.step("multiply", product, build.load(0, build.step("int_add", v, i)))
    found, further = build.begin(), build.begin()
    large = build.step("float_less", build.constant(10.0), product)
    build.branch(large, Edge(found, []), Edge(further, []))
    build.block = found
    build.give(product, i, large)
    build.block = further
    close(product)
    build.give(x, build.constant(-1), build.constant(False))
    return graph


@pytest.mark.parametrize("x", [1.0, 0.1, 100.0])
def test_early_returns_and_results_of_all_kinds(x):
    values = [x, np.array([2.0, 3.0, 4.0])]
    program = agree(early_return(), values, (1.0, 0.0, 0.0))
    assert [type(one) for one in program.run(values).results] == [float, int, bool]


@pytest.mark.parametrize("op", ROWS, ids=[op.name for op in ROWS])
def test_element_wise_operations(op):
    graph, build, parameters = begun(*["x"] * len(op.inputs))
    build.give(build.step(op.name, *parameters))
    program = FlowProgram(graph)
    for values in zip(*points(op, (5,), np.random.default_rng(3)), strict=True):
        results, gradients = evaluate(graph, values, (1.7,))
        found = program.run(values, True, (1.7,))
        np.testing.assert_allclose(found.results, results, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.gradients, gradients, rtol=1e-11, atol=1e-13)


LEAST, LARGEST = -(2**63), 2**63 - 1
INTEGERS = [0, 1, -1, 2, -7, 13, 3037000500, 2**62, LEAST, LARGEST]
FLOATS = [0.0, -0.0, 1.5, -2.5, 1e18, 9.3e18, -(2.0**63), np.inf, np.nan]
SAMPLES = {INT: INTEGERS, FLOAT: FLOATS, BOOL: [False, True]}


@pytest.mark.parametrize("op", PLAIN)
def test_operations_of_integers_and_truths(op):
    kinds = STEP_KINDS[op].operands
    for k in range(60):
        given = [
            SAMPLES[kind][(k // 10**j + k * j) % len(SAMPLES[kind])] for j, kind in enumerate(kinds)
        ]
        graph, build, _ = begun()
        build.give(build.step(op, *[build.constant(one) for one in given]))
        run, found = Run(graph, []), FlowProgram(graph).run([])
        assert (found.status, found.results) == (run.status, run.results), given
        assert run.status == FINISHED or run.reason == ARITHMETIC


def test_every_operation_is_tried():
    memory = "allocate load_float load_int store_float store_int check note_choice"
    mixed = "int_to_float to_single float_select float_const int_const bool_const"
    assert {*PLAIN, *memory.split(), *mixed.split()} == {*STEP_KINDS}


def test_choices_and_integers_as_floats():
    for x in (2.0, -2.0):
        graph, build, (x_, y) = begun("x", "x")
        positive = build.step("float_less", build.constant(0.0), x_)
        root = build.step("sqrt", build.step("float_select", positive, x_, build.constant(0.0)))
        chosen = build.step("float_select", positive, root, y)
        number = build.step("int_to_float", build.step("float_to_int", x_))
        build.give(build.step("multiply", chosen, number))
        agree(graph, [x, 5.0])


def test_allocated_memory_and_arrays_as_results():
    """Powers of x from 0 on, in new memory that grows beyond what is there at first."""
    graph, build, (x,) = begun("x")
    region, numbers = graph.region(FLOAT), graph.region(INT)
    n = build.constant(900)
    address, spare = build.step("allocate", n), build.step("allocate", build.constant(1))
    _, (power,), close = loop(build, n, build.constant(1.0))
    at = build.load(numbers, spare)
    build.store(region, build.step("int_add", address, at), power)
    build.store(numbers, spare, build.step("int_add", at, build.constant(1)))
    close(build.step("multiply", power, x))
    build.give(address, n)
    validate(graph)
    program = FlowProgram(graph)
    for base in (0.99, 1.01):
        call = program.start([base], True)
        powers = call.array_at(*[call.results[0], call.results[1:]])
        np.testing.assert_allclose(powers, base ** np.arange(900), rtol=1e-12)
        weights = np.linspace(-1, 1, 900)
        call.seed(call.results[0], weights)
        slope = (weights * np.arange(900) * base ** (np.arange(900) - 1.0)).sum()
        np.testing.assert_allclose(call.reverse((0.0, 0.0)), [slope], rtol=1e-11)
        call.close()
        call.close()
        with pytest.raises(RuntimeError, match="closed"):
            call.reverse((0.0, 0.0))
        with pytest.raises(ValueError, match="1 adjoints of 2 results"):
            program.run([base], True)


def test_tangents_lie_in_another_space():
    """x · v[0]: the array of tangents has the address of the array."""
    graph, build, (x, v, _) = begun("x", "v", spaces=2)
    graph.inputs.append(GraphInput(1, True, 0, tangent_of=1, space=1))
    tangent = build.step("load_float", v, payload=Place(0, 1))
    build.give(build.step("multiply", x, tangent), build.load(0, v))
    values = [3.0, np.array([5.0, 6.0]), np.array([7.0, 8.0])]
    found = agree(graph, values, (1.0, 2.0)).run(values, True, (1.0, 2.0))
    assert found.results == [21.0, 5.0]
    assert [np.sum(one) for one in found.gradients] == [7.0, 2.0, 3.0]


def test_why_calls_leave():
    graph, build, (x,) = begun("x")
    build.check(build.step("float_less", x, build.constant(1.0)), "too large")
    build.give(x)
    program = FlowProgram(graph)
    assert program.run([0.5], True).gradients == [1.0]
    found = program.run([2.0], True)
    assert (found.status, found.reason, found.results, found.gradients) == (
        LEFT,
        "too large",
        [],
        [],
    )
    graph, build, _ = begun()
    build.leave("unknown")
    assert FlowProgram(graph).run([]).reason == "unknown"
    graph, build, _ = begun()
    build.give(build.step("allocate", build.constant(2**62)))
    assert "memory" in FlowProgram(graph).run([]).reason
    graph, build, _ = begun()
    build.give(build.step("int_remainder", build.constant(1), build.constant(0)))
    assert "division" in FlowProgram(graph).run([]).reason


def test_loops_without_an_end_are_left():
    graph, build, (x,) = begun("x")
    block = build.begin()
    build.jump(block)
    build.block = block
    build.jump(block)
    assert "no end" in FlowProgram(graph, limits=Limits(jumps=1000)).run([1.0]).reason


def test_infinite_slopes_of_what_has_no_adjoint():
    """0 · √x at 0: nothing is added where the adjoint is 0."""
    graph, build, (x,) = begun("x")
    nothing = build.step("multiply", build.constant(0.0), build.step("sqrt", x))
    build.give(build.step("add", nothing, x))
    assert agree(graph, [0.0]).run([0.0], True).gradients == [1.0]


def test_threads_have_memory_of_their_own():
    program, wrong = FlowProgram(triangular()), []

    def work(x):
        given = np.array([0.3, -0.2, 0.7, 0.1, x])
        results, gradients = evaluate(program.graph, [x, given])
        for _ in range(300):
            found = program.run([x, given], True)
            if not np.allclose(found.results + found.gradients[:1], results + gradients[:1]):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(0.1 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_returns_of_different_kinds_are_refused():
    graph, build, (x,) = begun("x")
    one, other = build.begin(), build.begin()
    build.branch(build.step("is_finite", x), Edge(one, []), Edge(other, []))
    build.block = one
    build.give(x)
    build.block = other
    build.give(build.constant(1))
    with pytest.raises(ValueError, match="returns of f and i"):
        FlowProgram(graph)

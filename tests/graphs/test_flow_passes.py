"""Graphs changed into others: the same values, the same gradients, tangents."""

import numpy as np
import pytest
from naive_flow import evaluate

from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._flow.ir.flow_graph import (
    Builder,
    Edge,
    Graph,
    GraphInput,
    Place,
    SourceLine,
    text_of,
    validate,
    varying,
)
from tapegrad._flow.passes.tangents import with_tangents

OPERATIONS = [op for op in TABLE.values() if isinstance(op, Pointwise) and not op.apart]


def begun(*inputs):
    """A graph with inputs, a builder at its first block, and the parameters of that."""
    graph = Graph(inputs=list(inputs))
    for one in graph.inputs:
        if one.ndim is not None:
            one.region = graph.region("f")
    b = Builder(graph, graph.block())
    kinds = "".join(one.parameters for one in graph.inputs)
    b.block.parameters = [graph.value(kind) for kind in kinds]
    return graph, b, b.block.parameters


def pointwise(op):
    """The graph of one element-wise operation."""
    graph, b, x = begun(*[GraphInput(None, True) for _ in op.inputs])
    b.give(b.step(op.name, *x))
    return graph


def robust_loss():
    """The sum of r * r where r < 1, else 2 r - 1, of r = |y - a x - b|; results kept in memory."""
    graph, b, (x, n, y, _, slope, shift) = begun(
        GraphInput(1, False), GraphInput(1, True), GraphInput(None, True), GraphInput(None, True)
    )
    kept = graph.region("f")
    zero, one, zero_float = b.constant(0), b.constant(1), b.constant(0.0)
    memory = b.step("allocate", n)
    head = b.begin("i", "f")
    i, total = head.parameters
    body, low, high, after = b.begin(), b.begin(), b.begin(), b.begin("f")
    end = b.begin()
    b.jump(head, zero, zero_float)
    b.block = head
    b.branch(b.step("int_less", i, n), Edge(body, []), Edge(end, []))
    b.block = body
    place = b.step("int_add", x, i)
    line = b.step("add", b.step("multiply", slope, b.load(0, place)), shift)
    r = b.step("absolute", b.step("subtract", b.load(1, b.step("int_add", y, i)), line))
    b.branch(b.step("float_less", r, b.constant(1.0)), Edge(low, []), Edge(high, []))
    b.block = low
    b.jump(after, b.step("multiply", r, r))
    b.block = high
    b.jump(after, b.step("subtract", b.step("multiply", b.constant(2.0), r), b.constant(1.0)))
    b.block = after
    address = b.step("int_add", memory, i)
    b.store(kept, address, after.parameters[0])
    total = b.step("add", total, b.load(kept, address))
    b.jump(head, b.step("int_add", i, one), total)
    b.block = end
    b.give(head.parameters[1])
    validate(graph)
    return graph


def data():
    rng = np.random.default_rng(0)
    return [rng.normal(size=7), 2 * rng.normal(size=7), 0.3, -0.2]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_tangents_of_operations(op):
    """The tangent along v is the gradient times v, and its gradient is right too."""
    rng = np.random.default_rng(1)
    x = [float(rng.uniform(*interval)) for interval in op.domain]
    v = [float(one) for one in rng.normal(size=len(x))]
    graph = pointwise(op)
    value, gradient = evaluate(graph, x)
    made = with_tangents(graph, range(len(x)))
    validate(made)
    (again, tangent), _ = evaluate(made, [*x, *v], (0.0, 1.0))
    assert again == value[0]
    np.testing.assert_allclose(tangent, np.dot(gradient, v), rtol=1e-12, atol=1e-13)


def test_tangents_of_a_loop_with_memory():
    graph = robust_loss()
    before, at = text_of(graph), data()
    v = [np.arange(7.0) - 3.0, 0.7, -1.3]
    _, (in_y, in_slope, in_shift) = evaluate(graph, at)
    made = with_tangents(graph, [1, 2, 3])
    validate(made)
    assert text_of(graph) == before and made.spaces == 2
    (value, tangent), _ = evaluate(made, [*at, *v], (0.0, 1.0))
    assert value == evaluate(graph, at)[0][0]
    wanted = in_y @ v[0] + in_slope * v[1] + in_shift * v[2]
    np.testing.assert_allclose(tangent, wanted, rtol=1e-13)


def test_second_order():
    """The gradient of a tangent, and a tangent of a tangent, are products with the Hessian."""
    graph = robust_loss()
    at, v, w = data(), [np.arange(7.0) - 3.0, 0.7, -1.3], [np.ones(7), -0.4, 0.9]
    first = with_tangents(graph, [1, 2, 3])
    _, product = evaluate(first, [*at, *v], (0.0, 1.0))
    step = 1e-6
    shifted = [[at[0], *(a + s * b for a, b in zip(at[1:], v, strict=True))] for s in (step, -step)]
    high, low = (evaluate(graph, one)[1] for one in shifted)
    for one, up, down in zip(product, high, low, strict=True):
        np.testing.assert_allclose(one, (up - down) / (2 * step), atol=1e-7)
    second = with_tangents(first, [1, 2, 3])
    validate(second)
    assert second.spaces == 4
    (*_, twice), _ = evaluate(second, [*at, *v, *w], (0.0,) * 4)
    wanted = product[0] @ w[0] + product[1] * w[1] + product[2] * w[2]
    np.testing.assert_allclose(twice, wanted, rtol=1e-12)


def test_all_directions_can_be_differentiated():
    graph = robust_loss()
    at, v = data(), [np.arange(7.0) - 3.0, 0.7, -1.3]
    made = with_tangents(graph, [1, 2, 3], differentiate_tangents=True)
    _, found = evaluate(made, [*at, *v], (0.0, 1.0))
    for one, wanted in zip(found[3:], evaluate(graph, at)[1], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-13)
    twice = with_tangents(made, [4, 5, 6])
    (_, tangent, _, bilinear), _ = evaluate(twice, [*at, *v, *v], (0.0,) * 4)
    np.testing.assert_allclose(bilinear, tangent, rtol=1e-13)


def test_a_tangent_of_0_gives_0_at_an_infinite_slope():
    graph, b, (x,) = begun(GraphInput(None, True))
    b.give(b.step("sqrt", x))
    assert evaluate(with_tangents(graph, [0]), [0.0, 0.0], (0.0, 0.0))[0] == [0.0, 0.0]
    assert evaluate(with_tangents(graph, [0]), [0.0, 1.0], (0.0, 0.0))[0] == [0.0, np.inf]
    # where it is finite, the derivative to the tangent is the slope, whatever the tangent
    made = with_tangents(graph, [0], differentiate_tangents=True)
    assert evaluate(made, [4.0, 0.0], (0.0, 1.0))[1] == [0.0, 0.25]


def test_what_varies():
    graph = robust_loss()
    values, places = varying(graph)
    assert places == {Place(1), Place(2)}
    assert {one.kind for one in values} == {"f"}
    assert varying(graph, [0])[1] == {Place(0), Place(2)}
    assert varying(graph, []) == (set(), set())


def test_comparisons_as_floats_do_not_vary():
    graph, b, (x,) = begun(GraphInput(None, True))
    is_nan = b.step("isnan", x)
    chosen = b.step("multiply", is_nan, x)
    b.give(chosen)
    assert varying(graph) == ({x, chosen}, set())
    assert evaluate(with_tangents(graph, [0]), [3.0, 1.0], (1.0, 0.0))[0] == [0.0, 0.0]


def test_text():
    graph, b, (x,) = begun(GraphInput(None, True))
    graph.lines.append(SourceLine("/home/f.py", 3, "f"))
    end, other = b.begin("f"), b.begin()
    b.line = 1
    b.branch(b.step("float_less", x, b.constant(2.0)), Edge(end, [x]), Edge(other, []))
    b.block = other
    b.leave("too large")
    b.block = end
    b.give(end.parameters[0])
    assert text_of(graph).splitlines() == [
        "block 0(f0):",
        "    f2 = float_const 2.0  # f.py:3 in f",
        "    b3 = float_less f0, f2  # f.py:3 in f",
        "    branch b3: block 1(f0), else block 2()",
        "block 1(f1):",
        "    return f1",
        "block 2():",
        "    leave 'too large'",
    ]

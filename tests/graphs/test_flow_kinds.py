"""A kind of steps of graphs is declared in one place: kinds that are added go all the ways."""

import ast
import functools
import itertools
import operator
from pathlib import Path

import numpy as np
import pytest
import saved_functions
from assumed import needs
from compiled import same
from naive_flow import PLAIN, Left
from source_rules import FILES, every, nodes_of

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._flow import program
from tapegrad._flow.interpreted import interpreter
from tapegrad._flow.ir import flow_graph
from tapegrad._flow.ir.flow_graph import Builder, Edge, Graph, GraphInput, GraphStep, validate
from tapegrad._flow.ir.frame import FINISHED, LEFT
from tapegrad._flow.kinds.step_kinds import FLOAT, INT, KINDS, declare, kind_of
from tapegrad._flow.native.flow_functions import compiled
from tapegrad._flow.passes.simplify import simplified
from tapegrad._flow.passes.tangents import with_tangents
from tapegrad._flow.program import FlowProgram, Functions
from tapegrad._flow.reading import numbers
from tapegrad._flow.reading.forms import Number
from tapegrad._program.files import file_format

X = (1.5, -0.5)


def _apart(code, x, y):
    both, either = code.let(f"and i64 {x}, {y}"), code.let(f"or i64 {x}, {y}")
    return code.let(f"xor i64 {both}, {either}")


def _half(code, x):
    code.check(code.let(f"icmp ne i64 0, {code.let(f'and i64 {x}, 1')}"))
    return code.let(f"sdiv i64 {x}, 2")


def _gate_back(reverse, step, g):
    condition, value = step.operands
    if value in reverse.variation:
        reverse.add(value, reverse.code.step("gate", reverse.value(condition), g))


@pytest.fixture(scope="module", autouse=True)
def _kinds():
    """Five more kinds, each one declaration; interpreters that have them."""
    declare("apart", "ii -> i", "(x | y) & ~(x & y)", "cheap", native=_apart, twice=0, neutral=0)
    declare("half", "i -> i", "x // 2", "again", holds="x % 2 == 0", native=_half)
    declare(
        "product", "ff -> f", "x * y", "cheap", native="fmul double {}, {}", partials=("y", "x")
    )
    exp = lambda code, x: code.step("exp", x)
    declare("growth", "f -> f", "np.exp(x)", native=exp, partials=("out",))
    declare(
        *("gate", "bf -> f", "y if x else 0.0", "cheap"),
        native="select i1 {}, double {}, double 0.0",
        back="if x:\n    y += g",
        native_back=_gate_back,
    )
    with pytest.MonkeyPatch.context() as patch:
        made = functools.cache(interpreter._functions)
        patch.setattr(program, "compiled", lambda: made(checked=False))
        patch.setattr(program, "compiled_with_checks", lambda: made(checked=True))
        yield
    for name in {*KINDS} - DECLARED:
        del KINDS[name]
    kind_of.cache_clear()
    flow_graph.names_read.cache_clear()


def begun():
    """A graph of a float and an array, with a builder and the parameters."""
    graph = Graph()
    graph.inputs = [GraphInput(None, True), GraphInput(1, False, graph.region(FLOAT))]
    entry = graph.block()
    entry.parameters = [graph.value(kind) for kind in (FLOAT, INT, INT)]
    return graph, Builder(graph, entry), entry.parameters


def every_kind():
    """x³ if x > 0, and exp(x) · (n ^ 5) // 2 for n words; left where n ^ 5 is odd."""
    graph, build, (x, _, n) = begun()
    cube = build.step("product", build.step("product", x, x), x)
    positive = build.step("float_less", build.constant(0.0), x)
    half = build.step("half", build.step("apart", n, build.constant(5)))
    scaled = build.step("product", build.step("int_to_float", half), build.step("growth", x))
    build.give(build.step("add", build.step("gate", positive, cube), scaled))
    validate(graph)
    return graph


def expected(x, n):
    """Value, first and second derivative."""
    cubes = (x**3, 3 * x**2, 6 * x) if x > 0 else (0.0, 0.0, 0.0)
    return np.add(cubes, np.exp(x) * ((n ^ 5) // 2))


def programs(graph):
    """The graph interpreted and natively."""
    return FlowProgram(graph), FlowProgram(graph, Functions(**compiled(graph), data=0))


@pytest.mark.parametrize("simple", [False, True])
def test_values_derivatives_and_tangents(simple):
    graph = simplified(every_kind()) if simple else every_kind()
    tangents = with_tangents(graph, [0])
    validate(tangents)
    tangents = simplified(tangents) if simple else tangents
    for x, n in itertools.product(X, (1, 3, 7, 13)):
        value, first, second = expected(x, n)
        for one in programs(graph):
            found = one.run([x, np.zeros(n)], True)
            assert found.status == FINISHED
            np.testing.assert_allclose([*found.results, *found.gradients], [value, first])
        for one in programs(tangents):
            found = one.run([x, np.zeros(n), 2.0], True, (0.0, 1.0))
            np.testing.assert_allclose(found.results, [value, 2.0 * first])
            np.testing.assert_allclose(found.gradients, [2.0 * second])


def test_where_it_does_not_hold_a_call_leaves():
    for one in programs(every_kind()):
        found = one.run([1.5, np.zeros(4)], True)
        assert found.status == LEFT and "division" in found.reason
        assert one.run([1.5, np.zeros(3)]).status == FINISHED


def test_constants_and_equal_operands():
    graph, build, (x, _, n) = begun()
    six, three = build.constant(6), build.constant(3)
    results = [
        *(build.step("apart", six, three), build.step("half", six)),
        *(build.step("apart", n, n), build.step("apart", build.constant(0), n)),
        *(build.step("product", build.constant(3.0), build.constant(0.5)),),
        *(build.step("gate", build.constant(False), build.constant(3.0)),),
        *(build.step("half", three), build.step("product", x, x), build.step("product", x, x)),
    ]
    build.give(*results)
    (block,) = simplified(graph).blocks
    made = {step.result: step for step in block.steps}
    shown = [made[one].payload if one in made else one for one in block.end.results]
    assert shown == [5, 3, 0, n, 1.5, 0.0, None, None, None]
    assert [made[one].op for one in block.end.results[6:]] == ["half", "product", "product"]
    assert block.end.results[7] is block.end.results[8]


def test_a_branch_becomes_a_select():
    graph, build, (x, *_) = begun()
    arms, after = [build.begin(), build.begin()], build.begin(FLOAT)
    zero = build.constant(0.0)
    build.branch(build.step("float_less", x, zero), Edge(arms[0], []), Edge(arms[1], []))
    for arm, factor in zip(arms, (x, build.constant(2.0)), strict=True):
        build.block = arm
        build.jump(after, build.step("product", x, factor))
    build.block = after
    build.give(*after.parameters)
    assert simplified(graph).selects == 1 and graph.edges == 0
    calls = (-3.0, [9.0], [-6.0], [1, 0]), (3.0, [6.0], [2.0], [0, 1])
    for one, (x, results, gradients, went) in itertools.product(programs(graph), calls):
        found = one.run([x, np.zeros(1)], True)
        assert (found.results, found.gradients) == (results, gradients)
        assert flags(found, 0) == went


def flags(outcome, select):
    """The flags of a select in a graph without edges."""
    return [*(outcome.taken >> 1).to_bytes(8, "little")[2 * select : 2 * select + 2]]


def test_a_branch_in_an_arm_that_is_not_taken():
    """0 if x² < x, else max(x, 2): which way the inner branch went is noted where it counts."""
    graph, build, (x, *_) = begun()
    zero, two = build.constant(0.0), build.constant(2.0)
    outer, first, second = (build.begin() for _ in range(3))
    inner, after = (build.begin(FLOAT) for _ in range(2))
    inside = build.step("float_less", build.step("product", x, x), x)
    build.branch(inside, Edge(after, [zero]), Edge(outer, []))
    build.block = outer
    build.branch(build.step("float_less", x, two), Edge(first, []), Edge(second, []))
    for build.block, value in ((first, two), (second, x)):
        build.jump(inner, value)
    build.block = inner
    build.jump(after, *inner.parameters)
    build.block = after
    build.give(*after.parameters)
    assert simplified(graph).selects == 2 and graph.edges == 0
    (note,) = [step for step in graph.steps() if step.op == "note_choice"]
    calls = (-3.0, 2.0, [1, 0]), (3.0, 3.0, [0, 1]), (0.5, 0.0, [0, 0])
    for one, (x, value, went) in itertools.product(programs(graph), calls):
        found = one.run([x, np.zeros(1)], True)
        assert (found.results, found.gradients) == ([value], [float(value == 3.0)])
        assert flags(found, note.payload) == went
        assert flags(found, 1 - note.payload) == [int(value == 0.0), int(value > 0.0)]


def test_a_graph_in_a_file(tmp_path):
    graph = every_kind()
    graph.inputs[1].differentiated = True
    values = [1.5, np.zeros(3)]
    found = saved_functions.of_graph(graph, values, Number(FLOAT, None, True))
    file_format.save(tmp_path / "g.npz", found)
    (flow,) = tg.load(tmp_path / "g.npz")._flows.found.values()
    steps = [step.op for step in flow.primal.program.graph.steps()]
    assert {"apart", "half", "product", "growth", "gate"} < {*steps}
    for x in X:
        run = flow.primal.program.run([x, np.zeros(3)], True)
        np.testing.assert_allclose([*run.results, run.gradients[0]], expected(x, 3)[:2])


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
def test_a_compiled_function(native, tmp_path, monkeypatch):
    monkeypatch.setitem(numbers._FLOATS, operator.mul, "product")
    monkeypatch.setitem(numbers._INTS, operator.xor, "apart")

    def f(x):
        total = x[0] * 0.0
        for k in range(len(x)):
            if x[k] > 0.1 * (k ^ 3):
                total = total + x[k] * x[0] * x[k]
            else:
                total = total - x[k] * x[k]
        return total

    c = tg.compile(f, native=native)
    rng = np.random.default_rng(2)
    for _ in range(8):
        x, v = rng.uniform(-1, 1, (2, 4))
        same(c.value_and_grad(x), tg.value_and_grad(f)(x))
        same(c.hvp(x, v), tg.hvp(f)(x, v), rtol=1e-11)
        if native:
            c.wait()
    (flow,) = c._flows.found.values()
    assert flow.primal.life.state == ("native" if native else "interpreted") and c._reason is None
    assert {"product", "apart"} < {step.op for step in flow.primal.program.graph.steps()}
    assert "graph of" in c.explain()
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for _ in range(3):
        x = rng.uniform(-1, 1, 4)
        same(loaded.value_and_grad(x), tg.value_and_grad(f)(x))


def test_what_is_no_step_of_a_kind():
    for operands, payload in (((0, 0), None), ((1,), None), ((1, 2), 3)):
        graph, build, parameters = begun()
        made = graph.value(INT)
        build.block.steps.append(
            GraphStep("apart", tuple(parameters[k] for k in operands), made, payload)
        )
        build.give(made)
        with pytest.raises(ValueError, match="apart"):
            validate(graph)
    with pytest.raises(AssertionError, match="forgotten has no derivative"):
        declare("forgotten", "ff -> f", "x * y", partials=("y",))
    with pytest.raises(ValueError, match="nothing_known is not element-wise"):
        build.step("nothing_known")


DECLARED = frozenset(KINDS)
SAMPLES = {
    "i": [0, 1, -1, 2, -7, 13, 3037000500, 2**62, -(2**63), 2**63 - 1],
    "f": [0.0, -0.0, 1.5, -2.5, 1e18, 9.3e18, -(2.0**63), np.inf, -np.inf, np.nan],
    "b": [False, True],
}


@pytest.mark.parametrize("op", PLAIN)
def test_results_for_constants(op):
    """They follow from the text that the interpreter is generated from."""
    kind = KINDS[op]
    for given in itertools.product(*[SAMPLES[one] for one in kind.operands]):
        try:
            wanted = PLAIN[op](*given)
        except Left:
            wanted = None
        found = kind.of_constants(*given)
        assert found == wanted and (found is None) == (wanted is None), given


def test_what_is_never_read_stays_where_it_may_raise():
    """Python raises for a divisor of 0 and for int(inf); a large sum is right there."""
    raising = {
        "int_floor_divide": lambda build, x, n: (build.constant(7), n),
        "int_remainder": lambda build, x, n: (build.constant(7), n),
        "float_to_int": lambda build, x, n: (x,),
        "allocate": lambda build, x, n: (build.step("int_subtract", n, build.constant(1)),),
        "int_add": lambda build, x, n: (n, build.constant(2**63 - 1)),
    }
    for op, operands in raising.items():
        graph, build, (x, _, n) = begun()
        build.step(op, *operands(build, x, n))
        build.give(x)
        for one in programs(simplified(graph)):
            statuses = [one.run([x, np.zeros(n)]).status for x, n in ((1.0, 1), (np.inf, 0))]
            assert statuses == [FINISHED, FINISHED if op == "int_add" else LEFT], op
    graph, build, (x, _, n) = begun()
    build.step("int_remainder", n, build.constant(2))
    build.give(x)
    assert simplified(graph).entry.steps == []


def test_rounding_of_constants_to_float32():
    for x in (0.1, 1e-46, -(2.0**-149), 3.4028235677973366e38, 1e39, np.nan, -0.0):
        with np.errstate(over="ignore"):
            wanted = float(np.float32(x))
        found = KINDS["to_single"].of_constants(x)
        assert repr(found) == repr(wanted if np.isfinite(wanted) else None)


FLOW = Path(program.__file__).parent
#: Where kinds are declared, and what makes steps: the reader of functions, and of expressions.
NAMING = (FLOW / "kinds", FLOW / "reading", FLOW / "ir" / "expressions.py")
OTHERS = [
    path
    for path in FILES
    if any(path.is_relative_to(one) for one in (FLOW, FLOW.parent / "_program"))
    and not any(path.is_relative_to(one) for one in NAMING)
]


def named_kinds(nodes):
    """Lines and texts that name kinds, or list them, elsewhere than where a step is made."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = {one for call in calls if call.args for one in call.args[:1] if _makes_a_step(call)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in made:
            words = {*node.value.split()}
            if words & DECLARED and words <= DECLARED | {*TABLE}:
                yield node.lineno, node.value
        if isinstance(node, ast.Attribute) and node.attr in ("startswith", "endswith"):
            if ast.unparse(node.value).split(".")[-1] == "op":
                yield node.lineno, ast.unparse(node)


def _makes_a_step(call):
    return ast.unparse(call.func).split(".")[-1] in ("step", "GraphStep")


@every(OTHERS)
def test_others_name_kinds_only_where_they_make_steps(path):
    for line, text in named_kinds(nodes_of(path)):
        yield f"{path}:{line} has {text!r}"


def test_kinds_that_are_named_are_found():
    def count(text):
        return len([*named_kinds([*ast.walk(ast.parse(text))])])

    for text in ('step.op == "check"', 'X = "add int_add".split()', 'step.op.startswith("load")'):
        assert count(text) == 1
    assert count('build.step("int_add", x, y)') == count('"to check it"') == 0

"""Native code of graphs against plain Python: values, gradients, statuses."""

import ctypes

import numpy as np
import pytest
from naive_flow import PLAIN, Left, Run
from random_flow import RandomGraph

from tapegrad._core.ops.elementwise import STEERING
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._flow.ir import frame as layout
from tapegrad._flow.ir.flow_graph import Builder, Edge, Graph, GraphInput, validate
from tapegrad._flow.ir.frame import ARITHMETIC, FINISHED, LEFT, TAPE_FULL, TOO_MANY_JUMPS
from tapegrad._flow.kinds.step_kinds import KINDS as STEP_KINDS
from tapegrad._flow.native.flow_functions import compiled
from tapegrad._flow.program import FlowProgram, Functions

DECLARED = [
    op
    for op in (*TABLE.values(), *STEERING.values())
    if isinstance(op, Pointwise) and not op.name.startswith("complex_") and not op.apart
]
PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Native:
    """A compiled graph with memory for its calls."""

    def __init__(self, graph, tape=1 << 14, arena=512, jumps=10**6):
        validate(graph)
        self.graph, self.tape, self.arena, self.jumps = graph, tape, arena, jumps
        self.functions = {name: PROTOTYPE(at) for name, at in compiled(graph).items()}

    def run(self, values, adjoints=(1.0,)):
        """Status, results and gradients; both functions forwards give the same."""
        inputs, places = self.enter(values)
        first = self.call("forward", inputs)
        results = self.results()
        status = self.call("ahead", inputs)
        if status != FINISHED:
            return status, [], []
        assert status == first
        assert np.array_equal(results, self.results(), equal_nan=True)
        self.seeds[: len(adjoints)] = adjoints
        self.words[layout.REASON // 8] = 0
        assert self.functions["reverse"](self.words.ctypes.data, 0) == FINISHED
        return status, results, self.gradients(places)

    def enter(self, values):
        graph = self.graph
        self.memory = np.zeros((graph.spaces, self.arena))
        self.shadow = np.zeros((graph.spaces, self.arena))
        words, places, used = [], [], 0
        for one, value in zip(graph.inputs, values, strict=True):
            places.append((len(words), used))
            if one.ndim is None:
                words.append(np.float64(value).view(np.int64))
                continue
            self.memory[0, used : used + value.size] = value.ravel()
            words += [used, *value.shape]
            used += value.size
        self.used = used
        self.outputs, self.seeds = np.zeros((2, 8))
        self.given = np.full(len(words) + 1, np.nan)
        return np.array([*words, 0], np.int64), places

    def call(self, name, inputs):
        self.covered = np.zeros(self.graph.flags + 1, np.uint8)
        self.keep = inputs, np.zeros(self.tape, np.int64)
        self.words = words = np.zeros(layout.FRAME_BYTES // 8, np.int64)
        pointers = {
            **{layout.ARENA: self.memory, layout.SHADOW: self.shadow, layout.TAPE: self.keep[1]},
            **{layout.INPUTS: inputs, layout.OUTPUTS: self.outputs, layout.COVERED: self.covered},
            **{layout.OUTPUT_ADJOINTS: self.seeds, layout.INPUT_ADJOINTS: self.given},
        }
        for word, array in pointers.items():
            words[word // 8] = array.ctypes.data
        words[layout.ARENA_WORDS // 8], words[layout.TAPE_WORDS // 8] = self.arena, self.tape
        words[layout.ARENA_USED // 8], words[layout.JUMPS // 8] = self.used, self.jumps
        return self.functions[name](words.ctypes.data, 0)

    @property
    def reason(self):
        return self.words[layout.REASON // 8]

    def results(self):
        ends = [block.end for block in self.graph.blocks if hasattr(block.end, "results")]
        kinds = [one.kind for one in ends[0].results]
        words = self.outputs.view(np.int64)
        return [self.outputs[k] if kind == "f" else words[k] for k, kind in enumerate(kinds)]

    def gradients(self, places):
        found = []
        for one, (parameter, at) in zip(self.graph.inputs, places, strict=True):
            if one.differentiated and one.ndim is None:
                found.append(self.given[parameter])
            elif one.differentiated:
                size = int(np.prod(self.keep[0][parameter + 1 : parameter + 1 + one.ndim]))
                found.append(self.shadow[one.space, at : at + size].copy())
        return found


def graph_of(*inputs):
    """A graph with these inputs: None for a float, or numbers of axes; all are differentiated."""
    graph = Graph()
    graph.inputs = [
        GraphInput(ndim, True, -1 if ndim is None else graph.region("f")) for ndim in inputs
    ]
    entry = graph.block()
    for one in graph.inputs:
        entry.parameters += [graph.value(kind) for kind in one.parameters]
    return graph, Builder(graph, entry), entry.parameters


def check(native, values, adjoints=(1.0,), rtol=1e-11):
    expected = Run(native.graph, values, native.jumps)
    status, results, gradients = native.run(values, adjoints)
    assert status == expected.status
    if status == LEFT:
        assert native.reason == expected.reason
        return
    np.testing.assert_allclose(results, expected.results, rtol, 1e-300)
    for one, other in zip(gradients, expected.gradients(adjoints), strict=True):
        np.testing.assert_allclose(one, other, rtol, 1e-12)


@pytest.mark.parametrize("part", range(4))
def test_element_wise_operations(part):
    """All operations in one graph each quarter, at values in their domains and awkward ones."""
    rng = np.random.default_rng(part)
    for op in DECLARED[part::4]:
        graph, b, x = graph_of(*[None] * len(op.inputs))
        b.give(b.step(op.name, *x))
        native = Native(graph)
        for _ in range(4):
            check(native, [rng.uniform(*limits) for limits in op.domain])
        awkward = (0.0, -0.0, 1.0, np.inf, np.nan) if op.name != "polygamma" else ()
        for value in awkward:
            with np.errstate(all="ignore"):
                check(native, [value] * len(op.inputs), rtol=1e-9)
        if len(op.inputs) == 2:
            check(native, [1.0, 1.0])


INTEGERS = (0, 1, -1, 2, -3, 7, 2**62, 2**63 - 1, -(2**63))


KINDS = {"i": lambda x, y: [x], "ii": lambda x, y: [x, y], "bii": lambda x, y: [x < y, x, y]}
WHOLE = [
    name
    for name, one in STEP_KINDS.items()
    if one.operands in KINDS and one.result and name not in ("allocate", "load_int", "load_float")
]


@pytest.mark.parametrize("op", WHOLE)
def test_integer_operations(op):
    """Lengths of an array stand for any integers: nobody reads it."""
    graph, b, (_, x, y) = graph_of(2)
    operands = {"i": (x,), "ii": (x, y), "bii": (b.step("int_less", x, y), x, y)}
    b.give(b.step(op, *operands[STEP_KINDS[op].operands]))
    native = Native(graph)
    for first in INTEGERS:
        for second in INTEGERS:
            assert_integers(native, op, first, second)


def assert_integers(native, op, x, y):
    inputs = np.array([0, x, y, 0], np.int64)
    native.enter([np.zeros((1, 1))])
    status = native.call("forward", inputs)
    numbers = KINDS[STEP_KINDS[op].operands](x, y)
    try:
        expected = float(x) if op == "int_to_float" else PLAIN[op](*numbers)
    except Left:
        assert status == LEFT and native.reason == ARITHMETIC
        return
    assert status == FINISHED
    assert native.results() == [expected]


def robust():
    """Σ |r| < 1 ? r² : 2|r| − 1 with r = y − a x − b."""
    graph, b, (a, c, x, n, y, _) = graph_of(None, None, 1, 1)
    zero, one, two = b.constant(0.0), b.constant(1.0), b.constant(2.0)
    first, step = b.constant(0), b.constant(1)
    head, body, inner, outer = b.begin("i", "f"), b.begin(), b.begin(), b.begin()
    join, end = b.begin("f"), b.begin()
    b.jump(head, first, zero)
    b.block = head
    i, total = head.parameters
    b.branch(b.step("int_less", i, n), Edge(body, []), Edge(end, []))
    b.block = body
    predicted = b.step("multiply", a, b.load(0, b.step("int_add", x, i)))
    r = b.step("subtract", b.load(1, b.step("int_add", y, i)), b.step("add", predicted, c))
    r = b.step("absolute", r)
    b.branch(b.step("float_less", r, one), Edge(inner, []), Edge(outer, []))
    b.block = inner
    b.jump(join, b.step("multiply", r, r))
    b.block = outer
    b.jump(join, b.step("subtract", b.step("multiply", two, r), one))
    b.block = join
    b.jump(head, b.step("int_add", i, step), b.step("add", total, join.parameters[0]))
    b.block = end
    b.give(total)
    return graph


def test_a_loop_with_a_branch():
    native, rng = Native(robust()), np.random.default_rng(0)
    for n in (0, 1, 7, 100):
        check(native, [0.4, -0.2, rng.normal(size=n), 2 * rng.normal(size=n)])
    assert native.covered[:6].all()


def test_memory_of_the_tape_and_jumps():
    values = [0.4, -0.2, np.ones(50), np.zeros(50)]
    assert Native(robust(), tape=60).run(values)[0] == TAPE_FULL
    native = Native(robust(), jumps=20)
    assert native.run(values)[0] == LEFT
    assert native.reason == TOO_MANY_JUMPS


def test_a_program_takes_the_functions():
    """Twice the tape and arena until they suffice; the same as the interpreter, but for order."""
    graph, rng = robust(), np.random.default_rng(2)
    program = FlowProgram(graph)
    values = [0.4, -0.2, rng.normal(size=3000), 2 * rng.normal(size=3000)]
    expected = program.run(values, gradient=True)
    program.use(Functions(**compiled(graph), data=0))
    found = program.run(values, gradient=True)
    np.testing.assert_allclose(found.results, expected.results, 1e-12)
    for one, other in zip(found.gradients, expected.gradients, strict=True):
        np.testing.assert_allclose(one, other, 1e-11)


def test_parameters_change_places():
    """a, b = b, a·b in a loop, with two ways out of the function."""
    graph, b, (x, y, data, n) = graph_of(None, None, 1)
    zero, one, limit = b.constant(0), b.constant(1), b.constant(3.0)
    head, body, end, early = b.begin("i", "f", "f"), b.begin(), b.begin(), b.begin()
    after = b.begin()
    b.jump(head, zero, x, y)
    b.block = head
    i, p, q = head.parameters
    b.branch(b.step("int_less", i, n), Edge(body, []), Edge(end, []))
    b.block = body
    product = b.step("multiply", p, b.step("add", q, b.load(0, b.step("int_add", data, i))))
    b.branch(b.step("float_less", limit, product), Edge(early, []), Edge(after, []))
    b.block = after
    b.jump(head, b.step("int_add", i, one), q, product)
    b.block = early
    b.give(b.step("exp", b.step("negative", product)), b.step("multiply", p, p))
    b.block = end
    b.give(p, q)
    native, rng = Native(graph), np.random.default_rng(1)
    for n in range(12):
        check(native, [*rng.uniform(0.3, 2, 2), rng.normal(size=n)], adjoints=(0.7, -1.3))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    made = RandomGraph(seed)
    native = Native(made.graph)
    for _ in range(10):
        check(native, made.values(), adjoints=(0.7, -1.3), rtol=1e-8)

"""A kind of steps says all about itself in one place: one that is added goes all the ways."""

import dataclasses
import json

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen.elements import ITEM
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor import runtime
from tapegrad._program.build.executable import interpreted
from tapegrad._program.files.encode import FileReader, FileWriter, Pools, check
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.moving_step import OPERAND, VIEW, ArrayStep, Link
from tapegrad._program.ir.steps import Code, Input, Output, View, contiguous
from tapegrad._program.ir.uses import VALUE_COSTS, IllegalProgram, nanoseconds
from tapegrad._program.passes.pipeline import optimised
from tapegrad._program.replay.operation_parts import address_of, array_of, c_function, float_of
from tapegrad._program.replay.parts import NO_BASES, Part, part_of
from tapegrad._program.replay.run_layout import FINISHED, RUN_ADJOINT_BASES
from tapegrad._program.reports.explain import steps_text
from tapegrad._program.reports.reported import boxes_of

runtime.start()
FLOAT = np.dtype(np.float64)


@dataclasses.dataclass
class Scaled(ArrayStep):
    """out = factor · source."""

    out: View
    source: View
    factor: float

    plural = "multiples"
    may_stop = False
    can_fold = True
    needs_values = False
    file_fields = {"out": VIEW, "source": VIEW, "factor": OPERAND}


@part_of.register(Scaled)
def part_of_scaled(step, wanted, fresh=NO_BASES, item=ITEM):
    dtype = float_of(item)

    def forward(run):
        array_of(run, step.out, dtype)[...] = step.factor * array_of(run, step.source, dtype)
        return FINISHED

    def reverse(run):
        g = array_of(run, step.out, dtype, RUN_ADJOINT_BASES)
        array_of(run, step.source, dtype, RUN_ADJOINT_BASES)[...] += step.factor * g
        return FINISHED

    calls = c_function(forward), c_function(reverse)
    addresses = address_of(calls[0]), address_of(calls[1]) if wanted(step.source) else 0
    return Part(*addresses, np.zeros(1, np.int64), keep=calls, tier="Python")


def program(n):
    """(3 x² + 3 x²) · (2 · 0.5), with a result that nothing reads."""
    x, square, once, again, unread, total, half, one, result = (
        contiguous(1 + k * n, (n,)) for k in range(9)
    )

    def operation(name, out, *operands):
        return Elementwise((n,), [(TABLE[name].code, operands)], [(0, out)], [])

    steps = [
        operation("multiply", square, x, x),
        Scaled(once, square, 3.0),
        Scaled(again, square, 3.0),
        Scaled(unread, square, -1.0),
        operation("add", total, once, again),
        Scaled(one, half, 2.0),
        operation("multiply", result, total, one),
    ]
    constants = [(half.offset, np.full(n, 0.5))]
    return Code(1 + 9 * n, constants, [Input(x, FLOAT)], steps, [Output(result, FLOAT)])


def evaluated(code, x, seed):
    made = interpreted(code)
    run = made.begin()
    assert made.forward(run, [x]) == FINISHED
    return made.results(run)[0].copy(), made.reverse(run, [seed])[0]


@pytest.mark.parametrize("n", [1, 6, 300])
def test_a_new_kind_is_computed_and_goes_through_all_passes(n, rng):
    code, x, seed = program(n), rng.normal(size=n), rng.normal(size=n)
    check(code)
    passed, _ = optimised(code, 7, 7)
    check(passed)
    assert len(passed.of(Scaled)) == 1  # shared, not read, folded
    for one in (code, passed):
        value, gradient = evaluated(one, x, seed)
        np.testing.assert_allclose(value, 6.0 * x**2, rtol=1e-15)
        np.testing.assert_allclose(gradient, 12.0 * x * seed, rtol=1e-14)


def test_a_new_kind_is_written_to_files_and_checked():
    code, writer = program(4), FileWriter()
    written = json.loads(json.dumps([writer.step(step) for step in code.steps]))
    reader = FileReader(Pools(writer.pools.joined()), list(writer.columns))
    assert [reader.step(item) for item in written] == code.steps
    with pytest.raises(ValueError, match="is no object of out, source, factor"):
        reader.step({"step": "scaled", "out": [1, [4], [1], 0]})
    with pytest.raises(ValueError, match="is no step"):
        reader.step({"step": "arraystep"})
    with pytest.raises(IllegalProgram, match=r"step 0 \(Scaled\): a slot is read before"):
        check(dataclasses.replace(code, steps=code.steps[1:]))


def test_a_new_kind_is_counted_and_shown():
    made = interpreted(program(4))
    assert nanoseconds(made.code, VALUE_COSTS) > 0.0
    assert next(steps_text(made)) == "steps: 4 multiples, 3 element-wise"
    boxes = boxes_of(made)
    assert [box.lines for box in boxes][2] == ["scaled", "4"] and boxes[2].reads == [1]


def test_what_lies_between_the_slots_of_a_result_is_read():
    out, between = View(1, (2,), (3,)), View(2, (2,), (0,))
    assert Link(out, [(out, between)]).views_read == [between]


@pytest.mark.parametrize("n", [2, 40])
def test_an_array_with_an_element_of_it_at_both_ends(n, rng):
    def f(x):
        y = np.sin(x)
        ends = np.concatenate([y[:1], y, y[:1]])
        return np.sum(ends * ends * np.cos(np.concatenate([x, x[:2]])))

    x = rng.normal(size=n)
    compiled = tg.compile(f)
    for _ in range(2):
        same = zip(compiled.value_and_grad(x), tg.value_and_grad(f)(x), strict=True)
        for found, expected in same:
            np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_kind_that_nothing_computes_is_refused():
    @dataclasses.dataclass
    class Unknown(ArrayStep):
        out: View

    with pytest.raises(TypeError, match="nothing that computes a step of the kind unknown"):
        part_of(Unknown(contiguous(1, (2,))), lambda view: True)

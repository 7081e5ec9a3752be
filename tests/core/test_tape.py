"""What `tg.record` returns: rows, printing, size, checks; and rows computed with new inputs."""

import numpy as np
import pytest
import rows

import tapegrad as tg
from tapegrad._core.ops import sample_inputs
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tape.tape import Row, Tape
from tapegrad._core.tensor.apply import ufunc_of


def again(tape, *inputs):
    """Compute an element-wise tape again with new inputs, by NumPy."""
    values, given = [], iter(inputs)
    for row in tape.rows:
        if row.op == "input":
            values.append(next(given))
            continue
        operands = [values[o[0]] if isinstance(o, tuple) else o for o in row.operands]
        values.append(ufunc_of(row.op)(*operands))
    return [values[output] for output in tape.outputs]


@pytest.mark.parametrize("op", rows.ROWS, ids=rows.NAMES)
def test_rows_computed_again_with_new_inputs(op, rng):
    f = tg.__dict__[op.name]

    def draw():
        return [rng.uniform(low, high, 4) for low, high in op.domain]

    first, second = draw(), draw()
    if op.name == "where":  # its condition is a constant of the recording
        second[0] = first[0]
    tape = tg.record(f, *first)
    tape.check()
    (found,) = again(tape, *second[op.name == "where" :])
    np.testing.assert_allclose(found, rows.value(op, *second), rtol=1e-13)
    scalars = [value[0] for value in second]
    if len(scalars) < 3:
        tape = tg.record(f, *[value[0] for value in first])
        (found,) = again(tape, *scalars)
        np.testing.assert_allclose(found, rows.value(op, *scalars), rtol=1e-13)


#: Parts of complex functions have no public names; constants have rows in programs alone.
WITH_EXAMPLES = [
    op
    for op in TABLE.values()
    if op in rows.ROWS or not isinstance(op, Pointwise) and not op.constant
]


@pytest.mark.parametrize("op", WITH_EXAMPLES, ids=lambda op: op.name)
def test_the_example_of_every_row_records_it(op, rng):
    call, inputs = sample_inputs.example(op, (5,), rng, tg)
    tape = tg.record(call, *inputs)
    assert op.name in [row.op for row in tape.rows]


def test_rows_of_a_scalar_program():
    tape = tg.record(lambda x, y: 2.0 * x * y + y / 3.0, 3.0, 4.0)
    assert [row.op for row in tape.rows] == [
        "input",
        "input",
        "multiply",
        "multiply",
        "divide",
        "add",
    ]
    assert tape.rows[2].operands == [2.0, (0, None)]
    assert tape.rows[4].operands == [(1, None), 3.0]
    assert again(tape, 5.0, 6.0) == [62.0]
    assert len(tape) == 6
    assert tape.outputs == [5]


def test_rows_that_the_result_does_not_need_are_left_out():
    def f(x):
        np.exp(x)
        return x * x

    assert [row.op for row in tg.record(f, 2.0).rows] == ["input", "multiply"]


def test_printed_form_and_size():
    def f(x):
        y = x * 1.0
        y[0] = 5.0
        return np.sum(y[1:] * x[0])

    tape = tg.record(f, np.arange(3.0))
    assert str(tape).splitlines()[1:] == [
        "    0  input                                         float64[3]",
        "    1  multiply     %0[3] 1                          float64[3]",
        "    2  constant                                      5",
        "    3  store        %1 0 %2",
        "    4  load         %0 0                             0",
        "    5  multiply     %1[2] %4                         float64[2]",
        "    6  sum          %5[2]                            0  output",
    ]
    assert str(tape).startswith(f"tape of 7 rows, {tape.nbytes} bytes")
    arrays = 3 * 8 + 3 * 8 + 2 * 8
    assert tape.nbytes == 7 * 24 + 16 * sum(len(r.operands) + 1 for r in tape.rows) + arrays


def test_several_results_and_nested_arguments():
    tape = tg.record(lambda p: (p["a"] * p["b"][0], p["a"] + 1.0), {"a": 2.0, "b": [3.0]})
    assert [tape.rows[k].value for k in tape.outputs] == [6.0, 3.0]


def test_no_result_depends_on_the_arguments():
    with pytest.raises(ValueError, match="do not depend on its arguments"):
        tg.record(lambda x: 3.0, 1.0)


@pytest.mark.parametrize(
    "rows_of_tape, outputs, text",
    [
        ([Row("input", [], 1.0), Row("sin", [(1, None)], 0.8)], [1], "reads row 1, which is not"),
        ([Row("input", [], 1.0), Row("sine", [(0, None)], 0.8)], [1], "unknown operation sine"),
        ([Row("input", [], 1.0)], [1], "there is no row 1"),
        (
            [Row("input", [], np.zeros(3)), Row("exp", [(0, np.zeros(3))], np.ones(3))],
            [1],
            "reads outside the buffer of row 0",
        ),
    ],
)
def test_an_illegal_tape_is_refused(rows_of_tape, outputs, text):
    with pytest.raises(ValueError, match=text):
        Tape(rows_of_tape, outputs).check()


def test_every_recorded_operation_is_in_the_table():
    tape = tg.record(lambda x: np.sum(np.sort(x) @ np.diag(x)), np.arange(3.0))
    tape.check()
    assert {row.op for row in tape.rows} <= set(TABLE) | {"input", "constant", "load"}

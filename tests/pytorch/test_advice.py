"""The profiler's advice: each finder on code that it is for, and on code that is fine as it is."""

import inspect

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout

ROW, REFERENCE = layout.ROW_BYTES, layout.REFERENCE_BYTES


def leaf(*shape):
    return tg.tensor(np.random.rand(*shape), requires_grad=True)


def advice_for(function, *args):
    with tg.autograd.profiler.profile() as prof:
        made = function(*args)
    assert made is not None
    return prof.advice


def line(function, text):
    """Number of the first line of a function that holds `text`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, each in enumerate(lines) if text in each)


def the_one(function, kind, text, *args):
    """The only advice for a function: its kind, and that it names the line that holds `text`."""
    (found,) = advice_for(function, *args)
    assert found.kind == kind
    assert found.place == (__file__, line(function, text), function.__name__)
    return found


# --- copies -----------------------------------------------------------------------------------


def repeated(x):
    y = x * 2.0
    return np.repeat(y[None], 5, axis=0) + 1.0


def tiled(x):
    return tg.tile(x, (5, 1, 1)) + 1.0


def copied(x):
    return np.broadcast_to(x, (5, *x.shape)).copy() + 1.0


def stacked(x):
    return np.stack([x] * 5) + 1.0


def multiplied(x):
    return x * np.ones((5, *x.shape)) + 1.0


@pytest.mark.parametrize(
    "function, text, name",
    [
        (repeated, "np.repeat", "repeat"),
        (tiled, "tg.tile", "tile"),
        (copied, ".copy()", "copy"),
        (stacked, "np.stack", "stack"),
        (multiplied, "np.ones", "multiply"),
    ],
)
def test_elements_that_are_repeated(function, text, name):
    found = the_one(function, "copy", text, leaf(10, 20))
    assert found.rows == 1
    assert 5 * 10 * 20 * 8 < found.nbytes < 5 * 10 * 20 * 8 + 300
    assert f"{name} copies shape (10, 20) to (5, 10, 20); a view serves" in str(found)
    assert f"{__file__}:{found.place[1]} in {function.__name__}: " in str(found)
    assert f"(1 row, {found.nbytes} bytes)" in str(found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[None] + np.ones((5, 1, 1)),
        lambda x: np.broadcast_to(x, (5, 10, 20)) * np.full((5, 1, 1), 2.0),
        lambda x: np.repeat(x, np.arange(10), axis=0),
        lambda x: np.repeat(x, 1, axis=0),
        lambda x: x.copy(),
        lambda x: np.stack([x, x * 2.0, x * 3.0]),
        lambda x: np.concatenate([x[:5], x[5:]]),
        lambda x: x * np.ones((10, 20)),
        lambda x: x[None] * np.arange(1.0, 6.0)[:, None, None],
        lambda x: np.sum(x, axis=0),
        lambda x: tg.tile(x[:1, :1], 3),
    ],
)
def test_no_elements_that_are_repeated_for_nothing(function):
    assert advice_for(function, leaf(10, 20)) == []


def test_a_copy_that_is_written_is_needed():
    def written(x):
        y = np.repeat(x[None], 5, axis=0)
        y[1] = 0.0
        return y

    assert advice_for(written, leaf(10, 20)) == []


# --- loops ------------------------------------------------------------------------------------


def squares(x):
    y = tg.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * x[i]
    return y


def running(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i]
    return s


def test_loops_over_elements():
    found = the_one(squares, "loop", "x[i] * x[i]", leaf(100))
    assert (found.rows, found.nbytes) == (300, 300 * ROW)
    assert "a loop of multiply over 100 elements of one array" in found.text
    found = the_one(running, "loop", "s + x[i]", leaf(100))
    assert (found.rows, found.nbytes) == (200, 200 * ROW)


def recurrence(x):
    s = 1.0
    for i in range(len(x)):
        s = 0.5 * s + x[i]
    return s


def along(x):
    y = tg.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = np.sin(y[i - 1]) * x[i]
    return y


def few(x):
    return [x[i] * 2.0 for i in range(10)]


def one_cell(x):
    return [x[0] * float(k) for k in range(1, 200)]


def rows_of_a_matrix(x):
    return [np.reshape(x, (50, 2))[i] * 2.0 for i in range(50)]


@pytest.mark.parametrize("function", [recurrence, along, few, one_cell, rows_of_a_matrix])
def test_loops_that_are_needed(function):
    assert advice_for(function, leaf(100)) == []


# --- recorded twice ---------------------------------------------------------------------------


def twice(x, w):
    y = np.tanh(x @ w)
    z = y * 3.0
    return z + np.tanh(x @ w)


def test_a_subgraph_recorded_twice():
    found = sorted(advice_for(twice, leaf(20, 20), leaf(20, 20)), key=str)
    assert [one.kind for one in found] == ["twice", "twice"]
    again, first = line(twice, "return"), line(twice, "y = np")
    for one, name in zip(found, ("matmul", "tanh"), strict=True):
        assert one.place == (__file__, again, "twice") and one.rows == 1
        assert f"{name} on operands on which {__file__}:{first} has called it; keep" in str(one)
    assert found[1].nbytes == 20 * 20 * 8 + ROW + 2 * REFERENCE


def test_constant_operands_are_compared_by_what_they_hold():
    x, a = leaf(20, 20), np.random.rand(20, 20)
    assert len(advice_for(lambda: (x * a, x * a.copy()))) == 1
    assert advice_for(lambda: (x * a, x * (a + 1.0))) == []
    assert advice_for(lambda: (x * 2.0, x * 3.0, x[:10] * 2.0, x[10:] * 2.0)) == []


def test_a_buffer_that_was_written_in_between_is_another_operand():
    def written(x):
        y = x * 2.0
        first = np.sin(y)
        y[0] = 1.0
        return first + np.sin(y)

    assert advice_for(written, leaf(20, 20)) == []


def test_the_next_step_may_compute_the_same():
    x = leaf(20, 20)

    def steps():
        for _ in range(3):
            np.sin(x).sum().backward()
        return x

    assert advice_for(steps) == []


def test_little_is_not_worth_a_word():
    x = leaf(5)
    assert advice_for(lambda: (np.sin(x), np.sin(x), np.repeat(x, 2))) == []


# --- the report -------------------------------------------------------------------------------


def test_advice_is_at_the_end_of_the_table_the_dearest_first():
    x = leaf(30, 30)
    with tg.autograd.profiler.profile() as prof:
        y = tg.tile(x, (2, 1)) + np.sin(x[:1]) + running(x[0])
        z = np.repeat(x[None], 9, axis=0)
    costs = [one.nbytes for one in prof.advice]
    assert (
        len(costs) == 2
        and costs == sorted(costs, reverse=True)
        and "repeat copies" in prof.advice[0].text
    )
    end = prof.key_averages().table().split("Where the tape grew for nothing:\n")[1]
    assert end.count("\n") == len(costs)
    assert str(prof.advice[0]) in end.splitlines()[0]
    short = prof.table(row_limit=1).split("nothing:\n")[1]
    assert short.count("\n") == 1 and y.requires_grad and z.requires_grad

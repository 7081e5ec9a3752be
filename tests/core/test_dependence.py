"""What rows depend on, over many chunks of the tape; which rows write a buffer."""

import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import store
from tapegrad._core.tape.tape import Reader, needed
from tapegrad._core.tape.workspace import dependence_of
from tapegrad._derivatives.recorded_reverse import depends_on_others

MANY = 3 * layout.ROWS


def fill(rows):
    """So many scalar rows that depend on an input of their own."""
    x = tg.tensor(1.0, requires_grad=True) * 1.0
    for _ in range(rows):
        x = x * 1.0
    return x


@pytest.mark.parametrize("before, between", [(0, 0), (MANY, 0), (0, MANY), (MANY, MANY)])
@pytest.mark.parametrize("written", [False, True])
def test_gradients_of_what_depends_on_a_tensor_are_recorded(before, between, written):
    """Of what does not they are plain, whatever else is on the tape."""
    a = tg.tensor(0.7, requires_grad=True)
    others = [fill(before)]

    def f(x, factor):
        y = x * factor
        others.append(fill(between))
        if written:
            z = tg.zeros(2)
            z[1] = y
            y = z[1]
        return y * x

    assert type(tg.grad(lambda x: f(x, 3.0))(2.0)) is float
    slope = tg.grad(lambda x: f(x, a))(2.0)
    slope.backward()
    assert slope.item() == pytest.approx(4 * 0.7) and a.grad.item() == pytest.approx(4.0)
    _, tangent = tg.jvp(lambda x: f(x, 3.0), (2.0,), (1.0,))
    assert float(tangent) == pytest.approx(12.0)


def test_what_was_written_later_does_not_count():
    a, x = (tg.tensor(value, requires_grad=True) for value in (2.0, 3.0))
    y = tg.zeros(3)
    y[0] = x
    early = np.sum(y * 2.0)
    y[1] = a
    assert not dependence_of([early._id])[0].rows[a._id]
    assert dependence_of([np.sum(y)._id])[0].rows[a._id]
    assert depends_on_others([early], []) and dependence_of([early._id])[0].rows[x._id]


def dependence(number):
    """The rows that a row depends on, one by one in Python; `needed` takes later writes too."""
    reader, found = Reader(), {number}
    for row in sorted(needed(reader, [number]), key=reader.time, reverse=True):
        if row in found or reader.buffer_written(row) in found:
            if reader.time(row) <= reader.time(number):
                found.update(reader.operands(row))
    return found


steps = st.tuples(st.sampled_from("asmwcf"), st.integers(0, 99), st.integers(0, 99))


@settings(max_examples=rounds(40, 13))
@given(st.lists(steps, min_size=1, max_size=25), st.integers(0, 99))
def test_random_programs(program, which):
    inputs = [tg.tensor(float(k), requires_grad=True) for k in range(3)]
    numbers, arrays, kept = [x * 1.0 for x in inputs], [tg.zeros(3)], []
    for kind, j, k in program:
        a, b = numbers[j % len(numbers)], numbers[k % len(numbers)]
        array = arrays[j % len(arrays)]
        if kind == "a":
            numbers.append(a + b)
        elif kind == "s":
            numbers.append(array[k % 3] * 2.0)
        elif kind == "m":
            arrays.append(array * b)
        elif kind == "w":
            array[j % 3] = b
        elif kind == "c":
            array[1:] = arrays[k % len(arrays)][:2]
        else:
            kept.append(fill(j * 100))
    results = [x for x in (*numbers, *map(np.sum, arrays)) if x.requires_grad]
    wanted = results[which % len(results)]._id
    marks = dependence_of([wanted])[0].rows
    found = dependence(wanted)
    assert marks[list(found)].all()
    mine = {*needed(Reader(), [wanted])}
    assert {number for number in mine if marks[number]} == found
    assert [bool(marks[x._id]) for x in inputs] == [x._id in found for x in inputs]


def test_writes_are_found_in_any_order():
    buffers, right = [], {}
    for k in range(6):
        f = tg.zeros(4)
        f[0] = tg.tensor(1.0, requires_grad=True) * 1.0
        buffers.append(f)
        fill(MANY // 4)
        for other in buffers[:: k + 1]:
            other[1:3] = other[:2]
    reader = Reader()
    for slot in store.order:
        for position in range(store.word(slot, layout.USED_ROWS)):
            number = (slot << layout.ROWS_BITS) + position
            if reader.row(number)["op"] > 0 and (buffer := reader.buffer_written(number)) >= 0:
                right.setdefault(buffer, []).append(number)
    for order in (buffers, buffers[::-1], buffers[2:] + buffers[:2]):
        reader = Reader()
        for buffer in order:
            assert reader.writes(buffer._id) == right[buffer._id]

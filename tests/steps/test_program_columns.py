"""What passes ask about all views or numbers of a program at once, against slot by slot."""

import dataclasses

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._program.dispatch import variants
from tapegrad._program.dispatch.signature import Arguments
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.scalars_step import Scalars, renumbered
from tapegrad._program.ir.steps import Code, Input, Output, Ranges, Shifts, Spans, View, contiguous
from tapegrad._program.ir.uses import Wanted, Written, mark_outputs, mark_reads, views_needed
from tapegrad._program.lowering import lower
from tapegrad._program.passes import simplification
from tapegrad._program.passes.memory_reuse import Lifetimes
from tapegrad._program.passes.simplification import fold
from tapegrad._program.replay.scalar_interpreter import interpreted, interpreted_each

FLOAT = np.dtype(float)
SIN, COS, ADD, MULTIPLY = (TABLE[name].code for name in ("sin", "cos", "add", "multiply"))


def spans_of(rng, slots, disjoint):
    """Views of a few steps, some without elements, in no order."""
    cuts = np.sort(rng.choice(slots + 1, 12)).tolist()
    pairs = list(zip(cuts[:-1], cuts[1:], strict=True))
    if not disjoint:
        pairs = [sorted(rng.integers(0, slots + 1, 2).tolist()) for _ in range(20)]
    views = [contiguous(low, (high - low,)) for low, high in pairs]
    views = [views[k] for k in rng.permutation(len(views))]
    return Spans([views[:3], [], views[3:4], views[4:]])


@pytest.mark.parametrize("seed", range(40))
def test_views_are_marked_and_overlapped_as_their_slots_are(seed):
    rng, slots = np.random.default_rng(seed), 40
    written, read = spans_of(rng, slots, True), spans_of(rng, slots, False)
    assert read.lengths.tolist() == [view.size for view in read.views]
    for some in (read, Spans([read.views[:1]]), Spans([])):
        seen = np.zeros(slots, bool)
        for view in some.views:
            seen[slice(*view.extent)] = True
        wanted = [bool(seen[slice(*view.extent)].any()) for view in written.views]
        assert written.overlapped(some.low, some.high).tolist() == wanted


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_sets_of_slots(seed):
    rng, slots = np.random.default_rng(seed), 40
    given = [sorted(rng.integers(0, slots, 2).tolist()) for _ in range(seed % 6)]
    low, high = np.array(given, int).reshape(-1, 2).T
    ranges, marks = Ranges(low, high), np.zeros(slots, bool)
    for first, last in given:
        marks[first:last] = True
    edges = np.flatnonzero(np.diff(marks, prepend=False, append=False))
    assert ranges.edges.tolist() == edges.tolist() and bool(ranges) == marks.any()
    assert ranges.hold(np.arange(-1, slots)).tolist() == [False, *marks]
    views = [View(a, (abs(b - a),), (1 if a < b else -1,)) for a, b in rng.integers(1, 39, (30, 2))]
    low, high = np.array([view.extent for view in views]).T
    every = [bool(marks[slice(*view.extent)].all()) for view in views]
    some = [bool(marks[slice(*view.extent)].any()) for view in views]
    assert ranges.cover(low, high).tolist() == [ranges.covers(view) for view in views] == every
    assert ranges.meet(low, high).tolist() == [ranges.meets(view) for view in views] == some


def test_ranges_of_slots_are_shifted():
    shifts = Shifts.of([3, 5, 9], [5, 6, 12], [10, 20, -2])
    wanted = [-1, 0, 1, 2, 13, 14, 25, 6, 7, 8, 7, 8, 9, 12]
    assert shifts(np.arange(-1, 13)).tolist() == wanted
    assert [shifts.place(slot) for slot in range(-1, 13)] == wanted


def test_views_of_other_bases_are_of_no_slot_of_the_arena():
    spans = Spans([[View(3, (4,), (1,), 2), View(3, (4,), (-1,))]])
    assert list(zip(spans.low.tolist(), spans.high.tolist(), strict=True)) == [(0, 1), (0, 4)]


# --- recorded programs --------------------------------------------------------------------------


def normalised(x):
    """Arrays and numbers from each other, some of them for nothing, some for the result alone."""
    y, kept = x, []
    for k in range(6):
        y = np.sin(y) * x / (y * y).sum()
        np.cos(y)
        z = np.concatenate([y[5:], np.exp(y[:5])])
        y = np.where(z > 0.1 * k, z, y[::-1])
        kept.append(y.mean() * y[3])
    return y.reshape(3, 12).T @ x[:3] * sum(kept)


def gathered(x):
    """Slots one by one, and views of several results."""
    y = x.copy()
    for k in range(4):
        y[k] = y[7 - k] * 0.5
        y[10:22] = y[1:13] + x[20:32]
        y = np.tanh(y[[*range(35, -1, -1)]])
    return (y * y).sum()


@pytest.fixture(params=[normalised, gathered])
def code(request, monkeypatch):
    """A program before its passes, with a step that nothing reads."""
    found = []
    convert = lower.Converter.convert

    def caught(self, outputs):
        found.append(convert(self, outputs))
        return found[0]

    monkeypatch.setattr(lower.Converter, "convert", caught)
    x = np.linspace(-1.0, 1.3, 36)
    with variants.traced_call(request.param, Arguments((x,), {}, (0,))) as traced:
        _, reason = traced.program()
    assert reason is None and len(found[0].steps) > 5
    code = found[0]
    unread = Elementwise(
        (36,), [(SIN, (code.inputs[0].view,))], [(0, contiguous(code.slots, (36,)))], []
    )
    return dataclasses.replace(code, slots=code.slots + 36, steps=[*code.steps, unread])


def test_needed_views_are_those_of_which_a_slot_is_read(code):
    marks = np.zeros(code.slots, bool)
    mark_outputs(code, marks)
    for step in code.steps:
        mark_reads(step, marks)
    wanted = [bool(marks[slice(*view.extent)].any()) for view in code.writes.views]
    assert views_needed(code).tolist() == wanted
    assert not all(wanted)


def test_written_views_are_found_by_slots(code):
    written, owner = Written(code), np.full(code.slots, -1)
    views = sorted([v.extent for step in code.steps for v in step.views_written if v.size])
    for k, (low, high) in enumerate(views):
        owner[low:high] = k
    assert written.of(np.arange(code.slots)).tolist() == owner.tolist()
    begin, end = written.seen(code.reads.low, code.reads.high)
    for view, first, last in zip(code.reads.views, begin, end, strict=True):
        seen = set(owner[slice(*view.extent)].tolist()) - {-1}
        assert set(range(first, last)) == seen


def test_adjoints_of_constants_are_not_wanted(code):
    code = dataclasses.replace(code, constants=[*code.constants, (code.slots, np.ones(7))])
    code = dataclasses.replace(code, slots=code.slots + 7)
    varies = np.zeros(code.slots, bool)
    for view in [one.view for one in code.inputs] + [
        view for step in code.steps for view in step.views_written
    ]:
        varies[slice(*view.extent)] = True
    wanted = Wanted(code)
    assert wanted.of_slots(np.arange(code.slots)).tolist() == varies.tolist()
    assert wanted.constant.tolist() == (~varies).tolist() and not varies.all()
    for view in code.reads.views:
        assert wanted(view) == varies[slice(*view.extent)].any()


def test_arrays_live_until_their_slots_are_last_read(code):
    lives = Lifetimes(code)
    last, single = np.full(code.slots, -1), np.zeros(code.slots + 1, bool)
    writer = np.full(code.slots, -1)
    for k, step in enumerate(code.steps):
        for view in step.reusable:
            writer[slice(*view.extent)] = k
        for view in step.views_read:
            last[slice(*view.extent)] = k
        for slots in step.slots_read:
            single[slots] = True
    kept = np.zeros(code.slots, bool)
    mark_outputs(code, kept)
    taken = np.zeros(code.slots, int)
    for first, size, begins, ends, on in zip(
        lives.first, lives.size, lives.begins, lives.ends, lives.lives_on, strict=True
    ):
        whole = slice(first, first + size)
        taken[whole] += 1
        assert (begins, ends) == (writer[whole].min(), max(last[whole].max(), writer[whole].max()))
        assert on or not (kept[whole].any() or single[whole].any())
    np.testing.assert_array_equal(taken, writer >= 0)


def test_dead_code_is_looked_for_only_where_there_is_some(code):
    made = simplification.drop_unread(code)
    assert made is not code and simplification.drop_unread(made) is made
    arrays = [step for step in made.steps if step.is_whole]
    assert len(arrays) < len([step for step in code.steps if step.is_whole])


# --- programs made by hand ----------------------------------------------------------------------


def chain(*steps, constants=(), inputs=20):
    """A program of element-wise steps over 20 elements; step k writes from 21 + 20 k on."""
    x, made = contiguous(1, (inputs,)), []
    for k, (code, *operands) in enumerate(steps):
        views = [x if o is None else contiguous(21 + 20 * o, (20,)) for o in operands]
        out = contiguous(21 + 20 * k, (20,))
        made.append(Elementwise((20,), [(code, tuple(views))], [(0, out)], []))
    return Code(21 + 20 * len(steps), [*constants], [Input(x, FLOAT)], made, [Output(out, FLOAT)])


def test_a_step_is_unread_if_only_unread_steps_read_it():
    code = chain((SIN, None), (COS, 0), (ADD, 1, 1), (SIN, None))
    made = simplification.drop_unread(code)
    assert [step.stores[0][1].offset for step in made.steps] == [81]
    all_read = chain((SIN, None), (COS, 0), (ADD, 1, 0))
    assert simplification.drop_unread(all_read) is all_read


def test_what_follows_from_constants_alone_is_found_through_other_constants():
    code = chain((SIN, None), (COS, 0), (ADD, 0, 1), inputs=1)
    code = dataclasses.replace(code, constants=[(1, np.linspace(0.0, 1.0, 20))], inputs=[])
    view = contiguous(1, (20,))
    steps = [step.mapped(lambda v: view if v.offset == 1 else v) for step in code.steps]
    made = fold(dataclasses.replace(code, steps=steps))
    assert made.steps == []
    found = dict(made.constants)[61]
    x = np.linspace(0.0, 1.0, 20)
    np.testing.assert_allclose(found, np.sin(x) + np.cos(np.sin(x)), rtol=1e-15)
    half = dataclasses.replace(code, constants=[(1, np.linspace(0.0, 1.0, 19))], steps=steps)
    assert fold(half) is half


def test_steps_alike_but_for_equal_operands_are_told_apart():
    """x·x and x·y have one pattern: parts are made from templates of both."""

    def f(x):
        total = 0.0
        for k in range(6):
            y = np.sort(x + k)  # a step of its own, so that the products are not fused
            total = total + np.sort(y * y)[3] + np.sort(y * x)[5]
        return total

    x = np.linspace(-2.0, 1.0, 16)
    value, gradient = tg.compile(f).value_and_grad(x)
    wanted, slope = tg.value_and_grad(f)(x)
    assert value == wanted
    np.testing.assert_allclose(gradient, slope, rtol=1e-14)


# --- numbers ------------------------------------------------------------------------------------


def columns(first, *rows):
    """Operations on numbers; without a third column if none has three operands."""
    op, a, b, c = np.array(rows, np.int32).reshape(-1, 4).T
    return Scalars(first, op, a, b, c if (c >= 0).any() else c[:0])


WHERE = TABLE["where"].code
STEPS = [
    columns(10, (ADD, 1, 2, -1), (SIN, 10, -1, -1)),
    columns(15, (WHERE, 3, 10, 11)),
    columns(20, (MULTIPLY, 15, 15, -1), (WHERE, 1, 20, 2), (SIN, 21, -1, -1)),
]


def equal(one, other):
    pairs = zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)
    return all(
        np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs
    )


def test_numbers_get_other_slots_together_as_one_by_one():
    places = np.append(np.random.default_rng(0).permutation(40), -1)
    together = renumbered(STEPS, places.__getitem__)
    for step, made in zip(STEPS, together, strict=True):
        assert equal(made, step.mapped(lambda view: view, places.__getitem__))
        assert made.first == places[step.first] and len(made.c) == len(step.c)
        np.testing.assert_array_equal(made.a, places[step.a])
    assert renumbered([], places.__getitem__) == []


def test_parts_of_numbers_made_together_are_those_made_one_by_one():
    together = interpreted_each(STEPS)
    for step, part in zip(STEPS, together, strict=True):
        alone = interpreted(step)
        count, first, _ = part.data
        assert (part.forward, part.reverse, part.note) == (alone.forward, alone.reverse, alone.note)
        assert (count, first) == (len(step.op), step.first)
        start = (part.data[2] - part.keep.ctypes.data) // part.keep.strides[0]
        np.testing.assert_array_equal(part.keep[start : start + count], alone.keep)
    assert interpreted_each([]) == []


def test_arrays_without_elements_lie_between_others():
    def f(x):
        empty, total = x[:0], 0.0
        for k in range(5):
            empty = np.sin(empty) * 2.0
            x = np.tanh(x) + np.cos(np.concatenate([empty, x]))
            total = total + empty.sum() + (x * x)[k]
        return total

    x = np.linspace(-1.0, 1.0, 12)
    value, gradient = tg.compile(f).value_and_grad(x)
    wanted, slope = tg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, wanted, rtol=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)

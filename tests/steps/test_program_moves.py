"""Parts of programs that move values: against NumPy's own views, sums and index arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_parts import Arena, always, of_arena, seen

import tapegrad as tg
from tapegrad._program.ir.moving_step import Gather, Link, Pack, Scatter
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.replay import run_layout
from tapegrad._program.replay.moves import (
    part_of_gather,
    part_of_link,
    part_of_pack,
    part_of_scatter,
)

SLOTS = 400


def check_link(step, seed=0, reassociated=True):
    """Values and adjoints of a link against loops of NumPy over the same views."""
    arena = Arena(SLOTS, np.random.default_rng(seed))
    part = part_of_link(step, always)
    values, adjoints = arena.values, arena.adjoints
    seen(values, step.out)[...] = 0.0
    for target, source in step.pairs:
        for index in np.ndindex(target.shape):
            values[place(target, index)] += values[place(source, index)]
    assert arena.forward(part) == run_layout.FINISHED
    for target, source in step.pairs:
        for index in np.ndindex(target.shape):
            adjoints[place(source, index)] += adjoints[place(target, index)]
    assert arena.reverse(part) == run_layout.FINISHED
    for found, wanted in ((arena.run.values, values), (arena.run.adjoints, adjoints)):
        np.testing.assert_allclose(found, wanted, 1e-12, 1e-13)


def place(view, index):
    return view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))


@st.composite
def views(draw, shape, first, slots):
    """A view of a shape inside `slots` slots from `first`, with any strides that fit."""
    strides, low, high = [], 0, 0
    for n in shape:
        room = (slots - 1 - (high - low)) // max(n - 1, 1)
        stride = draw(st.integers(-room, room)) if n else 0
        strides.append(stride)
        low += min(0, max(n - 1, 0) * stride)
        high += max(0, max(n - 1, 0) * stride)
    offset = draw(st.integers(first - low, first + slots - 1 - high))
    return View(offset, tuple(shape), tuple(strides))


@st.composite
def links(draw):
    out = draw(st.lists(st.integers(0, 5), max_size=3))
    out = contiguous(200, tuple(out))
    pairs = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.lists(st.integers(0, 5), max_size=4)) if out.size else [0]
        target = draw(views(shape, 200, max(out.size, 1)))
        pairs.append((target, draw(views(shape, 0, 200))))
    return Link(out, pairs)


@given(links(), st.integers(0, 9))
def test_links_of_any_views(step, seed):
    check_link(step, seed)


SUMS = [((5, 7), (7, 1), (0, 1)), ((5, 7), (7, 1), (1, 0)), ((3, 4, 5), (20, 5, 1), (0, 1, 0))]
SUMS += [((100,), (1,), (0,)), ((50,), (2,), (0,)), ((7, 5), (1, 7), (0, 0)), ((3,), (-1,), (0,))]


@pytest.mark.parametrize("shape,strides,onto", SUMS)
def test_sums(shape, strides, onto):
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, onto, strict=True))
    source = View(0 if strides[0] > 0 else 100, shape, strides)
    check_link(Link(contiguous(200, (size,)), [(View(200, shape, onto), source)]))


def test_a_copy_is_a_copy():
    """What is reached once is not added to 0: −0.0 stays, and NaN elsewhere is not looked at."""
    arena = Arena(SLOTS, np.random.default_rng(0))
    arena.run.values[:] = -0.0
    arena.run.values[200:] = np.nan
    out = contiguous(200, (4, 3))
    halves = [(contiguous(200 + 6 * k, (2, 3)), View(50 * k, (2, 3), (1, 2))) for k in range(2)]
    part = part_of_link(Link(out, halves), always)
    assert arena.forward(part) == 0
    assert np.signbit(arena.value(out)).all() and (arena.value(out) == 0).all()


def test_a_part_of_the_output_stays_zero():
    check_link(Link(contiguous(200, (4, 4)), [(View(205, (2, 2), (4, 1)), contiguous(3, (2, 2)))]))


@pytest.mark.parametrize("wanted", [always, of_arena])
def test_links_from_another_base(wanted, rng):
    base = rng.normal(size=30)
    arena = Arena(SLOTS, rng, base)
    sources = [View(2, (3, 4), (4, 1), 1), View(0, (3, 4), (1, 5))]
    out = contiguous(200, (3, 4))
    part = part_of_link(Link(out, [(out, source) for source in sources]), wanted)
    before = [arena.adjoint(source).copy() for source in sources]
    assert arena.forward(part) == 0 and arena.reverse(part) == 0
    total = arena.value(sources[0]) + arena.value(sources[1])
    np.testing.assert_array_equal(arena.value(out), total)
    for source, was in zip(sources, before, strict=True):
        added = arena.adjoint(out) if wanted(source) else 0.0
        np.testing.assert_array_equal(arena.adjoint(source), was + added)


def test_a_base_without_adjoints_is_left_alone(rng):
    arena = Arena(SLOTS, rng, rng.normal(size=30))
    arena.run.adjoint_bases[1] = 0
    source, out = contiguous(0, (5,), 1), contiguous(200, (5,))
    positions = contiguous(100, (5,))
    arena.value(positions)[...] = range(5)
    parts = [
        part_of_link(Link(out, [(out, source)]), always),
        part_of_gather(Gather(out, source, np.arange(5)), always),
        part_of_gather(Gather(out, source, positions), always),
    ]
    for part in parts:
        assert arena.forward(part) == 0 and arena.reverse(part) == 0
        np.testing.assert_array_equal(arena.value(out), arena.bases[0][0][:5])


# --- gathers ----------------------------------------------------------------------------------

SOURCES = [contiguous(3, (4, 5)), View(90, (4, 5), (-7, 2)), View(5, (20,), (0,))]
SOURCES += [contiguous(0, (4, 5), 1)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("neighbours", [False, True])
def test_gathers(source, computed, neighbours, rng):
    positions = rng.integers(0, 20, (6, 4))
    if neighbours:
        positions = np.concatenate([np.arange(3, 19), np.arange(8)]).reshape(6, 4)
    arena = Arena(SLOTS, rng, rng.normal(size=30))
    out, kept = contiguous(200, (6, 4)), View(320, (6, 4), (1, 6))
    arena.value(kept)[...] = positions
    adjoint = arena.adjoint(source).copy()
    flat = np.zeros(20)
    np.add.at(flat, positions, arena.adjoint(out))
    part = part_of_gather(Gather(out, source, kept if computed else positions), always)
    assert arena.forward(part) == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out), arena.value(source).ravel()[positions])
    assert arena.reverse(part) == run_layout.FINISHED
    if source.strides == (0,):
        np.testing.assert_allclose(arena.adjoint(source), adjoint + flat.sum(), 1e-12)
    else:
        np.testing.assert_allclose(arena.adjoint(source), adjoint + flat.reshape(4, 5), 1e-12)


WHOLE = [contiguous(3, (12, 5)), View(90, (12, 5), (7, 1)), View(90, (12, 5), (1, 13))]
WHOLE += [View(199, (12, 5), (-9, -1)), View(5, (2, 6, 5), (40, 6, 1)), contiguous(0, (12, 5), 1)]


@pytest.mark.parametrize("source", WHOLE)
@pytest.mark.parametrize("width", [5, 10, 1, 20])
@pytest.mark.parametrize("computed", [False, True])
def test_gathers_of_rows(source, width, computed, rng):
    """Positions, more than are found at once, of rows along one axis or several."""
    count = 1100 // width + 520
    positions = rng.integers(0, 60 // width, count)
    arena = Arena(300 + count + count * width, rng, rng.normal(size=60))
    out, kept = contiguous(300 + count, (count, width)), contiguous(300, (count,))
    arena.value(kept)[...] = positions
    before, values = arena.adjoint(source).copy(), arena.value(source).reshape(-1, width)
    added = np.zeros((60 // width, width))
    np.add.at(added, positions, arena.adjoint(out))
    part = part_of_gather(Gather(out, source, kept if computed else positions), always)
    assert arena.forward(part) == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out), values[positions])
    assert arena.reverse(part) == run_layout.FINISHED
    wanted = before + added.reshape(source.shape)
    np.testing.assert_allclose(arena.adjoint(source), wanted, 1e-11, 1e-12)


@pytest.mark.parametrize("source", [contiguous(240, (3, 2)), View(255, (3, 2), (-4, 3))])
@pytest.mark.parametrize("positions", [[4, 0, 9], [4, 4, 0]])
def test_scatters_of_rows(source, positions, rng):
    arena = Arena(SLOTS, rng)
    before, out, kept = contiguous(0, (5, 4)), contiguous(200, (5, 4)), contiguous(320, (3,))
    arena.value(kept)[...] = positions
    values = arena.value(before).copy().reshape(10, 2)
    left, taken = arena.adjoint(out).copy().reshape(10, 2), np.zeros((3, 2))
    for k in (2, 1, 0):
        taken[k], left[positions[k]] = left[positions[k]], 0.0
    values[positions] = arena.value(source)
    to_before, to_source = arena.adjoint(before).copy(), arena.adjoint(source).copy()
    part = part_of_scatter(Scatter(out, before, source, kept), always)
    assert arena.forward(part) == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out).reshape(10, 2), values)
    assert arena.reverse(part) == run_layout.FINISHED
    np.testing.assert_allclose(arena.adjoint(before), to_before + left.reshape(5, 4), 1e-12)
    np.testing.assert_allclose(arena.adjoint(source), to_source + taken, 1e-12)


@pytest.mark.parametrize("bad", [-1.0, 20.0, np.nan, np.inf, 1e300])
def test_positions_outside_stop_the_program(bad, rng):
    arena = Arena(SLOTS, rng)
    kept = contiguous(100, (3,))
    arena.value(kept)[...] = [0.0, bad, 1.0]
    step = Gather(contiguous(200, (3,)), contiguous(0, (20,)), kept)
    assert arena.forward(part_of_gather(step, always)) == run_layout.RAISED
    assert arena.run.words[run_layout.RUN_FAILED // 8] == 200


def test_gathers_of_what_has_no_adjoint_have_no_reverse(rng):
    source = contiguous(0, (5,), 1)
    for positions in (np.arange(3), contiguous(100, (3,))):
        step = Gather(contiguous(200, (3,)), source, positions)
        assert part_of_gather(step, of_arena).reverse == 0


# --- writes -----------------------------------------------------------------------------------

WRITTEN = [contiguous(240, (3, 2)), View(255, (3, 2), (-4, 3)), View(244, (3, 2), (0, 0))]


@pytest.mark.parametrize("source", WRITTEN)
@pytest.mark.parametrize("before", SOURCES)
@pytest.mark.parametrize("positions", [[4, 0, 19, 7, 3, 8], [4, 0, 4, 7, 0, 4]])
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_scatters(source, before, positions, wanted, rng):
    """The last element of a repeated position holds, and it alone has the adjoint."""
    arena = Arena(SLOTS, rng, rng.normal(size=30))
    out, kept = contiguous(200, before.shape), View(320, (3, 2), (1, 3))
    arena.value(kept)[...] = np.reshape(positions, (3, 2))
    values = arena.value(before).copy().ravel()
    left, taken = arena.adjoint(out).copy().ravel(), np.zeros(6)
    for k in range(5, -1, -1):
        taken[k], left[positions[k]] = left[positions[k]], 0.0
    values[positions] = arena.value(source).ravel()
    to_before, to_source = arena.adjoint(before).copy(), arena.adjoint(source).copy()
    asked = {before: wanted[0], source: wanted[1]}
    part = part_of_scatter(Scatter(out, before, source, kept), asked.get)
    assert arena.forward(part) == run_layout.FINISHED and bool(part.reverse) == any(wanted)
    np.testing.assert_array_equal(arena.value(out).ravel(), values)
    assert arena.reverse(part) == run_layout.FINISHED
    for view, start, added, is_asked in zip(
        (before, source), (to_before, to_source), (left, taken), wanted, strict=True
    ):
        added = added.reshape(view.shape)
        right = start + (added if any(view.strides) else added.sum()) * is_asked
        np.testing.assert_allclose(arena.adjoint(view), right, 1e-12, 1e-13)


@pytest.mark.parametrize("bad", [-1.0, 20.0, np.nan, np.inf, 1e300])
def test_writes_outside_stop_the_program(bad, rng):
    arena = Arena(SLOTS, rng)
    kept = contiguous(100, (3,))
    arena.value(kept)[...] = [0.0, bad, 1.0]
    step = Scatter(contiguous(200, (20,)), contiguous(0, (20,)), contiguous(120, (3,)), kept)
    before = arena.run.values.copy()
    assert arena.forward(part_of_scatter(step, always)) == run_layout.RAISED
    assert arena.run.words[run_layout.RUN_FAILED // 8] == 200
    np.testing.assert_array_equal(arena.run.values[220:], before[220:])


# --- packs ------------------------------------------------------------------------------------

PACKS = [[7], [9, 3, 3, 120], range(10, 40), [*range(10, 20), 5, *range(30, 45)], [5, 4, 3, 2, 1]]
PACKS += [[*range(10, 20), *range(15, 25)], []]


@pytest.mark.parametrize("slots", PACKS)
@pytest.mark.parametrize("wanted", [lambda slots: slots >= 0, lambda slots: slots % 5 != 0])
def test_packs(slots, wanted, rng):
    slots = np.array(slots, np.int32)
    arena, out = Arena(SLOTS, rng), contiguous(200, (len(slots),))
    part = part_of_pack(Pack(out, slots), SimpleNamespace(of_slots=wanted))
    assert arena.forward(part) == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out), arena.values[slots])
    assert arena.reverse(part) == run_layout.FINISHED
    for slot, g in zip(slots, arena.adjoints[200:], strict=False):
        if wanted(slot):
            arena.adjoints[slot] += g
    np.testing.assert_allclose(arena.run.adjoints, arena.adjoints, 1e-14)


def written_join(x):
    joined = np.concatenate([x, np.array([0.3, 0.7])])
    before = joined[-1] * x[0]
    joined[-1] += x[1]
    joined[-2] *= joined[-1]
    return np.sum(joined**2) + before


def written_diagonal(x):
    matrix = np.diag(x)
    matrix[0, 1] += x[1] * x[2]
    matrix[1:, 0] = x[0]
    return np.sum(matrix @ matrix)


def written_border(x):
    padded = np.pad(x, 1, constant_values=0.5)
    for k in range(1, len(padded)):
        padded[k] += padded[k - 1] * x[0]
    return np.sum(padded)


@pytest.mark.parametrize("f", [written_join, written_diagonal, written_border])
def test_constant_elements_of_joins_that_are_written_later(f):
    """A program has what was there first; that it does not run eagerly a warning would say."""
    c = tg.compile(f, native=False)
    for x in ([0.5, 0.9, -0.4], [1.5, -0.2, 0.6]):
        value, gradient = c.value_and_grad(np.array(x))
        wanted, slopes = tg.value_and_grad(f)(np.array(x))
        np.testing.assert_allclose(value, f(np.array(x)), rtol=1e-13)
        np.testing.assert_allclose(value, wanted, rtol=1e-13)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-13)
        np.testing.assert_allclose(c.hessian(np.array(x)), tg.hessian(f)(np.array(x)), rtol=1e-12)

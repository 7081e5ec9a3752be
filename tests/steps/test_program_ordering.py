"""Kernels of programs that find positions by value, against NumPy."""

import numpy as np
import pytest
from program_parts import Arena, always

from tapegrad._core.ops.ordering import STEERING, searching
from tapegrad._program.ir.kernel_step import Kernel
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.lowering.builder import may_be_minus_zero, of_dtype, of_result, of_sum
from tapegrad._program.replay import run_layout
from tapegrad._program.replay.operation_parts import part_of_kernel

SLOTS, OUT = 4000, 2000
inf, nan = np.inf, np.nan
HARD = [0.0, -0.0, inf, -inf, nan, -nan, 5e-324, -5e-324, 1e308, 1.0]
SIZES = [1, 2, 3, 7, 8, 9, 31, 64, 300]


def run(name, operands, out, arena):
    """The result of a kernel, which has no reverse and writes nowhere else."""
    before = arena.run.values.copy()
    part = part_of_kernel(Kernel(STEERING[name].code, operands, out), always)
    assert part.reverse == 0
    assert arena.forward(part) == run_layout.FINISHED
    after = arena.run.values.copy()
    after[slice(*out.extent)] = before[slice(*out.extent)]
    np.testing.assert_array_equal(after, before)
    return arena.value(out).copy()


def rows_of(n, rng):
    """Rows to be sorted: random, with many ties, sorted already, backwards, hard ones."""
    random = rng.normal(size=n)
    ties = rng.integers(0, 3, n).astype(float)
    return np.array([random, ties, np.sort(random), np.sort(ties)[::-1], rng.choice(HARD, n)])


@pytest.mark.parametrize("n", SIZES)
def test_stable_order(n, rng):
    x, out = contiguous(0, (5, n)), contiguous(OUT, (5, n))
    arena = Arena(SLOTS, rng)
    arena.value(x)[...] = rows = rows_of(n, rng)
    found = run("stable_argsort", [x, 1, out], out, arena)
    np.testing.assert_array_equal(found, np.argsort(rows, axis=1, kind="stable"))
    for k, row in enumerate(rows):  # equal numbers, zeros of both signs and NaN keep their order
        assert found[k].tolist() == sorted(range(n), key=lambda i, x=row: (x[i] != x[i], x[i], i))


@pytest.mark.parametrize("n", [1, 4, 20])
def test_stable_order_along_other_axes(n, rng):
    x = View(3 + 6 * n, (4, n), (6 * n, -6))  # elements far apart, backwards
    shown, out = View(OUT, (4, n), (1, 4)), contiguous(OUT, (n, 4))
    arena = Arena(SLOTS, rng)
    arena.value(x)[...] = rng.integers(0, 4, (4, n))
    found = run("stable_argsort", [x, 1, shown], out, arena)
    np.testing.assert_array_equal(found.T, np.argsort(arena.value(x), axis=1, kind="stable"))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name, n, rng):
    arena = Arena(SLOTS, rng)
    x = contiguous(0, (5, n))
    arena.value(x)[...] = rows = rows_of(n, rng)
    found = run(name, [x, 1], contiguous(OUT, (5,)), arena)
    np.testing.assert_array_equal(found, getattr(np, name)(rows, axis=1))
    turned = View(0, (n, 5), (1, n))  # all elements, in C order of a transposed array
    found = run(name, [turned, n], contiguous(OUT, ()), arena)
    assert found == getattr(np, name)(rows.T)


@pytest.mark.parametrize("shape", [(1,), (7,), (300,), (4, 5), (2, 3, 4), (3, 0)])
def test_positions_in_masks(shape, rng):
    arena, view = Arena(SLOTS, rng), contiguous(0, shape)
    arena.value(view)[...] = mask = rng.integers(0, 2, shape)
    for seen in (view, View(view.offset, shape[::-1], view.strides[::-1])):
        wanted = np.flatnonzero(mask if seen is view else mask.T)
        found = run("mask_positions", [seen], contiguous(OUT, wanted.shape), arena)
        np.testing.assert_array_equal(found, wanted)
        for room in (0, max(len(wanted) - 1, 0), len(wanted) + 2):  # which no program has
            found = run("mask_positions", [seen], contiguous(OUT, (room,)), arena)
            np.testing.assert_array_equal(found, [*wanted, -1, -1][:room])


@pytest.mark.parametrize("n", [1, 2, 16, 17, 300])
def test_order_without_ties(n, rng):
    x, out = contiguous(0, (3, n)), contiguous(OUT, (3, n))
    arena = Arena(SLOTS, rng)
    arena.value(x)[...] = rows = rng.permuted(np.arange(3.0 * n).reshape(3, n), axis=1)
    found = run("argsort", [x, 1, out], out, arena)
    np.testing.assert_array_equal(found, np.argsort(rows, axis=1))


@pytest.mark.parametrize("pair", [(2.0, 2.0), (0.0, -0.0), (nan, -nan), (inf, inf)])
def test_order_of_ties_is_refused(pair, rng):
    x, out = contiguous(0, (2, 9)), contiguous(OUT, (2, 9))
    arena = Arena(SLOTS, rng)
    arena.value(x)[1, [3, 7]] = pair
    part = part_of_kernel(Kernel(STEERING["argsort"].code, [x, 1, out], out), always)
    assert arena.forward(part) == run_layout.REFUSED
    arena.value(x)[1, 7] = 17.0
    assert arena.forward(part) == run_layout.FINISHED


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [0, *SIZES])
def test_places_in_sorted_arrays(n, side, rng):
    array, values, out = contiguous(0, (n,)), contiguous(1000, (3, 50)), contiguous(OUT, (3, 50))
    arena = Arena(SLOTS, rng)
    for sort in (
        np.sort,
        np.sort,
        lambda x: x,
    ):  # NumPy's words for the last are: it must be sorted
        arena.value(array)[...] = kept = sort(rng.choice([*HARD, *np.arange(9.0)], n))
        given = arena.value(values)
        given[...] = rng.choice([*HARD, *np.arange(-1.0, 10.0, 0.5)], (3, 50))
        given[1] = np.sort(given[1])
        found = run("searchsorted", [array, values, searching(side)], out, arena)
        np.testing.assert_array_equal(found, np.searchsorted(kept, given, side))
    spread, turned = View(1, (n,), (3,)), View(1000, (50, 3), (1, 50))
    kept = np.sort(arena.value(spread))
    arena.value(spread)[...] = kept
    found = run(
        "searchsorted", [spread, turned, searching("left")], contiguous(OUT, (50, 3)), arena
    )
    np.testing.assert_array_equal(found, np.searchsorted(kept, arena.value(turned)))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (300,), (4, 5), (3, 0)])
def test_whole_numbers(shape, rng):
    arena, view, out = Arena(SLOTS, rng), contiguous(3, shape), contiguous(OUT, shape)
    given = rng.choice([-0.5, 0.5, 9.99, -9.99, *rng.uniform(-9.0, 9.0, 20)], shape)
    arena.value(view)[...] = given
    found = run("whole", [view, -9, 9], out, arena)
    np.testing.assert_array_equal(found, given.astype(int))
    assert not np.signbit(found[found == 0]).any()
    turned = View(3, shape[::-1], view.strides[::-1])
    found = run("whole", [turned, -9, 9], contiguous(OUT, shape[::-1]), arena)
    np.testing.assert_array_equal(found, given.astype(int).T)


@pytest.mark.parametrize("outside", [10.0, -10.0, nan, inf, -inf, 1e300])
def test_numbers_outside_are_refused(outside, rng):
    arena, view = Arena(SLOTS, rng), contiguous(3, (4, 5))
    operands = [view, -9, 9]
    part = part_of_kernel(Kernel(STEERING["whole"].code, operands, contiguous(OUT, (4, 5))), always)
    for place in ((0, 0), (2, 3), (3, 4)):
        arena.value(view)[...] = 1.5
        assert arena.forward(part) == run_layout.FINISHED
        arena.value(view)[place] = outside
        assert arena.forward(part) == run_layout.REFUSED


# --- where integers lie ---------------------------------------------------------------------------

RANGES = [(0, 1), (-3, 2), (-4, -1), (2, 5), (0, 0)]
OPERATIONS = "add subtract multiply maximum minimum remainder floor_divide".split()


@pytest.mark.parametrize("name", OPERATIONS)
def test_intervals_hold_all_results(name):
    for x in RANGES:
        for y in RANGES:
            found = of_result(name, x, y)
            if name in ("remainder", "floor_divide") and y[0] <= 0 <= y[1]:
                assert found is None
                continue
            pairs = [(a, b) for a in range(x[0], x[1] + 1) for b in range(y[0], y[1] + 1)]
            results = [int(getattr(np, name)(a, b)) for a, b in pairs]
            assert found[0] <= min(results)
            assert max(results) <= found[1]
            if name != "remainder":
                assert found == (min(results), max(results))
            doubles = [getattr(np, name)(float(a), float(b)) for a, b in pairs]
            np.testing.assert_array_equal(doubles, results)
            if any(np.signbit(z) and z == 0 for z in doubles):
                assert may_be_minus_zero(name, x, y)


@pytest.mark.parametrize("name", ["negative", "absolute"])
def test_intervals_of_one_operand(name):
    for x in RANGES:
        results = getattr(np, name)(np.arange(x[0], x[1] + 1))
        assert of_result(name, x) == (results.min(), results.max())
    assert may_be_minus_zero("negative", (0, 1))


def test_other_intervals():
    assert of_result("add", None, (0, 1)) is None
    assert of_result("power", (0, 1), (0, 1)) is None
    assert of_dtype(np.dtype(bool)) == (0, 1)
    assert of_dtype(np.dtype(np.int8)) == (-128, 127)
    assert of_dtype(np.dtype(np.uint64)) == (0, 2**53)
    assert of_dtype(np.dtype(np.int64)) == (-(2**53), 2**53)
    assert of_dtype(np.dtype(float)) is None
    assert of_sum((-1, 2), 3) == (-3, 6)
    assert of_sum((2, 3), 4) == (0, 12)

"""Functions without derivative in programs: called with copies, checked, and what they raise."""

import threading

import numpy as np
import pytest
from program_parts import Arena, always, call

from tapegrad._program.ir.kernel_step import Computed
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.replay import run_layout
from tapegrad._program.replay.operation_parts import part_of_computed, raised

SLOTS, OUT = 200, 100
VIEWS = [contiguous(3, (4, 5)), View(40, (4, 5), (-3, 5)), View(9, (4, 5), (0, 1)), View(2, (), ())]
VIEWS += [contiguous(5, (0, 3)), contiguous(2, (4, 5), 1)]


def run_of(step, rng):
    arena = Arena(SLOTS, rng, rng.normal(size=30))
    part = part_of_computed(step, always)
    assert part.reverse == 0
    return arena, part, arena.forward(part)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("function", [np.sign, np.argsort, np.isfinite, np.sort])
def test_functions_of_views(view, function, rng):
    if not view.shape and function in (np.argsort, np.sort):
        return
    out = contiguous(OUT, view.shape)
    arena, _, status = run_of(Computed(function, [(view, np.dtype(float))], out), rng)
    assert status == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out), function(arena.value(view)))


def test_dtypes_and_other_objects(rng):
    seen = []

    def function(x, mask, n, name):
        seen.extend([x.dtype, mask.dtype, n, name])
        x[:] = 99
        return np.where(mask, n, 0.5)

    x, mask, out = contiguous(0, (3,)), contiguous(10, (3,)), contiguous(OUT, (3,))
    operands = [(x, np.dtype(np.int32)), (mask, np.dtype(bool)), (7, None), ("name", None)]
    arena = Arena(SLOTS, rng)
    arena.value(mask)[...] = [1.0, 0.0, 1.0]
    before = arena.value(x).copy()
    part = part_of_computed(Computed(function, operands, out), always)
    assert arena.forward(part) == run_layout.FINISHED
    assert seen == [np.dtype(np.int32), np.dtype(bool), 7, "name"]
    np.testing.assert_array_equal(arena.value(out), [7.0, 0.5, 7.0])
    np.testing.assert_array_equal(arena.value(x), before)


RESULTS = [np.zeros(4), np.zeros((3, 1)), 0.0, np.array([0, 0, 2**53 + 1]), np.zeros(3, complex)]
RESULTS += [np.array([0, 0, -(2**53) - 1]), np.array(["a", "b", "c"]), None]


@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_another_shape_or_kind_is_another_program(result, rng):
    out = contiguous(OUT, (3,))
    arena, _, status = run_of(Computed(lambda: result, [], out), rng)
    assert status == run_layout.GUARD_FAILED
    assert arena.run.words[run_layout.RUN_FAILED // 8] == OUT
    np.testing.assert_array_equal(arena.run.values, arena.values)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, int])
def test_results_become_doubles(dtype, rng):
    out, result = contiguous(OUT, (3,)), np.array([0, 1, 1], dtype)
    arena, _, status = run_of(Computed(lambda: result, [], out), rng)
    assert status == run_layout.FINISHED
    np.testing.assert_array_equal(arena.value(out), [0.0, 1.0, 1.0])


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=repr)
def test_what_is_raised_is_kept_for_the_run(error, rng):
    def function(x):
        raise error

    step = Computed(function, [(contiguous(0, (2,)), np.dtype(float))], contiguous(OUT, (2,)))
    arena, _, status = run_of(step, rng)
    assert status == run_layout.RAISED
    run = arena.run.words.ctypes.data
    assert raised(run) is error
    assert isinstance(raised(run), IndexError)


def test_threads_have_results_of_their_own(rng):
    step = Computed(np.negative, [(contiguous(0, (50,)), np.dtype(float))], contiguous(OUT, (50,)))
    part = part_of_computed(step, always)
    arenas = [Arena(SLOTS, rng) for _ in range(4)]

    def work(arena):
        for _ in range(50):
            call(part.forward, arena.run, part.data)

    threads = [threading.Thread(target=work, args=(arena,)) for arena in arenas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for arena in arenas:
        np.testing.assert_array_equal(arena.value(step.out), -arena.values[:50])

"""`tg.compile`: what it finds out about a function, what it says, and threads."""

import os
import random
import threading
import warnings

import numpy as np
import pytest
from compiled import check, normal, programs, refused, same

import tapegrad as tg
from tapegrad._program.dispatch import evaluation
from tapegrad._program.dispatch.flow_choice import Flows
from tapegrad._program.dispatch.variants import Traced

# --- functions of something else ----------------------------------------------------------------


def test_random_numbers_inside_are_found_out():
    """Those that no generator within reach has drawn; the others see test_numpy_random."""

    def f(x):
        return x * random.SystemRandom().random()

    c = tg.compile(f)
    c(1.0)
    with pytest.raises(RuntimeError, match=r"replayed gives .*, called again .*random numbers"):
        c(1.0)


def test_random_numbers_of_an_entered_function(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    c = tg.compile(lambda x: x * np.random.default_rng().normal())
    with pytest.warns(RuntimeWarning, match=r"runs eagerly, .*: Generator.normal\(\) draws random"):
        c(1.0)
    assert len({c(1.0) for _ in range(5)}) == 5


def test_state_that_changes_is_found_out():
    state = [0.0]

    def f(x):
        state[0] += 1.0
        return x * state[0]

    c = tg.compile(f)
    c(1.0)
    with pytest.warns(RuntimeWarning, match="its result depends on state"):
        assert c(3.0) == 6.0
    before = state[0]
    assert c(3.0) == 3.0 * (before + 1.0)


#: The number of items from outside that are not compared at each call.
MANY = 101


def test_once_looks_at_each_program_and_at_its_gradient(monkeypatch):
    monkeypatch.setenv("TAPEGRAD_TESTS", "2.0")

    def f(x):  # the environment is not compared
        held = float(os.environ["TAPEGRAD_TESTS"])
        return x * held if x > 0 else x - held

    c = tg.compile(f)
    for x in (1.0, 1.0, -1.0):
        c(x)
    monkeypatch.setenv("TAPEGRAD_TESTS", "3.0")
    assert c(1.0) == 2.0  # looked at before
    with pytest.raises(RuntimeError, match="called again"):
        c(-1.0)
    with pytest.raises(RuntimeError, match="called again"):
        c.value_and_grad(1.0)


def test_always_and_never():
    weight = [2.0] * MANY
    f = lambda x: x * weight[0]
    always, never = tg.compile(f, verify="always"), tg.compile(f, verify="never")
    for _ in range(3):
        assert always.value_and_grad(3.0) == never.value_and_grad(3.0) == (6.0, 2.0)
    weight[0] = 5.0
    assert never.value_and_grad(3.0) == (6.0, 2.0)
    with pytest.raises(RuntimeError, match="called again"):
        always.value_and_grad(3.0)


def test_another_structure_is_found_out():
    length = [2] * MANY
    c = tg.compile(lambda x: (x, *range(length[0])))
    c(1.0)
    length[0] = 3
    with pytest.raises(RuntimeError, match="called again"):
        c(1.0)


# --- other ways ---------------------------------------------------------------------------------


def test_on_branch_error_names_the_line():
    def f(x):
        if x > 0:
            return x * 2.0
        return x

    c = tg.compile(f, on_branch="error")
    assert [c(x) for x in (1.0, 2.0)] == [2.0, 4.0]
    line = f.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=rf"{__file__}:{line} \(bool\(\)\).*on_branch='record'"):
        c(-1.0)
    assert c(3.0) == 6.0


def test_a_way_taken_at_every_call_makes_it_give_up(not_entered):  # where item() is a guard
    def f(x):
        with np.errstate(over="ignore"):  # which graphs do not have
            return x * x.item()

    text = refused(f, [(float(k),) for k in range(1, 40)])
    line = f.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} (item())" in text and "at nearly every call" in text


def test_rare_ways_do_not_make_it_give_up(not_entered):  # where item() is a guard
    f = lambda x: x * x.item() if x > 100 else x * 3.0
    c = tg.compile(f)
    for k in range(40):
        for x in (1.0, 2.0, 3.0, 4.0, 101.0 + k):
            assert c.value_and_grad(x)[0] == (x * x if x > 100 else 3.0 * x)
    assert c._reason is None


def test_programs_are_bounded(not_entered):  # where item() is a guard
    def f(x):
        with np.errstate(over="ignore"):  # which graphs do not have
            return x[0] * x[0].item()

    c = tg.compile(f)
    for k in range(evaluation.VARIANTS + 8):
        for _ in range(3):
            assert c(np.array([float(k)])) == float(k * k)
    (family,) = c._families.found.values()
    assert len(family.found) == evaluation.VARIANTS and programs(c) == evaluation.VARIANTS + 8
    c(np.array([0.0]))  # the oldest is out
    assert programs(c) == evaluation.VARIANTS + 9


def test_signatures_are_bounded():
    f = lambda x, n: np.sum(x) * n
    c = tg.compile(f)
    x = np.arange(3.0)
    for n in range(evaluation.SIGNATURES + 5):
        for _ in range(2):
            assert c(x, n) == 3.0 * n
    assert len(c._families.found) == evaluation.SIGNATURES and c._reason is None
    calls = [(x, n) for n in range(2 * evaluation.SIGNATURES + 2)]
    assert "pass an int that changes as a float or an array" in refused(f, calls)


# --- errors -------------------------------------------------------------------------------------


def test_wrong_options():
    for options in ({"on_branch": "ask"}, {"verify": "twice"}):
        ((name, value),) = options.items()
        with pytest.raises(ValueError, match=f"compile: {name} is '{value}'; it must be one of"):
            tg.compile(np.sum, **options)
    c = tg.compile(lambda x, y: x * y, argnums=2)
    with pytest.raises(ValueError, match="argnums 2 is out of range, the function got 2"):
        c.value_and_grad(1.0, 2.0)
    with pytest.raises(ValueError, match="argnums 0 is out of range, the function got 0"):
        tg.compile(lambda x: x * x).value_and_grad(x=1.0)


def test_gradients_of_no_scalar():
    c = tg.compile(lambda x: x * 2)
    for _ in range(3):
        with pytest.raises(ValueError, match="a gradient .* a scalar"):
            c.value_and_grad(np.arange(3.0))
        np.testing.assert_array_equal(c(np.arange(3.0)), [0.0, 2.0, 4.0])
    c = tg.compile(lambda x, m: np.sum(x), argnums=1)
    with pytest.warns(RuntimeWarning, match="to be differentiated is boolean"):
        with pytest.raises(TypeError):
            c.value_and_grad(np.arange(3.0), np.array([True, False, True]))


def test_gradients_of_truths_and_counts_are_zero():
    for f in (lambda x: np.sum(x) > 0, lambda x: np.argmax(x), lambda x: np.sum(x > 0)):
        check(f, normal(3, 4), 0)


def test_exceptions_of_the_function_pass():
    def f(x):
        if x[0] < 0:
            raise KeyError("negative")
        return x[np.argmax(x)] / 2 if x[1] > 0 else x[5]

    c = tg.compile(f)
    bad, good, outside = np.array([-1.0, 1.0]), np.array([1.0, 2.0]), np.array([1.0, -2.0])
    for _ in range(3):
        for method in (c, c.value_and_grad):
            with pytest.raises(KeyError, match="negative"):
                method(bad)
            with pytest.raises(IndexError, match="out of bounds"):
                method(outside)
        same(c.value_and_grad(good), (1.0, np.array([0.0, 0.5])), 0)
    assert not tg.tensor(good).requires_grad
    plain = tg.tensor(good) * 2.0
    assert not plain.requires_grad and c._reason is None


def test_an_index_outside_raises_the_functions_own_error():
    f = lambda x: np.sum(x[(x * 4.0).astype(int)])
    c = tg.compile(f)
    for x in ([0.25, 0.5], [0.0, 0.25]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                wanted = f(tg.tensor(x)).item()
            except IndexError:
                with pytest.raises(IndexError, match="out of bounds"):
                    c(np.array(x))
            else:
                assert c(np.array(x)) == wanted
    inside, outside = np.array([0.0, 0.3]), np.array([0.0, 5.0])
    for _ in range(3):
        same(c.value_and_grad(inside), tg.value_and_grad(f)(inside))
        with pytest.raises(IndexError, match="out of bounds"):
            c(outside)


def test_recordings_begin_anywhere_in_the_store():
    """Chunks of rows end, and are let go, between a value and the look at it."""

    def f(x):
        for k in range(12):
            y = x * float(k)
            for _ in range(40):
                y = y * 0.5
            x = x + 1.0 if x > 0.5 * k else x * 0.75
        return x

    wanted = tg.value_and_grad(f)(1.25)
    for _ in range(60):
        c = tg.compile(f, verify="never", on_branch="error")  # without a graph
        same([c.value_and_grad(1.25), c.value_and_grad(1.25)], [wanted, wanted], 0)
        assert c._reason is None and programs(c) == 1


# --- threads ------------------------------------------------------------------------------------


def in_threads(*works):
    """Run functions at once; the first exception comes here."""
    errors, start = [], threading.Barrier(len(works))

    def run(work):
        start.wait(timeout=60)
        try:
            work()
        except BaseException as error:  # the test fails with it below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def energy(x, y):
    z = np.copy(x)
    for _ in range(5):
        z[1:-1] += 0.1 * (z[2:] - 2.0 * z[1:-1] + z[:-2]) * y
    z[np.argsort(x)[:2]] = x[0] * y
    return np.sum(np.sin(z) * z) if y > 0 else np.sum(z[z > 0.0] ** 2)


CALLS = [
    (np.random.default_rng(k).normal(size=40), 0.5 + 0.1 * k if k % 4 else -0.5) for k in range(16)
]


def test_threads_replay_one_program():
    c, eager = tg.compile(energy, argnums=(0, 1)), tg.value_and_grad(energy, (0, 1))
    wanted = [eager(*args) for args in CALLS]

    def work(first):
        def run():
            for k in range(60):
                at = (first + k) % len(CALLS)
                same(c.value_and_grad(*CALLS[at]), wanted[at])
                same(c(*CALLS[at]), wanted[at][0])

        return run

    in_threads(*[work(first) for first in range(8)])
    assert c._reason is None


def test_a_recording_is_converted_by_its_own_thread_until_its_call_has_ended(monkeypatch):
    """Another thread would convert rows that the call uses up."""
    c, x = tg.compile(lambda x: np.sum(np.sin(x) * x)), np.linspace(0.1, 1.0, 40)
    wanted = tg.value_and_grad(lambda x: np.sum(np.sin(x) * x))(x)
    converts, is_over, found = threading.Event(), threading.Event(), []
    first_for, convert = Flows.first_for, Traced._convert

    def other():
        found.append(c.value_and_grad(x))

    thread = threading.Thread(target=other)

    def first_for_of_the_first(*given):
        if threading.current_thread() is not thread and not thread.ident:
            thread.start()
            converts.wait(1.0)  # in vain
        return first_for(*given)

    def convert_by_the_other(traced):
        if threading.current_thread() is thread:
            converts.set()
            is_over.wait(60.0)
        return convert(traced)

    monkeypatch.setattr(Flows, "first_for", first_for_of_the_first)
    monkeypatch.setattr(Traced, "_convert", convert_by_the_other)
    same(c.value_and_grad(x), wanted)
    is_over.set()
    thread.join(60.0)
    same(found[0], wanted)
    same(c.value_and_grad(x), wanted)


def test_a_program_is_replayed_while_others_record():
    c, eager = tg.compile(energy, argnums=(0, 1)), tg.value_and_grad(energy, (0, 1))
    wanted = [eager(*args) for args in CALLS]
    done = threading.Event()

    def replay():
        try:
            for k in range(200):
                at = k % len(CALLS)
                same(c.value_and_grad(*CALLS[at]), wanted[at])
        finally:
            done.set()

    def record():
        while not done.is_set():
            other = tg.compile(energy, argnums=(0, 1))
            for at in (1, 4, 2):
                same(other.value_and_grad(*CALLS[at]), wanted[at])

    def sweep():
        while not done.is_set():
            x = tg.tensor(CALLS[1][0], requires_grad=True)
            energy(x, CALLS[1][1]).backward()
            same(x.grad, wanted[1][1][0])

    in_threads(replay, record, sweep, sweep)


def test_a_program_keeps_no_recording_alive():
    compiled = tg.compile(lambda x: x * x if x > 0.0 else -x)
    assert compiled(2.0) == 4.0
    (family,) = compiled._families.found.values()
    guards = family.found[0].guards
    assert len(guards) == 1 and guards[0].tensor is None and family.life.held is None


def repeated(steps):
    """A function of so many additions."""

    def f(x):
        y = x
        for _ in range(steps):
            y = y + x
        return (y * y).sum() if np.ndim(x) else y * y

    return f


@pytest.mark.parametrize(
    "x, steps, put_off",
    [(2.0, 1000, False), (2.0, 20_000, True), (np.ones(3), 20, False), (np.ones(3), 300, True)],
)
def test_the_first_result_does_not_wait_for_a_long_conversion(x, steps, put_off):
    compiled = tg.compile(repeated(steps))
    slope = 2.0 * (steps + 1.0) ** 2
    for call in range(3):
        value, gradient = compiled.value_and_grad(x)
        assert value == np.sum(x * x) * (steps + 1.0) ** 2
        np.testing.assert_array_equal(gradient, slope * x)
        (family,) = compiled._families.found.values()
        assert len(family.found) == (0 if put_off and call == 0 else 1)

"""Compiled functions with native code for element-wise chains, and when it is compiled."""

import re
import threading

import numpy as np
import pytest
import random_programs
from compiled import HOT, check_tiers, is_native, programs, same
from elementwise_steps import EXACT, ROUNDED, steps
from extent import rounds
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._core.ops.table import BY_CODE
from tapegrad._program.ir.steps import View
from tapegrad._program.native import scalar_code

pytestmark = pytest.mark.usefixtures("native_when_hot")

# --- element-wise chains ------------------------------------------------------------------------

SIZES = [1, 7, 1000, 20_000]


def chain(x, y):
    a = x * y + x
    a = a * a / (1.0 + a * a)
    b = np.exp(-a) * np.sqrt(x + 1.0)
    return np.sum(b * y) + np.sum(a)


def broadcast(x, w, s):
    t = x[:, None] * w - s
    u = np.tanh(t) * np.sum(w)
    return np.sum(np.sum(u * u, axis=0) * w) + np.sum(np.sum(t, axis=1) ** 2)


def centred(x, y):
    d = x - np.mean(x)
    return np.mean(d * d) + np.max(y) * np.sum(np.maximum(x, y) - np.minimum(y, 1.0))


def joined(x, y):
    z = np.concatenate([x * 2.0, np.sin(y), x[:1]])
    return np.sum(z * z) + np.sum(z[1:] * z[:-1])


@pytest.mark.parametrize("f", [chain, centred, joined])
@pytest.mark.parametrize("n", SIZES)
def test_chains(f, n):
    rng = np.random.default_rng(n)
    check_tiers(f, [tuple(rng.uniform(0.5, 1.5, (2, n))) for _ in range(3)], (0, 1), recorded=1)


@pytest.mark.parametrize("n", SIZES)
def test_broadcasts(n):
    rng = np.random.default_rng(n)
    calls = [(rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, 3), 0.25 * k) for k in range(3)]
    check_tiers(broadcast, calls, (0, 1, 2), recorded=1)


def layouts(m):
    """Transposed, reversed, strided and shifted operands."""
    t = m.T
    total = np.sum(t[::-1] * t * t) + np.sum(m[::-1, ::2] * m[:, 1::2])
    total = total + np.sum(m[1:, 0] * np.exp(-m[:-1, 3])) + np.sum(t.reshape(-1)[::3] ** 2)
    return total + np.sum(m * np.sum(t, axis=1))


@pytest.mark.parametrize("n", SIZES)
def test_layouts(n):
    """Of the arguments too: those in Fortran order have a program of their own."""
    rng = np.random.default_rng(n)
    calls = [(rng.uniform(0.5, 1.5, (n, 4)),) for _ in range(2)]
    calls += [(rng.uniform(0.5, 1.5, (4, n)).T,), (rng.uniform(0.5, 1.5, (2 * n, 8))[::-2, ::2],)]
    check_tiers(layouts, calls, recorded=1 if n == 1 else 2)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape):
    f = lambda x, y: np.sum(np.exp(x) * y) + y * 2.0 + np.sum(np.sum(x * x, axis=0))
    check_tiers(f, [(np.empty(shape), 2.0 + k) for k in range(3)], (0, 1), recorded=1)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("transform", ["jacobian", "hessian", "grad"])
def test_results_that_depend_on_empty_arguments_alone(native, transform):
    """An array without elements may lie behind all that a program keeps."""
    f = lambda x, y: np.sum(x) * 0.0 + 1.0 + np.sum(y)
    for shapes in ([(0, 3), (0,)], [(3, 0), (2, 0)], [(0,), (0, 0)]):
        args = [np.ones(shape) for shape in shapes]
        c = tg.compile(f, argnums=(0, 1), native=native)
        for _ in range(3):
            same(getattr(c, transform)(*args), getattr(tg, transform)(f, (0, 1))(*args), 0)
            c.wait()


@pytest.mark.parametrize("count", [2, 7, 15, 28, 60])
def test_many_operands(count):
    """Of one fused step: beyond 29 Numba takes no more arguments in a call."""

    def f(*arrays):
        total, last = arrays[0], arrays[-1]
        for x in arrays[1:]:
            total = total * x + last
        return np.sum(total)

    rng = np.random.default_rng(count)
    calls = [tuple(rng.uniform(0.5, 1.5, (count, 40))) for _ in range(2)]
    check_tiers(f, calls, tuple(range(count)), recorded=1)


def test_hessian_with_many_directions():
    """All columns of a Hessian go through the same fused steps."""
    f = lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    c = tg.compile(f, native=True)
    for k in range(3):
        x = np.linspace(-1.0, 1.0 + k, 100)
        same(c.hessian(x), tg.hessian(f)(x))
        c.wait()
    assert is_native(c._derived["hessian"])


def expression(step):
    """A function that evaluates the operations of a step, and sums what it stores."""
    operands = [o for _, taken in step.ops for o in taken if isinstance(o, View)]
    views = list(dict.fromkeys(operands))

    def f(*arrays):
        found = []
        for code, taken in step.ops:
            op = BY_CODE[code].name
            values = [found[o] if isinstance(o, int) else arrays[views.index(o)] for o in taken]
            if op == "where":
                values[0] = values[0] > 1.0
            found.append(getattr(np, op)(*values))
        kept = [found[number] for number, _ in (*step.stores, *step.sums)]
        return sum(np.sum(one * one) for one in kept)

    return f, views


def array_for(view, rng):
    """Like what a view sees: one element along axes that it repeats; in another order of axes."""
    shape = tuple(n if s else 1 for n, s in zip(view.shape, view.strides, strict=True))
    order = np.argsort([-abs(s) for s in view.strides], kind="stable")
    array = rng.uniform(0.5, 1.5, tuple(shape[axis] for axis in order))
    array[rng.random(array.shape) < 0.1] = 0.0
    return array.transpose(np.argsort(order)) if len(shape) else float(array)


@settings(max_examples=rounds(12, 4))
@given(steps((*EXACT, *ROUNDED)), st.integers(0, 9))
def test_random_expressions(drawn, seed):
    """Some of whose slopes are infinite."""
    f, views = expression(drawn[0])
    rng = np.random.default_rng(seed)
    calls = [tuple(array_for(view, rng) for view in views) for _ in range(3)]
    argnums = tuple(range(len(views)))
    with np.errstate(all="ignore"):
        made = [np.ravel(one) for args in calls for one in leaves(f, argnums, args)]
    made = np.concatenate(made)
    assume(np.all(np.abs(made[np.isfinite(made)]) < 1e100))
    check_tiers(f, calls, argnums, 1e-11)


def leaves(f, argnums, args):
    value, gradients = tg.value_and_grad(f, argnums)(*args)
    return value, *gradients


@settings(max_examples=rounds(6, 4))
@given(random_programs.programs(False, 10), st.integers(0, 100))
def test_random_functions(program, seed):
    f = lambda x, y: random_programs.value_of(program, x, y)
    calls = [tuple(np.random.default_rng([seed, k]).normal(size=(2, 12))) for k in range(3)]
    check_tiers(f, calls, (0, 1))


# --- when it is compiled --------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", [True, False])
def test_after_many_calls(gradient):
    c = tg.compile(chain)
    call = c.value_and_grad if gradient else c
    eager = tg.value_and_grad(chain) if gradient else chain
    x, y = np.random.default_rng(0).uniform(0.5, 1.5, (2, 50))
    for k in range(HOT - 2):
        call(x + k, y)
    c.wait()
    assert not is_native(c)
    for k in range(12):
        same(call(x + k, y), eager(x + k, y))
    c.wait()
    assert is_native(c) and programs(c) == 1
    for k in range(12):
        same(call(x + k, y), eager(x + k, y))
    assert len(c._compiling) == 1
    assert not gradient or c._fast.program.native


def test_never():
    c = tg.compile(chain, native=False)
    x, y = np.random.default_rng(0).uniform(0.5, 1.5, (2, 5))
    for _ in range(2 * HOT):
        c.value_and_grad(x, y)
    c.wait()
    assert not is_native(c) and not c._compiling


def counted(x, a):
    """The numbers in the loop are for Python's decisions only: no derivative goes back to them."""
    count = 0.0
    for v in x:
        if v * a > 1.0:
            count += 1.0
    return a * a * count


def test_decisions_in_loops():
    x = np.linspace(0.1, 2.0, 60)
    check_tiers(counted, [(x, 1.0), (x + 0.01, 1.01), (x, 2.0)], (0, 1), exact=True)


def test_native_code_that_cannot_be_compiled(monkeypatch):
    """The function goes on interpreted; who asks is told."""

    def fails(*_, **__):
        raise RuntimeError("no space left")

    monkeypatch.setattr(scalar_code, "compile_source", fails)
    c = tg.compile(counted, native=True)
    x = np.linspace(0.1, 2.0, 60)
    reason = "counted stays interpreted: native code for it could not be made .*no space left"
    with pytest.warns(RuntimeWarning, match=reason):
        for _ in range(3):
            same(c.value_and_grad(x, 2.0), tg.value_and_grad(counted)(x, 2.0))
        with pytest.raises(RuntimeError, match=reason):
            c.wait()
    assert re.search("native: no; .*" + reason, c.explain())
    c.map(np.tile(x, (2 * HOT, 1)), np.full(2 * HOT, 2.0))
    assert len(c._compiling) == 1  # it is not tried again


def test_methods_have_native_code():
    f = lambda x: np.sum(x**3) * x[0]
    c, x = tg.compile(f, native=True), np.arange(1.0, 4.0)
    for _ in range(2):
        same(c.hessian(x), tg.hessian(f)(x))
        same(c.jvp((x,), (x,)), tg.jvp(f, (x,), (x,)))
        c.wait()
    assert all(is_native(one) for one in c._derived.values()) and len(c._derived) == 2


def test_threads_while_it_is_compiled():
    """Calls that are under way keep the program that they began with."""
    c, eager = tg.compile(chain), tg.value_and_grad(chain)
    x, y = np.random.default_rng(1).uniform(0.5, 1.5, (2, 40))
    wanted = [eager(x + 0.1 * k, y) for k in range(4)]
    errors = []

    def run(k):
        try:
            for _ in range(2 * HOT):
                same(c.value_and_grad(x + 0.1 * k, y), wanted[k])
        except BaseException as error:
            errors.append(error)

    c.value_and_grad(x, y)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    c.wait()
    for k in range(4):  # the compiler may have been slower than all calls
        run(k)
    assert not errors and is_native(c)


def many_pieces(x):
    """A loop, then numbers that repeat nothing, cut in pieces by arrays."""
    total, rng = x.sum(), np.random.default_rng(5)
    for _ in range(200):
        total = total * 0.99 + x[0] * x[1]
    for k in range(20):
        for kind in rng.integers(0, 3, 20).tolist():
            total = total * 0.9 if kind == 0 else total + x[k % 5] if kind == 1 else np.sin(total)
        total = total + np.max(np.sort(x * total))
    return total


def programs_of(made):
    return [one.program for family in made._families.found.values() for one in family.found]


@pytest.mark.parametrize("budget", [0, 150, 400, 10_000])
def test_no_more_is_compiled_than_the_budget_allows(budget, monkeypatch):
    """The loop first, which computes most for its text; the rest is interpreted, and said so."""
    monkeypatch.setattr(scalar_code, "BUDGET", budget)
    x = np.linspace(0.1, 1.0, 30)
    check_tiers(many_pieces, [(x,), (x,), (x * 0.8,)])
    made = tg.compile(many_pieces, native=True, verify="never")
    for _ in range(2):
        made.value_and_grad(x)
    made.wait()
    (program,) = programs_of(made)
    parts = [part.keep for parts in program.parts.of for part in parts]
    texts = [text for text in parts if isinstance(text, str)]
    assert is_native(made) and len(texts) <= budget // 50
    assert ("native: loop of 199 x" in made.explain()) == (budget > 0)
    assert ("native: 21 operations × 19" in made.explain()) == (budget == 10_000)


def straight(x):
    """Two thousand operations that repeat nothing."""
    live, rng = [x[k] for k in range(6)], np.random.default_rng(7)
    for k, kind in enumerate(rng.integers(0, 4, 2000).tolist()):
        a, b = live[kind], live[k % 5]
        kinds = a * 0.5 + b, np.sin(a) * b, a - b * 0.25, a / (1.0 + b * b)
        live[k % 6] = kinds[kind]
    return sum(live)


def test_long_straight_lines_are_compiled_in_parts():
    """Their gradient is that of the recording."""
    x = np.linspace(0.2, 1.2, 6)
    check_tiers(straight, [(x,), (x,), (x * 0.8,), (x - 0.1,)])
    made = tg.compile(straight, native=True, verify="never")
    same(made.value_and_grad(x), tg.value_and_grad(straight)(x))
    made.wait()
    same(made.value_and_grad(x), tg.value_and_grad(straight)(x))
    (parts,) = programs_of(made)[0].parts.of
    assert len(parts) > 1 and all(part.tier == "native" for part in parts)

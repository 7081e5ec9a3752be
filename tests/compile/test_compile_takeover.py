"""Native code is compared with the interpreted program when it takes over."""

import threading
import warnings

import numpy as np
import pytest
from compiled import HOT, by_ways, is_native, same

import tapegrad as tg
from tapegrad._program.build.executable import Program
from tapegrad._program.dispatch import takeover
from tapegrad._program.dispatch.variants import Variants
from tapegrad._program.native import fused_elementwise, scalar_code

pytestmark = pytest.mark.usefixtures("native_when_hot")

X = np.linspace(0.5, 1.5, 40)


def loop(x):
    s = x[0]
    for k in range(1, 40):
        s = np.sin(s * x[k]) + np.maximum(s - x[k], 0.5)
    return s


def arrays(x):
    return np.sum(np.exp(-x * x) * np.maximum(x, 0.25) + np.sqrt(x + 1.0))


@pytest.fixture
def planted(monkeypatch):
    """Puts faults into the text of native code."""

    def plant(right, wrong):
        for module in (fused_elementwise, scalar_code):
            compiled = module.compile_source

            def faulty(text, exports, single=False, compiled=compiled, **given):
                return compiled(text.replace(right, wrong), exports, single, **given)

            monkeypatch.setattr(module, "compile_source", faulty)
        fused_elementwise._compiled.cache_clear()

    yield plant
    monkeypatch.undo()
    fused_elementwise._compiled.cache_clear()


FAULTS = {
    "value in a loop": (
        loop,
        "np.sin(",
        "np.cos(",
        r"numbers \(loop of .*operation .* is .*, interpreted",
    ),
    "slope in a loop": (loop, "(np.cos(", "(np.sin(", "the derivative by input 0 is another"),
    "value of arrays": (arrays, "np.sqrt(", "0.5 + np.sqrt(", "Elementwise: a result is"),
    "slope of arrays": (arrays, "0.5 / ", "0.25 / ", "the derivative by input 0 is another"),
}


def calls(x):
    return [(x + 0.01 * k,) for k in range(6)]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("native", [True, None])
@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_found(what, native, gradient, planted):
    """By calls for values only, too; and never is a wrong number returned."""
    f, right, wrong, where = FAULTS[what]
    planted(right, wrong)
    c = tg.compile(f, native=native)
    call, eager = (c.value_and_grad, tg.value_and_grad(f)) if gradient else (c, f)
    with pytest.warns(RuntimeWarning, match="stays interpreted.*" + where) as caught:
        for k in range(3 if native else HOT + 3):
            same(call(X + 0.01 * k), eager(X + 0.01 * k))
        with pytest.raises(RuntimeError, match=where):
            c.wait()
        for (x,) in calls(X):
            same(call(x), eager(x))
    assert len(caught) == 1 and not is_native(c)
    assert f"native: no; tapegrad.compile: {f.__name__} stays interpreted" in c.explain()
    for _ in range(HOT):
        call(X)
    assert len(c._compiling) == 1


@pytest.mark.parametrize("f", [loop, arrays])
def test_faults_at_other_inputs_are_found(f, planted):
    """At the first ones one side of the maximum is taken everywhere."""
    x = np.full(40, 0.3)
    planted("np.maximum(", "larger(")
    planted("INF, NAN =", "@helper\ndef larger(x, y):\n    return y\n\n\nINF, NAN =")
    planted(
        fused_elementwise._HEAD,
        fused_elementwise._HEAD + "\n\n@helper\ndef larger(x, y):\n    return x\n\n\n",
    )
    c = tg.compile(f, native=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            same(c.value_and_grad(x), tg.value_and_grad(f)(x))
        c.wait()
    assert is_native(c)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for given in (x, np.linspace(-2.0, 2.0, 40), x, X):
            same(c.value_and_grad(given), tg.value_and_grad(f)(given))
    (warning,) = caught
    assert "stays interpreted: its native code gives something else" in str(warning.message)
    assert warning.filename == __file__ and not is_native(c)


def test_a_call_that_has_begun_is_compared_too(planted, monkeypatch):
    """Native code comes after a call has looked for it, and before it runs a program."""
    planted("np.maximum(", "larger(")
    planted(
        fused_elementwise._HEAD,
        fused_elementwise._HEAD + "\n\n@helper\ndef larger(x, y):\n    return x\n\n\n",
    )
    c, run = tg.compile(arrays, native=True), Variants.run

    begun = threading.Event()

    def waiting(*given, **chosen):
        begun.wait()
        return Program(*given, **chosen)

    def late(family, *given):
        begun.set()
        c.wait()
        return run(family, *given)

    monkeypatch.setattr(takeover, "Program", waiting)
    c(X)  # which shows no fault
    monkeypatch.setattr(Variants, "run", late)
    with pytest.warns(RuntimeWarning, match="stays interpreted"):
        same(c(-0.5 * X), arrays(-0.5 * X))


def test_trust_can_be_asked_for(planted):
    planted("np.sqrt(", "0.5 + np.sqrt(")
    c = tg.compile(arrays, native=True, verify="never")
    for _ in range(2):
        c(X)
    c.wait()
    assert c(X) == pytest.approx(arrays(X) + 20.0, rel=1e-12)


@pytest.mark.parametrize("f", [loop, arrays])
def test_calls_are_short_again_after_it(f):
    c = tg.compile(f, native=True)
    c.value_and_grad(X), c(X)
    c.wait()
    c.value_and_grad(X + 0.1)
    assert c._fast is not None and c._fast.program.native
    c(X)
    assert c._fast_value.program.native


def test_other_inputs_are_not_waited_for_long():
    c = tg.compile(loop, native=True)
    c.value_and_grad(X)
    c.wait()
    for _ in range(takeover.PATIENCE + 1):
        c.value_and_grad(X)
    assert c._fast is not None and c._fast.program.native


def test_ways_through_branches_are_compared_when_they_are_taken(planted):
    """One of two has a fault that its first inputs do not show."""

    def f(x):
        return np.sum(np.abs(x) * 2.0) if x[0] > 0.0 else np.sum(x * x)

    planted("np.absolute(", "(")
    c = by_ways(tg.compile(f, native=True))
    for x in (X, -X, X, -X):
        c.value_and_grad(x)
    c.wait()
    assert is_native(c)
    with pytest.warns(RuntimeWarning, match="stays interpreted.*Elementwise") as caught:
        for k in range(2 * takeover.PATIENCE):
            same(c.value_and_grad(-X - 0.1 * k), tg.value_and_grad(f)(-X - 0.1 * k))
        for x in (np.append(1.0, -X[1:]), X):
            same(c.value_and_grad(x), tg.value_and_grad(f)(x))
    assert len(caught) == 1


def test_rounding_is_no_fault():
    """Sums that cancel, infinities, NaN, an adjoint that jumps where two numbers are equal."""

    def f(x, y):
        z = (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-12)
        return np.sum(z) + np.sum(np.log(y)) * np.sum(1.0 / y) + np.abs(np.sum(x) - np.sum(y))

    c = tg.compile(f, argnums=(0, 1), native=True)
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(2, 1000)) * 1e8 for _ in range(2)]
    points += [np.full((2, 1000), 0.1), np.zeros((2, 1000)), np.full((2, 1000), np.inf)]
    with np.errstate(all="ignore"):
        for start in points:
            c = tg.compile(f, argnums=(0, 1), native=True)
            c.value_and_grad(*start)
            c.wait()
            for x, y in points:
                c.value_and_grad(x, y)
            assert is_native(c), c.explain()


def test_maps_and_numba_have_compared_code(planted):
    planted("np.sin(", "np.cos(")
    c = tg.compile(loop)
    rows = X + 0.01 * np.arange(2 * HOT)[:, None]
    wanted = [loop(row) for row in rows]
    with pytest.warns(RuntimeWarning, match="stays interpreted"):
        for _ in range(2):
            same(c.map(rows, gradient=False), np.array(wanted))
        with pytest.raises(RuntimeError, match="operation"):
            c.wait()
    value, _ = c.numba(X)
    assert value(X) == pytest.approx(loop(X), rel=1e-12)

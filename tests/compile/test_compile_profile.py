"""`profile`: the steps of a program and the user's lines, with what each takes."""

import inspect

import numpy as np
import pytest
from compiled import by_ways

import tapegrad as tg
from tapegrad._program.native import scalar_code

X = np.linspace(0.5, 1.5, 40)


def loop(x, a):
    s = x[0]
    for k in range(1, 40):
        s = np.sin(s * x[k])
        s = s + np.exp(-s) / a
    return s


def arrays(x, a):
    y = np.exp(-x * x)
    return np.sum(np.sort(y) * x) * a


def line_of(found, text):
    """The times of the line of a function of this file with some text."""
    with open(__file__) as file:
        number = next(k for k, line in enumerate(file, 1) if text in line)
    (line,) = [one for one in found.lines if one.place and one.place[1] == number]
    return line


@pytest.mark.parametrize("native", [False, True])
def test_numbers_by_line(native):
    c = tg.compile(loop, argnums=(0, 1), native=native)
    c.value_and_grad(X, 2.0), c.wait()
    for k in range(2):
        c.value_and_grad(X + 0.1 * k, 2.0)
    found = c.profile(X, 2.0)
    assert found.native is native and found.name == "loop"
    first, second = line_of(found, "s = np.sin(s * x[k])"), line_of(found, "s = s + np.exp(-s) / a")
    assert first.place[0] == __file__ and first.place[2] == "loop"
    if not native:
        assert first.operations == 2 * 39 and second.operations == 4 * 39
    assert first.operations + second.operations >= 6 * 39 - 1
    (step,) = [step for step in found.steps if "sin × 39" in step.what]
    assert step.tier == ("native" if native else "interpreted")
    assert step.forward > 0.0 and step.reverse > 0.0


def test_times_are_those_of_steps():
    found = tg.compile(arrays, argnums=(0, 1)).profile(X, 2.0)
    assert found.forward == sum(step.forward for step in found.steps)
    assert sum(line.forward for line in found.lines) == pytest.approx(found.forward)
    assert sum(line.reverse for line in found.lines) == pytest.approx(found.reverse)
    assert line_of(found, "y = np.exp(-x * x)").operations >= 2.0
    assert {step.tier for step in found.steps} <= {"interpreted", "kernel", "Python"}


def test_text():
    text = str(tg.compile(arrays, argnums=(0, 1)).profile(X, 2.0))
    assert text.startswith("arrays: interpreted, ") and "test_compile_profile.py" in text
    number = inspect.getsourcelines(arrays)[1] + 1
    assert f"test_compile_profile.py:{number} arrays" in text


def test_calls_of_python_are_said():
    def f(x):
        return np.sum(np.interp(x, np.arange(4.0), np.arange(4.0) ** 2)) + np.median(x)

    c = tg.compile(f)
    found = c.profile(X)
    assert len(found.steps) > 0
    np.testing.assert_allclose(c(X), f(X), rtol=1e-12)


def test_results_stay():
    """Calls after it give what they gave before."""
    for f in (loop, arrays):
        c = tg.compile(f, argnums=(0, 1))
        c.profile(X, 2.0, repeats=3)
        for k in range(4):
            value, gradient = c.value_and_grad(X + 0.1 * k, 2.0)
            wanted, slopes = tg.value_and_grad(f, (0, 1))(X + 0.1 * k, 2.0)
            np.testing.assert_allclose(value, wanted, rtol=1e-12)
            for one, other in zip(gradient, slopes, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)


def test_refusals():
    with pytest.raises(ValueError, match="repeats is 0"):
        tg.compile(arrays).profile(X, 2.0, repeats=0)
    with pytest.raises(TypeError, match="plain arguments"):
        tg.compile(arrays).profile(tg.tensor(X, requires_grad=True), 2.0)
    c = tg.compile(lambda text: len(text))
    with pytest.warns(RuntimeWarning), pytest.raises(ValueError, match="no program"):
        c.profile("four")


def test_explain_says_what_stays_interpreted(monkeypatch):
    """Operations beyond the budget are more text than they are worth."""
    monkeypatch.setattr(scalar_code, "BUDGET", 800)

    def f(x):
        y, rng = x[0] * 1.0, np.random.default_rng(0)
        for one in rng.random(700):
            y = np.sin(y) * one if one < 0.5 else y * y + one
        for _ in range(100):
            y = y * 0.9 + np.cos(y)
        return y

    c = tg.compile(f, native=True)
    for k in range(2):
        c.value_and_grad(X + 0.1 * k), c.wait()
    assert "  interpreted: " in c.explain() and "too long to compile" in c.explain()
    found = c.profile(X)
    assert found.native and "mixed" in {step.tier for step in found.steps}
    np.testing.assert_allclose(c(X), f(X), rtol=1e-12)


def test_explain_names_branches():
    def f(x):
        return x[0] * x[1] if x[0] > 0.0 else x[1] * 2.0

    c = by_ways(tg.compile(f))
    for sign in (1.0, -1.0):
        c.value_and_grad(np.array([sign, 3.0]))
    text = c.explain()
    assert "1 more recording for " in text and "test_compile_profile.py" in text
    assert "np.where" in text
    assert "more recording" not in tg.compile(f).explain()

"""What is assumed of others: derivatives without each assumption, and what is said of it."""

import os
import subprocess
import sys

import pytest
from source_rules import FILES, ROOT, text_of

from tapegrad._core.codegen import compat

#: Derivatives of the recorder and the sweep, with values known otherwise.
RECORDED = """
import warnings
import numpy as np, scipy.special as special
import tapegrad as tg

def near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)

x = np.array([0.3, 1.2, 2.5])
near(tg.grad(lambda x: np.sum(np.sin(x) * x))(x), np.cos(x) * x + np.sin(x))
near(tg.grad(lambda x: x[0] * x[1] ** 2)(x), [x[1] ** 2, 2 * x[0] * x[1], 0.0])

try:
    tg.grad(lambda x: "%f" % x[0] and x[0])(x)
    y = np.zeros(3)
    def write(x):
        y[0] = x[0]
        return x[0]
    tg.grad(write)(x)
except TypeError as error:
    assert "derivative would be lost" in str(error) or "loses its derivative" in str(error), error
else:
    raise AssertionError("a derivative is lost")
"""
#: Second derivatives, SciPy's functions; programs at inputs other than those recorded, and graphs
#: with branches.
MORE = """
near(tg.hessian(lambda x: np.sum(np.exp(x) * x[0]))(x)[1:, 1:], np.diag(x[0] * np.exp(x[1:])))
near(tg.grad(lambda x: np.sum(special.gammaln(x)))(x), special.psi(x))

warnings.filterwarnings("ignore", ".* is slow", RuntimeWarning)  # without numba-reader

def solved(x):
    a = np.diag(x + 1.0) + np.ones((3, 3))
    return np.sum(np.linalg.solve(a, x) @ a) + np.sum(np.linalg.inv(a @ a.T))

def branching(x):
    total = 0.0
    for k in range(3):
        total = total + (x[k] ** 2 if x[k] > 1.0 else 3.0 * x[k])
    return total

def transformed(x):
    return np.sum(np.abs(np.fft.fft(x)) ** 2 * np.arange(3.0))

def special_values(x):
    return np.sum(special.gammaln(x) + special.i0(x) + special.digamma(x) + np.exp(x))

for f in (solved, branching, transformed, special_values):
    compiled = tg.compile(f)
    for point in (x, x + 0.4, x[::-1].copy()):
        near(compiled(point), f(point))
        steps = 1e-6 * np.eye(3)
        wanted = [(f(point + step) - f(point - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(tg.grad(compiled)(point), wanted, rtol=1e-6, atol=1e-6)
        near(tg.grad(f)(point), tg.grad(compiled)(point))
"""
#: What nothing works without, and what each process compiles anew without.
NEEDED = [name for name, one in compat.ASSUMPTIONS.items() if one.without is None]
UFUNC = "from tapegrad._core.codegen.ufunc import make_ufunc; make_ufunc('f', 1, {})"
SLOW = {"libmvec"}


def run(name, code):
    """What a process says on its last line without an assumption; "" if nothing."""
    variables = {**os.environ, "TAPEGRAD_WITHOUT": name}
    given = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(given, capture_output=True, text=True, cwd=ROOT, env=variables)
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize("name", sorted({*compat.ASSUMPTIONS} - {*NEEDED}))
def test_derivatives_without_an_assumption(name):
    assert run(name, RECORDED + ("" if name in SLOW else MORE)) == ""


@pytest.mark.parametrize("name", NEEDED)
def test_what_nothing_works_without_is_an_error(name):
    said = run(name, "import tapegrad as tg; tg.tensor([1.0]); " + UFUNC)
    assert said.startswith("RuntimeError: tapegrad: ") and f"({name};" in said


def test_a_name_that_is_none():
    assert "TAPEGRAD_WITHOUT names numba; the names are numba-reader," in run(
        "numba", "import tapegrad"
    )


@pytest.fixture
def unasked(monkeypatch):
    """Nothing has been probed, and nothing is switched off."""
    monkeypatch.setattr(compat, "_found", {})
    monkeypatch.delenv("TAPEGRAD_WITHOUT", raising=False)


def test_a_probe_is_asked_once_for_each_part(unasked):
    asked = []
    for part in ("one", "two", "one"):
        assert compat.holds("scipy-capsules", lambda part=part: asked.append(part) is None, part)
    assert asked == ["one", "two"]


def test_a_probe_that_fails_is_told_and_what_is_done_instead(unasked):
    with pytest.warns(RuntimeWarning, match="numba-reader does not hold .*gone.* recorded"):
        assert not compat.holds("numba-reader", lambda: open("/gone/with/it") is None)
    assert not compat.holds("numba-reader", lambda: True)


def test_every_assumption_is_probed():
    texts = [text_of(path) for path in FILES if path.stem != "compat"]
    for name in compat.ASSUMPTIONS:
        assert any(f'"{name}"' in text for text in texts), name

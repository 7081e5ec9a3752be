"""Programs of many fields with the imports that people write: NumPy, SciPy, math, all in place."""

import sys
import types

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg

FOLDER = ROOT / "tests" / "programs"


def load(stem):
    module = types.ModuleType(f"programs_{stem}")
    sys.modules[module.__name__] = module  # where dataclasses look
    path = FOLDER / f"{stem}.py"
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


MODULES = {
    stem: load(stem)
    for stem in (
        *("entered_models", "entered_science"),
        *("scipy_models", "scipy_fields", "scipy_studies"),
    )
}
PROGRAMS = {
    name: (getattr(module, name), [np.array(point, float) for point in points])
    for module in MODULES.values()
    for name, points in module.POINTS.items()
}
assert len(PROGRAMS) == sum(len(module.POINTS) for module in MODULES.values())  # no name twice


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def slopes(f, x):
    """A gradient by differences of fourth order."""
    found = []
    for k in range(len(x)):
        h = np.eye(len(x))[k] * 2e-4 * max(1.0, abs(x[k]))
        ends = 8.0 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))
        found.append(float(ends) / (12.0 * h[k]))
    return np.array(found)


def close(found, wanted, x):
    value, gradient = found
    np.testing.assert_allclose(value, wanted[0], rtol=1e-11, atol=1e-12)
    scale = max(1.0, np.max(np.abs(wanted[1])))
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-6, atol=1e-7 * scale)
    assert type(value) in (float, np.float64) and type(gradient) is np.ndarray


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    """Eager, and compiled, before and after plain calls, which judge."""
    f, points = PROGRAMS[name]
    wanted = [(float(f(x)), slopes(f, x)) for x in points]
    gradient, compiled = tg.value_and_grad(f), tg.compile(f, native=False)
    for x, one in zip(points, wanted, strict=True):
        close(gradient(x), one, x)
    for k in (0, 0, 1, 0):
        close(compiled.value_and_grad(points[k]), wanted[k], points[k])
    for x, one in zip(points, wanted, strict=True):
        assert float(f(x)) == one[0]

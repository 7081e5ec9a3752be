"""Programs as users write them: values, gradients and second derivatives, eager and compiled.

`tests/programs` has them, with plain NumPy or with one import changed. The same text with that
import changed back is the judge: its values, and differences of them.
"""

import sys
import types

import numpy as np
import pytest
from assumed import needs
from compiled import unlimited
from source_rules import ROOT

import tapegrad as tg

FOLDER = ROOT / "tests" / "programs"
#: The imports that are changed, and what they were.
IMPORTS = {
    "import tapegrad.numpy as np": "import numpy as np",
    "import tapegrad.math as math": "import math",
}
MARKET = {"spot": 100.0, "rate": 0.03, "vol": 0.25, "strike": 95.0}
TABLE = [[1.0, 0.3, 2.2], [0.4, -1.0, 0.7], [1.9, 0.8, 0.1], [-0.6, 1.4, 1.3], [0.2, 0.5, -0.9]]
SIX = [[0.3, 1.2, -0.4, 2.0, 0.9, 0.1], [1.1, 0.2, 0.8, -0.9, 1.7, 0.6]]
GRID = np.array([0.9, 0.1, 0.4, 0.7, 0.3, 1.2, 0.6, 0.2, 0.5, 0.8, 1.1, 0.35])
LAYERS = [
    [np.array([[0.3, -0.8, 0.5], [0.9, 0.2, -0.4]]), np.array([0.1, 0.0, -0.2])],
    [np.array([[0.6, -0.1, 0.4], [-0.7, 0.8, 0.2], [0.1, 0.5, -0.9]]), np.array([0.0, 0.2, 0.1])],
]
RATES = np.linspace(0.2, 0.8, 9).reshape(3, 3) * [[1, -2, 3], [2, 1, -1], [-1, 2, 0.5]]

#: Arguments that take different branches, by program. Each program differentiates its one argument.
SMOOTH = {
    "estimation.density_at": [[0.2, 0.9, -0.4], [1.5, -0.3, 0.6]],
    "estimation.mixture_loglik": [
        {"logit": 0.3, "mu": [0.1, 2.0], "log_s": [-0.4, -0.6]},
        {"logit": -0.8, "mu": [2.2, -0.1], "log_s": [0.1, -0.3]},
    ],
    "estimation.arma_css": [(0.5, 0.2, 0.1), (-0.3, 0.6, 0.2)],
    "estimation.r_squared": [
        np.array([1.0, 0.2, 0.5, 1.4, 2.2]),
        np.array([0.1, 2.2, 0.5, 1.9, -0.6]),
    ],
    "estimation.group_effects": [
        {"y": [1.0, 2.2, 1.4, 0.3, 2.5, 0.8, 0.4], "w": [1.0, 2.0, 1.5, 1.0, 0.5, 1.2, 0.7]},
        {"y": [0.5, 0.2, 2.4, 1.3, 1.5, 0.1, 1.4], "w": [0.4, 1.0, 0.5, 2.0, 1.5, 0.2, 1.7]},
    ],
    "estimation.histogram_divergence": [
        [1.0, 0.5, 2.0, 0.3, 0.9, 1.1],
        [0.2, 1.5, 1.0, 2.3, 0.1, 0.6],
    ],
    "finance.black_scholes": [(100.0, 95.0, 0.02, 0.3, 0.7), (90.0, 105.0, 0.05, 0.2, 1.5)],
    "finance.yield_to_maturity": [(97.0, 4.0), (110.0, 6.0)],
    "finance.garch_loglik": [(0.4, 0.1, 0.8), (0.9, 0.2, 0.3), (0.4, 0.4, 0.8)],
    "finance.swap_value": [[0.02, 0.025, 0.03, 0.031], [0.04, 0.035, 0.03, 0.02]],
    "physics.pendulum": [(1.0, 0.2, 0.6), (1.6, 0.05, 2.8)],
    "physics.orbit": [[[0.0, 0.1], [1.0, 0.0], [-0.7, 0.6]], [[0.3, 0.0], [1.1, 0.4], [0.0, 0.9]]],
    "physics.magnetisation": [{"J": 0.4, "h": 0.1}, {"J": 0.2, "h": 0.3}],
    "physics.layered_path": [[1.5, 1.3, 1.7], [1.5, 0.5, 1.2]],
    "physics.predator_prey": [(1.3, 0.5, 0.8, 0.6), (1.9, 1.4, 2.5, 1.6)],
    "physics.charge_density": [[1.0, -0.5, 0.8], [0.2, 1.1, -1.3]],
    "engineering.truss_compliance": [[1.0, 0.8, 1.2, 0.9, 1.1], [0.5, 1.5, 0.7, 1.4, 0.6]],
    "engineering.kalman_loglik": [np.array([-2.0, -3.0, -1.0]), np.array([-0.5, -1.0, -2.5])],
    "engineering.pipe_losses": [(10.0, 2.0, 0.15), (0.12, 0.05, 20.0)],
    "engineering.bearing_temperature": [(1.0, 2.0), (1.6, 0.9)],
    "engineering.filter_mismatch": [[0.3, 0.5, 0.2, 0.1], np.array([0.9, -0.4, -0.7, 0.3])],
    "learning.network_loss": [LAYERS, [[1.5 - W, b + 0.3] for W, b in LAYERS]],
    "learning.hidden_markov": [
        np.array([[0.3, -0.4], [0.1, 0.9]]),
        np.array([[-1.0, 0.4], [1.5, 0.2]]),
    ],
    "learning.stationary_reward": [RATES, -RATES.T],
    "learning.embedding_score": [list(GRID[:8]), list(1.0 - GRID[4:])],
    "plain_numpy.portfolio_variance": [np.array([0.3, 0.5, 0.2]), np.array([-0.2, 1.1, 0.6])],
    "plain_numpy.gaussian_process": [np.array([0.1, -0.3, -1.0]), np.array([-0.4, 0.2, -2.0])],
    "plain_numpy.newton_root": [np.array([1.0, 0.0, -2.0, -1.5]), np.array([2.0, 1.0, -3.0, -0.4])],
    "plain_python.tank_fit": [(1.0, 0.5), (0.3, 1.9)],
    "plain_python.arc_length": [(1.0, 0.2, 1.5), (2.5, -0.3, 2.0)],
    "plain_python.compound": [{"rate": 0.045, "saved": 5.0}, {"rate": 0.07, "saved": 11.0}],
}
WITH_KINKS = {
    "estimation.huber_location": [
        [0.3, 1.2, -0.4, 8.0, 0.9, 0.1, 0.6], [1.0, 0.2, 0.5, 0.4, -9.0, 7.0, 0.7],
        [1.004, 1.0, 1.008, 7.0, 0.996, 1.012, 0.992],
    ],
    "estimation.trimmed_mean": [[0.3, 1.2, -0.4, 8.0, 0.9, 0.1, 0.6, 0.7, 1.0, -2.0], [3.0, 1.0]],
    "estimation.weighted_quantiles": SIX,
    "estimation.bootstrap_interval": SIX,
    "estimation.standardised_gaps": [TABLE, [row[::-1] for row in TABLE[::-1]]],
    "finance.american_put": [(100.0, 103.0, 0.05, 0.3), (100.0, 91.0, 0.02, 0.5)],
    "finance.asian_option": [MARKET, {**MARKET, "spot": 70.0, "strike": 62.0, "vol": 0.4}],
    "finance.household_tax": [[9_000.0, 52_000.0], [22_000.0, 101_000.0], [8_000.0, 13_000.0]],
    "finance.strategy": [
        {"stock": 0.5, "bond": 0.3, "momentum": 0.2}, {"stock": 0.1, "bond": 0.8, "momentum": -0.3},
    ],
    "physics.cooling_rod": [[0.1, 0.9, 0.3, 0.5], [1.9, 0.7, 0.2, 1.5]],
    "physics.diffraction": [[0.5, 0.8, 0.6], [0.9, 0.2, 1.4]],
    "engineering.control_cost": [(2.0, 0.5, 0.1), (0.7, 0.1, 0.3), (5.0, 1.0, 0.2)],
    "engineering.smoothed_signal": [np.array([0.2, 0.5, 0.3]), np.array([-0.4, 0.9, 0.1])],
    "engineering.pump_power": [(1.03, 1.3), (0.83, 2.1)],
    "engineering.reservoir": [
        {"base": 3.0, "share": 0.1, "reserve": 5.0}, {"base": 6.1, "share": 0.3, "reserve": 9.2},
    ],
    "learning.tuned_training": [{"rate": 0.8, "momentum": 0.7}, {"rate": 2.5, "momentum": 0.3}],
    "learning.recurrent_loss": [GRID[:10] - 0.4, 0.7 - GRID[1:11]],
    "learning.warping_distance": [[0.1, 0.7, 1.2, 0.2], [1.0, 0.9, -0.3, -0.6], [0.5, 0.1]],
    "learning.clustering_cost": [GRID[2:8] * 1.1, 1.0 - GRID[3:9] * 1.3],
    "learning.boosted_error": [[0.4, 1.3, 1.6], [1.1, -0.3, 0.6]],
    "plain_numpy.spring_energy": [GRID, 1.0 - 1.4 * GRID[::-1]],
    "plain_numpy.capped_demand": [np.array([1.2, 0.7, 0.9, 2.4]), np.array([0.3, 2.2, 1.8, 0.4])],
    "plain_numpy.golden_section": [np.array([0.7, 0.9, 1.0]), np.array([1.5, -0.4, 2.0])],
    "plain_numpy.thresholded_image": [GRID, GRID[::-1] * 0.7, GRID * 0.3],
    "plain_python.determinant": [TABLE[:3], [TABLE[4], TABLE[1], TABLE[3]]],
    "plain_python.edit_cost": [(1.0, 1.2, 1.5), (0.7, 0.6, 2.5)],
    "plain_python.tower_heights": [[2.0, 1.1, 3.7, 0.8, 1.6], [1.0, -0.4, 1.3, 0.9]],
    "plain_python.route_length": [
        [(0.0, 0.1), (1.0, 0.3), (0.4, 0.9), (0.7, 0.2)],
        [(0.5, 0.5), (0.1, 0.9), (0.8, 0.8), (0.0, 0.0)],
    ],
}  # fmt: skip
PROGRAMS = SMOOTH | WITH_KINKS
#: Programs that format numbers by %.
FORMATS = ("plain_python.tank_fit",)


def each(programs):
    """Parameters for the names of programs."""
    mark = needs("cpython-bytecode")
    names = [pytest.param(one, marks=mark) if one in FORMATS else one for one in programs]
    return pytest.mark.parametrize("name", names)


def load(stem, plain):
    """The module of a file of programs; if plain, as before its imports were changed.

    If plain is None, all its imports are changed.
    """
    text = (FOLDER / f"{stem}.py").read_text()
    for ours, theirs in IMPORTS.items():
        if plain is None:
            text = text.replace(f"\n{theirs}\n", f"\n{ours}\n")
        elif plain:
            text = text.replace(ours, theirs)
    module = types.ModuleType(f"programs_{stem}_{plain}")
    sys.modules[module.__name__] = module  # where dataclasses look
    exec(compile(text, str(FOLDER / f"{stem}.py"), "exec"), module.__dict__)
    return module


MODULES = {}


def program(name, plain=False):
    stem, attribute = name.split(".")
    if (stem, plain) not in MODULES:
        MODULES[stem, plain] = load(stem, plain)
    return getattr(MODULES[stem, plain], attribute)


def flat(tree):
    """The numbers in an argument, or in a gradient."""
    if isinstance(tree, dict):
        return np.concatenate([flat(tree[key]) for key in tree])
    if isinstance(tree, (list, tuple)):
        return np.concatenate([flat(part) for part in tree])
    return np.ravel(np.asarray(tree, float))


def like(tree, numbers):
    """The same structure with the elements of a vector."""
    return _taken(tree, numbers, 0)[0]


def _taken(tree, numbers, at):
    if isinstance(tree, dict):
        found = {}
        for key in tree:
            found[key], at = _taken(tree[key], numbers, at)
        return found, at
    if isinstance(tree, (list, tuple)):
        parts = []
        for part in tree:
            made, at = _taken(part, numbers, at)
            parts.append(made)
        return type(tree)(parts), at
    if isinstance(tree, np.ndarray):
        return numbers[at : at + tree.size].reshape(tree.shape), at + tree.size
    return numbers[at], at + 1


def differences(f, x, step):
    """Derivatives of f at a vector of arguments, by differences of fourth order.

    `step` is that of elements of size 1 and less.
    """
    found = []
    for k in range(len(x)):
        h = np.zeros(len(x))
        h[k] = step * max(1.0, abs(x[k]))
        ends = 8.0 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))
        found.append(ends / (12.0 * h[k]))
    return np.array(found)


def close(found, wanted, tolerance):
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


def plainly(name, point):
    """A program of plain Python and NumPy, as a function of a vector."""
    f = program(name, plain=True)
    return lambda numbers: float(f(like(point, numbers)))


@pytest.fixture(params=["changed", "plain"])
def plain(request, monkeypatch):
    """Whether the imports stay as they are, and functions are entered."""
    monkeypatch.setattr(tg.config, "enter", request.param == "plain")
    return request.param == "plain"


@each(PROGRAMS)
def test_value_and_gradient(name, plain):
    f = program(name, plain)
    for point in PROGRAMS[name]:
        judge = plainly(name, point)
        value, gradient = tg.value_and_grad(f)(point)
        close(value, judge(flat(point)), 1e-12)
        close(f(point), value, 1e-12)
        assert type(gradient) is type(point)
        close(flat(gradient), differences(judge, flat(point), 3e-4), 1e-6)


@pytest.mark.filterwarnings("ignore:tapegrad.compile. control_cost calls debug:RuntimeWarning")
@each(PROGRAMS)
def test_compiled(name, monkeypatch):
    """With all imports changed, and with plain ones: by the same programs and graphs."""
    points, made = PROGRAMS[name], []
    for plain in (None, True):
        monkeypatch.setattr(tg.config, "enter", plain is True)
        f = program(name, plain)
        compiled = tg.compile(f, native=False)
        with unlimited():
            for point in (*points, *points[::-1]):
                value, gradient = compiled.value_and_grad(point)
                wanted, slopes = tg.value_and_grad(f)(point)
                close(value, wanted, 1e-12)
                close(flat(gradient), flat(slopes), 1e-10)
        made.append(repr(compiled))
    assert made[0] == made[1]


@each(SMOOTH)
def test_second_derivative(name):
    f = program(name)
    for point in SMOOTH[name]:
        vector = flat(point)

        def total(numbers, point=point):
            return f(like(point, numbers))

        found = tg.hessian(total)(vector)
        close(found, differences(tg.grad(total), vector, 1e-4), 1e-6)
        close(found, found.T, 1e-9)

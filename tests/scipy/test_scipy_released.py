"""Functions of SciPy that differentiate by their own code do so through `tapegrad.scipy`, too."""

import importlib
import re
import types

import numpy as np
import pytest
import scipy
from declared import close, difference
from expressions import CHECKS, Expression, parametrized

import tapegrad as tg
from tapegrad.scipy._tested_code import RELEASED

MODULES = ("fft", "integrate", "linalg", "signal", "sparse", "special", "stats")


def doors(package):
    """The submodules of SciPy, or of the stand-in, with those inside of them."""
    for inner in ("signal.windows", "sparse.linalg", "stats.contingency"):
        importlib.import_module(f"{package}.{inner}")
    return {name: importlib.import_module(f"{package}.{name}") for name in MODULES}


NAMES = {"scipy": types.SimpleNamespace(**doors("tapegrad.scipy"))}
PLAIN = {"scipy": types.SimpleNamespace(**doors("scipy"))}
Y = "np.array([0.4, 1.2, 2.9, 0.8, 1.7, 2.2])"
POLES = "[0.5], [0.6, 0.3]"
TEXTS = [
    "scipy.fft.fftfreq(5, x[0, 0]) ** 2",
    "scipy.fft.rfftfreq(5, x[0, 0] * x[1, 1]) ** 2",
    "scipy.integrate.fixed_quad(lambda t: np.sin(t * x[1, 1]), x[0, 0], x[0, 1])[0]",
    "scipy.integrate.fixed_quad(lambda t, p: np.exp(-p * t), 0.0, 2.0, (x[0, 0],), 4)[0]",
    f"np.real(scipy.signal.bilinear_zpk({POLES}, x[0, 0], 3.0)[2])",
    "scipy.signal.closest_STFT_dual_window(x[0], 2)[0]",
    "scipy.signal.closest_STFT_dual_window(x[0], 2, x[1] ** 2, scaled=True)[1]",
    "np.real(scipy.signal.czt_points(3, x[1, 1], x[0, 0]) ** 2)",
    "scipy.signal.gausspulse(x, fc=2.0)",
    "scipy.signal.gausspulse(0.3, fc=x[0, 0], bw=0.4 * x[1, 1], retenv=True)[1]",
    "scipy.signal.gausspulse('cutoff', fc=x[0, 0], bw=0.4 * x[1, 1])",
    "scipy.signal.get_window(('gaussian', x[0, 0]), 7)",
    "scipy.signal.invres(x[0, :2], [0.5, 0.7], x[1, :2])[0]",
    "scipy.signal.invres(x[0, :2], [0.5, 0.5], [2.0])[0]",
    "scipy.signal.invresz(x[0, :2], [0.5, 0.7], x[1, :2])[0]",
    "scipy.signal.kaiser_atten(5, 0.3 * x)",
    "scipy.signal.kaiser_beta(60.0 + x[0, 0])",
    "scipy.signal.kaiser_beta(30.0 + x[0, 0])",
    f"np.real(scipy.signal.lp2bp_zpk({POLES}, x[0, 0], 2.0, 0.3)[2])",
    f"np.real(scipy.signal.lp2bs_zpk({POLES}, x[0, 0], 2.0, 0.3)[2])",
    f"np.real(scipy.signal.lp2hp_zpk({POLES}, x[0, 0], 2.0)[2])",
    f"np.real(scipy.signal.lp2lp_zpk({POLES}, x[0, 0], 2.0)[2])",
    "scipy.signal.sweep_poly(x, [1.0, 2.0, 0.5])",
    "scipy.signal.sweep_poly([0.1, 0.2], x[0])",
    "scipy.signal.windows.exponential(7, x[0, 0], x[1, 1], False)",
    "scipy.signal.windows.gaussian(7, x[0, 0])",
    "scipy.signal.windows.general_gaussian(7, 1.0 + x[0, 0], x[1, 1])",
    "scipy.signal.windows.get_window(('exponential', None, x[0, 0]), 7)",
    "scipy.sparse.linalg.matrix_power(x[:, :3], 3)",
    "scipy.special.sinc(x)",
    "scipy.special.softplus(x)",
    "scipy.stats.contingency.crosstab(x[0], [1, 1, 2, 2])[0][0] ** 2",
    "scipy.stats.contingency.margins(x)[0] * scipy.stats.contingency.margins(x)[1]",
    # Functions that plain SciPy differentiates, and that have rules here.
    "scipy.special.erf(x)",
    "scipy.special.gamma(x)",
    "scipy.special.expit(x)",
    "scipy.special.gammaln(x)",
]
USED = re.compile(r"scipy\.((?:[a-z]+\.)+\w+)\(")


def exists(name):
    module, _, function = name.rpartition(".")
    return hasattr(importlib.import_module(f"scipy.{module}"), function)


#: What SciPy 1.18 makes plain arrays of.
LATER = ("fixed_quad(lambda t: np.sin",)
if np.lib.NumpyVersion(scipy.__version__) < "1.18.0":
    LATER = ()
TABLE = [
    Expression(text, names=NAMES, choices=False, other=(0.5, 0.9))
    for text in TEXTS
    if all(map(exists, USED.findall(text))) and not any(part in text for part in LATER)
]
pytestmark = pytest.mark.filterwarnings("ignore:int.. of a recorded:RuntimeWarning")


@parametrized(TABLE)
@pytest.mark.parametrize("check", ["derivatives", "compiled"])
def test_expression(check, expression):
    CHECKS[check](expression)


@parametrized(TABLE)
def test_both_doors_give_the_same(expression):
    x, v, found = expression.point(), np.ones(expression.shape), []
    for names in (NAMES, PLAIN):
        f = Expression(expression.text, names=names).function()
        total = lambda x: np.sum(np.cos(f(x)))
        value, gradient = tg.value_and_grad(total)(x)
        assert np.any(gradient)
        close(np.sum(gradient * v), difference(total, x, v), loose=100.0)
        found.append((f(x), value, gradient))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_released_name_has_an_expression():
    assert {*RELEASED} <= {name for text in TEXTS for name in USED.findall(text)}


LOST = {
    "signal.invres": lambda s, x: s.signal.invres(x, x, [x[0]])[0],
}


@pytest.mark.parametrize("name", LOST)
def test_arguments_without_a_derivative_are_refused_by_name(name):
    call = LOST[name]
    words = rf"^tapegrad.scipy.{name} has no derivative to an argument that is recorded"
    f = lambda x: np.sum(np.real(call(NAMES["scipy"], x)))
    for call_of_f in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(tg.DerivativeLost, match=words):
            call_of_f(np.array([0.5, 0.7, 0.9]))


@pytest.mark.usefixtures("not_entered")
def test_what_a_callback_loses_is_named_by_itself():
    integrate = NAMES["scipy"].integrate
    f = lambda a: integrate.fixed_quad(lambda t, p: t * float(p), 0.0, 1.0, (a,))[0]
    with pytest.raises(tg.DerivativeLost, match=r"float\(\)"):
        tg.grad(f)(1.5)


def test_plain_arguments_and_versions():
    for name in filter(exists, RELEASED):
        module, _, function = name.rpartition(".")
        ours = getattr(importlib.import_module(f"tapegrad.scipy.{module}"), function)
        assert ours.__wrapped__ is getattr(importlib.import_module(f"scipy.{module}"), function)
        assert "Recorded values are differentiated" in ours.__doc__
    assert scipy.__version__ == tg.scipy.__version__

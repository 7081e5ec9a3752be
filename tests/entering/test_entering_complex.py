"""`complex()` and `cmath` in functions that are entered: recorded numbers stay recorded."""

import cmath
import math
from cmath import log as natural

import numpy as np
import pytest

import tapegrad as tg


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def of_cmath(name, z):
    """A real function of one recorded number that calls a function of `cmath`."""
    space = {"cmath": cmath, "z": z}
    exec(f"def f(x):\n    w = cmath.{name}(x * z)\n    return w.real + 2.0 * w.imag", space)
    return space["f"]


NAMES = "exp sqrt log log10 sin cos sinh cosh tanh asin acos atan asinh acosh atanh phase".split()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("z", [0.3 + 0.4j, -2.0 + 0.1j, 1.7 - 0.6j, -0.6])
def test_functions_of_one_number(name, z):
    f, x, h = of_cmath(name, z), 0.7, 1e-4
    wanted = (8.0 * (f(x + h) - f(x - h)) - f(x + 2.0 * h) + f(x - 2.0 * h)) / (12.0 * h)
    c = tg.compile(f)
    c.grad(0.5)
    for value, gradient in (tg.value_and_grad(f)(x), c.value_and_grad(x)):
        assert value == pytest.approx(f(x), rel=1e-12)
        assert gradient == pytest.approx(wanted, rel=1e-7, abs=1e-9)


def impedance(x):
    z = complex(50.0, 2.0 * x) + 1.0 / complex(imag=x)
    return abs(complex(x)) + z.real * z.imag + complex(x * 1j, x * 2j).real


def mixed(x):
    size, angle = cmath.polar(complex(x, 1.0))
    return size * angle + natural(1j * x - 1.0, 3.0).imag + cmath.rect(x, x * x).real


def questions(x):
    z = complex(x, 1.0)
    if cmath.isclose(z, z + 1e-12) and cmath.isfinite(z) and not cmath.isnan(z):
        return z.real**2 if not cmath.isinf(z) else x
    return x


@pytest.mark.parametrize("f", [impedance, mixed, questions])
def test_programs_of_complex_numbers(f):
    x, h = 0.7, 1e-5
    wanted, c = (f(x + h) - f(x - h)) / (2.0 * h), tg.compile(f)
    c.grad(0.4)
    for gradient in (tg.grad(f)(x), c.grad(x), c.grad(x)):
        assert gradient == pytest.approx(wanted, rel=1e-8)


def test_errors_are_those_of_cmath():
    assert tg.grad(lambda x: cmath.log(x * 1j).imag + x)(2.0) == 1.0
    c = tg.compile(lambda x: cmath.log(x * 1j).real)
    assert c.grad(2.0) == c.grad(2.0) == 0.5
    for gradient in (tg.grad(lambda x: cmath.log(x * 1j).real), c.grad):
        with pytest.raises(ValueError, match="math domain error"):
            gradient(0.0)
    with pytest.raises(OverflowError):
        tg.grad(lambda x: cmath.exp(x * 1e4).real)(1.0)


def test_results_are_pythons_numbers():
    def f(x):
        found = (
            *cmath.polar(complex(x, 1.0)),
            cmath.exp(complex(x, 1.0)).real,
            cmath.rect(x, 0.3).imag,
        )
        return sum([v if type(v) is float else 10.0 * v for v in found])

    wanted = (f(0.5 + 1e-5) - f(0.5 - 1e-5)) / 2e-5
    assert tg.grad(f)(0.5) == pytest.approx(wanted, rel=1e-8)


def test_plain_numbers_are_pythons():
    seen = []

    def f(x):
        seen.extend([complex("1+2j"), complex(3), cmath.sqrt(-4.0), cmath.polar(1j)])
        return x * seen[0].imag

    assert tg.grad(f)(1.0) == 2.0
    assert seen == [1 + 2j, 3 + 0j, 2j, (1.0, math.pi / 2)] and type(seen[1]) is complex
    with pytest.raises(TypeError):
        tg.grad(lambda x: abs(complex(x)))(np.ones(2))

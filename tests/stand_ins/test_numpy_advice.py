"""Where plain NumPy would lose a derivative: errors name the line, and what to change there."""

import math
import re
import types

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from assumed import needs

import tapegrad as tg

X = np.array([1.2, 0.7, 2.1])
OUTSIDE, COMPLEX = np.zeros(3), np.zeros(3, complex)
#: Functions that are stored, and called from there.
STORED = types.SimpleNamespace(sin=math.sin, array=np.array, simpson=scipy.integrate.simpson)


def element(x):
    a = np.zeros(3)
    a[0] = x[0]


def part(x):
    a = np.zeros(3)
    a[1:3] = x[:2]


def several(x):
    a = np.zeros(3)
    a[:2] = [x[0], x[1]]


def masked(x):
    a = np.zeros(3)
    a[a == 0.0] = x


def added(x):
    a = np.zeros(3)
    a[0] += x[0]


def added_part(x):
    a = np.zeros(3)
    a[:2] += x[:2]


def added_whole(x):
    a = np.zeros(3)
    a += x


WRITES = {
    function.__name__: function
    for function in (element, part, several, masked, added, added_part, added_whole)
} | {
    "out=": lambda x: np.sin(x, out=np.zeros(3)),
    "out= of a sum": lambda x: np.sum(x, out=np.zeros(())),
    "add.at": lambda x: np.add.at(np.zeros(3), [0], x[0]),
    "copyto": lambda x: np.copyto(np.zeros(3), x),
    "put": lambda x: np.put(np.zeros(3), [0, 1], x[:2]),
    "place": lambda x: np.place(np.zeros(3), X > 1.0, x),
    "fill_diagonal": lambda x: np.fill_diagonal(np.zeros((3, 3)), x),
}
#: Those that differ from a conversion to float in the bytecode alone.
SEEN = ("element", "part", "several", "masked", "added", "fill_diagonal")
READS = {
    "array": lambda x: np.array([x[0], 1.0]),
    "array of one": lambda x: np.array(x),
    "asarray": lambda x: np.asarray(x, dtype=float),
    "log": lambda x: np.log([x[0], 2.0]),
    "minimum": lambda x: np.minimum([x[0]], 1.0),
    "sum": lambda x: np.sum([x[0], x[1]]),
    "full": lambda x: np.full(3, x[0]),
    "float64": lambda x: np.float64(x[0]),
    "r_": lambda x: np.r_[x, 1.0],
    "c_": lambda x: np.c_[x, x],
    "linspace": lambda x: np.linspace([x[0], 1.0], 2.0),
    "concatenate": lambda x: np.concatenate([[x[0]], [1.0]]),
    "Polynomial": lambda x: np.polynomial.Polynomial([x[0], 1.0]),
}
CHANGE = r"`import tapegrad.numpy as np` in place of `import numpy as np`"
HERE = r"\(.*test_numpy_advice.py:\d+\)"


def own_tensor(f):
    return f(tg.tensor(X, requires_grad=True))


def inside(f):
    """In a transform that enters nothing."""
    before, tg.config.enter = tg.config.enter, False
    try:
        return tg.grad(lambda x: f(x) or x[0])(X)
    finally:
        tg.config.enter = before


@pytest.mark.parametrize("call", [own_tensor, inside])
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=needs("cpython-bytecode")) if one in SEEN else one for one in WRITES],
)
def test_a_write_to_a_plain_array(name, call):
    with pytest.raises(TypeError) as raised:
        call(WRITES[name])
    text = (
        rf"tapegrad[a-z_.]*(: out=)?: a recorded tensor cannot be written to a plain NumPy array "
        rf"{HERE}, since its derivative would be lost; make the array with {CHANGE}, or with "
        r"tg.zeros_like, or write t.detach\(\) if no derivative is needed"
    )
    assert re.fullmatch(text, str(raised.value))


@pytest.mark.parametrize("call", [own_tensor, inside])
@pytest.mark.parametrize("name", READS)
def test_what_takes_plain_arrays(name, call):
    with pytest.raises(TypeError) as raised:
        call(READS[name])
    text = (
        rf"tapegrad: a recorded tensor cannot become a plain NumPy array, since its derivative "
        rf"would be lost {HERE}; {CHANGE} keeps it, in lists, conversions and arrays that are "
        r"filled; or use t.detach\(\).numpy\(\) if no derivative is needed"
    )
    assert re.fullmatch(text, str(raised.value))


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda x: math.sin(x[0]), r"math.sin\(\) .*np.sin on .*`import tapegrad.math as math`"),
        (lambda x: math.gamma(x[0]), r"math.gamma\(\) .*; use tg.gamma on the tensor, or `import"),
        (lambda x: math.isclose(x[0], 1.0), r"math.isclose\(\) .*; use .*`import tapegrad.math"),
        (lambda x: float(x[0]), r"float\(\) of .*np.float64 and np.array of `import tapegrad.num"),
        (lambda x: scipy.stats.norm.logpdf(x), r"scipy.stats.norm.logpdf\(\) .*import stats` has"),
        (lambda x: scipy.stats.norm(0.0).cdf(x), r"rv_frozen.cdf\(\) .*tapegrad.scipy.stats makes"),
        (lambda x: scipy.integrate.simpson(x), r"scipy.integrate.simpson\(\) .*import integrate`"),
    ],
)
def test_math_and_scipy(f, text):
    with pytest.raises(TypeError, match=f"^tapegrad: .*{HERE}.*|.*") as raised:
        inside(f)
    assert re.search(text, str(raised.value)) and re.search(HERE, str(raised.value))


@needs("cpython-bytecode")
def test_a_caller_that_has_the_stand_in_is_told_of_copies():
    space = {"np": tg.numpy, "data": X}
    exec("def f(x):\n    y = data.copy()\n    y[0] = x[0]\n    return y.sum()", space)
    with pytest.raises(TypeError, match=r"with np.zeros, or copy it there with np.array\(a\), or"):
        tg.grad(space["f"])(X)


# --- in entered functions -------------------------------------------------------------------------


def element_outside(x):
    OUTSIDE[0] = x[0]
    return np.sum(OUTSIDE)


def part_outside(x):
    OUTSIDE[:2] = x[:2]
    return OUTSIDE.sum()


def complex_outside(x):
    z = COMPLEX + 1.0
    z /= x
    return np.sum(np.abs(z))


def evaluated(x):
    return eval("np.array([x[0], 1.0]).sum()", {"np": np, "x": x})


INSIDE = (
    r"make the array inside the function with np.zeros, or copy it there with np.array\(a\), or"
)


def applied(function, x):
    return function(x)


ENTERED = {
    "element": (element_outside, INSIDE),
    "part": (part_outside, INSIDE),
    "out=": (lambda x: np.sin(x, out=OUTSIDE), INSIDE),
    "complex": (complex_outside, r"make the array with tg.zeros\(…, dtype=complex\)$"),
    "passed": (
        lambda x: applied(math.sin, x[0]),
        r"math.sin.*; call it by its name: .* passed, give lambda v: math.sin\(v\), or np.sin",
    ),
    "array": (
        lambda x: STORED.array([x[0], 1.0]),
        "; call NumPy's functions by their names, np.array of a list too, not ones that are stored",
    ),
    "list": (lambda x: np.sum(X + [x[0], 1.0, 2.0]), "by their names, np.array of a list too, not"),
    "scipy": (lambda x: STORED.simpson(x), "simpson.*; call it by its name: one that is stored"),
    "stored by another name": (
        lambda x: vars(STORED)["sin"](x[0]),
        r"; call float\(\) and functions of math by their names: .* give lambda v",
    ),
    "not entered": (evaluated, f"<string>:1.*; {CHANGE} keeps it"),
    "no derivative": (
        lambda x: scipy.stats.ppcc_max(x),
        r"^tapegrad: scipy.stats.ppcc_max\(\).*; minimize the negative log likelihood",
    ),
}


@needs("cpython-bytecode")
@pytest.mark.parametrize("name", ENTERED)
def test_advice_in_entered_functions(name, monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    f, text = ENTERED[name]
    with pytest.raises(tg.DerivativeLost) as raised:
        tg.grad(f)(X)
    assert re.search(text, str(raised.value))
    assert ("import tapegrad" in str(raised.value)) == (name == "not entered")


def test_what_is_advised_in_entered_functions(monkeypatch):
    """Arrays made or copied inside, functions called by their names."""
    monkeypatch.setattr(tg.config, "enter", True)

    def f(x):
        y, z = np.zeros(3), np.array(OUTSIDE)
        y[0], z[:2] = math.sin(x[0]), x[:2]
        w = tg.zeros(3, dtype=complex)
        w[...] = COMPLEX + 1.0
        w /= x
        return (
            np.sum(y) + np.sum(z) + np.sum(np.abs(w)) + scipy.integrate.simpson(x)
            + np.sum(np.array(X) + np.array([x[0], 1.0, 2.0])) + np.float64(x[0])
        )  # fmt: skip

    step = 1e-6 * np.eye(3)
    wanted = [(float(f(X + e).real) - float(f(X - e).real)) / 2e-6 for e in step]
    np.testing.assert_allclose(tg.grad(f)(X), wanted, rtol=1e-7)

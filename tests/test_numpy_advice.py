"""Where plain NumPy would lose a derivative: errors name the line and the import to change."""

import math
import re

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from assumed import needs

import tapegrad as tg

X = np.array([1.2, 0.7, 2.1])


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
    return tg.grad(lambda x: f(x) or x[0])(X)


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
        (lambda x: scipy.stats.norm.logpdf(x), r"scipy.stats.norm.logpdf\(\) .*write the density"),
        (lambda x: scipy.stats.norm.logpdf(x[0]), r"scipy.stats.norm.logpdf\(\) .*the density"),
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

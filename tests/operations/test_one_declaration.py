"""A declaration is known everywhere: some are added, and used in every way there is."""

import math
import operator

import numpy as np
import pytest
import scipy.special
from assumed import needs
from compiled import same

import tapegrad as tg
import tapegrad.math
import tapegrad.numpy
import tapegrad.scipy
from tapegrad._core.operations.declaring import declared
from tapegrad._core.operations.elementwise_functions import made_public
from tapegrad._core.ops.table import _MEANT, TABLE, pointwise
from tapegrad._core.tape import store
from tapegrad._core.tensor.registry import OF_NUMPY, PUBLIC, declared_by

DECLARED = {
    "exprel": (
        *("x", "np.expm1(x) / x", "(np.exp(x) - out) / x"),
        dict(numpy="scipy.special.exprel"),
    ),
    "boxcox": (
        *("x y", "np.expm1(y * np.log(x)) / y", "np.power(x, y - 1.0)"),
        "(np.power(x, y) * np.log(x) - out) / y",
        dict(numpy="scipy.special.boxcox"),
    ),
    "blended": ("x y z", "x * y + (1.0 - x) * z", "y - z", "x", "1.0 - x", {}),
    "crossed": ("x y z u", "x * y - np.sin(z) * u", "y", "x", "-np.cos(z) * u", "-np.sin(z)", {}),
}
#: Those that the package declares, too: they are declared anew.
SCIPYS = "exprel", "boxcox"
#: What they compute, of plain numbers and arrays.
PLAIN = {
    "exprel": scipy.special.exprel,
    "boxcox": scipy.special.boxcox,
    "blended": lambda x, y, z: x * y + (1.0 - x) * z,
    "crossed": lambda x, y, z, u: x * y - np.sin(z) * u,
}
#: Operands after the first.
REST = {"exprel": (), "boxcox": (1.5,), "blended": (0.3, -0.8), "crossed": (0.3, -0.8, 1.7)}
RNG = np.random.default_rng(8)
VECTORS = RNG.uniform(0.2, 1.6, (8, 4))


def _moments(a, *, power):
    """Means of powers of rows."""
    return np.mean(a**power, -1)


def _moments_vjp(np, g, _out, a, power):
    return (g[..., None] * (power / a.shape[-1]) * np.power(a, power - 1.0),)


@pytest.fixture(scope="module", autouse=True)
def _declarations():
    """The declarations, made while compiled code is running."""
    tg.grad(lambda x: x * x)(1.0)
    added = dict(TABLE), dict(OF_NUMPY), {name: PUBLIC[name] for name in PUBLIC.early()}
    theirs = {name: (TABLE.pop(name), OF_NUMPY.pop(name), _MEANT.pop(name)) for name in SCIPYS}
    for name, (inputs, value, *partials, fields) in DECLARED.items():
        op = pointwise(name, inputs, value, *partials, doc=name, apart=True, **fields)
        store.enter(op)
        made_public(op)
    shape = lambda a, *, power: a[:-1]
    PUBLIC["moments"] = declared(vjp=_moments_vjp, shape=shape, example="x")(_moments)
    yield
    for table, before in zip((TABLE, OF_NUMPY, PUBLIC), added, strict=True):
        for name in [*dict.keys(table)]:
            if name not in before:
                del table[name]
    for name, (op, function, meant) in theirs.items():
        TABLE[name], OF_NUMPY[name], _MEANT[name] = op, function, meant


def function_of(name):
    """The function that is an operation: SciPy's, or ours where SciPy has none."""
    return getattr(scipy.special, name, None) or PUBLIC[name]


every_name = pytest.mark.parametrize("name", DECLARED)


def difference(f, x):
    """A gradient by differences of the fourth order."""
    found, h = np.zeros(len(x)), 1e-3
    for k, e in enumerate(np.eye(len(x)) * h):
        found[k] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h)
    return found


def straight(function, rest):
    return lambda x: np.sum(function(x, *rest) * x) + function(x[0], *rest)


def branching(function, rest):
    def f(x):
        total = x[0] * 0.0
        for k in range(len(x)):
            if x[k] > 0.7:
                total = total + function(x[k] * x[0], *rest)
            else:
                total = total - x[k] * function(x[k], *rest) ** 2
        return total + np.sum(function(x, *rest))

    return f


@every_name
def test_eagerly_and_in_a_program(name):
    function, rest = function_of(name), REST[name]
    f, plain = straight(function, rest), straight(PLAIN[name], rest)
    c = tg.compile(f)
    for x in VECTORS:
        value, gradient = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, plain(x), 1e-13)
        np.testing.assert_allclose(gradient, difference(plain, x), 1e-8, 1e-9)
        same(c.value_and_grad(x), (value, gradient))
        v = np.cos(x)
        same(c.hvp(x, v), tg.hvp(f)(x, v), 1e-11)
    np.testing.assert_allclose(tg.hvp(f)(x, v), difference(lambda x: tg.grad(f)(x) @ v, x), 1e-7)


@needs("numba-reader")
@every_name
@pytest.mark.parametrize("native", [False, True])
def test_in_a_graph(name, native, tmp_path):
    function, rest = function_of(name), REST[name]
    f, plain = branching(function, rest), branching(PLAIN[name], rest)
    c = tg.compile(f, native=native)
    for x in VECTORS:
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), 1e-13)
        np.testing.assert_allclose(gradient, difference(plain, x), 1e-8, 1e-9)
        same(c.hvp(x, x), tg.hvp(f)(x, x), 1e-10)
        if native:
            c.wait()
    (flow,) = c._flows.found.values()
    assert flow.primal.life.state == ("native" if native else "interpreted")
    assert name in {step.op for step in flow.primal.program.graph.steps()}
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for x in VECTORS:
        same(loaded.value_and_grad(x), tg.value_and_grad(f)(x))


@every_name
def test_in_a_batch(name):
    function, rest = function_of(name), REST[name]
    f = straight(function, rest)
    wanted = [tg.grad(f)(x) for x in VECTORS]
    for mapped in (tg.vmap(tg.grad(f)), tg.compile(tg.vmap(tg.grad(f)))):
        np.testing.assert_allclose(mapped(VECTORS), wanted, 1e-12)


def within(function, count):
    """A user's function of so many numbers that calls another one."""
    return (
        lambda x: function(x) * x,
        lambda x, y: function(x, y) * x,
        lambda x, y, z: function(x, y, z) * x,
        lambda x, y, z, u: function(x, y, z, u) * x,
    )[count - 1]


@needs("numba-reader")
@every_name
def test_in_a_function_of_a_users(name):
    rest = REST[name]
    made = tg.elementwise(within(function_of(name), 1 + len(rest)))
    f, plain = [branching(one, rest) for one in (made, within(PLAIN[name], 1 + len(rest)))]
    c = tg.compile(f)
    for x in VECTORS:
        value, gradient = c.value_and_grad(x)
        same((value, gradient), tg.value_and_grad(f)(x))
        np.testing.assert_allclose(value, plain(x), 1e-13)
        np.testing.assert_allclose(gradient, difference(plain, x), 1e-8, 1e-9)
    (flow,) = c._flows.found.values()
    ops = {step.op for step in flow.primal.program.graph.steps()}
    assert made.declaration.name in ops and name not in ops
    with pytest.raises(ValueError, match="which files have no name for"):
        c.save("nowhere.npz")


def test_who_means_what():
    meant = {
        "arcsin": (math.asin, np.arcsin, tg.arcsin, tapegrad.math.asin, tapegrad.numpy.asin),
        "absolute": (abs, np.abs, np.fabs, math.fabs, operator.abs, tg.abs),
        "sigmoid": (scipy.special.expit, tg.sigmoid, tapegrad.scipy.special.expit),
        "digamma": (scipy.special.psi, scipy.special.digamma, tapegrad.scipy.special.psi),
        "less": (np.less, operator.lt, tapegrad.numpy.less),
        "isnan": (np.isnan, math.isnan, tg.isnan),
        "where": (np.where, tg.where, tapegrad.numpy.where),
    }
    for name, functions in meant.items():
        assert {declared_by(one).name for one in functions} == {name}
    others = (math.remainder, np.positive, np.sum, len, 3, None, type, [], test_who_means_what)
    assert [declared_by(one) for one in others] == [None] * len(others)


def test_whole_arrays():
    """Graphs do not know these: then a function is recorded for each of its ways."""
    moments = PUBLIC["moments"]

    def f(a):
        made = moments(a * a, power=3) * (2.0 if a[0, 0] > 0.7 else -1.0)
        return np.sum(made * made)

    def plain(x):
        a = x.reshape(2, 2)
        made = np.mean(a**6, -1) * (2.0 if a[0, 0] > 0.7 else -1.0)
        return np.sum(made * made)

    c = tg.compile(f)
    matrices = VECTORS.reshape(-1, 2, 2)
    for a in matrices:
        found = c.value_and_grad(a)
        same(found, tg.value_and_grad(f)(a))
        np.testing.assert_allclose(found[0], plain(a.ravel()), 1e-13)
        np.testing.assert_allclose(found[1].ravel(), difference(plain, a.ravel()), 1e-7, 1e-8)
    gradients = [tg.grad(lambda a: np.sum(moments(a, power=3)))(a) for a in matrices]
    batch = tg.vmap(tg.grad(lambda a: np.sum(moments(a, power=3))))(matrices)
    np.testing.assert_allclose(batch, gradients, 1e-12)

"""What errors of lost derivatives say: the user's line, the function that refuses, what works."""

import re
import sys
import types

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial
import scipy.special
import scipy.stats

import tapegrad as tg
from tapegrad._core.tensor import callers
from tapegrad._core.tensor.callers import has_derivative

X = np.array([2.0, 1.0])
AT = np.linspace(0.5, 3.0, 4)
MATRIX = scipy.sparse.csr_array([[2.0, 1.0], [0.0, 3.0]])


def cubic(x, p):
    return x**3 + p[0] * x - p[1]


def contraction(x, p):
    return p[1] / (x * x + p[0])


def away(x, p):
    return np.sum((x - p) ** 4 + (x - p) ** 2)


def decay(t, y, p):
    return -p[0] * y


#: Calls that lose the derivative, by the name that the error gives.
CALLS = {
    "optimize.brentq": lambda p: scipy.optimize.brentq(cubic, -5.0, 5.0, (p,)),
    "optimize.bisect": lambda p: scipy.optimize.bisect(lambda x: cubic(x, p), -5.0, 5.0),
    "optimize.toms748": lambda p: scipy.optimize.toms748(lambda x: cubic(x, p), -5.0, 5.0),
    "optimize.root_scalar": lambda p: (
        scipy.optimize.root_scalar(lambda x: cubic(x, p), bracket=(-5.0, 5.0)).root
    ),
    "optimize.fsolve": lambda p: scipy.optimize.fsolve(lambda x: cubic(x, p), [1.0])[0],
    "optimize.root": lambda p: scipy.optimize.root(lambda x: cubic(x, p), [1.0]).x[0],
    "optimize.fixed_point": lambda p: scipy.optimize.fixed_point(lambda x: contraction(x, p), 1.0),
    "optimize.minimize": lambda p: (
        scipy.optimize.minimize(lambda x: away(x, p) + p[0] * x[1], 0.9 * X, tol=1e-8).fun
    ),
    "optimize.minimize_scalar": lambda p: scipy.optimize.minimize_scalar(lambda x: away(x, p[0])).x,
    "optimize.least_squares": lambda p: scipy.optimize.least_squares(lambda x: x - p, X).x[0],
    "optimize.leastsq": lambda p: scipy.optimize.leastsq(lambda x: x - p, X)[0][0],
    "optimize.curve_fit": lambda p: scipy.optimize.curve_fit(lambda t, a: a * t, X, p)[0][0],
    "integrate.quad": lambda p: scipy.integrate.quad(lambda s: s * p[0], 0.0, 1.0)[0],
    "integrate.solve_ivp": lambda p: scipy.integrate.solve_ivp(
        lambda t, y: decay(t, y, p), (0.0, 1.0), [1.0], rtol=1e-10, atol=1e-12
    ).y[0, -1],
    "interpolate.CubicSpline": lambda p: scipy.interpolate.CubicSpline([0.0, 1.0], p)(0.5),
    "interpolate.make_interp_spline": lambda p: scipy.interpolate.make_interp_spline(
        [0.0, 1.0], p, 1
    )(0.5),
    "sparse.csr_array.multiply": lambda p: MATRIX.multiply(p).sum(),
    "sparse.linalg.spsolve": lambda p: np.sum(scipy.sparse.linalg.spsolve(MATRIX.tocsc(), p)),
    "spatial.distance.cdist": lambda p: np.sum(
        scipy.spatial.distance.cdist(p[:, None], AT[:, None])
    ),
    "stats.gamma.logpdf": lambda p: np.sum(scipy.stats.gamma.logpdf(AT, p[0])),
    "stats.norm.cdf": lambda p: scipy.stats.norm.cdf(p[0]),
    "special.agm": lambda p: scipy.special.agm(1.0, p[0]),
    # those that `tapegrad.scipy` has
    "linalg.cho_factor": lambda p: np.sum(scipy.linalg.cho_factor(np.eye(2) * p[0])[0]),
    "linalg.solve_triangular": lambda p: np.sum(scipy.linalg.solve_triangular(np.eye(2) * p[0], X)),
    "linalg.expm": lambda p: np.sum(scipy.linalg.expm(np.eye(2) * p[0])),
    "signal.lfilter": lambda p: np.sum(scipy.signal.lfilter(p, [1.0], AT)),
    "integrate.simpson": lambda p: scipy.integrate.simpson(p),
}


@pytest.fixture(params=[False, True], ids=["", "entered"])
def entered(request, monkeypatch):
    """Whether functions are entered."""
    monkeypatch.setattr(tg.config, "enter", request.param)
    return request.param


def refusal(f, x=X):
    with pytest.raises(tg.DerivativeLost) as raised:
        tg.grad(f)(x)
    return str(raised.value)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_scipy_is_called_by_its_name(name, entered, capfd):
    if entered and has_derivative(name):
        tg.grad(CALLS[name])(X)
        return
    first, last = CALLS[name].__code__.co_firstlineno, 3
    for _ in range(3):  # C code that goes on after an error does so differently at times
        text = refusal(CALLS[name])
        found = re.match(
            r"tapegrad: scipy\.([\w.]+)\(\) takes .*/test_refusal_advice.py:(\d+)\)", text
        )
        assert found, text
        assert found[1] == name and first <= int(found[2]) <= first + last
        wanted = callers.of_scipy(name)
        if has_derivative(name):
            wanted = f"`from tapegrad.scipy import {name.partition('.')[0]}` has one that keeps it"
        assert wanted in text
        assert "custom_vjp" not in text and "_lib" not in text
    capfd.readouterr()


@pytest.mark.parametrize("name", [name for name in CALLS if not has_derivative(name)])
def test_the_stand_in_gives_the_same_advice_and_no_circle(name):
    """With `tapegrad.scipy` in place of SciPy in the same call."""
    call = CALLS[name]
    space = {**call.__globals__, "scipy": tg.scipy}
    again = types.FunctionType(call.__code__, space, call.__name__, None, call.__closure__)
    text = refusal(again)
    assert callers.of_scipy(name) in text
    assert name.startswith("stats") or "from tapegrad.scipy import" not in text


@pytest.mark.parametrize("name", [name for name in CALLS if has_derivative(name)])
def test_the_import_that_is_advised_works(name):
    call = CALLS[name]
    space = {**call.__globals__, "scipy": tg.scipy}
    again = types.FunctionType(call.__code__, space, call.__name__, None, call.__closure__)
    found = tg.grad(again)(X)
    step = 1e-6 * np.eye(2)
    slopes = [(call(X + one) - call(X - one)) / 2e-6 for one in step]
    np.testing.assert_allclose(found, slopes, rtol=1e-6)


# --- what is advised, run -------------------------------------------------------------------------


def root_of_one(p):
    q = tg.stop_gradient(p)
    x = scipy.optimize.brentq(lambda x: cubic(x, q), -5.0, 5.0)
    return x - cubic(x, p) / tg.grad(cubic)(x, q)


def root_of_many(p):
    def equations(x, p):
        return np.stack([x[0] ** 3 + p[0] * x[1] - p[1], x[1] - p[0] * x[0]])

    q = tg.stop_gradient(p)
    x = scipy.optimize.fsolve(lambda x: tg.asarray(equations(x, q)).numpy(), [1.0, 1.0])
    return np.sum(x - np.linalg.solve(tg.jacobian(equations)(x, q), equations(x, p)))


def point(p):
    def equation(x, p):
        return x - contraction(x, p)

    q = tg.stop_gradient(p)
    x = scipy.optimize.brentq(lambda x: equation(x, q), 0.0, 5.0)
    return x - equation(x, p) / tg.grad(equation)(x, q)


def least(p):
    q = tg.stop_gradient(p)
    x = scipy.optimize.minimize(lambda x: away(x, q).item(), X * 0.9, tol=1e-12).x
    return np.sum(x - np.linalg.solve(tg.hessian(away)(x, q), tg.grad(away)(x, p)))


def least_of_one(p):
    f, q = (lambda x, p: away(x, p[0])), tg.stop_gradient(p)
    x = scipy.optimize.minimize_scalar(lambda x: f(x, q).item()).x
    return x - tg.grad(f)(x, p) / tg.grad(tg.grad(f))(x, q)


def by_quad(p):
    return scipy.integrate.quad(lambda s: np.exp(-p[0] * s), -1.0, 1.0)[0]


def by_steps(p):
    y, h = 1.0, 0.02
    for k in range(50):
        one = decay(k * h, y, p)
        two = decay(k * h, y + h / 2 * one, p)
        three = decay(k * h, y + h / 2 * two, p)
        four = decay(k * h, y + h * three, p)
        y = y + h / 6 * (one + 2 * two + 2 * three + four)
    return y


def spline(p):
    places = np.array([0.0, 1.0])
    return np.sum(scipy.interpolate.CubicSpline(places, np.eye(2))(AT) @ p)


def distances(p):
    a, b = p[:, None], AT[:, None]
    return np.sum(np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1)))


def density(p):
    return np.sum((p[0] - 1.0) * np.log(AT) - AT - tg.scipy.special.gammaln(p[0]))


#: What the advice says, and the plain computation whose derivative it has.
WAYS = {
    "root of one": (root_of_one, CALLS["optimize.brentq"]),
    "newton": (lambda p: scipy.optimize.newton(lambda x: cubic(x, p), 1.0), root_of_one),
    "root of many": (root_of_many, root_of_many),
    "fixed point": (point, CALLS["optimize.fixed_point"]),
    "minimum": (least, lambda p: np.sum(p)),
    "minimum of one": (least_of_one, lambda p: p[0]),
    "integral": (by_quad, lambda p: 2.0 * np.sinh(p[0]) / p[0]),
    "steps": (by_steps, lambda p: np.exp(-p[0])),
    "spline": (
        spline,
        lambda p: np.sum(scipy.interpolate.CubicSpline(np.array([0.0, 1.0]), p)(AT)),
    ),
    "sparse": (
        lambda p: (p * scipy.sparse.csr_array(MATRIX)).sum(),
        CALLS["sparse.csr_array.multiply"],
    ),
    "distances": (distances, CALLS["spatial.distance.cdist"]),
    "density": (density, CALLS["stats.gamma.logpdf"]),
    "dot": (lambda p: np.sum(MATRIX.toarray() @ p), lambda p: np.sum(MATRIX.toarray().dot(p))),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_is_advised_has_the_derivative(name):
    way, plain = WAYS[name]
    p, step = np.array([2.0, 1.1]), 1e-5 * np.eye(2)
    slopes = [(float(plain(p + one)) - float(plain(p - one))) / 2e-5 for one in step]
    np.testing.assert_allclose(tg.grad(way)(p), slopes, rtol=1e-5, atol=1e-8)


def test_every_advice_is_about_something_of_scipy():
    is_old = np.lib.NumpyVersion(scipy.__version__) < "1.16.0"
    for name in {*callers.OF_SCIPY} - ({"ndimage.vectorized_filter"} if is_old else set()):
        module, _, attribute = f"scipy.{name}".rpartition(".")
        __import__(module)
        assert hasattr(sys.modules[module], attribute), name
        assert not has_derivative(name), name


# --- others ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("not_entered")
def test_a_method_of_a_plain_array():
    assert "use a @ t or np.dot(a, t)" in refusal(lambda p: np.sum(np.eye(2).dot(p)))
    assert "`import tapegrad.numpy as np`" in refusal(lambda p: np.array([p[0], 1.0])[0])


@pytest.mark.usefixtures("not_entered")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in PyObject_HasAttr"
)  # Python 3.13 tells of it
def test_functions_of_numba():
    square = numba.njit(lambda v: v * v)
    for f in (lambda p: square(p[0]), lambda p: square(p)[0]):
        text = refusal(f)
        assert "compiled by Numba" in text and "test_refusal_advice.py:" in text
    assert square(X).tolist() == [4.0, 1.0]
    assert tg.grad(tg.elementwise(numba.njit(lambda v: v * v)))(3.0) == 6.0


def test_functions_of_numpy_without_derivative():
    text = refusal(lambda p: np.sort_complex(p)[0].real)
    assert re.search(r"sort_complex\(\) is not supported .*advice.py:\d+\): complex numbers", text)


def test_a_complex_result_in_a_plain_array():
    data = np.array([1.0 + 1.0j, 2.0])

    def divided(x, zeros):
        z = zeros(2, dtype=complex)
        z[...] = data
        z /= x
        return np.sum(np.abs(z))

    def plain(x):
        z = data + 1.0
        z /= x
        return np.sum(np.abs(z))

    text = refusal(plain)
    assert "make the array with tg.zeros(…, dtype=complex)" in text
    wanted = -np.abs(data) / X**2
    np.testing.assert_allclose(tg.grad(lambda x: divided(x, tg.zeros))(X), wanted)
    np.testing.assert_allclose(tg.grad(lambda x: divided(x, tg.numpy.zeros))(X), wanted)


def test_the_real_part_can_be_written():
    def f(x):
        y = x * 1.0
        y.real = x * 2.0
        return np.sum(y)

    assert tg.grad(f)(X).tolist() == [2.0, 2.0]
    assert tg.compile(f).grad(X).tolist() == [2.0, 2.0]


class Point(types.SimpleNamespace):
    pass


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("call", [lambda f: tg.grad(f), lambda f: tg.compile(f).grad])
@pytest.mark.parametrize(
    "argument, place, kind",
    [
        ({"a": 1.0, "s": "t"}, r"\['s'\]", "str"),
        ({"s": "t", "a": 1.0}, r"\['s'\]", "str"),
        ([1.0, None], r"\[1\]", "NoneType"),
        ((1.0, {"b": True}), r"\[1\]\['b'\]", "bool"),
        (types.SimpleNamespace(a=1.0), "", "SimpleNamespace"),
        (Point(a=1.0), "", "Point"),
    ],
)
def test_arguments_that_are_no_numbers(call, argument, place, kind):
    def f(p):
        return (p.a if hasattr(p, "a") else p["a"] if isinstance(p, dict) else p[0]) * 2.0

    with pytest.raises(
        TypeError, match=rf": the argument{place} is of type {kind}; only numbers"
    ) as raised:
        call(f)(argument)
    assert ("make " in str(raised.value)) == hasattr(argument, "a")


@pytest.mark.parametrize("has_aux", [False, True])
def test_errors_begin_with_the_function_that_was_called(has_aux):
    f = (lambda v: (v * 2.0, 1)) if has_aux else (lambda v: v * 2.0)
    for transform in (tg.grad, tg.value_and_grad, tg.hessian):
        with pytest.raises(ValueError, match=rf"^tapegrad.{transform.__name__}: the function ret"):
            transform(f, has_aux=has_aux)(X)
        with pytest.raises(TypeError, match=rf"^tapegrad.{transform.__name__}: the argument is of"):
            transform(f, has_aux=has_aux)("text")
    with pytest.raises(ValueError, match=r"^tapegrad.hvp: the function returned shape"):
        tg.hvp(f, has_aux=has_aux)(X, X)
    with pytest.raises(TypeError, match=r"^tapegrad.elementwise_grad: the argument is of type str"):
        tg.elementwise_grad(lambda v: v)("text")

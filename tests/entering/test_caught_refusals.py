"""Lost derivatives whose error the function catches, or C code: the transform raises it."""

import array
import gc
import math
import statistics
import struct
import threading
import warnings
import weakref

import numpy as np
import pytest
import scipy.optimize
import scipy.special

import tapegrad as tg
from tapegrad.scipy import interpolate

X = np.array([0.5, 2.0])
LIMIT = 1e3


def limited(f, x):
    """A value, and a limit where there is none: as careful code is written."""
    try:
        return f(x)
    except Exception:
        return LIMIT


def careful(x):
    return limited(math.exp, x[0]) * x[1]


MANY = np.stack([X] * 20)
#: Each differentiates what it is given.
TRANSFORMS = {
    "grad": lambda f: tg.grad(f)(X),
    "grad of a tree": lambda f: tg.grad(lambda p: f(p["x"]))({"x": X}),
    "value_and_grad": lambda f: tg.value_and_grad(f)(X),
    "has_aux": lambda f: tg.grad(lambda x: (f(x), 1.0), has_aux=True)(X),
    "elementwise_grad": lambda f: tg.elementwise_grad(f)(X),
    "jacobian": lambda f: tg.jacobian(f)(X),
    "hessian": lambda f: tg.hessian(f)(X),
    "hvp": lambda f: tg.hvp(f)(X, X),
    "vjp": lambda f: tg.vjp(f, X),
    "jvp": lambda f: tg.jvp(f, (X,), (X,)),
    "record": lambda f: tg.record(f, X),
    "functional": lambda f: tg.autograd.functional.jacobian(f, tg.tensor(X)),
    "gradcheck": lambda f: tg.autograd.gradcheck(f, tg.tensor(X, requires_grad=True)),
    "vmap of grad": lambda f: tg.vmap(tg.grad(f))(MANY),
    "grad of vmap": lambda f: tg.grad(lambda x: np.sum(tg.vmap(f)(x)))(MANY),
    "grad around a caught vmap": lambda f: tg.grad(
        lambda x: np.sum(limited(tg.vmap(f), x) * x)  # its own call is for one of the elements
    )(MANY),
    "grad around a caught grad": lambda f: tg.grad(lambda x: np.sum(limited(tg.grad(f), x) * x))(X),
    "compiled grad": lambda f: tg.compile(f).grad(X),
    "without checks": lambda f: tg.compile(f, verify="never").grad(X),
    "native": lambda f: tg.compile(f, native=True).grad(X),
    "compiled hessian": lambda f: tg.compile(f).hessian(X),
    "compiled jvp": lambda f: tg.compile(f).jvp((X,), (X,)),
    "compiled jacobian": lambda f: tg.compile(f).jacobian(X),
    "compiled transform": lambda f: tg.compile(tg.grad(f))(X),
    "grad of compiled": lambda f: tg.grad(tg.compile(f))(X),
    "grad around a caught compiled": lambda f: tg.grad(lambda x: limited(tg.compile(f), x) * x[0])(
        X
    ),
}


@pytest.mark.filterwarnings("ignore:tapegrad:RuntimeWarning")  # vmap, compile: why eagerly
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_transform_raises_what_its_function_has_caught(transform):
    text = r"^tapegrad: math.exp\(\) of a recorded .*test_caught_refusals.py:\d+\); .*np.exp"
    for _ in range(2):
        with pytest.raises(tg.DerivativeLost, match=text) as raised:
            transform(careful)
        assert isinstance(raised.value, TypeError)
        assert any(entry.name == "limited" for entry in raised.traceback)  # where it was caught


@pytest.mark.parametrize("verify", ["once", "never", "always"])
def test_values_of_a_compiled_function_are_those_of_the_function(verify):
    """Recorded, math.exp would be refused, and the limit taken."""
    c = tg.compile(careful, verify=verify)
    with pytest.warns(RuntimeWarning, match="runs eagerly, .*math.exp"):
        assert c(X) == math.exp(0.5) * 2.0
    assert c(-X) == math.exp(-0.5) * -2.0


@pytest.mark.parametrize("verify", ["once", "never", "always"])
@pytest.mark.parametrize(
    "take, name",
    [
        (lambda d: np.sort_complex(d).real[0], "sort_complex"),
        (lambda d: scipy.special.agm(1.0, d)[0], "agm"),
        (lambda d: d.tobytes()[-1], "tobytes"),
    ],
)
def test_data_of_a_compiled_function_that_are_refused_while_it_is_recorded(verify, take, name):
    """Called as it is, the function takes them."""
    d = np.array([3.0, 1.0, 2.0])
    wanted = take(d)
    c = tg.compile(lambda x, d: limited(take, d) * x[0] * x[1], verify=verify)
    with pytest.warns(RuntimeWarning, match=rf"runs eagerly, .*{name}"):
        assert c(X, d) == wanted
    assert np.array_equal(c.grad(X, d), wanted * X[::-1])
    assert np.array_equal(c.grad(X, d), wanted * X[::-1])


@pytest.mark.filterwarnings("ignore:tapegrad:RuntimeWarning")
@pytest.mark.parametrize("verify", ["once", "never", "always"])
@pytest.mark.parametrize("many", [False, True])
def test_another_branch_of_a_compiled_function_that_has_programs(verify, many):
    def f(x):
        y = x * x[1] if x[0] > 0.0 else limited(math.exp, x[0]) * x
        return y if many else np.sum(y)

    c = tg.compile(f, verify=verify)
    for _ in range(3):
        c(X)
        assert np.allclose(tg.grad(lambda x: np.sum(c(x)))(X), [2.0, 4.5])
    for outer in (tg.grad, tg.hessian, lambda g: lambda x: tg.jvp(g, (x,), (x,))):
        with pytest.raises(tg.DerivativeLost):
            outer(lambda x: limited(lambda y: np.sum(c(y)), x) * x[0])(-X)


# --- what is refused ------------------------------------------------------------------------------


def written(x):
    made = np.zeros(2)
    made[:] = x
    return made


REFUSED = {
    "float": lambda x: float(x[0]),
    "complex": lambda x: complex(x[0]),
    "complex of a complex": lambda x: complex(x[0] * 1j),
    "tolist": lambda x: x.tolist()[0],
    "tolist of a complex": lambda x: (x * 1j).tolist()[0],
    "math": lambda x: math.gamma(x[0]),
    "tapegrad.math": lambda x: tg.math.ulp(x[0]),
    "statistics": lambda x: statistics.mean([x[0], x[1]]),
    "struct": lambda x: struct.unpack("d", struct.pack("d", x[0]))[0],
    "array": lambda x: array.array("d", [x[0]])[0],
    "np.asarray": lambda x: np.asarray(x)[0],
    "np.asarray of a complex": lambda x: np.asarray(x * 1j)[0].imag,
    "np.array of a list": lambda x: np.array([x[0], 1.0])[0],
    "write": lambda x: written(x)[0],
    "flat": lambda x: np.zeros(2).flat.__setitem__(0, x[0]),
    "out=": lambda x: np.sin(x, out=np.zeros(2))[0],
    "polynomial": lambda x: (np.polynomial.Polynomial([1.0, 2.0]) + x)(0.0),
    "tapegrad.numpy": lambda x: next(iter(tg.numpy.nditer(x))),
    "no derivative": lambda x: np.sort_complex(x)[0].real,
    "ufunc without derivative": lambda x: scipy.special.elliprj(x[0], 1.0, 2.0, 3.0),
    "method": lambda x: x.tobytes()[0],
    "reduce": lambda x: np.divide.reduce(x),
    "function without derivative": lambda x: interpolate.bisplrep(x, x, x)[2][0],
    "random": lambda x: tg.numpy.random.default_rng(0).poisson(x)[0],
    "scipy": lambda x: scipy.optimize.minimize_scalar(lambda s: (s - x[0]) ** 2).x,
    "brentq": lambda x: scipy.optimize.brentq(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0),
    "bisect": lambda x: scipy.optimize.bisect(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0),
    "ridder": lambda x: scipy.optimize.ridder(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0),
    "odeint": lambda x: scipy.integrate.odeint(lambda y, t: -x[0] * y, [1.0], [0.0, 1.0])[1, 0],
    "fsolve": lambda x: scipy.optimize.fsolve(lambda s: s**3 + x[0] * s - x[1], [1.0])[0],
    "root": lambda x: scipy.optimize.root(lambda s: s**3 + x[0] * s - x[1], [1.0]).x[0],
    "leastsq": lambda x: scipy.optimize.leastsq(lambda s: s - x, X)[0][0],
}


#: Those that entered functions keep.
KEPT = (
    "complex|complex of a complex|tolist|tolist of a complex|"
    "float|math|np.asarray|np.asarray of a complex|np.array of a list|write|flat|out=|polynomial|"
    "scipy|brentq|bisect|ridder|odeint|fsolve|root|leastsq"
).split("|")
RUNS = [
    (name, enter) for name in REFUSED for enter in (False, True) if not enter or name not in KEPT
]


@pytest.mark.parametrize("name, enter", RUNS)
def test_every_refusal_is_remembered(name, enter, capfd, monkeypatch):
    """Caught by the function, by a library, or by C code that goes on, in each of many runs."""
    monkeypatch.setattr(tg.config, "enter", enter)
    take = REFUSED[name]
    for _ in range(5):
        for f in (lambda x: limited(take, x) * x[1], lambda x: take(x) * x[1]):
            with pytest.raises(tg.DerivativeLost):
                tg.grad(f)(X)
        assert np.array_equal(tg.grad(lambda x: np.sum(x * x))(X), 2 * X)  # nothing is left over
    capfd.readouterr()  # MINPACK prints errors of callbacks


def test_values_that_are_not_differentiated_are_not_refused():
    data, inner = tg.tensor(X), []

    def f(x):
        assert float(data[0]) == 0.5 and np.asarray(data)[1] == 2.0
        with tg.no_grad():
            inner.append(float(x[0]))
        return math.exp(x[0].detach()) * x[1]

    assert np.array_equal(tg.grad(f)(X), [0.0, math.exp(0.5)]) and inner == [0.5]


PROBES = {
    "index": lambda t: t.__index__(),
    "len": len,
    "iter": iter,
    "float of text": lambda t: float("t"),
    "shapes that differ": lambda t: np.ones(3) + np.ones(2) * t,
    "numpy's error": lambda t: np.linalg.inv(np.zeros((2, 2)) * t),
    "no attribute": lambda t: t.nothing,
    "scalar": np.isscalar,
    "equal": lambda t: np.array_equal(t, 0.5) and np.testing.assert_array_equal(t, 0.25),
}


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_errors_that_plain_values_raise_too_are_no_refusals(probe):
    def f(x):
        limited(probe, x[0])
        return x[0] * x[1]

    assert np.array_equal(tg.grad(f)(X), [2.0, 0.5])


# --- whose refusal it is --------------------------------------------------------------------------


def test_an_error_of_the_users_own_is_not_replaced():
    def f(x):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        tg.grad(f)(X)

    def caught(x):
        try:
            raise TypeError("mine")
        except TypeError:
            return x[0] * x[1]

    assert np.array_equal(tg.grad(caught)(X), [2.0, 0.5])


def test_an_error_that_the_user_raises_elsewhere_passes():
    def f(x):
        try:
            float(x)
        except TypeError:
            pass
        raise FileNotFoundError("data.csv")

    for transform in (tg.grad, tg.value_and_grad, tg.jacobian, tg.hessian):
        with pytest.raises(FileNotFoundError, match="data.csv"):
            transform(f)(1.0)


def test_another_error_after_a_refusal_does_not_hide_it():
    def f(x):
        try:
            (lambda exp: exp(x[0]))(math.exp)
        except TypeError as error:
            raise ValueError("no convergence") from error

    with pytest.raises(tg.DerivativeLost, match="math.exp"):
        tg.grad(f)(X)


def test_an_interrupt_is_not_replaced():
    def f(x):
        limited(math.exp, x[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tg.grad(f)(X)
    assert np.array_equal(tg.grad(lambda x: np.sum(x * x))(X), 2 * X)


def test_of_nested_transforms_those_raise_that_differentiate():
    """An inner gradient that fails for constants is handled; the outer derivative is complete."""

    def f(x):
        return limited(tg.grad(careful), X) * x[0] * x[1]

    assert np.array_equal(tg.grad(f)(X), LIMIT * X[::-1])

    def g(x):  # refused for what the outer alone differentiates
        return tg.grad(lambda y: limited(lambda _: limited(math.exp, x[0]), y) * y)(1.0) * x[1]

    with pytest.raises(tg.DerivativeLost) as raised:
        tg.grad(g)(X)
    assert sum(entry.name == "evaluate" for entry in raised.traceback) == 2  # the outer's, grad


def test_a_thread_that_the_function_starts():
    def f(x):
        thread = threading.Thread(target=limited, args=(math.exp, x[0]))
        thread.start()
        thread.join()
        return x[0] * x[1]

    with pytest.raises(tg.DerivativeLost):
        tg.grad(f)(X)


def test_threads_with_transforms_of_their_own():
    seen, wait = [], threading.Barrier(4)

    def refused(k):
        wait.wait()
        for _ in range(20):
            with pytest.raises(tg.DerivativeLost):
                tg.grad(careful)(X)
            seen.append(np.array_equal(tg.grad(lambda x: x[0] * x[1])(X), [2.0, 0.5]))

    threads = [threading.Thread(target=refused, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 80


def test_generators():
    def steps(x):
        try:
            yield (lambda exp: exp(x[0]))(math.exp)
        except TypeError:
            yield 1.0

    with pytest.raises(tg.DerivativeLost):
        tg.grad(lambda x: next(steps(x)) * x[1])(X)

    def left(x):  # an inner transform that is never ended is dropped with its refusal
        def body(y):
            limited(math.exp, y)
            yield y

        return tg.grad(lambda y: next(body(y * 1.0)))(2.0)

    with pytest.raises(tg.DerivativeLost):
        left(X)
    assert np.array_equal(tg.grad(lambda x: limited(left, X) * x[0])(X), [LIMIT, 0.0])


def test_an_error_of_a_call_before_is_not_that_of_this_one():
    kept = []

    def f(x):
        if not kept:
            try:
                (lambda exp: exp(x[0]))(math.exp)
            except TypeError as error:
                kept.append(error)
        return x[0] * x[1]

    with pytest.raises(tg.DerivativeLost):
        tg.grad(f)(X)
    assert np.array_equal(tg.grad(f)(X), [2.0, 0.5])


def test_what_a_refusal_holds_is_dropped_with_the_transform():
    class Held:
        pass

    def f(x):
        held = Held()
        alive.append(weakref.ref(held))
        for _ in range(3):
            limited(math.exp, x[0])
        return x[1]

    alive: list = []
    for _ in range(3):
        with pytest.raises(tg.DerivativeLost):
            tg.grad(f)(X)
    gc.collect()
    assert [one() for one in alive] == [None] * 3


def test_warnings_of_what_is_computed_with_the_limit_do_not_come_first():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tg.DerivativeLost):
            tg.grad(lambda x: limited(math.exp, x[0]) * np.log(np.zeros(2))[0] * x[1])(X)

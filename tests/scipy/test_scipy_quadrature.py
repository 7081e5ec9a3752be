"""SciPy's integrals of functions, beside closed forms: limits, args, closures, nested, singular."""

import ctypes
import ctypes.util
import math
import threading

import numpy as np
import pytest
import scipy
import scipy.integrate as quadrature
import scipy.special
from scipy.integrate import dblquad, nquad, quad, quad_vec, tplquad

import tapegrad as tg

P = np.array([1.3, 0.9, 0.4])
ROOT = math.sqrt(math.pi)
COSINE = ctypes.CDLL(ctypes.util.find_library("m")).cos
COSINE.restype, COSINE.argtypes = ctypes.c_double, [ctypes.c_double]


class Decay:
    """An integrand that is a method, and one that is an object."""

    def __init__(self, rate):
        self.rate = {"rate": [rate]}

    def at(self, x):
        return np.exp(-self.rate["rate"][0] * x)

    def __call__(self, x):
        return self.at(x)


def between(p, a, b):
    """The integral of exp(-p x)."""
    return (np.exp(-p * a) - np.exp(-p * b)) / p


def helper(p):
    rate = p[0]

    def inner(x):
        return np.exp(-rate * x)

    return quad(lambda x: p[1] * inner(x), 0, p[2])[0]


def in_a_loop(p):
    total = 0.0
    for k in range(3):

        def power(x):
            return x**k

        total = total + (k + 1) * quad(lambda x: p[0] * power(x), p[2], p[1])[0]
    return total


def powers(p, low, high):
    return sum(p[0] * (high ** (k + 1) - low ** (k + 1)) for k in range(3))


def branching(x, p):
    if x < 0.5:
        return p[0] * x
    return p[1] * x * x if x < 0.8 else 1.0


def by_complex(p):
    made = quad(lambda x: np.exp(1j * p[0] * x), 0, p[1], complex_func=True)[0]
    return made.real + 2.0 * made.imag


def by_vector(p):
    return np.sum(quad_vec(lambda x: np.exp(-p[:2] * x), 0, p[2])[0] * np.array([1.0, 2.0]))


def by_complex_vector(p):
    made = quad_vec(lambda x, q: np.exp(1j * q * x), 0, 1, args=(p[:2],))[0]
    return np.sum(np.real(made) + 2.0 * np.imag(made))


def jumps(p):
    def f(x):
        return np.array([1.0 + 0.0 * x, x]) if x < p[2] else np.array([0.0 * x, 1.0 + 0.0 * x])

    return np.sum(quad_vec(f, 0, p[1], points=[p[2]])[0] * np.array([1.0, 3.0]))


def waves(q, b):
    return np.sin(q * b) / q + 2.0 * (1.0 - np.cos(q * b)) / q


def matrix(p):
    made = quad_vec(lambda x: x * p[:2, None] * p[1:], 0.0, 2.0, points=[0.5], epsrel=1e-10)[0]
    return np.sum(made**2)


def region(p):
    return dblquad(lambda y, x, a: a * x * y, p[2], p[1], lambda x: p[2] * x, lambda x: x, (p[0],))[
        0
    ]


def corner(p):
    ranges = [lambda y, z: [0, p[1] * y], lambda z: (0, z), [0, p[0]]]
    return nquad(lambda x, y, z: p[2] * x, ranges)[0]


def split(p):
    opts = [lambda y: {"points": [y]}, {"epsabs": 1e-10}]
    return nquad(lambda x, y: p[0] * abs(x - y), [[0, 1], [0, p[1]]], opts=opts)[0]


def pyramid(p):
    return tplquad(
        lambda z, y, x, a: a * z,
        0,
        p[1],
        0,
        lambda x: x,
        lambda x, y: p[2] * y,
        lambda x, y: y,
        (p[0],),
    )[0]


#: The integral as users write it, and what it is.
INTEGRALS = {
    "args": (lambda p: quad(lambda x, a, b: a * np.exp(-b * x), 0, 1, args=(p[0], p[1]))[0],
             lambda p: p[0] * between(p[1], 0, 1)),
    "an array": (lambda p: quad(lambda x, q: q[0] * np.exp(-q[1] * x), 0, 1, (p,))[0],
                 lambda p: p[0] * between(p[1], 0, 1)),
    "limits": (lambda p: quad(lambda x: 1.0 / x, p[2], p[1] ** 2)[0],
               lambda p: np.log(p[1] ** 2 / p[2])),
    "limits, args and closure": (
        lambda p: quad(lambda x, a: p[1] * np.exp(-a * x), p[2], p[1], args=(p[0],))[0],
        lambda p: p[1] * between(p[0], p[2], p[1])),
    "from high to low": (lambda p: quad(lambda x: np.exp(-p[0] * x), p[1], p[2])[0],
                         lambda p: between(p[0], p[1], p[2])),
    "to infinity": (lambda p: quad(lambda x: np.exp(-p[0] * x), p[1], np.inf)[0],
                    lambda p: np.exp(-p[0] * p[1]) / p[0]),
    "from minus infinity": (lambda p: quad(lambda x: np.exp(p[0] * x), -np.inf, p[1])[0],
                            lambda p: np.exp(p[0] * p[1]) / p[0]),
    "all numbers": (lambda p: quad(lambda x: np.exp(-p[0] * x * x), -np.inf, np.inf)[0],
                    lambda p: ROOT / np.sqrt(p[0])),
    "a singular end": (lambda p: quad(lambda x: p[0] / np.sqrt(x), 0, p[1])[0],
                       lambda p: 2.0 * p[0] * np.sqrt(p[1])),
    "points": (lambda p: quad(lambda x: p[0] * abs(x - 0.3), 0, p[1], points=[0.3, 0.5])[0],
               lambda p: p[0] * (0.045 + (p[1] - 0.3) ** 2 / 2.0)),
    "recorded points": (lambda p: quad(lambda x: abs(x - p[2]), 0, p[1], points=[p[2]])[0],
                        lambda p: (p[2] ** 2 + (p[1] - p[2]) ** 2) / 2.0),
    "a jump at a recorded point": (
        lambda p: quad(lambda x: p[0] * x if x < p[2] else x * x, 0, p[1], points=[p[2], 0.1])[0],
        lambda p: p[0] * p[2] ** 2 / 2.0 + (p[1] ** 3 - p[2] ** 3) / 3.0,
    ),
    "jumps of a vector": (jumps, lambda p: p[2] + 3.0 * (p[2] ** 2 / 2.0 + p[1] - p[2])),
    "branches": (lambda p: quad(branching, 0, p[1], args=(p,), points=[0.5, 0.8])[0],
                 lambda p: p[0] / 8.0 + p[1] * 0.387 / 3.0 + p[1] - 0.8),
    "math": (lambda p: quad(lambda x: math.exp(-p[0] * x), 0, 1)[0],
             lambda p: between(p[0], 0, 1)),
    "a method": (lambda p: quad(Decay(p[0]).at, 0, p[1])[0],
                 lambda p: between(p[0], 0, p[1])),
    "an object": (lambda p: quad(Decay(p[0]), 0, p[1])[0],
                  lambda p: between(p[0], 0, p[1])),
    "a helper": (helper, lambda p: p[1] * between(p[0], 0, p[2])),
    "by its module": (lambda p: quadrature.quad(lambda x: p[0] * x, 0, p[1])[0],
                      lambda p: p[0] * p[1] ** 2 / 2.0),
    "in a loop": (in_a_loop, lambda p: powers(p, p[2], p[1])),
    "special functions": (lambda p: quad(lambda x: scipy.special.erf(p[0] * x), 0, 1)[0],
                          lambda p: scipy.special.erf(p[0])
                          + (np.exp(-p[0] ** 2) - 1.0) / (ROOT * p[0])),
    "nested": (lambda p: quad(lambda x: x * quad(lambda y: p[0] * y, 0, p[1] * x)[0], 0, p[2])[0],
               lambda p: p[0] * p[1] ** 2 * p[2] ** 4 / 8.0),
    "a derivative inside": (
        lambda p: quad(lambda x: tg.grad(lambda a: np.exp(-a * x))(p[0]), 0, p[1])[0],
        lambda p: tg.grad(between)(p[0], 0.0, p[1])),
    "weight cos": (lambda p: quad(lambda x: p[2], p[2], p[1], weight="cos", wvar=p[0])[0],
                   lambda p: p[2] * (np.sin(p[0] * p[1]) - np.sin(p[0] * p[2])) / p[0]),
    "weight sin": (lambda p: quad(lambda x: p[2], p[2], p[1], weight="sin", wvar=p[0])[0],
                   lambda p: p[2] * (np.cos(p[0] * p[2]) - np.cos(p[0] * p[1])) / p[0]),
    "weight sin to infinity": (
        lambda p: quad(lambda x: np.exp(-p[1] * x), 0, np.inf, weight="sin", wvar=2.0)[0],
        lambda p: 2.0 / (p[1] ** 2 + 4.0)),
    "weight cauchy": (lambda p: quad(lambda x: p[0] * x, 0, p[1], weight="cauchy", wvar=p[2])[0],
                      lambda p: p[0] * (p[1] + p[2] * np.log((p[1] - p[2]) / p[2]))),
    "weight alg": (lambda p: quad(lambda x: p[0], p[2], p[1], weight="alg", wvar=(0.5, -0.5))[0],
                   lambda p: p[0] * (p[1] - p[2]) * math.pi / 2.0),
    "weight alg-loga": (
        lambda p: quad(lambda x: p[0], p[2], p[1], weight="alg-loga", wvar=(0.0, 0.0))[0],
        lambda p: p[0] * (p[1] - p[2]) * (np.log(p[1] - p[2]) - 1.0)),
    "weight alg-logb": (
        lambda p: quad(lambda x: p[0] * x, 0, p[1], weight="alg-logb", wvar=(0.0, 0.0))[0],
        lambda p: p[0] * p[1] ** 2 * (np.log(p[1]) - 1.5) / 2.0),
    "weight alg-log": (
        lambda p: quad(lambda x: p[0], p[2], p[1], weight="alg-log", wvar=(0, 0))[0],
        lambda p: p[0] * (p[1] - p[2])
        * ((np.log(p[1] - p[2]) - 1.0) ** 2 + 1.0 - math.pi**2 / 6.0)),
    "complex": (by_complex, lambda p: waves(p[0], p[1])),
    "dblquad": (region, lambda p: p[0] * (1.0 - p[2] ** 2) * (p[1] ** 4 - p[2] ** 4) / 8.0),
    "nquad": (corner, lambda p: p[2] * p[1] ** 2 * p[0] ** 4 / 24.0),
    "nquad of one": (lambda p: nquad(lambda x, a: a * x, [[0, p[1]]], args=(p[0],))[0],
                     lambda p: p[0] * p[1] ** 2 / 2.0),
    "nquad with points": (split, lambda p: p[0] * (p[1] / 2.0 - p[1] ** 2 / 2.0 + p[1] ** 3 / 3.0)),
    "dblquad of a region without parameters": (
        lambda p: dblquad(
            lambda y, x, a: a * p[1] * x * y, 0, 1, lambda x: x / 2, lambda x: x, (p[0],)
        )[0],
        lambda p: p[0] * p[1] * 3.0 / 32.0,
    ),
    "nquad with args in limits": (
        lambda p: nquad(lambda x, y, a: a * x, [lambda y, a: [0, a * y], [0, 1]], args=(p[0],))[0],
        lambda p: p[0] ** 3 / 6.0,
    ),
    "nquad with options": (
        lambda p: nquad(
            lambda x, y: p[0] ** 2 * abs(x - y),
            [[0, 1], [0, 1]],
            opts=[lambda y: {"points": [y]}, {}],
        )[0],
        lambda p: p[0] ** 2 / 3.0,
    ),
    "tplquad of a region without parameters": (
        lambda p: tplquad(
            lambda z, y, x: p[0] * p[1] * z, 0, 1, 0, lambda x: x, 0, lambda x, y: x * y
        )[0],
        lambda p: p[0] * p[1] / 36.0,
    ),
    "tplquad": (pyramid, lambda p: p[0] * (1.0 - p[2] ** 2) * p[1] ** 4 / 24.0),
    "quad_vec": (by_vector, lambda p: between(p[0], 0.0, p[2]) + 2.0 * between(p[1], 0.0, p[2])),
    "quad_vec of a matrix": (matrix, lambda p: 4.0 * np.sum((p[:2, None] * p[1:]) ** 2)),
    "quad_vec, complex": (by_complex_vector, lambda p: waves(p[0], 1.0) + waves(p[1], 1.0)),
}  # fmt: skip
SLOW = ("tplquad", "nquad")
#: Integrals that SciPy finds to fewer digits.
ROUGH = {"weight sin to infinity": 1e-7, "a singular end": 1e-7}


def close(found, wanted, name=""):
    tolerance = ROUGH.get(name, 1e-8)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", INTEGRALS)
def test_values_are_scipys(name):
    f, formula = INTEGRALS[name]
    plain = f(P)  # by SciPy's own functions
    close(plain, formula(P), name)
    np.testing.assert_allclose(tg.value_and_grad(f)(P)[0], plain, rtol=1e-15)
    np.testing.assert_allclose(tg.compile(f)(P), plain, rtol=1e-15)


@pytest.mark.parametrize("name", INTEGRALS)
def test_derivatives_are_those_of_closed_forms(name):
    f, formula = INTEGRALS[name]
    close(tg.grad(f)(P), tg.grad(formula)(P), name)
    direction = np.array([0.3, -1.0, 2.0])
    close(tg.jvp(f, (P,), (direction,))[1], tg.grad(formula)(P) @ direction, name)
    if name not in SLOW:
        close(tg.hessian(f)(P), tg.hessian(formula)(P), name)


@pytest.mark.parametrize("name", INTEGRALS)
def test_compiled_functions_have_them(name):
    f, formula = INTEGRALS[name]
    c = tg.compile(f)
    for k in range(3):
        p = P + 0.03 * k
        value, gradient = c.value_and_grad(p)
        close(value, formula(p), name)
        close(gradient, tg.grad(formula)(p), name)
    if name not in SLOW:
        close(c.hessian(P + 0.05), tg.hessian(formula)(P + 0.05), name)


def test_third_derivatives():
    third = tg.grad(tg.grad(tg.grad(lambda a: quad(lambda x: np.exp(-a * x), 0, 1)[0])))
    close(third(1.3), tg.grad(tg.grad(tg.grad(lambda a: between(a, 0.0, 1.0))))(1.3))


def test_a_jacobian_and_a_batch():
    def several(p):
        return np.array([quad(lambda x: np.exp(-p[0] * x), 0, p[1])[0], p[2]])

    wanted = tg.jacobian(lambda p: np.array([between(p[0], 0, p[1]), p[2]]))(P)
    close(tg.jacobian(several)(P), wanted)
    batch = np.stack([P, P + 0.1])
    found = tg.vmap(tg.grad(lambda p: several(p)[0]))(batch)
    close(found, [tg.grad(lambda p: between(p[0], 0, p[1]))(p) for p in batch])


def test_a_compiled_loop_over_data():
    @tg.compile
    def misfit(p, times):
        total = 0.0
        for t in times:
            total = total + (quad(lambda x: np.exp(-p[0] * x), 0, t)[0] - p[1]) ** 2
        return total

    def formula(p, times):
        return sum((between(p[0], 0.0, t) - p[1]) ** 2 for t in times)

    for k in range(3):
        times = np.array([0.5, 1.0, 2.0]) + 0.1 * k
        close(misfit.grad(P, times), tg.grad(formula)(P, times))


def test_another_branch_of_a_compiled_function():
    @tg.compile
    def f(p):
        if p[0] > 1.0:
            return quad(lambda x: np.exp(-p[0] * x), 0, p[1])[0]
        return quad(lambda x: p[1] * x if p[0] > 0.5 else p[0] * x * x, 0, p[2])[0]

    for first in (1.3, 0.8, 1.4, 0.3, 0.9, 0.2, 1.5, 0.7):
        p = np.array([first, 0.9, 0.4])
        wanted = between(p[0], 0, p[1]) if first > 1.0 else p[1] * p[2] ** 2 / 2.0
        close(f(p), p[0] * p[2] ** 3 / 3.0 if first < 0.5 else wanted)
        close(f.grad(p), tg.grad(f._f)(p))


def test_error_estimates_are_plain_numbers():
    plain = quad(lambda x: np.exp(-1.3 * x), 0, 0.9)
    seen = []

    def f(p):
        made = quad(lambda x: np.exp(-p[0] * x), 0, p[1])
        seen.append(made[1])
        return made[0]

    tg.grad(f)(P)
    assert seen == [plain[1]] and type(seen[0]) is float


def test_full_output_is_scipys():
    wanted = quad(lambda x: np.exp(-1.3 * x), 0, 0.9, full_output=1)
    found = []
    tg.grad(
        lambda p: found.append(quad(lambda x: np.exp(-p[0] * x), 0, p[1], full_output=1)) or p[0]
    )(P)
    (_, error, details), (_, wanted_error, wanted_details) = found[0], wanted
    assert error == wanted_error and details["neval"] == wanted_details["neval"]
    assert np.array_equal(details["alist"][:1], wanted_details["alist"][:1])
    count = []
    tg.grad(
        lambda p: count.append(nquad(lambda x, y: p[0], [[0, 1], [0, 1]], full_output=True)) or p[0]
    )(P)
    assert count[0][2] == {"neval": 441}


def test_plain_calls_return_what_scipy_does():
    found = tg.scipy.integrate.quad(lambda x: 2.0 * x, 0, 1)
    assert found == quad(lambda x: 2.0 * x, 0, 1) and type(found[0]) is float
    for compiled in (COSINE, scipy.LowLevelCallable(COSINE)):
        assert tg.scipy.integrate.quad(compiled, 0, 1) == quad(compiled, 0, 1)
    vector = tg.scipy.integrate.quad_vec(lambda x: x * np.ones(2), 0, 1)
    assert type(vector[0]) is np.ndarray


def test_tensors_as_in_pytorch():
    t = tg.tensor(P, requires_grad=True)
    value, error = tg.scipy.integrate.quad(lambda x: tg.exp(-t[0] * x), 0, t[1])
    assert type(error) is float
    value.backward()
    close(t.grad.numpy(), tg.grad(lambda p: between(p[0], 0, p[1]))(P))


def test_float32_parameters():
    p = P.astype(np.float32)
    found = tg.grad(lambda p: quad(lambda x: np.exp(-p[0] * x), 0, p[1])[0])(p)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tg.grad(lambda p: between(p[0], 0, p[1]))(P), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 300])
def test_many_parameters(n):
    orders = np.arange(1, n + 1)

    def f(q):
        return quad(lambda x: np.sum(q * np.cos(orders * x / n)), 0, 1)[0]

    close(tg.grad(f)(np.ones(n)), np.sin(orders / n) * n / orders)


def test_no_parameters_left():
    close(tg.grad(lambda p: quad(lambda x: 2.0, 0, p[1])[0])(P), [0.0, 2.0, 0.0])
    close(tg.grad(lambda p: quad(lambda x, q: x, 0, 1, args=(p,))[0] + p[0])(P), [1.0, 0.0, 0.0])
    close(tg.grad(lambda q: quad(lambda x: x + np.sum(q), 0, 1)[0])(np.zeros(0)), np.zeros(0))


class Scale:
    value = 1.0


SCALE, SCALES, KEPT = np.array([1.0]), [1.0], Scale()
#: Integrands that read data from outside, in variables and in arguments.
READING = {
    "an array": lambda p: quad(lambda x: SCALE[0] * np.exp(-p[0] * x), 0, p[1])[0],
    "a list": lambda p: quad(lambda x: SCALES[0] * np.exp(-p[0] * x), 0, p[1])[0],
    "an attribute": lambda p: quad(lambda x: KEPT.value * np.exp(-p[0] * x), 0, p[1])[0],
    "an array in args": lambda p: quad(
        lambda x, s: s[0] * np.exp(-p[0] * x), 0, p[1], args=(SCALE,)
    )[0],
    "a list in args": lambda p: quad(
        lambda x, s: s[0] * np.exp(-p[0] * x), 0, p[1], args=(SCALES,)
    )[0],
    "an object in args": lambda p: quad(
        lambda x, s: s.value * np.exp(-p[0] * x), 0, p[1], args=(KEPT,)
    )[0],
}


@pytest.mark.parametrize("name", READING)
def test_data_of_the_integrand_may_change_between_calls(name):
    f = READING[name]
    compiled = tg.compile(f)
    wanted = tg.grad(lambda p: between(p[0], 0, p[1]))(P)
    for k in range(6):
        SCALE[0] = SCALES[0] = KEPT.value = 1.0 + k // 2
        close(tg.grad(f)(P), SCALE[0] * wanted)
        close(compiled.grad(P), SCALE[0] * wanted)


def test_data_that_change_before_the_derivative_are_noticed():
    def f(p):
        scale, total = np.zeros(1), 0.0
        for k in range(2):
            scale[0] = k + 1.0
            total = total + quad(lambda x: scale[0] * np.exp(-p[0] * x), 0, 1)[0]
        return total

    with pytest.raises(
        RuntimeError, match="quad: the derivative calls the function again, .* args"
    ):
        tg.grad(f)(P)


class Held:
    value = None


@pytest.mark.parametrize("b", [lambda p: 1.0, lambda p: p[1]])
@pytest.mark.parametrize("transform", [tg.grad, tg.compile])
def test_values_that_are_not_found_are_refused(transform, b):
    def f(p):
        Held.value = p[0]
        try:
            return quad(lambda x: Held.value * x, 0, b(p))[0]
        finally:
            Held.value = None

    with pytest.raises(
        tg.DerivativeLost, match="quad: .* is not found .* give it the value in args"
    ):
        tg.grad(f)(P) if transform is tg.grad else tg.compile(f).grad(P)


def test_refused_arguments():
    with pytest.raises(TypeError, match="wvar is recorded, .* write the powers into"):
        tg.grad(lambda p: quad(lambda x: x, 0, 1, weight="alg", wvar=(p[0], p[1]))[0])(P)
    for compiled in (COSINE, scipy.LowLevelCallable(COSINE)):
        with pytest.raises(TypeError, match="compiled code, .* give a function of Python"):
            tg.grad(lambda p: quad(compiled, 0, p[0])[0])(P)


def test_errors_and_warnings_are_scipys():
    with pytest.raises(ZeroDivisionError):
        tg.grad(lambda p: quad(lambda x: p[0] * (1 / 0), 0, 1)[0])(P)
    with pytest.raises(ValueError, match="not a recognized weighting function"):
        tg.grad(lambda p: quad(lambda x: p[0], 0, 1, weight="tan", wvar=1.0)[0])(P)
    with pytest.warns(quadrature.IntegrationWarning, match="maximum number of subdivisions"):
        tg.grad(lambda p: quad(lambda x: p[0] / x, 0, 1)[0])(P)


def test_threads():
    c = tg.compile(in_a_loop)
    c.grad(P)
    found = []

    def run(k):
        found.extend([(k, c.grad(P + 0.1 * k)) for _ in range(10)])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
    [one.start() for one in threads], [one.join() for one in threads]
    wanted = [tg.grad(lambda p: powers(p, p[2], p[1]))(P + 0.1 * k) for k in range(3)]
    assert len(found) == 30
    for k, gradient in found:
        close(gradient, wanted[k])


class Plant:
    def __init__(self):
        self.gain, self.power, self.load = 1.0, 3, np.array([1.0, 2.0])

    def flow(self, x, p):
        return p * x**self.power + self.gain * x - np.sum(self.load)

    def total(self, p):
        return quad(self.flow, 0, p, args=(p,))[0]


def test_attributes_of_a_compiled_method():
    plant = Plant()
    c = tg.compile(plant.total)
    for name, value in (("gain", 1.0), ("gain", 2.0), ("power", 5), ("load", np.ones(2))):
        setattr(plant, name, value)
        for p in (2.0, 2.5):
            np.testing.assert_allclose(c(p), plant.total(p), rtol=1e-14)
            close(c.grad(p), tg.grad(plant.total)(p))
            formula = plant.power / (plant.power + 1) + 2.0 / (plant.power + 1)
            slope = formula * p ** (plant.power + 1) + plant.gain * p - np.sum(plant.load)
            close(c.grad(p), slope)


def test_variables_and_limits_that_change():
    gain = 1.0

    def scaled(x):
        return gain * x

    def area(p):
        return quad(lambda x: p * scaled(x) + gain, 0, p)[0]

    def region(p):
        return dblquad(lambda y, x: p * x * y, 0, 1, 0, lambda x: gain)[0]

    compiled = tg.compile(area), tg.compile(region)
    for gain in (1.0, 2.0, 0.5):
        for p in (2.0, 2.5):
            close(compiled[0].grad(p), gain * (1.5 * p**2 + 1.0))
            close(compiled[1].grad(p), gain**2 / 4.0)
            close(tg.grad(region)(p), gain**2 / 4.0)


def test_a_value_without_derivative_that_is_not_found_is_no_constant_of_a_program():
    def f(p):
        Held.value = tg.stop_gradient(2.0 * p)
        return quad(lambda x: p * x + Held.value, 0, 1)[0]

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        c(2.0)
    for p in (2.0, 2.5, 3.0):
        close([c(p), c.grad(p)], [2.5 * p, 0.5])
    Held.value = None

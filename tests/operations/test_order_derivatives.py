"""Derivatives by orders of Bessel functions, by parameters and exponents, against mpmath."""

import mpmath
import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad.scipy import special

#: Orders: tiny, ordinary, near whole numbers and halves, large; of both signs.
ORDERS = [1e-9, 1e-3, 0.3, 0.5, 1.0, 1.0 + 1e-9, 1.5 - 1e-7, 2.0, 3.7, 8.0, 19.5, 60.2, 300.0]
ORDERS += [-0.4, -0.5, -1.0, -2.0 + 1e-8, -3.3, -12.5]
POINTS = [1e-4, 0.02, 0.7, 2.9, 3.1, 8.0, 19.0, 21.0, 75.0, 400.0]
RNG = np.random.default_rng(3)


def spread(low, high, count):
    return np.exp(RNG.uniform(np.log(low), np.log(high), count))


def of_bessel():
    v, x = np.meshgrid(ORDERS, POINTS)
    return v.ravel(), x.ravel()


def of_hyp1f1():
    b = np.concatenate([spread(1e-2, 20.0, 30), [-0.4, -1.5, -3.3]])
    return RNG.uniform(-6.0, 8.0, 33), b, RNG.choice([-1.0, 1.0], 33) * spread(1e-3, 30.0, 33)


def of_hyp2f1():
    c = np.concatenate([spread(1e-2, 20.0, 30), [-0.4, -1.5, -3.3]])
    return RNG.uniform(-4.0, 5.0, 33), RNG.uniform(-4.0, 5.0, 33), c, RNG.uniform(-1.5, 0.95, 33)


def of_zeta():
    return np.concatenate([1.0 + spread(1e-3, 40.0, 30), [2.0, 3.0]]), spread(1e-2, 50.0, 32)


def of_riemann():
    below = [-20.5, -7.3, -4.0, -2.0, -1.0, -0.3, -1e-9, 0.0, 1e-3, 0.5, 0.999]
    return (np.concatenate([below, 1.0 + spread(1e-3, 50.0, 20)]),)


#: By name: points, mpmath's function, the argument, bounds of relative errors.
CASES = {
    "iv": (of_bessel, mpmath.besseli, 0, (1e-12, 1e-12)),
    "ive": (of_bessel, lambda v, x: mpmath.besseli(v, x) * mpmath.exp(-x), 0, (1e-12, 1e-12)),
    "jv": (of_bessel, mpmath.besselj, 0, (5e-12, 1e-9)),
    "jve": (of_bessel, mpmath.besselj, 0, (5e-12, 1e-9)),
    "yv": (of_bessel, mpmath.bessely, 0, (5e-12, 1e-9)),
    "yve": (of_bessel, mpmath.bessely, 0, (5e-12, 1e-9)),
    "hyp1f1 a": (of_hyp1f1, mpmath.hyp1f1, 0, (1e-11, 1e-9)),
    "hyp1f1 b": (of_hyp1f1, mpmath.hyp1f1, 1, (1e-11, 1e-9)),
    "hyp2f1 a": (of_hyp2f1, mpmath.hyp2f1, 0, (5e-11, 2e-9)),
    "hyp2f1 b": (of_hyp2f1, mpmath.hyp2f1, 1, (5e-11, 2e-9)),
    "hyp2f1 c": (of_hyp2f1, mpmath.hyp2f1, 2, (5e-11, 2e-9)),
    "zeta": (of_zeta, mpmath.zeta, 0, (1e-12, 1e-12)),
    "zeta of one": (of_riemann, mpmath.zeta, 0, (2e-12, 1e-11)),
}


def derivatives(f, points, k, order):
    """The derivatives by argument k at all points."""

    def of_one(x):
        return f(*points[:k], x, *points[k + 1 :])

    def slope(x):
        return tg.jvp(of_one, (x,), (np.ones_like(x),))[1]

    return tg.jvp(of_one if order == 1 else slope, (points[k],), (np.ones_like(points[k]),))[1]


def exact(f, point, k, order):
    """By differences of many digits."""
    at = [mpmath.mpf(float(one)) for one in point]
    with mpmath.workdps(70):
        h = mpmath.mpf(10) ** -14
        a, b, c, d, e = [mpmath.re(f(*at[:k], at[k] + j * h, *at[k + 1 :])) for j in range(-2, 3)]
        if order == 1:
            return (a - 8 * b + 8 * d - e) / (12 * h)
        return (-a + 16 * b - 30 * c + 16 * d - e) / (12 * h * h)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_against_mpmath(name, order):
    made, wanted, k, bounds = CASES[name]
    f, points = getattr(special, name.split()[0]), made()
    values, found = f(*points), derivatives(f, points, k, order)
    worst = compared = 0
    for i in np.flatnonzero((np.abs(values) > 1e-280) & (np.abs(values) < 1e280)):
        right = exact(wanted, [one[i] for one in points], k, order)
        # beside a zero of the derivative digits are those of the value
        size = max(abs(right), 0.1 * abs(values[i]) if name[0] in "jyh" else 0)
        error = abs(found[i] - right) / size
        assert error <= bounds[order - 1], ([one[i] for one in points], found[i], right)
        worst, compared = max(worst, error), compared + 1
    assert compared >= 0.6 * len(values) and worst > 0


@pytest.mark.parametrize(
    "name, at", [("hyp1f1", (1.2, 2.3, 0.4)), ("hyp2f1", (1.2, 0.7, 2.3, 0.4))]
)
def test_hessians(name, at):
    f = getattr(special, name)
    found = tg.hessian(lambda x: f(*x))(np.array(at))
    for k in range(len(at)):

        def slopes(one, k=k):
            return np.array(tg.grad(f, tuple(range(len(at))))(*at[:k], one, *at[k + 1 :]))

        np.testing.assert_allclose(found[k], difference(slopes, at[k]), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found, found.T, rtol=1e-10)


def difference(f, x, h=1e-3):
    return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)


@pytest.mark.parametrize("name", ["iv", "ive", "jv", "yv", "zeta"])
def test_mixed_with_the_argument(name):
    f, at = getattr(special, name), (1.7, 2.6)
    found = tg.hessian(lambda x: f(x[0], x[1]))(np.array(at))
    for k in range(2):
        for j in range(2):

            def slope(one, j=j, k=k):
                given = list(at)
                given[k] = one
                return tg.grad(f, j)(*given)

            assert found[j, k] == pytest.approx(difference(slope, at[k]), rel=1e-9)
            assert found[j, k] == found[k, j] or abs(found[j, k] / found[k, j] - 1) < 1e-10


def test_orders_of_zero():
    """The part that does not change its sign with the order is left out exactly."""
    x = np.array([0.3, 5.0, 30.0, 300.0])
    slope = derivatives(special.iv, (np.zeros(4), x), 0, 1)
    np.testing.assert_allclose(slope, -scipy.special.k0(x), rtol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_noise_is_refused():
    """Where SciPy's values jump the derivative is NaN, never a number of noise."""
    a, b, c, x = 5.124284856287101, 1.6535902468305492, 14.302002874961723, -2.690208334286491
    exact_slope = float(exact(mpmath.hyp2f1, (a, b, c, x), 0, 1))
    found = tg.grad(special.hyp2f1)(a, b, c, x)
    assert np.isnan(found) or found == pytest.approx(exact_slope, rel=1e-10)
    assert np.isnan(tg.grad(special.hyp1f1, 1)(0.3, -2.0, 0.5))
    assert np.isnan(tg.grad(special.jv)(0.5, -1.0)) and np.isnan(tg.grad(special.zeta)(0.5, 2.0))


def order_of(v, x):
    return np.sum(scipy.special.jv(v, x) + scipy.special.iv(v, x) * scipy.special.zeta(1.0 + v, x))


@pytest.mark.parametrize("native", [False, True])
def test_programs(native):
    c = tg.compile(order_of, native=native)
    for v in (0.3, 1.2, 2.5):
        x = np.array([0.4, 1.7, 5.0]) + v
        value, gradient = c.value_and_grad(v, x)
        assert value == pytest.approx(order_of(v, x), rel=1e-12)
        assert gradient == pytest.approx(tg.grad(order_of)(v, x), rel=1e-11)


def test_third_derivatives_by_an_order_are_refused():
    f = special.jv
    twice = tg.grad(tg.grad(f))
    with pytest.raises(
        TypeError, match=r"jv\(\) has no derivative with respect to v, its order, a"
    ):
        tg.grad(twice)(1.5, 0.7)

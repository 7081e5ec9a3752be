"""SciPy's classes of distributions, `Normal` and the like, held against its methods and objects."""

import numpy as np
import pytest
from scipy import stats

import tapegrad as tg
from tapegrad.scipy import stats as ours

X, P = np.array([0.3, 1.2, 2.0]), np.array([0.2, 0.5, 0.9])
METHODS = {
    **dict.fromkeys("pdf logpdf cdf ccdf logcdf logccdf".split(), (X,)),
    **dict.fromkeys("icdf iccdf".split(), (P,)),
    **dict.fromkeys("ilogcdf ilogccdf".split(), (np.log(P),)),
    **dict.fromkeys(
        "mean median variance standard_deviation skewness kurtosis entropy".split(), ()
    ),
}
OBJECTS = {
    "Normal": lambda s, a: s.Normal(mu=0.3 * a, sigma=1.0 + a),
    "Uniform": lambda s, a: s.Uniform(a=-a, b=2.0 + a),
}
OUTSIDE = stats.Normal(mu=0.5, sigma=1.2)


def derivative(f, at, h=1e-3):
    slopes = [(f(at + k) - f(at - k)) / (2 * k) for k in (h, h / 2, h / 4)]
    first, second = (4 * slopes[1] - slopes[0]) / 3, (4 * slopes[2] - slopes[1]) / 3
    return (16 * second - first) / 15


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("method", METHODS)
def test_methods_to_parameters(name, method):
    def of(space):
        return lambda a: np.sum(getattr(OBJECTS[name](space, a), method)(*METHODS[method]))

    f, plain = of(ours), of(stats)
    wanted = derivative(plain, 0.7)
    assert f(0.7) == pytest.approx(plain(0.7), rel=1e-12)
    for found in (tg.grad(f)(0.7), tg.jvp(f, (0.7,), (1.0,))[1], tg.compile(tg.grad(f))(0.7)):
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-9)


def test_points_of_objects_made_outside():
    def f(x):
        return np.sum(OUTSIDE.logpdf(x) + OUTSIDE.cdf(0.0, x))

    np.testing.assert_allclose(
        tg.grad(f)(X), -(X - 0.5) / 1.44 + stats.norm.pdf(X, 0.5, 1.2), rtol=1e-13
    )


def test_plain_imports_and_classes():
    def f(m):
        X = stats.Normal(mu=m, sigma=1.2)
        assert isinstance(X, stats.Normal)
        return np.sum(X.logpdf(P)) + stats.Normal().ccdf(m) + X.mu

    wanted = np.sum(P - 0.4) / 1.44 - stats.norm.pdf(0.4) + 1.0
    assert tg.grad(f)(0.4) == pytest.approx(wanted, rel=1e-13)


def test_plain_objects_are_scipys():
    made = ours.Normal(mu=1.0, sigma=2.0)
    assert isinstance(made, stats.Normal) and isinstance(made, ours.Normal)
    assert made.cdf(0.3) == stats.Normal(mu=1.0, sigma=2.0).cdf(0.3)
    assert made.mode() == 1.0 and made.mu == 1.0


@pytest.mark.parametrize("method", ["mode", "sample", "moment", "logentropy"])
def test_others_refuse_by_name(method):
    with pytest.raises(tg.DerivativeLost, match=rf"scipy\.stats\.Normal\.{method}\(\)"):
        tg.grad(lambda m: getattr(ours.Normal(mu=m, sigma=1.0), method)())(0.3)


def test_whole_numbers():
    if not hasattr(stats, "Binomial"):
        pytest.skip("not in this version of SciPy")
    found = tg.grad(lambda p: ours.Binomial(n=5, p=p).logpmf(2))(0.3)
    assert found == pytest.approx(2 / 0.3 - 3 / 0.7, rel=1e-13)

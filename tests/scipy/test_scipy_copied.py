"""Functions of SciPy that run by copies of their code: beside SciPy and its differences."""

import numpy as np
import pytest
import scipy
import scipy.stats as theirs
from numpy.testing import assert_allclose

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad.scipy import stats as ours
from tapegrad.scipy._copied_code import COPIED

RNG = np.random.default_rng(7)
X, Y = RNG.uniform(0.5, 2.0, 9), RNG.uniform(0.5, 2.0, (3, 6))
W = RNG.uniform(0.5, 2.0, 9)
#: By name: functions of SciPy's module and an array.
EXPRESSIONS = {
    "describe": [lambda s, x: s.describe(x)[2:], lambda s, x: s.describe(x, axis=None, ddof=0)[3]],
    "differential_entropy": [lambda s, x: s.differential_entropy(x)],
    "directional_stats": [lambda s, x: s.directional_stats(x.reshape(3, -1)).mean_direction],
    "entropy": [lambda s, x: s.entropy(x), lambda s, x: s.entropy(x, x[::-1] ** 2, base=2)],
    "gmean": [lambda s, x: s.gmean(x), lambda s, x: s.gmean(x, axis=None, weights=x + 1)],
    "gstd": [lambda s, x: s.gstd(x)],
    "gzscore": [lambda s, x: s.gzscore(x)],
    "hmean": [lambda s, x: s.hmean(x), lambda s, x: s.hmean(x, keepdims=True)],
    "iqr": [lambda s, x: s.iqr(x), lambda s, x: s.iqr(x, rng=(20, 70), scale=2.0)],
    "kstat": [lambda s, x, k=k: s.kstat(x, k) for k in (1, 2, 3, 4)],
    "kstatvar": [lambda s, x, k=k: s.kstatvar(x, k) for k in (1, 2)],
    "kurtosis": [lambda s, x: s.kurtosis(x), lambda s, x: s.kurtosis(x, bias=False, axis=None)],
    "kurtosistest": [lambda s, x: s.kurtosistest(x.ravel()).statistic],
    "lmoment": [lambda s, x: s.lmoment(x.ravel()), lambda s, x: s.lmoment(x, 2)],
    "median_abs_deviation": [lambda s, x: s.median_abs_deviation(x, scale="normal")],
    "moment": [lambda s, x: s.moment(x, 3), lambda s, x: s.moment(x, 2, center=0.5, axis=None)],
    "obrientransform": [lambda s, x: s.obrientransform(x.ravel(), x.ravel() ** 2)],
    "pmean": [lambda s, x: s.pmean(x, 2.5), lambda s, x: s.pmean(x, -1.0, axis=None)],
    "quantile": [lambda s, x: s.quantile(x, 0.3), lambda s, x: s.quantile(x, 0.3, method="hazen")],
    "scoreatpercentile": [lambda s, x: s.scoreatpercentile(x, 30.0)],
    "sem": [lambda s, x: s.sem(x), lambda s, x: s.sem(x, ddof=0, axis=None)],
    "skew": [lambda s, x: s.skew(x), lambda s, x: s.skew(x, bias=False)],
    "skewtest": [lambda s, x: tuple(s.skewtest(x.ravel()))],
    "theilslopes": [lambda s, x: s.theilslopes(x.ravel())[:2]],
    "tmax": [lambda s, x: s.tmax(x, upperlimit=1.8)],
    "tmean": [lambda s, x: s.tmean(x), lambda s, x: s.tmean(x, (0.6, 1.9), axis=None)],
    "tmin": [lambda s, x: s.tmin(x, lowerlimit=0.6)],
    "trim1": [lambda s, x: s.trim1(x.ravel(), 0.2)],
    "trim_mean": [lambda s, x: s.trim_mean(x, 0.2)],
    "trimboth": [lambda s, x: s.trimboth(x.ravel(), 0.2)],
    "tsem": [lambda s, x: s.tsem(x, (0.6, 1.9), axis=None)],
    "tstd": [lambda s, x: s.tstd(x), lambda s, x: s.tstd(x, (0.6, 1.9), axis=None)],
    "tvar": [lambda s, x: s.tvar(x), lambda s, x: s.tvar(x, (0.6, 1.9), axis=None)],
    "variation": [lambda s, x: s.variation(x), lambda s, x: s.variation(x, ddof=1, axis=None)],
    "zmap": [lambda s, x: s.zmap(x, W[:6]), lambda s, x: s.zmap(x.ravel(), x.ravel() ** 2)],
    "zscore": [lambda s, x: s.zscore(x), lambda s, x: s.zscore(x, axis=None, ddof=1)],
}
pytestmark = pytest.mark.filterwarnings("ignore:.kurtosistest. p-value may be:UserWarning")
CASES = [(name, k) for name, every in EXPRESSIONS.items() for k in range(len(every))]


def numbers_in(result):
    """A sum of all elements, each with another factor."""
    parts = result if isinstance(result, tuple) else (result,)
    factors = [np.cos(k + np.arange(np.size(one))) for k, one in enumerate(parts)]
    return sum(np.sum(np.reshape(one, -1) * c) for one, c in zip(parts, factors, strict=True))


def of(name, k, module):
    return lambda x: numbers_in(EXPRESSIONS[name][k](module, x))


def differences(f, x):
    """A gradient by central differences, extrapolated."""
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[at] = 1.0
        slope = [float(f(x + h * e) - f(x - h * e)) / (2 * h) for h in (1e-3, 5e-4)]
        found[at] = (4 * slope[1] - slope[0]) / 3
    return found


def is_there(name):
    return hasattr(theirs, name)


def test_each_has_an_expression():
    assert {f"stats.{name}" for name in EXPRESSIONS} <= {*COPIED}


@pytest.mark.parametrize(("name", "k"), CASES)
@pytest.mark.parametrize("x", [X, Y], ids=["one axis", "two axes"])
def test_gradients(name, k, x):
    if not is_there(name):
        pytest.skip("not in this version of SciPy")
    f, plain = of(name, k, ours), of(name, k, theirs)
    code = getattr(theirs, name).__code__
    try:
        value = plain(x)
    except ValueError:  # functions of one axis
        pytest.skip("not for two axes")
    writes = name == "kurtosis" or (name == "skew" and x.ndim == 1)
    if np.lib.NumpyVersion(scipy.__version__) < "1.16.0" and k and writes:
        with pytest.raises(tg.DerivativeLost, match=f"stats.{name} has no derivative with these"):
            tg.grad(f)(x)  # 1.15 writes to an array without axes
        return
    wanted = differences(plain, x)
    for call in (tg.value_and_grad(f), *[tg.compile(f).value_and_grad] * 2):
        found, gradient = call(x)
        assert_allclose(found, value, rtol=1e-10)
        assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-7)
    assert getattr(theirs, name).__code__ is code


def test_second_derivatives():
    for name in ("gmean", "kurtosis", "zscore", "tvar", "kstat"):
        f = of(name, 0, ours)
        g = lambda x: np.sum(tg.grad(f)(x) * W)
        assert_allclose(tg.hessian(f)(X) @ W, differences(g, X), rtol=1e-6, atol=1e-8)
        assert_allclose(tg.hvp(f)(X, W), tg.hessian(f)(X) @ W, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("policy", ["propagate", "omit", "raise"])
def test_missing_values(policy):
    x = np.array([0.51, np.nan, 1.23, 0.87, 1.93, 0.74, 1.12, 1.46, 0.63])
    for name in ("gmean", "hmean", "sem", "skew", "kurtosis", "tmean", "variation"):
        f = lambda x: getattr(ours, name)(x, nan_policy=policy)
        plain = lambda x: getattr(theirs, name)(x, nan_policy=policy)
        if policy == "raise":
            with pytest.raises(ValueError, match="contains nan"):
                tg.grad(f)(x)
            continue
        value, gradient = tg.value_and_grad(f)(x)
        assert_allclose(value, plain(x), rtol=1e-12)
        if policy == "omit":
            assert_allclose(gradient, differences(plain, x), rtol=1e-7, atol=1e-9)


def test_entered_code_calls_them(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    f = lambda x: theirs.zscore(x)[0] * theirs.gmean(x)
    for call in (tg.grad(f), *[tg.compile(f).grad] * 3):
        assert_allclose(call(X), differences(f, X), rtol=1e-7, atol=1e-9)


def test_functions_of_scipy_stay_as_they_are():
    before = {name: vars(theirs._stats_py)[name] for name in ("gmean", "_chk_asarray", "np")}
    tg.grad(lambda x: ours.gmean(x) * ours.moment(x, 3))(X)
    assert {name: vars(theirs._stats_py)[name] for name in before} == before
    assert type(theirs.gmean(X)) is np.float64
    assert type(theirs.zscore(X)) is np.ndarray


def test_other_functions_refuse_by_name():
    for name, args in {"ecdf": (), "bws_test": (W,), "multiscale_graphcorr": (W,)}.items():
        with pytest.raises(tg.DerivativeLost, match=rf"scipy.stats.{name}\(\) takes plain values"):
            tg.grad(lambda x: tnp.sum(getattr(ours, name)(x, *args)))(X)
    with pytest.raises(tg.DerivativeLost, match=r"scipy.stats.describe has no derivative with"):
        tg.grad(lambda x: ours.describe(x, nan_policy="omit").variance)(np.r_[X, np.nan])

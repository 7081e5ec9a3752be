"""Tests, correlations, distances and bins of SciPy's `stats`: beside SciPy and its differences."""

import inspect
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.stats as theirs
from numpy.testing import assert_allclose
from scipy.stats import chi2_contingency, ttest_ind
from test_scipy_copied import differences, numbers_in

import tapegrad as tg
from tapegrad._entering.stand_ins import stand_in
from tapegrad.scipy import stats as ours
from tapegrad.scipy._copied_code import COPIED
from tapegrad.scipy._differentiable import is_before

#: Samples of which no two elements are close, so that ranks stay in differences.
RNG = np.random.default_rng(11)
_MIXED = RNG.permutation(36) / 12 + RNG.uniform(-0.02, 0.02, 36) + 0.45
X, Y, W, V = _MIXED.reshape(4, 9)
pytestmark = pytest.mark.filterwarnings("ignore:.kurtosistest. p-value may be:UserWarning")
U = np.cos(2.0 * np.arange(9))


def fields(*names):
    return lambda found: tuple(getattr(found, name) for name in names)


both = fields("statistic", "pvalue")
_LINE = fields("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr")
_POWERS = ("pearson", "log-likelihood", "freeman-tukey", "mod-log-likelihood", "neyman", 0.3)
_COMBINED = ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george")
_BINNED = ("mean", "sum", "count", "median", "min", "max", "std")

#: By name: functions of SciPy's module and a vector.
EXPRESSIONS = {
    "alexandergovern": [lambda s, x: both(s.alexandergovern(x, Y, W[:6]))],
    "ansari": [lambda s, x: both(s.ansari(x, Y))],
    "bartlett": [lambda s, x: both(s.bartlett(x, Y, W[:6]))],
    "bayes_mvs": [
        lambda s, x: tuple(one.statistic for one in s.bayes_mvs(x)),
        lambda s, x: s.bayes_mvs(x, 0.8)[1].minmax,
    ],
    "binned_statistic": [
        *[lambda s, x, of=of: s.binned_statistic(Y, x, of, bins=2)[0] for of in _BINNED],
        lambda s, x: s.binned_statistic(x, Y, bins=2)[1],
    ],
    "binned_statistic_2d": [
        lambda s, x, of=of: s.binned_statistic_2d(Y, W, x, of, bins=1)[0] for of in _BINNED[:2]
    ],
    "binned_statistic_dd": [lambda s, x: s.binned_statistic_dd(Y[:, None], x, bins=3)[0]],
    "binomtest": [
        lambda s, x, of=of: s.binomtest(3, 7, x[0] / 4, of).pvalue
        for of in ("two-sided", "less", "greater")
    ],
    "boxcox": [lambda s, x: s.boxcox(x, 0.3), lambda s, x: s.boxcox(Y, x[0])],
    "boxcox_llf": [
        lambda s, x: s.boxcox_llf(0.3, x),
        lambda s, x: s.boxcox_llf(x[0] - x[1], Y),
        lambda s, x: s.boxcox_llf(0, x),
    ],
    "boxcox_normplot": [lambda s, x: s.boxcox_normplot(x, -1, 1, N=3)[1]],
    "brunnermunzel": [lambda s, x: both(s.brunnermunzel(x, Y))],
    "chatterjeexi": [lambda s, x: both(s.chatterjeexi(x, Y))],
    "chi2_contingency": [
        lambda s, x: s.chi2_contingency(x.reshape(3, 3))[:2],
        lambda s, x: s.chi2_contingency(x[:4].reshape(2, 2) * 9)[:2],
        lambda s, x: s.chi2_contingency(x.reshape(3, 3), lambda_="log-likelihood")[3],
    ],
    "chisquare": [
        lambda s, x: both(s.chisquare(x)),
        lambda s, x: both(s.chisquare(x, Y * x.sum() / Y.sum(), ddof=1)),
    ],
    **{
        name: [
            lambda s, x, name=name: getattr(s, name)(x),
            lambda s, x, name=name: getattr(s, name)(Y, high=3 + x[0], low=0.1 * x[1]),
        ]
        for name in ("circmean", "circstd", "circvar")
    },
    "combine_pvalues": [
        *[lambda s, x, of=of: both(s.combine_pvalues(x / 4, of)) for of in _COMBINED],
        lambda s, x: both(s.combine_pvalues(Y / 4, "stouffer", weights=x)),
    ],
    "cramervonmises_2samp": [lambda s, x: both(s.cramervonmises_2samp(x, Y))],
    "cumfreq": [lambda s, x: s.cumfreq(x, 4)[:3]],
    "energy_distance": [
        lambda s, x: s.energy_distance(x, Y),
        lambda s, x: s.energy_distance(W, Y, x, x[::-1]),
    ],
    "expectile": [
        lambda s, x: s.expectile(x, 0.3),
        lambda s, x: s.expectile(x, x[0] / 4, weights=x[::-1]),
    ],
    "f_oneway": [
        lambda s, x: both(s.f_oneway(x, Y, W[:6])),
    ],
    "false_discovery_control": [
        lambda s, x: s.false_discovery_control(x / 4),
        lambda s, x: s.false_discovery_control(x / 40, method="by"),
    ],
    "fligner": [lambda s, x: both(s.fligner(x, Y, W[:6]))],
    "friedmanchisquare": [lambda s, x: both(s.friedmanchisquare(x, Y, W))],
    "jarque_bera": [lambda s, x: both(s.jarque_bera(x))],
    "kendalltau": [lambda s, x: both(s.kendalltau(x, Y))],
    "kruskal": [lambda s, x: both(s.kruskal(x, Y, W[:6]))],
    "ks_1samp": [
        lambda s, x: both(s.ks_1samp(x, s.norm.cdf, args=(1.5, 0.7), method="asymp")),
        lambda s, x: both(s.ks_1samp(Y, s.norm.cdf, args=(x[0], x[1]), method="asymp")),
    ],
    "kstest": [
        lambda s, x: both(s.kstest(x, "norm", args=(1.5, 0.7), method="asymp")),
        lambda s, x: both(s.kstest(x, Y)),
    ],
    "ks_2samp": [lambda s, x: both(s.ks_2samp(x, Y))],
    "levene": [
        lambda s, x, of=of: both(s.levene(x, Y, W[:6], center=of))
        for of in ("mean", "median", "trimmed")
    ],
    "linregress": [lambda s, x: _LINE(s.linregress(x, Y)), lambda s, x: _LINE(s.linregress(Y, x))],
    "mannwhitneyu": [lambda s, x: both(s.mannwhitneyu(x, Y))],
    "median_test": [lambda s, x: s.median_test(x, Y)[:3]],
    "mode": [lambda s, x: s.mode(x).mode],
    "mood": [lambda s, x: both(s.mood(x, Y))],
    "mvsdist": [lambda s, x: tuple(one.std() for one in s.mvsdist(x))],
    "normaltest": [lambda s, x: both(s.normaltest(x))],
    "page_trend_test": [lambda s, x: both(s.page_trend_test(x.reshape(3, 3)))],
    "pearsonr": [
        lambda s, x: both(s.pearsonr(x, Y)),
        lambda s, x: both(s.pearsonr(Y, x, alternative="less")),
        lambda s, x: tuple(s.pearsonr(x, Y).confidence_interval(0.9)),
    ],
    "percentileofscore": [lambda s, x: s.percentileofscore(x, 1.6)],
    "pointbiserialr": [lambda s, x: both(s.pointbiserialr(Y > 1.8, x))],
    "power_divergence": [
        lambda s, x, of=of: both(s.power_divergence(x, lambda_=of)) for of in _POWERS
    ],
    "ppcc_plot": [lambda s, x: s.ppcc_plot(x, 0.1, 0.5, N=3)[1]],
    "probplot": [lambda s, x: (*s.probplot(x)[0], *s.probplot(x)[1])],
    "quantile_test": [lambda s, x: both(s.quantile_test(x, q=1.6))],
    "rankdata": [lambda s, x: s.rankdata(x)],
    "ranksums": [lambda s, x: both(s.ranksums(x, Y))],
    "relfreq": [lambda s, x: s.relfreq(x, 3)[1:3]],
    "shapiro": [
        lambda s, x: both(s.shapiro(x)),
        lambda s, x: both(s.shapiro(x[:3])),
        lambda s, x: both(s.shapiro(np.concatenate((x, Y)))),
    ],
    "siegelslopes": [
        lambda s, x: tuple(s.siegelslopes(x, Y)),
        lambda s, x: tuple(s.siegelslopes(Y, x, method="separate")),
    ],
    "sigmaclip": [
        lambda s, x: s.sigmaclip(x, 1.5, 1.5),
        lambda s, x: s.sigmaclip(Y, 9 + x[0], 9 + x[1])[2],
    ],
    "somersd": [lambda s, x: both(s.somersd(x, Y))],
    "spearmanr": [lambda s, x: both(s.spearmanr(x, Y))],
    "tiecorrect": [lambda s, x: s.tiecorrect(s.rankdata(x))],
    "ttest_1samp": [
        lambda s, x: tuple(s.ttest_1samp(x, 1.1).confidence_interval()),
        lambda s, x: both(s.ttest_1samp(x, 1.1)),
        lambda s, x: both(s.ttest_1samp(Y, x[0], alternative="less")),
    ],
    "ttest_ind": [
        lambda s, x: both(s.ttest_ind(x, Y)),
        lambda s, x: both(s.ttest_ind(x, Y, equal_var=False)),
        lambda s, x: both(s.ttest_ind(x, Y, trim=0.2, alternative="greater")),
    ],
    "ttest_ind_from_stats": [
        lambda s, x, equal=equal: both(
            s.ttest_ind_from_stats(x[0], x[1], 5, x[2], x[3], 7, equal_var=equal)
        )
        for equal in (True, False)
    ],
    "ttest_rel": [lambda s, x: both(s.ttest_rel(x, Y))],
    "wasserstein_distance": [
        lambda s, x: s.wasserstein_distance(x, Y),
        lambda s, x: s.wasserstein_distance(W, x, x, Y),
    ],
    "weightedtau": [lambda s, x: s.weightedtau(x, Y).statistic],
    "wilcoxon": [lambda s, x: both(s.wilcoxon(x, Y))],
    "yeojohnson": [lambda s, x: s.yeojohnson(x - 1.6, 0.3), lambda s, x: s.yeojohnson(Y - 2, x[0])],
    "yeojohnson_normplot": [lambda s, x: s.yeojohnson_normplot(x - 1.6, -1, 1, N=3)[1]],
    "yeojohnson_llf": [
        lambda s, x: s.yeojohnson_llf(0.3, x - 1.6),
        lambda s, x: s.yeojohnson_llf(x[0], Y - 2),
    ],
}
if "equal_var" in inspect.signature(theirs.f_oneway).parameters:
    EXPRESSIONS["f_oneway"].append(lambda s, x: both(s.f_oneway(x, Y, W[:6], equal_var=False)))
CASES = [(name, k) for name, every in EXPRESSIONS.items() for k in range(len(every))]
#: For two axes each: functions that take the samples along the first one, or along all.
ALONG = {
    "alexandergovern ansari bartlett brunnermunzel f_oneway fligner kruskal levene mannwhitneyu "
    "mood ttest_ind ttest_rel pearsonr wilcoxon ranksums cramervonmises_2samp": lambda f, x, y: f(
        x, y, axis=0
    ),
    "ttest_1samp": lambda f, x, y: f(x, y[0], axis=0),
    "jarque_bera normaltest chisquare power_divergence mode": lambda f, x, _: f(x, axis=0),
}


def of(name, k, module):
    return lambda x: numbers_in(EXPRESSIONS[name][k](module, x))


def test_each_is_entered_by_its_name():
    for name in [name for name in COPIED if name.startswith("stats.")]:
        own = name.rpartition(".")[2]
        module = theirs.contingency if "contingency" in name else theirs
        mine = ours.contingency if "contingency" in name else ours
        if hasattr(module, own):
            assert stand_in(getattr(module, own)) is getattr(mine, own)


@pytest.mark.parametrize(("name", "k"), CASES)
def test_derivatives(name, k):
    """In programs at other inputs, in which ranks and bins are others, and in both modes."""
    if name == "quantile_test" and not is_before("1.18.0"):
        pytest.skip("SciPy 1.18 asks a distribution of whole numbers, so that it has no program")
    f, plain = of(name, k, ours), of(name, k, theirs)
    (v, of_v), (x, of_x) = [(plain(one), differences(plain, one)) for one in (V, X)]
    program, eager = tg.compile(f).value_and_grad, tg.value_and_grad(f)
    for call, at in (
        (eager, X),
        (eager, V),
        (program, X),
        (program, X),
        (program, V),
        (program, X),
    ):
        found, gradient = call(at)
        assert_allclose(found, x if at is X else v, rtol=1e-11)
        assert_allclose(gradient, of_x if at is X else of_v, rtol=1e-7, atol=1e-8)
    assert_allclose(tg.jvp(f, (V,), (U,))[1], of_v @ U, rtol=1e-7, atol=1e-8)
    found = tg.vmap(tg.grad(f))(np.stack([V, X]))
    assert_allclose(found, [of_v, of_x], rtol=1e-7, atol=1e-8)
    second = differences(lambda x: tg.grad(f)(x) @ U, X)
    assert_allclose(tg.hvp(f)(X, U), second, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", " ".join(ALONG).split())
def test_several_samples(name):
    if "axis" not in inspect.signature(getattr(theirs, name)).parameters:
        pytest.skip("not in this version of SciPy")
    call = next(call for names, call in ALONG.items() if name in names.split())
    x, y = np.stack([X, Y, W], 1), np.stack([V, X + 0.013, Y + 0.017], 1)
    of = lambda s: lambda x: numbers_in(_first(call(getattr(s, name), x, y)))
    found, gradient = tg.value_and_grad(of(ours))(np.asfortranarray(x))
    assert_allclose(found, of(theirs)(x), rtol=1e-11)
    assert_allclose(gradient, differences(of(theirs), x), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_types_of_single_precision(name):
    if name in ("chisquare", "binned_statistic", "kendalltau", "shapiro"):
        pytest.skip("SciPy asks for sums more exactly; its bins and results are of float64")
    kinds = []

    def f(x):
        found = EXPRESSIONS[name][0](ours, x)
        kinds.extend([np.asarray(tg.stop_gradient(one)).dtype for one in _parts(found)])
        return numbers_in(found)

    x = X.astype(np.float32)
    value = tg.value_and_grad(f)(x)[0]
    plain = EXPRESSIONS[name][0](theirs, x)
    assert kinds == [np.asarray(one).dtype for one in _parts(plain)]
    assert_allclose(value, numbers_in(plain), rtol=1e-4)


def _first(found):
    return both(found) if hasattr(found, "statistic") else (found.mode,)


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


def test_entered_code_calls_them(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    f = lambda x: ttest_ind(x, Y).pvalue * theirs.pearsonr(x, W)[0]
    of_table = lambda x: theirs.contingency.chi2_contingency(x.reshape(3, 3))[1]
    same = lambda x: chi2_contingency(x.reshape(3, 3))[1]
    for g in (f, of_table, same):
        for call in (tg.grad(g), *[tg.compile(g).grad] * 3):
            assert_allclose(call(X), differences(g, X), rtol=1e-7, atol=1e-9)


def test_results_are_of_scipys_types():
    def f(x):
        found = ours.ttest_ind(x, Y)
        assert isinstance(found, type(theirs.ttest_ind(X, Y)))
        assert isinstance(ours.linregress(x, Y), type(theirs.linregress(X, Y)))
        return found.statistic + found.df

    tg.grad(f)(X)
    assert type(ours.ttest_ind(X, Y).pvalue) is np.float64


# --- parameters at which SciPy takes another formula ----------------------------------------------


@pytest.mark.parametrize("at", [0.0, 1e-9, -1e-5, 1.0, -3.0, 40.0])
def test_powers_of_box_and_cox(at):
    f = lambda x: ours.boxcox_llf(x[0], Y)
    x = np.array([at])
    rounded = 1e-6 if 0 < abs(at) < 1e-3 else 1e-11  # as SciPy's values are
    assert_allclose(tg.value_and_grad(f)(x)[0], theirs.boxcox_llf(at, Y), rtol=rounded)
    if abs(at) > 1e-3:
        wanted = differences(lambda x: theirs.boxcox_llf(x[0], Y), x)
    else:  # of the closed form, with b the transform of y at 0
        b = np.log(Y)
        wanted = np.sum(b) - 9 / 2 * np.mean((b - b.mean()) * (b**2 - np.mean(b**2))) / np.var(b)
    assert_allclose(tg.grad(f)(x), wanted, rtol=1e-4 if 0 < abs(at) < 1e-3 else 1e-8)
    assert_allclose(tg.compile(f).grad(x), tg.grad(f)(x), rtol=1e-12)


@pytest.mark.parametrize("at", [0.0, 2.0, 1.0, -0.5])
def test_powers_of_yeo_and_johnson(at):
    for s in (Y - 1.6, Y - 3.0, Y):
        f = lambda x: np.sum(ours.yeojohnson(s, x[0]) * W)
        plain = lambda x: np.sum(theirs.yeojohnson(s, x[0]) * W)
        x = np.array([at])
        h = np.array([2e-2])
        slopes = [(plain(x + h / k) - plain(x - h / k)) / (2 * h / k) for k in (1, 2, 4)]
        once = [(4 * slopes[k + 1] - slopes[k]) / 3 for k in (0, 1)]
        assert_allclose(tg.grad(f)(x), (16 * once[1] - once[0]) / 15, rtol=1e-7)
        assert_allclose(tg.value_and_grad(f)(x)[0], plain(x), rtol=1e-12)


def test_limits_of_frequencies():
    """SciPy's code writes to integers, so that programs call it."""
    f = lambda x: ours.relfreq(Y, 3, (0.2 * x[0], 3 + x[1]))[2]
    assert_allclose(tg.grad(f)(X)[:2], [-0.2 / 3, 1 / 3], rtol=1e-12)
    words = "runs eagerly.* int64 is written in place"
    warned = pytest.warns(RuntimeWarning, match=words) if is_before("1.18.0") else nullcontext()
    with warned:
        assert_allclose(tg.compile(f).grad(X)[:2], [-0.2 / 3, 1 / 3], rtol=1e-12)


@pytest.mark.parametrize("name", ["boxcox_normplot", "binned_statistic", "pearsonr"])
def test_tensors_outside_of_transforms(name):
    f = of(name, 0, ours)
    x = tg.tensor(X, requires_grad=True)
    f(x).backward()
    assert_allclose(x.grad.numpy(), tg.grad(f)(X), rtol=1e-12)


def test_statistics_of_zero():
    """Of two rows that are closer than the correction for continuity."""
    f = lambda x: numbers_in(ours.chi2_contingency(x.reshape(2, 2))[:2])
    x = np.array([3.0, 4.0, 3.1, 4.0])
    assert tg.value_and_grad(f)(x)[0] == numbers_in((0.0, 1.0))
    assert not tg.grad(f)(x).any()
    assert not tg.hessian(f)(x).any()


def test_samples_at_the_ends_of_shapiros_statistic():
    for x in ([1.0, 1.0, 1.0], [2.0] * 5, [1.0, 1.0, 2.0], [0.0] * 4 + [9.0], [0.0] * 15 + [9.0]):
        for field in ("statistic", "pvalue"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of equal elements
                wanted = getattr(theirs.shapiro(x), field)
            f = lambda x: getattr(ours.shapiro(x), field)
            found, gradient = tg.value_and_grad(f)(np.array(x))
            assert_allclose(found, wanted, rtol=1e-10, atol=1e-15)
            assert np.all(np.isfinite(gradient)) or not is_before("1.18.0")


def test_equal_samples():
    for of in (ours.wasserstein_distance, ours.energy_distance):
        assert tg.value_and_grad(lambda x: of(x, X))(X)[0] == 0.0
        assert not tg.grad(lambda x: of(x, X))(X).any()
    assert not tg.grad(lambda x: ours.mannwhitneyu(x, X).statistic)(X).any()


# --- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "boxcox": (lambda x: ours.boxcox(x)[0][0], "lmbda"),
    "boxcox alpha": (lambda x: ours.boxcox(x, alpha=0.1)[0][0], "lmbda"),
    "yeojohnson": (lambda x: ours.yeojohnson(x)[0][0], "lmbda"),
    "pearsonr": (
        lambda x: ours.pearsonr(x, Y, method=theirs.PermutationMethod(n_resamples=9))[1],
        "draws samples",
    ),
    "ttest_ind": (
        lambda x: ours.ttest_ind(x, Y, method=theirs.PermutationMethod(n_resamples=9))[1],
        "permutation_test",
    ),
    "power_divergence": (lambda x: ours.power_divergence(Y, lambda_=x[0])[0], "lambda_"),
    "bootstrap": (lambda x: ours.bootstrap((x,), np.mean).standard_error, "plain values"),
    **{
        name: (
            lambda x, name=name: getattr(ours, name)(x, Y, method=theirs.PermutationMethod())[0],
            "draws samples",
        )
        for name in ("mannwhitneyu", "wilcoxon")
    },
    "permutation_test": (
        lambda x: ours.permutation_test((x, Y), lambda x, y: x[0] - y[0]).pvalue,
        "plain values",
    ),
    "ks_1samp": (
        lambda x: ours.ks_1samp(x, ours.norm.cdf, method="exact").pvalue,
        "kstwo",
    ),
    "bws_test": (lambda x: ours.bws_test(x, Y).pvalue, "plain values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_by_name(name):
    f, reason = REFUSED[name]
    for call in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(tg.DerivativeLost, match=rf"stats\.{name.partition(' ')[0]}.*{reason}"):
            call(X)


def test_shapes_that_are_arrays():
    """As SciPy's code of bins gives them."""
    for shape in (np.array([3, 3]), np.array(9)):
        assert_allclose(tg.grad(lambda x: np.sum(x.reshape(shape)[:2] ** 2))(X)[:2], 2 * X[:2])
